"""Says of a job that is gone whether its queries may run on all the same: in a server of Spark Connect that its spec names.

No such job can be submitted or started any more, but one that an older version has started may have such a session. That
its process tree is empty proves nothing of it.
"""

from __future__ import annotations

from supervisor.errors import SupervisorError
from supervisor.model.records import BlobRef, JobRef, Result
from supervisor.model.seen import Found, Seen
from supervisor.model.spark_session import why_unsupported
from supervisor.operations.context import CommandContext
from supervisor.records.reading import seen
from supervisor.spec.job import from_canonical

GONE = "gone: no driver of it is alive"


def gone_in_words(context: CommandContext, name: str, uid: str) -> str:
    """Returns what is said of a job whose driver is gone."""
    why = _why_elsewhere(context, name, uid)
    return f"gone; whether its queries have ended is not known: {why}" if why else GONE


def _why_elsewhere(context: CommandContext, name: str, uid: str) -> str:
    try:
        ref = _spec_of(context, name, uid)
        spec = None if ref is None else from_canonical(context.blobs().read_spec(ref), ref.key)
    except SupervisorError:  # what cannot be read says nothing, and the wait is for the driver
        return ""
    return "" if spec is None else why_unsupported(spec.env, spec.conf)


def _spec_of(context: CommandContext, name: str, uid: str) -> BlobRef | None:
    zoo, layout = context.zoo(), context.layout
    job: Seen[JobRef] = seen(JobRef, zoo.read(layout.job(name)), layout.job(name))
    if isinstance(job, Found) and job.record.uid == uid:
        return job.record.spec
    result: Seen[Result] = seen(Result, zoo.read(layout.result(uid)), layout.result(uid))
    return result.record.spec if isinstance(result, Found) else None
