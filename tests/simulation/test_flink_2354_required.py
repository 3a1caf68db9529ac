"""What FLINK-2354 lists as "minimum required tests", and where each is proven.

| the ticket asks for | proven by |
|---|---|
| job graphs serialise and come back equal when registered | here: every record and spec; bytes: ``golden/test_records.py``, ``golden/test_specs.py``; specs: ``unit/spec/test_job.py: test_a_spec_survives_its_canonical_form`` |
| … and when unregistered | here: a cancelled job's result names the same spec and terms; ``unit/registry/test_user_writes.py`` (back from a result) |
| submit and remove while leader | here: every interleaving; ``faults/test_cancel.py: test_f48_*`` on real processes |
| submit and remove while standby | here: the user's steps between another's election and the old leader's writes; the command line never asks who leads |
| submit and remove while nobody leads | here, and ``faults/test_cancel.py: test_f46_cancel_while_leaderless, test_cancel_of_a_job_that_has_not_started`` |
| leadership granted and revoked in every interleaving with submit, remove and recovery | here, enumerated; the ticket's own by hand on a real ensemble: ``faults/test_flink_2354.py``; at random, with stale readers and lost replies: ``simulation/test_world.py`` |
| a process failure with one job | ``faults/test_killed.py`` (leader, standby, all, shim, driver, leader and shim) |
| a process failure with many jobs | here: one takeover of jobs in all states; ``faults/test_cancel.py: test_f48_*`` (48 jobs, leader killed); ``faults/test_stuck_starts.py`` (real, some stuck); ``simulation/test_airwallex.py`` (300 jobs) |

An interleaving is an order of the steps of several actors, each of which keeps the order of its own. All orders are run,
from nothing, on an ensemble in memory; every step is the product's code (observer, plan, builders, commands, claims).
After each, one more leader is elected, hosts obey, and the judge looks: what ran, what was acknowledged, who wrote.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.act.transactions import transaction_for
from supervisor.clients.store.files import FileStore
from supervisor.clients.zookeeper import ZooClient
from supervisor.errors import GuardFailed, SupervisorError, Unreachable
from supervisor.model.actions import Action, Conclude
from supervisor.model.bounds import Like, Within
from supervisor.model.records import (
    Assignment,
    Cause,
    Cleanliness,
    EpochRecord,
    JobRef,
    LedTerm,
    Outcome,
    OwnState,
    Result,
)
from supervisor.model.seen import Found
from supervisor.model.transaction import ANY_VERSION, Check, Delete, SetData, Transaction
from supervisor.observe.observer import Observer
from supervisor.operations.jobs import Did
from supervisor.plan.check import violations
from supervisor.plan.make import Policy, make_plan
from supervisor.records.codec import decode, encode
from supervisor.records.ids import new_op_id
from supervisor.records.reading import seen
from supervisor.registry import attempt_writes
from supervisor.registry.blobs import Blobs
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.spec.job import canonical_json, from_canonical, parse_spec
from tests.fakes import zookeeper as fake
from tests.fakes.registry_bench import Bench, submission
from tests.fakes.zookeeper import MemoryClient, MemoryZoo
from tests.faults.by_hand import HandStage, HostByHand, Running
from tests.golden.sample_records import SAMPLES
from tests.golden.test_specs import FULL

# -- equal after serialisation -------------------------------------------------------------------------------------------

PLAIN: dict[type, st.SearchStrategy[Any]] = {
    str: st.text(st.characters(codec="utf-8"), max_size=12),
    int: st.integers(-(2**53), 2**53),
    bool: st.booleans(),
    float: st.floats(-1e18, 1e18),
}


def like(sample: Any) -> st.SearchStrategy[Any]:
    """Records as ``sample``, with any value of its type, within its bounds, in each field: empty, huge, or none where the sample's class has
    none."""
    hints = get_type_hints(type(sample), include_extras=True)
    return st.builds(
        type(sample),
        **{
            field.name: _like(getattr(sample, field.name), hints[field.name], may_lack=field.default is None)
            for field in dataclasses.fields(sample)
            if field.name != "extra"
        },
    )


def _like(value: Any, hint: Any, *, may_lack: bool) -> st.SearchStrategy[Any]:
    bound = next(bounds_in(hint), None)
    if dataclasses.is_dataclass(value):
        found = like(value)
    elif isinstance(value, LedTerm):
        found = st.builds(LedTerm, st.integers(0, 2**53), st.text(max_size=20), st.text(max_size=20))
    elif isinstance(value, tuple):
        found = st.lists(_like(value[0], hint, may_lack=False), max_size=2).map(tuple)
    elif isinstance(bound, Like) and isinstance(value, str):
        found = st.from_regex(bound.pattern, fullmatch=True)
    elif isinstance(bound, Within) and type(value) is int:
        found = st.integers(int(bound.low), int(min(bound.high, 2**53)))
    elif isinstance(bound, Within) and type(value) is float:
        found = st.floats(bound.low, bound.high)
    elif type(value) in PLAIN:
        found = PLAIN[type(value)]
    else:
        found = st.sampled_from(type(value))
    return st.none() | found if may_lack else found


def bounds_in(hint: Any) -> Iterator[Within | Like]:
    """What an annotation says of the values in it, also of those in a tuple or an option."""
    yield from (each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Within | Like))
    for inner in get_args(hint):
        yield from bounds_in(inner)


@settings(max_examples=300, deadline=None)
@given(st.one_of([like(sample) for sample in SAMPLES]))
def test_every_record_comes_back_equal(record: Any) -> None:
    assert decode(type(record), encode(record, 1 << 20), "/x") == record


def test_a_job_is_the_same_before_it_is_registered_while_it_is_and_after_it_was_removed(
    tmp_path: Path,
) -> None:
    spec = parse_spec(FULL, "full.yaml")
    blobs, bench = Blobs(FileStore(tmp_path)), Bench()
    given = submission(spec.name)
    given = dataclasses.replace(
        given,
        spec=blobs.put_spec(spec.name, given.uid, 1, canonical_json(spec)),
        scheduling=spec.scheduling(),
    )
    bench.commands().submit(given)

    registered = bench.ref(spec.name).record
    assert (registered.uid, registered.spec, registered.terms) == (given.uid, given.spec, spec.scheduling())
    assert from_canonical(blobs.read_spec(registered.spec), "registered") == spec

    bench.commands().cancel(spec.name)
    removed = bench.result(given.uid)
    assert removed is not None and not bench.has(bench.layout.job(spec.name))
    assert (removed.spec, removed.terms) == (registered.spec, registered.terms)
    assert removed.spec is not None and from_canonical(blobs.read_spec(removed.spec), "removed") == spec


# -- the parts of an interleaving ----------------------------------------------------------------------------------------

NAME = "j"
STEP_S = 0.3
"""Of virtual time: beyond the back-off of ``Stage.submit``, and all steps together far below the full wait."""


class MemoryStage(HandStage):
    """``HandStage`` on an ensemble in memory. ``clock_s`` is what observers and replies are stamped with."""

    def __init__(self, zoo: MemoryZoo) -> None:
        self.zoo = zoo
        self.clock_s = 1000.0
        super().__init__("memory", "/stage")

    def connect(self) -> ZooClient:
        return cast(ZooClient, self.zoo.client())


class ScriptedTerm:
    """A term of leadership that need not know that it is over: it plans and acts when it is told to."""

    def __init__(self, world: ScriptedWorld, name: str) -> None:
        self.world = world
        self.client = cast(MemoryClient, world.stage.connect())
        layout = world.stage.layout
        old = seen(EpochRecord, self.client.read(layout.epoch), layout.epoch)
        assert isinstance(old, Found)
        self.epoch = old.record.epoch + 1
        record = EpochRecord(epoch=self.epoch, supervisor=name, op=new_op_id())
        version = self.client.commit(
            Transaction("elect", record.op, (SetData(layout.epoch, encode(record), old.version),))
        ).versions[0]
        assert version is not None
        self.fence = version
        self.observer = Observer(self.client, layout, lambda: world.stage.clock_s, self.epoch)
        self.actions: tuple[Action, ...] = ()
        world.epoch = self.epoch

    def plan(self) -> None:
        try:
            view = self.observer.take_view(None)
        except Unreachable:  # its session is gone
            self.actions = ()
            return
        plan = make_plan(view, Policy(), self.world.stage.clock_s)
        assert violations(view, plan) == ()
        self.actions = plan.actions

    def act(self) -> bool:
        """Carry out what was planned, however long ago. Whether anything came of it."""
        came = False
        for action in self.actions:
            try:
                self.client.commit(
                    transaction_for(
                        action,
                        LeaderWriteContext(self.world.stage.layout, self.epoch, self.fence, new_op_id(), "t"),
                    )
                )
            except SupervisorError:  # a guard; or the session is gone, as when leadership was revoked
                continue
            came = True
            assert self.epoch == self.world.epoch, f"I4: {action} was written by a leader of an old epoch"
            if isinstance(action, Conclude):
                self.world.concluded.append(action.ref.record.uid)
        self.actions = ()
        return came


class ScriptedWorld:
    """One run: leaders by letter, one host, one user, and what they were told."""

    def __init__(self, *, bounded: bool = False) -> None:
        self.stage = MemoryStage(MemoryZoo())
        self.host = HostByHand(self.stage, "h")
        self.terms: dict[str, ScriptedTerm] = {}
        self.bounded = bounded
        self.epoch = 0
        self.submitted: list[str] = []
        self.cancelled: list[str] = []
        self.concluded: list[str] = []
        self.entries: list[Assignment] = []

    # -- steps --------------------------------------------------------------------------------------------------------

    def elect(self, letter: str) -> None:
        """Leadership is granted; who led before is not told."""
        self.terms[letter] = ScriptedTerm(self, letter)
        self.terms[letter].plan()

    def plan(self, letter: str) -> None:
        self.terms[letter].plan()

    def act(self, letter: str) -> None:
        self.terms[letter].act()

    def pass_of_b(self) -> None:
        self.elect("B")
        self.act("B")

    def revoke(self, letter: str) -> None:
        """Its session is gone, and nobody leads."""
        if letter in self.terms:
            self.stage.zoo.expire(self.terms[letter].client)

    def submit(self) -> None:
        self.submitted.append(self.stage.submit(NAME, unbounded=not self.bounded))

    def cancel(self) -> None:
        done = self.stage.commands().cancel(NAME)
        if done.did is not Did.ALREADY_FINISHED:
            self.cancelled.append(done.uid)

    def read(self) -> None:
        """The host sees what it is given, and is slow."""
        self.entries = self.host.assigned()

    def start(self) -> None:
        self.read()
        self.claim()

    def claim(self) -> None:
        """What the host has seen: claim before exec, so a claim that fails starts nothing."""
        for entry in self.entries:
            try:
                made = self.host.claim(entry)
            except GuardFailed:
                continue
            assert [driver for driver in self.alive if driver is not made] == [], "I1: two drivers at once"
            assert entry.uid not in self.cancelled, "I2: a cancelled uid was started"

    def end(self, cause: Cause = Cause.USER_ERROR, code: int = 1) -> None:
        for driver in self.alive:
            self.host.end(driver, cause, code)

    @property
    def alive(self) -> list[Running]:
        return [driver for driver in self.host.running if driver.alive]

    def obey(self) -> None:
        """What a shim does: renew; stop when its fence has moved."""
        for driver in self.alive:
            try:
                self.host.renew(driver)
            except GuardFailed:
                self.host.end(driver, Cause.STOPPED, 143)

    # -- the judge ----------------------------------------------------------------------------------------------------

    def resolve_outcome(self) -> None:
        """A last leader, hosts that obey, and no more trouble: everything comes to rest."""
        self.terms["last"] = leader = ScriptedTerm(self, "last")
        quiet = 0
        while quiet < 3:
            self.stage.clock_s += STEP_S
            leader.plan()
            quiet = 0 if leader.act() else quiet + 1
            self.start()
            self.obey()

    def judge(self) -> None:
        layout = self.stage.layout
        ref = seen(JobRef, self.stage.read_znode(layout.job(NAME)), layout.job(NAME))
        registered = ref.record.uid if isinstance(ref, Found) else None
        assert len(self.concluded) == len(set(self.concluded)), "concluded twice"
        for uid in self.submitted:
            result = self._result(uid)
            if uid in self.cancelled:
                assert registered != uid and result is not None and result.outcome is Outcome.CANCELLED, "I2"
            elif uid in self.concluded:
                assert registered != uid and result is not None and result.outcome is Outcome.FINISHED, "I7"
            else:
                assert registered == uid and result is None, f"I3: {uid} is lost"
            assert result is None or result.state is Cleanliness.CLEAN
        alive = [driver.entry.uid for driver in self.alive]
        assert alive == ([registered] if registered else []), f"{alive} run, {registered} is registered"
        if registered is None and self.submitted:
            assert self.stage.state(NAME) in (OwnState.VACANT, OwnState.EXITED)

    def _result(self, uid: str) -> Result | None:
        found = seen(Result, self.stage.read_znode(self.stage.layout.result(uid)), "result")
        return found.record if isinstance(found, Found) else None


Step = Callable[[ScriptedWorld], None]


def interleavings(*scripts: Sequence[tuple[str, Step]]) -> Iterator[list[tuple[str, Step]]]:
    """Every order of all steps in which each script keeps its own."""
    for order in _orders([len(script) for script in scripts]):
        left = [iter(script) for script in scripts]
        yield [next(left[number]) for number in order]


def _orders(lengths: list[int]) -> Iterator[tuple[int, ...]]:
    """As numbers of scripts."""
    if not any(lengths):
        yield ()
    for number, length in enumerate(lengths):
        if length:
            rest = [*lengths[:number], length - 1, *lengths[number + 1 :]]
            for order in _orders(rest):
                yield (number, *order)


def leads(letter: str) -> tuple[str, Step]:
    return f"{letter} is elected and plans", lambda world: world.elect(letter)


def plans(letter: str) -> tuple[str, Step]:
    return f"{letter} plans", lambda world: world.plan(letter)


def acts(letter: str) -> tuple[str, Step]:
    return f"{letter} acts", lambda world: world.act(letter)


SUBMIT: tuple[str, Step] = "submit", ScriptedWorld.submit
CANCEL: tuple[str, Step] = "cancel", ScriptedWorld.cancel
START: tuple[str, Step] = "the host reads and claims", ScriptedWorld.start
READ: tuple[str, Step] = "the host reads", ScriptedWorld.read
LATE_CLAIM: tuple[str, Step] = "the host claims", ScriptedWorld.claim
CRASH: tuple[str, Step] = "the driver crashes", ScriptedWorld.end
FINISH: tuple[str, Step] = "the driver finishes", lambda world: world.end(Cause.FINISHED, 0)
PASS_OF_B: tuple[str, Step] = "B is elected, plans and acts", ScriptedWorld.pass_of_b
REVOKED: tuple[str, Step] = "A's session ends", lambda world: world.revoke("A")


def nothing(_world: ScriptedWorld) -> None:
    """Nobody leads, nothing is registered."""


def running(world: ScriptedWorld) -> None:
    """A leads, and the job runs: attempt 1."""
    world.submit()
    world.elect("A")
    world.act("A")
    world.start()
    assert len(world.alive) == 1


def run_all(begin: Step, scripts: Sequence[Sequence[tuple[str, Step]]], *, bounded: bool = False) -> int:
    """Every interleaving, each in a world of its own. Returns how many there were."""
    count = 0
    for steps in interleavings(*scripts):
        count += 1
        world = ScriptedWorld(bounded=bounded)
        STAGES.append(world.stage)
        try:
            begin(world)
            for _, step in steps:
                world.stage.clock_s += STEP_S
                step(world)
            world.resolve_outcome()
            world.judge()
        except AssertionError as error:
            told = " → ".join(what for what, _ in steps)
            raise AssertionError(f"{told}: {error}") from error
        finally:
            STAGES.clear()
    return count


STAGES: list[MemoryStage] = []
"""The stage of the run at hand: its clock stamps the replies of the fake."""


@pytest.fixture(autouse=True)
def _virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "boottime_s", lambda: STAGES[-1].clock_s if STAGES else 0.0)


# -- every interleaving --------------------------------------------------------------------------------------------------


def test_leadership_granted_twice_with_submit_and_cancel() -> None:
    """Before A: nobody leads. Between B's election and A's writes: A is a standby that does not know it."""
    assert (
        run_all(nothing, ([leads("A"), acts("A")], [leads("B"), acts("B")], [SUBMIT, CANCEL], [START])) == 630
    )


def test_leadership_granted_with_submit_and_cancel_and_a_slow_host() -> None:
    assert run_all(nothing, ([leads("A"), acts("A")], [SUBMIT, CANCEL], [READ, LATE_CLAIM])) == 90


def test_leadership_granted_twice_with_submit() -> None:
    assert run_all(nothing, ([leads("A"), acts("A")], [leads("B"), acts("B")], [SUBMIT], [START])) == 180


def test_leadership_revoked_with_submit_and_cancel() -> None:
    """A's session ends at any moment; for a while nobody leads."""
    assert run_all(nothing, ([leads("A"), acts("A")], [REVOKED], [SUBMIT, CANCEL], [START])) == 180


