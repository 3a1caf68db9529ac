"""The storage fence's checkpoint manager itself, in a JVM without a Spark session, on a real S3 API that misbehaves on request."""

from __future__ import annotations

import os
import random
import shlex
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from supervisor.model.exits import CONFLICT_WORDS, OTHER_WRITER
from supervisor.spark.fence.build import FENCE, JavaSources, host_jar
from supervisor.spark.fence.choice import MANAGER, OWNER_KEY, owner_of
from supervisor.spark.toolchain import installed_spark_home, java_of, spark_version
from tests.fakes.faulty_s3 import Fault, FaultyS3, Handler, lose_reply, refuse, truncate_body
from tests.testbed.moto import MotoServer
from tests.testbed.s3a_jars import s3a_jars
from tests.waiting import wait_until

pytestmark = pytest.mark.spark

MANAGER_KEY = "spark.sql.streaming.checkpointFileManagerClass"
SAVER = "supervisor.spark.fence.RequestSaver"
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
        path = self.path(place or f"s3a://{self.bucket}/{self.place}/offsets")
        checkpointing = self.jvm.org.apache.spark.sql.execution.streaming.checkpointing
        return checkpointing.CheckpointFileManager.create(path, self.configuration(owner))

    def configuration(self, owner: str) -> Any:
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
        return conf

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
    with running_jvm(log, moto_server) as made:
        yield made
    assert log.read_text().rstrip().rpartition("\n")[2].startswith("checkpoint fence: "), "its last words"


@contextmanager
def running_jvm(log: Path, moto: MotoServer, of: JavaSources = FENCE) -> Iterator[Any]:
    """A JVM with the manager, as it is compiled from these sources."""
    from pyspark.java_gateway import launch_gateway

    home = installed_spark_home()
    assert home is not None
    version = spark_version(home) or ""
    built = host_jar(home, java_of(None, os.environ), version, log.parent, os.environ, of=of)
    assert built.jar is not None, built.why
    class_path = f"{s3a_jars()}/*:{built.jar}"
    env = {
        **os.environ,
        **moto.env,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": shlex.join(
            ("--driver-memory", "512m", "--driver-class-path", class_path, "pyspark-shell")
        ),
    }
    with pytest.MonkeyPatch.context() as patch, log.open("w") as out:
        for name, value in env.items():
            patch.setenv(name, value)
        gateway = launch_gateway(popen_kwargs={"stdout": out, "stderr": out, "env": env})
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)


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


def test_an_entry_that_this_driver_has_written_before_is_a_conflict_too(bench: Bench) -> None:
    """Another query of the same attempt on the same checkpoint, or the same one twice: who wrote it is the same, what is not."""
    bench.write(bench.manager(FIRST), 0, b"one")
    with pytest.raises(Py4JJavaError) as caught:
        bench.write(bench.manager(FIRST), 0, b"two")
    error = caught.value.java_exception
    assert error.getClass().getName() == "org.apache.hadoop.fs.FileAlreadyExistsException"
    assert bench.body(0) == b"one"


def test_a_state_file_that_can_not_be_written_fails_as_ever(bench: Bench) -> None:
    """What another has there decides nothing about a file that may be written again."""
    place = f"s3a://{bench.bucket}/{bench.place}/offsets/1.delta"
    bench.write(bench.manager(SECOND), place, b"theirs", overwrite=True)
    bench.faulty.aim("PUT", refuse(403, "AccessDenied"))
    with pytest.raises(Py4JJavaError) as caught:
        bench.write(bench.manager(FIRST), place, b"mine", overwrite=True)
    assert caught.value.java_exception.getClass().getSimpleName() == "AccessDeniedException"
    assert bench.body("1.delta") == b"theirs"


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


def test_an_entry_of_this_driver_is_nobody_elses(bench: Bench, log: Path) -> None:
    """Another manager of it has written it: nothing is said of another driver."""
    one, other = bench.manager(FIRST), bench.manager(FIRST)
    bench.write(one, 0, b"x")
    bench.write(other, 1, b"x")
    assert one.exists(bench.path(1))
    assert bench.place not in log.read_text()


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


