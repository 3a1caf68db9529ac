"""Files of a spec in a working directory that outlives attempts, and to which another user can write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor.spark.placed_files import gather, place_files
from supervisor.spark.refusal import Refused


class Bench:
    def __init__(self, directory: Path) -> None:
        self.cwd, self._store = directory / "job" / "cwd", directory / "store"
        self.cwd.mkdir(parents=True)
        self._store.mkdir()

    def file(self, name: str, text: str) -> dict[str, Path]:
        path = self._store / name
        path.write_text(text)
        return {name: path}

    def there(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.cwd.iterdir() if path.is_file()}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_file_is_there_by_its_name_and_goes_with_its_key(bench: Bench) -> None:
    place_files(bench.cwd, bench.file("a.json", "1") | bench.file("b.jks", "2"), may_change=True)
    assert bench.there() == {"a.json": "1", "b.jks": "2"}
    (bench.cwd / "own").write_text("of the application")
    place_files(bench.cwd, bench.file("a.json", "3"), may_change=True)
    assert bench.there() == {"a.json": "3", "own": "of the application"}
    place_files(bench.cwd, {}, may_change=True)
    assert bench.there() == {"own": "of the application"}


def test_what_is_right_is_left_as_it_is(bench: Bench) -> None:
    place_files(bench.cwd, bench.file("a.json", "1"), may_change=True)
    before = (bench.cwd / "a.json").stat().st_ino
    place_files(bench.cwd, bench.file("a.json", "1"), may_change=False)
    assert (bench.cwd / "a.json").stat().st_ino == before


def test_no_link_of_the_driver_is_followed(bench: Bench, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("1")
    (bench.cwd / "a.json").symlink_to(victim)
    place_files(bench.cwd, bench.file("a.json", "1"), may_change=True)
    assert not (bench.cwd / "a.json").is_symlink() and bench.there() == {"a.json": "1"}
    (bench.cwd / "a.json").unlink()
    os.mkfifo(bench.cwd / "a.json")
    place_files(bench.cwd, bench.file("a.json", "2"), may_change=True)
    assert bench.there() == {"a.json": "2"} and victim.read_text() == "1"


def test_a_directory_of_that_name_is_told(bench: Bench) -> None:
    (bench.cwd / "a.json").mkdir()
    with pytest.raises(Refused, match="has a directory 'a.json'"):
        place_files(bench.cwd, bench.file("a.json", "1"), may_change=True)
    assert os.listdir(bench.cwd) == ["a.json"]


def test_beside_a_driver_that_runs_nothing_is_changed(bench: Bench) -> None:
    place_files(bench.cwd, bench.file("a.json", "1"), may_change=True)
    for others in (bench.file("a.json", "2"), {}, bench.file("b.json", "1")):
        with pytest.raises(Refused, match="can't be prepared"):
            place_files(bench.cwd, others, may_change=False)
    assert bench.there() == {"a.json": "1"}


def test_an_application_lies_beside_its_files(bench: Bench, tmp_path: Path) -> None:
    directory = tmp_path / "together"
    directory.mkdir()
    (application,) = bench.file("app.py", "pass").values()
    for _ in range(2):
        found = gather(application, bench.file("a.json", "1"), directory)
    assert found == directory / "app.py" and sorted(os.listdir(directory)) == ["a.json", "app.py"]
