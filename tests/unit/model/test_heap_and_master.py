"""What Spark would refuse is refused before it: the heap of a driver, and the master it is to run on."""

from __future__ import annotations

import pytest

from supervisor.errors import InvalidInput
from supervisor.model import heap
from supervisor.model.driver_memory import MIB, PROPERTY
from supervisor.model.master import ClusterKind, addresses, kind_of, why_unsupported
from supervisor.spec.job import canonical_json, from_canonical, memory_warnings, parse_spec

BASE = "name: clicks\napplication: clicks.py\ncheckpoint: s3a://bucket/ck\n"
OPTIONS = "spark.driver.extraJavaOptions"


@pytest.mark.parametrize(
    ("conf", "needs"),
    [
        ({}, None),
        ({PROPERTY: "450m"}, None),
        ({PROPERTY: "449m"}, 450),
        ({PROPERTY: "400m"}, 450),
        ({PROPERTY: "400"}, 450),  # a bare number is MiB
        ({PROPERTY: "1g"}, None),
        ({PROPERTY: "450m", OPTIONS: "-XX:+UseSerialGC"}, 465),
        ({PROPERTY: "465m", OPTIONS: "-XX:+UseSerialGC"}, None),
        ({PROPERTY: "504m", OPTIONS: "-Da=b -XX:+UseParallelGC"}, 505),
        ({PROPERTY: "505m", OPTIONS: "-XX:+UseParallelGC"}, None),
        ({PROPERTY: "much"}, None),  # Spark says it
        ({PROPERTY: "400m", "spark.testing.memory": "1g"}, None),
    ],
)
def test_the_smallest_heap(conf: dict[str, str], needs: int | None) -> None:
    why = heap.why_impossible(conf)
    assert (why is None) == (needs is None)
    assert needs is None or why is not None and f"Spark needs {needs} MiB" in why


def test_a_spec_with_an_impossible_heap_is_refused_with_the_numbers() -> None:
    with pytest.raises(
        InvalidInput, match="JOB.yaml: conf spark.driver.memory: driver memory 400 MiB, Spark needs 450 MiB"
    ):
        parse_spec(f"{BASE}conf: {{{PROPERTY}: 400m}}\n", "JOB.yaml")


def test_what_is_registered_already_stays_readable() -> None:
    spec = parse_spec(BASE, "JOB.yaml").model_copy(update={"conf": {PROPERTY: "400m"}, "master": "yarn"})
    assert from_canonical(canonical_json(spec), "key") == spec


@pytest.mark.parametrize(
    ("memory", "expected"), [("600m", "set resources.memory to 800m"), ("799m", "800m"), ("800m", "")]
)
def test_what_is_declared_must_hold_jvm_and_python(memory: str, expected: str) -> None:
    warned = "".join(
        map(
            str,
            memory_warnings(
                parse_spec(f"{BASE}conf: {{{PROPERTY}: 480m}}\nresources: {{memory: {memory}}}\n", "J")
            ),
        )
    )
    assert expected in warned and bool(expected) == bool(warned)


def test_a_large_heap_needs_more_beside_it() -> None:
    assert heap.needed_bytes(480 * MIB, python=False) == (480 + 192) * MIB
    assert heap.needed_bytes(8192 * MIB, python=False) == 8192 * MIB + 8192 * MIB // 10


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[2]",
        "local[*]",
        "local[4,2]",
        "local-cluster[2,1,1024]",
        "spark://host:7077",
        "spark://a:7077,b.example:7077",
        "spark://[::1]:7077",
    ],
)
def test_masters_that_are_supported(master: str) -> None:
    assert why_unsupported(master) is None


@pytest.mark.parametrize(
    "master",
    [
        "mesos://host:5050",
        "garbage",
        "local[]",
        "local[0]",
        "spark://host",
        "spark://",
        "spark://host:0",
        "spark://host:70000",
        "spark://host:7077,",
        "spark://host:7077/x",
    ],
)
def test_masters_that_are_not(master: str) -> None:
    with pytest.raises(InvalidInput, match=r"use local\[N\]"):
        parse_spec(f"{BASE}master: '{master}'\n", "JOB.yaml")


@pytest.mark.parametrize("master", ["yarn", "yarn-client", "k8s://https://host:443"])
def test_masters_that_need_settings_are_clusters_with_a_name(master: str) -> None:
    with pytest.raises(InvalidInput, match="name it in clusters of supervisor.yaml, and give cluster: NAME"):
        parse_spec(f"{BASE}master: '{master}'\n", "JOB.yaml")


@pytest.mark.parametrize(
    ("master", "kind"),
    [
        ("spark://a:7077", ClusterKind.STANDALONE),
        ("yarn", ClusterKind.YARN),
        ("k8s://https://api:6443", ClusterKind.KUBERNETES),
        ("k8s://https://[::1]:6443", ClusterKind.KUBERNETES),
        ("k8s://https://api", None),
        ("k8s://api:6443", None),
        ("k8s://https://api:70000", None),
        ("yarn-client", None),
        ("local[2]", None),
    ],
)
def test_what_kind_of_cluster_a_master_names(master: str, kind: ClusterKind | None) -> None:
    assert kind_of(master) is kind


def test_where_a_standalone_master_listens() -> None:
    assert addresses("spark://a:7077,[::1]:7078") == (("a", 7077), ("::1", 7078))
    assert addresses("local[2]") == ()
