"""Makes everything that must be there before an attempt is claimed: files are fetched, properties written,
and ``Launch`` is built.

The agent calls it for each assignment, before the shim is started; nothing of it touches ZooKeeper.
``Refused`` is recorded and ends the attempt. ``Unreachable`` and ``AccessDenied`` (the store, a full disk)
are not refusals: the assignment is left as it is and tried again. It may be called again for the same
attempt.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from supervisor.clients import run_dir
from supervisor.clients.access import READ, grant
from supervisor.clients.channel import CHANNEL, DRIVERS_OWN, READABLE, let_pass, let_read
from supervisor.clients.environment_archive import PYTHON
from supervisor.clients.opened_as import open_as
from supervisor.clients.store.local import pieces_of, write_chunks
from supervisor.clients.store.open import open_store
from supervisor.errors import Corrupt, InvalidInput, NotFound, Unreachable
from supervisor.model.application_tag import naming_properties
from supervisor.model.driver_user import DriverUser
from supervisor.model.launch import AWAITS_CONTEXT, NO_ATTEMPT, NOT_HELD, ORDERS, PREPARE_LEVEL, Launch
from supervisor.model.master import ClusterKind, kind_of
from supervisor.model.records import Assignment, Cause, PrepareLevel, clip
from supervisor.settings.file import Settings
from supervisor.spark.application_directories import TMPDIR, with_directories
from supervisor.spark.arguments import (
    BOOTSTRAP,
    Files,
    brings_s3a,
    build_argv,
    build_properties,
    conf_of,
    executor_python,
    session_arguments,
)
from supervisor.spark.attempt_place import (
    AttemptPlace,
    JobAbout,
    make_directories,
    make_directory,
    unusable,
)
from supervisor.spark.class_archive.assign import archive_of_driver
from supervisor.spark.class_archive.choice import OPTIONS_KEY
from supervisor.spark.environment import build_environment, passes
from supervisor.spark.fence.build import FENCE, Built, JavaSources, host_jar
from supervisor.spark.fence.choice import Fence, owner_of, why_not, why_not_this_spark
from supervisor.spark.gate.agent import SOURCES as GATE_SOURCES
from supervisor.spark.gate.agent import with_agent
from supervisor.spark.placed_files import gather, place_files
from supervisor.spark.properties import render_properties
from supervisor.spark.python_environments import environment_of
from supervisor.spark.refusal import Refused
from supervisor.spark.secrets import Secrets
from supervisor.spark.toolchain import Toolchain, find_toolchain, java_of, python_path_of
from supervisor.spec.job import JobSpec, named_files, store_key
from supervisor.spec.s3a import S3Access, access_of, access_of_store, asked, bucket_of, for_store

LOCAL: Final = "local:"
PROPERTIES: Final = "spark.properties"
TOGETHER: Final = "application"
"""The directory below ``files`` in which a Python application lies beside the files of its spec."""
NOT_FENCED_MAX_BYTES: Final = 240
CLASS_ARCHIVE_MAX_BYTES: Final = 160
NO_GATE: Final = Built(None)
NOT_LIMITED_MAX_BYTES: Final = 200
ON_CLUSTER_MAX_BYTES: Final = 120
"""The text of a property is of any length, and a lease record is not."""


def prepare(
    spec: JobSpec,
    assignment: Assignment,
    settings: Settings,
    attempt_place: AttemptPlace,
    fetch_stored: Callable[[str], Path],
    *,
    root: str | None = None,
    prepared: str = "",
    level: PrepareLevel = PrepareLevel.SESSION,
) -> Launch:
    """Prepares an attempt. ``fetch_stored`` takes a key of the store and returns a verified file on this host
    (``Blobs.fetch_artifact``).

    ``root`` is that of the cluster in ZooKeeper, if it is not ``zookeeper.root``. ``prepared`` is the key of a prepared
    driver, ``level`` how far it goes; they are given both times: to bring it up, when the assignment has
    ``NO_ATTEMPT``, and to hand an attempt to it, with the same ``attempt_place`` but for the log. Raises ``Refused``,
    ``Unreachable``, ``AccessDenied``.
    """
    toolchain = find_toolchain(
        settings.spark,
        version=spec.spark,
        job_env=spec.env,
        environ=attempt_place.environ,
        interpreter=spec.python.interpreter,
    )
    store = access_of_store(settings.store, settings.policy.endpoints)
    properties_file = attempt_place.work_dir / PROPERTIES
    cwd = make_directories(attempt_place, _about(spec, assignment, attempt_place))
    files = _fetch_all(spec, attempt_place, fetch_stored, store)
    place_files(cwd, files.by_name(), may_change=attempt_place.is_alone or assignment.attempt != NO_ATTEMPT)
    toolchain = _with_environment(toolchain, spec, files, settings, attempt_place)
    env = _environment(spec, assignment, settings, attempt_place, toolchain)
    gate = _query_gate(settings, attempt_place, toolchain, level) if prepared else NO_GATE
    env |= _as_prepared(level, gate.why) if prepared else {}
    argv = build_argv(spec, files, toolchain, properties_file)
    fence = _fence(spec, assignment, settings, attempt_place, toolchain)
    conf = conf_of(spec, toolchain)
    archive = archive_of_driver(
        conf,
        env,
        settings,
        toolchain,
        brings_s3a=bool(toolchain.s3a_jars) and brings_s3a(spec, conf),
        driver_memory=assignment.driver_memory,
    )
    # what is decided above is decided without secrets, and said in records and logs
    known = _with_secrets(spec, settings, attempt_place)
    properties = build_properties(known, files, toolchain, store, assignment.driver_memory, fence, archive)
    properties |= _with_gate(properties, gate, attempt_place)
    properties |= _naming(spec, assignment, attempt_place, properties)
    properties = with_directories(properties, env, attempt_place.scratch, cwd)
    _write_private(properties_file, render_properties(properties))
    _let_user_read(attempt_place, (fence.jar, gate.jar), archive.file)
    driver = _DriverParts(argv, env, str(cwd), fence, archive.said, prepared, tuple(files.by_name()))
    return _launch_of(spec, assignment, settings, attempt_place, root or settings.zookeeper.root, driver)


def _about(spec: JobSpec, assignment: Assignment, attempt_place: AttemptPlace) -> JobAbout:
    deletes = spec.checkpoint_on_cancel == "delete"
    return JobAbout(spec.name, assignment.uid, attempt_place.registry, deletes)


def _naming(
    spec: JobSpec, assignment: Assignment, attempt_place: AttemptPlace, properties: Mapping[str, str]
) -> dict[str, str]:
    """Returns the properties by which the cluster, if there is one, knows whose driver it serves."""
    uid, attempt = assignment.uid, assignment.attempt
    return naming_properties(kind_of(spec.master), attempt_place.registry, uid, attempt, properties)


def _with_secrets(spec: JobSpec, settings: Settings, attempt_place: AttemptPlace) -> JobSpec:
    """Returns ``spec`` with the secrets that its ``conf`` refers to. Raises ``Refused``."""
    closed = settings.supervisor.runtime_dir
    secrets = Secrets(attempt_place.environ, settings.policy.secrets, spec.name, closed)
    conf = {name: secrets.of_conf(name, value, spec.env) for name, value in spec.conf.items()}
    return spec.model_copy(update={"conf": conf})


def _with_environment(
    toolchain: Toolchain, spec: JobSpec, files: Files, settings: Settings, attempt_place: AttemptPlace
) -> Toolchain:
    """Returns the toolchain with the Python of the archive that the job brings, if it brings one. Raises Refused,
    Unreachable."""
    if not files.environment:
        return toolchain
    archive, user = spec.python.archive or "", attempt_place.user
    reader = user if _stays(archive, spec) else None
    unpacked = environment_of(Path(files.environment), settings, attempt_place.work_dir, user, reader)
    return replace(
        toolchain,
        python=unpacked / PYTHON,
        python_path=python_path_of(toolchain.home),
        executor_python=executor_python(spec),
    )


class _DriverParts(NamedTuple):
    """Holds what is executed, and what was found out about it."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    fence: Fence
    archive: str
    prepared: str
    files: tuple[str, ...]