# -- fewer requests, and reading ahead -----------------------------------------------------------------------------------


def delta(bench: Bench, version: int) -> str:
    return f"s3a://{bench.bucket}/{bench.place}/offsets/{version}.delta"


def deltas(bench: Bench, manager: Any, count: int) -> list[str]:
    """Versions from 1, each with its own text."""
    paths = [delta(bench, version) for version in range(1, count + 1)]
    for number, path in enumerate(paths, 1):
        bench.write(manager, path, b"version %d" % number, overwrite=True)
    return paths


def list_snapshots(bench: Bench, manager: Any) -> None:
    """As a state store does: it wants to see snapshots only, and there are none."""
    everything = bench.jvm.org.apache.hadoop.fs.GlobFilter("*.snapshot")
    assert list(manager.list(bench.path(0).getParent(), everything)) == []


def listed_deltas(bench: Bench, manager: Any, count: int) -> list[str]:
    """Deltas that ``manager`` has just seen in a list; requests are counted from here."""
    paths = deltas(bench, manager, count)
    list_snapshots(bench, manager)
    bench.faulty.reset()
    return paths


def text_of(bench: Bench, manager: Any, path: str | int) -> str:
    """What an open of it shows: "gone" where there is no such file."""
    try:
        found = manager.open(bench.path(path))
    except Py4JJavaError as error:
        assert error.java_exception.getClass().getSimpleName() == "FileNotFoundException", error
        return "gone"
    try:
        return str(bench.jvm.org.apache.commons.io.IOUtils.toString(found, "UTF-8"))
    finally:
        found.close()


def asked(bench: Bench) -> list[str]:
    """Method and last name of each request since the last reset."""
    words = [line.split() for line in bench.faulty.requests]
    return [f"{method} {place.partition('?')[0].rpartition('/')[2]}" for method, place, *_ in words]


def foreign_write(bench: Bench, path: str, body: bytes) -> None:
    bench.client.put_object(Bucket=bench.bucket, Key=path.partition(f"{bench.bucket}/")[2], Body=body)


def test_each_delta_costs_one_request_and_those_after_it_are_read_ahead(bench: Bench) -> None:
    manager = bench.manager()
    paths = listed_deltas(bench, manager, 40)
    assert text_of(bench, manager, paths[0]) == "version 1"
    wait_until(lambda: len(asked(bench)) >= 33, 60, "the 32 after it")
    assert sorted(asked(bench)) == sorted(f"GET {version}.delta" for version in range(1, 34))
    assert [text_of(bench, manager, path) for path in paths[1:]] == [f"version {n}" for n in range(2, 41)]
    assert sorted(asked(bench)) == sorted(f"GET {version}.delta" for version in range(1, 41))


def test_a_delta_whose_batch_may_not_be_committed_is_not_read_ahead(bench: Bench) -> None:
    """In state format 1 an executor elsewhere, whose attempt of the batch has lost, has written the newest one; the one that
    wins replaces it, and then this executor goes on from it."""
    manager = bench.manager()
    paths = listed_deltas(bench, manager, 4)
    assert text_of(bench, manager, paths[0]) == "version 1"
    wait_until(lambda: len(asked(bench)) >= 3, 60, "the two after it")
    assert [text_of(bench, manager, path) for path in paths[1:3]] == ["version 2", "version 3"]
    time.sleep(0.5)  # one that reads it ahead has begun by now
    assert "GET 4.delta" not in asked(bench)
    foreign_write(bench, paths[3], b"the winner's")
    assert text_of(bench, manager, paths[3]) == "the winner's"
    assert sorted(asked(bench)).count("GET 2.delta") == 1


