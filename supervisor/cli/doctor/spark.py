"""Checks Spark: which one it is, whether spark-submit runs, Python and pyspark fit, and it reads
``s3a://``."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

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
from supervisor.cli.doctor.java import host_environment
from supervisor.cli.doctor.phrases import MORE_TIME
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.tools import Ran, run_tool
from supervisor.errors import Complaint, Unreachable
from supervisor.spark.arguments import brings_s3a
from supervisor.spark.class_archive.assign import OFF, archive_of_driver
from supervisor.spark.class_archive.choice import ClassArchive
from supervisor.spark.class_archive.shelf import NOT_YET
from supervisor.spark.fence.build import host_jar
from supervisor.spark.fence.choice import why_not, why_not_this_spark
from supervisor.spark.refusal import Refused
from supervisor.spark.toolchain import (
    defaults_of,
    find_toolchain,
    java_home_of,
    java_of,
    python_of,
    python_path_of,
    s3a_jars_of,
    spark_home_of,
    spark_version,
)
from supervisor.spec.python import PythonSettings
from supervisor.spec.s3a import bucket_of

SUBMIT_S: Final = 12.0
PYTHON_S: Final = 6.0
FENCE_S: Final = 6.0
WHOLE_S: Final = 14.0
REST_S: Final = 1.0
"""This much of the whole is kept for the files that are examined; the programs started share the rest."""
UNFENCED_REMEDY: Final = (
    "use Spark 4.1 or newer, which this software was tested with: without the storage fence leases alone keep a second "
    "driver off a checkpoint on S3"
)
PYTHON_MIN: Final = {"4.0": (3, 9), "4.1": (3, 10), "4.2": (3, 10)}
PYTHON_MIN_NEWEST: Final = (3, 11)

SDK_OF_HADOOP: Final = {"3.4.1": "2.24.6", "3.4.2": "2.29.52", "3.5.0": "2.35.4"}
"""Each Hadoop was built with this AWS SDK. deploy/s3a-jars/pom.xml says the same, and a test compares
them."""
SDK_PARTS: Final = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")

PYTHON_PROBE: Final = """
import importlib.util, json, sys
found = importlib.util.find_spec("pyspark")
version = None
if found is not None and found.origin:
    names = {}
    try:
        exec(open(found.origin.rpartition("/")[0] + "/version.py").read(), names)
    except OSError:
        pass
    version = str(names.get("__version__", "")) or None
print(json.dumps({"python": list(sys.version_info[:3]), "pyspark": version, "at": found.origin if found else None}))
"""


class VersionFacts(NamedTuple):
    """Holds what was found of one of ``spark.versions``. If ``found`` is None its jars do not say which Spark it is.
    ``without_s3a`` says that it has no jars for ``s3a://`` and that jobs may need them."""

    name: str
    refused: Complaint = Complaint()
    found: str | None = None
    without_s3a: bool = False


@dataclass(frozen=True, slots=True)
class SparkFacts:
    """Holds what was found. ``jars`` are names in Spark's own directory, ``thin`` those of
    ``spark.s3a_jars``. ``brought`` are those that the job brings, in any way.

    If ``python_of_job`` is True, the job names the Python; it can be executed, and was not run. ``fence`` is
    why drivers with a checkpoint on S3 get no storage fence; it is empty if they do, and None if nobody needs
    it. ``archive`` is the class-data archive with which a driver would start now. ``s3a`` is who needs
    ``s3a://``, empty if nobody; ``s3a_sure`` is False if only the store suggests it. ``versions`` are those of
    ``spark.versions``. ``environment`` says that the job brings its Python, and ``python_path`` that its Python imports the
    pyspark of ``home`` in any case.
    """

    home: str = ""
    refused: Complaint = Complaint()
    version: str | None = None
    submit: Ran | None = None
    python: str = ""
    python_refused: Complaint = Complaint()
    python_version: tuple[int, ...] = ()
    pyspark: str | None = None
    python_error: str = ""
    python_late: bool = False
    python_of_job: bool = False
    own_pyspark: bool = False
    session: bool = False
    is_python: bool = True
    jars: frozenset[str] = frozenset()
    thin: frozenset[str] = frozenset()
    thin_refused: Complaint = Complaint()
    brought: tuple[str, ...] = ()
    archive: ClassArchive = ClassArchive()
    s3a: str = ""
    s3a_sure: bool = False
    fence: str | None = None
    versions: tuple[VersionFacts, ...] = ()
    environment: bool = False
    python_path: bool = False

    @property
    def hadoop(self) -> str | None:
        return next(iter(versions_of("hadoop-client-api", self.jars)), None)


