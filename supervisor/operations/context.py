"""Provides what one command of the command line works with. Called by ``cli``; no policy here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from supervisor.clients.processes import own_age_s
from supervisor.clients.sessions import KeptSession, connect_within_s, keep_session
from supervisor.clients.store.open import open_store
from supervisor.clients.zookeeper import ZooClient
from supervisor.errors import NotFound, SupervisorError
from supervisor.operations.auditing import Auditor
from supervisor.operations.author import author_of
from supervisor.operations.jobs import JobOperations
from supervisor.records.layout import Layout
from supervisor.registry.access_control import refuse_open_root
from supervisor.registry.audit import AuditLog
from supervisor.registry.blobs import Blobs
from supervisor.registry.bootstrap_cluster import ClusterIdentity, bootstrap_or_check, check_known
from supervisor.spec.s3a import access_of_store, asked

Operations = TypeVar("Operations", bound=JobOperations)

if TYPE_CHECKING:
    from supervisor.clients.store.base import Store
    from supervisor.model.records import Cluster
    from supervisor.settings.file import Settings

COMMAND_STORE_DEADLINE_S = 6.0
"""This is shorter than the daemon's: a command reports within 15 s that the store is down, including the time
to connect to ZooKeeper."""


def layout_of(settings: Settings) -> Layout:
    return Layout(settings.zookeeper.root)


def identity_of(settings: Settings) -> ClusterIdentity:
    """Returns who this process is configured to be, for the bootstrap and the check of the cluster."""
    return ClusterIdentity(settings.cluster, settings.zookeeper.root, settings.store.url)


def store_of(settings: Settings, deadline_s: float | None = None) -> Store:
    """Returns the store of ``settings``, without I/O yet. ``deadline_s`` bounds each call; None means the
    daemon's bound."""
    store, wishes = settings.store, asked(access_of_store(settings.store))
    if deadline_s is None:
        return open_store(store.url, store.endpoint_url, store.region, asked=wishes)
    return open_store(store.url, store.endpoint_url, store.region, deadline_s, wishes)


# -- what a command needs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CommandContext:
    """Holds what a command works with. It connects at the first use, and to ZooKeeper and the store
    separately on purpose: a cancel needs no store. ``warn`` is told what a user should know. ``acting_for`` is who asked
    this process for it, where that is not who runs it (``operations.author: operator_as_author``)."""

    settings: Settings
    sessions: KeptSession[ZooClient]
    layout: Layout
    warn: Callable[[str], None] = lambda _why: None
    acting_for: str | None = None

    @cached_property
    def commands(self) -> JobOperations:
        return self.operations(JobOperations)

    def operations(self, kind: type[Operations]) -> Operations:
        """Returns ``kind`` of operations, in the name of who gives this command."""
        return kind(self.sessions, self.layout, lambda: self.author, self.auditor)

    @cached_property
    def auditor(self) -> Auditor:
        """Returns what writes down who asks for a write, as the settings say."""
        audit = self.settings.audit
        log = AuditLog(self.store, self.zoo, self.layout) if audit.store else None
        return Auditor(log, lambda: self.author, audit.syslog, required=audit.required, warn=self.warn)

    @cached_property
    def author(self) -> str:
        """Returns who gives this command (``operations.author``). Raises Unreachable."""
        if self.acting_for is not None:
            return self.acting_for
        return author_of(self.zoo(), self.settings.zookeeper.access)

    def zoo(self) -> ZooClient:
        """Returns the client, connected. Raises Unreachable."""
        return self.sessions.zoo()

    def check(self) -> Cluster | None:
        """Returns the cluster at the root, as ``registry.bootstrap_cluster.check_known`` does.

        None means that nothing was ever submitted here.
        """
        return check_known(self.zoo(), self.layout, identity_of(self.settings))

    def bootstrap_or_check(self, blobs: Blobs) -> Cluster:
        """Bootstraps the cluster, or checks that ZooKeeper and the store both belong to it.

        To be called before the first write that needs the store.
        """
        return bootstrap_or_check(self.zoo(), self.layout, blobs, identity_of(self.settings))

    def blobs(self) -> Blobs:
        return Blobs(self.store())

    def store(self) -> Store:
        """Returns the store, the same at each call: a client for S3 takes a while to make."""
        return self._store

    @cached_property
    def _store(self) -> Store:
        return store_of(self.settings, COMMAND_STORE_DEADLINE_S)


def require_submitted(context: CommandContext, name: str) -> None:
    """Raises NotFound if there is no registry yet, so that no job can be named ``name``."""
    if context.check() is None:
        raise NotFound(
            f"no job is named {name}: nothing was ever submitted at {context.settings.zookeeper.root}"
        )


@contextmanager
def open_commands(
    settings: Settings, *, enforces: bool = True, warn: Callable[[str], None] = lambda _why: None
) -> Iterator[CommandContext]:
    """Opens the registry for one command. Its session is closed at the end, within two seconds.

    With ``zookeeper.acl: enforce`` a root that is open is refused at the first use, unless ``enforces`` is False: for the
    command that mends it.
    """
    zookeeper, layout = settings.zookeeper, layout_of(settings)
    is_enforced = enforces and zookeeper.acl == "enforce"
    sessions = keep_session(
        zookeeper.hosts,
        zookeeper.session_timeout_s,
        connect_within_s(own_age_s()),
        access=zookeeper.access,
        check=(lambda zoo: refuse_open_root(zoo, layout)) if is_enforced else None,
    )
    try:
        yield CommandContext(settings, sessions, layout, warn)
    finally:
        with suppress(SupervisorError):  # what was answered stands, whatever becomes of the session
            sessions.close()
