"""The demo's story in a world of its own: it succeeds in a good one, and in each bad one says what it did not see."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from supervisor.demo import application as demo_application
from supervisor.demo import stack
from supervisor.demo.record import BatchLine
from supervisor.demo.screen import Screen
from supervisor.demo.story import Claim, Story
from supervisor.demo.world import FAST, DemoPace
from supervisor.errors import SupervisorError
from supervisor.model.job_row import JobRow
from supervisor.model.records import LeaderHint

UID = "u-1"
ROWS = 1000


@dataclass
class FakeWorld:
    """Time passes only in ``pause``. A batch a second. ``faults``: what goes wrong."""

    faults: frozenset[str] = frozenset()
    time_s: float = 100.0
    up: list[str] = field(default_factory=list)
    epoch: int = 0
    attempt: int = 0
    submitted: bool = False
    cancelled: bool = False
    dead_until_at_s: float = 0.0
    next_batch_at_s: float = 0.0
    lines: list[BatchLine] = field(default_factory=list)
    kills: int = 0
    called: list[str] = field(default_factory=list)
    given_up: str | None = None
    handed_over_at_s: float | None = None

    def now_s(self) -> float:
        return self.time_s

    def pause(self, seconds: float) -> None:
        self.time_s += seconds
        if self.handed_over_at_s is not None and self.time_s >= self.handed_over_at_s:
            self.attempt, self.handed_over_at_s = self.attempt + 1, None
        while self._alive() and self.time_s >= self.next_batch_at_s:
            self._write()
            self.next_batch_at_s += 1.0

    def _write(self) -> None:
        batch = self.lines[-1].batch_id + 1 if self.lines else 0
        if self.attempt > 1 and self.lines[-1].attempt < self.attempt:
            batch += {"replay": -1, "hole": 1, "rewound": -2}.get(next(iter(self.faults), ""), 0)
        total = ROWS * (batch + 1) - (1 if "lost rows" in self.faults and self.attempt > 1 else 0)
        self.lines.append(BatchLine(batch, total, self.attempt, 1000 + self.attempt, self.time_s))

    def _alive(self) -> bool:
        revived = "revived" in self.faults and self.cancelled and self.epoch == 3
        return self.submitted and (not self.cancelled or revived) and self.time_s >= self.dead_until_at_s

    def start_ensemble(self) -> str:
        return "127.0.0.1:1"

    def start_supervisor(self, name: str) -> int:
        self.called.append(f"start {name}")
        if "no standby" not in self.faults or not self.up:
            self.up.append(name)
        self.epoch = max(self.epoch, 1)
        return 10 + len(self.called)

    def pid_of(self, name: str) -> int:
        return 11

    def kill_supervisor(self, name: str) -> None:
        self.called.append(f"kill {name}")
        self.kills += 1
        self.up.remove(name)
        self.epoch += 0 if "same epoch" in self.faults else 1
        if "job restarted" in self.faults and self.kills == 1:
            self.attempt += 1
        if "job stopped" in self.faults and self.kills == 1:
            self.dead_until_at_s = self.time_s + 1e6

    def leader(self) -> LeaderHint | None:
        if not self.up or ("no successor" in self.faults and self.kills):
            return None
        return LeaderHint(supervisor=self.up[0], epoch=self.epoch, address="127.0.0.1:2")

    def members(self) -> frozenset[str]:
        return frozenset(self.up)

    def has_planned(self, leader: LeaderHint) -> bool:
        return "no plan" not in self.faults

    def submit(self) -> str:
        if "submit fails" in self.faults:
            raise SupervisorError("submit exited with 5: no store")
        self.submitted, self.attempt, self.next_batch_at_s = True, 1, self.time_s + 5
        return "clicks: submitted"

    def change(self) -> str:
        self.called.append("change")
        if "no hand-over" not in self.faults:
            self.handed_over_at_s = self.time_s + 4
        return "clicks: updated to revision 2"

    def break_it(self) -> str:
        self.called.append("break")
        if "tried for ever" not in self.faults:
            self.given_up = "SyntaxError: invalid syntax (clicks.py, line 1)"
        if "stopped for it" in self.faults:
            self.attempt += 1
        return "clicks: updated to revision 3"

    def why_given_up(self) -> str | None:
        return self.given_up

    def roll_back(self) -> str:
        self.called.append("roll back")
        if "no way back" in self.faults:
            raise SupervisorError("rollback exited with 4: there is nothing to go back to")
        self.handed_over_at_s = self.time_s + 4
        return "clicks: updated to revision 4"

    def cancel(self) -> str:
        self.cancelled = True
        return "clicks: cancelled"

    def list_all(self) -> str:
        return "NAME  STATE\nclicks  cancelled"

    def job(self) -> JobRow | None:
        if not self.submitted:
            return None
        state = "running" if self.lines else "starting"
        if (
            self.time_s < self.dead_until_at_s
            and "unnoticed" not in self.faults
            and "job stopped" not in self.faults
        ):
            state = "backoff"
        if self.cancelled:
            state = "running" if "comes back" in self.faults and self.epoch == 3 else "cancelled"
        driver_pid = 500 + self.attempt
        return JobRow(
            "clicks", uid=UID, state=state, attempt=self.attempt, driver_pid=driver_pid, supervisor="alpha"
        )

    def record(self) -> tuple[BatchLine, ...]:
        if "unreadable" in self.faults and self.lines:
            raise ValueError("not JSON")
        return tuple(self.lines)

    def drivers(self, uid: str, attempt: int | None = None) -> list[int]:
        assert uid == UID
        if "old driver survives" in self.faults and attempt is not None:
            return [501]
        if "two drivers" in self.faults and self.attempt == 3:
            return [502, 503]
        if self.cancelled and "driver survives" in self.faults:
            return [502]
        if self.cancelled and "zombie" in self.faults and self.epoch == 3:
            return [666]
        alive = self.submitted and not self.cancelled and self.attempt in (attempt or self.attempt,)
        return [500 + self.attempt] if alive else []

    def kill_driver(self, uid: str, pid: int) -> None:
        assert (uid, pid) == (UID, 501)
        self.called.append("kill driver")
        if "unnoticed" not in self.faults:
            self.attempt += 1
        wait_s = 1e6 if "no recovery" in self.faults else 3.0
        self.dead_until_at_s = self.next_batch_at_s = self.time_s + wait_s

    def commands(self) -> tuple[str, str]:
        return "/d/alpha/supervisor.yaml", "/d/jobs/clicks.yaml"


def run_story(*faults: str, pace: DemoPace = FAST) -> tuple[Story, FakeWorld, str]:
    world, stream = FakeWorld(frozenset(faults)), io.StringIO()
    story = Story(world, Screen(stream, world.now_s), pace, stack.FLEET)
    assert story.run() is (story.failure is None)
    return story, world, stream.getvalue()


def test_in_a_good_world_everything_is_seen() -> None:
    story, world, text = run_story()
    assert story.failure is None
    assert world.called == [
        "start alpha",
        "start beta",
        "kill alpha",
        "kill driver",
        "change",
        "break",
        "roll back",
        "start alpha",
        "kill beta",
    ]
    summary = text.partition("What was observed")[2]
    assert summary.count("\n  ok  ") == len(Claim) and "FAILED" not in text and "not seen" not in text
    for number in range(1, 8):
        assert f"{number}/7  " in text


def test_a_batch_that_is_replayed_is_explained() -> None:
    story, _, text = run_story("replay")
    assert story.failure is None
    assert "once more" in text and "not yet committed" in " ".join(text.split())


@pytest.mark.parametrize(
    ("fault", "claim", "says"),
    [
        ("no standby", Claim.FLEET, "a second supervisor was not seen"),
        ("submit fails", Claim.RUNNING, "no store"),
        ("no successor", Claim.TAKEOVER, "another leader was not seen within"),
        ("same epoch", Claim.TAKEOVER, "which is not above 1"),
        ("job restarted", Claim.UNDISTURBED, "after the leader's death it is 502 in attempt 2"),
        ("job stopped", Claim.UNDISTURBED, "of the job's record was not seen within"),
        ("unnoticed", Claim.RECOVERED, "any notice of the driver's death was not seen"),
        ("no recovery", Claim.RECOVERED, "a batch of the next attempt was not seen"),
        ("old driver survives", Claim.RECOVERED, "process 501 of the killed attempt still lives"),
        ("hole", Claim.EXACT, "came where batch"),
        ("rewound", Claim.EXACT, "came where batch"),
        ("lost rows", Claim.EXACT, "rows were counted, but"),
        ("unreadable", Claim.RUNNING, "the job's record can't be read"),
        ("no hand-over", Claim.CHANGED, "a batch of the next attempt was not seen"),
        ("two drivers", Claim.CHANGED, "process 502 of the old attempt still lives beside the new one"),
        ("tried for ever", Claim.HARMLESS, "that it is given up was not seen"),
        ("stopped for it", Claim.HARMLESS, "process 503 was stopped for it: now there is 504"),
        ("no way back", Claim.ROLLED_BACK, "there is nothing to go back to"),
        ("driver survives", Claim.CANCELLED, "the driver's end was not seen"),
        ("no plan", Claim.STAYS_DEAD, "the new leader's plan was not seen"),
        ("zombie", Claim.STAYS_DEAD, "the cancelled job has a driver: process 666"),
        ("revived", Claim.STAYS_DEAD, "the cancelled job has written batch"),
        ("comes back", Claim.STAYS_DEAD, "the cancelled job is running"),
    ],
)
def test_what_is_not_seen_is_told(fault: str, claim: Claim, says: str) -> None:
    story, _, text = run_story(fault)
    assert story.failure is not None
    assert story.failure.claim is claim and says in str(story.failure)
    summary = text.partition("What was observed")[2]
    assert summary.count("FAILED") == 1 and claim.value in summary.partition("FAILED")[2].partition("\n")[0]
    later = list(Claim)[list(Claim).index(claim) + 1 :]
    assert all(f"\n  not seen  {one.value}" in summary for one in later)


def test_the_record_is_judged_to_the_end() -> None:
    """A total that becomes wrong after it was found right takes the verdict back."""

    class Late(FakeWorld):
        def record(self) -> tuple[BatchLine, ...]:
            lines = super().record()
            return (*lines[:-1], BatchLine(lines[-1].batch_id, 1, 2, 1, 1.0)) if self.cancelled else lines

    world, stream = Late(), io.StringIO()
    story = Story(world, Screen(stream, world.now_s), FAST, stack.FLEET)
    assert story.run() is False
    assert story.failure is not None and story.failure.claim is Claim.EXACT
    assert "ok        nothing lost" not in stream.getvalue().partition("What was observed")[2]


def test_a_wait_says_something_now_and_then() -> None:
    _, _, text = run_story(pace=DemoPace(batches=30, watch_s=30))
    assert text.count("... batch") > 10 and "watching for" in text


def test_the_application_is_an_ordinary_program() -> None:
    source = Path(demo_application.__file__).read_text()
    assert "import supervisor" not in source and "from supervisor" not in source
    assert Path(demo_application.__file__) == stack.APPLICATION
