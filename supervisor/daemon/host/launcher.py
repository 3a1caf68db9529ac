"""Turns an assignment into a running shim: it gets spec and files from the store and makes ``Launch``, run
directory, process.

The agent calls it, in one of a few threads. It touches no record of ZooKeeper: a refusal is raised as
``Refused`` and recorded by the agent; ``Unreachable`` and ``AccessDenied`` mean that it may be tried again.
Starting the same assignment twice does nothing the second time; if a second shim is started all the same, its
claim fails.

A PySpark driver whose checkpoint on S3 is still being checked is started, and waits for the verdict
(``start_barrier``).

It also starts the shims of prepared drivers (``bring_up``). An assignment that may use one is handed to a prepared driver of
the same job and revision, if what would be started now is still the same (``handover``); else the start is a cold one.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from supervisor.clients import run_dir, umask
from supervisor.clients.access import ENTER, READ, grant
from supervisor.clients.channel import let_pass, let_read
from supervisor.clients.signatures import Signers
from supervisor.clients.spawn import spawn_shim
from supervisor.clock import boottime_s
from supervisor.daemon.host.admission import admitted, as_started, require_signed
from supervisor.daemon.host.attempt_reporter import report
from supervisor.daemon.host.driver_users import DriverUsers
from supervisor.daemon.host.handover import MadeLaunch, difference, launch_of_opening
from supervisor.daemon.host.hosted_attempts import HostedAttempts, HostedState
from supervisor.daemon.host.preflight import KnownCheckpoint, PreflightCheck, check_of
from supervisor.daemon.host.prepared import HostCapacity, HostLoad, no_assignment_yet
from supervisor.daemon.host.prepared_drivers import PreparedDrivers, as_extra, files_of
from supervisor.daemon.host.start_barrier import StartBarrier
from supervisor.errors import Corrupt, NotFound, SupervisorError, Unreachable
from supervisor.metrics import Metrics
from supervisor.model.driver_user import DriverUser
from supervisor.model.host_tools import why_ignored
from supervisor.model.launch import NOT_HELD, PREPARED, Launch, with_remembered
from supervisor.model.phrases import all_its
from supervisor.model.records import Assignment, Cause, Preparation
from supervisor.records.codec import encode
from supervisor.records.layout import PREPARED_MARK, about_key
from supervisor.registry.blobs import Blobs, artifact_key
from supervisor.settings.file import Settings
from supervisor.spark.attempt_place import AttemptPlace
from supervisor.spark.driver_launch import make_launch
from supervisor.spark.driver_start import DriverStart
from supervisor.spark.fetched_files import files_of as files_now
from supervisor.spark.refusal import Refused
from supervisor.spec.job import JobSpec, from_canonical
from supervisor.spec.s3a import S3Access, access_of_store
from supervisor.spec.site_policy import site_policy

log = structlog.get_logger(__name__)

TRUST_CHECK_LASTS_S = 2.0
"""A shim has 10 s from the trust check to its connection (``shim.claim``), and has to be started within
them."""


ROOM_PATIENCE_S, ROOM_POLL_S = 1.0, 0.02


class TrustCheck(NamedTuple):
    """Holds when the agent last checked whether the registry is to be trusted, and how to check again
    (``agent._trusted_at``).

    ``known`` is what the registry knows of the job's checkpoint.
    """

    trust_checked_at_s: float
    again: Callable[[], float | None]
    known: KnownCheckpoint = KnownCheckpoint()

    def lately(self) -> float | None:
        """Returns the BOOTTIME before the newest trust check, which is made anew when it is too old, or None
        if there is no trust. Raises Unreachable."""
        return (
            self.trust_checked_at_s
            if boottime_s() - self.trust_checked_at_s < TRUST_CHECK_LASTS_S
            else self.again()
        )


class Launcher:
    """Starts attempts. ``cgroup_parent`` is the directory where attempts get a cgroup of their own, or None
    where there is no usable cgroup v2. ``why_not_limited`` says why limits that need these controllers are not
    enforced there, or nothing if they are. ``registry`` is the id of the registry, for tags
    on clusters; ``on_start`` is told the cluster of each attempt that is about to start (``cluster_leftovers``).
    ``users`` and ``signers`` are what the policy says of them, as it was read at
    the start."""

    def __init__(
        self,
        settings: Settings,
        host: str,
        blobs: Callable[[], Blobs],
        hosted: HostedAttempts,
        cgroup_parent: str | None,
        metrics: Metrics,
        prepared: PreparedDrivers | None = None,
        why_not_limited: Callable[[tuple[str, ...]], str] = lambda _controllers: "",
        registry: str = "",
        on_start: Callable[[str, Assignment], None] = lambda _cluster, _given: None,
    ) -> None:
        self._registry = registry
        self._on_start = on_start
        self.users = DriverUsers(site_policy(settings.policy), has_cgroup=cgroup_parent is not None)
        self._why_not_limited = why_not_limited
        self._settings = settings
        self.signers = Signers(settings.policy.submit_signers)
        self._host = host
        self._blobs = blobs
        self._hosted = hosted
        self._cgroup_parent = cgroup_parent
        self._metrics = metrics
        self._room_lock = threading.Lock()
        self._taking: dict[str, Assignment] = {}
        self._barrier = StartBarrier(host, hosted.attempts_dir, metrics)
        capacity = settings.supervisor.capacity
        self._prepared = prepared or PreparedDrivers(
            hosted, HostCapacity(host, capacity.drivers, capacity.memory_bytes)
        )

    def start(self, given: Assignment, trust_check: TrustCheck, ended_before: str | None = None) -> None:
        """Starts the shim of ``given``, unless ``trust_check`` shows doubt. ``ended_before`` is the cause of
        the previous exit.

        Raises Refused, Unreachable, AccessDenied.
        """
        begun_at_s = boottime_s()
        key = f"{given.uid}.{given.attempt}"
        with self._room(key, given):
            spec = self._admitted(given)
            self._on_start(spec.cluster or "", given)
            check = self._check(given, trust_check.known, lambda: spec)
            try:
                cold = self._launch(given, key, spec)
                fit = self._fit_for(given, key, cold, spec)
            except Exception:
                check.wait()  # or there were one more at each try
                raise
            held = self._barrier.may_hold(cold, check)
            if not held:
                self._barrier.wait_for_answer(given, check)
            trust_checked_at_s = trust_check.lately()  # files may have taken long to come
            if trust_checked_at_s is None:
                return
            launch = replace(
                with_remembered(cold, trust_check.known.remembered),
                begun_s=begun_at_s,
                looked_s=trust_checked_at_s,
            )
            if self._handed_over(key, launch, fit, check if held else None):
                shim = None
            else:
                shim = self._started(key, launch) if not held else self._started_held(key, launch, check)
                if shim is None:
                    return
        self._hosted.fresh.set()
        if ended_before is not None:
            self._metrics.job_restarted(given.name, ended_before)
        if shim is None:
            return
        log.info(
            "shim_started",
            job=given.name,
            uid=given.uid,
            attempt=given.attempt,
            shim_pid=shim,
            containment="cgroup" if launch.cgroup else "scan",
            log=launch.log_path,
        )

    def bring_up(self, request: Preparation) -> None:
        """Starts the shim of a prepared driver for ``request``. Whether there is room was decided by the caller.

        Raises Refused, Unreachable, AccessDenied.
        """
        key = f"{request.uid}.{PREPARED_MARK}{secrets.token_hex(4)}"
        given = no_assignment_yet(request)
        made: Launch | None = None
        self._prepared.starting(key)
        try:
            spec = self._admitted(given)
            if not spec.is_python:
                raise Refused(Cause.NOT_STARTED, "a JVM application has no barrier: it can't be prepared")
            launch = self._as_prepared(self._launch(given, key, spec, request), key, request, spec)
            directory = self._make_run_dir(key, launch)
            if directory is not None:
                pid = self._spawn(directory, launch)
                made = launch
        finally:
            self._prepared.started(key, made)
        if made is not None:
            log.info(
                "driver_being_prepared",
                job=request.name,
                **about_key(key),
                revision=request.revision,
                level=request.level.value,
                why=request.why,
                shim_pid=pid,
                log=made.log_path,
            )

    def _as_prepared(self, launch: Launch, key: str, request: Preparation, spec: JobSpec) -> Launch:
        opening = Path(launch.channel_in(str(self._hosted.attempts_dir / key))) / run_dir.OPENING
        files = files_now(spec, self._hosted.work_dir / key, launch.env.get("SPARK_HOME", ""))
        return replace(
            launch,
            env={**launch.env, PREPARED: str(opening)},
            prepared=key,
            log_path=str(self._hosted.log_path_of(request.name, key)),
            begun_s=boottime_s(),
            extra=as_extra(request, files),
        )

    def _fit_for(self, given: Assignment, key: str, cold: Launch, spec: JobSpec) -> list[tuple[str, Launch]]:
        """Returns the prepared drivers to which ``given`` may be handed, with the launch by which each is. One that is
        not what is started now is discarded."""
        fit: list[tuple[str, Launch]] = []
        standing = self._prepared.fit_for(given, self._hosted.prepared_key_of(key)) if given.prepared else []
        if not standing:
            return fit
        files = files_now(spec, self._hosted.work_dir / key, cold.env.get("SPARK_HOME", ""))
        now = self._made(key, cold, files)
        for prepared_key, launch in standing:
            try:
                why = difference(self._made(prepared_key, launch, files_of(launch)), now)
                handed = launch_of_opening(launch, now)
            except (OSError, ValueError) as error:
                why = f"its launch can't be compared ({error})"
            if why:
                self._prepared.reject(prepared_key, why)
            else:
                fit.append((prepared_key, handed))
        return fit

    def _made(self, key: str, launch: Launch, files: dict[str, str] | None) -> MadeLaunch:
        hosted = self._hosted
        return MadeLaunch(
            launch, hosted.attempts_dir / key, hosted.work_dir / key, files, hosted.state.tmp_of(key)
        )

    def _handed_over(
        self, key: str, cold: Launch, fit: list[tuple[str, Launch]], check: PreflightCheck | None
    ) -> bool:
        """Hands the attempt to the first of ``fit`` that takes it, and returns whether one did. If nothing was handed
        over, no link is left: the attempt starts cold. The driver waits for the result of ``check``, if any."""
        for prepared_key, handed in fit:
            self._unlink_unless(key, prepared_key)
            if not self._hosted.is_alive(prepared_key) or not self._prepared.take(prepared_key):
                continue
            handed = with_remembered(handed, cold.remembered)
            handed = replace(handed, begun_s=cold.begun_s, looked_s=cold.looked_s)
            if self._handed(key, prepared_key, handed, check):
                log.info(
                    "attempt_handed_over",
                    job=cold.assignment.name,
                    **about_key(key),
                    prepared=prepared_key,
                    containment="cgroup" if handed.cgroup else "scan",
                    log=handed.log_path,
                )
                return True
            self._prepared.release(prepared_key)
        self._unlink_unless(key, None)
        return False

    def _handed(self, key: str, prepared_key: str, handed: Launch, check: PreflightCheck | None) -> bool:
        if check is not None:
            handed = self._barrier.held(key, handed)
        with self._barrier.about_to_start(key) if check is not None else nullcontext():
            try:
                data = encode(handed, run_dir.LAUNCH_MAX_BYTES)
                is_handed = run_dir.hand_over(str(self._hosted.attempts_dir), prepared_key, key, data)
            except OSError as error:
                is_handed = self._hosted.state_of(key) in (HostedState.HOSTED, HostedState.LOST)
                log.warning("hand_over_failed", **about_key(key), prepared=prepared_key, why=str(error))
            if is_handed:
                report(handed.channel_in(str(self._hosted.attempts_dir / prepared_key)), {"event": "handed"})
                if check is not None:
                    self._barrier.write_after(key, handed, check)
        return is_handed

    def _unlink_unless(self, key: str, prepared_key: str | None) -> None:
        """Takes the name of the attempt from a prepared driver to which it was not handed, and which is not
        ``prepared_key``."""
        if (
            self._hosted.state_of(key) is HostedState.LINKED
            and self._hosted.prepared_key_of(key) != prepared_key
        ):
            with suppress(OSError):
                (self._hosted.attempts_dir / key).unlink()

    def check_again(self) -> dict[str, str]:
        """Begins checks for drivers that wait at the barrier because nobody is about to write their verdict.
        Returns, by key, why verdicts that are known can't be written. The agent calls it in each round."""
        for key, launch in self._barrier.waiting(self._hosted.launches).items():
            given, known = launch.assignment, KnownCheckpoint(launch.checkpoint, launch.remembered)
            check = self._check(given, known, partial(self._spec_of, given))
            self._barrier.write_after(key, launch, check)
        return self._barrier.unwritten

    def _started(self, key: str, launch: Launch) -> int | None:
        """Starts the shim and returns its pid, or None if it was started before."""
        directory = self._make_run_dir(key, launch)
        return self._spawn(directory, launch) if directory is not None else None

    def _started_held(self, key: str, launch: Launch, check: PreflightCheck) -> int | None:
        """Does the same as ``_started`` for a driver that waits for the result of ``check``."""
        with self._barrier.about_to_start(key):
            shim = self._started(key, self._barrier.held(key, launch))
            if shim is not None:
                self._barrier.write_after(key, launch, check)
            return shim

    def refused(self, why: Refused) -> None:
        """Counts a refusal in the metrics of this host."""
        self._metrics.count_refusal(why.cause.value)

    @contextmanager
    def _room(self, key: str, given: Assignment) -> Iterator[None]:
        """Reserves a slot from the check of what is free until the run directory shows the attempt, because
        threads start attempts side by side.

        Raises Refused.
        """
        self._reserve(key, given)
        self._prepared.make_room(self.loads())
        try:
            yield
        finally:
            with self._room_lock:
                self._taking.pop(key, None)

    def _reserve(self, key: str, given: Assignment) -> None:
        """Waits for at most ``ROOM_PATIENCE_S`` for a slot: the leader counts a slot as free when the tombstone
        has committed, and the shim that wrote it ends a moment later. Raises Refused."""
        until_at_s = boottime_s() + ROOM_PATIENCE_S
        while True:
            try:
                with self._room_lock:
                    self._check_room(key, given)
                    self._taking[key] = given
                return
            except Refused:
                if boottime_s() >= until_at_s:
                    raise
            time.sleep(ROOM_POLL_S)

    def _check_room(self, key: str, given: Assignment) -> None:
        """Raises Refused if there is no room. The leader counts too; this is for a leader that did not know
        better (protocol §8: the agent refuses locally)."""
        capacity = self._settings.supervisor.capacity
        others = [entry for other, entry in (self._living() | self._taking).items() if other != key]
        if len(others) >= capacity.drivers:
            raise Refused(Cause.NO_ROOM, f"{self._host} has {all_its(capacity.drivers, 'driver')}")
        used = sum(entry.memory for entry in others)
        if used + given.memory > capacity.memory_bytes:
            free = max(0, capacity.memory_bytes - used) // 2**20
            raise Refused(
                Cause.NO_ROOM, f"{self._host} has {free}m free, {given.memory // 2**20}m are needed"
            )

    def _living(self) -> dict[str, Assignment]:
        launches = self._hosted.launches().items()
        return {key: launch.assignment for key, launch in launches if self._hosted.is_alive(key)}

    def loads(self) -> list[HostLoad]:
        """Returns what attempts occupy here, those that are about to start included. A prepared driver occupies nothing that
        an attempt may need."""
        with self._room_lock:
            living, taking = self._living(), dict(self._taking)
        return [HostLoad(given.uid, given.memory) for key, given in living.items() if key not in taking] + [
            HostLoad(given.uid, given.memory, takes_prepared=given.prepared and key not in living)
            for key, given in taking.items()
        ]

    def _launch(
        self, given: Assignment, key: str, spec: JobSpec, request: Preparation | None = None
    ) -> Launch:
        cgroup = f"{self._cgroup_parent}/{key}-{secrets.token_hex(3)}" if self._cgroup_parent else None
        limits, user = spec.limits(), self.users.of(spec.run_as)
        place = AttemptPlace(
            host=self._host,
            run_dir=self._hosted.attempts_dir / key,
            work_dir=self._hosted.work_dir / key,
            log_path=self._hosted.log_path(given),
            cgroup=cgroup,
            user=user,
            not_limited=self._why_not_limited(limits.controllers()) if limits is not None else "",
            registry=self._registry,
            is_alone=given.uid not in {each.uid for each in self._living().values()},
            state_dir=self._hosted.state.path,
        )
        start = DriverStart(spec, given, self._settings, place, None if request is None else request.level)
        launch = make_launch(start, lambda stored: self._fetch(given, user, stored))
        self._warn(given, launch, why_ignored(spec.env))
        return launch

    def _warn(self, given: Assignment, launch: Launch, ignored: str | None) -> None:
        """Logs what this driver is started without."""
        about: dict[str, Any] = {"job": given.name, "uid": given.uid, "attempt": given.attempt}
        if NOT_HELD in launch.env:
            why = launch.env[NOT_HELD]
            log.warning("application_not_held", **about, why=why, next="it is prepared at the level session")
        if ignored is not None:
            log.warning(
                "tools_of_job_ignored", **about, why=ignored, next="it is started with those of this host"
            )
        if launch.not_fenced:
            log.warning("checkpoint_not_fenced", **about, why=launch.not_fenced)
        if launch.not_limited:
            why = launch.not_limited
            log.warning("limits_not_enforced", **about, why=why, next="it is started without them")

    def _spec(self, given: Assignment) -> JobSpec:
        try:
            return from_canonical(self._blobs().read_spec(given.spec), given.spec.key)
        except (NotFound, Corrupt) as error:
            raise Refused(Cause.BAD_ARTIFACT, str(error)) from error

    def _spec_of(self, given: Assignment) -> JobSpec:
        """Returns the spec as it was started here. A driver that is there was admitted."""
        return as_started(self._spec(given), self._settings)

    def _admitted(self, given: Assignment) -> JobSpec:
        """Returns the spec as it is started here. Raises Refused, also if the policy of this host does not allow it."""
        require_signed(given, self._settings.cluster, self.signers, self._host)
        return admitted(self._spec(given), self._settings, self._host)

    def _check(
        self, given: Assignment, known: KnownCheckpoint, spec: Callable[[], JobSpec]
    ) -> PreflightCheck:
        return check_of(given, known, self._store_access(), lambda: spec().conf)

    def _store_access(self) -> S3Access:
        return access_of_store(self._settings.store, self._settings.policy.endpoints)

    def _fetch(self, given: Assignment, user: DriverUser | None, stored: str) -> Path:
        """Fetches ``<sha256>/<filename>`` of a spec's ``store:`` reference and returns the verified file,
        which is kept per uid on this host. ``user``, if it is another one, may read it."""
        sha256, _, filename = stored.partition("/")
        key = artifact_key(given.name, given.uid, sha256, filename)
        directory = self._hosted.artifacts_dir / given.uid
        file = self._blobs().fetch_artifact(key, directory)
        if user is not None:
            try:
                let_pass(str(self._hosted.artifacts_dir))
                let_read(str(directory))
                grant(str(directory), user.uid, READ | ENTER)
            except OSError as error:
                raise Unreachable(
                    f"{directory} can't be opened to user {user.name} ({error.strerror})",
                    "repair supervisor.runtime_dir",
                ) from None
        return file

    def _make_run_dir(self, key: str, launch: Launch) -> str | None:
        try:
            umask.make_shared_directories(str(Path(launch.log_path).parent), umask.GROUP)
            return run_dir.create(
                str(self._hosted.attempts_dir), key, encode(launch, run_dir.LAUNCH_MAX_BYTES)
            )
        except OSError as error:
            raise Refused(
                Cause.NO_ROOM, f"{self._host}: {error.filename}: {error.strerror}", "make room there"
            ) from error

    def _spawn(self, directory: str, launch: Launch) -> int:
        try:
            return spawn_shim(directory, launch.cgroup).pid
        except SupervisorError as error:
            run_dir.remove(directory)
            raise Refused(Cause.NO_ROOM, f"{self._host}: {error}") from error


__all__ = ["HostedAttempts", "Refused", "Launcher"]
