"""Going back to an older checkpoint: for each way the command that would lose rows is refused, and the others say what comes
twice. ``clicks`` has committed batch 12 and planned batch 13, and has a savepoint after batch 12."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from supervisor.checkpoint.layout import parse_lineage, parse_metadata
from supervisor.model.checkpoint_expectation import (
    CheckpointExpectation,
    forgotten,
    place_of,
    queries_of,
    sinks_of,
    to_be_expected,
)
from supervisor.model.records import Cause, OwnState
from tests.unit.checkpoint.golden import unpack
from tests.unit.cli.conftest import Ran, Terminal

FILE, DELTA, KAFKA, FUNCTION = "file s3a://b/out", "delta s3a://b/t", "kafka", "foreachBatch"
REFUSED, ASKED, SAME, NEW = "would skip: the rows", "Only its owner knows", "same id", "new id"


@dataclass
class World:
    terminal: Terminal
    checkpoint: Path
    query: str

    def wrote_to(self, *sinks: str, name: str = "clicks", batch: int = 12) -> None:
        """As if its attempt had been seen to write there, and had stopped."""
        known = CheckpointExpectation(
            place=place_of(str(self.checkpoint)),
            queries=(f"{self.query} {batch}",),
            sinks=tuple(f"{self.query} {batch} {sink}" for sink in sinks),
        )
        self.terminal.bench.set_own(name, OwnState.EXITED, cause=Cause.STOPPED, remembered=known)

    def copy(self) -> Path:
        return Path(self.terminal.bench.ref("clicks").record.terms.checkpoint or "")

    def outcome(self, ran: Ran, copy: Path | None = None) -> str:
        """What became of the way back: why it was refused, or which ids the copy has."""
        if ran.code != 0:
            assert ran.code == 4, ran.err
            return next(word for word in (REFUSED, ASKED) if word in ran.err)
        data = ((copy or self.copy()) / "metadata").read_bytes()
        if parse_metadata(data) == self.query:
            return SAME
        assert parse_lineage(data) == (self.query,)
        return NEW


@pytest.fixture
def world(terminal: Terminal, tmp_path: Path) -> World:
    checkpoint = unpack("hdfs-v1", tmp_path)
    text = f"checkpoint: {checkpoint}\nargs: ['{{checkpoint}}', 's3a://b/out']"
    assert terminal.run("submit", terminal.spec("clicks", text)).code == 0
    assert terminal.run("savepoint", "create", "clicks", "one").code == 0
    assert terminal.run("suspend", "clicks").code == 0
    found = World(terminal, checkpoint, parse_metadata((checkpoint / "metadata").read_bytes()))
    found.wrote_to()
    return found


SAID_AND_SEEN = pytest.mark.parametrize(
    ("sinks", "said", "outcome"),
    [
        ([FILE], [], REFUSED),
        ([FILE], ["--sink", "repeats"], REFUSED),  # what is seen contradicts it
        ([FILE], ["--sink-rolled-back"], SAME),
        ([DELTA], [], NEW),
        ([DELTA], ["--sink", "repeats"], NEW),
        ([DELTA], ["--sink-rolled-back"], NEW),  # RESTORE of a table keeps which batches it has seen
        ([DELTA], ["--sink", "remembers"], REFUSED),
        ([KAFKA], [], SAME),
        ([KAFKA], ["--sink", "remembers"], REFUSED),
        ([FUNCTION], [], ASKED),
        ([FUNCTION], ["--sink", "repeats"], SAME),
        ([FUNCTION], ["--sink", "transactional"], NEW),
        ([FUNCTION], ["--sink", "remembers"], REFUSED),
        ([FUNCTION], ["--sink-rolled-back"], NEW),
        ([], [], ASKED),
        ([], ["--sink", "transactional"], NEW),
        ([FILE, KAFKA], [], REFUSED),  # it wrote there before
        ([DELTA, KAFKA], [], NEW),
    ],
)


@SAID_AND_SEEN
def test_resume_from_a_savepoint(world: World, sinks: list[str], said: list[str], outcome: str) -> None:
    world.wrote_to(*sinks)
    ran = world.terminal.run("resume", "clicks", "--from-savepoint", "one", *said)
    assert world.outcome(ran) == outcome
    if outcome in (REFUSED, ASKED):
        assert "batch 13" in ran.err and world.copy() == world.checkpoint
        assert not list(world.checkpoint.parent.glob("*.from-*")), "and nothing was copied"
    elif outcome == NEW:
        assert "takes the rows of batch 13 again" in ran.err


def test_the_next_start_expects_the_new_id_and_knows_the_sink(world: World) -> None:
    world.wrote_to(DELTA)
    assert world.terminal.run("resume", "clicks", "--from-savepoint", "one").code == 0
    now = parse_metadata((world.copy() / "metadata").read_bytes())
    own = world.terminal.bench.own("clicks").remembered
    assert queries_of(to_be_expected(str(world.copy()), "", None, own)) == ((now, 12),)
    assert [each.sink.kind for each in sinks_of(None, own)] == ["delta"]
    shown = world.terminal.run("checkpoint", "verify", "clicks")
    assert shown.code == 0, shown.err
    assert world.terminal.run("suspend", "clicks").code == 0
    world.terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
    again = world.terminal.run("resume", "clicks", "--from-savepoint", "one")
    assert again.code == 0 and parse_metadata((world.copy() / "metadata").read_bytes()) not in (
        now,
        world.query,
    )


def test_where_nothing_came_after_the_savepoint_nothing_is_asked(world: World) -> None:
    (world.checkpoint / "offsets/13").unlink()
    world.wrote_to(FILE)
    assert world.outcome(world.terminal.run("resume", "clicks", "--from-savepoint", "one")) == SAME


def test_a_copy_that_nothing_came_after_has_ids_of_its_own_all_the_same(world: World) -> None:
    """Whoever goes on with the old checkpoint, some day, must not meet the batches of the copy."""
    (world.checkpoint / "offsets/13").unlink()
    world.wrote_to(DELTA)
    assert world.outcome(world.terminal.run("resume", "clicks", "--from-savepoint", "one")) == NEW


def test_a_lost_checkpoint_counts_as_ahead(world: World) -> None:
    world.wrote_to(FILE)
    shutil.rmtree(world.checkpoint)
    ran = world.terminal.run("resume", "clicks", "--from-savepoint", "one")
    assert (world.outcome(ran), "the rows from batch 13 on" in ran.err) == (REFUSED, True)
    world.wrote_to(DELTA)
    assert world.outcome(world.terminal.run("resume", "clicks", "--from-savepoint", "one")) == NEW


def test_a_copy_that_is_there_already_keeps_its_new_id(world: World, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    restore = ("savepoint", "restore", "clicks", "one", "--to", str(to))
    world.wrote_to(DELTA)
    assert world.outcome(world.terminal.run(*restore), to) == NEW
    before = (to / "metadata").read_bytes()
    ran = world.terminal.run(*restore)
    assert (ran.code, "was there already" in ran.out, (to / "metadata").read_bytes()) == (0, True, before)
    ran = world.terminal.run(*restore, "--sink", "remembers", "--sink-rolled-back")
    assert (ran.code, "not empty" in ran.err) == (4, True), "which has another id than is asked for now"


@pytest.mark.parametrize(
    ("sinks", "outcome"), [([FILE], REFUSED), ([DELTA], NEW), ([KAFKA], SAME), ([], ASKED)]
)
def test_the_other_ways_that_copy(world: World, sinks: list[str], outcome: str, tmp_path: Path) -> None:
    world.wrote_to(*sinks)
    to = tmp_path / "copy"
    ran = world.terminal.run("savepoint", "restore", "clicks", "one", "--to", str(to))
    assert world.outcome(ran, to) == outcome
    assert world.terminal.run("cancel", "clicks").code == 0
    spec = world.terminal.spec("clicks", f"checkpoint: {tmp_path}/new\nargs: ['{{checkpoint}}']")
    assert (
        world.outcome(world.terminal.run("submit", spec, "--from-savepoint", "one"), tmp_path / "new")
        == outcome
    )


def test_a_dry_run_is_refused_where_the_submit_is(world: World, tmp_path: Path) -> None:
    world.wrote_to(FILE)
    assert world.terminal.run("cancel", "clicks").code == 0
    spec = world.terminal.spec("clicks", f"checkpoint: {tmp_path}/new\nargs: ['{{checkpoint}}']")
    for options in (["--dry-run"], []):
        ran = world.terminal.run("submit", spec, "--from-savepoint", "one", *options)
        assert (world.outcome(ran), (tmp_path / "new").exists()) == (REFUSED, False)


def test_the_spec_says_what_the_sink_remembers(world: World) -> None:
    world.wrote_to(FUNCTION)
    assert world.terminal.run("cancel", "clicks").code == 0
    text = f"checkpoint: {world.checkpoint}\nsavepoints: {{sink: transactional}}"
    assert world.terminal.run("submit", world.terminal.spec("clicks", text), "--suspended").code == 0
    world.wrote_to(FUNCTION)
    assert world.outcome(world.terminal.run("resume", "clicks", "--from-savepoint", "one")) == NEW


@pytest.mark.parametrize(
    ("sinks", "outcome"), [([FILE], REFUSED), ([DELTA], ""), ([KAFKA], ""), ([FUNCTION], ASKED)]
)
def test_a_fresh_start_has_new_ids_and_old_batch_numbers(
    world: World, sinks: list[str], outcome: str
) -> None:
    world.wrote_to(*sinks)
    assert world.terminal.run("resume", "clicks", "--accept-fresh-start").code == 0, (
        "all of it is there: nothing is lost"
    )
    assert world.terminal.run("suspend", "clicks").code == 0
    world.wrote_to(*sinks)
    shutil.rmtree(world.checkpoint)
    ran = world.terminal.run("resume", "clicks", "--accept-fresh-start")
    assert (ran.code, outcome in ran.err) == (4 if outcome else 0, True)
    if outcome:
        assert "batches 0 to 12" in ran.err
        assert world.terminal.run("resume", "clicks", "--accept-fresh-start", "--sink-rolled-back").code == 0


def test_an_older_copy_at_its_place_has_the_very_id_that_the_table_remembers(world: World) -> None:
    world.wrote_to(DELTA)
    for name in ("offsets/12", "commits/12", "offsets/13"):
        (world.checkpoint / name).unlink()
    ran = world.terminal.run("resume", "clicks", "--accept-fresh-start")
    assert (world.outcome(ran), "make a savepoint of what lies there" in ran.err) == (REFUSED, True)


def test_a_new_submission_that_accepts_a_fresh_start_is_asked_too(world: World, tmp_path: Path) -> None:
    world.wrote_to(FILE)
    assert world.terminal.run("cancel", "clicks").code == 0
    spec = world.terminal.spec("clicks", f"checkpoint: {tmp_path}/other")
    ran = world.terminal.run("submit", spec, "--accept-fresh-start")
    assert world.outcome(ran) == REFUSED
    assert world.terminal.run("submit", spec, "--accept-fresh-start", "--sink-rolled-back").code == 0


def test_what_is_said_of_the_sink_needs_a_way_back(world: World) -> None:
    for given in (("rollback", "clicks"), ("promote", "clicks", "--over", "x")):
        ran = world.terminal.run(*given, "--sink-rolled-back")
        assert (ran.code, "--sink-rolled-back" in ran.err) == (2, True), given
    document = world.terminal.run(
        "resume", "clicks", "--from-savepoint", "one", "--sink", "repeats", "-o", "json"
    )
    assert json.loads(document.out)["did"] == "resumed"


def promoted_over(world: World, sink: str) -> None:
    """``clicks`` runs again, ``clicks-2`` takes its place, and comes to batch 30 in ``sink``."""
    terminal = world.terminal
    assert terminal.run("resume", "clicks").code == 0
    terminal.bench.run("clicks")
    new = terminal.spec("clicks-2", f"checkpoint: {world.checkpoint.parent}/two\nargs: ['{{checkpoint}}']")
    assert terminal.run("submit", new).code == 0
    terminal.bench.run("clicks-2")
    assert terminal.run("promote", "clicks-2", "--over", "clicks", "--when", "now").code == 0
    known = CheckpointExpectation(place="two", queries=("other 30",), sinks=(f"other 30 {sink}",))
    terminal.bench.set_own("clicks-2", OwnState.CLAIMED, remembered=known)


@pytest.mark.parametrize(
    ("sink", "outcome"), [(FILE, REFUSED), (DELTA, ""), (KAFKA, ""), ("file s3a://b/elsewhere", "")]
)
def test_an_undo_is_refused_where_both_write_to_one_file_sink(world: World, sink: str, outcome: str) -> None:
    """The fork has come to batch 30 there, and the job stands at 13."""
    terminal = world.terminal
    world.wrote_to(FILE if sink != DELTA else DELTA)
    promoted_over(world, sink)
    ran = terminal.run("promote", "--undo", "clicks", "clicks-2")
    assert (ran.code, outcome in ran.err) == (4 if outcome else 0, True), ran.err
    if outcome:
        assert "batches 14 to 31" in ran.err, "it may have planned one more"
        assert terminal.run("promote", "--undo", "clicks", "clicks-2", "--sink-rolled-back").code == 0


def test_a_new_submission_at_an_older_place_is_refused_where_it_is_known_to_lose_rows(world: World) -> None:
    world.wrote_to(DELTA)
    assert world.terminal.run("cancel", "clicks").code == 0
    for name in ("offsets/12", "commits/12", "offsets/13"):
        (world.checkpoint / name).unlink()
    spec = world.terminal.spec("clicks", f"checkpoint: {world.checkpoint}")
    assert world.outcome(world.terminal.run("submit", spec)) == REFUSED
    world.wrote_to(FUNCTION)
    assert world.terminal.run("submit", spec).code == 0, "which the start itself refuses, if it is too old"


@pytest.mark.parametrize(
    ("sinks", "outcome"), [([FILE], REFUSED), ([DELTA], ""), ([KAFKA], ""), ([FUNCTION], ASKED), ([], ASKED)]
)
@pytest.mark.parametrize("command", ["submit", "apply"])
def test_a_new_submission_at_an_empty_place_begins_at_batch_0_again(
    world: World, sinks: list[str], outcome: str, command: str, tmp_path: Path
) -> None:
    """A local directory may be there on the job's host; nobody has said so."""
    world.wrote_to(*sinks)
    assert world.terminal.run("cancel", "clicks").code == 0
    spec = world.terminal.spec("clicks", f"checkpoint: {tmp_path}/empty")
    ran = world.terminal.run(command, spec)
    assert (ran.code, outcome in ran.err + ran.out) == (4 if outcome else 0, True), ran.err
    if outcome:
        assert world.terminal.run("submit", spec, "--sink-rolled-back").code == 0


