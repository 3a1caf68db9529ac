"""The first record of a second version: its bulk read says what a read one by one says, and older ones are upgraded.

No record has a second version today. One is made up here: ``Ownership``, whose ``host`` was called ``machine`` before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from supervisor.model.records import Lease, Ownership
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.transaction import Node, Stat
from supervisor.records import codec
from supervisor.records.bulk import bulk_decoder
from supervisor.records.reading import LONG, seen, seen_all
from tests.golden.sample_records import SAMPLES

STAT = Stat(version=3, czxid=1, mzxid=2)
OWN = next(each for each in SAMPLES if isinstance(each, Ownership))
LEASE = next(each for each in SAMPLES if isinstance(each, Lease))


def renamed(body: dict[str, Any]) -> dict[str, Any]:
    return {("host" if key == "machine" else key): value for key, value in body.items()}


@pytest.fixture(autouse=True)
def _version_2() -> Iterator[None]:
    bulk_decoder.cache_clear()
    with mock.patch.multiple(codec, VERSION=2, UPGRADES={("Ownership", 1): renamed}):
        yield
    bulk_decoder.cache_clear()


def of_version_1(record: Any, **renames: str) -> bytes:
    body = {renames.get(key, key): value for key, value in json.loads(codec.encode(record)).items()}
    return json.dumps({**body, "v": 1}).encode()


def one_by_one(cls: type[Any], nodes: list[Node | None], paths: list[str]) -> list[Seen[Any]]:
    return [seen(cls, node, path) for node, path in zip(nodes, paths, strict=True)]


def test_a_long_answer_of_both_versions_is_read_as_each_alone() -> None:
    data = [codec.encode(OWN), of_version_1(OWN, host="machine"), of_version_1(OWN), b'{"v":3}', b"x"]
    nodes: list[Node | None] = [Node(each, STAT) for each in data] * LONG
    paths = [f"/own/{n}" for n in range(len(nodes))]
    found = seen_all(Ownership, paths, nodes)
    assert found == one_by_one(Ownership, nodes, paths)
    assert [type(each) for each in found[:5]] == [Found, Found, Found, Unreadable, Unreadable]
    assert found[0] == found[1] == found[2] and found[0].record == OWN  # type: ignore[union-attr]


def test_the_new_version_is_read_in_bulk_and_the_old_one_left_to_the_upgrade() -> None:
    decoded = bulk_decoder(Ownership)
    assert decoded(codec.encode(OWN)) == OWN
    assert decoded(of_version_1(OWN, host="machine")) is None


def test_a_record_that_did_not_change_is_read_in_bulk_in_either_version() -> None:
    decoded = bulk_decoder(Lease)
    assert decoded(codec.encode(LEASE)) == decoded(of_version_1(LEASE)) == LEASE
