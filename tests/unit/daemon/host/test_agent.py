"""The agent on an ensemble in memory: what it starts, and when it starts nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from supervisor.clients.zookeeper import ZooClient
from supervisor.daemon.host.agent import Agent
from supervisor.daemon.host.launcher import HostedAttempts, Launcher, Refused, TrustCheck
from supervisor.daemon.host.preflight import KnownCheckpoint
from supervisor.daemon.host.prepared import HostLoad
from supervisor.errors import AccessDenied, SupervisorError, Unreachable
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.records import (
    UNCHARGED_CAUSES,
    Assignment,
    Cause,
    Driver,
    Lease,
    Member,
    OwnState,
    Phase,
    Preparation,
    version_of,
)
from supervisor.model.seen import Found
from supervisor.model.transaction import ANY_VERSION, Delete, Transaction
from supervisor.records.codec import decode
from supervisor.records.layout import Layout, split_attempt
from tests.fakes.registry_bench import Bench
from tests.fakes.zookeeper import MemoryClient
from tests.waiting import wait_until

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
class Started:
    """In the place of the starter."""

    keys: list[str] = field(default_factory=list)
    refusals: list[Cause] = field(default_factory=list)
    known: list[KnownCheckpoint] = field(default_factory=list)
    unwritten: dict[str, str] = field(default_factory=dict)
    prepared: list[Preparation] = field(default_factory=list)
    error: Exception | None = None

    def loads(self) -> list[HostLoad]:
        return []

    def bring_up(self, request: Preparation) -> None:
        if self.error is not None:
            raise self.error
        self.prepared.append(request)

    def check_again(self) -> dict[str, str]:
        return self.unwritten

    def start(self, given: Assignment, trust_check: TrustCheck, ended_before: str | None = None) -> None:
        self.known.append(trust_check.known)
        self.keys.append(f"{given.uid}.{given.attempt}")

    def refused(self, why: Refused) -> None:
        self.refusals.append(why.cause)


def agent_of(bench: Bench, started: Started, directory: Path, doubt: str | None) -> Agent:
    def connect(on_link: Any) -> ZooClient:
        return cast(ZooClient, MemoryClient(bench.zoo, on_link=on_link))

    hosted = HostedAttempts(directory, directory)
    return Agent(ME, bench.layout, connect, cast(Launcher, started), hosted, doubt=lambda client, zxid: doubt)


def assigned(bench: Bench, layout: Layout) -> str:
    uid = bench.submit("a").uid
    bench.set_own("a", OwnState.ASSIGNED)
    ref = bench.ref("a")
    node = bench.zoo.client().read(layout.own("a"))
    assert node is not None
    entry = Assignment(
        name="a",
        uid=uid,
        attempt=1,
        revision=1,
        job_version=ref.version,
        own_version=node.stat.version,
        spec=ref.record.spec,
        memory=1,
    )
    bench.put(layout.assignment("host-a", uid, 1), entry)
    return f"{uid}.1"


def one_round(agent: Agent) -> None:
    agent._round()
    agent._pool.shutdown(wait=True)


def test_what_is_assigned_here_is_started(tmp_path: Path) -> None:
    bench, started = Bench(), Started()
    key = assigned(bench, bench.layout)
    one_round(agent_of(bench, started, tmp_path, None))
    assert started.keys == [key]


def test_nothing_is_started_while_the_cluster_is_paused_and_then_it_is(tmp_path: Path) -> None:
    bench, started = Bench(), Started()
    key = assigned(bench, bench.layout)
    bench.zoo.put(bench.layout.pause, b"")
    agent = agent_of(bench, started, tmp_path, None)
    agent._round()
    wait_until(lambda: not agent._under_way, 20, "its end")
    assert started.keys == []
    bench.zoo.client().commit(Transaction("unpause", "u", (Delete(bench.layout.pause, ANY_VERSION),)))
    one_round(agent)
    assert started.keys == [key]


class Refusing(Started):
    """Raises instead of starting."""

    def __init__(self, error: SupervisorError) -> None:
        super().__init__()
        self.error = error

    def start(self, given: Assignment, trust_check: TrustCheck, ended_before: str | None = None) -> None:
        raise self.error


def test_a_refusal_names_the_host(tmp_path: Path) -> None:
    bench = Bench()
    assigned(bench, bench.layout)
    one_round(
        agent_of(bench, Refusing(Refused(Cause.NO_SPARK, "no Java on this host; install it")), tmp_path, None)
    )
    own = bench.own("a")
    assert (own.state, own.permanent) == (OwnState.EXITED, True)
    assert own.reason == "host-a.example: no Java on this host; install it"


def test_credentials_that_the_store_refuses_are_a_refusal_for_now_that_everybody_can_read(
    tmp_path: Path,
) -> None:
    bench = Bench()
    assigned(bench, bench.layout)
    one_round(
        agent_of(bench, Refusing(AccessDenied("s3://bkt refused the credentials (403)")), tmp_path, None)
    )
    own = bench.own("a")
    assert (own.state, own.cause, own.permanent) == (OwnState.EXITED, Cause.NO_ACCESS, False)
    assert own.reason == "host-a.example: s3://bkt refused the credentials (403)"
    assert Cause.NO_ACCESS in UNCHARGED_CAUSES


def test_a_refusal_by_policy_is_remembered_with_the_policy_and_is_not_for_good(tmp_path: Path) -> None:
    bench = Bench()
    assigned(bench, bench.layout)
    agent = agent_of(
        bench, Refusing(Refused(Cause.POLICY, "conf spark.plugins: it is forbidden")), tmp_path, None
    )
    agent._me = replace(agent._me, policy_sha256="ab" * 32)
    one_round(agent)
    own = bench.own("a")
    assert (own.state, own.cause, own.permanent) == (OwnState.EXITED, Cause.POLICY, False)
    assert own.refused_by == ("ab" * 8,) and own.refused_of == version_of(own)
    assert own.reason == "host-a.example: conf spark.plugins: it is forbidden"
    assert Cause.POLICY in UNCHARGED_CAUSES


@pytest.mark.parametrize("cause", [Cause.NO_ROOM, Cause.NO_ACCESS, Cause.NOT_STARTED, Cause.BAD_CHECKPOINT])
def test_what_may_pass_keeps_no_policy_from_the_job(tmp_path: Path, cause: Cause) -> None:
    bench = Bench()
    assigned(bench, bench.layout)
    agent = agent_of(bench, Refusing(Refused(cause, "why")), tmp_path, None)
    agent._me = replace(agent._me, policy_sha256="ab" * 32)
    one_round(agent)
    assert (bench.own("a").cause, bench.own("a").refused_by) == (cause, ())


def test_a_store_that_does_not_answer_is_no_refusal(tmp_path: Path) -> None:
    bench = Bench()
    assigned(bench, bench.layout)
    one_round(agent_of(bench, Refusing(Unreachable("no answer")), tmp_path, None))
    assert bench.own("a").state is OwnState.ASSIGNED


def test_a_number_that_was_used_here_in_a_lost_state_is_refused(tmp_path: Path) -> None:
    """Its run directory may stay for minutes: the shim looks for an ownership that is gone."""
    bench, started = Bench(), Started()
    key = assigned(bench, bench.layout)
    agent = agent_of(bench, started, tmp_path, None)
    (tmp_path / "attempts" / key).mkdir(parents=True)
    node = bench.zoo.client().read(bench.layout.assignment("host-a", *split_attempt(key)))
    assert node is not None
    given = decode(Assignment, node.data, "")
    known = [replace(given, own_version=given.own_version + 3), given]
    agent._hosted.launches = lambda: {key: SimpleNamespace(assignment=known[-1])}  # type: ignore[method-assign,dict-item]
    agent._round()
    wait_until(lambda: not agent._under_way, 20, "its end")
    assert bench.own("a").state is OwnState.ASSIGNED, "started by this very assignment"
    known.pop()
    one_round(agent)
    own = bench.own("a")
    assert (own.state, own.permanent, started.keys) == (OwnState.EXITED, False, [])
    assert "was lost" in own.reason


def test_what_a_host_remembers_against_the_registry_is_in_its_record(tmp_path: Path) -> None:
    bench = Bench()
    agent = agent_of(bench, Started(), tmp_path, None)
    why: list[str | None] = [None, "restored", None]
    agent._distrust = lambda: why[0]
    for expected in (None, "restored", None):
        agent._round()
        found = bench.record(Member, bench.layout.supervisor("host-a"))
        assert isinstance(found, Found) and found.record.distrust == expected
        why.pop(0)
        why.append(None)


def recorded_distrust(bench: Bench) -> str | None:
    found = bench.record(Member, bench.layout.supervisor("host-a"))
    assert isinstance(found, Found)
    distrust: str | None = found.record.distrust
    return distrust


def test_a_distrust_that_is_over_leaves_the_record_though_the_reply_to_the_registration_was_lost(
    tmp_path: Path,
) -> None:
    """Else no job is ever placed here again, and every acceptance of the registry seems to be in vain."""
    bench = Bench()
    agent = agent_of(bench, Started(), tmp_path, None)
    agent._round()  # /assigned/host-a is there
    why: list[str | None] = ["restored"]
    agent._distrust = lambda: why[0]
    bench.zoo.expire(cast(MemoryClient, agent.client))
    cast(MemoryClient, agent._open()).lose_next_reply()
    agent._turn()
    assert recorded_distrust(bench) == "restored"
    why[0] = None
    agent._round()
    assert recorded_distrust(bench) is None


def test_a_distrust_that_is_over_leaves_the_record_though_the_reply_to_telling_it_was_lost(
    tmp_path: Path,
) -> None:
    bench = Bench()
    agent = agent_of(bench, Started(), tmp_path, None)
    agent._round()
    why: list[str | None] = ["restored"]
    agent._distrust = lambda: why[0]
    cast(MemoryClient, agent.client).lose_next_reply()
    agent._turn()
    assert recorded_distrust(bench) == "restored"
    why[0] = None
    agent._round()
    assert recorded_distrust(bench) is None


def test_a_distrust_that_a_restored_zookeeper_brings_back_leaves_the_record(tmp_path: Path) -> None:
    """The session is in the snapshot, and lives on; its node says what it said then."""
    bench = Bench()
    agent = agent_of(bench, Started(), tmp_path, None)
    why: list[str | None] = ["restored"]
    agent._distrust = lambda: why[0]
    agent._round()
    saved = bench.zoo.snapshot()
    why[0] = None
    agent._round()
    bench.zoo.restore(saved)
    agent._round()
    assert recorded_distrust(bench) is None


def test_a_registration_that_a_restored_zookeeper_has_lost_is_made_anew(tmp_path: Path) -> None:
    bench = Bench()
    agent = agent_of(bench, Started(), tmp_path, None)
    agent._open()
    saved = bench.zoo.snapshot()
    agent._round()
    bench.zoo.restore(saved)
    agent._turn()
    agent._turn()
    assert bench.has(bench.layout.supervisor("host-a"))


def test_nothing_is_started_from_a_registry_that_is_not_trusted(tmp_path: Path) -> None:
    bench, started = Bench(), Started()
    assigned(bench, bench.layout)
    one_round(agent_of(bench, started, tmp_path, "it was restored to an older state"))
    assert started.keys == []
    assert bench.own("a").state is OwnState.ASSIGNED


def test_a_standing_doubt_is_said_once_and_again_when_it_comes_back(tmp_path: Path) -> None:
    bench, doubt = Bench(), ["restored"]
    assigned(bench, bench.layout)
    agent = agent_of(bench, Started(), tmp_path, None)
    agent._doubt = lambda client, zxid: doubt[0] or None

    def rounds(number: int) -> list[str]:
        with structlog.testing.capture_logs() as logs:
            for _ in range(number):
                agent._turn()
                wait_until(lambda: not agent._under_way, 20, "the look at the entry")
        return [str(line["why"]) for line in logs if line["event"] == "agent_waits"]

    assert rounds(3) == ["nothing is started here: restored"]
    doubt[0] = ""
    assert rounds(2) == []
    doubt[0] = "restored"
    assert rounds(3) == ["nothing is started here: restored"]


def test_a_start_is_told_what_the_registry_remembers_of_the_checkpoint(tmp_path: Path) -> None:
    """The lease of the attempt before counts; without one, what the ownership kept."""
    bench, started = Bench(), Started()
    location = "s3://bucket/a"
    uid = bench.submit("a", checkpoint=location).uid
    newest, older = (
        CheckpointExpectation(place=place_of(location), queries=(f"q {batch}",)) for batch in (9, 5)
    )
    bench.set_own("a", OwnState.ASSIGNED, remembered=older)
    own, ref = bench.zoo.client().read(bench.layout.own("a")), bench.ref("a")
    assert own is not None
    entry = Assignment(
        name="a",
        uid=uid,
        attempt=1,
        revision=1,
        job_version=ref.version,
        own_version=own.stat.version,
        spec=ref.record.spec,
        memory=1,
    )
    bench.put(bench.layout.assignment("host-a", uid, 1), entry)
    agent = agent_of(bench, started, tmp_path, None)
    agent._round()
    wait_until(lambda: not agent._under_way, 20, "its end")
    lease = Lease(
        name="a",
        uid=uid,
        attempt=0,
        claim="c",
        lease_s=20.0,
        stop_grace_s=15.0,
        phase=Phase.RUNNING,
        driver=Driver(host="h", shim_pid=1),
        since="",
        remembered=newest,
    )
    bench.put(bench.layout.lease("a"), lease)
    one_round(agent)
    assert started.known == [KnownCheckpoint(location, older), KnownCheckpoint(location, newest)]


def test_what_another_job_left_matters_until_an_attempt_was_claimed(tmp_path: Path) -> None:
    """An attempt that dies in its first batch leaves a checkpoint of its own, which is not to be taken for the other's."""
    bench, started = Bench(), Started()
    location = "s3://bucket/a"
    uid = bench.submit("a", checkpoint=location).uid
    bench.set_own("a", OwnState.ASSIGNED)
    own, ref = bench.zoo.client().read(bench.layout.own("a")), bench.ref("a")
    assert own is not None
    bench.put(bench.layout.job("a"), replace(ref.record, left_by="old"))
    entry = Assignment(
        name="a",
        uid=uid,
        attempt=1,
        revision=1,
        job_version=bench.ref("a").version,
        own_version=own.stat.version,
        spec=ref.record.spec,
        memory=1,
    )
    bench.put(bench.layout.assignment("host-a", uid, 1), entry)
    agent = agent_of(bench, started, tmp_path, None)
    for of_uid in ("earlier", uid):
        agent._round()
        wait_until(lambda: not agent._under_way, 20, "its end")
        bench.put(
            bench.layout.lease("a"),
            Lease(
                name="a",
                uid=of_uid,
                attempt=1,
                claim="c",
                lease_s=20.0,
                stop_grace_s=15.0,
                phase=Phase.RUNNING,
                driver=Driver(host="h", shim_pid=1),
                since="",
            ),
        )
    one_round(agent)
    assert [known.previous_user for known in started.known] == ["old", "old", ""]


