"""Runs the agent, which every supervisor is, leader or not: it registers this host and starts the shims
assigned to it.

It has one thread with one long-lived session and two watches, on its own /assigned/<id> and /prepare/<id>. A shim that it
has started needs it no more; the guardian (beside this thread) only looks after shims that die. Drivers that the leader
wants to have prepared here are kept by ``preparer`` and ``prepared_drivers``.
``daemon.process.assemble`` makes the agent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import structlog

from supervisor.clients.threads import Pool
from supervisor.clients.zookeeper import Link, Session, ZooClient
from supervisor.clock import boottime_s, wall_iso
from supervisor.daemon.host.hosted_attempts import HostedAttempts, HostedState
from supervisor.daemon.host.launcher import Launcher, Refused, TrustCheck
from supervisor.daemon.host.member_record import newly_settled, with_prepared
from supervisor.daemon.host.preflight import KnownCheckpoint
from supervisor.daemon.host.prepared import HostCapacity
from supervisor.daemon.host.prepared_drivers import PreparedDrivers
from supervisor.daemon.host.preparer import Preparer
from supervisor.daemon.host.start_barrier import log_refused
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import (
    AccessDenied,
    Conflict,
    GuardFailed,
    OutcomeUnknown,
    SupervisorError,
    Unreachable,
)
from supervisor.model.checkpoint_expectation import to_be_expected
from supervisor.model.history import opened
from supervisor.model.records import (
    DISTRUST_MAX_BYTES,
    PERMANENT_CAUSES,
    Assignment,
    Cause,
    Delay,
    JobRef,
    Lease,
    Member,
    Ownership,
    OwnState,
    clip,
)
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.transaction import ANY_VERSION, Create, Op, SetData, Transaction
from supervisor.records.codec import encode
from supervisor.records.ids import new_op_id
from supervisor.records.layout import Layout, about_key, is_attempt, split_attempt
from supervisor.records.reading import seen
from supervisor.registry.attempt_writes import Exit, refuse, ring_doorbell

log = structlog.get_logger(__name__)

PERIOD_S = 2.0
READY_PERIOD_S = 0.25
"""So often it is looked whether a driver that is being prepared is ready."""

DELAYS_PUBLISHED = 6
DELAY_MAX_BYTES = 240
"""The number and the length of the delays are such that the record has room for them, whatever they
contain."""
OF_LOST_STATE = "an attempt {attempt} of this job ran here in a state of the registry that was lost: the next number is free"
OF_LOST_DRIVER = "the prepared driver to which it was handed is gone: the next start is a cold one"
LAUNCH_THREADS = 4
"""There are at least this many threads for preparing assignments; else there is one for each driver that this
host may carry, so that starts that hang (a file that does not come, a process that is not spawned) delay no
other job's start. A thread is made when it is needed."""


