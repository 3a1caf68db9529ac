"""Implements ``schema``: prints the JSON Schema of a spec, for editors and pipelines.

It is made from the models that check a spec, so the two cannot differ. What only a check of several keys can find (that a
checkpoint is there, say) is not in it: ``apply --dry-run`` tells that.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from supervisor.cli.options import Chosen, command
from supervisor.cli.output import print_json
from supervisor.spec.compose import EXTENDS
from supervisor.spec.job import JobSpec

DRAFT = "https://json-schema.org/draft/2020-12/schema"


class Documented(StrEnum):
    """Says of what there is a schema."""

    JOB = "job"


What = Annotated[Documented, typer.Argument(metavar="job", help="Of what: job is the spec of a job.")]


@command
def schema(chosen: Chosen, what: What) -> int:
    """Print the JSON Schema of a job spec, for editors and pipelines.

    \b
    Examples:
      spark-supervisor schema job > job.schema.json
    """
    assert what is Documented.JOB
    document = job_schema()
    if chosen.document:
        chosen.print_document(document)
    else:
        print_json(document)
    return 0


def job_schema() -> dict[str, Any]:
    """Returns the JSON Schema of a spec as people write it: durations and sizes are text with a unit."""
    document = JobSpec.model_json_schema(by_alias=True, mode="serialization")
    for key in ("conf", "env"):  # a number or a boolean is taken as it is spelled
        document["properties"][key]["additionalProperties"] = {"type": ["string", "number", "boolean"]}
    document["properties"][EXTENDS] = {
        "type": "string",
        "description": "A spec whose keys hold where this one says nothing; relative to this file.",
    }
    document["required"] = []  # what is missing may stand in a spec that this one extends
    return {"$schema": DRAFT, **document, "title": "A job of spark-supervisor"}
