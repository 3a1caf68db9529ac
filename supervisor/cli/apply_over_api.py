"""Applies and compares specs by the API of a supervisor: sends them with all files that they name, and prints what
``cli.apply`` prints. ``cli.diff`` calls it, too.

The specs go as they are; the server reads and judges them, with the defaults and the policy of its host. Paths are told
as seen from here, or from the directory that has them all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from supervisor.api.client import ApiClient
from supervisor.api.write_client import WriteClient, bundle_files
from supervisor.cli.apply_screen import is_refused, print_applied, print_unchanged
from supervisor.cli.options import Chosen
from supervisor.cli.output import notice
from supervisor.errors import InvalidInput
from supervisor.operations.apply import Applied, AppliedAction, exit_code_of, spec_files
from supervisor.operations.bundle import ApplyRequest
from supervisor.spec.compose import composed
from supervisor.spec.fields import is_local_path
from supervisor.spec.files import read_text
from supervisor.spec.job import with_files

UNSURE = (5, 6)
"""The exit codes of what was not refused but went wrong while it was done."""


def apply_over_api(
    chosen: Chosen,
    api: ApiClient,
    paths: Sequence[Path],
    changes: Sequence[str],
    *,
    again: bool,
    dry_run: bool,
) -> int:
    """Has the server apply the specs in ``paths``, and returns the worst exit code."""
    request = ApplyRequest([], [], list(changes), again=again, dry_run=dry_run)
    applied = ask_to_apply(api, paths, request)
    if _is_judged_only(applied) and is_refused(chosen, applied):
        return exit_code_of(applied)
    if chosen.document:
        chosen.print_document([one.document() for one in applied])
        return exit_code_of(applied)
    done = applied if dry_run else sorted(applied, key=lambda one: one.action is not AppliedAction.CREATED)
    for one in done:  # what is new is done first
        if one.action is not AppliedAction.UNCHANGED:
            print_applied(one, "would be " if dry_run else "")
    print_unchanged(applied)
    return exit_code_of(applied)


def ask_to_apply(api: ApiClient, paths: Sequence[Path], request: ApplyRequest) -> list[Applied]:
    """Has the server do what ``request`` says with the specs in ``paths``. Prints its notices, and returns what became of
    each."""
    changes = request.set
    sources = spec_files(paths)
    needed = {file for source in sources for file in _needed(source, changes)}
    root = _root(needed)
    sent = {_from(root, file): file for file in needed}
    names = [_from(root, source) for source in sources]
    remote = WriteClient(api).apply(replace(request, specs=names, files=bundle_files(sent)))
    typed = {name: str(source) for name, source in zip(names, sources, strict=True) if name != str(source)}
    applied = [_as_typed(one, typed) for one in remote.applied]
    for sentence in remote.notices:
        notice(_said(sentence, typed))
    return applied


def _needed(source: Path, changes: Sequence[str]) -> list[Path]:
    """Returns the files that a spec is put together from, and those that it names. Raises InvalidInput."""
    found: list[Path] = []

    def read(path: Path) -> str:
        found.append(path)
        return read_text(path)

    def name(given: str) -> str:
        if is_local_path(given):
            _require_relative(source, given)
            found.append(source.parent / given)
        return given

    body, _origins = composed(source, read, changes)
    with_files(body, name)
    return [Path(os.path.normpath(path)) for path in found]


def _require_relative(source: Path, given: str) -> None:
    if Path(given).is_absolute():
        raise InvalidInput(
            f"{source}: {given[:200]!r} can't be sent to a server by this path",
            "name it relative to the spec; one that is on each host is local:/path",
        )


def _root(files: set[Path]) -> Path:
    """Returns the directory from which files are told: this one, or the one that has them all."""
    every = [_absolute(file).parent for file in files]
    here = Path.cwd()
    return here if all(each.is_relative_to(here) for each in every) else Path(os.path.commonpath(every))


def _from(root: Path, file: Path) -> str:
    return str(_absolute(file).relative_to(root))


def _absolute(file: Path) -> Path:
    """Returns the path without ``..``; links in it are left as they are."""
    return Path(os.path.normpath(file.absolute()))


def _as_typed(one: Applied, typed: dict[str, str]) -> Applied:
    """Returns what became of a spec, in which files have the paths by which they were given."""
    one.why = _said(one.why, typed)
    one.source = Path(typed.get(str(one.source), str(one.source)))
    if one.error is not None:
        error = ApiClient.error_of(one.error.exit_code, _said(str(one.error), typed))
        if isinstance(error, InvalidInput) and isinstance(one.error, InvalidInput):
            error.others = tuple(_said(text, typed) for text in one.error.others)
        one.error = error
    return one


def _said(sentence: str, typed: dict[str, str]) -> str:
    for name, path in typed.items():
        sentence = re.sub(rf"(?<![\w/.-]){re.escape(name)}(?![\w/-])", path.replace("\\", r"\\"), sentence)
    return sentence


def _is_judged_only(applied: Sequence[Applied]) -> bool:
    """Says whether nothing was begun, because a spec is refused."""
    return all(one.action is AppliedAction.REFUSED for one in applied) and exit_code_of(applied) not in UNSURE
