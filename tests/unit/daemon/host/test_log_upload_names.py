"""The names of what is to be uploaded: none is lost on its way, and what somebody else has put in their place is left alone."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from supervisor.daemon.host import log_uploads
from supervisor.daemon.host.log_uploads import ENDED, WAITING
from supervisor.model.records import OwnState
from supervisor.registry.uploaded_logs import UploadedKey
from tests.unit.daemon.host.test_log_uploads import UID, UploadRig, key


@pytest.fixture
def uploading(tmp_path: Path) -> UploadRig:
    return UploadRig(tmp_path)


def test_a_name_that_can_not_be_kept_stays_where_it_was_noted(
    uploading: UploadRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at the moment: the note that it has ended is all that says so."""
    uploading.wrote(b"hello\n")
    uploading.end()
    make_name = log_uploads._make_name

    def full(directory: Path, name: UploadedKey) -> None:
        if directory.name == WAITING:
            raise OSError(errno.ENOSPC, "no room")
        make_name(directory, name)

    with monkeypatch.context() as patch:
        patch.setattr(log_uploads, "_make_name", full)
        uploading.turn()
    assert not uploading.stored()
    uploading.restart()
    uploading.turn()
    assert uploading.text(key()) == b"hello\n"


@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_is_written_through_what_is_there_by_a_name(uploading: UploadRig, is_there: bool) -> None:
    victim = uploading.directory / "victim"
    if is_there:
        victim.write_text("of somebody else")
    (uploading.runtime_dir / ENDED).mkdir()
    (uploading.runtime_dir / ENDED / f"clicks.{UID}.1.5").symlink_to(victim)
    uploading.end()
    assert victim.exists() == is_there
    assert not is_there or victim.read_text() == "of somebody else"


def test_of_many_names_some_are_taken_in_each_turn(
    uploading: UploadRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody of the group can put any number there."""
    monkeypatch.setattr(log_uploads, "NAMES_MAX", 2)
    uploading.own = uploading.owned(OwnState.EXITED, 9)
    for attempt in range(1, 6):
        uploading.wrote(b"hello\n", attempt)
        uploading.end(attempt)
    stored = []
    for _ in range(3):
        uploading.turn()
        stored.append(len(uploading.stored()))
    assert stored == [2, 4, 5]
