"""Makes a class-data archive: a training run (``training``) by the host's own Spark, whose JVM dumps at its
end what it has loaded.

``daemon.host.archive_ahead`` calls it, in a thread of its own, when no driver of this host is starting. It
takes one to two minutes of a core at nice 19, and is killed as soon as ``go_on`` says so. Its environment is a
short list: nothing of a job, no credentials, no Hadoop configuration. What cannot be made is a reason, and
never raised.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from supervisor.clients.tools import Ran, run_tool, run_unhurried
from supervisor.spark.class_archive import shelf
from supervisor.spark.class_archive.key import TRAINING, ArchiveKey, ArchiveKind
from supervisor.spark.properties import render_properties

TRAINING_MAX_S: Final = 1_800.0
CHECK_MAX_S: Final = 60.0
FREE_BYTES: Final = 1024**3
ARCHIVE_MIN_BYTES: Final = 2**20
HEAP: Final = "768m"
PASSED: Final = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "USER", "LOGNAME"}
)
MAIN: Final = "org.apache.spark.deploy.SparkSubmit"
REFUSED: Final = "error has occurred while processing"
"""A JVM says so of an archive that it does not use; Java 25 goes on even if it was told that it must."""
INTERRUPTED: Final = "a driver is being started"


@dataclass(frozen=True, slots=True)
class MadeArchive:
    """Holds the archive. If ``file`` is None it could not be made, because of ``why``; ``interrupted`` says that it
    was not tried to the end."""

    file: Path | None = None
    why: str = ""
    interrupted: bool = False


def make_archive(
    key: ArchiveKey,
    python: Path,
    directory: Path,
    environ: Mapping[str, str],
    go_on: Callable[[], bool],
) -> MadeArchive:
    """Makes the archive of ``key`` in ``directory``, whatever is there. ``python`` has pyspark, or Spark's home
    has. ``environ`` is the supervisor's environment."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        free = os.statvfs(directory)
        if free.f_bavail * free.f_frsize < FREE_BYTES:
            return MadeArchive(why=f"{directory} has less than {FREE_BYTES // 2**20} MiB free")
        made = Path(tempfile.mkdtemp(prefix=shelf.DRAFT_PREFIX, dir=directory))
        try:
            return _trained(key, python, directory, made, environ, go_on)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    except (OSError, zipfile.BadZipFile) as error:
        return MadeArchive(why=f"{getattr(error, 'filename', None) or directory}: {error}"[:300])


def _trained(
    key: ArchiveKey,
    python: Path,
    directory: Path,
    made: Path,
    environ: Mapping[str, str],
    go_on: Callable[[], bool],
) -> MadeArchive:
    draft, env = made / key.file_name, environment(key, python, made, environ)
    properties = made / "training.properties"
    properties.write_text(render_properties(properties_of(key, made, draft)), encoding="ascii")
    launched = run_tool(launcher_command(key, properties, made), env, CHECK_MAX_S)
    argv = driver_command(launched.out, key)
    if launched.code != 0 or not argv:
        return MadeArchive(why=f"Spark's launcher says no command: {_said(launched)}")
    ran = run_unhurried(argv, env, TRAINING_MAX_S, go_on, str(made))
    if ran is None:
        return MadeArchive(why=INTERRUPTED, interrupted=True)
    if ran.code != 0 or not draft.is_file() or draft.stat().st_size < ARCHIVE_MIN_BYTES:
        return MadeArchive(why=f"the training run made none: {ran.error or ran.last_line}")
    checked = run_tool(check_command(argv, key, made, draft), env, CHECK_MAX_S)
    if checked.code != 0 or REFUSED in checked.text:
        return MadeArchive(why=f"its own JVM does not take it: {_said(checked)}")
    return MadeArchive(shelf.keep(directory, key, draft, names_in_jars(key)))


