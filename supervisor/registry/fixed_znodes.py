"""Judges whether the fixed znodes of a cluster are all there, and still the ones that were founded (I10).

ZooKeeper does not say that a parent is missing when one of its children is read: the child is absent. So a
registry whose ``/jobs`` somebody removed by hand looks like one whose jobs were all cancelled, and a
``/jobs`` that was made anew looks like a cluster without jobs. Both have lost what was below for good, as
after a restore, and are not trusted.

The bootstrap creates the fixed znodes in the multi that creates ``/cluster``, so they have its czxid, for
ever: one that has another was made anew. An operator who has examined such a registry accepts it
(``accept-registry``): what was there by then is taken as it is. Below the other parents is only what
processes write again by themselves; the leader makes them anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from supervisor.model.transaction import Node
from supervisor.records.layout import Layout


@dataclass(frozen=True, slots=True)
class FixedZnodesVerdict:
    """Holds the verdict. ``distrust`` says why nothing may rest on what was read, or is None. ``missing``
    holds the parents that the leader makes anew."""

    distrust: str | None = None
    missing: tuple[str, ...] = ()


ANY_AGE = 1 << 63
"""It is passed instead of the zxid of an acceptance where parents that were made anew are taken as they
are."""


def fixed_paths(layout: Layout) -> tuple[str, ...]:
    """Returns the paths whose nodes ``judge_fixed_znodes`` is to be given, in this order."""
    return (layout.cluster, *layout.persistent_parents())


def judge_fixed_znodes(
    layout: Layout, nodes: Sequence[Node | None], accepted_zxid: int
) -> FixedZnodesVerdict:
    """Judges one reading of ``fixed_paths``, made *after* what rests on it: a parent that is there now with
    the czxid of the bootstrap was there all the time. ``accepted_zxid`` is the zxid of the latest acceptance,
    or 0 if there was none."""
    cluster, *parents = nodes
    lasting = frozenset(layout.lasting_parents())
    missing = []
    for path, node in zip(layout.persistent_parents(), parents, strict=True):
        if node is None and path in lasting:
            return FixedZnodesVerdict(
                f"{path} is missing, and all that was below it: it was removed by hand; restore ZooKeeper from a snapshot, "
                "or accept the loss with spark-supervisor accept-registry"
            )
        if node is None:
            missing.append(path)
        elif (
            path in lasting and cluster is not None and cluster.stat.czxid != node.stat.czxid > accepted_zxid
        ):
            return FixedZnodesVerdict(
                f"{path} was made anew after the cluster was founded: what was below it is lost; restore ZooKeeper from a "
                "snapshot, or accept the loss with spark-supervisor accept-registry"
            )
    return FixedZnodesVerdict(missing=tuple(missing))
