"""Defines a group of commands that reads a table, and imports the module of a command when that command is
called.

Called by ``cli.main``. ``--help``, the completion of a command's name and the suggestion for a misspelt one
read only the table. The module is imported when the command is called, when its own ``--help`` is asked for,
and when its options or arguments are completed.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

RESEMBLES: Final = 0.7
"""A name is suggested for another one from this likeness on, as ``difflib`` measures it."""


class CommandEntry(NamedTuple):
    """Holds a row of the table. ``target`` is ``module:name`` of a function, or of a ``typer.Typer`` with
    commands of its own.

    ``line`` is what the group's help says of it, short enough to be shown whole.
    """

    name: str
    target: str
    line: str


class ListedCommand(TyperCommand):
    """Stands in the group for a command whose module has not been imported."""

    def __init__(self, entry: CommandEntry) -> None:
        super().__init__(entry.name, short_help=entry.line)
        self._entry = entry

    def load(self) -> Any:
        """Returns the command itself, as ``typer`` makes it from its function."""
        name, target, line = self._entry
        module, _, attribute = target.partition(":")
        found = getattr(import_module(module), attribute)
        holder = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=name, short_help=line)
        else:
            holder.command(name, short_help=line)(found)
        return get_group(holder).commands[name]


class LazyGroup(TyperGroup):
    """Holds the commands of ``table``, in its order; a subclass defines the table. ``instead`` has the commands to use in
    place of words that other tools have."""

    table: ClassVar[Sequence[CommandEntry]] = ()
    instead: ClassVar[Mapping[str, Sequence[str]]] = {}

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "suggest_commands": False})
        self.commands = {entry.name: ListedCommand(entry) for entry in self.table} | dict(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Returns the command that ``args`` begin with, imported.

        Listing and completing names do not call this. An unknown name is answered with those that resemble it closely.
        """
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except Exception as error:  # typer's error of wrong usage, which it does not export
            word = args[0] if args else ""
            near = self.instead.get(word) or difflib.get_close_matches(
                word, list(self.commands), cutoff=RESEMBLES
            )
            if near and isinstance(message := getattr(error, "message", None), str):
                error.message = f"{message.rstrip('.')}. Did you mean {', '.join(map(repr, near))}?"  # type: ignore[attr-defined]
            raise
        return name, command.load() if isinstance(command, ListedCommand) else command, rest
