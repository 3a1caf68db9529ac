"""What the agent makes of what it reads: whose node it is, when it has looked, what it starts once."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from supervisor.clients import processes, run_dir
from supervisor.clients.processes import ProcessId
from supervisor.clients.zookeeper import ZooClient
from supervisor.daemon.host import agent as module
from supervisor.daemon.host.launcher import HostedAttempts, TrustCheck
from supervisor.errors import Conflict
from supervisor.model.records import Assignment, OwnState
from supervisor.model.transaction import Create, Transaction
from tests.fakes.registry_bench import Bench
from tests.unit.daemon.host.test_agent import Started, agent_of, assigned, one_round
from tests.waiting import wait_until


def test_an_id_that_another_session_holds_is_not_ours(tmp_path: Path) -> None:
    bench = Bench()
    other = bench.zoo.client()
    agent = agent_of(bench, Started(), tmp_path, None)
    for parent in (bench.layout.supervisors,):
        if parent not in bench.zoo.tree():
            bench.zoo.put(parent, b"")
    other.commit(
        Transaction("register", "o", (Create(bench.layout.supervisor("host-a"), b"{}", ephemeral=True),))
    )
    with pytest.raises(Conflict, match="another session"):
        agent._round()
    assert not agent.registered


def test_what_was_taken_back_meanwhile_is_not_started(tmp_path: Path) -> None:
    bench, started = Bench(), Started()
    assigned(bench, bench.layout)
    bench.set_own("a", OwnState.DRAINING)
    one_round(agent_of(bench, started, tmp_path, None))
    assert started.keys == []


def test_a_new_assignment_rings(tmp_path: Path) -> None:
    bench = Bench()
    agent = agent_of(bench, Started(), tmp_path, None)
    agent._round()
    for _ in range(2):
        agent.wake.clear()
        key = f"uid-{_}.1"
        bench.zoo.put(f"{bench.layout.assigned_to('host-a')}/{key}", b"{}")
        assert agent.wake.is_set(), "at each of them: the watch is set by each round"
        agent._round()


@dataclass
class Slow(Started):
    """Does not come to an end before it may."""

    may_end: threading.Event = field(default_factory=threading.Event)

    def start(self, given: Assignment, look: TrustCheck, ended_before: str | None = None) -> None:
        super().start(given, look, ended_before)
        self.may_end.wait(30)


def test_what_is_being_started_is_not_started_again(tmp_path: Path) -> None:
    bench, started = Bench(), Slow()
    key = assigned(bench, bench.layout)
    agent = agent_of(bench, started, tmp_path, None)
    agent._round()
    wait_until(lambda: started.keys == [key], 20, "its start")
    agent._round()
    started.may_end.set()
    agent._pool.shutdown(wait=True, cancel_futures=True)
    assert started.keys == [key]


def test_a_look_counts_from_before_it_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shim adds its own time to it: a registry that was restored since is not to be found trustworthy by an older look."""
    agent, now_s = agent_of(Bench(), Started(), tmp_path, None), [100.0]

    def doubt(_client: ZooClient, _zxid: int) -> str | None:
        now_s[0] += 50.0
        return None

    monkeypatch.setattr(module, "boottime_s", lambda: now_s[0])
    agent._doubt = doubt
    assert agent._trusted_at(cast(ZooClient, None), "uid-1.1", 0) == 100.0


def test_whether_somebody_lives_there_is_no_when_that_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place is not given to another while nobody can tell."""
    hosted = HostedAttempts(tmp_path, tmp_path)
    (hosted.attempts_dir / "u.1").mkdir(parents=True)
    me = processes.identify(os.getpid())
    assert me is not None
    run_dir.write_process(str(hosted.attempts_dir / "u.1" / run_dir.SHIM), me)

    def none_left(_process: ProcessId) -> bool:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(processes, "alive", none_left)
    assert hosted.is_alive("u.1")


def test_a_node_that_is_gone_is_made_anew(tmp_path: Path) -> None:
    bench = Bench()
    agent = agent_of(bench, Started(), tmp_path, None)
    agent._round()
    path = bench.layout.supervisor("host-a")
    bench.zoo.remove(path)
    agent._round()
    agent._round()
    assert path in bench.zoo.tree() and agent.registered


def test_a_second_supervisor_of_an_id_does_not_begin(tmp_path: Path) -> None:
    bench = Bench()
    first, second = (agent_of(bench, Started(), tmp_path, None) for _ in range(2))
    first._round()
    with pytest.raises(Conflict, match="in use"):
        second.check_alone(0.05)
