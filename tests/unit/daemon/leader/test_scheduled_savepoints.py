"""The leader's savepoints: made once a period whoever leads, removed in order, one job's trouble its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from supervisor.clients.task_child import GoOn, TaskEnded
from supervisor.coord.term import Term
from supervisor.daemon.leader import scheduled_savepoints as module
from supervisor.daemon.leader.savepoint_task import Made, WantedSavepoint
from supervisor.daemon.leader.scheduled_savepoints import ScheduledSavepoints
from supervisor.errors import NotYet, SupervisorError, Unreachable
from supervisor.metrics import Metrics
from supervisor.model.records import Desired, HistoryEntry, Phase
from supervisor.model.savepoint_policy import SavepointPolicy
from supervisor.model.view import View
from supervisor.observe.observer import Observer
from supervisor.registry.checkpoint_claims import CheckpointClaims
from supervisor.savepoints.create import Creation
from supervisor.savepoints.manifest import SavepointStage
from supervisor.savepoints.schedule import id_of, slot_of
from supervisor.savepoints.shelf import Shelf
from tests.fakes.registry_bench import AT, Bench, submission, terms
from tests.fakes.zookeeper import MemoryClient
from tests.unit.checkpoint.golden import unpack
from tests.unit.checkpoint.savepoints import area, begun, place, shelf
from tests.waiting import wait_until

HOUR = 3600.0
HOURLY = SavepointPolicy(every_s=HOUR, keep=2)


class StoreClock:
    """The shelf, but for its clock."""

    def __init__(self, inner: Shelf, now_s: Callable[[], float]) -> None:
        self._inner = inner
        self.now_s = now_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Here:
    """As ``daemon.leader.savepoint_task`` does it, in this process. ``trouble``: of a job, what its creation raises."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.trouble: dict[str, Exception] = {}
        self.made: list[str] = []
        self.shelf: Any = StoreClock(shelf(rig.store), lambda: rig.store_s)

    def create(self, wanted: WantedSavepoint, savepoint: str, timeout_s: float, go_on: GoOn) -> Made:
        if wanted.name in self.trouble:
            raise self.trouble[wanted.name]
        source = Path(wanted.source.removeprefix("file://"))
        what = replace(
            begun(source, place(self._rig.store, savepoint, wanted.name), savepoint, wanted.name),
            every_s=wanted.policy.every_s,
            uid=wanted.uid,
        )
        self.shelf.begin(what)
        done = Creation(area(source), self.shelf.area_of(what), what, lambda: AT).run()
        self.made.append(f"{wanted.name}/{savepoint}")
        return Made(tuple(query.batch for query in done.queries), done.objects, done.bytes)

    def delete(self, name: str, savepoint: str, timeout_s: float, go_on: GoOn) -> None:
        self.shelf.delete(name, savepoint)

    def in_use(self) -> Callable[[str], str | None]:
        places = CheckpointClaims.load(self._rig.client, self._rig.bench.layout)

        def run_once(location: str) -> str | None:
            try:
                places.reserve("", location)
            except SupervisorError as error:
                return str(error)
            return None

        return run_once


