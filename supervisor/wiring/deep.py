"""``savepoint verify --deep``: the state in a savepoint, opened by Spark. Called by ``cli.savepoint``."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor.checkpoint.layout import COMMITS, parse_commit
from supervisor.checkpoint.savepoint import DATA, OBJECTS_MAX_BYTES, Manifest, SavedQuery
from supervisor.errors import SupervisorError
from supervisor.model.s3a import access_of, access_of_store, bucket_of
from supervisor.model.seen import Found
from supervisor.model.spec import JobSpec, from_canonical
from supervisor.spark.state_reading import OpenedStore, StateOf, open_state
from supervisor.wiring.commands import open_commands

if TYPE_CHECKING:
    from supervisor.clients.store.area import Area
    from supervisor.settings.file import Settings


def open_saved_state(settings: Settings, area: Area, manifest: Manifest, name: str | None) -> tuple[OpenedStore, ...]:
    """Every store of every operator. ``area``: where the savepoint lies; ``name``: of the job whose S3A settings count, if
    it is still known. Nothing is written there. Raises as ``spark.state_reading.open_state``."""
    job = _spec_of(settings, name) if name is not None else None
    states = [_state_of(area, query) for query in manifest.queries]
    store, bucket = access_of_store(settings.store), bucket_of(area.location)
    access = store if bucket is None or job is None else access_of(job.conf, bucket, store)
    with tempfile.TemporaryDirectory(prefix="spark-supervisor-verify-") as directory:
        return open_state(states, settings.spark, job, access, Path(directory), dict(os.environ))


def _state_of(area: Area, query: SavedQuery) -> StateOf:
    place = f"{DATA}/{query.path}" if query.path else DATA
    commit = parse_commit(area.read(f"{place}/{COMMITS}/{query.batch}", OBJECTS_MAX_BYTES))
    return StateOf(f"{area.location}/{place}", query.batch, 2 if commit.state_ids else 1)


def why_bad(store: OpenedStore) -> str | None:
    if store.error is None:
        return None
    return f"the state of operator {store.operator} ({store.name}), {store.store}, does not open: {store.error}"


def _spec_of(settings: Settings, name: str) -> JobSpec | None:
    try:
        with open_commands(settings) as office:
            if office.check() is None:
                return None
            standing = office.commands.standing(name)
            known = standing.ref if standing.ref is not None else standing.result
            if not isinstance(known, Found) or known.record.spec is None:
                return None
            ref = known.record.spec
            return from_canonical(office.blobs().read_spec(ref), ref.key)
    except SupervisorError:
        return None
