"""Opens the state in a savepoint with Spark, for ``savepoint verify --deep``. It is called by
``cli.savepoint``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from supervisor.checkpoint.layout import COMMITS, parse_commit
from supervisor.errors import NotFound, SupervisorError
from supervisor.model.seen import Found
from supervisor.operations.context import open_commands, store_of
from supervisor.registry.blobs import Blobs, artifact_key
from supervisor.savepoints.manifest import DATA, OBJECTS_MAX_BYTES, Manifest, SavedQuery
from supervisor.spark.fetched_files import fetch_code
from supervisor.spark.refusal import Refused
from supervisor.spark.state_reading import OpenedStore, StateOf, open_state
from supervisor.spec.job import JobSpec, from_canonical
from supervisor.spec.s3a import S3Access, access_of, access_of_store, bucket_of

if TYPE_CHECKING:
    from supervisor.clients.store.area import Area
    from supervisor.settings.file import Settings


def open_saved_state(
    settings: Settings,
    area: Area,
    manifest: Manifest,
    name: str | None,
    *,
    job_code: bool = False,
) -> tuple[OpenedStore, ...]:
    """Opens every store of every operator. ``area`` is where the savepoint lies; nothing is written there.
    ``name`` is that of the job whose S3A settings count, if it is still known. If ``job_code`` is True, that
    job's jars and packages are loaded, too.

    Raises AccessDenied if Spark could be sent elsewhere by what is there, since it follows links; the errors of
    ``spark.state_reading.open_state``; with ``job_code`` also if the job, or a jar of
    it, cannot be obtained.
    """
    registered = _registered(settings, name, must=job_code) if name is not None else None
    job = registered.spec if registered is not None else None
    area.require_closed(DATA)
    states = [_state_of(area, query) for query in manifest.queries]
    store, bucket = access_of_store(settings.store, settings.policy.endpoints), bucket_of(area.location)
    access = store if bucket is None or job is None else access_of(job.conf, bucket, store)
    with tempfile.TemporaryDirectory(prefix="spark-supervisor-verify-") as directory:
        code = (
            _code_of(settings, registered, Path(directory) / "code", store)
            if job_code and registered
            else None
        )
        rules = settings.policy.secrets
        return open_state(
            states, settings.spark, job, access, Path(directory), dict(os.environ), code=code, rules=rules
        )


def _code_of(settings: Settings, job: Registered, directory: Path, store: S3Access) -> tuple[str, ...]:
    blobs = Blobs(store_of(settings))

    def fetch(stored: str) -> Path:
        sha256, _, filename = stored.partition("/")
        return blobs.fetch_artifact(artifact_key(job.spec.name, job.uid, sha256, filename), directory)

    try:
        directory.mkdir()
        return fetch_code(job.spec, directory, fetch, store)
    except Refused as refused:
        raise SupervisorError(f"the job's code can't be had: {refused}") from None


class Registered(NamedTuple):
    uid: str
    spec: JobSpec


def _state_of(area: Area, query: SavedQuery) -> StateOf:
    place = f"{DATA}/{query.path}" if query.path else DATA
    commit = parse_commit(area.read(f"{place}/{COMMITS}/{query.batch}", OBJECTS_MAX_BYTES))
    return StateOf(f"{area.location}/{place}", query.batch, 2 if commit.state_ids else 1)


def why_bad(store: OpenedStore) -> str | None:
    if store.error is None:
        return None
    return (
        f"the state of operator {store.operator} ({store.name}), {store.store}, does not open: {store.error}"
    )


def _registered(settings: Settings, name: str, *, must: bool) -> Registered | None:
    """Returns the job with its spec. If it cannot be read, raises the reason if ``must`` is True, else
    returns None."""
    try:
        with open_commands(settings) as context:
            if context.check() is None:
                raise NotFound(f"no job is named {name}")
            job_records = context.commands.job_records(name)
            known = job_records.ref if job_records.ref is not None else job_records.result
            if not isinstance(known, Found) or known.record.spec is None:
                raise NotFound(f"the records of {name} do not say where its spec is")
            ref = known.record.spec
            return Registered(known.record.uid, from_canonical(context.blobs().read_spec(ref), ref.key))
    except SupervisorError:
        if must:
            raise
        return None
