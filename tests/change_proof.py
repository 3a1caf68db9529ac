"""``python -m tests.change_proof [--on file s3a] [--quick]``: a job with real Spark is changed again and again, and loses nothing.

A stateful aggregate reads files that come one by one, and its job goes through ten updates (arguments, conf, memory, environment,
code), three roll backs, a revision of which no driver can be prepared, a drain of its host, and a fork that is promoted. In the end
the input is closed, an undisturbed spark-submit reads the same files, and both results, with what plain Python expects, must be
equal. Judged is what the drivers themselves wrote down: also that no two ran at once, and that no batch was left out or changed.

The gap of each change is the time from the last batch of the old driver to the first of the new one. Beside them, in the same run,
stand those of ``cancel`` and ``submit``, and of ``restart --cold``; ratios are to the former. Exit code 0: the result held.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from supervisor.cli.main import COMMANDS
from supervisor.spark.properties import render_properties
from supervisor.spark.toolchain import installed_spark_home
from tests import results
from tests.benchmark_start import properties_for, served, wait_for_archives
from tests.savepoint_proof import CLOSING, Rows, expected_of, write_input
from tests.testbed.fleet import DRIVER, SHIM, CommandResult
from tests.testbed.s3a_jars import s3a_jars
from tests.testbed.spark_fleet import APPLICATIONS, CONF, START_S, SinkBatch, SparkFleet
from tests.waiting import wait_until

FILES_MAX, FILE_EVERY_S = 4000, 1.0
FILES_A_BATCH, UNDISTURBED_FILES, LATE_FROM = 25, 25, 60
"""Two batches come before the first rows that are too late (tests/savepoint_proof.py)."""
END_MAX_S = 600.0
UNDISTURBED_MAX_S = 3600.0
"""Of a whole run over all that was fed meanwhile."""
UNREACHABLE = 5
"""Exit code."""
AT_ONCE, COLD, RESUBMIT = "restart, prepared", "restart --cold", "cancel and submit"
UPDATE, ROLL_BACK, DRAIN, PROMOTE = "update", "roll back", "drain of its host", "fork and promote"
COLUMNS = ("gap of", "changes", "median", "from–to", "ratio to cancel and submit")


class Feeder:
    """Gives the job one file of the input after the other; ``close`` ends it with a row that lets every window end."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.source = directory / "input"
        self.source.mkdir()
        self._prepared = directory / "prepared"
        write_input(self._prepared, FILES_MAX, seed, LATE_FROM)
        self._files = iter(sorted(self._prepared.iterdir())[:-1])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)
        self._thread.start()

    def __enter__(self) -> Feeder:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _feed(self) -> None:
        for file in self._files:
            os.link(file, self.source / file.name)
            if self._over.wait(FILE_EVERY_S):
                return

    def close(self) -> Rows:
        """Returns what must come out of all that was given."""
        ran_out = not self._thread.is_alive()
        self._over.set()
        self._thread.join()
        assert not ran_out, f"the input of {FILES_MAX} files ended before the changes did"
        last = self._prepared / "closing"
        last.write_text(json.dumps(CLOSING) + "\n")
        newest_at_s = max(file.stat().st_mtime for file in self.source.iterdir()) + 1
        os.utime(last, (newest_at_s, newest_at_s))
        last.rename(self.source / f"{FILES_MAX:05}.json")
        return expected_of(self.source)


