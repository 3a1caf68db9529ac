"""The format of every record, pinned byte for byte, and what the codec promises about bytes that others wrote.

A failing golden test means that a released version could not read what this one writes: give the record a new version
and an upgrade step instead of changing the file. ``python -m tests.golden.test_records`` writes files that are missing.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.errors import Corrupt
from supervisor.model import records
from supervisor.model.records import DETAIL_MAX_BYTES, HISTORY_MAX, HistoryEntry, Ownership, clip, with_entry
from supervisor.model.restart import RECENT_KEPT
from supervisor.records.codec import MAX_RECORD_BYTES, VERSION, decode, encode
from tests.golden.sample_records import AT, SAMPLES, UID

HERE = Path(__file__).parent / "records"
CLASSES = [type(sample) for sample in SAMPLES]
NAMES = [cls.__name__ for cls in CLASSES]


def golden(sample: Any) -> Path:
    return HERE / f"{type(sample).__name__}.v{VERSION}.json"


@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_what_is_written_is_the_golden_file(sample: Any) -> None:
    assert encode(sample) == golden(sample).read_bytes().removesuffix(b"\n")


@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_the_golden_file_reads_as_the_object(sample: Any) -> None:
    assert decode(type(sample), golden(sample).read_bytes(), "/x") == sample


def test_every_record_has_a_golden_file_and_no_other_is_there() -> None:
    defined = {
        cls
        for _, cls in inspect.getmembers(records, dataclasses.is_dataclass)
        if cls.__module__ == records.__name__
    }
    assert defined <= set().union(*(_with_parts(cls) for cls in CLASSES))
    assert {path.name for path in HERE.iterdir()} == {golden(sample).name for sample in SAMPLES}


@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_the_sample_sets_every_field_to_something(sample: Any) -> None:
    for field in dataclasses.fields(sample):
        if field.name != "extra" and field.default is not dataclasses.MISSING:
            assert getattr(sample, field.name) != field.default, field.name


@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_fields_of_a_newer_version_survive_a_rewrite_at_every_level(sample: Any) -> None:
    body = _marked(json.loads(golden(sample).read_bytes()))
    record = decode(type(sample), json.dumps(body).encode(), "/x")
    again = encode(dataclasses.replace(record, **{_some_text_field(sample): "changed"}))
    assert json.loads(again) == {**body, _some_text_field(sample): "changed"}


@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_a_missing_required_field_is_corrupt(sample: Any) -> None:
    body = json.loads(golden(sample).read_bytes())
    for field in dataclasses.fields(sample):
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            short = {name: value for name, value in body.items() if name != field.name}
            with pytest.raises(Corrupt, match=field.name):
                decode(type(sample), json.dumps(short).encode(), "/x")


@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_another_version_is_corrupt(sample: Any) -> None:
    body = json.loads(golden(sample).read_bytes())
    for version in (0, VERSION + 1, "1", None, True, 1.0):
        with pytest.raises(Corrupt, match="version"):
            decode(type(sample), json.dumps({**body, "v": version}).encode(), "/x")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(CLASSES), st.binary(max_size=200))
def test_any_bytes_are_a_record_or_corrupt(cls: type[Any], data: bytes) -> None:
    _readable_or_corrupt(cls, data)


@given(st.sampled_from(CLASSES), JSON)
def test_any_json_is_a_record_or_corrupt(cls: type[Any], value: Any) -> None:
    _readable_or_corrupt(cls, json.dumps(value).encode())


@given(st.sampled_from(SAMPLES), st.data())
def test_any_field_replaced_by_any_json_is_a_record_or_corrupt(sample: Any, data: st.DataObject) -> None:
    body = json.loads(golden(sample).read_bytes())
    at = body
    key = data.draw(st.sampled_from(sorted(at)))
    while isinstance(at[key], dict) and data.draw(st.booleans()):
        at = at[key]
        key = data.draw(st.sampled_from(sorted(at)))
    at[key] = data.draw(JSON)
    _readable_or_corrupt(type(sample), json.dumps(body).encode())


@pytest.mark.parametrize(
    "hostile",
    [
        b'{"v":1,"epoch":NaN,"supervisor":"a","op":"b"}',
        b'{"v":1,"epoch":1,"supervisor":"a","op":"b","new":Infinity}',
        b'{"v":1,"epoch":1,"supervisor":"a","op":"b","new":1e999}',
        b'{"v":1,"epoch":1,"supervisor":"\\ud800","op":"b"}',
        b'{"v":1,"epoch":1,"supervisor":"a","op":"b","new":' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"v":1,"epoch":1,"supervisor":"a","op":"b","new":' + b"[" * 100_000,
        b'{"v":1,"epoch":' + b"9" * 5000 + b',"supervisor":"a","op":"b"}',
        b'{"v":1,"epoch":true,"supervisor":"a","op":"b"}',
        b"\xff\xfe",
        b"",
        b"null",
        b"[]",
        b'{"v":1}',
    ],
)
def test_hostile_bytes_are_corrupt(hostile: bytes) -> None:
    with pytest.raises(Corrupt):
        decode(records.EpochRecord, hostile, "/x")


def test_a_number_too_large_for_a_float_is_corrupt() -> None:
    body = json.loads(golden(SAMPLES[2]).read_bytes())
    with pytest.raises(Corrupt):
        decode(records.Lease, json.dumps({**body, "lease_s": 10**400}).encode(), "/x")


def test_the_fullest_tombstone_can_be_written() -> None:
    """It gives up the oldest history before it gives up itself."""
    history: tuple[HistoryEntry, ...] = ()
    for attempt in range(HISTORY_MAX):
        history = with_entry(history, AT, "exited", 10_000 + attempt, '"\\' * DETAIL_MAX_BYTES)
    fullest = Ownership(
        state=records.OwnState.EXITED,
        op="o" * 32,
        newest_uid=UID,
        uid=UID,
        attempt=10_009,
        claim="c" * 32,
        supervisor="s" * 127,
        host="h" * 253,
        reason=clip('"\\' * 200, 300),
        cause=records.Cause.CHECKPOINT_CONFLICT,
        recent_s=tuple(float(f"{n}000.37") for n in range(RECENT_KEPT + 1)),
        restart_nonce="n" * 32,
        history=history,
        refused_by=tuple(f"{n:0{records.POLICY_DIGITS}x}" for n in range(records.POLICIES_MAX)),
        refused_of=f"{UID} 1 {'n' * 32}",
    )
    data = encode(fullest)
    assert len(data) <= MAX_RECORD_BYTES
    kept = decode(Ownership, data, "/x")
    assert kept.history == fullest.history[-len(kept.history) :] != ()
    assert dataclasses.replace(kept, history=()) == dataclasses.replace(fullest, history=())


def test_what_does_not_fit_without_a_history_is_refused() -> None:
    with pytest.raises(ValueError, match="larger than 4096"):
        encode(records.CheckpointClaim(location="s3://b/" + "x" * 5000, name="n", uid="u"))


@given(st.text(st.characters(exclude_categories=())), st.integers(4, 200))
def test_clipped_text_is_one_printable_line_that_fits(text: str, max_bytes: int) -> None:
    line = clip(text, max_bytes)
    assert len(line.encode()) <= max_bytes
    assert line.isprintable()


def _readable_or_corrupt(cls: type[Any], data: bytes) -> None:
    try:
        record = decode(cls, data, "/x")
    except Corrupt as error:
        assert "/x" in str(error)
        return
    try:
        again = encode(record)
    except ValueError as error:
        assert "larger than" in str(error)
        return
    assert decode(cls, again, "/x") == record


def _with_parts(cls: type[Any]) -> set[type[Any]]:
    found = {cls}
    for hint in typing.get_type_hints(cls).values():
        for part in (hint, *typing.get_args(hint)):
            if dataclasses.is_dataclass(part):
                found |= _with_parts(typing.cast(type, part))
    return found


def _marked(value: Any) -> Any:
    if isinstance(value, list):
        return [_marked(item) for item in value]
    if isinstance(value, dict):
        return {
            **{key: _marked(item) for key, item in value.items()},
            "from_the_future": {"x": [1, None, "ü"]},
        }
    return value


def _some_text_field(sample: Any) -> str:
    return next(f.name for f in dataclasses.fields(sample) if type(getattr(sample, f.name)) is str)


if __name__ == "__main__":
    for each in SAMPLES:
        if not golden(each).exists():
            golden(each).write_bytes(encode(each) + b"\n")