def test_a_new_submission_where_the_job_was_goes_on_there(world: World) -> None:
    world.wrote_to(FUNCTION)
    assert world.terminal.run("cancel", "clicks").code == 0
    spec = world.terminal.spec("clicks", f"checkpoint: {world.checkpoint}")
    shutil.rmtree(world.checkpoint)  # as seen from a host that does not have it; the start looks itself
    assert world.terminal.run("submit", spec).code == 0


def test_a_new_submission_where_the_checkpoint_was_deleted_begins_at_batch_0_again(world: World) -> None:
    """``checkpoint_on_cancel: delete`` removes the checkpoint, and what is known of it, from under the sink."""
    world.wrote_to(FILE)
    assert world.terminal.run("cancel", "clicks").code == 0
    shutil.rmtree(world.checkpoint)
    own = world.terminal.bench.own("clicks")
    world.terminal.bench.set_own(
        "clicks", own.state, cause=Cause.STOPPED, remembered=forgotten(own.remembered, str(world.checkpoint))
    )
    ran = world.terminal.run("submit", world.terminal.spec("clicks", f"checkpoint: {world.checkpoint}"))
    assert world.outcome(ran) == REFUSED


def test_of_a_job_that_never_ran_nothing_is_asked(terminal: Terminal, tmp_path: Path) -> None:
    assert (
        terminal.run("submit", terminal.spec("clicks", f"checkpoint: {tmp_path}/ck"), "--suspended").code == 0
    )
    assert terminal.run("resume", "clicks", "--accept-fresh-start").code == 0
    assert terminal.run("suspend", "clicks").code == 0
    terminal.bench.run("clicks")
    terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.BAD_CHECKPOINT)
    assert terminal.run("resume", "clicks", "--accept-fresh-start").code == 0, "its host refused it"


