"""The files of deploy/standalone and deploy/yarn: what they say of the product is true, and of Spark and YARN what the test beds use."""

from __future__ import annotations

import configparser
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from supervisor.model.master import ClusterKind
from supervisor.settings.file import Settings
from supervisor.settings.sections import validated

DEPLOY = Path(__file__).parents[2] / "deploy"
REQUIRED = {"cluster": "prod", "store": {"url": "s3://bucket/p"}, "zookeeper": {"hosts": "zk1:2181"}}
TESTBED = Path(__file__).parents[1] / "testbed"


@pytest.mark.parametrize("kind", [ClusterKind.STANDALONE, ClusterKind.YARN])
def test_the_section_of_supervisor_yaml_is_valid(kind: ClusterKind) -> None:
    body = yaml.safe_load((DEPLOY / kind.value / "clusters.yaml").read_text())
    settings = validated(Settings, {**REQUIRED, **body}, "clusters.yaml")
    (cluster,) = settings.clusters.values()
    assert cluster.kind is kind and cluster.driver_host is not None


@pytest.mark.parametrize(
    ("unit", "daemon"),
    [
        ("spark-master.service", "org.apache.spark.deploy.master.Master"),
        ("spark-worker.service", "org.apache.spark.deploy.worker.Worker"),
    ],
)
def test_the_units_start_what_the_test_bed_starts(unit: str, daemon: str) -> None:
    text = (DEPLOY / "standalone" / unit).read_text()
    parsed = configparser.RawConfigParser(strict=False)
    parsed.optionxform = str  # type: ignore[method-assign, assignment]
    parsed.read_string(text)
    assert daemon in parsed["Service"]["ExecStart"].split()
    assert parsed["Service"]["Restart"] == "always"
    assert daemon in (TESTBED / "standalone.py").read_text()


def test_masters_recover_as_those_of_the_test_bed() -> None:
    text, bed = (
        (DEPLOY / "standalone" / "spark-master.service").read_text(),
        (TESTBED / "standalone.py").read_text(),
    )
    for key in (
        "spark.deploy.recoveryMode=ZOOKEEPER",
        "spark.deploy.zookeeper.url=",
        "spark.deploy.zookeeper.dir=",
    ):
        assert key in text and key in bed


@pytest.mark.parametrize("name", ["yarn-site.xml", "capacity-scheduler.xml"])
def test_properties_of_yarn_are_named_once_each(name: str) -> None:
    root = ElementTree.parse(DEPLOY / "yarn" / name).getroot()
    names = [each.findtext("name") for each in root.iter("property")]
    assert root.tag == "configuration" and len(names) == len(set(names)) > 3
    assert all(each.findtext("value") for each in root.iter("property"))


def test_the_queue_is_the_one_that_jobs_are_given() -> None:
    (cluster,) = yaml.safe_load((DEPLOY / "yarn" / "clusters.yaml").read_text())["clusters"].values()
    queues = (DEPLOY / "yarn" / "capacity-scheduler.xml").read_text()
    assert f"yarn.scheduler.capacity.root.{cluster['queue']}.capacity" in queues
