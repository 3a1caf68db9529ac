"""What one start of a driver is made of. Pure.

Each step of a start (``driver_launch``) takes it, so that a new fact of a start is a field here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from supervisor.clients import run_dir
from supervisor.clients.channel import CHANNEL
from supervisor.model.driver_user import DriverUser
from supervisor.model.records import Assignment, PrepareLevel
from supervisor.settings.file import Settings
from supervisor.spark.attempt_place import AttemptPlace, JobAbout
from supervisor.spec.job import JobSpec
from supervisor.spec.s3a import S3Access, access_of_store

PROPERTIES: Final = "spark.properties"


@dataclass(frozen=True, slots=True)
class DriverStart:
    """One start of a driver on this host.

    ``spec`` is the job's as this host starts it, after its policy. ``assignment`` is the leader's, or one without an
    attempt (``NO_ATTEMPT``) where a driver is prepared; then ``level`` is how far it is brought up. ``settings`` are those
    of the supervisor, ``place`` are the directories of the attempt.
    """

    spec: JobSpec
    assignment: Assignment
    settings: Settings
    place: AttemptPlace
    level: PrepareLevel | None = None

    @property
    def user(self) -> DriverUser | None:
        """The Unix user of the driver, or None for the supervisor's own."""
        return self.place.user

    @property
    def about(self) -> JobAbout:
        """Whose the working directory is."""
        deletes = self.spec.checkpoint_on_cancel == "delete"
        return JobAbout(self.spec.name, self.assignment.uid, self.place.registry, deletes)

    @property
    def store(self) -> S3Access:
        """How the store is reached."""
        return access_of_store(self.settings.store, self.settings.policy.endpoints)

    @property
    def files(self) -> Path:
        """The directory for the files of the spec."""
        return self.place.work_dir / "files"

    @property
    def properties_file(self) -> Path:
        return self.place.work_dir / PROPERTIES

    @property
    def channel(self) -> str:
        """The directory by which supervisor and driver talk, if that is not the run directory; else an empty text."""
        return str(self.place.work_dir / CHANNEL) if self.user is not None else ""

    @property
    def channel_or_run_dir(self) -> Path:
        return Path(self.channel or self.place.run_dir)

    @property
    def opening(self) -> Path:
        """The file by whose appearance the application of a prepared driver may begin."""
        return self.channel_or_run_dir / run_dir.OPENING
