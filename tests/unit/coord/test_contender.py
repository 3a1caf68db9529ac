"""The contender on the in-memory ensemble: terms begin, end and are settled as the machine says."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.coord.election import ACCEPTER, RECENT_KEPT, Author, Candidate, take_leadership
from supervisor.coord.leadership import State
from supervisor.coord.term import Term
from supervisor.coord.trust import judge_epochs, mark_restored
from supervisor.errors import Corrupt, GuardFailed, NotLeader, NotSent
from supervisor.model.records import Cluster, EpochRecord, LeaderHint
from supervisor.model.transaction import ANY_VERSION, Check, Create, Delete, Transaction
from supervisor.records import codec
from tests.fakes.zookeeper import MemoryClient, MemoryZoo
from tests.unit.coord.rig import PATHS, MemoryEpochs, Rig, bootstrapped, running
from tests.waiting import wait_until


@pytest.fixture
def zoo() -> MemoryZoo:
    return bootstrapped()


@pytest.fixture
def epochs() -> MemoryEpochs:
    return MemoryEpochs()


@pytest.fixture
def rig(zoo: MemoryZoo, epochs: MemoryEpochs, tmp_path: Path) -> Rig:
    return Rig(zoo, epochs, tmp_path / "zxid")


@pytest.fixture
def other(zoo: MemoryZoo, epochs: MemoryEpochs, tmp_path: Path) -> Rig:
    return Rig(zoo, epochs, tmp_path / "zxid-b", "b")


def epoch_of(zoo: MemoryZoo) -> EpochRecord:
    return codec.decode(EpochRecord, zoo.tree()[PATHS.epoch], PATHS.epoch)


def guarded(term: Term[MemoryClient], path: str) -> Transaction:
    return Transaction("write", "w", (Check(PATHS.epoch, term.fence_version), Create(path, b"")))


def test_a_term_begins_with_its_epoch_and_fence(rig: Rig, zoo: MemoryZoo, epochs: MemoryEpochs) -> None:
    with running(rig):
        term = rig.leads()
        term.check()
        assert (term.epoch, term.fence_version) == (1, 1)
        assert codec.decode(LeaderHint, zoo.tree()[PATHS.leader], "") == LeaderHint(
            supervisor="a", epoch=1, address="a:1"
        )
        wait_until(lambda: term.recorded, 5)
        assert epochs.kept[1] == ("a", epoch_of(zoo).op)
        term.client.commit(guarded(term, "/t/done"))
        rig.waits_in(State.LEADING)
        report = rig.contender.report()
        assert (report.epoch, report.leader, report.alarm) == (
            1,
            LeaderHint(supervisor="a", epoch=1, address="a:1"),
            None,
        )
        wait_until(lambda: rig.beats > 1, 5)


def test_there_is_exactly_one_watch_and_it_is_on_leader(rig: Rig, other: Rig, zoo: MemoryZoo) -> None:
    with running(rig):
        rig.leads()
        with running(other):
            other.waits_in(State.FOLLOWING)
            beats = other.beats
            wait_until(lambda: other.beats > beats + 4, 10)
            watched = [(path, client) for path, watches in zoo._data_watches.items() for client, _ in watches]
            assert sorted(path for path, _ in watched) == [PATHS.leader, PATHS.leader]
            assert {client for _, client in watched} == {rig.client, other.client}
            assert not any(zoo._child_watches.values())


def test_a_follower_leads_as_soon_as_the_leader_stops(rig: Rig, other: Rig, zoo: MemoryZoo) -> None:
    with running(rig, other):
        wait_until(lambda: rig.terms or other.terms, 10)
        first, second = (rig, other) if rig.terms else (other, rig)
        second.waits_in(State.FOLLOWING)
        assert second.contender.report().leader == first.contender.report().leader
        assert first.contender.stop(10)
        assert first.over == first.terms
        assert second.leads().epoch == 2
        assert first.published[-1] == ()


def test_a_standby_that_goes_changes_nothing(rig: Rig, other: Rig, zoo: MemoryZoo) -> None:
    """FLINK-10255: a standby must not touch what the leader owns."""
    with running(rig):
        term = rig.leads()
        before = zoo.tree()
        with running(other):
            other.waits_in(State.FOLLOWING)
        assert zoo.tree() == before
        term.check()


def test_lost_reply_of_the_election_is_resolved_as_own(rig: Rig, zoo: MemoryZoo) -> None:
    rig.before_start = lambda client: client.lose_next_reply()
    with running(rig):
        term = rig.leads()
        assert (term.epoch, term.fence_version) == (1, 1)
        assert [tx.what for _, tx in zoo.log].count("take_leadership") == 1


def test_an_election_that_never_arrived_is_resolved_as_not_own(rig: Rig, zoo: MemoryZoo) -> None:
    rig.before_start = lambda client: client.fail_next_commit_before()
    with running(rig):
        term = rig.leads()
        assert term.epoch == epoch_of(zoo).epoch
        assert [tx.what for _, tx in zoo.log].count("take_leadership") == 1


def test_a_session_with_an_unresolved_outcome_is_closed_before_the_next_look(
    rig: Rig, zoo: MemoryZoo
) -> None:
    """The reply is lost, and the connection with it for good: the multi was applied, and nobody may count on it."""

    def lose(client: MemoryClient) -> None:
        if len(rig.clients) == 1:
            client.lose_next_reply(reconnect=False)

    rig.before_start = lose
    with running(rig):
        term = rig.leads()
        assert rig.closed == [rig.clients[0].session.id]  # type: ignore[union-attr]
        assert term.client is rig.clients[1]
        assert term.epoch == 2


def test_suspended_is_not_loss(rig: Rig, zoo: MemoryZoo) -> None:
    """FLINK-10011."""
    with running(rig):
        term = rig.leads()
        zoo.disconnect(rig.client)
        rig.waits_in(State.SUSPENDED)
        assert not term.active
        with pytest.raises(NotSent):
            term.check()
        zoo.reconnect(rig.client)
        rig.waits_in(State.LEADING)
        term.check()
        assert rig.terms == [term]
        assert rig.over == []


def test_no_answer_within_the_session_time_ends_the_term(rig: Rig, zoo: MemoryZoo) -> None:
    """zookeeper.md M7: nobody says LOST while ZooKeeper is away."""
    with running(rig):
        term = rig.leads()
        zoo.disconnect(rig.client)
        wait_until(lambda: rig.over == [term], 15)
        with pytest.raises(NotLeader):
            term.check()
        assert rig.leads(2).epoch == 2
        with pytest.raises(NotLeader):
            term.check()


def test_expired_then_deposed_and_the_old_fence_fails(rig: Rig, zoo: MemoryZoo) -> None:
    with running(rig):
        term = rig.leads()
        zoo.expire(rig.client)
        again = rig.leads(2)
        assert again.client is not term.client
        with pytest.raises(GuardFailed) as failed:
            again.client.commit(guarded(term, "/t/late"))
        assert failed.value.path == PATHS.epoch


def test_tasks_of_a_term_are_over_before_the_next_election(rig: Rig, zoo: MemoryZoo) -> None:
    """FLINK-9494, 9573."""
    with running(rig):
        term = rig.leads()
        rig.tasks_may_end.clear()
        zoo.expire(rig.client)
        rig.waits_in(State.STEPPING_DOWN)
        assert term.over.is_set()
        assert PATHS.leader not in zoo.tree()
        assert len(rig.clients) == 1
        rig.tasks_may_end.set()
        assert rig.leads(2).epoch == 2
        assert rig.over == [term]


def test_a_write_that_fails_on_the_epoch_ends_the_term(rig: Rig) -> None:
    with running(rig):
        term = rig.leads()
        assert isinstance(term.fence_failed(), NotLeader)
        assert not term.active
        assert rig.leads(2).epoch == 2
        # late, from a thread that hears of it now: the new term is none of its business
        term.fence_failed()
        beats = rig.beats
        wait_until(lambda: rig.beats > beats + 2, 5)
        rig.leads(2).check()
        assert len(rig.terms) == 2


def test_kazoo_m11_a_deleted_leader_node_is_no_fence_and_ends_the_term(rig: Rig, zoo: MemoryZoo) -> None:
    with running(rig):
        term = rig.leads()
        zoo.client().commit(Transaction("vandal", "v", (Delete(PATHS.leader, ANY_VERSION),)))
        again = rig.leads(2)
        assert rig.over == [term]
        assert (again.epoch, again.fence_version) == (2, 2)


def test_planned_hand_over_goes_to_somebody_else(rig: Rig, other: Rig) -> None:
    with running(rig):
        rig.leads()
        with running(other):
            other.waits_in(State.FOLLOWING)
            rig.ask_switchover()
            assert other.leads().epoch == 2
            rig.waits_in(State.FOLLOWING)
            assert other.contender.stop(10)
            assert rig.leads(2).epoch == 3  # at once: the wish was about term 1


def test_planned_hand_over_goes_to_the_one_that_is_named(
    zoo: MemoryZoo, epochs: MemoryEpochs, tmp_path: Path
) -> None:
    a, b, c = (Rig(zoo, epochs, tmp_path / name, name) for name in "abc")
    with running(a):
        a.leads()
        with running(b, c):
            b.waits_in(State.FOLLOWING)
            c.waits_in(State.FOLLOWING)
            a.ask_switchover(to="c")
            assert c.leads().epoch == 2
            assert (len(a.terms), b.terms) == (1, [])


def test_a_hand_over_to_somebody_who_does_not_come_falls_to_anybody(rig: Rig, other: Rig) -> None:
    with running(rig):
        rig.leads()
        with running(other):
            other.waits_in(State.FOLLOWING)
            rig.ask_switchover(to="gone")
            wait_until(lambda: len(rig.terms) + len(other.terms) == 2, 10, "another term")
            assert (rig.terms + other.terms)[-1].epoch == 2


def test_a_wish_that_cannot_be_read_is_none(rig: Rig, zoo: MemoryZoo) -> None:
    with running(rig):
        term = rig.leads()
        zoo.put(PATHS.switchover, b"{")
        rig.contender.nudge()
        beats = rig.beats
        wait_until(lambda: rig.beats > beats + 2, 5)
        term.check()


def test_planned_hand_over_with_nobody_there_comes_back(rig: Rig) -> None:
    with running(rig):
        rig.leads()
        rig.ask_switchover()
        assert rig.leads(2).epoch == 2


def test_a_defect_in_what_a_term_starts_stops_the_beat(rig: Rig) -> None:
    def fail(_: Term[MemoryClient]) -> None:
        raise ZeroDivisionError

    rig.when_term = fail
    rig.contender.start()
    rig.contender._thread.join(10)
    assert not rig.contender._thread.is_alive()
    assert rig.terms[0].over.is_set()


# -- I10 ---------------------------------------------------------------------------------------------------------------


def test_while_the_store_is_down_the_term_is_led_unrecorded(rig: Rig, epochs: MemoryEpochs) -> None:
    epochs.down = True
    with running(rig):
        term = rig.leads()
        term.check()
        assert not term.recorded
        epochs.down = False
        wait_until(lambda: term.recorded, 10)


def test_an_epoch_in_the_store_above_ours_is_distrusted(rig: Rig, epochs: MemoryEpochs) -> None:
    epochs.kept[7] = ("b", "x")
    with running(rig):
        term = rig.leads()
        wait_until(lambda: term.distrust, 5)
        assert "epoch 7" in (term.distrust or "")
        assert not term.recorded
        assert list(epochs.kept) == [7]
        wait_until(lambda: rig.contender.report().alarm == term.distrust, 5)


def test_restarts_on_a_restored_registry_do_not_outgrow_the_distrust(
    zoo: MemoryZoo, epochs: MemoryEpochs, tmp_path: Path
) -> None:
    """Every restart makes the epoch grow; above the store's newest it would be trusted if only numbers counted."""
    backup = zoo.tree()[PATHS.epoch]
    for number in range(2):
        rig = Rig(zoo, epochs, tmp_path / f"zxid{number}")
        with running(rig):
            wait_until(lambda rig=rig: rig.leads().recorded, 5)  # type: ignore[misc]
    zoo.put(PATHS.epoch, backup)
    for number in range(4):
        rig = Rig(zoo, epochs, tmp_path / f"zxid-new{number}")
        with running(rig):
            term = rig.leads()
            assert term.epoch == number + 1
            wait_until(lambda term=term: term.distrust or term.recorded, 5)  # type: ignore[misc]
            assert term.distrust
            assert not term.recorded
    assert list(epochs.kept) == [1, 2]


