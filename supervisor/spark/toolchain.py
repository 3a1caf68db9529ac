"""Finds which Spark, Java and Python start a job on this host. It searches at each start, because software is
installed and moved.

Called by ``prepare`` and by ``doctor``. It reads directories and small files, executes nothing and imports no
pyspark.

Spark and Java are those of the host: ``supervisor.yaml`` comes before the supervisor's own environment.
Failing both, Spark is the installed pyspark, and Java is the ``java`` on the supervisor's PATH. A job names
no path of either (``model.host_tools``), for the supervisor executes both itself; it may choose one of the versions that
the host has (``spark.versions``). A job may bring its Python, by ``python`` or by PYSPARK_PYTHON in its ``env``: that runs
in the driver only.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from supervisor.errors import Unreachable, is_passing
from supervisor.model.records import Cause
from supervisor.settings.spark import SparkSettings, SparkVersionSettings
from supervisor.spark.properties import parse_properties
from supervisor.spark.refusal import Refused
from supervisor.spark.release import release_of

JAVA_MAJOR_MIN: Final = 17
S3A_JARS_VARIABLE: Final = "SPARK_SUPERVISOR_S3A_JARS"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Describes what starts a job. If ``java_home`` is None, the ``java`` on the PATH is used as it is.
    ``version`` is that of Spark, or None if its jars do not show it.

    ``s3a_jars`` are the thin S3A jars (deploy/s3a-jars), all of one directory; it is empty where there are
    none or Spark has its own. ``defaults`` is what ``spark-defaults.conf`` says; spark-submit reads that file
    only when it is given no properties file. ``python_path`` is what the driver's Python needs to import the pyspark of
    ``home``; it is empty where that is left to the Python itself, or to spark-submit. ``executor_python`` is the Python of
    executors if that is another one than the driver's.
    """

    home: Path
    python: Path
    java_home: Path | None = None
    version: str | None = None
    s3a_jars: tuple[Path, ...] = ()
    defaults: tuple[tuple[str, str], ...] = ()
    python_path: tuple[Path, ...] = ()
    executor_python: str = ""

    @property
    def submit(self) -> Path:
        return self.home / "bin" / "spark-submit"

    @property
    def is_4_1(self) -> bool:
        return release_of(self.version) == (4, 1)


def find_toolchain(
    settings: SparkSettings,
    *,
    version: str | None = None,
    job_env: Mapping[str, str],
    environ: Mapping[str, str],
    interpreter: str | None = None,
) -> Toolchain:
    """Returns the toolchain of this host for a job that asks for the Spark ``version``, a name of ``spark.versions``; None
    stands for the host's default. ``environ`` is the supervisor's own environment.

    ``job_env`` counts for the driver's Python and for ``spark-defaults.conf`` (SPARK_CONF_DIR). ``interpreter`` is the
    Python that the job names by ``python``. Raises ``Refused`` (no_spark), and ``Unreachable`` as ``defaults_of`` does.
    """
    spark = spark_home_of(settings, version, environ)
    java = java_home_of(settings, version, environ)
    # the driver's PATH is then another than the one that was probed
    if java is None and "PATH" in job_env:
        java = _home_of(java_of(None, environ))
    return Toolchain(
        home=spark,
        python=python_of(job_env, environ, interpreter),
        java_home=java,
        version=spark_version(spark),
        s3a_jars=s3a_jars_of(settings, version, spark, environ),
        defaults=defaults_of(spark, job_env, environ),
        python_path=() if version is None and interpreter is None else python_path_of(spark),
    )


def version_settings(settings: SparkSettings, version: str) -> SparkVersionSettings:
    """Returns what ``supervisor.yaml`` says of the Spark that a job asks for by ``version``. Raises ``Refused`` if this host
    has no such version."""
    found = settings.versions.get(version)
    if found is None:
        has = ", ".join(sorted(settings.versions)) or "none"
        raise Refused(
            Cause.NO_SPARK,
            f"the job asks for spark {version}, and spark.versions of supervisor.yaml on this host has {has}",
            f"add spark.versions.{version} there, or correct spark in the spec",
        )
    return found


