"""How long renewals are away when the leader of ZooKeeper is stopped (SIGSTOP), against how long ZooKeeper itself is.

    python -m tests.faults.measure_outage [--lease 10] [--session 10] [--rounds 5]

Three servers with tickTime 500 and syncLimit 6, eight sessions that renew as shims do. Printed per round: when the others
served again after the stop, and how much later each renewal committed. From that comes the shortest safe lease of README.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import threading
import time
from dataclasses import dataclass, field

from supervisor.clients.four_letter import newest_leader
from supervisor.clients.zookeeper import Link, ZooClient
from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.errors import SupervisorError
from supervisor.model.lease_terms import outage_survived_s, renew_period_s
from supervisor.model.transaction import ANY_VERSION, Create, SetData, Transaction

SESSIONS = 8
STOPPED_S = 11.0
RETRY_S = 0.5


@dataclass
class Renewer:
    """One session that writes its own znode every sixth of ``lease_s``, and at once after a new connection."""

    hosts: str
    number: int
    lease_s: float
    session_s: float
    sent_at_s: list[float] = field(default_factory=list)
    wake: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        request_s = min(5.0, max(1.0, renew_period_s(self.lease_s)))
        self.client = ZooClient(
            self.hosts, self.session_s, request_timeout_s=request_s, on_link=self._on_link
        )
        self.client.start()
        self.client.wait_connected(60)
        self.client.commit(Transaction("create", f"create-{self.number}", (Create(self.path, b""),)))
        threading.Thread(target=self._renew, daemon=True).start()

    @property
    def path(self) -> str:
        return f"/renewer-{self.number}"

    def _on_link(self, link: Link) -> None:
        if link is Link.CONNECTED:
            self.wake.set()

    def _renew(self) -> None:
        for count in range(1_000_000):
            change = SetData(self.path, b"", ANY_VERSION)
            try:
                sent_at_s = self.client.commit(
                    Transaction("renew", f"{self.number}-{count}", (change,))
                ).sent_at_s
                self.sent_at_s.append(sent_at_s)
                wait_s = sent_at_s + renew_period_s(self.lease_s) - boottime_s()
            except SupervisorError:
                wait_s = RETRY_S
            self.wake.wait(max(0.0, wait_s))
            self.wake.clear()


def stop_leader(ensemble: EmbeddedEnsemble) -> tuple[float, float]:
    """BOOTTIME of the stop, and of the first moment at which another leads. The leader runs again afterwards."""
    leader = ensemble.leader()
    stopped_at_s = boottime_s()
    ensemble.pause(leader)
    others = [ensemble.address(number) for number in range(3) if number != leader]
    while newest_leader(others) is None:
        time.sleep(0.02)
    again_at_s = boottime_s()
    time.sleep(max(0.0, stopped_at_s + STOPPED_S - boottime_s()))
    ensemble.resume(leader)
    return stopped_at_s, again_at_s


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lease", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--session", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    late: list[float] = []
    gaps: list[float] = []
    with tempfile.TemporaryDirectory() as directory, EmbeddedEnsemble(directory) as ensemble:
        renewers = [Renewer(ensemble.hosts, number, asked.lease, asked.session) for number in range(SESSIONS)]
        for number in range(asked.rounds):
            time.sleep(3.0)
            stopped_at_s, again_at_s = stop_leader(ensemble)
            after = [
                min((at for at in each.sent_at_s if at > stopped_at_s + 0.05), default=float("inf"))
                for each in renewers
            ]
            before = [max(at for at in each.sent_at_s if at <= stopped_at_s + 0.05) for each in renewers]
            gaps += [end_at_s - begin_s for begin_s, end_at_s in zip(before, after, strict=True)]
            late += [max(0.0, at - again_at_s) for at in after]
            delays = " ".join(f"{each:.2f}" for each in sorted(late[-SESSIONS:]))
            print(
                f"round {number + 1}: another led {again_at_s - stopped_at_s:.2f} s after the stop, renewals later by (s) {delays}",
                flush=True,
            )
            ensemble.wait_serving()
            time.sleep(2.0)
        allowed_s = outage_survived_s(asked.lease) + renew_period_s(asked.lease)
        print(
            f"later by {sum(late) / len(late):.2f} s on average, {max(late):.2f} s at worst; longest time between two "
            f"renewals {max(gaps):.2f} s, a lease of {asked.lease:g} s allows {allowed_s:.2f} s"
        )
    os._exit(0)  # sessions whose servers are gone would try for ever


if __name__ == "__main__":
    main()
