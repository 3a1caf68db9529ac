"""Turns an assignment into a running shim: it gets spec and files from the store and makes ``Launch``, run
directory, process.

The agent calls it, in one of a few threads. It touches no record of ZooKeeper: a refusal is raised as
``Refused`` and recorded by the agent; ``Unreachable`` and ``AccessDenied`` mean that it may be tried again.
Starting the same assignment twice does nothing the second time; if a second shim is started all the same, its
claim fails.

A PySpark driver whose checkpoint on S3 is still being checked is started, and waits for the verdict
(``start_barrier``).
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import structlog

from supervisor.clients import processes, run_dir, umask
from supervisor.clients.spawn import spawn_shim
from supervisor.clock import boottime_s
from supervisor.daemon.host.preflight import KnownCheckpoint, PreflightCheck, check_of
from supervisor.daemon.host.start_barrier import StartBarrier
from supervisor.errors import Corrupt, NotFound, SupervisorError
from supervisor.metrics import Metrics
from supervisor.model.host_tools import why_ignored
from supervisor.model.launch import Launch
from supervisor.model.location import normalise
from supervisor.model.phrases import all_its
from supervisor.model.records import Assignment, Cause
from supervisor.records.codec import decode, encode
from supervisor.registry.blobs import Blobs, artifact_key
from supervisor.settings.file import Settings
from supervisor.spark.prepare import AttemptPlace, prepare
from supervisor.spark.refusal import Refused
from supervisor.spec.job import JobSpec, from_canonical
from supervisor.spec.s3a import S3Access, access_of_store, why_no_access
from supervisor.spec.site_policy import ANYWHERE, site_policy

log = structlog.get_logger(__name__)

LAUNCH_MAX_BYTES = 4 * 2**20
TRUST_CHECK_LASTS_S = 2.0
"""A shim has 10 s from the trust check to its connection (``shim.claim``), and has to be started within
them."""


def read_launch(directory: str, key: str) -> Launch | None:
    """Returns the launch file of the run directory ``key``, or None if there is none. Raises OSError. Raises
    Corrupt if the file can't be believed, or is about another attempt, or about a cgroup that is not the
    attempt's own: the processes there are left alone."""
    path = f"{directory}/{run_dir.LAUNCH}"
    data = run_dir.read_file(path, LAUNCH_MAX_BYTES + 1)
    if data is None:
        return None
    if len(data) > LAUNCH_MAX_BYTES:
        raise Corrupt(f"{path} is larger than the {LAUNCH_MAX_BYTES} bytes it may have")
    launch = decode(Launch, data, path)
    given, cgroup = launch.assignment, launch.cgroup
    if f"{given.uid}.{given.attempt}" != key:
        raise Corrupt(f"{path} is about {given.uid}.{given.attempt}")
    if cgroup is not None and not (
        cgroup.startswith("/") and cgroup.rpartition("/")[2].startswith(f"{key}-")
    ):
        raise Corrupt(f"{path} names the cgroup {cgroup[:200]}, which is not the attempt's")
    return launch


class TrustCheck(NamedTuple):
    """Holds when the agent last checked whether the registry is to be trusted, and how to check again
    (``agent._trusted_at``).

    ``known`` is what the registry knows of the job's checkpoint.
    """

    looked_at_s: float
    again: Callable[[], float | None]
    known: KnownCheckpoint = KnownCheckpoint()

    def lately(self) -> float | None:
        """Returns the BOOTTIME before the newest trust check, which is made anew when it is too old, or None
        if there is no trust. Raises Unreachable."""
        return self.looked_at_s if boottime_s() - self.looked_at_s < TRUST_CHECK_LASTS_S else self.again()


