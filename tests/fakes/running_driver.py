"""A driver that runs on this host, as its run directory says: an interpreter that takes orders, and waits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import supervisor
from supervisor.clients import processes, run_dir
from supervisor.records.codec import encode
from tests.unit.shim.world import ENTRY, LAUNCH

PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
from supervisor.spark.orders import Orders
def waits_for_its_sink():
    print("up", flush=True)
    time.sleep(600)
Orders(lambda *args, **more: None, ()).listen(sys.argv[2] + "/orders")
waits_for_its_sink()
"""


@contextmanager
def running_driver_of(
    runtime_dir: Path, name: str, uid: str, attempt: int = 1, **launch: Any
) -> Iterator[int]:
    """Yields the pid of the driver."""
    entry = replace(ENTRY, name=name, uid=uid, attempt=attempt)
    given = encode(replace(LAUNCH, assignment=entry, **launch), 2**20)
    directory = run_dir.create(str(runtime_dir / "attempts"), f"{uid}.{attempt}", given)
    assert directory is not None
    package = str(Path(supervisor.__file__).parents[1])
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, package, directory], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == b"up\n"
        process = processes.identify(child.pid)
        assert process is not None
        run_dir.write_process(f"{directory}/{run_dir.SHIM}", process, "c0ffee")
        run_dir.write_process(f"{directory}/{run_dir.DRIVER}", process)
        yield child.pid
    finally:
        child.kill()
        child.communicate()
