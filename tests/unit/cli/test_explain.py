"""``explain``: what the plan says of a fixed view, as text (a golden file) and as a document; its exit codes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients.store.files import FileStore
from supervisor.clock import boottime_s, wall_s
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.errors import Unreachable
from supervisor.model.actions import Assign, Drain
from supervisor.model.history import put_aside
from supervisor.model.records import (
    Acceptance,
    Cause,
    Cleanliness,
    Delay,
    Desired,
    HistoryEntry,
    LeaderHint,
    Member,
    Outcome,
    OwnState,
    Phase,
    Progress,
    QueryProgress,
    QueryState,
    Result,
    with_entry,
)
from supervisor.model.restart import RestartPolicy
from supervisor.model.seen import Found, Unreadable
from supervisor.model.view import SeenAcceptance, View
from supervisor.observe.listing import seconds_of
from supervisor.operations import scene
from supervisor.operations.explain_document import document_of
from supervisor.operations.explain_screen import lines_of, row_of
from supervisor.operations.explain_words import plain_lines
from supervisor.plan.decide import cell_of
from supervisor.plan.explain import Explainer, Explanation, explain_ended
from supervisor.plan.make import Policy, make_plan
from supervisor.plan.table import TABLE
from tests.fakes.registry_bench import AT, Bench
from tests.unit.cli.conftest import Terminal
from tests.unit.plan.rows import HOST, NOW_S, exited, job, lease, own, row, view

GOLDEN = Path(__file__).parents[2] / "golden" / "documents" / "explain.txt"
WALL_S = (seconds_of(AT) or 0.0) + 5
PROGRESS = Progress(
    query="counts",
    batch_id=41,
    input_rows_per_s=10.5,
    processed_rows_per_s=20.25,
    batch_ms=300.0,
    at=AT,
    lag=7.0,
)
FULL = Member(
    id="s1",
    host="host1",
    boot_id="boot",
    address="",
    memory=100,
    drivers=10,
    starting=2,
    software="",
    since="",
)
ALL_TAKEN = row(name="other", ref=job("other"), own=own(OwnState.CLAIMED), lease=lease(1.0))
KEYS = [
    "name",
    "uid",
    "state",
    "reason",
    "fine",
    "attempt",
    "host",
    "failures",
    "last_batch_at",
    "lease",
    "owned",
    "wanted",
    "rule",
    "action",
    "why",
    "held_by",
    "waits_for",
    "until",
    "then",
    "standby",
    "failed_update",
    "move",
    "absent_supervisor",
    "sinks",
    "hosts",
    "alarm",
    "last_exit",
    "diagnostics",
    "remedies",
]
CLUSTER_KEYS = ["leader", "epoch", "paused", "distrust", "alarms", "absent", "store_error"]
"""Scripts rely on these: add keys freely, change none without saying so."""
BACKOFF = RestartPolicy(jitter=0.0, initial_s=40.0)


def of(one: View, leader: str | None = "s1") -> Explanation:
    return Explainer(one, Policy(), NOW_S, leader).job("j")


def silent(by_s: float, **parts: object) -> View:
    return view(row(ref=job(), own=own(OwnState.CLAIMED), lease=lease(by_s), **parts))


def ended(outcome: Outcome, checkpoint: str | None = "s3a://bkt/j") -> Found[Result]:
    terms = job(checkpoint=checkpoint).record.terms
    return Found(
        Result(
            name="j",
            uid="u1",
            outcome=outcome,
            state=Cleanliness.CLEAN,
            revision=1,
            spec=None,
            terms=terms,
            attempt=2,
            claims=2,
            reason="why it ended",
            at=AT,
            submitted_at=AT,
            op="op",
        ),
        0,
    )


ACCEPTED = SeenAcceptance(
    Found(Acceptance(id="a1", epoch=9, by="root@host1", at=AT, wait_s=32.06), 0), 100, NOW_S - 2
)
WAITING = row(ref=job(restart=BACKOFF), own=exited(), own_seen_at_s=NOW_S - 10)
HALF = (
    QueryProgress(query="good", id="i1", state=QueryState.ACTIVE),
    QueryProgress(query="bad", id="i2", state=QueryState.FAILED, error="boom"),
)
FAILED_BEFORE = row(
    ref=job(),
    lease=lease(2.0),
    own=own(
        OwnState.CLAIMED,
        failures=2,
        history=with_entry((), AT, "user_error", 1, "exit code 1: ValueError: x"),
    ),
)
PERMANENT = {"permanent": True, "host": "host1"}
VIEWS: dict[str, View] = {
    "healthy": view(row(ref=job(), own=own(OwnState.CLAIMED), lease=lease(2.0, progress=PROGRESS))),
    "failed before, no batch yet": view(FAILED_BEFORE),
    "half of it failed": view(
        row(ref=job(), own=own(OwnState.CLAIMED), lease=lease(2.0, progress=PROGRESS, queries=HALF))
    ),
    "starting": view(row(ref=job(), own=own(OwnState.CLAIMED), lease=lease(2.0, phase=Phase.SESSION))),
    "silent": silent(20.0),
    "silent for the full wait": silent(33.0),
    "a new revision": view(row(ref=job(revision=2), own=own(OwnState.CLAIMED), lease=lease(2.0))),
    "never placed": view(row(ref=job(), own=own(OwnState.VACANT))),
    "no room": view(row(ref=job(), own=own(OwnState.VACANT)), ALL_TAKEN, members={"s1": FULL}),
    "no starting slot": view(
        row(ref=job(), own=own(OwnState.VACANT)),
        replace(ALL_TAKEN, lease=lease(1.0, phase=Phase.BEGUN)),
        members={"s1": replace(HOST, starting=1)},
    ),
    "no supervisor": view(row(ref=job(), own=own(OwnState.VACANT)), members={}),
    "paused": view(row(ref=job(), own=own(OwnState.VACANT)), paused=True),
    "not trusted": view(
        row(ref=job(), own=own(OwnState.VACANT)), distrust="ZooKeeper was restored to an older state"
    ),
    "not recorded": view(row(ref=job(), own=own(OwnState.VACANT)), recorded=False),
    "an accepted restore": view(row(ref=job(), own=own(OwnState.VACANT)), accepted=ACCEPTED),
    "assigned": view(row(ref=job(), own=own(OwnState.ASSIGNED), own_seen_at_s=NOW_S - 20)),
    "assigned to a host that cannot start it": view(
        row(ref=job(), own=own(OwnState.ASSIGNED), own_seen_at_s=NOW_S - 20),
        members={
            "s1": replace(
                HOST,
                delays=(
                    Delay(uid="u1", attempt=2, why="the checkpoint s3://bkt/j can't be looked at: no answer"),
                ),
            )
        },
    ),
    "back-off": view(WAITING),
    "back-off while paused": view(WAITING, paused=True),
    "back-off over": view(replace(WAITING, own_seen_at_s=NOW_S - 41)),
    "draining": view(row(ref=job(), own=own(OwnState.DRAINING), lease=lease(1.0))),
    "suspended": view(row(ref=job(desired=Desired.SUSPENDED), own=own(OwnState.VACANT))),
    "no Spark": view(row(ref=job(), own=exited(Cause.NO_SPARK, **PERMANENT))),
    "damaged in the store": view(row(ref=job(), own=exited(Cause.BAD_ARTIFACT, **PERMANENT))),
    "unreadable reference": view(row(ref=Unreadable("/jobs/j is no JSON", 1), own=own(OwnState.VACANT))),
    "unreadable ownership": view(row(ref=job(), own=Unreadable("/own/j is no JSON", 1))),
    "impossible": view(row(ref=job(), own=own(OwnState.CLAIMED, uid="u0"), lease=lease(2.0, uid="u0"))),
}


def test_the_text_is_the_golden_file() -> None:
    """REGENERATE_GOLDEN=1 writes it anew; then read what changed."""
    stories = {name: of(one) for name, one in VIEWS.items()}
    stories["nobody leads"] = of(VIEWS["never placed"], leader=None)
    for outcome in Outcome:
        stories[outcome.value] = explain_ended("j", "u1", ended(outcome), None)
    stories["unreadable result"] = explain_ended("j", "u1", Unreadable("/results/u1 is no JSON", 0), None)
    draining = row(own=own(OwnState.DRAINING))
    stories["cancelled, still stopping"] = explain_ended("j", "u1", ended(Outcome.CANCELLED), draining)
    text = "\n".join(_reported(name, explained) for name, explained in stories.items())
    if os.environ.get("REGENERATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def _reported(name: str, explained: Explanation) -> str:
    plain, verbose = plain_lines(explained, WALL_S), lines_of(explained, WALL_S)
    lines = [*(f"  {label:<13}{text}" if label else text for label, text in plain), "  -- with --verbose:"]
    return "\n".join([f"# {name}", *lines, *(f"  {label:<13}{text}" for label, text in verbose), ""])


@pytest.mark.parametrize("name", VIEWS)
def test_it_says_what_the_plan_does(name: str) -> None:
    """The action is the plan's own, and the rule is the cell of the table that decided it."""
    one, explained = VIEWS[name], of(VIEWS[name])
    planned = {action.name for action in make_plan(one, Policy(), NOW_S).actions}
    assert (explained.action is not None and explained.held_by is None) == ("j" in planned)
    if isinstance(one.rows["j"].ref, Unreadable):
        assert explained.cell is explained.rule is None  # left alone before any cell is looked up
    else:
        assert explained.cell == cell_of(one.rows["j"]) and explained.rule is TABLE[cell_of(one.rows["j"])]
    document = document_of(explained, WALL_S)
    assert document["fine"] is (name == "healthy") and document["name"] == "j"


