"""The storage fence's checkpoint manager itself, in a JVM without a Spark session, on a real S3 API that misbehaves on request."""

from __future__ import annotations

import os
import shlex
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from supervisor.model.exits import CONFLICT_WORDS, OTHER_WRITER
from supervisor.spark.fence.build import fence_jar
from supervisor.spark.fence.choice import MANAGER, OWNER_KEY, owner_of
from supervisor.spark.toolchain import installed_spark_home, java_of, spark_version
from tests.fakes.faulty_s3 import FaultyS3, lose_reply, refuse
from tests.testbed.moto import MotoServer
from tests.testbed.s3a_jars import s3a_jars

pytestmark = pytest.mark.spark

MANAGER_KEY = "spark.sql.streaming.checkpointFileManagerClass"
FIRST, SECOND = owner_of("clicks", "u1", 3, "h1"), owner_of("clicks", "u2", 4, "h2")


@dataclass
class Bench:
    """``place``: a directory of this test's own."""

    jvm: Any
    client: Any
    bucket: str
    faulty: FaultyS3
    place: str

    def manager(self, owner: str = FIRST, place: str | None = None) -> Any:
        """As Spark makes one for a log."""
        conf = self.jvm.org.apache.hadoop.conf.Configuration()
        settings = {
            "endpoint": self.faulty.endpoint_url,
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "endpoint.region": "us-east-1",
            "retry.limit": "2",
            "retry.interval": "50ms",
            "attempts.maximum": "3",
        }
        for name, value in settings.items():
            conf.set(f"fs.s3a.{name}", value)
        conf.set(OWNER_KEY.removeprefix("spark.hadoop."), owner)
        conf.set(MANAGER_KEY, MANAGER)
        path = self.path(place or f"s3a://{self.bucket}/{self.place}/offsets")
        checkpointing = self.jvm.org.apache.spark.sql.execution.streaming.checkpointing
        return checkpointing.CheckpointFileManager.create(path, conf)

    def path(self, text: str | int) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(
            text if isinstance(text, str) else f"s3a://{self.bucket}/{self.place}/offsets/{text}"
        )

    def write(self, manager: Any, entry: str | int, text: bytes, *, overwrite: bool = False) -> None:
        out = manager.createAtomic(self.path(entry), overwrite)
        out.write(text)
        out.close()

    def body(self, entry: str | int) -> bytes:
        data: bytes = self.client.get_object(Bucket=self.bucket, Key=f"{self.place}/offsets/{entry}")[
            "Body"
        ].read()
        return data

    def keys(self) -> list[str]:
        found = self.client.list_objects_v2(Bucket=self.bucket, Prefix=f"{self.place}/").get("Contents", [])
        return [each["Key"].rpartition("/")[2] for each in found if not each["Key"].endswith("/")]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the JVM said."""
    return tmp_path_factory.mktemp("fence") / "jvm.log"


@pytest.fixture(scope="module")
def faulty(moto_server: MotoServer) -> Iterator[FaultyS3]:
    made = FaultyS3(moto_server.port)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def jvm(log: Path, moto_server: MotoServer) -> Iterator[Any]:
    from pyspark.java_gateway import launch_gateway

    home = installed_spark_home()
    assert home is not None
    built = fence_jar(home, java_of(None, os.environ), spark_version(home) or "", log.parent, os.environ)
    assert built.jar is not None, built.why
    class_path = f"{s3a_jars()}/*:{built.jar}"
    env = {
        **os.environ,
        **moto_server.env,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": shlex.join(
            ("--driver-memory", "512m", "--driver-class-path", class_path, "pyspark-shell")
        ),
    }
    with pytest.MonkeyPatch.context() as patch, log.open("w") as out:
        for name, value in env.items():
            patch.setenv(name, value)
        gateway = launch_gateway(popen_kwargs={"stdout": out, "stderr": out, "env": env})
    yield gateway.jvm
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
    assert log.read_text().rstrip().rpartition("\n")[2].startswith("checkpoint fence: "), "its last words"


@pytest.fixture
def bench(jvm: Any, moto_server: MotoServer, s3_bucket: str, faulty: FaultyS3) -> Iterator[Bench]:
    yield Bench(jvm, moto_server.client(), s3_bucket, faulty, f"ck-{uuid.uuid4().hex[:12]}")
    faulty.reset()


def test_an_entry_is_written_once_and_says_by_whom(bench: Bench) -> None:
    first, second = bench.manager(FIRST), bench.manager(SECOND)
    bench.write(first, 0, b"one")
    with pytest.raises(Py4JJavaError) as caught:
        bench.write(second, 0, b"two")
    assert bench.body(0) == b"one"
    error = caught.value.java_exception
    # Spark asks for this one
    assert error.getClass().getName() == "org.apache.hadoop.fs.FileAlreadyExistsException"
    assert any(word in error.toString() for word in CONFLICT_WORDS)
    found = OTHER_WRITER.search(error.getMessage())
    assert found is not None and found.groups()[:5] == ("offsets/0", "clicks", "u1", "3", "h1")
    assert SECOND in error.getMessage()


def test_it_is_the_close_that_decides(bench: Bench) -> None:
    """Both looked, and neither saw anything: the case in which Spark's own check is too early."""
    first, second = bench.manager(FIRST), bench.manager(SECOND)
    assert not first.exists(bench.path(0)) and not second.exists(bench.path(0))
    streams = [manager.createAtomic(bench.path(0), False) for manager in (first, second)]
    for number, stream in enumerate(streams):
        stream.write(b"%d" % number)
    streams[1].close()
    with pytest.raises(Py4JJavaError, match=r"uid=u2 attempt=4 host=h2"):
        streams[0].close()
    streams[0].cancel()  # as Spark does after any failure
    assert bench.body(0) == b"1"


