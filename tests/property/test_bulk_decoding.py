"""The fast decoder of long answers says what ``codec.decode`` says, or leaves it to that one."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.errors import Corrupt
from supervisor.model.records import HistoryEntry, Lease, Ownership
from supervisor.model.seen import Found, Unreadable
from supervisor.model.transaction import Node, Stat
from supervisor.records.bulk import bulk_decoder
from supervisor.records.codec import decode, encode
from supervisor.records.reading import LONG, seen, seen_all
from tests.golden.sample_records import SAMPLES

ODD_JSON = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["claimed", "newer_word", "1", 1.0, [], {}, [{}], {"extra": {}}, [1.5], -1, 1e300]),
)


@pytest.mark.parametrize("record", SAMPLES, ids=lambda record: type(record).__name__)
def test_what_this_version_writes_is_read_at_once(record: Any) -> None:
    data = encode(record)
    assert bulk_decoder(type(record))(data) == decode(type(record), data, "p") == record


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_it_never_says_anything_else(data: st.DataObject) -> None:
    record = data.draw(st.sampled_from(SAMPLES))
    body = json.loads(encode(record))
    for _ in range(data.draw(st.integers(0, 2))):
        place = _object_in(body, data)
        key = data.draw(st.sampled_from([*place, "unknown", "extra", "v"]))
        if data.draw(st.booleans()) or key not in place:
            place[key] = copy.deepcopy(data.draw(ODD_JSON))  # the samples are to stay as they are
        else:
            del place[key]
    raw = json.dumps(body, separators=(",", ":"), ensure_ascii=data.draw(st.booleans())).encode(
        errors="surrogatepass"
    )
    if data.draw(st.integers(0, 4)) == 0:
        at = data.draw(st.integers(0, len(raw) - 1))
        raw = raw[:at] + data.draw(st.binary(max_size=3)) + raw[at + data.draw(st.integers(0, 3)) :]
    fast = bulk_decoder(type(record))(raw)
    if fast is None:
        return
    assert fast == decode(type(record), raw, "p")
    assert encode(fast) == encode(decode(type(record), raw, "p"))


def _object_in(body: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
    """``body`` or an object somewhere in it."""
    inner = [
        each
        for value in body.values()
        for each in (value if isinstance(value, list) else [value])
        if isinstance(each, dict)
    ]
    chosen: dict[str, Any] = data.draw(st.sampled_from([body, *inner]))
    return chosen


def test_one_bad_record_among_many_is_unreadable_alone() -> None:
    good = next(record for record in SAMPLES if isinstance(record, Ownership))
    newer = json.dumps({**json.loads(encode(good)), "from_tomorrow": [1]}).encode()
    nodes: list[Node | None] = [Node(encode(good), _stat(i)) for i in range(LONG)]
    nodes[3], nodes[5], nodes[7] = Node(b"{", _stat(3)), None, Node(newer, _stat(7))
    paths = [f"/own/{i}" for i in range(LONG)]
    found = seen_all(Ownership, paths, nodes)
    assert found == [seen(Ownership, node, path) for node, path in zip(nodes, paths, strict=True)]
    assert isinstance(found[3], Unreadable) and found[5] is None
    assert isinstance(found[7], Found) and found[7].record.extra == {"from_tomorrow": [1]}


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"\xff", b'{"v":2}', b"[" * 100_000, b'{"a":' * 100_000, b"NaN", b'{"v":1,"v":2}'],
)
def test_rubbish_is_left_to_the_codec(data: bytes) -> None:
    for cls in (Lease, HistoryEntry):
        assert bulk_decoder(cls)(data) is None
        with pytest.raises(Corrupt):
            decode(cls, data, "p")


def _stat(number: int) -> Stat:
    return Stat(version=number, mzxid=number, czxid=0, ephemeral_owner=0, children=0, modified_at_s=0.0)
