"""What is known of sinks and batches when a job goes back: each thing that is forgotten would lose rows without a word.

The queries wrote batches up to 5 and the savepoint ends at batch 2, unless a test says otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from supervisor.checkpoint.handed import PlannedQuery
from supervisor.errors import AccessDenied, Unreachable
from supervisor.model.checkpoint_expectation import CheckpointExpectation, SeenQuery, place_of
from supervisor.model.going_back import (
    NOTHING_SAID,
    GoingBack,
    ReturnStep,
    ReturnWay,
    Said,
)
from supervisor.model.sinks import NamedSink, SeenSink, SinkMemory
from supervisor.operations import going_back
from supervisor.operations.going_back import (
    OtherJob,
    before_copy,
    before_fork,
    before_fresh_start,
    before_submission,
    before_undo,
    said_of,
)
from supervisor.operations.sink_grounds import Grounds, remembered_grounds
from supervisor.spec.job import JobSpec

HERE, ELSEWHERE = "s3a://bucket/ck", "s3a://bucket/other"
OUT, TABLE = NamedSink("file", "s3a://bucket/out"), NamedSink("delta", "s3a://bucket/table")
SPEC = JobSpec.model_validate({"name": "j", "application": "store:ab/app.py", "checkpoint": HERE})
SAVED = (SeenQuery("q", 2),)
REFUSE, NEW_IDS, SAME_IDS = ReturnStep.REFUSE, ReturnStep.NEW_IDS, ReturnStep.SAME_IDS


class KnownPlaces:
    """Has what lies at locations: queries of checkpoints, and the newest batch in the logs of sinks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.planned: dict[str, tuple[PlannedQuery, ...]] = {}
        self.logs: dict[str, int] = {}
        self.error: Exception | None = None
        monkeypatch.setattr(going_back, "planned_in", lambda place: self.planned.get(place, ()))
        monkeypatch.setattr(going_back, "newest_in_sink_log", lambda place: self.logs.get(place))

    def opened(self, location: str) -> Any:
        if self.error is not None:
            raise self.error
        return location


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> KnownPlaces:
    return KnownPlaces(monkeypatch)


def known(sink: NamedSink | None = OUT, batch: int = 5, query: str = "q") -> Grounds:
    sinks = (SeenSink(query, batch, sink),) if sink is not None else ()
    return Grounds(sinks, (SeenQuery(query, batch),), HERE)


def copied(
    places: KnownPlaces,
    grounds: Grounds | None,
    *,
    way: ReturnWay = ReturnWay.RESUME,
    source: str = HERE,
    saved: tuple[SeenQuery, ...] = SAVED,
    said: Said = NOTHING_SAID,
    spec: JobSpec | None = SPEC,
) -> ReturnStep:
    return before_copy(way, saved, grounds, source, spec, said, places.opened).step


def test_a_batch_that_is_planned_counts_though_it_was_not_seen_committed(places: KnownPlaces) -> None:
    """It may have been handed to the sink; what was seen counts as well, where the checkpoint says less."""
    places.planned[HERE] = (PlannedQuery("q", (), 2),)
    assert copied(places, known(batch=2)) is SAME_IDS
    places.planned[HERE] = (PlannedQuery("q", (), 3),)
    assert copied(places, known(batch=2)) is REFUSE
    places.planned[HERE] = (PlannedQuery("q", (), 2),)
    assert copied(places, known(batch=3)) is REFUSE
    places.planned[ELSEWHERE] = (PlannedQuery("q", (), 3),)
    assert copied(places, known(batch=2), source=ELSEWHERE) is REFUSE, "where the savepoint was made of"
    places.planned = {HERE: (PlannedQuery("q", (), 3),), ELSEWHERE: (PlannedQuery("q", (), 2),)}
    assert copied(places, known(batch=2), source=ELSEWHERE) is REFUSE, "where the job goes on since"


