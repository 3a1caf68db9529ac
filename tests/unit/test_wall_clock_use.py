"""No decision uses wall time (protocol §8): who reads the wall clock as a number is listed here, with what it is for.

Everybody else has ``clock.wall_iso`` at most, a text for display. tests/faults/test_wall_clock.py sets the clock itself.
"""

from __future__ import annotations

import ast
from pathlib import Path

import supervisor

PACKAGE = Path(supervisor.__file__).parent
RAW = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
NUMBER = RAW | {"wall_s", "clock.wall_s"}

READERS = {
    "clock.py": "is the clock",
    "api/log_pieces.py": "which output is new enough to be shown (--since)",
    "bluegreen/compare.py": "ages, on a screen",
    "cli": "ages, on a screen",
    "daemon/host/attempt_reporter.py": "for how long a driver waits for executors, as a metric",
    "demo": "what happened when, on a screen",
    "operations/debug_bundle.py": "ages, in a document; when it was made",
    "operations/explain_document.py": "ages, in a document",
    "operations/explain_screen.py": "ages, on a screen",
    "operations/history.py": "ages, on a screen",
    "operations/job_view.py": "ages, on a screen",
    "operations/listing.py": "ages, on a screen",
    "operations/scene.py": "ages, on a screen",
    "operations/spans.py": "ages, on a screen",
    "operations/waiting.py": "ends a wait for a driver that makes no query",
    "observe/status.py": "ages of jobs, in a document",
    "records/ids.py": "makes a uid sortable; its random half makes it unique",
    "shim/runner.py": "a jump means: read the ownership again before anything else (protocol §7.7)",
    "clients/webhook.py": "the timestamp by which a receiver refuses what is old",
    "clients/store/probe.py": "doctor compares clocks",
    "clients/zookeeper_probe.py": "doctor compares clocks",
}


def called(path: Path) -> set[str]:
    """Names of what is called, with at most two parts."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            found.add(f"{node.func.value.id}.{node.func.attr}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
    return found


def listed(path: Path) -> str | None:
    place = path.relative_to(PACKAGE).as_posix()
    return next((reader for reader in READERS if place == reader or place.startswith(f"{reader}/")), None)


def test_who_reads_the_wall_clock_as_a_number() -> None:
    readers = {path: called(path) & NUMBER for path in sorted(PACKAGE.rglob("*.py"))}
    strangers = {
        str(path.relative_to(PACKAGE)): names
        for path, names in readers.items()
        if names and listed(path) is None
    }
    assert strangers == {}, "use clock.boottime_s for decisions; for display, list the module with its reason"


def test_the_list_names_only_readers() -> None:
    seen = {listed(path) for path in PACKAGE.rglob("*.py") if called(path) & NUMBER}
    assert seen - {None} == set(READERS)
