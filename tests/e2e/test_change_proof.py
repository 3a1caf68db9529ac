"""A stateful aggregate that is changed while it runs gives what an undisturbed run gives: the small form of ``tests.change_proof``."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.change_proof import ROLL_BACK, SMALLEST, UPDATE, prove
from tests.testbed.moto import MotoServer
from tests.testbed.spark_fleet import SparkFleet


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_updates_and_a_roll_back_lose_nothing(
    embedded_ensemble: EmbeddedEnsemble, moto_server: MotoServer, tmp_path: Path
) -> None:
    with SparkFleet.on_moto(embedded_ensemble, moto_server, tmp_path) as fleet:
        proof = prove(fleet, "file", tmp_path / "file", SMALLEST)
        assert {kind: len(gaps) for kind, gaps in proof.gaps.items()} == {UPDATE: 2, ROLL_BACK: 1}
