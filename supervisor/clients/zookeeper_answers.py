"""Translates ZooKeeper's answers into values and errors of the supervisor. It is pure: it has no connection
and never waits.

Only ``zookeeper`` calls it; no other module translates kazoo's exceptions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from supervisor.clients import kazoo_parts as kazoo
from supervisor.clients.zookeeper_session import Reply, Unanswered
from supervisor.errors import (
    AccessDenied,
    Conflict,
    GuardFailed,
    InvalidInput,
    NotSent,
    OutcomeUnknown,
    SupervisorError,
    Unreachable,
)
from supervisor.model.transaction import (
    Check,
    Committed,
    Create,
    Delete,
    Node,
    Op,
    SetData,
    Stat,
    Transaction,
)
from supervisor.model.zookeeper_access import Acl, AclEntry

T = TypeVar("T")

_GUARD_KINDS = {
    kazoo.errors.BadVersionError: "bad_version",
    kazoo.errors.NoNodeError: "no_node",
    kazoo.errors.NodeExistsError: "node_exists",
    kazoo.errors.NotEmptyError: "not_empty",
}
_NOT_THE_CAUSE = (kazoo.errors.RolledBackError, kazoo.errors.RuntimeInconsistency)  # another operation failed
_DENIED = (
    kazoo.errors.AuthFailedError,
    kazoo.errors.NoAuthError,
    kazoo.errors.SessionClosedRequireSaslError,
    kazoo.errors.QuotaExceededError,
)
_MALFORMED = (
    kazoo.errors.BadArgumentsError,
    kazoo.errors.MarshallingError,
    kazoo.errors.UnimplementedError,
    kazoo.errors.NoChildrenForEphemeralsError,
    kazoo.errors.InvalidACLError,
)


_REMEDIES = (
    (
        kazoo.errors.NoAuthError,
        "its ACL names others: compare zookeeper.auth and acl_admins with those of a supervisor that works",
    ),
    (
        (kazoo.errors.SessionClosedRequireSaslError, kazoo.errors.AuthFailedError),
        "ZooKeeper asks for credentials: set zookeeper.auth (see spark-supervisor docs security)",
    ),
    (
        kazoo.errors.InvalidACLError,
        "the servers do not know such an id in acl_admins or acl_readers: give them the authProvider of its scheme",
    ),
)


def request_of(op: Op, acl: Acl) -> Any:
    """Returns the request for ``op``; what it creates gets ``acl``."""
    match op:
        case Create(path, data, ephemeral):
            return kazoo.Create(path, data, _wire_acl(acl), 1 if ephemeral else 0)
        case SetData(path, data, version):
            return kazoo.SetData(path, data, version)
        case Delete(path, version):
            return kazoo.Delete(path, version)
        case Check(path, version):
            return kazoo.CheckVersion(path, version)


def set_acl_request(path: str, acl: Acl) -> Any:
    return kazoo.SetACL(path, _wire_acl(acl), -1)


def _wire_acl(acl: Acl) -> list[Any]:
    return [kazoo.ACL(entry.perms, kazoo.Id(*entry.who.split(":", 1))) for entry in acl]


def acl_of_reply(reply: Reply) -> Acl | None:
    if reply.error is not None:
        return None
    return tuple(AclEntry(f"{entry.id.scheme}:{entry.id.id}", entry.perms) for entry in reply.value[0])


def outcome_of(tx: Transaction, reply: Reply) -> Committed:
    """Returns the outcome of ``tx``, or raises its error. A multi that was rejected is answered with one
    result per operation, not with an error."""
    error = reply.error
    if error is None and len(reply.value) == len(tx.ops):
        for index, (op, result) in enumerate(zip(tx.ops, reply.value, strict=True)):
            if isinstance(result, Exception) and not isinstance(result, _NOT_THE_CAUSE):
                raise _rejected(tx.what, op, index, result)
        if any(isinstance(result, Exception) for result in reply.value):
            raise Conflict(f"ZooKeeper rolled {tx.what} back and did not say why")
        return Committed(reply.sent_at_s, tuple(map(_version_after, tx.ops, reply.value)))
    if isinstance(error, _DENIED):
        raise AccessDenied(f"ZooKeeper does not permit {tx.what}: {_name(error)}", _remedy(error))
    if isinstance(error, _MALFORMED):
        raise InvalidInput(f"ZooKeeper does not accept {tx.what}: {_name(error)}", _remedy(error))
    if isinstance(error, kazoo.errors.ThrottledOpError) or (isinstance(error, Unanswered) and not error.sent):
        raise NotSent(f"{tx.what} was not sent: {_name(error)}")
    why = "an incomplete answer" if error is None else _name(error)
    raise OutcomeUnknown(f"{tx.what} may or may not have been applied ({why}): read it back before going on")


def _rejected(what: str, op: Op, index: int, error: Exception) -> SupervisorError:
    for kind, name in _GUARD_KINDS.items():
        if isinstance(error, kind):
            return GuardFailed(op.path, name, index)
    if isinstance(error, _DENIED):
        return AccessDenied(f"ZooKeeper does not permit {what} on {op.path}: {_name(error)}", _remedy(error))
    return InvalidInput(f"ZooKeeper does not accept {what} on {op.path}: {_name(error)}", _remedy(error))


def _version_after(op: Op, result: Any) -> int | None:
    match op:
        case Create():
            return 0
        case SetData():
            return int(result.version)
        case _:
            return None


def read_of(what: str, read_reply: Callable[[Reply], T], reply: Reply) -> T:
    """Returns what ``read_reply`` makes of a reply that is an answer, which an absent node is too. Otherwise
    raises the error that the reply means."""
    error = reply.error
    if error is None or isinstance(error, kazoo.errors.NoNodeError):
        return read_reply(reply)
    if isinstance(error, _DENIED):
        raise AccessDenied(f"ZooKeeper does not permit access to {what}: {_name(error)}", _remedy(error))
    if isinstance(error, _MALFORMED):
        raise InvalidInput(f"ZooKeeper does not accept {what}: {_name(error)}", _remedy(error))
    if isinstance(error, Unanswered) and not error.sent:
        raise NotSent(f"{what} was not read: {error}")
    raise Unreachable(f"ZooKeeper did not answer {what}: {_name(error)}")


def nothing_of(_reply: Reply) -> None:
    """Ignores the content of an answer of which only the arrival matters."""


def node_of(reply: Reply) -> Node | None:
    if reply.error is not None:
        return None
    data, stat = reply.value
    return Node(
        data or b"",
        Stat(
            stat.version,
            stat.mzxid,
            stat.czxid,
            stat.ephemeralOwner,
            stat.numChildren,
            stat.mtime / 1000,
        ),
    )


def nodes_of(what: str, reply: Reply) -> list[Node | None]:
    """Returns the nodes of many reads in one request. Raises for the first of them that is no answer."""
    if reply.error is not None:
        raise Unreachable(f"ZooKeeper did not answer {what}: {_name(reply.error)}")
    for found in reply.value:
        if isinstance(found, _DENIED):
            raise AccessDenied(f"ZooKeeper does not permit reading {what}: {_name(found)}", _remedy(found))
        if isinstance(found, _MALFORMED):
            raise InvalidInput(f"ZooKeeper does not accept {what}: {_name(found)}")
        if isinstance(found, Exception):
            raise Unreachable(f"ZooKeeper did not answer {what}: {_name(found)}")
    return list(reply.value)


def children_of(reply: Reply) -> tuple[str, ...] | None:
    return None if reply.error is not None else tuple(reply.value)


def _name(error: Exception) -> str:
    return str(error) or type(error).__name__.removesuffix("Error")


def _remedy(error: Exception) -> str:
    return next((remedy for kinds, remedy in _REMEDIES if isinstance(error, kinds)), "")
