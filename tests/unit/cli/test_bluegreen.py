"""``fork``, ``compare`` and ``promote`` on a file store: what they do, say and refuse, and interrupted at every change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.bluegreen import fork as fork_module
from supervisor.bluegreen import promote as promote_module
from supervisor.model.checkpoint_expectation import SeenQuery, pairs_of
from supervisor.model.records import Cause, CheckpointClaim, Desired, JobRef, OwnState
from supervisor.model.seen import Found
from supervisor.operations import waiting
from supervisor.savepoints import operations
from supervisor.spec.job import from_canonical
from tests.fakes.zookeeper import MemoryClient
from tests.unit.checkpoint.golden import inspected, only, unpack, write
from tests.unit.checkpoint.savepoints import Dying, Killed, Life, contents
from tests.unit.cli.conftest import Terminal
from tests.unit.clients.test_environment_archive import PYTHON, packed

ARGS = "args: [--out, 'file:///out/{job}', --checkpoint, '{checkpoint}']\n"


@pytest.fixture
def checkpoint(terminal: Terminal, tmp_path: Path) -> Path:
    """Of the job ``clicks``, which runs: it reads files, and has committed batch 2."""
    found = unpack("files", tmp_path)
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {found}\n{ARGS}")).code == 0
    terminal.bench.run("clicks")
    return found


@pytest.fixture
def forked(terminal: Terminal, checkpoint: Path) -> Path:
    """``clicks-2`` is a fork of ``clicks``, and runs. Its checkpoint."""
    assert terminal.run("fork", "clicks", "clicks-2").code == 0
    terminal.bench.run("clicks-2")
    return Path(ref(terminal, "clicks-2").terms.checkpoint or "")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait sleeps."""
    monkeypatch.setattr(waiting, "sleep", lambda _s: None)


def ref(terminal: Terminal, name: str) -> JobRef:
    record: JobRef = terminal.bench.ref(name).record
    return record


def spec_of(terminal: Terminal, name: str) -> Any:
    job = ref(terminal, name)
    return from_canonical((terminal.home / "store" / job.spec.key).read_bytes(), job.spec.key)


def go_on(checkpoint: Path, batch: int, *files: str) -> None:
    """The query commits a batch that has read ``files``."""
    before = (checkpoint / f"offsets/{batch - 1}").read_text()
    lines = [json.dumps({"path": f"file:///in/{each}", "timestamp": 1, "batchId": batch}) for each in files]
    write(checkpoint, f"sources/0/{batch}", "\n".join(["v1", *lines]).encode())
    write(
        checkpoint,
        f"offsets/{batch}",
        before.replace(f'{{"logOffset":{batch - 1}}}', f'{{"logOffset":{batch}}}').encode(),
    )
    write(checkpoint, f"commits/{batch}", (checkpoint / f"commits/{batch - 1}").read_bytes())


def claims(terminal: Terminal) -> dict[str, str]:
    """Location → name."""
    layout = terminal.bench.layout
    paths = [path for path in terminal.bench.zoo.tree() if path.startswith(f"{layout.checkpoints}/")]
    found = [terminal.bench.record(CheckpointClaim, path) for path in paths]
    return {each.record.location: each.record.name for each in found if isinstance(each, Found)}


# -- fork -----------------------------------------------------------------------------------------------------------


def test_a_fork_has_the_spec_a_copy_of_the_checkpoint_and_files_of_its_own(
    terminal: Terminal, checkpoint: Path
) -> None:
    before = contents(checkpoint)
    ran = terminal.run("fork", "clicks", "clicks-2", "--set", "resources.memory=3g", "-o", "json")
    assert ran.code == 0, ran.err
    job = ref(terminal, "clicks-2")
    copy = Path(job.terms.checkpoint or "")
    assert ran.json == {
        "name": "clicks-2",
        "uid": job.uid,
        "did": "forked",
        "of": "clicks",
        "savepoint": job.fork.savepoint if job.fork else None,
        "checkpoint": str(copy),
    }
    assert copy.parent == checkpoint.parent and copy.name.startswith(f"{checkpoint.name}.fork-clicks-2-")
    assert only(inspected(copy)).commits.newest == 2 and contents(checkpoint) == before
    assert job.desired is Desired.RUNNING and job.fresh_start == job.op
    assert job.fork is not None and (job.fork.of, job.fork.copying) == ("clicks", False)
    assert only(inspected(copy)).id != only(inspected(checkpoint)).id, (
        "what a sink remembers of the one is not the other's"
    )
    assert job.begins_with == pairs_of([SeenQuery(only(inspected(copy)).id, 2)])
    spec, old = spec_of(terminal, "clicks-2"), spec_of(terminal, "clicks")
    assert (spec.resources.memory_bytes, spec.name, spec.application) == (
        3 << 30,
        "clicks-2",
        old.application,
    )
    assert spec.application_args()[1] == "file:///out/clicks-2" and spec.application_args()[3] == str(copy)
    key = spec.application.removeprefix("store:")
    assert (terminal.home / f"store/artifacts/clicks-2/{job.uid}/{key}").read_text() == "print('hello')\n"
    assert claims(terminal) == {f"file://{checkpoint}": "clicks", f"file://{copy}": "clicks-2"}
    assert terminal.run("savepoint", "list", "clicks").out.count("complete") == 1


