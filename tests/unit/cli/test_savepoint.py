"""``savepoint …`` and ``submit --from-savepoint`` on a file store: what they print, do and exit with."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.model.checkpoint_expectation import SeenQuery, queries_of, to_be_expected
from supervisor.model.records import OwnState
from supervisor.savepoints import create, deep_verify
from supervisor.savepoints.create import Creation
from supervisor.savepoints.schedule import id_of, slot_of
from supervisor.spark.state_reading import OpenedStore, StateOf
from tests.unit.checkpoint.golden import inspected, only, unpack, without
from tests.unit.checkpoint.savepoints import AT, area, begun, contents, files
from tests.unit.checkpoint.savepoints import shelf as shelves
from tests.unit.cli.conftest import REPEATS, Terminal


@pytest.fixture
def checkpoint(terminal: Terminal, tmp_path: Path) -> Path:
    """Of the job ``clicks``, which is registered."""
    found = unpack("hdfs-v1", tmp_path)
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {found}\n{REPEATS}")).code == 0
    return found


def test_create_list_show_verify_delete(terminal: Terminal, checkpoint: Path) -> None:
    before = contents(checkpoint)
    ran = terminal.run("savepoint", "create", "clicks", "one")
    assert (ran.code, ran.err) == (0, "")
    assert "savepoint one after batch 12: " in ran.out
    assert contents(checkpoint) == before
    (listed,) = terminal.run("savepoint", "list", "-o", "json").json
    assert (listed["name"], listed["id"], listed["state"], listed["problem"]) == (
        "clicks",
        "one",
        "complete",
        None,
    )
    assert listed["location"] == f"file://{terminal.home}/store/savepoints/clicks/one"
    assert listed["queries"] == [{"path": "", "id": only(inspected(checkpoint)).id, "batch": 12}]
    shown = terminal.run("savepoint", "show", "clicks", "-o", "json").json
    assert shown == listed
    for text in ("clicks", "one", "complete"):
        assert text in terminal.run("savepoint", "list", "clicks").out
        assert text in terminal.run("savepoint", "show", "clicks", "one").out
    assert terminal.run("savepoint", "verify", "clicks").code == 0
    ran = terminal.run("savepoint", "delete", "clicks", "one", "-o", "json")
    assert (ran.code, ran.json) == (0, {"name": "clicks", "id": "one", "did": "deleted"})
    assert terminal.run("savepoint", "list", "-o", "json").json == []
    assert not [*files(terminal.home / "store" / "savepoints")]
    lines = terminal.run("audit", "clicks", "-o", "json").json["lines"]
    asked = [("submit", "submitted"), ("savepoint_create", "one"), ("savepoint_delete", "one")]
    assert [(line["what"], line["detail"]) for line in lines] == asked


def test_an_id_of_its_own_by_time(terminal: Terminal, checkpoint: Path) -> None:
    made = [terminal.run("savepoint", "create", "clicks", "-o", "json").json["id"] for _ in range(2)]
    assert made[0] != made[1]
    assert [each["id"] for each in terminal.run("savepoint", "list", "clicks", "-o", "json").json] == made, (
        "oldest first"
    )


def test_what_is_not_there(terminal: Terminal, checkpoint: Path) -> None:
    for arguments, code in [
        (["create", "nobody"], 3),
        (["create", "clicks", "No_Id"], 2),
        (["show", "clicks"], 3),
        (["show", "clicks", "none"], 3),
        (["verify", "clicks", "none"], 3),
        (["verify", f"file://{terminal.home}/none"], 3),
        (["verify", f"file://{terminal.home}/none", "one"], 2),
        (["delete", "clicks", "none"], 3),
        (["restore", "clicks", "--to", f"{terminal.home}/x"], 3),
        (["list", "Not_A_Name"], 3),
    ]:
        ran = terminal.run("savepoint", *arguments)
        assert (ran.code, len(ran.err.splitlines())) == (code, 1), (arguments, ran.err)
    assert terminal.run("savepoint", "list", "nobody", "-o", "json").json == []


def test_where_there_is_nothing_to_save_nothing_is_begun(terminal: Terminal, checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "commits")
    assert terminal.run("savepoint", "create", "clicks").code == 4
    shutil.rmtree(checkpoint)
    assert terminal.run("savepoint", "create", "clicks").code == 3
    assert terminal.run("savepoint", "list", "-o", "json").json == []


def test_interrupted_it_says_so_and_goes_on(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = []

    def interrupted(*_given: object) -> None:
        copied.append(1)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(create, "problems_of", interrupted)
        ran = terminal.run("savepoint", "create", "clicks", "one")
    assert (ran.code, copied) == (130, [1])
    assert "savepoint one is incomplete: savepoint create clicks one goes on" in ran.err
    assert terminal.run("savepoint", "list", "-o", "json").json[0]["state"] == "incomplete"
    for arguments in (
        ["verify", "clicks"],
        ["verify", "clicks", "one"],
        ["restore", "clicks", "one", "--to", f"{terminal.home}/x"],
    ):
        assert terminal.run("savepoint", *arguments).code == 3
    ran = terminal.run("savepoint", "create", "clicks", "one")
    assert ran.code == 0
    assert terminal.run("savepoint", "verify", "clicks", "one").code == 0
    assert terminal.run("savepoint", "create", "clicks", "one").code == 0, "again: the same"
    assert terminal.run("savepoint", "create", "clicks", "--id", "one").code == 0, "as it was said first"


def test_a_damaged_one_is_told(terminal: Terminal, checkpoint: Path) -> None:
    terminal.run("savepoint", "create", "clicks", "one")
    (terminal.home / "store/savepoints/clicks/one/data/commits/12").unlink()
    ran = terminal.run("savepoint", "verify", "clicks", "-o", "json")
    assert (ran.code, ran.json["ok"], ran.json["problems"][0]) == (1, False, "commits/12 is missing")
    assert "is damaged" in terminal.run("savepoint", "verify", "clicks").out
    assert terminal.run("savepoint", "restore", "clicks", "--to", f"{terminal.home}/x").code == 1


def test_a_checkpoint_that_is_not_whole_makes_none(terminal: Terminal, checkpoint: Path) -> None:
    without(checkpoint, "state/0/1/13.delta")
    ran = terminal.run("savepoint", "create", "clicks")
    assert ran.code == 1
    assert "lacks version 13" in ran.err


def test_restore_by_name_and_by_location(terminal: Terminal, checkpoint: Path) -> None:
    terminal.run("savepoint", "create", "clicks", "one")
    for number, where in enumerate(("clicks", f"file://{terminal.home}/store/savepoints/clicks/one")):
        to = terminal.home / f"fresh-{number}"
        ran = terminal.run("savepoint", "restore", where, "--to", str(to), "-o", "json")
        assert (ran.code, ran.json["did"], ran.json["id"]) == (0, "restored", "one")
        assert terminal.run("checkpoint", "verify", str(to)).code == 0
        assert (
            terminal.run("savepoint", "restore", where, "--to", str(to), "-o", "json").json["did"]
            == "was there already"
        )
    (terminal.home / "full").mkdir()
    (terminal.home / "full" / "mine").write_text("x")
    assert terminal.run("savepoint", "restore", "clicks", "--to", f"{terminal.home}/full").code == 4
    lines = terminal.run("audit", "-o", "json").json["lines"]
    details = [(line["name"], line["detail"]) for line in lines if line["what"] == "savepoint_restore"]
    assert len(details) == 5 and details[0] == ("clicks", f"clicks to {terminal.home}/fresh-0")


def test_restore_refuses_what_another_job_has_and_where_its_own_may_run(
    terminal: Terminal, checkpoint: Path
) -> None:
    terminal.run("savepoint", "create", "clicks", "one")
    terminal.run("submit", terminal.spec("other", f"checkpoint: {terminal.home}/others\n{REPEATS}"))
    ran = terminal.run("savepoint", "restore", "clicks", "--to", f"{terminal.home}/others/below")
    assert (ran.code, "belongs to job other" in ran.err) == (4, True)
    shutil.rmtree(checkpoint)
    terminal.bench.set_own("clicks", OwnState.CLAIMED)
    assert terminal.run("savepoint", "restore", "clicks", "--to", str(checkpoint)).code == 4
    terminal.bench.set_own("clicks", OwnState.EXITED)
    assert terminal.run("savepoint", "restore", "clicks", "--to", str(checkpoint)).code == 0


def test_restore_to_a_fresh_place_while_the_job_runs(terminal: Terminal, checkpoint: Path) -> None:
    """It starts nothing: only the places that the job has, and those in and around them, are refused."""
    terminal.run("savepoint", "create", "clicks", "one")
    terminal.bench.set_own("clicks", OwnState.CLAIMED)
    fresh = terminal.home / "fresh"
    ran = terminal.run("savepoint", "restore", "clicks", "--to", str(fresh), "-o", "json")
    assert (ran.code, ran.json["did"]) == (0, "restored"), ran.err
    for near in (checkpoint, checkpoint / "below", checkpoint.parent):
        before = sorted(path for path in checkpoint.rglob("*"))
        assert terminal.run("savepoint", "restore", "clicks", "--to", str(near)).code == 4
        assert sorted(path for path in checkpoint.rglob("*")) == before


def test_restore_refuses_the_place_of_an_earlier_submission_whose_driver_may_still_stop(
    terminal: Terminal, checkpoint: Path
) -> None:
    """``clicks`` was cancelled and submitted anew elsewhere, and its driver of before has no tombstone yet."""
    terminal.run("savepoint", "create", "clicks", "one")
    terminal.bench.run("clicks")
    terminal.bench.set_own("clicks", OwnState.CLAIMED)
    assert terminal.run("cancel", "clicks").code == 0
    elsewhere = terminal.spec("clicks", f"checkpoint: {terminal.home}/elsewhere\n{REPEATS}")
    assert terminal.run("submit", elsewhere, "--accept-fresh-start").code == 0
    shutil.rmtree(checkpoint)
    ran = terminal.run("savepoint", "restore", "clicks", "--to", str(checkpoint))
    assert (ran.code, "which clicks has claimed itself" in ran.err) == (4, True), ran.err
    assert not checkpoint.exists()


def test_restore_beside_a_running_job_whose_places_nobody_can_tell_is_refused(
    terminal: Terminal, checkpoint: Path
) -> None:
    terminal.run("savepoint", "create", "clicks", "one")
    terminal.bench.set_own("clicks", OwnState.CLAIMED)
    terminal.bench.zoo.put(terminal.bench.layout.job("clicks"), b"{")
    ran = terminal.run("savepoint", "restore", "clicks", "--to", f"{terminal.home}/fresh")
    assert (ran.code, "suspend it first" in ran.err) == (4, True)


def test_submit_from_a_savepoint(terminal: Terminal, checkpoint: Path) -> None:
    terminal.run("savepoint", "create", "clicks", "one")
    fresh = terminal.home / "fresh"
    assert terminal.run("cancel", "clicks").code == 0
    spec = terminal.spec("clicks", f"checkpoint: {fresh}\n{REPEATS}")
    ran = terminal.run("submit", spec, "--from-savepoint", "one", "--dry-run")
    assert (ran.code, fresh.exists()) == (0, False)
    ran = terminal.run("submit", spec, "--from-savepoint", "one", "-o", "json")
    assert (ran.code, ran.json[0]["did"], ran.json[0]["savepoint"]) == (0, "submitted", "one")
    assert only(inspected(fresh)).commits.newest == 12
    assert terminal.bench.ref("clicks").record.fresh_start, "what the name left before does not count"
    job, own = terminal.bench.ref("clicks").record, terminal.bench.own("clicks")
    expected = to_be_expected(str(fresh), job.fresh_start, None, own.remembered, job.begins_with)
    assert queries_of(expected) == (SeenQuery(only(inspected(fresh)).id or "", 12),), (
        "nor does a start from nothing"
    )
    again = terminal.run("submit", spec, "--from-savepoint", "one", "-o", "json")
    assert (again.code, again.json[0]["did"]) == (0, "unchanged")
    assert "was left as it is: for that there is resume clicks --from-savepoint one" in again.err
    shutil.rmtree(fresh)
    ran = terminal.run("checkpoint", "verify", "clicks")
    assert (ran.code, "nothing at" in ran.err) == (3, True)


def test_opened_with_spark_as_well(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--deep: which state is opened, and what becomes of what Spark says of it."""
    asked: list[StateOf] = []
    error: list[str | None] = [None]

    def opened(
        states: list[StateOf], *_given: object, code: object, rules: object
    ) -> tuple[OpenedStore, ...]:
        assert code is None
        asked.extend(states)
        return (
            OpenedStore(
                states[0].location, 0, "stateStoreSave", "default", 2, None if error[0] else 7, error[0]
            ),
        )

    monkeypatch.setattr(deep_verify, "open_state", opened)
    ran = terminal.run("savepoint", "create", "clicks", "one", "--deep")
    assert (ran.code, "stateStoreSave" in ran.out) == (0, True)
    assert asked == [StateOf(f"file://{terminal.home}/store/savepoints/clicks/one/data", 12, 1)]
    assert (
        terminal.run("savepoint", "verify", "clicks", "--deep", "-o", "json").json["state_stores"][0]["rows"]
        == 7
    )
    error[0] = "EOFException"
    ran = terminal.run("savepoint", "verify", "clicks", "--deep")
    assert (ran.code, "stateStoreSave), default, does not open: EOFException" in ran.out) == (1, True)
    (terminal.home / "store/savepoints/clicks/one/data/commits/12").unlink()
    asked.clear()
    assert terminal.run("savepoint", "verify", "clicks", "--deep").code == 1
    assert asked == [], "what is not all there is not opened"


