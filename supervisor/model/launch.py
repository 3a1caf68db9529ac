"""Defines all that a shim needs to run one attempt: the agent writes it into the run directory, the shim
reads it.

It is the hand-over between ``spark`` (what to execute) and ``shim`` (how to keep it within its lease). It
imports the standard library only, because the shim imports it. The file has mode 0600: ``env`` may carry
secrets, which never appear in argv.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from supervisor.model.bounds import OMITTED, Count, Seconds, SomeSeconds, SupervisorId
from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.driver_user import DriverUser, ResourceLimits
from supervisor.model.records import Assignment
from supervisor.model.zookeeper_access import OPEN_ACCESS, ZooKeeperAccess

CHECKPOINT = "SPARK_SUPERVISOR_CHECKPOINT"
"""This variable is in the environment of every driver."""

GATE = "SPARK_SUPERVISOR_GATE"
"""This variable is in the environment of a driver whose application waits for the verdict of the host's
supervisor: it names the file with that verdict.
"""


PREPARED = "SPARK_SUPERVISOR_PREPARED"
"""This variable is in the environment of a driver that is being prepared: it names the file (``run_dir.OPENING``) by whose
appearance its application may begin. The application does not see it."""

PREPARE_LEVEL = "SPARK_SUPERVISOR_PREPARE_LEVEL"
"""This variable goes with ``PREPARED``: it is a ``model.records.PrepareLevel``. The application does not see it."""

NOT_HELD = "SPARK_SUPERVISOR_NOT_HELD"
"""This variable goes with ``PREPARED`` where the application could not be held at its first query, and so does not begin
before the opening: it says why. The application does not see it."""

OF_PREPARED = frozenset({PREPARED, PREPARE_LEVEL, NOT_HELD})
"""Only a prepared driver has these variables."""

ORDERS = "SPARK_SUPERVISOR_ORDERS"
"""This variable is in the environment of a driver that runs as another user: it names the socket at which it takes
orders, in the one directory of the channel where it may make files."""

AWAITS_CONTEXT = "SPARK_SUPERVISOR_AWAITS_CONTEXT"
"""This variable is in the environment of a driver whose SparkContext comes up only when the cluster has taken the
application on (YARN): until then the bootstrap reports that it has no executor."""

UNNAMED = "SPARK_SUPERVISOR_UNNAMED"
"""This variable is in the environment of a driver whose job has left queries in directories of random names: another one
like them would begin from nothing, and is not let begin."""

NO_ATTEMPT = 0
"""The launch file of a prepared driver has an assignment with this attempt: none was given to it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Describes one attempt. ``argv``, ``env`` and ``cwd`` are the driver, which is executed without a shell.
    Times are in seconds.

    If ``reports`` is set, the driver runs the supervisor's bootstrap and reports when it has begun (PySpark);
    else the supervisor of the host reads the checkpoint's commit log and reports to the shim (JVM
    applications). ``cgroup`` is the absolute directory of the attempt's own cgroup v2, or None where there is
    none. ``not_fenced`` says why a driver with its checkpoint on S3 starts without the storage fence; it is
    empty if the driver has the fence, or needs none. ``class_archive`` names the class-data archive of the
    driver\'s JVM, or says why it has none.

    ``prepared`` is the key ``<uid>.p<random>`` of the run directory of a prepared driver. There are two launch files then:
    one by which it is brought up (its assignment has ``NO_ATTEMPT``), and one by which an attempt is handed to it
    (``run_dir.HANDED``), whose ``env``, ``hadoop_conf`` and ``spark_conf`` say what the driver is told at the opening.

    ``access`` says how to connect to ``hosts``. It names files, and holds nothing of what is in them.

    ``user`` is the Unix user that the driver runs as, or None for the supervisor's own. ``channel`` is then the
    directory by which driver and supervisor talk (``run_dir``); if it is empty, that is the run directory. ``limits``
    are what the kernel enforces on the attempt's cgroup; ``not_limited`` says why it does not enforce all of what the
    spec asks for. ``executors_outlive_s`` is for the lease; it is 0 for a driver that holds no executors elsewhere. For one
    that does, ``on_cluster`` is the name of their cluster, or the master where the spec names that, and
    ``cluster_timeout_s`` for how long it may be without one; 0 sets no limit. If ``log_uploads_kept`` is not 0, the output
    of the attempt is uploaded when it has ended, and of so many attempts it is kept in the store. If ``log_upload_every_s``
    is not 0, it is uploaded that often while the attempt runs, too. ``master`` is Spark's master as the spec asks for it;
    it is empty where the version before has made the launch. ``failed_query_ends`` says that a query which fails ends the
    attempt, whatever others do. ``secrets`` are what the references in ``env`` and ``conf`` of the spec were resolved to:
    what the driver prints or reports of them is covered before it is written down anywhere but in its own log.
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
    prepared: str = ""
    # Hadoop properties that name the attempt, such as the owner of the storage fence; set at the opening
    hadoop_conf: dict[str, str] = field(default_factory=dict)
    class_archive: str = ""
    access: ZooKeeperAccess = field(default=OPEN_ACCESS, metadata=OMITTED)
    user: DriverUser | None = field(default=None, metadata=OMITTED)
    channel: str = field(default="", metadata=OMITTED)
    limits: ResourceLimits | None = field(default=None, metadata=OMITTED)
    not_limited: str = field(default="", metadata=OMITTED)
    executors_outlive_s: Seconds = field(default=0.0, metadata=OMITTED)
    on_cluster: str = field(default="", metadata=OMITTED)
    cluster_timeout_s: Seconds = field(default=0.0, metadata=OMITTED)
    log_uploads_kept: Count = field(default=0, metadata=OMITTED)
    log_upload_every_s: Seconds = field(default=0.0, metadata=OMITTED)
    # names of the files of the spec in ``cwd``, which outlives attempts
    files: tuple[str, ...] = field(default=(), metadata=OMITTED)
    # Spark properties that name the attempt, such as the tags of its application; set at the opening
    spark_conf: dict[str, str] = field(default_factory=dict, metadata=OMITTED)
    master: str = field(default="", metadata=OMITTED)
    failed_query_ends: bool = field(default=False, metadata=OMITTED)
    secrets: tuple[str, ...] = field(default=(), metadata=OMITTED)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def checkpoint(self) -> str | None:
        """Returns the location of the checkpoint as the driver was given it, for Spark; None if the job has
        none."""
        return self.env.get(CHECKPOINT) or None

    def channel_in(self, directory: str) -> str:
        """Returns the directory by which driver and supervisor talk, where ``directory`` is the run directory."""
        return self.channel or directory

    @property
    def is_counted(self) -> bool:
        """Returns whether its executors are counted: it holds some elsewhere, and its bootstrap can be asked."""
        return self.reports and self.executors_outlive_s > 0

    @property
    def waits_for_assignment(self) -> bool:
        """Returns whether this is the launch of a prepared driver that no attempt was handed to."""
        return bool(self.prepared) and self.assignment.attempt == NO_ATTEMPT

    @property
    def is_held(self) -> bool:
        """Returns whether its application waits at the start barrier until its checkpoint was examined."""
        return GATE in self.env


def with_remembered(launch: Launch, remembered: CheckpointExpectation | None) -> Launch:
    """Returns the launch with what its start has to find in the checkpoint. The driver hears of it what it has to heed."""
    env = {name: value for name, value in launch.env.items() if name != UNNAMED}
    if remembered is not None and remembered.unnamed:
        env[UNNAMED] = " ".join(remembered.unnamed)
    return replace(launch, remembered=remembered, env=env)
