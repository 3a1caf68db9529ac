"""The preflight of a PySpark job whose checkpoint is on S3 goes on beside the start of its driver, which waits at its start barrier.

S3 answers when the test lets it. What is true is what the driver wrote down: a driver that has started and made no batch has
not begun its application.
"""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.fakes.faulty_s3 import FaultyS3, Handler, relay
from tests.faults.conftest import MakeFleet
from tests.faults.test_lost_jvm_checkpoint import QUERY, remembered
from tests.testbed.fleet import DRIVER, PATIENCE_S, Fleet
from tests.testbed.moto import MotoServer
from tests.waiting import wait_until

JOB = "held"
OBJECTS = {"metadata": json.dumps({"id": QUERY}), "offsets/900": "v1\n{}\n", "commits/900": "v1\n{}\n"}
"""Ahead of what the light driver says, which keeps its log elsewhere."""


@dataclass
class HeldCheckpoint:
    """A checkpoint on S3 that answers while ``answers`` is set."""

    bucket: str
    client: Any
    endpoint_url: str
    answers: threading.Event = field(default_factory=threading.Event)

    def fill(self) -> None:
        for key, text in OBJECTS.items():
            self.client.put_object(Bucket=self.bucket, Key=f"ck/{key}", Body=text.encode())

    def empty(self) -> None:
        for key in OBJECTS:
            self.client.delete_object(Bucket=self.bucket, Key=f"ck/{key}")

    def hold(self, handler: Handler) -> None:
        self.answers.wait(PATIENCE_S)
        relay(handler)


@pytest.fixture
def checkpoint(moto_server: MotoServer, aws_env: dict[str, str]) -> Iterator[HeldCheckpoint]:
    faulty = FaultyS3(moto_server.port)
    made = HeldCheckpoint(moto_server.new_bucket(), moto_server.client(), faulty.endpoint_url)
    faulty.always = made.hold
    made.answers.set()
    made.fill()
    yield made
    made.answers.set()
    faulty.stop()


@pytest.fixture
def fleet(make_fleet: MakeFleet, embedded_ensemble: EmbeddedEnsemble, checkpoint: HeldCheckpoint) -> Fleet:
    """The job runs there, and it is remembered."""
    policy = {"endpoints": [checkpoint.endpoint_url]}
    fleet = make_fleet(
        embedded_ensemble, supervisors=1, capacity={"drivers": 2, "memory": "2g"}, policy=policy
    )
    fleet.submit(JOB, **spec(checkpoint))
    wait_until(lambda: remembered(fleet, JOB) is not None, PATIENCE_S, "the memory of its checkpoint")
    return fleet


