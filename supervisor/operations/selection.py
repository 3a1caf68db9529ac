"""Finds jobs by their labels, from the records alone: no blob is read, and all records are read at once.

Called by ``cli.several`` and ``operations.pruning``. What the labels of a job are stands in its reference, and in its
result once it has failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from supervisor.errors import InvalidInput
from supervisor.model.labels import Selector, parsed_selector
from supervisor.model.records import Desired, JobRef, Outcome, Ownership, Result, SchedulingSpec
from supervisor.model.seen import Found, Unreadable
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkReader, ZkSession
from supervisor.records.reading import seen_all


@dataclass(frozen=True, slots=True)
class Selected:
    """Holds a job as it was read: its submission, and the version of its reference. If ``version`` is None it has none,
    because it has failed. ``terms`` is what its spec asks for; None means that nobody knows. ``beside`` is the job of which
    it is a fork, or whose place it takes; it is empty for any other job."""

    name: str
    uid: str
    version: int | None
    terms: SchedulingSpec | None
    is_suspended: bool = False
    beside: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        return self.terms.labels if self.terms is not None else ()


@dataclass(frozen=True, slots=True)
class Jobs:
    """Holds the jobs that were read. Of those in ``unreadable`` nobody can say which labels they have."""

    found: tuple[Selected, ...]
    unreadable: tuple[str, ...] = ()

    def selected(self, selector: Selector) -> Jobs:
        """Returns those that ``selector`` chooses, and what can't be read."""
        return Jobs(tuple(each for each in self.found if selector.selects(each.labels)), self.unreadable)


def selector_of(option: str, texts: list[str] | None) -> Selector | None:
    """Returns the selector that was given with ``option``, or None if none was. Raises InvalidInput."""
    if not texts:
        return None
    try:
        return parsed_selector(texts)
    except ValueError as error:
        raise InvalidInput(f"{option} {error}") from None


def registered_jobs(zoo: ZkSession, layout: Layout) -> Jobs:
    """Returns all registered jobs, by name, after a sync. Raises Unreachable."""
    zoo.sync()
    names = sorted(zoo.children(layout.jobs) or ())
    paths = [layout.job(name) for name in names]
    found: list[Selected] = []
    unreadable: list[str] = []
    for name, ref in zip(names, seen_all(JobRef, paths, zoo.read_many(paths).nodes), strict=True):
        if isinstance(ref, Unreadable):
            unreadable.append(name)
        elif ref is not None:
            job = ref.record
            suspended = job.desired is Desired.SUSPENDED
            beside = job.promotion.over if job.promotion is not None else job.fork.of if job.fork else ""
            found.append(Selected(name, job.uid, ref.version, job.terms, suspended, beside))
    return Jobs(tuple(found), tuple(unreadable))


def jobs_and_failed(zoo: ZkSession, layout: Layout) -> Jobs:
    """Returns all registered jobs, and those whose newest submission has failed, by name. Raises Unreachable."""
    registered = registered_jobs(zoo, layout)
    names = {each.name for each in registered.found} | {*registered.unreadable}
    failed = tuple(_failed(zoo, layout, names))
    return Jobs(
        tuple(sorted((*registered.found, *failed), key=lambda each: each.name)), registered.unreadable
    )


def _failed(zoo: ZkReader, layout: Layout, but: set[str]) -> Iterator[Selected]:
    names = [name for name in zoo.children(layout.owns) or () if name not in but]
    paths = [layout.own(name) for name in names]
    owns = seen_all(Ownership, paths, zoo.read_many(paths).nodes)
    uids = [own.record.newest_uid for own in owns if isinstance(own, Found) and own.record.newest_uid]
    paths = [layout.result(uid) for uid in uids]
    for result in seen_all(Result, paths, zoo.read_many(paths).nodes):
        if isinstance(result, Found) and result.record.outcome is Outcome.FAILED:
            record = result.record
            yield Selected(record.name, record.uid, None, record.terms)