def test_the_checksum_of_a_delta_is_read_ahead_with_it(bench: Bench) -> None:
    """Spark may keep one beside each file, and opens both; one that is not there costs a HEAD."""
    manager = bench.manager()
    for path in deltas(bench, manager, 4)[:2]:
        bench.write(manager, f"{path}.crc", b"checksum of " + path[-7:].encode(), overwrite=True)
    list_snapshots(bench, manager)
    bench.faulty.reset()
    assert text_of(bench, manager, delta(bench, 1)) == "version 1"
    wait_until(lambda: len(asked(bench)) >= 5, 60, "the four after it")
    assert text_of(bench, manager, f"{delta(bench, 1)}.crc") == "checksum of 1.delta"
    bench.write(manager, f"{delta(bench, 2)}.crc", b"another", overwrite=True)
    assert text_of(bench, manager, delta(bench, 2)) == "version 2"
    assert text_of(bench, manager, f"{delta(bench, 2)}.crc") == "another"
    bench.faulty.reset()
    assert text_of(bench, manager, f"{delta(bench, 3)}.crc") == "gone"
    assert asked(bench) == ["HEAD 3.delta.crc"]


def test_a_state_file_that_is_to_be_written_costs_one_look(bench: Bench) -> None:
    manager = bench.manager()
    (path,) = listed_deltas(bench, manager, 1)
    assert [manager.exists(bench.path(each)) for each in (path, delta(bench, 2))] == [True, False]
    assert asked(bench) == ["HEAD 1.delta", "HEAD 2.delta"]


def test_the_start_of_a_query_forgets_what_was_seen(bench: Bench) -> None:
    """A start that fails, a checkpoint that is deleted past the manager, and another start, within a second."""
    manager = bench.manager()
    bench.write(manager, 0, b"x")
    place = bench.path(0).getParent()
    assert len(manager.list(place)) == 1
    assert text_of(bench, manager, 0) == "x"
    bench.client.delete_object(Bucket=bench.bucket, Key=f"{bench.place}/offsets/0")
    root = bench.jvm.supervisor.spark.fence.FencedCheckpointFileManager(
        place.getParent(), bench.configuration(FIRST)
    )
    root.createCheckpointDirectory()
    assert not bench.manager().exists(bench.path(0))
    assert not bench.manager().exists(place)


@pytest.mark.parametrize(
    "setting",
    [
        ("supervisor.fence.save.requests", "false"),
        ("fs.s3a.change.detection.mode", "warn"),
        ("fs.s3a.change.detection.source", "versionid"),
        ("fs.s3a.encryption.algorithm", "CSE-CUSTOM"),
    ],
)
def test_where_it_is_not_wanted_or_another_object_would_not_be_refused_each_costs_two(
    bench: Bench, setting: tuple[str, str]
) -> None:
    """Each bucket has a file system of its own, with its own settings."""
    paths = deltas(bench, bench.manager(), 3)
    bench.path(0).getFileSystem(bench.configuration(FIRST)).getConf().set(*setting)
    manager = bench.manager()
    list_snapshots(bench, manager)
    bench.faulty.reset()
    assert [text_of(bench, manager, path) for path in paths] == ["version 1", "version 2", "version 3"]
    assert asked(bench) == [f"{method} {n}.delta" for n in (1, 2, 3) for method in ("HEAD", "GET")]


def test_what_is_written_or_deleted_after_the_look_counts(bench: Bench) -> None:
    manager = bench.manager()
    paths = listed_deltas(bench, manager, 9)
    assert text_of(bench, manager, paths[0]) == "version 1"
    wait_until(lambda: len(asked(bench)) >= 8, 60, "all but the newest to be read ahead")
    bench.write(manager, paths[1], b"again", overwrite=True)
    manager.delete(bench.path(paths[2]))
    assert [text_of(bench, manager, path) for path in paths[1:4]] == ["again", "gone", "version 4"]


def test_what_another_wrote_after_the_look_is_opened_as_it_is_now(bench: Bench) -> None:
    """The GET asks for the ETag of the look. It is longer than what was seen: half of it would be worse than an old one."""
    manager = bench.manager()
    paths = listed_deltas(bench, manager, 3)
    foreign_write(bench, paths[0], b"another one, and longer than it was")
    foreign_write(bench, paths[1], b"short")
    bench.client.delete_object(Bucket=bench.bucket, Key=paths[2].partition(f"{bench.bucket}/")[2])
    found = [text_of(bench, manager, path) for path in paths]
    assert found == ["another one, and longer than it was", "short", "gone"]


