"""When a deletion on S3 may be sent: whoever comes next counts on that bound."""

from __future__ import annotations

import pytest

from supervisor.clients.store import removal as removal_module
from supervisor.clients.store.base import StoreEntry
from supervisor.clients.store.removal import LATE_S, SEND_WITHIN_S, S3Removal


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
