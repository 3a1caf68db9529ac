"""The room of a host, when several threads start attempts at once."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from supervisor.clients import run_dir
from supervisor.clients.signatures import sign
from supervisor.clock import boottime_s
from supervisor.daemon.host import launcher
from supervisor.daemon.host.launcher import HostedAttempts, Launcher, TrustCheck
from supervisor.metrics import Metrics
from supervisor.model.launch import Launch
from supervisor.model.records import Assignment, BlobRef, Preparation
from supervisor.records.codec import encode
from supervisor.settings.clusters import ClusterSettings
from supervisor.settings.file import Settings, StoreSettings
from supervisor.settings.policy import PolicySettings
from supervisor.settings.spark import SparkSettings
from supervisor.spark.refusal import Refused
from supervisor.spec.job import JobSpec
from supervisor.spec.signed import signed_text
from tests.attacks.test_signed_submits import made_key
from tests.golden.sample_records import SAMPLES


def given(name: str) -> Assignment:
    return Assignment(
        name=name,
        uid=f"uid-{name}",
        attempt=1,
        revision=1,
        job_version=0,
        own_version=0,
        spec=BlobRef(key="specs/x.json", sha256="0" * 64, bytes=1),
        memory=1,
    )


class Slow(Launcher):
    """Preparing ends when ``together`` threads are at it, or when no more can come."""

    checkpoint: str | None = None

    def __init__(
        self,
        directory: Path,
        together: int,
        allowed: tuple[str, ...] = ("*",),
        signers: tuple[Path, ...] = (),
        **capacity: int,
    ) -> None:
        settings = SimpleNamespace(
            cluster="test",
            supervisor=SimpleNamespace(capacity=SimpleNamespace(**capacity)),
            store=StoreSettings(url="file:///store"),
            policy=PolicySettings(checkpoints=allowed, submit_signers=signers),
            spark=SparkSettings(),
            clusters={},
        )
        self.hosted = HostedAttempts(directory / "run", directory / "log")
        self.directory = directory
        self.together = threading.Barrier(together)
        super().__init__(
            cast(Settings, settings), "h", lambda: cast(Any, None), self.hosted, None, Metrics(boottime_s)
        )

    def _spec(self, given: Assignment) -> JobSpec:
        return JobSpec(name="a", application="local:/app.py", checkpoint=self.checkpoint, unbounded=False)

    def _launch(
        self, given: Assignment, key: str, spec: JobSpec, request: Preparation | None = None
    ) -> Launch:
        try:
            self.together.wait(0.5)
        except threading.BrokenBarrierError:
            pass
        argv = ("true",)
        return Launch(
            cluster="test",
            hosts="h:1",
            root="/r",
            session_timeout_s=6.0,
            supervisor="s",
            host="h",
            assignment=given,
            lease_s=12.0,
            stop_grace_s=5.0,
            start_timeout_s=60.0,
            stall_timeout_s=60.0,
            unbounded=True,
            reports=True,
            argv=argv,
            env={},
            cwd=str(self.directory),
            log_path=str(self.directory / "log" / f"{key}.log"),
        )

    def try_start(self, name: str) -> str:
        try:
            self.start(given(name), TrustCheck(boottime_s(), lambda: None))
        except Refused as refused:
            return str(refused)
        return "started"


@pytest.fixture(autouse=True)
def no_shims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "spawn_shim", lambda directory, cgroup: SimpleNamespace(pid=1))


@pytest.mark.parametrize(
    ("capacity", "why"),
    [
        ({"drivers": 1, "memory_bytes": 100}, "has its 1 driver"),
        ({"drivers": 9, "memory_bytes": 1}, "are needed"),
    ],
    ids=["drivers", "memory"],
)
def test_the_last_place_is_given_once(tmp_path: Path, capacity: dict[str, int], why: str) -> None:
    starter = Slow(tmp_path, 2, **capacity)
    with ThreadPoolExecutor(2) as pool:
        came = sorted(pool.map(starter.try_start, ["a", "b"]), key=len)
    assert came[0] == "started" and why in came[1]
    assert len(starter.hosted.keys()) == 1


def test_the_shim_of_an_attempt_that_is_over_may_still_be_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader gives its place away when the tombstone has committed. Refused, the new one would wait in back-off, and
    another of a lower priority would get the place."""
    starter = Slow(tmp_path, 1, drivers=1, memory_bytes=100)
    monkeypatch.setattr(launcher, "ROOM_PATIENCE_S", 60.0)
    assert starter.try_start("a") == "started"
    timer = threading.Timer(0.3, lambda: shutil.rmtree(starter.hosted.attempts_dir / "uid-a.1"))
    timer.start()
    assert starter.try_start("b") == "started"


def test_a_start_that_failed_gives_its_place_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starter = Slow(tmp_path, 1, drivers=1, memory_bytes=100)
    make = starter._launch
    monkeypatch.setattr(
        starter,
        "_launch",
        lambda given, key, spec: (_ for _ in ()).throw(Refused(launcher.Cause.NO_ROOM, "no")),
    )
    assert starter.try_start("a") == "no"
    monkeypatch.setattr(starter, "_launch", make)
    assert starter.try_start("b") == "started"


