"""Whether somebody listens: one of several is enough, and nothing lasts longer than it may."""

from __future__ import annotations

import socket
import threading

import pytest

from supervisor.clients import listening


def test_one_of_two_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        refused, taken = bound.getsockname()[1], server.getsockname()[1]
        assert listening.why_silent([("127.0.0.1", refused), ("127.0.0.1", taken)], 30.0) is None
        assert "127.0.0.1" in (listening.why_silent([("127.0.0.1", refused)], 30.0) or "")


def test_a_resolver_that_hangs_costs_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def resolve(*_: object, **__: object) -> socket.socket:
        over.wait()
        raise OSError("unknown host")

    monkeypatch.setattr(listening.socket, "create_connection", resolve)
    try:
        assert (
            listening.why_silent([("master.example", 7077)], 0.05)
            == "master.example:7077 did not answer within 0.05 s"
        )
    finally:
        over.set()
