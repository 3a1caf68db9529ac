"""One state is shown of a job, whoever shows it: ``list`` and ``show``, ``explain``, the leader's metrics, host, ``--wait``.

``observe.listing`` reads the end of a back-off off the wall clock of the exit, the leader off its own clock: a job in
back-off may be pending for one of them. Nothing else may differ.
"""

from __future__ import annotations

from unittest import mock

from hypothesis import given, settings

from supervisor.daemon.leader.record import Pass, Recorder
from supervisor.metrics import Metrics
from supervisor.model.load import loads_of
from supervisor.model.records import LEASED
from supervisor.model.seen import Found
from supervisor.model.state import JobState, shown_state
from supervisor.model.view import Row, View
from supervisor.observe.listing import row_of
from supervisor.observe.restored import known_jobs
from supervisor.plan import prepare
from supervisor.plan.explain import Explainer
from supervisor.plan.make import Policy, make_plan
from tests.unit.plan.rows import NOW_S, exited, job, row, view
from tests.unit.plan.test_whatever_is_seen import views

BACKOFF = {JobState.BACKOFF, JobState.PENDING}


def states_in_metrics(view: View) -> dict[str, str]:
    """State by job, as a pass over ``view`` counts it."""
    metrics = mock.create_autospec(Metrics, instance=True)
    Recorder(metrics, 0.0).record(Pass(view, make_plan(view, Policy(), NOW_S), (), (), NOW_S, NOW_S))
    (by_name,) = metrics.jobs_registered.call_args.args
    return dict(by_name)


@settings(max_examples=300, deadline=None)
@given(views())
def test_everybody_shows_the_same_state(view: View) -> None:
    explainer, leader = Explainer(view, Policy(), NOW_S, "s1"), states_in_metrics(view)
    restored = {known.name: known.state for known in known_jobs(view, frozenset())}
    for name, seen in view.rows.items():
        if not seen.is_listed:
            continue
        plain = shown_state(seen).state
        shown = {"explain": explainer.job(name).state, "list": JobState(row_of(seen, 0.0).state)}
        if name in leader:
            shown["metrics"] = JobState(leader[name])
        if name in restored:
            shown["accept-registry"] = JobState(restored[name])
        if plain is JobState.BACKOFF:
            assert set(shown.values()) <= BACKOFF, shown
            # explain and metrics hear it of one plan; a distrusted registry has none
            assert view.distrust or shown.get("metrics", shown["explain"]) is shown["explain"], shown
        else:
            assert set(shown.values()) == {plain}, shown


@settings(max_examples=300, deadline=None)
@given(views())
def test_a_back_off_that_is_over_is_pending_for_list_and_explain_alike(view: View) -> None:
    for seen in view.rows.values():
        before, after = shown_state(seen), shown_state(seen, backoff_is_over=True)
        assert after == before if before.state is not JobState.BACKOFF else after.state is JobState.PENDING


@settings(max_examples=100, deadline=None)
@given(views())
def test_a_job_that_is_not_registered_any_more_stops(view: View) -> None:
    for seen in view.rows.values():
        gone: Row = row(name=seen.name, ref=None, own=seen.own, lease=seen.lease)
        if isinstance(gone.own, Found) and gone.own.record.state in LEASED:
            assert shown_state(gone).state is JobState.STOPPING


def test_the_hosts_are_not_counted_anew_for_each_job_that_waits() -> None:
    """In an outage all jobs wait: explaining all of them must not cost the square of their number."""

    def counts(number: int) -> int:
        waiting = [
            row(name=f"j{n}", ref=job(f"j{n}", f"u{n}"), own=exited(uid=f"u{n}", failures=3, charged=3))
            for n in range(number)
        ]
        with mock.patch.object(prepare, "loads_of", wraps=loads_of) as counting:
            explained = Explainer(view(*waiting), Policy(), NOW_S, "s1").everything()
        assert [each.wait_s is not None for each in explained] == [True] * number
        return counting.call_count

    assert counts(20) == counts(2)
