"""Finds out what this host is and allows: limits, mounts, memory, clocks, the holder of a lock, the content
of a unit file. ``doctor`` uses it.

It reads /proc, /sys and small files; None or an empty value means unknown. Tests can give other paths.
"""

from __future__ import annotations

import os
import re
import resource
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

UNIT_DIRECTORIES = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
"""These stand in systemd's order of precedence (man systemd.unit)."""

OWN_DIRECTORIES = {
    "RuntimeDirectory": "/run",
    "StateDirectory": "/var/lib",
    "CacheDirectory": "/var/cache",
    "LogsDirectory": "/var/log",
}
"""This maps each option to the directory below which systemd makes what the option names; the service may
write there."""

LISTS = frozenset({"ReadWritePaths", *OWN_DIRECTORIES})
"""The lines of these options add up; an empty line clears the lines before it."""

UNLIMITED = -1


# -- limits and memory --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """Holds soft limits; UNLIMITED (-1) stands for none. ``pids_max`` is the limit of the control group.
    ``kernel_max`` is the limit of the host's threads."""

    open_files: int
    processes: int
    pids_max: int = UNLIMITED
    kernel_max: int = UNLIMITED


def limits_of(pid: int | None) -> Limits:
    """Returns the limits of process ``pid``, which a driver inherits; those of this process if ``pid`` is
    None. Raises OSError when they cannot be read."""
    files, processes = _own_limits() if pid is None else _limits_in(Path(f"/proc/{pid}/limits").read_text())
    return Limits(files, processes, _pids_max(pid), _kernel_max())


def _own_limits() -> tuple[int, int]:
    soft = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)]
    return tuple(UNLIMITED if value == resource.RLIM_INFINITY else value for value in soft)  # type: ignore[return-value]


def _limits_in(text: str) -> tuple[int, int]:
    found = []
    for name in ("Max open files", "Max processes"):
        match = re.search(rf"^{name}\s+(\S+)", text, re.MULTILINE)
        found.append(int(match[1]) if match and match[1].isdigit() else UNLIMITED)
    return found[0], found[1]


def _pids_max(pid: int | None) -> int:
    """Returns the smallest pids.max of the process's groups, v1 or v2."""
    return _smallest(_group_files(pid, "pids", "pids.max"))


def _kernel_max() -> int:
    values = [_number("/proc/sys/kernel/pid_max"), _number("/proc/sys/kernel/threads-max")]
    return min((value for value in values if value != UNLIMITED), default=UNLIMITED)


