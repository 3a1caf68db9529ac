"""Runs all areas side by side, each with its deadline, and gives a line per check. Called by ``command``.

An area that hangs or breaks costs its own lines only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from supervisor.cli.doctor.findings import AnyArea, DoctorCheck, DoctorFinding, problem, skipped
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.threads import run_in_thread


@dataclass(frozen=True, slots=True)
class ReportLine:
    """Holds one line of the report. ``ms`` is how long the facts of its area took."""

    area: str
    check: str
    finding: DoctorFinding
    ms: int


def examine(subject: Subject, areas: Sequence[AnyArea]) -> list[ReportLine]:
    """Runs every check of every area and returns the lines in order.

    It takes at most as long as the longest deadline.
    """
    began_at_s = time.monotonic()
    examinations = [_Examination(area, subject) for area in areas]
    lines: list[ReportLine] = []
    for examination in examinations:
        examination.wait(began_at_s + examination.limit_s)
        lines += examination.lines()
    return lines


class _Examination:
    """Runs one area, in a thread that must not keep the process from ending when it hangs."""

    def __init__(self, area: AnyArea, subject: Subject) -> None:
        self.area = area
        self._subject = subject
        self.limit_s = area.deadline_s * subject.patience
        self._ms = 0
        self._facts: Future[Any] = run_in_thread(f"doctor-{area.id}", self._collect)

    def wait(self, until_at_s: float) -> None:
        wait([self._facts], max(0.0, until_at_s - time.monotonic()))

    def lines(self) -> list[ReportLine]:
        if not self._facts.done():
            limit = f"{self.area.id}: no answer within {self.limit_s:g} s"
            remedy = "see what hangs (disk, name service, network), or give it more time with --timeout"
            return self._unknown(problem(limit, remedy))
        error = self._facts.exception()
        if error is not None:  # a check that breaks must not hide what the others found
            return self._unknown(_broken(f"{type(error).__name__}: {error}"))
        return [
            ReportLine(self.area.id, check.id, self._judged(check), self._ms) for check in self.area.checks
        ]

    def _collect(self) -> Any:
        began_at_s = time.monotonic()
        facts = self.area.collect(self._subject)
        self._ms = int((time.monotonic() - began_at_s) * 1000)
        return facts

    def _judged(self, check: DoctorCheck[Any]) -> DoctorFinding:
        try:
            return check.judge(self._facts.result())
        except Exception as error:  # noqa: BLE001 - the edge of one check
            return _broken(f"{type(error).__name__}: {error}")

    def _unknown(self, found: DoctorFinding) -> list[ReportLine]:
        """Returns lines of which the first check says why, and the others that they were not made."""
        first, *others = self.area.checks
        ms = int(self.limit_s * 1000)
        return [ReportLine(self.area.id, first.id, found, ms)] + [
            ReportLine(self.area.id, check.id, skipped(f"see {first.id}"), ms) for check in others
        ]


def _broken(error: str) -> DoctorFinding:
    return problem(f"the check itself failed: {error}", "report this, with the output of doctor -o json")
