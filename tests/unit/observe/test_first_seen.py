"""Since when something has looked as it does: the memory that every wait rests on (protocol §7.2)."""

from __future__ import annotations

from dataclasses import replace

from supervisor.model.records import OwnState, Phase
from supervisor.model.seen import Found
from supervisor.observe.first_seen import FirstSeen
from supervisor.observe.observer import Observer
from tests.fakes.registry_bench import Bench
from tests.unit.plan.rows import lease

FIRST = lease().seen
assert isinstance(FIRST, Found)
RENEWED = replace(FIRST, mzxid=FIRST.mzxid + 1)


def test_a_lease_was_first_seen_when_the_answer_that_showed_it_had_arrived() -> None:
    seen_lease = FirstSeen().lease("j", FIRST, sent_at_s=10.0, received_at_s=13.0)
    assert (seen_lease.first_seen_at_s, seen_lease.silent_s) == (13.0, -3.0)


def test_its_silence_counts_up_to_the_sending_of_the_latest_read() -> None:
    first_seen = FirstSeen()
    first_seen.lease("j", FIRST, sent_at_s=10.0, received_at_s=10.0)
    assert first_seen.lease("j", FIRST, sent_at_s=20.0, received_at_s=29.0).silent_s == 10.0


def test_a_renewal_is_first_seen_anew_and_so_is_its_disappearance() -> None:
    first_seen = FirstSeen()
    first_seen.lease("j", FIRST, 10.0, 10.0)
    assert first_seen.lease("j", RENEWED, 20.0, 20.0).silent_s == 0.0
    assert first_seen.lease("j", None, 30.0, 30.0).silent_s == 0.0
    assert first_seen.lease("j", None, 35.0, 35.0).silent_s == 5.0


def test_a_name_that_is_forgotten_is_seen_for_the_first_time() -> None:
    first_seen = FirstSeen()
    first_seen.lease("j", FIRST, 10.0, 10.0)
    first_seen.own_seen_at_s("j", 1, 10.0)
    first_seen.forget("j")
    assert first_seen.lease("j", FIRST, 20.0, 20.0).silent_s == 0.0
    assert first_seen.own_seen_at_s("j", 1, 20.0) == 20.0


def test_the_absence_of_a_lease_is_not_waited_out_on_behalf_of_a_later_attempt() -> None:
    """One absence looks like another: between two attempts it is forgotten."""
    bench, clock = Bench(), [100.0]
    bench.submit("j")
    observer = Observer(bench.zoo.client(), bench.layout, lambda: clock[0], 1)
    silent = []
    for state in (OwnState.REVOKED, OwnState.EXITED, OwnState.REVOKED):
        bench.set_own("j", state)
        seen_lease = observer.take_view(None).rows["j"].lease
        silent.append(None if seen_lease is None else seen_lease.first_seen_at_s)
    first, between, again = silent
    assert first is not None and between is None and again is not None and again > first


def test_an_attempt_runs_since_it_was_first_seen_to_and_the_next_one_anew() -> None:
    """An update is observed from then on (protocol §9.2): a new leader counts anew, and renewals change nothing."""
    first_seen = FirstSeen()
    begun = replace(FIRST, record=replace(FIRST.record, phase=Phase.BEGUN))
    assert first_seen.lease("j", begun, 10.0, 10.0).running_at_s is None
    assert first_seen.lease("j", FIRST, 20.0, 21.0).running_at_s == 21.0
    assert first_seen.lease("j", RENEWED, 30.0, 31.0).running_at_s == 21.0
    other = replace(RENEWED, record=replace(FIRST.record, claim="another"))
    assert first_seen.lease("j", other, 40.0, 41.0).running_at_s == 41.0
    first_seen.forget("j")
    assert first_seen.lease("j", other, 50.0, 51.0).running_at_s == 51.0
