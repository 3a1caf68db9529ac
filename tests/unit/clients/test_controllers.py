"""Where groups of attempts are made and controllers asked for: never in the group of a service's own process."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.clients import controllers
from supervisor.clients.controllers import (
    NO_CGROUP,
    NO_SUBGROUP,
    base_of,
    find_attempt_groups,
    is_of_unit,
    would_lack,
)

OFFERED = "cpuset cpu io memory pids"


@pytest.fixture(autouse=True)
def parents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories in place of cgroups: the kernel's files are made where the kernel would."""

    def find(base: str | None) -> str | None:
        if base is None:
            return None
        parent = group(Path(base) / "spark-supervisor")
        return str(parent)

    monkeypatch.setattr(controllers, "find_cgroup_parent", find)


def group(path: Path, offered: str = OFFERED, members: str = "") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("cgroup.controllers", offered),
        ("cgroup.subtree_control", ""),
        ("cgroup.procs", members),
        ("cgroup.type", "domain"),
    ):
        if not (path / name).exists():
            (path / name).write_text(text)
    return path


def asked_for(path: Path) -> str:
    return (path / "cgroup.subtree_control").read_text()


def test_a_unit_without_a_subgroup_is_asked_for_nothing(tmp_path: Path) -> None:
    own = group(tmp_path / "system.slice" / "spark-supervisor.service", members="1")
    groups = find_attempt_groups(str(own))
    assert groups.parent == f"{own}/spark-supervisor"
    assert groups.lacking == dict.fromkeys(("memory", "cpu", "pids"), NO_SUBGROUP) == would_lack(str(own))
    assert asked_for(own) == "" == asked_for(own / "spark-supervisor")
    assert "DelegateSubgroup" in groups.why_not(("memory",)) and groups.why_not(()) == ""


def test_with_a_subgroup_the_unit_has_no_process_of_its_own(tmp_path: Path) -> None:
    unit = group(tmp_path / "spark-supervisor.service")
    own = group(unit / "supervisor", members="1")
    groups = find_attempt_groups(str(own))
    assert groups == (f"{unit}/spark-supervisor", {})
    assert "+pids" in asked_for(unit) and asked_for(own) == ""
    assert would_lack(str(own)) == {}


def test_what_the_kernel_does_not_offer_is_told_and_the_rest_is_had(tmp_path: Path) -> None:
    own = group(group(tmp_path / "unit.service", "memory pids") / "supervisor")
    groups = find_attempt_groups(str(own))
    assert set(groups.lacking) == {"cpu"}
    assert groups.why_not(("memory", "cpu")).startswith("cpu: the kernel does not offer it")
    assert would_lack(str(own)).keys() == {"cpu"}


def test_a_container_with_nobody_else_in_it_gets_a_subgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = group(tmp_path / "container", members="77\n")
    monkeypatch.setattr("os.getpid", lambda: 77)
    (own / "supervisor").mkdir()
    (own / "supervisor" / "cgroup.procs").touch()
    assert find_attempt_groups(str(own)).lacking == {}
    assert (own / "supervisor" / "cgroup.procs").read_text() == "0"


def test_a_container_with_others_is_not_rearranged(tmp_path: Path) -> None:
    own = group(tmp_path / "container", members="77\n78\n")
    find_attempt_groups(str(own))
    assert not (own / "supervisor").exists()


@pytest.mark.parametrize(
    ("own", "of_unit"),
    [
        ("/sys/fs/cgroup/system.slice/x.service", True),
        ("/sys/fs/cgroup/user.slice/session-3.scope/a", True),
        ("/sys/fs/cgroup", False),
        ("/sys/fs/cgroup/kubepods.slice/pod1", False),
    ],
)
def test_what_a_service_manager_made(own: str, of_unit: bool) -> None:
    assert is_of_unit(own) is of_unit


def test_without_a_cgroup_there_is_nothing(tmp_path: Path) -> None:
    assert find_attempt_groups(None) == (None, dict.fromkeys(("memory", "cpu", "pids"), NO_CGROUP))
    assert base_of(None) is None
    assert base_of(str(tmp_path / "supervisor")) == str(tmp_path / "supervisor"), (
        "the one above is none of ours"
    )
