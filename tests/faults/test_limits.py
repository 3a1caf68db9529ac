"""Limits of a job (``resources``), by the kernel: what it takes beyond them is told as such."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed import requirements, secured_ensemble
from tests.testbed.fleet import DRIVER, Fleet


@pytest.fixture(scope="module")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """As small as a fleet can be, for a processor that is emulated (``limits_vm.sh``): one server, one supervisor."""
    requirements.need("limits")
    place = tmp_path_factory.mktemp("limits")
    with (
        secured_ensemble.running(place / "zookeeper", nodes=1) as ensemble,
        Fleet(ensemble, f"/fleet-{uuid.uuid4().hex[:12]}", place, supervisors=1, session_s=30.0) as fleet,
    ):
        yield fleet


LEASE = "60s"
"""Where the processor is emulated, a shim takes a quarter of a minute to start."""


def group_of(fleet: Fleet, job: str) -> Path:
    """The cgroup in which the driver of ``job`` is, by the kernel."""
    pid = fleet.process(job, DRIVER).pid
    group = Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition("::")[2]
    return Path("/sys/fs/cgroup") / group.lstrip("/")


def test_a_job_that_takes_more_than_its_limit_dies_and_its_exit_says_so(fleet: Fleet, job: str) -> None:
    fleet.submit(
        job,
        lease=LEASE,
        knobs={"allocate_mb": 300},
        resources={"memory": "64m", "memory_limit": "150m"},
        restart={"strategy": "fixed", "initial": "10m"},
    )
    row = fleet.wait_state(job, "backoff")
    assert row["last_exit"]["cause"] == "out_of_memory"
    assert "at the limit of its cgroup (resources.memory_limit)" in row["last_exit"]["why"]


def test_the_group_of_an_attempt_has_the_limits_of_its_spec(fleet: Fleet, job: str) -> None:
    fleet.submit(
        job, lease=LEASE, resources={"memory": "64m", "memory_limit": "1g", "cpu": 1.5, "tasks": 300}
    )
    row = fleet.wait_state(job, "running")
    assert row["limits"] == "memory_limit 1g, cpu 1.5, tasks 300"
    group = group_of(fleet, job)
    assert (group / "memory.max").read_text() == f"{1 << 30}\n"
    assert (group / "cpu.max").read_text() == "150000 100000\n"
    assert (group / "pids.max").read_text() == "300\n"
    fleet.judge()
