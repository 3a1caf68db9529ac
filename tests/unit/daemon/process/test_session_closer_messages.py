"""The messages that the supervisor sends to its session closer."""

from __future__ import annotations

import select
from dataclasses import replace

import pytest

from supervisor.clients.zookeeper import Session
from supervisor.coord.contender import ABANDONED_MAX
from supervisor.daemon.process import session_closer as under_test
from supervisor.daemon.process.session_closer import Charge, SessionCloser, decode, encode
from supervisor.errors import SupervisorError
from supervisor.model.zookeeper_access import Mechanism, TlsFiles, ZooKeeperAccess

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


def test_with_long_names_of_files_and_many_admins_a_line_still_fits_into_the_pipe() -> None:
    """Otherwise a crash of a supervisor with TLS would be found out by the session time alone."""
    directory = "/etc/spark-supervisor/" + "a-long-name-of-a-directory/" * 4
    access = ZooKeeperAccess(
        tls=TlsFiles(
            ca=f"{directory}ca.pem",
            cert=f"{directory}cert.pem",
            key=f"{directory}key.pem",
            key_password_file=f"{directory}password",
        ),
        mechanism=Mechanism.DIGEST_MD5,
        username="supervisor",
        password_file=f"{directory}password",
        admins=tuple(f"x509:CN=somebody-{number},OU=a department,O=an organisation" for number in range(32)),
    )
    hosts = ",".join(f"zookeeper-{number}.example.org:2281" for number in range(5))
    charges = tuple(
        Charge(hosts, (1 << 62) + number, b"p" * 16, 10.0, access) for number in range(ABANDONED_MAX + 2)
    )
    line = encode(charges)
    assert len(line) < select.PIPE_BUF
    plain = replace(access, admins=())
    assert decode(line) == tuple(replace(charge, access=plain) for charge in charges)
    assert decode(encode(())) == ()
