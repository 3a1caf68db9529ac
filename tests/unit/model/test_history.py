"""``model.history``: what is folded, what goes when there is no room, and what anybody's text can do to it."""

from __future__ import annotations

import binascii
import json
import random
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.history import ENTRIES_KEPT, ENTRIES_MAX, Series, opened, put_aside
from supervisor.model.records import DETAIL_MAX_BYTES, HistoryEntry
from tests.golden.sample_records import EARLIER, UID

ROOM = 1536
CAUSES = ("user_error", "out_of_memory", "exited_zero", "no_access")


def at(second: float) -> str:
    minutes, seconds = divmod(int(second), 60)
    return f"2026-11-{1 + minutes // 1440:02d}T{minutes // 60 % 24:02d}:{minutes % 60:02d}:{seconds:02d}.{int(second * 1000) % 1000:03d}Z"


def attempt(
    number: int, cause: str, detail: str, host: str = "host-a", late_s: float = 0.0
) -> tuple[HistoryEntry, ...]:
    start_s = number * 97.123 + late_s
    return (
        HistoryEntry(at=at(start_s), event="assigned", attempt=number, detail=f"to {host} by epoch 7"),
        HistoryEntry(at=at(start_s + 1.5), event="claimed", attempt=number, detail=host),
        HistoryEntry(at=at(start_s + 60.7), event=cause, attempt=number, detail=detail),
    )


def test_what_was_packed_once_can_be_read() -> None:
    assert opened(EARLIER, UID) == (
        HistoryEntry(at="2026-11-20T00:00:00.000Z", event="submitted"),
        HistoryEntry(at="2026-11-20T00:00:01.000Z", event="user_error", attempt=1, detail="exit code 7"),
    )


def test_it_is_of_one_uid_only() -> None:
    """A version that does not know the field takes it along when the next submission of the name begins."""
    assert opened(EARLIER, "another") == ()
    new = HistoryEntry(at=at(1), event="submitted")
    assert opened(put_aside([new], EARLIER, "another", ROOM), "another") == (new,)


def test_failures_alike_are_one_entry_that_is_the_first() -> None:
    earlier = put_aside([HistoryEntry(at=at(0), event="submitted")], "", "u", ROOM)
    for number in range(1, 301):
        for entry in attempt(number, "user_error", f"exit code 1: pid {number} fell over"):
            earlier = put_aside([entry], earlier, "u", ROOM)
    first, last = attempt(1, "user_error", "exit code 1: pid 1 fell over"), attempt(300, "", "")
    assert opened(earlier, "u") == (
        HistoryEntry(at=at(0), event="submitted"),
        *first[:2],
        Series(
            at=first[2].at,
            event="user_error",
            attempt=1,
            detail=first[2].detail,
            count=300,
            last_at=last[2].at,
            last_attempt=300,
        ),
    )
    assert len(earlier) < 400


@pytest.mark.parametrize(
    "between",
    [
        HistoryEntry(at=at(150), event="restarted"),
        HistoryEntry(at=at(150), event="memory raised", attempt=2),
        HistoryEntry(at=at(150), event="draining", attempt=2),
        HistoryEntry(at=at(150), event="stopped", attempt=2),
    ],
)
def test_what_lies_between_is_told(between: HistoryEntry) -> None:
    failures = (*attempt(1, "user_error", "exit code 1"), between, *attempt(3, "user_error", "exit code 1"))
    assert opened(put_aside(failures, "", "u", ROOM), "u") == failures


@pytest.mark.parametrize(
    ("cause", "detail"), [("user_error", "exit code 1: other words"), ("killed", "exit code 1")]
)
def test_other_failures_are_told_on_their_own(cause: str, detail: str) -> None:
    failures = (*attempt(1, "user_error", "exit code 1"), *attempt(2, cause, detail))
    assert opened(put_aside(failures, "", "u", ROOM), "u") == failures


