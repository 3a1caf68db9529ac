"""A real Spark driver in the confinement of deploy/systemd: what it can do, what it can't, and how it goes on and ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.testbed.product_image import BUILD_MAX_S
from tests.testbed.systemd_host import DRIVERS, UNIT, SystemdHost
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.testbed.docker_ensemble import DockerEnsemble

pytestmark = [pytest.mark.docker, pytest.mark.spark, pytest.mark.timeout(BUILD_MAX_S + 600)]
JOB = "confined"
READ_ONLY, REFUSED = "Read-only file system", "Operation not permitted"
EXPECTED = {
    "write to /opt": READ_ONLY,
    "write to /etc": READ_ONLY,
    "write to its home": READ_ONLY,
    "packet socket": "Address family not supported by protocol",
    "user namespace": REFUSED,
    "memory of the machine": "No such file or directory",
    "read its home": "done",
    "write to /tmp": "done",
    "shared memory": "done",
    "write to the state directory": "done",
    "names of interfaces": "done",
    "address of its own name": "done",
    "address in Java": "done",
}


def test_a_real_driver_works_confined_outlives_the_service_and_stops_in_order(
    docker_ensemble: DockerEnsemble, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with SystemdHost(
        docker_ensemble.client_network_name, docker_ensemble.hosts, "/systemd-spark", data, spark_home=None
    ) as host:
        spec = {
            "name": JOB,
            "application": "local:///opt/applications/confined.py",
            "args": ["{checkpoint}", "/data/report.json"],
            "master": "local[1]",
            "checkpoint": f"file:///data/checkpoints/{JOB}",
            "resources": {"memory": "1g"},
            "stop_grace": "30s",
            "conf": {
                "spark.ui.enabled": "false",
                "spark.sql.shuffle.partitions": "1",
                "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
            },
        }
        (data / "spec.yaml").write_text(yaml.safe_dump(spec))
        host.supervisor("submit", "/data/spec.yaml", "--wait")
        assert json.loads(host.run("cat", "/data/report.json")) == EXPECTED
        first = host.row(JOB)

        host.run("systemctl", "restart", UNIT)  # a new mount namespace; the driver stays in the old one
        goes_on(host, first)

        host.run("systemctl", "stop", UNIT, DRIVERS)
        row = host.row(JOB)
        assert (row["attempt"], row["stop_mode"]) == (1, "batch_boundary")


def goes_on(host: SystemdHost, before: dict[str, Any]) -> None:
    """The same driver commits two more batches."""
    batch = before["progress"]["batch_id"]
    wait_until(lambda: (committed(host) or 0) >= batch + 2, 120, "two more batches", period_s=1.0)
    row = host.row(JOB)
    assert (row["attempt"], row["driver_pid"], row["state"]) == (
        before["attempt"],
        before["driver_pid"],
        "running",
    )


def committed(host: SystemdHost) -> int | None:
    progress = host.row(JOB)["progress"]
    return None if progress is None else progress["batch_id"]
