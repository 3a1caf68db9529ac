"""Two real supervisors, a real ZooKeeper, and a receiver that has the leader killed between the sending of a message and its mark."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.records import Notifications
from supervisor.records.reading import seen
from tests.testbed.fleet import Fleet
from tests.unit.clients.test_webhook import KEY, ReceiverOfTests, verified
from tests.waiting import wait_until

ONCE: dict[str, Any] = {"strategy": "fixed", "initial": "100ms", "attempts": 1}


class KillingReceiver(ReceiverOfTests):
    """Takes the first message and does not answer it; ``taken`` is set then."""

    def __init__(self) -> None:
        super().__init__()
        self.taken, self.go_on = threading.Event(), threading.Event()

    def receives(self) -> None:
        first = not self.taken.is_set()
        self.taken.set()
        if first:
            self.go_on.wait(60)

    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(body) for method, _, _, body in self.asked if method == "POST"]


@pytest.fixture
def receiver() -> Iterator[KillingReceiver]:
    made = KillingReceiver()
    yield made
    made.go_on.set()
    made.close()


def test_a_leader_that_is_killed_between_sending_and_marking_leaves_it_to_the_next(
    embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path, receiver: KillingReceiver
) -> None:
    key = tmp_path / "notify.key"
    key.write_text(KEY)
    key.chmod(0o600)
    notify = [{"name": "ops", "url": f"http://127.0.0.1:{receiver.port}/hook", "secret_file": str(key)}]
    with Fleet(embedded_ensemble, zk_root, tmp_path / "fleet", notify=notify) as fleet:
        wait_until(lambda: fleet.read_znode(fleet.layout.notifications), 30, "notifying to be on")
        wait_until(
            lambda: b'"on":true' in fleet.read_znode(fleet.layout.notifications).data,  # type: ignore[union-attr]
            30,
            "notifying to be on",
        )
        fleet.submit("failing", knobs={"fail_attempts": 99}, restart=ONCE)
        uid = fleet.uid("failing")
        assert receiver.taken.wait(60), "the leader has sent it"
        epoch, old = fleet.epoch(), fleet.leader()
        path = fleet.layout.notifications_of(uid)
        record = seen(Notifications, fleet.read_znode(path), path).record  # type: ignore[union-attr]
        assert [entry.pending for entry in record.entries] == [("ops",)], "it is written down, and not marked"
        fleet.kill(old)
        fleet.wait_new_leader(epoch)

        def marked() -> bool:
            found = seen(Notifications, fleet.read_znode(path), path).record  # type: ignore[union-attr]
            return [entry.pending for entry in found.entries] == [()]

        wait_until(marked, 60, "the next leader to send it and to mark it")
        first, second = receiver.messages()
        assert first["id"] == second["id"] == f"{uid}.failed.{first['attempt']}"
        assert (second["event"], second["job"], second["state"]) == ("failed", "failing", "failed")
        assert second["command"] == "spark-supervisor resume failing"
        assert "failed" in fleet.ok("explain", "failing").out
        is_verified = verified()
        assert all(is_verified(KEY, headers, body) for _, _, headers, body in receiver.asked)
        fleet.start_member(fleet.number(old))
        fleet.wait_complete()
        fleet.ok("resume", "failing")
        wait_until(lambda: len(receiver.messages()) > 2, 60, "it to fail again")
        third = receiver.messages()[2]
        assert third["attempt"] > first["attempt"] and third["id"] == f"{uid}.failed.{third['attempt']}"
        fleet.ok("cancel", "failing")
