"""A fleet that runs is secured step by step, and goes back: no driver notices, and at no step anybody is locked out."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients.zookeeper import ZooClient
from supervisor.model.zookeeper_access import Acl
from supervisor.registry.access_control import is_open
from tests.faults.conftest import MakeFleet
from tests.testbed.fleet import DRIVER, Fleet
from tests.testbed.secured_ensemble import USERS, SecuredEnsemble
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEnsemble]:
    """TLS, and SASL for whoever wants it: an ensemble in the middle of the roll-out."""
    with SecuredEnsemble(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


def keys_of(ensemble: SecuredEnsemble, step: str) -> dict[str, Any]:
    """The section ``zookeeper`` of supervisor.yaml at a step of the roll-out."""
    access = ensemble.by_password()
    keys: dict[str, Any] = {"tls": {"ca": str(ensemble.authority.ca)}}
    if step != "nothing":
        keys["auth"] = {
            "mechanism": "digest-md5",
            "username": access.username,
            "password_file": access.password_file,
        }
    if step in ("create", "enforce"):
        keys |= {"acl": step, "acl_admins": ["sasl:supervisor"], "acl_readers": ["sasl:reader"]}
    return keys


def configured(fleet: Fleet, step: str) -> None:
    """A rolling restart with the configuration of ``step``; the user has it, too."""
    assert isinstance(fleet.ensemble, SecuredEnsemble)
    fleet.zookeeper = keys_of(fleet.ensemble, step)
    (fleet.directory / "user.yaml").unlink(missing_ok=True)
    for number, member in enumerate(fleet.members):
        fleet.stop_member(member)
        fleet.start_member(number)
        fleet.wait_complete()


def acls(client: ZooClient, path: str) -> Iterator[tuple[str, Acl]]:
    acl = client.read_acl(path)
    if acl is not None:  # else it is gone since it was listed
        yield path, acl
    for name in client.children(path) or ():
        yield from acls(client, f"{path}/{name}")


def open_znodes(fleet: Fleet) -> list[str]:
    found = dict(acls(fleet.client, fleet.root))
    assert fleet.root in found
    return [path for path, acl in found.items() if is_open(acl)]


def test_a_fleet_is_secured_step_by_step_and_goes_back(
    secured: SecuredEnsemble, make_fleet: MakeFleet, job: str
) -> None:
    fleet = make_fleet(
        secured, zookeeper=keys_of(secured, "nothing"), access=secured.by_password(), lease_s=20.0
    )
    early = f"{job}-early"
    fleet.submit(early)
    fleet.wait_state(early, "running")

    configured(fleet, "credentials")
    ran = fleet.cli("registry", "secure")
    assert ran.code == 4 and "zookeeper.acl is open here" in ran.err

    configured(fleet, "create")
    late = f"{job}-late"
    fleet.submit(late)
    fleet.wait_state(late, "running")
    ran = fleet.cli("registry", "secure", "--dry-run")
    uid = fleet.uid(early)
    assert ran.code == 4 and f"the shim of attempt {uid}.1 has no credentials" in ran.out.replace("\n", " ")
    ran = fleet.cli("registry", "secure")
    assert ran.code == 4 and f"{uid}.1" in ran.err
    assert fleet.root in open_znodes(fleet)
    fleet.ok("restart", early)
    fleet.wait_state(early, "running")

    driver = fleet.process(late, DRIVER)
    assert "changed" in fleet.ok("registry", "secure").out
    assert open_znodes(fleet) == []
    configured(fleet, "enforce")
    assert open_znodes(fleet) == []
    assert fleet.process(late, DRIVER) == driver, "nobody noticed"

    # it goes on as before: a driver that dies is started again, a job is cancelled
    fleet.signal(driver, signal.SIGKILL)
    fleet.wait_state(late, "running")
    fleet.cancel(early)
    assert open_znodes(fleet) == []
    for path in fleet.run_dir(late).rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert USERS["supervisor"].encode() not in path.read_bytes(), path

    ran = fleet.cli("registry", "secure", "--open")
    assert ran.code == 4 and "set acl: open on every host" in ran.err
    configured(fleet, "credentials")
    assert "world:anyone may do everything" in fleet.ok("registry", "secure", "--open").out
    assert len(open_znodes(fleet)) == len(list(acls(fleet.client, fleet.root)))
    fleet.wait_state(late, "running")


def test_an_enforcing_supervisor_does_not_work_on_an_open_root(
    secured: SecuredEnsemble, make_fleet: MakeFleet
) -> None:
    fleet = make_fleet(
        secured, zookeeper=keys_of(secured, "credentials"), access=secured.by_password(), supervisors=1
    )
    member = fleet.members[0]
    fleet.stop_member(member)
    fleet.zookeeper = keys_of(secured, "enforce")
    fleet.start_member(0)
    assert member.process is not None and member.process.wait(40) == 4
    assert "is open to everyone; give spark-supervisor registry secure" in member.log
    member.down = True


def test_a_password_that_is_refused_is_in_the_log_and_the_supervisor_waits_for_the_right_one(
    secured: SecuredEnsemble, make_fleet: MakeFleet, tmp_path: Path
) -> None:
    fleet = make_fleet(
        secured, zookeeper=keys_of(secured, "credentials"), access=secured.by_password(), supervisors=1
    )
    member = fleet.members[0]
    fleet.stop_member(member)
    password = tmp_path / "password"
    password.write_text("wrong\n")
    os.chmod(password, 0o600)
    keys = keys_of(secured, "credentials")
    fleet.zookeeper = {**keys, "auth": {**keys["auth"], "password_file": str(password)}}
    fleet.start_member(0)
    said = "ZooKeeper refused the user name supervisor or its password"
    wait_until(lambda: said in member.log, 40, "the refusal in the log")
    password.write_text(USERS["supervisor"] + "\n")
    fleet.wait_complete()
