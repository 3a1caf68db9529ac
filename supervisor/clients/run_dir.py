"""Reads and writes the run directory of one attempt, ``<runtime_dir>/attempts/<uid>.<attempt>``, which shim,
twin and guardian share.

=============  ============================================================================================
launch.json    is written by the agent before the shim starts (model/launch.py; mode 0600, may hold secrets)
lock           is locked by shim and twin as long as either lives; a process that gets the lock knows that
               neither does
shim.json      says which process the shim is, and the id of its claim (from before the claim is sent)
twin.json      says which process the twin is; for humans
driver.json    says which process the driver's root is (from before exec)
deadline       holds one line: until when the driver may live
report         is a datagram socket: what the driver reports
orders         is a datagram socket of the driver: what the shim asks of it (from its first SparkSession on)
gate           is written by the agent: whether the application may begin (only if the driver was started
               before that was known)
shim.log       is the shim's log, in JSON lines (kept in the log directory when the attempt is over)
handed.json    is written once by the agent into the directory of a prepared driver (``<uid>.p<random>``): the launch of
               the attempt that is handed to it. ``attempts/<uid>.<attempt>`` is then a link to the directory
opening        is written once by the shim of a prepared driver, after its claim has committed and the deadline was
               written: the application may begin
ready          is written once by the shim of a prepared driver: how far it has come (``Readiness``)
kills          says, for metrics, who had to kill the driver tree, and how long that took
=============  ============================================================================================

A driver of another Unix user than the supervisor's gets to no run directory. For it ``report``, ``orders``, ``gate`` and
``opening`` are in a *channel* (``clients.channel``); ``directory`` is that where this module speaks of these files.

A missing or unreadable file proves nothing (protocol §5, exit), and a file that is not regular counts as
missing. Renewing a lease needs no new file here: on a full disk the deadline is overwritten in place. This
module imports the standard library only: the twin carries for life what is imported here.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from supervisor.clients.access import READ, grant
from supervisor.clients.processes import ProcessId

LAUNCH, LOCK, DEADLINE, REPORT, ORDERS, GATE = "launch.json", "lock", "deadline", "report", "orders", "gate"
SHIM, TWIN, DRIVER = "shim.json", "twin.json", "driver.json"
SHIM_LOG, KILLS = "shim.log", "kills"
HANDED, OPENING, READY = "handed.json", "opening", "ready"

LAUNCH_MAX_BYTES = 4 * 2**20
_DEADLINE_WIDTH = 20
_PID_MAX = 2**22
_TICKS_MAX = 2**63 - 1
_KILL_MAX_S = 86_400.0
_RECORD_MAX_BYTES = 4096
_VERDICT_MAX_BYTES = 65536
_READY_MAX_BYTES = 65536
HANDED_MAX_BYTES = 16 * 2**20
"""A launch file holds the environment of the driver, which the kernel bounds, and it is read by processes that must not
be made to hold more."""
_NO_FILE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO))


class ShimRecord(NamedTuple):
    """Holds the content of shim.json."""

    process: ProcessId
    claim: str


class StartVerdict(NamedTuple):
    """Holds the content of gate. ``cause`` is a ``model.records.Cause``, which says why the application must
    not begin; if it is empty, it may."""

    cause: str = ""
    why: str = ""


class Opening(NamedTuple):
    """Holds the content of opening: the attempt ``claim`` lets the application begin, if it does so before
    ``before_at_s`` (CLOCK_BOOTTIME). ``env``, ``hadoop_conf`` and ``spark_conf`` are set before its first line."""

    claim: str
    before_at_s: float
    env: dict[str, str]
    hadoop_conf: dict[str, str]
    spark_conf: Mapping[str, str] = MappingProxyType({})


class Readiness(NamedTuple):
    """Holds the content of ready: a prepared driver waits at its barrier, or ``why`` says why it never will.

    If ``why`` is set although it is ready, it says what is missing (a session that was not warmed). ``at_s`` is
    CLOCK_BOOTTIME."""

    ready: bool
    why: str
    at_s: float


class DeadlineFile:
    """Holds the moment (CLOCK_BOOTTIME, seconds) until when the driver may live, or None if there is no
    driver to kill.

    It is one line of fixed length with a checksum, overwritten in place by one ``pwrite`` call: the page is
    there from the start, so a full disk cannot stop it (F56), which a new file plus rename could not promise.
    The checksum reveals a torn read. The twin reads through the descriptor that it inherits, so removing the
    file does not blind it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def create(cls, run_dir: str) -> DeadlineFile:
        """Makes the file, with None in it. Raises OSError, also when there is no room: then nothing may be
        started."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        made = cls(os.open(f"{run_dir}/{DEADLINE}", flags, 0o600))
        made.write(None)
        return made

    def write(self, deadline_at_s: float | None) -> None:
        """Overwrites the deadline. Raises OSError."""
        text = "none" if deadline_at_s is None else f"{deadline_at_s:.6f}"
        body = f"{text:>{_DEADLINE_WIDTH}}".encode()
        line = b"%s %08x\n" % (body, zlib.crc32(body))
        if os.pwrite(self._descriptor, line, 0) != len(line):
            raise OSError("the deadline was written in part only")

    def read(self) -> float | None:
        """Returns the deadline. Raises ValueError for a torn or foreign content, OSError if it can't be
        read."""
        return parse_deadline(os.pread(self._descriptor, 64, 0))


def parse_deadline(line: bytes) -> float | None:
    """Returns the deadline that the line says. Raises ValueError."""
    body, check = line[:_DEADLINE_WIDTH], line[_DEADLINE_WIDTH:].strip()
    if len(body) != _DEADLINE_WIDTH or check != b"%08x" % zlib.crc32(body):
        raise ValueError("not a deadline, or a torn one")
    text = body.decode("ascii").strip()
    if text == "none":
        return None
    deadline_at_s = float(text)
    if deadline_at_s - deadline_at_s != 0.0:
        raise ValueError(f"{text} is no time")
    return deadline_at_s


def read_deadline(run_dir: str) -> float | None:
    """Does as ``DeadlineFile.read``, by path."""
    line = read_file(f"{run_dir}/{DEADLINE}", 64)
    if line is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{run_dir}/{DEADLINE}")
    return parse_deadline(line)


def read_file(path: str, max_bytes: int) -> bytes | None:
    """Returns the first ``max_bytes`` of a regular file. Returns None if there is none, or something else has
    its name: reading a pipe would block without end, and a link leads to files of others. Raises OSError
    where that cannot be known."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = b""
        while len(data) < max_bytes and (more := os.read(descriptor, max_bytes - len(data))):
            data += more
        return data
    finally:
        os.close(descriptor)


