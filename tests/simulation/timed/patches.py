"""Puts a simulated world under the product: clocks, threads, lots, log and ZooKeeper client of its modules.

Only names that modules took from elsewhere are replaced, and put back after the run: none of the product's own code. A
line that is logged as an exception is a defect of the product: the judge is told.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from supervisor.records import codec
from tests.simulation.timed.client import SimClient
from tests.simulation.timed.primitives import Namespaces

if TYPE_CHECKING:
    from tests.simulation.timed.world import TimedWorld

MODULES = (
    "act.carry_out",
    "clients.sessions",
    "clients.threads",
    "clients.zookeeper",
    "coord.contender",
    "coord.epoch_recorder",
    "coord.start_doubt",
    "coord.term",
    "coord.trust",
    "daemon.host.agent",
    "daemon.host.preparer",
    "daemon.leader.controller",
    "daemon.leader.leader",
    "daemon.host.launcher",
    "daemon.process.supervisor",
    "daemon.leader.sweeper",
    "registry.blobs",
    "records.codec",
    "operations.jobs",
    "records.ids",
    "operations.cluster",
    "records.reading",
    "operations.submit",
    "registry.blob_sweep",
    "shim.link",
    "shim.turn",
    "operations.accept_registry",
)
"""Of ``supervisor``: all that runs in the simulation and asks for time, threads, lots, a log or ZooKeeper."""

_decoded: dict[tuple[type[Any], bytes], Any] = {}
_DECODED_MAX = 20_000
_real_decode = codec.decode


def decode(cls: type[Any], data: bytes, path: str) -> Any:
    """``codec.decode``, once per record: they are immutable, and everybody reads the same ones again and again."""
    try:
        return _decoded[cls, data]
    except KeyError:
        record = _real_decode(cls, data, path)
        if len(_decoded) >= _DECODED_MAX:
            _decoded.clear()
        _decoded[cls, data] = record
        return record


class SilentLog:
    """Says nothing, but of exceptions."""

    def __init__(self, defect: Callable[[str], None]) -> None:
        self._defect = defect

    def exception(self, event: str, **about: Any) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, Exception):
            self._defect(f"{event} {about}: {error!r}")

    def debug(self, _event: str, **_about: Any) -> None: ...

    info = warning = error = debug


def replacements(world: TimedWorld) -> dict[str, Any]:
    """What is put in the place of a module's name, if it has one."""
    loop, names = world.loop, Namespaces(world.loop)
    lots = world.lots("secrets")

    def boottime_s() -> float:
        return loop.process.clock.boottime_s(loop.now_s)

    def wall_s() -> float:
        return loop.process.clock.wall_s + loop.now_s

    return {
        "boottime_s": boottime_s,
        "wall_s": wall_s,
        "wall_iso": lambda at_s=None: (
            f"2026-11-21T00:00:00.{int((loop.now_s if at_s is None else 0.0) * 1000):09d}Z"
        ),
        "threading": names.threading,
        "queue": names.queue,
        "time": names.time,
        "Pool": names.pool,
        "wait": names.wait,
        "secrets": SimpleNamespace(
            token_hex=lambda size: f"{lots.getrandbits(8 * size):0{2 * size}x}",
            choice=lots.choice,
        ),
        "log": SilentLog(world.judge.defect),
        "ZooClient": partial(SimClient, world.net),
        "decode": decode,
        "os": SimpleNamespace(fsync=lambda _fd: None),
    }


ONLY = {"time": ("clients.sessions",), "os": ("coord.trust",), "wait": ("act.carry_out",)}


@contextmanager
def installed(world: TimedWorld) -> Iterator[None]:
    """The product runs in ``world`` within this context."""
    new = replacements(world)
    before: list[tuple[ModuleType, str, Any]] = []
    for short in MODULES:
        module = importlib.import_module(f"supervisor.{short}")
        for name, value in new.items():
            if hasattr(module, name) and short in ONLY.get(name, (short,)):
                before.append((module, name, getattr(module, name)))
                setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in reversed(before):
            setattr(module, name, value)
