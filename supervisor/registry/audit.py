"""Keeps the audit: who asked for which write, in the store below ``audit/``, one object a line, numbered without a gap.

The command line appends (``operations.auditing``) and reads (``operations.audit``). An object is created and never
replaced (``Store.create``): of two writers that want the same number one wins, and the other reads the line that is there
and takes the next number. Each line has the SHA-256 of the line before. /audit in ZooKeeper has the newest number that is
known to be in the store, with its SHA-256, so that it shows when the newest lines are gone.

What this proves: that a line was changed, that one is missing between two others, and that the newest are missing, as long
as /audit says so. What it can't prove: that all of it was written anew, by somebody who may write to the store and to
ZooKeeper; syslog on another host can. Whoever writes to ZooKeeper without the command line leaves no line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from supervisor.clients.store.base import Store
from supervisor.clients.threads import Pool
from supervisor.errors import Conflict, Corrupt, GuardFailed, NotFound, SupervisorError, Unreachable
from supervisor.model.records import AuditEnd, AuditLine
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.transaction import Create, Op, SetData, Transaction
from supervisor.records.codec import MAX_RECORD_BYTES, decode, encode
from supervisor.records.ids import new_op_id
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkSession
from supervisor.records.reading import seen
from supervisor.registry.blobs import CLUSTER_KEY, Blobs

AUDIT: Final = "audit/"
PER_FOLDER: Final = 1000
APPEND_TRIES: Final = 100
PUBLISH_TRIES: Final = 3
READ_AT_ONCE: Final = 64
READERS: Final = 16
LINES_READ_MAX: Final = 10_000
ENTRIES_MAX: Final = 10 * PER_FOLDER
"""So many objects of a folder are looked at, of which only ``PER_FOLDER`` can be lines."""
TOO_LARGE: Final = b"larger than any line"
NOTHING: Final = AuditEnd(number=0, sha256="")


def line_key(number: int) -> str:
    """Returns where the line ``number`` lies."""
    return f"{_folder(number)}{number:012d}.json"


def _folder(number: int) -> str:
    return f"{AUDIT}{number // PER_FOLDER:09d}/"


class AuditLog:
    """Appends lines. ``store`` and ``zoo`` are asked for at the first use. It is not thread-safe."""

    def __init__(self, store: Callable[[], Store], zoo: Callable[[], ZkSession], layout: Layout) -> None:
        self._store = store
        self._zoo = zoo
        self._layout = layout
        self._end: AuditEnd | None = None

    def append(self, entry: AuditLine) -> tuple[AuditLine, str]:
        """Returns ``entry`` with its number, as it is durable in the store, and its SHA-256. Raises Conflict (others keep
        taking the next number, or the store is another cluster's), Unreachable (the store has lost its mark, as one that is
        not mounted), and what the store raises."""
        store = self._store()
        if self._end is None:
            require_own(store, self._layout)
        end = self._end if self._end is not None else find_end(store, _known(self._zoo(), self._layout))
        for _ in range(APPEND_TRIES):
            line = replace(entry, number=end.number + 1, before=end.sha256)
            data = encode(line)
            try:
                store.create(line_key(line.number), data)
            except Conflict:
                end = find_end(store, _end_at(store, line.number))  # a command may have waited for hours
                continue
            self._end = AuditEnd(number=line.number, sha256=_sha256(data))
            self._publish(self._end)
            return line, self._end.sha256
        raise Conflict("the audit keeps being written by others: no line was added", "try again")

    def _publish(self, end: AuditEnd) -> None:
        """Says in /audit that ``end`` is in the store, unless a newer line is known. It is a hint: what goes wrong here
        shows with the write that the line is about."""
        path = self._layout.audit
        try:
            for _ in range(PUBLISH_TRIES):
                zoo = self._zoo()
                known: Seen[AuditEnd] = seen(AuditEnd, zoo.read(path), path)
                if isinstance(known, Found) and known.record.number >= end.number:
                    return
                data = encode(end)
                put: Op = Create(path, data) if known is None else SetData(path, data, known.version)
                try:
                    zoo.commit(Transaction("audit", new_op_id(), (put,)))
                    return
                except GuardFailed:
                    continue
        except SupervisorError:
            return


def require_own(store: Store, layout: Layout) -> None:
    """Raises Unreachable if ``store`` has no mark of a cluster: a directory that is not mounted would take the line, and
    nobody would find it again. Raises Conflict if the mark is that of another root."""
    mark = Blobs(store).read_cluster()
    if mark is None:
        raise Unreachable(f"{store.url} has no {CLUSTER_KEY}: is it mounted and intact?")
    if mark.root != layout.root:
        raise Conflict(f"{store.url} belongs to the cluster at root {mark.root}, not {layout.root}")


def find_end(store: Store, known: AuditEnd) -> AuditEnd:
    """Returns the newest line: the last of those that follow ``known`` without a gap, a request for each folder. What lies
    beyond a gap is no line: whoever may create objects could put one far ahead, and hide all lines before it."""
    number = known.number
    while True:
        reached = _last_without_gap(store, number)
        ends_folder = _folder(reached + 1) != _folder(reached)
        if reached == number or not ends_folder:
            break
        number = reached
    found = _found(store, reached) if reached != known.number else known
    return known if found is None else found


def _last_without_gap(store: Store, number: int) -> int:
    """Returns the last number that follows ``number`` without a gap in the folder of the next one."""
    entries = store.entries(_folder(number + 1), line_key(number))
    for entry in islice(entries, ENTRIES_MAX):
        if entry.key == line_key(number + 1):
            number += 1
        elif entry.key > line_key(number + 1):
            break
    return number


def _found(store: Store, number: int) -> AuditEnd | None:
    try:
        return _end_at(store, number)
    except NotFound:
        return None


def _end_at(store: Store, number: int) -> AuditEnd:
    return AuditEnd(number=number, sha256=_sha256(_content(store, number)))


def _content(store: Store, number: int) -> bytes:
    """Returns the line ``number`` as it is stored, and ``TOO_LARGE`` for an object that can be none: who may create one
    must not keep all others from adding lines, nor from reading theirs. Raises NotFound."""
    try:
        return store.read(line_key(number), MAX_RECORD_BYTES)
    except Corrupt:
        return TOO_LARGE


def _known(zoo: ZkSession, layout: Layout) -> AuditEnd:
    known = _seen_end(zoo, layout)
    return known.record if isinstance(known, Found) else NOTHING


def _seen_end(zoo: ZkSession, layout: Layout) -> Seen[AuditEnd]:
    return seen(AuditEnd, zoo.read(layout.audit), layout.audit)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# -- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AuditReading:
    """Holds lines, oldest first, and what was verified: the lines ``first`` to ``last`` (0: none). ``flaws`` are what is
    wrong with them, a sentence each; ``unproven`` is what could not be verified, or empty."""

    lines: tuple[AuditLine, ...]
    first: int
    last: int
    flaws: tuple[str, ...]
    unproven: str = ""


def read_audit(
    store: Store, zoo: ZkSession, layout: Layout, count: int, about: str | None = None
) -> AuditReading:
    """Returns the newest ``count`` lines, or those about the job ``about``, and verifies all that it reads, from the end
    back. At most ``LINES_READ_MAX`` are read. Raises what the store and ZooKeeper raise."""
    known = _seen_end(zoo, layout)
    end = known.record if isinstance(known, Found) else NOTHING
    last = find_end(store, end).number
    chain, wanted = _Chain(known), 0
    number = last
    with Pool(READERS, "audit") as pool:
        while number > 0 and wanted < count and last - number < LINES_READ_MAX:
            numbers = range(number, max(0, number - READ_AT_ONCE), -1)
            for each, data in zip(numbers, pool.map(lambda n: _data(store, n), numbers), strict=True):
                line = chain.add(each, data)
                number = each - 1
                wanted += line is not None and about in (None, line.name)
                if wanted >= count:
                    break
    flaws = [*_beyond(store, last), *chain.flaws]
    if last and not isinstance(known, Found):
        why = known.reason if isinstance(known, Unreadable) else f"{layout.audit} is not there"
        chain.unproven = f"whether newer lines are missing ({why})"
    lines = [line for line in reversed(chain.lines) if about in (None, line.name)]
    return AuditReading(tuple(lines), number + 1 if last else 0, last, tuple(flaws), chain.unproven)


class _Chain:
    """Verifies lines that are added from the newest to the oldest."""

    def __init__(self, known: Seen[AuditEnd]) -> None:
        self.lines: list[AuditLine] = []
        self.flaws: list[str] = []
        self.unproven = ""
        self._known = known.record if isinstance(known, Found) else NOTHING
        self._after: AuditLine | None = None
        self._gap: range = range(0)

    def add(self, number: int, data: bytes | None) -> AuditLine | None:
        after, self._after = self._after, None
        if data is None:
            self._miss(number)
            return None
        digest = _sha256(data)
        if number == self._known.number and digest != self._known.sha256:
            self.flaws.append(
                f"line {number} is not the one that was written: ZooKeeper knows another SHA-256"
            )
        if after is not None and after.before != digest:
            self.flaws.append(f"line {after.number} does not follow line {number}: one of both was changed")
        try:
            line = decode(AuditLine, data, line_key(number))
        except Corrupt as error:
            self.flaws.append(f"line {number} can't be read: {error}")
            return None
        if line.number != number:
            self.flaws.append(f"line {number} says that it is line {line.number}")
            return None
        if number == 1 and line.before:
            self.flaws.append("line 1 follows another one, which is missing")
        self._after = line
        self.lines.append(line)
        return line

    def _miss(self, number: int) -> None:
        """Notes that a line is missing. Those beside each other are one flaw: of a store that was lost all are."""
        if number + 1 in self._gap:
            self.flaws.pop()
            self._gap = range(number, self._gap.stop)
            self.flaws.append(f"lines {number} to {self._gap.stop - 1} are missing")
        else:
            self._gap = range(number, number + 1)
            self.flaws.append(f"line {number} is missing")


def _data(store: Store, number: int) -> bytes | None:
    try:
        return _content(store, number)
    except NotFound:
        return None


def _beyond(store: Store, last: int) -> list[str]:
    """Returns what is wrong if a line stands behind the end: those in between are missing. A line that was added since the
    end was found is no such line, and has all before it."""
    folder = _folder(last + 1)
    after = next(store.entries(folder, line_key(last)), None)
    if after is None or _found(store, last + 1) is not None:
        return []
    return [f"line {last + 1} is missing, although there is {after.key.removeprefix(folder)} after it"]
