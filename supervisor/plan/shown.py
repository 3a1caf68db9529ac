"""Computes the state that is shown of a job in one View, given what the plan of that View says of it."""

from __future__ import annotations

from supervisor.model.actions import Note
from supervisor.model.seen import Found
from supervisor.model.state import Shown, shown_state
from supervisor.model.view import Row, View


def shown_by(row: Row, note: Note | None, view: View) -> Shown:
    """Returns the state that is shown of ``row``. ``note`` is what the plan says of it, or None where the
    leader acts.

    A back-off is over when no note waits for its end. The plan of a registry that is distrusted says nothing
    of back-offs.
    """
    own = row.own.record if isinstance(row.own, Found) else None
    return shown_state(
        row,
        host=view.members.get(own.supervisor) if own is not None else None,
        backoff_is_over=view.distrust is None and (note is None or note.wait_s is None),
        quarantined=note.why if note is not None and note.quarantined and not row.flaws else None,
    )
