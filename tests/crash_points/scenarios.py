"""What is done while a failpoint waits: short stories of one job, each ends with the job gone. Called by ``run``.

Each takes a ``CrashStory``: its commands are repeated until they are heard, as a user would. ``DRIVERS``: how many drivers start
in a story when none is disturbed, which a fault of a supervisor or of a command must not change (I6).
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from supervisor.clients import processes, run_dir
from supervisor.clients.processes import ProcessId
from tests.crash_points.crash_fleet import CrashFleet
from tests.faults.checker import WitnessNote
from tests.testbed.fleet import FleetMember
from tests.waiting import wait_until

LIMIT_S = 150.0
"""Generous: W is 17 s, a run directory without a shim is left alone for 15 s, and the machine may be busy."""

TEND_S = 45.0
"""A leader sweeps 30 s after it was elected."""


class CrashStory(Protocol):
    """One run, as a scenario sees it."""

    fleet: CrashFleet
    name: str
    undisturbed: bool
    """No failpoint is armed."""

    def submit(self, **spec: Any) -> None: ...
    def apply(self, **spec: Any) -> None: ...
    def command(self, *words: str, config: Path | None = None, also: tuple[int, ...] = ()) -> None: ...
    def cancel(self) -> None: ...
    def linger(self, seconds: float) -> None: ...


def _starts(story: CrashStory) -> list[WitnessNote]:
    return story.fleet.starts(story.name)


def running(story: CrashStory, attempts: int = 1) -> None:
    """The newest driver makes batches, and it is the ``attempts``-th at least."""
    began = len(story.fleet.notes(story.name))

    def works() -> bool:
        notes = story.fleet.notes(story.name)
        return len(_starts(story)) >= attempts and sum(n.batch_id is not None for n in notes[began:]) >= 2

    wait_until(works, LIMIT_S, f"attempt {attempts} of {story.name} to make batches", period_s=0.1)


def silent(story: CrashStory) -> None:
    """No driver of the job lives."""
    wait_until(lambda: not story.fleet.alive_pids(story.name), LIMIT_S, f"{story.name} to stop", period_s=0.1)


def _in_state(story: CrashStory, *states: str) -> None:
    story.fleet.wait_state(story.name, *states, timeout_s=LIMIT_S)


def launch(story: CrashStory) -> None:
    story.submit()
    running(story)
    story.cancel()


def crash(story: CrashStory) -> None:
    story.submit(knobs={"fail_attempts": 1})
    running(story, 2)
    story.cancel()


def suspend(story: CrashStory) -> None:
    story.submit()
    running(story)
    story.command("suspend", story.name)
    silent(story)
    story.command("resume", story.name)
    running(story, 2)
    story.cancel()


def restart(story: CrashStory) -> None:
    story.submit()
    running(story)
    story.command("restart", story.name)
    running(story, 2)
    story.cancel()


def finished(story: CrashStory) -> None:
    story.submit(knobs={"exit_after_batches": 2}, unbounded=False)
    _in_state(story, "finished")


def failed(story: CrashStory) -> None:
    story.submit(knobs={"fail_attempts": 1}, restart={"strategy": "fixed", "initial": "100ms", "attempts": 0})
    _in_state(story, "failed")
    story.command("resume", story.name)
    running(story, 2)
    story.cancel()


def refused(story: CrashStory) -> None:
    story.submit(env={"GREETING": "${env:NOBODY_HAS_THIS}"})
    _in_state(story, "quarantined")
    story.cancel()


def ask(story: CrashStory) -> None:
    story.submit()
    running(story)
    for words in (
        ("list",),
        ("status",),
        ("show", story.name),
        ("history", story.name),
        ("explain", story.name),
    ):
        story.command(*words)
    story.cancel()


def _shim(story: CrashStory) -> ProcessId:
    """Of the newest attempt; it has a driver."""

    def found() -> ProcessId | None:
        paths = [
            path
            for member in story.fleet.members
            for path in member.attempts_dir.glob(f"{_starts(story)[-1].uid}.{_starts(story)[-1].attempt}")
        ]
        record = run_dir.read_process(str(paths[0] / run_dir.SHIM)) if paths else None
        return record.process if record else None

    return wait_until(found, LIMIT_S, "the shim's record")


def shim_killed(story: CrashStory) -> None:
    story.submit()
    running(story)
    processes.kill(_shim(story))
    running(story, 2)
    story.cancel()


def deadline(story: CrashStory) -> None:
    """The shim is stopped for good: twin and guardian act when its deadline comes."""
    story.submit()
    running(story)
    pidfd = processes.open_pidfd(_shim(story))
    if pidfd is not None:
        processes.send_signal(pidfd, signal.SIGSTOP)
    running(story, 2)
    story.cancel()


PREPARED = {"update": {"prepare": "session"}, "resources": {"memory": "512m"}}
"""What a spec has to say for its restarts to be handed to a prepared driver."""
STANDBY = {**PREPARED, "standby": {"level": "session", "where": "any"}}


def _waits(story: CrashStory) -> WitnessNote | None:
    """The newest prepared driver of the job that lives and waits at its barrier."""
    alive = story.fleet.alive_pids(story.name)
    found = [note for note in story.fleet.notes(story.name) if note.event == "ready" and note.pid in alive]
    opened = {note.pid for note in story.fleet.notes(story.name) if note.event == "opened"}
    return next((note for note in reversed(found) if note.pid not in opened), None)


def ready(story: CrashStory) -> WitnessNote:
    return wait_until(
        lambda: _waits(story), LIMIT_S, f"a prepared driver of {story.name} to be ready", period_s=0.1
    )


def _handed_over(story: CrashStory) -> None:
    """Without a fault the newest attempt is a driver that was prepared; a fault may cost that, and nothing more."""
    opened = [note.attempt for note in story.fleet.notes(story.name) if note.event == "opened"]
    newest = _starts(story)[-1].attempt
    assert not story.undisturbed or opened == [newest], f"attempt {newest} was not handed over: {opened}"


def prepared(story: CrashStory) -> None:
    """A restart brings the next driver up first, and hands the attempt to it."""
    story.submit(**PREPARED)
    running(story)
    story.command("restart", story.name)
    running(story, 2)
    _handed_over(story)
    story.cancel()


def updated(story: CrashStory) -> None:
    """Another spec is applied: a driver of it is brought up, and the attempt handed to it."""
    story.submit(**PREPARED)
    running(story)
    story.apply(stop_grace="7s", **PREPARED)
    running(story, 2)
    _handed_over(story)
    story.cancel()


def given_up(story: CrashStory) -> None:
    """Another spec is applied, of which no driver can be prepared: the one that runs goes on, and is the only one."""
    story.submit(**PREPARED)
    running(story)
    story.apply(knobs={"unready": "no module named x"}, **PREPARED)
    wait_until(
        lambda: (story.fleet.show(story.name).get("update") or {}).get("state") == "failed",
        LIMIT_S,
        f"the update of {story.name} to be given up",
        period_s=0.2,
    )
    running(story)
    story.cancel()


def withdrawn(story: CrashStory) -> None:
    """A standby is ready, and is discarded because its job is suspended; after that another one, with the cancel."""
    story.submit(**STANDBY)
    running(story)
    ready(story)
    story.command("suspend", story.name)
    silent(story)
    story.command("resume", story.name)
    running(story, 2)
    ready(story)
    story.cancel()


def unready(story: CrashStory) -> None:
    """The driver that is brought up for a restart can't be prepared: the attempt starts cold."""
    story.submit(knobs={"unready": "no module named x"}, **PREPARED)
    running(story)
    story.command("restart", story.name)
    running(story, 2)
    story.cancel()