def test_a_fork_has_the_spark_and_an_environment_of_its_own(terminal: Terminal, tmp_path: Path) -> None:
    packed(terminal.home / "env.tar.gz", PYTHON)
    found, more = unpack("files", tmp_path), 'python: {archive: env.tar.gz}\nspark: "4.1"'
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {found}\n{ARGS}\n{more}")).code == 0
    terminal.bench.run("clicks")
    ran = terminal.run("fork", "clicks", "clicks-2")
    assert ran.code == 0, ran.err
    spec, old = spec_of(terminal, "clicks-2"), spec_of(terminal, "clicks")
    assert (spec.python, spec.spark) == (old.python, "4.1")
    key = spec.python.archive.removeprefix("store:")
    stored = terminal.home / f"store/artifacts/clicks-2/{ref(terminal, 'clicks-2').uid}/{key}"
    assert stored.read_bytes() == (terminal.home / "env.tar.gz").read_bytes()


def test_given_again_it_changes_nothing(terminal: Terminal, forked: Path) -> None:
    before = ref(terminal, "clicks-2")
    ran = terminal.run("fork", "clicks", "clicks-2")
    assert (ran.code, ran.out.startswith("clicks-2: unchanged")) == (0, True)
    assert ref(terminal, "clicks-2") == before
    other = terminal.run("fork", "clicks", "clicks-2", "--set", "lease=20s")
    assert (other.code, "another spec" in other.err) == (4, True)


def test_a_fork_from_an_older_savepoint_at_a_place_of_ones_own(terminal: Terminal, checkpoint: Path) -> None:
    terminal.run("savepoint", "create", "clicks", "one")
    go_on(checkpoint, 3, "3.txt")
    to = terminal.home / "mine"
    ran = terminal.run(
        "fork", "clicks", "clicks-2", "--from-savepoint", "one", "--set", f"checkpoint={to}", "--suspended"
    )
    assert ran.code == 0, ran.err
    assert only(inspected(to)).commits.newest == 2
    assert ref(terminal, "clicks-2").desired is Desired.SUSPENDED
    assert terminal.run("resume", "clicks-2").code == 0
    assert ref(terminal, "clicks-2").begins_with


def test_a_savepoint_that_is_gone_registers_nothing(terminal: Terminal, checkpoint: Path) -> None:
    ran = terminal.run("fork", "clicks", "clicks-2", "--from-savepoint", "gone")
    assert ran.code == 3 and "gone" in ran.err
    assert not terminal.bench.has(terminal.bench.layout.job("clicks-2"))


def test_a_checkpoint_without_a_batch_registers_nothing(terminal: Terminal, checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "commits")
    ran = terminal.run("fork", "clicks", "clicks-2")
    assert (ran.code, "committed a batch yet" in ran.err) == (4, True)
    assert not terminal.bench.has(terminal.bench.layout.job("clicks-2"))


