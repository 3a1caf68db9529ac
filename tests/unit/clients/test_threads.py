"""Threads are started in three ways, by whom the tables here name; how each way stops and tells an unexpected error."""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import supervisor
from supervisor.clients.threads import BackgroundThread, Pool, TurnLoop, run_in_thread
from tests.waiting import wait_until

PACKAGE = Path(supervisor.__file__).parent
WAYS = {"BackgroundThread", "Pool", "TurnLoop", "run_in_thread"}
RAW = {
    "Thread",
    "Timer",
    "ThreadPoolExecutor",
    "ProcessPoolExecutor",
    "ThreadPool",
    "ThreadingHTTPServer",
    "ThreadingMixIn",
    "start_new_thread",
    "to_thread",
    "run_in_executor",
}

STARTED = {
    "act/carry_out.py": ({"Pool"}, "actions of a pass: a slow one delays no other job's"),
    "api/bounded_writes.py": ({"Pool"}, "bounds what requests of the API write at once"),
    "api/shared_reads.py": ({"Pool"}, "bounds what requests of the API read at once"),
    "checkpoint/inspect.py": ({"Pool"}, "listings and reads of a checkpoint, for one look"),
    "savepoints/create.py": ({"Pool"}, "copies of a savepoint's files"),
    "cli/completion.py": ({"BackgroundThread"}, "a TAB waits for 0.8 s, whatever hangs"),
    "cli/doctor/clusters.py": ({"run_in_thread"}, "asks all clusters at once; each answer has its time"),
    "cli/doctor/receivers.py": (
        {"run_in_thread"},
        "asks all receivers at once; each answer has its time",
    ),
    "cli/doctor/examine.py": ({"run_in_thread"}, "each area has a deadline, whatever hangs"),
    "operations/submit.py": ({"Pool"}, "uploads of many jobs"),
    "operations/apply.py": ({"Pool"}, "uploads of many updates"),
    "api/events.py": ({"BackgroundThread"}, "watches the cluster while clients listen"),
    "clients/binding.py": ({"run_in_thread"}, "the system's resolver has no time-out"),
    "clients/web.py": ({"run_in_thread"}, "an answer that drips in has a time-out as a whole"),
    "clients/listening.py": ({"run_in_thread"}, "the system's resolver has no time-out"),
    "clients/store/deadline.py": (
        {"BackgroundThread"},
        "each store operation has a deadline, whatever hangs",
    ),
    "clients/task_child.py": ({"BackgroundThread"}, "ends the child with its parent"),
    "clients/threads.py": ({"BackgroundThread"}, "run_in_thread and TurnLoop are made of it"),
    "clients/zookeeper_probe.py": ({"Pool"}, "servers are asked side by side"),
    "coord/contender.py": ({"BackgroundThread"}, "the loop of the election"),
    "coord/epoch_recorder.py": ({"BackgroundThread"}, "a takeover does not wait for the store"),
    "daemon/host/agent.py": ({"Pool"}, "starts: one that hangs delays no other job's"),
    "daemon/host/preparer.py": ({"Pool"}, "prepared drivers: no start of an attempt waits for one"),
    "daemon/host/cluster_news.py": ({"run_in_thread"}, "asks clusters, whose answer nobody waits for"),
    "daemon/host/preflight.py": ({"run_in_thread"}, "looks beside the preparation of a start"),
    "daemon/host/cluster_leftovers.py": ({"TurnLoop"}, "asks clusters: nobody waits for it"),
    "daemon/host/archive_ahead.py": ({"BackgroundThread"}, "trains while no driver is starting"),
    "daemon/host/fence_ahead.py": ({"BackgroundThread"}, "compiles while nobody waits for it"),
    "daemon/host/log_uploads.py": ({"TurnLoop"}, "waits for a store and a disk: nobody waits for it"),
    "daemon/host/housekeeping.py": ({"BackgroundThread"}, "a loop that may hang on a disk"),
    "daemon/process/bounded_http.py": ({"BackgroundThread"}, "the loop that takes connections"),
    "daemon/leader/left_behind.py": ({"run_in_thread"}, "looks at checkpoints: no pass waits for one"),
    "daemon/leader/leader.py": ({"BackgroundThread"}, "the loops of a term"),
    "daemon/leader/scheduled_savepoints.py": (
        {"Pool"},
        "copies by schedule, of which each has a child process",
    ),
    "daemon/leader/way_back.py": ({"Pool"}, "savepoints of updates and their copies: no pass waits for one"),
    "daemon/process/session_closer.py": ({"BackgroundThread"}, "sessions are closed side by side"),
    "daemon/process/supervisor.py": ({"BackgroundThread"}, "agent, hosting, guardian"),
    "daemon/loops/watchdog.py": ({"BackgroundThread"}, "its loop, and its last report, which may hang"),
    "operations/accept_registry.py": ({"Pool"}, "specs are read side by side"),
    "operations/cluster_status.py": ({"Pool"}, "status asks the store beside ZooKeeper"),
    "registry/audit.py": ({"Pool"}, "lines are read side by side"),
}
"""Who starts threads by ``clients.threads``, in which ways, and for what."""

