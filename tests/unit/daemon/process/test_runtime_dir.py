"""The runtime directory is its user's alone: made so, tightened, or refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from supervisor.clients import umask
from supervisor.daemon.process.supervisor import check_log_dir, take_lock
from supervisor.errors import InvalidInput

SOMEBODY = 4242


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def lock(runtime_dir: Path) -> list[dict[str, object]]:
    """What was logged."""
    with capture_logs() as events:
        os.close(take_lock(runtime_dir))
    return [dict(line) for line in events]


def owned_by(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    """As if ``uid`` ran this, and what is there were somebody else's."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)


def test_it_is_made_private(tmp_path: Path) -> None:
    assert lock(tmp_path / "above" / "run") == []
    assert mode_of(tmp_path / "above" / "run") == 0o700
    assert lock(tmp_path / "above" / "run") == [], "nothing to say of one that is in order"


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o1777, 0o2770])
def test_one_that_is_open_to_others_is_tightened_and_that_is_said(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    directory.chmod(mode)
    (logged,) = lock(directory)
    assert (logged["event"], logged["log_level"], logged["runtime_dir"]) == (
        "runtime_dir_tightened",
        "warning",
        str(directory),
    )
    assert (logged["was"], logged["now"]) == (f"{mode:04o}", "0700")
    assert mode_of(directory) == 0o700


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777])
def test_one_of_another_user_is_refused(tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    directory.chmod(mode)
    owner = directory.stat().st_uid
    owned_by(monkeypatch, SOMEBODY)
    with pytest.raises(InvalidInput) as refused:
        take_lock(directory)
    refusal = str(refused.value)
    assert f"supervisor.runtime_dir {directory} is a directory of " in refusal and f"({owner})" in refusal
    assert (
        f"mode {mode:04o}" in refusal
        and f"runs as uid {SOMEBODY}" in refusal
        and "chown it" in refusal
        and "\n" not in refusal
    )
    assert mode_of(directory) == mode and not list(directory.iterdir())


def test_a_link_of_ours_is_followed_to_a_directory_of_ours(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o755)
    (tmp_path / "run").symlink_to(tmp_path / "real")
    (logged,) = lock(tmp_path / "run")
    assert logged["event"] == "runtime_dir_tightened" and mode_of(tmp_path / "real") == 0o700
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="dangling cannot be used"):
        take_lock(tmp_path / "dangling")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "real")
    os.lchown(tmp_path / "run", SOMEBODY, SOMEBODY)
    with pytest.raises(InvalidInput, match=f"run is a link of uid {SOMEBODY} "):
        take_lock(tmp_path / "run")


def test_a_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(InvalidInput, match="run cannot be used"):
        take_lock(tmp_path / "run")


def test_the_directory_of_logs_is_made_for_the_group_at_most_and_kept_as_the_host_has_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there").chmod(0o755)
    before = os.umask(0o022)
    try:
        with umask.private():
            check_log_dir(tmp_path / "log")
            check_log_dir(tmp_path / "there")
        os.umask(0o077)
        with umask.private():
            check_log_dir(tmp_path / "private")
    finally:
        os.umask(before)
    assert (mode_of(tmp_path / "log"), mode_of(tmp_path / "there"), mode_of(tmp_path / "private")) == (
        0o750,
        0o755,
        0o700,
    )