def test_a_look_serves_one_open(bench: Bench) -> None:
    """The second one was read ahead."""
    manager = bench.manager()
    paths = listed_deltas(bench, manager, 3)[:2]
    assert [text_of(bench, manager, path) for path in paths] == ["version 1", "version 2"]
    for path in paths:
        foreign_write(bench, path, b"other")
    assert [text_of(bench, manager, path) for path in paths] == ["other", "other"]


def meanwhile(act: Callable[[], None]) -> Fault:
    """Has ``act`` happen after the answer was made, and before it is there."""

    def fault(handler: Handler) -> None:
        answer = handler.ask_backend()
        act()
        handler.answer(*answer)

    return fault


def names(bench: Bench, manager: Any) -> list[str]:
    return [str(each.getPath().getName()) for each in manager.list(bench.path(0).getParent())]


def test_a_look_is_not_remembered_over_what_is_written_or_deleted_meanwhile(bench: Bench) -> None:
    """It shows what was there before; the next one asks again."""
    manager, other = bench.manager(), bench.manager()
    bench.write(manager, 0, b"x")
    bench.faulty.aim("GET .*list-type", [meanwhile(lambda: bench.write(other, 1, b"y"))])
    assert names(bench, manager) == ["0"]
    assert names(bench, manager) == ["0", "1"]
    bench.write(manager, 2, b"z")
    metadata = f"s3a://{bench.bucket}/{bench.place}/metadata"
    bench.write(manager, metadata, b"query")
    bench.faulty.aim("HEAD .*/metadata", [meanwhile(lambda: other.delete(bench.path(metadata)))])
    assert manager.exists(bench.path(metadata))
    assert not manager.exists(bench.path(metadata))


def test_what_another_driver_does_is_seen_a_second_later(bench: Bench) -> None:
    """For longer nothing is taken to be as it was: its entries are seen before this driver writes on."""
    manager = bench.manager()
    metadata = f"s3a://{bench.bucket}/{bench.place}/metadata"
    bench.write(manager, 0, b"x")
    bench.write(manager, metadata, b"query")
    assert names(bench, manager) == ["0"] and manager.exists(bench.path(metadata))
    foreign_write(bench, f"s3a://{bench.bucket}/{bench.place}/offsets/1", b"theirs")
    bench.client.delete_object(Bucket=bench.bucket, Key=f"{bench.place}/metadata")
    time.sleep(1.1)
    assert manager.exists(bench.path(1))
    assert names(bench, manager) == ["0", "1"]
    assert not manager.exists(bench.path(metadata))


def test_an_old_look_serves_none(bench: Bench) -> None:
    manager = bench.manager()
    paths = deltas(bench, manager, 2)
    fresh = bench.jvm.java.lang.Class.forName(SAVER).getDeclaredField("freshS")
    fresh.setAccessible(True)
    list_snapshots(bench, manager)
    before = fresh.getLong(None)
    fresh.setLong(None, 0)
    try:
        bench.faulty.reset()
        assert [text_of(bench, manager, path) for path in paths] == ["version 1", "version 2"]
        assert asked(bench) == [f"{method} {n}.delta" for n in (1, 2) for method in ("HEAD", "GET")]
    finally:
        fresh.setLong(None, before)


@pytest.mark.parametrize("fault", [refuse(403, "AccessDenied"), refuse(503, "SlowDown"), truncate_body])
def test_whatever_fails_is_opened_as_ever(bench: Bench, fault: Any) -> None:
    """The ordinary open asks again, as often as S3A does."""
    manager = bench.manager()
    paths = listed_deltas(bench, manager, 4)
    bench.faulty.faults = [fault] * 3
    assert [text_of(bench, manager, path) for path in paths] == [f"version {n}" for n in (1, 2, 3, 4)]


