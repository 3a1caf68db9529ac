"""Says on which hosts a job may be placed by their labels, Sparks and policies, and which of these spreads its group best.
It is pure.

``placement.require`` and ``spark`` of a spec restrict: a host that lacks one of these labels, or that Spark
(``model.requirements``), is never chosen. ``placement.spread`` only
prefers: the host, or the value of a host's label, where the fewest other jobs of the same group are. A host without
that label counts with the others that lack it. A host whose policy has refused the job is not chosen either
(``model.policies``). All of it is about where a driver is started; one that runs is left alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from supervisor.model.actions import Assign
from supervisor.model.labels import unpacked
from supervisor.model.load import Load
from supervisor.model.policies import refuses
from supervisor.model.records import OCCUPYING, JobRef, Member, Ownership, SchedulingSpec
from supervisor.model.requirements import lacked_by, lacked_by_all
from supervisor.model.seen import Found
from supervisor.model.view import Row
from supervisor.plan.room import why_no_room

BY_HOST: Final = "host"
"""This value of ``spread`` stands for the host itself."""


def why_unfit(member: Member, terms: SchedulingSpec) -> str | None:
    """Returns what ``member`` lacks of what the job requires, as a sentence, or None if it may have the job."""
    lacks = lacked_by(member, terms)
    return f"{member.id} does not have {', '.join(lacks)}" if lacks else None


def why_barred(member: Member, job: JobRef, own: Ownership) -> str | None:
    """Returns why ``member`` may not have ``job``, whatever room it has, as a sentence: what it lacks, or its policy;
    else None."""
    if refuses(member, job, own):
        return f"{member.id} refuses it by its policy"
    return why_unfit(member, job.terms)


def why_not_taken(member: Member, job: JobRef, own: Ownership, load: Load, memory: int) -> str | None:
    """Returns why ``member``, which is open for jobs and carries ``load``, does not take ``job``, whose next attempt needs
    ``memory`` bytes; None if it does. How many drivers start there at the moment is not asked."""
    return why_barred(member, job, own) or why_no_room(member, load, memory)


def why_nowhere(members: Iterable[Member], terms: SchedulingSpec) -> str | None:
    """Returns why none of ``members``, of which there is at least one, may have the job, or None if one may."""
    asked = list(members)
    if not asked or any(why_unfit(member, terms) is None for member in asked):
        return None
    return f"no host has {', '.join(lacked_by_all(asked, terms))}"


class Spread:
    """Counts how many jobs of each group are on each host. What is counted at first are the attempts that occupy their
    host, by ``rows``, and ``in_flight``; ``add`` counts what is planned."""

    def __init__(self, rows: Iterable[Row] = (), in_flight: Iterable[Assign] = ()) -> None:
        self._of_group: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._of_job: dict[str, tuple[str, ...]] = {}
        for row in rows:
            if (
                isinstance(row.ref, Found)
                and isinstance(row.own, Found)
                and row.own.record.state in OCCUPYING
            ):
                self.add(row.ref.record, row.own.record.supervisor)
        for action in in_flight:
            if action.name not in self._of_job:  # else it has been committed
                self.add(action.ref.record, action.host.id)

    def copy(self) -> Spread:
        """Returns a counter of its own with the same counts."""
        other = Spread()
        other._of_group.update({group: Counter(counts) for group, counts in self._of_group.items()})
        other._of_job.update(self._of_job)
        return other

    def add(self, job: JobRef, host: str) -> None:
        """Counts one driver of ``job`` on ``host``, if the job is spread."""
        placement = job.terms.placement
        if placement is not None and placement.spread:
            self._of_group[placement.group][host] += 1
            self._of_job[job.name] = (*self._of_job.get(job.name, ()), host)

    def ranks(self, job: JobRef, members: Mapping[str, Member]) -> Mapping[str, int]:
        """Returns by host how many other jobs of the group are where it is: the lowest is the best. It is empty for a job
        that is not spread."""
        placement = job.terms.placement
        if placement is None or not placement.spread or placement.group not in self._of_group:
            return {}
        others = Counter(self._of_group[placement.group])
        if job.name in self._of_job:
            others.subtract(self._of_job[job.name])
        place_of = {member.id: _place(member, placement.spread) for member in members.values()}
        counts: Counter[str] = Counter()
        for host, count in others.items():
            if host in place_of:
                counts[place_of[host]] += count
        return {host: counts[place] for host, place in place_of.items()}


def _place(member: Member, spread: str) -> str:
    return member.id if spread == BY_HOST else unpacked(member.labels).get(spread, "")
