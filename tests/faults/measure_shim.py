"""``python -m tests.faults.measure_shim``: memory of a shim and its twin on a host without any other Python process.

Not a test: it asserts nothing. A page that several processes map counts only in part for each of them (PSS), and a test
machine is full of Python processes that map the same interpreter. So the shim is started from a copy of its own of the
interpreter, its libraries and the packages: files that nobody else has open. What it then shares it shares with its twin.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import uuid
from pathlib import Path

from supervisor.clients import package_path, run_dir
from supervisor.clients.containment import find_cgroup_parent, find_own_cgroup
from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed.attempts import Attempt, Attempts, pss_kb
from tests.waiting import wait_until

_NOT_NEEDED = shutil.ignore_patterns(
    "test", "tests", "idlelib", "lib2to3", "site-packages", "ensurepip", "config-*"
)
RENEWALS = 10


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--rounds", type=int, default=5)
    rounds = given.parse_args().rounds
    with tempfile.TemporaryDirectory() as name, EmbeddedEnsemble(Path(name) / "zookeeper") as ensemble:
        directory = Path(name)
        parent = find_cgroup_parent(find_own_cgroup(), f"measure-{os.getpid()}")
        attempts = Attempts(
            ensemble.hosts, f"/measure-{uuid.uuid4().hex[:8]}", directory / "attempts", parent
        )
        try:
            ordinary = started(attempts)
            report_counts("beside other Python processes", [memory_kb(attempts, ordinary)])
            libraries = foreign_libraries(ordinary)
            alone = []
            for number in range(rounds):
                copied = Copy(directory / f"copy{number}", libraries)
                alone.append(memory_kb(attempts, copied.start(attempts)))
            report_counts("alone", alone)
        finally:
            attempts.close()
            if parent is not None:
                os.rmdir(parent)


def report_counts(where: str, pairs: list[tuple[int, int]]) -> None:
    shims, twins = zip(*pairs, strict=True)
    both = [shim + twin for shim, twin in pairs]
    print(
        f"{where:<32} shim {statistics.median(shims) / 1024:6.2f}   twin {statistics.median(twins) / 1024:6.2f}   "
        f"together {statistics.median(both) / 1024:6.2f} MiB, worst {max(both) / 1024:6.2f}   (n={len(pairs)})",
        flush=True,
    )


def started(attempts: Attempts) -> Attempt:
    attempt = attempts.assign(knobs={"beat_s": 1.0}, lease_s=6.0)
    attempts.wait_running(attempt)
    return attempt


def memory_kb(attempts: Attempts, attempt: Attempt) -> tuple[int, int]:
    """PSS of (shim, twin), after some renewals."""
    lease = attempts.lease(attempt)
    assert lease is not None
    wait_until(lambda: (attempts.lease(attempt) or lease)[1] >= lease[1] + RENEWALS, 60, "renewals")
    return pss_kb(attempt.process(run_dir.SHIM).pid), pss_kb(attempt.process(run_dir.TWIN).pid)


def foreign_libraries(attempt: Attempt) -> list[Path]:
    """Shared libraries of a shim that belong to the system, not to Python."""
    maps = Path(f"/proc/{attempt.process(run_dir.SHIM).pid}/maps").read_text().splitlines()
    files = {Path(line.split()[-1]) for line in maps if ".so" in line.split()[-1]}
    return sorted(
        file for file in files if not file.is_relative_to(sys.base_prefix) and "ld-linux" not in file.name
    )


class Copy:
    """Interpreter, libraries and packages of a shim, in files of their own (times kept, so that byte code stays valid)."""

    def __init__(self, directory: Path, libraries: list[Path]) -> None:
        self.directory = directory
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        base = Path(sys.base_prefix)
        for part in ("bin", "lib", "packages", "system"):
            (directory / part).mkdir(parents=True)
        self.python = Path(shutil.copy2((base / "bin" / version).resolve(), directory / "bin" / version))
        for library in (base / "lib").glob("libpython*.so*"):
            shutil.copy2(library, directory / "lib" / library.name)
        shutil.copytree(base / "lib" / version, directory / "lib" / version, ignore=_NOT_NEEDED)
        for package in ("kazoo", "supervisor"):
            found = Path(str(__import__(package).__file__)).parent
            shutil.copytree(found, directory / "packages" / package)
        for library in libraries:
            shutil.copy2(library, directory / "system" / library.name)

    def start(self, attempts: Attempts) -> Attempt:
        kept = sys.executable, package_path.PACKAGE_PARENT, os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = f"{self.directory}/system:{self.directory}/lib"
        sys.executable, package_path.PACKAGE_PARENT = str(self.python), str(self.directory / "packages")
        try:
            attempt = attempts.assign(knobs={"beat_s": 1.0}, lease_s=6.0, start=False)
            attempt.launch.env["PYSPARK_PYTHON"] = kept[0]
            attempts.start(attempt)
        finally:
            sys.executable, package_path.PACKAGE_PARENT = kept[:2]
            if kept[2] is None:
                del os.environ["LD_LIBRARY_PATH"]
            else:
                os.environ["LD_LIBRARY_PATH"] = kept[2]
        attempts.wait_running(attempt)
        return attempt


if __name__ == "__main__":
    main()