def prepared_killed(story: CrashStory) -> None:
    """The shim of a standby is killed: twin and guardian end its tree; the next one takes the attempt of a restart."""
    story.submit(**STANDBY)
    running(story)
    first = ready(story)
    for shim in _prepared_shims(story):
        processes.kill(shim)
    wait_until(
        lambda: first.pid not in story.fleet.alive_pids(story.name), LIMIT_S, "the end of the prepared driver"
    )
    ready(story)
    story.command("restart", story.name)
    running(story, 2)
    _handed_over(story)
    story.cancel()


def _prepared_shims(story: CrashStory) -> list[ProcessId]:
    """Those of the job's drivers to which no attempt was handed."""
    uid = _starts(story)[-1].uid
    directories = [path for member in story.fleet.members for path in member.attempts_dir.glob(f"{uid}.p*")]
    records = [
        run_dir.read_process(str(path / run_dir.SHIM))
        for path in directories
        if not (path / run_dir.HANDED).exists()
    ]
    return [record.process for record in records if record is not None]


def _end_leader(story: CrashStory, number: int) -> None:
    fleet = story.fleet
    epoch = fleet.epoch()
    leader: FleetMember = fleet.leader()
    process = processes.identify(leader.pid)
    pidfd = processes.open_pidfd(process) if process else None
    if pidfd is not None:
        processes.send_signal(pidfd, number)
    fleet.wait_new_leader(epoch, LIMIT_S)
    fleet.wait_complete(LIMIT_S)
    running(story)


