"""Makes everything that must be there before an attempt is claimed: files are fetched, properties written,
and ``Launch`` is built.

The launcher calls it for each assignment, before the shim is started; nothing of it touches ZooKeeper.
``Refused`` is recorded and ends the attempt. ``Unreachable`` and ``AccessDenied`` (the store, a full disk)
are not refusals: the assignment is left as it is and tried again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from supervisor.clients import run_dir
from supervisor.clients.access import READ, grant
from supervisor.clients.channel import DRIVERS_OWN, READABLE, let_pass, let_read
from supervisor.clients.environment_archive import PYTHON
from supervisor.errors import Unreachable
from supervisor.model.application_tag import naming_properties
from supervisor.model.launch import AWAITS_CONTEXT, NO_ATTEMPT, NOT_HELD, ORDERS, PREPARE_LEVEL, Launch
from supervisor.model.master import ClusterKind, kind_of
from supervisor.model.records import PrepareLevel, clip
from supervisor.model.secret import reference_in_conf, secret_reference
from supervisor.spark.application_directories import TMPDIR, with_directories
from supervisor.spark.arguments import (
    Files,
    brings_s3a,
    build_argv,
    build_properties,
    conf_of,
    executor_python,
    session_arguments,
)
from supervisor.spark.attempt_place import (
    make_directories,
    unusable,
)
from supervisor.spark.class_archive.assign import archive_of_driver
from supervisor.spark.class_archive.choice import ClassArchive
from supervisor.spark.driver_start import DriverStart
from supervisor.spark.environment import build_environment
from supervisor.spark.fetched_files import FetchStored, fetch_files, stays
from supervisor.spark.host_jars import fence_of, gate_of, gate_properties
from supervisor.spark.placed_files import place_files
from supervisor.spark.properties import render_properties
from supervisor.spark.python_environments import environment_of
from supervisor.spark.secrets import Secrets
from supervisor.spark.toolchain import Toolchain, find_toolchain, python_path_of
from supervisor.spec.job import JobSpec

NOT_FENCED_MAX_BYTES: Final = 240
CLASS_ARCHIVE_MAX_BYTES: Final = 160
NOT_LIMITED_MAX_BYTES: Final = 200
ON_CLUSTER_MAX_BYTES: Final = 120
"""The text of a property is of any length, and a lease record is not."""


def make_launch(start: DriverStart, fetch_stored: FetchStored) -> Launch:
    """Makes what a driver is started with, and returns its launch. It may be called again for the same attempt: to hand an
    attempt to a prepared driver, what is made now is compared with what that one was brought up with. Raises ``Refused``,
    ``Unreachable``, ``AccessDenied``."""
    spec, assignment, place = start.spec, start.assignment, start.place
    toolchain = find_toolchain(
        start.settings.spark,
        version=spec.spark,
        job_env=spec.env,
        environ=place.environ,
        interpreter=spec.python.interpreter,
    )
    cwd = make_directories(place, start.about)
    files = fetch_files(start, fetch_stored)
    place_files(cwd, files.by_name(), may_change=place.is_alone or assignment.attempt != NO_ATTEMPT)
    toolchain = _with_environment(start, toolchain, files)
    gate = gate_of(start, toolchain)
    env = _environment(start, toolchain) | _as_prepared(start.level, gate.why)
    argv = build_argv(spec, files, toolchain, start.properties_file)
    fence = fence_of(start, toolchain)
    archive = _class_archive(start, toolchain, env)
    # what is decided above is decided without secrets, and said in records and logs
    resolved = _with_secrets(start)
    properties = build_properties(
        resolved, files, toolchain, start.store, assignment.driver_memory, fence, archive
    )
    properties |= gate_properties(properties, gate, start.opening)
    properties |= _naming(start, properties)
    properties = with_directories(properties, env, place.scratch, cwd)
    _write_private(start.properties_file, render_properties(properties))
    _let_user_read(start, (fence.jar, gate.jar), archive.file)
    secrets = _resolved(spec, env, resolved.conf)
    names = tuple(files.by_name())
    return _launch_of(start, _Driver(argv, env, str(cwd), fence.why, archive.said, names, secrets))


def _class_archive(start: DriverStart, toolchain: Toolchain, env: Mapping[str, str]) -> ClassArchive:
    conf = conf_of(start.spec, toolchain)
    return archive_of_driver(
        conf,
        env,
        start.settings,
        toolchain,
        brings_s3a=bool(toolchain.s3a_jars) and brings_s3a(start.spec, conf),
        driver_memory=start.assignment.driver_memory,
    )


def _naming(start: DriverStart, properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties by which the cluster, if there is one, knows whose driver it serves."""
    kind, given = kind_of(start.spec.master), start.assignment
    return naming_properties(kind, start.place.registry, given.uid, given.attempt, properties)


def _with_secrets(start: DriverStart) -> JobSpec:
    """Returns the spec with the secrets that its ``conf`` refers to. Raises ``Refused``."""
    spec, settings = start.spec, start.settings
    secrets = Secrets(
        start.place.environ, settings.policy.secrets, spec.name, settings.supervisor.runtime_dir
    )
    conf = {name: secrets.of_conf(name, value, spec.env) for name, value in spec.conf.items()}
    return spec.model_copy(update={"conf": conf})


