"""Implements ``diff``: what ``apply`` would change, key by key. ``operations.apply`` judges and compares."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, Final

from supervisor.cli.api_client import api_of
from supervisor.cli.apply import Paths, SetKey, read_specs
from supervisor.cli.apply_over_api import ask_to_apply
from supervisor.cli.apply_screen import is_refused, said_of_action
from supervisor.cli.options import Chosen, command, over_api
from supervisor.cli.output import notice, print_line
from supervisor.operations.apply import (
    Applied,
    AppliedAction,
    changed_of,
    exit_code_of,
    judge_all,
    note_differences,
)
from supervisor.operations.bundle import ApplyRequest
from supervisor.operations.context import open_commands
from supervisor.operations.live_sparks import warn_of_missing_sparks
from supervisor.operations.way_back_warning import warn_of_way_back

VALUE_MAX: Final = 60


@command
@over_api
def diff(chosen: Chosen, paths: Paths, set_key: SetKey = None) -> int:
    """Say key by key what apply would change, and how that reaches the jobs. Exit code 1: something differs.

    \b
    Examples:
      spark-supervisor diff jobs/
      spark-supervisor diff clicks.yaml --set health.stall_timeout=15m
    """
    api = api_of(chosen)
    if api is not None:
        request = ApplyRequest([], [], list(set_key or ()), again=True, dry_run=True, differences=True)
        applied = ask_to_apply(api, paths, request)
    else:
        applied = _compared(chosen, paths, set_key)
    if is_refused(chosen, applied):
        return exit_code_of(applied)
    if chosen.document:
        chosen.print_document([one.document() for one in applied])
    else:
        _print_differences(one for one in applied if one.action is not AppliedAction.UNCHANGED)
    return 0 if all(one.action is AppliedAction.UNCHANGED for one in applied) else 1


def _compared(chosen: Chosen, paths: Paths, set_key: SetKey) -> list[Applied]:
    settings = chosen.settings()
    read = read_specs(settings, paths, set_key)
    with open_commands(settings, warn=notice) as context:
        applied = judge_all(context, read, again=True)
        if all(one.error is None for one in applied):
            warn_of_missing_sparks(context, changed_of(applied))
            warn_of_way_back(context, changed_of(applied))
            note_differences(context, applied)
    return applied


def _print_differences(changed: Iterable[Applied]) -> None:
    for one in changed:
        print_line(f"{one.name}: would be {said_of_action(one)}; {one.why}")
        for each in one.differences or ():
            before, after = _shown(each.before, each.after)
            print_line(f"  {each.key}: {before} → {after}")


def _shown(before: Any, after: Any) -> tuple[str, str]:
    """Returns two values as text, each in short, from a little before where they differ."""
    texts = [
        "(none)" if each is None else each if isinstance(each, str) else json.dumps(each)
        for each in (before, after)
    ]
    if max(map(len, texts)) <= VALUE_MAX:
        return texts[0], texts[1]
    same = len(os.path.commonprefix(texts))
    start = max(0, same - VALUE_MAX // 3) if same > VALUE_MAX // 2 else 0
    cut = [("…" if start else "") + each[start : start + VALUE_MAX] for each in texts]
    ended = [each[start + VALUE_MAX :] for each in texts]
    return cut[0] + ("…" if ended[0] else ""), cut[1] + ("…" if ended[1] else "")
