"""What of a command line is shown, when the diagnostics of a driver that is to stop begin, and where they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.diagnostics import (
    COLLECT_S,
    STOP_LEAST_S,
    heap_limit,
    path_of,
    shown_command,
    stop_window_s,
)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ([], "?"),
        ([""], "?"),
        (["/usr/bin/java", "-Xmx1g", "-Dpassword=S", "-cp", "/a.jar", "org.Main", "S"], "java org.Main"),
        (["java", "--add-opens", "java.base/x=ALL-UNNAMED", "-jar", "/srv/app.jar", "S"], "java app.jar"),
        (["/venv/bin/python3.11", "-X", "dev", "-m", "pyspark.daemon", "S"], "python3.11 -m pyspark.daemon"),
        (["python3", "-W", "error", "/srv/app.py", "--token", "S"], "python3 app.py"),
        (["python3", "-c", "S", "S"], "python3"),
        (["python3", "-", "S"], "python3"),
        (["curl", "-u", "S", "S"], "curl"),
    ],
)
def test_no_argument_that_may_be_a_secret_is_shown(arguments: list[str], shown: str) -> None:
    assert shown_command(arguments) == shown


def test_the_last_limit_of_the_heap_counts() -> None:
    assert heap_limit(["java", "-Xmx1g", "-Xss1m", "-Xmx2g", "Main"]) == "-Xmx2g"
    assert heap_limit(["java", "Main"]) == ""


def test_the_file_belongs_to_its_attempt() -> None:
    assert path_of("/log/orders/u1.3.log") == "/log/orders/u1.3.diagnostics.txt"


@given(st.floats(0, 1e5), st.floats(0, 3600))
def test_the_window_before_sigkill_lies_after_sigterm(terminate_at_s: float, left_s: float) -> None:
    window_s = stop_window_s(terminate_at_s, terminate_at_s + left_s)
    assert window_s == 0.0 or STOP_LEAST_S <= window_s <= min(COLLECT_S, left_s)
