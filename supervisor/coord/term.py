"""Defines one term of leadership, as the rest of the supervisor sees it. ``coord.contender`` makes it for the
leader's loop.

Code that acts for the leader holds the ``Term``, calls ``check()`` before each effect, and puts
``fence_version`` in each write. ``check`` saves work and noise; what keeps a deposed leader from doing harm
is the fence, not the check. A term never comes back: after it there is another ``Term``, with a higher epoch,
another client and another session.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from supervisor.clients.zookeeper import Link
from supervisor.clock import boottime_s
from supervisor.errors import NotLeader, NotSent
from supervisor.records.ports import ElectionClient

Client = TypeVar("Client", bound=ElectionClient)


class Term(Generic[Client]):
    """A ``Term`` is one term of leadership: ``epoch`` is its number, ``fence_version`` the version of /epoch
    that every write checks, and ``client`` the client of this term only.

    ``recorded`` is True once the epoch's object is in the store; until then the leader adopts, drains and
    revokes, but starts and cleans nothing. ``distrust`` says why nothing at all may be done to this registry
    (I10), or is None. ``connection`` is the number of the connection on which the contender has read the
    registry last; no write for jobs goes out on another. A session and its epoch may be in the backup that
    ZooKeeper was restored from, and then go on; but every connection breaks, and the contender's reading on
    the next one shows what is there now (found by exploration: ``tests/explore/test_restores.py``).
    ``depose`` notifies the contender that the term has ended here, and ``nudge`` that a hand-over was asked for.
    A ``Term`` is safe to use from any thread.
    """

    def __init__(
        self,
        epoch: int,
        fence_version: int,
        client: Client,
        timeout_s: float,
        *,
        depose: Callable[[str], None],
        distrust: str | None = None,
        nudge: Callable[[], None] = lambda: None,
        connection: int | None = None,
    ) -> None:
        self.epoch = epoch
        self.fence_version = fence_version
        self.client = client
        self.began_at_s = boottime_s()
        self.vacant_at_s = self.began_at_s  # since when nobody had led before, as far as the contender saw it
        self.over = threading.Event()
        self._timeout_s = timeout_s
        self._depose = depose
        self._nudge = nudge
        self._paused = False
        self._recorded = False
        self._distrust = distrust
        self._connection = connection
        self._why = ""

    @property
    def active(self) -> bool:
        """Says whether a new effect may be started now."""
        return self._hindrance() is None

    @property
    def lasts(self) -> bool:
        """Whether the term is not over, though it may be interrupted. Asking is also how its end is noticed."""
        return self.active or not self.over.is_set()

    @property
    def recorded(self) -> bool:
        return self._recorded

    @property
    def distrust(self) -> str | None:
        return self._distrust

    @property
    def connection(self) -> int | None:
        return self._connection

    def check(self) -> None:
        """Raises NotLeader when the term is over for good, and NotSent while the connection is down (the next
        pass tries again)."""
        hindrance = self._hindrance()
        if hindrance is not None:
            raise hindrance

    def fence_failed(self) -> NotLeader:
        """Ends the term after a write failed on /epoch, because somebody else was elected; returns the error
        to raise."""
        return self._give_up("a write failed on the epoch: another supervisor was elected")

    def nudge(self) -> None:
        """Notifies the contender that a planned hand-over of this term was asked for, so that it reads that now
        and not at its next tick."""
        self._nudge()

    def set_distrust(self, why: str) -> None:
        """Sets the distrust for the rest of the term; the first reason stays. The contender calls it, or
        whatever part finds the registry damaged."""
        self._distrust = self._distrust or why

    # What follows is for the contender alone.

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def end(self, why: str) -> None:
        """Ends the term: from here on ``check`` raises NotLeader. It is idempotent; the first reason
        stays."""
        self._why = self._why or why
        self.over.set()

    def set_trust_check(self, connection: int) -> None:
        self._connection = connection

    def set_recorded(self) -> None:
        self._recorded = True

    def _hindrance(self) -> NotLeader | NotSent | None:
        # The contender's thread may be as late as this one: after a SIGCONT nobody has been notified of anything (F2, F60).
        if self.over.is_set():
            return NotLeader(f"term {self.epoch} is over: {self._why}")
        if self.client.link in (Link.LOST, Link.CLOSED):
            return self._give_up("its session is gone")
        if boottime_s() >= self.client.last_success_at_s + self._timeout_s:
            return self._give_up(
                f"no answer from ZooKeeper to anything sent in the last {self._timeout_s:g} s"
            )
        if self._paused or self.client.link is not Link.CONNECTED:
            return NotSent("the connection to ZooKeeper is down: nothing new is started until it is back")
        return None

    def _give_up(self, why: str) -> NotLeader:
        """Ends the term for good, whatever is heard later, and notifies the contender."""
        self.end(why)
        self._depose(why)
        return NotLeader(f"term {self.epoch} is over: {why}")
