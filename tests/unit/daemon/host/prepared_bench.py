"""Run directories of prepared drivers, for tests: their shims are what the test says, a process or none."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from pathlib import Path

from supervisor.clients import processes, run_dir
from supervisor.clients.processes import ProcessId
from supervisor.clients.run_dir import DeadlineFile, Readiness
from supervisor.clock import boottime_s
from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.daemon.host.prepared import no_assignment_yet
from supervisor.daemon.host.prepared_drivers import as_extra
from supervisor.model.launch import Launch
from supervisor.model.records import BlobRef, Preparation, PrepareLevel
from supervisor.records.codec import encode
from tests.unit.shim.world import LAUNCH

SHA = "0" * 64
GONE = ProcessId(4_000_000, 1, processes.boot_id())


def request(name: str = "a", revision: int = 1, **changes: object) -> Preparation:
    asked = Preparation(
        name=name,
        uid=f"uid-{name}",
        revision=revision,
        spec=BlobRef(key="specs/x.json", sha256=SHA, bytes=1),
        level=PrepareLevel.SESSION,
        memory=10,
    )
    return replace(asked, **changes)  # type: ignore[arg-type]


def launch_of(asked: Preparation, key: str, **changes: object) -> Launch:
    given = no_assignment_yet(asked)
    made = replace(
        LAUNCH,
        assignment=given,
        prepared=key,
        begun_s=boottime_s(),
        log_path=f"/log/{key}.log",
        extra=as_extra(asked, {}),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def me() -> ProcessId:
    found = processes.identify(os.getpid())
    assert found is not None
    return found


def stand(
    hosted: HostedAttempts,
    key: str,
    asked: Preparation,
    *,
    shim: ProcessId | None = None,
    ready: bool | None = True,
    launch: Launch | None = None,
) -> Path:
    """A prepared driver. ``shim``: this process, if it is not given; ``ready``: None if it has said nothing yet."""
    data = encode(launch or launch_of(asked, key), 1 << 20)
    made = run_dir.create(str(hosted.attempts_dir), key, data)
    assert made is not None
    run_dir.write_process(f"{made}/{run_dir.SHIM}", shim or me(), "c1")
    DeadlineFile.create(made)
    if ready is not None:
        run_dir.write_readiness(made, Readiness(ready, "" if ready else "no module named x", 1.0))
    return Path(made)


def hand(hosted: HostedAttempts, key: str, attempt: int, **changes: object) -> Launch:
    """Hands an attempt over, as the launcher does."""
    launch = hosted.prepared()[key]
    given = replace(launch.assignment, attempt=attempt, own_version=0, job_version=0)
    handed = replace(launch, assignment=given, **changes)  # type: ignore[arg-type]
    name = f"{given.uid}.{attempt}"
    assert run_dir.hand_over(str(hosted.attempts_dir), key, name, encode(handed, 1 << 20))
    return handed


class Ear:
    """Hears what is said to the shim of a run directory."""

    def __init__(self, directory: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        folder = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        try:
            self._socket.bind(f"/proc/self/fd/{folder}/{run_dir.REPORT}")
        finally:
            os.close(folder)

    def heard(self) -> list[str]:
        """Returns the events since the last call."""
        events = []
        while True:
            try:
                events.append(json.loads(self._socket.recv(4096))["event"])
            except BlockingIOError:
                return events

    def close(self) -> None:
        self._socket.close()
