"""``python -m tests.benchmark_s3 [--only preflight start savepoint log-writes cold-start]``: what S3 costs, as ratios, in one run.

Not a test: it asserts nothing. Everything that is compared is done on one server, in turns, so that the load of the machine
falls on all alike; the medians are told with their ratio to the first line. **preflight**: the look before a start, beside one
HEAD, at checkpoints of growing size. **start**: a supervised job started again, with a look that takes longer and longer: it goes
on beside the start, so that it should cost nothing until it is slower than that. **savepoint**: beside ``aws s3 sync`` and ``s5cmd sync``, whose copies are neither complete
in themselves nor verified. **log-writes**: the two log entries of a micro-batch, with each checkpoint manager, in one real driver.
**cold-start**: a real driver to its first committed batch, with the thin S3A jars and with the AWS SDK's bundle (686 MB, fetched
by Maven). Tools are fetched once, into ``--cache``; what can't be had is left out, and said. Real Spark needs Java and Maven.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.checkpoint.preflight import preflight
from supervisor.clients.store.area import open_area
from supervisor.clients.store.tree import open_tree
from supervisor.clock import wall_iso
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.savepoints.create import Creation
from supervisor.savepoints.manifest import Begun
from supervisor.spec.s3a import S3Access
from tests.fakes.faulty_s3 import FaultyS3, Handler, relay
from tests.fence_race import MANAGERS, Driver, batches, times
from tests.testbed.moto import AWS_ENV, REGION, MotoServer
from tests.testbed.radosgw import RadosGateway, missing
from tests.testbed.s3a_jars import s3a_jars
from tests.testbed.spark_fleet import APPLICATIONS, SparkFleet
from tests.waiting import wait_until

S5CMD = "github.com/peak/s5cmd/v2@latest"
QUERY, BATCHES = "ff7b2486-db9c-40b5-91ab-94bbc3f36e3d", 100
OFFSET = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}\n{"t":{"0":%d}}'
PREFLIGHTS = 15
DELAYS_S = (0.0, 0.1, 0.3, 1.0)
PUT_WORKERS, COPY_MAX_S, FETCH_MAX_S, FIRST_BATCH_MAX_S = 16, 3_600.0, 1_800.0, 300.0


@dataclass(frozen=True)
class Bench:
    """``bucket`` is on ``server``, whose keys are in this process's environment."""

    chosen: argparse.Namespace
    server: Any
    bucket: str
    directory: Path

    @property
    def access(self) -> S3Access:
        return S3Access(self.server.endpoint_url, REGION)


def main() -> None:
    given = argparse.ArgumentParser(prog="python -m tests.benchmark_s3", description=__doc__)
    given.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS), help="some parts")
    given.add_argument(
        "--looks", type=int, nargs="*", default=[10, 1_000, 10_000], help="objects of checkpoints to look at"
    )
    given.add_argument(
        "--objects", type=int, nargs="*", default=[1_000, 10_000], help="objects of savepoints"
    )
    given.add_argument(
        "--rounds", type=int, default=3, help="of copies and of cold starts (default %(default)s)"
    )
    given.add_argument(
        "--batches", type=int, default=40, help="timed, of each manager and round (default %(default)s)"
    )
    given.add_argument(
        "--server", choices=("radosgw", "moto"), default="radosgw", help="moto where there is no radosgw"
    )
    given.add_argument("--heap", default="512m")
    given.add_argument(
        "--cache", type=Path, default=Path(__file__).parent.parent / ".ci" / "cache" / "benchmark-s3"
    )
    chosen = given.parse_args()
    chosen.cache = chosen.cache.resolve()
    with tempfile.TemporaryDirectory() as name:
        server = served(chosen, Path(name))
        os.environ.update(AWS_ENV)
        try:
            for part in chosen.only:
                print(f"\n{part}, on {type(server).__name__}, load {os.getloadavg()[0]:.1f}", flush=True)
                own = Path(name) / part
                own.mkdir()
                PARTS[part](Bench(chosen, server, server.new_bucket(), own))
        finally:
            server.stop()


def served(chosen: argparse.Namespace, directory: Path) -> Any:
    why = missing() if chosen.server == "radosgw" else "moto was asked for"
    if why is not None:
        print(f"no radosgw: {why}", flush=True)
    return MotoServer(directory) if why is not None else RadosGateway(directory)


