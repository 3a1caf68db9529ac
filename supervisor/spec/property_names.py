"""The names under which a Spark property counts, and what of a spec sets it. Pure; ``spec.policy_judge`` calls it.

A property has twins (``spark.driver.defaultJavaOptions``) and settings of one bucket, and is set by keys of the spec
(``jars``), by variables of ``env``, and by ``-D`` among Java options. What the application sets while it runs is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from supervisor.model.spark_session import OPTION_PROPERTIES, OPTION_VARIABLES
from supervisor.spec.code_names import PLAIN_VARIABLES
from supervisor.spec.job import JobSpec

_EXECUTOR_OPTIONS: Final = ("spark.executor.extraJavaOptions", "spark.executor.defaultJavaOptions")
_TWINS: Final = (
    OPTION_PROPERTIES,
    _EXECUTOR_OPTIONS,
    ("spark.plugins", "spark.plugins.defaultList"),
    ("spark.jars", "spark.yarn.dist.jars"),
    ("spark.files", "spark.yarn.dist.files"),
    ("spark.archives", "spark.yarn.dist.archives"),
    ("spark.submit.pyFiles", "spark.yarn.dist.pyFiles"),
)
"""The properties of one line do the same: a rule about one of them is about all."""

_BY_KEY: Final = {
    "jars": "spark.jars",
    "packages": "spark.jars.packages",
    "py_files": "spark.submit.pyFiles",
    "files": "spark.files",
}
_BY_VARIABLE: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(OPTION_VARIABLES, OPTION_PROPERTIES),
    "SPARK_EXECUTOR_OPTS": _EXECUTOR_OPTIONS,
    "SPARK_CLASSPATH": ("spark.driver.extraClassPath", "spark.executor.extraClassPath"),
    "SPARK_DIST_CLASSPATH": ("spark.driver.extraClassPath", "spark.executor.extraClassPath"),
    "SPARK_SUBMIT_CLASSPATH": ("spark.driver.extraClassPath",),
    "LD_LIBRARY_PATH": ("spark.driver.extraLibraryPath",),
    "PYSPARK_PYTHON": ("spark.pyspark.python",),
    "PYSPARK_DRIVER_PYTHON": ("spark.pyspark.driver.python",),
    "SPARK_DRIVER_MEMORY": ("spark.driver.memory",),
    "SPARK_EXECUTOR_MEMORY": ("spark.executor.memory",),
    "SPARK_EXECUTOR_CORES": ("spark.executor.cores",),
    "SPARK_LOCAL_DIRS": ("spark.local.dir",),
    "SPARK_LOCAL_IP": ("spark.driver.bindAddress",),
    "SPARK_PUBLIC_DNS": ("spark.driver.host",),
}
VARIABLES_WITH_OPTIONS: Final = frozenset(
    name for name, sets in _BY_VARIABLE.items() if sets in (OPTION_PROPERTIES, _EXECUTOR_OPTIONS)
)
"""The value of these variables are Java options, each of which is judged."""

_BELOW_BY_VARIABLE: Final = {
    "SPARK_*": "spark.",
    "LD_*": "spark.",
    "GLIBC_TUNABLES": "spark.",
    "GCONV_PATH": "spark.",
    "LOCPATH": "spark.",
    "BASH*": "spark.",
    "SHELLOPTS": "spark.",
    "ENV": "spark.",
    "PS4": "spark.",
    "PATH": "spark.",
    "HADOOP_*": "spark.hadoop.",
    "YARN_*": "spark.hadoop.",
}
"""These set any property that begins so: by a file of configuration, by what spark-submit (a script of bash) reads or calls
before Java, or within that. Variables in ``_BY_VARIABLE`` set what stands there, and ``PLAIN_VARIABLES`` nothing."""

_OPTION: Final = re.compile(r"-D(spark\.[^\s=]*)")
_BUCKET: Final = "spark.hadoop.fs.s3a.bucket."


def properties_set_by(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """Yields each property that the job sets, after the key of the spec that does it. A property that ends in a dot
    stands for all below it."""
    for name in spec.conf:
        yield f"conf {name}", name
    for key, name in _BY_KEY.items():
        if getattr(spec, key):
            yield key, name
    if spec.python.is_given:
        key = "python.interpreter" if spec.python.archive is None else "python.archive"
        of_archive = () if spec.python.archive is None else ("spark.archives",)
        yield from ((key, name) for name in (*_BY_VARIABLE["PYSPARK_PYTHON"], *of_archive))
    if spec.restart.memory_step is not None:
        yield "restart.memory_step", "spark.driver.memory"
    for variable in spec.env:
        for name in _BY_VARIABLE.get(variable, _below(variable)):
            yield f"env {variable}", name
    for key, text in option_texts(spec):
        for found in _OPTION.finditer(unquoted(text)):
            yield key, found[1]


def _below(variable: str) -> Iterator[str]:
    if variable not in PLAIN_VARIABLES:
        yield from (name for pattern, name in _BELOW_BY_VARIABLE.items() if fnmatchcase(variable, pattern))


def option_texts(spec: JobSpec) -> Iterator[tuple[str, str]]:
    for name, value in spec.conf.items():
        if name.endswith("JavaOptions"):
            yield f"conf {name}", value
    for name, value in spec.env.items():
        if name in VARIABLES_WITH_OPTIONS:
            yield f"env {name}", value


def unquoted(text: str) -> str:
    """Returns Java options without what a shell or Spark takes away before the JVM reads them."""
    return re.sub(r"[\"'\\]", "", text)


def covers(rule: str, name: str) -> bool:
    """Says whether ``rule`` is about the property ``name``, by any of its names, in any case of letters."""
    rule = rule.lower()
    if name.endswith("."):
        plain = re.split(r"[*?]", rule, maxsplit=1)[0]
        return plain.startswith(name) or name.startswith(plain)
    return any(fnmatchcase(each.lower(), rule) for each in names_of(name))


def names_of(name: str) -> Iterable[str]:
    """Yields the names under which a property counts."""
    yield name
    yield from (twin for twins in _TWINS if name in twins for twin in twins)
    if name.lower().startswith(_BUCKET):
        parts = name[len(_BUCKET) :].split(".")  # the name of a bucket may have dots
        yield from (f"spark.hadoop.fs.s3a.{'.'.join(parts[n:])}" for n in range(1, len(parts)))
