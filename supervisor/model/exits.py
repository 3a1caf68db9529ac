"""Decides why a driver ended: it maps the evidence to a cause, and to one sentence for humans. A table
decides: the first rule that has a verdict.

It is pure and imports the standard library only: the shim calls it once its driver tree is proven empty. The
rules stand in the order of whose word counts (``Source``, ``exit_evidence``). The texts searched for are Spark's own
(spark.md S14): an error class or an exception name in a report of the bootstrap or, where nothing was reported, in the end
of the output.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from typing import Final, NamedTuple

from supervisor.model import exit_hints, out_of_memory
from supervisor.model.driver_memory import MIB
from supervisor.model.exit_evidence import (
    FROM_OUTPUT,
    ExitEvidence,
    error_of,
    last_error,
)
from supervisor.model.out_of_memory import JVM_EXIT_OOM, SPARK_EXIT_OOM, WORKER_DIED, Oom
from supervisor.model.records import PERMANENT_CAUSES, REASON_MAX_BYTES, Cause
from supervisor.model.root_cause import cause_text
from supervisor.model.spark_session import MARK as UNSUPPORTED_SESSION


class ExitVerdict(NamedTuple):
    """Holds the cause and its sentence. If ``permanent`` is set, trying again cannot help (quarantine)."""

    cause: Cause
    reason: str
    permanent: bool = False


class Source(IntEnum):
    """Says whose word a rule goes by; the first has the most weight."""

    SUPERVISOR = 0  # it asked for the end, or made it
    KERNEL = 1
    DRIVER = 2  # what it reported
    STATUS = 3  # its exit code or signal, which the output may explain
    OUTPUT = 4


class Rule(NamedTuple):
    """``judge`` returns None if the rule does not fit."""

    source: Source
    judge: Callable[[ExitEvidence], ExitVerdict | None]


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

REFUSED_MEMORY: Final = re.compile(r"(System|Executor) memory (\d{1,16}) must be at least (\d{1,16})")
"""Spark's memory manager says this at the start (INVALID_DRIVER_MEMORY, INVALID_EXECUTOR_MEMORY; older
versions have this text without the error class).
"""


def classify(evidence: ExitEvidence) -> ExitVerdict:
    """Returns the cause of an exit."""
    if evidence.outlived:  # how its processes ended is the supervisor's doing
        evidence = replace(evidence, status=None)
    for rule in RULES:
        found = rule.judge(evidence)
        if found is not None:
            return found._replace(reason=cause_text(found.reason, REASON_MAX_BYTES))
    raise AssertionError("the last rule fits everything")


# -- what the supervisor did ------------------------------------------------------------------------------------------


def _stopped(e: ExitEvidence) -> ExitVerdict | None:
    """Whatever a driver does while it is being stopped is not its fault."""
    if not e.stop_requested:
        return None
    if e.killed_for is not None and e.killed_for[0] is Cause.STOPPED:
        return ExitVerdict(Cause.STOPPED, e.killed_for[1])
    return ExitVerdict(Cause.STOPPED, f"stopped on request ({e.how})")


def _refused(e: ExitEvidence) -> ExitVerdict | None:
    if e.refused is None:
        return None
    cause, reason = e.refused
    return ExitVerdict(cause, reason, permanent=cause in PERMANENT_CAUSES)


def _ours(e: ExitEvidence) -> ExitVerdict | None:
    """Judges a driver that the supervisor killed. An application that stands still for want of memory still
    counts as one that stood still, but the advice is about memory."""
    if e.killed_for is None or e.outlived:
        return None
    cause, reason = e.killed_for
    if cause not in (Cause.STALLED, Cause.START_TIMED_OUT):
        return ExitVerdict(cause, reason)
    advice = _marked(e, out_of_memory.advice_in)
    return ExitVerdict(cause, f"{reason}; {advice}" if advice else reason)


def _finished(e: ExitEvidence) -> ExitVerdict | None:
    if e.status != 0 or e.unbounded:
        return None
    return ExitVerdict(Cause.FINISHED, f"{e.how} of a bounded job")


# -- memory -----------------------------------------------------------------------------------------------------------


def _with_error(e: ExitEvidence, advice: str) -> str:
    """Returns the sentence: the advice first, because a history keeps little more than that."""
    of_error = error_of(e)
    if advice.startswith(FROM_OUTPUT):  # said once
        of_error = of_error.removeprefix(FROM_OUTPUT)
    ended = f"{e.how}: {of_error}" if of_error else e.how
    return f"{advice}; {ended}" if advice else ended


def _counted(e: ExitEvidence) -> ExitVerdict | None:
    """Judges by the kernel's counter of this very tree. What the driver reported says whose memory it was."""
    if e.oom not in (Oom.TREE, Oom.MEMBER):
        return None
    what = "a Python worker" if WORKER_DIED.search(e.reported) else "a process of the driver"
    if e.signal == signal.SIGKILL:
        what = _root_process(e)
    why = out_of_memory.advice_in(e.reported) or out_of_memory.killed(e.oom, what)
    return ExitVerdict(Cause.OUT_OF_MEMORY, _with_error(e, why or ""))


