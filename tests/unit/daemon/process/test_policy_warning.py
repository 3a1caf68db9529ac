"""A supervisor says at its start which rules of its policy let jobs have everything."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from supervisor.daemon.process.assemble import warn_of_policy
from supervisor.settings.file import Settings
from supervisor.settings.sections import validated

SAFE = {
    "driver_environment": {"inherit": ["PATH"]},
    "secrets": {"env": [], "files": []},
    "checkpoints": ["s3a://streams/*"],
    "in_place_files": "pinned",
}


def warned(hosts: str, policy: dict[str, Any]) -> list[str]:
    body = {"cluster": "c", "zookeeper": {"hosts": hosts}, "store": {"url": "file:///s"}, "policy": policy}
    with structlog.testing.capture_logs() as logs:
        warn_of_policy(validated(Settings, body, "supervisor.yaml"))
    return [key for line in logs if line["event"] == "policy_is_open" for key in line["keys"]]


def test_the_keys_are_named_where_others_can_reach_the_cluster() -> None:
    assert warned("zk1:2181", {}) == [
        "driver_environment.inherit",
        "secrets.env",
        "secrets.files",
        "checkpoints",
        "in_place_files",
    ]
    assert warned("zk1:2181", {**SAFE, "checkpoints": ["*"]}) == ["checkpoints"]
    assert warned("zk1:2181", SAFE) == []


@pytest.mark.parametrize("hosts", ["127.0.0.1:2181,127.0.0.1:2182", "localhost:2181", "[::1]:2181"])
def test_a_cluster_of_this_machine_alone_is_not_warned_of(hosts: str) -> None:
    assert warned(hosts, {}) == []
    assert warned(f"{hosts},zk1:2181", {}) != []
