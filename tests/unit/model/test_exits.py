"""The table of ``model.exits``: one row per way in which a driver was seen to end."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.model import exit_hints, exits, out_of_memory
from supervisor.model.exit_evidence import OUTLIVED, ExitEvidence, how
from supervisor.model.exit_hints import HINTS
from supervisor.model.exits import RULES, Source, classify
from supervisor.model.headline import headline
from supervisor.model.out_of_memory import Oom
from supervisor.model.records import DETAIL_MAX_BYTES, REASON_MAX_BYTES, Cause

TRACEBACK = """\
26/11/21 01:32:24 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Traceback (most recent call last):
  File "/x/app.py", line 8, in <module>
    raise ValueError("bad row")
ValueError: bad row
"""
JVM_TRACE = """\
Exception in thread "main" org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query x terminated
\tat org.apache.spark.sql.execution.streaming.StreamExecution.run(StreamExecution.scala:1)
"""
CONFLICT = (
    "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 4."
)
FENCE = (
    "checkpoint fence: s3a://b/ck/offsets/12 was written by [job=clicks uid=u1 attempt=4 host=h2] at Sun Nov 22 03:04:36 UTC 2026"
    ", this driver is [job=clicks uid=u1 attempt=3 host=h1]"
)
USED = "org.apache.spark.SparkConcurrentModificationException: Multiple streaming queries are concurrently using metadata."
FENCE_ALONE = (
    f"StreamingQueryException: [STREAM_FAILED] x | org.apache.hadoop.fs.FileAlreadyExistsException: {FENCE}"
)
UNFENCED = "checkpoint fence: s3a://b/ck/commits/7 was written by [a driver without the fence], this driver is [job=a]"
TAKEN = (
    "org.apache.hadoop.fs.FileAlreadyExistsException: File already exists: s3a://b/ck/commits/0. Append or overwrite option must "
    "be specified in [CREATE]"
)
"""Said by S3A to AbortableStreamBasedCheckpointFileManager (Spark 4.3.0, Hadoop's FileContext), on a server of moto's."""
TAKEN_BY_FILE_SYSTEM = (
    "org.apache.hadoop.fs.FileAlreadyExistsException: s3a://b/ck/sources/1/7 already exists"
)
HEAP = "java.lang.OutOfMemoryError: Java heap space"
WORKER_KILLED = """\
STREAM_FAILED: StreamingQueryException: [STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage \
failure: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting 'spark.python.worker'
"""
WORKER_MEMORY = """\
pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query terminated with exception: \
[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/x/app.py", line 6, in f
    y = bytearray(900 << 20)
        ^^^^^^^^^^^^^^^^^^^^
MemoryError
"""
CRASH = """\
#
# A fatal error has been detected by the Java Runtime Environment:
#
#  SIGSEGV (0xb) at pc=0x00007f2b8c4a1234, pid=77, tid=78
#
# JRE version: OpenJDK Runtime Environment (17.0.15+6) (build 17.0.15+6-Debian-1deb12u1)
# Problematic frame:
# C  [libzstd-jni.so+0x1234]  ZSTD_decompress+0x12
#
# An error report file with more information is saved as:
# /w/hs_err_pid77.log
"""
NO_CLASS = (
    "Error: Failed to load class example.Missing.\n26/11/21 INFO ShutdownHookManager: Shutdown hook called\n"
)
END = "26/11/21 05:30:44 INFO SparkContext: Successfully stopped SparkContext (Uptime: 56245 ms)\n"
GONE = (Cause.BAD_CHECKPOINT, "it is missing")
NO_S3A = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"


TOO_SMALL = (
    "org.apache.spark.SparkIllegalArgumentException: [INVALID_DRIVER_MEMORY] System memory 419430400 must be at least "
    "471859200.\nPlease increase heap size using the --driver-memory option"
)


def test_a_heap_that_spark_refuses_is_not_tried_again() -> None:
    for evidence in (
        ExitEvidence(1, unbounded=True, error=TOO_SMALL),
        ExitEvidence(1, unbounded=False, error=TOO_SMALL),
    ):
        verdict = classify(evidence)
        assert verdict.permanent and verdict.cause is Cause.NOT_STARTED
        assert verdict.reason.startswith(
            "driver memory 400 MiB, Spark needs 450 MiB; raise spark.driver.memory"
        )
    executor = classify(
        ExitEvidence(1, unbounded=True, error="Executor memory 104857600 must be at least 471859200.")
    )
    assert executor.reason.startswith(
        "executor memory 100 MiB, Spark needs 450 MiB; raise spark.executor.memory"
    )
    assert classify(ExitEvidence(0, unbounded=False, tail=TOO_SMALL)).cause is Cause.FINISHED
    heard = classify(ExitEvidence(1, unbounded=True, tail=TOO_SMALL))
    assert not heard.permanent, "nobody is quarantined for a line of an output"
    assert heard.reason.startswith("from the output: driver memory 400 MiB, Spark needs 450 MiB; raise")


@pytest.mark.parametrize(
    ("evidence", "cause", "says"),
    [
        # bounded or not
        (ExitEvidence(0, unbounded=False), Cause.FINISHED, "exit code 0"),
        (ExitEvidence(0, unbounded=True), Cause.EXITED_ZERO, "swallowed"),
        (ExitEvidence(0, unbounded=True, tail=TRACEBACK), Cause.EXITED_ZERO, "ValueError: bad row"),
        # it was not let begin: what a driver does that waits says nothing of the job
        (
            ExitEvidence(78, unbounded=True, refused=GONE, error="SystemExit: exit 78"),
            Cause.BAD_CHECKPOINT,
            "it is missing",
        ),
        (
            ExitEvidence(0, unbounded=False, refused=(Cause.NO_ACCESS, "no answer")),
            Cause.NO_ACCESS,
            "no answer",
        ),
        (
            ExitEvidence(-9, unbounded=True, refused=GONE, killed_for=(Cause.START_TIMED_OUT, "late")),
            Cause.BAD_CHECKPOINT,
            "it is",
        ),
        (
            ExitEvidence(143, unbounded=True, refused=GONE, stop_requested=True),
            Cause.STOPPED,
            "stopped on request",
        ),
        # a stop was asked for: nothing else counts
        (ExitEvidence(0, unbounded=False, stop_requested=True), Cause.STOPPED, "stopped on request"),
        (ExitEvidence(143, unbounded=True, stop_requested=True), Cause.STOPPED, "SIGTERM (exit code 143)"),
        (ExitEvidence(-9, unbounded=True, stop_requested=True, tail=HEAP), Cause.STOPPED, "SIGKILL"),
        (
            ExitEvidence(
                1,
                unbounded=True,
                stop_requested=True,
                killed_for=(Cause.STOPPED, "it did not stop within 30 s"),
            ),
            Cause.STOPPED,
            "did not stop within 30 s",
        ),
        # we killed it
        (
            ExitEvidence(-9, unbounded=True, killed_for=(Cause.STALLED, "no progress for 600 s")),
            Cause.STALLED,
            "600 s",
        ),
        (
            ExitEvidence(0, unbounded=False, killed_for=(Cause.LEASE_EXPIRED, "no renewal")),
            Cause.LEASE_EXPIRED,
            "no renewal",
        ),
        # second writer
        (
            ExitEvidence(1, unbounded=True, error="CONCURRENT_STREAM_LOG_UPDATE: x"),
            Cause.CHECKPOINT_CONFLICT,
            "second writer",
        ),
        (ExitEvidence(1, unbounded=True, tail=CONFLICT), Cause.CHECKPOINT_CONFLICT, "another driver"),
        (ExitEvidence(0, unbounded=True, tail=CONFLICT), Cause.CHECKPOINT_CONFLICT, "another driver"),
        (
            ExitEvidence(
                1,
                unbounded=True,
                error="CONCURRENT_STREAM_LOG_UPDATE: x",
                tail=f"26/11/22 ERROR F: {FENCE}\n\tat x\n",
            ),
            Cause.CHECKPOINT_CONFLICT,
            "attempt 4 of clicks (uid u1) on h2 wrote offsets/12 at Sun Nov 22 03:04:36 UTC 2026: a second writer",
        ),
        (
            ExitEvidence(1, unbounded=True, tail=USED),
            Cause.CHECKPOINT_CONFLICT,
            "look for another driver on it",
        ),
        (
            ExitEvidence(1, unbounded=True, error=FENCE_ALONE),
            Cause.CHECKPOINT_CONFLICT,
            "attempt 4 of clicks (uid u1) on h2 wrote offsets/12 at",
        ),
        (
            ExitEvidence(1, unbounded=True, tail=CONFLICT + UNFENCED),
            Cause.CHECKPOINT_CONFLICT,
            "a driver without the storage fence wrote commits/7: a second writer",
        ),
        # the same under a manager of the user's own, which says it in other words
        (
            ExitEvidence(1, unbounded=True, error=f"StreamingQueryException: [STREAM_FAILED] x | {TAKEN}"),
            Cause.CHECKPOINT_CONFLICT,
            "commits/0 was there already (FileAlreadyExistsException): a second writer on the checkpoint, look for it",
        ),
        (
            ExitEvidence(1, unbounded=True, tail=f"Caused by: {TAKEN_BY_FILE_SYSTEM}\n\tat x\n"),
            Cause.CHECKPOINT_CONFLICT,
            "sources/1/7 was there",
        ),
        (
            ExitEvidence(1, unbounded=True, error=TAKEN.replace("ck/commits/0", "out/part-0")),
            Cause.USER_ERROR,
            "part-0",
        ),
        # the fence's line alone is no end: it is also said of a log that is only read
        (ExitEvidence(1, unbounded=True, tail=f"{FENCE}\n{TRACEBACK}"), Cause.USER_ERROR, "bad row"),
        # memory
        (ExitEvidence(1, unbounded=True, error=HEAP), Cause.OUT_OF_MEMORY, "Java heap space"),
        (ExitEvidence(52, unbounded=True, error="OutOfMemoryError: heap"), Cause.OUT_OF_MEMORY, "heap"),
        (
            ExitEvidence(1, unbounded=True, error="MemoryError"),
            Cause.OUT_OF_MEMORY,
            "Python got no memory (MemoryError): raise",
        ),
        (
            ExitEvidence(1, unbounded=True, error="OutOfMemoryError: MemoryError: "),
            Cause.OUT_OF_MEMORY,
            "Python got no memory",
        ),
        (
            ExitEvidence(
                1, unbounded=True, error="Py4JError: None.None", tail=f'Exception in thread "Thread-4" {HEAP}'
            ),
            Cause.USER_ERROR,
            "from the output: Java heap is full: raise spark.driver.memory",
        ),
        (
            ExitEvidence(1, unbounded=True, error="java.lang.OutOfMemoryError: GC overhead limit exceeded"),
            Cause.OUT_OF_MEMORY,
            "raise spark.driver.memory",
        ),
        (
            ExitEvidence(1, unbounded=True, error="java.lang.OutOfMemoryError: Metaspace"),
            Cause.OUT_OF_MEMORY,
            "MaxMetaspaceSize",
        ),
        (
            ExitEvidence(1, unbounded=True, error="java.lang.OutOfMemoryError: Compressed class space"),
            Cause.OUT_OF_MEMORY,
            "CompressedClassSpaceSize",
        ),
        (
            ExitEvidence(
                1,
                unbounded=True,
                error="java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory",
            ),
            Cause.OUT_OF_MEMORY,
            "raise the limit on processes",
        ),
        (
            ExitEvidence(
                1,
                unbounded=True,
                error="java.lang.OutOfMemoryError: Cannot reserve 9 bytes of direct buffer memory",
            ),
            Cause.OUT_OF_MEMORY,
            "MaxDirectMemorySize",
        ),
        (
            ExitEvidence(
                1,
                unbounded=True,
                error="# There is insufficient memory for the Java Runtime Environment to continue.",
            ),
            Cause.OUT_OF_MEMORY,
            "raise resources.memory, or give the host",
        ),
        (
            ExitEvidence(52, unbounded=True, error="ConnectionRefusedError: [Errno 111]"),
            Cause.OUT_OF_MEMORY,
            "Spark's own",
        ),
        (ExitEvidence(0, unbounded=True, error=HEAP), Cause.OUT_OF_MEMORY, "raise spark.driver.memory"),
        (
            ExitEvidence(1, unbounded=True, error=WORKER_MEMORY),
            Cause.OUT_OF_MEMORY,
            "spark.executor.pyspark.memory",
        ),
        (
            ExitEvidence(1, unbounded=True, error=WORKER_KILLED, oom=Oom.GROUP),
            Cause.OUT_OF_MEMORY,
            "killed a Python worker at",
        ),
        (
            ExitEvidence(1, unbounded=True, error=WORKER_KILLED, oom=Oom.HOST),
            Cause.OUT_OF_MEMORY,
            "for the host was short",
        ),
        (
            ExitEvidence(1, unbounded=True, error=WORKER_KILLED, oom=Oom.NOBODY),
            Cause.USER_ERROR,
            "Python worker exited",
        ),
        (
            ExitEvidence(1, unbounded=True, tail=TRACEBACK, oom=Oom.TREE),
            Cause.OUT_OF_MEMORY,
            "a process of the driver",
        ),
        (ExitEvidence(1, unbounded=True, tail=TRACEBACK, oom=Oom.GROUP), Cause.USER_ERROR, "bad row"),
        (
            ExitEvidence(1, unbounded=True, tail="MyMemoryErrorHandler was set up\nValueError: x"),
            Cause.USER_ERROR,
            "ValueError: x",
        ),
        (
            ExitEvidence(-9, unbounded=True, killed_for=(Cause.STALLED, "no progress for 60 s"), tail=HEAP),
            Cause.STALLED,
            "no progress for 60 s; from the output: Java heap is full",
        ),
        (ExitEvidence(-9, unbounded=True, oom=Oom.TREE), Cause.OUT_OF_MEMORY, "at the limit of its cgroup"),
        (ExitEvidence(-9, unbounded=True, oom=Oom.HOST), Cause.OUT_OF_MEMORY, "the kernel killed"),
        (ExitEvidence(137, unbounded=True, oom=Oom.HOST), Cause.OUT_OF_MEMORY, "the kernel killed"),
        (ExitEvidence(137, unbounded=True), Cause.KILLED, "as the kernel does when memory is short"),
        # signals
        (ExitEvidence(-9, unbounded=True, oom=Oom.NOBODY), Cause.KILLED, "SIGKILL, not by the supervisor"),
        (ExitEvidence(137, unbounded=True, oom=Oom.NOBODY), Cause.KILLED, "SIGKILL (exit code 137)"),
        (ExitEvidence(143, unbounded=True), Cause.KILLED, "SIGTERM"),
        (ExitEvidence(134, unbounded=True), Cause.KILLED, "SIGABRT"),
        (ExitEvidence(-11, unbounded=False), Cause.KILLED, "SIGSEGV"),
        (
            ExitEvidence(-6, unbounded=True, tail=CRASH),
            Cause.KILLED,
            "from the output: the JVM crashed: SIGSEGV in libzstd-jni.so, the driver's log has its report; killed by SIGABRT",
        ),
        (ExitEvidence(134, unbounded=True, begun=True, tail=CRASH), Cause.KILLED, "the JVM crashed: SIGSEGV"),
        # not executable
        (
            ExitEvidence(
                127, unbounded=True, begun=False, tail="spark-class: line 71: java: command not found"
            ),
            Cause.NOT_STARTED,
            "java: command not found",
        ),
        (
            ExitEvidence(127, unbounded=True, begun=True, tail="x: command not found"),
            Cause.USER_ERROR,
            "exit code 127",
        ),
        (ExitEvidence(127, unbounded=True, tail="bye"), Cause.USER_ERROR, "bye"),
        # the application's own failure
        (
            ExitEvidence(1, unbounded=True, tail=TRACEBACK),
            Cause.USER_ERROR,
            "exit code 1: from the output: ValueError: bad row",
        ),
        (
            ExitEvidence(1, unbounded=True, error="ValueError: told", tail=TRACEBACK),
            Cause.USER_ERROR,
            "ValueError: told",
        ),
        (
            ExitEvidence(7, unbounded=True, error="SystemExit: exit 7"),
            Cause.USER_ERROR,
            "exit code 7: the application called",
        ),
        (
            ExitEvidence(1, unbounded=True, error="SystemExit: exit no topic", tail=END),
            Cause.USER_ERROR,
            "code 1: no topic",
        ),
        (
            ExitEvidence(7, unbounded=True, error="SystemExit: exit 7", tail=TRACEBACK + END),
            Cause.USER_ERROR,
            "7: from the output: ValueError: bad",
        ),
        (ExitEvidence(1, unbounded=True, tail=JVM_TRACE), Cause.USER_ERROR, "STREAM_FAILED"),
        (ExitEvidence(1, unbounded=True, tail=NO_S3A), Cause.USER_ERROR, "spark.s3a_jars"),
        (ExitEvidence(101, unbounded=True, tail=NO_CLASS), Cause.USER_ERROR, "correct class"),
        (
            ExitEvidence(2, unbounded=True, tail="python3: can't open file 'x'\n\n"),
            Cause.USER_ERROR,
            "can't open file",
        ),
        (ExitEvidence(None, unbounded=True), Cause.USER_ERROR, "exit code unknown"),
        (ExitEvidence(1, unbounded=True), Cause.USER_ERROR, "exit code 1"),
    ],
)
def test_cause_and_sentence(evidence: ExitEvidence, cause: Cause, says: str) -> None:
    verdict = classify(evidence)
    assert verdict.cause is cause
    assert says in verdict.reason
    assert "\n" not in verdict.reason
    assert verdict.permanent is (cause in (Cause.NOT_STARTED, Cause.BAD_CHECKPOINT))


def test_the_sentence_is_bounded() -> None:
    verdict = classify(ExitEvidence(1, unbounded=True, error="ValueError: " + "ü" * 5000))
    assert len(verdict.reason.encode()) <= REASON_MAX_BYTES


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0, "exit code 0"),
        (1, "exit code 1"),
        (-15, "killed by SIGTERM"),
        (143, "killed by SIGTERM (exit code 143)"),
        (255, "exit code 255"),
        (None, "exit code unknown"),
    ],
)
def test_how(status: int | None, text: str) -> None:
    assert how(status) == text


def test_the_advice_comes_first_and_stays_however_long_the_error_is() -> None:
    verdict = classify(ExitEvidence(1, unbounded=True, error=f"Py4JJavaError: {NO_S3A} " + "at x.y.z " * 200))
    assert verdict.reason.startswith("the jars for s3a:// are missing: set spark.s3a_jars; exit code 1: ")


STREAM_FAILED = (
    "STREAM_FAILED: StreamingQueryException: [STREAM_FAILED] Query [id = e63fb813-02fa-4a03-8156-c1532be0627c, "
    "runId = 71fdb3f7-9dbd-48c9-b49a-53a5cffd029f] terminated with exception: "
)
LOST = "Some data may have been lost because they are not available in Kafka any more; either the data was aged out"


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listNodes",
            "no Kafka broker answered: see to the brokers, and to the addresses in the application",
        ),
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic",
            "Kafka has no such topic, or it was deleted: spark-supervisor docs jobs-kafka says what to do",
        ),
        (
            "org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position is out of range",
            "the topic has lost records that were not read (OffsetOutOfRangeException): docs jobs-kafka says what to do",
        ),
        (
            LOST,
            "the topic has lost records that were not read: spark-supervisor docs jobs-kafka says what to do",
        ),
        (
            "[LOCATION_ALREADY_EXISTS] Cannot name the managed table as `clicks`, its location already exists",
            "the catalog has forgotten a table whose files are there: spark-supervisor docs jobs-spec says what to do",
        ),
        (
            "ProducerFencedError: There is a newer producer with the same transactionalId",
            "another producer has taken the transactional id: look for a second writer",
        ),
    ],
)
def test_what_is_reported_is_told_with_what_to_do(error: str, advice: str) -> None:
    verdict = classify(ExitEvidence(1, unbounded=True, error=STREAM_FAILED + error))
    assert verdict.reason.startswith(f"{advice}; exit code 1: STREAM_FAILED")


def test_what_kafka_said_before_another_error_is_no_advice() -> None:
    tail = "WARN KafkaOffsetReaderAdmin: TimeoutException: Timed out waiting for a node assignment. Call: listNodes"
    verdict = classify(
        ExitEvidence(1, unbounded=True, error="ZeroDivisionError: division by zero", tail=tail)
    )
    assert verdict.reason == "exit code 1: ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (
            "[unresolved dependency: org.slf4j#slf4j-api;2.0.17: not found]",
            "a package was not found: no repository answered, or its name or version is wrong; doctor SPEC looks for it",
        ),
        (
            "[download failed: org.xerial.snappy#snappy-java;1.1.10.8!snappy-java.jar(bundle)]",
            "a package could not be fetched: the repository failed, or two drivers fetched it at once",
        ),
        (
            "\t\t[NOT FOUND  ] g#a;1!a.jar (0ms)\n\n\t==== local-m2-cache: tried\n\n\t  file:/h/.m2/repository/g/a/1/a-1.jar\n"
            "[download failed: g#a;1!a.jar]",
            "~/.m2 has the pom of a package and not its jar, and no repository is asked: put "
            "/h/.m2/repository/g/a/1/a-1.jar there, or see docs jobs-kafka",
        ),
    ],
)
def test_packages_that_cannot_be_had_are_told_with_what_to_do(words: str, advice: str) -> None:
    tail = f'Exception in thread "main" java.lang.RuntimeException: {words}\n\tat org.apache.spark.util.MavenUtils'
    assert classify(ExitEvidence(1, unbounded=True, tail=tail)).reason.startswith(
        f"from the output: {advice}; exit code 1: "
    )


@pytest.mark.parametrize(
    "evidence",
    [
        ExitEvidence(3, unbounded=True, error="SystemExit: exit 3", tail="WARN x\n" + END),
        ExitEvidence(0, unbounded=True, tail="26/11/21 05:30:40 WARN Utils: a\n" + END),
    ],
)
def test_sparks_talk_of_an_orderly_end_is_no_reason(evidence: ExitEvidence) -> None:
    assert "Successfully stopped" not in classify(evidence).reason


def test_no_secret_of_an_error_is_kept_where_everybody_can_read_it() -> None:
    message = "ValueError: no login with password=hunter2 at jdbc:postgresql://u:pw123@db/x, api_key: 'k1234'"
    reason = classify(ExitEvidence(1, unbounded=True, error=message)).reason
    assert not any(secret in reason for secret in ("hunter2", "pw123", "k1234"))
    assert "no login" in reason and "@db/x" in reason


def test_last_words_without_end_are_searched_in_one_pass() -> None:
    """The tombstone waits for the verdict; a search that goes back from every word would take minutes here."""
    verdict = classify(ExitEvidence(1, True, tail="PYTHON_ " * 60_000 + "MemoryErro"))
    assert verdict.cause is Cause.USER_ERROR


KEY_ERROR = "KeyError: 'customer_id'"
LINES = (
    "java.lang.OutOfMemoryError: Java heap space",
    "MemoryError",
    "Terminating due to java.lang.OutOfMemoryError: Java heap space",
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
    CONFLICT,
    TAKEN,
    FENCE_ALONE,
    TOO_SMALL,
    CRASH,
    NO_CLASS,
    "java.net.BindException: Address already in use",
    "java.net.BindException: bind(..) failed with error(-99): Cannot assign requested address: Service 'sparkDriver' failed",
    "sh: java: command not found",
    *(re.sub(r"\\(.)", r"\1", words.pattern) for words, _ in HINTS),
)
"""What an application may print that reads the log of another system."""


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("prefix", ["", "ALERT "])
@pytest.mark.parametrize("status", [1, 0, 3, 127, 143, -6])
def test_what_the_driver_reported_beats_what_stands_in_its_output(
    line: str, prefix: str, status: int
) -> None:
    """A line of another system in the output must not raise the memory of a job that fails of a KeyError."""
    reported = ExitEvidence(status, unbounded=True, begun=True, error=KEY_ERROR, raised=True)
    with_lines = replace(reported, tail=f"{prefix}{line}\n{TRACEBACK}")
    assert classify(with_lines) == classify(reported)
    assert KEY_ERROR in classify(reported).reason


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("status", [1, 0, -6, -9, 143, None])
def test_an_output_raises_no_memory_and_quarantines_nobody(line: str, status: int | None) -> None:
    verdict = classify(ExitEvidence(status, unbounded=True, tail=line, oom=Oom.NOBODY))
    assert verdict.cause is not Cause.OUT_OF_MEMORY and not verdict.permanent
    silent = classify(ExitEvidence(status, unbounded=True, oom=Oom.NOBODY))
    assert verdict == silent or "from the output: " in verdict.reason


def test_the_rules_stand_in_the_order_of_whose_word_counts() -> None:
    sources = [rule.source for rule in RULES]
    assert sources == sorted(sources) and set(sources) == set(Source)


def test_no_rule_reads_the_output_but_where_nothing_was_reported() -> None:
    """``heard`` is the output for those who classify; that of ``_other_writer`` says who, not what."""
    readers = set()
    for module in (exits, exit_hints, out_of_memory):
        tree = ast.parse(Path(module.__file__ or "").read_text())
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            names = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
            readers |= {function.name} if names & {"tail", "error"} else set()
    assert readers == {"_other_writer"}


def test_a_jvm_that_ended_itself_for_want_of_memory_has_told_it() -> None:
    said = "Terminating due to java.lang.OutOfMemoryError: Metaspace\n"
    verdict = classify(ExitEvidence(3, unbounded=True, tail=said))
    assert verdict.cause is Cause.OUT_OF_MEMORY and "MaxMetaspaceSize" in verdict.reason
    for other in (
        ExitEvidence(3, unbounded=True, tail=f"it logged: {said}"),
        ExitEvidence(1, unbounded=True, tail=said),
        ExitEvidence(3, unbounded=True, error=KEY_ERROR, tail=said),
    ):
        assert classify(other).cause is Cause.USER_ERROR


def test_a_query_that_failed_is_not_what_a_signal_has_ended() -> None:
    assert classify(ExitEvidence(143, unbounded=True, error=KEY_ERROR)).cause is Cause.KILLED
    assert classify(ExitEvidence(143, unbounded=True, error=KEY_ERROR, raised=True)).cause is Cause.USER_ERROR


@pytest.mark.parametrize("how", [OUTLIVED, "query counts failed"])
def test_what_was_killed_after_it_had_failed_has_failed_of_that(how: str) -> None:
    evidence = ExitEvidence(-9, True, killed_for=(Cause.USER_ERROR, how), error=KEY_ERROR)
    verdict = classify(evidence)
    assert verdict == (Cause.USER_ERROR, f"{how}: {KEY_ERROR}", False)
    assert headline(verdict.reason).endswith(KEY_ERROR)
    assert classify(replace(evidence, unbounded=False, status=0)).cause is Cause.USER_ERROR
    of_memory = classify(replace(evidence, error=HEAP))
    assert of_memory.cause is Cause.OUT_OF_MEMORY and headline(of_memory.reason).startswith(
        "Java heap is full"
    )
    for error in ("SystemExit: exit 1", "ConnectionRefusedError: [Errno 111]"):
        assert classify(replace(evidence, error=error, oom=Oom.HOST)).cause is Cause.USER_ERROR


BIND = "Py4JJavaError: java.net.BindException: {} : Service 'sparkDriver' failed after 16 retries (on a random free port)!"


@pytest.mark.parametrize(
    ("error", "begin"),
    [
        (
            BIND.format("Cannot assign requested address"),
            "spark.driver.bindAddress, else SPARK_LOCAL_IP, else what the host's name resolves to, is no address of this host",
        ),
        (
            BIND.format("bind(..) failed with error(-99): Cannot assign requested address"),
            "spark.driver.bindAddress, else",
        ),
        (BIND.format("Address already in use"), "no free port: raise spark.port.maxRetries"),
        (
            WORKER_KILLED,
            "a Python worker died, most likely in native code: set spark.python.worker.faulthandler.enabled",
        ),
        (
            "SparkException: Python worker exited unexpectedly (crashed): Fatal Python error: Segmentation fault",
            "native code crashed in a Python worker; see the log",
        ),
    ],
)
def test_the_remedy_is_that_of_the_error(error: str, begin: str) -> None:
    assert classify(ExitEvidence(1, True, error=error, raised=True)).reason.startswith(begin)


RETURNED = ExitEvidence(
    0, True, returned=True, session=True, tail="26/11/28 10:00:00 WARN Utils: x\nERROR: odd\n"
)


@pytest.mark.parametrize(
    ("evidence", "says"),
    [
        (RETURNED, "its code came to its end: does it wait for its queries (awaitTermination)?"),
        (
            replace(RETURNED, drained=True),
            "its queries read all there was and ended (availableNow, once): say unbounded: false",
        ),
        (replace(RETURNED, error=KEY_ERROR), f"its query ended with an error that was caught ({KEY_ERROR})"),
        (replace(RETURNED, session=False), "it ended without a SparkSession"),
        (
            ExitEvidence(0, True, session=False, left=2),
            "it left 2 processes behind, now killed: an application must not daemonise",
        ),
    ],
)
def test_an_end_without_an_error_is_told_by_what_was_seen(evidence: ExitEvidence, says: str) -> None:
    """Noise in the output of a driver that ended in order is no cause."""
    assert classify(evidence) == (Cause.EXITED_ZERO, f"exit code 0 of an unbounded job: {says}", False)


@pytest.mark.parametrize(("cause", "permanent"), [(Cause.BAD_CHECKPOINT, True), (Cause.NO_ACCESS, False)])
def test_what_was_not_let_begin_is_tried_again_where_that_can_help(cause: Cause, permanent: bool) -> None:
    assert classify(ExitEvidence(78, unbounded=True, refused=(cause, "why"))).permanent is permanent


@pytest.mark.parametrize("hint", [hint for _, hint in exit_hints.HINTS])
def test_a_history_has_room_for_what_is_to_be_done(hint: str) -> None:
    assert len(hint.encode()) <= DETAIL_MAX_BYTES


def test_a_history_has_room_for_the_remedy_of_a_job_that_has_ended_well() -> None:
    reason = classify(replace(RETURNED, drained=True)).reason
    assert reason.endswith("unbounded: false") and len(reason.encode()) <= DETAIL_MAX_BYTES
