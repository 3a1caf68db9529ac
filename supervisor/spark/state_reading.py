"""Opens the state of checkpoints with the Spark that starts jobs here: it builds the command, runs it, and
reads its answer.

Called by ``savepoints.deep_verify`` for ``savepoint verify --deep``. The reader is a process of its own,
``local[1]``, outside of any containment, as the user who asked. So it uses the host's Spark, Java and Python
in that user's environment, with what the job says of where its S3 is and by which keys. None of the job's own
code is loaded, unless that was asked for (``code``). Nothing of the rest of the job's configuration is used,
since a checkpoint says itself which state store wrote it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from supervisor.clients.tools import Ran, run_tool
from supervisor.errors import SupervisorError, TimedOut
from supervisor.model.driver_memory import PROPERTY as MEMORY_KEY
from supervisor.model.driver_memory import spark_size_bytes
from supervisor.settings.policy import SecretSettings
from supervisor.settings.spark import SparkSettings
from supervisor.spark.arguments import Files, build_properties, submit_options
from supervisor.spark.environment import passes, python_path
from supervisor.spark.properties import render_properties
from supervisor.spark.refusal import Refused
from supervisor.spark.release import is_before
from supervisor.spark.secrets import ALL, Secrets
from supervisor.spark.toolchain import Toolchain, find_toolchain
from supervisor.spec.job import JobSpec
from supervisor.spec.s3a import PREFIX, S3Access, bucket_of, for_spark

READER: Final = Path(__file__).with_name("state_reader.py")
TIMEOUT_S: Final = 3600.0
S3A_VALUES: Final = frozenset(
    {
        "endpoint",
        "endpoint.region",
        "path.style.access",
        "connection.ssl.enabled",
        "requester.pays.enabled",
        "access.key",
        "secret.key",
        "session.token",
        "encryption.algorithm",
        "encryption.key",
        "assumed.role.arn",
        "assumed.role.session.name",
        "assumed.role.session.duration",
        "assumed.role.policy",
        "assumed.role.sts.endpoint.region",
    }
)
"""These are the S3A settings of a job that are only values. Others name classes, programs, files or hosts."""
PROVIDERS_KEY: Final = "aws.credentials.provider"
KNOWN_PROVIDERS: Final = (
    "org.apache.hadoop.fs.s3a.",
    "software.amazon.awssdk.auth.credentials.",
    "com.amazonaws.auth.",
)
"""These are packages of S3A and of the AWS SDK."""
CODE_CONF: Final = ("spark.hadoop.", "spark.jars", "spark.driver.extraClassPath")
"""These properties of a job bring code, or choose it."""
KEPT_ENV: Final = frozenset(
    {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
    }
)
"""Nearly any other variable can make Java, Python, Spark's scripts or the AWS SDK run or load what it names.
"""
CLASS_MISSING: Final = ("ClassNotFoundException", "NoClassDefFoundError", "S3AFileSystem not found")
READER_SINCE: Final = (4, 0)
"""Since then Spark has the data sources ``statestore`` and ``state-metadata``."""
OURS: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1d",
}


class StateOf(NamedTuple):
    """Names the state of one query after ``batch``. ``location`` is that of the query's checkpoint.
    ``state_format`` is 2 if ``commits/<batch>`` names the ids of the state's files."""

    location: str
    batch: int
    state_format: int = 1


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """Describes one store of one operator of a query. If ``rows`` is None it could not be opened, and
    ``error`` says why. ``store`` is its name; for transformWithState it is the name of a state variable."""

    location: str
    operator: int
    name: str
    store: str
    partitions: int
    rows: int | None
    error: str | None


def open_state(
    states: Sequence[StateOf],
    spark: SparkSettings,
    job: JobSpec | None,
    access: S3Access,
    directory: Path,
    environ: Mapping[str, str],
    timeout_s: float = TIMEOUT_S,
    code: tuple[str, ...] | None = None,
    rules: SecretSettings = ALL,
) -> tuple[OpenedStore, ...]:
    """Opens the state. ``job`` is the job to which it belongs, if that is known; ``access`` says where its S3
    is; ``directory`` is empty, for files of this function.

    If ``code`` is given, the job's own code is loaded: these jars, and what its conf and packages name. If it
    is None, nothing of it is loaded. ``rules`` are those of ``policy.secrets``. The Spark is the one of this host that the
    job asks for.

    Raises SupervisorError if there is no Spark or Java here, or Spark did not start, or cannot even read
    which operators there are; TimedOut.
    """
    secrets = Secrets(environ, rules, job.name if job is not None else "")
    env, job = _job_env(job, secrets), _with_secrets(job, secrets)
    try:
        version = job.spark if job is not None else None
        toolchain = find_toolchain(spark, version=version, job_env={}, environ=environ)
        _require_reader(toolchain)
        properties = _properties(states, job, toolchain, access, code)
    except Refused as refused:
        raise SupervisorError(f"the state can't be opened on this host: {refused}") from None
    task, answer, given_conf = (directory / name for name in ("task.json", "answer.json", "spark.properties"))
    task.write_text(json.dumps({"queries": [_asked(state) for state in states]}))
    _write_private(given_conf, render_properties(properties))
    options = submit_options(_stand_in(states, {}), given_conf)
    ran = run_tool(
        (str(toolchain.submit), *options, str(READER), str(task), str(answer)),
        {
            **env,
            "SPARK_HOME": str(toolchain.home),
            "PYSPARK_PYTHON": str(toolchain.python),
            "SPARK_LOCAL_DIRS": str(directory),
            **({} if toolchain.java_home is None else {"JAVA_HOME": str(toolchain.java_home)}),
            **python_path(toolchain, env),
        },
        timeout_s,
    )
    return _answer_of(ran, answer, asked_for_code=code is not None)


