"""What our own processes make is their user's alone; what is the host's has the host's umask."""

from __future__ import annotations

import os
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.clients import processes, umask
from supervisor.clients.spawn import reap_finished, spawn_detached
from supervisor.clients.store.area import open_area
from supervisor.clients.store.files import FileStore
from supervisor.shim.output import RotatedFile
from supervisor.spec.s3a import S3Access
from tests.waiting import wait_until

USER_OBJ, USER, GROUP_OBJ, MASK, OTHER = 1, 2, 4, 16, 32
NOBODY = 0xFFFFFFFF
"""Tags of acl(5), and the id of an entry that has none."""


def mode_of(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


def modes_below(top: Path) -> set[tuple[bool, str]]:
    return {(path.is_dir(), mode_of(path)) for path in (top, *top.rglob("*"))}


@pytest.fixture(params=[0o022, 0o002, 0o077])
def given(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_private_and_given_back(tmp_path: Path, given: int) -> None:
    assert umask.given() == -1
    with umask.private():
        umask.keep_private()
        assert umask.given() == given
        (tmp_path / "file").write_text("")
        (tmp_path / "dir" / "below").mkdir(mode=0o755, parents=True)
    assert modes_below(tmp_path / "file") == {(False, "0600")}
    assert modes_below(tmp_path / "dir") == {(True, "0700")}
    assert os.umask(given) == given and umask.given() == -1


def test_a_detached_process_gets_the_umask_of_our_start(tmp_path: Path, given: int) -> None:
    with umask.private():
        code = "import os; open('said.new', 'w').write(f'{os.umask(0):04o}'); os.rename('said.new', 'said')"
        child = spawn_detached((sys.executable, "-c", code), dict(os.environ), str(tmp_path), None)
    wait_until((tmp_path / "said").exists, what="the child's word")
    wait_until(lambda: not processes.alive(child))
    reap_finished()
    assert (tmp_path / "said").read_text() == f"{given:04o}"


def test_a_store_on_a_shared_file_system_is_as_the_host_says(tmp_path: Path, given: int) -> None:
    with umask.private():
        store = FileStore(tmp_path / "shares" / "store")
        store.check()
        store.create("a/b/c", b"x")
        area = open_area(f"file://{tmp_path}/area", S3Access())
        area.write("a/b", b"x")
    for top in ("shares", "area"):
        assert modes_below(tmp_path / top) == {
            (True, f"{0o777 & ~given:04o}"),
            (False, f"{0o666 & ~given:04o}"),
        }


def test_what_a_file_system_lets_others_do_is_left_to_it(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    made.chmod(0o2770)
    with umask.private():
        umask.share(str(made))
        umask.share(str(tmp_path / "gone"))
    assert mode_of(made) == "2770"
    made.chmod(0o2700)
    with umask.private():
        umask.share(str(made))
    assert stat.S_IMODE(made.stat().st_mode) & 0o2000, "the group is inherited as before"


def test_a_default_acl_goes_before_the_umask(tmp_path: Path) -> None:
    """What README.md tells for a log shipper of another user, and why a store with one is left alone."""
    entries = (
        (USER_OBJ, 7, NOBODY),
        (USER, 5, 4242),
        (GROUP_OBJ, 0, NOBODY),
        (MASK, 7, NOBODY),
        (OTHER, 0, NOBODY),
    )
    top = tmp_path / "log"
    top.mkdir()
    try:
        os.setxattr(
            top,
            "system.posix_acl_default",
            struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries),
        )
    except OSError as error:
        pytest.skip(f"no ACLs here: {error}")
    with umask.private():
        (top / "job").mkdir(mode=0o750)
        file = RotatedFile(str(top / "job" / "driver.log"), 1000, 2)
        file.write(b"x")
        file.close()
        umask.share(str(top / "job"))
    assert (mode_of(top / "job"), mode_of(top / "job" / "driver.log")) == ("0750", "0640"), (
        "group: the mask of the ACL"
    )
    assert struct.pack("<HHI", USER, 5, 4242) in os.getxattr(
        top / "job" / "driver.log", "system.posix_acl_access"
    )


def test_shared_directories_where_none_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        umask.make_shared_directories(str(tmp_path / "file"))
    with pytest.raises(NotADirectoryError):
        umask.make_shared_directories(str(tmp_path / "file" / "a" / "b"))


def test_a_directory_that_can_not_be_made_is_an_error_and_no_endless_attempt(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in ("/proc/none/below", f"{tmp_path}/file/below/it"):
        with pytest.raises(OSError):
            umask.make_shared_directories(path)
    umask.make_shared_directories(f"{tmp_path}/a/b/c")
    umask.make_shared_directories(f"{tmp_path}/a/b/c")
    assert (tmp_path / "a/b/c").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_root_writes_to_the_store_of_another_user_is_that_users(tmp_path: Path) -> None:
    """A submit as root made specs/ and audit/ root's: the supervisor could write there no more."""
    home = tmp_path / "store"
    home.mkdir()
    os.chown(home, 1234, 1234)
    FileStore(home).create("specs/00/a.json", b"{}")
    made = [*home.rglob("*")]
    assert {path.name for path in made} >= {"specs", "00", "a.json", ".tmp"}
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in made} == {(1234, 1234)}
