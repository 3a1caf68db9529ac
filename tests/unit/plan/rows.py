"""Rows and views for tests of the plan, written down in one line each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from supervisor.model.lease_terms import full_wait_s
from supervisor.model.records import (
    BlobRef,
    Cause,
    Cleanliness,
    Desired,
    Driver,
    HistoryEntry,
    JobRef,
    Lease,
    Member,
    Outcome,
    Ownership,
    OwnState,
    Phase,
    Result,
    SchedulingSpec,
    SpecRevision,
    Update,
)
from supervisor.model.restart import RestartPolicy
from supervisor.model.seen import Found
from supervisor.model.view import Leftover, Row, SeenLease, View

NOW_S = 10_000.0
LEASE_S = 30.0
WAIT_S = full_wait_s(LEASE_S) + 0.001  # what NOW_S - (NOW_S - w) rounds away
HOST = Member(
    id="s1",
    host="host1",
    boot_id="boot",
    address="",
    memory=1000,
    drivers=10,
    starting=2,
    software="",
    since="",
)


def job(
    name: str = "j", uid: str = "u1", desired: Desired = Desired.RUNNING, **changes: Any
) -> Found[JobRef]:
    terms = SchedulingSpec(
        memory=100,
        priority=0,
        unbounded=True,
        lease_s=LEASE_S,
        stop_grace_s=20.0,
        start_timeout_s=60.0,
        checkpoint=None,
        restart=RestartPolicy(jitter=0.0),
    )
    terms = replace(terms, **{key: changes.pop(key) for key in list(changes) if hasattr(terms, key)})
    record = JobRef(
        name=name,
        uid=uid,
        revision=1,
        spec=BlobRef(key="k", sha256="0", bytes=1),
        desired=desired,
        restart_nonce="n1",
        terms=terms,
        submitted_at="t",
        changed=HistoryEntry(at="t", event="submitted"),
        op="op",
    )
    version = changes.pop("version", 3)
    return Found(replace(record, **changes), version)


def updated(target: int = 2, **changes: Any) -> Found[JobRef]:
    """The job of ``job``, of which another spec was applied as revision ``target``."""
    found = job(**changes)
    before = SpecRevision(revision=1, spec=found.record.spec, terms=found.record.terms)
    update = Update(target=target, sha256="1", before=before, by="somebody@host", at="t")
    spec = BlobRef(key="k2", sha256="1", bytes=1)
    record = replace(found.record, revision=target, spec=spec, update=update, last_revision=target)
    return Found(record, found.version + 1)


def own(state: OwnState, uid: str = "u1", **changes: Any) -> Found[Ownership]:
    record = Ownership(
        state=state,
        op="op",
        newest_uid=uid,
        uid=uid,
        attempt=2,
        claim="c",
        revision=1,
        supervisor="s1",
        host="host1",
        memory=100,
        claims=2,
        restart_nonce="n1",
        job_version=3,
    )
    return Found(replace(record, **changes), 7, 70)


def lease(silent_s: float = 0.0, phase: Phase = Phase.RUNNING, uid: str = "u1", **changes: Any) -> SeenLease:
    record = Lease(
        name="j",
        uid=uid,
        attempt=2,
        claim="c",
        lease_s=LEASE_S,
        stop_grace_s=20.0,
        phase=phase,
        driver=Driver(host="host1", shim_pid=1),
        since="t",
    )
    return SeenLease(Found(replace(record, **changes), 5, 50), NOW_S - silent_s, NOW_S)


def leftover(uid: str = "u1", outcome: Outcome = Outcome.CANCELLED) -> Leftover:
    result = Result(
        name="j",
        uid=uid,
        outcome=outcome,
        state=Cleanliness.DIRTY,
        revision=1,
        spec=None,
        terms=None,
        attempt=2,
        claims=2,
        reason="why",
        at="t",
        submitted_at="t",
        op="op",
    )
    return Leftover(Found(result, 0))


def row(**parts: Any) -> Row:
    return Row(**{"name": "j", "own_seen_at_s": NOW_S, **parts})


def view(*rows: Row, **parts: Any) -> View:
    return View(**{"rows": {r.name: r for r in rows}, "members": {"s1": HOST}, "epoch": 4, **parts})


def exited(cause: Cause = Cause.USER_ERROR, **changes: Any) -> Found[Ownership]:
    return own(OwnState.EXITED, cause=cause, reason=f"ended: {cause.value}", ran_s=5.0, **changes)
