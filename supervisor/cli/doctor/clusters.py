"""Checks the clusters of ``supervisor.yaml``: whether they answer, which Spark they are, what they have, and whether their
executors can reach drivers of this host; with ``--deep``, that an application gets an executor."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from supervisor.cli.doctor.findings import (
    CheckGroup,
    DoctorCheck,
    DoctorFinding,
    ok,
    problem,
    skipped,
    warning,
)
from supervisor.cli.doctor.java import host_environment
from supervisor.cli.doctor.phrases import MORE_TIME
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.binding import why_not_bound
from supervisor.clients.threads import run_in_thread
from supervisor.clients.tools import Ran, run_tool
from supervisor.clusters.application import ClusterSilent
from supervisor.clusters.examined import EXAMINERS, ClusterAnswer
from supervisor.model.phrases import first_few
from supervisor.settings.clusters import ClusterSettings
from supervisor.spark.refusal import Refused
from supervisor.spark.toolchain import java_home_of, python_of, spark_home_of, spark_version
from supervisor.spec.job import JobSpec
from supervisor.spec.on_cluster import DRIVER_HOST, ending_properties, on_cluster

WHOLE_S: Final = 12.0
BIND_S: Final = 3.0
DEEP_S: Final = 40.0
ENDING_S: Final = 6.0
TIMED_OUT: Final = (124, 137)
"""Exit codes of coreutils' ``timeout``: the command was ended, or had to be killed."""
BIND_ADDRESS: Final = "spark.driver.bindAddress"
NO_CLUSTER: Final = "supervisor.yaml names no cluster"
NOT_DEEP: Final = "it takes a minute: doctor --deep"
GOT_ONE: Final = "an executor of this cluster says 42"

APPLICATION: Final = """
import operator
from functools import partial
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
found = spark.sparkContext.parallelize([20], 1).map(partial(operator.add, 22)).collect()
print("an executor of this cluster says", *found, flush=True)
spark.stop()
"""


class OneCluster(NamedTuple):
    """Holds what was found of one cluster. ``silent`` is why it does not answer, and ``answer`` what it said; None if nobody
    knows how to ask one of its kind. ``host`` is where its executors reach drivers, ``unbound`` why nothing can listen
    there."""

    name: str
    kind: str = "standalone"
    silent: str = ""
    answer: ClusterAnswer | None = None
    host: str = ""
    unbound: str = ""


@dataclass(frozen=True, slots=True)
class ClustersFacts:
    """Holds what was found of all. ``version`` is that of this host's Spark; None if it has none."""

    clusters: tuple[OneCluster, ...] = ()
    version: str | None = None


@dataclass(frozen=True, slots=True)
class DeepFacts:
    """Holds how the tiny application ended on each cluster, by its name. ``why_not`` is why it was not run."""

    why_not: str = ""
    ran: tuple[tuple[str, Ran], ...] = ()


def collect(subject: Subject) -> ClustersFacts:
    clusters = subject.settings.clusters
    asked = [
        run_in_thread("doctor-cluster", partial(_examined, name, one, subject.patience))
        for name, one in sorted(clusters.items())
    ]
    return ClustersFacts(tuple(each.result() for each in asked), _version_of_host(subject))


def _version_of_host(subject: Subject) -> str | None:
    try:
        return spark_version(spark_home_of(subject.settings.spark, subject.version, subject.environ))
    except Refused:
        return None


def _examined(name: str, cluster: ClusterSettings, patience: float) -> OneCluster:
    host, unbound = cluster.driver_host or "", ""
    if host and BIND_ADDRESS not in cluster.conf:
        unbound = why_not_bound(host, BIND_S * patience)
    found = OneCluster(name, cluster.kind.value, host=host, unbound=unbound)
    ask = EXAMINERS.get(cluster.kind)
    if ask is None:
        return found
    try:
        return found._replace(answer=ask(name, cluster, (WHOLE_S - BIND_S) * patience))
    except ClusterSilent as error:
        return found._replace(silent=str(error))


