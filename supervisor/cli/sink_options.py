"""Defines the options by which a person says what the sink of a job remembers, for every command that goes back."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from supervisor.errors import InvalidInput
from supervisor.model.going_back import NOTHING_SAID, Said
from supervisor.model.sinks import SinkMemory


class SinkWord(StrEnum):
    """Says what the sink remembers of the batches that it got, as ``savepoints.sink`` of the spec does."""

    REPEATS = "repeats"
    TRANSACTIONAL = "transactional"
    REMEMBERS = "remembers"


SinkOption = Annotated[
    SinkWord | None,
    typer.Option("--sink", help="What the sink knows batches by: nothing, the query's id, or their number."),
]
RolledBack = Annotated[
    bool,
    typer.Option(
        "--sink-rolled-back", help="The sink has nothing after that batch: rolled back too, or another one."
    ),
]


def said_by(sink: SinkWord | None, rolled_back: bool, *, goes_back: bool = True) -> Said:
    """Returns what the two options say. Raises InvalidInput if they are given to a command that does not go back."""
    said = Said(SinkMemory(sink.value) if sink is not None else None, rolled_back)
    if said != NOTHING_SAID and not goes_back:
        raise InvalidInput(
            "--sink and --sink-rolled-back are for a job that goes back: with --from-savepoint, --accept-fresh-start or "
            "--undo"
        )
    return said


def fields_of_request(said: Said) -> dict[str, Any]:
    """Returns the fields by which a request to the API says it."""
    memory = {"sink": said.memory.value} if said.memory is not None else {}
    return {**memory, **({"sink_rolled_back": True} if said.rolled_back else {})}
