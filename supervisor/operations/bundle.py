"""Applies specs that were sent with all files that they name, for somebody on another machine.

What was sent is hostile. Its files are written below a folder of their own, and nothing else of this host is read for it: a
spec that names a file which was not sent is refused before anything is opened, and so is one that extends such a file. So
nobody gets a file of the supervisor's user into a job of his, or its lines into a message.
"""

from __future__ import annotations

import base64
import binascii
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

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
from supervisor.operations.requests import WriteRequest
from supervisor.operations.signing import signed
from supervisor.operations.submit import prepare_all
from supervisor.operations.way_back_warning import warn_of_way_back
from supervisor.settings.defaults import Defaults
from supervisor.settings.sections import Section
from supervisor.spec.compose import composed
from supervisor.spec.files import text_of
from supervisor.spec.job import JobSpec, body_of, local_paths, spec_of

PARSED_MAX_CHARACTERS: Final = 8 * 2**20
"""So much YAML is parsed for one bundle, which takes about a minute; 2,000 specs of 4 KiB have room."""
COMPOSED_MAX_CHARACTERS: Final = 64 * 2**20
"""So much is put together for one bundle: each spec counts with all that it extends."""


FILES_MAX: Final = 2000
SET_MAX: Final = 100
PATH_MAX_CHARACTERS: Final = 1000

BundlePath = Annotated[str, Field(min_length=1, max_length=PATH_MAX_CHARACTERS)]


class BundleFile(Section):
    """A file that was sent with the specs: a spec, what one extends, or a file that one names."""

    path: Annotated[BundlePath, Field(description="Relative, like jobs/clicks.yaml; specs name it so.")]
    text: Annotated[str | None, Field(description="Its text.")] = None
    base64: Annotated[str | None, Field(description="Its bytes, in place of text.")] = None

    @model_validator(mode="after")
    def _has_one_content(self) -> BundleFile:
        if (self.text is None) == (self.base64 is None):
            raise ValueError("needs either text or base64")
        return self

    def data(self) -> bytes:
        """Returns its bytes. Raises InvalidInput."""
        if self.text is not None:
            return self.text.encode(errors="surrogatepass")
        try:
            return base64.b64decode(self.base64 or "", validate=True)
        except (binascii.Error, ValueError):
            raise InvalidInput(
                f"the base64 of the file {self.path[:200]!r} can't be decoded",
                "send its bytes in Base64 (RFC 4648, without line breaks), or as text",
            ) from None


@dataclass(frozen=True)
class AppliedBundle:
    """Holds what became of each spec. Its sentences name files below ``folder``; ``shown`` makes them what was sent."""

    applied: Sequence[Applied]
    folder: str

    def shown(self, text: str) -> str:
        return text.replace(f"{self.folder}/", "")


@dataclass(frozen=True)
class ApplyRequest(WriteRequest[AppliedBundle]):
    """Makes jobs what specs say."""

    verb = "apply"
    summary = (
        "Makes jobs what specs say, as apply does. If anything is wrong with any of them, nothing is done."
    )

    specs: Annotated[
        list[BundlePath],
        Field(min_length=1, max_length=FILES_MAX, description="Which of the files are specs to be applied."),
    ]
    files: Annotated[list[BundleFile], Field(max_length=FILES_MAX)]
    set: Annotated[
        list[str], Field(max_length=SET_MAX, description="KEY=VALUE, over what the specs say.")
    ] = field(default_factory=list)
    again: Annotated[
        bool, Field(description="Whether also a spec that was given up or rolled back before is applied.")
    ] = False
    dry_run: Annotated[
        bool, Field(description="Whether it only says what would be done, and does nothing.")
    ] = False
    differences: Annotated[
        bool, Field(description="Whether it also says key by key what differs; only with dry_run.")
    ] = False

    def __post_init__(self) -> None:
        if self.differences and not self.dry_run:
            raise ValueError("has differences, which need dry_run")

    def carry_out(self, context: CommandContext) -> AppliedBundle:
        """Returns what became of each spec, as ``apply`` has it: if anything is wrong with any, nothing is done. Raises
        Unreachable before anything is done."""
        with tempfile.TemporaryDirectory(prefix="spark-supervisor-apply-") as folder:
            bundle = SpecBundle(Path(folder), _bytes_by_path(self.files), self.set)
            return AppliedBundle(_applied(context, bundle, self), folder)


def _bytes_by_path(files: Iterable[BundleFile]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for file in files:
        if file.path in found:
            raise InvalidInput(f"the file {file.path[:200]!r} was sent twice", "send each once")
        found[file.path] = file.data()
    return found


def _applied(context: CommandContext, bundle: SpecBundle, request: ApplyRequest) -> list[Applied]:
    settings = context.settings
    sources = [Path(name) for name in dict.fromkeys(request.specs)]
    sign = partial(signed, settings, None)
    read = prepare_all(sources, settings, context.warn, bundle.read, sign, bundle.folder)
    applied = judge_all(context, read, again=request.again)
    if refuse_all(applied):
        return applied
    warn_of_missing_sparks(context, changed_of(applied))
    warn_of_way_back(context, changed_of(applied))
    if request.differences:
        note_differences(context, applied)
        return applied
    if request.dry_run:
        for one in applied:
            one.why = rollout(one)
        return applied
    for _ in carry_out(context, applied, context.author):
        pass
    return applied


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
