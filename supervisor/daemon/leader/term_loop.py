"""What the duties of a term have in common beside the controller: whether they may act, and the loop that repeats their step
until the term is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from supervisor.clients.zookeeper import ZooClient
from supervisor.coord.term import Term
from supervisor.daemon.loops.error_boundary import ErrorBoundary
from supervisor.errors import NotLeader, SupervisorError


def never() -> bool:
    return False


@dataclass(frozen=True)
class TermPermission:
    """Whether a duty of ``term`` may act on the registry now. ``is_paused`` returns whether the cluster is paused, as the
    leader saw it last. It saves work and noise; what keeps a deposed leader from harm are the guards of each write."""

    term: Term[ZooClient]
    is_paused: Callable[[], bool] = never

    def may_begin(self) -> bool:
        """Whether something may be begun: not before the epoch is recorded, and never in a registry that is not trusted
        (I10)."""
        return self.term.distrust is None and self.term.recorded and not self.is_paused()

    def may_go_on(self) -> bool:
        """Whether to send the next request of what has begun. It is called before each one, because a step may take long,
        and the registry may be replaced in the middle of it (I10)."""
        return not self.term.over.is_set() and self.term.distrust is None and not self.is_paused()


def repeat(
    step: Callable[[], float | None],
    term: Term[ZooClient],
    boundary: ErrorBoundary,
    *,
    every_s: float,
    interrupted: Callable[[SupervisorError], float] | None = None,
    first_after_s: float | None = None,
) -> None:
    """Calls ``step`` until ``term`` is over. ``step`` returns the seconds until it is called again, or None if nothing is
    left to do in this term. A SupervisorError goes to ``interrupted``, which returns the seconds until the next call. Any
    other error is logged by ``boundary``, and the next call comes after ``every_s`` (I9). The first call comes after
    ``first_after_s``, or ``every_s``."""
    through: tuple[type[Exception], ...] = () if interrupted is None else (SupervisorError,)
    otherwise_s: float | None = every_s
    wait_s: float | None = every_s if first_after_s is None else first_after_s
    while wait_s is not None and not term.over.wait(wait_s):
        try:
            wait_s = boundary.attempt("step", step, otherwise_s, through)
        except NotLeader:
            return
        except SupervisorError as error:
            if interrupted is None:
                raise
            wait_s = interrupted(error)
