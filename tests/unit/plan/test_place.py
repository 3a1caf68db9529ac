"""Which host gets an attempt that another host was given and did not start, and whose turn it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.model.actions import Assign
from supervisor.model.driver_memory import MIB
from supervisor.model.records import Cause, Member, Ownership, OwnState, Phase
from supervisor.model.restart import RestartPolicy
from supervisor.model.seen import Found
from supervisor.model.usage import AttemptUsage, DirectoryUse
from supervisor.model.view import Row
from supervisor.plan.check import violations
from supervisor.plan.make import Policy, make_plan
from tests.unit.plan.rows import HOST, NOW_S, exited, job, lease, own, row, view

OTHER = replace(HOST, id="s2", host="host2")
FULL = replace(OTHER, drivers=0)


def chosen(state: Found[Ownership], *members: Member) -> str:
    given = view(row(ref=job(), own=state, own_seen_at_s=NOW_S - 1000.0), members={m.id: m for m in members})
    actions = make_plan(given, Policy(), NOW_S).actions
    assert len(actions) == 1 and isinstance(actions[0], Assign)
    return actions[0].host.id


@pytest.mark.parametrize(
    "state",
    [own(OwnState.VACANT), exited(Cause.NO_ROOM), exited(Cause.NO_ACCESS)],
    ids=["taken back", "no room", "no access"],
)
def test_a_host_that_did_not_start_it_comes_last(state: Found[Ownership]) -> None:
    """Its store credentials may be refused, its disk full: without this the emptiest host keeps the job for ever."""
    assert chosen(state, HOST, OTHER) == "s2"
    assert chosen(replace(state, record=replace(state.record, supervisor="s2")), HOST, OTHER) == "s1"
    assert chosen(state, HOST) == "s1"
    assert chosen(state, HOST, FULL) == "s1"


@pytest.mark.parametrize(
    "state",
    [
        own(OwnState.VACANT, uid="u0"),
        exited(Cause.USER_ERROR),
        exited(Cause.STOPPED),
    ],
    ids=["another uid's host", "its own failure", "stopped"],
)
def test_a_host_that_is_not_to_blame_is_not_avoided(state: Found[Ownership]) -> None:
    assert chosen(state, HOST, OTHER) == "s1"


WRITTEN = AttemptUsage(directory=DirectoryUse(path="/s/jobs/u1/cwd", bytes=10, files=1, names=("out",)))
CARRIES = row(
    name="other", ref=job("other", "u9"), own=own(OwnState.CLAIMED, uid="u9", memory=500), lease=lease()
)


def test_what_it_wrote_to_its_working_directory_brings_a_job_back_to_its_host() -> None:
    """A driver elsewhere begins without it; but one that must go elsewhere does."""
    there = exited(Cause.USER_ERROR, usage=WRITTEN)

    def host(state: Found[Ownership], *members: Member) -> str:
        mine = row(ref=job(), own=state, own_seen_at_s=NOW_S - 1000.0)
        plan = make_plan(view(mine, CARRIES, members={m.id: m for m in members}), Policy(), NOW_S)
        return next(each.host.id for each in plan.actions if isinstance(each, Assign))

    assert host(exited(Cause.USER_ERROR), HOST, OTHER) == "s2", "s1 carries another job"
    assert host(there, HOST, OTHER) == "s1"
    assert host(there, replace(HOST, drivers=1), OTHER) == "s2", "there is no room"
    assert host(exited(Cause.NO_ROOM, usage=WRITTEN), HOST, OTHER) == "s2", "it could not start there"
    assert host(replace(there, record=replace(there.record, uid="u0")), HOST, OTHER) == "s2", "of another uid"


RAISING = job(
    restart=RestartPolicy(memory_step=2.0, memory_max=900 * MIB), memory=300 * MIB, driver_memory=200 * MIB
)
RAN_OUT = exited(Cause.OUT_OF_MEMORY, memory=300 * MIB)


@pytest.mark.parametrize(("free_mb", "fits"), [(500, True), (499, False)])
def test_raised_memory_counts_for_the_place_it_takes(free_mb: int, fits: bool) -> None:
    """300m declared, of which the driver had 200m and shall have 400m."""
    given = view(
        row(ref=RAISING, own=RAN_OUT, own_seen_at_s=NOW_S - 1000.0),
        members={"s1": replace(HOST, memory=free_mb * MIB)},
    )
    plan = make_plan(given, Policy(), NOW_S)
    assert bool(plan.actions) is fits
    assert violations(given, plan) == ()
    if not fits:
        (note,) = plan.notes
        assert note.pending
        assert "499m free, 500m needed" in note.why.replace("499m of 499m", "499m")
        assert "its driver memory was raised to 400m after out_of_memory" in note.why


def test_two_raised_jobs_do_not_both_fit_where_one_does() -> None:
    rows = [
        row(
            name=name,
            ref=replace(RAISING, record=replace(RAISING.record, name=name)),
            own=RAN_OUT,
            own_seen_at_s=NOW_S - 1000.0,
        )
        for name in ("a", "b")
    ]
    plan = make_plan(view(*rows, members={"s1": replace(HOST, memory=900 * MIB)}), Policy(), NOW_S)
    assert [action.name for action in plan.actions] == ["a"]
    assert [note.name for note in plan.notes] == ["b"]


# -- starts that are stuck ---------------------------------------------------------------------------------------------


def fresh(name: str, **changes: Any) -> Row:
    """A job that is to be started for the first time."""
    ref = job(name, **changes)
    return row(
        name=name,
        ref=ref,
        own=own(OwnState.VACANT, uid="", newest_uid="u1", supervisor="", attempt=0, claims=0),
    )


def stuck(name: str, waited_s: float, ran_s: float | None = None, **changes: Any) -> Row:
    """A start that has been under way for ``waited_s``; ``ran_s``: claimed, and its shim counts so long."""
    ref = job(name, start_timeout_s=300.0, **changes)
    if ran_s is None:
        return row(name=name, ref=ref, own=own(OwnState.ASSIGNED), own_seen_at_s=NOW_S - waited_s)
    claimed = lease(phase=Phase.SESSION, ran_s=ran_s)
    return row(name=name, ref=ref, own=own(OwnState.CLAIMED), own_seen_at_s=NOW_S - waited_s, lease=claimed)


def placed(*rows: Row) -> list[str]:
    given = view(*rows)
    plan = make_plan(given, Policy(), NOW_S)
    assert violations(given, plan) == ()
    return [action.name for action in plan.actions if isinstance(action, Assign)]


@pytest.mark.parametrize(
    ("waited_s", "ran_s", "holds"),
    [
        (14.0, None, True),
        (16.0, None, False),
        (59.0, 58.0, True),
        (61.0, 58.0, False),
        (0.5, 61.0, False),
    ],
    ids=["assigned", "never claimed", "starting", "no batch", "no batch, and a new leader"],
)
def test_a_stuck_start_gives_its_slot_back_and_keeps_its_place(
    waited_s: float, ran_s: float | None, holds: bool
) -> None:
    """HOST starts two at once."""
    both = [stuck("s1", waited_s, ran_s), stuck("s2", waited_s, ran_s)]
    assert placed(*both, fresh("a"), fresh("b"), fresh("c")) == ([] if holds else ["a", "b"])
    full = [stuck(f"s{i}", waited_s, ran_s) for i in range(10)]
    assert placed(*full, fresh("a")) == [], "all places for drivers are taken"


def test_a_slot_is_held_for_a_share_of_a_short_start_timeout() -> None:
    short = [
        replace(each, ref=job(each.name, start_timeout_s=20.0))
        for each in (stuck("s1", 7.0, 7.0), stuck("s2", 3.0, 3.0))
    ]
    assert placed(*short, fresh("a"), fresh("b")) == ["a"]


def test_who_failed_last_comes_last_but_priority_goes_first() -> None:
    """By name alone, jobs that never start would take every free slot before those that would run."""
    failed = row(name="a-crashes", ref=job("a-crashes"), own=exited(failures=3), own_seen_at_s=NOW_S - 1000.0)
    unclaimed = row(
        name="a-unclaimed", ref=job("a-unclaimed"), own=own(OwnState.VACANT), own_seen_at_s=NOW_S - 1000.0
    )
    assert placed(failed, unclaimed, fresh("b"), fresh("c")) == ["b", "c"]
    urgent = replace(failed, ref=job("a-crashes", priority=9))
    assert placed(urgent, unclaimed, fresh("b"), fresh("c")) == ["a-crashes", "b"]