class Rig:
    """A registry in memory, a file store, a leader. ``now_s``: BOOTTIME of the leader's host; ``store_s``: of the store."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = directory / "store"
        self.now_s, self.store_s = 1000.0, 1_795_000_000.0
        self.bench = Bench()
        self.client = MemoryClient(self.bench.zoo)
        self.client.start()
        self.metrics = Metrics(lambda: self.now_s)
        self.elect()

    def elect(self) -> None:
        """Another leader, that knows nothing but what is in ZooKeeper and in the store."""
        self.term: Term[Any] = Term(1, 0, self.client, 1e9, depose=lambda why: None)
        self.term.set_recorded()
        self.tasks = Here(self)
        self.paused = False
        self.leader = self.another()

    def another(self) -> ScheduledSavepoints:
        return ScheduledSavepoints(
            self.term, self.view, self.tasks, self.metrics, clock=lambda: self.now_s, tick_s=0.01
        )

    def view(self) -> View:
        view = Observer(self.client, self.bench.layout, lambda: self.now_s, 1).take_view(None)
        return replace(view, paused=self.paused)

    def job(self, name: str, policy: SavepointPolicy | None = HOURLY, checkpoint: str = "") -> None:
        where = checkpoint or f"file://{unpack('files', self.directory / name)}"
        wanted = submission(name, checkpoint=where)
        self.bench.commands().submit(replace(wanted, scheduling=terms(where, savepoints=policy)))
        self.bench.run(name)

    def pass_(self, seconds: float) -> None:
        self.now_s += seconds
        self.store_s += seconds

    def run_once(self) -> list[str]:
        """As the loop does it, one after the other → what was made."""
        before = len(self.tasks.made)
        for wanted in self.leader.due():
            self.leader.see_to(wanted)
        return self.tasks.made[before:]

    def slot(self, name: str) -> str:
        return id_of(slot_of(name, HOUR, self.store_s))

    def there(self, name: str) -> list[str]:
        return [
            entry.id for entry in shelf(self.store).entries(name) if entry.stage is SavepointStage.COMPLETE
        ]

    def series(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"spark_supervisor_job_savepoint{name}", labels)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_once_in_each_period(rig: Rig) -> None:
    rig.job("a")
    slots = []
    for _ in range(3):
        slots.append(rig.slot("a"))
        assert rig.run_once() == [f"a/{slots[-1]}"]
        assert rig.run_once() == []
        rig.pass_(HOUR)
    assert rig.there("a") == slots[1:]  # keep: 2


def test_jobs_without_a_period_or_not_running_get_none(rig: Rig) -> None:
    rig.job("plain", policy=None)
    rig.job("starts")
    rig.bench.run("starts", Phase.SESSION)
    rig.job("suspended")
    ref = rig.bench.ref("suspended").record
    rig.bench.put(
        rig.bench.layout.job("suspended"),
        replace(ref, desired=Desired.SUSPENDED, changed=HistoryEntry(at=AT, event="suspended")),
    )
    assert rig.run_once() == []
    rig.bench.run("starts")
    assert rig.run_once() == [f"starts/{rig.slot('starts')}"]


def test_nothing_while_paused_distrusted_or_not_recorded(rig: Rig) -> None:
    rig.job("a")
    rig.paused = True
    assert rig.run_once() == []
    rig.paused = False
    rig.term.set_distrust("restored")
    assert rig.run_once() == []


def test_the_next_leader_goes_on_without_doubling(rig: Rig) -> None:
    rig.job("a")
    rig.run_once()
    rig.elect()
    assert rig.run_once() == []
    rig.pass_(HOUR)
    assert rig.run_once() == [f"a/{rig.slot('a')}"]


def test_what_a_leader_began_the_next_completes(rig: Rig) -> None:
    rig.job("a")
    (wanted,) = rig.leader.due()
    rig.tasks.shelf.begin(
        replace(
            begun(
                Path(wanted.source.removeprefix("file://")),
                place(rig.store, rig.slot("a"), "a"),
                rig.slot("a"),
                "a",
            ),
            every_s=HOUR,
            uid=wanted.uid,
        )
    )
    rig.elect()
    assert rig.run_once() == [f"a/{rig.slot('a')}"]


def test_two_leaders_at_once_make_one(rig: Rig) -> None:
    rig.job("a")
    zombie = rig.another()
    both = [*rig.leader.due(), *zombie.due()]
    assert len(both) == 2
    rig.leader.see_to(both[0])
    zombie.see_to(both[1])
    assert (rig.there("a"), len(rig.tasks.made)) == ([rig.slot("a")], 1)


@pytest.mark.parametrize("jump_s", [10 * 365 * 86_400.0, -10 * 365 * 86_400.0])
def test_with_a_wrong_clock_of_the_store_one_is_made_each_period_and_the_newest_stays(
    rig: Rig, jump_s: float
) -> None:
    rig.job("a", SavepointPolicy(every_s=HOUR, keep=2, max_age_s=2 * HOUR))
    newest = ""
    for change_s in (0.0, 0.0, jump_s, 0.0, -jump_s, 0.0, 0.0):
        rig.store_s += change_s
        rig.pass_(HOUR)
        (newest,) = rig.run_once()
        assert newest.removeprefix("a/") in rig.there("a")
    assert [rig.slot("a")] == [each for each in rig.there("a") if each == newest.removeprefix("a/")]


def test_the_clock_of_the_host_does_not_count(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.job("a")
    rig.run_once()
    monkeypatch.setattr("time.time", lambda: 1.0)
    rig.elect()
    assert rig.run_once() == []


def test_a_savepoint_of_the_users_is_neither_counted_nor_removed(rig: Rig) -> None:
    rig.job("a", SavepointPolicy(every_s=HOUR, keep=1))
    source = rig.directory / "a" / "files"
    for savepoint in ("mine", rig.slot("a")):  # also under a name that looks like ours
        what = begun(source, place(rig.store, savepoint, "a"), savepoint, "a")
        rig.tasks.shelf.begin(what)
        Creation(area(source), rig.tasks.shelf.area_of(what), what, lambda: AT).run()
    kept = [rig.slot("a"), "mine"]
    assert rig.run_once() == [f"a/{rig.slot('a')}-2"]
    rig.pass_(HOUR)
    assert rig.run_once() == [f"a/{rig.slot('a')}"]
    assert sorted(rig.there("a")) == sorted([*kept, rig.slot("a")])


def test_what_is_in_use_stays_until_it_is_not(rig: Rig) -> None:
    rig.job("a", SavepointPolicy(every_s=HOUR, keep=1))
    rig.run_once()
    claimed, restored = rig.slot("a"), ""
    rig.bench.submit("b", checkpoint=f"{area(place(rig.store, claimed, 'a')).location}/data")
    with capture_logs() as logged:
        rig.pass_(HOUR)
        rig.run_once()
        restored = rig.slot("a")
        area(place(rig.store, restored, "a")).write("restores/x.json", b'{"target": "s3://b/x", "at": "now"}')
        rig.pass_(HOUR)
        rig.run_once()
    assert rig.there("a") == [claimed, restored, rig.slot("a")]
    assert [line["savepoint"] for line in logged if line["event"] == "savepoint_kept"] == [
        claimed,
        claimed,
        restored,
    ]
    area(place(rig.store, restored, "a")).remove("restores/x.json")
    rig.pass_(HOUR)
    rig.run_once()
    assert rig.there("a") == [claimed, rig.slot("a")]


def test_submitted_anew_with_another_checkpoint_it_gets_one_at_once(rig: Rig) -> None:
    rig.job("a")
    rig.run_once()
    rig.bench.commands().cancel("a")
    rig.job("a", checkpoint=f"file://{unpack('hdfs-v1', rig.directory)}")
    assert rig.run_once() == [f"a/{rig.slot('a')}-2"]
    assert rig.run_once() == []


def test_a_failure_is_told_counted_and_tried_again_later_and_later(rig: Rig) -> None:
    rig.job("a")
    rig.tasks.trouble["a"] = Unreachable("the store does not answer")
    waits = []
    for _ in range(4):
        with capture_logs() as logged:
            assert rig.run_once() == []
        (line,) = [line for line in logged if line["event"] == "savepoint_failed"]
        waits.append(line["next"])
        assert rig.run_once() == []
        rig.pass_(float(line["next"].split()[-2]))
    assert waits == [f"tried again in {s} s" for s in (30, 60, 120, 240)]
    assert rig.series("s_total", job="a", outcome="failed") == 4
    rig.tasks.trouble.clear()
    assert len(rig.run_once()) == 1
    assert rig.series("s_total", job="a", outcome="done") == 1


def test_nothing_to_save_yet_is_no_failure(rig: Rig) -> None:
    rig.job("a")
    rig.tasks.trouble["a"] = NotYet("no batch")
    rig.run_once()
    assert rig.series("s_total", job="a", outcome="failed") == 0
    rig.tasks.trouble.clear()
    rig.pass_(module.NOT_YET_S)
    assert len(rig.run_once()) == 1


def test_the_trouble_of_one_is_not_that_of_another(rig: Rig) -> None:
    rig.job("bad")
    rig.job("good")
    rig.tasks.trouble["bad"] = ZeroDivisionError("a defect")
    assert rig.run_once() == [f"good/{rig.slot('good')}"]
    assert rig.series("s_total", job="bad", outcome="failed") == 1


def test_the_age_is_that_of_the_newest_and_grows_while_none_can_be_made(rig: Rig) -> None:
    rig.job("a")
    rig.run_once()
    since = rig.store_s - slot_of("a", HOUR, rig.store_s)
    rig.run_once()
    assert (rig.series("_age_seconds", job="a"), rig.series("_period_seconds", job="a")) == (since, HOUR)
    rig.tasks.trouble["a"] = Unreachable("down")
    rig.elect()
    rig.tasks.trouble["a"] = Unreachable("down")
    rig.pass_(2 * HOUR)
    rig.run_once()
    rig.run_once()
    assert rig.series("_age_seconds", job="a") == since + 2 * HOUR, "also of a leader that has not made it"
    rig.bench.commands().cancel("a")
    rig.run_once()
    assert rig.series("_age_seconds", job="a") is None


class Slow(Here):
    """Creations that hang until they are ended."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig)
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.slow = {"slow"}

    def create(self, wanted: WantedSavepoint, savepoint: str, timeout_s: float, go_on: GoOn) -> Made:
        self.begun.append(wanted.name)
        if wanted.name not in self.slow:
            return super().create(wanted, savepoint, timeout_s, go_on)
        while go_on():
            threading.Event().wait(0.01)
        self.ended.append(wanted.name)
        raise TaskEnded("over")


def test_a_slow_one_delays_no_other_and_ends_with_the_term(rig: Rig) -> None:
    for name in ("slow", "a", "b", "c"):
        rig.job(name)
    rig.tasks = slow = Slow(rig)
    thread = threading.Thread(target=rig.another().run)
    thread.start()
    try:
        wait_until(lambda: len(slow.made) == 3, 20, "the others")
        assert slow.begun.count("slow") == 1
    finally:
        rig.term.end("deposed")
        thread.join(20)
    assert not thread.is_alive()
    assert slow.ended == ["slow"]


def test_never_more_than_the_workers(rig: Rig) -> None:
    names = [f"job-{n}" for n in range(module.WORKERS + 2)]
    for name in names:
        rig.job(name, checkpoint=f"s3://bucket/{name}")
    rig.tasks = slow = Slow(rig)
    slow.slow = set(names)
    thread = threading.Thread(target=rig.another().run)
    thread.start()
    try:
        wait_until(lambda: len(slow.begun) == module.WORKERS, 20, "the workers")
        threading.Event().wait(0.1)
        assert len(slow.begun) == module.WORKERS
    finally:
        rig.term.end("deposed")
        thread.join(20)
    assert len(slow.begun) == module.WORKERS, "what waited was never begun"
