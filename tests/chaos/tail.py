"""The witness while it is being written: read as it grows, and kept small, so that a look costs the same after an hour."""

from __future__ import annotations

from pathlib import Path

from tests.faults import checker
from tests.faults.checker import WitnessNote
from tests.testbed.growing import Growing


class Tail:
    """Of the beats of a process only the last one is kept: no rule of the judge looks at those between."""

    def __init__(self, path: Path) -> None:
        self._file = Growing(path)
        self._notes: list[WitnessNote] = []
        self._beats: dict[tuple[str, int, int], WitnessNote] = {}

    def notes(self) -> list[WitnessNote]:
        """All so far, in the order of their time."""
        for note in map(checker.parse, self._file.new_lines()):
            if note.event == "beat":
                self._beats[note.uid, note.attempt, note.pid] = note
            else:
                self._notes.append(note)
        return sorted([*self._notes, *self._beats.values()], key=lambda note: note.at_s)
