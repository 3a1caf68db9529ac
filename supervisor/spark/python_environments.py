"""Unpacks the Python environments that jobs bring (``python.archive``): each once on a host, by its content, for all
attempts that use it.

A supervisor has a directory of its own for them. ``prepare`` calls it at each start, and the housekeeper sweeps. An
environment appears by a rename, whole. Which attempts use it say marks in their working directories, which live as long as
they do. One that nobody uses stays for ``KEPT_S``, so that a job between two attempts is not unpacked anew. Nothing of it is
executed here but by drivers, as their users.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from supervisor.clients.access import ENTER, READ, grant
from supervisor.clients.channel import let_pass
from supervisor.clients.environment_archive import PYTHON, ForbiddenInterpreter, unpack
from supervisor.clients.opened_as import open_as
from supervisor.clock import boottime_s
from supervisor.errors import InvalidInput, Unreachable
from supervisor.model.driver_user import DriverUser
from supervisor.model.records import Cause
from supervisor.settings.file import Settings
from supervisor.spark.refusal import Refused
from supervisor.spec.policy_judge import is_allowed_python

MARK: Final = "environment"
KEPT_S: Final = 3600.0
NAME_CHARS: Final = 32
_NAME: Final = re.compile(r"[0-9a-f]{32}")
DRAFT_PREFIX: Final = ".making-"
GOING_PREFIX: Final = ".removing-"

_lock = threading.Lock()
"""Who marks an environment as used and finds it, and who finds no mark and takes it away, hold it."""
_making: dict[Path, threading.Lock] = {}
_drafts: set[Path] = set()
_used_at_s: dict[Path, float] = {}
"""It says when an environment was last seen in use, or first seen by this process."""


def environments_dir(settings: Settings) -> Path:
    """Returns the directory with the environments of this supervisor. Several may have the same ``spark.environments_dir``,
    and each knows of its own attempts only: what another one uses it must not sweep."""
    shared = settings.spark.environments_dir
    if shared is None:
        return settings.supervisor.runtime_dir / "environments"
    return shared / f"{settings.cluster}@{settings.supervisor.id}"


def environment_of(
    archive: Path,
    settings: Settings,
    work_dir: Path,
    user: DriverUser | None,
    reader: DriverUser | None = None,
) -> Path:
    """Returns the directory with what is in ``archive``, for the attempt that works in ``work_dir``. ``user`` is the Unix
    user of the driver if that is another one, and ``reader`` the one as whom the archive is opened. Raises Refused,
    Unreachable."""
    try:
        file = open_as(str(archive), reader)
    except InvalidInput as error:
        raise Refused(Cause.BAD_ARTIFACT, f"python.archive: {error}") from None
    with file:
        return _environment_of(archive, file, settings, work_dir, user)


def _environment_of(
    archive: Path, file: io.BufferedReader, settings: Settings, work_dir: Path, user: DriverUser | None
) -> Path:
    directory = environments_dir(settings)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.statvfs(directory).f_flag & os.ST_NOEXEC:
            raise Unreachable(
                f"{directory} is mounted noexec", "set spark.environments_dir of supervisor.yaml"
            )
        name = hashlib.file_digest(file, "sha256").hexdigest()[:NAME_CHARS]
        target = directory / name
        with _lock:
            (work_dir / MARK).write_text(name)
            making = _making.setdefault(target, threading.Lock())
        with making:
            if not target.is_dir():
                _make(archive, file, target, lambda link: is_allowed_python(link, settings.spark.pythons))
        _check_links(target, settings)
        _used_at_s[target] = boottime_s()
        if user is not None:
            _let_pass(directory, settings.spark.environments_dir)
            grant(str(target), user.uid, READ | ENTER)
    except OSError as error:
        where = error.filename or directory
        raise Unreachable(f"{where} cannot be used ({error.strerror})", "repair that directory") from None
    return target


def _let_pass(directory: Path, shared: Path | None) -> None:
    if shared is not None and not shared.stat().st_mode & stat.S_IXOTH:
        let_pass(str(shared))
    let_pass(str(directory))


def _check_links(target: Path, settings: Settings) -> None:
    """Raises Refused if an interpreter to which the environment leads is not allowed any more. Raises OSError."""
    for entry in sorted((target / PYTHON).parent.iterdir()):
        leads_to = str(entry.readlink()) if entry.is_symlink() else ""
        if leads_to.startswith("/") and not is_allowed_python(leads_to, settings.spark.pythons):
            why = f"bin/{entry.name} leads to {leads_to}, which is none that spark.pythons of supervisor.yaml allows"
            raise Refused(Cause.POLICY, f"python.archive: {why}", "have the operator allow that one")


def _make(archive: Path, file: io.BufferedReader, target: Path, is_allowed: Callable[[str], bool]) -> None:
    draft = Path(tempfile.mkdtemp(prefix=DRAFT_PREFIX, dir=target.parent))
    _drafts.add(draft)
    try:
        file.seek(0)
        sha256 = unpack(archive, file, draft, is_allowed)
        if sha256[:NAME_CHARS] != target.name:
            raise Unreachable(
                f"{archive} was changed while it was unpacked", "leave it as it is: it is tried again"
            )
        draft.rename(target)
    except ForbiddenInterpreter as error:
        raise Refused(Cause.POLICY, error.complaint.what, error.complaint.remedy) from None
    except InvalidInput as error:
        what = f"python.archive: {error.complaint.what}"
        raise Refused(Cause.BAD_ARTIFACT, what, error.complaint.remedy) from None
    finally:
        _drafts.discard(draft)
        shutil.rmtree(draft, ignore_errors=True)


def sweep(directory: Path, work_dirs: Path, now_s: float | None = None) -> None:
    """Removes the environments that no attempt has used for ``KEPT_S``, and what a supervisor that was killed left half
    made. ``work_dirs`` is the directory with the working directories of attempts. Raises OSError."""
    now_s = boottime_s() if now_s is None else now_s
    try:
        there = sorted(directory.iterdir())
    except FileNotFoundError:
        return
    used = frozenset(_marks(work_dirs))
    for entry in there:
        if entry.name.startswith(GOING_PREFIX) or (
            entry.name.startswith(DRAFT_PREFIX) and entry not in _drafts
        ):
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name in used:
            _used_at_s[entry] = now_s
        elif _NAME.fullmatch(entry.name) and now_s - _used_at_s.setdefault(entry, now_s) >= KEPT_S:
            _remove(entry, work_dirs)


def _remove(entry: Path, work_dirs: Path) -> None:
    with _lock:
        if entry.name in _marks(work_dirs):
            return
        going = entry.with_name(f"{GOING_PREFIX}{entry.name}")
        entry.rename(going)
        _making.pop(entry, None)
        _used_at_s.pop(entry, None)
    shutil.rmtree(going, ignore_errors=True)


def _marks(work_dirs: Path) -> Iterator[str]:
    """Yields the names of the environments that attempts use."""
    for mark in work_dirs.glob(f"*/{MARK}"):
        with suppress(FileNotFoundError):
            yield mark.read_text()
