"""Every point of leader and commands, at both moments, in each mode, in memory; and defects that this must find."""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from supervisor.act.transactions import BUILDERS
from supervisor.errors import OutcomeUnknown
from supervisor.model.actions import CleanUp
from supervisor.model.transaction import Delete
from supervisor.operations import jobs
from supervisor.plan import check, decide
from supervisor.registry import leader_writes, update_savepoint_writes
from tests.crash_points import memory_runs
from tests.crash_points.memory_world import Fault

PAIRS = 40


@pytest.fixture(scope="module")
def passed() -> Iterator[memory_runs.Passed]:
    with memory_runs.quiet():
        yield memory_runs.record()


@pytest.mark.parametrize("mode", memory_runs.MEMORY_MODES)
@pytest.mark.parametrize("role", ["leader", "cli"])
def test_every_point_of(role: str, mode: str, passed: memory_runs.Passed) -> None:
    """The job comes to where its user was told it is, one driver at a time, and nothing is left."""
    todo = [
        (story, fault)
        for story, fault in memory_runs.faults(passed)
        if fault.mode == mode and fault.point.startswith(role)
    ]
    struck, wrong = memory_runs.run(todo)
    assert not wrong, "\n".join(wrong)
    assert struck > 0.95 * len(todo), "there is no moment after a call that fails by itself: few do"


def test_random_pairs_of_points(passed: memory_runs.Passed) -> None:
    """Killed or paused at two points of one story, in one process or in two. Thousands: ``--memory --pairs 4000 --seed N``."""
    struck, wrong = memory_runs.run_pairs(memory_runs.pairs(passed, PAIRS, seed=1))
    assert not wrong, "\n".join(f"{pair}: {said}" for pair, said in wrong.items())
    assert struck[2] > 0.8 * PAIRS and struck[0] < 0.05 * PAIRS, struck


def test_a_pair_is_told_as_it_is_read(passed: memory_runs.Passed) -> None:
    for pair in memory_runs.pairs(passed, 20, seed=2):
        assert memory_runs.parse_pair(memory_runs.describe_pair(pair)) == pair
    assert list(memory_runs.pairs(passed, 20, seed=2)) != list(memory_runs.pairs(passed, 20, seed=3))


def test_the_stories_pass_every_multi_of_the_leader(passed: memory_runs.Passed) -> None:
    """Listed from the code: a new multi is to have a story."""
    named = {
        point.op.rpartition(" ")[2]
        for points in passed.values()
        for point in points
        if point.op.startswith("zookeeper.commit ")
    }
    assert leader_multis() <= named | set(NOT_REPORTED), leader_multis() - named


NOT_REPORTED = {
    "end_wait": "after an accepted restore: tests/property/test_restores.py",
    "make_parents": "after somebody removed them by hand: tests/unit/registry/test_fixed_znodes.py, tests/faults/test_removed_parents.py",
}


def leader_multis() -> set[str]:
    """The names of the transactions that ``leader_writes`` and ``update_savepoint_writes`` build."""
    calls = (
        node
        for module in (leader_writes, update_savepoint_writes)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Call)
    )
    built = (
        call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "transaction"
    )
    return {call.args[0].value for call in built if isinstance(call.args[0], ast.Constant)}


# -- defects ------------------------------------------------------------------------------------------------------------


def the_wait_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "wait_of_s", lambda row: 0.0)
    monkeypatch.setattr(check, "wait_of_s", lambda row: 0.0)


def a_command_acknowledges_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    real = jobs.commit_resolved

    def blind(sessions, zoo, tx, *rest):  # type: ignore[no-untyped-def]
        class Blind:
            def commit(self, tx):  # type: ignore[no-untyped-def]
                with contextlib.suppress(OutcomeUnknown):
                    zoo.commit(tx)

        return real(sessions, Blind(), tx, *rest)

    monkeypatch.setattr(jobs, "commit_resolved", blind)


def a_refused_request_counts_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    real = jobs.commit_resolved

    def hopeful(sessions, zoo, tx, *rest):  # type: ignore[no-untyped-def]
        try:
            return real(sessions, zoo, tx, *rest)
        except jobs.Conflict:
            raise
        except Exception:
            return True

    monkeypatch.setattr(jobs, "commit_resolved", hopeful)


def clean_up_forgets_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    real = BUILDERS[CleanUp]

    def forgetful(*given, **more):  # type: ignore[no-untyped-def]
        tx = real(*given, **more)
        return replace(
            tx, ops=tuple(op for op in tx.ops if not (isinstance(op, Delete) and "/lease/" in op.path))
        )

    monkeypatch.setitem(BUILDERS, CleanUp, forgetful)


DEFECTS = [
    the_wait_is_skipped,
    a_command_acknowledges_what_it_does_not_know,
    a_refused_request_counts_as_done,
    clean_up_forgets_the_lease,
]


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_seeded_defect_is_found(
    defect: Callable[[pytest.MonkeyPatch], None],
    passed: memory_runs.Passed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    defect(monkeypatch)
    writes = [
        (story, fault)
        for story, fault in memory_runs.faults(passed, everywhere=True)
        if "zookeeper.commit" in fault.point
    ]
    assert any(memory_runs.run([each])[1] for each in writes), "it went unnoticed"


def test_a_fault_that_never_strikes_is_not_counted(passed: memory_runs.Passed) -> None:
    assert memory_runs.run([("launch", Fault("leader|nowhere:f:1||zookeeper.sync", "before", "kill"))]) == (
        0,
        [],
    )
