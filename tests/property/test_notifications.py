"""Whatever happens to a job is told at least once, nothing else is, and it is marked after it was accepted: any history of jobs, of
leaders that come, go, stop and go on, and of receivers that answer late, not at all, or so that it is not heard.

The steps, the judge and what it forgives are in ``notifying``.
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

from tests.explore import defects_of_guards, defects_of_notifications
from tests.property.histories import ordinary, play_seed
from tests.property.notifying import (
    NAMES,
    Invented,
    NeverSent,
    NotifyingWorld,
    OutOfOrder,
    WrittenByADeposedLeader,
    WronglyMarked,
)
from tests.property.processes import StopPoint

ENDS = {
    "resumed": NotifyingWorld.resumes,
    "restarted": NotifyingWorld.restarts,
    "suspended": NotifyingWorld.suspends,
    "updated": NotifyingWorld.updates,
    "cancelled": NotifyingWorld.cancels,
}
"""By what users end a quarantine."""

names = st.sampled_from(NAMES)
picks = st.integers(0, 5)
stops = st.one_of(
    st.none(),
    st.none(),
    st.builds(StopPoint, st.just("commit"), st.integers(0, 2)),
    st.builds(StopPoint, st.just("read"), st.integers(0, 5)),
)
faults = st.sampled_from(("", "", "", "reply lost", "not sent"))
mostly = st.sampled_from((True, True, True, False))


class NotifiedHistories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.made: NotifyingWorld | None = None

    @property
    def world(self) -> NotifyingWorld:
        assert self.made is not None
        return self.made

    @initialize(begun=st.sampled_from(("before", "before", "now", "by the version before")))
    def begins(self, begun: str) -> None:
        """``begun``: since when leaders have receivers. What has happened by then is told to nobody."""
        world = self.made = NotifyingWorld(is_on=begun == "before")
        for name in NAMES:
            world.submit(name)
        if begun != "before":
            world.fails("a")
            world.resumes("a")
            world.runs("a")
            world.quarantines("a")
            world.resumes("a")
            world.runs("a")
            world.rolls_back("b")
            world.updates("b")
            world.runs("b")
        if begun == "by the version before":
            world.version_before_has_begun()

    @invariant()
    def marks_are_true(self) -> None:
        if self.made is not None:
            self.made.judge()

    def teardown(self) -> None:
        if self.made is not None:
            try:
                self.made.rest()
            finally:
                self.made.close()

    @rule(
        name=names,
        what=st.sampled_from(
            (
                "fails",
                "fails",
                "quarantined",
                "quarantined",
                "rolled back",
                "updated",
                "cancelled",
                "restarted",
            )
        ),
        ended_by=st.sampled_from(("resumed", "resumed", *ENDS)),
        passes=mostly,
        cleans=st.booleans(),
    )
    def job_changes(self, name: str, what: str, ended_by: str, passes: bool, cleans: bool) -> None:
        """What has ended is begun anew first, a quarantine is ended by ``ended_by``. ``passes``: the leader sees it. ``cleans``: then it
        is cleaned."""
        world = self.world
        self.change(name, what, ended_by)
        if passes and world.leaders:
            world.passes(world.leaders[-1])
        if cleans:
            world.cleans(name)

    @rule(name=names)
    def is_quarantined_again(self, name: str) -> None:
        """And no view has come between."""
        world = self.world
        if world.is_quarantined(name) and not world.paused:
            world.resumes(name)
            world.runs(name)
            world.quarantines(name)

    def change(self, name: str, what: str, ended_by: str) -> None:
        world, by_leader = self.world, not self.world.paused
        if what == "cancelled" and (world.registered(name) or world.has_failed(name)):
            world.cancels(name)
        elif not world.registered(name):
            if world.has_failed(name):
                world.resumes(name)
            elif by_leader:
                world.submit(name)
        elif world.is_suspended(name):
            world.resumes(name)
        elif world.is_quarantined(name):
            ENDS[ended_by](world, name)
        elif what in ("updated", "restarted"):
            ENDS[what](world, name)
        elif not world.runs_now(name):
            if by_leader:
                world.runs(name)
        elif what == "quarantined":
            world.quarantines(name)
        elif by_leader:
            world.fails(name) if what == "fails" else world.rolls_back(name)

    @precondition(lambda self: self.world.leaders)
    @rule(pick=picks, stop=stops, fault=faults, passes=mostly)
    def notifier_steps(self, pick: int, stop: StopPoint | None, fault: str, passes: bool) -> None:
        world = self.world
        leader = world.leaders[-1 - pick % len(world.leaders)]
        if passes and leader.process is None:
            world.passes(leader)
        world.steps(leader, stop, fault)

    @precondition(lambda self: self.world.in_flight)
    @rule(pick=picks, how=st.sampled_from(("accepted", "accepted", "refused", "lost")))
    def receiver_answers(self, pick: int, how: str) -> None:
        world = self.world
        world.answers(world.in_flight[pick % len(world.in_flight)], how)

    @rule(pick=picks, dies=st.booleans(), leads=mostly)
    def leaders_change(self, pick: int, dies: bool, leads: bool) -> None:
        world = self.world
        if world.leaders and (dies or len(world.leaders) > 2):
            world.leave(world.leaders[pick % len(world.leaders)])
        if leads:
            world.lead()
            world.passes(world.leaders[-1])

    @rule(seconds=st.sampled_from((1.0, 10.0, 700.0)))
    def time_goes_by(self, seconds: float) -> None:
        self.world.now_s += seconds

    @rule()
    def operator_pauses_or_unpauses(self) -> None:
        self.world.pauses()


ORDINARY = ordinary(60)


def run(number: int, **changes: Any) -> None:
    """With the ``number``-th seed; shrinks nothing."""
    play_seed(NotifiedHistories, number, ORDINARY, **changes)


def test_all_is_told_and_nothing_else_and_marked_after_it_was_accepted() -> None:
    """Other histories in each run."""
    run_state_machine_as_test(NotifiedHistories, settings=ORDINARY)


@pytest.mark.parametrize("fault", ["", "reply lost", "not sent"])
@pytest.mark.parametrize("later", range(5))
def test_each_of_several_quarantines_between_two_steps_is_told(later: int, fault: str) -> None:
    """Found by a random history: the first, which a view had shown, was written down after those that only the record
    showed, and not at all if the term ended between."""
    history = NotifiedHistories()
    history.begins(begun="before")
    history.job_changes(name="a", what="quarantined", ended_by="resumed", passes=True, cleans=False)
    for _ in range(later):
        history.is_quarantined_again(name="a")
    history.job_changes(name="a", what="fails", ended_by="resumed", passes=True, cleans=False)
    history.notifier_steps(pick=0, stop=None, fault=fault, passes=True)
    history.teardown()


# -- does it bite? -----------------------------------------------------------------------------------------------------

BY_NAME = {
    defect.name: defect
    for defect in (*defects_of_notifications.DEFECTS, *defects_of_guards.DEFECTS)
    if defect in defects_of_notifications.DEFECTS or "write-notifications" in defect.name
}
SEEN: dict[str, type[AssertionError]] = {
    "marked-before-it-is-sent": WronglyMarked,
    "marked-whatever-is-answered": WronglyMarked,
    "accepted-by-one-is-accepted-by-all": WronglyMarked,
    "what-was-written-down-is-forgotten-by-the-next-leader": NeverSent,
    "what-nobody-wrote-down-is-forgotten-by-the-next-leader": NeverSent,
    "a-write-that-failed-is-not-made-again": NeverSent,
    "what-is-over-is-not-sent": NeverSent,
    "the-next-message-overtakes": OutOfOrder,
    "what-is-old-is-told": Invented,
    "what-lasts-is-told-again-and-again": Invented,
    "a-later-attempt-is-quarantined-as-the-one-before": NeverSent,
    "what-was-resumed-is-forgotten": NeverSent,
    "a-roll-back-is-forgotten-with-the-next-update": NeverSent,
    "what-histories-show-is-told-by-the-version-after": Invented,
    "a-quarantine-is-forgotten-with-the-write-that-ends-it": NeverSent,
    "a-cancel-forgets-the-quarantine-that-it-ends": NeverSent,
    "a-suspend-forgets-the-quarantine-that-it-ends": NeverSent,
    "a-resume-forgets-the-quarantine-that-it-ends": NeverSent,
    "an-update-forgets-the-quarantine-that-it-ends": NeverSent,
    "a-job-that-fails-forgets-its-quarantines": NeverSent,
    "a-job-that-comes-back-forgets-its-quarantines": NeverSent,
    "a-quarantine-is-told-again-when-it-is-over": Invented,
    "a-restart-that-was-asked-for-before-the-end-ends-a-quarantine": Invented,
    "write-notifications-unguarded-by-epoch": WrittenByADeposedLeader,
}
"""By the name of the defect: as what it shows."""

UNSEEN: dict[str, str] = {
    "what-has-made-room-is-told-again": "an event that is told too often is told; unit.daemon.leader.test_notifier",
    "what-a-view-has-shown-of-a-quarantine-is-told-beside-what-its-record-says": "a write fails while the first leader with receivers "
    "begins, which is rare; unit.daemon.leader.test_notifier",
    "a-quarantine-that-was-shown-is-written-down-after-a-later-one": "the term must end between the two writes, which is rare; "
    "unit.model.test_notifications",
    "a-quarantine-that-was-shown-is-forgotten-with-a-later-one": "a write must fail before the later one is shown, which is rare; "
    "unit.model.test_notifications",
    "what-happened-between-two-steps-is-forgotten": "the next view shows it, too, with less text; unit.daemon.leader.test_notifier",
    "a-lag-is-measured-anew-by-each-leader": "no job of this world has a lag; unit.plan.test_job_events",
    "a-window-of-a-lag-outlives-an-idle-query": "no job of this world has a lag; unit.shim.test_queries",
    "every-try-has-an-id-of-its-own": "an id that nothing happened of is what this world calls invented; unit.daemon.leader.test_notifier",
    "write-notifications-unguarded-by-pause": "a leader that knows of a pause does not come to write; unit.registry.test_notification_writes",
    "write-notifications-unguarded-by-notifications": "whoever writes is the only leader; unit.registry.test_notification_writes",
}

SEEDS = 8


def bites(defect: AbstractContextManager[object]) -> AssertionError | None:
    """What is found while it is planted, in the ordinary number of histories."""
    with defect:
        for number in range(SEEDS):
            try:
                run(number)
            except AssertionError as found:
                return found
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEN)
def test_it_fails_while_a_defect_is_planted(name: str) -> None:
    assert isinstance(bites(BY_NAME[name].patch()), SEEN[name])


def test_of_each_defect_of_notifications_it_is_said_whether_it_shows() -> None:
    assert sorted([*SEEN, *UNSEEN]) == sorted(BY_NAME)
