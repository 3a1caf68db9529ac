"""Does what the plan says goes wrong, undoes it when its time is over, and tells the judge whom it has harmed.

What SAFETY.md assumes is left intact: of the three killers of an attempt (shim, twin, guardian) at least one works, a tree dies
within K, clocks keep their rate. A host that crashes takes everything with it at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.timed.attempts import Attempt
from tests.simulation.timed.ensemble import Snapshot
from tests.simulation.timed.hosts import SimulatedHost
from tests.simulation.timed.network import DOWN, UP
from tests.simulation.timed.scenario import Fault, Trouble

if TYPE_CHECKING:
    from tests.simulation.timed.world import TimedWorld

WAYS = ((UP, DOWN), (UP, DOWN), (UP,), (DOWN,))
SNAPSHOT_EVERY_S = 5.0


class Nemesis:
    """``guarded``: hosts whose supervisor must not be harmed now, since the twin of an attempt there is."""

    def __init__(self, world: TimedWorld) -> None:
        self._world = world
        self._undo: dict[int, Callable[[], None]] = {}
        self._count = 0
        self._snapshots: list[tuple[float, Snapshot]] = []
        self._guarded: dict[SimulatedHost, int] = {}
        self._do: dict[Fault, Callable[[Trouble], Callable[[], None] | None]] = {
            Fault.PAUSE_SUPERVISOR: self._pause_supervisor,
            Fault.CRASH_SUPERVISOR: self._crash_supervisor,
            Fault.RESTART_SUPERVISOR: self._restart_supervisor,
            Fault.PAUSE_SHIM: self._pause_shim,
            Fault.CRASH_SHIM: self._crash_shim,
            Fault.PAUSE_TWIN: self._pause_twin,
            Fault.CRASH_TWIN: self._crash_twin,
            Fault.CRASH_HOST: self._crash_host,
            Fault.CUT_SUPERVISOR: self._cut_supervisor,
            Fault.CUT_SHIM: self._cut_shim,
            Fault.CUT_HOST: self._cut_host,
            Fault.LATE: self._late,
            Fault.SPOIL: self._spoil,
            Fault.SERVER_DOWN: self._server_down,
            Fault.LEADER_DOWN: self._leader_down,
            Fault.SERVER_CUT: self._server_cut,
            Fault.QUORUM: self._quorum,
            Fault.LAG: self._lag,
            Fault.RESTORE: self._restore,
            Fault.STORE_DOWN: self._store_down,
            Fault.STORE_LATE: self._store_late,
            Fault.WALL: self._wall,
            Fault.KILL_DRIVER: self._kill_driver,
        }
        world.loop.after(SNAPSHOT_EVERY_S, self._snapshot)

    def strike(self, trouble: Trouble) -> None:
        """Begin one fault, and plan its end."""
        undo = self._do[trouble.fault](trouble)
        if undo is None:
            return
        world = self._world
        world.judge.faults[trouble.fault.value] += 1
        world.loop.note(f"FAULT {trouble}")
        self._count += 1
        number = self._count
        self._undo[number] = undo

        def over() -> None:
            what = self._undo.pop(number, None)
            if what is not None:
                world.loop.note(f"over: {trouble.fault.value} ({trouble.who}, {trouble.which})")
                what()

        world.loop.after(trouble.for_s, over)

    def end(self) -> None:
        """Every fault is over now."""
        for number in list(self._undo):
            self._undo.pop(number)()

    def _harmed(self, victim: str, for_s: float) -> None:
        now_s = self._world.loop.now_s
        self._world.judge.trouble.setdefault(victim, []).append((now_s, now_s + for_s + 1.0))

    # -- victims ---------------------------------------------------------------------------------------------------

    def _host(self, trouble: Trouble) -> SimulatedHost | None:
        up = [host for host in self._world.hosts if host.up]
        return up[trouble.who % len(up)] if up else None

    def _supervised(self, trouble: Trouble) -> SimulatedHost | None:
        hosts = [
            host
            for host in self._world.hosts
            if host.up and host.supervisor is not None and not self._guarded.get(host)
        ]
        leaders = [host for host in hosts if host.name == self._world.leader_name()]
        if leaders and trouble.which % 2:
            return leaders[0]
        return hosts[trouble.who % len(hosts)] if hosts else None

    def _attempt(self, trouble: Trouble) -> Attempt | None:
        alive = [
            attempt
            for host in self._world.hosts
            for attempt in host.attempts.values()
            if not attempt.shim_dead
        ]
        return alive[trouble.who % len(alive)] if alive else None

    # -- supervisors -----------------------------------------------------------------------------------------------

    def _pause_supervisor(self, trouble: Trouble) -> Callable[[], None] | None:
        host = self._supervised(trouble)
        if host is None or host.supervisor is None or host.supervisor.process.stopped:
            return None
        supervisor = host.supervisor
        self._world.loop.stop(supervisor.process)
        return supervisor.cont

    def _crash_supervisor(self, trouble: Trouble) -> Callable[[], None] | None:
        host = self._supervised(trouble)
        if host is None or host.supervisor is None:
            return None
        host.down += 1
        self._world.loop.kill(host.supervisor.process)

        def start() -> None:
            host.down -= 1
            host.start_supervisor()

        return start

    def _restart_supervisor(self, trouble: Trouble) -> Callable[[], None] | None:
        host = self._supervised(trouble)
        if host is None or host.supervisor is None or host.supervisor.process.stopped:
            return None
        host.supervisor.stop()
        return lambda: None

    # -- attempts --------------------------------------------------------------------------------------------------

    def _pause_shim(self, trouble: Trouble) -> Callable[[], None] | None:
        attempt = self._attempt(trouble)
        if attempt is None or attempt.shim is None:
            return None
        shim = attempt.shim
        self._harmed(attempt.key, trouble.for_s)
        self._world.loop.stop(shim)
        return lambda: self._world.loop.cont(shim)

    def _crash_shim(self, trouble: Trouble) -> Callable[[], None] | None:
        attempt = self._attempt(trouble)
        if attempt is None or attempt.shim is None:
            return None
        self._harmed(attempt.key, trouble.for_s + 30.0)
        self._world.loop.kill(attempt.shim)
        return lambda: None

    def _is_watched(self, attempt: Attempt) -> bool:
        """The guardian works, so the twin may be harmed."""
        supervisor = attempt.host.supervisor
        return supervisor is not None and supervisor.agent is not None and not supervisor.process.stopped

    def _pause_twin(self, trouble: Trouble) -> Callable[[], None] | None:
        attempt = self._attempt(trouble)
        if attempt is None or attempt.twin is None or not self._is_watched(attempt):
            return None
        twin, host = attempt.twin.process, attempt.host
        self._guarded[host] = self._guarded.get(host, 0) + 1
        self._world.loop.stop(twin)

        def cont() -> None:
            self._guarded[host] -= 1
            self._world.loop.cont(twin)

        return cont

    def _crash_twin(self, trouble: Trouble) -> Callable[[], None] | None:
        attempt = self._attempt(trouble)
        if attempt is None or attempt.twin is None or not self._is_watched(attempt):
            return None
        host = attempt.host
        self._guarded[host] = self._guarded.get(host, 0) + 1
        self._world.loop.kill(attempt.twin.process)

        def later() -> None:
            if host.attempts.get(attempt.key) is attempt and not attempt.shim_dead:
                self._world.loop.after(1.0, later)
            else:
                self._guarded[host] -= 1

        self._world.loop.after(1.0, later)
        return lambda: None

    def _kill_driver(self, trouble: Trouble) -> Callable[[], None] | None:
        attempt = self._attempt(trouble)
        if attempt is None or attempt.driver is None:
            return None
        attempt.driver.exit(-9, "killed by a stranger")
        return lambda: None

    # -- hosts and network -----------------------------------------------------------------------------------------

    def _crash_host(self, trouble: Trouble) -> Callable[[], None] | None:
        host = self._host(trouble)
        if host is None:
            return None
        self._harmed(host.name, trouble.for_s)
        host.crash()
        return host.boot

    def _cut(self, cable: str, trouble: Trouble) -> Callable[[], None]:
        world = self._world
        servers = world.ensemble.servers
        number = (len(servers), len(servers) - 1, 1)[trouble.which % 3]
        first = trouble.who % len(servers)
        cut = [servers[(first + n) % len(servers)].number for n in range(number)]
        ways = WAYS[trouble.which % len(WAYS)]
        cuts = world.net.cable(cable).cuts
        for server in cut:
            for way in ways:
                cuts[server, way] += 1

        def repair() -> None:
            for server in cut:
                for way in ways:
                    cuts[server, way] -= 1
            world.net.repaired()

        return repair

    def _cut_supervisor(self, trouble: Trouble) -> Callable[[], None] | None:
        host = self._supervised(trouble)
        if host is None or host.supervisor is None:
            return None
        return self._cut(host.supervisor.process.name, trouble)

    def _cut_shim(self, trouble: Trouble) -> Callable[[], None] | None:
        attempt = self._attempt(trouble)
        if attempt is None or attempt.shim is None:
            return None
        self._harmed(attempt.key, trouble.for_s)
        return self._cut(attempt.shim.name, trouble)

    def _cut_host(self, trouble: Trouble) -> Callable[[], None] | None:
        host = self._host(trouble)
        if host is None:
            return None
        self._harmed(host.name, trouble.for_s)
        return self._cut(host.name, trouble)

    def _late(self, trouble: Trouble) -> Callable[[], None] | None:
        host = self._host(trouble)
        if host is None:
            return None
        cable, late_s = self._world.net.cable(host.name), (0.05, 0.5, 2.0, 4.0)[trouble.which % 4]
        self._harmed(host.name, trouble.for_s + late_s)
        cable.late_s += late_s

        def over() -> None:
            cable.late_s = max(0.0, cable.late_s - late_s)

        return over

    def _spoil(self, trouble: Trouble) -> Callable[[], None] | None:
        host = self._host(trouble)
        if host is None:
            return None
        cable = self._world.net.cable(host.name)
        self._harmed(host.name, trouble.for_s)
        cable.spoils = (0.1, 0.3, 0.7)[trouble.which % 3]

        def over() -> None:
            cable.spoils = 0.0

        return over

    # -- ZooKeeper -------------------------------------------------------------------------------------------------

    def _server_down(self, trouble: Trouble) -> Callable[[], None] | None:
        ensemble = self._world.ensemble
        server = ensemble.servers[trouble.who % len(ensemble.servers)]
        if not server.up:
            return None
        ensemble.take_down(server)
        return lambda: ensemble.bring_up(server)

    def _leader_down(self, _trouble: Trouble) -> Callable[[], None] | None:
        ensemble, server = self._world.ensemble, self._world.ensemble.leader
        if not server.up:
            return None
        ensemble.take_down(server)
        return lambda: ensemble.bring_up(server)

    def _server_cut(self, trouble: Trouble) -> Callable[[], None] | None:
        ensemble = self._world.ensemble
        server = ensemble.servers[trouble.who % len(ensemble.servers)]
        if server.cut or not server.up:
            return None
        ensemble.cut_off(server)
        self._harmed("follower cut", trouble.for_s)
        return lambda: ensemble.repair(server)

    def _quorum(self, trouble: Trouble) -> Callable[[], None] | None:
        ensemble = self._world.ensemble
        down = [server for server in ensemble.servers if server.up][: len(ensemble.servers) // 2 + 1]
        self._harmed("all", trouble.for_s)
        for server in down:
            ensemble.take_down(server)

        def heal() -> None:
            for server in down:
                ensemble.bring_up(server)

        return heal

    def _lag(self, trouble: Trouble) -> Callable[[], None] | None:
        ensemble = self._world.ensemble
        server = ensemble.servers[trouble.who % len(ensemble.servers)]
        ensemble.set_lag(server, (0.1, 0.5, 1.5, 3.0)[trouble.which % 4])
        self._harmed("all", trouble.for_s)
        return lambda: ensemble.set_lag(server, 0.002)

    def _snapshot(self) -> None:
        world = self._world
        if any(trouble.fault is Fault.RESTORE for trouble in world.plan.troubles):
            node = world.ensemble.tree.read(world.layout.doorbell)
            if node is not None:
                self._snapshots.append((world.loop.now_s, world.ensemble.take_snapshot(node.stat.version)))
            world.loop.after(SNAPSHOT_EVERY_S, self._snapshot)

    def _restore(self, trouble: Trouble) -> Callable[[], None] | None:
        """Some time later the operator looks, and accepts what he got if anybody distrusts it."""
        world = self._world
        if not self._snapshots or world.judge.restored_at_s is not None:
            return None
        at_s, snapshot = self._snapshots[trouble.who % len(self._snapshots)]
        node = world.ensemble.tree.read(world.layout.doorbell)
        lost = node is not None and node.stat.version > snapshot.doorbell_version
        self._harmed("all", trouble.for_s + 60.0)
        world.judge.restored(at_s, snapshot.doorbell_version, lost)
        world.ensemble.restore(snapshot, higher=bool(trouble.which % 2))
        self._snapshots.clear()
        return world.users.handle_alarms

    # -- store, clocks ---------------------------------------------------------------------------------------------

    def _store_down(self, _trouble: Trouble) -> Callable[[], None] | None:
        store = self._world.store
        store.down += 1

        def up() -> None:
            store.down -= 1

        return up

    def _store_late(self, trouble: Trouble) -> Callable[[], None] | None:
        store, late_s = self._world.store, (0.5, 3.0, 9.0)[trouble.which % 3]
        store.late_s += late_s

        def over() -> None:
            store.late_s = max(0.0, store.late_s - late_s)

        return over

    def _wall(self, trouble: Trouble) -> Callable[[], None] | None:
        host = self._host(trouble)
        if host is None:
            return None
        host.clock.wall_s += (-3600.0, 3600.0, -3e8, 3e8)[trouble.which % 4]
        return lambda: None
