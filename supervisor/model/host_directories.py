"""Says which directories a supervisor keeps on its host, and when each is removed. Paths only: nothing is made here.

``TABLE`` is the whole list: a test finds each place in the code that makes a directory, and fails for one that is not of it.

There are three of them. ``runtime_dir`` is for what must not outlive a reboot (a tmpfs as a rule), ``state_dir`` is on a
disk, and ``log_dir`` has what drivers print. The names of attempts and prepared drivers (``records.layout``) are *keys*.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

CWD: Final = "cwd"
SCRATCH: Final = "t"
"""Short: sockets of Python's multiprocessing are below it, and their paths have 107 bytes at most."""
LEFTOVERS: Final = ".leftovers"


class HostDirectory(NamedTuple):
    """Describes one kind of directory. ``lives`` says as long as what it is kept, ``removed`` who removes it then."""

    path: str
    holds: str
    lives: str
    removed: str


TABLE: Final = (
    HostDirectory(
        "<runtime_dir>/attempts/<key>",
        "launch file, lock, deadline, sockets, the shim's log (clients.run_dir)",
        "the shim and its twin",
        "daemon.host.guardian, when both are gone and the tombstone is written",
    ),
    HostDirectory(
        "<runtime_dir>/work/<key>",
        "properties, files that are used in place, the channel of another user's driver (clients.channel)",
        "the attempt or the prepared driver",
        "daemon.host.hosted_attempts.tidy; of another user's driver daemon.host.leftovers, as that user",
    ),
    HostDirectory(
        "<runtime_dir>/artifacts/<uid>",
        "files of the store, by content (registry.blobs)",
        "the attempts and prepared drivers of the job on this host",
        "daemon.host.hosted_attempts.tidy",
    ),
    HostDirectory(
        "<runtime_dir>/shim-logs, <log_dir>/.uploads",
        "logs of shims that wait to be moved to log_dir, names of outputs that wait for the store",
        "the supervisor's next rounds",
        "the files: daemon.host.housekeeping and daemon.host.log_uploads; the directories stay",
    ),
    HostDirectory(
        "<runtime_dir>/fence, <runtime_dir>/class-archives",
        "what the supervisor makes ahead for all drivers (spark.fence, spark.class_archive)",
        "the host's Spark and Java",
        "spark.class_archive.shelf: at most 4 archives; the jar of the fence stays",
    ),
    HostDirectory(
        "<spark.environments_dir> or <runtime_dir>/environments",
        "Python environments that jobs bring, by content",
        "the attempts that use one, and an hour",
        "spark.python_environments.sweep",
    ),
    HostDirectory(
        "<state_dir>/tmp/<key>/t",
        "java.io.tmpdir and TMPDIR: block managers, RocksDB, unpacked native libraries",
        "the attempt or the prepared driver",
        "daemon.host.hosted_attempts.tidy puts it aside, daemon.host.leftovers removes it",
    ),
    HostDirectory(
        "<state_dir>/jobs/<uid>/cwd",
        "the working directory of the job's drivers: relative output and checkpoints, warehouse, files of the spec",
        "the job, and its result (with checkpoint_on_cancel: delete, the job alone)",
        "daemon.host.job_directories puts it aside, daemon.host.leftovers removes it",
    ),
    HostDirectory(
        "<state_dir>/jobs/.leftovers, <state_dir>/tmp/.leftovers, <runtime_dir>/work/.leftovers",
        "what is being removed",
        "its removal",
        "daemon.host.leftovers",
    ),
    HostDirectory(
        "<log_dir>/<job>",
        "output of drivers, diagnostics, logs of shims",
        "the newest 20 attempts, within supervisor.logs",
        "daemon.host.housekeeping, daemon.host.log_limits; the directory stays",
    ),
)


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """Names what is below ``state_dir``, which outlives attempts and reboots."""

    path: Path

    @property
    def jobs(self) -> Path:
        return self.path / "jobs"

    @property
    def tmp(self) -> Path:
        return self.path / "tmp"

    def of_job(self, uid: str, user: int | None = None) -> Path:
        """Returns the directory of a job on this host. Its drivers work in ``CWD`` below it. ``user`` is the number of the
        Unix user that they run as, if it is not the supervisor's: each has a directory of its own."""
        return self.jobs / (uid if user is None else f"{uid}@{user}")

    def tmp_of(self, key: str) -> Path:
        """Returns the directory of an attempt or prepared driver, which holds ``SCRATCH``."""
        return self.tmp / key


def default_state_dir(runtime_dir: Path) -> Path:
    """Returns where state is kept that nobody has given a place. What is in ``/run`` is lost with a reboot and is memory: so
    ``/run/spark-supervisor`` has ``/var/lib/spark-supervisor``. Any other directory has ``state`` below it."""
    run = Path("/run")
    if runtime_dir.is_relative_to(run) and not runtime_dir.is_relative_to(run / "user"):
        return Path("/var/lib") / runtime_dir.relative_to(run)
    return runtime_dir / "state"
