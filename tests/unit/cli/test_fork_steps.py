"""What each step of a fork relies on: what it asks before it registers anything, and whose records it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisor.bluegreen import fork as fork_module
from supervisor.checkpoint.layout import parse_metadata
from supervisor.clients.store.area import Area
from supervisor.errors import AccessDenied
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.records import Cause, Desired, OwnState
from supervisor.operations.submit import store_prepared
from supervisor.savepoints.create import manifest_at
from tests.unit.checkpoint.golden import unpack
from tests.unit.checkpoint.savepoints import Killed, area
from tests.unit.cli.conftest import REPEATS, Terminal

ARGS = "args: [--out, 'file:///out/{job}', --checkpoint, '{checkpoint}']\n"


@pytest.fixture
def checkpoint(terminal: Terminal, tmp_path: Path) -> Path:
    """Of ``clicks``, which runs its third attempt: it reads files, and has committed batch 2."""
    found = unpack("files", tmp_path)
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {found}\n{ARGS}")).code == 0
    terminal.bench.run("clicks")
    terminal.bench.set_own("clicks", OwnState.CLAIMED, attempt=3)
    return found


def is_registered(terminal: Terminal, name: str) -> bool:
    return terminal.bench.has(terminal.bench.layout.job(name))


def test_a_fork_of_an_earlier_submission_is_not_gone_on_with(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its savepoint and its copy are of batches that the name of today never had."""

    def killed(*_: Any, **__: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(fork_module, "restore_to", killed)
        terminal.run("fork", "clicks", "clicks-2")
    assert terminal.run("cancel", "clicks").code == 0
    terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
    elsewhere = unpack("hdfs-v1", checkpoint.parent)
    spec = terminal.spec("clicks", f"checkpoint: {elsewhere}\n{ARGS}{REPEATS}")
    assert terminal.run("submit", spec, "--accept-fresh-start").code == 0
    ran = terminal.run("fork", "clicks", "clicks-2")
    assert (ran.code, "an earlier submission of clicks" in ran.err) == (4, True), ran.err


def test_a_sink_that_would_lose_rows_is_found_before_anything_is_registered(
    terminal: Terminal, checkpoint: Path
) -> None:
    ran = terminal.run("fork", "clicks", "clicks-2", "--set", "args=['{checkpoint}']", "--shared-sink")
    assert (ran.code, "Only its owner knows" in ran.err) == (4, True), ran.err
    assert not is_registered(terminal, "clicks-2")
    assert not (terminal.home / "store/savepoints").exists()


@pytest.mark.parametrize(("sink", "code"), [("kafka", 0), ("file s3a://b/out", 4)])
def test_of_a_shared_sink_what_the_job_was_seen_to_write_to_decides(
    terminal: Terminal, checkpoint: Path, sink: str, code: int
) -> None:
    """Nobody is asked about one that is known, and one that would lose rows is named."""
    query = parse_metadata((checkpoint / "metadata").read_bytes())
    known = CheckpointExpectation(
        place=place_of(str(checkpoint)), queries=(f"{query} 2",), sinks=(f"{query} 2 {sink}",)
    )
    terminal.bench.set_own("clicks", OwnState.CLAIMED, attempt=3, remembered=known)
    ran = terminal.run("fork", "clicks", "clicks-2", "--set", "args=['{checkpoint}']", "--shared-sink")
    assert (ran.code, "Only its owner knows" in ran.err) == (code, False), ran.err
    assert code == 0 or "s3a://b/out" in ran.err


def test_a_fork_that_the_policy_forbids_is_not_registered(terminal: Terminal, checkpoint: Path) -> None:
    with terminal.config.open("a") as config:
        config.write("policy: {conf: {forbidden: [spark.plugins]}}\n")
    ran = terminal.run("fork", "clicks", "clicks-2", "--set", "conf.spark.plugins=x.Y")
    assert (ran.code != 0, "spark.plugins" in ran.err) == (True, True), ran.err
    assert not is_registered(terminal, "clicks-2")


def test_where_the_place_is_anothers_nothing_of_the_fork_is_stored(
    terminal: Terminal, checkpoint: Path
) -> None:
    place = checkpoint.parent / "others"
    assert terminal.run("submit", terminal.spec("other", f"checkpoint: {place}")).code == 0
    before = sorted((terminal.home / "store").rglob("*"))
    ran = terminal.run("fork", "clicks", "clicks-2", "--set", f"checkpoint={place}/inside")
    assert (ran.code, "belongs to job other" in ran.err) == (4, True), ran.err
    now = sorted((terminal.home / "store").rglob("*"))
    assert [path for path in now if path not in before] == []


def test_what_an_earlier_fork_of_that_name_wrote_is_asked_about(terminal: Terminal, checkpoint: Path) -> None:
    """It wrote to the place that the name has, and a file sink drops what has numbers that it has seen."""
    assert terminal.run("fork", "clicks", "clicks-2").code == 0
    place = terminal.bench.ref("clicks-2").record.terms.checkpoint or ""
    query = parse_metadata((Path(place) / "metadata").read_bytes())
    known = CheckpointExpectation(
        place=place_of(place), queries=(f"{query} 9",), sinks=(f"{query} 9 file s3a://b/clicks-2",)
    )
    assert terminal.run("cancel", "clicks-2").code == 0
    terminal.bench.set_own("clicks-2", OwnState.EXITED, cause=Cause.STOPPED, remembered=known)
    ran = terminal.run("fork", "clicks", "clicks-2")
    assert (ran.code, "would be lost" in ran.err) == (4, True), ran.err
    assert not is_registered(terminal, "clicks-2")


def test_its_savepoint_says_of_which_attempt_it_is(terminal: Terminal, checkpoint: Path) -> None:
    assert terminal.run("fork", "clicks", "clicks-2").code == 0
    mark = terminal.bench.ref("clicks-2").record.fork
    assert mark is not None
    manifest = manifest_at(area(terminal.home / f"store/savepoints/clicks/{mark.savepoint}"))
    assert manifest is not None
    uid = terminal.bench.ref("clicks").record.uid
    assert (manifest.name, manifest.uid, manifest.attempt) == ("clicks", uid, 3)
    assert mark.uid == uid


def test_whoever_took_the_name_meanwhile_keeps_it(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fork's spec is stored, and somebody submits a job of that name before it is registered."""
    stored = store_prepared

    def slowly(*given: Any) -> Any:
        assert terminal.run("submit", terminal.spec("clicks-2")).code == 0
        return stored(*given)

    monkeypatch.setattr(fork_module, "store_prepared", slowly)
    ran = terminal.run("fork", "clicks", "clicks-2")
    assert ran.code == 4, ran.err
    job = terminal.bench.ref("clicks-2").record
    assert (job.fork, job.desired) == (None, Desired.RUNNING)
    assert not (terminal.home / "store/savepoints").exists()


def test_a_place_that_is_not_written_to_is_found_before_anything_is_registered(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(place: Area) -> None:
        assert ".fork-clicks-2-" in place.location
        raise AccessDenied("another user could choose what is written to")

    monkeypatch.setattr(Area, "require_writable", refuse)
    ran = terminal.run("fork", "clicks", "clicks-2")
    assert (ran.code != 0, "another user could choose" in ran.err) == (True, True), ran.err
    assert not is_registered(terminal, "clicks-2")
