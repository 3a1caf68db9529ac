"""Judges whether an application begins anew beside what its job has left in the checkpoint: then rows are read from the
beginning, or from the end of the source, and Spark says nothing. Pure; used by ``health``.

The preflight (``checkpoint.preflight``) sees that the queries of before are there. It can't see whether the application
goes on with them. Two things tell that it does not:

* A query without a name and without a place of its own gets a directory of a random name below
  ``spark.sql.streaming.checkpointLocation``. The second one of its kind is not let begin (``spark/bootstrap.py``).
* No query that was there has been started, and a new one has committed batches in the job's checkpoint for ``ANEW_FOR_S``.
  An application that starts the new ones first, as after an update that adds some, starts the others meanwhile. One that
  waits for a query which ends by itself (``availableNow``) may start the others later: it is not judged.

A job whose fresh start was accepted remembers nothing, and may begin anew.
"""

from __future__ import annotations

from typing import Final

from supervisor.model.checkpoint_expectation import BEGINS_ANEW, queries_of
from supervisor.model.launch import Launch
from supervisor.model.query_name import query_name
from supervisor.shim.queries import ONE_SHOT, goes_on_with_nothing
from supervisor.shim.state import Life

ANEW_FOR_S: Final = 60.0
ACCEPT: Final = "or resume with --accept-fresh-start: rows may come twice then"
NAME_IT: Final = (
    "give it a queryName; to go on where it was, rename its directory in the checkpoint to that name, "
    + ACCEPT
)
REMEDY: Final = f"give it the queryName or the checkpointLocation that it had, {ACCEPT}"


def begins_anew(life: Life, launch: Launch, now_s: float) -> str | None:
    """Returns why the attempt is refused, or None."""
    if life.unnamed:
        return f"a query without a name would begin {BEGINS_ANEW}, as at each start: {NAME_IT}"
    if life.batch_at_s is None or now_s - life.batch_at_s < ANEW_FOR_S:
        return None
    if not goes_on_with_nothing(launch, life) or any(query.trigger in ONE_SHOT for query in life.queries):
        return None
    was = queries_of(launch.remembered)[-1]
    if any(each.unnamed for each in life.committed):
        return (
            f"a query without a name has begun {BEGINS_ANEW}, and query {was.id} was not started: {NAME_IT}"
        )
    new = life.committed[-1]
    name = next((query.name for query in life.queries if query.id == new.id), None)
    what = f"query {query_name(name, new.id)} has begun {BEGINS_ANEW} in the job's checkpoint"
    return f"{what}, and query {was.id}, which had committed batch {was.batch_id} there, was not started: {REMEDY}"
