"""Opens the location of a checkpoint for reading, with the access by which the job itself would find it. It
is called before a start and by the commands."""

from __future__ import annotations

from collections.abc import Mapping

from supervisor.clients.store.base import DEADLINE_S
from supervisor.clients.store.tree import Tree, open_tree
from supervisor.model.location import normalise
from supervisor.spec.s3a import S3Access, access_of, bucket_of


def open_checkpoint(
    location: str,
    conf: Mapping[str, str],
    store: S3Access,
    deadline_s: float = DEADLINE_S,
) -> Tree | None:
    """Returns the tree of a checkpoint, or None if only Spark can read that location (HDFS …). Does no I/O.
    ``conf`` has the job's properties, which may name its own S3; otherwise S3 is where ``store`` says. Raises
    ``InvalidInput``."""
    bucket = bucket_of(normalise(location))
    access = store if bucket is None else access_of(conf, bucket, store)
    return open_tree(location, access, deadline_s)
