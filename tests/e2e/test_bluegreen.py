"""A job is forked while it runs, the fork takes its place with a hook, and gives it back: real Spark, real S3 calls, a real registry.

Both read the same files on S3 and write to places of their own. What each has written must be every line once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.e2e.test_savepoint_resume import HEALTH, PATIENCE_S
from tests.testbed.moto import MotoServer
from tests.testbed.spark_fleet import APPLICATIONS, SparkFleet
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

OLD, NEW = "lines", "lines-2"


@pytest.fixture
def fleet(
    embedded_ensemble: EmbeddedEnsemble, moto_server: MotoServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkFleet]:
    with SparkFleet.on_moto(
        embedded_ensemble, moto_server, tmp_path_factory.mktemp("bluegreen"), lease_s=60.0
    ) as made:
        yield made


def put(s3: Any, fleet: SparkFleet, *numbers: int) -> None:
    for number in numbers:
        s3.put_object(Bucket=fleet.bucket, Key=f"in/{number:03}.txt", Body=f"line {number}\n".encode())


def written(s3: Any, fleet: SparkFleet, name: str) -> list[str]:
    """The lines in the sink of a job, as its own log of committed files names them."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=fleet.bucket, Prefix=f"out/{name}/")
    objects = [
        item["Key"]
        for page in pages
        for item in page.get("Contents", ())
        if "_spark_metadata" not in item["Key"]
    ]
    bodies = [
        s3.get_object(Bucket=fleet.bucket, Key=key)["Body"].read().decode()
        for key in objects
        if key.endswith(".txt")
    ]
    return sorted(line for body in bodies for line in body.splitlines())


def lines(*numbers: int) -> list[str]:
    return sorted(f"line {number}" for number in numbers)


def test_forked_compared_promoted_and_undone(
    fleet: SparkFleet, moto_server: MotoServer, tmp_path: Path
) -> None:
    s3 = moto_server.client()
    put(s3, fleet, 1, 2, 3)
    args = ["{checkpoint}", f"s3a://{fleet.bucket}/in", f"s3a://{fleet.bucket}/out/{{job}}"]
    fleet.submit(OLD, application=APPLICATIONS / "files_seen.py", args=args, health=HEALTH)
    wait_until(lambda: written(s3, fleet, OLD) == lines(1, 2, 3), PATIENCE_S, "the first files")

    forked = json.loads(fleet.ok("fork", OLD, NEW, "-o", "json").out)
    assert (forked["did"], forked["checkpoint"].startswith(f"{fleet.checkpoint(OLD)}.fork-{NEW}-")) == (
        "forked",
        True,
    )
    put(s3, fleet, 4, 5)
    hooked = tmp_path / "hooked"
    told = "$SPARK_SUPERVISOR_HOOK $SPARK_SUPERVISOR_HOOK_NEW $SPARK_SUPERVISOR_HOOK_OVER"
    ran = fleet.ok("promote", NEW, "--over", OLD, "--timeout", "15m", "--hook", f'echo "{told}" >> {hooked}')
    assert f"promoted over {OLD}" in ran.out
    wait_until(lambda: fleet.show(OLD)["state"] == "suspended", PATIENCE_S, "the other is suspended")
    compared = json.loads(fleet.ok("compare", OLD, NEW, "-o", "json").out)
    assert compared["order"] in ("equal", "ahead")
    assert compared["offsets"][0]["sources"][0]["kind"] == "files"
    put(s3, fleet, 6)
    wait_until(
        lambda: written(s3, fleet, NEW)[-1:] == lines(6), PATIENCE_S, "a file that only the fork reads"
    )
    assert "6" not in "".join(written(s3, fleet, OLD))

    fleet.ok("promote", "--undo", OLD, NEW, "--hook", f'echo "{told}" >> {hooked}')
    wait_until(lambda: fleet.show(NEW)["state"] == "suspended", PATIENCE_S, "the fork is suspended")
    wait_until(lambda: written(s3, fleet, OLD) == lines(1, 2, 3, 4, 5, 6), PATIENCE_S, "the other reads on")
    new = written(s3, fleet, NEW)
    assert len(new) == len(set(new)) and set(lines(3, 4, 5, 6)) >= set(new) >= set(lines(4, 5, 6))
    assert hooked.read_text().splitlines() == [f"promote {NEW} {OLD}", f"undo {NEW} {OLD}"]
    for name in (OLD, NEW):
        fleet.ok("cancel", name, "--wait")