def directories(attempts_dir: str) -> set[str]:
    """Returns the names of the run directories, without drafts and links: what a link leads to belongs to
    others. Raises OSError."""
    try:
        with os.scandir(attempts_dir) as entries:
            return {
                entry.name
                for entry in entries
                if entry.name[0] != "." and entry.is_dir(follow_symlinks=False)
            }
    except FileNotFoundError:
        return set()


def create(attempts_dir: str, key: str, launch: bytes) -> str | None:
    """Makes the run directory for ``key`` = ``<uid>.<attempt>`` with its launch.json; returns None if there
    is one already.

    One already there means that a shim was started for this entry before: it or the guardian will deal with
    it. The directory is complete or absent, also after a crash. Raises OSError.
    """
    os.makedirs(attempts_dir, mode=0o700, exist_ok=True)
    final, made = f"{attempts_dir}/{key}", f"{attempts_dir}/.{key}.{os.getpid()}"
    if os.path.exists(final):
        return None
    _remove_tree(made)
    os.mkdir(made, 0o700)
    try:
        write_atomically(f"{made}/{LAUNCH}", launch)
        os.rename(made, final)  # onto a non-empty directory: refused by the kernel
    except OSError:
        _remove_tree(made)
        if os.path.exists(final):
            return None
        raise
    return final


def remove_drafts(attempts_dir: str, under_way: frozenset[str]) -> None:
    """Removes what processes that died in ``create`` left: it may hold secrets, and nothing else would ever
    remove it.

    ``under_way`` are the keys that this process may be creating just now. Only one supervisor uses the
    directory. Never raises.
    """
    try:
        drafts = [name for name in os.listdir(attempts_dir) if name[0] == "."]
    except OSError:
        return
    for draft in drafts:
        path = f"{attempts_dir}/{draft}"
        if draft[1:].rpartition(".")[0] not in under_way and os.path.isdir(path) and not os.path.islink(path):
            _remove_tree(path)  # to open a pipe would wait for ever


def write_atomically(path: str, data: bytes) -> None:
    """Writes a file with mode 0600: it has the new content or the old one, never a part. Raises OSError."""
    temporary = f"{path}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
    os.rename(temporary, path)


