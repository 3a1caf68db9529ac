"""What one more user is granted, by ACL: nothing else changes, and nothing of others is touched."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from supervisor.clients.access import ENTER, READ, WRITE, grant, granted
from supervisor.clients.channel import (
    CHANNEL,
    DRIVERS_OWN,
    let_pass,
    let_read,
    make_channel,
    open_to,
    user_of,
)


def test_a_user_is_granted_beside_those_that_were(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    grant(str(tmp_path), 20001, READ | ENTER)
    grant(str(tmp_path), 20002, READ | WRITE | ENTER)
    grant(str(tmp_path), 20001, ENTER)
    assert granted(str(tmp_path)) == {20001: ENTER, 20002: READ | WRITE | ENTER}
    mode = tmp_path.stat().st_mode
    assert mode & stat.S_IRWXU == 0o700 and mode & stat.S_IRWXO == 0, "the group's bits are the mask"


def test_a_link_is_not_followed_and_a_pipe_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "none"):
        with pytest.raises(OSError):
            grant(str(tmp_path / name), 20001, READ)
    assert granted(str(tmp_path / "there")) == {}


@pytest.mark.users
def test_what_belongs_to_another_user_is_not_opened(tmp_path: Path) -> None:
    os.chown(tmp_path, 20001, 20001)
    with pytest.raises(PermissionError):
        grant(str(tmp_path), 20002, READ)
    assert granted(str(tmp_path)) == {}


def test_a_channel_is_made_again_as_it_was(tmp_path: Path) -> None:
    for _ in range(2):
        channel = make_channel(str(tmp_path), 20001)
    assert channel == str(tmp_path / CHANNEL)
    assert user_of(str(tmp_path)) == 20001
    has = {
        name: granted(str(tmp_path / name)).get(20001) for name in ("", CHANNEL, f"{CHANNEL}/{DRIVERS_OWN}")
    }
    everything = READ | WRITE | ENTER
    assert has == {
        "": READ | ENTER,
        CHANNEL: READ | ENTER,
        f"{CHANNEL}/{DRIVERS_OWN}": everything,
    }
    assert (tmp_path / "user").stat().st_mode & 0o077 == 0


def test_a_directory_is_opened_to_a_user_and_says_to_whom(tmp_path: Path) -> None:
    (tmp_path / "cwd").mkdir(0o700)
    for _ in range(2):
        open_to(str(tmp_path), "cwd", 20001)
    assert (granted(str(tmp_path)), user_of(str(tmp_path))) == ({20001: ENTER}, 20001)
    assert granted(str(tmp_path / "cwd")) == {20001: READ | WRITE | ENTER}


def test_who_has_no_channel_is_the_supervisors_own(tmp_path: Path) -> None:
    assert user_of(str(tmp_path)) is None


def test_files_are_made_readable_and_links_are_left(tmp_path: Path) -> None:
    top, outside = tmp_path / "top", tmp_path / "outside"
    (top / "a").mkdir(parents=True, mode=0o700)
    outside.write_text("x")
    outside.chmod(0o600)
    (top / "a" / "file").touch(0o600)
    (top / "a" / "link").symlink_to(outside)
    top.chmod(0o700)
    let_read(str(top))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (top, top / "a", top / "a" / "file", outside)]
    assert modes == [0o700, 0o755, 0o644, 0o600]
    let_pass(str(top))
    assert stat.S_IMODE(top.stat().st_mode) == 0o711
