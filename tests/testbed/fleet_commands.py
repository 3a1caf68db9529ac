"""What a user does to a ``Fleet`` by the command line, and what the commands answered. A part of ``tests.testbed.fleet``."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from supervisor.cli.main import run_command
from supervisor.clock import boottime_s
from supervisor.errors import SupervisorError
from tests.faults.checker import Acknowledged
from tests.waiting import wait_until

PATIENCE_S = 40.0 * float(os.environ.get("SPARK_SUPERVISOR_TEST_PATIENCE", "1"))
"""Generous: the machine may be busy, and nothing is asserted about time here. The variable multiplies it where the
processor is emulated."""


@dataclass(frozen=True)
class CommandResult:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class FleetCommands:
    """``acknowledged``: cancels, for the judge."""

    directory: Path
    acknowledged: list[Acknowledged]

    def user_config(self) -> Path:
        raise NotImplementedError

    def cli(self, *words: str, member: int = 0) -> CommandResult:
        """A command, in this process: what it printed and its exit code. Not from two threads at once."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_command([*words, "--config", str(self.user_config())])
        return CommandResult(code, out.getvalue(), err.getvalue())

    def ok(self, *words: str) -> CommandResult:
        ran = self.cli(*words)
        assert ran.code == 0, f"{' '.join(words)}: exit code {ran.code}: {ran.err}"
        return ran

    def submit(self, name: str, *, suspended: bool = False, **spec: Any) -> str:
        """Submit a job; returns its uid. ``spec``: keys of the spec; ``knobs`` are for the light driver."""
        words = ("submit", str(self.spec_file(name, **spec)), *(("--suspended",) if suspended else ()))
        self.ok(*words)
        return self.uid(name)

    def submit_many(self, names: Sequence[str], **spec: Any) -> None:
        self.ok("submit", *(str(self.spec_file(name, **spec)) for name in names))

    def spec_file(self, name: str, *, knobs: dict[str, Any] | None = None, **spec: Any) -> Path:
        """Write the spec of ``name`` with an application of its own, as a user would."""
        directory = self.directory / "specs"
        directory.mkdir(parents=True, exist_ok=True)
        application = directory / f"{name}.py"
        application.write_text(f"# {json.dumps({'beat_s': 0.05, 'batch_s': 0.2, **(knobs or {})})}\n")
        body = {
            "name": name,
            "application": application.name,
            "checkpoint": f"file://{self.directory}/checkpoints/{name}",
            "resources": {"memory": "64m"},
            **spec,
        }
        path = directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump(body))
        return path

    def cancel(self, name: str) -> str:
        """Cancel, and note when it was acknowledged: from then on the uid must never start (I2). Returns the uid."""
        done = self.ok("cancel", name, "-o", "json").document
        self.note_cancelled(name, done["uid"])
        return str(done["uid"])

    def note_cancelled(self, name: str, uid: str, *, heard: bool = True) -> None:
        """``heard`` False: its shim may be deaf just now, so only its deadline bounds the driver."""
        self.acknowledged.append(Acknowledged(name, uid, boottime_s(), heard))

    def rows(self, *words: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.ok("list", "-o", "json", *words).document
        return rows

    def show(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = self.ok("show", name, "-o", "json").document
        return document

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = self.ok("status", "-o", "json").document
        return document

    def uid(self, name: str) -> str:
        return str(self.show(name)["uid"])

    def wait_all_running(self, count: int, timeout_s: float) -> None:
        """Returns when ``count`` jobs run, by ``status``."""

        def all_run() -> bool:
            with contextlib.suppress(AssertionError, SupervisorError):
                return bool(self.status()["jobs"].get("running", 0) == count)
            return False

        wait_until(all_run, timeout_s, f"{count} jobs to run", period_s=1.0)

    def wait_state(self, name: str, *states: str, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """The document of ``show`` once the job is in one of ``states``."""
        last: dict[str, Any] = {}

        def reached() -> bool:
            ran = self.cli("show", name, "-o", "json")
            if ran.code == 0:
                last.clear()
                last.update(ran.document)
            return ran.code == 0 and last["state"] in states

        try:
            wait_until(reached, timeout_s, f"{name} {'|'.join(states)}", period_s=0.15)
        except AssertionError as error:
            brief = {key: last.get(key) for key in ("state", "reason", "attempt", "supervisor", "failures")}
            raise AssertionError(f"{error}; it is {brief}") from None
        return last
