"""A cancelled job never comes back: FLINK-10011 at each step of the clean-up, FLINK-39704, and races with everything."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from supervisor.clock import boottime_s, wall_iso
from supervisor.errors import Conflict, GuardFailed
from supervisor.model.records import Cleanliness, JobRef, Ownership, OwnState, Result
from supervisor.model.seen import Found
from supervisor.operations.jobs import Did
from supervisor.records.ids import new_op_id
from supervisor.records.reading import seen
from supervisor.registry import user_writes
from tests.conftest import KINDS
from tests.faults.conftest import set_traps, wait_sprung
from tests.testbed.ensembles import Ensemble
from tests.testbed.fleet import SHIM, Fleet, eventually
from tests.testbed.proxy import Action, Proxies, Proxy, zookeeper_request
from tests.waiting import wait_until

CLEAN_UP = zookeeper_request('"state":"clean"')


def result_of(fleet: Fleet, uid: str) -> Result | None:
    path = fleet.layout.result(uid)
    found = seen(Result, fleet.read_znode(path), path)
    return found.record if isinstance(found, Found) else None


def wait_clean(fleet: Fleet, uid: str) -> None:
    """Its leftovers are removed, which the leader does when no attempt can be alive."""

    def is_clean() -> bool:
        result = result_of(fleet, uid)
        return result is not None and result.state is Cleanliness.CLEAN

    eventually(is_clean, 60, f"{uid} to be clean")


def a_leader_acts(fleet: Fleet, job: str) -> None:
    """Whoever leads has seen the registry after now: it starts a job that is submitted now."""
    fleet.submit(f"{job}-after", knobs={})
    fleet.wait_attempt(f"{job}-after", 1)


# -- FLINK-10011 -------------------------------------------------------------------------------------------------------


def acknowledged(fleet: Fleet, proxies: Proxies, job: str) -> str:
    """The cancel was acknowledged a moment ago: everybody is SUSPENDED, and the leader is gone."""
    uid = fleet.cancel(job)
    proxies.each(Proxy.cut)
    fleet.kill(fleet.leader())
    return uid


def stopping(fleet: Fleet, proxies: Proxies, job: str) -> str:
    """The driver has its SIGTERM; everybody is SUSPENDED; the leader is stopped beyond its session."""
    uid = fleet.cancel(job)
    wait_until(
        lambda: any(note.event == "term" for note in fleet.notes(job)), 30, "the driver is asked to stop"
    )
    leader = fleet.leader()
    proxies.each(Proxy.cut)
    fleet.signal_member(leader, signal.SIGSTOP)
    return uid


def _sprung(fleet: Fleet, proxies: Proxies, job: str, action: Action) -> str:
    traps = set_traps(proxies, CLEAN_UP, action)
    leader = fleet.leader()
    uid = fleet.cancel(job)
    wait_sprung(traps, "the clean-up was sent")
    fleet.kill(leader)
    return uid


def not_cleaned(fleet: Fleet, proxies: Proxies, job: str) -> str:
    """The clean-up is lost on its way, and the leader dies."""
    return _sprung(fleet, proxies, job, Action.CUT_BEFORE)


def cleaned_unheard(fleet: Fleet, proxies: Proxies, job: str) -> str:
    """The clean-up is committed, its reply is lost, and the leader dies."""
    return _sprung(fleet, proxies, job, Action.CUT_AFTER)


def held(fleet: Fleet, proxies: Proxies, job: str) -> str:
    """The clean-up waits in the network, and the leader is stopped; it arrives when another leads."""
    traps = set_traps(proxies, CLEAN_UP, Action.HOLD)
    leader, epoch = fleet.leader(), fleet.epoch()
    uid = fleet.cancel(job)
    wait_sprung(traps, "the clean-up was sent")
    fleet.signal_member(leader, signal.SIGSTOP)
    eventually(lambda: fleet.epoch() != epoch, 60, "the end of its session")
    return uid


Step = Callable[[Fleet, Proxies, str], str]


@pytest.fixture(scope="module", params=KINDS)
def behind_proxies(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Proxies, Fleet]]:
    """Made once for each kind of ensemble: two supervisors, and their shims, behind the same proxies."""
    ensemble: Ensemble = request.getfixturevalue(f"{request.param}_ensemble")
    proxies = Proxies(ensemble.hosts)
    hosts = proxies.hosts
    fleet = Fleet(ensemble, "/behind-proxies", tmp_path_factory.mktemp("fleet"), through={0: hosts, 1: hosts})
    with proxies, fleet:
        yield proxies, fleet


@pytest.mark.parametrize(
    "step", [acknowledged, stopping, not_cleaned, cleaned_unheard, held], ids=lambda step: step.__name__
)
def test_flink_10011_cancel_then_suspended_and_failover(
    behind_proxies: tuple[Proxies, Fleet], job: str, step: Step
) -> None:
    """At whatever step of the clean-up the leader changes: the job is cancelled, cleaned, and never started again."""
    proxies, fleet = behind_proxies
    proxies.each(Proxy.heal)
    fleet.restore()
    fleet.submit(job, knobs={"term_delay_s": 1.0, "child": True})
    fleet.submit(f"{job}-other")
    for name in (job, f"{job}-other"):
        fleet.wait_state(name, "running")
    epoch = fleet.epoch()
    uid = step(fleet, proxies, job)
    fleet.wait_new_leader(epoch)
    proxies.each(Proxy.heal)
    wait_clean(fleet, uid)
    fleet.restart_all()
    a_leader_acts(fleet, job)
    assert [note.attempt for note in fleet.starts(job)] == [1]
    assert fleet.alive_pids(job) == []
    assert fleet.show(job)["state"] == "cancelled"
    assert job not in [row["name"] for row in fleet.rows()]
    fleet.assert_undisturbed(f"{job}-other")
    fleet.judge()


# -- without a leader --------------------------------------------------------------------------------------------------


def test_f46_cancel_while_leaderless(fleet: Fleet, job: str) -> None:
    """Nobody but the shim is there, and it obeys; the leader that comes later finds it cancelled."""
    names = [job, f"{job}-crashing"]
    fleet.submit(names[0], knobs={"child": True})
    fleet.submit(names[1], knobs={"exit_after_s": 0.2, "exit_code": 1})
    fleet.wait_state(names[0], "running")
    fleet.wait_attempt(names[1], 2)
    for member in fleet.members:
        fleet.kill(member)
    wait_until(
        lambda: fleet.status()["leader"] is None, 20, "the session closer to have closed the leader's session"
    )
    uids = [fleet.cancel(name) for name in names]
    shim = fleet.process(names[0], SHIM, uids[0])
    fleet.wait_gone(shim)
    assert fleet.alive_pids(names[0]) == []
    assert fleet.cli("cancel", names[0]).code == 0
    fleet.restart_all()
    for uid in uids:
        wait_clean(fleet, uid)
    a_leader_acts(fleet, job)
    assert [note.attempt for note in fleet.starts(names[0])] == [1]
    fleet.judge()


def test_cancel_wait_returns_when_the_driver_is_gone(fleet: Fleet, job: str) -> None:
    fleet.submit(job, knobs={"term_delay_s": 1.0, "child": True, "child_ignores_term": True})
    fleet.wait_state(job, "running")
    fleet.ok("cancel", job, "--wait")
    assert fleet.alive_pids(job) == []
    assert fleet.cli("resume", job).code == 4
    assert fleet.cli("restart", job).code == 4
    fleet.judge()


# -- late writes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ["restarted", "resumed"])
def test_flink_39704_a_late_write_of_a_cancelled_uid(fleet: Fleet, job: str, event: str) -> None:
    """Built before the cancel, committed after the resubmit, when /jobs/J has the same version again: the fence holds."""
    layout, client = fleet.layout, fleet.client
    first = fleet.submit(job, suspended=event == "resumed")
    if event != "resumed":
        fleet.wait_state(job, "running")
    ref = seen(JobRef, fleet.read_znode(layout.job(job)), layout.job(job))
    own = seen(Ownership, fleet.read_znode(layout.own(job)), layout.own(job))
    assert isinstance(ref, Found) and isinstance(own, Found)
    context = user_writes.UserWriteContext(layout, new_op_id(), wall_iso())
    late = user_writes.run_again(context, ref, own, new_op_id(), event)

    fleet.cancel(job)
    second = fleet.submit(job)
    now = seen(JobRef, fleet.read_znode(layout.job(job)), layout.job(job))
    assert isinstance(now, Found) and now.version == ref.version, "the version of the reference is no fence"
    with pytest.raises(GuardFailed) as failed:
        client.commit(late)
    assert failed.value.path == layout.own(job)

    fleet.wait_attempt(job, 1, uid=second)
    fleet.wait_state(job, "running")
    assert len(fleet.starts(job, first)) == (0 if event == "resumed" else 1)
    assert fleet.uid(job) == second
    fleet.judge()


def test_flink_39704_a_late_clean_up_of_a_cancelled_uid(
    behind_proxies: tuple[Proxies, Fleet], job: str
) -> None:
    """The leader's clean-up of the old uid is held until the name is submitted anew: it takes nothing from the new uid."""
    proxies, fleet = behind_proxies
    proxies.each(Proxy.heal)
    fleet.restore()
    fleet.submit(job)
    fleet.wait_state(job, "running")
    traps = set_traps(proxies, CLEAN_UP, Action.HOLD)
    first = fleet.cancel(job)
    wait_sprung(traps, "the clean-up was sent")
    second = fleet.submit(job)
    proxies.each(Proxy.heal)
    wait_clean(fleet, first)
    fleet.wait_attempt(job, 1, uid=second)
    fleet.wait_state(job, "running")
    fleet.assert_undisturbed_uid(job, second)
    refused = fleet.cli(
        "submit", str(fleet.spec_file(f"{job}-2", checkpoint=f"file://{fleet.directory}/checkpoints/{job}"))
    )
    assert refused.code == 4 and job in refused.err, "the checkpoint is the new uid's"
    fleet.judge()


