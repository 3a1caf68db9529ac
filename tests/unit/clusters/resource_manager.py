"""A server that answers as it is told: a ResourceManager of a test, odd ones too."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Reply = Callable[[str, str], bytes]
"""Method and target → all bytes that are sent."""


def reply(body: Any, status: int = 200, headers: str = "") -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\n{headers}\r\n".encode() + text


class FakeResourceManager:
    """``asked`` are method and target of what it was asked, ``bodies`` what was sent with it."""

    def __init__(self, answers: Reply, *, drip_s: float = 0.0) -> None:
        self.answers, self.drip_s = answers, drip_s
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[bytes] = []
        self._over = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._over.set()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            file = connection.makefile("rb")
            method, target, _ = file.readline().decode().split()
            length = 0
            while (line := file.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            self.bodies.append(file.read(length))
            self.asked.append((method, target))
            data = self.answers(method, target)
            if not self.drip_s:
                connection.sendall(data)
                return
            for byte in data:
                if self._over.wait(self.drip_s):
                    return
                connection.sendall(bytes([byte]))


def conf_dir(directory: Path, properties: dict[str, str]) -> Path:
    rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items())
    directory.mkdir(exist_ok=True)
    (directory / "yarn-site.xml").write_text(f"<configuration>{rows}</configuration>")
    return directory
