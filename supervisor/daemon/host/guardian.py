"""Is the third killer (protocol §7.4): the supervisor guards the attempts of its host, and writes their
tombstones.

The guardian lists ``<runtime_dir>/attempts``, holds a pidfd per shim, and does for each what
``guarded_attempt.step`` decides: it kills at once when a shim is dead, else at deadline − p; writes the
tombstone of what is proven dead; and removes the run directory. Adoption is nothing special: a supervisor
that starts finds the shims of its predecessor here (I6). A prepared driver is guarded by its own directory, before and after
an attempt was handed to it; the name of the attempt, a link, is not.

A loop of the daemon drives it: it calls ``tick`` whenever one of ``fds`` is readable, and after the seconds
that the last ``tick`` returned. The guardian decides nothing, never starts anything, never renews, never
blocks on ZooKeeper (one asynchronous request per attempt), and touches no run directory of another
supervisor, and nothing whose name is neither that of an attempt nor that of a prepared driver.
"""

from __future__ import annotations

import os
import queue
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from supervisor.clients import processes, run_dir
from supervisor.clients.containment import CgroupContainment, Containment, ScanContainment
from supervisor.clients.processes import ProcessId
from supervisor.clients.run_dir import Readiness, ShimRecord
from supervisor.clients.second_killer import strike
from supervisor.clients.spawn import reap_finished
from supervisor.clients.zookeeper import Committed, Reads, ZooClient
from supervisor.clock import wall_iso
from supervisor.daemon.host.guarded_attempt import (
    CommitTombstone,
    CommitUnanswered,
    DirectoryRead,
    Effect,
    Event,
    GuardedAttempt,
    GuardStage,
    GuardTick,
    HandedRead,
    LogGuard,
    OwnershipRead,
    ReadOwn,
    Remove,
    Stranger,
    Strike,
    TombstoneWritten,
    next_wake_at_s,
    step,
)
from supervisor.daemon.host.hosted_attempts import read_handed, read_launch
from supervisor.daemon.host.housekeeping import ENDED, put_aside
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import Corrupt, NotSent, SupervisorError
from supervisor.model.launch import Launch
from supervisor.model.lease_terms import SECOND_KILLER_PERIOD_S
from supervisor.model.records import Ownership
from supervisor.model.second_killer import KillerProbe
from supervisor.records.layout import Layout, about_key, is_attempt, is_prepared
from supervisor.records.reading import seen

log = structlog.get_logger(__name__)

_SLICE_S = 0.05


@dataclass
class GuardedProcess:
    """Holds a guarded attempt and what is kept open for it. ``tree`` is None if there was no shim so far, or
    if the shim could not be watched yet."""

    directory: str
    guarded_attempt: GuardedAttempt
    pidfd: int | None = None
    tree: Containment | None = None
    logged: str = ""

    @property
    def about(self) -> dict[str, Any]:
        """Returns the fields by which a line of the log names the attempt. The job is not known before its
        launch file was read."""
        launch = self.guarded_attempt.launch
        if launch is None:
            return about_key(self.guarded_attempt.key)
        return {"job": launch.assignment.name, **about_key(self.key)}

    @property
    def key(self) -> str:
        """Returns ``<uid>.<attempt>``, or the name of a prepared driver as long as it is not known which attempt was
        handed to it."""
        launch = self.guarded_attempt.launch
        if launch is None or launch.waits_for_assignment:
            return self.guarded_attempt.key
        return f"{launch.assignment.uid}.{launch.assignment.attempt}"


