"""What helps, and where it is told step by step."""

from __future__ import annotations

from pathlib import Path

import pytest

import supervisor
from supervisor.model.records import Cause
from supervisor.plan.remedies import DAMAGED, RUNBOOKS, runbook_of


@pytest.mark.parametrize("page", sorted({*RUNBOOKS.values(), DAMAGED}))
def test_a_runbook_that_explain_names_is_a_page(page: str) -> None:
    assert (Path(supervisor.__file__).parent / "docs" / "runbooks" / f"{page}.md").is_file()


def test_a_cause_without_a_runbook_names_none() -> None:
    assert runbook_of(Cause.USER_ERROR) == runbook_of(None) == ()
    (remedy,) = runbook_of(Cause.STALLED)
    assert remedy.command == "spark-supervisor docs runbooks/stalled"
    (remedy,) = runbook_of(None, damaged=True)
    assert remedy.command == "spark-supervisor docs runbooks/zookeeper-restore"