def test_when_the_wait_is_over_the_plan_does_what_was_foretold() -> None:
    explained = of(VIEWS["back-off"])
    assert explained.wait_s == 30.0 and explained.then == "start attempt 3"
    later = make_plan(VIEWS["back-off"], Policy(), NOW_S + 30.0)
    assert [type(action) for action in later.actions] == [Assign]
    silence = of(VIEWS["silent"])
    assert silence.lease is not None and silence.then == "give up attempt 2"
    assert silence.wait_s == pytest.approx(silence.lease.full_wait_s - 20.0)
    assert [type(action) for action in make_plan(VIEWS["a new revision"], Policy(), NOW_S).actions] == [Drain]


def test_the_most_urgent_comes_first() -> None:
    def named(name: str, one: View) -> object:
        return replace(one.rows["j"], name=name, ref=one.rows["j"].ref)

    order = [
        "unreadable ownership",
        "impossible",
        "silent",
        "back-off",
        "never placed",
        "draining",
        "suspended",
        "healthy",
    ]
    rows = [named(f"{9 - n}", VIEWS[name]) for n, name in enumerate(order)]
    found = Explainer(view(*rows), Policy(), NOW_S, "s1").everything()  # type: ignore[arg-type]
    assert [one.name for one in found] == [f"{9 - n}" for n in range(len(order))]


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def bench(terminal: Terminal) -> Iterator[Bench]:
    terminal.submit("a")
    terminal.bench.join("host-a")
    terminal.bench.put(
        terminal.bench.layout.leader, LeaderHint(supervisor="host-a", epoch=7, address="host-a:8780")
    )
    yield terminal.bench