def test_resubmit_while_the_old_driver_is_still_stopping(fleet: Fleet, job: str) -> None:
    """The new uid starts only after the old tree is gone, and goes on from its checkpoint."""
    first = fleet.submit(
        job, knobs={"term_delay_s": 2.0, "child": True, "child_ignores_term": True, "setsid_child": True}
    )
    fleet.wait_state(job, "running")
    fleet.wait_batches(job)
    fleet.cancel(job)
    second = fleet.submit(job, knobs={"child": True})
    assert second != first
    state = fleet.show(job)["state"]
    assert state == "pending" or not fleet.alive_pids(job, first)  # by then, on a busy machine
    fleet.wait_attempt(job, 1, uid=second)
    assert fleet.alive_pids(job, first) == []
    last_of_first = max(note.at_s for note in fleet.notes(uid=first))
    assert fleet.starts(job, second)[0].at_s > last_of_first
    fleet.wait_batches(job)
    fleet.judge()


def test_resubmit_again_and_again(fleet: Fleet, job: str) -> None:
    """Cancel and submit of one name, in quick succession, with failovers: one driver at a time, batches go on."""
    uids = [fleet.submit(job)]
    for turn in range(8):
        if turn in (2, 5):
            fleet.kill(fleet.leader())
        if turn == 4:
            fleet.restart_all()
        if turn % 2:
            fleet.wait_attempt(job, 1, uid=uids[-1])
        fleet.cancel(job)
        uids.append(fleet.submit(job))
    assert len(set(uids)) == len(uids)
    fleet.wait_attempt(job, 1, uid=uids[-1])
    fleet.wait_batches(job)
    for uid in uids[:-1]:
        wait_clean(fleet, uid)
    fleet.judge()


