"""What the explorer found in restores of ZooKeeper, and what repairs it."""

from __future__ import annotations

from dataclasses import replace

from tests.explore.scenarios import BY_NAME
from tests.explore.search import explore
from tests.explore.setting import abstracted


def test_a_leader_that_wrote_before_it_has_looked_on_a_new_connection_would_break_it() -> None:
    """Its session and its epoch are in the backup, so it leads on. Between the new connection and the contender's look on it a
    pass sees a job that nobody runs, and its assignment would commit beside the driver of the lost state. So a leader's
    writes are bound to the connection of the latest look (``Term.connection``, ``tests/unit/act/test_connection.py``);
    ``hasty`` leaves that out, and the scenarios as they are explored have it."""
    with abstracted():
        found = explore(replace(BY_NAME["restored at the start"], hasty=True), 1_000)
    assert found.broken is not None and "I5" in found.broken, found.broken