@pytest.mark.parametrize("ends", [CRASH, FINISH], ids=["crashes", "finishes"])
def test_leadership_granted_and_recovery_with_cancel(ends: tuple[str, Step]) -> None:
    """The ticket's own, and its mirrors: the job runs under A; its driver ends; A has or has not planned what follows; B
    comes; the user cancels. A finished job is concluded once, a crashed one runs again, a cancelled one never."""
    scripts = ([plans("A"), acts("A")], [leads("B"), acts("B")], [ends, START])
    bounded = ends is FINISH
    assert run_all(running, scripts, bounded=bounded) == 90
    assert run_all(running, (*scripts, [CANCEL]), bounded=bounded) == 630


def test_leadership_granted_and_recovery_with_cancel_and_submit_of_the_same_name() -> None:
    """What is planned for the old uid must not touch the new one, nor its driver."""
    again = ([CRASH, START], [CANCEL, SUBMIT])
    assert run_all(running, ([leads("B"), acts("B")], *again)) == 90
    assert run_all(running, ([plans("A"), acts("A")], [PASS_OF_B], *again)) == 630


def test_leadership_revoked_and_recovery_with_cancel() -> None:
    assert run_all(running, ([plans("A"), acts("A")], [REVOKED], [CRASH, START], [CANCEL])) == 180


