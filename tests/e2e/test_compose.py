"""deploy/compose.yaml as its reader uses it: up, a real Spark job on S3, one container stopped, one container killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisor.errors import SupervisorError
from tests.testbed import compose
from tests.testbed.compose import ComposeStack
from tests.testbed.product_image import BUILD_MAX_S
from tests.waiting import wait_until

JOB = "rate-counts"
BOTH = ("supervisor-1", "supervisor-2")


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.compose
@pytest.mark.spark
@pytest.mark.timeout(BUILD_MAX_S + 900)
def test_a_job_moves_between_the_containers(tmp_path: Path) -> None:
    with compose.stack(tmp_path) as stack:
        wait_until(lambda: complete(stack, BOTH[0]), 120, "a leader and two supervisors", period_s=1.0)
        stack.supervisor(BOTH[0], "submit", "/compose/rate-counts.yaml", "--wait")
        row = wait_running_on(stack, BOTH[0], running(stack, BOTH[0])["supervisor"])
        assert row["attempt"] == 1

        stays, stopped = other(row["supervisor"]), row["supervisor"]
        stack("stop", stopped)  # SIGTERM: the driver leaves a tombstone, so nobody waits for the lease
        moved = wait_running_on(stack, stays, stays)
        assert (moved["attempt"], moved["failures"]) == (2, 0)
        assert moved["progress"]["batch_id"] > row["progress"]["batch_id"]
        assert event_of(stack, stays, attempt=1) == "stopped"

        stack("start", stopped)
        wait_until(lambda: complete(stack, stays), 120, "both are back", period_s=1.0)
        stack("kill", stays)  # nothing survives, and nobody can say so: the full wait
        again = wait_running_on(stack, stopped, stopped)
        assert again["attempt"] == 3
        assert again["progress"]["batch_id"] > moved["progress"]["batch_id"]
        stack.supervisor(stopped, "cancel", JOB, "--wait")


def other(supervisor: str) -> str:
    return next(name for name in BOTH if name != supervisor)


def complete(stack: ComposeStack, service: str) -> bool:
    try:
        status = stack.document(service, "status")
    except (AssertionError, ValueError, SupervisorError):
        return False
    return status["leader"] in BOTH and len(status["supervisors"]) == 2 and status["store"]["ok"]


def running(stack: ComposeStack, service: str) -> dict[str, Any]:
    row: dict[str, Any] = stack.document(service, "show", JOB)
    return row


def wait_running_on(stack: ComposeStack, service: str, supervisor: str) -> dict[str, Any]:
    def there() -> bool:
        row = running(stack, service)
        return (row["state"], row["supervisor"]) == ("running", supervisor) and row["progress"] is not None

    wait_until(there, 240, f"{JOB} runs on {supervisor}", period_s=2.0)
    return running(stack, service)


def event_of(stack: ComposeStack, service: str, attempt: int) -> str:
    history = running(stack, service)["history"]
    return next(str(entry["event"]) for entry in reversed(history) if entry["attempt"] == attempt)
