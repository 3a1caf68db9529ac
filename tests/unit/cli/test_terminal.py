"""What a person at a terminal sees, on a real pty, and what a pipe gets: colours, width, ``--watch``, ``--wait``."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from supervisor.cli import output, watch
from supervisor.cli.main import run_command
from supervisor.clients.zookeeper import Link
from supervisor.model.records import Cause, OwnState, Progress, with_entry
from tests.fakes.registry_bench import AT
from tests.fakes.zookeeper import MemoryClient
from tests.unit.cli.conftest import Terminal
from tests.waiting import wait_until

COLOUR = re.compile(r"\033\[[0-9;]*3[0-7]m")
ESCAPE = re.compile(r"\033\[[0-9;?]*[a-zA-Z]")
LONG_NAME = "a" * 63


class Screen:
    """The other end of a pty: what was drawn there."""

    def __init__(self, master: int) -> None:
        self.raw = ""
        self._master = master
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._master, 65536)
            except OSError:
                return
            self.raw += piece.decode()

    @property
    def lines(self) -> list[str]:
        return ESCAPE.sub("", self.raw).replace("\r", "").splitlines()


@contextmanager
def on_screen(monkeypatch: pytest.MonkeyPatch, columns: int = 80, stream: str = "stdout") -> Iterator[Screen]:
    """``sys.stdout`` (or stderr) is a terminal of ``columns`` × 24."""
    master, slave = pty.openpty()
    file = os.fdopen(slave, "w", encoding="utf-8")
    screen = Screen(master)
    with monkeypatch.context() as patch:
        for name, value in (("COLUMNS", str(columns)), ("LINES", "24"), ("TERM", "xterm-256color")):
            patch.setenv(name, value)
        patch.delenv("NO_COLOR", raising=False)
        patch.setattr(sys, stream, file)
        yield screen
        file.flush()
    file.close()
    wait_until(lambda: not screen._thread.is_alive(), what="the end of the pty")
    os.close(master)


@pytest.fixture
def fleet(terminal: Terminal) -> Terminal:
    """One job that runs, one that fails with a long reason, one with the longest name that there is."""
    for name in ("runs", "fails", LONG_NAME):
        terminal.submit(name)
    terminal.bench.run(
        "runs",
        progress=Progress(
            query="q",
            batch_id=41,
            input_rows_per_s=1.0,
            processed_rows_per_s=20.25,
            batch_ms=300.0,
            at=AT,
            lag=None,
        ),
    )
    terminal.bench.exit("fails", Cause.NO_SPARK, permanent=True)
    from dataclasses import replace

    own = terminal.bench.own("fails")
    terminal.bench.put(terminal.bench.layout.own("fails"), replace(own, reason="日本語 " * 40))
    return terminal


@pytest.mark.parametrize("columns", [80, 100, 200])
@pytest.mark.parametrize(
    "command", [["list"], ["list", "-o", "wide"], ["list", "--all"], ["explain"], ["history", "runs"]]
)
def test_no_line_is_wider_than_the_terminal_and_names_are_whole_or_cut_for_a_column(
    fleet: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    command: list[str],
) -> None:
    from rich.cells import cell_len

    with on_screen(monkeypatch, columns) as screen:
        assert run_command(command) == 0
    is_cut = command[0] == "list" and columns < 200 and "wide" not in command
    name = f"{LONG_NAME[:12]}…{LONG_NAME[-11:]}" if is_cut else LONG_NAME
    assert name in screen.raw or command[0] == "history"
    if command != ["list", "-o", "wide"]:  # asked for: it may be wider
        assert max(cell_len(line) for line in screen.lines) <= columns


def test_one_long_name_costs_the_other_jobs_no_column(
    fleet: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pipe and in a document it is whole."""
    with on_screen(monkeypatch, 80) as screen:
        assert run_command(["list"]) == 0
    assert {"SINCE", "BATCH"} <= set(screen.lines[0].split()), screen.lines
    assert LONG_NAME in fleet.run("list").out and LONG_NAME in fleet.run("list", "-o", "json").out


