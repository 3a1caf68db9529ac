"""``python -m tests.savepoint_proof [--moments 30] [--state hdfs rocksdb]``: savepoints of a running query, with real Spark on S3A.

A query with two stateful operators (rows twice are dropped, then counted in windows, both with a watermark) reads a finite input
file by file and writes its checkpoint to a real S3 API (moto). While it runs, savepoints are taken at random moments, by the
product's own code; Spark cleans up hard meanwhile (few batches retained, maintenance twice a second). Then each is restored to a
location of its own, and the query finishes the rest of the input from there. What batches up to the savepoint have given before,
together with what the restored run gives, must be exactly what an undisturbed run gives, and what plain Python expects: not a
row lost, none twice, none that is too late.

One Spark runs all of it, with the checkpoint manager that the product gives to a driver. Exit code 0: it held at every moment.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.clients.store.area import open_area
from supervisor.clock import boottime_s, wall_iso
from supervisor.model.going_back import GOES_ON
from supervisor.savepoints.create import Creation
from supervisor.savepoints.manifest import Begun, Manifest
from supervisor.savepoints.restore import restore
from supervisor.spark.fence.build import host_jar
from supervisor.spark.fence.choice import MANAGER, MANAGER_KEY, OWNER_KEY, owner_of
from supervisor.spark.properties import render_properties
from supervisor.spark.toolchain import installed_spark_home, java_of, spark_version
from supervisor.spec.s3a import S3Access
from tests.e2e.applications.windows import KEYS, WINDOW_S, counted
from tests.testbed.moto import MotoServer
from tests.testbed.s3a_jars import s3a_jars
from tests.testbed.spark_fleet import LIGHT_JVM
from tests.waiting import wait_until

BASE_S = 1_700_000_000
STEP_S = 5
CLOSING = {"id": 0, "ts": BASE_S + 10**6, "v": 0}
"""A row that lets every window end."""
ROWS = 60
FIRST_BATCH, LATE_FROM = 5, 12
UNDISTURBED_FILES, RESTORED_FILES = 5, 40
"""In a batch; one where savepoints are taken. What a batch gives depends on it, the sum does not, as long as there are two batches
before ``LATE_FROM``: what is too late is told by the watermark of the batch before."""
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STATES: dict[str, dict[str, str]] = {
    "hdfs": {},
    "rocksdb": {
        PROVIDER: ROCKSDB,
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    },
}
CLEANS_UP = {
    "spark.sql.streaming.minBatchesToRetain": "6",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
    "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
}
ROUND_MAX_S = 1200.0
PAUSE_MAX_S = 3.0
STARTS_MAX = 5

Rows = Counter[tuple[Any, ...]]


def write_input(directory: Path, files: int, seed: int, late_from: int = LATE_FROM) -> Rows:
    """Returns what must come out: window, key → count and sum, of rows seen for the first time and in time."""
    chance = random.Random(seed)
    directory.mkdir()
    seen: dict[int, tuple[int, int]] = {}
    again: list[dict[str, int]] = []
    number = 0
    for file in range(files):
        rows, again = again, []
        for _ in range(ROWS):
            number += 1
            row = {
                "id": number,
                "ts": BASE_S + file * STEP_S + chance.randint(-4, 4),
                "v": chance.randint(1, 1000),
            }
            seen[number] = (row["ts"], row["v"])
            rows.append(row)
            if chance.random() < 0.4:
                (again if chance.random() < 0.6 else rows).append(row)
        if file >= late_from:
            rows.append({"id": -file, "ts": BASE_S - 3600, "v": 1})
        if file == files - 1:
            rows.append(CLOSING)
        path = directory / f"{file:05}.json"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        os.utime(path, (BASE_S + file, BASE_S + file))
    return windows_of(seen)


def windows_of(seen: Mapping[int, tuple[int, int]]) -> Rows:
    """What comes of rows (id → second and value) that are seen in time, each once."""
    sums: dict[tuple[int, int], tuple[int, int]] = {}
    for identity, (at, value) in seen.items():
        key = (at // WINDOW_S * WINDOW_S, identity % KEYS)
        count, total = sums.get(key, (0, 0))
        sums[key] = (count + 1, total + value)
    return Counter((*key, *found) for key, found in sums.items())


def expected_of(directory: Path) -> Rows:
    """What must come out of input that ``write_input`` wrote, or of its first files: its ids below 1 count nowhere."""
    lines = [line for file in sorted(directory.glob("*.json")) for line in file.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    return windows_of({row["id"]: (row["ts"], row["v"]) for row in rows if row["id"] > 0})


class Sink:
    """What each batch gave, by batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[Any, ...]]] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        self.batches[batch] = [
            (int(row.start), int(row.key), int(row.n), int(row.total)) for row in frame.collect()
        ]

    def rows(self, up_to: int | None = None) -> Rows:
        return Counter(
            row for batch, rows in self.batches.items() if up_to is None or batch <= up_to for row in rows
        )


