"""The independent judge: reads what the light drivers wrote down themselves, and asks neither ZooKeeper nor product.

Every process of a driver tree notes its start and then a beat every 50–100 ms, with CLOCK_BOOTTIME, on one host: lines
can be compared to the millisecond. Called by ``tests.testbed.fleet`` at the end of every test; has tests of its own
(``test_checker.py``), which inject the defects that it is there to find.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

STARTING_S = 2.0
"""From the claim to the first line of the driver, on a busy machine: a driver claimed just before a cancel may still note
its start that much after the acknowledgement. Later, it can only have been claimed after it."""

STOPPED_S = 2.0
"""CONTRACT: an acknowledged cancel is obeyed within the stop grace and this."""

LATE_S = 2.0
"""What a busy machine may add before a driver gets to notice anything; no safety rule uses it."""


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the witness. ``at_s``: CLOCK_BOOTTIME."""

    event: str
    job: str
    uid: str
    attempt: int
    pid: int
    at_s: float
    role: str = "driver"
    batch_id: int | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A cancel of ``uid`` was acknowledged: ``at_s`` is BOOTTIME just after the command had returned."""

    job: str
    uid: str
    at_s: float
    heard: bool = True
    """False: the shim may have been deaf at that time, so only the deadline bounds its driver."""


@dataclass(frozen=True, slots=True)
class Span:
    """One attempt, from the first to the last line of any of its processes."""

    job: str
    uid: str
    attempt: int
    first_s: float
    last_s: float

    @property
    def title(self) -> str:
        return f"{self.job} {self.uid}.{self.attempt}"


def read(path: Path) -> list[Note]:
    """The notes in the order of their time. A last line that is not whole yet is left out."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return sorted(map(_note, lines), key=lambda note: note.at_s)


def _note(line: bytes) -> Note:
    body = json.loads(line)
    return Note(
        body["event"], body["job"], body["uid"], body["attempt"], body["pid"], body["boottime"],
        body.get("role", "driver"), body.get("batch_id"),
    )


def spans(notes: Iterable[Note]) -> list[Span]:
    """By the time of their first line."""
    found: dict[tuple[str, str, int], Span] = {}
    for note in notes:
        key = (note.job, note.uid, note.attempt)
        old = found.get(key)
        first_s = note.at_s if old is None else min(old.first_s, note.at_s)
        last_s = note.at_s if old is None else max(old.last_s, note.at_s)
        found[key] = Span(*key, first_s, last_s)
    return sorted(found.values(), key=lambda span: span.first_s)


def violations(notes: Sequence[Note], acknowledged: Sequence[Acknowledged], *, grace_s: float) -> list[str]:
    """Everything that is wrong, one sentence each; empty: nothing."""
    return [
        *overlaps(notes), *revived(notes, acknowledged), *outlived(notes, acknowledged, grace_s), *misnumbered(notes),
        *batch_faults(notes),
    ]


def overlaps(notes: Iterable[Note]) -> list[str]:
    """I1: of one name, whatever the uid, no attempt begins before the last word of an earlier one."""
    wrong = []
    latest: dict[str, Span] = {}
    for span in spans(notes):
        old = latest.get(span.job)
        if old is not None and span.first_s < old.last_s:
            wrong.append(f"I1: {span.title} ran together with {old.title} for {old.last_s - span.first_s:.3f} s")
        if old is None or span.last_s > old.last_s:
            latest[span.job] = span
    return wrong


def revived(notes: Iterable[Note], acknowledged: Iterable[Acknowledged]) -> list[str]:
    """I2: no attempt of a uid starts after its cancel was acknowledged."""
    cancelled = {ack.uid: ack for ack in acknowledged}
    return [
        f"I2: {span.title} started {span.first_s - cancelled[span.uid].at_s:.3f} s after its cancel was acknowledged"
        for span in spans(notes)
        if span.uid in cancelled and span.first_s > cancelled[span.uid].at_s + STARTING_S
    ]


def outlived(notes: Iterable[Note], acknowledged: Iterable[Acknowledged], grace_s: float) -> list[str]:
    """I2: an attempt claimed before is gone within its stop grace."""
    cancelled = {ack.uid: ack for ack in acknowledged if ack.heard}
    allowed_s = grace_s + STOPPED_S + LATE_S
    return [
        f"I2: {span.title} was still alive {span.last_s - cancelled[span.uid].at_s:.3f} s after its cancel"
        for span in spans(notes)
        if span.uid in cancelled and span.last_s > cancelled[span.uid].at_s + allowed_s
    ]


def misnumbered(notes: Iterable[Note]) -> list[str]:
    """Attempts of a uid are numbered upwards, and no number is used for two drivers."""
    wrong = []
    last: dict[str, Note] = {}
    for note in notes:
        if note.event != "start" or note.role != "driver":
            continue
        old = last.get(note.uid)
        if old is not None and note.attempt <= old.attempt:
            wrong.append(f"{note.job} {note.uid}: attempt {note.attempt} (pid {note.pid}) after {old.attempt} (pid {old.pid})")
        last[note.uid] = note
    return wrong


def batch_faults(notes: Iterable[Note]) -> list[str]:
    """Batch ids of a checkpoint (here: of a name) go on without repeat and without a hole.

    A driver that was killed between its commit and the note about it leaves one out: one missing id is no fault where
    the attempt changes.
    """
    wrong = []
    batches: dict[str, list[Note]] = defaultdict(list)
    for note in notes:
        if note.batch_id is not None:
            batches[note.job].append(note)
    for job, made in batches.items():
        for old, new in zip(made, made[1:], strict=False):
            assert old.batch_id is not None and new.batch_id is not None
            step = new.batch_id - old.batch_id
            same = (old.uid, old.attempt) == (new.uid, new.attempt)
            if step < 1 or step > (1 if same else 2):
                wrong.append(f"{job}: batch {new.batch_id} of attempt {new.attempt} after {old.batch_id} of {old.attempt}")
    return wrong
