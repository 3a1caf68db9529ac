"""A listing that says that there is more, and shows nothing: an error of who asked, at once, never an endless loop or a defect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from supervisor.clients.store.s3_area import S3Area
from supervisor.clients.store.s3_removal import S3Removal
from supervisor.clients.store.s3_tree import S3Tree
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
    "removal": (S3Removal, lambda of: of.remove_batch(lambda: None)),
    "items": (S3Area, lambda of: list(of.items())),
    "entries": (S3Tree, lambda of: list(of.entries(""))),
    "level": (S3Tree, lambda of: of.level("")),
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
    found._calls._clients = {False: Server(**more), True: Server(**more)}
    with pytest.raises(SupervisorError):
        ask(found)


def test_a_listing_that_repeats_its_page_is_refused() -> None:
    found = S3Tree(LOCATION, S3Access(), 0.3)
    server = Server(NextContinuationToken="t", CommonPrefixes=[{"Prefix": "a/b/c/"}])
    found._calls._clients = {False: server, True: server}
    with pytest.raises(SupervisorError):
        found.level("")
