"""Submits many specs in one call: checks everything first (read, hash, canonical form, what the site allows),
stores in parallel, and registers one by one. One bad file does not keep the others from being submitted.

Called by ``cli.submit``. Local files go to the store under the sha256 of their content. The stored spec names
them without the uid, ``store:<sha256>/<filename>``, so that the same spec with the same files has the same
sha256 whichever uid it gets: that is how a second submit is known to be the same. The agent puts name and uid
before it again. The blobs precede the reference: ``store_prepared`` returns when everything is durable, and
registers nothing; ``store_and_register`` does both, for many, and ``submit_all`` all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from supervisor.clients.environment_archive import require_environment
from supervisor.clients.listening import why_silent
from supervisor.clients.store.local import digest_of, source_chunks
from supervisor.clients.threads import Pool
from supervisor.clock import boottime_s
from supervisor.errors import Complaint, Conflict, InvalidInput, OutcomeUnknown, SupervisorError, Unreachable
from supervisor.model import executors
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.going_back import NOTHING_SAID, Said
from supervisor.model.master import addresses
from supervisor.model.records import Desired
from supervisor.model.spark_session import REMEDY, why_unsupported
from supervisor.operations.context import CommandContext
from supervisor.operations.going_back import require_fresh_start, require_known_place
from supervisor.operations.jobs import Done, Submission
from supervisor.records.ids import new_uid
from supervisor.records.layout import Layout
from supervisor.registry.blobs import Blobs, artifact_key
from supervisor.registry.checkpoint_claims import CheckpointClaims
from supervisor.settings.clusters import ClusterSettings
from supervisor.settings.defaults import Defaults
from supervisor.settings.file import Settings, lease_warnings
from supervisor.spec.fields import is_local_path
from supervisor.spec.files import local_files, read_spec_file, stored_spec
from supervisor.spec.job import JobSpec, canonical_json, memory_warnings, secret_warnings, spec_sha256
from supervisor.spec.on_cluster import master_of, why_not_here
from supervisor.spec.policy_judge import complaints
from supervisor.spec.relative_places import relative_places
from supervisor.spec.site_policy import site_policy
from supervisor.spec.way_back import why_spec_has_no_way_back

SpecReader: TypeAlias = Callable[[Path, Defaults], JobSpec]
"""Reads a spec, as ``spec.files.read_spec_file`` does."""

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
    JSON, and ``signature`` what a signer has said of it (``operations.signing``)."""

    source: Path
    spec: JobSpec
    sha256: str
    files: tuple[LocalFile, ...]
    warnings: tuple[str, ...]
    signature: str = ""

    @property
    def name(self) -> str:
        return self.spec.name


