"""The gate: a PySpark driver whose checkpoint on S3 is still being looked at is started, and begins when it is told to.

It waits before the application's first line (``spark/bootstrap.py: pass_gate``) for one word in its run directory. The word
is written here, once, whole, after the look: yes, or the cause of a refusal, which the shim records when the driver has left
(``shim/runner.py: _refused``). Look and word have a thread of their own, so no other start and no stop of this supervisor
waits for them. If it dies before the word, the next one looks again. Called by ``starting``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import structlog

from supervisor.clients import run_dir
from supervisor.daemon.checkpoint_check import Check
from supervisor.errors import SupervisorError
from supervisor.metrics import Metrics
from supervisor.model.launch import GATE, Launch
from supervisor.model.records import PERMANENT_CAUSES, Assignment, Cause
from supervisor.registry.layout import about_key
from supervisor.spark.arguments import BOOTSTRAP
from supervisor.spark.refusal import Refused

log = structlog.get_logger(__name__)

SLOW_S: Final = 5.0
"""A look that took so long, or had no answer: the next start of that job waits for its own before there is a driver."""


class Gate:
    """Of all drivers of this host. ``host``: for the words. ``attempts_dir``: of the run directories."""

    def __init__(self, host: str, attempts_dir: Path, metrics: Metrics) -> None:
        self.untold: dict[str, str] = {}
        """Key → why a word that is known can't be written; it is tried again in each round."""
        self._host = host
        self._attempts_dir = attempts_dir
        self._metrics = metrics
        self._starting: set[str] = set()
        self._looking: set[str] = set()
        self._slow: set[str] = set()

    def may_hold(self, launch: Launch, check: Check) -> bool:
        """The driver can wait, and what it would wait for is not over and not known to last."""
        return launch.reports and check.may_be_awaited_later and launch.assignment.name not in self._slow and _is_known()

    def held(self, key: str, launch: Launch) -> Launch:
        """``launch`` of a driver that waits."""
        return replace(launch, env={**launch.env, GATE: str(self._attempts_dir / key / run_dir.GATE)})

    def settle(self, given: Assignment, check: Check) -> None:
        """Await the look. Raises as ``Check.settle``."""
        try:
            check.settle()
        finally:
            slow = check.took_s >= SLOW_S or check.has_no_answer
            (self._slow.add if slow else self._slow.discard)(given.name)

    @contextmanager
    def about_to_tell(self, key: str) -> Iterator[None]:
        """Nobody else looks for ``key`` in the body, in which it is started and given to ``tell_after``."""
        self._starting.add(key)
        try:
            yield
        finally:
            self._starting.discard(key)

    def tell_after(self, key: str, given: Assignment, check: Check) -> None:
        """Write the word when the look is over."""
        self._looking.add(key)
        check.then(lambda: self._tell(key, given, check))

    def waiting(self, launches: Callable[[], Mapping[str, Launch]]) -> dict[str, Launch]:
        """Drivers that wait for a word that nobody is about to write: a supervisor died, or could not write."""
        looking = self._starting | self._looking      # before the words are read: who leaves these has written
        held = {key: launch for key, launch in launches().items() if launch.is_held and key not in looking}
        self.untold = {key: why for key, why in self.untold.items() if key in held or key in looking}
        return {key: launch for key, launch in held.items() if run_dir.read_gate(str(self._attempts_dir / key)) is None}

    def _tell(self, key: str, given: Assignment, check: Check) -> None:
        try:
            word = self._word(key, given, check)
            told = run_dir.write_gate(str(self._attempts_dir / key), word)
        except OSError as error:
            if key not in self.untold:
                why = f"{self._attempts_dir / key / run_dir.GATE} can't be written ({error.strerror}); make room there"
                self.untold[key] = why
                log.warning("start_delayed", **about_key(key), why=why, next="tried again in the next round")
            return
        finally:
            self._looking.discard(key)
        self.untold.pop(key, None)
        if told and word.cause:
            self._metrics.count_refusal(word.cause)
            permanent = Cause(word.cause) in PERMANENT_CAUSES
            log.error(
                "start_refused", job=given.name, uid=given.uid, attempt=given.attempt, cause=word.cause, why=word.why,
                next="quarantined until resume" if permanent else "assigned again after back-off",
            )

    def _word(self, key: str, given: Assignment, check: Check) -> run_dir.Gate:
        """A checkpoint that can't be looked at is no reason to keep a driver: it is given up, uncharged, and the next start
        waits until there is an answer, on this host or another."""
        try:
            self.settle(given, check)
        except Refused as refused:
            return run_dir.Gate(refused.cause.value, f"{self._host}: {refused}")
        except SupervisorError as error:
            return run_dir.Gate(Cause.NO_ACCESS.value, f"{self._host}: {error}")
        except Exception as error:
            log.exception("start_failed", **about_key(key))
            why = f"{self._host}: its checkpoint can't be looked at, a defect of the supervisor: {error!r}"
            return run_dir.Gate(Cause.NO_ACCESS.value, why)
        return run_dir.Gate()


def _is_known() -> bool:
    """The bootstrap on the disk may be older than this process (a downgrade in place), and would not wait."""
    return _knows_gate(BOOTSTRAP.stat().st_mtime_ns)


@cache
def _knows_gate(_mtime_ns: int) -> bool:
    return GATE.encode() in BOOTSTRAP.read_bytes()


__all__ = ["SLOW_S", "Gate"]
