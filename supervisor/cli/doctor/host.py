"""Checks this host: clock, control groups, limits, memory, the service's unit, the port, and whether a
supervisor runs here."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from cryptography import x509

from supervisor.cli.doctor.findings import (
    CheckGroup,
    DoctorCheck,
    DoctorFinding,
    ok,
    problem,
    skipped,
    warning,
)
from supervisor.cli.doctor.subject import Subject
from supervisor.clients import host_probe
from supervisor.clients.containment import find_cgroup_parent, find_own_cgroup
from supervisor.clients.controllers import would_lack
from supervisor.clients.host_probe import UNLIMITED, Limits, Unit, may_write
from supervisor.clients.users import closed_to_others, find_driver_user, may_read
from supervisor.daemon.host.driver_users import why_impossible
from supervisor.daemon.process import http_access
from supervisor.daemon.process.supervisor import LOCK
from supervisor.errors import Complaint, InvalidInput, SupervisorError
from supervisor.model.lease_terms import full_wait_s
from supervisor.model.location import normalise
from supervisor.settings.addresses import are_loopback
from supervisor.settings.policy import open_rules
from supervisor.settings.secret_files import secret_files
from supervisor.settings.units import format_duration, format_size
from supervisor.spark.arguments import BOOTSTRAP
from supervisor.spark.toolchain import installed_spark_home

UNIT_NAME: Final = "spark-supervisor.service"
FILES_PER_DRIVER: Final = 4096
"""A driver alone opens some 300 jars; shuffles, sockets and state stores add thousands. Soft limits are inherited."""
FILES_LEAST: Final = 1024
THREADS_PER_DRIVER: Final = 300
THREADS_LEAST: Final = 100
IVY: Final = ".ivy2.5.2"
"""Below its user's home Spark 4 keeps the packages that it fetched in this directory."""
CERTIFICATE_DAYS_LEFT: Final = 14.0
"""A certificate that expires sooner is warned of."""
PROBE_GROUP: Final = "spark-supervisor-doctor"


@dataclass(frozen=True, slots=True)
class Groups:
    """Holds what was found about control groups.

    ``own`` is the directory of this process's v2 group, None without one. ``usable`` says that a group can be
    made below it, entered and killed.
    """

    own: str | None = None
    usable: bool = False
    kill: bool = False


