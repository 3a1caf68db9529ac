"""Rules and dashboard as documents: complete, and about metrics that exist."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import yaml

from tests.testbed.prometheus import REPOSITORY, RULES
from tests.unit.test_metrics import ANNOUNCED, BESIDE

DASHBOARD = json.loads((REPOSITORY / "deploy" / "grafana" / "spark-supervisor.json").read_text())
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
TESTED = yaml.safe_load(RULES.with_name("spark-supervisor.tests.yml").read_text())["tests"]
GRID_WIDTH = 24


def metrics_in(text: str) -> set[str]:
    found = re.findall(r"spark_supervisor_(\w+)", text)
    return {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in found}


def test_each_alert_says_what_why_and_what_next() -> None:
    for alert in ALERTS:
        assert set(alert["annotations"]) == {"summary", "why", "next", "runbook"}, alert["alert"]
        page = alert["annotations"]["runbook"].removeprefix("spark-supervisor docs ")
        assert (REPOSITORY / "supervisor" / "docs" / f"{page}.md").exists(), alert["alert"]
        assert "spark-supervisor " in alert["annotations"]["next"], alert["alert"]
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert "for" in alert


def test_each_alert_is_tested_to_fire_and_not_to_fire() -> None:
    assert [test["name"] for test in TESTED] == [alert["alert"] for alert in ALERTS]
    for test in TESTED:
        quiet, fires = test["promql_expr_test"]
        assert (quiet["exp_samples"], bool(fires["exp_samples"])) == ([], True)
        assert f"'{test['name']}'" in quiet["expr"] and quiet["expr"] == fires["expr"]


def test_rules_and_dashboard_name_only_metrics_that_exist() -> None:
    known = ANNOUNCED.keys() | BESIDE.keys() | {"process_resident_memory_bytes"}
    assert metrics_in(" ".join(alert["expr"] for alert in ALERTS)) <= known
    shown = metrics_in(json.dumps(DASHBOARD))
    assert shown <= known
    assert known - shown == set(), "every metric is on the dashboard"


def test_the_dashboard_is_well_formed() -> None:
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    assert DASHBOARD["schemaVersion"] >= 36 and DASHBOARD["uid"] and DASHBOARD["title"]
    variables = {variable["name"]: variable["type"] for variable in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource": "datasource", "job": "query"}
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        box = panel["gridPos"]
        assert box["x"] >= 0 and box["x"] + box["w"] <= GRID_WIDTH and box["h"] > 0, panel["title"]
        assert panel["title"] and panel["type"] in ("row", "stat", "table", "timeseries")
        if panel["type"] != "row":
            assert panel["targets"] and panel["datasource"]["uid"] == "${datasource}", panel["title"]
            assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    for one, other in combinations(panels, 2):
        assert not overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])


def overlap(a: dict[str, int], b: dict[str, int]) -> bool:
    across = a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"]
    return across and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]


ALERTMANAGER = yaml.safe_load((REPOSITORY / "deploy" / "alertmanager" / "alertmanager.yml").read_text())
EVENTS_OF_ALERTS = {
    "SparkJobFailed": "failed",
    "SparkJobQuarantined": "quarantined",
    "SparkJobFallsBehind": "falling_behind",
    "SparkJobUpdateFailed": "rolled_back",
}


def test_alertmanager_routes_to_receivers_that_exist_by_severities_that_are_given() -> None:
    receivers = {one["name"] for one in ALERTMANAGER["receivers"]}
    routes = [ALERTMANAGER["route"], *ALERTMANAGER["route"]["routes"]]
    assert {route["receiver"] for route in routes} == receivers
    given = {alert["labels"]["severity"] for alert in ALERTS}
    routed = set(re.findall(r'severity="(\w+)"', json.dumps(routes).replace("\\", "")))
    assert routed == {"critical"} and given == {"critical", "warning"}


def test_what_is_inhibited_are_alerts_that_exist_with_the_labels_that_are_compared() -> None:
    names = {alert["alert"]: alert for alert in ALERTS}
    for rule in ALERTMANAGER["inhibit_rules"]:
        sources, targets = (
            set(re.search(r'alertname=~?"([\w|]+)"', rule[side][0])[1].split("|"))  # type: ignore[index]
            for side in ("source_matchers", "target_matchers")
        )
        assert sources | targets <= names.keys() and not sources & targets
        for label in rule.get("equal", ()):
            for alert in sources | targets:
                assert f"$labels.{label}" in json.dumps(names[alert]["annotations"]), (alert, label)


def test_the_page_of_alerts_names_the_events_of_alerts_that_exist() -> None:
    page = (REPOSITORY / "supervisor" / "docs" / "operate-alerts.md").read_text()
    rows = dict(re.findall(r"^\| `(Spark\w+)` \| `(\w+)`", page, re.MULTILINE))
    assert rows == EVENTS_OF_ALERTS
    assert rows.keys() <= {alert["alert"] for alert in ALERTS}
    assert set(re.findall(r"^\| `(\w+)` \| [a-z]", page, re.MULTILINE)) >= set(EVENTS_OF_ALERTS.values())
