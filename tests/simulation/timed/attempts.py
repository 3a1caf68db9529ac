"""One attempt on a simulated host: run directory, shim, twin, driver tree; and the host's guardian.

Real are ``shim.machine``, ``shim.link``, ``model.second_killer`` and ``daemon.ward``. This file is to them what processes,
signals, pipes and files are in production: it carries their effects out, each with its delay, and tells what came of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from supervisor.clients.processes import ProcessId
from supervisor.clients.run_dir import ShimRecord
from supervisor.clients.zookeeper import Committed, Reads
from supervisor.daemon import ward as warding
from supervisor.daemon.ward import Ward, WardStage
from supervisor.model import second_killer
from supervisor.model.emptiness import Emptiness
from supervisor.model.launch import Launch
from supervisor.model.lease_terms import KILL_TIME_S, SECOND_KILLER_PERIOD_S
from supervisor.model.records import Ownership
from supervisor.model.second_killer import Act, Looked, SecondKiller, ShimStruck, TreeStruck
from supervisor.registry.reading import seen
from supervisor.shim import link as links
from supervisor.shim import machine
from supervisor.shim import state as shim
from supervisor.shim.state import Now, ShimState, Stage
from tests.simulation.timed.loop import Process

if TYPE_CHECKING:
    from tests.simulation.timed.hosts import Host
    from tests.simulation.timed.world import World

KILL_SLICE_S = 0.2
GUARDIAN_SLICE_S = 0.05


@dataclass(eq=False)
class Attempt:
    """A run directory and who lives there. ``deadline_s``: what the deadline file says, by the host's clock.

    ``decided_s``: true time when the agent had found nothing against starting it.
    """

    world: World
    host: Host
    key: str
    launch: Launch
    boot_id: str
    decided_s: float
    claim: str = ""
    record: ShimRecord | None = None
    shim: Process | None = None
    runner: Runner | None = None
    twin: Twin | None = None
    starter_alive: bool = False
    driver: Driver | None = None
    deadline_s: float | None = None

    def start_shim(self) -> None:
        """Fork and exec of the shim; then its twin, its starter, and only then the rest of it."""
        world = self.world
        self.shim = world.process(f"shim {self.key}", self.host)
        self.claim = f"{world.random.getrandbits(64):016x}"

        def record() -> None:
            self.record = ShimRecord(ProcessId(world.new_pid(), 1, self.boot_id), self.claim)
            self.twin = Twin(self)
            self.starter_alive = True

        def run() -> None:
            self.runner = Runner(self)

        assert self.shim is not None
        self.shim.on_death.append(self._shim_died)
        world.loop.after(0.02 + 0.1 * world.random.random(), record, self.shim)
        world.loop.after(0.15 + 0.3 * world.random.random(), run, self.shim)

    def _shim_died(self) -> None:
        if self.driver is None and self.runner is not None and not self.runner.let_go:
            self.starter_alive = False           # the end of its pipe
        if self.twin is not None:
            self.twin.look_soon()
        self.host.shim_died(self)

    @property
    def shim_dead(self) -> bool:
        return self.shim is None or self.shim.dead

    @property
    def nobody_lives(self) -> bool:
        return self.shim_dead and (self.twin is None or self.twin.process.dead)

    def write_deadline(self, deadline_s: float | None) -> None:
        self.deadline_s = deadline_s
        if self.twin is not None:
            self.twin.look_later()
        self.host.deadline_written(self)

    # -- the tree --------------------------------------------------------------------------------------------------

    def kill_tree(self, why: str) -> float:
        """SIGKILL to everything in it. Returns for how many seconds something of it will still be seen."""
        self.starter_alive = False
        return self.driver.kill(why) if self.driver is not None else 0.0

    def emptiness(self, by_shim: bool) -> Emptiness:
        if self.starter_alive or (self.driver is not None and self.driver.alive):
            return Emptiness.POPULATED
        return Emptiness.EMPTY if by_shim or self.host.cgroups else Emptiness.UNPROVABLE

    def exec(self, before_s: float) -> None:
        """The starter looks at its clock once more, and becomes the driver."""
        assert self.runner is not None and self.shim is not None
        if not self.starter_alive:
            return
        if self.host.clock.boottime_s(self.world.loop.now_s) >= before_s:
            self.starter_alive = False
            self.runner.post(shim.ExecLate())
            return
        self.starter_alive = False
        self.driver = Driver(self)
        self.runner.post(shim.Executed())


class Driver:
    """The driver's process tree, as a behaviour drawn from job and attempt. The judge is told of its birth and end."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.world = attempt.world
        entry = attempt.launch.assignment
        self.name, self.uid, self.number = entry.name, entry.uid, entry.attempt
        self.random = self.world.lots("driver", self.name, attempt.key)
        self.alive = True
        self.ended = ""
        self._dies_s: float | None = None
        self._root_alive = True
        self._begun = False
        self._stopping = False
        self._behaviour = self.world.behaviour_of(self.name)
        self.world.judge.executed(self)
        self._live()

    def _live(self) -> None:
        lots, kind = self.random, self._behaviour
        if not self.attempt.launch.reports:
            begun_s = 0.5
        elif kind.hangs and lots.random() < 0.5:
            begun_s = 1e6
        else:
            begun_s = lots.uniform(0.2, 2.0)
        self._after(begun_s, self._begin)
        if kind.crash_mean_s is not None:
            self._after(lots.expovariate(1 / kind.crash_mean_s), self._crash)
        if kind.finishes_s is not None:
            self._after(lots.uniform(0.5, 1.5) * kind.finishes_s, lambda: self.exit(0, "finished"))

    def _crash(self) -> None:
        if not self.world.calm:
            self.exit(1, "crashed")

    def _begin(self) -> None:
        self._begun = True
        self._report("begun")
        self._report("session")
        self._after(0.3, self._progress)

    def _progress(self) -> None:
        if not self._stopping:
            self._report("progress", queries=1)
            self._after(20.0, self._progress)

    def _after(self, seconds: float, what: Callable[[], None]) -> None:
        def still() -> None:
            if self._root_alive:
                what()

        self.world.loop.after(seconds, still)

    def _report(self, event: str, queries: int | None = None) -> None:
        runner = self.attempt.runner
        if runner is not None and self.attempt.launch.reports:
            runner.report(shim.Reported(event, query="q", id="q", queries=queries))

    # -- what is done to it ----------------------------------------------------------------------------------------

    def order_stop(self) -> bool:
        """False: nobody takes orders there."""
        if not (self._root_alive and self._begun and self.attempt.launch.reports):
            return False
        if self._behaviour.deaf:
            return True
        self._stopping = True
        self._after(0.02, lambda: self._report("heard"))
        self._after(0.05, lambda: self._report("stopping", queries=1))
        batch_s = self.random.uniform(0.05, 2.5)
        self._after(batch_s, lambda: self._report("stopped"))
        self._after(batch_s + 0.3, lambda: self.exit(0, "stopped at a batch boundary"))
        return True

    def terminate(self) -> None:
        if not self._behaviour.deaf:
            self._after(self.random.uniform(0.05, 1.5), lambda: self.exit(-15, "SIGTERM"))

    def exit(self, status: int, why: str) -> None:
        """Its root ends. Now and then a child lives on (the Python driver of a killed JVM)."""
        if not self._root_alive:
            return
        self._root_alive = False
        self.ended = self.ended or why
        if not (why != "killed" and self.random.random() < 0.1):
            self._empty()
        if self.attempt.runner is not None:
            self.attempt.runner.driver_ended(status)

    def kill(self, why: str) -> float:
        if not self.alive:
            return 0.0
        loop = self.world.loop
        if self._dies_s is None:
            self.ended = self.ended or why
            took_s = self.random.choice([0.005, 0.02, 0.1, self.random.uniform(0.1, 1.8)])
            self._dies_s = loop.now_s + took_s
            loop.after(took_s, self._killed)
        return self._dies_s - loop.now_s

    def _killed(self) -> None:
        self.exit(-9, "killed")
        self._empty()

    def lose_power(self) -> None:
        self._root_alive = False
        self.ended = self.ended or "its host crashed"
        self._empty()

    def _empty(self) -> None:
        if self.alive:
            self.alive = False
            self.world.judge.tree_empty(self)


