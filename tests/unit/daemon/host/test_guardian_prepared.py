"""The guardian on directories of prepared drivers: killed with their shim, and buried only if an attempt was handed over."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from supervisor.clients import processes, run_dir
from supervisor.clients.containment import ScanContainment
from supervisor.clients.run_dir import Readiness
from supervisor.clients.zookeeper import ZooClient
from supervisor.daemon.host.guarded_attempt import GuardStage
from supervisor.daemon.host.guardian import Guardian
from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.daemon.host.housekeeping import ENDED
from supervisor.model.emptiness import Emptiness
from supervisor.model.records import Cause, OwnState
from tests.fakes.registry_bench import Bench
from tests.fakes.zookeeper import MemoryClient
from tests.unit.daemon.host.prepared_bench import hand, launch_of, request, stand

CLAIM = "c1"


class Guarded:
    """A host with one prepared driver, whose shim is a sleeping process, and whose tree is always proven empty."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench = Bench()
        self.uid = self.bench.submit("a").uid
        self.hosted = HostedAttempts(directory, directory / "log")
        self.key = f"{self.uid}.p1"
        self.unused: list[tuple[str, Readiness | None]] = []
        self.ended: list[int] = []
        self.client = MemoryClient(self.bench.zoo)
        self.client.start()
        self.guardian = Guardian(
            self.hosted.attempts_dir,
            "host-a",
            self.bench.layout,
            lambda: cast(ZooClient, self.client),
            on_unused=lambda key, readiness: self.unused.append((key, readiness)),
            on_gone=lambda launch: self.ended.append(launch.assignment.attempt),
        )
        self.shim = subprocess.Popen(["sleep", "600"])
        self.now_s = 1.0
        monkeypatch.setattr(ScanContainment, "kill", lambda _tree, _max_s: 0.1)
        monkeypatch.setattr(ScanContainment, "emptiness", lambda _tree: Emptiness.EMPTY)

    def stand(self, key: str = "", supervisor: str = "host-a", ready: bool | None = True) -> Path:
        asked = request("a", uid=self.uid)
        key = key or self.key
        process = processes.identify(self.shim.pid)
        assert process is not None
        launch = launch_of(asked, key, supervisor=supervisor)
        made = stand(self.hosted, key, asked, shim=process, ready=ready, launch=launch)
        (made / run_dir.SHIM_LOG).write_text("{}\n")
        return made

    def claim(self) -> None:
        """The registry shows the claim of attempt 1 by the shim."""
        self.bench.set_own("a", OwnState.CLAIMED)

    def kill(self) -> None:
        self.shim.kill()
        self.shim.wait(10)

    def tick(self, times: int = 6) -> None:
        for _ in range(times):
            self.guardian.tick(self.now_s)
            self.now_s += 1.5

    def logs(self) -> list[str]:
        directory = self.hosted.attempts_dir.parent / ENDED
        return sorted(os.listdir(directory)) if directory.exists() else []


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    made = Guarded(tmp_path, monkeypatch)
    yield made
    made.guardian.close()
    made.kill()


def test_while_its_shim_lives_it_is_left_alone(guarded: Guarded) -> None:
    directory = guarded.stand()
    guarded.tick(2)
    hand(guarded.hosted, guarded.key, 1)
    guarded.tick(2)
    assert directory.exists() and guarded.shim.poll() is None
    assert [each.key for each in guarded.guardian.guarded_attempts()] == [guarded.key], (
        "the link is no second one"
    )
    assert guarded.unused == []


def test_dead_before_an_attempt_was_handed_over_it_is_removed_and_the_registry_is_not_asked(
    guarded: Guarded,
) -> None:
    directory = guarded.stand(ready=False)
    guarded.claim()
    guarded.tick(1)
    before, asked = guarded.bench.own("a"), list[object]()
    guarded.client.read_many_async = lambda *request: asked.append(request)  # type: ignore[method-assign]
    guarded.kill()
    guarded.tick()
    assert asked == []
    assert not directory.exists() and guarded.bench.own("a") == before
    assert [(key, said and said.why) for key, said in guarded.unused] == [(guarded.key, "no module named x")]
    assert guarded.ended == [], "it was no attempt"
    assert guarded.logs() == [f"a.{guarded.key}.log"]


