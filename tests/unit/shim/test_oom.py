"""Which counter is believed about kills for want of memory: the finest that is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.clients.containment import find_own_memory_cgroup
from supervisor.model.out_of_memory import Oom
from supervisor.shim.oom import Counter, OomWatch, find_counters, read

EVENTS = "low 0\nhigh 0\nmax 12\noom {met}\noom_kill {kills}\noom_group_kill 0\n"


def group(path: Path, *, memory: bool) -> Path:
    path.mkdir(parents=True)
    (path / "cgroup.procs").write_text("")
    if memory:
        (path / "memory.events").write_text(EVENTS.format(met=3, kills=0))
    return path


def reported_by(watch: OomWatch, file: Path, kills: int) -> Oom | None:
    file.write_text(EVENTS.format(met=3 + kills, kills=kills))
    return watch.seen()


def test_the_attempts_own_group_tells_of_its_tree(tmp_path: Path) -> None:
    own = group(tmp_path / "attempt", memory=True)
    watch = OomWatch(str(own))
    assert watch.seen() is Oom.NOBODY
    assert reported_by(watch, own / "memory.events", 1) is Oom.TREE


def test_a_kill_of_its_tree_that_its_own_limit_did_not_cause_is_told_apart(tmp_path: Path) -> None:
    own = group(tmp_path / "attempt", memory=True)
    watch = OomWatch(str(own))
    (own / "memory.events").write_text(EVENTS.format(met=3, kills=1))
    assert watch.seen() is Oom.MEMBER


def test_without_the_controller_the_nearest_group_above_tells(tmp_path: Path) -> None:
    """Its own kills only, where the kernel tells them apart: a sibling's are in the file that counts all below."""
    service = group(tmp_path / "service", memory=True)
    own = group(service / "supervisor" / "attempt", memory=False)
    (service / "supervisor" / "cgroup.procs").write_text("")
    assert [counter.file for counter in find_counters(str(own))][0] == f"{service}/memory.events"
    (service / "memory.events.local").write_text(EVENTS.format(met=3, kills=5))
    watch = OomWatch(str(own))
    assert reported_by(watch, service / "memory.events", 9) is Oom.NOBODY
    assert reported_by(watch, service / "memory.events.local", 6) is Oom.GROUP


def test_the_finest_counter_that_can_be_read_decides(tmp_path: Path) -> None:
    broken, host = tmp_path / "broken", tmp_path / "vmstat"
    broken.write_text("oom_kill_disable 0\nunder_oom 0\n")  # of a kernel before 4.13
    host.write_text("nr_free_pages 7\noom_kill 2\n")
    watch = OomWatch(None, (Counter(str(broken), Oom.GROUP), Counter(str(host), Oom.HOST)))
    assert watch.seen() is Oom.NOBODY
    host.write_text("nr_free_pages 7\noom_kill 3\n")
    assert watch.seen() is Oom.HOST


@pytest.mark.parametrize("text", [None, "", "oom_kill\n", "oom_kill x\n", "oom_killed 3\n"])
def test_a_counter_that_says_nothing_is_unknown(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "events"
    if text is not None:
        file.write_text(text)
    assert read(str(file)) is None
    assert OomWatch(None, (Counter(str(file), Oom.HOST),)).seen() is None


def test_a_counter_that_went_away_is_unknown(tmp_path: Path) -> None:
    own = group(tmp_path / "attempt", memory=True)
    watch = OomWatch(str(own))
    (own / "memory.events").unlink()
    assert watch.seen() is None


@pytest.mark.parametrize(
    ("mountinfo", "membership", "expected"),
    [
        (
            "34 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n",
            "4:memory:/a/b\n0::/\n",
            "/sys/fs/cgroup/memory/a/b",
        ),
        (
            "34 31 0:32 /docker/x /cg/memory ro - cgroup cgroup rw,memory\n",
            "4:hugetlb,memory:/docker/x\n",
            "/cg/memory",
        ),
        ("34 31 0:32 /docker/x /cg/memory ro - cgroup cgroup rw,memory\n", "4:memory:/elsewhere\n", None),
        ("32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "4:memory:/a\n", None),
        ("32 31 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup rw,memory_recursiveprot\n", "0::/a\n", None),
        ("34 31 0:32 / /cg rw - cgroup cgroup rw,memory\n", "4:memory:/../outside\n", None),
        ("", "", None),
    ],
)
def test_where_the_memory_group_of_version_1_is(
    mountinfo: str, membership: str, expected: str | None
) -> None:
    assert find_own_memory_cgroup(mountinfo, membership) == expected