@pytest.mark.parametrize(
    ("given", "code", "word"),
    [
        (("clicks",), 2, "a name of its own"),
        (("other",), 4, "registered already: choose another name"),
        (("clicks-2", "--set", "name=x"), 2, "second argument"),
        (("clicks-2", "--set", "checkpoint={checkpoint}/below"), 4, "overlaps"),
        (("clicks-2", "--set", "checkpoint={full}"), 4, "is not empty"),
        (("clicks-2", "--set", "lease"), 2, "is not KEY=VALUE"),
        (("clicks-2", "--set", "lease=xyz"), 2, "--set lease"),
        (("clicks-2", "--set", "args=['{checkpoint}']"), 4, "names"),
        (
            ("clicks-2", "--set", "args=[--out, 'file:///out/clicks', --checkpoint, '{{checkpoint}}']"),
            4,
            "same sink",
        ),
        (("Clicks_2",), 3, "lower-case"),
        (("clicks-2", "--set", "application=none.py"), 2, "none.py does not exist"),
    ],
)
def test_what_a_fork_refuses_it_refuses_before_anything_is_registered(
    terminal: Terminal, checkpoint: Path, given: tuple[str, ...], code: int, word: str
) -> None:
    full = terminal.home / "full"
    full.mkdir()
    (full / "mine").write_text("x")
    terminal.submit("other")
    before = set(terminal.bench.zoo.tree())
    ran = terminal.run("fork", "clicks", *(each.format(checkpoint=checkpoint, full=full) for each in given))
    assert (ran.code, word in ran.err) == (code, True), ran.err
    assert set(terminal.bench.zoo.tree()) == before
    assert not (terminal.home / "store/savepoints").exists()


def test_the_same_sink_is_refused_unless_it_is_said_to_be_shared(terminal: Terminal, tmp_path: Path) -> None:
    found = unpack("files", tmp_path)
    terminal.run("submit", terminal.spec("plain", f"checkpoint: {found}\nargs: [--out, x, '{{checkpoint}}']"))
    ran = terminal.run("fork", "plain", "plain-2", "--set", "conf.spark.x=1")
    assert (ran.code, "same sink" in ran.err, "{job}" in ran.err) == (4, True, True)
    ran = terminal.run("fork", "plain", "plain-2", "--set", "env.SINK=b")
    assert (ran.code, "Only its owner knows" in ran.err) == (4, True), "a changed word is no other sink"
    assert terminal.run("fork", "plain", "plain-2", "--set", "env.SINK=b", "--sink-rolled-back").code == 0
    ran = terminal.run("fork", "plain", "plain-3", "--shared-sink")
    assert (ran.code, "Only its owner knows" in ran.err) == (4, True)
    assert terminal.run("fork", "plain", "plain-3", "--shared-sink", "--sink", "transactional").code == 0


def test_the_place_of_an_unregistered_job_is_not_forked(terminal: Terminal, checkpoint: Path) -> None:
    terminal.run("cancel", "clicks")
    ran = terminal.run("fork", "clicks", "clicks-2")
    assert (ran.code, "only a registered job" in ran.err) == (4, True)
    assert terminal.run("fork", "nobody", "clicks-2").code == 3


