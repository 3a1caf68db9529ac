"""Checks runtime_dir, state_dir, log_dir and the drivers' scratch space.

Each must exist, be writable and local, have room, and not be noexec where it counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from supervisor.cli.doctor.findings import (
    CheckGroup,
    CheckVerdict,
    DoctorCheck,
    DoctorFinding,
    ok,
    problem,
    warning,
)
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.host_probe import Directory, probe_directory
from supervisor.settings.units import format_size

NETWORK: Final = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "fuse.sshfs",
        "fuse.s3fs",
        "fuse.glusterfs",
        "ceph",
        "9p",
        "afs",
        "lustre",
    }
)
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
SCRATCH: Final = "SPARK_LOCAL_DIRS"
MIB: Final = 1 << 20
ROOM_LEAST: Final = {
    "supervisor.runtime_dir": 16 * MIB,
    "supervisor.state_dir": 1024 * MIB,
    "supervisor.log_dir": 200 * MIB,
    "scratch": 1024 * MIB,
}
FILES_LEAST: Final = 1000


@dataclass(frozen=True, slots=True)
class DirectoryFacts:
    """Holds what was found.

    ``scratch`` is the temporary directory of drivers, or what job or host say in place of it. ``logs_most_bytes`` is what
    supervisor.logs.per_host allows.
    """

    runtime: Directory
    logs: Directory
    scratch: Directory
    state: Directory
    logs_most_bytes: int = 0


def collect(subject: Subject) -> DirectoryFacts:
    settings = subject.settings.supervisor
    of_job = subject.job_env.get(SCRATCH, "")
    of_job = "" if of_job.startswith("${") else of_job  # a reference to a secret is not followed
    state = settings.state
    own = str(state.tmp)
    scratch = of_job or subject.environ.get(SCRATCH) or subject.conf.get("spark.local.dir") or own
    first = Path(scratch.split(",")[0])
    return DirectoryFacts(
        probe_directory(settings.runtime_dir),
        probe_directory(settings.log_dir),
        probe_directory(first if first.is_absolute() else state.tmp),
        probe_directory(state.path),
        settings.logs.per_host_bytes,
    )


# -- judges -------------------------------------------------------------------------------------------------------


def judge_usable(key: str, directory: Directory) -> DoctorFinding:
    """Judges what all of them need."""
    if directory.error:
        return problem(
            f"{key} {directory.path}: {directory.error}",
            f"create it for the user that runs the supervisor, or correct {key} (doctor ran as this user)",
        )
    if directory.open_to_all:
        return problem(
            f"{key} {directory.path} may be written to by everybody", f"chmod 0700 {directory.path}"
        )
    room, least = directory.free_bytes, ROOM_LEAST[key]
    if room is not None and room < least:
        return problem(
            f"{key} {directory.path} has {room // MIB} MiB left, {least // MIB} are needed", "make room there"
        )
    if directory.free_files is not None and directory.free_files < FILES_LEAST:
        return problem(f"{key} {directory.path} has {directory.free_files} inodes left", "make room there")
    state = "can be used" if directory.exists else f"will be made in {directory.existing}"
    left = f", {room / (1 << 30):.1f} GiB left" if room is not None else ""
    return ok(f"{key} {directory.path} {state} ({directory.file_system or 'unknown file system'}{left})")


def judge_runtime(facts: DirectoryFacts) -> DoctorFinding:
    found = judge_usable("supervisor.runtime_dir", facts.runtime)
    if found.verdict is not CheckVerdict.OK:
        return found
    if facts.runtime.file_system in NETWORK:
        return problem(
            f"supervisor.runtime_dir {facts.runtime.path} is on {facts.runtime.file_system}, and holds drivers' deadlines",
            "choose a local disk or tmpfs, like /run/spark-supervisor",
        )
    if facts.runtime.anothers:
        return warning(
            f"supervisor.runtime_dir {facts.runtime.path} belongs to another user than this one: `run` refuses that",
            "chown it to the user that runs the supervisor (doctor ran as this user)",
        )
    if facts.runtime.noexec:
        return warning(
            f"{found.found}; it is mounted noexec: drivers work there and cannot execute files that they unpack",
            "choose another supervisor.runtime_dir, or remount it with exec, if jobs unpack executables or native libraries",
        )
    return found


def judge_state(facts: DirectoryFacts) -> DoctorFinding:
    state = facts.state
    found = judge_usable("supervisor.state_dir", replace(state, open_to_all=False))
    if found.verdict is not CheckVerdict.OK:
        return found
    if state.file_system in IN_MEMORY:
        return warning(
            f"{found.found}: what jobs write to their working directories is in memory, and lost with a reboot",
            "choose a directory on a disk",
        )
    if state.file_system in NETWORK:
        return warning(
            f"{found.found}: a hanging file server would hold up the drivers", "choose a local disk"
        )
    return found


def judge_logs(facts: DirectoryFacts) -> DoctorFinding:
    found = judge_usable("supervisor.log_dir", facts.logs)
    if found.verdict is CheckVerdict.OK and facts.logs.file_system in NETWORK:
        return warning(
            f"{found.found}: a hanging file server would hold up the drivers that write there",
            "choose a local disk",
        )
    if found.verdict is CheckVerdict.OK and facts.logs_most_bytes:
        kept = format_size(facts.logs_most_bytes)
        return replace(found, found=f"{found.found}; {kept} of output are kept at most")
    return found


def judge_scratch(facts: DirectoryFacts) -> DoctorFinding:
    scratch = facts.scratch
    if scratch.noexec:
        return problem(
            f"{scratch.path} is mounted noexec: drivers cannot load the native libraries of zstd, snappy and RocksDB there",
            "remount it with exec, choose another supervisor.state_dir, or point conf spark.driver.extraJavaOptions "
            "-Djava.io.tmpdir=… to another place",
        )
    found = judge_usable("scratch", replace(scratch, open_to_all=False))
    return replace(found, verdict=CheckVerdict.WARNING) if found.verdict is CheckVerdict.PROBLEM else found


DIRECTORIES = CheckGroup(
    "directories",
    collect,
    (
        DoctorCheck("runtime-dir", "runtime_dir is writable, local, has room", judge_runtime),
        DoctorCheck("state-dir", "state_dir is writable, on a local disk, has room", judge_state),
        DoctorCheck("log-dir", "log_dir is writable and has room", judge_logs),
        DoctorCheck("scratch", "the drivers' temporary directory has room and is not noexec", judge_scratch),
    ),
    deadline_s=6.0,
)
