"""Applies specs that were sent with all files that they name, for somebody on another machine: called by ``api.writes``.

What was sent is hostile. Its files are written below a folder of their own, and nothing else of this host is read for it: a
spec that names a file which was not sent is refused before anything is opened, and so is one that extends such a file. So
nobody gets a file of the supervisor's user into a job of his, or its lines into a message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

from supervisor.errors import InvalidInput
from supervisor.operations.apply import (
    Applied,
    carry_out,
    changed_of,
    judge_all,
    note_differences,
    refuse_all,
    rollout,
)
from supervisor.operations.context import CommandContext
from supervisor.operations.live_sparks import warn_of_missing_sparks
from supervisor.operations.signing import signed
from supervisor.operations.submit import prepare_all
from supervisor.operations.way_back_warning import warn_of_way_back
from supervisor.settings.defaults import Defaults
from supervisor.spec.compose import composed
from supervisor.spec.files import text_of
from supervisor.spec.job import JobSpec, body_of, local_paths, spec_of

PARSED_MAX_CHARACTERS: Final = 8 * 2**20
"""So much YAML is parsed for one bundle, which takes about a minute; 2,000 specs of 4 KiB have room."""
COMPOSED_MAX_CHARACTERS: Final = 64 * 2**20
"""So much is put together for one bundle: each spec counts with all that it extends."""


@dataclass(frozen=True, slots=True)
class BundleWish:
    """Says which files of a bundle are applied, with ``changes`` (``KEY=VALUE``) over all of them. ``again`` and ``dry_run``
    are as for ``apply``. With ``differences``, nothing is done either, and each says what it would change, as ``diff``."""

    specs: Sequence[str]
    changes: Sequence[str] = ()
    again: bool = False
    dry_run: bool = False
    differences: bool = False


class ParsedSpecs:
    """Parses the specs of one bundle, and each text once: many specs may extend the same. What it takes together is
    bounded. Nobody may change what it returns."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[dict[str, Any], dict[str, int]] | InvalidInput] = {}
        self._parsed_characters = self._composed_characters = 0

    def body_of(self, text: str, source: str) -> tuple[dict[str, Any], dict[str, int]]:
        """Returns what ``spec.job.body_of`` returns. Raises InvalidInput as that does, and when it takes too much."""
        self._composed_characters += len(text)
        if source not in self._known:
            self._parsed_characters += len(text)
            self._require(self._parsed_characters, PARSED_MAX_CHARACTERS, "the specs are")
            try:
                self._known[source] = body_of(text, source)
            except InvalidInput as error:
                self._known[source] = error
        self._require(
            self._composed_characters, COMPOSED_MAX_CHARACTERS, "the specs with all that they extend are"
        )
        found = self._known[source]
        if isinstance(found, InvalidInput):
            raise InvalidInput(*found.complaint)
        return found

    def _require(self, found: int, most: int, what: str) -> None:
        if found > most:
            raise InvalidInput(f"{what} larger than {most >> 20} MiB together", "apply fewer at once")


class SpecBundle:
    """Holds ``files``, bytes by relative path, and writes them below ``folder``, which is empty. Raises InvalidInput for
    a path that leads elsewhere."""

    def __init__(self, folder: Path, files: Mapping[str, bytes], changes: Sequence[str] = ()) -> None:
        self.folder = folder
        self._files = files
        self._changes = changes
        self._parsed = ParsedSpecs()
        for name, data in files.items():
            require_bundle_path(name)
            try:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
            except OSError as error:
                raise InvalidInput(f"the file {name!r} can't be written ({error.strerror})") from None

    def read(self, path: Path, defaults: Defaults) -> JobSpec:
        """Returns the spec at ``path`` of the bundle, as ``spec.files.read_located``. Raises InvalidInput, also if it
        names a local file that was not sent."""
        body, origins = composed(path, self._text, self._changes, self._parsed.body_of)
        spec = spec_of(body, str(path), defaults, origins)
        for written in local_paths(spec):
            self._bytes(path.parent / written, f"job {spec.name}: ")
        return spec

    def _text(self, path: Path) -> str:
        return text_of(path, self._bytes(path))

    def _bytes(self, path: Path, whose: str = "") -> bytes:
        data = self._files.get(os.path.normpath(path))
        if data is None:
            raise InvalidInput(
                f"{whose}the file {str(path)[:200]!r} was not sent with it",
                "send it among the files; one that is on each host is local:/path",
            )
        return data


def require_bundle_path(name: str) -> None:
    """Raises InvalidInput for a path that is no plain relative one."""
    path = PurePosixPath(name)
    is_plain = str(path) == name and not path.is_absolute() and ".." not in path.parts and name != "."
    if not is_plain or not name.isprintable() or any(len(part.encode()) > 255 for part in path.parts):
        raise InvalidInput(
            f"the path {name[:200]!r} of a file leads elsewhere", "name files like jobs/clicks.yaml"
        )


def apply_bundle(context: CommandContext, bundle: SpecBundle, wish: BundleWish) -> list[Applied]:
    """Applies the specs of ``wish``, and returns what became of each, as ``apply`` does: if anything is wrong with any,
    nothing is done. Raises Unreachable before anything is done."""
    settings = context.settings
    sources = [Path(name) for name in dict.fromkeys(wish.specs)]
    sign = partial(signed, settings, None)
    read = prepare_all(sources, settings, context.warn, bundle.read, sign, bundle.folder)
    applied = judge_all(context, read, again=wish.again)
    if refuse_all(applied):
        return applied
    warn_of_missing_sparks(context, changed_of(applied))
    warn_of_way_back(context, changed_of(applied))
    if wish.differences:
        note_differences(context, applied)
        return applied
    if wish.dry_run:
        for one in applied:
            one.why = rollout(one)
        return applied
    for _ in carry_out(context, applied, context.author):
        pass
    return applied