def test_names_that_are_all_long_stay_whole(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{LONG_NAME[:-1]}{n}" for n in range(3)]
    for name in names:
        terminal.submit(name)
    with on_screen(monkeypatch, 80) as screen:
        assert run_command(["list"]) == 0
    assert all(name in screen.raw for name in names)


def test_colours_are_for_terminals(fleet: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_screen(monkeypatch, 120) as screen:
        run_command(["list"])
    assert "\033[32mrunning" in screen.raw, screen.lines
    assert "\033[31mquarantined" in screen.raw
    with on_screen(monkeypatch, 120) as screen:
        monkeypatch.setenv("NO_COLOR", "1")
        run_command(["list"])
    assert "running" in screen.raw and not COLOUR.search(screen.raw)
    monkeypatch.setenv("FORCE_COLOR", "1")
    piped = fleet.run("list").out
    assert "\033" not in piped and "日本語 " * 39 in piped


def test_a_pipe_starts_without_rich(fleet: Terminal) -> None:
    code = "import sys; from supervisor.cli import listing, output; output.print_table(('A', 'B'), [[1, 2]]); print('rich' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "A  B\n1  2\nFalse\n"


# -- watch ------------------------------------------------------------------------------------------------------------


def story(monkeypatch: pytest.MonkeyPatch, *chapters: Callable[[], object]) -> None:
    """Each pause of the watch is a chapter; after the last one somebody presses Ctrl-C."""
    rest = iter(chapters)

    def pause() -> None:
        chapter = next(rest, None)
        if chapter is None:
            raise KeyboardInterrupt
        chapter()

    monkeypatch.setattr(watch, "_pause", pause)


def away(terminal: Terminal) -> tuple[Callable[[], None], Callable[[], None]]:
    """ZooKeeper goes away, and comes back."""

    def all_clients(what: Callable[[MemoryClient], None]) -> None:
        for client in terminal.bench.clients:
            if client.link in (Link.CONNECTED, Link.SUSPENDED):
                what(client)

    zoo = terminal.bench.zoo
    return lambda: all_clients(zoo.disconnect), lambda: all_clients(zoo.reconnect)


def test_watch_in_a_pipe_has_a_line_per_change_and_ends_with_0(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal.submit("a")
    terminal.submit("b")
    go, come = away(terminal)
    story(
        monkeypatch,
        lambda: None,
        lambda: terminal.bench.run("a"),
        go,
        lambda: None,
        come,
        lambda: terminal.bench.commands().cancel("b"),
    )
    ran = terminal.run("list", "--watch")
    assert ran.code == 0
    lines = [line.partition(" ")[2] for line in ran.out.splitlines()]
    assert lines == [
        "a pending: no supervisor is up",
        "b pending: no supervisor is up",
        "a running attempt 1 on host-a.example: this attempt has not used its checkpoint s3://bucket/a so far",
        "b is not listed any more; see spark-supervisor history b",
    ]
    assert ran.err.count("trying again") == 1 and "ZooKeeper answers again" in ran.err


def test_watch_on_a_terminal_stays_in_place_marks_changes_and_says_that_zookeeper_is_away(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal.submit("a")
    go, come = away(terminal)
    story(monkeypatch, lambda: terminal.bench.run("a"), go, come, lambda: None)
    with on_screen(monkeypatch, 100) as screen:
        assert run_command(["list", "--watch"]) == 0
    assert "\033[1A" in screen.raw  # up again, not on and on
    assert re.search(r"\033\[7m *a|\033\[7m", screen.raw)  # reverse: changed
    assert "trying again" in screen.raw and "Ctrl-C ends" in screen.raw
    assert "\033[?25h" in screen.raw  # the cursor is back


def test_a_taller_list_than_the_screen_says_how_many_are_missing(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(30):
        terminal.bench.bootstrapped or terminal.submit("seed")
        terminal.bench.bootstrapped = True
        terminal.bench.submit(f"job-{number:02}")
    story(monkeypatch)
    with on_screen(monkeypatch, 100) as screen:
        run_command(["list", "--watch"])
    assert re.search(r"… and \d+ more", screen.raw)


def test_reasons_below_their_rows_take_room_on_the_screen_too(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    for number in range(20):
        name = f"job-{number:02}"
        terminal.bench.submit(name) if terminal.bench.bootstrapped else terminal.submit(name)
        terminal.bench.bootstrapped = True
        terminal.bench.exit(name, permanent=True)
        own = terminal.bench.layout.own(name)
        terminal.bench.put(own, replace(terminal.bench.own(name), reason="START " + "the whole reason " * 10))
    story(monkeypatch)
    with on_screen(monkeypatch, 80) as screen:
        run_command(["list", "--watch"])
    more = re.search(r"… and (\d+) more", screen.raw)
    assert more is not None and screen.raw.count("START") == 2 * (20 - int(more[1])) < 40, (
        "drawn once more at the end"
    )
    assert "every 2 s" in screen.raw, "the foot is not pushed out"


def test_list_on_a_terminal_has_one_line_of_a_reason_and_says_where_all_of_it_is(
    fleet: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for options in ([], ["-o", "wide"]):
        with on_screen(monkeypatch, 80) as screen:
            run_command(["list", *options])
        (shown,) = (line for line in screen.lines if "日本語" in line)
        assert shown.startswith("  ") and shown.endswith("…")
        said = " ".join(line.strip() for line in screen.lines)
        assert said.count("spark-supervisor explain NAME has the whole of a reason that is cut (…)") == 1
    with on_screen(monkeypatch, 2000) as screen:
        run_command(["list"])
    assert screen.raw.count("日本語") == 40 and "that is cut" not in screen.raw
    assert fleet.run("list").out.count("日本語") == 40, "in a pipe nothing is cut"
    (document,) = (row for row in fleet.run("list", "-o", "json").json if row["state"] == "quarantined")
    assert document["reason"].count("日本語") == 40
    with on_screen(monkeypatch, 80) as screen:
        run_command(["explain", document["name"]])
    assert "".join(screen.raw.split()).count("日本語") >= 40


def test_list_on_a_terminal_says_first_that_the_cluster_is_paused(
    fleet: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet.run("pause", "--reason", "moving")
    with on_screen(monkeypatch, 80) as screen:
        run_command(["list"])
    assert screen.lines[0].startswith("the cluster is paused by ")
    piped = fleet.run("list")
    assert piped.out.startswith("NAME") and piped.err.startswith("the cluster is paused by "), (
        "a script reads the table alone"
    )


def test_times_are_local_on_a_terminal_and_utc_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XST-05:30")
        time.tzset()
        now_s = 1_795_221_000.0  # 2026-11-21T00:30:00Z
        assert output.local_time("2026-11-21T00:46:50.000Z", now_s) == "2026-11-21T00:46:50.000Z"
        patch.setattr(output, "terminal_width", lambda: 80)
        assert output.local_time("2026-11-21T00:46:50.000Z", now_s) == "06:16:50"
        assert output.local_time("2026-11-20T18:29:59Z", now_s) == "2026-11-20 23:59:59"
        assert output.local_time(None) == "-" and output.local_time("soon") == "soon"
        assert (
            output.with_local_times("since 2026-11-20T18:29:59.000Z, so") == "since 2026-11-20 23:59:59, so"
        )
    time.tzset()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.2, "0s"),
        (-3, "0s"),
        (24, "24s"),
        (204, "3m 24s"),
        (180, "3m"),
        (7500, "2h 5m"),
        (7205, "2h"),
        (273_600, "3d 4h"),
    ],
)
def test_spans(seconds: float, shown: str) -> None:
    assert output.span(seconds) == shown


def test_numbers_stand_to_the_right_in_a_pipe_too(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(("NAME", "BATCH", "HOST", "LAG"), [("a", 7, "h", 1), ("b", 1234567, "host", None)])
    assert capsys.readouterr().out.splitlines() == [
        "NAME    BATCH  HOST  LAG",
        "a           7  h       1",
        "b     1234567  host    -",
    ]


def test_watch_has_no_document(terminal: Terminal) -> None:
    for form in ("json", "yaml"):
        assert terminal.run("list", "--watch", "-o", form).code == 2


# -- yaml -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["show", "a"],
        ["status"],
        ["explain"],
        ["explain", "a"],
        ["history", "a"],
        ["suspend", "a"],
        ["resume", "a"],
        ["restart", "a"],
        ["cancel", "a"],
        ["pause"],
        ["unpause"],
    ],
)
def test_yaml_is_the_json_document(terminal: Terminal, command: list[str]) -> None:
    terminal.submit("a")
    as_yaml = terminal.run(*command, "-o", "yaml")
    assert as_yaml.code == 0 and not as_yaml.out.startswith(("{", "["))
    document = yaml.safe_load(as_yaml.out)
    if command[0] in ("list", "show", "explain", "history"):
        assert document == terminal.run(*command, "-o", "json").json
    else:
        assert isinstance(document, dict)


# -- waits ------------------------------------------------------------------------------------------------------------


def test_a_wait_tells_each_phase_and_a_time_out_says_what_is_missing(terminal: Terminal) -> None:
    ran = terminal.run("submit", terminal.spec("a"), "--wait", "--timeout", "100ms")
    assert ran.code == 7 and "a: queued" in ran.err and "no supervisor is up" in ran.err
    terminal.bench.run("a")
    for command in ("restart", "resume"):
        ran = terminal.run(command, "a", "--wait", "--timeout", "100ms")
        assert ran.code == 7 and "attempt 1 is to be stopped first" in ran.err, ran
    terminal.bench.run("a")
    assert terminal.run("resume", "a", "--wait", "--timeout", "100ms").code == 0
    ran = terminal.run("suspend", "a", "--wait", "--timeout", "100ms")
    assert ran.code == 7 and "waits for the exit of attempt 1" in ran.err
    terminal.bench.set_own("a", OwnState.EXITED)
    assert terminal.run("suspend", "a", "--wait", "--timeout", "100ms").code == 0


def test_a_wait_on_a_terminal_is_one_line_that_changes(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_screen(monkeypatch, 100, "stderr") as screen:
        assert run_command(["submit", terminal.spec("a"), "--wait", "--timeout", "100ms"]) == 7
    assert "a: queued" in screen.raw and "\033[2K" in screen.raw


# -- what a reader of the pipe does -----------------------------------------------------------------------------------


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    code = (
        "import sys; from supervisor.cli.main import app, run_command; from supervisor.cli.options import command\n"
        "@command\ndef much(chosen):\n    'Much.'\n    for n in range(200000): print('line', n)\n    return 0\n"
        "app.command('much')(much)\nsys.exit(run_command(['much']))"
    )
    script = tmp_path / "much.py"
    script.write_text(code)
    piped = f"{sys.executable} {script} | head -1; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["line 0", "0"] and ran.stderr == ""


# -- how a process ends -----------------------------------------------------------------------------------------------


def test_a_process_that_leaves_at_once_has_said_everything_and_waits_for_who_works_on(tmp_path: Path) -> None:
    script = tmp_path / "last_words.py"
    script.write_text(
        "import sys, threading; from supervisor.cli.main import app, main; from supervisor.cli.options import command\n"
        "def work_on():\n    threading.main_thread().join()\n    print('and the last')\n"
        "@command\ndef words(chosen):\n    'Words.'\n    for n in range(20000): print('line', n)\n"
        "    print('notice', file=sys.stderr)\n    return 3\n"
        "@command\ndef working(chosen):\n    'Working.'\n    threading.Thread(target=work_on).start()\n    return 4\n"
        "app.command('words')(words)\napp.command('working')(working)\nmain()"
    )
    printed = subprocess.run([sys.executable, script, "words"], capture_output=True, text=True, check=False)
    assert (printed.returncode, printed.stderr) == (3, "notice\n") and printed.stdout.splitlines()[
        -1
    ] == "line 19999"
    waited = subprocess.run([sys.executable, script, "working"], capture_output=True, text=True, check=False)
    assert (waited.returncode, waited.stdout, waited.stderr) == (4, "and the last\n", "")


@pytest.mark.parametrize("command", ["list", "show", "explain", "history", "status"])
def test_what_a_driver_said_last_cannot_steer_a_terminal(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    terminal.submit("a")
    evil = "exit code 1: \x1b]52;c;cHduZWQ=\x07 \x1b[2J\x9b5n\r boom"
    history = with_entry((), AT, "user_error", 1, evil)
    terminal.bench.set_own(
        "a", OwnState.EXITED, cause=Cause.USER_ERROR, reason=evil, history=history, failures=1
    )
    name = [] if command in ("list", "status") else ["a"]
    for on_terminal in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda shown=on_terminal: shown, raising=False)
        ran = terminal.run(command, *name)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", ran.out + ran.err) if on_terminal else ran.out + ran.err
        assert ran.code == 0
        assert all(char.isprintable() or char == "\n" for char in plain), ascii(plain)
        assert command not in ("show", "history") or "boom" in plain
