"""A fleet with real Spark: store and checkpoints on a real S3 API, drivers that keep the witness of tests/e2e/applications.

Called by the e2e tests. As ``Fleet``: what is true is what the drivers wrote, never what the product says. Their JVM writes
nothing under PySpark, so a thread of the test looks whether it lives; what it saw alive counts as a beat.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import threading
import uuid
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from supervisor.clients import processes
from supervisor.clients.processes import ProcessId
from supervisor.clock import boottime_s
from tests.faults import checker
from tests.faults.checker import WitnessNote
from tests.testbed.ensembles import Ensemble
from tests.testbed.fleet import DRIVER, CommandResult, Fleet, FleetMember
from tests.testbed.growing import Growing
from tests.testbed.moto import MotoServer, use_only
from tests.testbed.other_spark import OtherSpark, chosen_spark
from tests.testbed.s3a_jars import s3a_jars
from tests.waiting import wait_until

APPLICATIONS = Path(__file__).resolve().parents[1] / "e2e" / "applications"
ROWS_PER_BATCH, KEYS = 30, 3
START_S = 420.0
"""For a cold start of Spark on a busy machine; nothing is asserted about time."""

LIGHT_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A driver that lives for a minute is through with its start-up in half the CPU time."""

LIGHT_PROPERTIES = f"""\
spark.ui.enabled=false
spark.sql.shuffle.partitions=1
spark.log.level=ERROR
spark.driver.extraJavaOptions={LIGHT_JVM}
"""
"""For a spark-submit that is called by the test itself."""

CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.log.level": "WARN",
    "spark.driver.memory": "600m",
    "spark.driver.extraJavaOptions": LIGHT_JVM,
}


Expected = Callable[[int], dict[str, list[int]]]
"""Number of a batch → what it shows: key → numbers."""


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """One call of the sink: before the commit, so a batch that was committed is here. ``counts``: key → [rows, sum]."""

    job: str
    uid: str
    attempt: int
    pid: int
    at_s: float
    batch_id: int
    counts: dict[str, list[int]]