@dataclass
class Proof:
    """``gaps``: by kind of change in seconds; ``absent``: what this version cannot do; ``spec``: what is declared now;
    ``cluster``: where its executors are."""

    fleet: SparkFleet
    feeder: Feeder
    directory: Path
    prefix: str
    job: str
    cluster: str = ""
    spec: dict[str, Any] = field(default_factory=dict)
    superseded: dict[str, Any] = field(default_factory=dict)
    gaps: dict[str, list[float]] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    promoted_after: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        shutil.copy(APPLICATIONS / "counts.py", self.directory)
        self.spec = {
            "application": self.application(1),
            "py_files": [str(self.directory / "counts.py")],
            "args": ["{checkpoint}", str(self.feeder.source), str(FILES_A_BATCH), "1 second"],
            "checkpoint": f"{self.prefix}/{self.job}",
            "env": {"EDITION": "1", "EXHAUST": str(self.exhaust)},
            "conf": {},
            **({"cluster": self.cluster} if self.cluster else {}),
        }

    @property
    def exhaust(self) -> Path:
        return self.directory / "exhaust"

    def application(self, edition: int) -> str:
        """The application, as somebody has edited it."""
        path = self.directory / f"edition-{edition}" / "windows.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{(APPLICATIONS / 'windows.py').read_text()}\n# edition {edition}\n")
        return str(path)

    def spec_file(self, **changes: Any) -> str:
        return str(self.fleet.spec_file(self.job, **{**self.spec, **changes}))

    def call(self, *words: str) -> None:
        """A command that succeeds. One that reached store or ZooKeeper in vain was not acknowledged, and is given again."""
        ran = wait_until(partial(self._called, *words), END_MAX_S, f"an answer to {words[0]}", period_s=1.0)
        assert ran.code == 0, f"{' '.join(words)}: exit code {ran.code}: {ran.err}"

    def _called(self, *words: str) -> CommandResult | None:
        ran = self.fleet.cli(*words)
        return None if ran.code == UNREACHABLE else ran

    def newest(self) -> SinkBatch:
        return self.fleet.batches(self.job)[-1]

    def tell(self, text: str) -> None:
        print(f"  {text:<64} load {os.getloadavg()[0]:.1f}", flush=True)


Change = Callable[[Proof], None]


@dataclass(frozen=True)
class Step:
    """``needs``: commands without which it is left out, and that is said. ``stops``: the driver that runs is replaced."""

    kind: str
    what: str
    do: Change
    needs: tuple[str, ...] = ()
    stops: bool = True


def measure(proof: Proof, step: Step) -> None:
    """Carry a step out and note its gap: the new driver's first batch after the last one of the old driver."""
    if missing := [name for name in step.needs if name not in {each.name for each in COMMANDS}]:
        proof.absent.append(f"{step.kind}: this version has no {' and no '.join(missing)}")
        proof.tell(f"{step.kind}: NOT THERE, this version has no {' and no '.join(missing)}")
        return
    fleet, old_job = proof.fleet, proof.job
    old = _place(proof.newest())
    step.do(proof)
    if not step.stops:
        fleet.wait_batches(proof.job, 2, START_S)
        assert _place(proof.newest()) == old, f"{step.what}: the driver was replaced"
        proof.tell(f"{step.kind}: {step.what}: nothing was stopped")
        return

    def gap_s() -> float | None:
        last = max(each.at_s for each in fleet.batches(old_job) if _place(each) == old)
        later = (b for b in fleet.batches(proof.job) if _place(b) != old and b.at_s > last)
        first = next(later, None)
        return None if first is None else first.at_s - last

    found_s = wait_until(gap_s, START_S, f"a batch after {step.kind}: {step.what}", period_s=0.1)
    proof.gaps.setdefault(step.kind, []).append(found_s)
    proof.tell(f"{step.kind}: {step.what}: {found_s:.1f} s")
    fleet.wait_batches(proof.job, 2, START_S)


def _place(batch: SinkBatch) -> tuple[str, str, int]:
    return batch.job, batch.uid, batch.attempt


# -- the changes --------------------------------------------------------------------------------------------------------


def update(**changes: Any) -> Change:
    def do(proof: Proof) -> None:
        merged = {**proof.spec, **changes}
        if "edition" in changes:
            merged["application"] = proof.application(merged.pop("edition"))
        proof.superseded, proof.spec = proof.spec, merged
        path = proof.spec_file()
        proof.call("apply", path, "--wait")
        assert proof.fleet.show(proof.job)["update"]["state"] in ("observing", "done")

    return do


def timing(files_a_batch: int, trigger: str) -> Change:
    def do(proof: Proof) -> None:
        args = ["{checkpoint}", str(proof.feeder.source), str(files_a_batch), trigger]
        update(args=args)(proof)

    return do


def roll_back(proof: Proof) -> None:
    proof.call("rollback", proof.job, "--wait")
    proof.spec = proof.superseded


def another_edition(proof: Proof) -> None:
    update(env={**proof.spec["env"], "EDITION": "2"})(proof)


def restart(*words: str) -> Change:
    def do(proof: Proof) -> None:
        proof.call("restart", proof.job, *words)

    return do


def resubmit(proof: Proof) -> None:
    proof.call("cancel", proof.job, "--wait")
    proof.call("submit", proof.spec_file())


def drain(proof: Proof) -> None:
    host = str(proof.fleet.show(proof.job)["supervisor"])
    proof.call("drain", host, "--wait")
    assert proof.fleet.show(proof.job)["supervisor"] != host
    proof.call("uncordon", host)


