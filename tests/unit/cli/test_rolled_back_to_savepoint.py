"""``update.rollback: savepoint`` with a real checkpoint: what the leader saves, restores and writes, and ``apply`` after it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.act.transactions import transaction_for
from supervisor.checkpoint.layout import parse_metadata
from supervisor.daemon.leader import savepoint_task
from supervisor.daemon.leader.savepoint_task import SavepointTasks, work
from supervisor.daemon.leader.update_savepoint_task import UpdateSavepointTasks
from supervisor.errors import Conflict, Corrupt, InvalidInput, NotFound, NotYet
from supervisor.model.actions import Conclude, KeepSavepoint, RollBackToSavepoint
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of, queries_of
from supervisor.model.records import (
    Cause,
    CheckpointClaim,
    JobRef,
    JudgedUpdate,
    Lease,
    Outcome,
    Ownership,
    OwnState,
)
from supervisor.model.seen import Found
from supervisor.model.update_savepoint import savepoint_id, target_of
from supervisor.model.view import UpdateRestored
from supervisor.operations.context import store_of
from supervisor.plan.decide import FRESH
from supervisor.records.reading import children_of
from supervisor.registry.blobs import Blobs
from supervisor.registry.leader_write_context import LeaderWriteContext
from supervisor.settings.file import load_settings
from supervisor.spec.job import from_canonical
from supervisor.spec.site_policy import SitePolicy
from tests.fakes.registry_bench import ROOT
from tests.unit.checkpoint.golden import unpack
from tests.unit.cli.conftest import Terminal
from tests.unit.cli.test_revisions import ref, runs, states

RULE = "update: {rollback: savepoint, mode: restart}"


def on() -> bool:
    return True


class Leader:
    """Does what the leader does, one after the other, in this process. ``epoch`` is that of its term."""

    def __init__(self, terminal: Terminal, epoch: int = 1, site: SitePolicy | None = None) -> None:
        self.terminal, self.bench = terminal, terminal.bench
        settings = load_settings(terminal.config, {})
        client: Any = self.bench.zoo.client()
        tasks = SavepointTasks(settings, client, self.bench.layout)
        blobs = Blobs(store_of(settings))
        self.work = UpdateSavepointTasks(
            tasks, blobs, client, self.bench.layout, site or SitePolicy(checkpoints=("*",)), epoch
        )
        self.shelf = tasks.shelf

    @property
    def own(self) -> Found[Ownership]:
        found: Found[Ownership] = self.bench.record(Ownership, f"{ROOT}/own/a")
        return found

    def save(self) -> str:
        return self.work.save(self.bench.ref("a"), self.own, on)

    def keep(self, savepoint: str) -> None:
        self._write(KeepSavepoint("a", "w", self.bench.ref("a"), self.own, savepoint))

    def restore(self) -> UpdateRestored:
        return self.work.restore(ref(self.terminal), on)

    def roll_back(self, restored: UpdateRestored) -> None:
        self._write(
            RollBackToSavepoint("a", "revision 2 failed: boom", self.bench.ref("a"), self.own, restored)
        )

    def _write(self, action: Any) -> None:
        context = LeaderWriteContext(self.bench.layout, 1, 0, "op-l", "2026-01-01T00:00:00Z", "supervisor:s1")
        tx = transaction_for(action, context)
        self.bench.zoo.client().commit(replace(tx, ops=tx.ops[3:]))


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savepoint_task, "run_task", lambda module, task, timeout_s, go_on: work(task))


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(unpack("files", tmp_path))


def begun(terminal: Terminal, place: str, more: str = "args: ['{{checkpoint}}']") -> str:
    """Revision 1 runs, and revision 2 is wanted. Returns the text of its spec."""
    text = f"checkpoint: {place}\n{more}\n{RULE}"
    assert terminal.run("submit", terminal.spec("a", text)).code == 0
    runs(terminal, 1)
    changed = f"{text}\nlease: 40s"
    ran = terminal.run("apply", terminal.spec("a", changed))
    assert ran.code == 0, ran.err
    return changed


def failed(terminal: Terminal, place: str) -> tuple[Leader, str, str]:
    """Revision 2 has failed, after a savepoint was kept. Returns the leader, the id, the text of the spec."""
    text = begun(terminal, place)
    leader = Leader(terminal)
    savepoint = leader.save()
    leader.keep(savepoint)
    runs(terminal, 2, OwnState.EXITED, cause=Cause.USER_ERROR, reason="boom", judged=JudgedUpdate(target=2))
    return leader, savepoint, text


def test_a_savepoint_is_made_once_by_a_leader_for_one_hand_over(terminal: Terminal, place: str) -> None:
    begun(terminal, place)
    leader = Leader(terminal)
    savepoint = leader.save()
    assert savepoint == savepoint_id(
        ref(terminal).uid, 2, leader.own.version, terminal.bench.ref("a").version, 1
    )
    assert leader.save() == savepoint, "it finds it"
    assert leader.shelf.ids("a") == (savepoint,)
    listed = terminal.run("savepoint", "list", "a", "-o", "json").json
    assert [each["id"] for each in listed] == [savepoint]
    leader.keep(savepoint)
    update = ref(terminal).update
    assert update is not None and update.savepoint == savepoint


def test_another_attempt_has_another_savepoint(terminal: Terminal, place: str) -> None:
    begun(terminal, place)
    leader = Leader(terminal)
    first = leader.save()
    runs(terminal, 1)
    assert leader.save() != first


def test_a_copy_has_a_place_of_its_own_in_each_term_and_is_found_again(
    terminal: Terminal, place: str
) -> None:
    leader, savepoint, _ = failed(terminal, place)
    one = leader.restore()
    assert one.revision is not None
    copy = one.revision.terms.checkpoint
    assert copy is not None and copy.startswith(f"{place}.from-{savepoint}-")
    assert leader.restore() == one, "it goes on with what is there"
    other = Leader(terminal, epoch=2).restore()
    assert other.revision is not None and other.revision.terms.checkpoint != copy
    spec = from_canonical(leader.work.blobs.read_spec(one.revision.spec), one.revision.spec.key)
    assert spec.checkpoint == copy and spec.lease_s == 30.0


def test_the_job_goes_on_with_the_copy_in_one_write(terminal: Terminal, place: str) -> None:
    leader, savepoint, _ = failed(terminal, place)
    restored = leader.restore()
    leader.roll_back(restored)
    job = ref(terminal)
    assert (job.revision, job.declared, job.terms.checkpoint) == (
        3,
        place,
        restored.revision.terms.checkpoint,
    )  # type: ignore[union-attr]
    claims = [
        terminal.bench.record(CheckpointClaim, f"{ROOT}/checkpoints/{child}").record
        for child in children_of(leader.work.zoo, f"{ROOT}/checkpoints")
    ]
    assert [(claim.name, claim.uid) for claim in claims] == [("a", job.uid)]
    assert claims[0].location == f"file://{job.terms.checkpoint}"
    assert terminal.bench.record(Lease, f"{ROOT}/lease/a") is None
    remembered = leader.own.record.remembered
    assert remembered is not None and queries_of(remembered) == restored.queries
    rows = terminal.run("revisions", "a", "-o", "json").json
    assert [(each["revision"], each["state"], each["why"], each["by"]) for each in rows][:2] == [
        (3, "running", f"revision 1 again, from savepoint {savepoint}", "supervisor:s1"),
        (2, "rolled_back", f"back to savepoint {savepoint}: revision 2 failed: boom", "uid:1000@desk"),
    ]


def wrote_to(leader: Leader, place: str, sink: str) -> str:
    """The target was seen to write there, and has planned a batch after the savepoint. Returns the id of the query."""
    query = parse_metadata((Path(place) / "metadata").read_bytes())
    newest = max(int(path.name) for path in (Path(place) / "offsets").iterdir() if path.name.isdigit())
    shutil.copy(Path(place) / f"offsets/{newest}", Path(place) / f"offsets/{newest + 1}")
    known = CheckpointExpectation(
        place=place_of(place), queries=(f"{query} {newest}",), sinks=(f"{query} {newest} {sink}",)
    )
    leader.bench.put(f"{ROOT}/own/a", replace(leader.own.record, remembered=known))
    return query


def test_the_leader_goes_back_to_a_table_with_new_ids(terminal: Terminal, place: str) -> None:
    leader, _, _ = failed(terminal, place)
    query = wrote_to(leader, place, "delta s3a://b/t")
    restored = leader.restore()
    assert restored.revision is not None and query not in {each.id for each in restored.queries}
    assert leader.restore().queries == restored.queries, "and goes on with those"
    leader.roll_back(restored)
    remembered = leader.own.record.remembered
    assert remembered is not None and queries_of(remembered) == restored.queries
    assert remembered.sinks, "what it wrote to is known still"


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        ("file s3a://b/out", "would be lost"),
        ("foreachBatch", "Only its owner knows.*rollback --from-savepoint"),
    ],
)
def test_the_leader_never_goes_back_where_rows_would_be_lost(
    terminal: Terminal, place: str, sink: str, words: str
) -> None:
    leader, savepoint, _ = failed(terminal, place)
    wrote_to(leader, place, sink)
    with pytest.raises(Conflict, match=words):
        leader.restore()
    assert not list(Path(place).parent.glob("*.from-*")), "nothing was copied"


def test_apply_of_what_failed_changes_nothing_and_of_what_runs_neither(
    terminal: Terminal, place: str
) -> None:
    leader, savepoint, text = failed(terminal, place)
    leader.roll_back(leader.restore())
    again = terminal.run("apply", terminal.spec("a", text))
    assert again.code == 0
    assert f"revision 2 had this spec and was rolled back: back to savepoint {savepoint}" in again.out
    stable = text.replace("\nlease: 40s", "")
    assert terminal.run("diff", terminal.spec("a", stable)).code == 0
    assert "a: unchanged" in terminal.run("apply", terminal.spec("a", stable)).out
    assert ref(terminal).revision == 3
    assert "a: already rolled back" in terminal.run("rollback", "a").out


def test_apply_of_another_spec_with_the_place_declared_keeps_the_place_of_the_job(
    terminal: Terminal, place: str
) -> None:
    leader, _, text = failed(terminal, place)
    leader.roll_back(leader.restore())
    here = ref(terminal).terms.checkpoint
    fixed = text.replace("40s", "50s")
    shown = terminal.run("diff", terminal.spec("a", fixed))
    assert shown.code == 1 and "lease: 30s → 50s" in shown.out and "checkpoint" not in shown.out
    assert terminal.run("apply", terminal.spec("a", fixed)).code == 0
    job = ref(terminal)
    assert (job.revision, job.terms.checkpoint, job.declared) == (4, here, place)
    assert states(terminal)[0] == (4, "running")
    other = terminal.run("apply", terminal.spec("a", fixed.replace(place, f"{place}-2")))
    assert other.code != 0 and "an update keeps the checkpoint" in other.err
    as_it_is = terminal.run("apply", terminal.spec("a", fixed.replace(place, str(here))))
    assert "a: unchanged" in as_it_is.out


def test_a_result_keeps_what_was_declared(terminal: Terminal, place: str) -> None:
    leader, _, text = failed(terminal, place)
    leader.roll_back(leader.restore())
    conclude = Conclude("a", "w", terminal.bench.ref("a"), leader.own, Outcome.FAILED, FRESH)
    leader._write(conclude)
    assert terminal.run("resume", "a").code == 0
    assert ref(terminal).declared == place
    assert "a: unchanged" in terminal.run("apply", terminal.spec("a", text.replace("\nlease: 40s", ""))).out


def test_where_the_application_would_not_follow_the_copy_none_is_made(terminal: Terminal, place: str) -> None:
    begun(terminal, place, f"args: ['{place}']")
    with pytest.raises(InvalidInput, match="args of a names"):
        Leader(terminal).save()


def test_where_the_copy_would_not_belong_to_the_user_of_the_driver_none_is_made(
    terminal: Terminal, place: str
) -> None:
    begun(terminal, place)
    with pytest.raises(InvalidInput, match="would not belong to somebody"):
        Leader(terminal, site=SitePolicy(run_as="somebody")).save()


def test_where_the_spec_is_signed_none_is_made(terminal: Terminal, place: str) -> None:
    begun(terminal, place)
    job = ref(terminal)
    assert job.update is not None
    signed = replace(job.update.before.spec, signature="by somebody")
    update = replace(job.update, before=replace(job.update.before, spec=signed))
    leader = Leader(terminal)
    with pytest.raises(InvalidInput, match="revision 1 is signed"):
        leader.work.save(Found(replace(job, update=update), 5), leader.own, on)


def test_without_a_batch_there_is_nothing_to_save(terminal: Terminal, tmp_path: Path) -> None:
    begun(terminal, str(tmp_path / "empty"))
    with pytest.raises(NotYet):
        Leader(terminal).save()


def test_a_savepoint_that_is_gone_or_damaged_is_told(terminal: Terminal, place: str) -> None:
    leader, savepoint, _ = failed(terminal, place)
    objects = next((terminal.home / "store" / "savepoints" / "a" / savepoint).glob("objects-*"))
    objects.unlink()
    with pytest.raises(Corrupt):
        leader.restore()
    assert terminal.run("savepoint", "delete", "a", savepoint).code == 0
    with pytest.raises(NotFound):
        leader.restore()


def test_a_place_that_is_somebody_s_or_not_allowed_is_left_alone(terminal: Terminal, place: str) -> None:
    leader, savepoint, _ = failed(terminal, place)
    allowed = Leader(terminal, site=SitePolicy(checkpoints=("s3://bucket/*",)))
    with pytest.raises(InvalidInput, match=r"policy.checkpoints"):
        allowed.restore()
    claimed = leader.restore().claimed
    assert claimed is not None
    copy = claimed.location
    assert terminal.run("submit", terminal.spec("b", f"checkpoint: {copy.removeprefix('file://')}")).code == 0
    with pytest.raises(Conflict, match="belongs to job b"):
        leader.restore()


def test_older_ones_of_this_uid_go(terminal: Terminal, place: str) -> None:
    text = begun(terminal, place)
    leader = Leader(terminal)
    made = []
    for number in range(3, 6):
        savepoint = leader.save()
        leader.keep(savepoint)
        made.append(savepoint)
        leader.work.remove_surplus(ref(terminal), savepoint, on)
        runs(terminal, number - 1)
        assert terminal.run("apply", terminal.spec("a", text.replace("40s", f"4{number}s"))).code == 0
    assert set(leader.shelf.ids("a")) == {*made[-2:]}
    assert [target_of(each) for each in made] == [2, 3, 4]


def test_its_ids_are_the_leader_s(terminal: Terminal, place: str) -> None:
    begun(terminal, place)
    ran = terminal.run("savepoint", "create", "a", savepoint_id("u", 2, 3, 4))
    assert ran.code != 0 and "ids that begin with update- are those that the leader makes" in ran.err
    assert terminal.run("savepoint", "create", "a", "update-me").code == 0


def test_show_has_the_savepoint(terminal: Terminal, place: str) -> None:
    _, savepoint, _ = failed(terminal, place)
    assert terminal.run("show", "a", "-o", "json").json["update"]["savepoint"] == savepoint
    assert isinstance(terminal.bench.ref("a").record, JobRef)