def test_what_nobody_can_read_or_knows_is_never_nothing(places: KnownPlaces) -> None:
    assert copied(places, known(batch=2)) is REFUSE, "the checkpoint that is left is gone"
    assert copied(places, None) is REFUSE, "nobody knows which job wrote"
    places.planned[HERE] = (PlannedQuery("q", (), 2),)
    assert copied(places, None) is REFUSE, "another may have gone on from there"
    places.error = AccessDenied("no")
    assert copied(places, known(batch=2)) is REFUSE
    places.error = Unreachable("no answer")
    with pytest.raises(Unreachable):
        copied(places, known(batch=2))


def test_the_job_of_which_a_fork_is_runs_on(places: KnownPlaces) -> None:
    places.planned[HERE] = (PlannedQuery("q", (), 2),)
    assert copied(places, known(batch=2), way=ReturnWay.FORK) is REFUSE


def test_a_sink_is_known_by_the_other_ids_of_a_query(places: KnownPlaces) -> None:
    """A copy with a new id wrote there; a query of which nothing was seen writes where others wrote."""
    places.planned[HERE] = (PlannedQuery("new", ("q",), 5),)
    assert copied(places, known(TABLE, query="new")) is NEW_IDS
    assert copied(places, known(OUT, query="new"), said=Said(SinkMemory.REPEATS)) is REFUSE
    places.planned[HERE] = (PlannedQuery("q", ("old",), 5),)
    assert copied(places, known(OUT, query="old"), said=Said(SinkMemory.REPEATS)) is REFUSE
    places.planned[HERE] = ()
    assert copied(places, known(OUT, query="x"), said=Said(SinkMemory.REPEATS)) is REFUSE


def test_nothing_is_asked_about_the_sinks_of_other_queries(places: KnownPlaces) -> None:
    """Its own sinks come before those of its other ids, and these before those of strangers."""
    kafka, saw = NamedSink("kafka"), (SeenQuery("q", 5),)
    for planned, other in (
        (PlannedQuery("new", ("q",), 5), "new"),
        (PlannedQuery("q", ("old",), 5), "old"),
    ):
        places.planned[HERE] = (planned,)
        sinks = (SeenSink("x", 5, OUT), SeenSink(other, 5, kafka))
        assert copied(places, Grounds(sinks, saw, HERE)) is SAME_IDS
    sinks = (SeenSink("old", 5, OUT), SeenSink("q", 5, kafka))
    assert copied(places, Grounds(sinks, saw, HERE)) is SAME_IDS


def test_each_sink_that_a_query_had_is_asked_about(places: KnownPlaces) -> None:
    """The last is where it writes now; to the others it may have planned one batch more than was seen."""
    places.planned[HERE] = (PlannedQuery("q", (), 2),)
    now = SeenSink("q", 2, NamedSink("kafka"))
    for seen, step in ((1, SAME_IDS), (2, REFUSE)):
        grounds = Grounds((SeenSink("q", seen, OUT), now), (SeenQuery("q", 2),), HERE)
        assert copied(places, grounds) is step


def test_each_query_is_asked_about(places: KnownPlaces) -> None:
    places.planned[HERE] = (PlannedQuery("q", (), 2), PlannedQuery("r", (), 3))
    grounds = Grounds(
        (SeenSink("q", 2, OUT), SeenSink("r", 2, OUT)), (SeenQuery("q", 2), SeenQuery("r", 2)), HERE
    )
    assert copied(places, grounds, saved=(*SAVED, SeenQuery("r", 2))) is REFUSE
    assert copied(places, grounds) is SAME_IDS


def test_the_log_of_a_file_sink_decides_where_it_can_be_read(places: KnownPlaces) -> None:
    places.planned[HERE] = (PlannedQuery("q", (), 2),)
    places.logs[OUT.where] = 3
    assert copied(places, known(batch=2)) is REFUSE, "it has a batch that nobody else knows"
    places.planned[HERE], places.logs[OUT.where] = (PlannedQuery("q", (), 5),), 2
    assert copied(places, known()) is SAME_IDS, "its owner has taken them out"
    local = NamedSink("file", "file:/out")
    places.logs[local.where] = 2
    assert copied(places, known(local)) is REFUSE, "a directory of this host may be another one there"
    places.logs[local.where] = 3
    places.planned[HERE] = (PlannedQuery("q", (), 2),)
    assert copied(places, known(local, batch=2)) is REFUSE, "what is in it is proved"
    places.logs[TABLE.where] = 5
    assert copied(places, known(TABLE, batch=2)) is NEW_IDS, "another sink has no such log"


