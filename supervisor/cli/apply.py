"""Implements ``apply``: what is in files becomes what runs.

``operations.apply`` judges and carries out. An update stops nothing by itself (protocol §9.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from supervisor.cli.api_client import api_of
from supervisor.cli.apply_over_api import apply_over_api
from supervisor.cli.apply_screen import is_refused, print_applied, print_unchanged
from supervisor.cli.completion import files
from supervisor.cli.confirm import Yes, confirm_jobs
from supervisor.cli.narrator import Narrator
from supervisor.cli.options import Chosen, SignWith, Timeout, command, over_api, seconds
from supervisor.cli.output import notice, print_line
from supervisor.cli.remote import refuse_over_api
from supervisor.cli.several import SELECTOR
from supervisor.errors import InvalidInput, SupervisorError
from supervisor.model.phrases import counted
from supervisor.operations.apply import (
    Applied,
    AppliedAction,
    carry_out,
    changed_of,
    judge_all,
    rollout,
    spec_files,
)
from supervisor.operations.context import CommandContext, open_commands
from supervisor.operations.live_sparks import warn_of_missing_sparks
from supervisor.operations.pruning import (
    Pruned,
    PruneWish,
    judge_prune,
    leave_all,
    require_prunable,
)
from supervisor.operations.pruning import prune as prune_jobs
from supervisor.operations.selection import selector_of
from supervisor.operations.signing import signed
from supervisor.operations.submit import Prepared, Submitted, prepare_all
from supervisor.operations.waiting import (
    is_suspended,
    wait_running,
    why_given_up,
    why_observed,
    why_waits_for_restart,
)
from supervisor.operations.way_back_warning import warn_of_way_back
from supervisor.spec.files import read_located

if TYPE_CHECKING:
    from supervisor.settings.file import Settings

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH", help="Job specs, and folders of them.", autocompletion=files),
]
SetKey = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Over what the specs say; may be given several times."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and how; do nothing.")]
Again = Annotated[bool, typer.Option("--again", help="Also a spec that was given up or rolled back before.")]
UpdatedWait = Annotated[
    bool, typer.Option("--wait", help="Return when each job runs what its spec says (exit code 1: it can't).")
]
Prune = Annotated[
    bool, typer.Option("--prune", help="Cancel jobs with the labels of --selector that are in no file.")
]
PruneSelector = Annotated[
    list[str] | None,
    typer.Option(
        SELECTOR,
        "-l",
        metavar="LABEL",
        help="Which jobs --prune is about, like team=web; several must all hold.",
    ),
]
PruneAll = Annotated[
    bool, typer.Option("--prune-all", help="Also if no job with these labels would be left.")
]
PruneForks = Annotated[
    bool,
    typer.Option("--prune-forks", help="Also forks, and jobs that were promoted over others."),
]


@command
@over_api
def apply(
    chosen: Chosen,
    paths: Paths,
    set_key: SetKey = None,
    dry_run: DryRun = False,
    wait: UpdatedWait = False,
    again: Again = False,
    prune: Prune = False,
    selector: PruneSelector = None,
    prune_all: PruneAll = False,
    prune_forks: PruneForks = False,
    yes: Yes = False,
    timeout: Timeout = "10m",
    sign_with: SignWith = None,
) -> int:
    """Make jobs what their specs say: submit the new ones, update those that differ, leave the others.

    The driver of a job that is updated goes on until one of the new revision is prepared; a spec of which none can be
    prepared stops nothing. Then the new revision is observed (update.observe), and rolled back if it fails
    (update.rollback); --wait returns at its first batch, and fails if it was rolled back by then.

    If anything is wrong with any file, nothing is done at all. Of a folder, files that begin with _ are left out: others
    extend them (extends: _base.yaml).

    With --prune, registered jobs that have the labels of --selector and are in no file are cancelled, after a yes. All
    files must have these labels, and a job that is registered without them is refused. Forks are left alone, unless
    --prune-forks is given.

    \b
    Examples:
      spark-supervisor apply jobs/ --dry-run      what would be done, and how
      spark-supervisor apply jobs/ --wait
      spark-supervisor apply clicks.yaml --set resources.memory=2g
      spark-supervisor apply jobs/ --prune --selector team=web
    """
    timeout_s = seconds("--timeout", timeout)
    if wait and dry_run:
        raise InvalidInput("--wait waits for what a dry run does not do: leave one of them out")
    wish = _prune_wish(prune, selector, prune_all, prune_forks)
    api = api_of(chosen)
    if api is not None:
        _refuse_over_api(chosen, {"--wait": wait, "--prune": prune, "--sign-with": sign_with})
        return apply_over_api(chosen, api, paths, set_key or (), again=again, dry_run=dry_run)
    settings = chosen.settings()
    sign = partial(signed, settings, sign_with)
    read = read_specs(settings, paths, set_key, may_be_empty=prune_all, sign=sign)
    with open_commands(settings, warn=notice) as context:
        applied = judge_all(context, read, again=again)
        pruned = [] if wish is None else judge_prune(context, applied, wish)
        if is_refused(chosen, applied):
            return _exit_code(applied)
        warn_of_missing_sparks(context, changed_of(applied))
        warn_of_way_back(context, changed_of(applied))
        if wish is not None and not dry_run:
            _confirm_prune([one for one in pruned if one.action is AppliedAction.PRUNED], wish, yes=yes)
        done = applied if dry_run else carry_out(context, applied, context.author)
        _tell(chosen, done, dry_run=dry_run)
        _prune(chosen, context, applied, pruned, dry_run=dry_run)
        try:
            if wait:
                _wait(context, applied, timeout_s)
        finally:  # it is written: the document is due, whatever came of the wait
            if chosen.document:
                documents = [one.document() for one in applied]
                chosen.print_document([*documents, *(one.document() for one in pruned)])
    if not chosen.document:
        print_unchanged(applied)
    return _exit_code([*applied, *pruned])


def _tell(chosen: Chosen, done: Iterable[Applied], *, dry_run: bool) -> None:
    """Says of each what became of it as soon as it is durable, or in a dry run what would."""
    for one in done:
        if dry_run:
            one.why = rollout(one)
        if not chosen.document and one.action is not AppliedAction.UNCHANGED:
            print_applied(one, "would be " if dry_run else "")


def _refuse_over_api(chosen: Chosen, given: Mapping[str, object]) -> None:
    for option in (option for option, value in given.items() if value):
        refuse_over_api(chosen, option)


def _prune_wish(prune: bool, texts: list[str] | None, prune_all: bool, prune_forks: bool) -> PruneWish | None:
    """Returns what ``--prune`` is to cancel, or None without it. Raises InvalidInput."""
    selector = selector_of(SELECTOR, texts)
    if not prune:
        given = {SELECTOR: selector is not None, "--prune-all": prune_all, "--prune-forks": prune_forks}
        for option in (option for option, is_given in given.items() if is_given):
            raise InvalidInput(f"{option} says what --prune cancels: give that, too")
        return None
    if selector is None:
        raise InvalidInput(
            "--prune needs the labels of the jobs that these files are about",
            f"give {SELECTOR} key=value, which all files have in their labels",
        )
    require_prunable(selector)
    return PruneWish(selector, prune_all, prune_forks)


def _confirm_prune(pruned: list[Pruned], wish: PruneWish, *, yes: bool) -> None:
    if not pruned:
        return
    deleted = [one.name for one in pruned if one.deletes_checkpoint]
    if deleted:
        notice(f"with their checkpoints, as their specs say (checkpoint_on_cancel): {', '.join(deleted)}")
    what = f"cancel {counted(len(pruned), 'job')} with {wish.selector} in no file"
    confirm_jobs(what, [one.described for one in pruned], yes=yes)


def _prune(
    chosen: Chosen, context: CommandContext, applied: list[Applied], pruned: list[Pruned], *, dry_run: bool
) -> None:
    """Cancels what is in no file, if all that was applied has succeeded, and says so of each."""
    if any(one.error is not None for one in applied):
        leave_all(pruned)
        done: Iterable[Pruned] = pruned
    else:
        done = pruned if dry_run else prune_jobs(context, pruned)
    for one in done:
        if one.error is not None:
            notice(f"error: {one.error}")
        elif not chosen.document:
            would = "would be " if dry_run and one.action is AppliedAction.PRUNED else ""
            print_line(f"{one.name}: {would}{one.action.value}; {one.why}")


def read_specs(
    settings: Settings,
    paths: Iterable[Path],
    changes: list[str] | None,
    *,
    may_be_empty: bool = False,
    sign: Callable[[Prepared], Prepared] = lambda prepared: prepared,
) -> list[Submitted]:
    """Reads the specs that ``paths`` name; what is wrong with one is its error. Raises InvalidInput for a path."""
    files = spec_files(paths, may_be_empty=may_be_empty)
    return prepare_all(files, settings, notice, partial(read_located, changes=changes or ()), sign)


def _exit_code(applied: Sequence[Applied | Pruned]) -> int:
    return max((one.error.exit_code if one.error is not None else 0 for one in applied), default=0)


def _wait(context: CommandContext, applied: list[Applied], wait_s: float) -> None:
    """Waits for all that was applied, and notes of each what came of it; what was written stays written."""
    of_name = {
        one.name: one
        for one in applied
        if one.error is None and one.name and one.uid and not (one.judged and one.judged.given_up)
    }
    for one in applied:
        if one.judged is not None and one.judged.given_up:
            one.fail(SupervisorError(f"{one.name} does not run this spec: {one.judged.why}"))
        elif one.name in of_name and is_suspended(context, one.name):
            del of_name[one.name]
            notice(f"{one.name} is suspended, and stays so")
        elif one.name in of_name and (waits := why_waits_for_restart(context, one.name)):
            del of_name[one.name]
            notice(waits)
    with Narrator(len(of_name), "running") as narrator:
        uids = {name: one.uid for name, one in of_name.items() if name}
        outcomes: dict[str, SupervisorError | None] = dict(
            wait_running(context, uids, wait_s, "applied", narrator)
        )
    for name, outcome in outcomes.items():
        updated = of_name[name].action is AppliedAction.UPDATED
        given_up = why_given_up(context, name) if updated else ""
        if given_up:
            of_name[name].fail(SupervisorError(f"{name} runs on as it was: {given_up}"))
        elif outcome is not None:
            of_name[name].fail(outcome)
        elif updated and (observed := why_observed(context, name)):
            notice(observed)
    for one in applied:
        if one.error is not None and one.action is not AppliedAction.REFUSED:
            notice(f"error: {one.error}")