def test_what_was_read_as_a_whole_is_a_stream_as_any(bench: Bench) -> None:
    manager = bench.manager()
    (path,) = listed_deltas(bench, manager, 1)
    found = manager.open(bench.path(path))
    found.seek(8)
    assert (found.read(), found.getPos(), found.available(), found.read()) == (ord("1"), 9, 0, -1)
    found.seek(0)
    assert found.read() == ord("v")
    with pytest.raises(Py4JJavaError, match="cannot seek to 10 of 9 bytes"):
        found.seek(10)


def test_a_large_file_is_left_to_an_ordinary_open(bench: Bench) -> None:
    manager = bench.manager()
    paths = deltas(bench, manager, 2)
    bench.write(manager, paths[1], b"x" * (256 * 1024 + 1), overwrite=True)
    list_snapshots(bench, manager)
    bench.faulty.reset()
    assert text_of(bench, manager, paths[0]) == "version 1"
    assert len(text_of(bench, manager, paths[1])) == 256 * 1024 + 1
    assert asked(bench) == ["GET 1.delta", "HEAD 2.delta", "GET 2.delta"]


def test_a_file_that_was_looked_for_costs_one_more_request_and_none_when_it_is_read_again(
    bench: Bench,
) -> None:
    manager = bench.manager()
    bench.write(manager, 7, b"seven")
    bench.faulty.reset()
    assert manager.exists(bench.path(7))
    assert text_of(bench, manager, 7) == "seven"
    assert asked(bench) == ["HEAD 7", "GET 7"]
    other = bench.manager()
    assert other.exists(bench.path(7))
    assert text_of(bench, other, 7) == "seven"
    assert asked(bench) == ["HEAD 7", "GET 7"], "within a second"
    bench.write(manager, 8, b"eight")
    assert other.exists(bench.path(7))
    assert text_of(bench, other, 7) == "seven"
    assert asked(bench) == ["HEAD 7", "GET 7", "PUT 8", "HEAD 7"], "its content is known"
    bench.write(manager, 9, b"nine")
    foreign_write(bench, str(bench.path(7).toString()), b"other")
    assert other.exists(bench.path(7))
    assert text_of(bench, other, 7) == "other"


def test_a_log_that_was_looked_for_is_listed_at_once(bench: Bench) -> None:
    manager, place = bench.manager(), bench.path(0).getParent()
    bench.write(manager, 0, b"x")
    bench.faulty.reset()
    assert manager.exists(place)
    assert [str(each.getPath().getName()) for each in manager.list(place)] == ["0"]
    assert len(bench.faulty.requests) == 1
    assert manager.exists(place)
    bench.write(manager, 1, b"x")
    assert [str(each.getPath().getName()) for each in manager.list(place)] == ["0", "1"]


def test_an_entry_that_a_list_has_just_shown_is_not_asked_for(bench: Bench) -> None:
    """As a query does at its start: the newest entry, the one before it, and the one that it is to write."""
    manager, place = bench.manager(), bench.path(0).getParent()
    for number in (0, 1):
        bench.write(manager, number, b"entry %d" % number)
    bench.faulty.reset()
    assert [str(each.getPath().getName()) for each in manager.list(place)] == ["0", "1"]
    assert [manager.exists(bench.path(number)) for number in (0, 1, 2)] == [True, True, False]
    assert manager.exists(bench.path(0))
    assert text_of(bench, manager, 0) == "entry 0"
    assert asked(bench) == [f"GET {bench.bucket}", "GET 0"], "a list, and what was opened"
    bench.write(manager, 2, b"entry 2")
    assert manager.exists(bench.path(2)), "what was written since the list"


def test_an_entry_that_is_to_be_written_costs_one_look(bench: Bench, log: Path) -> None:
    """S3A looks below such a name as well, which is a list for each entry. One that is there is somebody else's."""
    manager = bench.manager()
    bench.write(manager, 0, b"x")
    bench.faulty.reset()
    assert not manager.exists(bench.path(1))
    source = f"s3a://{bench.bucket}/{bench.place}/sources/0"
    bench.write(manager, f"{source}/0", b"x")
    assert not manager.exists(bench.path(f"{source}/1"))
    assert asked(bench) == ["HEAD 1", "PUT 0", "HEAD 1"]
    foreign_write(bench, str(bench.path(1).toString()), b"other")
    assert manager.exists(bench.path(1))
    assert f"{bench.place}/offsets/1 was written by [a driver without the fence]" in log.read_text()