def test_an_answer_that_was_lost_is_no_conflict(bench: Bench) -> None:
    """The PUT arrived, its answer did not; the SDK sends it again and is refused for the object that it made itself."""
    manager = bench.manager()
    bench.faulty.faults = [lose_reply]
    bench.write(manager, 7, b"mine")
    assert [line.partition(" ")[0] for line in bench.faulty.requests] == ["PUT", "PUT", "HEAD"]
    assert bench.body(7) == b"mine"


def test_a_refusal_whose_reason_is_gone_or_cannot_be_read_is_a_conflict(bench: Bench) -> None:
    manager = bench.manager()
    bench.faulty.faults = [refuse(412, "PreconditionFailed")]
    with pytest.raises(Py4JJavaError, match="it has gone since"):
        bench.write(manager, 1, b"x")
    bench.faulty.faults = [refuse(412, "PreconditionFailed"), *[refuse(403, "AccessDenied")] * 9]
    with pytest.raises(Py4JJavaError, match="who wrote it is not known"):
        bench.write(manager, 1, b"x")


def test_a_failure_that_is_none_of_another_writer_stays_what_it_is(bench: Bench) -> None:
    bench.faulty.faults = [refuse(403, "AccessDenied")]
    with pytest.raises(Py4JJavaError) as caught:
        bench.write(bench.manager(), 1, b"x")
    assert caught.value.java_exception.getClass().getSimpleName() == "AccessDeniedException"
    assert not any(word in str(caught.value.java_exception) for word in CONFLICT_WORDS)


def test_an_object_of_nobody_known(bench: Bench) -> None:
    bench.client.put_object(Bucket=bench.bucket, Key=f"{bench.place}/offsets/3", Body=b"theirs")
    with pytest.raises(Py4JJavaError, match="a driver without the fence"):
        bench.write(bench.manager(), 3, b"x")


def test_state_files_may_be_written_again(bench: Bench) -> None:
    """A batch that is run again writes them anew: unconditional, and never seen in part."""
    first, second = bench.manager(FIRST), bench.manager(SECOND)
    place = f"s3a://{bench.bucket}/{bench.place}/offsets/1.delta"
    bench.write(first, place, b"one", overwrite=True)
    bench.write(second, place, b"two", overwrite=True)
    assert bench.body("1.delta") == b"two"


def test_what_is_cancelled_was_never_there(bench: Bench) -> None:
    out = bench.manager().createAtomic(bench.path(0), False)
    out.write(b"x" * 100_000)
    out.cancel()
    out.cancel()
    out.close()
    assert bench.keys() == []


def test_an_entry_costs_one_request(bench: Bench) -> None:
    manager = bench.manager()
    bench.faulty.reset()
    bench.write(manager, 5, b"x")
    assert [line.partition(" ")[0] for line in bench.faulty.requests] == ["PUT"]


def test_another_drivers_entry_is_named_when_spark_sees_it_first(bench: Bench, log: Path) -> None:
    """Then Spark throws its own error, and there is no refused write to tell of it."""
    first, second = bench.manager(FIRST), bench.manager(SECOND)
    bench.write(first, 0, b"x")
    assert second.exists(bench.path(0)), "of a log that it has not looked at yet"
    assert bench.place not in log.read_text()
    bench.write(second, 1, b"x")
    bench.write(first, 2, b"x")
    assert second.exists(bench.path(2))
    found = [
        match.groups()[:5] for match in OTHER_WRITER.finditer(log.read_text()) if bench.place in match[0]
    ]
    assert found == [("offsets/2", "clicks", "u1", "3", "h1")]


def test_another_drivers_first_entry_is_named(bench: Bench, log: Path) -> None:
    """Both begin on an empty log, as after the loss of a driver in its very first batch."""
    second = bench.manager(SECOND)
    second.mkdirs(bench.path(0).getParent())
    assert list(second.list(bench.path(0).getParent())) == []
    bench.write(bench.manager(FIRST), 0, b"x")
    assert second.exists(bench.path(0))
    assert [match[1] for match in OTHER_WRITER.finditer(log.read_text()) if bench.place in match[0]] == [
        "offsets/0"
    ]


def test_other_file_systems_are_as_without_it(bench: Bench, tmp_path: Path) -> None:
    place = f"file://{tmp_path}/offsets"
    manager = bench.manager(place=place)
    manager.mkdirs(bench.path(place))
    bench.write(manager, f"{place}/0", b"one")
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        bench.write(manager, f"{place}/0", b"two")
    bench.write(manager, f"{place}/1.delta", b"one", overwrite=True)
    bench.write(manager, f"{place}/1.delta", b"two", overwrite=True)
    assert (tmp_path / "offsets" / "1.delta").read_bytes() == b"two"
    assert manager.isLocal()
