"""Implements the start barrier: a PySpark driver whose checkpoint on S3 is still being checked is started,
but waits to begin.

The driver waits before the application's first line (``spark/bootstrap.py: await_verdict``) for one verdict
in its run directory. The barrier writes the verdict once, whole, after the check: either yes, or the cause of
a refusal, which the shim records when the driver has left (``shim/runner.py: _refused``). Check and verdict
have a thread of their own, so no other start and no stop of this supervisor waits for them. If the supervisor
dies before the verdict, the next one checks again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from supervisor.clients import run_dir
from supervisor.daemon.host.preflight import PreflightCheck
from supervisor.errors import SupervisorError
from supervisor.metrics import Metrics
from supervisor.model.launch import GATE, Launch
from supervisor.model.records import PERMANENT_CAUSES, Assignment, Cause
from supervisor.records.layout import about_key
from supervisor.spark.arguments import BOOTSTRAP
from supervisor.spark.refusal import Refused

log = structlog.get_logger(__name__)

SLOW_S: Final = 5.0
"""If a check took this long, or had no answer, the next start of that job waits for its own check before
there is a driver."""


class AwaitedVerdict(NamedTuple):
    """Describes a verdict for which a driver waits. ``directory`` identifies the run directory at the
    beginning, as ``StartBarrier._directory`` does. The verdict is written into ``channel``, for
    the user ``reader`` too if that is another one."""

    key: str
    given: Assignment
    check: PreflightCheck
    directory: tuple[int, int] | None
    channel: str
    reader: int | None


class StartBarrier:
    """Holds the drivers of this host, and lets each go or leave. ``host`` is named in refusals. ``attempts_dir`` has the run
    directories."""

    def __init__(self, host: str, attempts_dir: Path, metrics: Metrics) -> None:
        self._host = host
        self._attempts_dir = attempts_dir
        self._metrics = metrics
        self._lock = threading.Lock()
        self._starting: set[str] = set()
        self._awaited: dict[str, AwaitedVerdict] = {}
        self._slow: set[str] = set()
        self._unwritten: dict[str, str] = {}

    @property
    def unwritten(self) -> dict[str, str]:
        """Returns, by key, why a verdict that is known can't be written; it is tried again in each round."""
        with self._lock:
            return dict(self._unwritten)

    def may_hold(self, launch: Launch, check: PreflightCheck) -> bool:
        """Says whether the driver can wait, and the check for which it would wait is not over and not known
        to last."""
        name = launch.assignment.name
        with self._lock:
            lasts = name in self._slow or any(
                awaited.given.name == name for awaited in self._awaited.values()
            )
        return launch.reports and check.may_be_awaited_later and not lasts and _is_known()

    def held(self, key: str, launch: Launch) -> Launch:
        """Returns ``launch`` as that of a driver that waits. One that was prepared knows its own directory only."""
        gate = Path(launch.channel_in(str(self._attempts_dir / (launch.prepared or key)))) / run_dir.GATE
        return replace(launch, env={**launch.env, GATE: str(gate)})

    def wait_for_answer(self, given: Assignment, check: PreflightCheck) -> None:
        """Awaits the check. Raises the same as ``PreflightCheck.wait_for_answer``."""
        try:
            check.wait_for_answer()
        finally:
            slow = check.took_s >= SLOW_S or check.has_no_answer
            with self._lock:
                (self._slow.add if slow else self._slow.discard)(given.name)

    @contextmanager
    def about_to_start(self, key: str) -> Iterator[None]:
        """Keeps others from checking for ``key`` during the body, which starts the driver and calls
        ``write_after``."""
        with self._lock:
            self._starting.add(key)
        try:
            yield
        finally:
            with self._lock:
                self._starting.discard(key)

    def write_after(self, key: str, launch: Launch, check: PreflightCheck) -> None:
        """Writes the verdict when the check is over."""
        channel = launch.channel_in(str(self._attempts_dir / key))
        reader = launch.user.uid if launch.user is not None else None
        awaited = AwaitedVerdict(key, launch.assignment, check, self._directory(key), channel, reader)
        with self._lock:
            self._awaited[key] = awaited
        check.then(lambda: self._write_verdict(awaited))

    def waiting(self, launches: Callable[[], Mapping[str, Launch]]) -> dict[str, Launch]:
        """Returns the drivers that wait for a verdict that nobody is about to write: a supervisor died, or
        could not write."""
        with self._lock:
            # before the verdicts are read: who leaves these has written
            awaited_keys = self._starting | self._awaited.keys()
        held = {
            key: launch for key, launch in launches().items() if launch.is_held and key not in awaited_keys
        }
        with self._lock:
            for key in self._unwritten.keys() - held.keys() - awaited_keys:
                del self._unwritten[key]
        return {
            key: launch
            for key, launch in held.items()
            if run_dir.read_verdict(launch.channel_in(str(self._attempts_dir / key))) is None
        }

    def _directory(self, key: str) -> tuple[int, int] | None:
        """Identifies the run directory of a key that may come up again after an accepted restore. Returns
        None if it is gone."""
        try:
            status = (self._attempts_dir / key / run_dir.LAUNCH).stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns

    def _write_verdict(self, awaited: AwaitedVerdict) -> None:
        key, given = awaited.key, awaited.given
        try:
            verdict = self._verdict(awaited)
            is_there = awaited.directory is not None and awaited.directory == self._directory(key)
            written = is_there and run_dir.write_verdict(awaited.channel, verdict, awaited.reader)
        except OSError as error:
            why = f"{awaited.channel}/{run_dir.GATE} can't be written ({error.strerror}); make room there"
            with self._lock:
                is_new, self._unwritten[key] = self._unwritten.get(key) != why, why
            if is_new:
                log.warning("start_delayed", **about_key(key), why=why, next="tried again in the next round")
            return
        finally:
            with self._lock:
                if self._awaited.get(key) is awaited:
                    del self._awaited[key]
        with self._lock:
            self._unwritten.pop(key, None)
        if written and verdict.cause:
            self._metrics.count_refusal(verdict.cause)
            log_refused(given, Cause(verdict.cause), verdict.why)

    def _verdict(self, awaited: AwaitedVerdict) -> run_dir.StartVerdict:
        """Returns the verdict. A checkpoint that can't be read is no reason to keep a driver: the attempt is
        given up, uncharged, and the next start waits until there is an answer, on this host or another."""
        try:
            self.wait_for_answer(awaited.given, awaited.check)
        except Refused as refused:
            return run_dir.StartVerdict(refused.cause.value, f"{self._host}: {refused}")
        except SupervisorError as error:
            return run_dir.StartVerdict(Cause.NO_ACCESS.value, f"{self._host}: {error}")
        except Exception as error:
            log.exception("start_failed", **about_key(awaited.key))
            why = f"{self._host}: its checkpoint can't be looked at, a defect of the supervisor: {error!r}"
            return run_dir.StartVerdict(Cause.NO_ACCESS.value, why)
        return run_dir.StartVerdict()


def log_refused(given: Assignment, cause: Cause, why: str) -> None:
    """Logs a refusal in the log of this host, wherever else it is recorded."""
    log.error(
        "start_refused",
        job=given.name,
        uid=given.uid,
        attempt=given.attempt,
        cause=cause.value,
        why=why,
        next=_next_after(cause),
    )


def _next_after(cause: Cause) -> str:
    if cause is Cause.POLICY:
        return "no host with this policy is given it again, until spec or policy is another"
    return "quarantined until resume" if cause in PERMANENT_CAUSES else "assigned again after back-off"


def _is_known() -> bool:
    """Says whether the bootstrap on the disk knows the barrier. It may be older than this process (a
    downgrade in place), and would not wait."""
    try:
        return GATE.encode() in BOOTSTRAP.read_bytes()
    except OSError:
        return False
