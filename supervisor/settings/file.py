"""Reads ``supervisor.yaml``: every key of REFERENCE.md with its default and its check, and how the
environment overrides it.

The command line and the daemon read it once, before anything else happens; the result is frozen. Every error
is ``errors.InvalidInput`` (exit code 2): one sentence with key, file and remedy. Nothing here connects to
anything.
"""

from __future__ import annotations

import socket
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from supervisor.errors import Complaint, InvalidInput
from supervisor.model.host_directories import StateDirectory, default_state_dir
from supervisor.model.lease_terms import KILL_TIME_S, SHIM_AHEAD_S, renew_period_s
from supervisor.settings.addresses import (
    AbsolutePath,
    EndpointUrl,
    Listen,
    PlainName,
    StoreUrl,
    SupervisorId,
    ZooKeeperHosts,
    ZooKeeperRoot,
)
from supervisor.settings.api import ApiSettings
from supervisor.settings.audit import AuditSettings
from supervisor.settings.clusters import Clusters
from supervisor.settings.defaults import GIB, Defaults
from supervisor.settings.http import HttpSettings
from supervisor.settings.labels import Labels
from supervisor.settings.notify import Receivers
from supervisor.settings.policy import PolicySettings
from supervisor.settings.sections import Section, between, section_at, validated
from supervisor.settings.small_files import read_small, shortened
from supervisor.settings.spark import SparkSettings
from supervisor.settings.units import DurationS, SizeBytes, format_duration
from supervisor.settings.yaml_text import read_mapping, read_value
from supervisor.settings.zookeeper_access import ZooKeeperSecurity

DEFAULT_PATH: Final = Path("/etc/spark-supervisor/supervisor.yaml")
PATH_VARIABLE: Final = "SPARK_SUPERVISOR_CONFIG"
ASSUMED_TICK_S: Final = 2.0
"""ZooKeeper does not report its tickTime to clients; two seconds is its usual value."""

OVERRIDE_PREFIX: Final = "SPARK_SUPERVISOR__"
FILE_MAX_BYTES: Final = 256 * 1024
MIB: Final = 1024**2


class ZooKeeperSettings(ZooKeeperSecurity):
    """Says where ZooKeeper is, and how to connect to it. ``session_timeout`` is what the client asks for; the server may
    grant another one (``doctor`` reports it).
    """

    hosts: ZooKeeperHosts
    root: ZooKeeperRoot = "/spark-supervisor"
    session_timeout_s: Annotated[DurationS, between(1.0, 300.0)] = Field(
        default=10.0, alias="session_timeout"
    )


class StoreSettings(Section):
    """Says where specs and application files lie. All but ``url`` is for S3 only; the values are those of
    S3.
    """

    url: StoreUrl
    endpoint_url: EndpointUrl | None = None
    region: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,64}$")
    sse: Literal["AES256", "aws:kms", "aws:kms:dsse"] | None = None
    sse_kms_key_id: Annotated[str | None, Field(pattern=r"^[\x21-\x7e]{1,2048}$")] = None
    request_payer: Literal["requester"] | None = None

    @field_validator("sse_kms_key_id")
    @classmethod
    def _needs_kms(cls, key: str | None, info: ValidationInfo) -> str | None:
        if key is not None and not str(info.data.get("sse") or "").startswith("aws:kms"):
            raise ValueError("needs store.sse: aws:kms (or aws:kms:dsse); add that, or remove the key")
        return key


class CapacitySettings(Section):
    """Says what this host offers: memory for all drivers together, their number, and how many may be starting
    at once.
    """

    memory_bytes: Annotated[SizeBytes, Field(ge=1, le=1024**6)] = Field(default=16 * GIB, alias="memory")
    drivers: int = Field(default=20, ge=0, le=10_000)
    starting: int = Field(default=2, ge=1, le=1000)


class LogLimits(Section):
    """Says how much output of drivers a host keeps: of one job, and of all jobs together. What is above that is removed,
    the oldest first, and never what is being written.
    """

    per_job_bytes: Annotated[SizeBytes, Field(ge=MIB, le=1024**6)] = Field(default=GIB, alias="per_job")
    per_host_bytes: Annotated[SizeBytes, Field(ge=MIB, le=1024**6)] = Field(
        default=10 * GIB, alias="per_host"
    )


class SupervisorSettings(Section):
    """Describes this process. ``id`` is unique among the supervisors of the cluster, and stable; it is the
    host name if not given.

    ``on_stop`` says what becomes of the drivers of this host when the process is asked to end. With ``leave``
    they go on under their shims, and the next process adopts them; with ``stop_drivers`` they are stopped in
    order first (containers, where nothing survives). ``labels`` are what specs may require of a host (``placement``).
    """

    id: SupervisorId = Field(default_factory=socket.gethostname, validate_default=True)
    http: Listen = "127.0.0.1:8780"
    runtime_dir: AbsolutePath = Path("/run/spark-supervisor")
    state_dir: AbsolutePath | None = None
    log_dir: AbsolutePath = Path("/var/log/spark-supervisor")
    logs: LogLimits = LogLimits()
    on_stop: Literal["leave", "stop_drivers"] = "leave"
    capacity: CapacitySettings = CapacitySettings()
    labels: Labels = Field(default_factory=dict)

    @property
    def state(self) -> StateDirectory:
        """Returns the directory for what outlives attempts (``model.host_directories``)."""
        return StateDirectory(self.state_dir or default_state_dir(self.runtime_dir))