def versions_of(artifact: str, jars: frozenset[str] | Sequence[str]) -> tuple[str, ...]:
    """Returns the versions of an artifact: ``hadoop-aws`` in ``hadoop-aws-3.5.0.jar`` → ``3.5.0``."""
    pattern = re.compile(rf"{re.escape(artifact)}-(\d[\w.+-]*)\.jar")
    return tuple(sorted(match[1] for jar in jars if (match := pattern.fullmatch(jar))))


def collect(subject: Subject) -> SparkFacts:
    settings, spec = subject.settings.spark, subject.spec
    until_at_s = time.monotonic() + (WHOLE_S - REST_S) * subject.patience
    s3a, sure = _who_needs_s3a(subject)
    python, python_refused, probe = _python(subject)
    seen = _read(probe)
    known = SparkFacts(
        python=python,
        python_refused=python_refused,
        python_error="" if seen else _python_error(probe),
        python_late=probe is not None and probe.late,
        python_of_job=bool(python) and probe is None,
        python_version=tuple(seen.get("python", ())),
        pyspark=seen.get("pyspark"),
        session=spec is not None and spec.launch == "session",
        is_python=spec is None or spec.is_python,
        s3a=s3a,
        s3a_sure=sure,
        environment=spec is not None and spec.python.archive is not None,
        versions=tuple(_version(subject, name, bool(s3a)) for name in settings.versions),
    )
    try:
        home = spark_home_of(settings, subject.version, subject.environ)
        defaults = dict(defaults_of(home, subject.job_env, subject.environ))
    except Refused as error:
        return replace(known, refused=error.complaint)
    thin, thin_refused = _thin(subject, home)
    return replace(
        known,
        home=str(home),
        version=spark_version(home),
        submit=_submit(subject, home, until_at_s),
        python_path=spec is not None
        and (spec.spark is not None or spec.python.is_given)
        and bool(python_path_of(home)),
        own_pyspark=(home / "python" / "pyspark" / "__init__.py").is_file(),
        jars=frozenset(jar.name for jar in home.glob("jars/*.jar")),
        thin=thin,
        thin_refused=thin_refused,
        brought=_brought(subject, defaults),
        fence=_fence(subject, home, defaults, until_at_s) if s3a else None,
        archive=_archive(subject, defaults),
    )


def _version(subject: Subject, name: str, needs_s3a: bool) -> VersionFacts:
    """Looks at the files of one more Spark; nothing of it is started."""
    try:
        found = find_toolchain(subject.settings.spark, version=name, job_env={}, environ=subject.environ)
    except (Refused, Unreachable) as error:
        return VersionFacts(name, error.complaint)
    has_s3a = bool(found.s3a_jars) or any(found.home.glob("jars/hadoop-aws-*.jar"))
    return VersionFacts(name, found=found.version, without_s3a=needs_s3a and not has_s3a)


