"""The independent judge: reads what the light drivers wrote down themselves, and asks neither ZooKeeper nor product.

Every process of a driver tree notes its start and then a beat every 50–100 ms, with CLOCK_BOOTTIME, on one host: lines
can be compared to the millisecond. Called by ``tests.testbed.fleet`` at the end of every test; has tests of its own
(``test_checker.py``), which inject the defects that it is there to find.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests import judges

STARTING_S = 2.0
"""From the claim to the first line of the driver, on a busy machine: a driver claimed just before a cancel may still note
its start that much after the acknowledgement. Later, it can only have been claimed after it."""

STOPPED_S = 2.0
"""An acknowledged cancel is obeyed within the stop grace and this."""

LATE_S = 2.0
"""What a busy machine may add before a driver gets to notice anything; no safety rule uses it."""

BEAT_S = 0.5
"""A driver that lives writes a line much more often. Its death lies between its last line and this much later."""


@dataclass(frozen=True, slots=True)
class WitnessNote:
    """One line of the witness. ``at_s``: CLOCK_BOOTTIME."""

    event: str
    job: str
    uid: str
    attempt: int
    pid: int
    at_s: float
    role: str = "driver"
    batch_id: int | None = None
    host: str = ""
    """Of a start, where the test names its hosts (WITNESS_HOST)."""
    tree: int = 0
    """The pid of the root of a tree that was prepared; 0: it was not. Until its barrier was passed ``attempt`` is 0, and its
    children never learn of another one."""
    claim: str = ""
    """Of an ``opened``: by which claim the barrier was passed."""

    @property
    def is_prepared(self) -> bool:
        """It is of a tree that was prepared, and says nothing of an attempt."""
        return bool(self.tree) and not self.attempt


@dataclass(frozen=True, slots=True)
class DeadShim:
    """The shim of a prepared driver was killed at ``at_s`` (BOOTTIME). ``tree``: the pid of its driver's root."""

    job: str
    uid: str
    tree: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A cancel of ``uid`` was acknowledged: ``at_s`` is BOOTTIME just after the command had returned."""

    job: str
    uid: str
    at_s: float
    heard: bool = True
    """False: the shim may have been deaf at that time, so only the deadline bounds its driver."""
    lease_s: float | None = None
    """Of the job, to judge a deaf shim by its deadline. None: that is not judged."""

    @property
    def starts_until_at_s(self) -> float:
        """A driver claimed before the cancel may note its start until then. A deaf shim executes it until its deadline."""
        return self.at_s + (STARTING_S if self.heard or self.lease_s is None else self.lease_s)

    def ends_until_at_s(self, grace_s: float) -> float | None:
        """A driver claimed before the cancel is gone by then; None: no bound is known. A shim that hears of the cancel at
        the last moment before its deadline has the whole grace from there."""
        allowed_s = grace_s + STOPPED_S + LATE_S
        if self.heard:
            return self.at_s + allowed_s
        return None if self.lease_s is None else self.at_s + self.lease_s + allowed_s


@dataclass(frozen=True, slots=True)
class Harm:
    """Something that the test did, and that may end attempts: those of ``jobs`` (None: of all) on ``host`` ("": on any).

    ``begun_at_s`` … ``ended_at_s``: when such an end may come, aftermath included. BOOTTIME. ``over_at_s``: what began clearly after that
    was never hit. ``kind`` "": it ends nothing, but a driver may be silent meanwhile, so that its last line tells less about
    when it died.
    """

    kind: str
    begun_at_s: float
    ended_at_s: float
    jobs: frozenset[str] | None = None
    host: str = ""
    over_at_s: float = float("inf")

    def meets(self, span: Span, until_at_s: float) -> bool:
        """Whether it came upon ``span`` between its last line and ``until_at_s``."""
        return (
            (self.jobs is None or span.job in self.jobs)
            and self.host in ("", span.host)
            and span.first_at_s <= self.over_at_s + STARTING_S
            and self.begun_at_s <= until_at_s
            and span.last_at_s - BEAT_S <= self.ended_at_s
        )


@dataclass(frozen=True, slots=True)
class WantedRun:
    """``uid`` was acknowledged as to run, and nothing has been in its way since ``since_at_s``."""

    job: str
    uid: str
    since_at_s: float


@dataclass(frozen=True, slots=True)
class Span:
    """One attempt, from the first to the last line of any of its processes."""

    job: str
    uid: str
    attempt: int
    first_at_s: float
    last_at_s: float
    host: str = ""

    @property
    def driver(self) -> judges.Driver:
        return judges.Driver(self.job, self.uid, self.attempt)

    @property
    def title(self) -> str:
        return self.driver.title


def read(path: Path, newest_bytes: int | None = None) -> list[WitnessNote]:
    """The notes in the order of their time. A last line that is not whole yet is left out.

    ``newest_bytes``: only the end of the record, for a look while it is being written.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            start = 0 if newest_bytes is None else max(0, size - newest_bytes)
            file.seek(start)
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return sorted(map(parse, lines[1:] if start else lines), key=lambda note: note.at_s)