@pytest.mark.parametrize("words", [0, 20, DETAIL_MAX_BYTES])
def test_a_hundred_entries_and_the_first_failure_are_kept_whatever_the_words(words: int) -> None:
    """Of one series of 150 failures, none like the one before. Without long words nothing is cut."""
    chance = random.Random(7)
    earlier, failures = (
        "",
        [
            HistoryEntry(at=at(0), event="submitted"),
            HistoryEntry(at=at(1), event="suspended"),
            HistoryEntry(at=at(2), event="resumed"),
        ],
    )
    for number in range(1, 151):
        detail = "".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(words))
        failures += attempt(
            number,
            CAUSES[number % 4],
            detail,
            chance.choice(("host-a", "host-b", "host-c")),
            30 * chance.random(),
        )
    for start in range(0, len(failures), 3):
        earlier = put_aside(failures[start : start + 3], earlier, "u", ROOM)
        assert len(earlier) <= ROOM
    kept = opened(earlier, "u")
    failure = failures[5]
    assert len(kept) >= ENTRIES_KEPT
    assert isinstance(kept[0], Series) and kept[0].omitted == len(failures) - 5 - len(kept)
    assert (kept[0].at, kept[0].event, kept[0].detail, kept[0].count) == (
        failure.at,
        failure.event,
        failure.detail,
        1,
    )
    assert [(entry.at, entry.event, entry.attempt) for entry in kept[1:]] == [
        (entry.at, entry.event, entry.attempt) for entry in failures[-len(kept) + 1 :]
    ]
    assert words > 20 or kept[1:] == tuple(failures[-len(kept) + 1 :])


