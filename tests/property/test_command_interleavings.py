"""Any interleaving of commands on one name, with lost replies and attempts that come and go (I2, I7, I8).

A step may have others happen between its reading and its commit, nested. What was acknowledged must hold from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.errors import SupervisorError
from supervisor.model.records import Desired, JobRef, Outcome, OwnState
from supervisor.model.seen import Found
from supervisor.operations.jobs import Did, Done, JobOperations
from supervisor.records.ids import new_uid
from tests.fakes.registry_bench import Bench, submission

NAME = "a"
COMMANDS = ("submit", "submit other", "cancel", "suspend", "resume", "restart")
WORLD = ("run", "exit", "fail")
REPLIES = ("none", "none", "reply lost", "not sent", "session lost")


@dataclass(frozen=True)
class Step:
    what: str
    fault: str
    meanwhile: tuple[Step, ...] = ()


def steps(depth: int) -> st.SearchStrategy[Step]:
    below = st.lists(steps(depth - 1), max_size=2).map(tuple) if depth else st.just(())
    return st.builds(Step, st.sampled_from(COMMANDS + WORLD), st.sampled_from(REPLIES), below)


@dataclass
class History:
    """What was said to users."""

    bench: Bench = field(default_factory=Bench)
    submitted: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)

    def do(self, step: Step) -> None:
        if step.what in WORLD:
            self._move_the_world(step.what)
        else:
            self._command(step)
        self.check()

    def _move_the_world(self, what: str) -> None:
        ref = self.bench.record(JobRef, self.bench.layout.job(NAME))
        if isinstance(ref, Found) and ref.record.desired is Desired.RUNNING:
            {"run": self.bench.run, "exit": self.bench.exit, "fail": self.bench.fail}[what](NAME)

    def _command(self, step: Step) -> None:
        commands = self.bench.commands()
        try:
            commands.job_records(NAME)  # connects
        except SupervisorError:
            pass
        client = self.bench.clients[-1]

        def meanwhile() -> None:
            for each in step.meanwhile:
                self.do(each)
            if step.fault == "reply lost":
                client.lose_next_reply()
            elif step.fault == "not sent":
                client.fail_next_commit_before()
            elif step.fault == "session lost":
                self.bench.zoo.expire(client)

        client.before_next_commit(meanwhile)
        uid = new_uid(NAME)
        try:
            done = self._act(commands, step.what, uid)
        except SupervisorError:
            return
        if done.did in (Did.CANCELLED, Did.ALREADY_CANCELLED):
            self.cancelled.add(done.uid)
        if done.did is Did.SUBMITTED:
            assert done.uid == uid
            self.submitted.add(uid)

    @staticmethod
    def _act(commands: JobOperations, what: str, uid: str) -> Done:
        if what.startswith("submit"):
            return commands.submit(
                submission(NAME, "cd" * 32 if what == "submit other" else "ab" * 32, "s3://bkt/a", uid)
            )
        done: Done = getattr(commands, what)(NAME)
        return done

    def check(self) -> None:
        bench = self.bench
        ref = bench.record(JobRef, bench.layout.job(NAME))
        live = ref.record.uid if isinstance(ref, Found) else None
        for uid in self.cancelled:
            result = bench.result(uid)
            assert live != uid, "a cancelled uid came back"
            assert result is not None and result.outcome is Outcome.CANCELLED
        for uid in self.submitted:
            assert live == uid or bench.result(uid) is not None, "an acknowledged job was lost"
        if live is not None:
            own = bench.own(NAME)
            assert bench.result(live) is None, "a registered uid has a result"
            assert own.newest_uid == live
        elif bench.has(bench.layout.own(NAME)):
            assert bench.own(NAME).state is not OwnState.CLAIMED, "a claim without a reference"


@settings(max_examples=200, deadline=None)
@given(st.lists(steps(2), min_size=1, max_size=6))
def test_what_was_acknowledged_holds(history: list[Step]) -> None:
    answered = History()
    answered.do(Step("submit", "none"))
    for step in history:
        answered.do(step)
