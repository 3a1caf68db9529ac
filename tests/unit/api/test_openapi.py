"""``api.openapi``: the description is OpenAPI, and real answers are as it says, no more and no less.

REGENERATE_GOLDEN=1 writes it anew; then read what changed. Keys may be added, and none may go.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import supervisor
from supervisor.api.openapi import openapi_document
from supervisor.api.paths import NAME, PREFIX
from supervisor.api.routes import ROUTES
from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.records import (
    Acceptance,
    ClusterWait,
    Cordon,
    DriverDiagnostics,
    Fork,
    Pause,
    Progress,
    Promotion,
    QueryProgress,
    QueryState,
    SpecRevision,
    StartTimes,
    Update,
)
from tests.fakes.registry_bench import AT
from tests.golden.sample_records import USAGE
from tests.unit.api.conftest import Fleet

GOLDEN = Path(__file__).parents[2] / "golden" / "documents" / "openapi.json"


def closed(schema: Any) -> Any:
    """The schema, which allows no other keys; types that others extend are whole in it."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    if "properties" in made:
        made["additionalProperties"] = False
    return made


def problems(path: str, code: str, answer: Any, method: str = "get") -> list[str]:
    description = closed(openapi_document())
    schema = description["paths"][f"{PREFIX}{path}"][method]["responses"][code]["content"][
        "application/json"
    ]["schema"]
    validator = Draft202012Validator({**schema, "components": description["components"]})
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(answer)]


def test_the_description_is_the_golden_one() -> None:
    text = (
        json.dumps({**openapi_document(), "info": {**openapi_document()["info"], "version": "0"}}, indent=2)
        + "\n"
    )
    if os.environ.get("REGENERATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
    assert openapi_document()["info"]["version"] == supervisor.__version__


def test_each_schema_is_one_and_each_reference_leads_somewhere() -> None:
    document = openapi_document()
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    text = json.dumps(document)
    named = {each.partition('"')[0] for each in text.split("#/components/schemas/")[1:]}
    assert named == set(schemas)
    assert all(schema.get("description") for schema in schemas.values())


def eventful(fleet: Fleet) -> None:
    """What the documents of the other jobs leave out."""
    terminal, bench = fleet.terminal, fleet.terminal.bench
    layout, uid = bench.layout, bench.own("clicks").uid
    bench.put(layout.pause, Pause(by="ann@desk", at=AT, reason="brokers", op="op"))
    bench.put(layout.accepted, Acceptance(id="1", epoch=7, by="ann@desk", at=AT, wait_s=60.0))
    cordon = Cordon(supervisor="host-b", cordoned=True, by="ann@desk", at=AT, why="disks", op="op")
    bench.put(layout.host("host-b"), cordon)
    terminal.run("submit", terminal.spec("queries", "savepoints: {every: 1h}\nlabels: {team: web}"))
    bench.run(
        "queries",
        progress=Progress(query="q", batch_id=3, at=AT, trigger_interval_s=10.0),
        spark_ui="http://host-a.example:4040",
        queries=(
            QueryProgress(
                query="q", id="1", state=QueryState.FAILED, batch_id=3, at=AT, error="ValueError: x"
            ),
        ),
        cluster_wait=ClusterWait(cluster="yarn", since=AT),
        start=StartTimes(spawn_s=0.5),
        usage=USAGE,
        remembered=CheckpointExpectation(place="p", sinks=("1 3 delta s3a://bucket/table",)),
    )
    known = DriverDiagnostics(
        attempt=1, host="host-a.example", path="/log/u.1.diagnostics.txt", memory="largest: java"
    )
    bench.put(layout.own("queries"), replace(bench.own("queries"), diagnostics=known))
    job = bench.ref("queries").record
    before = SpecRevision(revision=1, spec=job.spec, terms=job.terms)
    changed = replace(
        job,
        update=Update(target=2, sha256="ab" * 32, before=before, by="ann@desk", at=AT),
        fork=Fork(of="clicks", uid=uid, savepoint="s"),
        promotion=Promotion(over="clicks", uid=uid, by="ann@desk", at=AT),
    )
    bench.put(layout.job("queries"), changed)


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if not route.is_text and not route.events],
    ids=lambda route: route.operation,
)
def test_each_real_answer_is_as_described(fleet: Fleet, route: Any) -> None:
    eventful(fleet)
    names = [job["name"] for job in fleet.document("/jobs?all=true")] if route.takes_name else [""]
    for name in names:
        answer = fleet.document(route.path.replace(NAME, name))
        assert problems(route.path, "200", answer) == [], name


def test_each_error_is_as_described(fleet: Fleet) -> None:
    for path, target, code in (
        ("/jobs", "/jobs?limit=x", "400"),
        (f"/jobs/{NAME}", "/jobs/nobody", "404"),
    ):
        assert problems(path, code, fleet.error(target)[1]) == []


def test_the_comparison_notices_a_key_too_many_and_one_too_few() -> None:
    store = {"url": "file:///x", "ok": True}
    error = {"error": "x", "remedy": None, "exit_code": 3}
    assert problems("/jobs", "400", error) == []
    assert problems("/jobs", "400", {**error, "more": 1}) and problems("/jobs", "400", store)


def test_the_documents_of_these_tests_have_every_part(fleet: Fleet) -> None:
    """A part that is null everywhere would not be compared."""
    eventful(fleet)
    names = [job["name"] for job in fleet.document("/jobs?all=true")]
    jobs = [fleet.document(f"/jobs/{name}") for name in names]
    rare = {"stop_mode", "starts_cold", "prepare_lowered", "env_ignored", "class_archive", "user", "limits"}
    rare |= {
        "restarts",
        "more_queries",
        "driver_memory",
        "checkpoint_fence",
        "prepared",
        "spec_error",
        "next_attempt_at",
        "in_place_of",
    }
    assert {key for key in jobs[0] if not any(job[key] for job in jobs)} <= rare
    status = fleet.document("/status")
    assert status["pause"] and status["accepted"] and any(host["cordon"] for host in status["supervisors"])
