"""The leadership machine, cell by cell where it matters, and as the incidents that it must survive."""

from __future__ import annotations

import typing
from dataclasses import replace

import pytest

from supervisor.coord import leadership
from supervisor.coord.leadership import LeadershipState, State

OURS, THEIRS = 101, 202
T = 10.0

LEADING = LeadershipState(State.LEADING, session=OURS, timeout_s=T, epoch=7, fence=7, highest=7, owner=OURS)
FOLLOWING = LeadershipState(State.FOLLOWING, session=OURS, timeout_s=T, highest=6, owner=THEIRS)
SUSPENDED = replace(LEADING, state=State.SUSPENDED)
CONTENDING = replace(FOLLOWING, state=State.CONTENDING, epoch=7, fence=7, highest=7)
SETTLING = replace(CONTENDING, state=State.SETTLING)
STEPPING_DOWN = replace(LEADING, state=State.STEPPING_DOWN)

SAMPLES: dict[type, leadership.Event] = {
    leadership.Start: leadership.Start(),
    leadership.Stop: leadership.Stop(),
    leadership.Nudged: leadership.Nudged(),
    leadership.SessionConnected: leadership.SessionConnected(OURS, T),
    leadership.SessionDisconnected: leadership.SessionDisconnected(),
    leadership.Lost: leadership.Lost(),
    leadership.ElectionTick: leadership.ElectionTick(50.0, 49.0),
    leadership.LeaderChanged: leadership.LeaderChanged(),
    leadership.ElectionRead: leadership.ElectionRead(50.0, THEIRS, 7, 7),
    leadership.ElectionReadFailed: leadership.ElectionReadFailed(50.0, "x"),
    leadership.Elected: leadership.Elected(7),
    leadership.Rejected: leadership.Rejected(50.0, "/leader"),
    leadership.NotStood: leadership.NotStood(50.0, "x"),
    leadership.StoodUnknown: leadership.StoodUnknown("x"),
    leadership.ResolveFailed: leadership.ResolveFailed(50.0),
    leadership.Probed: leadership.Probed(7, OURS),
    leadership.Deposed: leadership.Deposed("x"),
    leadership.TermDrained: leadership.TermDrained(),
}


def run(
    machine_state: LeadershipState, *events: leadership.Event
) -> tuple[LeadershipState, list[leadership.Effect]]:
    effects: list[leadership.Effect] = []
    for event in events:
        machine_state, more = leadership.step(machine_state, event)
        effects.extend(more)
    return machine_state, effects


def test_every_event_has_a_cell_in_every_state() -> None:
    assert set(leadership.TABLE) == set(typing.get_args(leadership.Event)) == set(SAMPLES)
    assert set(leadership.COLUMNS) == set(State)
    assert all(len(row) == len(leadership.COLUMNS) for row in leadership.TABLE.values())


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", SAMPLES.values(), ids=lambda event: type(event).__name__)
def test_step_is_total(state: State, event: leadership.Event) -> None:
    after, effects = leadership.step(replace(LEADING, state=state), event)
    assert isinstance(after.state, State)
    assert all(isinstance(effect, typing.get_args(leadership.Effect)) for effect in effects)


@pytest.mark.parametrize(
    "event", [e for e in SAMPLES.values() if not isinstance(e, leadership.TermDrained)], ids=repr
)
def test_flink_9494_nothing_happens_before_the_tasks_of_the_term_are_over(event: leadership.Event) -> None:
    after, effects = leadership.step(STEPPING_DOWN, event)
    assert after.state is State.STEPPING_DOWN
    assert effects == ()


@pytest.mark.parametrize("event", SAMPLES.values(), ids=repr)
def test_stopped_is_the_end(event: leadership.Event) -> None:
    after, effects = leadership.step(LeadershipState(State.STOPPED), event)
    assert after.state is State.STOPPED
    assert effects == ()


