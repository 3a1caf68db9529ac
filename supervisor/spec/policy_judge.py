"""Judges a job spec by the operator's rules (``policy`` of ``supervisor.yaml``): secrets, Spark properties, files in place.
It is pure.

The agent asks it before each start, and ``submit`` and ``doctor`` ask it by their own configuration, which decides
nothing. Its answer depends on the spec and the policy alone, and not on what a host has or lacks: so it holds for
every host with that policy, and for as long as both stay what they are (``registry.attempt_writes.refuse``). Locations are
judged by ``spec.site_policy`` and ``spec.s3a``.

A property counts under every name by which it takes effect: a key of the spec that sets it (``jars``), its twin
(``spark.driver.defaultJavaOptions``), S3A's setting of one bucket, a variable of ``env`` and a ``-D`` among Java
options. What the application sets while it runs is not seen here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from supervisor.errors import Complaint
from supervisor.model.secret import SecretRef, SecretSource, reference_in_conf, secret_reference
from supervisor.settings.file import Settings, StoreSettings
from supervisor.settings.policy import JOB, ConfSettings, LogPolicySettings, PolicySettings, SecretSettings
from supervisor.spec.job import JobSpec, in_place_files, named_files
from supervisor.spec.logs import LogSettings
from supervisor.spec.s3a import access_of_store, why_no_access
from supervisor.spec.site_policy import ANYWHERE, matches_path, site_policy

_DRIVER_OPTIONS: Final = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_EXECUTOR_OPTIONS: Final = ("spark.executor.extraJavaOptions", "spark.executor.defaultJavaOptions")
_TWINS: Final = (
    _DRIVER_OPTIONS,
    _EXECUTOR_OPTIONS,
    ("spark.plugins", "spark.plugins.defaultList"),
    ("spark.jars", "spark.yarn.dist.jars"),
    ("spark.files", "spark.yarn.dist.files"),
    ("spark.archives", "spark.yarn.dist.archives"),
    ("spark.submit.pyFiles", "spark.yarn.dist.pyFiles"),
)
"""The properties of one line do the same: a rule about one of them is about all."""

_BY_KEY: Final = {"jars": "spark.jars", "packages": "spark.jars.packages", "py_files": "spark.submit.pyFiles"}
_BY_VARIABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "SPARK_SUBMIT_OPTS": _DRIVER_OPTIONS,
    "SPARK_LAUNCHER_OPTS": _DRIVER_OPTIONS,
    "SPARK_JAVA_OPTS": _DRIVER_OPTIONS,
    "JAVA_TOOL_OPTIONS": _DRIVER_OPTIONS,
    "JDK_JAVA_OPTIONS": _DRIVER_OPTIONS,
    "_JAVA_OPTIONS": _DRIVER_OPTIONS,
    "SPARK_EXECUTOR_OPTS": _EXECUTOR_OPTIONS,
    "SPARK_CLASSPATH": ("spark.driver.extraClassPath", "spark.executor.extraClassPath"),
    "SPARK_DIST_CLASSPATH": ("spark.driver.extraClassPath", "spark.executor.extraClassPath"),
    "SPARK_SUBMIT_CLASSPATH": ("spark.driver.extraClassPath",),
    "LD_LIBRARY_PATH": ("spark.driver.extraLibraryPath",),
    "PYSPARK_PYTHON": ("spark.pyspark.python",),
    "PYSPARK_DRIVER_PYTHON": ("spark.pyspark.driver.python",),
    "SPARK_DRIVER_MEMORY": ("spark.driver.memory",),
    "SPARK_EXECUTOR_MEMORY": ("spark.executor.memory",),
    "SPARK_EXECUTOR_CORES": ("spark.executor.cores",),
    "SPARK_LOCAL_DIRS": ("spark.local.dir",),
    "SPARK_LOCAL_IP": ("spark.driver.bindAddress",),
    "SPARK_PUBLIC_DNS": ("spark.driver.host",),
}
_BELOW_BY_VARIABLE: Final = {
    "SPARK_CONF_DIR": "spark.",
    "BASH_ENV": "spark.",
    "PATH": "spark.",
    "LD_PRELOAD": "spark.",
    "HADOOP_CONF_DIR": "spark.hadoop.",
    "YARN_CONF_DIR": "spark.hadoop.",
}
"""These set any property that begins so: by a file of configuration, by what spark-submit (a script of bash) reads or calls
before Java, or within that."""

_CODE: Final = (
    "spark.jars",
    "spark.jars.packages",
    "spark.jars.repositories",
    "spark.jars.ivySettings",
    "spark.submit.pyFiles",
    "spark.files",
    "spark.archives",
    "spark.driver.extraClassPath",
    "spark.executor.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.executor.extraLibraryPath",
    "spark.pyspark.python",
    "spark.pyspark.driver.python",
    "spark.yarn.jars",
    "spark.yarn.archive",
    "spark.sql.hive.metastore.jars",
    "spark.sql.hive.metastore.jars.path",
)
_CODE_VARIABLES: Final = ("PYTHONPATH", "CLASSPATH", "PATH", "BASH_ENV", "LD_PRELOAD", "SPARK_CONF_DIR")
"""These properties and variables name code as ``application`` does, and nothing pins it."""

_OPTION: Final = re.compile(r"-D(spark\.[^\s=]*)")
_OPTIONS_FILE: Final = re.compile(r"(?:^|\s)@|VMOptionsFile|-XX:Flags")
_BUCKET: Final = "spark.hadoop.fs.s3a.bucket."


def complaints(
    spec: JobSpec, policy: PolicySettings, store: StoreSettings, pythons: Sequence[str] = ()
) -> tuple[Complaint, ...]:
    """Returns what the policy has against ``spec``, each with the key of the spec and the rule. ``store`` is that of the
    supervisor, whose endpoint a job may name; ``pythons`` are the rules of ``spark.pythons``."""
    found = [
        *_of_locations(spec, policy, store),
        *_of_user(spec, policy),
        *_of_logs(spec.logs, policy.logs),
        *_of_secrets(spec, policy.secrets),
        *_of_conf(spec, policy.conf),
        *_of_files(spec, policy.in_place_files),
        *_of_interpreter(spec.python.interpreter, pythons),
    ]
    return tuple(found)


def with_forced(spec: JobSpec, rules: ConfSettings) -> JobSpec:
    """Returns ``spec`` with the operator's properties in place of the job's own."""
    return spec.model_copy(update={"conf": {**spec.conf, **rules.forced}}) if rules.forced else spec


def policy_of_host(settings: Settings, signers: str) -> str:
    """Returns ``policy_sha256`` of a host with ``settings``; ``signers`` is the digest of the keys that they name."""
    return policy_sha256(
        settings.policy,
        settings.store,
        signers,
        pythons=settings.spark.pythons,
        clusters=settings.clusters,
    )


def policy_sha256(
    policy: PolicySettings,
    store: StoreSettings,
    signers: str = "",
    *,
    pythons: Iterable[str] = (),
    clusters: Iterable[str] = (),
) -> str:
    """Returns what tells one policy from another: it is equal if the same specs are allowed, with the endpoint of the store,
    which jobs may name, with ``signers``, the digest of the keys in the files that the policy names, with ``pythons``, the
    rules of ``spark.pythons``, and with the names of ``clusters`` that specs may give. What has its default does not
    count, so that two versions of the software agree on the same file."""
    said = policy.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    more = {"signers": signers, "pythons": sorted(pythons), "clusters": sorted(clusters)}
    body = {
        "policy": _sorted(said),
        "store": store.endpoint_url,
        **{key: value for key, value in more.items() if value},
    }
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _sorted(value: Any) -> Any:
    """Returns ``value`` without the order of lists, all of which are sets of rules."""
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in value.items()}
    return sorted(value, key=str) if isinstance(value, list) else value


# -- locations ----------------------------------------------------------------------------------------------------


def _of_locations(spec: JobSpec, policy: PolicySettings, store: StoreSettings) -> Iterator[Complaint]:
    why = site_policy(policy).why_no_checkpoint(spec.checkpoint)
    if why is not None:
        yield Complaint(f"checkpoint: {why}", "choose a location that is allowed")
    conf = with_forced(spec, policy.conf).conf
    why = why_no_access(conf, (spec.checkpoint, *named_files(spec)), access_of_store(store, policy.endpoints))
    if why is not None:
        yield Complaint(why)


def _of_user(spec: JobSpec, policy: PolicySettings) -> Iterator[Complaint]:
    why = site_policy(policy).why_not_user(spec.run_as)
    if why is not None:
        yield Complaint(why, "choose a user that is allowed")


def _of_logs(logs: LogSettings, rules: LogPolicySettings) -> Iterator[Complaint]:
    if not logs.uploads_kept:
        return
    if rules.upload == "forbid":
        yield Complaint(
            "logs.upload: policy.logs.upload is forbid", "remove logs, or have the operator allow it"
        )
    elif logs.keep > rules.keep_max:
        yield Complaint(
            f"logs.keep: {logs.keep} is above policy.logs.keep_max ({rules.keep_max})",
            f"keep at most {rules.keep_max}",
        )


# -- the Python of the driver -------------------------------------------------------------------------------------


def _of_interpreter(interpreter: str | None, pythons: Sequence[str]) -> Iterator[Complaint]:
    if interpreter is not None and not is_allowed_python(interpreter, pythons):
        why = f"{interpreter[:200]} is none that spark.pythons of supervisor.yaml allows ({_listed(tuple(pythons))})"
        yield Complaint(f"python.interpreter: {why}", "name one that is allowed, or use python.archive")


def is_allowed_python(interpreter: str, pythons: Sequence[str]) -> bool:
    """Says whether a driver may run with the Python at this path of the host."""
    return any(matches_path(interpreter, rule) for rule in pythons)


# -- secrets ------------------------------------------------------------------------------------------------------


def _of_secrets(spec: JobSpec, rules: SecretSettings) -> Iterator[Complaint]:
    for name, value in spec.env.items():
        yield from _of_reference(f"env {name}", secret_reference(value), rules, spec.name)
    for name, value in spec.conf.items():
        yield from _of_reference(f"conf {name}", reference_in_conf(value, spec.env), rules, spec.name)


def _of_reference(
    key: str, reference: SecretRef | None, rules: SecretSettings, job: str
) -> Iterator[Complaint]:
    why = None if reference is None else why_not_this_secret(reference, rules, job)
    if why is not None:
        yield Complaint(f"{key}: {why}", "name one that is allowed, or have the operator allow it")


def why_not_this_secret(reference: SecretRef, rules: SecretSettings, job: str) -> str | None:
    """Returns why a job called ``job`` must not name this secret, or None. A file is judged by its path as written; where
    that leads, the host judges (``spark.secrets``)."""
    where = reference.where
    if reference.source is SecretSource.ENV:
        if any(fnmatchcase(where, rule) for rule in rules.env):
            return None
        return f"variable {where} is none that policy.secrets.env allows ({_listed(rules.env)})"
    if why_not_this_file(where, rules, job) is None:
        return None
    return f"file {where[:200]} is none that policy.secrets.files allows ({_listed(rules.files)})"


def why_not_this_file(path: str, rules: SecretSettings, job: str) -> str | None:
    """Returns why ``path`` is outside of what ``policy.secrets.files`` allows the job, or None."""
    if ANYWHERE in rules.files or any(matches_path(path, rule.replace(JOB, job)) for rule in rules.files):
        return None
    return f"{path[:200]} is outside of policy.secrets.files ({_listed(rules.files)})"


def _listed(rules: tuple[str, ...]) -> str:
    return ", ".join(rules)[:120] if rules else "none"


# -- properties ---------------------------------------------------------------------------------------------------


def _of_conf(spec: JobSpec, rules: ConfSettings) -> Iterator[Complaint]:
    said: set[str] = set()
    for key, name in _set_by(spec):
        complaint = _of_property(key, name, rules) if key not in said else None
        if complaint is not None:
            said.add(key)
            yield complaint
    yield from _of_hidden_options(spec, rules)


def _set_by(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """Yields each property that the job sets, after the key of the spec that does it. A property that ends in a dot
    stands for all below it."""
    for name in spec.conf:
        yield f"conf {name}", name
    for key, name in _BY_KEY.items():
        if getattr(spec, key):
            yield key, name
    if spec.python.is_given:
        key = "python.interpreter" if spec.python.archive is None else "python.archive"
        of_archive = () if spec.python.archive is None else ("spark.archives",)
        yield from ((key, name) for name in (*_BY_VARIABLE["PYSPARK_PYTHON"], *of_archive))
    if spec.restart.memory_step is not None:
        yield "restart.memory_step", "spark.driver.memory"
    for variable in spec.env:
        for name in _BY_VARIABLE.get(variable, ()):
            yield f"env {variable}", name
        if variable in _BELOW_BY_VARIABLE:
            yield f"env {variable}", _BELOW_BY_VARIABLE[variable]
    for key, text in _option_texts(spec):
        for found in _OPTION.finditer(_unquoted(text)):
            yield key, found[1]


def _of_property(key: str, name: str, rules: ConfSettings) -> Complaint | None:
    rule = next((rule for rule in rules.forbidden if _covers(rule, name)), None)
    if rule is not None:
        what = "it" if key == f"conf {name}" else f"{name}, which this sets,"
        return Complaint(f"{key}: {what} is forbidden by policy.conf.forbidden ({rule})", f"remove {key}")
    if key == f"conf {name}" and name in rules.forced:
        return None  # the operator's value takes its place
    forced = next((each for each in rules.forced if _covers(each, name)), None)
    if forced is None:
        return None
    return Complaint(f"{key}: {forced} is set by policy.conf.forced, and this sets it, too", f"remove {key}")


def _of_hidden_options(spec: JobSpec, rules: ConfSettings) -> Iterator[Complaint]:
    """Yields Java options that stand in a file or a secret, where nothing judges them."""
    if not rules.forbidden and not rules.forced:
        return
    for key, text in _option_texts(spec):
        if _OPTIONS_FILE.search(_unquoted(text)) or "${" in text:
            rule = "policy.conf.forbidden" if rules.forbidden else "policy.conf.forced"
            yield Complaint(
                f"{key}: it has Java options that stand elsewhere, and could set what {rule} is about",
                "write the options themselves",
            )


def _option_texts(spec: JobSpec) -> Iterator[tuple[str, str]]:
    for name, value in spec.conf.items():
        if name.endswith("JavaOptions"):
            yield f"conf {name}", value
    for name, value in spec.env.items():
        if any(each in _BY_VARIABLE.get(name, ()) for each in (*_DRIVER_OPTIONS, *_EXECUTOR_OPTIONS)):
            yield f"env {name}", value


def _unquoted(text: str) -> str:
    """Returns Java options without what a shell or Spark takes away before the JVM reads them."""
    return re.sub(r"[\"'\\]", "", text)


def _covers(rule: str, name: str) -> bool:
    """Says whether ``rule`` is about the property ``name``, by any of its names, in any case of letters."""
    rule = rule.lower()
    if name.endswith("."):
        plain = re.split(r"[*?]", rule, maxsplit=1)[0]
        return plain.startswith(name) or name.startswith(plain)
    return any(fnmatchcase(each.lower(), rule) for each in _names(name))


def _names(name: str) -> Iterable[str]:
    """Yields the names under which a property counts."""
    yield name
    yield from (twin for twins in _TWINS if name in twins for twin in twins)
    if name.lower().startswith(_BUCKET):
        parts = name[len(_BUCKET) :].split(".")  # the name of a bucket may have dots
        yield from (f"spark.hadoop.fs.s3a.{'.'.join(parts[n:])}" for n in range(1, len(parts)))


# -- files in place -----------------------------------------------------------------------------------------------


def _of_files(spec: JobSpec, rule: str) -> Iterator[Complaint]:
    if rule == "allow":
        return
    said = f"policy.in_place_files is {rule}"
    for key, named in in_place_files(spec):
        if rule == "forbid":
            yield Complaint(f"{key}: {said}, and {named[:200]} is not in the store", "give a local file")
        elif named not in spec.sha256:
            yield Complaint(f"{key}: {said}, and {named[:200]} has no entry in sha256", "add its SHA-256")
    unpinned = [f"conf {name}" for name in spec.conf if any(each in _CODE for each in _names(name))]
    unpinned += ["packages"] if spec.packages else []
    for name in spec.env:
        if name in _CODE_VARIABLES or any(each in _CODE for each in _BY_VARIABLE.get(name, ())):
            unpinned.append(f"env {name}")
    for key in unpinned:
        yield Complaint(f"{key}: {said}, and this names code that no SHA-256 pins", "use jars or py_files")
