"""Names the programs that only the host chooses: a job's ``env`` does not choose them. It is pure.

The supervisor itself executes Spark and Java (the storage fence is compiled, ``savepoint verify --deep``
reads state), outside of lease and containment: what a job named there would run as the supervisor. So
``submit`` refuses such an ``env``. Jobs that an older version registered keep it in their specs; for them the
variables count as not given. By its key ``spark`` a job chooses among the installations that the host offers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HOST_ONLY: Final = ("SPARK_HOME", "JAVA_HOME")
_HOSTS: Final = (
    "every job is started with a Spark and Java of its host (spark.home and spark.java_home of supervisor.yaml, else the "
    "supervisor's own environment; the spec's key spark names one of spark.versions)"
)


def of_host(env: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the variables of a job's ``env`` that do not count."""
    return tuple(name for name in HOST_ONLY if name in env)


def without(env: Mapping[str, str]) -> dict[str, str]:
    """Returns ``env`` as far as it counts."""
    return {name: value for name, value in env.items() if name not in HOST_ONLY}


def why_refused(env: Mapping[str, str]) -> str | None:
    """Returns why a job with this ``env`` is not registered, or None if it may be."""
    named = of_host(env)
    return f"env must not set {' and '.join(named)}: {_HOSTS}; remove that from env" if named else None


def why_ignored(env: Mapping[str, str]) -> str | None:
    """Returns what is said of a registered job with this ``env``, or None if all of it counts."""
    named = of_host(env)
    return f"{' and '.join(named)} ignored: {_HOSTS}" if named else None
