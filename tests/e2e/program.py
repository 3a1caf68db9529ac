"""``spark-supervisor`` as a user runs it: a process of its own, its output in a file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from supervisor.clients.marked import find_marked
from supervisor.demo.stack_guard import MARKER
from tests.waiting import wait_until

# The tests may share the machine with others: a cold start of Spark then takes minutes, and no time is asserted.
LONG_S = 300.0

Start = Callable[..., "Running"]


class Running:
    """``spark-supervisor ARGUMENTS`` in a session of its own, its output in a file."""

    def __init__(self, home: Path, arguments: tuple[str, ...]) -> None:
        self.out = home / f"{arguments[0]}.out"
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith("SPARK_SUPERVISOR")
        }
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "supervisor.cli.main", *arguments],
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environ | {"TMPDIR": str(home)},
            )

    @property
    def text(self) -> str:
        return self.out.read_text()

    def wait_for(self, text: str, timeout_s: float = LONG_S) -> None:
        wait_until(
            lambda: text in self.text or self.process.poll() is not None,
            timeout_s,
            f"{text!r} in:\n{self.text}",
        )
        assert text in self.text, self.text

    @property
    def directory(self) -> Path:
        found = re.search(r"\S*/spark-supervisor-(demo|dev)-\w+", self.text)
        assert found is not None, self.text
        return Path(found[0])

    def left(self) -> list[int]:
        """Of everything that was started: processes that still live, drivers and shims among them."""
        return [process.pid for process in find_marked(MARKER, str(self.directory))] + self._servers()

    def _servers(self) -> list[int]:
        """ZooKeeper servers, whose configuration files lie below the directory."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if (
                    entry.name.isdigit()
                    and f"{self.directory}/zookeeper/".encode() in (entry / "cmdline").read_bytes()
                ):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found
