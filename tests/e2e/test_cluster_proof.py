"""Real state of a job on a cluster, changed, killed and moved again and again, is that of an undisturbed run.

The job of ``tests.change_proof``: a stateful aggregate of files that come one by one. What must come out is computed three times: by the job,
by one undisturbed ``spark-submit`` of the same files without any cluster, and by plain Python. For each kind of cluster:
kill -9 of driver, shim, supervisor and whole host; a stop at a batch boundary; a savepoint; a standby that takes over; an exhausted heap,
and more memory after it; updates, a roll back, a broken revision, a drain, a restart, a fork that is promoted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.change_proof import (
    AT_ONCE,
    AT_THE_BOUNDARY,
    CRASHES,
    DRAIN,
    LOSSES,
    LOST_HOST,
    OUT_OF_MEMORY,
    PROMOTE,
    ROLL_BACK,
    SMALL,
    STANDBY,
    UPDATE,
    Step,
    prove,
)
from tests.testbed.cluster_jobs import LIGHT_EXECUTOR
from tests.testbed.kubernetes import kubernetes_cluster
from tests.testbed.moto import MotoServer
from tests.testbed.spark_fleet import SparkFleet
from tests.testbed.standalone import standalone_cluster
from tests.testbed.yarn import yarn_cluster

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(3600)]

STEPS: tuple[Step, ...] = (*CRASHES, *LOSSES, *SMALL)
KINDS = {
    "crash",
    AT_THE_BOUNDARY,
    LOST_HOST,
    STANDBY,
    OUT_OF_MEMORY,
    UPDATE,
    ROLL_BACK,
    DRAIN,
    AT_ONCE,
    PROMOTE,
}
SHARED = "spark.kubernetes.executor.volumes.hostPath.proof"


@pytest.fixture
def proof_fleet(embedded_ensemble: EmbeddedEnsemble, moto_server: MotoServer, tmp_path: Path) -> ProofFleet:
    return ProofFleet(embedded_ensemble, moto_server, tmp_path)


class ProofFleet:
    """Two supervisors, and a job on their one cluster."""

    def __init__(self, ensemble: EmbeddedEnsemble, moto: MotoServer, directory: Path) -> None:
        self._ensemble, self._moto, self.directory = ensemble, moto, directory

    def change_and_kill(self, settings: Mapping[str, Any]) -> None:
        """Goes through every step on a cluster with these ``settings``."""
        clusters = {"prod": settings}
        with SparkFleet.on_moto(self._ensemble, self._moto, self.directory, clusters=clusters) as fleet:
            proof = prove(fleet, "file", self.directory / "proof", STEPS, cluster="prod")
        assert set(proof.gaps) >= KINDS and not proof.absent


def test_on_standalone(proof_fleet: ProofFleet) -> None:
    with standalone_cluster(proof_fleet.directory / "cluster", workers=2) as cluster:
        proof_fleet.change_and_kill(cluster.settings(**LIGHT_EXECUTOR, **{"spark.cores.max": "1"}))


def test_on_yarn(proof_fleet: ProofFleet) -> None:
    with yarn_cluster(proof_fleet.directory / "cluster") as cluster:
        proof_fleet.change_and_kill(cluster.settings(**LIGHT_EXECUTOR))


@pytest.mark.kubernetes
def test_on_kubernetes(proof_fleet: ProofFleet) -> None:
    """Its pods see the directory of input and checkpoint, as they would see one on a shared file system."""
    with kubernetes_cluster() as cluster:
        shared = {f"{SHARED}.{what}.path": str(proof_fleet.directory) for what in ("mount", "options")}
        conf = {**LIGHT_EXECUTOR, "spark.executor.instances": "1", **shared}
        proof_fleet.change_and_kill(cluster.settings(**conf))