def start(spark: Any, source: Path, checkpoint: str, files_a_batch: int, sink: Sink) -> Any:
    stream = counted(spark, str(source), files_a_batch).writeStream.outputMode("append").foreachBatch(sink)
    return stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def finished(spark: Any, source: Path, checkpoint: str, sink: Sink) -> Any:
    """Run to the end of the input. Uploads of RocksDB's files fail on moto now and then ("Status Code: 100"): the query is
    started again on its checkpoint then, as a supervisor would."""
    from pyspark.errors import StreamingQueryException

    for _ in range(STARTS_MAX):
        query = start(spark, source, checkpoint, RESTORED_FILES, sink)
        try:
            query.awaitTermination(ROUND_MAX_S)
        except StreamingQueryException as error:
            if "Status Code: 100" not in str(error):
                raise
            print("  started again: an upload failed on the test's S3 server", flush=True)
            continue
        break
    return query


@dataclass
class Moment:
    manifest: Manifest
    rounds: int
    seconds: float


def take_moments(
    query: Any, sink: Sink, checkpoint: str, shelf: str, access: S3Access, wanted: int, chance: random.Random
) -> list[Moment]:
    """Savepoints at random moments while the query runs; fewer if it ends before."""
    pause = threading.Event()
    found: list[Moment] = []
    wait_until(
        lambda: max(sink.batches, default=0) >= FIRST_BATCH or not query.isActive,
        ROUND_MAX_S,
        "the first batches",
    )
    while len(found) < wanted and query.isActive:
        pause.wait(chance.uniform(0, PAUSE_MAX_S))  # the moment is random, within a batch or between two
        name = f"m{len(found)}"
        location = f"{shelf}/{name}"
        begun = Begun(
            id=name,
            name="proof",
            uid="proof-u1",
            attempt=1,
            source=checkpoint,
            location=location,
            access=access,
            at=wall_iso(),
            software="proof",
        )
        begun_at_s = boottime_s()
        creation = Creation(open_area(checkpoint, access), open_area(location, access), begun, wall_iso)
        manifest = creation.run()
        found.append(Moment(manifest, creation.rounds, boottime_s() - begun_at_s))
        print(
            f"  {name}: after batch {manifest.queries[0].batch}, {manifest.objects} objects, {creation.rounds} rounds, "
            f"{found[-1].seconds:.1f} s",
            flush=True,
        )
    return found


