"""What a pass leaves in the metrics."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from supervisor.act.carry_out import ActionOutcome, ActionResult
from supervisor.daemon.leader.record import Pass, Recorder
from supervisor.metrics import Metrics
from supervisor.model.actions import Assign, Conclude, Note, Plan
from supervisor.model.records import Cause, Cordon, Outcome, OwnState
from supervisor.model.restart import Account
from supervisor.model.seen import Found, Unreadable
from supervisor.model.view import Row, View
from tests.unit.plan.rows import HOST, job, own

ASSIGN = Assign(
    "j",
    "it shall run",
    job(),
    own(OwnState.VACANT),
    HOST,
    Account(failures=0, charged=0, recent_s=(), delay_s=0.0, exhausted=False),
)
CORDON = Cordon(supervisor="down", cordoned=True, by="ops@h", at="t", why="new disks", op="c1")
VIEW = View(
    MappingProxyType({"j": Row("j", job(), own(OwnState.VACANT))}), MappingProxyType({HOST.id: HOST}), 7
)


class RecorderRig:
    def __init__(self) -> None:
        self.metrics = Metrics(lambda: 0.0)
        self.recorder = Recorder(self.metrics, 99.0)

    def a_pass(self, begun_at_s: float, plan: Plan, *carried: ActionResult) -> None:
        self.recorder.record(Pass(VIEW, plan, (), carried, begun_at_s, begun_at_s + 0.5))

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"spark_supervisor_{name}", labels)


def done(assign: Assign = ASSIGN) -> ActionResult:
    return ActionResult(assign, ActionOutcome.DONE)


def test_a_job_that_is_placed_at_once_was_queued_for_one_pass() -> None:
    rig = RecorderRig()
    rig.a_pass(100.0, Plan((ASSIGN,)), done())
    assert rig.value("job_start_seconds_sum", phase="queued") == 0.5


def test_time_without_a_place_counts_time_in_back_off_does_not() -> None:
    rig = RecorderRig()
    rig.a_pass(100.0, Plan((), (Note("j", "no room", pending=True),)))
    rig.a_pass(110.0, Plan((ASSIGN,)), done())
    assert rig.value("job_start_seconds_sum", phase="queued") == 10.5
    rig.a_pass(200.0, Plan((), (Note("j", "back-off", wait_s=60.0),)))
    rig.a_pass(260.0, Plan((ASSIGN,)), done())
    assert rig.value("job_start_seconds_sum", phase="queued") == 11.0


def test_an_assignment_that_is_known_only_in_a_later_pass_counts_from_the_first() -> None:
    rig = RecorderRig()
    rig.a_pass(100.0, Plan((ASSIGN,)))
    rig.a_pass(101.0, Plan(()))
    rig.a_pass(102.0, Plan(()), done())
    assert rig.value("job_start_seconds_sum", phase="queued") == 2.5


def test_the_takeover_counts_from_the_end_of_the_last_leader() -> None:
    rig = RecorderRig()
    rig.a_pass(100.0, Plan(()))
    rig.a_pass(105.0, Plan(()))
    assert (rig.value("takeover_seconds_sum"), rig.value("takeover_seconds_count")) == (1.5, 1)


def test_capacity_is_that_of_the_supervisors_that_are_up() -> None:
    rig = RecorderRig()
    rig.a_pass(100.0, Plan(()))
    assert rig.value("capacity_drivers", supervisor=HOST.id) == HOST.drivers
    assert rig.value("capacity_memory_used_bytes", supervisor=HOST.id) == 0
    rig.recorder.record(Pass(replace(VIEW, members=MappingProxyType({})), Plan(()), (), (), 101.0, 101.1))
    assert rig.value("capacity_drivers", supervisor=HOST.id) is None
    assert rig.value("supervisors") == 0


def test_a_host_is_cordoned_whether_it_is_up_or_not_and_also_on_doubt() -> None:
    rig = RecorderRig()
    cordons = {HOST.id: Unreadable("torn", 3), "down": Found(CORDON, 0)}
    closed = replace(VIEW, cordons=MappingProxyType(cordons))
    rig.recorder.record(Pass(closed, Plan(()), (), (), 100.0, 100.1))
    assert (
        rig.value("host_cordoned", supervisor=HOST.id) == rig.value("host_cordoned", supervisor="down") == 1
    )
    rig.a_pass(101.0, Plan(()))
    assert rig.value("host_cordoned", supervisor=HOST.id) is None


def test_a_job_that_failed_for_good_is_named_with_its_cause_until_it_is_registered_again() -> None:
    rig = RecorderRig()
    ended = own(OwnState.EXITED, cause=Cause.OUT_OF_MEMORY)
    conclude = Conclude("j", "its restart budget is spent", job(), ended, Outcome.FAILED, ASSIGN.account)
    rig.a_pass(100.0, Plan((conclude,)), ActionResult(conclude, ActionOutcome.DONE))
    assert rig.value("job_failed", job="j", cause="out_of_memory") == 1
    rig.recorder.record(Pass(replace(VIEW, rows=MappingProxyType({})), Plan(()), (), (), 101.0, 101.1))
    assert rig.value("job_failed", job="j", cause="out_of_memory") == 1
    rig.a_pass(102.0, Plan(()))
    assert rig.value("job_failed", job="j", cause="out_of_memory") is None
