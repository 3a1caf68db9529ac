"""Checks ZooKeeper: every server, the quorum, a session, and what the registry says of this host and job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from supervisor.cli.doctor.findings import (
    CheckGroup,
    DoctorCheck,
    DoctorFinding,
    ok,
    problem,
    problem_of,
    skipped,
    warning,
)
from supervisor.cli.doctor.phrases import NO_SPEC
from supervisor.cli.doctor.stores import judge_skew
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.host_probe import lock_holder
from supervisor.clients.processes import boot_id
from supervisor.clients.signatures import Signers
from supervisor.clients.zookeeper import ZooClient
from supervisor.clients.zookeeper_probe import (
    SERVER_S,
    Latency,
    ServerProbe,
    WriteTrial,
    measure,
    probe_servers,
    same_machine,
    try_write,
)
from supervisor.daemon.process.supervisor import LOCK
from supervisor.errors import AccessDenied, Complaint, Conflict, Corrupt, SupervisorError
from supervisor.model.policies import by_policy, policies_text
from supervisor.model.records import Member
from supervisor.model.seen import Found, Seen
from supervisor.operations.context import identity_of
from supervisor.records.layout import Layout
from supervisor.records.reading import seen_all
from supervisor.registry.bootstrap_cluster import check_known
from supervisor.registry.checkpoint_claims import CheckpointClaims
from supervisor.settings.file import lease_warnings
from supervisor.settings.units import format_duration, format_size
from supervisor.spec.policy_judge import policy_of_host

CONNECT_S: Final = 6.0
REQUEST_S: Final = 3.0
SLOW_MS: Final = 200.0
MANY_CHILDREN: Final = 10_000
FRAME_BYTES: Final = 1024 * 1024
BESIDE_DRIVERS: Final = 10
"""So many connections supervisor, session closer and a few commands may have at once."""
CONNECTIONS_DEFAULT: Final = 60
"""What a server of ZooKeeper takes from one address if it is not told (``maxClientCnxns``)."""
CHILD_BYTES: Final = 4 + 40
"""This is the size of a name in the answer to a listing: its length and, on average, a uid or a job's
name."""


@dataclass(frozen=True, slots=True)
class ZooFacts:
    """Holds what was found. ``error`` is why there is no session; then everything below it is unknown.

    ``children`` are the numbers of children of the registry's parents, by path. ``members`` are the
    supervisors that are up. ``holder`` is the pid of the supervisor that runs here with the configured
    runtime_dir. ``drivers`` is how many drivers this host may have at once. ``overlap`` is why the job's checkpoint
    is not free. ``policy_sha256`` tells the policy of this configuration from others.
    """

    asked_s: float
    servers: tuple[ServerProbe, ...] = ()
    doubled: tuple[str, ...] = ()
    error: Complaint = Complaint()
    granted_s: float | None = None
    latency: Latency | None = None
    trial: WriteTrial | None = None
    cluster: str = ""
    cluster_error: Complaint = Complaint()
    children: tuple[tuple[str, int], ...] = ()
    members: tuple[Member, ...] = ()
    id: str = ""
    boot_id: str = ""
    holder: int | None = None
    leases: tuple[tuple[str, float], ...] = ()
    job: str = ""
    memory: int = 0
    checkpoint: str | None = None
    overlap: Complaint = Complaint()
    policy_sha256: str = ""
    drivers: int = 0


def collect(subject: Subject) -> ZooFacts:
    settings, spec = subject.settings, subject.spec
    zookeeper = settings.zookeeper
    servers = probe_servers(zookeeper.hosts, SERVER_S * subject.patience, zookeeper.access)
    leases = (
        ("defaults.lease", settings.defaults.lease_s),
        *((("lease of the job", spec.lease_s),) if spec else ()),
    )
    known = ZooFacts(
        asked_s=zookeeper.session_timeout_s,
        servers=servers,
        leases=leases,
        doubled=same_machine([server.address for server in servers]),
        id=settings.supervisor.id,
        boot_id=boot_id(),
        holder=lock_holder(settings.supervisor.runtime_dir / LOCK),
        job=spec.name if spec else "",
        memory=spec.resources.memory_bytes if spec else 0,
        checkpoint=spec.checkpoint if spec else None,
        drivers=settings.supervisor.capacity.drivers,
        policy_sha256=policy_of_host(settings, Signers(settings.policy.submit_signers).digest),
    )
    client = ZooClient(
        zookeeper.hosts,
        zookeeper.session_timeout_s,
        request_timeout_s=REQUEST_S * subject.patience,
        access=zookeeper.access,
    )
    client.start()
    try:
        up = any(server.serving for server in servers)  # else nothing is gained by waiting longer
        client.wait_connected(CONNECT_S * (subject.patience if up else min(1.0, subject.patience)))
        return _by_session(subject, client, known)
    except SupervisorError as error:
        return replace(known, error=error.complaint)
    finally:
        client.close(1.0)


def _by_session(subject: Subject, client: ZooClient, known: ZooFacts) -> ZooFacts:
    """Adds what a session shows. Raises SupervisorError when ZooKeeper stops answering."""
    settings = subject.settings
    layout = Layout(settings.zookeeper.root)
    granted = client.session
    found = replace(
        known,
        granted_s=granted.timeout_s if granted is not None else None,
        latency=measure(client, layout.version),
        trial=try_write(client, layout.root),
    )
    try:
        cluster = check_known(client, layout, identity_of(settings))
    except (Conflict, Corrupt, AccessDenied) as error:
        return replace(found, cluster_error=error.complaint)
    if cluster is None:
        return found
    parents = layout.persistent_parents()
    nodes = client.read_many(parents).nodes
    return replace(
        found,
        cluster=cluster.name,
        children=tuple(
            (path, node.stat.children) for path, node in zip(parents, nodes, strict=True) if node is not None
        ),
        members=_members(client, layout),
        overlap=_overlap(subject, client, layout),
    )


def _members(client: ZooClient, layout: Layout) -> tuple[Member, ...]:
    paths = [layout.supervisor(name) for name in client.children(layout.supervisors) or ()]
    found: tuple[Seen[Member], ...] = tuple(seen_all(Member, paths, client.read_many(paths).nodes))
    return tuple(each.record for each in found if isinstance(each, Found))


def _overlap(subject: Subject, client: ZooClient, layout: Layout) -> Complaint:
    spec = subject.spec
    if spec is None or spec.checkpoint is None:
        return Complaint()
    try:
        CheckpointClaims.load(client, layout).reserve(spec.name, spec.checkpoint)
    except Conflict as error:
        return error.complaint
    return Complaint()


# -- judges -------------------------------------------------------------------------------------------------------


def judge_servers(facts: ZooFacts) -> DoctorFinding:
    silent = [
        f"{server.address}: {server.error or 'not serving'}" for server in facts.servers if not server.serving
    ]
    count = len(facts.servers)
    if not silent:
        leader = next((server.address for server in facts.servers if server.mode == "leader"), None)
        return ok(f"{count} of {count} servers serve{f', {leader} leads' if leader else ''}")
    text = "; ".join(silent).replace("; ", ", ")
    if len(silent) == count:
        return problem(
            f"no server of zookeeper.hosts serves: {text}",
            "start ZooKeeper, or correct zookeeper.hosts and firewalls",
        )
    left = count - len(silent)
    spare = left - (count // 2 + 1)
    then = (
        "the next loss stops everything"
        if spare == 0
        else f"{spare} more may be lost"
        if spare > 0
        else "there is no quorum"
    )
    return problem(f"{left} of {count} servers serve ({text}); {then}", "bring them back")


def judge_ensemble(facts: ZooFacts) -> DoctorFinding:
    count = len(facts.servers)
    if all(server.error for server in facts.servers):
        return skipped("no server serves")
    versions = sorted({server.version for server in facts.servers if server.version})
    old = [version for version in versions if tuple(map(int, version.split(".")[:2])) < (3, 5)]
    if old:
        return problem(f"ZooKeeper is {', '.join(old)}", "upgrade it to 3.5 or newer")
    if any(server.mode == "read-only" for server in facts.servers):
        return problem(
            "a server is in read-only mode: it has lost its quorum", "bring the other servers back"
        )
    text = (
        f"ZooKeeper {', '.join(versions)}"
        if versions
        else "versions are not told (srvr is not in 4lw.commands.whitelist)"
    )
    if facts.doubled:
        return warning(
            f"{', '.join(facts.doubled)} and another entry of zookeeper.hosts are one server",
            "name each server once",
        )
    standalone = any(server.mode == "standalone" for server in facts.servers)
    if count == 1:
        return warning(
            f"an ensemble of one{' (standalone)' if standalone else ', or only one of it is named'}; {text}",
            "run three or five servers and name all of them in zookeeper.hosts: the loss of one must stop nothing",
        )
    if count % 2 == 0:
        return warning(
            f"an ensemble of {count} survives no more losses than one of {count - 1}; {text}",
            f"run {count + 1} servers, or {count - 1}; and name all of them in zookeeper.hosts",
        )
    return ok(f"{count} servers, {text}")


def judge_session(facts: ZooFacts) -> DoctorFinding:
    if facts.error:
        serves = any(server.serving for server in facts.servers)
        return problem_of(facts.error, "" if serves else "see the line zookeeper-servers")
    if facts.granted_s is None:
        return skipped("the session time is not known")
    asked, granted = format_duration(facts.asked_s), format_duration(facts.granted_s)
    if abs(facts.granted_s - facts.asked_s) > 0.001:
        return warning(
            f"zookeeper.session_timeout is {asked}, ZooKeeper grants {granted}",
            "set it to what is granted, or change minSessionTimeout and maxSessionTimeout of the servers (2 and 20 ticks)",
        )
    return ok(f"a session of {granted}, as asked for")


def judge_latency(facts: ZooFacts) -> DoctorFinding:
    latency = facts.latency
    if latency is None:
        return skipped("there is no session")
    text = f"sync and read take {latency.min_ms:.1f} / {latency.median_ms:.1f} / {latency.max_ms:.1f} ms (min/median/max)"
    limit_ms = (facts.granted_s or facts.asked_s) * 1000 / 3
    remedy = (
        "give ZooKeeper a disk of its own for dataLogDir, look at its garbage collector and at the network"
    )
    if latency.max_ms > limit_ms:
        return problem(f"{text}: a third of the session time and more", remedy)
    if latency.median_ms > SLOW_MS:
        return warning(text, remedy)
    return ok(text)


def judge_permissions(facts: ZooFacts) -> DoctorFinding:
    if facts.trial is None:
        return skipped("there is no session")
    if facts.trial.error:
        return problem(
            f"nothing can be created in {facts.trial.parent}: {facts.trial.error.what}",
            "connect as one of its acl_admins (zookeeper.auth), or take another zookeeper.root; see docs security",
        )
    return ok(f"znodes can be created, read and deleted in {facts.trial.parent}")


def judge_root(facts: ZooFacts) -> DoctorFinding:
    if facts.error:
        return skipped("there is no session")
    if facts.cluster_error:
        return problem_of(facts.cluster_error)
    if not facts.cluster:
        return ok("zookeeper.root is empty: the first submit or supervisor founds the cluster")
    return ok(f"zookeeper.root holds cluster {facts.cluster}, as configured")


def judge_clock(facts: ZooFacts) -> DoctorFinding:
    if facts.trial is None:
        return skipped("there is no session")
    return judge_skew("ZooKeeper", facts.trial.skew_s, refused=False)


def judge_load(facts: ZooFacts) -> DoctorFinding:
    if not facts.children:
        return skipped("there is no cluster to look at")
    path, count = max(facts.children, key=lambda entry: entry[1])
    text = f"the largest listing is {path}: {count} names, {count * CHILD_BYTES // 1024} KiB of the 1024 of an answer"
    if count > MANY_CHILDREN or count * CHILD_BYTES > FRAME_BYTES // 2:
        return warning(
            text, "raise jute.maxbuffer on every server (same value), and split the jobs into two clusters"
        )
    return ok(text)


def judge_connections(facts: ZooFacts) -> DoctorFinding:
    """Judges whether each server takes all connections of this host: one for each driver. All of them are at one server when
    the others are lost."""
    serving = [server for server in facts.servers if server.serving]
    if not serving:
        return skipped("no server serves")
    needed = facts.drivers + BESIDE_DRIVERS
    text = f"this host may need {needed} connections (supervisor.capacity.drivers {facts.drivers}, one for each, and a few)"
    remedy = (
        f"set maxClientCnxns to {needed} or more on every server (0: no limit), or lower capacity.drivers"
    )
    low = [server for server in serving if 0 < (server.connections_max or 0) < needed]
    if low:
        told = ", ".join(f"{server.address} takes {server.connections_max}" for server in low)
        return warning(f"{text}, and {told}", remedy)
    if any(server.connections_max is None for server in serving) and needed > CONNECTIONS_DEFAULT:
        unknown = "not every server says what it takes (conf is not in 4lw.commands.whitelist)"
        return warning(f"{text}; {unknown}, and by default that is {CONNECTIONS_DEFAULT}", remedy)
    return ok(f"{text}, and no server is known to take fewer")


def judge_leases(facts: ZooFacts) -> DoctorFinding:
    session_s = facts.granted_s or facts.asked_s
    warned = [
        (name, warned) for name, lease_s in facts.leases for warned in lease_warnings(lease_s, session_s)
    ]
    if warned:
        name, complaint = warned[0]
        return warning(f"{name}: {complaint.what}", complaint.remedy)
    text = ", ".join(f"{name} {format_duration(lease_s)}" for name, lease_s in facts.leases)
    return ok(f"{text}: long enough for any outage that a session survives")


def judge_id(facts: ZooFacts) -> DoctorFinding:
    if facts.error:
        return skipped("there is no session")
    member = next((member for member in facts.members if member.id == facts.id), None)
    if member is None and facts.holder is not None:
        return problem(
            f"a supervisor runs here (pid {facts.holder}), but is not registered as {facts.id}",
            "see its log; its supervisor.id or zookeeper.root may be another one",
        )
    if member is None:
        return ok(f"nobody uses supervisor.id {facts.id}; no supervisor runs here with this runtime_dir")
    if member.boot_id != facts.boot_id:
        return problem(
            f"supervisor.id {facts.id} is used by host {member.host} ({member.address})",
            "give this host another supervisor.id (the default is its host name)",
        )
    if facts.holder is None:
        return warning(
            f"supervisor.id {facts.id} is used by another process of this host, with another runtime_dir",
            "stop it, or give this configuration another supervisor.id",
        )
    return ok(f"supervisor {facts.id} runs here (pid {facts.holder}), up since {member.since}")


def judge_policies(facts: ZooFacts) -> DoctorFinding:
    if facts.error:
        return skipped("there is no session")
    hosts = by_policy(facts.members)
    others = [ids for policy, ids in hosts.items() if policy != facts.policy_sha256]
    if len(hosts) > 1 or (hosts and others):
        this = "; this configuration is another one" if facts.policy_sha256 not in hosts else ""
        return warning(
            f"the policies of the supervisors differ ({policies_text(hosts)}){this}",
            "make policy and store.endpoint_url of supervisor.yaml equal everywhere, and restart the supervisors; until "
            "then a job runs on those that allow it",
        )
    return ok(
        "every supervisor that is up has this policy"
        if hosts
        else "no supervisor is up that judges by a policy"
    )


def judge_overlap(facts: ZooFacts) -> DoctorFinding:
    if not facts.job:
        return skipped(NO_SPEC)
    if facts.checkpoint is None:
        return skipped("the job has no checkpoint")
    if facts.error:
        return skipped("there is no session")
    if facts.overlap:
        return problem_of(facts.overlap)
    return ok("no other job has this checkpoint, or one inside or around it")


def judge_placement(facts: ZooFacts) -> DoctorFinding:
    if not facts.job:
        return skipped(NO_SPEC)
    if not facts.members:
        return skipped("no supervisor is up")
    needed = format_size(facts.memory)
    fits = [member.id for member in facts.members if member.memory >= facts.memory and member.drivers > 0]
    if not fits:
        most = format_size(max(member.memory for member in facts.members))
        return problem(
            f"resources.memory {needed} fits no supervisor, the largest offers {most}",
            "lower it, or raise supervisor.capacity.memory somewhere",
        )
    return ok(f"resources.memory {needed} fits {len(fits)} of {len(facts.members)} supervisors")


ZOOKEEPER = CheckGroup(
    "zookeeper",
    collect,
    (
        DoctorCheck(
            "zookeeper-servers",
            "each server of zookeeper.hosts serves, and how many more may be lost",
            judge_servers,
        ),
        DoctorCheck(
            "zookeeper-ensemble",
            "version 3.5 or newer, an odd number of servers, none read-only",
            judge_ensemble,
        ),
        DoctorCheck(
            "zookeeper-session", "a session can be had, and lasts as long as configured", judge_session
        ),
        DoctorCheck("zookeeper-latency", "how long sync and read take", judge_latency),
        DoctorCheck("zookeeper-permissions", "znodes can be created at zookeeper.root", judge_permissions),
        DoctorCheck("zookeeper-root", "zookeeper.root belongs to this cluster, or to nobody", judge_root),
        DoctorCheck("zookeeper-clock", "ZooKeeper's clock against this host's", judge_clock),
        DoctorCheck("zookeeper-load", "size of the largest listing against jute.maxbuffer", judge_load),
        DoctorCheck(
            "zookeeper-connections",
            "each server takes a connection for each driver of this host (maxClientCnxns)",
            judge_connections,
        ),
        DoctorCheck(
            "lease",
            "leases outlast what a session survives (lease − 3 s − lease/6 ≥ session time + 2 ticks)",
            judge_leases,
        ),
        DoctorCheck("supervisor-id", "nobody else uses supervisor.id", judge_id),
        DoctorCheck("policies", "all supervisors judge jobs by the same policy", judge_policies),
        DoctorCheck("job-checkpoint", "no other job has the checkpoint", judge_overlap),
        DoctorCheck("job-placement", "the job's memory fits some supervisor", judge_placement),
    ),
    deadline_s=14.5,
)
