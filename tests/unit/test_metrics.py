"""All families of REFERENCE.md are there from the start; a job's series vanish with it; ages are as of the scrape."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from supervisor.metrics import JOB_STATES, OUTCOMES, Capacity, Metrics, QueryNumbers, UsageNumbers
from supervisor.model.records import Outcome
from supervisor.model.state import JobState

ANNOUNCED = {
    "leader": "gauge",
    "epoch": "gauge",
    "zookeeper_connected": "gauge",
    "zookeeper_last_success_age_seconds": "gauge",
    "jobs": "gauge",
    "paused": "gauge",
    "job_state": "gauge",
    "job_attempt": "gauge",
    "job_restarts": "counter",
    "job_start_seconds": "histogram",
    "takeover_seconds": "histogram",
    "reconcile_seconds": "histogram",
    "reconcile_actions": "counter",
    "job_batch_id": "gauge",
    "job_input_rows_per_second": "gauge",
    "job_processed_rows_per_second": "gauge",
    "job_batch_seconds": "gauge",
    "job_trigger_interval_seconds": "gauge",
    "job_progress_age_seconds": "gauge",
    "lease_remaining_seconds": "gauge",
}
BESIDE = {
    "build_info": "gauge",
    "distrust": "gauge",
    "cluster_ok": "gauge",
    "store_ok": "gauge",
    "store_last_success_age_seconds": "gauge",
    "kill_seconds": "histogram",
    "starts_refused": "counter",
    "class_archive_ready": "gauge",
    "log_uploads_waiting": "gauge",
    "prepared_drivers": "gauge",
    "class_archives": "counter",
    "starts_delayed": "gauge",
    "jobs_ended": "counter",
    "supervisors": "gauge",
    "capacity_memory_bytes": "gauge",
    "capacity_memory_used_bytes": "gauge",
    "capacity_drivers": "gauge",
    "capacity_drivers_used": "gauge",
    "host_cordoned": "gauge",
    "job_silence_seconds": "gauge",
    "job_cluster_wait_seconds": "gauge",
    "job_queries_elsewhere": "gauge",
    "job_queries_failed": "gauge",
    "job_savepoint_age_seconds": "gauge",
    "job_savepoint_period_seconds": "gauge",
    "job_savepoints": "counter",
    "lease_seconds": "gauge",
    "job_lag_records": "gauge",
    "job_first_batch_seconds": "histogram",
    "notifications": "counter",
    "notifications_pending": "gauge",
    "job_failed": "gauge",
    "job_memory_bytes": "gauge",
    "job_memory_max_bytes": "gauge",
    "job_memory_reserved_bytes": "gauge",
    "job_cpu_seconds": "gauge",
}


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> Metrics:
    return Metrics(clock)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"spark_supervisor_{name}", labels)


def series_of(metrics: Metrics, job: str) -> set[str]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {s.name for family in families for s in family.samples if s.labels.get("job") == job}


def test_every_family_is_announced_from_the_start(metrics: Metrics) -> None:
    text = metrics.exposition().decode()
    families = {
        f.name.removeprefix("spark_supervisor_"): f.type for f in text_string_to_metric_families(text)
    }
    assert {
        name: kind for name, kind in families.items() if not name.startswith("process_")
    } == ANNOUNCED | BESIDE
    assert "process_resident_memory_bytes" in families
    for name, kind in (ANNOUNCED | BESIDE).items():
        total = "_total" if kind == "counter" else ""
        assert f"# TYPE spark_supervisor_{name}{total} {kind}" in text
    assert "_created" not in text


def test_states_are_those_of_the_model() -> None:
    assert set(JOB_STATES) == {state.value for state in JobState}
    assert set(OUTCOMES) == {outcome.value for outcome in Outcome}


def test_two_in_one_process_do_not_share(clock: Clock) -> None:
    one, other = Metrics(clock), Metrics(clock)
    one.leading(3)
    assert (value(one, "leader"), value(other, "leader")) == (1, 0)


def test_a_follower_shows_no_fleet(metrics: Metrics) -> None:
    metrics.job_attempt("here", 1, "running")
    metrics.set_fleet({"running": 2, "suspended": 1}, 7, {"a": "suspended"})
    assert {state: value(metrics, "jobs", state=state) for state in JOB_STATES} == {
        **dict.fromkeys(JOB_STATES, 0),
        "running": 2,
        "suspended": 1,
    }
    assert value(metrics, "job_state", job="a", state="suspended") == 1
    metrics.following(8)
    assert (value(metrics, "leader"), value(metrics, "epoch")) == (0, 8)
    assert value(metrics, "jobs", state="running") is None
    assert series_of(metrics, "a") == set()
    assert value(metrics, "job_state", job="here", state="running") == 1


def test_a_job_has_one_state_and_leaves_the_fleet_when_it_ends(metrics: Metrics) -> None:
    metrics.set_fleet({}, 1, {"a": "pending"})
    metrics.set_fleet({}, 1, {"a": "backoff"})
    assert value(metrics, "job_state", job="a", state="pending") is None
    assert value(metrics, "job_state", job="a", state="backoff") == 1
    metrics.job_attempt("a", 1, "starting")
    metrics.set_fleet({}, 1, {"a": "backoff"})
    assert value(metrics, "job_state", job="a", state="starting") == 1
    metrics.forget_job("a")
    metrics.set_fleet({}, 1, {})
    assert series_of(metrics, "a") == set()


def test_all_series_of_a_job_vanish_and_those_of_others_stay(metrics: Metrics) -> None:
    for job in ("a", "b"):
        metrics.job_attempt(job, 2, "running")
        metrics.job_restarted(job, "user_error")
        metrics.job_restarted(job, "lost")
        metrics.job_progress(job, at_s=1.0)
        metrics.job_queries(
            job, {"q": QueryNumbers(4, 1.5, 2.5, 0.25, 7), "": QueryNumbers(3, 1.5, 2.5, 0.25, 7)}
        )
        metrics.lease_deadline(job, 1010.0, 30.0)
        metrics.job_silence(job, 1000.0)
    everything = series_of(metrics, "b")
    assert {
        f"spark_supervisor_{n}" for n in ANNOUNCED if n.startswith(("job_b", "job_p", "job_i", "lease"))
    } <= everything
    metrics.forget_job("a")
    metrics.forget_job("a")
    assert series_of(metrics, "a") == set()
    assert series_of(metrics, "b") == everything
    metrics.hosts_only([])
    assert series_of(metrics, "b") == set()


def test_what_a_driver_takes_is_shown_until_it_is_gone(metrics: Metrics) -> None:
    metrics.job_attempt("a", 1, "running")
    metrics.job_usage("a", UsageNumbers(100, 150, 400, 2.5))
    assert value(metrics, "job_memory_bytes", job="a") == 100
    assert value(metrics, "job_memory_max_bytes", job="a") == 150
    assert value(metrics, "job_memory_reserved_bytes", job="a") == 400
    assert value(metrics, "job_cpu_seconds", job="a") == 2.5
    metrics.forget_job("a")
    assert series_of(metrics, "a") == set()


def test_queries_have_series_of_their_own_that_vanish_with_them(metrics: Metrics) -> None:
    metrics.job_queries(
        "a",
        {
            "clicks": QueryNumbers(4, batch_s=0.25, lag=70, trigger_interval_s=10.0),
            "views": QueryNumbers(9, lag=0),
        },
    )
    metrics.job_queries("a", {"clicks": QueryNumbers(input_rows_per_s=0.0), "views": QueryNumbers(10)})
    assert value(metrics, "job_batch_id", job="a", query="clicks") == 4, "what it does not say stays"
    assert value(metrics, "job_batch_seconds", job="a", query="clicks") == 0.25
    assert value(metrics, "job_trigger_interval_seconds", job="a", query="clicks") == 10
    assert value(metrics, "job_input_rows_per_second", job="a", query="clicks") == 0
    assert value(metrics, "job_lag_records", job="a", query="clicks") == 70
    assert value(metrics, "job_batch_id", job="a", query="views") == 10
    metrics.job_queries("a", {"views": QueryNumbers(11)})
    assert value(metrics, "job_lag_records", job="a", query="clicks") is None
    assert value(metrics, "job_batch_id", job="a", query="views") == 11


def test_a_job_that_failed_is_named_for_an_hour_or_until_it_is_registered_again(
    metrics: Metrics, clock: Clock
) -> None:
    metrics.job_failed("a", "user_error")
    metrics.job_failed("b", "out_of_memory")
    metrics.jobs_registered(["b", "c"])
    metrics.exposition()
    assert value(metrics, "job_failed", job="a", cause="user_error") == 1
    assert value(metrics, "job_failed", job="b", cause="out_of_memory") is None
    clock.now_s += 3600
    metrics.exposition()
    assert value(metrics, "job_failed", job="a", cause="user_error") is None
    metrics.job_failed("c", "user_error")
    metrics.following()
    assert value(metrics, "job_failed", job="c", cause="user_error") is None, (
        "nobody here would see it resumed"
    )


def test_at_most_a_hundred_failures_are_named(metrics: Metrics, clock: Clock) -> None:
    for number in range(102):
        clock.now_s += 1
        metrics.job_failed(f"j{number}", "user_error")
    assert value(metrics, "job_failed", job="j1", cause="user_error") is None
    assert value(metrics, "job_failed", job="j2", cause="user_error") == 1


def test_ages_are_those_of_the_scrape(metrics: Metrics, clock: Clock) -> None:
    metrics.job_progress("a", at_s=990.0)
    metrics.lease_deadline("a", 1020.0, 30.0)
    assert value(metrics, "job_progress_age_seconds", job="a") == 10
    clock.now_s += 5
    assert value(metrics, "job_progress_age_seconds", job="a") == 15
    assert value(metrics, "lease_remaining_seconds", job="a") == 15


def test_zookeeper_is_asked_at_the_scrape(metrics: Metrics, clock: Clock) -> None:
    assert math.isnan(value(metrics, "zookeeper_last_success_age_seconds") or 0)
    seen = {"connected": False, "at_s": 0.0}
    metrics.follow_zookeeper(lambda: bool(seen["connected"]), lambda: seen["at_s"])
    assert value(metrics, "zookeeper_connected") == 0
    assert math.isnan(value(metrics, "zookeeper_last_success_age_seconds") or 0)
    seen.update(connected=True, at_s=998.0)
    assert value(metrics, "zookeeper_connected") == 1
    assert value(metrics, "zookeeper_last_success_age_seconds") == 2


def test_a_supervisor_that_left_has_no_capacity(metrics: Metrics) -> None:
    metrics.set_capacity({"a": Capacity(8, 2, 4, 1), "b": Capacity(8, 0, 4, 0)})
    assert value(metrics, "supervisors") == 2
    assert value(metrics, "capacity_memory_used_bytes", supervisor="a") == 2
    metrics.set_capacity({"b": Capacity(8, 0, 4, 0)})
    assert value(metrics, "capacity_drivers", supervisor="a") is None
    assert value(metrics, "capacity_drivers", supervisor="b") == 4
    metrics.following()
    assert value(metrics, "capacity_drivers", supervisor="b") is None
    assert math.isnan(value(metrics, "supervisors") or 0)


def test_a_host_that_takes_drivers_again_is_not_cordoned(metrics: Metrics) -> None:
    metrics.set_cordoned({"a": "a is cordoned", "b": "b is drained"})
    assert value(metrics, "host_cordoned", supervisor="a") == 1
    metrics.set_cordoned(("b",))
    assert value(metrics, "host_cordoned", supervisor="a") is None
    assert value(metrics, "host_cordoned", supervisor="b") == 1
    metrics.following()
    assert value(metrics, "host_cordoned", supervisor="b") is None


def test_leadership_is_asked_at_the_scrape(metrics: Metrics) -> None:
    now = {"leads": True, "epoch": 7, "distrust": False}
    metrics.follow_leadership(
        lambda: bool(now["leads"]), lambda: int(now["epoch"]), lambda: bool(now["distrust"])
    )
    metrics.set_fleet({}, 7)
    assert (value(metrics, "leader"), value(metrics, "epoch"), value(metrics, "distrust")) == (1, 7, 0)
    now.update(leads=False, epoch=8, distrust=True)
    assert (value(metrics, "leader"), value(metrics, "epoch"), value(metrics, "distrust")) == (0, 8, 1)


def test_the_store_is_unknown_until_it_was_asked(metrics: Metrics, clock: Clock) -> None:
    assert math.isnan(value(metrics, "store_ok") or 0)
    metrics.store_checked(True)
    clock.now_s += 40
    metrics.store_checked(False)
    assert (value(metrics, "store_ok"), value(metrics, "store_last_success_age_seconds")) == (0, 40)


def test_a_wait_for_the_cluster_is_a_number_that_goes_with_the_job(metrics: Metrics) -> None:
    metrics.job_attempt("a", 1, "starting")
    metrics.job_cluster_wait("a", 12.5)
    assert value(metrics, "job_cluster_wait_seconds", job="a") == 12.5
    metrics.job_cluster_wait("a", 0.0)
    assert value(metrics, "job_cluster_wait_seconds", job="a") == 0
    metrics.forget_job("a")
    assert value(metrics, "job_cluster_wait_seconds", job="a") is None


def test_silence_grows_until_the_next_sign_of_life(metrics: Metrics, clock: Clock) -> None:
    metrics.job_silence("a", 990.0)
    assert value(metrics, "job_silence_seconds", job="a") == 10
    metrics.job_silence("a", 1000.0)
    assert value(metrics, "job_silence_seconds", job="a") == 0


def test_counts_and_durations(metrics: Metrics) -> None:
    metrics.observe_kill("twin", 0.004)
    metrics.observe_kill("made up by a torn file", 1.0)
    metrics.job_ended("failed")
    metrics.count_refusal("no_room")
    assert value(metrics, "kill_seconds_count", killer="twin") == 1
    assert value(metrics, "kill_seconds_count", killer="unknown") == 1
    assert (
        value(metrics, "jobs_ended_total", outcome="failed"),
        value(metrics, "jobs_ended_total", outcome="finished"),
    ) == (1, 0)
    assert value(metrics, "starts_refused_total", cause="no_room") == 1
    metrics.follow_starts(lambda: 3)
    assert value(metrics, "starts_delayed") == 3
    metrics.count_action("assign", "done")
    metrics.count_action("assign", "done")
    metrics.observe_pass(0.02)
    metrics.set_takeover(0.4)
    metrics.job_started("session", 3.0)
    assert value(metrics, "reconcile_actions_total", action="assign", outcome="done") == 2
    assert value(metrics, "reconcile_seconds_count") == 1
    assert value(metrics, "takeover_seconds_sum") == 0.4
    assert value(metrics, "job_start_seconds_count", phase="session") == 1
    assert value(metrics, "job_start_seconds_count", phase="queued") == 0