class Settings(Section):
    """Holds all of ``supervisor.yaml``. ``cluster``, ``zookeeper.hosts`` and ``store.url`` have no
    default. ``clusters`` are those of Spark, by the names that specs give them.
    """

    cluster: PlainName
    zookeeper: ZooKeeperSettings
    store: StoreSettings
    supervisor: SupervisorSettings = Field(default_factory=SupervisorSettings)
    spark: SparkSettings = SparkSettings()
    http: HttpSettings = HttpSettings()
    api: ApiSettings = ApiSettings()
    defaults: Defaults = Defaults()
    policy: PolicySettings = PolicySettings()
    audit: AuditSettings = AuditSettings()
    clusters: Clusters = Field(default_factory=dict)
    notify: Receivers = ()


def settings_path(path: Path | None, environ: Mapping[str, str]) -> Path:
    """Returns the file that counts: ``--config``, else ``SPARK_SUPERVISOR_CONFIG``, else the default path."""
    return path or (Path(environ[PATH_VARIABLE]) if environ.get(PATH_VARIABLE) else DEFAULT_PATH)


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Returns the settings of this process. Raises ``InvalidInput``.

    A file that was named must exist; the one at the default path may be absent if the environment sets all
    that has no default (containers).
    """
    chosen = settings_path(path, environ)
    text = _text(
        chosen, may_be_absent=chosen == DEFAULT_PATH and any(n.startswith(OVERRIDE_PREFIX) for n in environ)
    )
    body = {} if text is None else read_mapping(text, str(chosen), as_written={"conf", "labels"})
    source = str(chosen) if text is not None else f"{chosen} (which does not exist)"
    return validated(Settings, body, source, _override(body, environ, source))


def lease_warnings(lease_s: float, session_timeout_s: float) -> tuple[Complaint, ...]:
    """Returns why a lease is legal but short (protocol §7): an outage that the session survives could then
    stop drivers. The result is empty if it is long enough.
    """
    margin_s = lease_s - KILL_TIME_S - SHIM_AHEAD_S - renew_period_s(lease_s)
    needed_s = session_timeout_s + 2 * ASSUMED_TICK_S
    if margin_s >= needed_s:
        return ()
    better = format_duration(-(-(needed_s + KILL_TIME_S + SHIM_AHEAD_S) * 6 // 5))
    return (
        Complaint(
            f"a lease of {format_duration(lease_s)} is short for a session of {format_duration(session_timeout_s)}: a "
            f"ZooKeeper outage of {margin_s:.1f} s stops drivers although the session would survive it",
            f"use a lease of {better} or more",
        ),
    )


def _text(path: Path, *, may_be_absent: bool) -> str | None:
    try:
        data = read_small(path, FILE_MAX_BYTES)
    except FileNotFoundError:
        if may_be_absent:
            return None
        raise InvalidInput(
            f"configuration file {path} does not exist", f"name one with --config or {PATH_VARIABLE}"
        ) from None
    except OSError as error:
        raise InvalidInput(
            f"configuration file {shortened(path)} cannot be read ({error.strerror})",
            "check its name and permissions",
        ) from None
    if len(data) > FILE_MAX_BYTES:
        raise InvalidInput(f"configuration file {path} is larger than {FILE_MAX_BYTES // 1024} KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"configuration file {path} is not UTF-8 text", "save it as UTF-8") from None


def _override(body: dict[str, Any], environ: Mapping[str, str], source: str) -> dict[str, str]:
    """Puts every ``SPARK_SUPERVISOR__SECTION__KEY`` into ``body``; returns, for messages, the variable by key
    path.
    """
    origins: dict[str, str] = {}
    # Shorter names first: a whole section, then single keys of it.
    for name in sorted(
        (n for n in environ if n.startswith(OVERRIDE_PREFIX)), key=lambda n: (n.count("__"), n)
    ):
        keys = name.removeprefix(OVERRIDE_PREFIX).lower().split("__")
        if not all(keys):
            raise InvalidInput(
                f"environment variable {name} names no key", f"write {OVERRIDE_PREFIX}SECTION__KEY"
            )
        target = body
        for index, key in enumerate(keys[:-1]):
            below = target.get(key)
            if below is None:
                below = target[key] = {}
            if not isinstance(below, dict):
                raise InvalidInput(
                    f"{source}: {'.'.join(keys[: index + 1])} must be a mapping for {name} to apply"
                )
            target = below
        target[keys[-1]] = _value(keys, environ[name], f"environment variable {name}")
        origins = {".".join(keys): f"environment variable {name}"} | origins
    return origins


def _value(keys: list[str], text: str, source: str) -> Any:
    """Returns ``text`` as a value. It stays text, except where a number, a mapping or null is asked for."""
    field = _field(keys)
    if field is None:
        return text
    choices = set(typing.get_args(field.annotation) or (field.annotation,))
    if text in ("", "null") and (type(None) in choices or keys == ["supervisor", "id"]):
        return None
    has_units = any(isinstance(part, BeforeValidator) for part in field.metadata)
    plain = bool(choices & {int, float, bool}) and not has_units
    is_section = any(isinstance(choice, type) and issubclass(choice, BaseModel) for choice in choices)
    return (
        read_value(text, source)
        if plain or is_section or typing.get_origin(field.annotation) is dict
        else text
    )


def _field(keys: list[str]) -> FieldInfo | None:
    section: type[BaseModel] | None = Settings
    for key in keys[:-1]:
        section = section_at(section, key) if section else None
    if section is None:
        return None
    return next((f for name, f in section.model_fields.items() if (f.alias or name) == keys[-1]), None)
