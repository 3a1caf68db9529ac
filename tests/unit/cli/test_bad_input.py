"""Whatever is in a file, in its name or on the command line: one sentence with the file or field and the remedy, the exit code
of REFERENCE.md, no traceback, and nothing lost or half registered. Everything here runs the command line itself."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.spec.files import UPLOAD_MAX_BYTES
from tests.unit.cli.conftest import Ran, Terminal

BOM = b"\xef\xbb\xbf"
GOOD = b"name: a\napplication: app.py\ncheckpoint: s3://bucket/a\n"


def bomb(width: int, depth: int) -> bytes:
    """Billion laughs: a few lines that stand for width ** depth words."""
    lines = [b"l0: &l0 [" + b",".join([b"lol"] * width) + b"]"]
    for n in range(1, depth):
        lines.append(b"l%d: &l%d [%s]" % (n, n, b",".join([b"*l%d" % (n - 1)] * width)))
    return b"\n".join(lines) + b"\n" + GOOD


GARBAGE = bytes(range(256)) * 40_000

NO_MAPPING: list[tuple[str, bytes, str]] = [
    ("empty", b"", "is empty"),
    ("only-blanks", b" \n\n  \n", "is empty"),
    ("only-a-comment", b"# later\n", "is empty"),
    ("only-a-mark", BOM, "is empty"),
    ("null", b"null\n", "is empty"),
    ("a-list", b"- name: a\n", "not a list"),
    ("a-word", b"hello\n", "not text"),
    ("a-number", b"42\n", "not a number"),
    ("true", b"true\n", "not true or false"),
    ("two-documents", GOOD + b"---\n" + GOOD, "line"),
    ("a-tab", b"name: a\n\tapplication: app.py\n", "line 2"),
    ("a-tab-after-blanks", b"restart:\n  \tinitial: 1s\n", "tab"),
    ("an-open-bracket", b"name: [a\n", "line"),
    ("an-open-quote", b'name: "a\n', "line"),
    ("no-colon", b"name a\napplication b\n", "not text"),
    ("a-python-object", b"name: !!python/object/apply:os.system ['touch /tmp/never']\n", "not supported"),
    ("a-python-name", b"!!python/object:subprocess.Popen {}\n", "not supported"),
    ("a-python-tuple", b"args: !!python/tuple [a]\n", "not supported"),
    ("a-binary", b"name: !!binary aGVsbG8=\n", "not supported"),
    ("a-tag-of-ones-own", b"name: !mine a\n", "not supported"),
    ("a-set", b"args: !!set {a, b}\n", "not supported"),
    ("a-merge", b"<<: {name: a}\n", "unknown key '<<'"),
    ("an-alias", b"name: &n a\napplication: *n\n", "alias"),
    ("an-alias-bomb", bomb(9, 12), "alias"),
    ("an-alias-of-itself", b"args: &a [*a]\n", "alias"),
    ("a-key-twice", GOOD + b"name: b\n", "given twice"),
    ("a-key-twice-inside", b"restart: {max: 1m, max: 2m}\n", "given twice"),
    ("a-list-as-a-key", b"? [a]\n: b\n", "a key must be a word"),
    ("no-key", b": b\n", "line 1"),
    ("deep-lists", b"args: " + b"[" * 30_000, "too deeply"),
    ("deep-mappings", b"args: " + b"{a: " * 10_000, "too deeply"),
    ("deep-blocks", b"".join(b" " * n + b"a:\n" for n in range(300)), "unknown key 'a'"),
    ("a-nul", b"name: a\0\n", "character"),
    ("a-control-character", b"name: a\x07\n", "character"),
    ("half-a-surrogate", b'name: "\\ud83d"\n', "surrogate"),
    ("latin-1", "name: ä\n".encode("latin-1"), "not UTF-8"),
    ("utf-16", "name: a\n".encode("utf-16"), "not UTF-8"),
    ("utf-16-without-mark", "name: a\n".encode("utf-16-le"), "character"),
    ("utf-32", "name: a\n".encode("utf-32"), "not UTF-8"),
    ("a-picture", b"\x89PNG\r\n\x1a\n" + bytes(200), "not UTF-8"),
    ("garbage-of-10-mb", GARBAGE, "larger than"),
    ("words-of-10-mb", b"a" * 10_000_000, "larger than"),
    ("comments-of-10-mb", b"# x\n" * 2_500_000, "larger than"),
    ("a-number-without-end", b"lease: " + b"9" * 5000 + b"\n", "not a usable number"),
]

FIELDS: list[tuple[str, str, str]] = [
    ("name-number", "name: 123", "name must be text, not a number; put it in quotes"),
    ("name-null", "name:", "name must be text, not null"),
    ("name-list", "name: [a]", "name must be text, not a list"),
    ("name-true", "name: true", "name must be text"),
    ("name-date", "name: 2026-11-21T10:00:00", "lower-case letters"),
    ("name-empty", "name: ''", "1 to 63"),
    ("name-64", f"name: {'a' * 64}", "1 to 63"),
    ("name-upper", "name: Clicks", "lower-case"),
    ("name-dash", "name: -a", "neither begin nor end"),
    ("name-dash-end", "name: a-", "neither begin nor end"),
    ("name-dot", "name: a.b", "lower-case"),
    ("name-path", "name: ../../etc/passwd", "lower-case"),
    ("name-slash", "name: a/b", "lower-case"),
    ("name-blank", "name: ' a'", "lower-case"),
    ("name-newline", 'name: "a\\n"', "lower-case"),
    ("name-unicode", "name: klicks-für-alle", "lower-case"),
    ("name-fullwidth-digit", "name: a１", "lower-case"),
    ("name-cyrillic", "name: сlicks", "lower-case"),
    ("application-missing", "application:", "application"),
    ("application-directory", "application: .", ".py or .jar"),
    ("application-option", "application: --help", ".py or .jar"),
    ("application-http", "application: 'https://host/app.py'", "scheme https:"),
    ("application-only-suffix", "application: .py", ".py"),
    ("application-comma", "application: 'a,b.py'", "comma"),
    ("application-fragment", "application: 'app.py#x.py'", "#"),
    ("application-newline", 'application: "a\\nb.py"', "control character"),
    ("args-text", "args: --topic", "args must be a list"),
    ("args-number", "args: [1, yes]", "args[0] must be text, not a number; put it in quotes"),
    ("args-true", "args: ['1', true]", "args[1] must be text, not true or false"),
    ("args-null", "args: [~]", "args[0] must be text, not null"),
    ("args-nul", 'args: ["a\\0b"]', "args[0] holds a NUL character"),
    ("args-mapping", "args: {a: b}", "args must be a list, not a mapping"),
    ("env-list", "env: [A=1]", "env must be a mapping"),
    ("env-name", "env: {'A B': x}", "no name of an environment variable"),
    ("env-equals", "env: {'A=B': x}", "no name of an environment variable"),
    ("env-nul", 'env: {A: "a\\0"}', "env.A holds a NUL character"),
    ("env-reserved", "env: {SPARK_SUPERVISOR_UID: x}", "the supervisor's own"),
    ("env-null", "env: {A: ~}", "env.A must be text"),
    ("env-reference", "env: {A: '${env:B} and more'}", "must be the whole value"),
    ("conf-list", "conf: [spark.a=1]", "conf must be a mapping"),
    ("conf-key", "conf: {shuffle: 1}", "begin with 'spark.'"),
    ("checkpoint-relative", "checkpoint: checkpoints/a", "relative"),
    ("checkpoint-root", "checkpoint: s3://bucket", "root"),
    ("checkpoint-out", "checkpoint: s3://bucket/../x", "leads out"),
    ("checkpoint-web", "checkpoint: https://host/x", "cannot keep a checkpoint"),
    ("checkpoint-newline", 'checkpoint: "s3://bucket/a\\nb"', "control characters"),
    ("checkpoint-long", f"checkpoint: s3://bucket/{'x' * 2000}", "longer than"),
    ("lease-number", "lease: 30", "write 30s"),
    ("lease-short", "lease: 1s", "5s to 5m"),
    ("lease-negative", "lease: -5s", "lease"),
    ("lease-word", "lease: soon", "lease"),
    ("memory-number", "resources: {memory: 1}", "resources.memory"),
    ("memory-huge", "resources: {memory: 99999999999999999999g}", "resources.memory"),
    ("memory-negative", "resources: {memory: -1g}", "resources.memory"),
    ("priority-float", "resources: {priority: 0.5}", "resources.priority must be a whole number"),
    ("priority-huge", f"resources: {{priority: {'9' * 30}}}", "resources.priority"),
    ("restart-word", "restart: always", "restart must be a mapping"),
    ("restart-strategy", "restart: {strategy: allways}", "restart.strategy must be"),
    ("unbounded-word", "unbounded: yes", "unbounded must be true or false"),
    ("unbounded-number", "unbounded: 1", "unbounded must be true or false"),
    ("deploy-mode", "deploy_mode: cluster", "not supported"),
    ("unknown", "chekpoint: x", "did you mean 'checkpoint'"),
    ("unknown-dash", "py-files: []", "did you mean 'py_files'"),
]


def refused(ran: Ran, *says: str, code: int = 2) -> None:
    """A sentence for each error, the code, and nothing on stdout; the first one is the one that is meant."""
    assert ran.code == code, ran
    assert ran.out == ""
    lines = ran.err.strip().splitlines()
    for line in lines:
        assert line.startswith("error: ") and "Traceback" not in line and "Error:" not in line
        assert len(line) < 600, "a sentence, not the file itself"
    for what in says:
        assert what in lines[0]


def untouched(terminal: Terminal) -> None:
    """Nothing was asked of ZooKeeper, nothing stored."""
    assert terminal.bench.zoo.tree() == {}
    assert not (terminal.home / "store").exists()


@pytest.mark.parametrize(
    ("data", "says"), [row[1:] for row in NO_MAPPING], ids=[row[0] for row in NO_MAPPING]
)
def test_a_spec_file(terminal: Terminal, data: bytes, says: str) -> None:
    (terminal.home / "app.py").touch()
    path = terminal.home / "spec.yaml"
    path.write_bytes(data)
    refused(terminal.run("submit", str(path)), str(path), says)
    untouched(terminal)


@pytest.mark.parametrize(
    ("data", "says"), [row[1:] for row in NO_MAPPING], ids=[row[0] for row in NO_MAPPING]
)
def test_a_configuration_file(terminal: Terminal, data: bytes, says: str) -> None:
    path = terminal.home / "other.yaml"
    path.write_bytes(data)
    refused(terminal.run("list", "--config", str(path)), str(path), says)
    untouched(terminal)


@pytest.mark.parametrize(("text", "says"), [row[1:] for row in FIELDS], ids=[row[0] for row in FIELDS])
def test_a_field_of_a_spec(terminal: Terminal, text: str, says: str) -> None:
    (terminal.home / "app.py").touch()
    given = text.partition(":")[0]
    lines = [line for line in GOOD.decode().splitlines() if not line.startswith(f"{given}:")]
    path = terminal.home / "spec.yaml"
    path.write_text("\n".join([*lines, text, ""]))
    refused(terminal.run("submit", str(path)), str(path), says)
    untouched(terminal)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BOM + GOOD, b""),
        (GOOD.replace(b"\n", b"\r\n"), b""),
        (GOOD.replace(b"\n", b"\r"), b""),
        (b"---\n" + GOOD, b"...\n"),
        (b"%YAML 1.2\n---\n" + GOOD, b""),
        (b'{"name": "a", "application": "app.py", "checkpoint": "s3://bucket/a"}', b""),
        (GOOD, b"args: ['1', 'yes', \"2026-11-21\", 2026-11-21, on, 12:30, 0x10, \"\\U0001F600\"]\n"),
    ],
    ids=["mark", "crlf", "cr", "document", "directive", "json", "words-that-look-like-more"],
)
def test_a_good_spec_in_odd_clothes(terminal: Terminal, before: bytes, after: bytes) -> None:
    (terminal.home / "app.py").touch()
    path = terminal.home / "spec.yaml"
    path.write_bytes(before + after)
    ran = terminal.run("submit", str(path))
    assert ran.code == 0, ran


def test_a_bomb_costs_neither_time_nor_memory(terminal: Terminal) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, data in enumerate([bomb(9, 30), GARBAGE, b"[" * 60_000, b"{a: " * 15_000, b"- " * 30_000]):
        path = terminal.home / f"{number}.yaml"
        path.write_bytes(data)
        began_at_s = time.process_time()
        refused(terminal.run("submit", str(path)), str(path))
        assert time.process_time() - began_at_s < 10.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


# -- files that are not there, or are something else --------------------------------------------------------------


def a_directory(path: Path) -> None:
    path.mkdir()


def a_loop(path: Path) -> None:
    path.symlink_to(path)


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


def nothing(path: Path) -> None:
    path.unlink(missing_ok=True)


ODD_FILES = [nothing, a_directory, a_loop, dangling, a_fifo, a_socket]


@pytest.mark.parametrize("make", ODD_FILES)
@pytest.mark.timeout(60)
def test_odd_files_as_spec(
    terminal: Terminal, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(terminal.home)
    path = terminal.home / "odd.yaml"
    make(path)
    refused(terminal.run("submit", str(path)), str(path))
    untouched(terminal)


@pytest.mark.parametrize("make", ODD_FILES)
@pytest.mark.timeout(60)
def test_odd_files_as_configuration(
    terminal: Terminal, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(terminal.home)
    path = terminal.home / "odd.yaml"
    make(path)
    refused(terminal.run("list", "--config", str(path)), str(path))


@pytest.mark.parametrize("make", ODD_FILES)
@pytest.mark.timeout(60)
def test_odd_files_as_application(
    terminal: Terminal, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(terminal.home)
    path = terminal.home / "app.py"
    make(path)
    spec = terminal.home / "spec.yaml"
    spec.write_bytes(GOOD)
    refused(terminal.run("submit", str(spec)), str(path))
    untouched(terminal)


def test_an_application_that_is_too_large_is_not_even_read(terminal: Terminal) -> None:
    spec = terminal.home / "spec.yaml"
    spec.write_bytes(GOOD)
    with (terminal.home / "app.py").open("wb") as file:
        file.truncate(UPLOAD_MAX_BYTES + 1)
    refused(terminal.run("submit", str(spec)), str(terminal.home / "app.py"), "2 GiB", "local:/path")
    untouched(terminal)


@pytest.mark.parametrize(
    "name",
    [
        "app with blanks.py",
        "äpp-日本.py",
        "a'b\"c.py",
        "-app.py",
        "--conf=x.py",
        "a;rm -rf $HOME.py",
        "a%20b.py",
        "a" * 240 + ".py",
    ],
)
def test_odd_names_of_applications_are_stored_as_they_are(terminal: Terminal, name: str) -> None:
    import json

    (terminal.home / name).write_text("print(1)\n")
    spec = terminal.home / "spec.yaml"
    spec.write_text(json.dumps({"name": "a", "application": name, "checkpoint": "s3://bucket/a"}))
    assert terminal.run("submit", str(spec)).code == 0
    assert [path.name for path in (terminal.home / "store" / "artifacts").rglob("*.py")] == [name]


@pytest.mark.parametrize(
    "arguments",
    [
        ["submit", ""],
        ["submit", "\udcff.yaml"],
        ["submit", "a" * 5000],
        ["submit", "/dev/null"],
        ["submit", "-"],
        ["list", "--config", ""],
        ["list", "--config", "a" * 5000],
        ["list", "--config", "/dev/null"],
        ["submit", "x.yaml", "--timeout", "soon"],
        ["submit", "x.yaml", "--wait", "--dry-run"],
    ],
)
def test_odd_arguments_are_2(terminal: Terminal, arguments: list[str]) -> None:
    refused(terminal.run(*arguments))


@pytest.mark.parametrize(
    "command", ["show", "cancel", "suspend", "resume", "restart", "logs", "history", "explain"]
)
@pytest.mark.parametrize(
    "name", ["nobody", "..", "a/b", "A", "ä", "", "a" * 64, "a\nb", "\udcff", "--", "cluster", "%s%n"]
)
def test_odd_names_of_jobs_are_3(terminal: Terminal, command: str, name: str) -> None:
    terminal.submit("a")
    before = terminal.bench.zoo.tree()
    ran = terminal.run(command, "--", name)
    assert ran.code == 3 and "Traceback" not in ran.err and len(ran.err.strip().splitlines()) == 1, ran
    assert terminal.bench.zoo.tree() == before


@pytest.mark.parametrize(
    "command",
    [
        ["show"],
        ["cancel"],
        ["suspend"],
        ["resume"],
        ["restart"],
        ["logs"],
        ["history"],
        ["explain"],
        ["checkpoint", "show"],
        ["checkpoint", "verify"],
        ["savepoint", "create"],
    ],
)
def test_the_job_that_was_meant_is_suggested(terminal: Terminal, command: list[str]) -> None:
    terminal.submit("clicks")
    ran = terminal.run(*command, "clikcs")
    assert (ran.code, ran.err) == (3, "error: no job is named clikcs: did you mean clicks?\n")


def test_one_bad_file_keeps_no_other_from_being_submitted(terminal: Terminal) -> None:
    bad = terminal.home / "bad.yaml"
    bad.write_bytes(GARBAGE)
    ran = terminal.run("submit", terminal.spec("b"), str(bad), terminal.spec("c"), "-o", "json")
    assert ran.code == 2
    assert [line["did"] for line in ran.json] == ["submitted", None, "submitted"]
    assert str(bad) in ran.json[1]["error"]
