"""Defines the section ``clusters`` of ``supervisor.yaml``: the Spark clusters that specs name with ``cluster``."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints

from supervisor.model.master import why_no_cluster
from supervisor.settings.sections import Section
from supervisor.settings.spark_conf import HostConf

ClusterName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]

_HOST: Final = r"^[A-Za-z0-9.:_\[\]-]{1,253}$"


def _master_of_cluster(value: str) -> str:
    why = why_no_cluster(value)
    if why is not None:
        raise ValueError(why)
    return value


class ClusterSettings(Section):
    """Describes one cluster. ``master`` is ``spark://HOST:PORT[,HOST:PORT…]``. ``conf`` are properties of each driver that
    uses it; those of the spec come before them. ``driver_host`` is the address at which executors reach the drivers of
    this host; null leaves that to Spark.
    """

    master: Annotated[str, AfterValidator(_master_of_cluster)]
    conf: HostConf = Field(default_factory=dict)
    driver_host: Annotated[str, StringConstraints(pattern=_HOST)] | None = None


Clusters = Annotated[dict[ClusterName, ClusterSettings], Field(max_length=100)]
