"""The file that says how far ZooKeeper was, and the builders of the election."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from supervisor.coord.election import (
    RECENT_KEPT,
    Author,
    Candidate,
    election_view,
    is_ours,
    publish_recording,
    recent_terms,
    take_leadership,
)
from supervisor.coord.trust import RegistryEvidence, Trust, judge_epochs, record_epoch
from supervisor.errors import Unreachable
from supervisor.model.records import Acceptance, EpochRecord, LeaderHint, LedTerm
from supervisor.model.transaction import Check, Create, Node, SetData, Stat
from supervisor.records import codec
from tests.unit.coord.rig import CLUSTER, PATHS, MemoryEpochs

ME = Candidate("host-a", "10.0.0.1:8780")
BOOTSTRAPPED = Node(codec.encode(CLUSTER), Stat(0, 1))


def judge(
    trust: Trust,
    zxid: int,
    accepted: Acceptance | bytes | None = None,
    doorbell: tuple[int, int] | None = None,
) -> str | None:
    """``doorbell``: version and mzxid of /doorbell."""
    return trust.judge(PATHS, evidence(zxid, accepted, doorbell))


def evidence(
    zxid: int,
    accepted: Acceptance | bytes | None = None,
    doorbell: tuple[int, int] | None = None,
) -> RegistryEvidence:
    data = codec.encode(accepted) if isinstance(accepted, Acceptance) else accepted
    node = None if data is None else Node(data, Stat(0, 1))
    return RegistryEvidence(
        BOOTSTRAPPED, node, None if doorbell is None else Node(b"", Stat(*doorbell)), zxid
    )


def accepted(epoch: int, id: str = "") -> Acceptance:
    return Acceptance(id=id or f"a{epoch}", epoch=epoch, by="root@here", at="t", wait_s=32.0)


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


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"cluster": "c1"}', '{"cluster": "c1", "zxid": "x", "distrust": null}']
)
def test_an_unreadable_mark_is_not_no_mark(tmp_path: Path, text: str) -> None:
    (tmp_path / "zxid").write_text(text)
    assert "can't be read" in (Trust(tmp_path / "zxid", CLUSTER.id).reason or "")


def test_the_election_is_one_multi_on_leader_and_epoch() -> None:
    seen = EpochRecord(
        epoch=6, supervisor="host-b", op="op6", recent=(LedTerm(6, "host-b", "op6"),), extra={"later": 1}
    )
    tx = take_leadership(PATHS, ME, epoch=7, op_id="op7", seen=seen, version=12)
    create, change = tx.ops
    assert isinstance(create, Create) and isinstance(change, SetData)
    assert (create.path, create.ephemeral) == (PATHS.leader, True)
    assert codec.decode(LeaderHint, create.data, "") == LeaderHint(
        supervisor="host-a", epoch=7, address="10.0.0.1:8780"
    )
    assert (change.path, change.version) == (PATHS.epoch, 12)
    record = codec.decode(EpochRecord, change.data, "")
    assert (record.epoch, record.supervisor, record.op, record.extra["later"]) == (7, "host-a", "op7", 1)
    assert recent_terms(record) == {6: Author("host-b", "op6"), 7: Author("host-a", "op7")}


def announced(record: EpochRecord, newest: int | None, recorded: Node | None) -> Node:
    tx = publish_recording(
        PATHS,
        epoch=record.epoch,
        fence=3,
        op_id="x",
        recent=recent_terms(record),
        newest=newest,
        recorded=recorded,
    )
    guard, say = tx.ops
    assert guard == Check(PATHS.epoch, 3) and isinstance(say, Create if recorded is None else SetData)
    return Node(say.data, Stat(0, 1))


def test_the_epoch_record_stays_small() -> None:
    record, recorded = EpochRecord(epoch=0, supervisor="", op=""), None
    me = Candidate("h" * 63, "address")
    for epoch in range(1, 200):
        tx = take_leadership(PATHS, me, epoch=10**9 + epoch, op_id="0" * 16, seen=record, version=epoch)
        recorded = announced(
            codec.decode(EpochRecord, tx.ops[1].data, ""), 10**9 + 1 if epoch > 1 else None, recorded
        )  # type: ignore[union-attr]
        seen = election_view(PATHS, None, Node(tx.ops[1].data, Stat(epoch, 1)), recorded=recorded)  # type: ignore[union-attr]
        record = seen.epoch
    assert set(recent_terms(record)) == {10**9 + 1, *range(10**9 + 200 - RECENT_KEPT, 10**9 + 200)}


def test_of_what_may_be_in_the_store_nothing_is_forgotten_until_something_newer_is_there() -> None:
    """Term 1 is in the store; of 2 and 3 nobody knows; then 4 is found there, and what came before it can go."""
    recorded, known = None, []
    record = EpochRecord(epoch=0, supervisor="", op="")
    for epoch, newest in ((1, None), (2, 1), (3, 1), (4, 1), (5, 4), (6, 5)):
        tx = take_leadership(PATHS, ME, epoch=epoch, op_id=f"op{epoch}", seen=record, version=epoch)
        record = codec.decode(EpochRecord, tx.ops[1].data, "")  # type: ignore[union-attr]
        recorded = announced(record, newest, recorded)
        later = EpochRecord(epoch=99, supervisor="b", op="op99")  # its own account goes no further back
        known.append(
            sorted(
                recent_terms(
                    election_view(
                        PATHS, None, Node(codec.encode(later), Stat(epoch, 1)), recorded=recorded
                    ).epoch
                )
            )
        )
    assert known == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [4, 5], [5, 6]]


def test_strange_entries_of_the_recent_terms_are_left_out() -> None:
    strange: tuple[object, ...] = (None, 3, "x", {}, [[1], 2, ["x", "y", "z"], [4, "a", "op4"]])
    for recent in strange:
        data = json.dumps({"v": 1, "epoch": 4, "supervisor": "a", "op": "op4", "recent": recent}).encode()
        terms = recent_terms(codec.decode(EpochRecord, data, ""))
        assert terms in ({}, {4: Author("a", "op4")})


def test_what_an_earlier_version_wrote_of_the_terms_is_read_and_written_as_it_was() -> None:
    data = (
        b'{"before":[[5,"b","op5"]],"epoch":7,"later":1,"op":"op7","recent":[[6,"b","op6"],[7,"a","op7"]],'
        b'"recorded":[6,"b","op6"],"supervisor":"a","v":1}'
    )
    record = codec.decode(EpochRecord, data, "")
    assert recent_terms(record) == {
        5: Author("b", "op5"),
        6: Author("b", "op6"),
        7: Author("a", "op7"),
    }
    assert record.extra == {"later": 1} and codec.encode(record) == data


def test_a_record_without_terms_is_written_without_them() -> None:
    data = b'{"epoch":0,"op":"founding","supervisor":"","v":1}'
    assert codec.encode(codec.decode(EpochRecord, data, "")) == data


def test_own_election_is_known_by_op_and_owner() -> None:
    record = codec.encode(EpochRecord(epoch=7, supervisor="host-a", op="op7"))
    leader = Node(b"not json", Stat(0, 1, ephemeral_owner=42))
    seen = election_view(PATHS, leader, Node(record, Stat(9, 2)))
    assert (seen.owner, seen.hint, seen.version) == (42, None, 9)
    assert is_ours(seen, "op7", 42)
    assert not is_ours(seen, "op8", 42)
    assert not is_ours(seen, "op7", 43)
    assert not is_ours(election_view(PATHS, None, Node(record, Stat(9, 2))), "op7", 42)


@pytest.mark.parametrize(
    "epoch", [None, Node(b"{", Stat(3, 3)), Node(json.dumps({"v": 99}).encode(), Stat(3, 3))]
)
def test_a_missing_or_unreadable_epoch_is_a_flaw(epoch: Node | None) -> None:
    assert PATHS.epoch in (election_view(PATHS, None, epoch).flaw or "")


MINE = {n: Author("a", f"op{n}") for n in range(5, 9)}


@pytest.mark.parametrize(
    ("stored", "trusted"),
    [
        ({}, True),
        ({7: ("a", "op7")}, True),
        ({8: ("a", "op8")}, True),  # our own, a moment ago
        ({8: ("a", "opx")}, False),
        ({9: ("a", "op9")}, False),
        ({7: ("a", "opx")}, False),  # caught up with
        ({4: ("a", "op4")}, False),  # older than this registry remembers: it can't be told
    ],
)
def test_an_epoch_is_recorded_only_where_the_store_knows_this_registry(
    stored: dict[int, tuple[str, str]], trusted: bool
) -> None:
    store = MemoryEpochs()
    store.kept = dict(stored)
    store_says = judge_epochs(store, 8, MINE)
    assert (store_says is None) is trusted
    reason = record_epoch(store, 8, MINE)
    assert (reason is None) is trusted
    assert store.kept == ({**stored, 8: ("a", "op8")} if trusted else stored)


class TestTheDoorbell:
    """The zxid may be higher than ever after a restore; the bell can't have rung otherwise than it did."""

    @pytest.mark.parametrize(
        ("doorbell", "trusted"),
        [
            ((7, 70), True),
            ((8, 81), True),
            ((6, 70), False),
            ((7, 71), False),
            ((8, 69), False),
            (None, False),
        ],
    )
    def test_another_past_is_distrusted(
        self, tmp_path: Path, doorbell: tuple[int, int] | None, trusted: bool
    ) -> None:
        trust = Trust(tmp_path / "zxid", CLUSTER.id)
        assert judge(trust, 100, doorbell=(7, 70)) is None
        assert (judge(trust, 1 << 40, doorbell=doorbell) is None) is trusted

    def test_it_is_remembered_over_restarts(self, tmp_path: Path) -> None:
        trust = Trust(tmp_path / "zxid", CLUSTER.id)
        judge(trust, 100, doorbell=(7, 70))
        trust.remember(100)
        assert "doorbell" in (judge(Trust(tmp_path / "zxid", CLUSTER.id), 200, doorbell=(6, 60)) or "")


