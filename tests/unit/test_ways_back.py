"""Every place from which a job goes on with an older, another or no checkpoint asks ``model.going_back`` first.

The table has all of them. A new call of what starts a job in such a way is not in it, and fails here: decide which ``ReturnWay`` it is,
ask, and write it down.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import supervisor
from supervisor.model.going_back import ReturnWay

ROOT = Path(supervisor.__file__).parent

GATES = {
    "restore",
    "restore_to",
    "resume_from",
    "finish_fork",
    "undo_promotion",
    "roll_back_to_savepoint",
    "moved_to",
}
"""What copies a savepoint, or makes a copy or an older checkpoint that of a job."""
FRESH = {"fresh_start", "begins_with"}
"""What lets a start take another checkpoint than the job left."""

ASKS = {
    # place → where the decision is made
    "savepoints/operations.py:restore_to restore": "its caller, by its parameter",
    "savepoints/resume.py:resume_from restore_to": "ReturnWay.RESUME ReturnWay.ROLLBACK",
    "savepoints/resume.py:resume_from resume_from": "ReturnWay.RESUME ReturnWay.ROLLBACK",
    "savepoints/begin.py:restore_for restore_to": "ReturnWay.SUBMIT",
    "cli/savepoint.py:restore restore_to": "back_of_copy: ReturnWay.RESTORE",
    "cli/with_savepoint.py:resume_from resume_from": "savepoints.resume",
    "cli/suspend.py:act resume_from": "savepoints.resume",
    "cli/rollback.py:act resume_from": "savepoints.resume",
    "daemon/leader/savepoint_task.py:_restore restore_to": "ReturnWay.UPDATE",
    "daemon/leader/update_savepoint_task.py:restore restore": "ReturnWay.UPDATE",
    "daemon/leader/way_back.py:_restore restore": "ReturnWay.UPDATE",
    "act/transactions.py: roll_back_to_savepoint": "ReturnWay.UPDATE",
    "registry/update_savepoint_writes.py:_remembered moved_to": "ReturnWay.UPDATE",
    "bluegreen/fork.py:_copy restore_to": "_decided: ReturnWay.FORK",
    "bluegreen/fork.py:fork finish_fork": "_decided: ReturnWay.FORK",
    "operations/promoting.py:attempt finish_fork": "_decided: ReturnWay.FORK",
    "bluegreen/promote.py:undo undo_promotion": "_require_sink: ReturnWay.UNDO",
    "operations/promoting.py:attempt undo_promotion": "_require_sink: ReturnWay.UNDO",
    "operations/jobs.py:attempt resume_from": "savepoints.resume",
    "operations/jobs.py:attempt moved_to": "savepoints.resume",
}
BEGINS = {
    "operations/going_back.py:resume_asked",  # asks
    "operations/job_requests.py:carry_out",  # resume_asked
    "operations/submit.py:submit_all",  # after _begin_all has asked
    "operations/submit.py:store_and_register",
    "operations/apply.py:carry_out",  # fresh_start=False
    "cli/submit.py:submit",
}


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Each call of a name in the product: ``file:innermost function``, the name that is called, the call."""
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT).as_posix()
        if not relative.startswith("demo/"):
            yield from _calls(ast.parse(path.read_text()), f"{relative}:")


def _calls(node: ast.AST, where: str) -> Iterator[tuple[str, str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        inside = f"{where.partition(':')[0]}:{child.name}" if isinstance(child, ast.FunctionDef) else where
        if isinstance(child, ast.Call):
            function = child.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            yield where, name, child
        yield from _calls(child, inside)


def handed_on() -> Iterator[str]:
    """Each table of the product that has one of ``GATES`` as a value: what looks it up there calls it."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for value in node.values if isinstance(node, ast.Dict) else ():
                if isinstance(value, ast.Attribute) and value.attr in GATES:
                    yield f"{path.relative_to(ROOT).as_posix()}: {value.attr}"


def test_every_way_back_asks() -> None:
    found = {f"{where} {name}" for where, name, _ in calls() if name in GATES}
    assert found | set(handed_on()) == set(ASKS)


def test_every_fresh_start_asks() -> None:
    found = {
        where
        for where, _, call in calls()
        for keyword in call.keywords
        if keyword.arg in FRESH
        and not where.startswith(("registry/", "operations/jobs.py", "operations/savepoint_resume"))
    }
    assert found == BEGINS


def test_every_way_is_asked_about_somewhere() -> None:
    text = "".join(path.read_text() for path in ROOT.rglob("*.py") if path.name != "model/going_back.py")
    assert {way.name for way in ReturnWay if f"ReturnWay.{way.name}" in text} == set(ReturnWay.__members__)