def session(directory: Path, moto: MotoServer) -> Any:
    home = installed_spark_home()
    assert home is not None
    built = host_jar(home, java_of(None, os.environ), spark_version(home) or "", directory, os.environ)
    assert built.jar is not None, built.why
    properties = directory / "spark.properties"
    properties.write_text(
        render_properties(
            {
                "spark.master": "local[2]",
                "spark.driver.memory": "1g",
                "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false",
                "spark.log.level": "ERROR",
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.session.timeZone": "UTC",
                **CLEANS_UP,
                MANAGER_KEY: MANAGER,
                OWNER_KEY: owner_of("proof", "u1", 1, "here"),
                "spark.driver.extraClassPath": f"{s3a_jars()}/*:{built.jar}",
                "spark.sql.codegen.wholeStage": "false",
                "spark.driver.extraJavaOptions": LIGHT_JVM,
                "spark.hadoop.fs.s3a.endpoint": moto.endpoint_url,
                "spark.hadoop.fs.s3a.path.style.access": "true",
                "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
                "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            }
        )
    )
    os.environ.update(
        {
            **moto.env,
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": shlex.join(("--properties-file", str(properties), "pyspark-shell")),
        }
    )
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def prove(
    spark: Any, kind: str, moments: int, directory: Path, root: str, access: S3Access, seed: int
) -> tuple[int, int]:
    """How many moments were taken, and at how many the result was equal."""
    for name in {key for each in STATES.values() for key in each}:
        spark.conf.unset(name)
    for name, value in STATES[kind].items():
        spark.conf.set(name, value)
    source, sink = directory / f"input-{kind}", Sink()
    files = 24 + 5 * moments
    expected = write_input(source, files, seed)
    print(f"{kind}: {files} files, {sum(1 for _ in expected)} results expected", flush=True)
    checkpoint = f"{root}/{kind}/checkpoint"
    query = start(spark, source, checkpoint, 1, sink)
    taken = take_moments(
        query,
        sink,
        checkpoint.replace("s3a:", "s3:"),
        f"{root}/{kind}/savepoints".replace("s3a:", "s3:"),
        access,
        moments,
        random.Random(seed),
    )
    if query.exception() is not None:
        print(f"{kind}: the query FAILED while savepoints were taken: {query.exception()}", flush=True)
    query.stop()
    alone = Sink()
    other = start(spark, source, f"{root}/{kind}/undisturbed", UNDISTURBED_FILES, alone)
    other.awaitTermination(ROUND_MAX_S)
    undisturbed = alone.rows()
    print(
        f"{kind}: the undisturbed run gave {sum(undisturbed.values())} results in {len(alone.batches)} batches, "
        f"{'as' if undisturbed == expected else 'NOT what was'} expected",
        flush=True,
    )
    equal = 0
    for number, moment in enumerate(taken):
        batch, fresh = moment.manifest.queries[0].batch, f"{root}/{kind}/restored-{number}"
        restore(open_area(moment.manifest.location, access), open_area(fresh, access), wall_iso(), GOES_ON)
        rest = Sink()
        again = finished(spark, source, fresh, rest)
        whole = sink.rows(up_to=batch) + rest.rows()
        held = again.exception() is None and not again.isActive and whole == undisturbed == expected
        held = held and min(rest.batches) == batch + 1
        equal += held
        print(
            f"  m{number}: from batch {batch + 1} in {len(rest.batches)} batches, {sum(rest.rows().values())} results: "
            f"{'equal' if held else 'DIFFERENT'}",
            flush=True,
        )
        if again.exception() is not None:
            print(f"    {again.exception()}", flush=True)
    return len(taken), equal


def main() -> int:
    given = argparse.ArgumentParser(prog="python -m tests.savepoint_proof", description=__doc__)
    given.add_argument("--moments", type=int, default=30, help="of each kind of state (default %(default)s)")
    given.add_argument("--state", nargs="*", choices=sorted(STATES), default=sorted(STATES))
    given.add_argument("--seed", type=int, default=1)
    chosen = given.parse_args()
    begun_at_s, held = boottime_s(), True
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        moto = MotoServer(directory)
        try:
            spark = session(directory, moto)
            root, access = f"s3a://{moto.new_bucket()}", S3Access(moto.endpoint_url)
            for kind in chosen.state:
                taken, equal = prove(spark, kind, chosen.moments, directory, root, access, chosen.seed)
                held = held and taken == equal == chosen.moments
                print(
                    f"{kind}: at {equal} of {taken} moments ({chosen.moments} wanted) the restored result is that of the "
                    f"undisturbed run; load {os.getloadavg()[0]:.0f}, {boottime_s() - begun_at_s:.0f} s so far",
                    flush=True,
                )
            spark.stop()
        finally:
            moto.stop()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
