"""Uploads the output of attempts of this host to the store when they have ended, where their spec asks for it
(``logs: {upload: on_exit}``); and what runs in between, by ``daemon.host.running_uploads``.

What is to be uploaded is a name in a directory, ``<job>.<uid>.<attempt>.<keep>``. The guardian makes it below
``runtime_dir`` (``ENDED``) when it removes the run directory, and waits for no disk. The thread puts it below ``log_dir``
(``WAITING``), where it outlives the supervisor and the host; and that of an attempt that runs, too: a host that was lost
uploads when it is back. A name goes when the output is in the store, or is not here any more.

The registry says whether an attempt has ended (``model.state.is_attempt_over``): it has its tombstone, so nobody writes. The
key carries uid and attempt, and is created or left as it is: any number of uploads of it, by hosts that share a log
directory too, make one. It has a thread of its own. Nobody waits for it, and a start least of all.

What has ended comes first, then pieces. One that is refused, or is too large for a slow store, ends the turn of its kind
only, and the next turn begins after it.
"""

from __future__ import annotations

import itertools
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from supervisor.clients import umask
from supervisor.clients.threads import TurnLoop
from supervisor.daemon.host.running_uploads import RunningUploads, log_missing
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import AccessDenied, SupervisorError, Unreachable
from supervisor.growing_pause import GrowingPause
from supervisor.model.launch import Launch
from supervisor.model.records import Ownership
from supervisor.model.state import is_attempt_over
from supervisor.operations.log_parts import OutputUnusable, has_parts
from supervisor.operations.logs import path_of_output
from supervisor.operations.names import NAME_PATTERN
from supervisor.operations.uploaded_output import pack
from supervisor.registry.uploaded_logs import UploadedKey, UploadedLogs

log = structlog.get_logger(__name__)

ENDED: Final = "ended-logs"
WAITING: Final = ".uploads"
PERIOD_S: Final = 5.0
OUTPUTS: Final = "outputs"
PIECES: Final = "pieces"
PAUSE: Final = GrowingPause(first_s=PERIOD_S, longest_s=300.0)
NAMES_MAX: Final = 10_000
_NAME: Final = re.compile(rf"({NAME_PATTERN})\.([0-9a-z-]{{1,64}})\.([1-9][0-9]{{0,8}})\.([1-9][0-9]{{0,3}})")


def wanted_by(launch: Launch) -> UploadedKey | None:
    """Returns under which key the output of an attempt is to be uploaded, or None if it is not."""
    given = launch.assignment
    if not launch.log_uploads_kept or launch.waits_for_assignment:
        return None
    return UploadedKey(given.name, given.uid, given.attempt, launch.log_uploads_kept)


def _periods_s(hosted: Mapping[str, Launch]) -> dict[UploadedKey, float]:
    """Returns what is to be uploaded while it runs, and how often, in seconds."""
    wanted = ((wanted_by(launch), launch.log_upload_every_s) for launch in hosted.values())
    return {key: every_s for key, every_s in wanted if key is not None and every_s}


def _name_of(key: UploadedKey) -> str:
    return f"{key.name}.{key.uid}.{key.attempt}.{key.keep}"


def _keys_in(directory: Path) -> Iterator[UploadedKey]:
    """Yields what the names in a directory say; names of another form are somebody else's. Raises OSError."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in itertools.islice(entries, NAMES_MAX)]
    except FileNotFoundError:
        return
    for found in filter(None, map(_NAME.fullmatch, sorted(names))):
        yield UploadedKey(found[1], found[3], int(found[4]), int(found[5]))


def _make_name(directory: Path, key: UploadedKey) -> None:
    """Makes the name of ``key`` in ``directory``. If there is anything by that name, it is left as it is. Raises OSError."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        os.close(os.open(directory / _name_of(key), flags, 0o600))
    except FileExistsError:
        pass