def parse(line: bytes) -> WitnessNote:
    """One line of the witness."""
    body = json.loads(line)
    return WitnessNote(
        body["event"],
        body["job"],
        body["uid"],
        body["attempt"],
        body["pid"],
        body["boottime"],
        body.get("role", "driver"),
        body.get("batch_id"),
        body.get("host", ""),
        body.get("tree", 0),
        body.get("claim", ""),
    )


def of_attempts(notes: Iterable[WitnessNote]) -> list[WitnessNote]:
    """The notes of attempts. What a prepared tree wrote before its barrier was passed is of none; what any process of it writes
    from then on is of the attempt that was handed to it."""
    found = sorted(notes, key=lambda note: note.at_s)
    opened = {(note.uid, note.tree): note for note in reversed(found) if note.event == "opened"}
    of = []
    for note in found:
        if note.is_prepared:
            first = opened.get((note.uid, note.tree))
            if first is None or note.at_s < first.at_s:
                continue
            note = replace(note, attempt=first.attempt)
        of.append(note)
    return of


def spans(notes: Iterable[WitnessNote]) -> list[Span]:
    """By the time of their first line. A number that is used again (which is wrong in itself) is another span: a process
    belongs to the newest driver of its number at the time of its first line."""
    found: dict[tuple[str, str, int, int], Span] = {}
    drivers: dict[tuple[str, int], int] = defaultdict(int)
    belongs: dict[tuple[str, int, int], int] = {}
    for note in of_attempts(notes):
        number, process = (note.uid, note.attempt), (note.uid, note.attempt, note.pid)
        if note.event == "start" and note.role == "driver":
            drivers[number] += 1
            belongs[process] = drivers[number]
        turn = belongs.setdefault(process, max(1, drivers[number]))
        key = (note.job, note.uid, note.attempt, turn)
        old = found.get(key)
        first_at_s = note.at_s if old is None else min(old.first_at_s, note.at_s)
        last_at_s = note.at_s if old is None else max(old.last_at_s, note.at_s)
        found[key] = Span(
            note.job, note.uid, note.attempt, first_at_s, last_at_s, note.host or (old.host if old else "")
        )
    return sorted(found.values(), key=lambda span: span.first_at_s)


def violations(
    notes: Sequence[WitnessNote],
    acknowledged: Sequence[Acknowledged],
    *,
    grace_s: float,
    restored_at_s: Sequence[float] = (),
) -> list[str]:
    """Everything that is wrong, one sentence each; empty: nothing. ``restored_at_s``: when ZooKeeper got older data back."""
    return [
        *overlaps(notes),
        *revived(notes, acknowledged),
        *outlived(notes, acknowledged, grace_s),
        *misnumbered(notes, restored_at_s),
        *batch_faults(notes),
        *unopened(notes),
    ]


def overlaps(notes: Iterable[WitnessNote]) -> list[str]:
    """I1: of one name, whatever the uid, no attempt begins before the last word of an earlier one."""
    wrong = []
    latest: dict[str, Span] = {}
    for span in spans(notes):
        old = latest.get(span.job)
        if old is not None and span.first_at_s < old.last_at_s:
            together_s = old.last_at_s - span.first_at_s
            wrong.append(f"{judges.two_drivers(span.driver, old.driver)}, for {together_s:.3f} s")
        if old is None or span.last_at_s > old.last_at_s:
            latest[span.job] = span
    return wrong


