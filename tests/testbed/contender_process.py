"""A supervisor reduced to its candidacy, as a process that tests may kill, stop and continue.

``python -m tests.testbed.contender_process '<json>'``. Says what happens on stdout, one JSON object per line with ``at``
(BOOTTIME); takes one command per line on stdin. While it leads, one task writes under its fence, ten times a second.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog

from supervisor.clients.store.files import FileStore
from supervisor.clients.zookeeper import Session, ZooClient, close_session
from supervisor.clock import boottime_s
from supervisor.coord.contender import Contender, Duties, ElectionRegistry, SessionFactory
from supervisor.coord.election import Candidate
from supervisor.coord.epoch_marks import EpochMarks
from supervisor.coord.term import Term
from supervisor.coord.trust import Trust
from supervisor.daemon.process.session_closer import SessionCloser
from supervisor.errors import GuardFailed, SupervisorError
from supervisor.model.transaction import ANY_VERSION, Check, SetData, Transaction
from supervisor.records.layout import Layout
from tests.testbed.secured_ensemble import use_what_the_parent_uses
from tests.waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]


class ContenderProcess:
    """The test's end of it. ``logged``: everything heard so far, oldest first. ``wrapper``: what its argv is put behind."""

    def __init__(
        self,
        name: str,
        *,
        hosts: str,
        layout: Layout,
        cluster: str,
        directory: Path,
        timeout_s: float,
        session_closer: bool = False,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.logged: list[dict[str, Any]] = []
        options = {
            "name": name,
            "hosts": hosts,
            "root": layout.root,
            "cluster": cluster,
            "store": str(directory / "store"),
            "zxid": str(directory / f"zxid-{name}"),
            "timeout_s": timeout_s,
            "session_closer": session_closer,
        }
        self._process = subprocess.Popen(
            [*wrapper, sys.executable, "-m", __name__, json.dumps(options)],
            cwd=REPOSITORY,
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.logged.append(json.loads(line))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def epochs(self) -> list[int]:
        return [each["epoch"] for each in self.all("term")]

    def session_of_term(self, epoch: int) -> dict[str, Any]:
        """The ``sessions`` event that was the latest when the term ``epoch`` began."""
        before = list(self.logged)
        began = next(i for i, each in enumerate(before) if each["event"] == "term" and each["epoch"] == epoch)
        return next(each for each in reversed(before[:began]) if each["event"] == "sessions")

    def all(self, event: str) -> list[dict[str, Any]]:
        return [each for each in list(self.logged) if each["event"] == event]

    def wait(self, event: str, number: int = 1, timeout_s: float = 30.0) -> dict[str, Any]:
        """The ``number``-th ``event``."""
        wait_until(
            lambda: len(self.all(event)) >= number,
            timeout_s,
            f"{event} number {number} of {self.name}",
            period_s=0.005,
        )
        return self.all(event)[number - 1]

    def command(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")

    def send_signal(self, number: signal.Signals) -> float:
        """Returns when (BOOTTIME)."""
        at_s = boottime_s()
        self._process.send_signal(number)
        return at_s

    def end(self) -> int:
        """SIGKILL if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        return self._process.wait()

    def wait_ended(self, timeout_s: float) -> int:
        return self._process.wait(timeout_s)


class _Program:
    def __init__(self, options: dict[str, Any]) -> None:
        self.hosts, self.timeout_s = options["hosts"], options["timeout_s"]
        self.layout = Layout(options["root"])
        self.session_closer = SessionCloser(self.hosts) if options["session_closer"] else None
        self.tasks: dict[int, threading.Thread] = {}
        self.fences: list[Term[ZooClient]] = []
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.refuse_to_end = False
        paths = self.layout
        trust = Trust(Path(options["zxid"]), options["cluster"])
        self.contender: Contender[ZooClient] = Contender(
            Candidate(options["name"], "nowhere"),
            ElectionRegistry(paths, EpochMarks(FileStore(Path(options["store"]))), trust),
            SessionFactory(self.connect, self.close, self.tell),
            Duties(self.on_term, self.on_step_down, lambda term: self.report("recorded", epoch=term.epoch)),
        )

    def report(self, event: str, **more: object) -> None:
        self.lines.put(json.dumps({"event": event, "at": boottime_s(), **more}))

    def speak(self) -> None:
        while True:
            os.write(1, (self.lines.get() + "\n").encode())

    def connect(self, on_link: Any) -> ZooClient:
        return ZooClient(
            self.hosts, self.timeout_s, on_link=on_link, request_timeout_s=min(5.0, self.timeout_s / 2)
        )

    def close(self, session: Session) -> None:
        close_session(self.hosts, session.id, session.password, 3.0)

    def tell(self, sessions: tuple[Session, ...]) -> None:
        if self.session_closer is not None:
            self.session_closer.publish_sessions(sessions)
        self.report(
            "sessions",
            ids=[session.id for session in sessions],
            passwords=[session.password.hex() for session in sessions],
        )

    def on_term(self, term: Term[ZooClient]) -> None:
        self.fences.append(term)
        self.report("term", epoch=term.epoch, fence=term.fence_version)
        task = threading.Thread(target=self.task, args=(term,))
        self.tasks[term.epoch] = task
        task.start()

    def on_step_down(self, term: Term[ZooClient]) -> None:
        self.report("stepping_down", epoch=term.epoch)
        self.tasks.pop(term.epoch).join()
        self.report("stepped_down", epoch=term.epoch)

    def write(self, term: Term[ZooClient], client: ZooClient) -> None:
        tape = f"{term.epoch}".encode()
        client.commit(
            Transaction(
                "write",
                "w",
                (
                    Check(self.layout.epoch, term.fence_version),
                    SetData(self.layout.doorbell, tape, ANY_VERSION),
                ),
            )
        )

    def task(self, term: Term[ZooClient]) -> None:
        """An old-fashioned task: it notices late that the term is over."""
        while True:
            try:
                term.check()
                self.write(term, term.client)
                self.report("wrote", epoch=term.epoch)
            except GuardFailed as error:
                self.report("refused", epoch=term.epoch, path=error.path)
                term.fence_failed()
            except SupervisorError as error:
                self.report("could_not", epoch=term.epoch, why=type(error).__name__)
            if term.over.wait(0.1):
                self.report("task_over", epoch=term.epoch)
                return

    def write_as(self, number: int) -> None:
        """A write with the fence of the ``number``-th term, on a healthy session: only the fence can stop it."""
        client = ZooClient(self.hosts, self.timeout_s)
        client.start()
        try:
            client.wait_connected(10)
            self.write(self.fences[number], client)
            self.report("zombie", path=None)
        except GuardFailed as error:
            self.report("zombie", path=error.path, kind=error.kind)
        finally:
            client.close()

    def run(self) -> None:
        threading.Thread(target=self.speak, daemon=True).start()
        if self.session_closer is not None:
            self.session_closer.start()
            self.report("session_closer", pid=self.session_closer.pid)
        self.contender.start()
        for line in sys.stdin:
            match line.split():
                case ["stop"]:
                    break
                case ["nudge"]:
                    self.contender.nudge()
                case ["zombie", number]:
                    self.write_as(int(number))
        self.report("stopped", in_time=self.contender.stop(20))
        if self.session_closer is not None:
            self.session_closer.stop()
        while not self.lines.empty():
            select.select([], [], [], 0.01)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    use_what_the_parent_uses()
    _Program(json.loads(sys.argv[1])).run()
