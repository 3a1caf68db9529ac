"""The protocol of one attempt, rule by rule (protocol §5 and §7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.model import lease_terms
from supervisor.model.records import Cause, OwnState, Phase
from supervisor.records.codec import encode
from supervisor.shim import state as shim
from supervisor.shim.state import Stage
from tests.unit.shim.world import (
    ENTRY,
    LAUNCH,
    LAYOUT,
    LEASE,
    LIVE,
    OWN,
    ShimWorld,
    Znode,
    kill_tree,
    running,
)


def committed(world: ShimWorld, what: str) -> int:
    return sum(isinstance(e, shim.Commit) and e.transaction.what == what for e in world.effects)


# -- claim -------------------------------------------------------------------------------------------------------------


def test_nothing_is_executed_before_the_claim_has_committed() -> None:
    world = ShimWorld()
    world.connect()
    world.answer()  # the read
    assert world.stage() is Stage.CLAIMING and not world.executed()
    world.answer()  # the claim
    assert world.executed() == 1
    assert world.own().state is OwnState.CLAIMED and world.own().claims == 1


def test_the_deadline_counts_from_sending_the_claim() -> None:
    world = ShimWorld()
    world.connect()
    world.answer()
    sent_at_s = world.now_s
    world.wait(3.0)
    world.answer()
    assert world.state.deadline_at_s == lease_terms.deadline_at_s(sent_at_s, 30.0) == world.file_deadline_at_s


def test_a_claim_confirmed_too_late_executes_nothing_and_says_so() -> None:
    world = ShimWorld()
    world.connect()
    world.answer()
    world.wait(27.5)
    world.answer()
    assert not world.executed() and world.stage() is Stage.KILLING
    kill_tree(world)
    world.run(5)
    assert (world.own().state, world.own().cause) == (OwnState.EXITED, Cause.LEASE_EXPIRED)


@pytest.mark.parametrize("moved", [OwnState.VACANT, OwnState.EXITED])
def test_an_entry_that_was_taken_back_is_left_alone(moved: OwnState) -> None:
    world = ShimWorld()
    world.move(moved)
    world.connect()
    world.run(1)
    assert world.finished and not world.executed() and committed(world, "claim") == 0


def test_an_entry_of_an_older_fence_is_not_even_tried() -> None:
    world = ShimWorld()
    world.move(OwnState.ASSIGNED)
    world.connect()
    world.run(2)
    assert world.finished and committed(world, "claim") == 0


@pytest.mark.parametrize("asked_before", [False, True], ids=["reading", "claiming"])
def test_a_connection_that_breaks_before_the_claim_ends_it(asked_before: bool) -> None:
    """On the next one it might hear what a restored registry says, and that may be long over: its agent looks at that."""
    world = ShimWorld()
    world.connect()
    if asked_before:
        world.answer()
    world.disconnect()
    world.answer("lost")
    assert committed(world, "claim") == asked_before
    world.connect()
    world.run(2)
    assert world.finished and not world.executed() and committed(world, "claim") == asked_before


def test_a_claim_that_was_applied_on_the_first_connection_counts_though_that_broke() -> None:
    world = ShimWorld()
    world.connect()
    world.answer()
    world.disconnect()
    world.answer("applied")
    world.connect()
    world.run(2)
    assert world.executed() == 1


def test_a_claim_goes_out_on_the_first_connection_or_not_at_all() -> None:
    """The machine hears later than the client that it has another connection; renewals are bound to none."""
    world = running()
    world.run(30)
    assert {(e.transaction.what, e.first) for e in world.effects if isinstance(e, shim.Commit)} == {
        ("claim", True),
        ("renew", False),
    }


def test_an_answer_to_an_older_question_is_ignored() -> None:
    world = ShimWorld()
    world.connect()
    world.deliver(shim.OwnRead(99, None))
    world.deliver(shim.ReadFailed(99))
    assert world.state.reading and len(world.sent) == 1


def test_an_entry_taken_back_between_read_and_claim_is_left_alone() -> None:
    world = ShimWorld()
    world.connect()
    world.answer()
    world.move(OwnState.VACANT)
    world.run(2)
    assert world.finished and not world.executed() and world.own().state is OwnState.VACANT


def test_a_lease_that_changed_between_read_and_claim_is_read_again() -> None:
    world = ShimWorld()
    world.connect()
    world.answer()
    world.nodes[LEASE] = Znode(b"an older attempt's")
    world.run(2)
    assert world.executed() == 1 and committed(world, "claim") == 2


def test_a_shim_that_a_pause_overtook_claims_once_the_pause_is_over() -> None:
    """It was started just before: its refused claims are not held against it."""
    world = ShimWorld()
    world.nodes[LAYOUT.pause] = Znode(b"{}")
    world.connect()
    world.run(30)
    assert not world.finished and not world.executed()
    assert world.count(shim.Commit) < 30, "it asks now and then, not as fast as it can"
    del world.nodes[LAYOUT.pause]
    world.run(5)
    assert world.executed() == 1


@pytest.mark.parametrize("looked_before_s", [0.0, 4.0])
def test_without_a_connection_soon_after_the_agents_look_it_gives_up(looked_before_s: float) -> None:
    world = ShimWorld(replace(LAUNCH, looked_s=1000.0 - looked_before_s))
    world.wait(9.5 - looked_before_s)
    assert not world.finished
    world.wait(0.5)
    assert world.finished


def test_a_first_connection_that_comes_too_late_is_not_used() -> None:
    """A stopped shim wakes, and finds itself connected: to whatever ZooKeeper is by now."""
    world = ShimWorld()
    world.now_s += 10.0
    world.connect()
    assert world.finished and not world.sent


def test_what_cannot_be_claimed_for_long_is_given_up() -> None:
    world = ShimWorld()
    del world.nodes[OWN]
    world.connect()
    world.run(119)
    assert not world.finished
    world.run(2)
    assert world.finished and not world.executed()


@pytest.mark.parametrize("data", [None, b"{nonsense"])
def test_an_absent_or_unreadable_ownership_is_waited_for(data: bytes | None) -> None:
    world = ShimWorld()
    good = world.nodes.pop(OWN)
    if data is not None:
        world.nodes[OWN] = Znode(data, good.version)
    world.connect()
    world.run(10)
    assert not world.finished and not world.executed()
    world.nodes[OWN] = good
    world.run(3)
    assert world.executed() == 1


# -- a claim of unknown outcome ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["applied", "lost"])
def test_an_unknown_claim_is_read_back_in_its_session_before_exec(outcome: str) -> None:
    world = ShimWorld()
    world.connect()
    world.answer()
    sent_at_s = world.now_s
    world.answer(outcome)
    assert world.stage() is Stage.SETTLING and not world.executed()
    world.wait(1)
    assert world.count(shim.CloseSession) == 0
    world.run(2)
    assert world.executed() == 1
    if outcome == "applied":
        assert committed(world, "claim") == 1
        assert world.file_deadline_at_s is not None
        assert lease_terms.deadline_at_s(sent_at_s, 30.0) <= world.file_deadline_at_s


def test_an_unknown_claim_of_a_lost_session_is_read_back_after_that_was_closed() -> None:
    """It was not applied, and nothing of that session can be any more: the agent starts another shim."""
    world = ShimWorld()
    world.connect()
    world.answer()
    world.answer("late")
    world.lose_session()
    world.open_sessions.add(1)  # our side thinks it is lost; the quorum may not have noticed yet
    world.answer("lost")  # the read that was under way
    world.connect()
    world.wait(1)
    assert [type(e) for _, _, e in world.sent] == [shim.CloseSession]
    world.wait(2)
    assert not world.executed() and len(world.sent) == 1
    world.run(2)
    world.come_late()
    assert world.finished and not world.executed() and world.own().state is OwnState.ASSIGNED


def test_a_session_that_cannot_be_closed_resolves_nothing() -> None:
    world = ShimWorld()
    world.connect()
    world.answer()
    world.answer("applied")
    world.lose_session()
    world.answer("lost")
    world.connect()
    for _ in range(10):
        world.answer("lost")
        world.wait(1)
    assert not world.executed() and world.count(shim.CloseSession) >= 5


def test_an_unknown_claim_that_was_drained_meanwhile_is_buried_without_exec() -> None:
    world = ShimWorld()
    world.connect()
    world.answer()
    world.answer("applied")
    world.move(OwnState.DRAINING)
    world.run(2)
    assert not world.executed()
    kill_tree(world)
    world.run(2)
    assert (world.own().state, world.own().cause) == (OwnState.EXITED, Cause.STOPPED)


# -- renewals ----------------------------------------------------------------------------------------------------------


def test_it_renews_every_sixth_of_the_lease() -> None:
    world = running()
    before = committed(world, "renew")
    world.run(50)
    assert 9 <= committed(world, "renew") - before <= 11
    assert world.stage() is Stage.RUNNING
    assert world.file_deadline_at_s == world.state.deadline_at_s == world.true_deadline_at_s()


def test_the_deadline_counts_from_sending_the_renewal() -> None:
    world = running()
    world.run(4)
    renewals = committed(world, "renew")
    while not world.sent:
        world.wait(0.5)
    sent_at_s = world.now_s
    world.wait(2.5)
    world.answer()
    assert committed(world, "renew") == renewals + 1
    assert world.state.deadline_at_s == lease_terms.deadline_at_s(sent_at_s, 30.0) == world.file_deadline_at_s


def test_an_unknown_renewal_moves_no_deadline() -> None:
    world = running()
    world.run(4)
    deadline_at_s = world.state.deadline_at_s
    world.wait(2)
    world.answer("applied")
    assert world.state.deadline_at_s == deadline_at_s == world.file_deadline_at_s


def test_without_renewals_the_tree_is_killed_before_the_second_killers_act() -> None:
    world = running()
    deadline_at_s = world.state.deadline_at_s
    assert deadline_at_s is not None
    world.disconnect()
    world.wait(deadline_at_s - world.now_s - 1.5)
    assert world.stage() is Stage.RUNNING
    world.wait(0.5)
    assert world.stage() is Stage.KILLING and world.count(shim.Kill) == 1
    assert world.now_s < lease_terms.second_killer_acts_at_s(deadline_at_s)


def test_an_expired_lease_is_not_renewed_any_more_but_recorded() -> None:
    world = running()
    world.disconnect()
    world.wait(40)
    before = committed(world, "renew")
    world.connect()
    world.run(20)
    assert committed(world, "renew") == before
    assert not world.buried
    kill_tree(world)
    world.run(5)
    assert (world.own().state, world.own().cause) == (OwnState.EXITED, Cause.LEASE_EXPIRED)


def test_a_lease_record_that_vanished_is_made_again() -> None:
    world = running()
    del world.nodes[LEASE]
    world.run(8)
    assert LEASE in world.nodes and world.stage() is Stage.RUNNING


def test_a_missing_parent_of_all_leases_is_no_reason_to_hurry() -> None:
    """Somebody removed /lease by hand. The leader makes it anew; until then each renewal is rejected, whatever it is."""
    world = running()
    del world.nodes[LEASE]
    asked = 0
    for _ in range(120):  # 12 s
        while world.sent:
            _, _, effect = world.sent.pop(0)
            asked += isinstance(effect, shim.Commit)
            world.deliver(
                shim.WriteRejected(effect.transaction.id, LEASE, "no_node")
                if isinstance(effect, shim.Commit)
                else world._read(effect.token)
            )
            assert asked < 60, "it asks again and again while no time passes"
        world.now_s += 0.1
        world.deliver(shim.Tick())
    assert asked > 5
    before_at_s = world.state.deadline_at_s
    world.run(10.0)  # it is there again
    assert (
        LEASE in world.nodes
        and world.stage() is Stage.RUNNING
        and (world.state.deadline_at_s or 0) > (before_at_s or 0)
    )


def test_phase_changes_renew_at_once_with_the_doorbell() -> None:
    world = ShimWorld()
    world.connect()
    world.run()
    world.deliver(shim.Executed())
    world.run()
    steps = [
        ("waiting", Phase.WAITING),
        ("begun", Phase.BEGUN),
        ("session", Phase.SESSION),
        ("query", Phase.QUERY),
        ("progress", Phase.RUNNING),
    ]
    for event, phase in steps:
        rung = world.nodes["/c/doorbell"].version
        world.deliver(shim.Reported(event))
        world.run()
        assert world.phase() is phase and world.nodes["/c/doorbell"].version == rung + 1


def test_an_application_without_session_or_query_runs_once_its_start_is_judged_no_more() -> None:
    world = ShimWorld()
    world.connect()
    world.run()
    world.deliver(shim.Executed())
    world.deliver(shim.Reported("begun"))
    world.run(LAUNCH.start_timeout_s - 1)
    assert world.phase() is Phase.BEGUN
    world.run(2)
    assert world.phase() is Phase.RUNNING


# -- the fence moved ---------------------------------------------------------------------------------------------------


def test_draining_is_taken_over_and_renewed_while_the_driver_stops() -> None:
    world = running()
    world.move(OwnState.DRAINING)
    world.deliver(shim.OwnChanged())
    world.run()
    assert world.stage() is Stage.STOPPING and world.count(shim.Terminate) == 1
    before = committed(world, "renew")
    world.run(19)
    assert world.stage() is Stage.STOPPING and committed(world, "renew") - before >= 3
    world.run(2)
    assert world.stage() is Stage.KILLING
    kill_tree(world)
    world.run(2)
    assert (world.own().state, world.own().cause) == (OwnState.EXITED, Cause.STOPPED)


def test_draining_is_noticed_by_the_next_renewal_without_any_watch() -> None:
    world = running()
    world.move(OwnState.DRAINING)
    world.run(6)
    assert world.stage() is Stage.STOPPING


def test_no_renewal_after_the_grace_even_if_the_tree_does_not_die() -> None:
    world = running()
    world.move(OwnState.DRAINING)
    world.run(26)
    before = committed(world, "renew")
    world.deliver(shim.TreeSeen(False))
    world.run(30)
    assert committed(world, "renew") == before and world.stage() is Stage.KILLING and not world.buried


def test_a_tree_that_takes_long_to_die_is_renewed_while_the_claim_stands() -> None:
    world = running()
    world.driver = False
    world.deliver(shim.Exited(1))
    before = committed(world, "renew")
    for _ in range(40):
        world.deliver(shim.TreeSeen(False))
        world.run(0.5)
    assert committed(world, "renew") - before >= 3 and not world.buried


@pytest.mark.parametrize(
    "changes",
    [
        {"state": OwnState.REVOKED},
        {"state": OwnState.EXITED},
        {"state": OwnState.VACANT},
        {"state": OwnState.ASSIGNED, "attempt": 2, "claim": ""},
        {"state": OwnState.CLAIMED, "claim": "another"},
        {"state": OwnState.DRAINING, "uid": "uid-2"},
    ],
)
def test_anything_else_kills_at_once(changes: dict[str, object]) -> None:
    world = running()
    world.move(**changes)  # type: ignore[arg-type]
    world.deliver(shim.OwnChanged())
    world.answer()
    assert world.stage() is Stage.KILLING and world.count(shim.Terminate) == 0
    version = world.nodes[OWN].version
    kill_tree(world)
    world.run(2)
    assert world.finished
    assert world.nodes[OWN].version == version + (1 if changes["state"] is OwnState.REVOKED else 0)


@pytest.mark.parametrize("what", ["absent", "unreadable", "older"])
def test_what_cannot_be_believed_stops_renewals_and_the_deadline_decides(what: str) -> None:
    world = running()
    good = world.nodes[OWN]
    if what == "absent":
        del world.nodes[OWN]
    else:
        data, change = (b"{", 1) if what == "unreadable" else (encode(world.own()), -1)
        world.nodes[OWN] = Znode(data, good.version + change)
    world.deliver(shim.OwnChanged())
    world.answer()
    before = committed(world, "renew")
    world.run(20)
    assert world.stage() is Stage.RUNNING and committed(world, "renew") == before
    world.run(10)
    assert world.stage() is Stage.KILLING


def test_what_can_be_believed_again_is_renewed_again() -> None:
    world = running()
    good = world.nodes.pop(OWN)
    world.run(15)
    world.nodes[OWN] = good
    world.run(30)
    assert world.stage() is Stage.RUNNING


# -- sessions and clocks -----------------------------------------------------------------------------------------------


def test_a_new_session_reads_before_anything_else_and_announces_itself() -> None:
    world = running()
    world.lose_session()
    assert world.count(shim.NewClient) == 1
    world.connect()
    assert [type(e) for _, _, e in world.sent] == [shim.Read]
    world.run()
    assert world.nodes[LIVE].owner == world.state.session
    assert world.stage() is Stage.RUNNING


def test_an_announcement_replaces_the_one_of_the_old_session() -> None:
    world = running()
    stale = world.nodes[LIVE]
    world.lose_session()
    world.nodes[LIVE] = stale  # its session is not expired yet
    world.connect()
    world.run()
    assert world.nodes[LIVE].owner == world.state.session


def test_a_clock_jump_reads_before_anything_else() -> None:
    world = running()
    world.run(1)
    world.offset_s += 3600
    world.now_s += 30 / 6
    world.deliver(shim.Tick())
    assert [type(e) for _, _, e in world.sent] == [shim.Read]
    world.run()
    assert world.stage() is Stage.RUNNING


def test_a_clock_jump_between_claim_and_exec_is_read_before_exec() -> None:
    world = ShimWorld()
    world.connect()
    world.answer()
    world.offset_s -= 86400
    world.answer()
    assert not world.executed()
    world.run()
    assert world.executed() == 1


def test_after_a_suspend_the_deadline_is_looked_at_first() -> None:
    world = running()
    world.now_s += 3600
    world.deliver(shim.Tick())
    assert world.stage() is Stage.KILLING


# -- the driver's end --------------------------------------------------------------------------------------------------


def test_leftover_children_are_killed_before_the_tombstone() -> None:
    world = running()
    world.driver = False
    world.deliver(shim.Exited(1))
    world.run(3)
    assert world.count(shim.Kill) >= 1 and not world.buried
    kill_tree(world)
    world.run(2)
    assert world.buried and world.finished and world.own().exit_code == 1


def test_the_tombstone_is_retried_until_it_commits() -> None:
    world = running()
    world.disconnect()
    world.driver = False
    world.deliver(shim.Exited(1))
    kill_tree(world)
    world.wait(3600)
    assert not world.finished
    world.connect()
    world.answer()
    world.move(OwnState.DRAINING)  # between read and write
    world.run(60)
    assert world.finished and world.own().state is OwnState.EXITED


def test_the_tombstone_is_not_given_up_while_the_record_is_ours() -> None:
    world = running()
    world.driver = False
    world.deliver(shim.Exited(1))
    kill_tree(world)
    for outcome in ["done", "not_sent", "done", "lost"] * 200:  # a read that works, a write that does not
        world.answer(outcome)
        world.wait(5)
    assert not world.finished and world.now_s > 1600
    world.run(60)
    assert world.finished and world.own().state is OwnState.EXITED


def test_the_second_killers_are_called_off_once_the_tree_is_empty() -> None:
    world = running()
    world.disconnect()
    world.driver = False
    world.deliver(shim.Exited(1))
    assert world.file_deadline_at_s is not None
    kill_tree(world)
    assert world.file_deadline_at_s is None


def test_a_tombstone_of_unknown_outcome_is_read_back() -> None:
    world = running()
    world.driver = False
    world.deliver(shim.Exited(1))
    kill_tree(world)
    world.answer()
    world.answer("applied")
    version = world.nodes[OWN].version
    world.run(60)
    assert world.finished and world.nodes[OWN].version == version


def test_a_revoked_attempt_buries_itself() -> None:
    world = running()
    world.move(OwnState.REVOKED)
    world.run(6)
    kill_tree(world)
    world.run(2)
    assert (world.own().state, world.own().cause) == (OwnState.EXITED, Cause.LOST)


def test_exec_that_fails_is_permanent_where_time_heals_nothing() -> None:
    world = ShimWorld()
    world.connect()
    world.run()
    world.tree = world.driver = False
    world.deliver(shim.ExecFailed("java is not there", True))
    world.deliver(shim.Exited(127))
    kill_tree(world)
    world.run(2)
    assert (world.own().cause, world.own().permanent, world.own().ran_s) == (Cause.NOT_STARTED, True, 0.0)


def test_a_deadline_that_cannot_be_written_executes_nothing() -> None:
    world = ShimWorld()
    world.connect()
    world.run()
    world.tree = world.driver = False  # the runner skips exec
    world.deliver(shim.DeadlineUnwritable())
    kill_tree(world)
    world.run(2)
    assert (world.own().cause, world.own().permanent) == (Cause.NOT_STARTED, False)


def test_sigterm_to_the_shim_stops_the_driver_in_order() -> None:
    world = running()
    world.deliver(shim.StopAsked())
    assert world.count(shim.Terminate) == 1
    world.driver = False
    world.deliver(shim.Exited(143))
    kill_tree(world)
    world.run(2)
    assert world.own().cause is Cause.STOPPED


def test_sigterm_before_the_claim_claims_nothing() -> None:
    world = ShimWorld()
    world.connect()
    world.deliver(shim.StopAsked())
    assert world.finished and not world.executed()


def test_sigterm_while_the_claim_is_under_way_executes_nothing_and_buries() -> None:
    world = ShimWorld()
    world.connect()
    world.answer()
    world.deliver(shim.StopAsked())
    world.answer()
    assert not world.executed()
    kill_tree(world)
    world.run(2)
    assert (world.own().state, world.own().cause) == (OwnState.EXITED, Cause.STOPPED)


@pytest.mark.parametrize("outcome", ["not_sent", "lost"])
def test_after_sigterm_a_claim_that_was_not_applied_is_not_tried_again(outcome: str) -> None:
    world = ShimWorld()
    world.connect()
    world.answer()
    world.deliver(shim.StopAsked())
    world.answer(outcome)
    world.run(5)
    assert (world.finished, world.own().state, world.own().claims) == (True, OwnState.ASSIGNED, 0)


# -- health ------------------------------------------------------------------------------------------------------------

QUICK = replace(LAUNCH, start_timeout_s=60.0, stall_timeout_s=40.0)


@pytest.mark.parametrize(
    ("reports", "kind", "cause"),
    [
        ([], True, Cause.START_TIMED_OUT),
        ([], False, None),
        (["begun"], True, None),
        (["begun", "session"], True, Cause.START_TIMED_OUT),
        (["begun", "session", "query"], True, Cause.START_TIMED_OUT),
        (["begun", "session", "query", "progress"], True, Cause.STALLED),
        (["progress"], False, None),
    ],
)
def test_the_two_time_outs(reports: list[str], kind: bool, cause: Cause | None) -> None:
    world = ShimWorld(replace(QUICK, reports=kind))
    world.connect()
    world.run()
    world.deliver(shim.Executed())
    for report in reports:
        world.deliver(shim.Reported(report))
    world.run(100)
    assert world.state.cause is cause
    assert (world.stage() is Stage.RUNNING) == (cause is None)


def test_idle_events_are_life() -> None:
    world = running(QUICK)
    for _ in range(20):
        world.run(10)
        world.deliver(shim.Reported("idle"))
    assert world.stage() is Stage.RUNNING


def test_the_entry_is_what_the_world_assigned() -> None:
    assert ENTRY.own_version == ShimWorld().nodes[OWN].version


def test_a_query_that_waits_for_data_after_a_restart_is_not_ended_for_want_of_a_batch() -> None:
    world = running(replace(QUICK, stall_timeout_s=10_000.0))
    for event in ("begun", "session", "query", "idle"):
        world.deliver(shim.Reported(event))
    world.run(QUICK.start_timeout_s * 2)
    assert world.stage() is Stage.RUNNING


def test_a_session_without_a_query_is_not_yet_running() -> None:
    """A busy host takes long to load Spark: its starting slot must not be freed, nor ``submit --wait`` satisfied."""
    world = ShimWorld(replace(QUICK, start_timeout_s=1000.0))
    world.connect()
    world.run()
    for event in (shim.Executed(), shim.Reported("begun"), shim.Reported("session")):
        world.deliver(event)
    world.run(60)
    assert world.phase() is Phase.SESSION
