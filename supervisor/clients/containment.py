"""Holds a driver tree together, so that nothing of it escapes a kill and "dead" means "empty" (protocol
§7.4).

There are two ways. Where cgroup v2 can be used, the tree has a group of its own: ``cgroup.kill`` reaches
every member, and ``populated 0`` proves that none is left. Elsewhere /proc is scanned for the marker in the
environment, the driver's session and descendants. The scan may miss processes, and proves nothing except in
the shim, which as child subreaper becomes the parent of every orphan of the tree.

The shim, the twin, the guardian (kill, emptiness) and the agent (``find_cgroup_parent``) call it. It never
decides when to kill. It uses the standard library only, and little of it: the twin carries for life what is
imported here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Protocol

from supervisor.clients import processes
from supervisor.clients.processes import ProcessId, ProcessStat
from supervisor.model.emptiness import Emptiness

CLAIM_MARKER = "SPARK_SUPERVISOR_CLAIM"
"""This environment variable is set for every driver, beside those of ``model.launch``; the starter sets
it."""

_STEP_S = 0.01
_PROBE = "probe-"


class Containment(Protocol):
    def enter(self) -> None:
        """Puts the calling process, which will become the driver, inside before exec: the driver is born
        inside. Raises OSError."""

    def kill(self, timeout_s: float) -> float:
        """Sends SIGKILL to the whole tree until nothing of it is seen, or for ``timeout_s``. Returns the
        seconds it took.

        Idempotent; ``emptiness`` shows the outcome.
        """

    def emptiness(self) -> Emptiness: ...

    def pids(self) -> list[int]:
        """Returns the living processes of the tree as seen now. They are for display; a signal needs
        ``kill``."""

    def remove(self) -> None:
        """Removes what the containment itself left behind, if it is empty. Idempotent, never raises."""


class CgroupContainment:
    """Is a cgroup v2 at the absolute ``path``. No other attempt ever uses that path (the agent adds random
    letters)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._events: int | None = None
        self._kill: int | None = None
        self._procs: int | None = None

    def create(self) -> None:
        """Makes the group and holds its files open: a kill must not fail for want of descriptors (F56).
        Raises OSError.

        An existing group is an error: it would belong to another attempt.
        """
        os.mkdir(self.path)
        self.hold()

    def hold(self) -> None:
        """Holds the files open that a kill and ``enter`` need, so that no process enters a group that was
        removed and made anew. Raises OSError when the group is gone."""
        self._events = os.open(f"{self.path}/cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._kill = os.open(f"{self.path}/cgroup.kill", os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # before Linux 5.14
            self._kill = None
        self._procs = os.open(f"{self.path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def release(self) -> None:
        """Closes what ``hold`` opened."""
        for descriptor in (self._events, self._kill, self._procs):
            if descriptor is not None:
                os.close(descriptor)
        self._events = self._kill = self._procs = None

    def enter(self) -> None:
        if self._procs is not None:
            os.write(self._procs, b"0")
            return
        with open(f"{self.path}/cgroup.procs", "w", encoding="ascii") as file:
            file.write("0")

    def kill(self, timeout_s: float) -> float:
        began_at_s = time.monotonic()
        while self.emptiness() is Emptiness.POPULATED:
            self._kill_once()
            left_s = began_at_s + timeout_s - time.monotonic()
            if left_s <= 0:
                break
            self._await_change(min(left_s, 0.1))
        return time.monotonic() - began_at_s

    def emptiness(self) -> Emptiness:
        """Returns whether the group is empty. A process that has held the group since it was made knows that
        a removed group is empty: the kernel removes only a group that has no member, and no process enters it
        any more (ENODEV). To a process that comes later a missing path proves nothing: the group may never
        have been made, or may have been entered by another path."""
        try:
            if self._events is not None:
                text = os.pread(self._events, 4096, 0)
            else:
                with open(f"{self.path}/cgroup.events", "rb") as file:
                    text = file.read()
        except OSError as error:
            gone = self._events is not None and error.errno == errno.ENODEV
            return Emptiness.EMPTY if gone else Emptiness.UNPROVABLE
        for line in text.splitlines():
            if line.startswith(b"populated "):
                return Emptiness.POPULATED if line.split()[1] != b"0" else Emptiness.EMPTY
        return Emptiness.UNPROVABLE

    def pids(self) -> list[int]:
        return [pid for group in self._groups() for pid in _numbers(f"{group}/cgroup.procs")]

    def remove(self) -> None:
        for group in reversed(self._groups()):
            try:
                os.rmdir(group)
            except OSError:  # already gone, or populated: the guardian tries again
                return

    def _groups(self) -> list[str]:
        """Returns this group and those that the driver may have made below it, parents first."""
        try:
            return [group for group, _, _ in os.walk(self.path)]
        except OSError:
            return []

    def _kill_once(self) -> None:
        try:
            if self._kill is not None:
                os.write(self._kill, b"1")
            else:
                _write(f"{self.path}/cgroup.kill", "1")
        except (FileNotFoundError, PermissionError):
            self._kill_frozen()
        except OSError:  # the group is gone
            pass

    def _kill_frozen(self) -> None:
        """Kills without ``cgroup.kill`` (before Linux 5.14, or not this user's): freezes the group, so that no member
        can fork, and signals each member."""
        try:
            _write(f"{self.path}/cgroup.freeze", "1")
        except OSError:
            pass
        for pid in self.pids():
            try:
                # frozen or zombie members keep their pid: no stranger can have it
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass

    def _await_change(self, timeout_s: float) -> None:
        if self._events is None:
            time.sleep(min(timeout_s, _STEP_S))
            return
        poll = select.poll()
        poll.register(self._events, select.POLLPRI)
        poll.poll(timeout_s * 1000)


class ScanContainment:
    """Finds the tree of one claim by scanning every process.

    ``claim`` is its random id, which the driver's environment carries (CLAIM_MARKER). Uid and attempt would
    not do: a restarted agent may start a second shim for one entry, and the loser must not kill the winner's
    driver. ``root`` returns the driver's root process, or None before it exists. ``childless`` is given only
    by a shim that is child subreaper and asks for itself: it reaps the shim's ended children and returns
    whether none is left. All orphans of the tree are among them, so there, and only there, emptiness can be
    proven.
    """

    def __init__(
        self,
        claim: str,
        root: Callable[[], ProcessId | None],
        childless: Callable[[], bool] | None = None,
    ) -> None:
        # no id: nobody carries it
        self._marker = f"\0{CLAIM_MARKER}={claim}\0".encode() if claim.isalnum() else None
        self._root = root
        self._childless = childless
        self._boot_id = processes.boot_id()

    def enter(self) -> None:
        """Does nothing: the driver needs only its setsid and the marker."""

    def kill(self, timeout_s: float) -> float:
        began_at_s = time.monotonic()
        clean = 0
        while clean < 2:  # once more after a clean scan: /proc is no snapshot
            tree = self._tree()
            for member in tree:
                with contextlib.suppress(OSError):  # no descriptor just now: the next scan finds it again
                    processes.kill(ProcessId(member.pid, member.start_ticks, self._boot_id))
            clean = 0 if tree else clean + 1
            if time.monotonic() - began_at_s >= timeout_s:
                break
            if tree:
                time.sleep(_STEP_S)
        return time.monotonic() - began_at_s

    def emptiness(self) -> Emptiness:
        if self._tree():
            return Emptiness.POPULATED
        if self._childless is None:
            return Emptiness.UNPROVABLE
        return Emptiness.EMPTY if self._childless() else Emptiness.POPULATED

    def pids(self) -> list[int]:
        return [member.pid for member in self._tree()]

    def remove(self) -> None:
        """Does nothing: no files are left behind."""

    def _tree(self) -> list[ProcessStat]:
        stats = {found.pid: found for found in processes.all_stats()}
        inside = {pid for pid, found in stats.items() if self._belongs(found, stats)}
        grown = True
        while grown:  # descendants of members, whatever they did to their session and environment
            more = {pid for pid, found in stats.items() if found.ppid in inside} - inside - {os.getpid()}
            inside |= more
            grown = bool(more)
        return [stats[pid] for pid in inside if not stats[pid].dead]

    def _belongs(self, found: ProcessStat, stats: dict[int, ProcessStat]) -> bool:
        if found.pid == os.getpid():
            return False
        if self._childless is not None and found.ppid == os.getpid():
            return True
        return self._in_session(found, stats) or (not found.dead and self._marked(found.pid))

    def _in_session(self, found: ProcessStat, stats: dict[int, ProcessStat]) -> bool:
        """Returns whether ``found`` is in the session that the root leads. Once the root is gone (not even a
        zombie), its number may lead another session."""
        root = self._root()
        if root is None or root.boot_id != self._boot_id:
            return False
        leader = stats.get(root.pid)
        if leader is None or leader.start_ticks != root.start_ticks:
            return False
        return found.session == root.pid or found.pid == root.pid

    def _marked(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = b"\0" + file.read() + b"\0"
        except OSError:
            return False
        return self._marker is not None and self._marker in environment


def become_subreaper() -> None:
    """Makes this process the parent of the orphans of its descendants (prctl). Raises OSError.

    It is called only where there is no cgroup.
    """
    import ctypes  # here: it costs half a megabyte, which a shim in a cgroup does not need

    set_child_subreaper = 36
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(set_child_subreaper, 1, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def find_own_cgroup(mountinfo: str | None = None, membership: str | None = None) -> str | None:
    """Returns the directory of this process's own group in the v2 hierarchy, wherever that is mounted; None
    if there is none.

    In tests the arguments replace /proc/self/mountinfo and /proc/self/cgroup.
    """
    mounts = _read("/proc/self/mountinfo") if mountinfo is None else mountinfo
    groups = _read("/proc/self/cgroup") if membership is None else membership
    own = next((line[3:] for line in groups.splitlines() if line.startswith("0::")), None)
    return _directory_of(own, mounts, lambda kind, _options: kind == "cgroup2")


def find_own_memory_cgroup(mountinfo: str | None = None, membership: str | None = None) -> str | None:
    """Returns the directory of this process's group in the v1 hierarchy of the memory controller; None if
    there is none."""
    mounts = _read("/proc/self/mountinfo") if mountinfo is None else mountinfo
    groups = _read("/proc/self/cgroup") if membership is None else membership
    fields = (line.split(":", 2) for line in groups.splitlines() if line.count(":") >= 2)
    own = next((path for _, controllers, path in fields if "memory" in controllers.split(",")), None)
    return _directory_of(own, mounts, lambda kind, options: kind == "cgroup" and "memory" in options)


def _directory_of(own: str | None, mounts: str, wanted: Callable[[str, list[str]], bool]) -> str | None:
    """Returns the directory at which the group ``own`` of a hierarchy is mounted. ``wanted`` gets type and
    options of a file system, and returns whether it is that hierarchy."""
    if own is None or own.startswith("/.."):  # outside of this cgroup namespace
        return None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        if not wanted(kind, options.rpartition(" ")[2].split(",")):
            continue
        fields = before.split(" ")
        root, point = _unescaped(fields[3]), _unescaped(fields[4])
        if root == "/":
            return point + own.rstrip("/")
        if own == root or own.startswith(root + "/"):
            return point + own[len(root) :]
    return None


def find_cgroup_parent(own: str | None, name: str = "spark-supervisor") -> str | None:
    """Returns the directory where groups of attempts can be made and entered: ``<own>/<name>``, which is
    created if need be. Returns None if that is not possible here.

    It is tried out with a real process, because delegation can be incomplete in many ways. The agent calls it
    at its start, before it has threads or much memory; it takes about 30 ms.
    """
    if own is None:
        return None
    parent = f"{own}/{name}"
    probe = CgroupContainment(f"{parent}/{_PROBE}{os.getpid()}")
    try:
        os.makedirs(parent, exist_ok=True)
        _remove_probes_of_the_dead(parent)
        probe.create()
    except OSError:
        return None
    try:
        return parent if _holds(probe) else None
    finally:
        probe.release()
        probe.remove()


def _remove_probes_of_the_dead(parent: str) -> None:
    """Removes the groups of processes that were killed while they tried this out. The group of a living
    process is left: it may be in use."""
    for name in os.listdir(parent):
        pid = name.removeprefix(_PROBE)
        if name.startswith(_PROBE) and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            CgroupContainment(f"{parent}/{name}").remove()


def _holds(group: CgroupContainment) -> bool:
    """Returns whether a process can be put into ``group``, is seen there, and is killed with it."""
    from supervisor.clients.spawn import waiting_child  # here: a shim goes without subprocess

    with waiting_child() as child:
        try:
            with open(f"{group.path}/cgroup.procs", "w", encoding="ascii") as file:
                file.write(str(child))
        except OSError:
            return False
        entered = group.emptiness() is Emptiness.POPULATED
        group.kill(2.0)
        return entered and group.emptiness() is Emptiness.EMPTY


def _numbers(path: str) -> list[int]:
    try:
        with open(path, "rb") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _write(path: str, text: str) -> None:
    """Writes into a file of a group that is there. Some may be written by their owner and read by nobody. Raises
    OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _unescaped(text: str) -> str:
    """Decodes blank, tab, newline and backslash, which are octal in mountinfo."""
    for octal, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(octal, char)
    return text
