"""Runs all areas side by side, each with its deadline, and gives a line per check. Called by ``command``.

Whatever hangs or breaks in one area costs its own lines only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from supervisor.cli.doctor.findings import AnyArea, DoctorCheck, DoctorFinding, problem, skipped
from supervisor.cli.doctor.subject import Subject


@dataclass(frozen=True, slots=True)
class ReportLine:
    """One line of the report. ``ms``: how long the facts of its area took."""

    area: str
    check: str
    finding: DoctorFinding
    ms: int


def examine(subject: Subject, areas: Sequence[AnyArea]) -> list[ReportLine]:
    """Every check of every area, in order; as long as the longest deadline, at most."""
    began_s = time.monotonic()
    looks = [_Look(area, subject) for area in areas]
    for look in looks:
        look.start()
    lines: list[ReportLine] = []
    for look in looks:
        look.wait(began_s + look.limit_s)
        lines += look.lines()
    return lines


class _Look:
    """One area under way, on a daemon thread: one that hangs must not keep the process from ending."""

    def __init__(self, area: AnyArea, subject: Subject) -> None:
        self.area = area
        self._subject = subject
        self.limit_s = area.deadline_s * subject.patience
        self._facts: list[Any] = []
        self._error = ""
        self._ms = 0
        self._thread = threading.Thread(target=self._run, name=f"doctor-{area.id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self, until_s: float) -> None:
        self._thread.join(max(0.0, until_s - time.monotonic()))

    def lines(self) -> list[ReportLine]:
        if not self._facts:
            return self._unknown()
        return [
            ReportLine(self.area.id, check.id, self._judged(check), self._ms) for check in self.area.checks
        ]

    def _run(self) -> None:
        began_s = time.monotonic()
        try:
            facts = self.area.collect(self._subject)
        except Exception as error:  # noqa: BLE001 - the edge: a check that breaks must not hide what the others found
            self._error = f"{type(error).__name__}: {error}"
        else:
            self._ms = int((time.monotonic() - began_s) * 1000)
            self._facts.append(facts)

    def _judged(self, check: DoctorCheck[Any]) -> DoctorFinding:
        try:
            return check.judge(self._facts[0])
        except Exception as error:  # noqa: BLE001 - as above
            return _broken(f"{type(error).__name__}: {error}")

    def _unknown(self) -> list[ReportLine]:
        """The first check says why, the others were not looked at."""
        first, *others = self.area.checks
        limit = f"{self.area.id}: no answer within {self.limit_s:g} s"
        found = (
            _broken(self._error)
            if self._error
            else problem(
                limit, "see what hangs (disk, name service, network), or give it more time with --timeout"
            )
        )
        ms = int(self.limit_s * 1000)
        return [ReportLine(self.area.id, first.id, found, ms)] + [
            ReportLine(self.area.id, check.id, skipped(f"see {first.id}"), ms) for check in others
        ]


def _broken(error: str) -> DoctorFinding:
    return problem(f"the check itself failed: {error}", "report this, with the output of doctor -o json")
