"""When a deletion on S3 may be sent: whoever comes next counts on that bound."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.clients.store import removal as removal_module
from supervisor.clients.store.base import StoreEntry
from supervisor.clients.store.removal import LATE_S, SEND_WITHIN_S, Removed, S3Removal


class Sent:
    location = "s3://bkt/x"
    sent = answered = 0

    def __init__(self) -> None:
        self.latest_at_s = -1.0

    def page(self, prefix: str, after: str, at_once: int) -> tuple[list[StoreEntry], bool]:
        return [StoreEntry("metadata", 1, 0.0)], False

    def delete_batch(self, keys: list[str], latest_at_s: float) -> None:
        self.latest_at_s = latest_at_s


@pytest.mark.parametrize("stopped_s", [0.0, SEND_WITHIN_S, LATE_S])
def test_the_time_to_send_counts_from_the_question_also_of_a_process_that_was_stopped_over_the_answer(
    monkeypatch: pytest.MonkeyPatch,
    stopped_s: float,
) -> None:
    """The epoch may move as soon as it was read; what is read after that says nothing of it."""
    now_s, sent = [1_000.0], Sent()
    monkeypatch.setattr(removal_module, "boottime_s", lambda: now_s[0])
    removal = S3Removal(sent)

    def still() -> None:
        now_s[0] += stopped_s

    removal.remove_batch(still)
    assert sent.latest_at_s == 1_000.0 + SEND_WITHIN_S


class Listed(Sent):
    """What lies in the bucket, listed in pages."""

    def __init__(self, *keys: str) -> None:
        super().__init__()
        self.keys = sorted(keys)

    def page(self, prefix: str, after: str, at_once: int) -> tuple[list[StoreEntry], bool]:
        found = [key for key in self.keys if key > after]
        return [StoreEntry(key, 1, 0.0) for key in found[:at_once]], len(found) > at_once

    def delete_batch(self, keys: list[str], latest_at_s: float) -> None:
        self.keys = [key for key in self.keys if key not in keys]


def test_page_by_page_all_goes_but_savepoints_until_a_whole_round_finds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(removal_module, "BATCH_MAX", 2)
    kept = ["a.savepoints/1", "a.savepoints/2"]
    there: Any = Listed(*kept, "b", "c", "metadata")
    removal = S3Removal(there)
    found = [removal.remove_batch(lambda: None) for _ in range(4)]
    assert found == [Removed(0, True), Removed(2, True), Removed(1, True), Removed(0, False)]
    assert there.keys == kept
