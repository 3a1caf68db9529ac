"""One run: a world, users and a nemesis for so many seconds; then the verdict."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from supervisor.clock import boottime_s
from tests.chaos import on_attempts, on_hosts, on_links, on_servers, on_supervisors
from tests.chaos.nemesis import Lane
from tests.chaos.report import changes_of_leader, render
from tests.chaos.restore import restore_old_data
from tests.chaos.tail import Tail
from tests.chaos.users import User, make_users
from tests.chaos.verdict import Verdict, judge, repair
from tests.chaos.world import GRACE_S, ChaosWorld, Options, open_world
from tests.faults import checker
from tests.waiting import wait_until

USERS = 3
USER_PAUSE_S = 8.0
BEGIN_S = 180.0
BURST_S, LULL_S = 70.0, 24.0
"""Each leader counts the full wait of a silent attempt from its own first observation: with leaders of two seconds only, nobody
would ever wait long enough."""
JUDGED_EVERY_S = 30.0
"""How often the witness is judged while the run goes on: a violation ends it at once."""


@dataclass
class ChaosOutcome:
    """``text``: the report."""

    verdict: Verdict
    text: str
    faults: int
    leader_changes: int


def run(options: Options, directory: Path, print_line: Callable[[str], None] = print) -> ChaosOutcome:
    """Raises nothing for what the product did wrong: that is in the verdict."""
    with open_world(options, directory) as world:
        users = make_users(world, USERS, USER_PAUSE_S)
        threads: list[threading.Thread] = [*users, *lanes(world)]
        for user in users:
            user.start()
        _wait_begun(world)
        began_at_s = boottime_s()
        for lane in threads[len(users) :]:
            lane.start()
        _watch(world, users, began_at_s, print_line)
        world.done.set()
        for thread in threads:
            thread.join(180)
        lasted_s = boottime_s() - began_at_s
        repair(world)
        verdict = judge(world, users)
        for user in users:
            user.close()
        text = render(world, users, verdict, lasted_s)
        if verdict.violations:
            world.fleet.tell_logs()
        return ChaosOutcome(verdict, text, sum(world.diary.faults.values()), changes_of_leader(world))


def _wait_begun(world: ChaosWorld) -> None:
    """Until every job has run: the nemesis shall have something to break."""
    tail = Tail(world.fleet.witness_file)
    wait_until(
        lambda: len({note.job for note in tail.notes()}) == len(world.leases_s),
        BEGIN_S,
        "all jobs to run once",
    )


def lanes(world: ChaosWorld) -> list[Lane]:
    return [
        Lane(world, "leader", 0.3, on_supervisors.change_leader_often(), BURST_S, LULL_S),
        Lane(world, "supervisors", 5.0, on_supervisors.others()),
        Lane(world, "attempts 1", 5.0, on_attempts.all_faults()),
        Lane(world, "attempts 2", 5.0, on_attempts.all_faults()),
        Lane(world, "prepared", 8.0, on_attempts.of_prepared()),
        Lane(world, "links 1", 1.5, on_links.all_faults()),
        Lane(world, "links 2", 1.5, on_links.all_faults()),
        Lane(world, "links 3", 1.5, on_links.all_faults()),
        Lane(world, "zookeeper", 7.0, on_servers.of_zookeeper(world.options.kind)),
        Lane(world, "store", 5.0, on_servers.of_store()),
        Lane(world, "hosts", 5.0, on_hosts.all_faults()),
        Lane(world, "operator", 20.0, on_hosts.of_operator()),
    ]


def _watch(
    world: ChaosWorld, users: list[User], began_at_s: float, print_line: Callable[[str], None]
) -> None:
    """Until the time is up, or something is wrong already."""
    options, choice, tail = world.options, world.random("restore"), Tail(world.fleet.witness_file)
    due = [options.seconds * (number + 1) / (options.restores + 1) for number in range(options.restores)]
    while boottime_s() - began_at_s < options.seconds:
        world.done.wait(min(JUDGED_EVERY_S, max(0.1, options.seconds - (boottime_s() - began_at_s))))
        if due and boottime_s() - began_at_s > due[0]:
            due.pop(0)
            _restore(world, choice)
        wrong = [*judge_now(world, users, tail), *ended(world)]
        world.violations += wrong
        print_line(
            f"{boottime_s() - began_at_s:6.0f} s  faults {sum(world.diary.faults.values())}  leader changes "
            f"{changes_of_leader(world)}  failed {sum(world.diary.failed.values())}  alive {len(world.fleet.attempts())}"
        )
        if wrong:
            print_line("\n".join(wrong))
            return


def ended(world: ChaosWorld) -> list[str]:
    """Supervisors that nobody has killed, and that are not there: they must survive whatever is done to their surroundings."""
    wrong = []
    for member, lock in zip(world.fleet.members, world.fleet.locks, strict=True):
        if not lock.acquire(blocking=False):
            continue
        if not member.running and not member.down:
            wrong.append(f"{member.id} ended by itself: {' '.join(member.log.splitlines()[-1:])[-300:]}")
        lock.release()
    return wrong


def _restore(world: ChaosWorld, choice: random.Random) -> None:
    try:
        restore_old_data(world, choice)
    except Exception as error:  # as in a lane: what can't be done is told, and the run goes on
        world.diary.failed["restore_old_data"] += 1
        world.diary.write(
            "fault_failed", fault="restore_old_data", error=f"{type(error).__name__}: {error}"[:300]
        )


def judge_now(world: ChaosWorld, users: list[User], tail: Tail) -> list[str]:
    """What is wrong in the record so far."""
    notes = tail.notes()
    acknowledged = [ack for user in users for ack in user.acknowledged]
    return [
        *checker.violations(notes, acknowledged, grace_s=GRACE_S, restored_at_s=world.restored_at_s),
        *checker.disturbed(notes, world.diary.harms, boottime_s() - 10.0),
        *checker.orphaned(notes, world.dead_shims),
    ]
