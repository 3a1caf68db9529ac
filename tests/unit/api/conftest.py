"""A fleet in memory, and the API of one of its supervisors."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from supervisor.api.responses import ApiResponse
from supervisor.api.service import ApiService
from supervisor.api.shared_reads import SharedReads
from supervisor.operations.context import open_commands
from supervisor.settings.file import load_settings
from tests.unit.cli import test_golden_screens as screens
from tests.unit.cli.conftest import Terminal, terminal

__all__ = ["terminal"]


@dataclass
class Fleet:
    """``ask`` asks the API as ``terminal`` asks ZooKeeper and the store."""

    terminal: Terminal
    service: ApiService
    reads: SharedReads

    def ask(self, path: str, method: str = "GET", if_none_match: str | None = None) -> ApiResponse:
        return self.service.answer(method, f"/api/v1{path}", if_none_match)

    def document(self, path: str) -> Any:
        response = self.ask(path)
        assert response.code == 200, response.body
        return json.loads(response.body)

    def error(self, path: str) -> tuple[int, dict[str, Any]]:
        response = self.ask(path)
        return response.code, json.loads(response.body)


@pytest.fixture
def empty(terminal: Terminal) -> Iterator[Fleet]:
    """Nothing was ever submitted."""
    settings = load_settings(None, os.environ)
    reads = SharedReads(partial(open_commands, settings))
    service = ApiService(reads, settings.supervisor.log_dir)
    yield Fleet(terminal, service, reads)
    service.close()


@pytest.fixture
def fleet(empty: Fleet, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Jobs of all kinds. It is always the same moment, of each clock."""
    monkeypatch.setattr(time, "time", lambda: screens.SUBMITTED_S)
    monkeypatch.setattr("supervisor.records.ids.secrets.choice", lambda letters: letters[0])
    screens.failing_at_length(empty.terminal)
    empty.terminal.submit("fails")
    empty.terminal.bench.fail("fails")
    monkeypatch.setattr(time, "time", lambda: screens.NOW_S)
    monkeypatch.setattr("supervisor.operations.scene.boottime_s", lambda: 1e6)
    return empty
