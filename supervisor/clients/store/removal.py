"""Deletes what lies below a location that no job claims any more, a batch at a time.
``daemon.leader.remover`` is the only caller.

A batch is listed, then ``still`` is called (it raises when this process may not go on), then it is deleted:
what was listed before that answer is old by then. A process that was stopped between the answer and its
request must not hit what came after. A directory is deleted through descriptors opened before the answer: a
process that makes one of the same name afterwards makes another directory, to which they do not lead. On S3 a
request is sent within ``SEND_WITHIN_S`` of the question or not at all, and a server takes a signature for 15
minutes only; a process that can't know the outcome of an earlier request waits ``late_s``.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from supervisor.clients.foreign_files import directory_at
from supervisor.clients.store.deadline import Bounded, Budget, slots_on
from supervisor.clients.store.objects import FOLDERS_DEEP_MAX
from supervisor.clock import boottime_s
from supervisor.errors import AccessDenied, SupervisorError, Unreachable
from supervisor.model.deletable import holds_savepoints
from supervisor.model.location import normalise
from supervisor.model.query_metadata import METADATA, METADATA_MAX_BYTES
from supervisor.spec.s3a import S3Access

if TYPE_CHECKING:
    from supervisor.clients.store.s3_objects import S3ObjectClient

_EMPTIED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
BATCH_MAX: Final = 1_000
BATCH_DEADLINE_S: Final = 30.0
KEPT_LATE_S: Final = 3_600.0
"""This is the ``late_s`` of a directory that could be emptied but not removed: a process that was stopped for
longer is taken for dead."""

SEND_WITHIN_S: Final = 30.0
SIGNATURE_VALID_S: Final = 900.0
CLOCKS_APART_S: Final = 900.0
LATE_S: Final = SEND_WITHIN_S + SIGNATURE_VALID_S + CLOCKS_APART_S
"""S3 (and MinIO, Ceph) refuse a request that was signed more than 15 minutes ago (RequestTimeTooSkewed), by
their own clock, which this host's may be ahead of by as much."""


class Removed(NamedTuple):
    """Says how many ``objects`` this batch deleted. If ``left`` is set, there may be more."""

    objects: int
    left: bool


class Removal(Protocol):
    """Deletes at one location. ``late_s`` is for how long after its sending a request may still take effect.
    ``seen`` is False while this host has seen no such directory. ``resolved`` is the location that requests
    really go to, with all links followed; it is known when ``still`` is called. So is ``queries``: the ids of
    the queries whose checkpoint lies there, or None where all hosts see the same."""

    late_s: float
    seen: bool
    resolved: str
    queries: frozenset[str] | None

    @property
    def unanswered(self) -> int:
        """Returns the number of requests of this process that are not known to be over."""
        ...

    def remove_batch(self, still: Callable[[], None]) -> Removed:
        """Deletes at most ``BATCH_MAX`` objects. Savepoints are spared. Raises what ``still`` raises,
        Unreachable, AccessDenied, and Conflict if the answer of ``still`` is too old."""
        ...


class S3Removal:
    """Deletes a thousand objects with one request. In a versioned bucket older versions stay, as after any
    deletion."""

    def __init__(self, client: S3ObjectClient) -> None:
        self.location = client.location
        self.late_s = LATE_S
        self.queries: frozenset[str] | None = None
        self.seen = True
        self.resolved = client.location
        self._client = client
        self._after = ""

    @property
    def unanswered(self) -> int:
        return self._client.sent - self._client.answered

    def remove_batch(self, still: Callable[[], None]) -> Removed:
        """Deletes a batch. Markers of directories are deleted too, the location's own among them (``""``)."""
        page, more = self._client.page("", self._after, BATCH_MAX)
        keys = [each.key for each in page]
        to_delete = [key for key in keys if not holds_savepoints(key)]
        if to_delete:
            # from the question: it may be stopped over the answer
            latest_at_s = boottime_s() + SEND_WITHIN_S
            still()
            self._client.delete_batch(to_delete, latest_at_s)
        self._after = keys[-1] if more else ""
        return Removed(len(to_delete), more or bool(to_delete))


