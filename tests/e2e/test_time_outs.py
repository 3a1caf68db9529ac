"""``start_timeout`` and ``stall_timeout`` (REFERENCE.md) on real Spark: every kind of application, side by side in one fleet.

Those that are well must not be touched, although their time-outs are seconds; those that are not must be ended, with the
cause that says what was wrong. Both are watched at once, so the healthy ones are quiet for as long as the others take.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.spark.toolchain import installed_spark_home
from tests.testbed import requirements
from tests.testbed.fleet import Fleet
from tests.testbed.spark_fleet import APPLICATIONS, CONF, START_S, build_jar
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

STALL = "12s"
GENEROUS = "10m"
SUSPENDED_JVM = "-agentlib:jdwp=transport=dt_socket,server=y,suspend=y,address=127.0.0.1:0"
"""The JVM of spark-submit waits for a debugger: a spark-submit that hangs."""


@dataclass
class Kinds(Fleet):
    """Real Spark; store and checkpoints are directories."""

    def _settings(self, hosts: str) -> dict[str, Any]:
        return {**super()._settings(hosts), "spark": {}}

    def submit_kind(
        self, name: str, kind: str, start: str, stall: str, *, application: str = "kinds.py", **spec: Any
    ) -> None:
        directory = self.directory / "specs" / name
        directory.mkdir(parents=True)
        body = {
            "name": name,
            "application": application,
            "args": [kind, "{checkpoint}", f"{self.directory}/input/{name}"],
            "master": "local[1]",
            "checkpoint": f"file://{self.directory}/checkpoints/{name}",
            "resources": {"memory": "300m"},
            "restart": {"strategy": "fixed", "initial": "5s"},
            "health": {"start_timeout": start, "stall_timeout": stall},
            **spec,
            "conf": {**CONF, **spec.get("conf", {})},
        }
        if application == "kinds.py":
            shutil.copy(APPLICATIONS / application, directory)
        (directory / "job.yaml").write_text(yaml.safe_dump(body))
        self.ok("submit", str(directory / "job.yaml"))

    def batch_of(self, name: str) -> int:
        """The newest committed batch; −1: none yet."""
        progress = self.show(name)["progress"]
        return -1 if progress is None else progress["batch_id"]

    def diagnostics_of(self, name: str) -> str:
        """What was kept of its silent drivers, when there is something."""
        found: list[Path] = []
        wait_until(
            lambda: bool(found.extend(self.directory.glob(f"**/{name}/*.diagnostics.txt")) or found),
            START_S,
            f"diagnostics of {name}",
        )
        return found[0].read_text()

    def wait_ended(self, expected: dict[str, tuple[str, str]]) -> None:
        """Until an attempt of each was ended for its cause, with its sentence; whoever has come so far is cancelled."""
        missing = dict(expected)

        def all_found() -> bool:
            for name, (cause, says) in list(missing.items()):
                row = self.show(name)
                if any(entry["event"] == cause and says in entry["detail"] for entry in row["history"]):
                    assert row["failures"] >= 1
                    self.ok("cancel", name)
                    del missing[name]
            return not missing

        try:
            wait_until(all_found, START_S, "all to be ended", period_s=1.0)
        except AssertionError as error:
            raise AssertionError(
                f"{error}; {[(name, self.show(name)['history']) for name in missing]}"
            ) from None


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    requirements.need("jdk")
    return build_jar(
        APPLICATIONS / "Kinds.java", tmp_path_factory.mktemp("jar") / "kinds.jar", installed_spark_home()
    )


@pytest.fixture(scope="module")
def fleet(embedded_ensemble: EmbeddedEnsemble, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kinds]:
    directory = tmp_path_factory.mktemp("kinds")
    root = f"/kinds-{uuid.uuid4().hex[:12]}"
    with Kinds(
        embedded_ensemble, root, directory, supervisors=1, lease_s=30.0, grace_s=5.0, judged=False
    ) as made:
        yield made


def test_those_that_are_well_are_left_alone_and_the_others_are_ended(fleet: Kinds, jar: Path) -> None:
    jvm = {"application": f"local:{jar}", "class": "Kinds"}
    well = {
        # up, without session or query: neither concerns it
        "no-query": ("no-query", "30s", STALL, {}),
        "idle": ("idle", GENEROUS, STALL, {}),  # its source has nothing new
        "hour": ("hour", GENEROUS, STALL, {}),  # waits for its next trigger
        # a batch takes longer than the time-out, in a task
        "long-batch": ("long-batch", GENEROUS, STALL, {}),
        "slow-start": ("slow-start", GENEROUS, STALL, {}),
        "jvm-idle": ("idle", "5s", STALL, jvm),  # life is read from the commit log
    }
    for name, (kind, start, stall, spec) in well.items():
        fleet.submit_kind(name, kind, start, stall, **spec)
    before = {name: fleet.wait_state(name, "running", timeout_s=START_S) for name in well}
    long_batches = fleet.batch_of("long-batch")

    fleet.submit_kind(
        "hangs", "no-query", "6s", GENEROUS, conf={"spark.driver.extraJavaOptions": SUSPENDED_JVM}
    )
    fleet.submit_kind("no-batch", "no-batch", "60s", STALL)
    fleet.submit_kind("first-batch", "first-batch", "60s", GENEROUS)
    fleet.submit_kind("hung", "hung", GENEROUS, STALL)
    fleet.submit_kind("jvm-hung", "hung", GENEROUS, STALL, **jvm)
    fleet.wait_ended(
        {
            "hangs": ("start_timed_out", "the application had not begun after 6 s"),
            "no-batch": ("start_timed_out", "no batch was committed within 60 s"),
            "first-batch": ("start_timed_out", "no batch was committed within 60 s"),
            "hung": ("stalled", "for 12 s"),
            "jvm-hung": ("stalled", "for 12 s"),
        }
    )

    python, jvm_only = fleet.diagnostics_of("hung"), fleet.diagnostics_of("jvm-hung")
    for text in (python, jvm_only):
        assert text.count("Full thread dump") == 3 and "stream execution thread for" in text
        assert "== heap histogram of java" in text and "\nTotal " in text
        assert "for 12 s" in text and "batch 1 at " in text
    assert "at forever (" in python and '"MainThread"' in python, "where the application's Python is"
    assert "at Kinds.hang(" in jvm_only
    assert "== processes ==" in fleet.diagnostics_of("hangs"), "its JVM answers nothing"

    enough = long_batches + 1
    wait_until(lambda: fleet.batch_of("long-batch") >= enough, START_S, f"long batch {enough}", period_s=0.5)
    for name in well:
        row = fleet.show(name)
        same = ("state", "attempt", "restarts", "driver_pid")
        assert [row[key] for key in same] == [before[name][key] for key in same], (name, row["history"])
