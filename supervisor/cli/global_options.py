"""Defines the options that stand before the name of a command, and holds what was chosen with them.

Called by ``cli.main`` and ``cli.options``. It imports nothing heavy: ``cli.main`` loads it at every start.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from supervisor import __version__


class OutputFormat(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


@dataclass
class GlobalOptions:
    """Holds what was asked for by the global options. If they are given after the command, they win."""

    config: Path | None = None
    output: OutputFormat = OutputFormat.TABLE
    debug: bool = False

    def take(self, config: Path | None, output: OutputFormat | None, debug: bool) -> None:
        self.config = config or self.config
        self.output = output or self.output
        self.debug = debug or self.debug


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
        callback=lambda asked: _print_version(asked),
    ),
]


def _print_version(asked: bool) -> None:
    """Prints the version before anything else is parsed, so that no command is needed beside it."""
    if asked:
        print(f"spark-supervisor {__version__}")
        raise typer.Exit


def reader_left() -> int:
    """Ends the output after ``… | head``: this is no error, and flushing at exit must not complain."""
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - until the process ends
    return 0