def test_why_a_driver_that_waits_is_not_told_is_told_by_its_host(tmp_path: Path) -> None:
    """Every round looks for such drivers: the supervisor that started them may be dead."""
    bench, started = Bench(), Started()
    agent = agent_of(bench, started, tmp_path, None)
    for unwritten in ({"u.1": "no room"}, {}):
        started.unwritten = unwritten
        agent._round()
        agent._publish_state(agent._open())
        member = decode(Member, bench.zoo.tree()[bench.layout.supervisor("host-a")], "")
        assert [(each.uid, each.attempt, each.why) for each in member.delays] == [
            ("u", 1, why) for why in unwritten.values()
        ]


def test_an_ownership_is_read_anew_and_only_one_that_may_be_believed_is_returned(tmp_path: Path) -> None:
    bench = Bench()
    agent = agent_of(bench, Started(), tmp_path, None)
    with pytest.raises(Unreachable, match="no session"):
        agent.ownership("a")
    one_round(agent)
    assert agent.ownership("a") is None
    assigned(bench, bench.layout)
    own = agent.ownership("a")
    assert own is not None and own.state is OwnState.ASSIGNED
    agent._doubt = lambda _client, _zxid: "the registry was restored"
    assert agent.ownership("a") is None
    agent._doubt = lambda _client, _zxid: None
    bench.zoo.put(bench.layout.own("a"), b"no record")
    assert agent.ownership("a") is None
