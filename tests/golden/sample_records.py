"""One object of every record, with every field set to something that is not its default. The golden files are these."""

from __future__ import annotations

from typing import Any

from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.records import (
    Acceptance,
    Assignment,
    BlobRef,
    Cause,
    CheckpointClaim,
    CheckpointState,
    Cleanliness,
    Cluster,
    Delay,
    Desired,
    Driver,
    Entry,
    EpochRecord,
    Handover,
    JobRef,
    LeaderHint,
    Lease,
    Member,
    Outcome,
    Ownership,
    OwnState,
    Pause,
    PendingDeletion,
    Phase,
    Progress,
    QueryProgress,
    QueryState,
    Result,
    SchedulingSpec,
    StartTimes,
    StopMode,
)
from supervisor.model.restart import OnExhausted, RestartPolicy, Strategy
from supervisor.model.savepoint_policy import SavepointPolicy

UID = "01j9z3k7m2qx-5f4dcc3b"
AT = "2026-11-21T00:46:50.123Z"
SPEC = BlobRef(key=f"specs/clicks/{UID}/1-{'ab' * 32}.json", sha256="ab" * 32, bytes=1234)
RESTART = RestartPolicy(
    strategy=Strategy.FAILURE_RATE,
    initial_s=2.0,
    max_s=60.0,
    jitter=0.1,
    reset_after_s=300.0,
    attempts=3,
    on_exhausted=OnExhausted.SUSPEND,
    memory_step=1.5,
    memory_max=8 << 30,
)
TERMS = SchedulingSpec(
    memory=1 << 30,
    priority=5,
    unbounded=False,
    lease_s=20.0,
    stop_grace_s=15.0,
    start_timeout_s=120.0,
    checkpoint="s3a://bucket/checkpoints/clicks",
    restart=RESTART,
    driver_memory=700 << 20,
    delete_checkpoint=True,
    savepoints=SavepointPolicy(every_s=21_600.0, keep=8, max_age_s=2_592_000.0),
)
HISTORY = (
    Entry(at=AT, event="assigned", attempt=2, detail="to host-a"),
    Entry(at="2026-11-21T00:47:10.456Z", event="exited", attempt=2, detail='user error: "größer"'),
)

EARLIER = (
    "eNoVilEKgCAQBa8S+71Bm4l1FpFA3cAiIjOQTt/6PubjzVgYaF8+dZhzvGuvtymGoDygJbNoUuM8tCEJHFp4Xn+mUjgCwvtwXjnnK4MoaVogP9dUunBF7kwT"
    "zv26ox1i"
)
"""A submit, and a failure with exit code 7, as ``model.history`` packed them once."""

REMEMBERED = CheckpointExpectation(
    "0123456789abcdef",
    ("ff7b2486-db9c-40b5-91ab-94bbc3f36e3d 41",),
    "op0",
    ("fedcba9876543210 ff7b2486-db9c-40b5-91ab-94bbc3f36e3d 7",),
)

