"""A registry in memory for tests of what a user touches: a founded root, commands on sessions that can fail, records.

``Bench`` has one ensemble; every ``commands()`` is another process with a session of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from supervisor.clients.sessions import KeptSession
from supervisor.model.records import (
    BlobRef,
    Cause,
    Cleanliness,
    Driver,
    JobRef,
    Lease,
    Member,
    Outcome,
    Ownership,
    OwnState,
    Phase,
    Progress,
    Result,
    SchedulingSpec,
    with_entry,
)
from supervisor.model.restart import RestartPolicy
from supervisor.model.seen import Found, Seen
from supervisor.model.transaction import Create, Delete, Transaction
from supervisor.operations.jobs import Done, JobOperations, Submission
from supervisor.records.codec import encode
from supervisor.records.ids import new_uid
from supervisor.records.layout import LAYOUT_VERSION, Layout
from supervisor.records.reading import seen
from tests.fakes.zookeeper import MemoryClient, MemoryZoo

ROOT = "/bench"
AT = "2026-11-21T00:46:50.000Z"
SHA = "ab" * 32


def terms(checkpoint: str | None = None, **changes: Any) -> SchedulingSpec:
    """``changes``: fields of SchedulingSpec."""
    plain = SchedulingSpec(
        memory=1 << 30,
        priority=0,
        unbounded=True,
        lease_s=30.0,
        stop_grace_s=30.0,
        start_timeout_s=300.0,
        checkpoint=checkpoint,
        restart=RestartPolicy(jitter=0.0),
    )
    return replace(plain, **changes)


def submission(
    name: str, sha256: str = SHA, checkpoint: str | None = None, uid: str = "", **more: Any
) -> Submission:
    uid = uid or new_uid(name)
    return Submission(
        name,
        uid,
        BlobRef(key=f"specs/{name}/{uid}/1-{sha256}.json", sha256=sha256, bytes=10),
        terms(checkpoint),
        **more,
    )


@dataclass
class Bench:
    """``bootstrapped``: ``layout`` is there, without a cluster's identity. ``clients``: all that a session made, oldest first."""

    zoo: MemoryZoo = field(default_factory=MemoryZoo)
    layout: Layout = Layout(ROOT)
    clients: list[MemoryClient] = field(default_factory=list)
    bootstrapped: bool = True

    def __post_init__(self) -> None:
        if not self.bootstrapped:
            return
        self.zoo.put(ROOT, b"")
        bootstrapped = {self.layout.version: str(LAYOUT_VERSION).encode(), self.layout.doorbell: b""}
        bootstrapped |= dict.fromkeys(self.layout.persistent_parents(), b"")
        self.zoo.client().commit(
            Transaction("found", "f", tuple(Create(*each) for each in bootstrapped.items()))
        )
        self.zoo.log.clear()

    def sessions(self) -> KeptSession[MemoryClient]:
        def make() -> MemoryClient:
            self.clients.append(MemoryClient(self.zoo))
            return self.clients[-1]

        return KeptSession(
            make,
            lambda old: self.zoo.close_session(old.id, old.password),
            connect_s=0.1,
            resolve_s=0.2,
        )

    def commands(self) -> JobOperations:
        return JobOperations(self.sessions(), self.layout)

    def submit(self, name: str, sha256: str = SHA, checkpoint: str | None = None) -> Done:
        return self.commands().submit(submission(name, sha256, checkpoint))

    # -- records, read and written behind everybody's back ---------------------------------------------------------

    def record(self, cls: type[Any], path: str) -> Seen[Any]:
        return seen(cls, self.zoo.client().read(path), path)

    def own(self, name: str) -> Ownership:
        found = self.record(Ownership, self.layout.own(name))
        assert isinstance(found, Found)
        record: Ownership = found.record
        return record

    def result(self, uid: str) -> Result | None:
        found = self.record(Result, self.layout.result(uid))
        return found.record if isinstance(found, Found) else None

    def has(self, path: str) -> bool:
        return path in self.zoo.tree()

    def put(self, path: str, record: Any) -> None:
        self.zoo.put(path, encode(record))

    def set_own(self, name: str, state: OwnState, *, attempt: int = 1, **changes: Any) -> Ownership:
        """As if an attempt of the registered uid had come to ``state``."""
        before = self.own(name)
        changed = replace(
            before,
            state=state,
            uid=changes.pop("uid", before.newest_uid),
            attempt=attempt,
            claim="c1",
            revision=changes.pop("revision", 1),
            supervisor=changes.pop("supervisor", "host-a"),
            host=changes.pop("host", "host-a.example"),
            memory=1 << 30,
            claims=attempt,
            **changes,
        )
        self.put(self.layout.own(name), changed)
        return changed

    def ref(self, name: str) -> Found[JobRef]:
        found = self.record(JobRef, self.layout.job(name))
        assert isinstance(found, Found)
        return found

    def run(
        self, name: str, phase: Phase = Phase.RUNNING, progress: Progress | None = None, **changes: Any
    ) -> None:
        """The registered uid is claimed and renewed. ``changes``: fields of Lease."""
        own = self.set_own(name, OwnState.CLAIMED, restart_nonce=self.ref(name).record.restart_nonce)
        driver = Driver(host="host-a.example", shim_pid=100, pid=101, started_at=AT)
        lease = Lease(
            name=name,
            uid=own.uid,
            attempt=own.attempt,
            claim=own.claim,
            lease_s=30.0,
            stop_grace_s=30.0,
            phase=phase,
            driver=driver,
            since=AT,
            progress=progress,
        )
        self.put(self.layout.lease(name), replace(lease, **changes))

    def exit(self, name: str, cause: Cause = Cause.USER_ERROR, at: str = AT, **changes: Any) -> None:
        """The attempt of the registered uid has exited."""
        self.set_own(
            name,
            OwnState.EXITED,
            cause=cause,
            reason="exit code 7",
            history=with_entry((), at, cause.value, 1, "exit code 7"),
            restart_nonce=self.ref(name).record.restart_nonce,
            **changes,
        )

    def fail(self, name: str) -> str:
        """As a leader concludes a job that failed for good; returns the uid."""
        self.exit(name)
        ref = self.ref(name)
        job = ref.record
        result = Result(
            name=name,
            uid=job.uid,
            outcome=Outcome.FAILED,
            state=Cleanliness.DIRTY,
            revision=job.revision,
            spec=job.spec,
            terms=job.terms,
            attempt=1,
            claims=1,
            reason="budget is spent",
            at=AT,
            submitted_at=AT,
            op="op",
            failures=1,
            fork=job.fork,
            promotion=job.promotion,
        )
        self.zoo.client().commit(
            Transaction(
                "conclude",
                "op",
                (
                    Delete(self.layout.job(name), ref.version),
                    Create(self.layout.result(job.uid), encode(result)),
                ),
            )
        )
        return job.uid

    def join(
        self,
        supervisor: str,
        drivers: int = 20,
        memory: int = 16 << 30,
        sparks: tuple[str, ...] = (),
        host: str = "",
        log_dir: str = "",
        api: str = "",
    ) -> None:
        """Registers a supervisor, by default on a host named after it."""
        member = Member(
            id=supervisor,
            host=host or f"{supervisor}.example",
            boot_id="b",
            address=f"{supervisor}:8780",
            memory=memory,
            drivers=drivers,
            starting=2,
            software="0.1.0",
            since=AT,
            sparks=sparks,
            log_dir=log_dir,
            api=api,
        )
        self.put(self.layout.supervisor(supervisor), member)
