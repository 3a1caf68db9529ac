"""Durations and sizes: what people write is understood exactly or refused with a hint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.settings.units import format_duration, format_size, parse_duration_s, parse_size_bytes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("10s", 10), ("5m", 300), ("2h", 7200), ("0s", 0), ("1ms", 0.001), ("30d", 2_592_000)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("512m", 512 << 20), ("16g", 16 << 30), ("1T", 1 << 40), ("3k", 3072), ("7b", 7)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size_bytes(text) == size


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "10",
        "s",
        "1.5s",
        "-1s",
        "1w",
        "10 s",
        "10S",
        "1s2s",
        "٣s",
        "1" * 13 + "s",
        None,
        True,
        [],
        "10s\n",
    ],
)
def test_what_is_no_duration_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_s(wrong)


@pytest.mark.parametrize("wrong", ["", "10", "g", "1.5g", "-1g", "1gb", "1 g", None, False, {}])
def test_what_is_no_size_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size_bytes(wrong)


def test_a_bare_number_is_refused_with_the_way_to_write_it() -> None:
    with pytest.raises(ValueError, match="write 30s"):
        parse_duration_s(30)
    with pytest.raises(ValueError, match="write 4m for MiB or 4g"):
        parse_size_bytes(4)


@given(st.integers(0, 10**12))
def test_a_duration_written_back_is_the_same(millis: int) -> None:
    assert parse_duration_s(format_duration(millis / 1000)) == millis / 1000


@given(st.integers(0, 10**12) | st.integers(0, 4000).map(lambda n: n << 30))
def test_a_size_written_back_is_the_same(size: int) -> None:
    assert parse_size_bytes(format_size(size)) == size


def test_the_shortest_form_is_written() -> None:
    assert [format_duration(s) for s in (0, 0.25, 1.5, 90, 300, 7200)] == [
        "0s",
        "250ms",
        "1500ms",
        "90s",
        "5m",
        "2h",
    ]
    assert [format_size(n) for n in (0, 1536 * 1024, 1 << 30, 1000)] == ["0b", "1536k", "1g", "1000b"]
