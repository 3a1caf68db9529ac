"""Every check of ``doctor`` as a table: facts → verdict and what it says. No I/O."""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.doctor.api import ApiFacts
from supervisor.cli.doctor.catalogue import AREAS, listed
from supervisor.cli.doctor.clusters import ClustersFacts, DeepFacts, OneCluster
from supervisor.cli.doctor.directories import DirectoryFacts
from supervisor.cli.doctor.findings import CheckVerdict, DoctorFinding
from supervisor.cli.doctor.host import Groups, HostFacts, HttpAccessFacts
from supervisor.cli.doctor.java import MODULES_NEEDED, MODULES_USEFUL, JavaFacts
from supervisor.cli.doctor.job import JobFacts, PackageFacts
from supervisor.cli.doctor.job_credentials import FOLDERS, CredentialsFacts
from supervisor.cli.doctor.receivers import ReceiversFacts
from supervisor.cli.doctor.spark import SDK_PARTS, SparkFacts, VersionFacts
from supervisor.cli.doctor.stores import CheckpointFacts, StoreFacts
from supervisor.cli.doctor.zookeeper import ZooFacts
from supervisor.cli.doctor.zookeeper_security import SecurityFacts
from supervisor.clients.host_probe import UNLIMITED, Directory, Limits, Unit
from supervisor.clients.store.probe import StoreProbe
from supervisor.clients.store.trial import KeysTrial
from supervisor.clients.tools import Ran
from supervisor.clients.zookeeper_probe import Latency, ServerProbe, WriteTrial
from supervisor.clusters.examined import ClusterAnswer
from supervisor.errors import Complaint
from supervisor.model.records import Member
from supervisor.model.zookeeper_access import OPEN_ACL, Mechanism, TlsFiles, ZooKeeperAccess, acl_of
from supervisor.spark.class_archive.assign import OFF
from supervisor.spark.class_archive.choice import ClassArchive
from supervisor.spark.class_archive.shelf import NOT_YET

GIB = 1 << 30
CHECKS = {check.id: check for area in AREAS for check in area.checks}


def modules(version: str = "17.0.15", without: tuple[str, ...] = ()) -> Ran:
    names = [name for name in (*MODULES_NEEDED, *MODULES_USEFUL) if name not in without]
    return Ran(0, "\n".join(f"{name}@{version}" for name in names), "")


JAVA = JavaFacts("/usr/bin/java", ran=modules())
THIN = frozenset({"hadoop-aws-3.5.0.jar", *(f"{part}-2.35.4.jar" for part in SDK_PARTS)})
JARS = frozenset({"spark-core_2.13-4.3.0.jar", "hadoop-client-api-3.5.0.jar"})
SPARK = SparkFacts(
    home="/opt/spark",
    version="4.3.0",
    submit=Ran(0, "", "Welcome to\n  version 4.3.0\n"),
    python="/usr/bin/python3",
    python_version=(3, 11, 7),
    pyspark="4.3.0",
    jars=JARS,
)
CLUSTER = OneCluster(
    "prod",
    answer=ClusterAnswer("m1:8080 is ALIVE", version="4.3.0", room="1 worker, 2 of 2 cores free"),
    host="10.0.0.7",
)
API = ApiFacts(
    "0.0.0.0:8781",
    "https://host-a:8781",
    has_tls=True,
    days_left=90.2,
    is_named=True,
    readers=2,
    unanswered="",
)
CLUSTERS = ClustersFacts((CLUSTER,), "4.3.0")


def one_cluster(**changes: Any) -> ClustersFacts:
    """With the others unchanged; changes of the answer by name."""
    of_answer = {key: changes.pop(key) for key in list(changes) if key in ClusterAnswer.__dataclass_fields__}
    changed = CLUSTER._replace(**changes)
    answer = changed.answer
    return replace(
        CLUSTERS,
        clusters=(CLUSTER, changed._replace(name="test", answer=answer and replace(answer, **of_answer))),
    )


OLDER, NAMED = VersionFacts("4.1", found="4.1.1"), VersionFacts("old", found="4.2.0")
S3A = replace(SPARK, s3a="the checkpoint of clicks", s3a_sure=True)
PROBE = StoreProbe("s3://bucket/p", exclusive=True, skew_s=0.2, ms=(("write", 20.0), ("list", 3.0)))
STORE = StoreFacts("s3://bucket/p", PROBE, None, "", ("/spark-supervisor", "prod"))
CHECKPOINT = CheckpointFacts("s3://bucket/ck", probe=PROBE)


def tried(**found: Any) -> CredentialsFacts:
    return CredentialsFacts(trials=(("env", KeysTrial(**found)),))


NO_PROBE = CheckpointFacts(why="no spec was given")


def server(
    number: int, mode: str | None = "follower", version: str | None = "3.9.5", error: str = ""
) -> ServerProbe:
    return ServerProbe(f"zk{number}:2181", mode is not None and mode != "read-only", mode, version, error)


def down(number: int) -> ServerProbe:
    return server(number, None, None, "connection refused")


def member(name: str = "host-a", boot: str = "boot-1", memory: int = 16 * GIB) -> Member:
    return Member(
        id=name,
        host=f"{name}.example",
        boot_id=boot,
        address=f"{name}:8780",
        memory=memory,
        drivers=20,
        starting=2,
        software="0.1.0",
        since="2026-11-21T00:46:50.000Z",
    )


JUDGING = (replace(member(), policy_sha256="5" * 64),)
THREE = (server(1, "leader"), server(2), server(3))
ZOO = ZooFacts(
    10.0,
    THREE,
    granted_s=10.0,
    latency=Latency(0.4, 1.2, 9.0),
    trial=WriteTrial("/spark-supervisor", skew_s=-0.1),
    cluster="prod",
    children=(("/r/jobs", 12),),
    members=(member(),),
    id="host-a",
    boot_id="boot-1",
    holder=4711,
    drivers=20,
    leases=(("defaults.lease", 30.0),),
    job="clicks",
    memory=GIB,
    checkpoint="s3://bucket/ck",
)
ACCESS = ZooKeeperAccess(
    tls=TlsFiles(ca="/ca"),
    mechanism=Mechanism.DIGEST_MD5,
    username="supervisor",
    password_file="/password",
    admins=("sasl:supervisor",),
)
SECURED = SecurityFacts(ACCESS, "create", False, ("ip:10.0.0.1", "sasl:supervisor"), True, ACCESS.acl)


