"""The explorer is there to find these: each of the classic defects, planted by hand, shows within seconds.

The whole list is the gate's (``python -m tests.explore.gate``); these few keep the explorer itself from going blind.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from supervisor.model import lease_terms
from supervisor.model.records import Cause
from supervisor.model.transaction import Transaction
from supervisor.registry import user_writes
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.shim import driver, lease
from supervisor.shim.state import Stage
from tests.explore.planting import around
from tests.explore.scenarios import BY_NAME
from tests.explore.search import explore
from tests.explore.setting import LAYOUT, abstracted

Patch = Callable[[], AbstractContextManager[object]]


def no_epoch_check() -> AbstractContextManager[object]:
    def transaction(context: LeaderWriteContext, what: str, *ops: Any) -> Transaction:
        return Transaction(what, context.op_id, ops)

    return mock.patch.object(LeaderWriteContext, "transaction", transaction)


def deadline_from_the_acknowledgement() -> AbstractContextManager[object]:
    return around(lease.renewed, lambda real, turn, event: real(turn, replace(event, sent_at_s=turn.now_s)))


def cancel_that_does_not_move_the_fence() -> AbstractContextManager[object]:
    real = user_writes.cancel

    def cancel(context: Any, ref: Any, name: str, *rest: Any, **more: Any) -> Transaction:
        tx = real(context, ref, name, *rest, **more)
        return replace(tx, ops=tuple(op for op in tx.ops if op.path != LAYOUT.own(name)))

    return mock.patch.object(user_writes, "cancel", cancel)


def tombstone_before_the_tree_is_empty() -> AbstractContextManager[object]:
    def begin_kill(real: Any, turn: Any, cause: Cause | None, reason: str) -> None:
        real(turn, cause, reason)
        if turn.state.stage is Stage.KILLING:
            turn.set(stage=Stage.BURYING, empty_at_s=turn.now_s, read_at_s=turn.now_s)

    return around(driver.begin_kill, begin_kill)


def no_wait() -> AbstractContextManager[object]:
    """W of two seconds."""
    return mock.patch.object(lease_terms, "CLOCK_RATE_ERROR", -0.5)


@pytest.mark.parametrize(
    ("patch", "scenario", "sentence"),
    [
        (no_epoch_check, "cancel", "does not check the persistent epoch"),
        (deadline_from_the_acknowledgement, "starting, shim stopped", "commits while driver u0-a.1 is alive"),
        (
            cancel_that_does_not_move_the_fence,
            "cancel without a supervisor",
            "after its cancel was acknowledged",
        ),
        (
            tombstone_before_the_tree_is_empty,
            "driver fails",
            "a tombstone for u0-a.1 commits while its driver is alive",
        ),
        (no_wait, "shim stopped", "commits while driver u0-a.1 is alive"),
    ],
    ids=lambda one: one.__name__ if callable(one) else None,
)
def test_is_caught(patch: Patch, scenario: str, sentence: str) -> None:
    with abstracted(), patch():
        found = explore(BY_NAME[scenario], 20_000, wide=True)
    print(found.line)
    assert found.broken is not None and sentence in found.broken
    assert found.trace, "a violation is told as a story"
