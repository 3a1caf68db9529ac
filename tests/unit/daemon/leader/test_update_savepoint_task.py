"""Which jobs the leader can't give another checkpoint, and what it looks at before it copies anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.daemon.leader import update_savepoint_task
from supervisor.daemon.leader.update_savepoint_task import UpdateSavepointTasks, moved_sha256
from supervisor.errors import Conflict, InvalidInput
from supervisor.model.records import BlobRef, JobRef
from supervisor.model.view import UpdateRestored
from supervisor.records.layout import Layout
from supervisor.spec.job import JobSpec, canonical_json, from_canonical, spec_sha256
from supervisor.spec.moved import moved_spec
from supervisor.spec.site_policy import SitePolicy
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
    nothing: Any = None
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
    of_update = UpdateSavepointTasks(tasks, any_blobs, nothing, Layout("/c"), site or SitePolicy(), 1)
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
    nothing: Any = None
    stored: list[tuple[str, str, int]] = []
    blobs: Any = Blobs(SPEC)

    def put_spec(name: str, uid: str, revision: int, _data: bytes) -> BlobRef:
        stored.append((name, uid, revision))
        return BlobRef(key="copy", sha256="0" * 64, bytes=1)

    blobs.put_spec = put_spec
    monkeypatch.setattr(update_savepoint_task, "read_for_move", lambda *_: UpdateRestored())
    made = [
        UpdateSavepointTasks(tasks, blobs, nothing, Layout("/c"), SitePolicy(), epoch).restore(
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
