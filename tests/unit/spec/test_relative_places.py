"""Places of a spec that are in the working directory, and those that are not."""

from __future__ import annotations

import pytest

from supervisor.spec.job import parse_spec
from supervisor.spec.relative_places import relative_places

HEAD = "name: a\napplication: a.py\ncheckpoint: file:///c\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("args: ['./data/out']", "args: './data/out'"),
        ("args: [--checkpoint, data/checkpoint]", "args: 'data/checkpoint'"),
        ("args: ['--output=data/out']", "args: '--output=data/out'"),
        ("args: [output-path=data/out/]", "args: 'output-path=data/out/'"),
        ("conf: {spark.sql.warehouse.dir: warehouse}", "conf spark.sql.warehouse.dir 'warehouse'"),
        (
            "conf: {spark.sql.streaming.checkpointLocation: ck}",
            "conf spark.sql.streaming.checkpointLocation 'ck'",
        ),
    ],
)
def test_a_relative_place_is_told(text: str, named: str) -> None:
    (found,) = relative_places(parse_spec(HEAD + text, "a.yaml"))
    assert found.what.startswith(f"{named} is relative") and "every host" in found.remedy


@pytest.mark.parametrize(
    "text",
    [
        "args: ['--checkpoint', '{checkpoint}', '--output', 's3a://b/out', '--topic', 'a/b']",
        "args: ['--output=file:///data', '--sink', kafka, '--output', '{checkpoint}/out', clicks.views]",
        "conf: {spark.sql.warehouse.dir: /data/w}",
        "conf: {spark.sql.warehouse.dir: 's3a://b/w', spark.sql.streaming.checkpointLocation: '${env:PLACE}'}",
    ],
)
def test_any_other_is_not(text: str) -> None:
    assert relative_places(parse_spec(HEAD + text, "a.yaml")) == ()