# -- races -------------------------------------------------------------------------------------------------------------


def test_f48_cancel_racing_exit_restart_assign_and_claim(fleet: Fleet, job: str) -> None:
    """48 crash-looping jobs, each cancelled at a moment of its own; the leader is killed twice meanwhile.

    Whatever the cancel met (no assignment yet, assigned, claimed, running, exiting, back-off): it was the last word.
    In the first turn one of them has come to its second attempt; how long that took here gives the span of the others.
    """
    chance = random.Random(job)
    commands = fleet.commands()
    uids: dict[str, str] = {}
    span_s = 2.0
    for turn in range(6):
        names = [f"{job}-{turn}-{i}" for i in range(8)]
        knobs = {"exit_code": 1, "exit_after_s": chance.choice([0.0, 0.1, 0.3])}
        fleet.submit_many(names, knobs=knobs, restart={"strategy": "fixed", "initial": "100ms"})
        begun_at_s = boottime_s()
        if turn == 0:
            fleet.wait_attempt(names[0], 2)
            span_s = max(span_s, 0.5 * (boottime_s() - begun_at_s))
            begun_at_s = boottime_s()
        for at_s, name in sorted((chance.uniform(0.0, span_s), name) for name in names):
            time.sleep(max(0.0, begun_at_s + at_s - boottime_s()))  # the random moment itself
            done = commands.cancel(name)
            assert done.did is Did.CANCELLED
            fleet.note_cancelled(name, done.uid)
            uids[name] = done.uid
        if turn in (1, 3):
            fleet.kill(fleet.leader())
            fleet.restart_all()
    met = []
    for name, uid in uids.items():
        wait_clean(fleet, uid)
        result = result_of(fleet, uid)
        assert result is not None
        attempts = [note.attempt for note in fleet.starts(name)]
        assert max(attempts, default=0) <= result.attempt, (
            f"{name}: {attempts} after a cancel at attempt {result.attempt}"
        )
        met.append(result.attempt)
    assert len(set(met)) > 1, "the cancels met different moments"
    a_leader_acts(fleet, job)
    fleet.judge()


