"""What is said of sinks beforehand is what is decided when a job goes back."""

from __future__ import annotations

from itertools import product

import pytest

from supervisor.model.going_back import Returning, ReturnStep, ReturnWay, Said, decide
from supervisor.model.reported_sinks import KNOWS_BY, why_no_way_back
from supervisor.model.sinks import NamedSink, SinkMemory

FILE, DELTA = NamedSink("file", "file:/out"), NamedSink("delta", "file:/t")
KAFKA, FUNCTION = NamedSink("kafka"), NamedSink("foreachBatch")
SAID = (None, SinkMemory.REPEATS, SinkMemory.TRANSACTIONAL, SinkMemory.REMEMBERS)


@pytest.mark.parametrize("sink", [FILE, DELTA, KAFKA, FUNCTION, None])
def test_it_warns_of_what_would_be_refused_and_of_nothing_else(sink: NamedSink | None) -> None:
    for said, other in product(SAID, (KAFKA, FILE)):
        queries = [Returning("q", 2, 5, each) for each in (sink, other)]
        decided = decide(ReturnWay.UPDATE, queries, Said(said))
        why = why_no_way_back((sink, other), said)
        assert bool(why) == (decided.step is ReturnStep.REFUSE), (sink, said, other)
        assert bool(why.remedy) == bool(why)


def test_the_question_comes_before_what_no_word_can_change() -> None:
    why = why_no_way_back((FILE, FUNCTION), None)
    assert "nobody says whether its foreachBatch sink skips" in why.what
    assert why.remedy == "say savepoints.sink in the spec"
    assert "its file sink file:/out has a batch" in why_no_way_back((FILE, FUNCTION), SinkMemory.REPEATS).what
    assert "its sink, which no driver names," in why_no_way_back([None], None).what
    assert why_no_way_back([], None) == ("", "")


def test_each_memory_has_its_words() -> None:
    assert KNOWS_BY.keys() == set(SinkMemory)
    assert "savepoints.sink" in KNOWS_BY[SinkMemory.UNKNOWN]
