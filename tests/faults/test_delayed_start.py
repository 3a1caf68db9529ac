"""A start that waits for S3 says so to everybody, uses nothing up, and goes on by itself: real processes and S3 calls."""

from __future__ import annotations

import signal

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.faults.conftest import MakeFleet
from tests.testbed.fleet import DRIVER
from tests.testbed.moto import MotoServer
from tests.testbed.proxy import Proxy
from tests.waiting import wait_until


@pytest.mark.slow
def test_why_a_start_waits_for_s3(
    make_fleet: MakeFleet,
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    aws_env: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Proxy(f"127.0.0.1:{moto_server.port}") as to_s3:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://{to_s3.address}")
        bucket = moto_server.new_bucket()
        fleet = make_fleet(embedded_ensemble, store=f"s3://{bucket}/fleet")
        fleet.submit_many(("waits", "runs-on"))
        for name in ("waits", "runs-on"):
            fleet.wait_state(name, "running")
        to_s3.refuse()
        fleet.signal(fleet.process("waits", DRIVER), signal.SIGKILL)

        def reason_shown() -> str:
            reason = str(fleet.show("waits")["reason"])
            return reason if "can't start it yet" in reason else ""

        reason = wait_until(reason_shown, 120, "the host to say why", period_s=0.5)
        assert bucket in reason and reason.startswith("assigned to s")
        assert next(row for row in fleet.rows() if row["name"] == "waits")["reason"] == reason
        assert bucket in fleet.ok("explain", "waits").out
        attempt = fleet.show("waits")["attempt"]
        to_s3.heal()
        fleet.wait_state("waits", "running", timeout_s=120)
        assert fleet.show("waits")["attempt"] == attempt, "each try was of the same attempt"
        fleet.assert_undisturbed("runs-on")
