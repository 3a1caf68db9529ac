"""Driver and supervisor mean the same bucket at the same service."""

from __future__ import annotations

import pytest

from supervisor.errors import InvalidInput
from supervisor.spec.s3a import (
    S3Access,
    access_of,
    bucket_of,
    for_spark,
    for_store,
    properties_for,
    why_no_access,
)

OTHERS = (
    "https://s3.example",
    "https://s3.example:9000",
    "http://s3.example",
    "https://own",
    "https://s3.amazonaws.com",
)
STORE = S3Access("http://minio:9000", "eu-1", others=OTHERS)
ENDPOINT = "spark.hadoop.fs.s3a.endpoint"


@pytest.mark.parametrize(
    ("location", "spark", "store", "bucket"),
    [
        ("s3://Bkt/A/b", "s3a://bkt/A/b", "s3://bkt/A/b", "bkt"),
        ("S3A://bkt", "s3a://bkt", "s3://bkt", "bkt"),
        ("s3n://bkt/x", "s3a://bkt/x", "s3://bkt/x", "bkt"),
        ("file:///s3://x", "file:///s3://x", "file:///s3://x", None),
        ("", "", "", None),
    ],
)
def test_spellings(location: str, spark: str, store: str, bucket: str | None) -> None:
    assert (for_spark(location), for_store(location), bucket_of(location)) == (spark, store, bucket)


@pytest.mark.parametrize(
    ("conf", "access"),
    [
        ({}, S3Access("http://minio:9000", "eu-1")),
        ({ENDPOINT: "https://s3.example"}, S3Access("https://s3.example", None)),
        ({ENDPOINT: "s3.example:9000"}, S3Access("https://s3.example:9000", None)),
        (
            {ENDPOINT: "s3.example", "spark.hadoop.fs.s3a.connection.ssl.enabled": "false"},
            S3Access("http://s3.example"),
        ),
        ({ENDPOINT: ""}, S3Access()),
        ({ENDPOINT: "x", "spark.hadoop.fs.s3a.bucket.bkt.endpoint": "https://own"}, S3Access("https://own")),
        ({"spark.hadoop.fs.s3a.bucket.other.endpoint": "https://own"}, S3Access("http://minio:9000", "eu-1")),
        ({"spark.hadoop.fs.s3a.endpoint.region": "r"}, S3Access(STORE.endpoint_url, "r")),
    ],
)
def test_the_job_says_where_else_the_store_does(conf: dict[str, str], access: S3Access) -> None:
    assert access_of(conf, "bkt", STORE) == access
    both = {**properties_for(conf, "bkt", STORE), **conf}
    assert (
        access_of(both, "bkt", S3Access(others=(*OTHERS, "http://minio:9000"))).endpoint_url
        == access.endpoint_url
    )


@pytest.mark.parametrize(
    ("store", "named"),
    [
        (None, "https://evil.example"),
        (None, "http://s3.amazonaws.com"),
        (None, "https://s3.amazonaws.com.evil.example"),
        (None, "https://ec2-1-2-3-4.compute-1.amazonaws.com"),
        (None, "https://s3.amazonaws.com:8443"),
        ("http://minio:9000", ""),
        ("http://minio:9000", "http://minio:9001"),
        ("http://minio:9000", "https://minio:9000"),
        ("http://minio:9000", "http://minio:9000@evil.example"),
        ("http://minio:9000", "http://minio:9000\\@evil.example"),
        ("http://minio:9000", "http://minio:9000#.evil.example"),
        ("http://minio:9000", "http://minio:9000/x"),
        ("http://minio:9000", "ftp://minio:9000"),
        ("http://minio:9000", "http://[::1"),
    ],
)
@pytest.mark.parametrize("key", [ENDPOINT, "spark.hadoop.fs.s3a.bucket.bkt.endpoint"])
def test_an_endpoint_that_is_neither_the_stores_nor_listed_gets_no_access(
    store: str | None, named: str, key: str
) -> None:
    with pytest.raises(InvalidInput, match=r"policy\.endpoints"):
        access_of({key: named}, "bkt", S3Access(store))
    assert "policy.endpoints" in (
        why_no_access({key: named}, (None, "file:///x", "s3a://bkt/x"), S3Access(store)) or ""
    )


@pytest.mark.parametrize(
    ("store", "named"),
    [
        (None, ""),
        (None, "s3.eu-west-1.amazonaws.com"),
        (None, "https://s3.dualstack.us-east-1.amazonaws.com/"),
        ("http://minio:9000", "HTTP://MinIO:9000/"),
        ("https://minio", "minio:443"),
    ],
)
def test_the_stores_own_service_may_be_named_in_another_spelling(store: str | None, named: str) -> None:
    assert why_no_access({ENDPOINT: named}, ("s3://bkt/x",), S3Access(store)) is None
