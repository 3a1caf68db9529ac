"""``python -m tests.fence_race [--races 10] [--batches 40]``: the storage fence beside what Spark has, on a real S3 API (moto).

Three parts. **Races**: two real drivers on one ``s3a://`` checkpoint; the second joins while the first is at work, or both start
at once, or besides each waits in every batch until the other has been handed the same one (``--how``). Who survives, and how many
batches were handed to the sink by both? **Overlaps**: two writers of one entry, both of which looked before either wrote; how
many believe that they wrote it? **Times**: how long a micro-batch takes to write its two log entries, one driver alone.
The managers take turns, in the same two JVMs, so that the load of the machine falls on all of them alike.
A figure, not a test: it asserts nothing. What must hold is asserted by ``tests/e2e/test_fence.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import select
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from supervisor.clock import boottime_s
from supervisor.demo.death_guard import DeathGuard
from supervisor.spark.fence.build import host_jar
from supervisor.spark.fence.choice import MANAGER, OWNER_KEY, owner_of
from supervisor.spark.properties import render_properties
from supervisor.spark.toolchain import installed_spark_home, java_of, spark_version
from tests.testbed.hadoop_cloud import RECOMMENDED, hadoop_cloud_jar
from tests.testbed.moto import AWS_ENV, MotoServer
from tests.testbed.s3a_jars import s3a_jars
from tests.waiting import wait_until

MANAGERS: dict[str, str | None] = {"ours": MANAGER, "recommended": RECOMMENDED, "default": None}
WORKER = Path(__file__).parent / "testbed" / "racing_driver.py"
ANSWER_MAX_S = 120.0
RACE_MAX_S = 180.0
HOWS = ("joins", "together", "in-step")
AHEAD, TOGETHER, ON = 3, 8, 2
"""Batches that the first runs alone; that both run before they are said to live side by side; that a survivor runs on."""


class Server(Protocol):
    """An S3 server on loopback."""

    endpoint_url: str
    s3a: Mapping[str, str]


class Driver:
    """A ``racing_driver`` and what it is told. ``name``: in its owner mark. ``jars``: of S3A; None: the thin ones."""

    def __init__(self, name: str, directory: Path, moto: Server, heap: str, jars: Path | None = None) -> None:
        self.name = name
        home = installed_spark_home()
        assert home is not None
        version = spark_version(home) or ""
        built = host_jar(home, java_of(None, os.environ), version, directory, os.environ)
        assert built.jar is not None, built.why
        properties = directory / f"{name}.properties"
        properties.write_text(
            render_properties(
                {
                    "spark.master": "local[1]",
                    "spark.driver.memory": heap,
                    "spark.ui.enabled": "false",
                    "spark.log.level": "ERROR",
                    "spark.sql.shuffle.partitions": "1",
                    "spark.sql.streaming.numRecentProgressUpdates": "1000",
                    "spark.driver.extraClassPath": f"{jars or s3a_jars()}/*:{built.jar}:{hadoop_cloud_jar()}",
                    "spark.hadoop.fs.s3a.endpoint": moto.endpoint_url,
                    "spark.hadoop.fs.s3a.path.style.access": "true",
                    "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
                    "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
                    OWNER_KEY: owner_of("race", "u1", 1, name),
                    **moto.s3a,
                }
            )
        )
        env = {
            **os.environ,
            **AWS_ENV,
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": shlex.join(("--properties-file", str(properties), "pyspark-shell")),
        }
        self.log = directory / f"{name}.log"
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(WORKER)],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=directory,
                start_new_session=True,
            )
        self._guard = DeathGuard()
        self._guard.watch(self._process.pid)

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_MAX_S)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            raise AssertionError(
                f"driver {self.name} does not answer:\n{self.log.read_text(errors='replace')[-4000:]}"
            )
        found: dict[str, Any] = json.loads(line)
        return found

    def send(self, do: str, **more: Any) -> None:
        assert self._process.stdin is not None
        print(json.dumps({"do": do, **more}), file=self._process.stdin, flush=True)

    def call(self, do: str, **more: Any) -> dict[str, Any]:
        self.send(do, **more)
        return self.answer()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._guard.dismiss()


@dataclass
class Race:
    """``survivors``: names. ``both``: batches handed to the sink by both drivers. ``deaths``: of what, in a few words."""

    survivors: list[str]
    both: list[int]
    deaths: list[str] = field(default_factory=list)
    names_other: bool = False


def batches(sink: Path) -> list[int]:
    return [int(line) for line in sink.read_text().split()] if sink.exists() else []


def race(
    first: Driver, second: Driver, manager: str | None, directory: Path, place: str, *, how: str, every: str
) -> Race:
    together = how != "joins"
    drivers = {"first": first, "second": second}
    sinks = {name: directory / f"{name}.sink" for name in drivers}
    states: dict[str, dict[str, Any]] = {}

    def start(name: str, *, meets: bool = how == "in-step") -> None:
        other = str(sinks["second" if name == "first" else "first"]) if meets else None
        drivers[name].send(
            "start", manager=manager, checkpoint=place, sink=str(sinks[name]), every=every, other=other
        )

    def decided() -> bool:
        states.update({name: driver.call("state") for name, driver in drivers.items()})
        return not all(state["alive"] for state in states.values())

    def side_by_side() -> bool:
        return decided() or all(
            len(batches(sink)) >= least
            for sink, least in (
                (sinks["first"], TOGETHER + (0 if together else AHEAD)),
                (sinks["second"], TOGETHER),
            )
        )

    start("first", meets=False)
    # on a checkpoint that is there: else the second is refused its very first object, whatever the manager
    if together:
        first.answer()
        wait_until(lambda: bool(batches(sinks["first"])), RACE_MAX_S, "a checkpoint")
        first.call("stop")
        sinks["first"].unlink()
        start("first")
    else:
        wait_until(lambda: len(batches(sinks["first"])) >= AHEAD, RACE_MAX_S, "the first driver's batches")
    start("second")
    for driver in drivers.values():
        driver.answer()
    wait_until(side_by_side, RACE_MAX_S, "an end of the race, or both at work")
    for name, state in states.items():
        if state["alive"]:
            at = len(batches(sinks[name]))
            wait_until(
                lambda sink=sinks[name], at=at: (
                    decided()
                    and not any(s["alive"] for s in states.values())
                    or len(batches(sink)) >= at + ON
                ),
                RACE_MAX_S,
                "the survivor to go on",
            )
    decided()
    found = Race(
        [name for name, state in states.items() if state["alive"]],
        sorted(set(batches(sinks["first"])) & set(batches(sinks["second"]))),
        [cause_of(state["error"]) for state in states.values() if state["error"]],
    )
    logs = "".join((directory.parent / f"{name}.log").read_text(errors="replace") for name in drivers)
    found.names_other = place in logs and bool(
        re.search(re.escape(f"checkpoint fence: {place}/") + r"\S+ was written by \[job=race", logs)
    )
    for driver in drivers.values():
        driver.call("stop")
    return found


def cause_of(error: str) -> str:
    for word in (
        "CONCURRENT_STREAM_LOG_UPDATE",
        "Multiple streaming queries",
        "FileAlreadyExistsException",
        "FileNotFoundException",
    ):
        if word in error:
            return word
    return error[:60].replace("\n", " ")


def times(
    driver: Driver, manager: str | None, directory: Path, place: str, wanted: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of ``walCommit + commitOffsets`` and of the whole batch; the first five are left out."""
    sink = directory / "sink"
    driver.call("start", manager=manager, checkpoint=place, sink=str(sink), every="0 seconds", other=None)

    def reached() -> bool:
        state = driver.call("state")
        assert state["alive"], f"the query has ended: {state['error']}"
        return len(batches(sink)) >= wanted

    wait_until(reached, ANSWER_MAX_S, f"{wanted} batches")
    took = driver.call("stop")["batches"][5:]
    return [each["walCommit"] + each["commitOffsets"] for each in took], [
        each["triggerExecution"] for each in took
    ]


