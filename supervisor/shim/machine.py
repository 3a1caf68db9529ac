"""Decides the protocol of one attempt (protocol §5 claim, renew, exit; §7), without I/O: ``step(state, event, now)``.

==========  ===========================================================  ==============================================
stage       what is going on                                             what ends it
==========  ===========================================================  ==============================================
prepared    the driver was brought up before there is an attempt: it     an attempt is handed over → connecting; discarded,
            waits at its barrier, and nothing of the application runs    or not wanted for 10 minutes, or dead → done
connecting  /own is read; no claim is under way                          assigned to us as the entry says → claiming;
                                                                         else, after 2 minutes, or when the connection
                                                                         breaks → done
claiming    the claim was sent                                           committed → starting; rejected → connecting;
                                                                         outcome unknown → settling
settling    read back, in the session of the claim or after that was     ours → starting; not applied → connecting,
            closed                                                       or done; somebody else's → done; not to be found out
                                                                         for the full wait → done
starting    claim committed, the starter was let go (a prepared driver:  executed, or opened → running
            its opening was written)
running     renewals; a driver that is silent is diagnosed before it     fence moved to draining → stopping
            is killed for that (``diagnosing.py``)
stopping    the ladder of ``stopping.py``; renewals go on all the while  exit, or stop_grace is over → killing
killing     SIGKILL until the tree is proven empty                       empty → burying
burying     tombstone, until it commits or /own is not about us          → done
==========  ===========================================================  ==============================================

From starting, running and stopping anything fatal leads to killing: the driver's exit (its children go with it), the
deadline, a revocation or another attempt in /own, a time-out of ``health``, a failed exec.

``TABLE`` says of every event what it does in every stage, ``OUTCOMES`` what the outcome of each write does, ``TIME`` what
a stage does when its time has come. What they name stands in ``claim``, ``lease``, ``driver``, ``end`` and ``connection``.

These rules have no exception:

* Nothing is executed before the claim is known to be committed, nor at or after its deadline; the starter checks it again.
  Where a driver was prepared its *application* takes the place of the driver in this rule: the opening of its barrier is
  what exec is elsewhere, it is written after the same steps, and the driver checks the deadline again.
* A claim is asked for on the first connection only, and that was made soon after the agent had looked whether the
  registry is to be trusted (``CONNECT_PATIENCE_S``). ZooKeeper cannot be restored from an older state without breaking
  every connection, and what an older state says of this entry may be long over: another host may run the job by what
  was lost, under a lease that nobody remembers. So a shim whose connection breaks ends, and the agent starts anew from
  the registry.
* The deadline is the BOOTTIME read before *sending* the last claim or renewal that is known to have committed, + D − K
  (a claim that was settled by reading back counts from its own sending). Nothing else moves it, least of all an answer
  whose outcome is unknown. At deadline − 2p the tree is killed (``lease_terms.shim_acts_at_s`` says why not later).
* A fence that moved is read before the next renewal: draining of this very claim is taken over, ``revoked`` or another
  attempt kills at once; absent, unreadable or older than seen is *unknown*: no renewal, and the deadline decides.
* After a new session or a jump of REALTIME − BOOTTIME, /own is read before anything else is written or executed.
* The tombstone is written only after the tree was proven empty, at the version just read, over this very claim.

While a tree is being killed the lease goes on being renewed, if it is ours to renew: a process that the kernel can't
kill yet must not share its checkpoint with a successor. One request is under way at a time. Called by ``runner``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from supervisor.model import lease_terms
from supervisor.shim import claim, connection, driver, end, lease, prepared, stopping
from supervisor.shim.claim import first_link, give_up, note_stop, read_back, try_claim
from supervisor.shim.connection import (
    closed,
    connected,
    cut,
    cut_early,
    lost,
    lost_early,
    not_closed,
    read_later,
    read_now,
)
from supervisor.shim.diagnosing import diagnosed
from supervisor.shim.driver import (
    begin_stop,
    exec_error,
    exec_late,
    executed,
    exit_early,
    exited,
    note_exit,
    reported,
    sampled,
    started,
    stop_heard,
    tree_seen,
    unheard,
    unwritable,
)
from supervisor.shim.end import bury
from supervisor.shim.lease import judge
from supervisor.shim.prepared import discard, ended, hand_over, refuse, stop, want
from supervisor.shim.state import (
    CloseFailed,
    CloseSession,
    Connected,
    DeadlineUnwritable,
    Diagnosed,
    DiscardAsked,
    Disconnected,
    Effect,
    Event,
    ExecFailed,
    ExecLate,
    Executed,
    Exited,
    HandedOver,
    HandedUnfit,
    NewClient,
    Now,
    OwnChanged,
    OwnRead,
    Read,
    ReadFailed,
    Reported,
    Sampled,
    SessionClosed,
    SessionLost,
    ShimState,
    Stage,
    StillWanted,
    StopAsked,
    Tick,
    TreeSeen,
    Unheard,
    WriteCommitted,
    WriteLog,
    WriteNotSent,
    WriteOutcomeUnknown,
    WriteRejected,
)
from supervisor.shim.turn import ALIVE, Turn

CLOCK_JUMP_S = 0.5


def step(state: ShimState, event: Event, now: Now) -> tuple[ShimState, tuple[Effect, ...]]:
    """Returns the state after ``event``, and what to do, in order. It is pure: the same arguments give the
    same answer."""
    turn = Turn(state, now)
    if state.stage is not Stage.DONE:
        notice_clock_jump(turn)
        if not connection.is_stale(turn, event):
            TABLE[type(event)][_COLUMN[state.stage]](turn, event)
        notice_time(turn)
        ask(turn)
    return turn.state, tuple(turn.effects)


def next_wake_at_s(state: ShimState) -> float:
    """Returns when the next ``Tick`` is wanted at the latest (BOOTTIME). The runner limits the wait anyway."""
    times = [stopping.acts_at_s(state.ladder) if state.stage is Stage.STOPPING and state.ladder else None]
    if state.session is not None and not (state.op or state.reading or state.closing):
        times.append(state.read_at_s)
        times.append(state.renew_at_s if state.stage in ALIVE and not (state.held or state.blind) else None)
    if state.stage in ALIVE and state.deadline_at_s is not None:
        times.append(lease_terms.shim_acts_at_s(state.deadline_at_s))
    if state.stage is Stage.KILLING:
        times.append(state.kill_at_s)
    if state.stage is Stage.PREPARED:
        times.append(prepared.unwanted_at_s(state))
    if state.stage is Stage.CONNECTING:
        times.append(state.born_at_s + claim.CLAIM_PATIENCE_S)
    if state.stage is Stage.SETTLING:
        times.append(claim.resolve_due_at_s(state))
    return min((at for at in times if at is not None), default=float("inf"))


def notice_clock_jump(turn: Turn) -> None:
    before_s, offset_s = turn.state.clock_offset_s, turn.wall_s - turn.now_s
    turn.set(clock_offset_s=offset_s)
    if before_s is not None and abs(offset_s - before_s) > CLOCK_JUMP_S:
        turn.set(blind=True, read_at_s=turn.now_s)
        turn.do(
            WriteLog(
                "shim_clocks_jumped",
                f"by {offset_s - before_s:+.1f} s: /own is read before anything else",
            )
        )


def notice_time(turn: Turn) -> None:
    """Does what follows from the time alone, also in a stage that is entered by it, because a kill begins at
    once."""
    noticed = None
    while turn.state.stage is not noticed:
        noticed = turn.state.stage
        TIME[noticed](turn)


def ask(turn: Turn) -> None:
    """Starts the next request, if none is under way and one is due."""
    state = turn.state
    if state.stage is Stage.DONE or state.op or state.reading or state.closing:
        return
    if state.lost:
        turn.set(lost=False)
        turn.do(NewClient())
    elif state.session is None:
        return
    elif state.stage is Stage.SETTLING and state.claim_session != state.session:
        if state.claim_session is not None and connection.read_is_due(turn):
            turn.set(closing=True)
            turn.do(CloseSession(state.claim_session))
    elif lease.may_renew(turn) and turn.now_s >= state.renew_at_s:
        lease.renew(turn)
    elif connection.read_is_due(turn):
        turn.set(reading=True, token=state.token + 1)
        turn.do(Read(turn.state.token))
    elif lease.may_renew(turn) and state.live != state.session:
        lease.announce(turn)


def outcome(turn: Turn, event: Event) -> None:
    """Handles the outcome of a write. Which write it was decides: a renewal may be answered when the tree is
    already empty."""
    OUTCOMES[type(event)][_WRITE[turn.answered]](turn, event)


def ignored(_turn: Turn, _event: Event) -> None:
    """Does nothing about an event, except what follows from the time."""


def nothing(_turn: Turn) -> None:
    """Does nothing: no time-out runs in this stage."""


# -- the tables --------------------------------------------------------------------------------------------------------

COLUMNS = tuple(Stage)
_COLUMN = {stage: number for number, stage in enumerate(COLUMNS)}
_ = ignored

# fmt: off
TABLE: Mapping[type, tuple[Callable[..., None], ...]] = {
    # stage:              prepared    connecting  claiming    settling    starting    running     stopping    killing     burying    done
    Tick:                (_,          _,          _,          _,          _,          _,          _,          _,          _,          _),
    StillWanted:         (want,       _,          _,          _,          _,          _,          _,          _,          _,          _),
    DiscardAsked:        (discard,    _,          _,          _,          _,          _,          _,          _,          _,          _),
    HandedOver:          (hand_over,  _,          _,          _,          _,          _,          _,          _,          _,          _),
    HandedUnfit:         (refuse,     _,          _,          _,          _,          _,          _,          _,          _,          _),
    Connected:           (_,          first_link, connected,  connected,  connected,  connected,  connected,  connected,  connected,  _),
    Disconnected:        (_,          cut_early,  cut_early,  cut_early,  cut,        cut,        cut,        cut,        cut,        _),
    SessionLost:         (_,          lost_early, lost_early, lost_early, lost,       lost,       lost,       lost,       lost,       _),
    SessionClosed:       (_,          closed,     closed,     closed,     closed,     closed,     closed,     closed,     closed,     _),
    CloseFailed:         (_,          not_closed, not_closed, not_closed, not_closed, not_closed, not_closed, not_closed, not_closed, _),
    OwnChanged:          (_,          read_now,   read_now,   read_now,   read_now,   read_now,   read_now,   read_now,   read_now,   _),
    OwnRead:             (_,          try_claim,  _,          read_back,  judge,      judge,      judge,      judge,      bury,       _),
    ReadFailed:          (_,          read_later, read_later, read_later, read_later, read_later, read_later, read_later, read_later, _),
    WriteCommitted:      (_,          _,          outcome,    _,          outcome,    outcome,    outcome,    outcome,    outcome,    _),
    WriteRejected:       (_,          _,          outcome,    _,          outcome,    outcome,    outcome,    outcome,    outcome,    _),
    WriteNotSent:        (_,          _,          outcome,    _,          outcome,    outcome,    outcome,    outcome,    outcome,    _),
    WriteOutcomeUnknown: (_,          _,          outcome,    _,          outcome,    outcome,    outcome,    outcome,    outcome,    _),
    Executed:            (_,          executed,   executed,   executed,   started,    executed,   executed,   executed,   executed,   _),
    ExecFailed:          (_,          exec_error, exec_error, exec_error, exec_error, exec_error, exec_error, exec_error, exec_error, _),
    ExecLate:            (_,          _,          _,          _,          exec_late,  exec_late,  exec_late,  _,          _,          _),
    DeadlineUnwritable:  (_,          _,          _,          _,          unwritable, unwritable, unwritable, _,          _,          _),
    Exited:              (ended,      exit_early, note_exit,  note_exit,  exited,     exited,     exited,     note_exit,  _,          _),
    TreeSeen:            (_,          _,          _,          _,          _,          _,          _,          tree_seen,  _,          _),
    Reported:            (_,          _,          _,          _,          reported,   reported,   reported,   stop_heard, stop_heard, _),
    Sampled:             (_,          _,          _,          _,          sampled,    sampled,    sampled,    _,          _,          _),
    Unheard:             (_,          _,          _,          _,          _,          _,          unheard,    unheard,    unheard,    _),
    Diagnosed:           (_,          _,          _,          _,          diagnosed,  diagnosed,  diagnosed,  diagnosed,  diagnosed,  _),
    StopAsked:           (stop,       give_up,    note_stop,  note_stop,  begin_stop, begin_stop, _,          begin_stop, _,          _),
}
"""The cell for an event and a stage says what is done. The answer to a request that is not under way reaches
no cell: ``connection.is_stale``."""

WRITES = ("claim", "renew", "announce", "exit")
_WRITE = {what: number for number, what in enumerate(WRITES)}

OUTCOMES: Mapping[type, tuple[Callable[..., None], ...]] = {
    # write:              claim                  renew                     announce             exit
    WriteCommitted:      (claim.committed,       lease.renewed,            lease.announced,     end.recorded),
    WriteRejected:       (claim.rejected,        lease.renewal_rejected,   lease.not_announced, end.retry),
    WriteNotSent:        (claim.not_sent,        lease.renewal_unanswered, lease.not_announced, end.retry),
    WriteOutcomeUnknown: (claim.outcome_unknown, lease.renewal_unanswered, lease.not_announced, end.retry),
}
"""It says what is done about the outcome of a write, by which write it was."""

TIME: Mapping[Stage, Callable[[Turn], None]] = {
    Stage.PREPARED: prepared.watch,
    Stage.CONNECTING: claim.watch_connecting,
    Stage.CLAIMING: nothing,
    Stage.SETTLING: claim.watch_settling,
    Stage.STARTING: driver.watch,
    Stage.RUNNING: driver.watch,
    Stage.STOPPING: driver.climb,
    Stage.KILLING: driver.strike,
    Stage.BURYING: nothing,
    Stage.DONE: nothing,
}
"""It says what follows from the time alone, after every event."""
# fmt: on
