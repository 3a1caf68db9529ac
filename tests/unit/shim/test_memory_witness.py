"""Which processes were the largest, when that is asked after the driver's end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from supervisor.clients.tree_usage import MemorySource, TreeReading
from supervisor.model.memory_curve import GroupMemory
from supervisor.shim.memory_witness import GROWN, MemoryWitness, limit_of


def reading(size: float) -> TreeReading:
    return TreeReading(int(size), 1.0, MemorySource.PSS)


def test_the_processes_are_remembered_when_they_are_gone() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "data = b'x' * 10**8; print('up', flush=True); input()", "hush"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    witness = MemoryWitness(lambda: reading(1e8), lambda: [child.pid, os.getpid()], None)
    witness.read()
    child.kill()
    child.communicate()
    line = witness.described([(5.0, 10**8)], 2**30, root=os.getpid(), ended_at_s=6.0)
    assert f"(pid {child.pid}, gone, RSS " in line and f"(pid {os.getpid()}, the driver, RSS " in line
    assert "hush" not in line and line.endswith("memory of the tree: 95 MiB 1 s before")


def test_a_tree_of_steady_size_is_not_read_again(monkeypatch: object) -> None:
    sizes, asked = [1e9, 1e9, 0.5e9, 1e9 * GROWN + 1, 1e9 * GROWN + 2], []
    left = iter(sizes)
    witness = MemoryWitness(lambda: reading(next(left)), lambda: asked.append(1) or [], None)  # type: ignore[func-returns-value]
    for _ in sizes:
        witness.read()
    assert len(asked) == 2


def test_a_tree_that_cannot_be_read_is_none() -> None:
    witness = MemoryWitness(lambda: None, lambda: [os.getpid()], None)
    assert witness.read() is None and witness.described([], 0, 1, 1.0) == ""


def test_the_limit_of_a_cgroup_of_either_version(tmp_path: Path) -> None:
    v2, v1 = tmp_path / "v2", tmp_path / "v1"
    v2.mkdir()
    v1.mkdir()
    assert limit_of(None) is None and limit_of(str(v2), str(v1)) is None
    (v2 / "memory.max").write_text("max\n")
    (v1 / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert limit_of(str(v2), str(v1)) is None
    (v1 / "memory.limit_in_bytes").write_text("209715200\n")
    (v1 / "memory.max_usage_in_bytes").write_text("209715000\n")
    assert limit_of(str(v2), str(v1)) == GroupMemory(209715200, 209715000)
    (v2 / "memory.max").write_text("1073741824\n")
    assert limit_of(str(v2), str(v1)) == GroupMemory(2**30)