def takeover(story: CrashStory) -> None:
    story.submit()
    running(story)
    _end_leader(story, signal.SIGKILL)
    story.cancel()


def handover(story: CrashStory) -> None:
    story.submit()
    running(story)
    _end_leader(story, signal.SIGTERM)
    story.cancel()


def tend(story: CrashStory) -> None:
    """Each supervisor starts anew while the job runs, and the last leader gets as far as what it does now and then."""
    story.submit()
    running(story)
    for _ in story.fleet.members:
        _end_leader(story, signal.SIGTERM)
    story.linger(TEND_S)
    running(story)
    story.cancel()


def operate(story: CrashStory) -> None:
    story.submit()
    running(story)
    story.command("pause", also=(4,))
    story.command("unpause", also=(4,))
    story.command("switchover", also=(1, 4))  # 1: nobody else was there to take over
    running(story)
    story.cancel()


def depart(story: CrashStory) -> None:
    """Both hosts are asked to stop their drivers, whoever has it; the job goes on with another attempt."""
    story.submit()
    running(story)
    for member in story.fleet.members:
        story.command("stop-drivers", config=member.config)
    running(story, 2)
    story.cancel()


SCENARIOS: dict[str, Callable[[CrashStory], None]] = {
    "launch": launch,
    "crash": crash,
    "suspend": suspend,
    "restart": restart,
    "finished": finished,
    "failed": failed,
    "refused": refused,
    "ask": ask,
    "shim_killed": shim_killed,
    "deadline": deadline,
    "prepared": prepared,
    "updated": updated,
    "given_up": given_up,
    "withdrawn": withdrawn,
    "unready": unready,
    "prepared_killed": prepared_killed,
    "depart": depart,
    "takeover": takeover,
    "handover": handover,
    "operate": operate,
    "tend": tend,
}
"""In this order a point is looked for; so the quick ones come first."""

ALONE = frozenset({"takeover", "handover", "operate", "depart", "tend"})
"""They touch more than their own job: nothing else runs on the fleet meanwhile."""

DRIVERS = {
    "launch": 1,
    "crash": 2,
    "suspend": 2,
    "restart": 2,
    "finished": 1,
    "failed": 2,
    "refused": 0,
    "ask": 1,
    "shim_killed": 2,
    "deadline": 2,
    "prepared": 2,
    "updated": 2,
    "given_up": 1,
    "withdrawn": 2,
    "unready": 2,
    "prepared_killed": 2,
    "takeover": 1,
    "handover": 1,
    "operate": 1,
    "tend": 1,
}
