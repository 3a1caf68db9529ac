"""Defines the job spec: every key of REFERENCE.md, checked once at submit, then immutable and known by the
sha256 of its bytes.

``cli`` parses what a person wrote; ``registry`` stores the canonical JSON; agents read that back
(``from_canonical``) and ``spark`` builds a command line from it. The module needs pydantic, so a shim never
imports it: a shim gets a ``Launch``. It is pure: ``spec.files`` checks whether local files exist.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from supervisor.errors import Complaint, Corrupt, InvalidInput
from supervisor.model import driver_memory, executors, heap, host_tools, master
from supervisor.model.deletable import why_not_deletable
from supervisor.model.driver_user import ResourceLimits
from supervisor.model.labels import packed
from supervisor.model.location import normalise
from supervisor.model.records import (
    PlacementPolicy,
    PrepareLevel,
    SchedulingSpec,
    StandbyPolicy,
    StandbyWhere,
)
from supervisor.model.restart import OnExhausted, RestartPolicy, Strategy
from supervisor.model.savepoint_policy import SavepointPolicy
from supervisor.model.secret import reference_in_conf
from supervisor.model.secret_words import is_secret_name
from supervisor.settings.clusters import ClusterName
from supervisor.settings.defaults import Defaults, Health, LeaseS, Resources, StopGraceS
from supervisor.settings.labels import Labels
from supervisor.settings.policy import UserName
from supervisor.settings.restart import RestartSettings
from supervisor.settings.sections import Section, Since, spoken, validated
from supervisor.settings.spark import VersionName
from supervisor.settings.spark_conf import SparkConf
from supervisor.settings.units import format_size
from supervisor.settings.yaml_text import read_numbered
from supervisor.spec.fields import (
    STORE_SCHEME,
    Application,
    Args,
    Checkpoint,
    DeployMode,
    Env,
    HistoryEntry,
    Jars,
    MainClass,
    Master,
    Name,
    Packages,
    PyFiles,
    Sha256ByFile,
    SpecFiles,
    is_local_path,
)
from supervisor.spec.logs import LogSettings
from supervisor.spec.placement import PlacementSettings
from supervisor.spec.prepare import StandbySettings, UpdateSettings
from supervisor.spec.python import PROPERTIES, UNPACKED_AS, PythonSettings
from supervisor.spec.savepoints import SavepointSettings

SPEC_VERSION: Final = 1
SPEC_MAX_BYTES: Final = 64 * 1024
CHECKPOINT_PLACEHOLDER: Final = "{checkpoint}"
JOB_PLACEHOLDER: Final = "{job}"
DEFAULT_MASTER: Final = "local[2]"
PREPARED_MIN_BYTES: Final = 512 * 1024**2
"""A driver with less memory has no room for a SparkSession and the throwaway query of a prepared one."""

_CONF_TWINS: Final = {
    "spark.jars": "jars",
    "spark.jars.packages": "packages",
    "spark.submit.pyFiles": "py_files",
    "spark.files": "files",
}
"""If one is given as a key of the spec *and* as a property, spark-submit drops one of the two without a
message.
"""

_NAMES_FILES: Final = ("application", "py_files", "jars", "files")
"""The keys at the top that name files; ``python.archive`` is one more."""

_PYTHON_VARIABLES: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


class JobSpec(Section):
    """Describes one job. Times are in seconds and memory is in bytes; in YAML and JSON they have their units
    (the aliases are the keys there).
    """

    name: Name
    labels: Annotated[Labels, Since("0.2")] = Field(default_factory=dict)
    application: Application
    main_class: MainClass | None = Field(default=None, alias="class")
    entry: HistoryEntry | None = None
    args: Args = ()
    py_files: PyFiles = ()
    jars: Jars = ()
    files: Annotated[SpecFiles, Since("0.2")] = ()
    packages: Packages = ()
    sha256: Annotated[Sha256ByFile, Since("0.2")] = Field(default_factory=dict)
    launch: Literal["submit", "session"] = "submit"
    spark: Annotated[VersionName | None, Since("0.2")] = None
    python: Annotated[PythonSettings, Since("0.2")] = PythonSettings()
    master: Master = DEFAULT_MASTER
    cluster: Annotated[ClusterName | None, Since("0.2")] = None
    deploy_mode: Annotated[Literal["client"], DeployMode] = "client"
    conf: SparkConf = Field(default_factory=dict)
    env: Env = Field(default_factory=dict)
    run_as: Annotated[UserName | None, Since("0.2")] = None
    checkpoint: Checkpoint | None = None
    checkpoint_fence: Annotated[Literal["auto", "off"], Since("0.2")] = "auto"
    checkpoint_on_cancel: Annotated[Literal["keep", "delete"], Since("0.2")] = "keep"
    savepoints: Annotated[SavepointSettings, Since("0.2")] = SavepointSettings()
    logs: Annotated[LogSettings, Since("0.2")] = LogSettings()
    update: Annotated[UpdateSettings, Since("0.2")] = UpdateSettings()
    standby: Annotated[StandbySettings, Since("0.2")] = StandbySettings()
    placement: Annotated[PlacementSettings, Since("0.2")] = PlacementSettings()
    unbounded: bool = True
    resources: Resources = Resources()
    lease_s: LeaseS = Field(default=30.0, alias="lease")
    stop_grace_s: StopGraceS = Field(default=30.0, alias="stop_grace")
    restart: RestartSettings = RestartSettings()
    health: Health = Health()

    @property
    def is_python(self) -> bool:
        return self.application.endswith(".py")

    @model_validator(mode="after")
    def _one_kind_of_application(self) -> JobSpec:
        if self.main_class is not None and self.is_python:
            raise ValueError("class is for a .jar application only; remove it")
        if self.py_files and not self.is_python:
            raise ValueError("py_files are for a .py application only; a .jar takes jars")
        if self.launch == "session" and not self.is_python:
            raise ValueError("launch: session needs a .py application; use launch: submit for a .jar")
        if self.launch == "session" and self.entry is None:
            raise ValueError("launch: session needs entry, the module:function that is given the session")
        if self.launch == "submit" and self.entry is not None:
            raise ValueError("entry is for launch: session only; remove it or set launch")
        return self

    @model_validator(mode="after")
    def _one_master(self) -> JobSpec:
        if self.cluster is not None and "master" in self.model_fields_set and self.master != DEFAULT_MASTER:
            raise ValueError(
                "master and cluster are both given, and the cluster has its own master; remove one of them"
            )
        if self.standby.level == "application" and self.holds_executors:
            raise ValueError(
                "standby.level: application would hold executors beside those of the driver that runs; use session"
            )
        return self

    @model_validator(mode="after")
    def _recoverable(self) -> JobSpec:
        """Raises ValueError if state could not be recovered: it lives in the checkpoint, and without one, a
        restart would silently begin again.
        """
        if self.checkpoint is None and self.unbounded:
            raise ValueError(
                "checkpoint is missing, and an unbounded job recovers from it; add it (unbounded: false does without)"
            )
        if self.checkpoint is None and any(CHECKPOINT_PLACEHOLDER in arg for arg in self.args):
            raise ValueError(f"args hold {CHECKPOINT_PLACEHOLDER}, but there is no checkpoint; add it")
        return self

    @model_validator(mode="after")
    def _deletable(self) -> JobSpec:
        if self.checkpoint_on_cancel == "delete":
            why = why_not_deletable(self.checkpoint)
            if why is not None:
                raise ValueError(
                    f"checkpoint_on_cancel: delete is not possible: {why}; remove it, or change checkpoint"
                )
        return self

    @model_validator(mode="after")
    def _savable(self) -> JobSpec:
        if self.savepoints.every_s is None:
            return self
        if self.checkpoint is None:
            raise ValueError(
                "savepoints are copies of the checkpoint, which is missing; add it, or remove savepoints"
            )
        if not normalise(self.checkpoint).startswith(("file:", "s3:")):
            raise ValueError(
                f"savepoints can't be made of {self.checkpoint[:120]!r}, which only Spark can reach; remove savepoints, or "
                "use an s3a:// or file:// checkpoint"
            )
        return self

    @model_validator(mode="after")
    def _said_once(self) -> JobSpec:
        for key, twin in _CONF_TWINS.items():
            if key in self.conf and getattr(self, twin):
                raise ValueError(
                    f"{twin} and conf {key} are both given, and Spark would drop one; use {twin} alone"
                )
        return self

    @model_validator(mode="after")
    def _one_name_one_file(self) -> JobSpec:
        """Raises ValueError if two files would have one name: the application finds them by that."""
        seen = {PurePosixPath(self.application).name: self.application} if self.files else {}
        for given in self.files:
            name = PurePosixPath(given).name
            if name in seen:
                raise ValueError(
                    f"files: {given[:120]!r} and {seen[name][:120]!r} have the same name, and the application finds "
                    "each by its name; rename one"
                )
            seen[name] = given
        return self

    @model_validator(mode="after")
    def _one_python(self) -> JobSpec:
        """Raises ValueError if anything else would take the place of the Python that ``python`` names."""
        if not self.python.is_given:
            return self
        if not self.is_python:
            raise ValueError("python is for a .py application only; remove it")
        twins = [f"env {name}" for name in _PYTHON_VARIABLES if name in self.env]
        twins += [f"conf {name}" for name in PROPERTIES if name in self.conf]
        if twins:
            raise ValueError(f"python and {twins[0]} both name the Python of the driver; use python alone")
        if self.python.archive is not None and f"#{UNPACKED_AS}" in self.conf.get("spark.archives", ""):
            raise ValueError(
                f"conf spark.archives uses the name {UNPACKED_AS} of python.archive; take another"
            )
        return self

    @model_validator(mode="after")
    def _pins_what_it_names(self) -> JobSpec:
        named = {each for _, each in in_place_files(self)}
        for given in self.sha256:
            if given not in named:
                raise ValueError(
                    f"sha256 holds {given[:120]!r}, which is no local: or s3:// file of this spec (an uploaded file is "
                    "pinned by that); remove it, or write it as it stands there"
                )
        return self

    @model_validator(mode="after")
    def _memory_can_be_raised(self) -> JobSpec:
        most = self.restart.memory_max_bytes
        if most is None:
            return self
        begins_with = self.driver_memory_bytes()
        if not begins_with:
            configured = self.conf[driver_memory.PROPERTY]
            raise ValueError(
                f"restart.memory_step raises conf {driver_memory.PROPERTY}, which is no size ({configured[:40]!r})"
            )
        had = driver_memory.as_spark_size(begins_with)
        where = (
            f"conf {driver_memory.PROPERTY}" if driver_memory.PROPERTY in self.conf else "resources.memory"
        )
        if begins_with < driver_memory.LEAST_BYTES:
            raise ValueError(
                f"restart.memory_step begins with {had} ({where}), and Spark needs 450m at least; raise that"
            )
        if most <= begins_with:
            raise ValueError(
                f"restart.memory_max is not above the {had} that the driver begins with ({where}); raise it"
            )
        return self

    @model_validator(mode="after")
    def _limit_holds_what_is_declared(self) -> JobSpec:
        limit = self.resources.memory_limit_bytes
        if limit is None:
            return self
        for key, needs in (
            ("resources.memory", self.resources.memory_bytes),
            ("restart.memory_max", self.restart.memory_max_bytes),
        ):
            if needs is not None and limit < needs:
                raise ValueError(
                    f"resources.memory_limit ({format_size(limit)}) is below {key} ({format_size(needs)}): "
                    "the kernel would kill the driver before it has that; raise it"
                )
        return self

    @model_validator(mode="after")
    def _standby_can_be_prepared(self) -> JobSpec:
        why = self.why_not_prepared() if self.standby.level is not None else None
        if why is not None:
            raise ValueError(
                f"standby keeps a prepared driver, and none can be prepared: {why}; remove standby"
            )
        return self

    def limits(self) -> ResourceLimits | None:
        """Returns what the kernel is to enforce, or None if that is nothing."""
        asked = ResourceLimits(
            memory=self.resources.memory_limit_bytes or 0,
            cpu=self.resources.cpu or 0.0,
            tasks=self.resources.tasks or 0,
        )
        return asked if asked.controllers() else None

    def scheduling(self) -> SchedulingSpec:
        """Returns what the leader must know, for the job's reference. ``checkpoint`` is as written, not
        normalised.
        """
        return SchedulingSpec(
            memory=self.resources.memory_bytes,
            priority=self.resources.priority,
            unbounded=self.unbounded,
            lease_s=self.lease_s,
            stop_grace_s=self.stop_grace_s,
            start_timeout_s=self.health.start_timeout_s,
            checkpoint=self.checkpoint,
            restart=self.restart_policy(),
            driver_memory=self.driver_memory_bytes() if self.restart.memory_step is not None else 0,
            delete_checkpoint=self.checkpoint_on_cancel == "delete",
            savepoints=self.savepoint_policy(),
            prepare=self.prepare_level(),
            standby=self.standby_policy(),
            labels=packed(self.labels),
            placement=self.placement_policy(),
            spark=self.spark or "",
            back_to_savepoint=self.goes_back_to_savepoint,
            sink=self.savepoints.sink or "",
        )

    def why_not_prepared(self) -> str | None:
        """Returns why no driver of this job is brought up before it is needed, or None if one may be."""
        if self.update.prepare == "off":
            return "its spec says update.prepare: off"
        if not self.is_python:
            return "a JVM application has no barrier at which it could wait"
        memory = self.driver_memory_bytes()
        if 0 < memory < PREPARED_MIN_BYTES:
            has, needs = map(driver_memory.as_spark_size, (memory, PREPARED_MIN_BYTES))
            return f"its driver has {has}, and a prepared one needs {needs}"
        return None

    @property
    def holds_executors(self) -> bool:
        """Returns whether its driver has executors elsewhere, which may outlive it."""
        return self.cluster is not None or not master.is_local(self.master)

    def executors_outlive_s(self) -> float:
        """Returns for how many seconds its executors may outlive its driver; 0.0 if it has none elsewhere."""
        return executors.outlive_s(self.conf) if self.holds_executors else 0.0

    def prepare_level(self) -> PrepareLevel | None:
        """Returns how far a prepared driver of this job goes, or None if none is prepared. With executors it stays before
        the SparkContext, or two drivers would hold them at once."""
        if self.why_not_prepared() is not None:
            return None
        return PrepareLevel.SESSION if self.holds_executors else PrepareLevel(self.update.prepare)

    def driver_memory_bytes(self) -> int:
        """Returns what ``restart.memory_step`` begins with: spark.driver.memory of conf, else all that the
        job declares.
        """
        configured = self.conf.get(driver_memory.PROPERTY)
        return (
            self.resources.memory_bytes
            if configured is None
            else driver_memory.spark_size_bytes(configured) or 0
        )

    def restart_policy(self) -> RestartPolicy:
        restart = self.restart
        return RestartPolicy(
            strategy=Strategy(restart.strategy),
            initial_s=restart.initial_s,
            max_s=restart.max_s,
            jitter=restart.jitter,
            reset_after_s=restart.reset_after_s,
            attempts=restart.attempts,
            on_exhausted=OnExhausted(restart.on_exhausted),
            memory_step=restart.memory_step,
            memory_max=restart.memory_max_bytes,
        )

    def savepoint_policy(self) -> SavepointPolicy | None:
        configured = self.savepoints
        return (
            None
            if configured.every_s is None
            else SavepointPolicy(
                every_s=configured.every_s, keep=configured.keep, max_age_s=configured.max_age_s
            )
        )

    def standby_policy(self) -> StandbyPolicy | None:
        configured = self.standby
        return (
            None
            if configured.level is None
            else StandbyPolicy(
                level=PrepareLevel(configured.level),
                where=StandbyWhere(configured.where),
                refresh_s=configured.refresh_s,
            )
        )

    @property
    def goes_back_to_savepoint(self) -> bool:
        """Returns whether an update of it that has failed shall go back to a savepoint."""
        return self.checkpoint is not None and self.update.rollback == "savepoint"

    def placement_policy(self) -> PlacementPolicy | None:
        asked = self.placement
        if not asked.require and asked.spread is None:
            return None
        return PlacementPolicy(
            require=packed(asked.require), spread=asked.spread or "", group=asked.group or ""
        )

    def application_args(self) -> tuple[str, ...]:
        """Returns ``args`` with ``{checkpoint}`` and ``{job}`` replaced. Other braces stay as they are: applications
        take JSON and templates.
        """
        return tuple(arg.replace(CHECKPOINT_PLACEHOLDER, self.checkpoint or "") for arg in self.args_of_job())

    def args_of_job(self) -> tuple[str, ...]:
        """Returns ``args`` with ``{job}`` replaced by the name, and ``{checkpoint}`` as it is."""
        return tuple(arg.replace(JOB_PLACEHOLDER, self.name) for arg in self.args)


def parse_spec(text: str, source: str, defaults: Defaults | None = None) -> JobSpec:
    """Returns the spec in ``text`` (YAML or JSON). ``source`` is its file name, for messages. Raises
    ``InvalidInput``.

    What the spec does not set is taken from ``defaults``; sections are merged key by key.
    """
    return spec_of(body_of(text, source)[0], source, defaults)


def body_of(text: str, source: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Returns what ``text`` says, which nothing is checked of yet, and the line of each key by its path. Raises
    ``InvalidInput``."""
    if len(text.encode("utf-8", "replace")) > SPEC_MAX_BYTES:
        raise InvalidInput(f"{source} is larger than {SPEC_MAX_BYTES // 1024} KiB", "move data out of it")
    return read_numbered(text, source, as_written={"conf", "env", "labels", "require"})