def test_first_candidacy() -> None:
    machine_state, effects = run(
        LeadershipState(),
        leadership.Start(),
        leadership.SessionConnected(OURS, T),
        leadership.ElectionRead(1.0, None, 6, 6),
        leadership.Elected(7),
    )
    assert effects == [
        leadership.Connect(),
        leadership.ReadElection(),
        leadership.Stand(7, 6),
        leadership.BeginTerm(7, 7),
        leadership.Probe(),
    ]
    assert (machine_state.state, machine_state.epoch, machine_state.fence) == (State.LEADING, 7, 7)


def test_follows_whoever_leads_and_stands_when_they_go() -> None:
    machine_state, effects = run(FOLLOWING, leadership.ElectionRead(1.0, THEIRS, 6, 6))
    assert (machine_state.state, effects) == (State.FOLLOWING, [])
    machine_state, effects = run(
        machine_state, leadership.LeaderChanged(), leadership.ElectionRead(2.0, None, 6, 6)
    )
    assert (machine_state.state, effects) == (
        State.CONTENDING,
        [leadership.ReadElection(), leadership.Stand(7, 6)],
    )


def test_a_follower_looks_again_without_any_watch() -> None:
    machine_state, _ = run(FOLLOWING, leadership.ElectionRead(10.0, THEIRS, 6, 6))
    assert run(machine_state, leadership.ElectionTick(10.1, 10.0))[1] == []
    assert run(machine_state, leadership.ElectionTick(10.0 + T * leadership.POLL_FRACTION, 10.0))[1] == [
        leadership.ReadElection()
    ]


def test_flink_10011_suspended_is_not_loss() -> None:
    suspended, effects = run(LEADING, leadership.SessionDisconnected())
    assert (suspended.state, effects) == (State.SUSPENDED, [leadership.PauseTerm()])
    resumed, effects = run(suspended, leadership.SessionConnected(OURS, T))
    assert (resumed.state, effects) == (State.LEADING, [leadership.ResumeTerm(), leadership.Probe()])
    assert (resumed.epoch, resumed.fence) == (LEADING.epoch, LEADING.fence)


@pytest.mark.parametrize("machine_state", [LEADING, SUSPENDED], ids=lambda s: s.state)
@pytest.mark.parametrize(
    "event",
    [
        leadership.Lost(),
        leadership.SessionConnected(THEIRS, T),
        leadership.ElectionTick(20.0, 10.0),
        leadership.Probed(8, OURS),
        leadership.Probed(7, None),
        leadership.Probed(7, THEIRS),
        leadership.Probed(None, OURS),
        leadership.Deposed("the fence failed"),
        leadership.Probed(7, OURS, give_way=True),
        leadership.Stop(),
    ],
    ids=repr,
)
def test_what_ends_a_term(machine_state: LeadershipState, event: leadership.Event) -> None:
    after, effects = leadership.step(machine_state, event)
    assert after.state is State.STEPPING_DOWN
    assert [type(effect) for effect in effects] == [leadership.EndTerm]


def test_kazoo_m7_the_own_deadline_needs_no_word_from_kazoo() -> None:
    assert run(SUSPENDED, leadership.ElectionTick(19.9, 10.0))[0].state is State.SUSPENDED
    assert run(SUSPENDED, leadership.ElectionTick(20.0, 10.0))[0].state is State.STEPPING_DOWN


def test_a_leader_proves_itself_at_each_tick() -> None:
    machine_state, effects = run(LEADING, leadership.ElectionTick(11.0, 10.0), leadership.Probed(7, OURS))
    assert (machine_state.state, effects) == (State.LEADING, [leadership.Probe()])


def test_kazoo_m3_a_new_session_is_a_new_candidacy() -> None:
    machine_state, effects = run(LEADING, leadership.SessionConnected(THEIRS, T), leadership.TermDrained())
    assert effects[1:] == [leadership.Disconnect(), leadership.Connect()]
    assert (machine_state.state, machine_state.session) == (State.CONNECTING, None)


@pytest.mark.parametrize("machine_state", [FOLLOWING, CONTENDING, SETTLING], ids=lambda s: s.state)
@pytest.mark.parametrize("event", [leadership.Lost(), leadership.SessionConnected(THEIRS, T)], ids=repr)
def test_a_lost_session_takes_its_candidacy_with_it(
    machine_state: LeadershipState, event: leadership.Event
) -> None:
    after, effects = leadership.step(machine_state, event)
    assert (after.state, after.session) == (State.CONNECTING, None)
    assert effects == (leadership.Disconnect(), leadership.Connect())