def test_a_log_contradicts_who_says_that_it_was_rolled_back(places: KnownPlaces) -> None:
    places.planned[HERE] = (PlannedQuery("q", (), 5),)
    places.logs[OUT.where] = 5
    rolled_back = Said(rolled_back=True)
    assert copied(places, known(), said=rolled_back) is SAME_IDS, "no word of the spec names the place"
    names_it = SPEC.model_copy(update={"args": (OUT.where,)})
    assert copied(places, known(), said=rolled_back, spec=names_it) is REFUSE


TO_OUT = SPEC.model_copy(update={"args": ("--to", OUT.where)})
APART = SPEC.model_copy(update={"name": "f", "args": ("--to", "s3a://bucket/forked")})


def forked(
    places: KnownPlaces,
    own: Grounds | None,
    of: Grounds | None,
    *,
    spec: JobSpec = APART,
    of_spec: JobSpec = TO_OUT,
    said: Said = NOTHING_SAID,
    shared: bool = False,
) -> GoingBack:
    return before_fork(SAVED, own, of, HERE, spec, of_spec, said, places.opened, shared=shared)


def test_a_fork_that_shares_no_sink_finds_what_an_earlier_job_of_its_name_wrote(places: KnownPlaces) -> None:
    def after(own: Grounds | None) -> ReturnStep:
        return forked(places, own, known()).step

    assert after(None) is NEW_IDS
    assert after(known(batch=1)) is NEW_IDS
    assert after(known(batch=2)) is REFUSE, "one batch more may have been handed over than was seen"
    # whether the id is the same decides nothing here: a fork is a copy (``COPIES``)
    assert after(known(TABLE)) is NEW_IDS, "it knows the other queries"
    assert after(known(NamedSink("foreachBatch"))) is REFUSE
    assert after(Grounds(ran=False)) is NEW_IDS
    assert after(Grounds()) is REFUSE, "it ran, and nothing of it is remembered"
    assert forked(places, None, known(NamedSink("kafka")), shared=True).step is SAME_IDS
    assert forked(places, None, known(), shared=True).step is REFUSE


def test_a_fork_whose_spec_does_not_tell_its_sink_apart_is_one_with_a_shared_sink(
    places: KnownPlaces,
) -> None:
    """A changed argument is another output only if it was the name of the sink."""
    other_mode = TO_OUT.model_copy(update={"args": ("--to", OUT.where, "--mode", "b")})
    refused = forked(places, None, known(), spec=other_mode)
    assert refused.step is REFUSE and "--sink-rolled-back, if it does write elsewhere" in refused.remedy
    assert forked(places, None, known(), spec=other_mode, said=Said(rolled_back=True)).step is NEW_IDS
    assert forked(places, None, known(), of_spec=SPEC).step is REFUSE, "the code names the sink"
    for sink in (None, NamedSink("foreachBatch")):
        assert forked(places, None, known(sink)).step is REFUSE, "nobody can tell"
    assert forked(places, None, None).step is REFUSE
    assert forked(places, None, known(TABLE), spec=other_mode).step is NEW_IDS
    assert forked(places, None, known(NamedSink("kafka")), spec=other_mode).step is NEW_IDS
    by_job = tuple(SPEC.model_copy(update={"name": name, "args": ("/out/{job}",)}) for name in ("f", "j"))
    assert forked(places, None, known(None), spec=by_job[0], of_spec=by_job[1]).step is NEW_IDS
    assert forked(places, None, known(OUT), spec=by_job[0], of_spec=by_job[1]).step is REFUSE, "not its place"


