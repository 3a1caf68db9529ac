"""Runs ``python -m supervisor.shim <run_dir> [<cgroup>]``: the process that owns one attempt. The agent
starts it (``spawn``).

The order of the steps matters. Lock, record, containment, twin, starter: everything that forks is done while
this process has one thread and holds nothing of ZooKeeper. Only then the runner is imported, and with it
kazoo. The twin is forked even before the launch file is decoded, because it carries whatever is loaded by
then for as long as the job lives.

The exit code is 0 if the attempt is done, or if another shim lives here; 1 if the shim could not even begin,
and has claimed nothing; 2 if there is a defect.
"""

from __future__ import annotations

import os
import signal
import sys

from supervisor.clients import processes, run_dir, umask
from supervisor.clients.containment import CgroupContainment, Containment, ScanContainment, become_subreaper
from supervisor.clients.processes import ProcessId
from supervisor.clients.run_dir import DeadlineFile
from supervisor.errors import SupervisorError
from supervisor.shim.children import Children
from supervisor.shim.log import ShimLog
from supervisor.shim.twin import fork_twin


def main(directory: str, cgroup: str | None) -> int:
    umask.keep_private()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # a request to stop waits until the runner can hear it
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    try:
        lock = run_dir.take_lock(directory)
        if lock is None:  # another shim lives here, or it is being removed
            return 0
        own_attempt(directory, cgroup)
    except (OSError, SupervisorError) as error:
        ShimLog(os.path.basename(directory)).log_event("shim_not_begun", "error", why=str(error))
        return 1
    return 0


def own_attempt(directory: str, cgroup: str | None) -> None:
    """Does everything from the record of this process to the end of the attempt. Raises OSError, Corrupt."""
    claim_id = os.urandom(8).hex()
    _record(directory, run_dir.SHIM, os.getpid(), claim_id)
    deadline = DeadlineFile.create(directory)
    children = Children()
    tree, tree_for_twin = _containments(directory, cgroup, claim_id, children)
    twin = fork_twin(tree_for_twin, deadline, directory)
    twin_pidfd = os.pidfd_open(twin)
    _record(directory, run_dir.TWIN, twin)

    # after the fork of the twin, which keeps what is loaded before it: once per job
    from supervisor.shim.starter import fork_starter, held_at_barrier, limited, read_launch

    launch = read_launch(directory)
    if launch.cgroup != cgroup:
        raise OSError(f"{directory}/{run_dir.LAUNCH} names the cgroup {launch.cgroup}, not {cgroup}")
    if launch.waits_for_assignment:
        launch = held_at_barrier(launch, directory)
    launch = limited(launch, tree)
    if cgroup is None:
        become_subreaper()
    starter = fork_starter(launch, claim_id, tree)
    children.watched = starter.pid
    _record(directory, run_dir.DRIVER, starter.pid)

    # after the fork of the starter, for the same reason: kazoo, the largest part
    from supervisor.shim.runner import Runner, RunnerParts

    Runner(RunnerParts(directory, launch, claim_id, tree, children, deadline, starter, twin_pidfd)).run()


def _containments(
    directory: str, cgroup: str | None, claim_id: str, children: Children
) -> tuple[Containment, Containment]:
    """Returns two containments: the one by which the shim sees the tree, and the one by which the twin sees
    it once the shim is dead."""
    if cgroup is not None:
        group = CgroupContainment(cgroup)
        group.create()
        return group, group

    def root() -> ProcessId | None:
        record = run_dir.read_process(f"{directory}/{run_dir.DRIVER}")
        return None if record is None else record.process

    return ScanContainment(claim_id, root, children.reap), ScanContainment(claim_id, root)


def _record(directory: str, file: str, pid: int, claim_id: str = "") -> None:
    process = processes.identify(pid)
    if process is None:
        raise OSError(f"process {pid} has ended at its start")
    run_dir.write_process(f"{directory}/{file}", process, claim_id)


if __name__ == "__main__":
    code = 2
    try:
        code = main(sys.argv[1].rstrip("/"), sys.argv[2] if len(sys.argv) > 2 else None)
    except BaseException:  # noqa: BLE001 - the edge: a defect ends the shim, and with it (twin) the driver
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)  # threads that hang in the network or on the disk keep nobody
