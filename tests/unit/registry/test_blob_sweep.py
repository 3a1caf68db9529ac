"""``registry.blob_sweep``: what is deleted, and above all what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.clients.store.files import FileStore
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.errors import AccessDenied, InvalidInput, Unreachable
from supervisor.registry.blob_sweep import GRACE_S, SUBMIT_MAX_S, BlobSweeper, References, judge
from supervisor.registry.blobs import Blobs

LIVE, GONE = "0123456789ab-89abcdef", "0123456789ac-89abcdef"
KEPT = References(frozenset({LIVE}))


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "store")


@pytest.fixture
def orphans(store: FileStore, tmp_path: Path) -> tuple[str, ...]:
    """A spec and an artifact of a uid that is gone; the same of one that lives, and things that are not ours."""
    blobs, application = Blobs(store), tmp_path / "app.py"
    application.write_text("")
    made = {
        uid: (blobs.put_spec("a", uid, 1, b"{}").key, blobs.put_artifact("a", uid, application))
        for uid in (LIVE, GONE)
    }
    EpochMarks(store).record_epoch(1, "host-a")
    of_others = ("specs/readme", "artifacts/a/b", "cluster.json", f"specs/a/{GONE}/1-abc.json")
    for key in (
        *of_others,
        f"logs/a/{GONE}/1-5.log.gz",
    ):  # a leader of the version before leaves outputs alone
        store.create(key, b"x")
    return made[GONE]


@pytest.fixture
def sweeper(store: FileStore, clock: Clock) -> BlobSweeper:
    return BlobSweeper(store, clock=clock)


def keys(store: FileStore) -> set[str]:
    return {entry.key for entry in store.entries("")}


def test_orphans_go_in_the_second_scan_after_the_grace_time(
    sweeper: BlobSweeper, clock: Clock, store: FileStore, orphans: tuple[str, ...]
) -> None:
    before = keys(store)
    assert sweeper.scan(lambda: KEPT) == ()
    clock.now_s += GRACE_S - 1
    assert sweeper.scan(lambda: KEPT) == ()
    assert keys(store) == before
    assert sweeper.orphans == 2
    clock.now_s += 1
    assert sweeper.scan(lambda: KEPT) == orphans
    assert keys(store) == before - set(orphans)
    assert sweeper.orphans == 0


def test_a_uid_that_is_named_in_between_keeps_its_blobs(
    sweeper: BlobSweeper, clock: Clock, store: FileStore, orphans: tuple[str, ...]
) -> None:
    both = References(frozenset({LIVE, GONE}))
    for references in (KEPT, both, KEPT, both):
        assert sweeper.scan(lambda references=references: references) == ()  # type: ignore[misc]
        clock.now_s += GRACE_S
    assert set(orphans) <= keys(store)


def test_a_key_that_a_record_names_stays(
    sweeper: BlobSweeper, clock: Clock, store: FileStore, orphans: tuple[str, ...]
) -> None:
    references = References(frozenset({LIVE}), frozenset({orphans[0]}))
    sweeper.scan(lambda: references)
    clock.now_s += GRACE_S
    assert sweeper.scan(lambda: references) == (orphans[1],)


def test_references_are_read_after_the_listing(
    sweeper: BlobSweeper, clock: Clock, store: FileStore, orphans: tuple[str, ...]
) -> None:
    def submit_meanwhile() -> References:
        Blobs(store).put_spec("b", "0123456789ad-00000000", 1, b"{}")
        return KEPT

    assert sweeper.scan(submit_meanwhile) == ()
    assert sweeper.orphans == 2


def test_unreadable_references_delete_nothing_and_are_raised(
    sweeper: BlobSweeper, clock: Clock, store: FileStore, orphans: tuple[str, ...]
) -> None:
    def unreadable() -> References:
        raise Unreachable("ZooKeeper did not answer")

    sweeper.scan(lambda: KEPT)
    clock.now_s += GRACE_S
    with pytest.raises(Unreachable):
        sweeper.scan(unreadable)
    assert set(orphans) <= keys(store)
    assert sweeper.scan(lambda: KEPT) == orphans


def test_an_empty_registry_deletes_nothing(
    sweeper: BlobSweeper, clock: Clock, store: FileStore, orphans: tuple[str, ...]
) -> None:
    nothing: Callable[[], References] = lambda: References(frozenset())  # noqa: E731
    sweeper.scan(lambda: KEPT)
    clock.now_s += GRACE_S
    assert sweeper.scan(nothing) == ()
    assert sweeper.scan(lambda: KEPT) == ()
    assert set(orphans) <= keys(store)


def test_a_store_that_fails_midway_is_taken_up_again(
    clock: Clock, store: FileStore, orphans: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeper = BlobSweeper(store, clock=clock)
    sweeper.scan(lambda: KEPT)
    clock.now_s += GRACE_S
    delete = store.delete

    def failing(key: str) -> None:
        if key == orphans[1]:
            raise Unreachable("the store did not answer")
        delete(key)

    with monkeypatch.context() as patch:
        patch.setattr(store, "delete", failing)
        with pytest.raises(Unreachable):
            sweeper.scan(lambda: KEPT)
    assert sweeper.scan(lambda: KEPT) == (orphans[1],)


def test_the_time_of_a_scan_is_no_time_between_scans(store: FileStore, orphans: tuple[str, ...]) -> None:
    listed = [*store.entries("specs/"), *store.entries("artifacts/")]
    first = judge({}, listed, KEPT, began_at_s=0.0, ended_at_s=1000.0)
    early = judge(first.unreferenced, listed, KEPT, began_at_s=999.0 + GRACE_S, ended_at_s=5000.0 + GRACE_S)
    late = judge(first.unreferenced, listed, KEPT, began_at_s=1000.0 + GRACE_S, ended_at_s=5000.0 + GRACE_S)
    assert (early.to_delete, late.to_delete) == ((), orphans)


def test_the_grace_time_is_never_shorter_than_a_submit(store: FileStore) -> None:
    with pytest.raises(InvalidInput, match="grace"):
        BlobSweeper(store, grace_s=SUBMIT_MAX_S - 1)


def test_a_scan_ends_when_its_term_does(
    sweeper: BlobSweeper, clock: Clock, store: FileStore, orphans: tuple[str, ...]
) -> None:
    sweeper.scan(lambda: KEPT)
    clock.now_s += GRACE_S
    assert sweeper.scan(lambda: KEPT, lambda: False) == ()
    listed = sum(1 for key in keys(store) if key.startswith(("specs/", "artifacts/")))
    answers = iter([True] * (listed + 1))
    assert sweeper.scan(lambda: KEPT, lambda: next(answers, False)) == orphans[:1]
    assert sweeper.scan(lambda: KEPT) == orphans[1:]


def test_an_object_that_the_store_refuses_to_delete_keeps_no_other(
    sweeper: BlobSweeper,
    clock: Clock,
    store: FileStore,
    orphans: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sweeper.scan(lambda: KEPT)
    clock.now_s += GRACE_S + 1
    refused, other = orphans
    real = FileStore.delete

    def delete(self: FileStore, key: str) -> None:
        if key == refused:
            raise AccessDenied("a bucket policy")
        real(self, key)

    monkeypatch.setattr(FileStore, "delete", delete)
    with pytest.raises(AccessDenied):
        sweeper.scan(lambda: KEPT)
    assert other not in keys(store) and sweeper.orphans == 1, "the refused one is still counted"
    monkeypatch.undo()
    clock.now_s += GRACE_S + 1
    assert sweeper.scan(lambda: KEPT) == (refused,)
