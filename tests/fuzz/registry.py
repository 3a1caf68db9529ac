"""A registry in which one job is odd, beside jobs that must not notice: each loop of a leader and of a host, and the judge.

``good`` waits to be assigned, ``spent`` to be cleaned, ``former``'s checkpoint to be deleted, ``calm`` runs and has savepoints
due. Locations of other jobs are not among the odd values: whose claim a deletion believes is the explorer's subject.
"""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.daemon.host.attempt_reporter import AttemptReporter
from supervisor.daemon.host.launcher import HostedAttempts
from supervisor.daemon.leader.remover import Remover
from supervisor.daemon.leader.scheduled_savepoints import ScheduledSavepoints
from supervisor.daemon.leader.sweeper import Sweeper
from supervisor.errors import SupervisorError
from supervisor.metrics import Metrics
from supervisor.model.checkpoint_expectation import CheckpointExpectation
from supervisor.model.launch import Launch
from supervisor.model.location import digest
from supervisor.model.records import (
    Assignment,
    Cause,
    CheckpointClaim,
    Cleanliness,
    JudgedUpdate,
    KeptRevision,
    Member,
    OwnState,
    PendingDeletion,
    Revisions,
    RollbackRule,
    SpecRevision,
    Update,
    UpdatePolicy,
)
from supervisor.model.restart import RestartPolicy
from supervisor.model.savepoint_policy import SavepointPolicy
from supervisor.observe.listing import take_rows
from supervisor.observe.observer import Observer
from supervisor.observe.status import ClusterConfiguration, take_status
from supervisor.plan.explain import Explainer
from supervisor.registry.blob_sweep import References
from supervisor.registry.checkpoint_claims import CheckpointClaims
from supervisor.savepoints.shelf import Shelf
from supervisor.spec.site_policy import SitePolicy
from tests.fakes.registry_bench import submission, terms
from tests.fuzz.odd import odd_record
from tests.unit.daemon.host.test_agent import Started, agent_of
from tests.unit.daemon.leader.test_controller import Rig
from tests.unit.shim.world import LAUNCH

STATES = (
    "assigned",
    "claimed",
    "exited",
    "out of memory",
    "draining",
    "cancelled",
    "cancelled, dead",
    "vacant",
    "an update failed",
)
CALM = "s3://bkt/calm"


@dataclass
class Broken:
    """``what``: in which loop, or what was done to whom."""

    what: str
    why: str
    seed: int
    odd: list[str] = field(default_factory=list)