@dataclass(frozen=True, slots=True)
class HttpAccessFacts:
    """Says who is answered over HTTP.

    ``error`` is why a file of the section ``http`` can't be used. ``days_left`` is for how many days the certificate
    is still valid, negative if it is not any more. ``users_open_to_all`` says that every user of this host may read
    the file with the hashes.
    """

    beyond_loopback: bool = False
    tls: bool = False
    client_ca: bool = False
    users: bool = False
    users_open_to_all: bool = False
    days_left: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Holds what was found. ``running`` is the pid of the supervisor that holds the configured runtime_dir;
    limits and memory are then that process's, else this one's.

    ``written`` has the setting and path of each directory that the supervisor and its drivers write to.
    ``open_rules`` are the keys of ``policy`` that allow everything, ``signed`` says that specs must be signed, ``alone``
    that ZooKeeper is on this machine only.
    ``unit`` is None where no unit file is installed. ``unit_name`` is the service that the running supervisor
    belongs to. ``users`` are those of ``policy.run_as``; ``without_user`` says that jobs may also run as the supervisor's
    own. ``users_unknown`` says what is wrong with some of them, ``users_closed`` what of the supervisor's files other users
    can't get to, ``users_read`` which secrets of the supervisor some of them can read.
    ``controllers_asked`` are needed by the limits of
    the spec, or by default; ``controllers_lacking`` maps one to why it can't be had.
    """

    boottime: str = ""
    running: int | None = None
    groups: Groups = Groups()
    limits: Limits = Limits(UNLIMITED, UNLIMITED)
    limits_of: str = ""
    drivers: int = 0
    capacity_bytes: int = 0
    memory_bytes: int | None = None
    unit: Unit | None = None
    unit_name: str | None = None
    written: tuple[tuple[str, str], ...] = ()
    lease_s: float = 30.0
    http: str = ""
    http_error: str = ""
    http_access: HttpAccessFacts = HttpAccessFacts()
    open_rules: tuple[str, ...] = ()
    signed: bool = False
    alone: bool = False
    users: tuple[str, ...] = ()
    without_user: bool = False
    users_trouble: Complaint = Complaint()
    users_unknown: tuple[str, ...] = ()
    users_closed: str | None = None
    users_read: tuple[str, ...] = ()
    controllers_asked: tuple[str, ...] = ()
    controllers_lacking: Mapping[str, str] = field(default_factory=dict)


def collect(subject: Subject) -> HostFacts:
    settings = subject.settings.supervisor
    running = host_probe.lock_holder(settings.runtime_dir / LOCK)
    pid = running if running is not None and _may_inspect(running) else None
    unit_name = host_probe.unit_of(running) if running is not None else None
    unit_file = subject.unit or host_probe.find_unit(unit_name or UNIT_NAME)
    return HostFacts(
        boottime=host_probe.boottime_trouble(),
        running=running,
        groups=_groups(),
        limits=host_probe.limits_of(pid),
        limits_of=f"the running supervisor (pid {pid})" if pid else "this shell",
        drivers=settings.capacity.drivers,
        capacity_bytes=settings.capacity.memory_bytes,
        memory_bytes=host_probe.memory_bytes(pid),
        unit=host_probe.read_unit(unit_file) if unit_file is not None else None,
        unit_name=unit_name,
        written=_written(subject),
        lease_s=subject.settings.defaults.lease_s,
        http=settings.http,
        http_error="" if running is not None else _port_trouble(settings.http),
        http_access=_http_access(subject),
        open_rules=open_rules(subject.settings.policy),
        signed=bool(subject.settings.policy.submit_signers),
        alone=are_loopback(subject.settings.zookeeper.hosts),
        **_users(subject, pid),
        controllers_asked=_asked(subject),
        controllers_lacking=would_lack(_group_of(pid)),
    )


def _http_access(subject: Subject) -> HttpAccessFacts:
    settings = subject.settings.http
    try:
        http_access.tls_context(settings.tls)
        if settings.users_file is not None:
            http_access.read_users(settings.users_file)
        days_left = _days_left(settings.tls.cert) if settings.tls.cert is not None else None
        error = ""
    except InvalidInput as found:
        days_left, error = None, str(found)
    return HttpAccessFacts(
        beyond_loopback=not are_loopback(subject.settings.supervisor.http),
        tls=settings.tls.cert is not None,
        client_ca=settings.tls.client_ca is not None,
        users=settings.users_file is not None,
        users_open_to_all=settings.users_file is not None and _is_open_to_all(settings.users_file),
        days_left=days_left,
        error=error,
    )


def _is_open_to_all(path: Path) -> bool:
    with suppress(OSError):
        return bool(path.stat().st_mode & stat.S_IROTH)
    return False


def _days_left(certificate: Path) -> float | None:
    """Returns for how many days the first certificate of a PEM file is still valid, or None if that can't be read."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):
        return None
    return (found.not_valid_after_utc - datetime.now(UTC)).total_seconds() / 86_400


def _users(subject: Subject, pid: int | None) -> dict[str, Any]:
    """Returns the facts about jobs of other users; the capabilities are those of the running supervisor, if any."""
    policy = subject.settings.policy.run_as
    names = tuple(dict.fromkeys((*((policy.default,) if policy.default else ()), *policy.allowed)))
    if not names:
        return {}
    unknown, read = [], []
    for name in names:
        try:
            user = find_driver_user(name)
        except SupervisorError as error:
            unknown.append(str(error))
        else:
            secrets = secret_files(subject.settings)
            read += [f"user {name} can read {path}" for path in secrets if may_read(path, user)]
    spark = subject.settings.spark.home or installed_spark_home()
    more = (str(each.home) for each in subject.settings.spark.versions.values())
    needed = [sys.executable, str(BOOTSTRAP), *([str(spark)] if spark is not None else []), *more]
    return {
        "users": names,
        "without_user": policy.default is None,
        "users_trouble": why_impossible(has_cgroup=find_own_cgroup() is not None, pid=pid),
        "users_unknown": tuple(unknown),
        "users_read": tuple(read),
        "users_closed": next(filter(None, map(closed_to_others, needed)), None),
    }


def _asked(subject: Subject) -> tuple[str, ...]:
    resources = subject.settings.defaults.resources if subject.spec is None else subject.spec.resources
    asked = (("memory", resources.memory_limit_bytes), ("cpu", resources.cpu), ("pids", resources.tasks))
    return tuple(name for name, limit in asked if limit is not None)


def _group_of(pid: int | None) -> str | None:
    try:
        membership = Path(f"/proc/{pid or 'self'}/cgroup").read_text(errors="replace")
    except OSError:
        return None
    return find_own_cgroup(membership=membership)


