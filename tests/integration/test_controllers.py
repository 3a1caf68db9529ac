"""Controllers on a real kernel: where they are asked for, the next supervisor still gets its place; limits hold."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.clients import controllers
from supervisor.clients.containment import CgroupContainment, find_own_cgroup
from supervisor.clients.controllers import SUBGROUP, find_attempt_groups
from supervisor.clients.tree_usage import MemorySource, TreeMeter
from supervisor.model.driver_user import ResourceLimits
from supervisor.model.out_of_memory import Oom
from supervisor.shim.oom import OomWatch
from supervisor.spark.toolchain import installed_spark_home
from tests.testbed import requirements
from tests.testbed.fleet_member import remove_groups

MIB = 1024**2


@pytest.fixture
def unit() -> Iterator[Path]:
    """A group as that of a unit with DelegateSubgroup=supervisor."""
    requirements.need("cgroup")
    own = find_own_cgroup()
    assert own is not None
    made = Path(own) / f"unit-{uuid.uuid4().hex[:8]}"
    (made / SUBGROUP).mkdir(parents=True)
    yield made
    remove_groups(made)


def enter(group: Path) -> subprocess.Popen[bytes]:
    """A process that waits in ``group``."""
    process = subprocess.Popen(["sleep", "600"])
    try:
        (group / "cgroup.procs").write_text(str(process.pid))
    except OSError:
        process.kill()
        process.wait()
        raise
    return process


def test_the_next_supervisor_gets_its_place_while_a_driver_lives(
    unit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where none was asked for in the unit itself: systemd puts the process there, and gets EBUSY."""
    offered = (unit / "cgroup.controllers").read_text().split()
    domain = [name for name in offered if name in ("memory", "pids", "cpu", "io", "hugetlb")]
    if not domain:
        pytest.skip("this kernel offers no controller of version 2")
    monkeypatch.setattr(controllers, "CONTROLLERS", (domain[0], "none-of-that-name"))
    supervisor = enter(unit / SUBGROUP)
    groups = find_attempt_groups(str(unit / SUBGROUP))
    assert groups.parent == f"{unit}/spark-supervisor"
    assert set(groups.lacking) == {"none-of-that-name"}
    attempt = unit / "spark-supervisor" / "attempt"
    attempt.mkdir()
    driver = enter(attempt)
    assert domain[0] in (attempt / "cgroup.controllers").read_text().split()
    supervisor.kill()
    supervisor.wait()
    following = enter(unit / SUBGROUP)
    with pytest.raises(OSError) as caught:
        enter(unit)
    assert caught.value.errno == errno.EBUSY
    for process in (driver, following):
        process.kill()
        process.wait()


@pytest.fixture
def limited(unit: Path) -> Iterator[CgroupContainment]:
    """A group of an attempt with limits."""
    requirements.need("limits")
    groups = find_attempt_groups(str(unit / SUBGROUP))
    group = CgroupContainment(f"{groups.parent}/attempt")
    group.create()
    limits = ResourceLimits(memory=64 * MIB, cpu=0.5, tasks=20)
    assert group.limit(limits.files()) == ""
    yield group
    group.kill(10.0)
    group.release()
    group.remove()


def run_in(group: CgroupContainment, script: str) -> int:
    enter_and_run = f"open({group.path + '/cgroup.procs'!r}, 'w').write('0')\n{script}"
    return subprocess.run([sys.executable, "-S", "-c", enter_and_run], timeout=60, check=False).returncode


def test_who_eats_beyond_its_memory_is_killed_and_that_is_told(limited: CgroupContainment) -> None:
    watch = OomWatch(limited.path)
    assert run_in(limited, f"x = bytearray({256 * MIB})\nfor i in range(0, len(x), 4096): x[i] = 1") == -9
    assert watch.seen() is Oom.TREE


def test_who_forks_beyond_its_tasks_gets_no_more(limited: CgroupContainment) -> None:
    script = "import os, time\ntry:\n  for _ in range(100):\n    if os.fork() == 0: time.sleep(600)\nexcept BlockingIOError: os._exit(7)"
    assert run_in(limited, script) == 7
    assert os.path.exists(limited.path)


def test_what_a_tree_uses_is_what_the_kernel_has_counted(limited: CgroupContainment) -> None:
    """Two processes with 12 MiB each, a child that took a second of the processor and has ended; and 24 MiB of a file that
    was read: the kernel counts them as memory of the group, and gives them back first."""
    home = installed_spark_home()
    assert home is not None
    file = max((home / "jars").glob("*.jar"), key=lambda path: path.stat().st_size)
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    script = (
        f"open({limited.path + '/cgroup.procs'!r}, 'w').write('0')\n"
        "import os, time\n"
        "if os.fork() == 0:\n"
        "  while time.process_time() < 1: pass\n"
        "  os._exit(0)\n"
        "os.wait()\n"
        f"file = open({str(file)!r}, 'rb', buffering=0)\n"
        f"for _ in range(24): file.read({MIB})\n"
        "os.fork()\n"
        f"x = os.urandom({12 * MIB})\n"
        "os.write(1, b'x')\n"
        "time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-S", "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.read(2) == b"xx"
    reading = TreeMeter(limited.path, limited.pids).read()
    counted = int(Path(limited.path, "memory.current").read_text())
    process.kill()
    process.wait()
    assert reading is not None
    assert reading.source is MemorySource.CGROUP
    assert 24 * MIB <= reading.memory_bytes <= 44 * MIB <= counted
    assert 1.0 <= reading.cpu_s <= 10.0
