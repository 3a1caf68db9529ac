"""Gives the znodes of a cluster that exists already the ACL that new ones get, and refuses a root that is open.

``operations.secure_registry`` and the start of every process call it. ZooKeeper takes no setACL into a multi, so a root is
changed znode by znode. This is safe in the middle, and at any kill:

* No data is touched, and no guard reads an ACL. A process either may do what it did before, or is refused as a whole.
* Whoever is connected is among the admins before the first znode changes (``blockers``): each live process has an ephemeral
  znode, made with the ACL that it gives to all that it makes. One that is open shows a process that has no credentials, or
  does not set ACLs yet. That the caller itself is an admin is tried out, on an ephemeral znode.
* Children come before their parents, and the root comes last: a root that is not open says that all below it was done.
  Going back, the root comes first, for the same reason. To do it again is harmless, and goes on where it ended.
* A znode that was made meanwhile by a process that came late is found by another pass; the last pass finds nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from supervisor.errors import AccessDenied, Conflict, NotFound, SupervisorError
from supervisor.model.phrases import first_few
from supervisor.model.transaction import ANY_VERSION, Create, Delete, Node, Transaction
from supervisor.model.zookeeper_access import PERM_ALL, Acl
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkSession

PASSES_MAX: Final = 5
SHOWN_MAX: Final = 5


class AclSession(ZkSession, Protocol):
    """Is a session that reads and replaces ACLs too."""

    def read_acl(self, path: str) -> Acl | None: ...
    def set_acl(self, path: str, acl: Acl) -> bool: ...
    def who_am_i(self) -> tuple[str, ...] | None: ...


@dataclass(frozen=True, slots=True)
class Differing:
    """Is a znode whose ACL is not the wanted one."""

    path: str
    acl: Acl
    is_ephemeral: bool


@dataclass(frozen=True, slots=True)
class RootSurvey:
    """Holds what one pass saw: how many znodes there are, and which differ, in the order in which they are to be
    changed."""

    znodes: int
    differing: tuple[Differing, ...]


def is_open(acl: Acl) -> bool:
    """Returns whether ``acl`` gives anything to everyone."""
    return any(entry.who.startswith("world:") for entry in acl)


def refuse_open_root(zoo: AclSession, layout: Layout) -> None:
    """Raises Conflict if the root exists and is open to everyone, for a process that is told to enforce the ACL."""
    acl = zoo.read_acl(layout.root)
    if acl is not None and is_open(acl):
        raise Conflict(
            f"zookeeper.acl is enforce, but {layout.root} is open to everyone",
            "give spark-supervisor registry secure with acl: create first, then set enforce",
        )


def survey(zoo: AclSession, layout: Layout, wanted: Acl) -> RootSurvey:
    """Walks the whole root and changes nothing. Raises NotFound if there is none, Unreachable, AccessDenied."""
    zoo.sync()
    root = zoo.read(layout.root)
    if root is None:
        raise NotFound(
            f"{layout.root} does not exist", "the first submit or supervisor creates it, with its ACL"
        )
    znodes, differing = 0, []
    for path, node in _walk(zoo, layout.root, root):
        acl = zoo.read_acl(path)
        if acl is None:
            continue  # deleted meanwhile
        znodes += 1
        if set(acl) != set(wanted):
            differing.append(Differing(path, acl, bool(node.stat.ephemeral_owner)))
    if is_open(wanted):
        differing.reverse()
    return RootSurvey(znodes, tuple(differing))


def _walk(zoo: ZkSession, path: str, node: Node) -> Iterator[tuple[str, Node]]:
    """Yields every znode below ``path``, children before their parents, and ``path`` itself last."""
    below = [f"{path}/{name}" for name in sorted(zoo.children(path) or ())] if node.stat.children else []
    for child, found in zip(below, zoo.read_many(below).nodes, strict=True) if below else ():
        if found is not None:
            yield from _walk(zoo, child, found)
    yield path, node


def blockers(found: RootSurvey, layout: Layout, wanted: Acl) -> tuple[str, ...]:
    """Returns, a sentence each, which live processes would be locked out, or would go on to make znodes with another
    ACL.

    Going back to an open root locks out nobody; only a supervisor that still sets ACLs speaks against it.
    """
    admins = {entry.who for entry in wanted if entry.perms == PERM_ALL}
    sentences = []
    for each in found.differing:
        if not each.is_ephemeral or (is_open(wanted) and not _is_below(each.path, layout.supervisors)):
            continue
        who = _owner(each.path, layout)
        if is_open(wanted):
            sentences.append(f"{who} still sets ACLs: restart it with acl: open first")
        elif is_open(each.acl):
            sentences.append(
                f"{who} has no credentials, or does not set ACLs: {_restart(each.path, layout)} first"
            )
        elif not {entry.who for entry in each.acl if entry.perms == PERM_ALL} <= admins:
            sentences.append(f"{who} has other acl_admins: {_restart(each.path, layout)} with these first")
    return tuple(sentences)


def _is_below(path: str, parent: str) -> bool:
    return path.startswith(f"{parent}/")


def _owner(path: str, layout: Layout) -> str:
    name = path.rpartition("/")[2]
    if _is_below(path, layout.supervisors):
        return f"supervisor {name}"
    if _is_below(path, layout.lives):
        return f"the shim of attempt {name}"
    return f"the owner of {path}"


def _restart(path: str, layout: Layout) -> str:
    return "restart its job" if _is_below(path, layout.lives) else "restart it with acl: create"


def prove_admin(zoo: AclSession, layout: Layout, wanted: Acl) -> None:
    """Makes an ephemeral znode with the ACL that this process gives to all, replaces its ACL, and deletes it. Raises
    Conflict if this process could not go on after the change, InvalidInput if the servers do not know an id."""
    trial = f"{layout.root}/spark-supervisor-secure-{secrets.token_hex(8)}"
    gone = Transaction("secure", trial, (Delete(trial, ANY_VERSION),))
    try:
        zoo.commit(Transaction("secure", trial, (Create(trial, b"", ephemeral=True),)))
        zoo.set_acl(trial, wanted)
        zoo.read(trial)
        zoo.commit(gone)
    except AccessDenied as error:
        with suppress(SupervisorError):  # it goes with the session at the latest
            zoo.commit(gone)
        known = ", ".join(zoo.who_am_i() or ()) or "somebody else"
        raise Conflict(
            f"ZooKeeper knows this process as {known}, and that is none of acl_admins: it would lock itself out",
            "add that id to acl_admins on every host, or connect as one of them",
        ) from error


def apply_acl(
    zoo: AclSession,
    layout: Layout,
    wanted: Acl,
    report_progress: Callable[[int], None] = lambda _done: None,
) -> int:
    """Gives every znode of the root the ACL ``wanted``, in as many passes as it takes; returns how many were changed.

    Raises Conflict, with what is done staying done, if a process appears that would be locked out, or that goes on to
    make other znodes.
    """
    changed = 0
    for _ in range(PASSES_MAX):
        found = survey(zoo, layout, wanted)
        refuse_lock_out(found, layout, wanted)
        if not found.differing:
            return changed
        for each in found.differing:
            changed += zoo.set_acl(each.path, wanted)
            report_progress(changed)
    raise Conflict(
        f"somebody goes on to make znodes in {layout.root} with another ACL ({found.differing[0].path})",
        "find that process, restart it with the same zookeeper.acl, and give this command again",
    )


def refuse_lock_out(found: RootSurvey, layout: Layout, wanted: Acl) -> None:
    """Raises Conflict if ``blockers`` finds a process."""
    sentences = blockers(found, layout, wanted)
    if sentences:
        raise Conflict(f"nothing more was changed: {first_few(sentences, SHOWN_MAX)}")