def test_flink_9573_a_leads_then_b_then_a_again_with_a_higher_epoch() -> None:
    machine_state, effects = run(
        LEADING,
        leadership.Lost(),
        leadership.TermDrained(),
        leadership.SessionConnected(303, T),
        leadership.ElectionRead(1.0, THEIRS, 8, 8),
    )
    assert machine_state.state is State.FOLLOWING
    machine_state, effects = run(
        machine_state,
        leadership.LeaderChanged(),
        leadership.ElectionRead(2.0, None, 8, 8),
        leadership.Elected(9),
    )
    assert leadership.BeginTerm(9, 9) in effects


def test_lost_reply_of_the_election_is_read_back_on_the_same_session() -> None:
    machine_state, effects = run(
        CONTENDING,
        leadership.StoodUnknown("cut"),
        leadership.ResolveFailed(1.0),
        leadership.SessionConnected(OURS, T),
    )
    assert (machine_state.state, effects) == (
        State.SETTLING,
        [leadership.ResolveOutcome(), leadership.ResolveOutcome()],
    )
    machine_state, effects = run(machine_state, leadership.Elected(7))
    assert (machine_state.state, effects[0]) == (State.LEADING, leadership.BeginTerm(7, 7))


def test_lost_reply_of_an_election_that_was_not_applied_is_followed_by_another() -> None:
    machine_state, effects = run(SETTLING, leadership.ElectionRead(1.0, None, 6, 6))
    assert (machine_state.state, effects) == (State.CONTENDING, [leadership.Stand(8, 6)])
    machine_state, effects = run(SETTLING, leadership.ElectionRead(1.0, THEIRS, 7, 7))
    assert (machine_state.state, effects) == (State.FOLLOWING, [])


def test_resolving_in_vain_gives_the_session_up() -> None:
    assert run(SETTLING, leadership.ElectionTick(19.0, 10.0))[1] == [leadership.ResolveOutcome()]
    machine_state, effects = run(SETTLING, leadership.ElectionTick(20.0, 10.0))
    assert (machine_state.state, effects) == (
        State.CONNECTING,
        [leadership.Disconnect(), leadership.Connect()],
    )


def test_a_leader_node_of_our_own_that_is_no_term_is_given_up() -> None:
    machine_state, effects = run(FOLLOWING, leadership.ElectionRead(1.0, OURS, 7, 7))
    assert (machine_state.state, effects) == (
        State.CONNECTING,
        [leadership.Disconnect(), leadership.Connect()],
    )


def test_a_lost_race_is_looked_at_again_but_not_for_ever_at_once() -> None:
    machine_state = CONTENDING
    for _ in range(leadership.REJECTIONS_AT_ONCE):
        machine_state, effects = run(machine_state, leadership.Rejected(1.0, "/epoch"))
        assert effects == [leadership.ReadElection()]
        machine_state, _ = run(
            machine_state, leadership.ElectionRead(1.0, None, machine_state.highest, machine_state.highest)
        )
    machine_state, effects = run(machine_state, leadership.Rejected(1.0, "/epoch"))
    assert (machine_state.state, effects) == (State.FOLLOWING, [])
    assert run(machine_state, leadership.ElectionTick(1.0 + leadership.RETRY_S, 1.0))[1] == [
        leadership.ReadElection()
    ]


def test_flink_10255_a_registry_without_an_epoch_is_nothing_to_stand_for() -> None:
    machine_state, effects = run(FOLLOWING, leadership.ElectionRead(1.0, None, flaw="/epoch is missing"))
    assert (machine_state.state, effects, machine_state.why) == (State.FOLLOWING, [], "/epoch is missing")


def test_an_epoch_that_went_back_is_stood_above() -> None:
    _, effects = run(replace(FOLLOWING, highest=40), leadership.ElectionRead(1.0, None, 5, 3))
    assert effects == [leadership.Stand(41, 3)]


