"""Records a term's epoch in the store, or that its registry was restored, in a thread beside the term: the
store may be slow or down, and a takeover must not wait.

``coord.contender`` starts it. It tries until it is done, until the registry turns out not to be trusted, or
until the term is over. What it still does for a term that is over is harmless: it creates one object,
create-only, under that term's own number, which was published in the registry before. So it is no task that a
step-down would have to await.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import structlog

from supervisor.clients.threads import BackgroundThread
from supervisor.coord.election import Author
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.term import Term
from supervisor.coord.trust import mark_restored, record_epoch
from supervisor.errors import SupervisorError
from supervisor.growing_pause import GrowingPause

log = structlog.get_logger(__name__)

PAUSE = GrowingPause(first_s=0.5, longest_s=5.0)


def start_recording(
    term: Term[Any],
    store: EpochMarks,
    recent: Mapping[int, Author],
    announce: Callable[[int | None], None],
    on_recorded: Callable[[], None],
) -> BackgroundThread:
    """Starts the thread that records the epoch of ``term``. ``announce`` is the one of
    ``trust.record_epoch``. ``on_recorded`` is called once, when ``term.recorded`` or ``term.distrust`` has
    been set."""
    work = partial(_record, term, store, dict(recent), announce, on_recorded)
    return BackgroundThread(f"epoch-{term.epoch}", work).start()


def start_marking(
    store: EpochMarks,
    epoch: int,
    recent: Mapping[int, Author],
    by: Author,
    over: threading.Event,
) -> BackgroundThread:
    """Starts the thread that leaves in the store that this registry has another past, for leaders that know
    of none (``trust.mark_restored``).

    It tries until it is done, or until ``over`` is set. What it still does then is harmless: a number is
    taken once, and not before the store was seen to know nothing above the registry as it was read.
    """
    return BackgroundThread(f"mark-{epoch}", partial(_mark, store, epoch, dict(recent), by, over)).start()


def _mark(
    store: EpochMarks, epoch: int, recent: Mapping[int, Author], by: Author, over: threading.Event
) -> None:
    while not over.is_set():
        try:
            mark_restored(store, epoch, recent, by)
            return
        except SupervisorError as error:
            log.warning("restore_not_marked", epoch=epoch, why=str(error))
            over.wait(PAUSE.longest_s)
        except Exception:  # the edge of this thread
            log.exception("epoch_recorder_failed", epoch=epoch)
            return


def _record(
    term: Term[Any],
    store: EpochMarks,
    recent: Mapping[int, Author],
    announce: Callable[[int | None], None],
    on_recorded: Callable[[], None],
) -> None:
    failures = 0
    while not term.over.is_set():
        try:
            distrust = record_epoch(store, term.epoch, recent, announce)
        except SupervisorError as error:
            failures += 1
            if failures == 1:
                log.warning("epoch_not_recorded", epoch=term.epoch, why=str(error))
            term.over.wait(PAUSE.after(failures))
            continue
        except Exception:  # the edge of this thread; unrecorded, the leader starts and cleans nothing
            log.exception("epoch_recorder_failed", epoch=term.epoch)
            return
        if term.over.is_set():
            return  # a later term may have been recorded meanwhile, which is no reason for an alarm
        if distrust is None:
            term.set_recorded()
        else:
            log.error("registry_not_trusted", epoch=term.epoch, why=distrust)
            term.set_distrust(distrust)
        on_recorded()
        return
