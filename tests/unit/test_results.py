"""Results of runs are kept in generated files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.results import ROOT, Measured, RunResult, read, write

KEPT = sorted((ROOT / "tests").rglob("RESULTS.md"))

ONE = RunResult(
    title="Bounded",
    date="2026-11-22",
    commit="db7c278",
    command="python -m tests.explore",
    seconds="1,110",
    columns=("scenario", "states", ""),
    rows=(("submit", "131", "complete"), ("cancel", "321", "")),
    remarks="Beside other work.\n\nNo violation.",
)


def test_what_is_written_is_read_again_with_sorted_rows(tmp_path: Path) -> None:
    write(tmp_path / "RESULTS.md", ONE)
    assert read(tmp_path / "RESULTS.md") == {"Bounded": replace(ONE, rows=tuple(sorted(ONE.rows)))}


def test_a_section_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    write(path, ONE, replace(ONE, title="Another"))
    write(path, replace(ONE, commit="45da503", rows=()))
    assert [(title, result.commit) for title, result in read(path).items()] == [
        ("Another", "db7c278"),
        ("Bounded", "45da503"),
    ]


def test_writing_twice_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    write(path, ONE)
    first = path.read_text()
    write(path, ONE)
    assert path.read_text() == first


def test_a_section_without_its_circumstances_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    path.write_text("## Bounded\n\n| a |\n|---|\n")
    with pytest.raises(ValueError, match="does not say when and how"):
        read(path)


def test_a_command_writes_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests" / "chaos").mkdir(parents=True)
    monkeypatch.setattr("tests.results.ROOT", tmp_path)
    monkeypatch.setattr("tests.results.commit", lambda: "45da503")
    monkeypatch.setattr("sys.argv", ["chaos", "--seed", "7", "--write-results"])
    Measured("chaos").write("Embedded", ("what", "count"), [("faults", "3")])
    (found,) = read(tmp_path / "tests" / "chaos" / "RESULTS.md").values()
    assert (found.command, found.commit, found.rows) == (
        "python -m tests.chaos --seed 7",
        "45da503",
        (("faults", "3"),),
    )


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.parent.name)
def test_a_kept_file_is_as_it_would_be_written(path: Path, tmp_path: Path) -> None:
    write(tmp_path / "RESULTS.md", *read(path).values())
    assert (tmp_path / "RESULTS.md").read_text() == path.read_text()