def _fence(subject: Subject, home: Path, defaults: dict[str, str], until_at_s: float) -> str | None:
    """Compiles the storage fence for a trial, in a directory that is removed again. Returns as in
    ``SparkFacts.fence``."""
    version = spark_version(home)
    spec = subject.spec
    why = why_not_this_spark(version) if spec is None else why_not(spec, {**defaults, **spec.conf}, version)
    if why is None or why:
        return why
    try:
        java = java_of(
            java_home_of(subject.settings.spark, subject.version, subject.environ), subject.environ
        )
        with tempfile.TemporaryDirectory() as trial:
            env, within_s = host_environment(subject), _share_s(FENCE_S * subject.patience, until_at_s)
            return host_jar(home, java, version or "", Path(trial), env, within_s).why
    except (Refused, OSError) as error:
        return str(error)


def _archive(subject: Subject, defaults: dict[str, str]) -> ClassArchive:
    """Returns the class-data archive of the job's driver, or of one that has nothing against it."""
    spark, conf = subject.settings.spark, {**defaults, **subject.conf}
    try:
        toolchain = find_toolchain(
            spark, version=subject.version, job_env=subject.job_env, environ=subject.environ
        )
    except (Refused, Unreachable) as error:
        return ClassArchive(why=str(error))
    spec = subject.spec
    return archive_of_driver(
        conf,
        {**host_environment(subject), **subject.job_env},
        subject.settings,
        toolchain,
        brings_s3a=spec is not None and bool(toolchain.s3a_jars) and brings_s3a(spec, conf),
    )


def _who_needs_s3a(subject: Subject) -> tuple[str, bool]:
    spec = subject.spec
    if spec is not None:
        needs = bucket_of(spec.checkpoint or "") is not None
        return (f"the checkpoint of {spec.name}", True) if needs else ("", False)
    return (
        ("jobs with checkpoints on S3", False)
        if subject.settings.store.url.startswith("s3://")
        else ("", False)
    )


def _share_s(wish_s: float, until_at_s: float) -> float:
    """Returns the time left for one tool: a slow one must not cost the facts that are known already."""
    return max(0.1, min(wish_s, until_at_s - time.monotonic()))


def _submit(subject: Subject, home: Path, until_at_s: float) -> Ran:
    env = host_environment(subject) | {"SPARK_HOME": str(home)}
    try:
        java = java_home_of(subject.settings.spark, subject.version, subject.environ)
    except Refused:
        java = None
    if java is not None:
        env["JAVA_HOME"] = str(java)
    return run_tool(
        (str(home / "bin" / "spark-submit"), "--version"),
        env,
        _share_s(SUBMIT_S * subject.patience, until_at_s),
    )


def _python(subject: Subject) -> tuple[str, Complaint, Ran | None]:
    asked = subject.spec.python if subject.spec is not None else PythonSettings()
    if asked.archive is not None:
        return f"bin/python of {asked.archive}", Complaint(), None
    try:
        python = python_of(subject.job_env, subject.environ, asked.interpreter)
    except Refused as error:
        return "", error.complaint, None
    if not _is_hosts(python, subject):
        return str(python), Complaint(), None
    return (
        str(python),
        Complaint(),
        run_tool((str(python), "-c", PYTHON_PROBE), host_environment(subject), PYTHON_S * subject.patience),
    )


def _is_hosts(python: Path, subject: Subject) -> bool:
    """Returns whether the Python was not chosen by the job's PYSPARK_PYTHON or PATH.

    One that is belongs to the job, which runs in its driver only.
    """
    try:
        return python == python_of({}, subject.environ)
    except Refused:
        return False


def _read(probe: Ran | None) -> dict[str, Any]:
    try:
        found = (
            json.loads(probe.out.strip().splitlines()[-1]) if probe is not None and probe.code == 0 else {}
        )
    except (ValueError, IndexError):
        return {}
    return found if isinstance(found, dict) else {}


def _python_error(probe: Ran | None) -> str:
    return "" if probe is None else probe.error or probe.last_line


def _thin(subject: Subject, home: Path) -> tuple[frozenset[str], Complaint]:
    try:
        jars = s3a_jars_of(subject.settings.spark, subject.version, home, subject.environ)
    except Refused as error:
        return frozenset(), error.complaint
    return frozenset(jar.name for jar in jars), Complaint()


