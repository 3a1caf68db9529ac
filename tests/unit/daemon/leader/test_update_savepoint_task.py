"""Which jobs the leader can't give another checkpoint, and what it looks at before it copies anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.daemon.leader import update_savepoint_task
from supervisor.daemon.leader.savepoint_task import Made
from supervisor.daemon.leader.update_savepoint_task import UpdateSavepointTasks, moved_sha256
from supervisor.errors import Conflict, InvalidInput
from supervisor.model.checkpoint_expectation import CheckpointExpectation, SeenQuery, place_of
from supervisor.model.records import BlobRef, JobRef, Ownership, OwnState
from supervisor.model.seen import Found
from supervisor.model.sinks import NamedSink, SeenSink
from supervisor.model.update_savepoint import savepoint_id
from supervisor.model.view import UpdateRestored
from supervisor.operations.sink_grounds import Grounds
from supervisor.records.codec import MAX_RECORD_BYTES
from supervisor.records.layout import Layout
from supervisor.savepoints.shelf import ShelfEntry
from supervisor.spec.job import JobSpec, canonical_json, from_canonical, spec_sha256
from supervisor.spec.moved import moved_spec
from supervisor.spec.site_policy import SitePolicy
from tests.unit.plan.rows import lease, own
from tests.unit.plan.test_update_savepoint import wanted

SPEC = JobSpec.model_validate(
    {"name": "j", "application": "store:ab/app.py", "checkpoint": "file:///ck", "args": ["{checkpoint}"]}
)


class Blobs:
    def __init__(self, spec: JobSpec) -> None:
        self.data = canonical_json(spec)

    def read_spec(self, ref: BlobRef) -> bytes:
        return self.data


def movable(job: JobRef, spec: JobSpec = SPEC, site: SitePolicy | None = None) -> JobSpec:
    nothing: Any = None
    blobs: Any = Blobs(spec)
    tasks = UpdateSavepointTasks(nothing, blobs, nothing, Layout("/c"), site or SitePolicy(), 1)
    assert job.update is not None
    return tasks._movable(job, job.update)


def test_a_signed_spec_is_not_moved() -> None:
    job = wanted(checkpoint="file:///ck").record
    assert job.update is not None
    assert movable(job) == from_canonical(canonical_json(SPEC), "k")
    signed = replace(job.update.before, spec=replace(job.update.before.spec, signature="by somebody"))
    with pytest.raises(InvalidInput, match="revision 1 is signed"):
        movable(replace(job, update=replace(job.update, before=signed)))


def test_a_job_whose_record_has_no_room_for_the_place_of_a_copy_is_not_moved() -> None:
    """The write that moves it would fail in each pass."""
    job = wanted(checkpoint="file:///ck").record
    with pytest.raises(InvalidInput, match="no room"):
        movable(replace(job, left_by="x" * MAX_RECORD_BYTES))


def test_a_copy_on_a_file_system_belongs_to_the_supervisor() -> None:
    site = SitePolicy(run_as="somebody")
    with pytest.raises(InvalidInput, match="would not belong to somebody"):
        movable(wanted(checkpoint="file:///ck").record, site=site)
    movable(wanted(checkpoint="s3a://bucket/ck").record, site=site)


def test_a_spec_that_names_its_checkpoint_does_not_follow() -> None:
    named = SPEC.model_copy(update={"args": ("file:///ck",)})
    with pytest.raises(InvalidInput, match="args of j names"):
        movable(wanted(checkpoint="file:///ck").record, named)
    assert moved_sha256(named, "file:///copy") == "none"
    assert moved_sha256(SPEC, "file:///copy") == spec_sha256(moved_spec(SPEC, "file:///copy"))[:16]


class Zoo:
    """Has no ownership of the job."""

    def read(self, _path: str) -> None:
        return None


NO_OWN: Any = Zoo()


class Copier:
    """Stands for the tasks that copy, and notes what is done in which order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def restore(self, *_: Any) -> tuple[()]:
        self.done.append("copied")
        return ()


def restoring(
    monkeypatch: pytest.MonkeyPatch, looks: list[Exception | None], site: SitePolicy | None = None
) -> Copier:
    """Restores; each look at the claims raises what ``looks`` has for it."""
    copier, blobs = Copier(), Blobs(SPEC)
    tasks: Any = copier
    blobs.put_spec = lambda *_: BlobRef(key="k", sha256="0" * 64, bytes=1)  # type: ignore[attr-defined]
    places: list[str] = []

    def read_claims(_zoo: Any, _layout: Any, _job: Any, place: str) -> UpdateRestored:
        copier.done.append("looked")
        places.append(place)
        error = looks.pop(0)
        if error is not None:
            raise error
        return UpdateRestored()

    monkeypatch.setattr(update_savepoint_task, "read_for_move", read_claims)
    any_blobs: Any = blobs
    of_update = UpdateSavepointTasks(tasks, any_blobs, NO_OWN, Layout("/c"), site or SitePolicy(), 1)
    try:
        of_update.restore(wanted(checkpoint="file:///ck").record, lambda: True)
    except (Conflict, InvalidInput):
        copier.done.append("refused")
    assert len(set(places)) <= 1, "what was looked at is what is copied to"
    return copier


