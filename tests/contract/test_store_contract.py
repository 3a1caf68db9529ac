"""What both stores promise, on real directories and on a real S3 API server (``clients/store/base.py``)."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from supervisor.clients.store.base import Store
from supervisor.clients.store.open import open_store
from supervisor.errors import (
    AccessDenied,
    Conflict,
    Corrupt,
    InvalidInput,
    NotFound,
    SupervisorError,
    Unreachable,
)
from tests.testbed.moto import MotoServer, S3Server
from tests.testbed.s3_servers import SERVERS

BIG = random.Random(1).randbytes(3 * 1024 * 1024 + 17)
MakeStore = Callable[[], Store]


@pytest.fixture(params=["file", *SERVERS])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Another client of one and the same empty store, at each call."""
    if request.param == "file":
        return lambda: open_store((tmp_path / "store dir").as_uri())
    request.getfixturevalue("aws_env")
    server: S3Server = request.getfixturevalue(request.param)
    place = f"s3://{server.new_bucket()}/some/prefix"
    return lambda: open_store(place, server.endpoint_url)


@pytest.fixture
def store(make_store: MakeStore) -> Store:
    return make_store()


@pytest.fixture
def big_file(tmp_path: Path) -> Path:
    path = tmp_path / "application.jar"
    path.write_bytes(BIG)
    return path


def ready(store: Store) -> Store:
    """With its client made: eight at once take longer than an operation may, on a busy machine."""
    store.check()
    return store


def keys(store: Store, prefix: str = "", after: str = "") -> list[str]:
    return [entry.key for entry in store.entries(prefix, after)]


def test_what_was_created_is_read(store: Store) -> None:
    store.create("specs/a/1.json", b"{}")
    store.create("specs/a/empty", b"")
    assert store.read("specs/a/1.json", 100) == b"{}"
    assert store.read("specs/a/empty", 0) == b""


def test_create_again_with_the_same_bytes_is_fine(make_store: MakeStore) -> None:
    make_store().create("k", b"same")
    make_store().create("k", b"same")
    assert make_store().read("k", 10) == b"same"


@pytest.mark.parametrize("other", [b"other bytes", b"sam", b"same+", b""])
def test_create_never_overwrites(store: Store, other: bytes) -> None:
    store.create("k", b"same")
    with pytest.raises(Conflict, match="k exists"):
        store.create("k", other)
    assert store.read("k", 10) == b"same"


def test_of_concurrent_writers_exactly_one_wins(make_store: MakeStore) -> None:
    writers, start = [ready(make_store()) for _ in range(8)], threading.Barrier(8)

    def write(number: int, key: str) -> str:
        start.wait()
        try:
            writers[number].create(key, body_of(number))
        except Conflict:
            return "conflict"
        return "won"

    def body_of(number: int) -> bytes:
        return bytes([number]) * (100_000 + number)

    for key in (f"race/{round_}" for round_ in range(6)):
        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(write, range(8), [key] * 8))
        assert sorted(outcomes) == ["conflict"] * 7 + ["won"]
        assert make_store().read(key, 200_000) == body_of(outcomes.index("won"))


def test_concurrent_writers_of_the_same_bytes_all_succeed(make_store: MakeStore) -> None:
    writers = [ready(make_store()) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda writer: writer.create("k", BIG), writers))
    assert make_store().read("k", len(BIG)) == BIG


def test_one_store_serves_many_threads(store: Store) -> None:
    def work(number: int) -> bytes:
        store.create(f"threads/{number}", b"%d" % number)
        return store.read(f"threads/{number}", 10)

    ready(store)
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(64))) == [b"%d" % number for number in range(64)]


def test_a_reader_sees_the_whole_object_or_none(make_store: MakeStore) -> None:
    seen: list[bytes] = []
    stop = threading.Event()

    def read_again() -> None:
        store = make_store()
        while not stop.is_set():
            try:
                seen.append(store.read("k", len(BIG)))
            except NotFound:
                continue

    reader = threading.Thread(target=read_again)
    reader.start()
    make_store().create("k", BIG)
    while not seen and reader.is_alive():
        stop.wait(0.01)
    stop.set()
    reader.join(30)
    assert set(seen) == {BIG}


def test_missing_is_not_found(store: Store, tmp_path: Path) -> None:
    store.create("dir/k", b"x")
    for key in ("nothing", "no/such/dir", "dir", "dir/k/below"):
        with pytest.raises(NotFound, match=key):
            store.read(key, 10)
    with pytest.raises(NotFound):
        store.read_to("nothing", tmp_path / "target")
    assert not list(tmp_path.glob("*target*"))