def promote(proof: Proof) -> None:
    """From here on the fork is the job: what it gave counts from its first batch on."""
    old, new = proof.job, f"{proof.job}-green"
    proof.call("fork", old, new, "--shared-sink", "--sink", "repeats")
    proof.fleet.wait_batches(new, 1, START_S)
    proof.call("promote", new, "--over", old, "--when", "caught-up")
    proof.promoted_after = (old, proof.fleet.batches(new)[0].batch_id - 1)
    proof.job = new


def break_it(proof: Proof) -> None:
    """A revision of which no driver can be prepared."""
    broken = proof.directory / "broken" / "windows.py"
    broken.parent.mkdir(exist_ok=True)
    broken.write_text("def main(:\n")
    ran = proof.fleet.cli("apply", proof.spec_file(application=str(broken)), "--wait")
    assert ran.code == 1 and "runs on as it was" in ran.err, ran


def kill(file: str) -> Change:
    """kill -9 of the job's driver, or of its shim."""

    def do(proof: Proof) -> None:
        proof.fleet.signal(proof.fleet.process(proof.job, file), signal.SIGKILL)

    return do


def kill_supervisor(proof: Proof) -> None:
    """That of its host, which a service manager starts again."""
    proof.fleet.kill(proof.fleet.host_of(proof.job))
    proof.fleet.restart_all()


def lose_host(proof: Proof) -> None:
    """All processes of its host are gone at once; another host goes on, and then it comes back."""
    fleet, member = proof.fleet, proof.fleet.host_of(proof.job)
    attempt = fleet.show(proof.job)["attempt"]
    fleet.kill_host(member)
    fleet.wait_batch_of(proof.job, attempt + 1, fleet.uid(proof.job))
    assert fleet.show(proof.job)["supervisor"] != member.id
    fleet.restart_all()


def with_standby(proof: Proof) -> None:
    """Its own failures that follow are no reason to roll it back."""
    policy = {"update": {"observe": "1s"}, "restart": {"memory_step": 1.2, "memory_max": "900m"}}
    update(standby={"level": "session"}, **policy)(proof)


def take_over(proof: Proof) -> None:
    """The driver dies, and the standby on the other host goes on."""
    fleet, host = proof.fleet, proof.fleet.show(proof.job)["supervisor"]
    wait_until(partial(_standby_ready, proof), START_S, "a standby", period_s=0.5)
    attempt = fleet.show(proof.job)["attempt"]
    kill(DRIVER)(proof)
    fleet.wait_batch_of(proof.job, attempt + 1, fleet.uid(proof.job))
    assert fleet.show(proof.job)["supervisor"] != host
    assert "prepared" in fleet.ok("history", proof.job).out


def _standby_ready(proof: Proof) -> bool:
    return any(each.get("ready_at") for each in proof.fleet.show(proof.job)["prepared"])


def suspend(proof: Proof) -> None:
    """Ends at a batch boundary: nothing is left to be replayed."""
    fleet, old = proof.fleet, proof.fleet.uid(proof.job)
    attempt = fleet.show(proof.job)["attempt"]
    proof.call("suspend", proof.job, "--wait")
    assert fleet.show(proof.job)["stop_mode"] == "batch_boundary"
    last = proof.newest().batch_id
    proof.call("resume", proof.job)
    assert fleet.wait_batch_of(proof.job, attempt + 1, old).batch_id == last + 1


def run_out_of_memory(proof: Proof) -> None:
    """A JVM whose heap is exhausted is followed by one with more."""
    fleet = proof.fleet
    attempt = fleet.show(proof.job)["attempt"]
    proof.exhaust.touch()
    fleet.wait_batch_of(proof.job, attempt + 1, fleet.uid(proof.job))
    row = fleet.show(proof.job)
    assert row["last_exit"]["cause"] == "out_of_memory", row["last_exit"]
    assert "raised" in row["driver_memory"], row["driver_memory"]


def save(proof: Proof) -> None:
    proof.call("savepoint", "create", proof.job)