class BeginsWith(NamedTuple):
    """Names the savepoint that a job begins with, and the queries and batches of its copy."""

    savepoint: str
    queries: tuple[SeenQuery, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitWish:
    """Holds what the user asks for. With ``dry_run`` everything is checked and nothing is stored. ``said`` is what is said
    of the sinks."""

    dry_run: bool
    suspended: bool
    fresh_start: bool
    said: Said = NOTHING_SAID


@dataclass(slots=True)
class Submitted:
    """Holds what came of one file. ``did`` is a value of ``Did``, or ``valid`` for a dry run; ``did`` and
    ``error`` are both None while it is under way. ``queries`` are those of the savepoint.
    """

    source: Path
    prepared: Prepared | None = None
    name: str | None = None
    uid: str | None = None
    did: str | None = None
    error: SupervisorError | None = None
    savepoint: str | None = None
    queries: tuple[SeenQuery, ...] = ()

    @property
    def to_do(self) -> Prepared | None:
        """Returns what is still to be submitted, or None."""
        return self.prepared if self.error is None and self.did is None else None

    def document(self) -> dict[str, Any]:
        return {
            "file": str(self.source),
            "name": self.name,
            "uid": self.uid,
            "did": self.did,
            "error": str(self.error) if self.error else None,
            "exit_code": self.error.exit_code if self.error else 0,
            **({"savepoint": self.savepoint} if self.savepoint else {}),
        }


def prepare_all(
    sources: Iterable[Path],
    settings: Settings,
    warn: Callable[[str], None],
    read: SpecReader = read_spec_file,
    sign: Callable[[Prepared], Prepared] = lambda prepared: prepared,
    root: Path | None = None,
) -> list[Submitted]:
    """Reads and checks every file, has each signed by ``sign``, and asks the Spark masters whether they answer, before
    any other request is sent. ``warn`` is called with each warning. ``root`` is as for ``prepare_spec``. Raises nothing:
    what is wrong with a file is its ``error``."""
    submitted = []
    for source in sources:
        one = Submitted(source)
        submitted.append(one)
        try:
            one.prepared = prepare(source, settings.defaults, read, root)
            one.name = one.prepared.name
            require_allowed(one.prepared, settings)
            one.prepared = sign(one.prepared)
        except SupervisorError as error:
            one.error = error
            continue
        for warning in (*one.prepared.warnings, *_warnings(one.prepared.spec, settings)):
            warn(f"{source}: {warning}")
    known = [one.to_do for one in submitted if one.to_do is not None]
    for prepared, why in silent_masters(known, settings.clusters):
        master = master_of(prepared.spec, settings.clusters)
        warn(
            f"{prepared.source}: nobody answers at master {master} from here ({why}); start it, or correct master"
        )
    return submitted


def submit_all(
    context: CommandContext,
    submitted: list[Submitted],
    wish: SubmitWish,
    begin: Callable[[JobSpec], BeginsWith] | None,
) -> None:
    """Submits what ``prepare_all`` has found good, and writes into ``submitted`` what came of it.

    ``begin`` copies the savepoint that a job shall begin with; it is called before anything is registered.
    Raises Unreachable before anything is stored; afterwards that is the error of each job it concerns.
    """
    if wish.dry_run:
        _check_all(context, submitted, bootstrapped=context.check() is not None)
        _begin_all(context, submitted, wish, begin)
        for one in submitted:
            one.did = "valid" if one.to_do is not None else one.did
        return
    blobs = context.blobs()
    context.bootstrap_or_check(blobs)
    _check_all(context, submitted, bootstrapped=True)
    _begin_all(context, submitted, wish, begin)
    desired = Desired.SUSPENDED if wish.suspended else Desired.RUNNING
    begins = [(one.to_do, one.queries) for one in submitted if one.to_do is not None]
    of_prepared = {id(one.prepared): one for one in submitted}
    for prepared, answer in store_and_register(context, blobs, begins, desired, fresh_start=wish.fresh_start):
        one = of_prepared[id(prepared)]
        if isinstance(answer, SupervisorError):
            one.error = answer
        else:
            one.uid, one.did = answer.uid, answer.did.value


def require_allowed(prepared: Prepared, settings: Settings) -> None:
    """Checks that the job has a session of its own, and what the site allows, as this host's configuration says; the hosts
    judge by theirs. Raises InvalidInput."""
    spec = prepared.spec
    found = complaints(spec, settings.policy, settings.store, settings.spark.pythons)
    unsupported = why_unsupported(spec.env, spec.conf)
    if unsupported:
        found = (Complaint(unsupported, REMEDY), *found)
    if found:
        source, others = prepared.source, tuple(f"{prepared.source}: {each}" for each in found[1:])
        raise InvalidInput(f"{source}: {found[0].what}", found[0].remedy, others=others)


def _of_spec(spec: JobSpec) -> tuple[str, ...]:
    """Returns the warnings that depend on the spec alone."""
    return (
        *secret_warnings(spec),
        *map(str, (*memory_warnings(spec), *relative_places(spec))),
        *_of_way_back(spec),
    )


def _of_way_back(spec: JobSpec) -> tuple[str, ...]:
    why = why_spec_has_no_way_back(spec)
    return (str(why),) if why else ()


def _warnings(spec: JobSpec, settings: Settings) -> Iterator[str]:
    """Yields what depends on the configuration of this host; for ``checkpoint_on_cancel`` the leader's decides."""
    yield from map(str, lease_warnings(spec.lease_s, settings.zookeeper.session_timeout_s))
    if spec.checkpoint_on_cancel == "delete" and spec.checkpoint is not None:
        why = site_policy(settings.policy).why_not_deletable(spec.checkpoint)
        if why is not None:
            yield f"checkpoint_on_cancel: delete will not delete: {why}; the checkpoint will be kept"
    lacking = why_not_here(spec, settings.clusters)
    if lacking is not None:
        yield f"{lacking.what}: each host that lacks it refuses the job; {lacking.remedy}"
    long = executors.why_long(spec.conf) if spec.holds_executors else None
    if long is not None:
        yield long


def _check_all(context: CommandContext, submitted: list[Submitted], *, bootstrapped: bool) -> None:
    """Refuses jobs before anything is stored. What is registered already needs nothing more."""
    batch = Batch(context.layout)
    for one in submitted:
        prepared = one.to_do
        if prepared is None:
            continue
        name, sha256, checkpoint = prepared.name, prepared.sha256, prepared.spec.checkpoint
        try:
            done = (
                context.commands.check_submit(name, sha256, checkpoint, prepared.signature)
                if bootstrapped
                else None
            )
            batch.add(prepared)
        except Unreachable:
            raise
        except SupervisorError as error:
            one.error = error
            continue
        if done is not None:
            one.uid, one.did = done.uid, done.did.value


def _begin_all(
    context: CommandContext,
    submitted: list[Submitted],
    wish: SubmitWish,
    begin: Callable[[JobSpec], BeginsWith] | None,
) -> None:
    """Copies the savepoints; where a job begins with what lies at its checkpoint, its sink is asked about."""
    for one in submitted:
        if one.to_do is not None:
            spec = one.to_do.spec
            try:
                if begin is not None:
                    one.savepoint, one.queries = begin(spec)
                elif wish.fresh_start:
                    require_fresh_start(context, spec.name, spec, spec.checkpoint, wish.said)
                else:
                    require_known_place(context, spec.name, spec, wish.said)
            except SupervisorError as error:
                one.error = error


def prepare(
    path: Path, defaults: Defaults, read: SpecReader = read_spec_file, root: Path | None = None
) -> Prepared:
    """Reads and checks the spec in ``path`` and the local files that it names. ``root`` is as for ``prepare_spec``. Raises
    ``InvalidInput``."""
    return prepare_spec(read(path, defaults), path, root)


def prepare_spec(spec: JobSpec, path: Path, root: Path | None = None) -> Prepared:
    """Returns ``spec`` as it will be stored. ``path`` is where it comes from, for messages; local files are relative to its
    directory, which lies below ``root`` if that is given. Raises ``InvalidInput``."""
    base = path.parent if root is None else root / path.parent
    files = tuple(LocalFile(file, digest_of(source_chunks(file)).sha256) for file in local_files(spec, base))
    if spec.python.archive is not None and is_local_path(spec.python.archive):
        require_environment(base / spec.python.archive)
    stored = stored_spec(spec, base, {file.path: file.reference for file in files})
    return Prepared(path, stored, spec_sha256(stored), files, _of_spec(spec))


def store_prepared(
    blobs: Blobs, prepared: Prepared, uid: str, desired: Desired, revision: int = 1
) -> Submission:
    """Stores the files and then the spec under ``uid``, as that revision. This is idempotent, and everything is durable
    on return.

    Raises Conflict when a file was changed since ``prepare``, and what the store raises.
    """
    began_at_s = boottime_s()
    for file in prepared.files:
        key = blobs.put_artifact(prepared.name, uid, file.path)
        if key != artifact_key(prepared.name, uid, file.sha256, file.path.name):
            raise Conflict(
                f"{file.path} changed while {prepared.name} was being submitted", "submit it again"
            )
    ref = blobs.put_spec(prepared.name, uid, revision, canonical_json(prepared.spec))
    ref = replace(ref, signature=prepared.signature)
    return Submission(prepared.name, uid, ref, prepared.spec.scheduling(), desired, began_at_s)


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


def silent_masters(
    jobs: Iterable[Prepared], clusters: Mapping[str, ClusterSettings]
) -> Iterator[tuple[Prepared, str]]:
    """Yields one job of each Spark master that does not answer, with the reason. ``clusters`` are those of this host.

    It may be up by the time the driver starts, or be reached from the supervisors' hosts only: no reason to
    refuse the job.
    """
    deadline_at_s = boottime_s() + MASTERS_S
    for master, prepared in {master_of(each.spec, clusters): each for each in jobs}.items():
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