def test_a_fork_whose_copy_is_not_complete_cannot_be_started(
    terminal: Terminal, checkpoint: Path, monkeypatch: Any
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(fork_module, "restore_to", killed)
        terminal.run("fork", "clicks", "clicks-2")
    for verb in ("resume", "restart"):
        ran = terminal.run(verb, "clicks-2")
        assert (ran.code, "not complete yet" in ran.err, "cancel clicks-2" in ran.err) == (4, True, True)
    assert ref(terminal, "clicks-2").desired is Desired.SUSPENDED
    assert "still being copied" in terminal.run("fork", "clicks-2", "clicks-3").err
    ran = terminal.run("fork", "clicks", "clicks-2", "--from-savepoint", "other")
    assert (ran.code, "not from other" in ran.err) == (4, True)
    assert terminal.run("fork", "clicks", "clicks-2").code == 0
    assert ref(terminal, "clicks-2").desired is Desired.RUNNING


def killed(*_: Any, **__: Any) -> Any:
    raise Killed


def dies(monkeypatch: pytest.MonkeyPatch, life: Life) -> None:
    """Every change of the registry or of a checkpoint counts; the process dies where ``life`` ends."""
    commit, opened = MemoryClient.commit, operations.open_area
    monkeypatch.setattr(MemoryClient, "commit", lambda client, tx: life.change(lambda: commit(client, tx)))
    monkeypatch.setattr(operations, "open_area", lambda *given, **more: Dying(opened(*given, **more), life))


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_change_a_fork_goes_on_when_it_is_given_again(
    terminal: Terminal, checkpoint: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run dies some changes later than the one before, and the next one begins with what that has left. The copies, which
    are most of them, are killed one by one in ``tests/unit/savepoints``."""
    for at in range(1 if after else 0, 200, 3):
        name = f"fork-{at}"
        with monkeypatch.context() as patch:
            dies(patch, Life(at, after=after))
            try:
                assert terminal.run("fork", "clicks", name).code == 0
                break
            except Killed:
                pass
        if terminal.bench.has(terminal.bench.layout.job(name)):
            job = ref(terminal, name)
            assert job.fork is not None and (job.desired is Desired.SUSPENDED) == job.fork.copying
        assert terminal.run("fork", "clicks", name).code == 0
        job = ref(terminal, name)
        assert job.fork is not None and not job.fork.copying and job.desired is Desired.RUNNING
        assert only(inspected(Path(job.terms.checkpoint or ""))).commits.newest == 2
        assert terminal.run("cancel", name).code == 0
    else:
        raise AssertionError("it never ends")
    assert at > 20


# -- compare --------------------------------------------------------------------------------------------------------


def test_files_are_compared_one_by_one_whatever_their_batches(
    terminal: Terminal, checkpoint: Path, forked: Path
) -> None:
    assert terminal.run("compare", "clicks", "clicks-2", "-o", "json").json["order"] == "equal"
    go_on(checkpoint, 3, "a.txt")
    go_on(checkpoint, 4, "b.txt")
    ran = terminal.run("compare", "clicks", "clicks-2", "-o", "json")
    (query,) = ran.json["offsets"]
    assert (ran.json["order"], query["batch"], query["new_batch"]) == ("behind", 4, 2)
    assert query["sources"][0]["parts"] == [
        {"part": "files of its own", "offset": 2, "new_offset": 0, "order": "behind"}
    ]
    go_on(forked, 3, "b.txt", "a.txt")  # one batch for both: its log has fewer entries
    assert terminal.run("compare", "clicks", "clicks-2", "-o", "json").json["order"] == "equal"
    go_on(forked, 4, "c.txt")
    ran = terminal.run("compare", "clicks", "clicks-2")
    assert ran.out.splitlines()[-1] == "clicks-2 is ahead of clicks"
    assert terminal.run("compare", "clicks-2", "clicks").out.splitlines()[-1] == "clicks is behind clicks-2"


def test_jobs_that_have_no_query_in_common_are_not_compared(terminal: Terminal, checkpoint: Path) -> None:
    other = unpack("join", terminal.home)
    terminal.run("submit", terminal.spec("other", f"checkpoint: {other}"))
    ran = terminal.run("compare", "clicks", "other")
    assert ran.code == 0 and "has none of this id" in ran.out
    assert "not to be compared with clicks" in ran.out
    assert terminal.run("compare", "clicks", "nobody").code == 3


def test_a_checkpoint_that_is_gone_is_told_beside_the_rest(
    terminal: Terminal, checkpoint: Path, forked: Path
) -> None:
    (forked / "metadata").unlink()
    ran = terminal.run("compare", "clicks", "clicks-2")
    assert ran.code == 0 and "offsets: not compared: " in ran.out and "running" in ran.out
    assert terminal.run("compare", "clicks", "clicks-2", "-o", "json").json["order"] is None


# -- promote --------------------------------------------------------------------------------------------------------


def test_a_fork_that_has_caught_up_takes_the_place(terminal: Terminal, forked: Path) -> None:
    ran = terminal.run("promote", "clicks-2", "--over", "clicks")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("clicks-2: promoted over clicks (")
    old, new = ref(terminal, "clicks"), ref(terminal, "clicks-2")
    assert (old.desired, new.desired) == (Desired.SUSPENDED, Desired.RUNNING)
    assert new.promotion is not None and new.promotion.done and new.promotion.over == "clicks"
    assert old.changed.detail == "clicks-2 was promoted over it"
    assert terminal.bench.own("clicks").state is OwnState.DRAINING
    assert terminal.bench.own("clicks-2").state is OwnState.CLAIMED
    again = terminal.run("promote", "clicks-2", "--over", "clicks")
    assert (again.code, "already promoted" in again.out) == (0, True)
    assert ref(terminal, "clicks") == old


def test_it_waits_for_what_the_other_had_at_the_call_and_no_more(
    terminal: Terminal, checkpoint: Path, forked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on(checkpoint, 3, "a.txt")
    steps = iter(
        [
            lambda: go_on(checkpoint, 4, "later.txt"),  # which it need not have read
            lambda: go_on(forked, 3, "a.txt"),
        ]
    )
    monkeypatch.setattr(waiting, "sleep", lambda _s: next(steps, lambda: None)())
    ran = terminal.run("promote", "clicks-2", "--over", "clicks")
    assert ran.code == 0, ran.err
    assert ran.err.count("behind by 1 files") == 1 and "caught up" in ran.err
    assert next(steps, None) is None


def test_one_that_never_catches_up_is_not_promoted_and_its_intent_stays(
    terminal: Terminal, checkpoint: Path, forked: Path
) -> None:
    go_on(checkpoint, 3, "a.txt")
    ran = terminal.run("promote", "clicks-2", "--over", "clicks", "--timeout", "0s")
    assert (ran.code, "has not caught up with clicks" in ran.err) == (7, True)
    assert "the same command goes on" in ran.err and "promote --undo clicks clicks-2 withdraws" in ran.err
    intent = ref(terminal, "clicks-2").promotion
    assert intent is not None and not intent.done and intent.offsets
    assert ref(terminal, "clicks").desired is Desired.RUNNING
    go_on(checkpoint, 4, "later.txt")
    go_on(forked, 3, "a.txt")
    assert (
        terminal.run("promote", "clicks-2", "--over", "clicks").code == 0
    )  # with the offsets of the first call
    after = ref(terminal, "clicks-2").promotion
    assert after is not None and after.offsets == intent.offsets


def test_an_intent_is_for_one_job_and_can_be_withdrawn(
    terminal: Terminal, checkpoint: Path, forked: Path
) -> None:
    terminal.submit("other")
    go_on(checkpoint, 3, "a.txt")
    terminal.run("promote", "clicks-2", "--over", "clicks", "--timeout", "0s")
    ran = terminal.run("promote", "clicks-2", "--over", "other", "--when", "now")
    assert (ran.code, "over clicks already" in ran.err) == (4, True)
    assert "promote --undo clicks clicks-2 withdraws that" in ran.err
    ran = terminal.run("promote", "--undo", "clicks", "clicks-2")
    assert (ran.code, "promotion withdrawn" in ran.out) == (0, True)
    assert (
        ref(terminal, "clicks-2").promotion is None and ref(terminal, "clicks-2").desired is Desired.RUNNING
    )
    assert terminal.run("promote", "--undo", "clicks", "clicks-2").code == 4


def test_an_intent_over_a_job_that_is_gone_can_be_withdrawn(
    terminal: Terminal, checkpoint: Path, forked: Path
) -> None:
    go_on(checkpoint, 3, "a.txt")
    terminal.run("promote", "clicks-2", "--over", "clicks", "--timeout", "0s")
    terminal.run("cancel", "clicks")
    assert terminal.run("promote", "clicks-2", "--over", "clicks").code == 4
    assert terminal.run("promote", "--undo", "clicks", "clicks-2").code == 0


def test_offsets_without_an_order_need_the_operators_word(
    terminal: Terminal, checkpoint: Path, forked: Path
) -> None:
    for each in (checkpoint, forked):
        text = (each / "offsets/2").read_text().replace('{"logOffset":2}', '{"shard":"abc"}')
        write(each, "offsets/2", text.encode())
    ran = terminal.run("promote", "clicks-2", "--over", "clicks")
    assert (ran.code, "no known order" in ran.err, "--when now" in ran.err) == (4, True, True)
    assert ref(terminal, "clicks-2").promotion is None
    assert terminal.run("promote", "clicks-2", "--over", "clicks", "--when", "now").code == 0


def exits(terminal: Terminal) -> None:
    terminal.bench.exit("clicks-2")


def is_suspended(terminal: Terminal) -> None:
    assert terminal.run("suspend", "clicks-2").code == 0


def is_cancelled(terminal: Terminal) -> None:
    assert terminal.run("cancel", "clicks-2").code == 0


def is_withdrawn(terminal: Terminal) -> None:
    assert terminal.run("promote", "--undo", "clicks", "clicks-2").code == 0


def other_is_cancelled(terminal: Terminal) -> None:
    assert terminal.run("cancel", "clicks").code == 0


def other_is_suspended(terminal: Terminal) -> None:
    assert terminal.run("suspend", "clicks").code == 0


MEANWHILE = (exits, is_suspended, is_cancelled, is_withdrawn, other_is_cancelled, other_is_suspended)


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_what_happens_while_the_hook_runs_is_seen_before_anything_is_suspended(
    terminal: Terminal, forked: Path, meanwhile: Callable[[Terminal], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = promote_module.run_hook

    def then(*given: Any) -> None:
        hook(*given)
        meanwhile(terminal)

    monkeypatch.setattr(promote_module, "run_hook", then)
    ran = terminal.run("promote", "clicks-2", "--over", "clicks", "--hook", "true")
    assert (ran.code, "the hook has run" in ran.err) == (4, True), ran.err
    job = terminal.bench.record(JobRef, terminal.bench.layout.job("clicks"))
    if meanwhile is not other_is_cancelled and meanwhile is not other_is_suspended:
        assert isinstance(job, Found) and job.record.desired is Desired.RUNNING
        assert terminal.bench.own("clicks").state is OwnState.CLAIMED


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_what_happens_between_the_reading_and_the_write_makes_the_write_fail(
    terminal: Terminal, forked: Path, meanwhile: Callable[[Terminal], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, done = MemoryClient.commit, []

    def late(client: MemoryClient, tx: Any) -> Any:
        if tx.what == "promote" and not done:
            done.append(tx)
            meanwhile(terminal)
        return commit(client, tx)

    monkeypatch.setattr(MemoryClient, "commit", late)
    ran = terminal.run("promote", "clicks-2", "--over", "clicks")
    assert (ran.code, len(done)) == (4, 1), ran.err
    new = terminal.bench.record(JobRef, terminal.bench.layout.job("clicks-2"))
    old = terminal.bench.record(JobRef, terminal.bench.layout.job("clicks"))
    running = [
        each for each in (old, new) if isinstance(each, Found) and each.record.desired is Desired.RUNNING
    ]
    assert running, "neither is to run any more"
    assert not (isinstance(new, Found) and new.record.promotion and new.record.promotion.done)


@pytest.mark.parametrize(
    ("hook", "word"),
    [("exit 3", "ended with 3"), ("kill -9 $$", "signal 9"), ("sleep 60", "did not end within 0.2 s")],
)
def test_a_hook_that_fails_or_hangs_changes_nothing(
    terminal: Terminal, forked: Path, hook: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promote_module, "HOOK_MAX_S", 0.2 if hook.startswith("sleep") else 60.0)
    ran = terminal.run("promote", "clicks-2", "--over", "clicks", "--hook", hook)
    assert (ran.code, word in ran.err, "no job was changed" in ran.err) == (1, True, True), ran.err
    assert ref(terminal, "clicks").desired is Desired.RUNNING
    intent = ref(terminal, "clicks-2").promotion
    assert intent is not None and not intent.done
    assert terminal.run("promote", "clicks-2", "--over", "clicks", "--hook", "true").code == 0


def test_a_hook_is_told_which_jobs_and_uids(terminal: Terminal, forked: Path) -> None:
    told = terminal.home / "told"
    hook = f"env | grep ^SPARK_SUPERVISOR_HOOK | sort > {told}"
    assert terminal.run("promote", "clicks-2", "--over", "clicks", "--hook", hook).code == 0
    uids = [ref(terminal, name).uid for name in ("clicks-2", "clicks")]
    expected = [
        "SPARK_SUPERVISOR_HOOK=promote",
        "SPARK_SUPERVISOR_HOOK_NEW=clicks-2",
        f"SPARK_SUPERVISOR_HOOK_NEW_UID={uids[0]}",
        "SPARK_SUPERVISOR_HOOK_OVER=clicks",
        f"SPARK_SUPERVISOR_HOOK_OVER_UID={uids[1]}",
    ]
    assert told.read_text().splitlines() == expected
    assert terminal.run("promote", "--undo", "clicks", "clicks-2", "--hook", hook).code == 0
    assert told.read_text().splitlines() == ["SPARK_SUPERVISOR_HOOK=undo", *expected[1:]]


def test_an_undo_runs_the_one_and_suspends_the_other(terminal: Terminal, forked: Path) -> None:
    terminal.run("promote", "clicks-2", "--over", "clicks")
    terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
    nonce = ref(terminal, "clicks").restart_nonce
    ran = terminal.run("promote", "--undo", "clicks", "clicks-2")
    assert (ran.code, "clicks runs again, and clicks-2 is suspended" in ran.out) == (0, True)
    old, new = ref(terminal, "clicks"), ref(terminal, "clicks-2")
    assert (old.desired, new.desired, new.promotion) == (Desired.RUNNING, Desired.SUSPENDED, None)
    assert old.restart_nonce != nonce
    assert terminal.bench.own("clicks-2").state is OwnState.DRAINING
    again = terminal.run("promote", "--undo", "clicks", "clicks-2")
    assert (again.code, "already undone" in again.out) == (0, True)
    assert (ref(terminal, "clicks"), ref(terminal, "clicks-2")) == (old, new)


def test_an_undo_of_one_that_runs_again_already_does_not_restart_it(terminal: Terminal, forked: Path) -> None:
    terminal.run("promote", "clicks-2", "--over", "clicks")
    terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
    terminal.run("resume", "clicks")
    terminal.bench.run("clicks")
    before = ref(terminal, "clicks")
    assert terminal.run("promote", "--undo", "clicks", "clicks-2").code == 0
    assert ref(terminal, "clicks") == before and terminal.bench.own("clicks").state is OwnState.CLAIMED
    assert ref(terminal, "clicks-2").desired is Desired.SUSPENDED


def test_promoted_undone_and_promoted_again(terminal: Terminal, forked: Path) -> None:
    for _ in range(2):
        assert terminal.run("promote", "clicks-2", "--over", "clicks").code == 0
        terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
        assert terminal.run("promote", "--undo", "clicks", "clicks-2").code == 0
        terminal.bench.set_own("clicks-2", OwnState.EXITED, cause=Cause.STOPPED)
        terminal.run("resume", "clicks-2")
        terminal.bench.run("clicks-2")
        terminal.bench.run("clicks")


@pytest.mark.parametrize(
    ("given", "code", "word"),
    [
        (("clicks-2",), 2, "promote NEW --over NAME"),
        (("clicks-2", "other", "--over", "clicks"), 2, "promote NEW --over NAME"),
        (("--undo", "clicks-2"), 2, "--undo takes both names"),
        (("--undo", "clicks", "clicks-2", "--over", "clicks"), 2, "--undo takes both names"),
        (("clicks-2", "--over", "clicks-2"), 4, "its own place"),
        (("clicks-2", "--over", "nobody"), 3, "no job is named nobody"),
        (("nobody", "--over", "clicks"), 3, "no job is named nobody"),
        (("clicks-2", "--over", "stopped"), 4, "is suspended already"),
        (("stopped", "--over", "clicks"), 4, "resume stopped --wait"),
        (("--undo", "clicks", "clicks-2"), 4, "was not promoted over clicks"),
        (("clicks-2", "--over", "other", "--when", "now", "--hook", "exit 1"), 1, "the hook ended with 1"),
        (("other", "--over", "clicks", "--when", "now"), 4, "no driver of other runs"),
        (("clicks-2", "--over", "clicks", "--when", "soon"), 2, "soon"),
    ],
)
def test_bad_input(terminal: Terminal, forked: Path, given: tuple[str, ...], code: int, word: str) -> None:
    terminal.submit("other")
    terminal.submit("stopped")
    terminal.run("suspend", "stopped")
    ran = terminal.run("promote", *given)
    assert (ran.code, word in ran.err) == (code, True), ran.err
    assert ref(terminal, "clicks").desired is Desired.RUNNING


def test_of_an_empty_cluster(terminal: Terminal) -> None:
    for given in (("fork", "a", "b"), ("compare", "a", "b"), ("promote", "a", "--over", "b")):
        assert terminal.run(*given).code == 3


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_change_a_promotion_and_its_undo_go_on(
    terminal: Terminal, forked: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    promote = ("promote", "clicks-2", "--over", "clicks", "--hook", "true")
    undo = ("promote", "--undo", "clicks", "clicks-2")
    for given in (promote, undo, promote, undo):
        for at in range(20):
            with monkeypatch.context() as patch:
                dies(patch, Life(at, after=after))
                try:
                    ran = terminal.run(*given)
                    break
                except Killed:
                    jobs = [ref(terminal, name) for name in ("clicks", "clicks-2")]
                    assert any(job.desired is Desired.RUNNING for job in jobs)
        else:
            raise AssertionError("it never ends")
        assert ran.code == 0, ran.err
        assert ref(terminal, "clicks").desired is (Desired.SUSPENDED if given is promote else Desired.RUNNING)
        for name in ("clicks", "clicks-2"):
            if ref(terminal, name).desired is Desired.SUSPENDED:
                terminal.bench.set_own(name, OwnState.EXITED, cause=Cause.STOPPED)
        if given is undo:
            terminal.run("resume", "clicks-2")
        for name in ("clicks", "clicks-2"):
            if ref(terminal, name).desired is Desired.RUNNING:
                terminal.bench.run(name)


# -- beside other commands --------------------------------------------------------------------------------------------


def test_an_undo_that_cannot_be_runs_no_hook(terminal: Terminal, forked: Path, tmp_path: Path) -> None:
    """The hook would point everybody to a job that does not exist any more."""
    terminal.run("promote", "clicks-2", "--over", "clicks")
    terminal.run("cancel", "clicks")
    undo = ("promote", "--undo", "clicks", "clicks-2", "--hook", f"touch {tmp_path}/ran")
    ran = terminal.run(*undo)
    assert (ran.code, (tmp_path / "ran").exists()) == (4, False)
    assert "clicks was cancelled since clicks-2 took its place, so that can't be undone" in ran.err
    terminal.submit("clicks")
    ran = terminal.run(*undo)
    assert (ran.code, "clicks was cancelled since" in ran.err, (tmp_path / "ran").exists()) == (
        4,
        True,
        False,
    )


def test_a_promotion_outlives_a_failure_and_a_resume(terminal: Terminal, forked: Path) -> None:
    terminal.run("promote", "clicks-2", "--over", "clicks")
    terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
    before = ref(terminal, "clicks-2")
    terminal.bench.fail("clicks-2")
    for given in (("--undo", "clicks", "clicks-2"), ("clicks-2", "--over", "clicks")):
        ran = terminal.run("promote", *given)
        assert (ran.code, "clicks-2 has failed" in ran.err) == (4, True)
    assert "resume clicks-2 --wait" in ran.err
    assert terminal.run("resume", "clicks-2").code == 0
    assert (ref(terminal, "clicks-2").fork, ref(terminal, "clicks-2").promotion) == (
        before.fork,
        before.promotion,
    )
    assert terminal.run("promote", "--undo", "clicks", "clicks-2").code == 0
    assert ref(terminal, "clicks").desired is Desired.RUNNING


@pytest.mark.parametrize("promoted", [False, True])
def test_a_fork_is_of_no_folder(terminal: Terminal, checkpoint: Path, promoted: bool) -> None:
    """It has the labels of the job that it is of; --prune would cancel the very job that has the place."""
    folder = terminal.home / "jobs"
    folder.mkdir()
    text = Path(terminal.spec("clicks", f"checkpoint: {checkpoint}\n{ARGS}labels: {{team: web}}")).read_text()
    (folder / "clicks.yaml").write_text(text)
    (folder / "app.py").write_text("print('hello')\n")
    assert terminal.run("apply", str(folder)).code == 0
    terminal.bench.run("clicks")
    assert terminal.run("fork", "clicks", "clicks-2").code == 0
    terminal.bench.run("clicks-2")
    if promoted:
        assert terminal.run("promote", "clicks-2", "--over", "clicks").code == 0
    for options in (("--dry-run",), ("--yes",), ("--yes", "-o", "json")):
        ran = terminal.run("apply", str(folder), "--prune", "-l", "team=web", *options)
        assert ran.code == 0, ran.err
        assert "it is in no file, but a fork of clicks, made at " in ran.out
        assert ("in the place of clicks since " in ran.out) is promoted
        assert "left alone; cancel clicks-2 or --prune-forks cancels it" in ran.out
        assert "cancel 0 jobs" not in ran.err
    assert [(one["name"], one["action"]) for one in ran.json] == [
        ("clicks", "unchanged"),
        ("clicks-2", "unchanged"),
    ]
    assert ref(terminal, "clicks-2").desired is Desired.RUNNING


def test_what_helps_a_fork_whose_copy_is_not_complete(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(fork_module, "restore_to", killed)
        terminal.run("fork", "clicks", "clicks-2")
    ran = terminal.run("explain", "clicks-2")
    assert "spark-supervisor fork clicks clicks-2" in ran.out and "resume" not in ran.out
    assert "spark-supervisor cancel clicks-2" in ran.out
