"""The loops of a term look again before each effect: in which order, and what a request without an answer leaves behind."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.clients.store.removal import Removed
from supervisor.coord.term import Term
from supervisor.daemon.leader import sweeper as sweeper_module
from supervisor.daemon.leader.remover import ClaimUnderDeletion, LocationDeletion, Remover
from supervisor.daemon.leader.sweeper import Sweeper
from supervisor.daemon.leader.term_loop import TermPermission
from supervisor.errors import Conflict, NotLeader, NotSent, Unreachable
from supervisor.model.records import CheckpointClaim, CheckpointState, EpochRecord, PendingDeletion
from supervisor.model.seen import Found
from supervisor.spec.s3a import S3Access
from supervisor.spec.site_policy import SitePolicy
from tests.fakes.registry_bench import Bench

PLACE = "file:///checkpoints/a"


class Stage:
    """A remover at a location that is being deleted."""

    def __init__(self) -> None:
        bench = Bench()
        self.client = bench.zoo.client()
        bench.put(bench.layout.epoch, EpochRecord(epoch=1, supervisor="l", op="op"))
        epoch = self.client.read(bench.layout.epoch)
        assert epoch is not None
        self.path = bench.layout.checkpoint("h")
        bench.put(self.path, CheckpointClaim(location=PLACE, name="a", uid="u1"))
        claim = self.client.read(self.path)
        assert claim is not None
        self.term: Term[Any] = Term(1, epoch.stat.version, self.client, 1e9, depose=lambda _why: None)
        executor: Any = None
        self.remover = Remover(
            self.term,
            bench.layout,
            executor,
            "s3://store",
            lambda _location, _deletion: S3Access(),
            site=SitePolicy(deletable=("*",)),
            wanted=threading.Event(),
            clock=lambda: 1000.0,
        )
        self.remover._others = SimpleNamespace(find_overlap=self.find_overlap)  # type: ignore[assignment]
        own: Any = None
        self.now = ClaimUnderDeletion(
            self.path,
            Found(CheckpointClaim(location=PLACE, name="a", uid="u1"), claim.stat.version),
            PendingDeletion(name="a", uid="u1", at="now", epoch=1),
            own,
            None,
        )
        self.asked: list[str] = []
        sync, check = self.client.sync, self.term.check
        self.client.sync = lambda: (self.asked.append("sync"), sync())[0]  # type: ignore[method-assign,func-returns-value]
        self.term.check = lambda: (self.asked.append("term"), check())[0]  # type: ignore[method-assign,func-returns-value]
        self.when_read: Any = lambda: None
        self.other: CheckpointClaim | None = None

    def find_overlap(self, _zoo: Any, _path: str, _location: str) -> Any:
        self.asked.append("overlap")
        self.when_read()
        return SimpleNamespace(claim=self.other, doubtful=None, generation=1)


def test_a_batch_goes_out_after_a_sync_between_two_looks_at_the_term() -> None:
    """What is read without a sync may be what was before another leader; and reading may have taken longer than the term."""
    stage = Stage()
    stage.remover._still(stage.path, stage.now)
    assert stage.asked == ["term", "sync", "overlap", "term"]
    stage.when_read = lambda: stage.term.end("deposed meanwhile")
    with pytest.raises(NotLeader):
        stage.remover._still(stage.path, stage.now)


def test_no_batch_goes_out_on_a_connection_on_which_nobody_has_looked() -> None:
    stage = Stage()
    stage.term.set_trust_check(stage.client.connections + 1)
    with pytest.raises(NotSent):
        stage.remover._still(stage.path, stage.now)


def test_no_batch_goes_out_where_somebody_else_has_come_to_be() -> None:
    stage = Stage()
    stage.other = CheckpointClaim(location=f"{PLACE}/b", name="b", uid="u2")
    with pytest.raises(Conflict):
        stage.remover._still(stage.path, stage.now)


def test_a_batch_without_an_answer_is_waited_out_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()

    def remove_batch(_still: Any) -> Any:
        raise Unreachable("no answer")

    removal: Any = SimpleNamespace(unanswered=1, remove_batch=remove_batch, resolved=PLACE)
    job = LocationDeletion(stage.path, unsure_at_s=10.0, removal=removal)
    monkeypatch.setattr(stage.remover, "_why_kept", lambda _now: None)
    with pytest.raises(Unreachable):
        stage.remover._carry_on(job, stage.now)
    assert job.unsure_at_s == 1000.0


def test_what_is_needed_is_read_after_a_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that lags would not show the submission whose blobs are there already."""
    asked: list[str] = []

    def listed(*_arguments: object) -> Any:
        asked.append("listing")
        raise Unreachable("enough")

    monkeypatch.setattr(sweeper_module, "take_listing", listed)
    made: Any = object.__new__(Sweeper)
    made._term, made._layout = (
        SimpleNamespace(client=SimpleNamespace(sync=lambda: asked.append("sync"))),
        None,
    )
    with pytest.raises(Unreachable):
        made._references()
    assert asked == ["sync", "listing"]


