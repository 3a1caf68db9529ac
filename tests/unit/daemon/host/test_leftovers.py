"""What drivers of other users have left: put aside by the agent, removed elsewhere, as that user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor.clients.channel import make_channel
from supervisor.daemon.host import leftovers as leftovers_module
from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.daemon.host.leftovers import LEFTOVERS, Leftovers

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
    (work / "cwd" / "of-the-user").touch()
    hosted.tidy(frozenset({KEY}))
    assert work.exists(), "it is being started"
    hosted.tidy(frozenset())
    (name,) = aside(hosted)
    assert name.startswith(f"{KEY}.") and not work.exists() and as_user == []
    hosted.tidy(frozenset())
    assert aside(hosted) == [name]
    hosted.leftovers.remove()
    there = hosted.work_dir / LEFTOVERS / name
    assert as_user == [(20001, (str(there / "cwd"), str(there / "channel" / "driver")))]
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


def test_there_is_nothing_to_remove(tmp_path: Path) -> None:
    Leftovers(tmp_path / "work").remove()