def test_a_fork_finds_the_log_that_a_third_job_has_where_it_shall_write(places: KnownPlaces) -> None:
    places.logs["s3a://bucket/forked"] = 2
    assert forked(places, None, known()).step is NEW_IDS
    places.logs["s3a://bucket/forked"] = 3
    refused = forked(places, None, known())
    assert refused.step is REFUSE and "s3a://bucket/forked" in refused.why
    assert forked(places, None, known(), said=Said(rolled_back=True)).step is NEW_IDS
    places.error = AccessDenied("no")
    assert forked(places, None, known()).step is NEW_IDS, "which can't be seen from here"


def test_a_submission_with_a_savepoint_of_another_job_is_asked_what_its_own_name_wrote(
    places: KnownPlaces,
) -> None:
    def submitted(own: Grounds | None, of: Grounds, said: Said = NOTHING_SAID) -> ReturnStep:
        return before_submission(SAVED, own, of, HERE, SPEC, said, places.opened).step

    places.planned[HERE] = (PlannedQuery("q", (), 2),)
    nothing_after = known(batch=2)
    assert submitted(None, nothing_after) is SAME_IDS
    assert submitted(None, known()) is REFUSE
    assert submitted(known(batch=1, query="own"), nothing_after) is SAME_IDS
    assert submitted(known(batch=2, query="own"), nothing_after) is REFUSE
    assert submitted(known(batch=50, query="own"), nothing_after, Said(rolled_back=True)) is SAME_IDS
    assert submitted(known(TABLE, 50, "own"), nothing_after) is NEW_IDS, "it knows the other queries"
    assert submitted(known(None, query="own"), nothing_after) is REFUSE


def test_a_fresh_start_takes_what_lies_there(places: KnownPlaces) -> None:
    def fresh(grounds: Grounds) -> ReturnStep:
        return before_fresh_start(grounds, ELSEWHERE, SPEC, NOTHING_SAID, places.opened).step

    assert fresh(Grounds(ran=False)) is SAME_IDS
    assert fresh(Grounds(checkpoint=HERE)) is REFUSE, "it ran, and nothing of it is remembered"
    assert fresh(known()) is REFUSE, "from batch 0 on"
    assert fresh(known(TABLE)) is SAME_IDS, "a new query"
    assert fresh(known(None)) is REFUSE, "its sink was never seen"
    places.planned[ELSEWHERE] = (PlannedQuery("q", (), 5),)
    assert fresh(known()) is SAME_IDS
    places.planned[ELSEWHERE] = (PlannedQuery("q", (), 4),)
    assert fresh(known()) is REFUSE
    places.logs[TABLE.where] = 2  # a directory that a file sink once had
    assert fresh(known(TABLE)) is REFUSE, "the same query at an older batch"
    places.planned[ELSEWHERE] = (PlannedQuery("x", (), 4),)
    assert fresh(known()) is REFUSE
    places.planned[ELSEWHERE] = (PlannedQuery("q", (), 4), PlannedQuery("x", (), 9))
    assert fresh(known()) is REFUSE, "another query there is farther, this one is not"
    places.planned[ELSEWHERE], places.logs[OUT.where] = (PlannedQuery("q", (), 5),), 6
    assert fresh(known()) is REFUSE, "the log of the sink has one more"
    del places.logs[OUT.where]
    two = Grounds((SeenSink("q", 4, OUT),), (SeenQuery("q", 4), SeenQuery("r", 5)), HERE)
    places.planned[ELSEWHERE] = (PlannedQuery("q", (), 4), PlannedQuery("r", (), 4))
    assert fresh(two) is REFUSE, "a second query, of which no sink was seen"


