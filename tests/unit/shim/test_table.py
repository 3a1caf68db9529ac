"""The tables of the shim's machine: no pair of stage and event is missing, no handler is dead, what is ignored does nothing."""

from __future__ import annotations

import random
import typing
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from supervisor.model.records import Cause
from supervisor.shim import machine
from supervisor.shim import state as shim
from supervisor.shim.state import Event, Now, ShimState, Stage
from tests.unit.shim.test_machine_properties import OUTCOMES, REPORTS, burying, play, unsure
from tests.unit.shim.world import HANDED, LAYOUT, PREPARED, USE, ShimWorld, running

PLAYS, STEPS_OF_A_PLAY = 500, 40

SAMPLES: dict[type, Event] = {
    shim.Tick: shim.Tick(),
    shim.StillWanted: shim.StillWanted(),
    shim.DiscardAsked: shim.DiscardAsked(),
    shim.HandedOver: shim.HandedOver(HANDED),
    shim.HandedUnfit: shim.HandedUnfit("it is no attempt"),
    shim.Connected: shim.Connected(7),
    shim.Disconnected: shim.Disconnected(),
    shim.SessionLost: shim.SessionLost(),
    shim.SessionClosed: shim.SessionClosed(),
    shim.CloseFailed: shim.CloseFailed(),
    shim.OwnChanged: shim.OwnChanged(),
    shim.OwnRead: shim.OwnRead(1, None),
    shim.ReadFailed: shim.ReadFailed(1),
    shim.WriteCommitted: shim.WriteCommitted("op", 1000.0, 8),
    shim.WriteRejected: shim.WriteRejected("op", LAYOUT.own("job"), "bad_version"),
    shim.WriteNotSent: shim.WriteNotSent("op"),
    shim.WriteOutcomeUnknown: shim.WriteOutcomeUnknown("op"),
    shim.Executed: shim.Executed(),
    shim.ExecFailed: shim.ExecFailed("no such file", True),
    shim.ExecLate: shim.ExecLate(),
    shim.Exited: shim.Exited(1, "the end", None, (Cause.STOPPED, "why")),
    shim.TreeSeen: shim.TreeSeen(True),
    shim.Reported: shim.Reported("progress", query="q"),
    shim.Sampled: shim.Sampled(USE),
    shim.Unheard: shim.Unheard(shim.Order("stop")),
    shim.StopAsked: shim.StopAsked(),
    shim.Diagnosed: shim.Diagnosed("/log.diagnostics.txt"),
    shim.DeadlineUnwritable: shim.DeadlineUnwritable(),
}


def settling() -> ShimWorld:
    world = unsure()
    world.answer("lost")
    return world


def starting() -> ShimWorld:
    world = ShimWorld()
    world.connect()
    world.run()
    return world


def stopping() -> ShimWorld:
    world = running()
    world.deliver(shim.StopAsked())
    return world


def killing() -> ShimWorld:
    world = stopping()
    world.driver = False
    world.deliver(shim.Exited(1))
    return world


def done() -> ShimWorld:
    world = burying()
    world.run()
    return world


def prepared() -> ShimWorld:
    return ShimWorld(PREPARED)


BEGINNINGS: dict[Stage, Callable[[], ShimWorld]] = {
    Stage.PREPARED: prepared,
    Stage.CONNECTING: ShimWorld,
    Stage.CLAIMING: unsure,
    Stage.SETTLING: settling,
    Stage.STARTING: starting,
    Stage.RUNNING: running,
    Stage.STOPPING: stopping,
    Stage.KILLING: killing,
    Stage.BURYING: burying,
    Stage.DONE: done,
}


def cell(stage: Stage, event: type) -> Any:
    return machine.TABLE[event][machine.COLUMNS.index(stage)]


def handlers() -> set[Any]:
    cells = [handler for row in (*machine.TABLE.values(), *machine.OUTCOMES.values()) for handler in row]
    return {*cells, *machine.TIME.values()}


def test_every_event_has_a_cell_in_every_stage() -> None:
    assert set(machine.TABLE) == set(typing.get_args(Event)) == set(SAMPLES)
    assert tuple(Stage) == machine.COLUMNS
    assert {len(row) for row in machine.TABLE.values()} == {len(Stage)}
    assert set(machine.TIME) == set(Stage)


