"""The judgements that mean the same in every harness, and the table of who judges which invariant of the protocol.

A harness has a world of its own: the exploration has states, the simulations and the crash points in memory have drivers in
true or virtual time, real processes write down what they do (``tests.faults.checker``). What counts as a violation is one thing
in all of them. It stands here, with one sentence, which begins with the number of the invariant. What only one of them can
see stands in its own judge.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from supervisor.model.transaction import Check, Transaction

JUDGED_BY: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "I1": (
            "crash_points/memory_world.py",
            "explore/executing.py",
            "explore/judge.py",
            "faults/checker.py",
            "simulation/timed/judge.py",
            "simulation/world.py",
        ),
        "I2": (
            "crash_points/memory_world.py",
            "explore/judge.py",
            "explore/users.py",
            "faults/checker.py",
            "simulation/timed/judge.py",
            "simulation/world.py",
        ),
        "I3": ("explore/judge.py", "faults/checker.py", "simulation/timed/judge.py"),
        "I4": ("explore/judge.py", "simulation/timed/judge.py", "simulation/world.py"),
        "I5": ("explore/judge.py", "simulation/timed/judge.py"),
        "I6": ("crash_points/run.py", "explore/judge.py", "faults/checker.py", "simulation/timed/judge.py"),
        "I7": ("explore/judge.py", "simulation/timed/judge.py"),
        "I8": ("explore/judge.py", "explore/operators.py", "explore/placing.py"),
        "I10": ("explore/judge.py", "explore/rest.py", "simulation/timed/judge.py"),
        "I11": (
            "explore/judge.py",
            "explore/operators.py",
            "explore/scenario.py",
            "explore/shims.py",
            "simulation/timed/judge.py",
        ),
    }
)
"""By invariant, the modules below ``tests`` that say when it is broken."""

HELD_BY_TESTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"I9": ("fuzz/registry.py", "faults/test_isolation.py", "unit/plan/test_whatever_is_seen.py")}
)
"""I9 is about what an odd record does to *other* jobs. The worlds of the harnesses have no odd records: the fuzz makes them by
the thousand and compares every other job with a run without them, and real processes show it for each kind."""


class Driver(NamedTuple):
    """One driver, as a judge needs it. ``place`` is its checkpoint; it is empty where the world has none."""

    name: str
    uid: str
    attempt: int
    place: str = ""

    @property
    def title(self) -> str:
        return f"{self.name} {self.uid}.{self.attempt}"


def exclude_each_other(one: Driver, other: Driver) -> bool:
    """Whether I1 forbids that both live: they have one name, or one checkpoint."""
    return one.name == other.name or (one.place != "" and one.place == other.place)


def two_writers(new: Driver, old: Driver) -> str:
    """I1: ``new`` is executed while executors of the lost attempt ``old`` may still run its tasks."""
    return f"I1: driver {new.title} is executed while executors of the lost {old.title} are alive"


def two_drivers(new: Driver, old: Driver) -> str:
    """I1: ``new`` is executed while ``old`` is alive, and they exclude each other."""
    return f"I1: driver {new.title} is executed while driver {old.title} is alive"


def executed_again(new: Driver, earlier: Container[tuple[str, int]]) -> str | None:
    """I1: an attempt is executed once. ``earlier`` has the uid and number of those that were."""
    if (new.uid, new.attempt) not in earlier:
        return None
    return f"I1: attempt {new.uid}.{new.attempt} is executed a second time"


def claimed_after_cancel(new: Driver, cancelled: Container[str]) -> str | None:
    """I2: no claim commits for a uid whose cancel was acknowledged."""
    if new.uid not in cancelled:
        return None
    return f"I2: {new.title} is claimed after the cancel of {new.uid} was acknowledged"


def registered_after_cancel(name: str, uid: str, cancelled: Container[str]) -> str | None:
    """I2: no uid whose cancel was acknowledged is registered again."""
    return f"I2: {name} {uid} is registered after its cancel was acknowledged" if uid in cancelled else None


def outlived_cancel(driver: Driver, how_long: str) -> str:
    """I2: an attempt that was claimed before the cancel is gone within its bound. ``how_long``: since the acknowledgement."""
    return f"I2: driver {driver.title} is alive {how_long} after its cancel was acknowledged"


def lost_job(name: str, uid: str, known: Container[str]) -> str | None:
    """I3: an acknowledged uid is registered, or has a result. ``known`` are those that are or have."""
    return (
        None
        if uid in known
        else f"I3: {name} {uid} was acknowledged, and is neither registered nor has a result"
    )


def unguarded(tx: Transaction, epoch_path: str, version: int | None = None) -> str | None:
    """I4: a write of a leader checks /epoch, at ``version`` where the world knows of which term it is."""
    checks = [op for op in tx.ops if isinstance(op, Check) and op.path == epoch_path]
    if any(version is None or op.version == version for op in checks):
        return None
    return f"I4: {tx.what} does not check the persistent epoch"


def executed_unclaimed(new: Driver, *, claimed: bool) -> str | None:
    """I5: no driver is executed before its claim has committed."""
    return None if claimed else f"I5: driver {new.title} is executed, and its claim has not committed"


def reference_and_result(name: str, uid: str, results: Container[str]) -> str | None:
    """I7: a registered uid has no result. ``results`` are the uids that have one."""
    return f"I7: {name} {uid} is registered and has a result" if uid in results else None
