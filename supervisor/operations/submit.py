"""Turns a spec file into what ``operations.jobs`` registers: prepares it (read, hash, canonical form), then
stores it.

Called by ``submit``. Local files go to the store under the sha256 of their content. The stored spec names
them without the uid, ``store:<sha256>/<filename>``, so that the same spec with the same files has the same
sha256 whichever uid it gets: that is how a second submit is known to be the same. The agent puts name and uid
before it again. The blobs precede the reference: ``store_prepared`` returns when everything is durable, and
registers nothing; ``store_and_register`` does both, for many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from supervisor.clients.listening import why_silent
from supervisor.clients.store.local import digest_of, source_chunks
from supervisor.clients.threads import Pool
from supervisor.clock import boottime_s
from supervisor.errors import Conflict, OutcomeUnknown, SupervisorError, Unreachable
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.master import addresses
from supervisor.model.records import Desired
from supervisor.operations.context import CommandContext
from supervisor.operations.jobs import Done, Submission
from supervisor.records.ids import new_uid
from supervisor.records.layout import Layout
from supervisor.registry.blobs import Blobs, artifact_key
from supervisor.registry.checkpoint_claims import CheckpointClaims
from supervisor.settings.defaults import Defaults
from supervisor.spec.files import local_files, read_spec_file, stored_spec
from supervisor.spec.job import JobSpec, canonical_json, memory_warnings, secret_warnings, spec_sha256

WORKERS = 8
"""So many specs of one call are stored at once."""
MASTERS_S = 2.0
"""Limits the time for asking whether the Spark masters of all the specs answer."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """Names a file to upload. ``sha256`` is that of the content when the spec was prepared."""

    path: Path
    sha256: str

    @property
    def reference(self) -> str:
        """Returns what the stored spec says after ``store:``."""
        return f"{self.sha256}/{self.path.name}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Holds a valid spec as it will be stored; nothing is stored yet. ``sha256`` is that of its canonical
    JSON."""

    source: Path
    spec: JobSpec
    sha256: str
    files: tuple[LocalFile, ...]
    warnings: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.spec.name


def prepare(path: Path, defaults: Defaults) -> Prepared:
    """Reads and checks the spec in ``path`` and the local files that it names. Raises ``InvalidInput``."""
    spec = read_spec_file(path, defaults)
    files = tuple(
        LocalFile(file, digest_of(source_chunks(file)).sha256) for file in local_files(spec, path.parent)
    )
    stored = stored_spec(spec, path.parent, {file.path: file.reference for file in files})
    return Prepared(
        path, stored, spec_sha256(stored), files, (*secret_warnings(spec), *map(str, memory_warnings(spec)))
    )


def store_prepared(blobs: Blobs, prepared: Prepared, uid: str, desired: Desired) -> Submission:
    """Stores the files and then the spec under ``uid``. This is idempotent, and everything is durable on
    return.

    Raises Conflict when a file was changed since ``prepare``, and what the store raises.
    """
    began_at_s = boottime_s()
    for file in prepared.files:
        key = blobs.put_artifact(prepared.name, uid, file.path)
        if key != artifact_key(prepared.name, uid, file.sha256, file.path.name):
            raise Conflict(
                f"{file.path} changed while {prepared.name} was being submitted", "submit it again"
            )
    ref = blobs.put_spec(prepared.name, uid, 1, canonical_json(prepared.spec))
    return Submission(prepared.name, uid, ref, prepared.spec.terms(), desired, began_at_s)


def store_and_register(
    context: CommandContext,
    blobs: Blobs,
    begins: Iterable[tuple[Prepared, tuple[SeenQuery, ...]]],
    desired: Desired,
    *,
    fresh_start: bool,
) -> Iterator[tuple[Prepared, Done | SupervisorError]]:
    """Stores in parallel, and registers in the order in which the blobs are there: a slow upload delays no
    other job. Yields each job with what was done, or why not.

    ``begins`` has each with the queries of the savepoint that it begins with. Once ZooKeeper or the store
    does not answer, the rest is given up: nothing of it was acknowledged.
    """
    with Pool(WORKERS, "store") as pool:
        left: dict[Future[Submission], tuple[Prepared, tuple[SeenQuery, ...]]] = {}
        for prepared, queries in begins:
            uid = new_uid(prepared.name)
            left[pool.submit(store_prepared, blobs, prepared, uid, desired)] = prepared, queries
        for future in as_completed(tuple(left)):
            prepared, queries = left.pop(future)
            try:
                wanted = replace(future.result(), fresh_start=fresh_start, queries=queries)
                yield prepared, context.commands.submit(wanted)
            except SupervisorError as error:
                yield prepared, error
                if isinstance(error, Unreachable | OutcomeUnknown):
                    for other, _ in left.values():
                        yield other, Unreachable(f"{other.name} was not submitted: {error}")
                    return


def silent_masters(jobs: Iterable[Prepared]) -> Iterator[tuple[Prepared, str]]:
    """Yields one job of each Spark master that does not answer, with the reason.

    It may be up by the time the driver starts, or be reached from the supervisors' hosts only: no reason to
    refuse the job.
    """
    deadline_at_s = boottime_s() + MASTERS_S
    for master, prepared in {each.spec.master: each for each in jobs}.items():
        left_s = deadline_at_s - boottime_s()
        why = why_silent(addresses(master), left_s) if left_s > 0 and addresses(master) else None
        if why is not None:
            yield prepared, why


class Batch:
    """Checks the files of one call together before anything is stored: two of them must not collide
    either."""

    def __init__(self, layout: Layout) -> None:
        self._claims = CheckpointClaims(layout, 0, {})
        self._sources: dict[str, Prepared] = {}

    def add(self, prepared: Prepared) -> None:
        """Adds one file. Raises Conflict naming the file or job that is in the way; then it is not added."""
        before = self._sources.get(prepared.name)
        if before is not None and before.sha256 != prepared.sha256:
            raise Conflict(
                f"{prepared.source} and {before.source} are two different specs of {prepared.name}: keep one"
            )
        claimed = self._claims.reserve(prepared.name, prepared.spec.checkpoint)
        if claimed is not None:
            self._claims.taken(claimed, prepared.name, uid="")
        self._sources.setdefault(prepared.name, prepared)