BROKEN_STEP = Step("broken update", "no Python", break_it, stops=False)
ROLL_BACK_STEP = Step(ROLL_BACK, "to the spec before", roll_back)
DRAIN_STEP = Step(DRAIN, "and back in service", drain, ("drain", "uncordon"))
PROMOTE_STEP = Step(PROMOTE, "over the job", promote, ("fork", "promote"))
BESIDE = (
    Step(RESUBMIT, "as without hand-overs", resubmit),
    Step(COLD, "on the same host", restart("--cold")),
    Step(AT_ONCE, "without a change", restart()),
)
WHOLE: tuple[Step, ...] = (
    Step(UPDATE, "args: trigger of 0.5 s", timing(FILES_A_BATCH, "500 milliseconds")),
    Step(UPDATE, "conf: log level", update(conf={"spark.log.level": "ERROR"})),
    ROLL_BACK_STEP,
    BROKEN_STEP,
    *BESIDE,
    Step(UPDATE, "memory: 200 MiB more", update(conf={"spark.driver.memory": "800m"})),
    Step(UPDATE, "env", another_edition),
    Step(UPDATE, "code", update(edition=2)),
    ROLL_BACK_STEP,
    DRAIN_STEP,
    Step(UPDATE, "args: fewer files a batch", timing(20, "1 second")),
    Step(UPDATE, "conf: batches kept", update(conf={"spark.sql.streaming.minBatchesToRetain": "20"})),
    *BESIDE,
    Step(UPDATE, "code", update(edition=3)),
    Step(UPDATE, "resources", update(resources={"memory": "1500m"})),
    ROLL_BACK_STEP,
    *BESIDE,
    Step(UPDATE, "args: as in the beginning", timing(FILES_A_BATCH, "1 second")),
    PROMOTE_STEP,
)
CRASHES: tuple[Step, ...] = (
    Step("crash", "kill -9 of the driver", kill(DRIVER)),
    Step("crash", "kill -9 of the shim", kill(SHIM)),
    Step("crash", "kill -9 of the supervisor of its host", kill_supervisor, stops=False),
)
STANDBY, OUT_OF_MEMORY, LOST_HOST = "standby", "out of memory", "lost host"
AT_THE_BOUNDARY = "suspend and resume"
LOSSES: tuple[Step, ...] = (
    Step(AT_THE_BOUNDARY, "at a batch boundary", suspend),
    Step("savepoint", "while it runs", save, stops=False),
    Step(LOST_HOST, "kill -9 of all that is there", lose_host),
    Step(UPDATE, "a standby, and more memory after a lack of it", with_standby),
    Step(STANDBY, "kill -9 of the driver", take_over),
    Step(OUT_OF_MEMORY, "of the heap", run_out_of_memory),
    ROLL_BACK_STEP,
)
SMALLEST: tuple[Step, ...] = (
    Step(UPDATE, "args: trigger of 0.5 s", timing(FILES_A_BATCH, "500 milliseconds")),
    Step(UPDATE, "memory and code", update(conf={"spark.driver.memory": "700m"}, edition=2)),
    ROLL_BACK_STEP,
)
SMALL: tuple[Step, ...] = (*SMALLEST, BROKEN_STEP, DRAIN_STEP, *BESIDE, PROMOTE_STEP)


# -- the proof ----------------------------------------------------------------------------------------------------------


def prove(
    fleet: SparkFleet, where: str, directory: Path, steps: Sequence[Step], seed: int = 1, cluster: str = ""
) -> Proof:
    """Raises AssertionError if the result is not that of an undisturbed run, or if what the drivers wrote is not as it must be."""
    directory.mkdir()
    prefix = (
        f"file://{directory}/checkpoints" if where == "file" else f"s3a://{fleet.bucket}/{directory.name}"
    )
    fleet.expected = None
    with Feeder(directory, seed) as feeder:
        proof = Proof(fleet, feeder, directory, prefix, f"proof-{cluster or where}", cluster)
        proof.call("submit", proof.spec_file())
        fleet.wait_batches(proof.job, 3, START_S)
        for step in steps:
            measure(proof, step)
        expected = feeder.close()
    total = sum(expected.values())
    wait_until(lambda: sum(result_of(proof).values()) >= total, END_MAX_S, f"{total} results", period_s=0.5)
    for name in {proof.job, *(() if proof.promoted_after is None else proof.promoted_after[:1])}:
        proof.call("cancel", name, "--wait")
    undisturbed = run_undisturbed(proof)
    got = result_of(proof)
    proof.tell(
        f"{total} results of {len(list(proof.feeder.source.iterdir()))} files are expected; undisturbed {sum(undisturbed.values())}"
    )
    assert undisturbed == expected, f"the undisturbed run differs by {difference(undisturbed, expected)}"
    assert got == undisturbed, f"the changed job's result differs by {difference(got, undisturbed)}"
    fleet.judge()
    proof.tell("EQUAL: the changed job gave exactly what the undisturbed run gave")
    return proof


