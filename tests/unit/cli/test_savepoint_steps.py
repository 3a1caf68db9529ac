"""What the commands of savepoints ask before they begin anything, and what they go on with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.clients.store.area import Area
from supervisor.errors import AccessDenied
from supervisor.model.records import Cause, OwnState
from supervisor.savepoints.manifest import MANIFEST, encode_manifest
from tests.fakes.zookeeper import MemoryClient
from tests.unit.checkpoint.golden import unpack
from tests.unit.checkpoint.savepoints import begun, place, shelf
from tests.unit.cli.conftest import REPEATS, Terminal


@pytest.fixture
def checkpoint(terminal: Terminal, tmp_path: Path) -> Path:
    found = unpack("hdfs-v1", tmp_path)
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {found}\n{REPEATS}")).code == 0
    return found


def test_one_that_was_begun_of_another_checkpoint_is_not_gone_on_with(
    terminal: Terminal, checkpoint: Path
) -> None:
    """The job has another one since: what was copied of the old one would lie beside what is copied of the new."""
    store = terminal.home / "store"
    shelf(store).begin(begun(terminal.home / "before", place(store)))
    ran = terminal.run("savepoint", "create", "clicks", "one")
    assert (ran.code, f"was begun from file://{terminal.home}/before" in ran.err) == (4, True), ran.err
    assert not (place(store) / "data").exists()


def test_where_it_must_not_be_written_nothing_is_begun(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Area) -> None:
        raise AccessDenied("another user could choose what is written to")

    monkeypatch.setattr(Area, "require_writable", refuse)
    assert terminal.run("savepoint", "create", "clicks", "one").code != 0
    assert not list(shelf(terminal.home / "store").entries("clicks"))


def test_a_job_that_this_server_had_not_heard_of_yet_keeps_its_place(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of ZooKeeper may be behind: what was registered before the command counts."""
    assert terminal.run("savepoint", "create", "clicks", "one").code == 0
    terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
    fresh, sync = terminal.home / "fresh", MemoryClient.sync
    other = terminal.spec("other", f"checkpoint: {fresh}\n{REPEATS}")

    def catches_up(client: MemoryClient) -> None:
        monkeypatch.setattr(MemoryClient, "sync", sync)
        assert terminal.run("submit", other).code == 0
        sync(client)

    monkeypatch.setattr(MemoryClient, "sync", catches_up)
    ran = terminal.run("savepoint", "restore", "clicks", "--to", str(fresh))
    assert (ran.code, "belongs to job other" in ran.err) == (4, True), ran.err
    assert not fresh.exists()


def test_the_newest_savepoint_is_the_one_that_was_completed_last(
    terminal: Terminal, checkpoint: Path
) -> None:
    """Whatever its id: a restore without one goes back no farther than it has to."""
    on = shelf(terminal.home / "store")
    for savepoint, at in (("b", "01"), ("a", "03"), ("c", "02")):
        assert terminal.run("savepoint", "create", "clicks", savepoint).code == 0
        found = on.find("clicks", savepoint)
        assert found.manifest is not None
        dated = replace(found.manifest, created_at=f"2026-11-{at}T00:00:00.000Z")
        (terminal.home / "store/savepoints/clicks" / savepoint / MANIFEST).write_bytes(encode_manifest(dated))
    ran = terminal.run("savepoint", "verify", "clicks", "-o", "json")
    assert (ran.code, ran.json["id"]) == (0, "a"), ran.err
