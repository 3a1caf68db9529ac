"""``operations.jobs`` on an ensemble in memory: answers, lost replies, others who are faster (protocol §5, I2, I8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from supervisor.clock import boottime_s
from supervisor.errors import Conflict, NotFound, OutcomeUnknown, TimedOut, Unreachable
from supervisor.model.checkpoint_expectation import CheckpointExpectation, SeenQuery, place_of, to_be_expected
from supervisor.model.location import digest
from supervisor.model.records import BlobRef, Cause, CheckpointClaim, Cleanliness, Desired, Outcome, OwnState
from supervisor.model.seen import Found
from supervisor.model.transaction import ANY_VERSION, Delete, Transaction
from supervisor.operations.jobs import Did, JobOperations, JobRecords
from supervisor.operations.names import known_names, no_job
from supervisor.operations.savepoint_resume import Revision
from supervisor.records.ids import new_uid
from supervisor.registry import user_writes
from supervisor.registry.blob_sweep import SUBMIT_MAX_S
from tests.fakes.registry_bench import Bench, submission, terms

OTHER = "cd" * 32
Act = Callable[[JobOperations], object]


@pytest.fixture
def bench() -> Bench:
    return Bench()


# -- submit -----------------------------------------------------------------------------------------------------------


def test_the_same_spec_again_is_the_same_job(bench: Bench) -> None:
    first = bench.submit("a")
    again = bench.submit("a")
    assert (first.did, again.did) == (Did.SUBMITTED, Did.UNCHANGED)
    assert again.uid == first.uid
    assert bench.commands().check_submit("a", "ab" * 32, None) == again


def test_another_spec_of_a_live_name_is_refused_with_a_hint(bench: Bench) -> None:
    bench.submit("a")
    for refused in (
        lambda: bench.submit("a", OTHER),
        lambda: bench.commands().check_submit("a", OTHER, None),
    ):
        with pytest.raises(Conflict, match="apply changes the job"):
            refused()


def test_a_cancelled_name_is_a_new_uid_and_goes_on_from_its_checkpoint(bench: Bench) -> None:
    first = bench.submit("a", checkpoint="s3://bkt/a")
    bench.commands().cancel("a")
    second = bench.submit("a", checkpoint="s3a://bkt/a/")
    assert second.did is Did.SUBMITTED and second.uid != first.uid
    assert bench.result(first.uid) is not None


@pytest.mark.parametrize(
    "other", ["s3://bkt/x/y", "s3a://bkt/x/y/", "s3a://bkt/x", "S3://bkt/x/y/z", "s3://bkt/q/../x/./y"]
)
def test_overlapping_checkpoints_are_refused_and_the_other_job_is_named(bench: Bench, other: str) -> None:
    bench.submit("a", checkpoint="s3://bkt/x/y")
    with pytest.raises(Conflict, match="belongs to job a"):
        bench.submit("b", checkpoint=other)
    with pytest.raises(Conflict, match="belongs to job a"):
        bench.commands().check_submit("b", OTHER, other)


def test_two_nested_submits_at_once_do_not_both_pass(bench: Bench) -> None:
    commands = bench.commands()
    assert commands.check_submit("b", OTHER, "s3://bkt/x/y") is None
    bench.clients[-1].before_next_commit(lambda: bench.submit("a", checkpoint="s3://bkt/x"))
    with pytest.raises(Conflict, match="belongs to job a"):
        commands.submit(submission("b", OTHER, "s3://bkt/x/y"))


def test_many_submits_share_one_reading_of_the_claims(bench: Bench) -> None:
    commands = bench.commands()
    for number in range(5):
        assert commands.submit(submission(f"j{number}", checkpoint=f"s3://bkt/{number}")).did is Did.SUBMITTED
    with pytest.raises(Conflict, match="belongs to job j3"):
        commands.submit(submission("k", checkpoint="s3://bkt/3/x"))


def test_a_submit_that_took_too_long_is_not_registered(bench: Bench) -> None:
    late = submission("a", stored_from_at_s=boottime_s() - SUBMIT_MAX_S - 1)
    with pytest.raises(TimedOut, match="submit it again"):
        bench.commands().submit(late)
    assert not bench.has(bench.layout.job("a"))


def test_a_suspended_submit_starts_nothing(bench: Bench) -> None:
    bench.commands().submit(submission("a", desired=Desired.SUSPENDED))
    assert bench.ref("a").record.desired is Desired.SUSPENDED


# -- cancel -----------------------------------------------------------------------------------------------------------


def test_cancel_is_final_and_may_be_said_twice(bench: Bench) -> None:
    uid = bench.submit("a").uid
    bench.run("a")
    assert bench.commands().cancel("a").did is Did.CANCELLED
    assert not bench.has(bench.layout.job("a"))
    assert bench.own("a").state is OwnState.DRAINING
    again = bench.commands().cancel("a")
    assert (again.did, again.uid) == (Did.ALREADY_CANCELLED, uid)
    for act in (JobOperations.resume, JobOperations.restart, JobOperations.suspend):
        with pytest.raises(Conflict, match="is cancelled: submit it again"):
            act(bench.commands(), "a")


def test_a_retry_of_a_submit_fails_after_somebody_cancelled_it(bench: Bench) -> None:
    uid = new_uid("a")
    bench.commands().submit(submission("a", uid=uid))
    bench.commands().cancel("a")
    with pytest.raises(Conflict, match="was cancelled while it was being submitted"):
        bench.commands().submit(submission("a", uid=uid))


def test_cancel_of_a_failed_uid_beats_a_restart_that_is_under_way(bench: Bench) -> None:
    bench.submit("a")
    uid = bench.fail("a")
    commands = bench.commands()
    commands.job_records("a")
    bench.clients[-1].before_next_commit(lambda: bench.commands().cancel("a"))
    with pytest.raises(Conflict, match="is cancelled"):
        commands.restart("a")
    result = bench.result(uid)
    assert result is not None and result.outcome is Outcome.CANCELLED


def test_cancel_names_the_uid_it_resolved_and_never_a_newer_one(bench: Bench) -> None:
    first = bench.submit("a").uid
    commands = bench.commands()
    commands.job_records("a")

    def replaced() -> None:
        bench.commands().cancel("a")
        bench.submit("a")

    bench.clients[-1].before_next_commit(replaced)
    done = commands.cancel("a")
    assert (done.did, done.uid) == (Did.ALREADY_CANCELLED, first)
    assert bench.has(bench.layout.job("a"))


def test_a_corrupt_reference_can_be_cancelled_and_submitted_again(bench: Bench) -> None:
    uid = bench.submit("a").uid
    bench.zoo.put(bench.layout.job("a"), b"{")
    with pytest.raises(Conflict, match="unreadable: cancel a first"):
        bench.submit("a")
    assert bench.commands().cancel("a").uid == uid
    assert bench.submit("a").did is Did.SUBMITTED


def test_a_corrupt_ownership_is_revoked_by_cancel(bench: Bench) -> None:
    bench.submit("a")
    bench.zoo.put(bench.layout.own("a"), b"{")
    bench.commands().cancel("a")
    assert bench.own("a").state is OwnState.REVOKED


# -- suspend, resume, restart -----------------------------------------------------------------------------------------


def test_what_is_so_already_is_fine(bench: Bench) -> None:
    bench.submit("a")
    assert bench.commands().resume("a").did is Did.ALREADY_RUNNING
    assert bench.commands().suspend("a").did is Did.SUSPENDED
    assert bench.commands().suspend("a").did is Did.ALREADY_SUSPENDED
    with pytest.raises(Conflict, match="resume it instead"):
        bench.commands().restart("a")
    assert bench.commands().resume("a").did is Did.RESUMED
    assert bench.commands().restart("a").did is Did.RESTARTED


def test_restart_stops_nothing_by_itself(bench: Bench) -> None:
    bench.submit("a")
    bench.run("a")
    before, nonce = bench.own("a"), bench.ref("a").record.restart_nonce
    bench.commands().restart("a")
    assert bench.own("a") == before
    assert bench.ref("a").record.restart_nonce != nonce


def test_resume_clears_a_back_off_and_a_quarantine(bench: Bench) -> None:
    bench.submit("a")
    bench.exit("a", Cause.BAD_ARTIFACT, permanent=True)
    assert bench.commands().resume("a").did is Did.RESUMED


@pytest.mark.parametrize("act", [JobOperations.resume, JobOperations.restart])
def test_a_failed_job_is_registered_again_under_its_uid(
    bench: Bench, act: Callable[[JobOperations, str], object]
) -> None:
    bench.submit("a", checkpoint="s3://bkt/a")
    uid = bench.fail("a")
    act(bench.commands(), "a")
    assert bench.ref("a").record.uid == uid
    assert bench.result(uid) is None
    assert (bench.own("a").attempt, bench.own("a").failures) == (1, 0)


def test_only_the_newest_uid_can_be_registered_again(bench: Bench) -> None:
    bench.submit("a")
    bench.fail("a")
    newest = bench.submit("a").uid
    bench.commands().cancel("a")
    with pytest.raises(Conflict, match="is cancelled"):
        bench.commands().resume("a")
    assert bench.own("a").newest_uid == newest


@pytest.mark.parametrize(
    "act", [JobOperations.cancel, JobOperations.suspend, JobOperations.resume, JobOperations.restart]
)
def test_an_unknown_name(bench: Bench, act: Callable[[JobOperations, str], object]) -> None:
    with pytest.raises(NotFound, match="no job is named nobody"):
        act(bench.commands(), "nobody")


def test_the_name_that_was_meant_is_suggested(bench: Bench) -> None:
    """Of a registered job, or of one whose result is kept; not of one of which only the ownership is left."""
    assert (
        str(no_job(bench.zoo.client(), bench.layout, "clikcs"))
        == "no job is named clikcs: see spark-supervisor list --all"
    )
    bench.submit("clicks")
    uid = bench.submit("orders").uid
    bench.commands().cancel("orders")
    for typed, meant in (("clikcs", "clicks"), ("order", "orders")):
        with pytest.raises(NotFound, match=f"^no job is named {typed}: did you mean {meant}[?]$"):
            bench.commands().suspend(typed)
    assert "did you mean" not in str(no_job(bench.zoo.client(), bench.layout, "orders")), (
        "nothing of it was found under this very name"
    )
    bench.zoo.client().commit(Transaction("sweep", "op", (Delete(bench.layout.result(uid), ANY_VERSION),)))
    assert set(known_names(bench.zoo.client(), bench.layout)) == {"clicks"}


def test_a_suggestion_that_cannot_be_had_is_left_out(bench: Bench) -> None:
    class Silent:
        def children(self, _path: str) -> tuple[str, ...] | None:
            raise Unreachable("ZooKeeper did not answer")

    assert (
        str(no_job(Silent(), bench.layout, "clikcs"))
        == "no job is named clikcs: see spark-supervisor list --all"
    )


# -- lost replies -----------------------------------------------------------------------------------------------------

ACTS: dict[str, Act] = {
    "submit": lambda commands: commands.submit(submission("new")),
    "cancel": lambda commands: commands.cancel("live"),
    "cancel_failed": lambda commands: commands.cancel("failed"),
    "suspend": lambda commands: commands.suspend("live"),
    "restart": lambda commands: commands.restart("live"),
    "resume": lambda commands: commands.resume("parked"),
    "register_again": lambda commands: commands.resume("failed"),
    "resume_from": lambda commands: commands.resume_from(revision(commands, "parked")),
    "register_again_from": lambda commands: commands.resume_from(revision(commands, "failed")),
}


def revision(commands: JobOperations, name: str, checkpoint: str = "s3://bkt/new") -> Revision:
    """The next one of ``name``, with the copy of a savepoint."""
    spec = BlobRef(key=f"specs/{name}/u/2-{OTHER}.json", sha256=OTHER, bytes=10)
    return Revision(commands.basis(name), spec, terms(checkpoint), "one", (SeenQuery("q", 12),))


def prepared(bench: Bench) -> JobOperations:
    """With a live, a failed and a suspended job; the session of the commands is up."""
    bench.submit("live", checkpoint="s3://bkt/live")
    bench.run("live")
    bench.submit("failed", checkpoint="s3://bkt/failed")
    bench.fail("failed")
    bench.submit("parked", checkpoint="s3://bkt/parked")
    bench.commands().suspend("parked")
    commands = bench.commands()
    commands.job_records("live")
    bench.zoo.log.clear()
    return commands


def committed(bench: Bench) -> list[str]:
    return [tx.what for _, tx in bench.zoo.log if tx.what != "put"]


@pytest.mark.parametrize("act", ACTS)
def test_a_lost_reply_is_resolved_as_done_once(bench: Bench, act: str) -> None:
    commands = prepared(bench)
    bench.clients[-1].lose_next_reply()
    ACTS[act](commands)
    assert len(committed(bench)) == 1


@pytest.mark.parametrize("act", ACTS)
def test_a_write_that_never_arrived_is_sent_again(bench: Bench, act: str) -> None:
    commands = prepared(bench)
    bench.clients[-1].fail_next_commit_before()
    ACTS[act](commands)
    assert len(committed(bench)) == 1


@pytest.mark.parametrize("act", ACTS)
def test_an_outcome_that_cannot_be_known_is_not_acknowledged(bench: Bench, act: str) -> None:
    commands = prepared(bench)
    bench.clients[-1].lose_next_reply(reconnect=False)
    with pytest.raises(OutcomeUnknown):
        ACTS[act](commands)


@pytest.mark.parametrize("act", ACTS)
def test_without_a_connection_nothing_is_acknowledged_and_nothing_happens_later(
    bench: Bench, act: str
) -> None:
    commands = prepared(bench)
    client = bench.clients[-1]
    bench.zoo.disconnect(client)
    with pytest.raises(Unreachable):
        ACTS[act](commands)
    bench.zoo.reconnect(client)
    assert committed(bench) == []


@pytest.mark.parametrize("act", ACTS)
def test_a_session_lost_with_the_reply_is_closed_before_reading_back(bench: Bench, act: str) -> None:
    commands = prepared(bench)
    client = bench.clients[-1]

    def lost() -> None:
        client.lose_next_reply(reconnect=False)
        bench.zoo.expire(client)  # in the end it is not applied: the session is gone before

    client.before_next_commit(lost)
    ACTS[act](commands)
    assert bench.clients[-1] is not client
    assert len(committed(bench)) == 1


def test_a_change_by_others_after_a_lost_reply_is_not_taken_for_ours(bench: Bench) -> None:
    commands = prepared(bench)
    client = bench.clients[-1]
    client.before_next_commit(lambda: bench.commands().suspend("live"))
    client.fail_next_commit_before()
    with pytest.raises(OutcomeUnknown, match="changed again meanwhile"):
        commands.restart("live")


def test_a_name_of_which_nothing_is_readable_can_be_cancelled_and_submitted_anew(bench: Bench) -> None:
    bench.submit("j")
    for path in (bench.layout.job("j"), bench.layout.own("j")):
        bench.zoo.put(path, b"garbage")
    done = bench.commands().cancel("j")
    assert done.did is Did.CANCELLED
    assert (bench.own("j").state, bench.own("j").uid) == (OwnState.REVOKED, done.uid)
    assert bench.submit("j").did is Did.SUBMITTED


def test_an_unreadable_ownership_without_a_reference_is_mended_by_a_cancel(bench: Bench) -> None:
    bench.submit("j")
    bench.commands().cancel("j")
    bench.zoo.put(bench.layout.own("j"), b"garbage")
    assert bench.commands().cancel("j").did is Did.CANCELLED
    assert bench.submit("j").did is Did.SUBMITTED


@pytest.mark.parametrize("state", [OwnState.VACANT, OwnState.DRAINING])
def test_an_unreadable_result_is_mended_by_a_cancel(bench: Bench, state: OwnState) -> None:
    """It can't be cleaned, and would hold back what its uid left behind for ever."""
    uid = bench.submit("j").uid
    bench.commands().cancel("j")
    bench.set_own("j", state)
    bench.zoo.put(bench.layout.result(uid), b"garbage")
    done = bench.commands().cancel("j")
    assert (done.did, done.uid) == (Did.CANCELLED, uid)
    result = bench.result(uid)
    assert result is not None and result.outcome is Outcome.CANCELLED and result.state is Cleanliness.DIRTY
    assert bench.own("j").state is state
    assert bench.commands().cancel("j").did is Did.ALREADY_CANCELLED


