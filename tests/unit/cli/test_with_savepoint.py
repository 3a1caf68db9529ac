"""``resume --from-savepoint`` and ``suspend --savepoint`` on a file store: what they do, say and refuse, and killed at any change."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients.store.area import Area
from supervisor.errors import AccessDenied
from supervisor.model.checkpoint_expectation import SeenQuery, queries_of, to_be_expected
from supervisor.model.location import digest
from supervisor.model.records import Cause, CheckpointClaim, Desired, OwnState
from supervisor.model.seen import Found
from supervisor.operations import context as operations_context
from supervisor.registry.blobs import Blobs
from supervisor.savepoints import create, operations
from supervisor.spec.job import from_canonical
from supervisor.spec.s3a import S3Access
from tests.fakes.zookeeper import MemoryClient
from tests.testbed.moto import MotoServer
from tests.unit.checkpoint.golden import inspected, only, unpack
from tests.unit.checkpoint.savepoints import Dying, Killed, Life, contents
from tests.unit.checkpoint.test_inspect import upload
from tests.unit.cli.conftest import REPEATS, Terminal

BATCH = 12


@pytest.fixture
def checkpoint(terminal: Terminal, tmp_path: Path) -> Path:
    """Of the job ``clicks``, which is registered; its last committed batch is 12."""
    found = unpack("hdfs-v1", tmp_path)
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {found}\n{REPEATS}")).code == 0
    return found


@pytest.fixture
def saved(terminal: Terminal, checkpoint: Path) -> Path:
    """``clicks`` has savepoint ``one``, is suspended, and has stopped. Its checkpoint."""
    assert terminal.run("savepoint", "create", "clicks", "one").code == 0
    assert terminal.run("suspend", "clicks").code == 0
    terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
    return checkpoint


def checkpoint_of(terminal: Terminal) -> Path:
    """Where the reference says that it is; and the spec, and the claim, and nobody else's."""
    job = terminal.bench.ref("clicks").record
    data = (terminal.home / "store" / job.spec.key).read_bytes()
    spec = from_canonical(data, job.spec.key)
    assert spec.checkpoint == job.terms.checkpoint is not None
    claim = terminal.bench.record(CheckpointClaim, terminal.bench.layout.checkpoint(digest(spec.checkpoint)))
    assert isinstance(claim, Found) and (claim.record.name, claim.record.uid) == ("clicks", job.uid)
    claims = [
        path for path in terminal.bench.zoo.tree() if path.startswith(f"{terminal.bench.layout.checkpoints}/")
    ]
    assert len(claims) == 1
    return Path(spec.checkpoint)


# -- resume --from-savepoint ------------------------------------------------------------------------------------------


def test_a_suspended_job_goes_on_from_a_copy_of_the_savepoint(terminal: Terminal, saved: Path) -> None:
    before = contents(saved)
    ran = terminal.run("resume", "clicks", "--from-savepoint", "one")
    assert (ran.code, ran.out) == (
        0,
        f"clicks: resumed ({terminal.bench.ref('clicks').record.uid}), from savepoint one after batch 12\n",
    )
    fresh = checkpoint_of(terminal)
    assert fresh.parent == saved.parent and fresh.name.startswith(f"{saved.name}.from-one-")
    assert only(inspected(fresh)).commits.newest == BATCH
    assert contents(saved) == before
    assert f"its checkpoint is {fresh} from now on" in ran.err and f"{saved} stays as it is" in ran.err
    job, own = terminal.bench.ref("clicks").record, terminal.bench.own("clicks")
    assert (job.desired, job.revision) == (Desired.RUNNING, 2)
    assert queries_of(to_be_expected(str(fresh), job.fresh_start, None, own.remembered)) == (
        SeenQuery(only(inspected(saved)).id, BATCH),
    )
    assert "from savepoint one" in terminal.run("history", "clicks").out
    assert terminal.run("show", "clicks", "-o", "json").json["spec"]["checkpoint"] == str(fresh)


def test_given_again_it_is_done(terminal: Terminal, saved: Path) -> None:
    first = terminal.run("resume", "clicks", "--from-savepoint", "one", "-o", "json")
    again = terminal.run("resume", "clicks", "--from-savepoint", "one", "-o", "json")
    assert (first.code, again.code) == (0, 0)
    uid = terminal.bench.ref("clicks").record.uid
    fresh = str(checkpoint_of(terminal))
    assert first.json == {
        "name": "clicks",
        "uid": uid,
        "did": "resumed",
        "savepoint": "one",
        "checkpoint": fresh,
    }
    assert again.json == {**first.json, "did": "already running"}
    assert (
        "it has begun with savepoint one" in terminal.run("resume", "clicks", "--from-savepoint", "one").out
    )
    terminal.run("restart", "clicks")
    assert terminal.run("resume", "clicks", "--from-savepoint", "one").code == 4


