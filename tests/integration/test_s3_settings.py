"""What ``supervisor.yaml`` and AWS's own settings ask of S3 is in the requests: encryption, who pays, endpoints, regions,
checksums. And what comes of a versioned bucket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.clients.store import s3_objects
from supervisor.clients.store.area import open_area
from supervisor.clients.store.open import open_store
from supervisor.clients.store.s3 import S3Store
from supervisor.clients.store.tree import open_tree
from supervisor.errors import NotFound
from supervisor.settings.file import StoreSettings
from supervisor.spec.s3a import S3Access, access_of, access_of_store, asked
from tests.fakes import faulty_s3
from tests.fakes.faulty_s3 import FaultyS3
from tests.testbed.moto import MotoServer
from tests.waiting import wait_until

KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
PAYS = "x-amz-request-payer"


@pytest.fixture
def recorder(moto_server: MotoServer, aws_env: dict[str, str]) -> Iterator[FaultyS3]:
    # of another test of this process one may still wait for its server
    before = set(threading.enumerate())
    server = FaultyS3(moto_server.port)
    yield server
    wait_until(
        lambda: not [each for each in set(threading.enumerate()) - before if each.name == "store"],
        30,
        "no thread left",
    )
    server.stop()


def access(recorder: FaultyS3, **wishes: str) -> S3Access:
    return access_of_store(StoreSettings(url="s3://bucket/p", endpoint_url=recorder.endpoint_url, **wishes))


def everything(recorder: FaultyS3, bucket: str, wished: S3Access, tmp_path: Path) -> None:
    """Each request that the product sends to S3, at least once."""
    (tmp_path / "source").write_bytes(b"file")
    store = open_store(f"s3://{bucket}/p", wished.endpoint_url, asked=asked(wished))
    store.check()
    store.create("blob", b"1")
    store.create_from("file", tmp_path / "source")
    store.read("blob", 1)
    assert [entry.key for entry in store.entries("")] == ["blob", "file"]
    store.delete("blob")
    area = open_area(f"s3://{bucket}/p", wished)
    area.write("small", b"2")
    area.create("new", b"3")
    area.write("large", bytes(5 * 2**20 + 1))
    small, large = (next(item for item in area.items() if item.key == key) for key in ("small", "large"))
    area.copy_from(area, large, "copy of large")
    recorder.aim("COPY", faulty_s3.another_tag)
    area.copy_from(area, small, "copy of small")
    tree = open_tree(f"s3://{bucket}/p", wished)
    assert tree is not None
    tree.level("")
    list(tree.entries(""))
    tree.read("small", 1)
    area.remove("small")


def requests_of(recorder: FaultyS3) -> list[tuple[str, dict[str, str]]]:
    """What kind of request, and its headers."""
    found = []
    for request, headers in zip(recorder.requests, recorder.headers, strict=True):
        command, _, path = request.partition(" ")
        part = (
            "part"
            if "partNumber" in path
            else "begin"
            if "?uploads" in path
            else "end"
            if "uploadId" in path
            else ""
        )
        found.append((f"{command} {part}".strip(), headers))
    return found


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_objects, "PARTS_ABOVE_BYTES", 5 * 2**20)
    monkeypatch.setattr(s3_objects, "PART_BYTES", 5 * 2**20)


WRITES = {"PUT", "COPY", "POST begin"}
KINDS = WRITES | {"GET", "HEAD", "DELETE", "COPY part", "POST end"}


def test_encryption_is_asked_for_whatever_is_written(
    recorder: FaultyS3, s3_bucket: str, tmp_path: Path
) -> None:
    everything(recorder, s3_bucket, access(recorder, sse="aws:kms", sse_kms_key_id=KEY), tmp_path)
    assert {kind for kind, _ in requests_of(recorder)} == KINDS
    for kind, headers in requests_of(recorder):
        said = (
            headers.get("x-amz-server-side-encryption"),
            headers.get("x-amz-server-side-encryption-aws-kms-key-id"),
        )
        assert said == (("aws:kms", KEY) if kind in WRITES else (None, None)), kind


def test_who_pays_is_said_with_every_request(recorder: FaultyS3, s3_bucket: str, tmp_path: Path) -> None:
    everything(recorder, s3_bucket, access(recorder, request_payer="requester"), tmp_path)
    assert {kind for kind, _ in requests_of(recorder)} == KINDS
    assert {headers.get(PAYS) for _, headers in requests_of(recorder)} == {"requester"}


def test_nothing_is_asked_that_is_not_configured_and_no_checksum_that_older_servers_refuse(
    recorder: FaultyS3, s3_bucket: str, tmp_path: Path
) -> None:
    everything(recorder, s3_bucket, access(recorder), tmp_path)
    names = {name for _, headers in requests_of(recorder) for name in headers}
    refused = (
        "x-amz-server-side",
        PAYS,
        "x-amz-checksum",
        "x-amz-sdk-checksum",
        "x-amz-trailer",
        "x-amz-decoded",
    )
    assert not [name for name in names if name.startswith(refused)]
    assert not [
        headers for _, headers in requests_of(recorder) if "chunked" in headers.get("content-encoding", "")
    ]
    assert all("content-md5" in headers for kind, headers in requests_of(recorder) if kind == "PUT")


def test_a_jobs_own_bucket_is_written_to_as_its_driver_does() -> None:
    store = S3Access("http://minio", "r", None, "AES256", None, "requester", ("https://other:9000",))
    s3a = "spark.hadoop.fs.s3a."
    assert access_of({}, "b", store) == store._replace(others=())
    kms = {
        f"{s3a}encryption.algorithm": "SSE-KMS",
        f"{s3a}encryption.key": KEY,
        f"{s3a}requester.pays.enabled": "false",
    }
    assert asked(access_of(kms, "b", store)) == {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KEY}
    own = {f"{s3a}bucket.b.encryption.algorithm": "AES256", f"{s3a}encryption.key": KEY}
    assert asked(access_of(own, "b", S3Access())) == {"ServerSideEncryption": "AES256"}
    elsewhere = {f"{s3a}endpoint": "other:9000", f"{s3a}requester.pays.enabled": "true"}
    assert asked(access_of(elsewhere, "b", store)) == {"RequestPayer": "requester"}
    assert asked(access_of({f"{s3a}encryption.algorithm": "CSE-KMS"}, "b", store)) == {
        "RequestPayer": "requester"
    }


ENDPOINTS = {
    "AWS_ENDPOINT_URL_S3": "",
    "AWS_ENDPOINT_URL": "",
    "a profile": "[default]\nendpoint_url = {url}\nregion = eu-west-1\n",
    "a service of a profile": "[default]\nservices = mine\nregion = eu-west-1\n[services mine]\ns3 =\n  endpoint_url = {url}\n",
}


@pytest.mark.parametrize("way", ENDPOINTS)
def test_an_endpoint_and_a_region_of_the_standard_chain_count_and_the_bucket_is_in_the_path(
    recorder: FaultyS3, s3_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A server of one's own seldom has a name for each bucket: ``localhost`` would become ``bucket.localhost``."""
    url = recorder.endpoint_url.replace("127.0.0.1", "localhost")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    if ENDPOINTS[way]:
        (tmp_path / "config").write_text(ENDPOINTS[way].format(url=url))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    else:
        monkeypatch.setenv(way, url)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    store = open_store(f"s3://{s3_bucket}/p")
    store.create("k", b"x")
    assert recorder.requests == [f"PUT /{s3_bucket}/p/k"]
    assert "/eu-west-1/s3/" in recorder.headers[0]["authorization"]


