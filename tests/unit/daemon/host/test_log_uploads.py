"""The output of attempts that have ended gets into the store: after the tombstone, over restarts and outages, and nothing else does."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from supervisor.clients.store.files import FileStore
from supervisor.daemon.host import log_uploads
from supervisor.daemon.host.log_uploads import ENDED, PAUSE, PERIOD_S, WAITING, LogUploads
from supervisor.errors import AccessDenied, SupervisorError, Unreachable
from supervisor.model.launch import NO_ATTEMPT, Launch
from supervisor.model.records import Ownership, OwnState
from supervisor.operations import uploaded_output
from supervisor.registry.uploaded_logs import OUTPUT_MAX_BYTES, UploadedKey, UploadedLogs
from tests.unit.plan import rows
from tests.unit.shim.world import LAUNCH

UID = "0123456789ab-89abcdef"


def key(attempt: int = 1, keep: int = 5) -> UploadedKey:
    return UploadedKey("clicks", UID, attempt, keep)


def launch(attempt: int = 1, keep: int = 5) -> Launch:
    given = replace(LAUNCH.assignment, name="clicks", uid=UID, attempt=attempt)
    return replace(LAUNCH, assignment=given, log_uploads_kept=keep)


class UploadRig:
    """A host with its directories, a store in a directory, and what the registry says."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runtime_dir, self.log_dir = directory / "run", directory / "log"
        self.runtime_dir.mkdir()
        self.store = FileStore(directory / "store")
        self.hosted: dict[str, Launch] = {}
        self.own: Ownership | SupervisorError | None = self.owned(OwnState.EXITED, 1)
        self.trouble: SupervisorError | None = None
        self.logged: list[Any] = []
        self.counted: list[int] = []
        self.restart()

    def restart(self) -> None:
        """Another process of the supervisor."""
        self.uploads = LogUploads(
            self.runtime_dir,
            self.log_dir,
            lambda: self.hosted,
            self.ownership,
            UploadedLogs(self),  # type: ignore[arg-type]
            self.counted.append,
        )

    def owned(self, state: OwnState, attempt: int, uid: str = UID) -> Ownership:
        return replace(rows.own(state).record, uid=uid, attempt=attempt)

    def ownership(self, job: str) -> Ownership | None:
        assert job == "clicks"
        if isinstance(self.own, SupervisorError):
            raise self.own
        return self.own

    def create_from(self, key: str, source: Path) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.store.create_from(key, source)

    def start(self, attempt: int = 1, keep: int = 5) -> None:
        self.hosted[f"{UID}.{attempt}"] = launch(attempt, keep)

    def wrote(self, text: bytes, attempt: int = 1) -> Path:
        path = self.log_dir / "clicks" / f"{UID}.{attempt}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        return path

    def end(self, attempt: int = 1, keep: int = 5) -> None:
        """The guardian removes the run directory."""
        self.uploads.ended(launch(attempt, keep))
        self.hosted.pop(f"{UID}.{attempt}", None)

    def turn(self) -> float:
        with capture_logs() as logged:
            pause_s = self.uploads.turn()
        self.logged = [line["event"] for line in logged]
        return pause_s

    def stored(self) -> dict[str, bytes]:
        return {each.key: self.store.read(each.key, 1 << 26) for each in self.store.entries("logs/")}

    def text(self, of: UploadedKey) -> bytes:
        return gzip.decompress(self.stored()[str(of)])

    def waiting(self) -> list[str]:
        return sorted(os.listdir(self.log_dir / WAITING))


@pytest.fixture
def uploading(tmp_path: Path) -> UploadRig:
    return UploadRig(tmp_path)


def test_what_an_attempt_has_left_is_uploaded_when_it_has_its_tombstone(uploading: UploadRig) -> None:
    uploading.start()
    uploading.own = uploading.owned(OwnState.CLAIMED, 1)
    uploading.wrote(b"hello\n")
    uploading.turn()
    uploading.end()
    uploading.turn()
    assert not uploading.stored(), "it has no tombstone yet"
    uploading.own = uploading.owned(OwnState.EXITED, 1)
    assert uploading.turn() == PERIOD_S and uploading.logged == ["log_uploaded"]
    assert uploading.text(key()) == b"hello\n" and list(uploading.stored()) == [
        f"logs/clicks/{UID}/1-5.log.gz"
    ]
    assert uploading.waiting() == [] and (uploading.log_dir / "clicks" / f"{UID}.1.log").exists(), (
        "its host keeps it"
    )
    uploading.turn()
    assert uploading.logged == []


