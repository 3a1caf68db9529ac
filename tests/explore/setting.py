"""The setting of every exploration: the units of time, the layout, the jobs, and what is abstracted from.

Time goes in ticks. With a lease D of 6 s and a tick of 2.0625 s (exact in binary) the numbers of protocol §7 fall so:
a renewal is due at every tick; a shim that could not renew kills at 2 ticks after the send of its last renewal
(D − K − 2p = 3 s), twin and guardian act at 2 ticks as well (3.5 s), a tree is dead at 3 (D = 6 s), and the full wait
W = 8.012 s is over at 4. Of the constants of production two are changed: the longest lease there can be is that of these
jobs, and a shim's patience with its claim is 6 ticks.

Abstracted from, so that states that differ in nothing but their past are one: the wall clock, histories, reasons and
other fields that are only displayed (``shown_only``), and ids of multis where nothing reads them back.

Where leaders sweep (``Scenario.sweeps``) a submit may take a tick from its put to the building of its multi, which then arrives
while its session lives, a tick later at the latest; the grace time of the sweeper is 3 ticks, the next one that is longer than
both (in production 10 minutes, a session's seconds, an hour). A sweep may begin at any time, and not only every 10 minutes.
Of a name one result is kept, not five. A job's one blob is its spec, put at once and durable at once: artifacts are put before it, kept and
swept by the same uid, and nothing looks at more of them. The store answers, always.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import structlog

from supervisor.coord import election, trust
from supervisor.daemon.leader import controller, remover, sweeper
from supervisor.model.lease_terms import full_wait_s
from supervisor.model.records import (
    BlobRef,
    Desired,
    Driver,
    EpochRecord,
    HistoryEntry,
    JobRef,
    LeaderHint,
    Lease,
    Member,
    Ownership,
    PlacementPolicy,
    Result,
    SchedulingSpec,
)
from supervisor.model.restart import OnExhausted, RestartPolicy, Strategy
from supervisor.model.second_killer import SecondKiller
from supervisor.operations import accept_registry, jobs, promoting, submit
from supervisor.operations import cluster as cluster_operations
from supervisor.operations import hosts as host_operations
from supervisor.operations.submit import Prepared
from supervisor.plan import decide
from supervisor.plan.make import Policy
from supervisor.records import codec, reading
from supervisor.records.layout import Layout
from supervisor.registry import (
    attempt_writes,
    blob_sweep,
    leader_write_context,
    leader_writes,
    location_ops,
    operator_writes,
    promotion_writes,
    record_sweep,
    reference_room,
    revisions,
    update_savepoint_writes,
    user_writes,
)
from supervisor.registry.blobs import spec_key
from supervisor.shim import claim, turn

TICK_S = 2.0625
LEASE_S = 6.0
GRACE_S = 2.0
EXECUTORS_S = 3 * TICK_S
SESSION_TICKS = 2
SESSION_S = SESSION_TICKS * TICK_S
CLAIM_TIMEOUT_S = 2 * TICK_S
NEVER_S = 1e8
SUBMIT_MAX_S = TICK_S
SWEEP_GRACE_S = 3 * TICK_S
RESULTS_KEPT = 1

LAYOUT = Layout("/c")
PATHS = LAYOUT
POLICY = Policy(claim_timeout_s=CLAIM_TIMEOUT_S)
TERMS = SchedulingSpec(
    memory=100,
    priority=0,
    unbounded=True,
    lease_s=LEASE_S,
    stop_grace_s=GRACE_S,
    start_timeout_s=NEVER_S,
    checkpoint=None,
    restart=RestartPolicy(
        strategy=Strategy.FIXED, initial_s=1.0, max_s=1.0, jitter=0.0, reset_after_s=60.0, attempts=None
    ),
)
NO_KILLER = SecondKiller()


def now_s(tick: int) -> float:
    """BOOTTIME of every host at this tick: one clock, for the clock-rate error is within W's margin."""
    return tick * TICK_S


