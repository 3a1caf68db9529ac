"""How often the throwaway query of a prepared driver runs: often enough that the JVM is warm, and not for ever on a slow host."""

from __future__ import annotations

import pytest

from supervisor.spark import warm_up


class Session:
    """Stands for a SparkSession: each attribute and each call gives the next link of a chain, and a start is counted."""

    def __init__(self, start_s: float) -> None:
        self.started = 0
        self.now_s = 0.0
        self._start_s = start_s

    def __getattr__(self, _name: str) -> Session:
        return self

    def __call__(self, *_args: object, **_kwargs: object) -> Session:
        return self

    def __mod__(self, _other: int) -> Session:
        return self

    def start(self) -> Session:
        self.started += 1
        self.now_s += self._start_s
        return self

    def monotonic(self) -> float:
        return self.now_s


@pytest.mark.parametrize(
    ("start_s", "runs"),
    [(0.4, warm_up.RUNS), (5.0, 4), (60.0, warm_up.RUNS_MIN)],
    ids=["quick", "slow", "slower than all the time there is"],
)
def test_the_throwaway_query_runs_often_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, start_s: float, runs: int
) -> None:
    session = Session(start_s)
    monkeypatch.setattr(warm_up, "col", lambda _name: session)
    monkeypatch.setattr(warm_up, "time", session)
    warm_up.run_throwaway_query(session, "file:///somewhere")
    assert session.started == runs
