"""What supervisor and shim write on a host is for their user alone; a driver runs with the host's umask."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.faults.conftest import MakeFleet
from tests.waiting import wait_until

UMASKS = (0o022, 0o002)
UMASK = pytest.StashKey[int]()


@pytest.fixture(params=UMASKS)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Of whoever starts the supervisors."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def open_to_others(top: Path, closed: int = 0o077) -> list[str]:
    """Files and directories below it (and it) whose modes have bits of ``closed``; links have no mode."""
    paths = [path for path in (top, *top.rglob("*")) if not path.is_symlink()]
    return [
        f"{path} {stat.S_IMODE(path.stat().st_mode):04o}" for path in paths if path.stat().st_mode & closed
    ]


def test_nothing_of_ours_is_open_to_others(
    umask: int, embedded_ensemble: EmbeddedEnsemble, make_fleet: MakeFleet
) -> None:
    fleet = make_fleet(embedded_ensemble, supervisors=1)
    member = fleet.members[0]
    fleet.submit("a", knobs={"exit_after_batches": 3, "print": "some words"}, restart={"strategy": "none"})
    fleet.submit("b")
    fleet.wait_state("b", "running")
    fleet.wait_batches("b")
    run, logs = member.directory / "run", member.directory / "log"
    for kept in ("work", "artifacts", "attempts"):
        assert list((run / kept).iterdir()), f"nothing is in {kept}"
    wait_until(
        lambda: list(logs.glob("a/*.shim.log")) and list(logs.glob("b/*.log")),
        what="logs of drivers and shims",
    )
    assert open_to_others(run) == []
    assert open_to_others(logs, 0o027) == []
    assert open_to_others(next(logs.glob("b"))) != [], "the group reads the output of drivers"
    store = Path(str(fleet.store).removeprefix("file://"))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (store, *store.rglob("*"))}
    assert modes == {0o777 & ~umask, 0o666 & ~umask}, "commands of other users read the store"
    starts = [
        note
        for note in map(json.loads, fleet.witness_file.read_text().splitlines())
        if note["event"] == "start"
    ]
    assert {note["umask"] for note in starts} == {f"{umask:04o}"}
    fleet.stop_member(member)
    for directory in (run, run / "work"):  # as a version before this left them
        directory.chmod(0o755)
    fleet.restart_all()
    fleet.submit("c")
    fleet.wait_state("c", "running")
    assert open_to_others(run) == [f"{run / 'work'} 0755"] and open_to_others(logs, 0o027) == []
    assert '"event": "runtime_dir_tightened"' in member.log
