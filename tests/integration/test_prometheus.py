"""Two real supervisors under a real Prometheus: every metric moves, every query of the dashboard and every rule works."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed.fleet import DRIVER, SHIM, Fleet
from tests.testbed.prometheus import REPOSITORY, RULES, Prometheus, running_prometheus
from tests.unit.clients.test_webhook import KEY, ReceiverOfTests
from tests.unit.test_metrics import ANNOUNCED, BESIDE
from tests.waiting import wait_until

pytestmark = pytest.mark.prometheus

DASHBOARD = REPOSITORY / "deploy" / "grafana" / "spark-supervisor.json"
VARIABLES = {"$job": ".*", "$__rate_interval": "1m", "$__range": "1h"}
MAY_BE_EMPTY = re.compile(
    r"starts_refused|job_savepoint|job_lag_records|job_trigger_interval|job_failed|class_archive|host_cordoned|job_cluster_wait|cluster_ok"
)
"""No host is cordoned, refuses anything here or makes class archives, no job has a schedule for savepoints, none reads what tells its lag or has a trigger by time,
none has executors on a cluster, no host has a cluster to ask, and no job failed for good."""


@pytest.fixture(scope="module")
def fleet(embedded_ensemble: EmbeddedEnsemble, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    directory, receiver = tmp_path_factory.mktemp("fleet"), ReceiverOfTests()
    key = directory / "notify.key"
    key.write_text(KEY)
    key.chmod(0o600)
    notify = [{"name": "ops", "url": f"http://127.0.0.1:{receiver.port}/", "secret_file": str(key)}]
    with Fleet(embedded_ensemble, f"/fleet-{uuid.uuid4().hex[:12]}", directory, notify=notify) as made:
        yield made
    receiver.close()


@pytest.fixture(scope="module")
def prometheus(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with running_prometheus(tmp_path_factory.mktemp("prometheus")) as made:
        made.scrape(addresses(fleet))
        yield made


@pytest.fixture(scope="module")
def story(fleet: Fleet, prometheus: Prometheus) -> dict[str, str]:
    """What an evening brings: name → uid of a job that runs, crashes, is cancelled, loses its shim; a leader dies."""
    names = ("steady", "crashing", "bounded", "shimless")
    knobs: dict[str, dict[str, Any]] = {
        "crashing": {"fail_attempts": 2},
        "bounded": {"exit_after_batches": 3},
    }
    more: dict[str, dict[str, Any]] = {
        "bounded": {"unbounded": False},
        "steady": {
            "update": {"prepare": "session"},
            "standby": {"level": "session"},
            "resources": {"memory": "512m"},
        },
    }
    for name in names:
        fleet.submit(name, knobs=knobs.get(name), **more.get(name, {}))
    for name in ("steady", "crashing", "shimless"):
        fleet.wait_state(name, "running")
    uids = {name: fleet.uid(name) for name in ("steady", "crashing", "shimless")}
    fleet.signal(fleet.process("shimless", SHIM), signal.SIGKILL)
    fleet.wait_attempt("shimless", 2)
    fleet.submit("broken")
    fleet.wait_state("broken", "running")
    uids["broken"] = fleet.uid("broken")
    fleet.signal(fleet.process("broken", DRIVER), signal.SIGKILL)
    fleet.wait_attempt("broken", 2)
    fleet.wait_state("broken", "running")
    shown = {
        one["metric"]["job"]
        for one in wait_until(lambda: prometheus.query("spark_supervisor_job_batch_id"), 30, "batches")
    }
    assert "steady" in shown
    fleet.submit("killed", knobs={"ignore_term": True}, stop_grace="1s")
    fleet.wait_state("killed", "running")
    fleet.cancel("killed")
    fleet.cancel("broken")
    epoch, old = fleet.epoch(), fleet.leader()
    fleet.kill(old)
    fleet.wait_new_leader(epoch)
    fleet.start_member(fleet.number(old))
    fleet.wait_complete()
    prometheus.scrape(addresses(fleet))
    fleet.wait_batches("steady", 3)
    return uids


def addresses(fleet: Fleet) -> list[str]:
    return [one["address"] for one in fleet.status()["supervisors"]]


def test_every_family_of_the_contract_has_a_series(prometheus: Prometheus, story: dict[str, str]) -> None:
    suffix = {"counter": "_total", "histogram": "_count", "gauge": ""}

    def without() -> list[str]:
        return [
            name
            for name, kind in (ANNOUNCED | BESIDE).items()
            if not MAY_BE_EMPTY.search(name)
            and not prometheus.query(f"last_over_time(spark_supervisor_{name}{suffix[kind]}[10m])")
        ]

    wait_until(lambda: not without(), 40, "a series of each family")


def test_what_happened_is_in_the_numbers(fleet: Fleet, prometheus: Prometheus, story: dict[str, str]) -> None:
    def number(expression: str) -> float:
        return sum(float(one["value"][1]) for one in prometheus.query(expression))

    def reached(expression: str, at_least: float) -> None:
        wait_until(
            lambda: number(expression) >= at_least,
            40,
            f"{expression} to be {at_least}, it is {number(expression)}",
        )

    def becomes(expression: str, value: float) -> None:
        """What a scrape has found is as old as the scrape, and a follower knows an epoch when it has looked."""
        wait_until(
            lambda: number(expression) == value, 40, f"{expression} to be {value}, it is {number(expression)}"
        )

    for phase in ("queued", "spawn", "session", "first_batch"):
        reached(f'max_over_time(spark_supervisor_job_start_seconds_count{{phase="{phase}"}}[10m])', 4)
        assert (
            number(f'sum(max_over_time(spark_supervisor_job_start_seconds_sum{{phase="{phase}"}}[10m]))')
            < 120
        )
    reached("sum(spark_supervisor_leader)", 1)
    becomes("max(spark_supervisor_supervisors)", 2)
    becomes(
        "count(spark_supervisor_epoch == on () group_left max(spark_supervisor_epoch))", 2
    )  # followers know it too
    reached("sum(spark_supervisor_takeover_seconds_count)", 1)
    assert 0 < number("sum(spark_supervisor_takeover_seconds_sum)") < 60
    reached('max_over_time(spark_supervisor_job_restarts_total{job="crashing",cause="user_error"}[10m])', 2)
    reached('max_over_time(spark_supervisor_job_restarts_total{job="shimless",cause="shim_died"}[10m])', 1)
    reached('sum(max_over_time(spark_supervisor_kill_seconds_count{killer=~"twin|guardian"}[10m]))', 1)
    reached('sum(max_over_time(spark_supervisor_kill_seconds_count{killer="shim"}[10m]))', 1)
    reached('sum(max_over_time(spark_supervisor_jobs_ended_total{outcome="finished"}[10m]))', 1)
    reached('sum(max_over_time(spark_supervisor_jobs_ended_total{outcome="cancelled"}[10m]))', 1)
    reached("min(spark_supervisor_store_ok)", 1)
    reached('spark_supervisor_job_batch_id{job="steady"}', 3)
    wait_until(
        lambda: (
            0
            < number('spark_supervisor_lease_remaining_seconds{job="steady"}')
            <= number('spark_supervisor_lease_seconds{job="steady"}')
        ),
        40,
        "what is left of the lease",
    )
    start = fleet.show("steady")["start"]
    assert set(start) == {"queued_s", "spawn_s", "session_s", "first_batch_s"}
    assert all(0 <= seconds < 60 for seconds in start.values()), start


def test_the_series_of_a_job_vanish_when_it_ends(prometheus: Prometheus, story: dict[str, str]) -> None:
    def shown() -> set[str]:
        return prometheus.label_values(
            '{__name__=~"spark_supervisor_(job|lease)_.+",job!="spark-supervisor"}', "job"
        )

    wait_until(
        lambda: shown() == {"steady", "crashing", "shimless"},
        40,
        f"series of the live jobs alone, not {shown()}",
    )


def test_every_query_of_the_dashboard_works_and_finds_something(
    prometheus: Prometheus, story: dict[str, str]
) -> None:
    queries = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])]
    assert len(queries) > 30
    for query in [*queries, *(one["expr"] for one in dashboard()["annotations"]["list"])]:
        for name, value in VARIABLES.items():
            query = query.replace(name, value)
        found = prometheus.query(query)
        assert found or MAY_BE_EMPTY.search(query) or query.endswith("> 0"), f"nothing is found by {query}"
    (job,) = [one for one in dashboard()["templating"]["list"] if one["name"] == "job"]
    series, label = re.fullmatch(r"label_values\((.+), (\w+)\)", job["query"]["query"]).groups()  # type: ignore[union-attr]
    assert "steady" in prometheus.label_values(series, label)


def test_the_rules_are_evaluated_and_no_impossible_alert_fires(
    prometheus: Prometheus, story: dict[str, str]
) -> None:
    wait_until(lambda: all(rule["health"] == "ok" for rule in prometheus.rules()), 30, "every rule evaluated")
    firing = {rule["name"] for rule in prometheus.rules() if rule["state"] == "firing"}
    never = {
        "SparkSupervisorTwoLeaders",
        "SparkSupervisorNoLeader",
        "SparkSupervisorDistrust",
        "SparkSupervisorKillSlow",
    }
    assert not firing & (never | {"SparkJobFailed", "SparkJobQuarantined", "SparkSupervisorStoreUnusable"})
    wait_until(
        lambda: (
            "SparkSupervisorShimsDie"
            in {rule["name"] for rule in prometheus.rules() if rule["state"] == "firing"}
            or prometheus.query('max_over_time(ALERTS{alertname="SparkSupervisorShimsDie"}[10m])')
        ),
        30,
        "the alert about the shim that was killed",
    )


def test_a_uid_is_followed_through_all_logs(fleet: Fleet, story: dict[str, str]) -> None:
    uid = story["broken"]
    kept = [member.directory / "log" / "broken" for member in fleet.members]
    wait_until(
        lambda: [p for d in kept for p in d.glob(f"{uid}.2.shim.log")],
        30,
        "the log of the last shim to be kept",
    )
    files = [path for directory in kept for path in directory.glob(f"{uid}.*")]
    assert {path.name for path in files} == {
        f"{uid}.{n}.{kind}" for n in (1, 2) for kind in ("log", "shim.log")
    }
    lines = [line for member in fleet.members for line in member.log.splitlines()]
    lines += [
        line for path in files if path.name.endswith(".shim.log") for line in path.read_text().splitlines()
    ]
    about = [json.loads(line) for line in lines if uid in line]
    for line in about:
        assert line["uid"] == uid and isinstance(line["attempt"], int), line
        assert line.get("job", "broken") == "broken", line
    told = [
        (line["event"], line["attempt"], str(line.get("action") or line.get("stage") or ""))
        for line in sorted(about, key=lambda line: str(line["timestamp"]))
    ]
    expected = [
        ("action", 1, "Assign"),
        ("shim_started", 1, ""),
        ("shim_stage", 1, "running"),
        ("shim_driver_exited", 1, ""),
        ("shim_done", 1, ""),
        ("action", 2, "Assign"),
        ("shim_started", 2, ""),
        ("shim_stage", 2, "running"),
        ("shim_stage", 2, "stopping"),
        ("shim_driver_exited", 2, ""),
        ("shim_done", 2, ""),
    ]
    places = [told.index(step) for step in expected]
    starts = [index for step, index in zip(expected, places, strict=True) if step[0] != "action"]
    assert starts == sorted(starts), told
    assert places[0] < places[2] and places[5] < places[7], told


# -- what needs no supervisor ------------------------------------------------------------------------------------------


def test_promtool_is_content_with_rules_and_configuration() -> None:
    for words in (
        ["check", "rules", RULES.name],
        ["check", "config", "prometheus.yml"],
        ["test", "rules", "spark-supervisor.tests.yml"],
    ):
        done = subprocess.run(
            ["promtool", *words], cwd=RULES.parent, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return document
