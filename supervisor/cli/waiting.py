"""The waits of ``submit --wait`` and ``cancel --wait``: look again every half second, for a bounded time.

Called by the commands after their write is durable. A ZooKeeper that is away for a moment does not end a wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from supervisor.clock import boottime_s
from supervisor.errors import SupervisorError, TimedOut, Unreachable
from supervisor.model.lease_terms import LEASE_MAX_S, full_wait_s
from supervisor.model.records import DEAD, JobRef, Lease, Ownership, Result
from supervisor.model.seen import Found, Seen
from supervisor.model.state import JobState, Shown, state_of, state_of_ended
from supervisor.observe.sights import Sights
from supervisor.registry.reading import seen
from supervisor.wiring import Office

PERIOD_S = 0.5
GOOD = frozenset({JobState.RUNNING, JobState.FINISHED})
BAD = frozenset({JobState.FAILED, JobState.QUARANTINED, JobState.CANCELLED, JobState.SUSPENDED})

T = TypeVar("T")


def wait_gone(office: Office, name: str, uid: str, timeout_s: float) -> None:
    """Until no attempt of ``uid`` can be alive: its ownership says so, or its lease was silent for the full wait.

    Needs no supervisor: the second way is the one that a leader would go (DESIGN §7.2). Raises TimedOut.
    """
    sights = Sights()

    def is_gone() -> bool:
        return _is_gone(office, name, uid, sights)

    _poll(is_gone, timeout_s, f"{name} is cancelled, but its driver has not stopped yet")


def _is_gone(office: Office, name: str, uid: str, sights: Sights) -> bool:
    path = office.layout.own(name)
    zoo = office.zoo()
    own: Seen[Ownership] = seen(Ownership, zoo.read(path), path)
    if own is None or isinstance(own, Found) and (own.record.uid != uid or own.record.state in DEAD):
        return True
    lease_path = office.layout.lease(name)
    reads = zoo.read_many([lease_path])
    lease: Seen[Lease] = seen(Lease, reads.nodes[0], lease_path)
    sight = sights.lease(name, lease, reads.sent_at_s, reads.received_at_s)
    of_owner = isinstance(own, Found) and isinstance(lease, Found) and lease.record.claim == own.record.claim
    lease_s = lease.record.lease_s if isinstance(lease, Found) and of_owner else LEASE_MAX_S
    return sight.silent_s >= full_wait_s(lease_s)


def wait_running(office: Office, uids: Mapping[str, str], timeout_s: float) -> dict[str, SupervisorError | None]:
    """Until each of ``uids`` (name → uid) runs, has finished, or has failed. By name: None, or why it does not run."""
    outcomes: dict[str, SupervisorError | None] = {}
    last: dict[str, str] = {}

    def all_settled() -> bool:
        for name, uid in uids.items():
            if name in outcomes:
                continue
            shown = _shown(office, name, uid)
            last[name] = f"{shown.state.value}: {shown.reason}"
            if shown.state in GOOD:
                outcomes[name] = None
            elif shown.state in BAD:
                outcomes[name] = SupervisorError(f"{name} does not run ({last[name]})")
        return len(outcomes) == len(uids)

    try:
        _poll(all_settled, timeout_s, "")
    except TimedOut:
        for name in uids.keys() - outcomes.keys():
            what = f"{name} is submitted but does not run after {timeout_s:g} s"
            outcomes[name] = TimedOut(f"{what} ({last.get(name, 'ZooKeeper does not answer')})")
    return outcomes


def _shown(office: Office, name: str, uid: str) -> Shown:
    layout = office.layout
    paths = [layout.job(name), layout.own(name), layout.lease(name), layout.result(uid)]
    nodes = office.zoo().read_many(paths).nodes
    ref: Seen[JobRef] = seen(JobRef, nodes[0], paths[0])
    own: Seen[Ownership] = seen(Ownership, nodes[1], paths[1])
    lease: Seen[Lease] = seen(Lease, nodes[2], paths[2])
    result: Seen[Result] = seen(Result, nodes[3], paths[3])
    if isinstance(result, Found):
        return state_of_ended(result.record)
    if isinstance(ref, Found) and ref.record.uid != uid or ref is None:
        return Shown(JobState.CANCELLED, "it was cancelled meanwhile")
    return state_of(ref, own, lease)


def _poll(is_over: Callable[[], bool], timeout_s: float, why: str) -> None:
    """Raises TimedOut. At least one look is taken."""
    deadline_s = boottime_s() + timeout_s
    while True:
        last_look = boottime_s() >= deadline_s
        try:
            if is_over():
                return
        except Unreachable as error:
            why = why or str(error)
        if last_look:
            raise TimedOut(f"{why} after {timeout_s:g} s")
        time.sleep(min(PERIOD_S, max(0.0, deadline_s - boottime_s())))
