"""A page without a cluster: an API server that gives made-up documents, and a real browser that shows them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from supervisor.api.changes import ClusterReading, rows_by_name
from supervisor.api.events import EventFeed
from supervisor.api.paths import PREFIX
from supervisor.api.responses import ApiResponse, error_response
from supervisor.api.service import document_response
from supervisor.daemon.process.api_server import ApiHttpServer
from supervisor.errors import NotFound, Unreachable
from supervisor.model.job_row import row_of_document
from supervisor.settings.api import ApiSettings
from tests.waiting import wait_until

TOKEN = "t" * 40
PATIENCE_S = 40.0
SCREENSHOTS = "SPARK_SUPERVISOR_TEST_SCREENSHOTS"
"""Names the directory that pictures of the page are written to; without it there are none."""


def ago(seconds: float) -> str:
    return (
        (datetime.now(UTC) - timedelta(seconds=seconds))
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


class MadeUpFeed(EventFeed):
    """Tells what changes in the documents of ``service``, if it ``hears_events``."""

    def __init__(self, service: MadeUpService) -> None:
        super().__init__(service.read)
        self._service = service

    def listen(self, last_id: str | None = None) -> contextlib.AbstractContextManager[Iterator[bytes]]:
        if not self._service.hears_events:
            raise Unreachable("nobody may listen here")
        return super().listen(last_id)


@dataclass
class MadeUpService:
    """Gives ``documents`` by their paths below the prefix, without the query, or what one makes of the address that is asked
    for. In place of an ``ApiService``."""

    documents: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    hears_events: bool = False
    """Whether the page is told what changes: jobs of the list, and the status. If not, it gets 503."""

    def __post_init__(self) -> None:
        self.events = MadeUpFeed(self)

    def cut_off(self) -> None:
        """Ends the streams; there is none until ``hears_events`` is set again."""
        self.hears_events = False
        self.events.close()
        self.events = MadeUpFeed(self)

    def read(self) -> ClusterReading:
        rows = [row_of_document(job) for job in self.documents.get("/jobs", [])]
        return ClusterReading(rows_by_name(rows), dict(self.documents.get("/status", {})))

    def answer(
        self, method: str, target: str, if_none_match: str | None = None, _accepts: str | None = None
    ) -> ApiResponse:
        path = target.partition("?")[0].removeprefix(PREFIX)
        self.asked.append(target)
        if path not in self.documents:
            return error_response(404, NotFound(f"nothing is at {path}"))
        document = self.documents[path]
        return document(target) if callable(document) else document_response(document, if_none_match)

    def close(self) -> None:
        self.events.close()


@contextlib.contextmanager
def made_up_site(service: MadeUpService, directory: Path) -> Iterator[str]:
    """Serves the page with ``service`` on this machine. Yields its address."""
    token = directory / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    settings = ApiSettings.model_validate({"listen": "127.0.0.1:0", "token_files": [str(token)]})
    server = ApiHttpServer(settings, service)  # type: ignore[arg-type]
    server.start()
    try:
        yield f"http://{server.address}"
    finally:
        server.stop()


class Browser:
    """A real Chromium without a window. What it wrote on its console is in ``complaints``."""

    def __init__(self, *, phone: bool = False, dark: bool = False) -> None:
        options = ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        options.accept_insecure_certs = True
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "no-first-run"):
            options.add_argument(f"--{word}")
        options.add_argument(f"--user-data-dir={self._profile.name}")
        self.chrome = Chrome(options, ChromeService("/usr/bin/chromedriver"))
        self._is_phone = phone
        self.fit()
        self.dark(dark)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.chrome.quit()
        self._profile.cleanup()

    def fit(self) -> None:
        """Gives the tab the size of a screen, or of a phone."""
        self.size(*((390, 844, 2) if self._is_phone else (1440, 900, 1)))

    def size(self, width: int, height: int, factor: float) -> None:
        """Gives the tab a size in pixels of CSS, of which each is ``factor`` of a picture's."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": factor, "mobile": self._is_phone}
        self.chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def dark(self, is_dark: bool) -> None:
        feature = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def enter(self, url: str, token: str = TOKEN) -> None:
        """Opens the page and types the token in."""
        self.chrome.get(f"{url}/")
        self.wait(lambda: self.all("#token"), "the question for the token")
        self.one("#token").send_keys(token, Keys.ENTER)

    def one(self, selector: str) -> WebElement:
        return self.chrome.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.chrome.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "body") -> str:
        """The text that is shown; it is empty while there is no such element."""
        script = "return document.querySelector(arguments[0])?.innerText ?? ''"
        return str(self.chrome.execute_script(script, selector))

    def press(self, *keys: str) -> None:
        """Presses keys where the focus is."""
        for key in keys:
            self.chrome.switch_to.active_element.send_keys(key)

    def wait(self, check: Callable[[], Any], what: str) -> None:
        wait_until(check, PATIENCE_S, what)

    def wait_text(self, selector: str, *wanted: str) -> None:
        self.wait(lambda: all(word in self.text(selector) for word in wanted), f"{wanted} in {selector}")

    def jobs(self) -> list[str]:
        """The names in the table, as they are shown."""
        script = "return [...document.querySelectorAll('tbody tr')].map((row) => row.dataset.name)"
        return list(self.chrome.execute_script(script))

    def complaints(self) -> list[str]:
        """What the console has, but for answers that a test provokes, for 503, which a busy machine does, and for requests
        that Chromium gives up when another test makes or removes a network interface: the page asks again."""
        expected = ("status of 4", "status of 503", "net::ERR_NETWORK_CHANGED")
        return [
            entry["message"]
            for entry in self.chrome.get_log("browser")
            if entry["level"] == "SEVERE" and not any(text in entry["message"] for text in expected)
        ]

    def picture(self, name: str) -> None:
        """Writes a picture of what is shown, if somebody asks for pictures."""
        directory = os.environ.get(SCREENSHOTS)
        if directory:
            Path(directory).mkdir(parents=True, exist_ok=True)
            self.chrome.save_screenshot(str(Path(directory) / f"{name}.png"))


