"""``submit``: many files at once, what is stored, dry runs, and waiting."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from pathlib import Path

import pytest

from supervisor.clock import wall_iso
from supervisor.errors import Unreachable
from supervisor.model.records import Desired, Phase, Progress
from supervisor.operations.submit import prepare
from supervisor.registry.blobs import Blobs
from supervisor.settings.defaults import Defaults
from supervisor.spec.signed import signed_text
from tests.fakes.registry_bench import AT
from tests.unit.cli.conftest import Terminal
from tests.unit.clients.test_environment_archive import PYTHON, packed
from tests.waiting import wait_until


def stored(terminal: Terminal) -> list[str]:
    root = terminal.home / "store"
    files = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    return sorted(file for file in files if not file.startswith((".tmp", "cluster.json", "audit/")))


def test_the_stored_spec_names_its_files_by_content_and_not_by_uid(terminal: Terminal) -> None:
    uid = terminal.submit("a")
    sha256 = hashlib.sha256((terminal.home / "app.py").read_bytes()).hexdigest()
    artifact, spec = stored(terminal)
    assert artifact == f"artifacts/a/{uid}/{sha256}/app.py"
    body = json.loads((terminal.home / "store" / spec).read_text())
    assert body["application"] == f"store:{sha256}/app.py"
    assert terminal.bench.ref("a").record.spec.key == spec


def test_the_same_files_again_store_nothing(terminal: Terminal) -> None:
    terminal.submit("a")
    before = stored(terminal)
    assert terminal.run("submit", terminal.spec("a", file="copy.yaml")).out.startswith("a: unchanged")
    assert stored(terminal) == before


def test_an_edited_application_is_another_spec(terminal: Terminal) -> None:
    terminal.submit("a")
    spec = terminal.spec("a")
    (terminal.home / "app.py").write_text("print('other')\n")
    assert terminal.run("submit", spec).code == 4


def test_files_in_place_are_not_uploaded(terminal: Terminal) -> None:
    path = Path(terminal.spec("a"))
    path.write_text(path.read_text().replace("app.py", "s3://bucket/jobs/app.py"))
    assert terminal.run("submit", str(path)).code == 0
    assert [file.split("/")[0] for file in stored(terminal)] == ["specs"]


def test_each_of_many_files_has_its_line_and_the_worst_code_counts(terminal: Terminal) -> None:
    terminal.submit("taken")
    specs = [
        terminal.spec("one"),
        terminal.spec("taken", "args: [other]"),
        terminal.spec("bad", "nonsense: 1"),
        terminal.spec("two"),
        str(terminal.home / "missing.yaml"),
    ]
    ran = terminal.run("submit", *specs, "-o", "json")
    assert ran.code == 4
    assert [(line["name"], line["did"], line["exit_code"]) for line in ran.json] == [
        ("one", "submitted", 0),
        ("taken", None, 4),
        (None, None, 2),
        ("two", "submitted", 0),
        (None, None, 2),
    ]
    assert [row["name"] for row in terminal.run("list", "-o", "json").json] == ["one", "taken", "two"]
    printed = terminal.run("submit", *specs)
    assert printed.out.count("unchanged") == 2 and len(printed.err.strip().splitlines()) == 3
    assert all(line.count(".yaml") for line in printed.err.strip().splitlines())


def test_a_hundred_files_in_one_call(terminal: Terminal) -> None:
    specs = [terminal.spec(f"job-{number}") for number in range(100)]
    assert terminal.run("submit", *specs).code == 0
    assert len(terminal.run("list", "-o", "json").json) == 100
    sessions = len({session for session, tx in terminal.bench.zoo.log if tx.what == "submit"})
    assert sessions == 1


def test_files_of_one_call_must_not_collide(terminal: Terminal) -> None:
    outer, inner = (
        terminal.spec("outer", "checkpoint: s3://bucket/x"),
        terminal.spec("inner", "checkpoint: s3a://bucket/x/y/"),
    )
    twin = terminal.spec("outer", "checkpoint: s3://bucket/x\nargs: [twin]", "twin.yaml")
    for extra in (["--dry-run"], []):
        ran = terminal.run("submit", outer, inner, twin, "-o", "json", *extra)
        assert ran.code == 4
        assert [line["exit_code"] for line in ran.json] == [0, 4, 4]
        assert (
            "belongs to job outer" in ran.json[1]["error"] and "two different specs" in ran.json[2]["error"]
        )


def test_a_refused_file_does_not_take_the_place_of_another(terminal: Terminal) -> None:
    terminal.submit("a")
    nested = terminal.spec("b", "checkpoint: s3://bucket/a/b")
    ran = terminal.run("submit", nested, terminal.spec("a"), "-o", "json")
    assert [(line["did"], line["exit_code"]) for line in ran.json] == [(None, 4), ("unchanged", 0)]


def test_a_dry_run_checks_everything_and_changes_nothing(terminal: Terminal) -> None:
    ran = terminal.run("submit", terminal.spec("a"), "--dry-run")
    assert (ran.code, ran.out) == (0, "a: valid\n")
    assert terminal.bench.zoo.tree() == {} and not (terminal.home / "store").exists()
    terminal.submit("a")
    before = terminal.bench.zoo.tree()
    assert terminal.run("submit", terminal.spec("b", "checkpoint: s3://bucket/a/x"), "--dry-run").code == 4
    assert terminal.run("submit", terminal.spec("a"), "--dry-run").out.startswith("a: unchanged")
    assert terminal.bench.zoo.tree() == before and len(stored(terminal)) == 2


def test_suspended_registers_without_starting(terminal: Terminal) -> None:
    assert terminal.run("submit", terminal.spec("a"), "--suspended").code == 0
    assert terminal.bench.ref("a").record.desired is Desired.SUSPENDED


def test_an_application_edited_while_it_is_stored_is_refused(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Blobs.put_artifact

    def edited(self: Blobs, name: str, uid: str, path: Path) -> str:
        path.write_text("print('edited')\n")
        return put(self, name, uid, path)

    monkeypatch.setattr(Blobs, "put_artifact", edited)
    ran = terminal.run("submit", terminal.spec("a"))
    assert ran.code == 4 and "changed while" in ran.err
    assert terminal.run("list", "-o", "json").json == []


def test_a_store_that_goes_away_ends_the_call_and_nothing_more_is_acknowledged(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put, gone = Blobs.put_spec, threading.Event()

    def put_spec(self: Blobs, name: str, uid: str, revision: int, data: bytes) -> object:
        if name == "job-0":
            gone.set()
            raise Unreachable("the store does not answer")
        gone.wait(10)
        return put(self, name, uid, revision, data)

    monkeypatch.setattr(Blobs, "put_spec", put_spec)
    ran = terminal.run("submit", *[terminal.spec(f"job-{number}") for number in range(30)], "-o", "json")
    assert ran.code == 5
    registered = {row["name"] for row in terminal.run("list", "-o", "json").json}
    assert registered == {line["name"] for line in ran.json if line["exit_code"] == 0}


def test_warnings_go_to_stderr(terminal: Terminal) -> None:
    ran = terminal.run("submit", terminal.spec("a", "env: {DB_PASSWORD: hunter2}\nlease: 10s"), "-o", "json")
    assert ran.code == 0 and ran.json[0]["did"] == "submitted"
    assert "DB_PASSWORD looks like a secret" in ran.err and "a lease of 10s is short" in ran.err
    assert "hunter2" not in ran.err


# -- waiting ----------------------------------------------------------------------------------------------------------


def meanwhile(terminal: Terminal, act: str) -> threading.Thread:
    """Somebody does ``act`` to the job as soon as it is registered."""

    def run() -> None:
        wait_until(lambda: terminal.bench.has(terminal.bench.layout.job("a")))
        if act == "run":
            terminal.bench.run("a")
        elif act == "fail":
            terminal.bench.fail("a")
        elif act == "no batch":
            terminal.bench.run("a", since=wall_iso())
        elif act == "batch":
            terminal.bench.run(
                "a",
                progress=Progress(
                    query="q",
                    batch_id=0,
                    input_rows_per_s=1.0,
                    processed_rows_per_s=1.0,
                    batch_ms=1.0,
                    at=AT,
                    lag=None,
                ),
                since=wall_iso(),
            )
        elif act == "cancel":
            terminal.bench.commands().cancel("a")
        else:
            terminal.bench.run("a", Phase.SESSION)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("act", "code", "why"),
    [
        ("run", 0, ""),
        ("fail", 1, "budget is spent"),
        ("cancel", 1, "cancelled"),
        ("start", 7, "starting on host-a.example"),
        ("no batch", 7, "it is up, and makes no query so far"),
        ("batch", 0, "its first batch is committed"),
    ],
)
def test_wait_until_it_runs(terminal: Terminal, act: str, code: int, why: str) -> None:
    thread = meanwhile(terminal, act)
    ran = terminal.run("submit", terminal.spec("a"), "--wait", "--timeout", "2s")
    thread.join()
    assert ran.code == code and ran.out.startswith("a: submitted") and why in ran.err


def test_wait_does_not_go_with_what_starts_nothing(terminal: Terminal) -> None:
    for option in ("--suspended", "--dry-run"):
        assert terminal.run("submit", terminal.spec("a"), "--wait", option).code == 2
    assert terminal.run("submit", terminal.spec("a"), "--wait", "--timeout", "10").code == 2


def test_cancel_waits_for_the_tombstone(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.run("a")
    late = terminal.run("cancel", "a", "--wait", "--timeout", "500ms")
    assert late.code == 7 and late.out.startswith("a: cancelled") and "has not stopped yet" in late.err
    from supervisor.model.records import OwnState

    own = terminal.bench.own("a")
    assert own.state is OwnState.DRAINING
    terminal.bench.set_own("a", OwnState.EXITED)
    ran = terminal.run("cancel", "a", "--wait", "--timeout", "500ms")
    assert ran.code == 0 and ran.out.startswith("a: already cancelled")


def test_cancel_of_what_never_ran_waits_for_nothing(terminal: Terminal) -> None:
    terminal.submit("a")
    assert terminal.run("cancel", "a", "--wait", "--timeout", "1ms").code == 0


# -- what Spark would refuse ------------------------------------------------------------------------------------------


def test_a_heap_that_spark_refuses_and_a_master_of_another_kind_are_2(terminal: Terminal) -> None:
    ran = terminal.run("submit", terminal.spec("a", "conf: {spark.driver.memory: 400m}"))
    assert ran.code == 2 and "driver memory 400 MiB, Spark needs 450 MiB" in ran.err
    ran = terminal.run("submit", terminal.spec("b", "master: yarn"))
    assert ran.code == 2 and "give cluster: NAME in place of master" in ran.err
    assert not any(terminal.bench.has(terminal.bench.layout.job(name)) for name in "ab")


def test_a_master_that_nobody_answers_at_is_told_and_the_job_is_taken(terminal: Terminal) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{bound.getsockname()[1]}"
        ran = terminal.run("submit", terminal.spec("a", f"master: {master}"))
    assert ran.code == 0 and f"nobody answers at master {master}" in ran.err


def test_a_cluster_that_is_not_here_and_times_that_lengthen_a_wait_are_told_and_the_job_is_taken(
    terminal: Terminal,
) -> None:
    conf = "conf: {spark.executor.heartbeatInterval: 10s}"
    ran = terminal.run("submit", terminal.spec("a", f"cluster: prod\n{conf}"))
    assert ran.code == 0
    assert "cluster: prod is no cluster of this host's supervisor.yaml (it has none)" in ran.err
    assert "let executors outlive their driver by 130 s instead of 90 s" in ran.err


def test_what_is_declared_too_small_for_the_heap_is_told(terminal: Terminal) -> None:
    ran = terminal.run(
        "submit", terminal.spec("a", "conf: {spark.driver.memory: 480m}\nresources: {memory: 600m}")
    )
    assert ran.code == 0 and "set resources.memory to 800m" in ran.err


@pytest.mark.parametrize("command", [("submit",), ("apply",)])
def test_what_the_policy_of_this_configuration_refuses_is_told_before_anything_is_stored(
    terminal: Terminal, command: tuple[str, ...]
) -> None:
    terminal.config.write_text(
        terminal.config.read_text()
        + "policy: {secrets: {env: ['JOB_*']}, conf: {forbidden: [spark.plugins]}}\n"
    )
    spec = terminal.spec("a", "checkpoint: s3://bucket/x\nenv: {X: '${env:HOME}'}\nconf: {spark.plugins: x}")
    ran = terminal.run(*command, spec)
    assert ran.code == 2
    assert "env X: variable HOME is none that policy.secrets.env allows (JOB_*)" in ran.err
    assert "conf spark.plugins: it is forbidden by policy.conf.forbidden (spark.plugins)" in ran.err
    assert not terminal.bench.has(terminal.bench.layout.job("a"))


@pytest.mark.parametrize("command", [("submit",), ("apply",)])
@pytest.mark.parametrize(
    ("asks", "says"),
    [
        (
            "env: {SPARK_REMOTE: 'sc://host:15002/;token=hush'}",
            "env SPARK_REMOTE asks for a Spark Connect server",
        ),
        ("env: {SPARK_API_MODE: connect}", "in the driver, which is not supported yet"),
        ("conf: {spark.remote: 'sc://host'}", "conf spark.remote asks for a Spark Connect server"),
    ],
)
def test_a_session_elsewhere_is_refused_before_anything_is_stored(
    terminal: Terminal, command: tuple[str, ...], asks: str, says: str
) -> None:
    ran = terminal.run(*command, terminal.spec("a", f"checkpoint: s3://bucket/x\n{asks}"))
    assert ran.code == 2 and says in ran.err and "remove it" in ran.err
    assert "hush" not in ran.err
    assert not terminal.bench.has(terminal.bench.layout.job("a"))


# -- the Spark and the Python of a job --------------------------------------------------------------------------------


def test_a_spark_that_no_live_host_has_is_told_and_the_job_is_taken(terminal: Terminal) -> None:
    terminal.submit("first")
    spec = terminal.spec("a", "spark: '4.1'")
    assert terminal.run("submit", spec).err == "", "no host is up: nobody knows"
    terminal.bench.join("s1")
    ran = terminal.run("submit", terminal.spec("b", "spark: '4.1'"))
    assert ran.code == 0 and ran.out.startswith("b: submitted")
    assert "no host that is up has spark 4.1 (spark.versions): b does not start until one has" in ran.err
    terminal.bench.join("s2", sparks=("4.1",))
    assert terminal.run("submit", terminal.spec("c", "spark: '4.1'")).err == ""
    changed = terminal.run("apply", terminal.spec("first", "spark: '4.2'"))
    assert changed.code == 0 and "no host that is up has spark 4.2" in changed.err
    said = terminal.run("diff", terminal.spec("first", "spark: '4.3'")).out
    assert "spark: 4.2 → 4.3" in said
    assert terminal.run("diff", terminal.spec("first"), "--set", "spark=4.10").out.count("4.2 → 4.10") == 1


def test_an_environment_is_stored_by_its_content_and_read_before_anything_is_stored(
    terminal: Terminal,
) -> None:
    spec = terminal.spec("a", "python: {archive: env.tar.gz}")
    archive = terminal.home / "env.tar.gz"
    assert terminal.run("submit", spec).code == 2
    archive.write_text("no archive")
    ran = terminal.run("submit", spec)
    assert ran.code == 2 and "env.tar.gz is no usable tar.gz" in ran.err
    packed(archive, ("bin/perl", b"", 0o755))
    ran = terminal.run("submit", spec)
    assert ran.code == 2 and "env.tar.gz has no bin/python" in ran.err
    packed(archive, PYTHON)
    assert terminal.run("submit", spec).code == 0
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert any(file.endswith(f"{sha256}/env.tar.gz") for file in stored(terminal))
    shown = terminal.run("show", "a", "-o", "json").json
    assert shown["spec"]["python"]["archive"] == f"store:{sha256}/env.tar.gz"


def test_another_environment_is_another_spec_and_another_signature(terminal: Terminal) -> None:
    spec = Path(terminal.spec("a", "python: {archive: env.tar.gz}"))
    digests = set()
    for member in (PYTHON, ("bin/python", b"#!/bin/false", 0o755)):
        packed(terminal.home / "env.tar.gz", member)
        digests.add(signed_text("test", "a", prepare(spec, Defaults()).sha256))
    spec.write_text(spec.read_text().replace("archive: env.tar.gz", "interpreter: /opt/python"))
    digests.add(signed_text("test", "a", prepare(spec, Defaults()).sha256))
    spec.write_text(spec.read_text() + "spark: '4.1'\n")
    digests.add(signed_text("test", "a", prepare(spec, Defaults()).sha256))
    assert len(digests) == 4


def test_an_environment_of_a_spec_that_is_extended_lies_beside_that(terminal: Terminal) -> None:
    (terminal.home / "base").mkdir()
    packed(terminal.home / "base" / "env.tar.gz", PYTHON)
    (terminal.home / "base" / "_base.yaml").write_text("python: {archive: env.tar.gz}\n")
    assert terminal.run("submit", terminal.spec("a", "extends: base/_base.yaml")).code == 0


def test_an_interpreter_that_this_configuration_does_not_allow_is_told(terminal: Terminal) -> None:
    ran = terminal.run("submit", terminal.spec("a", "python: {interpreter: /opt/python}"))
    assert ran.code == 2 and "is none that spark.pythons of supervisor.yaml allows (none)" in ran.err
