"""``savepoint restore`` and what else happens at the same time: three of them with different words about the sink, an update,
a cancel, a submission. Whatever comes between two steps, who is told that it is restored has the copy that was asked for, and
nobody's checkpoint is written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.checkpoint.layout import parse_metadata
from supervisor.cli import savepoint as savepoint_cli
from supervisor.model.records import Cause, OwnState
from supervisor.savepoints import restore as restore_module
from supervisor.savepoints.restore import read_savepoint
from supervisor.savepoints.restore_mark import MARK, RestoreMark
from tests.unit.checkpoint.golden import unpack
from tests.unit.checkpoint.savepoints import area
from tests.unit.cli.conftest import Ran, Terminal
from tests.unit.cli.steps import Moment, Steps, happens_at, moments_of

STEPS: Steps = {
    "the question whose place it is": (savepoint_cli, "require_free"),
    "the question about the sink": (savepoint_cli, "back_of_copy"),
    "the mark": (RestoreMark, "begin"),
    "the copy": (restore_module, "_copy"),
    "the comparison": (restore_module, "_compare"),
    "the look after the mark is off": (RestoreMark, "require_unchanged"),
}
MOMENTS = moments_of(STEPS)
WRITING = ("the mark", "the copy", "the comparison", "the look after the mark is off")
"""What comes between two of the other steps is what comes before the mark."""
SAME, NEW = ("--sink", "repeats"), ("--sink", "transactional")
BACK = ("--sink", "remembers", "--sink-rolled-back")
"""What is said of the sink: the copy has the same ids, new ones, the same ones."""


@pytest.fixture
def checkpoint(terminal: Terminal, tmp_path: Path) -> Path:
    """Of ``clicks``, which is suspended, and has the savepoint ``one``."""
    found = unpack("files", tmp_path)
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {found}\n")).code == 0
    assert terminal.run("savepoint", "create", "clicks", "one").code == 0
    assert terminal.run("suspend", "clicks").code == 0
    terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
    return found


def restored(terminal: Terminal, to: Path, words: tuple[str, ...]) -> Ran:
    return terminal.run("savepoint", "restore", "clicks", "one", "--to", str(to), *words)


def has_same_ids(checkpoint: Path, to: Path) -> bool:
    both = [(place / "metadata").read_bytes() for place in (checkpoint, to)]
    return parse_metadata(both[0]) == parse_metadata(both[1])


def require_whole(terminal: Terminal, to: Path) -> None:
    saved = read_savepoint(area(terminal.home / "store/savepoints/clicks/one"))[1]
    files = {str(file.relative_to(to)) for file in to.rglob("*") if file.is_file()}
    assert {each.key for each in saved} <= files and MARK not in files


@pytest.mark.parametrize("words", [(SAME, NEW, BACK), (NEW, SAME, NEW)])
@pytest.mark.parametrize("second", [each for each in MOMENTS if each[0] in WRITING])
@pytest.mark.parametrize("first", [each for each in MOMENTS if each[0] in WRITING])
def test_three_to_one_place(
    terminal: Terminal,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: Moment,
    second: Moment,
    words: tuple[tuple[str, ...], ...],
) -> None:
    """The second one begins within the first, the third within the second, each as it is asked: with the ids that the copy
    had when it was begun, or refused."""
    to, ran = terminal.home / "copy", {}

    def third() -> None:
        ran[2] = restored(terminal, to, words[2])

    def then() -> None:
        with monkeypatch.context() as patch:
            happens_at(patch, STEPS, second, third)
            ran[1] = restored(terminal, to, words[1])

    with monkeypatch.context() as patch:
        happens_at(patch, STEPS, first, then)
        ran[0] = restored(terminal, to, words[0])
    assert all(each.code in (0, 4) for each in ran.values()), [each.err for each in ran.values()]
    assert any(each.code == 0 for each in ran.values()), [each.err for each in ran.values()]
    require_whole(terminal, to)
    asked = [words[number] for number, each in ran.items() if each.code == 0]
    assert NEW not in asked or not has_same_ids(checkpoint, to), "its sink would drop what it has seen"
    assert restored(terminal, to, NEW).code == (4 if has_same_ids(checkpoint, to) else 0)


OTHERS: dict[str, tuple[str, ...]] = {
    "cancel": ("cancel", "clicks"),
    "update": ("apply", "SPEC"),
    "resume": ("resume", "clicks"),
    "submission of another there": ("submit", "OTHER"),
    "deletion of the savepoint": ("savepoint", "delete", "clicks", "one"),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("what", OTHERS)
def test_beside_other_commands(
    terminal: Terminal,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: Moment,
    what: str,
) -> None:
    to, others = terminal.home / "copy", []
    files = {
        "SPEC": terminal.spec("clicks", f"checkpoint: {checkpoint}\nlease: 25s\n", file="clicks-2.yaml"),
        "OTHER": terminal.spec("other", f"checkpoint: {to}\n"),
    }
    before = {file: file.read_bytes() for file in checkpoint.rglob("*") if file.is_file()}
    with monkeypatch.context() as patch:
        command = [files.get(word, word) for word in OTHERS[what]]
        happens_at(patch, STEPS, moment, lambda: others.append(terminal.run(*command)))
        ran = restored(terminal, to, NEW)
    assert ran.code in (0, 3, 4), ran.err
    assert {file: file.read_bytes() for file in before} == before, "the job's own checkpoint is not touched"
    if ran.code == 0:
        require_whole(terminal, to)
        assert not has_same_ids(checkpoint, to)
    if others and others[0].code == 0 and what == "deletion of the savepoint":
        assert not (terminal.home / "store/savepoints/clicks/one/manifest.json").exists()
    elif others and others[0].code != 0:
        assert others[0].code == 4, others[0].err
