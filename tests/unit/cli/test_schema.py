"""``schema job``: what an editor checks is what the supervisor accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from supervisor.cli.schema import job_schema
from supervisor.spec.job import JobSpec
from tests.unit.cli.conftest import Terminal

EXAMPLES = sorted((Path(__file__).parents[3] / "conf").rglob("*.yaml"))
JOBS = [path for path in EXAMPLES if path.parent.name == "jobs"]


def faults(document: Any) -> list[str]:
    return [each.message for each in Draft202012Validator(job_schema()).iter_errors(document)]


def test_it_is_a_schema_and_has_every_key() -> None:
    Draft202012Validator.check_schema(job_schema())
    keys = {field.alias or name for name, field in JobSpec.model_fields.items()}
    assert set(job_schema()["properties"]) == {*keys, "extends"}


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
def test_the_examples_are_valid(path: Path) -> None:
    assert faults(yaml.safe_load(path.read_text())) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"checkpont": "s3://b/x"},
        {"lease": 30},
        {"restart": {"strategy": "always"}},
        {"resources": {"memory": 1}},
        {"args": "x"},
    ],
    ids=str,
)
def test_what_is_wrong_by_its_key_or_type_is_found(wrong: dict[str, Any]) -> None:
    assert faults({"name": "a", "application": "a.py", **wrong})


def test_the_command_prints_it(terminal: Terminal) -> None:
    assert terminal.run("schema", "job").json == job_schema()
    assert terminal.run("schema", "host").code == 2
