"""Decides which drivers start with a class-data archive, and what their properties say then. Pure, but for a
look at the names in SPARK_CONF_DIR.

No driver is ever kept from starting for want of an archive. One that does not fit costs a line in the
driver's output and nothing else, and the rules here leave it out wherever it is known not to fit.

Spark's launcher makes the class path of extraClassPath, SPARK_CONF_DIR and Spark's jars, in this order. A JVM
refuses an archive if a directory with files in it stands before the last archived jar, so that with a
SPARK_CONF_DIR (the usual ``log4j2.properties``) there could be none. Therefore a driver with an archive names
Spark's own jars once more, as the last of its extraClassPath: the conf directory then comes after them. That
changes what is found only where the directory has a name that Spark's jars have too; then there is no
archive.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from supervisor.model.driver_memory import PROPERTY as MEMORY_KEY
from supervisor.model.driver_memory import spark_size_bytes
from supervisor.model.spark_session import OPTION_PROPERTIES, OPTION_VARIABLES
from supervisor.spark.class_archive.key import ArchiveKind

CLASS_PATH_KEY: Final = "spark.driver.extraClassPath"
OPTIONS_KEY: Final = OPTION_PROPERTIES[0]
CLASS_PATH_VARIABLES: Final = ("SPARK_DIST_CLASSPATH", "SPARK_PREPEND_CLASSES")
HEAP_MAX_BYTES: Final = 31 * 1024**3
"""From 32 GiB on the JVM has no compressed references, and an archive with them is not used."""

CONFLICTS: Final = re.compile(
    r"-Xshare|-XX:SharedArchiveFile|-XX:SharedClassListFile|-XX:ArchiveClassesAtExit|-XX:[+-]?AOT"
    r"|-XX:[+-]AutoCreateSharedArchive|-XX:-UseCompressed|-XX:[+-]UseCompactObjectHeaders"
    r"|-XX:ObjectAlignmentInBytes|-XX:\+UseZGC|-XX:\+UseEpsilonGC|-XX:\+UseLargePages|-Xbootclasspath"
    r"|--patch-module|--upgrade-module-path|--limit-modules|-Djava\.system\.class\.loader|-Xverify"
    r"|-noverify|-XX:[+-]BytecodeVerification|-XX:Flags=|-XX:VMOptionsFile|@"
)
"""Options of a user that make the JVM refuse our archive, or that are about one of his own. With the serial,
the parallel and Shenandoah's collector an archive is used (tried with Java 17); with ZGC it is not."""


LATE_C2: Final = (
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
)
"""Four times the defaults: the JVM's second compiler, which takes half the CPU of a start, has less to do then, and compiles
what stays in use a little later (docs/spark.md S37). A cache of Java 25 has profiles, and its JVM keeps the defaults."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Describes the archive of a driver. ``file`` is None if it starts without; then ``why`` says why, in half
    a sentence.

    ``of_spark`` are Spark's jars, which have to come before all that is not the host's own.
    """

    file: Path | None = None
    kind: ArchiveKind = ArchiveKind.SHARED
    of_spark: tuple[str, ...] = field(default=())
    why: str = ""

    @property
    def said(self) -> str:
        """Returns what launch and lease record of it: the name of the file, or why there is none."""
        return self.file.name if self.file is not None else f"off: {self.why}" if self.why else ""

    @property
    def options(self) -> str:
        """Returns the options of the JVM; empty without an archive. A JVM that can't use it says nothing of
        it: that is a normal start. With a shared archive, C2 begins later."""
        if self.file is None:
            return ""
        is_shared = self.kind is ArchiveKind.SHARED
        named = "SharedArchiveFile" if is_shared else "AOTCache"
        quiet = (
            ("-Xlog:cds=off", "-Xlog:cds+dynamic=off") if is_shared else ("-Xlog:aot=off", "-Xlog:cds=off")
        )
        option = f"-XX:{named}={self.file}"
        quoted = f'"{option}"' if " " in option else option
        return " ".join((*quiet, quoted, *(LATE_C2 if is_shared else ())))

    def with_options(self, given: str) -> str:
        """Returns the user's options with ours before them: where both say something, the user's count."""
        return " ".join(filter(None, (self.options, given.strip())))


def why_not(
    conf: Mapping[str, str], env: Mapping[str, str], *, brings_s3a: bool, driver_memory: int = 0
) -> str:
    """Returns why this driver gets no archive of the host; an empty text if it can have one.

    ``conf`` holds all properties of job and host, ``env`` the driver's whole environment. ``brings_s3a`` says
    that the host has S3A jars and the job has others. ``driver_memory`` is in bytes, if the leader has raised
    it, else 0.
    """
    if conf.get(CLASS_PATH_KEY):
        return f"conf {CLASS_PATH_KEY} stands first in the class path"
    if brings_s3a:
        return "the job brings S3A jars of its own"
    for name in CLASS_PATH_VARIABLES:
        if env.get(name):
            return f"{name} changes the class path"
    for where, text in [
        *((f"conf {key}", conf.get(key, "")) for key in OPTION_PROPERTIES),
        *((name, env.get(name, "")) for name in OPTION_VARIABLES),
    ]:
        option = conflicting(text)
        if option:
            return f"{where} has {option}"
    heap_bytes = driver_memory or spark_size_bytes(conf.get(MEMORY_KEY, "1g")) or 0
    if heap_bytes > HEAP_MAX_BYTES:
        return f"{MEMORY_KEY} is more than 31g: such a heap has no compressed references"
    return ""


def conflicting(options: str) -> str:
    """Returns the first option with which an archive of the host would not be used; empty if there is none."""
    try:
        words = shlex.split(options)
    except ValueError:
        words = options.split()
    return next((word[:60] for word in words if CONFLICTS.match(word)), "")


def why_not_this_conf_dir(directory: Path, names_of_jars: Collection[str]) -> str:
    """Returns why Spark's jars can't stand before ``directory`` in the class path; empty if they can."""
    try:
        names = [entry.name for entry in directory.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"{directory} cannot be read ({error.strerror})"
    same = sorted(set(names) & set(names_of_jars))
    return f"{directory} has {same[0][:80]}, as Spark's jars have" if same else ""
