"""Short stories for ``memory_world``; each ends with the job gone. Together they pass every point of leader and commands."""

from __future__ import annotations

from collections.abc import Callable

from supervisor.model.records import Cause, PrepareLevel, RollbackRule, UpdatePolicy
from supervisor.model.restart import OnExhausted
from tests.crash_points.memory_world import HOSTS, MemoryWorld


def launch(world: MemoryWorld) -> None:
    world.user("submit")
    world.resolve_outcome()
    _gone(world)


def again(world: MemoryWorld) -> None:
    world.user("submit")
    world.resolve_outcome()
    _exit(world, Cause.USER_ERROR, 1)
    for what in ("restart", "suspend", "resume"):
        world.resolve_outcome()
        world.user(what)
    world.resolve_outcome()
    _gone(world)


def finished(world: MemoryWorld) -> None:
    world.user("submit", unbounded=False)
    world.resolve_outcome()
    world.wanted = "gone"
    _exit(world, Cause.FINISHED, 0)
    world.resolve_outcome()


def failed(world: MemoryWorld) -> None:
    world.user("submit", attempts=0)
    world.resolve_outcome()
    world.wanted = "failed"
    _exit(world, Cause.USER_ERROR, 1)
    world.resolve_outcome()
    world.user("resume")
    world.resolve_outcome()
    world.wanted = "failed"
    _exit(world, Cause.USER_ERROR, 1)
    world.resolve_outcome()
    _gone(world)


def back(world: MemoryWorld) -> None:
    """To a savepoint, suspended; to it again; and once more after it has failed."""
    world.user("submit", attempts=0)
    for _ in range(2):
        world.resolve_outcome()
        world.user("suspend")
        world.resolve_outcome()
        world.user("resume_from", attempts=0)
    world.resolve_outcome()
    world.wanted = "failed"
    _exit(world, Cause.USER_ERROR, 1)
    world.resolve_outcome()
    world.user("resume_from", attempts=0)
    world.resolve_outcome()
    _gone(world)


def exhausted(world: MemoryWorld) -> None:
    world.user("submit", attempts=0, then=OnExhausted.SUSPEND)
    world.resolve_outcome()
    if world.wanted == "running":  # nobody has cancelled it meanwhile
        world.wanted = "suspended"
    _exit(world, Cause.USER_ERROR, 1)
    world.resolve_outcome()
    _gone(world)


def lost(world: MemoryWorld) -> None:
    """The shim's host vanishes: the full wait, the revocation, and the next attempt."""
    world.user("submit")
    world.resolve_outcome()
    world.vanish()
    for _ in range(10):
        world.round()
    world.resolve_outcome()
    _gone(world)


def lost_and_suspended(world: MemoryWorld) -> None:
    """Nobody writes a tombstone for a job that shall not run: it is buried after the full wait."""
    world.user("submit")
    world.resolve_outcome()
    world.vanish()
    world.user("suspend")
    for _ in range(20):
        world.round()
    world.resolve_outcome()
    _gone(world)


def unassigned(world: MemoryWorld) -> None:
    """The chosen host is gone before a shim was started; so are all, for a while."""
    world.starting = False
    world.user("submit")
    for _ in range(3):
        world.round()
    for host in HOSTS:
        world.lose_host(host)
    for _ in range(3):
        world.round()
    for host in HOSTS:
        world.bring_host(host)
    world.starting = True
    world.resolve_outcome()
    _gone(world)


def swept(world: MemoryWorld) -> None:
    """Blobs of nobody, and results of older uids."""
    for _ in range(2):
        world.user("submit")
        world.resolve_outcome()
        _gone(world)
    world.store.objects["specs/a/000000000000-a/1-" + "0" * 64 + ".json"] = b"nobody's"
    world.sweep()
    world.user("submit")
    world.resolve_outcome()
    _gone(world)


def prepared(world: MemoryWorld) -> None:
    """A restart by hand-over: the next driver is asked for, the present one is stopped when it is ready, and the request is
    taken back."""
    world.user("submit", prepare=PrepareLevel.SESSION)
    world.resolve_outcome()
    world.user("restart")
    world.resolve_outcome()
    _gone(world)


def updated(world: MemoryWorld) -> None:
    """Another spec, by hand-over, and back again by a roll back."""
    world.user("submit", prepare=PrepareLevel.SESSION)
    world.resolve_outcome()
    world.user("update", prepare=PrepareLevel.SESSION)
    world.resolve_outcome()
    world.user("roll_back")
    world.resolve_outcome()
    _gone(world)


def given_up(world: MemoryWorld) -> None:
    """Another spec, of which no driver can be prepared: what runs is what is wanted again."""
    world.user("submit", prepare=PrepareLevel.SESSION)
    world.resolve_outcome()
    world.unready = "no module named x"
    world.user("update", prepare=PrepareLevel.SESSION)
    world.resolve_outcome()
    _gone(world)


def rolled_back(world: MemoryWorld) -> None:
    """Another spec, whose driver fails while it is observed: what was before is what is wanted again."""
    _failed(world, RollbackRule.CONTINUE)


def back_to_savepoint(world: MemoryWorld) -> None:
    """Another spec, before which a savepoint is made; its driver fails while it is observed, and may have left something."""
    _failed(world, RollbackRule.SAVEPOINT)


def _failed(world: MemoryWorld, rule: RollbackRule) -> None:
    """Another spec, whose driver fails while it is observed."""
    world.user("submit")
    world.resolve_outcome()
    world.user("update", policy=UpdatePolicy(rollback=rule, observe_s=3600.0))
    world.resolve_outcome()
    _exit(world, Cause.USER_ERROR, 1)
    world.resolve_outcome()
    _gone(world)


def observed(world: MemoryWorld) -> None:
    """Another spec, whose driver runs for as long as it is observed."""
    world.user("submit")
    world.resolve_outcome()
    world.user("update", policy=UpdatePolicy(observe_s=1.0))
    for _ in range(4):
        world.round()
    world.resolve_outcome()
    _gone(world)


def pruned(world: MemoryWorld) -> None:
    """The job is in no file any more, and later in one again."""
    world.user("submit")
    world.resolve_outcome()
    world.user("prune")
    world.resolve_outcome()
    world.user("submit")
    world.resolve_outcome()
    _gone(world)


def operated(world: MemoryWorld) -> None:
    world.user("submit")
    world.resolve_outcome()
    world.user("pause")
    world.round()
    world.user("unpause")
    world.resolve_outcome()
    _gone(world)


STORIES: dict[str, Callable[[MemoryWorld], None]] = {
    "launch": launch,
    "again": again,
    "finished": finished,
    "failed": failed,
    "exhausted": exhausted,
    "lost": lost,
    "lost_and_suspended": lost_and_suspended,
    "unassigned": unassigned,
    "swept": swept,
    "back": back,
    "operated": operated,
    "prepared": prepared,
    "updated": updated,
    "given_up": given_up,
    "rolled_back": rolled_back,
    "back_to_savepoint": back_to_savepoint,
    "observed": observed,
    "pruned": pruned,
}


def _exit(world: MemoryWorld, cause: Cause, code: int) -> None:
    """The driver ends by itself."""
    world.exit = (cause, code)
    world.round()
    world.exit = None


def _gone(world: MemoryWorld) -> None:
    world.user("cancel")
    world.wanted = "gone"
    world.resolve_outcome()
