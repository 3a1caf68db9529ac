"""Asks a person for a yes, before a command does what is not easily undone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from supervisor.cli.output import notice
from supervisor.errors import Conflict, InvalidInput

Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]
NAMES_MAX = 20


def confirm(question: str, nobody: str, refused: str) -> None:
    """Asks ``question``. Raises InvalidInput with ``nobody`` where nobody can be asked, and Conflict with ``refused`` if
    the answer is no."""
    if not sys.stdin.isatty():
        raise InvalidInput(nobody)
    print(f"{question} Type yes: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != "yes":
        raise Conflict(refused)


def confirm_jobs(what: str, names: Sequence[str], *, yes: bool) -> None:
    """Says which jobs a command is about, and asks for a yes, unless it is given. ``what`` is what is done, like
    ``suspend 3 jobs``. Raises as ``confirm``."""
    shown = ", ".join(names[:NAMES_MAX])
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    notice(f"{what}: {shown}{more}")
    if not yes:
        nobody = f"nobody can be asked here whether to {what}: give --yes; nothing was done"
        confirm("Go on?", nobody, "not confirmed: nothing was done")