def test_a_job_that_ran_and_of_which_nothing_is_remembered_is_asked_about(
    terminal: Terminal, tmp_path: Path
) -> None:
    """Its record is lost, or an older version wrote it, or its application names no sink."""
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {tmp_path}/ck")).code == 0
    terminal.bench.run("clicks")
    assert terminal.run("suspend", "clicks").code == 0
    terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
    ran = terminal.run("resume", "clicks", "--accept-fresh-start")
    assert (ran.code, "a sink of which nothing is remembered" in ran.err, "batch 0" in ran.err) == (
        4,
        True,
        True,
    )
    assert terminal.run("resume", "clicks", "--accept-fresh-start", "--sink", "repeats").code == 0


def test_a_savepoint_of_another_job_is_no_way_past_what_the_name_wrote_itself(
    world: World, tmp_path: Path
) -> None:
    """``clicks`` got no batch after the savepoint; ``own`` has written 50 to its own file sink."""
    terminal = world.terminal
    for name in ("offsets/13",):
        (world.checkpoint / name).unlink()
    assert terminal.run("submit", terminal.spec("own", f"checkpoint: {tmp_path}/own")).code == 0
    known = CheckpointExpectation(place="x", queries=("o 50",), sinks=("o 50 file s3a://b/own",))
    terminal.bench.set_own("own", OwnState.EXITED, cause=Cause.STOPPED, remembered=known)
    assert terminal.run("cancel", "own").code == 0
    spec = terminal.spec("own", f"checkpoint: {tmp_path}/new")
    shelf = next((terminal.home / "store/savepoints/clicks").iterdir())
    ran = terminal.run("submit", spec, "--from-savepoint", str(shelf))
    assert (world.outcome(ran), "s3a://b/own" in ran.err) == (REFUSED, True)
    assert terminal.run("submit", spec, "--from-savepoint", str(shelf), "--sink-rolled-back").code == 0