def test_every_write_has_a_cell_for_every_outcome() -> None:
    settled = {event for event, row in machine.TABLE.items() if machine.outcome in row}
    assert set(machine.OUTCOMES) == settled
    assert {len(row) for row in machine.OUTCOMES.values()} == {len(machine.WRITES)}


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("event", SAMPLES.values(), ids=lambda event: type(event).__name__)
def test_what_is_ignored_is_no_more_than_time_that_passes(stage: Stage, event: Event) -> None:
    """Also when it is the answer to the request that is under way: that is over then, and nothing else."""
    world = BEGINNINGS[stage]()
    assert world.stage() is stage
    now = Now(world.now_s + 0.25, world.now_s + 0.25 + world.offset_s)
    state = awaiting(world.state, event)
    stepped = machine.step(state, event, now)
    assert isinstance(stepped[0].stage, Stage)
    assert all(isinstance(effect, typing.get_args(shim.Effect)) for effect in stepped[1])
    if cell(stage, type(event)) is machine.ignored:
        assert stepped == machine.step(over(state, event), shim.Tick(), now)


def awaiting(state: ShimState, event: Event) -> ShimState:
    """The same state, but that ``event`` is the answer to what is under way, where a stage has such an answer."""
    if isinstance(event, shim.OwnRead | shim.ReadFailed):
        return replace(state, reading=True, token=event.token, op="", what="")
    if type(event) in machine.OUTCOMES and cell(state.stage, type(event)) is machine.outcome:
        return replace(state, reading=False, op="op", what=state.what or "renew")
    return state


def over(state: ShimState, event: Event) -> ShimState:
    """The same state, but that what ``event`` answers is not under way any more."""
    if state.stage is Stage.DONE or not isinstance(event, shim.OwnRead | shim.ReadFailed):
        return state
    if isinstance(event, shim.OwnRead):
        state = replace(state, lease_exists=event.lease_version is not None, live=event.live)
    return replace(state, reading=False, read_at_s=None)


@pytest.mark.parametrize("event", SAMPLES.values(), ids=lambda event: type(event).__name__)
def test_after_the_end_nothing_happens(event: Event) -> None:
    assert cell(Stage.DONE, type(event)) is machine.ignored
    world = done()
    assert machine.step(world.state, event, Now(9e9, 0.0)) == (world.state, ())


def test_every_handler_is_come_to() -> None:
    come_to: set[Any] = set()
    with recorded(come_to):
        for seed in range(PLAYS):
            rng = random.Random(seed)
            world = rng.choice([*BEGINNINGS.values()])()
            world.takes_orders = rng.random() < 0.5
            for _ in range(STEPS_OF_A_PLAY):
                if not world.finished:
                    one_step(world, rng)
    assert {name_of(handler) for handler in handlers() - come_to} == set()


def name_of(handler: Any) -> str:
    return f"{handler.__module__}.{handler.__name__}"


@contextmanager
def recorded(come_to: set[Any]) -> Iterator[None]:
    """Within it, each handler that is called is added."""

    def noting(handler: Any) -> Any:
        def recorded(*arguments: Any) -> None:
            come_to.add(handler)
            handler(*arguments)

        return recorded

    with ExitStack() as stack:
        for table in (machine.TABLE, machine.OUTCOMES):
            rows = {event: tuple(noting(handler) for handler in row) for event, row in table.items()}
            stack.enter_context(mock.patch.dict(table, rows))  # type: ignore[arg-type]
        times = {stage: noting(handler) for stage, handler in machine.TIME.items()}
        stack.enter_context(mock.patch.dict(machine.TIME, times))  # type: ignore[arg-type]
        yield


def one_step(world: ShimWorld, rng: random.Random) -> None:
    """One thing that happens in life."""
    if world.stage() is Stage.PREPARED:
        play(
            world,
            [
                rng.choice(
                    [
                        ("agent", "wanted"),
                        ("agent", "hand over"),
                        ("agent", "hand over another's"),
                        ("agent", "discard"),
                        ("link", "stop"),
                    ]
                )
            ],
        )
    kind = rng.choice(["answer", "answer", "answer", "wait", "link", "own", "driver", "starter", "pause"])
    if kind == "starter":
        starter(world, rng)
    elif kind == "pause":
        world.nodes.pop(LAYOUT.pause, None)
        world.deliver(shim.Sampled(USE))
    else:
        play(world, [(kind, rng.choice(CHOICES[kind]))])


CHOICES: dict[str, list[Any]] = {
    "answer": OUTCOMES,
    "wait": [0.1, 1.0, 8.0],
    "link": ["connect", "connect", "connect", "disconnect", "lose", "give up", "late", "watch", "stop"],
    "own": ["bump", "drain", "revoke", "wreck", "repair"],
    "driver": ["executed", "exits", "kill works", "kill fails", *REPORTS],
}


def starter(world: ShimWorld, rng: random.Random) -> None:
    """What can become of it, before and after it was let go."""
    if world.stage() in (Stage.PREPARED, Stage.CONNECTING, Stage.CLAIMING):
        world.deliver(shim.Exited(1))
    elif world.stage() is Stage.STARTING:
        world.driver = world.tree = False
        ended = (shim.ExecLate(), shim.ExecFailed("no such file", True), shim.DeadlineUnwritable())
        world.deliver(rng.choice(ended))