def test_many_terms_of_one_lineage_stay_trusted(zoo: MemoryZoo, epochs: MemoryEpochs, tmp_path: Path) -> None:
    for number in range(30):
        epochs.down = 5 < number < 20  # terms that nobody could record
        rig = Rig(zoo, epochs, tmp_path / "zxid")
        with running(rig):
            term = rig.leads()
            if not epochs.down:
                wait_until(lambda term=term: term.recorded, 5)  # type: ignore[misc]
        assert term.distrust is None
    assert len(zoo.tree()[PATHS.epoch]) < codec.MAX_RECORD_BYTES


def test_a_distrust_that_arises_while_an_election_is_resolved_is_logged(rig: Rig, zoo: MemoryZoo) -> None:
    """/leader was created without it."""

    def spoil(client: MemoryClient) -> None:
        client.before_next_commit(lambda: zoo.put(PATHS.cluster, b"{broken"))
        client.lose_next_reply()

    rig.before_start = spoil
    with running(rig):
        assert rig.leads().distrust
        wait_until(lambda: codec.decode(LeaderHint, zoo.tree()[PATHS.leader], "").distrust, 5)


def said_to_be_recorded(zoo: MemoryZoo) -> int:
    data = zoo.tree().get(PATHS.recorded)
    return codec.decode(EpochRecord, data, PATHS.recorded).epoch if data is not None else 0


