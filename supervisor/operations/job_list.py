"""Defines what ``list`` shows. It stands apart from how that is taken (``operations.listing``), because the API's client has
it from a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from supervisor.model.job_row import JobRow
from supervisor.model.records import Pause


@dataclass(frozen=True)
class JobList:
    """Holds what a list shows. ``paused`` says whether the cluster is paused; ``pause`` says by whom, if that
    can be read.

    ``shared`` has the names of the hosts that have several supervisors, as in ``dev``. ``is_bootstrapped`` says whether
    there is a registry: if not, nothing was ever submitted.
    """

    rows: list[JobRow]
    paused: bool = False
    pause: Pause | None = None
    shared: frozenset[str] = frozenset()
    is_bootstrapped: bool = True

    def document(self) -> list[dict[str, Any]]:
        """Returns the document of ``list -o json``."""
        return [row.document() for row in self.rows]


@dataclass(frozen=True)
class WantedJobs:
    """Says which jobs a list is to have: all, or those of ``names`` or with the labels of ``selector``. ``chooses`` says the
    same of a row. With ``every_uid`` it has all submissions that are kept."""

    chooses: Callable[[JobRow], bool]
    names: tuple[str, ...] = ()
    selector: tuple[str, ...] = ()
    every_uid: bool = False


def shared_hosts(hosts: Iterable[str]) -> frozenset[str]:
    """Returns which of the ``hosts`` of all supervisors have several of them."""
    return frozenset(host for host, count in Counter(hosts).items() if count > 1)
