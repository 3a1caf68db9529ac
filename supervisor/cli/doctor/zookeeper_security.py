"""Checks how this host connects to ZooKeeper, and who may do what there. It says which step of the roll-out comes next.

It has a session of its own: what the other checks of ZooKeeper find does not depend on these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from supervisor.cli.doctor.findings import (
    CheckGroup,
    DoctorCheck,
    DoctorFinding,
    ok,
    problem,
    skipped,
    warning,
)
from supervisor.cli.doctor.host import is_loopback
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.zookeeper import ZooClient, parse_hosts
from supervisor.errors import SupervisorError
from supervisor.model.zookeeper_access import OPEN_ACCESS, Acl, Mechanism, ZooKeeperAccess
from supervisor.registry.access_control import is_open

PAGE: Final = "see spark-supervisor docs security"
CONNECT_S: Final = 6.0
REQUEST_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class SecurityFacts:
    """Holds how this host is configured (``access``, ``acl``), and what a session showed. ``known_as`` are the ids by which
    ZooKeeper knows it; None if there was no session, or if ZooKeeper does not say. ``root_acl`` is None if there is no root,
    or nothing is known of it; then ``is_known`` tells the two apart."""

    access: ZooKeeperAccess = OPEN_ACCESS
    acl: str = "open"
    is_local: bool = True
    known_as: tuple[str, ...] | None = None
    is_known: bool = False
    root_acl: Acl | None = None


def collect(subject: Subject) -> SecurityFacts:
    zookeeper = subject.settings.zookeeper
    found = SecurityFacts(
        zookeeper.access,
        zookeeper.acl,
        all(is_loopback(host) for host, _ in parse_hosts(zookeeper.hosts)),
    )
    client = ZooClient(
        zookeeper.hosts,
        zookeeper.session_timeout_s,
        request_timeout_s=REQUEST_S * subject.patience,
        access=zookeeper.access,
    )
    client.start()
    try:
        client.wait_connected(CONNECT_S * subject.patience)
        found = replace(found, known_as=client.who_am_i())
        return replace(found, root_acl=client.read_acl(zookeeper.root), is_known=True)
    except SupervisorError:  # why there is no session is said by the checks of ZooKeeper
        return found
    finally:
        client.close(1.0)


def judge_transport(facts: SecurityFacts) -> DoctorFinding:
    tls = facts.access.tls
    if tls is None and facts.is_local:
        return ok("ZooKeeper is on this machine: what goes there needs no encryption")
    if tls is None:
        return warning(
            "what goes to ZooKeeper is not encrypted, and nothing proves that the servers are the right ones",
            f"set zookeeper.tls.ca, and the secureClientPort in zookeeper.hosts; {PAGE}",
        )
    if not tls.verify_hostname:
        return warning(
            "ZooKeeper is reached by TLS, but any certificate of its authority passes for any server",
            "give the servers certificates with their host names, then remove verify_hostname: false",
        )
    return ok("ZooKeeper is reached by TLS; the certificate of each server is checked")


def judge_credentials(facts: SecurityFacts) -> DoctorFinding:
    access = facts.access
    if access.mechanism is Mechanism.NONE:
        if facts.is_local:
            return ok("this process has no credentials; ZooKeeper is on this machine")
        return warning(
            "this process has no credentials: whoever reaches ZooKeeper can do what a supervisor can",
            f"set zookeeper.auth on every host; {PAGE}",
        )
    if facts.known_as is None:
        return skipped("there is no session, or ZooKeeper is older than 3.7 and does not say who we are")
    scheme = "sasl:" if access.uses_sasl else "x509:"
    mine = [known for known in facts.known_as if known.startswith(("sasl:", "x509:"))]
    if not any(known.startswith(scheme) for known in mine):
        return problem(
            f"zookeeper.auth is {access.mechanism}, but ZooKeeper knows this process by no id of {scheme[:-1]}",
            "give the servers the authProvider of that scheme",
        )
    if access.admins and not set(mine) & set(access.admins):
        return problem(
            f"ZooKeeper knows this process as {', '.join(mine)}, which is none of acl_admins",
            "add it to zookeeper.acl_admins on every host",
        )
    return ok(f"ZooKeeper knows this process as {', '.join(mine)}")


def judge_acl(facts: SecurityFacts) -> DoctorFinding:
    if not facts.is_known:
        return skipped("there is no session, or it may not read the ACL of the root")
    acl, root_open = facts.acl, facts.root_acl is not None and is_open(facts.root_acl)
    if acl == "open":
        return _judge_open(facts, root_open)
    if facts.root_acl is None:
        return ok(f"zookeeper.root will be created with its ACL (acl: {acl})")
    if root_open and acl == "enforce":
        return problem(
            "zookeeper.acl is enforce, and the root is open to everyone",
            "give registry secure with acl: create first",
        )
    if root_open:
        return warning(
            "new znodes get the ACL, but those that exist are open to everyone",
            "when every supervisor and every job runs with acl: create, give spark-supervisor registry secure",
        )
    if set(facts.root_acl) != set(facts.access.acl):
        return warning(
            "acl_admins or acl_readers differ from the ACL of the root",
            "make them the same on every host, then give spark-supervisor registry secure",
        )
    if acl == "create":
        return ok("the root has its ACL; acl: enforce is the last step")
    return ok("the root has its ACL, and no other one is accepted")


def _judge_open(facts: SecurityFacts, root_open: bool) -> DoctorFinding:
    if facts.root_acl is not None and not root_open:
        return problem(
            "the root has an ACL, but znodes of this host would be open to everyone (acl: open)",
            "set zookeeper.acl and acl_admins as on the other hosts",
        )
    if facts.is_local:
        return ok("the registry is open to everyone on this machine (acl: open)")
    step = "acl: create and acl_admins" if facts.access.mechanism is not Mechanism.NONE else "zookeeper.auth"
    return warning(
        "the registry is open to everyone who reaches ZooKeeper (acl: open)",
        f"set {step} on every host; {PAGE}",
    )


ZOOKEEPER_SECURITY = CheckGroup(
    "zookeeper-security",
    collect,
    (
        DoctorCheck(
            "zookeeper-transport",
            "the way to ZooKeeper is encrypted, and each server proves who it is",
            judge_transport,
        ),
        DoctorCheck(
            "zookeeper-credentials",
            "this process proves who it is, as one of acl_admins",
            judge_credentials,
        ),
        DoctorCheck(
            "zookeeper-acl",
            "znodes are open to acl_admins and acl_readers alone, and what the next step to that is",
            judge_acl,
        ),
    ),
)