def python_path_of(home: Path) -> tuple[Path, ...]:
    """Returns the archives with the pyspark of ``home`` and its py4j, as spark-submit puts them before a Python's own
    packages; nothing if they are not there."""
    pyspark, py4j = home / "python" / "lib" / "pyspark.zip", sorted(home.glob("python/lib/py4j-*-src.zip"))
    return (pyspark, *py4j[-1:]) if pyspark.is_file() and py4j else ()


def installed_spark_home() -> Path | None:
    """Returns the directory of the installed pyspark package, which is a Spark home; None if there is none."""
    try:
        spec = importlib.util.find_spec("pyspark")
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def spark_version(home: Path) -> str | None:
    """Returns the version, such as ``4.3.0``, from the name of Spark's core jar; None if there is no such
    jar."""
    for jar in sorted(home.glob("jars/spark-core_*.jar")):
        match = re.fullmatch(r"spark-core_[0-9.]+-(.+)\.jar", jar.name)
        if match:
            return match[1]
    return None


def spark_home_of(settings: SparkSettings, version: str | None, environ: Mapping[str, str]) -> Path:
    """Returns the Spark home that counts, with a spark-submit that can be executed. Raises ``Refused``."""
    if version is None:
        configured_home, by = _first(settings.home, "spark.home", environ, "SPARK_HOME")
    else:
        configured_home, by = version_settings(settings, version).home, f"spark.versions.{version}.home"
    home = configured_home or installed_spark_home()
    if home is None:
        raise Refused(
            Cause.NO_SPARK, "no Spark on this host", "install pyspark, or set spark.home in supervisor.yaml"
        )
    submit = home / "bin" / "spark-submit"
    if not _executable(submit):
        who = by or "the installed pyspark"
        raise Refused(Cause.NO_SPARK, f"{who} is {home}, but {submit} cannot be executed", "correct it")
    return home


def java_home_of(settings: SparkSettings, version: str | None, environ: Mapping[str, str]) -> Path | None:
    """Returns JAVA_HOME, or None for the ``java`` of the PATH. Raises ``Refused`` where there is none, or one
    that is too old. A version without a ``java_home`` of its own has that of the default Spark."""
    home, by = _first(settings.java_home, "spark.java_home", environ, "JAVA_HOME")
    own = None if version is None else version_settings(settings, version).java_home
    if own is not None:
        home, by = own, f"spark.versions.{version}.java_home"
    found = (
        str(home / "bin" / "java")
        if home is not None
        else shutil.which("java", path=environ.get("PATH", os.defpath))
    )
    if found is None:
        raise Refused(
            Cause.NO_SPARK,
            "no Java on this host",
            "install Java 17, or set spark.java_home in supervisor.yaml",
        )
    if not _executable(Path(found)):
        raise Refused(Cause.NO_SPARK, f"{by} is {home}, but {found} cannot be executed", "correct it")
    major = java_major(Path(found))
    if major is not None and major < JAVA_MAJOR_MIN:
        raise Refused(
            Cause.NO_SPARK,
            f"{found} is Java {major}, and Spark 4 needs {JAVA_MAJOR_MIN} or newer",
            "install it",
        )
    return home


def java_major(java: Path) -> int | None:
    """Returns 17 for Java 17.0.15, and None if the version is not known."""
    match = re.match(r"(?:1\.)?([0-9]+)", java_version(java) or "")
    return int(match[1]) if match else None


def java_version(java: Path) -> str | None:
    """Returns the version, such as ``17.0.15``, from the ``release`` file beside it; None if there is none."""
    try:
        text = (java.resolve().parent.parent / "release").read_text(errors="replace")
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="([^"\n]*)', text, re.MULTILINE)
    return match[1] if match else None