def test_a_healthy_job_is_said_to_be(terminal: Terminal, bench: Bench) -> None:
    bench.run("a", progress=PROGRESS)
    ran = terminal.run("explain", "a")
    assert ran.code == 0 and ran.out.startswith("a is running on host-a.example\n")
    assert "last batch   41 of counts" in ran.out and "it runs as wanted" in ran.out
    assert "jobs:    1 as wanted" in terminal.run("explain").out


def test_a_supervisor_that_is_gone_while_its_drivers_run_is_named(terminal: Terminal, bench: Bench) -> None:
    bench.run("a", progress=PROGRESS)
    bench.zoo.remove(bench.layout.supervisor("host-a"))
    bench.join("host-b")
    said = (
        "host-a on host-a.example is not connected: its driver runs on under its shim; what ends there is started on "
        "another host that has room. Start spark-supervisor there again"
    )
    for words in (["explain", "a"], ["explain"], ["status"]):
        assert said in " ".join(terminal.run(*words).out.split()), words
    assert terminal.run("explain", "a", "-o", "json").json["absent_supervisor"] == "host-a"
    absent = [{"id": "host-a", "host": "host-a.example", "drivers": 1}]
    assert terminal.run("status", "-o", "json").json["absent"] == absent
    bench.exit("a")  # nothing of it runs any more
    assert "not connected" not in terminal.run("explain", "a").out
    assert terminal.run("status", "-o", "json").json["absent"] == []


