"""The job spec: every key, one sentence per mistake, and bytes that stay the same."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.errors import Corrupt, InvalidInput
from supervisor.model.records import PrepareLevel
from supervisor.model.restart import OnExhausted, RestartPolicy, Strategy
from supervisor.model.savepoint_policy import SavepointPolicy
from supervisor.settings.defaults import Defaults
from supervisor.spec.job import (
    SPEC_MAX_BYTES,
    JobSpec,
    canonical_json,
    from_canonical,
    local_paths,
    named_files,
    parse_spec,
    secret_warnings,
    spec_sha256,
    with_files,
    with_uploaded,
)

MINIMAL = "name: clicks\napplication: jobs/clicks.py\ncheckpoint: s3a://bucket/ck\n"
JAR = "name: clicks\napplication: clicks.jar\ncheckpoint: s3a://bucket/ck\n"


def parsed(more: str = "", base: str = MINIMAL, defaults: Defaults | None = None) -> JobSpec:
    return parse_spec(base + more, "JOB.yaml", defaults)


def test_defaults_are_those_of_the_contract() -> None:
    assert json.loads(canonical_json(parsed())) == {
        "v": 1,
        "name": "clicks",
        "application": "jobs/clicks.py",
        "class": None,
        "entry": None,
        "args": [],
        "py_files": [],
        "jars": [],
        "packages": [],
        "launch": "submit",
        "master": "local[2]",
        "deploy_mode": "client",
        "conf": {},
        "env": {},
        "checkpoint": "s3a://bucket/ck",
        "unbounded": True,
        "resources": {"memory": "1g", "priority": 0},
        "lease": "30s",
        "stop_grace": "30s",
        "health": {"start_timeout": "5m", "stall_timeout": "10m"},
        "restart": {
            "strategy": "exponential",
            "initial": "1s",
            "max": "5m",
            "jitter": 0.2,
            "reset_after": "10m",
            "attempts": None,
            "on_exhausted": "fail",
        },
    }


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("chekpoint: x", "unknown key 'chekpoint' in JOB.yaml; did you mean 'checkpoint'?"),
        ("py-files: []", "unknown key 'py-files' in JOB.yaml; did you mean 'py_files'?"),
        ("restart: {maxx: 1s}", "unknown key 'restart.maxx' in JOB.yaml; did you mean 'restart.max'?"),
        (
            "resources: {cores: 2}",
            "unknown key 'resources.cores' in JOB.yaml; known here: cpu, memory, memory_limit, priority, tasks",
        ),
        ("main_class: a.B", "unknown key 'main_class' in JOB.yaml"),
        ("lease_s: 30s", "unknown key 'lease_s' in JOB.yaml; did you mean 'lease'?"),
        ("args: --topic", "JOB.yaml: args must be a list, not text"),
        ("args: [--n, 5]", "JOB.yaml: args[1] must be text, not a number; put it in quotes"),
        ("args: [null]", "JOB.yaml: args[0] must be text, not null"),
        ("args: [[a]]", "JOB.yaml: args[0] must be text, not a list"),
        ('args: ["a\\0b"]', "JOB.yaml: args[0] holds a NUL character; remove it"),
        ('env: {"A\\0": b}', "JOB.yaml: env holds a NUL character"),
        ("py_files: [a.txt]", "py_files[0] 'a.txt' must name a .py or .zip or .egg file"),
        ("spark: 4.1", "spark must be text, not a number; put it in quotes"),
        ("spark: ''", "spark '' must be the name of a Spark version like 4.1"),
        ("spark: '4.1/..'", "must be the name of a Spark version"),
        (
            "python: {archiv: a.tar.gz}",
            "unknown key 'python.archiv' in JOB.yaml; did you mean 'python.archive'?",
        ),
        ("python: {archive: env.zip}", "python.archive 'env.zip' must name a .tar.gz or .tgz file"),
        ("python: {archive: a.tgz, interpreter: /bin/python}", "a driver has one Python; remove one"),
        (
            "python: {interpreter: python3}",
            "python.interpreter 'python3' must be the absolute path of a Python",
        ),
        ("python: {interpreter: /opt/../python3}", "without '..'"),
        ("python: {archive: a.tgz}\nenv: {PYSPARK_PYTHON: /x}", "python and env PYSPARK_PYTHON both name"),
        (
            "python: {archive: a.tgz}\nconf: {spark.pyspark.python: /x}",
            "python and conf spark.pyspark.python both name",
        ),
        (
            "python: {archive: a.tgz}\nconf: {spark.archives: 'b.zip#environment'}",
            "uses the name environment of python.archive",
        ),
        ("jars: [a.py]", "jars[0] 'a.py' must name a .jar file"),
        ("jars: ['a,b.jar']", "holds a comma"),
        ("jars: ['http://host/a.jar']", "has scheme http:; give a local path, s3://, s3a:// or local:"),
        ("jars: ['file:/a.jar']", "write the bare path to upload the file"),
        ("jars: ['local:a.jar']", "absolute path after local:"),
        ("jars: ['s3://b/a.jar']", "names no usable bucket"),
        ("jars: ['store:a.jar']", "only the supervisor writes"),
        ("packages: ['org.apache:thing']", "must be Maven coordinates"),
        ("class: a.B", "class is for a .jar application only"),
        ("entry: m:f", "entry is for launch: session only"),
        ("launch: session", "launch: session needs entry"),
        ("launch: session\nentry: f", "entry 'f' must be module:function"),
        ("launch: sumbit", "launch must be 'submit' or 'session'; did you mean 'submit'?"),
        ("master: ''", "master must be a Spark master"),
        ("deploy_mode: cluster", "deploy_mode cluster is not supported"),
        ("deploy_mode: local", "deploy_mode must be 'client'"),
        (
            "conf: {shuffle: 1}",
            "conf holds 'shuffle', but spark-submit takes only properties that begin with 'spark.'",
        ),
        ("conf: {spark.a: null}", "conf.spark.a must be text, not null"),
        ("conf: {spark.a: [1]}", "conf.spark.a must be text, not a list"),
        ("conf: {spark.master: x}", "use the key master of the spec"),
        ("conf: {spark.submit.deployMode: cluster}", "use the key deploy_mode"),
        ("conf: {spark.jars.packages: 'a:b:1'}\npackages: ['c:d:1']", "use packages alone"),
        ("conf: [a]", "conf must be a mapping, not a list"),
        ("env: {A-B: x}", "no name of an environment variable"),
        ("env: {SPARK_SUPERVISOR_UID: x}", "the supervisor's own"),
        ("env: {A: null}", "env.A must be text, not null"),
        ("env: {A: '${env:1}'}", "env.A is malformed"),
        ("env: {A: 'x${file:/a}'}", "must be the whole value"),
        ("unbounded: yes", "unbounded must be true or false, not text"),
        ("unbounded: 1", "unbounded must be true or false, not a number"),
        ("resources: {memory: 1024}", "write 1024m for MiB"),
        ("resources: {memory: 0g}", "resources.memory must be at least"),
        ("resources: {priority: high}", "resources.priority must be a whole number, not text"),
        ("labels: web", "labels must be a mapping, not text"),
        ("labels: {'a b': x}", "labels holds 'a b', which is no key of a label: that has 1 to 63 letters"),
        ("labels: {team: a b}", "labels.team 'a b' must be 1 to 63 letters, digits"),
        ("labels: {team: ''}", "labels.team '' must be 1 to 63 letters"),
        ("labels: {team: null}", "labels.team must be text, not null"),
        ("labels: {team: 'a=b'}", "labels.team 'a=b' must be"),
        (
            f"labels: {{{', '.join(f'k{n}: v' for n in range(17))}}}",
            "labels has 17 labels, and 16 are the most",
        ),
        (
            f"labels: {{{', '.join(f'k{n}: ' + 60 * 'v' for n in range(9))}}}",
            "labels has 567 characters of labels, and 512 are the most",
        ),
        ("placement: {require: {zone: a/b}}", "placement.require.zone 'a/b' must be"),
        ("placement: {spread: a b}", "placement.spread 'a b' is no key of a label"),
        ("placement: {group: web}", "placement spread is missing, without which no group is kept apart"),
        ("placement: {prefer: {}}", "unknown key 'placement.prefer'"),
        ("lease: 30", "lease is a number without a unit; write 30s"),
        ("lease: 4s", "outside of what is allowed (5s to 5m)"),
        ("lease: 301s", "outside of what is allowed"),
        ("stop_grace: 2h", "outside of what is allowed (0s to 1h)"),
        ("restart: fixed", "restart must be a mapping, not text"),
        ("restart: {attempts: -1}", "restart.attempts must be at least 0"),
        ("restart: {attempts: true}", "restart.attempts must be a whole number, not true or false"),
        ("restart: {initial: 0s}", "outside of what is allowed"),
        ("restart: {memory_step: 1, memory_max: 8g}", "restart.memory_step must be more than 1"),
        ("restart: {memory_step: big, memory_max: 8g}", "restart.memory_step must be a number, not text"),
        ("restart: {memory_step: 1.5}", "memory_step needs memory_max"),
        ("restart: {memory_max: 8g}", "memory_max is the bound of memory_step, which is missing"),
        ("restart: {memory_step: 1.5, memory_max: 8}", "write 8m for MiB"),
        ("restart: {memory_step: 1.5, memory_max: lots}", "restart.memory_max is not a size"),
        (
            "restart: {memory_step: 1.5, memory_max: 1g}\nresources: {memory: 300m}",
            "begins with 300m (resources.memory), and Spark",
        ),
        (
            "restart: {memory_step: 1.5, memory_max: 1g}",
            "memory_max is not above the 1g that the driver begins with (resources",
        ),
        (
            "restart: {memory_step: 1.5, memory_max: 2g}\nconf: {spark.driver.memory: 4g}",
            "begins with (conf spark.driver.memory)",
        ),
        (
            "restart: {memory_step: 1.5, memory_max: 2g}\nconf: {spark.driver.memory: much}",
            "which is no size ('much')",
        ),
        ("restart: {on_exhausted: stop}", "must be 'fail' or 'suspend'"),
        ("health: {stall_timeout: 0s}", "outside of what is allowed"),
        ("health: {cluster_timeout: 9s}", "is 9s, outside of what is allowed (10s to 720h)"),
        ("name: clicks", "given twice"),
    ],
)
def test_a_mistake_is_one_sentence(more: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsed(more)
    assert says in str(caught.value)
    assert "JOB.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "JOB.yaml is empty"),
        ("name: a", "application is missing; add it"),
        ("name: a\napplication: a.py", "checkpoint is missing"),
        ("name: a\napplication: a.py\ncheckpoint: relative", "checkpoint location 'relative' is relative"),
        ("name: a\napplication: a.py\ncheckpoint: s3a://bucket", "is the root of its file system or bucket"),
        ("name: a\napplication: a.py\nunbounded: false\nargs: ['{checkpoint}']", "there is no checkpoint"),
        ("name: a\napplication: a.sh\ncheckpoint: /c", "must name a .py or .jar file"),
        ("name: a\napplication: .py\ncheckpoint: /c", "must name a .py or .jar file"),
        (JAR + "py_files: [a.py]", "py_files are for a .py application only"),
        (JAR + "launch: session\nentry: m:f", "launch: session needs a .py application"),
        (JAR + "class: 'a b'", "class 'a b' must be the name of a class"),
    ],
)
def test_a_whole_spec_that_is_wrong(text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_spec(text, "JOB.yaml")
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a_b", "a.b", "a/b", "a" * 64, "ä", "a\n"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        parse_spec(json.dumps({"name": name, "application": "a.py", "checkpoint": "/c"}), "JOB.yaml")


@pytest.mark.parametrize("name", ["a", "0", "a-b", "a--b", "a" * 63])
def test_names_that_are_allowed(name: str) -> None:
    assert (
        parse_spec(json.dumps({"name": name, "application": "a.py", "checkpoint": "/c"}), "JOB.yaml").name
        == name
    )


def test_a_spec_over_64_kib_is_refused() -> None:
    fits = "#" * (SPEC_MAX_BYTES - len(MINIMAL))
    assert parsed(fits)
    with pytest.raises(InvalidInput, match="larger than 64 KiB"):
        parsed(fits + "#")


def test_conf_becomes_what_spark_expects() -> None:
    spec = parsed(
        "conf: {spark.a: true, spark.b: False, spark.c: 8, spark.d: 1.10, spark.e: '', spark.f: on, spark.g: 010}"
    )
    assert spec.conf == {
        "spark.a": "true",
        "spark.b": "false",
        "spark.c": "8",
        "spark.d": "1.10",
        "spark.e": "",
        "spark.f": "on",
        "spark.g": "010",
    }


def test_args_and_env_are_kept_verbatim() -> None:
    args = 'args: ["a\\nb", "{x}", "ü 😀 $(x)", "{{checkpoint}}", "{checkpoint}/{checkpoint}"]'
    spec = parsed(f'{args}\nenv: {{PORT: 8080, A: "x=\\ny"}}')
    assert spec.env == {"PORT": "8080", "A": "x=\ny"}
    assert spec.application_args() == (
        "a\nb",
        "{x}",
        "ü 😀 $(x)",
        "{s3a://bucket/ck}",
        "s3a://bucket/ck/s3a://bucket/ck",
    )


def test_a_bounded_job_needs_no_checkpoint() -> None:
    spec = parse_spec("name: a\napplication: a.py\nunbounded: false", "JOB.yaml")
    assert spec.checkpoint is None
    assert spec.scheduling().checkpoint is None


def test_what_is_not_said_comes_from_the_defaults_key_by_key() -> None:
    defaults = Defaults.model_validate(
        {
            "lease": "20s",
            "stop_grace": "5s",
            "restart": {"strategy": "fixed", "initial": "3s"},
            "conf": {"spark.a": "1", "spark.b": "2"},
            "resources": {"memory": "2g"},
            "health": {"start_timeout": "1m"},
        }
    )
    spec = parsed("restart: {attempts: 2}\nconf: {spark.b: 3}\nstop_grace: 7s", defaults=defaults)
    assert (spec.lease_s, spec.stop_grace_s) == (20.0, 7.0)
    assert (spec.restart.strategy, spec.restart.initial_s, spec.restart.attempts) == ("fixed", 3.0, 2)
    assert spec.conf == {"spark.a": "1", "spark.b": "3"}
    assert (spec.resources.memory_bytes, spec.health.start_timeout_s) == (2 << 30, 60.0)


def test_terms_and_restart_policy() -> None:
    spec = parsed(
        "resources: {memory: 2g, priority: 3}\nlease: 10s\nstop_grace: 1m\nhealth: {start_timeout: 90s}\n"
        "restart: {strategy: failure-rate, initial: 2s, max: 1m, jitter: 0, reset_after: 1h, attempts: 4, "
        "on_exhausted: suspend}\nlabels: {tier: 1, team: web}\nplacement: {require: {zone: 1a}, spread: zone}\nspark: '4.1'",
    )
    policy = RestartPolicy(
        strategy=Strategy.FAILURE_RATE,
        initial_s=2.0,
        max_s=60.0,
        jitter=0.0,
        reset_after_s=3600.0,
        attempts=4,
        on_exhausted=OnExhausted.SUSPEND,
    )
    assert spec.restart_policy() == policy
    assert asdict(spec.scheduling()) == {
        "memory": 2 << 30,
        "priority": 3,
        "unbounded": True,
        "lease_s": 10.0,
        "stop_grace_s": 60.0,
        "start_timeout_s": 90.0,
        "checkpoint": "s3a://bucket/ck",
        "restart": asdict(policy),
        "driver_memory": 0,
        "delete_checkpoint": False,
        "savepoints": None,
        "prepare": PrepareLevel.SESSION,
        "standby": None,
        "labels": ("team=web", "tier=1"),
        "placement": {"require": ("zone=1a",), "spread": "zone", "group": "", "extra": {}},
        "spark": "4.1",
        "back_to_savepoint": False,
        "sink": "",
        "extra": {},
    }
    assert parsed().restart_policy() == RestartPolicy()


RAISED = "restart: {memory_step: 1.5, memory_max: 8g}"


@pytest.mark.parametrize(
    ("more", "begins_with"),
    [
        ("", 1 << 30),
        ("resources: {memory: 3g}", 3 << 30),
        ("conf: {spark.driver.memory: 700m}", 700 << 20),
        ("conf: {spark.driver.memory: 2048}", 2 << 30),
    ],
)
def test_memory_that_may_be_raised_begins_with_what_the_spec_says(more: str, begins_with: int) -> None:
    spec = parsed(f"{RAISED}\n{more}")
    assert (spec.restart_policy().memory_step, spec.restart_policy().memory_max) == (1.5, 8 << 30)
    assert spec.scheduling().driver_memory == begins_with
    assert from_canonical(canonical_json(spec), "key") == spec


def test_a_spec_that_says_nothing_of_it_has_the_bytes_that_it_always_had() -> None:
    """Agents of the version before refuse keys that they do not know; and the same spec must stay the same."""
    assert b"memory_step" not in canonical_json(parsed()) and b"memory_max" not in canonical_json(parsed())
    assert b'"memory_max":"8g","memory_step":1.5' in canonical_json(parsed(RAISED))


def test_savepoints_that_are_made_by_themselves() -> None:
    spec = parsed("savepoints: {every: 6h, max_age: 30d}")
    assert spec.scheduling().savepoints == SavepointPolicy(every_s=21_600.0, keep=8, max_age_s=2_592_000.0)
    stored = json.loads(canonical_json(spec))["savepoints"]
    assert stored == {"every": "6h", "keep": 8, "max_age": "720h"}, "units that every version reads"
    assert from_canonical(canonical_json(spec), "x") == spec


@pytest.mark.parametrize(
    ("base", "more", "why"),
    [
        (MINIMAL, "savepoints: {every: 59s}", "savepoints.every is 59s, outside"),
        (MINIMAL, "savepoints: {every: 1h, keep: 0}", "savepoints.keep must be at least 1"),
        (MINIMAL, "savepoints: {every: 1h, max_age: 30m}", "max_age is shorter than every"),
        (MINIMAL, "savepoints: {keep: 3}", "every is missing"),
        (MINIMAL, "savepoints: {max_age: 3h}", "every is missing"),
        (
            "name: a\napplication: a.py\nunbounded: false\n",
            "savepoints: {every: 1h}",
            "copies of the checkpoint, which is missing",
        ),
        (
            "name: a\napplication: a.py\ncheckpoint: hdfs://nn/ck\n",
            "savepoints: {every: 1h}",
            "which only Spark can reach",
        ),
    ],
)
def test_savepoints_that_can_not_be_made_are_refused(base: str, more: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parsed(more, base=base)


def test_logs_are_uploaded_where_it_is_said() -> None:
    assert parsed("").logs.uploads_kept == 0
    assert parsed("logs: {upload: off}").logs.uploads_kept == 0
    assert parsed("logs: {upload: on_exit}").logs.uploads_kept == 20
    assert parsed("logs: {upload: on_exit, keep: 3}").logs.uploads_kept == 3
    assert parsed("logs: {upload: on_exit}").logs.every_s is None
    assert parsed("logs: {upload: on_exit, every: 5m}").logs.every_s == 300.0
    for wrong, why in (
        ("{keep: 3}", "upload is off"),
        ("{every: 5m}", "every is how often to upload, and upload is off; add upload: on_exit"),
        ("{upload: on_exit, every: 59s}", r"logs.every is 59s, outside of what is allowed \(1m to 24h\)"),
        ("{upload: on_exit, every: 25h}", "logs.every is 25h, outside"),
        ("{upload: on_exit, every: often}", "logs.every"),
        ("{upload: every 5m}", "logs.upload must be"),
        ("{upload: on_exit, keep: 0}", "logs.keep must be at least 1"),
        ("{upload: on_exit, keep: 1001}", "logs.keep must be at most 1000"),
        ("{upload: always}", "logs.upload must be"),
    ):
        with pytest.raises(InvalidInput, match=why):
            parsed(f"logs: {wrong}")


def test_local_files_are_replaced_by_their_store_keys() -> None:
    spec = parsed(
        "py_files: [lib/x.zip, 's3://bucket/y.py', lib/x.zip]\njars: ['local:/opt/a.jar', ../b.jar]"
    )
    assert local_paths(spec) == ("jobs/clicks.py", "lib/x.zip", "../b.jar")
    stored = with_uploaded(
        spec, {"jobs/clicks.py": "k/clicks.py", "lib/x.zip": "k/x.zip", "../b.jar": "k/b.jar"}
    )
    assert stored.application == "store:k/clicks.py"
    assert stored.py_files == ("store:k/x.zip", "s3://bucket/y.py", "store:k/x.zip")
    assert stored.jars == ("local:/opt/a.jar", "store:k/b.jar")
    assert local_paths(stored) == ()
    assert from_canonical(canonical_json(stored), "key") == stored
    with pytest.raises(ValueError, match=r"no store key for \.\./b\.jar"):
        with_uploaded(spec, {"jobs/clicks.py": "k/clicks.py", "lib/x.zip": "k/x.zip"})


def test_values_that_look_like_secrets_are_warned_of() -> None:
    spec = parsed(
        "env: {DB_PASSWORD: hunter2, API_TOKEN: '${env:TOKEN}', DIR: /x}\nconf: {spark.x.secret.key: y}"
    )
    warnings = secret_warnings(spec)
    assert len(warnings) == 2
    assert "env DB_PASSWORD" in warnings[0]
    assert "hunter2" not in "".join(warnings)


def test_the_order_of_keys_does_not_matter() -> None:
    one = parse_spec("name: a\napplication: a.py\ncheckpoint: /c\nconf: {spark.a: 1, spark.b: 2}", "x")
    other = parse_spec(
        "conf: {spark.b: '2', spark.a: '1'}\ncheckpoint: /c\napplication: a.py\nname: a\nlease: 30000ms", "y"
    )
    assert canonical_json(one) == canonical_json(other)
    assert spec_sha256(one) == spec_sha256(other)


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
durations = st.integers(5000, 300_000).map(lambda ms: f"{ms}ms")
specs = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z"),
        "application": st.just("a.py"),
        "checkpoint": st.just("/c"),
    },
    optional={
        "args": st.lists(text),
        "env": st.dictionaries(
            st.from_regex(r"\A[A-RT-Za-z_][A-Za-z0-9_]*\Z"), text.filter(lambda t: "${" not in t)
        ),
        "conf": st.dictionaries(st.from_regex(r"\Aspark\.x[a-z.]+\Z"), text | st.booleans() | st.integers()),
        "lease": durations,
        "resources": st.fixed_dictionaries({"memory": st.integers(1, 9999).map(lambda m: f"{m}m")}),
        "restart": st.fixed_dictionaries(
            {"jitter": st.floats(0, 1), "attempts": st.none() | st.integers(0, 99)}
        ),
    },
)


@given(specs)
def test_a_spec_survives_its_canonical_form(body: dict[str, Any]) -> None:
    spec = JobSpec.model_validate(body)
    data = canonical_json(spec)
    assert from_canonical(data, "key") == spec
    assert canonical_json(from_canonical(data, "key")) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        b'{"v":2}',
        b'{"v":true}',
        b'{"v":1}',
        b"[" * 100_000,
        canonical_json(parsed()).replace(b'"lease"', b'"leese"'),
        canonical_json(parsed()).replace(b"30s", b"30"),
    ],
)
def test_other_bytes_are_corrupt_and_name_the_blob(data: bytes) -> None:
    with pytest.raises(Corrupt, match="specs/key"):
        from_canonical(data, "specs/key")


@given(
    st.binary(max_size=50)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_any_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        from_canonical(data, "key")


def test_each_file_that_a_text_names_is_changed_and_what_is_no_text_is_left() -> None:
    body = {
        "name": "j",
        "application": "a.py",
        "py_files": ["b.py", 7],
        "jars": None,
        "python": {"archive": "e"},
    }
    assert with_files(body, str.upper) == {
        "name": "j",
        "application": "A.PY",
        "py_files": ["B.PY", 7],
        "jars": None,
        "python": {"archive": "E"},
    }
    assert with_files({"python": "x"}, str.upper) == {"python": "x"}


def test_every_file_that_a_spec_names_is_one_of_those() -> None:
    text = "name: j\napplication: a.py\npy_files: [b.py]\njars: [c.jar]\npython: {archive: d.tgz}\nunbounded: false\n"
    spec = parse_spec(text, "j.yaml")
    seen: list[str] = []

    def note(given: str) -> str:
        seen.append(given)
        return given

    with_files(spec.model_dump(mode="json", by_alias=True), note)
    assert sorted(seen) == sorted(named_files(spec))
