"""Updates and roll backs as commands: what was judged must still be so when it is written (protocol §9.2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.errors import Conflict
from supervisor.model.records import BlobRef, JobRef, KeptRevision, OwnState, SpecRevision
from supervisor.operations.jobs import Did
from supervisor.operations.revisions import stable_revision
from supervisor.operations.updating import Change, Judged, Target, judge_change
from supervisor.registry.revisions import WITHDRAWN
from supervisor.registry.user_writes import AskedRevision
from tests.fakes.registry_bench import Bench
from tests.unit.plan import rows

FIRST, SECOND, THIRD = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture
def bench() -> Bench:
    return Bench()


def job(bench: Bench) -> JobRef:
    record: JobRef = bench.ref("a").record
    return record


def judged(bench: Bench, sha256: str) -> Judged:
    (answer,) = bench.commands().judge_changes([("a", sha256, None)], again=False)
    assert isinstance(answer, Judged), answer
    return answer


def updated(bench: Bench) -> None:
    """Revision 1 runs, and revision 2 is wanted."""
    bench.submit("a", FIRST)
    bench.set_own("a", OwnState.CLAIMED)
    answer = judged(bench, SECOND)
    assert answer.change is Change.UPDATE
    spec = BlobRef(key="specs/a/u/2", sha256=SECOND, bytes=1)
    target = SpecRevision(revision=answer.revision, spec=spec, terms=job(bench).terms)
    done = bench.commands().update(Target("a", answer.uid, answer.basis, AskedRevision(target, "me")))
    assert done.did is Did.UPDATED


def test_a_withdrawal_that_comes_too_late_changes_nothing(bench: Bench) -> None:
    updated(bench)
    answer = judged(bench, FIRST)
    assert answer.change is Change.WITHDRAW and answer.keeps is not None
    bench.set_own("a", OwnState.CLAIMED, attempt=2, revision=2)
    before = job(bench)
    with pytest.raises(Conflict, match="a has begun with revision 2 meanwhile: nothing was done"):
        bench.commands().update(Target("a", answer.uid, answer.basis, AskedRevision(answer.keeps, "me")))
    assert job(bench) == before


def test_a_job_that_was_changed_since_it_was_judged_is_left_alone(bench: Bench) -> None:
    updated(bench)
    answer = judged(bench, "c" * 64)
    bench.put(f"{bench.layout.job('a')}", replace(job(bench), last_revision=7))
    target = SpecRevision(revision=3, spec=job(bench).spec, terms=job(bench).terms)
    with pytest.raises(Conflict, match="a was changed by somebody else meanwhile"):
        bench.commands().update(Target("a", answer.uid, answer.basis, AskedRevision(target, "me")))


def test_a_spec_that_has_failed_is_tried_with_a_signature_that_it_did_not_have(bench: Bench) -> None:
    updated(bench)
    failed = job(bench)
    assert failed.update is not None
    given_up, before = replace(failed.update, given_up="policy"), failed.update.before
    bench.put(bench.layout.job("a"), replace(failed, update=given_up, revision=1, spec=before.spec))
    for signature, change in (("", Change.NONE), ("signed", Change.UPDATE)):
        (answer,) = bench.commands().judge_changes(
            [("a", SECOND, None)], again=False, signatures={"a": signature}
        )
        assert isinstance(answer, Judged), answer
        assert answer.change is change


def test_a_roll_back_given_again_changes_nothing(bench: Bench) -> None:
    updated(bench)
    bench.set_own("a", OwnState.CLAIMED, attempt=2, revision=2)
    assert bench.commands().roll_back("a", "me").did is Did.ROLLED_BACK
    back = job(bench)
    assert (back.revision, back.spec.sha256) == (3, FIRST)
    assert bench.commands().roll_back("a", "me").did is Did.ALREADY_ROLLED_BACK
    assert job(bench) == back


def test_a_revision_that_was_withdrawn_before_it_began_is_none_to_go_back_to() -> None:
    kept = tuple(
        KeptRevision(revision=n, sha256=str(n), at="t", why=WITHDRAWN if n == 2 else "") for n in (1, 2, 3)
    )
    record = replace(rows.job().record, revision=3)
    assert stable_revision(record, kept) == 1


def test_the_spec_that_has_failed_is_known_at_the_place_to_which_the_job_was_moved() -> None:
    """Its file names the checkpoint of before, and a command gives it the new one: so it has another sha256."""
    found = rows.updated(checkpoint="s3://bucket/copy", declared="s3://bucket/ck").record
    assert found.update is not None
    update = replace(found.update, rolled_back="back to savepoint s: boom", moved_sha256=THIRD[:16])
    moved = replace(found, revision=3, spec=replace(found.spec, sha256=FIRST), update=update)
    own = rows.own(OwnState.CLAIMED, revision=3).record
    answer = judge_change(moved, own, THIRD, "s3://bucket/copy", again=False)
    assert answer.change is Change.NONE and answer.given_up
    assert answer.why.startswith("revision 2 had this spec and was rolled back: back to savepoint s: boom")
    assert judge_change(moved, own, THIRD, "s3://bucket/copy", again=True).change is Change.UPDATE
    assert judge_change(moved, own, SECOND, "s3://bucket/copy", again=False).change is Change.UPDATE