def test_a_job_that_runs_on_asks_what_the_other_wrote_to_its_sink(places: KnownPlaces) -> None:
    def undone(others: Grounds, own: Grounds | None = None, others_spec: JobSpec = TO_OUT) -> ReturnStep:
        mine = own if own is not None else known(batch=2)
        return before_undo(mine, OtherJob(others, others_spec), TO_OUT, NOTHING_SAID, places.opened).step

    def other(sink: NamedSink | None, batch: int, query: str = "q") -> Grounds:
        sinks = (SeenSink(query, batch, sink),) if sink is not None else ()
        return Grounds(sinks, (SeenQuery(query, batch),), ELSEWHERE)

    places.planned[HERE] = (PlannedQuery("q", (), 2),)
    assert undone(other(OUT, 1)) is SAME_IDS
    assert undone(other(OUT, 2)) is REFUSE, "one batch more may have been handed over than was seen"
    assert undone(other(NamedSink("file", "s3a://bucket/apart"), 5)) is SAME_IDS, "a sink that it has alone"
    assert undone(other(OUT, 5), others_spec=APART) is REFUSE, "the very sink, whatever the specs say"
    assert undone(other(NamedSink("foreachBatch"), 5)) is REFUSE
    assert undone(other(NamedSink("foreachBatch"), 5), others_spec=APART) is SAME_IDS
    other_mode = TO_OUT.model_copy(update={"args": (*TO_OUT.args, "--mode", "b")})
    assert undone(other(NamedSink("foreachBatch"), 5), others_spec=other_mode) is REFUSE
    function = known(NamedSink("foreachBatch"), 2)
    assert undone(other(NamedSink("foreachBatch"), 5), function, APART) is REFUSE, "nobody can tell"
    assert undone(other(None, 5)) is REFUSE, "it was never seen to write"
    assert undone(Grounds(checkpoint=ELSEWHERE)) is REFUSE, "nothing of it is remembered"
    assert undone(Grounds(checkpoint=ELSEWHERE, ran=False)) is SAME_IDS
    assert undone(other(OUT, 5), Grounds(checkpoint=HERE, ran=False)) is REFUSE
    assert undone(other(TABLE, 5), known(TABLE, batch=2)) is REFUSE
    assert undone(other(TABLE, 5, "new"), known(TABLE, batch=2)) is SAME_IDS, "with a new id"
    never_seen = before_undo(
        known(batch=2), OtherJob(other(None, 5), None), TO_OUT, NOTHING_SAID, places.opened
    )
    assert "which was not seen yet" in never_seen.why
    places.logs[OUT.where] = 3
    assert undone(other(OUT, 1)) is REFUSE, "the log of the sink has one more"
    del places.logs[OUT.where]
    places.planned[HERE] = (PlannedQuery("q", (), 2), PlannedQuery("x", (), 9))
    assert undone(other(OUT, 2)) is REFUSE, "another query here is farther, this one is not"
    places.planned[HERE] = (PlannedQuery("q", (), 2),)
    places.planned[ELSEWHERE] = (PlannedQuery("q", (), 2),)
    assert undone(other(OUT, 2)) is SAME_IDS, "what is planned there says that it was not handed over"
    places.planned[ELSEWHERE] = (PlannedQuery("q", (), 3),)
    assert undone(other(OUT, 1)) is REFUSE


def test_what_the_lease_and_what_the_ownership_remember_is_known() -> None:
    def remembers(query: str, batch: int) -> CheckpointExpectation:
        pair = f"{query} {batch}"
        return CheckpointExpectation(
            place=place_of(HERE), queries=(pair,), sinks=(f"{pair} {OUT.kind} {OUT.where}",)
        )

    for newest, older in ((remembers("q", 5), None), (None, remembers("q", 5))):
        assert remembered_grounds(HERE, newest, older) == known()
    both = remembered_grounds(HERE, remembers("q", 5), remembers("q", 4))
    assert both == known(), "the lease is newer: the shim began with what the ownership has"


def test_a_ninth_query_may_be_forgotten_with_its_sink(places: KnownPlaces) -> None:
    kafka = tuple(SeenSink(f"q{n}", 5, NamedSink("kafka")) for n in range(8))
    queries = tuple(SeenQuery(each.query, 5) for each in kafka)
    for kept, step in ((8, REFUSE), (7, SAME_IDS)):
        grounds = Grounds(kafka[:kept], queries[:kept], HERE)
        assert before_fresh_start(grounds, ELSEWHERE, SPEC, NOTHING_SAID, places.opened).step is step
        assert undone(places, known(OUT), grounds) is step
    places.planned[HERE] = (PlannedQuery("ninth", (), 5),)
    grounds = Grounds(kafka, queries, HERE)
    assert copied(places, grounds, saved=(SeenQuery("ninth", 2),)) is REFUSE, "no sink of another query's"


