"""The writes about a checkpoint that is to be deleted: each rests on all that it was decided by."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from supervisor.errors import GuardFailed
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.location import digest
from supervisor.model.records import CheckpointClaim, CheckpointState, EpochRecord, OwnState, Result
from supervisor.model.seen import Found
from supervisor.model.transaction import Transaction
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.registry.pending_deletions import (
    begin_deletion,
    give_up_claim,
    pending_deletion,
    publish_waiting,
)
from tests.fakes.registry_bench import AT, Bench

PLACE = "s3://bkt/a"


class Ended:
    """The job ``a`` was cancelled and is clean; its checkpoint is to be deleted. All is as a leader has read it."""

    def __init__(self, state: OwnState = OwnState.VACANT) -> None:
        self.bench = Bench()
        layout = self.bench.layout
        self.bench.put(layout.epoch, EpochRecord(epoch=1, supervisor="l1", op="op"))
        self.uid = self.bench.submit("a", checkpoint=PLACE).uid
        self.bench.commands().cancel("a")
        remembered = CheckpointExpectation(place=place_of(PLACE), queries=("q 6",))
        self.bench.set_own("a", state, remembered=remembered)
        self.path = layout.checkpoint(digest(PLACE))
        claim = self.bench.record(CheckpointClaim, self.path)
        result = self.bench.result(self.uid)
        assert isinstance(claim, Found) and result is not None
        self.bench.put(self.path, pending_deletion(claim.record, result, AT))
        self.paths = {
            "epoch": layout.epoch,
            "own": layout.own("a"),
            "claim": self.path,
            "result": layout.result(self.uid),
            "checkpoints": layout.checkpoints,
        }
        self.versions = {what: self.version(what) for what in self.paths}
        self.context = LeaderWriteContext(layout, 1, self.versions["epoch"], "op", AT)

    def version(self, what: str) -> int:
        node = self.bench.zoo.client().read(self.paths[what])
        assert node is not None
        return node.stat.version

    def found(self, what: str) -> Any:
        if what == "own":
            return Found(self.bench.own("a"), self.versions[what])
        found = self.bench.record(CheckpointClaim if what == "claim" else Result, self.paths[what])
        assert isinstance(found, Found)
        return Found(found.record, self.versions[what])

    def begin(self) -> Transaction:
        return begin_deletion(
            self.context, self.path, self.found("claim"), self.found("own"), self.versions["checkpoints"]
        )

    def wait(self) -> Transaction:
        return publish_waiting(self.context, self.found("claim"), self.path, self.found("result"), "why")

    def give_up(self, state: CheckpointState = CheckpointState.DELETED) -> Transaction:
        return give_up_claim(
            self.context, self.path, self.found("claim"), self.found("own"), self.found("result"), state, ""
        )

    def move(self, what: str) -> None:
        node = self.bench.zoo.client().read(self.paths[what])
        assert node is not None
        self.bench.zoo.put(self.paths[what], node.data)


@pytest.mark.parametrize(
    ("write", "guards"),
    [
        (Ended.begin, {"epoch", "own", "claim", "checkpoints"}),
        (Ended.wait, {"epoch", "claim", "result"}),
        (Ended.give_up, {"epoch", "own", "claim", "result"}),
    ],
    ids=["begin", "wait", "give-up"],
)
@pytest.mark.parametrize("moved", ["", "epoch", "own", "claim", "result", "checkpoints"])
def test_it_fails_when_anything_moved_by_which_it_was_decided(
    write: Callable[[Ended], Transaction], guards: set[str], moved: str
) -> None:
    ended = Ended()
    transaction = write(ended)
    if moved:
        ended.move(moved)
    with pytest.raises(GuardFailed) if moved in guards else nullcontext():
        ended.bench.zoo.client().commit(transaction)


@pytest.mark.parametrize("state", [OwnState.VACANT, OwnState.EXITED, OwnState.CLAIMED, OwnState.DRAINING])
@pytest.mark.parametrize("became", [CheckpointState.DELETED, CheckpointState.KEPT])
def test_what_was_deleted_is_not_missed_and_the_fence_of_who_may_live_stays(
    state: OwnState, became: CheckpointState
) -> None:
    ended = Ended(state)
    before = ended.bench.own("a")
    ended.bench.zoo.client().commit(ended.give_up(became))
    after = ended.bench.own("a")
    is_forgotten = became is CheckpointState.DELETED and state in (OwnState.VACANT, OwnState.EXITED)
    assert before.remembered is not None and after.remembered is not None
    assert after.remembered == replace(before.remembered, queries=() if is_forgotten else ("q 6",))
    assert (ended.version("own") == ended.versions["own"]) != is_forgotten
    result = ended.bench.result(ended.uid)
    assert result is not None and result.checkpoint_state is became
    assert not ended.bench.has(ended.path)
