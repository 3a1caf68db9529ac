"""Limits how often an S3 server is asked: the attempts of one operation, and the pace of all that share a
store. ``s3_session`` uses it.

The pace is botocore's adaptive retry mode: a server that answers SlowDown gets fewer requests a second
(CUBIC), more as it answers again, and no limit before its first complaint. Three things differ from the mode
as it is. Its waits end when a token comes, however late, and then send what is not waited for any more, while
here they end with the operation's budget (and before the request is signed). It would slow down every later
burst of a process that got SlowDown once, weeks ago. Its floor, a request in two seconds, would let most of
32 parallel operations run into their deadlines.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import CapacityNotAvailableError
from botocore.retries.adaptive import ClientRateLimiter, RateClocker
from botocore.retries.bucket import Clock, TokenBucket
from botocore.retries.standard import RetryEventAdapter, ThrottlingErrorDetector
from botocore.retries.throttling import CubicCalculator
from tenacity import RetryCallState, Retrying, retry_if_exception

from supervisor.clients.store.deadline import Budget
from supervisor.clients.store.local import TargetTrouble
from supervisor.errors import SupervisorError, Unreachable
from supervisor.growing_pause import GrowingPause

BACKOFF = GrowingPause(first_s=0.2, longest_s=2.0)
"""The widest pause; each try waits a random part of it."""
CALM_S = 30.0
"""So many seconds after the last complaint there is no limit any more."""
FLOOR_PER_S = 5.0
"""So many requests a second are sent in any case: S3 takes thousands."""


def attempts(budget: Budget) -> Retrying:
    """Repeats an operation on errors that may pass, with full jitter, while the budget lasts."""

    def pause_s(state: RetryCallState) -> float:
        widest_s = BACKOFF.after(state.attempt_number)
        return min(random.uniform(BACKOFF.first_s / 4, widest_s), budget.remaining_s())

    def note(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        budget.trouble = str(error) if isinstance(error, SupervisorError) else ""

    return Retrying(
        retry=retry_if_exception(
            lambda error: isinstance(error, Unreachable) and not isinstance(error, TargetTrouble)
        ),
        wait=pause_s,
        stop=lambda _: budget.remaining_s() <= 0,
        after=note,
        reraise=True,
    )


class RequestPace:
    """Limits the requests of all clients of a store, which share it; each operation runs in a thread of its
    own (``deadline``)."""

    def __init__(self, clock: Clock | None = None) -> None:
        clock = self._clock = clock or Clock()
        self._mine = threading.local()
        self._slow_until_at_s = 0.0
        self._detector = ThrottlingErrorDetector(retry_event_adapter=RetryEventAdapter())
        self._tokens = TokenBucket(max_rate=FLOOR_PER_S, clock=clock, min_rate=FLOOR_PER_S)
        self._limiter = ClientRateLimiter(
            rate_adjustor=CubicCalculator(starting_max_rate=0, start_time=clock.current_time()),
            rate_clocker=RateClocker(clock),
            token_bucket=_Tokens(self._tokens, self._mine),
            throttling_detector=self._detector,
            clock=clock,
        )

    @contextmanager
    def of(self, budget: Budget) -> Iterator[None]:
        """Makes the requests of this thread belong to the operation with this budget."""
        self._mine.budget = budget
        try:
            yield
        finally:
            del self._mine.budget

    def arm(self, client: Any) -> None:
        client.meta.events.register("before-call.s3", self._wait)
        client.meta.events.register("needs-retry.s3", self._heard)

    def _wait(self, **_: Any) -> None:
        if self._clock.current_time() < self._slow_until_at_s:
            self._limiter.on_sending_request(request=None)

    def _heard(self, **answer: Any) -> None:
        """Takes note of an answer. It returns None, so it never repeats anything by itself."""
        if self._detector.is_throttling_error(**answer):
            self._slow_until_at_s = self._clock.current_time() + CALM_S
        self._limiter.on_receiving_response(**answer)


class _Tokens:
    """Is a bucket whose ``acquire`` raises ``Unreachable``, and takes no token, when the thread's budget is
    used up."""

    def __init__(self, bucket: TokenBucket, mine: threading.local) -> None:
        self._bucket = bucket
        self._mine = mine

    @property
    def max_rate(self) -> float:
        return float(self._bucket.max_rate)

    @max_rate.setter
    def max_rate(self, rate: float) -> None:
        self._bucket.max_rate = rate

    @property
    def available_capacity(self) -> float:
        return float(self._bucket.available_capacity)

    def acquire(self, amount: int = 1) -> None:
        budget: Budget = self._mine.budget
        while True:
            budget.check()
            try:
                self._bucket.acquire(amount, block=False)
            except CapacityNotAvailableError:
                missing = max(0.0, amount - self.available_capacity)
                time.sleep(
                    min(random.uniform(0.5, 1.0) * missing / self.max_rate + 0.01, budget.remaining_s())
                )
            else:
                return
