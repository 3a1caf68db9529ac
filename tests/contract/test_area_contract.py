"""What both areas promise, on real directories and on a real S3 API server (``clients/store/area.py``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients.store.area import Area, Item, open_area
from supervisor.errors import Conflict, InvalidInput, NotFound, Unreachable
from supervisor.spec.s3a import S3Access
from tests.testbed.moto import S3Server
from tests.testbed.s3_servers import SERVERS

Make = Callable[[str], Area]


@pytest.fixture(params=["file", *SERVERS])
def make(request: pytest.FixtureRequest, tmp_path: Path, aws_env: dict[str, str]) -> Make:
    """An area below one place; another client of it at each call."""
    if request.param == "file":
        return lambda name: open_area(f"file://{tmp_path}/{name}", S3Access())
    server: S3Server = request.getfixturevalue(request.param)
    bucket = server.new_bucket()
    return lambda name: open_area(f"s3a://{bucket}/{name}", S3Access(server.endpoint_url))


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, aws_env: dict[str, str]) -> S3Server:
    found: S3Server = request.getfixturevalue(request.param)
    return found


def only(area: Area, folder: str = "") -> Item:
    (item,) = area.items(folder)
    return item


def test_nothing_there(make: Make) -> None:
    assert list(make("a").items()) == []
    make("a").remove("x/y")
    make("a").flush()


def test_its_clock_leaves_nothing_behind(make: Make) -> None:
    assert abs(make("a").now_s() - time.time()) < 60
    assert list(make("a").items()) == []


def test_create_write_read_remove(make: Make) -> None:
    area = make("a")
    area.create("x/.hidden", b"one")
    area.create("x/.hidden", b"one")
    with pytest.raises(Conflict):
        area.create("x/.hidden", b"two")
    assert make("a").read("x/.hidden", 10) == b"one"
    area.write("x/.hidden", b"three")
    assert make("a").read("x/.hidden", 10) == b"three"
    assert (only(area).key, only(area).bytes) == ("x/.hidden", 5)
    area.remove("x/.hidden")
    assert list(area.items()) == []


def test_a_copy_is_the_same_and_tells_its_tag(make: Make) -> None:
    source, target = make("a"), make("b")
    source.write("offsets/.7.crc", b"content")
    item = only(source)
    tag = target.copy_from(source, item, "data/offsets/.7.crc")
    target.flush()
    copy = only(make("b"))
    assert (copy.key, copy.bytes) == ("data/offsets/.7.crc", 7)
    assert make("b").tag(copy) == tag
    assert make("b").read("data/offsets/.7.crc", 10) == b"content"
    assert copy.mark == item.mark, "so a copy that is there already is known again"


def test_only_what_was_listed_is_copied(make: Make) -> None:
    source, target = make("a"), make("b")
    source.write("x", b"old")
    item = only(source)
    source.write("x", b"new")
    with pytest.raises(Conflict):
        target.copy_from(source, item, "x")
    source.remove("x")
    with pytest.raises(NotFound):
        target.copy_from(source, item, "y")
    assert list(target.items()) == []


def test_items_below_a_folder(make: Make) -> None:
    area = make("a")
    for key in ("commits/1", "commits/10", "commits2/1", "metadata"):
        area.write(key, b"")
    assert sorted(item.key for item in area.items("commits")) == ["commits/1", "commits/10"]
    assert sorted(item.key for item in area.items()) == ["commits/1", "commits/10", "commits2/1", "metadata"]


def test_a_large_object_is_copied_in_parts(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from supervisor.clients.store import s3_objects

    monkeypatch.setattr(s3_objects, "PARTS_ABOVE_BYTES", 6 * 2**20)
    monkeypatch.setattr(s3_objects, "PART_BYTES", 5 * 2**20)
    s3_bucket, access = server.new_bucket(), S3Access(server.endpoint_url)
    source, target = open_area(f"s3://{s3_bucket}/a", access), open_area(f"s3://{s3_bucket}/b", access)
    content = bytes(range(256)) * (11 * 2**12)
    source.write("big", content)
    tag = target.copy_from(source, only(source), "big")
    assert tag.endswith("-3")
    assert (only(target).mark, target.read("big", 2**30)) == (tag, content)
    before = only(source)
    source.write("big", content[:-1] + b"#")
    with pytest.raises(Conflict):
        target.copy_from(source, before, "big")
    uploads: Any = server.client().list_multipart_uploads(Bucket=s3_bucket)
    assert not uploads.get("Uploads"), "a copy that failed leaves no parts behind"


def test_other_buckets_of_one_service_yes_other_services_no(server: S3Server, tmp_path: Path) -> None:
    s3_bucket, access = server.new_bucket(), S3Access(server.endpoint_url)
    source = open_area(f"s3://{s3_bucket}/a", access)
    source.write("x", b"1")
    target = open_area(f"s3://{server.new_bucket()}/b", access)
    target.copy_from(source, only(source), "x")
    assert target.read("x", 1) == b"1"
    for other in (
        open_area(f"s3://{s3_bucket}/b", S3Access("http://127.0.0.1:1")),
        open_area(str(tmp_path), S3Access()),
    ):
        with pytest.raises(InvalidInput):
            other.copy_from(source, only(source), "x")
    with pytest.raises(InvalidInput):
        open_area("hdfs://host/ck", access)


def test_a_server_that_is_down_is_told_and_nothing_is_taken_for_absent(aws_env: dict[str, str]) -> None:
    area = open_area("s3://bucket/a", S3Access("http://127.0.0.1:1"), deadline_s=0.2)
    for ask in (
        lambda: list(area.items()),
        lambda: area.read("x", 1),
        lambda: area.write("x", b""),
        lambda: area.remove("x"),
    ):
        with pytest.raises(Unreachable):
            ask()
