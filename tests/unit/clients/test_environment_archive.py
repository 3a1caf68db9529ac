"""What is unpacked of a packed Python environment, and what never is."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor.clients import environment_archive
from supervisor.clients.environment_archive import ForbiddenInterpreter, require_environment, unpack
from supervisor.errors import InvalidInput

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