def test_submit_from_a_savepoint_of_another_job_by_its_location(terminal: Terminal, checkpoint: Path) -> None:
    terminal.run("savepoint", "create", "clicks", "one")
    spec = terminal.spec("copy", f"checkpoint: {terminal.home}/copy-ck\n{REPEATS}")
    assert terminal.run("submit", spec, "--from-savepoint", "one").code == 3
    assert (
        terminal.run("submit", spec, "--from-savepoint", f"{terminal.home}/store/savepoints/clicks/one").code
        == 0
    )


def test_what_submit_from_a_savepoint_refuses(terminal: Terminal, checkpoint: Path) -> None:
    terminal.run("savepoint", "create", "clicks", "one")
    location = f"{terminal.home}/store/savepoints/clicks/one"
    full = terminal.home / "full"
    full.mkdir()
    (full / "mine").write_text("x")
    ran = terminal.run(
        "submit", terminal.spec("a", f"checkpoint: {full}\n{REPEATS}"), "--from-savepoint", location
    )
    assert (ran.code, "is not empty" in ran.err) == (4, True)
    assert terminal.run("show", "a").code == 3, "nothing was registered"
    bare = terminal.home / "bare.yaml"
    bare.write_text("name: bare\napplication: app.py\n")
    assert terminal.run("submit", str(bare), "--from-savepoint", location).code == 2
    two = [terminal.spec(name, f"checkpoint: {terminal.home}/{name}\n{REPEATS}") for name in ("b", "c")]
    assert terminal.run("submit", *two, "--from-savepoint", location).code == 2
    ran = terminal.run(
        "submit", terminal.spec("d", f"checkpoint: {checkpoint}\n{REPEATS}"), "--from-savepoint", location
    )
    assert ran.code == 4
    assert only(inspected(checkpoint)).offsets.newest == 13