def test_each_time_it_is_another_location_beside_the_first(terminal: Terminal, saved: Path) -> None:
    seen = {saved}
    for _ in range(3):
        assert terminal.run("resume", "clicks", "--from-savepoint", "one").code == 0
        fresh = checkpoint_of(terminal)
        assert fresh not in seen and fresh.name.count(".from-") == 1
        seen.add(fresh)
        terminal.run("suspend", "clicks")
        terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)


def test_a_location_of_ones_own(terminal: Terminal, saved: Path) -> None:
    to = terminal.home / "elsewhere"
    assert terminal.run("resume", "clicks", "--to", str(to)).code == 2
    for taken in (saved, saved / "below", saved.parent):
        ran = terminal.run("resume", "clicks", "--from-savepoint", "one", "--to", str(taken))
        assert (ran.code, "choose another location" in ran.err) == (4, True)
    to.mkdir()
    (to / "mine").write_text("x")
    ran = terminal.run("resume", "clicks", "--from-savepoint", "one", "--to", str(to))
    assert (ran.code, "is not empty" in ran.err) == (4, True)
    (to / "mine").unlink()
    assert terminal.run("resume", "clicks", "--from-savepoint", "one", "--to", str(to)).code == 0
    assert checkpoint_of(terminal) == to
    assert terminal.run("resume", "clicks", "--from-savepoint", "one", "--to", f"{to}/").code == 0


def test_a_failed_and_a_quarantined_job_go_on_from_a_savepoint(terminal: Terminal, saved: Path) -> None:
    terminal.run("resume", "clicks")
    terminal.bench.exit("clicks", Cause.BAD_CHECKPOINT, permanent=True)
    assert "--from-savepoint ID" in terminal.run("explain", "clicks").out
    shutil.rmtree(saved)
    assert terminal.run("resume", "clicks", "--from-savepoint", "one").code == 0
    terminal.bench.fail("clicks")
    ran = terminal.run("resume", "clicks", "--from-savepoint", "one")
    assert (ran.code, "registered again" in ran.out) == (0, True)
    checkpoint_of(terminal)


def test_the_savepoint_of_another_job_only_by_its_location(terminal: Terminal, saved: Path) -> None:
    other = unpack("join", terminal.home)
    terminal.run("submit", terminal.spec("other", f"checkpoint: {other}\n{REPEATS}"))
    terminal.run("savepoint", "create", "other", "theirs")
    terminal.run("cancel", "other")
    terminal.bench.zoo.remove(terminal.bench.layout.checkpoint(digest(str(other))))
    assert terminal.run("resume", "clicks", "--from-savepoint", "theirs").code == 3
    location = f"{terminal.home}/store/savepoints/other/theirs"
    ran = terminal.run("resume", "clicks", "--from-savepoint", location)
    assert (ran.code, "copying savepoint theirs of other to " in ran.err) == (0, True)


