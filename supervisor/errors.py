"""Defines every error that crosses a module boundary, and the exit code of the CLI for it.

There are few types on purpose (kopf's split into permanent and temporary). Third-party exceptions are
translated into these at the edge, in ``clients/``; nothing above imports kazoo or botocore to catch
something.
"""

from __future__ import annotations

import errno
from typing import Final, NamedTuple

_PASSING: Final = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.EIO,
        errno.ESTALE,
        errno.EINTR,
    }
)


def is_passing(error: Exception) -> bool:
    """Returns whether time heals what made a read fail: then nobody has to correct anything, and the failure
    proves nothing (F56)."""
    return isinstance(error, OSError) and error.errno in _PASSING


class Complaint(NamedTuple):
    """Says what is wrong, and what a person can do about it (``remedy``, or empty). It is false if nothing is
    wrong."""

    what: str = ""
    remedy: str = ""

    def __bool__(self) -> bool:
        return bool(self.what)

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


class SupervisorError(Exception):
    """Is the root of all errors. ``what`` names the field, file or host concerned; ``remedy`` is what a
    person can do, or empty.

    As text it is one sentence: what is wrong, a semicolon, and the remedy. ``exit_code`` is what the command
    line exits with (REFERENCE.md: exit codes).
    """

    exit_code = 1

    def __init__(self, what: str = "", remedy: str = "") -> None:
        self.complaint = Complaint(what, remedy)
        super().__init__(str(self.complaint))


def complaint_of(error: Exception) -> Complaint:
    """Returns what ``error`` says; an error that is not a SupervisorError has no remedy."""
    return error.complaint if isinstance(error, SupervisorError) else Complaint(str(error))


class InvalidInput(SupervisorError):
    """The usage, a spec or a configuration file is invalid. This is permanent: the same input fails again.

    ``others`` are what else is wrong with the same input, a sentence each.
    """

    exit_code = 2

    def __init__(self, what: str = "", remedy: str = "", *, others: tuple[str, ...] = ()) -> None:
        super().__init__(what, remedy)
        self.others = others


class NotFound(SupervisorError):
    """The name does not exist (it was looked for and is absent, after a ``sync``)."""

    exit_code = 3


class Conflict(SupervisorError):
    """It exists, or changed meanwhile. Reread before deciding anything."""

    exit_code = 4


class GuardFailed(Conflict):
    """A guarded multi was rejected as a whole: nothing of it was applied.

    ``path`` is the first guard that failed; ``kind`` is ``bad_version``, ``no_node``, ``node_exists`` or ``not_empty``;
    ``index`` is the position of the operation within the transaction.
    """

    def __init__(self, path: str, kind: str, index: int) -> None:
        super().__init__(f"{path} changed meanwhile ({kind})")
        self.path = path
        self.kind = kind
        self.index = index


class Unreachable(SupervisorError):
    """ZooKeeper or the store did not answer in time. Nothing was acknowledged; transient."""

    exit_code = 5


class NotSent(Unreachable):
    """The request was refused locally because there is no connection: it certainly has had no effect."""


class OutcomeUnknown(SupervisorError):
    """A write may or may not have been applied. Nothing may be deleted, and nothing acknowledged, on this."""

    exit_code = 6


class TimedOut(SupervisorError):
    """A condition the user waited for did not come about in time."""

    exit_code = 7


class NotYet(SupervisorError):
    """Says that there is nothing to save: this host sees no checkpoint, or no batch was committed."""


class Corrupt(SupervisorError):
    """A record, blob or artifact is there but cannot be believed: wrong JSON, schema, version or digest. Permanent."""


class AccessDenied(SupervisorError):
    """The store or ZooKeeper refused our credentials, or the bucket or directory is impossible."""

    exit_code = 5


class NotPermitted(AccessDenied):
    """The store knows whose credentials these are, and they do not permit the request."""


class NotLeader(SupervisorError):
    """The term of leadership under which this was attempted is over."""
