"""``list`` and ``status`` at 80 and 140 columns, exactly as a person sees them, without colours.

REGENERATE_GOLDEN=1 writes the screens anew; then read what changed.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.errors import Unreachable
from supervisor.model.records import Cause, EpochRecord, HistoryEntry, LeaderHint, Pause, Phase, Progress
from supervisor.model.restart import RestartPolicy, Strategy
from supervisor.observe.listing import seconds_of
from supervisor.observe.status import ClusterConfiguration, take_status, unreachable_status
from supervisor.operations import cluster_status
from tests.fakes.registry_bench import AT
from tests.unit.cli.conftest import Terminal

GOLDEN = Path(__file__).parents[2] / "golden" / "screens"
SUBMITTED_S = seconds_of(AT) or 0.0
RECENT = "2026-11-21T11:46:53.000Z"
NOW_S = SUBMITTED_S + 11 * 3600 + 5
ANSI_STYLE = re.compile(r"\033\[[0-9;]*m")
EARLIER = "2026-11-21T11:43:19.000Z"
PLACE = ClusterConfiguration("prod", "zk1:2181,zk2:2181,zk3:2181", "s3://bucket/prefix")
STREAM_FAILED = (
    "STREAM_FAILED: StreamingQueryException: ValueError: bad row 17 | [STREAM_FAILED] Query [id = 1f0c, runId = 77aa] "
    "terminated with exception: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost "
    'task 0.0: org.apache.spark.api.python.PythonException: Traceback (most recent call last): File "/x/worker.py", line 1247'
)
SMALL = (
    "driver memory 400 MiB, Spark needs 450 MiB; raise spark.driver.memory and submit it again (exit code 1)"
)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It is always the same moment, in a zone of its own; what is looked at was made before."""
    monkeypatch.setattr(time, "time", lambda: SUBMITTED_S)
    monkeypatch.setattr("supervisor.records.ids.secrets.choice", lambda letters: letters[0])
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "XST-03:30")
        time.tzset()
        yield
    time.tzset()


def well(terminal: Terminal) -> None:
    bench = terminal.bench
    for name, batch, rate in (("clicks", 41, 20.25), ("orders-by-region", 120_345, 18_220.5)):
        terminal.submit(name)
        bench.run(
            name,
            progress=Progress(
                query="q",
                batch_id=batch,
                input_rows_per_s=rate,
                processed_rows_per_s=2 * rate,
                batch_ms=300.0,
                at=RECENT,
                lag=7012,
            ),
        )
    for supervisor in ("host-a", "host-b"):
        bench.join(supervisor)
    bench.put(bench.layout.leader, LeaderHint(supervisor="host-a", epoch=7, address="host-a:8780"))
    bench.put(bench.layout.epoch, EpochRecord(epoch=7, supervisor="host-a", op="op"))


def failing(terminal: Terminal) -> None:
    """One that is tried again, one that waits for a person, one that is over, and one whose other query runs on."""
    well(terminal)
    bench = terminal.bench
    terminal.submit("late")
    bench.run("late", phase=Phase.SESSION)
    for name, cause, reason in (
        ("backs-off", Cause.USER_ERROR, f"exit code 1: {STREAM_FAILED}"),
        ("small", Cause.NOT_STARTED, SMALL),
        ("over", Cause.USER_ERROR, f"exit code 3: {STREAM_FAILED}"),
        ("tired", Cause.USER_ERROR, "exit code 3: no topic"),
    ):
        terminal.submit(name)
        bench.exit(
            name, cause, at=EARLIER, failures=8 if name == "backs-off" else 0, permanent=name == "small"
        )
        bench.put(bench.layout.own(name), replace(bench.own(name), reason=reason))
    for name, policy in (
        ("over", RestartPolicy(strategy=Strategy.NONE)),
        ("tired", RestartPolicy(attempts=0)),
    ):
        ref = bench.ref(name)
        bench.put(
            bench.layout.job(name), replace(ref.record, terms=replace(ref.record.terms, restart=policy))
        )
    terminal.submit("parked")
    parked = bench.ref("parked").record
    bench.put(
        bench.layout.job("parked"), replace(parked, changed=HistoryEntry(at=EARLIER, event="suspended"))
    )
    terminal.run("suspend", "parked")


def failing_at_length(terminal: Terminal) -> None:
    """The reason of one has room nowhere beside it."""
    failing(terminal)
    terminal.submit("conflict")
    terminal.bench.exit("conflict", Cause.CHECKPOINT_CONFLICT, at=EARLIER, permanent=True)
    terminal.bench.put(
        terminal.bench.layout.own("conflict"),
        replace(
            terminal.bench.own("conflict"),
            reason=(
                "attempt 4 of clicks (uid 20261121-clicks-0a1b2c3d) on host-b.example wrote offsets/12 at 2026-11-21T11:43:19.000Z: a second "
                "writer on the checkpoint, look for it (CONCURRENT_STREAM_LOG_UPDATE)"
            ),
        ),
    )


def paused(terminal: Terminal) -> None:
    well(terminal)
    terminal.submit("new")
    terminal.bench.put(
        terminal.bench.layout.pause, Pause(by="ann@desk", at=EARLIER, reason="moving the brokers", op="op")
    )


def nobody(terminal: Terminal) -> None:
    """Nothing but a job that waits."""
    terminal.submit("new")


COMMANDS = {"list": ["list"], "wide": ["list", "-o", "wide"], "status": ["status"]}
SCREENS = [
    ("list", well),
    ("list", failing),
    ("list", failing_at_length),
    ("list", paused),
    ("list", nobody),
    ("wide", failing),
    ("status", well),
    ("status", failing),
    ("status", paused),
]


def screen(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, columns: int, *command: str, code: int = 0
) -> str:
    with monkeypatch.context() as patch:
        for name, value in (("COLUMNS", str(columns)), ("LINES", "24"), ("TERM", "xterm"), ("NO_COLOR", "1")):
            patch.setenv(name, value)
        patch.setattr(time, "time", lambda: NOW_S)
        patch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        ran = terminal.run(*command)
    assert (ran.code, ran.err) == (code, "")
    text = ANSI_STYLE.sub("", ran.out)
    assert {"wide", "show"} & {*command} or max(map(len, text.splitlines())) <= columns
    return text


def test_what_is_not_known_while_zookeeper_is_away_is_not_told(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Unreachable("ZooKeeper at zk1:2181 did not answer within 10 s")
    monkeypatch.setattr(cluster_status, "status_of", lambda context: (unreachable_status(PLACE, True), away))
    ran = terminal.run("status")
    assert (ran.code, ran.err) == (5, f"error: {away}\n")
    assert ran.out.splitlines() == [
        "cluster:    prod",
        "leader:     unknown",
        "zookeeper:  unreachable, zk1:2181,zk2:2181,zk3:2181",
        "store:      ok, s3://bucket/prefix",
        "jobs:       unknown",
    ]


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize(("command", "world"), SCREENS)
def test_the_screen_is_the_golden_file(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    world: Callable[[Terminal], None],
    columns: int,
) -> None:
    monkeypatch.setattr(
        cluster_status,
        "status_of",
        lambda context: (take_status(context.zoo(), context.layout, PLACE, 10.0, True), None),
    )
    world(terminal)
    text = screen(terminal, monkeypatch, columns, *COMMANDS[command])
    path = GOLDEN / f"{command}-{world.__name__.replace('_', '-')}-{columns}.txt"
    if os.environ.get("REGENERATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()
