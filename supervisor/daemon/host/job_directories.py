"""Removes the working directories of jobs that are gone.

They outlive attempts (``spark.attempt_place``), so they go by what the registry says of the job. It is **gone** when
there is neither its reference nor its result: then nobody can ask for it any more. With ``checkpoint_on_cancel: delete``
what it has written here goes as its checkpoint does: when it was cancelled and its result is clean. All doubt keeps a
directory: a registry that is not trusted, not read or another one, a record that can't be read, an attempt that is here. A
job that is in neither place is asked for once more after ``GONE_FOR_S``: a resume moves it from one to the other, and the
two are not read at one instant. A clean result that was found is a proof by itself.

A directory is only put aside here, by a rename; ``leftovers`` removes it, as the user that has written it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

import structlog

from supervisor.clock import boottime_s
from supervisor.daemon.host.leftovers import Leftovers
from supervisor.model.records import Cleanliness, JobRef, Outcome, Result
from supervisor.model.seen import Found, Seen
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkSession
from supervisor.records.reading import seen_all
from supervisor.spark.attempt_place import JobAbout, read_about

log = structlog.get_logger(__name__)

EVERY_S: Final = 300.0
GONE_FOR_S: Final = 600.0


class JobDirectories:
    """Sweeps ``jobs``, of the jobs of ``registry`` (its id). ``doubt`` says why what the registry says must not be acted
    upon, or returns None; ``client`` returns its client, or None. ``hosted`` returns the uids that have an attempt or a
    prepared driver here, or are about to."""

    def __init__(
        self,
        jobs: Path,
        leftovers: Leftovers,
        registry: str,
        layout: Layout,
        client: Callable[[], ZkSession | None],
        doubt: Callable[[ZkSession], str | None],
        hosted: Callable[[], Collection[str]],
    ) -> None:
        self._jobs = jobs
        self._leftovers = leftovers
        self._registry = registry
        self._layout = layout
        self._client = client
        self._doubt = doubt
        self._hosted = hosted
        self._asked_at_s = float("-inf")
        self._gone_since_s: dict[Path, float] = {}

    def sweep(self, now_s: float | None = None) -> None:
        """Puts the directories of jobs aside that are gone. Raises OSError if they can't be listed, SupervisorError if the
        registry can't be read."""
        now_s = boottime_s() if now_s is None else now_s
        client = self._client()
        if now_s - self._asked_at_s < EVERY_S or client is None:
            return
        self._asked_at_s = now_s
        abouts = {path: about for path in self._there() if (about := self._about(path)) is not None}
        if not abouts or self._doubt(client) is not None:
            return
        gone = self._gone(client, abouts)
        self._gone_since_s = {path: self._gone_since_s.get(path, now_s) for path in gone}
        for path, has_result in gone.items():
            is_proven = has_result or now_s - self._gone_since_s[path] >= GONE_FOR_S
            if is_proven and abouts[path].uid not in self._hosted():
                self._leftovers.put_aside(path)
                log.info(
                    "job_directory_removed", job=abouts[path].name, uid=abouts[path].uid, directory=str(path)
                )

    def _there(self) -> list[Path]:
        try:
            return sorted(self._jobs.iterdir())
        except FileNotFoundError:
            return []

    def _about(self, path: Path) -> JobAbout | None:
        """Returns whose the directory is, if it is of this registry and of no driver here. ``leftovers`` beside them is of
        nobody."""
        try:
            about = read_about(path)
        except OSError:
            return None
        is_ours = about is not None and about.registry == self._registry
        return about if is_ours and about is not None and about.uid not in self._hosted() else None

    def _gone(self, client: ZkSession, abouts: dict[Path, JobAbout]) -> dict[Path, bool]:
        """Returns those of the jobs that are gone, and whether there is a result of each. Raises Unreachable."""
        layout, each = self._layout, list(abouts.values())
        jobs, results = (
            [layout.job(about.name) for about in each],
            [layout.result(about.uid) for about in each],
        )
        nodes = client.read_many((*jobs, *results)).nodes
        found = zip(
            abouts.items(),
            seen_all(JobRef, jobs, nodes[: len(each)]),
            seen_all(Result, results, nodes[len(each) :]),
            strict=True,
        )
        return {
            path: result is not None for (path, about), job, result in found if is_gone(about, job, result)
        }


def is_gone(about: JobAbout, job: Seen[JobRef], result: Seen[Result]) -> bool:
    """Says whether nobody can ask for the job any more, or it was cancelled and what it has written is to go then."""
    if job is not None and not (isinstance(job, Found) and job.record.uid != about.uid):
        return False
    if result is None:
        return True
    return (
        about.delete
        and isinstance(result, Found)
        and result.record.outcome is Outcome.CANCELLED
        and result.record.state is Cleanliness.CLEAN
    )