@pytest.mark.parametrize(
    ("silence_s", "told"), [(None, False), (73.0, False), (249.0, False), (251.0, True), (599.0, True)]
)
def test_a_running_job_that_shows_no_life_is_told_from_one_that_waits_for_its_trigger(
    terminal: Terminal, bench: Bench, silence_s: float | None, told: bool
) -> None:
    """Its driver is asked after 150 s, and once more 100 s later."""
    bench.run("a", progress=PROGRESS, silence_s=silence_s)
    out = terminal.run("explain", "a").out
    assert (
        ": no batch, no idle event, no other sign of life; health.stall_timeout (10m) ends" in out
    ) is told
    assert ("  silent  " in out) is told
    assert ("spark-supervisor stacks a " in out) is told and ("it runs as wanted" in out) is not told


@pytest.mark.parametrize("state", [QueryState.IDLE, QueryState.ACTIVE])
def test_a_job_that_has_caught_up_is_said_to_be_idle(
    terminal: Terminal, bench: Bench, state: QueryState
) -> None:
    bench.run("a", progress=PROGRESS, queries=(QueryProgress(query="counts", id="i", state=state),))
    out = " ".join(terminal.run("explain", "a").out.split())
    assert ("ago; it has caught up, and waits for data or its next trigger" in out) is (
        state is QueryState.IDLE
    )


def test_the_silence_of_a_job_with_a_short_stall_timeout_is_told_before_that_ends(
    terminal: Terminal, bench: Bench
) -> None:
    assert terminal.run("submit", terminal.spec("b", "health: {stall_timeout: 45s}")).code == 0
    for silence_s, told in ((18.0, False), (20.0, True), (44.0, True)):
        bench.run("b", progress=PROGRESS, silence_s=silence_s)
        out = terminal.run("explain", "b").out
        assert (f"for {silence_s:.0f}s: no batch, no idle event" in out) is told
        assert ("it runs as wanted" in out) is not told


def test_what_is_not_known_of_its_silence_is_not_said(terminal: Terminal, bench: Bench) -> None:
    """The store does not have its spec, so nobody knows when its driver is asked."""
    (terminal.home / "store" / bench.ref("a").record.spec.key).unlink()
    for silence_s, told in ((59.0, False), (73.0, True)):
        bench.run("a", progress=PROGRESS, silence_s=silence_s)
        out = terminal.run("explain", "a").out
        assert (
            "silent       no report for 1m 13s; its driver is asked after a quarter of health" in out
        ) is told
        assert "no batch, no idle event" not in out


def test_the_rule_and_what_it_rests_on_are_for_who_asks(terminal: Terminal, bench: Bench) -> None:
    bench.run("a", progress=PROGRESS)
    plain, verbose = terminal.run("explain", "a").out, terminal.run("explain", "a", "--verbose").out
    assert verbose.startswith(plain) and terminal.run("explain", "a", "-v").out == verbose
    for word in ("  rule         ownership claimed", "  lease        30s", "host-a (epoch "):
        assert word in verbose and word not in plain
    assert "(epoch" in terminal.run("explain", "-v").out and "(epoch" not in terminal.run("explain").out


@pytest.mark.parametrize("name", VIEWS)
def test_plain_english_has_no_word_of_the_plan_and_says_each_thing_once(name: str) -> None:
    explained = of(VIEWS[name])
    if explained.state == "quarantined":
        explained = replace(explained, remedies=())
    lines = [text for _, text in plain_lines(explained, WALL_S)]
    text = "\n".join(lines)
    for word in ("ownership", "lease", "shim", "epoch", "revoke", "full wait", "claim", "vacant", "×"):
        assert word not in text.replace("please", ""), text
    for error in (
        "user_error",
        "no_spark",
        "ValueError: x",
        "boom",
        "no JSON",
        "is paused",
        "not trusted",
        "no room",
        "no answer",
    ):
        assert text.count(error) <= 1, text
    if explained.error:
        assert explained.error.removeprefix("exit code 1: ") in text


