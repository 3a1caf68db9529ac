"""A job's env does not choose the host's programs; what an older version stored stays readable."""

from __future__ import annotations

import pytest

from supervisor.errors import InvalidInput
from supervisor.model.host_tools import of_host, why_ignored, why_refused, without
from supervisor.spec.job import JobSpec, canonical_json, from_canonical, parse_spec

SPEC = "name: a\napplication: app.py\ncheckpoint: s3a://bkt/ck\nenv: {%s}\n"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("SPARK_HOME: /x", "SPARK_HOME:"),
        ("JAVA_HOME: '${env:X}'", "JAVA_HOME:"),
        ("JAVA_HOME: ''", "JAVA_HOME:"),
        ("JAVA_HOME: /x, SPARK_HOME: /y", "SPARK_HOME and JAVA_HOME:"),
    ],
)
def test_refused_at_submit_and_read_from_the_store(given: str, named: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_spec(SPEC % given, "a.yaml")
    assert f"env must not set {named}" in str(caught.value) and "spark.java_home of supervisor.yaml" in str(
        caught.value
    )
    names = named.rstrip(":").split(" and ")
    spec = JobSpec(
        name="a", application="app.py", checkpoint="s3a://bkt/ck", env=dict.fromkeys((*names, "OTHER"), "/x")
    )
    assert from_canonical(canonical_json(spec), "key") == spec
    assert (of_host(spec.env), without(spec.env)) == (tuple(names), {"OTHER": "/x"})
    assert (why_ignored(spec.env) or "").startswith(f"{named.rstrip(':')} ignored: every job is started with")


def test_others_are_the_jobs_own() -> None:
    env = {"PYSPARK_PYTHON": "/x", "spark_home": "/x", "SPARK_HOME_2": "/x"}
    assert (why_refused(env), why_ignored(env), without(env)) == (None, None, env)
