"""The benchmark of starts still runs, with one round of two parts."""

from __future__ import annotations

import sys

import pytest

from tests import benchmark_start


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1_800)
def test_a_round_tells_its_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["benchmark_start", "--on", "file", "--rounds", "1", "--only", "archived", "session"]
    monkeypatch.setattr(sys, "argv", words)
    benchmark_start.main()
    printed = capsys.readouterr().out
    rows = (benchmark_start.PLAIN, "crash, cold, with a class archive", "restart, prepared, level session")
    assert [row for row in rows if row not in printed] == []
