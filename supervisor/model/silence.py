"""Says when a driver that reports nothing is asked whether it works, and from when on its silence means something.
It is pure.

A query reports nothing during a batch, or while it waits for a trigger. So the shim asks the driver (``shim.queries``)
before it takes silence for a stall.
"""

from __future__ import annotations

from typing import Final

PROBE_AFTER: Final = 1 / 4
"""After this share of ``health.stall_timeout`` without a report, the driver is asked."""
PROBE_EVERY: Final = 1 / 6
"""Then it is asked again after each such share."""


def unanswered_after_s(stall_timeout_s: float) -> float:
    """Returns after how many seconds of silence the driver has been asked, and has shown no life."""
    return stall_timeout_s * (PROBE_AFTER + PROBE_EVERY)
