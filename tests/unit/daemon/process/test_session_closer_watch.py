"""The session closer's own side: whose sessions it closes, when, and what it takes for a death."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from supervisor.clients import companion
from supervisor.daemon.process import session_closer
from supervisor.daemon.process.session_closer import Charge, encode
from tests.waiting import wait_until


class Polling:
    """``select.poll``, which tells how often somebody has begun to wait, and when he has turned away from a descriptor."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register = self._poll.register
        self.begun = 0
        self.turned_away = threading.Event()

    def poll(self) -> list[tuple[int, int]]:
        self.begun += 1
        return self._poll.poll()

    def unregister(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        self.turned_away.set()


def closed_after(monkeypatch: pytest.MonkeyPatch, first: bytes, then: bytes) -> list[int]:
    """The sessions that it closed, which was told ``first`` and ``then`` before its supervisor died."""
    closed: list[int] = []
    read, write = os.pipe()
    with subprocess.Popen(["sleep", "600"]) as supervisor:
        pidfd = os.pidfd_open(supervisor.pid)
        polling = Polling()
        monkeypatch.setattr(sys, "argv", ["session closer", str(pidfd)])
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=lambda: read))
        monkeypatch.setattr(companion, "select", SimpleNamespace(poll=lambda: polling, POLLIN=select.POLLIN))
        monkeypatch.setattr(
            session_closer,
            "close_session",
            lambda _hosts, session, _password, _timeout_s, _access: closed.append(session),
        )
        watching = threading.Thread(target=session_closer.main, daemon=True)
        os.write(write, first)
        watching.start()
        wait_until(lambda: polling.begun >= 2)  # it has read the first piece by itself, and waits again
        os.write(write, then)
        os.close(write)
        # it has seen the end of the pipe, and goes on, or it has ended
        wait_until(lambda: polling.turned_away.is_set() or not watching.is_alive())
        early = not watching.is_alive() or list(closed)
        supervisor.kill()
        watching.join(10)
        os.close(read)
        os.close(pidfd)
    assert not early, "the end of the pipe proves nothing"
    return closed


OLDER, NEWER = (encode((Charge("zk:1", number, b"p", 6.0),)) + b"\n" for number in (1, 2))


def test_it_closes_the_newest_sessions_when_the_supervisor_is_dead_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert closed_after(monkeypatch, OLDER[:10], OLDER[10:] + NEWER) == [2]


def test_a_line_that_comes_in_two_pieces_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert closed_after(monkeypatch, OLDER + NEWER[:10], NEWER[10:]) == [2]
