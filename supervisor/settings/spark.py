"""Defines the ``spark`` section of ``supervisor.yaml``: the Spark, Java and Python installations of this host that jobs
may use.

It has only keys and their form. ``spark.toolchain`` looks for what they name when a driver is started.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from supervisor.settings.addresses import AbsolutePath
from supervisor.settings.sections import Section, between
from supervisor.settings.units import DurationS

VERSIONS_MAX: Final = 8
"""A host may have this many named versions: their names stand in its record."""

_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,19}")


def _version(value: str) -> str:
    if not _VERSION.fullmatch(value):
        raise ValueError(
            f"{value[:40]!r} must be the name of a Spark version like 4.1: at most 20 letters, digits, dots, dashes and "
            "underscores, the first a letter or digit"
        )
    return value


def _bounded(versions: dict[str, SparkVersionSettings]) -> dict[str, SparkVersionSettings]:
    for name in versions:
        if not _VERSION.fullmatch(name):
            raise ValueError(f"holds {name[:40]!r}, which is no name of a Spark version like 4.1")
    if len(versions) > VERSIONS_MAX:
        raise ValueError(f"has {len(versions)} versions, and {VERSIONS_MAX} are the most")
    return versions


def _python_rule(value: str) -> str:
    if not value.startswith("/") or not value.isprintable() or ".." in value.split("/"):
        raise ValueError(f"{value[:120]!r} is no absolute path like /opt/python*/bin/python, without '..'")
    return value


VersionName = Annotated[str, AfterValidator(_version)]
PythonRules = Annotated[
    tuple[Annotated[str, AfterValidator(_python_rule)], ...], Field(strict=False, max_length=100)
]


class SparkVersionSettings(Section):
    """Says where one more Spark is. If ``java_home`` is null, its Java is that of the host's default Spark. ``s3a_jars`` are
    for this Spark alone; null means that it has them, or needs none.
    """

    home: AbsolutePath
    java_home: AbsolutePath | None = None
    s3a_jars: AbsolutePath | None = None


class SparkSettings(Section):
    """Says where Spark and Java are. If ``home`` is null, it is SPARK_HOME, else the installed PySpark; if
    ``java_home`` is null, it is JAVA_HOME, else the PATH's.

    ``s3a_jars`` is a directory that ``deploy/s3a-jars/fetch`` filled, for jobs that read or write ``s3a://``.
    ``versions`` are more Sparks, by the names that specs give (``spark``); ``pythons`` are rules for the interpreters
    that specs may name (``python.interpreter``). Archives that specs bring (``python.archive``) are unpacked in
    ``environments_dir``; if it is null, below the runtime directory. ``class_archive`` says whether this host makes
    class-data archives for the JVMs of its drivers.
    """

    home: AbsolutePath | None = None
    java_home: AbsolutePath | None = None
    s3a_jars: AbsolutePath | None = None
    versions: Annotated[dict[str, SparkVersionSettings], AfterValidator(_bounded)] = Field(
        default_factory=dict
    )
    pythons: PythonRules = ()
    environments_dir: AbsolutePath | None = None
    class_archive: Literal["auto", "off"] = "auto"
    submit_timeout_s: Annotated[DurationS, between(1.0, 3600.0)] = Field(
        default=120.0, alias="submit_timeout"
    )