@dataclass
class SparkFleet(Fleet):
    """``bucket``: holds ``store/`` and ``checkpoints/``. ``endpoints``: of the store, by member number, where it differs.

    ``expected``: what each batch must show; None: whoever made the fleet judges that.
    """

    endpoint_url: str = ""
    bucket: str = ""
    s3a_jars: Path = Path()
    spark: dict[str, Any] = field(default_factory=dict)
    endpoints: dict[int, str] = field(default_factory=dict)
    expected: Expected | None = field(default_factory=lambda: expected_counts)

    @classmethod
    @contextmanager
    def on_moto(
        cls,
        ensemble: Ensemble,
        moto: MotoServer,
        directory: Path,
        *,
        lease_s: float = 20.0,
        env: Mapping[str, str] | None = None,
        spark: OtherSpark | None = None,
        clusters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        size: int = 2,
    ) -> Iterator[Self]:
        """Started, on a new bucket; ``env``: of its members, besides the keys of ``moto``. ``spark``: what its hosts have,
        if it is not the supervisor's own; ``settings``: more of the section ``spark`` of its ``size`` members."""
        other = spark or chosen_spark()
        python = {"PYSPARK_PYTHON": str(other.python)} if other is not None else {}
        with pytest.MonkeyPatch.context() as patch:
            use_only(patch, {**moto.env, **python, **(env or {})})
            made = cls(
                ensemble,
                f"/{directory.name}-{uuid.uuid4().hex[:12]}",
                directory,
                supervisors=size,
                lease_s=lease_s,
                grace_s=15.0,
                session_s=10.0,
                endpoint_url=moto.endpoint_url,
                bucket=moto.new_bucket(),
                clusters=dict(clusters or {}),
                s3a_jars=other.s3a_jars if other is not None else s3a_jars(),
                spark={**({"home": str(other.home)} if other is not None else {}), **(settings or {})},
            )
            with made:
                yield made

    def __post_init__(self) -> None:
        self.store = f"s3://{self.bucket}/store"
        super().__post_init__()
        self._watcher = _Watcher(self.witness_file)

    def start(self) -> None:
        super().start()
        self._watcher.start()

    def stop(self) -> None:
        self._watcher.stop()
        super().stop()

    def restore(self) -> None:
        """Everybody is up again; jobs are left alone."""
        for i, member in enumerate(self.members):
            if not member.running:
                self.start_member(i)
        self.wait_complete()

    # -- jobs -----------------------------------------------------------------------------------------------------------

    def checkpoint(self, name: str) -> str:
        return f"s3a://{self.bucket}/checkpoints/{name}"

    def spec_file(self, name: str, *, knobs: dict[str, Any] | None = None, **spec: Any) -> Path:
        """``counts.py`` as it is, unless ``spec`` says something else."""
        assert not knobs
        directory = self.directory / "specs" / name
        directory.mkdir(parents=True, exist_ok=True)
        application = Path(spec.pop("application", APPLICATIONS / "counts.py"))
        shutil.copy(application, directory)
        body = {
            "name": name,
            "application": application.name,
            "args": ["{checkpoint}"],
            **({} if "cluster" in spec else {"master": "local[1]"}),
            "checkpoint": self.checkpoint(name),
            **spec,
            "conf": {**CONF, **spec.get("conf", {})},
        }
        path = directory / "job.yaml"
        path.write_text(yaml.safe_dump(body))
        return path

    def ok_on(self, member: FleetMember, *words: str) -> CommandResult:
        """A command on the host of ``member``, with its configuration, that succeeds."""
        done = self.run_on(member, *words)
        assert done.code == 0, f"{' '.join(words)}: exit code {done.code}: {done.err}"
        return done

    def run_on(self, member: FleetMember, *words: str, timeout_s: float = 60.0) -> CommandResult:
        """A command on the host of ``member``, with its configuration."""
        argv = [sys.executable, "-P", "-c", "from supervisor.cli.main import main; main()", *words]
        done = subprocess.run(
            [*argv, "--config", str(member.config)], capture_output=True, text=True, timeout=timeout_s
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def root_of(self, name: str) -> ProcessId:
        """The root of the newest attempt's driver tree."""
        return self.process(name, DRIVER)

    def tree(self, name: str, uid: str | None = None) -> list[ProcessId]:
        """All living processes of the job's drivers, by the marks in their environment."""
        marks = {f"SPARK_SUPERVISOR_JOB={name}".encode(), f"WITNESS={self.witness_file}".encode()}
        if uid is not None:
            marks.add(f"SPARK_SUPERVISOR_UID={uid}".encode())
        return [process for process in self.processes() if marks <= set(_environment(process.pid))]

    # -- the witness ----------------------------------------------------------------------------------------------------

    def lines(self, name: str, event: str) -> list[dict[str, Any]]:
        """Lines of the witness as they are, in the order in which they were written."""
        marks = (json.dumps(name).encode(), json.dumps(event).encode())
        found = (
            json.loads(line)
            for line in _whole_lines(self.witness_file)
            if all(mark in line for mark in marks)
        )
        return [line for line in found if line["job"] == name and line["event"] == event]

    def batches(self, name: str) -> list[SinkBatch]:
        return [
            SinkBatch(
                line["job"],
                line["uid"],
                line["attempt"],
                line["pid"],
                line["boottime"],
                line["batch_id"],
                line["counts"],
            )
            for line in self.lines(name, "batch")
        ]

    def wait_batches(self, name: str, more: int = 3, timeout_s: float = START_S) -> int:
        return super().wait_batches(name, more, timeout_s)

    def wait_batch_of(self, name: str, attempt: int, uid: str | None = None) -> SinkBatch:
        """The first batch of that attempt."""

        def made() -> SinkBatch | None:
            found = (b for b in self.batches(name) if b.attempt == attempt and uid in (None, b.uid))
            return next(found, None)

        try:
            return wait_until(made, START_S, f"a batch of attempt {attempt} of {name}", period_s=0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.cli('show', name).out}\n{self.log_tail(name)}") from None

    def wait_state(self, name: str, *states: str, timeout_s: float = START_S) -> dict[str, Any]:
        return super().wait_state(name, *states, timeout_s=timeout_s)

    def log_tail(self, name: str) -> str:
        """The end of what the newest driver said."""
        logs = [path for member in self.members for path in (member.directory / "log" / name).glob("*.log")]
        return "\n".join(f"--- {log}\n{log.read_text(errors='replace')[-3000:]}" for log in logs[-1:])

    def judge(self) -> None:
        """As ``Fleet``, but a batch may be replayed after a crash, if it is the same batch."""
        notes = [*self.notes(), *self._watcher.seen()]
        notes.sort(key=lambda note: note.at_s)
        found = [
            *checker.overlaps(notes),
            *checker.revived(notes, self.acknowledged),
            *checker.outlived(notes, self.acknowledged, self.grace_s),
            *checker.misnumbered(notes),
        ]
        for name in sorted({note.job for note in notes}):
            found += batch_faults(self.batches(name), self.expected)
            found += [
                f"I1: {name} {line['uid']}.{line['attempt']} found processes of another attempt: {line['strangers']}"
                for line in self.lines(name, "start")
                if line.get("strangers")
            ]
        assert not found, "\n".join(found)

    def tell_logs(self) -> None:
        super().tell_logs()
        for name in sorted({note.job for note in self.notes()}):
            print(self.log_tail(name))

    # -- settings -------------------------------------------------------------------------------------------------------

    def _settings(self, hosts: str) -> dict[str, Any]:
        return super()._settings(hosts) | {
            "store": {"url": self.store, "endpoint_url": self.endpoint_url},
            "spark": {"s3a_jars": str(self.s3a_jars), **self.spark},
        }

    def _write_config(self, member: FleetMember) -> None:
        super()._write_config(member)
        endpoint = self.endpoints.get(self.number(member))
        if endpoint is not None:
            body = yaml.safe_load(member.config.read_text())
            body["store"]["endpoint_url"] = endpoint
            member.config.write_text(yaml.safe_dump(body))


def expected_counts(batch_id: int) -> dict[str, list[int]]:
    """What batch ``batch_id`` of counts.py shows, whoever runs it and however often it was interrupted."""
    values = range(ROWS_PER_BATCH * (batch_id + 1))
    by_key: dict[str, list[int]] = defaultdict(list)
    for value in values:
        by_key[str(value % KEYS)].append(value)
    return {key: [len(found), sum(found)] for key, found in by_key.items()}


def batch_faults(batches: Sequence[SinkBatch], expected: Expected | None = expected_counts) -> list[str]:
    """Of one checkpoint: begins with 0, no hole, a repeat only of the newest one after a crash, contents as they must be.

    Without ``expected`` it may begin with any batch, and contents are only compared with those of a repeat.
    """
    wrong = []
    for old, new in zip([None, *batches], batches, strict=False):
        where = f"{new.job}: batch {new.batch_id} of {new.uid}.{new.attempt}"
        before = old.batch_id if old else -1 if expected is not None else new.batch_id - 1
        step = new.batch_id - before
        crashed = old is not None and (old.uid, old.attempt) != (new.uid, new.attempt)
        if step != 1 and not (step == 0 and crashed):
            wrong.append(
                f"{where} after {old.batch_id if old else None} of attempt {old.attempt if old else None}"
            )
        shown = (
            expected(new.batch_id) if expected is not None else old.counts if old and not step else new.counts
        )
        if new.counts != shown:
            wrong.append(f"{where} shows {new.counts}, not {shown}")
    return wrong


def build_jar(source: Path, target: Path, spark_home: Path) -> Path:
    """Compile one Java file against Spark's own jars; ``target``: the jar to make."""
    classes = target.with_suffix(".classes")
    classes.mkdir()
    options = ["-nowarn", "-proc:none", "--release", "17", "-cp", f"{spark_home}/jars/*", "-d", str(classes)]
    subprocess.run(["javac", *options, str(source)], check=True, timeout=300)
    with zipfile.ZipFile(target, "w") as jar:
        for file in classes.glob("*.class"):
            jar.write(file, file.name)
    return target


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class _Watcher:
    """Looks at the JVMs that the witness names, every 100 ms: a time at which one was surely alive is noted as a beat."""

    def __init__(self, witness: Path) -> None:
        self._witness = Growing(witness)
        self._watched: dict[ProcessId, dict[str, Any]] = {}
        self._alive_at_s: dict[ProcessId, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def seen(self) -> list[WitnessNote]:
        """The last sign of life of each JVM."""
        return [
            WitnessNote(
                "beat",
                self._watched[jvm]["job"],
                self._watched[jvm]["uid"],
                self._watched[jvm]["attempt"],
                jvm.pid,
                at_s,
            )
            for jvm, at_s in list(self._alive_at_s.items())
        ]

    def _run(self) -> None:
        while not self._stopping.wait(0.1):
            for line in map(json.loads, self._witness.new_lines()):
                if line["event"] == "session":
                    jvm = processes.identify(line["jvm"])
                    if jvm is not None:
                        self._watched[jvm] = line
            for jvm in list(self._watched):
                now_s = boottime_s()
                if self._alive_at_s.get(jvm, now_s) > now_s - 5 and processes.alive(jvm):
                    self._alive_at_s[jvm] = now_s


def _whole_lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
