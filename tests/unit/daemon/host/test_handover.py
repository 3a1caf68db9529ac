"""Whether an attempt is handed to a prepared driver, or starts cold: what must be the same, and what may not go wrong."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from supervisor.clients import run_dir
from supervisor.clock import boottime_s
from supervisor.daemon.host import launcher
from supervisor.daemon.host.hosted_attempts import HostedState
from supervisor.daemon.host.launcher import TrustCheck
from supervisor.model.launch import GATE, PREPARE_LEVEL, PREPARED, Launch
from supervisor.model.records import Assignment, Cause, Preparation, PrepareLevel
from supervisor.spark.class_archive.choice import OPTIONS_KEY
from supervisor.spark.driver_start import PROPERTIES
from supervisor.spark.fence.choice import OWNER_KEY
from supervisor.spark.gate.agent import with_agent
from supervisor.spark.properties import render_properties
from supervisor.spark.refusal import Refused
from supervisor.spec.job import JobSpec
from tests.unit.daemon.host.prepared_bench import GONE, Ear, me, request
from tests.unit.daemon.host.test_launcher import Slow, given

KEY = "uid-a.3"


class Site(Slow):
    """Its job has a local file, a secret and a property; shims are this process, and say at once that they are ready."""

    def __init__(self, directory: Path, **capacity: int) -> None:
        super().__init__(directory, 1, **({"drivers": 9, "memory_bytes": 1000} | capacity))
        self.application = directory / "app.py"
        self.application.write_text("pass")
        self.env = {"SECRET": "s3cret", "SPARK_SUPERVISOR_CHECKPOINT": "s3a://b/x"}
        self.properties = {"spark.x": "1"}
        self.fetched = "content"
        self.cwd = str(self.hosted.state.of_job("uid-a") / "cwd")
        self.is_python = True
        self.spawned: list[str] = []
        self.together = threading.Barrier(1)

    def _spec(self, given: Assignment) -> JobSpec:
        named = self.application if self.is_python else self.application.with_suffix(".jar")
        return JobSpec(name=given.name, application=f"local:{named}", unbounded=False)

    def _launch(
        self, given: Assignment, key: str, spec: JobSpec, request: Preparation | None = None
    ) -> Launch:
        launch = super()._launch(given, key, spec, request)
        work, run = self.hosted.work_dir / key, self.hosted.attempts_dir / key
        (work / "files").mkdir(parents=True, exist_ok=True)
        (work / "files" / "fetched.py").write_text(self.fetched)
        owner = f"attempt={given.attempt}"
        own = dict(self.properties)
        if request is not None and request.level is PrepareLevel.APPLICATION:
            own[OPTIONS_KEY] = with_agent(
                own.get(OPTIONS_KEY, ""), Path("/run/fence/query-gate-1.jar"), run / "opening"
            )
        text = render_properties({**own, OWNER_KEY: owner, "spark.files": f"{work}/files/fetched.py"})
        (work / PROPERTIES).write_text(text)
        env = {
            **({PREPARE_LEVEL: request.level.value} if request is not None else {}),
            **self.env,
            "SPARK_SUPERVISOR_ATTEMPT": str(given.attempt),
            "SPARK_SUPERVISOR_REPORT": f"{run}/report",
            "TMPDIR": f"{self.hosted.state.tmp_of(key)}/t",
        }
        argv = ("spark-submit", "--properties-file", f"{work}/{PROPERTIES}", "app")
        return replace(launch, env=env, argv=argv, cwd=self.cwd, hosts="now:1")

    def shim(self, directory: str, _cgroup: str | None) -> object:
        self.spawned.append(Path(directory).name)
        run_dir.write_process(f"{directory}/{run_dir.SHIM}", me(), "c1")
        if ".p" in Path(directory).name:
            run_dir.write_readiness(directory, run_dir.Readiness(True, "", 1.0))
        return SimpleNamespace(pid=1)

    def prepare(self, asked: Preparation | None = None) -> str:
        self.bring_up(asked or request())
        return self.spawned[-1]

    def begin(self, **changes: object) -> None:
        entry = replace(given("a"), attempt=3, own_version=7, **({"prepared": True} | changes))  # type: ignore[arg-type]
        self.start(entry, TrustCheck(boottime_s(), lambda: None))

    def reported(self) -> list[str]:
        return [failure.why for failure in self._prepared._books.pauses.values()]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    made = Site(tmp_path)
    monkeypatch.setattr(launcher, "spawn_shim", made.shim)
    yield made


def test_a_driver_is_prepared_as_a_start_is_but_waits_for_its_opening(site: Site) -> None:
    key = site.prepare(request(priority=3))
    launch = site.hosted.prepared()[key]
    directory = site.hosted.attempts_dir / key
    assert launch.waits_for_assignment and launch.prepared == key and key.startswith("uid-a.p")
    assert launch.env[PREPARED] == str(directory / run_dir.OPENING)
    assert launch.env[PREPARE_LEVEL] == "session"
    assert launch.log_path == str(site.hosted.log_dir / "a" / f"{key}.log")
    assert site.hosted.launches() == {}, "it is no attempt"


def test_an_attempt_is_handed_to_a_prepared_driver_of_the_same(site: Site) -> None:
    prepared_key = site.prepare()
    ear = Ear(site.hosted.attempts_dir / prepared_key)
    site.begin()
    assert site.spawned == [prepared_key] and ear.heard() == ["handed"]
    was, now = site.hosted._prepared[prepared_key], site.hosted.launches()[KEY]
    assert (now.argv, now.cwd, now.cgroup, now.prepared) == (was.argv, was.cwd, was.cgroup, prepared_key)
    assert (now.assignment.attempt, now.assignment.own_version) == (3, 7)
    assert now.env == {"SPARK_SUPERVISOR_ATTEMPT": "3", "SPARK_SUPERVISOR_CHECKPOINT": "s3a://b/x"}
    assert now.hadoop_conf == {"supervisor.fence.owner": "attempt=3"}
    assert now.log_path.endswith("uid-a.3.log") and now.looked_s > 0
    assert site.hosted.prepared() == {} and (site.hosted.attempts_dir / KEY).readlink() == Path(prepared_key)
    site.hosted.tidy(frozenset())
    assert os.listdir(site.hosted.work_dir) == [prepared_key]
    assert site.hosted.fresh.is_set()
    ear.close()


@pytest.mark.parametrize("options", ["", "-Dx=y"])
def test_an_attempt_is_handed_to_one_with_the_gate_of_queries(site: Site, options: str) -> None:
    """A cold start, with which it is compared, has none."""
    site.properties = {"spark.x": "1", **({OPTIONS_KEY: options} if options else {})}
    prepared_key = site.prepare(request(level=PrepareLevel.APPLICATION))
    assert "-javaagent:" in (site.hosted.work_dir / prepared_key / PROPERTIES).read_text()
    site.begin()
    assert site.spawned == [prepared_key]
    assert site.hosted.launches()[KEY].prepared == prepared_key


def test_what_names_the_attempt_on_a_cluster_is_told_at_the_opening(site: Site) -> None:
    prepared_key = site.prepare()
    site.properties = {**site.properties, "spark.yarn.tags": "ours,spark-supervisor-attempt-uid-a-3"}
    site.begin()
    assert site.spawned == [prepared_key]
    now = site.hosted.launches()[KEY]
    assert now.spark_conf == {"spark.yarn.tags": "ours,spark-supervisor-attempt-uid-a-3"}


def test_before_a_start_its_cluster_is_looked_at_for_what_is_left(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, int]] = []
    monkeypatch.setattr(site, "_on_start", lambda on, given: asked.append((on, given.uid, given.attempt)))
    site.prepare()
    assert asked == [], "a prepared driver is no attempt"
    site.begin()
    assert asked == [("", "uid-a", 3)]


def test_without_the_leaders_word_it_starts_cold(site: Site) -> None:
    site.prepare()
    site.begin(prepared=False)
    assert site.spawned[-1] == KEY and len(site.hosted.prepared()) == 1


def change_file(site: Site) -> None:
    site.application.write_text("fail")


CHANGES = {
    "secret": (lambda site: site.env.update(SECRET="other"), "the variable SECRET"),
    "variable": (lambda site: site.env.pop("SECRET"), "the variable SECRET"),
    "property": (lambda site: site.properties.update({"spark.x": "2"}), "the property spark.x"),
    "new property": (lambda site: site.properties.update({"spark.y": "2"}), "the property spark.y"),
    "file": (change_file, "app.py has changed"),
    "removed file": (lambda site: site.application.unlink(), "app.py has changed"),
    "fetched": (lambda site: setattr(site, "fetched", "other"), "the file fetched.py has changed"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changed_meanwhile_means_a_cold_start_and_is_told(site: Site, what: str) -> None:
    change, why = CHANGES[what]
    prepared_key = site.prepare()
    ear = Ear(site.hosted.attempts_dir / prepared_key)
    before = (site.hosted.work_dir / prepared_key / PROPERTIES).read_text()
    change(site)
    site.begin()
    assert site.spawned == [prepared_key, KEY] and ear.heard() == ["discard"]
    (reported,) = site.reported()
    assert why in reported and "s3cret" not in reported and "other" not in reported.replace("another", "")
    assert (site.hosted.work_dir / prepared_key / PROPERTIES).read_text() == before, "it is not overwritten"
    assert not (site.hosted.attempts_dir / KEY).is_symlink()
    ear.close()


@pytest.mark.parametrize("changes", [{"revision": 2}, {"driver_memory": 5}, {"uid": "uid-b"}])
def test_for_another_revision_or_memory_it_starts_cold(site: Site, changes: dict[str, object]) -> None:
    site.prepare()
    site.begin(**changes)
    assert len(site.spawned) == 2


def test_a_driver_without_its_properties_is_not_taken(site: Site) -> None:
    prepared_key = site.prepare()
    (site.hosted.work_dir / prepared_key / PROPERTIES).unlink()
    site.begin()
    assert site.spawned[-1] == KEY and "can't be read" in site.reported()[0]


def test_of_two_each_attempt_takes_one(site: Site) -> None:
    first, second = site.prepare(), site.prepare()
    site.begin()
    site.start(
        replace(given("a"), attempt=4, own_version=9, prepared=True), TrustCheck(boottime_s(), lambda: None)
    )
    assert site.spawned == [first, second]
    taken = {site.hosted.prepared_key_of(key) for key in ("uid-a.3", "uid-a.4")}
    assert taken == {first, second}


def test_a_dead_one_is_passed_over(site: Site) -> None:
    first, second = site.prepare(), site.prepare()
    run_dir.write_process(str(site.hosted.attempts_dir / first / run_dir.SHIM), GONE, "c")
    site.begin()
    assert site.hosted.prepared_key_of(KEY) == second


def test_an_agent_that_died_with_the_link_made_goes_on_there(site: Site) -> None:
    _, second = site.prepare(), site.prepare()
    (site.hosted.attempts_dir / KEY).symlink_to(second)
    assert site.hosted.state_of(KEY) is HostedState.LINKED
    site.begin()
    assert site.hosted.launches()[KEY].prepared == second and len(site.spawned) == 2


@pytest.mark.parametrize("how", ["dead", "changed"])
def test_a_link_to_one_that_cannot_take_it_any_more_is_taken_away(site: Site, how: str) -> None:
    only = site.prepare()
    (site.hosted.attempts_dir / KEY).symlink_to(only)
    if how == "dead":
        run_dir.write_process(str(site.hosted.attempts_dir / only / run_dir.SHIM), GONE, "c")
    else:
        site.env["SECRET"] = "x"
    site.begin()
    assert site.spawned[-1] == KEY and not (site.hosted.attempts_dir / KEY).is_symlink()
    assert set(site.hosted.launches()) == {KEY}


def test_one_that_dies_at_the_last_moment_costs_a_cold_start_only(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory is removed by the guardian while the attempt is being handed over."""
    only = site.prepare()
    real = run_dir.hand_over

    def hand_over(attempts: str, prepared_key: str, key: str, launch: bytes) -> bool:
        assert run_dir.remove(f"{attempts}/{prepared_key}")
        return real(attempts, prepared_key, key, launch)

    monkeypatch.setattr(run_dir, "hand_over", hand_over)
    site.begin()
    assert site.spawned == [only, KEY] and set(site.hosted.launches()) == {KEY}


