"""Builds from a spec what is executed: argv and properties. Pure; called by ``prepare``.

The job's configuration travels in a properties file (mode 0600), never in argv, where ``ps`` shows it to
everybody. It is merged with ``spark-defaults.conf``, which spark-submit would not read beside a properties
file. What the supervisor adds gives way to what the job says; where both are needed (class path, files) they
are joined. Nothing of the job is overridden: what cannot be done is ``Refused``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from supervisor.clients.environment_archive import PYTHON
from supervisor.model.driver_memory import PROPERTY as MEMORY_KEY
from supervisor.model.driver_memory import as_spark_size
from supervisor.model.records import Cause
from supervisor.model.spark_session import MARK, REMEDY, why_unsupported
from supervisor.spark.class_archive.choice import OPTIONS_KEY, ClassArchive
from supervisor.spark.fence.choice import Fence
from supervisor.spark.refusal import Refused
from supervisor.spark.toolchain import Toolchain
from supervisor.spec.job import CHECKPOINT_PLACEHOLDER, JobSpec
from supervisor.spec.on_cluster import ending_properties
from supervisor.spec.python import UNPACKED_AS
from supervisor.spec.s3a import S3Access, bucket_of, for_spark, properties_for

BOOTSTRAP: Final = Path(__file__).with_name("bootstrap.py")

CHECKSUM_KEY: Final = "spark.sql.streaming.checkpoint.fileChecksum.enabled"
FORMAT_KEY: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"
RETRIES_KEY: Final = "spark.port.maxRetries"
PORT_RETRIES: Final = 200
"""Every driver of a host tries port 4040 first for its UI. By default Spark gives up after 16 ports that are
taken, and the driver with it."""


@dataclass(frozen=True, slots=True)
class Files:
    """Holds the job's files as Spark gets them: paths on this host, or ``local:`` URIs. ``environment`` is the archive of
    ``python.archive``, or empty. ``files`` are those of the key of that name."""

    application: str
    py_files: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    environment: str = ""
    files: tuple[str, ...] = ()

    def by_name(self) -> dict[str, Path]:
        """Returns ``files`` by the names under which the application finds them."""
        return {Path(file).name: Path(file) for file in self.files}


def build_argv(spec: JobSpec, files: Files, toolchain: Toolchain, properties_file: Path) -> tuple[str, ...]:
    """Returns the driver's command, which is executed without a shell. Raises ``Refused``."""
    args = application_args(spec)
    if spec.launch == "session":
        return (
            str(toolchain.python),
            *_bootstrapped(("--session", spec.entry or "", files.application, *args)),
        )
    options = (str(toolchain.submit), *submit_options(spec, properties_file))
    if spec.is_python:
        return (*options, *_bootstrapped((files.application, *args)))
    if any("\r" in arg for arg in args):
        raise Refused(
            Cause.NOT_STARTED, "args hold a carriage return, which spark-submit drops for a .jar", "remove it"
        )
    return (*options, files.application, *args)


def submit_options(spec: JobSpec, properties_file: Path) -> tuple[str, ...]:
    """Returns what stands between ``spark-submit`` and the application."""
    options = [
        "--properties-file",
        str(properties_file),
        "--master",
        spec.master,
        "--deploy-mode",
        spec.deploy_mode,
    ]
    if "spark.app.name" not in spec.conf:
        options += ["--name", spec.name]
    if spec.main_class is not None:
        options += ["--class", spec.main_class]
    return tuple(options)


def session_arguments(spec: JobSpec, properties_file: Path) -> str:
    """Returns PYSPARK_SUBMIT_ARGS for a Python process that starts Spark by itself; pyspark splits it as a
    shell would."""
    return shlex.join((*submit_options(spec, properties_file), "pyspark-shell"))


def application_args(spec: JobSpec) -> tuple[str, ...]:
    """Returns ``args`` with ``{checkpoint}`` replaced by the location as Spark reads it, and ``{job}`` by the name; nothing
    else is changed."""
    location = for_spark(spec.checkpoint or "")
    return tuple(arg.replace(CHECKPOINT_PLACEHOLDER, location) for arg in spec.args_of_job())