class HostedAttempts:
    """Lists the attempts of this host, as its run directories say, including those that an earlier supervisor
    started here."""

    def __init__(self, runtime_dir: Path, log_dir: Path) -> None:
        self.attempts_dir = runtime_dir / "attempts"
        self.work_dir = runtime_dir / "work"
        self.artifacts_dir = runtime_dir / "artifacts"
        self.log_dir = log_dir
        self.fresh = threading.Event()
        """It is set when a shim was started: ``attempt_reporter``, which times starts, then begins its next
        round at once."""
        self._launches: dict[str, Launch] = {}
        self._lock = threading.Lock()

    def keys(self) -> frozenset[str]:
        """Returns ``<uid>.<attempt>`` of every run directory. An unlistable directory has none to show, and
        starts nothing."""
        try:
            return frozenset(
                entry.name for entry in self.attempts_dir.iterdir() if not entry.name.startswith(".")
            )
        except FileNotFoundError:
            return frozenset()

    def has(self, key: str) -> bool:
        return (self.attempts_dir / key).exists()

    def launches(self) -> dict[str, Launch]:
        """Returns what is hosted, by key. An unreadable launch file is left out: the guardian deals with
        it."""
        keys = self.keys()
        with self._lock:
            self._launches = {key: known for key, known in self._launches.items() if key in keys}
            for key in keys - self._launches.keys():
                try:
                    launch = read_launch(str(self.attempts_dir / key), key)
                except (OSError, Corrupt):
                    continue
                if launch is not None:
                    self._launches[key] = launch
            return dict(self._launches)

    def is_alive(self, key: str) -> bool:
        """Says whether the shim lives, or is about to; a run directory that only waits to be removed occupies
        nothing."""
        shim = run_dir.read_process(str(self.attempts_dir / key / run_dir.SHIM))
        try:
            return shim is None or processes.alive(shim.process)
        except OSError:  # it can't be looked at now: what it has is not given to another
            return True

    def log_path(self, given: Assignment) -> Path:
        return self.log_dir / given.name / f"{given.uid}.{given.attempt}.log"

    def tidy(self, under_way: frozenset[str]) -> None:
        """Removes the working directories of attempts that are over, files that no hosted uid needs, and what
        an agent that was killed left half made. ``under_way`` holds the keys that may be starting just
        now."""
        run_dir.remove_drafts(str(self.attempts_dir), under_way)
        keys = self.keys() | under_way
        _remove_others(self.work_dir, keys)
        _remove_others(self.artifacts_dir, frozenset(key.rpartition(".")[0] for key in keys))


