"""Where a job is placed by the labels of hosts, and how the jobs of a group are spread."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.actions import Assign, Drain, Plan, Prepare, Withdraw
from supervisor.model.records import (
    Member,
    OwnState,
    PlacementPolicy,
    PreparedDriver,
    PrepareLevel,
    StandbyPolicy,
    StandbyWhere,
)
from supervisor.model.seen import Found
from supervisor.model.state import JobState
from supervisor.model.view import Row, View
from supervisor.plan.check import violations
from supervisor.plan.decide import FRESH
from supervisor.plan.explain import Await, Explainer, Explanation
from supervisor.plan.make import Policy, make_plan
from supervisor.plan.prepare import Preparations
from tests.unit.plan.rows import HOST, NOW_S, job, lease, own, row, updated, view
from tests.unit.plan.test_moves import CORDONED
from tests.unit.plan.test_prepare import asked, keeps

S = OwnState
ZONE_A = PlacementPolicy(require=("zone=a",))
BY_HOST = PlacementPolicy(spread="host")
BY_ZONE = PlacementPolicy(spread="zone")


def host(name: str, *labels: str, **changes: Any) -> Member:
    return replace(HOST, id=name, host=name, labels=labels, **{"starting": 9, "memory": 10_000, **changes})


def hosts(*members: Member) -> dict[str, Member]:
    return {member.id: member for member in members}


def waiting(name: str, placement: PlacementPolicy | None, **changes: Any) -> Row:
    return row(
        name=name,
        ref=job(name=name, uid=f"u-{name}", placement=placement, **changes),
        own=own(S.VACANT, uid=""),
    )


def on(name: str, where: str, placement: PlacementPolicy | None, **changes: Any) -> Row:
    ref = job(name=name, uid=f"u-{name}", placement=placement, **changes)
    return row(
        name=name,
        ref=ref,
        own=own(S.CLAIMED, uid=f"u-{name}", supervisor=where, host=where),
        lease=lease(uid=f"u-{name}"),
    )


def planned(seen: View, in_flight: tuple[Assign, ...] = ()) -> Plan:
    plan = make_plan(seen, Policy(), NOW_S, in_flight)
    assert violations(seen, plan) == ()
    return plan


def places(plan: Plan) -> dict[str, str]:
    return {each.name: each.host.id for each in plan.actions if isinstance(each, Assign)}


def explained(seen: View, name: str = "j") -> Explanation:
    return Explainer(seen, Policy(), NOW_S, "s1").job(name)


# -- require ---------------------------------------------------------------------------------------------------------


def test_a_job_goes_only_where_the_labels_are() -> None:
    crowded = host("s2", "zone=a", "disk=ssd")
    rows = [on(f"other{n}", "s2", None) for n in range(3)]
    seen = view(*rows, waiting("j", ZONE_A), members=hosts(host("s1", "zone=b"), crowded, host("s3")))
    assert places(planned(seen)) == {"j": "s2"}


def test_all_labels_are_required() -> None:
    both = PlacementPolicy(require=("disk=ssd", "zone=a"))
    members = hosts(host("s1", "zone=a"), host("s2", "disk=ssd"), host("s3", "disk=ssd", "zone=a"))
    assert places(planned(view(waiting("j", both), members=members))) == {"j": "s3"}


def test_without_such_a_host_it_waits_and_says_for_which() -> None:
    seen = view(waiting("j", ZONE_A), members=hosts(host("s1", "zone=b"), host("s2")))
    (note,) = planned(seen).notes
    assert note.pending and note.unplaceable and note.why == "no host has zone=a"
    found = explained(seen)
    assert found.state is JobState.PENDING and found.why == "no host has zone=a"
    assert found.waits_for is not None and found.waits_for.kind is Await.LABELS
    assert str(found.waits_for) == "a host with zone=a"
    assert [each.lacking for each in found.hosts] == ["s1 does not have zone=a", "s2 does not have zone=a"]
    assert [each.note.partition(" in ")[0] for each in found.remedies] == ["supervisor.labels"]


@pytest.mark.parametrize(
    ("second", "lacking"), [("rack=7", "disk=ssd"), ("disk=ssd", "disk=ssd, zone=a"), ("", "disk=ssd")]
)
def test_only_what_no_host_has_is_said_to_be_missing(second: str, lacking: str) -> None:
    both = PlacementPolicy(require=("disk=ssd", "zone=a"))
    seen = view(waiting("j", both), members=hosts(host("s1", "zone=a"), host("s2", *filter(None, [second]))))
    (note,) = planned(seen).notes
    assert note.unplaceable and note.why == f"no host has {lacking}"
    assert str(explained(seen).waits_for) == f"a host with {lacking}"


def test_only_the_hosts_that_may_have_it_are_named_as_full() -> None:
    members = hosts(host("s1", "zone=b"), host("s2", "zone=a", drivers=0))
    (note,) = planned(view(waiting("j", ZONE_A), members=members)).notes
    assert note.why == "no room where zone=a is: s2 takes no drivers (capacity.drivers: 0)"
    assert not note.unplaceable


def test_a_host_that_is_not_trusted_does_not_count() -> None:
    members = hosts(host("s1", "zone=a", distrust="restored"), host("s2", "zone=b"))
    (note,) = planned(view(waiting("j", ZONE_A), members=members)).notes
    assert note.why.startswith("no host has zone=a; not trusted")


def test_what_runs_on_a_host_whose_labels_changed_goes_on() -> None:
    seen = view(on("j", "s1", ZONE_A), members=hosts(host("s1", "zone=b"), host("s2", "zone=a")))
    plan = planned(seen)
    assert plan.actions == () and explained(seen).is_fine


@pytest.mark.parametrize("prepare", [None, PrepareLevel.SESSION], ids=["cold", "prepared"])
@pytest.mark.parametrize("cold", ["", "n2"], ids=["", "--cold"])
def test_a_restart_that_no_host_could_carry_out_stops_nothing(
    prepare: PrepareLevel | None, cold: str
) -> None:
    running = on("j", "s1", ZONE_A, restart_nonce="n2", cold_restart=cold, prepare=prepare)
    seen = view(running, members=hosts(host("s1", "zone=b", prepares=1)))
    plan = planned(seen)
    assert plan.actions == ()
    (note,) = plan.notes
    assert note.why == "a restart was asked for, and no host has zone=a: attempt 2 goes on"
    assert not explained(seen).is_fine
    assert isinstance(
        planned(view(replace_host(running, "s1"), members=hosts(host("s1", "zone=a")))).actions[0], Drain
    )


def replace_host(one: Row, where: str) -> Row:
    assert isinstance(one.own, Found)
    return replace(one, own=replace(one.own, record=replace(one.own.record, supervisor=where)))


@pytest.mark.parametrize("prepare", [None, PrepareLevel.SESSION], ids=["cold", "prepared"])
def test_an_update_that_no_host_could_carry_out_stops_nothing_and_is_not_given_up(
    prepare: PrepareLevel | None,
) -> None:
    ref = updated(placement=ZONE_A, prepare=prepare)
    seen = view(row(ref=ref, own=own(S.CLAIMED), lease=lease()), members=hosts(host("s1", prepares=1)))
    plan = planned(seen)
    assert plan.actions == ()
    assert plan.notes[0].why == "revision 2 was asked for, and no host has zone=a: attempt 2 goes on"
    found = explained(seen)
    assert found.state is JobState.RUNNING and not found.is_fine
    assert found.waits_for is not None and found.waits_for.kind is Await.LABELS and found.remedies


def test_without_any_host_a_restart_stops_nothing() -> None:
    seen = view(on("j", "s1", ZONE_A, restart_nonce="n2"), members={})
    assert planned(seen).actions == ()


def test_a_driver_is_prepared_only_where_the_labels_are() -> None:
    running = on("j", "s1", ZONE_A, restart_nonce="n2", prepare=PrepareLevel.SESSION)
    members = hosts(
        host("s1", "zone=a", prepares=1), host("s2", "zone=b", prepares=1), host("s3", "zone=a", prepares=1)
    )
    (action,) = planned(view(running, members=members)).actions
    assert isinstance(action, Prepare) and action.host.id == "s3"


def test_a_standby_that_would_have_to_be_elsewhere_says_that_no_other_host_has_the_labels() -> None:
    standby = StandbyPolicy(level=PrepareLevel.SESSION, where=StandbyWhere.OTHER, refresh_s=3600.0)
    running = on("j", "s1", ZONE_A, standby=standby)
    seen = view(running, members=hosts(host("s1", "zone=a", prepares=1), host("s2", prepares=1)))
    assert planned(seen).actions == ()
    assert explained(seen).standby == "no standby: no other host has zone=a"


def test_a_request_at_a_host_that_lost_the_label_is_taken_back_and_not_used() -> None:
    waits = row(
        ref=job(placement=ZONE_A, prepare=PrepareLevel.SESSION, restart_nonce="n2"),
        own=own(S.CLAIMED),
        lease=lease(),
    )
    lost = keeps(host("s2", "zone=b", prepares=1))
    seen = view(
        waits,
        members=hosts(host("s1", "zone=a", prepares=1), lost),
        preparations=(asked("s2"),),
    )
    (action,) = planned(seen).actions
    assert isinstance(action, Withdraw) and action.why == "s2 does not have zone=a"
    assert isinstance(waits.ref, Found) and isinstance(waits.own, Found)
    said = Preparations(seen, NOW_S).restart(waits.ref.record, waits.own.record)
    assert not said.stop and said.host == "s1"


def test_a_prepared_driver_at_a_host_without_the_labels_gets_no_assignment() -> None:
    ready = PreparedDriver(uid="u-j", revision=1, level=PrepareLevel.SESSION, sha256="0", ready=True)
    lost = host("s2", "zone=b", prepares=1, prepared=(ready,))
    seen = view(
        waiting("j", ZONE_A, prepare=PrepareLevel.SESSION),
        members=hosts(host("s1", "zone=a", prepares=1), lost),
    )
    assert places(planned(seen)) == {"j": "s1"}


def test_the_check_of_plans_refuses_an_assignment_without_the_labels() -> None:
    """It judges from the records alone, whatever the plan thought."""
    bad, waits = host("s1", "zone=b"), waiting("j", ZONE_A)
    assert isinstance(waits.ref, Found) and isinstance(waits.own, Found)
    seen = view(waits, members=hosts(bad))
    action = Assign("j", "why", waits.ref, waits.own, bad, FRESH, None, False)
    assert violations(seen, Plan((action,), (), ())) == ("j: Assign although s1 does not have zone=a",)


# -- spark -----------------------------------------------------------------------------------------------------------

OLD = ("4.1",)


def test_a_job_goes_only_where_its_spark_is() -> None:
    """A host of the version before says nothing of its Sparks, and gets no job that asks for one."""
    members = hosts(host("s1", sparks=("4.3",)), host("s2", sparks=("4.1", "4.3")), host("s3"))
    rows = [on(f"other{n}", "s2", None) for n in range(3)]
    seen = view(*rows, waiting("j", None, spark="4.1"), waiting("k", None), members=members)
    found = places(planned(seen))
    assert found["j"] == "s2" and found["k"] != "s2"


def test_a_job_needs_its_labels_and_its_spark_on_one_host() -> None:
    members = hosts(host("s1", "zone=a"), host("s2", sparks=OLD), host("s3", "zone=a", sparks=OLD))
    assert places(planned(view(waiting("j", ZONE_A, spark="4.1"), members=members))) == {"j": "s3"}
    (note,) = planned(
        view(waiting("j", ZONE_A, spark="4.1"), members=hosts(members["s1"], members["s2"]))
    ).notes
    assert note.why == "no host has zone=a, spark 4.1 (spark.versions)"


def test_without_a_host_with_its_spark_it_waits_and_says_the_key() -> None:
    seen = view(waiting("j", None, spark="4.1"), members=hosts(host("s1", sparks=("4.3",)), host("s2")))
    (note,) = planned(seen).notes
    assert note.pending and note.unplaceable and note.why == "no host has spark 4.1 (spark.versions)"
    found = explained(seen)
    assert found.waits_for is not None and found.waits_for.kind is Await.LABELS
    assert str(found.waits_for) == "a host with spark 4.1 (spark.versions)"
    assert [each.lacking for each in found.hosts] == [
        "s1 does not have spark 4.1 (spark.versions)",
        "s2 does not have spark 4.1 (spark.versions)",
    ]
    assert [each.note.partition(" in ")[0] for each in found.remedies] == ["spark.versions.4.1"]


def test_what_helps_is_what_is_missing() -> None:
    members = hosts(host("s1", sparks=OLD), host("s2"))
    seen = view(waiting("j", ZONE_A, spark="4.1"), members=members)
    assert [each.note.partition(" in ")[0] for each in explained(seen).remedies] == ["supervisor.labels"]


@pytest.mark.parametrize("is_running", [True, False])
def test_if_the_only_host_with_its_spark_is_cordoned_the_command_says_which(is_running: bool) -> None:
    ref = updated(spark="4.1", prepare=PrepareLevel.SESSION)
    claimed = row(ref=ref, own=own(S.CLAIMED), lease=lease())
    seen = view(
        claimed if is_running else waiting("j", None, spark="4.1"),
        members=hosts(
            host("s1", sparks=("4.3",)), host("s2", sparks=OLD), host("s3", sparks=OLD, distrust="old")
        ),
    )
    closed = Found(CORDONED, 0)
    found = explained(replace(seen, cordons={"s2": closed, "s3": closed}))
    assert found.remedies[0].command == "spark-supervisor uncordon s2"
    assert [each.command for each in found.remedies[1:]] == ([] if is_running else [None])


def test_what_runs_goes_on_where_its_spark_was_taken_away_and_an_update_waits_for_one() -> None:
    running = on("j", "s1", None, spark="4.1")
    assert planned(view(running, members=hosts(host("s1"), host("s2", sparks=OLD)))).actions == ()
    ref = updated(spark="4.1", prepare=PrepareLevel.SESSION)
    seen = view(row(ref=ref, own=own(S.CLAIMED), lease=lease()), members=hosts(host("s1", prepares=1)))
    plan = planned(seen)
    assert plan.actions == ()
    why = "revision 2 was asked for, and no host has spark 4.1 (spark.versions): attempt 2 goes on"
    assert plan.notes[0].why == why


def test_a_driver_is_prepared_only_where_its_spark_is() -> None:
    running = on("j", "s1", None, restart_nonce="n2", prepare=PrepareLevel.SESSION, spark="4.1")
    members = hosts(
        host("s1", prepares=1, sparks=OLD), host("s2", prepares=1), host("s3", prepares=1, sparks=OLD)
    )
    (action,) = planned(view(running, members=members)).actions
    assert isinstance(action, Prepare) and action.host.id == "s3"


def test_the_check_of_plans_refuses_a_host_without_the_spark() -> None:
    bad, waits = host("s1", sparks=("4.3",)), waiting("j", None, spark="4.1")
    assert isinstance(waits.ref, Found) and isinstance(waits.own, Found)
    action = Assign("j", "why", waits.ref, waits.own, bad, FRESH, None, False)
    found = violations(view(waits, members=hosts(bad)), Plan((action,), (), ()))
    assert found == ("j: Assign although s1 does not have spark 4.1",)


@given(
    has=st.lists(st.sets(st.sampled_from(["4.1", "4.2", "4.3"])), min_size=1, max_size=5),
    asks=st.lists(st.sampled_from(["", "4.1", "4.2", "4.3"]), max_size=10),
)
def test_whatever_is_asked_for_a_job_is_placed_if_and_only_if_a_host_has_its_spark(
    has: list[set[str]], asks: list[str]
) -> None:
    members = hosts(
        *(host(f"s{n}", sparks=tuple(sorted(each)), drivers=99, starting=99) for n, each in enumerate(has))
    )
    rows = [waiting(f"j{n}", None, spark=version) for n, version in enumerate(asks)]
    found = places(planned(view(*rows, members=members)))
    for n, version in enumerate(asks):
        fit = {name for name, each in members.items() if not version or version in each.sparks}
        assert found[f"j{n}"] in fit if fit else f"j{n}" not in found


# -- spread ----------------------------------------------------------------------------------------------------------


def test_jobs_of_a_group_are_spread_over_hosts_whatever_else_runs_there() -> None:
    busy = [on(f"x{n}", "s2", None) for n in range(5)]
    seen = view(
        *busy,
        on("a", "s1", BY_HOST),
        waiting("b", BY_HOST),
        members=hosts(host("s1"), host("s2")),
    )
    assert places(planned(seen)) == {"b": "s2"}


def test_jobs_of_a_group_are_spread_over_zones_and_then_over_the_least_used_host() -> None:
    seen = view(
        on("a", "s1", BY_ZONE),
        on("x", "s3", None),
        waiting("b", BY_ZONE),
        waiting("c", BY_ZONE),
        members=hosts(host("s1", "zone=a"), host("s2", "zone=a"), host("s3", "zone=b"), host("s4", "zone=b")),
    )
    assert places(planned(seen)) == {"b": "s4", "c": "s2"}


def test_groups_do_not_count_for_each_other() -> None:
    other = replace(BY_HOST, group="other")
    members = hosts(host("s1"), host("s2"))
    rows = [on("a", "s1", BY_HOST), on("x", "s2", None), on("y", "s2", None)]
    assert places(planned(view(*rows, waiting("b", other), members=members))) == {"b": "s1"}
    assert places(planned(view(*rows, waiting("b", BY_HOST), members=members))) == {"b": "s2"}


def test_spread_never_refuses_a_host() -> None:
    seen = view(
        on("a", "s1", BY_HOST), waiting("b", BY_HOST), members=hosts(host("s1"), host("s2", drivers=0))
    )
    assert places(planned(seen)) == {"b": "s1"}


def test_an_assignment_that_is_in_flight_counts_once() -> None:
    first = waiting("a", BY_HOST)
    members = hosts(host("s1"), host("s2"))
    (going,) = planned(view(first, members=members)).actions
    assert isinstance(going, Assign) and going.host.id == "s1"
    seen = view(first, waiting("b", BY_HOST), members=members)
    assert places(planned(seen, (going,))) == {"b": "s2"}


def test_a_restart_keeps_the_group_spread() -> None:
    """Its own host is best, though another one has room: else each restart would crowd the others."""
    rows = [
        on("a", "s1", BY_HOST, prepare=PrepareLevel.SESSION, restart_nonce="n2"),
        on("b", "s2", BY_HOST),
    ]
    members = hosts(host("s1", prepares=1), host("s2", prepares=1))
    (action,) = planned(view(*rows, members=members)).actions
    assert isinstance(action, Prepare) and action.host.id == "s1"


@given(
    zones=st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=6),
    groups=st.lists(st.sampled_from(["", "web", "ops"]), max_size=14),
    require=st.sampled_from([(), ("zone=a",)]),
    spread=st.sampled_from(["host", "zone", "rack"]),
)
def test_what_is_placed_is_where_it_may_be_and_spread(
    zones: list[str], groups: list[str], require: tuple[str, ...], spread: str
) -> None:
    """All start together, with room for all: places of a group differ by one at most."""
    members = hosts(*(host(f"s{n}", *([f"zone={z}"] if z else []), drivers=99) for n, z in enumerate(zones)))
    members = {name: replace(each, starting=99) for name, each in members.items()}
    fit = [each for each in members.values() if set(require) <= set(each.labels)]
    rows = [
        waiting(f"j{n}", PlacementPolicy(require=require, spread=spread, group=group))
        for n, group in enumerate(groups)
    ]
    found = places(planned(view(*rows, members=members)))
    assert len(found) == (len(groups) if fit else 0)
    assert set(found.values()) <= {each.id for each in fit}

    def place_of(each: Member) -> str:
        if spread == "host":
            return each.id
        return next((label for label in each.labels if label.startswith(f"{spread}=")), "")

    for group in set(groups) if fit else ():
        counts = Counter(place_of(members[found[f"j{n}"]]) for n, of in enumerate(groups) if of == group)
        every = [counts[place] for place in {place_of(each) for each in fit}]
        assert max(every) - min(every) <= 1
