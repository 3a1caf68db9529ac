"""Prints what ``apply`` did, or would do: of each spec, and that nothing was done. ``cli.apply`` and ``cli.apply_over_api``
share it."""

from __future__ import annotations

from supervisor.cli.options import Chosen
from supervisor.cli.output import notice, print_line
from supervisor.cli.submit import complaints
from supervisor.operations.apply import Applied, AppliedAction, refuse_all


def is_refused(chosen: Chosen, applied: list[Applied]) -> bool:
    """Returns whether anything is wrong with any file, and says all of it: then nothing is done of any."""
    refused = [one for one in applied if one.error is not None]
    if not refused:
        return False
    for one in refused:
        for sentence in complaints(one.error) if one.error is not None else ():
            notice(f"error: {sentence if str(one.source) in sentence else f'{one.source}: {sentence}'}")
    if len(applied) > 1:
        notice(f"nothing was done: {len(refused)} of {len(applied)} specs are refused")
    if chosen.document:
        refuse_all(applied)
        chosen.print_document([one.document() for one in applied])
    return True


def print_unchanged(applied: list[Applied]) -> None:
    """Says which are left as they are: in one line, but those of which there is more to say."""
    unchanged = [one for one in applied if one.action is AppliedAction.UNCHANGED]
    for one in unchanged:
        if one.judged_why:
            print_applied(one, "")
    unchanged = [one for one in unchanged if not one.judged_why]
    if unchanged:
        names = ", ".join(str(one.name) for one in unchanged[:3])
        more = f" and {len(unchanged) - 3} more" if len(unchanged) > 3 else ""
        print_line(f"{names}{more}: unchanged")


def print_applied(one: Applied, would: str) -> None:
    """Says what became of a spec; ``would`` stands before it in a dry run."""
    if one.error is not None:
        notice(f"error: {one.error}")
        return
    why = f"; {one.why}" if one.why else ""
    print_line(
        f"{one.name}: {would if one.action is not AppliedAction.UNCHANGED else ''}{said_of_action(one)}{why}"
    )


def said_of_action(one: Applied) -> str:
    """Returns its action, with the number of the revision that an update leads to."""
    assert one.action is not None
    return (
        f"{one.action.value} to revision {one.revision}"
        if one.action is AppliedAction.UPDATED
        else one.action.value
    )
