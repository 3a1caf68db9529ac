"""A real Alertmanager with the configuration of ``deploy/alertmanager``: own port, own directory, ended by its pid.

Its receivers are those of the test, and it waits for as good as nothing before it sends; routes and inhibitions are as they
are shipped.
"""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.testbed.loopback_server import free_address, running_server
from tests.testbed.prometheus import REPOSITORY

CONFIG = REPOSITORY / "deploy" / "alertmanager" / "alertmanager.yml"
AT_ONCE = {"group_wait": "1s", "group_interval": "2s"}


class Alertmanager:
    """Takes alerts, as Prometheus sends them."""

    def __init__(self, url: str) -> None:
        self.url = url

    def fire(self, *alerts: Mapping[str, str]) -> None:
        """Sends alerts that last; each is given by its labels."""
        body = json.dumps([{"labels": labels} for labels in alerts]).encode()
        request = urllib.request.Request(
            f"{self.url}/api/v2/alerts", body, {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.status == 200

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextlib.contextmanager
def running_alertmanager(directory: Path, receivers: Mapping[str, str]) -> Iterator[Alertmanager]:
    """``receivers`` has the address for each receiver by its name."""
    config: dict[str, Any] = yaml.safe_load(CONFIG.read_text())
    config["route"] |= AT_ONCE
    assert {one["name"] for one in config["receivers"]} == set(receivers)
    for one in config["receivers"]:
        for hook in one["webhook_configs"]:
            hook["url"] = receivers[one["name"]]
    (directory / "alertmanager.yml").write_text(yaml.safe_dump(config))
    address = free_address()
    made = Alertmanager(f"http://{address}")
    command = (
        "prometheus-alertmanager",
        f"--config.file={directory}/alertmanager.yml",
        f"--storage.path={directory}/data",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    )
    with running_server(command, directory / "alertmanager.log", made.is_ready):
        yield made
