"""What masters of a standalone cluster say: real answers, odd ones, and none in time."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from supervisor.clusters.application import ClusterSilent
from supervisor.clusters.examined import of_standalone
from supervisor.clusters.standalone import StandaloneMaster, StandaloneMasters, StandaloneState, parsed
from supervisor.clusters.waits import WaitingDriver, reader_of
from supervisor.errors import Unreachable
from supervisor.settings.clusters import ClusterSettings

APP = "app-20261126150000-0001"


def worker(**changes: Any) -> dict[str, Any]:
    """As Spark 4.3 writes one."""
    return {
        "id": "worker-1",
        "host": "w1",
        "cores": 4,
        "coresused": 1,
        "coresfree": 3,
        "memory": 2048,
        "memoryused": 1024,
        "memoryfree": 1024,
        "state": "ALIVE",
        **changes,
    }


def answer(*workers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    app = {"id": APP, "name": "clicks", "cores": 0, "memoryperexecutor": 1024, "state": "WAITING"}
    return {"url": "spark://m1:7077", "workers": workers, "activeapps": [app], "status": "ALIVE", **changes}


def why(*workers: dict[str, Any], application: str = APP, **changes: Any) -> str:
    master = parsed("http://m1:8080", json.dumps(answer(*workers, **changes)).encode())
    return StandaloneState((master,)).why_waiting(application)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (lambda: why(), "no worker is alive"),
        (lambda: why(worker(state="DEAD")), "no worker is alive (1 are dead)"),
        (lambda: why(worker(coresfree=0), worker(coresfree=0)), "0 of 8 cores free"),
        (lambda: why(worker()), "3 of 4 cores free on 1 worker"),
        (
            lambda: why(worker(memoryfree=300), worker(coresfree=0, memoryfree=9000)),
            "an executor needs 1024 MiB, and no worker with a free core has more than 300 MiB free",
        ),
        (lambda: why(worker(), application="app-9"), "the master m1:8080 does not know app-9"),
        (lambda: why(worker(), application=""), "3 of 4 cores free on 1 worker"),
        (lambda: why(worker(), status="RECOVERING"), "no master leads (m1:8080 is RECOVERING)"),
        (lambda: why(worker(), status=None), "no master leads (m1:8080 is none)"),
    ],
)
def test_why_an_application_has_no_executor(said: Callable[[], str], expected: str) -> None:
    assert said() == expected


@pytest.mark.parametrize(
    "odd",
    [
        {"workers": 5},
        {"workers": [None, 7, "x", {}]},
        {"workers": [{"state": "ALIVE", "cores": -1, "coresfree": 1e300, "memory": True}]},
        {"activeapps": {"id": APP}},
        {"activeapps": [{"id": 7, "memoryperexecutor": "much"}]},
        {"status": ["ALIVE"]},
        {"status": "\x1b[2J" * 1000},
    ],
)
def test_an_odd_answer_is_harmless(odd: dict[str, Any]) -> None:
    master = parsed("http://m1:8080", json.dumps(answer(worker(), **odd)).encode())
    text = StandaloneState((master,)).why_waiting(APP)
    assert text.isprintable() and len(text) < 300


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"7", b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_answer_of_a_master_is_said(body: bytes) -> None:
    with pytest.raises(Unreachable, match="does not answer as a Spark master"):
        parsed("http://m1:8080", body)


class Pages:
    """A web server with one page for each path."""

    def __init__(self) -> None:
        pages: dict[str, bytes] = {}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = pages.get(self.path)
                self.send_response(200 if body is not None else 404)
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: Any) -> None:
                pass

        self.pages = pages
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def master() -> Iterator[Pages]:
    made = Pages()
    made.pages["/json/"] = json.dumps(answer(worker())).encode()
    made.pages["/"] = b'<span class="version" style="margin-right: 15px;">4.3.0</span>'
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def dripping() -> Iterator[str]:
    """A server that never comes to the end of its answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            try:
                one, _ = listening.accept()
                with one:
                    while True:
                        one.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10)
                        time.sleep(0.05)
            except OSError:
                pass

        threading.Thread(target=drip, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return f"http://127.0.0.1:{one.getsockname()[1]}"


def test_masters_are_asked_one_after_the_other_and_one_that_is_down_is_said(master: Pages) -> None:
    down = nobody()
    state = StandaloneMasters([down, master.url]).state(20.0)
    assert state.leading is not None and state.why_waiting(APP) == "3 of 4 cores free on 1 worker"
    (silent,) = state.silent
    assert silent.startswith(f"{down} does not answer (Connection refused")
    assert StandaloneMasters([down, master.url]).version(20.0) == "4.3.0"


def test_none_that_answers_is_an_error_within_the_time(dripping: str) -> None:
    began_at_s = time.monotonic()
    with pytest.raises(ClusterSilent, match="no master answers: .*does not answer within 1.0 s"):
        StandaloneMasters([dripping]).state(1.0)
    assert time.monotonic() - began_at_s < 60.0


def test_what_is_examined(master: Pages) -> None:
    cluster = ClusterSettings(master="spark://m1:7077", web=[master.url])
    found = of_standalone("prod", cluster, 20.0)
    assert (found.leaderless, found.version, found.room, found.no_room) == (
        "",
        "4.3.0",
        "1 worker, 3 of 4 cores free",
        "",
    )
    master.pages["/json/"] = json.dumps(answer()).encode()
    assert of_standalone("prod", cluster, 20.0).no_room == "no worker is alive"
    master.pages["/json/"] = json.dumps(answer(status="STANDBY")).encode()
    assert "is STANDBY" in of_standalone("prod", cluster, 20.0).leaderless
    del master.pages["/json/"]
    with pytest.raises(ClusterSilent, match="answers 404"):
        of_standalone("prod", cluster, 20.0)


def test_who_is_asked_why_a_driver_waits(master: Pages) -> None:
    reader = reader_of(ClusterSettings(master="spark://m1:7077", web=[f"{master.url}/"]), None)
    assert reader is not None
    drivers = [WaitingDriver("u1", 1, APP), WaitingDriver("u2", 1, "app-9")]
    first, second = reader.says(drivers, 20.0)
    assert first == "3 of 4 cores free on 1 worker"
    assert second.endswith("does not know app-9")


def test_the_web_port_of_each_master_is_8080_unless_it_is_said() -> None:
    plain = ClusterSettings(master="spark://m1:7077,[fd00::2]:7077")
    assert plain.web_of_masters == ("http://m1:8080", "http://[fd00::2]:8080")
    said = ClusterSettings(master="spark://m1:7077", web=["https://spark.example/", "http://m1:18080"])
    assert said.web_of_masters == ("https://spark.example", "http://m1:18080")


@pytest.mark.parametrize(
    "web", ["ftp://m1", "http://m1/json", "http://u:p@m1", "m1:8080", "http://m1:8080?x=1", ""]
)
def test_what_is_no_address_of_a_master_is_refused(web: str) -> None:
    with pytest.raises(ValueError, match="web"):
        ClusterSettings(master="spark://m1:7077", web=[web])
    with pytest.raises(ValueError, match="web is for a cluster of kind standalone"):
        ClusterSettings(master="yarn", conf_dir="/etc/hadoop", web=["http://m1:8080"])


def test_a_master_that_was_never_asked_has_nothing() -> None:
    assert StandaloneMaster("m1:8080") == parsed("http://m1:8080", b"{}")
