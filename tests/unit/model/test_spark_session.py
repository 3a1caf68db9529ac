"""Which sessions a job may have, and every way in which pyspark can be asked for another kind."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

from supervisor.model.exits import ExitEvidence, classify
from supervisor.model.records import Cause
from supervisor.model.spark_session import (
    INSIDE,
    MARK,
    OPTION_PROPERTIES,
    OPTION_VARIABLES,
    OUTSIDE,
    SELECTING_PROPERTIES,
    SELECTING_VARIABLES,
    UnsupportedSession,
    why_unsupported,
    why_unsupported_by_default,
)
from supervisor.spec.property_names import VARIABLES_WITH_OPTIONS

NOT_SELECTING_VARIABLES = {
    "PYSPARK_REMOTE_INIT_CONF_": "options for a session that was asked for otherwise",
    "PYSPARK_REMOTE_INIT_CONF_LEN": "how many of them",
    "SPARK_CONNECT_AUTHENTICATE_TOKEN": "for the client of a server",
    "SPARK_CONNECT_DEBUG_CLIENT_CALL_STACK": "for the client of a server",
    "SPARK_CONNECT_LOCAL_URL": "written by a local server that was asked for",
    "SPARK_CONNECT_LOG_LEVEL": "the client's log",
    "SPARK_CONNECT_ML_HANDLER_INTERRUPTION_TIMEOUT_MINUTES": "of the server",
    "SPARK_CONNECT_PROGRESS_BAR_ENABLED": "the client's screen",
    "SPARK_CONNECT_RELEASE_SESSION_ON_EXIT": "for the client of a server",
    "SPARK_CONNECT_TESTING_REMOTE": "pyspark's own tests",
    "SPARK_CONNECT_USER_AGENT": "what the client says of itself",
    "SPARK_LOCAL_CONNECT_DISCOVERY": "where a local server that was asked for is found",
    "SPARK_LOCAL_CONNECT_REUSE": "which local server is used, if one is asked for",
}
NOT_SELECTING_PROPERTIES = {
    "spark.local.connect.": "a prefix, for a local server that was asked for",
    "spark.local.connect.reuse": "which local server is used, if one is asked for",
    "spark.local.connect.server.port": "its port",
}
NOT_OF_DRIVERS = {
    *("SPARK_BEELINE_OPTS", "SPARK_DAEMON_JAVA_OPTS", "SPARK_EXECUTOR_OPTS", "SPARK_HISTORY_OPTS"),
    *("SPARK_MASTER_OPTS", "SPARK_SHUFFLE_OPTS", "SPARK_WORKER_OPTS"),
    *("spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions"),
    *("IPYTHON_OPTS", "PYSPARK_DRIVER_PYTHON_OPTS"),  # of Python
}
OPTIONS = re.compile(rb"\b[A-Z_]+_OPTS\b|\bspark\.[.a-zA-Z]*JavaOptions\b")
VARIABLE = re.compile(r"\b(?:PY)?SPARK_[A-Z_]*(?:REMOTE|CONNECT|API_MODE)[A-Z_]*\b")
PROPERTY = re.compile(r"\bspark\.(?:remote\b|api\.mode\b|local\.connect\.[a-z.]*)")


def sources() -> Iterator[str]:
    for path in Path(pyspark.__file__).parent.rglob("*.py"):
        if not {"tests", "testing", "proto"} & set(path.parts):
            yield path.read_text("utf-8", "replace")


def test_each_name_by_which_pyspark_chooses_its_kind_of_session_is_known() -> None:
    """A new one is to be judged: does it select Spark Connect?"""
    variables: set[str] = set()
    properties: set[str] = set()
    for source in sources():
        variables.update(VARIABLE.findall(source))
        properties.update(PROPERTY.findall(source))
    assert variables - NOT_SELECTING_VARIABLES.keys() <= set(SELECTING_VARIABLES)
    assert properties - NOT_SELECTING_PROPERTIES.keys() == set(SELECTING_PROPERTIES)


def test_the_places_where_pyspark_makes_such_a_session_are_known() -> None:
    """``bootstrap.Watch`` refuses in these: both ways of the builder, and the classes of session and client."""
    makes = re.compile(
        r"SparkConnectClient\(\s*\n?\s*connection|RemoteSparkSession\.builder|_start_connect_server\("
    )
    root = Path(pyspark.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if not {"tests", "testing"} & set(path.parts) and makes.search(path.read_text("utf-8", "replace"))
    }
    client = "sql/connect/client/core.py"  # one is made of another there
    assert found <= {"sql/session.py", "sql/connect/session.py", "sql/connect/local_server.py", client}


@pytest.mark.parametrize(
    ("env", "conf", "what", "where"),
    [
        ({"SPARK_REMOTE": "sc://host/;token=hush"}, {}, "env SPARK_REMOTE", OUTSIDE),
        ({"SPARK_REMOTE": ""}, {}, "env SPARK_REMOTE", OUTSIDE),
        ({"SPARK_REMOTE": "local[2]"}, {}, "env SPARK_REMOTE", INSIDE),
        ({"SPARK_LOCAL_REMOTE": "1"}, {}, "env SPARK_LOCAL_REMOTE", INSIDE),
        ({"SPARK_CONNECT_MODE_ENABLED": "1"}, {}, "env SPARK_CONNECT_MODE_ENABLED", OUTSIDE),
        ({"SPARK_CONNECT_MODE": "1"}, {}, "env SPARK_CONNECT_MODE", INSIDE),
        ({"SPARK_API_MODE": "Connect"}, {}, "env SPARK_API_MODE", INSIDE),
        ({"SPARK_SKIP_CONNECT_COMPAT_TESTS": "1"}, {}, "env SPARK_SKIP_CONNECT_COMPAT_TESTS", OUTSIDE),
        ({}, {"spark.remote": "sc://host/;token=hush"}, "conf spark.remote", OUTSIDE),
        ({}, {"spark.remote": "local"}, "conf spark.remote", INSIDE),
        ({}, {"spark.api.mode": "connect"}, "conf spark.api.mode", INSIDE),
    ],
)
def test_what_asks_for_spark_connect_is_named(
    env: dict[str, str], conf: dict[str, str], what: str, where: str
) -> None:
    assert why_unsupported(env, conf) == f"{what} asks for {where}"


def test_each_selecting_name_is_judged() -> None:
    for name in SELECTING_VARIABLES:
        assert any(why_unsupported({name: value}, {}) for value in ("1", "connect")), name
    for name in SELECTING_PROPERTIES:
        assert why_unsupported({}, {name: "connect"}), name


@pytest.mark.parametrize("name", [*OPTION_PROPERTIES, *OPTION_VARIABLES])
@pytest.mark.parametrize(
    ("options", "where"),
    [
        ("-Dspark.remote=sc://host/;token=hush", OUTSIDE),
        ("-ea -Dspark.remote=local[2] -Xss1m", INSIDE),
        ("-Dspark.remote", OUTSIDE),
        ('"-Dspark.remote=sc://host"', OUTSIDE),
        ("-D'spark.remote'=sc://host", OUTSIDE),
        ("-Da='torn -Dspark.remote=sc://host", OUTSIDE),
        ("-Dspark.api.mode=Connect", INSIDE),
    ],
)
def test_java_options_ask_as_properties_do(name: str, options: str, where: str) -> None:
    of_env = name in OPTION_VARIABLES
    why = why_unsupported(*(({name: options}, {}) if of_env else ({}, {name: options})))
    assert why.startswith(f"{'env' if of_env else 'conf'} {name}: -Dspark.") and why.endswith(where)
    assert "hush" not in why and "host" not in why


@pytest.mark.parametrize(
    "options",
    ["", "-Dspark.remotely=1", "-Dx=spark.remote=1", "-Dspark.api.mode=classic", "spark.remote=sc://h"],
)
def test_other_java_options_ask_for_nothing(options: str) -> None:
    assert why_unsupported({"JAVA_TOOL_OPTIONS": options}, {"spark.driver.extraJavaOptions": options}) == ""


def test_each_way_to_give_a_driver_java_options_is_known() -> None:
    """A new one of the installed launcher is to be judged; what judges options for other reasons has the same list."""
    assert set(OPTION_VARIABLES) == VARIABLES_WITH_OPTIONS - NOT_OF_DRIVERS
    found: set[str] = set()
    for jar in (Path(pyspark.__file__).parent / "jars").glob("spark-launcher_*.jar"):
        with zipfile.ZipFile(jar) as classes:
            for name in classes.namelist():
                found.update(map(bytes.decode, OPTIONS.findall(classes.read(name))))
    for script in (Path(pyspark.__file__).parent / "bin").iterdir():
        found.update(map(bytes.decode, OPTIONS.findall(script.read_bytes())))
    assert "SPARK_SUBMIT_OPTS" in found and "spark.driver.extraJavaOptions" in found
    assert found - NOT_OF_DRIVERS <= {*OPTION_VARIABLES, *OPTION_PROPERTIES}


@pytest.mark.parametrize(
    ("env", "conf"),
    [
        ({}, {}),
        ({"SPARK_API_MODE": "classic", "SPARK_CONNECT_MODE": "0"}, {"spark.api.mode": "classic"}),
        ({"SPARK_HOME": "/s"}, {"spark.connect.grpc.binding.port": "1"}),
    ],
)
def test_a_classic_session_is_not_refused(env: dict[str, str], conf: dict[str, str]) -> None:
    assert why_unsupported(env, conf) == ""


def test_a_pyspark_that_is_of_the_other_kind_by_itself_is_known() -> None:
    def util(mode: str, only: bool = False) -> SimpleNamespace:
        return SimpleNamespace(default_api_mode=lambda: mode, is_remote_only=lambda: only)

    assert why_unsupported_by_default(util("classic")) == ""
    assert why_unsupported_by_default(None) == why_unsupported_by_default(SimpleNamespace()) == ""
    assert why_unsupported_by_default(util("connect")).endswith(INSIDE)
    assert why_unsupported_by_default(util("classic", only=True)).endswith(OUTSIDE)


@pytest.mark.parametrize("status", [0, 1, 3])
def test_no_restart_heals_it(status: int) -> None:
    error = f"UnsupportedSession: {UnsupportedSession('env SPARK_REMOTE asks for ' + OUTSIDE)}"
    verdict = classify(ExitEvidence(status, unbounded=True, begun=True, error=error))
    assert (verdict.cause, verdict.permanent) == (Cause.USER_ERROR, True)
    assert verdict.reason.startswith(MARK) and "no remote" in verdict.reason
