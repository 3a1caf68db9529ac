"""Implements the ``doctor [SPEC.yaml]`` command: prints what is not ok, each with its remedy; with ``-v`` a
line per check.

The exit code is 1 on a problem, 2 for a configuration or spec that cannot be read at all; a server that does
not answer is a problem, not an error.
"""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from supervisor.cli.doctor.catalogue import AREAS
from supervisor.cli.doctor.catalogue import listed as list_checks
from supervisor.cli.doctor.examine import ReportLine, examine
from supervisor.cli.doctor.phrases import NO_SPEC
from supervisor.cli.doctor.subject import Subject
from supervisor.cli.options import Chosen, command, seconds
from supervisor.cli.output import clean, print_labelled, print_line, terminal_width, with_local_times
from supervisor.model.phrases import counted
from supervisor.spec.files import read_spec_file

_STYLES = {"ok": "32", "warning": "33", "problem": "31;1", "skipped": "2"}

Spec = Annotated[Path | None, typer.Argument(metavar="[SPEC.yaml]", help="Check what this job needs, too.")]
UnitFile = Annotated[
    Path | None, typer.Option("--unit", metavar="FILE", help="Unit file to check; else the installed one.")
]
Listed = Annotated[bool, typer.Option("--list", help="Only list the checks, and what each looks at.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also the checks that are ok, and those that were skipped.")
]
Limit = Annotated[
    str,
    typer.Option(
        "--timeout", metavar="TIME", help="For all of it; more for a slow host. Each check has its share."
    ),
]
Deep = Annotated[
    bool,
    typer.Option("--deep", help="Also run a tiny application on each cluster, which takes a minute or two."),
]
WHOLE_S = 15.0
"""All of it takes at most this long with a patience of 1. By default it has three times that, for a host
under load: the limits are for what hangs, and nothing that answers is waited for longer."""


@command
def doctor(
    chosen: Chosen,
    spec: Spec = None,
    unit: UnitFile = None,
    listed: Listed = False,
    verbose: Verbose = False,
    timeout: Limit = "45s",
    deep: Deep = False,
) -> int:
    """Check Java, Spark, ZooKeeper, the store and this host, and say what to do about each problem.

    Only what is not ok is printed, and how many checks were; -v prints all.
    With a spec, also what that job needs: its files, S3A jars, checkpoint, packages. Exit code 1 if there is a problem;
    a warning is none. Run it as the user that runs the supervisor: permissions and limits are those of who looks.

    \b
    Examples:
      spark-supervisor doctor
      spark-supervisor doctor -v
      spark-supervisor doctor jobs/clicks.yaml -o json
      spark-supervisor doctor --unit deploy/systemd/spark-supervisor.service
    """
    if listed:
        return _list(chosen, list_checks())
    patience = seconds("--timeout", timeout) / WHOLE_S
    settings = chosen.settings_of_host()
    job = read_spec_file(spec, settings.defaults) if spec is not None else None
    lines = examine(Subject(settings, dict(os.environ), job, spec, unit, patience, deep), AREAS)
    counts = Counter(line.finding.verdict.value for line in lines)
    bad = counts["problem"] > 0
    if chosen.document:
        chosen.print_document(
            {"ok": not bad, "counts": dict(counts), "checks": [line_document(line) for line in lines]}
        )
    else:
        _print(lines, counts, verbose=verbose)
    return 1 if bad else 0


def _list(chosen: Chosen, checks: tuple[tuple[str, str, str], ...]) -> int:
    if chosen.document:
        chosen.print_document(
            [{"area": area, "check": check, "about": about} for area, check, about in checks]
        )
        return 0
    width = max(len(check) for _, check, _ in checks)
    for _, check, about in checks:
        print_line(f"{check:<{width}}  {about}")
    return 0


def line_document(line: ReportLine) -> dict[str, Any]:
    """Returns the document of one check."""
    finding = line.finding
    return {
        "area": line.area,
        "check": line.check,
        "verdict": finding.verdict.value,
        "found": finding.found,
        "remedy": finding.remedy or None,
        "ms": line.ms,
    }


def _print(lines: list[ReportLine], counts: Counter[str], *, verbose: bool) -> None:
    without = [line for line in lines if line.finding.verdict == "skipped" and line.finding.found == NO_SPEC]
    shown = (
        [line for line in lines if line not in without]
        if verbose
        else [line for line in lines if line.finding.remedy]
    )
    width = max((len(line.check) for line in shown), default=0)
    for line in shown:
        finding = line.finding
        _print_finding(finding.verdict.value, f"{line.check:<{width}}  ", finding.found)
        if finding.remedy:
            _print_finding("", f"{'remedy:':>{width}}  ", finding.remedy)
    if without and verbose:
        _print_finding(
            "skipped", f"{counted(len(without), 'check')} of a job: ", f"{NO_SPEC}, see doctor SPEC.yaml"
        )
    if shown:
        print()
    counts_text = [f"{counted(counts['ok'], 'check')} ok"]
    counts_text += [counted(counts[word], word) for word in ("warning", "problem") if counts[word]]
    if counts["skipped"]:
        needed = f" ({len(without)} of them need a spec: doctor SPEC.yaml)" if without else ""
        counts_text.append(f"{counts['skipped']} skipped{needed}")
    print_labelled("", ", ".join(counts_text) + ("" if verbose else "; -v shows all"))


def _print_finding(verdict: str, label: str, text: str) -> None:
    """Prints a verdict; colours, and lines that fit, are for a terminal only."""
    width, margin = terminal_width(), 10 + len(label)
    lines = (
        [text]
        if width is None
        else textwrap.wrap(clean(with_local_times(text)), max(30, width - margin)) or [""]
    )
    coloured = verdict and width is not None and "NO_COLOR" not in os.environ
    head = f"{verdict:<8}"
    print((f"\033[{_STYLES[verdict]}m{head}\033[0m" if coloured else head) + f"  {clean(label + lines[0])}")
    for line in lines[1:]:
        print(" " * margin + line)
