"""``top``, ``explain --capacity`` and the usage in ``show``: what drivers take, as screens and documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.model.records import Cause, HistoryEntry, OwnState, Progress, QueryProgress, QueryState
from supervisor.model.usage import AttemptUsage, QueryUse, ResourceUse
from tests.fakes.registry_bench import AT
from tests.golden.sample_records import USAGE
from tests.unit.cli.conftest import Terminal

MIB, GIB = 1024**2, 1024**3


def resources(memory: int, cores: float = 0.5) -> ResourceUse:
    return ResourceUse(
        source="pss",
        samples=900,
        observed_s=3600.0,
        memory=memory // 2,
        memory_p50=memory // 2,
        memory_p95=memory,
        memory_p99=memory,
        memory_max=memory,
        cpu_s=1800.0,
        cores=cores,
        cores_p95=2 * cores,
    )


def query(name: str = "counts", ms: float = 3000.0, **changes: Any) -> QueryUse:
    use = QueryUse(
        query=name,
        batches=64,
        batch_ms_p50=ms,
        batch_ms_p95=ms,
        batch_ms_max=ms,
        rows=1000.0,
        input_rows_per_s=100.0,
        trigger_s=10.0,
        fixed_ms=1000.0,
        row_ms=2.0,
        state_bytes=4 * MIB,
    )
    return replace(use, **changes)


def reported(name: str = "counts", **changes: Any) -> QueryProgress:
    use = QueryProgress(
        query=name,
        id="1",
        batch_id=7,
        batch_ms=3500.0,
        input_rows_per_s=18.0,
        processed_rows_per_s=20.0,
        lag=5.0,
        state_rows=9.0,
    )
    return replace(use, **changes)


@pytest.fixture
def fleet(terminal: Terminal) -> Terminal:
    """Three jobs on two hosts of three."""
    for name in ("big", "busy", "unmeasured", "suspended"):
        terminal.submit(name)
    bench = terminal.bench
    for host, memory in (("host-a", 4 * GIB), ("host-b", GIB // 2), ("host-c", 4 * GIB)):
        bench.join(host, memory=memory)
    bench.run(
        "big", usage=AttemptUsage(resources=resources(700 * MIB), queries=(query(),)), queries=(reported(),)
    )
    busy = AttemptUsage(resources=resources(300 * MIB, cores=1.5), queries=(query("views", ms=9500.0),))
    ended = reported("gone", id="2", state=QueryState.TERMINATED, lag=10_000.0)
    bench.run("busy", usage=busy, queries=(reported("views", batch_ms=9500.0), ended))
    bench.run("unmeasured")
    own = bench.own("unmeasured")
    bench.put(bench.layout.own("unmeasured"), replace(own, supervisor="host-b"))
    return terminal


def names(terminal: Terminal, *options: str) -> list[str]:
    return [job["name"] for job in terminal.run("top", "-o", "json", *options).json["jobs"]]


def test_the_jobs_that_occupy_a_host_are_shown_with_what_they_take(fleet: Terminal) -> None:
    ran = fleet.run("top", "-o", "json")
    big, busy, unmeasured = ran.json["jobs"]
    assert (big["name"], big["memory"], big["memory_max"]) == ("big", 350 * MIB, 700 * MIB)
    assert (big["cores"], big["memory_reserved"], big["supervisor"]) == (0.5, GIB, "host-a")
    assert (big["query"], big["batch_ms"], big["trigger_s"]) == ("counts", 3500.0, 10.0)
    assert big["share_of_trigger"] == pytest.approx(0.35), "of the newest batch"
    assert (big["processed_rows_per_s"], big["state_rows"], big["state_bytes"]) == (20.0, 9.0, 4 * MIB)
    assert busy["lag"] == 5.0, "of a query that has ended nothing is true"
    assert unmeasured["memory"] is unmeasured["cores"] is unmeasured["share_of_trigger"] is None


@pytest.mark.parametrize(
    ("order", "first"), [("memory", "big"), ("cpu", "busy"), ("trigger", "busy"), ("lag", "big")]
)
def test_what_has_most_comes_first_and_what_is_not_known_last(
    fleet: Terminal, order: str, first: str
) -> None:
    shown = names(fleet, "--sort", order)
    assert (shown[0], shown[-1]) == (first, "unmeasured")


def test_hosts_are_marked(fleet: Terminal) -> None:
    hosts = {host["id"]: host for host in fleet.run("top", "--hosts", "-o", "json").json["hosts"]}
    assert (hosts["host-a"]["reserved"], hosts["host-a"]["peaks"]) == (2 * GIB, 1000 * MIB)
    assert (hosts["host-a"]["used"], hosts["host-a"]["cores"]) == (500 * MIB, 2.0)
    assert (hosts["host-b"]["unmeasured"], hosts["host-b"]["peaks"]) == (1, GIB)
    assert {name: host["mark"] for name, host in hosts.items()} == {
        "host-a": None,
        "host-b": "over-committed",
        "host-c": "idle",
    }


def test_the_screens(fleet: Terminal) -> None:
    lines = [line.split() for line in fleet.run("top").out.splitlines()]
    assert lines[0] == [
        "NAME",
        "HOST",
        "CPU",
        "%",
        "MEMORY",
        "RESERVED",
        "BATCH",
        "S",
        "TRIGGER",
        "LOAD",
        "%",
        "ROWS/S",
        "IN",
        "STATE",
        "ROWS",
        "STATE",
        "LAG",
    ]
    assert lines[1] == [
        "big",
        "host-a",
        "50",
        "350.0",
        "MiB",
        "1.0",
        "GiB",
        "3.5",
        "10",
        "s",
        "35",
        "18.0",
        "9",
        "4.0",
        "MiB",
        "5",
    ]
    assert lines[3] == ["unmeasured", "host-b", "-", "-", "1.0", "GiB", "-", "-", "-", "-", "-", "-", "-"]
    hosts = [line.split() for line in fleet.run("top", "--hosts").out.splitlines()]
    assert hosts[1] == [
        "host-a",
        "2",
        "of",
        "20",
        "200",
        "4.0",
        "GiB",
        "2.0",
        "GiB",
        "500.0",
        "MiB",
        "1000.0",
        "MiB",
        "-",
    ]
    assert hosts[2][-1] == "over-committed"


def test_the_capacity_of_a_job_is_said_with_its_arithmetic(fleet: Terminal) -> None:
    out = fleet.run("explain", "big", "--capacity").out
    assert "uses 700.0 MiB of 1.0 GiB at its peak, 68%; 350.0 MiB now" in out
    assert "peak 700 MiB × 1.25 = 875 MiB, rounded up to 896 MiB" in out
    assert (
        "a batch takes 3 s at the median, 3 s at 95 %, 30% of its trigger of 10 s; 100 rows/s arrive" in out
    )
    assert "at 2 times the input a batch would take 5 s of 10 s, and keep to its trigger" in out
    assert (
        "keeps to its trigger up to 4.5 times the input; falls behind for good above 5 times the input" in out
    )
    assert "1 / (2 ms × 100 rows/s) = 5 times" in out
    document = fleet.run("explain", "big", "--capacity", "-o", "json").json
    assert document["usage"] == fleet.run("show", "big", "-o", "json").json["usage"]
    assert document["usage"]["memory"]["could_run_with"] == 896 * MIB


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"row_ms": 8.0}, "at 2 times the input it would fall behind"),
        (
            {"row_ms": 4.8},
            "at 2 times the input a batch would take 25 s of 10 s: later than its trigger, but it would keep up",
        ),
        ({"row_ms": None, "fixed_ms": None}, "a batch would take at most 6 s of 10 s"),
        ({"row_ms": None, "fixed_ms": None}, "up to 3.3 times the input at least"),
        ({"trigger_s": None}, "its trigger is not known, or has no interval"),
        ({"batches": 2}, "only 2 batches with rows were measured"),
    ],
)
def test_what_is_said_of_more_input(fleet: Terminal, changes: dict[str, Any], said: str) -> None:
    usage = AttemptUsage(resources=resources(700 * MIB), queries=(query(**changes),))
    fleet.bench.run("big", usage=usage)
    assert said in fleet.run("explain", "big", "--capacity").out


def test_what_was_measured_for_a_moment_is_not_to_go_by(fleet: Terminal) -> None:
    early = replace(resources(700 * MIB), observed_s=60.0)
    fleet.bench.run("big", usage=AttemptUsage(resources=early))
    assert "measured for 1m only: wait for 10m at least" in fleet.run("explain", "big", "--capacity").out


def test_a_heap_that_lets_the_jvm_take_more_is_named(fleet: Terminal) -> None:
    conf = "conf: {spark.driver.memory: 3g}\nresources: {memory: 4g}"
    assert fleet.run("submit", fleet.spec("heap", conf)).code == 0
    fleet.bench.run("heap", usage=AttemptUsage(resources=resources(1400 * MIB)))
    memory = fleet.run("show", "heap", "-o", "json").json["usage"]["memory"]
    assert (memory["heap"], memory["could_run_with"]) == (3 * GIB, 1792 * MIB)
    assert 450 * MIB <= memory["heap_fitting"] <= 1792 * MIB - 320 * MIB
    assert "lower spark.driver.memory to" in fleet.run("explain", "heap", "--capacity").out


def test_what_an_attempt_took_is_known_when_it_has_ended(fleet: Terminal) -> None:
    fleet.bench.exit("big", Cause.OUT_OF_MEMORY, usage=USAGE)
    usage = fleet.run("show", "big", "-o", "json").json["usage"]
    assert (usage["attempt"], usage["alive"], usage["memory"]["peak"]) == (1, False, 1450 * MIB)
    assert "which has ended: this is what it took" in fleet.run("explain", "big", "--capacity").out
    assert "1.4 GiB of 1.0 GiB of memory at its peak" in fleet.run("show", "big").out
    assert "big" not in names(fleet)


def test_the_history_says_what_each_attempt_took_at_most(fleet: Terminal) -> None:
    entry = HistoryEntry(at=AT, event="out_of_memory", attempt=1, detail="the heap", memory_max=1450 * MIB)
    fleet.bench.set_own("big", OwnState.EXITED, cause=Cause.OUT_OF_MEMORY, history=(entry,))
    (submission,) = fleet.run("history", "big", "-o", "json").json["uids"]
    took = [each.get("memory_max") for each in submission["history"]]
    assert [size for size in took if size] == [1450 * MIB]
    assert "the heap (it took 1.4 GiB of memory at most)" in fleet.run("history", "big").out


def test_what_another_submission_took_is_not_shown(fleet: Terminal) -> None:
    own = fleet.bench.own("big")
    fleet.bench.put(fleet.bench.layout.own("big"), replace(own, uid="other-uid"))
    assert fleet.run("show", "big", "-o", "json").json["usage"] is None


def test_show_has_a_line(fleet: Terminal) -> None:
    out = fleet.run("show", "big").out
    assert "700.0 MiB of 1.0 GiB of memory at its peak, 350.0 MiB now, 0.50 processors busy" in out
    assert "95 % of the batches below 3 s, 30% of their trigger" in out


def test_what_can_not_be_answered_is_said(fleet: Terminal) -> None:
    assert "nothing was measured of it yet" in fleet.run("explain", "unmeasured", "--capacity").out
    assert fleet.run("explain", "--capacity").code == 2
    assert fleet.run("explain", "nobody", "--capacity").code == 3
    fleet.bench.run("big", progress=Progress(query="q"))
    assert fleet.run("top").code == 0


def test_nothing_was_ever_submitted(terminal: Terminal) -> None:
    assert terminal.run("top", "-o", "json").json == {"jobs": [], "hosts": []}