def table(rows: dict[str, list[float]], unit: str, more: dict[str, str] | None = None) -> None:
    """A line for each of ``rows``: median, spread, ratio to the first."""
    base = None
    for name, values in rows.items():
        if not values:
            print(f"  {name:<34} not measured {(more or {}).get(name, '')}", flush=True)
            continue
        median = statistics.median(values)
        base = base or median
        spread = f"{min(values):.4g}–{max(values):.4g}"
        print(
            f"  {name:<34} {median:>9.4g} {unit:<3} ({spread:>15}, {len(values):>3} runs) {median / base:>6.2f}x  {(more or {}).get(name, '')}",
            flush=True,
        )


def timed(work: Callable[[], object]) -> float:
    begun_at_s = time.monotonic()
    work()
    return time.monotonic() - begun_at_s


# -- a checkpoint ----------------------------------------------------------------------------------------------------


def checkpoint(count: int) -> dict[str, bytes]:
    """A stateless query's that Spark could go on from, of at least ``count`` objects: what is over is of its source."""
    logged = min(BATCHES, max(2, (count - 1) // 2))
    first = BATCHES - logged
    made = {"metadata": json.dumps({"id": QUERY}).encode()}
    for batch in range(first, BATCHES):
        made[f"offsets/{batch}"] = (OFFSET % batch).encode()
        made[f"commits/{batch}"] = b'v1\n{"nextBatchWatermarkMs":0}'
    for number in range(count - len(made)):
        made[f"sources/0/{number}"] = b"v1\n" + b"x" * 400
    return made


def put(bench: Bench, prefix: str, objects: dict[str, bytes]) -> None:
    client = bench.server.client()

    def one(key: str) -> None:
        client.put_object(Bucket=bench.bucket, Key=f"{prefix}/{key}", Body=objects[key])

    with ThreadPoolExecutor(PUT_WORKERS) as pool:
        list(pool.map(one, objects))


# -- the parts -------------------------------------------------------------------------------------------------------


def preflights(bench: Bench) -> None:
    client, took, more = bench.server.client(), {}, {}
    places = {}
    for count in bench.chosen.looks:
        objects, prefix = checkpoint(count), f"look-{count}"
        put(bench, prefix, objects)
        places[count] = prefix
    heads: list[float] = []
    trees = {
        count: open_tree(f"s3a://{bench.bucket}/{prefix}", bench.access) for count, prefix in places.items()
    }
    for number in range(bench.chosen.rounds * PREFLIGHTS):
        heads.append(
            1_000
            * timed(
                lambda: client.head_object(Bucket=bench.bucket, Key=f"look-{bench.chosen.looks[0]}/metadata")
            )
        )
        for count, tree in trees.items():
            assert tree is not None
            tree.requests = 0
            look = 1_000 * timed(
                lambda tree=tree: found_well(preflight(tree, [SeenQuery(QUERY, BATCHES - 2)]))
            )
            name = f"preflight of {count:,} objects"
            if number:  # the first one makes the client
                took.setdefault(name, []).append(look)
            more[name] = f"{tree.requests} requests"
    table({"one HEAD": heads[1:], **took}, "ms", more)


def starts(bench: Bench) -> None:
    """From the assignment seen by the agent to the first batch. The driver itself asks S3 directly."""
    slow = FaultyS3(int(bench.server.endpoint_url.rpartition(":")[2]))
    delay_s = [0.0]

    def late(handler: Handler) -> None:
        time.sleep(delay_s[0] if "checkpoints" in handler.path else 0.0)
        relay(handler)

    slow.always = late
    direct, counts = bench.directory / "direct.py", (APPLICATIONS / "counts.py").read_text()
    builder = f"SparkSession.builder.config('spark.hadoop.fs.s3a.endpoint', {bench.server.endpoint_url!r})"
    direct.write_text(counts.replace("SparkSession.builder", builder))
    took: dict[str, list[float]] = {f"each request of the look + {delay:g} s": [] for delay in DELAYS_S}
    with EmbeddedEnsemble(bench.directory) as ensemble:
        fleet = SparkFleet(
            ensemble,
            f"/start-{uuid.uuid4().hex[:8]}",
            bench.directory,
            supervisors=1,
            lease_s=20.0,
            session_s=10.0,
            endpoint_url=slow.endpoint_url,
            bucket=bench.bucket,
            s3a_jars=s3a_jars(),
        )
        with fleet:
            fleet.submit("counts", application=direct, conf=dict(bench.server.s3a))
            fleet.wait_batches("counts", timeout_s=FIRST_BATCH_MAX_S / 3)
            for _ in range(bench.chosen.rounds):
                for name, delay_s[0] in zip(took, DELAYS_S, strict=True):
                    attempt = fleet.show("counts")["attempt"] + 1
                    fleet.ok("restart", "counts")
                    first = fleet.wait_batch_of("counts", attempt)
                    launch = next(fleet.members[0].attempts_dir.glob(f"*.{attempt}/launch.json"))
                    took[name].append(first.at_s - json.loads(launch.read_bytes())["begun_s"])
                    fleet.wait_batches("counts")
    slow.stop()
    table(took, "s")


def found_well(finding: object) -> None:
    assert finding is None, finding


def savepoints(bench: Bench) -> None:
    tools = {"savepoint create": saved, **copiers(bench.chosen.cache)}
    for count in bench.chosen.objects:
        source = f"made-{count}"
        put(bench, source, checkpoint(count))
        took: dict[str, list[float]] = {name: [] for name in tools}
        more: dict[str, str] = {
            "savepoint create": "",
            "aws s3 sync": "pip has no awscli here",
            "s5cmd sync": "not on the PATH, and Go can't build it here",
        }
        for number in range(bench.chosen.rounds):
            for name, copy in tools.items():
                if copy is None:
                    continue
                target = f"copy-{count}-{number}-{name.replace(' ', '-')}"
                begun_at_s = time.monotonic()
                more[name] = copy(bench, source, target)
                took[name].append(time.monotonic() - begun_at_s)
                assert copied(bench, target) >= count
        print(f"  {count:,} objects", flush=True)
        table(took, "s", {name: text for name, text in more.items() if took[name] or tools[name] is None})


def saved(bench: Bench, source: str, target: str) -> str:
    """As the command makes it: listed, copied, judged, compared with a listing, and only then vouched for."""
    one, other = (open_area(f"s3a://{bench.bucket}/{place}", bench.access) for place in (source, target))
    begun = Begun(
        id="s1",
        name="a",
        uid="u",
        attempt=1,
        source=one.location,
        location=other.location,
        access=bench.access,
        at=wall_iso(),
        software="0",
    )
    manifest = Creation(one, other, begun, wall_iso).run()
    return f"{one.requests + other.requests} requests for {manifest.objects} objects, verified"


Copier = Callable[[Bench, str, str], str]


def copiers(cache: Path) -> dict[str, Copier | None]:
    aws, s5cmd = awscli(cache), go_program(S5CMD, cache)

    def by_aws(bench: Bench, source: str, target: str) -> str:
        run(
            [
                aws,
                "s3",
                "sync",
                "--only-show-errors",
                "--endpoint-url",
                bench.server.endpoint_url,
                f"s3://{bench.bucket}/{source}",
                f"s3://{bench.bucket}/{target}",
            ]
        )
        return ""

    def by_s5cmd(bench: Bench, source: str, target: str) -> str:
        run(
            [
                s5cmd,
                "--log",
                "error",
                "--endpoint-url",
                bench.server.endpoint_url,
                "sync",
                f"s3://{bench.bucket}/{source}/*",
                f"s3://{bench.bucket}/{target}/",
            ]
        )
        return ""

    return {
        "aws s3 sync": by_aws if aws is not None else None,
        "s5cmd sync": by_s5cmd if s5cmd is not None else None,
    }


def go_program(module: str, cache: Path) -> Path | None:
    """``module@version``, built once and kept in ``cache``; one on the PATH counts. None: it can't be had here."""
    name = module.partition("@")[0].removesuffix("/v2").rpartition("/")[2]
    built = cache / "bin" / name
    found = shutil.which(name)
    if found is not None or built.exists():
        return Path(found) if found is not None else built
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        return None
    env = {**os.environ, "GOPATH": str(cache), "GOBIN": str(built.parent), "GOFLAGS": "-modcacherw"}
    done = subprocess.run(
        [go, "install", module], env=env, capture_output=True, text=True, timeout=FETCH_MAX_S, check=False
    )
    if done.returncode != 0:
        print(f"  {name} can't be built here: {done.stderr.strip().splitlines()[-1:]}", flush=True)
    return built if done.returncode == 0 else None


def awscli(cache: Path) -> Path | None:
    """From PyPI, in an environment of its own: its pins are none of ours."""
    place = cache / "awscli"
    program = place / "bin" / "aws"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        with suppress(subprocess.SubprocessError):
            subprocess.run(
                [place / "bin" / "pip", "install", "--quiet", "awscli"], check=True, timeout=FETCH_MAX_S
            )
    return program if program.exists() else None


def run(argv: Sequence[object]) -> None:
    done = subprocess.run(
        [str(each) for each in argv], capture_output=True, text=True, timeout=COPY_MAX_S, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{argv[0]} failed: {(done.stderr or done.stdout).strip()[-600:]}")


def copied(bench: Bench, prefix: str) -> int:
    pages = (
        bench.server.client()
        .get_paginator("list_objects_v2")
        .paginate(Bucket=bench.bucket, Prefix=f"{prefix}/")
    )
    return sum(page["KeyCount"] for page in pages)


def log_writes(bench: Bench) -> None:
    driver = Driver("first", bench.directory, bench.server, bench.chosen.heap)
    logs: dict[str, list[float]] = {name: [] for name in MANAGERS}
    whole: dict[str, list[float]] = {name: [] for name in MANAGERS}
    try:
        driver.answer()
        for number in range(bench.chosen.rounds):
            for name, manager in MANAGERS.items():
                own = bench.directory / f"{name}-{number}"
                own.mkdir()
                entries, all_of_it = times(
                    driver, manager, own, f"s3a://{bench.bucket}/{own.name}", bench.chosen.batches
                )
                logs[name] += entries
                whole[name] += all_of_it
    finally:
        driver.end()
    table({f"two log entries, {name}": took for name, took in logs.items()}, "ms")
    table({f"whole batch, {name}": took for name, took in whole.items()}, "ms")


def cold_starts(bench: Bench) -> None:
    jars = {"thin S3A jars": s3a_jars(), "the AWS SDK's bundle": with_bundle(bench.chosen.cache)}
    took: dict[str, list[float]] = {name: [] for name in jars}
    for number in range(bench.chosen.rounds):
        for name, directory in jars.items():
            own = bench.directory / f"{name.replace(' ', '-')}-{number}"
            own.mkdir()
            took[name].append(cold_start(bench, own, directory))
    sizes = {
        name: f"{sum(jar.stat().st_size for jar in where.glob('*.jar')) / 1e6:.0f} MB"
        for name, where in jars.items()
    }
    table(took, "s", sizes)


def cold_start(bench: Bench, own: Path, jars: Path) -> float:
    begun_at_s = time.monotonic()
    driver = Driver("first", own, bench.server, bench.chosen.heap, jars)
    try:
        driver.answer()
        place = f"s3a://{bench.bucket}/{uuid.uuid4().hex[:8]}"
        driver.call(
            "start",
            manager=MANAGERS["ours"],
            checkpoint=place,
            sink=str(own / "sink"),
            every="0 seconds",
            other=None,
        )
        wait_until(
            lambda: len(batches(own / "sink")) >= 2, FIRST_BATCH_MAX_S, "the first batch to be committed"
        )
        return time.monotonic() - begun_at_s
    finally:
        driver.end()


def with_bundle(cache: Path) -> Path:
    """The thin set, with the bundle in the place of the SDK's modules."""
    thin = s3a_jars()
    version = next(thin.glob("s3-transfer-manager-*.jar")).stem.removeprefix("s3-transfer-manager-")
    place = cache / f"bundle-{version}"
    if not (place / f"bundle-{version}.jar").exists():
        place.mkdir(parents=True, exist_ok=True)
        artifact = f"-Dartifact=software.amazon.awssdk:bundle:{version}"
        subprocess.run(
            [
                "mvn",
                "-C",
                "--batch-mode",
                "--quiet",
                "dependency:copy",
                artifact,
                f"-DoutputDirectory={place}",
            ],
            check=True,
            timeout=FETCH_MAX_S,
            stdin=subprocess.DEVNULL,
        )
    for jar in thin.glob("*.jar"):
        if not jar.stem.endswith(f"-{version}"):
            shutil.copy2(jar, place)
    return place


PARTS: dict[str, Callable[[Bench], None]] = {
    "preflight": preflights,
    "start": starts,
    "savepoint": savepoints,
    "log-writes": log_writes,
    "cold-start": cold_starts,
}

if __name__ == "__main__":
    main()