class Odd:
    """One run. ``broken``: what should not have been."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.seed, self.rng, self.directory = seed, random.Random(seed), directory
        self.broken: list[Broken] = []
        self.changed: list[str] = []
        self.rig = Rig()
        self.bench, self.layout = self.rig.bench, self.rig.bench.layout
        self._begin()

    def _begin(self) -> None:
        bench, layout = self.bench, self.layout
        often = terms(
            "s3://bkt/odd",
            savepoints=SavepointPolicy(every_s=3600.0, keep=2),
            delete_checkpoint=True,
            driver_memory=1 << 30,
            restart=RestartPolicy(jitter=0.0, memory_step=1.5, memory_max=8 << 30),
        )
        bench.put(
            layout.supervisor("s2"),
            Member(
                id="s2",
                host="h",
                boot_id="b",
                address="",
                memory=1 << 60,
                drivers=10,
                starting=10,
                software="",
                since="",
            ),
        )
        bench.put(
            layout.supervisor("s-odd"),
            Member(
                id="s-odd",
                host="h",
                boot_id="b",
                address="",
                memory=1 << 30,
                drivers=1,
                starting=1,
                software="",
                since="",
            ),
        )
        for host in ("s2", "s-odd"):
            bench.zoo.put(layout.assigned_to(host), b"")
        bench.commands().submit(replace(submission("odd"), scheduling=often))
        bench.submit("good", checkpoint="s3://bkt/good")
        bench.commands().submit(replace(submission("calm"), scheduling=replace(often, checkpoint=CALM)))
        bench.run("calm", remembered=CheckpointExpectation(place="p" * 16, queries=("q 5",)))
        self.spent = bench.submit("spent", checkpoint="s3://bkt/spent").uid
        bench.run("spent")
        bench.commands().cancel("spent")
        bench.set_own("spent", OwnState.EXITED, uid=self.spent)
        former = bench.submit("former")
        bench.commands().cancel("former")
        self.pending_deletion = layout.checkpoint(digest("s3://bkt/former"))
        bench.put(
            self.pending_deletion,
            CheckpointClaim(
                location="s3://bkt/former",
                name="former (its checkpoint is being deleted)",
                uid=former.uid,
                doom=PendingDeletion(name="former", uid=former.uid, at="now", epoch=1),
            ),
        )
        self.uid = bench.own("odd").newest_uid
        self._odd_state(self.rng.choice(STATES))
        self.calm = self._of_calm()
        for path in self.rng.sample(self._targets(), k=self.rng.choice((1, 1, 2, 3))):
            data = odd_record(self.rng, bench.zoo.tree()[path], ("calm", "good", "s1", bench.own("calm").uid))
            bench.zoo.put(path, data)
            self.changed.append(f"{path}: {data.decode(errors='replace')[:700]}")

    def _odd_state(self, state: str) -> None:
        bench, known = self.bench, CheckpointExpectation(place="p" * 16, queries=("q 5",))
        if state == "claimed":
            bench.run("odd", remembered=known)
        elif state == "assigned":
            bench.set_own("odd", OwnState.ASSIGNED)
            ref = bench.ref("odd")
            entry = Assignment(
                name="odd",
                uid=self.uid,
                attempt=1,
                revision=1,
                job_version=ref.version,
                own_version=1,
                spec=ref.record.spec,
                memory=1,
            )
            bench.put(self.layout.assignment("host-a", self.uid, 1), entry)
        elif state == "exited":
            bench.exit("odd")
        elif state == "out of memory":
            bench.exit("odd", Cause.OUT_OF_MEMORY)
        elif state == "an update failed":
            self._update_failed()
        elif state == "draining":
            bench.run("odd", remembered=known)
            bench.set_own("odd", OwnState.DRAINING)
        elif state.startswith("cancelled"):
            bench.run("odd", remembered=known)
            bench.commands().cancel("odd")
            if state.endswith("dead"):
                bench.set_own("odd", OwnState.EXITED, uid=self.uid)

    def _update_failed(self) -> None:
        bench, job = self.bench, self.bench.ref("odd").record
        rule = self.rng.choice(tuple(RollbackRule))
        before = SpecRevision(revision=1, spec=job.spec, terms=job.terms)
        update = Update(target=2, sha256="1", before=before, by="", at="", policy=UpdatePolicy(rollback=rule))
        bench.put(self.layout.job("odd"), replace(job, revision=2, update=update))
        kept = (KeptRevision(revision=1, sha256="0", at=""), KeptRevision(revision=2, sha256="1", at=""))
        bench.put(self.layout.revisions_of(self.uid), Revisions(name="odd", uid=self.uid, revisions=kept))
        bench.exit("odd", revision=2, judged=JudgedUpdate(target=2, queries=("q 5",)), committed=("q 5",))

    def _targets(self) -> list[str]:
        layout = self.layout
        paths = [
            layout.job("odd"),
            layout.own("odd"),
            layout.lease("odd"),
            layout.result(self.uid),
            layout.revisions_of(self.uid),
            layout.supervisor("s-odd"),
            layout.checkpoint(digest("s3://bkt/odd")),
            layout.assignment("host-a", self.uid, 1),
        ]
        return [path for path in paths if path in self.bench.zoo.tree()]

    def _of_calm(self) -> dict[str, bytes]:
        paths = (
            self.layout.job("calm"),
            self.layout.own("calm"),
            self.layout.lease("calm"),
            self.layout.checkpoint(digest(CALM)),
        )
        return {path: self.bench.zoo.tree()[path] for path in paths}

    # -- the loops -------------------------------------------------------------------------------------------------

    def run(self) -> list[Broken]:
        self._try("controller", self._control)
        self._try("remover", self._remove)
        self._try("sweeper", self._sweep)
        self._try("savepoints", self._savepoints)
        self._try("status", self._status)
        self._try("explain", self._explain)
        self._try("places", lambda: CheckpointClaims.load(self.rig.client, self.layout))
        self._judge()
        self._try("agent", self._agent)
        self._try("attempt reporter", self._host)
        self.rig.controller.executor.close()
        return self.broken

    def _try(self, loop: str, work: Callable[[], Any]) -> None:
        try:
            work()
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            self._note(
                f"{loop} raised",
                f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {str(error)[:200]}",
            )

    def _note(self, what: str, why: str) -> None:
        self.broken.append(Broken(what, why, self.seed, self.changed))

    def _control(self) -> None:
        for _ in range(4):
            done = self.rig.controller.reconcile_once()
            for note in done.plan.notes:
                if "could not be judged" in note.why:
                    self._note("a record that is believed can't be judged", note.why)
            if done.broken:
                self._note("a pass was stopped", str(done.broken))

    def _remove(self) -> None:
        class FuzzedRemoval:
            late_s, seen, unanswered, queries = 0.0, True, 0, None

            def __init__(self, resolved: str) -> None:
                self.resolved = resolved

            def remove_batch(self, still: Callable[[], None]) -> Any:
                still()
                return type("Removed", (), {"objects": 0, "left": False})()

        def open_at(location: str, _access: Any) -> Any:
            if location.startswith((CALM, "s3://bkt/good")):
                self._note("somebody's checkpoint is deleted", location)
            return FuzzedRemoval(location)

        wanted = threading.Event()
        wanted.set()
        controller = self.rig.controller
        remover = Remover(
            controller._term,
            self.layout,
            controller.executor,
            "s3://store",
            lambda _where, _deletion: cast(Any, None),
            site=SitePolicy(deletable=("*",)),
            wanted=wanted,
            open_at=open_at,
        )
        for _ in range(4):
            remover.step()

    def _sweep(self) -> None:
        outer = self

        class FuzzedBlobs:
            def scan(
                self, referenced: Callable[[], References], _go_on: Callable[[], bool]
            ) -> tuple[str, ...]:
                try:
                    uids = referenced().uids
                except SupervisorError:
                    return ()  # doubt keeps all
                if not {outer.bench.own("good").newest_uid, outer.bench.own("calm").newest_uid} <= uids:
                    outer._note("files that are needed are swept", str(uids))
                return ()

            def prune_epochs(self) -> int:
                return 0

        controller = self.rig.controller
        Sweeper(
            controller._term,
            self.layout,
            controller.executor,
            cast(Any, FuzzedBlobs()),
            cast(Any, FuzzedBlobs()),
        ).sweep_once()

    def _savepoints(self) -> None:
        class Means:
            shelf = cast(Shelf, None)

        controller = self.rig.controller
        due = ScheduledSavepoints(
            controller._term, lambda: controller.view, cast(Any, Means()), Metrics(boottime_s)
        ).due()
        if "calm" not in {each.name for each in due}:
            self._note("a savepoint is not made", f"of calm; due are {[each.name for each in due]}")

    def _status(self) -> None:
        rows = take_rows(self.rig.client, self.layout, self._view(), 1.8e9, every_uid=True)
        for row in rows:
            row.document()
        if {row.state for row in rows if row.name == "calm"} != {"running"}:
            self._note("calm is shown as something else", str([row for row in rows if row.name == "calm"]))
        take_status(self.rig.client, self.layout, ClusterConfiguration("c", "h", "s"), 10.0, True)
        self.rig.controller._recorder._metrics.exposition()

    def _explain(self) -> None:
        view = self._view()
        explainer = Explainer(view, self.rig.controller._policy, boottime_s(), "l1")
        for row in view.rows.values():
            if row.is_listed:
                explainer.job(row.name)

    def _view(self) -> Any:
        return Observer(self.rig.client, self.layout, lambda: 1.0, 1).take_view(None)

    def _agent(self) -> None:
        started = Started()
        agent = agent_of(self.bench, started, self.directory / "run", None)
        uid = self.bench.own("good").newest_uid
        own, ref = (
            self.bench.record(type(self.bench.own("good")), self.layout.own("good")),
            self.bench.ref("good"),
        )
        entry = Assignment(
            name="good",
            uid=uid,
            attempt=99,
            revision=1,
            job_version=ref.version,
            own_version=own.version,
            spec=ref.record.spec,
            memory=1,
        )
        self.bench.put(
            self.layout.own("good"), replace(own.record, state=OwnState.ASSIGNED, uid=uid, attempt=99)
        )
        own_now = self.bench.record(type(own.record), self.layout.own("good"))
        self.bench.put(self.layout.assignment("host-a", uid, 99), replace(entry, own_version=own_now.version))
        agent._round()
        agent._pool.shutdown(wait=True)
        if f"{uid}.99" not in started.keys:
            self._note("a start is not made", f"of good on host-a; made were {started.keys}")

    def _host(self) -> None:
        outer, calm = self, replace(LAUNCH.assignment, name="calm", uid=self.bench.own("calm").uid, attempt=1)

        class FuzzedHome(HostedAttempts):
            def launches(self) -> dict[str, Launch]:
                odd = replace(calm, name="odd", uid=outer.uid)
                return {f"{each.uid}.1": replace(LAUNCH, assignment=each) for each in (odd, calm)}

        metrics = Metrics(boottime_s)
        home = FuzzedHome(self.directory, self.directory)
        reporter = AttemptReporter(
            "host-a",
            home,
            self.layout,
            lambda: cast(ZooClient, self.rig.client),
            metrics,
            lambda _launch: None,
        )
        reporter.round(lambda: None)
        if b'spark_supervisor_job_state{job="calm",state="running"} 1.0' not in metrics.exposition():
            self._note("a host shows nothing of calm", "")

    # -- the judge -------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        good = self.bench.own("good")
        if good.state is not OwnState.ASSIGNED:
            self._note("good is not assigned", good.state.value)
        result = self.bench.result(self.spent)
        if result is None or result.state is not Cleanliness.CLEAN:
            self._note("spent is not cleaned", "")
        if self.bench.has(self.pending_deletion):
            self._note("former's checkpoint is not deleted", "")
        for path in self._touched():
            self._note("something of calm was touched", path)

    def _touched(self) -> Iterator[str]:
        tree = self.bench.zoo.tree()
        yield from (path for path, data in self.calm.items() if path not in tree or tree[path] != data)


def run_many(
    seeds: range, directory: Path, print_line: Callable[[Broken], None] = lambda _broken: None
) -> list[Broken]:
    """Everything that was broken in any of ``seeds``."""
    found: list[Broken] = []
    for seed in seeds:
        for each in Odd(seed, directory).run():
            print_line(each)
            found.append(each)
    return found