@pytest.mark.parametrize("written", [False, True])
def test_a_disk_that_fails_while_it_is_handed_over(
    site: Site, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """What was handed over is never started again; what was not starts cold."""
    only, real = site.prepare(), run_dir.hand_over

    def hand_over(attempts: str, prepared_key: str, key: str, launch: bytes) -> bool:
        if written:
            real(attempts, prepared_key, key, launch)
        else:
            os.symlink(prepared_key, f"{attempts}/{key}")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_dir, "hand_over", hand_over)
    site.begin()
    assert site.spawned == ([only] if written else [only, KEY])
    assert set(site.hosted.launches()) == {KEY}


def test_the_gate_of_a_driver_that_was_prepared_is_in_its_own_directory(site: Site) -> None:
    only = site.prepare()
    held = site._barrier.held(KEY, replace(site.hosted.prepared()[only]))
    assert held.env[GATE] == str(site.hosted.attempts_dir / only / run_dir.GATE)


def test_a_start_gets_the_room_of_prepared_drivers_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, capacity in enumerate(({"drivers": 2}, {"memory_bytes": 20})):
        home = tmp_path / str(number)
        home.mkdir()
        site = Site(home, **capacity)
        monkeypatch.setattr(launcher, "spawn_shim", site.shim)
        low, high = site.prepare(request("b")), site.prepare(request("c", priority=1))
        ears = [Ear(site.hosted.attempts_dir / key) for key in (low, high)]
        site.begin(prepared=False)
        assert site.spawned[-1] == KEY
        assert [ear.heard() for ear in ears] == [["discard"], []]
        for ear in ears:
            ear.close()


def test_the_driver_that_a_start_is_meant_for_is_not_discarded_for_its_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, drivers=1, memory_bytes=10)
    monkeypatch.setattr(launcher, "spawn_shim", site.shim)
    only = site.prepare()
    site.begin(memory=10)
    assert site.spawned == [only] and set(site.hosted.launches()) == {KEY}


def test_what_cannot_be_prepared_is_refused_and_leaves_nothing(site: Site) -> None:
    site.is_python = False
    with pytest.raises(Refused) as refused:
        site.bring_up(request())
    assert refused.value.cause is Cause.NOT_STARTED
    assert site.spawned == [] and site._prepared.under_way == frozenset()


def test_a_shim_that_cannot_be_started_leaves_no_prepared_driver(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_directory: str, _cgroup: str | None) -> object:
        raise launcher.SupervisorError("no process left")

    monkeypatch.setattr(launcher, "spawn_shim", none)
    with pytest.raises(Refused):
        site.bring_up(request())
    assert site.hosted.prepared() == {} and site._prepared.under_way == frozenset()