# -- the tiny application -------------------------------------------------------------------------------------------


def collect_deep(subject: Subject) -> DeepFacts:
    clusters = subject.settings.clusters
    if not subject.deep or not clusters:
        return DeepFacts(NOT_DEEP if clusters else NO_CLUSTER)
    try:
        home = spark_home_of(subject.settings.spark, subject.version, subject.environ)
        java = java_home_of(subject.settings.spark, subject.version, subject.environ)
        python = python_of({}, subject.environ, None)
    except Refused as error:
        return DeepFacts(f"there is no Spark: {error}")
    env = host_environment(subject) | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": str(python)}
    if java is not None:
        env["JAVA_HOME"] = str(java)
    until_at_s = time.monotonic() + DEEP_S * subject.patience - ENDING_S - 1.0
    with tempfile.TemporaryDirectory(prefix="spark-supervisor-doctor-") as directory:
        application = Path(directory) / "tiny.py"
        application.write_text(APPLICATION)
        ran = []
        for number, name in enumerate(sorted(clusters)):
            share_s = (until_at_s - time.monotonic()) / (len(clusters) - number)
            ran.append((name, _run(subject, name, application, home, env, max(1.0, share_s))))
    return DeepFacts(ran=tuple(ran))


def _run(
    subject: Subject, name: str, application: Path, home: Path, env: dict[str, str], timeout_s: float
) -> Ran:
    spec = JobSpec(name="doctor", application=str(application), cluster=name, unbounded=False)
    placed = on_cluster(spec, subject.settings.clusters)
    conf = {
        **ending_properties(placed),
        "spark.executor.memory": "512m",
        **placed.conf,
        "spark.ui.enabled": "false",
        "spark.cores.max": "1",
        "spark.executor.cores": "1",
        "spark.dynamicAllocation.enabled": "false",
        "spark.executor.instances": "1",
    }
    words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    submit = [str(home / "bin" / "spark-submit"), "--master", placed.master, *words, str(application)]
    return _run_to_its_end(submit, env | placed.env, timeout_s)


def _run_to_its_end(argv: list[str], env: dict[str, str], timeout_s: float) -> Ran:
    """Runs ``argv`` below a process that outlives this one, and sends SIGTERM first: so Spark takes its executors back, also
    from a cluster without room, and if the user gives up."""
    own_s = max(1.0, timeout_s - ENDING_S)
    ran = run_tool(
        ["timeout", f"--kill-after={ENDING_S:g}", f"{own_s:.1f}", *argv], env, timeout_s + ENDING_S
    )
    if ran.code not in TIMED_OUT:
        return ran
    return Ran(None, ran.out, ran.err, f"{argv[0]} did not end within {own_s:.0f} s", late=True)


# -- judges ---------------------------------------------------------------------------------------------------------


def _bad(facts: ClustersFacts, why: Callable[[OneCluster], str]) -> str:
    """Returns what is wrong with clusters, by ``why``; empty if nothing is."""
    return first_few([f"cluster {each.name}: {why(each)}" for each in facts.clusters if why(each)])


def _good(facts: ClustersFacts, what: Callable[[OneCluster], str]) -> DoctorFinding:
    said = [f"cluster {each.name}: {what(each)}" for each in facts.clusters if what(each)]
    unasked = [each for each in facts.clusters if each.answer is None and not each.silent]
    mute = [each for each in facts.clusters if each.answer is not None]
    if said:
        return ok(first_few(said))
    if not facts.clusters:
        return skipped(NO_CLUSTER)
    if mute:
        return skipped(f"a cluster of kind {mute[0].kind} does not say that")
    return skipped(f"clusters of kind {unasked[0].kind} are not looked at" if unasked else "none answers")