class Agent:
    """Is this host's agent. ``connect`` makes a client that is not started yet. ``publish_session`` is called with each
    new session (the session closer).

    ``doubt`` returns why an entry must not be started (I10), or None; it is called before each start, with
    the entry's czxid. ``distrust`` returns what this supervisor itself has against the registry, or None;
    everybody may see it in /supervisors.
    """

    def __init__(
        self,
        me: Member,
        layout: Layout,
        connect: Callable[[Callable[[Link], None]], ZooClient],
        starter: Launcher,
        hosted: HostedAttempts,
        publish_session: Callable[[Session | None], None] = lambda _session: None,
        doubt: Callable[[ZooClient, int], str | None] = lambda _client, _zxid: None,
        distrust: Callable[[], str | None] = lambda: None,
        prepared: PreparedDrivers | None = None,
    ) -> None:
        self.wake = threading.Event()
        self._me = me
        self._layout = layout
        self._connect = connect
        self._launcher = starter
        self._hosted = hosted
        self._publish_session = publish_session
        self._doubt = doubt
        self._distrust = distrust
        self._stopping = threading.Event()
        self._pool = Pool(max(LAUNCH_THREADS, me.drivers), "start")
        self._under_way: set[str] = set()
        self._lock = threading.Lock()
        self._client: ZooClient | None = None
        self._registered: int | None = None
        self._held_back: set[str] = set()
        self._doubted: dict[str, str] = {}
        self._delays: dict[str, str] = {}
        self._logged = ""
        self._boundary = ErrorBoundary("agent")
        self._prepared = prepared or PreparedDrivers(hosted, HostCapacity(me.host, me.drivers, me.memory))
        self._preparer = Preparer(
            me.id,
            layout,
            starter,
            self._prepared,
            lambda client, zxid: self._doubt(client, zxid),
            self.wake.set,
            self._boundary,
        )

    # -- for the daemon -------------------------------------------------------------------------------------------

    @property
    def client(self) -> ZooClient | None:
        """Returns the present session, for readers such as /api/status, or None while there is none."""
        return self._client

    @property
    def registered(self) -> bool:
        """Says whether the leader can see this host."""
        client = self._client
        session = client.session if client else None
        return (
            session is not None
            and self._registered == session.id
            and client is not None
            and (client.link is Link.CONNECTED)
        )

    @property
    def delayed(self) -> int:
        """Returns how many assignments could not be started when they were tried last; they are tried
        again."""
        return len(self._delays)

    @property
    def is_preparing(self) -> bool:
        """Says whether a start is being prepared on this host just now."""
        return bool(self._under_way)

    def starting_uids(self) -> frozenset[str]:
        """Returns the uids of which an attempt or a prepared driver may be starting just now."""
        keys = frozenset(self._under_way) | self._prepared.under_way
        return frozenset(key.rpartition(".")[0] for key in keys)

    def check_alone(self, timeout_s: float) -> None:
        """Raises Conflict if another live supervisor has this id; a predecessor's session may take a while to end."""
        client = self._open()
        client.wait_connected(timeout_s)
        path = self._layout.supervisor(self._me.id)
        gone = threading.Event()
        deadline_at_s = boottime_s() + timeout_s
        while client.watch_exists(path, gone.set) is not None:
            if not gone.wait(max(0.0, deadline_at_s - boottime_s())):
                raise Conflict(
                    f"supervisor id {self._me.id} is in use by a live supervisor: stop it, or set another supervisor.id"
                )
            gone.clear()

    def run(self, beat: Callable[[], None]) -> None:
        """Runs rounds until ``stop``. A round that fails is repeated: shims and drivers go on meanwhile."""
        while not self._stopping.is_set():
            beat()
            self.wake.clear()
            self._turn()
            self._wait()
        self._pool.close()
        self._preparer.close()
        if self._client is not None:
            self._client.close()
        self._publish_session(None)

    def stop(self) -> None:
        """Ends the loop and the session: the leader sees at once that this host takes nothing new."""
        self._stopping.set()
        self.wake.set()

    def _wait(self) -> None:
        """Waits for the next round: until it is woken, or a driver that is being prepared has come to its barrier."""
        if not self._prepared.is_bringing_up():
            self.wake.wait(PERIOD_S)
            return
        until_at_s = boottime_s() + PERIOD_S
        while boottime_s() < until_at_s and not self.wake.wait(READY_PERIOD_S):
            if self._prepared.has_news():
                return

    # -- one round ------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._boundary.attempt("prepared", self._prepared.send, None)
        try:
            self._boundary.attempt("round", self._round, None, (SupervisorError,))
            self._logged = ""
        except SupervisorError as error:
            self._log_once(str(error))

    def _round(self) -> None:
        client = self._open()
        if client.link is not Link.CONNECTED:
            client.wait_connected(PERIOD_S)
        self._register(client)
        self._publish_state(client)
        asked = self._boundary.attempt(
            "requests", lambda: self._preparer.requests(client), None, (SupervisorError,)
        )
        # after the requests: one that was taken back for an assignment is not seen without this
        entries = client.children(self._layout.assigned_to(self._me.id), self.wake.set)
        if entries is None:  # removed by hand: made anew in the next round
            self._registered, entries = None, ()
        assigned = frozenset(entries)
        with self._lock:
            under_way = frozenset(self._under_way) | self._prepared.under_way
        self._boundary.attempt("tidy", lambda: self._hosted.tidy(under_way, assigned), None)
        unwritten = self._boundary.attempt("gate", self._launcher.check_again, dict[str, str]())
        with self._lock:
            fresh = [entry for entry in entries if entry not in self._under_way and is_attempt(entry)]
            self._under_way.update(fresh)
            self._held_back &= set(entries)
            self._doubted = {entry: why for entry, why in self._doubted.items() if entry in entries}
            self._delays = {entry: why for entry, why in self._delays.items() if entry in entries} | unwritten
        for entry in fresh:
            self._pool.submit(self._start_guarded, client, entry)
        uids = {entry.rpartition(".")[0] for entry in assigned | under_way}
        reported = self._prepared.reported
        self._boundary.attempt(
            "prepare", lambda: self._preparer.turn(client, asked, uids), None, (SupervisorError,)
        )
        if self._prepared.reported != reported:
            self._publish_state(client)

    def _open(self) -> ZooClient:
        """Returns the present client, or a new one: a session that was lost never comes back."""
        if self._client is None or self._client.link in (Link.LOST, Link.CLOSED):
            if self._client is not None:
                self._client.close()
            self._client = self._connect(lambda _link: self.wake.set())
            self._client.start()
        return self._client

    def _register(self, client: ZooClient) -> None:
        session = client.session
        if session is None or self._registered == session.id:
            return
        if client.read(self._layout.assigned_to(self._me.id)) is None:
            self._create(client, Create(self._layout.assigned_to(self._me.id), b""))
        me = encode(self._described(self._distrust()))
        self._create(client, Create(self._layout.supervisor(self._me.id), me, ephemeral=True))
        node = client.read(self._layout.supervisor(self._me.id))
        if node is None or node.stat.ephemeral_owner != session.id:
            raise Conflict(
                f"supervisor id {self._me.id} is still held by another session: waiting for it to end"
            )
        self._registered = session.id
        self._publish_session(session)
        log.info(
            "registered",
            supervisor=self._me.id,
            session=f"{session.id:x}",
            session_timeout_s=session.timeout_s,
        )

    def _described(self, distrust: str | None) -> Member:
        if distrust:
            return replace(self._me, distrust=clip(distrust, DISTRUST_MAX_BYTES))
        with self._lock:
            delays = list(self._delays.items())[:DELAYS_PUBLISHED]
        reported = tuple(_delay(entry, why) for entry, why in delays)
        return with_prepared(replace(self._me, distrust=None, delays=reported), self._prepared.reported)

    def _publish_state(self, client: ZooClient) -> None:
        """Writes this host's record when its znode differs from it. The znode is read each time: a reply may
        have been lost, and a ZooKeeper that was restored under a living session shows what this session wrote
        before, or nothing of it.

        If it says of a prepared driver that it is ready, or cannot be, it also rings: the leader waits for that."""
        path, me = self._layout.supervisor(self._me.id), self._described(self._distrust())
        data, node = encode(me), client.read(path)
        if node is None:
            self._registered = None  # anew in the next round
        elif node.data != data:
            uids = newly_settled(node, path, me)
            names = [name for name in map(self._prepared.name_of, uids) if name is not None]
            op = SetData(path, data, ANY_VERSION)
            writes: list[tuple[Op, ...]] = [(op, ring_doorbell(self._layout, name)) for name in names]
            try:
                for ops in writes or [(op,)]:
                    client.commit(Transaction("register", new_op_id(), ops))
            except (GuardFailed, OutcomeUnknown) as error:
                log.warning("distrust_not_told", why=str(error))  # again in the next round

    def _create(self, client: ZooClient, create: Create) -> None:
        try:
            client.commit(Transaction("register", new_op_id(), (create,)))
        except GuardFailed as failed:
            if failed.kind != "node_exists":
                raise
        except OutcomeUnknown as error:
            raise Unreachable(str(error)) from error

    # -- one assignment -------------------------------------------------------------------------------------------

    def _start_guarded(self, client: ZooClient, entry: str) -> None:
        """Runs at the edge of a starter thread: whatever goes wrong with one assignment is that job's trouble
        alone."""
        try:
            self._start(client, entry)
            self._set_delay(entry, None)
        except SupervisorError as error:
            self._set_delay(entry, str(error))
            log.warning(
                "start_delayed",
                **about_key(entry),
                why=str(error),
                next="tried again while it is assigned here",
            )
        except Exception as error:  # noqa: BLE001 - the edge of one item
            self._set_delay(entry, f"a defect of the supervisor: {type(error).__name__}: {error}")
            self._boundary.log_error(entry, error)
        finally:
            with self._lock:
                self._under_way.discard(entry)

    def _start(self, client: ZooClient, entry: str) -> None:
        uid, attempt = split_attempt(entry)
        path = self._layout.assignment(self._me.id, uid, attempt)
        node = client.read(path)
        given = seen(Assignment, node, path)
        if node is None or given is None:
            return
        if isinstance(given, Unreadable) or (given.record.uid, given.record.attempt) != (uid, attempt):
            why = given.reason if isinstance(given, Unreadable) else f"{path} is about another attempt"
            log.error("assignment_unreadable", **about_key(entry), why=why, next="the leader takes it back")
            return
        state = self._hosted.state_of(entry)
        taken = state in (HostedState.HOSTED, HostedState.LOST)
        of_lost_state = taken and self._is_of_lost_state(entry, given.record)
        if state is HostedState.HOSTED and not of_lost_state:
            return
        own_path = self._layout.own(given.record.name)
        own = seen(Ownership, client.read(own_path), own_path)
        if not isinstance(own, Found) or not _is_current(own, given.record):
            return  # taken back meanwhile; the leader sweeps the entry
        checked_at_s = self._trusted_at(client, entry, node.stat.czxid)
        if checked_at_s is None:
            return
        if client.read(self._layout.pause) is not None:
            self._hold_back(entry)
            return
        if taken:
            refused = Refused(Cause.PREPARED_LOST, OF_LOST_DRIVER)
            if of_lost_state:
                refused = Refused(Cause.NO_ROOM, OF_LOST_STATE.format(attempt=attempt))
            self._refuse(client, given.record, own, refused)
            return
        try:
            again = partial(self._trusted_at, client, entry, node.stat.czxid)
            trust_check = TrustCheck(checked_at_s, again, self._known(client, given.record.name, own.record))
            self._launcher.start(given.record, trust_check, _ended_before(own.record))
        except (Refused, AccessDenied) as error:
            # No access is reported in the records, not only in this host's log; and another host may have access.
            refused = error if isinstance(error, Refused) else Refused(Cause.NO_ACCESS, str(error))
            self._launcher.refused(refused)
            self._refuse(client, given.record, own, refused)

    def _known(self, client: ZooClient, name: str, own: Ownership) -> KnownCheckpoint:
        """Returns what is known of the checkpoint. It reads after the ownership was seen assigned: no older
        attempt's renewal can commit any more.

        What others left there matters until an attempt of this uid was claimed: what is there since is its
        own.
        """
        paths = (self._layout.job(name), self._layout.lease(name))
        nodes = client.read_many(paths).nodes
        ref: Seen[JobRef] = seen(JobRef, nodes[0], paths[0])
        lease: Seen[Lease] = seen(Lease, nodes[1], paths[1])
        if not isinstance(ref, Found):
            return KnownCheckpoint()  # cancelled meanwhile: the claim will fail
        job = ref.record
        newest = lease.record.remembered if isinstance(lease, Found) else None
        expected = to_be_expected(
            job.terms.checkpoint, job.fresh_start, newest, own.remembered, job.begins_with
        )
        was_checked = job.fresh_start or (isinstance(lease, Found) and lease.record.uid == job.uid)
        return KnownCheckpoint(job.terms.checkpoint, expected, "" if was_checked else job.left_by)

    def _trusted_at(self, client: ZooClient, entry: str, assigned_zxid: int) -> float | None:
        """Checks whether the registry is to be trusted, and returns the BOOTTIME before the check, or None if
        it is not."""
        checked_at_s = boottime_s()
        doubt = self._doubt(client, assigned_zxid)
        self._set_doubt(entry, doubt)
        return checked_at_s if doubt is None else None

    def ownership(self, job: str) -> Ownership | None:
        """Reads the ownership of ``job`` now, for any thread. Returns None if there is none, or none that may be believed.
        Raises SupervisorError."""
        client, path = self._client, self._layout.own(job)
        if client is None:
            raise Unreachable("there is no session with ZooKeeper")
        client.sync()
        node = client.read(path)
        own = seen(Ownership, node, path)
        if node is None or not isinstance(own, Found) or self._doubt(client, node.stat.mzxid) is not None:
            return None
        return own.record

    def _is_of_lost_state(self, entry: str, given: Assignment) -> bool:
        """Says whether the run directory is there and not by this assignment: after an accepted restore
        numbers come up again."""
        launch = self._hosted.launches().get(entry)
        return launch is not None and launch.assignment.own_version != given.own_version

    def _hold_back(self, entry: str) -> None:
        """Logs once that an entry was assigned before the pause: nothing is started now. It is checked again
        in each round."""
        if entry not in self._held_back:
            self._held_back.add(entry)
            log.info(
                "start_held_back",
                **about_key(entry),
                why="the cluster is paused",
                next="started after unpause",
            )

    def _refuse(self, client: ZooClient, given: Assignment, own: Found[Ownership], refused: Refused) -> None:
        why = str(refused)
        if self._me.host not in why:
            why = f"{self._me.host}: {why}"
        ended = Exit(refused.cause, why, permanent=refused.cause in PERMANENT_CAUSES)
        policy = self._me.policy_sha256
        tx = refuse(self._layout, given, own, ended, new_op_id(), wall_iso(), policy_sha256=policy)
        log_refused(given, refused.cause, why)
        if tx is None:
            return
        try:
            client.commit(tx)
        except (GuardFailed, OutcomeUnknown) as error:
            log.warning(
                "refusal_not_recorded", job=given.name, uid=given.uid, attempt=given.attempt, why=str(error)
            )

    def _set_delay(self, entry: str, why: str | None) -> None:
        with self._lock:
            if why is None:
                self._delays.pop(entry, None)
            else:
                self._delays[entry] = why

    def _set_doubt(self, entry: str, doubt: str | None) -> None:
        """Logs each doubt once while any entry is held back by it: entries are checked again in each
        round."""
        with self._lock:
            known = doubt in self._doubted.values()
            if doubt is None:
                self._doubted.pop(entry, None)
            else:
                self._doubted[entry] = doubt
        if doubt is not None and not known:
            self._log_reason(f"nothing is started here: {doubt}")

    def _log_once(self, why: str) -> None:
        if why != self._logged:
            self._logged = why
            self._log_reason(why)

    def _log_reason(self, why: str) -> None:
        log.warning(
            "agent_waits", supervisor=self._me.id, why=why, next="drivers of this host go on meanwhile"
        )


def _ended_before(own: Ownership) -> str | None:
    """Returns the cause of the exit before this attempt, from the history, or None if this is the first
    attempt of its uid."""
    causes = {cause.value for cause in Cause}
    if not own.claims:
        return None
    known = (*opened(own.earlier, own.uid), *own.history)
    return next((entry.event for entry in reversed(known) if entry.event in causes), None)


def _is_current(own: Found[Ownership], given: Assignment) -> bool:
    """Gives a hint that spares a useless start; the claim's guards are what decides."""
    record = own.record
    return (
        record.state is OwnState.ASSIGNED
        and own.version == given.own_version
        and (record.uid, record.attempt) == (given.uid, given.attempt)
    )


def _delay(entry: str, why: str) -> Delay:
    uid, attempt = split_attempt(entry)
    return Delay(uid=uid, attempt=attempt, why=clip(why, DELAY_MAX_BYTES))
