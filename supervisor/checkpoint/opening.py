"""From the location of a checkpoint to a tree to look at, where the job itself would find it. Called by whoever looks."""

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
    """No I/O. ``conf``: the job's properties, which may name its own S3; else it is where ``store`` is. None: nobody but
    Spark can look there (HDFS …). Raises ``InvalidInput``."""
    bucket = bucket_of(normalise(location))
    access = store if bucket is None else access_of(conf, bucket, store)
    return open_tree(location, access, deadline_s)