def test_oversized_is_corrupt_and_exact_is_not(store: Store) -> None:
    store.create("k", b"12345")
    assert store.read("k", 5) == b"12345"
    with pytest.raises(Corrupt, match="larger than the 4 bytes"):
        store.read("k", 4)


def test_a_file_is_stored_and_fetched_whole(store: Store, big_file: Path, tmp_path: Path) -> None:
    sha256 = hashlib.sha256(BIG).hexdigest()
    store.create_from("artifacts/x", big_file, sha256)
    store.create_from("artifacts/x", big_file)
    target = tmp_path / "made" / "on demand" / "copy"
    assert store.read_to("artifacts/x", target) == sha256
    assert target.read_bytes() == BIG
    assert [path.name for path in target.parent.iterdir()] == ["copy"]


def test_a_file_never_overwrites(store: Store, big_file: Path) -> None:
    store.create("k", BIG[:-1])
    with pytest.raises(Conflict):
        store.create_from("k", big_file)
    assert store.read("k", len(BIG)) == BIG[:-1]


def test_a_file_with_another_content_than_promised_is_not_stored(store: Store, big_file: Path) -> None:
    with pytest.raises(Conflict, match="changed"):
        store.create_from("k", big_file, "0" * 64)
    assert keys(store) == []


def test_an_unreadable_source_is_the_users_to_mend(store: Store, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for source in (tmp_path / "nothing", tmp_path, fifo):
        with pytest.raises(InvalidInput, match=str(source)):
            store.create_from("k", source)


def test_an_impossible_target_is_this_hosts_trouble(store: Store, tmp_path: Path) -> None:
    store.create("k", b"x")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unreachable, match="cannot be written"):
        store.read_to("k", tmp_path / "file" / "target")


def test_listing_is_sorted_by_bytes_and_complete(store: Store) -> None:
    names = [
        "a",
        "a/b".replace("/", "-"),
        "a0",
        "B",
        "é",
        "z",
        "日本",
        "dir/1",
        "dir/2",
        "dir-x/1",
        "\U0001f600",
        "a b+c%20",
    ]
    for name in names:
        store.create(f"list/{name}", name.encode())
    store.create("other/a", b"")
    entries = list(store.entries("list/"))
    assert [entry.key for entry in entries] == sorted((f"list/{name}" for name in names), key=str.encode)
    assert {entry.key: entry.bytes for entry in entries} == {
        f"list/{name}": len(name.encode()) for name in names
    }
    assert all(entry.modified_at_s > 1_000_000_000 for entry in entries)
    assert keys(store, "list/dir") == ["list/dir-x/1", "list/dir/1", "list/dir/2"]
    assert keys(store, "nothing/") == []
    assert len(keys(store)) == len(names) + 1


def test_listing_starts_after_a_key(store: Store) -> None:
    for number in range(5):
        store.create(f"epochs/{number:010d}", b"")
    store.create("zoo/1", b"")
    assert keys(store, "epochs/", "epochs/0000000002") == ["epochs/0000000003", "epochs/0000000004"]
    assert keys(store, "epochs/", "epochs/00000000025") == ["epochs/0000000003", "epochs/0000000004"]
    assert keys(store, "epochs/", "epochs/0000000004") == []
    assert keys(store, "epochs/", "a") == keys(store, "epochs/")


def test_delete_is_idempotent_and_frees_the_key(store: Store) -> None:
    store.create("dir/sub/k", b"x")
    store.delete("dir/sub/k")
    store.delete("dir/sub/k")
    store.delete("never/was")
    store.delete("dir")
    assert keys(store) == []
    store.create("dir", b"a file where a directory was")
    store.delete("dir")
    store.create("dir/sub/k", b"y")
    assert store.read("dir/sub/k", 1) == b"y"


@pytest.mark.parametrize(
    "key",
    ["", "/abs", "../out", "a/../../out", "a//b", "a/", "./a", "a/./b", ".tmp/x", "nul\0", "new\nline", "back\\slash"]
    + ["x" * 256, "/".join(["x" * 200] * 5), "\udcff"],
)  # fmt: skip
def test_keys_that_lead_astray_are_refused(store: Store, key: str, tmp_path: Path, big_file: Path) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.create(key, b""),
        lambda: store.create_from(key, big_file),
        lambda: store.read(key, 1),
        lambda: store.read_to(key, tmp_path / "t"),
        lambda: store.delete(key),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match="store key"):
            call()


def test_check_passes_on_a_usable_store_and_leaves_nothing(store: Store) -> None:
    store.check()
    assert keys(store) == []


def test_the_url_is_the_same_for_every_client(make_store: MakeStore) -> None:
    assert make_store().url == make_store().url