def test_a_reading_of_the_claims_that_failed_is_made_up_for_at_the_next_step() -> None:
    """Not after ``READ_EVERY_S``: the claim that is to be deleted blocks its location until then."""
    for failing in ("children", "read_many"):
        stage = Stage()
        stage.term.set_recorded()
        answers, asked = getattr(stage.client, failing), []

        def lost(*_arguments: object) -> Any:
            raise Unreachable("no answer")

        def answered(*arguments: Any, answers: Any = answers, asked: list[None] = asked) -> Any:
            asked.append(None)
            return answers(*arguments)

        setattr(stage.client, failing, lost)
        with pytest.raises(Unreachable):
            stage.remover.step()
        setattr(stage.client, failing, answered)
        stage.remover.step()
        assert asked, f"after a failure of {failing} the claims were not read again"


def steps(stage: Stage, *paths: str) -> list[str]:
    """Which deletions a step takes further; each has more to do at once."""
    advanced: list[str] = []
    stage.remover._find_deletions = lambda: None  # type: ignore[method-assign]

    def advance(job: LocationDeletion) -> bool:
        advanced.append(job.path)
        stage.when_read()
        return True

    stage.remover._advance = advance  # type: ignore[method-assign]
    stage.remover._jobs = {path: LocationDeletion(path, 0.0) for path in paths}
    assert stage.remover.step() == bool(advanced)
    return advanced


def test_a_step_takes_each_deletion_further_while_its_term_leads() -> None:
    stage = Stage()
    stage.term.set_recorded()
    assert steps(stage, "a", "b") == ["a", "b"]
    stage.when_read = lambda: stage.term.end("deposed meanwhile")
    assert steps(stage, "a", "b") == ["a"]


@pytest.mark.parametrize("why", ["not recorded", "distrusted", "paused"])
def test_no_step_is_taken_by_who_may_not_act(why: str) -> None:
    stage = Stage()
    if why != "not recorded":
        stage.term.set_recorded()
    if why == "distrusted":
        stage.term.set_distrust("restored")
    if why == "paused":
        stage.remover._permission = TermPermission(stage.term, lambda: True)
    assert steps(stage, "a") == []


def test_no_batch_goes_out_beside_a_claim_that_cannot_be_read() -> None:
    stage = Stage()
    doubt = SimpleNamespace(claim=None, doubtful=("/c", "is not JSON"), generation=1)
    stage.remover._others = SimpleNamespace(find_overlap=lambda *_: doubt)  # type: ignore[assignment]
    with pytest.raises(Conflict):
        stage.remover._still(stage.path, stage.now)


class Given:
    """What a step comes to at a location whose requests end so: ``ended`` has the state that the claim was given up with."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, removed: Removed, unanswered: int, epoch: int
    ) -> None:
        self.stage, self.ended = Stage(), ""
        removal: Any = SimpleNamespace(
            unanswered=unanswered,
            late_s=100.0,
            seen=True,
            resolved=PLACE,
            remove_batch=lambda _still: removed,
        )
        self.job = LocationDeletion(self.stage.path, unsure_at_s=950.0, removal=removal)
        self.now = replace(self.stage.now, deletion=replace(self.stage.now.deletion, epoch=epoch))
        self.why: str | None = None
        monkeypatch.setattr(self.stage.remover, "_why_kept", lambda _now: self.why)
        monkeypatch.setattr(self.stage.remover, "_give_up", self.give_up)

    def give_up(self, _job: Any, _now: Any, state: CheckpointState, _detail: str) -> bool:
        self.ended = state.value
        return True

    def step(self) -> bool:
        return self.stage.remover._carry_on(self.job, self.now)


def test_what_is_left_is_gone_on_with_also_where_a_batch_deleted_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page that has nothing but savepoints."""
    given = Given(monkeypatch, Removed(0, left=True), 0, 1)
    given.job.failures, given.job.logged = 3, "S3 does not answer"
    assert (given.step(), given.ended) == (True, "")
    assert (given.job.failures, given.job.logged) == (0, ""), (
        "the next failure is waited for and told as a first one"
    )


@pytest.mark.parametrize(("unanswered", "epoch", "waits"), [(0, 1, False), (1, 1, True), (0, 7, True)])
@pytest.mark.parametrize("kept", [False, True])
def test_a_claim_is_given_up_when_no_request_of_anybody_can_be_under_way(
    monkeypatch: pytest.MonkeyPatch, unanswered: int, epoch: int, waits: bool, kept: bool
) -> None:
    given = Given(monkeypatch, Removed(3, left=False), unanswered, epoch)
    given.why = "the operator does not allow it" if kept else None
    given.step()
    assert given.ended == ("" if waits else "kept" if kept else "deleted")
    assert (given.job.next_at_s > 1000.0) == waits
