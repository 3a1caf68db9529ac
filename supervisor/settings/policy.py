"""Defines the ``policy`` section of ``supervisor.yaml``: what the operator allows jobs.

It has only keys and their form; ``spec.site_policy`` says what a rule about a location covers, and
``spec.policy_judge`` whether a spec keeps the others. Leader and agent decide, each by the configuration of its own
host.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from supervisor.settings.addresses import AbsolutePath, EndpointUrl
from supervisor.settings.sections import Section
from supervisor.settings.spark_conf import HostConf
from supervisor.settings.units import SizeBytes

_RULE: Final = re.compile(r"\*|/[^/].*|file:/.*[^/].*|[A-Za-z][A-Za-z0-9+.-]*://[^/*?]+/+[^/].*")
_VARIABLE: Final = re.compile(r"[A-Za-z_*?][A-Za-z0-9_*?]*")
_PROPERTY: Final = re.compile(r"\*|spark\.[A-Za-z0-9_.*?-]+")
LOGS_KEEP_MAX: Final = 1000
"""In the store the output of no more attempts of one submission is kept, whatever a policy says."""
JOB: Final = "{job}"
"""This stands for the name of the job in a rule of ``secrets.files``."""


def _rule(value: str) -> str:
    if not _RULE.fullmatch(value) or not value.isprintable():
        raise ValueError(f"{value[:120]!r} is no location like s3a://bucket/path/* or file:///path/*")
    if "[" in value or "]" in value:
        raise ValueError(f"{value[:120]!r} has brackets, which are no wildcards here")
    if ".." in value.split("/"):
        raise ValueError(f"{value[:120]!r} has '..' in it; write where that leads")
    return value


def _file_rule(value: str) -> str:
    if value != "*" and not value.startswith("/"):
        raise ValueError(f"{value[:120]!r} is no absolute path like /etc/secrets/{JOB}/*, nor *")
    if any(mark in value.replace(JOB, "") for mark in "{}"):
        raise ValueError(f"{value[:120]!r} has braces; only {JOB} is replaced, by the name of the job")
    return _rule(value)


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise ValueError(
            f"{value[:80]!r} is no name of an environment variable; * and ? in it stand for any characters"
        )
    return value


def _property(value: str) -> str:
    if not _PROPERTY.fullmatch(value):
        raise ValueError(
            f"{value[:120]!r} is no name of a Spark property like spark.plugins or spark.driver.extra*"
        )
    return value


Rules = Annotated[tuple[Annotated[str, AfterValidator(_rule)], ...], Field(strict=False, max_length=1000)]
FileRules = Annotated[
    tuple[Annotated[str, AfterValidator(_file_rule)], ...], Field(strict=False, max_length=1000)
]
Variables = Annotated[
    tuple[Annotated[str, AfterValidator(_variable)], ...], Field(strict=False, max_length=1000)
]
Properties = Annotated[
    tuple[Annotated[str, AfterValidator(_property)], ...], Field(strict=False, max_length=1000)
]


class DriverEnvironmentSettings(Section):
    """Says which variables of the supervisor's environment its drivers get, by their names. ``*`` and ``?`` stand for
    any characters. What a job's ``env`` sets, and what the supervisor adds, is there in any case."""

    inherit: Variables = ("*",)


class EnvironmentSettings(Section):
    """Says which variables a job's ``env`` may set, by their names. ``*`` and ``?`` stand for any characters. Where code
    must be pinned (``in_place_files``), a variable that decides which code is loaded needs a rule other than ``*``
    (``spec.code_names``)."""

    allowed: Variables = ("*",)


class SecretSettings(Section):
    """Says what jobs may name as ``${env:NAME}`` and ``${file:/path}``. ``env`` are names of variables of the
    supervisor's environment; ``files`` are paths as in ``checkpoints``, with ``{job}`` for the name of the job. A rule
    other than ``*`` also asks who may write to the file (``spark.secrets``)."""

    env: Variables = ("*",)
    files: FileRules = ("*",)


class ConfSettings(Section):
    """Says which Spark properties the operator sets himself (``forced``), and which no job may set (``forbidden``, names
    in which ``*`` and ``?`` stand for any characters)."""

    forced: HostConf = Field(default_factory=dict)
    forbidden: Properties = ()


_USER: Final = re.compile(r"[a-z_][a-z0-9_.-]{0,30}\$?|[1-9][0-9]{0,9}")