LEFT = {
    "clients/threads.py": ({"Thread", "ThreadPoolExecutor"}, "is the three ways"),
    "clients/kazoo_connection.py": ({"Thread"}, "a shim loads it; kazoo wants the thread itself"),
    "daemon/process/bounded_http.py": (
        {"ThreadingHTTPServer"},
        "a thread for each connection, bounded by its slots",
    ),
    "shim/link.py": ({"Thread"}, "a shim loads nothing that it can do without"),
    "shim/diagnosis.py": ({"Thread"}, "a shim loads nothing that it can do without"),
    "shim/directory_sampler.py": ({"Thread"}, "a shim loads nothing that it can do without"),
    "shim/usage_sampler.py": ({"Thread"}, "a shim loads nothing that it can do without"),
    "shim/output.py": ({"Thread"}, "a shim loads nothing that it can do without"),
    "spark/object_server.py": (
        {"Thread", "ThreadingHTTPServer"},
        "runs in a driver, on the standard library alone",
    ),
    "spark/bootstrap.py": ({"start_new_thread"}, "an application must not see it, nor wait for it"),
    "spark/query_gate.py": ({"start_new_thread"}, "an application must not see it, nor wait for it"),
    "spark/orders.py": ({"start_new_thread"}, "runs in the driver, on the standard library alone"),
}
"""Who starts threads by other means, and why."""


def named(path: Path) -> set[str]:
    """What a module calls or derives a class from: the last part of each name."""
    used: list[ast.expr] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            used.append(node.func)
        elif isinstance(node, ast.ClassDef):
            used += node.bases
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in used
        if isinstance(node, ast.Name | ast.Attribute)
    }


@pytest.mark.parametrize(("names", "table"), [(WAYS, STARTED), (RAW, LEFT)], ids=["started", "left"])
def test_who_starts_threads_is_listed(names: set[str], table: dict[str, tuple[set[str], str]]) -> None:
    found = {path.relative_to(PACKAGE).as_posix(): named(path) & names for path in PACKAGE.rglob("*.py")}
    assert {name: ways for name, ways in found.items() if ways} == {
        name: ways for name, (ways, _why) in table.items()
    }


# -- a background thread ------------------------------------------------------------------------------------------------


def waiting(over: threading.Event) -> Callable[[], object]:
    return lambda: over.wait(30)


def test_a_background_thread_is_asked_to_end_and_awaited() -> None:
    over = threading.Event()
    thread = BackgroundThread("loop", waiting(over), ask=over.set)
    assert not thread.is_alive()
    assert thread.start() is thread and thread.is_alive()
    assert [each.daemon for each in threading.enumerate() if each.name == "loop"] == [True]
    assert not thread.join(0.01)
    assert thread.stop(10) and not thread.is_alive()


def test_one_that_does_not_end_is_waited_for_as_long_as_was_said() -> None:
    over = threading.Event()
    thread = BackgroundThread("loop", waiting(over), daemon=False).start()
    assert [each.daemon for each in threading.enumerate() if each.name == "loop"] == [False]
    assert not thread.stop() and not thread.stop(0.01)
    over.set()
    assert thread.join(10)


