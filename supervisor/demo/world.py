"""Defines what the story of ``demo`` acts on: a fleet and a job. The real one is in ``demo.command``; tests
have their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from supervisor.demo.record import BatchLine
from supervisor.model.job_row import JobRow
from supervisor.model.records import LeaderHint


class World(Protocol):
    """Gives the story a fleet and a job to act on. A reading is None, or empty, if nothing is known. Any
    method may raise SupervisorError."""

    def now_s(self) -> float: ...
    def pause(self, seconds: float) -> None: ...
    def start_ensemble(self) -> str:
        """Starts the ZooKeeper servers. Returns their addresses."""

    def start_supervisor(self, name: str) -> int: ...
    def pid_of(self, name: str) -> int: ...
    def kill_supervisor(self, name: str) -> None: ...
    def leader(self) -> LeaderHint | None: ...
    def members(self) -> frozenset[str]: ...
    def has_planned(self, leader: LeaderHint) -> bool:
        """Returns whether the leader has read the registry and made its first plan, by its own metrics."""

    def submit(self) -> str:
        """Returns what the command printed, as ``cancel`` and the other commands do."""

    def change(self) -> str:
        """Changes the job's spec and applies it; does not wait."""

    def break_it(self) -> str:
        """Breaks the job's program and applies the spec; does not wait."""

    def why_given_up(self) -> str | None:
        """Returns why the newest update was given up, or None if it was not."""

    def roll_back(self) -> str: ...
    def cancel(self) -> str: ...
    def list_all(self) -> str: ...
    def job(self) -> JobRow | None: ...
    def record(self) -> tuple[BatchLine, ...]:
        """Returns the record. Raises ValueError if it can't be read."""

    def drivers(self, uid: str, attempt: int | None = None) -> list[int]:
        """Returns the pids of the living processes on this machine that carry the uid's marker."""

    def kill_driver(self, uid: str, pid: int) -> None: ...
    def commands(self) -> tuple[str, str]:
        """Returns the paths of the configuration file and of the spec, quoted for a shell."""


@dataclass(frozen=True, slots=True)
class DemoPace:
    """Holds how fast the story goes. ``batches`` is the number of batches that are waited for at each point;
    ``watch_s`` is how long the dead job is watched."""

    batches: int = 4
    watch_s: float = 8.0
    rows_per_batch: int = 1000


FAST: Final = DemoPace(batches=2, watch_s=5.0)