SAMPLES: tuple[Any, ...] = (
    JobRef(
        name="clicks",
        uid=UID,
        revision=2,
        spec=SPEC,
        desired=Desired.SUSPENDED,
        restart_nonce="r1",
        terms=TERMS,
        submitted_at=AT,
        changed=Entry(AT, "suspended", 2, "by the user"),
        op="op1",
        fresh_start="op0",
        begins_with=("ff7b2486-db9c-40b5-91ab-94bbc3f36e3d 12",),
        left_by="clicks-old",
    ),
    Ownership(
        state=OwnState.EXITED,
        op="op2",
        newest_uid=UID,
        uid=UID,
        attempt=2,
        claim="c0ffee",
        revision=2,
        supervisor="host-a",
        host="host-a.example",
        memory=1 << 30,
        driver_memory=1536 << 20,
        raised=2,
        claims=2,
        cause=Cause.USER_ERROR,
        reason="exit code 7",
        permanent=True,
        exit_code=7,
        stop_mode=StopMode.SIGTERM,
        ran_s=12.5,
        failures=2,
        charged=1,
        recent_s=(3.25, 0.0),
        remembered=REMEMBERED,
        job_version=4,
        restart_nonce="r1",
        history=HISTORY,
        earlier=EARLIER,
    ),
    Lease(
        name="clicks",
        uid=UID,
        attempt=2,
        claim="c0ffee",
        lease_s=20.0,
        stop_grace_s=15.0,
        phase=Phase.RUNNING,
        driver=Driver(host="host-a.example", shim_pid=100, pid=101, started_at=AT),
        since=AT,
        progress=Progress(
            query="counts",
            batch_id=41,
            input_rows_per_s=10.5,
            processed_rows_per_s=20.25,
            batch_ms=300.0,
            at=AT,
            lag=7.0,
        ),
        renewals=12,
        remembered=REMEMBERED,
        not_fenced="Spark is 4.0.1, and the fence needs 4.1 or newer",
        queries=(
            QueryProgress(
                query="counts",
                id="3f6d0d0e-8a52-4f0e-9a55-0d4e35f3a9b1",
                state=QueryState.FAILED,
                batch_id=41,
                input_rows_per_s=10.5,
                processed_rows_per_s=20.25,
                batch_ms=300.0,
                lag=7.0,
                at=AT,
                error="ValueError: größer",
                elsewhere="file:/tmp/temporary-1",
            ),
        ),
        more_queries=3,
        ran_s=61.25,
        start=StartTimes(spawn_s=0.75, session_s=4.5, first_batch_s=3.25),
        silence_s=0.5,
    ),
    Assignment(
        name="clicks",
        uid=UID,
        attempt=2,
        revision=2,
        job_version=3,
        own_version=9,
        spec=SPEC,
        memory=1 << 30,
        driver_memory=1536 << 20,
    ),
    Result(
        name="clicks",
        uid=UID,
        outcome=Outcome.FAILED,
        state=Cleanliness.CLEAN,
        revision=2,
        spec=SPEC,
        terms=TERMS,
        attempt=2,
        claims=2,
        reason="restart budget is spent",
        at=AT,
        submitted_at=AT,
        op="op3",
        restart_nonce="r1",
        failures=2,
        checkpoint_state=CheckpointState.DELETED,
        wrote="0f1e2d3c4b5a6978",
        history=HISTORY,
        earlier=EARLIER,
    ),
    CheckpointClaim(
        location="s3://bucket/checkpoints/clicks",
        name="clicks (its checkpoint is being deleted)",
        uid=UID,
        doom=PendingDeletion(name="clicks", uid=UID, at=AT, spec=SPEC, epoch=9),
    ),
    EpochRecord(epoch=7, supervisor="host-a", op="op4"),
    LeaderHint(
        supervisor="host-a", epoch=7, address="host-a.example:8780", distrust="ZooKeeper was restored"
    ),
    Member(
        id="host-a",
        host="host-a.example",
        boot_id="b7d0",
        address="host-a.example:8780",
        memory=16 << 30,
        drivers=20,
        starting=2,
        software="0.1.0",
        since=AT,
        distrust="ZooKeeper was restored",
        log_dir="/var/log/spark-supervisor",
        delays=(
            Delay(
                UID, 3, "the checkpoint s3://bucket/checkpoints/clicks cannot be looked at: no answer in time"
            ),
        ),
    ),
    Acceptance(id="a1", epoch=9, by="root@host-a", at=AT, wait_s=32.06, waited=True),
    Pause(by="ops@host-a", at=AT, reason="moving the brokers", op="op5"),
    Handover(epoch=7, leader="host-a", to="host-b", by="ops@host-a", at=AT, op="op6"),
    Cluster(id="c1", name="prod", store="s3://bucket/prefix"),
)
