"""``coord.epoch_marks``: an epoch is recorded once, by one author; the newest is found; old ones go."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.clients.store.files import FileStore
from supervisor.coord.epoch_marks import EpochMarks, epoch_key
from supervisor.errors import Conflict, InvalidInput
from supervisor.model.records import EpochRecord
from supervisor.records.codec import encode

GOLDEN = Path(__file__).parents[2] / "golden" / "store"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def marks(root: Path) -> EpochMarks:
    return EpochMarks(FileStore(root))


def test_an_epoch_that_another_version_recorded_with_more_in_it_is_the_same_epoch(
    marks: EpochMarks, root: Path
) -> None:
    """Else an older leader would distrust the registry in the middle of an upgrade."""
    newer = encode(EpochRecord(epoch=7, supervisor="host-a", op="op-0", extra={"software": "99.0.0"}))
    FileStore(root).create(epoch_key(7), newer)
    marks.record_epoch(7, "host-a", "op-0")
    with pytest.raises(Conflict):
        marks.record_epoch(7, "host-a", "op-1")
    FileStore(root).create(epoch_key(8), b"{")
    with pytest.raises(Conflict):
        marks.record_epoch(8, "host-a", "op-0")


def test_an_epoch_is_recorded_once(marks: EpochMarks, root: Path) -> None:
    marks.record_epoch(8, "host-a", "op-1")
    marks.record_epoch(8, "host-a", "op-1")
    for supervisor, op in (("host-b", "op-1"), ("host-a", "op-2")):
        with pytest.raises(Conflict, match="epoch 8"):
            marks.record_epoch(8, supervisor, op)
    assert (root / "epochs" / "0000000008").read_bytes() == (GOLDEN / "epoch.v1.json").read_bytes()


def test_the_newest_epoch_above_is_found(marks: EpochMarks, root: Path) -> None:
    assert marks.newest_epoch_above(0) is None
    for epoch in (1, 2, 9, 10, 11, 100):
        marks.record_epoch(epoch, "host-a")
    (root / "epochs" / "zz-not-ours").write_text("")
    (root / "epochs" / "99999999999999").write_text("")
    assert [marks.newest_epoch_above(n) for n in (-1, 0, 9, 99)] == [100] * 4
    assert [marks.newest_epoch_above(n) for n in (100, 101, 10**9)] == [None] * 3


def test_old_epochs_are_pruned_and_the_highest_stays(marks: EpochMarks) -> None:
    for epoch in range(1, 108):
        marks.record_epoch(epoch, "host-a")
    assert marks.prune_epochs() == 7
    assert marks.prune_epochs() == 0
    assert marks.newest_epoch_above(0) == 107
    assert marks.prune_epochs(keep=0) == 99
    assert marks.newest_epoch_above(0) == 107


def test_an_epoch_that_does_not_fit_is_refused(marks: EpochMarks) -> None:
    for epoch in (-1, 10**10):
        with pytest.raises(InvalidInput, match="epoch"):
            marks.record_epoch(epoch, "host-a")
    assert epoch_key(10**10 - 1) == "epochs/9999999999"
