"""Reads the audit and verifies it, for the command ``audit``."""

from __future__ import annotations

from supervisor.errors import NotFound
from supervisor.operations.context import CommandContext
from supervisor.registry.audit import AuditReading as AuditReading
from supervisor.registry.audit import read_audit


def audited(context: CommandContext, count: int, name: str | None = None) -> AuditReading:
    """Returns the newest ``count`` lines, of the job ``name`` if it is given, with what is wrong with the audit. Raises
    NotFound if nothing was ever submitted, and what the store and ZooKeeper raise."""
    if context.check() is None:
        raise NotFound(f"nothing was ever submitted at {context.layout.root}: there is no audit")
    return read_audit(context.store(), context.zoo(), context.layout, count, name)
