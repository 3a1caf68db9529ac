"""The driver's half of the orders, with queries that are made up: real ones are in tests/e2e/test_batch_boundary.py."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.spark import bootstrap, orders
from tests.waiting import wait_until

LOOP = ["o.a.s.sql.execution.streaming.runtime.ProcessingTimeExecutor.execute", "java.lang.Thread.run"]
ENGINE = "o.a.s.sql.execution.streaming.runtime.MicroBatchExecution."
LOCK = ["java.util.concurrent.locks.LockSupport.park", "java.util.concurrent.locks.ReentrantLock.lock"]
STACKS = {
    "sink": [
        "java.lang.Object.wait",
        "o.a.s.sql.execution.SQLExecution$.withNewExecutionId",
        ENGINE + "runBatch",
    ],
    "planning": [
        "o.a.s.sql.catalyst.trees.TreeNode.transform",
        ENGINE + "runBatch",
        ENGINE + "executeOneBatch",
    ],
    "an older Spark plans": [ENGINE + "$anonfun$runBatch$9", ENGINE + "$anonfun$runActivatedStream$1"],
    "commits": [*LOCK, ENGINE + "runBatch", ENGINE + "executeOneBatch"],
    "lists files": ["o.a.s.sql.execution.SQLExecution$.withSQLConfPropagated", ENGINE + "constructNextBatch"],
    "begins the next": [*LOCK, ENGINE + "constructNextBatch", ENGINE + "executeOneBatch"],
    "no data": ["java.lang.Thread.sleep0", "java.lang.Thread.sleep", ENGINE + "executeOneBatch"],
    "a sink that sleeps": ["java.lang.Thread.sleep", "app.Sink.addBatch", ENGINE + "runBatch"],
    "waits for its trigger": ["java.lang.Object.wait", "o.a.s.util.ManualClock.waitTillTime"],
}


@pytest.mark.parametrize(
    ("stack", "found"),
    [
        ("sink", "sink"),
        ("planning", "trigger"),
        ("an older Spark plans", "trigger"),
        ("commits", "lock"),
        ("lists files", "trigger"),
        ("begins the next", "lock"),
        ("no data", "between"),
        ("a sink that sleeps", "trigger"),
        ("waits for its trigger", "between"),
    ],
)
def test_where_the_engine_is(stack: str, found: str) -> None:
    methods = [*STACKS[stack], *LOOP]
    known = (
        "sink"
        if orders.in_sink(methods)
        else "between"
        if not orders.in_trigger(methods)
        else "lock"
        if orders.waits_for_lock(methods)
        else "trigger"
    )
    assert known == found


class Query:
    """A query whose engine is not known: the listener and Spark's public calls have to do."""

    def __init__(self, run: str, *, in_batch: bool) -> None:
        self.runId, self.id, self.name = run, f"id-{run}", f"name-{run}"
        self.isActive = True
        self.planned, self.committed = 7, 7
        self._jsq = SimpleNamespace(streamingQuery=self.execution)
        self.lastProgress: Any = {"durationMs": {"triggerExecution": 100}}
        self.error: Any = None
        self.status = {
            "isTriggerActive": in_batch,
            "isDataAvailable": True,
            "message": "Processing new data" if in_batch else orders.NO_DATA,
        }

    def execution(self) -> Any:
        def log_of(batch: int) -> Any:
            newest = SimpleNamespace(isDefined=lambda: batch >= 0, get=lambda: batch)
            return SimpleNamespace(getLatestBatchId=lambda: newest)

        return SimpleNamespace(
            offsetLog=lambda: log_of(self.planned), commitLog=lambda: log_of(self.committed)
        )

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> Any:
        return self.error


class Bench:
    """Orders over made-up queries, and what was reported."""

    def __init__(self, *queries: Query) -> None:
        self.queries = queries
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.tasks = self.done = 0
        tracker = SimpleNamespace(
            getJobIdsForGroup=lambda run: [1],
            getActiveJobsIds=lambda: [1],
            getActiveStageIds=lambda: [2],
            getJobInfo=lambda job: SimpleNamespace(stageIds=(2,)),
            getStageInfo=lambda stage: SimpleNamespace(
                stageId=2, numActiveTasks=self.tasks, numCompletedTasks=self.done, numFailedTasks=0
            ),
        )
        session = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker), streams=self)
        self.intervals: dict[str, float] = {}
        self.orders = orders.Orders(
            lambda event, **more: self.sent.append((event, more)), [session], self.intervals
        )

    @property
    def active(self) -> list[Query]:
        return [query for query in self.queries if query.isActive]

    def events(self) -> list[str]:
        return [event for event, _ in self.sent]