@pytest.mark.parametrize("attempt", [1, NO_ATTEMPT])
def test_a_job_that_does_not_ask_for_it_and_a_driver_without_an_attempt_are_left_alone(
    uploading: UploadRig, attempt: int
) -> None:
    unused = replace(launch(attempt, 0 if attempt else 5), prepared="" if attempt else f"{UID}.pabc")
    uploading.hosted[f"{UID}.pabc"] = unused
    uploading.wrote(b"hello\n")
    uploading.uploads.ended(unused)
    uploading.turn()
    assert uploading.logged == [] and not uploading.stored()
    assert not (uploading.log_dir / WAITING).exists() and not (uploading.runtime_dir / ENDED).exists()


OVER = [
    (OwnState.EXITED, 1, UID, True),
    (OwnState.VACANT, 1, UID, True),
    (OwnState.ASSIGNED, 2, UID, True),
    (OwnState.VACANT, 0, "another", True),
    (OwnState.ASSIGNED, 1, UID, False),
    (OwnState.CLAIMED, 1, UID, False),
    (OwnState.DRAINING, 1, UID, False),
    (OwnState.REVOKED, 1, UID, False),
    (OwnState.EXITED, 0, UID, False),  # the registry was restored from before it
]


@pytest.mark.parametrize(("state", "attempt", "uid", "is_over"), OVER)
def test_the_registry_says_whether_it_has_ended(
    uploading: UploadRig, state: OwnState, attempt: int, uid: str, is_over: bool
) -> None:
    uploading.own = uploading.owned(state, attempt, uid)
    uploading.wrote(b"x\n")
    uploading.end()
    uploading.turn()
    assert bool(uploading.stored()) == is_over and bool(uploading.waiting()) != is_over


def test_a_registry_that_is_silent_or_in_doubt_uploads_nothing(uploading: UploadRig) -> None:
    uploading.wrote(b"x\n")
    uploading.end()
    uploading.own = Unreachable("no session")
    uploading.turn()
    uploading.own = None
    uploading.turn()
    assert not uploading.stored() and uploading.logged == []
    uploading.own = uploading.owned(OwnState.EXITED, 1)
    uploading.turn()
    assert uploading.text(key()) == b"x\n"


@pytest.mark.parametrize("trouble", [Unreachable("it is down"), AccessDenied("no right to write logs/*")])
def test_a_store_that_takes_nothing_is_asked_again_also_after_a_restart(
    uploading: UploadRig, trouble: SupervisorError
) -> None:
    for attempt in (1, 2, 3):
        uploading.wrote(b"x\n", attempt)
        uploading.end(attempt)
    uploading.own = uploading.owned(OwnState.EXITED, 3)
    uploading.trouble = trouble
    pauses = []
    for _ in range(10):
        pauses.append(uploading.turn())
        assert uploading.logged == ([] if len(pauses) > 1 else ["log_uploads_wait"])
    assert (
        pauses[:3] == [PERIOD_S, 2 * PERIOD_S, 4 * PERIOD_S] and max(pauses) == pauses[-1] == PAUSE.longest_s
    )
    uploading.restart()
    uploading.trouble = None
    assert uploading.turn() == PERIOD_S
    assert len(uploading.stored()) == 3 and uploading.waiting() == []


def test_a_host_that_was_lost_uploads_when_it_is_back(uploading: UploadRig) -> None:
    """Nothing is left of its memory: what was noted while the attempt ran is on its disk."""
    uploading.start()
    uploading.own = uploading.owned(OwnState.CLAIMED, 1)
    uploading.wrote(b"the last words\n")
    uploading.turn()
    uploading.hosted.clear()
    uploading.own = uploading.owned(OwnState.CLAIMED, 2)  # the leader has waited, and started it elsewhere
    uploading.restart()
    uploading.turn()
    assert uploading.text(key()) == b"the last words\n"


