"""Finds where the checkpoint of a job is and how this host reads it, and inspects and verifies it for
``checkpoint show`` and ``checkpoint verify``. The scheduled savepoints of ``daemon`` find checkpoints by it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from supervisor.checkpoint.inspect import inspect
from supervisor.checkpoint.judge import judge
from supervisor.checkpoint.opening import open_checkpoint
from supervisor.checkpoint.preflight import preflight
from supervisor.clients.store.base import DEADLINE_S
from supervisor.clients.store.patient_tree import PatientTree
from supervisor.clients.store.tree import Tree
from supervisor.errors import InvalidInput, NotFound
from supervisor.model.checkpoint_expectation import SeenQuery, queries_of, to_be_expected
from supervisor.model.location import normalise
from supervisor.model.records import JobRef, Lease
from supervisor.model.seen import Found, Seen
from supervisor.records.reading import seen
from supervisor.spec.job import from_canonical
from supervisor.spec.s3a import S3Access, access_of_store, bucket_of

if TYPE_CHECKING:
    from supervisor.checkpoint.findings import CheckpointFinding
    from supervisor.checkpoint.picture import Checkpoint
    from supervisor.operations.context import CommandContext
    from supervisor.settings.file import Settings


PATIENT_S: Final = 60.0
"""Limits each request to a store that has already answered one."""


class Located(NamedTuple):
    """Says where a checkpoint is. ``conf`` is the Spark configuration of the job, which may say where its S3
    is.

    ``job`` is the job's name; it is None for a location that was given as such. ``expected`` is what the
    registry remembers of the queries there.
    """

    location: str
    conf: Mapping[str, str]
    job: str | None = None
    expected: tuple[SeenQuery, ...] = ()


def is_location(text: str) -> bool:
    """Returns whether ``text`` is a location: names of jobs have neither slash nor colon."""
    return "/" in text or ":" in text


def located(context: CommandContext, name: str) -> Located:
    """Returns the checkpoint of a job: that of its live submission, or else of its newest one.

    Raises NotFound, Unreachable, AccessDenied.
    """
    if context.check() is None:
        raise NotFound(
            f"no job is named {name}: nothing was ever submitted at {context.settings.zookeeper.root}"
        )
    job_records = context.commands.job_records(name)
    known = job_records.ref if job_records.ref is not None else job_records.result
    if not isinstance(known, Found) or known.record.terms is None or known.record.spec is None:
        raise NotFound(f"the records of {name} do not say where its checkpoint is: give the location instead")
    location = known.record.terms.checkpoint
    if location is None:
        raise NotFound(f"the spec of {name} names no checkpoint: give the location that the application uses")
    own = job_records.own.record.remembered if isinstance(job_records.own, Found) else None
    path = context.layout.lease(name)
    lease: Seen[Lease] = seen(Lease, context.zoo().read(path), path)
    newest = lease.record.remembered if isinstance(lease, Found) else None
    taken = (
        (known.record.fresh_start, known.record.begins_with) if isinstance(known.record, JobRef) else ("", ())
    )
    expected = queries_of(to_be_expected(location, taken[0], newest, own, taken[1]))
    if bucket_of(normalise(location)) is None:  # nothing in the spec could matter
        return Located(location, {}, name, expected)
    spec = from_canonical(context.blobs().read_spec(known.record.spec), known.record.spec.key)
    return Located(location, spec.conf, name, expected)


def tree_of(settings: Settings | None, located: Located) -> Tree:
    """Makes the tree that reads the checkpoint at ``located``, without I/O. Raises InvalidInput.

    If ``settings`` is None, there is no configuration, and S3 is where the environment says.
    """
    store = access_of_store(settings.store, settings.policy.endpoints) if settings is not None else S3Access()
    quick, patient = (
        open_checkpoint(located.location, located.conf, store, each) for each in (DEADLINE_S, PATIENT_S)
    )
    if quick is None or patient is None:
        raise InvalidInput(
            f"nobody but Spark can look at {located.location}: only file:// and s3a:// locations can be judged"
        )
    return PatientTree(quick, patient)


def inspect_checkpoint(
    settings: Settings | None, located: Located, report_progress: Callable[[int], None]
) -> Checkpoint:
    """Returns what is in the checkpoint. ``report_progress`` is called with the number of objects seen so far.

    Raises NotFound if there is no checkpoint of Spark's, and Unreachable or AccessDenied of the store.
    """
    return _inspected(tree_of(settings, located), report_progress, checksums=False)


def verify_checkpoint(
    settings: Settings | None, located: Located, report_progress: Callable[[int], None]
) -> tuple[Checkpoint, tuple[CheckpointFinding, ...]]:
    """Returns what is in the checkpoint, and the findings of whether Spark can go on from it. One of them is
    that something is missing there though the registry remembers it of the job. Raises as ``inspect_checkpoint``.
    """
    tree = tree_of(settings, located)
    found = _inspected(tree, report_progress, checksums=True)
    findings = judge(found)
    lost = preflight(tree, located.expected)
    if lost is not None and lost.code not in {finding.code for finding in findings}:
        findings = (lost, *findings)
    return found, findings


def _inspected(tree: Tree, report_progress: Callable[[int], None], *, checksums: bool) -> Checkpoint:
    found = inspect(tree, checksums=checksums, report_progress=report_progress)
    if not found.queries:
        objects = found.amount.objects
        what = f"{objects} objects, but no checkpoint of Spark's" if objects else "nothing"
        raise NotFound(f"there is {what} at {tree.location}")
    return found