def test_more_unrecorded_terms_than_are_remembered_are_no_reason_to_distrust(
    zoo: MemoryZoo, epochs: MemoryEpochs, tmp_path: Path
) -> None:
    """The store's newest epoch is then older than all that /epoch remembers by number; chaos found it."""
    for number in range(RECENT_KEPT + 8):
        epochs.down = 2 <= number < RECENT_KEPT + 6
        rig = Rig(zoo, epochs, tmp_path / "zxid")
        with running(rig):
            term = rig.leads()
            if not epochs.down:
                wait_until(lambda term=term: term.recorded or term.distrust, 5)  # type: ignore[misc]
                assert term.distrust is None
                wait_until(lambda term=term: said_to_be_recorded(zoo) == term.epoch, 5)  # type: ignore[misc]
    assert len(zoo.tree()[PATHS.epoch]) < codec.MAX_RECORD_BYTES


@pytest.mark.parametrize("mute", [1, 3])
def test_a_mark_that_its_term_never_heard_of_is_no_reason_to_distrust(
    zoo: MemoryZoo, epochs: MemoryEpochs, tmp_path: Path, mute: int
) -> None:
    """The store took it, the reply was lost, and the term was over; then more terms without a store than are remembered.

    Found by chaos: a fleet that had kept all its data started nothing any more, for a mark 67 terms old.
    """
    for number in range(RECENT_KEPT + 8):
        epochs.mute, epochs.down = 2 <= number < 2 + mute, 2 + mute <= number < RECENT_KEPT + 7
        rig = Rig(zoo, epochs, tmp_path / "zxid")
        with running(rig):
            term = rig.leads()
            if not epochs.down:
                wait_until(lambda term=term: term.recorded or term.distrust or term.epoch in epochs.kept, 5)  # type: ignore[misc]
            assert term.distrust is None
    assert term.recorded
    assert len(zoo.tree()[PATHS.epoch]) < codec.MAX_RECORD_BYTES


