"""No application of a driver that may live is ended, whatever has happened to its job, and whoever is slow; all others are.

A history of jobs is played by the rules of the registry: an attempt gets the next number when the one before is over. The
cluster is listed, more happens, the registry is read, more happens, and then the requests arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.clusters import leftovers
from supervisor.clusters.application import Application, ApplicationStage
from supervisor.clusters.leftovers import known_jobs, of_job, of_nobody
from supervisor.model.records import OwnState
from supervisor.model.seen import Unreadable
from supervisor.model.view import Row
from supervisor.records.ids import name_suffix
from tests.explore.planting import Edit, edited
from tests.property.histories import always_the_same
from tests.unit.plan import rows

NAMES = ("a", "b")
LIVING = (OwnState.CLAIMED, OwnState.DRAINING, OwnState.REVOKED)
BEGUN = ("submit", "assign", "claim", "application")
STEPS = (*BEGUN, "drain", "end", "unassign", "cancel", "gone", "replace", "restart")
UNREADABLE = Unreadable("r", 1)

steps = st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(NAMES)), max_size=8)
damages = st.lists(
    st.tuples(st.sampled_from(("ref", "own", "flaw", "row")), st.sampled_from(NAMES)), max_size=1
)


@dataclass
class WorldOfApplications:
    """``living``: drivers, as (uid, attempt). ``given_out``: numbers that a host was told, as (uid, attempt)."""

    own: dict[str, Any] = field(default_factory=dict)
    ref: dict[str, str] = field(default_factory=dict)
    living: set[tuple[str, int]] = field(default_factory=set)
    applications: list[Application] = field(default_factory=list)
    given_out: list[tuple[str, int]] = field(default_factory=list)
    uids: int = 0
    has_gone: bool = False

    def play(self, history: Sequence[tuple[str, str]]) -> None:
        for step, name in history:
            getattr(self, f"do_{step}")(name, self.own.get(name))

    def do_submit(self, name: str, own: Any) -> None:
        if name in self.ref:
            return
        self.uids += 1
        uid = f"{self.uids:012d}-{name_suffix(name)}"
        self.ref[name] = uid
        made = rows.own(OwnState.VACANT, uid="", attempt=0).record if own is None else own
        for left, attempt in self.living if own is None else ():
            if left.endswith(name_suffix(name)):  # its lease is there: it is waited out
                made = replace(made, state=OwnState.REVOKED, uid=left, attempt=attempt)
        self.own[name] = replace(made, newest_uid=uid)

    def do_assign(self, name: str, own: Any) -> None:
        if name in self.ref and own.state in (OwnState.VACANT, OwnState.EXITED):
            uid = self.ref[name]
            attempt = own.attempt + 1 if own.uid == uid else 1
            self.own[name] = replace(own, state=OwnState.ASSIGNED, uid=uid, attempt=attempt)
            self.given_out.append((uid, attempt))

    def do_claim(self, name: str, own: Any) -> None:
        if own is not None and own.state is OwnState.ASSIGNED:
            self.own[name] = replace(own, state=OwnState.CLAIMED)
            self.living.add((own.uid, own.attempt))

    def do_application(self, name: str, own: Any) -> None:
        if own is not None and (own.uid, own.attempt) in self.living:
            made = Application(f"app{len(self.applications)}", own.uid, own.attempt, ApplicationStage.RUNNING)
            self.applications.append(made)

    def do_drain(self, name: str, own: Any) -> None:
        if own is not None and own.state is OwnState.CLAIMED:
            self.own[name] = replace(own, state=OwnState.DRAINING)

    def do_end(self, name: str, own: Any) -> None:
        if own is not None and own.state in LIVING:
            self.own[name] = replace(own, state=OwnState.EXITED)
            self.living.discard((own.uid, own.attempt))

    def do_unassign(self, name: str, own: Any) -> None:
        if own is not None and own.state is OwnState.ASSIGNED:
            self.own[name] = replace(own, state=OwnState.VACANT)

    def do_cancel(self, name: str, own: Any) -> None:
        if self.ref.pop(name, None) is not None:
            states = {OwnState.CLAIMED: OwnState.DRAINING, OwnState.ASSIGNED: OwnState.VACANT}
            self.own[name] = replace(own, state=states.get(own.state, own.state))

    def do_gone(self, name: str, own: Any) -> None:
        """Somebody removed /own by hand; the driver, its lease and its application stay."""
        if own is not None and name not in self.ref and (own.uid, own.attempt) in self.living:
            del self.own[name]
            self.has_gone = True

    def do_replace(self, name: str, _own: Any) -> None:
        self.play([(step, name) for step in ("end", "cancel", *BEGUN)])

    def do_restart(self, name: str, _own: Any) -> None:
        self.play([(step, name) for step in ("end", *BEGUN[1:])])

    def seen(self, damages: Sequence[tuple[str, str]]) -> dict[str, Row]:
        found = {}
        for name in {*self.ref, *self.own}:
            ref = rows.job(name=name, uid=self.ref[name]) if name in self.ref else None
            own = replace(rows.own(OwnState.VACANT), record=self.own[name]) if name in self.own else None
            found[name] = rows.row(name=name, ref=ref, own=own)
        for what, name in damages:
            if name in found:
                parts = {"flaw": {"flaws": ("odd",)}, "row": {"ref": None, "own": None}}
                found[name] = replace(found[name], **parts.get(what, {what: UNREADABLE}))
        return found


def judge(before: Any, between: Any, after: Any, damage: Any, ended: Any) -> None:
    world = WorldOfApplications()
    world.play(before)
    listed = [*world.applications, *ended]
    world.play(between)
    leases = {name: None for name in {*NAMES} if (name in world.own) or world.living}
    is_gone = world.has_gone
    known = known_jobs(world.seen(damage), leases)
    by_leader = of_nobody(listed, known)
    over = [
        one
        for one in listed
        if (one.uid, one.attempt) not in world.living and one.stage is not ApplicationStage.ENDED
    ]
    by_hosts = []
    for uid in {uid for uid, _ in world.given_out}:
        own = next((each for name, each in world.own.items() if uid.endswith(name_suffix(name))), None)
        ended_here = of_job(listed, uid, own) if own is not None else ()
        by_hosts += ended_here
        if own is not None and own.uid == uid:
            assert set(ended_here) == {one for one in over if one.uid == uid and one.attempt < 1000}
    world.play(after)
    for one in (*by_leader, *by_hosts):
        assert (one.uid, one.attempt) not in world.living, f"{one} has a driver"
    assert not any(one.stage is ApplicationStage.ENDED for one in by_leader), "nothing is there to end"
    if not damage and not is_gone:
        assert set(by_leader) == {
            one for one in over if one.attempt < 1000 or one.uid not in known.over_below
        }, "something is left"


STRANGE = (
    Application("done", f"000000000001-{name_suffix('a')}", 1, ApplicationStage.ENDED),
    Application("of a lost state", f"000000000001-{name_suffix('a')}", 1000, ApplicationStage.RUNNING),
)


def explored(examples: int) -> Any:
    @always_the_same(examples)
    @given(steps, steps, steps, damages, st.lists(st.sampled_from(STRANGE), max_size=2))
    def run(before: Any, between: Any, after: Any, damage: Any, ended: Any) -> None:
        # a history that begins with a driver is of more use than one that may
        begun = [(step, name) for name in NAMES for step in BEGUN]
        judge([*begun, *before], between, after, damage, ended)

    return run


def test_no_application_of_a_driver_that_may_live_is_ended_and_all_others_are() -> None:
    explored(300)()


DEFECTS = {
    "not its own number": Edit(leftovers.of_job, "0 < one.attempt < below", "one.attempt != below"),
    "its own number too": Edit(leftovers.of_job, "0 < one.attempt < below", "0 < one.attempt <= below"),
    "of any job": Edit(leftovers.of_job, "one.uid == uid.lower() and", ""),
    "a claimed attempt is over": Edit(leftovers._over_below, "(1 if own.state in OVER else 0)", "1"),
    "an exit is not the end": Edit(leftovers._over_below, "(1 if own.state in OVER else 0)", "0"),
    "numbers of a lost state": Edit(
        leftovers._is_over, "return application.attempt < below", "return application.attempt != below - 1"
    ),
    "what can't be read": Edit(
        leftovers._is_over, "not any(may_be_of(application.uid, name) for name in known.doubtful)", "True"
    ),
    "nothing of a uid that is gone": Edit(
        leftovers._is_over, "not any(may_be_of(application.uid, name) for name in known.doubtful)", "False"
    ),
    "an own that is unreadable is no doubt": Edit(
        leftovers.known_jobs, " or not isinstance(row.own, Found)", ""
    ),
    "a lease without an own is no doubt": Edit(
        leftovers.known_jobs, "{name for name in leases if name not in rows}", "set()"
    ),
    "what has ended": Edit(
        leftovers.holds_something,
        "application.stage is not ApplicationStage.ENDED or bool(application.left)",
        "True",
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_it_fails_while_a_defect_is_planted(name: str) -> None:
    with edited(DEFECTS[name]), pytest.raises(AssertionError):
        explored(300)()