def free(now_s: float, epoch: int, *, give_way: bool = False) -> leadership.ElectionRead:
    """Nobody leads; ``give_way``: a planned hand-over of term ``epoch`` wants another one."""
    return leadership.ElectionRead(now_s, None, epoch, epoch, give_way=give_way)


def test_a_leader_that_is_nudged_looks_at_once() -> None:
    assert run(LEADING, leadership.Nudged()) == (LEADING, [leadership.Probe()])


def test_planned_hand_over_lets_others_lead_first() -> None:
    machine_state, effects = run(
        LEADING,
        leadership.Probed(7, OURS, give_way=True),
        leadership.TermDrained(),
        leadership.SessionConnected(303, T),
        free(20.0, 7, give_way=True),
    )
    assert effects == [
        leadership.EndTerm("handing over as planned"),
        leadership.Disconnect(),
        leadership.Connect(),
        leadership.ReadElection(),
    ]
    assert machine_state.state is State.FOLLOWING
    taken, _ = run(machine_state, leadership.LeaderChanged(), leadership.ElectionRead(20.1, THEIRS, 8, 8))
    assert run(taken, leadership.LeaderChanged(), free(20.2, 8))[1][-1] == leadership.Stand(9, 8)
    assert run(machine_state, leadership.ElectionTick(21.0, 20.0), free(21.0, 7, give_way=True))[1] == [
        leadership.ReadElection()
    ]
    assert run(machine_state, leadership.ElectionTick(30.0, 29.0), free(20.0 + T, 7, give_way=True))[1][
        -1
    ] == leadership.Stand(8, 7)


def test_whoever_is_not_named_waits_for_the_session_time_from_when_nobody_leads() -> None:
    machine_state, effects = run(
        FOLLOWING, leadership.ElectionRead(10.0, THEIRS, 6, 6, give_way=True), free(100.0, 6, give_way=True)
    )
    assert (machine_state.state, effects) == (State.FOLLOWING, [])
    assert run(machine_state, free(100.0 + T, 6, give_way=True))[1] == [leadership.Stand(7, 6)]
    assert run(machine_state, free(101.0, 6))[1] == [leadership.Stand(7, 6)], "the wish was taken back"


def test_whoever_is_named_stands_at_once() -> None:
    assert run(FOLLOWING, free(10.0, 6))[1] == [leadership.Stand(7, 6)]


def test_giving_way_in_one_epoch_is_no_wait_in_another() -> None:
    waited, _ = run(FOLLOWING, free(10.0, 6, give_way=True))
    assert run(waited, leadership.ElectionRead(11.0, THEIRS, 7, 7), free(12.0, 7))[1] == [
        leadership.Stand(8, 7)
    ]
    again, effects = run(waited, free(19.0, 7, give_way=True), free(21.0, 7, give_way=True))
    assert effects == [], "a wish about another epoch has a time of its own"
    assert run(again, free(19.0 + T, 7, give_way=True))[1] == [leadership.Stand(8, 7)]


def test_a_leader_that_lost_its_fence_says_so_rather_than_that_it_hands_over() -> None:
    assert "another supervisor was elected" in run(LEADING, leadership.Probed(8, OURS, give_way=True))[0].why


def test_graceful_stop_closes_the_session_only_after_the_tasks() -> None:
    machine_state, effects = run(LEADING, leadership.Stop())
    assert effects == [leadership.EndTerm("stopping")]
    machine_state, effects = run(
        machine_state, leadership.Lost(), leadership.ElectionTick(99.0, 0.0), leadership.TermDrained()
    )
    assert (machine_state.state, effects) == (State.STOPPED, [leadership.Disconnect()])


def test_stop_while_stepping_down_does_not_stand_again() -> None:
    machine_state, effects = run(STEPPING_DOWN, leadership.Stop(), leadership.TermDrained())
    assert (machine_state.state, effects) == (State.STOPPED, [leadership.Disconnect()])


def test_stop_before_the_start() -> None:
    assert run(LeadershipState(), leadership.Stop(), leadership.Start()) == (
        replace(leadership.step(LeadershipState(), leadership.Stop())[0]),
        [],
    )