def test_the_log_of_a_source_has_a_name_like_an_entry(bench: Bench) -> None:
    """sources/0 is a directory, of which a list knows as well."""
    manager = bench.manager()
    place = f"s3a://{bench.bucket}/{bench.place}/sources"
    bench.write(manager, f"{place}/0/0", b"x")
    assert manager.exists(bench.path(f"{place}/0"))
    assert len(manager.list(bench.path(place))) == 1
    bench.write(bench.manager(), f"{place}/1/0", b"x")
    assert manager.exists(bench.path(f"{place}/1"))


def test_a_file_that_is_opened_again_costs_a_look_within_a_second_none(bench: Bench) -> None:
    """Spark opens the metadata of an operator without asking whether it is there."""
    manager = bench.manager()
    path = f"s3a://{bench.bucket}/{bench.place}/state/0/_metadata/metadata"
    bench.write(manager, path, b"operator")
    bench.faulty.reset()
    assert [text_of(bench, manager, path) for _ in range(3)] == ["operator"] * 3
    assert asked(bench) == ["HEAD metadata", "GET metadata"]
    bench.write(manager, path, b"another", overwrite=True)
    assert text_of(bench, manager, path) == "another"
    manager.delete(bench.path(path))
    assert text_of(bench, manager, path) == "gone"


def test_a_file_at_the_place_of_a_state_directory_is_a_file(bench: Bench) -> None:
    manager = bench.manager()
    place = f"s3a://{bench.bucket}/{bench.place}/state/0/0"
    foreign_write(bench, place, b"a file")
    assert manager.exists(bench.path(place))
    bench.client.delete_object(Bucket=bench.bucket, Key=f"{bench.place}/state/0/0")
    bench.write(manager, 0, b"x")
    assert not manager.exists(bench.path(place)), "it was no directory"


def test_a_directory_of_a_state_store_is_looked_for_until_it_is_there(bench: Bench) -> None:
    manager = bench.manager()
    place = f"s3a://{bench.bucket}/{bench.place}/state/0/0"
    assert not manager.exists(bench.path(place))
    manager.mkdirs(bench.path(place))
    bench.write(manager, f"{place}/1.delta", b"x", overwrite=True)
    assert manager.exists(bench.path(place))
    bench.faulty.reset()
    assert manager.exists(bench.path(place)), "nor is it taken for an entry of a log that somebody else wrote"
    assert bench.manager().exists(bench.path(place))
    bench.manager().mkdirs(bench.path(place))
    assert bench.faulty.requests == []


def test_a_directory_of_a_state_store_that_others_have_deleted_is_empty(bench: Bench) -> None:
    """As after a checkpoint was deleted, while its JVM goes on: a state store lists what it was told to be there."""
    manager = bench.manager()
    place = f"s3a://{bench.bucket}/{bench.place}/state/0/0"
    bench.write(manager, f"{place}/1.delta", b"x", overwrite=True)
    assert manager.exists(bench.path(place))
    bench.client.delete_object(Bucket=bench.bucket, Key=f"{bench.place}/state/0/0/1.delta")
    bench.write(manager, 0, b"x")  # what was seen before counts no more
    assert list(manager.list(bench.path(place))) == []
    assert not manager.exists(bench.path(place))


def test_a_log_below_such_a_name_is_a_log(bench: Bench) -> None:
    manager = bench.manager()
    place = f"s3a://{bench.bucket}/{bench.place}/state/1/2/offsets"
    bench.write(manager, f"{place}/0", b"x")
    assert manager.exists(bench.path(place))
    bench.client.delete_object(Bucket=bench.bucket, Key=f"{bench.place}/state/1/2/offsets/0")
    bench.write(manager, 0, b"x")  # what was seen before counts no more
    assert not manager.exists(bench.path(place))