def test_delete_refuses_where_a_job_has_its_checkpoint(terminal: Terminal, checkpoint: Path) -> None:
    terminal.run("savepoint", "create", "clicks", "one")
    place = terminal.home / "store/savepoints/clicks/one"
    terminal.run("submit", terminal.spec("careless", f"checkpoint: {place}/data\n{REPEATS}"))
    ran = terminal.run("savepoint", "delete", "clicks", "one")
    assert (ran.code, "belongs to job careless" in ran.err) == (4, True)
    (place / "restores").mkdir()
    (place / "restores" / "ab.json").write_text(json.dumps({"v": 1, "target": "file:///ck", "at": "t"}))
    terminal.run("cancel", "careless")


def test_damaged_records_are_listed_and_deleted_by_force(terminal: Terminal, checkpoint: Path) -> None:
    terminal.run("savepoint", "create", "clicks", "one")
    begun = terminal.home / "store/savepoints/clicks/one/begun.json"
    begun.write_text("{")
    (listed,) = terminal.run("savepoint", "list", "-o", "json").json
    assert listed["state"] == "unknown"
    assert "begun.json" in listed["problem"]
    assert terminal.run("savepoint", "delete", "clicks", "one").code == 1
    assert terminal.run("savepoint", "delete", "clicks", "one", "--force").code == 0
    assert not [*files(terminal.home / "store" / "savepoints")]


