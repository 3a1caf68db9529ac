"""Checks the job whose spec was given: its files, its secrets on this host, its packages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from supervisor.cli.doctor.findings import (
    CheckGroup,
    DoctorCheck,
    DoctorFinding,
    ok,
    problem,
    problem_of,
    skipped,
    warning,
)
from supervisor.cli.doctor.phrases import NO_SPEC
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.listening import why_silent
from supervisor.clients.maven import CENTRAL, TIMEOUT_S, missing_from
from supervisor.clients.store.open import open_store
from supervisor.clusters.application import ClusterSilent
from supervisor.clusters.clients import client_of
from supervisor.errors import Complaint, SupervisorError
from supervisor.model import executors
from supervisor.model.driver_memory import spark_size_bytes
from supervisor.model.master import addresses, kind_of
from supervisor.model.spark_session import REMEDY, why_unsupported
from supervisor.settings.units import format_size
from supervisor.spark.refusal import Refused
from supervisor.spark.secrets import Secrets
from supervisor.spec.files import local_files
from supervisor.spec.job import JobSpec, memory_warnings, named_files
from supervisor.spec.on_cluster import master_of, why_not_here
from supervisor.spec.policy_judge import complaints
from supervisor.spec.python import PythonSettings
from supervisor.spec.relative_places import relative_places
from supervisor.spec.s3a import asked, bucket_of, for_store
from supervisor.spec.site_policy import site_policy
from supervisor.spec.way_back import why_spec_has_no_way_back

STEP_S: Final = 4.0
MASTER_S: Final = 3.0
NOBODYS_REGISTRY: Final = "doctor"
"""A cluster is asked for the applications of a registry that does not exist: only whether it answers matters."""
DRIVER_MEMORY: Final = "spark.driver.memory"
PACKAGES_MAX: Final = 8
OWN_RESOLVERS: Final = ("spark.jars.ivySettings",)


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Holds what was found. If ``given`` is False, there is no spec. ``unreadable`` says per file of the job
    why it can't be read, ``unresolved`` per secret why it can't be resolved.

    ``short`` is why resources.memory does not hold the driver. ``master_silent`` is why nobody answers at a
    standalone master. If ``deletes`` is True, the job asks for ``checkpoint_on_cancel: delete``; ``kept`` is
    why this host would not do it as leader. ``refused`` is what the policy of this configuration has against the job.
    ``no_cluster`` is why it can't be on the cluster that it names; ``outlived`` is what its own times cost after the
    loss of a host. ``unsupported`` is why the session that it asks for is none that a job can have. ``relative`` is
    what it names that is in the working directory. ``no_way_back`` is why a failed update can't go back.
    """

    given: bool = False
    files: int = 0
    unreadable: tuple[Complaint, ...] = ()
    unresolved: tuple[Complaint, ...] = ()
    memory_bytes: int = 0
    driver_memory: str = ""
    short: Complaint = Complaint()
    master: str = ""
    master_silent: str = ""
    deletes: bool = False
    kept: str = ""
    refused: tuple[Complaint, ...] = ()
    no_cluster: Complaint = Complaint()
    outlived: str = ""
    unsupported: str = ""
    relative: tuple[Complaint, ...] = ()
    no_way_back: Complaint = Complaint()


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """Holds what was found. ``missing`` maps coordinates to why they were not found.

    ``why`` is why none was searched for.
    """

    why: str = ""
    packages: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()


def collect(subject: Subject) -> JobFacts:
    spec = subject.spec
    if spec is None:
        return JobFacts()
    files, clusters = named_files(spec), subject.settings.clusters
    master = master_of(spec, clusters)
    return JobFacts(
        True,
        len(files),
        tuple(filter(None, (_file_trouble(subject, spec, file) for file in dict.fromkeys(files)))),
        tuple(_secret_troubles(subject, spec)),
        spec.resources.memory_bytes,
        spec.conf.get(DRIVER_MEMORY, ""),
        next(iter(memory_warnings(spec)), Complaint()),
        master,
        _master_trouble(spec, master, subject),
        spec.checkpoint_on_cancel == "delete",
        site_policy(subject.settings.policy).why_not_deletable(spec.checkpoint) or ""
        if spec.checkpoint
        else "",
        complaints(spec, subject.settings.policy, subject.settings.store, subject.settings.spark.pythons),
        why_not_here(spec, clusters) or Complaint(),
        (executors.why_long(spec.conf) or "") if spec.holds_executors else "",
        why_unsupported(spec.env, spec.conf),
        relative_places(spec),
        why_spec_has_no_way_back(spec),
    )


def _file_trouble(subject: Subject, spec: JobSpec, named: str) -> Complaint:
    bucket = bucket_of(named)
    try:
        if bucket is not None:
            return _object_trouble(subject, bucket, named)
        if named.startswith("local:"):
            path = Path("/" + named.removeprefix("local:").lstrip("/"))
            return (
                Complaint()
                if path.is_file()
                else Complaint(f"{named} is no file on this host", "put it on every host")
            )
        base = subject.spec_path.parent if subject.spec_path is not None else Path()
        alone = {"application": named, "py_files": (), "jars": (), "files": (), "python": PythonSettings()}
        local_files(spec.model_copy(update=alone), base)
    except SupervisorError as error:
        return error.complaint
    return Complaint()


