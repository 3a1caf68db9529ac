"""TAB: typer's own scripts are there, names come from the registry, quickly, and errors say nothing."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from supervisor.cli import completion
from supervisor.operations import context as operations_context
from tests.unit.cli.conftest import Terminal

CALL = [sys.executable, "-c", "from supervisor.cli.main import main; main()"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    env = {"_SPARK_SUPERVISOR_COMPLETE": f"source_{shell}", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(CALL, capture_output=True, text=True, check=False, env=env)
    assert f"complete_{shell}" in ran.stdout and "spark-supervisor" in ran.stdout


def test_it_installs_itself_into_the_shell_that_called_it(tmp_path: Path) -> None:
    """Typer finds the shell by its parent process; ``; true`` keeps bash from becoming our process itself."""
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "SHELL": "/bin/bash"}
    for option in ("--show-completion", "--install-completion"):
        words = " ".join(shlex.quote(word) for word in (*CALL, option))
        ran = subprocess.run(
            ["bash", "-c", f"{words}; true"], capture_output=True, text=True, check=True, env=env
        )
        assert "complet" in ran.stdout, ran.stderr
    assert "bash_completions" in (tmp_path / ".bashrc").read_text()


def tab(words: str, config: str) -> list[str]:
    """What bash would get for ``words`` with the cursor at the end."""
    parts = words.split(" ")
    env = {
        "_SPARK_SUPERVISOR_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(parts) - 1),
        "SPARK_SUPERVISOR_CONFIG": config,
        "PATH": "/usr/bin:/bin",
    }
    ran = subprocess.run(CALL, capture_output=True, text=True, env=env, check=False)
    assert ran.stderr == ""
    return ran.stdout.split()


def test_commands_and_options_are_completed_and_spec_files_are_left_to_the_shell(terminal: Terminal) -> None:
    assert "submit" in tab("spark-supervisor su", str(terminal.config))
    assert tab("spark-supervisor submit ", str(terminal.config)) == []


def test_an_unreachable_zookeeper_completes_nothing_and_says_nothing(terminal: Terminal) -> None:
    assert tab("spark-supervisor show c", str(terminal.home / "no-such.yaml")) == []
    terminal.config.write_text(terminal.config.read_text().replace("zk:2181", "127.0.0.1:1"))
    assert tab("spark-supervisor show c", str(terminal.config)) == []


def test_names_are_those_that_are_registered_else_those_that_were(terminal: Terminal) -> None:
    for name in ("clicks", "clocks", "other", "old"):
        terminal.submit(name)
    terminal.run("cancel", "old")
    ctx = SimpleNamespace(params={"config": str(terminal.config)}, parent=None)
    assert completion.job_names(ctx, "cl") == ["clicks", "clocks"]
    assert completion.job_names(ctx, "") == ["clicks", "clocks", "other"]
    assert completion.job_names(ctx, "ol") == ["old"]
    assert completion.job_names(SimpleNamespace(params={}, parent=ctx), "oth") == ["other"]
    assert completion.job_names(SimpleNamespace(params={"names": ["clicks"]}, parent=ctx), "cl") == ["clocks"]


def test_hosts_are_those_that_are_connected(terminal: Terminal) -> None:
    for host in ("host-a", "host-b", "other"):
        terminal.bench.join(host)
    ctx = SimpleNamespace(params={"config": str(terminal.config)}, parent=None)
    assert completion.supervisor_ids(ctx, "ho") == ["host-a", "host-b"]
    assert completion.supervisor_ids(ctx, "x") == []


def test_nobody_waits_for_a_slow_answer(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "LIMIT_S", 0.05)
    monkeypatch.setattr(operations_context, "keep_session", lambda *_, **__: time.sleep(3600))
    assert (
        completion.job_names(SimpleNamespace(params={"config": str(terminal.config)}, parent=None), "") == []
    )


def test_a_commands_own_options_and_arguments_are_completed(terminal: Terminal) -> None:
    config = str(terminal.config)
    assert "--watch" in tab("spark-supervisor list --w", config)
    assert "create" in tab("spark-supervisor savepoint cr", config)
    assert "--deep" in tab("spark-supervisor savepoint verify --d", config)
    assert "protocol" in tab("spark-supervisor docs pro", config)