# -- documents --------------------------------------------------------------------------------------------------------


def job(name: str, state: str = "running", **more: Any) -> dict[str, Any]:
    """The document of a job in a list."""
    progress = {
        "query": "q",
        "batch_id": 41,
        "input_rows_per_s": 1234.5,
        "processed_rows_per_s": 2000.0,
        "batch_ms": 320.0,
        "at": ago(1),
        "lag": 12.0,
        "state_rows": None,
        "trigger_interval_s": None,
    }
    is_up = state in ("running", "stopping")
    return {
        "name": name,
        "uid": f"uid-{name}",
        "revision": 1,
        "desired": "running",
        "state": state,
        "reason": "running on host-1",
        "attempt": 3,
        "supervisor": "host-1",
        "host": "host-1.example.net",
        "driver_pid": 4711,
        "shim_pid": 4700,
        "started_at": ago(4000),
        "since": ago(3900),
        "restarts": 2,
        "failures": 0,
        "next_attempt_at": None,
        "checkpoint": f"s3a://stream/checkpoints/{name}",
        "progress": progress if is_up else None,
        "prepared": [],
        "labels": {"team": "web"},
        "trouble": "" if is_up else None,
        **more,
    }


def host(name: str, *, leader: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "host": f"{name}.example.net",
        "address": f"{name}.example.net:8780",
        "leader": leader,
        "capacity": {"memory": 64 * 2**30, "drivers": 40, "starting": 4},
        "drivers": 13,
        "prepared": 1,
        "labels": {"zone": "a"},
        "sparks": ["default"],
        "cordoned": False,
        "cordon": None,
        "since": ago(90000),
        "software": "0.2.0",
        "policy_sha256": None,
        "api": None,
        **more,
    }


