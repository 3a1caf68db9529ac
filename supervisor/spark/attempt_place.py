"""Makes the directories of an attempt before it is started: its own, its temporary one, and that of its job.

``model.host_directories`` has the table of all, with what removes them. The working directory belongs to the job and not to
the attempt: what an application writes to a relative path is there for the next driver on this host. A prepared driver
has the same one as the driver that runs. That is safe: before its opening no query of it runs, and the supervisor puts
no file of a spec there while another driver of the job lives (``placed_files``).

A driver of another Unix user than the supervisor's is granted what it may write to, and owns no directory. A job
has a working directory for each user that it runs as: none can use what another one has written.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from supervisor.clients.channel import let_pass, make_channel, open_to
from supervisor.clients.run_dir import read_file, write_atomically
from supervisor.errors import Unreachable
from supervisor.model.driver_user import DriverUser
from supervisor.model.host_directories import CWD, SCRATCH, StateDirectory

ABOUT: Final = "job.json"
ABOUT_MAX_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class AttemptPlace:
    """Says where this attempt lives on this host. ``run_dir`` need not exist yet: only the report socket's
    path is taken from it.

    ``work_dir`` is made here (mode 0700), and holds the properties and files; it is removed together with the run
    directory. Its name is that of the attempt, and so is that of its temporary directory below ``state_dir``, where the
    job's working directory is, too. ``cgroup`` is that of the attempt, or None. ``environ`` is the
    supervisor's environment. ``user`` is the Unix user of the driver, or None for the supervisor's own. ``not_limited``
    says why the limits of the spec are not enforced here in full. ``registry`` is the id of the registry
    (``Cluster.id``), by which a cluster knows whose driver it serves. ``is_alone`` says that no other driver of the job
    lives on this host.
    """

    host: str
    run_dir: Path
    work_dir: Path
    log_path: Path
    cgroup: str | None = None
    user: DriverUser | None = None
    not_limited: str = ""
    registry: str = ""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    is_alone: bool = True
    state_dir: Path = field(kw_only=True)

    def job_dir(self, uid: str) -> Path:
        """Returns the directory of the job on this host, for the user of this attempt."""
        return StateDirectory(self.state_dir).of_job(uid, None if self.user is None else self.user.uid)

    @property
    def scratch(self) -> Path:
        """Returns the temporary directory of this attempt."""
        return StateDirectory(self.state_dir).tmp_of(self.work_dir.name) / SCRATCH


class JobAbout(NamedTuple):
    """Holds whose a job's directory is (``ABOUT``): with it, a supervisor that has forgotten all else removes no other's.

    ``registry`` is the id of the registry that has the job; ``delete`` says that the checkpoint goes when the job is
    cancelled (``checkpoint_on_cancel``).
    """

    name: str
    uid: str
    registry: str
    delete: bool


def make_directories(place: AttemptPlace, about: JobAbout) -> Path:
    """Makes what the attempt needs, and returns the working directory of its driver. It may be called again. Raises
    Unreachable."""
    job, work, scratch = place.job_dir(about.uid), place.work_dir, place.scratch
    for directory in (
        work,
        work / "files",
        job.parent,
        job,
        job / CWD,
        scratch.parent.parent,
        scratch.parent,
        scratch,
    ):
        make_directory(directory)
    try:
        if read_about(job) != about:
            write_atomically(str(job / ABOUT), json.dumps(about._asdict()).encode())
        if place.user is not None:
            _open_to_user(place, job, scratch, place.user.uid)
    except OSError as error:
        raise unusable(Path(error.filename or job), error) from None
    return job / CWD


def _open_to_user(place: AttemptPlace, job: Path, scratch: Path, uid: int) -> None:
    let_pass(str(place.work_dir.parent))
    make_channel(str(place.work_dir), uid)
    mode = stat.S_IMODE(place.state_dir.stat().st_mode)
    if not mode & stat.S_IXOTH:
        place.state_dir.chmod(mode | stat.S_IXOTH)
    for directory, name in ((job, CWD), (scratch.parent, SCRATCH)):
        let_pass(str(directory.parent))
        open_to(str(directory), name, uid)


def read_about(job_dir: Path) -> JobAbout | None:
    """Returns whose the directory is; None if it does not say so, or not believably. Raises OSError."""
    try:
        body = json.loads(read_file(str(job_dir / ABOUT), ABOUT_MAX_BYTES) or b"")
        about = JobAbout(body["name"], body["uid"], body["registry"], body["delete"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    is_right = all(isinstance(each, str) for each in about[:3]) and isinstance(about.delete, bool)
    return about if is_right else None


def make_directory(directory: Path) -> None:
    """Makes a directory of the supervisor's own, if it is not there. Raises Unreachable."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(directory, error) from None


def unusable(directory: Path, error: OSError) -> Unreachable:
    """Returns what to raise for a directory that can't be made or opened to a user."""
    if error.errno == errno.ENOTSUP:
        return Unreachable(
            f"{directory} is on a file system without ACLs, which a driver of another user needs",
            "put supervisor.runtime_dir and supervisor.state_dir on ext4, xfs or tmpfs",
        )
    return Unreachable(
        f"{directory} cannot be made ({error.strerror})",
        "repair supervisor.runtime_dir or supervisor.state_dir",
    )
