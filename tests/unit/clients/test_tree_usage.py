"""What a tree takes is read where it was counted best, and what can't be read is nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from supervisor.clients import tree_usage
from supervisor.clients.tree_usage import MemorySource, TreeMeter

MIB = 1024**2
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
HOLDER = (
    "held = bytearray({mib} << 20); held[::4096] = b'x' * len(held[::4096]); print('up', flush=True); input()"
)


def group(path: Path, *, current: int | None, cache: int = 0, cpu_usec: int = 0) -> str:
    path.mkdir()
    (path / "cpu.stat").write_text(f"usage_usec {cpu_usec}\nuser_usec 1\nsystem_usec 1\n")
    if current is not None:
        (path / "memory.current").write_text(f"{current}\n")
        (path / "memory.stat").write_text(f"anon 1\nfile 2\ninactive_file {cache}\n")
    return str(path)


def process(
    proc: Path, pid: int, ppid: int, *, rss: int, cpu_s: float = 0.0, pss: int | None = None, mm: int = 0
) -> None:
    """``comm`` is what a hostile process may call itself; ``mm`` is where its stack starts, by default as no other's."""
    fields = ["0"] * 45
    fields[0], fields[1], fields[11], fields[14] = "S", str(ppid), str(int(cpu_s * TICKS_PER_S)), "0"
    fields[20], fields[21], fields[25] = str(rss // (64 * MIB)), str(rss // PAGE_BYTES), str(mm or pid << 12)
    directory = proc / str(pid)
    directory.mkdir(parents=True)
    (directory / "stat").write_text(f"{pid} (a) S 1 (b) {' '.join(fields)}\n")
    if pss is not None:
        (directory / "smaps_rollup").write_text(f"00-ff ---p 0 00:00 0 [rollup]\nPss: {pss // 1024} kB\n")


def no_members() -> list[int]:
    return []


def test_a_group_is_asked_and_cache_that_is_given_back_does_not_count(tmp_path: Path) -> None:
    own = group(tmp_path / "g", current=700 * MIB, cache=300 * MIB, cpu_usec=2_500_000)
    assert TreeMeter(own, no_members).read() == (400 * MIB, 2.5, MemorySource.CGROUP)


def test_without_the_memory_controller_the_members_are_added_up(tmp_path: Path) -> None:
    own = group(tmp_path / "g", current=None, cpu_usec=1_000_000)
    process(tmp_path / "proc", 7, 1, rss=100 * MIB, pss=60 * MIB)
    process(tmp_path / "proc", 8, 1, rss=100 * MIB, pss=60 * MIB)
    meter = TreeMeter(own, lambda: [7, 8, 9], str(tmp_path / "proc"))
    assert meter.read() == (120 * MIB, 1.0, MemorySource.PSS)


def reaped_s() -> float:
    """Seconds of processor time of the children that this process has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_without_a_group_the_descendants_are_added_up(tmp_path: Path) -> None:
    proc, me = tmp_path / "proc", os.getpid()
    process(proc, me, 1, rss=50 * MIB)
    process(proc, me + 1, me, rss=200 * MIB, cpu_s=3.0, pss=150 * MIB)
    process(proc, me + 2, me + 1, rss=100 * MIB, cpu_s=4.0, pss=50 * MIB)
    process(proc, 1, 0, rss=900 * MIB, cpu_s=50.0)
    before_s = reaped_s()
    reading = TreeMeter(None, no_members, str(proc)).read()
    assert reading is not None
    assert (reading.memory_bytes, reading.source) == (200 * MIB, MemorySource.PSS)
    assert 7.0 + before_s - 0.01 <= reading.cpu_s <= 7.0 + reaped_s() + 0.01


def test_a_child_that_is_kept_apart_does_not_count(tmp_path: Path) -> None:
    process(tmp_path, os.getpid() + 1, os.getpid(), rss=200 * MIB, cpu_s=3.0, pss=150 * MIB)
    process(tmp_path, os.getpid() + 2, os.getpid(), rss=30 * MIB, cpu_s=40.0, pss=20 * MIB)
    apart = SimpleNamespace(apart={os.getpid() + 2}, apart_cpu_s=1000.0)
    before_s = reaped_s()
    reading = TreeMeter(None, no_members, str(tmp_path), apart).read()
    assert reading is not None and reading.memory_bytes == 150 * MIB
    assert 3.0 + before_s - 1000.01 <= reading.cpu_s <= 3.0 + reaped_s() - 999.99


def test_a_process_of_another_user_counts_with_all_its_pages(tmp_path: Path) -> None:
    process(tmp_path, os.getpid() + 1, os.getpid(), rss=200 * MIB)
    reading = TreeMeter(None, no_members, str(tmp_path)).read()
    assert reading is not None and reading[::2] == (200 * MIB, MemorySource.RSS)


def test_a_large_process_is_not_asked_for_its_share(tmp_path: Path) -> None:
    """That would keep it from mapping memory for as long as the kernel walks its pages."""
    process(tmp_path, os.getpid() + 1, os.getpid(), rss=4096 * MIB, pss=1 * MIB)
    reading = TreeMeter(None, no_members, str(tmp_path)).read()
    assert reading is not None and reading[::2] == (4096 * MIB, MemorySource.PSS)


def test_a_tree_of_very_many_processes_takes_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_usage, "PSS_MAX_S", 0.0)
    for pid in range(1, 4):
        process(tmp_path, os.getpid() + pid, os.getpid(), rss=10 * MIB, pss=1 * MIB)
    reading = TreeMeter(None, no_members, str(tmp_path)).read()
    assert reading is not None and reading[::2] == (30 * MIB, MemorySource.RSS)


def test_a_child_that_has_its_parents_memory_until_it_executes_a_program_counts_once(tmp_path: Path) -> None:
    """A JVM starts a program by posix_spawn, and for milliseconds two processes have one memory: its peak was doubled."""
    proc, me = tmp_path / "proc", os.getpid()
    process(proc, 100, me, rss=600 * MIB, mm=1 << 40)
    process(proc, 101, 100, rss=601 * MIB, mm=1 << 40)  # seen a moment later
    process(proc, 102, 100, rss=20 * MIB, pss=10 * MIB, mm=1 << 40)  # forked, and has pages of its own by now
    reading = TreeMeter(None, no_members, str(proc)).read()
    assert reading is not None and reading.memory_bytes == 610 * MIB


@pytest.mark.parametrize("odd", ["", "usage_usec\n", "usage_usec x\n"])
def test_what_cannot_be_read_is_nothing(tmp_path: Path, odd: str) -> None:
    own = group(tmp_path / "g", current=1)
    (tmp_path / "g" / "cpu.stat").write_text(odd)
    assert TreeMeter(own, no_members).read() is None
    assert TreeMeter(str(tmp_path / "gone"), no_members).read() is None


def test_a_real_process_that_holds_memory_is_measured() -> None:
    before = TreeMeter(None, no_members).read()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(mib=128)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        holder.stdout.readline()
        reading = TreeMeter(None, no_members).read()
        holder.stdin.close()
    assert reading is not None
    held = reading.memory_bytes - (before.memory_bytes if before is not None else 0)
    assert 128 * MIB <= held <= 1.2 * 128 * MIB


BURNER = """
import os, time
for _ in range(2):
    if os.fork() == 0:
        while time.process_time() < {cpu_s}: pass
        os._exit(0)
for _ in range(2): os.wait()
while time.process_time() < {cpu_s}: pass
print('burnt', flush=True); input()
"""


def test_the_processor_time_of_a_tree_is_that_of_all_its_processes() -> None:
    """Two children that have ended and were waited for, and their parent: each has taken a known time."""
    before = TreeMeter(None, no_members).read()
    before_s = children_s() if before is None else before.cpu_s
    with subprocess.Popen(
        [sys.executable, "-c", BURNER.format(cpu_s=1.5)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as burner:
        assert burner.stdin is not None and burner.stdout is not None
        burner.stdout.readline()
        reading = TreeMeter(None, no_members).read()
        burner.stdin.close()
    assert reading is not None
    assert reading.cpu_s - before_s == pytest.approx(4.5, rel=0.2)


def children_s() -> float:
    """Seconds of processor time of the children of this process that it has waited for before."""
    times = os.times()
    return times.children_user + times.children_system
