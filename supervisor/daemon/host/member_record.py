"""Says what a host's own record (``Member``) has of its prepared drivers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from supervisor.errors import Corrupt
from supervisor.model.records import Member, PreparedDriver
from supervisor.model.transaction import Node
from supervisor.records.codec import decode, encode

PUBLISHED_MAX = 16


def with_prepared(member: Member, reported: Sequence[PreparedDriver]) -> Member:
    """Returns ``member`` with the first of ``reported``, as many as a record has room for."""
    published = tuple(reported[:PUBLISHED_MAX])
    while published:
        full = replace(member, prepared=published)
        try:
            encode(full)
            return full
        except ValueError:
            published = published[:-1]
    return replace(member, prepared=())


def newly_settled(node: Node, path: str, member: Member) -> list[str]:
    """Returns the uids of prepared drivers that are ready, or cannot be prepared, and of which the record in
    ``node`` does not say so."""
    try:
        known = {None, *map(_settled, decode(Member, node.data, path).prepared)}
    except Corrupt:
        known = {None}
    settled = dict.fromkeys(each.uid for each in member.prepared if _settled(each) not in known)
    return list(settled)


def _settled(driver: PreparedDriver) -> tuple[object, ...] | None:
    if not driver.ready and not driver.why:
        return None
    return (
        driver.uid,
        driver.revision,
        driver.sha256,
        driver.driver_memory,
        driver.level,
        driver.ready,
        driver.waits,
    )