def show_races(found: dict[str, list[Race]]) -> None:
    print(
        f"\n{'checkpoint manager':<20} {'races':>5} {'one left':>9} {'both live':>10} {'none left':>10} {'batches run by both':>20}  died of"
    )
    for name, races in found.items():
        left = Counter(len(each.survivors) for each in races)
        both = [len(each.both) for each in races]
        deaths = Counter(death for each in races for death in each.deaths)
        told = (
            f", {sum(each.names_other for each in races)} x the log names the other writer"
            if name == "ours"
            else ""
        )
        print(
            f"{name:<20} {len(races):>5} {left[1]:>9} {left[2]:>10} {left[0]:>10} {f'{sum(both)} (most in one: {max(both)})':>20}  "
            f"{', '.join(f'{number} x {word}' for word, number in deaths.items()) or '-'}{told}",
            flush=True,
        )


def show_times(
    logs: dict[str, list[float]],
    whole: dict[str, list[float]],
    requests: dict[str, Counter[str]],
    rounds: int,
) -> None:
    print(
        f"\n{'checkpoint manager':<20} {'batches':>7} {'two log entries, median':>24} {'p90':>8} {'whole batch':>12} {'requests a batch':>40}"
    )
    base = statistics.median(logs["ours"])
    for name, took in logs.items():
        median = statistics.median(took)
        asked = ", ".join(
            f"{method} {number / rounds:.1f}" for method, number in sorted(requests[name].items())
        )
        print(
            f"{name:<20} {len(took):>7} {median:>15.0f} ms {median / base:>5.2f}x {statistics.quantiles(took, n=10)[-1]:>5.0f} ms "
            f"{statistics.median(whole[name]):>9.0f} ms {asked:>40}",
            flush=True,
        )


