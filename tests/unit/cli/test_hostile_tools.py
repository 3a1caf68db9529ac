"""A job whose env names a Spark or Java: refused by every command that reads the spec, run by none that meets its record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor.model import host_tools
from tests.testbed.hostile_tools import HostileTools, make_hostile_tools
from tests.unit.checkpoint.golden import unpack
from tests.unit.cli.conftest import Terminal


@pytest.fixture
def hostile(tmp_path: Path) -> HostileTools:
    return make_hostile_tools(tmp_path / "hostile")


@pytest.fixture
def planted(
    terminal: Terminal, hostile: HostileTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The job ``clicks``, as a version registered it that refused nothing of the kind."""
    with monkeypatch.context() as older:
        older.setattr(host_tools, "why_refused", lambda _env: None)
        text = f"checkpoint: {unpack('hdfs-v1', tmp_path)}\nenv: {json.dumps(hostile.env)}"
        assert terminal.run("submit", terminal.spec("clicks", text)).code == 0
    return "clicks"


@pytest.mark.parametrize("variable", ["SPARK_HOME", "JAVA_HOME"])
@pytest.mark.parametrize("command", [("submit",), ("submit", "--dry-run"), ("doctor",)])
def test_refused_naming_the_variable(
    terminal: Terminal,
    hostile: HostileTools,
    variable: str,
    command: tuple[str, ...],
) -> None:
    spec = terminal.spec("a", f"env: {{{variable}: {hostile.home}}}")
    ran = terminal.run(*command, spec)
    assert ran.code == 2 and f"env must not set {variable}" in ran.err and "of its host" in ran.err, ran
    assert terminal.run("list", "-o", "json").json == []
    assert hostile.ran() == ""


def test_show_says_that_they_do_not_count(terminal: Terminal, planted: str) -> None:
    shown = terminal.run("show", planted, "-o", "json").json["env_ignored"]
    assert shown.startswith(
        "SPARK_HOME and JAVA_HOME ignored: every job is started with a Spark and Java of its host"
    )
    for words in ((), ("--all",)):
        assert (
            "env:             SPARK_HOME and JAVA_HOME ignored" in terminal.run("show", planted, *words).out
        )
    terminal.submit("other")
    assert terminal.run("show", "other", "-o", "json").json["env_ignored"] is None


@pytest.mark.parametrize("more", [(), ("--job-code",)])
def test_a_deep_verify_runs_the_hosts(
    terminal: Terminal,
    planted: str,
    hostile: HostileTools,
    spark_of_host: Path,
    more: tuple[str, ...],
) -> None:
    assert terminal.run("savepoint", "create", planted, "one").code == 0
    ran = terminal.run("savepoint", "verify", planted, "--deep", *more)
    assert ran.code == 1 and "Spark did not get as far" in ran.err, ran
    assert spark_of_host.read_text().strip() == str(spark_of_host.parent), (
        "SPARK_HOME as the host's spark-submit got it"
    )
    assert hostile.ran() == ""
    assert terminal.run("show", planted).code == 0


@pytest.fixture
def spark_of_host(terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What its spark-submit writes down."""
    home = make_hostile_tools(tmp_path / "host-spark").home
    (home / "bin" / "spark-submit").write_text(f'#!/bin/sh\necho "$SPARK_HOME" > {home}/seen\nexit 1\n')
    terminal.config.write_text(f"{terminal.config.read_text()}spark: {{home: {home}}}\n")
    return home / "seen"


@pytest.mark.parametrize("more", [(), ("--job-code",)])
def test_the_jobs_jars_are_loaded_if_that_is_asked_for(
    terminal: Terminal,
    spark_of_host: Path,
    tmp_path: Path,
    more: tuple[str, ...],
) -> None:
    """Those that were uploaded, as the store has them; files that only its hosts have count where they are jars."""
    (terminal.home / "own.jar").write_text("state store provider")
    spec = Path(terminal.spec("clicks", f"checkpoint: {unpack('hdfs-v1', tmp_path)}\njars: [own.jar]"))
    spec.write_text(spec.read_text().replace("app.py", "local:/nowhere/app.py"))
    assert terminal.run("submit", str(spec)).code == 0
    assert terminal.run("savepoint", "create", "clicks", "one").code == 0
    taken = spark_of_host.with_name("jars-taken")
    (spark_of_host.parent / "bin" / "spark-submit").write_text(
        '#!/bin/sh\nfor each; do case "$each" in *spark.properties) said=$each;; esac; done\n'
        f'sed -n "s/^spark.jars[=: ]*//p" "$said" | xargs -r cat > {taken}\n'
    )
    assert terminal.run("savepoint", "verify", "clicks", "--deep", *more).code == 1
    assert taken.read_text() == ("state store provider" if more else "")


def test_job_code_is_for_deep(terminal: Terminal, planted: str) -> None:
    for command in ("create", "verify"):
        assert terminal.run("savepoint", command, planted, "--job-code").code == 2