def memory_bytes(pid: int | None) -> int | None:
    """Returns the most memory that the drivers can have, in bytes: the host's, or less if the control group
    limits it."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", _text("/proc/meminfo"), re.MULTILINE)
    total = int(match[1]) * 1024 if match else None
    limit = _smallest(
        [*_group_files(pid, "memory", "memory.max"), *_group_files(pid, "memory", "memory.limit_in_bytes")]
    )
    if limit == UNLIMITED:
        return total
    return limit if total is None else min(total, limit)


def _group_files(pid: int | None, controller: str, name: str) -> list[str]:
    """Returns the paths of ``name`` in the process's groups, and in those above, in every hierarchy that may
    have it."""
    files = []
    mounts = _text("/proc/self/mountinfo")
    for line in _text(f"/proc/{pid or 'self'}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        for mount in mounts.splitlines():
            before, _, after = mount.partition(" - ")
            kind = after.split(" ")[0]
            options = after.rsplit(" ", 1)[-1].split(",")
            if (kind == "cgroup2" and not controllers) or (
                kind == "cgroup" and controllers and controller in options
            ):
                point = before.split(" ")[4]
                for ancestor in (Path(path), *Path(path).parents):
                    files.append(f"{point}{'' if str(ancestor) == '/' else ancestor}/{name}")
    return files


def _smallest(files: Iterable[str]) -> int:
    values = [_number(file) for file in files]
    return min((value for value in values if value != UNLIMITED), default=UNLIMITED)


def _number(path: str) -> int:
    text = _text(path).strip()
    return int(text) if text.isdigit() else UNLIMITED


# -- clocks -------------------------------------------------------------------------------------------------------


def boottime_trouble() -> str:
    """Returns why CLOCK_BOOTTIME cannot be relied on; empty if it can."""
    try:
        boottime_s, monotonic_s = (
            time.clock_gettime(time.CLOCK_BOOTTIME),
            time.clock_gettime(time.CLOCK_MONOTONIC),
        )
    except (OSError, AttributeError) as error:
        return f"CLOCK_BOOTTIME cannot be read ({error})"
    if boottime_s < monotonic_s - 1.0:
        return f"CLOCK_BOOTTIME ({boottime_s:.0f} s) is behind CLOCK_MONOTONIC ({monotonic_s:.0f} s)"
    return ""


# -- directories --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Directory:
    """Describes a directory. ``exists`` is False if it would have to be made below ``existing``, the nearest
    directory that is there.

    ``error`` says why it cannot be used (cannot be written to or made, or is not a directory).
    ``file_system`` is a type like ``tmpfs``.
    """

    path: str
    exists: bool
    existing: str
    error: str = ""
    file_system: str = ""
    noexec: bool = False
    free_bytes: int | None = None
    free_files: int | None = None
    open_to_all: bool = False
    anothers: bool = False


def probe_directory(path: Path) -> Directory:
    """Describes ``path``, after trying to write a file there, which it removes again. Only the file system
    bounds it: call it with a deadline."""
    existing = path
    while not os.path.lexists(existing) and existing != existing.parent:
        existing = existing.parent
    kind, options = mount_of(existing)
    free_bytes, free_files = _room(existing)
    return Directory(
        str(path),
        existing == path,
        str(existing),
        _unusable(existing),
        kind,
        "noexec" in options,
        free_bytes,
        free_files,
        existing == path and _open_to_all(existing),
        existing == path and _is_anothers(existing),
    )


def _room(existing: Path) -> tuple[int | None, int | None]:
    """Returns the bytes and the files that this user may add. Some file systems have no number of files."""
    try:
        space = os.statvfs(existing)
    except OSError:
        return None, None
    return space.f_bavail * space.f_frsize, space.f_favail if space.f_files else None


def _unusable(existing: Path) -> str:
    if not existing.is_dir():
        return f"{existing} is not a directory"
    probe = existing / f".spark-supervisor-doctor-{secrets.token_hex(8)}"
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        return f"{existing} cannot be written to ({error.strerror})"
    with suppress(OSError):
        probe.unlink()
    return ""


def _open_to_all(existing: Path) -> bool:
    """Returns whether others may replace what is in it: it is writable for all, without the sticky bit."""
    try:
        mode = existing.stat().st_mode
    except OSError:
        return False
    return bool(mode & 0o002) and not mode & 0o1000


def _is_anothers(existing: Path) -> bool:
    """Returns whether it belongs to another user than the one of this process."""
    try:
        return existing.stat().st_uid != os.geteuid()
    except OSError:
        return False


def mount_of(path: Path, mountinfo: str | None = None) -> tuple[str, frozenset[str]]:
    """Returns type and options of the file system that ``path`` is on; both are empty if unknown."""
    target = os.path.realpath(path)
    found: tuple[str, frozenset[str]] = ("", frozenset())
    best = -1
    for line in (_text("/proc/self/mountinfo") if mountinfo is None else mountinfo).splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 6 or not after:
            continue
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:  # of two on one point, the later one is on top
            best, found = len(point), (after.split(" ")[0], frozenset(fields[5].split(",")))
    return found


# -- who runs here ------------------------------------------------------------------------------------------------


def lock_holder(file: Path) -> int | None:
    """Returns the pid of the process that holds the flock on ``file``; None if there is none, or it cannot be
    known."""
    try:
        status = file.stat()
    except OSError:
        return None
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in _text("/proc/locks").splitlines():
        fields = line.split()
        if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5] == wanted and fields[4].isdigit():
            return int(fields[4]) or None
    return None


def unit_of(pid: int) -> str | None:
    """Returns the systemd service that ``pid`` belongs to, like ``spark-supervisor.service``; None outside of
    one."""
    match = re.search(r"/([^/\n]+\.service)(?:/|$)", _text(f"/proc/{pid}/cgroup"), re.MULTILINE)
    return match[1] if match else None


@dataclass(frozen=True, slots=True)
class Unit:
    """Holds a unit file with its drop-ins. ``options`` are those of [Service], as systemd sees them: the last
    line counts, LISTS add up."""

    path: str
    options: Mapping[str, str]
    error: str = ""


def find_unit(name: str, directories: Iterable[str] = UNIT_DIRECTORIES) -> Path | None:
    """Returns the unit file that counts; None if none is installed."""
    return next((path for directory in directories if (path := Path(directory) / name).is_file()), None)


def read_unit(path: Path, directories: Iterable[str] = UNIT_DIRECTORIES) -> Unit:
    """Reads a unit file with its drop-ins, ``<name>.d/*.conf`` in the directories of systemd; for a file that
    lies elsewhere, beside it. Never raises."""
    drop_ins: dict[str, Path] = {}
    installed = str(path.parent) in (places := tuple(directories))
    for directory in reversed(places if installed else (str(path.parent),)):
        for file in sorted((Path(directory) / f"{path.name}.d").glob("*.conf")):
            drop_ins[file.name] = file
    options: dict[str, str] = {}
    for file in (path, *(drop_ins[name] for name in sorted(drop_ins))):
        try:
            _add_service_options(file.read_text(errors="replace"), options)
        except OSError as error:
            return Unit(str(path), {}, f"{file} cannot be read ({error.strerror})")
    return Unit(str(path), options)


def may_write(options: Mapping[str, str], path: str) -> bool:
    """Returns whether a unit with these options lets its service write to ``path``, which is absolute.

    Only ProtectSystem=strict is judged.
    """
    if options.get("ProtectSystem") != "strict":
        return True
    paths = options.get("ReadWritePaths", "").split()
    if any("%" in one for one in paths):  # what it stands for is known to systemd
        return True
    there = [one.lstrip("-+") for one in paths if not one.startswith("-") or Path(one.lstrip("-+")).exists()]
    open_to_it = ["/dev", "/proc", "/sys", *there]
    for key, parent in OWN_DIRECTORIES.items():
        open_to_it += [f"{parent}/{one.partition(':')[0]}" for one in options.get(key, "").split()]
    if options.get("ProtectHome", "no").lower() in ("", "no", "false", "0", "off", "n", "f"):
        open_to_it += ["/home", "/root", "/run/user"]
    target = Path(os.path.realpath(path))
    return any(target.is_relative_to(os.path.realpath(one)) for one in open_to_it)


def _add_service_options(text: str, found: dict[str, str]) -> None:
    section = ""
    for line in text.replace("\\\n", " ").splitlines():
        stripped = line.strip()
        if stripped.startswith("["):
            section = stripped
        elif section == "[Service]" and "=" in stripped and not stripped.startswith(("#", ";")):
            key, _, value = stripped.partition("=")
            before = found.get(key.strip(), "") if key.strip() in LISTS and value.strip() else ""
            found[key.strip()] = f"{before} {value.strip()}".strip()


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