def java_of(home: Path | None, environ: Mapping[str, str]) -> Path:
    """Returns the executable for what ``java_home_of`` gave."""
    if home is not None:
        return home / "bin" / "java"
    return Path(shutil.which("java", path=environ.get("PATH", os.defpath)) or "java")


def _home_of(java: Path) -> Path | None:
    """Returns the JAVA_HOME with this executable; None if it lies where no JAVA_HOME has it."""
    named = (path for path in (java.resolve(), java) if path.parts[-2:] == ("bin", "java"))
    return next((path.parent.parent for path in named), None)


def python_of(job_env: Mapping[str, str], environ: Mapping[str, str], interpreter: str | None = None) -> Path:
    """Returns the Python of drivers; ``interpreter`` is what a job names by ``python``. Raises ``Refused``."""
    if interpreter is not None:
        return _named_python(interpreter)
    named = job_env.get("PYSPARK_PYTHON") or environ.get("PYSPARK_PYTHON") or sys.executable
    found = shutil.which(named, path=job_env.get("PATH", environ.get("PATH", os.defpath)))
    if found is None:
        raise Refused(
            Cause.NO_SPARK, f"PYSPARK_PYTHON is {named}, which cannot be executed on this host", "correct it"
        )
    return Path(found)


def _named_python(interpreter: str) -> Path:
    """Returns the Python that a job names by its path. Raises ``Refused``."""
    path = Path(interpreter)
    if not _executable(path):
        raise Refused(
            Cause.NO_SPARK,
            f"python.interpreter is {interpreter}, which cannot be executed on this host",
            "install it there, or correct the spec",
        )
    return path


def s3a_jars_of(
    settings: SparkSettings, version: str | None, home: Path, environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """Returns the jars that are added for ``s3a://``; none if Spark has its own. Raises ``Refused`` for a
    directory without them. Those of the default Spark are for no other version: they belong to its Hadoop."""
    if any(home.glob("jars/hadoop-aws-*.jar")):
        return ()
    if version is None:
        configured_home, by = _first(settings.s3a_jars, "spark.s3a_jars", environ, S3A_JARS_VARIABLE)
    else:
        configured_home, by = (
            version_settings(settings, version).s3a_jars,
            f"spark.versions.{version}.s3a_jars",
        )
    if configured_home is not None and not any(configured_home.glob("hadoop-aws-*.jar")):
        remedy = "fill it with deploy/s3a-jars/fetch, or correct it"
        raise Refused(Cause.NO_SPARK, f"{by} is {configured_home}, which holds no hadoop-aws jar", remedy)
    return tuple(sorted(configured_home.glob("*.jar"))) if configured_home is not None else ()


def defaults_of(
    home: Path, job_env: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Returns what ``spark-defaults.conf`` says. Raises ``Refused`` if it cannot be read for good, and
    ``Unreachable`` if it cannot be read just now."""
    directory = job_env.get("SPARK_CONF_DIR") or environ.get("SPARK_CONF_DIR") or str(home / "conf")
    file = Path(directory) / "spark-defaults.conf"
    try:
        text = _regular(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        if is_passing(error):
            raise Unreachable(f"{file} cannot be read now: {error}") from None
        raise Refused(Cause.NO_SPARK, f"{file} cannot be read ({error})", "correct it") from None
    return tuple((key, value) for key, value in parse_properties(text).items() if key.startswith("spark."))


def _first(
    configured: Path | None, key: str, environ: Mapping[str, str], variable: str
) -> tuple[Path | None, str]:
    """Returns the first source that says something, and its name for messages."""
    if configured is not None:
        return configured, key
    if environ.get(variable):
        return Path(environ[variable]), variable
    return None, ""


def _regular(file: Path) -> Path:
    """Returns ``file``, unless reading it could wait for ever: a job names the directory, and may have put a
    pipe there."""
    if file.exists() and not stat.S_ISREG(file.stat().st_mode):
        raise OSError("it is no regular file")
    return file


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
