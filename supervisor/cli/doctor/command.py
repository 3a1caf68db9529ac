"""``doctor [SPEC.yaml]``: a line per check, with the remedy. Exit code 1 on a problem, 2 for a configuration or spec that
cannot be read at all; a server that does not answer is a problem, not an error."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supervisor.cli.doctor.words import NO_SPEC
from supervisor.cli.options import Chosen, command, seconds
from supervisor.cli.output import clean, say

if TYPE_CHECKING:
    from supervisor.cli.doctor.examine import Line

_STYLES = {"ok": "32", "warning": "33", "problem": "31;1", "skipped": "2"}

Spec = Annotated[Path | None, typer.Argument(metavar="[SPEC.yaml]", help="Check what this job needs, too.")]
UnitFile = Annotated[Path | None, typer.Option("--unit", metavar="FILE", help="Unit file to check; else the installed one.")]
Listed = Annotated[bool, typer.Option("--list", help="Only list the checks, and what each looks at.")]

Limit = Annotated[
    str, typer.Option("--timeout", metavar="TIME", help="For all of it; more for a slow host. Each check has its share.")
]
WHOLE_S = 15.0


@command
def doctor(chosen: Chosen, spec: Spec = None, unit: UnitFile = None, listed: Listed = False, timeout: Limit = "15s") -> int:
    """Check Java, Spark, ZooKeeper, the store and this host, and say what to do about each problem.

    With a spec, also what that job needs: its files, S3A jars, checkpoint, packages. Exit code 1 if there is a problem;
    a warning is none. Run it as the user that runs the supervisor: permissions and limits are those of who looks.

    \b
    Examples:
      spark-supervisor doctor
      spark-supervisor doctor jobs/clicks.yaml -o json
      spark-supervisor doctor --unit deploy/systemd/spark-supervisor.service
    """
    from supervisor.cli.doctor.catalogue import AREAS
    from supervisor.cli.doctor.catalogue import listed as list_checks
    from supervisor.cli.doctor.examine import examine
    from supervisor.cli.doctor.subject import Subject
    from supervisor.registry.spec_files import read_spec_file

    if listed:
        return _list(chosen, list_checks())
    patience = seconds("--timeout", timeout) / WHOLE_S
    settings = chosen.settings()
    job = read_spec_file(spec, settings.defaults) if spec is not None else None
    lines = examine(Subject(settings, dict(os.environ), job, spec, unit, patience), AREAS)
    counts = Counter(line.finding.verdict.value for line in lines)
    bad = counts["problem"] > 0
    if chosen.document:
        chosen.say({"ok": not bad, "counts": dict(counts), "checks": [_document(line) for line in lines]})
    else:
        _print(lines, counts)
    return 1 if bad else 0


def _list(chosen: Chosen, checks: tuple[tuple[str, str, str], ...]) -> int:
    if chosen.document:
        chosen.say([{"area": area, "check": check, "about": about} for area, check, about in checks])
        return 0
    width = max(len(check) for _, check, _ in checks)
    for _, check, about in checks:
        say(f"{check:<{width}}  {about}")
    return 0


def _document(line: Line) -> dict[str, Any]:
    finding = line.finding
    return {
        "area": line.area,
        "check": line.check,
        "verdict": finding.verdict.value,
        "found": finding.found,
        "remedy": finding.remedy or None,
        "ms": line.ms,
    }


def _print(lines: list[Line], counts: Counter[str]) -> None:
    width = max(len(line.check) for line in lines)
    without = [line for line in lines if line.finding.verdict == "skipped" and line.finding.found == NO_SPEC]
    for line in lines:
        if line in without:
            continue
        finding = line.finding
        say_styled(f"{finding.verdict.value:<8}", finding.verdict.value, f"{line.check:<{width}}  {finding.found}")
        if finding.remedy:
            say(f"{'':<8}  {'remedy:':>{width}}  {finding.remedy}")
    if without:
        say_styled(f"{'skipped':<8}", "skipped", f"{len(without)} checks of a job: {NO_SPEC}, see doctor SPEC.yaml")
    print()
    told = [
        f"{counts[word]} {word}{'s' if word in ('warning', 'problem') and counts[word] != 1 else ''}" for word in _STYLES
    ]
    say(", ".join(told))


def say_styled(head: str, verdict: str, rest: str) -> None:
    """Colours on a terminal only."""
    shown = f"\033[{_STYLES[verdict]}m{head}\033[0m" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else head
    print(f"{shown}  {clean(rest)}")
