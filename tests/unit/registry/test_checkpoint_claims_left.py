"""Who has committed batches at a place: of thousands of ownerships only those that speak of it are decoded."""

from __future__ import annotations

import pytest

from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.records import Ownership, OwnState
from supervisor.model.transaction import Node, Stat
from supervisor.records.codec import encode
from supervisor.registry import checkpoint_claims
from supervisor.registry.checkpoint_claims import LeftCheckpoint

HERE, ELSEWHERE = place_of("s3://bucket/here"), place_of("s3://bucket/elsewhere")


def node(remembered: CheckpointExpectation | None, **more: str) -> Node:
    return Node(
        encode(Ownership(state=OwnState.VACANT, op="op", remembered=remembered, **more)),
        Stat(0, 0, 0, 0, 0, 0.0),
    )


NODES = {
    "/own/here": node(CheckpointExpectation(place=HERE, queries=("q1 7",))),
    "/own/here-too": node(
        CheckpointExpectation(place=HERE, queries=("q2 0",), extra={"a": {"place": [1]}}),
        reason='"remembered":{"place":"00"}',
    ),
    "/own/never-committed": node(CheckpointExpectation(place=HERE)),
    "/own/elsewhere": node(CheckpointExpectation(place=ELSEWHERE, queries=("q3 1",), accepted=HERE)),
    "/own/moved-on": node(CheckpointExpectation(place=ELSEWHERE, elsewhere=(f"{HERE} q5 3",))),
    "/own/nothing": node(None),
    "/own/gone": None,
    "/own/torn": Node(
        node(CheckpointExpectation(place=HERE, queries=("q4 1",))).data[:-9], Stat(0, 0, 0, 0, 0, 0.0)
    ),
}


def test_who_committed_there() -> None:
    left = LeftCheckpoint(NODES.items())
    assert left.by(HERE) == {"here", "here-too", "moved-on"}
    assert left.by(ELSEWHERE) == {"elsewhere"}
    assert left.by(place_of("s3://bucket/nobody")) == set()


def test_the_others_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    left, asked, real = LeftCheckpoint(NODES.items()), [], checkpoint_claims.seen
    monkeypatch.setattr(
        checkpoint_claims, "seen", lambda cls, one, path: asked.append(path) or real(cls, one, path)
    )
    left.by(ELSEWHERE)
    assert asked == ["/own/elsewhere", "/own/moved-on"]
