"""``python -m tests.benchmark_fleet [--supervisors 10] [--jobs 1000]``: what a fleet costs, and how long it takes to move it.

Real supervisors on the embedded ensemble, each with a host's share of light drivers, all on one machine. Nothing is asserted. Counts
and CPU time are those of any machine; what takes time here takes it mostly because one machine is all the hosts, so each
time has the load beside it. ``supervisor/docs/operate-scale.md`` says what follows for larger fleets.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from supervisor.clients.four_letter import ask
from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from tests import results
from tests.faults.measure import cpu_s, sessions
from tests.testbed.attempts import pss_kb
from tests.testbed.ensembles import RevivedEnsemble
from tests.testbed.fleet import SHIM, TWIN, Fleet
from tests.waiting import wait_until

TOOK_MAX_S = 3600.0
CALM = {"beat_s": 5.0, "batch_s": 10.0}
"""Knobs of drivers that are only to be there."""
PER_CALL = 200
SAMPLE = 20
HELD = (
    ("znodes", "zk_znode_count", 1),
    ("KiB of data", "zk_approximate_data_size", 1024),
    ("watches at the server with most", "zk_watch_count", 1),
)
"""What of it, the key of ``mntr``, and by what it is divided."""


@dataclass(frozen=True)
class FleetSizes:
    """``rest_s``: for how long a fleet at rest is looked at. ``lease_s``: of each job."""

    supervisors: int = 10
    jobs: int = 1000
    rest_s: float = 60.0
    lease_s: float = 30.0


QUICK_FLEET = FleetSizes(supervisors=3, jobs=6, rest_s=3.0, lease_s=8.0)


@dataclass
class Figures:
    """What was found, as rows of a table; each is printed when it is known."""

    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, what: str, value: float, unit: str) -> None:
        self.rows.append(
            (f"{len(self.rows) + 1:02d}", what, f"{value:,.2f} {unit}".rstrip(), f"{os.getloadavg()[0]:.0f}")
        )
        print(f"{what:<72} {value:12.2f} {unit:<8} load {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    given = argparse.ArgumentParser(prog="python -m tests.benchmark_fleet", description=__doc__)
    given.add_argument("--supervisors", type=int, default=FleetSizes.supervisors, help="default %(default)s")
    given.add_argument(
        "--jobs", type=int, default=FleetSizes.jobs, help="light drivers at once (default %(default)s)"
    )
    results.add_option(given)
    chosen = given.parse_args()
    measured, found = results.Measured(".", "tests.benchmark_fleet"), Figures()
    sizes = FleetSizes(chosen.supervisors, chosen.jobs)
    with (
        tempfile.TemporaryDirectory() as directory,
        RevivedEnsemble(Path(directory) / "zookeeper") as ensemble,
    ):
        measure(ensemble, Path(directory), sizes, found)
    if chosen.write_results:
        title = f"What a fleet costs: {sizes.jobs:,} jobs over {sizes.supervisors} supervisors"
        measured.write(title, ("", "what", "figure", "load"), found.rows)


def measure(ensemble: EmbeddedEnsemble, directory: Path, sizes: FleetSizes, found: Figures) -> None:
    directory.mkdir(exist_ok=True)
    share = sizes.jobs // sizes.supervisors + 1
    with Fleet(
        ensemble,
        f"/fleet-{directory.name}",
        directory,
        supervisors=sizes.supervisors,
        session_s=min(20.0, sizes.lease_s / 2),
        lease_s=sizes.lease_s,
        capacity={"drivers": share * 3 // 2, "memory": "256g", "starting": 1},
    ) as fleet:
        placed(fleet, sizes, found)
        at_rest(fleet, [pid for node in range(3) if (pid := ensemble.node(node).pid)], sizes, found)
        taken_over(fleet, sizes, found)
        drained(fleet, sizes, found)
        lost(fleet, sizes, found)


# -- placement ---------------------------------------------------------------------------------------------------------


def placed(fleet: Fleet, sizes: FleetSizes, found: Figures) -> None:
    """From the first submit until all run."""
    names = [f"job-{number:05}" for number in range(sizes.jobs)]
    begun_at_s, written = boottime_s(), writes(fleet)
    for first in range(0, len(names), PER_CALL):
        fleet.submit_many(names[first : first + PER_CALL], knobs=CALM, update={"prepare": "off"})
    fleet.wait_all_running(sizes.jobs, TOOK_MAX_S)
    took_s = boottime_s() - begun_at_s
    found.add(f"submit of {sizes.jobs} jobs, until all run", took_s, "s")
    found.add("  jobs started", sizes.jobs / took_s, "per s")
    found.add("  ZooKeeper writes for each job", (writes(fleet) - written) / sizes.jobs, "")
    hosted = Counter(hosts_of_jobs(fleet).values())
    found.add("jobs of the host that has fewest", min(hosted.values()), "")
    found.add("jobs of the host that has most", max(hosted.values()), "")


# -- at rest -----------------------------------------------------------------------------------------------------------


def at_rest(fleet: Fleet, servers: list[int], sizes: FleetSizes, found: Figures) -> None:
    """Nothing happens but leases that are renewed."""
    leader = fleet.leader()
    others = [member for member in fleet.members if member is not leader]
    names = [row["name"] for row in fleet.rows()][:SAMPLE]
    kinds: dict[str, list[int]] = {
        "of the leader": [leader.pid],
        "of another supervisor": [member.pid for member in others],
        "of a shim": [fleet.process(name, SHIM).pid for name in names],
        "of a twin": [fleet.process(name, TWIN).pid for name in names],
        "of a ZooKeeper server": servers,
    }
    before = {pid: cpu_s(pid) for pids in kinds.values() for pid in pids}
    begun_at_s, written, asked = boottime_s(), writes(fleet), dict(sessions(fleet))
    wait_until(lambda: boottime_s() > begun_at_s + sizes.rest_s, 3 * sizes.rest_s + 60, "the time to pass")
    took_s = boottime_s() - begun_at_s
    found.add("at rest: ZooKeeper sessions", len(asked), "")
    now = dict(sessions(fleet))
    requests = sum(now[each] - count for each, count in asked.items() if each in now)
    found.add("at rest: requests and pings", requests / took_s, "per s")
    found.add("at rest: of these writes", (writes(fleet) - written) / took_s, "per s")
    for what, key, of in HELD:
        found.add(f"at rest: {what} for each job", max(held(fleet, key)) / sizes.jobs / of, "")
    for kind, pids in kinds.items():
        used = statistics.mean(cpu_s(pid) - before[pid] for pid in pids) / took_s
        found.add(f"at rest: CPU {kind}", 100 * used, "% of a core")
        found.add(f"at rest: memory {kind} (PSS)", statistics.mean(pss_kb(pid) for pid in pids) / 1024, "MiB")


# -- changes -----------------------------------------------------------------------------------------------------------


def taken_over(fleet: Fleet, sizes: FleetSizes, found: Figures) -> None:
    """kill -9 of the leader: no driver is touched."""
    leader, epoch, started = fleet.leader(), fleet.epoch(), starts(fleet)
    killed_at_s = fleet.kill(leader)
    wait_until(lambda: fleet.epoch() > epoch, TOOK_MAX_S, "another leader", period_s=0.02)
    found.add("leader kill -9 -> another leads", boottime_s() - killed_at_s, "s")
    wait_until(
        lambda: fleet.status()["jobs"].get("running") == sizes.jobs,
        TOOK_MAX_S,
        "its first pass",
        period_s=0.1,
    )
    found.add("leader kill -9 -> the new one has seen all jobs", boottime_s() - killed_at_s, "s")
    fleet.restart_all()
    found.add("  drivers started by it", starts(fleet) - started, "")


def drained(fleet: Fleet, sizes: FleetSizes, found: Figures) -> None:
    """One host gives its jobs away, cold: its drivers stop in order and start elsewhere."""
    member = fleet.standby()
    moved = list(hosts_of_jobs(fleet).values()).count(member.id)
    begun_at_s, written = boottime_s(), writes(fleet)
    fleet.ok("drain", member.id, "--wait", "--timeout", f"{TOOK_MAX_S:.0f}s", "--reason", "measured")
    fleet.wait_all_running(sizes.jobs, TOOK_MAX_S)
    found.add(f"drain of a host with {moved} jobs, until all run elsewhere", boottime_s() - begun_at_s, "s")
    found.add("  ZooKeeper writes for each of its jobs", (writes(fleet) - written) / max(1, moved), "")
    fleet.ok("uncordon", member.id)


def lost(fleet: Fleet, sizes: FleetSizes, found: Figures) -> None:
    """Everything on one host is killed at once; its leases have to run out."""
    member = next(
        each for each in (fleet.standby(), *fleet.members) if each.id in hosts_of_jobs(fleet).values()
    )
    gone = list(hosts_of_jobs(fleet).values()).count(member.id)
    killed_at_s = boottime_s()
    fleet.kill_host(member)
    wait_until(
        lambda: member.id not in hosts_of_jobs(fleet).values(), TOOK_MAX_S, "its jobs to leave", period_s=1.0
    )
    fleet.wait_all_running(sizes.jobs, TOOK_MAX_S)
    found.add(f"loss of a host with {gone} jobs, until all run elsewhere", boottime_s() - killed_at_s, "s")
    found.add("  of which leases that run out", sizes.lease_s, "s")


# -- what is asked -----------------------------------------------------------------------------------------------------


def hosts_of_jobs(fleet: Fleet) -> dict[str, str]:
    return {row["name"]: str(row["supervisor"]) for row in fleet.rows()}


def held(fleet: Fleet, key: str) -> list[float]:
    """What each server says of itself (``mntr``)."""
    answers = [ask(fleet.ensemble.address(node), "mntr", 5.0) for node in range(3)]
    return [
        float(value) for answer in answers for value in re.findall(rf"^{key}\t(\d+)", answer, re.MULTILINE)
    ]


def starts(fleet: Fleet) -> int:
    """How many drivers have been started so far."""
    return sum(1 for note in fleet.notes() if note.event == "start")


def writes(fleet: Fleet) -> int:
    """How many transactions the ensemble has committed, since its present leader was elected."""
    answers = [ask(fleet.ensemble.address(node), "srvr", 5.0) for node in range(3)]
    return max(
        int(zxid, 16) & 0xFFFFFFFF
        for answer in answers
        for zxid in re.findall(r"Zxid: 0x([0-9a-f]+)", answer)
    )


if __name__ == "__main__":
    main()
