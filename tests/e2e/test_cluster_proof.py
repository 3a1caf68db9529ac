"""Real state of a job on a cluster, changed and killed again and again, is that of an undisturbed run.

The job of ``tests.change_proof``: a stateful aggregate of files that come one by one. What must come out is computed three times: by the job,
by one undisturbed ``spark-submit`` of the same files without any cluster, and by plain Python.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.change_proof import AT_ONCE, CRASHES, DRAIN, ROLL_BACK, SMALL, UPDATE, Step, prove
from tests.testbed.cluster_jobs import LIGHT_EXECUTOR
from tests.testbed.moto import MotoServer
from tests.testbed.spark_fleet import SparkFleet
from tests.testbed.standalone import standalone_cluster

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(3600)]

STEPS: tuple[Step, ...] = (*CRASHES, *SMALL)


def test_on_standalone(embedded_ensemble: EmbeddedEnsemble, moto_server: MotoServer, tmp_path: Path) -> None:
    with standalone_cluster(tmp_path / "cluster", workers=2) as cluster:
        conf = {**LIGHT_EXECUTOR, "spark.cores.max": "1"}
        clusters = {"prod": {"master": cluster.master, "conf": conf, "driver_host": "127.0.0.1"}}
        with SparkFleet.on_moto(embedded_ensemble, moto_server, tmp_path, clusters=clusters) as fleet:
            changed_and_killed(fleet, tmp_path / "proof")


def changed_and_killed(fleet: SparkFleet, directory: Path) -> None:
    """Goes through every step on the cluster ``prod``."""
    proof = prove(fleet, "file", directory, STEPS, cluster="prod")
    assert {"crash", UPDATE, ROLL_BACK, DRAIN, AT_ONCE} <= set(proof.gaps)
