"""The protocol of one attempt (protocol §5 claim, renew, exit; §7), sans I/O: ``step(state, event, now)``.

==========  ===========================================================  ==============================================
stage       what is going on                                             what ends it
==========  ===========================================================  ==============================================
connecting  /own is read; no claim is under way                          assigned to us as the entry says → claiming;
                                                                         else, after 2 minutes, or when the connection
                                                                         breaks → done
claiming    the claim was sent                                           committed → starting; rejected → connecting;
                                                                         outcome unknown → settling
settling    read back, in the session of the claim or after that was     ours → starting; not applied → connecting,
            closed                                                       or done; somebody else's → done; not to be told
                                                                         for the full wait → done
starting    claim committed, the starter was let go                      executed → running
running     renewals                                                     fence moved to draining → stopping
stopping    the ladder of ``stopping.py``; renewals go on all the while  exit, or stop_grace is over → killing
killing     SIGKILL until the tree is proven empty                       empty → burying
burying     tombstone, until it commits or /own is not about us          → done
==========  ===========================================================  ==============================================

From starting, running and stopping anything fatal leads to killing: the driver's exit (its children go with it), the
deadline, a revocation or another attempt in /own, a time-out of ``health``, a failed exec.

What is never bent:

* Nothing is executed before the claim is known to be committed, nor at or after its deadline; the starter looks again.
* A claim is asked for on the first connection only, and that was made soon after the agent had looked whether the
  registry is to be trusted (``CONNECT_PATIENCE_S``). ZooKeeper can't be restored from an older state without breaking
  every connection, and what an older state says of this entry may be long over: another host may run the job by what
  was lost, under a lease that nobody remembers. So a shim whose connection breaks ends, and the agent looks anew.
* The deadline is the BOOTTIME read before *sending* the last claim or renewal that is known to have committed, + D − K
  (a claim that was settled by reading back counts from its own sending). Nothing else moves it, least of all an answer
  whose outcome is unknown. At deadline − 2p the tree is killed (``lease_terms.shim_acts_s`` says why not later).
* A fence that moved is read before the next renewal: draining of this very claim is taken over, ``revoked`` or another
  attempt kills at once; absent, unreadable or older than seen is *unknown*: no renewal, and the deadline decides.
* After a new session or a jump of REALTIME − BOOTTIME, /own is read before anything else is written or executed.
* The tombstone is written only after the tree was proven empty, at the version just read, over this very claim.

While a tree is being killed the lease goes on being renewed, if it is ours to renew: a process that the kernel can't
kill yet must not share its checkpoint with a successor. One request is under way at a time. Called by ``runner``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from supervisor.clock import wall_iso
from supervisor.model import lease_terms
from supervisor.model.records import Cause, Driver, Lease, Ownership, OwnState, Phase, StartTimes
from supervisor.model.seen import Found, Seen
from supervisor.model.transaction import Transaction
from supervisor.registry import attempt_writes
from supervisor.registry.attempt_writes import AttemptIdentity
from supervisor.shim import health, queries, stopping
from supervisor.shim.ending import describe, waits_only
from supervisor.shim.fitting import fitting
from supervisor.shim.state import (
    CloseFailed,
    CloseSession,
    Commit,
    Connected,
    DeadlineUnwritable,
    Disconnected,
    Effect,
    Event,
    Exec,
    ExecFailed,
    ExecLate,
    Executed,
    Exited,
    Finish,
    Kill,
    NewClient,
    Now,
    Order,
    OwnChanged,
    OwnRead,
    Read,
    ReadFailed,
    Reported,
    SessionClosed,
    SessionLost,
    ShimState,
    Stage,
    StopAsked,
    Terminate,
    Tick,
    TreeSeen,
    Unheard,
    WriteCommitted,
    WriteDeadline,
    WriteLog,
    WriteNotSent,
    WriteOutcomeUnknown,
    WriteRejected,
)

CLAIM_PATIENCE_S = 120.0
CONNECT_PATIENCE_S = 10.0
"""From the agent's look at the registry to the first connection: a ZooKeeper that is away, restored and back within so
little time is the one restore that a shim can't tell."""
CLAIM_TRIES = 5
CLOCK_JUMP_S = 0.5
RETRY_S = 0.5
PAUSED_S = 2.0
SLOW_RETRY_S = 5.0
SLOWEST_RETRY_S = 30.0
DOUBT_S = 600.0
KILL_PAUSE_S = 0.05
STOP, LOOK = "stop", "look"
TOO_LATE = (
    f"no connection within {CONNECT_PATIENCE_S:g} s of the agent's look at the registry: it looks again"
)