def _may_inspect(pid: int) -> bool:
    return os.access(f"/proc/{pid}/limits", os.R_OK)


def _groups() -> Groups:
    """Tries control groups below one with a name of its own, so that no group of a running supervisor is
    touched."""
    own = find_own_cgroup()
    name = f"{PROBE_GROUP}-{os.getpid()}"
    parent = find_cgroup_parent(own, name)
    kill = parent is not None and Path(parent, "cgroup.kill").exists()
    if own is not None:
        with suppress(OSError):
            Path(own, name).rmdir()
    return Groups(own, parent is not None, kill)


def _written(subject: Subject) -> tuple[tuple[str, str], ...]:
    settings = subject.settings.supervisor
    urls = {"store.url": subject.settings.store.url}
    if subject.spec is not None and subject.spec.checkpoint is not None:
        urls["checkpoint"] = normalise(subject.spec.checkpoint)
    ivy = []
    if subject.conf.get("spark.jars.packages") or (subject.spec is not None and subject.spec.packages):
        ivy.append(("spark.jars.ivy", subject.conf.get("spark.jars.ivy") or str(Path.home() / IVY)))
    return (
        ("supervisor.runtime_dir", str(settings.runtime_dir)),
        ("supervisor.log_dir", str(settings.log_dir)),
        *(
            (key, unquote(url.removeprefix("file://")))
            for key, url in urls.items()
            if url.startswith("file://")
        ),
        *ivy,
    )


def _port_trouble(listen: str) -> str:
    """Returns why the daemon could not listen at ``listen``, by trying it; empty if it could."""
    host, _, port = listen.rpartition(":")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(address)
            server.listen(1)
    except OSError as error:
        return error.strerror or str(error)
    return ""


# -- judges -------------------------------------------------------------------------------------------------------


def judge_clock(facts: HostFacts) -> DoctorFinding:
    if facts.boottime:
        return problem(
            f"{facts.boottime}: deadlines of drivers could not be kept",
            "use Linux 2.6.39 or newer, outside of sandboxes",
        )
    return ok("CLOCK_BOOTTIME is there; no decision uses the wall clock")


def judge_groups(facts: HostFacts) -> DoctorFinding:
    wait = format_duration(round(full_wait_s(facts.lease_s)))
    cost = f"driver trees are found by a scan for their marker, and a dead shim's attempt is restarted only after {wait}"
    groups = facts.groups
    if groups.own is None:
        return warning(
            f"this process is in no cgroup v2: {cost}",
            "mount the v2 hierarchy (systemd does, at /sys/fs/cgroup), or give the container --cgroupns private",
        )
    if not groups.usable:
        return warning(
            f"no cgroup can be made, entered and killed in {groups.own}: {cost}",
            "run as the systemd service with Delegate=yes (deploy/systemd); seen from a shell this says little about it",
        )
    if not groups.kill:
        return warning(
            f"cgroups of {groups.own} have no cgroup.kill (before Linux 5.14): trees are frozen and killed one by one",
            "upgrade the kernel",
        )
    return ok(f"a cgroup can be made, entered and killed in {groups.own}")


def judge_run_as(facts: HostFacts) -> DoctorFinding:
    if not facts.users:
        return ok("every job runs as the supervisor's own user (policy.run_as is empty)")
    if facts.users_trouble:
        return problem(
            f"no job can run as another user: {facts.users_trouble.what}", facts.users_trouble.remedy
        )
    if facts.users_unknown:
        return problem(facts.users_unknown[0], "make the user, or correct policy.run_as")
    if facts.users_closed is not None:
        return problem(
            f"other users can't get to {facts.users_closed}, and their drivers need it",
            "open it to them (chmod o+rX)",
        )
    if facts.users_read:
        return problem(
            f"{facts.users_read[0]}, which is a secret of the supervisor",
            "chown it to the supervisor's user, and chmod 0400",
        )
    users = ", ".join(facts.users)
    if facts.without_user:
        return warning(
            f"jobs may run as {users}, and those that name no user run as the supervisor's own, which can reach all others",
            "set policy.run_as.default",
        )
    return ok(f"jobs run as {users}")


