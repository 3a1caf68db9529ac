"""Says what a SparkSession of a job may be: one with a SparkContext in the driver's own JVM (classic), and no other.

A session of Spark Connect has its queries in a server. What proves that an attempt is over is that its process tree is
empty, and a server elsewhere is not in it: its queries would run on beside the next driver. A server that Spark starts
inside the tree is not supported yet.

It is asked by ``submit``, ``doctor`` and the launcher of a spec, and by the bootstrap, before the application
begins and at each session that is made. The bootstrap loads this file by its path, under whatever Python the job has (3.9
and later): it imports the standard library only. It never repeats a URL, which may hold a token.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

MARK = "unsupported session: "
"""The text of an error begins so; by it the exit is known as one that no restart heals (``model.exits``)."""
REMEDY = "remove it: a job makes a session of its own with SparkSession.builder.getOrCreate()"
IN_CODE = "a job makes a session of its own with SparkSession.builder.getOrCreate() and no remote"
OUTSIDE = "a Spark Connect server, whose queries live where no lease holds them"
INSIDE = "a Spark Connect server in the driver, which is not supported yet"

LOCAL = "local"
CONNECT = "connect"
PACKAGE = "pyspark.sql.connect"
SESSION_MODULE, CLIENT_MODULE = f"{PACKAGE}.session", f"{PACKAGE}.client.core"

SELECTING_VARIABLES = (
    "SPARK_REMOTE",
    "SPARK_LOCAL_REMOTE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_CONNECT_MODE",
    "SPARK_API_MODE",
    "SPARK_SKIP_CONNECT_COMPAT_TESTS",
)
"""All variables by which pyspark makes a session of Spark Connect; a test compares them with the installed pyspark."""
SELECTING_PROPERTIES = ("spark.remote", "spark.api.mode")
OPTION_VARIABLES = (
    "SPARK_SUBMIT_OPTS",
    "SPARK_LAUNCHER_OPTS",
    "SPARK_JAVA_OPTS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
)
OPTION_PROPERTIES = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
"""The Java options of a driver: a ``-D`` among them sets a property, and Spark's own client reads it as one. What a file
of options has (``@file``, ``-XX:VMOptionsFile``) is not seen."""


class UnsupportedSession(RuntimeError):
    """Is raised in the application where it makes a session that a job can't have."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{MARK}{what}; {IN_CODE}")


class UnsupportedImport(ImportError):
    """Is raised where the module of such sessions can't be imported: something that it needs is not installed."""

    def __init__(self, error: ImportError) -> None:
        super().__init__(f"{MARK}{SESSION_MODULE} makes sessions with {OUTSIDE}; {IN_CODE} ({error})")


def why_unsupported(env: Mapping[str, str], conf: Mapping[str, str], of_conf: str = "conf") -> str:
    """Returns what in ``env`` or ``conf`` asks for a session that a job can't have, and why not; else an empty text.
    ``of_conf`` says whose properties ``conf`` are."""
    return next(_found(env, conf, of_conf), "")


def why_unsupported_by_default(util: object) -> str:
    """Returns why the sessions of an installed pyspark are of another kind where nobody asks for one; else an empty text.
    ``util`` is its module ``pyspark.util``, or None."""
    is_remote_only, mode = getattr(util, "is_remote_only", None), getattr(util, "default_api_mode", None)
    if is_remote_only is not None and is_remote_only():
        return _asks("the installed pyspark", None)
    return _asks("the installed pyspark", LOCAL) if mode is not None and mode() == CONNECT else ""


def _found(env: Mapping[str, str], conf: Mapping[str, str], of_conf: str) -> Iterator[str]:
    yield from _of_properties(conf, of_conf)
    for name in OPTION_PROPERTIES:
        yield from _of_properties(_set_by_options(conf.get(name) or ""), f"{of_conf} {name}: -D")
    for name in OPTION_VARIABLES:
        yield from _of_properties(_set_by_options(env.get(name) or ""), f"env {name}: -D")
    yield from _of_variables(env)


def _of_properties(conf: Mapping[str, str], of: str) -> Iterator[str]:
    """``of`` ends with ``-D`` if they are set by Java options."""
    space = "" if of.endswith("-D") else " "
    if "spark.remote" in conf:
        yield _asks(f"{of}{space}spark.remote", conf["spark.remote"])
    if (conf.get("spark.api.mode") or "").lower() == CONNECT:
        yield _asks(f"{of}{space}spark.api.mode", LOCAL)


def _set_by_options(options: str) -> dict[str, str]:
    """Returns the properties that Java options set. They are split as a shell does, as Spark and the JVM split them; what
    can't be is split at blanks."""
    try:
        words = shlex.split(options)
    except ValueError:
        words = options.replace('"', "").replace("'", "").split()
    pairs = (word[2:].partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in pairs}


def _of_variables(env: Mapping[str, str]) -> Iterator[str]:
    if "SPARK_REMOTE" in env:  # as pyspark asks: an empty one counts
        yield _asks("env SPARK_REMOTE", env["SPARK_REMOTE"])
    if "SPARK_CONNECT_MODE_ENABLED" in env:
        yield _asks("env SPARK_CONNECT_MODE_ENABLED", None)
    if "SPARK_SKIP_CONNECT_COMPAT_TESTS" in env:
        yield _asks("env SPARK_SKIP_CONNECT_COMPAT_TESTS", None)
    if (env.get("SPARK_API_MODE") or "").lower() == CONNECT:
        yield _asks("env SPARK_API_MODE", LOCAL)
    if env.get("SPARK_CONNECT_MODE") == "1":
        yield _asks("env SPARK_CONNECT_MODE", LOCAL)
    if "SPARK_LOCAL_REMOTE" in env:
        yield _asks("env SPARK_LOCAL_REMOTE", LOCAL)


def _asks(what: str, url: str | None) -> str:
    return f"{what} asks for {INSIDE if (url or '').startswith(LOCAL) else OUTSIDE}"
