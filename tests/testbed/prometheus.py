"""A real Prometheus that scrapes supervisors of a test: own port, own directory, ended by its pid.

Debian's packages ``prometheus`` and ``prometheus-alertmanager`` bring the programs. ``.ci/run`` takes them out of the
packages without installing these, since that would start services.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.testbed.loopback_server import free_address, running_server
from tests.waiting import wait_until

PROGRAMS = ("prometheus", "promtool", "prometheus-alertmanager", "amtool")
REPOSITORY = Path(__file__).resolve().parents[2]
RULES = REPOSITORY / "deploy" / "prometheus" / "spark-supervisor.rules.yml"
SCRAPE_CONFIG = REPOSITORY / "deploy" / "prometheus" / "prometheus.yml"


def missing() -> str | None:
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"no {' and no '.join(absent)}" if absent else None


class Prometheus:
    """Scrapes every second, with the settings and rules of ``deploy/prometheus``."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self._targets = directory / "targets.json"
        self.log = directory / "prometheus.log"

    def scrape(self, addresses: Sequence[str]) -> None:
        """Scrape these ``host:port`` from now on; waits until each has answered."""
        self.aim_at(addresses)
        wait_until(lambda: self._up() == set(addresses), 30, f"Prometheus to scrape {addresses}")

    def aim_at(self, addresses: Sequence[str]) -> None:
        """Scrape these ``host:port`` from now on, whether or not they answer."""
        draft = self._targets.with_suffix(".new")
        draft.write_text(json.dumps([{"targets": list(addresses)}]))
        draft.replace(self._targets)

    def _up(self) -> set[str]:
        return {series["metric"]["instance"] for series in self.query("up") if series["value"][1] == "1"}

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query. AssertionError with Prometheus' own words if it is wrong."""
        body = urllib.parse.urlencode({"query": expression}).encode()
        data = self._get("/api/v1/query", body)
        series: list[dict[str, Any]] = data["result"]
        return series

    def rules(self) -> list[dict[str, Any]]:
        """Every rule as it was last evaluated."""
        return [rule for group in self._get("/api/v1/rules")["groups"] for rule in group["rules"]]

    def label_values(self, series: str, label: str) -> set[str]:
        return {one["metric"][label] for one in self.query(f"count by ({label}) ({series})")}

    def _get(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"{self.url}{path}", body, timeout=20) as answer:
                document = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode(errors='replace')}") from None
        data: dict[str, Any] = document["data"]
        return data


@contextlib.contextmanager
def running_prometheus(directory: Path, **scrape: Any) -> Iterator[Prometheus]:
    """``scrape`` has further keys of the scrape configuration."""
    address = free_address()
    made = Prometheus(f"http://{address}", directory)
    (directory / "prometheus.yml").write_text(yaml.safe_dump(_config(directory, scrape)))
    command = (
        "prometheus",
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address={address}",
        "--log.level=warn",
    )
    with running_server(command, made.log, lambda: _is_ready(made)):
        yield made


def _is_ready(made: Prometheus) -> bool:
    with contextlib.suppress(OSError, AssertionError):  # 503 while it starts
        made.query("1")
        return True
    return False


def _config(directory: Path, more: dict[str, Any]) -> dict[str, Any]:
    """The example as it is shipped, but for the targets and the pace."""
    config: dict[str, Any] = yaml.safe_load(SCRAPE_CONFIG.read_text())
    (scrape,) = config["scrape_configs"]
    del scrape["static_configs"]
    scrape |= {
        "scrape_interval": "1s",
        "scrape_timeout": "1s",
        "file_sd_configs": [{"files": [f"{directory}/targets.json"], "refresh_interval": "1s"}],
        **more,
    }
    return {"global": {"evaluation_interval": "1s"}, **config, "rule_files": [str(RULES)]}
