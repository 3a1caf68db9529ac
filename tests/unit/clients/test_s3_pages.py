"""A listing that says that there is more, and shows nothing: an error of who asked, at once, never an endless loop or a defect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from supervisor.clients.store.area import open_area
from supervisor.clients.store.removal import open_removal
from supervisor.clients.store.tree import open_tree
from supervisor.errors import SupervisorError
from supervisor.spec.s3a import S3Access

LOCATION = "s3://bucket/a/b"


class Server:
    def __init__(self, **more: Any) -> None:
        self.answer = {"IsTruncated": True, "KeyCount": 0, **more}
        self.asked = 0

    def list_objects_v2(self, **_how: Any) -> dict[str, Any]:
        self.asked += 1
        assert self.asked < 1000, "it goes on for ever"
        return self.answer


ASKING: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "removal": (open_removal, lambda of: of.remove_batch(lambda: None)),
    "items": (open_area, lambda of: list(of.items())),
    "entries": (open_tree, lambda of: list(of.entries(""))),
    "level": (open_tree, lambda of: of.level("")),
}


@pytest.mark.parametrize(
    "more",
    [{"NextContinuationToken": "t"}, {}, {"NextContinuationToken": ""}],
    ids=["token", "none", "empty"],
)
@pytest.mark.parametrize("asking", ASKING)
def test_an_empty_page_that_says_that_there_is_more_is_refused(asking: str, more: dict[str, str]) -> None:
    opened, ask = ASKING[asking]
    found = opened(LOCATION, S3Access(), 0.3)
    found._client._session._clients = {False: Server(**more), True: Server(**more)}
    with pytest.raises(SupervisorError):
        ask(found)


def test_a_listing_that_repeats_its_page_is_refused() -> None:
    found: Any = open_tree(LOCATION, S3Access(), 0.3)
    server = Server(NextContinuationToken="t", CommonPrefixes=[{"Prefix": "a/b/c/"}])
    found._client._session._clients = {False: server, True: server}
    with pytest.raises(SupervisorError):
        found.level("")