def test_progress_is_for_terminals(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    ran = terminal.run("savepoint", "create", "clicks", "-o", "json")
    assert (ran.code, ran.json["state"]) == (0, "complete")
    assert "copying" in ran.err and f"{ran.json['objects']}/{ran.json['objects']}" in ran.err


def test_those_of_the_schedule_are_told_apart_and_say_when_the_next_is_due(
    terminal: Terminal, checkpoint: Path
) -> None:
    where = f"checkpoint: {checkpoint}\nsavepoints: {{every: 6h, keep: 3}}"
    assert terminal.run("cancel", "clicks").code == 0
    assert terminal.run("submit", terminal.spec("clicks", where), "--accept-fresh-start").code == 0
    shown = terminal.run("show", "clicks", "-o", "json").json["savepoints"]
    assert (shown["every"], shown["keep"], shown["newest"], shown["next_due_at"]) == ("6h", 3, None, None)
    assert "newest none yet; next due now" in terminal.run("show", "clicks").out
    shelf = area(terminal.home / "store" / "savepoints")
    savepoint = id_of(slot_of("clicks", 21_600.0, shelf.now_s()))
    place = terminal.home / "store" / "savepoints" / "clicks" / savepoint
    made = shelves(terminal.home / "store")
    what = replace(begun(checkpoint, place, savepoint), every_s=21_600.0)
    made.begin(what)
    Creation(area(checkpoint), made.area_of(what), what, lambda: AT).run()
    assert terminal.run("savepoint", "create", "clicks", "mine").code == 0
    listed = {each["id"]: each for each in terminal.run("savepoint", "list", "-o", "json").json}
    assert (listed[savepoint]["scheduled"], listed[savepoint]["every"], listed["mine"]["scheduled"]) == (
        True,
        "6h",
        False,
    )
    due_at = listed[savepoint]["next_due_at"]
    assert due_at is not None and listed["mine"]["next_due_at"] is None
    assert (
        f"clicks: every 6h while it runs; the next is due at {due_at}"
        in terminal.run("savepoint", "list").out
    )
    shown = terminal.run("show", "clicks", "-o", "json").json["savepoints"]
    assert (shown["newest"], shown["next_due_at"], shown["problem"]) == (savepoint, due_at, None)
    ran = terminal.run("savepoint", "create", "clicks", "scheduled-x")
    assert ran.code == 2 and "choose another" in ran.err


def test_a_scheduled_one_of_another_checkpoint_is_not_the_newest_of_this(
    terminal: Terminal, checkpoint: Path
) -> None:
    """It was made before ``clicks`` was submitted anew elsewhere: the leader makes one for the slot again."""
    shelf = shelves(terminal.home / "store")
    savepoint = id_of(slot_of("clicks", 21_600.0, shelf.now_s()))
    what = replace(
        begun(checkpoint, terminal.home / "store/savepoints/clicks" / savepoint, savepoint), every_s=21_600.0
    )
    shelf.begin(what)
    Creation(area(checkpoint), shelf.area_of(what), what, lambda: AT).run()
    found = {}
    for place in (checkpoint, terminal.home / "elsewhere"):
        where = f"checkpoint: {place}\nsavepoints: {{every: 6h, sink: repeats}}"
        assert terminal.run("cancel", "clicks").code == 0
        assert terminal.run("submit", terminal.spec("clicks", where), "--accept-fresh-start").code == 0
        shown = terminal.run("show", "clicks", "-o", "json").json["savepoints"]
        found[place] = shown["newest"], shown["next_due_at"] is None
    assert list(found.values()) == [(savepoint, False), (None, True)]
