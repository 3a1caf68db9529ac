"""Holds what is examined: the configuration, perhaps a job's spec, and this process's surroundings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from supervisor.settings.file import Settings
from supervisor.spec.job import JobSpec
from supervisor.spec.s3a import S3Access, access_of, access_of_store, bucket_of


@dataclass(frozen=True)
class Subject:
    """Holds what every collector is given. ``spec_path`` is where the spec stands; its relative paths begin
    there. ``unit`` is a unit file that was named.

    ``patience`` is a factor for every time limit; 1 makes the whole examination end within 15 s, and the
    command has 3. ``deep`` also asks for the checks that take a minute.
    """

    settings: Settings
    environ: Mapping[str, str]
    spec: JobSpec | None = None
    spec_path: Path | None = None
    unit: Path | None = None
    patience: float = 1.0
    deep: bool = False

    @property
    def job_env(self) -> Mapping[str, str]:
        return self.spec.env if self.spec is not None else {}

    @property
    def version(self) -> str | None:
        """Returns the name of the Spark that the job asks for; None stands for the host's default."""
        return self.spec.spark if self.spec is not None else None

    @property
    def conf(self) -> Mapping[str, str]:
        """Returns the Spark properties as far as they are known without a host's ``spark-defaults.conf``."""
        return self.spec.conf if self.spec is not None else self.settings.defaults.conf

    @property
    def store_access(self) -> S3Access:
        return access_of_store(self.settings.store, self.settings.policy.endpoints)

    @property
    def uses_s3(self) -> bool:
        """Returns whether the store or the job's checkpoint lies on S3."""
        checkpoint = (self.spec.checkpoint or "") if self.spec is not None else ""
        return self.settings.store.url.startswith("s3://") or bucket_of(checkpoint) is not None

    def access_to(self, bucket: str) -> S3Access:
        """Returns the access to ``bucket`` as the driver would have it."""
        return access_of(self.conf, bucket, self.store_access)