def _launch_of(
    spec: JobSpec,
    assignment: Assignment,
    settings: Settings,
    attempt_place: AttemptPlace,
    root: str,
    driver: _DriverParts,
) -> Launch:
    return Launch(
        cluster=settings.cluster,
        hosts=settings.zookeeper.hosts,
        root=root,
        session_timeout_s=settings.zookeeper.session_timeout_s,
        supervisor=settings.supervisor.id,
        host=attempt_place.host,
        assignment=assignment,
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
        log_path=str(attempt_place.log_path),
        cgroup=attempt_place.cgroup,
        not_fenced=clip(driver.fence.why, NOT_FENCED_MAX_BYTES),
        prepared=driver.prepared,
        hadoop_conf=driver.fence.hadoop_conf if driver.prepared else {},
        class_archive=clip(driver.archive, CLASS_ARCHIVE_MAX_BYTES),
        access=settings.zookeeper.access,
        user=attempt_place.user,
        channel=_channel(attempt_place),
        limits=spec.limits(),
        log_uploads_kept=spec.logs.uploads_kept,
        log_upload_every_s=spec.logs.every_s or 0.0,
        not_limited=clip(attempt_place.not_limited, NOT_LIMITED_MAX_BYTES),
        executors_outlive_s=spec.executors_outlive_s(),
        on_cluster=clip(spec.cluster or spec.master, ON_CLUSTER_MAX_BYTES) if spec.holds_executors else "",
        cluster_timeout_s=(spec.health.cluster_timeout_s or 0.0) if spec.holds_executors else 0.0,
        master=spec.master,
        failed_query_ends=spec.health.failed_query == "restart",
    )


