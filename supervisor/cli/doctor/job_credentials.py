"""Checks that the S3 credentials of the job whose spec was given cannot write to the store: what lies there is believed by
every host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from supervisor.cli.doctor.findings import CheckGroup, DoctorCheck, DoctorFinding, ok, skipped, warning
from supervisor.cli.doctor.phrases import NO_SPEC
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.store.base import Keys
from supervisor.clients.store.open import open_store
from supervisor.clients.store.trial import KeysTrial, try_keys
from supervisor.coord.epoch_marks import EPOCHS
from supervisor.errors import InvalidInput
from supervisor.registry.audit import AUDIT
from supervisor.registry.blobs import ARTIFACTS, SPECS
from supervisor.spark.environment import is_inherited
from supervisor.spark.refusal import Refused
from supervisor.spark.secrets import Secrets
from supervisor.spec.job import JobSpec
from supervisor.spec.s3a import asked, bucket_of, setting

STEP_S: Final = 3.0
FOLDERS: Final = (SPECS, ARTIFACTS, EPOCHS, AUDIT)
OF_ENV: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
OF_CONF: Final = ("access.key", "secret.key", "session.token")
REMEDY: Final = "give the job credentials of its own that may use its checkpoint only (deploy/s3/job.json)"


@dataclass(frozen=True, slots=True)
class CredentialsFacts:
    """Holds what was found. ``why`` is why nothing was tried. ``trials`` are the results by where the job says its keys
    (``env`` or ``conf``). If ``inherited`` is True, the job brings none and gets those of the supervisor."""

    why: str = ""
    trials: tuple[tuple[str, KeysTrial], ...] = ()
    inherited: bool = False


def collect(subject: Subject) -> CredentialsFacts:
    spec, store = subject.spec, subject.settings.store
    if spec is None:
        return CredentialsFacts(NO_SPEC)
    if not store.url.startswith("s3://"):
        return CredentialsFacts("the store is a directory: who may write there is a matter of Unix users")
    try:
        brought = tuple(_brought(subject, spec))
    except Refused as error:
        return CredentialsFacts(f"{error.complaint.what} (seen from this shell)")
    if not brought:
        if _inherits(subject, spec):
            return CredentialsFacts(inherited=True)
        return CredentialsFacts("the job brings no S3 credentials of its own")
    access, within_s = subject.store_access, STEP_S * subject.patience
    ours = open_store(store.url, access.endpoint_url, access.region, within_s, asked(access))
    trials = []
    for source, keys in brought:
        theirs = open_store(store.url, access.endpoint_url, access.region, within_s, asked(access), keys)
        trials.append((source, try_keys(theirs, ours, FOLDERS)))
    if any(trial.error for _, trial in trials) and _elsewhere(subject, spec):
        return CredentialsFacts("the job's credentials are those of another S3 service than the store's")
    return CredentialsFacts(trials=tuple(trials))


def _elsewhere(subject: Subject, spec: JobSpec) -> bool:
    """Returns whether the job's checkpoint lies on another service: the store's need not know its keys."""
    bucket = bucket_of(spec.checkpoint or "")
    try:
        return (
            bucket is not None and subject.access_to(bucket).endpoint_url != subject.store_access.endpoint_url
        )
    except InvalidInput:
        return True


def _brought(subject: Subject, spec: JobSpec) -> Iterator[tuple[str, Keys]]:
    """Yields the keys of ``env`` and those of ``conf``. Raises ``Refused`` for a secret that does not resolve here."""
    settings = subject.settings
    secrets = Secrets(subject.environ, settings.policy.secrets, spec.name, settings.supervisor.runtime_dir)
    of_env = [secrets.of_env(name, spec.env[name]) if name in spec.env else None for name in OF_ENV]
    bucket = bucket_of(spec.checkpoint or "") or ""
    named = [setting(spec.conf, bucket, name) for name in OF_CONF]
    of_conf = [None if value is None else secrets.of_conf("fs.s3a", value, spec.env) for value in named]
    for source, (access, secret, token) in (("env", of_env), ("conf", of_conf)):
        if access and secret:
            yield source, (access, secret, token)


def _inherits(subject: Subject, spec: JobSpec) -> bool:
    """Returns whether a driver would have the keys that this shell has. One of another Unix user has none of them."""
    policy = subject.settings.policy
    if spec.run_as is not None or policy.run_as.default is not None:
        return False
    return OF_ENV[0] in subject.environ and is_inherited(OF_ENV[0], policy)


# -- judges -------------------------------------------------------------------------------------------------------


def judge_job_credentials(facts: CredentialsFacts) -> DoctorFinding:
    if facts.why:
        return skipped(facts.why)
    if facts.inherited:
        return warning(
            f"the job has the supervisor's own S3 credentials ({OF_ENV[0]} is inherited): it can write to the store",
            f"{REMEDY}, and leave AWS_* out of policy.driver_environment.inherit",
        )
    for source, trial in facts.trials:
        if trial.left:
            return warning(
                f"the credentials of {source} can write to the store, and {trial.left} cannot be removed",
                f"remove it, and {REMEDY}",
            )
        if trial.written:
            return warning(
                f"the credentials of {source} can write to {', '.join(trial.written)} of the store", REMEDY
            )
        if trial.error:
            return warning(
                f"the credentials of {source} could not be tried on the store: {trial.error.what}",
                trial.error.remedy or "correct the credentials of the job",
            )
    sources = " and ".join(source for source, _ in facts.trials)
    folders = ", ".join(facts.trials[0][1].refused)
    return ok(f"the credentials of {sources} may not write to {folders} of the store")


JOB_CREDENTIALS = CheckGroup(
    "job-credentials",
    collect,
    (
        DoctorCheck(
            "job-credentials",
            "the S3 credentials that the job brings cannot write specs, files, epochs and audit of the store",
            judge_job_credentials,
        ),
    ),
)