class Launcher:
    """Starts attempts. ``cgroup_parent`` is the directory where attempts get a cgroup of their own, or None
    where there is no usable cgroup v2."""

    def __init__(
        self,
        settings: Settings,
        host: str,
        blobs: Callable[[], Blobs],
        hosted: HostedAttempts,
        cgroup_parent: str | None,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._host = host
        self._blobs = blobs
        self._hosted = hosted
        self._cgroup_parent = cgroup_parent
        self._metrics = metrics
        self._room_lock = threading.Lock()
        self._taking: dict[str, Assignment] = {}
        self._barrier = StartBarrier(host, hosted.attempts_dir, metrics)

    def start(self, given: Assignment, trust_check: TrustCheck, ended_before: str | None = None) -> None:
        """Starts the shim of ``given``, unless ``trust_check`` shows doubt. ``ended_before`` is the cause of
        the previous exit.

        Raises Refused, Unreachable, AccessDenied.
        """
        begun_at_s = boottime_s()
        key = f"{given.uid}.{given.attempt}"
        with self._room(key, given):
            spec = self._spec(given)
            self._require_allowed(spec)
            check = self._check(given, trust_check.known, lambda: spec)
            try:
                prepared = self._launch(given, key, spec)
            except Exception:
                check.wait()  # or there were one more at each try
                raise
            held = self._barrier.may_hold(prepared, check)
            if not held:
                self._barrier.wait_for_answer(given, check)
            looked_at_s = trust_check.lately()  # files may have taken long to come
            if looked_at_s is None:
                return
            launch = replace(
                prepared, begun_s=begun_at_s, looked_s=looked_at_s, remembered=trust_check.known.remembered
            )
            shim = self._started(key, launch) if not held else self._started_held(key, launch, check)
        if shim is None:
            return
        self._hosted.fresh.set()
        if ended_before is not None:
            self._metrics.job_restarted(given.name, ended_before)
        log.info(
            "shim_started",
            job=given.name,
            uid=given.uid,
            attempt=given.attempt,
            shim_pid=shim,
            containment="cgroup" if launch.cgroup else "scan",
            log=launch.log_path,
        )

    def check_again(self) -> dict[str, str]:
        """Begins checks for drivers that wait at the barrier because nobody is about to write their verdict.
        Returns, by key, why verdicts that are known can't be written. The agent calls it in each round."""
        for key, launch in self._barrier.waiting(self._hosted.launches).items():
            given, known = launch.assignment, KnownCheckpoint(launch.checkpoint, launch.remembered)
            check = self._check(given, known, partial(self._spec, given))
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
        with self._room_lock:
            self._check_room(key, given)
            self._taking[key] = given
        try:
            yield
        finally:
            with self._room_lock:
                self._taking.pop(key, None)

    def _check_room(self, key: str, given: Assignment) -> None:
        """Raises Refused if there is no room. The leader counts too; this is for a leader that did not know
        better (protocol §8: the agent refuses locally)."""
        capacity = self._settings.supervisor.capacity
        launches = self._hosted.launches().items()
        hosted = {other: launch.assignment for other, launch in launches if self._hosted.is_alive(other)}
        others = [entry for other, entry in (hosted | self._taking).items() if other != key]
        if len(others) >= capacity.drivers:
            raise Refused(Cause.NO_ROOM, f"{self._host} has {all_its(capacity.drivers, 'driver')}")
        used = sum(entry.memory for entry in others)
        if used + given.memory > capacity.memory_bytes:
            free = max(0, capacity.memory_bytes - used) // 2**20
            raise Refused(
                Cause.NO_ROOM, f"{self._host} has {free}m free, {given.memory // 2**20}m are needed"
            )

    def _launch(self, given: Assignment, key: str, spec: JobSpec) -> Launch:
        cgroup = f"{self._cgroup_parent}/{key}-{secrets.token_hex(3)}" if self._cgroup_parent else None
        place = AttemptPlace(
            host=self._host,
            run_dir=self._hosted.attempts_dir / key,
            work_dir=self._hosted.work_dir / key,
            log_path=self._hosted.log_path(given),
            cgroup=cgroup,
        )
        launch = prepare(spec, given, self._settings, place, lambda stored: self._fetch(given, stored))
        ignored = why_ignored(spec.env)
        if ignored is not None:
            log.warning(
                "tools_of_job_ignored",
                job=given.name,
                uid=given.uid,
                attempt=given.attempt,
                why=ignored,
                next="it is started with those of this host",
            )
        if launch.not_fenced:
            log.warning(
                "checkpoint_not_fenced",
                job=given.name,
                uid=given.uid,
                attempt=given.attempt,
                why=launch.not_fenced,
            )
        return launch

    def _spec(self, given: Assignment) -> JobSpec:
        try:
            return from_canonical(self._blobs().read_spec(given.spec), given.spec.key)
        except (NotFound, Corrupt) as error:
            raise Refused(Cause.BAD_ARTIFACT, str(error)) from error

    def _require_allowed(self, spec: JobSpec) -> None:
        """Checks the checkpoint against this host's own configuration, whatever the leader's says; a
        directory counts by its real path. Raises Refused."""
        site, location = site_policy(self._settings.policy), spec.checkpoint
        why = site.why_no_checkpoint(location)
        if why is None and location is not None and ANYWHERE not in site.checkpoints:
            place = normalise(location)
            if place.startswith("file://"):
                why = site.why_no_checkpoint(f"file://{os.path.realpath(place.removeprefix('file://'))}")
        why = why or why_no_access(spec.conf, (location,), self._store_access())
        if why is not None:
            raise Refused(Cause.BAD_CHECKPOINT, f"{why} (on {self._host})")

    def _check(
        self, given: Assignment, known: KnownCheckpoint, spec: Callable[[], JobSpec]
    ) -> PreflightCheck:
        return check_of(given, known, self._store_access(), lambda: spec().conf)

    def _store_access(self) -> S3Access:
        return access_of_store(self._settings.store, self._settings.policy.endpoints)

    def _fetch(self, given: Assignment, stored: str) -> Path:
        """Fetches ``<sha256>/<filename>`` of a spec's ``store:`` reference and returns the verified file,
        which is kept per uid on this host."""
        sha256, _, filename = stored.partition("/")
        key = artifact_key(given.name, given.uid, sha256, filename)
        return self._blobs().fetch_artifact(key, self._hosted.artifacts_dir / given.uid)

    def _make_run_dir(self, key: str, launch: Launch) -> str | None:
        try:
            umask.make_shared_directories(str(Path(launch.log_path).parent), umask.GROUP)
            return run_dir.create(str(self._hosted.attempts_dir), key, encode(launch, LAUNCH_MAX_BYTES))
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


def _remove_others(directory: Path, keep: frozenset[str]) -> None:
    try:
        entries = list(directory.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name not in keep:
            shutil.rmtree(entry, ignore_errors=True)


__all__ = ["HostedAttempts", "Refused", "Launcher"]
