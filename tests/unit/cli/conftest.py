"""The whole command line in this process, on an ensemble in memory and a real file store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from supervisor.cli.main import run_command
from supervisor.operations import auditing, author
from supervisor.operations import context as operations_context
from tests.fakes.registry_bench import ROOT, Bench

AUTHOR = "uid:1000@desk"
"""Who sits at every terminal of these tests."""

REPEATS = "savepoints: {sink: repeats}"
"""Is for the spec of a job that may go back, whatever batches its sink has got."""


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Terminal:
    """Where a user sits: ``run("cancel", "a")``. ``bench`` is what ZooKeeper holds."""

    bench: Bench
    home: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def config(self) -> Path:
        return self.home / "supervisor.yaml"

    def run(self, *arguments: str) -> Ran:
        self.capsys.readouterr()
        code = run_command([*arguments])
        out, err = self.capsys.readouterr()
        return Ran(code, out, err)

    def spec(self, name: str, text: str = "", file: str = "") -> str:
        """A spec with an application beside it; returns its path. ``text``: more lines."""
        (self.home / "app.py").write_text("print('hello')\n")
        path = self.home / (file or f"{name}.yaml")
        checkpoint = "" if "checkpoint:" in text else f"checkpoint: s3://bucket/{name}\n"
        path.write_text(f"name: {name}\napplication: app.py\n{checkpoint}{text}\n")
        return str(path)

    def submit(self, name: str) -> str:
        """Returns the uid."""
        ran = self.run("submit", self.spec(name), "-o", "json")
        assert ran.code == 0, ran.err
        uid: str = ran.json[0]["uid"]
        return uid


@pytest.fixture
def terminal(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Terminal:
    bench = Bench(bootstrapped=False)
    keep: Callable[..., Any] = lambda *_, **__: bench.sessions()  # noqa: E731
    monkeypatch.setattr(operations_context, "keep_session", keep)
    for module in (author, auditing):
        monkeypatch.setattr(module, "user_here", lambda: AUTHOR)
    terminal = Terminal(bench, tmp_path, capsys)
    terminal.config.write_text(
        f"cluster: test\nzookeeper: {{hosts: 'zk:2181', root: {ROOT}}}\nstore: {{url: 'file://{tmp_path}/store'}}\n"
        f"supervisor: {{id: host-a, log_dir: {tmp_path}/log, runtime_dir: {tmp_path}/run}}\n"
    )
    monkeypatch.setenv("SPARK_SUPERVISOR_CONFIG", str(terminal.config))
    return terminal


def replace_sleep(patch: pytest.MonkeyPatch, module: ModuleType, sleep: Callable[[float], object]) -> None:
    """Replaces what ``module`` sleeps by, and for nobody else: every thread of the process shares ``time.sleep``."""
    patch.setattr(module, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
