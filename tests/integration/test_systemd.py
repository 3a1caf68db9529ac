"""deploy/systemd on a real systemd: what restart, stop and death of the service, and shutdown of the host do to drivers.

One host in a container for all tests, which run in the order of this file: the last one switches it off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from supervisor.clients.zookeeper import ZooClient
from supervisor.model.records import Cause, Ownership, OwnState
from supervisor.model.seen import Found
from supervisor.records.layout import Layout
from supervisor.records.reading import seen
from tests.faults import checker
from tests.testbed.product_image import BUILD_MAX_S
from tests.testbed.systemd_host import DRIVERS, UNIT, SystemdHost
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.testbed.docker_ensemble import DockerEnsemble

pytestmark = [pytest.mark.docker, pytest.mark.timeout(BUILD_MAX_S + 300)]
ROOT = "/systemd-test"
JOB = "steady"


@pytest.fixture(scope="module")
def host(docker_ensemble: DockerEnsemble, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdHost]:
    data = tmp_path_factory.mktemp("host") / "data"
    with SystemdHost(docker_ensemble.client_network_name, docker_ensemble.hosts, ROOT, data) as host:
        host.submit(JOB)
        yield host


def goes_on(host: SystemdHost) -> None:
    """The one driver that was ever started for the job writes more batches, and nothing else was started."""
    before = len(host.notes("batch"))
    wait_until(lambda: len(host.notes("batch")) >= before + 3, 30, "three more batches")
    assert [(note.job, note.attempt) for note in host.notes("start")] == [(JOB, 1)]


def main_pid(host: SystemdHost) -> int:
    return int(host.unit(UNIT, "MainPID"))


def replaced(host: SystemdHost, before: int) -> None:
    wait_until(
        lambda: host.unit(UNIT, "ActiveState") == "active" and main_pid(host) not in (0, before),
        90,
        "another process",
    )


def status_of(host: SystemdHost, pid: int) -> dict[str, str]:
    lines = host.run("cat", f"/proc/{pid}/status").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def mounted(host: SystemdHost, pid: int) -> dict[str, str]:
    """``ro`` or ``rw`` by mount point, as ``pid`` sees them."""
    fields = [line.split(" ") for line in host.run("cat", f"/proc/{pid}/mountinfo").splitlines()]
    return {field[4]: field[5].split(",")[0] for field in fields}


def assert_confined(host: SystemdHost, pid: int) -> None:
    """What the unit says is in force for ``pid``, in the container too."""
    status = status_of(host, pid)
    assert (status["NoNewPrivs"], status["Seccomp"], status["CapBnd"]) == ("1", "2", "0" * 16)
    mounts = mounted(host, pid)
    assert mounts["/"] == "ro"
    assert {
        mounts[path] for path in ("/data", "/tmp", "/run/spark-supervisor", "/var/log/spark-supervisor")
    } == {"rw"}


def test_the_unit_is_ready_when_the_supervisor_is(host: SystemdHost) -> None:
    assert (host.unit(UNIT, "Type"), host.unit(UNIT, "SubState")) == ("notify", "running")
    assert host.unit(DRIVERS, "ActiveState") == "active"
    assert host.row(JOB)["state"] == "running"
    goes_on(host)


def test_each_driver_has_a_cgroup_of_its_own_below_the_unit(host: SystemdHost) -> None:
    """``Delegate=yes`` lets the supervisor, which is not root, make them."""
    groups = host.run("cat", f"/proc/{host.row(JOB)['driver_pid']}/cgroup").splitlines()
    unified = next(line.partition("::")[2] for line in groups if line.startswith("0::"))
    assert f"/{UNIT}/" in unified and f"/{host.row(JOB)['uid']}.1-" in unified


def test_supervisor_and_driver_are_confined(host: SystemdHost) -> None:
    assert_confined(host, main_pid(host))
    driver = host.row(JOB)["driver_pid"]
    assert_confined(host, driver)
    assert status_of(host, driver)["Umask"] == host.unit(UNIT, "UMask")


def test_what_the_supervisor_writes_is_for_its_user_alone(host: SystemdHost) -> None:
    for directory, closed in (("/run/spark-supervisor", "/077"), ("/var/log/spark-supervisor", "/027")):
        below = ("find", directory, "-mindepth", "1", "-not", "-type", "l")
        assert host.row(JOB)["uid"] in host.run(*below)
        assert host.run(*below, "-perm", closed) == ""
    assert host.run("stat", "--format", "%a %U", "/run/spark-supervisor").split() == ["700", "spark"]
    assert status_of(host, main_pid(host))["Umask"] == "0077"


@pytest.mark.parametrize("action", ["restart", "stop"])
def test_restart_and_stop_of_the_service_touch_no_driver(host: SystemdHost, action: str) -> None:
    before = main_pid(host)
    host.run("systemctl", action, UNIT)
    goes_on(host)
    if action == "stop":
        assert main_pid(host) == 0
        host.run("systemctl", "start", UNIT)
    replaced(host, before)
    goes_on(host)
    assert host.row(JOB)["state"] == "running"


def test_a_killed_supervisor_is_started_again(host: SystemdHost) -> None:
    before = main_pid(host)
    host.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", UNIT)
    replaced(host, before)
    goes_on(host)


def test_a_stuck_supervisor_is_replaced_by_systemd(host: SystemdHost) -> None:
    """The watchdog of the unit, with shorter times than it ships with."""
    host.run("mkdir", "-p", f"/run/systemd/system/{UNIT}.d")
    times = "[Service]\\nWatchdogSec=3s\\nTimeoutAbortSec=2s\\n"
    host.run(
        "sh",
        "-c",
        f"printf '{times}' > /run/systemd/system/{UNIT}.d/watchdog.conf && systemctl daemon-reload",
    )
    host.run("systemctl", "restart", UNIT)
    before = main_pid(host)
    host.run("systemctl", "kill", "--kill-who=main", "--signal=STOP", UNIT)
    replaced(host, before)
    goes_on(host)
    host.run("sh", "-c", f"rm /run/systemd/system/{UNIT}.d/watchdog.conf && systemctl daemon-reload")
    host.run("systemctl", "restart", UNIT)


def test_the_shutdown_of_the_host_stops_drivers_in_order_and_the_job_goes_on_after_the_boot(
    host: SystemdHost, docker_ensemble: DockerEnsemble
) -> None:
    host.shut_down()
    first = [note for note in host.notes() if note.attempt == 1]
    assert [note.event for note in first if note.event in ("term", "stop")] == ["term", "stop"]
    client = ZooClient(docker_ensemble.hosts, 4.0)
    client.start()
    try:
        client.wait_connected(20)
        path = Layout(ROOT).own(JOB)
        own = seen(Ownership, client.read(path), path)
    finally:
        client.close()
    assert isinstance(own, Found), own
    assert (own.record.state, own.record.cause, own.record.attempt) == (OwnState.EXITED, Cause.STOPPED, 1)

    host.boot()
    wait_until(
        lambda: [note for note in host.notes("batch") if note.attempt == 2], 60, "a batch of the next attempt"
    )
    assert checker.violations(host.notes(), (), grace_s=10.0) == []
    assert host.row(JOB)["failures"] == 0
