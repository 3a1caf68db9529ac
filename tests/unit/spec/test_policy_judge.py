"""What the policy has against a spec: rules and names that count, and what one policy is. Attacks are in tests/attacks."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from supervisor.errors import InvalidInput
from supervisor.settings.file import StoreSettings
from supervisor.settings.policy import PolicySettings, SecretSettings
from supervisor.settings.sections import validated
from supervisor.spec.job import JobSpec, canonical_json, from_canonical, parse_spec
from supervisor.spec.policy_judge import complaints, policy_sha256, with_forced

STORE = StoreSettings(url="s3://store/x", endpoint_url="https://store.example")


def policy(**keys: Any) -> PolicySettings:
    return validated(PolicySettings, keys, "supervisor.yaml")


def spec(**keys: Any) -> JobSpec:
    body = {"name": "clicks", "application": "store:00/app.py", "checkpoint": "s3a://streams/clicks", **keys}
    return validated(JobSpec, body, "clicks.yaml")


def against(job: JobSpec, rules: PolicySettings) -> list[str]:
    return [each.what for each in complaints(job, rules, STORE)]


def test_by_default_everything_is_allowed_that_was() -> None:
    job = spec(
        env={"A": "${env:AWS_SECRET_ACCESS_KEY}", "B": "${file:/etc/shadow}", "SPARK_SUBMIT_OPTS": "@/x"},
        conf={"spark.plugins": "x", "spark.files": "/x"},
        jars=["local:/x.jar"],
        packages=["a:b:1"],
        checkpoint="s3a://any/where",
    )
    assert against(job, policy()) == []
    assert with_forced(job, policy().conf) is job


@pytest.mark.parametrize(
    ("rule", "path", "allowed"),
    [
        ("/etc/secrets/{job}/*", "/etc/secrets/clicks/key", True),
        ("/etc/secrets/{job}/*", "/etc/secrets/clicks/deep/key", True),
        ("/etc/secrets/{job}/*", "/etc/secrets/clicks", False),
        ("/etc/secrets/{job}/*", "/etc/secrets/clicks-evil/key", False),
        ("/etc/secrets/{job}/*", "/etc/secrets/clicks/../payments/key", False),
        ("/etc/secrets/{job}/*", "/etc//secrets/./clicks/key", True),
        ("/etc/secrets/{job}-*/key", "/etc/secrets/clicks-eu/key", True),
        ("/etc/secrets/common", "/etc/secrets/common", True),
        ("/etc/secrets/common", "/etc/secrets/common/key", False),
        ("*", "/etc/shadow", True),
    ],
)
def test_files_of_secrets(rule: str, path: str, allowed: bool) -> None:
    rules = policy(secrets={"files": [rule]})
    for job in (spec(env={"X": f"${{file:{path}}}"}), spec(conf={"spark.x": f"${{file:{path}}}"})):
        found = against(job, rules)
        assert (found == []) is allowed
        assert all("policy.secrets.files" in each for each in found)


def test_nothing_is_allowed_where_the_list_is_empty() -> None:
    rules = policy(secrets={"env": [], "files": []})
    found = against(spec(env={"X": "${env:A}", "Y": "${file:/a/b}", "Z": "plain"}), rules)
    assert found == [
        "env X: variable A is none that policy.secrets.env allows (none)",
        "env Y: file /a/b is none that policy.secrets.files allows (none)",
    ]


def test_in_conf_a_variable_of_the_jobs_own_and_a_part_of_a_text_are_for_spark() -> None:
    rules = policy(secrets={"env": [], "files": []})
    job = spec(
        env={"OWN": "x"},
        conf={"spark.a": "${env:OWN}", "spark.b": "a ${env:AWS_X} b", "spark.c": "${spark.a}"},
    )
    assert against(job, rules) == []


def test_a_reference_in_conf_that_is_malformed_is_told_at_submit_and_stays_what_it_was_in_a_stored_spec() -> (
    None
):
    text = "name: a\napplication: a.py\nunbounded: false\nconf: {spark.x: '%s'}\n"
    for value in ("a ${file:/x}", "${file:relative}"):
        with pytest.raises(InvalidInput, match=r"conf spark\.x is malformed"):
            parse_spec(text % value, "a.yaml")
    stored = canonical_json(parse_spec(text % "plain", "a.yaml")).replace(b"plain", b"a ${file:/x}")
    assert from_canonical(stored, "k").conf == {"spark.x": "a ${file:/x}"}
    assert parse_spec(text % "${env:HOME}/x", "a.yaml").conf == {"spark.x": "${env:HOME}/x"}


@pytest.mark.parametrize(
    ("rule", "keys", "key"),
    [
        ("spark.jars", {"jars": ["local:/a.jar"]}, "jars"),
        ("spark.jars", {"conf": {"spark.yarn.dist.jars": "x"}}, "conf spark.yarn.dist.jars"),
        ("spark.jars.packages", {"packages": ["a:b:1"]}, "packages"),
        ("spark.submit.*", {"py_files": ["local:/a.zip"]}, "py_files"),
        ("spark.driver.memory", {"restart": {"memory_step": 2.0, "memory_max": "8g"}}, "restart.memory_step"),
        ("spark.driver.memory", {"env": {"SPARK_DRIVER_MEMORY": "1g"}}, "env SPARK_DRIVER_MEMORY"),
        ("spark.driver.extra*", {"env": {"JAVA_TOOL_OPTIONS": "x"}}, "env JAVA_TOOL_OPTIONS"),
        ("spark.executor.defaultJavaOptions", {"conf": {"spark.executor.extraJavaOptions": "x"}}, "conf spark.executor.extraJavaOptions"),
        ("spark.hadoop.fs.s3a.*.provider", {"conf": {"spark.hadoop.fs.s3a.bucket.my.own.b.aws.credentials.provider": "x"}}, "conf spark.hadoop.fs.s3a.bucket.my.own.b.aws.credentials.provider"),
        ("spark.hadoop.fs.s3a.proxy.*", {"env": {"HADOOP_CONF_DIR": "/x"}}, "env HADOOP_CONF_DIR"),
        ("*", {"conf": {"spark.x": "1"}}, "conf spark.x"),
        ("spark.SQL.extensions", {"conf": {"spark.sql.extensions": "x"}}, "conf spark.sql.extensions"),
    ],
)  # fmt: skip
def test_names_under_which_a_property_counts(rule: str, keys: dict[str, Any], key: str) -> None:
    (found,) = against(spec(**keys), policy(conf={"forbidden": [rule]}))
    assert found.startswith(f"{key}: ") and f"policy.conf.forbidden ({rule})" in found


@pytest.mark.parametrize(
    ("rule", "keys"),
    [
        ("spark.jars", {"conf": {"spark.jars.packages": "x"}}),
        ("spark.plugins", {"env": {"HADOOP_CONF_DIR": "/x"}}),
        ("spark.driver.memory", {"conf": {"spark.driver.memoryOverhead": "1g"}}),
        (
            "spark.plugins",
            {"conf": {"spark.driver.extraJavaOptions": "-Dspark.pluginsX=1 -Dother.spark.plugins=x"}},
        ),
    ],
)
def test_what_no_rule_is_about(rule: str, keys: dict[str, Any]) -> None:
    assert against(spec(**keys), policy(conf={"forbidden": [rule]})) == []


def test_forced_properties_win_and_are_set_in_no_other_way() -> None:
    rules = policy(conf={"forced": {"spark.jars": "/ours.jar", "spark.x": 1}})
    assert with_forced(spec(conf={"spark.x": "2", "spark.y": "3"}), rules.conf).conf == {
        "spark.jars": "/ours.jar", "spark.x": "1", "spark.y": "3",
    }  # fmt: skip
    assert against(spec(conf={"spark.x": "2", "spark.jars": "/own.jar"}), rules) == []
    assert against(spec(jars=["local:/a.jar"]), rules) == [
        "jars: spark.jars is set by policy.conf.forced, and this sets it, too"
    ]
    assert against(spec(env={"SPARK_CONF_DIR": "/x"}), rules) != []


def test_what_is_forced_may_be_forbidden_as_well() -> None:
    rules = policy(conf={"forced": {"spark.plugins": ""}, "forbidden": ["spark.plugins"]})
    assert against(spec(), rules) == []
    assert len(against(spec(conf={"spark.plugins": "x"}), rules)) == 1


def test_the_endpoint_that_is_forced_is_judged() -> None:
    evil = {"spark.hadoop.fs.s3a.endpoint": "http://evil"}
    forced = {"spark.hadoop.fs.s3a.endpoint": "https://other.example"}
    assert "policy.endpoints" in against(spec(conf=evil), policy())[0]
    assert (
        against(spec(conf=evil), policy(conf={"forced": forced}, endpoints=["https://other.example"])) == []
    )


def test_files_in_place() -> None:
    named = ["local:/a.jar", "s3://bucket/c.jar"]
    job = spec(jars=named, sha256={named[0]: "ab" * 32})
    assert against(job, policy(in_place_files="allow")) == []
    assert against(job, policy(in_place_files="pinned")) == [
        "jars: policy.in_place_files is pinned, and s3://bucket/c.jar has no entry in sha256"
    ]
    assert len(against(job, policy(in_place_files="forbid"))) == 2
    assert against(spec(), policy(in_place_files="forbid")) == []


@pytest.mark.parametrize("named", ["local:/b.jar", "app.py", "store:00/app.py"])
def test_a_pin_is_of_a_file_that_the_spec_uses_in_place(named: str) -> None:
    with pytest.raises(InvalidInput, match="sha256 holds"):
        spec(jars=["local:/a.jar"], sha256={named: "ab" * 32})


@pytest.mark.parametrize("digest", ["AB" * 32, "ab", "", "g" * 64])
def test_a_pin_is_a_sha256(digest: str) -> None:
    with pytest.raises(InvalidInput, match="must be a SHA-256"):
        spec(jars=["local:/a.jar"], sha256={"local:/a.jar": digest})


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ((), "/usr/bin/python3", False),
        (("/usr/bin/python3",), "/usr/bin/python3", True),
        (("/usr/bin/python3",), "/usr/bin/python3.12", False),
        (("/opt/*/bin/python",), "/opt/py312/bin/python", True),
        (("/opt/*/bin/python",), "/opt/a/b/bin/python", False),
        (("/opt/py/*",), "/opt/py/bin/python", True),
    ],
)
def test_an_interpreter_is_one_that_the_host_allows(rules: tuple[str, ...], path: str, allowed: bool) -> None:
    found = complaints(spec(python={"interpreter": path}), policy(), STORE, rules)
    assert (found == ()) is allowed
    for each in found:
        assert each.what.startswith(
            f"python.interpreter: {path} is none that spark.pythons of supervisor.yaml"
        )


def test_the_python_of_a_job_counts_as_the_properties_that_it_sets() -> None:
    rules = policy(conf={"forbidden": ["spark.pyspark.*"]})
    for python in ({"interpreter": "/opt/python"}, {"archive": "store:00/env.tar.gz"}):
        (found,) = complaints(spec(python=python), rules, STORE, ("/opt/*",))
        assert found.what.endswith(
            "spark.pyspark.python, which this sets, is forbidden by policy.conf.forbidden (spark.pyspark.*)"
        )
    archives = against(
        spec(python={"archive": "store:00/e.tgz"}), policy(conf={"forbidden": ["spark.archives"]})
    )
    assert archives[0].startswith("python.archive: spark.archives, which this sets, is forbidden")


def test_an_archive_in_place_is_judged_as_other_files_are() -> None:
    given = {"archive": "s3://jobs/env.tar.gz"}
    (why,) = against(spec(python=given), policy(in_place_files="pinned"))
    assert why.startswith("python.archive: policy.in_place_files is pinned")
    pinned = spec(python=given, sha256={"s3://jobs/env.tar.gz": "ab" * 32})
    assert against(pinned, policy(in_place_files="pinned", in_place_locations=["s3://jobs/*"])) == []


@pytest.mark.parametrize(
    ("named", "rules", "allowed"),
    [
        ("s3://other/team-b/etl.py", None, False),
        ("s3a://streams/clicks/lib.py", None, True),
        ("s3://streams/other/lib.py", None, False),
        ("s3a://store/x/lib.py", None, True),
        ("s3a://store/x-evil/lib.py", None, False),
        ("local:/opt/lib.py", None, True),
        ("local:/opt/lib.py", ["s3://libs/*"], False),
        ("local:/opt/lib.py", ["/opt/*"], True),
        ("s3://libs/a/lib.py", ["s3a://libs/*"], True),
        ("s3://other/lib.py", ["*"], True),
    ],
)
def test_where_files_in_place_may_lie(named: str, rules: list[str] | None, allowed: bool) -> None:
    job = spec(py_files=[named], sha256={named: "ab" * 32})
    found = against(job, policy(in_place_files="pinned", in_place_locations=rules))
    assert (found == []) is allowed, found
    assert all("policy.in_place_locations" in each for each in found)
    if rules is not None:
        assert (against(job, policy(in_place_locations=rules)) == []) is allowed
    else:
        assert against(job, policy()) == []


def test_a_policy_that_pins_code_is_told_from_that_of_a_version_which_knew_fewer_names() -> None:
    store = {"policy": {"in_place_files": "pinned"}, "store": STORE.endpoint_url}
    before = hashlib.sha256(json.dumps(store, sort_keys=True).encode()).hexdigest()
    assert policy_sha256(policy(in_place_files="pinned"), STORE) != before


def test_variables_are_those_that_the_operator_allows() -> None:
    rules = policy(env={"allowed": ["APP_*", "PYTHONPATH"]})
    assert against(spec(env={"APP_X": "1", "PYTHONPATH": "/x"}), rules) == []
    (why,) = against(spec(env={"DB_HOST": "x"}), rules)
    assert why == "env DB_HOST: the variable is none that policy.env.allowed allows (APP_*, PYTHONPATH)"
    pinned = policy(in_place_files="pinned", env={"allowed": ["*", "PYTHONPATH"]})
    assert against(spec(env={"DB_HOST": "x", "PYTHONPATH": "/x"}), pinned) == []


def test_one_policy_is_told_from_another_and_not_by_order_or_defaults() -> None:
    def digest(endpoint: str | None = None, **keys: Any) -> str:
        return policy_sha256(policy(**keys), StoreSettings(url="s3://store/x", endpoint_url=endpoint))

    assert digest() == digest(checkpoints=["*"]) == digest(secrets={"env": ["*"]})
    assert digest(checkpoints=["/a/*", "/b/*"]) == digest(checkpoints=["/b/*", "/a/*"])
    others = [
        digest(),
        digest(checkpoints=["/a/*"]),
        digest(deletable=["/a/*"]),
        digest(conf={"forced": {"spark.x": "1"}}),
        digest(conf={"forced": {"spark.x": "2"}}),
        digest(in_place_files="forbid"),
        digest("https://store.example"),
        policy_sha256(policy(), StoreSettings(url="s3://store/x"), "", pythons=("/opt/*/bin/python",)),
        policy_sha256(policy(), StoreSettings(url="s3://store/x"), clusters=("prod",)),
    ]
    assert len(set(others)) == len(others) and all(len(each) == 64 for each in others)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"secrets": {"files": ["relative/*"]}}, "no absolute path"),
        ({"secrets": {"files": ["/a/{name}/*"]}}, "has braces"),
        ({"secrets": {"files": ["s3a://b/c"]}}, "no absolute path"),
        ({"secrets": {"env": ["A-B"]}}, "no name of an environment variable"),
        ({"driver_environment": {"inherit": ["A=1"]}}, "no name of an environment variable"),
        ({"conf": {"forbidden": ["plugins"]}}, "no name of a Spark property"),
        ({"conf": {"forced": {"spark.master": "x"}}}, "use the key master"),
        ({"in_place_files": "pin"}, "in_place_files must be"),
    ],
)  # fmt: skip
def test_what_is_no_rule_is_refused(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        policy(**keys)


def test_the_default_of_secrets_is_everything() -> None:
    assert SecretSettings() == policy().secrets


def test_uploads_of_logs() -> None:
    job = spec(logs={"upload": "on_exit", "keep": 30})
    assert against(job, policy()) == [] and against(spec(), policy(logs={"upload": "forbid"})) == []
    assert against(job, policy(logs={"upload": "forbid"})) == ["logs.upload: policy.logs.upload is forbid"]
    assert against(job, policy(logs={"keep_max": 29})) == ["logs.keep: 30 is above policy.logs.keep_max (29)"]
    assert against(job, policy(logs={"keep_max": 30})) == []
    assert policy_sha256(policy(logs={"keep_max": 30}), STORE) != policy_sha256(policy(), STORE)
    assert policy_sha256(policy(logs={"upload": "allow"}), STORE) == policy_sha256(policy(), STORE)
