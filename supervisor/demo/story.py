"""Tells the story of ``demo`` while it happens, in seven steps, and checks what must be seen in each. It starts
no processes itself.

It acts on a ``World`` (the real one is in ``demo.command``; a test has one of its own, with faults) and
prints to a ``Screen``. What it claims it has seen: on processes of this machine and on the record that the
job's own sink wrote, not in what the product reports of itself. The first thing that is not seen ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, TypeVar

from supervisor.demo.record import BatchLine, flaw_of, is_replay
from supervisor.demo.screen import Screen
from supervisor.demo.world import DemoPace, World
from supervisor.errors import SupervisorError
from supervisor.model.job_row import JobRow
from supervisor.model.records import LeaderHint

T = TypeVar("T")

START_LIMIT_S: Final = 240.0
"""A cold start of Spark takes 5 to 15 s; on a machine that is busy with other things, it takes much
longer."""

LIMIT_S: Final = 90.0
_POLL_S, _QUICK_POLL_S = 0.1, 0.01
_ODD_MOMENT_S: Final = 0.6
"""The driver is killed this long after a batch was seen to be written. At the write itself the batch is never
committed yet; a kill in practice comes at any moment between two writes."""


class Claim(StrEnum):
    """Names what must be seen, in the order of the story."""

    FLEET = "two supervisors, one leader"
    RUNNING = "the job runs"
    TAKEOVER = "leader killed: the other one leads"
    UNDISTURBED = "the job did not notice"
    RECOVERED = "driver killed: a new one goes on from the checkpoint"
    EXACT = "nothing lost, nothing counted twice"
    CHANGED = "job changed while it ran: a driver was ready before the old one stopped"
    HARMLESS = "a broken change: nothing was stopped"
    ROLLED_BACK = "rolled back in the same way"
    CANCELLED = "job cancelled: its driver is gone"
    STAYS_DEAD = "leader killed again: the cancelled job stays dead"


class NotSeen(Exception):
    """Is raised if what was to be seen was not, or if something else was."""

    def __init__(self, claim: Claim, sentence: str) -> None:
        super().__init__(sentence)
        self.claim = claim


class Story:
    """Tells the story; call ``run`` once. Afterwards ``failure`` is what was not seen, or None."""

    def __init__(self, world: World, screen: Screen, pace: DemoPace, fleet: tuple[str, str]) -> None:
        self._world = world
        self._fleet = fleet
        self._screen = screen
        self._pace = pace
        self._seen: dict[Claim, str] = {}
        self._uid = ""
        self._killed = ""
        self.failure: NotSeen | None = None

    def run(self) -> bool:
        """Returns whether everything was seen. A command or a supervisor that fails by itself counts as not
        seen, too."""
        steps = (
            ("Start a fleet", self._start_fleet),
            ("Submit a job", self._submit),
            ("Kill the leader", self._kill_leader),
            ("Kill the driver", self._kill_driver),
            ("Change the job while it runs", self._change),
            ("Cancel the job", self._cancel),
            ("Kill the leader again: does the dead job come back?", self._kill_leader_again),
        )
        try:
            for number, (title, step) in enumerate(steps, 1):
                self._screen.step(number, len(steps), title)
                step()
        except NotSeen as error:
            self.failure = error
        except SupervisorError as error:
            self.failure = NotSeen(next(claim for claim in Claim if claim not in self._seen), str(error))
        self._summary()
        return self.failure is None

    # -- the steps -------------------------------------------------------------------------------------------------

    def _start_fleet(self) -> None:
        view, world = self._screen, self._world
        view.text(
            "Three ZooKeeper servers remember what shall run. Two supervisors start and watch the jobs; one of them leads "
            "and decides, the other one is ready to take over."
        )
        view.event(f"3 ZooKeeper servers serve: {world.start_ensemble()}")
        view.command(f"spark-supervisor run --config {world.commands()[0]}")
        first = world.start_supervisor(self._fleet[0])
        leader = self._wait(
            Claim.FLEET, "a leader", world.leader, "the first supervisor is starting", LIMIT_S
        )
        second = world.start_supervisor(self._fleet[1])
        both = set(self._fleet)
        self._wait(
            Claim.FLEET,
            "a second supervisor",
            lambda: world.members() >= both,
            "the other supervisor is starting",
            LIMIT_S,
        )
        standby = next(iter(both - {leader.supervisor}))
        self._record_seen(
            Claim.FLEET,
            f"{leader.supervisor} leads, {standby} stands by (processes {first} and {second})",
            f"{leader.supervisor} leads, {standby} stands by",
        )
        view.why("No single process matters: one ZooKeeper server or one supervisor may die at any time.")

    def _submit(self) -> None:
        view, world = self._screen, self._world
        rows = f"{self._pace.rows_per_batch:,}"
        view.text(
            f"An ordinary PySpark streaming job that knows nothing of us. Each batch reads {rows} rows and adds them to "
            "counts in Spark's state. Its sink writes batch number and total count to a file: by that file we judge."
        )
        view.command(f"spark-supervisor submit {world.commands()[1]}")
        view.output(world.submit())
        row = self._wait(
            Claim.RUNNING, "a driver", self._row_with_driver, "the job waits to be started", LIMIT_S
        )
        self._uid = row.uid or ""
        view.event(
            f"{row.supervisor} has started the driver: process {row.driver_pid}, attempt {row.attempt}"
        )
        first = self._batches(Claim.RUNNING, 1, START_LIMIT_S)[0]
        view.event(f"the first batch: number {first.batch_id}, {first.total:,} rows counted")
        self._wait(
            Claim.RUNNING,
            "the job in state running",
            self._is_running,
            "the first batch is committed",
            LIMIT_S,
        )
        last = self._batches(Claim.RUNNING, self._pace.batches, LIMIT_S)[-1]
        self._record_seen(
            Claim.RUNNING,
            f"it runs: batch {last.batch_id}, {last.total:,} rows counted",
            f"process {row.driver_pid}, batches 0 to {last.batch_id}",
        )
        view.why(
            "The spec and the program are stored: from now on this job shall run, whichever host is there to run it."
        )

    def _kill_leader(self) -> None:
        view, world = self._screen, self._world
        before, leader = self._running_row(Claim.TAKEOVER), self._leader(Claim.TAKEOVER)
        who = "it" if before.supervisor == leader.supervisor else before.supervisor
        view.text(
            f"{leader.supervisor} leads, and {who} started our driver. SIGKILL leaves no time to hand anything over."
        )
        lines = self._record(Claim.UNDISTURBED)
        self._take_over(Claim.TAKEOVER, leader)
        new = self._batches(Claim.UNDISTURBED, len(lines) + self._pace.batches, LIMIT_S)[len(lines) :]
        after = self._running_row(Claim.UNDISTURBED)
        if (after.driver_pid, after.attempt) != (before.driver_pid, before.attempt):
            raise NotSeen(
                Claim.UNDISTURBED,
                f"the driver was process {before.driver_pid} in attempt {before.attempt}, but after the "
                f"leader's death it is {after.driver_pid} in attempt {after.attempt}",
            )
        if after.driver_pid not in world.drivers(self._uid) or {line.attempt for line in new} != {
            before.attempt
        }:
            raise NotSeen(
                Claim.UNDISTURBED,
                f"process {after.driver_pid} is no living driver of attempt {before.attempt}",
            )
        pause_s = _longest_pause_s((*lines[-1:], *new))
        self._record_seen(
            Claim.UNDISTURBED,
            f"the driver is still process {after.driver_pid}, attempt {after.attempt}; meanwhile came "
            f"{_batches(new)}, never more than {pause_s:.1f} s apart",
            f"process {after.driver_pid}, attempt {after.attempt}; {_batches(new)}",
        )
        view.why("Supervisors can crash, restart or be upgraded: what they supervise goes on.")

    def _kill_driver(self) -> None:
        view, world = self._screen, self._world
        before, lines = self._running_row(Claim.RECOVERED), self._record(Claim.RECOVERED)
        assert before.driver_pid is not None and before.attempt is not None
        view.text(
            f"Now the job itself: SIGKILL to its JVM, in the middle of whatever it does after batch {lines[-1].batch_id}. "
            "Spark by itself would leave it at that."
        )
        view.command(f"kill -9 {before.driver_pid}")
        world.pause(_ODD_MOMENT_S)
        killed_at_s = world.now_s()
        world.kill_driver(self._uid, before.driver_pid)
        noticed = self._wait(
            Claim.RECOVERED,
            "any notice of the driver's death",
            lambda: self._row_unlike(before),
            "waiting for notice",
            LIMIT_S,
            _QUICK_POLL_S,
        )
        view.event(f"noticed after {_ms(world.now_s() - killed_at_s)}: {noticed.state}, {noticed.reason}")
        first = self._first_of_next(Claim.RECOVERED, before.attempt)
        last = next(
            line for line in reversed(self._record(Claim.RECOVERED)) if line.attempt == before.attempt
        )
        left = world.drivers(self._uid, before.attempt)
        if left:
            raise NotSeen(
                Claim.RECOVERED, f"process {left[0]} of the killed attempt still lives beside the new one"
            )
        took = f"{first.boottime_s - killed_at_s:.1f} s after the kill, Spark's own start included"
        if is_replay(last, first):
            goes_on = f"batch {first.batch_id} once more"
            why = (
                ". It was written but not yet committed when the driver died; such a batch Spark repeats, with the same "
                "rows, and a sink has to bear that"
            )
        else:
            goes_on, why = f"batch {first.batch_id}, the next number", ""
        self._record_seen(
            Claim.RECOVERED,
            f"attempt {first.attempt} (process {first.pid}) goes on with {goes_on}, {took}{why}",
            f"attempt {first.attempt} went on with {goes_on}, {took}",
        )
        new = self._batches(Claim.EXACT, self._count_of(first) + self._pace.batches, LIMIT_S)
        self._record_exact(new)
        view.why(
            "The new driver took up state and position from the checkpoint. No hole, no row counted twice."
        )

    def _change(self) -> None:
        view, world = self._screen, self._world
        view.text(
            "The trigger is changed in the spec. A driver of the new revision is brought up beside the present one, which "
            "stops when that one is ready: the job does not wait for Spark's start."
        )
        self._hand_over(Claim.CHANGED, f"spark-supervisor apply {world.commands()[1]}", world.change)
        self._break()
        view.text(
            "And if a change can be started but turns out to be no good, it is rolled back: by a hand-over, too."
        )
        self._hand_over(Claim.ROLLED_BACK, "spark-supervisor rollback clicks --to 1", world.roll_back)
        lines = self._record(Claim.EXACT)
        self._record_exact(self._batches(Claim.EXACT, len(lines) + self._pace.batches, LIMIT_S))
        view.why("A change costs a pause between two batches, and one that cannot be started costs nothing.")

    def _break(self) -> None:
        """Applies a program that is no Python, and sees that the job does not notice."""
        view, world, claim = self._screen, self._world, Claim.HARMLESS
        before, lines = self._running_row(claim), self._record(claim)
        view.text("Now somebody saves half a program and applies it.")
        view.command(f"spark-supervisor apply {world.commands()[1]}")
        view.output(world.break_it())
        why = self._wait(
            claim, "that it is given up", world.why_given_up, "a driver of it is tried", START_LIMIT_S
        )
        view.event(f"given up: {why}")
        new = self._batches(claim, len(lines) + self._pace.batches, LIMIT_S)[len(lines) :]
        after = self._running_row(claim)
        if (after.driver_pid, after.attempt) != (before.driver_pid, before.attempt):
            raise NotSeen(
                claim, f"process {before.driver_pid} was stopped for it: now there is {after.driver_pid}"
            )
        self._record_seen(
            claim,
            f"the driver is still process {after.driver_pid}; meanwhile came {_batches(new)}, never more than "
            f"{_longest_pause_s((*lines[-1:], *new)):.1f} s apart",
            f"process {after.driver_pid} went on, {_batches(new)}",
        )

    def _hand_over(self, claim: Claim, command: str, run: Callable[[], str]) -> None:
        """Runs a command that replaces the driver, and tells how long the job paused."""
        view, world = self._screen, self._world
        before = self._running_row(claim)
        assert before.driver_pid is not None and before.attempt is not None
        view.command(command)
        view.output(run())
        first = self._first_of_next(claim, before.attempt, ", and the next driver comes up")
        last = next(line for line in reversed(self._record(claim)) if line.attempt == before.attempt)
        if before.driver_pid in world.drivers(self._uid):
            raise NotSeen(
                claim, f"process {before.driver_pid} of the old attempt still lives beside the new one"
            )
        gap_s = first.boottime_s - last.boottime_s
        self._record_seen(
            claim,
            f"attempt {first.attempt} (process {first.pid}) goes on with batch {first.batch_id}, {gap_s:.1f} s after "
            f"batch {last.batch_id} of the old one",
            f"{gap_s:.1f} s from batch {last.batch_id} of the old driver to batch {first.batch_id} of the new one",
        )

    def _cancel(self) -> None:
        view, world = self._screen, self._world
        view.text(
            "A cancel is a write to the registry. When the command returns it is durable, whoever leads."
        )
        view.command("spark-supervisor cancel clicks")
        asked_at_s = world.now_s()
        printed = world.cancel()
        acknowledged = _ms(world.now_s() - asked_at_s)
        view.output(printed)
        view.event(f"acknowledged after {acknowledged}")
        self._wait(
            Claim.CANCELLED,
            "the driver's end",
            lambda: not world.drivers(self._uid),
            "the driver is stopping",
            LIMIT_S,
        )
        gone_s = world.now_s() - asked_at_s
        row = self._wait(
            Claim.CANCELLED, "the state cancelled", self._row_cancelled, "the driver is gone", LIMIT_S
        )
        self._record_seen(
            Claim.CANCELLED,
            f"the driver is gone after {gone_s:.1f} s; the job is {row.state}",
            f"acknowledged after {acknowledged}, driver gone after {gone_s:.1f} s",
        )
        view.why(
            "Had nobody led at that moment, it would have been the same: the driver's own guard obeys the registry."
        )

    def _kill_leader_again(self) -> None:
        view, world = self._screen, self._world
        claim = Claim.STAYS_DEAD
        view.text(
            "A new leader that finds traces of a cancelled job and starts it again: the bug that this product exists to "
            f"exclude. {self._killed} comes back, so that there is a successor; then the leader is killed."
        )
        back = self._killed
        pid = world.start_supervisor(back)
        self._wait(
            claim, f"the return of {back}", lambda: back in world.members(), f"{back} is starting", LIMIT_S
        )
        view.event(f"{back} is back (process {pid})")
        lines = self._record(claim)
        leader = self._take_over(claim, self._leader(claim))
        self._wait(
            claim,
            "the new leader's plan",
            lambda: world.has_planned(leader),
            "the new leader reads the registry",
            LIMIT_S,
        )
        view.event(f"{leader.supervisor} has read the registry and made its first plan")
        self._watch_dead(len(lines))
        view.event(
            f"watched for {self._pace.watch_s:g} s: no process of the job on this machine, and not one batch after "
            f"{lines[-1].batch_id}"
        )
        view.command("spark-supervisor list --all")
        view.output(world.list_all())
        self._seen[claim] = f"{leader.supervisor} leads; watched for {self._pace.watch_s:g} s"
        view.why("Cancelled means cancelled: whoever leads, whatever crashed in between.")

    # -- what several steps do -------------------------------------------------------------------------------------

    def _take_over(self, claim: Claim, leader: LeaderHint) -> LeaderHint:
        """Kills ``leader`` and waits until another one leads. Returns that one."""
        world = self._world
        self._screen.command(f"kill -9 {world.pid_of(leader.supervisor)}")
        killed_at_s = world.now_s()
        world.kill_supervisor(leader.supervisor)
        self._killed = leader.supervisor

        def other() -> LeaderHint | None:
            now = world.leader()
            return now if now is not None and now.supervisor != leader.supervisor else None

        new = self._wait(claim, "another leader", other, "nobody leads", LIMIT_S, _QUICK_POLL_S)
        took = _ms(world.now_s() - killed_at_s)
        if new.epoch <= leader.epoch:
            raise NotSeen(
                claim, f"{new.supervisor} leads in epoch {new.epoch}, which is not above {leader.epoch}"
            )
        self._screen.event(f"{new.supervisor} leads {took} after the kill (epoch {new.epoch})")
        self._seen[claim] = f"{new.supervisor} led after {took}"
        return new

    def _watch_dead(self, written: int) -> None:
        world, claim = self._world, Claim.STAYS_DEAD
        self._seen.pop(claim, None)
        began_at_s = world.now_s()
        while (passed_s := world.now_s() - began_at_s) < self._pace.watch_s:
            drivers, lines = world.drivers(self._uid), self._record(claim)
            if drivers:
                raise NotSeen(claim, f"the cancelled job has a driver: process {drivers[0]}")
            if len(lines) > written:
                raise NotSeen(claim, f"the cancelled job has written batch {lines[-1].batch_id}")
            row = world.job()
            if row is not None and row.state != "cancelled":
                raise NotSeen(claim, f"the cancelled job is {row.state}: {row.reason}")
            self._screen.live(
                f"watching for {passed_s:.0f} of {self._pace.watch_s:g} s: no process, no new batch"
            )
            world.pause(_POLL_S)

    def _record_seen(self, claim: Claim, event: str, short: str) -> None:
        self._screen.event(event)
        self._seen[claim] = short

    def _record_exact(self, lines: Sequence[BatchLine]) -> None:
        last = lines[-1]
        rows = self._pace.rows_per_batch
        self._record_seen(
            Claim.EXACT,
            f"batch {last.batch_id} says {last.total:,} rows, exactly {rows:,} x {last.batch_id + 1}; every "
            f"number from 0 to {last.batch_id} is there",
            f"batches 0 to {last.batch_id} without a hole, {last.total:,} rows = {rows:,} x {last.batch_id + 1}",
        )

    # -- waiting and reading ---------------------------------------------------------------------------------------

    def _wait(
        self,
        claim: Claim,
        what: str,
        poll: Callable[[], T | None],
        meanwhile: str,
        limit_s: float,
        period_s: float = _POLL_S,
    ) -> T:
        """Returns the result of ``poll`` once it is true. Raises NotSeen after ``limit_s``; ``poll`` is
        called at least once."""
        world = self._world
        until_at_s = world.now_s() + limit_s
        while True:
            is_last = world.now_s() >= until_at_s
            found = poll()
            if found:
                return found
            if is_last:
                raise NotSeen(claim, f"{what} was not seen within {limit_s:g} s")
            if meanwhile:
                self._screen.live(meanwhile)
            world.pause(period_s)

    def _batches(self, claim: Claim, count: int, limit_s: float) -> tuple[BatchLine, ...]:
        """Returns the record as soon as it has ``count`` lines."""

        def poll() -> tuple[BatchLine, ...] | None:
            lines = self._record(claim)
            self._show(lines)
            return lines if len(lines) >= count else None

        return self._wait(claim, f"line {count} of the job's record", poll, "", limit_s)

    def _first_of_next(self, claim: Claim, attempt: int, meanwhile: str = "") -> BatchLine:
        def poll() -> BatchLine | None:
            lines = self._record(Claim.EXACT)
            self._show(lines, meanwhile)
            return next((line for line in lines if line.attempt > attempt), None)

        return self._wait(claim, "a batch of the next attempt", poll, "", START_LIMIT_S)

    def _show(self, lines: Sequence[BatchLine], meanwhile: str = "") -> None:
        """Prints how far the job is, as the waiting line."""
        row = self._world.job()
        progress = f"batch {lines[-1].batch_id}, {lines[-1].total:,} rows; " if lines else ""
        self._screen.live(f"{progress}{_job_records(row, lines)}{meanwhile}")

    def _record(self, claim: Claim) -> tuple[BatchLine, ...]:
        """Returns the record as it is now. Raises NotSeen the moment that it is wrong."""
        try:
            lines = self._world.record()
        except ValueError as error:
            raise NotSeen(claim, f"the job's record can't be read: {error}") from error
        flaw = flaw_of(lines, self._pace.rows_per_batch)
        if flaw is not None:
            raise NotSeen(Claim.EXACT, flaw)
        return lines

    def _count_of(self, line: BatchLine) -> int:
        return self._record(Claim.EXACT).index(line) + 1

    def _row_with_driver(self) -> JobRow | None:
        row = self._world.job()
        return row if row is not None and row.driver_pid else None

    def _row_unlike(self, before: JobRow) -> JobRow | None:
        row = self._world.job()
        return (
            row if row is not None and (row.state != before.state or row.attempt != before.attempt) else None
        )

    def _row_cancelled(self) -> JobRow | None:
        row = self._world.job()
        return row if row is not None and row.state == "cancelled" else None

    def _is_running(self) -> bool:
        row = self._world.job()
        return row is not None and row.state == "running"

    def _running_row(self, claim: Claim) -> JobRow:
        def poll() -> JobRow | None:
            row = self._row_with_driver()
            return row if row is not None and row.state == "running" else None

        return self._wait(claim, "the running job", poll, "looking at the job", LIMIT_S)

    def _leader(self, claim: Claim) -> LeaderHint:
        return self._wait(claim, "a leader", self._world.leader, "looking for the leader", LIMIT_S)

    # -- the end ---------------------------------------------------------------------------------------------------

    def _summary(self) -> None:
        view = self._screen
        view.text("")
        view.title("What was observed")
        for claim in Claim:
            if self.failure is not None and self.failure.claim is claim:
                view.verdict(False, f"{claim.value}? {self.failure}")
            elif claim in self._seen:
                view.verdict(True, f"{claim.value} - {self._seen[claim]}")
            else:
                view.verdict(None, claim.value)


def _job_records(row: JobRow | None, lines: Sequence[BatchLine]) -> str:
    """Returns how an attempt is doing, for somebody who waits for its next batch."""
    if row is None or not row.attempt:
        return "the job waits for its first attempt"
    attempt = f"attempt {row.attempt}"
    if row.state == "starting":
        return f"{attempt} is starting ({row.reason.rpartition(': ')[2]})"
    if row.state == "running" and not any(line.attempt == row.attempt for line in lines):
        return f"{attempt} is starting (Spark is loading)"
    return f"{attempt} is {row.state}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"


def _batches(lines: Sequence[BatchLine]) -> str:
    if len(lines) == 1:
        return f"batch {lines[0].batch_id}"
    return f"batches {lines[0].batch_id} to {lines[-1].batch_id}"


def _longest_pause_s(lines: Sequence[BatchLine]) -> float:
    return max((b.boottime_s - a.boottime_s for a, b in zip(lines, lines[1:], strict=False)), default=0.0)