def test_what_was_noted_when_the_supervisor_was_killed_is_taken_up_by_the_next(uploading: UploadRig) -> None:
    uploading.wrote(b"x\n")
    uploading.end()
    assert os.listdir(uploading.runtime_dir / ENDED) and not (uploading.log_dir / WAITING).exists()
    uploading.restart()
    uploading.turn()
    assert uploading.text(key()) == b"x\n" and os.listdir(uploading.runtime_dir / ENDED) == []


def test_an_attempt_that_has_left_nothing_is_said_to_be_missing(uploading: UploadRig) -> None:
    uploading.own = uploading.owned(OwnState.CLAIMED, 1)
    uploading.wrote(b"x\n").unlink()
    uploading.end()
    uploading.turn()
    assert uploading.logged == ["log_not_uploaded"] and uploading.waiting() == []


def test_the_same_attempt_is_uploaded_once_whoever_does_it(uploading: UploadRig) -> None:
    """Hosts may share their log directory; and a process may be killed before it removes the name."""
    uploading.wrote(b"first\n")
    uploading.end()
    uploading.turn()
    before = uploading.stored()
    uploading.wrote(b"first\nand more\n")
    uploading.end()
    uploading.turn()
    assert uploading.stored() == before and uploading.waiting() == []


def test_only_the_end_of_a_long_output_is_uploaded_from_a_line_on(uploading: UploadRig) -> None:
    path = uploading.wrote(b"".join(b"%015d\n" % number for number in range(2**20)))
    path.with_name(f"{path.name}.1").write_bytes(b"old\n" * 2**20)
    path.write_bytes(path.read_bytes()[5:])  # so that the cut is within a line
    uploading.end()
    uploading.turn()
    text = uploading.text(key())
    assert OUTPUT_MAX_BYTES - 100 < len(text) < OUTPUT_MAX_BYTES
    assert text.startswith(b"old\n") and text.endswith(b"%015d\n" % (2**20 - 1))


