"""``api.tokens``: who has a token, and files that are no tokens."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.api.token_file import read_token
from supervisor.api.tokens import TokenFiles, unused_files
from supervisor.clients import reread_files
from supervisor.errors import InvalidInput

ONE, TWO = "1" * 64, "2" * 32


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "grafana", tmp_path / "laptops"]
    for path, token in zip(paths, (ONE, TWO), strict=True):
        path.write_text(f"{token}\n")
        path.chmod(0o600)
    return paths


def test_each_token_is_admitted_and_nothing_else(files: list[Path]) -> None:
    known = TokenFiles(files, Clock())
    for header in (f"Bearer {ONE}", f"bearer {TWO}", f"  BEARER   {TWO} "):
        assert known.holder(header), header
    for wrong in (
        None,
        "",
        "Bearer",
        "Bearer ",
        ONE,
        f"Basic {ONE}",
        f"Bearer {ONE[:-1]}",
        f"Bearer {ONE}1",
        f"Bearer {ONE} {TWO}",
        "Bearer \u00e9",
    ):
        assert not known.holder(wrong), wrong


def test_a_token_is_changed_without_a_restart(files: list[Path]) -> None:
    clock = Clock()
    known = TokenFiles(files, clock)
    files[0].write_text("3" * 40)
    assert known.holder(f"Bearer {ONE}")
    clock.now_s += reread_files.RECHECK_S
    assert known.holder(f"Bearer {'3' * 40}") and not known.holder(f"Bearer {ONE}")


def test_a_file_that_breaks_later_neither_opens_nor_closes(files: list[Path]) -> None:
    clock = Clock()
    known = TokenFiles(files, clock)
    files[0].write_text("short")
    clock.now_s += reread_files.RECHECK_S
    assert known.holder(f"Bearer {ONE}") and not known.holder("Bearer short")


@pytest.mark.parametrize(
    "withdraw", [lambda path: path.write_text("\n"), Path.unlink, lambda path: path.write_text("")]
)
def test_a_token_is_withdrawn_by_emptying_or_removing_its_file(
    files: list[Path], withdraw: Callable[[Path], object]
) -> None:
    clock = Clock()
    known = TokenFiles(files, clock)
    withdraw(files[0])
    clock.now_s += reread_files.RECHECK_S
    assert not known.holder(f"Bearer {ONE}") and known.holder(f"Bearer {TWO}") and not known.holder("Bearer ")
    started = TokenFiles(files, clock)  # and no supervisor is kept from starting by it
    assert not started.holder(f"Bearer {ONE}") and started.holder(f"Bearer {TWO}")
    assert unused_files(files, []) == [files[0]] and unused_files(files[1:], []) == []


@pytest.mark.parametrize("other", ["everybody may read it", "it is short", "it is gone"])
def test_a_file_that_breaks_keeps_no_token_of_another_file_alive(files: list[Path], other: str) -> None:
    clock = Clock()
    known = TokenFiles(files[:1], clock, files[1:])
    {
        "everybody may read it": lambda: files[0].chmod(0o644),
        "it is short": lambda: files[0].write_text("short"),
        "it is gone": files[0].unlink,
    }[other]()
    clock.now_s += reread_files.RECHECK_S
    known.holder(None)
    files[1].write_text("3" * 40)
    clock.now_s += reread_files.RECHECK_S
    assert not known.holder(f"Bearer {TWO}")
    holder = known.holder(f"Bearer {'3' * 40}")
    assert holder is not None and holder.may_write


def test_operators_who_swap_their_tokens_are_told_apart(files: list[Path]) -> None:
    clock = Clock()
    known = TokenFiles([], clock, files)
    files[0].write_text(TWO)
    files[1].write_text(ONE)
    clock.now_s += reread_files.RECHECK_S
    assert known.holder(f"Bearer {TWO}") == ("grafana", True) and known.holder(f"Bearer {ONE}") == (
        "laptops",
        True,
    )


def test_a_token_that_an_operator_shares_is_only_that_of_the_file_before(files: list[Path]) -> None:
    clock = Clock()
    known = TokenFiles([], clock, files)
    files[1].write_text(ONE)
    clock.now_s += reread_files.RECHECK_S
    assert known.holder(f"Bearer {ONE}") == ("grafana", True)
    assert known.holder(f"Bearer {TWO}") == ("laptops", True)  # what it has now can't count
    files[0].write_text(TWO)
    clock.now_s += reread_files.RECHECK_S
    assert known.holder(f"Bearer {TWO}") == ("grafana", True)  # never two holders of one token


def test_a_new_token_counts_once_its_permissions_are_mended(files: list[Path]) -> None:
    clock = Clock()
    known = TokenFiles(files, clock)
    files[0].write_text("3" * 40)
    files[0].chmod(0o644)
    clock.now_s += reread_files.RECHECK_S
    assert known.holder(f"Bearer {ONE}"), "everybody may read the new one"
    files[0].chmod(0o600)
    clock.now_s += reread_files.RECHECK_S
    assert known.holder(f"Bearer {'3' * 40}") and not known.holder(f"Bearer {ONE}")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"short",
        b"1" * 31,
        b"1" * 600,
        b"1" * 20 + b" " + b"1" * 20,
        b"\xff" * 40,
        b"1" * 40 + b"\n" + b"2" * 40,
    ],
)
def test_what_is_no_token_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InvalidInput, match="write one line|not UTF-8") as refused:
        read_token(path, "api.token_files")
    assert "1" * 20 not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--token-file: .*absent cannot be read"):
        read_token(tmp_path / "absent", "--token-file")


def test_a_pipe_in_the_place_of_a_file_holds_up_nobody(files: list[Path]) -> None:
    files[0].unlink()
    os.mkfifo(files[0], 0o600)
    assert unused_files(files, []) == []
    with pytest.raises(InvalidInput, match="api.token_files"):
        TokenFiles(files, Clock())


def test_a_token_that_everybody_may_read_is_none(files: list[Path]) -> None:
    files[0].chmod(0o644)
    with pytest.raises(InvalidInput, match="api.token_files: everybody may read .*chmod o-rwx"):
        TokenFiles(files, Clock())
