"""A query whose checkpoint is not in that of the job: the reason of a running job names it, in ``list`` and ``show``."""

from __future__ import annotations

from dataclasses import replace

from supervisor.model.records import Lease, OwnState, Phase, Progress, QueryProgress
from supervisor.model.seen import Found
from supervisor.model.state import shown_state
from supervisor.model.view import Row, SeenLease
from tests.unit.plan.rows import job, lease, own

HERE, TEMPORARY = (
    QueryProgress(query="a", id="1"),
    QueryProgress(query="b", id="2", elsewhere="file:/tmp/temporary-1"),
)


def reason(
    *queries: QueryProgress,
    more: int = 0,
    checkpoint: str | None = None,
    progress: Progress | None = None,
    own_master: str = "",
) -> str:
    seen = lease().seen
    assert isinstance(seen, Found)
    claimed = own(OwnState.CLAIMED)
    renewed: Lease = replace(
        seen.record,
        queries=queries,
        more_queries=more,
        phase=Phase.RUNNING,
        claim=claimed.record.claim,
        progress=progress,
        own_master=own_master,
    )
    return shown_state(
        Row(
            "a", job(checkpoint=checkpoint), claimed, lease=SeenLease(replace(seen, record=renewed), 0.0, 0.0)
        )
    ).reason


def test_all_is_well() -> None:
    assert "elsewhere" not in reason(HERE)


def test_one_of_two_is_elsewhere() -> None:
    explained = reason(HERE, TEMPORARY)
    assert (
        "query b keeps its checkpoint elsewhere, in file:/tmp/temporary-1: it can't be recovered" in explained
    )
    assert "no query uses" not in explained


def test_the_checkpoint_of_the_job_is_used_by_none() -> None:
    explained = reason(TEMPORARY, replace(TEMPORARY, query=None, id="3"))
    assert "query b" in explained
    assert "1 more" in explained
    assert "no query uses the job's own" in explained
    assert "no query uses" not in reason(TEMPORARY, more=1)


def test_a_checkpoint_that_nobody_uses_is_told() -> None:
    """An application without a query; a JVM one that commits elsewhere, of which nothing else is to be seen."""
    place = "s3a://bucket/ck"
    assert reason(checkpoint=place).endswith(
        "; this attempt has not used its checkpoint s3a://bucket/ck so far"
    )
    assert "has not used" not in reason()
    assert "has not used" not in reason(HERE, checkpoint=place)
    assert "has not used" not in reason(more=1, checkpoint=place)
    assert "has not used" not in reason(checkpoint=place, progress=Progress(batch_id=3))


def test_a_master_that_the_code_has_set_is_told() -> None:
    assert "its code has set the master local[1]: that of its spec does not count" in reason(
        HERE, own_master="local[1]"
    )
    assert "master" not in reason(HERE)


def test_a_query_without_a_name_is_named_by_the_begin_of_its_id() -> None:
    assert "query unnamed (id 3) keeps its checkpoint" in reason(replace(TEMPORARY, query=None, id="3"))
