"""S3 is down for a while (F26, F27): nothing that runs is disturbed, a submit is refused cleanly, cancels are obeyed, and what
failed meanwhile runs again by itself when S3 is back. With a change of leader in the midst of it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.faults.conftest import MakeFleet
from tests.testbed.fleet import DRIVER
from tests.testbed.moto import MotoServer
from tests.testbed.proxy import Proxy
from tests.waiting import wait_until

DOWN: dict[str, Callable[[Proxy], None]] = {"refused": Proxy.refuse, "hangs": Proxy.hold}


@pytest.fixture
def to_s3(
    moto_server: MotoServer, aws_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Proxy]:
    """Supervisors, shims and commands reach S3 through it."""
    with Proxy(f"127.0.0.1:{moto_server.port}") as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://{proxy.address}")
        yield proxy


@pytest.mark.slow
@pytest.mark.parametrize("down", DOWN)
def test_s3_is_down_for_a_while(
    make_fleet: MakeFleet,
    embedded_ensemble: EmbeddedEnsemble,
    moto_server: MotoServer,
    to_s3: Proxy,
    down: str,
) -> None:
    bucket = moto_server.new_bucket()
    fleet = make_fleet(embedded_ensemble, store=f"s3://{bucket}/fleet")
    names = ("runs-on", "loses-its-driver", "is-cancelled")
    fleet.submit_many(names)
    for name in names:
        fleet.wait_state(name, "running")
    listed = moto_server.client().list_objects_v2(Bucket=bucket)["KeyCount"]

    DOWN[down](to_s3)
    ran = fleet.cli("submit", str(fleet.spec_file("too-late")))
    assert (ran.code, ran.out) == (5, "")
    assert "Traceback" not in ran.err and f"s3://{bucket}/fleet" in ran.err
    assert fleet.cli("show", "too-late").code == 3, "what was not acknowledged is not there"
    epoch = fleet.epoch()
    fleet.kill(fleet.leader())
    fleet.wait_new_leader(epoch)
    fleet.signal(fleet.process("loses-its-driver", DRIVER), signal.SIGKILL)
    fleet.cancel("is-cancelled")
    wait_until(lambda: not fleet.alive_pids("is-cancelled"), 60, "the cancelled driver to end")
    fleet.wait_state("loses-its-driver", "pending", "backoff", "starting")
    fleet.assert_undisturbed("runs-on")
    assert {row["name"] for row in fleet.rows()} == {"runs-on", "loses-its-driver"}

    to_s3.heal()
    fleet.wait_state("loses-its-driver", "running", timeout_s=120)
    fleet.wait_attempt("loses-its-driver", 2)
    assert moto_server.client().list_objects_v2(Bucket=bucket)["KeyCount"] >= listed
    fleet.submit("too-late")
    fleet.wait_state("too-late", "running")
    fleet.assert_undisturbed("runs-on")
