"""Probes a store: it writes, lists, reads, creates conditionally and deletes, under a key that is removed
again. Used by ``doctor``.

The result says which step failed and how long each took; nothing is raised. A local directory that Spark uses
itself (a ``file://`` checkpoint) is probed in the same way, but nothing of the file store's own is left
behind.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from supervisor.clients.foreign_files import create_file, directory_at, open_file
from supervisor.clients.store.base import Store
from supervisor.errors import Complaint, Conflict, NotFound, SupervisorError, complaint_of

PREFIX = "checks/"
"""``registry.blobs`` proves the store under this prefix, too: no sweeper and no listing of the product reads
it."""

FIRST, SECOND = b"first, by spark-supervisor doctor", b"second, by spark-supervisor doctor"


@dataclass(frozen=True, slots=True)
class StoreProbe:
    """Holds the result. ``failed`` is the step that failed (``write list read create delete``) and the error,
    or both are empty.

    ``exclusive`` says that a second create of the key was refused; it is None if it did not come to that.
    ``skew_s`` is how far the store's clock is ahead of this host's, None if unknown. ``ms`` maps a step to
    milliseconds. ``left`` is what could not be removed.
    """

    where: str
    failed: str = ""
    error: Complaint = Complaint()
    exclusive: bool | None = None
    skew_s: float | None = None
    ms: tuple[tuple[str, float], ...] = ()
    left: str = ""

    @property
    def slowest(self) -> tuple[str, float]:
        return max(self.ms, key=lambda step: step[1], default=("", 0.0))


class _Steps:
    """Runs one step after another until one fails; ``exclusive`` and ``skew_s`` are what they found out."""

    def __init__(self) -> None:
        self.failed, self.error = "", Complaint()
        self.ms: list[tuple[str, float]] = []
        self.exclusive: bool | None = None
        self.skew_s: float | None = None

    def run(self, name: str, step: Callable[[], None]) -> None:
        if self.failed:
            return
        began_at_s = time.monotonic()
        try:
            step()
        except (SupervisorError, OSError) as error:
            self.failed, self.error = name, complaint_of(error)
        else:
            self.ms.append((name, (time.monotonic() - began_at_s) * 1000))

    def result(self, where: str, left: str) -> StoreProbe:
        return StoreProbe(where, self.failed, self.error, self.exclusive, self.skew_s, tuple(self.ms), left)


def probe_store(store: Store) -> StoreProbe:
    """Tries a store out. Each step ends within the store's own deadline."""
    key = f"{PREFIX}{secrets.token_hex(16)}"
    steps = _Steps()
    written_at_s = 0.0

    def write() -> None:
        nonlocal written_at_s
        before_at_s = time.time()
        store.create(key, FIRST)
        written_at_s = (before_at_s + time.time()) / 2

    def listed() -> None:
        entry = next((entry for entry in store.entries(PREFIX) if entry.key == key), None)
        if entry is None:
            raise NotFound(
                f"{store.url}/{key} was written, but is not in the listing",
                "use a store that lists what it has",
            )
        steps.skew_s = entry.modified_at_s - written_at_s

    def read() -> None:
        if store.read(key, 100) != FIRST:
            raise SupervisorError(
                f"{store.url}/{key} reads as something else than was written", "do not use this store"
            )

    def create() -> None:
        try:
            store.create(key, SECOND)
        except Conflict:
            steps.exclusive = True
        else:
            steps.exclusive = False

    for name, step in (("write", write), ("list", listed), ("read", read), ("create", create)):
        steps.run(name, step)
    left = ""
    try:
        store.delete(key)
    except SupervisorError as error:
        if steps.failed != "write":
            left = f"{store.url}/{key}"
            steps.failed, steps.error = steps.failed or "delete", steps.error or complaint_of(error)
    return steps.result(store.url, left)


def probe_directory(directory: Path) -> StoreProbe:
    """Does as ``probe_store``, in the nearest directory above (or at) ``directory`` that exists. It makes
    only its own file."""
    existing = directory
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    steps, left = _Steps(), ""
    try:
        with directory_at(str(existing), to_list=True) as opened:
            left = _probe_in(opened, existing, steps)
    except OSError as error:
        steps.failed, steps.error = "write", complaint_of(error)
    return steps.result(str(existing), left)


def _probe_in(directory: int, path: Path, steps: _Steps) -> str:
    """Returns the path of what could not be removed, or nothing."""
    name = f".spark-supervisor-doctor-{secrets.token_hex(8)}"
    file = path / name

    def write() -> None:
        with os.fdopen(create_file(directory, name), "wb") as stream:
            stream.write(FIRST)
            stream.flush()
            os.fsync(stream.fileno())
            steps.skew_s = os.fstat(stream.fileno()).st_mtime - time.time()

    def listed() -> None:
        if name not in os.listdir(directory):
            raise NotFound(f"{file} was written, but is not in the listing")

    def read() -> None:
        with os.fdopen(open_file(directory, name), "rb") as stream:
            if stream.read(len(FIRST) + 1) != FIRST:
                raise SupervisorError(f"{file} reads as something else than was written")

    def create() -> None:
        try:
            os.close(create_file(directory, name))
        except FileExistsError:
            steps.exclusive = True
        else:
            steps.exclusive = False

    for step_name, step in (("write", write), ("list", listed), ("read", read), ("create", create)):
        steps.run(step_name, step)
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return ""
    except OSError:
        return str(file)
    return ""
