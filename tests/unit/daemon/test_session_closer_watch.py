"""The session closer's own side: whose sessions it closes, when, and what it takes for a death."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from supervisor.daemon.process import session_closer
from supervisor.daemon.process.session_closer import Charge, encode


def test_it_closes_the_newest_sessions_when_the_supervisor_is_dead_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[int] = []
    read, write = os.pipe()
    with subprocess.Popen(["sleep", "600"]) as supervisor:
        pidfd = os.pidfd_open(supervisor.pid)
        monkeypatch.setattr(sys, "argv", ["session closer", str(pidfd)])
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=lambda: read))
        monkeypatch.setattr(
            session_closer,
            "close_session",
            lambda _hosts, session, _password, _timeout_s: closed.append(session),
        )
        watching = threading.Thread(target=session_closer.main, daemon=True)
        older, newer = (encode((Charge("zk:1", number, b"p", 6.0),)) for number in (1, 2))
        os.write(write, older[:10])
        watching.start()
        watching.join(0.2)
        os.write(write, older[10:] + newer)
        os.close(write)
        watching.join(0.2)
        early = not watching.is_alive() or list(closed)
        supervisor.kill()
        watching.join(10)
        os.close(read)
        os.close(pidfd)
    assert not early, "the end of the pipe proves nothing"
    assert closed == [2]