def spec_of(
    body: Mapping[str, Any],
    source: str,
    defaults: Defaults | None = None,
    origins: Mapping[str, str] | None = None,
) -> JobSpec:
    """Returns the spec in ``body``. ``origins`` says by key path where a value stands, for messages. The rest is as for
    ``parse_spec``."""
    spec = validated(JobSpec, _with_defaults(body, defaults or Defaults()), source, origins)
    # Not of what is stored: a job that was registered before these were known stays what it is.
    for why in (
        heap.why_impossible(spec.conf),
        master.why_unsupported(spec.master),
        host_tools.why_refused(spec.env),
        _why_malformed(spec.conf),
        executors.why_impossible(spec.conf) if spec.holds_executors else None,
    ):
        if why is not None:
            raise InvalidInput(f"{source}: {why}")
    for given in named_files(spec):
        if given.startswith(STORE_SCHEME):
            raise InvalidInput(
                f"{source}: {given[:80]!r} begins with store:, which only the supervisor writes",
                "give a file",
            )
    return spec


def _why_malformed(conf: Mapping[str, str]) -> str | None:
    """Returns which value of ``conf`` has a reference to a file that is not the whole value, or None. Other texts with a
    dollar sign are for Spark."""
    for name, value in conf.items():
        if "${file:" in value and reference_in_conf(value, {}) is None:
            return (
                f"conf {name} is malformed: ${{file:/path}}, with an absolute path, must be the whole value"
            )
    return None


