"""A bounded job that has ended with 0 is over, also while no leader has concluded it: nothing else is acknowledged of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from supervisor.errors import Conflict
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.records import BlobRef, Cause, Outcome
from supervisor.operations.jobs import JobOperations
from supervisor.operations.savepoint_resume import Basis, Revision
from tests.fakes.registry_bench import SHA, Bench, submission, terms
from tests.unit.daemon.leader.test_controller import Rig

TERMS = terms("s3://bkt/new-job", unbounded=False, delete_checkpoint=True)


def moved(uid: str) -> Revision:
    """As ``resume --from-savepoint`` would have it, whatever ``basis`` says."""
    old = BlobRef(key=f"specs/j/{uid}/1-{SHA}.json", sha256=SHA, bytes=10)
    new = replace(TERMS, checkpoint="s3://bkt/copy-of-savepoint")
    basis = Basis("j", uid, 1, old, TERMS.checkpoint, "", "")
    return Revision(
        basis,
        BlobRef(key=f"specs/j/{uid}/2-{SHA}.json", sha256=SHA, bytes=10),
        new,
        "before-upgrade",
        (SeenQuery("q", 5),),
    )


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def uid(rig: Rig) -> str:
    """It has finished, and nobody leads."""
    uid = rig.bench.commands().submit(replace(submission("j"), scheduling=TERMS)).uid
    rig.bench.exit("j", Cause.FINISHED)
    return uid


COMMANDS: dict[str, Callable[[JobOperations, str], object]] = {
    "suspend": lambda commands, _: commands.suspend("j"),
    "resume": lambda commands, _: commands.resume("j"),
    "restart": lambda commands, _: commands.restart("j"),
    "basis": lambda commands, _: commands.basis("j"),
    "resume --from-savepoint": lambda commands, uid: commands.resume_from(moved(uid)),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_what_a_leader_would_undo_is_not_acknowledged(
    rig: Rig, uid: str, command: Callable[[JobOperations, str], object]
) -> None:
    with pytest.raises(Conflict, match="j has finished"):
        command(rig.bench.commands(), uid)
    rig.controller.reconcile_once()
    result = rig.bench.result(uid)
    assert result.outcome is Outcome.FINISHED and result.terms is not None
    assert result.terms.checkpoint == TERMS.checkpoint, (
        "no copy of a savepoint is taken for the job's checkpoint, and deleted"
    )


def test_an_exit_between_reading_and_writing_makes_the_write_fail(rig: Rig) -> None:
    """The suspend of a running job meets its end."""
    bench: Bench = rig.bench
    bench.commands().submit(replace(submission("j"), scheduling=TERMS))
    bench.run("j")
    commands = bench.commands()
    real, done = commands._read, []

    def read_then_exit(*arguments: object) -> object:
        found = real(*arguments)  # type: ignore[arg-type]
        if not done and len(commands_reads) == 1:
            done.append(True)
            bench.exit("j", Cause.FINISHED)
        commands_reads.append(1)
        return found

    commands_reads: list[int] = []
    commands._read = read_then_exit  # type: ignore[method-assign, assignment]
    with pytest.raises(Conflict, match="j has finished"):
        commands.suspend("j")


def test_a_cancel_is_in_effect(rig: Rig, uid: str) -> None:
    """No leader undoes it: the reference is gone."""
    assert rig.bench.commands().cancel("j").uid == uid
    rig.controller.reconcile_once()
    assert rig.bench.result(uid).outcome is Outcome.CANCELLED
