"""Supervisors: the daemon's own parts, put together as ``daemon.process.assemble`` does, on simulated time.

Real are contender, leader, controller, executor, sweeper and agent, trust and start doubt, with their threads. Replaced are what
touches files and processes: run directories, the starting of a shim, the session closer's process, metrics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from supervisor.clients import zookeeper
from supervisor.clients.run_dir import StartVerdict
from supervisor.clients.zookeeper import Link, Session
from supervisor.coord.contender import Contender, Duties, ElectionRegistry, SessionFactory
from supervisor.coord.election import Candidate
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.start_doubt import StartDoubt
from supervisor.coord.term import Term
from supervisor.coord.trust import Trust
from supervisor.daemon.host.agent import Agent
from supervisor.daemon.host.hosted_attempts import HostedState
from supervisor.daemon.host.launcher import Refused, TrustCheck
from supervisor.daemon.host.prepared import (
    RETRY_PAUSE,
    HostCapacity,
    HostLoad,
    KeptDriver,
    PreparedSituation,
    PreparePause,
    RequestedDriver,
    decide,
    no_assignment_yet,
)
from supervisor.daemon.leader.controller import Controller
from supervisor.daemon.leader.leader import Leader
from supervisor.daemon.leader.record import Pass
from supervisor.daemon.leader.sweeper import Sweeper
from supervisor.daemon.process.supervisor import LOOP_LIMIT_S, wait_for
from supervisor.errors import AccessDenied, Corrupt, NotFound, SupervisorError, Unreachable
from supervisor.model.launch import GATE, Launch
from supervisor.model.records import Assignment, Cause, Cluster, Member, Preparation, PreparedDriver
from supervisor.plan.make import Policy
from supervisor.records.layout import PREPARED_MARK
from supervisor.registry.blob_sweep import BlobSweeper
from supervisor.registry.blobs import Blobs
from supervisor.registry.bootstrap_cluster import bootstrap_or_check, check_known
from supervisor.shim import state as shim
from tests.simulation.timed.attempts import Attempt
from tests.simulation.timed.client import SimClient
from tests.simulation.timed.killers import SimulatedGuardian
from tests.simulation.timed.loop import Process

if TYPE_CHECKING:
    from tests.simulation.timed.hosts import SimulatedHost
    from tests.simulation.timed.world import TimedWorld

STOPPED_MAX_S = 60.0
"""``daemon.loops.watchdog``: a SIGSTOP that lasts longer ends the supervisor when it is continued."""


class MemoryPath:
    """A file on a simulated disk, as ``coord.trust`` uses one."""

    def __init__(self, disk: dict[str, str], name: str) -> None:
        self._disk = disk
        self.name = name

    def __str__(self) -> str:
        return self.name

    def with_name(self, name: str) -> MemoryPath:
        return MemoryPath(self._disk, name)

    def read_text(self) -> str:
        if self.name not in self._disk:
            raise FileNotFoundError(self.name)
        return self._disk[self.name]

    def open(self, _mode: str) -> MemoryPath:
        self._disk[self.name] = ""
        return self

    def write(self, text: str) -> None:
        self._disk[self.name] += text

    def flush(self) -> None: ...

    def fileno(self) -> int:
        return 0

    def replace(self, target: MemoryPath) -> None:
        self._disk[target.name] = self._disk.pop(self.name)

    def __enter__(self) -> MemoryPath:
        return self

    def __exit__(self, *_: object) -> None: ...


HELD, LOOKS_S = 0.4, (0.05, 0.5, 3.0, 12.0)
"""Starts beside a look at the checkpoint, and how long that takes."""


class SimHosted:
    """``daemon.host.launcher.HostedAttempts`` on a simulated host."""

    def __init__(self, host: SimulatedHost) -> None:
        self._host = host

    def state_of(self, key: str) -> HostedState:
        if key not in self._host.links:
            return HostedState.HOSTED if key in self._host.attempts else HostedState.NONE
        attempt = self._host.attempts.get(self._host.links[key])
        if attempt is None:
            return HostedState.LOST
        if attempt.handed is None:
            return HostedState.LINKED
        return HostedState.LOST if attempt.shim_dead else HostedState.HOSTED

    def launches(self) -> dict[str, Launch]:
        found = {}
        for attempt in self._host.attempts.values():
            given = attempt.now.assignment
            if not attempt.is_free:
                found[f"{given.uid}.{given.attempt}"] = attempt.now
        return found

    def tidy(self, under_way: frozenset[str], assigned: frozenset[str]) -> None:
        for key, prepared_key in list(self._host.links.items()):
            if prepared_key not in self._host.attempts and key not in under_way | assigned:
                del self._host.links[key]


class SimPrepared:
    """``daemon.host.prepared_drivers.PreparedDrivers`` on a simulated host: real is ``daemon.host.prepared``, which decides."""

    def __init__(self, world: TimedWorld, host: SimulatedHost) -> None:
        self._world = world
        self._host = host
        self._asked: Mapping[str, RequestedDriver] | None = None
        self._starting: dict[str, Preparation] = {}
        self._failures: dict[str, PreparePause] = {}
        self._discarded: set[str] = set()
        self.reported: tuple[PreparedDriver, ...] = ()
        self.under_way: frozenset[str] = frozenset()

    def free(self) -> list[Attempt]:
        return [attempt for attempt in self._host.attempts.values() if attempt.is_free]

    def fit_for(self, given: Assignment) -> Attempt | None:
        """The best that waits for such an attempt."""
        wanted = (given.uid, given.revision, given.spec.sha256)
        for attempt in self.free():
            has = attempt.launch.assignment
            is_standing = attempt.ready and not attempt.shim_dead and attempt.key not in self._discarded
            if is_standing and (has.uid, has.revision, has.spec.sha256) == wanted:
                return attempt
        return None

    def name_of(self, uid: str) -> str | None:
        asked = [one.record for one in (self._asked or {}).values() if one.record is not None]
        return next((record.name for record in asked if record.uid == uid), None)

    def send(self) -> None:
        for attempt in self.free():
            if attempt.runner is not None:
                gone = attempt.key in self._discarded
                attempt.runner.report(shim.DiscardAsked() if gone else shim.StillWanted())

    def is_bringing_up(self) -> bool:
        return False  # ``Host.prepared_driver_is_ready`` wakes the agent

    def turn(
        self,
        asked: Mapping[str, RequestedDriver] | None,
        loads: Sequence[HostLoad],
        assigned: Collection[str],
    ) -> tuple[RequestedDriver, ...]:
        self._asked = asked if asked is not None else self._asked
        self._discarded &= self._host.attempts.keys()
        kept = [self._kept(attempt) for attempt in self.free()]
        decision = decide(
            PreparedSituation(
                asked,
                kept,
                loads,
                HostCapacity(self._host.name, self._host.drivers, 1 << 50),
                dict(self._starting),
                dict(self._failures),
                assigned,
                self._world.boottime_s(),
            )
        )
        for entry, why in decision.failed:
            self.failed(entry, why)
        self._discarded |= {each.key for each, _ in decision.discard}
        self.reported = decision.reported
        for one in decision.prepare:
            assert one.record is not None
            self._starting[one.entry] = one.record
        return decision.prepare

    def _kept(self, attempt: Attempt) -> KeptDriver:
        assert attempt.request is not None
        return KeptDriver(
            attempt.key,
            attempt.request,
            attempt.begun_at_s,
            attempt.launch.start_timeout_s,
            ready=attempt.ready,
            alive=not attempt.shim_dead,
            discarded=attempt.key in self._discarded,
        )

    def over(self, entry: str) -> None:
        self._starting.pop(entry, None)

    def failed(self, entry: str, why: str) -> None:
        before = self._failures.get(entry)
        tries = 1 if before is None else before.tries + 1
        self._failures[entry] = PreparePause(why, tries, self._world.boottime_s() + RETRY_PAUSE.after(tries))


class SimStarter:
    """``daemon.host.launcher.Launcher``: spec from the store, room, run directory, shim."""

    def __init__(
        self, world: TimedWorld, host: SimulatedHost, blobs: Blobs, process: Process, prepared: SimPrepared
    ) -> None:
        self._prepared = prepared
        self._hosted = SimHosted(host)
        self._world = world
        self._host = host
        self._blobs = blobs
        self._process = process
        self._preflights: set[str] = set()

    def start(self, given: Assignment, look: TrustCheck, _ended_before: str | None = None) -> None:
        world, host = self._world, self._host
        key = f"{given.uid}.{given.attempt}"
        if self._hosted.state_of(key) is HostedState.HOSTED:
            return
        others = [
            a for other, a in host.attempts.items() if other != key and not a.shim_dead and not a.is_free
        ]
        if len(others) >= host.drivers:
            raise Refused(Cause.NO_ROOM, f"{host.name} has all its {host.drivers} drivers")
        begun_at_s, decided_at_s = host.clock.boottime_s(world.loop.now_s), world.loop.now_s
        try:
            spec = json.loads(self._blobs.read_spec(given.spec))
        except (NotFound, Corrupt) as error:
            raise Refused(Cause.BAD_ARTIFACT, str(error)) from error
        world.loop.sleep(0.01 + 0.2 * world.random.random())
        trust_checked_at_s = look.lately()
        if self._hosted.state_of(key) is HostedState.HOSTED or trust_checked_at_s is None:
            return
        launch = self._launch(given, bool(spec["unbounded"]), begun_at_s, trust_checked_at_s)
        held = launch.reports and world.lots("held", host.name, key).random() < HELD
        if held:
            launch = replace(launch, env={GATE: "gate"})
        attempt = self._handed_over(key, launch, decided_at_s)
        if attempt is None and self._hosted.state_of(key) is not HostedState.NONE:
            return
        if attempt is None:
            attempt = host.attempts[key] = Attempt(world, host, key, launch, host.boot_id, decided_at_s)
            attempt.start_shim()
        if held:
            self._poll(key, attempt)

    def _handed_over(self, key: str, launch: Launch, decided_at_s: float) -> Attempt | None:
        """The link first, then the attempt: a supervisor may die in between, and the next one goes on."""
        host, prepared = self._host, self._prepared.fit_for(launch.assignment)
        if launch.assignment.prepared and prepared is not None:
            host.links[key] = prepared.key
            self._world.loop.sleep(0.02 * self._world.random.random())
            if prepared.is_free and host.attempts.get(prepared.key) is prepared and not prepared.shim_dead:
                prepared.hand_over(replace(launch, prepared=prepared.key), decided_at_s)
                self._world.judge.answers["handed over"] += 1
                return prepared
        if self._hosted.state_of(key) in (HostedState.LINKED, HostedState.LOST):
            del host.links[key]
        return None

    def bring_up(self, request: Preparation) -> None:
        """A prepared driver, whose shim waits for an attempt."""
        world, host = self._world, self._host
        key = f"{request.uid}.{PREPARED_MARK}{world.random.getrandbits(32):08x}"
        given = no_assignment_yet(request)
        begun_at_s = host.clock.boottime_s(world.loop.now_s)
        try:
            spec = json.loads(self._blobs.read_spec(given.spec))
        except (NotFound, Corrupt) as error:
            raise Refused(Cause.BAD_ARTIFACT, str(error)) from error
        world.loop.sleep(0.01 + 0.2 * world.random.random())
        launch = replace(self._launch(given, bool(spec["unbounded"]), begun_at_s, 0.0), prepared=key)
        attempt = Attempt(world, host, key, launch, host.boot_id, world.loop.now_s, request=request)
        attempt.begun_at_s = begun_at_s
        host.attempts[key] = attempt
        attempt.start_shim()
        world.judge.answers["prepared"] += 1

    def _launch(
        self, given: Assignment, unbounded: bool, begun_at_s: float, trust_checked_at_s: float
    ) -> Launch:
        world, host, job = self._world, self._host, self._world.job_of(given.name)
        return Launch(
            cluster="sim",
            hosts="sim:2181",
            root=world.layout.root,
            session_timeout_s=world.plan.session_s,
            supervisor=host.name,
            host=host.name,
            assignment=given,
            lease_s=job.lease_s,
            stop_grace_s=job.grace_s,
            start_timeout_s=job.start_timeout_s,
            stall_timeout_s=600.0,
            unbounded=unbounded,
            reports=job.reports,
            argv=("driver",),
            env={},
            cwd="/",
            log_path="/log",
            cgroup="/cgroup" if host.cgroups else None,
            begun_s=begun_at_s,
            looked_s=trust_checked_at_s,
        )

    def loads(self) -> list[HostLoad]:
        alive = [a for a in self._host.attempts.values() if not a.shim_dead and not a.is_free]
        return [HostLoad(a.now.assignment.uid, a.now.assignment.memory) for a in alive]

    def check_again(self) -> dict[str, str]:
        """For drivers that wait, and that no thread of this supervisor is looking for."""
        for key, attempt in self._host.attempts.items():
            if attempt.now.is_held and attempt.verdict is None and key not in self._preflights:
                self._poll(key, attempt)
        return {}

    def _poll(self, key: str, attempt: Attempt) -> None:
        """The look at the checkpoint beside the start, and then the word for the driver, which waits at its gate."""
        world = self._world
        lots = world.lots("look", self._host.name, key, f"{world.loop.now_s:.6f}")
        self._preflights.add(key)

        def tell() -> None:
            self._preflights.discard(key)
            answered = world.calm or lots.random() < 0.8
            if attempt.verdict is None:
                attempt.verdict = (
                    StartVerdict() if answered else StartVerdict(Cause.NO_ACCESS.value, "no answer in time")
                )

        world.loop.after(lots.choice(LOOKS_S), tell, self._process)

    def refused(self, _why: Refused) -> None: ...


class SimRecorder:
    """In the place of metrics and log: what matters goes to the judge."""

    def __init__(self, world: TimedWorld) -> None:
        self._world = world

    def record(self, done: Pass) -> None:
        self._world.judge.passes += 1
        self._world.judge.last_pass = done
        for why in done.broken:
            self._world.judge.broke(f"check stopped the plan: {why}")
        for note in done.plan.notes:
            if "could not be judged" in note.why:
                self._world.judge.defect(note.why)
        for result in done.results:
            self._world.judge.relayed(result)

    def skipped(self, _epoch: int, _error: SupervisorError) -> None: ...

    def deposed(self, _epoch: int, _error: SupervisorError) -> None: ...


class SimLoop:
    """``daemon.loops.watchdog.Loop``."""

    def __init__(self, owner: SimSupervisor, name: str) -> None:
        self._owner = owner
        self.name = name
        self.beaten_at_s = owner.world.loop.now_s
        owner.loops[self] = None

    def beat(self) -> None:
        self.beaten_at_s = self._owner.world.loop.now_s

    def done(self) -> None:
        self._owner.loops.pop(self, None)


class NoRemover:
    """No job of the simulation asks for the deletion of its checkpoint."""

    def run(self) -> None:
        return


class SimSupervisor:
    """One daemon process, from its start to its end."""

    def __init__(self, world: TimedWorld, host: SimulatedHost) -> None:
        self.world = world
        self.host = host
        self.process: Process = world.process(f"supervisor {host.name}", host)
        self.loops: dict[SimLoop, None] = {}
        self.charges: dict[str, tuple[Session, ...]] = {}
        self.agent: Agent | None = None
        self.contender: Contender[Any] | None = None
        self.guardian: SimulatedGuardian
        self._in_order = False
        self.process.on_death.append(self._died)
        world.loop.after(
            0.2 + 0.3 * world.random.random(),
            lambda: world.loop.spawn(self._main, self.process, "main"),
            self.process,
        )
        before, world.loop.process = world.loop.process, self.process
        self.guardian = SimulatedGuardian(
            world, host, self.process, lambda: self.agent.client if self.agent is not None else None
        )
        world.loop.process = before

    # -- its life --------------------------------------------------------------------------------------------------

    def _main(self) -> None:
        world, host = self.world, self.host
        self._blobs = Blobs(world.store)
        cluster = self._found()
        self._trust = Trust(cast(Any, MemoryPath(host.disk, "zxid")), cluster.id)
        hosted = SimHosted(host)
        member = Member(
            id=host.name,
            host=host.name,
            boot_id=host.boot_id,
            address="",
            memory=1 << 50,
            drivers=host.drivers,
            starting=world.plan.starting,
            prepares=1,
            software="0",
            since="t",
        )
        prepared = SimPrepared(world, host)
        doubt = StartDoubt(world.layout, self._trust, EpochMarks(world.store))
        self.agent = Agent(
            member,
            world.layout,
            cast(Any, self._connect),
            cast(Any, SimStarter(world, host, self._blobs, self.process, prepared)),
            cast(Any, hosted),
            self._publish_agent_session,
            cast(Any, doubt.of),
            lambda: doubt.own,
            cast(Any, prepared),
        )
        leader = Leader(
            cast(Any, self._controller),
            cast(Any, self._sweeper),
            cast(Any, lambda _term, _controller: NoRemover()),
            self._failed,
        )
        self.contender = self._contender(leader)
        try:
            self.agent.check_alone(2 * world.plan.session_s + 5.0)
        except SupervisorError as error:
            world.loop.note(f"{self.process.name} gives up: {error}")
            world.loop.kill(self.process)
            return
        world.loop.spawn(lambda: self._guarded("agent", self._agent), self.process, "agent")
        self.contender.start()
        world.loop.note(f"{self.process.name} is up")
        self._watch()

    def _agent(self) -> None:
        assert self.agent is not None
        self.agent.run(SimLoop(self, "agent").beat)

    def _watch(self) -> None:
        """The watchdog."""
        now_s = self.world.loop.now_s
        for loop in self.loops:
            if now_s - loop.beaten_at_s > LOOP_LIMIT_S and not self._in_order:
                self.world.judge.stuck += 1
                self.world.loop.note(f"{self.process.name}: {loop.name} is stuck, the process ends")
                self.world.loop.kill(self.process)
                return
        self.world.loop.after(5.0, self._watch, self.process)

    def cont(self) -> None:
        """SIGCONT. The watchdog sees the gap in its own rounds, and gives every loop the time that nobody had."""
        process, loop = self.process, self.world.loop
        if loop.now_s - process.stopped_at_s > STOPPED_MAX_S:
            loop.kill(process)
            return
        for each in self.loops:
            each.beaten_at_s = loop.now_s
        loop.cont(process)

    def stop(self) -> None:
        """SIGTERM: leadership first, then the agent; shims go on."""
        self._in_order = True

        def in_order() -> None:
            if self.contender is not None:
                self.contender.stop(20.0)
            if self.agent is not None:
                self.agent.stop()
            self.world.loop.sleep(1.0)
            self.world.loop.kill(self.process)

        self.world.loop.spawn(in_order, self.process, "stop")

    def _died(self) -> None:
        """Systemd starts it again; the session closer closes its sessions."""
        world = self.world
        self.host.supervisor_ended(self)
        charges = [session for sessions in self.charges.values() for session in sessions]
        if not charges or self._in_order or not self.host.up:
            return
        session_closer = world.process(f"session closer {self.host.name}", self.host)

        def close(session: Session) -> None:
            try:
                zookeeper.close_session("sim", session.id, session.password, 10.0)
            except SupervisorError:
                pass

        for session in charges:
            world.loop.spawn(lambda session=session: close(session), session_closer, "session closer")  # type: ignore[misc]
        world.loop.after(30.0, lambda: world.loop.kill(session_closer))

    def _failed(self, what: str, error: BaseException) -> None:
        if isinstance(error, Exception):
            self.world.judge.defect(f"loop {what}: {error!r}")

    def _guarded(self, name: str, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:
            self._failed(name, error)

    # -- its parts -------------------------------------------------------------------------------------------------

    def _connect(self, on_link: Callable[[Link], None]) -> SimClient:
        timeout_s = self.world.plan.session_s
        return SimClient(
            self.world.net, "sim", timeout_s, on_link=on_link, request_timeout_s=min(5.0, timeout_s / 2)
        )

    def _found(self) -> Cluster:
        found: list[Cluster] = []

        def attempt() -> None:
            client = self._connect(lambda _link: None)
            client.start()
            try:
                client.wait_connected(10.0)
                try:
                    found.append(
                        bootstrap_or_check(client, self.world.layout, self._blobs, self.world.identity)
                    )
                except (Unreachable, AccessDenied):
                    known = check_known(client, self.world.layout, self.world.identity)
                    if known is None:
                        raise
                    found.append(known)
            finally:
                client.close()

        stopping = self.world.namespaces.threading.Event()
        wait_for("the cluster", attempt, stopping)
        return found[0]

    def _contender(self, leader: Leader) -> Contender[Any]:
        world = self.world

        def close(session: Session) -> None:
            zookeeper.close_session("sim", session.id, session.password, min(3.0, session.timeout_s))

        def tell(sessions: tuple[Session, ...]) -> None:
            self.charges["term"] = sessions

        beats: list[SimLoop] = []

        def beat() -> None:
            if not beats:
                beats.append(SimLoop(self, "contender"))
            beats[0].beat()

        return Contender(
            Candidate(self.host.name, ""),
            ElectionRegistry(world.layout, EpochMarks(world.store), self._trust),
            SessionFactory(cast(Any, self._connect), close, tell),
            Duties(cast(Any, leader.begin), cast(Any, leader.step_down), lambda _term: leader.wake(), beat),
        )

    def _publish_agent_session(self, session: Session | None) -> None:
        self.charges["agent"] = (session,) if session is not None else ()

    def _controller(self, term: Term[Any]) -> Controller:
        recorder = SimRecorder(self.world)
        policy = Policy(claim_timeout_s=self.world.plan.claim_timeout_s)
        loop = SimLoop(self, f"controller-{term.epoch}")
        return Controller(term, self.world.layout, policy, cast(Any, recorder), cast(Any, loop))

    def _sweeper(self, term: Term[Any], controller: Controller) -> Sweeper:
        def paused() -> bool:
            return controller.view is not None and controller.view.paused

        store = self.world.store
        return Sweeper(
            term,
            self.world.layout,
            controller.executor,
            BlobSweeper(store, clock=self.world.boottime_s),
            EpochMarks(store),
            paused=paused,
            first_after_s=self.world.plan.sweep_s,
            every_s=self.world.plan.sweep_s,
        )
