"""The file that says how far ZooKeeper was, and the builders of the election."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor.coord.election import (
    RECENT_KEPT,
    Author,
    Candidate,
    is_ours,
    recent_terms,
    sight,
    take_leadership,
)
from supervisor.coord.trust import Trust, record_epoch
from supervisor.model.records import EpochRecord, LeaderHint
from supervisor.model.transaction import Create, Node, SetData, Stat
from supervisor.registry import codec
from tests.unit.coord.rig import CLUSTER, PATHS, MemoryEpochs

ME = Candidate("host-a", "10.0.0.1:8780")
FOUNDED = Node(codec.encode(CLUSTER), Stat(0, 1))


def judge(trust: Trust, zxid: int) -> str | None:
    return trust.judge(codec, PATHS.cluster, FOUNDED, zxid)


def test_the_highest_zxid_is_kept(tmp_path: Path) -> None:
    trust = Trust(tmp_path / "zxid", CLUSTER.id)
    for zxid in (5, 9, 7):
        trust.remember(zxid)
    again = Trust(tmp_path / "zxid", CLUSTER.id)
    assert again.zxid == 9
    assert judge(again, 9) is None
    assert "0x8" in (judge(again, 8) or "")
    assert [path.name for path in tmp_path.iterdir()] == ["zxid"]


def test_distrust_does_not_move_the_mark(tmp_path: Path) -> None:
    trust = Trust(tmp_path / "zxid", CLUSTER.id)
    trust.remember(9)
    judge(trust, 1)
    trust.remember(50)
    assert Trust(tmp_path / "zxid", CLUSTER.id).zxid == 9


def test_what_was_kept_of_another_cluster_counts_for_nothing(tmp_path: Path) -> None:
    Trust(tmp_path / "zxid", "another").remember(99)
    assert judge(Trust(tmp_path / "zxid", CLUSTER.id), 1) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cluster": "c1"}', '{"cluster": "c1", "zxid": "x", "distrust": null}'])
def test_an_unreadable_mark_is_not_no_mark(tmp_path: Path, text: str) -> None:
    (tmp_path / "zxid").write_text(text)
    assert "can't be read" in (Trust(tmp_path / "zxid", CLUSTER.id).reason or "")


def test_the_election_is_one_multi_on_leader_and_epoch() -> None:
    seen = EpochRecord(6, "host-b", "op6", {"recent": [[6, "host-b", "op6"]], "later": 1})
    tx = take_leadership(PATHS, codec, ME, epoch=7, op_id="op7", seen=seen, version=12)
    create, change = tx.ops
    assert isinstance(create, Create) and isinstance(change, SetData)
    assert (create.path, create.ephemeral) == (PATHS.leader, True)
    assert codec.decode(LeaderHint, create.data, "") == LeaderHint("host-a", 7, "10.0.0.1:8780")
    assert (change.path, change.version) == (PATHS.epoch, 12)
    record = codec.decode(EpochRecord, change.data, "")
    assert (record.epoch, record.supervisor, record.op, record.extra["later"]) == (7, "host-a", "op7", 1)
    assert recent_terms(record) == {6: Author("host-b", "op6"), 7: Author("host-a", "op7")}


def test_the_epoch_record_stays_small() -> None:
    record = EpochRecord(0, "", "")
    me = Candidate("h" * 63, "address")
    for epoch in range(1, 200):
        tx = take_leadership(PATHS, codec, me, epoch=10**9 + epoch, op_id="0" * 16, seen=record, version=epoch)
        record = codec.decode(EpochRecord, tx.ops[1].data, "")  # type: ignore[union-attr]
    assert len(recent_terms(record)) == RECENT_KEPT


def test_strange_entries_of_the_recent_terms_are_left_out() -> None:
    strange: tuple[object, ...] = (None, 3, "x", {}, [[1], 2, ["x", "y", "z"], [4, "a", "op4"]])
    for recent in strange:
        terms = recent_terms(EpochRecord(4, "a", "op4", {"recent": recent}))
        assert terms in ({}, {4: Author("a", "op4")})


def test_own_election_is_known_by_op_and_owner() -> None:
    record = codec.encode(EpochRecord(7, "host-a", "op7"))
    leader = Node(b"not json", Stat(0, 1, ephemeral_owner=42))
    seen = sight(PATHS, codec, leader, Node(record, Stat(9, 2)))
    assert (seen.owner, seen.hint, seen.version) == (42, None, 9)
    assert is_ours(seen, "op7", 42)
    assert not is_ours(seen, "op8", 42)
    assert not is_ours(seen, "op7", 43)
    assert not is_ours(sight(PATHS, codec, None, Node(record, Stat(9, 2))), "op7", 42)


@pytest.mark.parametrize("epoch", [None, Node(b"{", Stat(3, 3)), Node(json.dumps({"v": 99}).encode(), Stat(3, 3))])
def test_a_missing_or_unreadable_epoch_is_a_flaw(epoch: Node | None) -> None:
    assert PATHS.epoch in (sight(PATHS, codec, None, epoch).flaw or "")


MINE = {n: Author("a", f"op{n}") for n in range(5, 9)}


@pytest.mark.parametrize(
    ("stored", "trusted"),
    [
        ({}, True),
        ({7: ("a", "op7")}, True),
        ({8: ("a", "op8")}, True),      # our own, a moment ago
        ({8: ("a", "opx")}, False),
        ({9: ("a", "op9")}, False),
        ({7: ("a", "opx")}, False),     # caught up with
        ({4: ("a", "op4")}, False),     # older than this registry remembers: it can't be told
    ],
)
def test_an_epoch_is_recorded_only_where_the_store_knows_this_registry(
    stored: dict[int, tuple[str, str]], trusted: bool
) -> None:
    store = MemoryEpochs()
    store.kept = dict(stored)
    reason = record_epoch(store, 8, MINE)
    assert (reason is None) is trusted
    assert store.kept == ({**stored, 8: ("a", "op8")} if trusted else stored)