def environment(key: ArchiveKey, python: Path, made: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of the training run. SPARK_CONF_DIR names a directory that is not there, so
    that the class path has none."""
    env = {name: value for name, value in environ.items() if name in PASSED}
    env |= {
        "SPARK_HOME": str(key.home),
        "SPARK_SCALA_VERSION": _scala_version(key.home),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_CONF_DIR": str(made / "no-conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONHASHSEED": "0",
    }
    if key.java_home is not None:
        env["JAVA_HOME"] = str(key.java_home)
    return env


def properties_of(key: ArchiveKey, made: Path, draft: Path) -> dict[str, str]:
    """Returns the properties of the training run."""
    return {
        "spark.master": "local[1]",
        "spark.driver.memory": HEAP,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.port.maxRetries": "200",
        "spark.local.dir": str(made),
        "spark.sql.warehouse.dir": str(made / "warehouse"),
        "spark.sql.shuffle.partitions": "1",
        "spark.hadoop.fs.defaultFS": "file:///",
        "spark.driver.extraJavaOptions": " ".join(f'"{option}"' for option in dump_options(key, made, draft)),
    }


def launcher_command(key: ArchiveKey, properties: Path, made: Path) -> tuple[str, ...]:
    """Returns the command of Spark's launcher, which prints that of the driver: ``bin/spark-class`` does the
    same."""
    with_s3a = ("--s3a",) if key.with_s3a else ()
    return (
        str(key.java),
        "-Xmx128m",
        "-cp",
        f"{key.home / 'jars'}/*",
        "org.apache.spark.launcher.Main",
        MAIN,
        "--properties-file",
        str(properties),
        str(TRAINING),
        str(made),
        *with_s3a,
    )


def driver_command(printed: str, key: ArchiveKey) -> tuple[str, ...]:
    """Returns the command that the launcher has printed, with the class path of the dump; empty if it has printed
    none. The launcher's own would begin with SPARK_CONF_DIR, which no archive can have."""
    words = printed.partition("\0")[2].strip("\n").rstrip("\0").split("\0")
    words = words[1:] if words[0] == "" else words
    if "-cp" not in words or MAIN not in words:
        return ()
    at = words.index("-cp") + 1
    return (*words[:at], key.class_path, *words[at + 1 :])


def dump_options(key: ArchiveKey, made: Path, draft: Path) -> tuple[str, ...]:
    """Returns the options that make the JVM dump at its end. Without C2 the run needs half the CPU, and what is
    archived is the same; a cache of Java 25 also holds profiles, and gets both compilers."""
    common = ("-Xlog:disable", "-Xlog:all=error:stderr", f"-Djava.io.tmpdir={made}")
    if key.kind is ArchiveKind.AOT:
        return (*common, f"-XX:AOTCacheOutput={draft}")
    return (*common, "-XX:TieredStopAtLevel=1", f"-XX:ArchiveClassesAtExit={draft}")


def check_command(command: tuple[str, ...], key: ArchiveKey, made: Path, draft: Path) -> tuple[str, ...]:
    """Returns a command that fails if the JVM does not take the archive: that of the driver up to its main class,
    with the archive to be used in the place of the one to be made."""
    use = (
        ("-XX:AOTMode=on", f"-XX:AOTCache={draft}")
        if key.kind is ArchiveKind.AOT
        else ("-Xshare:on", f"-XX:SharedArchiveFile={draft}")
    )
    dump = dump_options(key, made, draft)
    options = (word for word in command[1 : command.index(MAIN)] if word not in dump)
    return (command[0], *use, *options, "-version")


def names_in_jars(key: ArchiveKey) -> frozenset[str]:
    """Returns the names at the top of the jars that were archived. Raises OSError, BadZipFile."""
    names: set[str] = set()
    for directory in (*key.before_spark, key.of_spark[-1]):
        for path in sorted(Path(directory.removesuffix("/*")).glob("*.[jJ][aA][rR]")):
            with zipfile.ZipFile(path) as jar:
                names.update(name.partition("/")[0] for name in jar.namelist())
    return frozenset(names)


def _scala_version(home: Path) -> str:
    names = (jar.name for jar in sorted(home.glob("jars/spark-core_*.jar")))
    return next(names, "spark-core_2.13-").partition("_")[2].partition("-")[0]


def _said(ran: Ran) -> str:
    return ran.error or ran.last_line
