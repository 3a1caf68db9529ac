"""Java's properties format, against examples of its documentation and against itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.spark.properties import parse_properties, render_properties

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("# comment\n! comment\n\n  \n", {}),
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a\t \tb", {"a": "b"}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("  a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        ("a=b\\\n   c\\\n  d", {"a": "bcd"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# no comment", {"a": "b# no comment"}),
        ("a=\\u00fc\\uD83D\\uDE00", {"a": "ü😀"}),
        ("a=x\\ty\\nz\\q", {"a": "x\ty\nzq"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("a=1\na=2", {"a": "2"}),
        ("spark.x   a,b #c", {"spark.x": "a,b #c"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_parsed_as_java_does(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


@given(st.dictionaries(TEXT.filter(bool), TEXT, max_size=6))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    text = render_properties(properties)
    assert text.isascii()
    assert parse_properties(text) == properties