def test_nothing_is_copied_to_a_place_that_is_somebodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queries would find a copy in the middle of their checkpoint."""
    assert restoring(monkeypatch, [Conflict("b has it")]).done == ["looked", "refused"]


def test_a_place_is_looked_at_before_the_copy_and_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert restoring(monkeypatch, [None, None]).done == ["looked", "copied", "looked"]
    assert restoring(monkeypatch, [None, Conflict("b has it now")]).done == [
        "looked",
        "copied",
        "looked",
        "refused",
    ]


def test_nothing_is_copied_to_where_this_host_may_have_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = SitePolicy(checkpoints=("s3://bucket/",))
    assert restoring(monkeypatch, [None, None], elsewhere).done == ["refused"]


def test_a_copy_is_the_revision_of_before_at_a_place_of_this_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its terms are those of before, its number the next one: of two leaders each copies to a place of its own."""
    job = wanted(checkpoint="file:///ck").record
    tasks: Any = Copier()
    stored: list[tuple[str, str, int]] = []
    blobs: Any = Blobs(SPEC)

    def put_spec(name: str, uid: str, revision: int, _data: bytes) -> BlobRef:
        stored.append((name, uid, revision))
        return BlobRef(key="copy", sha256="0" * 64, bytes=1)

    blobs.put_spec = put_spec
    monkeypatch.setattr(update_savepoint_task, "read_for_move", lambda *_: UpdateRestored())
    made = [
        UpdateSavepointTasks(tasks, blobs, NO_OWN, Layout("/c"), SitePolicy(), epoch).restore(
            job, lambda: True
        )
        for epoch in (1, 2)
    ]
    assert job.update is not None
    assert stored == [(job.name, job.uid, job.next_revision)] * 2
    places = set()
    for each in made:
        assert each.revision is not None and each.revision.revision == job.next_revision
        place = each.revision.terms.checkpoint or ""
        assert each.revision.terms == replace(job.update.before.terms, checkpoint=place)
        places.add(place)
    assert len(places) == 2 and "file:///ck" not in places


BEFORE = BlobRef(key="before", sha256="1" * 64, bytes=1)
TARGET = replace(BEFORE, key="target")


def with_two_specs(job: JobRef) -> JobRef:
    """Revisions whose specs and terms are told apart."""
    assert job.update is not None
    before = replace(
        job.update.before,
        spec=BEFORE,
        terms=replace(job.terms, start_timeout_s=job.terms.start_timeout_s + 7),
    )
    return replace(job, spec=TARGET, update=replace(job.update, before=before))


def two_specs(put: list[bytes]) -> Any:
    """Has both, with another argument in each; what is stored is noted."""
    blobs: Any = Blobs(SPEC)
    target = SPEC.model_copy(update={"args": ("{checkpoint}", "--new")})
    blobs.read_spec = lambda ref: canonical_json({"before": SPEC, "target": target}[ref.key])
    blobs.put_spec = lambda _name, _uid, _revision, data: (
        put.append(data),
        BlobRef(key="k", sha256="0" * 64, bytes=1),
    )[1]
    return blobs


