"""Defines the answer of a host that will not start an attempt. It is raised in ``spark`` and recorded by the
agent (protocol §5, refuse).

What may be different in a minute (the store does not answer) is never a refusal: it stays ``Unreachable``,
and the agent tries again. ``AccessDenied`` by the store stays so too; the agent makes it a refusal for now,
so that everybody sees the reason and another host can try.
"""

from __future__ import annotations

from supervisor.errors import SupervisorError
from supervisor.model.records import Cause


class Refused(SupervisorError):
    """Says that this host will not start an attempt. ``cause`` is one of ``PERMANENT_CAUSES`` or
    ``HOST_CAUSES`` of ``model.records``."""

    def __init__(self, cause: Cause, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy)
        self.cause = cause
