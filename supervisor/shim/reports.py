"""Receives what the driver, or the host's supervisor for it, reports to the shim: datagrams on a socket in
the channel of the attempt (``run_dir``). It also sends orders the other way, to the socket that the driver's bootstrap
binds there (``spark/orders.py``).

Everything that arrives here comes from user code: nothing of it is trusted to be complete, of the right type,
or rare. Where the driver runs as another Unix user, the kernel says of each datagram whose it is: what only the
supervisor says (``OF_SUPERVISOR``) is heard from it alone, and nobody else but the driver's user is heard at all.
Called by ``runner``.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from supervisor.clients.channel import DRIVERS_OWN
from supervisor.clients.run_dir import ORDERS, REPORT
from supervisor.clock import wall_iso
from supervisor.model.batch_time import TimedBatch
from supervisor.model.checkpoint_expectation import QUERIES_MAX
from supervisor.model.driver_user import DriverUser
from supervisor.model.location import LOCATION_MAX_BYTES
from supervisor.model.records import Progress, clip
from supervisor.model.root_cause import cause_text
from supervisor.model.secret_words import covered
from supervisor.model.sinks import NamedSink, named_sink
from supervisor.model.web_address import web_address
from supervisor.shim.state import InPlace, Reported

DATAGRAM_MAX_BYTES = 8192
TAKEN_AT_ONCE = 50
REPORTS_PER_S: Final = 1000
"""A driver that reports more often waits for its shim: the socket keeps ten."""
OF_SUPERVISOR: Final = frozenset({"wanted", "discard", "handed", "cluster"})
_TEXT_MAX_BYTES = 1024
_NAME_MAX_BYTES = 120
_ID_MAX_CHARS = 36
TRIGGERS: Final = frozenset({"processing", "continuous", "real_time", "available_now", "once"})
BATCH_ID_MAX = 2**63 - 1
"""Spark's batch id is a long. Python's integers have no limit: one of some thousand digits would not fit into
the lease record."""
NUMBER_MAX: Final = 1e15
BATCH_MS_MAX: Final = 1e12
TRIGGER_MAX_S: Final = 1e8
STATE_MAX_BYTES: Final = 2**60
"""What is computed of reported numbers has to stay within the bounds of a record, whatever a driver reports."""
TEXTS: Final = ("message", "why", "error")
"""These are words of the application or of Spark: what has failed, and why."""
Cover = Callable[[str], str]
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid, as the kernel fills them in


class ReportSocket:
    """Is the socket. It is bound through /proc/self/fd, so that the 108 bytes of a socket address are enough
    for any directory. ``user`` is that of the driver, or None if it is this process's own. ``cover`` takes the secrets out
    of a text."""

    def __init__(self, channel: str, user: DriverUser | None = None, cover: Cover = str) -> None:
        self._cover = cover
        directory = os.open(channel, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        path = f"/proc/self/fd/{directory}/{REPORT}"
        if os.path.lexists(path):
            os.unlink(path)
        self._user = user
        self._orders = f"/proc/self/fd/{directory}/{ORDERS if user is None else f'{DRIVERS_OWN}/{ORDERS}'}"
        self._left, self._second = REPORTS_PER_S, 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        if user is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(path)
        if user is not None:
            os.chmod(path, 0o666)  # who gets to it is for the directory to say

    def fileno(self) -> int:
        return self._socket.fileno()

    def order(self, order: str, within_s: float) -> bool:
        """Sends an order to the driver's bootstrap. Returns False if nobody takes orders there. It never
        blocks."""
        data = json.dumps({"order": order, "within_s": within_s}).encode()
        try:
            # Not what a link of the driver's leads to: this process may reach sockets that the driver may not.
            target = os.open(self._orders, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if self._takes_orders(os.fstat(target)):
                    self._socket.sendto(data, f"/proc/self/fd/{target}")
                    return True
            finally:
                os.close(target)
        except OSError:
            pass
        return False

    def _takes_orders(self, found: os.stat_result) -> bool:
        """Returns whether it is a socket of the driver's user."""
        return stat.S_ISSOCK(found.st_mode) and (self._user is None or found.st_uid == self._user.uid)

    def take(self) -> list[Reported]:
        """Returns what has arrived, at most 50 reports, and ``REPORTS_PER_S`` in a second: a driver that sends very many
        must not keep the shim from its lease, nor a processor from others."""
        reports = []
        for _ in range(min(TAKEN_AT_ONCE, self._allowed())):
            try:
                report = self._received()
            except OSError:  # nothing more
                break
            self._left -= 1
            if report is not None:
                reports.append(report)
        return reports

    def paused_s(self) -> float:
        """Returns for how many seconds nothing is taken any more; 0.0 if something would be."""
        return 0.0 if self._allowed() else 1.0 - time.monotonic() % 1.0

    def _allowed(self) -> int:
        second = int(time.monotonic())
        if second != self._second:
            self._left, self._second = REPORTS_PER_S, second
        return self._left

    def _received(self) -> Reported | None:
        """Takes one datagram. Returns None for what is no report, or not from whom may send it. Raises OSError."""
        if self._user is None:
            return parse(self._socket.recv(DATAGRAM_MAX_BYTES), self._cover)
        data, ancillary, _flags, _address = self._socket.recvmsg(
            DATAGRAM_MAX_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size)
        )
        sender = next(
            (_CREDENTIALS.unpack(raw)[1] for _, kind, raw in ancillary if kind == socket.SCM_CREDENTIALS),
            None,
        )
        if sender not in (os.getuid(), self._user.uid):
            return None
        report = parse(data, self._cover)
        is_supervisors = report is not None and report.event in OF_SUPERVISOR
        return None if is_supervisors and sender != os.getuid() else report


