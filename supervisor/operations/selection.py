"""Finds jobs by their labels or names, from the records alone: no blob is read, and all records are read at once.

Called by ``cli.several`` and ``operations.pruning``. What the labels of a job are stands in its reference, and in its
result once it has failed. Each job is found with the uid that it has then: what a person is asked about, or a label has
chosen, is that submission, and no later one of its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from supervisor.errors import InvalidInput
from supervisor.model.labels import Selector, parsed_selector
from supervisor.model.records import (
    Desired,
    Fork,
    JobRef,
    Outcome,
    Ownership,
    Promotion,
    Result,
    SchedulingSpec,
)
from supervisor.model.seen import Found, Unreadable
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkReader, ZkSession
from supervisor.records.reading import seen_all


@dataclass(frozen=True, slots=True)
class Selected:
    """Holds a job as it was read: its submission, and the version of its reference. If ``version`` is None it has none,
    because it has failed. ``terms`` is what its spec asks for; None means that nobody knows. ``fork`` and ``promotion`` are
    as in its records. ``replaced_by`` is the job that has its place by a promotion; it is empty if none has."""

    name: str
    uid: str
    version: int | None
    terms: SchedulingSpec | None
    is_suspended: bool = False
    fork: Fork | None = None
    promotion: Promotion | None = None
    submitted_at: str = ""
    replaced_by: str = ""

    @property
    def is_beside_another(self) -> bool:
        """Returns whether it is a fork of another job, or takes or has the place of one."""
        return self.fork is not None or self.promotion is not None

    @property
    def relation(self) -> str:
        """Returns what it is to another job, as a phrase for people; it is empty for a job by itself."""
        phrases = []
        if self.fork is not None:
            phrases.append(f"a fork of {self.fork.of}, made at {self.submitted_at}")
        if self.promotion is not None:
            over, at = self.promotion.over, self.promotion.at
            phrases.append(
                f"in the place of {over} since {at}" if self.promotion.done else f"to be promoted over {over}"
            )
        if self.replaced_by:
            phrases.append(f"replaced by {self.replaced_by}")
        return ", ".join(phrases)

    @property
    def is_left_replaced(self) -> bool:
        """Returns whether it was suspended for the job that has its place now: of the two, that one is to run."""
        return bool(self.replaced_by) and self.is_suspended

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


def named(name: str) -> Selected:
    """Returns a job of which no more than its name is known."""
    return Selected(name, "", None, None)


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
    jobs = _registered(zoo, layout, names)
    return replace(jobs, found=with_replaced(jobs.found))


def jobs_and_failed(zoo: ZkSession, layout: Layout) -> Jobs:
    """Returns all registered jobs, and those whose newest submission has failed, by name. Raises Unreachable."""
    registered = registered_jobs(zoo, layout)
    names = {each.name for each in registered.found} | {*registered.unreadable}
    ended = _newest_ended(
        zoo, layout, [name for name in zoo.children(layout.owns) or () if name not in names]
    )
    failed = tuple(_selected_of(result) for result in ended.values() if result.outcome is Outcome.FAILED)
    found = sorted((*registered.found, *failed), key=lambda each: each.name)
    return Jobs(with_replaced(found), registered.unreadable)


def named_jobs(zoo: ZkSession, layout: Layout, names: Sequence[str]) -> Jobs:
    """Returns the newest submissions of ``names``, also those that were cancelled or have finished, in their order, after a
    sync. What nobody ever submitted is left out. Raises Unreachable."""
    zoo.sync()
    registered = _registered(zoo, layout, names)
    found = {each.name: each for each in registered.found}
    others = [name for name in names if name not in found and name not in registered.unreadable]
    found |= {name: _selected_of(result) for name, result in _newest_ended(zoo, layout, others).items()}
    return Jobs(tuple(found[name] for name in names if name in found), registered.unreadable)


def with_replaced(jobs: Iterable[Selected]) -> tuple[Selected, ...]:
    """Returns ``jobs``, each with the one of them that has its place."""
    jobs = tuple(jobs)
    replaced = {
        (job.promotion.over, job.promotion.uid): job.name
        for job in jobs
        if job.promotion is not None and job.promotion.done
    }
    return tuple(replace(job, replaced_by=replaced.get((job.name, job.uid), "")) for job in jobs)


def _registered(zoo: ZkReader, layout: Layout, names: Sequence[str]) -> Jobs:
    paths = [layout.job(name) for name in names]
    found: list[Selected] = []
    unreadable: list[str] = []
    for name, ref in zip(names, seen_all(JobRef, paths, zoo.read_many(paths).nodes), strict=True):
        if isinstance(ref, Unreadable):
            unreadable.append(name)
        elif ref is not None:
            suspended = ref.record.desired is Desired.SUSPENDED
            found.append(replace(_selected_of(ref.record), version=ref.version, is_suspended=suspended))
    return Jobs(tuple(found), tuple(unreadable))


def _newest_ended(zoo: ZkReader, layout: Layout, names: Sequence[str]) -> Mapping[str, Result]:
    """Returns by name the results of the newest submissions of ``names``, which are not registered."""
    paths = [layout.own(name) for name in names]
    owns = seen_all(Ownership, paths, zoo.read_many(paths).nodes)
    uids = [own.record.newest_uid for own in owns if isinstance(own, Found) and own.record.newest_uid]
    paths = [layout.result(uid) for uid in uids]
    results = seen_all(Result, paths, zoo.read_many(paths).nodes)
    return {result.record.name: result.record for result in results if isinstance(result, Found)}


def _selected_of(record: JobRef | Result) -> Selected:
    return Selected(
        record.name,
        record.uid,
        None,
        record.terms,
        fork=record.fork,
        promotion=record.promotion,
        submitted_at=record.submitted_at,
    )
