"""The spec of a job that runs is changed, with real Spark on S3: by a hand-over, or not at all (protocol §9.2).

The witness of the drivers is judged after each test: no two at once, no hole, no batch with another content.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed.moto import MotoServer
from tests.testbed.spark_fleet import APPLICATIONS, SparkFleet
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TRIGGER, OTHER = "1 seconds", "2 seconds"
BROKEN = {
    "no Python": ("session", "def main(:\n", "SyntaxError: invalid syntax"),
    "a missing module": (
        "application",
        "import nothing_of_that_name\n",
        "No module named 'nothing_of_that_name'",
    ),
    "an exception before the first query": ("application", "raise ValueError('not today')\n", "not today"),
}


@pytest.fixture(scope="module")
def fleet(
    embedded_ensemble: EmbeddedEnsemble, moto_server: MotoServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkFleet]:
    with SparkFleet.on_moto(embedded_ensemble, moto_server, tmp_path_factory.mktemp("update")) as made:
        yield made


@pytest.fixture(autouse=True)
def judged(fleet: SparkFleet) -> Iterator[None]:
    yield
    fleet.judge()


def args_of(fleet: SparkFleet, name: str, attempt: int) -> list[str]:
    starts = fleet.lines(name, "start")
    return next(line["args"] for line in starts if line["attempt"] == attempt and line["role"] == "driver")


def gap_s(fleet: SparkFleet, name: str, attempt: int) -> float:
    """From the last batch of the attempt before to the first of ``attempt``, for the reader of ``pytest -rP``."""
    first = fleet.wait_batch_of(name, attempt)
    return first.at_s - max(each.at_s for each in fleet.batches(name) if each.attempt == attempt - 1)


def test_an_update_and_its_roll_back_are_hand_overs(fleet: SparkFleet) -> None:
    job = "clicks"
    fleet.submit(job, args=["{checkpoint}", TRIGGER])
    fleet.wait_batches(job)
    for attempt, trigger in ((2, OTHER), (3, TRIGGER)):
        if trigger == OTHER:
            path = fleet.spec_file(job, args=["{checkpoint}", OTHER])
            assert "args: " in fleet.cli("diff", str(path)).out
            ran = fleet.cli("apply", str(path), "--wait")
        else:
            ran = fleet.cli("rollback", job, "--wait")
        assert ran.code == 0, ran.err
        fleet.wait_batch_of(job, attempt)
        shown = fleet.show(job)
        state = "observing" if trigger == OTHER else "done"
        assert (shown["attempt"], shown["revision"], shown["update"]["state"]) == (attempt, attempt, state)
        assert args_of(fleet, job, attempt)[1:] == [trigger]
        assigned = [each for each in shown["history"] if each["event"] == "assigned"][-1]
        assert assigned["detail"].endswith("where a driver is prepared")
        print(f"measured: last batch → first batch of revision {attempt}: {gap_s(fleet, job, attempt):.1f} s")
    fleet.ok("cancel", job, "--wait")


def test_a_spec_of_which_no_driver_can_be_prepared_stops_nothing(fleet: SparkFleet, tmp_path: Path) -> None:
    job = "views"
    fleet.submit(job, args=["{checkpoint}", TRIGGER])
    fleet.wait_batches(job)
    for number, (what, (level, text, said)) in enumerate(BROKEN.items(), start=2):
        broken = tmp_path / "counts.py"
        broken.write_text(
            f"{text}{(APPLICATIONS / 'counts.py').read_text().replace('from __future__', '# ')}"
        )
        path = fleet.spec_file(
            job, application=broken, args=["{checkpoint}", TRIGGER], update={"prepare": level}
        )
        ran = fleet.cli("apply", str(path), "--wait")
        assert ran.code == 1, (what, ran)
        assert f"{job} runs on as it was: revision {number} was given up" in ran.err, what
        assert said in ran.err, what
        shown = fleet.show(job)
        assert (shown["attempt"], shown["revision"], shown["update"]["state"]) == (1, 1, "failed"), what
        explained = fleet.cli("explain", job).out
        assert f"revision {number} was given up, and 1 goes on" in explained
        fleet.wait_batches(job)
        assert "--again tries it once more" in fleet.cli("apply", str(path)).out
    fleet.ok("cancel", job, "--wait")


def test_a_revision_whose_first_batch_fails_is_rolled_back_by_the_leader(
    fleet: SparkFleet, tmp_path: Path
) -> None:
    """The commonest bad release, by the default rule: its batch is planned, nothing of it is committed."""
    job = "hits"
    fleet.submit(job, args=["{checkpoint}", TRIGGER])
    fleet.wait_batches(job)
    bad = tmp_path / "counts.py"
    text = (APPLICATIONS / "counts.py").read_text()
    bad.write_text(text.replace('note("batch"', 'raise ValueError("a bad release")\n        note("batch"'))
    assert (
        fleet.cli("apply", str(fleet.spec_file(job, application=bad, args=["{checkpoint}", TRIGGER]))).code
        == 0
    )

    def is_rolled_back() -> bool:
        return bool(fleet.show(job)["update"]["state"] == "rolled_back")

    wait_until(is_rolled_back, 300.0)
    assert "a bad release" in fleet.show(job)["update"]["why"]
    fleet.wait_batches(job)
    assert fleet.show(job)["revision"] == 1 or fleet.show(job)["update"]["stable"] == 1
    fleet.ok("cancel", job, "--wait")