def parse(data: bytes, cover: Cover = str) -> Reported | None:
    """Parses one datagram. Returns None for what is no report. It raises nothing, whatever ``data`` is. ``cover`` takes the
    secrets out of a text before it is cut: of half a secret nobody would know that it is one."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not isinstance(body.get("event"), str):
        return None
    event = body["event"][:20]
    body |= {name: cover(body[name]) for name in TEXTS if isinstance(body.get(name), str)}
    reported = Reported(event, query=_text(body.get("query")), id=_text(body.get("id")), at=wall_iso())
    if "checkpoint" in body:
        reported = replace(reported, committed=_committed(body))
    if event in ("progress", "looked"):
        return replace(
            reported,
            progress=_progress(body),
            batch=_batch(body),
            state_bytes=_count(body.get("state_bytes"), STATE_MAX_BYTES),
        )
    if event == "error":
        kind, message = _one_line(body.get("kind")), _one_line(body.get("message"))
        once = message if message.startswith(f"{kind}: ") else f"{kind}: {message}"
        return replace(reported, error=cause_text(once, _TEXT_MAX_BYTES))
    if event == "session":
        master = clip(_one_line(body.get("master")), _NAME_MAX_BYTES)
        return replace(reported, spark_ui=web_address(body.get("spark_ui")), master=master)
    if event == "trigger":
        kind, interval_s = _one_line(body.get("kind")), _within(body.get("interval_s"), 0.001, TRIGGER_MAX_S)
        return replace(reported, trigger=kind if kind in TRIGGERS else "", interval_s=interval_s)
    if event == "executors":
        return replace(reported, executors=_count(body.get("count")))
    if event in ("ready", "unready", "cluster", "unknown"):
        return replace(reported, error=cause_text(_one_line(body.get("why")), _TEXT_MAX_BYTES))
    if event == "terminated" and body.get("error"):
        return replace(reported, error=cause_text(_one_line(body["error"]), _TEXT_MAX_BYTES))
    if event == "stopping":
        queries = body.get("queries")
        return replace(reported, queries=queries if isinstance(queries, int) else 0)
    return reported


def _committed(body: dict[str, Any]) -> tuple[InPlace, ...]:
    """Returns the committed batches: that of the query which the report is about or, for a JVM application,
    all in ``committed`` (id → batch)."""
    checkpoint = body.get("checkpoint")
    if (
        not isinstance(checkpoint, str)
        or not 0 < len(checkpoint.encode(errors="replace")) <= LOCATION_MAX_BYTES
    ):
        return ()
    reported, sink = body.get("committed"), _sink(body.get("sink"))
    batches = (
        list(reported.items())[:QUERIES_MAX]
        if isinstance(reported, dict)
        else [(body.get("id"), body.get("batch_id"))]
    )
    return tuple(
        InPlace(query_id, batch, checkpoint, body.get("unnamed") is True, sink)
        for query_id, batch in batches
        if isinstance(query_id, str)
        and 0 < len(query_id) <= _ID_MAX_CHARS
        and query_id.isascii()
        and query_id.isprintable()
        and " " not in query_id
        and '"' not in query_id
        and "\\" not in query_id
        and isinstance(batch, int)
        and not isinstance(batch, bool)
        and 0 <= batch <= BATCH_ID_MAX
    )


def _sink(value: Any) -> NamedSink | None:
    """Returns the sink from its class and what Spark calls it, or None."""
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(each, str) for each in value):
        return None
    return named_sink(value[0], covered(value[1]))


def _one_line(value: Any) -> str:
    """Returns a text or a number as text. A value that holds others may be nested deeper than it can be
    written out."""
    return str(value) if isinstance(value, str | int | float) and not _is_endless(value) else ""


def _is_endless(value: Any) -> bool:
    """Returns whether a value is a number that Python refuses to write out, for its length."""
    return isinstance(value, int) and abs(value) > BATCH_ID_MAX


def _count(value: Any, most: int = BATCH_ID_MAX) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
    return value if is_count else None


def _text(value: Any) -> str:
    return clip(value, _NAME_MAX_BYTES) if isinstance(value, str) else ""


def _progress(body: dict[str, Any]) -> Progress:
    query = body.get("query")
    batch = body.get("batch_id")
    return Progress(
        query=clip(query, _NAME_MAX_BYTES) if isinstance(query, str) else None,
        batch_id=batch
        if isinstance(batch, int) and not isinstance(batch, bool) and abs(batch) <= BATCH_ID_MAX
        else None,
        input_rows_per_s=_number(body.get("input_rows_per_s")),
        processed_rows_per_s=_number(body.get("processed_rows_per_s")),
        batch_ms=_number(body.get("batch_ms")),
        at=wall_iso(),
        lag=_number(body.get("lag")),
        state_rows=_number(body.get("state_rows")),
        trigger_interval_s=_within(body.get("trigger_interval_s"), 0.001, TRIGGER_MAX_S),
    )


def _batch(body: dict[str, Any]) -> TimedBatch | None:
    """Returns what a batch with rows took. A driver that does not report how many they were has said how many it did a
    second."""
    ms = _within(body.get("batch_ms"), 0.0, BATCH_MS_MAX)
    rows = _number(body.get("rows"))
    done_per_s = _number(body.get("processed_rows_per_s"))
    if rows is None and ms is not None and done_per_s is not None:
        rows = _number(round(done_per_s * ms / 1000))
    if ms is None or rows is None or rows < 1:
        return None
    return TimedBatch(rows, ms, _within(body.get("input_rows_per_s"), 0.0, NUMBER_MAX))


def _within(value: Any, least: float, most: float) -> float | None:
    """Returns a number within bounds, or None."""
    number = _number(value)
    return number if number is not None and least <= number <= most else None


def _number(value: Any) -> float | None:
    """Returns a finite number, or None: NaN is no JSON for those who read the record."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < NUMBER_MAX else None
