"""Views of a few jobs on a few hosts, from a seed: whatever a cluster can legitimately look like, in any mixture."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from supervisor.model.claimed_location import ClaimedLocation
from supervisor.model.records import (
    BlobRef,
    Cause,
    Cordon,
    Desired,
    JobRef,
    JudgedUpdate,
    Member,
    MoveRequest,
    OwnState,
    Phase,
    PlacementPolicy,
    Preparation,
    PreparedDriver,
    PrepareLevel,
    RollbackRule,
    SpecRevision,
    StandbyPolicy,
    StandbyWhere,
    Update,
    UpdateMode,
    UpdatePolicy,
)
from supervisor.model.restart import RestartPolicy, Strategy
from supervisor.model.seen import Found, Unreadable
from supervisor.model.update_savepoint import savepoint_id
from supervisor.model.view import Row, SeenLease, SeenPreparation, UpdateRestored, UpdateSaved, View
from supervisor.records.layout import Layout
from tests.unit.plan.rows import HOST, NOW_S, job, lease, own, updated

LAYOUT = Layout("/c")
SESSION = PrepareLevel.SESSION
LONG_S = 10.0**4


def world(seed: int, *, starting: tuple[int, ...] = (1, 2), drivers: tuple[int, ...] = (0, 1, 2, 10)) -> View:
    """``starting`` and ``drivers``: what hosts may have of slots and of places."""
    rnd = random.Random(seed)
    hosts = {}
    for number in range(rnd.choice([0, 1, 2, 3])):
        hosts[f"s{number}"] = _host(rnd, number, starting, drivers)
    rows = {f"j{number}": _row(rnd, number, hosts) for number in range(rnd.choice([1, 2, 4]))}
    preparations = []
    for row in rows.values():
        if hosts and rnd.random() < 0.5 and isinstance(row.ref, Found):
            host = rnd.choice(list(hosts))
            preparations.append(_preparation(rnd, host, row.ref.record))
            if rnd.random() < 0.7:
                hosts[host] = _keeping(rnd, hosts[host], row.ref.record)
    return View(
        rows=rows,
        members=hosts,
        epoch=4,
        preparations=tuple(preparations),
        cordons={host: _cordon(rnd, host) for host in hosts if rnd.random() < 0.4},
        prepare_hosts=frozenset(hosts),
        recorded=rnd.random() < 0.9,
    )


def _host(rnd: random.Random, number: int, starting: tuple[int, ...], drivers: tuple[int, ...]) -> Member:
    return replace(
        HOST,
        id=f"s{number}",
        host=f"h{number}",
        drivers=rnd.choice(drivers),
        starting=rnd.choice(starting),
        memory=rnd.choice([50, 1000, 5000]),
        prepares=rnd.choice([0, 1]),
        labels=rnd.choice([(), ("zone=a",), ("zone=b",)]),
        distrust=rnd.choice([None] * 5 + ["older"]),
    )


def _keeping(rnd: random.Random, host: Member, job: JobRef) -> Member:
    driver = PreparedDriver(
        uid=job.uid,
        revision=job.revision,
        level=SESSION,
        sha256=job.spec.sha256,
        ready=rnd.random() < 0.7,
        why=rnd.choice(["", "boom"]),
        waits=rnd.random() < 0.3,
    )
    return replace(host, prepared=(*host.prepared, driver))


def _preparation(rnd: random.Random, host: str, job: JobRef) -> SeenPreparation:
    record = Preparation(
        name=job.name,
        uid=job.uid,
        revision=job.revision,
        spec=job.spec,
        level=SESSION,
        memory=rnd.choice([job.terms.memory, 7]),
        why="w",
        at="t",
    )
    path = LAYOUT.preparation(host, job.uid, job.revision)
    seen_at_s, due_from_at_s = sorted(NOW_S - rnd.choice([0.0, 70.0, LONG_S]) for _ in range(2))
    return SeenPreparation(host, path, Found(record, 0, 1), seen_at_s, due_from_at_s)


def _cordon(rnd: random.Random, host: str) -> Found[Cordon] | Unreadable:
    if rnd.random() < 0.2:
        return Unreadable("bad", 1, 1)
    drain, parallel = rnd.choice(["", f"d-{host}"]), rnd.choice([0, 1, 5])
    record = Cordon(
        supervisor=host,
        cordoned=rnd.random() < 0.8,
        by="me",
        at="t",
        why="",
        op="o",
        drain=drain,
        max_parallel=parallel,
    )
    return Found(record, 1)


def _terms(rnd: random.Random, name: str) -> dict[str, Any]:
    standby = StandbyPolicy(level=SESSION, where=rnd.choice(list(StandbyWhere)), refresh_s=3600.0)
    return {
        "prepare": rnd.choice([None, SESSION, PrepareLevel.APPLICATION]),
        "standby": rnd.choice([None, None, standby]),
        "checkpoint": rnd.choice([None, f"s3a://bucket/{name}"]),
        "memory": rnd.choice([1, 100, 600]),
        "priority": rnd.choice([0, 5, -5]),
        "restart": RestartPolicy(
            jitter=0.0,
            strategy=rnd.choice(list(Strategy)),
            attempts=rnd.choice([None, 0, 1, 3]),
            initial_s=rnd.choice([0.0, 1.0, 60.0]),
            memory_step=rnd.choice([None, 1.5]),
            memory_max=rnd.choice([None, 10**9]),
        ),
        "driver_memory": rnd.choice([0, 10**8]),
        "unbounded": rnd.random() < 0.8,
        "placement": rnd.choice(
            [
                None,
                PlacementPolicy(require=rnd.choice([(), ("zone=a",)]), spread="zone", group="g"),
            ]
        ),
    }


def _update(rnd: random.Random, uid: str, update: Update) -> Update:
    policy = UpdatePolicy(
        mode=rnd.choice(list(UpdateMode)),
        rollback=rnd.choice(list(RollbackRule)),
        failures=rnd.choice([0, 1, 3]),
    )
    return replace(
        update,
        policy=rnd.choice([None, policy]),
        done=rnd.random() < 0.2,
        given_up=rnd.choice(["", "", "", "why"]),
        rolled_back=rnd.choice(["", "", "", "boom"]),
        savepoint=rnd.choice(["", "", savepoint_id(uid, 2, 7, 3), savepoint_id(uid, 1, 7, 3)]),
        rolls_back=rnd.random() < 0.1,
    )


def _ref(rnd: random.Random, name: str, uid: str, hosts: Mapping[str, Member]) -> JobRef:
    nonce = rnd.choice(["n1", "n2"])
    desired = rnd.choice([Desired.RUNNING] * 4 + [Desired.SUSPENDED])
    parts = {"restart_nonce": nonce, "cold_restart": rnd.choice(["", nonce]), **_terms(rnd, name)}
    if rnd.random() < 0.6:
        record = updated(name=name, uid=uid, desired=desired, **parts).record
        assert record.update is not None
        update = _update(rnd, uid, record.update)
        record = replace(record, update=update)
        if update.given_up:
            record = replace(record, revision=1, update=replace(update, rolled_back=""))
        elif update.rolled_back:
            record = replace(record, revision=3, last_revision=3)
    else:
        record = job(name, uid, desired, **parts).record
    if rnd.random() < 0.3:
        move = MoveRequest(to=rnd.choice([*hosts, "gone"]), nonce=nonce, before="n0")
        record = replace(record, move=move)
    return record


def _row(rnd: random.Random, number: int, hosts: Mapping[str, Member]) -> Row:
    name, uid = f"j{number}", f"u{number}"
    ref = Found(_ref(rnd, name, uid, hosts), 3)
    state = rnd.choice([*OwnState, *[OwnState.CLAIMED] * len(OwnState)])
    ended = state is OwnState.EXITED
    judged = JudgedUpdate(
        target=2,
        failures=rnd.choice([0, 1]),
        queries=("q 6",),
        raised=rnd.choice([0, 1]),
        driver_memory=rnd.choice([0, 10**8]),
    )
    owned = own(
        state,
        uid=rnd.choice([*[uid] * 6, "u-old", ""]),
        newest_uid=uid,
        supervisor=rnd.choice([*hosts, "gone", ""]),
        revision=rnd.choice([1, 2, 3]),
        restart_nonce=rnd.choice(["n1", "n2"]),
        cause=rnd.choice([None, *Cause]) if ended else None,
        permanent=ended and rnd.random() < 0.2,
        failures=rnd.choice([0, 1, 4]),
        charged=rnd.choice([0, 1, 4]),
        raised=rnd.choice([0, 1]),
        driver_memory=rnd.choice([0, 10**8, 2 * 10**8]),
        moved_by=rnd.choice(["", "d-s1"]),
        memory=rnd.choice([1, 100, 600]),
        judged=rnd.choice([None, judged]),
        ran_s=rnd.choice([0.0, 5.0, 10.0**5]),
    )
    return Row(
        name=name,
        ref=ref,
        own=owned,
        lease=_lease(rnd, name, uid),
        own_seen_at_s=rnd.choice([NOW_S, NOW_S - 61, NOW_S - LONG_S]),
        left_behind=rnd.choice([None, "", "batch 7"]),
        saved=_saved(rnd, uid),
        restored=_restored(name, ref.record) if rnd.random() < 0.3 else None,
    )


def _lease(rnd: random.Random, name: str, uid: str) -> SeenLease | None:
    silent_s, phase = rnd.choice([0.0, 0.0, 0.0, 10.0, 100.0, LONG_S]), rnd.choice(list(Phase))
    seen = replace(
        lease(silent_s, phase, uid, name=name), running_at_s=rnd.choice([None, NOW_S - 700, NOW_S])
    )
    return rnd.choice([None, seen, seen, seen])


def _saved(rnd: random.Random, uid: str) -> UpdateSaved | None:
    return rnd.choice(
        [
            None,
            UpdateSaved(NOW_S),
            UpdateSaved(NOW_S - 100, nothing=True),
            UpdateSaved(NOW_S, savepoint=savepoint_id(uid, 2, 7, 3)),
        ]
    )


def _restored(name: str, job: JobRef) -> UpdateRestored | None:
    if not job.terms.checkpoint:
        return None
    terms = replace(job.terms, checkpoint=f"s3a://bucket/{name}.from-x-12345678")
    revision = SpecRevision(
        revision=job.next_revision, spec=BlobRef(key="k9", sha256="9", bytes=1), terms=terms
    )
    claimed = ClaimedLocation("/c/checkpoints/x", "s3://bucket/x", None, 3)
    return UpdateRestored(revision=revision, claimed=claimed, lease=None, left=None)
