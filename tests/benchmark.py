"""``python -m tests.benchmark [--jobs 1000] [--quick]``: the figures that the product promises, and their ratios, in one run.

Not a test: it asserts nothing, for a busy machine is no defect; each line says how much of its goal it used, and the load
at that moment. Real processes on the embedded ensemble, light drivers in the place of Spark. ``--quick`` proves that it
still runs (a test does that), with numbers too small to mean anything. More detail: ``tests/faults/measure*.py``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from supervisor.clients.store.open import open_store
from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.records import Desired
from supervisor.observe.listing import take_rows
from supervisor.observe.observer import Observer
from supervisor.operations.jobs import Submission
from supervisor.records.ids import new_uid
from supervisor.registry.blobs import Blobs
from supervisor.spec.job import canonical_json, parse_spec
from tests.faults.measure import claimed, create, kill_leader, sessions
from tests.testbed.attempts import pss_kb
from tests.testbed.ensembles import Ensemble
from tests.testbed.fleet import SHIM, TWIN, Fleet
from tests.waiting import wait_until

TOOK_MAX_S = 600.0
CALM = {"beat_s": 1.0, "batch_s": 1.0}
"""Knobs of drivers that are only to be there: most of the machine is left to what is measured."""


@dataclass(frozen=True)
class Sizes:
    """``jobs``: registered ones; the long list has ten times as many. ``running``: light drivers at once.

    ``applied``: specs in a folder, of which ``changed`` differ.
    """

    jobs: int = 1000
    running: int = 100
    rounds: int = 20
    applied: int = 300
    changed: int = 5
    idle_s: float = 20.0


QUICK = Sizes(jobs=30, running=2, rounds=2, applied=6, changed=2, idle_s=2.0)


def main() -> None:
    given = argparse.ArgumentParser(prog="python -m tests.benchmark", description=__doc__)
    given.add_argument("--jobs", type=int, default=Sizes.jobs, help="registered jobs (default %(default)s)")
    given.add_argument(
        "--running", type=int, default=Sizes.running, help="light drivers at once (default %(default)s)"
    )
    given.add_argument("--quick", action="store_true", help="tiny numbers: only to see that it runs")
    given.add_argument("--only", nargs="*", choices=sorted(PARTS), default=sorted(PARTS), help="some parts")
    chosen = given.parse_args()
    sizes = QUICK if chosen.quick else Sizes(jobs=chosen.jobs, running=chosen.running)
    with (
        tempfile.TemporaryDirectory() as directory,
        EmbeddedEnsemble(Path(directory) / "zookeeper") as ensemble,
    ):
        measure(ensemble, Path(directory), sizes, chosen.only)


def measure(ensemble: Ensemble, directory: Path, sizes: Sizes, parts: Sequence[str]) -> None:
    """Print the figures of ``parts``, each on a fleet of its own."""
    for part in parts:
        own = directory / uuid.uuid4().hex[:8]
        own.mkdir()
        capacity = {"drivers": max(20, sizes.running), "memory": "64g"}
        with Fleet(
            ensemble, f"/benchmark-{own.name}", own, session_s=10.0, lease_s=30.0, capacity=capacity
        ) as fleet:
            PARTS[part](fleet, sizes)


def report_figure(
    what: str, value: float, unit: str, goal: float | None = None, *, at_least: bool = False
) -> None:
    """One figure; ``goal``: at most that much, or ``at_least``. Which share of the goal it is: up to 1.00 it is met."""
    share = (
        ""
        if goal is None
        else f"goal {'≥' if at_least else '≤'} {goal:g} {unit}: {(goal / value if at_least else value / goal):.2f} of it"
    )
    print(f"{what:<72} {value:9.3f} {unit:<7} {share:<32} load {os.getloadavg()[0]:.1f}", flush=True)


def ratio(what: str, above: float, below: float) -> None:
    print(f"  {what:<70} {above / below:9.2f} x", flush=True)


def timed(work: Callable[[], object]) -> float:
    begun_at_s = boottime_s()
    work()
    return boottime_s() - begun_at_s


def command(fleet: Fleet, *words: str) -> str:
    """The whole command in a process of its own, as a user has it; its stdout."""
    argv = [
        sys.executable,
        "-P",
        "-c",
        "from supervisor.cli.main import main; main()",
        *words,
        "--config",
        str(fleet.user_config()),
    ]
    return subprocess.run(
        argv, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=TOOK_MAX_S, text=True
    ).stdout


# -- takeover ----------------------------------------------------------------------------------------------------------


def takeover(fleet: Fleet, sizes: Sizes) -> None:
    """kill -9 of the leader, until its successor's first pass is over: with 3 running jobs, then with many claimed ones."""
    names = [f"run-{i}" for i in range(3)]
    fleet.submit_many(names, knobs=CALM)
    for name in names:
        fleet.wait_state(name, "running")
    few_s, touched = _acted_s(fleet)
    touched_few = sum(len(fleet.starts(name)) - 1 for name in names)
    report_figure(f"leader kill -9 -> successor has acted, {len(names)} jobs", few_s, "s", 1.0)
    report_figure("  drivers restarted by it", touched_few, "")
    create(fleet, [node for number in range(sizes.jobs) for node in claimed(fleet, f"led-{number:05}")])
    fleet.restart_all()
    many_s, touched = _acted_s(fleet)
    report_figure(f"leader kill -9 -> successor has acted, {sizes.jobs} jobs", many_s, "s", 2.0)
    report_figure("  jobs touched by it", touched, "")
    ratio(f"{sizes.jobs} jobs to {len(names)}", many_s, few_s)
    fleet.judged = False  # claimed jobs without drivers