def test_a_restore_for_a_job_asks_about_its_sink_whosever_savepoint_it_is(
    world: World, tmp_path: Path
) -> None:
    """``clicks`` got no batch after the savepoint; ``own``, for which it is copied, has written 50 to its file sink."""
    terminal = world.terminal
    (world.checkpoint / "offsets/13").unlink()
    world.wrote_to(FILE)
    assert terminal.run("submit", terminal.spec("own", f"checkpoint: {tmp_path}/own")).code == 0
    known = CheckpointExpectation(place="x", queries=("o 50",), sinks=("o 50 file s3a://b/own",))
    terminal.bench.set_own("own", OwnState.EXITED, cause=Cause.STOPPED, remembered=known)
    saved, to = str(next((terminal.home / "store/savepoints/clicks").iterdir())), tmp_path / "copy"
    ran = terminal.run("savepoint", "restore", "own", saved, "--to", str(to))
    assert (world.outcome(ran, to), "s3a://b/own" in ran.err, to.exists()) == (REFUSED, True, False)
    assert world.outcome(terminal.run("savepoint", "restore", saved, "--to", str(to)), to) == SAME


def test_what_was_planned_where_the_savepoint_was_made_counts_after_the_job_has_moved(world: World) -> None:
    """The copy has the same ids, and has planned nothing yet: the sink got batch 13 from the checkpoint before."""
    world.wrote_to(KAFKA)
    resume = ("resume", "clicks", "--from-savepoint", "one")
    assert world.outcome(world.terminal.run(*resume)) == SAME
    assert world.terminal.run("suspend", "clicks").code == 0
    known = CheckpointExpectation(
        place=place_of(str(world.copy())), queries=(f"{world.query} 12",), sinks=(f"{world.query} 12 {FILE}",)
    )
    world.terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED, remembered=known)
    ran = world.terminal.run(*resume)
    assert (world.outcome(ran), "batch 13" in ran.err) == (REFUSED, True)