class Runner:
    """What ``shim.runner`` is: waits for what happens, asks ``machine.step`` what to do, and does it."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._world = attempt.world
        assert attempt.shim is not None
        self.process = attempt.shim
        layout = self._world.layout
        self.state = ShimState(
            attempt.launch, layout, attempt.claim, self._world.new_pid(), self._world.new_pid(), born_s=self._boot_s(),
        )
        self.let_go = False
        self._posted: deque[shim.Event] = deque()
        self._reported: deque[shim.Event] = deque()
        self._ended: deque[shim.Event] = deque()
        self._turn_due = False
        self._ticks = 0
        self._link = links.RegistryLink(attempt.launch, layout, self.post, lambda *_args, **_more: None)
        self._link.start()
        self._turn()

    def _boot_s(self) -> float:
        return self.process.clock.boottime_s(self._world.loop.now_s)

    # -- what happens ----------------------------------------------------------------------------------------------

    def post(self, event: shim.Event) -> None:
        self._posted.append(event)
        self._soon()

    def report(self, report: shim.Reported) -> None:
        if not self.process.dead:
            self._reported.append(report)
            self._soon()

    def driver_ended(self, status: int) -> None:
        self._ended.append(shim.Exited(status))
        self._soon()

    def _soon(self) -> None:
        if not self._turn_due and not self.process.dead:
            self._turn_due = True
            self._world.loop.after(0.0002, self._turn, self.process)

    def _turn(self) -> None:
        self._turn_due = False
        if self.process.dead:
            return
        for queue in (self._posted, self._reported, self._ended):
            while queue:
                self._feed(queue.popleft())
        self._feed(shim.Tick())
        self._ticks += 1
        number, wait_s = self._ticks, min(SECOND_KILLER_PERIOD_S, max(0.01, machine.next_wake_s(self.state) - self._boot_s()))
        self._world.loop.after(wait_s, lambda: self._turn() if number == self._ticks else None, self.process)

    def _feed(self, event: shim.Event) -> None:
        if self.state.stage is Stage.DONE:
            return
        before = self.state.stage
        wall_s = self.process.clock.wall_s + self._world.loop.now_s
        self.state, effects = machine.step(self.state, event, Now(self._boot_s(), wall_s))
        if self.state.stage is not before:
            self._world.loop.note(f"{self.process.name}: {self.state.stage.value} {self.state.reason}")
        for effect in effects:
            self._perform(effect)

    # -- what is done ----------------------------------------------------------------------------------------------

    def _perform(self, effect: shim.Effect) -> None:
        attempt, loop = self._attempt, self._world.loop
        match effect:
            case shim.Read() | shim.Commit() | shim.NewClient() | shim.CloseSession():
                self._link.submit(effect)
            case shim.WriteDeadline(deadline_s):
                attempt.write_deadline(deadline_s)
            case shim.Exec(before_s):
                self.let_go = True
                lots = self._world.random
                late_s = lots.choice([0.005, 0.05, 0.3]) if lots.random() < 0.97 else lots.uniform(0.0, 40.0)
                loop.after(late_s, lambda: attempt.exec(before_s))
            case shim.Order(order) if order == machine.STOP:
                if attempt.driver is None or not attempt.driver.order_stop():
                    self.post(shim.Unheard(effect))
            case shim.Terminate():
                if attempt.driver is not None:
                    attempt.driver.terminate()
            case shim.Kill():
                why = f"shim: {self.state.cause.value if self.state.cause else 'exited'}: {self.state.reason}"
                left_s = attempt.kill_tree(why)
                loop.after(min(left_s, KILL_SLICE_S) + 0.001, self._tree_seen, self.process)
            case shim.Finish(why):
                loop.note(f"{self.process.name} is done: {why}")
                attempt.kill_tree("the shim ended")
                loop.spawn(self._finish, self.process, "finish")

    def _tree_seen(self) -> None:
        while self._ended:
            self._feed(self._ended.popleft())
        self.post(shim.TreeSeen(self._attempt.emptiness(by_shim=True) is Emptiness.EMPTY))

    def _finish(self) -> None:
        self._link.close(1.0)
        self._world.loop.kill(self.process)


class Twin:
    """What ``shim.twin: watch`` is. A process of its own; it is woken by the shim's death and by the deadline."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._world = attempt.world
        self.process = self._world.process(f"twin {attempt.key}", attempt.host)
        self._killer = SecondKiller()
        self._planned_s = 0.0

    def look_soon(self) -> None:
        self._world.loop.after(0.001 + 0.01 * self._world.random.random(), self._look, self.process)

    def look_later(self) -> None:
        """In time for the deadline that was written, unless a look before it is planned: that one sees the new deadline."""
        deadline_s, loop = self._attempt.deadline_s, self._world.loop
        if deadline_s is None or self._planned_s > loop.now_s:
            return
        clock = self.process.clock
        at_s = deadline_s - SECOND_KILLER_PERIOD_S - clock.boottime_s(loop.now_s)
        wait_s = max(0.0, at_s / clock.rate) + 0.05 * self._world.random.random()
        self._planned_s = loop.now_s + wait_s
        loop.after(wait_s, self._look, self.process)

    def _look(self) -> None:
        attempt, now_s = self._attempt, self.process.clock.boottime_s(self._world.loop.now_s)
        if self._killer.act is not Act.LOOK:
            return
        self._killer = second_killer.step(self._killer, Looked(attempt.shim_dead, attempt.deadline_s), now_s)
        if self._killer.act is Act.LOOK:
            self._planned_s = 0.0
            self.look_later()
        else:
            self._strike()

    def _strike(self) -> None:
        attempt, loop = self._attempt, self._world.loop
        if self._killer.act is Act.KILL_SHIM:
            if not attempt.shim_dead:
                loop.note(f"{self.process.name} kills the shim")
                assert attempt.shim is not None
                loop.kill(attempt.shim)
            loop.after(0.002, lambda: self._struck(ShimStruck(True)), self.process)
        elif self._killer.act is Act.KILL_TREE:
            left_s = attempt.kill_tree("twin")
            took_s = min(left_s, KILL_TIME_S)
            loop.after(took_s + 0.001, lambda: self._struck(TreeStruck(took_s, attempt.emptiness(by_shim=False))), self.process)
        else:
            loop.kill(self.process)

    def _struck(self, blow: ShimStruck | TreeStruck) -> None:
        self._killer = second_killer.step(self._killer, blow, self.process.clock.boottime_s(self._world.loop.now_s))
        self._strike()


