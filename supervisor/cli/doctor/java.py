"""Checks Java: where it is found, whether it is new and whole enough, and starts with this environment."""

from __future__ import annotations

import re
from dataclasses import dataclass
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
from supervisor.cli.doctor.phrases import MORE_TIME
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.tools import Ran, run_tool
from supervisor.errors import Complaint
from supervisor.spark.environment import passes
from supervisor.spark.refusal import Refused
from supervisor.spark.toolchain import JAVA_MAJOR_MIN, java_home_of, java_of

JAVA_S: Final = 6.0
TESTED_MAX: Final = 25

MODULES_NEEDED: Final = (
    "java.base",
    "java.desktop",
    "java.logging",
    "java.management",
    "java.naming",
    "java.security.jgss",
    "java.security.sasl",
    "java.sql",
    "java.xml",
    "jdk.incubator.vector",
    "jdk.security.auth",
    "jdk.unsupported",
)
"""Without one of them a streaming query of Spark 4.3 does not start (tried with runtimes made by jlink)."""

MODULES_USEFUL: Final = {
    "java.net.http": "HTTP clients of newer libraries",
    "jdk.crypto.ec": "TLS with elliptic curves (S3, Kafka)",
    "jdk.management": "memory metrics",
    "jdk.zipfs": "jars read as file systems",
    "jdk.charsets": "other encodings",
}
"""Libraries of jobs ask for these. From Java 22 on jdk.crypto.ec is empty, its content is in java.base."""

OPTION_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


@dataclass(frozen=True, slots=True)
class JavaFacts:
    """Holds what was found. ``refused`` is why there is none to run. ``options`` are variables of the
    environment that every JVM obeys.

    ``of_job`` are the same of the job's ``env``; only its driver obeys them, and they were not tried.
    """

    path: str = ""
    refused: Complaint = Complaint()
    ran: Ran | None = None
    options: tuple[str, ...] = ()
    of_job: tuple[str, ...] = ()

    @property
    def modules(self) -> frozenset[str]:
        out = self.ran.out if self.ran is not None else ""
        return frozenset(re.findall(r"^([\w.]+)@", out, re.MULTILINE))

    @property
    def version(self) -> str | None:
        match = re.search(r"^java\.base@(\S+)", self.ran.out if self.ran is not None else "", re.MULTILINE)
        return match[1] if match else None


def host_environment(subject: Subject) -> dict[str, str]:
    """Returns the environment for the host's programs that are run here.

    It has nothing of the job's ``env``, which can make them run others.
    """
    return {name: value for name, value in subject.environ.items() if passes(name)}


def collect(subject: Subject) -> JavaFacts:
    env = host_environment(subject)
    options = tuple(name for name in OPTION_VARIABLES if env.get(name))
    of_job = tuple(name for name in OPTION_VARIABLES if subject.job_env.get(name))
    try:
        home = java_home_of(subject.settings.spark, subject.version, subject.environ)
    except Refused as error:
        return JavaFacts(refused=error.complaint, options=options)
    java = java_of(home, subject.environ)
    ran = run_tool((str(java), "--list-modules"), env, JAVA_S * subject.patience)
    return JavaFacts(str(java), Complaint(), ran, options, of_job)


def judge_java(facts: JavaFacts) -> DoctorFinding:
    if facts.refused:
        return problem_of(facts.refused)
    ran = facts.ran
    assert ran is not None
    blame = (
        f"remove what {' and '.join(facts.options)} says"
        if facts.options
        else "reinstall it, or set spark.java_home"
    )
    if ran.late:
        return warning(ran.error, MORE_TIME)
    if ran.code is None:
        return problem(ran.error, blame)
    if facts.version is None:
        old = "Unrecognized option" in ran.text or ran.code != 0
        why = (
            f"{facts.path} does not start: {ran.last_line}"
            if old
            else f"{facts.path} does not say its version"
        )
        return problem(why, f"{blame}; Spark 4 needs Java {JAVA_MAJOR_MIN} or newer")
    major = int(re.split(r"[.+-]", facts.version)[0])
    if major < JAVA_MAJOR_MIN:
        return problem(
            f"{facts.path} is Java {facts.version}",
            f"install Java {JAVA_MAJOR_MIN} or newer and set spark.java_home to it",
        )
    if major > TESTED_MAX:
        return warning(
            f"{facts.path} is Java {facts.version}, newer than any that Spark 4 was tried with",
            "use Java 17, 21 or 25",
        )
    found = f"; every JVM also obeys {', '.join(facts.options)}" if facts.options else ""
    found += f"; the driver obeys the job's {', '.join(facts.of_job)}, not tried here" if facts.of_job else ""
    return ok(f"{facts.path} is Java {facts.version}{found}")


def judge_modules(facts: JavaFacts) -> DoctorFinding:
    if not facts.modules:
        return skipped("Java does not run")
    missing = [name for name in MODULES_NEEDED if name not in facts.modules]
    if missing:
        return problem(
            f"{facts.path} lacks {', '.join(missing)}, which Spark needs: a runtime made with jlink?",
            f"use a whole JRE or JDK (Debian: openjdk-17-jre-headless), or add to jlink: --add-modules {','.join(missing)}",
        )
    lacking = [f"{name} ({why})" for name, why in MODULES_USEFUL.items() if name not in facts.modules]
    if lacking:
        return warning(
            f"{facts.path} lacks {', '.join(lacking)}",
            "use a whole JRE or JDK unless you know that no job needs it",
        )
    return ok(f"{len(facts.modules)} modules, all that Spark needs; spark-submit adds the --add-opens itself")


JAVA = CheckGroup(
    "java",
    collect,
    (
        DoctorCheck(
            "java", "Java: found where, version 17 or newer, starts with this environment", judge_java
        ),
        DoctorCheck(
            "java-modules",
            "the modules that Spark needs, which runtimes made by jlink often lack",
            judge_modules,
        ),
    ),
)
