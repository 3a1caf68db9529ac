"""Nothing that lives is deleted: any history of jobs in nested places, with leaders that come, go, stop and go on.

The steps and the judge are in ``deleting``. What the judge does not see: a claim of an older version that comes between the last
look before a request and its arrival (no software can; such a claim is not planted then), and what becomes of a savepoint's copy
before its place is claimed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from supervisor.daemon.leader.remover import Remover
from supervisor.model.records import Cause, PendingDeletion
from supervisor.registry.checkpoint_claims import CheckpointClaims, Index
from tests.explore import defects_of_removal
from tests.explore.planting import Edit, edited
from tests.property.deleting import NAMES, PLACES, SCHEMES, DeletingWorld, Hangs, Shared, WronglyDeleted, near
from tests.property.histories import ordinary, play_seed
from tests.property.processes import StopPoint

names = st.sampled_from(NAMES)
places = st.sampled_from((*PLACES, *PLACES[:3]))
picks = st.integers(0, 5)
faults = st.sampled_from(("", "", "", "", "reply lost", "not sent"))
mostly = st.sampled_from((True, True, True, False))
wheres = st.one_of(places, picks)
"""A number: near one that is claimed."""


def stops(reads: int) -> st.SearchStrategy[StopPoint | None]:
    """``reads``: so many that are of interest."""
    return st.one_of(
        st.none(),
        st.none(),
        st.none(),
        st.sampled_from((StopPoint("send", 0), StopPoint("commit", 0))),
        st.builds(StopPoint, st.just("read"), st.integers(0, reads)),
    )


class Deletions(RuleBasedStateMachine):
    """Some steps are several at once that often come together, judged one by one: so that more happens in as many."""

    forgiven: tuple[type[AssertionError], ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.made: DeletingWorld | None = None

    @property
    def world(self) -> DeletingWorld:
        assert self.made is not None
        return self.made

    @initialize(
        scheme=st.sampled_from(sorted(SCHEMES)), place=places, further=st.sampled_from((0, 1, 2, 2, 3, 3))
    )
    def begins(self, scheme: str, place: str, further: int) -> None:
        """With a job that runs, or whose checkpoint is to be deleted, or is being deleted."""
        world = self.made = DeletingWorld(scheme, self.forgiven)
        if further > 0:
            world.submit("a", place, True, False)
            world.judge()
            world.run("a")
            world.judge()
        if further > 1:
            world.ends("a")
        if further > 2:
            world.removes(world.leaders[-1])

    @invariant()
    def what_lives_is_there(self) -> None:
        if self.made is not None:
            self.made.judge()

    def teardown(self) -> None:
        if self.made is not None:
            try:
                if not self.made.failed:
                    self.made.rest()
            finally:
                self.made.close()

    # -- jobs ------------------------------------------------------------------------------------------------------

    @rule(
        name=names,
        place=wheres,
        delete=mostly,
        bounded=st.booleans(),
        fault=faults,
        stop=stops(6),
        runs=mostly,
    )
    def submit(
        self,
        name: str,
        place: str | int,
        delete: bool,
        bounded: bool,
        fault: str,
        stop: StopPoint | None,
        runs: bool,
    ) -> None:
        self.world.submit(name, self.world.where(place), delete, bounded, fault, stop)
        self.world.judge()
        if runs and name in self.world.runnable():
            self.world.run(name)

    @rule(places=st.tuples(places, places), reads=st.integers(0, 6))
    def two_submit(self, places: tuple[str, str], reads: int) -> None:
        """One on the way of the other."""
        world = self.world
        stopped = len(world.commands)
        world.submit(NAMES[0], places[0], True, False, stop=StopPoint("read", reads))
        world.submit(NAMES[1], places[1], True, False)
        world.judge()
        for process, name, _ in world.commands[stopped:]:
            world.commands.pop()
            world.go_on(process, name, None)

    @precondition(lambda self: self.world.runnable() or self.world.driven())
    @rule(
        pick=picks,
        cause=st.sampled_from((None, Cause.FINISHED, Cause.FINISHED, Cause.USER_ERROR, Cause.STOPPED)),
    )
    def run_write_or_exit(self, pick: int, cause: Cause | None) -> None:
        idle, driven = self.world.runnable(), self.world.driven()
        name = (idle + driven)[pick % len(idle + driven)]
        if name in idle:
            self.world.run(name)
        elif cause is None:
            self.world.goes_on_writing(name)
        else:
            self.world.exit(name, cause)

    @precondition(lambda self: self.world.reading.jobs)
    @rule(pick=picks, fault=faults, stop=stops(6), ends=st.booleans())
    def cancel(self, pick: int, fault: str, stop: StopPoint | None, ends: bool) -> None:
        """``ends``: its driver as well, and a leader cleans up."""
        found = sorted(self.world.reading.jobs)
        name = found[pick % len(found)]
        if ends:
            self.world.ends(name)
        else:
            self.world.cancel(name, fault, stop)

    @rule(name=names, place=st.sampled_from(("", "", "", *PLACES)), fault=faults, suspended=st.booleans())
    def suspend_or_resume(self, name: str, place: str, fault: str, suspended: bool) -> None:
        """``place``: from a savepoint, there or where nobody is. ``suspended``: before, with its driver's end."""
        world = self.world
        if suspended:
            world.suspend(name, fault)
            world.judge()
            if name in world.reading.jobs and name in world.driven():
                world.exit(name, Cause.STOPPED)
                world.judge()
        elif not place:
            world.resume(name, fault)
        if place:
            world.resume_from(name, world.free_place(place), fault)

    @precondition(lambda self: self.world.commands)
    @rule(pick=picks, stop=stops(6))
    def command_goes_on(self, pick: int, stop: StopPoint | None) -> None:
        process, name, _ = self.world.commands.pop(pick % len(self.world.commands))
        self.world.go_on(process, name, stop)

    # -- leaders ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.leaders)
    @rule(pick=picks)
    def leader_passes(self, pick: int) -> None:
        self.world.passes(self.world.leaders[-1 - pick % len(self.world.leaders)])

    @precondition(lambda self: self.world.leaders)
    @rule(
        pick=picks,
        stop=stops(12),
        late=st.booleans(),
        reply_lost=st.sampled_from((False, False, False, True)),
        rests=st.booleans(),
    )
    def remover_steps(
        self, pick: int, stop: StopPoint | None, late: bool, reply_lost: bool, rests: bool
    ) -> None:
        """``late``: a deletion that it sends is not answered. ``rests``: then it comes to rest."""
        world = self.world
        leader = world.leaders[-1 - pick % len(world.leaders)]
        world.late = late and world.scheme == "s3"
        if reply_lost:
            leader.client.lose_next_reply()
        if leader.process is not None:
            world.remover_goes_on(leader, stop)
        else:
            world.removes(leader, stop)
        world.late = False
        world.judge()
        if rests and leader.process is None:
            world.comes_to_rest(leader)

    @rule(pick=picks, dies=st.booleans(), leads=mostly)
    def leaders_change(self, pick: int, dies: bool, leads: bool) -> None:
        world = self.world
        if world.leaders and (dies or len(world.leaders) > 2):
            world.leave(world.leaders[pick % len(world.leaders)])
        if leads:
            world.lead()
            world.passes(world.leaders[-1])

    @rule(pick=picks, seconds=st.sampled_from((0.0, 2.0, 9.0, 40.0, 600.0, 2000.0)))
    def time_goes_by(self, pick: int, seconds: float) -> None:
        """0: a deletion that is under way arrives."""
        self.world.now_s += seconds
        if not seconds and self.world.in_flight:
            self.world.arrive(self.world.in_flight[pick % len(self.world.in_flight)])

    # -- operators, older versions, hands ----------------------------------------------------------------------------------

    @precondition(lambda self: not self.world.deleting_at())
    @rule(
        what=st.sampled_from(("claim", "claim", "claim", "pause", "pause", "pause", "doom", "garbage")),
        place=wheres,
        name=st.sampled_from((*NAMES, "older")),
        rests=st.booleans(),
    )
    def somebody_else_writes(self, what: str, place: str | int, name: str, rests: bool) -> None:
        """A claim of an older version; one that says of an ended submission that its checkpoint was elsewhere; what is none; a pause.
        The second time it is undone. ``rests``: then a remover comes to rest."""
        world = self.world
        if world.planted() or world.reading.paused:
            world.undo_strange()
        elif what == "claim":
            world.plant(world.where(place), name)
        elif what == "garbage":
            world.plant_garbage()
        elif what == "pause":
            world.bench.zoo.put(world.bench.layout.pause, b"{}")
        for job in (
            [job for job in world.jobs.values() if job.ends and job.name == name][:1]
            if what == "doom"
            else ()
        ):
            if f"{world.root}{world.where(place)}" not in job.places:
                world.plant(
                    world.where(place), f"{name} (deleted)", PendingDeletion(name=name, uid=job.uid, at="")
                )
        world.judge()
        if rests and world.leaders and world.leaders[-1].process is None:
            world.comes_to_rest(world.leaders[-1])


