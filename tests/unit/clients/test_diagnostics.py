"""The collector of diagnostics, with processes that play a JVM or an interpreter; real JVMs are in tests/integration."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor.clients import processes
from supervisor.clients.diagnostics import attach, connections, proc
from supervisor.clients.diagnostics.attach import AttachFailed, JavaProcess, ask_jvm
from supervisor.clients.diagnostics.child import DiagnosticsProcess
from supervisor.clients.diagnostics.collection import DiagnosticsTask, collect
from supervisor.clients.diagnostics.python_threads import ask_interpreter
from supervisor.spark.orders import Orders
from tests.waiting import wait_until

# Plays a JVM: at SIGQUIT it makes the socket, if the file that asks for it is there, and answers by the rules in ``argv``.
JVM = """
import os, signal, socket, sys, time
path, asked = f"/tmp/.java_pid{os.getpid()}", f"/tmp/.attach_pid{os.getpid()}"
def begin(_number, _frame):
    if not os.path.exists(asked):
        print("threads into the output", flush=True)
        return
    listener.bind(path)
    listener.listen()
listener = socket.socket(socket.AF_UNIX)
if sys.argv[1] != "deaf":
    signal.signal(signal.SIGQUIT, begin if sys.argv[1] != "hangs" else lambda *_: None)
print("up", flush=True)
while True:
    try:
        connection, _ = listener.accept()
    except OSError:
        time.sleep(0.01)
        continue
    request = b""
    while request.count(b"\\0") < 5:
        request += connection.recv(1000)
    if sys.argv[1] == "silent":
        time.sleep(600)
    code = b"1\\n" if sys.argv[1] == "refuses" else b"0\\n"
    try:
        connection.sendall(code + request.replace(b"\\0", b"|"))
        while sys.argv[1] == "endless":
            connection.sendall(b"x" * 65536)
    except OSError:
        pass
    connection.close()
