"""Collects what ``list`` shows: a row for each job, and what the reader must know before any row.

Each time it is a full and fresh read. Called by ``cli.listing`` and ``cli.watch``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from supervisor.cli.output import local_time
from supervisor.cli.reasons import reasons_of
from supervisor.clock import boottime_s, wall_s
from supervisor.model.records import LeaderHint, Pause
from supervisor.observe.listing import JobRow, take_rows, with_reasons
from supervisor.observe.observer import Observer
from supervisor.operations.context import CommandContext
from supervisor.records.reading import seen
from supervisor.spec.site_policy import site_policy


@dataclass(frozen=True)
class ListView:
    """Holds what a list shows. ``paused`` says whether the cluster is paused; ``pause`` says by whom, if that
    can be read.

    ``shared`` has the names of the hosts that have several supervisors, as in ``dev``.
    """

    rows: list[JobRow]
    paused: bool = False
    pause: Pause | None = None
    shared: frozenset[str] = frozenset()

    @property
    def head(self) -> str:
        """Returns what the reader must know before any row if the cluster is paused; else it is empty."""
        if not self.paused:
            return ""
        sentences = "" if self.pause is None else f" by {self.pause.by} since {local_time(self.pause.at)}"
        sentences += f" ({self.pause.reason})" if self.pause is not None and self.pause.reason else ""
        return f"the cluster is paused{sentences}: nothing is started or cleaned; spark-supervisor unpause ends it"


def with_supervisors(list_view: ListView) -> ListView:
    """Returns the view for people: a HOST with several supervisors is shown with the one that has the job."""
    rows = [
        replace(row, host=f"{row.host} ({row.supervisor})") if row.host in list_view.shared else row
        for row in list_view.rows
    ]
    return replace(list_view, rows=rows)


def take_list_view(context: CommandContext, every_uid: bool) -> ListView:
    if context.check() is None:
        return ListView([])
    zoo = context.zoo()
    view = Observer(zoo, context.layout, boottime_s, epoch=0).take_view(None)
    rows = take_rows(zoo, context.layout, view, wall_s(), every_uid=every_uid)

    sentences: dict[str, str] = {}

    def reasons() -> dict[str, str]:
        path = context.layout.leader
        leader, site = seen(LeaderHint, zoo.read(path), path), site_policy(context.settings.policy)
        if view.paused:
            sentences.update(reasons_of(view, leader, site, pause_is_shown=True))
        return reasons_of(view, leader, site)

    rows = with_reasons(rows, reasons)
    rows = [
        replace(row, trouble=sentences[row.name]) if row.state == "pending" and row.name in sentences else row
        for row in rows
    ]
    hosts = Counter(member.host for member in view.members.values())
    return ListView(
        rows, view.paused, view.pause, frozenset(host for host, count in hosts.items() if count > 1)
    )
