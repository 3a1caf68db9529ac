"""When a deletion on S3 may be sent: whoever comes next counts on that bound."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.clients.store import s3_removal
from supervisor.clients.store.s3_removal import LATE_S, SEND_WITHIN_S, S3Removal
from supervisor.spec.s3a import S3Access


class Sent:
    sent = answered = 0

    def __init__(self) -> None:
        self.latest_s = -1.0

    def keys(self, after: str) -> tuple[list[str], bool]:
        return ["metadata"], False

    def delete_all(self, keys: list[str], latest_s: float) -> None:
        self.latest_s = latest_s


@pytest.mark.parametrize("stopped_s", [0.0, SEND_WITHIN_S, LATE_S])
def test_the_time_to_send_counts_from_the_question_also_of_a_process_that_was_stopped_over_the_answer(
    monkeypatch: pytest.MonkeyPatch,
    stopped_s: float,
) -> None:
    """The epoch may move as soon as it was read; what is read after that says nothing of it."""
    now_s, sent = [1_000.0], Sent()
    monkeypatch.setattr(s3_removal, "boottime_s", lambda: now_s[0])
    removal: Any = S3Removal("s3://bkt/x", S3Access(), 30.0)
    removal._calls = sent

    def still() -> None:
        now_s[0] += stopped_s

    removal.remove_batch(still)
    assert sent.latest_s == 1_000.0 + SEND_WITHIN_S