JOBS: dict[str, SchedulingSpec] = {
    "once": replace(TERMS, unbounded=False),
    "brittle": replace(TERMS, restart=replace(TERMS.restart, attempts=1)),
    "weary": replace(TERMS, restart=replace(TERMS.restart, attempts=0, on_exhausted=OnExhausted.SUSPEND)),
    "slow": replace(TERMS, stop_grace_s=10.0),
    "wipe": replace(TERMS, delete_checkpoint=True),
    "second": replace(TERMS, placement=PlacementPolicy(require=("host=s2",))),
}
"""By how its name begins: ``once`` is bounded, ``brittle`` may fail once only, ``weary`` is suspended when it fails, ``slow``
may take longer to stop than the full wait, of ``wipe`` the checkpoint is deleted when it is cancelled, ``second`` may run on s2 only. All others run for ever. (``idle`` is suspended from its submit on: ``desired_of``.)"""


PLACES = {
    "wipe": "s3://bucket/shared/wipe",
    "near": "s3://bucket/shared/near",
    "u2-wipe": "s3://bucket/shared/wipe/inner",
    "u3-wipe": "s3://bucket/shared",
    "u1-inner": "s3://bucket/shared/wipe/inner",
    "wipe-local": "file:///data/wipe-local",
    "idle-wide": "s3://bucket/shared",
    "idle-deep": "s3://bucket/shared/deeper",
    "u2-near": "s3://bucket/shared",
    "within": "s3://bucket/a.from/within",
}
"""Checkpoints that are not the ordinary one of the name: of a uid, or of all uids of a name. Some lie inside others."""


def location_of(uid: str) -> str:
    """Of the checkpoint that a uid was submitted with."""
    name = uid.partition("-")[2]
    return PLACES.get(uid) or PLACES.get(name) or f"s3://bucket/{name}"


def terms_of(name: str, uid: str = "") -> SchedulingSpec:
    """Of a job, as it is submitted with ``uid``."""
    terms = next((terms for kind, terms in JOBS.items() if name.startswith(kind)), TERMS)
    return replace(terms, checkpoint=location_of(uid or f"-{name}"))


def executors_outlive_s(name: str) -> float:
    """Of a job whose name begins with ``far`` the executors are on a cluster."""
    return EXECUTORS_S if name.startswith("far") else 0.0


def desired_of(name: str) -> Desired:
    return Desired.SUSPENDED if name.startswith("idle") else Desired.RUNNING


def spec_bytes(name: str, revision: int) -> bytes:
    """Stands for the canonical JSON."""
    return f"{name} {revision}".encode()


@cache
def spec(name: str, uid: str, revision: int = 1) -> BlobRef:
    """As ``Blobs.put_spec`` returns it."""
    data = spec_bytes(name, revision)
    sha256 = hashlib.sha256(data).hexdigest()
    return BlobRef(key=spec_key(name, uid, revision, sha256), sha256=sha256, bytes=len(data))


class PlainSpec(NamedTuple):
    """As much of a ``JobSpec`` as is asked of it when it is stored."""

    name: str

    def scheduling(self) -> SchedulingSpec:
        return terms_of(self.name)


def prepared(name: str) -> Any:
    """``submitting.Prepared``: without files."""
    plain: Any = PlainSpec(name)
    return Prepared(Path(name), plain, spec(name, "").sha256, (), ())


def member(name: str) -> Member:
    return Member(
        id=name,
        host=f"host of {name}",
        boot_id="boot",
        address="",
        memory=10_000,
        drivers=10,
        starting=10,
        software="",
        since="",
        labels=(f"host={name}",),
    )


def shown_only(record: Any) -> Any:
    """The record without what no decision reads."""
    match record:
        case Ownership():
            return replace(record, op="", reason="", ran_s=0.0, history=(), earlier="")
        case Lease():
            plain = Driver(host=record.driver.host, shim_pid=0)
            return replace(
                record,
                renewals=0,
                ran_s=0.0,
                since="",
                start=None,
                silence_s=None,
                driver=plain,
                progress=None,
            )
        case Result():
            return replace(record, reason="", history=(), earlier="", quarantined=())
        case JobRef():
            return replace(record, changed=HistoryEntry(at="", event=""), quarantined=())
        case LeaderHint():
            return replace(record, address="", distrust=None if record.distrust is None else "why")
    return record


_FIELDS: dict[type, tuple[str, ...]] = {}
_ENCODED: dict[tuple[Any, ...], bytes] = {}
_DECODED: dict[tuple[type, bytes], Any] = {}
_encode, _decode = codec.encode, codec.decode


