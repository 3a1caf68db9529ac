"""Points, arms, and the directory through which processes with failpoints are told of them (``inject/failpoints.py``)."""

from __future__ import annotations

import json
import mmap
import os
import sys
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import supervisor

INJECT = Path(__file__).parent / "inject"
sys.path.insert(0, str(INJECT))
try:
    import failpoints  # type: ignore[import-not-found]
finally:
    sys.path.remove(str(INJECT))

MODES = ("kill", "pause", "raise")
MOMENTS = ("before", "after")
_SWITCH_BYTES = 16


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A call that does I/O, as ``failpoints`` names it: role, caller, inner site ("" if the same), operation."""

    role: str
    caller: str
    inner: str
    op: str

    @classmethod
    def parse(cls, text: str) -> Point:
        role, caller, inner, op = text.split("|")
        return cls(role, caller, inner, op)

    def __str__(self) -> str:
        return f"{self.role}|{self.caller}|{self.inner}|{self.op}"

    @property
    def reads_only(self) -> bool:
        """It changes nothing outside of its process."""
        return self.op in failpoints.READS

    @property
    def once_only(self) -> bool:
        """There is no moment after it in the same program."""
        return self.op in ("os.execve", "os.execv")


def moments(point: Point, mode: str, *, every: bool = False) -> tuple[str, ...]:
    """At which moments a run in ``mode`` is of its own.

    A process killed before or after a call that only reads has left the same behind; one that was paused before a read
    goes on with fresh knowledge, one that was paused after it with stale knowledge; a read fails once.
    """
    if point.once_only:
        return ("before",)
    if every or not point.reads_only:
        return MOMENTS
    return ("after",) if mode == "pause" else ("before",)


@dataclass(frozen=True, slots=True)
class Arm:
    """FP=role:point:n:kill|pause|raise. ``job``: only in the shim of that job, or in a command about it; "": anybody."""

    id: str
    point: str
    moment: str
    nth: int
    mode: str
    job: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """Which process struck. ``at_s``: BOOTTIME."""

    pid: int
    point: str
    moment: str
    at_s: float


class Control:
    """The directory that ``CRASH_POINTS`` names for the processes of one fleet, or for one command."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "arms.json").write_text("[]")
        switch = directory / "switch"
        if not switch.exists():
            switch.write_bytes(bytes(_SWITCH_BYTES))
        with switch.open("r+b") as file:
            self._switch = mmap.mmap(file.fileno(), _SWITCH_BYTES)
        self._times = 0
        self._lock = threading.Lock()
        self._arms: dict[str, Arm] = {}

    @property
    def env(self) -> dict[str, str]:
        product = Path(supervisor.__file__).parent
        path = os.pathsep.join(
            filter(None, (str(INJECT), str(product.parent), os.environ.get("PYTHONPATH", "")))
        )
        return {
            "CRASH_POINTS": str(self.directory),
            "CRASH_POINTS_PACKAGE": f"{product}/",
            "PYTHONPATH": path,
        }

    def record(self) -> None:
        (self.directory / "record").unlink(missing_ok=True)
        (self.directory / "record").touch()
        (self.directory / "record").chmod(0o666)
        self._turn(failpoints.RECORDING)

    def recorded(self) -> Counter[Point]:
        """How often each point was passed since ``record``, by the process that passed it most often: a failpoint counts the
        passes of one process."""
        try:
            lines = (self.directory / "record").read_text().splitlines()
        except FileNotFoundError:
            return Counter()
        passes = Counter(lines)
        most = Counter[Point]()
        for line, times in passes.items():
            point = Point.parse(line.partition(" ")[2])
            most[point] = max(most[point], times)
        return most

    def arm(self, *arms: Arm) -> None:
        with self._lock:
            self._arms |= {arm.id: arm for arm in arms}
            self._print_line()

    def disarm(self, *arms: Arm) -> None:
        with self._lock:
            for arm in arms:
                self._arms.pop(arm.id, None)
            self._print_line()

    def open_to_all(self) -> None:
        """A starter that has become another user passes points too."""
        self.directory.chmod(0o777)

    def off(self) -> None:
        with self._lock:
            self._arms.clear()
            self._print_line()

    def hit(self, arm: Arm) -> Hit | None:
        try:
            return Hit(**json.loads((self.directory / f"hit-{arm.id}").read_text()))
        except FileNotFoundError:
            return None

    def _print_line(self) -> None:
        draft = self.directory / "arms.new"
        draft.write_text(json.dumps([asdict(arm) for arm in self._arms.values()]))
        draft.rename(self.directory / "arms.json")
        self._turn(failpoints.ARMED if self._arms else failpoints.OFF)

    def _turn(self, mode: int) -> None:
        """The number first: whoever sees the mode sees the number too, or reads once more."""
        self._times += 1
        self._switch[8:16] = self._times.to_bytes(8, "little")
        self._switch[0:1] = bytes([mode])
