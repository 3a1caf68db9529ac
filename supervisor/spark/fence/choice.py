"""Decides which drivers get the storage fence, and what their properties say then. Pure; called by
``prepare`` and ``doctor``.

No driver is ever kept from starting for want of the fence: where it cannot be used, the driver starts without
it and the reason is logged (event ``checkpoint_not_fenced``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from supervisor.spark.release import is_before
from supervisor.spec.s3a import bucket_of, setting

if TYPE_CHECKING:  # for show, which is quicker without pydantic
    from supervisor.spec.job import JobSpec

MANAGER: Final = "supervisor.spark.fence.FencedCheckpointFileManager"
MANAGER_KEY: Final = "spark.sql.streaming.checkpointFileManagerClass"
HADOOP_PREFIX: Final = "spark.hadoop."
OWNER_KEY: Final = "spark.hadoop.supervisor.fence.owner"
"""The owner travels in Hadoop's configuration: executors on other hosts get that, but not the driver's
environment."""

S3A_CLASS: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
SPARK_MIN: Final = (4, 1)


@dataclass(frozen=True, slots=True)
class Fence:
    """Describes the fence of a driver. ``jar`` is what the driver's class path needs, or None without a
    fence; then ``why`` says why not, in half a sentence.

    If both are empty, there is nothing to fence (no checkpoint on S3).
    """

    jar: Path | None = None
    owner: str = ""
    why: str = ""

    @property
    def properties(self) -> dict[str, str]:
        return {} if self.jar is None else {MANAGER_KEY: MANAGER, OWNER_KEY: self.owner}


def owner_of(job: str, uid: str, attempt: int, host: str) -> str:
    """Returns the owner as it stands in the metadata of every object of the checkpoint (ASCII, since it
    travels in a header)."""
    where = "".join(char if "!" <= char <= "~" else "?" for char in host) or "?"
    return f"job={job} uid={uid} attempt={attempt} host={where}"


def why_not(spec: JobSpec, conf: Mapping[str, str], spark_version: str | None) -> str | None:
    """Returns why this driver gets no fence; an empty text if it gets one; None if its checkpoint is not on
    S3.

    ``conf`` holds all properties of job and host (``spark-defaults.conf``).
    """
    why = why_not_wanted(spec.checkpoint, spec.checkpoint_fence, conf)
    return why_not_this_spark(spark_version) if why == "" else why


def why_not_wanted(checkpoint: str | None, fence: str, conf: Mapping[str, str]) -> str | None:
    """Returns the same as far as it is known without a host. ``fence`` is ``auto`` or ``off``."""
    bucket = bucket_of(checkpoint or "")
    if bucket is None:
        return None
    if fence == "off":
        return "the job says checkpoint_fence: off"
    if MANAGER_KEY in conf:
        return f"conf {MANAGER_KEY} names {conf[MANAGER_KEY]}, which counts"
    made_for = conf.get("spark.hadoop.fs.s3a.impl", S3A_CLASS)
    if made_for != S3A_CLASS:
        return f"conf spark.hadoop.fs.s3a.impl names {made_for}, not Hadoop's S3A"
    if (setting(conf, bucket, "create.conditional.enabled") or "").lower() == "false":
        return "conf spark.hadoop.fs.s3a.create.conditional.enabled is false"
    return ""


def why_not_this_spark(version: str | None) -> str:
    """Returns why this Spark cannot have the fence; an empty text if it can."""
    if version is None:
        return "the version of Spark is not known: its home holds no spark-core jar"
    if is_before(version, SPARK_MIN):
        return f"Spark is {version}, and the fence needs 4.1 or newer"
    return ""
