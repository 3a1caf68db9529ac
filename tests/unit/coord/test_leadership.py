"""The leadership machine, cell by cell where it matters, and as the incidents that it must survive."""

from __future__ import annotations

import typing
from dataclasses import replace

import pytest

from supervisor.coord import leadership as m
from supervisor.coord.leadership import Standing, State

OURS, THEIRS = 101, 202
T = 10.0

LEADING = Standing(State.LEADING, session=OURS, timeout_s=T, epoch=7, fence=7, highest=7, owner=OURS)
FOLLOWING = Standing(State.FOLLOWING, session=OURS, timeout_s=T, highest=6, owner=THEIRS)
SUSPENDED = replace(LEADING, state=State.SUSPENDED)
CONTENDING = replace(FOLLOWING, state=State.CONTENDING, epoch=7, fence=7, highest=7)
SETTLING = replace(CONTENDING, state=State.SETTLING)
STEPPING_DOWN = replace(LEADING, state=State.STEPPING_DOWN)

SAMPLES: dict[type, m.Event] = {
    m.Start: m.Start(),
    m.Stop: m.Stop(),
    m.Nudged: m.Nudged(),
    m.Connected: m.Connected(OURS, T),
    m.Disconnected: m.Disconnected(),
    m.Lost: m.Lost(),
    m.Tick: m.Tick(50.0, 49.0),
    m.LeaderChanged: m.LeaderChanged(),
    m.Looked: m.Looked(50.0, THEIRS, 7, 7),
    m.LookFailed: m.LookFailed(50.0, "x"),
    m.Elected: m.Elected(7),
    m.Rejected: m.Rejected(50.0, "/leader"),
    m.NotStood: m.NotStood(50.0, "x"),
    m.StoodUnknown: m.StoodUnknown("x"),
    m.SettleFailed: m.SettleFailed(50.0),
    m.Probed: m.Probed(7, OURS),
    m.Deposed: m.Deposed("x"),
    m.TermDrained: m.TermDrained(),
}


def run(standing: Standing, *events: m.Event) -> tuple[Standing, list[m.Effect]]:
    effects: list[m.Effect] = []
    for event in events:
        standing, more = m.step(standing, event)
        effects.extend(more)
    return standing, effects


def test_every_event_has_a_cell_in_every_state() -> None:
    assert set(m.TABLE) == set(typing.get_args(m.Event)) == set(SAMPLES)
    assert set(m.COLUMNS) == set(State)
    assert all(len(row) == len(m.COLUMNS) for row in m.TABLE.values())


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", SAMPLES.values(), ids=lambda event: type(event).__name__)
def test_step_is_total(state: State, event: m.Event) -> None:
    after, effects = m.step(replace(LEADING, state=state), event)
    assert isinstance(after.state, State)
    assert all(isinstance(effect, typing.get_args(m.Effect)) for effect in effects)


@pytest.mark.parametrize("event", [e for e in SAMPLES.values() if not isinstance(e, m.TermDrained)], ids=repr)
def test_flink_9494_nothing_happens_before_the_tasks_of_the_term_are_over(event: m.Event) -> None:
    after, effects = m.step(STEPPING_DOWN, event)
    assert after.state is State.STEPPING_DOWN
    assert effects == ()


@pytest.mark.parametrize("event", SAMPLES.values(), ids=repr)
def test_stopped_is_the_end(event: m.Event) -> None:
    after, effects = m.step(Standing(State.STOPPED), event)
    assert after.state is State.STOPPED
    assert effects == ()


def test_first_candidacy() -> None:
    standing, effects = run(
        Standing(),
        m.Start(),
        m.Connected(OURS, T),
        m.Looked(1.0, None, 6, 6),
        m.Elected(7),
    )
    assert effects == [m.Connect(), m.Look(), m.Stand(7, 6), m.BeginTerm(7, 7), m.Probe()]
    assert (standing.state, standing.epoch, standing.fence) == (State.LEADING, 7, 7)


def test_follows_whoever_leads_and_stands_when_they_go() -> None:
    standing, effects = run(FOLLOWING, m.Looked(1.0, THEIRS, 6, 6))
    assert (standing.state, effects) == (State.FOLLOWING, [])
    standing, effects = run(standing, m.LeaderChanged(), m.Looked(2.0, None, 6, 6))
    assert (standing.state, effects) == (State.CONTENDING, [m.Look(), m.Stand(7, 6)])


def test_a_follower_looks_again_without_any_watch() -> None:
    standing, _ = run(FOLLOWING, m.Looked(10.0, THEIRS, 6, 6))
    assert run(standing, m.Tick(10.1, 10.0))[1] == []
    assert run(standing, m.Tick(10.0 + T * m.POLL_FRACTION, 10.0))[1] == [m.Look()]


