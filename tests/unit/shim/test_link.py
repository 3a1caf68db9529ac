"""The shim's link: reading again and again, as it does while its record is unreadable, piles nothing up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from supervisor.clients.zookeeper import ZooClient
from supervisor.model.launch import Launch
from supervisor.model.records import Assignment, BlobRef
from supervisor.model.transaction import Node, Reads, Stat
from supervisor.registry.layout import Layout
from supervisor.shim import link as module
from supervisor.shim import state as shim
from supervisor.shim.link import RegistryLink


class Watched:
    """Keeps watches as the client does: in a set, until they fire."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.watches: set[Callable[[], None]] = set()

    def start(self) -> None: ...
    def sync(self) -> None: ...

    def read(self, path: str, watch: Callable[[], None]) -> Node:
        self.watches.add(watch)
        return Node(b"{not json", Stat(1, 1, 1, 0, 0, 0))

    def read_many(self, paths: Sequence[str]) -> Reads:
        return Reads(tuple(None for _ in paths), 0.0, 0.0)


def test_an_unreadable_record_is_watched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ZooClient", Watched)
    entry = Assignment("j", "u", 1, 1, 0, 0, BlobRef("k", "0", 1), 1)
    launch = Launch("t", "h:1", "/r", 6.0, "s", "h", entry, 12.0, 5.0, 60.0, 60.0, True, True, ("true",), {}, "/", "/log")
    told: list[shim.Event] = []
    link = RegistryLink(launch, Layout("/r"), told.append, lambda _line: None)
    for token in range(100):
        assert isinstance(link._read(token), shim.OwnRead)
    client: ZooClient | Watched = link._client
    assert isinstance(client, Watched)
    (watch,) = client.watches
    watch()
    assert told == [shim.OwnChanged()]
