"""The jars that a supervisor makes on its host and gives to drivers: the storage fence, and the gate of queries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from supervisor.errors import Unreachable
from supervisor.model.records import PrepareLevel
from supervisor.settings.file import Settings
from supervisor.spark.arguments import conf_of
from supervisor.spark.class_archive.choice import OPTIONS_KEY
from supervisor.spark.driver_start import DriverStart
from supervisor.spark.environment import passes
from supervisor.spark.fence.build import FENCE, Built, JavaSources, host_jar
from supervisor.spark.fence.choice import Fence, owner_of, why_not, why_not_this_spark
from supervisor.spark.gate.agent import SOURCES as GATE_SOURCES
from supervisor.spark.gate.agent import with_agent
from supervisor.spark.refusal import Refused
from supervisor.spark.toolchain import Toolchain, find_toolchain, java_of
from supervisor.spec.s3a import bucket_of

NO_GATE: Final = Built(None)


def fence_of(start: DriverStart, toolchain: Toolchain) -> Fence:
    """Returns the storage fence of the driver, or why it gets none."""
    spec, assignment = start.spec, start.assignment
    why = why_not(spec, conf_of(spec, toolchain), toolchain.version)
    if why is None or why:
        return Fence(why=why or "")
    built = _jar(start.settings, toolchain, start.place.environ)
    owner = owner_of(spec.name, assignment.uid, assignment.attempt, start.place.host)
    return Fence(built.jar, owner, built.why)


def make_fence_ahead(
    settings: Settings, environ: Mapping[str, str], version: str | None = None
) -> Built | None:
    """Makes the jar of the fence that jobs of the Spark ``version`` will get; None stands for the default. A failure is
    forgotten: the first start tries again.

    It returns None if this host has no use for it (no Spark, one that is too old, nothing on S3).
    """
    try:
        toolchain = find_toolchain(settings.spark, version=version, job_env={}, environ=environ)
    except (Refused, Unreachable):
        return None
    if why_not_this_spark(toolchain.version) or not (bucket_of(settings.store.url) or toolchain.s3a_jars):
        return None
    return _jar(settings, toolchain, environ, remember=False)


def gate_of(start: DriverStart, toolchain: Toolchain) -> Built:
    """Returns the gate of queries, without which no application may run up to its first query."""
    if start.level is not PrepareLevel.APPLICATION:
        return NO_GATE
    built = _jar(start.settings, toolchain, start.place.environ, of=GATE_SOURCES)
    try:
        with_agent("", built.jar or Path(), start.opening)
    except ValueError as error:
        return Built(None, str(error))
    return built


def gate_properties(properties: Mapping[str, str], gate: Built, opening: Path) -> dict[str, str]:
    """Returns the property of the driver's JVM that has the gate, if it gets one."""
    if gate.jar is None:
        return {}
    return {OPTIONS_KEY: with_agent(properties.get(OPTIONS_KEY, ""), gate.jar, opening)}


def _jar(
    settings: Settings,
    toolchain: Toolchain,
    environ: Mapping[str, str],
    *,
    remember: bool = True,
    of: JavaSources = FENCE,
) -> Built:
    """Makes the jar by the host's own Spark and Java, in the supervisor's own environment: nothing of a job
    is executed here."""
    return host_jar(
        toolchain.home,
        java_of(toolchain.java_home, environ),
        toolchain.version or "",
        settings.supervisor.runtime_dir / "fence",
        {name: value for name, value in environ.items() if passes(name)},
        remember=remember,
        of=of,
    )
