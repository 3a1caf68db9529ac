"""Reading of mounts, limits, locks and unit files."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from supervisor.clients import host_probe
from supervisor.clients.host_probe import (
    find_unit,
    limits_of,
    lock_holder,
    mount_of,
    probe_directory,
    read_unit,
)
from supervisor.clients.zookeeper_probe import read_srvr

MOUNTS = """\
20 1 254:1 / / rw,relatime - ext4 /dev/vda rw
21 20 0:20 / /run rw,nosuid,noexec - tmpfs tmpfs rw
22 20 0:21 / /with\\040blank rw - nfs4 server:/x rw
23 20 0:22 / /run rw,nosuid - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "noexec"),
    [
        ("/no/such", "ext4", False),
        ("/run/x", "tmpfs", False),
        ("/runner", "ext4", False),
        ("/with blank/x", "nfs4", False),
    ],
)
def test_the_mount_that_counts(path: str, kind: str, noexec: bool) -> None:
    found, options = mount_of(Path(path), MOUNTS)
    assert (found, "noexec" in options) == (kind, noexec)


def test_of_two_mounts_on_one_point_the_later_counts() -> None:
    assert "noexec" in mount_of(Path("/run/x"), MOUNTS.rpartition("23 ")[0])[1]


def test_limits_of_a_process_and_of_ourselves() -> None:
    assert limits_of(os.getpid()) == limits_of(None)


def test_who_holds_a_lock(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert lock_holder(file) is None
    with file.open("w") as held:
        assert lock_holder(file) is None
        fcntl.flock(held, fcntl.LOCK_EX)
        assert lock_holder(file) == os.getpid()


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "is not a directory" in probe_directory(tmp_path / "file").error
    assert "is not a directory" in probe_directory(tmp_path / "file" / "below").error
    missing = probe_directory(tmp_path / "a" / "b")
    assert (missing.exists, missing.existing, missing.error) == (False, str(tmp_path), "")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert probe_directory(tmp_path / "dangling").error
    assert sorted(os.listdir(tmp_path)) == ["dangling", "file"]


def test_drop_ins_have_the_last_word(tmp_path: Path) -> None:
    etc, lib = tmp_path / "etc", tmp_path / "lib"
    for directory in (etc, lib, etc / "x.service.d", lib / "x.service.d"):
        directory.mkdir()
    (lib / "x.service").write_text(
        "[Unit]\nKillMode=none\n[Service]\n# KillMode=mixed\nKillMode = process\nDelegate=yes\n"
    )
    (lib / "x.service.d" / "10.conf").write_text("[Service]\nKillMode=mixed\n")
    (etc / "x.service.d" / "20.conf").write_text("[Service]\nDelegate=no\n")
    where = (str(etc), str(lib))
    assert find_unit("x.service", where) == lib / "x.service" and find_unit("y.service", where) is None
    unit = read_unit(lib / "x.service", where)
    assert dict(unit.options) == {"KillMode": "mixed", "Delegate": "no"}
    # of one name: the first directory
    (etc / "x.service.d" / "10.conf").write_text("[Service]\nKillMode=process\n")
    assert read_unit(lib / "x.service", where).options["KillMode"] == "process"


def test_lines_of_a_list_add_up(tmp_path: Path) -> None:
    (tmp_path / "x.service.d").mkdir()
    (tmp_path / "x.service").write_text(
        "[Service]\nReadWritePaths=/a -/b\nReadWritePaths=/c\nLogsDirectory=x\n"
    )
    (tmp_path / "x.service.d" / "1.conf").write_text(
        "[Service]\nReadWritePaths=/d\nLogsDirectory=\nLogsDirectory=y\n"
    )
    unit = read_unit(tmp_path / "x.service", ())
    assert dict(unit.options) == {"ReadWritePaths": "/a -/b /c /d", "LogsDirectory": "y"}


@pytest.mark.parametrize(
    ("options", "path", "may"),
    [
        ({}, "/etc", True),
        ({"ProtectSystem": "full"}, "/mnt", True),
        ({"ProtectSystem": "strict"}, "/mnt", False),
        ({"ReadWritePaths": "/a -/mnt"}, "/mnt/x", True),
        ({"ReadWritePaths": "-/no/such"}, "/no/such", False),
        ({"ReadWritePaths": "/no/such"}, "/no/such", True),
        ({"ReadWritePaths": "/mnt"}, "/mnt2", False),
        ({"ReadWritePaths": "%S"}, "/mnt", True),
        ({"RuntimeDirectory": "x"}, "/run/x", True),
        ({"StateDirectory": "x:y"}, "/var/lib/x", True),
        ({"LogsDirectory": "x"}, "/var/log/y", False),
        ({}, "/home/x", True),
        ({"ProtectHome": "read-only"}, "/home/x", False),
        ({}, "/dev/shm/x", True),
    ],
)
def test_what_a_strict_unit_may_write_to(options: dict[str, str], path: str, may: bool) -> None:
    strict = {"ProtectSystem": "strict"} if path != "/etc" else {}
    assert host_probe.may_write({**strict, **options}, path) is may


def test_the_unit_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        host_probe, "_text", lambda _path: "0::/system.slice/spark-supervisor.service/spark-supervisor/x\n"
    )
    assert host_probe.unit_of(1) == "spark-supervisor.service"
    monkeypatch.setattr(host_probe, "_text", lambda _path: "0::/user.slice\n")
    assert host_probe.unit_of(1) is None


@pytest.mark.parametrize(
    ("answer", "mode", "version", "serving"),
    [
        ("Zookeeper version: 3.9.5-abc, built\nMode: leader\n", "leader", "3.9.5", True),
        ("Zookeeper version: 3.4.14-x\nMode: read-only\n", "read-only", "3.4.14", False),
        ("This ZooKeeper instance is not currently serving requests\n", None, None, False),
    ],
)
def test_what_srvr_says(answer: str, mode: str | None, version: str | None, serving: bool) -> None:
    look = read_srvr("zk:2181", answer)
    assert look is not None and (look.mode, look.version, look.serving) == (mode, version, serving)


def test_srvr_that_is_not_allowed_says_nothing() -> None:
    assert read_srvr("zk:2181", "srvr is not executed because it is not in the whitelist.\n") is None
