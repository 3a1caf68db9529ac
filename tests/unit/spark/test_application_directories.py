"""What a driver is told of its temporary directory and its warehouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.spark.application_directories import warehouse_of, with_scratch

KEY = "spark.driver.extraJavaOptions"
SCRATCH = Path("/var/lib/spark-supervisor/tmp/u1.3/t")


def test_the_option_stands_before_those_of_the_job() -> None:
    assert with_scratch({KEY: " -Da=1 "}, {}, SCRATCH) == {KEY: f"-Djava.io.tmpdir={SCRATCH} -Da=1"}
    assert with_scratch({}, {}, Path("/a b/t")) == {KEY: '"-Djava.io.tmpdir=/a b/t"'}
    assert with_scratch({}, {}, Path('/a"b/t')) == {}, "it can't be written there"


@pytest.mark.parametrize(
    ("conf", "env"),
    [
        ({KEY: "-Djava.io.tmpdir=/x"}, {}),
        ({"spark.driver.defaultJavaOptions": "-Da=1 -Djava.io.tmpdir=/x"}, {}),
        ({}, {"SPARK_SUBMIT_OPTS": "-Djava.io.tmpdir=/x"}),
        ({}, {"JAVA_TOOL_OPTIONS": "-Djava.io.tmpdir=/x"}),
    ],
)
def test_what_job_or_host_say_wins(conf: dict[str, str], env: dict[str, str]) -> None:
    assert with_scratch(conf, env, SCRATCH) == {}


def test_the_warehouse_is_in_the_working_directory_unless_hive_says_where(tmp_path: Path) -> None:
    cwd = Path("/state/jobs/u1/cwd")
    said = {"spark.sql.warehouse.dir": "file:///state/jobs/u1/cwd/spark-warehouse"}
    conf_dir = {"SPARK_HOME": "/opt/spark", "HADOOP_CONF_DIR": str(tmp_path)}
    assert warehouse_of(cwd, {}, conf_dir) == said
    assert warehouse_of(cwd, {"spark.sql.warehouse.dir": "s3a://b/w"}, conf_dir) == {}
    assert warehouse_of(cwd, {"spark.hadoop.hive.metastore.warehouse.dir": "/w"}, conf_dir) == {}
    (tmp_path / "hive-site.xml").touch()
    assert warehouse_of(cwd, {}, conf_dir) == {}
