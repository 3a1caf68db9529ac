"""The guards around drivers of other users, one by one, as far as they can be seen without any other user."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.clients import controllers, privileges
from supervisor.clients.access import READ, grant, granted
from supervisor.clients.channel import DRIVERS_OWN
from supervisor.clients.controllers import find_attempt_groups
from supervisor.clock import boottime_s
from supervisor.daemon.host.driver_users import DriverUsers
from supervisor.model.driver_user import DriverUser
from supervisor.shim import reports as reports_module
from supervisor.shim.reports import ReportSocket
from supervisor.shim.starter import fork_starter, limited, outcome, release
from supervisor.spark.environment import passes_to_others
from supervisor.spark.refusal import Refused
from supervisor.spec.site_policy import SitePolicy
from tests.unit.shim.test_starter import Group, ended
from tests.unit.shim.world import LAUNCH

US = DriverUser(name="us", uid=max(1, os.getuid()), gid=max(1, os.getgid()))
NOBODY = DriverUser(name="n", uid=4_000_000_000, gid=4_000_000_000)
SUPERVISOR = 3_999_999_999


def sent(directory: Path, event: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b'{"event": "%s"}' % event.encode(), str(directory / "report"))


def heard(directory: Path, user: DriverUser, *events: str) -> list[str]:
    reports = ReportSocket(str(directory), user)
    found: list[str] = []
    for event in events:
        sent(directory, event)
        found += [report.event for report in reports.take()]
    return found


def test_a_stranger_is_not_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports_module, "os", SimpleNamespace(**{**vars(os), "getuid": lambda: SUPERVISOR}))
    assert heard(tmp_path, NOBODY, "begun", "wanted") == []


def test_what_the_supervisor_says_is_heard_from_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports_module, "os", SimpleNamespace(**{**vars(os), "getuid": lambda: SUPERVISOR}))
    driver: Any = SimpleNamespace(uid=os.getuid())
    assert heard(tmp_path, driver, "begun", "discard", "wanted", "handed") == ["begun"]


def test_an_order_goes_where_no_link_leads(tmp_path: Path) -> None:
    (tmp_path / DRIVERS_OWN).mkdir()
    user: Any = SimpleNamespace(uid=os.getuid())
    reports = ReportSocket(str(tmp_path), user)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as target:
        target.bind(str(tmp_path / "elsewhere"))
        (tmp_path / DRIVERS_OWN / "orders").symlink_to(tmp_path / "elsewhere")
        assert not reports.order("stop", 1.0)


def test_an_order_goes_to_the_drivers_user_only(tmp_path: Path) -> None:
    (tmp_path / DRIVERS_OWN).mkdir()
    reports = ReportSocket(str(tmp_path), NOBODY)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as target:
        target.bind(str(tmp_path / DRIVERS_OWN / "orders"))
        assert not reports.order("stop", 1.0)


def test_it_is_not_executed_as_who_it_may_not_become(tmp_path: Path) -> None:
    tree: Any = Group()
    launch = replace(LAUNCH, argv=("true",), cwd=str(tmp_path), env=dict(os.environ), user=replace(US, gid=0))
    starter = fork_starter(launch, "c1a1", tree)
    release(starter, boottime_s() + 1000.0)
    refusal = outcome(ended(starter))
    assert refusal is not None and "nothing runs as root" in refusal.error


def test_no_driver_of_another_user_is_begun_outside_of_a_cgroup() -> None:
    tree: Any = Group()
    with pytest.raises(OSError, match="needs a cgroup"):
        limited(replace(LAUNCH, user=US), tree)


def test_a_link_is_granted_to_nobody(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    (tmp_path / "link").symlink_to("there")
    with pytest.raises(OSError):
        grant(str(tmp_path / "link"), 20001, READ)
    assert granted(str(tmp_path / "there")) == {}


def test_nothing_of_the_supervisors_passes_to_others() -> None:
    assert [
        name for name in ("PATH", "LC_ALL", "AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY") if passes_to_others(name)
    ] == [
        "PATH",
        "LC_ALL",
    ]


def test_who_is_not_allowed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privileges, "missing", lambda _pid=None: ())
    users = DriverUsers(SitePolicy(users=("20001",)), has_cgroup=True)
    with pytest.raises(Refused):
        users.of("20002")


def test_a_host_without_a_cgroup_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privileges, "missing", lambda _pid=None: ())
    with pytest.raises(Refused):
        DriverUsers(SitePolicy(users=("20001",)), has_cgroup=False).of("20001")


def test_a_service_without_a_subgroup_is_asked_for_no_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "x.service"
    parent = own / "spark-supervisor"
    parent.mkdir(parents=True)
    for group in (own, parent):
        (group / "cgroup.controllers").write_text("memory pids cpu")
        (group / "cgroup.subtree_control").touch()
    monkeypatch.setattr(controllers, "find_cgroup_parent", lambda _base: str(parent))
    assert set(find_attempt_groups(str(own)).lacking) == {"memory", "pids", "cpu"}
    assert (own / "cgroup.subtree_control").read_text() == ""
