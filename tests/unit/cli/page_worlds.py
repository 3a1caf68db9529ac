"""The clusters that the pages speak of, in memory: a job that runs, was suspended, ran out of memory; and a fleet that obeys.

A world is a function that brings a ``Site`` to the state that a page is about, before one of its commands is typed there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from supervisor.clients.sessions import KeptSession
from supervisor.clients.store.files import FileStore
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.model.records import (
    DEAD,
    Cause,
    Desired,
    JobRef,
    Lease,
    Ownership,
    OwnState,
    Progress,
    QueryProgress,
    QueryState,
    with_entry,
)
from supervisor.model.seen import Found
from supervisor.model.transaction import ANY_VERSION, Delete, Transaction
from supervisor.model.zookeeper_access import acl_of
from supervisor.settings.file import load_settings
from tests.fakes.registry_bench import AT
from tests.fakes.zookeeper_acls import GuardedZoo
from tests.integration.test_drain_host import OBEDIENT, Host
from tests.unit.checkpoint.golden import unpack, without
from tests.unit.cli.conftest import Terminal
from tests.unit.cli.test_operate import lead, wish_of

CONF = Path(__file__).resolve().parents[3] / "conf"
OF_EXAMPLES = "file:///tmp/spark-supervisor"
"""Where the examples of ``conf`` have their checkpoints."""
SPECS = {"rate-counts": "rate-counts.yaml", "clicks": "jobs/clicks.yaml"}
SAVEPOINTS = {"rate-counts": "before-upgrade", "clicks": "before-change"}


@dataclass
class Site:
    """A directory with the files that the pages name, a host, and a cluster with the job ``name`` if a world registered it."""

    terminal: Terminal
    host: Host
    name: str

    @property
    def spec(self) -> str:
        return str(self.terminal.home / SPECS[self.name])

    @property
    def checkpoint(self) -> Path:
        return self.terminal.home / "examples" / self.name / "checkpoint"

    def run(self, *words: str) -> None:
        """What was typed before the command of the page."""
        ran = self.terminal.run(*words)
        assert ran.code == 0, (words, ran.err)

    def lay_out(self) -> None:
        """The examples of ``conf``, and specs of the reader's own beside them; no checkpoint outside of the directory."""
        home = self.terminal.home
        shutil.copytree(CONF, home / "conf")
        for path in (home / "conf").rglob("*.yaml"):
            path.write_text(path.read_text().replace(OF_EXAMPLES, f"file://{home}/examples"))
        shutil.copytree(home / "conf" / "applications", home / "applications")
        example = (home / "conf" / "jobs" / "rate-counts.yaml").read_text() + "labels: {team: web}\n"
        if "savepoints:" not in example:  # nobody sees here what its sink does
            example += "savepoints: {sink: repeats}\n"
        (home / "rate-counts.yaml").write_text(example.replace("../applications", "applications"))
        (home / "jobs").mkdir()
        for name in SPECS:
            text = example.replace("name: rate-counts", f"name: {name}")
            text = text.replace("examples/rate-counts/checkpoint", f"examples/{name}/checkpoint")
            (home / "jobs" / f"{name}.yaml").write_text(text)

    def work(self, **changes: object) -> None:
        """The registered job runs on host-a, and has committed batches."""
        bench, name = self.terminal.bench, self.name
        progress = Progress(
            query="q",
            batch_id=12,
            input_rows_per_s=10.0,
            processed_rows_per_s=20.0,
            batch_ms=300.0,
            at=AT,
            lag=None,
        )
        bench.run(name, progress=progress)
        job = bench.ref(name).record
        bench.put(bench.layout.own(name), replace(bench.own(name), revision=job.revision, **changes))  # type: ignore[arg-type]

    def wrote(self, attempt: int) -> None:
        """What the driver of an attempt wrote is in the directory of logs of this host."""
        own = self.terminal.bench.own(self.name)
        path = self.terminal.home / "log" / self.name / f"{own.newest_uid}.{attempt}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"hello from attempt {attempt}\n")

    def fails(self, cause: Cause, reason: str, *, attempt: int = 1, permanent: bool = False) -> None:
        """An attempt ended, and said why."""
        bench, name = self.terminal.bench, self.name
        bench.exit(name, cause, permanent=permanent)
        own = bench.own(name)
        history = with_entry((), AT, cause.value, attempt, reason)
        changed = replace(own, attempt=attempt, claims=attempt, reason=reason, history=history, failures=1)
        bench.put(bench.layout.own(name), changed)
        self.wrote(attempt)