def result_of(proof: Proof) -> Rows:
    """What the batches gave, each once: a repeat of one after a crash is the same (``fleet.judge``)."""
    batches = {each.batch_id: each for each in proof.fleet.batches(proof.job)}
    if proof.promoted_after is not None:
        old, last = proof.promoted_after
        batches |= {each.batch_id: each for each in proof.fleet.batches(old) if each.batch_id <= last}
    return rows_of(list(batches.values()))


def rows_of(batches: Sequence[SinkBatch]) -> Rows:
    found = ((*map(int, where.split()), *shown) for each in batches for where, shown in each.counts.items())
    return Counter(found)


def run_undisturbed(proof: Proof) -> Rows:
    """A spark-submit of the same application, from the first file to the last."""
    fleet, name = proof.fleet, f"undisturbed-{proof.directory.name}"
    conf = dict(CONF)
    if proof.prefix.startswith("s3a"):
        conf |= properties_for("s3a", fleet.endpoint_url) | {"spark.driver.extraClassPath": f"{s3a_jars()}/*"}
    file = proof.directory / "undisturbed.properties"
    file.write_text(render_properties(conf), encoding="ascii")
    env = {
        **os.environ,
        "WITNESS": str(fleet.witness_file),
        "SPARK_SUPERVISOR_JOB": name,
        "SPARK_SUPERVISOR_UID": name,
        "SPARK_SUPERVISOR_ATTEMPT": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(APPLICATIONS),
    }
    submit = installed_spark_home() / "bin" / "spark-submit"
    words = (f"{proof.prefix}/undisturbed", str(proof.feeder.source), str(UNDISTURBED_FILES), "now")
    argv = [str(submit), "--properties-file", str(file), "--master", "local[1]"]
    with (proof.directory / "undisturbed.log").open("wb") as log:
        done = subprocess.run(
            [*argv, str(APPLICATIONS / "windows.py"), *words],
            env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=UNDISTURBED_MAX_S,
        )  # fmt: skip
    assert done.returncode == 0, (proof.directory / "undisturbed.log").read_text()[-2000:]
    return rows_of(fleet.batches(name))


def difference(one: Rows, other: Rows) -> str:
    return f"{sum((other - one).values())} rows that are missing and {sum((one - other).values())} that are too many"


def figures(proof: Proof) -> list[tuple[str, ...]]:
    base = statistics.median(proof.gaps[RESUBMIT])
    rows = [
        (
            kind,
            str(len(gaps)),
            f"{statistics.median(gaps):.1f} s",
            f"{min(gaps):.1f}–{max(gaps):.1f}",
            f"{statistics.median(gaps) / base:.2f}",
        )
        for kind, gaps in proof.gaps.items()
    ]
    return [*rows, *((why, "0", "", "", "") for why in proof.absent)]


def tell(where: str, rows: Sequence[tuple[str, ...]]) -> None:
    print(f"\n{where}: {', '.join(COLUMNS)}", flush=True)
    for row in rows:
        print("  {:<56} {:>3} {:>9} {:>12} {:>6}".format(*row), flush=True)


def main() -> int:
    measured = results.Measured(".", "tests.change_proof")
    given = argparse.ArgumentParser(prog="python -m tests.change_proof", description=__doc__)
    given.add_argument(
        "--on", nargs="*", choices=("file", "s3a"), default=["file", "s3a"], help="checkpoints"
    )
    given.add_argument("--quick", action="store_true", help="few changes, one of each kind")
    given.add_argument("--seed", type=int, default=1)
    results.add_option(given)
    chosen = given.parse_args()
    held = True
    with tempfile.TemporaryDirectory() as name, served(Path(name)) as (fleet, _):
        wait_for_archives(fleet)  # or it is made beside the first changes
        for where in chosen.on:
            print(f"\n{where}", flush=True)
            try:
                proof = prove(fleet, where, Path(name) / where, SMALL if chosen.quick else WHOLE, chosen.seed)
            except AssertionError as error:
                print(f"DIFFERENT, or not as it must be: {error}", flush=True)
                held = False
                continue
            rows = figures(proof)
            tell(where, rows)
            if chosen.write_results:
                measured.write(f"What a change costs, {where}://", COLUMNS, rows)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