def test_without_a_query_nothing_is_waited_for() -> None:
    bench = Bench()
    bench.orders.stop(1.0)
    assert bench.sent == [("heard", {}), ("stopping", {"queries": 0})]


def test_an_unknown_engine_is_stopped_after_the_next_commit_and_an_idle_one_at_once() -> None:
    idle, busy = Query("idle", in_batch=False), Query("busy", in_batch=True)
    bench = Bench(idle, busy)
    bench.orders.committed["busy"] = 5
    thread = threading.Thread(target=bench.orders.stop, args=(60.0,), daemon=True)
    thread.start()
    wait_until(lambda: not idle.isActive, 30, "the idle one to stop")
    assert busy.isActive
    bench.orders.committed["busy"] += 1
    thread.join(30)
    assert not busy.isActive and bench.events() == ["heard", "stopping", "stopped"]


@pytest.mark.parametrize("known", ["cut", "cut in its first batch", "not known"])
def test_a_batch_that_may_have_been_cut_is_no_boundary(known: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Spark ends a query without an error whose batch the stop has interrupted: a worker of ``foreachBatch`` that hangs."""
    good, cut = Query("good", in_batch=False), Query("cut", in_batch=False)
    cut.planned, cut.committed = (0, -1) if known == "cut in its first batch" else (8, 7)
    if known == "not known":
        cut._jsq = SimpleNamespace()
    bench = Bench(good, cut)
    bench.orders.stop(60.0)
    assert bench.events() == ["heard", "stopping"]
    said = capfd.readouterr().err
    assert "1 of 2 queries may have been cut" in said and "at a batch boundary" not in said


def test_a_query_that_waits_for_its_next_batch_is_stopped_after_that_batch() -> None:
    query = Query("soon", in_batch=False)
    bench = Bench(query)
    bench.intervals[query.id] = orders.NEXT_BATCH_MAX_S
    stopping = threading.Thread(target=bench.orders.stop, args=(60.0,), daemon=True)
    stopping.start()
    wait_until(lambda: "stopping" in bench.events(), 30, "the order to be taken")
    query.status = {**query.status, "isTriggerActive": True}  # its batch begins
    time.sleep(orders.NEXT_BATCH_MAX_S + 0.5)
    assert query.isActive  # it is in its batch
    bench.orders.committed["soon"] = 1
    stopping.join(30)
    assert not query.isActive and bench.events() == ["heard", "stopping", "stopped"]


@pytest.mark.parametrize(
    "case",
    [
        "no batch comes",
        "the next batch is far",
        "no data",
        "hurry",
        "no interval",
        "long batches",
        "no batch so far",
    ],
)
def test_a_query_whose_next_batch_is_not_worth_a_wait_is_stopped_between_two(case: str) -> None:
    query = Query("late", in_batch=False)
    bench = Bench(query)
    if case != "no interval":
        far_s = 10 * orders.NEXT_BATCH_MAX_S
        bench.intervals[query.id] = far_s if case == "the next batch is far" else 0.2
    if case == "no data":
        query.status = {**query.status, "isDataAvailable": False}
    if case == "long batches":
        query.lastProgress = {"durationMs": {"triggerExecution": 30_000}}
    if case == "no batch so far":
        query.lastProgress = None
    begun_at_s = time.monotonic()
    bench.orders.stop(0.5 if case == "hurry" else 60.0)  # returns, though no batch begins
    if case in ("the next batch is far", "long batches"):
        assert time.monotonic() - begun_at_s < 10
    assert not query.isActive and bench.events() == ["heard", "stopping", "stopped"]


@pytest.mark.parametrize(
    ("interval_s", "newest_s", "within_s", "room"),
    [(1.0, 0.4, 3.3, True), (1.0, 0.6, 3.3, False), (2.0, 0.1, 3.3, False), (1.0, 30.0, 60.0, False)],
)
def test_a_stop_has_room_for_a_short_batch_that_is_due_soon(
    interval_s: float, newest_s: float, within_s: float, room: bool
) -> None:
    assert orders.has_room(interval_s, newest_s, within_s) is room


def test_no_query_is_started_any_more() -> None:
    bench = Bench()
    assert bench.orders.start(lambda: 5) == 5
    bench.orders.stop(1.0)
    with pytest.raises(SystemExit):
        bench.orders.start(lambda: 5)


def test_a_look_tells_work_from_silence() -> None:
    bench = Bench(Query("idle", in_batch=False), Query("busy", in_batch=True))

    def probed() -> list[str]:
        bench.sent.clear()
        bench.orders.probe()
        return [f"{event} {more['query']}" for event, more in bench.sent]

    assert probed() == ["idle name-idle"], "nothing to compare with, no task"
    assert probed() == ["idle name-idle"], "nothing has moved"
    bench.done = 1
    assert probed() == ["idle name-idle", "working name-busy"]
    assert probed() == ["idle name-idle"]
    bench.tasks = 1
    assert probed() == probed() == ["idle name-idle", "working name-busy"], "tasks run"


def test_a_probe_asks_the_session_of_the_query_and_not_one_that_was_stopped() -> None:
    """An application loads with a first session, stops it, and streams in a second one."""
    bench = Bench(Query("busy", in_batch=True))
    bench.tasks = 1
    stopped = SimpleNamespace(_sc=SimpleNamespace(_jsc=None))  # neither streams nor a tracker
    bench.orders._sessions = [stopped, *bench.orders._sessions]
    bench.orders.probe()
    assert bench.sent == [("working", {"query": "name-busy", "id": "id-busy"})]
    assert [query.id for query in bench.orders.active()] == ["id-busy"], "and a stop finds it"


def test_what_a_probe_asks_in_vain_is_not_known_and_never_no_task() -> None:
    bench = Bench(Query("odd", in_batch=True), Query("busy", in_batch=True))
    bench.tasks = 1
    bench.queries[0].status = {}
    bench.orders.probe()
    assert bench.sent == [
        ("unknown", {"query": "name-odd", "id": "id-odd", "why": "KeyError: 'isTriggerActive'"}),
        ("working", {"query": "name-busy", "id": "id-busy"}),
    ]
    bench.sent.clear()
    bench.orders._sessions = [SimpleNamespace()]
    bench.orders.probe()
    assert bench.events() == ["unknown"] and "id" not in bench.sent[0][1], "of all queries"


def test_a_jvm_that_does_not_answer_is_no_answer() -> None:
    """It hangs, or is gone: that is what the silence of a query means."""

    class Gone:
        @property
        def active(self) -> list[Any]:
            raise ConnectionRefusedError

    bench = Bench()
    bench.orders._sessions = [SimpleNamespace(streams=Gone())]
    bench.orders.probe()
    assert bench.sent == []


def batch(number: int, at: str) -> SimpleNamespace:
    return SimpleNamespace(runId="busy", id="id-busy", batchId=number, timestamp=at)


def test_a_probe_tells_the_newest_batch_and_the_end_of_a_query_before_a_slow_listener_does() -> None:
    """Spark calls listeners one after the other: one of the application's that takes a minute delays ours by minutes."""
    query = Query("busy", in_batch=True)
    bench = Bench(query)
    told: list[int] = []
    bench.orders.send_progress = lambda progress: told.append(progress.batchId)
    bench.orders.send_end = lambda query: bench.orders._send("terminated", id=query.id)
    bench.orders.note_start(query)
    assert bench.orders.is_news(batch(1, "2026-11-28T00:00:01.000Z")), "by the listener"
    query.lastProgress = batch(7, "2026-11-28T00:00:07.000Z")
    bench.orders.probe()
    bench.orders.probe()
    assert told == [7]
    assert not bench.orders.is_news(batch(2, "2026-11-28T00:00:02.000Z")), "the listener comes late"
    assert bench.orders.is_news(batch(8, "2026-11-28T00:00:08.000Z"))
    query.isActive = False
    bench.orders.probe()
    bench.orders.probe()
    assert [event for event in bench.events() if event == "terminated"] == ["terminated"]


class Epochs(Query):
    """A continuous query: no listener hears of it, and its commit log is all that it shows."""

    def __init__(self) -> None:
        super().__init__("cont", in_batch=False)
        self.lastProgress, self.epoch = None, None
        self.status = {"isTriggerActive": False, "isDataAvailable": False, "message": "Running"}
        newest = SimpleNamespace(isEmpty=lambda: self.epoch is None, get=lambda: self.epoch)
        name = "org.apache.spark.sql.execution.streaming.continuous.ContinuousExecution"
        engine = SimpleNamespace(
            getClass=lambda: SimpleNamespace(getName=lambda: name),
            commitLog=lambda: SimpleNamespace(getLatestBatchId=lambda: newest),
            resolvedCheckpointRoot=lambda: "file:/ck/cont",
        )
        self._jsq = SimpleNamespace(streamingQuery=lambda: engine)


def test_the_epochs_of_a_continuous_query_are_its_progress() -> None:
    query = Epochs()
    bench = Bench(query)
    bench.orders.probe()
    query.epoch = 40  # type: ignore[assignment]
    bench.orders.probe()
    bench.orders.probe()
    assert bench.events() == ["progress"], "an epoch that is there again is none"
    place = {"checkpoint": "file:/ck/cont"}
    assert bench.sent == [("progress", {"batch_id": 40, "query": "name-cont", "id": "id-cont", **place})]
    later = Bench(query)
    later.orders.probe()
    assert later.sent == [], "what an attempt before has committed is no life of this one"


def test_the_error_of_a_query_that_no_listener_has_told_of_is_that_of_the_listener() -> None:
    query = Query("x", in_batch=False)
    query.error = ValueError("cannot reach warehouse table orders")
    told = bootstrap.end_of(query)
    assert told == {
        "query": "name-x",
        "id": "id-x",
        "error": "cannot reach warehouse table orders",
        "kind": "",
    }
    query.error = None
    assert bootstrap.end_of(query)["error"] is None


@pytest.mark.parametrize(
    ("known", "dynamic", "stages", "count"),
    [
        (1, False, [], 0),
        (3, False, [], 2),
        (0, False, [], 0),
        (1, True, [], 1),  # idle: it has given its last one up, and wants none
        (1, True, [7], 0),
        (2, True, [], 1),
    ],
)
def test_executors_are_counted_without_the_driver(
    known: int, dynamic: bool, stages: list[int], count: int
) -> None:
    sent: list[tuple[str, dict[str, Any]]] = []
    stopped = SimpleNamespace(_sc=SimpleNamespace(_jsc=None))
    sessions = [SimpleNamespace(), stopped, SimpleNamespace(_sc=context(known, dynamic, stages))]
    orders.Orders(lambda event, **more: sent.append((event, more)), sessions).count_executors()
    assert sent == [("executors", {"count": count, "id": "app-1"})]


def test_a_local_driver_waits_for_no_executor() -> None:
    """The application's code has set the master ``local[1]``, its spec a cluster's."""
    sent: list[tuple[str, dict[str, Any]]] = []
    sessions = [SimpleNamespace(_sc=context(1, False, [7], local=True))]
    orders.Orders(lambda event, **more: sent.append((event, more)), sessions).count_executors()
    assert sent == [("executors", {"count": 1, "id": "app-1"})]


def context(known: int, dynamic: bool, stages: list[int], local: bool = False) -> SimpleNamespace:
    """Returns a SparkContext that knows of so many, the driver among them. It is asked for its conf only if it has none."""

    def conf() -> SimpleNamespace:
        assert known < 2, "that costs a call"
        return SimpleNamespace(
            getBoolean=lambda key, other: dynamic if key == "spark.dynamicAllocation.enabled" else other
        )

    infos = SimpleNamespace(getExecutorInfos=lambda: [None] * known)
    of_jvm = SimpleNamespace(statusTracker=lambda: infos, conf=conf, isLocal=lambda: local)
    return SimpleNamespace(
        _jsc=SimpleNamespace(sc=lambda: of_jvm),
        statusTracker=lambda: SimpleNamespace(getActiveStageIds=lambda: stages),
        applicationId="app-1",
    )


def test_a_driver_without_a_context_says_nothing() -> None:
    """Its session was stopped, or it is one of Spark Connect."""
    sent: list[str] = []
    sessions = [SimpleNamespace(), SimpleNamespace(_sc=SimpleNamespace(_jsc=None))]
    orders.Orders(lambda event, **more: sent.append(event), sessions).count_executors()
    assert sent == []


def test_a_count_that_is_ordered_is_reported_and_one_that_fails_is_dropped(tmp_path: Path) -> None:
    sent: list[str] = []
    broken = orders.Orders(
        lambda event, **more: sent.append(event), [SimpleNamespace(_sc=SimpleNamespace(_jsc="broken"))]
    )
    broken.listen(str(tmp_path / "orders"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for order in ("executors", "stop"):
            sender.sendto(json.dumps({"order": order, "within_s": 1}).encode(), str(tmp_path / "orders"))
        wait_until(lambda: len(sent) == 2, 30, "the answer")
    assert sent == ["heard", "stopping"]


@pytest.mark.parametrize("error", [None, "no"])
def test_the_end_of_a_query_that_the_shim_could_not_hear_of_is_said_at_the_next_look(
    error: str | None,
) -> None:
    """Else it counts as a query that hangs, and its driver is restarted though all the others are well."""
    bench = Bench(Query("good", in_batch=False))
    reports = SimpleNamespace(send=lambda event, **more: False)
    listener = bootstrap.listener(reports, bench.orders)
    ended = SimpleNamespace(
        id="id-x", runId="x", exception=error, errorClassOnException="E" if error else None
    )
    listener.onQueryTerminated(ended)
    bench.orders.probe()
    assert bench.events() == ["terminated", "idle"]
    assert bench.sent[0][1]["id"] == "id-x" and bench.sent[0][1]["error"] == error
    bench.orders.probe()
    assert bench.events() == ["terminated", "idle", "idle"], "once"
    listener.onQueryTerminated(ended)
    bench.queries = (Query("x", in_batch=False),)
    bench.orders.probe()
    assert bench.events()[3:] == ["idle"], "it was started again"


def test_an_order_that_fails_is_no_error_of_the_application(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nonsense is passed over; where nothing can be asked of Spark the shim hears so, and that nothing is waited for."""
    sent: list[tuple[str, dict[str, Any]]] = []
    broken = orders.Orders(lambda event, **more: sent.append((event, more)), [SimpleNamespace()])
    broken.listen(str(tmp_path / "orders"))
    threads = threading.active_count()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for data in (
            b"\xff",
            b"{}",
            b'{"order": "look"}',
            json.dumps({"order": "stop", "within_s": 1}).encode(),
        ):
            sender.sendto(data, str(tmp_path / "orders"))
        wait_until(lambda: len(sent) == 3, 30, "the answers")
    assert [event for event, _ in sent] == ["unknown", "heard", "stopping"]
    assert sent[2][1] == {"queries": 0}
    assert threading.active_count() == threads
    assert "was not carried out" in capfd.readouterr().err


def test_children_of_the_application_do_not_hold_the_socket(tmp_path: Path) -> None:
    code = f"""
import os, sys
sys.path.insert(0, {str(Path(orders.__file__).parent)!r})
import orders
orders.Orders(print, []).listen({str(tmp_path / "orders")!r})
def count():
    found = 0
    for fd in os.listdir('/proc/self/fd'):
        try: found += 'socket' in os.readlink('/proc/self/fd/' + fd)
        except OSError: pass
    return found
assert count() == 1
pid = os.fork()
if pid == 0:
    os._exit(count())
assert os.waitpid(pid, 0)[1] == 0
"""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=bare, stdin=subprocess.DEVNULL)


def test_a_shim_of_another_user_may_send_orders(tmp_path: Path) -> None:
    """To send to a socket is to write to it; its directory says who gets there."""
    before = os.umask(0o077)
    try:
        orders.Orders(print, []).listen(str(tmp_path / "orders"))
    finally:
        os.umask(before)
    assert (tmp_path / "orders").stat().st_mode & 0o777 == 0o666
