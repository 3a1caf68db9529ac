"""Builds the driver's environment: what passes from the supervisor's own, what the job adds, and what every
driver is given.

Called by ``prepare``. Secret references are resolved on the host that starts the attempt (``spark.secrets``); their
values are in memory and in the driver's launch.json (mode 0600), nowhere else.

Of the supervisor's environment passes what ``policy.driver_environment.inherit`` names, by default everything (AWS_*,
proxies, HADOOP_CONF_DIR …). What is about the supervisor itself never passes: its configuration, its service manager, and
Spark or PySpark variables of a session that it may have been started from, which would make the driver join that
session. To a driver of another Unix user nothing passes but those of ``PASSES_TO_OTHERS`` that it names: what the
supervisor may do is not for that user.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from supervisor.model.host_tools import without
from supervisor.model.launch import CHECKPOINT
from supervisor.model.records import Assignment, Cause
from supervisor.model.spark_session import SELECTING_VARIABLES
from supervisor.settings.policy import PolicySettings
from supervisor.spark.refusal import Refused
from supervisor.spark.secrets import Secrets
from supervisor.spark.toolchain import Toolchain
from supervisor.spec.job import JobSpec
from supervisor.spec.s3a import for_spark

OWN_PREFIX: Final = "SPARK_SUPERVISOR_"
KEPT_BACK: Final = frozenset(
    {
        "NOTIFY_SOCKET",
        "WATCHDOG_USEC",
        "WATCHDOG_PID",
        "LISTEN_FDS",
        "LISTEN_PID",
        "LISTEN_FDNAMES",
        "MAINPID",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "SYSTEMD_EXEC_PID",
        "RUNTIME_DIRECTORY",
        "LOGS_DIRECTORY",
        "STATE_DIRECTORY",
        "PYTHONHOME",
        "PYTHONSAFEPATH",
        "__PYVENV_LAUNCHER__",
        "PYSPARK_SUBMIT_ARGS",
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_GATEWAY_SECRET",
        "PYSPARK_DRIVER_PYTHON",
        "PYSPARK_DRIVER_PYTHON_OPTS",
        "MASTER",
        *SELECTING_VARIABLES,
    }
)
PASSES_TO_OTHERS: Final = frozenset({"LANG", "LANGUAGE", "TZ", "PATH", "HADOOP_CONF_DIR", "SPARK_CONF_DIR"})
"""These, and the categories of the locale (LC_*)."""
NOT_FOR_JOBS: Final = {
    "PYSPARK_SUBMIT_ARGS": "the spec's own keys say that",
}
UTF8_LOCALE: Final = "C.UTF-8"
NOTHING: Final[Mapping[str, str]] = {}
OPEN: Final = PolicySettings()
"""It inherits everything, and allows every secret."""


def build_environment(
    spec: JobSpec,
    assignment: Assignment,
    toolchain: Toolchain,
    environ: Mapping[str, str],
    report: Path,
    policy: PolicySettings = OPEN,
    *,
    own: Mapping[str, str] = NOTHING,
    of_other_user: bool = False,
    closed: Path | None = None,
) -> dict[str, str]:
    """Returns the environment. ``report`` is the socket for reports. ``policy`` says what passes, and which secrets the job
    may name. ``own`` are variables of this driver that the job may set otherwise. ``of_other_user`` says that it runs as
    another Unix user. Below ``closed`` no secret of a job is found. Raises ``Refused``."""
    for name, why in NOT_FOR_JOBS.items():
        if name in spec.env:
            raise Refused(Cause.NOT_STARTED, f"env sets {name}, but {why}", "remove it")
    passing = passes_to_others if of_other_user else passes
    env = {name: value for name, value in environ.items() if passing(name) and is_inherited(name, policy)}
    env |= own
    env |= _tools(toolchain)
    secrets = Secrets(environ, policy.secrets, spec.name, closed)
    env |= {name: secrets.of_env(name, value) for name, value in without(spec.env).items()}
    env |= python_path(toolchain, env)
    env |= _locale(env)
    if spec.launch == "session":  # as spark-submit does for Python drivers that it starts
        env = {"PYTHONUNBUFFERED": "YES", "PYTHONHASHSEED": "0", **env}
    return env | {
        "SPARK_SUPERVISOR_JOB": spec.name,
        "SPARK_SUPERVISOR_UID": assignment.uid,
        "SPARK_SUPERVISOR_ATTEMPT": str(assignment.attempt),
        "SPARK_SUPERVISOR_REVISION": str(assignment.revision),
        CHECKPOINT: for_spark(spec.checkpoint or ""),
        "SPARK_SUPERVISOR_REPORT": str(report),
    }


def passes(name: str) -> bool:
    """Returns whether a driver may see this variable of the supervisor's environment."""
    return name not in KEPT_BACK and not name.startswith(OWN_PREFIX)


def passes_to_others(name: str) -> bool:
    """Returns whether a driver of another Unix user may see this variable."""
    return passes(name) and (name in PASSES_TO_OTHERS or name.startswith("LC_"))


def is_inherited(name: str, policy: PolicySettings) -> bool:
    """Returns whether the policy lets drivers have this variable of the supervisor's."""
    return any(fnmatchcase(name, rule) for rule in policy.driver_environment.inherit)


def python_path(toolchain: Toolchain, env: Mapping[str, str]) -> dict[str, str]:
    """Returns the PYTHONPATH with which a Python imports the pyspark of the toolchain, whatever else it has; nothing if that
    is left as it is in ``env``."""
    if not toolchain.python_path:
        return {}
    given = env.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join((*map(str, toolchain.python_path), *([given] if given else [])))}


def _tools(toolchain: Toolchain) -> dict[str, str]:
    tools = {"SPARK_HOME": str(toolchain.home), "PYSPARK_PYTHON": str(toolchain.python)}
    if toolchain.executor_python:
        tools |= {"PYSPARK_PYTHON": toolchain.executor_python, "PYSPARK_DRIVER_PYTHON": str(toolchain.python)}
    if toolchain.java_home is not None:
        tools["JAVA_HOME"] = str(toolchain.java_home)
    return tools


def _locale(env: Mapping[str, str]) -> dict[str, str]:
    """Returns a locale if none is set: a JVM reads argv and file names in the locale's encoding, and service
    managers often set no locale, which means ASCII."""
    effective = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    return {} if "utf" in effective.lower() else {"LC_ALL": UTF8_LOCALE}