def spec(checkpoint: HeldCheckpoint, **more: Any) -> dict[str, Any]:
    s3a = {
        "spark.hadoop.fs.s3a.endpoint": checkpoint.endpoint_url,
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    restart = {"strategy": "exponential", "initial": "500ms", "attempts": 1}
    return {
        "checkpoint": f"s3a://{checkpoint.bucket}/ck",
        "conf": s3a,
        "knobs": {"query_id": QUERY},
        "restart": restart,
        **more,
    }


def started_while_s3_is_silent(fleet: Fleet, checkpoint: HeldCheckpoint) -> int:
    """Its driver was killed; the number of the next attempt, which is up."""
    before = len(fleet.starts(JOB))
    checkpoint.answers.clear()
    fleet.signal(fleet.process(JOB, DRIVER), signal.SIGKILL)
    wait_until(
        lambda: len(fleet.starts(JOB)) > before,
        PATIENCE_S,
        "the next driver, beside the look at its checkpoint",
    )
    return fleet.starts(JOB)[-1].attempt


def batches(fleet: Fleet, attempt: int) -> int:
    return sum(note.event == "batch" and note.attempt == attempt for note in fleet.notes(JOB))


def test_a_driver_starts_beside_the_look_and_begins_after_it(
    fleet: Fleet, checkpoint: HeldCheckpoint
) -> None:
    attempt = started_while_s3_is_silent(fleet, checkpoint)
    assert batches(fleet, attempt) == 0
    wait_until(
        lambda: "waits until its checkpoint" in fleet.show(JOB)["reason"],
        PATIENCE_S,
        "show to say what it waits for",
    )
    shown = fleet.show(JOB)
    assert (shown["state"], shown["attempt"]) == ("starting", attempt)
    checkpoint.answers.set()
    wait_until(lambda: batches(fleet, attempt), PATIENCE_S, "its first batch")
    fleet.wait_state(JOB, "running")


def test_a_checkpoint_that_is_gone_is_found_while_the_driver_starts(
    fleet: Fleet, checkpoint: HeldCheckpoint
) -> None:
    attempt = started_while_s3_is_silent(fleet, checkpoint)
    checkpoint.empty()
    checkpoint.answers.set()
    shown = fleet.wait_state(JOB, "quarantined")
    assert "missing or empty" in shown["reason"] and "--accept-fresh-start" in shown["reason"]
    assert shown["attempt"] == attempt and batches(fleet, attempt) == 0
    wait_until(lambda: not fleet.alive_pids(JOB), PATIENCE_S, "its driver to be gone")
    assert "--accept-fresh-start" in fleet.ok("explain", JOB).out

    fleet.ok("resume", JOB)  # it is still gone, and still remembered
    fleet.wait_state(JOB, "quarantined")
    assert all(batches(fleet, note.attempt) == 0 for note in fleet.starts(JOB) if note.attempt >= attempt)
    checkpoint.fill()
    fleet.ok("resume", JOB)
    fleet.wait_state(JOB, "running")


def test_a_driver_that_waits_is_cancelled_like_any_other(fleet: Fleet, checkpoint: HeldCheckpoint) -> None:
    attempt = started_while_s3_is_silent(fleet, checkpoint)
    fleet.cancel(JOB)
    wait_until(lambda: not fleet.alive_pids(JOB), PATIENCE_S, "its driver to be gone")
    assert batches(fleet, attempt) == 0
    checkpoint.answers.set()
    assert fleet.wait_state(JOB, "cancelled")["attempt"] == attempt


def test_a_cancelled_one_gives_its_place_to_another_at_once(fleet: Fleet, checkpoint: HeldCheckpoint) -> None:
    """Its look goes on for as long as S3 is silent."""
    for name in ("second", "third"):
        fleet.submit(name, suspended=True, resources={"memory": "900m"})
    started_while_s3_is_silent(fleet, checkpoint)
    fleet.cancel(JOB)
    for name in ("second", "third"):
        fleet.ok("resume", name)
        fleet.wait_state(name, "running")
    assert "no_room" not in fleet.members[0].log and "start_refused" not in fleet.members[0].log


def test_a_wait_that_is_too_long_is_not_charged_to_the_job(fleet: Fleet, checkpoint: HeldCheckpoint) -> None:
    """S3 is silent for longer than the job may take to start; one restart is all that its budget has left."""
    fleet.cancel(JOB)
    fleet.submit(JOB, **spec(checkpoint, health={"start_timeout": "3s"}))
    wait_until(lambda: remembered(fleet, JOB) is not None, PATIENCE_S, "the memory of its checkpoint")
    fleet.wait_state(JOB, "running")
    held = started_while_s3_is_silent(fleet, checkpoint)
    given_up = re.compile(rf"no_access +{held} ")
    wait_until(lambda: given_up.search(fleet.ok("history", JOB).out), PATIENCE_S, "the driver to be given up")
    checkpoint.answers.set()
    fleet.wait_state(JOB, "running", timeout_s=2 * PATIENCE_S)
    assert batches(fleet, held) == 0 and fleet.show(JOB)["attempt"] > held


def test_who_waits_when_the_supervisor_dies_is_told_by_the_next_one(
    fleet: Fleet, checkpoint: HeldCheckpoint
) -> None:
    attempt = started_while_s3_is_silent(fleet, checkpoint)
    fleet.kill(fleet.members[0])
    checkpoint.answers.set()
    assert batches(fleet, attempt) == 0
    fleet.start_member(0)
    fleet.wait_complete()
    wait_until(lambda: batches(fleet, attempt), PATIENCE_S, "its first batch")
    fleet.wait_state(JOB, "running")
    assert fleet.starts(JOB)[-1].attempt == attempt, "the same driver"


def test_s3_that_does_not_answer_costs_one_driver_and_no_restart_of_the_budget(
    fleet: Fleet, checkpoint: HeldCheckpoint
) -> None:
    """One driver is given up; the next start waits until S3 answers, before anything of it is there (F26)."""
    held = started_while_s3_is_silent(fleet, checkpoint)

    def reason_shown() -> str:
        reason = str(fleet.show(JOB)["reason"])
        return reason if "can't start it yet" in reason else ""

    reason = wait_until(reason_shown, 3 * PATIENCE_S, "the host to say why", period_s=0.3)
    assert checkpoint.bucket in reason
    assert [note.attempt for note in fleet.starts(JOB)][-1] == held and batches(fleet, held) == 0
    assert re.search(rf"no_access +{held} ", fleet.ok("history", JOB).out)
    checkpoint.answers.set()
    fleet.wait_state(JOB, "running", timeout_s=2 * PATIENCE_S)
    assert fleet.starts(JOB)[-1].attempt == held + 1
