"""A file of lines that is being written while it is read: the witness of the drivers. Each line is read once."""

from __future__ import annotations

from pathlib import Path


class Growing:
    """Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new_lines(self) -> list[bytes]:
        """Since the last call. One that is not whole yet comes later; without a file there are none."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.splitlines()
