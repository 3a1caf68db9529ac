"""Hosts that refuse what they are given: by their policy, or for now. What is judged of it.

A policy is a word: ``strict`` refuses everything, ``from 2`` all but revision 2 and later, ``until 2`` revision 2 and
later, ``open`` and none nothing. It depends on nothing else, as that of production (``spec.policy_judge``), and may change to
``open`` (a kind of fault), as when a supervisor is started again with another configuration. What is refused for now is so
for a reason that passes (no room, no access), at any moment, and costs a fault.
"""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.model.records import PERMANENT_CAUSES, Assignment, Cause, Ownership
from supervisor.model.seen import Found
from supervisor.records.reading import seen
from supervisor.registry.attempt_writes import Exit, refuse
from tests.explore.setting import LAYOUT
from tests.explore.shims import ExploredMove
from tests.explore.world import ExploredSupervisor, ExploredWorld, apply, described

OPEN = "open"


def allows(policy: str, revision: int) -> bool:
    return (
        policy in ("", OPEN)
        or (policy == "from 2" and revision >= 2)
        or (policy == "until 2" and revision < 2)
    )


def refusal(
    world: ExploredWorld, me: ExploredSupervisor, given: Assignment, cause: Cause
) -> ExploredMove | None:
    """The agent of ``me`` refuses what it was given, as production does (``daemon.host.agent``)."""
    own = seen(Ownership, world.tree.read(LAYOUT.own(given.name)), LAYOUT.own(given.name))
    if not isinstance(own, Found):
        return None
    key = f"{given.uid}.{given.attempt}"
    ended = Exit(cause, "", permanent=cause in PERMANENT_CAUSES)
    tx = refuse(LAYOUT, given, own, ended, f"refuse {key}", "", policy_sha256=me.policy)
    if tx is None:
        return None
    after, outcome = apply(world, tx, me.agent_sid)
    if isinstance(outcome, tuple) and cause is Cause.POLICY:
        after = judged(after, me, own.record)
    return ExploredMove(f"{me.id} refuses {key} ({cause.value}): {described(outcome)}", after)


def judged(world: ExploredWorld, me: ExploredSupervisor, own: Ownership) -> ExploredWorld:
    """No host is given again what its policy has refused, be it its own refusal or that of another host with that policy."""
    version = (own.uid, own.revision, own.restart_nonce, me.policy)
    if version in world.judge.refused:
        return world.breaks(
            f"policy: {me.id} was given {own.uid} revision {own.revision}, which its policy had refused"
        )
    return world._replace(judge=world.judge._replace(refused=world.judge.refused | {version}))


def may_run(world: ExploredWorld, revision: int) -> bool:
    """Is there a host that allows this revision?"""
    return any(
        allows(one.policy, revision)
        for index, one in enumerate(world.supervisors)
        if index not in world.hosts_down
    )


# -- kinds of faults ----------------------------------------------------------------------------------------------


def for_now(world: ExploredWorld) -> Iterator[ExploredMove]:
    for one in world.supervisors:
        if not one.alive or one.paused or not one.connected or not world.has_session(one.agent_sid):
            continue
        for entry in world.tree.children(LAYOUT.assigned_to(one.id)) or ():
            if any(shim.key == entry and not shim.over for shim in world.shims):
                continue
            path = f"{LAYOUT.assigned_to(one.id)}/{entry}"
            given = seen(Assignment, world.tree.read(path), path)
            move = refusal(world, one, given.record, Cause.NO_ACCESS) if isinstance(given, Found) else None
            if move is not None:
                yield move


def opened(world: ExploredWorld) -> Iterator[ExploredMove]:
    for index, one in enumerate(world.supervisors):
        if one.policy not in ("", OPEN):
            yield ExploredMove(
                f"the policy of {one.id} is changed", world.with_supervisor(index, one._replace(policy=OPEN))
            )


KINDS = {"refuse for now": for_now, "policy changes": opened}
