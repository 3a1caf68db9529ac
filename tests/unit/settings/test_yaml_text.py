"""YAML that would surprise somebody is refused; nothing but InvalidInput ever comes out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.errors import InvalidInput
from supervisor.settings.yaml_text import read_mapping


def test_plain_words_mean_what_yaml_1_2_says() -> None:
    text = "{a: on, b: no, c: 12:30, d: 2024-01-01, e: true, f: 010, g: 1e3, h: ~, i: 0x10, j: .inf, k: 1_0}"
    assert read_mapping(text, "f") == {
        "a": "on",
        "b": "no",
        "c": "12:30",
        "d": "2024-01-01",
        "e": True,
        "f": 10,
        "g": 1000.0,
        "h": None,
        "i": "0x10",
        "j": ".inf",
        "k": "1_0",
    }


def test_numbers_keep_their_spelling_where_asked_at_any_depth() -> None:
    assert read_mapping("d: {conf: {a: 1.10, b: 010, c: true}, x: 1.10}", "f", as_written={"conf"}) == {
        "d": {"conf": {"a": "1.10", "b": "010", "c": True}, "x": 1.1},
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\na: 2", "f is not usable YAML in line 2: key 'a' is given twice"),
        ("a: {b: 1, b: 2}", "given twice"),
        ("a: &x [1]\nb: *x", "alias"),
        ("a: &x [*x]", "alias"),
        ("", "f is empty"),
        ("# only a comment", "f is empty"),
        ("- a", "not a list"),
        ("text", "not text"),
        ("a: [", "line"),
        ("a: 1\n---\nb: 2", "line"),
        ("? [a]\n: b", "a key must be a word"),
        ("? {a: b}\n: b", "a key must be a word"),
        ("~: b", "a key must be a word"),
        ("a: !!python/object/apply:os.system [x]", "not supported"),
        ("a: !!binary aGk=", "not supported"),
        ("a: !!int x", "not a usable number"),
        ("a: " + "9" * 5000, "not a usable number"),
        ("a: \0", "character"),
        ('a: "\\ud800"', "surrogate"),
        ('a: "\\Uffffffff"', "escape"),
        ("[" * 20_000, "too deeply"),
        ("{a: " * 20_000, "too deeply"),
    ],
)
def test_what_surprises_is_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_mapping(text, "f")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=60) | st.text("abc:{}[]&*!-?|>'\"\\\n #~,%@0123", max_size=60))
def test_any_text_is_a_mapping_or_invalid(text: str) -> None:
    try:
        assert isinstance(read_mapping(text, "f"), dict)
    except InvalidInput:
        pass


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=20),
        st.text() | st.booleans() | st.integers(-(10**9), 10**9) | st.lists(st.text()) | st.none(),
        max_size=5,
    )
)
def test_json_is_read_as_json(value: dict[str, object]) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1)):
        assert read_mapping(text, "f") == value
