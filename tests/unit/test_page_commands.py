"""Every command that a page tells a reader to type: the program takes it, a test of ours is given what it takes, the rest is named.

``tests/unit/cli/test_pages.py`` carries out those of the program.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit import page_commands
from tests.unit.page_commands import (
    COMMANDS,
    FOR_TESTERS,
    OF_TESTERS,
    OTHER_SPANS,
    OTHERS,
    ROOT,
    TUTORIAL,
    Elsewhere,
    Typed,
    command_of,
    problem_of,
)

MARKERS = {"docker", "spark", "netns", "compose", "systemd_analyze", "slow", "prometheus", "kerberos"}


IMAGE = "tests/integration/test_image.py::test_the_image_builds_and_runs_as_nobody_special"
READY = "tests/integration/test_systemd.py::test_the_unit_is_ready_when_the_supervisor_is"
OF_SYSTEMD = "tests/testbed/systemd/Dockerfile"

ELSEWHERE: dict[str, Elsewhere | str] = {
    "cat /proc/sys/kernel/random/uuid": "prints a key for one request; the tests send requests with keys themselves",
    "cat jobs/clicks.yaml": TUTORIAL,
    "tail -n 2 record.jsonl": TUTORIAL,
    "tail -n 1 record.jsonl": TUTORIAL,
    "kill -9 DRIVER_PID": TUTORIAL,
    "kill -9 LEADER_PID": TUTORIAL,
    'grep -B 1 -m 1 "attempt": 2 record.jsonl': TUTORIAL,
    "sed -i s/1000/500/ jobs/clicks.yaml": TUTORIAL,
    "sed -i $ d jobs/clicks.py": TUTORIAL,
    "echo def broken(: >> jobs/clicks.py": TUTORIAL,
    "python3 -m venv /opt/spark-supervisor": Elsewhere(IMAGE, "Dockerfile"),
    "pip install --require-hashes -r deploy/requirements.lock": Elsewhere(IMAGE, "Dockerfile"),
    "pip install --no-deps .": Elsewhere(IMAGE, "Dockerfile"),
    "deploy/s3a-jars/fetch /opt/s3a-jars /opt/spark-supervisor/lib/python3*/site-packages/pyspark": Elsewhere(
        IMAGE, "Dockerfile"
    ),
    "deploy/s3a-jars/fetch": Elsewhere(IMAGE, "Dockerfile"),
    "useradd --system --create-home spark": Elsewhere(READY, OF_SYSTEMD),
    "systemctl enable --now spark-supervisor spark-supervisor-drivers": Elsewhere(READY, OF_SYSTEMD),
    "systemctl daemon-reload": Elsewhere(
        "tests/integration/test_systemd.py::test_a_stuck_supervisor_is_replaced_by_systemd"
    ),
    "systemctl restart spark-supervisor": Elsewhere(
        "tests/integration/test_systemd.py::test_restart_and_stop_of_the_service_touch_no_driver"
    ),
    "systemd-analyze security": Elsewhere(
        "tests/unit/test_deploy_units.py::test_systemd_finds_little_exposure"
    ),
    "/opt/pyspark-4.1.1/bin/pip install kafka-python": "installs into the environment of another Spark: the tests give the job the same client as py_files",
    "kafka-topics.sh --bootstrap-server kafka1:9092 --create --topic clicks-to-kafka --partitions 6": "a tool of Kafka: tests/testbed/kafka.py makes such topics through Kafka's own API",
    "kafka-topics.sh --bootstrap-server kafka1:9092 --create --topic clicks-to-kafka-marks --partitions 1 --config cleanup.policy=compact": "a tool of Kafka: tests/testbed/kafka.py makes such topics through Kafka's own API",
    "/opt/pyspark-4.1.1/bin/pip install pyspark==4.1.1": "makes the environment of another Spark: tests/testbed/other_spark.py does the same in the cache",
    "python3 -m venv /opt/pyspark-4.1.1": "makes the environment of another Spark: tests/testbed/other_spark.py does the same in the cache",
    "deploy/s3a-jars/fetch /opt/s3a-jars-4.1.1 /opt/pyspark-4.1.1/lib/python3.11/site-packages/pyspark": "fetches for another Spark: tests/testbed/s3a_jars.py does the same in the cache",
    "tests/testbed/limits_vm.sh": "boots a virtual machine for minutes: a command of its own",
    "ruff check": "a step of .ci/run, beside the tests",
    "ruff format --check": "a step of .ci/run, beside the tests",
    "python3 -m venv .venv": "makes the environment of this run: .ci/run and tests/run do it before the first test",
    "pip install .": "makes the environment of this run: .ci/run and tests/run do it before the first test",
    ". .venv/bin/activate": "changes only the shell of the reader",
    "echo whsec_$(openssl rand -base64 32)": "makes a key; the tests of unit.clients.test_webhook make theirs themselves",
    "export SPARK_SUPERVISOR_SERVER=https://host-1:8781": "changes only the shell of the reader",
    "export SPARK_SUPERVISOR_TOKEN_FILE=~/.spark-supervisor-token": "changes only the shell of the reader",
    "curl -N -H Authorization: Bearer $(cat ~/.spark-supervisor-token) https://host-1:8781/api/v1/events": "asks a host of the reader's; tests/integration/test_api_events.py asks ours the same",
    "install -d -m 0700 -o spark /etc/spark-supervisor/tokens": "writes into /etc of the host; the tests make their tokens themselves",
    'curl --cacert ca.pem -H Authorization: Bearer $TOKEN -H Content-Type: application/json -H Idempotency-Key: $(cat /proc/sys/kernel/random/uuid) -d {"cold": true} https://host-1:8781/api/v1/jobs/rate-counts/restart': "the token and address are a cluster's; the tests send the same request themselves",
    "openssl rand -hex 32 | install -m 0400 -o spark /dev/stdin /etc/spark-supervisor/tokens/grafana": "writes into /etc of the host; the tests make their tokens themselves",
    "install -d -o spark -g spark /home/spark/.ivy2.5.2": "makes a directory in the home of a user that only such a host has",
    "ln -s /opt/spark-supervisor/bin/spark-supervisor /usr/local/bin/": "writes into the PATH of the host",
    "cp deploy/systemd/*.service /etc/systemd/system/": "writes into /etc of the host; the image of test_systemd.py copies them there",
    "setfacl -m u:shipper:rx,d:u:shipper:rx": "needs the directory of logs of a host, and a user shipper",
    "docker stop --time": "names an option of Docker that says how long it waits; a container to stop is the reader's",
    "openssl genpkey -algorithm ed25519 -out release.pem": "makes a key of the reader's; the tests make theirs by the library",
    "openssl pkey -in release.pem -pubout -out release.pub": "makes a key of the reader's; the tests make theirs by the library",
    "kill -9": "names a signal; whose process is said in the sentence",
    "aws s3 sync": "names what the benchmark compares with",
    "spark-submit --supervise": "names what Spark has for it, which the product does not use",
    "aws s3 rm --recursive s3://BUCKET/PREFIX/epochs/": "removes the cluster's marks from a bucket of the operator: a step of a hand that begins anew",
    "aws s3 rm s3://BUCKET/PREFIX/cluster.json": "removes the cluster's mark from a bucket of the operator: a step of a hand that begins anew",
    "aws s3api delete-object --bucket BUCKET --key KEY --version-id VERSION": "puts objects of a versioned bucket of the operator back",
    "aws s3api list-object-versions --bucket BUCKET --prefix rate-counts/ --output text --query DeleteMarkers[?IsLatest].[Key,VersionId]": "lists delete markers of a versioned bucket of the operator",
    "df -h": "shows the disks of a host",
    "dmesg -T | grep -i -E out of memory|oom-kill|killed process": "shows what the kernel of a host wrote",
    "docker build -t spark-supervisor .": Elsewhere(IMAGE),
    "docker compose -f deploy/compose.yaml up -d --build": "the slow suite brings this fleet up and breaks it: tests/e2e",
    "journalctl --since 1 hour ago --unit=spark-supervisor": "shows the journal of a host",
    "journalctl --since 1 hour ago --unit=spark-supervisor | grep kill_takes_too_long": "shows the journal of a host",
    "journalctl --since 1 hour ago --unit=spark-supervisor | grep leadership": "shows the journal of a host",
    "journalctl --since 1 hour ago --unit=zookeeper": "shows the journal of a host",
    "ps -eo pid,stat,etime,wchan:20,args | awk $2 ~ /^D/": "shows processes of a host that the kernel does not let go",
    "systemctl start": "names what starts a service of a host",
    "systemctl start spark-supervisor": Elsewhere(
        "tests/integration/test_systemd.py::test_restart_and_stop_of_the_service_touch_no_driver"
    ),
    "systemctl status spark-supervisor": "shows a service of a host",
    "systemctl status zookeeper": "shows a service of a host",
    "systemctl stop spark-supervisor": Elsewhere(
        "tests/integration/test_systemd.py::test_restart_and_stop_of_the_service_touch_no_driver"
    ),
    "ulimit -u": "names a limit of a shell",
    "ulimit -v": "names a limit of a shell",
    "python -m compileall SPARK_HOME/python": Elsewhere(
        "tests/unit/spark/test_compiled_pyspark.py::test_compiled_files_of_the_installation_are_used",
        "tests/unit/spark/test_compiled_pyspark.py",
    ),
    "python app.py": "names a way to start an application, which the product does not use",
}
"""What is not a command of the program or of the tests: by whom it is run, or why no test can."""


def test_enough_commands_are_tried() -> None:
    assert len(COMMANDS) > 90 and len(OTHERS) > 30


# -- commands of the program -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", sorted({words for _, words in COMMANDS}), ids=" ".join)
def test_a_command_of_a_page_is_one_that_the_program_takes(words: tuple[str, ...]) -> None:
    """The command and its options exist, and its arguments are as many as it takes. Nothing is carried out."""
    command, arguments = command_of(words)
    if words == ("--install-completion",):
        assert words[0] in {name for option in command.params for name in option.opts}
        return
    assert not hasattr(command, "commands"), f"no such command: {words}"
    command.make_context(" ".join(words), arguments)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("suspend --savepoint", "suspend rate-counts --savepoint"),
        ("resume --from-savepoint", "resume rate-counts --from-savepoint before-upgrade"),
        ("savepoint verify NAME [ID]", "savepoint verify rate-counts before-upgrade"),
        ("savepoint create", "savepoint create rate-counts"),
        ("doctor SPEC", "doctor rate-counts.yaml"),
        ("list -o wide", "list -o wide"),
    ],
)
def test_what_a_sentence_leaves_out_is_filled_in(said: str, meant: str) -> None:
    assert page_commands.completed(Typed("page", tuple(said.split()), inline=True)) == tuple(meant.split())


# -- commands of the tests -------------------------------------------------------------------------------------------------


def _is_module(typed: Typed) -> bool:
    return typed.words[:2] == ("python", "-m") and typed.words[2].startswith("tests.")


def _is_suite(typed: Typed) -> bool:
    return typed.words[0] in ("tests/run", ".ci/run") or typed.words[:3] == ("python", "-m", "pytest")


OF_TESTS = [*OTHERS, *OTHER_SPANS, *OF_TESTERS]
MODULES = sorted({typed.words[2:] for typed in OF_TESTS if _is_module(typed)})
SUITES = sorted({typed.words for typed in OF_TESTS if _is_suite(typed)})

MODE = "kill"
"""What stands for the letter in ``--mode M``; elsewhere (``--seed S``) a number does."""


class Parsed(Exception):
    """The module has read its arguments, and would begin."""


def _parse(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    """Runs the module up to where its arguments are read. Raises Parsed if it takes them, SystemExit if not."""
    parse: Any = argparse.ArgumentParser.parse_args

    def and_no_further(self: argparse.ArgumentParser) -> None:
        parse(self)
        raise Parsed

    module, *arguments = words
    before = ("", *arguments)
    values = [
        word if len(word) > 1 or not word.isupper() else MODE if before[n] == "--mode" else "1"
        for n, word in enumerate(arguments)
    ]
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", and_no_further)
    monkeypatch.setattr(sys, "argv", [module, *values])
    runpy.run_path(str(_source_of(module)), run_name="__main__")


def _source_of(module: str) -> Path:
    path = ROOT / Path(*module.split("."))
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


WRITERS = {"tests.reference", "tests.golden.test_records"}
"""Modules without arguments, which write what is in the tree: carried out, they change nothing."""


@pytest.mark.parametrize("words", MODULES, ids=" ".join)
def test_a_module_takes_the_arguments_of_the_page(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    source = _source_of(words[0])
    assert source.is_file()
    if words[0] in WRITERS:
        written: list[tuple[Path, str]] = []
        monkeypatch.setattr(Path, "write_text", lambda path, text: written.append((path, text)))
        monkeypatch.setattr(Path, "write_bytes", lambda path, _: pytest.fail(f"{path} is not there"))
        runpy.run_path(str(source), run_name="__main__")
        assert len(words) == 1 and [each for each in written if each[0].read_text() != each[1]] == []
        return
    assert "parse_args()" in source.read_text(), "it would run"
    with pytest.raises(Parsed):
        _parse(monkeypatch, words)


def test_an_option_that_a_module_does_not_have_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        _parse(monkeypatch, ("tests.explore", "--no-such-option"))


@pytest.mark.parametrize("words", SUITES, ids=" ".join)
def test_a_run_of_tests_names_files_that_are_there_and_marks_that_are_known(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    rest = list(words[3:] if words[0] == "python" else words[1:])
    if words[0] != "python":
        assert (ROOT / words[0]).stat().st_mode & 0o100
    if words[0] == ".ci/run":
        assert rest == [], "it takes none"
    if rest[:1] == ["quick"]:
        with pytest.raises(Parsed):
            _parse(monkeypatch, ("tests.quick", *rest[1:]))
        rest = rest[1:]
    elif rest[:1] == ["for"]:
        with pytest.raises(Parsed):
            _parse(monkeypatch, ("tests.quick", "--for", *rest[1:]))
        rest = [f"supervisor/{room}/__init__.py" for room in rest[1:]]
    elif rest[:1] == ["-m"]:
        marks = {word for word in re.findall(r"\w+", rest[1]) if word not in ("and", "or", "not")}
        assert marks and marks <= MARKERS, f"no such mark: {sorted(marks - MARKERS)}"
        rest = rest[2:]
    assert [path for path in rest if path.startswith("-") or not (ROOT / path).exists()] == []


def test_the_marks_are_those_of_the_project() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert [mark for mark in MARKERS if f'    "{mark}: ' not in text] == []


# -- everything else -------------------------------------------------------------------------------------------------------


PROGRAMS = {typed.split()[0] for typed in ELSEWHERE} | {"df", "dmesg", "journalctl", "ps", "ulimit"}
"""Names by which a span in backticks is known for a command; other spans quote messages, fields and expressions."""


def _seems_a_command(typed: Typed) -> bool:
    """Begins with the name of a program; one word is a command where it is an executable file of the tree."""
    program = typed.words[0]
    if len(typed.words) > 1:
        return program in PROGRAMS
    path = ROOT / program
    return not program.startswith(("-", "/")) and path.is_file() and bool(path.stat().st_mode & 0o100)


REST = sorted(
    {
        str(typed)
        for typed in (*OTHERS, *filter(_seems_a_command, OTHER_SPANS))
        if not _is_module(typed) and not _is_suite(typed)
    }
)


def test_every_other_command_of_a_page_is_in_the_table_and_nothing_else() -> None:
    assert sorted(ELSEWHERE) == REST


@pytest.mark.parametrize(("typed", "row"), ELSEWHERE.items(), ids=list(ELSEWHERE))
def test_what_runs_it_instead_is_there_and_has_its_program_and_verb(typed: str, row: Elsewhere | str) -> None:
    assert problem_of(typed, row) == ""


def test_the_tutorial_is_followed_in_every_line_that_the_table_says() -> None:
    from tests.e2e.test_tutorial import BLOCKS

    followed = {line for typed, _ in BLOCKS[1:] for line in typed.splitlines()}
    of_tutorial = {
        typed
        for typed in OTHERS
        if typed.page.endswith("/tutorial.md") and ELSEWHERE.get(str(typed)) is TUTORIAL
    }
    assert {str(typed) for typed in of_tutorial} == {
        typed for typed, row in ELSEWHERE.items() if row is TUTORIAL
    }
    plain = {line.replace("'", "") for line in followed}
    assert [str(typed) for typed in of_tutorial if str(typed) not in plain] == []


def test_a_test_that_is_not_there_or_runs_something_else_is_noticed() -> None:
    assert "there is no" in problem_of("cat x", Elsewhere("tests/e2e/test_tutorial.py::test_none"))
    assert "does not have ['useradd', 'spark']" in problem_of("useradd spark", Elsewhere(READY))
    assert "say why" in problem_of("useradd spark", "can't")


@pytest.mark.parametrize("typed", [typed for typed in (*OTHERS, *OTHER_SPANS) if str(typed) in REST], ids=str)
def test_what_a_command_names_of_the_tree_is_there(typed: Typed) -> None:
    ours = [
        word for word in typed.words if word.startswith(("deploy/", "conf/", "tests/", "supervisor/", ".ci/"))
    ]
    assert [word for word in ours if not [*ROOT.glob(word)]] == []


def test_pages_of_testers_are_looked_at() -> None:
    assert {typed.page for typed in OF_TESTERS} <= set(FOR_TESTERS)
    assert [words for words in MODULES if importlib.util.find_spec(words[0]) is None] == []
