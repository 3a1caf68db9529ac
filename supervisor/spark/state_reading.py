"""Opens the state of checkpoints with the Spark that starts jobs here: builds the command, runs it, reads its answer.

Called by ``wiring`` for ``savepoint verify --deep``. A process of its own, ``local[1]``, with what the job says of S3A and
of jars; of the rest of its configuration nothing, for a checkpoint says itself which state store wrote it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from supervisor.clients.tools import Ran, run_tool
from supervisor.errors import SupervisorError, TimedOut
from supervisor.model.s3a import S3Access, for_spark
from supervisor.model.spec import JobSpec
from supervisor.settings.file import SparkSettings
from supervisor.spark.arguments import Files, build_properties, submit_options
from supervisor.spark.environment import passes, resolved
from supervisor.spark.properties import render_properties
from supervisor.spark.refusal import Refused
from supervisor.spark.toolchain import Toolchain, find_toolchain

READER: Final = Path(__file__).with_name("state_reader.py")
TIMEOUT_S: Final = 3600.0
KEPT_CONF: Final = ("spark.hadoop.", "spark.jars", "spark.driver.extraClassPath", "spark.driver.memory")
OURS: Final = {
    "spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1d",
}


class StateOf(NamedTuple):
    """``location``: of a query's checkpoint. The state after ``batch``. ``state_format``: 2 if ``commits/<batch>`` names the
    ids of the state's files."""

    location: str
    batch: int
    state_format: int = 1


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """One store of one operator of a query. ``rows`` None: it could not be opened; ``error`` says why. ``store``: its name,
    of transformWithState that of a state variable."""

    location: str
    operator: int
    name: str
    store: str
    partitions: int
    rows: int | None
    error: str | None


def open_state(
    states: Sequence[StateOf], spark: SparkSettings, job: JobSpec | None, access: S3Access, directory: Path,
    environ: Mapping[str, str], timeout_s: float = TIMEOUT_S,
) -> tuple[OpenedStore, ...]:
    """``job``: whose it is, if that is known. ``access``: where its S3 is. ``directory``: empty, for files of ours.

    Raises SupervisorError: no Spark or Java here, Spark did not start, or can't even read which operators there are;
    TimedOut.
    """
    env = _job_env(job, environ)
    try:
        toolchain = find_toolchain(
            home=spark.home, java_home=spark.java_home, s3a_jars=spark.s3a_jars,
            job_env=job.env if job is not None else {}, environ=environ,
        )
        properties = _properties(states, job, toolchain, access)
    except Refused as refused:
        raise SupervisorError(f"the state can't be opened on this host: {refused}") from None
    task, answer, said = (directory / name for name in ("task.json", "answer.json", "spark.properties"))
    task.write_text(json.dumps({"queries": [
        {"location": for_spark(state.location), "batch": state.batch, "format": state.state_format} for state in states
    ]}))
    _write_private(said, render_properties(properties))
    options = submit_options(_stand_in(states, {}), said)
    ran = run_tool((str(toolchain.submit), *options, str(READER), str(task), str(answer)), {
        **env, "SPARK_HOME": str(toolchain.home), "PYSPARK_PYTHON": str(toolchain.python),
        "SPARK_LOCAL_DIRS": str(directory),
        **({} if toolchain.java_home is None else {"JAVA_HOME": str(toolchain.java_home)}),
    }, timeout_s)
    return _answer_of(ran, answer)


def _answer_of(ran: Ran, answer: Path) -> tuple[OpenedStore, ...]:
    if ran.late:
        raise TimedOut(f"the state was not read in time: {ran.error}")
    try:
        body: dict[str, Any] = json.loads(answer.read_text())
    except (OSError, ValueError):
        raise SupervisorError(f"Spark did not get as far as to open the state: {ran.error or ran.last_line}") from None
    if body["error"]:
        raise SupervisorError(f"Spark can't read what is in the state: {body['error']}")
    return tuple(
        OpenedStore(query["location"], **store) for query in body["queries"] for store in query["stores"]
    )


def _properties(
    states: Sequence[StateOf], job: JobSpec | None, toolchain: Toolchain, access: S3Access,
) -> dict[str, str]:
    conf = {} if job is None else {key: value for key, value in job.conf.items() if key.startswith(KEPT_CONF)}
    stand_in = _stand_in(states, conf)
    if job is not None:
        stand_in = stand_in.model_copy(update={"packages": job.packages})
    return {**build_properties(stand_in, Files(str(READER)), toolchain, access), **OURS}


def _stand_in(states: Sequence[StateOf], conf: dict[str, str]) -> JobSpec:
    return JobSpec(
        name="savepoint-verify", application=str(READER), checkpoint=states[0].location, unbounded=False, master="local[1]",
        conf=conf,
    )


def _job_env(job: JobSpec | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Of the job's own environment what this host can resolve: credentials, mostly."""
    env = {name: value for name, value in environ.items() if passes(name)}
    for name, value in (job.env if job is not None else {}).items():
        try:
            env[name] = resolved(name, value, environ)
        except Refused:
            continue
    return env


def _write_private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
