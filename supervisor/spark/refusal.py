"""The answer of a host that will not start an attempt. Raised in ``spark``, recorded by the agent (DESIGN §5, refuse).

What may be different in a minute (the store does not answer, credentials were just refused) is never a refusal: it
stays ``Unreachable`` or ``AccessDenied``, and the agent tries again.
"""

from __future__ import annotations

from supervisor.errors import SupervisorError
from supervisor.model.records import Cause


class Refused(SupervisorError):
    """``cause``: one of ``model.records.PERMANENT_CAUSES``; the message: one sentence with the remedy."""

    def __init__(self, cause: Cause, sentence: str) -> None:
        super().__init__(sentence)
        self.cause = cause