class LogUploads:
    """Runs the thread. ``launches`` are those of the attempts that have a run directory here, by key. ``ownership`` reads
    that of a job from the registry now, and returns None if there is none, or none that may be believed; it raises
    ``SupervisorError``. ``set_waiting`` is told after each turn of how many outputs the store lacks what it should have."""

    def __init__(
        self,
        runtime_dir: Path,
        log_dir: Path,
        launches: Callable[[], Mapping[str, Launch]],
        ownership: Callable[[str], Ownership | None],
        logs: UploadedLogs,
        set_waiting: Callable[[int], object],
    ) -> None:
        self._ended, self._waiting = runtime_dir / ENDED, log_dir / WAITING
        self._log_dir = log_dir
        self._launches = launches
        self._ownership = ownership
        self._logs = logs
        self._set_waiting = set_waiting
        self._running = RunningUploads(log_dir, logs, lambda: not self._loop.is_stopping)
        self._failures = 0
        self._refused: dict[str, str] = {}
        self._logged: dict[str, type[SupervisorError]] = {}
        self._boundary = ErrorBoundary("log-uploads")
        self._loop = TurnLoop("log-uploads", self.turn)

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        """Stops the thread, without waiting for a store or a disk that hangs. The next supervisor goes on."""
        self._loop.stop()

    def ended(self, launch: Launch) -> None:
        """Is called when the run directory of ``launch`` goes. It never blocks or raises."""
        key = wanted_by(launch)
        if key is None:
            return
        try:
            self._ended.mkdir(mode=0o700, exist_ok=True)
            _make_name(self._ended, key)
        except OSError as error:
            self._log_missing(key, f"that it ended can't be noted ({error.strerror})")
        self._loop.wake()

    def turn(self) -> float:
        """Uploads what has ended, then what is due of what runs. Returns the seconds after which to look again."""
        hosted = self._launches()
        self._boundary.attempt("names", partial(self._keep_names, hosted), None)
        waiting: list[UploadedKey] = self._boundary.attempt("waiting", partial(self._of_ended, hosted), [])
        due = self._running.take(_periods_s(hosted))
        waiting.sort(key=lambda key: _name_of(key) <= self._refused.get(OUTPUTS, ""))
        outputs = self._work_through(OUTPUTS, [(key, partial(self._attend, key)) for key in waiting])
        steps: list[tuple[UploadedKey, Callable[[UploadedKey], None]]] = [
            *((key, self._running.drop) for key in self._running.superseded()),
            *((key, self._running.upload) for key in due),
        ]
        pieces = self._work_through(
            PIECES, [(key, partial(self._try, PIECES, partial(step, key))) for key, step in steps]
        )
        pause_s = self._pause_after(outputs and pieces)
        left: list[UploadedKey] = self._boundary.attempt("waiting", partial(self._of_ended, hosted), [])
        self._set_waiting(len(left) + self._running.overdue())
        return pause_s

    def _work_through(self, kind: str, work: Iterable[tuple[UploadedKey, Callable[[], bool]]]) -> bool:
        """Does one after the other until the registry or the store does not answer. Returns whether all was done."""
        for key, upload in work:
            if self._loop.is_stopping:
                return False
            if not self._boundary.attempt(str(key), upload, True):
                self._refused[kind] = _name_of(key)
                return False
        self._logged.pop(kind, None)
        return True

    def _pause_after(self, is_done: bool) -> float:
        """Returns the seconds after which to look again."""
        if is_done:
            self._failures = 0
            return PERIOD_S
        self._failures += 1
        return min(PAUSE.after(self._failures), self._running.shortest_s())

    def _keep_names(self, hosted: Mapping[str, Launch]) -> None:
        """Puts the names of what runs, and of what has ended, where they outlive this host. Raises OSError."""
        recorded = list(_keys_in(self._ended))
        wanted = [*recorded, *filter(None, map(wanted_by, hosted.values()))]
        missing = set(wanted).difference(_keys_in(self._waiting))
        if missing:
            umask.make_shared_directories(str(self._waiting), umask.GROUP)
        for key in missing:
            _make_name(self._waiting, key)
        for key in recorded:
            (self._ended / _name_of(key)).unlink(missing_ok=True)

    def _of_ended(self, hosted: Collection[str]) -> list[UploadedKey]:
        """Returns what may be uploaded: its attempt has no run directory here. Raises OSError."""
        return [key for key in _keys_in(self._waiting) if f"{key.uid}.{key.attempt}" not in hosted]

    def _attend(self, key: UploadedKey) -> bool:
        """Uploads one output, if its attempt is over. Returns whether the registry and the store answer."""
        if not has_parts(self._path_of(key)):
            self._forget(key, "there is no output of it here")
            return True
        try:
            own = self._ownership(key.name)
        except SupervisorError:
            return False
        if own is None or not is_attempt_over(own, key.uid, key.attempt):
            return True
        return self._try(OUTPUTS, partial(self._upload, key))

    def _try(self, kind: str, upload: Callable[[], None]) -> bool:
        """Uploads something. Returns whether the store answers. That it does not is logged once, until all of the kind is
        done."""
        try:
            upload()
        except (Unreachable, AccessDenied) as error:
            if self._logged.get(kind) is not type(error):
                next_is = "it is tried again; the files stay for as long as those of other attempts"
                log.warning("log_uploads_wait", why=str(error), next=next_is)
            self._logged[kind] = type(error)
            return False
        return True

    def _upload(self, key: UploadedKey) -> None:
        """Uploads one output. Raises Unreachable, AccessDenied; OSError if there is no room to compress it."""
        with tempfile.TemporaryFile(dir=self._waiting) as compressed:
            try:
                size_bytes = pack(self._path_of(key), compressed)
            except OutputUnusable as error:
                self._forget(key, str(error))
                return
            if size_bytes is None:  # it has gone since; the next turn says so
                return
            compressed.flush()
            self._logs.put(key, Path(f"/proc/self/fd/{compressed.fileno()}"))  # it has no other name
        self._running.whole(key)
        about = {"job": key.name, "uid": key.uid, "attempt": key.attempt}
        log.info("log_uploaded", **about, key=str(key), bytes=size_bytes)
        self._remove_name(key)

    def _path_of(self, key: UploadedKey) -> Path:
        return path_of_output(self._log_dir, key.name, key.uid, key.attempt)

    def _forget(self, key: UploadedKey, why: str) -> None:
        self._log_missing(key, why)
        self._remove_name(key)

    def _remove_name(self, key: UploadedKey) -> None:
        (self._waiting / _name_of(key)).unlink(missing_ok=True)

    def _log_missing(self, key: UploadedKey, why: str) -> None:
        log_missing(key, why, "the store has no output of this attempt")