def _brought(subject: Subject, defaults: dict[str, str]) -> tuple[str, ...]:
    """Returns the jars and coordinates with S3A in them that the job, or the host's defaults, name."""
    effective_conf = {**defaults, **subject.conf}
    lists = [
        effective_conf.get(key, "")
        for key in ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
    ]
    spec = subject.spec
    words = [word for text in lists for word in re.split(r"[,:](?=/)|,", text)]
    words += [*spec.packages, *spec.jars] if spec is not None else []
    return tuple(word.rpartition("/")[2] for word in words if "hadoop-aws" in word or "hadoop-cloud" in word)


# -- judges -------------------------------------------------------------------------------------------------------


def judge_spark(facts: SparkFacts) -> DoctorFinding:
    if facts.refused:
        return problem_of(facts.refused)
    if facts.version is None:
        return problem(
            f"{facts.home} holds no spark-core jar in jars/",
            "set spark.home to a whole Spark, or install pyspark",
        )
    unfenced = why_not_this_spark(facts.version)
    if unfenced:
        return warning(f"{facts.home}: {unfenced}", UNFENCED_REMEDY)
    return ok(f"{facts.home} is Spark {facts.version} with Hadoop {facts.hadoop or 'of unknown version'}")


def judge_versions(facts: SparkFacts) -> DoctorFinding:
    """Judges ``spark.versions``: every job that asks for one of them gets what its name says."""
    if not facts.versions:
        return skipped("spark.versions names no other Spark")
    for each in facts.versions:
        key = f"spark.versions.{each.name}"
        if each.refused:
            return problem_of(each.refused)
        if each.found is None:
            return problem(
                f"the home of {key} holds no spark-core jar in jars/", f"set {key}.home to a whole Spark"
            )
        if each.name[0].isdigit() and not f"{each.found}.".startswith(f"{each.name}."):
            return warning(f"{key} is Spark {each.found}", f"correct {key}.home, or name it after what it is")
        unfenced = why_not_this_spark(each.found)
        if unfenced:
            return warning(f"{key}: {unfenced}", UNFENCED_REMEDY)
        if each.without_s3a:
            return warning(
                f"{key} has no jars for s3a://, and those of spark.s3a_jars belong to another Spark",
                f"fill a directory with deploy/s3a-jars/fetch for it, and set {key}.s3a_jars",
            )
    return ok("; ".join(f"{each.name} is Spark {each.found}" for each in facts.versions))


def judge_submit(facts: SparkFacts) -> DoctorFinding:
    if facts.refused or facts.submit is None:
        return skipped("there is no Spark")
    ran = facts.submit
    if ran.late:
        return warning(ran.error, MORE_TIME)
    if ran.code is None:
        return problem(ran.error, "see the line about Java; start spark-submit --version by hand")
    found = re.search(r"version (\d[\w.-]+)", ran.text)
    if ran.code != 0 or found is None:
        return problem(
            f"spark-submit --version failed with {ran.code}: {ran.last_line}",
            "see the lines about Java and Spark",
        )
    if facts.version is not None and found[1] != facts.version:
        return problem(
            f"spark-submit of {facts.home} says it is {found[1]}, its jars are {facts.version}: two Sparks are mixed",
            "unset SPARK_HOME and SPARK_CONF_DIR of the environment, or install Spark anew",
        )
    return ok(f"spark-submit --version runs and says {found[1]}")


