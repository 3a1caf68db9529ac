"""The names by which a job can have code loaded that no SHA-256 pins: Spark properties, environment variables, Java options.

It is pure; ``spec.policy_judge`` asks it. A property that names a *class* is none of these: classes come from the class
path, whose files are pinned. What is here names a file, a script, an image, a repository, or a variable of another
process. ``tests/unit/spec/test_code_names.py`` compares it with the installed Spark: its configuration, its scripts, and
what pyspark reads of the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

CODE_PROPERTIES: Final = (
    "spark.jars",
    "spark.jars.packages",
    "spark.jars.repositories",
    "spark.jars.ivy",
    "spark.jars.ivysettings",
    "spark.submit.pyfiles",
    "spark.files",
    "spark.archives",
    "spark.*.extraclasspath",
    "spark.*.defaultextraclasspath",
    "spark.*.extralibrarypath",
    "spark.driver.librarypath",
    "spark.executor.uri",
    "spark.pyspark.python",
    "spark.pyspark.driver.python",
    "spark.sql.execution.pyspark.python",
    "spark.python.daemon.module",
    "spark.python.worker.module",
    "spark.*r.command",
    "spark.r.*.command",
    "spark.repl.*",
    "spark.*.discoveryscript",
    "spark.sql.hive.metastore.jars",
    "spark.sql.hive.metastore.jars.path",
    "spark.yarn.dist.*",
    "spark.yarn.jar",
    "spark.yarn.jars",
    "spark.yarn.archive",
    "spark.yarn.user.jar",
    "spark.yarn.secondary.jars",
    "spark.yarn.cache.*",
    "spark.yarn.config.gatewaypath",
    "spark.yarn.config.replacementpath",
    "spark.kubernetes.*container.image",
    "spark.kubernetes.*template*file",
    "spark.kubernetes.*templatejson",
    "spark.kubernetes.decommission.script",
    "spark.hadoop.*script*",
    "spark.hadoop.*command*",
)
"""Patterns of properties, in lower case. ``*`` and ``?`` stand for any characters."""

SECRET_FILE_PROPERTIES: Final = ("spark.*keytab", "spark.hadoop.*credential.provider.path")
"""The values of these name files with secrets: they are judged by ``policy.secrets.files``."""

VARIABLES_OF_PROPERTIES: Final = (
    "spark.executorenv.",
    "spark.yarn.appmasterenv.",
    "spark.kubernetes.driverenv.",
)
"""What follows one of these, in lower case, is the name of a variable in another process of the job."""

CODE_VARIABLES: Final = (
    "LD_*",
    "DYLD_*",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "LOCPATH",
    "NLSPATH",
    "PATH",
    "HOME",
    "ENV",
    "IFS",
    "PS[0-4]",
    "CDPATH",
    "SHELLOPTS",
    "PROMPT_COMMAND",
    "BASH*",
    "PYTHON*",
    "PYSPARK_*",
    "SPARK_*",
    "SPARKR_*",
    "HADOOP_*",
    "HDFS_*",
    "YARN_*",
    "MAPRED_*",
    "HIVE_*",
    "JAVA_*",
    "_JAVA_*",
    "JDK_*",
    "JRE_*",
    "CLASSPATH",
    "LOG4J_*",
    "IVY_*",
    "MAVEN_*",
    "OPENSSL_*",
    "KRB5*",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "OMP_TOOL*",
    "PERL*",
    "RUBY*",
    "NODE_*",
    "R_*",
    "CONDA_*",
    "VIRTUAL_ENV",
    "XDG_*",
)
"""Patterns of variables by which the loader, a shell, Python, the JVM, Spark, Hadoop or a library of theirs finds code or a
file of configuration. Whole families: a name that a later version reads is in them."""

PLAIN_VARIABLES: Final = frozenset(
    {
        "PYTHONASYNCIODEBUG",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONFAULTHANDLER",
        "PYTHONHASHSEED",
        "PYTHONIOENCODING",
        "PYTHONMALLOC",
        "PYTHONOPTIMIZE",
        "PYTHONTRACEMALLOC",
        "PYTHONUNBUFFERED",
        "PYTHONUTF8",
        "SPARK_DRIVER_MEMORY",
        "SPARK_EXECUTOR_CORES",
        "SPARK_EXECUTOR_MEMORY",
        "SPARK_LOCAL_DIRS",
        "SPARK_LOCAL_HOSTNAME",
        "SPARK_LOCAL_IP",
        "SPARK_PUBLIC_DNS",
        "SPARK_SCALA_VERSION",
        "SPARK_TESTING",
        "SPARK_USER",
    }
)
"""Of the families above, those that are a number, a switch, an address, or a directory for data."""

_PLAIN_OPTION: Final = re.compile(
    r"""-X(?:ms|mx|mn|ss)\d+[kKmMgGtT]?
    |-X(?:int|comp|mixed|rs|internalversion)
    |-XX:[+-]\w+
    |-XX:\w+=\d[\w.%]*
    |-XX:(?:HeapDumpPath|ErrorFile|LogFile)=\S+
    |-Xlog(?::\S*)?
    |-verbose(?::\w+)?
    |-(?:ea|da|esa|dsa|enableassertions|disableassertions)(?::\S*)?
    |--add-(?:opens|exports|reads|modules)=\S+
    |--enable-native-access=\S+
    |-D(?!spark\.|java\.(?:class|library|ext|endorsed|system|security|home)|jdk\.|sun\.|log4j|org\.apache\.logging
       |javax\.|jna\.|py4j\.)[\w.-]+(?:=\S*)?""",
    re.VERBOSE,
)
"""A Java option that loads no code: a size, a number, a switch, a place to write to, an open package, a property of the
application's own. All others may: agents, class paths, commands on errors, archives, files with options."""


def is_code_property(name: str) -> bool:
    """Returns whether a Spark property names code, in any case of letters."""
    lower = name.lower()
    return any(fnmatchcase(lower, pattern) for pattern in CODE_PROPERTIES)


def is_secret_file_property(name: str) -> bool:
    """Returns whether the value of a Spark property names a file with secrets."""
    lower = name.lower()
    return any(fnmatchcase(lower, pattern) for pattern in SECRET_FILE_PROPERTIES)


def is_code_variable(name: str) -> bool:
    """Returns whether an environment variable decides which code is loaded."""
    return name not in PLAIN_VARIABLES and any(fnmatchcase(name, pattern) for pattern in CODE_VARIABLES)


def variable_of_property(name: str) -> str | None:
    """Returns the variable that a Spark property sets in another process of the job, or None."""
    prefix = next((each for each in VARIABLES_OF_PROPERTIES if name.lower().startswith(each)), None)
    return None if prefix is None else name[len(prefix) :]


def code_options(text: str) -> Iterator[str]:
    """Yields the Java options of ``text`` that are not known to load no code. Quotes are taken away before."""
    for option in text.split():
        if not _PLAIN_OPTION.fullmatch(option):
            yield option
