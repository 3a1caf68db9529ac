"""Driver and supervisor mean the same bucket at the same service."""

from __future__ import annotations

import pytest

from supervisor.model.s3a import S3Access, access_of, bucket_of, for_spark, for_store, properties_for

STORE = S3Access("http://minio:9000", "eu-1")
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
        ({}, STORE),
        ({ENDPOINT: "https://s3.example"}, S3Access("https://s3.example", None)),
        ({ENDPOINT: "s3.example:9000"}, S3Access("https://s3.example:9000", None)),
        ({ENDPOINT: "s3.example", "spark.hadoop.fs.s3a.connection.ssl.enabled": "false"}, S3Access("http://s3.example")),
        ({ENDPOINT: ""}, S3Access()),
        ({ENDPOINT: "x", "spark.hadoop.fs.s3a.bucket.bkt.endpoint": "https://own"}, S3Access("https://own")),
        ({"spark.hadoop.fs.s3a.bucket.other.endpoint": "https://own"}, STORE),
        ({"spark.hadoop.fs.s3a.endpoint.region": "r"}, S3Access(STORE.endpoint_url, "r")),
    ],
)
def test_the_job_says_where_else_the_store_does(conf: dict[str, str], access: S3Access) -> None:
    assert access_of(conf, "bkt", STORE) == access
    told = {**properties_for(conf, "bkt", STORE), **conf}
    assert access_of(told, "bkt", S3Access()).endpoint_url == access.endpoint_url
