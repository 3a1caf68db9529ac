"""What run directories and links show of attempts and prepared drivers, and what is tidied up."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.clients import run_dir
from supervisor.daemon.host.hosted_attempts import HostedAttempts, HostedState, read_handed, read_launch
from supervisor.errors import Corrupt
from supervisor.records.codec import encode
from tests.unit.daemon.host.prepared_bench import GONE, hand, launch_of, request, stand
from tests.unit.shim.world import LAUNCH

KEY, NAME = "uid-a.p1", "uid-a.3"


@pytest.fixture
def hosted(tmp_path: Path) -> HostedAttempts:
    return HostedAttempts(tmp_path / "run", tmp_path / "log")


def test_a_prepared_driver_is_no_attempt(hosted: HostedAttempts) -> None:
    stand(hosted, KEY, request())
    assert hosted.keys() == frozenset() and hosted.launches() == {}
    assert set(hosted.prepared()) == {KEY}
    assert hosted.state_of(NAME) is HostedState.NONE


def test_what_was_handed_over_is_an_attempt_and_no_prepared_driver_any_more(hosted: HostedAttempts) -> None:
    stand(hosted, KEY, request())
    hosted.launches()
    handed = hand(hosted, KEY, 3)
    assert hosted.keys() == {NAME} and hosted.launches() == {NAME: handed}
    assert hosted.prepared() == {}
    assert hosted.is_alive(NAME) and hosted.has(NAME) and hosted.state_of(NAME) is HostedState.HOSTED


def test_a_name_without_a_hand_over_is_linked_only(hosted: HostedAttempts) -> None:
    """The agent died between the two; it goes on there."""
    stand(hosted, KEY, request())
    (hosted.attempts_dir / NAME).symlink_to(KEY)
    assert hosted.launches() == {} and set(hosted.prepared()) == {KEY}
    assert hosted.state_of(NAME) is HostedState.LINKED


def test_an_attempt_whose_prepared_driver_is_dead_or_gone_is_lost(hosted: HostedAttempts) -> None:
    directory = stand(hosted, KEY, request())
    hand(hosted, KEY, 3)
    run_dir.write_process(str(directory / run_dir.SHIM), GONE, "c")
    assert hosted.state_of(NAME) is HostedState.LOST
    shutil.rmtree(directory)
    assert hosted.state_of(NAME) is HostedState.LOST
    assert hosted.launches() == {}


@pytest.mark.parametrize("target", ["/tmp", "../x", "uid-b.p1", "uid-a.4", "uid-a.p", "/run/uid-a.p1", NAME])
def test_other_links_are_not_ours(hosted: HostedAttempts, target: str) -> None:
    hosted.attempts_dir.mkdir(parents=True)
    (hosted.attempts_dir / NAME).symlink_to(target)
    assert hosted.prepared_key_of(NAME) is None
    assert hosted.state_of(NAME) is not HostedState.LOST
    hosted.tidy(frozenset())
    assert (hosted.attempts_dir / NAME).is_symlink() or target == "uid-b.p1", "it leads nowhere"


def test_only_what_is_about_this_very_driver_and_attempt_is_believed(hosted: HostedAttempts) -> None:
    directory = stand(hosted, KEY, request())
    handed = hand(hosted, KEY, 3)
    (hosted.attempts_dir / "uid-a.4").symlink_to(KEY)
    assert set(hosted.launches()) == {NAME}, "the link is of another attempt"
    copy = hosted.attempts_dir / "uid-a.p2"
    shutil.copytree(directory, copy)
    with pytest.raises(Corrupt):
        read_launch(str(copy), "uid-a.p2")
    with pytest.raises(Corrupt):
        read_handed(str(copy), "uid-a.p2")
    for odd in (
        replace(handed, prepared=""),
        replace(handed, cgroup="/sys/fs/cgroup/x/other-1"),
        replace(handed, assignment=replace(handed.assignment, attempt=0)),
        replace(handed, assignment=replace(handed.assignment, uid="uid-b")),
    ):
        (directory / run_dir.HANDED).write_bytes(encode(odd, 1 << 20))
        with pytest.raises(Corrupt):
            read_handed(str(directory), KEY)
    for shape in (b"", b"{", b"x" * (5 << 20)):
        (directory / run_dir.HANDED).write_bytes(shape)
        with pytest.raises(Corrupt):
            read_handed(str(directory), KEY)
    (directory / run_dir.HANDED).unlink()
    assert read_handed(str(directory), KEY) is None


def test_an_attempt_in_a_prepared_directory_is_not_believed(hosted: HostedAttempts) -> None:
    lied = launch_of(request(), KEY, assignment=replace(LAUNCH.assignment, uid="uid-a", attempt=3))
    stand(hosted, KEY, request(), launch=lied)
    assert hosted.prepared() == {} and hosted.launches() == {}


def test_work_and_files_of_prepared_drivers_stay_while_their_directory_is_there(
    hosted: HostedAttempts,
) -> None:
    directory = stand(hosted, KEY, request())
    hand(hosted, KEY, 3)
    for made in (KEY, NAME, "uid-b.p7", "uid-c.1", "uid-d.p9"):
        (hosted.work_dir / made).mkdir(parents=True)
    for uid in ("uid-a", "uid-b", "uid-d"):
        (hosted.artifacts_dir / uid).mkdir(parents=True)
    hosted.tidy(frozenset({"uid-d.p9"}))
    assert set(os.listdir(hosted.work_dir)) == {KEY, "uid-d.p9"}, "the work of the attempt is there"
    assert set(os.listdir(hosted.artifacts_dir)) == {"uid-a", "uid-d"}
    shutil.rmtree(directory)
    hosted.tidy(frozenset(), frozenset({NAME}))
    assert (hosted.attempts_dir / NAME).is_symlink(), "it says that the attempt was lost here"
    hosted.tidy(frozenset())
    assert not (hosted.attempts_dir / NAME).is_symlink()
    assert os.listdir(hosted.work_dir) == []


def test_a_number_that_comes_up_again_is_read_anew(hosted: HostedAttempts) -> None:
    for key in (KEY, "uid-a.p2"):
        directory = stand(hosted, key, request())
        assert hosted.launches() == {} or key != KEY
        handed = hand(hosted, key, 3)
        assert hosted.launches() == {NAME: handed}
        shutil.rmtree(directory)
        (hosted.attempts_dir / NAME).unlink()