def _require_reader(toolchain: Toolchain) -> None:
    """Raises SupervisorError if this Spark has no reader for state. One whose version is not known is tried."""
    if toolchain.version is not None and is_before(toolchain.version, READER_SINCE):
        raise SupervisorError(
            f"--deep needs Spark 4.0 or newer, whose data source reads state; {toolchain.home} is {toolchain.version}: "
            "without --deep everything else of the savepoint is verified"
        )


def _answer_of(ran: Ran, answer: Path, *, asked_for_code: bool) -> tuple[OpenedStore, ...]:
    if ran.late:
        raise TimedOut(f"the state was not read in time: {ran.error}")
    try:
        body: dict[str, Any] = json.loads(answer.read_text())
    except (OSError, ValueError):
        raise SupervisorError(
            f"Spark did not get as far as to open the state: {ran.error or ran.last_line}"
        ) from None
    if body["error"]:
        raise SupervisorError(
            f"Spark can't read what is in the state: {_explained(body['error'], asked_for_code)}"
        )
    opened = [
        OpenedStore(query["location"], **store) for query in body["queries"] for store in query["stores"]
    ]
    return tuple(
        store if store.error is None else replace(store, error=_explained(store.error, asked_for_code))
        for store in opened
    )


def _asked(state: StateOf) -> dict[str, Any]:
    """Returns one query as ``state_reader`` has it in its TASK."""
    return {
        "location": for_spark(state.location),
        "batch": state.batch,
        "format": state.state_format,
    }


def _explained(error: str, asked_for_code: bool) -> str:
    """Adds what helps where a class is missing: it belongs to a state store provider of the job's own, or to
    S3A that the job brings itself."""
    if asked_for_code or not any(word in error for word in CLASS_MISSING):
        return error
    return (
        f"{error} (Spark of this host has no such class, and nothing of the job's own was loaded: if it is in the job's "
        "jars or packages, --job-code loads them, and so runs the job's code here, as you)"
    )


def _properties(
    states: Sequence[StateOf],
    job: JobSpec | None,
    toolchain: Toolchain,
    access: S3Access,
    code: tuple[str, ...] | None,
) -> dict[str, str]:
    stand_in, files = _stand_in(states, _conf_of(job, states, with_code=code is not None)), Files(str(READER))
    if job is not None and code is not None:
        stand_in, files = (
            stand_in.model_copy(update={"packages": job.packages}),
            Files(str(READER), jars=code),
        )
    return {**build_properties(stand_in, files, toolchain, access), **OURS}


def _conf_of(job: JobSpec | None, states: Sequence[StateOf], *, with_code: bool) -> dict[str, str]:
    """Returns those of the job's properties that the reader gets."""
    given_conf = job.conf if job is not None else {}
    bucket = bucket_of(states[0].location)
    kept = {key: value for key, value in given_conf.items() if _is_value_of_s3a(key, value, bucket)}
    if spark_size_bytes(given_conf.get(MEMORY_KEY, "")) is not None:
        kept[MEMORY_KEY] = given_conf[MEMORY_KEY]
    return {
        **kept,
        **(
            {key: value for key, value in given_conf.items() if key.startswith(CODE_CONF)}
            if with_code
            else {}
        ),
    }


def _is_value_of_s3a(key: str, value: str, bucket: str | None) -> bool:
    """Returns whether a property is a plain value of S3A. ``bucket`` is the one that is read; settings of
    others are not needed."""
    if not key.startswith(PREFIX):
        return False
    name = key.removeprefix(PREFIX).removeprefix(f"bucket.{bucket}.")
    if name == PROVIDERS_KEY:
        return all(word.strip().startswith(KNOWN_PROVIDERS) for word in value.split(","))
    return name in S3A_VALUES


def _stand_in(states: Sequence[StateOf], conf: dict[str, str]) -> JobSpec:
    return JobSpec(
        name="savepoint-verify",
        application=str(READER),
        checkpoint=states[0].location,
        unbounded=False,
        master="local[1]",
        conf=conf,
    )


def _job_env(job: JobSpec | None, secrets: Secrets) -> dict[str, str]:
    """Returns the host's environment, with those of the job's credentials that this host can resolve."""
    env = {name: value for name, value in secrets.environ.items() if passes(name)}
    for name, value in (job.env if job is not None else {}).items():
        if name not in KEPT_ENV:
            continue
        try:
            env[name] = secrets.of_env(name, value)
        except Refused:
            continue
    return env


def _with_secrets(job: JobSpec | None, secrets: Secrets) -> JobSpec | None:
    """Returns ``job`` with those secrets of its S3A settings that this host can resolve."""
    if job is None:
        return None
    conf = dict(job.conf)
    for name in conf:
        if name.startswith(PREFIX):
            with suppress(Refused):
                conf[name] = secrets.of_conf(name, conf[name], job.env)
    return job.model_copy(update={"conf": conf})


def _write_private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
