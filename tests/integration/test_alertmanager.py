"""The configuration of ``deploy/alertmanager`` in a real Alertmanager: who is paged, and what is not said beside its cause."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.testbed.alertmanager import CONFIG, Alertmanager, running_alertmanager
from tests.testbed.prometheus import RULES
from tests.unit.clients.test_webhook import ReceiverOfTests
from tests.waiting import wait_until

pytestmark = pytest.mark.prometheus

SEVERITIES = {
    rule["alert"]: rule["labels"]["severity"]
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


class Alerting:
    """An Alertmanager, and who gets its messages."""

    def __init__(self, alertmanager: Alertmanager, page: ReceiverOfTests, team: ReceiverOfTests) -> None:
        self.alertmanager, self.page, self.team = alertmanager, page, team

    def fire(self, *alerts: dict[str, str]) -> None:
        """Fires alerts of the rules, with their severities."""
        self.alertmanager.fire(*({**each, "severity": SEVERITIES[each["alertname"]]} for each in alerts))

    def received(self, receiver: ReceiverOfTests) -> set[str]:
        bodies = [json.loads(body) for _, _, _, body in receiver.asked]
        return {alert["labels"]["alertname"] for body in bodies for alert in body["alerts"]}


@pytest.fixture
def alerting(tmp_path: Path) -> Iterator[Alerting]:
    page, team = ReceiverOfTests(), ReceiverOfTests()
    receivers = {"page": f"http://127.0.0.1:{page.port}/", "team": f"http://127.0.0.1:{team.port}/"}
    with running_alertmanager(tmp_path, receivers) as alertmanager:
        yield Alerting(alertmanager, page, team)
    page.close()
    team.close()


def test_its_own_tool_finds_the_configuration_well_formed_and_routes_by_severity() -> None:
    checked = subprocess.run(
        ["amtool", "check-config", str(CONFIG)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0 and "SUCCESS" in checked.stdout, checked.stdout + checked.stderr
    for severity, receiver in (("critical", "page"), ("warning", "team")):
        command = ["amtool", "config", "routes", "test", f"--config.file={CONFIG}", f"severity={severity}"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == receiver


def test_what_is_critical_pages_and_the_rest_goes_to_the_team(alerting: Alerting) -> None:
    alerting.fire(
        {"alertname": "SparkSupervisorNoLeader"}, {"alertname": "SparkJobFallsBehind", "job": "clicks"}
    )
    assert SEVERITIES["SparkSupervisorNoLeader"] == "critical"
    assert SEVERITIES["SparkJobFallsBehind"] == "warning"
    wait_until(
        lambda: alerting.received(alerting.page) and alerting.received(alerting.team), 60, "both to be told"
    )
    assert alerting.received(alerting.page) == {"SparkSupervisorNoLeader"}
    assert alerting.received(alerting.team) == {"SparkJobFallsBehind"}


def test_what_follows_from_another_alert_is_not_told_beside_it(alerting: Alerting) -> None:
    alerting.fire(
        {"alertname": "SparkSupervisorNoLeader"},
        {"alertname": "SparkJobWaitsForCluster", "job": "clicks"},
        {"alertname": "SparkSupervisorDown", "instance": "host-1:8780"},
    )
    causes = {"SparkSupervisorNoLeader", "SparkJobWaitsForCluster", "SparkSupervisorDown"}
    wait_until(
        lambda: alerting.received(alerting.page) | alerting.received(alerting.team) == causes,
        60,
        "the causes",
    )
    alerting.fire(
        {"alertname": "SparkJobNotRunning", "job": "clicks"},
        {"alertname": "SparkJobNotProgressing", "job": "clicks"},
        {"alertname": "SparkSupervisorStoreUnusable", "instance": "host-1:8780"},
        {"alertname": "SparkSupervisorStoreUnusable", "instance": "host-2:8780"},
        {"alertname": "SparkJobNotProgressing", "job": "views"},
    )
    more = {"SparkSupervisorStoreUnusable", "SparkJobNotProgressing"}
    wait_until(
        lambda: alerting.received(alerting.page) | alerting.received(alerting.team) == causes | more,
        60,
        "the others",
    )
    alerts = [
        alert["labels"]
        for receiver in (alerting.page, alerting.team)
        for _, _, _, body in receiver.asked
        for alert in json.loads(body)["alerts"]
    ]
    assert {
        each.get("instance") for each in alerts if each["alertname"] == "SparkSupervisorStoreUnusable"
    } == {"host-2:8780"}
    assert {each.get("job") for each in alerts if each["alertname"] == "SparkJobNotProgressing"} == {"views"}
