"""The options that every command takes, before and after its name, and what they lead to.

Called by ``cli.main`` and by each command. ``@command`` adds ``--config``, ``-o`` and ``--debug`` to a function's own
parameters and hands it a ``Chosen``. Imports nothing heavy: ``--help`` must be quick.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supervisor import __version__
from supervisor.cli.completion import job_names
from supervisor.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from supervisor.settings.file import Settings

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class OutputFormat(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


@dataclass
class Chosen:
    """What was asked for by the global options; given after the command they win."""

    config: Path | None = None
    output: OutputFormat = OutputFormat.TABLE
    debug: bool = False

    @property
    def document(self) -> bool:
        """One document on stdout, and nothing else there."""
        return self.output in (OutputFormat.JSON, OutputFormat.YAML)

    json = document

    def say(self, document: Any) -> None:
        """Print ``document`` in the form that was asked for."""
        from supervisor.cli.output import print_json, print_yaml

        (print_yaml if self.output is OutputFormat.YAML else print_json)(document)

    def take(self, config: Path | None, output: OutputFormat | None, debug: bool) -> None:
        self.config = config or self.config
        self.output = output or self.output
        self.debug = debug or self.debug

    def settings(self) -> Settings:
        """The configuration. Raises InvalidInput."""
        from supervisor.settings.file import load_settings

        return load_settings(self.config, os.environ)


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="supervisor.yaml; else $SPARK_SUPERVISOR_CONFIG, else the one in /etc.",
    ),
]
Form = Annotated[
    OutputFormat | None,
    typer.Option(
        "--output", "-o", help="json, yaml: one document on stdout, nothing else. wide: more columns."
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")]
Version = Annotated[
    bool,
    typer.Option(
        "--version",
        help="Print the version and exit.",
        is_eager=True,
        callback=lambda asked: _say_version(asked),
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.", autocompletion=job_names)]
Timeout = Annotated[
    str,
    typer.Option("--timeout", metavar="TIME", help="Longest --wait, like 90s or 10m; then exit code 7."),
]


def _say_version(asked: bool) -> None:
    """Before anything else is parsed: no command is needed beside it."""
    if asked:
        print(f"spark-supervisor {__version__}")
        raise typer.Exit


_GLOBAL = {"config": (Config, None), "output": (Form, None), "debug": (Debug, False)}


def command(function: Callable[..., int]) -> Callable[..., int]:
    """``function(chosen, …)`` as a typer command that also takes the global options. It returns the exit code."""
    own = list(inspect.signature(function).parameters.values())[1:]
    hints = typing.get_type_hints(function, include_extras=True)

    @functools.wraps(function)
    def wrapper(ctx: typer.Context, **given: Any) -> int:
        chosen: Chosen = ctx.ensure_object(Chosen)
        chosen.take(*(given.pop(name) for name in _GLOBAL))
        try:
            code = function(chosen, **given)
            sys.stdout.flush()
            return code
        except BrokenPipeError:  # here, because the command line library would make it exit code 1
            return reader_left()

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    parameters += [each.replace(kind=kind, annotation=hints[each.name]) for each in own]
    parameters += [
        inspect.Parameter(name, kind, default=default, annotation=hint)
        for name, (hint, default) in _GLOBAL.items()
    ]
    typed: Any = wrapper
    typed.__signature__ = inspect.Signature(parameters, return_annotation=int)
    typed.__annotations__ = {each.name: each.annotation for each in parameters}
    del typed.__wrapped__
    return wrapper


def reader_left() -> int:
    """``… | head``: nobody reads on, which is no error; and flushing at exit must not complain."""
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - until the process ends
    return 0


def known_name(name: str) -> str:
    """``name`` itself if a job can have it. Raises NotFound: it must not lead to any other znode or file."""
    if not _NAME.fullmatch(name):
        raise NotFound(f"no job is named {name!r}: names have lower-case letters, digits and dashes only")
    return name


def seconds(option: str, text: str) -> float:
    """A duration given with ``option``. Raises InvalidInput."""
    from supervisor.settings.units import parse_duration_s

    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise InvalidInput(f"{option} {error}") from None
