"""Lists what this host runs, by its run directories: attempts, and drivers that are prepared for one.

An attempt has a run directory ``<uid>.<attempt>`` of its own, or, if it was handed to a prepared driver, a link of that name
to the directory ``<uid>.p<random>`` of the latter. A prepared driver that no attempt was handed to is no attempt: it is
listed by ``prepared`` alone, and occupies nothing that a start may need.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from supervisor.clients import processes, run_dir
from supervisor.clients.emptying import remove
from supervisor.daemon.host.leftovers import Leftovers
from supervisor.errors import Corrupt
from supervisor.model.host_directories import LEFTOVERS, StateDirectory, default_state_dir
from supervisor.model.launch import NO_ATTEMPT, Launch
from supervisor.model.records import Assignment
from supervisor.records.codec import decode
from supervisor.records.layout import is_attempt, is_prepared

REMOVAL_S = 1.0
"""So long the agent's round removes one working directory; the rest is for the next round."""


class HostedState(StrEnum):
    """Says what this host has of an attempt that is assigned to it."""

    NONE = "none"  # nothing: it can be started
    HOSTED = "hosted"  # a shim was started for it
    LINKED = "linked"  # it has the name of a prepared driver, but was not handed to it
    LOST = "lost"  # it was handed to a prepared driver whose shim is dead


def read_launch(directory: str, key: str) -> Launch | None:
    """Returns the launch file of the run directory ``key``, or None if there is none. Raises OSError. Raises
    Corrupt if the file can't be believed, or is about another attempt, or about a cgroup that is not the
    attempt's own: the processes there are left alone."""
    path = f"{directory}/{run_dir.LAUNCH}"
    data = run_dir.read_file(path, run_dir.LAUNCH_MAX_BYTES + 1)
    if data is None:
        return None
    launch = _launch_of(data, path)
    given = launch.assignment
    if is_prepared(key):
        named = launch.prepared if given.attempt == NO_ATTEMPT else f"{given.uid}.{given.attempt}"
    else:
        named = f"{given.uid}.{given.attempt}"
    if named != key or not key.startswith(f"{given.uid}."):
        raise Corrupt(f"{path} is about {named[:200]}")
    _require_own_cgroup(launch, path, key)
    return launch


def read_handed(directory: str, prepared_key: str) -> Launch | None:
    """Returns the launch by which an attempt was handed to the prepared driver ``prepared_key``, or None if none was. Raises
    as ``read_launch``."""
    data = run_dir.read_handed(directory)
    path = f"{directory}/{run_dir.HANDED}"
    if data is None:
        if os.path.lexists(path):
            raise Corrupt(f"{path} is no file of this use")
        return None
    launch = _launch_of(data, path)
    given = launch.assignment
    if launch.prepared != prepared_key or not prepared_key.startswith(f"{given.uid}."):
        raise Corrupt(f"{path} is about {launch.prepared[:200]}")
    if given.attempt == NO_ATTEMPT:
        raise Corrupt(f"{path} names no attempt")
    _require_own_cgroup(launch, path, prepared_key)
    return launch


def _launch_of(data: bytes, path: str) -> Launch:
    if len(data) > run_dir.LAUNCH_MAX_BYTES:
        raise Corrupt(f"{path} is larger than the {run_dir.LAUNCH_MAX_BYTES} bytes it may have")
    return decode(Launch, data, path)


def _require_own_cgroup(launch: Launch, path: str, key: str) -> None:
    cgroup = launch.cgroup
    if cgroup is not None and not (
        cgroup.startswith("/") and cgroup.rpartition("/")[2].startswith(f"{key}-")
    ):
        raise Corrupt(f"{path} names the cgroup {cgroup[:200]}, which is not the attempt's")


