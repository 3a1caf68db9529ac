"""What is unpacked of a packed Python environment, and what never is."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor.clients import environment_archive, unzipped
from supervisor.clients.environment_archive import ForbiddenInterpreter, require_environment
from supervisor.clients.opened_as import open_as
from supervisor.errors import InvalidInput, Unreachable

UNPACKS = pytest.mark.skipif(
    not hasattr(tarfile, "data_filter"), reason="Python unpacks nothing safely before 3.11.4"
)
pytestmark = UNPACKS

Member = tuple[str, str | bytes | None, int]
"""Its name, its content (a text is a link's target; None is a directory), its mode."""
PYTHON: Member = ("bin/python", b"#!/bin/sh\n", 0o755)


def packed(path: Path, *members: Member, kind: bytes | None = None) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content, mode in members:
            info = tarfile.TarInfo(name)
            info.mode = mode
            if content is None:
                info.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                info.type, info.linkname = kind or tarfile.SYMTYPE, content
            data = content if isinstance(content, bytes) else b""
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def unpack(archive: Path, target: Path, is_allowed: Callable[[str], bool]) -> str:
    with open_as(str(archive), None) as file:
        return environment_archive.unpack(archive, file, target, is_allowed)


def unpacked(
    tmp_path: Path,
    *members: Member,
    kind: bytes | None = None,
    allowed: Callable[[str], bool] = lambda _: False,
) -> Path:
    target = tmp_path / "target"
    target.mkdir()
    unpack(packed(tmp_path / "env.tar.gz", *members, kind=kind), target, allowed)
    return target


def test_an_environment_with_its_links(tmp_path: Path) -> None:
    target = unpacked(
        tmp_path,
        ("./", None, 0o700),
        ("./lib", None, 0o777),
        ("./lib/a.py", b"A = 1", 0o6666),
        ("./lib64", "lib", 0o777),
        ("./bin/python3", b"#!/bin/sh\n", 0o700),
        ("./bin/python", "python3", 0o777),
        ("./lib/deep/b", "../../bin/python3", 0o777),
    )
    assert (target / "bin" / "python").resolve() == target / "bin" / "python3"
    assert (target / "lib64" / "a.py").read_text() == "A = 1"
    assert (target / "lib" / "a.py").stat().st_mode & 0o7777 == 0o644
    assert (target / "bin" / "python3").stat().st_mode & 0o7777 == 0o755
    assert (target / "lib").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(
    "members",
    [
        [("../out", b"x", 0o644)],
        [("/out", b"x", 0o644)],
        [("lib/../../out", b"x", 0o644)],
        [("lib/x", "/etc/passwd", 0o777)],
        [("lib/x", "../../etc", 0o777)],
        [("lib/x", "a/../../..", 0o777)],
        [("lib", ".", 0o777), ("lib/x", b"x", 0o644)],
        [("a", "b", 0o777), ("a", b"x", 0o644)],
        [("bin/x", "/bin/sh", 0o777)],
        [("lib/bin/x", "/bin/sh", 0o777)],
    ],
)
def test_nothing_leaves_the_target(tmp_path: Path, members: list[Member]) -> None:
    with pytest.raises(InvalidInput):
        unpacked(tmp_path, PYTHON, *members)
    assert not (tmp_path / "out").exists()


def test_a_hard_link_is_one_to_a_file_before_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a link to no file before it"):
        unpacked(tmp_path, PYTHON, ("x", "nothing", 0o644), kind=tarfile.LNKTYPE)


def test_no_device_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        unpacked(tmp_path, PYTHON, ("pipe", "", 0o644), kind=tarfile.FIFOTYPE)


def test_a_link_to_an_interpreter_of_the_host_has_to_be_allowed(tmp_path: Path) -> None:
    link: Member = ("bin/python", "/bin/sh", 0o777)
    with pytest.raises(ForbiddenInterpreter, match=r"bin/python leads to /bin/sh, .* spark\.pythons"):
        unpacked(tmp_path, link)
    (tmp_path / "target").rmdir()
    target = unpacked(tmp_path, link, allowed=lambda path: path == "/bin/sh")
    assert (target / "bin" / "python").readlink() == Path("/bin/sh")


def test_links_in_the_order_of_venv_pack(tmp_path: Path) -> None:
    target = unpacked(
        tmp_path,
        ("lib/python3.11/site-packages/a.py", b"A = 1", 0o644),
        ("lib64", "lib", 0o777),
        ("bin/pip", b"#!/usr/bin/env python\n", 0o755),
        ("bin/python3", "/bin/sh", 0o777),
        ("bin/python", "python3", 0o777),
        ("bin/python3.11", "python3", 0o777),
        ("include/python3.11", None, 0o755),
        ("share/python", "../bin/python", 0o777),
        allowed=lambda path: path == "/bin/sh",
    )
    assert (target / "bin" / "python").readlink() == Path("python3")
    assert (target / "share" / "python").resolve() == Path("/bin/sh").resolve()


@pytest.fixture
def closed() -> Iterator[None]:
    """The umask of the supervisor."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize("top", [(), (("./", None, 0o777),)])
def test_directories_that_the_archive_only_implies_can_be_read_too(
    tmp_path: Path, top: tuple[Member, ...]
) -> None:
    target = unpacked(tmp_path, *top, ("lib/python3.11/a.py", b"A = 1", 0o600), PYTHON)
    for directory in ("lib", "lib/python3.11", "bin"):
        assert (target / directory).stat().st_mode & 0o7777 == 0o755
    assert (target / "lib" / "python3.11" / "a.py").stat().st_mode & 0o7777 == 0o644
    assert target.stat().st_mode & 0o7777 == 0o700


def test_what_is_too_deep_to_be_walked_through_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="lies deeper than 64 directories"):
        unpacked(tmp_path, PYTHON, ("a/" * 1500 + "b", b"", 0o644))


def header(kind: bytes, size: int, name: str = "x") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def raw(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content))
    return path


def refused(archive: Path, tmp_path: Path, match: str) -> None:
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(InvalidInput, match=match):
        unpack(archive, target, lambda _: False)


HEADER_OF_600_KIB = header(tarfile.GNUTYPE_LONGNAME, 600 * 1024) + bytes(600 * 1024)


@pytest.mark.parametrize(
    "content",
    [
        header(tarfile.GNUTYPE_LONGNAME, 4 * 1024**3),
        header(tarfile.GNUTYPE_LONGLINK, 1024**2 + 1),
        header(tarfile.XHDTYPE, 4 * 1024**3),
        header(tarfile.XGLTYPE, 4 * 1024**3),
        header(tarfile.SOLARIS_XHDTYPE, 4 * 1024**3),
        header(tarfile.XHDTYPE, -1024),
        HEADER_OF_600_KIB * 2,
        header(tarfile.REGTYPE, 0) + header(tarfile.XHDTYPE, 4 * 1024**3),
    ],
)
def test_a_long_header_is_refused_before_it_is_read(tmp_path: Path, content: bytes) -> None:
    refused(raw(tmp_path / "a.tar.gz", content), tmp_path, r"a\.tar\.gz is .* a header of more than 1 MiB")


def test_the_map_of_a_sparse_file_is_no_longer_than_a_header(tmp_path: Path) -> None:
    data = b"9999999999\n" + b"0\n" * 1024**2
    with tarfile.open(tmp_path / "sparse.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("sparse")
        info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1"}
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    refused(tmp_path / "sparse.tar.gz", tmp_path, "a header of more than 1 MiB")


def test_a_global_header_before_each_member_does_not_add_up(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for number in range(70):
            tar.fileobj.write(tarfile.TarInfo.create_pax_global_header({f"key{number}": "x"}))
            tar.offset = tar.fileobj.tell()
            tar.addfile(tarfile.TarInfo(f"a{number}"))
    refused(tmp_path / "a.tar.gz", tmp_path, "a header that no packer writes")


def with_pax(archive: Path, name: str, **pax: str) -> Path:
    with tarfile.open(archive, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo(name)
        info.pax_headers = pax
        tar.addfile(info)
    return archive


def test_whatever_tarfile_raises_says_that_the_archive_is_broken(tmp_path: Path) -> None:
    one = header(tarfile.GNUTYPE_LONGNAME, 512) + b"x".ljust(512, b"\0")
    for number, (archive, why) in enumerate(
        (
            (with_pax(tmp_path / "nan.tar.gz", "a", mtime="nan"), "NaN"),
            (with_pax(tmp_path / "late.tar.gz", "a", mtime="1e300"), "out of range"),
            (with_pax(tmp_path / "negative.tar.gz", "a", size="-4096"), ""),
            (with_pax(tmp_path / "long.tar.gz", "a" * 300), "too long"),
            (with_pax(tmp_path / "nul.tar.gz", "a", path="a\0b"), "null"),
            (raw(tmp_path / "nested.tar.gz", one * 500), "recursion"),
            (packed(tmp_path / "file.tar.gz", ("bin", b"", 0o644), PYTHON), "exists|Not a directory"),
            (packed(tmp_path / "dir.tar.gz", ("bin/x", b"", 0o644), ("bin", b"", 0o644)), "directory"),
        )
    ):
        (tmp_path / str(number)).mkdir()
        refused(
            archive,
            tmp_path / str(number),
            rf"^{archive.name} is no usable tar\.gz: .*({why})|header that no",
        )


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE])
def test_what_is_wrong_with_the_host_is_not_said_of_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(*_args: object, **_named: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tarfile.TarFile, "makefile", fail)
    with pytest.raises(Unreachable, match=rf"env\.tar\.gz cannot be unpacked here \({os.strerror(code)}\)"):
        unpacked(tmp_path, PYTHON)


def test_all_that_is_read_is_digested_to_the_end_of_the_file(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.tar.gz", PYTHON, ("lib/x", os.urandom(1_000_000), 0o644))
    archive.write_bytes(archive.read_bytes() + os.urandom(300_000))
    (tmp_path / "target").mkdir()
    found = unpack(archive, tmp_path / "target", lambda _: False)
    assert found == hashlib.sha256(archive.read_bytes()).hexdigest()


class Disk:
    """A file system with ``free`` bytes and ``files``, less ``per_call`` bytes at each time that one asks."""

    def __init__(self, free: int, files: int = 10**6, per_call: int = 0) -> None:
        self.free, self.files, self.per_call = free, files, per_call

    def __call__(self, path: Path) -> os.statvfs_result:
        self.free -= self.per_call
        return os.statvfs_result(
            (1, 1, self.free, self.free, self.free, 10**6, self.files, self.files, 0, 255)
        )


@pytest.mark.parametrize(
    "disk",
    [
        Disk(512 * 1024**2),
        Disk(512 * 1024**2 + 4_000_000),
        Disk(10**12, files=4095),
        Disk(512 * 1024**2 + 14_000_000, per_call=3_000_000),
    ],
    ids=["full", "full by this member", "no files", "filled by others meanwhile"],
)
def test_the_file_system_is_never_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk) -> None:
    monkeypatch.setattr(os, "statvfs", disk)
    monkeypatch.setattr(unzipped, "STEP_BYTES", 1024**2)
    with pytest.raises(
        Unreachable, match=r"has no room for env\.tar\.gz: .* 512 MiB .*have to be left; make room"
    ):
        unpacked(tmp_path, PYTHON, ("large", bytes(5_000_000), 0o644))


def test_what_fits_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", Disk(512 * 1024**2 + 5_100_000))
    assert (unpacked(tmp_path, PYTHON, ("large", bytes(5_000_000), 0o644)) / "large").is_file()


def test_what_is_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain").write_text("no archive")
    whole = packed(tmp_path / "whole.tar.gz", ("lib/x", b"x" * 100_000, 0o644), PYTHON).read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2])
    for name, says in (
        ("plain", "is no usable tar.gz"),
        ("half", "is no usable tar.gz"),
        ("none", "No such file"),
    ):
        for read in (require_environment, lambda path: unpack(path, tmp_path / "t", lambda _: False)):
            with pytest.raises(InvalidInput, match=says):
                read(tmp_path / name)
    without = packed(tmp_path / "without.tar.gz", ("bin/perl", b"", 0o755))
    with pytest.raises(InvalidInput, match="has no bin/python that can be executed"):
        require_environment(without)
    require_environment(packed(tmp_path / "good.tar.gz", PYTHON))
    with pytest.raises(InvalidInput, match="that can be executed"):
        unpacked(tmp_path, ("bin/python", b"", 0o644))
    monkeypatch.setattr(environment_archive, "UNPACKED_MAX_BYTES", 5)
    (tmp_path / "more").mkdir()
    with pytest.raises(InvalidInput, match="is larger than"):
        unpack(packed(tmp_path / "large.tar.gz", PYTHON), tmp_path / "more", lambda _: True)


def test_a_python_that_unpacks_nothing_safely_unpacks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tarfile, "data_filter")
    with pytest.raises(Unreachable, match=r"run it with Python 3\.11\.4 or newer"):
        unpack(packed(tmp_path / "env.tar.gz", PYTHON), tmp_path / "env", lambda _path: True)