"""


@contextmanager
def jvm(how: str) -> Iterator[tuple[JavaProcess, subprocess.Popen[bytes]]]:
    child = subprocess.Popen([sys.executable, "-c", JVM, how], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None and child.stdout.readline() == b"up\n"
        process = processes.identify(child.pid)
        assert process is not None
        yield JavaProcess(process, os.getuid(), child.pid), child
    finally:
        child.kill()
        child.communicate()
        Path(f"/tmp/.java_pid{child.pid}").unlink(missing_ok=True)


def soon(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


def test_a_jvm_is_asked_by_the_protocol_and_nothing_gets_into_its_output() -> None:
    with jvm("answers") as (java, child):
        for _ in range(2):  # the second time its listener is there
            assert ask_jvm(java, "inspectheap", "-all", until_at_s=soon()) == "1|inspectheap|-all|||"
        assert not Path(f"/tmp/.attach_pid{child.pid}").exists()
        child.kill()
        assert child.stdout is not None and child.stdout.read() == b""


def test_a_jvm_without_a_handler_is_sent_no_signal() -> None:
    """SIGQUIT would end it."""
    with jvm("deaf") as (java, child):
        with pytest.raises(AttachFailed, match="SIGQUIT"):
            ask_jvm(java, "threaddump", until_at_s=soon())
        assert child.poll() is None
        assert not Path(f"/tmp/.attach_pid{child.pid}").exists()


@pytest.mark.parametrize(("how", "why"), [("hangs", "attach listener"), ("silent", "in time")])
def test_a_jvm_that_does_not_answer_is_given_up(how: str, why: str) -> None:
    with jvm(how) as (java, child):
        with pytest.raises(AttachFailed, match=why):
            ask_jvm(java, "threaddump", until_at_s=soon(1.0))
        assert not Path(f"/tmp/.attach_pid{child.pid}").exists()


def test_a_refusal_is_no_answer() -> None:
    with jvm("refuses") as (java, _), pytest.raises(AttachFailed, match="refused"):
        ask_jvm(java, "threaddump", until_at_s=soon())


def test_an_endless_answer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach, "ANSWER_MAX_BYTES", 100_000)
    with jvm("endless") as (java, _):
        assert len(ask_jvm(java, "threaddump", until_at_s=soon())) < 200_000


def _link(path: Path, elsewhere: Path) -> None:
    path.symlink_to(elsewhere)


def _file(path: Path, _elsewhere: Path) -> None:
    path.touch()


@pytest.mark.parametrize("put", [_link, _file])
def test_what_is_no_socket_of_the_jvm_is_not_used(tmp_path: Path, put: Callable[[Path, Path], None]) -> None:
    elsewhere = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as other, jvm("hangs") as (java, child):
        other.bind(str(elsewhere))
        other.listen()
        put(Path(f"/tmp/.java_pid{child.pid}"), elsewhere)
        with pytest.raises(AttachFailed):
            ask_jvm(java, "threaddump", until_at_s=soon(1.0))
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()


def test_a_process_that_is_gone_is_asked_nothing() -> None:
    with jvm("answers") as (java, child):
        child.kill()
        child.wait()
        with pytest.raises(AttachFailed):
            ask_jvm(java, "threaddump", until_at_s=soon())


# -- the interpreter ---------------------------------------------------------------------------------------------------------


def holds_a_place_in_this_test(path: str) -> str | None:
    return ask_interpreter(path, os.getuid(), soon())


def test_an_interpreter_says_where_its_threads_are(tmp_path: Path) -> None:
    """Also while the thread that carries orders out waits for a JVM that never answers."""

    class Hung(Orders):
        def probe(self) -> None:
            time.sleep(600)

    orders = Hung(lambda *_args, **_more: None, ())
    path = str(tmp_path / "orders")
    orders.listen(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.sendto(b'{"order": "look"}', path)
        other.sendto(b"[", path)
    answer = holds_a_place_in_this_test(path)
    assert answer is not None and answer.startswith(f"pid {os.getpid()}\n")
    assert '"MainThread"' in answer and f"at holds_a_place_in_this_test ({__file__}:" in answer
    wait_until(lambda: f"at probe ({__file__}:" in (holds_a_place_in_this_test(path) or ""))


def test_nobody_there_is_no_answer(tmp_path: Path) -> None:
    assert ask_interpreter(str(tmp_path / "orders"), os.getuid(), soon()) is None
    (tmp_path / "file").touch()
    assert ask_interpreter(str(tmp_path / "file"), os.getuid(), soon()) is None
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mute:
        mute.bind(str(tmp_path / "mute"))
        (tmp_path / "link").symlink_to(tmp_path / "mute")
        assert ask_interpreter(str(tmp_path / "mute"), os.getuid(), soon(0.2)) is None
        assert ask_interpreter(str(tmp_path / "mute"), os.getuid() + 1, soon()) is None
        assert mute.recv(1000) == b'{"order": "stacks"}'
        mute.setblocking(False)
        assert ask_interpreter(str(tmp_path / "link"), os.getuid(), soon()) is None
        with pytest.raises(BlockingIOError):
            mute.recv(1000)


# -- what the kernel says ----------------------------------------------------------------------------------------------------


def test_sockets_are_listed_with_both_ends() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
    ):
        kept, _ = server.accept()
        port, other = server.getsockname()[1], one.getsockname()[1]
        wanted = {
            f"LISTEN       127.0.0.1:{port} -> 0.0.0.0:0",
            f"ESTABLISHED  127.0.0.1:{other} -> 127.0.0.1:{port}",
        }
        # the kernel's table is of no one moment: a read can miss a socket while others of the host come and go
        wait_until(lambda: wanted <= {*connections.sockets_of(os.getpid())}, 30, "both sockets")
        kept.close()
    assert connections.address("0000000000000000FFFF00000100007F:1F90") == "127.0.0.1:8080"
    assert connections.address("00000000000000000000000001000000:0050") == "[::1]:80"


def test_a_process_is_described_and_one_that_is_gone_is_none() -> None:
    me = proc.view_of(os.getpid())
    assert me is not None and me.kind == "python" and me.own_pid == os.getpid() and me.uid == os.getuid()
    assert me.rss_bytes and me.threads >= 1 and not me.is_stopped
    child = subprocess.Popen(["true"])
    child.wait()
    assert proc.view_of(child.pid) is None


def test_the_collection_ends_at_its_time_whatever_hangs() -> None:
    pieces: list[str] = []
    with jvm("hangs") as (java, child):
        os.kill(child.pid, signal.SIGSTOP)
        task = DiagnosticsTask(
            (child.pid, os.getpid()), ("why: silence",), within_s=0.5, times=100, every_s=0.1
        )
        collect(task, pieces.append)
        os.kill(child.pid, signal.SIGCONT)
    text = "".join(pieces)
    assert text.startswith("why: silence\n") and "== memory ==" in text and "== processes ==" in text
    assert (
        f"== thread dump 1 of 100 of {proc.command_line(os.getpid())[0].rpartition('/')[2]} {os.getpid()} at "
        in text
    )
    assert "== thread dump 50 of 100" not in text


@pytest.mark.parametrize("heap", [True, False])
def test_a_jvm_is_not_held_for_its_heap_if_it_is_not_to_be(
    monkeypatch: pytest.MonkeyPatch, heap: bool
) -> None:
    monkeypatch.setattr(proc, "kind_of", lambda *_: "jvm")
    pieces: list[str] = []
    with jvm("answers") as (_, child):
        collect(DiagnosticsTask((child.pid,), times=1, within_s=20.0, heap=heap), pieces.append)
    text = "".join(pieces)
    assert "1|threaddump|" in text and ("1|inspectheap|-all|" in text) is heap


def test_the_process_collects_and_gets_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    started = DiagnosticsProcess(
        DiagnosticsTask((os.getpid(),), ("why: a test",), times=1, within_s=10.0), None
    )
    try:
        assert b"hush" not in Path(f"/proc/{started.pid}/environ").read_bytes()
        output = b""
        while piece := os.read(started.output, 65536):
            output += piece
    finally:
        started.kill()
        started.reap()
        started.close()
    assert output.startswith(b"why: a test\n") and b"== sockets of " in output


def test_a_program_without_standard_input_starts_it_too() -> None:
    """Then the pipe with the task has the number 0 already."""
    program = (
        "import os; os.close(0)\n"
        "from supervisor.clients.diagnostics.child import DiagnosticsProcess\n"
        "from supervisor.clients.diagnostics.collection import DiagnosticsTask\n"
        "started = DiagnosticsProcess(DiagnosticsTask((os.getpid(),), ('why: a test',), times=1, within_s=10.0), None)\n"
        "while piece := os.read(started.output, 65536):\n"
        "    print(piece.decode(), end='', flush=True)\n"
        "started.reap()\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("why: a test\n") and "== sockets of " in ran.stdout


def test_the_process_is_ended_at_once() -> None:
    started = DiagnosticsProcess(
        DiagnosticsTask((os.getpid(),), times=10, every_s=30.0, within_s=300.0), None
    )
    started.kill()
    started.reap()
    while os.read(started.output, 65536):  # to its end
        pass
    started.close()
    started.kill()  # harmless afterwards


def test_a_task_that_is_too_large_starts_nothing() -> None:
    with pytest.raises(OSError, match="a task of"):
        DiagnosticsProcess(DiagnosticsTask((1,), ("x" * 100_000,)), None)


def test_a_pipe_without_room_for_the_task_starts_nothing_and_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user with many pipes open gets small ones (fs.pipe-user-pages-soft): nobody reads before the process runs."""
    before, whole = len(os.listdir("/proc/self/fd")), os.pipe

    def small() -> tuple[int, int]:
        ends = whole()
        fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4096)
        return ends

    monkeypatch.setattr(os, "pipe", small)
    with pytest.raises(OSError):
        DiagnosticsProcess(DiagnosticsTask((1,), ("x" * 20_000,)), None)
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_executable_that_cannot_be_opened_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk hangs, or what checks files at exec does: here a lease on the file, which the kernel waits for at exec."""
    program = tmp_path / "python"
    program.write_bytes(Path(sys.executable).read_bytes())
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel asks for its lease back
    lease = os.open(program, os.O_RDONLY)
    try:
        fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        started = DiagnosticsProcess(DiagnosticsTask((os.getpid(),), within_s=600.0), None)
        try:
            assert os.readlink(f"/proc/{started.pid}/exe") != str(program), "it was waited for until exec"
        finally:
            started.kill()
            started.reap()
        assert os.read(started.output, 1) == b""
        started.close()
    finally:
        os.close(lease)
        signal.signal(signal.SIGIO, before)
