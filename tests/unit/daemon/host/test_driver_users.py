"""As which user a job runs: by the policy of the host, and only where the host can hold such a driver."""

from __future__ import annotations

import os
import pwd

import pytest

from supervisor.clients import privileges
from supervisor.clients.users import closed_to_others, find_driver_user
from supervisor.daemon.host.driver_users import DriverUsers
from supervisor.errors import InvalidInput, NotFound
from supervisor.model.records import Cause
from supervisor.spark.refusal import Refused
from supervisor.spec.site_policy import SitePolicy

SITE = SitePolicy(run_as="20001", users=("20002",))


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privileges, "missing", lambda _pid=None: ())


def refusal(users: DriverUsers, run_as: str | None) -> str:
    with pytest.raises(Refused) as caught:
        users.of(run_as)
    assert caught.value.cause is Cause.NO_USER
    return str(caught.value)


def test_the_policy_decides() -> None:
    users = DriverUsers(SITE, has_cgroup=True)
    assert [found.uid for run_as in (None, "20001", "20002") if (found := users.of(run_as))] == [
        20001,
        20001,
        20002,
    ]
    assert "allows only 20002" in refusal(users, "20003")
    assert "allows no user" in refusal(DriverUsers(SitePolicy(), has_cgroup=True), "20003")
    assert DriverUsers(SitePolicy(), has_cgroup=False).of(None) is None


def test_a_host_that_cannot_hold_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    users = DriverUsers(SITE, has_cgroup=False)
    assert "no cgroup" in refusal(users, None) and "no cgroup" in str(users.trouble())
    monkeypatch.setattr(privileges, "missing", lambda _pid=None: ("CAP_SETUID",))
    assert "lacks CAP_SETUID" in refusal(users, None) and "run-as.conf" in str(users.trouble())
    assert not DriverUsers(SitePolicy(), has_cgroup=False).trouble()


def test_users_by_name_and_number() -> None:
    nobody = pwd.getpwnam("nobody")
    found = find_driver_user("nobody")
    assert (found.uid, found.gid) == (nobody.pw_uid, nobody.pw_gid) and found.gid not in found.groups
    assert find_driver_user(str(nobody.pw_uid)) == found
    bare = find_driver_user("20001")
    assert (bare.uid, bare.gid, bare.groups, bare.home) == (20001, 20001, (), "")
    with pytest.raises(NotFound, match="useradd"):
        find_driver_user("nobody-of-that-name")


@pytest.mark.parametrize("name", ["root", "0", str(os.geteuid())])
def test_nobody_runs_as_root_or_as_the_supervisor(name: str) -> None:
    with pytest.raises(InvalidInput):
        find_driver_user(name)


def test_a_user_of_roots_group_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = pwd.struct_passwd(("sync2", "x", 4000, 0, "", "/bin", "/bin/sync"))
    monkeypatch.setattr(pwd, "getpwnam", lambda _name: entry)
    monkeypatch.setattr(os, "getgrouplist", lambda _name, _gid: [0])
    with pytest.raises(InvalidInput, match="root's group"):
        find_driver_user("sync2")


def test_what_other_users_cannot_get_to() -> None:
    assert closed_to_others("/usr/bin/env") is None
    assert closed_to_others("/proc/1/none") == "/proc/1/none"