def of_connections(most: int) -> ZooFacts:
    """A host of 100 drivers, and a server that takes ``most`` connections from one address; the others take any number."""
    servers = [replace(each, connections_max=most if each is THREE[1] else 0) for each in THREE]
    return replace(ZOO, drivers=100, servers=tuple(servers))


NO_ZOO = ZooFacts(
    10.0,
    (down(1), down(2), down(3)),
    error=Complaint("ZooKeeper at zk1:2181 did not answer within 6 s", "is it running?"),
    leases=ZOO.leases,
    job="clicks",
    checkpoint="s3://bucket/ck",
)
UNIT = Unit(
    "/etc/systemd/system/spark-supervisor.service",
    {"KillMode": "process", "Delegate": "yes", "OOMPolicy": "continue"},
)
HOST = HostFacts(
    running=None,
    groups=Groups("/sys/fs/cgroup/x", usable=True, kill=True),
    limits=Limits(1 << 20, UNLIMITED),
    limits_of="this shell",
    drivers=20,
    capacity_bytes=16 * GIB,
    memory_bytes=64 * GIB,
    unit=UNIT,
    http="127.0.0.1:8780",
)
DIRECTORY = Directory("/run/x", True, "/run/x", file_system="tmpfs", free_bytes=8 * GIB, free_files=100_000)
ON_DISK = replace(DIRECTORY, path="/var/lib/x", existing="/var/lib/x", file_system="ext4")
DIRECTORIES = DirectoryFacts(DIRECTORY, DIRECTORY, DIRECTORY, ON_DISK)
JOB = JobFacts(True, 2, memory_bytes=2 * GIB, driver_memory="1g")


def unit(**options: str) -> HostFacts:
    return replace(HOST, unit=Unit(UNIT.path, {**UNIT.options, **options}))


def access(**changes: Any) -> HostFacts:
    return replace(HOST, http_access=HttpAccessFacts(**changes))


def runtime(**changes: Any) -> DirectoryFacts:
    return replace(DIRECTORIES, runtime=replace(DIRECTORY, **changes))


def store(**changes: Any) -> StoreFacts:
    return replace(STORE, probe=replace(PROBE, **changes))


def limits(**changes: Any) -> HostFacts:
    return replace(HOST, limits=replace(HOST.limits, **changes))


OK, WARNING, PROBLEM, SKIPPED = (
    CheckVerdict.OK,
    CheckVerdict.WARNING,
    CheckVerdict.PROBLEM,
    CheckVerdict.SKIPPED,
)

