"""Makes the document of ``status -o json``, which is also that of ``/api/status`` of any supervisor (both are
equal).

The command line and the daemon's HTTP server call it. It reads, never writes. ``zookeeper.session`` is the
session time that ZooKeeper granted, so that any two processes that ask get the same answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from supervisor.clock import boottime_s, wall_s
from supervisor.errors import SupervisorError
from supervisor.model.acceptance import why_held
from supervisor.model.labels import unpacked
from supervisor.model.load import Load, absent_of, loads_of
from supervisor.model.records import Cordon, EpochRecord, LeaderHint, Member, Pause
from supervisor.model.seen import Found, Seen, Unreadable
from supervisor.model.view import SeenAcceptance, cordoned_by
from supervisor.observe import listing
from supervisor.observe.observer import Observer
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkSession
from supervisor.records.reading import seen
from supervisor.settings.units import format_duration


@dataclass(frozen=True, slots=True)
class ClusterConfiguration:
    """Holds what a process knows of its cluster from its own configuration."""

    cluster: str
    hosts: str
    store_url: str


def take_status(
    zoo: ZkSession, layout: Layout, configuration: ClusterConfiguration, session_s: float, store_ok: bool
) -> dict[str, Any]:
    """Returns the document, from a full and fresh read. ``session_s`` is the session time as granted. Raises
    Unreachable.
    """
    zoo.sync()
    view = Observer(zoo, layout, boottime_s, epoch=0).take_view(None)
    leader: Seen[LeaderHint] = seen(LeaderHint, zoo.read(layout.leader), layout.leader)
    epoch: Seen[EpochRecord] = seen(EpochRecord, zoo.read(layout.epoch), layout.epoch)
    leads = leader.record.supervisor if isinstance(leader, Found) else None
    loads = loads_of(view.rows.values())
    members = sorted(view.members.values(), key=lambda member: member.id)
    return {
        "cluster": configuration.cluster,
        "leader": leads,
        "epoch": epoch.record.epoch if isinstance(epoch, Found) else None,
        "supervisors": [
            _supervisor(
                member,
                member.id == leads,
                loads.get(member.id, Load()).drivers,
                view.cordons.get(member.id),
            )
            for member in members
        ],
        "absent": [asdict(absent) for absent in absent_of(view.rows.values(), view.members)],
        "zookeeper": {
            "state": "connected",
            "hosts": configuration.hosts,
            "session": format_duration(session_s),
        },
        "store": {"url": configuration.store_url, "ok": store_ok},
        "jobs": listing.counted(listing.take_rows(zoo, layout, view, wall_s())),
        "paused": view.paused,
        "pause": pause_document(view.pause),
        "distrust": _distrust(leader, members),
        "accepted": _accepted(view.accepted),
    }


def unreachable_status(configuration: ClusterConfiguration, store_ok: bool) -> dict[str, Any]:
    """Returns the document while ZooKeeper does not answer: what is not known is null."""
    return {
        "cluster": configuration.cluster,
        "leader": None,
        "epoch": None,
        "supervisors": [],
        "absent": [],
        "zookeeper": {"state": "unreachable", "hosts": configuration.hosts, "session": None},
        "store": {"url": configuration.store_url, "ok": store_ok},
        "jobs": {},
        "paused": None,
        "pause": None,
        "distrust": None,
        "accepted": None,
    }


def pause_document(pause: Pause | None) -> dict[str, Any] | None:
    """Returns who paused the cluster, since when and why, or None if it is not paused, or if that can't be
    read.
    """
    return None if pause is None else {"by": pause.by, "since": pause.at, "reason": pause.reason}


def is_ok(check: Callable[[], None]) -> bool:
    """Returns whether the store's own ``check`` passes."""
    try:
        check()
    except SupervisorError:
        return False
    return True


def _distrust(leader: Seen[LeaderHint], members: list[Member]) -> str | None:
    """Returns the leader's reason to act on nothing, else that of a supervisor that starts nothing, or None
    if all trust the registry.
    """
    if isinstance(leader, Found) and leader.record.distrust is not None:
        return leader.record.distrust
    return next(
        (f"{member.id}: {member.distrust}" for member in members if member.distrust is not None), None
    )


def _accepted(acceptance: SeenAcceptance | None) -> dict[str, Any] | None:
    """Returns the latest acceptance of a restored registry. Its ``waiting`` says why nothing is started yet,
    or is null.
    """
    if acceptance is None:
        return None
    if isinstance(acceptance.seen, Unreadable):
        return {"epoch": None, "by": None, "at": None, "waiting": why_held(acceptance.seen)}
    record = acceptance.seen.record
    waiting = None if record.waited else why_held(acceptance.seen)
    return {"epoch": record.epoch, "by": record.by, "at": record.at, "waiting": waiting}


def cordon_document(found: Seen[Cordon]) -> dict[str, Any] | None:
    """Returns what an operator wants of a host, or None if nothing is wanted or it can't be read."""
    if not isinstance(found, Found) or not found.record.cordoned:
        return None
    record = found.record
    return {
        "by": record.by,
        "since": record.at,
        "reason": record.why,
        "draining": record.draining,
        "max_parallel": record.max_parallel if record.draining else None,
    }


def _supervisor(
    member: Member, leads: bool, drivers: int, cordon: Found[Cordon] | Unreadable | None
) -> dict[str, Any]:
    return {
        "id": member.id,
        "host": member.host,
        "address": member.address,
        "leader": leads,
        "capacity": {"memory": member.memory, "drivers": member.drivers, "starting": member.starting},
        "drivers": drivers,
        "prepared": sum(driver.ready for driver in member.prepared),
        "labels": unpacked(member.labels),
        "sparks": list(member.sparks),
        "cordoned": cordon is not None and bool(cordoned_by({member.id: cordon})),
        "cordon": cordon_document(cordon),
        "since": member.since,
        "software": member.software,
        "policy_sha256": member.policy_sha256 or None,
        "api": member.api or None,
    }
