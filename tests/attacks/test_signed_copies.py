"""Where signatures are asked for, a job that goes on with a copy of a savepoint has a spec of its own: with another checkpoint,
so signed anew, or refused before anything is copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.clients.signatures import Signers
from supervisor.daemon.host.admission import require_signed
from supervisor.model.records import Cause, OwnState
from tests.attacks.test_signed_submits import asked, assignment, made_key
from tests.unit.checkpoint.golden import unpack
from tests.unit.cli.conftest import REPEATS, Terminal
from tests.unit.cli.conftest import terminal as terminal


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    return made_key(tmp_path, "release")


@pytest.fixture
def checkpoint(terminal: Terminal, tmp_path: Path, keys: tuple[Path, Path]) -> Path:
    """Of ``clicks``, which is signed, has stopped, and has the savepoint ``one``."""
    private, public = keys
    found = unpack("hdfs-v1", tmp_path)
    asked(terminal, public)
    text = f"checkpoint: {found}\n{REPEATS}\nargs: [--out, 'file:///out/{{job}}', --checkpoint, '{{checkpoint}}']"
    ran = terminal.run("submit", terminal.spec("clicks", text), "--sign-with", str(private))
    assert ran.code == 0, ran.err
    assert terminal.run("savepoint", "create", "clicks", "one").code == 0
    return found


def is_started(terminal: Terminal, name: str, public: Path) -> None:
    """Raises Refused where a host would not start it."""
    spec = terminal.bench.ref(name).record.spec
    given = assignment(spec.signature, name, spec.sha256)
    require_signed(given, "test", Signers((public,)), "host-a")


@pytest.mark.parametrize("command", ["resume", "fork"])
def test_a_copy_is_signed_by_who_asks_for_it(
    terminal: Terminal, checkpoint: Path, keys: tuple[Path, Path], command: str
) -> None:
    private, public = keys
    before = terminal.bench.ref("clicks").record.spec
    if command == "resume":
        assert terminal.run("suspend", "clicks").code == 0
        terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
    name, given = ("clicks", ("clicks",)) if command == "resume" else ("clicks-2", ("clicks", "clicks-2"))
    unsigned = terminal.run(command, *given, "--from-savepoint", "one")
    assert unsigned.code != 0 and "sign" in unsigned.err, unsigned.err
    assert not [path for path in checkpoint.parent.glob(f"{checkpoint.name}.*")], "nothing was copied"
    ran = terminal.run(command, *given, "--from-savepoint", "one", "--sign-with", str(private))
    assert ran.code == 0, ran.err
    assert terminal.bench.ref(name).record.spec.sha256 != before.sha256
    is_started(terminal, name, public)