def encode(record: Any, max_bytes: int = codec.MAX_RECORD_BYTES) -> bytes:
    """``codec.encode`` of what matters, remembered."""
    kind = type(record)
    names = _FIELDS.get(kind)
    if names is None:
        names = _FIELDS[kind] = tuple(f.name for f in fields(kind) if f.name != "extra")
    plain = shown_only(record)
    if plain.extra:
        return _encode(plain, max_bytes)
    key = (kind, *(getattr(plain, name) for name in names))
    data = _ENCODED.get(key)
    if data is None:
        data = _ENCODED[key] = _encode(plain, max_bytes)
    return data


def decode(cls: type[Any], data: bytes, path: str) -> Any:
    """``codec.decode``, remembered. Failures are not: their message names the path."""
    found = _DECODED.get((cls, data))
    if found is None:
        found = _DECODED[cls, data] = _decode(cls, data, path)
    return found


class Remembering:
    """Whether /epoch remembers the latest terms: only where registries are replaced (``Scenario.replaceable``)."""

    kept = False


def encode_term(record: Any) -> bytes:
    """``codec.encode`` of what an election writes."""
    if Remembering.kept or not isinstance(record, EpochRecord):
        return encode(record)
    return encode(EpochRecord(epoch=record.epoch, supervisor=record.supervisor, op=record.op))


class Ids:
    """Stands for ``new_op_id`` of commands: the same ids whenever the same command is replayed."""

    prefix = ""
    count = 0

    @classmethod
    def begin(cls, prefix: str) -> None:
        cls.prefix, cls.count = prefix, 0

    @classmethod
    def new(cls) -> str:
        cls.count += 1
        return f"{cls.prefix}.{cls.count}"


class Hour:
    """Stands for BOOTTIME where commands ask it: as the one that is replayed read it."""

    read: Callable[[], float] = staticmethod(lambda: 0.0)


ENCODING = (
    attempt_writes,
    leader_write_context,
    leader_writes,
    location_ops,
    operator_writes,
    promotion_writes,
    reference_room,
    revisions,
    update_savepoint_writes,
    user_writes,
)
"""Modules whose records are written without what is for display only, or the same state would be explored again and again."""


@contextmanager
def abstracted() -> Iterator[None]:
    """Within it production code runs as explored: no wall clock, no random ids, records without display."""
    with ExitStack() as stack:

        def put(module: Any, **changes: Any) -> None:
            for name, value in changes.items():
                stack.enter_context(mock.patch.object(module, name, value))

        for module in ENCODING:
            put(module, encode=encode)
        for module in (attempt_writes, leader_writes, user_writes):
            put(module, with_entry=lambda history, *_, **__: ())
        put(reading, decode=decode)
        for module in (accept_registry, jobs, cluster_operations, host_operations):
            put(module, new_op_id=Ids.new, wall_iso=lambda: "")
        put(promoting, new_op_id=Ids.new)
        for module in (jobs, submit):
            put(module, boottime_s=lambda: Hour.read())
        put(submit, canonical_json=lambda plain: spec_bytes(plain.name, 1))
        put(record_sweep, RESULTS_PER_NAME=RESULTS_KEPT)
        for module in (jobs, blob_sweep):
            put(module, SUBMIT_MAX_S=SUBMIT_MAX_S)
        put(election, encode=encode_term, decode=decode)
        put(trust, decode=decode)
        put(accept_registry, EpochMarks=lambda store: store)
        for module in (controller, remover, sweeper):
            put(module, log=structlog.wrap_logger(structlog.ReturnLogger(), processors=[_silent]))
        # the longest lease there can be: no job of this world has a longer one
        put(decide, LEASE_MAX_S=LEASE_S, LONGEST_WAIT_S=full_wait_s(LEASE_S), LEFT_BEHIND_MAX_S=2 * TICK_S)
        put(turn, wall_iso=lambda _: "")
        put(claim, CLAIM_PATIENCE_S=6 * TICK_S)
        put(election, _next_term=_next_term)
        yield


def _silent(*_: Any) -> Any:
    raise structlog.DropEvent


_real_next_term = election._next_term


def _next_term(seen: Any, epoch: int, author: Any) -> Any:
    if Remembering.kept:
        return _real_next_term(seen, epoch, author)
    return replace(seen, epoch=epoch, supervisor=author.supervisor, op=author.op)
