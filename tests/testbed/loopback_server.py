"""Runs a server program of a test on loopback: at an address of its own, with its log in a file, ended by its pid."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.waiting import wait_until


def free_address() -> str:
    """A ``host:port`` of loopback where nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextlib.contextmanager
def running_server(command: Sequence[str], log: Path, is_ready: Callable[[], bool]) -> Iterator[None]:
    """Waits until the server is ready; one that ends before that fails with the end of its log."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def ready() -> bool:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        return is_ready()

    try:
        wait_until(ready, 30, f"{command[0]} to be ready")
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
