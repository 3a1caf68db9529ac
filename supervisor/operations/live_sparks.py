"""Tells who submits a job that no live host has the Spark that it asks for. That is no reason to refuse the job: such a
host may come up later, and until then the job waits, or goes on as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from supervisor.errors import SupervisorError
from supervisor.model.records import Member
from supervisor.model.requirements import has_spark, spark_in_words
from supervisor.model.seen import Found, Seen
from supervisor.operations.context import CommandContext
from supervisor.operations.submit import Prepared
from supervisor.records.reading import seen_all


def warn_of_missing_sparks(context: CommandContext, jobs: Iterable[Prepared]) -> None:
    """Warns of each of ``jobs`` whose Spark no live host has. It reads nothing if none asks for one, and says nothing while
    no host is up, or if ZooKeeper does not answer now: what was submitted stands."""
    asking = [job for job in jobs if job.spec.spark is not None]
    if asking:
        with suppress(SupervisorError):
            _warn(context, asking)


def _warn(context: CommandContext, asking: Iterable[Prepared]) -> None:
    layout, zoo = context.layout, context.zoo()
    paths = [layout.supervisor(name) for name in zoo.children(layout.supervisors) or ()]
    found: list[Seen[Member]] = seen_all(Member, paths, zoo.read_many(paths).nodes)
    members = [each.record for each in found if isinstance(each, Found)]
    for job in asking:
        terms = job.spec.scheduling()
        if members and not any(has_spark(member, terms) for member in members):
            what = spark_in_words(job.spec.spark or "")
            context.warn(
                f"{job.source}: no host that is up has {what}: {job.name} does not start until one has"
            )