def test_a_directory_that_was_made_is_listed(bench: Bench) -> None:
    """As any change that this JVM makes: the log of a second source, within a second of the list."""
    manager = bench.manager()
    sources = f"s3a://{bench.bucket}/{bench.place}/sources"
    bench.write(manager, f"{sources}/0/0", b"x")

    def found() -> list[str]:
        return [str(each.getPath().getName()) for each in manager.list(bench.path(sources))]

    assert found() == ["0"]
    manager.mkdirs(bench.path(f"{sources}/1"))
    assert found() == ["0", "1"]


def test_what_one_file_system_has_seen_says_nothing_of_another(bench: Bench, moto_server: MotoServer) -> None:
    """Two sessions of a JVM may name the same path at another endpoint, or with rights of their own."""
    bench.write(bench.manager(), 0, b"x")
    assert names(bench, bench.manager()) == ["0"]
    elsewhere = FaultyS3(moto_server.port)
    try:
        conf = bench.configuration(FIRST)
        conf.set("fs.s3a.endpoint", elsewhere.endpoint_url)
        conf.set("fs.s3a.impl.disable.cache", "true")
        place = bench.path(0).getParent()
        checkpointing = bench.jvm.org.apache.spark.sql.execution.streaming.checkpointing
        other = checkpointing.CheckpointFileManager.create(place, conf)
        elsewhere.aim("GET .*list-type", [refuse(403, "AccessDenied")])
        with pytest.raises(Py4JJavaError, match="AccessDenied"):
            other.list(place)
    finally:
        elsewhere.stop()


def test_who_is_interrupted_stays_interrupted(bench: Bench) -> None:
    """A query that is stopped: the ordinary open ends with that, as it does without the manager."""
    manager = bench.manager()
    paths = listed_deltas(bench, manager, 1)
    thread = bench.jvm.java.lang.Thread
    thread.currentThread().interrupt()
    try:
        with pytest.raises(Py4JJavaError, match="Interrupted"):
            manager.open(bench.path(paths[0])).read()
    finally:
        thread.interrupted()


def test_a_directory_that_is_not_there_or_is_a_file_is_seen_as_ever(bench: Bench) -> None:
    manager = bench.manager()
    parent = bench.path(0).getParent()
    assert not manager.exists(parent)
    foreign_write(bench, f"s3a://{bench.bucket}/{bench.place}/offsets", b"a file")
    assert manager.exists(parent)


WHAT = ("list", "open", "open", "write", "foreign", "delete", "exists", "exists-log")


def test_any_order_of_looks_writes_and_opens(bench: Bench) -> None:
    """What an open shows is what this manager wrote last; of a file that another wrote since the look, that or the one before."""
    chance = random.Random(20261127)
    manager = bench.manager()
    versions = range(1, 9)
    may_show: dict[int, set[str]] = {version: {"gone"} for version in versions}
    for step in range(400):
        version, what = (
            chance.choice(versions),
            chance.choice(WHAT),
        )
        path, text = delta(bench, version), f"{step} {'x' * chance.randrange(40)}"
        if what == "list":
            list_snapshots(bench, manager) if any(shown != {"gone"} for shown in may_show.values()) else None
        elif what == "exists":
            manager.exists(bench.path(path))
        elif what == "exists-log":
            assert manager.exists(bench.path(0).getParent()) or all(
                "gone" in shown for shown in may_show.values()
            )
        elif what == "write":
            bench.write(manager, path, text.encode(), overwrite=True)
            may_show[version] = {text}
        elif what == "delete":
            manager.delete(bench.path(path))
            may_show[version] = {"gone"}
        elif what == "foreign":
            foreign_write(bench, path, text.encode())
            may_show[version] = {*may_show[version], text}
        else:
            shown = text_of(bench, manager, path)
            assert shown in may_show[version], (step, version, shown, may_show[version])


