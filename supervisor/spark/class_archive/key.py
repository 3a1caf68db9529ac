"""Names a class-data archive by all that makes it valid: the JVM, Spark, and the class path that it was made
with.

A JVM takes an archive only from the same build of Java, and only if its class path begins with the one at the
time of the dump: the same paths in the same order, each jar of the same size and time. That beginning is the
host's S3A jars, if it has any, then Spark's own jars. ``*`` is expanded by the JVM's launcher in the order of
the directory, which is why the key has the names in that order. Looks at directories and one small
file; opens no jar.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from supervisor.spark.toolchain import Toolchain, java_major, java_of

TRAINING: Final = Path(__file__).with_name("training.py")
JAVA_MIN: Final = 17
AOT_MIN: Final = 25
KEY_CHARS: Final = 24
RELEASE_MAX_BYTES: Final = 65_536


class ArchiveKind(StrEnum):
    """Says what a JVM calls it; the value is how the file's name ends."""

    SHARED = "jsa"
    AOT = "aot"


@dataclass(frozen=True, slots=True)
class ArchiveKey:
    """Names an archive. ``java`` is the executable, ``java_home`` as the toolchain has it. ``before_spark`` are
    the host's S3A jars, ``of_spark`` Spark's own, with slf4j's first of them, as Spark's launcher has it."""

    name: str
    kind: ArchiveKind
    home: Path
    java: Path
    java_home: Path | None
    before_spark: tuple[str, ...]
    of_spark: tuple[str, ...]
    with_s3a: bool

    @property
    def class_path(self) -> str:
        """Returns the class path of the dump, with which that of a driver has to begin."""
        return ":".join((*self.before_spark, *self.of_spark))

    @property
    def file_name(self) -> str:
        return f"{self.name}.{self.kind.value}"


def kind_of(major: int) -> ArchiveKind:
    """Returns what this Java makes: from Java 25 on the ahead-of-time cache, which was the better one there."""
    return ArchiveKind.AOT if major >= AOT_MIN else ArchiveKind.SHARED


def archive_key(toolchain: Toolchain, environ: Mapping[str, str]) -> ArchiveKey | str:
    """Returns the key of the archive for this toolchain, or why there can be none.

    ``environ`` is the environment whose PATH has the ``java`` of a toolchain without a JAVA_HOME.
    """
    java = java_of(toolchain.java_home, environ)
    major = java_major(java)
    if major is None:
        return f"the version of {java} is not known: no release file is beside it"
    if major < JAVA_MIN:
        return f"{java} is Java {major}, and {JAVA_MIN} is the oldest that was tried"
    if toolchain.version is None:
        return f"{toolchain.home} holds no spark-core jar"
    directories = [toolchain.home / "jars"]
    if toolchain.s3a_jars:
        directories.insert(0, toolchain.s3a_jars[0].parent)
    if any(mark in str(directory) for directory in directories for mark in ':"\n'):
        return "a directory of the class path has a colon or a quotation mark in its name"
    try:
        slf4j = tuple(str(jar) for jar in sorted(directories[-1].glob("slf4j-api-*.jar")))
        identity = [
            slf4j,
            str(toolchain.home),
            os.path.realpath(toolchain.home),
            toolchain.version,
            _of_java(java),
            [(str(directory), jars_of(directory)) for directory in directories],
            hashlib.sha256(TRAINING.read_bytes()).hexdigest(),
        ]
    except OSError as error:
        return f"{error.filename} cannot be read ({error.strerror})"
    digest = hashlib.sha256(json.dumps(identity).encode("utf-8", "surrogateescape")).hexdigest()
    return ArchiveKey(
        name=digest[:KEY_CHARS],
        kind=kind_of(major),
        home=toolchain.home,
        java=java,
        java_home=toolchain.java_home,
        before_spark=tuple(f"{directory}/*" for directory in directories[:-1]),
        of_spark=(*slf4j, f"{directories[-1]}/*"),
        with_s3a=bool(toolchain.s3a_jars) or any(toolchain.home.glob("jars/hadoop-aws-*.jar")),
    )


def jars_of(directory: Path) -> list[tuple[str, int, int]]:
    """Returns name, size and time of what ``directory/*`` means to a JVM, in its order. Raises OSError."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith((".jar", ".JAR")):
                seen = entry.stat()
                found.append((entry.name, seen.st_size, seen.st_mtime_ns))
    return found


def _of_java(java: Path) -> list[object]:
    """Returns what tells one build of Java from another, also one that was installed in its place."""
    real = Path(os.path.realpath(java))
    top = real.parent.parent
    with (top / "release").open("rb") as file:
        release = file.read(RELEASE_MAX_BYTES)
    binaries = [real, top / "lib" / "server" / "libjvm.so", top / "lib" / "modules"]
    seen = [(str(file), file.stat()) for file in binaries if file.exists()]
    return [
        release.decode(errors="replace"),
        [(name, one.st_size, one.st_mtime_ns) for name, one in seen],
    ]
