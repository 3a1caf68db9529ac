"""``clients.store.open``: URLs to stores, and errors that name the setting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.clients.store.files import FileStore
from supervisor.clients.store.open import open_store
from supervisor.clients.store.s3 import S3Store
from supervisor.errors import InvalidInput


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("file:///srv/store", "file:///srv/store"),
        ("file:///srv/store/", "file:///srv/store"),
        ("file:////srv/./a/../store", "file:///srv/store"),
        ("file:///srv/my%20store", "file:///srv/my%20store"),
        ("file:///srv/my store", "file:///srv/my%20store"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
    ],
)
def test_one_place_has_one_url(url: str, normal: str) -> None:
    store = open_store(url)
    assert store.url == normal
    assert isinstance(store, FileStore if url.startswith("file") else S3Store)


@pytest.mark.parametrize(
    "url",
    ["", "/srv/store", "http://host/x", "s3a://bucket/x", "S3://bucket", "file://host/dir", "file:/dir", "file://", "file:///"]
    + ["file:///.", "file:///a%00b", "s3://", "s3:///x", "s3://ab/x", "s3://buck et/x", "s3://user:secret@bucket/x"]
    + ["s3://bucket//x", "s3://bucket/../x", "s3://bucket/.x", "s3://bucket/x?y=1", "s3://bucket/x#y"],
)  # fmt: skip
def test_other_urls_are_refused_naming_the_setting(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"store\.url"):
        open_store(url)


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "host:9000",
        "ftp://host",
        "http://",
        "http://user:secret@host",
        "http://host:99999",
        "http://h/?q=1",
    ],
)
def test_a_wrong_endpoint_is_refused_without_repeating_secrets(endpoint: str) -> None:
    with pytest.raises(InvalidInput, match=r"store\.endpoint_url") as caught:
        open_store("s3://bucket", endpoint)
    assert "secret" not in str(caught.value)


def test_a_wrong_region_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"store\.region"):
        open_store("s3://bucket", region="eu west")


def test_opening_does_no_io(tmp_path: Path) -> None:
    open_store((tmp_path / "store").as_uri())
    assert not (tmp_path / "store").exists()


def test_a_file_store_does_not_import_boto3() -> None:
    code = (
        "import sys; from supervisor.clients.store.open import open_store; import supervisor.registry.blob_sweep;"
        "open_store('file:///srv/x'); sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