def _bootstrapped(words: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the arguments behind the bootstrap. They are percent-encoded where spark-submit's scripts
    (carriage returns) or a JVM's locale (non-ASCII) would lose something."""
    if all(word.isascii() and "\r" not in word for word in words) and words[0] != "--quoted":
        return (str(BOOTSTRAP), *words)
    return (str(BOOTSTRAP), "--quoted", *(quote(word, safe="/ :=,+@") for word in words))


NO_FENCE: Final = Fence()
NO_ARCHIVE: Final = ClassArchive()


def build_properties(
    spec: JobSpec,
    files: Files,
    toolchain: Toolchain,
    store: S3Access,
    driver_memory: int = 0,
    fence: Fence = NO_FENCE,
    archive: ClassArchive = NO_ARCHIVE,
) -> dict[str, str]:
    """Returns all properties of the driver. ``store`` says where the supervisor's own store is. Raises
    ``Refused``.

    ``driver_memory`` is in bytes, as the leader has given it to the driver (``restart.memory_step``); if it
    is 0, the memory is what job and host say.
    """
    given_conf = conf_of(spec, toolchain)
    if driver_memory:
        given_conf[MEMORY_KEY] = as_spark_size(driver_memory)
    # of spark-defaults.conf; the spec's own keys count
    for key in ("spark.master", "spark.submit.deployMode"):
        given_conf.pop(key, None)
    unsupported = why_unsupported(spec.env, given_conf)
    if unsupported:
        raise Refused(Cause.NOT_STARTED, f"{MARK}{unsupported}", REMEDY)
    added = {RETRIES_KEY: str(PORT_RETRIES)}
    if toolchain.is_4_1 and given_conf.get(FORMAT_KEY, "1") == "1":
        # 4.1 checks sums of state files whose names are used again after a failed batch, and then cannot go on
        # (SPARK-56461); 4.2 does the same as this line.
        added[CHECKSUM_KEY] = "false"
    bucket = bucket_of(spec.checkpoint or "")
    if bucket is not None:
        added |= properties_for(given_conf, bucket, store)
    if spec.restart.memory_step is not None and not spec.is_python:
        given_conf[OPTIONS_KEY] = _with_exit_of_jvm(given_conf.get(OPTIONS_KEY, ""))
    if archive.file is not None:
        given_conf[OPTIONS_KEY] = archive.with_options(given_conf.get(OPTIONS_KEY, ""))
    joined = _joined(spec, files, toolchain, given_conf, fence, archive)
    return {**added, **given_conf, **fence.properties, **joined}


def _with_exit_of_jvm(options: str) -> str:
    """Returns Java options with which a JVM tells by its exit code that it got no memory: a .jar has nothing else that
    reports it, and no memory is raised for what stands in an output. What the job says of it counts."""
    return options if "OutOfMemoryError" in options else f"{options} -XX:+ExitOnOutOfMemoryError".strip()


def conf_of(spec: JobSpec, toolchain: Toolchain) -> dict[str, str]:
    """Returns the properties that job and host give, before anything else is added. Those by which executors end after their
    driver are not of the host: the lease counts on them. Nor are those by which Spark would take another Python than the
    one that the job names."""
    return {**spec.python.over(dict(toolchain.defaults)), **ending_properties(spec), **spec.conf}


def _joined(
    spec: JobSpec,
    files: Files,
    toolchain: Toolchain,
    given_conf: Mapping[str, str],
    fence: Fence,
    archive: ClassArchive,
) -> dict[str, str]:
    """Returns the lists to which the job, the host's defaults and the supervisor may all add; ``--jars`` and
    the like would replace them."""
    lists: dict[str, tuple[str, ...]] = {
        "spark.jars": files.jars,
        "spark.jars.packages": spec.packages,
        "spark.submit.pyFiles": files.py_files,
    }
    lists["spark.files"] = files.files
    if spec.is_python and spec.launch == "submit" and not spec.master.startswith("yarn"):
        # As spark-submit does with the application itself, so that executors can import it.
        lists["spark.files"] = (files.application, *files.files)
    joined = {}
    # Quicker than spark.jars, which copies each through the block manager; executors elsewhere need that.
    class_path = [given_conf.get("spark.driver.extraClassPath", "")]
    for_executors: tuple[Path, ...] = ()
    if toolchain.s3a_jars and not brings_s3a(spec, given_conf):
        class_path.append(f"{toolchain.s3a_jars[0].parent}/*")
        for_executors += toolchain.s3a_jars
    if archive.file is not None:
        class_path += archive.of_spark  # Spark's own jars: see class_archive.choice
    if fence.jar is not None:
        class_path.append(str(fence.jar))
        for_executors += (fence.jar,)  # state stores ask for the checkpoint manager there
    if any(class_path[1:]):
        joined["spark.driver.extraClassPath"] = ":".join(filter(None, class_path))
    if for_executors and not _in_one_process(spec.master):
        lists["spark.jars"] += tuple(map(str, for_executors))
    if files.environment and not _in_one_process(spec.master):
        lists["spark.archives"] = (f"{files.environment}#{UNPACKED_AS}",)
    for key, ours in lists.items():
        if ours:
            joined[key] = ",".join(filter(None, (given_conf.get(key, ""), *ours)))
    return joined


def executor_python(spec: JobSpec) -> str:
    """Returns the Python of executors that is not the driver's: that of the archive which each of them unpacks; else
    nothing."""
    is_sent = spec.python.archive is not None and not _in_one_process(spec.master)
    return f"./{UNPACKED_AS}/{PYTHON}" if is_sent else ""


def _in_one_process(master: str) -> bool:
    """Returns whether executors run in the driver's process, and so see its class path."""
    return master == "local" or master.startswith("local[")


def brings_s3a(spec: JobSpec, given_conf: Mapping[str, str]) -> bool:
    """Returns whether the job has S3A jars of its own; two versions on one class path would clash."""
    lists = (
        given_conf.get(key, "")
        for key in ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
    )
    return any(
        "hadoop-aws" in text or "hadoop-cloud" in text for text in (*spec.packages, *spec.jars, *lists)
    )
