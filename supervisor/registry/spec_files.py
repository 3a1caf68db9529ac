"""The files around a spec on the machine of the one who submits: the spec itself and the local files it names.

Called by ``submit`` and ``doctor`` before anything is stored. A missing or unreadable file is ``InvalidInput`` (exit
code 2) naming it. ``model.spec`` is pure, so the disk is looked at here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from supervisor.errors import InvalidInput
from supervisor.model.spec import SPEC_MAX_BYTES, JobSpec, local_paths, parse_spec, with_uploaded
from supervisor.settings.defaults import Defaults


def read_spec_file(path: Path, defaults: Defaults | None = None) -> JobSpec:
    """The validated spec in ``path``; its local files are not looked at yet. Raises ``InvalidInput``."""
    try:
        with path.open("rb") as file:
            data = file.read(SPEC_MAX_BYTES + 4)  # a byte order mark, and one byte that shows it is too large
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text, or larger than {SPEC_MAX_BYTES // 1024} KiB") from None
    except OSError as error:
        raise InvalidInput(f"spec {path} cannot be read ({error.strerror or error}); check its name") from None
    return parse_spec(text, str(path), defaults)


def local_files(spec: JobSpec, base_dir: Path) -> tuple[Path, ...]:
    """The files to upload, as absolute paths, in the order of ``local_paths(spec)``. Raises ``InvalidInput``.

    ``base_dir``: the directory of the spec file, to which its paths are relative.
    """
    return tuple(_readable(base_dir, written, spec.name) for written in local_paths(spec))


def stored_spec(spec: JobSpec, base_dir: Path, keys: Mapping[Path, str]) -> JobSpec:
    """``spec`` as it goes into the store. ``keys``: file as ``local_files`` names it → its store key."""
    files = zip(local_paths(spec), local_files(spec, base_dir), strict=True)
    return with_uploaded(spec, {written: keys[path] for written, path in files})


def _readable(base_dir: Path, written: str, name: str) -> Path:
    path = (base_dir / written).absolute()
    try:
        with path.open("rb"):
            pass
    except FileNotFoundError:
        raise InvalidInput(
            f"job {name}: file {path} does not exist; '{written}' is relative to the directory of the spec"
        ) from None
    except OSError as error:
        raise InvalidInput(f"job {name}: file {path} cannot be read ({error.strerror or error})") from None
    return path