def revived(notes: Iterable[WitnessNote], acknowledged: Iterable[Acknowledged]) -> list[str]:
    """I2: no attempt of a uid starts after its cancel was acknowledged, but for the one that was claimed before; there is
    none of that kind where another attempt was alive at that time."""
    cancelled = {ack.uid: ack for ack in acknowledged}
    wrong, alive = [], set()
    for span in spans(notes):
        ack = cancelled.get(span.uid)
        if ack is None:
            continue
        if span.first_at_s > ack.starts_until_at_s or (span.uid in alive and span.first_at_s > ack.at_s):
            wrong.append(
                f"I2: {span.title} started {span.first_at_s - ack.at_s:.3f} s after its cancel was acknowledged"
            )
        if span.first_at_s <= ack.at_s < span.last_at_s or span.first_at_s > ack.at_s:
            alive.add(span.uid)
    return wrong


def outlived(notes: Iterable[WitnessNote], acknowledged: Iterable[Acknowledged], grace_s: float) -> list[str]:
    """I2: an attempt claimed before is gone within its stop grace."""
    until_at_s = {ack.uid: (ack.at_s, ack.ends_until_at_s(grace_s)) for ack in acknowledged}
    wrong = []
    for span in spans(notes):
        at_s, end_at_s = until_at_s.get(span.uid, (0.0, None))
        if end_at_s is not None and span.last_at_s > end_at_s:
            wrong.append(judges.outlived_cancel(span.driver, f"{span.last_at_s - at_s:.3f} s"))
    return wrong


WAITING = frozenset({"start", "beat", "ready", "term", "stop"})
"""All that a prepared driver writes before its barrier: nothing of it is the application."""


def unopened(notes: Iterable[WitnessNote]) -> list[str]:
    """I1: the application of a prepared driver begins only behind its barrier, which one claim opens, once."""
    wrong = []
    opened: dict[str, WitnessNote] = {}
    for note in notes:
        title = f"{note.job} {note.uid}, prepared driver {note.tree}"
        if note.is_prepared and note.event not in WAITING:
            wrong.append(f"I1: {title}: its application ran before a claim ({note.event} at {note.at_s:.3f})")
        if note.event != "opened":
            continue
        if not note.claim:
            wrong.append(f"I1: {title}: it passed its barrier without a claim")
        other = opened.setdefault(note.claim, note)
        if other is not note:
            wrong.append(f"I1: {title}: the claim {note.claim} has let {other.tree} begin already")
    trees = defaultdict(set)
    for note in opened.values():
        trees[note.uid, note.tree].add(note.attempt)
    return wrong + [
        f"I1: {uid}, prepared driver {tree}: it began as attempts {sorted(attempts)}"
        for (uid, tree), attempts in trees.items()
        if len(attempts) > 1
    ]


ORPHAN_S = 6.0
"""A prepared tree is gone so long after its shim was killed: the twin kills it at once, and the machine may be busy."""


def orphaned(notes: Iterable[WitnessNote], dead: Iterable[DeadShim]) -> list[str]:
    """Nothing of a prepared tree goes on without its shim, whether it was handed an attempt or not."""
    last: dict[tuple[str, int], WitnessNote] = {}
    for note in notes:
        if note.tree:
            last[note.uid, note.tree] = note
    found = [(each, last[each.uid, each.tree]) for each in dead if (each.uid, each.tree) in last]
    return [
        f"left behind: {each.job} {each.uid}, prepared driver {each.tree}: process {note.pid} of its tree was alive "
        f"{note.at_s - each.at_s:.3f} s after the death of its shim"
        for each, note in found
        if note.at_s > each.at_s + ORPHAN_S
    ]


def left_prepared(notes: Iterable[WitnessNote], since_at_s: float, kept: Container[str] = ()) -> list[str]:
    """Left behind: prepared drivers that spoke after ``since_at_s``, of uids for which none is ``kept``. The children of one that
    has begun are of an attempt (``of_attempts``), which ``unwanted`` judges."""
    found = list(notes)
    begun = {(note.uid, note.tree) for note in found if note.tree and not note.is_prepared}
    last = {
        (note.uid, note.tree): note
        for note in found
        if note.is_prepared and (note.uid, note.tree) not in begun and note.uid not in kept
    }
    return [
        f"left behind: {note.job} {uid}, prepared driver {tree}, was alive {note.at_s - since_at_s:.3f} s after that"
        for (uid, tree), note in last.items()
        if note.at_s > since_at_s
    ]