def test_an_output_that_grows_while_it_is_read_has_an_end(
    uploading: UploadRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of the job's user may write for ever."""
    path = uploading.wrote(b"x" * 2**16)
    monkeypatch.setattr(uploaded_output, "OUTPUT_MAX_BYTES", 2**20)
    real = uploaded_output.LogParts.read

    def growing(parts: Any, position: Any, max_bytes: int) -> Any:
        with path.open("ab") as file:
            file.write(b"y" * 2 * max_bytes)
        return real(parts, position, max_bytes)

    monkeypatch.setattr(uploaded_output.LogParts, "read", growing)
    uploading.end()
    uploading.turn()
    assert len(uploading.text(key())) <= 2**20


@pytest.mark.parametrize("at_s", [-5_000_000_000, 0, 2**33])
def test_a_time_of_the_file_that_a_job_has_set(uploading: UploadRig, at_s: int) -> None:
    path = uploading.wrote(b"x\n")
    os.utime(path, (at_s, at_s))
    uploading.end()
    uploading.turn()
    assert uploading.text(key()) == b"x\n"


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("attack", [os.mkfifo, link, Path.mkdir])
def test_what_a_job_puts_in_place_of_its_output_is_not_uploaded_and_keeps_no_other(
    uploading: UploadRig, attack: Callable[[Path], None]
) -> None:
    uploading.wrote(b"x\n").unlink()
    attack(uploading.log_dir / "clicks" / f"{UID}.1.log")
    uploading.wrote(b"fine\n", 2)
    uploading.end(1)
    uploading.end(2)
    uploading.own = uploading.owned(OwnState.EXITED, 2)
    thread = threading.Thread(target=uploading.turn, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it waits"
    assert sorted(uploading.logged) == ["log_not_uploaded", "log_uploaded"]
    assert list(uploading.stored()) == [str(key(2))] and uploading.waiting() == []


def test_names_that_somebody_else_has_made_are_left_alone(uploading: UploadRig) -> None:
    waiting = uploading.log_dir / WAITING
    waiting.mkdir(parents=True)
    names = [
        "..",
        "x",
        f"clicks.{UID}.0.5",
        f"clicks.{UID}.1.0",
        f"Clicks.{UID}.1.5",
        f"..%2f.{UID}.1.5",
        "a.b.c.d",
    ]
    for name in names[1:]:
        (waiting / name).touch()
    os.mkfifo(waiting / f"clicks.{UID}.1.5")
    uploading.wrote(b"x\n")
    uploading.turn()
    assert list(uploading.stored()) == [str(key())], "a name is all that counts"
    assert uploading.waiting() == sorted(names[1:])


def test_a_defect_of_one_output_keeps_no_other(uploading: UploadRig, monkeypatch: pytest.MonkeyPatch) -> None:
    real = log_uploads.pack

    def broken(path: Path, target: Any) -> int | None:
        if path.name.endswith(".1.log"):
            raise ValueError("a defect")
        return real(path, target)

    monkeypatch.setattr(log_uploads, "pack", broken)
    for attempt in (1, 2):
        uploading.wrote(b"x\n", attempt)
        uploading.end(attempt)
    uploading.own = uploading.owned(OwnState.EXITED, 2)
    uploading.turn()
    assert uploading.logged == ["item_failed", "log_uploaded"] and uploading.waiting() == [
        f"clicks.{UID}.1.5"
    ]


def test_a_disk_that_takes_nothing_keeps_what_was_noted(uploading: UploadRig) -> None:
    uploading.log_dir.write_text("a file where a directory should be")
    uploading.end()
    uploading.turn()
    assert os.listdir(uploading.runtime_dir / ENDED) == [f"clicks.{UID}.1.5"]
    uploading.log_dir.unlink()
    uploading.wrote(b"x\n")
    uploading.turn()
    assert uploading.text(key()) == b"x\n"


def test_an_end_that_can_not_be_noted_raises_nothing(uploading: UploadRig) -> None:
    (uploading.runtime_dir / ENDED).write_text("a file where a directory should be")
    with capture_logs() as logged:
        uploading.end()
    assert [line["event"] for line in logged] == ["log_not_uploaded"]


def test_the_thread_uploads_and_stops(uploading: UploadRig) -> None:
    uploading.wrote(b"x\n")
    uploading.uploads.start()
    uploading.end()
    for _ in range(500):
        if uploading.stored():
            break
        threading.Event().wait(0.02)
    uploading.uploads.stop()
    # stop waits for nothing: the thread may still be in its turn
    assert uploading.text(key()) == b"x\n" and uploading.uploads._loop.join(30.0)


class KilledHere(BaseException):
    """The process is killed at this call."""


CALLS = (
    (os, "open"),
    (os, "close"),
    (os, "mkdir"),
    (os, "scandir"),
    (os, "unlink"),
    (log_uploads.tempfile, "TemporaryFile"),
    (log_uploads, "pack"),
    (UploadedLogs, "put"),
)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whoever_is_killed_at_any_call_the_next_uploads_it_once_and_leaves_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    number, is_over = 0, False
    while not is_over:
        number += 1
        (tmp_path / str(number)).mkdir()
        uploading = UploadRig(tmp_path / str(number))
        uploading.own = uploading.owned(OwnState.CLAIMED, 1)
        uploading.start()
        uploading.wrote(b"x\n")
        with monkeypatch.context() as patch:
            left = killed_at(patch, number, after)
            for step in (uploading.turn, uploading.end, partial(bury, uploading), uploading.turn):
                try:
                    step()
                except KilledHere:
                    uploading.restart()
                    step()  # the guardian finds the directory again; the thread has another turn
            is_over = left[0] > 0
        uploading.turn()
        assert uploading.text(key()) == b"x\n" and uploading.waiting() == [], f"killed at call {number}"
        assert os.listdir(uploading.runtime_dir / ENDED) == [], f"killed at call {number}"
    assert number > 15, "there are more calls than that"


def bury(uploading: UploadRig) -> None:
    uploading.own = uploading.owned(OwnState.EXITED, 1)


def killed_at(patch: pytest.MonkeyPatch, number: int, after: bool) -> list[int]:
    """Returns how many calls are left until the one that kills, which does so once."""
    left = [number]

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return real(*arguments, **named)  # of the store
            left[0] -= 1
            if left[0] == 0 and not after:
                raise KilledHere
            found = real(*arguments, **named)
            if left[0] == 0:
                raise KilledHere
            return found

        return call

    for of, name in CALLS:
        patch.setattr(of, name, wrapped(getattr(of, name)))
    return left
