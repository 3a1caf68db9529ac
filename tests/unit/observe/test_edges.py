"""What can't be read, shown or explained of one name, for whatever reason, hides and stops no other (I9).

No record is known that makes any of these raise: each is made to, for one name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from supervisor.clock import boottime_s, wall_s
from supervisor.model.state import JobState
from supervisor.observe import listing
from supervisor.observe.observer import Observer
from supervisor.plan.explain import Explainer
from supervisor.plan.make import Policy, make_plan
from tests.fakes.registry_bench import Bench
from tests.unit.daemon.leader.test_controller import Rig


def failing_for(real: Callable[..., Any], spoilt: str) -> Callable[..., Any]:
    def call(*arguments: Any, **more: Any) -> Any:
        if spoilt in str(arguments):
            raise ZeroDivisionError("a defect")
        return real(*arguments, **more)

    return call


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    for name in ("one", "spoilt", "two"):
        rig.bench.submit(name)
    return rig


def test_a_name_that_can_not_be_read_is_left_alone_and_said(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Observer._set_row

    def broken(self: Observer, name: str, *more: Any) -> None:
        if name == "spoilt":
            raise ZeroDivisionError("a defect")
        real(self, name, *more)

    monkeypatch.setattr(Observer, "_set_row", broken)
    view = Observer(rig.bench.zoo.client(), rig.bench.layout, boottime_s, 1).take_view(None)
    assert "ZeroDivisionError" in view.rows["spoilt"].flaws[0] and not view.rows["one"].flaws
    assert sorted(rig.done()) == ["Assign one", "Assign two"]
    plan = make_plan(view, Policy(), boottime_s())
    assert any(alarm.job == "spoilt" for alarm in plan.alarms)


def test_a_name_that_can_not_be_shown_is_a_row_of_its_own(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "row_of", failing_for(listing.row_of, "name='spoilt'"))
    bench = rig.bench
    view = Observer(bench.zoo.client(), bench.layout, boottime_s, 1).take_view(None)
    rows = {row.name: row for row in listing.take_rows(bench.zoo.client(), bench.layout, view, wall_s())}
    assert rows["spoilt"].state == JobState.QUARANTINED.value and "ZeroDivisionError" in rows["spoilt"].reason
    assert rows["one"].state == rows["two"].state == JobState.PENDING.value


def test_a_result_that_can_not_be_shown_is_a_row_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    uid = bench.submit("ended").uid
    bench.commands().cancel("ended")
    monkeypatch.setattr(listing, "row_of_result", failing_for(listing.row_of_result, uid))
    view = Observer(bench.zoo.client(), bench.layout, boottime_s, 1).take_view(None)
    (row,) = listing.take_rows(bench.zoo.client(), bench.layout, view, wall_s(), every_uid=True)
    assert (row.uid, row.state) == (uid, JobState.QUARANTINED.value) and "ZeroDivisionError" in row.reason


def test_a_name_that_can_not_be_explained_hides_no_other(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = rig.bench
    view = Observer(bench.zoo.client(), bench.layout, boottime_s, 1).take_view(None)
    explainer = Explainer(view, Policy(), boottime_s(), "s1")
    real = explainer.job
    monkeypatch.setattr(explainer, "job", failing_for(real, "spoilt"))
    found = {each.name: each for each in explainer.everything()}
    assert set(found) == {"one", "spoilt", "two"}
    assert found["spoilt"].state is JobState.QUARANTINED and "ZeroDivisionError" in found["spoilt"].reason