TABLE: list[tuple[str, Any, CheckVerdict, str]] = [
    ("java", JAVA, OK, "/usr/bin/java is Java 17.0.15"),
    ("java", replace(JAVA, options=("JAVA_TOOL_OPTIONS",)), OK, "every JVM also obeys JAVA_TOOL_OPTIONS"),
    (
        "java",
        JavaFacts(refused=Complaint("no Java on this host", "install Java 17")),
        PROBLEM,
        "install Java 17",
    ),
    ("java", replace(JAVA, ran=modules("11.0.2")), PROBLEM, "is Java 11.0.2"),
    ("java", replace(JAVA, ran=modules("99")), WARNING, "newer than any"),
    ("java", replace(JAVA, ran=Ran(1, "", "Unrecognized option: --list-modules")), PROBLEM, "does not start"),
    (
        "java",
        replace(JAVA, ran=Ran(None, "", "", "java did not end within 6 s", late=True)),
        WARNING,
        "--timeout 2m",
    ),
    (
        "java",
        replace(JAVA, ran=Ran(None, "", "", "java cannot be executed (Exec format error)")),
        PROBLEM,
        "Exec format",
    ),
    (
        "java",
        replace(
            JAVA, ran=Ran(1, "", "Could not create the Java Virtual Machine."), options=("JAVA_TOOL_OPTIONS",)
        ),
        PROBLEM,
        "remove what JAVA_TOOL_OPTIONS says",
    ),
    ("java-modules", JAVA, OK, "all that Spark needs"),
    (
        "java-modules",
        replace(JAVA, ran=modules(without=("jdk.unsupported", "jdk.security.auth"))),
        PROBLEM,
        "lacks jdk.security.auth, jdk.unsupported",
    ),
    ("java-modules", replace(JAVA, ran=modules(without=("jdk.crypto.ec",))), WARNING, "jdk.crypto.ec (TLS"),
    ("java-modules", JavaFacts(refused=Complaint("none")), SKIPPED, "does not run"),
    ("spark", SPARK, OK, "/opt/spark is Spark 4.3.0 with Hadoop 3.5.0"),
    (
        "spark",
        SparkFacts(
            refused=Complaint("spark.home is /x, but /x/bin/spark-submit cannot be executed", "correct it")
        ),
        PROBLEM,
        "correct it",
    ),
    ("spark", replace(SPARK, version=None), PROBLEM, "no spark-core jar"),
    ("spark", replace(SPARK, version="3.5.9"), WARNING, "Spark is 3.5.9, and the fence needs 4.1 or newer"),
    ("spark", replace(SPARK, version="4.0.1"), WARNING, "Spark is 4.0.1, and the fence needs 4.1 or newer"),
    (
        "spark-versions",
        replace(SPARK, versions=(NAMED._replace(found="3.5.9"),)),
        WARNING,
        "Spark is 3.5.9, and the fence needs 4.1 or newer",
    ),
    ("spark-submit", SPARK, OK, "says 4.3.0"),
    (
        "spark-submit",
        replace(SPARK, submit=Ran(1, "", "JAVA_HOME is not set")),
        PROBLEM,
        "failed with 1: JAVA_HOME is not set",
    ),
    (
        "spark-submit",
        replace(SPARK, submit=Ran(None, "", "", "it did not end within 12 s", late=True)),
        WARNING,
        "did not end",
    ),
    (
        "python",
        replace(SPARK, python_version=(), python_error="it did not end within 6 s", python_late=True),
        WARNING,
        "--timeout 2m",
    ),
    (
        "spark-submit",
        replace(SPARK, submit=Ran(None, "", "", "it cannot be executed (no bash)")),
        PROBLEM,
        "no bash",
    ),
    ("spark-submit", replace(SPARK, submit=Ran(0, "", "version 4.1.1")), PROBLEM, "two Sparks are mixed"),
    ("spark-submit", SparkFacts(refused=Complaint("none")), SKIPPED, "no Spark"),
    ("python", SPARK, OK, "Python 3.11.7"),
    ("python", replace(SPARK, python_version=(3, 10, 1)), PROBLEM, "needs 3.11"),
    ("python", replace(SPARK, version="4.1.1", python_version=(3, 10, 1)), OK, "3.10.1"),
    (
        "python",
        replace(SPARK, python_version=(), python_error="No module named encodings"),
        PROBLEM,
        "does not run",
    ),
    (
        "python",
        SparkFacts(
            python_refused=Complaint("PYSPARK_PYTHON is nope, which cannot be executed", "correct it")
        ),
        PROBLEM,
        "nope",
    ),
    ("class-archive", SPARK, WARNING, "drivers start without one"),
    ("class-archive", replace(SPARK, archive=ClassArchive(Path("/run/a.jsa"))), OK, "start with /run/a.jsa"),
    ("class-archive", replace(SPARK, archive=ClassArchive(why=OFF)), OK, "is off on this host"),
    ("class-archive", replace(SPARK, archive=ClassArchive(why=NOT_YET)), OK, "makes it when no driver"),
    ("class-archive", replace(SPARK, archive=ClassArchive(why="x is odd")), WARNING, "x is odd"),
    ("class-archive", SparkFacts(refused=Complaint("no Spark")), SKIPPED, "there is no Spark"),
    ("pyspark", SPARK, OK, "is that of Spark"),
    ("pyspark", replace(SPARK, pyspark="4.1.1"), PROBLEM, "pip install pyspark==4.3.0"),
    ("pyspark", replace(SPARK, pyspark=None), PROBLEM, "has no pyspark"),
    ("pyspark", replace(SPARK, pyspark=None, own_pyspark=True), OK, "brings Spark's own"),
    ("pyspark", replace(SPARK, pyspark="4.1.1", own_pyspark=True, session=True), PROBLEM, "is 4.1.1"),
    ("pyspark", replace(SPARK, pyspark=None, is_python=False), SKIPPED, ".jar"),
    ("spark-versions", SPARK, SKIPPED, "no other Spark"),
    ("spark-versions", replace(SPARK, versions=(OLDER, NAMED)), OK, "4.1 is Spark 4.1.1; old is Spark 4.2.0"),
    (
        "spark-versions",
        replace(SPARK, versions=(OLDER, NAMED._replace(refused=Complaint("no home", "correct it")))),
        PROBLEM,
        "correct it",
    ),
    ("spark-versions", replace(SPARK, versions=(OLDER._replace(found=None),)), PROBLEM, "no spark-core jar"),
    (
        "spark-versions",
        replace(SPARK, versions=(OLDER._replace(found="4.10.0"),)),
        WARNING,
        "is Spark 4.10.0",
    ),
    ("spark-versions", replace(SPARK, versions=(OLDER._replace(without_s3a=True),)), WARNING, "4.1.s3a_jars"),
    ("s3a-jars", SPARK, SKIPPED, "nothing"),
    (
        "s3a-jars",
        S3A,
        PROBLEM,
        "org.apache.hadoop:hadoop-aws:3.5.0 with software.amazon.awssdk:{s3,s3-transfer-manager,sts,",
    ),
    ("s3a-jars", replace(S3A, s3a_sure=False), WARNING, "no hadoop-aws jar"),
    ("s3a-jars", replace(S3A, thin=THIN), OK, "the thin set"),
    (
        "s3a-jars",
        replace(S3A, jars=JARS | {"hadoop-aws-3.5.0.jar", "bundle-2.35.4.jar"}),
        OK,
        "bundle 2.35.4",
    ),
    (
        "s3a-jars",
        replace(S3A, jars=JARS | {"hadoop-aws-3.4.1.jar", "bundle-2.24.6.jar"}),
        PROBLEM,
        "Hadoop of Spark is 3.5.0",
    ),
    (
        "s3a-jars",
        replace(S3A, jars=JARS | {"hadoop-aws-3.4.1.jar", "hadoop-aws-3.5.0.jar"}),
        PROBLEM,
        "more than once",
    ),
    ("s3a-jars", replace(S3A, thin=THIN - {"sts-2.35.4.jar"}), PROBLEM, "no sts"),
    (
        "s3a-jars",
        replace(S3A, thin=(THIN - {"sts-2.35.4.jar"}) | {"sts-2.29.52.jar"}),
        PROBLEM,
        "several versions: 2.29.52, 2.35.4",
    ),
    ("s3a-jars", replace(S3A, jars=JARS | {"hadoop-aws-3.5.0.jar"}), PROBLEM, "not all of the AWS SDK"),
    ("s3a-jars", replace(S3A, brought=("org.apache.hadoop:hadoop-aws:3.5.0",)), OK, "brings"),
    ("s3a-jars", replace(S3A, brought=("org.apache.hadoop:hadoop-aws:3.4.1",)), PROBLEM, "must be equal"),
    ("s3a-jars", replace(S3A, brought=("hadoop-aws-3.4.1.jar",)), PROBLEM, "must be equal"),
    (
        "s3a-jars",
        replace(
            S3A, thin_refused=Complaint("spark.s3a_jars is /x, which holds no hadoop-aws jar", "fill it")
        ),
        PROBLEM,
        "fill it",
    ),
    ("checkpoint-fence", SPARK, SKIPPED, "nothing"),
    ("checkpoint-fence", replace(S3A, refused=Complaint("no Spark"), fence=""), SKIPPED, "no Spark"),
    ("checkpoint-fence", replace(S3A, fence="", thin=THIN), OK, "compiles with Spark 4.3.0"),
    (
        "checkpoint-fence",
        replace(S3A, fence="", brought=("org.apache.hadoop:hadoop-aws:3.5.0",)),
        OK,
        "compiles",
    ),
    ("checkpoint-fence", replace(S3A, fence=""), SKIPPED, "hadoop-aws is not there"),
    (
        "checkpoint-fence",
        replace(S3A, fence="Spark is 4.0.1, and the fence needs 4.1 or newer"),
        WARNING,
        "fence, for Spark is 4.0.1",
    ),
    ("store", STORE, OK, "write 20, list 3 ms, deleted again"),
    (
        "store",
        store(
            failed="write",
            error=Complaint("AWS refused s3://bucket/p (NoSuchBucket): it does not exist", "create it"),
        ),
        PROBLEM,
        "create it",
    ),
    ("store", store(ms=(("write", 5000.0),)), WARNING, "write took 5000 ms"),
    (
        "store",
        store(failed="delete", error=Complaint("denied"), left="s3://bucket/p/checks/x"),
        PROBLEM,
        "remove s3://bucket/p/checks/x",
    ),
    ("store-conditional", STORE, OK, "refuses a second create"),
    ("store-conditional", store(exclusive=False), PROBLEM, "ignores If-None-Match"),
    ("store-conditional", store(exclusive=None), SKIPPED, "could not be written"),
    ("store-owner", STORE, OK, "nobody yet"),
    ("store-owner", replace(STORE, owner=("/spark-supervisor", "prod")), OK, "as configured"),
    ("store-owner", replace(STORE, owner=("/other", "prod")), PROBLEM, "at ZooKeeper root /other"),
    (
        "store-owner",
        replace(STORE, owner_error=Complaint("cluster.json is not JSON", "restore it")),
        PROBLEM,
        "restore it",
    ),
    ("store-owner", store(failed="write", error=Complaint("x")), SKIPPED, "written"),
    ("store-versioning", replace(STORE, versions=(True, False)), OK, "until its lifecycle rule"),
    ("store-versioning", replace(STORE, versions=(False, False)), OK, "no older versions"),
    ("store-versioning", replace(STORE, versions=(True, True)), WARNING, "it only grows"),
    ("store-versioning", STORE, SKIPPED, "s3:GetBucketVersioning"),
    ("store-versioning", replace(STORE, url="file:///x"), OK, "a directory"),
    ("store-versioning", store(failed="write", error=Complaint("x")), SKIPPED, "written"),
    ("store-clock", STORE, OK, "agrees"),
    ("store-clock", store(skew_s=-90.0), WARNING, "90 s behind"),
    ("store-clock", store(skew_s=1000.0), PROBLEM, "S3 refuses"),
    ("store-clock", replace(store(skew_s=1000.0), url="file:///x"), WARNING, "1000 s ahead"),
    ("store-clock", store(skew_s=None), SKIPPED, "not known"),
    ("checkpoint", CHECKPOINT, OK, "s3://bucket/p"),
    (
        "checkpoint",
        replace(CHECKPOINT, probe=replace(PROBE, failed="read", error=Complaint("AccessDenied", "grant it"))),
        PROBLEM,
        "grant it",
    ),
    ("checkpoint", replace(CHECKPOINT, keys=True), OK, "not with those that the job brings"),
    ("checkpoint", replace(CHECKPOINT, local=True), WARNING, "a directory of this host"),
    ("checkpoint", NO_PROBE, SKIPPED, "no spec"),
    ("checkpoint-conditional", CHECKPOINT, OK, "refuses"),
    (
        "checkpoint-conditional",
        replace(CHECKPOINT, probe=replace(PROBE, exclusive=False)),
        PROBLEM,
        "ignores",
    ),
    ("checkpoint-conditional", NO_PROBE, SKIPPED, "no spec"),
    ("zookeeper-servers", ZOO, OK, "3 of 3 servers serve, zk1:2181 leads"),
    (
        "zookeeper-servers",
        replace(ZOO, servers=(*THREE[:2], down(3))),
        PROBLEM,
        "the next loss stops everything",
    ),
    ("zookeeper-servers", replace(ZOO, servers=(*THREE, server(4), down(5))), PROBLEM, "1 more may be lost"),
    ("zookeeper-servers", replace(ZOO, servers=(THREE[0], down(2), down(3))), PROBLEM, "there is no quorum"),
    ("zookeeper-servers", NO_ZOO, PROBLEM, "no server of zookeeper.hosts serves"),
    ("zookeeper-ensemble", ZOO, OK, "3 servers, ZooKeeper 3.9.5"),
    (
        "zookeeper-ensemble",
        replace(ZOO, servers=(server(1, "standalone"),)),
        WARNING,
        "ensemble of one (standalone)",
    ),
    (
        "zookeeper-ensemble",
        replace(ZOO, servers=(server(1), server(2))),
        WARNING,
        "no more losses than one of 1",
    ),
    (
        "zookeeper-ensemble",
        replace(ZOO, servers=(server(1, version="3.4.14"), *THREE[1:])),
        PROBLEM,
        "3.4.14",
    ),
    ("zookeeper-ensemble", replace(ZOO, servers=(server(1, "read-only"), *THREE[1:])), PROBLEM, "read-only"),
    ("zookeeper-ensemble", replace(ZOO, doubled=("zk2:2181",)), WARNING, "are one server"),
    (
        "zookeeper-ensemble",
        replace(ZOO, servers=tuple(server(n, "follower", None) for n in (1, 2, 3))),
        OK,
        "srvr is not in",
    ),
    ("zookeeper-ensemble", NO_ZOO, SKIPPED, "no server serves"),
    ("zookeeper-session", ZOO, OK, "10s, as asked"),
    ("zookeeper-session", replace(ZOO, granted_s=4.0), WARNING, "ZooKeeper grants 4s"),
    ("zookeeper-session", NO_ZOO, PROBLEM, "did not answer"),
    ("zookeeper-session", replace(ZOO, error=Complaint("refused", "compare it")), PROBLEM, "compare it"),
    ("zookeeper-transport", SecurityFacts(), OK, "on this machine"),
    ("zookeeper-transport", SecurityFacts(is_local=False), WARNING, "set zookeeper.tls.ca"),
    ("zookeeper-transport", SECURED, OK, "certificate of each server is checked"),
    (
        "zookeeper-transport",
        replace(SECURED, access=replace(ACCESS, tls=TlsFiles(ca="/ca", verify_hostname=False))),
        WARNING,
        "any certificate of its authority",
    ),
    ("zookeeper-credentials", SecurityFacts(), OK, "on this machine"),
    ("zookeeper-credentials", SecurityFacts(is_local=False), WARNING, "set zookeeper.auth"),
    ("zookeeper-credentials", SECURED, OK, "as sasl:supervisor"),
    ("zookeeper-credentials", replace(SECURED, known_as=None), SKIPPED, "older than 3.7"),
    ("zookeeper-credentials", replace(SECURED, known_as=("ip:10.0.0.1",)), PROBLEM, "by no id of sasl"),
    ("zookeeper-credentials", replace(SECURED, known_as=("sasl:other",)), PROBLEM, "none of acl_admins"),
    ("zookeeper-acl", replace(SecurityFacts(), is_known=True), OK, "on this machine"),
    ("zookeeper-acl", SecurityFacts(), SKIPPED, "no session"),
    ("zookeeper-acl", SecurityFacts(is_local=False, is_known=True), WARNING, "set zookeeper.auth"),
    (
        "zookeeper-acl",
        replace(SECURED, acl="open", root_acl=OPEN_ACL, access=replace(ACCESS, admins=(), readers=())),
        WARNING,
        "set acl: create",
    ),
    ("zookeeper-acl", replace(SECURED, acl="open"), PROBLEM, "znodes of this host would be open"),
    ("zookeeper-acl", replace(SECURED, root_acl=None), OK, "will be created with its ACL"),
    ("zookeeper-acl", replace(SECURED, root_acl=OPEN_ACL), WARNING, "registry secure"),
    ("zookeeper-acl", replace(SECURED, acl="enforce", root_acl=OPEN_ACL), PROBLEM, "open to everyone"),
    ("zookeeper-acl", replace(SECURED, root_acl=acl_of(("sasl:old",), ())), WARNING, "differ from the ACL"),
    ("zookeeper-acl", SECURED, OK, "acl: enforce is the last step"),
    ("zookeeper-acl", replace(SECURED, acl="enforce"), OK, "no other one is accepted"),
    ("zookeeper-latency", ZOO, OK, "0.4 / 1.2 / 9.0 ms"),
    ("zookeeper-latency", replace(ZOO, latency=Latency(100, 300, 500)), WARNING, "dataLogDir"),
    ("zookeeper-latency", replace(ZOO, latency=Latency(1, 1, 4000)), PROBLEM, "a third of the session time"),
    ("zookeeper-latency", NO_ZOO, SKIPPED, "no session"),
    ("zookeeper-permissions", ZOO, OK, "in /spark-supervisor"),
    (
        "zookeeper-permissions",
        replace(ZOO, trial=WriteTrial("/x", Complaint("ZooKeeper does not permit doctor: NoAuth"))),
        PROBLEM,
        "acl_admins",
    ),
    ("zookeeper-permissions", NO_ZOO, SKIPPED, "no session"),
    ("zookeeper-root", ZOO, OK, "holds cluster prod"),
    ("zookeeper-root", replace(ZOO, cluster=""), OK, "is empty"),
    (
        "zookeeper-root",
        replace(ZOO, cluster_error=Complaint("zookeeper.root /x belongs to cluster other", "choose")),
        PROBLEM,
        "belongs to",
    ),
    ("zookeeper-root", NO_ZOO, SKIPPED, "no session"),
    ("zookeeper-clock", ZOO, OK, "agrees"),
    ("zookeeper-clock", replace(ZOO, trial=WriteTrial("/x", skew_s=7200.0)), WARNING, "chrony"),
    ("zookeeper-clock", NO_ZOO, SKIPPED, "no session"),
    ("zookeeper-load", ZOO, OK, "/r/jobs: 12 names"),
    ("zookeeper-load", replace(ZOO, children=(("/r/results", 15_000),)), WARNING, "jute.maxbuffer"),
    ("zookeeper-load", NO_ZOO, SKIPPED, "no cluster"),
    ("zookeeper-connections", ZOO, OK, "may need 30 connections"),
    ("zookeeper-connections", replace(ZOO, drivers=100), WARNING, "conf is not in 4lw.commands.whitelist"),
    ("zookeeper-connections", of_connections(60), WARNING, "zk2:2181 takes 60"),
    ("zookeeper-connections", of_connections(110), OK, "may need 110 connections"),
    ("zookeeper-connections", of_connections(0), OK, "no server is known to take fewer"),
    ("zookeeper-connections", replace(ZOO, servers=(down(1), down(2))), SKIPPED, "no server serves"),
    ("lease", ZOO, OK, "defaults.lease 30s"),
    ("lease", replace(ZOO, leases=(("lease of the job", 10.0),)), WARNING, "use a lease of 21s or more"),
    ("lease", replace(ZOO, granted_s=40.0), WARNING, "a session of 40s"),
    ("lease", NO_ZOO, OK, "30s"),
    ("supervisor-id", ZOO, OK, "pid 4711"),
    ("supervisor-id", replace(ZOO, members=(), holder=None), OK, "nobody uses supervisor.id host-a"),
    ("supervisor-id", replace(ZOO, members=()), PROBLEM, "not registered"),
    ("supervisor-id", replace(ZOO, members=(member(boot="boot-2"),)), PROBLEM, "used by host host-a.example"),
    ("supervisor-id", replace(ZOO, holder=None), WARNING, "another runtime_dir"),
    ("supervisor-id", NO_ZOO, SKIPPED, "no session"),
    ("job-checkpoint", ZOO, OK, "no other job"),
    (
        "job-checkpoint",
        replace(ZOO, overlap=Complaint("checkpoint x overlaps y, which belongs to job z", "choose")),
        PROBLEM,
        "job z",
    ),
    ("job-checkpoint", replace(ZOO, job=""), SKIPPED, "no spec"),
    ("job-checkpoint", replace(ZOO, checkpoint=None), SKIPPED, "no checkpoint"),
    ("job-checkpoint", NO_ZOO, SKIPPED, "no session"),
    ("policies", ZOO, OK, "no supervisor is up that judges"),
    ("policies", replace(ZOO, members=JUDGING, policy_sha256="5" * 64), OK, "has this policy"),
    (
        "policies",
        replace(ZOO, members=JUDGING, policy_sha256="7" * 64),
        WARNING,
        "this configuration is another one",
    ),
    (
        "policies",
        replace(
            ZOO, members=(*JUDGING, replace(member("host-b"), policy_sha256="7" * 64)), policy_sha256="7" * 64
        ),
        WARNING,
        "differ (55555555 on host-a; 77777777 on host-b)",
    ),
    ("policies", replace(ZOO, error=Complaint("down")), SKIPPED, "no session"),
    ("job-placement", ZOO, OK, "fits 1 of 1"),
    ("job-placement", replace(ZOO, memory=32 * GIB), PROBLEM, "the largest offers 16g"),
    ("job-placement", replace(ZOO, members=()), SKIPPED, "no supervisor"),
    ("job-placement", replace(ZOO, job=""), SKIPPED, "no spec"),
    ("clock", HOST, OK, "CLOCK_BOOTTIME"),
    ("clock", replace(HOST, boottime="CLOCK_BOOTTIME cannot be read (no)"), PROBLEM, "deadlines"),
    ("cgroup", HOST, OK, "can be made, entered and killed"),
    ("cgroup", replace(HOST, groups=Groups()), WARNING, "only after 32s"),
    ("cgroup", replace(HOST, groups=Groups("/x")), WARNING, "Delegate=yes"),
    ("cgroup", replace(HOST, groups=Groups("/x", usable=True)), WARNING, "5.14"),
    ("run-as", HOST, OK, "policy.run_as is empty"),
    ("run-as", replace(HOST, users=("etl",)), OK, "jobs run as etl"),
    ("run-as", replace(HOST, users=("etl",), without_user=True), WARNING, "policy.run_as.default"),
    (
        "run-as",
        replace(HOST, users=("etl",), users_trouble=Complaint("no", "do")),
        PROBLEM,
        "as another user: no",
    ),
    (
        "run-as",
        replace(HOST, users=("etl",), users_unknown=("there is no user etl",)),
        PROBLEM,
        "no user etl",
    ),
    ("run-as", replace(HOST, users=("etl",), users_closed="/root"), PROBLEM, "/root"),
    (
        "run-as",
        replace(HOST, users=("etl",), users_read=("user etl can read /t",)),
        PROBLEM,
        "a secret of the supervisor",
    ),
    ("limits", HOST, OK, "are enforced"),
    ("limits", replace(HOST, controllers_lacking={"cpu": "no"}), OK, "cpu would not be"),
    (
        "limits",
        replace(HOST, controllers_asked=("cpu",), controllers_lacking={"cpu": "no"}),
        WARNING,
        "cpu: no",
    ),
    ("open-files", HOST, OK, "1048576"),
    ("open-files", limits(open_files=UNLIMITED), OK, "none"),
    ("open-files", limits(open_files=2048), WARNING, "LimitNOFILE"),
    ("open-files", limits(open_files=256), PROBLEM, "LimitNOFILE"),
    ("threads", HOST, OK, "not limited"),
    ("threads", limits(processes=30_000), OK, "RLIMIT_NPROC"),
    ("threads", limits(pids_max=4096), WARNING, "TasksMax=infinity"),
    ("threads", limits(pids_max=512), PROBLEM, "pids.max of this shell allows 512"),
    ("memory", HOST, OK, "16g of 64.0 GiB"),
    ("memory", replace(HOST, memory_bytes=17 * GIB), WARNING, "lower"),
    ("memory", replace(HOST, memory_bytes=8 * GIB), PROBLEM, "would kill drivers"),
    ("memory", replace(HOST, memory_bytes=None), SKIPPED, "not known"),
    ("service-unit", HOST, OK, "KillMode=process, Delegate=yes"),
    ("service-unit", unit(KillMode="control-group"), PROBLEM, "would kill every driver"),
    (
        "service-unit",
        replace(HOST, unit=Unit(UNIT.path, {"Delegate": "yes"})),
        PROBLEM,
        "KillMode=control-group (the default)",
    ),
    ("service-unit", unit(KillMode="mixed"), PROBLEM, "would kill every driver"),
    ("service-unit", unit(Delegate="no"), WARNING, "set Delegate=yes"),
    ("service-unit", unit(OOMPolicy="stop"), WARNING, "OOMPolicy=continue"),
    (
        "service-unit",
        replace(
            unit(ProtectSystem="strict", StateDirectory="s"),
            written=(("store.url", "/mnt/s"), ("x", "/var/lib/s/x")),
        ),
        PROBLEM,
        "can't write to store.url /mnt/s",
    ),
    (
        "service-unit",
        replace(unit(ProtectSystem="strict", ReadWritePaths="/mnt"), written=(("store.url", "/mnt/s"),)),
        OK,
        "KillMode",
    ),
    (
        "service-unit",
        replace(HOST, unit=Unit("/x", {}, "/x cannot be read (Permission denied)")),
        PROBLEM,
        "Permission denied",
    ),
    ("service-unit", replace(HOST, unit=None), SKIPPED, "not installed"),
    ("service-unit", replace(HOST, unit=None, unit_name="own.service"), WARNING, "own.service"),
    ("policy", HOST, OK, "says what jobs may have"),
    ("policy", replace(HOST, open_rules=("secrets.env",), alone=True), OK, "on this machine only"),
    (
        "policy",
        replace(HOST, open_rules=("secrets.env",), signed=True, alone=True),
        OK,
        "on this machine only",
    ),
    (
        "policy",
        replace(HOST, open_rules=("in_place_files",), signed=True, alone=True),
        WARNING,
        "files of this host that nobody has signed",
    ),
    (
        "policy",
        replace(HOST, open_rules=("secrets.env", "checkpoints")),
        WARNING,
        "everything in secrets.env, checkpoints",
    ),
    ("http", HOST, OK, "is free"),
    ("http", replace(HOST, running=7), OK, "pid 7"),
    ("http", replace(HOST, http_error="Address already in use"), PROBLEM, "Address already in use"),
    ("http-access", HOST, OK, "from this host only"),
    ("http-access", access(beyond_loopback=True), WARNING, "answers everybody"),
    ("http-access", access(beyond_loopback=True, tls=True), WARNING, "answers everybody"),
    ("http-access", access(beyond_loopback=True, users=True), WARNING, "in plain text"),
    ("http-access", access(beyond_loopback=True, users=True, tls=True), OK, "known users only"),
    (
        "http-access",
        access(beyond_loopback=True, users=True, tls=True, client_ca=True),
        OK,
        "known certificates and users only",
    ),
    ("http-access", access(users=True, users_open_to_all=True), WARNING, "chmod o-r"),
    ("http-access", access(tls=True, days_left=3.2), WARNING, "expires in 3 days"),
    ("http-access", access(tls=True, days_left=-3.2), PROBLEM, "has expired"),
    (
        "http-access",
        access(tls=True, error="http.tls.cert /x can't be used (no)"),
        PROBLEM,
        "http.tls.cert /x",
    ),
    ("api", ApiFacts(), SKIPPED, "there is no API"),
    ("api", API, OK, "0.0.0.0:8781, for others https://host-a:8781: it answers"),
    ("api", replace(API, unanswered=None), OK, "no supervisor runs here"),
    ("api", replace(API, unanswered="connection refused"), PROBLEM, "connection refused"),
    ("api", replace(API, url=""), WARNING, "set api.url"),
    ("api-certificate", ApiFacts(), SKIPPED, "there is no API"),
    ("api-certificate", API, OK, "valid for 90 days, and names this host"),
    ("api-certificate", ApiFacts("127.0.0.1:8781"), OK, "from this host only"),
    ("api-certificate", replace(API, tls_error="api.tls.cert /x can't be used (no)"), PROBLEM, "/x"),
    ("api-certificate", replace(API, days_left=3.2), WARNING, "expires in 3 days"),
    ("api-certificate", replace(API, days_left=-3.2), PROBLEM, "has expired"),
    ("api-certificate", replace(API, is_named=False), WARNING, "does not name the host of https://host-a"),
    ("api-tokens", ApiFacts(), SKIPPED, "there is no API"),
    ("api-tokens", API, OK, "2 tokens may read, and none may write"),
    ("api-tokens", replace(API, operators=1), OK, "1 may also write"),
    ("api-tokens", replace(API, without_token=("/x",)), WARNING, "nobody has a token of /x"),
    ("api-tokens", replace(API, tokens_error="everybody may read /x"), PROBLEM, "everybody may read /x"),
    ("runtime-dir", DIRECTORIES, OK, "can be used (tmpfs"),
    ("runtime-dir", runtime(exists=False, existing="/run"), OK, "will be made in /run"),
    ("runtime-dir", runtime(error="/run/x is not a directory"), PROBLEM, "is not a directory"),
    ("runtime-dir", runtime(open_to_all=True), PROBLEM, "chmod 0700"),
    ("runtime-dir", runtime(anothers=True), WARNING, "chown it"),
    ("runtime-dir", runtime(free_bytes=1 << 20), PROBLEM, "1 MiB left"),
    ("runtime-dir", runtime(free_files=3), PROBLEM, "3 inodes"),
    ("runtime-dir", runtime(file_system="nfs4"), PROBLEM, "tmpfs"),
    ("runtime-dir", runtime(noexec=True), WARNING, "noexec"),
    ("state-dir", DIRECTORIES, OK, "can be used"),
    ("state-dir", replace(DIRECTORIES, state=replace(DIRECTORY, free_bytes=1 << 20)), PROBLEM, "make room"),
    (
        "state-dir",
        replace(DIRECTORIES, state=replace(DIRECTORY, file_system="tmpfs")),
        WARNING,
        "lost with a reboot",
    ),
    ("state-dir", replace(DIRECTORIES, state=replace(DIRECTORY, file_system="nfs4")), WARNING, "local disk"),
    ("log-dir", DIRECTORIES, OK, "can be used"),
    ("log-dir", replace(DIRECTORIES, logs_most_bytes=10 << 30), OK, "; 10g of output are kept at most"),
    ("log-dir", replace(DIRECTORIES, logs=replace(DIRECTORY, free_bytes=1 << 20)), PROBLEM, "make room"),
    ("log-dir", replace(DIRECTORIES, logs=replace(DIRECTORY, file_system="nfs4")), WARNING, "local disk"),
    ("scratch", DIRECTORIES, OK, "can be used"),
    ("scratch", replace(DIRECTORIES, scratch=replace(DIRECTORY, open_to_all=True)), OK, "can be used"),
    ("scratch", replace(DIRECTORIES, scratch=replace(DIRECTORY, noexec=True)), PROBLEM, "native libraries"),
    ("scratch", replace(DIRECTORIES, scratch=replace(DIRECTORY, free_bytes=1 << 20)), WARNING, "make room"),
    ("job-files", JOB, OK, "can be read"),
    (
        "job-files",
        replace(JOB, unreadable=(Complaint("file /a.py does not exist", "see"), Complaint("b"))),
        PROBLEM,
        "(and 1 more)",
    ),
    ("job-files", JobFacts(), SKIPPED, "no spec"),
    ("job-secrets", JOB, OK, "resolves"),
    (
        "job-secrets",
        replace(JOB, unresolved=(Complaint("env A refers to variable B", "set it"),)),
        WARNING,
        "EnvironmentFile",
    ),
    ("job-directory", JobFacts(), SKIPPED, "no spec"),
    ("job-directory", JOB, OK, "relative"),
    (
        "job-directory",
        replace(JOB, relative=(Complaint("args: './out'", "name"),) * 2),
        WARNING,
        "(and 1 more)",
    ),
    ("job-way-back", JobFacts(), SKIPPED, "no spec"),
    ("job-way-back", JOB, OK, "way back"),
    ("job-way-back", replace(JOB, no_way_back=Complaint("it can't go back", "say so")), WARNING, "go back"),
    ("job-secrets", JobFacts(), SKIPPED, "no spec"),
    ("job-memory", JOB, OK, "within"),
    ("job-memory", replace(JOB, driver_memory=""), OK, "default"),
    (
        "job-memory",
        replace(
            JOB, short=Complaint("resources.memory 600 MiB does not hold it", "set resources.memory to 800m")
        ),
        WARNING,
        "800m",
    ),
    ("job-memory", replace(JOB, driver_memory="much"), SKIPPED, "much"),
    ("job-memory", JobFacts(), SKIPPED, "no spec"),
    ("job-master", replace(JOB, master="local[2]"), OK, "no other host"),
    ("job-master", replace(JOB, master="spark://m:7077"), OK, "answers"),
    (
        "job-master",
        replace(JOB, master="spark://m:7077", master_silent="m:7077: refused"),
        PROBLEM,
        "nobody answers",
    ),
    ("job-master", JobFacts(), SKIPPED, "no spec"),
    (
        "job-master",
        replace(JOB, master="", no_cluster=Complaint("cluster: test is no cluster of this host", "add it")),
        PROBLEM,
        "cluster: test is no cluster",
    ),
    (
        "job-master",
        replace(JOB, master="spark://m:7077", outlived="conf lets executors outlive their driver by 690 s"),
        WARNING,
        "by 690 s",
    ),
    ("job-policy", JOB, OK, "allows the job"),
    (
        "job-policy",
        replace(
            JOB,
            refused=(
                Complaint("env X: variable A is none that policy.secrets.env allows (JOB_*)"),
                Complaint("b"),
            ),
        ),
        PROBLEM,
        "policy.secrets.env allows (JOB_*) (and 1 more)",
    ),
    ("job-policy", JobFacts(), SKIPPED, "no spec"),
    ("job-session", JOB, OK, "in the driver"),
    (
        "job-session",
        replace(JOB, unsupported="conf spark.remote asks for a Spark Connect server"),
        PROBLEM,
        "spark.remote",
    ),
    ("job-session", JobFacts(), SKIPPED, "no spec"),
    ("job-deletion", JOB, OK, "keep"),
    ("job-deletion", replace(JOB, deletes=True), OK, "allowed here"),
    (
        "job-deletion",
        replace(JOB, deletes=True, kept="policy.deletable allows it nowhere"),
        WARNING,
        "will not delete",
    ),
    ("job-deletion", JobFacts(), SKIPPED, "no spec"),
    ("notify-receivers", ReceiversFacts(), SKIPPED, "names no receiver"),
    ("notify-receivers", ReceiversFacts((("ops", ""), ("pager", ""))), OK, "told nothing: ops; pager"),
    (
        "notify-receivers",
        ReceiversFacts((("ops", ""), ("pager", "https://pager does not answer (refused)"))),
        PROBLEM,
        "pager: https://pager does not answer (refused)",
    ),
    ("cluster-reachable", CLUSTERS, OK, "cluster prod: m1:8080 is ALIVE"),
    ("cluster-reachable", ClustersFacts(), SKIPPED, "names no cluster"),
    (
        "cluster-reachable",
        one_cluster(silent="no master answers: refused", answer=None),
        PROBLEM,
        "cluster test: no master answers: refused",
    ),
    (
        "cluster-reachable",
        one_cluster(leaderless="no master leads: m2 is STANDBY"),
        PROBLEM,
        "no master leads",
    ),
    ("cluster-reachable", one_cluster(some_silent="http://m2:8080 answers 500"), WARNING, "answers 500"),
    (
        "cluster-reachable",
        ClustersFacts((OneCluster("yarn", "yarn"),)),
        SKIPPED,
        "clusters of kind yarn are not looked at",
    ),
    ("cluster-version", CLUSTERS, OK, "Spark 4.3.0"),
    ("cluster-version", one_cluster(version="4.1.1"), PROBLEM, "Spark 4.1.1, and this host has 4.3.0"),
    ("cluster-version", one_cluster(version=None), OK, "Spark 4.3.0"),
    ("cluster-version", replace(CLUSTERS, version=None), SKIPPED, "no Spark"),
    ("cluster-room", CLUSTERS, OK, "1 worker, 2 of 2 cores free"),
    ("cluster-room", one_cluster(no_room="no worker is alive"), WARNING, "cluster test: no worker is alive"),
    ("cluster-room", one_cluster(silent="down", answer=None), OK, "cluster prod"),
    (
        "cluster-room",
        replace(CLUSTERS, clusters=(CLUSTER._replace(answer=None, silent="x"),)),
        SKIPPED,
        "none answers",
    ),
    (
        "cluster-room",
        replace(
            CLUSTERS,
            clusters=(OneCluster("pods", "kubernetes", answer=ClusterAnswer("the API server answers")),),
        ),
        SKIPPED,
        "a cluster of kind kubernetes does not say that",
    ),
    ("cluster-driver-host", CLUSTERS, OK, "10.0.0.7"),
    ("cluster-driver-host", one_cluster(unbound="10.0.0.9 is no address of this host"), PROBLEM, "10.0.0.9"),
    ("cluster-driver-host", replace(CLUSTERS, clusters=(CLUSTER._replace(host=""),)), SKIPPED, "driver_host"),
    ("cluster-driver-host", ClustersFacts(), SKIPPED, "names no cluster"),
    ("cluster-executor", DeepFacts("it takes a minute: doctor --deep"), SKIPPED, "--deep"),
    (
        "cluster-executor",
        DeepFacts(ran=(("prod", Ran(0, "an executor of this cluster says 42\n", "")),)),
        OK,
        "got an executor of prod",
    ),
    ("cluster-executor", DeepFacts(ran=(("prod", Ran(1, "", "Boom\n")),)), PROBLEM, "cluster prod: Boom"),
    (
        "cluster-executor",
        DeepFacts(ran=(("prod", Ran(None, "", "", "spark-submit did not end", late=True)),)),
        WARNING,
        "no executor came in time",
    ),
    ("job-credentials", CredentialsFacts("no spec was given"), SKIPPED, "no spec"),
    (
        "job-credentials",
        tried(refused=FOLDERS),
        OK,
        "env may not write to specs/, artifacts/, epochs/, audit/",
    ),
    ("job-credentials", tried(written=("specs/",), refused=("epochs/",)), WARNING, "can write to specs/ of"),
    ("job-credentials", tried(written=("specs/",), left="s3://b/specs/x"), WARNING, "remove it"),
    ("job-credentials", tried(refused=("specs/",), error=Complaint("it is down", "")), WARNING, "it is down"),
    ("job-credentials", CredentialsFacts(inherited=True), WARNING, "AWS_ACCESS_KEY_ID is inherited"),
    ("job-packages", PackageFacts(packages=("a:b:1",)), OK, "a:b:1: found"),
    (
        "job-packages",
        PackageFacts(packages=("a:b:1",), missing=(("a:b:1", "central does not have it"),)),
        WARNING,
        "central",
    ),
    ("job-packages", PackageFacts("the job has no packages"), SKIPPED, "no packages"),
]


