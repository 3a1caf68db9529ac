"""The spec's own file and the local files it names: found beside the spec, or named in the error."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.errors import InvalidInput
from supervisor.spec.files import local_files, read_spec_file, stored_spec

SPEC = "name: a\napplication: jobs/a.py\npy_files: [lib/x.zip]\njars: ['local:/opt/b.jar']\ncheckpoint: /c\n"


@pytest.fixture
def spec_path(tmp_path: Path) -> Path:
    for name in ("jobs/a.py", "lib/x.zip"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    path = tmp_path / "job.yaml"
    path.write_text(SPEC)
    return path


def test_files_are_relative_to_the_spec(spec_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    spec = read_spec_file(spec_path)
    base = spec_path.parent
    assert local_files(spec, base) == (base / "jobs/a.py", base / "lib/x.zip")
    stored = stored_spec(spec, base, {base / "jobs/a.py": "k1", base / "lib/x.zip": "k2"})
    assert (stored.application, stored.py_files) == ("store:k1", ("store:k2",))


def test_a_missing_file_is_named_and_exits_with_2(spec_path: Path) -> None:
    (spec_path.parent / "lib/x.zip").unlink()
    with pytest.raises(
        InvalidInput, match=r"does not exist; 'lib/x\.zip' is relative to the directory"
    ) as caught:
        local_files(read_spec_file(spec_path), spec_path.parent)
    assert caught.value.exit_code == 2


def test_a_directory_is_no_file(spec_path: Path) -> None:
    (spec_path.parent / "lib/x.zip").unlink()
    (spec_path.parent / "lib/x.zip").mkdir()
    with pytest.raises(InvalidInput, match="cannot be read"):
        local_files(read_spec_file(spec_path), spec_path.parent)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xfd", b"#" * 70_000, "ü".encode() * 40_000])
def test_an_unusable_spec_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "job.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=str(path)):
        read_spec_file(path)