def test_f48_cancel_against_restart_and_suspend(fleet: Fleet, job: str) -> None:
    """Two users at once: the cancel wins in every order, and nothing that was acknowledged before it brings it back."""
    commands, others = fleet.commands(), fleet.commands()
    for turn in range(6):
        name = f"{job}-{turn}"
        fleet.submit(name)
        if turn % 2:
            fleet.wait_attempt(name, 1)
        for act in (others.restart, others.suspend, others.resume)[: turn % 4]:
            act(name)
        fleet.note_cancelled(name, commands.cancel(name).uid)
        for act in (others.restart, others.resume, others.suspend):
            with pytest.raises(Conflict):
                act(name)
    for turn in range(6):
        wait_clean(fleet, fleet.uid(f"{job}-{turn}"))
        assert fleet.alive_pids(f"{job}-{turn}") == []
    fleet.judge()


def test_cancel_of_a_job_that_has_not_started(fleet: Fleet, job: str) -> None:
    """Vacant and assigned: no driver ever. Its host refuses nothing, because nobody asks it any more."""
    for member in fleet.members:
        fleet.kill(member)
    fleet.submit(job)
    fleet.cancel(job)
    fleet.restart_all()
    wait_clean(fleet, fleet.uid(job))
    a_leader_acts(fleet, job)
    assert fleet.starts(job) == []
    path = fleet.layout.own(job)
    own = seen(Ownership, fleet.read_znode(path), path)
    assert isinstance(own, Found) and own.record.state is OwnState.VACANT
    fleet.judge()