class DirectoryRemoval:
    """Deletes below ``location``, which is normalised, ``file:///…``. Links are removed, never followed;
    another file system is not entered."""

    def __init__(self, location: str, deadline_s: float) -> None:
        self.location = location
        self.late_s = 0.0
        self.seen = False
        self.resolved = location
        self.queries: frozenset[str] | None = frozenset()
        self._path = location.removeprefix("file://")
        self._bounded = Bounded(deadline_s, slots_on(self._path))
        self._counting = threading.Lock()
        self._running = 0

    @property
    def unanswered(self) -> int:
        return self._running

    def remove_batch(self, still: Callable[[], None]) -> Removed:
        def work(budget: Budget) -> Removed:
            with self._counting:
                self._running += 1
            try:
                return self._emptied(still, budget)
            finally:
                with self._counting:
                    self._running -= 1

        try:
            return self._bounded.run(self._path, work)
        except OSError as error:
            raise _meaning(error, self._path) from None

    def _emptied(self, still: Callable[[], None], budget: Budget) -> Removed:
        above, _, name = self._path.rpartition("/")
        with ExitStack() as stack:
            try:
                parent = stack.enter_context(directory_at(above or "/"))
                root = os.open(name, _EMPTIED, dir_fd=parent)
            except FileNotFoundError:
                return Removed(0, left=False)
            stack.callback(os.close, root)
            return self._emptied_in(parent, name, root, still, budget)

    def _emptied_in(
        self, parent: int, name: str, root: int, still: Callable[[], None], budget: Budget
    ) -> Removed:
        self.seen = True
        device = os.fstat(root).st_dev
        self.resolved = f"file://{Path(f'/proc/self/fd/{root}').readlink()}"
        self.queries = self.queries or _queries_below(root, budget)  # not with each batch
        still()
        batch = _Batch(device, budget)
        batch.empty(root, "", 0)
        if not batch.left:
            try:
                os.rmdir(name, dir_fd=parent)
            except OSError:
                # savepoints are in it, it is a mount point, or its parent is not ours: the directory stays, and
                # descriptors lead to it
                self.late_s = KEPT_LATE_S
        return Removed(batch.objects, batch.left)


def _queries_below(root: int, budget: Budget) -> frozenset[str]:
    """Returns the ids of the queries whose checkpoint is the directory that the descriptor ``root`` leads to,
    or one right below it."""
    with os.scandir(root) as children:
        names = [child.name for child in children if child.is_dir(follow_symlinks=False)][:BATCH_MAX]
    found = set()
    for path in (METADATA, *(f"{name}/{METADATA}" for name in names)):
        budget.check()
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            descriptor = os.open(
                path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=root
            )
            try:
                found.add(str(json.loads(os.read(descriptor, METADATA_MAX_BYTES))["id"]))
            finally:
                os.close(descriptor)
    return frozenset(found)


class _Batch:
    """Empties directories until it is full. ``left`` says that it was full before the end, ``spared`` that
    savepoints remain."""

    def __init__(self, device: int, budget: Budget) -> None:
        self._device = device
        self._budget = budget
        self.objects = 0
        self.left = False
        self.spared = False

    def empty(self, folder: int, path: str, depth: int) -> None:
        """Deletes all below the directory that the descriptor ``folder`` leads to."""
        if depth > FOLDERS_DEEP_MAX:
            raise AccessDenied(f"{path} is nested too deep for a checkpoint: delete it by hand")
        with os.scandir(folder) as children:
            found = [(child.name, child.stat(follow_symlinks=False)) for child in children]
        # last: by it whoever goes on with this knows what it is
        found.sort(key=lambda each: each[0] == METADATA)
        for name, status in found:
            self._budget.check()
            if self.objects >= BATCH_MAX:
                self.left = True
                return
            if holds_savepoints(name):
                self.spared = True
            elif not stat.S_ISDIR(status.st_mode):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                self.objects += 1
            else:
                self._empty_inner(folder, name, f"{path}/{name}", depth)

    def _empty_inner(self, folder: int, name: str, path: str, depth: int) -> None:
        inner = os.open(name, _EMPTIED, dir_fd=folder)
        try:
            if os.fstat(inner).st_dev != self._device:
                raise AccessDenied(
                    f"{path} is on another file system: it is not entered", "unmount or delete it by hand"
                )
            spared, self.spared = self.spared, False
            self.empty(inner, path, depth + 1)
        finally:
            os.close(inner)
        if not self.left and not self.spared:
            os.rmdir(name, dir_fd=folder)
        self.spared |= spared


def open_removal(location: str, access: S3Access, deadline_s: float = BATCH_DEADLINE_S) -> Removal:
    """Opens a removal without I/O. ``location`` is one that ``model.deletable`` allows."""
    location = normalise(location)
    if location.startswith("s3://"):
        from supervisor.clients.store.s3_objects import S3ObjectClient  # here: boto3 is slow to import

        return S3Removal(S3ObjectClient.at(location, access, deadline_s))
    return DirectoryRemoval(location, deadline_s)


def _meaning(error: OSError, path: str) -> SupervisorError:
    reason = error.strerror or str(error)
    if isinstance(error, PermissionError | NotADirectoryError):
        return AccessDenied(
            f"{path} can't be deleted ({reason})", "grant it to the user that runs the supervisor"
        )
    return Unreachable(f"{path} can't be deleted ({reason})")