def test_an_error_is_told_in_its_shortest_form() -> None:
    wrapped = (
        "exit code 1: ValueError: x | [STREAM_FAILED] Query [id = 1] terminated with exception: ValueError: x"
    )
    owner = own(
        OwnState.EXITED,
        cause=Cause.USER_ERROR,
        reason=wrapped,
        history=with_entry((), AT, "user_error", 2, wrapped),
    )
    one = view(replace(WAITING, own=owner))
    lines = dict(plain_lines(of(one), WALL_S))
    assert lines["why"] == "ValueError: x (attempt 2, 5s ago)" and "x" not in lines[""]


def test_what_only_seems_to_run_is_in_the_list_of_what_needs_a_look() -> None:
    for seems in ("failed before, no batch yet", "half of it failed"):
        explained = of(VIEWS[seems])
        assert explained.state == "running" and not explained.is_fine
        assert row_of(explained)[-1] == explained.reason
    assert of(VIEWS["healthy"]).is_fine


def test_the_table_says_why_there_is_no_place() -> None:
    assert row_of(of(VIEWS["no room"]))[-1] == of(VIEWS["no room"]).why != of(VIEWS["no room"]).reason


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_documents(terminal: Terminal, bench: Bench, form: str) -> None:
    import yaml

    bench.exit("a", Cause.NO_SPARK, permanent=True)
    one = yaml.safe_load(terminal.run("explain", "a", "-o", form).out)
    assert (one["state"], one["waits_for"], one["leader"]) == ("quarantined", "you", "host-a")
    assert one["remedies"][0]["command"] == "spark-supervisor resume a"
    assert list(one)[: len(KEYS)] == KEYS
    everything = yaml.safe_load(terminal.run("explain", "-o", form).out)
    assert list(everything) == [*CLUSTER_KEYS, "running", "jobs"]
    assert {key: value for key, value in one.items() if key in everything["jobs"][0]} == everything["jobs"][0]


def test_a_back_off_counts_from_the_exit_not_from_the_look(terminal: Terminal, bench: Bench) -> None:
    bench.exit("a")  # long ago
    assert terminal.run("explain", "a", "-o", "json").json["waits_for"] is None
    from supervisor.clock import wall_iso

    bench.exit("a", at=wall_iso(), failures=8)
    ran = terminal.run("explain", "a", "-o", "json").json
    assert (ran["state"], ran["waits_for"], ran["then"]) == ("backoff", "its back-off", "start attempt 2")


def test_after_a_conflict_the_other_driver_is_to_be_found_first(terminal: Terminal, bench: Bench) -> None:
    from supervisor.clock import wall_iso

    bench.exit("a", Cause.CHECKPOINT_CONFLICT, at=wall_iso(), failures=8)
    ran = terminal.run("explain", "a", "-o", "json").json
    assert ran["state"] == "backoff"
    assert "find the other driver on its checkpoint" in ran["remedies"][0]["note"]
    assert not any("restart" in (remedy["command"] or "") for remedy in ran["remedies"])


def test_an_unknown_name_is_3(terminal: Terminal) -> None:
    assert terminal.run("explain", "nobody").code == 3  # nothing was ever submitted
    terminal.submit("a")
    for name in ("nobody", "No_Name", "../cluster"):
        ran = terminal.run("explain", name)
        assert ran.code == 3 and name in ran.err and ran.out == ""


def test_an_ended_job_says_what_it_takes(terminal: Terminal, bench: Bench) -> None:
    bench.fail("a")
    assert "spark-supervisor resume a" in terminal.run("explain", "a").out
    assert [one["state"] for one in terminal.run("explain", "-o", "json").json["jobs"]] == ["failed"]
    terminal.run("cancel", "a")
    assert "spark-supervisor submit SPEC.yaml" in terminal.run("explain", "a").out
    assert terminal.run("explain", "-o", "json").json["jobs"] == []


def test_a_store_that_knows_younger_epochs_is_said(terminal: Terminal, bench: Bench) -> None:
    from supervisor.coord.epoch_marks import epoch_key
    from supervisor.model.records import EpochRecord

    bench.put(bench.layout.epoch, EpochRecord(epoch=7, supervisor="host-a", op="op"))
    epochs = terminal.home / "store" / "epochs"
    epochs.mkdir(exist_ok=True)
    assert "yet to be noted in the store" in terminal.run("explain", "a").out
    (terminal.home / "store" / epoch_key(9)).write_text("{}")
    ran = terminal.run("explain", "a", "-o", "json").json
    assert ran["distrust"] and "epoch 9" in ran["held_by"]