# -- the judge is judged -------------------------------------------------------------------------------------------------


def no_fence_of_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaders write whoever leads, as long as nobody has touched the job."""

    real = transaction_for

    def unfenced(action: Action, context: LeaderWriteContext) -> Transaction:
        tx = real(action, context)
        return dataclasses.replace(tx, ops=tuple(op for op in tx.ops if op.path != context.layout.epoch))

    monkeypatch.setattr(f"{__name__}.transaction_for", unfenced)


def claims_check_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unguarded(*given: Any) -> Transaction:
        tx = real(*given)
        kept = (op for op in tx.ops if not isinstance(op, Check | Delete))
        ops = (dataclasses.replace(op, version=ANY_VERSION) if isinstance(op, SetData) else op for op in kept)
        return dataclasses.replace(tx, ops=tuple(ops))

    real = attempt_writes.claim
    monkeypatch.setattr(attempt_writes, "claim", unguarded)


@pytest.mark.parametrize(
    ("defect", "says"), [(no_fence_of_the_epoch, "I4"), (claims_check_nothing, "I[123]|run,")]
)
def test_the_judge_notices(
    defect: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what the ticket is about, some interleaving goes wrong, and it is told which."""
    defect(monkeypatch)
    with pytest.raises(AssertionError, match=rf"→.*({says})"):
        run_all(
            nothing, ([leads("A"), acts("A")], [leads("B"), acts("B")], [SUBMIT, CANCEL], [READ, LATE_CLAIM])
        )
