"""What is kept of an error when its text is cut."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import supervisor
from supervisor.model.root_cause import cause_text

LONG = "x" * 500


@pytest.mark.parametrize("max_bytes", [120, 160, 180, 400, 1024])
@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        (
            f"StreamingQueryException: {LONG * 3}\nCaused by: A: b\n\tat x\nCaused by: java.io.IOException: No space",
            "No space",
        ),
        (f"ValueError: {LONG * 3} (caused by OSError: no route)", "(caused by OSError: no route)"),
        (f"ValueError: {'ü' * 2000} (caused by OSError: {'ü' * 2000})", "(caused by OSError: ü"),
    ],
)
def test_the_beginning_and_the_root_cause_stay(text: str, keeps: str, max_bytes: int) -> None:
    cut = cause_text(text, max_bytes)
    assert cut.startswith(text[:20]) and keeps in cut
    assert len(cut.encode()) <= max_bytes


def test_what_the_bootstrap_put_first_is_the_root() -> None:
    text = f"OSError: no route | [STREAM_FAILED] {LONG}\nCaused by: java.lang.RuntimeException: wrapped"
    assert cause_text(text, 120).startswith("OSError: no route | [STREAM_FAILED] xx")
    assert "wrapped" not in cause_text(text, 120)


def test_what_is_said_of_a_long_path_stays() -> None:
    place = "/var/lib/spark-supervisor/run/state/jobs/1ngphp0r7z4f-8a6646e7/users/1000/cwd/etl_config.json"
    text = f"FileNotFoundException: File file:{place} does not exist"
    assert cause_text(text, 120) == (
        "FileNotFoundException: File file:/var/lib/…/cwd/etl_config.json does not exist"
    )
    assert cause_text(text, 400) == text, "nothing has to be cut"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ValueError: a\n\x1b[31mb\udcff", "ValueError: a [31mb"),
        ("no login with password=hunter2", "no login with password=*********(redacted)"),
        ("", ""),
        ("Caused by: py4j.Py4JException: x", "Caused by: py4j.Py4JException: x"),
    ],
)
def test_it_is_one_line_without_secrets(text: str, says: str) -> None:
    assert cause_text(text, 120) == says


NO_CAUSE = {
    "model/root_cause.py": "it is that function",
    "operations/cluster.py": "the words of an operator",
    "registry/user_writes.py": "the words of an operator",
    "operations/hosts.py": "the words of an operator",
    "shim/waiting.py": "the words of a cluster",
    "clusters/kubernetes.py": "the words of a cluster",
    "clients/web.py": "the words of a receiver",
    "registry/pending_deletions.py": "compared with an entry that was cut like this",
    "spark/driver_launch.py": "why there is no fence: the supervisor's own words",
    "daemon/host/agent.py": "why a start is delayed: the supervisor's own words",
}


def test_each_text_that_is_a_cause_is_cut_by_the_same_function() -> None:
    root = Path(supervisor.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "clip":
                named = {node.attr for node in ast.walk(call.args[0]) if isinstance(node, ast.Attribute)}
                named |= {node.id for node in ast.walk(call.args[0]) if isinstance(node, ast.Name)}
                if named & {"why", "reason", "error", "given_up", "rolled_back"}:
                    found.add(str(path.relative_to(root)))
    assert found - set(NO_CAUSE) == set(), "cut it with model.root_cause.cause_text"
