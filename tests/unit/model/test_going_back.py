"""Whether a job may go back: the whole table, by what it would mean for the rows.

``skips`` is what a sink does with a batch, written down once more from its documentation; no step of the table may let it skip one.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from supervisor.errors import Conflict
from supervisor.model.going_back import (
    COPIES,
    NOTHING_SAID,
    TABLE,
    GoingBack,
    Returning,
    ReturnStep,
    ReturnWay,
    Said,
    SinkStanding,
    decide,
    memory_of,
)
from supervisor.model.sinks import NamedSink, SinkMemory

SINKS = {
    SinkMemory.REPEATS: NamedSink("kafka"),
    SinkMemory.TRANSACTIONAL: NamedSink("delta", "file:/t"),
    SinkMemory.REMEMBERS: NamedSink("file", "file:/out"),
    SinkMemory.UNKNOWN: NamedSink("foreachBatch"),
}
ROLLED_BACK = Said(rolled_back=True)


def skips(memory: SinkMemory, *, same_id: bool, ahead: bool, rolled_back: bool) -> bool:
    """Whether a sink may skip the next batch. RESTORE of a Delta table keeps which batches it has seen."""
    if not ahead:
        return False
    by_query = memory in (SinkMemory.TRANSACTIONAL, SinkMemory.UNKNOWN) and same_id
    by_number = memory in (SinkMemory.REMEMBERS, SinkMemory.UNKNOWN) and not rolled_back
    return by_number or (by_query and not (rolled_back and memory is SinkMemory.UNKNOWN))


@pytest.mark.parametrize("way", ReturnWay)
def test_no_way_lets_a_sink_skip_a_batch(way: ReturnWay) -> None:
    for memory, ahead, rolled_back, same in product(SinkMemory, (True, False), (True, False), (True, False)):
        query = Returning("q", 2, 5 if ahead else 2, SINKS[memory], same_id=same)
        found = decide(way, [query], ROLLED_BACK if rolled_back else NOTHING_SAID)
        if found.step is not ReturnStep.REFUSE:
            goes_on_with_it = found.step is ReturnStep.SAME_IDS and (same or way in COPIES)
            lost = skips(memory, same_id=goes_on_with_it, ahead=ahead, rolled_back=rolled_back)
            assert not lost, (way, memory, ahead, rolled_back, same)
        if not ahead:
            assert found.step is not ReturnStep.REFUSE and not found.why, (
                "nothing is asked where nothing can be lost"
            )


def test_only_a_copy_has_new_ids() -> None:
    assert set(TABLE) == set(product(SinkMemory, SinkStanding))
    for copied, *in_place in TABLE.values():
        assert isinstance(copied, ReturnStep) and ReturnStep.NEW_IDS not in in_place
    assert set(ReturnWay) > COPIES


def test_what_nobody_knows_counts_as_ahead() -> None:
    assert Returning("q", 2, None, None).is_ahead
    assert decide(ReturnWay.RESUME, [Returning("q", 2, None, None)], NOTHING_SAID).step is ReturnStep.REFUSE


def test_a_refusal_names_the_sink_the_batches_and_the_ways_out() -> None:
    query = Returning("q", 2, 5, NamedSink("file", "s3a://b/out"))
    with pytest.raises(Conflict) as refused:
        decide(ReturnWay.RESUME, [query], NOTHING_SAID).require()
    assert "the file sink s3a://b/out knows a batch by its number" in str(refused.value)
    assert "the rows of batches 3 to 5 would be lost" in str(refused.value)
    assert "another path, which has a copy of the _spark_metadata up to batch 2" in str(
        refused.value
    ) and "--sink-rolled-back" in str(refused.value)
    with pytest.raises(
        Conflict, match=r"does the sink of query q \(foreachBatch sink\) skip .* savepoints.sink"
    ):
        decide(ReturnWay.RESUME, [replace(query, sink=NamedSink("foreachBatch"))], NOTHING_SAID).require()
    with pytest.raises(Conflict, match=r"Only its owner knows.*from batch 3 on"):
        decide(ReturnWay.RESUME, [replace(query, sink=None, handed=None)], NOTHING_SAID).require()


def test_what_comes_twice_is_said() -> None:
    twice = decide(ReturnWay.RESUME, [Returning("q", 2, 3, SINKS[SinkMemory.TRANSACTIONAL])], NOTHING_SAID)
    assert twice == GoingBack(
        ReturnStep.NEW_IDS,
        "its queries have new ids, so that the Delta table file:/t takes the rows of batch 3 again",
    )
    assert decide(ReturnWay.RESUME, [Returning("q", 2, 5, SINKS[SinkMemory.REPEATS])], NOTHING_SAID).why == (
        "the kafka sink gets the rows of batches 3 to 5 again"
    )


def test_the_strictest_of_several_queries_counts() -> None:
    queries = [Returning(str(n), 2, 5, sink) for n, sink in enumerate(SINKS.values())]
    assert decide(ReturnWay.RESUME, queries, NOTHING_SAID).step is ReturnStep.REFUSE
    assert decide(ReturnWay.RESUME, queries[:2], NOTHING_SAID).step is ReturnStep.NEW_IDS
    assert decide(ReturnWay.RESUME, [], NOTHING_SAID).step is ReturnStep.SAME_IDS


@pytest.mark.parametrize(
    ("kind", "said", "memory"),
    [
        ("foreachBatch", SinkMemory.REPEATS, SinkMemory.REPEATS),
        ("foreachBatch", SinkMemory.REMEMBERS, SinkMemory.REMEMBERS),
        ("foreachBatch", None, SinkMemory.UNKNOWN),
        ("file", SinkMemory.REPEATS, SinkMemory.REMEMBERS),
        ("file", SinkMemory.TRANSACTIONAL, SinkMemory.REMEMBERS),
        ("delta", SinkMemory.REPEATS, SinkMemory.TRANSACTIONAL),
        ("kafka", SinkMemory.REMEMBERS, SinkMemory.REMEMBERS),
        ("kafka", None, SinkMemory.REPEATS),
    ],
)
def test_a_wrong_choice_is_contradicted_by_what_is_seen(
    kind: str, said: SinkMemory | None, memory: SinkMemory
) -> None:
    assert memory_of(NamedSink(kind), said) is memory


def test_a_log_that_was_not_rolled_back_is_not_believed_to_be() -> None:
    query = Returning("q", 2, 5, NamedSink("file", "file:/out"), logged=True, named=True)
    refused = decide(ReturnWay.RESUME, [query], ROLLED_BACK)
    assert (refused.step, "it was not rolled back" in refused.why) == (ReturnStep.REFUSE, True)
    elsewhere = replace(query, named=False)  # nothing says that the job goes on writing there
    assert decide(ReturnWay.RESUME, [elsewhere], ROLLED_BACK).step is ReturnStep.SAME_IDS
