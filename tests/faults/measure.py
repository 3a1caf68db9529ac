"""``python -m tests.faults.measure``: the figures of a failure, on this machine, with the embedded ensemble.

Not a test: it asserts nothing. What the drivers wrote down and what the kernel says is measured; the one figure that only
a leader can tell (its first pass) is taken from its log. ``--rounds`` repeats, ``--jobs`` sets the sizes of the takeover.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from supervisor.clients.four_letter import ask
from supervisor.clock import boottime_s, wall_iso
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.records import (
    BlobRef,
    Desired,
    Driver,
    HistoryEntry,
    JobRef,
    Lease,
    Ownership,
    OwnState,
    Phase,
    SchedulingSpec,
)
from supervisor.model.restart import RestartPolicy
from supervisor.model.transaction import Create, Transaction
from supervisor.records.codec import encode
from supervisor.records.ids import new_op_id, new_uid
from tests.testbed.attempts import pss_kb
from tests.testbed.fleet import DRIVER, SHIM, TWIN, Fleet, FleetMember
from tests.waiting import wait_until

NODES_PER_WRITE = 90


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--rounds", type=int, default=10)
    given.add_argument("--only-many", action="store_true", help="only the takeovers with many jobs")
    given.add_argument("--jobs", type=int, nargs="*", default=[100, 1000])
    chosen = given.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        EmbeddedEnsemble(Path(directory) / "zookeeper") as ensemble,
    ):
        if not chosen.only_many:
            with _fleet(ensemble, Path(directory)) as fleet:
                attempts(fleet, chosen.rounds)
                takeover(fleet, chosen.rounds)
        for jobs in chosen.jobs:
            with _fleet(ensemble, Path(directory)) as fleet:
                many(fleet, jobs)


def _fleet(ensemble: EmbeddedEnsemble, directory: Path) -> Fleet:
    own = directory / uuid.uuid4().hex[:8]
    own.mkdir()
    return Fleet(ensemble, f"/measure-{own.name}", own, session_s=10.0, lease_s=30.0)


def report_figure(what: str, values: Iterable[float]) -> None:
    """In seconds, unless ``what`` says otherwise."""
    found = sorted(values)
    middle = statistics.median(found)
    print(f"{what:<68} median {middle:7.3f}   worst {found[-1]:7.3f}   (n={len(found)})", flush=True)


# -- attempts ----------------------------------------------------------------------------------------------------------


DELAY_S = 0.2
"""``restart.initial`` of the fleet."""


def attempts(fleet: Fleet, rounds: int) -> None:
    """A killed driver, a killed shim, a cancel, of one job after the other; memory of shim and twin."""
    figures: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds):
        name = f"job-{number}"
        fleet.submit(name, knobs={"child": True, "beat_s": 0.01})
        fleet.wait_state(name, "running")
        pids = fleet.process(name, SHIM).pid, fleet.process(name, TWIN).pid
        figures["shim + twin, PSS (MiB)"].append(pss_kb(*pids) / 1024)
        kill_driver(fleet, name, figures)
        kill_shim(fleet, name, figures)
        cancel(fleet, name, figures, by_command=number % 2 == 0)
    for what, values in figures.items():
        report_figure(what, values)


def kill_driver(fleet: Fleet, name: str, figures: dict[str, list[float]]) -> None:
    killed_at_s = boottime_s()
    fleet.signal(fleet.process(name, DRIVER), signal.SIGKILL)
    started_at_s = fleet.wait_attempt(name, 2).at_s
    figures[f"driver killed -> next driver runs, beyond the delay of {DELAY_S} s"].append(
        started_at_s - killed_at_s - DELAY_S
    )
    fleet.wait_state(name, "running")


def kill_shim(fleet: Fleet, name: str, figures: dict[str, list[float]]) -> None:
    tree = fleet.process(name, DRIVER), fleet.child(name)
    killed_at_s = boottime_s()
    fleet.signal(fleet.process(name, SHIM), signal.SIGKILL)
    fleet.wait_gone(*tree, period_s=0.005)
    figures["shim killed -> driver tree gone"].append(boottime_s() - killed_at_s)
    figures[f"shim killed -> next driver runs, the delay of {DELAY_S} s included"].append(
        fleet.wait_attempt(name, 3).at_s - killed_at_s
    )
    fleet.wait_state(name, "running")


def cancel(fleet: Fleet, name: str, figures: dict[str, list[float]], *, by_command: bool) -> None:
    tree = fleet.process(name, DRIVER), fleet.child(name)
    commands = fleet.commands()
    commands.job_records(name)  # connected
    asked_at_s = boottime_s()
    if by_command:
        argv = [sys.executable, "-c", "from supervisor.cli.main import main; main()", "cancel", name]
        subprocess.run([*argv, "--config", str(fleet.user_config())], check=True, stdout=subprocess.DEVNULL)
        figures["cancel acknowledged, the whole command"].append(boottime_s() - asked_at_s)
    else:
        commands.cancel(name)
        figures["cancel acknowledged, on an open session"].append(boottime_s() - asked_at_s)
    acknowledged_at_s = boottime_s()
    fleet.wait_gone(*tree, period_s=0.005)
    figures["cancel acknowledged -> driver tree gone"].append(boottime_s() - acknowledged_at_s)


# -- takeover ----------------------------------------------------------------------------------------------------------


def takeover(fleet: Fleet, rounds: int) -> None:
    """kill -9 of the leader, ten running jobs; its host is alive, so its session closer closes the session."""
    names = [f"run-{i}" for i in range(10)]
    fleet.submit_many(names)
    for name in names:
        fleet.wait_state(name, "running", timeout_s=120)
    elected, acted = [], []
    for _ in range(rounds):
        killed_at_s, led_at_s, first_at_s, _ = kill_leader(fleet)
        elected.append(led_at_s - killed_at_s)
        acted.append(first_at_s - killed_at_s)
        fleet.restart_all()
    report_figure("leader kill -9 -> another is elected", elected)
    report_figure("leader kill -9 -> the new one has finished its first pass, 10 jobs", acted)
    restarted = [name for name in names if len(fleet.starts(name)) != 1]
    print(f"{'drivers restarted by that':<68} {len(restarted)} of {len(names)}", flush=True)
    for name in names:
        fleet.cancel(name)


def kill_leader(fleet: Fleet) -> tuple[float, float, float, dict[str, object]]:
    """(killed, another elected, its first pass was recorded) in BOOTTIME, and what it said of that pass."""
    leader, epoch = fleet.leader(), fleet.epoch()
    other = fleet.standby()
    killed_at_s = fleet.kill(leader)
    wait_until(lambda: fleet.epoch() > epoch, 60, "another leader", period_s=0.005)
    led_at_s = boottime_s()
    logged: dict[str, object] = wait_until(
        lambda: _first_pass(other, epoch), 120, "its first pass", period_s=0.02
    )
    ahead_s = time.time() - boottime_s()
    return (
        killed_at_s,
        led_at_s,
        datetime.fromisoformat(str(logged["timestamp"])).timestamp() - ahead_s,
        logged,
    )


def _first_pass(member: FleetMember, after_epoch: int) -> dict[str, object] | None:
    for line in reversed(member.log.splitlines()):
        with suppress(ValueError):
            logged: dict[str, object] = json.loads(line)
            if (
                logged.get("event") == "pass"
                and logged.get("first")
                and int(str(logged["epoch"])) > after_epoch
            ):
                return logged
    return None


# -- many jobs ---------------------------------------------------------------------------------------------------------


IDLE_S = 20.0


def many(fleet: Fleet, jobs: int) -> None:
    """A takeover with so many claimed jobs in the registry; there are no drivers behind them, and none is missed yet.

    Requests: what ZooKeeper has received on the connection of the new leader's session, pings and all, when it says that
    its first pass is over.
    """
    nodes = [node for number in range(jobs) for node in claimed(fleet, f"job-{number:05}")]
    create(fleet, nodes)
    before, spent_s = dict(sessions(fleet)), cpu_s(fleet.standby().pid)
    killed_at_s, led_at_s, first_at_s, logged = kill_leader(fleet)
    session, spent_s = fleet.leader_session(), cpu_s(fleet.leader().pid) - spent_s
    asked = dict(sessions(fleet))[session] - before.get(session, 0)
    leader = fleet.leader()
    print(
        f"takeover with {jobs} jobs: elected after {led_at_s - killed_at_s:.3f} s, first pass after {first_at_s - killed_at_s:.3f} s "
        f"(the pass itself {float(str(logged['ms'])) / 1000:.3f} s; {spent_s:.2f} s of CPU), {asked} requests = {asked / jobs:.3f} per job, "
        f"actions {logged['actions']}, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    seen_at_s, asked = boottime_s(), dict(sessions(fleet))[session]
    wait_until(lambda: boottime_s() > seen_at_s + IDLE_S, 2 * IDLE_S, "some idle passes")
    asked = dict(sessions(fleet))[session] - asked
    print(
        f"  then, idle: {asked / (boottime_s() - seen_at_s):.1f} requests/s, leader {pss_kb(leader.pid) / 1024:.0f} MiB "
        f"(one that was just started: {_fresh_kb(fleet) / 1024:.0f})",
        flush=True,
    )
    fleet.judged = False


def cpu_s(pid: int) -> float:
    """What the process has used so far, user and system: a figure that a busy machine leaves as it is."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _fresh_kb(fleet: Fleet) -> int:
    """Memory of a supervisor that has just been started."""
    member = fleet.add_member()
    wait_until(lambda: member.id in (fleet.client.children(fleet.layout.supervisors) or ()), 60, "one more")
    return pss_kb(member.pid)