@pytest.mark.parametrize(
    ("code", "defect", "test"),
    [
        ("                manager.written(path);\n", "", test_any_order_of_looks_writes_and_opens),
        ("            saver.forgetLooks();\n", "", test_the_start_of_a_query_forgets_what_was_seen),
        (
            "            super.delete(path);\n        } finally {\n            written(path);",
            "            super.delete(path);\n        } finally {",
            test_what_is_written_or_deleted_after_the_look_counts,
        ),
        (
            "            builder.withFileStatus(status);",
            '            builder.opt("fs.option.openfile.length", String.valueOf(status.getLen()));',
            test_what_another_wrote_after_the_look_is_opened_as_it_is_now,
        ),
        (
            "return (byte[]) kept.get(status.getPath()",
            "for (Iterator<byte[]> i = kept.values().iterator(); i.hasNext(); ) { return (byte[]) i.next(); } return (byte[]) kept.get(status.getPath()",
            test_a_file_that_was_looked_for_costs_one_more_request_and_none_when_it_is_read_again,
        ),
        (
            "changes++;\n        recent.clear();",
            "",
            test_a_log_that_was_looked_for_is_listed_at_once,
        ),
        ("(Seen) listed.remove(key)", "(Seen) listed.get(key)", test_a_look_serves_one_open),
        (
            "if (isEntry && isNext ||",
            "if (isEntry ||",
            test_a_file_that_was_looked_for_costs_one_more_request_and_none_when_it_is_read_again,
        ),
        (
            "(offsets|commits|sources/[0-9]+)/[0-9]{1,18}",
            "(offsets|commits|sources(/[0-9]+)?)/[0-9]{1,18}",
            test_the_log_of_a_source_has_a_name_like_an_entry,
        ),
        (
            "        if (!isFile) {",
            "        if (true) {",
            test_a_file_at_the_place_of_a_state_directory_is_a_file,
        ),
        (
            "return System.nanoTime() - at <",
            "return true || System.nanoTime() - at <",
            test_an_old_look_serves_none,
        ),
        (
            "System.nanoTime() - at < TimeUnit.SECONDS.toNanos(1)",
            "System.nanoTime() - at < TimeUnit.SECONDS.toNanos(60)",
            test_what_another_driver_does_is_seen_a_second_later,
        ),
        (
            "if (changes == before && found.files",
            "if (found.files",
            test_a_look_is_not_remembered_over_what_is_written_or_deleted_meanwhile,
        ),
        (
            "if (next.isFresh() && isSettled(next.status.getPath())",
            "if (next.isFresh() && isStateFile(next.status.getPath())",
            test_a_delta_whose_batch_may_not_be_committed_is_not_read_ahead,
        ),
        (
            "if (write.equals(text(found, WRITE)))",
            "if (manager.owner.equals(text(found, OWNER)))",
            test_an_entry_that_this_driver_has_written_before_is_a_conflict_too,
        ),
    ],
    ids=[
        "write-forgotten",
        "start-forgets-nothing",
        "delete-forgotten",
        "any-etag",
        "any-content",
        "old-listing",
        "many-opens",
        "status-of-none",
        "source-as-entry",
        "file-as-directory",
        "old-look",
        "look-for-a-minute",
        "look-over-a-change",
        "newest-read-ahead",
        "this-owner",
    ],
)
def test_a_defect_is_seen(
    bench: Bench,
    code: str,
    defect: str,
    test: Callable[[Bench], None],
    tmp_path: Path,
    moto_server: MotoServer,
) -> None:
    """Planted one at a time, in a JVM of its own; the test that is to see it fails then."""
    sources = [path.read_text() for path in FENCE.files]
    assert sum(text.count(code) for text in sources) == 1
    planted = [tmp_path / path.name for path in FENCE.files]
    for path, text in zip(planted, sources, strict=True):
        path.write_text(text.replace(code, defect))
    defective_fence = FENCE._replace(files=tuple(planted))
    with (
        running_jvm(tmp_path / "jvm.log", moto_server, defective_fence) as defective,
        pytest.raises((AssertionError, pytest.fail.Exception)),
    ):
        test(replace(bench, jvm=defective))