def disturbed(notes: Iterable[WitnessNote], harms: Sequence[Harm], alive_at_s: float) -> list[str]:
    """I6: an attempt ends only if something was done that may end it. Faults of supervisors and of single servers are no
    harm, so an attempt that ends with nothing else around it was disturbed by them. ``alive_at_s``: who spoke after that had
    not ended when the record did."""
    return [
        f"I6: {span.title} on {span.host or 'its host'} ended at {span.last_at_s:.3f}, and nothing was done to it"
        for span in spans(notes)
        if span.last_at_s < alive_at_s and not causes(span, harms)
    ]


def causes(span: Span, harms: Sequence[Harm]) -> list[Harm]:
    """What may have ended ``span``."""
    silent = [
        harm.ended_at_s for harm in harms if not harm.kind and harm.meets(span, span.last_at_s + BEAT_S)
    ]
    until_at_s = max(silent, default=span.last_at_s) + BEAT_S
    return [harm for harm in harms if harm.kind and harm.meets(span, until_at_s)]


def lost(notes: Iterable[WitnessNote], wanted: Iterable[WantedRun]) -> list[str]:
    """I3: what was acknowledged as to run has spoken since then."""
    last_at_s: dict[str, float] = {}
    for note in of_attempts(notes):
        last_at_s[note.uid] = max(note.at_s, last_at_s.get(note.uid, 0.0))
    return [
        f"I3: {each.job} {each.uid} does not run ({_since(last_at_s.get(each.uid), each.since_at_s)})"
        for each in wanted
        if last_at_s.get(each.uid, 0.0) < each.since_at_s
    ]


def _since(last_at_s: float | None, since_at_s: float) -> str:
    return (
        "it never did"
        if last_at_s is None
        else f"last heard of {since_at_s - last_at_s:.1f} s before it was due"
    )


def unwanted(notes: Iterable[WitnessNote], wanted: Iterable[WantedRun], since_at_s: float) -> list[str]:
    """Left behind: drivers that spoke after ``since_at_s`` though nobody wants their uid."""
    uids = {each.uid for each in wanted}
    return [
        f"left behind: {span.title} was alive {span.last_at_s - since_at_s:.3f} s after everything had settled"
        for span in spans(notes)
        if span.last_at_s > since_at_s and span.uid not in uids
    ]


def misnumbered(notes: Iterable[WitnessNote], restored_at_s: Sequence[float] = ()) -> list[str]:
    """Attempts of a uid are numbered upwards, and no number is used for two drivers; but an older registry that was restored
    in between does not know the numbers that were used since."""
    wrong = []
    last: dict[str, WitnessNote] = {}
    for note in notes:
        if note.event != "start" or note.role != "driver":
            continue
        old = last.get(note.uid)
        lost = old is not None and any(old.at_s < at_s < note.at_s for at_s in restored_at_s)
        if old is not None and note.attempt <= old.attempt and not lost:
            wrong.append(
                f"{note.job} {note.uid}: attempt {note.attempt} (pid {note.pid}) after {old.attempt} (pid {old.pid})"
            )
        last[note.uid] = note
    return wrong


def batch_faults(notes: Iterable[WitnessNote]) -> list[str]:
    """Batch ids of a checkpoint (here: of a name) go on without repeat and without a hole.

    A driver that was killed between its commit and the note about it leaves one out: one missing id is no fault where
    the attempt changes.
    """
    wrong = []
    batches: dict[str, list[WitnessNote]] = defaultdict(list)
    for note in notes:
        if note.batch_id is not None:
            batches[note.job].append(note)
    for job, made in batches.items():
        for old, new in zip(made, made[1:], strict=False):
            assert old.batch_id is not None and new.batch_id is not None
            step = new.batch_id - old.batch_id
            same = (old.uid, old.attempt) == (new.uid, new.attempt)
            if step < 1 or step > (1 if same else 2):
                wrong.append(
                    f"{job}: batch {new.batch_id} of attempt {new.attempt} after {old.batch_id} of {old.attempt}"
                )
    return wrong