def test_a_term_of_the_store_that_this_registry_did_not_have_is_said(
    terminal: Terminal, bench: Bench
) -> None:
    """As the leader judges it (``coord.trust: judge_epochs``): the number alone does not tell."""
    from supervisor.model.records import EpochRecord, LedTerm

    terms = tuple(LedTerm(number, "host-a", f"op{number}") for number in (6, 7))
    bench.put(bench.layout.epoch, EpochRecord(epoch=7, supervisor="host-a", op="op7", recent=terms))
    marks = EpochMarks(FileStore(terminal.home / "store"))
    marks.record_epoch(5, "host-b", "op5")
    assert "does not remember epoch 5" in terminal.run("explain", "a", "-o", "json").json["held_by"]
    marks.record_epoch(7, "host-b", "another")
    assert (
        "epoch 7 in the store was led by another term"
        in terminal.run("explain", "a", "-o", "json").json["held_by"]
    )


def test_an_election_while_the_store_is_asked_is_no_doubt(
    terminal: Terminal, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from supervisor.model.records import EpochRecord, LedTerm

    def put(epoch: int) -> None:
        terms = tuple(LedTerm(number, "host-a", f"op{number}") for number in range(epoch + 1))
        bench.put(
            bench.layout.epoch, EpochRecord(epoch=epoch, supervisor="host-a", op=f"op{epoch}", recent=terms)
        )

    def elected(marks: EpochMarks, above: int) -> int | None:
        if not elections:
            elections.append(8)
            put(8)
            marks.record_epoch(8, "host-a", "op8")
        return newest(marks, above)

    put(7)
    elections: list[int] = []
    newest = EpochMarks.newest_epoch_above
    monkeypatch.setattr(EpochMarks, "newest_epoch_above", elected)
    assert terminal.run("explain", "a", "-o", "json").json["distrust"] is None
    assert elections


def test_the_wait_for_a_store_that_does_not_answer_is_no_silence_of_the_driver(
    terminal: Terminal, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease was read before the store was asked, which took 20 s of a lease of 30 s."""
    from supervisor.model.records import EpochRecord

    def no_answer(_marks: EpochMarks, _above: int) -> int | None:
        waited_s.append(20.0)
        raise Unreachable("no answer in time")

    bench.put(bench.layout.epoch, EpochRecord(epoch=7, supervisor="host-a", op="op7"))
    bench.run("a", progress=PROGRESS)
    waited_s: list[float] = []
    monkeypatch.setattr(EpochMarks, "newest_epoch_above", no_answer)
    monkeypatch.setattr(scene, "boottime_s", lambda: boottime_s() + sum(waited_s))
    monkeypatch.setattr(scene, "wall_s", lambda: wall_s() + sum(waited_s))
    ran = terminal.run("explain", "a")
    assert waited_s and "no answer in time" in ran.err
    assert "nothing was heard of it" not in ran.out and "a is running on" in ran.out


# -- history ----------------------------------------------------------------------------------------------------------


def test_history_is_newest_last_from_the_submit_to_the_end(terminal: Terminal, bench: Bench) -> None:
    history = with_entry(with_entry((), AT, "assigned", 1, "to host-a"), AT, "claimed", 1, "host-a")
    bench.set_own("a", OwnState.CLAIMED, history=history)
    terminal.run("cancel", "a")
    story = terminal.run("history", "a", "-o", "json").json["uids"]
    assert len(story) == 1 and story[0]["state"] == "cancelled"
    entries = story[0]["history"]
    assert {"submitted", "assigned", "claimed", "cancelled"} == {entry["event"] for entry in entries}
    assert entries[-1]["event"] == "cancelled" and set(entries[0]) == {
        "at",
        "event",
        "attempt",
        "detail",
        "by",
    }
    assert "cancelled" in terminal.run("history", "a").out


def crashed(attempts: int) -> dict[str, Any]:
    """The records of a job that fails and fails, as a leader leaves them."""
    all_entries: list[HistoryEntry] = []
    for number in range(1, attempts + 1):
        at = f"2099-11-22T00:00:{number % 60:02d}.000Z"
        all_entries += [
            HistoryEntry(at=at, event="assigned", attempt=number, detail="to host-a"),
            HistoryEntry(at=at, event="claimed", attempt=number, detail="host-a"),
        ]
        all_entries += [
            HistoryEntry(at=at, event="user_error", attempt=number, detail=f"exit code 1: pid {number} fell")
        ]
    return {"history": tuple(all_entries[-7:]), "attempt": attempts, "earlier": all_entries[:-7]}


def test_history_has_a_series_of_failures_as_one_line(terminal: Terminal, bench: Bench) -> None:
    uid, records = bench.own("a").newest_uid, crashed(40)
    earlier = put_aside(records.pop("earlier"), "", uid, 1500)
    bench.set_own("a", OwnState.EXITED, cause=Cause.USER_ERROR, earlier=earlier, **records)
    (story,) = terminal.run("history", "a", "-o", "json").json["uids"]
    (series,) = (entry for entry in story["history"] if "count" in entry)
    assert series == {
        "at": "2099-11-22T00:00:01.000Z",
        "event": "user_error",
        "attempt": 1,
        "detail": "exit code 1: pid 1 fell",
        "by": None,
        "count": 37,
        "last_at": "2099-11-22T00:00:37.000Z",
        "last_attempt": 37,
        "omitted": 0,
    }
    assert [entry["event"] for entry in story["history"]][-6:] == 2 * ["assigned", "claimed", "user_error"]
    line = r"2099-11-22T00:00:01\.000Z +user_error +1-37 +37 times until 2099-11-22T00:00:37\.000Z: exit code 1: pid 1 fell\n"
    for command in ("history", "show"):
        assert re.search(line, terminal.run(command, "a").out)
    assert terminal.run("show", "a", "-o", "json").json["history"] == story["history"]


def test_show_has_the_newest_entries_and_the_first_failure(terminal: Terminal, bench: Bench) -> None:
    uid = bench.own("a").newest_uid
    all_entries = [
        HistoryEntry(
            at=f"2099-11-22T00:{number:02d}:00.000Z",
            event=("user_error", "killed")[number % 2],
            attempt=number,
            detail=f"words {number}",
        )
        for number in range(1, 59)
    ]
    earlier = put_aside(all_entries[:-7], "", uid, 1500)
    bench.set_own(
        "a",
        OwnState.EXITED,
        cause=Cause.KILLED,
        attempt=58,
        history=tuple(all_entries[-7:]),
        earlier=earlier,
    )
    shown = terminal.run("show", "a").out
    assert re.search(r"killed +1 +words 1\n", shown) and not re.search(r"user_error +2 ", shown)
    assert "38 older entries are left out: spark-supervisor history a\n" in shown
    for whole in (terminal.run("show", "a", "--all").out, terminal.run("history", "a").out):
        assert re.search(r"user_error +2 +words 2\n", whole) and "left out" not in whole


def test_history_of_older_uids(terminal: Terminal, bench: Bench) -> None:
    first = bench.own("a").newest_uid
    terminal.run("cancel", "a")
    second = terminal.submit("a")
    assert [one["uid"] for one in terminal.run("history", "a", "-o", "json").json["uids"]] == [second]
    assert [one["uid"] for one in terminal.run("history", "a", "--all", "-o", "json").json["uids"]] == [
        first,
        second,
    ]
    assert [
        one["uid"] for one in terminal.run("history", "a", "--uid", first, "-o", "json").json["uids"]
    ] == [first]
    assert terminal.run("history", "a", "--uid", "nonsense").code == 3
    assert terminal.run("history", "a", "--uid", first, "--all").code == 2
    assert terminal.run("history", "nobody").code == 3


def test_clocks_that_differ_do_not_mix_up_what_happened_to_an_attempt() -> None:
    from supervisor.model.records import HistoryEntry, JobRef, Ownership
    from supervisor.model.state import history_of

    ring = (
        HistoryEntry(at="10:02", event="assigned", attempt=1),
        HistoryEntry(at="10:01", event="claimed", attempt=1),
        HistoryEntry(at="10:05", event="user_error", attempt=1),
    )
    record: JobRef = replace(
        job().record, submitted_at="10:00", changed=HistoryEntry(at="10:04", event="restarted")
    )
    owner: Ownership = replace(own(OwnState.EXITED).record, history=ring)
    events = [entry.event for entry in history_of(record, owner, None, "u1")]
    assert events == ["submitted", "assigned", "claimed", "restarted", "user_error"]