# What differs: each has its own way of being out of reach.


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.usefixtures("aws_env")
def test_an_unreachable_server_is_unreachable(tmp_path: Path, big_file: Path) -> None:
    store = open_store("s3://bucket/p", f"http://127.0.0.1:{closed_port()}", deadline_s=1.0)
    with pytest.raises(Unreachable):
        # makes the client, which may take all of that time on a busy machine, so that no server is named
        store.check()
    calls: list[Callable[[], object]] = [
        store.check,
        lambda: store.create("k", b""),
        lambda: store.create_from("k", big_file),
        lambda: store.read("k", 1),
        lambda: store.read_to("k", tmp_path / "t"),
        lambda: list(store.entries("p/")),
        lambda: store.delete("k"),
    ]
    for call in calls:
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
            call()


@pytest.mark.usefixtures("aws_env")
def test_a_missing_bucket_is_a_sentence_with_a_remedy(moto_server: MotoServer) -> None:
    store = open_store("s3://no-such-bucket/p", moto_server.endpoint_url)
    calls: list[Callable[[], object]] = [
        store.check,
        lambda: store.read("k", 1),
        lambda: store.create("k", b""),
    ]
    for call in calls:
        with pytest.raises(AccessDenied, match=r"s3://no-such-bucket/p .*create it or correct store\.url"):
            call()


def test_a_missing_directory_is_created(tmp_path: Path) -> None:
    open_store((tmp_path / "not" / "yet").as_uri()).check()
    assert (tmp_path / "not" / "yet").is_dir()


def test_an_impossible_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/no-store")):
        with pytest.raises(SupervisorError) as caught:
            open_store(path.as_uri()).check()
        assert caught.value.exit_code == 5
        assert str(path) in str(caught.value)


def test_a_directory_that_vanishes_is_unreachable_and_not_empty(tmp_path: Path) -> None:
    store = open_store((tmp_path / "share").as_uri())
    store.create("k", b"x")
    (tmp_path / "share").rename(tmp_path / "unmounted")
    calls: list[Callable[[], object]] = [
        lambda: store.read("k", 1),
        lambda: store.create("k", b"x"),
        lambda: list(store.entries("")),
        store.check,
    ]
    for call in calls:
        with pytest.raises(Unreachable, match="mounted"):
            call()


def test_what_is_no_regular_file_is_never_waited_for(tmp_path: Path) -> None:
    store = open_store(tmp_path.as_uri())
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(Corrupt, match="not a regular file"):
        store.read("fifo", 10)
    with pytest.raises(AccessDenied):
        store.read("link", 1000)
    assert keys(store) == []


def test_leftovers_of_dead_writers_are_removed_and_never_listed(tmp_path: Path) -> None:
    store = open_store(tmp_path.as_uri())
    store.create("k", b"x")
    old, new = tmp_path / ".tmp" / "old", tmp_path / ".tmp" / "new"
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (1, 1))
    store.check()
    assert [path.name for path in (tmp_path / ".tmp").iterdir()] == ["new"]
    assert keys(store) == ["k"]


def test_directory_markers_of_other_tools_are_skipped(moto_server: MotoServer, s3_bucket: str) -> None:
    store = open_store(f"s3://{s3_bucket}/p", moto_server.endpoint_url)
    store.create("a/k", b"x")
    for key in ("p/a/", "p/", "p/b/"):
        moto_server.client().put_object(Bucket=s3_bucket, Key=key, Body=b"")
    moto_server.client().put_object(Bucket=s3_bucket, Key="p-other/a", Body=b"")
    assert keys(store) == ["a/k"]


@pytest.mark.usefixtures("aws_env")
@pytest.mark.parametrize("server", SERVERS)
def test_a_listing_of_several_pages_is_whole(server: str, request: pytest.FixtureRequest) -> None:
    there: S3Server = request.getfixturevalue(server)
    bucket, client = there.new_bucket(), there.client()
    store = open_store(f"s3://{bucket}", there.endpoint_url)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: client.put_object(Bucket=bucket, Key=f"n/{n:05d}", Body=b""), range(1100)))
    assert keys(store, "n/") == [f"n/{number:05d}" for number in range(1100)]
    assert keys(store, "n/", "n/01090") == [f"n/{number:05d}" for number in range(1091, 1100)]


def test_without_credentials_the_chain_is_named_and_later_ones_are_found(
    moto_server: MotoServer, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    store = open_store(f"s3://{s3_bucket}", moto_server.endpoint_url)
    with pytest.raises(AccessDenied, match="credentials"):
        store.check()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    store.check()
