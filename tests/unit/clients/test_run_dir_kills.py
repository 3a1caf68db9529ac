"""Who killed, and how long it took, survives until the run directory goes; nothing torn counts."""

from __future__ import annotations

import os
from pathlib import Path

from supervisor.clients import run_dir


def test_kills_are_read_back_at_the_last_look(tmp_path: Path) -> None:
    directory = run_dir.create(str(tmp_path), "u.1", b"{}")
    assert directory is not None
    run_dir.note_kill(directory, "shim", 0.25)
    run_dir.note_kill(directory, "twin", 1.5)
    seen: list[tuple[str, float]] = []
    lock = run_dir.take_lock(directory)
    assert not run_dir.remove(directory, lambda: seen.extend(run_dir.read_kills(directory))) and not seen, (
        "somebody lives there"
    )
    assert lock is not None
    os.close(lock)
    assert run_dir.remove(directory, lambda: seen.extend(run_dir.read_kills(directory)))
    assert seen == [("shim", 0.25), ("twin", 1.5)]


def test_absent_and_torn_are_none(tmp_path: Path) -> None:
    assert run_dir.read_kills(str(tmp_path)) == []
    (tmp_path / run_dir.KILLS).write_text("twin 0.1\ntwin 0.\x00")
    assert run_dir.read_kills(str(tmp_path)) == [("twin", 0.1)]
    run_dir.note_kill(str(tmp_path / "gone"), "twin", 1.0)