class HostedAttempts:
    """Lists the attempts of this host, as its run directories say, including those that an earlier supervisor
    started here."""

    def __init__(self, runtime_dir: Path, log_dir: Path, state: StateDirectory | None = None) -> None:
        self.state = state or StateDirectory(default_state_dir(runtime_dir))
        self.attempts_dir = runtime_dir / "attempts"
        self.work_dir = runtime_dir / "work"
        self.artifacts_dir = runtime_dir / "artifacts"
        self.log_dir = log_dir
        self.leftovers = Leftovers(self.work_dir)
        self.tmp_leftovers = Leftovers(self.state.tmp)
        self.job_leftovers = Leftovers(self.state.jobs)
        self.fresh = threading.Event()
        """It is set when a shim was started: ``attempt_reporter``, which times starts, then begins its next
        round at once."""
        self._launches: dict[tuple[str, str], Launch] = {}
        self._prepared: dict[str, Launch] = {}
        self._lock = threading.Lock()

    def remove_leftovers(self) -> None:
        """Removes some of what was put aside, in bounded time. Raises OSError."""
        for leftovers in (self.leftovers, self.tmp_leftovers, self.job_leftovers):
            leftovers.remove()

    def uids(self) -> frozenset[str]:
        """Returns the uids that have an attempt or a prepared driver here."""
        return frozenset(name.rpartition(".")[0] for name in self._names())

    def keys(self) -> frozenset[str]:
        """Returns ``<uid>.<attempt>`` of every attempt that has a run directory. An unlistable directory has none to
        show, and starts nothing."""
        return frozenset(name for name in self._names() if not is_prepared(name))

    def _names(self) -> frozenset[str]:
        try:
            return frozenset(
                entry.name for entry in self.attempts_dir.iterdir() if not entry.name.startswith(".")
            )
        except FileNotFoundError:
            return frozenset()

    def has(self, key: str) -> bool:
        return (self.attempts_dir / key).exists()

    def prepared_key_of(self, key: str) -> str | None:
        """Returns the prepared driver whose name the attempt ``key`` has, there or gone, or None if it has none: any
        other link is somebody else's."""
        uid = key.rpartition(".")[0]
        try:
            target = str((self.attempts_dir / key).readlink())
        except OSError:
            return None
        is_ours = is_attempt(key) and is_prepared(target) and "/" not in target
        return target if is_ours and target.rpartition(".")[0] == uid else None

    def state_of(self, key: str) -> HostedState:
        """Says what there is of the attempt ``key``. Nothing was handed to a prepared driver without ``handed.json``;
        of one that is gone with its directory, nobody knows."""
        target = self.prepared_key_of(key)
        if target is None:
            return HostedState.HOSTED if self.has(key) else HostedState.NONE
        directory = self.attempts_dir / target
        if not directory.is_dir():
            return HostedState.LOST
        if not os.path.lexists(directory / run_dir.HANDED):
            return HostedState.LINKED
        return HostedState.HOSTED if self.is_alive(target) else HostedState.LOST

    def launches(self) -> dict[str, Launch]:
        """Returns what is hosted, by key. An unreadable launch file is left out: the guardian deals with
        it."""
        places = {(key, self.prepared_key_of(key) or "") for key in self.keys()}
        with self._lock:
            self._launches = {place: known for place, known in self._launches.items() if place in places}
            for key, prepared_key in places - self._launches.keys():
                launch = self._read(key, prepared_key)
                if launch is not None:
                    self._launches[key, prepared_key] = launch
            return {key: launch for (key, _), launch in self._launches.items()}

    def _read(self, key: str, prepared_key: str) -> Launch | None:
        try:
            if not prepared_key:
                return read_launch(str(self.attempts_dir / key), key)
            launch = read_handed(str(self.attempts_dir / prepared_key), prepared_key)
        except (OSError, Corrupt):
            return None
        is_about_it = launch is not None and f"{launch.assignment.uid}.{launch.assignment.attempt}" == key
        return launch if is_about_it else None

    def prepared(self) -> dict[str, Launch]:
        """Returns the prepared drivers to which no attempt was handed, by their keys; also those whose shim is dead."""
        try:
            names = {name for name in run_dir.directories(str(self.attempts_dir)) if is_prepared(name)}
        except OSError:
            names = set()
        with self._lock:
            self._prepared = {key: known for key, known in self._prepared.items() if key in names}
            for key in names - self._prepared.keys():
                try:
                    launch = read_launch(str(self.attempts_dir / key), key)
                except (OSError, Corrupt):
                    continue
                if launch is not None and launch.waits_for_assignment:
                    self._prepared[key] = launch
            known = dict(self._prepared)
        return {
            key: launch
            for key, launch in known.items()
            if not os.path.lexists(self.attempts_dir / key / run_dir.HANDED)
        }

    def is_alive(self, key: str) -> bool:
        """Says whether the shim lives, or is about to; a run directory that only waits to be removed occupies
        nothing."""
        shim = run_dir.read_process(str(self.attempts_dir / key / run_dir.SHIM))
        try:
            return shim is None or processes.alive(shim.process)
        except OSError:  # it can't be looked at now: what it has is not given to another
            return True

    def log_path(self, given: Assignment) -> Path:
        return self.log_path_of(given.name, f"{given.uid}.{given.attempt}")

    def log_path_of(self, name: str, key: str) -> Path:
        return self.log_dir / name / f"{key}.log"

    def tidy(self, under_way: frozenset[str], assigned: frozenset[str] = frozenset()) -> None:
        """Removes the directories of attempts that are over, files that no hosted uid needs, and what
        an agent that was killed left half made. ``under_way`` holds the keys that may be starting just
        now. The names of prepared drivers that are gone stay while they are ``assigned``: they say that the attempt was lost
        here. An attempt that was handed over works where its driver was prepared. What a driver of another user has left,
        and temporary directories, which may be large, are only put aside.
        """
        run_dir.remove_drafts(str(self.attempts_dir), under_way)
        run_dir.remove_dangling_links(str(self.attempts_dir), under_way | assigned)
        names = self._names()
        links = {key for key in names if self.prepared_key_of(key) is not None}
        keys = (names - links) | under_way
        _remove_others(self.work_dir, keys | {LEFTOVERS}, self.leftovers.put_aside_of_users)
        _remove_others(self.state.tmp, keys | {LEFTOVERS}, self.tmp_leftovers.put_aside)
        _remove_others(self.artifacts_dir, frozenset(key.rpartition(".")[0] for key in names | under_way))


def _remove_others(
    directory: Path, keep: frozenset[str], put_aside: Callable[[Path], bool] = lambda _path: False
) -> None:
    try:
        entries = list(directory.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name not in keep:
            with suppress(OSError):  # in the next round
                if not put_aside(entry):
                    remove(str(entry), REMOVAL_S)
