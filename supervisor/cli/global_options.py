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

SERVER_VARIABLE = "SPARK_SUPERVISOR_SERVER"
TOKEN_FILE_VARIABLE = "SPARK_SUPERVISOR_TOKEN_FILE"


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
    server: str | None = None
    token_file: Path | None = None

    def take(self, config: Path | None, output: OutputFormat | None, debug: bool) -> None:
        self.config = config or self.config
        self.output = output or self.output
        self.debug = debug or self.debug

    def take_server(self, server: str | None, token_file: Path | None) -> None:
        self.server = server or self.server
        self.token_file = token_file or self.token_file


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
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="Ask the API of a supervisor, like https://host-1:8781, in place of ZooKeeper and the store; else "
        "$SPARK_SUPERVISOR_SERVER.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="The token for --server is in this file; else $SPARK_SUPERVISOR_TOKEN_FILE.",
    ),
]
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