def status(*hosts: dict[str, Any], **more: Any) -> dict[str, Any]:
    leader = next((each["id"] for each in hosts if each["leader"]), None)
    return {
        "cluster": "streams",
        "leader": leader,
        "epoch": 7,
        "supervisors": list(hosts),
        "absent": [],
        "zookeeper": {"state": "connected", "hosts": "zk-1:2181,zk-2:2181", "session": "0x1"},
        "store": {"url": "s3://stream/supervisor", "ok": True},
        "jobs": {},
        "paused": False,
        "pause": None,
        "distrust": None,
        "accepted": None,
        **more,
    }


def explained(name: str, state: str = "running", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "uid": f"uid-{name}",
        "state": state,
        "reason": "running on host-1",
        "fine": state == "running",
        "attempt": 3,
        "host": "host-1.example.net",
        "failures": 0,
        "last_batch_at": ago(1),
        "lease": {"lease_s": 30.0, "renewed_at": ago(2), "silent": False, "full_wait_s": 50.0},
        "owned": "running",
        "wanted": "running",
        "rule": "nothing",
        **dict.fromkeys(
            ("action", "why", "held_by", "waits_for", "until", "then", "standby", "failed_update")
        ),
        **dict.fromkeys(("move", "alarm", "last_exit", "absent_supervisor")),
        "hosts": [],
        "sinks": [],
        "remedies": [],
        **cluster(),
        **more,
    }


def cluster(**more: Any) -> dict[str, Any]:
    return {
        "leader": "host-1",
        "epoch": 7,
        "paused": False,
        "distrust": None,
        "alarms": [],
        "absent": [],
        "store_error": None,
        **more,
    }


def all_explained(*jobs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**cluster(**more), "running": 10, "jobs": list(jobs)}


def query(name: str, **more: Any) -> dict[str, Any]:
    return {
        "query": name,
        "id": f"id-{name}",
        "state": "active",
        "batch_id": 41,
        "input_rows_per_s": 1234.5,
        "processed_rows_per_s": 2000.0,
        "batch_ms": 320.0,
        "lag": 12.0,
        "at": ago(1),
        "error": None,
        "elsewhere": None,
        "state_rows": 120000.0,
        "trigger_interval_s": None,
        "age_s": 1.0,
        **more,
    }


def entry(event: str, seconds_ago: float, detail: str = "", **more: Any) -> dict[str, Any]:
    return {"at": ago(seconds_ago), "event": event, "attempt": 1, "detail": detail, "by": None, **more}


UNKNOWN = (
    *(
        "driver_memory",
        "stop_mode",
        "last_exit",
        "start",
        "cluster_wait",
        "update",
        "fork",
        "promotion",
        "starts_cold",
    ),
    *(
        "prepare_lowered",
        "env_ignored",
        "checkpoint_fence",
        "class_archive",
        "spark_ui",
        "user",
        "limits",
        "savepoints",
        "spec_error",
    ),
)


def show(shown: dict[str, Any], history: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The document of a job by itself, from that in a list."""
    spec = {"name": shown["name"], "application": "application.py", "checkpoint": shown["checkpoint"]}
    return {
        **shown,
        **dict.fromkeys(UNKNOWN),
        "queries": [query("q")],
        "more_queries": 0,
        "history": history,
        "spec": spec,
        **more,
    }


def add_job(
    service: MadeUpService,
    shown: dict[str, Any],
    explanation: dict[str, Any],
    history: list[dict[str, Any]],
    **more: Any,
) -> None:
    """Adds the documents of one job, besides that in the list."""
    path = f"/jobs/{shown['name']}"
    service.documents[path] = show(shown, history, **more)
    service.documents[f"{path}/explain"] = explanation
    story = {key: shown[key] for key in ("uid", "state", "reason")}
    story |= {"headline": shown["reason"], "history": history}
    service.documents[f"{path}/history"] = {"name": shown["name"], "uids": [story]}
