"""``python -m tests.benchmark_start [--on file s3a] [--rounds 3]``: how long a job does nothing, as ratios, in one run.

Not a test: it asserts nothing. Every gap is told beside a cold ``spark-submit`` of the same application, with the same properties,
in the same round, so that the load of the machine falls on all alike. Each goes on from a checkpoint of ``BATCHES`` batches or
some more, because a start on S3 takes longer the more deltas of the state there are. The application keeps a state and hands its
batches to Python. **plain**: from the start of spark-submit to its first batch. **crash**: from kill -9 of the driver to the
first batch of the next attempt. **restart**: from the last batch of the old driver to the first of the new one. **lost host**:
from kill -9 of everything on it. The lines "…, at work" leave out what Spark does not cause: the wait that proves a lost host's
driver dead, and the back-off after a crash (0.1 s here, the smallest ``restart.initial``; a job that does not say has 1 s).
``--on s3a`` needs Java and Maven, and measures besides with hadoop-aws as it comes (``--as-they-come``: with the AWS SDK's
bundle, 700 MB that are fetched once, given as ``--jars`` and ``--packages`` give them: ``spark.jars``).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.clients import processes
from supervisor.clients.processes import ProcessId
from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.records.layout import is_prepared
from supervisor.spark.class_archive.assign import DIRECTORY
from supervisor.spark.properties import render_properties
from supervisor.spark.toolchain import installed_spark_home
from tests import results
from tests.benchmark_s3 import with_bundle
from tests.testbed.attempts import pss_kb
from tests.testbed.moto import AWS_ENV, REGION, MotoServer, S3Server
from tests.testbed.radosgw import RadosGateway
from tests.testbed.radosgw import missing as missing_radosgw
from tests.testbed.s3a_jars import s3a_jars
from tests.testbed.spark_fleet import APPLICATIONS, SparkFleet
from tests.waiting import wait_until

TRIGGER, TRIGGER_S = "1 seconds", 1.0
CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "WARN",
    "spark.driver.memory": "1g",
}
NO_ARCHIVE = {"spark.driver.extraJavaOptions": "-Xshare:auto"}
"""What a JVM does anyhow; but a driver with an option about archives is given none."""

STORES: dict[str, Callable[[Path], S3Server]] = {"moto": MotoServer, "ceph": RadosGateway}
LEASE_S, FIRST_BATCH_MAX_S, ARCHIVE_MAX_S, QUIET_S, WATCHED_S, SETTLED_S = 15.0, 300.0, 900.0, 3.0, 20.0, 30.0
BACKOFF_S = 0.1
BATCHES = 30
PLAIN, AS_THEY_COME = "plain spark-submit", "plain spark-submit, --jars with hadoop-aws as it comes"
ARCHIVED = "crash, cold, with a class archive"
COLUMNS = ("what", "median", "from–to", "ratio to plain", "goal")
GOALS = {
    "crash, cold": None,
    ARCHIVED: 0.6,
    "restart, cold, with a class archive": None,
    "restart, prepared, level session": 0.15,
    "restart, prepared, level application": 0.15,
    "crash, with a standby": 0.15,
    "lost host, with a standby, at work": 0.15,
}


@dataclass
class Bench:
    """``took``: by row the gaps in seconds, one for each round; ``prefix`` is of checkpoints."""

    fleet: SparkFleet
    prefix: str
    directory: Path
    properties: dict[str, str]
    store: S3Server
    as_they_come: Path | None = None
    steady_s: float = 600.0
    took: dict[str, list[float]] = field(default_factory=dict)
    more: dict[str, list[float]] = field(default_factory=dict)

    def note(self, row: str, took_s: float) -> None:
        self.took.setdefault(row, []).append(took_s)
        print(f"    {row:<44} {took_s:8.2f} s   load {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    measured = results.Measured(".", "tests.benchmark_start")
    given = argparse.ArgumentParser(prog="python -m tests.benchmark_start", description=__doc__)
    given.add_argument(
        "--on", nargs="*", choices=("file", "s3a"), default=["file", "s3a"], help="checkpoints"
    )
    given.add_argument("--rounds", type=int, default=3, help="(default %(default)s)")
    given.add_argument(
        "--only",
        nargs="*",
        choices=list(PARTS),
        default=USUAL,
        help="some parts (default: all but throughput)",
    )
    given.add_argument(
        "--steady", type=float, default=600.0, help="seconds that throughput is counted (default %(default)g)"
    )
    given.add_argument("--as-they-come", action="store_true", help="also plain, with the AWS SDK's bundle")
    given.add_argument(
        "--cache", type=Path, default=Path(__file__).parent.parent / ".ci" / "cache" / "benchmark-s3"
    )
    given.add_argument("--store", choices=list(STORES), default="moto", help="the S3 (default %(default)s)")
    results.add_option(given)
    chosen = given.parse_args()
    if chosen.store == "ceph" and (why := missing_radosgw()) is not None:
        given.error(why)
    bundle = with_bundle(chosen.cache.resolve()) if chosen.as_they_come else None
    with tempfile.TemporaryDirectory() as name, served(Path(name), chosen.store) as (fleet, server):
        wait_for_archives(fleet)
        for where in chosen.on:
            own = Path(name) / where
            own.mkdir()
            prefix = f"file://{own}" if where == "file" else f"s3a://{fleet.bucket}/checkpoints"
            bench = Bench(
                fleet,
                prefix,
                own,
                properties_for(where, server),
                server,
                bundle if where == "s3a" else None,
                chosen.steady,
            )
            for number in range(chosen.rounds):
                print(f"\n{where}, round {number + 1} of {chosen.rounds}", flush=True)
                plain(bench)
                for part in chosen.only:
                    PARTS[part](bench)
            rows = figures(bench)
            tell(where, rows)
            if chosen.write_results:
                measured.write(f"What a start costs, {where}://", COLUMNS, rows)


@contextmanager
def served(directory: Path, store: str) -> Iterator[tuple[SparkFleet, S3Server]]:
    """Two supervisors on an ensemble and an S3 of their own."""
    server = STORES[store](directory)
    os.environ.update(AWS_ENV)
    try:
        with EmbeddedEnsemble(directory / "zookeeper") as ensemble:
            fleet = SparkFleet(
                ensemble,
                f"/start-{uuid.uuid4().hex[:8]}",
                directory,
                lease_s=LEASE_S,
                session_s=6.0,
                capacity={"memory": "8g"},
                endpoint_url=server.endpoint_url,
                bucket=server.new_bucket(),
                s3a_jars=s3a_jars(),
                spark={"class_archive": "auto"},
                judged=False,
            )
            with fleet:
                yield fleet, server
    finally:
        server.stop()


def wait_for_archives(fleet: SparkFleet) -> None:
    """Each host has made its own, in the background."""
    begun_at_s = boottime_s()

    def made() -> bool:
        return all(any((member.directory / "run" / DIRECTORY).glob("*.json")) for member in fleet.members)

    wait_until(made, ARCHIVE_MAX_S, "a class archive on each host", period_s=1.0)
    sizes = [
        path.stat().st_size / 2**20
        for member in fleet.members
        for path in (member.directory / "run" / DIRECTORY).glob("*.jsa")
    ]
    took_s = boottime_s() - begun_at_s
    print(
        f"class archives: {len(sizes)} made within {took_s:.0f} s, {max(sizes, default=0):.0f} MiB each",
        flush=True,
    )


def properties_for(where: str, server: S3Server) -> dict[str, str]:
    """The properties of the plain spark-submit."""
    s3a = {
        "spark.hadoop.fs.s3a.endpoint": server.endpoint_url,
        "spark.hadoop.fs.s3a.endpoint.region": REGION,
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    return {**CONF, **({**s3a, **server.s3a} if where == "s3a" else {})}


# -- plain -----------------------------------------------------------------------------------------------------------


def plain(bench: Bench) -> None:
    """A cold spark-submit that goes on from a checkpoint, as whoever has no supervisor starts a job again."""
    on_s3 = bench.prefix.startswith("s3a")
    kinds = {PLAIN: {"spark.driver.extraClassPath": f"{s3a_jars()}/*"} if on_s3 else {}}
    if bench.as_they_come is not None:
        kinds[AS_THEY_COME] = {"spark.jars": ",".join(map(str, sorted(bench.as_they_come.glob("*.jar"))))}
    for row, jars in kinds.items():
        name = f"plain-{uuid.uuid4().hex[:8]}"
        conf = {**bench.properties, **jars}
        run_plain(bench, name, 0, conf, BATCHES, "0 seconds")
        bench.note(row, run_plain(bench, name, 1, conf, 3, TRIGGER))


def run_plain(
    bench: Bench, name: str, attempt: int, conf: Mapping[str, str], batches: int, trigger: str
) -> float:
    """Seconds from the start of spark-submit to its first batch; after ``batches`` it is killed."""
    file = bench.directory / f"{name}.properties"
    file.write_text(render_properties(conf), encoding="ascii")
    env = {
        **os.environ,
        "WITNESS": str(bench.fleet.witness_file),
        "SPARK_SUPERVISOR_JOB": name,
        "SPARK_SUPERVISOR_UID": name,
        "SPARK_SUPERVISOR_ATTEMPT": str(attempt),
        "PYSPARK_PYTHON": sys.executable,
    }
    submit = installed_spark_home() / "bin" / "spark-submit"
    application = (str(APPLICATIONS / "counts.py"), f"{bench.prefix}/{name}", trigger)
    argv = [str(submit), "--properties-file", str(file), "--master", "local[1]", *application]
    begun_at_s = boottime_s()
    with (bench.directory / f"{name}.log").open("ab") as log:
        running = subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        first = bench.fleet.wait_batch_of(name, attempt)
        wait_until(
            lambda: sum(each.attempt == attempt for each in bench.fleet.batches(name)) >= batches,
            FIRST_BATCH_MAX_S,
            f"{batches} batches",
        )
        return first.at_s - begun_at_s
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


# -- supervised ------------------------------------------------------------------------------------------------------


@contextmanager
def job(
    bench: Bench, kind: str, conf: Mapping[str, str] | None = None, trigger: str = TRIGGER, **spec: Any
) -> Iterator[str]:
    """A job that has run for some batches, and is cancelled in the end."""
    name = f"{kind}-{uuid.uuid4().hex[:8]}"
    bench.fleet.submit(
        name,
        args=["{checkpoint}", trigger],
        checkpoint=f"{bench.prefix}/{name}",
        conf={**CONF, **bench.store.s3a, "spark.driver.extraJavaOptions": "", **(conf or {})},
        resources={"memory": "1g"},
        restart={"initial": f"{BACKOFF_S * 1000:g}ms", "jitter": 0},
        lease=f"{LEASE_S:g}s",
        **{"update": {"prepare": "off"}, **spec},
    )
    try:
        bench.fleet.wait_batches(name, BATCHES, FIRST_BATCH_MAX_S)
        yield name
    finally:
        bench.fleet.ok("cancel", name, "--wait")


def crash(bench: Bench, name: str) -> float:
    """Kill the driver; seconds to the first batch of the next attempt."""
    fleet = bench.fleet
    attempt = fleet.show(name)["attempt"]
    jvm = jvm_of(fleet, name)
    killed_at_s = boottime_s()
    fleet.signal(jvm, signal.SIGKILL)
    first = fleet.wait_batch_of(name, attempt + 1)
    fleet.wait_batches(name, 3)
    return first.at_s - killed_at_s


def jvm_of(fleet: SparkFleet, name: str) -> ProcessId:
    found = processes.identify(fleet.lines(name, "session")[-1]["jvm"])
    assert found is not None
    return found


def restart(bench: Bench, name: str, *words: str) -> float:
    """Seconds from the last batch of the old driver to the first one of the new driver."""
    fleet = bench.fleet
    attempt = fleet.show(name)["attempt"]
    fleet.ok("restart", name, *words)
    first = fleet.wait_batch_of(name, attempt + 1)
    last = max(each.at_s for each in fleet.batches(name) if each.attempt == attempt)
    fleet.wait_batches(name, 3)
    return first.at_s - last


def cold(bench: Bench) -> None:
    with job(bench, "cold", NO_ARCHIVE) as name:
        bench.note("crash, cold", crash(bench, name))


def archived(bench: Bench) -> None:
    with job(bench, "archived") as name:
        said = bench.fleet.show(name).get("class_archive")
        took_s = crash(bench, name)
        bench.note(ARCHIVED, took_s)
        bench.note(f"{ARCHIVED}, at work", took_s - BACKOFF_S)
        bench.note("restart, cold, with a class archive", restart(bench, name, "--cold"))
        if said is not None and not str(said).endswith((".jsa", ".aot")):
            print(f"    it had none: {said}", flush=True)


def session(bench: Bench) -> None:
    with job(bench, "session", update={"prepare": "session"}) as name:
        bench.note("restart, prepared, level session", restart(bench, name))


def application(bench: Bench) -> None:
    with job(bench, "application", update={"prepare": "application"}) as name:
        bench.note("restart, prepared, level application", restart(bench, name))


def standby(bench: Bench) -> None:
    """A crash, and then the loss of the host."""
    with job(bench, "standby", update={"prepare": "session"}, standby={"level": "session"}) as name:
        wait_standby(bench, name)
        weigh(bench)
        bench.note("crash, with a standby", crash(bench, name))
        wait_standby(bench, name)
        took_s, proof_s = lose_host(bench, name)
        bench.note("lost host, with a standby", took_s)
        bench.note("lost host, with a standby, at work", took_s - proof_s)
        bench.fleet.restore()


def wait_standby(bench: Bench, name: str) -> None:
    def is_ready() -> bool:
        return any(each.get("ready_at") for each in bench.fleet.show(name).get("prepared", ()))

    wait_until(is_ready, FIRST_BATCH_MAX_S, f"a standby of {name}", period_s=0.5)
    time.sleep(QUIET_S)


def lose_host(bench: Bench, name: str) -> tuple[float, float]:
    """Kill all that lives on the host of the job. Seconds to the first batch elsewhere, and those until the assignment:
    the leader has to wait until the driver is dead for sure, and first there has to be a leader."""
    fleet = bench.fleet
    attempt, member = fleet.show(name)["attempt"], fleet.host_of(name)
    killed_at_s = boottime_s()
    fleet.kill_host(member)
    first = fleet.wait_batch_of(name, attempt + 1)
    link = next(
        path
        for other in fleet.members
        for path in other.attempts_dir.glob(f"{fleet.uid(name)}.{attempt + 1}")
    )
    return first.at_s - killed_at_s, launched_at_s(link) - killed_at_s


def launched_at_s(directory: Path) -> float:
    """BOOTTIME at which the agent began with the assignment."""
    handed = directory / "handed.json"
    return float(
        json.loads((handed if handed.exists() else directory / "launch.json").read_bytes())["begun_s"]
    )


def weigh(bench: Bench) -> None:
    """What the standby costs while it waits."""
    fleet = bench.fleet
    names = {
        path.name
        for member in fleet.members
        for path in member.attempts_dir.iterdir()
        if is_prepared(path.name)
    }
    trees = [each.pid for each in fleet.processes() if _is_prepared(each.pid, names)]
    before = {pid: _cpu_s(pid) for pid in trees}
    time.sleep(WATCHED_S)
    used_s = sum(_cpu_s(pid) - before[pid] for pid in trees)
    bench.more.setdefault("PSS of the tree of a prepared driver, MiB", []).append(pss_kb(*trees) / 1024)
    bench.more.setdefault("CPU while it waits, % of a core", []).append(100 * used_s / WATCHED_S)


def _is_prepared(pid: int, names: set[str]) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return any(f"/{name}".encode() in environ for name in names)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- the table -------------------------------------------------------------------------------------------------------


def figures(bench: Bench) -> list[tuple[str, ...]]:
    """A line for each row: median, spread, and the median of its ratios to plain, round by round."""
    base = bench.took[PLAIN]
    rows = []
    for row, values in bench.took.items():
        ratios = [value / plain_s for value, plain_s in zip(values, base, strict=False)]
        goal = GOALS.get(row)
        rows.append(
            (
                row,
                f"{statistics.median(values):.2f} s",
                f"{min(values):.2f}–{max(values):.2f}",
                f"{statistics.median(ratios):.2f}",
                "" if goal is None else f"≤ {goal:g}",
            )
        )
    if AS_THEY_COME in bench.took and ARCHIVED in bench.took:
        pairs = zip(bench.took[ARCHIVED], bench.took[AS_THEY_COME], strict=False)
        of_these = statistics.median(value / plain_s for value, plain_s in pairs)
        rows.append((f"{ARCHIVED}, to hadoop-aws as it comes", "", "", f"{of_these:.2f}", "≤ 0.5"))
    limit_s = 2 * TRIGGER_S + 2.0
    for row in ("restart, prepared, level session", "restart, prepared, level application"):
        if row in bench.took:
            of_limit = statistics.median(bench.took[row]) / limit_s
            rows.append((f"{row}, of two triggers and 2 s", "", "", f"{of_limit:.2f}", "≤ 1"))
    for row, values in bench.more.items():
        spread = f"{min(values):.4g}–{max(values):.4g}"
        rows.append((row, f"{statistics.median(values):.4g}", spread, "", ""))
    rows.append(("load of the machine at the end", f"{os.getloadavg()[0]:.1f}", "", "", ""))
    return rows


def tell(where: str, rows: Sequence[tuple[str, ...]]) -> None:
    print(f"\n{where}: {', '.join(COLUMNS[1:])}", flush=True)
    for row in rows:
        print("  {:<56} {:>9} {:>15} {:>6} {:>7}".format(*row), flush=True)


def throughput(bench: Bench) -> None:
    """Two jobs at once, one with a class archive and one without, each as fast as it can: how many batches each made in
    ``--steady`` seconds, and in the first and the last fifth of them."""
    fleet, window_s = bench.fleet, bench.steady_s
    with (
        job(bench, "without", NO_ARCHIVE, "0 seconds") as without,
        job(bench, "with", None, "0 seconds") as with_one,
    ):
        time.sleep(SETTLED_S)
        begun_at_s = boottime_s()
        time.sleep(window_s)
        for row, begin_s, end_s in (
            ("all of it", 0.0, window_s),
            ("first fifth", 0.0, window_s / 5),
            ("last fifth", window_s * 4 / 5, window_s),
        ):
            counts = [
                sum(begin_s <= each.at_s - begun_at_s < end_s for each in fleet.batches(name))
                for name in (with_one, without)
            ]
            bench.more.setdefault(f"batches with an archive to without, {row}", []).append(
                counts[0] / counts[1]
            )
            print(f"    {row}: {counts[0]} batches with an archive, {counts[1]} without", flush=True)


PARTS: dict[str, Callable[[Bench], None]] = {
    "cold": cold,
    "archived": archived,
    "session": session,
    "application": application,
    "standby": standby,
    "throughput": throughput,
}
USUAL = [name for name in PARTS if name != "throughput"]

if __name__ == "__main__":
    main()
