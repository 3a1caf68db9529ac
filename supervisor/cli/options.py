"""Defines the options that every command takes, before and after its name, and what they lead to.

Called by each command. ``@command`` adds ``--config``, ``-o`` and ``--debug`` to a function's own parameters
and passes it a ``Chosen``.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from supervisor.cli.columns import WIDE_ENOUGH
from supervisor.cli.completion import job_names
from supervisor.cli.global_options import (
    SERVER_VARIABLE,
    Config,
    Debug,
    Form,
    GlobalOptions,
    OutputFormat,
    Server,
    TokenFile,
    reader_left,
)
from supervisor.cli.output import print_json
from supervisor.errors import InvalidInput
from supervisor.settings.file import Settings, load_settings
from supervisor.settings.units import parse_duration_s


@dataclass
class Chosen(GlobalOptions):
    """Holds the global options as a command has them, and provides what they lead to."""

    @property
    def document(self) -> bool:
        """Returns whether stdout gets one document and nothing else."""
        return self.output in (OutputFormat.JSON, OutputFormat.YAML)

    json = document

    def print_document(self, document: Any) -> None:
        """Prints ``document`` in the form that was asked for."""
        (_print_yaml if self.output is OutputFormat.YAML else print_json)(document)

    @property
    def server_url(self) -> str | None:
        """Returns the address of the API that is asked in place of ZooKeeper and the store, or None. ``--config``
        counts more than the environment."""
        return self.server or (None if self.config is not None else os.environ.get(SERVER_VARIABLE) or None)

    def settings(self) -> Settings:
        """Returns the configuration. Raises InvalidInput, also if a server was chosen: the cluster of the
        configuration might be another one."""
        if self.server_url is not None:
            raise InvalidInput(
                f"this command needs ZooKeeper or the store, and can't ask the server {self.server_url[:200]!r}",
                "call it on a host with supervisor.yaml, without --server and "
                f"{SERVER_VARIABLE}, or with --config",
            )
        return self.settings_of_host()

    def settings_of_host(self) -> Settings:
        """Returns the configuration for what is about this host, whichever server the environment names. Raises
        InvalidInput."""
        return load_settings(self.config, os.environ)


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.", autocompletion=job_names)]
Timeout = Annotated[
    str,
    typer.Option("--timeout", metavar="TIME", help="Longest --wait, like 90s or 10m; then exit code 7."),
]


SignWith = Annotated[
    Path | None,
    typer.Option("--sign-with", metavar="KEY.pem", help="Sign the spec, for policy.submit_signers."),
]


def _print_yaml(document: Any) -> None:
    plain = json.loads(json.dumps(document))  # a StrEnum is text to JSON, but nothing that YAML knows
    text = _yaml_of(plain, allow_unicode=True)
    is_plain = all(char.isprintable() or char == "\n" for char in text)
    # what turns the direction of a line, or is not seen, is escaped as in JSON
    print(text if is_plain else _yaml_of(plain, allow_unicode=False), end="")


def _yaml_of(document: Any, allow_unicode: bool) -> str:
    return str(yaml.safe_dump(document, sort_keys=False, width=WIDE_ENOUGH, allow_unicode=allow_unicode))


_OF_SERVER = {"server": (Server, None), "token_file": (TokenFile, None)}
_GLOBAL = {"config": (Config, None), "output": (Form, None), "debug": (Debug, False)}


def over_api(function: Callable[..., int]) -> Callable[..., int]:
    """Lets a command ask the API of a supervisor: it has the options ``--server`` and ``--token-file``."""
    typed: Any = function
    typed.is_over_api = True
    return function


def command(function: Callable[..., int]) -> Callable[..., int]:
    """Makes ``function(chosen, …)``, which returns the exit code, a typer command with the global options."""
    own = list(inspect.signature(function).parameters.values())[1:]
    hints = typing.get_type_hints(function, include_extras=True)
    is_over_api = getattr(function, "is_over_api", False)
    common = _GLOBAL | (_OF_SERVER if is_over_api else {})

    @functools.wraps(function)
    def wrapper(ctx: typer.Context, **given: Any) -> int:
        parsed = ctx.ensure_object(GlobalOptions)
        parsed.take(*(given.pop(name) for name in _GLOBAL))
        if is_over_api:
            parsed.take_server(*(given.pop(name) for name in _OF_SERVER))
        elif parsed.server is not None:
            raise InvalidInput(
                f"{ctx.info_name} can't ask a server",
                "leave --server out; list, show, status, top, history, explain, logs, stacks, cancel, suspend, resume, "
                "restart, apply and diff take it",
            )
        chosen = Chosen(parsed.config, parsed.output, parsed.debug, parsed.server, parsed.token_file)
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
        for name, (hint, default) in common.items()
    ]
    typed: Any = wrapper
    typed.__signature__ = inspect.Signature(parameters, return_annotation=int)
    typed.__annotations__ = {each.name: each.annotation for each in parameters}
    del typed.__wrapped__
    return wrapper


def seconds(option: str, text: str) -> float:
    """Parses a duration given with ``option``. Raises InvalidInput."""
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise InvalidInput(f"{option} {error}") from None