def take_lock(run_dir: str) -> int | None:
    """Locks the run directory without waiting; returns a descriptor that holds the lock (also for children
    that inherit it).

    Returns None if a process holds the lock, or the directory is being removed. Raises OSError for anything
    else.
    """
    try:
        descriptor = os.open(
            f"{run_dir}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            return descriptor
    except BlockingIOError:
        pass
    except OSError:
        os.close(descriptor)  # or whoever asks again would be refused by this very process
        raise
    os.close(descriptor)  # somebody has it, or it was removed between open and lock
    return None


def is_deserted(run_dir: str) -> bool:
    """Returns whether there is a lock file whose lock no process holds; False if there is no lock file.
    Raises OSError."""
    if not os.path.lexists(f"{run_dir}/{LOCK}"):
        return False
    lock = take_lock(run_dir)
    if lock is None:
        return False
    os.close(lock)
    return True


def write_process(path: str, process: ProcessId, claim: str = "") -> None:
    """Records a process. Raises OSError."""
    body = {
        "v": 1,
        "pid": process.pid,
        "start_ticks": process.start_ticks,
        "boot_id": process.boot_id,
        "claim": claim,
    }
    write_atomically(path, json.dumps(body).encode())


def read_process(path: str) -> ShimRecord | None:
    """Returns the recorded process; None if the record is absent or not believable."""
    try:
        body: dict[str, Any] = json.loads(read_file(path, _RECORD_MAX_BYTES) or b"")
        process = ProcessId(int(body["pid"]), int(body["start_ticks"]), str(body["boot_id"]))
        is_one = 0 < process.pid <= _PID_MAX and 0 <= process.start_ticks <= _TICKS_MAX
        return ShimRecord(process, str(body["claim"])) if is_one else None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def write_verdict(directory: str, verdict: StartVerdict, reader: int | None = None) -> bool:
    """Writes the verdict once: returns False when there was one already, or the attempt is over. ``reader``
    is another user who may read it. Raises OSError."""
    data = json.dumps({"cause": verdict.cause, "why": verdict.why}).encode()
    return _write_once(directory, GATE, data, lambda: read_verdict(directory) is not None, reader)


def _write_once(
    run_dir: str, name: str, data: bytes, is_there: Callable[[], bool], reader: int | None = None
) -> bool:
    """Writes a file with mode 0600, which the user ``reader`` may read too, whole, unless ``is_there`` says that there is a
    believable one: then, and if there is no directory any more, it returns False. Raises OSError."""
    if is_there():
        return False
    drawn, final = f"{run_dir}/.{name}.{os.urandom(4).hex()}", f"{run_dir}/{name}"
    try:
        with open(drawn, "xb", opener=_private) as file:
            file.write(data)
        if reader is not None:
            grant(drawn, reader, READ)
        try:
            os.link(drawn, final)
        except PermissionError:  # a file system without hard links
            os.replace(drawn, final)
        except FileExistsError:
            if is_there():
                return False
            os.replace(drawn, final)  # what is there is not believable
        return True
    except FileNotFoundError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(drawn)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def read_verdict(directory: str) -> StartVerdict | None:
    """Returns the verdict; None if nothing is decided yet, or it is not believable."""
    try:
        body: dict[str, Any] = json.loads(read_file(f"{directory}/{GATE}", _VERDICT_MAX_BYTES) or b"")
        return StartVerdict(str(body["cause"]), str(body["why"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def hand_over(attempts_dir: str, prepared_key: str, attempt_key: str, launch: bytes) -> bool:
    """Hands the attempt ``attempt_key`` = ``<uid>.<attempt>`` to the prepared driver ``prepared_key``, by the launch of
    the attempt. Returns True if the attempt is this driver's, also if it was before.

    First the name of the attempt becomes a link to the directory of the prepared driver: whoever makes it decides by
    what the attempt is started. Then the launch is written there. A process that died in between goes on here; the
    launch that is there already counts. It returns False if the driver is gone or was taken for another attempt, or if
    the attempt has a run directory or another driver already: no link to this driver is left then. Raises OSError.
    """
    directory, link = f"{attempts_dir}/{prepared_key}", f"{attempts_dir}/{attempt_key}"
    taken = _attempt_of(read_handed(directory))
    if taken not in (None, attempt_key) or not os.path.isdir(directory):
        _unlink_if_to(link, prepared_key)
        return False
    try:
        os.symlink(prepared_key, link)
    except FileExistsError:
        if _link_target(link) != prepared_key:
            return False
    _write_once(directory, HANDED, launch, lambda: _attempt_of(read_handed(directory)) is not None)
    if _attempt_of(read_handed(directory)) == attempt_key:
        return True
    _unlink_if_to(link, prepared_key)
    return False


def read_handed(run_dir: str) -> bytes | None:
    """Returns the launch by which an attempt was handed to the prepared driver of this directory; None if none was, or
    what is there is no such file. Raises OSError."""
    data = read_file(f"{run_dir}/{HANDED}", HANDED_MAX_BYTES + 1)
    return data if data and len(data) <= HANDED_MAX_BYTES else None


def _attempt_of(launch: bytes | None) -> str | None:
    """Returns the key ``<uid>.<attempt>`` of a launch as far as it can be told without knowing its other fields; an
    empty text if it is not believable, and None if there is none."""
    if launch is None:
        return None
    try:
        entry = json.loads(launch)["assignment"]
        return f"{entry['uid']}.{int(entry['attempt'])}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def remove_dangling_links(attempts_dir: str, kept: frozenset[str] = frozenset()) -> None:
    """Removes the names of attempts whose prepared driver is gone, with its directory, but for those in ``kept``. A link to
    anything but a sibling directory of a prepared driver is not ours. Never raises."""
    try:
        with os.scandir(attempts_dir) as entries:
            links = [entry.name for entry in entries if entry.is_symlink() and entry.name not in kept]
    except OSError:
        return
    for name in links:
        target = _link_target(f"{attempts_dir}/{name}")
        if target is not None and _is_prepared(target) and not os.path.lexists(f"{attempts_dir}/{target}"):
            _unlink_if_to(f"{attempts_dir}/{name}", target)


def _is_prepared(key: str) -> bool:
    """Says the same as ``records.layout.is_prepared``, which the twin would have to carry."""
    uid, _, rest = key.rpartition(".")
    random = rest.removeprefix("p")
    return bool(uid) and "/" not in uid and random != rest and random.isascii() and random.isalnum()


def _link_target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _unlink_if_to(path: str, target: str) -> None:
    if _link_target(path) == target:
        with contextlib.suppress(OSError):
            os.unlink(path)


def write_opening(directory: str, opening: Opening, reader: int | None = None) -> bool:
    """Writes the opening, once and whole. Returns False if anything has its name already (the application may have begun
    by it), or there is no directory any more. ``reader`` is another user who may read it. Raises OSError."""
    path = f"{directory}/{OPENING}"
    data = json.dumps({**opening._asdict(), "spark_conf": dict(opening.spark_conf)}).encode()
    return _write_once(directory, OPENING, data, lambda: os.path.lexists(path), reader)


def read_opening(directory: str) -> Opening | None:
    """Returns the opening; None if there is none, or it is not believable."""
    try:
        body: dict[str, Any] = json.loads(read_file(f"{directory}/{OPENING}", HANDED_MAX_BYTES) or b"")
        env, hadoop_conf = dict(body["env"]), dict(body["hadoop_conf"])
        spark_conf = dict(body.get("spark_conf", {}))
        return Opening(str(body["claim"]), float(body["before_at_s"]), env, hadoop_conf, spark_conf)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def write_readiness(run_dir: str, readiness: Readiness) -> bool:
    """Writes once how far a prepared driver has come. Returns False if that was said already. Raises OSError."""
    data = json.dumps(readiness._asdict()).encode()
    return _write_once(run_dir, READY, data, lambda: read_readiness(run_dir) is not None)


def read_readiness(run_dir: str) -> Readiness | None:
    """Returns how far a prepared driver has come; None while it is being brought up, or if it is not believable."""
    try:
        body: dict[str, Any] = json.loads(read_file(f"{run_dir}/{READY}", _READY_MAX_BYTES) or b"")
        return Readiness(body["ready"] is True, str(body["why"]), float(body["at_s"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def note_kill(run_dir: str, killer: str, took_s: float) -> None:
    """Records a kill for the metrics of the process that removes the directory. Losing the record on a full
    disk is acceptable: never raises."""
    try:
        descriptor = os.open(
            f"{run_dir}/{KILLS}", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            os.write(descriptor, f"{killer} {took_s:.3f}\n".encode())
        finally:
            os.close(descriptor)
    except OSError:
        pass


def read_kills(run_dir: str) -> list[tuple[str, float]]:
    """Returns (killer, seconds) of each kill; torn lines are left out."""
    kills: list[tuple[str, float]] = []
    try:
        text = (read_file(f"{run_dir}/{KILLS}", _RECORD_MAX_BYTES) or b"").decode("ascii", "replace")
    except OSError:
        return kills
    for line in text.splitlines():
        killer, _, took = line.partition(" ")
        with contextlib.suppress(ValueError):
            if 0.0 <= float(took) <= _KILL_MAX_S:
                kills.append((killer, float(took)))
    return kills


def remove(run_dir: str, before_removal: Callable[[], None] = lambda: None) -> bool:
    """Removes the directory if no process holds its lock; returns False otherwise. The lock is removed last,
    so that no shim can start there meanwhile.

    ``before_removal`` is called when it is certain that no process lives there any more; if it raises
    OSError, False is returned.
    """
    lock = take_lock(run_dir)
    if lock is None:
        return not os.path.exists(run_dir)
    try:
        before_removal()
        for entry in os.listdir(run_dir):
            if entry != LOCK:
                _remove_entry(f"{run_dir}/{entry}")
        os.unlink(f"{run_dir}/{LOCK}")
        os.rmdir(run_dir)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _remove_entry(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        _remove_tree(path)
    else:
        os.unlink(path)


def _remove_tree(path: str) -> None:
    import shutil  # with bz2 and lzma; the agent and the guardian remove, a shim and its twin never do

    shutil.rmtree(path, ignore_errors=True)