def test_launches_are_listed_by_many_threads_at_once(tmp_path: Path) -> None:
    """While run directories come and go: nobody sees a dictionary change under its eyes."""
    hosted = HostedAttempts(tmp_path / "run", tmp_path / "log")
    launch = Slow(tmp_path, 1, drivers=1, memory_bytes=1)._launch(
        given("a"), "k", cast(JobSpec, SimpleNamespace(conf={}))
    )
    done = threading.Event()

    def come_and_go() -> None:
        for number in range(150):
            key = f"uid-{number}.1"
            mine = replace(launch, assignment=replace(launch.assignment, uid=f"uid-{number}", attempt=1))
            run_dir.create(str(hosted.attempts_dir), key, encode(mine, 1 << 20))
            if number % 3 == 0:
                run_dir.remove(str(hosted.attempts_dir / key))
        done.set()

    def keep_listing() -> int:
        while not done.is_set():
            hosted.launches()
        return len(hosted.launches())

    with ThreadPoolExecutor(4) as pool:
        looks = [pool.submit(keep_listing) for _ in range(3)]
        pool.submit(come_and_go).result()
        assert {each.result() for each in looks} == {100}


@pytest.mark.parametrize("trusted", [True, False])
def test_a_start_that_took_long_looks_again_whether_the_registry_is_to_be_trusted(
    tmp_path: Path, trusted: bool
) -> None:
    """Its files came slowly: ZooKeeper may have been restored meanwhile, and the shim claims by the newest look."""
    starter = Slow(tmp_path, 1, drivers=1, memory_bytes=100)
    trust_checked_at_s = boottime_s()
    starter.start(
        given("a"),
        TrustCheck(
            trust_checked_at_s - launcher.TRUST_CHECK_LASTS_S, lambda: trust_checked_at_s if trusted else None
        ),
    )
    launches = starter.hosted.launches().values()
    assert [launch.looked_s for launch in launches] == ([trust_checked_at_s] if trusted else [])


def test_what_a_killed_agent_left_of_a_run_directory_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while making it: its launch.json may hold secrets, and the next agent has another pid. What is being made stays."""
    hosted = HostedAttempts(tmp_path / "run", tmp_path / "log")
    attempts = hosted.attempts_dir
    assert run_dir.create(str(attempts), "whole-1.1", b"{}") is not None

    class Death(BaseException):
        pass

    def die(*_: object) -> None:
        raise Death

    with monkeypatch.context() as patched:
        patched.setattr(run_dir.os, "rename", die)
        for key in ("killed-1.1", "made-now-1.1"):
            with pytest.raises(Death):
                run_dir.create(str(attempts), key, b"{}")
    hosted.tidy(frozenset({"made-now-1.1"}))
    assert {entry.name.split(".")[-3] for entry in attempts.iterdir() if entry.name.startswith(".")} == {
        "made-now-1"
    }
    assert hosted.keys() == {"whole-1.1"}


def test_a_launch_file_that_is_about_another_attempt_is_left_alone(tmp_path: Path) -> None:
    hosted = HostedAttempts(tmp_path / "run", tmp_path / "log")
    launch = Slow(tmp_path, 1, drivers=1, memory_bytes=1)._launch(
        given("a"), "k", cast(JobSpec, SimpleNamespace(conf={}))
    )
    run_dir.create(str(hosted.attempts_dir), "another.7", encode(launch, 1 << 20))
    assert hosted.launches() == {}


def test_this_host_refuses_a_checkpoint_that_its_operator_does_not_allow_also_through_a_link(
    tmp_path: Path,
) -> None:
    allowed, outside = tmp_path / "allowed", tmp_path / "outside"
    allowed.mkdir()
    outside.mkdir()
    (allowed / "link").symlink_to(outside)
    starter = Slow(tmp_path, 1, (f"file://{allowed}/*",), drivers=9, memory_bytes=100)
    for at, came in (
        ("outside/a", "policy.checkpoints"),
        ("allowed/link/a", "policy.checkpoints"),
        ("allowed/a", "started"),
    ):
        starter.checkpoint = f"file://{tmp_path}/{at}"
        assert came in starter.try_start(at.replace("/", "-")), at


def test_what_no_signer_has_signed_is_neither_started_nor_prepared(tmp_path: Path) -> None:
    private, public = made_key(tmp_path, "release")
    starter = Slow(tmp_path, 1, signers=(public,), drivers=9, memory_bytes=100)
    assert "policy.submit_signers refuses it: it is not signed" in starter.try_start("a")
    unsigned = next(each for each in SAMPLES if isinstance(each, Preparation))
    with pytest.raises(Refused, match="policy.submit_signers"):
        starter.bring_up(unsigned)
    signature = sign(private, signed_text("test", "a", "0" * 64))
    signed = replace(given("a"), spec=replace(given("a").spec, signature=signature))
    starter.start(signed, TrustCheck(boottime_s(), boottime_s))
    with pytest.raises(Refused, match="of another job"):
        starter.start(replace(signed, name="b", attempt=2), TrustCheck(boottime_s(), boottime_s))


def test_a_driver_that_waits_is_looked_at_with_the_properties_of_its_cluster(tmp_path: Path) -> None:
    """Also where the cluster was taken from this host after its start."""
    slow = Slow(tmp_path, 1, drivers=1, memory_bytes=1)
    on_prod = JobSpec(name="a", application="local:/app.py", cluster="prod", unbounded=False)
    endpoint = {"spark.hadoop.fs.s3a.endpoint": "http://s3:9000"}
    has_it = {"prod": ClusterSettings(master="spark://m1:7077", conf=endpoint)}
    slow._spec = lambda _given: on_prod  # type: ignore[method-assign]
    for clusters, expected in ((has_it, endpoint), ({}, {})):
        slow._settings.clusters = clusters  # type: ignore[misc]
        assert slow._spec_of(given("a")).conf == expected