def test_a_copy_is_asked_about_what_another_wrote_in_the_place_of_the_job(places: KnownPlaces) -> None:
    """After a promotion, or its undoing, the sink is farther than the job itself has come."""
    places.planned[HERE] = (PlannedQuery("q", (), 2),)

    def step(other: OtherJob | None) -> ReturnStep:
        grounds, way = known(batch=2), ReturnWay.RESUME
        return before_copy(way, SAVED, grounds, HERE, SPEC, NOTHING_SAID, places.opened, other).step

    wrote = Grounds((SeenSink("n", 9, OUT),), (SeenQuery("n", 9),), ELSEWHERE)
    assert (step(None), step(OtherJob(wrote, SPEC))) == (SAME_IDS, REFUSE)
    apart = replace(wrote, sinks=(SeenSink("n", 9, NamedSink("file", "s3a://bucket/apart")),))
    assert step(OtherJob(apart, SPEC)) is SAME_IDS
    assert step(OtherJob(Grounds(), None)) is REFUSE, "nothing of it is remembered"


def test_a_job_without_a_checkpoint_never_goes_back(places: KnownPlaces) -> None:
    assert before_fresh_start(Grounds(), None, SPEC, NOTHING_SAID, places.opened).step is SAME_IDS


def test_nothing_is_remembered_of_a_sink_whose_owner_is_asked(places: KnownPlaces) -> None:
    grounds = Grounds(checkpoint=HERE)
    asked = before_fresh_start(grounds, HERE, SPEC, NOTHING_SAID, places.opened)
    assert asked.step is REFUSE and "savepoints.sink" in asked.remedy
    assert "does a sink of which nothing is remembered skip" in asked.why and "from batch 0 on" in asked.why
    for said in (Said(SinkMemory.REPEATS), Said(SinkMemory.TRANSACTIONAL), Said(rolled_back=True)):
        assert before_fresh_start(grounds, HERE, SPEC, said, places.opened).step is SAME_IDS


def test_what_is_said_at_the_command_comes_before_what_the_spec_says() -> None:
    spec = SPEC.model_copy(update={"savepoints": SPEC.savepoints.model_copy(update={"sink": "remembers"})})
    assert spec.savepoints.memory is SinkMemory.REMEMBERS
    assert said_of(spec, NOTHING_SAID) == Said(SinkMemory.REMEMBERS)
    assert said_of(spec, Said(SinkMemory.REPEATS, True)) == Said(SinkMemory.REPEATS, True)
    assert said_of(None, NOTHING_SAID) == NOTHING_SAID


def undone(places: KnownPlaces, own: Grounds, others: Grounds) -> ReturnStep:
    places.planned[HERE] = (PlannedQuery("q", (), 5),)
    return before_undo(own, OtherJob(others, SPEC), SPEC, NOTHING_SAID, places.opened).step


def test_an_undo_asks_where_nobody_remembers_the_sinks_of_the_old_job(places: KnownPlaces) -> None:
    """The version before remembered none: then the two jobs are told apart by their specs alone."""
    new = Grounds((SeenSink("n", 9, OUT),), (SeenQuery("n", 9),), ELSEWHERE)
    assert undone(places, Grounds((), (SeenQuery("q", 5),), HERE), new) is REFUSE


@pytest.mark.parametrize("where", ["s3a://bucket/out/", "s3://bucket/out", "s3a://bucket//out"])
def test_one_sink_may_be_spelled_in_two_ways(places: KnownPlaces, where: str) -> None:
    new = Grounds((SeenSink("n", 9, NamedSink("file", where)),), (SeenQuery("n", 9),), ELSEWHERE)
    assert undone(places, known(OUT, 5), new) is REFUSE


def test_a_query_that_was_never_seen_to_write_is_asked_about_beside_one_that_was(places: KnownPlaces) -> None:
    seen_one = (SeenSink("n", 9, NamedSink("console")),)
    new = Grounds(seen_one, (SeenQuery("n", 9), SeenQuery("o", 9)), ELSEWHERE)
    assert undone(places, known(OUT, 5), new) is REFUSE
