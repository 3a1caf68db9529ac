"""What is measured of real Spark is what it really takes, to within a fifth; and what is predicted of more input comes true.

The load is known: the rate source gives so many rows a second, each batch sleeps a fixed time and one for each row, and the
application holds so much memory when it is told to.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.capacity import judge_query
from supervisor.model.records import Lease, OwnState
from supervisor.model.usage import AttemptUsage, QueryUse
from supervisor.spark import bootstrap
from tests.testbed.attempts import Attempt, Attempts, eventually_closed
from tests.testbed.spark_fleet import APPLICATIONS, LIGHT_PROPERTIES
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

START_S = 400.0
ROWS_PER_S, RAMP_S = 150, 60
FIXED_S, ROW_S, TRIGGER_S = 0.6, 0.004, 3.0
"""As in the application."""
MIB = 1024**2
HELD_MIB = 700
ENOUGH = 36
"""So many batches: those of the ramp, by which the line is found, and some of the full input."""


def within_a_fifth(known: float) -> object:
    return pytest.approx(known, rel=0.2)


@dataclass
class Known:
    """An application of known load, in its directory."""

    attempts: Attempts
    home: Path

    def start(self, *queries: str) -> Attempt:
        self.home.mkdir(exist_ok=True)
        (self.home / "conf").write_text(LIGHT_PROPERTIES + "spark.driver.memory=600m\n")
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None and spec.origin is not None
        submit = Path(spec.origin).parent / "bin" / "spark-submit"
        options = ("--properties-file", f"{self.home}/conf", "--master", "local[2]")
        application = (bootstrap.__file__, str(APPLICATIONS / "known_load.py"), str(self.home))
        return self.attempts.assign(
            argv=(str(submit), *options, *application, *queries),
            lease_s=12.0,
            stop_grace_s=5.0,
            start_timeout_s=START_S,
            stall_timeout_s=START_S,
        )

    def lease(self, attempt: Attempt) -> Lease | None:
        found = self.attempts.lease(attempt)
        return found[0] if found else None

    def usage(self, attempt: Attempt) -> AttemptUsage:
        lease = self.lease(attempt)
        return AttemptUsage() if lease is None or lease.usage is None else lease.usage

    def query(self, attempt: Attempt, name: str) -> QueryUse | None:
        return next((use for use in self.usage(attempt).queries if use.query == name), None)


@pytest.fixture
def known(embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path) -> Iterator[Known]:
    with eventually_closed(Attempts(embedded_ensemble.hosts, zk_root, tmp_path, None)) as made:
        yield Known(made, tmp_path / "home")
        for attempt in made.made:  # of a test that failed: the shim takes all of its tree along
            if attempt.shim_alive() and made.state(attempt) is not OwnState.EXITED:
                made.move(attempt, OwnState.REVOKED)
                made.wait_shim_gone(attempt, 60)


def measured(known: Known, attempt: Attempt, name: str) -> QueryUse:
    def enough() -> QueryUse | None:
        use = known.query(attempt, name)
        return use if use is not None and use.batches >= ENOUGH else None

    return wait_until(enough, START_S, f"{ENOUGH} batches of {name}", period_s=1.0)


def times_of(known: Known, attempt: Attempt, names: tuple[str, ...], at_least: int) -> dict[str, list[float]]:
    """Milliseconds of each batch of these queries, as they are reported."""
    found: dict[str, dict[int, float]] = {name: {} for name in names}

    def take() -> bool:
        lease = known.lease(attempt)
        for query in lease.queries if lease is not None else ():
            if query.query in found and query.batch_id is not None and query.batch_ms is not None:
                found[query.query][query.batch_id] = query.batch_ms
        return all(len(times) >= at_least for times in found.values())

    wait_until(take, START_S, f"{at_least} batches of each of {names}", period_s=0.5)
    return {name: [ms for _, ms in sorted(times.items())] for name, times in found.items()}


def end(known: Known, attempt: Attempt) -> None:
    known.attempts.move(attempt, OwnState.DRAINING)
    own = known.attempts.wait_state(attempt, OwnState.EXITED, 120)
    assert own.usage is not None and own.usage.resources is not None, "it is known after the end"


def test_what_is_measured_is_so_and_what_is_predicted_comes_true(known: Known) -> None:
    attempt = known.start(f"known:{ROWS_PER_S}:{RAMP_S}")
    use = measured(known, attempt, "known")
    assert use.trigger_s == TRIGGER_S
    assert use.input_rows_per_s == within_a_fifth(ROWS_PER_S)
    assert use.batch_ms_p50 == within_a_fifth(1000 * (FIXED_S + ROW_S * use.rows))
    assert use.row_ms == within_a_fifth(1000 * ROW_S)
    judged = judge_query(use)
    assert judged.falls_behind_at == within_a_fifth(1 / (ROW_S * ROWS_PER_S))
    assert judged.falls_behind_at is not None and not judged.at_least

    before = known.usage(attempt).resources
    assert before is not None
    (known.home / "hold").write_text(str(HELD_MIB))
    wait_until(lambda: (known.home / "held").exists(), 60, "the memory to be held")

    def after() -> int | None:
        now = known.usage(attempt).resources
        return now.memory if now is not None and now.samples > before.samples + 8 else None

    held = wait_until(after, 120, "more samples", period_s=1.0) - before.memory
    assert held == within_a_fifth(HELD_MIB * MIB)
    end(known, attempt)

    below, above = (round(factor * judged.falls_behind_at * ROWS_PER_S) for factor in (0.8, 1.3))
    attempt = known.start(f"below:{below}:0", f"above:{above}:0")
    times = times_of(known, attempt, ("below", "above"), 8)
    assert times["below"][-1] <= 1.1 * times["below"][-4], "it has come to rest"
    assert all(
        later > earlier for earlier, later in zip(times["above"][-5:], times["above"][-4:], strict=False)
    )
    assert times["above"][-1] > 1.5 * times["above"][-4], "it falls behind, further and further"
    end(known, attempt)
