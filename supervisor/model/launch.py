"""Defines all that a shim needs to run one attempt: the agent writes it into the run directory, the shim
reads it.

It is the hand-over between ``spark`` (what to execute) and ``shim`` (how to keep it within its lease). It
imports the standard library only, because the shim imports it. The file has mode 0600: ``env`` may carry
secrets, which never appear in argv.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from supervisor.model.bounds import Count, Seconds, SomeSeconds, SupervisorId
from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.records import Assignment

CHECKPOINT = "SPARK_SUPERVISOR_CHECKPOINT"
"""This variable is in the environment of every driver."""

GATE = "SPARK_SUPERVISOR_GATE"
"""This variable is in the environment of a driver whose application waits for the verdict of the host's
supervisor: it names the file with that verdict.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Describes one attempt. ``argv``, ``env`` and ``cwd`` are the driver, which is executed without a shell.
    Times are in seconds.

    If ``reports`` is set, the driver runs the supervisor's bootstrap and reports when it has begun (PySpark);
    else the supervisor of the host reads the checkpoint's commit log and reports to the shim (JVM
    applications). ``cgroup`` is the absolute directory of the attempt's own cgroup v2, or None where there is
    none. ``not_fenced`` says why a driver with its checkpoint on S3 starts without the storage fence; it is
    empty if the driver has the fence, or needs none.
    """

    cluster: str
    hosts: str
    root: str
    session_timeout_s: Seconds
    supervisor: SupervisorId
    host: str
    assignment: Assignment
    lease_s: SomeSeconds
    stop_grace_s: Seconds
    start_timeout_s: Seconds
    stall_timeout_s: SomeSeconds
    unbounded: bool
    reports: bool
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    log_path: str
    log_max_bytes: Count = 64 * 1024 * 1024
    log_keep: Count = 5
    cgroup: str | None = None
    begun_s: float = 0.0  # BOOTTIME when the agent took the assignment up; 0: not known
    # BOOTTIME before the agent's last trust check of the registry; 0: not known
    looked_s: float = 0.0
    remembered: CheckpointExpectation | None = None  # of the job's checkpoint; None: it has none
    not_fenced: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def checkpoint(self) -> str | None:
        """Returns the location of the checkpoint as the driver was given it, for Spark; None if the job has
        none."""
        return self.env.get(CHECKPOINT) or None

    @property
    def is_held(self) -> bool:
        """Returns whether its application waits at the start barrier until its checkpoint was examined."""
        return GATE in self.env
