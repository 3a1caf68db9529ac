"""What the drivers of a ``Fleet`` wrote down themselves: the record that fault tests believe. A part of ``tests.testbed.fleet``."""

from __future__ import annotations

import threading
from bisect import insort
from collections import defaultdict
from functools import cached_property
from pathlib import Path

from tests.faults import checker
from tests.faults.checker import WitnessNote
from tests.testbed.fleet_commands import PATIENCE_S
from tests.testbed.growing import Growing
from tests.waiting import wait_until


class Record:
    """The notes of each job, in the order of their time. A look parses only what was written since the last one: waits look often."""

    def __init__(self, path: Path) -> None:
        self._file = Growing(path)
        self._lock = threading.Lock()
        self._by_job: dict[str, list[WitnessNote]] = defaultdict(list)

    def of(self, job: str | None) -> list[WitnessNote]:
        with self._lock:
            for note in map(checker.parse, self._file.new_lines()):
                insort(self._by_job[note.job], note, key=_time)
            if job is not None:
                return list(self._by_job.get(job, ()))
            return sorted((note for notes in self._by_job.values() for note in notes), key=_time)

    def forget(self, job: str) -> None:
        with self._lock:
            self._by_job.pop(job, None)


def _time(note: WitnessNote) -> float:
    return note.at_s


class FleetWitness:
    """``witness_file``: all drivers of the fleet append to it."""

    witness_file: Path

    @cached_property
    def record(self) -> Record:
        return Record(self.witness_file)

    def notes(self, name: str | None = None, uid: str | None = None) -> list[WitnessNote]:
        """What the drivers wrote down, of one job or of one uid."""
        return [note for note in self.record.of(name) if uid is None or note.uid == uid]

    def starts(self, name: str, uid: str | None = None) -> list[WitnessNote]:
        """Starts of driver roots, in the order of their time."""
        return [n for n in self.notes(name, uid) if n.event == "start" and n.role == "driver"]

    def last_batch(self, name: str) -> int:
        return max((n.batch_id for n in self.notes(name) if n.batch_id is not None), default=-1)

    def wait_batches(self, name: str, more: int = 3, timeout_s: float = PATIENCE_S) -> int:
        """Until the driver has committed ``more`` batches from now on; the newest batch id then."""
        wanted = self.last_batch(name) + more
        wait_until(lambda: self.last_batch(name) >= wanted, timeout_s, f"{more} more batches of {name}")
        return self.last_batch(name)

    def wait_attempt(
        self, name: str, attempt: int, timeout_s: float = PATIENCE_S, uid: str | None = None
    ) -> WitnessNote:
        """The start of that attempt's driver, or of a later one."""

        def started() -> WitnessNote | None:
            return next((n for n in self.starts(name, uid) if n.attempt >= attempt), None)

        return wait_until(started, timeout_s, f"attempt {attempt} of {name}")

    def assert_undisturbed(self, *names: str) -> None:
        """One start ever, and the driver goes on making batches."""
        for name in names:
            self.wait_batches(name, 2)
            starts = self.starts(name)
            assert [n.attempt for n in starts] == [1], f"{name} was restarted: {starts}"

    def assert_undisturbed_uid(self, name: str, uid: str) -> None:
        """As ``assert_undisturbed``, of one uid of a name that has had others."""
        self.wait_batches(name, 2)
        starts = self.starts(name, uid)
        assert [n.attempt for n in starts] == [1], f"{name} {uid} was restarted: {starts}"