def _reported_out_of_memory(e: ExitEvidence) -> ExitVerdict | None:
    advice = out_of_memory.advice_in(e.reported)
    if advice is None and WORKER_DIED.search(e.reported):
        advice = out_of_memory.killed(e.oom, "a Python worker")
    return None if advice is None else ExitVerdict(Cause.OUT_OF_MEMORY, _with_error(e, advice))


def _status_of_memory(e: ExitEvidence) -> ExitVerdict | None:
    """Judges by exit codes that mean memory, and by a SIGKILL that the kernel has counted."""
    advice: str | None = None
    if e.status == SPARK_EXIT_OOM:
        advice = f"exit code {SPARK_EXIT_OOM}, Spark's own for it: {out_of_memory.RAISE_BOTH}"
    elif e.status == JVM_EXIT_OOM:
        advice = out_of_memory.advice_of_jvm(e.heard)
    elif e.signal == signal.SIGKILL:
        advice = out_of_memory.killed(e.oom, _root_process(e))
    return None if advice is None else ExitVerdict(Cause.OUT_OF_MEMORY, _with_error(e, advice))


def _root_process(e: ExitEvidence) -> str:
    return "the driver" if e.status == -signal.SIGKILL else "its Python process"


def _impossible_memory(e: ExitEvidence) -> ExitVerdict | None:
    """Returns a permanent verdict: the same settings are refused at each start, so no restart helps, only a
    person does.
    """
    found = REFUSED_MEMORY.search(e.reported)
    if e.status == 0 or found is None:
        return None
    return ExitVerdict(Cause.NOT_STARTED, f"{_too_little(found)} ({e.how})", permanent=True)


def _unsupported_session(e: ExitEvidence) -> ExitVerdict | None:
    """Returns a permanent verdict: the application asks for the same session at each start."""
    _, mark, words = e.reported.partition(UNSUPPORTED_SESSION)
    return ExitVerdict(Cause.USER_ERROR, f"{mark}{words} ({e.how})", permanent=True) if mark else None


def _too_little(found: re.Match[str]) -> str:
    whose = "driver" if found[1] == "System" else "executor"
    had, needed = int(found[2]) // MIB, math.ceil(int(found[3]) / MIB)
    return (
        f"{whose} memory {had} MiB, Spark needs {needed} MiB; raise spark.{whose}.memory and submit it again"
    )


# -- a second writer --------------------------------------------------------------------------------------------------


def _conflict(e: ExitEvidence, text: str) -> ExitVerdict | None:
    word = next((word for word in CONFLICT_WORDS if word in text), "").partition(":")[0]
    if word:
        who = _other_writer(e)
        reason = (
            f"{who}: a second writer on the checkpoint, look for it ({word})"  # who: a history keeps little more
            if who
            else f"Spark saw a second writer on the checkpoint ({word}): look for another driver on it"
        )
        return ExitVerdict(Cause.CHECKPOINT_CONFLICT, reason)
    taken = ENTRY_TAKEN.search(text)
    if taken is None:
        return None
    known = f"{taken[1]} was there already (FileAlreadyExistsException)"
    return ExitVerdict(Cause.CHECKPOINT_CONFLICT, f"{known}: a second writer on the checkpoint, look for it")


def _other_writer(e: ExitEvidence) -> str:
    """Returns who the other writer was, as far as the storage fence knows; else an empty text. A driver that has reported
    the conflict may have the fence's words in its output only."""
    found = OTHER_WRITER.search(e.reported)
    mark = "" if found is not None or not e.reported else FROM_OUTPUT
    found = found or OTHER_WRITER.search(e.tail)
    if found is None:
        return ""
    entry, job, uid, attempt, host, at = found.groups()
    who = f"attempt {attempt} of {job} (uid {uid}) on {host}" if job else "a driver without the storage fence"
    return f"{mark}{who} wrote {entry}{f' at {at}' if at else ''}"


def _reported_conflict(e: ExitEvidence) -> ExitVerdict | None:
    return _conflict(e, e.reported)


def _heard_conflict(e: ExitEvidence) -> ExitVerdict | None:
    found = _conflict(e, e.heard)
    return None if found is None else found._replace(reason=f"{FROM_OUTPUT}{found.reason}")


# -- the application's own end ----------------------------------------------------------------------------------------


