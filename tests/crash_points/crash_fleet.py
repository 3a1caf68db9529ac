"""A fleet with failpoints: it is kept up as a service manager would, and looked through for what was left over."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.clients import processes
from supervisor.clients.processes import ProcessId
from supervisor.daemon.host.leftovers import LEFTOVERS
from supervisor.errors import SupervisorError
from supervisor.model.records import CheckpointClaim, Cleanliness, Ownership, OwnState, Result
from supervisor.model.seen import Found
from supervisor.records.ids import name_suffix
from supervisor.records.reading import seen
from tests.crash_points.points import Arm, Control, Hit
from tests.testbed import shared_python
from tests.testbed.fleet import Fleet
from tests.testbed.fleet_commands import PATIENCE_S, CommandResult
from tests.waiting import wait_until

SESSION_S, LEASE_S, GRACE_S = 6.0, 15.0, 5.0
"""A busy machine keeps them. W is 17 s then."""

PAUSED_SESSION_S, PAUSED_LEASE_S = 4.0, 10.0
PAUSE_S = 13.5
"""Of runs that pause: longer than the session, and than the full wait of 12.02 s."""


@dataclass(frozen=True)
class Servers:
    """Somebody else's ensemble, as far as a fleet needs it."""

    hosts: str


class CrashFleet(Fleet):
    """Many runs use it side by side, each with a job of its own: ``cli`` may be called from any thread."""

    def __init__(
        self,
        hosts: str,
        root: str,
        directory: Path,
        supervisors: int = 2,
        *,
        brief: bool = False,
        user: str | None = None,
    ) -> None:
        """``brief``: lease and session are short enough to be outlasted by a pause. ``user``: as whom drivers run (root
        only); ``directory`` is then one that other users get to."""
        directory.mkdir(parents=True, exist_ok=True)
        self.control = Control(directory / "control")
        self._user = user
        if user is not None:
            self.control.open_to_all()
            self._open_to_drivers(directory)
        super().__init__(
            Servers(hosts),
            root,
            directory,
            supervisors,
            grace_s=GRACE_S,  # type: ignore[arg-type]
            lease_s=PAUSED_LEASE_S if brief else LEASE_S,
            session_s=PAUSED_SESSION_S if brief else SESSION_S,
            capacity={"memory": "16g", "drivers": 60, "starting": 30},
            policy={"run_as": {"default": user, "allowed": []}},
            judged=False,
        )
        self._cli = threading.Lock()
        self._observing = threading.RLock()
        self._ended = threading.Event()
        self._held_down: set[int] = set()
        self.restarted: list[str] = []
        # of runs that were killed, with names like ours
        self._older_groups = {group.name for group in self.groups()}
        self._keeper = threading.Thread(target=self._keep_up, name="keeper", daemon=True)

    @staticmethod
    def _open_to_drivers(directory: Path) -> None:
        """What drivers write themselves: the witness and their checkpoints."""
        directory.chmod(0o755)
        (directory / "witness.jsonl").touch()
        (directory / "witness.jsonl").chmod(0o666)
        (directory / "checkpoints").mkdir()
        (directory / "checkpoints").chmod(0o777)

    def spec_file(self, name: str, *, knobs: dict[str, Any] | None = None, **spec: Any) -> Path:
        if self._user is not None:  # its environment is its own
            python = shared_python.find()
            env = {"WITNESS": str(self.witness_file), "PYSPARK_PYTHON": str(python)}
            spec = {**spec, "env": {**env, **spec.get("env", {})}}
        return super().spec_file(name, knobs=knobs, **spec)

    def start(self) -> None:
        super().start()
        self._keeper.start()

    def wait_complete(self, timeout_s: float = PATIENCE_S) -> None:
        """Every member runs and is registered, and one of them leads. Who has ended is being started again."""

        def complete() -> bool:
            with contextlib.suppress(SupervisorError), self._observing:
                there = set(self.client.children(self.layout.supervisors) or ())
                up = {member.id for member in self.members if member.running}
                return len(up) == len(self.members) and up == there and self.leader_id() in up
            return False

        wait_until(complete, timeout_s, "a leader and all members", period_s=0.1)

    def stop(self) -> None:
        self._ended.set()
        if self._keeper.is_alive():
            self._keeper.join()
        super().stop()

    def _env(self) -> dict[str, str]:
        return {**super()._env(), **self.control.env}

    # -- the service manager ------------------------------------------------------------------------------------------

    def _keep_up(self) -> None:
        """Whoever ends is started again, a moment later."""
        while not self._ended.wait(0.2):
            for i, member in enumerate(self.members):
                if not member.running and i not in self._held_down:
                    self.restarted.append(member.id)
                    self.start_member(i)

    @contextlib.contextmanager
    def held_down(self, i: int) -> Iterator[None]:
        """Member ``i`` is not started again meanwhile."""
        self._held_down.add(i)
        try:
            yield
        finally:
            self._held_down.discard(i)

    def wake(self, hit: Hit) -> None:
        """SIGCONT to the process that stopped itself."""
        process = processes.identify(hit.pid)
        if process is not None:
            pidfd = processes.open_pidfd(process)
            if pidfd is not None:
                processes.send_signal(pidfd, signal.SIGCONT)
                os.close(pidfd)

    # -- commands ---------------------------------------------------------------------------------------------------------

    def cli(self, *words: str, member: int = 0) -> CommandResult:
        with self._cli:
            return super().cli(*words, member=member)

    def armed_cli(
        self, control: Control, job: str, *words: str, config: Path | None = None
    ) -> subprocess.Popen[str]:
        """A command as a process with failpoints of its own."""
        argv = [sys.executable, "-P", "-c", "from supervisor.cli.main import main; main()", *words]
        env = {**self._env(), **control.env, "CRASH_POINTS_JOB": job}
        return subprocess.Popen(
            [*argv, "--config", str(config or self.user_config())],
            env=env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def forget(self, name: str) -> None:
        """The notes of a job that was judged."""
        self.record.forget(name)

    # -- what is left over --------------------------------------------------------------------------------------------

    def leftovers(self, name: str) -> list[str]:
        """What there is of a job that was cancelled, or has finished, and is to leave nothing behind; empty: nothing."""
        suffix = f"-{name_suffix(name)}"
        with self._observing:
            try:
                return [
                    *self._records_of(name, suffix),
                    *self._files_of(suffix),
                    *self._processes_of(name, suffix),
                ]
            except SupervisorError as error:
                return [f"ZooKeeper: {error}"]

    def _records_of(self, name: str, suffix: str) -> Iterator[str]:
        layout, client = self.layout, self.client
        client.sync()
        for path in (layout.job(name), layout.lease(name)):
            if client.read(path) is not None:
                yield f"{path} is there"
        own = seen(Ownership, client.read(layout.own(name)), layout.own(name))
        if isinstance(own, Found) and own.record.state not in (OwnState.VACANT, OwnState.EXITED):
            yield f"own is {own.record.state}"
        for uid in client.children(layout.results) or ():
            if uid.endswith(suffix):
                result = seen(Result, client.read(layout.result(uid)), layout.result(uid))
                if not isinstance(result, Found) or result.record.state is not Cleanliness.CLEAN:
                    yield f"the result of {uid} is not clean"
        for host in client.children(layout.assigned) or ():
            entries = client.children(layout.assigned_to(host)) or ()
            yield from (f"assigned/{host}/{entry}" for entry in entries if suffix in entry)
        for host in client.children(layout.preparations) or ():
            requests = client.children(layout.preparations_of(host)) or ()
            yield from (f"prepare/{host}/{entry}" for entry in requests if suffix in entry)
        yield from (f"live/{entry}" for entry in client.children(layout.lives) or () if suffix in entry)
        for digest in client.children(layout.checkpoints) or ():
            claim = seen(CheckpointClaim, client.read(layout.checkpoint(digest)), layout.checkpoint(digest))
            if isinstance(claim, Found) and claim.record.name == name:
                yield f"the checkpoint claim of {claim.record.uid}"

    def _files_of(self, suffix: str) -> Iterator[str]:
        for member in self.members:
            for part in ("attempts", "work", f"work/{LEFTOVERS}", "artifacts", "shim-logs"):
                directory = member.directory / "run" / part
                for entry in os.listdir(directory) if directory.is_dir() else ():
                    if suffix in entry:
                        yield f"{member.id}/run/{part}/{entry}"
        groups = {group.name for group in self.groups()} - self._older_groups
        yield from (f"the cgroup {group}" for group in groups if suffix in group)

    def groups(self) -> list[Path]:
        from supervisor.clients.containment import find_own_cgroup

        own = find_own_cgroup()
        parent = Path(own or "/nowhere") / "spark-supervisor"
        return list(parent.iterdir()) if parent.is_dir() else []

    def _processes_of(self, name: str, suffix: str) -> Iterator[str]:
        drivers = {note.pid for note in self.notes(name)}
        for process in self.processes():
            with contextlib.suppress(OSError):
                command = (
                    Path(f"/proc/{process.pid}/cmdline")
                    .read_bytes()
                    .replace(bytes(1), b" ")
                    .decode(errors="replace")
                )
                if process.pid in drivers or suffix in command:
                    yield f"process {process.pid}: {command[:200]}"

    def strangers(self) -> list[str]:
        """Processes of the fleet that are neither members, nor their session closers, nor about a job."""
        found = []
        for process in self.processes():
            with contextlib.suppress(OSError):
                command = (
                    Path(f"/proc/{process.pid}/cmdline")
                    .read_bytes()
                    .replace(bytes(1), b" ")
                    .decode(errors="replace")
                )
                if "supervisor.daemon.process.session_closer" not in command and " run " not in command:
                    found.append(f"process {process.pid}: {command[:200]}")
        return found

    def story(self, *names: str) -> str:
        """The end of the logs, for a run that failed."""
        out = io.StringIO()
        for member in self.members:
            lines = [
                line for line in member.log.splitlines() if not names or any(name in line for name in names)
            ]
            out.write(
                f"--- {member.id}\n"
                + "\n".join(member.log.splitlines()[-15:])
                + "\n... about it:\n"
                + "\n".join(lines[-25:])
                + "\n"
            )
            for log in sorted(member.attempts_dir.glob("*/shim.log")):
                out.write(
                    f"--- {member.id} {log.parent.name} shim.log\n{log.read_text(errors='replace')[-1500:]}\n"
                )
        return out.getvalue()


def pause(seconds: float) -> None:
    """The length of a failpoint's pause: the only sleep here, and no wait for anything."""
    time.sleep(seconds)


__all__ = ["PAUSE_S", "Arm", "CrashFleet", "ProcessId", "Servers", "pause"]
