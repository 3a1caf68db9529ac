"""After the faults: everything is repaired, the fleet must settle, and then the witness is judged. Asks the product nothing but
what users ask; what counts is what drivers wrote."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from supervisor.clients.sessions import keep_session
from supervisor.clock import boottime_s
from supervisor.errors import SupervisorError
from supervisor.operations.cluster import ClusterOperations
from tests.chaos.on_attempts import send
from tests.chaos.on_hosts import uncordon_all
from tests.chaos.on_servers import repair_store, revive
from tests.chaos.users import GONE, RUNNING, User
from tests.chaos.world import GRACE_S, NODES, SESSION_S, ChaosWorld
from tests.faults import checker
from tests.faults.checker import Acknowledged, Harm, WantedRun, WitnessNote
from tests.testbed.fleet import eventually
from tests.testbed.proxy import Proxy
from tests.waiting import wait_until

SETTLED_S = 240.0
"""For the longest full wait, the longest back-off and everything else on a busy machine. Nothing is asserted about less."""

QUIET_S = 3.0
TAIL_BYTES = 2_000_000
"""Of the witness: a look costs the same however long the run was."""


@dataclass
class Verdict:
    """``violations``: one sentence each, none is what is hoped for. ``settled_s``: from the last fault to a settled fleet."""

    violations: list[str]
    notes: list[WitnessNote]
    harms: tuple[Harm, ...]
    acknowledged: list[Acknowledged]
    settled_s: float | None
    until_at_s: float


def repair(world: ChaosWorld) -> None:
    """Whatever a fault may have left: all up, all links open, nobody stopped, no pause."""
    for links in (world.user_links, *(way for ways in world.fleet.links for way in ways)):
        links.each(Proxy.heal)
    for process in tuple(world.stopped):
        send(process, signal.SIGCONT)
    repair_store(world)
    for clock in world.fleet.clocks:
        clock.set_off(0)
    heal = getattr(world.ensemble, "heal", None)
    if heal is not None:
        heal()
    for node in range(NODES):
        if world.ensemble.modes()[node] is None:
            with contextlib.suppress(Exception):
                world.ensemble.resume(node)
    revive(world)
    world.ensemble.wait_serving(60)
    eventually(lambda: _unpaused(world), 60, "the end of the pause")
    uncordon_all(world)
    world.fleet.restart_all()


def _unpaused(world: ChaosWorld) -> bool:
    with contextlib.closing(keep_session(world.ensemble.hosts, SESSION_S)) as sessions:
        ClusterOperations(sessions, world.fleet.layout, "nemesis").unpause()
    return True


def judge(world: ChaosWorld, users: Sequence[User]) -> Verdict:
    """Settle, look, cancel everything, look again. Never raises for what the product did wrong."""
    violations: list[str] = []
    repaired_at_s = boottime_s()
    # a restart may still be on its way: it waits for its driver while the job runs
    standing = {job.name for user in users for job in user.jobs if job.update}
    settled_s: float | None = None
    try:
        for user in users:
            user.finish()
        wanted = wanted_now(users)
        _wait_running(world, wanted)
        _wait_stopped(world, users)
        _wait_unprepared(world, users)
        settled_s = boottime_s() - repaired_at_s
    except (AssertionError, SupervisorError) as error:
        violations.append(f"did not settle: {error}")
        wanted = wanted_now(users)
    violations += _disagreements(world, users)
    since_at_s = boottime_s()
    time.sleep(QUIET_S)  # the span that is looked at
    notes = checker.read(world.fleet.witness_file, TAIL_BYTES)
    violations += checker.lost(notes, [WantedRun(w.job, w.uid, since_at_s) for w in wanted])
    violations += checker.unwanted(notes, wanted, since_at_s)
    violations += checker.left_prepared(notes, since_at_s, {w.uid for w in wanted if w.job in standing})
    until_at_s = since_at_s
    violations += leftovers(world, users)
    notes = checker.read(world.fleet.witness_file)
    acknowledged = [ack for user in users for ack in user.acknowledged]
    violations += checker.violations(notes, acknowledged, grace_s=GRACE_S, restored_at_s=world.restored_at_s)
    harms = world.diary.harms
    violations += checker.disturbed(notes, harms, until_at_s)
    violations += checker.orphaned(notes, world.dead_shims)
    violations += [wrong for wrong in world.violations if wrong not in violations]
    return Verdict(violations, notes, harms, acknowledged, settled_s, until_at_s)


def wanted_now(users: Sequence[User]) -> list[WantedRun]:
    """What is acknowledged as to run."""
    return [
        WantedRun(job.name, job.now.uid, boottime_s())
        for user in users
        for job in user.jobs
        if job.now.state == RUNNING and job.now.uid
    ]


def _wait_running(world: ChaosWorld, wanted: Sequence[WantedRun]) -> None:
    """Until all of them have spoken in the last second, by the witness."""

    def silent() -> list[str]:
        notes = checker.read(world.fleet.witness_file, TAIL_BYTES)
        return checker.lost(notes, [WantedRun(w.job, w.uid, boottime_s() - 1.0) for w in wanted])

    deadline_at_s = time.monotonic() + SETTLED_S
    while True:
        late = time.monotonic() > deadline_at_s
        missing = silent()
        if not missing:
            return
        assert not late, "; ".join(missing) + "; " + "; ".join(_reported(world, missing))
        time.sleep(0.5)


def _wait_stopped(world: ChaosWorld, users: Sequence[User]) -> None:
    """Until no driver that was asked to end is still being stopped: an orderly stop takes its time, and then it is over."""
    unwanted = {job.name for user in users for job in user.jobs if job.now.state != RUNNING}

    def is_over() -> bool:
        return not [
            row for row in world.fleet.rows() if row["name"] in unwanted and row["state"] == "stopping"
        ]

    eventually(is_over, SETTLED_S, "the end of the drivers that users have stopped")


def _wait_unprepared(world: ChaosWorld, users: Sequence[User]) -> None:
    """Until no driver is kept prepared but the standby of a job that runs."""
    kept = {
        job.now.uid
        for user in users
        for job in user.jobs
        if job.now.state == RUNNING and "standby" in job.update
    }
    eventually(
        lambda: not [one for one in world.fleet.prepared() if one.uid not in kept],
        SETTLED_S,
        "the end of the prepared drivers that nobody needs",
    )


def _reported(world: ChaosWorld, missing: Sequence[str]) -> list[str]:
    """What the product says about jobs that do not run, to find the cause."""
    names = {text.split()[1] for text in missing}
    return [
        str({key: row.get(key) for key in ("name", "state", "reason", "attempt", "supervisor")})
        for row in world.fleet.rows()
        if row["name"] in names
    ]


def _disagreements(world: ChaosWorld, users: Sequence[User]) -> list[str]:
    """What was acknowledged against what ``list`` says."""
    rows = {row["name"]: row for row in world.fleet.rows()}
    wrong = []
    for job in (job for user in users for job in user.jobs):
        row = rows.get(job.name)
        if job.now.state == GONE:
            if row is not None and row["state"] not in ("cancelled", "cancelling"):
                wrong.append(f"{job.name} was cancelled, and is {row['state']}")
        elif row is None or row["uid"] != job.now.uid:
            wrong.append(
                f"{job.name} {job.now.uid} was acknowledged as {job.now.state}, and is {row and row['uid']}"
            )
        elif (row["state"] in ("suspended", "suspending")) != (job.now.state != RUNNING):
            wrong.append(
                f"{job.name} was acknowledged as {job.now.state}, and is {row['state']} ({row.get('reason')})"
            )
    return wrong


def leftovers(world: ChaosWorld, users: Sequence[User]) -> list[str]:
    """Everything is cancelled: then no driver, shim or twin may be left, and nothing in the registry but results."""
    fleet = world.fleet
    try:
        for user in users:
            user.cancel_all()
    except (AssertionError, SupervisorError) as error:
        return [f"not everything could be cancelled: {error}"]
    layout = fleet.layout

    def left() -> list[str]:
        client = fleet.client
        client.sync()
        parents = [layout.leases, layout.jobs, layout.lives, layout.checkpoints]
        for member in fleet.members:
            parents += [layout.assigned_to(member.id), layout.preparations_of(member.id)]
        return [
            *(f"shim of {attempt.title}" for attempt in (*fleet.attempts(), *fleet.prepared())),
            *fleet.strays(),
            *(f"{path}/{name}" for path in parents for name in client.children(path) or ()),
            *(f"cgroup {group}" for group in fleet.groups()),
        ]

    last: list[str] = []

    def clean() -> bool:
        with contextlib.suppress(SupervisorError):
            last[:] = left()
            return not last
        return False

    try:
        wait_until(clean, SETTLED_S, "everything to be gone", period_s=0.5)
    except AssertionError:
        return [f"left behind: {each}" for each in last[:20]]
    return []