class TestAnAcceptance:
    def test_it_ends_the_distrust_once(self, tmp_path: Path) -> None:
        trust = Trust(tmp_path / "zxid", CLUSTER.id)
        trust.remember(100)
        assert judge(trust, 50)
        assert judge(trust, 60, accepted(9)) is None
        assert judge(trust, 70, accepted(9)) is None
        trust.remember(70)
        assert judge(trust, 65, accepted(9)), "restored to a state after the acceptance"

    def test_it_is_taken_note_of_over_restarts(self, tmp_path: Path) -> None:
        trust = Trust(tmp_path / "zxid", CLUSTER.id)
        trust.remember(100)
        judge(trust, 50)
        for _ in range(2):
            trust = Trust(tmp_path / "zxid", CLUSTER.id)
            assert judge(trust, 60, accepted(9), (3, 30)) is None
        trust = Trust(tmp_path / "zxid", CLUSTER.id)
        assert judge(trust, 1 << 40, accepted(9), (2, 20))

    def test_a_registry_that_does_not_know_it_was_restored_once_more(self, tmp_path: Path) -> None:
        for later in (None, accepted(8), accepted(9, "another")):
            path = tmp_path / f"zxid-{later and later.id}"
            judge(Trust(path, CLUSTER.id), 60, accepted(9))
            assert "once more" in (judge(Trust(path, CLUSTER.id), 1 << 40, later) or "")
            assert judge(Trust(path, CLUSTER.id), 1 << 40, accepted(9)), "the older one is no excuse"
            assert judge(Trust(path, CLUSTER.id), 1 << 40, accepted(10)) is None

    def test_an_unreadable_one_is_none_and_a_reason(self, tmp_path: Path) -> None:
        trust = Trust(tmp_path / "zxid", CLUSTER.id)
        assert PATHS.accepted in (judge(trust, 1, b"{") or "")

    def test_it_does_not_excuse_a_lost_cluster(self, tmp_path: Path) -> None:
        trust = Trust(tmp_path / "zxid", CLUSTER.id)
        gone = RegistryEvidence(None, Node(codec.encode(accepted(9)), Stat(0, 1)), None, 5)
        assert "lost its data" in (trust.judge(PATHS, gone) or "")
        assert judge(trust, 6, accepted(9)) is None

    def test_an_unreadable_memory_needs_a_newer_one(self, tmp_path: Path) -> None:
        """Whether the present one was believed before can't be told."""
        (tmp_path / "zxid").write_text("{")
        assert judge(Trust(tmp_path / "zxid", CLUSTER.id), 5, accepted(9))
        assert judge(Trust(tmp_path / "zxid", CLUSTER.id), 5, accepted(9))
        assert judge(Trust(tmp_path / "zxid", CLUSTER.id), 5, accepted(10)) is None

    def test_what_can_not_be_noted_is_not_believed(self, tmp_path: Path) -> None:
        directory = tmp_path / "gone"
        trust = Trust(directory / "zxid", CLUSTER.id)
        with pytest.raises(OSError, match="gone"):
            judge(trust, 5, accepted(9))
        assert trust.reason and trust.doubt(PATHS, evidence(5, accepted(9)))
        directory.mkdir()
        assert judge(trust, 5, accepted(9)) is None

    def test_to_doubt_is_not_to_take_note(self, tmp_path: Path) -> None:
        trust = Trust(tmp_path / "zxid", CLUSTER.id)
        trust.remember(100)
        assert "note" in (trust.doubt(PATHS, evidence(150, accepted(9))) or "")
        assert trust.doubt(PATHS, evidence(50)) and trust.reason is None

    def test_a_file_of_an_older_version_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "zxid").write_text(
            json.dumps({"v": 1, "cluster": CLUSTER.id, "zxid": 9, "distrust": None})
        )
        trust = Trust(tmp_path / "zxid", CLUSTER.id)
        assert (trust.zxid, judge(trust, 9, doorbell=(1, 2))) == (9, None)


def test_a_file_that_can_not_be_read_just_now_is_no_reason_to_distrust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Want of descriptors passes; an alarm would wait for an operator, and tell him to remove the file (F56)."""
    Trust(tmp_path / "zxid", "c").remember(7)

    def no_more(*_arguments: object, **_named: object) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch, pytest.raises(Unreachable, match="Too many open files"):
        patch.setattr(Path, "read_text", no_more)
        Trust(tmp_path / "zxid", "c")
    assert Trust(tmp_path / "zxid", "c").reason is None
