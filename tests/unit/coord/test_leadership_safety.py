"""Several machines on one model of ZooKeeper, driven at random: what must hold whatever happens, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.coord import leadership
from supervisor.coord.leadership import LeadershipState, State

T = 10.0


@dataclass
class Zoo:
    """/leader and /epoch, sessions, and multis that are late."""

    now_s: float = 0.0
    epoch: int = 0
    version: int = 0
    owner: int | None = None
    op: tuple[int, int] = (0, 0)
    sessions: set[int] = field(default_factory=set)
    granted: int = 0
    late: list[Callable[[], None]] = field(default_factory=list)
    # epoch, session that led, number that shall lead
    wish: tuple[int, int | None, int | None] = (-1, None, None)

    def ask(self, to: int | None) -> None:
        """A planned hand-over of the present term."""
        if self.owner is not None:
            self.wish = (self.epoch, self.owner, to)

    def grant(self) -> int:
        self.granted += 1
        self.sessions.add(self.granted)
        return self.granted

    def end(self, session: int | None) -> None:
        self.sessions.discard(session or 0)
        if self.owner == session:
            self.owner = None

    def elect(self, session: int, epoch: int, version: int) -> int | None:
        if session not in self.sessions or self.owner is not None or version != self.version:
            return None
        self.owner, self.epoch, self.version, self.op = session, epoch, version + 1, (session, epoch)
        return self.version


@dataclass
class Supervisor:
    """One machine with the least shell around it. The link is down while ``cut``."""

    zoo: Zoo
    number: int = 0
    machine_state: LeadershipState = field(default_factory=LeadershipState)
    session: int | None = None
    cut: bool = False
    answered_at_s: float = 0.0
    term: tuple[int, int] | None = None  # (epoch, fence) of the term whose tasks may still run
    paused: bool = False
    draining: bool = False
    begun: list[int] = field(default_factory=list)
    mine: set[int] = field(default_factory=set)  # all sessions it ever had
    lose_reply: bool = False
    apply_late: bool = False

    def feed(self, event: leadership.Event) -> None:
        pending = [event]
        while pending:
            event = pending.pop(0)
            was = self.machine_state
            self.machine_state, effects = leadership.step(was, event)
            if was.state is State.STEPPING_DOWN and not isinstance(event, leadership.TermDrained):
                assert effects == (), "something was done while the old tasks may still run"
            for effect in effects:
                outcome = self.carry_out(effect)
                if outcome is not None:
                    pending.append(outcome)

    @property
    def gives_way(self) -> bool:
        epoch, leader, to = self.zoo.wish
        if epoch != self.zoo.epoch:
            return False
        return leader in self.mine if to is None else to != self.number

    @property
    def connected(self) -> bool:
        return not self.cut and self.session is not None and self.session in self.zoo.sessions

    def carry_out(self, effect: leadership.Effect) -> leadership.Event | None:
        if not isinstance(
            effect, leadership.EndTerm | leadership.PauseTerm | leadership.ResumeTerm | leadership.Probe
        ):
            assert self.term is None, f"{effect} before the tasks of the term were over"
        match effect:
            case leadership.Connect():
                assert self.session is None, "two sessions at once"
            case leadership.Disconnect():
                self.zoo.end(self.session)  # by the client, or by its id and password before the next look
                self.session = None
            case leadership.ReadElection() | leadership.ResolveOutcome():
                return self.read_election(effect)
            case leadership.Stand(epoch, version):
                return self.stand(epoch, version)
            case leadership.Probe() if self.connected:
                self.answered_at_s = self.zoo.now_s
                return leadership.Probed(self.zoo.version, self.zoo.owner, self.gives_way)
            case _:
                self.lead(effect)
        return None

    def lead(self, effect: leadership.Effect) -> None:
        if isinstance(effect, leadership.BeginTerm):
            assert self.begun == [] or effect.epoch > self.begun[-1], "an epoch did not grow"
            self.begun.append(effect.epoch)
            self.term, self.paused, self.draining = (effect.epoch, effect.fence), False, False
            return
        if isinstance(effect, leadership.Probe):
            return
        assert self.term is not None and not self.draining, f"{effect} without a term"
        if isinstance(effect, leadership.EndTerm):
            self.draining = True
        else:
            assert self.paused is isinstance(effect, leadership.ResumeTerm)
            self.paused = isinstance(effect, leadership.PauseTerm)

    def read_election(self, effect: leadership.ReadElection | leadership.ResolveOutcome) -> leadership.Event:
        zoo = self.zoo
        if not self.connected:
            return (
                leadership.ElectionReadFailed(zoo.now_s, "down")
                if isinstance(effect, leadership.ReadElection)
                else leadership.ResolveFailed(zoo.now_s)
            )
        self.answered_at_s = zoo.now_s
        while zoo.late:  # first in, first out, and the sync
            zoo.late.pop(0)()
        ours = zoo.op == (self.session, self.machine_state.epoch) and zoo.owner == self.session
        if isinstance(effect, leadership.ResolveOutcome) and ours:
            return leadership.Elected(zoo.version)
        return leadership.ElectionRead(zoo.now_s, zoo.owner, zoo.epoch, zoo.version, give_way=self.gives_way)

    def stand(self, epoch: int, version: int) -> leadership.Event:
        session = self.session
        if not self.connected or session is None:
            return leadership.NotStood(self.zoo.now_s, "down")
        self.answered_at_s = self.zoo.now_s
        if self.apply_late:
            self.zoo.late.append(lambda: (self.zoo.elect(session, epoch, version), None)[1])
            return leadership.StoodUnknown("late")
        fence = self.zoo.elect(session, epoch, version)
        if self.lose_reply:
            return leadership.StoodUnknown("the reply was lost")
        return (
            leadership.Elected(fence) if fence is not None else leadership.Rejected(self.zoo.now_s, "/epoch")
        )

    # -- what the world does --

    def connect(self) -> None:
        self.cut = False
        if self.machine_state.state is State.CONNECTING and self.session is None:
            self.session = self.zoo.grant()
            self.mine.add(self.session)
        if self.session is None:
            return
        self.answered_at_s = self.zoo.now_s
        self.feed(
            leadership.SessionConnected(self.session, T)
            if self.session in self.zoo.sessions
            else leadership.Lost()
        )

    def disconnect(self) -> None:
        self.cut = True
        self.feed(leadership.SessionDisconnected())

    def expire(self) -> None:
        """The server ends the session; this end hears nothing of it yet."""
        self.zoo.end(self.session)

    def tick(self) -> None:
        self.feed(leadership.ElectionTick(self.zoo.now_s, self.answered_at_s))

    def drain(self) -> None:
        if self.draining:
            self.term, self.draining = None, False
            self.feed(leadership.TermDrained())

    def write(self) -> int | None:
        """A task of the term, however old its belief, tries a write guarded by the fence; its epoch if it commits."""
        if self.term is None or self.cut or self.term[1] != self.zoo.version:
            return None
        return self.term[0]


EVENTS: dict[str, Callable[[Zoo], leadership.Event]] = {
    "start": lambda _: leadership.Start(),
    "stop": lambda _: leadership.Stop(),
    "changed": lambda _: leadership.LeaderChanged(),
    "nudge": lambda _: leadership.Nudged(),
}
PAUSES_S = {"time": T / 3, "moment": T / 20}
MOVES = (
    "start",
    "connect",
    "disconnect",
    "expire",
    "tick",
    "drain",
    "write",
    "changed",
    "nudge",
    "ask",
    "ask_for",
    "stop",
    "time",
    "lose_reply",
    "apply_late",
    "honest",
)
MOVE = st.tuples(st.integers(0, 2), st.sampled_from(MOVES))


def play(zoo: Zoo, everyone: list[Supervisor], moves: list[tuple[int, str]]) -> None:
    newest_write = 0
    for number, move in moves:
        one = everyone[number]
        if move in EVENTS:
            one.feed(EVENTS[move](zoo))
        elif move in ("ask", "ask_for"):
            zoo.ask(number if move == "ask_for" else None)
        elif move in PAUSES_S:
            zoo.now_s += PAUSES_S[move]
        elif move in ("lose_reply", "apply_late", "honest"):
            one.lose_reply, one.apply_late = move == "lose_reply", move == "apply_late"
        elif move == "write":
            epoch = one.write() or newest_write
            assert epoch >= newest_write, "a write of an older term came after one of a newer term"
            newest_write = epoch
        else:
            getattr(one, move)()
        able = {s.term for s in everyone if s.term is not None and s.term[1] == zoo.version}
        assert len(able) <= 1, "two terms can commit at once"


@settings(max_examples=400, deadline=None)
@given(st.lists(MOVE, max_size=150))
def test_only_one_term_can_commit_and_terms_never_overlap_in_one_process(
    moves: list[tuple[int, str]],
) -> None:
    zoo = Zoo()
    everyone = [Supervisor(zoo, n) for n in range(3)]
    play(zoo, everyone, [(n, "start") for n in range(3)] + moves)


@settings(max_examples=150, deadline=None)
@given(st.lists(MOVE.filter(lambda move: move[1] != "stop"), max_size=120))
def test_after_the_trouble_there_is_one_leader_with_the_highest_epoch(moves: list[tuple[int, str]]) -> None:
    zoo = Zoo()
    everyone = [Supervisor(zoo, n) for n in range(3)]
    calm = [(n, "honest") for n in range(3)]
    for _ in range(12):
        calm += [(n, move) for n in range(3) for move in ("moment", "drain", "connect", "tick", "changed")]
    play(zoo, everyone, [(n, "start") for n in range(3)] + moves + calm)
    leaders = [one for one in everyone if one.machine_state.state is State.LEADING]
    assert len(leaders) == 1
    assert leaders[0].begun[-1] == max(epoch for one in everyone for epoch in one.begun)
    assert leaders[0].write() is not None


CALM = [
    (n, move)
    for _ in range(12)
    for n in range(3)
    for move in ("moment", "drain", "connect", "tick", "changed")
]


@settings(max_examples=60, deadline=None)
@given(st.lists(MOVE.filter(lambda move: move[1] != "stop"), max_size=60), st.none() | st.integers(0, 2))
def test_a_planned_hand_over_ends_with_the_one_that_is_named_and_is_done_once(
    moves: list[tuple[int, str]],
    to: int | None,
) -> None:
    """Whatever was before: in calm weather the wish comes true, and the leader after it is not asked again."""
    zoo = Zoo()
    everyone = [Supervisor(zoo, n) for n in range(3)]
    play(zoo, everyone, [(n, "start") for n in range(3)] + moves + [(n, "honest") for n in range(3)] + CALM)
    (leader,) = (one for one in everyone if one.machine_state.state is State.LEADING)
    epoch = zoo.epoch
    zoo.ask(to)
    play(zoo, everyone, [(leader.number, "nudge"), *CALM])
    (after,) = (one for one in everyone if one.machine_state.state is State.LEADING)
    assert after.number == to if to is not None else after is not leader
    assert zoo.epoch == (epoch if after is leader else epoch + 1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2), st.integers(1, 40))
def test_whoever_is_named_and_does_not_come_is_not_waited_for(to: int, after_moves: int) -> None:
    """It stops at some moment of the hand-over: another one leads."""
    zoo = Zoo()
    everyone = [Supervisor(zoo, n) for n in range(3)]
    play(zoo, everyone, [(n, "start") for n in range(3)] + CALM)
    zoo.ask(to)
    play(zoo, everyone, [*CALM[:after_moves], (to, "stop"), *CALM, *CALM])
    assert [one.number for one in everyone if one.machine_state.state is State.LEADING] != [to]
    assert sum(one.machine_state.state is State.LEADING for one in everyone) == 1