def canonical_json(spec: JobSpec) -> bytes:
    """Returns the keys, sorted, without spaces, in UTF-8: equal specs have equal bytes. Keys that came later are there where
    they say something (``Since``). ``from_canonical`` reads it back.
    """
    body = {**spoken(spec, spec.model_dump(mode="json", by_alias=True)), "v": SPEC_VERSION}
    return json.dumps(
        body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def without_defaults(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what in a stored spec differs from the defaults of this version, for display, in the order of
    REFERENCE.
    """
    plain = JobSpec(name="any", application="any.py", unbounded=False).model_dump(mode="json", by_alias=True)
    plain |= {"name": None, "application": None, "unbounded": True, "v": SPEC_VERSION}
    order = [*(key for key in plain if key in document), *(key for key in document if key not in plain)]
    return _beyond({key: document[key] for key in order}, plain)


def _beyond(configured: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in configured.items():
        usual = plain.get(key)
        if isinstance(value, Mapping) and isinstance(usual, Mapping):
            value = _beyond(value, usual)
            if not value:
                continue
        if value != usual:
            found[key] = value
    return found


def from_canonical(data: bytes, source: str) -> JobSpec:
    """Returns the spec that ``canonical_json`` wrote. ``source`` is the blob's key. Raises ``Corrupt`` and
    nothing else.
    """
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise Corrupt(f"{source} is not JSON", "submit the job again") from None
    if (
        not isinstance(body, dict)
        or type(version := body.pop("v", None)) is not int
        or version != SPEC_VERSION
    ):
        raise Corrupt(
            f"{source} is no spec of version {SPEC_VERSION}; another version of the software wrote it"
        )
    try:
        return validated(JobSpec, body, source)
    except InvalidInput as error:
        raise Corrupt(str(error)) from None


def spec_sha256(spec: JobSpec) -> str:
    """Returns the sha256 in hex of the canonical JSON: the identity of a revision."""
    return hashlib.sha256(canonical_json(spec)).hexdigest()


def named_files(spec: JobSpec) -> tuple[str, ...]:
    """Returns the files that the spec names, as written there."""
    archive = () if spec.python.archive is None else (spec.python.archive,)
    return (spec.application, *spec.py_files, *spec.jars, *archive, *spec.files)


def with_files(body: Mapping[str, Any], changed: Callable[[str], str]) -> dict[str, Any]:
    """Returns ``body``, which says what a spec says, with each file that it names as ``changed`` returns it. A value that is
    no text is left as it is: ``body`` need not be checked yet."""

    def of(given: Any) -> Any:
        if isinstance(given, list):
            return [of(each) for each in given]
        return changed(given) if isinstance(given, str) else given

    found = {key: of(value) if key in _NAMES_FILES else value for key, value in body.items()}
    python = found.get("python")
    if isinstance(python, dict) and "archive" in python:
        found["python"] = {**python, "archive": of(python["archive"])}
    return found


def local_paths(spec: JobSpec) -> tuple[str, ...]:
    """Returns the files to be uploaded, as written in the spec, each once, the application first."""
    return tuple(dict.fromkeys(given for given in named_files(spec) if is_local_path(given)))


def in_place_files(spec: JobSpec) -> tuple[tuple[str, str], ...]:
    """Returns the files that are used where they are, each after the key of the spec that names it."""
    named = (("application", spec.application), *(("py_files", each) for each in spec.py_files))
    archive = () if spec.python.archive is None else (("python.archive", spec.python.archive),)
    others = ((key, each) for key, of_key in (("jars", spec.jars), ("files", spec.files)) for each in of_key)
    every = (*named, *others, *archive)
    return tuple(
        (key, each) for key, each in every if not is_local_path(each) and not each.startswith(STORE_SCHEME)
    )


def store_key(given: str) -> str | None:
    """Returns the key in ``store:<key>``, or None for a file that is used in place."""
    return given.removeprefix(STORE_SCHEME) if given.startswith(STORE_SCHEME) else None


def with_uploaded(spec: JobSpec, keys: Mapping[str, str]) -> JobSpec:
    """Returns ``spec`` with every local path replaced by ``store:<key>``. ``keys`` maps each path as written
    to its store key, for all of them.
    """
    missing = [path for path in local_paths(spec) if path not in keys]
    if missing:
        raise ValueError(f"no store key for {missing[0]}")

    def put(given: str) -> str:
        return f"{STORE_SCHEME}{keys[given]}" if is_local_path(given) else given

    return spec.model_copy(
        update={
            "application": put(spec.application),
            "py_files": tuple(map(put, spec.py_files)),
            "jars": tuple(map(put, spec.jars)),
            "files": tuple(map(put, spec.files)),
            "python": spec.python.model_copy(
                update={"archive": None if spec.python.archive is None else put(spec.python.archive)}
            ),
        }
    )


def memory_warnings(spec: JobSpec) -> tuple[Complaint, ...]:
    """Returns a complaint if the memory that is declared for the driver can't hold it."""
    why = heap.why_short(spec.conf, spec.resources.memory_bytes, python=spec.is_python)
    return () if why is None else (why,)


def secret_warnings(spec: JobSpec) -> tuple[str, ...]:
    """Returns a warning for each value that looks like a secret and stands in the spec, where the store,
    ``show`` and every reader can see it.
    """
    suspects = [
        f"env {name}"
        for name, value in spec.env.items()
        if is_secret_name(name) and not value.startswith("${")
    ]
    suspects += [
        f"conf {name}" for name, value in spec.conf.items() if is_secret_name(name) and "${" not in value
    ]
    return tuple(
        f"{what} looks like a secret, and everybody can read a spec; use ${{env:NAME}} or ${{file:/path}} as its value"
        for what in suspects
    )


def _with_defaults(body: Mapping[str, Any], defaults: Defaults) -> dict[str, Any]:
    merged = dict(body)
    for key, value in defaults.model_dump(by_alias=True).items():
        if key not in body:
            merged[key] = value
        elif isinstance(value, dict) and isinstance(body[key], dict):
            merged[key] = {**value, **body[key]}
    return merged
