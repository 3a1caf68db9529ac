"""What real supervisors tell of a cluster that changes: a job that fails, another leader, a stream that goes on elsewhere."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.integration.test_api import TOKEN, FleetWithApi
from tests.unit.api.test_event_ring import parsed
from tests.waiting import wait_until


class Listener:
    """Keeps what a supervisor tells, as ``curl -N`` would."""

    def __init__(self, fleet: FleetWithApi, member: str, last_id: str | None = None) -> None:
        target = urlsplit(fleet.urls[member])
        context = ssl.create_default_context(cafile=str(fleet.authority.ca))
        assert target.hostname is not None
        self._connection = http.client.HTTPSConnection(
            target.hostname, target.port, timeout=120, context=context
        )
        headers = {"Authorization": f"Bearer {TOKEN}"} | ({"Last-Event-ID": last_id} if last_id else {})
        self._connection.request("GET", "/api/v1/events", headers=headers)
        self._answer = self._connection.getresponse()
        assert (self._answer.status, self._answer.headers["Content-Type"]) == (200, "text/event-stream")
        self.events: list[dict[str, Any]] = []
        threading.Thread(target=self._keep, daemon=True).start()

    def _keep(self) -> None:
        block = b""
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException, AttributeError):
            while line := self._answer.readline():
                block += line
                if line == b"\n":
                    self.events += parsed(block)
                    block = b""

    def wait(self, what: str, **wanted: Any) -> dict[str, Any]:
        """Returns the first event whose data has all that is wanted."""

        def found() -> dict[str, Any] | None:
            return next((each for each in self.events if wanted.items() <= each["data"].items()), None)

        return wait_until(found, 120, what)

    def close(self) -> None:
        self._connection.close()


@contextlib.contextmanager
def listening(fleet: FleetWithApi, member: str, last_id: str | None = None) -> Iterator[Listener]:
    listener = Listener(fleet, member, last_id)
    try:
        yield listener
    finally:
        listener.close()


def test_a_job_that_fails_is_told_and_so_is_another_leader(
    embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path
) -> None:
    (tmp_path / "fleet").mkdir()
    with FleetWithApi(embedded_ensemble, zk_root, tmp_path / "fleet") as fleet:
        leader, standby = fleet.leader(), fleet.standby()
        with listening(fleet, standby.id) as listener:
            begin = listener.wait("the begin", why="begin")
            knobs = {"exit_code": 1, "exit_after_s": 2.0, "error": "ValueError: x\n\nevent: job\ndata: {}"}
            fleet.submit("broken", knobs=knobs, restart={"strategy": "none"})
            listener.wait("the job", name="broken", before=None)
            fleet.wait_state("broken", "failed", "quarantined")
            wait_until(lambda: ends(listener), 120, "the failure")
            assert {each["event"] for each in listener.events} == {"reset", "job", "changed"}
            failure = ends(listener)
            assert failure is not None and "ValueError" in failure["data"]["reason"]
            shown = fleet.ok("list", "-o", "json").document[0]
            assert [failure["data"][key] for key in ("uid", "state")] == [shown["uid"], shown["state"]]
            count = len(listener.events)
        with listening(fleet, standby.id, begin["id"]) as again:
            wait_until(lambda: len(again.events) >= count - 1, 60, "what was told before")
            assert again.events[: count - 1] == listener.events[1:count]
            epoch = fleet.epoch()
            fleet.kill(leader)
            assert fleet.wait_new_leader(epoch) is standby
            wait_until(
                lambda: "/api/v1/status" in documents_of(again.events[count - 1 :]),
                120,
                "another status",
            )


def ends(listener: Listener) -> dict[str, Any] | None:
    return next(
        (each for each in listener.events if each["data"].get("state") in ("failed", "quarantined")), None
    )


def documents_of(events: list[dict[str, Any]]) -> set[str]:
    return {path for each in events for path in each["data"].get("documents", ())}


def test_another_supervisor_says_that_something_may_be_missed(
    embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path
) -> None:
    (tmp_path / "fleet").mkdir()
    with FleetWithApi(embedded_ensemble, zk_root, tmp_path / "fleet") as fleet:
        with listening(fleet, "s0") as listener:
            begin = listener.wait("the begin", why="begin")
        with listening(fleet, "s1", begin["id"]) as other:
            other.wait("that something is missed", why="missed")