def test_one_that_was_never_started_has_ended() -> None:
    asked: list[bool] = []
    assert BackgroundThread("loop", lambda: None, ask=lambda: asked.append(True)).stop(10)
    assert asked == [True]


@pytest.mark.parametrize("error", [KeyError("planted"), SystemExit(3)])
def test_what_ends_a_loop_is_told_once(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    unhandled: list[object] = []
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    reported: list[tuple[str, BaseException, str]] = []

    def run() -> None:
        raise error

    def failed(name: str, failure: BaseException) -> None:
        reported.append((name, failure, threading.current_thread().name))

    assert BackgroundThread("loop", run, failed=failed).start().join(10)
    assert (reported, unhandled) == ([("loop", error, "loop")], [])


def test_what_nobody_is_told_of_goes_to_the_hook_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    unhandled: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    assert BackgroundThread("loop", lambda: 1 / 0).start().join(10)
    (args,) = unhandled
    assert args.exc_type is ZeroDivisionError and args.thread is not None and args.thread.name == "loop"


# -- a pool -------------------------------------------------------------------------------------------------------------


def test_a_pool_is_bounded_and_its_threads_are_named() -> None:
    barrier, names = threading.Barrier(2), list[str]()

    def work(_number: int) -> None:
        barrier.wait(30)
        names.append(threading.current_thread().name)

    with Pool(2, "some") as pool:
        list(pool.map(work, range(8)))
    assert set(names) == {"some_0", "some_1"}


def test_a_closed_pool_drops_what_has_not_begun_and_awaits_what_has() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        may_end.wait(30)
        return "done"

    pool = Pool(1, "some")
    first, second = pool.submit(work), pool.submit(work)
    assert begun.wait(30)
    closing = run_in_thread("closing", pool.close)
    wait_until(second.cancelled, 10, "what has not begun to be dropped")
    assert not closing.done()
    may_end.set()
    assert closing.result(10) is None and first.result(0) == "done"
    pool.close()
    with pytest.raises(RuntimeError):
        pool.submit(work)


def test_an_error_in_the_block_of_a_pool_drops_what_has_not_begun() -> None:
    begun, may_end = threading.Event(), threading.Event()
    with pytest.raises(KeyError), Pool(1, "some") as pool:
        pool.submit(lambda: (begun.set(), may_end.wait(30)))
        second = pool.submit(lambda: None)
        assert begun.wait(30)
        threading.Timer(0.05, may_end.set).start()
        raise KeyError
    assert second.cancelled()


# -- work in a thread of its own ----------------------------------------------------------------------------------------


def test_the_outcome_is_in_the_future() -> None:
    assert run_in_thread("some", lambda: threading.current_thread().name).result(10) == "some"
    error = run_in_thread("some", lambda: 1 / 0).exception(10)
    assert isinstance(error, ZeroDivisionError)


def test_nobody_has_to_wait_for_it() -> None:
    over = threading.Event()
    future = run_in_thread("some", waiting(over))
    assert [each.daemon for each in threading.enumerate() if each.name == "some"] == [True]
    with pytest.raises(TimeoutError):
        future.result(0.01)
    over.set()
    assert future.result(10) is True


@pytest.mark.parametrize(
    "start", [lambda: run_in_thread("some", list), lambda: BackgroundThread("some", list).start()]
)
def test_without_room_for_a_thread_it_is_told_at_once(
    start: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(RuntimeError):
        start()


def test_a_turn_comes_after_its_time_or_when_it_is_woken() -> None:
    turns: list[float | None] = [0.0, None, None]
    taken: list[int] = []

    def turn() -> float | None:
        taken.append(len(taken))
        return turns[len(taken) - 1]

    loop = TurnLoop("turns", turn)
    loop.start()
    wait_until(lambda: len(taken) == 2)
    assert not loop.join(0.2) and len(taken) == 2, "nobody has woken it"
    loop.wake()
    wait_until(lambda: len(taken) == 3)
    assert loop.stop(10.0) and loop.is_stopping and len(taken) == 3


def test_a_loop_that_is_stopped_before_its_first_turn_takes_none() -> None:
    taken: list[None] = []
    loop = TurnLoop("turns", lambda: taken.append(None))
    loop.stop()
    loop.start()
    assert loop.join(10.0) and not taken
