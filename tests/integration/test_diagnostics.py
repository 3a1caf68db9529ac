"""Diagnostics of real JVMs: of each Java that this host has, of one that is stopped, and of one of another Unix user."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor.clients.diagnostics.child import DiagnosticsProcess
from supervisor.clients.diagnostics.collection import DiagnosticsTask
from supervisor.clients.emptying import remove
from supervisor.clients.privileges import become
from supervisor.model.driver_user import DriverUser
from tests.testbed import requirements
from tests.waiting import wait_until

SILENT = """
public class Silent {
    static final Object LOCK = new Object();
    public static void main(String[] args) throws Exception {
        Thread other = new Thread(() -> {
            synchronized (LOCK) {
                System.out.println("up");
                try { Thread.sleep(Long.MAX_VALUE); } catch (InterruptedException e) { }
            }
        }, "holds-the-lock");
        other.setDaemon(true);
        other.start();
        while (!Thread.holdsLock(LOCK)) { if (other.getState() == Thread.State.TIMED_WAITING) break; Thread.sleep(10); }
        synchronized (LOCK) { System.out.println("never"); }
    }
}
"""
USER = DriverUser(name="u", uid=20001, gid=20001)
JAVAS = sorted({str(path.resolve()) for path in Path("/usr/lib/jvm").glob("*/bin/java")}) or [
    shutil.which("java") or "java"
]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where every user may read the class; as old a format as all of them run."""
    requirements.need("jdk")
    directory = Path("/tmp") / f"diagnostics-{os.getpid()}"
    directory.mkdir(mode=0o755)
    (directory / "Silent.java").write_text(SILENT)
    subprocess.run(
        ["javac", "--release", "11", "Silent.java"], cwd=directory, check=True, capture_output=True
    )
    for file in directory.iterdir():
        file.chmod(0o644)
    yield directory
    assert remove(str(directory), 60.0)


@contextmanager
def silent_jvm(
    java: str, classes: Path, *options: str, user: DriverUser | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A JVM whose main thread waits for a lock for ever."""
    become_other = None if user is None else (lambda: become(user))
    child = subprocess.Popen(
        [java, "-Xmx64m", "-Xshare:auto", *options, "-cp", str(classes), "Silent", "hush"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        preexec_fn=become_other,
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == b"up\n"
        yield child
    finally:
        child.kill()
        child.communicate()
        Path(f"/tmp/.java_pid{child.pid}").unlink(missing_ok=True)


def collected(pid: int, user: DriverUser | None = None, **task: object) -> str:
    started = DiagnosticsProcess(DiagnosticsTask((pid,), every_s=0.2, **task), user)  # type: ignore[arg-type]
    try:
        output = b""
        while piece := os.read(started.output, 65536):
            output += piece
        return output.decode()
    finally:
        started.kill()
        started.reap()
        started.close()


def printed_beside(child: subprocess.Popen[bytes]) -> bytes:
    """What the JVM has written after its first line."""
    child.kill()
    assert child.stdout is not None
    return child.stdout.read()


@pytest.mark.parametrize("java", JAVAS)
def test_a_silent_jvm_shows_its_threads_three_times_and_its_heap(java: str, classes: Path) -> None:
    with silent_jvm(java, classes) as child:
        text = collected(child.pid)
        assert text.count("== thread dump ") == text.count("Full thread dump") == 3
        assert text.count('"main" ') == text.count("at Silent.main(Silent.java:") == 3
        assert "BLOCKED (on object monitor)" in text and '"holds-the-lock"' in text
        assert "== heap histogram of java" in text and "[B" in text and "\nTotal " in text
        assert "java Silent  (-Xmx64m)" in text and "hush" not in text
        assert printed_beside(child) == b"", "the threads got into the output of the driver"


def test_a_jvm_that_is_stopped_holds_nothing_up(classes: Path) -> None:
    with silent_jvm(JAVAS[0], classes) as child:
        os.kill(child.pid, signal.SIGSTOP)
        text = collected(child.pid, within_s=10.0)
        assert text.count("it is stopped (SIGSTOP): it can be asked nothing") == 4
        os.kill(child.pid, signal.SIGCONT)
        assert printed_beside(child) == b""


def test_a_jvm_that_is_stopped_while_it_is_asked_is_given_up(classes: Path) -> None:
    """And one that is killed meanwhile ends the collection of its own part."""
    with silent_jvm(JAVAS[0], classes) as child:
        started = DiagnosticsProcess(
            DiagnosticsTask((child.pid,), every_s=0.3, times=10, within_s=60.0), None
        )
        try:
            output = b""
            while b"thread dump 2 of 10" not in output:
                output += os.read(started.output, 65536)
            child.kill()
            while piece := os.read(started.output, 65536):
                output += piece
        finally:
            started.kill()
            started.reap()
            started.close()
        assert b"it has ended" in output


def test_a_jvm_that_leaves_signals_alone_is_not_ended_by_the_question(classes: Path) -> None:
    """SIGQUIT would end it. It has its attach listener from the start."""
    with silent_jvm(JAVAS[0], classes, "-Xrs") as child:
        assert collected(child.pid, within_s=10.0).count("at Silent.main(Silent.java:") == 3
        assert child.poll() is None


def test_a_jvm_that_leaves_signals_alone_and_takes_no_attach_is_sent_no_signal(classes: Path) -> None:
    with silent_jvm(JAVAS[0], classes, "-Xrs", "-XX:+DisableAttachMechanism") as child:
        assert "it does not handle SIGQUIT" in collected(child.pid, within_s=10.0)
        assert child.poll() is None


def test_a_jvm_that_takes_no_attach_is_given_up(classes: Path) -> None:
    """It prints its threads into its output then: that is HotSpot's, and all that is to be had."""
    with silent_jvm(JAVAS[0], classes, "-XX:+DisableAttachMechanism") as child:
        text = collected(child.pid, within_s=3.0, times=1)
        assert "not to be had: it has not started its attach listener in time" in text
        assert child.poll() is None


@pytest.mark.users
def test_a_jvm_of_another_user_is_asked_as_that_user(classes: Path) -> None:
    with silent_jvm(JAVAS[0], classes, user=USER) as child:
        text = collected(child.pid, USER)
        assert text.count("at Silent.main(Silent.java:") == 3 and "== heap histogram of java" in text
        assert Path(f"/tmp/.java_pid{child.pid}").stat().st_uid == USER.uid
        assert printed_beside(child) == b""


@pytest.mark.users
def test_the_process_that_collects_becomes_the_user_of_the_driver(classes: Path) -> None:
    with silent_jvm(JAVAS[0], classes, user=USER) as child:
        started = DiagnosticsProcess(DiagnosticsTask((child.pid,), times=5, every_s=1.0, within_s=60.0), USER)
        status = Path(f"/proc/{started.pid}/status")
        try:
            wait_until(
                lambda: f"Uid:\t{USER.uid}\t{USER.uid}" in status.read_text(), 20, "it to become the user"
            )
            assert (
                "NoNewPrivs:\t1" in status.read_text() and "CapEff:\t0000000000000000" in status.read_text()
            )
        finally:
            started.kill()
            started.reap()
            started.close()
