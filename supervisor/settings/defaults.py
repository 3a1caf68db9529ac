"""Defines the ``defaults`` section: what a job gets for keys that it does not set. It also defines the
sections that a spec shares with it.

A default is copied into the spec when it is submitted, so that changing ``supervisor.yaml`` later changes no
running job. Sections are merged key by key: a job that writes only ``restart: {max: 1m}`` keeps the other
defaults.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from supervisor.model.lease_terms import LEASE_MAX_S, LEASE_MIN_S, STOP_GRACE_MAX_S
from supervisor.settings.restart import DAY_S, RestartSettings
from supervisor.settings.sections import Section, Since, between
from supervisor.settings.spark_conf import SparkConf
from supervisor.settings.units import DurationS, SizeBytes

GIB = 1024**3

LeaseS = Annotated[DurationS, between(LEASE_MIN_S, LEASE_MAX_S)]
StopGraceS = Annotated[DurationS, between(0.0, STOP_GRACE_MAX_S)]


class Resources(Section):
    """Says what a job takes. ``memory`` is what the whole driver tree occupies on its host, for placement. A
    higher ``priority`` is placed first. ``memory_limit``, ``cpu`` (processors) and ``tasks`` (processes and
    threads) are limits that the kernel enforces on the whole driver tree; null means none.
    """

    memory_bytes: Annotated[SizeBytes, Field(ge=1024**2, le=1024**5)] = Field(default=GIB, alias="memory")
    priority: int = Field(default=0, ge=-1000, le=1000)
    memory_limit_bytes: Annotated[
        Annotated[SizeBytes, Field(ge=1024**2, le=1024**5)] | None, Since("0.2")
    ] = Field(default=None, alias="memory_limit")
    cpu: Annotated[Annotated[float, Field(ge=0.01, le=100_000.0)] | None, Since("0.2")] = None
    tasks: Annotated[Annotated[int, Field(ge=16, le=4_194_304)] | None, Since("0.2")] = None


class Health(Section):
    """Says when an attempt that does nothing is ended (REFERENCE.md, ``health``)."""

    start_timeout_s: Annotated[DurationS, between(1.0, DAY_S)] = Field(default=300.0, alias="start_timeout")
    stall_timeout_s: Annotated[DurationS, between(1.0, 30 * DAY_S)] = Field(
        default=600.0, alias="stall_timeout"
    )
    cluster_timeout_s: Annotated[Annotated[DurationS, between(10.0, 30 * DAY_S)] | None, Since("0.2")] = (
        Field(default=None, alias="cluster_timeout")
    )
    failed_query: Annotated[Literal["restart", "leave"], Since("0.2")] = "leave"


class Defaults(Section):
    """Holds the defaults of every job. ``conf`` has Spark properties, e.g. an S3 endpoint; a job's own value
    of the same property wins.
    """

    lease_s: LeaseS = Field(default=30.0, alias="lease")
    stop_grace_s: StopGraceS = Field(default=30.0, alias="stop_grace")
    restart: RestartSettings = RestartSettings()
    health: Health = Health()
    resources: Resources = Resources()
    conf: SparkConf = Field(default_factory=dict)
