"""Says whether a job could be started anywhere now. It is pure.

A driver that runs is stopped in order to be started again only where the answer is yes: for a restart, an update or a roll
back by hand, a move, a drain of its host. ``plan.decide`` and ``plan.moves`` ask before they say that one is to be stopped,
and ``plan.stops`` asks for every stop of a plan once more, when all else has its place.

A host takes the start if it is up, trusts the registry, is not cordoned, has what the job requires, has not refused it by
its policy, and has room. What the driver holds that is to be stopped is counted as free for its own job alone. That hosts
only have enough to start at the moment is no reason: such a slot is free within a minute (``model.load``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from supervisor.model.acceptance import why_held
from supervisor.model.driver_memory import next_memory
from supervisor.model.load import Load
from supervisor.model.phrases import first_few
from supervisor.model.records import JobRef, Member, Ownership
from supervisor.model.requirements import required_of
from supervisor.model.view import View
from supervisor.plan.after_restore import may_start
from supervisor.plan.placement import why_barred, why_not_taken, why_nowhere, why_unfit
from supervisor.plan.room import freed, share_in_use, why_busy
from supervisor.spec.site_policy import SitePolicy


@dataclass(frozen=True, slots=True)
class StartPlace:
    """Says where a job could be started now. ``host`` is None if it can't be, because of ``why``. ``is_busy`` says that all
    hosts with room have enough to start at the moment, and ``why`` names one. With ``unplaceable`` no host that takes
    jobs has what the job requires."""

    host: Member | None = None
    why: str = ""
    is_busy: bool = False
    unplaceable: bool = False


class StartPlaces:
    """Holds which hosts take jobs in one View. ``site`` is what the operator of the leader's host allows."""

    def __init__(self, view: View, site: SitePolicy | None = None) -> None:
        self.cordoned = view.cordoned
        self._members = view.members
        self._site = site or SitePolicy()
        trusting = [m for m in view.members.values() if m.distrust is None]
        self.open_hosts = {m.id: m for m in trusting if m.id not in self.cordoned}
        self._closed = [m for m in trusting if m.id in self.cordoned]
        self._held = _why_nothing_starts(view)

    def for_restart(self, job: JobRef, own: Ownership, loads: Mapping[str, Load]) -> StartPlace:
        """Returns where the job of ``own`` could be started, once its present driver has stopped: at best where that is now.
        ``loads`` is what hosts carry without prepared drivers, that driver included."""
        return self.for_start(job, own, freed(loads, own))

    def for_start(self, job: JobRef, own: Ownership, loads: Mapping[str, Load]) -> StartPlace:
        """Returns where the job of ``own``, which has no driver, could be started."""
        why = self._held or self._site.why_no_checkpoint(job.terms.checkpoint)
        return StartPlace(why=why) if why else self._found(job, own, loads, self.open_hosts.values(), "no")

    def elsewhere(self, job: JobRef, own: Ownership, loads: Mapping[str, Load], to: str = "") -> StartPlace:
        """Returns a host other than the present one on which the job of ``own`` could be started: ``to``, if it is given."""
        why = self._held or self._site.why_no_checkpoint(job.terms.checkpoint)
        if why:
            return StartPlace(why=why)
        others = [m for m in self.open_hosts.values() if m.id != own.supervisor]
        if to and to not in {m.id for m in others if why_unfit(m, job.terms) is None}:
            return StartPlace(why=self.why_not_open(to, job, own))
        return self._found(job, own, loads, [m for m in others if to in ("", m.id)], "no other")

    def _found(
        self, job: JobRef, own: Ownership, loads: Mapping[str, Load], hosts: Iterable[Member], no: str
    ) -> StartPlace:
        hosts = list(hosts)
        fit = [m for m in hosts if why_unfit(m, job.terms) is None]
        if hosts and not fit:
            lacks = f"{no} host has {', '.join(required_of(job.terms))}"
            return StartPlace(why=f"{lacks}{self.but_cordoned()}", unplaceable=True)
        memory, reasons, busy = next_memory(job, own).whole, [], list[tuple[Member, str]]()
        for host in sorted(fit, key=lambda m: (m.id != own.supervisor, *_emptiest(m, loads))):
            load = loads.get(host.id, Load())
            why = why_not_taken(host, job, own, load, memory)
            if why is not None:
                reasons.append(why)
            elif (why := why_busy(host, load)) is None:
                return StartPlace(host)
            else:
                busy.append((host, why))
        if busy:
            return StartPlace(*busy[0], is_busy=True)
        why = f"no room: {first_few(reasons)}" if reasons else self._why_none(no)
        return StartPlace(why=f"{why}{self.but_cordoned()}")

    def _why_none(self, no: str) -> str:
        distrusting = sorted(m.id for m in self._members.values() if m.distrust is not None)
        also = f"; {', '.join(distrusting)} can't trust the registry" if distrusting else ""
        return f"no room: {no} host that takes jobs is up{also}"

    def nowhere(self, job: JobRef) -> str:
        """Returns that no host which takes jobs has what ``job`` requires; empty if one has, or if there is none."""
        nowhere = why_nowhere(self.open_hosts.values(), job.terms)
        closed = sorted(m.id for m in self._closed if why_unfit(m, job.terms) is None)
        if nowhere is None:
            return ""
        return nowhere + (f" ({'; '.join(self.cordoned[host] for host in closed)})" if closed else "")

    def but_cordoned(self) -> str:
        """Returns what there is to add to a reason that names hosts: those that are left out."""
        return (
            f" ({'; '.join(self.cordoned[host] for host in sorted(self.cordoned))})" if self.cordoned else ""
        )

    def why_not_open(self, host: str, job: JobRef, own: Ownership) -> str:
        """Returns why ``job`` can't be placed on ``host``; empty if that is open for it."""
        if host in self.open_hosts:
            return why_barred(self.open_hosts[host], job, own) or ""
        if host in self.cordoned:
            return self.cordoned[host]
        return f"{host} does not trust the registry" if host in self._members else f"{host} is not up"


def _emptiest(host: Member, loads: Mapping[str, Load]) -> tuple[float, str]:
    return share_in_use(host, loads.get(host.id, Load())), host.id


def _why_nothing_starts(view: View) -> str:
    """Returns why no leader starts anything at the moment; empty if one does."""
    if view.accepted is not None and not may_start(view):
        return why_held(view.accepted.seen)
    return "" if view.recorded else "nothing is started until this epoch is recorded in the store"


def goes_on(why: str, own: Ownership, lacks: str) -> str:
    """Returns the sentence of a driver that is not stopped although ``why`` asks for it, since ``lacks`` keeps its job from
    being started again."""
    return f"{why}; attempt {own.attempt} goes on, it could not be started again now: {lacks}"