def _object_trouble(subject: Subject, bucket: str, named: str) -> Complaint:
    access = subject.access_to(bucket)
    key = for_store(named).removeprefix(f"s3://{bucket}/")
    store = open_store(
        f"s3://{bucket}", access.endpoint_url, access.region, STEP_S * subject.patience, asked(access)
    )
    found = next(iter(store.entries(key)), None)
    there = found is not None and found.key == key
    return Complaint() if there else Complaint(f"{named} is not in its bucket", "put it there")


def _master_trouble(spec: JobSpec, master: str, subject: Subject) -> str:
    """Returns why the master, or the cluster that the spec names, does not answer; empty if it does, or is not asked."""
    listed, within_s = addresses(master), MASTER_S * subject.patience
    if listed:
        return why_silent(listed, within_s) or ""
    cluster = subject.settings.clusters.get(spec.cluster or "")
    client = None if cluster is None else client_of(spec.cluster or "", cluster, NOBODYS_REGISTRY)
    try:
        if client is not None:
            client.living(within_s)
    except ClusterSilent as error:
        return str(error)
    return ""


def _secret_troubles(subject: Subject, spec: JobSpec) -> Iterator[Complaint]:
    settings = subject.settings
    secrets = Secrets(subject.environ, settings.policy.secrets, spec.name, settings.supervisor.runtime_dir)
    tries = [partial(secrets.of_env, name, value) for name, value in spec.env.items()]
    tries += [partial(secrets.of_conf, name, value, spec.env) for name, value in spec.conf.items()]
    for resolve in tries:
        try:
            resolve()
        except Refused as error:
            yield error.complaint


def collect_packages(subject: Subject) -> PackageFacts:
    spec = subject.spec
    if spec is None:
        return PackageFacts(NO_SPEC)
    packages = tuple(dict.fromkeys((*spec.packages, *_listed(spec.conf.get("spark.jars.packages", "")))))
    if not packages:
        return PackageFacts("the job has no packages")
    own = next((key for key in OWN_RESOLVERS if spec.conf.get(key)), None)
    if own is not None:
        return PackageFacts(f"{own} says where packages come from", packages)
    repositories = (*_listed(spec.conf.get("spark.jars.repositories", "")), CENTRAL)
    within_s = TIMEOUT_S * subject.patience
    probed = [
        (name, _pom_alone(name) or missing_from(repositories, name, within_s))
        for name in packages[:PACKAGES_MAX]
        if not _cached(name)
    ]
    return PackageFacts("", packages, tuple((name, why) for name, why in probed if why))


def _in_maven(coordinates: str, ending: str) -> Path:
    """Returns where Maven of this user keeps a file of the package."""
    group, artifact, version = coordinates.split(":")
    return (
        Path.home()
        / ".m2/repository"
        / group.replace(".", "/")
        / artifact
        / version
        / f"{artifact}-{version}.{ending}"
    )


def _pom_alone(coordinates: str) -> str | None:
    """Returns what is wrong if Maven's own repository has the description of the package without its jar: Ivy then asks no
    other for that (docs/spark.md S43)."""
    jar = _in_maven(coordinates, "jar")
    if jar.exists() or not jar.with_suffix(".pom").exists():
        return None
    fetch = f"mvn -C dependency:get -Dartifact={coordinates}"
    return f"{jar} is missing beside its pom, so no repository is asked for it; put it there ({fetch})"


def _cached(coordinates: str) -> bool:
    """Returns whether Ivy or Maven of this user has it already."""
    group, artifact, version = coordinates.split(":")
    home = Path.home()
    names = [
        f"cache/{group}/{artifact}/jars/{artifact}-{version}.jar",
        f"jars/{group}_{artifact}-{version}.jar",
    ]
    in_ivy = any((ivy / name).exists() for ivy in home.glob(".ivy2*") for name in names)
    return in_ivy or _in_maven(coordinates, "jar").exists()


