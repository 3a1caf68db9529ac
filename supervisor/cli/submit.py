"""Implements ``submit`` for many specs in one call: checks everything first, stores in parallel, and
registers one by one.

One bad file does not keep the others from being submitted; each has its line, and the exit code is the worst
of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supervisor.cli.completion import files
from supervisor.cli.narrator import Narrator
from supervisor.cli.options import Chosen, Timeout, command, seconds
from supervisor.cli.output import notice, print_line
from supervisor.cli.progress import progress
from supervisor.errors import InvalidInput, SupervisorError, Unreachable
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.records import Desired
from supervisor.operations.context import CommandContext, open_commands
from supervisor.operations.submit import Batch, Prepared, prepare, silent_masters, store_and_register
from supervisor.operations.waiting import wait_running
from supervisor.savepoints.operations import find_savepoint, restore_to
from supervisor.savepoints.restore import read_savepoint
from supervisor.settings.file import Settings, lease_warnings
from supervisor.spec.s3a import access_of_store, why_no_access
from supervisor.spec.site_policy import SitePolicy, site_policy

if TYPE_CHECKING:
    from supervisor.operations.jobs import Done
    from supervisor.spec.job import JobSpec

Specs = Annotated[
    list[Path],
    typer.Argument(metavar="SPEC.yaml", help="Job specs; many are stored in parallel.", autocompletion=files),
]
Wait = Annotated[
    bool,
    typer.Option("--wait", help="Until each job has its first batch (exit code 1: one failed, 7: too late)."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, store nothing.")]
Suspended = Annotated[bool, typer.Option("--suspended", help="Register without starting; resume starts it.")]
FreshStart = Annotated[
    bool,
    typer.Option(
        "--accept-fresh-start", help="Take the checkpoint as it is, also if the name left another one."
    ),
]

FromSavepoint = Annotated[
    str | None,
    typer.Option(
        "--from-savepoint", metavar="ID|LOCATION", help="Begin with a copy of it, at an empty checkpoint."
    ),
]


@dataclass(frozen=True)
class Wish:
    """Holds what the options ask for. ``wait_s`` is how long to wait for each job to run, or None."""

    dry_run: bool
    suspended: bool
    fresh_start: bool
    wait_s: float | None
    savepoint: str | None = None


@dataclass
class SubmitLine:
    """Holds what came of one file. ``did`` is a value of ``Did``, or ``valid`` for a dry run.

    ``queries`` are those of the savepoint.
    """

    source: Path
    prepared: Prepared | None = None
    name: str | None = None
    uid: str | None = None
    did: str | None = None
    error: SupervisorError | None = None
    savepoint: str | None = None
    queries: tuple[SeenQuery, ...] = ()

    def failed(self, error: SupervisorError) -> None:
        self.error = error

    def document(self) -> dict[str, Any]:
        return {
            "file": str(self.source),
            "name": self.name,
            "uid": self.uid,
            "did": self.did,
            "error": str(self.error) if self.error else None,
            "exit_code": self.error.exit_code if self.error else 0,
            **({"savepoint": self.savepoint} if self.savepoint else {}),
        }


@command
def submit(
    chosen: Chosen,
    specs: Specs,
    wait: Wait = False,
    dry_run: DryRun = False,
    suspended: Suspended = False,
    timeout: Timeout = "10m",
    accept_fresh_start: FreshStart = False,
    from_savepoint: FromSavepoint = None,
) -> int:
    """Submit jobs. The same spec again changes nothing; a live name with another spec is refused.

    Local files that a spec names are stored with it, so that any host can start the job. Done when the command returns,
    also while no supervisor is up; one bad file does not keep the others from being submitted. With --from-savepoint the
    savepoint is first copied to the checkpoint of the spec, where nothing may be yet, and compared.

    \b
    Examples:
      spark-supervisor submit clicks.yaml --wait
      spark-supervisor submit jobs/*.yaml
      spark-supervisor submit clicks.yaml --dry-run      checks everything, stores nothing
      spark-supervisor submit clicks.yaml --from-savepoint before-upgrade
    """
    timeout_s = seconds("--timeout", timeout)
    if wait and (suspended or dry_run):
        raise InvalidInput("--wait waits for a job to run: leave out --suspended and --dry-run")
    if from_savepoint is not None and len(specs) > 1:
        raise InvalidInput("--from-savepoint is for one spec: submit the others without it")
    settings = chosen.settings()
    lines = _prepared(specs, settings)
    if any(line.prepared is not None for line in lines):
        # an earlier submission may have come further
        fresh_start = accept_fresh_start or from_savepoint is not None
        wish = Wish(dry_run, suspended, fresh_start, timeout_s if wait else None, from_savepoint)
        _carry_out(lines, settings, wish)
    if chosen.document:
        chosen.print_document([line.document() for line in lines])
    for line in lines:
        _report_progress(line, alone=len(lines) == 1, quiet=chosen.document)
        _print_not_taken(line, accept_fresh_start, from_savepoint)
    return max(line.error.exit_code if line.error else 0 for line in lines)


def _prepared(specs: Iterable[Path], settings: Settings) -> list[SubmitLine]:
    """Reads and checks every file before it sends any request."""
    lines = []
    for source in specs:
        line = SubmitLine(source)
        lines.append(line)
        try:
            line.prepared = prepared = prepare(source, settings.defaults)
            line.name = prepared.name
        except SupervisorError as error:
            line.failed(error)
            continue
        site = site_policy(settings.policy)
        forbidden = site.why_no_checkpoint(prepared.spec.checkpoint)
        if forbidden is not None:
            line.failed(
                InvalidInput(f"{source}: checkpoint: {forbidden}", "choose a location that is allowed")
            )
            continue
        spec, store = prepared.spec, access_of_store(settings.store, settings.policy.endpoints)
        unreachable = why_no_access(
            spec.conf, (spec.checkpoint, spec.application, *spec.py_files, *spec.jars), store
        )
        if unreachable is not None:
            line.failed(InvalidInput(f"{source}: {unreachable}"))
            continue
        warnings = lease_warnings(prepared.spec.lease_s, settings.zookeeper.session_timeout_s)
        for warning in (*prepared.warnings, *warnings, *_not_deleted(prepared.spec, site)):
            notice(f"{source}: {warning}")
    for prepared, why in silent_masters(line.prepared for line in _open(lines) if line.prepared is not None):
        master = prepared.spec.master
        notice(
            f"{prepared.source}: nobody answers at master {master} from here ({why}); start it, or correct master"
        )
    return lines


def _not_deleted(spec: JobSpec, site: SitePolicy) -> tuple[str, ...]:
    """Returns why ``checkpoint_on_cancel: delete`` will delete nothing, as this host's configuration says;
    the leader's decides."""
    if spec.checkpoint_on_cancel != "delete" or spec.checkpoint is None:
        return ()
    why = site.why_not_deletable(spec.checkpoint)
    return (
        ()
        if why is None
        else (f"checkpoint_on_cancel: delete will not delete: {why}; the checkpoint will be kept",)
    )


def _carry_out(lines: list[SubmitLine], settings: Settings, wish: Wish) -> None:
    with open_commands(settings) as context:
        if wish.dry_run:
            _check_all(context, lines, founded=context.check() is not None)
            _restore(context, lines, wish)
            for line in _open(lines):
                line.did = "valid"
            return
        blobs = context.blobs()
        context.found(blobs)
        _check_all(context, lines)
        _restore(context, lines, wish)
        desired = Desired.SUSPENDED if wish.suspended else Desired.RUNNING
        begins = [(line.prepared, line.queries) for line in _open(lines) if line.prepared is not None]
        _register(lines, store_and_register(context, blobs, begins, desired, fresh_start=wish.fresh_start))
        if wish.wait_s is not None:
            _wait(context, lines, wish.wait_s)


def _open(lines: Iterable[SubmitLine]) -> list[SubmitLine]:
    """Returns the lines that have no result yet."""
    return [line for line in lines if line.error is None and line.did is None]


def _check_all(context: CommandContext, lines: list[SubmitLine], *, founded: bool = True) -> None:
    """Refuses jobs before anything is stored. What is registered already needs nothing more."""
    batch = Batch(context.layout)
    for line in _open(lines):
        assert line.prepared is not None
        name, sha256, checkpoint = line.prepared.name, line.prepared.sha256, line.prepared.spec.checkpoint
        try:
            done = context.commands.check_submit(name, sha256, checkpoint) if founded else None
            batch.add(line.prepared)
        except Unreachable:
            raise
        except SupervisorError as error:
            line.failed(error)
            continue
        if done is not None:
            line.uid, line.did = done.uid, done.did.value


def _restore(context: CommandContext, lines: list[SubmitLine], wish: Wish) -> None:
    """Copies the savepoint to where the job shall begin. A dry run only checks whether it is a savepoint."""
    if wish.savepoint is None:
        return
    for line in _open(lines):
        assert line.prepared is not None
        spec = line.prepared.spec
        try:
            if spec.checkpoint is None:
                raise InvalidInput(
                    f"checkpoint of {spec.name}: name the location to which the savepoint shall be copied"
                )
            saved = find_savepoint(context.settings, spec.name, wish.savepoint, spec.conf)
            if wish.dry_run:
                line.savepoint = read_savepoint(saved)[0].id
                continue
            with progress("restoring") as report_progress:
                done = restore_to(context.settings, saved, spec.checkpoint, spec.conf, report_progress)
            line.savepoint = done.manifest.id
            line.queries = tuple(SeenQuery(query.id, query.batch) for query in done.manifest.queries)
        except SupervisorError as error:
            line.failed(error)


def _register(lines: list[SubmitLine], came: Iterable[tuple[Prepared, Done | SupervisorError]]) -> None:
    by_prepared = {id(line.prepared): line for line in _open(lines)}
    for prepared, answer in came:
        line = by_prepared[id(prepared)]
        if isinstance(answer, SupervisorError):
            line.failed(answer)
        else:
            line.uid, line.did = answer.uid, answer.did.value


def _wait(context: CommandContext, lines: list[SubmitLine], wait_s: float) -> None:
    uids = {line.name: line.uid for line in lines if line.error is None and line.name and line.uid}
    with Narrator(len(uids), "running") as narrator:
        outcomes = wait_running(context, uids, wait_s, "submitted", narrator)
    for line in lines:
        error = outcomes.get(line.name or "")
        if line.error is None and error is not None:
            line.failed(error)


def _report_progress(line: SubmitLine, *, alone: bool, quiet: bool) -> None:
    """Prints the line of a file: on stdout what was done, on stderr what was not."""
    if line.did is not None and not quiet:
        origin = f", from savepoint {line.savepoint}" if line.savepoint else ""
        print_line(f"{line.name}: {line.did}" + (f" ({line.uid})" if line.uid else "") + origin)
    if line.error is not None:
        notice(
            f"error: {line.error}"
            if alone or str(line.source) in str(line.error)
            else f"{line.source}: {line.error}"
        )


def _print_not_taken(line: SubmitLine, accept_fresh_start: bool, from_savepoint: str | None) -> None:
    """Reports an option without effect: both are for a first start; for a registered job, resume has them."""
    asked = (
        f"--from-savepoint {from_savepoint}"
        if from_savepoint
        else "--accept-fresh-start"
        if accept_fresh_start
        else ""
    )
    if asked and line.did == "unchanged":
        notice(
            f"{line.name} is registered already, and was left as it is: for that there is resume {line.name} {asked}"
        )
