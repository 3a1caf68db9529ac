"""``logs`` of what was uploaded: the store is asked for what is over, and for what ran on a host that is lost."""

from __future__ import annotations

import gzip

import pytest

from supervisor.clients.store.files import FileStore
from supervisor.model.records import OwnState
from supervisor.registry.uploaded_logs import UploadedKey
from tests.unit.cli.conftest import Terminal


def uploaded(terminal: Terminal) -> None:
    """``a`` has one attempt, whose output is in the store."""
    key = UploadedKey("a", terminal.submit("a"), 1, 5)
    FileStore(terminal.home / "store").create(str(key), gzip.compress(b"from the store\n"))


@pytest.mark.parametrize("is_up", [True, False])
@pytest.mark.parametrize("state", [OwnState.CLAIMED, OwnState.DRAINING, OwnState.EXITED])
def test_what_another_host_has_comes_from_the_store_if_it_ended_or_the_host_is_lost(
    terminal: Terminal, state: OwnState, is_up: bool
) -> None:
    """While it goes on, its host has more of it."""
    uploaded(terminal)
    if is_up:
        terminal.bench.join("host-b", host="host-b.example", log_dir="/var/log/b")
    terminal.bench.set_own("a", state, supervisor="host-b", host="host-b.example")
    ran = terminal.run("logs", "a")
    if is_up and state is not OwnState.EXITED:
        assert (ran.code, ran.out, "host-b.example" in ran.err) == (1, "", True)
    else:
        assert (ran.code, ran.out) == (0, "from the store\n"), ran.err