def _listed(text: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[,\s]+", text) if word)


# -- judges -------------------------------------------------------------------------------------------------------


def judge_files(facts: JobFacts) -> DoctorFinding:
    if not facts.given:
        return skipped(NO_SPEC)
    if facts.unreadable:
        return _problem_of_all(facts.unreadable, "correct the path in the spec")
    return ok(f"application and files ({facts.files}) can be read")


def _problem_of_all(complaints: Sequence[Complaint], remedy: str) -> DoctorFinding:
    """Returns the first complaint as a problem, with ``remedy``, and how many more there are."""
    more = f" (and {len(complaints) - 1} more)" if len(complaints) > 1 else ""
    found = problem_of(complaints[0], remedy)
    return problem(f"{found.found}{more}", found.remedy)


def judge_secrets(facts: JobFacts) -> DoctorFinding:
    if not facts.given:
        return skipped(NO_SPEC)
    if facts.unresolved:
        found = problem_of(facts.unresolved[0])
        return warning(
            f"{found.found} (seen from this shell)",
            f"{found.remedy}; the service may have it by its EnvironmentFile",
        )
    return ok("every secret reference of env and conf resolves here")


def judge_memory(facts: JobFacts) -> DoctorFinding:
    if not facts.given:
        return skipped(NO_SPEC)
    if not facts.driver_memory:
        return ok(f"resources.memory {format_size(facts.memory_bytes)}, {DRIVER_MEMORY} is Spark's default")
    if spark_size_bytes(facts.driver_memory) is None:
        return skipped(f"{DRIVER_MEMORY} {facts.driver_memory} is not a size that is known here")
    if facts.short:
        return warning(facts.short.what, facts.short.remedy)
    return ok(
        f"{DRIVER_MEMORY} {facts.driver_memory} is within resources.memory {format_size(facts.memory_bytes)}"
    )


def judge_master(facts: JobFacts) -> DoctorFinding:
    if not facts.given:
        return skipped(NO_SPEC)
    if facts.no_cluster.what:
        return problem(facts.no_cluster.what, facts.no_cluster.remedy)
    if facts.master_silent:
        return problem(
            f"nobody answers at master {facts.master} ({facts.master_silent}): the driver would wait and give up",
            "start that Spark master, correct master, or open the way from this host",
        )
    if facts.outlived:
        return warning(facts.outlived, "shorten them, or accept that")
    is_asked = kind_of(facts.master) is not None
    return ok(f"master {facts.master}" + (" answers" if is_asked else " needs no other host"))


def judge_deletion(facts: JobFacts) -> DoctorFinding:
    if not facts.given:
        return skipped(NO_SPEC)
    if not facts.deletes:
        return ok("checkpoint_on_cancel: keep")
    if facts.kept:
        return warning(
            f"checkpoint_on_cancel: delete will not delete, the checkpoint will be kept: {facts.kept}",
            "list the location in policy.deletable of every supervisor, or delete the checkpoint by hand after a cancel",
        )
    return ok("checkpoint_on_cancel: delete is allowed here, where batches were seen committed")


def judge_policy_of_job(facts: JobFacts) -> DoctorFinding:
    if not facts.given:
        return skipped(NO_SPEC)
    if facts.refused:
        return _problem_of_all(facts.refused, "correct the spec, or have the operator allow it")
    return ok("policy of this configuration allows the job")


def judge_session(facts: JobFacts) -> DoctorFinding:
    if not facts.given:
        return skipped(NO_SPEC)
    if facts.unsupported:
        return problem(facts.unsupported, REMEDY)
    return ok("env and conf ask for no session but one in the driver")


def judge_places(facts: JobFacts) -> DoctorFinding:
    if not facts.given:
        return skipped(NO_SPEC)
    if facts.relative:
        first, more = facts.relative[0], len(facts.relative) - 1
        return warning(first.what + (f" (and {more} more)" if more else ""), first.remedy)
    return ok("no place that the spec names is relative")


def judge_way_back(facts: JobFacts) -> DoctorFinding:
    if not facts.given:
        return skipped(NO_SPEC)
    if facts.no_way_back:
        return warning(facts.no_way_back.what, facts.no_way_back.remedy)
    return ok("nothing in the spec speaks against the way back that update.rollback asks for")


def judge_packages(facts: PackageFacts) -> DoctorFinding:
    if facts.why:
        return skipped(facts.why)
    if facts.missing:
        name, why = facts.missing[0]
        more = f" (and {len(facts.missing) - 1} more)" if len(facts.missing) > 1 else ""
        return warning(
            f"package {name} was not found{more}: {why}",
            "correct the coordinates, add its repository as conf spark.jars.repositories, or use jars instead",
        )
    return ok(f"{', '.join(facts.packages)}: found; fetched at each start, jars start faster")


JOB = CheckGroup(
    "job",
    collect,
    (
        DoctorCheck(
            "job-files", "application, py_files, jars, files and python.archive can be read", judge_files
        ),
        DoctorCheck(
            "job-secrets", "${env:…} and ${file:…} of env and conf resolve on this host", judge_secrets
        ),
        DoctorCheck("job-policy", "policy of this host allows the job", judge_policy_of_job),
        DoctorCheck(
            "job-session", "the session that env and conf ask for is one in the driver", judge_session
        ),
        DoctorCheck(
            "job-directory", "no place that the spec names is in the working directory", judge_places
        ),
        DoctorCheck(
            "job-way-back",
            "a failed update can go back to its savepoint, as far as the spec says what the sinks remember",
            judge_way_back,
        ),
        DoctorCheck("job-memory", "the heap of the driver against resources.memory", judge_memory),
        DoctorCheck(
            "job-deletion",
            "what checkpoint_on_cancel: delete comes to by policy.deletable of this host",
            judge_deletion,
        ),
        DoctorCheck("job-master", "the Spark master of the job answers", judge_master),
    ),
)

PACKAGES = CheckGroup(
    "packages",
    collect_packages,
    (
        DoctorCheck(
            "job-packages",
            "packages are in Maven Central, a named repository, or the local cache (warned of only)",
            judge_packages,
        ),
    ),
)