def judge_limits(facts: HostFacts) -> DoctorFinding:
    lacking = facts.controllers_lacking
    if not lacking:
        return ok("the limits of jobs (resources: memory_limit, cpu, tasks) are enforced by their cgroups")
    if not set(facts.controllers_asked) & lacking.keys():
        return ok(f"no limit is asked for that is not enforced here; {', '.join(lacking)} would not be")
    whys = "; ".join(f"{', '.join(names)}: {why}" for why, names in _by_value(lacking).items())
    return warning(
        f"limits of jobs are not enforced in full ({whys}): such jobs start without",
        "install deploy/systemd/drop-ins/limits.conf (systemd 254 or newer)",
    )


def _by_value(found: Mapping[str, str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, why in found.items():
        grouped.setdefault(why, []).append(name)
    return grouped


def judge_open_files(facts: HostFacts) -> DoctorFinding:
    soft = facts.limits.open_files
    found = f"soft limit of open files of {facts.limits_of}: {_shown(soft)}, inherited by every driver"
    remedy = "set LimitNOFILE=1048576 in the unit (deploy/systemd has it), or ulimit -n before the start"
    if soft != UNLIMITED and soft < FILES_LEAST:
        return problem(found, remedy)
    if soft != UNLIMITED and soft < FILES_PER_DRIVER:
        return warning(found, remedy)
    return ok(f"{found}; no inotify watches are used")


def judge_processes(facts: HostFacts) -> DoctorFinding:
    limits = {
        "RLIMIT_NPROC": facts.limits.processes,
        "pids.max": facts.limits.pids_max,
        "kernel": facts.limits.kernel_max,
    }
    bounded = {name: value for name, value in limits.items() if value != UNLIMITED}
    if not bounded:
        return ok("threads are not limited")
    name = min(bounded, key=lambda key: bounded[key])
    least = bounded[name]
    found = f"{name} of {facts.limits_of} allows {least} threads, {facts.drivers} drivers (capacity.drivers) need about "
    remedy = "set TasksMax=infinity and LimitNPROC=infinity in the unit, raise kernel.pid_max, or lower capacity.drivers"
    if least < facts.drivers * THREADS_LEAST:
        return problem(f"{found}{facts.drivers * THREADS_PER_DRIVER}", remedy)
    if least < facts.drivers * THREADS_PER_DRIVER:
        return warning(f"{found}{facts.drivers * THREADS_PER_DRIVER}", remedy)
    return ok(f"{found}{facts.drivers * THREADS_PER_DRIVER}")


def judge_memory(facts: HostFacts) -> DoctorFinding:
    if facts.memory_bytes is None:
        return skipped("the host's memory is not known")
    capacity, there = format_size(facts.capacity_bytes), f"{facts.memory_bytes / (1 << 30):.1f} GiB"
    remedy = "lower supervisor.capacity.memory; leave some for the system, ZooKeeper and page cache"
    if facts.capacity_bytes > facts.memory_bytes:
        return problem(
            f"capacity.memory is {capacity}, there are {there}: the kernel would kill drivers", remedy
        )
    if facts.capacity_bytes > 0.9 * facts.memory_bytes:
        return warning(f"capacity.memory is {capacity} of {there}", remedy)
    return ok(f"capacity.memory is {capacity} of {there}")


def judge_unit(facts: HostFacts) -> DoctorFinding:
    unit = facts.unit
    if unit is None:
        if facts.unit_name is not None:
            return warning(
                f"the supervisor runs in {facts.unit_name}, whose unit file was not found",
                "name it with --unit FILE",
            )
        return skipped(f"{UNIT_NAME} is not installed here")
    if unit.error:
        return problem(unit.error, "make it readable, and correct it")
    mode, delegate = unit.options.get("KillMode", "control-group"), unit.options.get("Delegate", "no")
    default = "" if "KillMode" in unit.options else " (the default)"
    if mode != "process":
        what = (
            "would kill every driver"
            if mode in ("control-group", "mixed")
            else "leaves the supervisor running"
        )
        return problem(
            f"{unit.path} has KillMode={mode}{default}: stopping or restarting the service {what}",
            "set KillMode=process there, then systemctl daemon-reload (deploy/systemd has the whole unit)",
        )
    if delegate.lower() in ("", "no", "false", "0", "off", "n", "f"):
        return warning(
            f"{unit.path} has no Delegate=yes: systemd may move or remove the cgroups of drivers",
            "set Delegate=yes there, then systemctl daemon-reload",
        )
    if unit.options.get("OOMPolicy", "stop") != "continue":
        return warning(
            f"{unit.path} has no OOMPolicy=continue: a driver that is killed for memory stops the service",
            "set OOMPolicy=continue there, then systemctl daemon-reload",
        )
    closed = [(key, path) for key, path in facts.written if not may_write(unit.options, path)]
    if closed:
        found = ", ".join(f"{key} {path}" for key, path in closed)
        return problem(
            f"{unit.path} has ProtectSystem=strict: the service and its drivers can't write to {found}",
            f"systemctl edit {Path(unit.path).name}: ReadWritePaths={' '.join(path for _, path in closed)} below [Service], "
            "then restart the service",
        )
    return ok(
        f"{unit.path}: KillMode=process, Delegate={delegate}: the service may be restarted, drivers go on"
    )


def judge_http(facts: HostFacts) -> DoctorFinding:
    if facts.running is not None:
        return ok(f"a supervisor runs here (pid {facts.running}) and listens itself")
    if facts.http_error:
        return problem(
            f"supervisor.http {facts.http} cannot be listened on ({facts.http_error})",
            "stop who listens there, or choose another address",
        )
    return ok(f"supervisor.http {facts.http} is free")


def judge_http_access(facts: HostFacts) -> DoctorFinding:
    access = facts.http_access
    if access.error:
        return problem(access.error, "mend it: the supervisor does not start with it")
    if access.days_left is not None and access.days_left < CERTIFICATE_DAYS_LEFT:
        when = "has expired" if access.days_left < 0 else f"expires in {access.days_left:.0f} days"
        return (problem if access.days_left < 0 else warning)(
            f"the certificate http.tls.cert {when}", "replace the file; it is read again without a restart"
        )
    if access.users_open_to_all:
        return warning(
            "http.users_file may be read by every user of this host", "chmod o-r it: it has password hashes"
        )
    if not access.beyond_loopback:
        return ok(f"supervisor.http {facts.http} is reached from this host only")
    if access.users and not access.tls:
        return warning(
            f"supervisor.http {facts.http} takes passwords in plain text",
            "set http.tls.cert and http.tls.key",
        )
    if not access.users and not access.client_ca:
        return warning(
            f"supervisor.http {facts.http} answers everybody who reaches it: names of jobs, hosts and errors",
            "set http.tls.client_ca or http.users_file, or listen on 127.0.0.1",
        )
    who = " and ".join(
        word for word, is_asked in (("certificates", access.client_ca), ("users", access.users)) if is_asked
    )
    return ok(f"supervisor.http {facts.http} answers known {who} only, over TLS; probes are free")


def judge_policy(facts: HostFacts) -> DoctorFinding:
    if not facts.open_rules:
        return ok("policy says what jobs may have")
    if facts.signed and "in_place_files" in facts.open_rules:
        return warning(
            "policy.submit_signers is set, but a signed spec may run files of this host that nobody has signed",
            "set policy.in_place_files: pinned on every host: the spec then has the SHA-256 of such files",
        )
    keys = ", ".join(facts.open_rules)
    if facts.alone:
        return ok(f"policy allows jobs everything ({keys}); ZooKeeper is on this machine only")
    return warning(
        f"policy allows jobs everything in {keys}: who can submit a job has what the supervisor has",
        "restrict these keys on every host as conf/supervisor.secure.yaml does; later versions will by default",
    )


def _shown(limit: int) -> str:
    return "none" if limit == UNLIMITED else str(limit)


HOST = CheckGroup(
    "host",
    collect,
    (
        DoctorCheck("clock", "CLOCK_BOOTTIME, on which every deadline rests", judge_clock),
        DoctorCheck(
            "cgroup", "a cgroup v2 for each driver tree can be made, entered and killed", judge_groups
        ),
        DoctorCheck("run-as", "drivers can run as the Unix users of policy.run_as", judge_run_as),
        DoctorCheck("limits", "the kernel's controllers for the limits of jobs", judge_limits),
        DoctorCheck("open-files", "the limit of open files, which drivers inherit", judge_open_files),
        DoctorCheck("threads", "limits of processes and threads against capacity.drivers", judge_processes),
        DoctorCheck("memory", "supervisor.capacity.memory against the host's memory", judge_memory),
        DoctorCheck(
            "service-unit",
            "KillMode, Delegate and OOMPolicy of the systemd unit: a restart must leave drivers alone; what it may write to",
            judge_unit,
        ),
        DoctorCheck("http", "supervisor.http can be listened on", judge_http),
        DoctorCheck(
            "http-access", "who is answered over HTTP: TLS, client certificates, users", judge_http_access
        ),
        DoctorCheck("policy", "policy keeps what is the supervisor's own from jobs", judge_policy),
    ),
)
