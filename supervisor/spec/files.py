"""Reads the files around a spec on the machine of the user who submits: the spec itself and the local files
it names.

It is called by ``submit`` and ``doctor`` before anything is stored. A missing or unreadable file is
``InvalidInput`` (exit code 2) naming it. ``spec.job`` is pure, so the disk is read here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from supervisor.errors import InvalidInput
from supervisor.settings.defaults import Defaults
from supervisor.settings.small_files import read_small, shortened
from supervisor.spec.compose import composed
from supervisor.spec.job import SPEC_MAX_BYTES, JobSpec, local_paths, spec_of, with_uploaded

UPLOAD_MAX_BYTES: Final = 2 << 30
"""One file may have this many bytes. It goes to the store at each submit, and to each host that starts the
job.
"""


def read_spec_file(path: Path, defaults: Defaults | None = None) -> JobSpec:
    """Returns the validated spec in ``path``, with what it extends; its local files are not checked yet. Raises
    ``InvalidInput``.
    """
    body, origins = composed(path, read_text)
    elsewhere = {key: origin for key, origin in origins.items() if not origin.startswith(f"{path}:")}
    return spec_of(body, str(path), defaults, elsewhere)


def read_located(path: Path, defaults: Defaults | None = None, changes: Iterable[str] = ()) -> JobSpec:
    """Returns the spec in ``path`` with ``changes`` (``KEY=VALUE``) over it. Raises ``InvalidInput`` that names file, line
    and key of each error."""
    body, origins = composed(path, read_text, changes)
    return spec_of(body, str(path), defaults, origins)


def read_text(path: Path) -> str:
    """Returns the text of a spec, or of one that it extends. Raises ``InvalidInput``."""
    try:
        return text_of(path, read_small(path, SPEC_MAX_BYTES + 3))  # with a byte order mark
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name is impossible"
        raise InvalidInput(f"spec {shortened(path)} cannot be read ({why})", "check its name") from None


def text_of(path: Path, data: bytes) -> str:
    """Returns the text of a spec whose bytes are ``data``; ``path`` is for messages. Raises ``InvalidInput``."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        large = len(data) > SPEC_MAX_BYTES
        why = f"larger than {SPEC_MAX_BYTES // 1024} KiB" if large else "not UTF-8 text; save it as UTF-8"
        raise InvalidInput(f"{path} is {why}") from None


def local_files(spec: JobSpec, base_dir: Path) -> tuple[Path, ...]:
    """Returns the files to upload, as absolute paths, in the order of ``local_paths(spec)``. Raises
    ``InvalidInput``.

    ``base_dir`` is the directory of the spec file, to which its paths are relative.
    """
    return tuple(_readable(base_dir, written, spec.name) for written in local_paths(spec))


def stored_spec(spec: JobSpec, base_dir: Path, keys: Mapping[Path, str]) -> JobSpec:
    """Returns ``spec`` as it goes into the store. ``keys`` maps each file as ``local_files`` names it to its
    store key.
    """
    files = zip(local_paths(spec), local_files(spec, base_dir), strict=True)
    return with_uploaded(spec, {written: keys[path] for written, path in files})


def _readable(base_dir: Path, written: str, name: str) -> Path:
    path = (base_dir / written).absolute()
    try:
        # of a FIFO, nobody is waited for
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb"):
            status = os.fstat(descriptor)
    except FileNotFoundError:
        raise InvalidInput(
            f"job {name}: file {path} does not exist", f"'{written}' is relative to the directory of the spec"
        ) from None
    except OSError as error:
        raise InvalidInput(f"job {name}: file {path} cannot be read ({error.strerror or error})") from None
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(f"job {name}: {path} is not a regular file", f"'{written}' must name one")
    if status.st_size > UPLOAD_MAX_BYTES:
        raise InvalidInput(
            f"job {name}: file {path} is larger than the {UPLOAD_MAX_BYTES >> 30} GiB that are uploaded",
            "put it on every host and name it as local:/path, or on S3 and name it as s3://bucket/key",
        )
    return path
