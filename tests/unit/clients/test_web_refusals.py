"""``clients.web``: a server that answers by the header of a request and closes, while its body is still being sent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from supervisor.clients.web import WebRequest, ask
from supervisor.errors import Unreachable

BODY = b"x" * (24 * 2**20)
REFUSAL = b"HTTP/1.0 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large"


@contextmanager
def refusing(answer: bytes) -> Iterator[int]:
    """A server that reads the header, answers and closes at once: what is not read resets the connection."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(60)


def test_the_answer_counts_although_the_body_could_not_be_sent() -> None:
    with refusing(REFUSAL) as port:
        answer = ask(f"http://127.0.0.1:{port}/", 60, 1000, WebRequest("POST", BODY))
    assert (answer.status, answer.body) == (413, b"too large")


def test_without_an_answer_it_is_said_that_it_could_not_be_sent() -> None:
    with refusing(b"") as port, pytest.raises(Unreachable, match="does not answer"):
        ask(f"http://127.0.0.1:{port}/", 60, 1000, WebRequest("POST", BODY))
