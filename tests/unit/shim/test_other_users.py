"""A driver of another Unix user: what it becomes, whose reports are heard, and where orders go. Needs root."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients.channel import DRIVERS_OWN, make_channel
from supervisor.clients.containment import CgroupContainment
from supervisor.clients.emptying import remove
from supervisor.clock import boottime_s
from supervisor.model.driver_user import DriverUser, ResourceLimits
from supervisor.shim import reports as reports_module
from supervisor.shim.reports import REPORTS_PER_S, ReportSocket
from supervisor.shim.starter import fork_starter, limited, outcome, release
from tests.unit.shim.test_starter import Group, ended
from tests.unit.shim.world import LAUNCH

pytestmark = pytest.mark.users
USER = DriverUser(name="u", uid=20001, gid=20001, groups=(20005,))
OTHER = replace(USER, uid=20002, gid=20002)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where other users get to."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    assert remove(str(made), 60.0)


@pytest.fixture
def channel(directory: Path) -> Path:
    work = directory / "work"
    work.mkdir(mode=0o700)
    return Path(make_channel(str(work), USER.uid))


def as_user(user: DriverUser, what: Callable[[], Any]) -> bool:
    """Whether ``what`` could be done."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(user.gid, user.gid, user.gid)
            os.setresuid(user.uid, user.uid, user.uid)
            what()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def send(channel: Path, *events: str) -> Callable[[], None]:
    def to_socket() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            for event in events:
                sender.sendto(json.dumps({"event": event}).encode(), str(channel / "report"))

    return to_socket


def start(directory: Path, script: str, user: DriverUser | None = USER, cwd: Path | None = None) -> Any:
    launch = replace(
        LAUNCH,
        argv=("sh", "-c", script),
        cwd=str(cwd or directory),
        env={"PATH": os.environ["PATH"]},
        user=user,
    )
    tree: Any = Group()
    return fork_starter(launch, "c1a1", tree)


def test_it_is_its_user_when_it_is_executed_and_nobody_before(directory: Path) -> None:
    (directory / "open").mkdir()
    (directory / "open").chmod(0o777)
    starter = start(directory, "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs)' /proc/self/status > open/is")
    assert os.stat(f"/proc/{starter.pid}").st_uid == os.getuid(), (
        "as long as it waits, that user can't harm it"
    )
    release(starter, boottime_s() + 1000.0)
    assert outcome(ended(starter)) is None
    lines = dict(line.split(":", 1) for line in (directory / "open" / "is").read_text().splitlines())
    assert {name: value.split() for name, value in lines.items()} == {
        "Uid": ["20001"] * 4,
        "Gid": ["20001"] * 4,
        "Groups": ["20005"],
        **{f"Cap{name}": ["0" * 16] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")},
        "NoNewPrivs": ["1"],
    }


def test_what_its_user_may_not_do_is_a_permanent_failure_that_names_it(directory: Path) -> None:
    (directory / "closed").mkdir(mode=0o700)
    starter = start(directory, "true", cwd=directory / "closed")
    release(starter, boottime_s() + 1000.0)
    refusal = outcome(ended(starter))
    assert refusal is not None and refusal.permanent and f"{directory}/closed" in refusal.error


@pytest.mark.parametrize("odd", [{"uid": 0}, {"gid": 0}, {"groups": (0,)}])
def test_nothing_runs_as_root(directory: Path, odd: dict[str, Any]) -> None:
    starter = start(directory, "true", replace(USER, **odd))
    release(starter, boottime_s() + 1000.0)
    refusal = outcome(ended(starter))
    assert refusal is not None and refusal.permanent and "nothing runs as root" in refusal.error


def test_who_is_heard(channel: Path) -> None:
    """The driver's user in what a driver says, the supervisor's in everything, nobody else in anything."""
    reports = ReportSocket(str(channel), USER)
    assert as_user(USER, send(channel, "begun", "discard", "wanted", "handed"))
    assert [report.event for report in reports.take()] == ["begun"]
    send(channel, "wanted", "looked")()
    assert [report.event for report in reports.take()] == ["wanted", "looked"]
    assert not as_user(OTHER, send(channel, "begun"))
    for above in (channel.parent, channel):
        os.removexattr(above, "system.posix_acl_access")
        above.chmod(0o755)
    assert as_user(OTHER, send(channel, "begun")), "it gets there now"
    assert reports.take() == []


def test_who_reports_too_often_is_heard_again_in_the_next_second(
    channel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(reports_module.time, "monotonic", lambda: now[0])
    reports, heard = ReportSocket(str(channel), USER), 0
    for _ in range(REPORTS_PER_S // 5 + 1):
        send(channel, *["idle"] * 5)()
        heard += len(reports.take())
    assert heard == REPORTS_PER_S and reports.paused_s() == 1.0
    now[0] += 1.0
    assert reports.paused_s() == 0.0 and len(reports.take()) == 5


@pytest.mark.parametrize("trick", ["link", "of another user", "file"])
def test_orders_go_to_a_socket_of_the_driver_alone(channel: Path, trick: str) -> None:
    reports, orders = ReportSocket(str(channel), USER), channel / DRIVERS_OWN / "orders"
    target = channel.parent / "target"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as taken:
        taken.bind(str(orders if trick == "of another user" else target))
        if trick == "link":
            os.chown(target, USER.uid, USER.gid)
            orders.symlink_to(target)
        elif trick == "file":
            orders.touch()
        assert not reports.order("stop", 5.0)
        with pytest.raises(BlockingIOError):
            taken.recv(100)
        if trick == "of another user":
            os.chown(orders, USER.uid, USER.gid)
            assert reports.order("stop", 5.0) and json.loads(taken.recv(100))["order"] == "stop"


def test_without_a_cgroup_no_driver_of_another_user_is_begun() -> None:
    tree: Any = Group()
    with pytest.raises(OSError, match="needs a cgroup"):
        limited(replace(LAUNCH, user=USER), tree)
    assert limited(LAUNCH, tree) == LAUNCH


def test_limits_are_written_into_the_group_and_what_is_missing_is_said(tmp_path: Path) -> None:
    for name in ("memory.max", "cpu.max"):
        (tmp_path / name).touch()
    launch = replace(LAUNCH, limits=ResourceLimits(memory=2**30, cpu=1.5, tasks=100))
    made = limited(launch, CgroupContainment(str(tmp_path)))
    assert (tmp_path / "memory.max").read_text() == str(2**30)
    assert (tmp_path / "cpu.max").read_text() == "150000 100000"
    assert made.not_limited == "pids.max: No such file or directory", "no swap is no want"
    known = replace(launch, not_limited="pids: no")
    assert limited(known, CgroupContainment(str(tmp_path))).not_limited.startswith("pids: no")