def test_flink_10011_suspended_is_not_loss() -> None:
    suspended, effects = run(LEADING, m.Disconnected())
    assert (suspended.state, effects) == (State.SUSPENDED, [m.PauseTerm()])
    resumed, effects = run(suspended, m.Connected(OURS, T))
    assert (resumed.state, effects) == (State.LEADING, [m.ResumeTerm(), m.Probe()])
    assert (resumed.epoch, resumed.fence) == (LEADING.epoch, LEADING.fence)


@pytest.mark.parametrize("standing", [LEADING, SUSPENDED], ids=lambda s: s.state)
@pytest.mark.parametrize(
    "event",
    [
        m.Lost(),
        m.Connected(THEIRS, T),
        m.Tick(20.0, 10.0),
        m.Probed(8, OURS),
        m.Probed(7, None),
        m.Probed(7, THEIRS),
        m.Probed(None, OURS),
        m.Deposed("the fence failed"),
        m.Probed(7, OURS, give_way=True),
        m.Stop(),
    ],
    ids=repr,
)
def test_what_ends_a_term(standing: Standing, event: m.Event) -> None:
    after, effects = m.step(standing, event)
    assert after.state is State.STEPPING_DOWN
    assert [type(effect) for effect in effects] == [m.EndTerm]


def test_kazoo_m7_the_own_deadline_needs_no_word_from_kazoo() -> None:
    assert run(SUSPENDED, m.Tick(19.9, 10.0))[0].state is State.SUSPENDED
    assert run(SUSPENDED, m.Tick(20.0, 10.0))[0].state is State.STEPPING_DOWN


def test_a_leader_proves_itself_at_each_tick() -> None:
    standing, effects = run(LEADING, m.Tick(11.0, 10.0), m.Probed(7, OURS))
    assert (standing.state, effects) == (State.LEADING, [m.Probe()])


def test_kazoo_m3_a_new_session_is_a_new_candidacy() -> None:
    standing, effects = run(LEADING, m.Connected(THEIRS, T), m.TermDrained())
    assert effects[1:] == [m.Disconnect(), m.Connect()]
    assert (standing.state, standing.session) == (State.CONNECTING, None)


@pytest.mark.parametrize("standing", [FOLLOWING, CONTENDING, SETTLING], ids=lambda s: s.state)
@pytest.mark.parametrize("event", [m.Lost(), m.Connected(THEIRS, T)], ids=repr)
def test_a_lost_session_takes_its_candidacy_with_it(standing: Standing, event: m.Event) -> None:
    after, effects = m.step(standing, event)
    assert (after.state, after.session) == (State.CONNECTING, None)
    assert effects == (m.Disconnect(), m.Connect())


def test_flink_9573_a_leads_then_b_then_a_again_with_a_higher_epoch() -> None:
    standing, effects = run(
        LEADING, m.Lost(), m.TermDrained(), m.Connected(303, T), m.Looked(1.0, THEIRS, 8, 8)
    )
    assert standing.state is State.FOLLOWING
    standing, effects = run(standing, m.LeaderChanged(), m.Looked(2.0, None, 8, 8), m.Elected(9))
    assert m.BeginTerm(9, 9) in effects


def test_lost_reply_of_the_election_is_read_back_on_the_same_session() -> None:
    standing, effects = run(CONTENDING, m.StoodUnknown("cut"), m.SettleFailed(1.0), m.Connected(OURS, T))
    assert (standing.state, effects) == (State.SETTLING, [m.Settle(), m.Settle()])
    standing, effects = run(standing, m.Elected(7))
    assert (standing.state, effects[0]) == (State.LEADING, m.BeginTerm(7, 7))


def test_lost_reply_of_an_election_that_was_not_applied_is_followed_by_another() -> None:
    standing, effects = run(SETTLING, m.Looked(1.0, None, 6, 6))
    assert (standing.state, effects) == (State.CONTENDING, [m.Stand(8, 6)])
    standing, effects = run(SETTLING, m.Looked(1.0, THEIRS, 7, 7))
    assert (standing.state, effects) == (State.FOLLOWING, [])


def test_settling_in_vain_gives_the_session_up() -> None:
    assert run(SETTLING, m.Tick(19.0, 10.0))[1] == [m.Settle()]
    standing, effects = run(SETTLING, m.Tick(20.0, 10.0))
    assert (standing.state, effects) == (State.CONNECTING, [m.Disconnect(), m.Connect()])


def test_a_leader_node_of_our_own_that_is_no_term_is_given_up() -> None:
    standing, effects = run(FOLLOWING, m.Looked(1.0, OURS, 7, 7))
    assert (standing.state, effects) == (State.CONNECTING, [m.Disconnect(), m.Connect()])