@pytest.mark.parametrize(
    ("sink", "outcome"), [(FILE, REFUSED), (FUNCTION, ASKED), (KAFKA, ""), ("file s3a://b/f", "")]
)
def test_a_resume_is_refused_where_another_has_run_in_its_place(
    world: World, sink: str, outcome: str, tmp_path: Path
) -> None:
    """Of a promotion and of its undoing: what stands still may find its batches taken."""
    terminal = world.terminal
    world.wrote_to(FILE if sink != FUNCTION else FUNCTION)
    assert terminal.run("resume", "clicks").code == 0
    terminal.bench.run("clicks")
    new = terminal.spec("clicks-2", f"checkpoint: {tmp_path}/two\nargs: ['{{checkpoint}}']")
    assert terminal.run("submit", new).code == 0
    terminal.bench.run("clicks-2")
    assert terminal.run("promote", "clicks-2", "--over", "clicks", "--when", "now").code == 0
    known = CheckpointExpectation(place="two", queries=("other 30",), sinks=(f"other 30 {sink}",))
    terminal.bench.set_own("clicks-2", OwnState.CLAIMED, remembered=known)
    ran = terminal.run("resume", "clicks")
    assert (ran.code, outcome in ran.err) == (4 if outcome else 0, True), ran.err
    if not outcome:
        return
    assert terminal.run("promote", "--undo", "clicks", "clicks-2", "--sink-rolled-back").code == 0
    world.wrote_to(FILE if sink != FUNCTION else FUNCTION, batch=40)
    ran = terminal.run("resume", "clicks-2")
    assert (ran.code, outcome in ran.err) == (4, True), ran.err
    assert terminal.run("resume", "clicks-2", "--sink-rolled-back").code == 0
    assert terminal.run("suspend", "clicks-2").code == 0
    assert terminal.run("resume", "clicks-2").code == 0, "nobody has run in its place since"


def test_an_update_meanwhile_does_not_hide_who_has_run_in_its_place(world: World) -> None:
    """The newest change of the job is that update, and no more the promotion that suspended it."""
    terminal = world.terminal
    world.wrote_to(FILE)
    promoted_over(world, FILE)
    place = terminal.bench.ref("clicks").record.terms.checkpoint
    changed = terminal.spec("clicks", f"checkpoint: {place}\nlease: 25s")
    assert terminal.run("apply", changed).code == 0
    assert terminal.bench.ref("clicks").record.changed.event == "updated"
    ran = terminal.run("resume", "clicks")
    assert (ran.code, REFUSED in ran.err) == (4, True), ran.err
    assert terminal.run("resume", "clicks", "--sink-rolled-back").code == 0
