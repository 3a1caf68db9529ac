"""Finds where the checkpoint of a job is, and how this host reads it. Called by ``cli`` and ``daemon``; no
policy here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from supervisor.checkpoint.opening import open_checkpoint
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