def _environment(
    spec: JobSpec,
    assignment: Assignment,
    settings: Settings,
    attempt_place: AttemptPlace,
    toolchain: Toolchain,
) -> dict[str, str]:
    user, closed = attempt_place.user, settings.supervisor.runtime_dir
    environ, directory = attempt_place.environ, Path(_channel(attempt_place) or attempt_place.run_dir)
    report = directory / run_dir.REPORT
    of_user: dict[str, str] = {}
    if user is not None:
        home = user.home or str(attempt_place.scratch)
        of_user = {"HOME": home, "USER": user.name, "LOGNAME": user.name}
    own = {TMPDIR: str(attempt_place.scratch), **of_user}
    env = build_environment(
        spec,
        assignment,
        toolchain,
        environ,
        report,
        settings.policy,
        own=own,
        of_other_user=user is not None,
        closed=closed,
    )
    if spec.launch == "session":
        env["PYSPARK_SUBMIT_ARGS"] = session_arguments(spec, attempt_place.work_dir / PROPERTIES)
    if kind_of(spec.master) is ClusterKind.YARN:
        env[AWAITS_CONTEXT] = "1"
    return env if user is None else env | {ORDERS: str(directory / DRIVERS_OWN / run_dir.ORDERS)}


def _channel(attempt_place: AttemptPlace) -> str:
    """Returns the directory by which supervisor and driver talk if that is not the run directory, else nothing."""
    return str(attempt_place.work_dir / CHANNEL) if attempt_place.user is not None else ""


def _let_user_read(attempt_place: AttemptPlace, jars: Iterable[Path | None], archive: Path | None) -> None:
    """Lets the driver's user read what it is started with. Everything else below the runtime directory stays closed: it
    can only pass there. Raises Unreachable."""
    user = attempt_place.user
    if user is None:
        return
    files = attempt_place.work_dir / "files"
    try:
        files.chmod(0o755)
        let_read(str(files))
        grant(str(attempt_place.work_dir / PROPERTIES), user.uid, READ)
        for jar in filter(None, jars):
            let_pass(str(jar.parent))
            jar.chmod(READABLE)
        if archive is not None:  # its mode is right: a change would be one of its identity
            let_pass(str(archive.parent))
    except OSError as error:
        raise unusable(Path(error.filename or files), error) from None


def _fence(
    spec: JobSpec,
    assignment: Assignment,
    settings: Settings,
    attempt_place: AttemptPlace,
    toolchain: Toolchain,
) -> Fence:
    why = why_not(spec, conf_of(spec, toolchain), toolchain.version)
    if why is None or why:
        return Fence(why=why or "")
    built = _fence_jar(settings, toolchain, attempt_place.environ)
    return Fence(
        built.jar, owner_of(spec.name, assignment.uid, assignment.attempt, attempt_place.host), built.why
    )


