"""Meets the leader's requests for prepared drivers, for the agent: it reads them in the agent's round, and starts drivers in
threads of its own, so that no start of an attempt waits for one.

Before a driver is prepared it is asked, as before a start, whether the registry is to be trusted (I10) and whether the
cluster is paused. What is there already stays meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from supervisor.clients.threads import Pool
from supervisor.clients.zookeeper import ZooClient
from supervisor.daemon.host.launcher import Launcher
from supervisor.daemon.host.prepared import RequestedDriver
from supervisor.daemon.host.prepared_drivers import PreparedDrivers, read_requests
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import (
    AccessDenied,
    GuardFailed,
    OutcomeUnknown,
    SupervisorError,
    TimedOut,
    Unreachable,
)
from supervisor.model.records import HOST_CAUSES, Cause
from supervisor.model.transaction import Create, Transaction
from supervisor.records.ids import new_op_id
from supervisor.records.layout import Layout
from supervisor.spark.refusal import Refused

PREPARE_THREADS = 2


class Preparer:
    """Prepares drivers on the host ``me``. ``doubt`` is that of the agent; ``wake`` ends the pause of its loop."""

    def __init__(
        self,
        me: str,
        layout: Layout,
        launcher: Launcher,
        prepared: PreparedDrivers,
        doubt: Callable[[ZooClient, int], str | None],
        wake: Callable[[], None],
        boundary: ErrorBoundary,
    ) -> None:
        self._me = me
        self._layout = layout
        self._launcher = launcher
        self._prepared = prepared
        self._doubt = doubt
        self._wake = wake
        self._boundary = boundary
        self._pool = Pool(PREPARE_THREADS, "prepare")

    def close(self) -> None:
        self._pool.close()

    def requests(self, client: ZooClient) -> dict[str, RequestedDriver] | None:
        """Returns what is asked for, or None if that is not known. If the parent of the requests is missing there are
        none: it is made, where the cluster knows of prepared drivers at all. Raises Unreachable."""
        names = client.children(self._layout.preparations_of(self._me), self._wake)
        if names is not None:
            return read_requests(client, self._layout, self._me, names)
        if client.read(self._layout.preparations) is not None:
            made = Create(self._layout.preparations_of(self._me), b"")
            try:
                client.commit(Transaction("register", new_op_id(), (made,)))
            except (GuardFailed, OutcomeUnknown):
                return None  # it is seen in the next round
        return {}

    def turn(
        self, client: ZooClient, asked: Mapping[str, RequestedDriver] | None, assigned: Collection[str]
    ) -> None:
        """Discards what is not asked for, and begins to prepare what is. ``assigned`` has the uids that have an assignment
        here, as of a reading after ``asked``."""
        for each in self._prepared.turn(asked, self._launcher.loads(), assigned):
            self._pool.submit(self._prepare, client, each)

    def _prepare(self, client: ZooClient, asked: RequestedDriver) -> None:
        """Runs at the edge of a thread: whatever goes wrong with one request is its trouble alone."""
        try:
            if asked.record is not None and self._may(client, asked):
                self._launcher.bring_up(asked.record)
        except SupervisorError as error:
            cause = error.cause if isinstance(error, Refused) else None
            refused = cause is Cause.POLICY
            passing = isinstance(error, Unreachable | OutcomeUnknown | TimedOut | AccessDenied)
            passing = passing or (cause in HOST_CAUSES and not refused)
            self._prepared.failed(asked.entry, str(error), passing=passing, refused=refused)
        except Exception as error:  # noqa: BLE001 - the edge of one item
            self._boundary.log_error(f"prepare {asked.entry}", error)
            why = f"a defect of the supervisor: {type(error).__name__}: {error}"
            self._prepared.failed(asked.entry, why)
        finally:
            self._prepared.over(asked.entry)

    def _may(self, client: ZooClient, asked: RequestedDriver) -> bool:
        return client.read(self._layout.pause) is None and self._doubt(client, asked.czxid) is None
