"""Recognises that a driver ran out of memory, and which setting to raise then. It is decided by a table; the
first row that fits counts.

Pure and of the standard library only; called by ``exits``. The texts are those of the JVM, of CPython and of
Spark, each seen in a real death. The advice comes first in the sentence, because a history keeps little more
than that.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


class Oom(StrEnum):
    """Says whom the kernel killed for lack of memory while the driver ran, as its counters show; see
    ``shim.oom``.
    """

    NOBODY = "nobody"
    TREE = "tree"  # a process of this very driver tree, at the limit of its own cgroup
    MEMBER = "member"  # a process of this very driver tree, for something around it was short
    GROUP = "group"  # a process of the cgroup that the driver shares with others
    HOST = "host"  # a process somewhere on the host: nothing finer is known


RAISE_BOTH: Final = "raise spark.driver.memory, and resources.memory with it"

_PHRASES: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(words), sentence)
    for words, sentence in (
        (
            r"unable to create (?:new )?native thread",
            "the JVM got no more threads: raise the limit on processes (TasksMax, pids.max, ulimit -u)",
        ),
        (
            r"OutOfMemoryError: Metaspace",
            "Java metaspace is full: raise -XX:MaxMetaspaceSize in spark.driver.extraJavaOptions",
        ),
        (
            r"OutOfMemoryError: Compressed class space",
            "Java class space is full: raise -XX:CompressedClassSpaceSize in spark.driver.extraJavaOptions",
        ),
        (
            r"of direct buffer memory|OutOfMemoryError: Direct buffer memory",
            "Java direct memory is full: "
            "raise -XX:MaxDirectMemorySize in spark.driver.extraJavaOptions, and resources.memory",
        ),
        (
            r"insufficient memory for the Java Runtime|Native memory allocation .{0,40}failed|Cannot allocate memory",
            "the host had no memory left for the driver: raise resources.memory, or give the host (or its cgroup) more",
        ),
        (
            r"Requested array size exceeds VM limit",
            "Java was asked for an array beyond its limit: more memory may not help; see the log",
        ),
        (r"Java heap space", f"Java heap is full: {RAISE_BOTH}"),
        (r"GC overhead limit exceeded", f"Java heap is nearly full: {RAISE_BOTH}"),
        (
            r"java\.lang\.OutOfMemoryError|\bOutOfMemoryError: (?!MemoryError)|"
            r"SparkOutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY",
            f"Java is out of memory: {RAISE_BOTH}",
        ),
        # From the first such word on, once: a driver's last words may repeat it thousands of times. What a look ahead has
        # found is not tried again; possessive quantifiers are wrong in Python 3.11.2, which is that of Debian 12.
        (
            r"(?s)\A(?=(.*?(?:PythonException|pyspark/worker|PYTHON_)))\1.*\bMemoryError\b",
            "a Python worker got no memory: raise spark.executor.pyspark.memory if it is set, and resources.memory",
        ),
        (
            r"(?m)^(?:[\w ]+: )?(?:OutOfMemoryError: )?MemoryError\b|\b_ArrayMemoryError\b",
            "Python got no memory (MemoryError): "
            "raise resources.memory and its limit (ulimit -v), or hold less in the driver",
        ),
    )
)

SPARK_EXIT_OOM: Final = 52
"""SparkExitCode.OOM means that a thread of the JVM died of an OutOfMemoryError that nobody caught."""

JVM_EXIT_OOM: Final = 3
"""The JVM's own exit code under -XX:+ExitOnOutOfMemoryError. An application may exit with it, too: it counts with the line
that the JVM writes then."""
_TERMINATING: Final = re.compile(r"(?m)^Terminating due to java\.lang\.OutOfMemoryError\b.*$")

WORKER_DIED: Final = re.compile(r"Python worker exited unexpectedly|Python worker failed to connect back")

_KILLED: Final = {
    Oom.TREE: "at the limit of its cgroup (resources.memory_limit): raise that limit and resources.memory, "
    "or lower spark.driver.memory",
    Oom.MEMBER: "for the host, or a cgroup around it, was short: raise resources.memory, so that fewer drivers share it, "
    "or give it more",
    Oom.GROUP: "at the limit of the cgroup it is in: raise that limit or resources.memory, or lower spark.driver.memory",
    Oom.HOST: "for the host was short: raise resources.memory, so that fewer drivers share it, or give it more",
}


def advice_in(*texts: str) -> str | None:
    """Returns the advice for the first sign of a lack of memory in a report of the bootstrap, or in an output; None if
    there is no sign.
    """
    return next((advice for words, advice in _PHRASES for text in texts if words.search(text)), None)


def advice_of_jvm(output: str) -> str | None:
    """Returns the advice for the line with which a JVM ends itself under -XX:+ExitOnOutOfMemoryError, or None without it."""
    last = _TERMINATING.search(output)
    return None if last is None else advice_in(last[0])


def killed(oom: Oom | None, what: str) -> str | None:
    """Returns the sentence for a kill by the kernel. ``what`` is the process that died. It returns None if
    the kernel killed nobody, or if that is not known."""
    where = _KILLED.get(oom) if oom is not None else None
    return None if where is None else f"the kernel killed {what} {where}"