def sessions(fleet: Fleet) -> list[tuple[int, int]]:
    """(session, packets received from it on its present connection), of all three servers."""
    connections = "".join(ask(fleet.ensemble.address(node), "cons") for node in range(3))
    return [
        (int(sid, 16), int(count))
        for count, sid in re.findall(r"recved=(\d+),.*?sid=0x([0-9a-f]+)", connections)
    ]


def claimed(fleet: Fleet, name: str) -> list[tuple[str, bytes]]:
    layout, uid, at = fleet.layout, new_uid(name), wall_iso()
    terms = SchedulingSpec(
        memory=1 << 20,
        priority=0,
        unbounded=True,
        lease_s=300.0,
        stop_grace_s=30.0,
        start_timeout_s=300.0,
        checkpoint=f"file:///checkpoints/{name}",
        restart=RestartPolicy(),
    )
    blob = BlobRef(key=f"specs/{name}/{uid}/1-{'0' * 64}.json", sha256="0" * 64, bytes=2)
    ref = JobRef(
        name=name,
        uid=uid,
        revision=1,
        spec=blob,
        desired=Desired.RUNNING,
        restart_nonce="n",
        terms=terms,
        submitted_at=at,
        changed=HistoryEntry(at=at, event="submitted"),
        op="op",
    )
    own = Ownership(
        state=OwnState.CLAIMED,
        op="op",
        newest_uid=uid,
        uid=uid,
        attempt=1,
        claim="c",
        revision=1,
        supervisor="s0",
        host="h",
        memory=1 << 20,
        claims=1,
        restart_nonce="n",
        job_version=0,
    )
    lease = Lease(
        name=name,
        uid=uid,
        attempt=1,
        claim="c",
        lease_s=300.0,
        stop_grace_s=30.0,
        phase=Phase.RUNNING,
        driver=Driver(host="h", shim_pid=1, pid=2),
        since=at,
    )
    records = [
        (layout.job(name), encode(ref)),
        (layout.own(name), encode(own)),
        (layout.lease(name), encode(lease)),
    ]
    return [*records, (layout.live(uid, 1), b"")]


def create(fleet: Fleet, nodes: list[tuple[str, bytes]]) -> None:
    for at in range(0, len(nodes), NODES_PER_WRITE):
        ops = tuple(Create(path, data) for path, data in nodes[at : at + NODES_PER_WRITE])
        fleet.client.commit(Transaction("many", new_op_id(), ops))


if __name__ == "__main__":
    main()
