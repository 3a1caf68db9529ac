"""Runs the preflight of a start on this host: is the checkpoint there that the job left? ``launcher`` calls
it, beside the preparation of the files and, on S3, beside the start of the driver, so that it costs no time.

A PySpark driver waits at the start barrier, before the application's first line (``spark/bootstrap.py``). A
JVM application runs no code of this project that could wait, so there the check comes before exec. What
cannot be checked (HDFS, or S3 with credentials that only the job has) is started all the same, and that is
logged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

import structlog

from supervisor.checkpoint.opening import open_checkpoint
from supervisor.checkpoint.preflight import preflight, preflight_of_first
from supervisor.clients.threads import run_in_thread
from supervisor.clock import boottime_s
from supervisor.errors import AccessDenied, InvalidInput, Unreachable
from supervisor.model.checkpoint_expectation import CheckpointExpectation, queries_of
from supervisor.model.location import normalise
from supervisor.model.records import Assignment, Cause
from supervisor.spark.refusal import Refused
from supervisor.spec.s3a import S3Access, bucket_of

log = structlog.get_logger(__name__)


class KnownCheckpoint(NamedTuple):
    """Holds what the registry knows of the job's checkpoint. ``remembered`` is what a start has to find
    there; it goes with the launch, for the next start. ``previous_user`` is the job that committed batches there
    before; it matters at a first start only."""

    location: str | None = None
    remembered: CheckpointExpectation | None = None
    previous_user: str = ""


class PreflightCheck:
    """Runs a check of a checkpoint beside what its owner does, in a thread for which nobody has to wait.

    ``check`` is called in that thread; None means that there is nothing to check, and that the check is over.
    """

    def __init__(self, check: Callable[[], None] | None = None, *, may_last: bool = False) -> None:
        self.took_s = 0.0
        self._may_last = may_last
        self._over: Future[None] = Future()
        if check is None:
            self._over.set_result(None)
            return
        try:
            self._over = run_in_thread("checkpoint", partial(self._run, check))
        except RuntimeError as error:
            self._over.set_exception(
                Unreachable(f"no thread can be started for it ({error})", "make room on this host")
            )

    @property
    def may_be_awaited_later(self) -> bool:
        """Says whether the check is not over and may take its time. It is so neither for a first start,
        because that the job was claimed there is taken for a sign that what others left was checked
        (``agent._known``), nor for a directory, which answers at once, or hangs."""
        return self._may_last and not self._over.done()

    @property
    def has_no_answer(self) -> bool:
        """Says whether the check is over and nothing is known."""
        error = self._over.exception() if self._over.done() else None
        return error is not None and not isinstance(error, Refused)

    def wait(self) -> None:
        """Waits until the check is over, whatever its result."""
        self._over.exception()

    def wait_for_answer(self) -> None:
        """Awaits the end of the check.

        Raises Refused (``BAD_CHECKPOINT``, with finding and remedy) and Unreachable (nothing is known: it is
        tried again).
        """
        self._over.result()

    def then(self, work: Callable[[], None]) -> None:
        """Calls ``work`` when the check is over: in its thread, or in the caller's if it is over already."""
        self._over.add_done_callback(lambda _over: work())

    def _run(self, check: Callable[[], None]) -> None:
        began_at_s = boottime_s()
        try:
            check()
        finally:
            self.took_s = boottime_s() - began_at_s


def check_of(
    given: Assignment, known: KnownCheckpoint, store: S3Access, conf: Callable[[], Mapping[str, str]]
) -> PreflightCheck:
    """Begins a check. ``conf`` returns the properties of the job, in the thread of the check."""
    expected, location = queries_of(known.remembered), known.location
    if location is None or not (expected or known.previous_user):
        return PreflightCheck()
    is_s3 = bucket_of(normalise(location)) is not None
    return PreflightCheck(
        lambda: _check(given, location, known, conf(), store), may_last=bool(expected) and is_s3
    )


def _check(
    given: Assignment, location: str, known: KnownCheckpoint, conf: Mapping[str, str], store: S3Access
) -> None:
    fields = {"job": given.name, "uid": given.uid, "attempt": given.attempt}
    try:
        tree = open_checkpoint(location, conf, store)
        if tree is None:
            return  # nobody but Spark can check it
        expected = queries_of(known.remembered)
        found = preflight(tree, expected) if expected else preflight_of_first(tree, known.previous_user)
    except Unreachable as error:
        raise Unreachable(f"the checkpoint {location} can't be looked at: {error}") from error
    except (AccessDenied, InvalidInput) as error:
        log.warning(
            "checkpoint_not_checked",
            **fields,
            checkpoint=location,
            why=str(error),
            next="started all the same",
        )
        return
    if found is not None:
        raise Refused(Cause.BAD_CHECKPOINT, found.sentence, found.remedy)
    log.info("checkpoint_checked", **fields, checkpoint=location, requests=tree.requests)