def test_a_lost_race_is_looked_at_again_but_not_for_ever_at_once() -> None:
    standing = CONTENDING
    for _ in range(m.REJECTIONS_AT_ONCE):
        standing, effects = run(standing, m.Rejected(1.0, "/epoch"))
        assert effects == [m.Look()]
        standing, _ = run(standing, m.Looked(1.0, None, standing.highest, standing.highest))
    standing, effects = run(standing, m.Rejected(1.0, "/epoch"))
    assert (standing.state, effects) == (State.FOLLOWING, [])
    assert run(standing, m.Tick(1.0 + m.RETRY_S, 1.0))[1] == [m.Look()]


def test_flink_10255_a_registry_without_an_epoch_is_nothing_to_stand_for() -> None:
    standing, effects = run(FOLLOWING, m.Looked(1.0, None, flaw="/epoch is missing"))
    assert (standing.state, effects, standing.why) == (State.FOLLOWING, [], "/epoch is missing")


def test_an_epoch_that_went_back_is_stood_above() -> None:
    _, effects = run(replace(FOLLOWING, highest=40), m.Looked(1.0, None, 5, 3))
    assert effects == [m.Stand(41, 3)]


def free(now_s: float, epoch: int, *, give_way: bool = False) -> m.Looked:
    """Nobody leads; ``give_way``: a planned hand-over of term ``epoch`` wants another one."""
    return m.Looked(now_s, None, epoch, epoch, give_way=give_way)


def test_a_leader_that_is_nudged_looks_at_once() -> None:
    assert run(LEADING, m.Nudged()) == (LEADING, [m.Probe()])


def test_planned_hand_over_lets_others_lead_first() -> None:
    standing, effects = run(
        LEADING,
        m.Probed(7, OURS, give_way=True),
        m.TermDrained(),
        m.Connected(303, T),
        free(20.0, 7, give_way=True),
    )
    assert effects == [m.EndTerm("handing over as planned"), m.Disconnect(), m.Connect(), m.Look()]
    assert standing.state is State.FOLLOWING
    taken, _ = run(standing, m.LeaderChanged(), m.Looked(20.1, THEIRS, 8, 8))
    assert run(taken, m.LeaderChanged(), free(20.2, 8))[1][-1] == m.Stand(9, 8)
    assert run(standing, m.Tick(21.0, 20.0), free(21.0, 7, give_way=True))[1] == [m.Look()]
    assert run(standing, m.Tick(30.0, 29.0), free(20.0 + T, 7, give_way=True))[1][-1] == m.Stand(8, 7)


def test_whoever_is_not_named_waits_for_the_session_time_from_when_nobody_leads() -> None:
    standing, effects = run(
        FOLLOWING, m.Looked(10.0, THEIRS, 6, 6, give_way=True), free(100.0, 6, give_way=True)
    )
    assert (standing.state, effects) == (State.FOLLOWING, [])
    assert run(standing, free(100.0 + T, 6, give_way=True))[1] == [m.Stand(7, 6)]
    assert run(standing, free(101.0, 6))[1] == [m.Stand(7, 6)], "the wish was taken back"


def test_whoever_is_named_stands_at_once() -> None:
    assert run(FOLLOWING, free(10.0, 6))[1] == [m.Stand(7, 6)]


def test_giving_way_in_one_epoch_is_no_wait_in_another() -> None:
    waited, _ = run(FOLLOWING, free(10.0, 6, give_way=True))
    assert run(waited, m.Looked(11.0, THEIRS, 7, 7), free(12.0, 7))[1] == [m.Stand(8, 7)]
    again, effects = run(waited, free(19.0, 7, give_way=True), free(21.0, 7, give_way=True))
    assert effects == [], "a wish about another epoch has a time of its own"
    assert run(again, free(19.0 + T, 7, give_way=True))[1] == [m.Stand(8, 7)]


def test_a_leader_that_lost_its_fence_says_so_rather_than_that_it_hands_over() -> None:
    assert "another supervisor was elected" in run(LEADING, m.Probed(8, OURS, give_way=True))[0].why


def test_graceful_stop_closes_the_session_only_after_the_tasks() -> None:
    standing, effects = run(LEADING, m.Stop())
    assert effects == [m.EndTerm("stopping")]
    standing, effects = run(standing, m.Lost(), m.Tick(99.0, 0.0), m.TermDrained())
    assert (standing.state, effects) == (State.STOPPED, [m.Disconnect()])


def test_stop_while_stepping_down_does_not_stand_again() -> None:
    standing, effects = run(STEPPING_DOWN, m.Stop(), m.TermDrained())
    assert (standing.state, effects) == (State.STOPPED, [m.Disconnect()])


def test_stop_before_the_start() -> None:
    assert run(Standing(), m.Stop(), m.Start()) == (replace(m.step(Standing(), m.Stop())[0]), [])