ORDINARY = ordinary(60)


def run(number: int, *, forgiven: tuple[type[AssertionError], ...] = (), **changes: Any) -> None:
    """With the ``number``-th seed; shrinks nothing."""
    play_seed(type("Deletions", (Deletions,), {"forgiven": forgiven}), number, ORDINARY, **changes)


def test_nothing_that_lives_is_deleted() -> None:
    """Other histories in each run."""
    run_state_machine_as_test(Deletions, settings=ORDINARY)


# -- does it bite? (tests/run -m slow) ---------------------------------------------------------------------------------

BY_NAME = {defect.name: defect for defect in defects_of_removal.DEFECTS}

OWN_OVERLOOKED = Edit(
    CheckpointClaims.reserve, "(each.name, each.location) != (name, location)", "each.name != name"
)
ONE_NAME_PER_ANCESTOR = Edit(
    Index.add, "self._inside.setdefault(ancestor, set()).add(path)", "self._inside[ancestor] = {path}"
)
REMOVER_BLIND = (
    Edit(Remover._carry_on, "if others.claim is not None:", "if False:"),
    Edit(Remover._still, "others.claim is not None or others.doubtful is not None", "False"),
)

SEEN: dict[str, type[AssertionError]] = {
    "own-claims-are-overlooked": Shared,
    "claims-inside-are-overlooked": Shared,
    "claims-around-are-overlooked": Shared,
    "claim-is-given-up-by-the-clean-up": Hangs,
    "remover-overlooks-other-claims": WronglyDeleted,
    "remover-never-begins": Hangs,
    "deletes-while-paused": WronglyDeleted,
    "claim-is-given-up-early": Shared,
    "pending-deletion-is-taken-over": Hangs,
}
"""By the name of the defect: as what it shows first."""