class Guardian:
    """Guards the attempts of this host. ``client`` returns the registry's client as it is now, or None while
    there is none. ``supervisor`` is the id of this supervisor.

    ``on_kill`` is called for each driver tree that was killed here, with the killer (shim, twin or guardian)
    and the seconds that it took. ``on_unused`` is called for each prepared driver that is gone and had no
    attempt, with its key and with what it said of itself. ``on_gone`` is called with the launch of each directory of an
    attempt that is removed; that proves nothing of the attempt. None of them blocks or raises.
    """

    def __init__(
        self,
        attempts_dir: Path | str,
        supervisor: str,
        layout: Layout,
        client: Callable[[], ZooClient | None],
        on_kill: Callable[[str, float], None] = lambda _killer, _seconds: None,
        on_unused: Callable[[str, Readiness | None], None] = lambda _key, _readiness: None,
        on_gone: Callable[[Launch], None] = lambda _launch: None,
    ) -> None:
        self._on_gone = on_gone
        self._on_kill = on_kill
        self._on_unused = on_unused
        self._attempts_dir = str(attempts_dir)
        self._supervisor = supervisor
        self._layout = layout
        self._client = client
        self._watched: dict[str, GuardedProcess] = {}
        self._boot_id = processes.boot_id()
        self._boundary = ErrorBoundary("guardian")
        self._answers: queue.SimpleQueue[tuple[str, Reads | Committed | SupervisorError]] = (
            queue.SimpleQueue()
        )
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    # -- for the daemon ------------------------------------------------------------------------------------------------

    def fds(self) -> list[int]:
        """Returns descriptors that become readable when there is something to do: shims that ended, answers
        of ZooKeeper."""
        return [
            self._wake,
            *(
                watched.pidfd
                for watched in self._watched.values()
                if watched.pidfd is not None and watched.guarded_attempt.stage is GuardStage.WATCHED
            ),
        ]

    def keys(self) -> frozenset[str]:
        """Returns the names of all run directories as of the last tick: ``<uid>.<attempt>``, ``<uid>.p<random>``."""
        return frozenset(self._watched)

    def guarded_attempts(self) -> tuple[GuardedAttempt, ...]:
        """Returns the guarded attempts, for display."""
        return tuple(watched.guarded_attempt for watched in self._watched.values())

    def tick(self, now_s: float) -> float:
        """Does what is due. Returns the seconds after which it wants to be called again (at most p)."""
        self._take_answers(now_s)
        self._list_run_dirs(now_s)
        reap_finished()
        for watched in list(self._watched.values()):
            try:
                self._attend(watched, now_s)
            except (
                OSError
            ) as error:  # no descriptor, no memory: this one again at the next tick, the others now
                if watched.logged != str(error):
                    log.warning(
                        "guardian_failed",
                        **watched.about,
                        stage=watched.guarded_attempt.stage.value,
                        why=str(error),
                    )
                watched.logged = str(error)
            except Exception as error:  # noqa: BLE001 - as above: the others need their killer
                self._boundary.log_error(watched.guarded_attempt.key, error)
        killing = any(
            guarded_attempt.stage is GuardStage.KILLING for guarded_attempt in self.guarded_attempts()
        )
        wakes = [
            max(0.0, at_s - now_s)
            for at_s in map(next_wake_at_s, self.guarded_attempts())
            if at_s is not None
        ]
        return min([SECOND_KILLER_PERIOD_S, *([_SLICE_S / 5] if killing else []), *wakes])

    def close(self) -> None:
        """Closes everything that is held; the shims go on."""
        for watched in self._watched.values():
            self._forget(watched)
        self._watched.clear()
        os.close(self._wake)

    # -- the run directories ----------------------------------------------------------------------------------------------

    def _list_run_dirs(self, now_s: float) -> None:
        directories = run_dir.directories(self._attempts_dir)
        names = {name for name in directories if is_attempt(name) or is_prepared(name)}
        for name in names - self._watched.keys():
            guarded_attempt = GuardedAttempt(name, self._supervisor, self._boot_id, self._layout, now_s)
            self._watched[name] = GuardedProcess(f"{self._attempts_dir}/{name}", guarded_attempt)
        for name in self._watched.keys() - names:
            self._forget(self._watched.pop(name))

    def _forget(self, watched: GuardedProcess) -> None:
        if watched.pidfd is not None:
            os.close(watched.pidfd)
            watched.pidfd = None

    def _attend(self, watched: GuardedProcess, now_s: float) -> None:
        """Moves the attempt on to the next stages, as far as it goes now."""
        stage = None
        while stage is not watched.guarded_attempt.stage:
            stage = watched.guarded_attempt.stage
            self._feed(watched, self._perceive(watched), now_s)

    def _feed(self, watched: GuardedProcess, event: Event, now_s: float) -> None:
        watched.guarded_attempt, effects = step(watched.guarded_attempt, event, now_s)
        if watched.guarded_attempt.stage in (GuardStage.TAKEN, GuardStage.BURYING, GuardStage.REMOVING):
            self._forget(watched)
        for effect in effects:
            self._carry_out(watched, effect, now_s)

    # -- what is there -------------------------------------------------------------------------------------------------

    def _perceive(self, watched: GuardedProcess) -> Event:
        match watched.guarded_attempt.stage:
            case GuardStage.UNBORN:
                launch = watched.guarded_attempt.launch or self._read_launch(watched)
                return DirectoryRead(launch, run_dir.read_process(f"{watched.directory}/{run_dir.SHIM}"))
            case GuardStage.WATCHED:
                return self._probe(watched)
            case GuardStage.TAKEN:
                return self._read_handed(watched)
            case _:
                return GuardTick(self._client() is not None)

    def _read_launch(self, watched: GuardedProcess) -> Launch | None:
        try:
            return read_launch(watched.directory, watched.guarded_attempt.key)
        except Corrupt as error:
            if watched.logged != str(error):
                log.error("launch_file_corrupt", **watched.about, why=str(error))
            watched.logged = str(error)
            return None

    def _read_handed(self, watched: GuardedProcess) -> HandedRead:
        try:
            return HandedRead(read_handed(watched.directory, watched.guarded_attempt.key))
        except Corrupt as error:
            return HandedRead(None, str(error))

    def _tree(self, watched: GuardedProcess, shim: ShimRecord) -> Containment:
        launch = watched.guarded_attempt.launch
        if launch is not None and launch.cgroup is not None:
            return CgroupContainment(launch.cgroup)

        def root() -> ProcessId | None:
            record = run_dir.read_process(f"{watched.directory}/{run_dir.DRIVER}")
            return None if record is None else record.process

        return ScanContainment(shim.claim, root)

    def _probe(self, watched: GuardedProcess) -> KillerProbe | Stranger:
        if watched.tree is None:
            assert watched.guarded_attempt.shim is not None
            # no descriptor left is no proof that it is dead
            pidfd = processes.open_pidfd(watched.guarded_attempt.shim.process)
            try:
                if (
                    pidfd is not None
                    and run_dir.is_deserted(watched.directory)
                    and not processes.wait_dead(pidfd, 0.0)
                ):
                    return Stranger()
                watched.tree = self._tree(watched, watched.guarded_attempt.shim)
                watched.pidfd, pidfd = pidfd, None
            finally:
                if pidfd is not None:
                    os.close(pidfd)
        dead = watched.pidfd is None or processes.wait_dead(watched.pidfd, 0.0)
        try:
            return KillerProbe(dead, run_dir.read_deadline(watched.directory))
        except (OSError, ValueError):
            return KillerProbe(dead, None, readable=False)

    # -- what is done --------------------------------------------------------------------------------------------------

    def _carry_out(self, watched: GuardedProcess, effect: Effect, now_s: float) -> None:
        match effect:
            case Strike(act):
                assert watched.tree is not None
                self._feed(watched, strike(act, watched.pidfd, watched.tree, _SLICE_S), now_s)
            case ReadOwn() | CommitTombstone():
                self._ask(watched, effect)
            case Remove():
                self._remove(watched)
            case LogGuard(event, level, fields):
                getattr(log, level)(event, **watched.about, **dict(fields))

    def _ask(self, watched: GuardedProcess, request: ReadOwn | CommitTombstone) -> None:
        client, key = self._client(), watched.guarded_attempt.key
        if client is None:
            self._answered(key, NotSent("no client"))
        elif isinstance(request, CommitTombstone):
            client.commit_async(request.transaction, partial(self._answered, key))
        else:
            client.read_many_async((self._own_path(watched.guarded_attempt),), partial(self._answered, key))

    def _answered(self, key: str, answer: Reads | Committed | SupervisorError) -> None:
        """Queues an answer; it runs in the connection thread of the client."""
        self._answers.put((key, answer))
        try:
            os.eventfd_write(self._wake, 1)
        except OSError:  # closed meanwhile, or full
            pass

    def _take_answers(self, now_s: float) -> None:
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            pass
        while not self._answers.empty():
            key, answer = self._answers.get()
            watched = self._watched.get(key)
            if watched is not None and watched.guarded_attempt.asking:
                self._boundary.attempt(
                    key, partial(self._take_answer, watched, answer, now_s), None, (OSError,)
                )

    def _take_answer(
        self, watched: GuardedProcess, answer: Reads | Committed | SupervisorError, now_s: float
    ) -> None:
        self._feed(watched, self._event(watched, answer), now_s)

    def _event(self, watched: GuardedProcess, answer: Reads | Committed | SupervisorError) -> Event:
        if isinstance(answer, Committed):
            return TombstoneWritten()
        if not isinstance(answer, Reads):
            return CommitUnanswered()
        driver = run_dir.read_process(f"{watched.directory}/{run_dir.DRIVER}")
        began_at_s = None if driver is None else processes.started_at_s(driver.process)
        return OwnershipRead(
            seen(Ownership, answer.nodes[0], self._own_path(watched.guarded_attempt)), began_at_s, wall_iso()
        )

    def _own_path(self, guarded_attempt: GuardedAttempt) -> str:
        assert guarded_attempt.launch is not None
        return self._layout.own(guarded_attempt.launch.assignment.name)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _remove(self, watched: GuardedProcess) -> None:
        """Removes the run directory. It is tried again at each tick, because the twin may still live there
        for a moment and must see its files.

        Once the directory is gone it is forgotten: one of the same name at the next tick is the next shim's.
        """
        shim = watched.guarded_attempt.shim
        if shim is None:
            removed = run_dir.remove(watched.directory)
            if removed:
                log.info("run_dir_removed", **watched.about, why="no shim was ever started")
        else:
            (watched.tree or self._tree(watched, shim)).remove()
            removed = run_dir.remove(watched.directory, partial(self._last_probe, watched))
        if removed:
            self._forget(watched)
            self._watched.pop(watched.guarded_attempt.key, None)

    def _last_probe(self, watched: GuardedProcess) -> None:
        """Keeps the log of a directory where nobody lives any more, and counts its kills. If either fails,
        the directory is removed all the same."""
        kills, killer = run_dir.read_kills(watched.directory), watched.guarded_attempt.killer
        if killer.deadline_at_s is not None and not any(by == "twin" for by, _ in kills):
            # a driver was to be killed, and no twin was left to do it
            kills.append(("guardian", killer.took_s))
        for by, seconds in kills:
            self._on_kill(by, seconds)
        launch = self._of_end(watched)
        if launch is not None and not launch.waits_for_assignment:
            self._on_gone(launch)
        shim_log = Path(watched.directory) / run_dir.SHIM_LOG
        try:
            found = shim_log.lstat()
            if launch is not None and stat.S_ISREG(found.st_mode) and found.st_size:
                put_aside(
                    shim_log,
                    Path(self._attempts_dir).parent / ENDED,
                    launch.assignment.name,
                    watched.key,
                )
        except OSError as error:
            log.info("shim_log_lost", **watched.about, why=str(error))

    def _of_end(self, watched: GuardedProcess) -> Launch | None:
        """Returns the launch by which the directory is to be known. That of a prepared driver which the guardian had
        not to kill was not read yet."""
        launch, key = watched.guarded_attempt.launch, watched.guarded_attempt.key
        if launch is None or not launch.waits_for_assignment:
            return launch
        handed = self._read_handed(watched)
        if handed.launch is not None:
            watched.guarded_attempt = replace(watched.guarded_attempt, launch=handed.launch)
        elif not handed.why:
            self._on_unused(key, run_dir.read_readiness(watched.directory))
        return watched.guarded_attempt.launch
