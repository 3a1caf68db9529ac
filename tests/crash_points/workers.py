"""Worker processes, each with a fleet of its own; they take batches of runs, and tell what came of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

from tests.crash_points.crash_fleet import CrashFleet
from tests.crash_points.run import RunOutcome, Task, run_batch


class Fleets:
    """Fleets one after the other for one worker: a new one when something went wrong on the last."""

    def __init__(self, hosts: str, directory: Path, mark: str, mode: str) -> None:
        self._brief = "pause" in mode
        self._hosts, self._directory, self._mark = hosts, directory, mark
        self._made = self._names = 0
        self._fleet: CrashFleet | None = None

    def name(self) -> str:
        self._names += 1
        return f"{self._mark}-{os.getpid()}-{self._names}"

    def fleet(self) -> CrashFleet:
        if self._fleet is None:
            self._made += 1
            mark = f"{self._mark}-{self._made}"
            self._fleet = CrashFleet(
                self._hosts, f"/crash-{os.getpid()}-{mark}", self._directory / mark, brief=self._brief
            )
            self._fleet.__enter__()
        return self._fleet

    def throw_away(self) -> list[str]:
        """Ends it; what was left that belongs to nobody."""
        fleet, self._fleet = self._fleet, None
        if fleet is None:
            return []
        found = fleet.strangers()
        fleet.stop()
        return found


def work(hosts: str, directory: Path, mark: str, mode: str, tasks: Any, results: Any) -> None:
    """A worker process. Told to end, it ends its fleet first."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(1))
    fleets = Fleets(hosts, directory, mark, mode)
    try:
        while (batch := tasks.get()) is not None:
            try:
                outcomes = run_batch(fleets.fleet(), batch, fleets.name)
            except Exception:
                outcomes = [
                    RunOutcome(task, "", wrong=[f"the run itself failed: {traceback.format_exc()}"])
                    for task in batch
                ]
            results.put(outcomes)
            if any(outcome.wrong for outcome in outcomes):
                fleets.throw_away()
    finally:
        results.put(
            [*(RunOutcome(Task("", "", ()), "", wrong=[f"nobody's: {each}"]) for each in fleets.throw_away())]
        )
        results.put(None)


def run_all(
    hosts: str, directory: Path, todo: list[list[Task]], fleets: int, seconds: float
) -> Iterator[RunOutcome]:
    """The outcomes as they come; no batch is begun after ``seconds``."""
    context = multiprocessing.get_context("spawn")
    tasks, results = context.Queue(), context.Queue()
    workers = [
        context.Process(
            target=work,
            args=(hosts, directory, f"w{i}", todo[0][0].mode if todo else "", tasks, results),
            daemon=True,
        )
        for i in range(fleets)
    ]
    for worker in workers:
        worker.start()
    until_at_s = time.monotonic() + seconds
    waiting, under_way, living = list(todo), 0, len(workers)
    reported = False
    while living:
        while waiting and under_way < fleets and time.monotonic() < until_at_s:
            tasks.put(waiting.pop(0))
            under_way += 1
        if not under_way and not reported:
            reported = True
            for _ in workers:
                tasks.put(None)
        try:
            outcomes = results.get(timeout=5)
        except Empty:
            assert all(worker.is_alive() for worker in workers[:living]) or living < len(workers), (
                "a worker died"
            )
            continue
        if outcomes is None:
            living -= 1
            continue
        if outcomes and outcomes[0].task.points or not outcomes:
            under_way -= bool(outcomes)
        yield from outcomes
    for worker in workers:
        worker.join()
