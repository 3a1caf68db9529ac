"""The messages that the supervisor sends to its session closer."""

from __future__ import annotations

import pytest

from supervisor.clients.zookeeper import Session
from supervisor.daemon.process import session_closer as under_test
from supervisor.daemon.process.session_closer import Charge, SessionCloser, decode, encode
from supervisor.errors import SupervisorError

SESSION = Session(0x1F, bytes(range(16)), 10.0)


class Child:
    """Stands in for the process."""

    made: list[Child] = []

    def __init__(self, module: str) -> None:
        self.alive, self.lines, self.pid, self.deaf = True, [], 1, False
        self.made.append(self)

    lines: list[bytes]

    def send(self, line: bytes) -> None:
        if self.deaf:
            raise SupervisorError("deaf")
        self.lines.append(line)

    def dismiss(self, timeout_s: float) -> None:
        self.alive = False


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Child]:
    Child.made = []
    monkeypatch.setattr(under_test, "Companion", Child)
    return Child.made


def test_the_messages_survive_the_pipe() -> None:
    charges = (Charge("zk1:2181,zk2:2181", 0x1F, bytes(range(16)), 10.0), Charge("zk1:2181", 2, b"\n\n", 4.5))
    line = encode(charges)
    assert decode(line) == charges
    assert b"\n" not in line


def test_each_owner_has_its_own_sessions(made: list[Child]) -> None:
    session_closer = SessionCloser("zk:1")
    other = Session(2, b"x", 10.0)
    session_closer.publish_sessions((SESSION,), of="agent")
    session_closer.publish_sessions((other,))
    session_closer.publish_sessions((), of="agent")
    (child,) = made
    assert [[c.id for c in decode(line)] for line in child.lines] == [[0x1F], [0x1F, 2], [2]]


def test_nothing_is_raised_when_it_cannot_be_told(made: list[Child]) -> None:
    session_closer = SessionCloser("zk:1")
    session_closer.start()
    made[0].deaf = True
    session_closer.publish_sessions((SESSION,))
    made[0].alive = False
    session_closer.check()
    assert [c.id for c in decode(made[1].lines[0])] == [0x1F]


def test_a_session_that_could_not_be_closed_keeps_it_running(made: list[Child]) -> None:
    session_closer = SessionCloser("zk:1")
    session_closer.publish_sessions((SESSION,))
    session_closer.stop()
    assert made[0].alive
    session_closer.publish_sessions(())
    session_closer.stop()
    assert not made[0].alive
    session_closer.publish_sessions((SESSION,))
    assert len(made) == 1
