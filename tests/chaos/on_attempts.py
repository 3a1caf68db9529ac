"""Faults of attempts: shims, twins, drivers. Of shim and twin of one attempt only one is ever harmed.

The freeze of a whole host wakes the killers before the driver: the other order is beyond what a host can promise, and is
measured by tests/faults/test_frozen.py.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from supervisor.clients import processes, run_dir
from supervisor.clients.processes import ProcessId
from supervisor.clock import boottime_s
from tests.chaos.fleet import Attempt
from tests.chaos.nemesis import Fault, Skipped
from tests.chaos.sessions import expel
from tests.chaos.world import ChaosWorld
from tests.faults.checker import DeadShim
from tests.testbed.fleet import DRIVER, SHIM, TWIN


def victim(world: ChaosWorld, choice: random.Random) -> Attempt:
    found = world.fleet.attempts()
    if not found:
        raise Skipped
    return choice.choice(found)


def process_of(attempt: Attempt, file: str) -> ProcessId:
    process = attempt.process(file)
    if process is None:
        raise Skipped
    return process


def send(process: ProcessId, number: int) -> None:
    pidfd = processes.open_pidfd(process)
    if pidfd is not None:
        try:
            processes.send_signal(pidfd, number)
        finally:
            os.close(pidfd)


@contextmanager
def standing_still(world: ChaosWorld, *victims: ProcessId) -> Iterator[None]:
    """SIGSTOP, then SIGCONT to those that still live."""
    for process in victims:
        world.stopped.add(process)
        send(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in victims:
            send(process, signal.SIGCONT)
            world.stopped.discard(process)


def kill_driver(world: ChaosWorld, choice: random.Random) -> None:
    attempt = victim(world, choice)
    process = process_of(attempt, DRIVER)
    with world.diary.harm("driver killed", [attempt.job]):
        world.diary.fault("driver killed", attempt.title)
        send(process, signal.SIGKILL)


def kill_shim(world: ChaosWorld, choice: random.Random) -> None:
    attempt = victim(world, choice)
    process = process_of(attempt, SHIM)
    if not world.take(attempt):
        raise Skipped
    with world.diary.harm("shim killed", [attempt.job]):
        world.diary.fault("shim killed", attempt.title)
        send(process, signal.SIGKILL)


def kill_twin(world: ChaosWorld, choice: random.Random) -> None:
    """No harm to the driver."""
    attempt = victim(world, choice)
    process = process_of(attempt, TWIN)
    if not world.take(attempt):
        raise Skipped
    world.diary.fault("twin killed", attempt.title)
    send(process, signal.SIGKILL)


def stop_twin(world: ChaosWorld, choice: random.Random) -> None:
    attempt = victim(world, choice)
    process = process_of(attempt, TWIN)
    if not world.take(attempt):
        raise Skipped
    with world.diary.lasting("twin stopped", attempt.title), standing_still(world, process):
        world.wait(choice.uniform(1.0, 12.0))


def stop_shim(world: ChaosWorld, choice: random.Random) -> None:
    """Longer than the lease: twin or guardian kill the driver in time."""
    attempt = victim(world, choice)
    process = process_of(attempt, SHIM)
    if not world.take(attempt):
        raise Skipped
    with (
        world.diary.harm("shim stopped", [attempt.job]),
        world.diary.lasting("shim stopped", attempt.title),
        standing_still(world, process),
    ):
        world.wait(world.leases_s[attempt.job] + choice.uniform(-2.0, 5.0))


def stop_shim_briefly(world: ChaosWorld, choice: random.Random) -> None:
    """No harm: its renewals come late, but in time."""
    attempt = victim(world, choice)
    process = process_of(attempt, SHIM)
    if not world.take(attempt):
        raise Skipped
    harmed = world.frail(1.0)
    with (
        world.diary.harm("shim stopped briefly", [name for name in [attempt.job] if name in harmed]),
        world.diary.lasting("shim stopped briefly", attempt.title),
        standing_still(world, process),
    ):
        world.wait(choice.uniform(0.1, 1.0))


def expel_shim(world: ChaosWorld, choice: random.Random) -> None:
    """Its session is closed: it opens another one, and the driver goes on."""
    attempt = victim(world, choice)
    node = world.fleet.client.read(world.fleet.layout.live(attempt.uid, attempt.number))
    if node is None:
        raise Skipped
    world.diary.fault("shim's session closed", attempt.title)
    expel(world.ensemble.hosts, node.stat.ephemeral_owner)


def stop_driver(world: ChaosWorld, choice: random.Random) -> None:
    attempt = victim(world, choice)
    process = process_of(attempt, DRIVER)
    with (
        world.diary.still([attempt.job]),
        world.diary.lasting("driver stopped", attempt.title),
        standing_still(world, process),
    ):
        world.wait(choice.uniform(0.2, 3.0))


def freeze_driver(world: ChaosWorld, choice: random.Random) -> None:
    """The cgroup of the driver."""
    attempt = victim(world, choice)
    with (
        world.diary.still([attempt.job]),
        world.diary.lasting("driver's cgroup frozen", attempt.title),
        frozen(attempt),
    ):
        world.wait(choice.uniform(0.2, 4.0))


@contextmanager
def frozen(attempt: Attempt) -> Iterator[Path]:
    group = attempt.cgroup
    if group is None:
        raise Skipped
    try:
        (group / "cgroup.freeze").write_text("1")
    except OSError as error:
        raise Skipped from error
    try:
        yield group
    finally:
        with suppress(OSError):  # the attempt is over, and its cgroup with it
            (group / "cgroup.freeze").write_text("0")


def freeze_host(world: ChaosWorld, choice: random.Random) -> None:
    """Shim, twin and driver stand still beyond the full wait, as on a paused virtual machine; the killers wake first."""
    attempt = victim(world, choice)
    killers = process_of(attempt, SHIM), process_of(attempt, TWIN)
    if not world.take(attempt):
        raise Skipped
    with (
        world.diary.harm("host frozen", [attempt.job]),
        world.diary.still([attempt.job]),
        world.diary.lasting("host frozen", attempt.title),
        frozen(attempt) as group,
    ):
        with standing_still(world, *killers):
            world.wait(world.leases_s[attempt.job] + choice.uniform(2.0, 8.0))
        deadline_at_s = time.monotonic() + 10
        while populated(group) and any(map(processes.alive, killers)) and time.monotonic() < deadline_at_s:
            time.sleep(0.05)


def populated(group: Path) -> bool:
    try:
        return "populated 1" in (group / "cgroup.events").read_text()
    except OSError:
        return False


# -- prepared drivers --------------------------------------------------------------------------------------------------


def prepared_victim(world: ChaosWorld, choice: random.Random) -> Attempt:
    found = world.fleet.prepared()
    if not found:
        raise Skipped
    return choice.choice(found)


def opened(driver: Attempt) -> list[str]:
    """Its job, if an attempt began in this tree before it was hit: else a fault of it can end no attempt."""
    return [driver.job] if (driver.directory / run_dir.OPENING).exists() else []


def kill_prepared_shim(world: ChaosWorld, choice: random.Random) -> None:
    """Nothing of its tree may be left; the judge is told when it died."""
    driver = prepared_victim(world, choice)
    process, root = process_of(driver, SHIM), driver.process(DRIVER)
    if not world.take(driver):
        raise Skipped
    world.diary.fault("prepared shim killed", driver.title)
    send(process, signal.SIGKILL)
    if root is not None:
        world.dead_shims.append(DeadShim(driver.job, driver.uid, root.pid, boottime_s()))
    with world.diary.harm("prepared shim killed", opened(driver)):
        pass


def kill_prepared_driver(world: ChaosWorld, choice: random.Random) -> None:
    driver = prepared_victim(world, choice)
    process = process_of(driver, DRIVER)
    world.diary.fault("prepared driver killed", driver.title)
    send(process, signal.SIGKILL)
    with world.diary.harm("prepared driver killed", opened(driver)):
        pass


def kill_prepared_twin(world: ChaosWorld, choice: random.Random) -> None:
    """No harm: its shim is left alone from now on."""
    driver = prepared_victim(world, choice)
    process = process_of(driver, TWIN)
    if not world.take(driver):
        raise Skipped
    world.diary.fault("prepared twin killed", driver.title)
    send(process, signal.SIGKILL)


def stop_prepared_shim(world: ChaosWorld, choice: random.Random) -> None:
    """It may be handed an attempt meanwhile, and wakes too late for it. What has begun before is killed at its deadline."""
    driver = prepared_victim(world, choice)
    process = process_of(driver, SHIM)
    if not world.take(driver):
        raise Skipped
    with (
        world.diary.lasting("prepared shim stopped", driver.title),
        standing_still(world, process),
        world.diary.harm("prepared shim stopped", opened(driver)),
    ):
        world.wait(choice.uniform(0.5, world.leases_s[driver.job] + 5.0))


def of_prepared() -> list[tuple[float, Fault]]:
    return [
        (4, kill_prepared_shim),
        (3, kill_prepared_driver),
        (2, kill_prepared_twin),
        (4, stop_prepared_shim),
    ]


def all_faults() -> list[tuple[float, Fault]]:
    return [
        (14, kill_driver),
        (9, kill_shim),
        (5, kill_twin),
        (5, stop_twin),
        (5, stop_shim),
        (12, stop_shim_briefly),
        (24, expel_shim),
        (10, stop_driver),
        (10, freeze_driver),
        (2, freeze_host),
    ]