def test_an_unreadable_result_of_an_older_uid_does_not_concern_a_cancel(bench: Bench) -> None:
    old = bench.submit("j").uid
    bench.commands().cancel("j")
    new = bench.submit("j").uid
    bench.zoo.put(bench.layout.result(old), b"garbage")
    assert bench.commands().cancel("j").uid == new
    assert bench.zoo.tree()[bench.layout.result(old)] == b"garbage"


# -- a name that got another uid between look-up and look --------------------------------------------------------------


def resubmitted_meanwhile(bench: Bench, monkeypatch: pytest.MonkeyPatch, cancelled: bool) -> JobOperations:
    """Commands that find the failed uid of ``a``; before they look again somebody submits a newer one."""
    bench.fail("a")
    commands = bench.commands()
    real = commands.job_records

    def job_records(name: str, uid: str | None = None) -> JobRecords:
        found = real(name, uid)
        bench.submit("a", OTHER)
        bench.set_own("a", OwnState.CLAIMED)
        if cancelled:
            bench.commands().cancel("a")
        return found

    monkeypatch.setattr(commands, "job_records", job_records)
    return commands


def test_only_the_newest_uid_is_registered_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.submit("a")
    commands = resubmitted_meanwhile(bench, monkeypatch, cancelled=True)
    with pytest.raises(Conflict, match="try again"):
        commands.resume("a")
    assert not bench.has(bench.layout.job("a"))