def test_what_it_refuses_leaves_no_copy(terminal: Terminal, saved: Path) -> None:
    def refused(code: int, why: str, *arguments: str, which: str = "one") -> None:
        before = {*saved.parent.iterdir()}
        ran = terminal.run("resume", "clicks", "--from-savepoint", which, *arguments)
        assert (ran.code, why in ran.err) == (code, True), ran.err
        assert {*saved.parent.iterdir()} == before and terminal.bench.ref("clicks").record.revision == 1

    refused(3, "has no savepoint none", which="none")
    refused(2, "leave out --accept-fresh-start", "--accept-fresh-start")
    refused(2, "is relative", "--to", "relative")
    terminal.run("submit", terminal.spec("other", f"checkpoint: {terminal.home}/others\n{REPEATS}"))
    refused(4, "belongs to job other", "--to", f"{terminal.home}/others/below")
    terminal.bench.set_own("clicks", OwnState.DRAINING)
    refused(4, "suspend clicks --wait")
    terminal.bench.set_own("clicks", OwnState.EXITED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(create, "problems_of", lambda _tree: (_ for _ in ()).throw(KeyboardInterrupt))
        terminal.run("savepoint", "create", "clicks", "half")
    refused(3, "is incomplete", which="half")
    terminal.run("resume", "clicks")
    refused(4, "suspend it first")
    terminal.run("cancel", "clicks")
    assert terminal.run("resume", "clicks", "--from-savepoint", "one").code == 4
    assert terminal.run("resume", "nobody", "--from-savepoint", "one").code == 3


def test_an_application_that_would_stay_at_the_old_place_is_told_of(
    terminal: Terminal, checkpoint: Path
) -> None:
    terminal.run("cancel", "clicks")
    lines = f"checkpoint: {checkpoint}\nargs: ['--at={checkpoint}/']"
    assert terminal.run("submit", terminal.spec("clicks", lines), "--suspended").code == 0
    terminal.run("savepoint", "create", "clicks", "one")
    ran = terminal.run("resume", "clicks", "--from-savepoint", "one")
    assert (ran.code, "args of clicks names" in ran.err, "write {checkpoint} there" in ran.err) == (
        2,
        True,
        True,
    )


def test_a_damaged_savepoint_is_no_begin(terminal: Terminal, saved: Path) -> None:
    (terminal.home / "store/savepoints/clicks/one/data/commits/12").unlink()
    ran = terminal.run("resume", "clicks", "--from-savepoint", "one")
    assert (ran.code, "is damaged" in ran.err) == (1, True)
    assert checkpoint_of(terminal) == saved


def test_whoever_was_faster_is_named_and_the_copy_too(
    terminal: Terminal, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Blobs.put_spec

    def put(*given: Any) -> Any:
        terminal.bench.commands().resume("clicks")
        return real(*given)

    monkeypatch.setattr(Blobs, "put_spec", put)
    ran = terminal.run("resume", "clicks", "--from-savepoint", "one")
    assert (ran.code, "suspend it first" in ran.err) == (4, True)
    assert f"what was copied to {saved}.from-one-" in ran.err
    assert checkpoint_of(terminal) == saved


# -- suspend --savepoint ----------------------------------------------------------------------------------------------


def test_suspend_with_a_savepoint_of_what_is_left(terminal: Terminal, checkpoint: Path) -> None:
    ran = terminal.run("suspend", "clicks", "--savepoint", "before-upgrade")
    assert ran.code == 0, ran.err
    assert [line.partition(" (")[0] for line in ran.out.splitlines()][0] == "clicks: suspended"
    assert "clicks: savepoint before-upgrade after batch 12: " in ran.out and "verified" in ran.out
    assert terminal.bench.ref("clicks").record.desired is Desired.SUSPENDED
    assert terminal.run("savepoint", "verify", "clicks", "before-upgrade").code == 0
    again = terminal.run("suspend", "clicks", "before-upgrade", "--savepoint")
    assert (again.code, "already suspended" in again.out, "was there already" in again.out) == (0, True, True)


def test_without_an_id_the_suspension_decides_it_so_it_is_made_once(
    terminal: Terminal, checkpoint: Path
) -> None:
    first = terminal.run("suspend", "clicks", "--savepoint", "-o", "json")
    again = terminal.run("suspend", "clicks", "--savepoint", "-o", "json")
    assert (first.code, first.json["did"], again.json["did"]) == (0, "suspended", "already suspended")
    assert first.json["savepoint"] == again.json["savepoint"]
    assert [each["id"] for each in terminal.run("savepoint", "list", "-o", "json").json] == [
        first.json["savepoint"]
    ]
    terminal.run("resume", "clicks")
    assert (
        terminal.run("suspend", "clicks", "--savepoint", "-o", "json").json["savepoint"]
        != first.json["savepoint"]
    )


def test_it_waits_for_the_driver_and_says_what_to_do_when_that_takes_too_long(
    terminal: Terminal, checkpoint: Path
) -> None:
    terminal.bench.run("clicks")
    ran = terminal.run("suspend", "clicks", "--savepoint", "one", "--timeout", "100ms")
    assert (ran.code, ran.out.startswith("clicks: suspended")) == (7, True)
    assert (
        "has not stopped yet" in ran.err
        and "the same command goes on" in ran.err
        and "resume clicks" in ran.err
    )
    assert terminal.run("savepoint", "list", "-o", "json").json == [], "nothing is copied while it may write"
    ran = terminal.run("suspend", "clicks", "--savepoint", "one", "--timeout", "100ms", "-o", "json")
    assert (ran.code, ran.json["did"], ran.json["savepoint"]) == (7, "already suspended", None)
    terminal.bench.set_own("clicks", OwnState.EXITED)
    assert terminal.run("suspend", "clicks", "--savepoint", "one").code == 0


def test_what_cannot_come_to_a_savepoint_stops_no_job(terminal: Terminal, checkpoint: Path) -> None:
    terminal.run("savepoint", "create", "clicks", "old")
    terminal.run("submit", terminal.spec("far", "checkpoint: hdfs://host/far"))
    bare = terminal.home / "bare.yaml"
    bare.write_text("name: bare\napplication: app.py\nunbounded: false\n")
    assert terminal.run("submit", str(bare)).code == 0
    for name, arguments, code, why in [
        ("clicks", ["--savepoint", "old"], 4, "choose another id"),
        ("clicks", ["--savepoint", "No_Id"], 2, "no id"),
        ("clicks", ["old"], 2, "whether to suspend 2 jobs"),
        ("far", ["--savepoint"], 2, "hdfs"),
        ("bare", ["--savepoint"], 3, "no checkpoint"),
        ("nobody", ["--savepoint"], 3, "no job"),
    ]:
        ran = terminal.run("suspend", name, *arguments)
        assert (ran.code, why in ran.err) == (code, True), ran.err
    for name in ("clicks", "far", "bare"):
        assert terminal.bench.ref(name).record.desired is Desired.RUNNING


def test_an_older_savepoint_of_that_id_is_not_taken_for_this_one(
    terminal: Terminal, checkpoint: Path
) -> None:
    terminal.run("suspend", "clicks", "--savepoint", "one")
    (checkpoint / "commits" / "13").write_bytes((checkpoint / "commits" / "12").read_bytes())
    ran = terminal.run("suspend", "clicks", "--savepoint", "one")
    assert (ran.code, "is of an earlier state" in ran.err) == (4, True)


def test_an_equal_savepoint_of_the_place_before_is_not_taken_for_this_one(
    terminal: Terminal, saved: Path
) -> None:
    """The job has gone on from a copy, and has the same batches there: the savepoint is of another checkpoint."""
    assert terminal.run("resume", "clicks", "--from-savepoint", "one").code == 0
    assert terminal.run("suspend", "clicks").code == 0
    terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
    ran = terminal.run("suspend", "clicks", "--savepoint", "one")
    assert (ran.code, "is of an earlier state" in ran.err) == (4, True)


def test_a_savepoint_that_is_not_whole_is_not_what_the_job_left(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = create.Creation.run

    def run(creation: Any) -> Any:
        made = real(creation)
        (terminal.home / "store/savepoints/clicks/one/data/commits/12").unlink()
        return made

    monkeypatch.setattr(create.Creation, "run", run)
    ran = terminal.run("suspend", "clicks", "--savepoint", "one")
    assert (ran.code, "is damaged" in ran.err, "verified" in ran.out) == (1, True, False)


def test_where_others_could_choose_what_is_written_no_job_is_stopped(
    terminal: Terminal, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def require_writable(_area: Area) -> None:
        raise AccessDenied("others could choose what is written there")

    monkeypatch.setattr(Area, "require_writable", require_writable)
    ran = terminal.run("suspend", "clicks", "--savepoint", "one")
    assert (ran.code, "others could choose" in ran.err) == (AccessDenied.exit_code, True)
    assert terminal.bench.ref("clicks").record.desired is Desired.RUNNING


def test_resumed_before_it_was_saved_it_is_not_what_the_job_left(
    terminal: Terminal,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = create.Creation.run

    def run(creation: Any) -> Any:
        terminal.bench.commands().resume("clicks")
        return real(creation)

    monkeypatch.setattr(create.Creation, "run", run)
    ran = terminal.run("suspend", "clicks", "--savepoint", "one")
    assert (ran.code, "was resumed or cancelled meanwhile" in ran.err) == (4, True)


# -- killed -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, bool], Life]:
    """From now on the process dies at that change to areas, blobs or the registry: before, or just after it."""
    lives = [Life(10**6, after=False)]

    def wrapped(owner: Any, name: str) -> None:
        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given: lives[-1].change(lambda: real(*given)))

    wrapped(MemoryClient, "commit")
    wrapped(Blobs, "put_spec")
    real_area = operations.open_area
    monkeypatch.setattr(
        operations, "open_area", lambda *given, **more: Dying(real_area(*given, **more), lives[-1])
    )

    def begin(at: int, after: bool) -> Life:
        lives.append(Life(at, after=after))
        return lives[-1]

    return begin


def moments(total: int) -> list[int]:
    """All near the beginning and the end, where the steps change; one of the copies between."""
    return sorted({1, total // 2, *range(total - 4, total)})


@pytest.fixture
def small(terminal: Terminal, tmp_path: Path) -> Path:
    """The checkpoint of ``clicks``, of few files; it has savepoint ``one``."""
    found = unpack("files", tmp_path)
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {found}\n{REPEATS}")).code == 0
    assert terminal.run("savepoint", "create", "clicks", "one").code == 0
    return found


@pytest.mark.parametrize("after", [False, True])
def test_a_resume_that_is_killed_leaves_the_old_or_the_new_and_goes_on(
    after: bool,
    terminal: Terminal,
    small: Path,
    dying: Callable[[int, bool], Life],
) -> None:
    newest = only(inspected(small)).commits.newest

    def stopped() -> Path:
        """Suspended, and nobody runs. Its checkpoint."""
        dying(10**6, False)
        terminal.run("suspend", "clicks")
        terminal.bench.set_own("clicks", OwnState.EXITED, cause=Cause.STOPPED)
        return checkpoint_of(terminal)

    old = stopped()
    life = dying(10**6, False)
    assert terminal.run("resume", "clicks", "--from-savepoint", "one").code == 0
    total = 10**6 - life.left
    assert total > 10
    for at in moments(total):
        old = stopped()
        revision, before = terminal.bench.ref("clicks").record.revision, contents(old)
        dying(at, after)
        with pytest.raises(Killed):
            terminal.run("resume", "clicks", "--from-savepoint", "one")
        dying(10**6, False)
        job = terminal.bench.ref("clicks").record
        if job.revision == revision:
            assert job.desired is Desired.SUSPENDED and checkpoint_of(terminal) == old
        else:
            assert at == total - 1 and after
        ran = terminal.run("resume", "clicks", "--from-savepoint", "one", "-o", "json")
        assert ran.code == 0, ran.err
        assert terminal.bench.ref("clicks").record.revision == revision + 1
        assert only(inspected(checkpoint_of(terminal))).commits.newest == newest and contents(old) == before
        assert len([*small.parent.glob("*.from-one-*")]) == revision, "no copy is left beside"


@pytest.mark.parametrize("after", [False, True])
def test_a_suspend_that_is_killed_goes_on(
    after: bool,
    terminal: Terminal,
    small: Path,
    dying: Callable[[int, bool], Life],
) -> None:
    life = dying(10**6, False)
    assert terminal.run("suspend", "clicks", "--savepoint").code == 0
    total = 10**6 - life.left
    made = 2
    for at in moments(total):
        assert terminal.run("resume", "clicks").code == 0
        dying(at, after)
        with pytest.raises(Killed):
            terminal.run("suspend", "clicks", "--savepoint")
        dying(10**6, False)
        ran = terminal.run("suspend", "clicks", "--savepoint", "-o", "json")
        assert ran.code == 0, ran.err
        made += 1
        listed = terminal.run("savepoint", "list", "clicks", "-o", "json").json
        assert [each["state"] for each in listed] == ["complete"] * made, "it goes on with what it had begun"
        assert terminal.run("savepoint", "verify", "clicks", ran.json["savepoint"]).code == 0


# -- on S3 --------------------------------------------------------------------------------------------------------------


def test_on_s3_from_bucket_to_bucket_and_not_while_it_cannot_be_reached(
    terminal: Terminal,
    tmp_path: Path,
    moto_server: MotoServer,
    s3_bucket: str,
) -> None:
    other, plain = moto_server.new_bucket(), terminal.config.read_text()

    def at(endpoint: str) -> None:
        terminal.config.write_text(
            plain.replace(
                f"url: 'file://{tmp_path}/store'", f"url: 's3://{other}/store', endpoint_url: '{endpoint}'"
            )
        )

    at(moto_server.endpoint_url)
    location = upload(unpack("files", tmp_path), moto_server, s3_bucket)
    access = S3Access(moto_server.endpoint_url)
    newest = only(inspected(location, access)).commits.newest
    assert terminal.run("submit", terminal.spec("clicks", f"checkpoint: {location}\n{REPEATS}")).code == 0
    assert terminal.run("suspend", "clicks", "--savepoint", "one").code == 0
    at("http://127.0.0.1:9")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operations_context, "COMMAND_STORE_DEADLINE_S", 0.5)
        for arguments in (
            ["resume", "clicks", "--from-savepoint", "one"],
            ["suspend", "clicks", "--savepoint", "two"],
        ):
            assert terminal.run(*arguments).code == 5
    assert terminal.bench.ref("clicks").record.revision == 1
    at(moto_server.endpoint_url)
    ran = terminal.run("resume", "clicks", "--from-savepoint", "one", "-o", "json")
    assert (ran.code, ran.json["did"]) == (0, "resumed"), ran.err
    assert ran.json["checkpoint"].startswith(f"{location}.from-one-")
    assert only(inspected(ran.json["checkpoint"], access)).commits.newest == newest
    assert terminal.bench.ref("clicks").record.terms.checkpoint == ran.json["checkpoint"]
