"""Implements the ``registry secure`` command: gives the znodes of a cluster that exists already their ACL, or takes it
back."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from supervisor.cli.options import Chosen, command
from supervisor.cli.output import notice, print_labelled, print_line
from supervisor.cli.progress import counting
from supervisor.errors import Conflict
from supervisor.model.zookeeper_access import PERM_ALL, Acl
from supervisor.operations.context import open_commands
from supervisor.operations.secure_registry import AclFinding, examine_acl, secure_registry

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be changed, and change nothing.")]
Open = Annotated[bool, typer.Option("--open", help="Go back: make every znode open to everyone.")]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look after the registry in ZooKeeper: who may do what there.",
)


@command
def secure(chosen: Chosen, dry_run: DryRun = False, open_again: Open = False) -> int:
    """Give every znode of the cluster the ACL of zookeeper.acl_admins and acl_readers. May be done while jobs run.

    Refuses while a supervisor or a shim is connected without credentials, or if this user would be locked out.
    Interrupted, it is given again: it goes on where it ended.

    \b
    Examples:
      spark-supervisor registry secure --dry-run
      spark-supervisor registry secure
      spark-supervisor registry secure --open
    """
    with open_commands(chosen.settings(), enforces=False, warn=notice) as context:
        finding = examine_acl(context, opens=open_again)
        changed = 0
        if not dry_run:
            with counting() as report_progress:
                changed = secure_registry(context, finding, lambda _done: report_progress(1))
    if chosen.document:
        chosen.print_document(_document(finding, changed, dry_run=dry_run))
    else:
        _print(finding, changed, dry_run=dry_run)
    return Conflict.exit_code if dry_run and finding.blockers else 0


def _print(finding: AclFinding, changed: int, *, dry_run: bool) -> None:
    for line in _grants(finding.wanted):
        print_labelled("grants:  ", line)
    if not dry_run:
        rest = f"{finding.znodes} znodes in {finding.root} have this ACL"
        print_line(f"{changed} changed; {rest}" if changed else f"nothing to change: {rest}")
        return
    for sentence in finding.blockers:
        print_labelled("refused: ", sentence)
    print_line(
        f"a dry run: {finding.differing} of {finding.znodes} znodes in {finding.root} would be changed; nothing was"
    )


def _grants(acl: Acl) -> list[str]:
    return [f"{entry.who} may {'do everything' if entry.perms == PERM_ALL else 'read'}" for entry in acl]


def _document(finding: AclFinding, changed: int, *, dry_run: bool) -> dict[str, Any]:
    return {
        "root": finding.root,
        "acl": [{"who": entry.who, "all": entry.perms == PERM_ALL} for entry in finding.wanted],
        "znodes": finding.znodes,
        "differing": finding.differing,
        "changed": changed,
        "dry_run": dry_run,
        "blockers": list(finding.blockers),
    }


app.command("secure")(secure)
