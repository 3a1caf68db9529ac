"""Many reads in one request (ZooKeeper's multiRead, since 3.6): kazoo has none, and pays its price per request.

Called by ``zookeeper.read_many``. A view of 10,000 jobs takes 30,000 reads; one by one they cost four times as much. Each
read is answered for itself, as if it had been asked alone. An older server says that it does not know the request.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from supervisor.clients import kazoo_parts as kazoo
from supervisor.model.transaction import Node, Stat

_READ = 4
_HEADER = struct.Struct("!iBi")
_INT = struct.Struct("!i")
_STAT = struct.Struct("!qqqqiiiqiiq")
_END = _HEADER.pack(-1, 1, -1)
_NO_NODE = -101


class MultiRead:
    """A request as kazoo's connection wants it; the answer is a list of nodes (None: absent) and errors, in order."""

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths

    def serialize(self) -> bytes:
        frame = bytearray()
        for path in self.paths:
            name = path.encode()
            frame += _HEADER.pack(_READ, 0, -1) + _INT.pack(len(name)) + name + b"\0"
        return bytes(frame + _END)

    def deserialize(self, buffer: bytes, offset: int) -> list[Node | None | Exception]:
        found: list[Node | None | Exception] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                break
            if kind == _READ:
                (length,) = _INT.unpack_from(buffer, offset)
                offset += _INT.size
                data = bytes(buffer[offset : offset + length]) if length > 0 else b""
                offset += max(0, length)
                czxid, mzxid, _, mtime, version, _, _, owner, _, children, _ = _STAT.unpack_from(buffer, offset)
                offset += _STAT.size
                found.append(Node(data, Stat(version, mzxid, czxid, owner, children, mtime / 1000)))
            else:
                (code,) = _INT.unpack_from(buffer, offset)
                offset += _INT.size
                found.append(None if code == _NO_NODE else kazoo.errors.EXCEPTIONS[code]())
        if len(found) != len(self.paths):
            raise ValueError(f"{len(found)} answers to {len(self.paths)} reads")
        return found
