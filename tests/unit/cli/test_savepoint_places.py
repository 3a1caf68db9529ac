"""Where savepoints lie, and the whole round on S3: bucket to bucket, and beside the checkpoint where the store is elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.errors import InvalidInput
from supervisor.operations.checkpoints import Located
from supervisor.savepoints.operations import home_of
from supervisor.settings.file import Settings, load_settings
from supervisor.spec.s3a import S3Access
from tests.testbed.moto import MotoServer
from tests.unit.checkpoint.golden import inspected, only, unpack
from tests.unit.checkpoint.test_inspect import upload
from tests.unit.cli.conftest import REPEATS, Terminal

ENDPOINT = "spark.hadoop.fs.s3a.endpoint"


def settings(tmp_path: Path, store: str) -> Settings:
    path = tmp_path / "supervisor.yaml"
    path.write_text(
        f"cluster: test\nzookeeper: {{hosts: 'zk:2181', root: /t}}\nstore: {store}\n"
        "policy: {endpoints: ['http://other:9000', 'http://minio']}\n"
    )
    return load_settings(path, {})


@pytest.mark.parametrize(
    ("store", "checkpoint", "conf", "location"),
    [
        ("{url: 's3://aaa/p'}", "s3a://bbb/ck", {}, "s3://aaa/p/savepoints/n/i"),
        ("{url: 's3://aaa'}", "s3a://aaa/ck", {}, "s3://aaa/savepoints/n/i"),
        (
            "{url: 's3://aaa/p', endpoint_url: 'http://minio:9000/'}",
            "s3a://bbb/ck",
            {},
            "s3://aaa/p/savepoints/n/i",
        ),
        (
            "{url: 's3://aaa/p', endpoint_url: 'http://minio:9000'}",
            "s3a://bbb/ck",
            {ENDPOINT: "http://minio:9000"},
            "s3://aaa/p/savepoints/n/i",
        ),
        (
            "{url: 's3://aaa/p', endpoint_url: 'http://minio:9000'}",
            "s3a://bbb/ck",
            {ENDPOINT: "http://other:9000"},
            "s3://bbb/ck.savepoints/n/i",
        ),
        (
            "{url: 's3://aaa/p'}",
            "s3a://bbb/ck",
            {"spark.hadoop.fs.s3a.bucket.bbb.endpoint": "http://minio"},
            "s3://bbb/ck.savepoints/n/i",
        ),
        ("{url: 's3://aaa/p'}", "/data/ck", {}, "file:///data/ck.savepoints/n/i"),
        ("{url: 'file:///store'}", "s3a://bbb/ck", {}, "s3://bbb/ck.savepoints/n/i"),
        ("{url: 'file:///the%20store/'}", "file:///data/ck", {}, "file:///the store/savepoints/n/i"),
    ],
)
def test_where_a_new_one_lies(
    store: str, checkpoint: str, conf: dict[str, str], location: str, tmp_path: Path
) -> None:
    assert home_of(settings(tmp_path, store), Located(checkpoint, conf), "n", "i").location == location


def test_what_only_spark_can_reach(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="only Spark"):
        home_of(settings(tmp_path, "{url: 's3://aaa/p'}"), Located("hdfs://host/ck", {}), "n", "i")


def test_the_whole_round_on_s3(
    terminal: Terminal, tmp_path: Path, moto_server: MotoServer, s3_bucket: str
) -> None:
    other = moto_server.new_bucket()
    config = terminal.config.read_text().replace(
        f"url: 'file://{tmp_path}/store'",
        f"url: 's3://{other}/store', endpoint_url: '{moto_server.endpoint_url}'",
    )
    terminal.config.write_text(config)
    location = upload(unpack("files", tmp_path), moto_server, s3_bucket)
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {location}\n{REPEATS}")).code == 0
    ran = terminal.run("savepoint", "create", "clicks", "one", "-o", "json")
    assert (ran.code, ran.json["location"]) == (0, f"s3://{other}/store/savepoints/clicks/one"), ran.err
    assert terminal.run("savepoint", "verify", "clicks").code == 0
    assert terminal.run("cancel", "clicks").code == 0
    again = terminal.spec("clicks", f"checkpoint: s3a://{s3_bucket}/fresh")
    assert terminal.run("submit", again, "--from-savepoint", "one").code == 0
    assert only(inspected(f"s3://{s3_bucket}/fresh", S3Access(moto_server.endpoint_url))).commits.newest == 2
    assert terminal.run("savepoint", "delete", "clicks", "one").code == 0
    keys = [each["Key"] for each in moto_server.client().list_objects_v2(Bucket=other)["Contents"]]
    assert not [key for key in keys if "savepoints" in key]


def test_beside_the_checkpoint_where_the_store_is_elsewhere(
    terminal: Terminal,
    tmp_path: Path,
    moto_server: MotoServer,
    s3_bucket: str,
) -> None:
    config = terminal.config.read_text().replace(
        f"url: 'file://{tmp_path}/store'",
        f"url: 's3://{s3_bucket}/store', endpoint_url: '{moto_server.endpoint_url}'",
    )
    terminal.config.write_text(config)
    checkpoint = unpack("files", tmp_path)
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {checkpoint}\n{REPEATS}")).code == 0
    ran = terminal.run("savepoint", "create", "clicks", "one", "-o", "json")
    assert (ran.code, ran.json["location"]) == (0, f"file://{checkpoint}.savepoints/clicks/one"), ran.err
    assert terminal.run("savepoint", "list", "-o", "json").json[0]["state"] == "complete"
    assert terminal.run("savepoint", "restore", "clicks", "--to", f"{tmp_path}/fresh").code == 0
    assert terminal.run("savepoint", "delete", "clicks", "one").code == 0
    assert not Path(f"{checkpoint}.savepoints", "clicks", "one").exists()
