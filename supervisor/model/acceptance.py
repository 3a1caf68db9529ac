"""Computes how long an accepted restore holds every start back, and makes the sentence that says so. It is
pure; ``plan`` and ``status`` use it.
"""

from __future__ import annotations

from supervisor.model.lease_terms import LEASE_MIN_S, LONGEST_WAIT_S, full_wait_s
from supervisor.model.records import Acceptance
from supervisor.model.seen import Found, Unreadable


def wait_of_s(acceptance: Acceptance) -> float:
    """Returns the longest full wait that a spec in the store leads to. A wait that no spec can lead to was not
    written by this software: the cap is returned then.
    """
    believable = full_wait_s(LEASE_MIN_S) <= acceptance.wait_s <= LONGEST_WAIT_S
    return acceptance.wait_s if believable else LONGEST_WAIT_S


def why_held(accepted: Found[Acceptance] | Unreadable) -> str:
    """Returns one sentence. It has no seconds that count down, because it stands in an alarm."""
    if isinstance(accepted, Unreadable):
        return f"nothing is started, for it can't be told when a restored registry was accepted: {accepted.reason}"
    record = accepted.record
    return (
        f"nothing is started for {wait_of_s(record):.0f} s after a leader has seen that {record.by} accepted the restored "
        f"registry ({record.at}): drivers of the lost state may run until then"
    )