def test_what_was_said_to_be_recorded_excuses_no_restore(
    zoo: MemoryZoo, epochs: MemoryEpochs, tmp_path: Path
) -> None:
    """/recorded is restored with the rest: the store's newest epoch is not the one that it names."""
    backup: dict[str, bytes] = {}
    for _ in range(3):
        rig = Rig(zoo, epochs, tmp_path / "zxid")
        with running(rig):
            term = rig.leads()
            wait_until(lambda term=term: said_to_be_recorded(zoo) == term.epoch, 5)  # type: ignore[misc]
        backup = backup or dict(zoo.tree())
    for path in (PATHS.epoch, PATHS.recorded):
        zoo.put(path, backup[path])
    for number in range(RECENT_KEPT + 3):
        rig = Rig(zoo, epochs, tmp_path / f"zxid-new{number}")
        with running(rig):
            term = rig.leads()
            wait_until(lambda term=term: term.distrust or term.recorded, 5)  # type: ignore[misc]
            assert term.distrust
    assert said_to_be_recorded(zoo) == 1


def test_f23_nobody_leads_where_there_is_no_epoch(rig: Rig, zoo: MemoryZoo) -> None:
    zoo.client().commit(Transaction("loss", "l", (Delete(PATHS.epoch, ANY_VERSION),)))
    with running(rig):
        rig.waits_in(State.FOLLOWING)
        wait_until(lambda: rig.contender.report().alarm, 5)
        assert rig.terms == []
        assert set(zoo.tree()) == {"/t", PATHS.cluster}


