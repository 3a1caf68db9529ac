"""Carries out the leadership machine, in a thread that owns one ZooKeeper client per candidacy, and one term
at a time.

``daemon.process.assemble`` makes it, and the daemon drives it through ``start``, ``nudge`` and ``stop``. It
decides nothing: ``coord.leadership`` does. It never acts on jobs, and never lets a new candidacy begin before
``on_step_down`` has returned. Link changes and the one watch, on /leader, only put an event into its inbox
(listeners must not block: zookeeper.md M8).

A defect in here ends the thread: it stops beating, the watchdog ends the process, and the session closer
hands over.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from supervisor.clients.threads import BackgroundThread
from supervisor.clients.zookeeper import Link, Session
from supervisor.clock import boottime_s
from supervisor.coord import leadership as machine
from supervisor.coord.election import (
    Author,
    Candidate,
    ElectionView,
    election_view,
    gives_way,
    is_ours,
    publish_distrust,
    publish_recording,
    recent_terms,
    take_leadership,
)
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.epoch_recorder import start_marking, start_recording
from supervisor.coord.leadership import State
from supervisor.coord.term import Term
from supervisor.coord.trust import RegistryEvidence, Trust
from supervisor.errors import GuardFailed, NotLeader, NotSent, SupervisorError
from supervisor.model.records import LeaderHint
from supervisor.records.layout import Layout
from supervisor.records.ports import ElectionClient

log = structlog.get_logger(__name__)

Client = TypeVar("Client", bound=ElectionClient)

CLOSE_TIMEOUT_S = 2.0
ABANDONED_MAX = 8
ZXID_KEPT_EVERY_S = 5.0
_TICK_SHARE, _TICK_MIN_S, _TICK_MAX_S = 1 / 6, 0.05, 1.0


@dataclass(frozen=True)
class ElectionRegistry:
    """Says where the election takes place, and holds what its supervisor remembers of earlier terms."""

    layout: Layout
    store: EpochMarks
    trust: Trust


@dataclass(frozen=True)
class SessionFactory(Generic[Client]):
    """Says how to get a session, and how to end one. ``connect`` returns a client that is not started yet; it
    takes the listener for changes of the client's link.

    ``close`` ends any session by its id and password; it may block for seconds, and raises SupervisorError.
    ``publish_sessions`` publishes which sessions are to be closed should this process die (to the session closer).
    """

    connect: Callable[[Callable[[Link], None]], Client]
    close: Callable[[Session], None]
    publish_sessions: Callable[[tuple[Session, ...]], None] = lambda _: None


@dataclass(frozen=True)
class Duties(Generic[Client]):
    """Holds what leadership means to the rest of the process. The contender's thread calls all but
    ``on_recorded``.

    ``on_term`` must return at once: it only starts things. ``on_step_down`` must return only when every task
    of the term is over; if it can't, it must not return: the watchdog then ends the process. ``on_recorded``
    is called in another thread once the term's epoch is in the store, or the registry has turned out not to
    be trusted. ``beat`` reports that the thread is alive.
    """

    on_term: Callable[[Term[Client]], None]
    on_step_down: Callable[[Term[Client]], None]
    on_recorded: Callable[[Term[Client]], None] = lambda _: None
    beat: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Report:
    """Holds what ``status`` and metrics show. ``leader`` is who leads as last seen (None: nobody, or
    unknown). ``alarm`` says why this registry is not acted upon, or why nobody can lead. ``why`` is one
    sentence on the latest change."""

    state: State
    epoch: int
    leader: LeaderHint | None
    session: int | None
    why: str
    alarm: str | None
    since_at_s: float


class Contender(Generic[Client]):
    """Contends for the leadership; there is one per supervisor. ``start`` is called once; ``stop`` is
    final."""

    def __init__(
        self,
        me: Candidate,
        registry: ElectionRegistry,
        sessions: SessionFactory[Client],
        duties: Duties[Client],
    ) -> None:
        self._me = me
        self._layout = registry.layout
        self._store, self._trust = registry.store, registry.trust
        self._sessions = sessions
        self._duties = duties
        self._machine_state = machine.LeadershipState()
        self._inbox: queue.SimpleQueue[tuple[int, Link | machine.Event]] = queue.SimpleQueue()
        self._candidacy = 0
        self._client: Client | None = None
        self._watching = False
        self._term: Term[Client] | None = None
        self._seen: ElectionView | None = None
        self._op_id = ""
        self._abandoned: list[Session] = []
        self._next_tick_at_s = 0.0
        self._vacant_at_s: float | None = None
        self._hinted_at_s: float | None = None
        self._zxid_kept_at_s = 0.0
        self._published_distrust: str | None = None
        self._recent: dict[int, Author] = {}
        self._marking: tuple[int, threading.Event] | None = None
        self._trust_checked_connection = 0
        self._since_at_s = boottime_s()
        self._report = self._make_report()
        self._thread = BackgroundThread(
            "contender", self._run, ask=lambda: self._inbox.put((0, machine.Stop()))
        )
        self._effects: dict[type, Callable[..., machine.Event | None]] = {
            machine.Connect: self._connect,
            machine.Disconnect: self._disconnect,
            machine.ReadElection: self._read_election,
            machine.Stand: self._stand,
            machine.ResolveOutcome: self._resolve_outcome,
            machine.Probe: self._probe,
            machine.BeginTerm: self._begin_term,
            machine.PauseTerm: self._pause_term,
            machine.ResumeTerm: self._resume_term,
            machine.EndTerm: self._end_term,
        }

    # -- for the daemon, from any thread ---------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Hands over at once and ends: the tasks are awaited, then the session is closed. Returns True if
        that was done in time."""
        return self._thread.stop(timeout_s)

    def nudge(self) -> None:
        """Makes the contender read the registry now, because a planned hand-over may have been asked for.
        Without it that is seen at the next tick."""
        self._inbox.put((0, machine.Nudged()))

    def report(self) -> Report:
        return self._report

    def leads(self) -> bool:
        """Says whether this supervisor leads now, by the term's own deadline, which counts also when the
        contender's thread has not learned yet that the term is over."""
        term = self._term
        try:
            if term is not None:
                term.check()
        except NotSent:
            return True  # the connection is down for a moment: nobody else leads yet
        except NotLeader:
            return False
        return term is not None

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._advance(machine.Start())
            while self._machine_state.state is not State.STOPPED:
                self._duties.beat()
                self._tick_if_due()
                self._receive()
        except Exception:  # the edge of the thread; see the module's docstring
            log.exception("contender_failed", state=self._machine_state.state.value)
            if self._term is not None:
                self._term.end("the contender failed")
        finally:
            self._end_marking()

    def _receive(self) -> None:
        try:
            candidacy, item = self._inbox.get(timeout=max(0.0, self._next_tick_at_s - boottime_s()))
        except queue.Empty:
            return
        self._tick_if_due()  # after a SIGSTOP the deadline comes before any news
        if candidacy not in (0, self._candidacy):
            return
        event = self._link_event(item) if isinstance(item, Link) else item
        if isinstance(event, machine.LeaderChanged):
            self._watching = False
            self._hinted_at_s = boottime_s()
        if event is not None:
            self._advance(event)

    def _link_event(self, link: Link) -> machine.Event | None:
        session = self._client.session if self._client is not None else None
        if link is Link.CONNECTED and session is not None:
            self._publish_sessions()
            return machine.SessionConnected(session.id, session.timeout_s)
        if link in (Link.LOST, Link.CLOSED):
            return machine.Lost()
        return machine.SessionDisconnected() if link is Link.SUSPENDED else None

    def _tick_if_due(self) -> None:
        now_s = boottime_s()
        if now_s < self._next_tick_at_s:
            return
        period_s = min(_TICK_MAX_S, max(_TICK_MIN_S, self._machine_state.timeout_s * _TICK_SHARE))
        self._next_tick_at_s = now_s + period_s
        self._keep_zxid(now_s)
        self._publish_distrust()
        self._mark_restored()
        self._advance(
            machine.ElectionTick(now_s, self._client.last_success_at_s if self._client is not None else now_s)
        )

    def _advance(self, event: machine.Event) -> None:
        """Feeds one event to the machine, and then whatever comes of its effects, until nothing is left to
        do."""
        pending: list[machine.Event] = [event]
        while pending:
            before = self._machine_state
            self._machine_state, effects = machine.step(before, pending.pop(0))
            self._log_changes(before)
            self._report = self._make_report()  # before the effects: they may take their time
            for effect in effects:
                outcome = self._effects[type(effect)](effect)
                if outcome is not None:
                    pending.append(outcome)
            self._report = self._make_report()

    def _log_changes(self, before: machine.LeadershipState) -> None:
        now = self._machine_state
        if now.state is not before.state:
            self._since_at_s = boottime_s()
            log.info(
                "leadership", state=now.state.value, was=before.state.value, epoch=now.epoch, why=now.why
            )
        elif now.why != before.why:
            log.info("leadership", state=now.state.value, epoch=now.epoch, why=now.why)

    def _make_report(self) -> Report:
        machine_state, seen = self._machine_state, self._seen
        distrust = self._term.distrust if self._term is not None else None
        leader = seen.hint if seen is not None else None
        if self._term is not None and not self._term.over.is_set():
            leader = LeaderHint(
                supervisor=self._me.supervisor, epoch=self._term.epoch, address=self._me.address
            )
        return Report(
            state=machine_state.state,
            epoch=self._term.epoch if self._term else machine_state.highest,
            leader=leader,
            session=machine_state.session,
            why=machine_state.why,
            alarm=distrust or self._trust.reason or (seen.flaw if seen is not None else None),
            since_at_s=self._since_at_s,
        )

    # -- effects ---------------------------------------------------------------------------------------------------

    def _the_client(self) -> Client:
        if self._client is None:
            raise NotSent("there is no ZooKeeper client")
        return self._client

    def _connect(self, _: machine.Connect) -> None:
        self._candidacy += 1
        number = self._candidacy
        self._watching = False
        self._client = self._sessions.connect(lambda link: self._inbox.put((number, link)))
        self._client.start()

    def _disconnect(self, _: machine.Disconnect) -> None:
        client, self._client, self._seen = self._client, None, None
        if client is None:
            return
        session = client.session
        if not client.close(CLOSE_TIMEOUT_S) and session is not None:
            self._abandoned = [*self._abandoned, session][-ABANDONED_MAX:]
        self._publish_sessions()

    def _publish_sessions(self) -> None:
        session = self._client.session if self._client is not None else None
        self._sessions.publish_sessions((*self._abandoned, *((session,) if session is not None else ())))

    def _close_abandoned(self) -> None:
        """Closes the abandoned sessions: whatever such a session did, or may still do, is void once it is
        closed, and /leader is free at once.

        A failure is no obstacle: the election is guarded, and that session's /leader goes when the session
        expires.
        """
        for session in tuple(self._abandoned):
            self._sessions.close(session)
            self._abandoned.remove(session)
            self._publish_sessions()

    def _observe(self) -> ElectionView:
        """Sends a ``sync``, reads the nodes of the election, and has ``Trust`` judge them. The watch is set
        before the read, and only if none is set."""
        client = self._the_client()
        try:
            self._close_abandoned()
        except SupervisorError as error:
            log.warning("session_not_closed", why=str(error))
        connection = client.connections
        client.sync()
        if not self._watching:
            number = self._candidacy
            self._watching = True
            try:
                client.watch_exists(
                    self._layout.leader, lambda: self._inbox.put((number, machine.LeaderChanged()))
                )
            except SupervisorError:
                self._watching = False
                raise
        layout = self._layout
        nodes = client.read_many(
            (
                layout.leader,
                layout.epoch,
                layout.cluster,
                layout.switchover,
                layout.accepted,
                layout.doorbell,
                layout.recorded,
            )
        ).nodes
        leader, epoch, cluster, switchover, accepted, doorbell, recorded = nodes
        self._set_vacancy(leader is None)
        self._judge(
            self._trust.judge,
            layout,
            RegistryEvidence(cluster, accepted, doorbell, client.last_zxid),
        )
        self._trust_checked_connection = connection
        if self._term is not None:
            self._term.set_trust_check(connection)
        self._seen = election_view(self._layout, leader, epoch, switchover, recorded)
        return self._seen

    def _set_vacancy(self, vacant: bool) -> None:
        """Keeps since when nobody leads, as seen from here: the watch event comes before the reading that it
        causes."""
        if not vacant:
            self._vacant_at_s = None
        elif self._vacant_at_s is None:
            self._vacant_at_s = boottime_s() if self._hinted_at_s is None else self._hinted_at_s
        self._hinted_at_s = None

    def _read_election(self, _: machine.ReadElection) -> machine.Event:
        try:
            seen = self._observe()
        except SupervisorError as error:
            return machine.ElectionReadFailed(boottime_s(), str(error))
        return self._election_read(seen)

    def _election_read(self, seen: ElectionView) -> machine.ElectionRead:
        return machine.ElectionRead(
            boottime_s(),
            seen.owner,
            seen.epoch.epoch,
            seen.version,
            seen.flaw,
            gives_way(seen, self._me.supervisor),
        )

    def _stand(self, effect: machine.Stand) -> machine.Event:
        if self._seen is None:
            return machine.NotStood(boottime_s(), "nothing was read yet")
        self._op_id = secrets.token_hex(8)
        self._published_distrust = self._trust.reason  # /leader is created with it, if at all
        transaction = take_leadership(
            self._layout,
            self._me,
            epoch=effect.epoch,
            op_id=self._op_id,
            seen=self._seen.epoch,
            version=effect.version,
            distrust=self._published_distrust,
        )
        try:
            committed = self._the_client().commit(transaction)
        except GuardFailed as error:
            return machine.Rejected(boottime_s(), error.path)
        except NotSent as error:
            return machine.NotStood(boottime_s(), str(error))
        except SupervisorError as error:
            return machine.StoodUnknown(str(error))
        return machine.Elected(committed.versions[1] or effect.version + 1)

    def _resolve_outcome(self, _: machine.ResolveOutcome) -> machine.Event:
        try:
            seen = self._observe()
        except SupervisorError:
            return machine.ResolveFailed(boottime_s())
        if self._machine_state.session is not None and is_ours(
            seen, self._op_id, self._machine_state.session
        ):
            return machine.Elected(seen.version)
        return self._election_read(seen)

    def _probe(self, _: machine.Probe) -> machine.Event | None:
        try:
            seen = self._observe()
        except SupervisorError as error:
            log.debug("probe_failed", why=str(error))
            return None
        return machine.Probed(
            None if seen.flaw else seen.version, seen.owner, gives_way(seen, self._me.supervisor)
        )

    def _begin_term(self, effect: machine.BeginTerm) -> None:
        number = self._candidacy
        term = Term(
            effect.epoch,
            effect.fence,
            self._the_client(),
            self._machine_state.timeout_s,
            distrust=self._trust.reason,
            depose=lambda why: self._inbox.put((number, machine.Deposed(why))),
            nudge=self.nudge,
            connection=self._trust_checked_connection,
        )
        term.vacant_at_s = self._vacant_at_s if self._vacant_at_s is not None else term.began_at_s
        self._vacant_at_s = None
        self._term = term
        self._recent = recent_terms(self._seen.epoch) if self._seen is not None else {}
        self._recent[term.epoch] = Author(self._me.supervisor, self._op_id)
        if term.distrust is None:
            recent = self._recent
            start_recording(
                term,
                self._store,
                recent,
                lambda newest: self._publish_recording(term, recent, newest),
                lambda: self._duties.on_recorded(term),
            )
        else:
            log.error("registry_not_trusted", epoch=term.epoch, why=term.distrust)
        self._duties.on_term(term)

    def _pause_term(self, _: machine.PauseTerm) -> None:
        if self._term is not None:
            self._term.pause()

    def _resume_term(self, _: machine.ResumeTerm) -> None:
        if self._term is not None:
            self._term.resume()

    def _end_term(self, effect: machine.EndTerm) -> machine.Event:
        term = self._term
        if term is not None:
            term.end(effect.why)
            self._duties.on_step_down(term)
            self._term = None
        return machine.TermDrained()

    # -- trust -----------------------------------------------------------------------------------------------------

    def _judge(self, judge: Callable[..., str | None], *arguments: object) -> None:
        try:
            reason = judge(*arguments)
        except OSError as error:
            log.error("zxid_not_kept", why=str(error))
            reason = self._trust.reason
        if reason is not None and self._term is not None:
            self._term.set_distrust(reason)

    def _publish_distrust(self) -> None:
        """Publishes a distrust once per term, when it turns out: agents that see nothing wrong themselves
        start nothing then."""
        term, client = self._term, self._client
        if (
            term is None
            or client is None
            or not term.active
            or term.distrust in (None, self._published_distrust)
        ):
            return
        tx = publish_distrust(
            self._layout,
            self._me,
            epoch=term.epoch,
            fence=term.fence_version,
            op_id=secrets.token_hex(8),
            distrust=term.distrust or "",
        )
        try:
            client.commit(tx)
            self._published_distrust = term.distrust
        except (
            SupervisorError
        ) as error:  # tried again at the next tick; whether it was applied makes no difference
            log.debug("distrust_not_said", why=str(error))

    def _mark_restored(self) -> None:
        """Starts the marking of the store, once per epoch, when this supervisor remembers another past,
        whether it leads or not: the next leader may remember none, and this supervisor may be gone by
        then."""
        term, seen = self._term, self._seen
        if not self._trust.restored or seen is None or seen.flaw is not None:
            return
        leads = term is not None and term.active
        epoch, recent = (
            (term.epoch, self._recent) if term and leads else (seen.epoch.epoch, recent_terms(seen.epoch))
        )
        if self._marking is not None and self._marking[0] == epoch:
            return
        self._end_marking()
        self._marking = epoch, threading.Event()
        by = Author(self._me.supervisor, secrets.token_hex(8))
        start_marking(self._store, epoch, recent, by, self._marking[1])

    def _end_marking(self) -> None:
        if self._marking is not None:
            self._marking[1].set()

    def _publish_recording(
        self, term: Term[Client], recent: Mapping[int, Author], newest: int | None
    ) -> None:
        """Publishes that this term is about to be recorded; it runs in the recorder's thread, before the
        store is written. Raises SupervisorError; it is then tried again while the term lasts."""
        term.check()
        term.client.commit(
            publish_recording(
                self._layout,
                epoch=term.epoch,
                fence=term.fence_version,
                op_id=secrets.token_hex(8),
                recent=recent,
                newest=newest,
                recorded=term.client.read_many((self._layout.recorded,)).nodes[0],
            )
        )

    def _keep_zxid(self, now_s: float) -> None:
        """Keeps the zxid on disk every ``ZXID_KEPT_EVERY_S``; a full disk must not matter (F56)."""
        if self._client is None or self._seen is None or now_s < self._zxid_kept_at_s + ZXID_KEPT_EVERY_S:
            return
        self._zxid_kept_at_s = now_s
        try:
            self._trust.remember(self._client.last_zxid)
        except OSError as error:
            log.warning("zxid_not_kept", why=str(error))
