"""Makes the jars of our Java on the user's host (the storage fence, the gate of queries): Janino, which Spark ships,
compiles them against Spark's own jars.

It is called by ``prepare``, when the supervisor starts and at the first start with another Spark, and by
``doctor``. It takes 1 to 3 seconds once. The jar is kept under a name that says of which Spark, Hadoop and
source it was made, and by which installation of Spark and Java: what one of them makes is used for no other.
No JDK is needed, and no compiled file is shipped that could be of another Spark. It never raises for what may
go wrong: a fence that cannot be made keeps no driver from starting.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from supervisor.clients.tools import run_tool
from supervisor.clock import boottime_s
from supervisor.spark.toolchain import java_version

COMPILER: Final = "org.codehaus.commons.compiler.samples.CompilerDemo"
"""This is Janino's own command line, in its jar commons-compiler."""
BUILD_MAX_S: Final = 30.0
TRIED_AGAIN_S: Final = 600.0
ENTRY_DATE: Final = (2020, 1, 1, 0, 0, 0)


class JavaSources(NamedTuple):
    """Holds what a jar is made of: ``name`` is how its file is called, ``manifest`` its lines beside the version."""

    name: str
    files: tuple[Path, ...]
    manifest: tuple[str, ...] = ()

    @classmethod
    def beside(cls, module: str, name: str, manifest: tuple[str, ...] = ()) -> JavaSources:
        """Returns the sources in the directory of the file ``module``."""
        return cls(name, tuple(sorted(Path(module).parent.glob("*.java"))), manifest)


FENCE: Final = JavaSources.beside(__file__, "fence")


class Built(NamedTuple):
    """Holds the jar. If ``jar`` is None it could not be made, because of ``why``."""

    jar: Path | None
    why: str = ""


_lock = threading.Lock()
_making: dict[Path, threading.Lock] = {}
"""It has a lock for each jar: a caller that needs one jar does not wait for another that is being made."""
_failed: dict[Path, tuple[float, str]] = {}
"""It maps a jar to when and why it could not be made, so that not every start waits for the same failure
again."""


def host_jar(
    home: Path,
    java: Path,
    spark_version: str,
    directory: Path,
    env: Mapping[str, str],
    within_s: float = BUILD_MAX_S,
    *,
    remember: bool = True,
    of: JavaSources = FENCE,
) -> Built:
    """Returns the jar of ``of`` in ``directory`` for the Spark at ``home``, and makes it if it is not there. It is safe
    among threads and processes.

    ``remember`` keeps a failure, so that the next caller does not wait for the same failure.
    """
    try:
        target = directory / f"{of.name}-{_key(home, java, spark_version, of)}.jar"
        if target.is_file():
            return Built(target)
        with _lock:
            making = _making.setdefault(target, threading.Lock())
        with making:
            if target.is_file():
                return Built(target)
            at, why = _failed.get(target, (None, ""))
            if at is not None and boottime_s() - at < TRIED_AGAIN_S:
                return Built(None, why)
            why = _make(home, java, target, env, within_s, of)
            if why and remember:
                _failed[target] = (boottime_s(), why)
            if why:
                return Built(None, why)
            _failed.pop(target, None)
            return Built(target)
    except OSError as error:
        return Built(None, f"{error.filename or directory}: {error.strerror or error}")


def _key(home: Path, java: Path, spark_version: str, of: JavaSources) -> str:
    """Returns the name of the jar. ``java`` is resolved first: one on the PATH is often a link."""
    jars = home.glob("jars/hadoop-client-api-*.jar")
    hadoop = [jar.name.removeprefix("hadoop-client-api-").removesuffix(".jar") for jar in jars]
    source = hashlib.sha256(b"".join(path.read_bytes() for path in of.files)).hexdigest()[:12]
    tools = "\0".join((os.path.realpath(home), os.path.realpath(java), java_version(java) or ""))
    made_by = hashlib.sha256(os.fsencode(tools)).hexdigest()[:12]
    return f"{spark_version}-{'-'.join(sorted(hadoop)) or 'unknown'}-{source}-{made_by}".replace("/", "_")


def _make(
    home: Path, java: Path, target: Path, env: Mapping[str, str], within_s: float, of: JavaSources
) -> str:
    """Makes the jar. Returns an empty text, or why it could not be made. Raises OSError."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".making-", dir=target.parent))
    try:
        jars = home / "jars"
        ran = run_tool(
            (
                str(java),
                "-Xshare:auto",
                "-XX:TieredStopAtLevel=1",
                "-Xmx256m",
                "-cp",
                f"{jars}/*",
                COMPILER,
                "-d",
                str(made),
                "-encoding",
                "UTF-8",
                "-g",
                "-classpath",
                ":".join(map(str, sorted(jars.glob("*.jar")))),
                *map(str, of.files),
            ),
            env,
            within_s,
        )
        classes = sorted(made.rglob("*.class"))
        if ran.code != 0 or not classes:
            lines = (line.strip() for line in ran.text.splitlines())
            said = ran.error or next(
                (line for line in lines if "Exception" in line or "Error" in line), ran.last_line
            )
            return f"Janino of {home} cannot compile it: {said[:300]}"
        _pack(made, classes, target, of.manifest)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return ""


def _pack(made: Path, classes: list[Path], target: Path, manifest: tuple[str, ...]) -> None:
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as jar:
            if manifest:
                lines = "".join(f"{line}\r\n" for line in ("Manifest-Version: 1.0", *manifest, ""))
                jar.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", ENTRY_DATE), lines)
            for file in classes:
                jar.writestr(zipfile.ZipInfo(str(file.relative_to(made)), ENTRY_DATE), file.read_bytes())
        draft.chmod(0o600)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
