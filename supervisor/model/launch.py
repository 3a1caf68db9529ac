"""All that a shim needs to run one attempt: written by the agent into the run directory, read by the shim.

The hand-over between ``spark`` (what to execute) and ``shim`` (how to keep it within its lease). Stdlib only, because
the shim imports it. The file has mode 0600: ``env`` may carry secrets, which never appear in argv.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from supervisor.model.bounds import Count, Seconds, SomeSeconds, SupervisorId
from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.records import Assignment

CHECKPOINT = "SPARK_SUPERVISOR_CHECKPOINT"
"""In the environment of every driver."""

GATE = "SPARK_SUPERVISOR_GATE"
"""In the environment of a driver whose application waits for a word of the host's supervisor: the file with that word."""


@dataclass(frozen=True, slots=True)
class Launch:
    """``argv``/``env``/``cwd``: the driver, executed without a shell. Times in seconds.

    ``reports``: the driver runs our bootstrap and says when it has begun (PySpark); else the supervisor of the host
    looks at the checkpoint's commit log and tells the shim (JVM applications). ``cgroup``: absolute directory of the
    attempt's own cgroup v2, or None where there is none. ``not_fenced``: why a driver with its checkpoint on S3 starts
    without the storage fence; empty: it has it, or needs none.
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
    # BOOTTIME before the agent's last look whether the registry is to be trusted; 0: not known
    looked_s: float = 0.0
    remembered: CheckpointExpectation | None = None  # of the job's checkpoint; None: it has none
    not_fenced: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def checkpoint(self) -> str | None:
        """Its location as the driver was told it, for Spark; None: the job has none."""
        return self.env.get(CHECKPOINT) or None

    @property
    def is_held(self) -> bool:
        """Its application waits at the gate until its checkpoint was looked at."""
        return GATE in self.env