def test_the_region_and_the_endpoint_of_the_settings_win(
    recorder: FaultyS3, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    S3Store(s3_bucket, "p", recorder.endpoint_url, "ap-south-2").check()
    assert "/ap-south-2/s3/" in recorder.headers[0]["authorization"]


def test_a_versioned_bucket_behaves_like_any_other(
    recorder: FaultyS3, moto_server: MotoServer, s3_bucket: str, tmp_path: Path
) -> None:
    """What was deleted stays as an older version until a lifecycle rule of the bucket ends it: nobody here sees it."""
    backend = moto_server.client()
    backend.put_bucket_versioning(Bucket=s3_bucket, VersioningConfiguration={"Status": "Enabled"})
    everything(recorder, s3_bucket, access(recorder), tmp_path)
    store = open_store(f"s3://{s3_bucket}/p", moto_server.endpoint_url)
    with pytest.raises(NotFound):
        store.read("blob", 1)
    store.create("blob", b"again")
    assert store.read("blob", 5) == b"again"
    store.delete("blob")
    store.delete("blob")
    assert "blob" not in {entry.key for entry in store.entries("")}
    area = open_area(f"s3://{s3_bucket}/p", access(recorder))
    assert "small" not in {item.key for item in area.items()}
    kept = backend.list_object_versions(Bucket=s3_bucket, Prefix="p/blob")
    assert (len(kept["Versions"]), len(kept["DeleteMarkers"]) >= 2) == (2, True)


def test_what_doctor_asks_of_a_versioned_bucket(moto_server: MotoServer, s3_bucket: str) -> None:
    backend = moto_server.client()
    store = S3Store(s3_bucket, "p", moto_server.endpoint_url)
    assert store.keeps_versions() == (False, False)
    backend.put_bucket_versioning(Bucket=s3_bucket, VersioningConfiguration={"Status": "Enabled"})
    assert store.keeps_versions() == (True, True)
    rule = {
        "ID": "r",
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 7},
    }
    backend.put_bucket_lifecycle_configuration(Bucket=s3_bucket, LifecycleConfiguration={"Rules": [rule]})
    assert store.keeps_versions() == (True, False)
