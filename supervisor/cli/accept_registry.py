"""Implements the ``accept-registry`` command: goes on with a ZooKeeper that was restored to an older state,
knowing what that means."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supervisor.cli.confirm import Yes, confirm
from supervisor.cli.options import Chosen, command
from supervisor.cli.output import local_time, notice, print_line, print_table
from supervisor.operations.accept_registry import RegistryFinding, examine_registry
from supervisor.operations.accept_registry import accept_registry as accept
from supervisor.operations.context import open_commands

if TYPE_CHECKING:
    from supervisor.model.records import Acceptance
SHOWN_MAX = 50

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what it would mean, and accept nothing.")]
NoDriverRuns = Annotated[
    bool,
    typer.Option(
        "--no-driver-runs",
        help="You have made sure that no driver of this cluster runs on any host: start jobs at once. If you err, two run.",
    ),
]


@command
def accept_registry(
    chosen: Chosen,
    yes: Yes = False,
    dry_run: DryRun = False,
    no_driver_runs: NoDriverRuns = False,
) -> int:
    """Accept a ZooKeeper that was restored to an older state, so that supervisors act on it again.

    Says why it is distrusted, what will run then, and what it may not know. Nothing is started before every driver of the
    lost state is certainly dead.
    """
    settings = chosen.settings()
    with open_commands(settings, warn=notice) as context:
        finding = examine_registry(context)
        if not chosen.document:
            _print_finding(finding, no_driver_runs)
        if not finding.distrust or dry_run:
            return _answer(chosen, finding, None)
        if not yes:
            confirm(
                "Accept this state of the registry?",
                "nobody can be asked here: look at --dry-run, then give --yes to accept the registry",
                "not accepted: nothing was changed",
            )
        accepted = accept(context, finding.wait_s, no_driver_runs=no_driver_runs)
    return _answer(chosen, finding, accepted)


def _answer(chosen: Chosen, finding: RegistryFinding, accepted: Acceptance | None) -> int:
    if chosen.document:
        chosen.print_document(_document(finding, accepted))
    elif accepted is not None:
        print()
        print_line(
            f"accepted as epoch {accepted.epoch}: the next leader goes on with this state; see spark-supervisor status"
        )
    elif not finding.distrust:
        print_line("nobody distrusts this registry: there is nothing to accept, and nothing was changed")
    else:
        print_line("a dry run: nothing was changed")
    return 0


def _document(finding: RegistryFinding, accepted: Acceptance | None) -> dict[str, Any]:
    return {
        "distrust": list(finding.distrust),
        "epoch": finding.epoch,
        "store_epoch": finding.store_epoch,
        "jobs": [asdict(job) for job in finding.jobs],
        "lost": [asdict(spec) for spec in finding.lost],
        "wait_s": round(accepted.wait_s if accepted is not None else finding.wait_s, 1),
        "accepted": None
        if accepted is None
        else {
            "id": accepted.id,
            "epoch": accepted.epoch,
            "by": accepted.by,
            "at": accepted.at,
        },
    }


def _print_finding(finding: RegistryFinding, no_driver_runs: bool) -> None:
    if not finding.distrust:
        return
    print_line("This registry is not trusted:")
    for sentence in finding.distrust:
        print_line(f"  {sentence}")
    print()
    _print_jobs(finding)
    _print_lost(finding)
    if no_driver_runs:
        print_line("Jobs start at once: you state that no driver of this cluster runs on any host.")
    else:
        lease = (
            "the longest lease there can be"
            if finding.lease_s is None
            else f"the longest lease, {finding.lease_s:g} s"
        )
        if finding.executors_outlive_s:
            lease += f", and {finding.executors_outlive_s:g} s in which executors may outlive their driver"
        print_line(
            f"Nothing is started for {finding.wait_s:.0f} s after a leader has seen it: drivers of the lost state end by "
            f"then ({lease})."
        )


def _print_jobs(finding: RegistryFinding) -> None:
    running = [job for job in finding.jobs if job.will_run]
    others = [job for job in finding.jobs if not job.will_run]
    for title, jobs in ((f"Will run ({len(running)})", running), (f"Will not run ({len(others)})", others)):
        print_line(f"{title}{':' if jobs else ''}")
        if jobs:
            head = ("  NAME", "UID", "REVISION", "ATTEMPT", "STATE", "CHECKPOINT")
            print_table(
                head,
                [
                    (f"  {job.name}", job.uid, job.revision, job.attempt, job.state, job.checkpoint)
                    for job in jobs
                ],
            )
        print()
    missing = [job.name for job in finding.jobs if job.spec_missing]
    if missing:
        print_line(
            f"Without their spec in the store, so they can't start; cancel and submit them: {', '.join(missing)}"
        )
        print()


def _print_lost(finding: RegistryFinding) -> None:
    print_line(
        "What was done after this state was saved is lost: a job cancelled since will run again, one suspended too."
    )
    if finding.lost:
        print_line(
            f"Specs in the store that are unknown to it ({len(finding.lost)}), submitted since or never registered; submit "
            "anew what you miss:"
        )
        head = ("  NAME", "UID", "REVISION", "STORED")
        shown = finding.lost[:SHOWN_MAX]
        print_table(
            head, [(f"  {spec.name}", spec.uid, spec.revision, local_time(spec.at)) for spec in shown]
        )
        if len(finding.lost) > SHOWN_MAX:
            notice(f"and {len(finding.lost) - SHOWN_MAX} more: see -o json")
    print()