def _marked(e: ExitEvidence, advice_in: Callable[[str], str | None]) -> str:
    """Returns the advice for what the driver reported, else for its output, marked as that; empty if there is none."""
    advice = advice_in(e.reported)
    if advice is not None:
        return advice
    heard = advice_in(e.heard)
    return "" if heard is None else f"{FROM_OUTPUT}{heard}"


def _advice_in(text: str) -> str | None:
    """Returns what to do about an error. In an output alone, want of memory is an advice like any other."""
    found = REFUSED_MEMORY.search(text)
    return (
        (_too_little(found) if found else None) or out_of_memory.advice_in(text) or exit_hints.hint_in(text)
    )


def _ended_well(e: ExitEvidence) -> ExitVerdict | None:
    """Judges an unbounded job that ended with 0. Only what was reported is named as its cause: an output has warnings
    enough."""
    if e.status != 0:
        return None
    line = last_error(e.heard)
    if e.reported:
        why = f"its query ended with an error that was caught ({e.reported})"
    elif e.drained:
        why = "its queries read all there was and ended (availableNow, once): say unbounded: false"
    elif e.left and not e.session:
        many = "a process" if e.left == 1 else f"{e.left} processes"
        why = f"it left {many} behind, now killed: an application must not daemonise"
    elif e.session is False:
        why = "it ended without a SparkSession"
    elif e.returned:
        why = "its code came to its end: does it wait for its queries (awaitTermination)?"
    else:
        why = f"its query ended, or an exception was swallowed{f' ({FROM_OUTPUT}{line})' if line else ''}"
    return ExitVerdict(Cause.EXITED_ZERO, f"exit code 0 of an unbounded job: {why}")


def _reported_failure(e: ExitEvidence) -> ExitVerdict | None:
    """Judges by the error that was reported. A query's error is not what a signal has ended."""
    if not e.reported or e.status == 0 or (e.signal is not None and not e.raised):
        return None
    return _failure(e)


def _killed(e: ExitEvidence) -> ExitVerdict | None:
    """Judges a death by a signal; where the JVM crashed, its own last lines say in which library."""
    if e.signal is None:
        return None
    how_known = f"{e.how}, not by the supervisor"
    if e.signal == signal.SIGKILL:
        doubt = (
            ": as the kernel does when memory is short (its counters can't be read here)"
            if e.oom is None
            else ""
        )
        return ExitVerdict(Cause.KILLED, f"{how_known}{doubt}")
    said = _crash_in(e.heard)
    return ExitVerdict(Cause.KILLED, f"{FROM_OUTPUT}{said}; {e.how}" if said else how_known)


def _crash_in(output: str) -> str:
    """Returns what the JVM says of its crash; an empty text if it says nothing."""
    crash = CRASHED.search(output)
    if crash is None:
        return ""
    memory = out_of_memory.advice_in(output[crash.start() :]) if crash[1] == "Internal Error" else None
    if memory is not None:  # -XX:+CrashOnOutOfMemoryError
        return memory
    frame = CRASH_FRAME.search(output)
    where = f" in {frame[1]}" if frame else ""
    return f"the JVM crashed: {crash[1]}{where}, the driver's log has its report"


def _not_executable(e: ExitEvidence) -> ExitVerdict | None:
    if e.status not in NOT_EXECUTABLE or e.begun or not any(word in e.heard for word in NOT_EXECUTABLE_WORDS):
        return None
    return ExitVerdict(Cause.NOT_STARTED, f"{e.how}: {error_of(e)}", permanent=True)


def _failure(e: ExitEvidence) -> ExitVerdict:
    crash = _crash_in(e.heard)
    advice = f"{FROM_OUTPUT}{crash}" if crash else _marked(e, _advice_in)
    return ExitVerdict(Cause.USER_ERROR, _with_error(e, advice))


RULES: Final = (
    Rule(Source.SUPERVISOR, _stopped),
    Rule(Source.SUPERVISOR, _refused),
    Rule(Source.SUPERVISOR, _ours),
    Rule(Source.SUPERVISOR, _finished),
    Rule(Source.KERNEL, _counted),
    Rule(Source.DRIVER, _unsupported_session),
    Rule(Source.DRIVER, _reported_conflict),
    Rule(Source.DRIVER, _impossible_memory),
    Rule(Source.DRIVER, _reported_out_of_memory),
    Rule(Source.DRIVER, _reported_failure),
    Rule(Source.STATUS, _status_of_memory),
    Rule(Source.STATUS, _killed),
    Rule(Source.STATUS, _not_executable),
    Rule(Source.OUTPUT, _heard_conflict),
    Rule(Source.OUTPUT, _ended_well),
    Rule(Source.OUTPUT, _failure),
)
