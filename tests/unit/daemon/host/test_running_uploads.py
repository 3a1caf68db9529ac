"""The output of attempts that run gets into the store in pieces: as often as their spec says, over restarts and outages."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from supervisor.clients.store.base import StoreEntry
from supervisor.daemon.host import running_uploads
from supervisor.daemon.host.log_uploads import PAUSE, PERIOD_S
from supervisor.daemon.host.running_uploads import DROP_AFTER_S, RunningUploads
from supervisor.errors import AccessDenied, SupervisorError, Unreachable
from supervisor.model.records import OwnState
from supervisor.operations import uploaded_output
from supervisor.registry.uploaded_logs import (
    OUTPUT_MAX_BYTES,
    PIECE_MAX_BYTES,
    UploadedKey,
    UploadedLogs,
    parse_piece_key,
)
from tests.unit.daemon.host.test_log_uploads import UID, UploadRig, key, launch

EVERY_S = 300.0


class RunningRig(UploadRig):
    """A host whose attempts run, and a clock."""

    def __init__(self, directory: Path) -> None:
        self.now_s = 1000.0
        self.listings = 0
        self.no_deletes = False
        self.refused: dict[str, SupervisorError] = {}
        super().__init__(directory)
        self.own = self.owned(OwnState.CLAIMED, 1)

    def restart(self) -> None:
        super().restart()
        self.uploads._running._clock = lambda: self.now_s

    def start(self, attempt: int = 1, keep: int = 5, every_s: float = EVERY_S) -> None:
        self.hosted[f"{UID}.{attempt}"] = replace(launch(attempt, keep), log_upload_every_s=every_s)

    def append(self, text: bytes, attempt: int = 1) -> None:
        path = self.log_dir / "clicks" / f"{UID}.{attempt}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(text)

    def turn_after(self, seconds: float = EVERY_S) -> float:
        self.now_s += seconds
        return self.turn()

    def copied(self, attempt: int = 1) -> bytes:
        """What a reader gets."""
        found = uploaded_output.find_stored(self.store, "clicks", UID, attempt)
        if found is None:
            return b""
        with uploaded_output.open_stored(self.store, found) as parts:
            return b"".join(parts.pieces(parts.before_end(2**30)))

    def names(self) -> list[str]:
        """Of the pieces in the store: number and bytes."""
        found = filter(None, map(parse_piece_key, self.stored()))
        return [f"{piece.of.attempt}: {piece.number} {piece.bytes}" for piece in found]

    # -- the store ------------------------------------------------------------------------------------------------

    def create(self, key: str, data: bytes) -> None:
        self.refuse(key)
        self.store.create(key, data)

    def create_from(self, key: str, source: Path) -> None:
        self.refuse(key)
        self.store.create_from(key, source)

    def refuse(self, key: str) -> None:
        """Raises what is the trouble with the store, or with what has such a key."""
        refusals = [error for part, error in self.refused.items() if part in key]
        for error in filter(None, [self.trouble, *refusals]):
            raise error

    def entries(self, prefix: str) -> Iterator[StoreEntry]:
        self.listings += 1
        if self.trouble is not None:
            raise self.trouble
        yield from self.store.entries(prefix)

    def delete(self, key: str) -> None:
        if self.no_deletes:
            raise AccessDenied("no right to delete")
        self.store.delete(key)


@pytest.fixture
def running(tmp_path: Path) -> RunningRig:
    return RunningRig(tmp_path)


def test_what_came_is_uploaded_once_in_each_period(running: RunningRig) -> None:
    running.start()
    running.append(b"one\n")
    assert running.turn() == PERIOD_S and running.copied() == b"one\n", "at once when it is seen first"
    running.append(b"two\n")
    running.turn_after(EVERY_S - 1)
    assert running.copied() == b"one\n"
    running.turn_after(1)
    assert running.copied() == b"one\ntwo\n"
    before = running.stored()
    running.turn_after()
    assert running.names() == ["1: 1 8"] and running.stored().items() <= before.items(), (
        "nothing came: nothing is put, and the piece before goes"
    )
    assert running.listings == 1 and running.counted[-1] == 0


def test_one_that_does_not_ask_for_it_is_not_uploaded_while_it_runs(running: RunningRig) -> None:
    running.start(every_s=0.0)
    running.append(b"one\n")
    running.turn()
    assert not running.stored() and running.listings == 0


def test_pieces_are_full_but_for_the_newest_and_go_when_others_count(running: RunningRig) -> None:
    line = b"%015d\n"
    running.start()
    text = b"".join(line % number for number in range(PIECE_MAX_BYTES // 16 * 2 + 5))
    running.append(text)
    running.turn()
    assert running.names() == [f"1: 1 {PIECE_MAX_BYTES}", f"1: 2 {PIECE_MAX_BYTES}", "1: 3 80"]
    running.append(b"more\n")
    running.turn_after()
    assert running.names()[2:] == ["1: 3 80", "1: 3 85"], "who has just listed them can read them still"
    running.turn_after()
    assert running.names()[2:] == ["1: 3 85"] and running.copied() == text + b"more\n"


def test_of_much_output_the_end_is_uploaded_and_so_much_stays(running: RunningRig) -> None:
    running.start()
    running.append(
        b"the begin\n" + b"x" * PIECE_MAX_BYTES + b"\n" + b"y" * (OUTPUT_MAX_BYTES - 5) + b"\nend\n"
    )
    running.turn()
    assert running.copied().endswith(b"y\nend\n")
    assert OUTPUT_MAX_BYTES - PIECE_MAX_BYTES <= len(running.copied()) <= OUTPUT_MAX_BYTES
    for _ in range(3):
        running.append(b"z" * PIECE_MAX_BYTES)
        running.turn_after()
    assert len(running.names()) <= 2 + OUTPUT_MAX_BYTES // PIECE_MAX_BYTES + 2
    assert running.copied().endswith(b"z" * (3 * PIECE_MAX_BYTES))


def test_an_output_that_grows_without_end_holds_up_no_other(
    running: RunningRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = uploaded_output.next_piece
    grows = [b"x" * PIECE_MAX_BYTES] * (2 * running_uploads.PASS_MAX)

    def growing(path: Path, of: UploadedKey, last: object) -> object:
        if of.attempt == 1 and grows:
            running.append(grows.pop())
        return real(path, of, last)  # type: ignore[arg-type]

    monkeypatch.setattr(running_uploads, "next_piece", growing)
    for attempt in (1, 2):
        running.start(attempt)
        running.append(b"begin\n", attempt)
    running.turn()
    assert running.copied(2) == b"begin\n" and len(running.names()) == running_uploads.PASS_MAX + 1


@pytest.mark.parametrize("trouble", [Unreachable("it is down"), AccessDenied("no right to write logs/*")])
def test_a_store_that_takes_nothing_is_asked_again_and_counted(
    running: RunningRig, trouble: SupervisorError
) -> None:
    running.start(every_s=60.0)
    running.append(b"one\n")
    running.trouble = trouble
    pauses = [running.turn()]
    assert running.logged == ["log_uploads_wait"] and running.counted == [0]
    for _ in range(8):
        pauses.append(running.turn_after(pauses[-1]))
        assert running.logged == []
    assert pauses[:4] == [PERIOD_S, 2 * PERIOD_S, 4 * PERIOD_S, 8 * PERIOD_S]
    assert max(pauses) == 60.0 < PAUSE.longest_s and running.counted[-1] == 1
    running.trouble = None
    assert running.turn_after(60.0) == PERIOD_S
    assert running.copied() == b"one\n" and running.counted[-1] == 0


def test_a_registry_that_does_not_answer_keeps_nothing_from_the_store(running: RunningRig) -> None:
    running.own = Unreachable("no session")
    running.start(2)
    running.append(b"ended\n", 1)
    running.append(b"runs\n", 2)
    running.end(1)
    running.turn()
    assert running.copied(2) == b"runs\n" and running.copied(1) == b"" and running.counted == [1]


def test_the_pieces_are_listed_again_after_an_error(running: RunningRig) -> None:
    """Nobody knows whether the last request had an effect."""
    running.start()
    running.append(b"one\n")
    running.turn()
    running.append(b"two\n")
    running.trouble = Unreachable("it is down")
    running.turn_after()
    running.trouble = None
    running.turn_after(0)
    assert running.copied() == b"one\ntwo\n" and running.names() == ["1: 1 4", "1: 1 8"]
    assert running.listings == 2


def test_the_next_supervisor_goes_on_where_the_last_one_was(running: RunningRig) -> None:
    running.start()
    running.append(b"one\n")
    running.turn()
    running.append(b"two\n")
    running.restart()
    running.turn()
    assert running.copied() == b"one\ntwo\n" and running.names() == ["1: 1 4", "1: 1 8"]
    running.turn_after()
    assert running.names() == ["1: 1 8"]


def test_the_whole_output_counts_when_the_attempt_has_ended(running: RunningRig) -> None:
    running.start()
    running.append(b"one\n")
    running.turn()
    running.append(b"two\n")
    running.end()
    running.own = running.owned(OwnState.EXITED, 1)
    running.turn()
    assert running.text(key()) == running.copied() == b"one\ntwo\n"
    running.turn_after(DROP_AFTER_S - 1)
    assert running.names() == ["1: 1 4"], "who has just listed it can read it still"
    running.turn_after(1)
    assert not running.names() and running.copied() == b"one\ntwo\n"
    listings = running.listings
    running.turn_after()
    assert running.listings == listings and running.logged == []


def test_an_attempt_that_is_shorter_than_a_period_leaves_no_piece(running: RunningRig) -> None:
    """One that is new; what ran before this process began may be behind already."""
    running.turn()
    running.start()
    running.append(b"one\n")
    running.turn()
    running.turn_after(EVERY_S - 1)
    assert not running.stored() and running.counted[-1] == 0
    running.turn_after(1)
    assert running.copied() == b"one\n" and running.counted[-1] == 0


def ended_with_a_piece(running: RunningRig) -> None:
    running.start()
    running.append(b"one\n")
    running.turn()
    running.end()
    running.own = running.owned(OwnState.EXITED, 1)
    running.turn()


def test_pieces_stay_that_nothing_counts_in_place_of(running: RunningRig) -> None:
    """The leader has swept the whole output, or somebody else has."""
    ended_with_a_piece(running)
    running.store.delete(str(key()))
    running.turn_after(DROP_AFTER_S)
    assert running.names() == ["1: 1 4"] and running.copied() == b"one\n"


def test_pieces_that_may_not_be_deleted_are_left_to_the_leader(running: RunningRig) -> None:
    ended_with_a_piece(running)
    running.no_deletes = True
    assert running.turn_after(DROP_AFTER_S) == PERIOD_S and running.logged == []
    listings = running.listings
    running.turn_after()
    assert running.names() == ["1: 1 4"] and running.listings == listings


def test_pieces_go_later_when_the_store_does_not_answer(running: RunningRig) -> None:
    ended_with_a_piece(running)
    running.trouble = Unreachable("it is down")
    running.turn_after(DROP_AFTER_S)
    assert running.logged == ["log_uploads_wait"]
    running.trouble = None
    running.turn_after(PERIOD_S)
    assert not running.names()


@pytest.mark.parametrize("trouble", [Unreachable("it is too slow"), AccessDenied("no")])
def test_a_piece_that_is_refused_keeps_no_output_of_what_has_ended(
    running: RunningRig, trouble: SupervisorError
) -> None:
    running.refused = {"piece": trouble}
    running.start(2)
    running.append(b"runs\n", 2)
    running.append(b"ended\n", 1)
    running.end(1)
    running.own = running.owned(OwnState.CLAIMED, 2)
    assert running.turn() == PERIOD_S and running.copied(1) == b"ended\n" and not running.names()
    assert running.turn() == 2 * PERIOD_S
    running.refused = {}
    assert running.turn() == PERIOD_S and running.copied(2) == b"runs\n"


def test_an_output_that_is_refused_keeps_no_other_and_no_piece(running: RunningRig) -> None:
    running.refused = {f"/{attempt}-5.log.gz": Unreachable("it is too slow") for attempt in (1, 2)}
    for attempt in (1, 2, 3):
        running.append(b"ended\n", attempt)
        running.end(attempt)
    running.start(4)
    running.append(b"runs\n", 4)
    running.own = running.owned(OwnState.CLAIMED, 4)
    logged = []
    for _ in range(4):
        running.turn_after(PERIOD_S)
        logged += running.logged
    assert running.copied(4) == b"runs\n" and running.copied(3) == b"ended\n" and running.counted[-1] == 2
    assert logged == ["log_uploads_wait", "log_uploaded"], "it is said once"


def test_a_number_that_recurs_does_not_hide_what_is_there(running: RunningRig) -> None:
    """After the registry was restored."""
    running.wrote(b"first\n")
    running.own = running.owned(OwnState.EXITED, 1)
    running.end()
    running.turn()
    running.own = running.owned(OwnState.CLAIMED, 1)
    running.start()
    running.append(b"second\n")
    running.turn_after()
    running.turn_after()
    assert running.logged == ["log_not_uploaded"] and running.copied() == b"first\n" and not running.names()
    running.turn_after()
    assert running.logged == [] and running.counted[-1] == 0


def test_what_a_job_puts_in_place_of_its_output_is_not_uploaded(running: RunningRig) -> None:
    running.start(1)
    running.start(2)
    running.append(b"fine\n", 2)
    (running.log_dir / "clicks" / f"{UID}.1.log").symlink_to("/etc/passwd")
    running.turn()
    assert running.logged == ["log_not_uploaded"] and running.names() == ["2: 1 5"]
    running.turn_after()
    assert running.logged == [] and running.counted[-1] == 0


def test_who_may_not_delete_leaves_that_to_the_leader(running: RunningRig) -> None:
    running.no_deletes = True
    running.start()
    for text in (b"one\n", b"two\n", b"three\n"):
        running.append(text)
        running.turn_after()
    assert running.logged == [] and running.copied() == b"one\ntwo\nthree\n"
    assert running.names() == ["1: 1 14", "1: 1 4", "1: 1 8"]


def test_a_defect_of_one_output_keeps_no_other(running: RunningRig, monkeypatch: pytest.MonkeyPatch) -> None:
    real = uploaded_output.next_piece

    def broken(path: Path, of: UploadedKey, last: object) -> object:
        if of.attempt == 1:
            raise ValueError("a defect")
        return real(path, of, last)  # type: ignore[arg-type]

    monkeypatch.setattr(running_uploads, "next_piece", broken)
    for attempt in (1, 2):
        running.start(attempt)
        running.append(b"x\n", attempt)
    running.turn()
    assert running.logged == ["item_failed"] and running.copied(2) == b"x\n"
    for _ in range(3):
        running.turn_after()
    assert running.counted[-1] == 1, "it is not up to date"


def test_those_that_wait_longest_come_first_and_a_stop_ends_it(tmp_path: Path) -> None:
    now_s, going_on, put = [0.0], [True], []

    class Store:
        def entries(self, _prefix: str) -> Iterator[StoreEntry]:
            return iter(())

        def create(self, key: str, data: bytes) -> None:
            put.append((key, gzip.decompress(data)))
            going_on[0] = False

    logs = UploadedLogs(Store())  # type: ignore[arg-type]
    uploads = RunningUploads(tmp_path, logs, lambda: going_on[0], lambda: now_s[0])
    periods_s = {key(1): 90.0, key(2): 60.0}
    assert uploads.take(periods_s) == [key(1), key(2)] and uploads.shortest_s() == 60.0
    path = tmp_path / "clicks" / f"{UID}.1.log"
    path.parent.mkdir()
    path.write_bytes(b"x" * (2 * PIECE_MAX_BYTES))
    uploads.upload(key(1))
    uploads.upload(key(2))
    assert [len(text) for _, text in put] == [PIECE_MAX_BYTES], "it was to stop"
    now_s[0] = 100.0
    assert uploads.take(periods_s) == [key(2), key(1)]
    assert uploads.take({key(1): 90.0}) == [key(1)] and uploads.shortest_s() == 90.0
    assert uploads.take({}) == [] and uploads.shortest_s() == float("inf") and uploads.overdue() == 0


def test_nothing_of_it_is_logged_while_it_works(running: RunningRig) -> None:
    running.start()
    with capture_logs() as logged:
        for _ in range(3):
            running.append(b"x\n")
            running.now_s += EVERY_S
            running.uploads.turn()
    assert logged == []
