"""What helps, and where it is told step by step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import supervisor
from supervisor.model.records import Cause
from supervisor.model.spark_session import MARK
from supervisor.plan.remedies import DAMAGED, RUNBOOKS, remedies_of_quarantined, runbook_of
from tests.unit.plan.rows import exited, job


@pytest.mark.parametrize("page", sorted({*RUNBOOKS.values(), DAMAGED}))
def test_a_runbook_that_explain_names_is_a_page(page: str) -> None:
    assert (Path(supervisor.__file__).parent / "docs" / "runbooks" / f"{page}.md").is_file()


def test_a_cause_without_a_runbook_names_none() -> None:
    assert runbook_of(Cause.USER_ERROR) == runbook_of(None) == ()
    (remedy,) = runbook_of(Cause.STALLED)
    assert remedy.command == "spark-supervisor docs runbooks/stalled"
    (remedy,) = runbook_of(None, damaged=True)
    assert remedy.command == "spark-supervisor docs runbooks/zookeeper-restore"


def test_nobody_is_told_to_cancel_a_job_whose_checkpoint_goes_with_it_without_a_copy() -> None:
    reference = job().record
    kept = replace(reference, terms=replace(reference.terms, delete_checkpoint=False))
    deleted = replace(reference, terms=replace(reference.terms, delete_checkpoint=True))
    (cancel,) = remedies_of_quarantined("j", None, kept)
    assert "its checkpoint is kept" in cancel.note
    save, cancel = remedies_of_quarantined("j", None, deleted)
    assert (save.command, cancel.command) == (
        "spark-supervisor savepoint create j",
        "spark-supervisor cancel j",
    )
    assert "kept" not in cancel.note and "--from-savepoint" in cancel.note
    (cancel,) = remedies_of_quarantined("j", None, None)
    assert "unless its spec says checkpoint_on_cancel: delete" in cancel.note


@pytest.mark.parametrize("cause", [Cause.USER_ERROR, Cause.NOT_STARTED])
def test_a_session_that_a_job_cannot_have_is_mended_in_the_spec_and_not_on_the_host(cause: Cause) -> None:
    ended = exited(cause, permanent=True).record
    asked = replace(ended, reason=f"{MARK}env SPARK_REMOTE asks for a Spark Connect server")
    (remedy,) = remedies_of_quarantined("j", asked, job().record)
    assert remedy.command == "spark-supervisor apply SPEC.yaml"
    (remedy,) = remedies_of_quarantined("j", ended, job().record)
    assert remedy.command == "spark-supervisor resume j"


def test_a_job_that_begins_anew_is_mended_in_its_application_and_not_in_its_checkpoint() -> None:
    """The checkpoint is there: what helps is the name or the place that the query had."""
    ended = exited(Cause.BAD_CHECKPOINT, permanent=True).record
    anew = replace(ended, reason="a query without a name would begin from nothing, as at each start: name it")
    apply, show, accept = remedies_of_quarantined("j", anew, job().record)
    assert apply.command == "spark-supervisor apply SPEC.yaml" and "name" in apply.note
    assert show.command == "spark-supervisor checkpoint show j"
    assert accept.command == "spark-supervisor resume j --accept-fresh-start"
    gone = replace(ended, reason="the checkpoint s3://b/ck is missing or empty")
    assert "checkpoint verify" in (remedies_of_quarantined("j", gone, job().record)[0].command or "")