def _acted_s(fleet: Fleet) -> tuple[float, int]:
    killed_at_s, _, first_at_s, logged = kill_leader(fleet)
    actions = logged["actions"]
    assert isinstance(actions, dict)
    return first_at_s - killed_at_s, sum(actions.values())


# -- submit, cancel ----------------------------------------------------------------------------------------------------


def latency(fleet: Fleet, sizes: Sizes) -> None:
    """On an open session. Beside the store's own: what the write of the spec takes by itself, made durable."""
    commands, blobs = fleet.commands(), Blobs(open_store(fleet.store or ""))
    stored, submitted, cancelled = [], [], []
    for number in range(sizes.rounds):
        name = f"quick-{number}"
        spec = parse_spec(fleet.spec_file(name).read_text(), name)
        uid, data = new_uid(name), canonical_json(spec)
        begun_at_s = boottime_s()
        ref = blobs.put_spec(name, uid, 1, data)
        stored_at_s = boottime_s()
        commands.check_submit(name, ref.sha256, spec.checkpoint)
        commands.submit(Submission(name, uid, ref, spec.scheduling(), Desired.SUSPENDED))
        stored.append(stored_at_s - begun_at_s)
        submitted.append(boottime_s() - stored_at_s)
        cancelled.append(timed(lambda name=name: commands.cancel(name)))  # type: ignore[misc]
    store_ms, submit_ms, cancel_ms = (
        statistics.median(values) * 1000 for values in (stored, submitted, cancelled)
    )
    report_figure("the store's own write of a spec (median)", store_ms, "ms")
    report_figure("submit, beside the store's own (median)", submit_ms, "ms", 50.0)
    report_figure("cancel (median)", cancel_ms, "ms", 50.0)
    ratio("submit to the store's own", submit_ms, store_ms)
    path = fleet.spec_file("whole")
    report_figure(
        "submit, the whole command", timed(lambda: command(fleet, "submit", str(path))) * 1000, "ms"
    )
    report_figure("cancel, the whole command", timed(lambda: command(fleet, "cancel", "whole")) * 1000, "ms")
    report_figure(
        "  of which Python itself",
        timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)) * 1000,
        "ms",
    )


# -- many ---------------------------------------------------------------------------------------------------------------


def listing(fleet: Fleet, sizes: Sizes) -> None:
    """``list`` of many jobs: the whole command, and without the start of Python and of the session."""
    per_job = []
    have = 0
    for jobs in (sizes.jobs, 10 * sizes.jobs):
        create(fleet, [node for number in range(have, jobs) for node in claimed(fleet, f"job-{number:05}")])
        have = jobs
        inner_s = timed(lambda: _listed(fleet))
        per_job.append(inner_s / jobs)
        whole_s = min(timed(lambda: command(fleet, "list")) for _ in range(3))
        report_figure(f"list of {jobs} jobs, the whole command (best of 3)", whole_s, "s", 1.0)
        report_figure("  on an open session", inner_s, "s")
    ratio(f"per job, {10 * sizes.jobs} to {sizes.jobs}", per_job[1], per_job[0])
    fleet.judged = False