def judge_reachable(facts: ClustersFacts) -> DoctorFinding:
    bad = _bad(facts, lambda each: each.silent or (each.answer.leaderless if each.answer else ""))
    if bad:
        return problem(
            bad,
            "start it, open its ports to this host, or correct master and web of clusters in supervisor.yaml",
        )
    some = _bad(facts, lambda each: each.answer.some_silent if each.answer else "")
    if some:
        return warning(
            some, "start that master, or correct web: the cluster has no other one to fall back on"
        )
    return _good(facts, lambda each: each.answer.answers if each.answer else "")


def judge_version(facts: ClustersFacts) -> DoctorFinding:
    """Judges whether driver and executors are of one Spark: what they say to each other has no promise of being readable
    by another version."""
    if facts.version is None:
        return skipped("there is no Spark on this host")
    mine = facts.version
    bad = _bad(
        facts,
        lambda each: (
            f"Spark {each.answer.version}, and this host has {mine}"
            if each.answer is not None and each.answer.version and each.answer.version != mine
            else ""
        ),
    )
    if bad:
        return problem(
            bad, "install the same Spark on both sides, or name it in spark.versions and in the specs"
        )
    return _good(
        facts, lambda each: f"Spark {each.answer.version}" if each.answer and each.answer.version else ""
    )


def judge_room(facts: ClustersFacts) -> DoctorFinding:
    bad = _bad(facts, lambda each: each.answer.no_room if each.answer else "")
    if bad:
        return warning(
            bad, "start workers, or end what holds them: until then a job waits (docs runbooks/cluster)"
        )
    return _good(facts, lambda each: each.answer.room if each.answer else "")


def judge_driver_host(facts: ClustersFacts) -> DoctorFinding:
    bad = _bad(facts, lambda each: each.unbound)
    if bad:
        return problem(
            bad,
            f"correct driver_host of it in supervisor.yaml; if executors reach this host by an address that it has not "
            f"itself, set {BIND_ADDRESS} in its conf",
        )
    if facts.clusters and not any(each.host for each in facts.clusters):
        return skipped(f"no cluster has a driver_host: Spark finds {DRIVER_HOST} itself")
    hosts = list(dict.fromkeys(each.host for each in facts.clusters if each.host))
    return ok(f"drivers listen at {first_few(hosts)}") if hosts else skipped(NO_CLUSTER)


def judge_executor(facts: DeepFacts) -> DoctorFinding:
    if facts.why_not:
        return skipped(facts.why_not)
    late = first_few(list(_ended(facts, lambda ran: ran.error if ran.late else "")))
    if late:
        return warning(f"no executor came in time: {late}", f"see the line about room; {MORE_TIME}")
    failed = first_few(
        list(_ended(facts, lambda ran: "" if GOT_ONE in ran.out else ran.error or ran.last_line))
    )
    if failed:
        return problem(
            f"the application failed: {failed}", "run it by hand: pyspark with the master of the cluster"
        )
    return ok(f"an application got an executor of {first_few([name for name, _ in facts.ran])}")


def _ended(facts: DeepFacts, why: Callable[[Ran], str]) -> Iterator[str]:
    return (f"cluster {name}: {why(ran)}" for name, ran in facts.ran if why(ran))


CLUSTERS: Final = CheckGroup(
    "clusters",
    collect,
    (
        DoctorCheck(
            "cluster-reachable", "each cluster of supervisor.yaml answers, and one leads", judge_reachable
        ),
        DoctorCheck("cluster-version", "the Spark of each cluster is that of this host", judge_version),
        DoctorCheck("cluster-room", "what each cluster has free for executors", judge_room),
        DoctorCheck(
            "cluster-driver-host",
            "drivers can listen where executors look for them (driver_host)",
            judge_driver_host,
        ),
    ),
    deadline_s=13.0,
)

CLUSTERS_DEEP: Final = CheckGroup(
    "clusters-deep",
    collect_deep,
    (
        DoctorCheck(
            "cluster-executor", "with --deep: an application gets an executor of each cluster", judge_executor
        ),
    ),
    deadline_s=DEEP_S,
)
