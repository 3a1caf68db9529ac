"""A start that waits for a store which does not answer: everybody can read why, nothing is used up, and it goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from supervisor.checkpoint.findings import CheckpointFinding
from supervisor.clients.zookeeper import ZooClient
from supervisor.daemon.host import agent
from supervisor.daemon.host import preflight as checkpoint_check
from supervisor.daemon.host.agent import Agent
from supervisor.daemon.host.launcher import HostedAttempts, Launcher, Refused, TrustCheck
from supervisor.daemon.host.preflight import check_of
from supervisor.errors import Unreachable
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.records import Assignment, Delay, Member, Ownership, OwnState
from supervisor.records.codec import encode
from supervisor.spec.s3a import S3Access
from tests.fakes.zookeeper import MemoryClient
from tests.unit.cli.conftest import Terminal

NO_ANSWER = "s3://bucket/a/: no answer in time (last: connection refused); is the store up and reachable from this host?"
WHY = f"the checkpoint s3://bucket/a can't be looked at: {NO_ANSWER}"
ME = Member(
    id="host-a",
    host="host-a.example",
    boot_id="b",
    address="",
    memory=1 << 40,
    drivers=10,
    starting=2,
    software="",
    since="",
)


@dataclass
class StarterWithPreflight:
    """In the place of the starter: the look at the checkpoint is the real one, the store behind it is not."""

    up: bool = False
    started: list[str] = field(default_factory=list)

    def start(self, given: Assignment, look: TrustCheck, ended_before: str | None = None) -> None:
        check_of(given, look.known, S3Access(), dict).wait_for_answer()
        self.started.append(f"{given.uid}.{given.attempt}")

    def check_again(self) -> dict[str, str]:
        return {}

    def refused(self, why: Refused) -> None:
        raise AssertionError(why)

    def preflight(self, *_: Any) -> CheckpointFinding | None:
        if not self.up:
            raise Unreachable(NO_ANSWER)
        return None


@pytest.fixture
def preflighted(monkeypatch: pytest.MonkeyPatch) -> Iterator[StarterWithPreflight]:
    made = StarterWithPreflight()
    monkeypatch.setattr(checkpoint_check, "preflight", made.preflight)
    return made


def assigned(terminal: Terminal) -> str:
    """``a`` has committed batches in its checkpoint before, and attempt 2 of it is for this host."""
    bench, uid = terminal.bench, terminal.submit("a")
    remembered = CheckpointExpectation(place=place_of("s3://bucket/a"), queries=("q1 7",))
    bench.run("a", remembered=remembered)
    bench.set_own("a", OwnState.ASSIGNED, attempt=2, job_version=bench.ref("a").version)
    node, ref = bench.zoo.client().read(bench.layout.own("a")), bench.ref("a")
    assert node is not None
    entry = Assignment(
        name="a",
        uid=uid,
        attempt=2,
        revision=1,
        job_version=ref.version,
        own_version=node.stat.version,
        spec=ref.record.spec,
        memory=1,
    )
    bench.put(bench.layout.assignment("host-a", uid, 2), entry)
    return f"{uid}.2"


def agent_of(terminal: Terminal, starter: StarterWithPreflight, directory: Path) -> Agent:
    def connect(on_link: Any) -> ZooClient:
        return cast(ZooClient, MemoryClient(terminal.bench.zoo, on_link=on_link))

    return Agent(
        ME, terminal.bench.layout, connect, cast(Launcher, starter), HostedAttempts(directory, directory)
    )


def rounds(made: Agent) -> None:
    """Start what is there, then tell of it."""
    made._round()
    made._pool.submit(lambda: None).result()
    while made._under_way:
        pass
    made._publish_state(made._open())


def test_why_a_start_waits_is_in_show_explain_and_list_until_the_store_is_back(
    terminal: Terminal,
    preflighted: StarterWithPreflight,
    tmp_path: Path,
) -> None:
    bench, key = terminal.bench, assigned(terminal)
    made = agent_of(terminal, preflighted, tmp_path)
    before = bench.zoo.tree()
    rounds(made)
    rounds(made)
    assert made.delayed == 1
    after = bench.zoo.tree()
    mine = {
        bench.layout.supervisor("host-a"),
        bench.layout.assigned_to("host-a"),
        bench.layout.preparations_of("host-a"),
    }
    assert {
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    } - mine == set(), "nothing else"

    row = terminal.run("show", "a", "-o", "json").json
    assert (row["state"], row["attempt"]) == ("starting", 2)
    assert (
        row["reason"] == f"assigned to host-a, which can't start it yet: {WHY}; tried again every few seconds"
    )
    assert terminal.run("list", "-o", "json").json[0]["reason"] == row["reason"]
    one = terminal.run("explain", "a", "-o", "json").json
    assert one["reason"] == row["reason"]
    assert one["why"] == f"assigned to host-a, not yet claimed: {WHY}"
    assert WHY in " ".join(terminal.run("explain", "a").out.split())

    preflighted.up = True
    rounds(made)
    assert (preflighted.started, made.delayed) == ([key], 0)
    assert terminal.run("show", "a", "-o", "json").json["reason"] == "assigned to host-a"


def test_what_is_taken_back_is_told_no_more(
    terminal: Terminal, preflighted: StarterWithPreflight, tmp_path: Path
) -> None:
    key = assigned(terminal)
    made = agent_of(terminal, preflighted, tmp_path)
    rounds(made)
    assert made.delayed == 1
    terminal.bench.zoo.remove(terminal.bench.layout.assignment("host-a", key.rpartition(".")[0], 2))
    rounds(made)
    assert made.delayed == 0


def test_the_record_of_a_host_has_room_for_what_it_tells(
    terminal: Terminal, preflighted: StarterWithPreflight, tmp_path: Path
) -> None:
    """A record that is too large would end the agent."""
    made = agent_of(terminal, preflighted, tmp_path)
    made._me = replace(ME, id="i" * 127, host="h" * 253)
    made._delays = {f"20261122-{'n' * 40}{number}-0a1b2c3d.{10**6}": '"\\' * 500 for number in range(20)}
    described = made._described(None)
    assert len(described.delays) == agent.DELAYS_PUBLISHED
    assert len(encode(described)) <= 4096


def test_the_delay_of_another_attempt_is_not_that_of_this_one() -> None:
    from supervisor.model.state import delay_of

    own = Ownership(state=OwnState.ASSIGNED, op="op", uid="u1", attempt=3, supervisor="host-a")
    host = replace(
        ME, delays=(Delay(uid="u1", attempt=2, why="old"), Delay(uid="u2", attempt=3, why="another's"))
    )
    assert delay_of(own, host) == ""
    assert delay_of(own, replace(ME, delays=(Delay(uid="u1", attempt=3, why="mine"),))) == "mine"
    assert (
        delay_of(
            replace(own, state=OwnState.EXITED), replace(ME, delays=(Delay(uid="u1", attempt=3, why="mine"),))
        )
        == ""
    )