# -- a fleet that obeys -----------------------------------------------------------------------------------------------------


def obey(site: Site) -> None:
    """What supervisors and shims do meanwhile: start what shall run, stop what shall not, hand leadership over."""
    bench = site.terminal.bench
    wish = wish_of(site.terminal)
    if wish is not None:
        lead(site.terminal, wish.to or "host-b", wish.epoch + 1)
        bench.zoo.client().commit(
            Transaction("switched_over", "op", (Delete(bench.layout.switchover, ANY_VERSION),))
        )
    own = bench.own(site.name)
    job = bench.record(JobRef, bench.layout.job(site.name))
    if not isinstance(job, Found) or job.record.desired is not Desired.RUNNING:
        if own.state not in DEAD:
            stopped = replace(own, state=OwnState.EXITED, cause=Cause.STOPPED, reason="stopped on request")
            bench.put(bench.layout.own(site.name), stopped)
    elif not _carries_out(own, job.record):
        site.work()


def _carries_out(own: Ownership, job: JobRef) -> bool:
    asked = (job.uid, job.restart_nonce, job.revision)
    return own.state is OwnState.CLAIMED and (own.uid, own.restart_nonce, own.revision) == asked


# -- worlds -----------------------------------------------------------------------------------------------------------------

World = Callable[[Site], None]


def fleet(site: Site) -> None:
    """Two supervisors, of which one leads, and no job: the first submit made the cluster, and nothing of its job is left."""
    terminal, layout = site.terminal, site.terminal.bench.layout
    site.run("submit", site.spec)
    left = (layout.jobs, layout.owns, layout.checkpoints)
    for path in [
        path for path in terminal.bench.zoo.tree() if path.startswith(tuple(f"{one}/" for one in left))
    ]:
        terminal.bench.zoo.remove(path)
    for supervisor in ("host-a", "host-b"):
        terminal.bench.join(supervisor)
    lead(terminal, "host-a", 7)
    EpochMarks(FileStore(terminal.home / "store")).record_epoch(7, "host-a", "op")


def running(site: Site) -> None:
    """A job with a checkpoint, and no savepoint yet."""
    fleet(site)
    site.checkpoint.parent.mkdir(parents=True)
    unpack("hdfs-v1", site.terminal.home).rename(site.checkpoint)
    site.run("submit", site.spec)
    site.work()
    site.wrote(1)


def edited(site: Site) -> None:
    """Running, and its spec was changed since."""
    running(site)
    path = site.terminal.home / site.spec
    path.write_text(f"{path.read_text()}\nlease: 20s\n")


def updated(site: Site) -> None:
    """Running, of the second revision."""
    edited(site)
    site.run("apply", site.spec)
    site.work()


def updated_twice(site: Site) -> None:
    """Running, of the third revision, which was updated again."""
    updated(site)
    path = site.terminal.home / site.spec
    for lease in ("25s", "26s"):
        path.write_text(f"{path.read_text().rpartition('lease:')[0]}lease: {lease}\n")
        site.run("apply", site.spec)
        site.work()


def quarantined_update(site: Site) -> None:
    """Quarantined after an update, with a savepoint from before it."""
    saved(site)
    path = site.terminal.home / site.spec
    path.write_text(f"{path.read_text()}\nlease: 20s\n")
    site.run("apply", site.spec)
    site.work()
    site.fails(Cause.BAD_CHECKPOINT, "the checkpoint is not the one that it left", permanent=True)


def forked(site: Site) -> None:
    """Running, and so does its fork."""
    running(site)
    fork = f"{site.name}-2"
    site.run("fork", site.name, fork)
    site.terminal.bench.run(fork)


def promoted(site: Site) -> None:
    """Its fork has its place."""
    forked(site)
    site.run("promote", f"{site.name}-2", "--over", site.name)
    obey(site)


def saved(site: Site) -> None:
    """Running, with the savepoint that the pages name."""
    running(site)
    site.run("savepoint", "create", site.name, SAVEPOINTS[site.name])


