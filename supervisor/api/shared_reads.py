"""Carries out what requests read, in a few threads, and shares it: whoever asks for the same within a moment gets one
reading.

So requests load ZooKeeper and the store with at most ``READERS`` readings at once, and with at most one a second of each
kind, however many ask. Each thread has a session of its own, opened at its first reading and kept. Called by
``api.service``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from supervisor.api.kept_contexts import KeptContexts
from supervisor.clients.threads import Pool
from supervisor.clock import boottime_s
from supervisor.errors import Unreachable
from supervisor.operations.context import CommandContext
from supervisor.operations.requests import ReadRequest

READERS: Final = 2
WAITING_MAX: Final = 16
"""So many readings may be under way or wait for a thread; what comes besides is refused, and may try again."""
FRESH_S: Final = 1.0
"""A reading answers who asked at most this long after it began, and whoever asked before."""
DERIVED_MAX: Final = 8
"""So much is kept that was made of one reading; a page of a list, for instance. What comes besides is made each time."""
ANSWER_S: Final = 30.0
BUSY: Final = "too many requests are being answered"
AGAIN: Final = "try again in a moment"

T = TypeVar("T")
D = TypeVar("D")


@dataclass(eq=False)
class _Reading:
    """Is one reading. ``began_at_s`` is None until a thread has begun it."""

    result: Future[Any] = field(default_factory=Future)
    began_at_s: float | None = None
    deriving: threading.Lock = field(default_factory=threading.Lock)
    derived: dict[Hashable, Any] = field(default_factory=dict)

    def answers(self, now_s: float) -> bool:
        """Says whether somebody who asks now may have its result."""
        return self.began_at_s is None or now_s - self.began_at_s < FRESH_S


class SharedReads:
    """``open_context`` opens what one thread reads with. It may be used by many threads at once."""

    def __init__(self, open_context: Callable[[], AbstractContextManager[CommandContext]]) -> None:
        self._contexts = KeptContexts(open_context)
        self._lock = threading.Lock()
        self._readings: dict[Hashable, _Reading] = {}
        self._is_closed = False
        self._pool = Pool(READERS, "api")

    def get(self, key: Hashable, read: Callable[[CommandContext], T]) -> T:
        """Returns what ``read`` returns, or what it returned for the same ``key`` a moment ago. Raises what it raises, and
        Unreachable if too many are waiting already or if it takes too long."""
        result: T = self._wait(self._joined(key, read))
        return result

    def read(self, request: ReadRequest[T]) -> T:
        """Returns the answer to ``request``, or to an equal one a moment ago. Raises as ``get`` does."""
        return self.get(request, request.carry_out)

    def derive(
        self, key: Hashable, read: Callable[[CommandContext], T], of: Hashable, make: Callable[[T], D]
    ) -> D:
        """Returns what ``make`` makes of what ``get`` returns. It is made once for each reading and ``of``, which says
        what of it is wanted, and goes with the reading. Raises as ``get`` does, and what ``make`` raises."""
        reading = self._joined(key, read)
        result: T = self._wait(reading)
        with reading.deriving:
            if of in reading.derived:
                found: D = reading.derived[of]
                return found
            made = make(result)
            if len(reading.derived) < DERIVED_MAX:
                reading.derived[of] = made
            return made

    def _wait(self, reading: _Reading) -> Any:
        try:
            return reading.result.result(ANSWER_S)
        except TimeoutError:
            raise Unreachable("the answer takes too long", AGAIN) from None
        except CancelledError:
            raise Unreachable("this supervisor is stopping", "ask another one") from None

    def close(self) -> None:
        """Drops what has not begun, and closes the sessions; what is under way ends by itself, and nobody waits for it."""
        with self._lock:
            self._is_closed = True
            readings = list(self._readings.values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for reading in readings:
            reading.result.cancel()
        self._contexts.close()

    def _joined(self, key: Hashable, read: Callable[[CommandContext], Any]) -> _Reading:
        with self._lock:
            now_s = boottime_s()
            known = self._readings.get(key)
            if known is not None and known.answers(now_s):
                return known
            if (
                self._is_closed
                or sum(not one.result.done() for one in self._readings.values()) >= WAITING_MAX
            ):
                raise Unreachable(BUSY, AGAIN)
            self._forget(now_s)
            reading = self._readings[key] = _Reading()
            self._pool.submit(self._carry_out, reading, read)
            return reading

    def _forget(self, now_s: float) -> None:
        """Lets go of what answers nobody any more: a list of many jobs is large."""
        for key in [
            key for key, one in self._readings.items() if one.result.done() and not one.answers(now_s)
        ]:
            del self._readings[key]

    def _carry_out(self, reading: _Reading, read: Callable[[CommandContext], Any]) -> None:
        if not reading.result.set_running_or_notify_cancel():
            return
        reading.began_at_s = boottime_s()
        try:
            with self._contexts.lend() as context:
                result = read(context)
        except BaseException as error:  # noqa: BLE001 - it is for whoever asked
            reading.result.set_exception(error)
        else:
            reading.result.set_result(result)
