"""Puts the parts of one supervisor process together, and decides which part is given what. ``cli.run`` calls
it.

It contains no policy and no loop. ZooKeeper may come up after this process, so the bootstrap waits; a root or
store of another cluster is refused at once. A store that is down keeps nobody from leading: what needs it
waits for it (protocol §6).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog

import supervisor
from supervisor.api.service import ApiService
from supervisor.api.shared_reads import SharedReads
from supervisor.api.writes import ApiWrites
from supervisor.checkpoint.commit_log import CommitLog, open_commit_log
from supervisor.clients import processes
from supervisor.clients.channel import USER
from supervisor.clients.containment import find_own_cgroup
from supervisor.clients.controllers import find_attempt_groups
from supervisor.clients.store.base import Store
from supervisor.clients.zookeeper import Link, Session, ZooClient, close_session
from supervisor.clock import boottime_s, wall_iso
from supervisor.clusters.clients import clients_of
from supervisor.coord.contender import Contender, Duties, ElectionRegistry, SessionFactory
from supervisor.coord.election import Candidate
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.start_doubt import StartDoubt
from supervisor.coord.term import Term
from supervisor.coord.trust import Trust
from supervisor.daemon.host.agent import Agent
from supervisor.daemon.host.archive_ahead import ArchiveAhead
from supervisor.daemon.host.attempt_reporter import AttemptReporter
from supervisor.daemon.host.cluster_leftovers import ClusterLeftovers
from supervisor.daemon.host.drain_host import stop_drivers
from supervisor.daemon.host.driver_users import DriverUsers
from supervisor.daemon.host.fence_ahead import FenceAhead
from supervisor.daemon.host.guardian import Guardian
from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.daemon.host.housekeeping import ENDED, Housekeeper
from supervisor.daemon.host.job_directories import JobDirectories
from supervisor.daemon.host.launcher import Launcher
from supervisor.daemon.host.log_limits import LogLimit
from supervisor.daemon.host.log_uploads import LogUploads
from supervisor.daemon.host.prepared import HostCapacity
from supervisor.daemon.host.prepared_drivers import PreparedDrivers
from supervisor.daemon.leader.application_sweeper import ApplicationSweeper
from supervisor.daemon.leader.controller import Controller
from supervisor.daemon.leader.leader import Leader
from supervisor.daemon.leader.notifier import Notifier, NotifyConfiguration
from supervisor.daemon.leader.notifier_inbox import NotifierInbox
from supervisor.daemon.leader.receivers import receivers_of
from supervisor.daemon.leader.record import Recorder
from supervisor.daemon.leader.remover import Remover
from supervisor.daemon.leader.savepoint_task import SavepointTasks
from supervisor.daemon.leader.scheduled_savepoints import ScheduledSavepoints
from supervisor.daemon.leader.sweeper import Sweeper
from supervisor.daemon.leader.update_savepoint_task import UpdateSavepointTasks
from supervisor.daemon.loops.watchdog import Loop, Watchdog
from supervisor.daemon.process.api_server import ApiHttpServer
from supervisor.daemon.process.http import Answers, HttpServer
from supervisor.daemon.process.http_access import HttpAccess
from supervisor.daemon.process.session_closer import SessionCloser
from supervisor.daemon.process.supervisor import LOOP_LIMIT_S, Supervisor, SupervisorParts, wait_for
from supervisor.errors import AccessDenied, Corrupt, InvalidInput, NotSent, SupervisorError, Unreachable
from supervisor.metrics import Metrics
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.host_directories import LEFTOVERS
from supervisor.model.labels import packed
from supervisor.model.launch import Launch
from supervisor.model.location import normalise
from supervisor.model.records import Cluster, JobRef, Member, PendingDeletion
from supervisor.model.sinks import SeenSink
from supervisor.observe.status import ClusterConfiguration, is_ok, take_status, unreachable_status
from supervisor.operations.author import supervisor_as_author
from supervisor.operations.context import open_commands, store_of
from supervisor.operations.left_in_checkpoint import left_in_checkpoint
from supervisor.plan.make import Policy
from supervisor.records.layout import Layout
from supervisor.registry.access_control import refuse_open_root
from supervisor.registry.blob_sweep import BlobSweeper
from supervisor.registry.blobs import Blobs
from supervisor.registry.bootstrap_cluster import ClusterIdentity, bootstrap_or_check, check_known
from supervisor.registry.uploaded_logs import LogSweeper, UploadedLogs
from supervisor.savepoints.operations import shelf_of
from supervisor.savepoints.sweep import SavepointSweeper
from supervisor.settings.addresses import are_loopback
from supervisor.settings.file import Settings
from supervisor.settings.policy import open_rules
from supervisor.spark.driver_start import PROPERTIES
from supervisor.spark.properties import parse_properties
from supervisor.spark.python_environments import environments_dir, sweep
from supervisor.spec.job import from_canonical
from supervisor.spec.policy_judge import policy_of_host
from supervisor.spec.s3a import S3Access, access_of, access_of_store, bucket_of
from supervisor.spec.site_policy import site_policy

log = structlog.get_logger(__name__)

REQUEST_MAX_S = 5.0
CLOSE_S = 3.0


def build_supervisor(settings: Settings) -> Supervisor:
    """Returns the daemon of this host. Nothing is opened before its ``run``."""
    return Supervisor(
        settings.supervisor.runtime_dir,
        settings.supervisor.state,
        lambda owner: Assembly(settings, owner, store_of(settings)).parts(),
        passable=_has_other_users(settings),
    )


def warn_of_policy(settings: Settings) -> None:
    """Logs which rules of the policy let jobs have everything, unless all is on this machine."""
    wide = open_rules(settings.policy)
    if wide and not are_loopback(settings.zookeeper.hosts):
        log.warning(
            "policy_is_open",
            keys=list(wide),
            why="who can submit a job gets what the supervisor has: its environment, its files, its access to stores",
            next="jobs are started all the same; conf/supervisor.secure.yaml is the policy to begin with",
        )


def _warn_of_users(users: DriverUsers) -> None:
    """Says at the start what every job would be refused for that is to run as another user."""
    trouble = users.trouble()
    if trouble:
        log.warning(
            "run_as_impossible", why=str(trouble), next="jobs of other users are refused on this host"
        )


def _has_other_users(settings: Settings) -> bool:
    """Says whether drivers of other users may start here, or are here still."""
    users, work_dir = settings.policy.run_as, settings.supervisor.runtime_dir / "work"
    if users.default is not None or users.allowed:
        return True
    return any(work_dir.glob(f"*/{USER}")) or any(work_dir.glob(f"{LEFTOVERS}/*"))


class Assembly:
    """Assembles one process. ``parts`` founds or checks the cluster, then makes everything that lives as long
    as the process."""

    def __init__(self, settings: Settings, owner: Supervisor, store: Store) -> None:
        self._settings = settings
        self._owner = owner
        self._store = store
        self._layout = Layout(settings.zookeeper.root)
        self._blobs, self._epochs = Blobs(store), EpochMarks(store)
        self._metrics = Metrics(boottime_s, supervisor.__version__)
        self._watchdog = Watchdog()
        self._session_closer = SessionCloser(settings.zookeeper.hosts, settings.zookeeper.access)
        self._contender_loop: Loop | None = None
        self._leadership: Callable[[], object] = lambda: None
        self._host = socket.gethostname()
        runtime_dir = settings.supervisor.runtime_dir
        self._hosted = HostedAttempts(runtime_dir, settings.supervisor.log_dir, settings.supervisor.state)
        capacity = settings.supervisor.capacity
        self._prepared = PreparedDrivers(
            self._hosted, HostCapacity(self._host, capacity.drivers, capacity.memory_bytes)
        )

    def parts(self) -> SupervisorParts:
        """Returns the parts. Raises Conflict (another cluster), SupervisorError."""
        settings, runtime_dir = self._settings, self._settings.supervisor.runtime_dir
        warn_of_policy(settings)
        self._groups = find_attempt_groups(find_own_cgroup())
        cluster = self._found()
        self._trust = self._remembered(cluster.id)
        self._know_clusters(cluster.id)
        server = self._server()
        api = self._api_server()
        agent = self._agent(server.address)
        self._agent_ = agent
        leader = self._leader()
        uploads = self._log_uploads(agent)
        guardian = Guardian(
            self._hosted.attempts_dir,
            settings.supervisor.id,
            self._layout,
            lambda: agent.client,
            self._metrics.observe_kill,
            self._prepared.note_end,
            partial(self._gone, uploads),
        )
        contender = self._contender(server.address, leader)
        reporter = self._reporter(agent)
        self._follow(agent, contender)
        return SupervisorParts(
            id=settings.supervisor.id,
            runtime_dir=runtime_dir,
            watchdog=self._watchdog,
            server=server,
            api_server=api,
            session_closer=self._session_closer,
            agent=agent,
            guardian=guardian,
            reporter=reporter,
            contender=contender,
            housekeeper=self._housekeeper(),
            fence_ahead=FenceAhead(settings),
            archive_ahead=ArchiveAhead(
                settings, lambda: agent.is_preparing or reporter.is_starting(), self._metrics
            ),
            cluster_leftovers=self._cluster_leftovers,
            log_uploads=uploads,
            alone_timeout_s=2 * settings.zookeeper.session_timeout_s + 5.0,
            stop_drivers=self._stop_drivers if settings.supervisor.on_stop == "stop_drivers" else None,
        )

    def _log_uploads(self, agent: Agent) -> LogUploads:
        settings, launches = self._settings.supervisor, self._hosted.launches
        logs = UploadedLogs(self._store)
        return LogUploads(
            settings.runtime_dir,
            settings.log_dir,
            launches,
            agent.ownership,
            logs,
            self._metrics.set_log_uploads_waiting,
        )

    def _gone(self, uploads: LogUploads, launch: Launch) -> None:
        """Is called when the run directory of ``launch`` goes."""
        self._cluster_leftovers.ended(launch)
        uploads.ended(launch)

    def _leader(self) -> Leader:
        return Leader(
            self._controller,
            self._sweeper,
            self._remover,
            self._owner.failed,
            self._savepoints,
            self._notifier,
        )

    def _reporter(self, agent: Agent) -> AttemptReporter:
        settings = self._settings
        return AttemptReporter(
            settings.supervisor.id,
            self._hosted,
            self._layout,
            lambda: agent.client,
            self._metrics,
            self._commits_of,
            settings.clusters,
            self._cluster_clients,
        )

    def _know_clusters(self, registry: str) -> None:
        self._registry_id = registry
        self._cluster_clients = clients_of(self._settings.clusters, registry)
        self._cluster_leftovers = ClusterLeftovers(
            self._cluster_clients, lambda job: self._agent_.ownership(job), self._metrics
        )

    def _housekeeper(self) -> Housekeeper:
        settings = self._settings.supervisor
        ended, remove_leftovers = settings.runtime_dir / ENDED, self._hosted.remove_leftovers
        sweep_unused = partial(sweep, environments_dir(self._settings), self._hosted.work_dir)
        limit = LogLimit(settings.logs.per_job_bytes, settings.logs.per_host_bytes)
        return Housekeeper(
            ended,
            settings.log_dir,
            self._store.check,
            self._metrics,
            remove_leftovers,
            sweep_unused,
            limit,
            self._job_directories().sweep,
        )

    def _job_directories(self) -> JobDirectories:
        doubt = StartDoubt(self._layout, self._trust, self._epochs)
        return JobDirectories(
            self._hosted.state.jobs,
            self._hosted.job_leftovers,
            self._registry_id,
            self._layout,
            lambda: self._agent_.client,
            lambda client: doubt.of(client, client.last_zxid),
            lambda: self._hosted.uids() | self._agent_.starting_uids(),
        )

    def _follow(self, agent: Agent, contender: Contender[ZooClient]) -> None:
        """Lets metrics and the status page ask agent and contender at every scrape."""
        self._metrics.follow_zookeeper(
            lambda: agent.registered,
            lambda: agent.client.last_success_at_s if agent.client else 0.0,
        )
        self._metrics.follow_starts(lambda: agent.delayed)
        self._leadership = lambda: (contender.leads(), contender.report().epoch, contender.report().leader)
        self._metrics.follow_leadership(
            contender.leads,
            lambda: contender.report().epoch,
            lambda: self._trust.reason is not None or contender.report().alarm is not None,
        )

    def _stop_drivers(self, hurry: Callable[[], bool]) -> None:
        stop_drivers(self._hosted.attempts_dir, hurry=hurry)

    # -- the cluster ----------------------------------------------------------------------------------------------

    def _found(self) -> Cluster:
        settings = self._settings
        identity = ClusterIdentity(settings.cluster, settings.zookeeper.root, settings.store.url)

        def attempt() -> Cluster:
            client = self._connect(lambda _link: None)
            client.start()
            try:
                client.wait_connected(10.0)
                self._compare_session_time(client)
                if settings.zookeeper.acl == "enforce":
                    refuse_open_root(client, self._layout)
                return self._check_cluster(client, identity)
            finally:
                client.close()

        return wait_for("the cluster", attempt, self._owner.stopping) or Cluster(id="", name="", store="")

    def _remembered(self, cluster_id: str) -> Trust:
        """Returns what this host remembers of ZooKeeper. Raises Unreachable if it can't be read when the
        process is told to stop."""
        path = self._settings.supervisor.runtime_dir / "zxid"
        known = wait_for(
            "what it remembers of ZooKeeper", lambda: Trust(path, cluster_id), self._owner.stopping
        )
        return known or Trust(path, cluster_id)

    def _compare_session_time(self, client: ZooClient) -> None:
        """Logs when the granted session time is not the one that was set, because whoever set it wants to
        know (F61): all that counts in session times counts in the granted one."""
        asked_s = self._settings.zookeeper.session_timeout_s
        granted_s = client.session.timeout_s if client.session is not None else asked_s
        if granted_s != asked_s:
            log.warning(
                "session_time_differs",
                asked_s=asked_s,
                granted_s=granted_s,
                why="the servers' limits (minSessionTimeout, maxSessionTimeout) are 2 and 20 ticks if not set otherwise",
                next="what is granted counts; set zookeeper.session_timeout to it",
            )

    def _check_cluster(self, client: ZooClient, identity: ClusterIdentity) -> Cluster:
        try:
            return bootstrap_or_check(client, self._layout, self._blobs, identity)
        except (Unreachable, AccessDenied) as error:
            known = check_known(client, self._layout, identity)
            if known is None:
                raise
            log.warning(
                "store_not_checked",
                why=str(error),
                next="this supervisor adopts, but starts nothing without it",
            )
            return known

    def _connect(self, on_link: Callable[[Link], None]) -> ZooClient:
        zookeeper = self._settings.zookeeper
        timeout_s = zookeeper.session_timeout_s
        return ZooClient(
            zookeeper.hosts,
            timeout_s,
            on_link=on_link,
            request_timeout_s=min(REQUEST_MAX_S, timeout_s / 2),
            access=zookeeper.access,
        )

    # -- leadership -----------------------------------------------------------------------------------------------

    def _contender(self, address: str, leader: Leader) -> Contender[ZooClient]:
        layout, zookeeper = self._layout, self._settings.zookeeper

        def close(session: Session) -> None:
            close_session(
                zookeeper.hosts,
                session.id,
                session.password,
                min(CLOSE_S, session.timeout_s),
                zookeeper.access,
            )

        def step_down(term: Term[ZooClient]) -> None:
            leader.step_down(term, self._contender_beats)
            self._metrics.following(term.epoch)

        return Contender(
            Candidate(self._settings.supervisor.id, address),
            ElectionRegistry(layout, self._epochs, self._trust),
            SessionFactory(self._connect, close, self._session_closer.publish_sessions),
            Duties(leader.begin, step_down, lambda _term: leader.wake(), self._contender_beats),
        )

    def _contender_beats(self) -> None:
        """Beats for the contender. Its loop is registered at its first beat, because it starts only when this
        host is known to be alone with its id."""
        if self._contender_loop is None:
            self._contender_loop = self._watchdog.register("contender", LOOP_LIMIT_S)
        self._contender_loop.beat()

    def _controller(self, term: Term[ZooClient]) -> Controller:
        loop = self._watchdog.register(f"controller-{term.epoch}", LOOP_LIMIT_S)
        site = site_policy(self._settings.policy)
        policy = Policy(self._settings.spark.submit_timeout_s, site)
        recorder = Recorder(self._metrics, term.vacant_at_s)
        by = supervisor_as_author(self._settings.supervisor.id)
        tasks = SavepointTasks(self._settings, term.client, self._layout)
        work = UpdateSavepointTasks(tasks, self._blobs, term.client, self._layout, site, term.epoch)
        inbox = NotifierInbox() if self._settings.notify else None
        return Controller(term, self._layout, policy, recorder, loop, self._left_behind, by, work, inbox)

    def _left_behind(self, job: JobRef, known: Sequence[SeenQuery], sinks: Sequence[SeenSink]) -> str:
        """Returns what a target has left in the checkpoint of ``job`` or in ``sinks``. Raises SupervisorError."""
        return left_in_checkpoint(self._settings, self._blobs, job, known, sinks)

    def _sweeper(self, term: Term[ZooClient], controller: Controller) -> Sweeper:
        return Sweeper(
            term,
            self._layout,
            controller.executor,
            BlobSweeper(self._store),
            self._epochs,
            paused=controller.is_paused,
            savepoints=SavepointSweeper(shelf_of(self._settings)),
            applications=ApplicationSweeper(self._cluster_clients, self._metrics),
            logs=LogSweeper(self._store),
        )

    def _remover(self, term: Term[ZooClient], controller: Controller) -> Remover:
        return Remover(
            term,
            self._layout,
            controller.executor,
            self._settings.store.url,
            self._access_to,
            site=site_policy(self._settings.policy),
            wanted=controller.deletions_wanted,
            paused=controller.is_paused,
        )

    def _access_to(self, location: str, deletion: PendingDeletion) -> S3Access:
        """Returns the access by which the job itself reached the location. The job's spec is kept as long as
        its claim."""
        bucket, store = (
            bucket_of(location),
            access_of_store(self._settings.store, self._settings.policy.endpoints),
        )
        if bucket is None:
            return store
        if deletion.spec is None:
            raise Corrupt(f"nobody knows the spec of {deletion.name}, which may say where {location} is")
        return access_of(
            from_canonical(self._blobs.read_spec(deletion.spec), deletion.spec.key).conf, bucket, store
        )

    def _savepoints(self, term: Term[ZooClient], controller: Controller) -> ScheduledSavepoints:
        means = SavepointTasks(self._settings, term.client, self._layout)
        return ScheduledSavepoints(term, lambda: controller.view, means, self._metrics)

    def _notifier(self, term: Term[ZooClient], controller: Controller) -> Notifier:
        settings = self._settings

        return Notifier(
            term,
            self._layout,
            controller.executor,
            NotifyConfiguration(receivers_of(settings.notify), settings.cluster, self._page_about),
            controller.notifier_inbox or NotifierInbox(),
            self._metrics,
            paused=controller.is_paused,
        )

    def _page_about(self, job: str) -> str:
        """Returns the address of the page about a job that this supervisor serves, or an empty text."""
        api = self._settings.api
        address = api.address(self._host) if api.page else ""
        return f"{address}/#/jobs/{job}" if address else ""

    # -- this host ------------------------------------------------------------------------------------------------

    def _agent(self, address: str) -> Agent:
        capacity = self._settings.supervisor.capacity
        starter = Launcher(
            self._settings,
            self._host,
            lambda: self._blobs,
            self._hosted,
            self._groups.parent,
            self._metrics,
            self._prepared,
            self._groups.why_not,
            self._registry_id,
            self._cluster_leftovers.starts,
        )
        me = Member(
            id=self._settings.supervisor.id,
            host=self._host,
            boot_id=processes.boot_id(),
            address=address,
            memory=capacity.memory_bytes,
            drivers=capacity.drivers,
            starting=capacity.starting,
            software=supervisor.__version__,
            since=wall_iso(),
            log_dir=str(self._settings.supervisor.log_dir.absolute()),
            prepares=1,
            labels=packed(self._settings.supervisor.labels),
            policy_sha256=policy_of_host(self._settings, starter.signers.digest),
            sparks=tuple(sorted(self._settings.spark.versions)),
            api=self._settings.api.address(self._host),
        )
        doubt = StartDoubt(self._layout, self._trust, self._epochs)
        _warn_of_users(starter.users)
        return Agent(
            me,
            self._layout,
            self._connect,
            starter,
            self._hosted,
            self._publish_agent_session,
            doubt.of,
            lambda: doubt.own,
            self._prepared,
        )

    def _publish_agent_session(self, session: Session | None) -> None:
        self._session_closer.publish_sessions((session,) if session else (), of="agent")

    def _commits_of(self, launch: Launch) -> CommitLog | None:
        """Opens the commit log of a JVM application's checkpoint, on the endpoint that the job itself
        uses."""
        checkpoint = launch.checkpoint
        if checkpoint is None:
            return None
        store = access_of_store(self._settings.store, self._settings.policy.endpoints)
        bucket = bucket_of(normalise(checkpoint))
        if bucket is None:
            return open_commit_log(checkpoint, store)
        key = f"{launch.assignment.uid}.{launch.assignment.attempt}"
        properties = self._hosted.work_dir / key / PROPERTIES
        conf = parse_properties(properties.read_text("ascii")) if properties.exists() else {}
        try:
            return open_commit_log(checkpoint, access_of(conf, bucket, store))
        except InvalidInput:  # it was started before its endpoint was forbidden; nobody looks there for it
            return None

    # -- HTTP -----------------------------------------------------------------------------------------------------

    def _server(self) -> HttpServer:
        host, _, port = self._settings.supervisor.http.rpartition(":")
        answers = Answers(
            self._live, self._ready, self._metrics.exposition, self._status, lambda: self._leadership()
        )
        access = HttpAccess(self._settings.http, boottime_s)
        return HttpServer(host.strip("[]"), int(port), answers, access, self._settings.http.hosts)

    def _api_server(self) -> ApiHttpServer | None:
        settings = self._settings
        if settings.api.listen is None:
            return None
        opened = partial(open_commands, settings)
        service = ApiService(SharedReads(opened), settings.supervisor.log_dir)
        writes = ApiWrites(opened) if settings.api.operator_token_files else None
        return ApiHttpServer(settings.api, service, writes)

    def _live(self) -> bool:
        return self._watchdog.stuck(boottime_s()) is None

    def _ready(self) -> tuple[bool, str]:
        if self._agent_.registered and self._trust.reason is not None:
            return False, f"registered, but nothing is started here: {self._trust.reason}"
        if self._agent_.registered:
            return True, "registered; drivers can be placed here"
        return False, "not registered in ZooKeeper: nothing can be placed here; drivers go on"

    def _status(self) -> dict[str, Any]:
        settings = self._settings
        place = ClusterConfiguration(settings.cluster, settings.zookeeper.hosts, settings.store.url)
        store_ok = is_ok(self._store.check)
        client = self._agent_.client
        try:
            if client is None:
                raise NotSent("there is no session")
            session = client.session
            session_s = session.timeout_s if session is not None else settings.zookeeper.session_timeout_s
            return take_status(client, self._layout, place, session_s, store_ok)
        except SupervisorError:
            return unreachable_status(place, store_ok)
