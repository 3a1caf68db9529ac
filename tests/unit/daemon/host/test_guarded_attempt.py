"""What the guardian decides about one attempt: whom it kills, when, and over what it writes a tombstone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.clients.processes import ProcessId
from supervisor.clients.run_dir import ShimRecord
from supervisor.daemon.host import guarded_attempt as guarded_attempts
from supervisor.daemon.host.guarded_attempt import (
    CLAIM_UNDER_WAY_S,
    UNBORN_S,
    CommitTombstone,
    CommitUnanswered,
    DirectoryRead,
    Effect,
    Event,
    GuardedAttempt,
    GuardStage,
    GuardTick,
    HandedRead,
    LogGuard,
    OwnershipRead,
    ReadOwn,
    Remove,
    Stranger,
    Strike,
    TombstoneWritten,
    next_wake_at_s,
    step,
)
from supervisor.model.emptiness import Emptiness
from supervisor.model.launch import NO_ATTEMPT
from supervisor.model.lease_terms import DOUBT_S, KILL_TIME_S, SECOND_KILLER_PERIOD_S
from supervisor.model.records import Cause, Ownership, OwnState
from supervisor.model.second_killer import Act, KillerProbe, ShimStruck, TreeStruck
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.transaction import SetData
from supervisor.records.codec import decode
from supervisor.records.layout import Layout
from tests.unit.shim.world import ENTRY, LAUNCH

LAYOUT, BOOT, CLAIM, BORN_S, DEADLINE_S = Layout("/c"), "boot-1", "c1a1", 100.0, 128.0
SHIM = ShimRecord(ProcessId(4711, 99, BOOT), CLAIM)
CLAIMED = Ownership(
    state=OwnState.CLAIMED,
    op="op",
    newest_uid="uid-1",
    uid="uid-1",
    attempt=1,
    claim=CLAIM,
    supervisor="host-a",
    host="here",
)
CONNECTED, AWAY = GuardTick(True), GuardTick(False)
DIED = KillerProbe(True, DEADLINE_S)


def unborn(supervisor: str = "host-a") -> GuardedAttempt:
    return GuardedAttempt("uid-1.1", supervisor, BOOT, LAYOUT, BORN_S)


def feed(
    guarded_attempt: GuardedAttempt, *events: Event, at_s: float = BORN_S
) -> tuple[GuardedAttempt, tuple[Effect, ...]]:
    """The guarded attempt after ``events``, all at one time, and what the last of them called for, words for the log left out."""
    effects: tuple[Effect, ...] = ()
    for event in events:
        guarded_attempt, effects = step(guarded_attempt, event, at_s)
    return guarded_attempt, tuple(effect for effect in effects if not isinstance(effect, LogGuard))


def watched() -> GuardedAttempt:
    return feed(unborn(), DirectoryRead(LAUNCH, SHIM), KillerProbe(False, DEADLINE_S))[0]


def burying(probe: KillerProbe = DIED, at_s: float = 110.0) -> GuardedAttempt:
    """Asked for /own, after a kill that was proven."""
    struck = (probe, CONNECTED, ShimStruck(True), TreeStruck(0.1, Emptiness.EMPTY))
    guarded_attempt, effects = feed(watched(), *struck, CONNECTED, at_s=at_s)
    assert effects == (ReadOwn(),)
    return guarded_attempt


def read(own: Seen[Ownership], began_at_s: float | None = None) -> OwnershipRead:
    return OwnershipRead(own, began_at_s, "2026-11-21T00:00:00.000Z")


# -- meeting -----------------------------------------------------------------------------------------------------------


def test_a_run_directory_with_a_shim_is_watched() -> None:
    guarded_attempt = watched()
    assert guarded_attempt.stage is GuardStage.WATCHED
    assert next_wake_at_s(guarded_attempt) == DEADLINE_S - SECOND_KILLER_PERIOD_S


def test_another_supervisors_attempt_is_left_alone_for_ever() -> None:
    guarded_attempt, effects = feed(
        unborn("host-b"), DirectoryRead(LAUNCH, SHIM), KillerProbe(True, DEADLINE_S), CONNECTED, at_s=1e6
    )
    assert (guarded_attempt.stage, effects) == (GuardStage.UNBORN, ())


def test_a_directory_without_a_shim_is_removed_after_a_while_only() -> None:
    empty = DirectoryRead(LAUNCH, None)
    assert feed(unborn(), empty, at_s=BORN_S + UNBORN_S - 0.1)[1] == ()
    assert feed(unborn(), empty, at_s=BORN_S + UNBORN_S)[1] == (Remove(),)


def test_run_files_of_an_earlier_boot_are_removed_and_nothing_else() -> None:
    earlier = replace_boot(SHIM, "boot-0")
    guarded_attempt, _ = feed(unborn(), DirectoryRead(LAUNCH, earlier))
    assert guarded_attempt.stage is GuardStage.REMOVING, "nobody is killed, and nothing is written"
    assert feed(guarded_attempt, CONNECTED)[1] == (Remove(),)


def test_a_directory_that_names_a_stranger_is_removed_and_nothing_else() -> None:
    guarded_attempt, effects = feed(unborn(), DirectoryRead(LAUNCH, SHIM), Stranger())
    assert (guarded_attempt.stage, effects) == (GuardStage.REMOVING, ()), (
        "nobody is killed, and nothing is written"
    )


def replace_boot(shim: ShimRecord, boot_id: str) -> ShimRecord:
    return shim._replace(process=shim.process._replace(boot_id=boot_id))


# -- killing -----------------------------------------------------------------------------------------------------------


def test_a_living_shim_far_from_its_deadline_is_not_touched() -> None:
    guarded_attempt, effects = feed(watched(), KillerProbe(False, DEADLINE_S), CONNECTED, at_s=DEADLINE_S - 1)
    assert (guarded_attempt.stage, effects) == (GuardStage.WATCHED, ())


@pytest.mark.parametrize("probe", [KillerProbe(True, DEADLINE_S), KillerProbe(False, BORN_S)])
def test_the_shim_is_killed_before_its_tree(probe: KillerProbe) -> None:
    guarded_attempt, effects = feed(watched(), probe, AWAY)
    assert effects == (Strike(Act.KILL_SHIM),)
    guarded_attempt, effects = feed(guarded_attempt, ShimStruck(True))
    assert effects == (Strike(Act.KILL_TREE),)


def test_what_is_not_dead_is_struck_again_at_the_next_tick() -> None:
    guarded_attempt, effects = feed(
        watched(), KillerProbe(True, None), AWAY, ShimStruck(True), TreeStruck(0.05, Emptiness.POPULATED)
    )
    assert (guarded_attempt.stage, effects) == (GuardStage.KILLING, ())
    assert feed(guarded_attempt, AWAY)[1] == (Strike(Act.KILL_SHIM),)


def test_a_kill_that_takes_longer_than_the_kill_time_is_told() -> None:
    guarded_attempt, _ = feed(watched(), KillerProbe(True, None), AWAY, ShimStruck(True))
    _, effects = step(guarded_attempt, TreeStruck(0.05, Emptiness.POPULATED), BORN_S + KILL_TIME_S + 0.1)
    assert [effect.event for effect in effects if isinstance(effect, LogGuard)] == ["kill_takes_too_long"]


def test_without_proof_that_the_tree_is_empty_nothing_is_written() -> None:
    guarded_attempt, _ = feed(
        watched(), KillerProbe(True, None), AWAY, ShimStruck(True), TreeStruck(0.1, Emptiness.UNPROVABLE)
    )
    assert guarded_attempt.stage is GuardStage.REMOVING


def test_without_the_launch_file_nobody_knows_what_to_write() -> None:
    guarded_attempt, _ = feed(
        unborn(),
        DirectoryRead(None, SHIM),
        KillerProbe(True, None),
        AWAY,
        ShimStruck(True),
        TreeStruck(0.1, Emptiness.EMPTY),
    )
    assert guarded_attempt.stage is GuardStage.REMOVING


# -- burying -----------------------------------------------------------------------------------------------------------


def buried(effects: tuple[Effect, ...]) -> Ownership:
    (commit,) = effects
    assert isinstance(commit, CommitTombstone)
    written = commit.transaction.ops[0]
    assert isinstance(written, SetData) and (written.path, written.version) == (LAYOUT.own("job"), 9)
    return decode(Ownership, written.data, written.path)


@pytest.mark.parametrize(
    ("probe", "at_s", "cause"),
    [
        (KillerProbe(True, DEADLINE_S), 110.0, Cause.SHIM_DIED),
        (KillerProbe(False, DEADLINE_S), DEADLINE_S, Cause.LEASE_EXPIRED),
    ],
)
def test_the_tombstone_is_written_at_the_version_just_read_and_says_why(
    probe: KillerProbe, at_s: float, cause: Cause
) -> None:
    guarded_attempt, effects = feed(burying(probe, at_s), read(Found(CLAIMED, 9), at_s - 4.0), at_s=at_s)
    own = buried(effects)
    assert (own.state, own.cause, own.ran_s) == (OwnState.EXITED, cause, 4.0)
    assert feed(guarded_attempt, TombstoneWritten())[0].stage is GuardStage.REMOVING


def test_a_stop_that_was_requested_before_is_a_stop_whatever_killed_the_driver() -> None:
    _, effects = feed(burying(), read(Found(replace(CLAIMED, state=OwnState.DRAINING), 9)))
    assert buried(effects).cause is Cause.STOPPED


@pytest.mark.parametrize(
    "own",
    [
        replace(CLAIMED, claim="another"),
        replace(CLAIMED, attempt=2),
        replace(CLAIMED, uid="uid-2"),
        replace(CLAIMED, state=OwnState.EXITED),
        replace(CLAIMED, state=OwnState.VACANT),
    ],
)
def test_over_anything_but_this_very_claim_nothing_is_written(own: Ownership) -> None:
    guarded_attempt, effects = feed(burying(), read(Found(own, 9)))
    assert (guarded_attempt.stage, effects) == (GuardStage.REMOVING, ())


@pytest.mark.parametrize("own", [None, Unreadable("not JSON", 9), Found(CLAIMED, ENTRY.own_version - 1)])
def test_unknown_is_not_absent_and_is_asked_again_for_long(own: Seen[Ownership]) -> None:
    guarded_attempt, effects = feed(burying(), read(own), at_s=110.0)
    assert (guarded_attempt.stage, effects) == (GuardStage.BURYING, ())
    guarded_attempt, _ = feed(guarded_attempt, CONNECTED, read(own), at_s=110.0 + DOUBT_S - 1)
    assert guarded_attempt.stage is GuardStage.BURYING
    assert feed(guarded_attempt, CONNECTED, at_s=110.0 + DOUBT_S - 0.5)[1] == (), "not again at once"
    guarded_attempt, effects = feed(guarded_attempt, CONNECTED, read(own), at_s=110.0 + DOUBT_S)
    assert (guarded_attempt.stage, effects) == (GuardStage.REMOVING, ())


def test_a_claim_that_the_dead_shim_had_sent_is_waited_for() -> None:
    assigned = Found(replace(CLAIMED, state=OwnState.ASSIGNED, claim=""), ENTRY.own_version)
    guarded_attempt, effects = feed(burying(), read(assigned), at_s=110.0)
    assert (guarded_attempt.stage, effects) == (GuardStage.BURYING, ())
    guarded_attempt, effects = feed(guarded_attempt, CONNECTED, read(Found(CLAIMED, 9)), at_s=111.0)
    assert buried(effects).state is OwnState.EXITED
    guarded_attempt, _ = feed(burying(), read(assigned), at_s=110.0)
    guarded_attempt, _ = feed(guarded_attempt, CONNECTED, read(assigned), at_s=110.0 + CLAIM_UNDER_WAY_S)
    assert guarded_attempt.stage is GuardStage.REMOVING


def test_a_write_whose_outcome_is_unknown_is_resolved_by_reading_again() -> None:
    guarded_attempt, _ = feed(burying(), read(Found(CLAIMED, 9)), CommitUnanswered(), at_s=110.0)
    assert (guarded_attempt.stage, guarded_attempt.asking) == (GuardStage.BURYING, False)
    assert feed(guarded_attempt, CONNECTED, at_s=110.5)[1] == ()
    guarded_attempt, effects = feed(guarded_attempt, CONNECTED, at_s=111.0)
    assert effects == (ReadOwn(),)
    exited = Found(replace(CLAIMED, state=OwnState.EXITED), 10)
    assert feed(guarded_attempt, read(exited), at_s=111.0)[0].stage is GuardStage.REMOVING


def test_without_a_connection_nothing_is_asked() -> None:
    struck = (KillerProbe(True, DEADLINE_S), CONNECTED, ShimStruck(True), TreeStruck(0.1, Emptiness.EMPTY))
    guarded_attempt, effects = feed(watched(), *struck, AWAY, AWAY)
    assert (guarded_attempt.stage, effects) == (GuardStage.BURYING, ())
    assert feed(guarded_attempt, CONNECTED)[1] == (ReadOwn(),)


def test_an_event_out_of_turn_changes_nothing() -> None:
    for guarded_attempt in (unborn(), watched(), replace(burying(), asking=False)):
        for event in (read(Found(CLAIMED, 9)), TombstoneWritten(), CommitUnanswered(), ShimStruck(True)):
            assert step(guarded_attempt, event, 120.0) == (guarded_attempt, ())


def test_each_stage_stands_in_the_table() -> None:
    table = (guarded_attempts.__doc__ or "").partition("What is never bent")[0]
    assert [stage for stage in GuardStage if f"\n{stage.value} " not in table] == []


# -- prepared drivers --------------------------------------------------------------------------------------------------

PREPARED = replace(
    LAUNCH,
    prepared="uid-1.p1",
    assignment=replace(ENTRY, attempt=NO_ATTEMPT, own_version=-1, job_version=-1),
)
HANDED = replace(LAUNCH, prepared="uid-1.p1")
NO_DEADLINE = KillerProbe(True, None)


def taken(tree: Emptiness = Emptiness.EMPTY, probe: KillerProbe = NO_DEADLINE) -> GuardedAttempt:
    """A prepared driver whose shim is dead, and its tree killed."""
    guarded_attempt = GuardedAttempt("uid-1.p1", "host-a", BOOT, LAYOUT, BORN_S)
    events = (DirectoryRead(PREPARED, SHIM), probe, AWAY, ShimStruck(True), TreeStruck(0.1, tree))
    guarded_attempt, effects = feed(guarded_attempt, *events, at_s=110.0)
    assert (guarded_attempt.stage, effects) == (GuardStage.TAKEN, ())
    return guarded_attempt


def test_a_prepared_driver_that_dies_before_an_attempt_was_handed_to_it_is_only_removed() -> None:
    guarded_attempt, effects = feed(taken(), HandedRead(None), CONNECTED)
    assert (guarded_attempt.stage, effects) == (GuardStage.REMOVING, (Remove(),)), "/own is not even read"


def test_one_that_dies_with_an_attempt_gets_its_tombstone() -> None:
    guarded_attempt, effects = feed(taken(), HandedRead(HANDED), CONNECTED, at_s=110.0)
    assert effects == (ReadOwn(),) and guarded_attempt.launch == HANDED
    _, effects = feed(guarded_attempt, read(Found(CLAIMED, 9), 106.0), at_s=110.0)
    assert buried(effects).cause is Cause.SHIM_DIED


def test_its_claim_that_may_be_under_way_is_waited_for() -> None:
    assigned = Found(replace(CLAIMED, state=OwnState.ASSIGNED, claim=""), ENTRY.own_version)
    events = (HandedRead(HANDED), CONNECTED, read(assigned))
    guarded_attempt, effects = feed(taken(), *events, at_s=110.0)
    assert (guarded_attempt.stage, effects) == (GuardStage.BURYING, ())


@pytest.mark.parametrize(
    "handed",
    [HandedRead(None, "it is not JSON"), HandedRead(replace(HANDED, supervisor="host-b"))],
    ids=["corrupt", "foreign"],
)
def test_where_it_is_not_to_be_believed_which_attempt_it_was_nothing_is_written(handed: HandedRead) -> None:
    guarded_attempt, effects = step(taken(), handed, 110.0)
    assert guarded_attempt.stage is GuardStage.REMOVING
    assert [effect.event for effect in effects if isinstance(effect, LogGuard)] == ["no_tombstone"]
    assert guarded_attempt.launch == PREPARED


def test_without_proof_of_its_empty_tree_nothing_is_written_either() -> None:
    assert feed(taken(Emptiness.UNPROVABLE), HandedRead(HANDED))[0].stage is GuardStage.REMOVING


def test_what_is_handed_over_is_not_asked_for_of_an_ordinary_attempt() -> None:
    assert step(burying(), HandedRead(None), 120.0) == (burying(), ())


@pytest.mark.parametrize("boot_id", ["boot-0"])
def test_a_prepared_driver_of_an_earlier_boot_or_of_another_supervisor(boot_id: str) -> None:
    unborn_one = GuardedAttempt("uid-1.p1", "host-a", BOOT, LAYOUT, BORN_S)
    earlier = DirectoryRead(PREPARED, replace_boot(SHIM, boot_id))
    assert feed(unborn_one, earlier)[0].stage is GuardStage.REMOVING
    foreign = replace(unborn_one, supervisor="host-b")
    assert feed(foreign, DirectoryRead(PREPARED, SHIM), NO_DEADLINE, CONNECTED, at_s=1e6) == (
        replace(foreign, launch=PREPARED),
        (),
    )
