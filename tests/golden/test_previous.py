"""What the version before this one wrote (``previous/``, made with its own code), and what it can read of ours (F59).

Two versions run side by side during an upgrade. A new release copies ``records/`` here, and ``Launch`` and the run files
as a run of it left them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients import run_dir
from supervisor.clients.processes import ProcessId
from supervisor.model import records
from supervisor.model.launch import Launch
from supervisor.model.records import Cause, Phase
from supervisor.records.codec import decode, encode
from tests.golden.sample_records import SAMPLES

HERE = Path(__file__).parent
PREVIOUS = sorted((HERE / "previous").glob("*.v1.json"))
OURS = {type(sample).__name__: sample for sample in SAMPLES}


def kind(path: Path) -> type[Any]:
    name = path.name.partition(".")[0]
    found: type[Any] = Launch if name == "Launch" else getattr(records, name)
    return found


@pytest.mark.parametrize("path", PREVIOUS, ids=lambda path: path.name)
def test_what_the_previous_version_wrote_is_read_and_nothing_of_it_is_lost(path: Path) -> None:
    body = json.loads(path.read_bytes())
    again = json.loads(encode(decode(kind(path), path.read_bytes(), "/x"), 1 << 20))
    assert again["v"] == body["v"], (
        "an upgrade step would make it unreadable for the previous version: bump with care"
    )
    assert covers(again, body)


@pytest.mark.parametrize(
    "path", [path for path in PREVIOUS if path.name.partition(".")[0] in OURS], ids=lambda p: p.name
)
def test_what_we_write_has_all_that_the_previous_version_needs(path: Path) -> None:
    """It knows fields that we don't know any more? Then it can't read ours. What is new to it, it keeps."""
    ours = json.loads(encode(OURS[path.name.partition(".")[0]]))
    assert shape(json.loads(path.read_bytes())).items() <= shape(ours).items()


@pytest.mark.parametrize("cls", [Cause, Phase])
def test_a_word_of_a_newer_version_is_kept_and_decides_nothing(cls: Any) -> None:
    word = cls("from_the_future")
    assert word == "from_the_future" and word.value == "from_the_future" and word not in set(cls)
    assert word not in records.PERMANENT_CAUSES | records.UNCHARGED_CAUSES | records.PLANNED_CAUSES
    with pytest.raises(ValueError):
        cls(7)


@pytest.mark.parametrize(("record", "field"), [("Ownership", "cause"), ("Lease", "phase")])
def test_a_record_with_a_word_of_a_newer_version_is_readable_and_rewritten_as_it_was(
    record: str, field: str
) -> None:
    body = {**json.loads(encode(OURS[record])), field: "from_the_future"}
    assert json.loads(encode(decode(type(OURS[record]), json.dumps(body).encode(), "/x"))) == body


def test_states_stay_strict() -> None:
    for cls in (records.OwnState, records.Desired, records.Outcome, records.Cleanliness):
        with pytest.raises(ValueError):
            cls("from_the_future")


def test_the_run_files_of_a_previous_shim_are_understood() -> None:
    """By the guardian and the agent of a supervisor that was upgraded under a running shim."""
    directory = HERE / "previous"
    record = run_dir.read_process(str(directory / "shim.json"))
    assert record is not None and record == (ProcessId(100, 123456, "b7d0"), "c0ffee")
    assert run_dir.read_deadline(str(directory)) == 1234.5


def test_the_run_files_are_written_as_the_previous_version_reads_them(tmp_path: Path) -> None:
    run_dir.write_process(str(tmp_path / "shim.json"), ProcessId(100, 123456, "b7d0"), "c0ffee")
    run_dir.DeadlineFile.create(str(tmp_path)).write(1234.5)
    for name in ("shim.json", "deadline"):
        assert (tmp_path / name).read_bytes() == (HERE / "previous" / name).read_bytes()


def test_a_deadline_in_another_form_is_no_deadline() -> None:
    """What is known stays then, and the twin of that version goes by it: nothing is killed on doubt."""
    with pytest.raises(ValueError):
        run_dir.parse_deadline(b"2:1234.5 in a newer form\n")


def covers(ours: Any, theirs: Any) -> bool:
    """All that ``theirs`` has is in ``ours``, at every level."""
    if isinstance(theirs, dict):
        return isinstance(ours, dict) and all(
            name in ours and covers(ours[name], each) for name, each in theirs.items()
        )
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(covers, ours, theirs))
    return bool(ours == theirs)


def shape(value: Any, at: str = "") -> dict[str, str]:
    """Path of each field → its JSON type."""
    found: dict[str, str] = {}
    if isinstance(value, dict):
        for name, each in value.items():
            found |= shape(each, f"{at}.{name}")
    elif isinstance(value, list):
        for each in value:
            found |= shape(each, f"{at}[]")
    else:
        found[at] = "number" if type(value) in (int, float) else type(value).__name__
    return found