@pytest.mark.parametrize(
    "cluster", [None, b"{broken", codec.encode(Cluster(id="c2", name="test", store="file:///elsewhere"))]
)
def test_f23_a_missing_or_strange_cluster_is_not_trusted(
    rig: Rig, zoo: MemoryZoo, cluster: bytes | None
) -> None:
    if cluster is None:
        zoo.client().commit(Transaction("loss", "l", (Delete(PATHS.cluster, ANY_VERSION),)))
    else:
        zoo.put(PATHS.cluster, cluster)
    with running(rig):
        term = rig.leads()
        assert term.distrust
        assert PATHS.cluster in term.distrust


def test_f22_a_cluster_lost_during_the_term_is_noticed(rig: Rig, zoo: MemoryZoo) -> None:
    with running(rig):
        term = rig.leads()
        zoo.client().commit(Transaction("loss", "l", (Delete(PATHS.cluster, ANY_VERSION),)))
        wait_until(lambda: term.distrust, 10)


def test_f22_a_zxid_that_went_back_is_remembered_over_restarts(
    rig: Rig, zoo: MemoryZoo, epochs: MemoryEpochs, tmp_path: Path
) -> None:
    with running(rig):
        rig.leads()
        wait_until(lambda: rig.trust.zxid > 0, 10)
    seen = rig.trust.zxid
    zoo.zxid -= 3
    again = Rig(zoo, epochs, tmp_path / "zxid")
    with running(again):
        assert "restored" in (again.leads().distrust or "")
    zoo.zxid = seen + 100  # it grows again; that proves nothing
    once_more = Rig(zoo, epochs, tmp_path / "zxid")
    with running(once_more):
        assert "restored" in (once_more.leads().distrust or "")
        wait_until(lambda: len(epochs.kept) > 1, 10)  # the first term, and the mark of a restore
    (tmp_path / "zxid").unlink()
    forgotten = Rig(zoo, epochs, tmp_path / "zxid")
    with running(forgotten):
        wait_until(lambda: forgotten.leads().distrust, 10)
        assert "restored" in (forgotten.leads().distrust or "") and not forgotten.leads().recorded


