"""Defines leadership as a state machine without I/O: ``step(state, event) -> (state, effects)`` (protocol
§6).

``coord.contender`` drives it: it carries the effects out and turns what comes of them into events; the
simulator drives it in the same way. The machine never reads a clock: instants come with the events, in
seconds of CLOCK_BOOTTIME.

These are the rules, and where they come from:

* A candidacy has one ZooKeeper session. A new session is a new candidacy, so a new epoch: what happened to
  /leader while the old session was gone can't be known (zookeeper.md M3).
* One multi makes a leader: it creates the ephemeral /leader and sets the persistent /epoch at the version
  that was read. The version of /epoch that results is the *fence* of the term. /leader is a hint: its version
  restarts at 0 (M11).
* ``suspended`` is not loss (FLINK-10011): the leader keeps its role, starts no new effect, and goes on when
  the same session is back. Three things end a term: the session is lost or another one, the term's own
  deadline has passed (no answer to anything sent within the negotiated session time; kazoo would say LOST
  only after ZooKeeper is back, M7), or the fence moved.
* A term that ends is drained before anything else: only ``TermDrained`` leaves ``stepping_down``, whatever
  happens meanwhile (FLINK-9494, 9573). Then the client is thrown away.
* An election whose outcome is unknown is resolved by reading: on the same session after a ``sync``; if that
  session is gone or silent, it is closed by its id and password before the next ``ReadElection``, so that
  whatever it did is void.
* A planned hand-over is a record in the registry that is in force for one epoch (``election.gives_way``). The
  leader of that epoch steps down; a supervisor that must give way stands only when nobody has come forward
  within the session time. The next election makes the record void, so that nothing is left to be undone,
  whichever process crashes on the way.
* Epochs only grow. A registry whose epoch went back was restored: the next epoch is above all that this
  process has seen, and ``coord.trust`` says why that leader may do nothing.

Safety does not rest on any of this being on time: two supervisors may believe that they lead, but only one
fence is current, and every write of a leader checks it (I4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias


class State(StrEnum):
    """Names the states of the machine. Logs, ``status`` and metrics show these names."""

    IDLE = "idle"  # not started
    CONNECTING = "connecting"  # a fresh client has no session yet
    FOLLOWING = "following"  # has a session; watches /leader, or waits to try again
    CONTENDING = "contending"  # the election multi is on its way
    SETTLING = "settling"  # its outcome is unknown: being read back
    LEADING = "leading"
    SUSPENDED = "suspended"  # leads, but the connection is down: starts nothing
    STEPPING_DOWN = "stepping_down"  # the term is over; its tasks are being cancelled and awaited
    STOPPED = "stopped"


# --- events: what happened ---


@dataclass(frozen=True, slots=True)
class Start:
    pass


@dataclass(frozen=True, slots=True)
class Stop:
    """Asks for a graceful stop: hand over at once, and don't come back."""


@dataclass(frozen=True, slots=True)
class Nudged:
    """Says that somebody has written a wish about the leadership into the registry: a hint to read it now."""


@dataclass(frozen=True, slots=True)
class SessionConnected:
    """Says that the client has a session, with its id and its negotiated time-out T."""

    session: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class SessionDisconnected:
    """Stands for kazoo's SUSPENDED: the connection is down, and the session may live."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Says that the session is gone for good."""


