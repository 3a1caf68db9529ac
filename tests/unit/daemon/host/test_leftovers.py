"""What drivers of other users have left: put aside by the agent, removed elsewhere, as that user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from supervisor.clients.channel import USER, make_channel, open_to
from supervisor.daemon.host import leftovers as leftovers_module
from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.daemon.host.leftovers import Leftovers
from supervisor.model.host_directories import LEFTOVERS, SCRATCH

KEY = "uid-a.1"


@pytest.fixture
def hosted(tmp_path: Path) -> HostedAttempts:
    made = HostedAttempts(tmp_path / "run", tmp_path / "log")
    (made.work_dir / KEY).mkdir(parents=True)
    return made


@pytest.fixture(autouse=True)
def as_user(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[str, ...]]]:
    """In place of a process of that user: what it was asked."""
    asked: list[tuple[int, tuple[str, ...]]] = []
    monkeypatch.setattr(
        leftovers_module,
        "empty_as",
        lambda uid, directories, _limit_s: asked.append((uid, tuple(directories))),
    )
    return asked


def aside(hosted: HostedAttempts) -> list[str]:
    directory = hosted.work_dir / LEFTOVERS
    return sorted(os.listdir(directory)) if directory.exists() else []


def test_what_is_the_supervisors_own_goes_at_once(hosted: HostedAttempts) -> None:
    hosted.tidy(frozenset())
    assert os.listdir(hosted.work_dir) == []


def test_what_a_user_could_write_to_is_only_put_aside(
    hosted: HostedAttempts, as_user: list[tuple[int, tuple[str, ...]]]
) -> None:
    work = hosted.work_dir / KEY
    make_channel(str(work), 20001)
    (work / "channel" / "driver" / "of-the-user").touch()
    hosted.tidy(frozenset({KEY}))
    assert work.exists(), "it is being started"
    hosted.tidy(frozenset())
    (name,) = aside(hosted)
    assert name.startswith(f"{KEY}.") and not work.exists() and as_user == []
    hosted.tidy(frozenset())
    assert aside(hosted) == [name]
    hosted.leftovers.remove()
    there = hosted.work_dir / LEFTOVERS / name
    assert as_user == [(20001, (str(there / "channel" / "driver"),))]
    assert there.exists(), "nothing of the user is gone through"
    hosted.leftovers.remove()
    assert len(as_user) == 1, "not again at once"


def test_what_the_user_has_left_nothing_in_goes(hosted: HostedAttempts, as_user: list[object]) -> None:
    make_channel(str(hosted.work_dir / KEY), 20001)
    hosted.tidy(frozenset())
    hosted.leftovers.remove()
    assert aside(hosted) == [] and as_user == []


def test_a_number_that_comes_up_again_meets_nothing_of_before(hosted: HostedAttempts) -> None:
    for _ in range(2):
        make_channel(str(hosted.work_dir / KEY), 20001)
        hosted.tidy(frozenset())
        (hosted.work_dir / KEY).mkdir()
    assert len(aside(hosted)) == 2


def test_where_nobody_knows_whose_it_is_it_stays_and_is_said_once(
    hosted: HostedAttempts, as_user: list[object]
) -> None:
    """The mark was cut short when the host went down: the agent does not go through what a user may have left."""
    make_channel(str(hosted.work_dir / KEY), 20001)
    (hosted.work_dir / KEY / USER).write_bytes(b"")
    with capture_logs() as logged:
        hosted.tidy(frozenset())
        hosted.remove_leftovers()
        hosted.remove_leftovers()
    (there,) = aside(hosted)
    assert there.startswith(f"{KEY}.") and as_user == []
    assert [line["event"] for line in logged] == ["leftovers_not_removed"]


def test_a_round_of_removals_has_an_end(
    hosted: HostedAttempts, as_user: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_channel(str(hosted.work_dir / KEY), 20001)
    (hosted.work_dir / KEY / "channel/driver/left").touch()
    hosted.tidy(frozenset())
    with monkeypatch.context() as patch:
        patch.setattr(leftovers_module, "LIMIT_S", 0.0)
        hosted.remove_leftovers()
    assert as_user == []
    hosted.remove_leftovers()
    assert len(as_user) == 1


def test_there_is_nothing_to_remove(tmp_path: Path) -> None:
    Leftovers(tmp_path / "work").remove()


def tmp_of(hosted: HostedAttempts, key: str) -> Path:
    """The temporary directory of an attempt, with what a driver that was killed leaves."""
    scratch = hosted.state.tmp_of(key) / SCRATCH
    for name in ("blockmgr-1/0a", "spark-2/userFiles-3", "rocksdb-4"):
        (scratch / name).mkdir(parents=True)
        (scratch / name / "left").write_bytes(b"x" * 1000)
    (scratch / "libzstd-jni.so").write_bytes(b"x" * 1000)
    return scratch


def test_a_hundred_drivers_that_were_killed_leave_no_temporary_file(hosted: HostedAttempts) -> None:
    for number in range(100):
        key = f"uid-a.{number}" if number % 3 else f"uid-a.p{number}"
        scratch = tmp_of(hosted, key)
        hosted.tidy(frozenset({key}))
        assert scratch.exists(), "it is being started"
        hosted.tidy(frozenset())
        assert not scratch.exists()
    hosted.remove_leftovers()
    assert os.listdir(hosted.state.tmp) == [LEFTOVERS] and os.listdir(hosted.state.tmp / LEFTOVERS) == []


def test_the_temporary_directory_of_a_driver_that_was_handed_over_stays_with_it(
    hosted: HostedAttempts,
) -> None:
    scratch = tmp_of(hosted, "uid-a.p7")
    (hosted.attempts_dir / "uid-a.p7").mkdir(parents=True)
    (hosted.attempts_dir / KEY).symlink_to("uid-a.p7")
    hosted.tidy(frozenset())
    assert scratch.exists()


def test_a_temporary_directory_of_another_user_is_emptied_as_that_user(
    hosted: HostedAttempts, as_user: list[tuple[int, tuple[str, ...]]]
) -> None:
    scratch = tmp_of(hosted, KEY)
    open_to(str(scratch.parent), SCRATCH, 20001)
    hosted.tidy(frozenset())
    hosted.remove_leftovers()
    (there,) = (hosted.state.tmp / LEFTOVERS).iterdir()
    assert as_user == [(20001, (str(there / SCRATCH),))] and (there / SCRATCH).exists()


def test_a_working_directory_outlives_the_attempts_of_its_job(hosted: HostedAttempts) -> None:
    written = hosted.state.of_job("uid-a") / "cwd" / "out" / "part-0.parquet"
    written.parent.mkdir(parents=True)
    written.write_text("rows")
    for _ in range(2):
        hosted.tidy(frozenset())
        hosted.remove_leftovers()
    assert written.read_text() == "rows"
