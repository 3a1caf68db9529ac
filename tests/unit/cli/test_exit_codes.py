"""Exit codes and one-sentence errors of every command (REFERENCE.md)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.records.layout import Layout
from tests.unit.cli.conftest import Terminal

LAYOUT = Layout("/bench")


def sentence(err: str) -> str:
    """The one line on stderr."""
    (line,) = err.strip().splitlines()
    assert "Traceback" not in line
    return line


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["show"],
        ["show", "a", "b"],
        ["list", "-o", "xml"],
        ["cancel", "a", "--unknown"],
        ["logs", "a", "--attempt", "0"],
        ["submit"],
    ],
)
def test_wrong_usage_is_2_and_names_the_help(terminal: Terminal, arguments: list[str]) -> None:
    ran = terminal.run(*arguments)
    assert ran.code == 2 and ran.out == ""
    assert "--help" in sentence(ran.err)


def test_without_a_command_the_help_is_shown(terminal: Terminal) -> None:
    ran = terminal.run()
    assert ran.code == 2 and "submit" in ran.err


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "submit",
        "list",
        "show",
        "explain",
        "history",
        "cancel",
        "suspend",
        "resume",
        "restart",
        "logs",
        "status",
        "pause",
        "unpause",
        "switchover",
        "docs",
    ],
)
def test_every_command_has_its_help(terminal: Terminal, command: str) -> None:
    ran = terminal.run(command, "--help")
    assert ran.code == 0
    for option in ("--config", "--output", "--debug"):
        assert option in ran.out


@pytest.mark.parametrize("place", ["before", "after"])
def test_global_options_before_and_after_the_command(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    monkeypatch.delenv("SPARK_SUPERVISOR_CONFIG")
    options = ["--config", str(terminal.config), "-o", "json"]
    ran = terminal.run(*options, "list") if place == "before" else terminal.run("list", *options)
    assert (ran.code, ran.json) == (0, [])


def test_the_option_after_the_command_wins(terminal: Terminal) -> None:
    ran = terminal.run(
        "--config", "/nowhere.yaml", "-o", "table", "list", "-o", "json", "--config", str(terminal.config)
    )
    assert (ran.code, ran.json) == (0, [])


def test_a_missing_configuration_is_2(terminal: Terminal) -> None:
    ran = terminal.run("list", "--config", "/nowhere/supervisor.yaml")
    assert ran.code == 2 and "/nowhere/supervisor.yaml" in sentence(ran.err)


@pytest.mark.parametrize("command", ["show", "cancel", "suspend", "resume", "restart", "logs"])
@pytest.mark.parametrize("name", ["nobody", "No_Name", "../cluster", "a" * 64])
def test_an_unknown_name_is_3(terminal: Terminal, command: str, name: str) -> None:
    assert terminal.run(command, name).code == 3
    terminal.submit("a")
    ran = terminal.run(command, name)
    assert ran.code == 3 and name in sentence(ran.err)


def test_the_story_of_a_job(terminal: Terminal) -> None:
    uid = terminal.submit("a")
    assert terminal.run("submit", terminal.spec("a")).out == f"a: unchanged ({uid})\n"
    for command, code, did in (
        ("resume", 0, "already running"),
        ("restart", 0, "restarted"),
        ("suspend", 0, "suspended"),
        ("suspend", 0, "already suspended"),
        ("restart", 4, ""),
        ("resume", 0, "resumed"),
        ("cancel", 0, "cancelled"),
        ("cancel", 0, "already cancelled"),
        ("resume", 4, ""),
        ("restart", 4, ""),
        ("suspend", 4, ""),
    ):
        ran = terminal.run(command, "a", "-o", "json")
        assert ran.code == code, (command, ran)
        if code == 0:
            assert ran.json == {"name": "a", "uid": uid, "did": did}
        else:
            assert ran.out == "" and sentence(ran.err)
    assert terminal.submit("a") != uid


def test_another_spec_of_a_live_name_is_4_with_the_remedy(terminal: Terminal) -> None:
    terminal.submit("a")
    ran = terminal.run("submit", terminal.spec("a", "args: [more]"))
    assert ran.code == 4 and "apply changes the job" in sentence(ran.err)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("chekpoint: s3://bucket/x", "did you mean 'checkpoint'"),
        ("args: 5", "args must be a list"),
        ("lease: 1s", "lease"),
    ],
)
def test_an_invalid_spec_is_2_and_names_the_key(terminal: Terminal, text: str, what: str) -> None:
    ran = terminal.run("submit", terminal.spec("a", text))
    assert ran.code == 2 and what in sentence(ran.err)
    assert terminal.bench.zoo.tree() == {}


def test_missing_files_are_2(terminal: Terminal) -> None:
    assert terminal.run("submit", str(terminal.home / "none.yaml")).code == 2
    spec = terminal.spec("a", "py_files: [lib.py]")
    ran = terminal.run("submit", spec)
    assert ran.code == 2 and str(terminal.home / "lib.py") in sentence(ran.err)


def test_a_spec_over_64_kib_is_2(terminal: Terminal) -> None:
    ran = terminal.run("submit", terminal.spec("a", f"args: ['{'x' * 66_000}']"))
    assert ran.code == 2 and "64 KiB" in sentence(ran.err)


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["show", "a"],
        ["cancel", "a"],
        ["suspend", "a"],
        ["resume", "a"],
        ["restart", "a"],
        ["logs", "a"],
    ],
)
def test_an_unreachable_zookeeper_is_5(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    terminal.submit("a")
    _cut_off(terminal, monkeypatch)
    ran = terminal.run(*arguments)
    assert ran.code == 5 and ran.out == "" and "ZooKeeper" in sentence(ran.err)


def test_status_of_an_unreachable_zookeeper_is_5_and_says_what_is_known(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _cut_off(terminal, monkeypatch)
    ran = terminal.run("status", "-o", "json")
    assert (
        ran.code == 5 and ran.json["zookeeper"]["state"] == "unreachable" and ran.json["store"]["ok"] is True
    )


def _cut_off(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.fakes.zookeeper import MemoryClient

    monkeypatch.setattr(MemoryClient, "_connect", lambda self: [])


def test_an_impossible_store_is_5_and_nothing_is_founded(terminal: Terminal) -> None:
    (terminal.home / "store").write_text("a file, not a directory")
    ran = terminal.run("submit", terminal.spec("a"))
    assert ran.code == 5 and "store" in sentence(ran.err)
    assert LAYOUT.cluster not in terminal.bench.zoo.tree()


def test_cancel_suspend_and_list_need_no_store(terminal: Terminal) -> None:
    terminal.submit("a")
    (terminal.home / "store").rename(terminal.home / "gone")
    (terminal.home / "store").write_text("a file, not a directory")
    assert terminal.run("suspend", "a").code == 0
    assert terminal.run("list").code == 0
    shown = terminal.run("show", "a", "-o", "json")
    assert shown.code == 0 and shown.json["spec"] is None and "store" in shown.json["spec_error"]
    assert terminal.run("cancel", "a").code == 0


def test_another_cluster_on_the_root_is_4(terminal: Terminal) -> None:
    terminal.submit("a")
    text = terminal.config.read_text()
    for changed in (text.replace("/store", "/other-store"), text.replace("cluster: test", "cluster: other")):
        terminal.config.write_text(changed)
        for arguments in (["cancel", "a"], ["list"], ["submit", terminal.spec("b")]):
            ran = terminal.run(*arguments)
            assert ran.code == 4 and "belongs to" in sentence(ran.err)


def test_another_cluster_on_the_store_is_4(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.config.write_text(terminal.config.read_text().replace("/bench", "/elsewhere"))
    ran = terminal.run("submit", terminal.spec("b"))
    assert ran.code == 4 and "belongs to the cluster at root /bench" in sentence(ran.err)


def test_an_empty_zookeeper_with_a_marked_store_is_4(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.zoo = type(terminal.bench.zoo)()
    ran = terminal.run("submit", terminal.spec("b"))
    assert ran.code == 4 and "has lost its data" in sentence(ran.err)
    assert terminal.bench.zoo.tree() == {}


def test_an_unknown_layout_is_4(terminal: Terminal) -> None:
    terminal.submit("a")
    terminal.bench.zoo.put(LAYOUT.version, b"99")
    ran = terminal.run("cancel", "a")
    assert ran.code == 4 and "upgrade" in sentence(ran.err)


def test_a_defect_is_1_with_a_hint(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.cli.listing.open_gateway", lambda _chosen: 1 / 0)
    ran = terminal.run("list")
    assert ran.code == 1 and "--debug" in sentence(ran.err)
    assert "Traceback" in terminal.run("list", "--debug").err


def test_interrupted_is_130(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_chosen: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("supervisor.cli.listing.open_gateway", interrupt)
    assert terminal.run("list").code == 130


def test_as_a_process_of_its_own(tmp_path: Path) -> None:
    """The entry point exits with the code; stdout of a failed command stays empty."""
    call = [sys.executable, "-c", "from supervisor.cli.main import main; main()"]
    ran = subprocess.run(
        [*call, "list", "--config", str(tmp_path / "none")], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (2, "") and "does not exist" in ran.stderr
    helped = subprocess.run([*call, "--help"], capture_output=True, text=True, check=False)
    assert helped.returncode == 0 and "submit" in helped.stdout
