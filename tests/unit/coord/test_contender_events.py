"""The events that the contender reports to its state machine: each reading as it was made, each answer as what it is.

One call at a time, no thread.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients.zookeeper import Link
from supervisor.clock import boottime_s
from supervisor.coord import epoch_recorder
from supervisor.coord import leadership as machine
from supervisor.coord.contender import Contender
from supervisor.coord.election import Author
from supervisor.coord.epoch_recorder import start_recording
from supervisor.coord.term import Term
from supervisor.errors import NotLeader, NotSent, Unreachable
from supervisor.growing_pause import GrowingPause
from supervisor.model.transaction import Create, Transaction
from tests.fakes.zookeeper import MemoryClient, MemoryZoo
from tests.unit.coord.rig import PATHS, MemoryEpochs, Rig, bootstrapped

T_S = 1.5


def candidate(
    directory: Path, zoo: MemoryZoo | None = None
) -> tuple[Rig, Contender[MemoryClient], MemoryClient]:
    """A contender with a session, whose thread was not started. ``directory``: for what it remembers."""
    rig = Rig(zoo or bootstrapped(), MemoryEpochs(), Path(tempfile.mkdtemp(dir=directory)) / "zxid")
    rig.contender._connect(machine.Connect())
    return rig, rig.contender, rig.client


def advanced(contender: Contender[MemoryClient], monkeypatch: pytest.MonkeyPatch) -> list[machine.Event]:
    """Every event that its machine is fed from now on; it is fed none."""
    events: list[machine.Event] = []
    monkeypatch.setattr(contender, "_advance", events.append)
    return events


def received(contender: Contender[MemoryClient]) -> None:
    """All that has come in, without a tick."""
    contender._next_tick_at_s = boottime_s() + 1000.0
    while not contender._inbox.empty():
        contender._receive()


def term_of(client: MemoryClient, deposed: Callable[[str], None] = lambda _why: None) -> Term[MemoryClient]:
    return Term(1, 1, client, T_S, depose=deposed)


def watched(zoo: MemoryZoo) -> int:
    return len(zoo._data_watches.get(PATHS.leader, {}))


def test_a_look_is_made_after_a_sync_with_the_watch_set_and_noted_for_the_connection_before_it(
    tmp_path: Path,
) -> None:
    rig, contender, client = candidate(tmp_path)
    asked: list[str] = []
    connection = client.connections

    def sync() -> None:
        asked.append("sync")
        rig.zoo.disconnect(client)  # what is read then is read on another connection
        rig.zoo.reconnect(client)

    def read_many(paths: Any) -> Any:
        asked.append("read")
        assert watched(rig.zoo) == 1, "whoever goes after the read rings"
        return real(paths)

    real, client.read_many, client.sync = client.read_many, read_many, sync  # type: ignore[method-assign,assignment]
    term = contender._term = term_of(client)
    contender._observe()
    assert asked == ["sync", "read"] and client.connections > connection
    assert contender._trust_checked_connection == term.connection == connection


def test_the_watch_is_set_anew_after_it_has_rung_and_not_twice_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, contender, _ = candidate(tmp_path)
    contender._observe()
    contender._observe()
    assert watched(rig.zoo) == 1
    events = advanced(contender, monkeypatch)
    rig.zoo.put(PATHS.leader, b"{}")
    received(contender)
    assert [event for event in events if isinstance(event, machine.LeaderChanged)] and watched(rig.zoo) == 0
    contender._observe()
    assert watched(rig.zoo) == 1


def test_a_watch_that_could_not_be_set_is_set_by_the_next_look(tmp_path: Path) -> None:
    rig, contender, client = candidate(tmp_path)

    def down(_path: str, _watch: Any) -> Any:
        raise Unreachable("down")

    real, client.watch_exists = client.watch_exists, down  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        contender._observe()
    client.watch_exists = real  # type: ignore[method-assign]
    contender._observe()
    assert watched(rig.zoo) == 1


def test_the_next_session_sets_a_watch_of_its_own_and_forgets_what_the_last_one_saw(tmp_path: Path) -> None:
    rig, contender, _ = candidate(tmp_path)
    contender._observe()
    contender._disconnect(machine.Disconnect())
    assert contender._seen is None and watched(rig.zoo) == 0
    contender._connect(machine.Connect())
    contender._observe()
    assert watched(rig.zoo) == 1


def test_of_a_candidacy_that_is_over_nothing_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, contender, old = candidate(tmp_path)
    contender._disconnect(machine.Disconnect())
    contender._connect(machine.Connect())
    while not contender._inbox.empty():
        contender._inbox.get()
    events = advanced(contender, monkeypatch)
    assert old._on_link is not None
    old._on_link(Link.LOST)
    received(contender)
    assert events == []
    rig.zoo.expire(rig.client)
    received(contender)
    assert events == [machine.Lost()]


def test_after_a_stop_of_the_process_the_deadline_comes_before_any_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, contender, client = candidate(tmp_path)
    client.last_success_at_s = 12.5
    events = advanced(contender, monkeypatch)
    contender._inbox.put((0, machine.Nudged()))
    contender._next_tick_at_s = 0.0
    while not contender._inbox.empty():
        contender._receive()
        contender._next_tick_at_s = boottime_s() + 1000.0
    assert [type(event) for event in events if not isinstance(event, machine.SessionConnected)] == [
        machine.ElectionTick,
        machine.Nudged,
    ]
    (tick,) = (event for event in events if isinstance(event, machine.ElectionTick))
    assert tick.answered_at_s == 12.5, "it counts from the sending of what was answered last"


def test_each_election_has_an_op_of_its_own_and_an_unknown_one_is_told_as_such(tmp_path: Path) -> None:
    """By its op the election is known when it is read back."""
    _, contender, client = candidate(tmp_path)
    seen = contender._observe()
    ops = []
    for _ in range(2):
        client.fail_next_commit_before()
        assert isinstance(contender._stand(machine.Stand(1, seen.version)), machine.StoodUnknown)
        ops.append(contender._op_id)
    assert ops[0] != ops[1]

    def down() -> None:
        raise Unreachable("down")

    client.sync = down  # type: ignore[method-assign]
    assert isinstance(contender._resolve_outcome(machine.ResolveOutcome()), machine.ResolveFailed)
    assert contender._probe(machine.Probe()) is None, "what could not be looked at is no look"


def test_who_leads_is_told_by_the_term_and_not_by_the_thread(tmp_path: Path) -> None:
    _, contender, client = candidate(tmp_path)
    assert not contender.leads()
    contender._term = term_of(client)
    client.last_success_at_s = boottime_s()
    assert contender.leads()
    client.last_success_at_s = boottime_s() - 2 * T_S
    assert not contender.leads(), "its deadline is over, whether or not this thread has been told"


def test_distrust_that_could_not_be_kept_is_distrust_all_the_same(tmp_path: Path) -> None:
    _, contender, client = candidate(tmp_path)
    contender._trust._memory = replace(contender._trust._memory, reason="an older registry")

    def full(*_arguments: object) -> str | None:
        raise OSError(28, "No space left on device")

    term = contender._term = term_of(client)
    contender._judge(full)
    assert term.distrust == "an older registry"


def test_a_session_that_was_not_closed_is_closed_before_the_next_look(tmp_path: Path) -> None:
    rig, contender, client = candidate(tmp_path)
    assert client.session is not None
    rig.zoo.disconnect(client)
    contender._disconnect(machine.Disconnect())
    assert rig.published[-1] == (client.session,), "it is closed also if this process dies"
    contender._connect(machine.Connect())
    contender._observe()
    assert rig.closed == [client.session.id]


def test_a_term_that_ends_is_over_before_its_tasks_are_awaited(tmp_path: Path) -> None:
    _, contender, client = candidate(tmp_path)
    term = contender._term = term_of(client)
    over: list[bool] = []
    contender._duties = replace(
        contender._duties, on_step_down=lambda ending: over.append(ending.over.is_set())
    )
    assert isinstance(contender._end_term(machine.EndTerm("why")), machine.TermDrained)
    assert over == [True] and term.over.is_set()


def test_a_defect_of_the_thread_ends_the_term(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, contender, client = candidate(tmp_path)
    term = contender._term = term_of(client)

    def defect(_event: machine.Event) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(contender, "_advance", defect)
    contender._run()
    assert term.over.is_set()


@pytest.mark.parametrize("error", [KeyError("a defect"), Unreachable("down"), None])
def test_an_epoch_is_recorded_when_the_store_has_it_and_while_the_term_lasts(
    tmp_path: Path, error: Exception | None
) -> None:
    _, _, client = candidate(tmp_path)
    term, settled, asked = term_of(client), list[bool](), list[int]()

    class Store(MemoryEpochs):
        def newest_epoch_above(self, epoch: int) -> int | None:
            asked.append(epoch)
            if error is not None and len(asked) == 1:
                raise error
            term.end("meanwhile")
            return super().newest_epoch_above(epoch)

    thread = start_recording(
        term, Store(), {1: Author("a", "op")}, lambda _newest: None, lambda: settled.append(True)
    )
    thread.join(10)
    assert not thread.is_alive() and not term.recorded and settled == []


def test_a_restore_is_marked_when_the_store_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_recorder, "PAUSE", GrowingPause(0.01, 0.01))
    store = MemoryEpochs()
    store.down = True
    thread = epoch_recorder.start_marking(
        store, 1, {1: Author("a", "op")}, Author("a", "mark"), threading.Event()
    )
    thread.join(0.2)
    store.down = False
    thread.join(10)
    assert not thread.is_alive() and ("a", "mark") in store.kept.values()


def test_while_the_connection_is_down_nothing_new_is_begun(tmp_path: Path) -> None:
    _, contender, client = candidate(tmp_path)
    term = contender._term = term_of(client)
    client.last_success_at_s = boottime_s()
    contender._pause_term(machine.PauseTerm())
    with pytest.raises(NotSent):
        term.check()
    contender._resume_term(machine.ResumeTerm())
    term.check()


def test_an_election_of_another_is_not_read_back_as_ours(tmp_path: Path) -> None:
    rig, contender, client = candidate(tmp_path)
    assert client.session is not None
    contender._machine_state = replace(contender._machine_state, session=client.session.id)
    other = rig.zoo.client()
    other.commit(Transaction("take_leadership", "o", (Create(PATHS.leader, b"{}", ephemeral=True),)))
    assert isinstance(contender._resolve_outcome(machine.ResolveOutcome()), machine.ElectionRead)


def test_what_is_said_of_the_recording_is_said_by_the_term_that_leads(tmp_path: Path) -> None:
    rig, contender, client = candidate(tmp_path)
    term = term_of(client)
    term.end("deposed")
    before = len(rig.zoo.log)
    with pytest.raises(NotLeader):
        contender._publish_recording(term, {}, None)
    assert len(rig.zoo.log) == before