def user_name(value: str) -> str:
    """Checks the name or number of a Unix user other than root. Raises ValueError."""
    if not _USER.fullmatch(value) or value == "root":
        raise ValueError(
            f"{value[:40]!r} must be the name of a Unix user, or its number in quotes, and not root"
        )
    return value


UserName = Annotated[str, AfterValidator(user_name)]


class RunAsSettings(Section):
    """Says as which Unix users jobs run. ``default`` is for jobs that name none; null means the supervisor's own
    user. ``allowed`` are those that a job may name with ``run_as``.
    """

    default: UserName | None = None
    allowed: Annotated[tuple[UserName, ...], Field(strict=False, max_length=1000)] = ()


class LogPolicySettings(Section):
    """Says whether jobs may have the output of their drivers uploaded to the store, and of how many attempts at most."""

    upload: Literal["allow", "forbid"] = "allow"
    keep_max: int = Field(default=100, ge=1, le=LOGS_KEEP_MAX)


class ResourceBounds(Section):
    """Says the most that a job may have of what ``resources`` of its spec names; null is no bound. A job that names none of
    ``memory_limit``, ``cpu`` and ``tasks``, or null, gets the bound."""

    memory_bytes: Annotated[SizeBytes, Field(ge=1024**2, le=1024**5)] | None = Field(
        default=None, alias="memory"
    )
    memory_limit_bytes: Annotated[SizeBytes, Field(ge=1024**2, le=1024**5)] | None = Field(
        default=None, alias="memory_limit"
    )
    cpu: Annotated[float, Field(ge=0.01, le=100_000.0)] | None = None
    tasks: Annotated[int, Field(ge=16, le=4_194_304)] | None = None


class SavepointBounds(Section):
    """Says the most that one savepoint copies, in bytes and in objects; null is no bound."""

    size_bytes: Annotated[SizeBytes, Field(ge=1024**2, le=1024**6)] | None = Field(
        default=1024**4, alias="size"
    )
    objects: Annotated[int, Field(ge=100, le=4_000_000)] | None = 1_000_000


class ResourcePolicySettings(Section):
    """Says what of a host one job may take."""

    max: ResourceBounds = ResourceBounds()


class PolicySettings(Section):
    """Holds the rules. ``checkpoints`` say where jobs may keep their checkpoint. ``deletable`` says where
    ``checkpoint_on_cancel: delete`` may delete; by default that is nowhere. ``endpoints`` are those of S3,
    besides the store's, that jobs may name. ``in_place_files`` says whether a job may name files that are not in the
    store, and whether their SHA-256 must be in its spec. ``in_place_locations`` says where those may lie. Null means
    anywhere; where they must be pinned it means on the host, in the store, or below the job's checkpoint. ``logs`` is
    about uploads of what drivers write. ``resources`` bounds what one job may take, ``savepoints`` what one savepoint
    copies. ``run_as`` says as which Unix users jobs run. ``submit_signers`` are PEM files with public Ed25519 keys; if
    there are any, a host starts only what one of them has signed.
    """

    driver_environment: DriverEnvironmentSettings = DriverEnvironmentSettings()
    env: EnvironmentSettings = EnvironmentSettings()
    secrets: SecretSettings = SecretSettings()
    checkpoints: Rules = ("*",)
    deletable: Rules = ()
    endpoints: Annotated[tuple[EndpointUrl, ...], Field(strict=False, max_length=1000)] = ()
    conf: ConfSettings = ConfSettings()
    in_place_files: Literal["allow", "pinned", "forbid"] = "allow"
    in_place_locations: Rules | None = None
    logs: LogPolicySettings = LogPolicySettings()
    resources: ResourcePolicySettings = ResourcePolicySettings()
    run_as: RunAsSettings = RunAsSettings()
    savepoints: SavepointBounds = SavepointBounds()
    submit_signers: Annotated[tuple[AbsolutePath, ...], Field(strict=False, max_length=100)] = ()


def open_rules(policy: PolicySettings) -> tuple[str, ...]:
    """Returns the keys of rules that keep no job from anything that the supervisor has or reaches. That is the default for
    one release, so that jobs which rely on it go on."""
    wide = {
        "driver_environment.inherit": "*" in policy.driver_environment.inherit,
        "secrets.env": "*" in policy.secrets.env,
        "secrets.files": "*" in policy.secrets.files,
        "checkpoints": "*" in policy.checkpoints,
        "in_place_files": policy.in_place_files == "allow",
    }
    return tuple(key for key, is_wide in wide.items() if is_wide)