def _resolved(spec: JobSpec, env: Mapping[str, str], conf: Mapping[str, str]) -> tuple[str, ...]:
    """Returns what the references of ``spec`` are in ``env`` and ``conf``, which the driver gets."""
    of_env = (env.get(name, "") for name, value in spec.env.items() if secret_reference(value) is not None)
    of_conf = (
        conf[name]
        for name, value in spec.conf.items()
        if reference_in_conf(value, spec.env) is not None and conf[name] != value
    )
    return tuple(sorted({each for each in (*of_env, *of_conf) if each}))


def _with_environment(start: DriverStart, toolchain: Toolchain, files: Files) -> Toolchain:
    """Returns the toolchain with the Python of the archive that the job brings, if it brings one. Raises Refused,
    Unreachable."""
    if not files.environment:
        return toolchain
    reader = start.user if stays(start.spec.python.archive or "", start.spec) else None
    unpacked = environment_of(
        Path(files.environment), start.settings, start.place.work_dir, start.user, reader
    )
    return replace(
        toolchain,
        python=unpacked / PYTHON,
        python_path=python_path_of(toolchain.home),
        executor_python=executor_python(start.spec),
    )


class _Driver(NamedTuple):
    """What is executed, and what was found out about it: why it has no fence, which class archive, which files, which
    secrets it was given."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    not_fenced: str
    class_archive: str
    files: tuple[str, ...]
    secrets: tuple[str, ...]


def _launch_of(start: DriverStart, driver: _Driver) -> Launch:
    spec, settings, place = start.spec, start.settings, start.place
    return Launch(
        cluster=settings.cluster,
        hosts=settings.zookeeper.hosts,
        root=settings.zookeeper.root,
        session_timeout_s=settings.zookeeper.session_timeout_s,
        supervisor=settings.supervisor.id,
        host=place.host,
        assignment=start.assignment,
        lease_s=spec.lease_s,
        stop_grace_s=spec.stop_grace_s,
        start_timeout_s=spec.health.start_timeout_s,
        stall_timeout_s=spec.health.stall_timeout_s,
        unbounded=spec.unbounded,
        reports=spec.is_python,
        argv=driver.argv,
        env=driver.env,
        cwd=driver.cwd,
        files=driver.files,
        log_path=str(place.log_path),
        cgroup=place.cgroup,
        not_fenced=clip(driver.not_fenced, NOT_FENCED_MAX_BYTES),
        class_archive=clip(driver.class_archive, CLASS_ARCHIVE_MAX_BYTES),
        access=settings.zookeeper.access,
        user=place.user,
        channel=start.channel,
        limits=spec.limits(),
        log_uploads_kept=spec.logs.uploads_kept,
        log_upload_every_s=spec.logs.every_s or 0.0,
        not_limited=clip(place.not_limited, NOT_LIMITED_MAX_BYTES),
        executors_outlive_s=spec.executors_outlive_s(),
        on_cluster=clip(spec.cluster or spec.master, ON_CLUSTER_MAX_BYTES) if spec.holds_executors else "",
        cluster_timeout_s=(spec.health.cluster_timeout_s or 0.0) if spec.holds_executors else 0.0,
        master=spec.master,
        failed_query_ends=spec.health.failed_query == "restart",
        secrets=driver.secrets,
    )


def _environment(start: DriverStart, toolchain: Toolchain) -> dict[str, str]:
    user, place, spec = start.user, start.place, start.spec
    directory = start.channel_or_run_dir
    of_user: dict[str, str] = {}
    if user is not None:
        home = user.home or str(place.scratch)
        of_user = {"HOME": home, "USER": user.name, "LOGNAME": user.name}
    env = build_environment(
        spec,
        start.assignment,
        toolchain,
        place.environ,
        directory / run_dir.REPORT,
        start.settings.policy,
        own={TMPDIR: str(place.scratch), **of_user},
        of_other_user=user is not None,
        closed=start.settings.supervisor.runtime_dir,
    )
    if spec.launch == "session":
        env["PYSPARK_SUBMIT_ARGS"] = session_arguments(spec, start.properties_file)
    if kind_of(spec.master) is ClusterKind.YARN:
        env[AWAITS_CONTEXT] = "1"
    return env if user is None else env | {ORDERS: str(directory / DRIVERS_OWN / run_dir.ORDERS)}


def _as_prepared(level: PrepareLevel | None, not_held: str) -> dict[str, str]:
    """Returns the variables of a driver that is prepared as far as ``level``, or less far because of ``not_held``."""
    if level is None:
        return {}
    if not_held:
        return {PREPARE_LEVEL: PrepareLevel.SESSION.value, NOT_HELD: not_held}
    return {PREPARE_LEVEL: level.value}


def _let_user_read(start: DriverStart, jars: Iterable[Path | None], archive: Path | None) -> None:
    """Lets the driver's user read what it is started with. Everything else below the runtime directory stays closed: it
    can only pass there. Raises Unreachable."""
    if start.user is None:
        return
    files = start.files
    try:
        files.chmod(0o755)
        let_read(str(files))
        grant(str(start.properties_file), start.user.uid, READ)
        for jar in filter(None, jars):
            let_pass(str(jar.parent))
            jar.chmod(READABLE)
        if archive is not None:  # its mode is right: a change would be one of its identity
            let_pass(str(archive.parent))
    except OSError as error:
        raise unusable(Path(error.filename or files), error) from None


def _write_private(path: Path, text: str) -> None:
    """Writes a file whole or not at all, with mode 0600 from the start, for there may be keys in it."""
    temporary = path.with_name(f"{path.name}.new")
    try:
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        raise Unreachable(
            f"{path} cannot be written ({error.strerror})", "make room or repair the directory"
        ) from None