@dataclass(frozen=True, slots=True)
class ElectionTick:
    """Says that time has passed. ``answered_at_s`` is when the latest request that was answered on this
    session was *sent*."""

    now_s: float
    answered_at_s: float


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Says that the watch on /leader fired: a hint to read."""


@dataclass(frozen=True, slots=True)
class ElectionRead:
    """Holds what was read after a ``sync``. ``owner`` is the session that owns /leader, or None if there is
    none. ``epoch`` is the number in /epoch, and ``version`` is the version of that znode.

    ``flaw`` says why this registry offers nothing to stand for (it has no /epoch, or an unreadable one), or
    is None. ``give_way`` is True if a planned hand-over in force wants another supervisor to lead.
    """

    now_s: float
    owner: int | None
    epoch: int = 0
    version: int = 0
    flaw: str | None = None
    give_way: bool = False


@dataclass(frozen=True, slots=True)
class ElectionReadFailed:
    now_s: float
    why: str


@dataclass(frozen=True, slots=True)
class Elected:
    """Says that the multi committed; ``fence`` is the version that /epoch has after it."""

    fence: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """Says that the multi was refused as a whole: if ``path`` is /leader, somebody leads; if it is /epoch,
    the race was lost."""

    now_s: float
    path: str


@dataclass(frozen=True, slots=True)
class NotStood:
    """Says that the multi certainly was not sent."""

    now_s: float
    why: str


@dataclass(frozen=True, slots=True)
class StoodUnknown:
    """Says that no answer came: the multi may have been applied, or may be applied later."""

    why: str


@dataclass(frozen=True, slots=True)
class ResolveFailed:
    now_s: float


@dataclass(frozen=True, slots=True)
class Probed:
    """Holds what the leader has read about its own leadership: the version of /epoch (None: absent or
    unreadable) and the owner of /leader (None: absent).

    ``give_way`` is True if a planned hand-over of this very term was asked for.
    """

    version: int | None
    owner: int | None
    give_way: bool = False


@dataclass(frozen=True, slots=True)
class Deposed:
    """Says that a write of the term failed on the epoch, or that the leader gives up: the term is over."""

    why: str


@dataclass(frozen=True, slots=True)
class TermDrained:
    """Says that every task of the term is over."""


Event: TypeAlias = (
    Start
    | Stop
    | Nudged
    | SessionConnected
    | SessionDisconnected
    | Lost
    | ElectionTick
    | LeaderChanged
    | ElectionRead
    | ElectionReadFailed
    | Elected
    | Rejected
    | NotStood
    | StoodUnknown
    | ResolveFailed
    | Probed
    | Deposed
    | TermDrained
)


# --- effects: what to do ---


@dataclass(frozen=True, slots=True)
class Connect:
    """Asks for a new client, with a new session."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Asks that the session is closed and the client thrown away. A session that can't be closed now is
    closed before the next reading of the election."""


@dataclass(frozen=True, slots=True)
class ReadElection:
    """Asks for a ``sync`` and then a read of /leader, with the watch, and of /epoch. The answer is
    ElectionRead or ElectionReadFailed."""


@dataclass(frozen=True, slots=True)
class Stand:
    """Asks for the commit of the election multi. The answer is Elected, Rejected, NotStood or
    StoodUnknown."""

    epoch: int
    version: int


@dataclass(frozen=True, slots=True)
class ResolveOutcome:
    """Asks for a ``sync`` and a read that shows whether the multi was applied. The answer is Elected,
    ElectionRead or ResolveFailed."""


@dataclass(frozen=True, slots=True)
class BeginTerm:
    epoch: int
    fence: int


@dataclass(frozen=True, slots=True)
class PauseTerm:
    """Asks that the term starts no new effect until ResumeTerm."""


@dataclass(frozen=True, slots=True)
class ResumeTerm:
    pass


@dataclass(frozen=True, slots=True)
class EndTerm:
    """Says that from here on the term is over, and asks that its tasks are cancelled and awaited. The answer
    is TermDrained."""

    why: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Asks for a ``sync`` and a read of /epoch and /leader, which moves the deadline and shows a lost fence.
    The answer is Probed, or none comes."""


Effect: TypeAlias = (
    Connect
    | Disconnect
    | ReadElection
    | Stand
    | ResolveOutcome
    | BeginTerm
    | PauseTerm
    | ResumeTerm
    | EndTerm
    | Probe
)


RETRY_S = 0.5
"""This is the pause after a failed ``ReadElection``, ``Stand`` or ``ResolveOutcome``: it is short against a
takeover and long against a hot loop."""

REJECTIONS_AT_ONCE = 3
"""After a lost race the election is read again at once, this many times in a row, and then with a pause, in
case somebody keeps winning and vanishing."""

POLL_FRACTION = 1 / 3
"""A follower reads the election again every T/3 even without a watch event, because watches are hints."""