_BEFORE_CLAIM = (Stage.CONNECTING, Stage.CLAIMING, Stage.SETTLING)
_ALIVE = (Stage.STARTING, Stage.RUNNING, Stage.STOPPING)
_LEASED = (*_ALIVE, Stage.KILLING)


def step(state: ShimState, event: Event, now: Now) -> tuple[ShimState, tuple[Effect, ...]]:
    """The state after ``event``, and what to do, in order. Pure; the same arguments give the same answer."""
    turn = _Turn(state, now)
    if state.stage is not Stage.DONE:
        turn.notice_clock_jump()
        turn.handle(event)
        turn.notice_time()
        turn.ask()
    return turn.state, tuple(turn.effects)


def next_wake_s(state: ShimState) -> float:
    """When the next ``Tick`` is wanted at the latest (BOOTTIME); the runner caps the wait anyway."""
    times = [stopping.acts_at_s(state.ladder) if state.stage is Stage.STOPPING and state.ladder else None]
    if state.session is not None and not (state.op or state.reading or state.closing):
        times.append(state.read_at_s)
        times.append(state.renew_at_s if state.stage in _ALIVE and not (state.held or state.blind) else None)
    if state.stage in _ALIVE and state.deadline_s is not None:
        times.append(lease_terms.shim_acts_s(state.deadline_s))
    if state.stage is Stage.KILLING:
        times.append(state.kill_at_s)
    if state.stage is Stage.CONNECTING:
        times.append(state.born_s + CLAIM_PATIENCE_S)
    if state.stage is Stage.SETTLING:
        times.append(resolve_by_s(state))
    return min((at for at in times if at is not None), default=float("inf"))


def resolve_by_s(state: ShimState) -> float:
    """When a shim that can't learn what became of its claim ends (BOOTTIME): whoever waits for the lease of a claim that was
    applied has waited for long enough by then. One whose end was asked for goes on until the claim could not lead to an exec
    any more: a tombstone would spare the others the rest."""
    sent_s, lease_s = state.claim_sent_s, state.launch.lease_s
    return (
        lease_terms.deadline_s(sent_s, lease_s)
        if state.stop_asked
        else sent_s + lease_terms.full_wait_s(lease_s)
    )


