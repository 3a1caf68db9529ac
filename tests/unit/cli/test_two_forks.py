"""Two ``fork`` commands at once: whatever the second does between any two steps of the first, each fork that is said to be made
has a whole checkpoint and its mark, and the command that did not make it says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.bluegreen import fork as fork_module
from supervisor.checkpoint.layout import parse_metadata
from supervisor.model.records import Desired, OwnState
from supervisor.operations.promoting import PromotionOperations
from supervisor.savepoints.restore import read_savepoint
from tests.unit.checkpoint.golden import unpack
from tests.unit.checkpoint.savepoints import area
from tests.unit.cli.conftest import Ran, Terminal
from tests.unit.cli.steps import Moment, Steps, happens_at, moments_of

ARGS = "args: [--out, 'file:///out/{job}', --checkpoint, '{checkpoint}']\n"
STEPS: Steps = {
    "the question about the sink": (fork_module, "_decided"),
    "what is stored": (fork_module, "store_prepared"),
    "the registration": (fork_module, "_register"),
    "the savepoint": (fork_module, "create_savepoint"),
    "the copy": (fork_module, "restore_to"),
    "the end": (PromotionOperations, "finish_fork"),
}
MOMENTS = moments_of(STEPS)


@pytest.fixture
def checkpoint(terminal: Terminal, tmp_path: Path) -> Path:
    """Of ``clicks``, which runs."""
    found = unpack("files", tmp_path)
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {found}\n{ARGS}")).code == 0
    terminal.bench.run("clicks")
    terminal.bench.set_own("clicks", OwnState.CLAIMED, attempt=3)
    return found


def run_with(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    moment: Moment,
    other: Callable[[], None],
    *words: str,
) -> Ran:
    """Forks ``clicks``; ``other`` happens once, before the step of ``moment`` or after it."""
    with monkeypatch.context() as patch:
        came = happens_at(patch, STEPS, moment, other)
        ran = terminal.run("fork", "clicks", "clicks-2", *words)
    assert came, "the step was never taken"
    return ran


def require_made(terminal: Terminal, name: str) -> None:
    """The fork is registered, may start, and begins with all of its savepoint, under the ids that its mark was made with."""
    job = terminal.bench.ref(name).record
    assert job.fork is not None and not job.fork.copying and job.desired is Desired.RUNNING
    saved = read_savepoint(area(terminal.home / f"store/savepoints/clicks/{job.fork.savepoint}"))[1]
    place = Path(job.terms.checkpoint or "")
    copied = {str(file.relative_to(place)) for file in place.rglob("*") if file.is_file()}
    assert {each.key for each in saved} <= copied
    assert parse_metadata((place / "metadata").read_bytes())


@pytest.mark.parametrize("is_place_given", [False, True])
@pytest.mark.parametrize("moment", MOMENTS)
def test_two_forks_of_one_name(
    terminal: Terminal,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: Moment,
    is_place_given: bool,
) -> None:
    """With a place that is given, both have the very same spec."""
    words = ("--set", f"checkpoint={checkpoint.parent}/one") if is_place_given else ()
    others: list[Ran] = []

    def other() -> None:
        others.append(terminal.run("fork", "clicks", "clicks-2", *words))

    ran = [run_with(terminal, monkeypatch, moment, other, *words), *others]
    assert any(each.code == 0 for each in ran), [each.err for each in ran]
    for each in ran:
        assert each.code in (0, 4), each.err
        assert each.code == 0 or any(word in each.err for word in ("clicks-2", "/one is not empty")), each.err
    require_made(terminal, "clicks-2")
    begun = terminal.bench.ref("clicks-2").record.fork
    assert begun is not None
    assert all(each.code or begun.savepoint in each.out for each in ran), "each says of which savepoint it is"


@pytest.mark.parametrize("moment", MOMENTS)
def test_two_forks_of_two_names(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, moment: Moment
) -> None:
    others: list[Ran] = []
    mine = run_with(
        terminal, monkeypatch, moment, lambda: others.append(terminal.run("fork", "clicks", "clicks-3"))
    )
    assert [each.code for each in (mine, *others)] == [0, 0], (mine.err, others[0].err)
    places = [terminal.bench.ref(name).record.terms.checkpoint for name in ("clicks-2", "clicks-3")]
    assert places[0] != places[1]
    for name in ("clicks-2", "clicks-3"):
        require_made(terminal, name)


@pytest.mark.parametrize("moment", MOMENTS)
def test_two_forks_to_one_place(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, moment: Moment
) -> None:
    """Of two names: the claim of a checkpoint has one owner."""
    place = f"checkpoint={checkpoint.parent}/one"
    others: list[Ran] = []

    def other() -> None:
        others.append(terminal.run("fork", "clicks", "clicks-3", "--set", place))

    mine = run_with(terminal, monkeypatch, moment, other, "--set", place)
    codes = {"clicks-2": mine.code, "clicks-3": others[0].code}
    assert sorted(codes.values()) == [0, 4], (mine.err, others[0].err)
    made = next(name for name, code in codes.items() if code == 0)
    (refused,) = codes.keys() - {made}
    require_made(terminal, made)
    assert not terminal.bench.has(terminal.bench.layout.job(refused))


@pytest.mark.parametrize("moment", [each for each in MOMENTS if each != ("the end", True)])
def test_a_fork_that_is_cancelled_meanwhile_is_not_said_to_be_made(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, moment: Moment
) -> None:
    before: list[bool] = []

    def cancel() -> None:
        before.append(terminal.run("cancel", "clicks-2").code == 0)

    ran = run_with(terminal, monkeypatch, moment, cancel)
    is_there = terminal.bench.has(terminal.bench.layout.job("clicks-2"))
    assert (ran.code == 0) == is_there == (not before[0]), ran.err
    if is_there:
        require_made(terminal, "clicks-2")
