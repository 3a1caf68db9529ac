"""The events that the guardian reports to its guarded attempts: processes, run directories and ZooKeeper's answers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients import processes, run_dir
from supervisor.clients.containment import CgroupContainment
from supervisor.clients.run_dir import DeadlineFile, ShimRecord
from supervisor.clients.zookeeper import Committed
from supervisor.daemon.host import guardian as module
from supervisor.daemon.host.guarded_attempt import GuardStage
from supervisor.daemon.host.guardian import Guardian
from supervisor.errors import GuardFailed, OutcomeUnknown, SupervisorError
from supervisor.model.emptiness import Emptiness
from supervisor.model.launch import Launch
from supervisor.model.lease_terms import SECOND_KILLER_PERIOD_S
from supervisor.model.transaction import Node, Reads, Stat, Transaction
from supervisor.records.codec import encode
from tests.unit.daemon.host.test_guarded_attempt import CLAIM, CLAIMED, LAUNCH, LAYOUT

KEY, OTHER = "uid-1.1", "uid-2.1"


class Asked:
    """In the place of ZooKeeper: keeps what was asked until it is answered."""

    def __init__(self) -> None:
        self.reads: list[tuple[tuple[str, ...], Callable[[Any], None]]] = []
        self.commits: list[tuple[Transaction, Callable[[Any], None]]] = []

    def read_many_async(
        self, paths: tuple[str, ...], done: Callable[[Reads | SupervisorError], None]
    ) -> None:
        self.reads.append((paths, done))

    def commit_async(self, tx: Transaction, done: Callable[[Committed | SupervisorError], None]) -> None:
        self.commits.append((tx, done))


class Proven:
    """A tree that is seen to be empty."""

    def kill(self, _timeout_s: float) -> float:
        return 0.01

    def emptiness(self) -> Emptiness:
        return Emptiness.EMPTY

    def remove(self) -> None: ...


@contextmanager
def guarding(directory: Path, registry: Any | None = None) -> Iterator[Guardian]:
    guardian = Guardian(directory, "host-a", LAYOUT, lambda: registry)
    try:
        yield guardian
    finally:
        guardian.close()


@contextmanager
def shim_in(
    directory: Path, key: str = KEY, launch: Launch = LAUNCH
) -> Iterator[tuple[subprocess.Popen[bytes], DeadlineFile]]:
    """A process that lives in a run directory."""
    made = run_dir.create(str(directory), key, encode(launch))
    assert made is not None
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            found = processes.identify(process.pid)
            assert found is not None
            run_dir.write_process(f"{made}/{run_dir.SHIM}", found, CLAIM)
            yield process, DeadlineFile.create(made)
        finally:
            process.kill()


def stage_of(guardian: Guardian, key: str = KEY) -> GuardStage:
    return next(
        guarded_attempt.stage for guarded_attempt in guardian.guarded_attempts() if guarded_attempt.key == key
    )


def dies(process: subprocess.Popen[bytes]) -> None:
    """And is a zombie: nobody has waited for it."""
    pidfd = os.pidfd_open(process.pid)
    process.kill()
    assert processes.wait_dead(pidfd, 10)
    os.close(pidfd)


def test_a_deadline_that_was_written_since_is_seen(tmp_path: Path) -> None:
    with guarding(tmp_path) as guardian, shim_in(tmp_path) as (process, deadline):
        guardian.tick(1.0)
        deadline.write(100.0)
        assert guardian.tick(2.0) == SECOND_KILLER_PERIOD_S, (
            "it looks again in time, however far the deadline is"
        )
        assert process.poll() is None
        guardian.tick(99.5)
        assert process.wait(10) < 0


def test_a_torn_deadline_calls_nothing_off(tmp_path: Path) -> None:
    with guarding(tmp_path) as guardian, shim_in(tmp_path) as (process, deadline):
        deadline.write(100.0)
        guardian.tick(1.0)
        os.pwrite(deadline._descriptor, b"12\x0034", 0)
        guardian.tick(2.0)
        guardian.tick(99.5)
        assert process.wait(10) < 0


def test_a_shim_that_nobody_has_waited_for_is_dead(tmp_path: Path) -> None:
    with guarding(tmp_path) as guardian, shim_in(tmp_path) as (process, _):
        guardian.tick(1.0)
        assert stage_of(guardian) is GuardStage.WATCHED
        dies(process)
        guardian.tick(2.0)
        assert guardian.keys() == frozenset() or stage_of(guardian) is not GuardStage.WATCHED


@pytest.mark.parametrize("error", [OutcomeUnknown("cut"), GuardFailed(LAYOUT.own("job"), "bad_version", 0)])
def test_a_tombstone_is_written_when_zookeeper_says_so(tmp_path: Path, error: SupervisorError) -> None:
    asked, before = Asked(), module.ScanContainment
    module.ScanContainment = lambda *_tree: Proven()  # type: ignore[assignment,misc]
    try:
        with guarding(tmp_path, asked) as guardian, shim_in(tmp_path) as (process, _):
            guardian.tick(1.0)
            dies(process)
            for now_s in (2.0, 2.1, 2.2):
                guardian.tick(now_s)
            ((paths, done),) = asked.reads
            assert paths == (LAYOUT.own("job"),)
            done(Reads((Node(encode(CLAIMED), Stat(8, 80)),), 0.0, 0.0))
            guardian.tick(2.3)
            ((_, settled),) = asked.commits
            settled(error)
            for now_s in (2.4, 4.0, 4.1):
                guardian.tick(now_s)
            assert stage_of(guardian) is GuardStage.BURYING and (tmp_path / KEY).exists()
            assert len(asked.reads) == 2, "/own is read again"
    finally:
        module.ScanContainment = before  # type: ignore[misc]


def test_an_answer_is_for_the_attempt_that_asked(tmp_path: Path) -> None:
    asked, before = Asked(), module.ScanContainment
    module.ScanContainment = lambda *_tree: Proven()  # type: ignore[assignment,misc]
    other = replace(LAUNCH, assignment=replace(LAUNCH.assignment, uid="uid-2", name="other"))
    try:
        with (
            guarding(tmp_path, asked) as guardian,
            shim_in(tmp_path) as (one, _),
            shim_in(tmp_path, OTHER, other) as (two, _),
        ):
            guardian.tick(1.0)
            dies(one)
            dies(two)
            for now_s in (2.0, 2.1, 2.2):
                guardian.tick(now_s)
            records = {
                LAYOUT.own("job"): CLAIMED,
                LAYOUT.own("other"): replace(CLAIMED, uid="uid-2", newest_uid="uid-2"),
            }
            for paths, done in asked.reads:
                done(Reads((Node(encode(records[paths[0]]), Stat(8, 80)),), 0.0, 0.0))
            guardian.tick(2.3)
            own = [op.path for commit, _ in asked.commits for op in commit.ops if op.path in records]
            assert sorted(own) == sorted(records), "each buries its own"
    finally:
        module.ScanContainment = before  # type: ignore[misc]


def test_only_the_group_of_the_attempt_proves_that_it_is_empty(tmp_path: Path) -> None:
    group = str(tmp_path / f"{KEY}-group")
    with (
        guarding(tmp_path) as guardian,
        shim_in(tmp_path, launch=replace(LAUNCH, cgroup=group)) as (process, _),
    ):
        guardian.tick(1.0)
        guarded_attempt = guardian.guarded_attempts()[0]
        assert (
            guarded_attempt.shim == ShimRecord(guarded_attempt.shim.process, CLAIM)
            if guarded_attempt.shim
            else False
        )
        watched = guardian._watched[KEY]
        assert isinstance(watched.tree, CgroupContainment) and watched.tree.path == group
        watched.guarded_attempt = replace(guarded_attempt, launch=LAUNCH)
        assert (
            guardian._tree(watched, ShimRecord(guarded_attempt.shim.process, CLAIM)).emptiness()
            is Emptiness.UNPROVABLE
        )  # type: ignore[union-attr]


def test_a_launch_file_about_another_attempt_says_nothing(tmp_path: Path) -> None:
    with guarding(tmp_path) as guardian, shim_in(tmp_path, OTHER):
        guardian.tick(1.0)
        assert guardian.guarded_attempts()[0].launch is None
