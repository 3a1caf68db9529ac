"""What a check says, and what a check and an area are. Pure; used by every module of ``doctor``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from supervisor.cli.doctor.subject import Subject

F = TypeVar("F")


class Verdict(StrEnum):
    """``warning``: works, but will hurt one day, or could not be judged to the end. ``skipped``: was not looked at."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """``found``: what is so, in one sentence. ``remedy``: what to do about it; empty for ok and skipped."""

    verdict: Verdict
    found: str
    remedy: str = ""


def ok(found: str) -> Finding:
    return Finding(Verdict.OK, found)


def warning(found: str, remedy: str) -> Finding:
    return Finding(Verdict.WARNING, found, remedy)


def problem(found: str, remedy: str) -> Finding:
    return Finding(Verdict.PROBLEM, found, remedy)


def skipped(why: str) -> Finding:
    return Finding(Verdict.SKIPPED, why)


def problem_said(sentence: str, remedy: str = "") -> Finding:
    """What an error of ours says: what is wrong, and after a semicolon the remedy."""
    what, _, told = sentence.partition("; ")
    return problem(what, remedy or told or "see spark-supervisor docs install")


@dataclass(frozen=True)
class Check(Generic[F]):
    """One line of the report. ``about``: what it looks at, for the list of checks. ``judge``: pure."""

    id: str
    about: str
    judge: Callable[[F], Finding]


@dataclass(frozen=True)
class Area(Generic[F]):
    """Facts that are collected together. ``collect`` is bounded by itself; ``deadline_s`` is for when it hangs after all."""

    id: str
    collect: Callable[[Subject], F]
    checks: tuple[Check[F], ...]
    deadline_s: float = 13.0


AnyArea = Area[Any]
