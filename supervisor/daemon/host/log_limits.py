"""Keeps what drivers have written on this host within limits, of each job and of all jobs together.

A driver that writes 100 MB in a second fills what its own files may take (``model.launch.Launch.log_max_bytes``,
``log_keep``) in some seconds, and twenty attempts of each job are kept. So here the sum is bounded: what is above it is
removed, file by file, by the time of the last write, the oldest first.

What is being written stays: of attempts that are there the files without a number (``shim.output`` numbers what it has
rotated). Of each job that of the attempt which was written to last stays, too: its driver may be another supervisor's
that has the same ``log_dir``. So a limit may be exceeded by these files, and by nothing else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from supervisor.records.layout import is_attempt, is_prepared


class LogFile(NamedTuple):
    """Describes one file of ``<log_dir>/<job>``. ``written_at_s`` is wall time."""

    path: Path
    job: str
    size_bytes: int
    written_at_s: float

    @property
    def attempt(self) -> str:
        return attempt_of(self.path)

    @property
    def is_rotated(self) -> bool:
        return self.path.suffix[1:].isdigit()


class LogLimit(NamedTuple):
    """Holds how many bytes the files of one job, and those of all jobs, may have."""

    per_job_bytes: int
    per_host_bytes: int


def attempt_of(path: Path) -> str:
    """Returns ``<uid>.<attempt>`` of ``<uid>.<attempt>.log``, ``….log.1`` and ``….shim.log``, and so
    ``<uid>.p<random>``."""
    return ".".join(path.name.split(".")[:2])


def list_logs(log_dir: Path) -> list[LogFile]:
    """Returns the files of all jobs that a supervisor has written. What can't be read is left out, and so is what has
    another name. Raises OSError if ``log_dir`` can't be listed."""
    found: list[LogFile] = []
    with os.scandir(log_dir) as entries:
        jobs = [
            entry.name for entry in entries if entry.name[0] != "." and entry.is_dir(follow_symlinks=False)
        ]
    for job in jobs:
        found += _of_job(log_dir / job)
    return found


def _of_job(directory: Path) -> Iterable[LogFile]:
    try:
        with os.scandir(directory) as entries:
            there = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except OSError:  # it went meanwhile
        return
    for name, status in there:
        file = LogFile(directory / name, directory.name, status.st_size, status.st_mtime)
        if stat.S_ISREG(status.st_mode) and (is_attempt(file.attempt) or is_prepared(file.attempt)):
            yield file


def to_remove(files: Collection[LogFile], limit: LogLimit, there: Collection[str]) -> list[LogFile]:
    """Returns what is above ``limit``, the oldest first. ``there`` are the attempts and prepared drivers of this host."""
    kept = _being_written(files, there)
    found: list[LogFile] = []
    for of_job in _by_job(files).values():
        found += _oldest(of_job, limit.per_job_bytes, kept)
    gone = {file.path for file in found}
    return found + _oldest([file for file in files if file.path not in gone], limit.per_host_bytes, kept)


def _by_job(files: Iterable[LogFile]) -> Mapping[str, list[LogFile]]:
    found: dict[str, list[LogFile]] = {}
    for file in files:
        found.setdefault(file.job, []).append(file)
    return found


def _being_written(files: Iterable[LogFile], there: Collection[str]) -> frozenset[Path]:
    newest: dict[str, LogFile] = {}
    kept = set()
    for file in files:
        if file.is_rotated:
            continue
        if file.attempt in there:
            kept.add(file.path)
        of_driver = file.path.name == f"{file.attempt}.log"
        if of_driver and (file.job not in newest or newest[file.job].written_at_s < file.written_at_s):
            newest[file.job] = file
    return frozenset(kept | {file.path for file in newest.values()})


def _oldest(files: Collection[LogFile], most_bytes: int, kept: Collection[Path]) -> list[LogFile]:
    """Returns the oldest of ``files`` without which the others have ``most_bytes`` at most."""
    left, found = sum(file.size_bytes for file in files), []
    for file in sorted(files, key=lambda each: each.written_at_s):
        if left <= most_bytes:
            break
        if file.path not in kept and file.size_bytes:
            found.append(file)
            left -= file.size_bytes
    return found


def remove_surplus(log_dir: Path, limit: LogLimit, there: Collection[str]) -> dict[str, int]:
    """Removes what is above ``limit``. Returns, by job, how many bytes went. A file that can't be removed stays. Raises
    OSError if ``log_dir`` can't be listed."""
    gone: dict[str, int] = {}
    for file in to_remove(list_logs(log_dir), limit, there):
        try:
            file.path.unlink()
        except OSError:
            continue
        gone[file.job] = gone.get(file.job, 0) + file.size_bytes
    return gone