def asked_since(log: Path, at: int, place: str) -> Counter[str]:
    """S3 requests that moto has written down beyond byte ``at``, by method, for the checkpoint at ``place``."""
    with log.open("rb") as file:
        file.seek(at)
        text = file.read().decode(errors="replace")
    # a refusal in colour
    return Counter(
        re.findall(r'"(?:\x1b\[[0-9;]*m)*(GET|PUT|HEAD|DELETE|POST) [^"]*' + re.escape(place), text)
    )


def main() -> None:
    given = argparse.ArgumentParser(prog="python -m tests.fence_race", description=__doc__)
    given.add_argument("--races", type=int, default=10, help="of each manager (default %(default)s)")
    given.add_argument("--overlaps", type=int, default=10, help="of each manager (default %(default)s)")
    given.add_argument(
        "--batches", type=int, default=40, help="timed, of each manager and round (default %(default)s)"
    )
    given.add_argument("--rounds", type=int, default=3, help="of timing (default %(default)s)")
    given.add_argument(
        "--managers",
        nargs="*",
        choices=sorted(MANAGERS),
        default=["ours", "recommended"],
        help="that race; all are timed",
    )
    given.add_argument("--how", choices=(*HOWS, "all"), default="all", help="all: in turns (default)")
    given.add_argument(
        "--every",
        default="2 seconds",
        help="trigger; Spark aligns it to the clock, of both alike (default %(default)s)",
    )
    given.add_argument("--heap", default="512m")
    chosen = given.parse_args()
    with tempfile.TemporaryDirectory() as name:
        run(chosen, Path(name))


def run(chosen: argparse.Namespace, directory: Path) -> None:
    moto = MotoServer(directory)
    bucket = moto.new_bucket()
    drivers = [Driver(name, directory, moto, chosen.heap) for name in ("first", "second")]
    begun_at_s = boottime_s()
    try:
        for driver in drivers:
            driver.answer()
        print(
            f"two drivers are up after {boottime_s() - begun_at_s:.0f} s, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        found: dict[str, list[Race]] = {name: [] for name in chosen.managers}
        for number in range(chosen.races):
            for name in chosen.managers:
                own = directory / f"race-{name}-{number}"
                own.mkdir()
                how = HOWS[number % len(HOWS)] if chosen.how == "all" else chosen.how
                one = race(
                    drivers[0],
                    drivers[1],
                    MANAGERS[name],
                    own,
                    f"s3a://{bucket}/{own.name}",
                    how=how,
                    every=chosen.every,
                )
                found[name].append(one)
                print(
                    f"race {number + 1} {name}, {how}: survivors {one.survivors or 'none'}, run by both {one.both}, {one.deaths}",
                    flush=True,
                )
        if chosen.races:
            show_races(found)
        if chosen.overlaps:
            overlap(chosen.overlaps, drivers[0], f"s3a://{bucket}")
        if chosen.batches:
            measure(chosen, directory, drivers[0], f"s3a://{bucket}")
    finally:
        for driver in drivers:
            driver.end()
        moto.stop()


def overlap(rounds: int, driver: Driver, root: str) -> None:
    """What no race of processes hits at will: both have looked before either writes."""
    print(
        f"\n{'checkpoint manager':<20} {'entries':>7} {'written by one':>15} {'both told that they wrote it':>30}"
    )
    for name, manager in MANAGERS.items():
        told = Counter(
            driver.call("overlap", manager=manager, checkpoint=f"{root}/overlap-{name}-{n}")["told"]
            for n in range(rounds)
        )
        print(f"{name:<20} {rounds:>7} {told[1]:>15} {told[2]:>30}", flush=True)


def measure(chosen: argparse.Namespace, directory: Path, driver: Driver, root: str) -> None:
    logs: dict[str, list[float]] = {name: [] for name in MANAGERS}
    whole: dict[str, list[float]] = {name: [] for name in MANAGERS}
    requests: dict[str, Counter[str]] = {name: Counter() for name in MANAGERS}
    total = 0
    for _ in range(chosen.rounds):
        for name in MANAGERS:
            own = directory / f"time-{name}-{secrets.token_hex(4)}"
            own.mkdir()
            at = (directory / "moto.log").stat().st_size
            entries, all_of_it = times(driver, MANAGERS[name], own, f"{root}/{own.name}", chosen.batches)
            logs[name] += entries
            whole[name] += all_of_it
            requests[name] += asked_since(directory / "moto.log", at, own.name)
        total += chosen.batches
    show_times(logs, whole, requests, total)


if __name__ == "__main__":
    main()