class _Turn:
    """One step: a state that is replaced as the turn goes on, and the effects so far."""

    def __init__(self, state: ShimState, now: Now) -> None:
        self.state = state
        self.now_s = now.boot_s
        self.wall_s = now.wall_s
        self.effects: list[Effect] = []

    def set(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    def do(self, *effects: Effect) -> None:
        self.effects.extend(effects)

    @property
    def at(self) -> str:
        return wall_iso(self.wall_s)

    # -- events --------------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        match event:
            case Tick():
                pass
            case (
                Connected() | Disconnected() | SessionLost() | SessionClosed() | CloseFailed() | OwnChanged()
            ):
                self.link(event)
            case OwnRead() | ReadFailed():
                self.answered(event)
            case WriteCommitted() | WriteRejected() | WriteNotSent() | WriteOutcomeUnknown():
                self.settled(event)
            case _:
                self.driver(event)

    def link(self, event: Event) -> None:
        state = self.state
        match event:
            case Connected(session):
                if state.last_session is None and self.now_s >= self.connect_by_s:
                    self.finish(TOO_LATE)
                    return
                fresh = session != state.last_session and state.last_session is not None
                self.set(
                    session=session,
                    last_session=session,
                    lost=False,
                    blind=state.blind or fresh,
                    renew_at_s=self.now_s,
                    read_at_s=self.now_s,
                )
            case Disconnected():
                self.set(session=None, broken=state.stage in _BEFORE_CLAIM)
            case SessionLost():
                self.set(session=None, broken=state.stage in _BEFORE_CLAIM, lost=True)
            case SessionClosed():
                # Nothing of the claim is under way any more, whatever session reads back: it need not be connected just now.
                self.set(closing=False, claim_session=state.last_session, read_at_s=self.now_s)
            case CloseFailed():
                self.set(closing=False, read_at_s=self.now_s + RETRY_S)
            case OwnChanged():
                self.set(read_at_s=self.now_s)

    def answered(self, event: OwnRead | ReadFailed) -> None:
        if event.token != self.state.token or not self.state.reading:
            return
        self.set(reading=False, read_at_s=None)
        if isinstance(event, ReadFailed):
            self.set(read_at_s=self.now_s + RETRY_S)
            return
        self.set(lease_exists=event.lease_version is not None, live=event.live)
        if self.state.session is None and self.state.stage in (Stage.CONNECTING, Stage.BURYING):
            self.set(read_at_s=self.now_s)  # nothing is written without knowing in which session: read again
        elif self.state.stage is Stage.CONNECTING:
            self.read_before_claim(event)
        elif self.state.stage is Stage.SETTLING:
            self.read_back(event.own)
        elif self.state.stage in _LEASED:
            self.judge(event.own)
        elif self.state.stage is Stage.BURYING:
            self.bury(event.own)

    def settled(self, event: WriteCommitted | WriteRejected | WriteNotSent | WriteOutcomeUnknown) -> None:
        if not event.op or event.op != self.state.op:
            return
        what = self.state.what
        self.set(op="", what="")
        match what:
            case "claim":
                self.claim_settled(event)
            case "renew":
                self.renewal_settled(event)
            case "announce":
                self.announced(event)
            case "exit":
                self.tombstone_settled(event)

    def driver(self, event: Event) -> None:
        match event:
            case Executed():
                self.executed()
            case ExecFailed(error, permanent):
                self.set(permanent=permanent)
                self.begin_kill(Cause.NOT_STARTED, error)
            case ExecLate():
                self.begin_kill(Cause.LEASE_EXPIRED, "its time was over before it could be started")
            case DeadlineUnwritable():
                self.begin_kill(Cause.NOT_STARTED, "the run directory can't be written")
            case Exited():
                self.exited(event)
            case TreeSeen(empty, tail):
                self.tree_seen(empty, tail)
            case Reported():
                self.reported(event)
            case Unheard(order):
                if order.order == STOP and self.state.ladder is not None:
                    self.set(ladder=stopping.unheard(self.state.ladder, self.now_s))
            case StopAsked():
                self.stop_asked()

    # -- claim ---------------------------------------------------------------------------------------------------------

    @property
    def connect_by_s(self) -> float:
        return (self.state.launch.looked_s or self.state.born_s) + CONNECT_PATIENCE_S

    def notice_no_claim(self) -> None:
        """What ends a shim that has not claimed."""
        if self.state.broken:
            self.finish("the connection broke before the claim: the agent looks at the registry again")
        elif self.state.last_session is None and self.now_s >= self.connect_by_s:
            self.finish(TOO_LATE)
        elif self.now_s - self.state.born_s >= CLAIM_PATIENCE_S:
            self.finish(f"no claim could be made for {CLAIM_PATIENCE_S:g} s")

    def read_before_claim(self, read: OwnRead) -> None:
        self.set(blind=False)
        own, entry = read.own, self.state.launch.assignment
        if self.state.stop_asked:  # while a claim was under way, which came to nothing
            self.finish("asked to stop before the claim")
        elif isinstance(own, Found) and self.is_assigned_to_us(own):
            if self.state.claim_tries >= CLAIM_TRIES:
                self.finish("the claim was rejected again and again")
            else:
                self.send_claim(own, read.lease_version)
        elif isinstance(own, Found) and own.version >= entry.own_version:
            self.finish("the entry is not ours any more")
        else:  # absent, unreadable, older than the entry: unknown
            self.set(read_at_s=self.now_s + 2 * RETRY_S)

    def is_assigned_to_us(self, own: Found[Ownership]) -> bool:
        entry = self.state.launch.assignment
        same = (own.record.uid, own.record.attempt, own.version) == (
            entry.uid,
            entry.attempt,
            entry.own_version,
        )
        return same and own.record.state is OwnState.ASSIGNED

    def send_claim(self, own: Found[Ownership], lease_version: int | None) -> None:
        state = self.state
        self.set(
            since=self.at,
            claim_sent_s=self.now_s,
            claim_session=state.session,
            stage=Stage.CLAIMING,
            claim_tries=state.claim_tries + 1,
        )
        self.commit(
            "claim",
            lambda op: attempt_writes.claim(
                state.layout,
                state.launch.assignment,
                own,
                state.claim_id,
                self.lease(),
                lease_version,
                op,
                self.at,
            ),
        )

    def claim_settled(
        self, event: WriteCommitted | WriteRejected | WriteNotSent | WriteOutcomeUnknown
    ) -> None:
        match event:
            case WriteCommitted(_, sent_s, own_version) if own_version is not None and not self.state.blind:
                self.set(claim_sent_s=sent_s, live=self.state.claim_session)
                self.claimed(own_version, OwnState.CLAIMED)
            case WriteCommitted() | WriteOutcomeUnknown():
                self.set(stage=Stage.SETTLING, read_at_s=self.now_s)
            case WriteRejected(_, path, _) if path == self.state.layout.pause:  # no fault of the claim's
                self.set(
                    stage=Stage.CONNECTING,
                    claim_tries=self.state.claim_tries - 1,
                    read_at_s=self.now_s + PAUSED_S,
                )
            case _:
                self.set(
                    stage=Stage.CONNECTING,
                    read_at_s=self.now_s + (RETRY_S if isinstance(event, WriteNotSent) else 0),
                )

    def read_back(self, own: Seen[Ownership]) -> None:
        """The claim's outcome; valid because ``ask`` reads only in its session, or after that was closed."""
        if not isinstance(own, Found) or own.version < self.state.launch.assignment.own_version:
            self.set(read_at_s=self.now_s + 2 * RETRY_S)
        elif self.is_mine(own.record) and own.record.state in (
            OwnState.CLAIMED,
            OwnState.DRAINING,
            OwnState.REVOKED,
        ):
            self.set(blind=False)
            self.claimed(own.version, own.record.state)
        elif self.is_assigned_to_us(own):
            self.set(stage=Stage.CONNECTING, read_at_s=self.now_s)
        else:
            self.finish("the claim was not applied, and the entry is not ours any more")

    def claimed(self, fence: int, own_state: OwnState) -> None:
        deadline_s = lease_terms.deadline_s(self.state.claim_sent_s, self.state.launch.lease_s)
        before_s = lease_terms.shim_acts_s(deadline_s)
        self.set(
            stage=Stage.STARTING,
            fence=fence,
            lease_exists=True,
            deadline_s=deadline_s,
            renew_at_s=self.state.claim_sent_s + self.period_s,
        )
        if own_state is OwnState.REVOKED:
            self.lose("revoked before it was started")
        elif own_state is OwnState.DRAINING or self.state.stop_asked:
            self.set(stop_asked=True, stop_until_s=self.now_s + self.state.launch.stop_grace_s)
            self.begin_kill(Cause.STOPPED, "stopped before it was started")
        elif self.now_s >= before_s:
            self.begin_kill(Cause.LEASE_EXPIRED, "the claim was confirmed too late")
        else:
            self.set(exec_s=self.now_s, started_at=self.at)
            self.do(WriteDeadline(deadline_s), Exec(before_s))

    def is_mine(self, record: Ownership) -> bool:
        entry = self.state.launch.assignment
        return (record.uid, record.attempt, record.claim) == (entry.uid, entry.attempt, self.state.claim_id)

    # -- fence and lease -----------------------------------------------------------------------------------------------

    def judge(self, own: Seen[Ownership]) -> None:
        """What /own says about a lease that we hold."""
        state = self.state
        if not isinstance(own, Found) or (state.fence is not None and own.version < state.fence):
            self.set(held=True, read_at_s=self.now_s + max(1.0, self.period_s))
            self.do(
                WriteLog(
                    "shim_fence_unknown",
                    "renewals stop until /own can be believed: it is absent, unreadable or older",
                )
            )
            return
        self.set(held=False, blind=False)
        if not self.is_mine(own.record):
            self.lose("another attempt owns the name")
        elif own.record.state is OwnState.CLAIMED and state.fence is not None:
            self.set(fence=own.version)
        elif own.record.state is OwnState.DRAINING and state.fence is not None:
            self.set(fence=own.version)
            self.request_stop()
        else:
            self.lose(f"/own is {own.record.state.value}")

    def lose(self, why: str) -> None:
        self.set(fence=None)
        self.begin_kill(Cause.LOST, why)

    def may_renew(self) -> bool:
        state = self.state
        if (
            state.stage not in _LEASED
            or state.fence is None
            or state.held
            or state.blind
            or state.deadline_s is None
        ):
            return False
        in_grace = state.stop_until_s is None or self.now_s < state.stop_until_s
        return in_grace and self.now_s < state.deadline_s and state.cause is not Cause.LEASE_EXPIRED

    def renew(self) -> None:
        state = self.state
        fence, create = state.fence, not state.lease_exists
        assert fence is not None
        self.set(rings=state.ring, ring=False, renewals=state.renewals + 1)
        self.commit(
            "renew",
            lambda op: attempt_writes.renew(
                state.layout,
                state.launch.assignment.name,
                fence,
                self.lease(),
                op,
                create=create,
                with_ring=state.ring,
            ),
        )

    def renewal_settled(
        self, event: WriteCommitted | WriteRejected | WriteNotSent | WriteOutcomeUnknown
    ) -> None:
        state = self.state
        match event:
            case WriteCommitted(_, sent_s):
                deadline_s = max(
                    state.deadline_s or 0.0, lease_terms.deadline_s(sent_s, state.launch.lease_s)
                )
                self.set(
                    lease_exists=True,
                    deadline_s=deadline_s,
                    renew_at_s=self.now_s if state.ring else sent_s + self.period_s,
                )
                if state.stage in _LEASED:
                    self.do(WriteDeadline(deadline_s))
            case WriteRejected(_, path, kind) if path == state.layout.lease(state.launch.assignment.name):
                # if that is no news, the parent of all leases is missing: in a while
                exists = kind != "no_node"
                pause_s = min(RETRY_S, self.period_s) if exists is state.lease_exists else 0.0
                self.set(lease_exists=exists, renew_at_s=self.now_s + pause_s)
            case WriteRejected():
                self.set(blind=True, read_at_s=self.now_s)
            case _:
                self.set(renew_at_s=self.now_s + min(RETRY_S, self.period_s))
        # A phase that changed while this renewal was under way still has to be told, also if this one rang itself.
        self.set(rings=False, ring=state.ring or (state.rings and not isinstance(event, WriteCommitted)))

    def announce(self) -> None:
        state, entry, fence = self.state, self.state.launch.assignment, self.state.fence
        assert fence is not None
        stale = state.live is not None
        self.commit(
            "announce",
            lambda op: attempt_writes.announce(
                state.layout, entry.name, entry.uid, entry.attempt, fence, op, stale=stale
            ),
        )

    def announced(self, event: WriteCommitted | WriteRejected | WriteNotSent | WriteOutcomeUnknown) -> None:
        if isinstance(event, WriteCommitted):
            self.set(live=self.state.session)
        else:  # somebody moved the fence, or /live is not what it was
            self.set(read_at_s=self.now_s + RETRY_S, blind=True)

    def lease(self) -> Lease:
        state, entry = self.state, self.state.launch.assignment
        pid = state.driver_pid if state.executed and state.empty_s is None else None
        shown, more = queries.shown(
            state.life, state.launch.stall_timeout_s, self.now_s, state.launch.checkpoint
        )
        return fitting(
            Lease(
                name=entry.name,
                uid=entry.uid,
                attempt=entry.attempt,
                claim=state.claim_id,
                lease_s=state.launch.lease_s,
                stop_grace_s=state.launch.stop_grace_s,
                phase=state.phase,
                driver=Driver(
                    host=state.launch.host,
                    shim_pid=state.shim_pid,
                    pid=pid,
                    started_at=state.started_at or None,
                ),
                since=state.since,
                progress=state.life.progress,
                renewals=state.renewals,
                queries=shown,
                more_queries=more,
                ran_s=self.ran_s,
                start=self.start_times,
                silence_s=self.silence_s,
                remembered=queries.remembered(state.launch, state.life),
                not_fenced=state.launch.not_fenced,
            )
        )

    @property
    def start_times(self) -> StartTimes | None:
        """For metrics and ``show``: where the time of this start went."""
        exec_s, begun_s, life = self.state.exec_s, self.state.launch.begun_s, self.state.life
        if exec_s is None or not self.state.executed:
            return None
        ready_s = exec_s if life.session_s is None else life.session_s
        return StartTimes(
            spawn_s=round(exec_s - begun_s, 3) if begun_s else None,
            session_s=None if life.session_s is None else round(life.session_s - exec_s, 3),
            first_batch_s=None if life.batch_s is None else round(max(0.0, life.batch_s - ready_s), 3),
        )

    @property
    def silence_s(self) -> float | None:
        """Of the query that has been silent for longest, of those that have not ended."""
        life = self.state.life
        last_s = min((query.last_s for query in life.queries if not query.ended), default=life.last_s)
        return None if last_s is None else round(max(0.0, self.now_s - last_s), 3)

    @property
    def ran_s(self) -> float:
        """So far: whoever has to bury this attempt without a word from us knows how long it ran at least."""
        state = self.state
        if not state.executed or state.exec_s is None or waits_only(state):
            return 0.0
        return round(self.now_s - state.exec_s, 3)

    @property
    def period_s(self) -> float:
        return lease_terms.renew_period_s(self.state.launch.lease_s)

    # -- driver --------------------------------------------------------------------------------------------------------

    def executed(self) -> None:
        if not self.state.executed:
            self.set(executed=True, renew_at_s=self.now_s)
        if self.state.stage is Stage.STARTING:
            self.set(stage=Stage.RUNNING)

    def exited(self, event: Exited) -> None:
        if self.state.status is None and self.state.stage not in (Stage.BURYING, Stage.DONE):
            self.set(status=event.status, tail=event.tail, oom=event.oom, refused=event.refused)
            if self.state.stage is Stage.CONNECTING:
                self.finish("the starter ended before the claim")
            else:  # nothing while a claim is under way: exec will fail then
                self.begin_kill(None, "")

    def reported(self, report: Reported) -> None:
        if self.state.stage in _ALIVE:
            self.set(life=health.after_report(self.state.life, report, self.now_s))
        if self.state.ladder is not None:
            ladder = stopping.after_report(self.state.ladder, report.event, report.queries, self.now_s)
            self.set(ladder=ladder)

    def stop_asked(self) -> None:
        if self.state.stage is Stage.CONNECTING:
            self.finish("asked to stop before the claim")
        elif self.state.stage in (Stage.CLAIMING, Stage.SETTLING):
            self.set(stop_asked=True)
        else:
            self.request_stop()

    def request_stop(self) -> None:
        """Orderly: at a batch boundary, else SIGTERM, SIGKILL after the grace. Only the first request counts."""
        launch = self.state.launch
        until_s = self.now_s + launch.stop_grace_s
        if self.state.stage in (Stage.STARTING, Stage.RUNNING):
            ladder = stopping.begin(launch, self.state.life.begun_s is not None, self.now_s)
            self.set(stage=Stage.STOPPING, stop_asked=True, stop_until_s=ladder.kill_at_s, ladder=ladder)
            self.change_phase(Phase.STOPPING)
            if stopping.is_asked(ladder):
                self.do(Order(STOP, ladder.terminate_at_s - self.now_s))
        elif self.state.stage is Stage.KILLING and self.state.stop_until_s is None:
            self.set(stop_until_s=until_s)

    def begin_kill(self, cause: Cause | None, reason: str) -> None:
        if self.state.stage in _ALIVE:
            self.set(
                stage=Stage.KILLING, cause=cause, reason=reason, kill_at_s=self.now_s, kill_began_s=self.now_s
            )
            if reason:
                self.do(WriteLog("shim_kills", reason))

    def tree_seen(self, empty: bool, tail: str) -> None:
        if self.state.stage is not Stage.KILLING:
            return
        self.set(tail=tail or self.state.tail)
        took_s = self.now_s - self.state.kill_began_s
        if empty:
            self.set(stage=Stage.BURYING, empty_s=self.now_s, read_at_s=self.now_s)
            over = f", more than {lease_terms.KILL_TIME_S:g} s" if took_s > lease_terms.KILL_TIME_S else ""
            self.do(WriteDeadline(None), WriteLog("shim_tree_empty", f"after {took_s:.3f} s{over}"))
        else:
            self.set(kill_at_s=self.now_s + KILL_PAUSE_S)

    # -- end -----------------------------------------------------------------------------------------------------------

    def bury(self, own: Seen[Ownership]) -> None:
        state, entry = self.state, self.state.launch.assignment
        if not isinstance(own, Found) or (state.fence is not None and own.version < state.fence):
            since_s = state.doubt_s if state.doubt_s is not None else self.now_s
            self.set(doubt_s=since_s)
            if self.now_s - since_s >= DOUBT_S:
                self.finish("/own shows nothing believable: no tombstone")
            else:
                self.retry_bury()
            return
        self.set(doubt_s=None, blind=False)
        mine = AttemptIdentity(entry.name, entry.uid, entry.attempt, state.claim_id)
        ended = describe(state)
        op = self.next_op()
        transaction = attempt_writes.tombstone(state.layout, own, mine, ended, op, self.at)
        if transaction is None:
            self.finish("/own is not about this claim any more")
        else:
            self.send("exit", transaction)

    def tombstone_settled(
        self, event: WriteCommitted | WriteRejected | WriteNotSent | WriteOutcomeUnknown
    ) -> None:
        if isinstance(event, WriteCommitted):
            self.finish("the exit is recorded")
        else:
            self.retry_bury()

    def retry_bury(self) -> None:
        """Until it commits; ever more slowly, for a cluster that is down or restored from an old state."""
        tries = self.state.bury_tries
        waited_s = self.now_s - (self.state.empty_s or self.now_s)
        pause_s = (
            SLOWEST_RETRY_S if waited_s > DOUBT_S else min(SLOW_RETRY_S, RETRY_S * 2 ** min(tries, 5) / 2)
        )
        self.set(bury_tries=tries + 1, read_at_s=self.now_s + pause_s)

    def finish(self, why: str) -> None:
        self.set(stage=Stage.DONE)
        self.do(Finish(why))

    # -- time ----------------------------------------------------------------------------------------------------------

    def notice_clock_jump(self) -> None:
        before_s, offset_s = self.state.clock_offset_s, self.wall_s - self.now_s
        self.set(clock_offset_s=offset_s)
        if before_s is not None and abs(offset_s - before_s) > CLOCK_JUMP_S:
            self.set(blind=True, read_at_s=self.now_s)
            self.do(
                WriteLog(
                    "shim_clocks_jumped",
                    f"by {offset_s - before_s:+.1f} s: /own is read before anything else",
                )
            )

    def notice_time(self) -> None:
        """What follows from the time alone, the deadline first."""
        state = self.state
        if state.stage in _ALIVE:
            self.notice_deadlines()
        if self.state.stage is Stage.CONNECTING:
            self.notice_no_claim()
        if self.state.stage is Stage.SETTLING and self.now_s >= resolve_by_s(self.state):
            self.finish("nobody could tell in time what became of the claim: nothing was executed")
        if (
            self.state.stage in (Stage.STARTING, Stage.RUNNING)
            and state.executed
            and state.exec_s is not None
        ):
            phase = health.phase_of(state.life, state.launch, state.exec_s, self.now_s)
            self.change_phase(phase)
        if self.state.stage is Stage.KILLING and self.now_s >= self.state.kill_at_s:
            self.set(kill_at_s=float("inf"))  # until this one was answered
            self.do(Kill())

    def notice_deadlines(self) -> None:
        state = self.state
        assert state.deadline_s is not None
        if self.now_s >= lease_terms.shim_acts_s(state.deadline_s):
            self.begin_kill(Cause.LEASE_EXPIRED, "no renewal was committed in time")
        elif state.stage is Stage.STOPPING:
            self.climb()
        elif state.exec_s is not None:
            verdict = health.overdue(state.life, state.launch, state.exec_s, self.now_s)
            if verdict is not None:
                self.begin_kill(*verdict)
            else:
                self.look()

    def climb(self) -> None:
        """The next rung of an orderly stop, if it is time for it."""
        ladder = self.state.ladder
        assert ladder is not None
        if self.now_s >= ladder.kill_at_s:
            self.begin_kill(Cause.STOPPED, f"it did not stop within {self.state.launch.stop_grace_s:g} s")
        elif stopping.is_to_be_terminated(ladder, self.now_s):
            self.set(ladder=stopping.terminated(ladder))
            self.do(WriteLog("shim_terminates", "SIGTERM to the driver"), Terminate())

    def look(self) -> None:
        """Have the driver's bootstrap look at a query that has been silent for long; its answer is a report."""
        timeout_s, state = self.state.launch.stall_timeout_s, self.state
        due = state.launch.reports and self.now_s >= state.look_at_s
        if due and queries.is_to_be_looked_at(state.life, timeout_s, self.now_s):
            self.set(look_at_s=self.now_s + timeout_s * queries.LOOK_EVERY)
            self.do(Order(LOOK))

    def change_phase(self, phase: Phase) -> None:
        """A new phase is told at once, with the doorbell. ``since``: of the claim, of running, or of stopping."""
        if phase is not self.state.phase:
            since = self.at if phase in (Phase.RUNNING, Phase.STOPPING) else self.state.since
            self.set(phase=phase, since=since, ring=True, renew_at_s=self.now_s)

    # -- requests ------------------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Start the next request, if none is under way and one is due."""
        state = self.state
        if state.stage is Stage.DONE or state.op or state.reading or state.closing:
            return
        if state.lost:
            self.set(lost=False)
            self.do(NewClient())
        elif state.session is None:
            return
        elif state.stage is Stage.SETTLING and state.claim_session != state.session:
            if state.claim_session is not None and self.read_is_due():
                self.set(closing=True)
                self.do(CloseSession(state.claim_session))
        elif self.may_renew() and self.now_s >= state.renew_at_s:
            self.renew()
        elif self.read_is_due():
            self.set(reading=True, token=state.token + 1)
            self.do(Read(self.state.token))
        elif self.may_renew() and state.live != state.session:
            self.announce()

    def read_is_due(self) -> bool:
        return self.state.read_at_s is not None and self.now_s >= self.state.read_at_s

    def next_op(self) -> str:
        self.set(ops=self.state.ops + 1)
        return f"{self.state.claim_id}.{self.state.ops}"

    def commit(self, what: str, build: Callable[[str], Transaction]) -> None:
        self.send(what, build(self.next_op()))

    def send(self, what: str, transaction: Transaction) -> None:
        self.set(op=transaction.id, what=what)
        self.do(Commit(transaction, first=what == "claim"))