@dataclass(frozen=True, slots=True)
class LeadershipState:
    """Holds all that the machine remembers. ``epoch`` and ``fence`` are those of the term that is led, or
    stood for, in this candidacy."""

    state: State = State.IDLE
    session: int | None = None
    timeout_s: float = 0.0
    epoch: int = 0
    fence: int = 0
    highest: int = 0  # the highest epoch this process has seen or stood for
    owner: int | None = None  # the session that led when last seen
    read_at_s: float = 0.0
    gave_way: int = -1  # the epoch whose planned hand-over it has begun to wait for …
    yield_until_at_s: float = 0.0  # … and until when at most it lets others stand first
    rejections: int = 0
    stopping: bool = False
    why: str = "not started"  # one sentence about the latest change, for the log and ``status``


Stepped: TypeAlias = tuple[LeadershipState, tuple[Effect, ...]]


def step(machine_state: LeadershipState, event: Event) -> Stepped:
    """Returns the next state, and what to do, in order. It is total: every event has a cell in every
    state."""
    handler = TABLE[type(event)][_COLUMN[machine_state.state]]
    return handler(machine_state, event)


# --- cells ---


def stay(machine_state: LeadershipState, _: Event) -> Stepped:
    return machine_state, ()


def connect(machine_state: LeadershipState, _: Event) -> Stepped:
    return replace(machine_state, state=State.CONNECTING, why="connecting to ZooKeeper"), (Connect(),)


def follow(machine_state: LeadershipState, event: SessionConnected) -> Stepped:
    """Begins the candidacy on its new session with a read of the election."""
    following = replace(
        machine_state,
        state=State.FOLLOWING,
        session=event.session,
        timeout_s=event.timeout_s,
        rejections=0,
        why="connected",
    )
    return following, (ReadElection(),)


def abandon(machine_state: LeadershipState, _: Event) -> Stepped:
    """Gives this candidacy up, and with it its session; nothing was led under it."""
    return _candidacy_over(machine_state, "the session was lost"), (Disconnect(), Connect())


def back(machine_state: LeadershipState, event: SessionConnected) -> Stepped:
    """Reads the election again after a reconnection while following, because the watch may have gone with the
    connection. Another session is a new candidacy."""
    return (
        (machine_state, (ReadElection(),))
        if event.session == machine_state.session
        else abandon(machine_state, event)
    )


def same_only(machine_state: LeadershipState, event: SessionConnected) -> Stepped:
    return (machine_state, ()) if event.session == machine_state.session else abandon(machine_state, event)


def resettle(machine_state: LeadershipState, event: SessionConnected) -> Stepped:
    return (
        (machine_state, (ResolveOutcome(),))
        if event.session == machine_state.session
        else abandon(machine_state, event)
    )


def same_term(machine_state: LeadershipState, event: SessionConnected) -> Stepped:
    return (
        (machine_state, ())
        if event.session == machine_state.session
        else _step_down(machine_state, "the session is a new one")
    )


def resume(machine_state: LeadershipState, event: SessionConnected) -> Stepped:
    if event.session != machine_state.session:
        return _step_down(machine_state, "the session is a new one")
    return replace(machine_state, state=State.LEADING, why="reconnected with the same session"), (
        ResumeTerm(),
        Probe(),
    )


def suspend(machine_state: LeadershipState, _: Event) -> Stepped:
    return replace(
        machine_state, state=State.SUSPENDED, why="the connection is down, the session may live"
    ), (PauseTerm(),)


def lose(machine_state: LeadershipState, _: Event) -> Stepped:
    return _step_down(machine_state, "the session was lost")


def deposed(machine_state: LeadershipState, event: Deposed) -> Stepped:
    return _step_down(machine_state, event.why)


def read_election(machine_state: LeadershipState, _: Event) -> Stepped:
    return machine_state, (ReadElection(),)


def probe(machine_state: LeadershipState, _: Event) -> Stepped:
    return machine_state, (Probe(),)