def test_who_saw_nothing_of_what_was_lost_hears_of_it_from_the_store(
    rig: Rig, other: Rig, zoo: MemoryZoo, epochs: MemoryEpochs
) -> None:
    """The leader alone remembers another past, says so, and dies: its /leader goes with it. The next one, and any agent
    on a fresh host, would act on the restored registry."""
    with running(rig):
        rig.leads()
        wait_until(lambda: said_to_be_recorded(zoo) and rig.trust.zxid, 10)
        zoo.zxid = 0
        rig.contender.nudge()
        wait_until(lambda: rig.leads().distrust, 10)
        wait_until(lambda: len(epochs.kept) == 2, 10)
    with running(other):
        term = other.leads()
        wait_until(lambda: term.distrust or term.recorded, 10)
        assert "restored" in (term.distrust or "") and not term.recorded
        assert other.trust.reason is None, "it remembers nothing itself"
    assert len(epochs.kept) == 2, "one mark is enough"


def test_a_follower_that_remembers_another_past_leaves_it_in_the_store(
    rig: Rig, other: Rig, zoo: MemoryZoo, epochs: MemoryEpochs
) -> None:
    """It may be gone when the leader is, who remembers nothing of it; then the next one would act on the restored registry."""
    somebody = zoo.client()
    epoch = somebody.read(PATHS.epoch)
    assert epoch is not None
    record = codec.decode(EpochRecord, epoch.data, PATHS.epoch)
    somebody.commit(
        take_leadership(
            PATHS,
            Candidate("x", "x:1"),
            epoch=1,
            op_id="op",
            seen=record,
            version=epoch.stat.version,
        )
    )
    epochs.record_epoch(1, "x", "op")
    with running(rig):
        rig.waits_in(State.FOLLOWING)
        wait_until(lambda: rig.trust.zxid, 20)
        zoo.zxid = 0
        rig.contender.nudge()
        wait_until(lambda: sorted(epochs.kept) == [1, 2], 20, "the mark")
        assert not rig.terms
    zoo.expire(somebody)
    with running(other):
        term = other.leads()
        wait_until(lambda: term.distrust or term.recorded, 10)
        assert "restored" in (term.distrust or "") and other.trust.reason is None


def test_a_mark_of_a_restore_waits_for_the_store_and_gives_way_to_other_numbers(
    rig: Rig, zoo: MemoryZoo, epochs: MemoryEpochs
) -> None:
    with running(rig):
        wait_until(lambda: said_to_be_recorded(zoo) and rig.trust.zxid, 10)
        epochs.down = True
        zoo.zxid = 0
        rig.contender.nudge()
        wait_until(lambda: rig.leads().distrust, 10)
        epochs.down = False
        wait_until(lambda: sorted(epochs.kept) == [1, 2], 20)


def test_an_unreadable_newest_mark_does_not_keep_a_restore_from_being_marked(epochs: MemoryEpochs) -> None:
    class Damaged(MemoryEpochs):
        def read_epoch(self, epoch: int) -> EpochRecord | None:
            if epoch == 3:
                raise Corrupt("epochs/0000000003 is no record")
            return super().read_epoch(epoch)

    damaged, recent = Damaged(), {3: Author("a", "x")}
    damaged.record_epoch(3, "a", "x")
    with pytest.raises(Corrupt):
        judge_epochs(damaged, 3, recent)
    for author in (Author("b", "y"), Author("c", "z")):
        mark_restored(damaged, 3, recent, author)
    assert list(damaged.kept) == [3, 4] and judge_epochs(damaged, 3, recent)


def test_an_acceptance_is_above_the_mark_of_a_restore(zoo: MemoryZoo, epochs: MemoryEpochs) -> None:
    seen = EpochRecord(epoch=3, supervisor="a", op="x")
    recent = {3: Author("a", "x")}
    epochs.record_epoch(3, "a", "x")
    mark_restored(epochs, 3, recent, Author("b", "y"))
    mark_restored(epochs, 3, recent, Author("c", "z"))
    assert list(epochs.kept) == [3, 4] and judge_epochs(epochs, 3, recent)
    number = max(seen.epoch, epochs.newest_epoch_above(0) or 0) + 1
    epochs.record_epoch(number, ACCEPTER, "id")
    accepted = recent | {number: Author(ACCEPTER, "id")}
    assert number == 5 and judge_epochs(epochs, number, accepted) is None
