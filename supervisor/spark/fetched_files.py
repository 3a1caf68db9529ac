"""Fetches the files that a spec names: from the store, from a bucket, or from the path where they lie on this host."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from supervisor.clients.opened_as import open_as
from supervisor.clients.store.local import pieces_of, write_chunks
from supervisor.clients.store.open import open_store
from supervisor.errors import Corrupt, InvalidInput, NotFound, Unreachable
from supervisor.model.driver_user import DriverUser
from supervisor.model.records import Cause
from supervisor.spark.arguments import BOOTSTRAP, Files
from supervisor.spark.attempt_place import make_directory
from supervisor.spark.driver_start import DriverStart
from supervisor.spark.placed_files import gather
from supervisor.spark.refusal import Refused
from supervisor.spec.job import JobSpec, named_files, store_key
from supervisor.spec.s3a import S3Access, access_of, asked, bucket_of, for_store

LOCAL: Final = "local:"
TOGETHER: Final = "application"
"""The directory below ``files`` in which a Python application lies beside the files of its spec."""

FetchStored = Callable[[str], Path]
"""Takes a key of the store and returns a verified file on this host (``Blobs.fetch_artifact``)."""


def fetch_files(start: DriverStart, fetch_stored: FetchStored) -> Files:
    """Returns the files of the spec on this host. Raises ``Refused``, ``Unreachable``, ``AccessDenied``."""
    spec, work_dir, store = start.spec, start.place.work_dir, start.store

    def path_of(named: str, *, kept: bool = False) -> str:
        return str(_path_of(named, spec, work_dir, fetch_stored, store, start.user, kept=kept))

    found = Files(
        path_of(spec.application),
        tuple(path_of(file) for file in spec.py_files),
        # A jar that every host has keeps its local:, so that Spark does not copy it to the executors.
        tuple(f"{LOCAL if stays(jar, spec) else ''}{path_of(jar)}" for jar in spec.jars),
        path_of(spec.python.archive) if spec.python.archive is not None else "",
        tuple(path_of(file, kept=True) for file in spec.files),
    )
    if not found.files or not spec.is_python or stays(spec.application, spec):
        return found
    together = start.files / TOGETHER
    make_directory(together)
    application = gather(Path(found.application), found.by_name(), together)
    return replace(found, application=str(application))


def stays(named: str, spec: JobSpec) -> bool:
    """Says whether the file is used where it lies. One that is pinned is copied, so that it is what was verified."""
    return named.startswith(LOCAL) and named not in spec.sha256


def _path_of(
    named: str,
    spec: JobSpec,
    work_dir: Path,
    fetch_stored: FetchStored,
    store: S3Access,
    user: DriverUser | None = None,
    *,
    kept: bool = False,
) -> Path:
    """Returns the file on this host. What lies on it already is opened as ``user``: by the supervisor's own rights, a job
    would be given whatever somebody makes that path lead to. What is to be ``kept`` is copied from there, for it is to be
    read later."""
    try:
        path = _fetch(named, spec, work_dir, fetch_stored, store)
    except (NotFound, Corrupt, InvalidInput) as error:
        raise Refused(Cause.BAD_ARTIFACT, str(error)) from error
    try:
        file = open_as(str(path), user if named.startswith(LOCAL) else None)
    except InvalidInput as error:
        raise Refused(Cause.BAD_ARTIFACT, f"{named}: {error}", "put it there") from error
    with file:
        pinned = spec.sha256.get(named)
        is_copied = pinned is not None or (kept and named.startswith(LOCAL))
        if not is_copied:
            return path
        return _copied(named, path, file, pinned, _kept_at(named, path.name, work_dir))


def _copied(named: str, path: Path, file: io.BufferedReader, sha256: str | None, kept: Path) -> Path:
    """Returns a copy of the file at ``path``, which nobody else can change, if it is what the spec says. What is found is
    said to nobody: it would tell of a file that its reader may not see. Raises ``Refused``, ``Unreachable``."""
    if path != kept:
        make_directory(kept.parent)
        try:
            with kept.open("wb") as copy:
                descriptor = file.fileno()
                found = write_chunks(copy, pieces_of(descriptor, os.fstat(descriptor).st_size))
        except OSError as error:
            raise Unreachable(f"{named} cannot be copied to {kept} ({error.strerror})", "make room") from None
    else:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 is not None and found != sha256:
        kept.unlink()
        why = f"sha256: {named} is another file on this host than the one whose SHA-256 its spec says"
        raise Refused(Cause.BAD_ARTIFACT, why, "put the right file there, or correct sha256")
    return kept


def _kept_at(named: str, filename: str, work_dir: Path) -> Path:
    """Returns where a file that is used in place is kept for one attempt."""
    return work_dir / "files" / hashlib.sha256(named.encode()).hexdigest()[:16] / filename


def fetch_code(
    spec: JobSpec,
    directory: Path,
    fetch_stored: FetchStored,
    store: S3Access,
) -> tuple[str, ...]:
    """Returns the jars of ``spec`` on this host, its application among them if that is a jar. The errors are
    those of ``fetch_files``."""
    named = (*(() if spec.is_python else (spec.application,)), *spec.jars)
    return tuple(str(_path_of(each, spec, directory, fetch_stored, store)) for each in named)


def files_of(spec: JobSpec, work_dir: Path, spark_home: str) -> dict[str, str]:
    """Returns what tells whether the files of a prepared driver are still the same: by path, size, time of change and
    inode of those that are used in place (the bootstrap and the core jar of Spark among them), and the SHA-256 of those that
    were fetched into ``work_dir``. Files of the store are named by their content."""
    in_place = [BOOTSTRAP]
    in_place += [
        Path("/" + each.removeprefix(LOCAL).lstrip("/"))
        for each in named_files(spec)
        if store_key(each) is None and bucket_of(each) is None
    ]
    in_place += sorted(Path(os.path.realpath(spark_home)).glob("jars/spark-core_*.jar"))
    found = {str(path): _stamp(path) for path in in_place}
    fetched = work_dir / "files"
    for path in sorted(fetched.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                found[str(path.relative_to(fetched))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _stamp(path: Path) -> str:
    try:
        status = path.stat()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"


def _fetch(named: str, spec: JobSpec, work_dir: Path, fetch_stored: FetchStored, store: S3Access) -> Path:
    """Returns the file on this host for ``store:…``, ``local:…`` or ``s3://…`` (a file used in place is
    fetched anew at each start)."""
    key = store_key(named)
    if key is not None:
        return fetch_stored(key)
    bucket = bucket_of(named)
    if bucket is None:
        return Path("/" + named.removeprefix(LOCAL).lstrip("/"))
    access = access_of(spec.conf, bucket, store)
    _, _, path = for_store(named).removeprefix("s3://").partition("/")
    target = _kept_at(named, PurePosixPath(path).name, work_dir)
    make_directory(target.parent)
    open_store(f"s3://{bucket}", access.endpoint_url, access.region, asked=asked(access)).read_to(
        path, target
    )
    return target
