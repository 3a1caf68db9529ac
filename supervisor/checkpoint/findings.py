"""Defines what can be wrong with a checkpoint, as values: code, sentence, object, remedy. It is used by
``judge`` and ``preflight``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """Names a problem; the names are stable, for scripts. One of the first group keeps the query from going
    on, or lets it go on from the wrong position."""

    MISSING = "missing"
    EMPTIED = "emptied"
    FOREIGN = "foreign"
    TRUNCATED = "truncated"
    OTHERS = "others"
    METADATA_MISSING = "metadata_missing"
    METADATA_UNREADABLE = "metadata_unreadable"
    OFFSETS_MISSING = "offsets_missing"
    OFFSET_UNREADABLE = "offset_unreadable"
    PREVIOUS_OFFSET_MISSING = "previous_offset_missing"
    PREVIOUS_OFFSET_UNREADABLE = "previous_offset_unreadable"
    COMMIT_UNREADABLE = "commit_unreadable"
    COMMIT_AHEAD = "commit_ahead"
    COMMIT_BEHIND = "commit_behind"
    SOURCE_LOG_MISSING = "source_log_missing"
    STATE_MISSING = "state_missing"
    STATE_INCOMPLETE = "state_incomplete"
    OPERATOR_UNREADABLE = "operator_unreadable"
    CHECKSUM_WRONG = "checksum_wrong"

    HOLE = "hole"  # a notice: not at the tail, so a start does not meet it
    NEWER_FORMAT = "newer_format"  # a notice: this software is older than what wrote it


NOTICES = frozenset({Code.HOLE, Code.NEWER_FORMAT})


@dataclass(frozen=True, slots=True)
class CheckpointFinding:
    """Describes a problem. ``sentence`` says what is wrong, ``remedy`` what can be done. ``object`` is the
    key below the location, or the location. ``query`` is the query's directory, ``""`` for the location
    itself."""

    code: Code
    sentence: str
    object: str
    remedy: str
    query: str = ""

    @property
    def is_notice(self) -> bool:
        """Returns whether the finding is worth knowing, but no problem."""
        return self.code in NOTICES

    def __str__(self) -> str:
        return f"{self.sentence} ({self.object}); {self.remedy}"