def judge_python(facts: SparkFacts) -> DoctorFinding:
    if facts.python_refused:
        return problem_of(facts.python_refused)
    if facts.python_late:
        return warning(facts.python_error, MORE_TIME)
    if facts.python_of_job:
        return ok(
            f"drivers use {facts.python}, which the job {'brings' if facts.environment else 'names'}: "
            f"it {'is not unpacked here' if facts.environment else 'can be executed, and was not run here'}"
        )
    if not facts.python_version:
        return problem(
            f"{facts.python} does not run: {facts.python_error}", "set PYSPARK_PYTHON to a working Python"
        )
    shown = ".".join(map(str, facts.python_version))
    needed = PYTHON_MIN.get((facts.version or "")[:3], PYTHON_MIN_NEWEST)
    if facts.python_version[:2] < needed:
        return problem(
            f"{facts.python} is Python {shown}, and Spark {facts.version or '4'} needs {needed[0]}.{needed[1]}",
            "set PYSPARK_PYTHON (in the supervisor's environment, or in the job's env) to a newer one",
        )
    return ok(f"drivers use {facts.python}, Python {shown}")


def judge_pyspark(facts: SparkFacts) -> DoctorFinding:
    """Judges pyspark. spark-submit puts Spark's own first, if there is one; ``launch: session`` takes the
    interpreter's."""
    if facts.refused or not (facts.python_version or facts.python_of_job) or facts.version is None:
        return skipped("Spark or Python is missing")
    if not facts.is_python:
        return skipped("the application is a .jar")
    if facts.python_path:
        return ok(f"the driver imports the pyspark of {facts.home}, whatever its Python has")
    if facts.own_pyspark and not facts.session:
        return ok("spark-submit brings Spark's own pyspark")
    if facts.python_of_job:
        return skipped(
            f"{facts.python} is the job's own and was not run: pyspark {facts.version} must be in it"
        )
    if facts.pyspark is None:
        why = f"{facts.python} has no pyspark"
        return problem(why, f"install it there: pip install pyspark=={facts.version}")
    if facts.pyspark != facts.version:
        return problem(
            f"pyspark of {facts.python} is {facts.pyspark}, Spark in {facts.home} is {facts.version}",
            f"pip install pyspark=={facts.version} there, or set spark.home (SPARK_HOME) to that of pyspark {facts.pyspark}",
        )
    return ok(f"pyspark {facts.pyspark} of {facts.python} is that of Spark")


def judge_s3a(facts: SparkFacts) -> DoctorFinding:
    if not facts.s3a:
        return skipped("nothing that was looked at uses s3a://")
    if facts.refused:
        return skipped("there is no Spark")
    if facts.thin_refused:
        return problem_of(facts.thin_refused)
    if facts.brought:
        return _judge_brought(facts)
    jars = facts.jars | facts.thin
    found = versions_of("hadoop-aws", jars)
    verdict = problem if facts.s3a_sure else warning
    if not found:
        return verdict(
            f"{facts.s3a}: Spark in {facts.home} has no hadoop-aws jar and cannot read s3a://",
            s3a_remedy(facts),
        )
    if len(found) > 1:
        return problem(
            f"hadoop-aws is there more than once: {', '.join(found)}",
            "keep the one that is Hadoop's own version",
        )
    if facts.hadoop is not None and found[0] != facts.hadoop:
        return problem(
            f"hadoop-aws is {found[0]}, Hadoop of Spark is {facts.hadoop}: they must be equal",
            s3a_remedy(facts),
        )
    return _judge_sdk(facts, jars, found[0])


def _judge_brought(facts: SparkFacts) -> DoctorFinding:
    for word in facts.brought:
        match = re.search(r"hadoop-aws[:-](\d[\w.]*?)(?:\.jar)?$", word)
        if match and facts.hadoop is not None and match[1] != facts.hadoop:
            return problem(
                f"the job brings {word}, Hadoop of Spark is {facts.hadoop}: they must be equal",
                s3a_remedy(facts),
            )
    return ok(f"the job brings {', '.join(facts.brought)} itself")


