"""Access to ZooKeeper: guards of ``registry secure``, and what a connection owes to a session.

The explorer knows no ACLs and no credentials: no guard of the protocol reads them. What fails is a test of the part.
"""

from __future__ import annotations

from supervisor.clients.digest_md5 import DigestMd5
from supervisor.clients.kazoo_connection import Connection
from supervisor.clients.sessions import KeptSession
from supervisor.clients.zookeeper_session import SessionLink
from supervisor.operations import secure_registry
from supervisor.registry import access_control
from tests.explore.planting import text

NOBODY_OUT = "§5.1: nobody who is connected is locked out"
MARK = "§5.1: a root that is not open says that all below it is done"
ALL = "§5.1: no znode stays open"
KEPT = "§5.1: what is refused now costs no session"

DEFECTS = (
    text(
        "root-is-secured-first",
        MARK,
        (access_control.survey, "if is_open(wanted):", "if not is_open(wanted):"),
    ),
    text(
        "shims-without-credentials-are-locked-out",
        NOBODY_OUT,
        (
            access_control.blockers,
            "elif is_open(each.acl):",
            "elif is_open(each.acl) and _is_below(each.path, layout.supervisors):",
        ),
    ),
    text(
        "processes-with-other-admins-are-locked-out",
        NOBODY_OUT,
        (
            access_control.blockers,
            "if entry.perms == PERM_ALL} <= admins",
            "if entry.perms == PERM_ALL} <= admins | {entry.who for entry in each.acl}",
        ),
    ),
    text(
        "way-back-beside-supervisors-that-set-acls",
        ALL,
        (
            access_control.blockers,
            "or (is_open(wanted) and not _is_below(each.path, layout.supervisors))",
            "or is_open(wanted)",
        ),
    ),
    text(
        "who-comes-late-is-locked-out",
        NOBODY_OUT,
        (
            access_control.apply_acl,
            "refuse_lock_out(found, layout, wanted)",
            "(changed or refuse_lock_out(found, layout, wanted))",
        ),
    ),
    text(
        "what-is-made-meanwhile-stays-open",
        ALL,
        (
            access_control.apply_acl,
            "        report_progress(changed)",
            "        report_progress(changed)\n        if each.path == layout.root: return changed",
        ),
    ),
    text(
        "operator-locks-itself-out",
        NOBODY_OUT,
        (access_control.prove_admin, "zoo.set_acl(trial, wanted)", "trial"),
        (access_control.prove_admin, "zoo.read(trial)", "trial"),
    ),
    text(
        "trial-of-an-operator-stays",
        NOBODY_OUT,
        (
            access_control.prove_admin,
            "with suppress(SupervisorError):  # it goes with the session at the latest\n            zoo.commit(gone)",
            "pass",
        ),
    ),
    text(
        "open-root-is-taken-by-who-enforces",
        ALL,
        (access_control.refuse_open_root, "if acl is not None and is_open(acl):", "if acl is None:"),
    ),
    text(
        "way-back-while-znodes-are-made-with-an-acl",
        ALL,
        (secure_registry.examine_acl, 'if opens and zookeeper.acl != "open":', "if False:"),
    ),
    text(
        "secured-with-the-open-acl",
        ALL,
        (secure_registry.examine_acl, 'if not opens and zookeeper.acl == "open":', "if False:"),
    ),
    text(
        "checked-once-for-all-clients",
        ALL,
        (KeptSession.zoo, "self._checked is not client", "self._checked is None"),
    ),
    text(
        "announced-before-sasl",
        KEPT,
        (
            SessionLink._session_callback,
            "state == KeeperState.CONNECTED and self.access.uses_sasl",
            "False",
        ),
    ),
    text(
        "what-may-pass-hides-what-must-be-corrected",
        KEPT,
        (
            SessionLink.note_failure,
            "before is None or failure.needs_correction or not before.needs_correction",
            "True",
        ),
    ),
    text(
        "refused-as-fast-as-it-can",
        KEPT,
        (Connection._pause_for_correction, "self._owner._stopped.wait(", "float("),
    ),
    text(
        "server-need-not-know-the-password",
        KEPT,
        (DigestMd5.respond, 'given.get("rspauth") != self._expected', '"rspauth" not in given'),
    ),
)
