"""``apply --prune`` beside a fork that is being made, promoted or cancelled: what comes between two steps is not cancelled by a
judgement of before, a fork is left unless that is asked, and of a pair one job is left to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.cli import apply as apply_cli
from supervisor.model.records import Desired, OwnState
from supervisor.operations.jobs import JobOperations
from tests.unit.checkpoint.golden import unpack
from tests.unit.cli.conftest import Ran, Terminal
from tests.unit.cli.steps import Moment, Steps, happens_at, moments_of
from tests.unit.cli.test_two_forks import MOMENTS as FORK_MOMENTS
from tests.unit.cli.test_two_forks import STEPS as FORK_STEPS
from tests.unit.cli.test_two_forks import require_made

ARGS = "labels: {team: web}\nargs: [--out, 'file:///out/{job}', --checkpoint, '{checkpoint}']\n"
PRUNE = ("--prune", "--selector", "team=web", "--yes")
STEPS: Steps = {
    "the judgement": (apply_cli, "judge_prune"),
    "the question": (apply_cli, "_confirm_prune"),
    "the write": (JobOperations, "cancel"),
}
MOMENTS = [each for each in moments_of(STEPS) if each != ("the write", True)]
OTHERS: dict[str, tuple[str, ...]] = {
    "cancel": ("cancel", "clicks-2"),
    "suspend": ("suspend", "clicks-2"),
    "promote": ("promote", "clicks-2", "--over", "clicks", "--when", "now"),
    "update": ("apply", "FORK"),
    "the same prune": ("apply", "FILE", *PRUNE, "--prune-forks"),
}


@pytest.fixture
def clicks(terminal: Terminal, tmp_path: Path) -> str:
    """The only file, of a job that runs; returns its path."""
    spec = terminal.spec("clicks", f"checkpoint: {unpack('files', tmp_path)}\n{ARGS}")
    assert terminal.run("submit", spec).code == 0
    terminal.bench.run("clicks")
    terminal.bench.set_own("clicks", OwnState.CLAIMED, attempt=3)
    return spec


def is_there(terminal: Terminal, name: str) -> bool:
    return terminal.bench.has(terminal.bench.layout.job(name))


@pytest.mark.parametrize("forks", [False, True])
@pytest.mark.parametrize("moment", FORK_MOMENTS)
def test_a_fork_that_is_being_made(
    terminal: Terminal, clicks: str, monkeypatch: pytest.MonkeyPatch, moment: Moment, forks: bool
) -> None:
    pruned: list[Ran] = []
    words = (*PRUNE, *(["--prune-forks"] if forks else []))
    with monkeypatch.context() as patch:
        happens_at(patch, FORK_STEPS, moment, lambda: pruned.append(terminal.run("apply", clicks, *words)))
        ran = terminal.run("fork", "clicks", "clicks-2")
    assert pruned[0].code == 0, pruned[0].err
    went = "clicks-2: pruned" in pruned[0].out
    assert forks or not went
    assert is_there(terminal, "clicks")
    assert (ran.code == 0) is is_there(terminal, "clicks-2") or moment == ("the end", True), ran.err
    if is_there(terminal, "clicks-2"):
        require_made(terminal, "clicks-2")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("what", OTHERS)
def test_what_others_do_meanwhile_is_not_undone(
    terminal: Terminal, clicks: str, monkeypatch: pytest.MonkeyPatch, moment: Moment, what: str
) -> None:
    assert terminal.run("fork", "clicks", "clicks-2").code == 0
    terminal.bench.run("clicks-2")
    uid, place = (
        terminal.bench.ref("clicks-2").record.uid,
        terminal.bench.ref("clicks-2").record.terms.checkpoint,
    )
    fork = terminal.spec("clicks-2", f"checkpoint: {place}\nlease: 25s\n{ARGS}")
    command = [{"FORK": fork, "FILE": clicks}.get(word, word) for word in OTHERS[what]]
    others: list[Ran] = []
    with monkeypatch.context() as patch:
        came = happens_at(patch, STEPS, moment, lambda: others.append(terminal.run(*command)))
        ran = terminal.run("apply", clicks, *PRUNE, "--prune-forks")
    assert came and others
    assert others[0].code == 0, others[0].err
    assert ran.code in (0, 4), ran.err
    left = is_there(terminal, "clicks-2")
    if moment[0] == "the judgement" and not moment[1]:
        assert not left, "what was judged then is what is there"
    elif what in ("cancel", "the same prune"):
        assert not left
    else:
        assert left and ran.code == 4 and "clicks-2 was changed by somebody else meanwhile" in ran.err
        assert terminal.bench.ref("clicks-2").record.uid == uid
    running = [name for name in ("clicks", "clicks-2") if is_there(terminal, name)]
    wanted = [terminal.bench.ref(name).record.desired is Desired.RUNNING for name in running]
    assert any(wanted) or (what == "promote" and not left), (running, wanted)