def _judge_sdk(facts: SparkFacts, jars: frozenset[str], hadoop_aws: str) -> DoctorFinding:
    bundle = versions_of("bundle", jars)
    if bundle:
        return ok(
            f"hadoop-aws {hadoop_aws} with the AWS SDK bundle {bundle[0]} (the thin set starts 3 s faster)"
        )
    missing = [part for part in SDK_PARTS if not versions_of(part, jars)]
    if missing:
        return problem(
            f"hadoop-aws {hadoop_aws} is there, but not all of the AWS SDK: no {', no '.join(missing)}",
            s3a_remedy(facts),
        )
    sdk = {version for part in SDK_PARTS for version in versions_of(part, jars)}
    if len(sdk) > 1:
        return problem(
            f"the AWS SDK is there in several versions: {', '.join(sorted(sdk))}", s3a_remedy(facts)
        )
    return ok(f"hadoop-aws {hadoop_aws} with the AWS SDK {next(iter(sdk))}, the thin set")


def judge_fence(facts: SparkFacts) -> DoctorFinding:
    if facts.refused:
        return skipped("there is no Spark")
    if facts.fence is None:
        return skipped("nothing that was looked at has its checkpoint on S3")
    if facts.fence:
        return warning(
            f"{facts.s3a}: without the storage fence, for {facts.fence}",
            "leases alone keep a second driver away then; take Spark 4.1 or newer with Hadoop's own S3A, checkpoint_fence: "
            "auto and no checkpointFileManagerClass of your own, unless this is what you want",
        )
    if not facts.brought and not versions_of("hadoop-aws", facts.jars | facts.thin):
        return skipped("hadoop-aws is not there: see s3a-jars")
    return ok(
        f"the storage fence compiles with Spark {facts.version}: a second driver dies at its next write"
    )


def judge_archive(facts: SparkFacts) -> DoctorFinding:
    archive = facts.archive
    if facts.refused:
        return skipped("there is no Spark")
    if archive.file is not None:
        return ok(f"drivers start with {archive.file}")
    if archive.why == OFF:
        return ok(f"{OFF}: drivers start without")
    if archive.why == NOT_YET:
        return ok("none has been made yet: the supervisor of this host makes it when no driver is starting")
    return warning(
        f"drivers start without one: {archive.why}",
        "a start then takes about half as long again; repair it, or say spark.class_archive: off if it is meant",
    )


def s3a_remedy(facts: SparkFacts) -> str:
    """Returns a remedy with the exact coordinates for this Hadoop."""
    hadoop = facts.hadoop
    if hadoop is None:
        return (
            "install a whole Spark first: its hadoop-client-api jar says which version of hadoop-aws to take"
        )
    sdk = SDK_OF_HADOOP.get(hadoop)
    thin = f" with software.amazon.awssdk:{{{','.join(SDK_PARTS)}}}:{sdk}" if sdk else ""
    return (
        f"run deploy/s3a-jars/fetch DIR {facts.home} and set spark.s3a_jars: DIR (it holds org.apache.hadoop:hadoop-aws:"
        f"{hadoop}{thin}); or, slower at each start, give the job packages: [org.apache.hadoop:hadoop-aws:{hadoop}]"
    )


SPARK = CheckGroup(
    "spark",
    collect,
    (
        DoctorCheck("spark", "Spark: its home and version", judge_spark),
        DoctorCheck(
            "spark-submit", "spark-submit --version runs, and is the Spark whose jars are used", judge_submit
        ),
        DoctorCheck(
            "spark-versions", "each Spark of spark.versions: its home, Java and S3A jars", judge_versions
        ),
        DoctorCheck("python", "the Python of drivers, and whether this Spark takes it", judge_python),
        DoctorCheck("pyspark", "pyspark of that Python against the Spark home", judge_pyspark),
        DoctorCheck(
            "s3a-jars",
            "hadoop-aws and AWS SDK jars for s3a://, and whether their versions fit this Spark",
            judge_s3a,
        ),
        DoctorCheck(
            "checkpoint-fence",
            "whether checkpoints on S3 can be fenced off from a second driver",
            judge_fence,
        ),
        DoctorCheck(
            "class-archive",
            "which class-data archive a driver would start with, or why with none",
            judge_archive,
        ),
    ),
    deadline_s=WHOLE_S,
)
