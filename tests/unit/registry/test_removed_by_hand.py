"""What somebody removed by hand: an /assigned entry keeps no command from what it does, a missing /own starts nothing twice."""

from __future__ import annotations

import pytest

from supervisor.model.records import Assignment, Driver, Lease, OwnState, Phase
from supervisor.model.transaction import ANY_VERSION, Delete, Transaction
from supervisor.records.codec import encode
from tests.fakes.registry_bench import Bench


@pytest.mark.parametrize("entry", [True, False], ids=["there", "removed"])
@pytest.mark.parametrize("act", ["cancel", "suspend"])
def test_an_assigned_job_is_stopped(act: str, entry: bool) -> None:
    bench = Bench()
    uid = bench.submit("a").uid
    own = bench.set_own("a", OwnState.ASSIGNED)
    path = bench.layout.assignment(own.supervisor, uid, own.attempt)
    if entry:
        bench.zoo.put(bench.layout.assigned_to(own.supervisor), b"")
        bench.put(
            path,
            Assignment(
                name="a",
                uid=uid,
                attempt=1,
                revision=1,
                job_version=0,
                own_version=0,
                spec=bench.ref("a").record.spec,
                memory=1,
            ),
        )
    getattr(bench.commands(), act)("a")
    assert bench.own("a").state is OwnState.VACANT
    assert not bench.has(path)


@pytest.mark.parametrize("readable", [True, False])
def test_a_submit_over_a_lost_ownership_waits_for_the_attempt_that_its_lease_tells_of(readable: bool) -> None:
    bench = Bench()
    old = bench.submit("a").uid
    bench.commands().cancel("a")
    lease = Lease(
        name="a",
        uid=old,
        attempt=3,
        claim="c",
        lease_s=30.0,
        stop_grace_s=20.0,
        phase=Phase.RUNNING,
        driver=Driver(host="host-a", shim_pid=1),
        since="t",
    )
    bench.zoo.put(bench.layout.lease("a"), encode(lease) if readable else b"{")
    bench.zoo.client().commit(Transaction("by hand", "x", (Delete(bench.layout.own("a"), ANY_VERSION),)))
    new = bench.submit("a").uid
    own = bench.own("a")
    assert (own.state, own.newest_uid) == (OwnState.REVOKED, new)
    assert (own.uid, own.attempt, own.claim) == ((old, 3, "c") if readable else ("", 0, ""))


def test_a_submit_over_a_lost_ownership_without_a_lease_starts_at_once() -> None:
    bench = Bench()
    bench.submit("a")
    assert bench.own("a").state is OwnState.VACANT