@pytest.mark.parametrize(
    ("check", "facts", "verdict", "says"), TABLE, ids=[f"{row[0]}-{n}" for n, row in enumerate(TABLE)]
)
def test_the_table(check: str, facts: Any, verdict: CheckVerdict, says: str) -> None:
    found: DoctorFinding = CHECKS[check].judge(facts)
    assert found.verdict is verdict, found
    assert says in f"{found.found} {found.remedy}"
    assert "\n" not in found.found + found.remedy
    assert bool(found.remedy) is (verdict in (WARNING, PROBLEM))


def test_every_check_has_a_good_and_a_bad_row() -> None:
    seen: defaultdict[str, set[CheckVerdict]] = defaultdict(set)
    for check, _, verdict, _ in TABLE:
        seen[check].add(verdict)
    assert set(seen) == set(CHECKS)
    for check, verdicts in seen.items():
        assert OK in verdicts and verdicts & {WARNING, PROBLEM}, check


def test_every_judge_of_facts_is_in_the_catalogue() -> None:
    modules = {check.judge.__module__ for check in CHECKS.values()}
    judges = {
        f"{module}:{name}"
        for module in modules
        for name, judge in vars(sys.modules[module]).items()
        if name.startswith("judge_") and [*inspect.signature(judge).parameters] == ["facts"]
    }
    assert judges - {f"{check.judge.__module__}:{check.judge.__name__}" for check in CHECKS.values()} == set()


def test_ids_are_unique_and_said_in_one_line() -> None:
    ids = [check for _, check, _ in listed()]
    assert len(ids) == len(set(ids)) == len(CHECKS)
    for _, check, about in listed():
        assert about and "\n" not in about and check == check.lower()
