"""The same with real Spark, smaller: jobs on s3a://, drivers, shims, leaders and sessions broken one after the other.

``python -m tests.chaos --spark``. A cold start of Spark takes 12 to 16 s, so the faults are few; each one waits until every
job has committed batches again. What is judged is what the sink wrote (``SparkFleet.judge``): no batch lost, none with another
content, a repeat only of the newest one after a crash, no two attempts at once.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.chaos.sessions import expel
from tests.chaos.world import aws_environment
from tests.faults import checker
from tests.testbed.fleet import DRIVER, SHIM
from tests.testbed.moto import AWS_ENV, MotoServer
from tests.testbed.s3a_jars import s3a_jars
from tests.testbed.spark_fleet import SparkFleet

Fault = Callable[[SparkFleet, str], str]
"""Given a fleet and a job; returns what was done."""

MORE_BATCHES = 2
PATIENCE_S = 600.0
"""For a cold start of Spark on a machine that does much else; nothing is asserted about time."""

SUPERVISORS = 2


def run(seconds: float, seed: int, jobs: int, directory: Path, print_line: Callable[[str], None]) -> str:
    """Returns the report. Raises AssertionError naming what is wrong."""
    choice = random.Random(f"{seed}/spark")
    directory.mkdir(parents=True, exist_ok=True)
    moto = MotoServer(directory)
    try:
        with aws_environment(AWS_ENV), EmbeddedEnsemble(directory / "zookeeper") as ensemble:
            (directory / "fleet").mkdir()
            fleet = SparkFleet(
                ensemble,
                "/chaos",
                directory / "fleet",
                supervisors=SUPERVISORS,
                lease_s=20.0,
                grace_s=15.0,
                session_s=6.0,
                endpoint_url=moto.endpoint_url,
                bucket=moto.new_bucket(),
                s3a_jars=s3a_jars(),
            )
            with fleet:  # judged at the end
                return _chaos(
                    fleet, choice, seconds, [f"spark-{number}" for number in range(jobs)], print_line
                )
    finally:
        moto.stop()


def _chaos(
    fleet: SparkFleet,
    choice: random.Random,
    seconds: float,
    names: list[str],
    print_line: Callable[[str], None],
) -> str:
    for name in names:
        fleet.submit(name)
    for name in names:
        fleet.wait_batch_of(name, 1)
    began_at_s, faults, epoch = boottime_s(), Counter[str](), fleet.epoch()
    round_: list[Fault] = []
    while boottime_s() - began_at_s < seconds:
        # each of them before any comes again
        round_ = round_ or choice.sample(ALL_FAULTS, len(ALL_FAULTS))
        what = round_.pop()(fleet, choice.choice(names))
        faults[what] += 1
        for name in names:
            fleet.wait_batches(name, MORE_BATCHES, PATIENCE_S)
        fleet.restore()
        fleet.judge()
        print_line(
            f"{boottime_s() - began_at_s:6.0f} s  {what}; batches {[fleet.last_batch(name) for name in names]}"
        )
    lasted_s = boottime_s() - began_at_s
    batches = {name: fleet.last_batch(name) + 1 for name in names}
    attempts = len(checker.spans(fleet.notes()))
    return (
        f"chaos with real Spark: {lasted_s:.0f} s, faults {sum(faults.values())} {dict(faults)}, leader changes "
        f"{fleet.epoch() - epoch}, attempts {attempts}, batches committed {batches}: none lost, none twice"
    )


def kill_driver(fleet: SparkFleet, name: str) -> str:
    fleet.signal(fleet.process(name, DRIVER), signal.SIGKILL)
    return "driver killed"


def kill_shim(fleet: SparkFleet, name: str) -> str:
    fleet.signal(fleet.process(name, SHIM), signal.SIGKILL)
    return "shim killed"


def kill_leader(fleet: SparkFleet, name: str) -> str:
    epoch = fleet.epoch()
    fleet.kill(fleet.leader())
    fleet.wait_new_leader(epoch)
    return "leader killed"


def expel_leader(fleet: SparkFleet, name: str) -> str:
    fleet.leader()
    epoch = fleet.epoch()
    expel(fleet.ensemble.hosts, fleet.leader_session())
    fleet.wait_new_leader(epoch)
    return "leader's session closed"


ALL_FAULTS: tuple[Fault, ...] = (kill_driver, kill_shim, kill_leader, expel_leader)