def decide(machine_state: LeadershipState, event: ElectionRead) -> Stepped:
    """Decides on a reading of the election: if somebody leads, it follows; if nobody does, it stands, above
    every epoch seen, unless others shall have the chance first."""
    if event.flaw is not None:
        return _pause(machine_state, event.now_s, event.flaw), ()
    if event.owner is not None and event.owner == machine_state.session:
        # Left by a multi of ours that was not recognised. Nobody else can lead while it is there.
        return _candidacy_over(machine_state, "a stray /leader of our own session"), (Disconnect(), Connect())
    seen = replace(machine_state, highest=max(machine_state.highest, event.epoch))
    if event.owner is not None:
        return replace(
            seen,
            owner=event.owner,
            rejections=0,
            read_at_s=event.now_s + machine_state.timeout_s * POLL_FRACTION,
            why="another supervisor leads",
        ), ()
    if event.give_way and seen.gave_way != event.epoch:
        seen = replace(seen, gave_way=event.epoch, yield_until_at_s=event.now_s + machine_state.timeout_s)
    if event.give_way and event.now_s < seen.yield_until_at_s:
        wait_s = min(seen.yield_until_at_s - event.now_s, RETRY_S)
        return replace(seen, read_at_s=event.now_s + wait_s, why="giving others the chance to lead"), ()
    epoch = seen.highest + 1
    machine_state = replace(
        seen, state=State.CONTENDING, epoch=epoch, fence=event.version + 1, highest=epoch, why="nobody leads"
    )
    return machine_state, (Stand(epoch, event.version),)


def read_later(machine_state: LeadershipState, event: ElectionReadFailed) -> Stepped:
    return _pause(machine_state, event.now_s, event.why), ()


def read_due(machine_state: LeadershipState, event: ElectionTick) -> Stepped:
    if event.now_s < machine_state.read_at_s:
        return machine_state, ()
    return replace(machine_state, read_at_s=event.now_s + RETRY_S), (ReadElection(),)


def lead(machine_state: LeadershipState, event: Elected) -> Stepped:
    leading = replace(
        machine_state,
        state=State.LEADING,
        fence=event.fence,
        owner=machine_state.session,
        rejections=0,
        why="elected",
    )
    return leading, (BeginTerm(machine_state.epoch, event.fence), Probe())


def rejected(machine_state: LeadershipState, event: Rejected) -> Stepped:
    following = replace(
        machine_state, state=State.FOLLOWING, rejections=machine_state.rejections + 1, why="lost the race"
    )
    if following.rejections <= REJECTIONS_AT_ONCE:
        return following, (ReadElection(),)
    return _pause(following, event.now_s, following.why), ()


def stand_later(machine_state: LeadershipState, event: NotStood) -> Stepped:
    return _pause(replace(machine_state, state=State.FOLLOWING), event.now_s, event.why), ()


def resolve_outcome(machine_state: LeadershipState, event: StoodUnknown) -> Stepped:
    return replace(machine_state, state=State.SETTLING, read_at_s=0.0, why=event.why), (ResolveOutcome(),)


def resolve_later(machine_state: LeadershipState, event: ResolveFailed) -> Stepped:
    return replace(machine_state, read_at_s=event.now_s + RETRY_S), ()


def resolve_due(machine_state: LeadershipState, event: ElectionTick) -> Stepped:
    if event.now_s >= event.answered_at_s + machine_state.timeout_s:
        return _candidacy_over(machine_state, "no answer within the session time"), (Disconnect(), Connect())
    return (
        (machine_state, (ResolveOutcome(),))
        if event.now_s >= machine_state.read_at_s
        else (machine_state, ())
    )


def not_ours(machine_state: LeadershipState, event: ElectionRead) -> Stepped:
    """Goes on after the outcome is resolved: the multi was not applied, and what was read meanwhile
    decides."""
    return decide(replace(machine_state, state=State.FOLLOWING), event)


def prove(machine_state: LeadershipState, event: ElectionTick) -> Stepped:
    """Ends the term at the leader's own deadline; before that, asks for one proof of life."""
    ended = deadline(machine_state, event)
    return ended if ended[1] else (machine_state, (Probe(),))


def deadline(machine_state: LeadershipState, event: ElectionTick) -> Stepped:
    if event.now_s < event.answered_at_s + machine_state.timeout_s:
        return machine_state, ()
    return _step_down(
        machine_state, f"no answer from ZooKeeper to anything sent in the last {machine_state.timeout_s:g} s"
    )


