"""``show``, ``explain`` and ``doctor`` at 80 and 140 columns, exactly as a person sees them, without colours.

REGENERATE_GOLDEN=1 writes the screens anew; then read what changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from supervisor.cli.doctor import command as doctor_command
from supervisor.cli.doctor.catalogue import AREAS
from supervisor.cli.doctor.clusters import NOT_DEEP, DeepFacts
from supervisor.cli.doctor.examine import ReportLine
from supervisor.cli.doctor.job import JobFacts, PackageFacts
from supervisor.cli.doctor.job_credentials import CredentialsFacts
from supervisor.cli.doctor.phrases import NO_SPEC
from supervisor.cli.doctor.receivers import ReceiversFacts
from supervisor.clients.store.files import FileStore
from supervisor.clients.zookeeper_probe import Latency
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.errors import Complaint
from supervisor.model.records import Cause, ClusterWait, Lease, Phase, QueryProgress, QueryState, with_entry
from tests.fakes.registry_bench import AT
from tests.unit.cli.conftest import Terminal
from tests.unit.cli.doctor import test_judges as facts
from tests.unit.cli.test_golden_screens import (
    EARLIER,
    GOLDEN,
    STREAM_FAILED,
    clock,
    failing,
    paused,
    screen,
    well,
)

__all__ = ["clock"]  # a fixture for all tests here, too

STARTED = "2026-11-21T11:40:07.000Z"
OUTPUT = """\
26/11/21 11:43:18 ERROR MicroBatchExecution: Query counts terminated with error
Traceback (most recent call last):
  File "/opt/jobs/backs_off.py", line 31, in <module>
    main()
  File "/opt/jobs/backs_off.py", line 24, in main
    query.awaitTermination()
pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query [id = 1f0c, runId = 77aa] terminated with exception: \
Job aborted due to stage failure: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1247, in main
    process()
  File "/opt/jobs/backs_off.py", line 12, in parse
    raise ValueError(f"bad row {row}")
ValueError: bad row 17