def suspended(site: Site) -> None:
    saved(site)
    site.run("suspend", site.name)
    obey(site)


def cancelled(site: Site) -> None:
    """Its checkpoint stayed."""
    saved(site)
    site.run("cancel", site.name)
    obey(site)


def emptied(site: Site) -> None:
    """Cancelled, and nothing is at the location any more."""
    cancelled(site)
    shutil.rmtree(site.checkpoint)


def paused(site: Site) -> None:
    running(site)
    site.run("pause")


def cordoned(site: Site) -> None:
    running(site)
    site.run("cordon", "host-b")


def quarantined(site: Site) -> None:
    """Its checkpoint was not the one that it left. It was put back since, and there is a savepoint."""
    saved(site)
    site.fails(
        Cause.BAD_CHECKPOINT, f"the checkpoint at {site.checkpoint} is missing: put it back", permanent=True
    )


def damaged(site: Site) -> None:
    """Quarantined, and an object of the checkpoint is still missing."""
    quarantined(site)
    without(site.checkpoint, "state/0/1/13.delta")


def out_of_memory(site: Site) -> None:
    running(site)
    reason = "the heap of the driver is full: raise spark.driver.memory; exit code 52: java.lang.OutOfMemoryError: Java heap space"
    site.fails(Cause.OUT_OF_MEMORY, reason)


def stalled(site: Site) -> None:
    """It was ended once for its silence, and the next attempt has a query that is silent again."""
    running(site)
    site.fails(Cause.STALLED, "no batch for 10m: query counts")
    history = site.terminal.bench.own(site.name).history
    site.work(attempt=1, history=history)
    bench = site.terminal.bench
    queries = (QueryProgress(query="counts", id="i1", state=QueryState.ACTIVE, batch_id=12, at=AT),)
    lease = bench.record(Lease, bench.layout.lease(site.name))
    assert isinstance(lease, Found)
    bench.put(bench.layout.lease(site.name), replace(lease.record, queries=queries))


def failing(site: Site) -> None:
    """Its seventh attempt failed as the others did."""
    running(site)
    site.fails(Cause.USER_ERROR, "exit code 1: ValueError: bad row 17", attempt=7)


def corrupt(site: Site) -> None:
    """Its znode below ``/jobs`` can't be read."""
    running(site)
    site.terminal.bench.zoo.put(site.terminal.bench.layout.job(site.name), b"{")


def restored(site: Site) -> None:
    """ZooKeeper was put back to a state before the newest epoch that the store knows."""
    running(site)
    zoo = site.terminal.bench.zoo
    state = zoo.snapshot()
    EpochMarks(FileStore(site.terminal.home / "store")).record_epoch(9, "host-b", "op")
    zoo.restore(state, zoo.zxid + 10)


def hosting(site: Site) -> None:
    """This host has a driver, whose shim obeys."""
    running(site)
    site.host.shim("u1.1", OBEDIENT)


def to_be_secured(site: Site) -> None:
    """A root from before there were ACLs; every process has credentials, and sets ACLs by now."""
    _with_acls(site, "create")


def to_be_opened(site: Site) -> None:
    """The way back: the root is secured, and no process sets ACLs any more."""
    zoo = _with_acls(site, "open")
    zoo.acls.update(dict.fromkeys(zoo.tree(), acl_of(("sasl:supervisor",), ())))


def _with_acls(site: Site, acl: str) -> GuardedZoo:
    config = site.terminal.config
    body = yaml.safe_load(config.read_text())
    body["zookeeper"] |= {
        "auth": {"mechanism": "digest-md5", "username": "supervisor", "password_file": "/password"},
        "acl": acl,
        "acl_admins": ["sasl:supervisor"],
    }
    config.write_text(yaml.safe_dump(body))
    zookeeper, zoo = load_settings(config, {}).zookeeper, GuardedZoo()
    zoo.put(f"{zookeeper.root}/jobs", b"")
    client = zoo.known_as("sasl:supervisor", acl=zookeeper.access.acl)
    site.terminal.bench.sessions = lambda: KeptSession(lambda: client, lambda _old: None)  # type: ignore[method-assign, assignment, return-value]
    return zoo
