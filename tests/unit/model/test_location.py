"""One place has one spelling; nested places are noticed; neighbours are not taken for each other."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.errors import InvalidInput
from supervisor.model.location import digest, normalise, overlaps

SAME = [
    (
        "s3://bucket/a/b",
        [
            "s3a://bucket/a/b",
            "s3n://bucket/a/b",
            "S3A://Bucket/a/b",
            "s3://bucket/a/b/",
            "s3://bucket//a///b//",
            "s3://bucket/./a/./b/.",
            "s3://bucket/a/c/../b",
            "s3://bucket/x/../a/b",
        ],
    ),
    (
        "file:///data/ck",
        [
            "/data/ck",
            "/data/ck/",
            "file:/data/ck",
            "file:////data/ck",
            "FILE:///data/./x/../ck",
            "file://localhost/data/ck",
        ],
    ),
    ("hdfs://nn/ck", ["hdfs://nn:8020/ck", "HDFS://NN:8020/ck/", "hdfs://nn:08020/ck"]),
    ("hdfs://nn:9000/ck", ["hdfs://NN:9000//ck"]),
    ("abfs://c@acc.dfs.core.windows.net/x", ["abfss://C@acc.dfs.core.windows.net/x/"]),
    ("gs://bucket/x", ["gs://bucket/x/"]),
]

DIFFERENT = [
    ("s3://bucket/a", "s3://bucket/A"),
    ("s3://bucket/a b", "s3://bucket/a%20b"),
    ("s3://bucket/a", "gs://bucket/a"),
    ("s3://bucket/a", "s3://bucket2/a"),
    ("hdfs://nn/a", "hdfs://nn:9000/a"),
    ("/a", "s3://aaa/a"),
]

NONSENSE = [
    "",
    " ",
    "relative",
    "relative/path",
    "./x",
    "s3:bucket/x",
    "s3:/bucket/x",
    "s3://",
    "s3:///x",
    "s3://bucket",
    "s3://bucket/",
    "s3://bucket/..",
    "s3://bucket/../x",
    "s3://ab/x",
    "s3://key:secret@bucket/x",
    "s3://bucket:80/x",
    "/",
    "//host/x",
    "file:",
    "file:x",
    "file://host/x",
    "file:///",
    "/..",
    "/a/../..",
    "hdfs:///x",
    "hdfs:/x",
    "hdfs://nn:99999/x",
    "hdfs://user:password@nn/x",
    "https://host/x",
    "local:/x",
    "store:x",
    " /x",
    "/x ",
    "/x\n",
    "/a\0b",
    "/\ud800",
    "c:\\x",
    "s3://bucket/" + "x" * 2000,
    "://x/y",
    "1a://x/y",
]


@pytest.mark.parametrize(("place", "spellings"), SAME)
def test_all_spellings_of_a_place_are_one(place: str, spellings: list[str]) -> None:
    assert [normalise(spelling) for spelling in [place, *spellings]] == [place] * (len(spellings) + 1)
    assert {digest(spelling) for spelling in spellings} == {digest(place)}


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_places_stay_different(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)
    assert not overlaps(one, other)


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_is_refused_in_one_sentence(nonsense: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        normalise(nonsense)
    assert "\n" not in str(caught.value)
    with pytest.raises(InvalidInput):
        overlaps("/fine", nonsense)


def test_nested_places_overlap_and_neighbours_do_not() -> None:
    assert overlaps("/a/b", "file:///a/b/c/d")
    assert overlaps("s3a://bucket/a/b/", "s3://BUCKET/a")
    assert not overlaps("/a/b", "/a/bc")
    assert not overlaps("s3://bucket/a-1", "s3://bucket/a")


def test_a_digest_is_a_znode_name() -> None:
    assert digest("/a/") == hashlib.sha256(b"file:///a").hexdigest()


segments = st.text(
    st.characters(categories=["L", "N", "P", "S"], exclude_characters="/"), min_size=1, max_size=5
)
noise = st.sampled_from(["", ".", "x/.."])
bases = st.sampled_from(
    ["", "file:", "file://", "s3://bucket", "s3a://BUCKET", "S3N://bucket", "hdfs://nn:8020", "gs://bb.b"]
)


@st.composite
def locations(draw: st.DrawFn) -> str:
    parts = draw(st.lists(segments | noise, min_size=1, max_size=5))
    return f"{draw(bases)}/{'/'.join(parts)}"


@given(locations() | st.text(max_size=30))
def test_normalising_twice_changes_nothing(location: str) -> None:
    try:
        once = normalise(location)
    except InvalidInput:
        return
    assert normalise(once) == once
    assert digest(once) == digest(location)
    assert overlaps(location, once)


@given(locations(), locations())
def test_overlap_is_symmetric_and_means_a_prefix_of_components(one: str, other: str) -> None:
    try:
        first, second = normalise(one).split("/"), normalise(other).split("/")
    except InvalidInput:
        return
    assert overlaps(one, other) == overlaps(other, one)
    shorter = min(len(first), len(second))
    assert overlaps(one, other) == (first[:shorter] == second[:shorter])


@given(locations(), segments, segments)
def test_a_child_overlaps_and_a_longer_name_does_not(location: str, child: str, suffix: str) -> None:
    try:
        place = normalise(location)
        inner = normalise(f"{place}/{child}")
        longer = normalise(f"{place}{suffix}")
    except InvalidInput:
        return
    assert overlaps(place, inner)
    assert longer == place or not overlaps(place, longer)
