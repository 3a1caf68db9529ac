"""Which jobs the leader can't give another checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.daemon.leader.update_savepoint_task import UpdateSavepointTasks, moved_sha256
from supervisor.errors import InvalidInput
from supervisor.model.records import BlobRef, JobRef
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