def _listed(fleet: Fleet) -> None:
    view = Observer(fleet.client, fleet.layout, boottime_s, epoch=0).take_view(None)
    take_rows(fleet.client, fleet.layout, view, 0.0)


def submit_many(fleet: Fleet, sizes: Sizes) -> None:
    """Many specs in one call; suspended, so that nothing but the submit is measured."""
    files = [str(fleet.spec_file(f"many-{number:05}")) for number in range(sizes.jobs)]
    took_s = timed(lambda: command(fleet, "submit", "--suspended", *files))
    report_figure(
        f"submit of {sizes.jobs} specs in one call, the whole command",
        sizes.jobs / took_s,
        "per s",
        100.0,
        at_least=True,
    )


def apply_some(fleet: Fleet, sizes: Sizes) -> None:
    """Many specs, of which a few differ from what is registered. The jobs are suspended: only the apply is measured. Each file is
    named: the folder has those of other parts as well."""
    names = [f"kept-{number:05}" for number in range(sizes.applied)]
    files = [fleet.spec_file(name) for name in names]
    command(fleet, "submit", "--suspended", *map(str, files))
    same_s = timed(lambda: command(fleet, "apply", *map(str, files)))
    for name in names[: sizes.changed]:
        fleet.spec_file(name, env={"EDITION": "2"})
    used_s = _children_cpu_s()
    took_s = timed(lambda: command(fleet, "apply", *map(str, files)))
    used_s = _children_cpu_s() - used_s
    report_figure(
        f"apply of {len(names)} specs, {sizes.changed} changed, the whole command", took_s, "s", 3.0
    )
    report_figure("  CPU time of it", used_s, "s")
    report_figure(f"apply of {len(names)} specs, none changed, the whole command", same_s, "s")
    ratio("some changed to none", took_s, same_s)


def _children_cpu_s() -> float:
    """Of all children that have ended: what a busy machine leaves as it is."""
    used = os.times()
    return used.children_user + used.children_system


# -- at rest ------------------------------------------------------------------------------------------------------------


def idle(fleet: Fleet, sizes: Sizes) -> None:
    """Requests that ZooKeeper receives from everybody while nothing happens, pings included; memory."""
    none = _operations_per_s(fleet, sizes.idle_s)
    report_figure("idle ZooKeeper operations, no job", none, "per s")
    names = [f"calm-{number}" for number in range(sizes.running)]
    fleet.submit_many(names, knobs=CALM)

    fleet.wait_all_running(len(names), TOOK_MAX_S)
    some = _operations_per_s(fleet, sizes.idle_s)
    report_figure(f"idle ZooKeeper operations, {len(names)} running jobs", some, "per s")
    report_figure("  for each running job", (some - none) / len(names), "per s")
    leader, standby = fleet.leader(), fleet.standby()
    report_figure("PSS of the leader", pss_kb(leader.pid) / 1024, "MiB")
    report_figure("PSS of the standby", pss_kb(standby.pid) / 1024, "MiB")
    pairs = [
        pss_kb(fleet.process(name, SHIM).pid, fleet.process(name, TWIN).pid) / 1024 for name in names[:10]
    ]
    report_figure(
        "PSS of shim + twin (median; alone on a host: tests.faults.measure_shim)",
        statistics.median(pairs),
        "MiB",
    )
    ratio("leader to shim + twin", pss_kb(leader.pid) / 1024, statistics.median(pairs))


def _operations_per_s(fleet: Fleet, seconds: float) -> float:
    own = fleet.client.session
    before, begun_at_s = dict(sessions(fleet)), boottime_s()
    wait_until(lambda: boottime_s() > begun_at_s + seconds, 2 * seconds + 60, "the time to pass")
    after, took_s = dict(sessions(fleet)), boottime_s() - begun_at_s
    counts = [
        after[session] - count
        for session, count in before.items()
        if session in after and (own is None or session != own.id)
    ]
    return sum(counts) / took_s


PARTS: dict[str, Callable[[Fleet, Sizes], None]] = {
    "takeover": takeover,
    "latency": latency,
    "list": listing,
    "submit": submit_many,
    "apply": apply_some,
    "idle": idle,
}


if __name__ == "__main__":
    main()
