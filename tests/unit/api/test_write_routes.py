"""``api.write_routes``: a request is the same here and there, and each that a person may ask for has its path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisor.api.paths import PREFIX
from supervisor.api.write_routes import ROUTE_OF, body_of, write_route_of
from supervisor.errors import InvalidInput
from supervisor.operations.bundle import ApplyRequest, BundleFile
from supervisor.operations.job_requests import (
    CancelRequest,
    RestartRequest,
    ResumeRequest,
    SuspendRequest,
)
from supervisor.operations.requests import JobRequest, WriteRequest

REQUESTS: list[tuple[WriteRequest[Any], dict[str, Any]]] = [
    (CancelRequest("clicks"), {}),
    (CancelRequest("clicks", "clicks-1"), {"uid": "clicks-1"}),
    (SuspendRequest("clicks", "clicks-1"), {"uid": "clicks-1"}),
    (ResumeRequest("clicks"), {}),
    (
        ResumeRequest("clicks", None, accept_fresh_start=True, sink="repeats", sink_rolled_back=True),
        {"accept_fresh_start": True, "sink": "repeats", "sink_rolled_back": True},
    ),
    (RestartRequest("clicks", cold=True), {"cold": True}),
    (
        ApplyRequest(["a.yaml"], [BundleFile(path="a.yaml", text="")], ["x=1"], dry_run=True),
        {"specs": ["a.yaml"], "files": [{"path": "a.yaml", "text": ""}], "set": ["x=1"], "dry_run": True},
    ),
]


@pytest.mark.parametrize(("request_", "body"), REQUESTS, ids=str)
def test_what_is_posted_arrives_as_it_was_asked_and_says_no_default(
    request_: WriteRequest[Any], body: dict[str, Any]
) -> None:
    route = ROUTE_OF[type(request_)]
    name = request_.name if isinstance(request_, JobRequest) else ""
    assert body_of(request_) == body
    assert write_route_of(f"{PREFIX}{route.path.format(name=name)}") == (route, name)
    assert route.request_of(name, json.dumps(body).encode()) == request_


def test_the_name_of_the_path_counts() -> None:
    with pytest.raises(InvalidInput, match="unknown key 'name' in the body"):
        ROUTE_OF[CancelRequest].request_of("clicks", b'{"name": "other"}')


def test_fields_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(InvalidInput, match="the body: has differences, which need dry_run"):
        ROUTE_OF[ApplyRequest].request_of("", b'{"specs": ["a"], "files": [], "differences": true}')


def concrete(kind: type[Any]) -> set[type[Any]]:
    below = {each for child in kind.__subclasses__() for each in concrete(child)}
    return below | ({kind} if not getattr(kind, "__abstractmethods__", None) else set())


def test_each_request_that_writes_has_a_path() -> None:
    assert concrete(WriteRequest) == set(ROUTE_OF)
