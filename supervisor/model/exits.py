"""Decides why a driver ended: it maps the evidence to a cause, and to one sentence for humans. A table
decides: the first row that fits.

It is pure and imports the standard library only: the shim calls it once its driver tree is proven empty. The
texts searched for are Spark's own (spark.md S14): an error class or an exception name in a report of the
bootstrap, or in the end of the log.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from supervisor.model import out_of_memory
from supervisor.model.driver_memory import MIB
from supervisor.model.out_of_memory import SPARK_EXIT_OOM, WORKER_DIED, Oom
from supervisor.model.records import PERMANENT_CAUSES, REASON_MAX_BYTES, Cause, clip
from supervisor.model.secret_words import covered
from supervisor.model.spark_session import MARK as UNSUPPORTED_SESSION

SHELL_SIGNAL_BASE: Final = 128
"""A shell, and a JVM whose Python child was killed, exit with 128 + the signal (measured: 137 after SIGKILL).
"""


@dataclass(frozen=True, slots=True)
class ExitEvidence:
    """Holds the evidence of an end. ``status`` is that of the tree's root, an exit code or −signal; it is
    None if nobody could wait for it.

    ``stop_requested`` means in any way, before the exit. ``killed_for`` is what the supervisor killed it for,
    with the sentence. ``begun`` says that the application was seen to run; it is None if the driver does not
    report. ``error`` is the last ``error`` report, or ``""``. ``tail`` is the end of the driver's output.
    ``oom`` is whom the kernel killed for lack of memory meanwhile (``shim.oom``); None if that is not known.
    ``refused`` is why the application was not let begin; None if it was. ``failed`` says that the application had failed
    while its process went on, which was ended for it; it stands in the place of how it ended.
    """

    status: int | None
    unbounded: bool
    stop_requested: bool = False
    killed_for: tuple[Cause, str] | None = None
    begun: bool | None = None
    error: str = ""
    tail: str = ""
    oom: Oom | None = None
    refused: tuple[Cause, str] | None = None
    failed: str = ""

    @property
    def signal(self) -> int | None:
        """Returns the signal that ended the driver, also when a shell or JVM passed it on as an exit code, or
        None.
        """
        if self.status is None:
            return None
        number = -self.status if self.status < 0 else self.status - SHELL_SIGNAL_BASE
        return number if number in signal.valid_signals() else None

    def mentions(self, words: tuple[str, ...]) -> str | None:
        """Returns the first of ``words`` that the report or the log holds, or None."""
        return next((word for word in words if word in self.error or word in self.tail), None)


class ExitVerdict(NamedTuple):
    """Holds the cause and its sentence. If ``permanent`` is set, trying again cannot help (quarantine)."""

    cause: Cause
    reason: str
    permanent: bool = False


CONFLICT_WORDS: Final = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "Multiple streaming jobs detected",
    "Multiple streaming queries are concurrently using",
    "FileAlreadyExistsException: checkpoint fence",
)
OTHER_WRITER: Final = re.compile(
    r"checkpoint fence: \S*?/([^/\s]+/[^/\s]+) was written by "
    r"\[(?:job=(\S+) uid=(\S+) attempt=(\d+) host=([^\]\s]+)|[^\]]*)\](?: at ([^,\n]{1,40}))?"
)
"""It matches what the checkpoint manager of ``spark.fence`` says of the object that was there first."""

ENTRY_TAKEN: Final = re.compile(
    r"FileAlreadyExistsException: (?=[^\n]{0,400}?already exists)[^\n]{0,400}?/((?:offsets|commits|sources/\d+)/\d+)\b"
)
"""It matches what another manager that writes no entry twice (Spark's for cloud stores) says when another
writer's entry came between its check and its write: Spark itself takes that for an error like any other."""

NOT_EXECUTABLE_WORDS: Final = (
    "command not found",
    "No such file or directory",
    "Permission denied",
    "not executable",
)
NOT_EXECUTABLE: Final = (126, 127)
"""A shell exits with these when it cannot run a command: spark-submit is a script that looks for Java."""

CRASHED: Final = re.compile(
    r"A fatal error has been detected by the Java Runtime Environment:\s*\n(?:#\s*\n)*#\s+(Internal Error|SIG\w+)"
)
CRASH_FRAME: Final = re.compile(r"# Problematic frame:\s*\n# \S*\s*\[?(\S+?)[+\]\s]")

HINTS: Final = {
    "org.apache.hadoop.fs.s3a.S3AFileSystem not found": "the jars for s3a:// are missing: set spark.s3a_jars",
    'No FileSystem for scheme "s3"': "Spark reads S3 as s3a://",
    "UnsupportedClassVersionError": "Java is too old for this Spark or application",
    "Could not reserve enough space for": "spark.driver.memory is more than the host, or a limit of it, allows: lower it",
    "Error: Failed to load class": "the .jar has no such main class: correct class",
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE": "the checkpoint has lost its metadata file",
    "No AWS Credentials provided": "no AWS credentials in the environment of the supervisor",
    "Unable to load credentials from any": "no AWS credentials in the environment of the supervisor",
    "java.net.BindException": "no free port: raise spark.port.maxRetries or set spark.ui.enabled=false",
}
"""Each text of the log stands with what it usually means, for the beginning of the sentence."""

KAFKA_PAGE: Final = "spark-supervisor docs jobs-kafka says what to do"
END_HINTS: Final = {
    "Timed out waiting for a node assignment": (
        "no Kafka broker answered: see to the brokers, and to the addresses in the application"
    ),
    "UnknownTopicOrPartitionException": f"Kafka has no such topic, or it was deleted: {KAFKA_PAGE}",
    "OffsetOutOfRangeException": (  # named, and yet within what a history keeps
        "the topic has lost records that were not read (OffsetOutOfRangeException): docs jobs-kafka says what to do"
    ),
    "not available in Kafka any more": f"the topic has lost records that were not read: {KAFKA_PAGE}",
    "ProducerFencedError": "another producer has taken the transactional id: look for a second writer",
    "[unresolved dependency: ": (
        "a package was not found: no repository answered, or its name or version is wrong; doctor SPEC looks for it"
    ),
    "[download failed: ": "a package could not be fetched: the repository failed, or two drivers fetched it at once",
}
"""As ``HINTS``, of texts that a log may also have from a trouble that is over: they count in the reported error alone,
and in the log if no error was reported."""


def classify(evidence: ExitEvidence) -> ExitVerdict:
    """Returns the cause of an exit."""
    for applies, verdict in _TABLE:
        if applies(evidence):
            found = verdict(evidence)
            return found._replace(reason=clip(covered(found.reason), REASON_MAX_BYTES))
    raise AssertionError("the last row fits everything")


def _is_not_executable(e: ExitEvidence) -> bool:
    return (
        e.status in NOT_EXECUTABLE and not e.begun and any(words in e.tail for words in NOT_EXECUTABLE_WORDS)
    )


def _how(e: ExitEvidence) -> str:
    return e.failed or how(e.status)


def _finished(e: ExitEvidence) -> ExitVerdict:
    return ExitVerdict(Cause.FINISHED, f"{how(e.status)} of a bounded job")


def _stopped(e: ExitEvidence) -> ExitVerdict:
    if e.killed_for is not None and e.killed_for[0] is Cause.STOPPED:
        return ExitVerdict(Cause.STOPPED, e.killed_for[1])
    return ExitVerdict(Cause.STOPPED, f"stopped on request ({how(e.status)})")


def _refused(e: ExitEvidence) -> ExitVerdict:
    assert e.refused is not None
    cause, reason = e.refused
    return ExitVerdict(cause, reason, permanent=cause in PERMANENT_CAUSES)


def _ours(e: ExitEvidence) -> ExitVerdict:
    """Judges a driver that the supervisor killed. An application that stands still for want of memory still
    counts as one that stood still, but the advice is about memory."""
    assert e.killed_for is not None
    cause, reason = e.killed_for
    advice = (
        out_of_memory.advice_in(e.error, e.tail) if cause in (Cause.STALLED, Cause.START_TIMED_OUT) else None
    )
    return ExitVerdict(cause, f"{reason}; {advice}" if advice else reason)


def _other_writer(e: ExitEvidence) -> str:
    """Returns who the other writer was, as far as the storage fence knows; else an empty text."""
    found = OTHER_WRITER.search(e.error) or OTHER_WRITER.search(e.tail)
    if found is None:
        return ""
    entry, job, uid, attempt, host, at = found.groups()
    who = f"attempt {attempt} of {job} (uid {uid}) on {host}" if job else "a driver without the storage fence"
    return f"{who} wrote {entry}{f' at {at}' if at else ''}"


def _taken(e: ExitEvidence) -> str:
    """Returns the log entry that another writer wrote first; else an empty text."""
    found = ENTRY_TAKEN.search(e.error) or ENTRY_TAKEN.search(e.tail)
    return found[1] if found is not None else ""


def _conflict(e: ExitEvidence) -> ExitVerdict:
    word = (e.mentions(CONFLICT_WORDS) or "").partition(":")[0]
    if not word:
        known = f"{_taken(e)} was there already (FileAlreadyExistsException)"
        return ExitVerdict(
            Cause.CHECKPOINT_CONFLICT, f"{known}: a second writer on the checkpoint, look for it"
        )
    who = _other_writer(e)
    if who:  # first: a history keeps little more than that
        return ExitVerdict(
            Cause.CHECKPOINT_CONFLICT, f"{who}: a second writer on the checkpoint, look for it ({word})"
        )
    reason = f"Spark saw a second writer on the checkpoint ({word}): look for another driver on it"
    return ExitVerdict(Cause.CHECKPOINT_CONFLICT, reason)


REFUSED_MEMORY: Final = re.compile(r"(System|Executor) memory (\d{1,16}) must be at least (\d{1,16})")
"""Spark's memory manager says this at the start (INVALID_DRIVER_MEMORY, INVALID_EXECUTOR_MEMORY; older
versions have this text without the error class).
"""


def _refused_memory(e: ExitEvidence) -> re.Match[str] | None:
    return REFUSED_MEMORY.search(e.error) or REFUSED_MEMORY.search(e.tail)


def _impossible_memory(e: ExitEvidence) -> ExitVerdict:
    """Returns a permanent verdict: the same settings are refused at each start, so no restart helps, only a
    person does.
    """
    found = _refused_memory(e)
    assert found is not None
    whose = "driver" if found[1] == "System" else "executor"
    had, needed = int(found[2]) // MIB, math.ceil(int(found[3]) / MIB)
    reason = (
        f"{whose} memory {had} MiB, Spark needs {needed} MiB; raise spark.{whose}.memory and submit it again"
    )
    return ExitVerdict(Cause.NOT_STARTED, f"{reason} ({how(e.status)})", permanent=True)


def _unsupported_session(e: ExitEvidence) -> ExitVerdict:
    """Returns a permanent verdict: the application asks for the same session at each start."""
    at = e.error.index(UNSUPPORTED_SESSION)
    return ExitVerdict(Cause.USER_ERROR, f"{e.error[at:]} ({how(e.status)})", permanent=True)


def _short_of_memory(e: ExitEvidence) -> str | None:
    """Returns what ran out and which setting to raise, if anything shows that it was memory. A text of the
    driver counts more than a counter, because it shows whose memory it was. Without any counter, a SIGKILL
    that the supervisor did not send is most likely the kernel's."""
    of_error = out_of_memory.advice_in(e.error, e.tail)
    if of_error is not None:
        return of_error
    if e.status == SPARK_EXIT_OOM:
        return f"exit code {SPARK_EXIT_OOM}, Spark's own for it: {out_of_memory.RAISE_BOTH}"
    if WORKER_DIED.search(e.error) or WORKER_DIED.search(e.tail):
        return out_of_memory.killed(e.oom, "a Python worker")
    if e.oom in (Oom.TREE, Oom.MEMBER):
        return out_of_memory.killed(e.oom, "a process of the driver")
    if e.signal != signal.SIGKILL:
        return None
    if e.oom is None:
        return f"{how(e.status)}, as the kernel does when memory is short, unless somebody did it: raise resources.memory"
    return out_of_memory.killed(e.oom, "the driver" if e.status == -signal.SIGKILL else "its Python process")


def _out_of_memory(e: ExitEvidence) -> ExitVerdict:
    of_error = reported_error(e)
    return ExitVerdict(
        Cause.OUT_OF_MEMORY, f"{_short_of_memory(e)}; {_how(e)}" + (f": {of_error}" if of_error else "")
    )


def _swallowed(e: ExitEvidence) -> ExitVerdict:
    of_error = f" ({reported_error(e)})" if reported_error(e) else ""
    reason = f"exit code 0 of an unbounded job: its query ended, or an exception was swallowed{of_error}"
    return ExitVerdict(Cause.EXITED_ZERO, reason)


def _killed(e: ExitEvidence) -> ExitVerdict:
    return ExitVerdict(Cause.KILLED, f"{how(e.status)}, not by the supervisor")


def _crashed(e: ExitEvidence) -> ExitVerdict:
    """Judges a crash by the JVM's own last lines: which signal, in which library."""
    crash = CRASHED.search(e.tail)
    assert crash is not None
    frame = CRASH_FRAME.search(e.tail)
    where = f" in {frame[1]}" if frame else ""
    return ExitVerdict(
        Cause.KILLED, f"the JVM crashed: {crash[1]}{where} ({how(e.status)}); the driver's log has its report"
    )


def _not_executable(e: ExitEvidence) -> ExitVerdict:
    return ExitVerdict(
        Cause.NOT_STARTED,
        f"exit code {e.status}: {reported_error(e) or 'a command was not found'}",
        permanent=True,
    )


def _own_failure(e: ExitEvidence) -> ExitVerdict:
    ended_by = e.error or e.tail
    hint = next((hint for word, hint in HINTS.items() if word in e.error or word in e.tail), "") or next(
        (hint for word, hint in END_HINTS.items() if word in ended_by), ""
    )
    of_error = reported_error(e)
    advice = f"{hint}; " if hint else ""  # first: a history keeps little more than that
    return ExitVerdict(Cause.USER_ERROR, f"{advice}{_how(e)}" + (f": {of_error}" if of_error else ""))


_TABLE: Final[tuple[tuple[Callable[[ExitEvidence], bool], Callable[[ExitEvidence], ExitVerdict]], ...]] = (
    # A stop request comes first: whatever a driver does while it is being stopped is not its fault.
    (lambda e: e.stop_requested, _stopped),
    (lambda e: e.refused is not None, _refused),
    (lambda e: e.killed_for is not None, _ours),
    (lambda e: e.status == 0 and not e.unbounded, _finished),
    # Then what somebody said, before what the exit code lets us guess.
    (lambda e: UNSUPPORTED_SESSION in e.error, _unsupported_session),
    (lambda e: e.mentions(CONFLICT_WORDS) is not None or _taken(e) != "", _conflict),
    (lambda e: e.status != 0 and _refused_memory(e) is not None, _impossible_memory),
    (lambda e: _short_of_memory(e) is not None, _out_of_memory),
    (lambda e: e.status == 0, _swallowed),
    (lambda e: CRASHED.search(e.tail) is not None, _crashed),
    (lambda e: e.signal is not None, _killed),
    (_is_not_executable, _not_executable),
    (lambda _: True, _own_failure),
)


def how(status: int | None) -> str:
    """Returns a text such as ``exit code 1`` or ``killed by SIGKILL``."""
    if status is None:
        return "exit code unknown"
    number = -status if status < 0 else status - SHELL_SIGNAL_BASE
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"exit code {status}"
    return f"killed by {name}" + ("" if status < 0 else f" (exit code {status})")


_ERROR_LINE: Final = re.compile(
    r"^(?:Exception in thread \"[^\"]*\" |Caused by: |: )?((?:[\w$]+\.)*[\w$]*(?:Error|Exception|Interrupt|Failure)\b.*)$"
)

_SPARK_TALK: Final = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:INFO|DEBUG|TRACE) ")


def reported_error(evidence: ExitEvidence) -> str:
    """Returns what the application reported of its end: its report, else the last line of the log that names
    an error.

    Without either it returns the last line, unless the application left by ``sys.exit``; what Spark logs at
    an orderly end says nothing.
    """
    left = evidence.error.startswith("SystemExit")
    if evidence.error and not left:
        return evidence.error
    lines = [line.strip() for line in evidence.tail.splitlines()]
    for line in reversed(lines):
        match = _ERROR_LINE.match(line)
        if match:
            return match[1]
    if left:
        words = evidence.error.partition(": exit ")[2]
        return "the application called sys.exit" if words.lstrip("-").isdigit() else words
    return next((line for line in reversed(lines) if line and not _SPARK_TALK.match(line)), "")