def test_cancelling_a_failed_uid_does_not_stop_a_newer_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.submit("a")
    commands = resubmitted_meanwhile(bench, monkeypatch, cancelled=False)
    with pytest.raises(Conflict, match="try again"):
        commands.cancel("a")
    assert bench.own("a").state is OwnState.CLAIMED


def test_a_submit_is_never_carried_over_to_another_session(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is stopped for hours between its last look at the clock and its multi: its blobs may be swept."""
    commands = bench.commands()
    real = user_writes.submit

    def submit(*arguments: Any) -> Transaction:
        bench.zoo.expire(bench.clients[-1])
        return real(*arguments)

    monkeypatch.setattr(user_writes, "submit", submit)
    with pytest.raises(Unreachable):
        commands.submit(submission("a"))
    assert not bench.has(bench.layout.job("a"))


def test_a_fresh_start_is_accepted_by_the_write_that_says_so(bench: Bench) -> None:
    """It names that write, so that the next start takes it once; a later resume without the word changes nothing of it."""
    commands = bench.commands()
    bench.submit("j")
    assert bench.ref("j").record.fresh_start == ""
    bench.exit("j", permanent=True)
    commands.resume("j", fresh_start=True)
    accepted = bench.ref("j").record
    assert accepted.fresh_start == accepted.op != ""
    assert "fresh start" in accepted.changed.detail
    bench.exit("j", permanent=True)
    commands.resume("j")
    assert bench.ref("j").record.fresh_start == accepted.fresh_start
    bench.submit("failed")
    bench.fail("failed")
    assert commands.resume("failed", fresh_start=True).did is Did.REGISTERED_AGAIN
    assert bench.ref("failed").record.fresh_start == bench.ref("failed").record.op
    commands.submit(submission("new", fresh_start=True, queries=(SeenQuery("q", 12),)))
    assert bench.ref("new").record.fresh_start != "" and bench.ref("new").record.begins_with == ("q 12",)
    bench.exit("new", permanent=True)
    commands.resume("new")
    assert bench.ref("new").record.begins_with == ("q 12",)
    bench.exit("new", permanent=True)
    commands.resume("new", fresh_start=True)
    assert bench.ref("new").record.begins_with == (), "whatever is there"


def test_a_submit_names_who_used_the_checkpoint_before(bench: Bench) -> None:
    """Only a job that committed batches there; and not for the name itself, whose query ids are known."""
    place = "s3a://bucket/shared"
    for name, checkpoint in (("old", place), ("idle", "s3://bucket/idle")):
        bench.submit(name, checkpoint=checkpoint)
        words = ("q 7",) if name == "old" else ()
        bench.set_own(
            name, OwnState.VACANT, remembered=CheckpointExpectation(place=place_of(checkpoint), queries=words)
        )
        bench.commands().cancel(name)
        bench.zoo.remove(bench.layout.checkpoint(digest(checkpoint)))
    bench.submit("new", checkpoint="s3://bucket/shared/")
    assert bench.ref("new").record.left_by == "old"
    bench.submit("next", checkpoint="s3://bucket/idle")
    assert bench.ref("next").record.left_by == ""
    bench.commands().cancel("new")
    bench.zoo.remove(bench.layout.checkpoint(digest(place)))
    bench.submit("old", checkpoint=place)
    assert bench.ref("old").record.left_by == ""


# -- going on from a savepoint --------------------------------------------------------------------------------------------


def stopped(bench: Bench, name: str = "j", **changes: Any) -> JobOperations:
    """``name`` ran at s3://bkt/old, committed batch 40 there, was suspended and has stopped. ``changes``: of its ownership."""
    bench.submit(name, checkpoint="s3://bkt/old")
    bench.run(name, remembered=CheckpointExpectation(place=place_of("s3://bkt/old"), queries=("q 40",)))
    bench.commands().suspend(name)
    bench.set_own(name, changes.pop("state", OwnState.EXITED), cause=Cause.STOPPED, **changes)
    return bench.commands()


def claimed_by(bench: Bench, location: str) -> str | None:
    found = bench.record(CheckpointClaim, bench.layout.checkpoint(digest(location)))
    return found.record.name if isinstance(found, Found) else None


def test_a_suspended_job_goes_on_with_the_copy_of_a_savepoint(bench: Bench) -> None:
    commands = stopped(bench)
    before = bench.ref("j").record
    assert commands.resume_from(revision(commands, "j")).did is Did.RESUMED
    job = bench.ref("j").record
    assert (job.revision, job.desired, job.terms.checkpoint) == (2, Desired.RUNNING, "s3://bkt/new")
    assert job.spec.sha256 == OTHER and job.restart_nonce != before.restart_nonce and job.uid == before.uid
    assert job.changed.detail == "from savepoint one, now at s3://bkt/new"
    assert (claimed_by(bench, "s3://bkt/old"), claimed_by(bench, "s3://bkt/new")) == (None, "j")
    assert not bench.has(bench.layout.lease("j"))


def test_what_is_remembered_fits_the_copy_and_keeps_what_it_knew_of_the_old_one(bench: Bench) -> None:
    """An acceptance that was not taken yet was about the old one; so was what another job had left there."""
    bench.submit("j", checkpoint="s3://bkt/old")
    ref = bench.ref("j")
    bench.put(bench.layout.job("j"), replace(ref.record, fresh_start="earlier", left_by="other"))
    bench.run(
        "j",
        remembered=CheckpointExpectation(
            place=place_of("s3://bkt/old"), queries=("q 40",), accepted="earlier"
        ),
    )
    commands = bench.commands()
    commands.suspend("j")
    bench.set_own("j", OwnState.EXITED)
    commands.resume_from(revision(commands, "j"))
    job, own = bench.ref("j").record, bench.own("j")
    assert (job.fresh_start, job.left_by) == ("", "")
    expected = to_be_expected(job.terms.checkpoint, job.fresh_start, None, own.remembered)
    assert expected == CheckpointExpectation(
        place=place_of("s3://bkt/new"),
        queries=("q 12",),
        accepted="",
        elsewhere=(f"{place_of('s3://bkt/old')} q 40",),
    )
    bench.submit("next", checkpoint="s3://bkt/old")
    assert bench.ref("next").record.left_by == "j", (
        "a first start of another job there is refused unless it is accepted"
    )


def test_a_failed_job_goes_on_from_a_savepoint_as_the_same_uid(bench: Bench) -> None:
    bench.submit("j", checkpoint="s3://bkt/old")
    uid = bench.fail("j")
    commands = bench.commands()
    assert commands.resume_from(revision(commands, "j")).did is Did.REGISTERED_AGAIN
    job = bench.ref("j").record
    assert (job.uid, job.revision, job.terms.checkpoint, bench.result(uid)) == (uid, 2, "s3://bkt/new", None)
    assert (claimed_by(bench, "s3://bkt/old"), claimed_by(bench, "s3://bkt/new")) == (None, "j")


def test_a_quarantined_job_goes_on_from_a_savepoint(bench: Bench) -> None:
    bench.submit("j", checkpoint="s3://bkt/old")
    bench.exit("j", Cause.BAD_CHECKPOINT, permanent=True)
    commands = bench.commands()
    assert commands.resume_from(revision(commands, "j")).did is Did.RESUMED


@pytest.mark.parametrize("state", [OwnState.ASSIGNED, OwnState.CLAIMED, OwnState.DRAINING, OwnState.REVOKED])
@pytest.mark.parametrize("suspended", [False, True])
def test_a_job_that_may_have_a_driver_is_left_alone(bench: Bench, state: OwnState, suspended: bool) -> None:
    commands = stopped(bench, state=state)
    if not suspended:
        bench.put(bench.layout.job("j"), replace(bench.ref("j").record, desired=Desired.RUNNING))
    revised = revision(commands, "j")
    assert "suspend j --wait" in revised.basis.running
    with pytest.raises(Conflict, match="suspend it first"):
        commands.resume_from(revised)
    assert bench.ref("j").record.revision == 1


def test_a_job_in_backoff_or_waiting_for_a_place_starts_by_itself_and_is_left_alone(bench: Bench) -> None:
    bench.submit("j", checkpoint="s3://bkt/old")
    commands = bench.commands()
    assert "pending" in commands.basis("j").running
    bench.exit("j")
    assert "backoff" in commands.basis("j").running
    bench.exit("j", Cause.BAD_CHECKPOINT, permanent=True)
    commands.resume("j")
    assert "pending" in commands.basis("j").running, "a quarantine that was resumed"


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        (lambda commands: commands.resume("j"), "suspend it first"),
        (lambda commands: commands.cancel("j"), "is cancelled"),
        (
            lambda commands: commands.resume_from(revision(commands, "j", "s3://bkt/theirs")),
            "suspend it first",
        ),
        (
            lambda commands: commands.submit(submission("k", checkpoint="s3://bkt/new/inside")),
            "belongs to job k",
        ),
    ],
    ids=["resumed", "cancelled", "moved", "taken"],
)
@pytest.mark.parametrize("just_before", [False, True], ids=["while it is copied", "just before the multi"])
def test_what_others_do_meanwhile_comes_first(
    bench: Bench, meanwhile: Act, why: str, just_before: bool
) -> None:
    commands = stopped(bench)
    revised = revision(commands, "j")
    if just_before:
        bench.clients[-1].before_next_commit(lambda: meanwhile(bench.commands()))
    else:
        meanwhile(bench.commands())
    with pytest.raises(Conflict, match=why):
        commands.resume_from(revised)
    assert claimed_by(bench, "s3://bkt/new") is None


def test_a_revision_made_of_another_one_is_not_the_next(bench: Bench) -> None:
    commands = stopped(bench)
    revised = revision(commands, "j")
    commands.resume_from(revised)
    commands.suspend("j")
    bench.set_own("j", OwnState.EXITED)
    with pytest.raises(Conflict, match="changed by somebody else"):
        commands.resume_from(replace(revised, scheduling=terms("s3://bkt/3")))


def test_only_the_claim_of_the_very_uid_is_given_up(bench: Bench) -> None:
    commands = stopped(bench)
    path = bench.layout.checkpoint(digest("s3://bkt/old"))
    bench.put(path, CheckpointClaim(location="s3://bkt/old", name="j", uid="older"))
    commands.resume_from(revision(commands, "j"))
    assert claimed_by(bench, "s3://bkt/old") == "j"