def still_ours(machine_state: LeadershipState, event: Probed) -> Stepped:
    if event.version != machine_state.fence:
        return _step_down(machine_state, "the epoch moved on: another supervisor was elected")
    if event.owner != machine_state.session:
        return _step_down(machine_state, "/leader is gone or belongs to another session")
    if event.give_way:
        return _step_down(machine_state, "handing over as planned")
    return machine_state, ()


def halt(machine_state: LeadershipState, _: Event) -> Stepped:
    return replace(machine_state, state=State.STOPPED, session=None, stopping=True, why="stopped"), ()


def leave(machine_state: LeadershipState, _: Event) -> Stepped:
    return replace(machine_state, state=State.STOPPED, session=None, stopping=True, why="stopped"), (
        Disconnect(),
    )


def hand_over(machine_state: LeadershipState, _: Event) -> Stepped:
    return _step_down(replace(machine_state, stopping=True), "stopping")


def stop_after(machine_state: LeadershipState, _: Event) -> Stepped:
    return replace(machine_state, stopping=True), ()


def drained(machine_state: LeadershipState, event: Event) -> Stepped:
    """Leaves ``stepping_down``; only now may the session be closed (which deletes /leader at once) and the
    next candidacy begin."""
    if machine_state.stopping:
        return leave(machine_state, event)
    return _candidacy_over(machine_state, machine_state.why), (Disconnect(), Connect())


def _step_down(machine_state: LeadershipState, why: str) -> Stepped:
    return replace(machine_state, state=State.STEPPING_DOWN, why=why), (EndTerm(why),)


def _candidacy_over(machine_state: LeadershipState, why: str) -> LeadershipState:
    return replace(machine_state, state=State.CONNECTING, session=None, read_at_s=0.0, rejections=0, why=why)


def _pause(machine_state: LeadershipState, now_s: float, why: str) -> LeadershipState:
    return replace(machine_state, read_at_s=now_s + RETRY_S, why=why)


# --- the table ---

COLUMNS = (
    State.IDLE,
    State.CONNECTING,
    State.FOLLOWING,
    State.CONTENDING,
    State.SETTLING,
    State.LEADING,
    State.SUSPENDED,
    State.STEPPING_DOWN,
    State.STOPPED,
)
_COLUMN = {state: number for number, state in enumerate(COLUMNS)}
_ = stay

# fmt: off
TABLE: Mapping[type, tuple[Callable[..., Stepped], ...]] = {
    # in:          idle      connecting following   contending   settling      leading    suspended stepping    stopped
    Start:         (connect,  _,        _,          _,           _,            _,         _,         _,          _),
    Stop:          (halt,     leave,    leave,      leave,       leave,        hand_over, hand_over, stop_after, _),
    Nudged:        (_,        _,        read_election,       _,           _,            probe,     _,         _,          _),
    SessionConnected:     (_,        follow,   back,       same_only,   resettle,     same_term, resume,    _,          _),
    SessionDisconnected:  (_,        _,        _,          _,           _,            suspend,   _,         _,          _),
    Lost:          (_,        abandon,  abandon,    abandon,     abandon,      lose,      lose,      _,          _),
    ElectionTick:          (_,        _,        read_due,   _,           resolve_due,   prove,     deadline,  _,          _),
    LeaderChanged: (_,        _,        read_election,       _,           _,            probe,     _,         _,          _),
    ElectionRead:        (_,        _,        decide,     _,           not_ours,     _,         _,         _,          _),
    ElectionReadFailed:    (_,        _,        read_later, _,           _,            _,         _,         _,          _),
    Elected:       (_,        _,        _,          lead,        lead,         _,         _,         _,          _),
    Rejected:      (_,        _,        _,          rejected,    _,            _,         _,         _,          _),
    NotStood:      (_,        _,        _,          stand_later, _,            _,         _,         _,          _),
    StoodUnknown:  (_,        _,        _,          resolve_outcome,      _,            _,         _,         _,          _),
    ResolveFailed:  (_,        _,        _,          _,           resolve_later, _,         _,         _,          _),
    Probed:        (_,        _,        _,          _,           _,            still_ours, still_ours, _,        _),
    Deposed:       (_,        _,        _,          _,           _,            deposed,   deposed,   _,          _),
    TermDrained:   (_,        _,        _,          _,           _,            _,         _,         drained,    _),
}
# fmt: on