def make_fence_ahead(
    settings: Settings, environ: Mapping[str, str], version: str | None = None
) -> Built | None:
    """Makes the jar of the fence that jobs of the Spark ``version`` will get; None stands for the default. A failure is
    forgotten: the first start tries again.

    It returns None if this host has no use for it (no Spark, one that is too old, nothing on S3).
    """
    try:
        toolchain = find_toolchain(settings.spark, version=version, job_env={}, environ=environ)
    except (Refused, Unreachable):
        return None
    if why_not_this_spark(toolchain.version) or not (bucket_of(settings.store.url) or toolchain.s3a_jars):
        return None
    return _fence_jar(settings, toolchain, environ, remember=False)


def _as_prepared(level: PrepareLevel, not_held: str) -> dict[str, str]:
    """Returns the variables of a driver that is prepared as far as ``level``, or less far because of ``not_held``."""
    return (
        {PREPARE_LEVEL: PrepareLevel.SESSION.value, NOT_HELD: not_held}
        if not_held
        else {PREPARE_LEVEL: level.value}
    )


def _query_gate(
    settings: Settings, attempt_place: AttemptPlace, toolchain: Toolchain, level: PrepareLevel
) -> Built:
    """Returns the gate of queries, without which no application may run up to its first query."""
    if level is not PrepareLevel.APPLICATION:
        return NO_GATE
    built = _fence_jar(settings, toolchain, attempt_place.environ, of=GATE_SOURCES)
    try:
        with_agent("", built.jar or Path(), _opening(attempt_place))
    except ValueError as error:
        return Built(None, str(error))
    return built


def _with_gate(properties: Mapping[str, str], gate: Built, attempt_place: AttemptPlace) -> dict[str, str]:
    """Returns the property of the driver's JVM that has the gate, if it gets one."""
    if gate.jar is None:
        return {}
    return {OPTIONS_KEY: with_agent(properties.get(OPTIONS_KEY, ""), gate.jar, _opening(attempt_place))}


def _opening(attempt_place: AttemptPlace) -> Path:
    """Returns the file by whose appearance the application of a prepared driver may begin."""
    return Path(_channel(attempt_place) or attempt_place.run_dir) / run_dir.OPENING


def _fence_jar(
    settings: Settings,
    toolchain: Toolchain,
    environ: Mapping[str, str],
    *,
    remember: bool = True,
    of: JavaSources = FENCE,
) -> Built:
    """Makes the jar by the host's own Spark and Java, in the supervisor's own environment: nothing of a job
    is executed here."""
    return host_jar(
        toolchain.home,
        java_of(toolchain.java_home, environ),
        toolchain.version or "",
        settings.supervisor.runtime_dir / "fence",
        {name: value for name, value in environ.items() if passes(name)},
        remember=remember,
        of=of,
    )


def _fetch_all(
    spec: JobSpec, attempt_place: AttemptPlace, fetch_stored: Callable[[str], Path], store: S3Access
) -> Files:
    def path_of(named: str, *, kept: bool = False) -> str:
        place = attempt_place
        return str(_path_of(named, spec, place.work_dir, fetch_stored, store, place.user, kept=kept))

    found = Files(
        path_of(spec.application),
        tuple(path_of(file) for file in spec.py_files),
        # A jar that every host has keeps its local:, so that Spark does not copy it to the executors.
        tuple(f"{LOCAL if _stays(jar, spec) else ''}{path_of(jar)}" for jar in spec.jars),
        path_of(spec.python.archive) if spec.python.archive is not None else "",
        tuple(path_of(file, kept=True) for file in spec.files),
    )
    if not found.files or not spec.is_python or _stays(spec.application, spec):
        return found
    together = attempt_place.work_dir / "files" / TOGETHER
    make_directory(together)
    application = gather(Path(found.application), found.by_name(), together)
    return replace(found, application=str(application))


def _stays(named: str, spec: JobSpec) -> bool:
    """Says whether the file is used where it lies. One that is pinned is copied, so that it is what was verified."""
    return named.startswith(LOCAL) and named not in spec.sha256


