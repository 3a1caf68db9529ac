"""Lists all checks of ``doctor``, as data and in the order in which they are shown. The section about them in
the page REFERENCE is generated from this.

A new check needs a fact in its area's collector, a pure judge beside it, and a line in the area's ``checks``;
its id is a name that scripts may use, and does not change.
"""

from __future__ import annotations

from typing import Final

from supervisor.cli.doctor.api import API
from supervisor.cli.doctor.clusters import CLUSTERS, CLUSTERS_DEEP
from supervisor.cli.doctor.directories import DIRECTORIES
from supervisor.cli.doctor.findings import AnyArea
from supervisor.cli.doctor.host import HOST
from supervisor.cli.doctor.java import JAVA
from supervisor.cli.doctor.job import JOB, PACKAGES
from supervisor.cli.doctor.job_credentials import JOB_CREDENTIALS
from supervisor.cli.doctor.receivers import RECEIVERS
from supervisor.cli.doctor.spark import SPARK
from supervisor.cli.doctor.stores import CHECKPOINT, STORE
from supervisor.cli.doctor.zookeeper import ZOOKEEPER
from supervisor.cli.doctor.zookeeper_security import ZOOKEEPER_SECURITY

AREAS: Final[tuple[AnyArea, ...]] = (
    JAVA,
    SPARK,
    STORE,
    CHECKPOINT,
    ZOOKEEPER,
    ZOOKEEPER_SECURITY,
    HOST,
    API,
    DIRECTORIES,
    CLUSTERS,
    CLUSTERS_DEEP,
    RECEIVERS,
    JOB,
    JOB_CREDENTIALS,
    PACKAGES,
)


def listed() -> tuple[tuple[str, str, str], ...]:
    """Returns (area, id, what it checks) of every check."""
    return tuple((area.id, check.id, check.about) for area in AREAS for check in area.checks)