def test_the_place_of_the_copy_is_what_the_policy_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old place may have been allowed to the job alone."""
    asked: list[str | None] = []

    def why_no_checkpoint(_site: SitePolicy, location: str | None) -> None:
        asked.append(location)

    monkeypatch.setattr(SitePolicy, "why_no_checkpoint", why_no_checkpoint)
    assert restoring(monkeypatch, [None, None]).done == ["looked", "copied", "looked"]
    (place,) = asked
    assert place is not None and place.startswith("file:///ck.from-")


@pytest.mark.parametrize("where", ["lease", "own"])
def test_a_copy_is_known_by_the_target_and_runs_what_ran_before(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """``moved_sha256`` tells a later submission of the failed target; what is stored and run is the revision of before."""
    copied: list[Any] = []
    tasks: Any = Copier()
    tasks.restore = lambda *given: (copied.append(given), ())[1]
    put: list[bytes] = []
    wrote = CheckpointExpectation(
        place=place_of("file:///ck"), queries=("q 6",), sinks=("q 6 file file:/out",)
    )
    owned = own(OwnState.CLAIMED, remembered=wrote if where == "own" else None)
    seen_lease = lease(remembered=wrote).seen if where == "lease" else None
    found = UpdateRestored(lease=seen_lease)
    monkeypatch.setattr(update_savepoint_task, "read_for_move", lambda *_: found)
    monkeypatch.setattr(update_savepoint_task, "seen", lambda *_: owned)
    job = with_two_specs(wanted("update-2-0a1b2c3d", checkpoint="file:///ck").record)
    blobs = two_specs(put)
    made = UpdateSavepointTasks(tasks, blobs, NO_OWN, Layout("/c"), SitePolicy(), 1).restore(
        job, lambda: True
    )
    assert made.revision is not None and job.update is not None
    place = made.revision.terms.checkpoint or ""
    assert made.moved_sha256 == moved_sha256(
        SPEC.model_copy(update={"args": ("{checkpoint}", "--new")}), place
    )
    assert put == [canonical_json(moved_spec(SPEC, place))]
    assert made.revision.terms == replace(job.update.before.terms, checkpoint=place) != job.terms
    ((name, savepoint, to, spec, grounds, *_),) = copied
    sink = SeenSink("q", 6, NamedSink("file", "file:/out"))
    assert grounds == Grounds((sink,), (SeenQuery("q", 6),), "file:///ck"), (
        "rows are lost if the sinks are not asked"
    )
    assert (name, savepoint, to, spec) == (job.name, "update-2-0a1b2c3d", place, BEFORE)


class Maker:
    """Makes savepoints, and notes for what."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, str]] = []

    def create(self, wanted: Any, savepoint: str, *_: Any) -> Made:
        self.made.append((wanted, savepoint))
        return Made((3,), 1, 1)


def saving(ref: Found[JobRef], owned: Found[Ownership], epoch: int = 1) -> Maker:
    maker = Maker()
    tasks: Any = maker
    nothing: Any = None
    of_update = UpdateSavepointTasks(tasks, two_specs([]), nothing, Layout("/c"), SitePolicy(), epoch)
    assert of_update.save(ref, owned, lambda: True) == maker.made[0][1]
    return maker


def test_no_savepoint_is_found_again_that_another_attempt_or_leader_made() -> None:
    """It would lack what was committed since: the id has the versions of both records, and the term."""
    ref, owned = wanted(checkpoint="file:///ck"), own(OwnState.CLAIMED)
    ref = Found(with_two_specs(ref.record), ref.version)
    ids = {
        saving(ref, owned).made[0][1],
        saving(ref, Found(owned.record, owned.version + 1)).made[0][1],
        saving(Found(ref.record, ref.version + 1), owned).made[0][1],
        saving(ref, owned, epoch=2).made[0][1],
    }
    assert len(ids) == 4
    of_job = saving(ref, owned).made[0][0]
    assert (of_job.spec, of_job.attempt, of_job.checkpoint) == (BEFORE, owned.record.attempt, "file:///ck")


def test_nothing_is_saved_that_could_not_be_used_on_the_way_back() -> None:
    """The job would be held up for a copy with which it can't go on."""
    ref = wanted(checkpoint="file:///ck")
    job = with_two_specs(ref.record)
    assert job.update is not None
    signed = replace(job.update.before, spec=replace(BEFORE, signature="by somebody"))
    job = replace(job, update=replace(job.update, before=signed))
    with pytest.raises(InvalidInput, match="is signed"):
        saving(Found(job, ref.version), own(OwnState.CLAIMED))


class OldOnes:
    """A shelf with savepoints of updates; those in ``used`` are being read."""

    def __init__(self, used: set[str]) -> None:
        self.used = used
        self.deleted: list[str] = []
        self.shelf = self

    def entries(self, name: str) -> list[ShelfEntry]:
        def entry(savepoint: str) -> ShelfEntry:
            begun: Any = type("B", (), {"uid": "u1", "location": f"file:/sp/{savepoint}"})()
            manifest: Any = object()
            return ShelfEntry(name, savepoint, begun, manifest)

        return [entry(savepoint_id("u1", number, 1, 1)) for number in range(2, 8)]

    def in_use(self) -> Any:
        return lambda location: "a job has it" if location in self.used else None

    def delete(self, _name: str, savepoint: str, *_: Any) -> None:
        self.deleted.append(savepoint)


def test_of_older_savepoints_none_goes_that_is_in_use_or_the_updates_own() -> None:
    """In use: a job has its checkpoint in it. Its own: that of this update, as recorded and as just made."""
    names = {number: savepoint_id("u1", number, 1, 1) for number in range(2, 8)}
    old = OldOnes({f"file:/sp/{names[2]}"})
    tasks: Any = old
    nothing: Any = None
    of_update = UpdateSavepointTasks(tasks, nothing, nothing, Layout("/c"), SitePolicy(), 1)
    of_update.remove_surplus(wanted(names[3], checkpoint="file:///ck").record, names[4], lambda: True)
    assert old.deleted == [names[5]]
