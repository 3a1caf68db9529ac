"""The units of deploy/systemd: what a process in them can't do, and what must stay possible for drivers that outlive a service."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from supervisor.clients.controllers import SUBGROUP
from supervisor.clients.host_probe import read_unit
from supervisor.clients.privileges import NEEDED

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))
EXPOSURE_MAX = 4.0
"""Of 10, as systemd counts it; 9.0 is a unit that confines nothing but its user."""


@pytest.mark.systemd_analyze
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_little_exposure(unit: Path) -> None:
    judge = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
    done = subprocess.run(judge, capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert float(found[1]) <= EXPOSURE_MAX, done.stdout


@pytest.mark.systemd_analyze
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_knows_every_line(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert [
        line
        for line in done.stderr.splitlines()
        if re.search(r"Unknown|Failed to parse|[Ii]nvalid|ignoring", line)
    ] == []


def test_nothing_is_taken_from_drivers_that_outlive_the_service() -> None:
    """Each of these would end or blind a driver, or what looks after it, at the next stop or restart of the service."""
    (service,) = (unit for unit in UNITS if unit.stem == "spark-supervisor")
    options = read_unit(service, ()).options
    never = {
        "PrivateTmp",
        "RemoveIPC",
        "ProtectControlGroups",
        "ProcSubset",
        "MemoryDenyWriteExecute",
        "PrivateUsers",
        "DynamicUser",
    }
    assert never & options.keys() == set()
    assert (options["KillMode"], options["Delegate"], options["RuntimeDirectoryPreserve"]) == (
        "process",
        "yes",
        "yes",
    )
    assert (options["SystemCallFilter"], options["SystemCallErrorNumber"]) == ("@system-service", "EPERM")
    assert {"/tmp", "/var/tmp"} <= set(options["ReadWritePaths"].split())


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_confined(unit: Path) -> None:
    options = read_unit(unit, ()).options
    assert (options["NoNewPrivileges"], options["CapabilityBoundingSet"], options["ProtectSystem"]) == (
        "yes",
        "",
        "strict",
    )
    assert options["User"] == "spark"


DROP_INS = UNITS[0].parent / "drop-ins"


def installed(tmp_path: Path, *names: str) -> Path:
    """The service's unit with drop-ins beside it, as systemd would find them."""
    (service,) = (unit for unit in UNITS if unit.stem == "spark-supervisor")
    below = tmp_path / f"{service.name}.d"
    below.mkdir()
    for name in names:
        (below / name).write_bytes((DROP_INS / name).read_bytes())
    (tmp_path / service.name).write_bytes(service.read_bytes())
    return tmp_path / service.name


def test_run_as_needs_three_capabilities_and_no_other(tmp_path: Path) -> None:
    options = read_unit(installed(tmp_path, "run-as.conf"), ()).options
    for key in ("CapabilityBoundingSet", "AmbientCapabilities"):
        assert set(options[key].split()) == set(NEEDED)
    assert (options["NoNewPrivileges"], options["RuntimeDirectoryMode"]) == ("yes", "0711")
    assert options["StateDirectoryMode"] == "0711"


def test_controllers_are_had_with_a_group_for_the_supervisor_only(tmp_path: Path) -> None:
    assert "DelegateSubgroup" not in read_unit(installed(tmp_path), ()).options
    assert SUBGROUP in (DROP_INS / "limits.conf").read_text()


@pytest.mark.systemd_analyze
def test_systemd_knows_every_line_of_run_as(tmp_path: Path) -> None:
    test_systemd_knows_every_line(installed(tmp_path, "run-as.conf"))