def test_each_series_keeps_its_first_failure_as_long_as_anything_of_it_is_kept() -> None:
    earlier, firsts = "", {}
    for number in range(1, 151):
        failures = attempt(number, CAUSES[number % 4], f"words {number * 7919 % 1000:x}{'abc'[number % 3]}")
        firsts.setdefault(number // 17, failures[2].at)
        earlier = put_aside(
            [HistoryEntry(at=at(number * 97), event="restarted")] * (number % 17 == 0) + [*failures],
            earlier,
            "u",
            700,
        )
        found = [entry for entry in opened(earlier, "u") if entry.event in CAUSES]
        oldest = {entry.attempt // 17: entry.at for entry in reversed(found)}
        assert oldest == {series: firsts[series] for series in oldest} and number // 17 in oldest


def test_many_entries_that_take_no_room_are_bounded_too() -> None:
    earlier = put_aside(
        [HistoryEntry(at=at(n), event="draining", attempt=1, detail='"' * 200) for n in range(300)],
        "",
        "u",
        ROOM,
    )
    assert len(opened(earlier, "u")) == ENTRIES_MAX


def test_where_there_is_no_room_nothing_is_left() -> None:
    failures = attempt(1, "user_error", "exit code 1")
    assert put_aside(failures, "", "u", 0) == put_aside([], put_aside(failures, "", "u", ROOM), "u", 10) == ""


@given(
    st.lists(
        st.builds(
            HistoryEntry,
            at=st.one_of(st.just(at(5)), st.text(max_size=30)),
            event=st.sampled_from(["claimed", "user_error", "x", "restarted"]),
            attempt=st.integers(0, 1 << 53 - 1),
            detail=st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
        ),
        max_size=12,
    ),
    st.integers(0, 900),
)
def test_any_entries_are_told_again_as_far_as_there_is_room(entries: list[HistoryEntry], room: int) -> None:
    text = put_aside(entries, "", "u", room)
    assert len(text) <= room
    assert bool(opened(text, "u")) == bool(text)


@given(
    st.one_of(
        st.text(max_size=60),
        st.binary(max_size=60).map(lambda data: binascii.b2a_base64(data, newline=False).decode()),
    )
)
def test_any_text_is_no_entry(text: str) -> None:
    assert opened(text, "u") == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=10,
)


@given(st.lists(JSON, min_size=5, max_size=5))
def test_any_json_is_entries_or_none(columns: list[object]) -> None:
    for entry in opened(packed(["u", *columns]), "u"):
        assert isinstance(entry.at, str) and isinstance(entry.event, str) and entry.attempt >= 0


@pytest.mark.parametrize(
    "columns",
    [
        [[10**30], ["x"], [1], ["d"], []],
        [[0], ["x"], [-1], ["d"], []],
        [["a"], ["x"], [1], ["d"], [[5, 1, "", 1, 0]]],
        [["a"], ["x"], [1], ["d"], [[-1, 1, "", 1, 0]]],
        [["a"], ["x"], [True], ["d"], []],
        [["a"], ["x", "y"], [1], ["d"], []],
        [["a" * 140_000], ["x"], [1], ["d"], []],
    ],
)
def test_odd_numbers_and_bombs_are_no_entries(columns: list[object]) -> None:
    assert opened(packed(["u", *columns]), "u") == ()


def packed(body: object) -> str:
    return binascii.b2a_base64(
        zlib.compress(json.dumps(body).encode(errors="replace")), newline=False
    ).decode()


def test_who_asked_for_something_is_packed_with_it() -> None:
    entry = HistoryEntry(at=at(5), event="suspended", detail="why", by="sasl:alice")
    assert opened(put_aside([entry], "", UID, 1500), UID) == (entry,)
    again = put_aside([replace(entry, at=at(6), by="supervisor:host-a", detail="")], "", UID, 1500)
    assert [(each.detail, each.by) for each in opened(again, UID)] == [("", "supervisor:host-a")]


WORDS = st.text(st.characters(exclude_categories=("C", "Z")), max_size=12)


@given(
    st.lists(
        st.tuples(
            st.one_of(WORDS, st.builds("{} (by {})".format, WORDS, WORDS)), st.one_of(st.just(""), WORDS)
        ),
        min_size=1,
        max_size=4,
    )
)
def test_words_that_look_like_who_asked_stay_words(said: list[tuple[str, str]]) -> None:
    entries = tuple(
        HistoryEntry(at=at(n), event="draining", attempt=n, detail=detail.strip(), by=by)
        for n, (detail, by) in enumerate(said)
    )
    assert opened(put_aside(entries, "", "u", 4000), "u") == entries


def test_who_asked_is_kept_where_the_words_are_cut() -> None:
    chance = random.Random(7)
    entries = [
        HistoryEntry(
            at=at(n),
            event="draining",
            detail=f"{chance.getrandbits(400):0100x}",
            by="uid:1000@host-a.example",
        )
        for n in range(100)
    ]
    kept = opened(put_aside(entries, "", "u", ROOM), "u")
    assert len(kept) == ENTRIES_KEPT
    assert {each.by for each in kept} == {"uid:1000@host-a.example"}
    assert {len(each.detail.encode()) for each in kept} == {16}


def test_failures_of_one_author_are_one_series_with_it() -> None:
    failures = [
        HistoryEntry(at=at(n), event="user_error", attempt=n, detail=f"exit code {n}", by="uid:0@a")
        for n in range(1, 4)
    ]
    (series,) = opened(put_aside(failures, "", "u", ROOM), "u")
    assert isinstance(series, Series)
    assert (series.count, series.detail, series.by) == (3, "exit code 1", "uid:0@a")


def test_a_version_before_reads_all_but_who_asked() -> None:
    """It takes exactly these columns, and shows who asked as the end of the words."""
    entry = HistoryEntry(at=at(5), event="suspended", detail="why", by="sasl:alice")
    columns = json.loads(zlib.decompress(binascii.a2b_base64(put_aside([entry], "", "u", ROOM))))
    assert columns[2:] == [["suspended"], [0], ["why (by sasl:alice)"], []]
