"""Defines what a check says, and what a check and an area are. Pure; used by every module of ``doctor``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from supervisor.cli.doctor.subject import Subject
from supervisor.errors import Complaint

F = TypeVar("F")


class CheckVerdict(StrEnum):
    """Says how a check ended. A ``warning`` is for what works, but will hurt one day, or could not be judged
    to the end. A ``skipped`` check was not made."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """Holds what a check says. ``found`` is what is so, in one sentence. ``remedy`` is what to do about it;
    it is empty for ok and skipped."""

    verdict: CheckVerdict
    found: str
    remedy: str = ""


def ok(found: str) -> DoctorFinding:
    return DoctorFinding(CheckVerdict.OK, found)


def warning(found: str, remedy: str) -> DoctorFinding:
    return DoctorFinding(CheckVerdict.WARNING, found, remedy)


def problem(found: str, remedy: str) -> DoctorFinding:
    return DoctorFinding(CheckVerdict.PROBLEM, found, remedy)


def skipped(why: str) -> DoctorFinding:
    return DoctorFinding(CheckVerdict.SKIPPED, why)


def problem_of(complaint: Complaint, remedy: str = "") -> DoctorFinding:
    """Returns the complaint as a problem. ``remedy`` replaces the complaint's own."""
    return problem(complaint.what, remedy or complaint.remedy or "see spark-supervisor docs install-systemd")


@dataclass(frozen=True)
class DoctorCheck(Generic[F]):
    """Defines one line of the report. ``about`` is what it checks, for the list of checks.

    ``judge`` is pure.
    """

    id: str
    about: str
    judge: Callable[[F], DoctorFinding]


@dataclass(frozen=True)
class CheckGroup(Generic[F]):
    """Defines an area: facts that are collected together.

    ``collect`` is bounded by itself; ``deadline_s`` is for when it hangs after all.
    """

    id: str
    collect: Callable[[Subject], F]
    checks: tuple[DoctorCheck[F], ...]
    deadline_s: float = 13.0


AnyArea = CheckGroup[Any]
