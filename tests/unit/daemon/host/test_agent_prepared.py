"""The agent and prepared drivers, on an ensemble in memory: what it is asked for, what it tells, and lost hand-overs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from supervisor.clients import run_dir
from supervisor.daemon.host.agent import Agent
from supervisor.daemon.host.launcher import Refused
from supervisor.daemon.host.member_record import PUBLISHED_MAX, newly_settled, with_prepared
from supervisor.errors import Unreachable
from supervisor.model.records import (
    Cause,
    Delay,
    Member,
    OwnState,
    PreparedDriver,
    PrepareLevel,
)
from supervisor.model.transaction import ANY_VERSION, Delete, Transaction
from supervisor.records.codec import MAX_RECORD_BYTES, decode, encode
from tests.fakes.registry_bench import Bench
from tests.unit.daemon.host.prepared_bench import GONE, Ear, hand, request, stand
from tests.unit.daemon.host.test_agent import ME, Started, agent_of, assigned
from tests.waiting import wait_until

KEY = "uid-a.p1"


class Asked:
    """An agent of which a prepared driver is asked."""

    def __init__(self, directory: Path) -> None:
        self.bench, self.started = Bench(), Started()
        self.layout = self.bench.layout
        self.doubt: str | None = None
        self.agent: Agent = agent_of(self.bench, self.started, directory, None)
        self.agent._doubt = lambda client, zxid: self.doubt
        self.hosted = self.agent._hosted
        self.bench.zoo.put(self.layout.preparations, b"")
        self.bench.zoo.put(self.layout.doorbell, b"")
        self.path = self.layout.preparation("host-a", "uid-a", 1)

    def ask(self) -> None:
        self.bench.zoo.put(self.path, encode(request()))

    def withdraw(self) -> None:
        self.bench.zoo.client().commit(Transaction("withdraw", "w", (Delete(self.path, ANY_VERSION),)))

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.agent._turn()
            wait_until(lambda: not self.agent._under_way, 20, "its starts")
            wait_until(lambda: not self.agent._prepared._books.under_way, 20, "what it prepares")

    def reported(self) -> list[tuple[bool, str]]:
        member = decode(Member, self.bench.zoo.tree()[self.layout.supervisor("host-a")], "")
        return [(each.ready, each.why) for each in member.prepared]

    def rings(self) -> list[tuple[str, int]]:
        """Returns which multis set the doorbell, and with how many operations."""
        found = []
        for _, tx in self.bench.zoo.log:
            if tx.what == "register" and any(
                getattr(op, "path", "") == self.layout.doorbell for op in tx.ops
            ):
                found.append((tx.ops[-1].data.decode(), len(tx.ops)))  # type: ignore[union-attr]
        return found


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    made = Asked(tmp_path)
    yield made
    made.agent._pool.close()
    made.agent._preparer.close()


def test_what_is_asked_for_is_prepared_and_its_readiness_is_told_with_a_ring(asked: Asked) -> None:
    asked.turn()
    assert asked.bench.has(asked.layout.preparations_of("host-a"))
    asked.ask()
    asked.turn()
    assert asked.started.prepared == [request()] and asked.reported() == [(False, "")]
    assert asked.rings() == [], "that it is being prepared changes nothing for anybody"
    stand(asked.hosted, KEY, request())
    asked.turn(3)
    assert asked.reported() == [(True, "")] and asked.rings() == [("a", 2)]
    assert asked.started.prepared == [request()]


def test_what_cannot_be_prepared_is_told_with_a_ring_and_tried_again_later(asked: Asked) -> None:
    asked.started.error = Unreachable("the store does not answer")
    asked.ask()
    asked.turn(4)
    assert asked.reported() == [(False, "the store does not answer")] and asked.rings() == [("a", 2)]
    assert [each.waits for each in asked.agent._prepared.reported] == [True], "no update is given up for it"
    asked.started.error = None
    asked.turn(2)
    assert asked.started.prepared == [], "after a pause"


@pytest.mark.parametrize(
    ("cause", "said"),
    [(Cause.POLICY, (False, True)), (Cause.NO_ACCESS, (True, False)), (Cause.NOT_STARTED, (False, False))],
)
def test_what_a_host_refuses_is_told_by_what_it_means_for_an_update(
    asked: Asked, cause: Cause, said: tuple[bool, bool]
) -> None:
    asked.started.error = Refused(cause, "conf spark.plugins: it is forbidden")
    asked.ask()
    asked.turn(4)
    assert [(each.waits, each.refused) for each in asked.agent._prepared.reported] == [said]


def test_a_defect_in_one_preparation_is_its_trouble_alone(asked: Asked) -> None:
    asked.started.error = ZeroDivisionError("x")
    asked.ask()
    asked.turn(2)
    assert asked.reported() == [(False, "a defect of the supervisor: ZeroDivisionError: x")]
    assert [each.waits for each in asked.agent._prepared.reported] == [False]


@pytest.mark.parametrize("why", ["paused", "distrust"])
def test_while_paused_or_in_doubt_nothing_is_prepared_and_what_is_there_stays(asked: Asked, why: str) -> None:
    asked.turn()
    if why == "paused":
        asked.bench.zoo.put(asked.layout.pause, b"")
    else:
        asked.doubt = "it was restored"
    asked.ask()
    asked.turn(2)
    assert asked.started.prepared == [] and asked.reported() == [(False, "")], "and that is no failure"
    ear = Ear(stand(asked.hosted, KEY, request()))
    asked.turn(2)
    assert set(ear.heard()) == {"wanted"}
    ear.close()


def test_a_request_that_is_gone_discards_and_an_agent_without_registry_wants_all(asked: Asked) -> None:
    asked.ask()
    ear = Ear(stand(asked.hosted, KEY, request()))
    asked.turn()
    asked.bench.zoo.disconnect(cast("object", asked.agent.client))  # type: ignore[arg-type]
    asked.agent._open = lambda: (_ for _ in ()).throw(Unreachable("no answer"))  # type: ignore[method-assign]
    asked.turn()
    assert ear.heard() == ["wanted", "wanted"]
    del asked.agent._open  # type: ignore[method-assign]
    asked.bench.zoo.reconnect(cast("object", asked.agent.client))  # type: ignore[arg-type]
    asked.withdraw()
    asked.turn()
    assert ear.heard() == ["wanted", "discard"]
    ear.close()


def test_a_request_that_was_taken_back_for_an_assignment_does_not_discard_its_driver(asked: Asked) -> None:
    """The leader assigns, then withdraws; the attempt has not been handed over yet when both are seen."""
    key = assigned(asked.bench, asked.layout)
    uid = key.rpartition(".")[0]
    asked.bench.zoo.put(asked.layout.pause, b"")  # it is not started just now
    ear = Ear(stand(asked.hosted, f"{uid}.p1", request("a", uid=uid)))
    asked.turn(2)
    assert set(ear.heard()) == {"wanted"}
    ear.close()


def test_a_cluster_that_knows_no_prepared_drivers_is_asked_nothing_more(asked: Asked) -> None:
    """The leader is of the version before, and so is the root: nothing is created there."""
    asked.bench.zoo.remove(asked.layout.preparations)
    ear = Ear(stand(asked.hosted, KEY, request()))
    asked.turn(2)
    assert not asked.bench.has(asked.layout.preparations_of("host-a"))
    assert "discard" in ear.heard(), "nobody asks for it"
    ear.close()


def lost(asked: Asked, *, gone: bool) -> str:
    """An attempt that was handed to a prepared driver whose shim is dead since; and its directory gone, or not yet."""
    key = assigned(asked.bench, asked.layout)
    uid = key.rpartition(".")[0]
    directory = stand(asked.hosted, f"{uid}.p1", request("a", uid=uid))
    own = asked.bench.zoo.client().read(asked.layout.own("a"))
    assert own is not None
    given = replace(asked.hosted.prepared()[f"{uid}.p1"].assignment, attempt=1, own_version=own.stat.version)
    launch = replace(asked.hosted.prepared()[f"{uid}.p1"], assignment=given)
    assert run_dir.hand_over(str(asked.hosted.attempts_dir), f"{uid}.p1", key, encode(launch, 1 << 20))
    run_dir.write_process(str(directory / run_dir.SHIM), GONE, "c")
    if gone:
        assert run_dir.remove(str(directory))
    return key


@pytest.mark.parametrize("gone", [False, True])
def test_an_attempt_that_was_lost_with_its_prepared_driver_is_refused_and_never_started_again(
    asked: Asked, gone: bool
) -> None:
    key = lost(asked, gone=gone)
    asked.turn()
    own = asked.bench.own("a")
    assert (own.state, own.cause, own.permanent) == (OwnState.EXITED, Cause.PREPARED_LOST, False)
    assert asked.started.keys == []
    asked.turn(2)
    if gone:
        assert not (asked.hosted.attempts_dir / key).is_symlink(), "it has said what it had to say"


def test_while_its_shim_lives_a_handed_attempt_is_let_be(asked: Asked) -> None:
    key = assigned(asked.bench, asked.layout)
    uid = key.rpartition(".")[0]
    stand(asked.hosted, f"{uid}.p1", request("a", uid=uid))
    own = asked.bench.zoo.client().read(asked.layout.own("a"))
    assert own is not None
    hand(asked.hosted, f"{uid}.p1", 1)
    asked.hosted.launches()
    launch = asked.hosted._launches[key, f"{uid}.p1"]
    asked.hosted._launches[key, f"{uid}.p1"] = replace(
        launch, assignment=replace(launch.assignment, own_version=own.stat.version)
    )
    asked.turn(2)
    assert asked.bench.own("a").state is OwnState.ASSIGNED and asked.started.keys == []


def test_an_agent_that_died_before_the_hand_over_was_written_starts_again(asked: Asked) -> None:
    key = assigned(asked.bench, asked.layout)
    uid = key.rpartition(".")[0]
    stand(asked.hosted, f"{uid}.p1", request("a", uid=uid))
    (asked.hosted.attempts_dir / key).symlink_to(f"{uid}.p1")
    asked.turn()
    assert asked.started.keys == [key]


# -- the record --------------------------------------------------------------------------------------------------------


def driver(number: int, *, ready: bool = True, why: str = "") -> PreparedDriver:
    return PreparedDriver(
        uid=f"01khzzzzzzzzzzzzzzzzzzzzzz-{number:08}",
        revision=1,
        level=PrepareLevel.APPLICATION,
        sha256="0" * 64,
        ready=ready,
        why=why,
    )


def test_the_record_has_as_many_as_there_is_room_for() -> None:
    reported = [driver(number) for number in range(100)]
    assert len(with_prepared(ME, reported).prepared) == min(PUBLISHED_MAX, len(reported))
    crowded = replace(
        ME, delays=tuple(Delay(uid="u" * 30, attempt=1, why="\\" * 240) for _ in range(6)), distrust="x"
    )
    full = with_prepared(crowded, reported)
    assert len(encode(full)) <= MAX_RECORD_BYTES and full.prepared == tuple(reported[: len(full.prepared)])
    huge = replace(ME, software="x" * (MAX_RECORD_BYTES - 300))
    assert with_prepared(huge, reported).prepared == ()


def test_only_what_has_settled_rings() -> None:
    zoo = Bench().zoo
    zoo.put("/m", encode(replace(ME, prepared=(driver(1), driver(2, ready=False)))))
    node = zoo.client().read("/m")
    assert node is not None
    now = replace(ME, prepared=(driver(1), driver(2, ready=False), driver(3, ready=False, why="no")))
    assert newly_settled(node, "/m", now) == [driver(3).uid]
    assert newly_settled(node, "/m", replace(now, prepared=(driver(2),))) == [driver(2).uid]
    assert newly_settled(node, "/m", replace(now, prepared=())) == []
    zoo.put("/m", b"{")
    node = zoo.client().read("/m")
    assert node is not None and newly_settled(node, "/m", now) == [driver(1).uid, driver(3).uid]