@dataclass
class Post:
    attempt: Attempt
    ward: Ward
    striking: bool = False
    planned_s: float = 0.0


class Guardian:
    """What ``daemon.guardian`` is, in the process of a supervisor: every attempt of the host is its ward."""

    def __init__(self, world: World, host: Host, process: Process, client: Callable[[], Any]) -> None:
        self._world = world
        self._host = host
        self._process = process
        self._client = client
        self._posts: dict[str, Post] = {}
        self._tick()

    def _tick(self) -> None:
        """Every p, for all but the plainly watched, who are looked at when their time comes or their shim dies."""
        attempts = self._host.attempts
        for key in [key for key, post in self._posts.items() if attempts.get(key) is not post.attempt]:
            del self._posts[key]
        for key, attempt in list(attempts.items()):
            if key not in self._posts:
                ward = Ward(key, self._host.name, self._host.boot_id, self._world.layout, self._now_s())
                self._posts[key] = Post(attempt, ward)
        for post in list(self._posts.values()):
            if post.ward.stage is not WardStage.WATCHED or post.attempt.shim_dead:
                self._attend(post)
            else:
                self.deadline_written(post.attempt)
        self._world.loop.after(SECOND_KILLER_PERIOD_S, self._tick, self._process)

    def _now_s(self) -> float:
        return self._process.clock.boottime_s(self._world.loop.now_s)

    def shim_died(self, attempt: Attempt) -> None:
        post = self._posts.get(attempt.key)
        if post is not None and post.attempt is attempt:
            self._world.loop.after(0.005, lambda: self._attend(post), self._process)

    def deadline_written(self, attempt: Attempt) -> None:
        post, loop = self._posts.get(attempt.key), self._world.loop
        if post is None or attempt.deadline_s is None or post.planned_s > loop.now_s or post.attempt is not attempt:
            return
        wait_s = max(0.0, attempt.deadline_s - SECOND_KILLER_PERIOD_S - self._now_s()) / self._process.clock.rate
        wait_s += 0.05 * self._world.random.random()
        post.planned_s = loop.now_s + wait_s
        loop.after(wait_s, lambda: self._attend(post), self._process)

    def _attend(self, post: Post) -> None:
        stage = None
        while stage is not post.ward.stage and not post.striking:
            stage = post.ward.stage
            self._feed(post, self._perceive(post))

    def _perceive(self, post: Post) -> warding.Event:
        attempt = post.attempt
        if post.ward.stage is WardStage.UNBORN:
            return warding.DirectoryRead(attempt.launch, attempt.record)
        if post.ward.stage is WardStage.WATCHED:
            return Looked(attempt.shim_dead, attempt.deadline_s)
        return warding.Tick(self._client() is not None)

    def _feed(self, post: Post, event: warding.Event) -> None:
        before = post.ward.stage
        post.ward, effects = warding.step(post.ward, event, self._now_s())
        if post.ward.stage is not before:
            self._world.loop.note(f"guardian of {self._host.name}: {post.ward.key} {post.ward.stage.value}")
        for effect in effects:
            self._carry_out(post, effect)

    def _carry_out(self, post: Post, effect: warding.Effect) -> None:
        match effect:
            case warding.Strike(act):
                self._strike(post, act)
            case warding.ReadOwn():
                path = self._world.layout.own(post.attempt.launch.assignment.name)
                self._client().read_many_async((path,), partial(self._answered, post))
            case warding.Commit(transaction):
                self._client().commit_async(transaction, partial(self._answered, post))
            case warding.Remove():
                if post.attempt.nobody_lives:
                    self._host.attempts.pop(post.attempt.key, None)

    def _strike(self, post: Post, act: Act) -> None:
        attempt, loop = post.attempt, self._world.loop
        post.striking = True
        if act is Act.KILL_SHIM:
            if attempt.shim is not None and not attempt.shim.dead:
                loop.note(f"guardian of {self._host.name} kills {attempt.shim.name}")
                loop.kill(attempt.shim)
            blow: ShimStruck | TreeStruck = ShimStruck(True)
            took_s = 0.002
        else:
            took_s = min(attempt.kill_tree("guardian"), GUARDIAN_SLICE_S)
            blow = TreeStruck(took_s, Emptiness.POPULATED)

        def struck() -> None:
            post.striking = False
            told = blow if isinstance(blow, ShimStruck) else TreeStruck(took_s, attempt.emptiness(by_shim=False))
            self._feed(post, told)

        loop.after(took_s + 0.001, struck, self._process)

    def _answered(self, post: Post, answer: Any) -> None:
        if not post.ward.asking:
            return
        if isinstance(answer, Committed):
            self._feed(post, warding.Buried())
        elif isinstance(answer, Reads):
            path = self._world.layout.own(post.attempt.launch.assignment.name)
            self._feed(post, warding.OwnRead(seen(Ownership, answer.nodes[0], path), None, "t"))
        else:
            self._feed(post, warding.Unanswered())
