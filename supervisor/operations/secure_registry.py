"""Implements the ``registry secure`` command: gives a root that exists already the ACL of the configuration, or takes it
back.

Called by ``cli.registry``. The argument why it may be done while the cluster runs, and be killed at any point, is in
``registry.access_control``. It needs no supervisor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from supervisor.errors import Conflict
from supervisor.model.zookeeper_access import Acl
from supervisor.operations.auditing import AskedWrite
from supervisor.operations.context import CommandContext
from supervisor.registry.access_control import apply_acl, blockers, prove_admin, survey


@dataclass(frozen=True, slots=True)
class AclFinding:
    """Says what ``registry secure`` would do. ``blockers`` are what speaks against it now; a dry run lists them all."""

    root: str
    wanted: Acl
    znodes: int
    differing: int
    blockers: tuple[str, ...]


def examine_acl(context: CommandContext, *, opens: bool) -> AclFinding:
    """Reads everything and changes nothing, but for a znode of its own that it deletes.

    Raises Conflict if the configuration is not for this, or if this process would lock itself out; NotFound,
    Unreachable, AccessDenied.
    """
    zookeeper, layout = context.settings.zookeeper, context.layout
    if opens and zookeeper.acl != "open":
        raise Conflict(
            f"zookeeper.acl is {zookeeper.acl} here, so znodes would go on to be made with an ACL",
            "set acl: open on every host and restart the supervisors, keep zookeeper.auth, then give this again",
        )
    if not opens and zookeeper.acl == "open":
        raise Conflict(
            "zookeeper.acl is open here, so there is no ACL to set",
            "set acl: create and acl_admins on every host, restart the supervisors, and give this again; --open goes back",
        )
    zoo, wanted = context.zoo(), zookeeper.access.acl
    found = survey(zoo, layout, wanted)
    if not opens:
        prove_admin(zoo, layout, wanted)
    return AclFinding(
        layout.root, wanted, found.znodes, len(found.differing), blockers(found, layout, wanted)
    )


def secure_registry(
    context: CommandContext, finding: AclFinding, report_progress: Callable[[int], None] = lambda _done: None
) -> int:
    """Gives every znode the ACL of ``finding``, and returns how many were changed. May be given again after any end.

    Raises Conflict (a process would be locked out, or makes other znodes), Unreachable, AccessDenied.
    """
    wanted = ", ".join(entry.who for entry in finding.wanted)
    if not finding.blockers:  # else it is refused
        context.auditor.before(AskedWrite("secure", detail=wanted))
    return apply_acl(context.zoo(), context.layout, finding.wanted, report_progress)