\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3122)
26/11/21 11:43:19 INFO ShutdownHookManager: Shutdown hook called
"""


def one_fails(terminal: Terminal) -> None:
    """With a past, and with what its driver wrote last."""
    failing(terminal)
    bench, name = terminal.bench, "backs-off"
    own = bench.own(name)
    history = with_entry(with_entry((), STARTED, "assigned", 4, "to host-a"), STARTED, "claimed", 4, "host-a")
    history = with_entry(history, EARLIER, "user_error", 4, f"exit code 1: {STREAM_FAILED}")
    bench.put(bench.layout.own(name), replace(own, attempt=4, claims=4, failures=3, history=history))
    path = terminal.home / "log" / name / f"{own.newest_uid}.4.log"
    path.parent.mkdir(parents=True)
    path.write_text(OUTPUT)


def half(terminal: Terminal) -> None:
    """One query of three has failed."""
    well(terminal)
    bench = terminal.bench
    queries = (
        QueryProgress(
            query="clicks",
            id="i1",
            state=QueryState.ACTIVE,
            batch_id=1204,
            input_rows_per_s=18_220.5,
            processed_rows_per_s=18_000.25,
            batch_ms=320.0,
            lag=7012.0,
            at=AT,
        ),
        QueryProgress(
            query="orders",
            id="i2",
            state=QueryState.IDLE,
            batch_id=99,
            input_rows_per_s=0.0,
            processed_rows_per_s=0.0,
            batch_ms=12.0,
            lag=0.0,
            at=AT,
        ),
        QueryProgress(
            query="users", id="i3", state=QueryState.FAILED, batch_id=7, at=AT, error="ValueError: bad row 17"
        ),
    )
    lease: Lease = bench.record(Lease, bench.layout.lease("clicks")).record
    bench.put(bench.layout.lease("clicks"), replace(lease, queries=queries))


def small(terminal: Terminal) -> None:
    """Refused for good."""
    failing(terminal)
    bench = terminal.bench
    history = with_entry((), EARLIER, Cause.NOT_STARTED.value, 1, bench.own("small").reason)
    bench.put(bench.layout.own("small"), replace(bench.own("small"), history=history))


def full(terminal: Terminal) -> None:
    """There is no room for one more."""
    well(terminal)
    for supervisor in ("host-a", "host-b"):
        terminal.bench.join(supervisor, drivers=2, memory=512 << 20)
    terminal.submit("new")


def waiting(terminal: Terminal) -> None:
    """One starts, and one runs, without an executor."""
    well(terminal)
    bench = terminal.bench
    path = bench.layout.lease("clicks")
    lease: Lease = bench.record(Lease, path).record
    wait = ClusterWait(
        cluster="prod", since=EARLIER, application="app-20261121004650-0000", says="0 of 8 cores free"
    )
    bench.put(path, replace(lease, cluster_wait=wait))
    terminal.submit("new")
    bench.run("new", Phase.QUERY)
    path = bench.layout.lease("new")
    lease = bench.record(Lease, path).record
    bench.put(path, replace(lease, cluster_wait=ClusterWait(cluster="prod", since=EARLIER)))


SCREENS: list[tuple[str, Callable[[Terminal], None], list[str]]] = [
    ("show-running", well, ["show", "clicks"]),
    ("show-all-running", well, ["show", "clicks", "--all"]),
    ("show-failing", one_fails, ["show", "backs-off"]),
    ("show-all-failing", one_fails, ["show", "backs-off", "--all"]),
    ("show-half-failed", half, ["show", "clicks"]),
    ("show-waiting", waiting, ["show", "clicks"]),
    ("show-all-waiting", waiting, ["show", "clicks", "--all"]),
    ("list-waiting", waiting, ["list"]),
    ("explain-waiting", waiting, ["explain", "clicks"]),
    ("explain-starts-waiting", waiting, ["explain", "new"]),
    ("show-quarantined", small, ["show", "small"]),
    ("explain-running", well, ["explain", "clicks"]),
    ("explain-verbose-running", well, ["explain", "clicks", "--verbose"]),
    ("explain-failing", one_fails, ["explain", "backs-off"]),
    ("explain-verbose-failing", one_fails, ["explain", "backs-off", "--verbose"]),
    ("explain-half-failed", half, ["explain", "clicks"]),
    ("explain-quarantined", small, ["explain", "small"]),
    ("explain-suspended", failing, ["explain", "parked"]),
    ("explain-paused", paused, ["explain", "new"]),
    ("explain-no-room", full, ["explain", "new"]),
    ("explain-verbose-no-room", full, ["explain", "new", "--verbose"]),
    ("explain-every-job", one_fails, ["explain"]),
    ("history-failing", one_fails, ["history", "backs-off"]),
]


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize(("name", "world", "command"), SCREENS, ids=[name for name, _, _ in SCREENS])
def test_the_screen_of_a_job_is_the_golden_file(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    world: Callable[[Terminal], None],
    command: list[str],
    columns: int,
) -> None:
    world(terminal)
    EpochMarks(FileStore(terminal.home / "store")).record_epoch(7, "host-a", "op")
    check(f"{name}-{columns}", screen(terminal, monkeypatch, columns, *command))


def check(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("REGENERATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


FACTS = {
    "java": facts.JAVA,
    "spark": facts.SPARK,
    "store": facts.STORE,
    "checkpoint": facts.NO_PROBE,
    "zookeeper": replace(facts.ZOO, job="", checkpoint=None),
    "zookeeper-security": replace(facts.SECURED, acl="enforce"),
    "host": facts.HOST,
    "directories": facts.DIRECTORIES,
    "api": facts.API,
    "clusters": facts.CLUSTERS,
    "clusters-deep": DeepFacts(NOT_DEEP),
    "receivers": ReceiversFacts(),
    "job": JobFacts(),
    "job-credentials": CredentialsFacts(why=NO_SPEC),
    "packages": PackageFacts(why=NO_SPEC),
}
ILL = {
    "store": facts.store(
        failed="write",
        error=Complaint("s3://bucket/p refused the request (AccessDenied)", "grant s3:PutObject on it"),
    ),
    "zookeeper": replace(FACTS["zookeeper"], latency=Latency(100, 300, 500)),  # type: ignore[type-var]
}


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize("options", [(), ("-v",)])
@pytest.mark.parametrize(("health", "found"), [("well", FACTS), ("ill", FACTS | ILL)])
def test_the_screen_of_the_doctor_is_the_golden_file(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    health: str,
    found: dict[str, object],
    options: tuple[str, ...],
    columns: int,
) -> None:
    lines = [
        ReportLine(area.id, check.id, check.judge(found[area.id]), 5)
        for area in AREAS
        for check in area.checks
    ]
    monkeypatch.setattr(doctor_command, "examine", lambda _subject, _areas: lines)
    text = screen(terminal, monkeypatch, columns, "doctor", *options, code=1 if health == "ill" else 0)
    check(f"doctor{'-verbose' if options else ''}-{health}-{columns}", text)