def _path_of(
    named: str,
    spec: JobSpec,
    work_dir: Path,
    fetch_stored: Callable[[str], Path],
    store: S3Access,
    user: DriverUser | None = None,
    *,
    kept: bool = False,
) -> Path:
    """Returns the file on this host. What lies on it already is opened as ``user``: by the supervisor's own rights, a job
    would be given whatever somebody makes that path lead to. What is to be ``kept`` is copied from there, for it is to be
    read later."""
    try:
        path = _fetch(named, spec, work_dir, fetch_stored, store)
    except (NotFound, Corrupt, InvalidInput) as error:
        raise Refused(Cause.BAD_ARTIFACT, str(error)) from error
    try:
        file = open_as(str(path), user if named.startswith(LOCAL) else None)
    except InvalidInput as error:
        raise Refused(Cause.BAD_ARTIFACT, f"{named}: {error}", "put it there") from error
    with file:
        pinned = spec.sha256.get(named)
        is_copied = pinned is not None or (kept and named.startswith(LOCAL))
        if not is_copied:
            return path
        return _copied(named, path, file, pinned, _kept_at(named, path.name, work_dir))


def _copied(named: str, path: Path, file: io.BufferedReader, sha256: str | None, kept: Path) -> Path:
    """Returns a copy of the file at ``path``, which nobody else can change, if it is what the spec says. What is found is
    said to nobody: it would tell of a file that its reader may not see. Raises ``Refused``, ``Unreachable``."""
    if path != kept:
        make_directory(kept.parent)
        try:
            with kept.open("wb") as copy:
                descriptor = file.fileno()
                found = write_chunks(copy, pieces_of(descriptor, os.fstat(descriptor).st_size))
        except OSError as error:
            raise Unreachable(f"{named} cannot be copied to {kept} ({error.strerror})", "make room") from None
    else:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 is not None and found != sha256:
        kept.unlink()
        why = f"sha256: {named} is another file on this host than the one whose SHA-256 its spec says"
        raise Refused(Cause.BAD_ARTIFACT, why, "put the right file there, or correct sha256")
    return kept


def _kept_at(named: str, filename: str, work_dir: Path) -> Path:
    """Returns where a file that is used in place is kept for one attempt."""
    return work_dir / "files" / hashlib.sha256(named.encode()).hexdigest()[:16] / filename


def fetch_code(
    spec: JobSpec,
    directory: Path,
    fetch_stored: Callable[[str], Path],
    store: S3Access,
) -> tuple[str, ...]:
    """Returns the jars of ``spec`` on this host, its application among them if that is a jar. The errors are
    those of ``prepare``."""
    named = (*(() if spec.is_python else (spec.application,)), *spec.jars)
    return tuple(str(_path_of(each, spec, directory, fetch_stored, store)) for each in named)


def files_of(spec: JobSpec, work_dir: Path, spark_home: str) -> dict[str, str]:
    """Returns what tells whether the files of a prepared driver are still the same: by path, size, time of change and
    inode of those that are used in place (the bootstrap and the core jar of Spark among them), and the SHA-256 of those that
    were fetched into ``work_dir``. Files of the store are named by their content."""
    in_place = [BOOTSTRAP]
    in_place += [
        Path("/" + each.removeprefix(LOCAL).lstrip("/"))
        for each in named_files(spec)
        if store_key(each) is None and bucket_of(each) is None
    ]
    in_place += sorted(Path(os.path.realpath(spark_home)).glob("jars/spark-core_*.jar"))
    found = {str(path): _stamp(path) for path in in_place}
    fetched = work_dir / "files"
    for path in sorted(fetched.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                found[str(path.relative_to(fetched))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _stamp(path: Path) -> str:
    try:
        status = path.stat()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"


def _fetch(
    named: str, spec: JobSpec, work_dir: Path, fetch_stored: Callable[[str], Path], store: S3Access
) -> Path:
    """Returns the file on this host for ``store:…``, ``local:…`` or ``s3://…`` (a file used in place is
    fetched anew at each start)."""
    key = store_key(named)
    if key is not None:
        return fetch_stored(key)
    bucket = bucket_of(named)
    if bucket is None:
        return Path("/" + named.removeprefix(LOCAL).lstrip("/"))
    access = access_of(spec.conf, bucket, store)
    _, _, path = for_store(named).removeprefix("s3://").partition("/")
    target = _kept_at(named, PurePosixPath(path).name, work_dir)
    make_directory(target.parent)
    open_store(f"s3://{bucket}", access.endpoint_url, access.region, asked=asked(access)).read_to(
        path, target
    )
    return target


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