SEEDS = 8

UNSEEN: dict[str, str] = {
    "restore-reads-before-its-mark": "no savepoint is made, copied or deleted here",
    "exec-although-no-deadline-is-written": "drivers are only what they write",
    "torn-deadline-read-as-none": "drivers are only what they write",
    "restore-ends-before-it-is-compared": "no savepoint is made, copied or deleted here",
    "savepoint-is-complete-before-it-is-wanted": "no savepoint is made, copied or deleted here",
    "directory-of-another-host-is-deleted": "all hosts see the same directories here",
    "claims-listed-before-their-version": "seldom: one submit within another, at the one request that matters (then Shared); unit.registry.test_checkpoint_claims_overlapping",
    "finished-job-is-changed": "seldom: a resume just between the end of a bounded job and a pass (then WrongReport); unit.operations.test_jobs_finished_before",
    "deletes-as-it-was-once-read": "seldom: a remover stops, and another job lives a whole life meanwhile; the explorer sees it",
    "deletes-before-it-says-so": "another guard covers it: survivors.COVERED",
    "deletes-under-any-epoch": "another guard covers it: survivors.COVERED",
    "deletes-whatever-became-of-the-claim": "another guard covers it: survivors.COVERED",
}


def bites(
    defect: AbstractContextManager[object], forgiven: tuple[type[AssertionError], ...] = ()
) -> AssertionError | None:
    """What is found while it is planted, in the ordinary number of histories. Seldom none of them shows it, and what a seed leads
    to is not the same in every process: then others are tried."""
    with defect:
        for number in range(SEEDS):
            try:
                run(number, forgiven=forgiven)
            except AssertionError as found:
                return found
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEN)
def test_it_fails_while_a_defect_is_planted(name: str) -> None:
    assert isinstance(bites(BY_NAME[name].patch()), SEEN[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    "edits", [(OWN_OVERLOOKED,), (OWN_OVERLOOKED, ONE_NAME_PER_ANCESTOR)], ids=["d10", "d11"]
)
def test_the_defects_that_once_were_there_show_as_what_is_shared_and_as_what_is_lost(
    edits: tuple[Edit, ...],
) -> None:
    """Of the latter the remover's own look keeps us; so it is taken away as well."""
    assert isinstance(bites(edited(*edits)), Shared)
    assert isinstance(bites(edited(*edits, *REMOVER_BLIND), forgiven=(Shared,)), WronglyDeleted)


def test_of_each_defect_of_removal_it_is_said_whether_it_shows() -> None:
    assert sorted([*SEEN, *UNSEEN]) == sorted(BY_NAME)


def test_the_judge_knows_which_places_are_near() -> None:
    """By a rule of its own; ``xy`` only looks as if it lay in ``x``."""
    found = {(one, other) for one in PLACES for other in PLACES if one < other and near(one, other)}
    assert found == {("x", "x/y"), ("x", "x/u"), ("x", "x/y/z"), ("x/y", "x/y/z")}