def test_dead_after_it_the_tombstone_is_written_over_the_claim_of_the_attempt(guarded: Guarded) -> None:
    """It was handed over between two ticks of the guardian, which had read the directory before."""
    directory = guarded.stand()
    guarded.tick(1)
    hand(guarded.hosted, guarded.key, 1)
    guarded.claim()
    guarded.kill()
    guarded.tick()
    own = guarded.bench.own("a")
    assert (own.state, own.cause) == (OwnState.EXITED, Cause.SHIM_DIED) and not directory.exists()
    assert guarded.unused == [] and guarded.logs() == [f"a.{guarded.uid}.1.log"], "kept under the attempt"
    assert guarded.ended == [1]


def test_over_another_attempt_nothing_is_written(guarded: Guarded) -> None:
    guarded.stand()
    hand(guarded.hosted, guarded.key, 1)
    guarded.bench.set_own("a", OwnState.CLAIMED, attempt=2)
    guarded.kill()
    guarded.tick()
    assert guarded.bench.own("a").state is OwnState.CLAIMED


def test_a_corrupt_hand_over_file_means_the_full_wait(guarded: Guarded) -> None:
    directory = guarded.stand()
    hand(guarded.hosted, guarded.key, 1)
    (directory / run_dir.HANDED).write_bytes(b"{")
    guarded.claim()
    guarded.kill()
    guarded.tick()
    assert guarded.bench.own("a").state is OwnState.CLAIMED and not directory.exists()
    assert guarded.unused == []


def test_a_copied_directory_kills_nobody_and_writes_nothing(guarded: Guarded) -> None:
    directory = guarded.stand()
    held = run_dir.take_lock(str(directory))
    assert held is not None
    hand(guarded.hosted, guarded.key, 1)
    guarded.claim()
    copy = guarded.hosted.attempts_dir / f"{guarded.uid}.p2"
    shutil.copytree(directory, copy)
    guarded.tick()
    assert guarded.shim.poll() is None and not copy.exists() and directory.exists()
    assert guarded.bench.own("a").state is OwnState.CLAIMED
    stages = [each.stage for each in guarded.guardian.guarded_attempts()]
    assert stages == [GuardStage.WATCHED]
    os.close(held)


def test_that_of_another_supervisor_is_left_alone(guarded: Guarded) -> None:
    directory = guarded.stand(supervisor="host-b")
    guarded.kill()
    guarded.tick()
    assert directory.exists()


def test_that_of_an_earlier_boot_is_removed_and_nothing_is_written(guarded: Guarded) -> None:
    directory = guarded.stand()
    hand(guarded.hosted, guarded.key, 1)
    guarded.claim()
    shim = run_dir.read_process(str(directory / run_dir.SHIM))
    assert shim is not None
    run_dir.write_process(str(directory / run_dir.SHIM), shim.process._replace(boot_id="b" * 36), CLAIM)
    guarded.tick()
    assert not directory.exists() and guarded.bench.own("a").state is OwnState.CLAIMED


def test_a_deadline_that_comes_near_is_kept_for_a_handed_one_too(guarded: Guarded) -> None:
    directory = guarded.stand()
    hand(guarded.hosted, guarded.key, 1)
    guarded.claim()
    run_dir.DeadlineFile.create(str(directory)).write(5.0)
    guarded.tick()
    assert guarded.shim.wait(10) < 0
    own = guarded.bench.own("a")
    assert (own.state, own.cause) == (OwnState.EXITED, Cause.LEASE_EXPIRED)


def test_a_prepared_directory_without_a_shim_is_removed_in_the_end(guarded: Guarded) -> None:
    directory = guarded.stand()
    (directory / run_dir.SHIM).unlink()
    guarded.tick(20)
    assert not directory.exists()


def test_a_link_to_a_stranger_is_followed_by_nobody(guarded: Guarded, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    guarded.hosted.attempts_dir.mkdir(parents=True, exist_ok=True)
    (guarded.hosted.attempts_dir / f"{guarded.uid}.p9").symlink_to(outside)
    guarded.tick(20)
    assert os.listdir(outside) == ["precious"]


def test_the_attempt_of_another_supervisor_in_a_directory_of_ours_is_not_buried(guarded: Guarded) -> None:
    guarded.stand()
    hand(guarded.hosted, guarded.key, 1, supervisor="host-b")
    guarded.claim()
    guarded.kill()
    guarded.tick()
    assert guarded.bench.own("a").state is OwnState.CLAIMED
