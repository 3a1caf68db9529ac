"""A line for syslog: over a datagram or a stream, and never waited for long."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from supervisor.clients import syslog
from supervisor.clients.threads import BackgroundThread
from supervisor.errors import Unreachable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_a_stream_gets_the_line_too(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()
        syslog.send(path, "a line")
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.recv(100) == b"<38>spark-supervisor: a line\0"


def test_a_syslog_that_does_not_read_is_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syslog, "SEND_MAX_S", 0.05)
    errors: list[Unreachable] = []

    def fill() -> None:
        while not errors:
            try:
                syslog.send(path, "x" * 1000)
            except Unreachable as error:
                errors.append(error)

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(str(path))
        filling = BackgroundThread("fill", fill)
        filling.start()
        filling.join(10)
    assert [str(error) for error in errors] == [f"syslog at {path} does not take a line (it does not read)"]


def test_a_stream_whose_queue_is_full_is_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syslog, "SEND_MAX_S", 0.05)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen(0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as first:
            first.connect(str(path))
            with pytest.raises(Unreachable):
                syslog.send(path, "x")


def test_a_socket_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(Unreachable, match=r"log does not take a line \(No such file or directory\)"):
        syslog.send(path, "x")
