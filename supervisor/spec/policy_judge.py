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
from supervisor.settings.policy import (
    JOB,
    ConfSettings,
    EnvironmentSettings,
    LogPolicySettings,
    PolicySettings,
    SecretSettings,
)
from supervisor.spec.code_names import (
    code_options,
    is_code_property,
    is_code_variable,
    is_secret_file_property,
    variable_of_property,
)
from supervisor.spec.job import JobSpec, in_place_files, named_files
from supervisor.spec.logs import LogSettings
from supervisor.spec.property_names import (
    VARIABLES_WITH_OPTIONS,
    covers,
    names_of,
    option_texts,
    properties_set_by,
    unquoted,
)
from supervisor.spec.resource_bounds import above_bounds
from supervisor.spec.s3a import access_of_store, why_no_access
from supervisor.spec.site_policy import ANYWHERE, matches_path, site_policy

_JUDGE: Final = "2"
"""Which names of code are known. It is part of ``policy_sha256`` where code must be pinned, so that a version which knows
more of them does not speak for hosts of the version before."""
_OPTIONS_FILE: Final = re.compile(r"(?:^|\s)@|VMOptionsFile|-XX:Flags")


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
        *_of_files(spec, policy, store),
        *above_bounds(spec, policy.resources.max),
        *_of_interpreter(spec.python.interpreter, pythons),
        *_of_variables(spec.env, policy.env),
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
    judge = "" if policy.in_place_files == "allow" else _JUDGE
    more = {"signers": signers, "pythons": sorted(pythons), "clusters": sorted(clusters), "judge": judge}
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
        if is_secret_file_property(name):
            yield from _of_secret_file(f"conf {name}", value, rules, spec.name)


def _of_reference(
    key: str, reference: SecretRef | None, rules: SecretSettings, job: str
) -> Iterator[Complaint]:
    why = None if reference is None else why_not_this_secret(reference, rules, job)
    if why is not None:
        yield Complaint(f"{key}: {why}", "name one that is allowed, or have the operator allow it")


def _of_secret_file(key: str, value: str, rules: SecretSettings, job: str) -> Iterator[Complaint]:
    """Yields what is against a property whose value names a file with secrets: a path, or URLs like ``jceks://file/path``."""
    for named in value.split(","):
        why = why_not_this_file("/" + named.partition("://file/")[2] if "://" in named else named, rules, job)
        if why is not None:
            yield Complaint(f"{key}: file {why}", "name one that is allowed, or have the operator allow it")


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
    for key, name in properties_set_by(spec):
        complaint = _of_property(key, name, rules) if key not in said else None
        if complaint is not None:
            said.add(key)
            yield complaint
    yield from _of_hidden_options(spec, rules)


def _of_property(key: str, name: str, rules: ConfSettings) -> Complaint | None:
    rule = next((rule for rule in rules.forbidden if covers(rule, name)), None)
    if rule is not None:
        what = "it" if key == f"conf {name}" else f"{name}, which this sets,"
        return Complaint(f"{key}: {what} is forbidden by policy.conf.forbidden ({rule})", f"remove {key}")
    if key == f"conf {name}" and name in rules.forced:
        return None  # the operator's value takes its place
    forced = next((each for each in rules.forced if covers(each, name)), None)
    if forced is None:
        return None
    return Complaint(f"{key}: {forced} is set by policy.conf.forced, and this sets it, too", f"remove {key}")


def _of_hidden_options(spec: JobSpec, rules: ConfSettings) -> Iterator[Complaint]:
    """Yields Java options that stand in a file or a secret, where nothing judges them."""
    if not rules.forbidden and not rules.forced:
        return
    for key, text in option_texts(spec):
        if _OPTIONS_FILE.search(unquoted(text)) or "${" in text:
            rule = "policy.conf.forbidden" if rules.forbidden else "policy.conf.forced"
            yield Complaint(
                f"{key}: it has Java options that stand elsewhere, and could set what {rule} is about",
                "write the options themselves",
            )


# -- variables ----------------------------------------------------------------------------------------------------


def _of_variables(env: Mapping[str, str], rules: EnvironmentSettings) -> Iterator[Complaint]:
    for name in env:
        if not any(fnmatchcase(name, rule) for rule in rules.allowed):
            why = f"the variable is none that policy.env.allowed allows ({_listed(rules.allowed)})"
            yield Complaint(f"env {name}: {why}", "remove it, or have the operator allow it")


# -- files in place, and code that stands nowhere -----------------------------------------------------------------


def _of_files(spec: JobSpec, policy: PolicySettings, store: StoreSettings) -> Iterator[Complaint]:
    rule, said = policy.in_place_files, f"policy.in_place_files is {policy.in_place_files}"
    for key, named in in_place_files(spec):
        if rule == "forbid":
            yield Complaint(f"{key}: {said}, and {named[:200]} is not in the store", "give a local file")
        elif rule == "pinned" and named not in spec.sha256:
            yield Complaint(f"{key}: {said}, and {named[:200]} has no entry in sha256", "add its SHA-256")
        else:
            why = why_not_in_place(named, spec.checkpoint, policy, store)
            if why is not None:
                yield Complaint(f"{key}: {why}", "give a local file, or have the operator allow it")
    if rule == "allow":
        return
    for key in _unpinned(spec, policy.env.allowed):
        yield Complaint(f"{key}: {said}, and this names code that no SHA-256 pins", "use jars or py_files")


def why_not_in_place(
    named: str, checkpoint: str | None, policy: PolicySettings, store: StoreSettings
) -> str | None:
    """Returns why the supervisor must not read ``named`` for a job, or None. Without ``policy.in_place_locations`` that is,
    if files must be pinned, an object outside of the store and of what the job's checkpoint is in: with its own
    credentials the supervisor would give one team what is another's. A file of the host is judged where it is opened."""
    rules = policy.in_place_locations
    if rules is None:
        if policy.in_place_files == "allow" or not _is_remote(named):
            return None
        own = (store.url, *(() if checkpoint is None else (checkpoint,)))
        rules = tuple(f"{each.rstrip('/')}/*" for each in own)
    place = named.removeprefix("local:")
    if any(matches_path(place, each) for each in rules):
        return None
    return f"{named[:200]} is outside of policy.in_place_locations ({_listed(rules)})"


def _is_remote(named: str) -> bool:
    return "://" in named and not named.startswith("file:")


def _unpinned(spec: JobSpec, allowed: Sequence[str]) -> Iterator[str]:
    """Yields the keys of the spec that name code which no SHA-256 pins. A variable that the operator allows by a rule of
    its own is none."""
    if spec.packages:
        yield "packages"
    named = tuple(rule for rule in allowed if rule != ANYWHERE)
    for name in spec.conf:
        variable = variable_of_property(name)
        if any(map(is_code_property, names_of(name))) or (variable is not None and _is_code(variable, named)):
            yield f"conf {name}"
    for name in spec.env:
        if name not in VARIABLES_WITH_OPTIONS and _is_code(name, named):
            yield f"env {name}"
    for key, text in option_texts(spec):
        if next(code_options(unquoted(text)), None) is not None:
            yield key


def _is_code(variable: str, named: Sequence[str]) -> bool:
    return is_code_variable(variable) and not any(fnmatchcase(variable, rule) for rule in named)
