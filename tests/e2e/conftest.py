"""Programs that a test starts are ended with it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.program import Running, Start


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    begun: list[Running] = []

    def start(*arguments: str) -> Running:
        begun.append(Running(tmp_path, arguments))
        return begun[-1]

    yield start
    for running in begun:
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGTERM)
            running.process.wait(60)
