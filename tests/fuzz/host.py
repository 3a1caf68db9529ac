"""The run directories of a host in which one is odd, beside good ones: guardian, housekeeping, attempt reporter, agent, and the judge.

``calm`` runs: its shim and its driver are sleeping processes, its lock is held. ``spent``'s shim has died. A third process, the
witness, is nobody's: odd files name it. What stands beside the run directories (``outside``) is named by odd links.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from supervisor.clients import processes, run_dir
from supervisor.clients.processes import ProcessId
from supervisor.clients.run_dir import DeadlineFile
from supervisor.clients.zookeeper import ZooClient
from supervisor.clock import boottime_s
from supervisor.daemon.host.attempt_reporter import AttemptReporter, report
from supervisor.daemon.host.guarded_attempt import UNBORN_S, GuardStage
from supervisor.daemon.host.guardian import Guardian
from supervisor.daemon.host.hosted_attempts import HostedAttempts
from supervisor.daemon.host.housekeeping import ATTEMPTS_KEPT, ENDED, Housekeeper
from supervisor.daemon.host.prepared import HostCapacity, HostLoad, RequestedDriver
from supervisor.daemon.host.prepared_drivers import PreparedDrivers
from supervisor.daemon.host.start_barrier import StartBarrier
from supervisor.metrics import Metrics
from supervisor.model.launch import GATE, Launch
from supervisor.records.codec import encode
from tests.fakes.registry_bench import Bench
from tests.fakes.zookeeper import MemoryClient
from tests.fuzz.odd import odd_record
from tests.fuzz.registry import Broken
from tests.unit.daemon.host.prepared_bench import launch_of, request, stand
from tests.unit.shim.world import LAUNCH

NOW_S, FAR_S = 1000.0, 1e6
TICKS_S = (
    0.0,
    0.1,
    0.2,
    UNBORN_S + 1.0,
    UNBORN_S + 1.1,
    UNBORN_S + 1.2,
    UNBORN_S + 30.0,
    UNBORN_S + 700.0,
    UNBORN_S + 701.0,
)
HANGS_S = 30
MARKER = "c1a1c1a1"
SHAPES = (
    "missing",
    "empty",
    "torn",
    "junk",
    "odd",
    "odd",
    "odd",
    "special",
    "huge",
    "fifo",
    "directory",
    "link",
    "to calm",
    "loop",
    "socket",
)
NAMES = (
    "x",
    "uid",
    "uid.x",
    ".1",
    "a.b.c.1",
    "uid.99999999999999999999999",
    "z" * 200,
    "a\nb.1",
    "-",
    "\udcff.1",
    "uid..1",
    " ",
)
SPECIALS = (
    b'{"v":1,"pid":Infinity,"start_ticks":1,"boot_id":"b","claim":"c"}',
    b"[" * 4000,
    b'{"cause":NaN,"why":[]}',
    b"null",
    b"\0" * 64,
    b'{"v":1,"pid":1e999,"start_ticks":-1,"boot_id":"b","claim":""}',
    b"twin inf\nshim nan\n\xff\xff -1\ntwin -5\n",
    b"twin 1e400\n" * 2000,
)
DEADLINES = ("nan", "inf", "-inf", "1e308", "-5", "0", "none", "0x10")


class Hangs(BaseException):
    """What should have returned at once did not."""


class Sleepers:
    """The three processes, for all runs. ``calm``: the shim of ``calm``; ``driver``: its driver; ``witness``: nobody's."""

    def __enter__(self) -> Sleepers:
        plain = dict(os.environ)
        marks: tuple[dict[str, str], ...] = (
            {},
            {"SPARK_SUPERVISOR_CLAIM": MARKER},
            {"SPARK_SUPERVISOR_CLAIM": ""},
        )
        self.all = [
            subprocess.Popen(("sleep", "36000"), env={**plain, **mark}, start_new_session=True)
            for mark in marks
        ]
        self.calm, self.driver, self.witness = (self._named(each) for each in self.all)
        return self

    @staticmethod
    def _named(process: subprocess.Popen[bytes]) -> ProcessId:
        named = processes.identify(process.pid)
        assert named is not None
        return named

    def dead(self) -> list[str]:
        names = ("the shim of calm", "the driver of calm", "a stranger")
        return [name for name, process in zip(names, self.all, strict=True) if process.poll() is not None]

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        for process in self.all:
            process.kill()
            process.wait()


class OddHost:
    """One run. ``broken``: what should not have been."""

    def __init__(self, seed: int, directory: Path, sleepers: Sleepers) -> None:
        self.seed, self.rng, self.sleepers = seed, random.Random(seed), sleepers
        self.broken: list[Broken] = []
        self.changed: list[str] = []
        self.home = directory / "host"
        shutil.rmtree(self.home, ignore_errors=True)
        self.runtime, self.log_dir, self.outside = self.home / "run", self.home / "log", self.home / "outside"
        self.attempts = self.runtime / "attempts"
        self.hosted = HostedAttempts(self.runtime, self.log_dir)
        for made in (
            self.attempts,
            self.log_dir,
            self.outside,
            self.runtime / "work" / "x",
            self.runtime / ENDED,
        ):
            made.mkdir(parents=True, exist_ok=True)
        self.bench = Bench()
        self.client = MemoryClient(self.bench.zoo)
        self.client.start()
        for name in ("calm", "odd", "spent"):
            self.bench.submit(name)
            self.bench.run(name)
        self.killers: list[tuple[str, float]] = []
        self._outside()
        self.calm = self._of_calm()
        self.spent = self._of_spent()
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            self.rng.choice(
                (
                    self._odd_attempt,
                    self._odd_attempt,
                    self._odd_prepared,
                    self._odd_prepared,
                    self._copy,
                    self._strange,
                )
            )()
        self._odd_logs()
        self.before = (_contents(self.attempts / self.calm), _contents(self.outside), self._records())

    # -- what is there -------------------------------------------------------------------------------------------------

    def _outside(self) -> None:
        """Also what looks like a cgroup of somebody else's: a kill would be written into it, and what is empty removed."""
        for name in ("file", "group/cgroup.kill", "group/cgroup.procs", "group/cgroup.freeze", "full/file"):
            (self.outside / name).parent.mkdir(parents=True, exist_ok=True)
            (self.outside / name).write_bytes(b"")
        (self.outside / "group" / "cgroup.events").write_text("populated 1\nfrozen 0\n")
        (self.outside / "group" / "empty").mkdir()
        (self.outside / "empty" / "empty").mkdir(parents=True)
        for number in range(ATTEMPTS_KEPT + 5):
            (self.log_dir / f"supervisor.log.{number}").write_text("")

    def _launch(self, name: str, attempt: int = 1) -> Launch:
        own = self.bench.own(name)
        given = replace(LAUNCH.assignment, name=name, uid=own.uid, attempt=attempt)
        return replace(LAUNCH, assignment=given, supervisor="host-a")

    def _attempt(
        self, launch: Launch, shim: ProcessId, claim: str, deadline_at_s: float | None, driver: ProcessId
    ) -> Path:
        key = f"{launch.assignment.uid}.{launch.assignment.attempt}"
        made = run_dir.create(str(self.attempts), key, encode(launch, 1 << 20))
        if made is None:
            return self.attempts / key
        (Path(made) / run_dir.LOCK).touch()
        run_dir.write_process(f"{made}/{run_dir.SHIM}", shim, claim)
        run_dir.write_process(f"{made}/{run_dir.TWIN}", shim)
        run_dir.write_process(f"{made}/{run_dir.DRIVER}", driver)
        DeadlineFile.create(made).write(deadline_at_s)
        run_dir.note_kill(made, "twin", 0.125)
        (Path(made) / run_dir.SHIM_LOG).write_text("{}\n")
        return Path(made)

    def _of_calm(self) -> str:
        made = self._attempt(
            self._launch("calm"), self.sleepers.calm, MARKER, NOW_S + FAR_S, self.sleepers.driver
        )
        self.lock = run_dir.take_lock(str(made))
        assert self.lock is not None
        (self.runtime / "work" / made.name).mkdir()
        return made.name

    def _of_spent(self) -> str:
        gone = self.sleepers.witness._replace(start_ticks=1)
        return self._attempt(self._launch("spent"), gone, "5e5e5e5e", None, gone).name

    # -- what is odd ---------------------------------------------------------------------------------------------------

    def _odd_attempt(self) -> None:
        rng, witness = self.rng, self.sleepers.witness
        files = [
            run_dir.LAUNCH,
            run_dir.SHIM,
            run_dir.SHIM,
            run_dir.DEADLINE,
            run_dir.DRIVER,
            run_dir.KILLS,
            run_dir.GATE,
            run_dir.SHIM_LOG,
            run_dir.LOCK,
            run_dir.REPORT,
            run_dir.TWIN,
            "odd",
        ]
        chosen = set(rng.sample(files, k=rng.choice((0, 1, 1, 2, 3))))
        lied = witness._replace(start_ticks=rng.choice((1, -1, 2**70)))
        other = witness._replace(boot_id=rng.choice(("", "x", "b" * 36)))
        strange = witness._replace(pid=rng.choice((0, -1, 2**31, 2**63, 10**30, 2)), start_ticks=1)
        # A living process is named exactly only where the free lock shows that it is not the shim: a lie about it is no accident
        shim = rng.choice(
            (lied, other, strange) if run_dir.LOCK in chosen else (witness, witness, lied, other, strange)
        )
        deadline_at_s = rng.choice((None, NOW_S - 5.0, NOW_S + 10.0, NOW_S + FAR_S))
        launch = self._launch("odd", rng.choice((1, 1, 2, 3)))
        cgroup = rng.choice(
            (
                None,
                None,
                f"{self.outside}/group",
                f"{self.outside}/empty",
                f"{self.outside}/none",
                "relative",
                "",
            )
        )
        barrier = {GATE: "x"} if rng.random() < 0.3 else {}
        launch = replace(launch, cgroup=cgroup, env=barrier, reports=rng.random() < 0.7)
        claim = rng.choice(("", "0ddc1a1", "\0", MARKER[:4]))
        if os.path.islink(self.attempts / f"{launch.assignment.uid}.{launch.assignment.attempt}"):
            return
        made = self._attempt(launch, shim, claim, deadline_at_s, rng.choice((lied, other, strange)))
        self.changed.append(
            f"{made.name}: shim {shim}, claim {claim!r}, cgroup {cgroup}, deadline {deadline_at_s}"
        )
        for file in sorted(chosen):
            self._odd_file(made / file, to_calm=run_dir.LOCK not in chosen)

    def _odd_prepared(self) -> None:
        """A prepared driver whose shim is dead: an attempt may have been handed to it, to another one by the same name, or what
        looks like that."""
        rng, uid = self.rng, self.bench.own("odd").uid
        key = f"{uid}.p{rng.choice(('a1', 'b2'))}"
        if (self.attempts / key).exists():
            return
        gone = self.sleepers.witness._replace(start_ticks=1)
        asked = request("odd", uid=uid, memory=rng.choice((0, 1, 1 << 60)))
        named = rng.choice((key, key, key, f"{uid}.pc3", self.calm, ""))
        launch = launch_of(asked, named, supervisor=rng.choice(("host-a", "host-a", "host-b")))
        launch = replace(
            launch, cgroup=rng.choice((None, f"{self.outside}/group", f"{self.outside}/{key}-1"))
        )
        made = stand(self.hosted, key, asked, shim=gone, launch=launch, ready=rng.choice((True, False, None)))
        (made / run_dir.LOCK).touch()
        attempt = rng.choice((0, 1, 2, 3))
        if rng.random() < 0.7:
            given = replace(launch.assignment, attempt=attempt, own_version=0, job_version=0)
            given = rng.choice(
                (given, replace(given, name="calm"), replace(given, uid=self.calm.rpartition(".")[0]))
            )
            handed = replace(launch, assignment=given, supervisor="host-a")
            (made / run_dir.HANDED).write_bytes(encode(handed, 1 << 20))
        for file in rng.sample(
            (
                run_dir.LAUNCH,
                run_dir.HANDED,
                run_dir.HANDED,
                run_dir.READY,
                run_dir.OPENING,
                run_dir.SHIM,
                run_dir.REPORT,
            ),
            k=rng.choice((0, 1, 2)),
        ):
            self._odd_file(made / file, to_calm=True)
        name = self.attempts / f"{uid}.{attempt}"
        if not name.is_symlink() and not name.exists():
            name.symlink_to(
                rng.choice((key, key, f"{uid}.pgone", str(made), f"../attempts/{key}", self.calm))
            )
        self.changed.append(f"{key}: prepared as {named!r}, attempt {attempt}")

    def _odd_file(self, path: Path, *, to_calm: bool) -> None:
        rng, shape = self.rng, self.rng.choice(SHAPES)
        self.changed.append(f"{path.name} is {shape}")
        data = path.read_bytes() if path.is_file() else b"x"
        with suppress(FileNotFoundError, IsADirectoryError):
            path.unlink()
        if path.exists():
            return
        if shape == "odd":
            self._odd_content(path, data)
        elif shape in ("empty", "torn", "junk", "special", "huge"):
            path.write_bytes(
                {
                    "empty": b"",
                    "torn": data[: rng.randrange(len(data) + 1)],
                    "junk": rng.randbytes(rng.choice((1, 64, 5000))),
                    "special": rng.choice(SPECIALS),
                    "huge": data + bytes(1 << 24 if rng.random() < 0.2 else 1 << 17),
                }[shape]
            )
        else:
            self._odd_thing(path, shape, to_calm=to_calm)

    def _odd_thing(self, path: Path, shape: str, *, to_calm: bool) -> None:
        if shape == "fifo":
            os.mkfifo(path)
        elif shape == "directory":
            (path / "in" / "it").mkdir(parents=True)
            (path / "file").write_text("x")
            (path / "link").symlink_to(self.outside)
        elif shape == "link":
            path.symlink_to(self.outside / self.rng.choice(("file", "full", "none")))
        elif shape == "to calm" and to_calm:
            path.symlink_to(self.attempts / self.calm / path.name)
        elif shape == "loop":
            path.symlink_to(path.name)
        elif shape == "socket":
            _socket(path)

    def _odd_content(self, path: Path, data: bytes) -> None:
        names = (
            str(self.sleepers.witness.pid),
            self.sleepers.witness.boot_id,
            f"{self.outside}/group",
            "calm",
            "host-a",
        )
        if path.name.endswith(".json"):
            try:
                path.write_bytes(odd_record(self.rng, data, names))
            except ValueError:  # odd already
                path.write_bytes(self.rng.choice(SPECIALS))
        elif path.name == run_dir.DEADLINE:
            with suppress(ValueError):
                DeadlineFile.create(str(path.parent)).write(cast(float, _Said(self.rng.choice(DEADLINES))))
        else:
            path.write_bytes(self.rng.choice(SPECIALS))

    def _copy(self) -> None:
        """A run directory that somebody has copied, and what was written into the copy since."""
        name = self.rng.choice(("copy", f"{self.calm}.bak", f"{self.calm}0"))
        made = self.attempts / name
        if made.exists():
            return
        shutil.copytree(self.attempts / self.calm, made)
        DeadlineFile.create(str(made)).write(self.rng.choice((NOW_S - 5.0, NOW_S + 10.0, None)))
        self.changed.append(f"{name} is a copy of {self.calm}")
        if self.rng.random() < 0.5:
            self._odd_file(
                made / self.rng.choice((run_dir.LAUNCH, run_dir.DRIVER, run_dir.KILLS, run_dir.TWIN)),
                to_calm=True,
            )

    def _strange(self) -> None:
        rng = self.rng
        path = self.attempts / (rng.choice(NAMES) if rng.random() < 0.5 else f"{self.bench.own('odd').uid}.7")
        if path.is_symlink() or path.exists():
            return
        shape = rng.choice(
            ("empty", "files", "file", "fifo", "link", "link", "to calm", "nowhere", "loop", "socket")
        )
        self.changed.append(f"{path.name!a} is {shape}")
        if shape == "empty":
            path.mkdir()
        elif shape == "files":
            shutil.copytree(self.outside / "full", path)
        elif shape == "file":
            path.write_text("x")
        elif shape == "fifo":
            os.mkfifo(path)
        elif shape == "socket":
            _socket(path)
        else:
            path.symlink_to(
                {
                    "link": str(self.outside / rng.choice(("full", "group", "empty", "file"))),
                    "to calm": self.calm,
                    "nowhere": "/nowhere",
                    "loop": path.name,
                }[shape]
            )

    def _odd_logs(self) -> None:
        rng = self.rng
        for name in rng.sample(
            (".log", "a.log", "a", "odd.u.1.log", "\udcff.u.1.log", "..u.1.log", "odd..log", "calm.log.log"),
            k=2,
        ):
            shape = rng.choice(("file", "fifo", "directory", "link", "loop", "socket"))
            path = self.runtime / ENDED / name
            self.changed.append(f"{ENDED}/{name!a} is {shape}")
            if shape == "file":
                path.write_text("x")
            elif shape == "fifo":
                os.mkfifo(path)
            elif shape == "directory":
                shutil.copytree(self.outside / "full", path)
            elif shape == "socket":
                _socket(path)
            else:
                path.symlink_to(self.outside / "full" if shape == "link" else name)
        if rng.random() < 0.3:
            (self.log_dir / "odd").write_text("a file where a directory should be")

    # -- the loops -------------------------------------------------------------------------------------------------------

    def run(self) -> list[Broken]:
        metrics = Metrics(boottime_s)
        hosted = HostedAttempts(self.runtime, self.log_dir)
        self._try("agent", lambda: self._agent(hosted, metrics))
        self._try("attempt reporter", lambda: self._reporter(hosted, metrics))
        guardian = Guardian(self.attempts, "host-a", self.bench.layout, lambda: self.client, self._killed)
        for at_s in TICKS_S:
            self._try("guardian", lambda at_s=at_s: guardian.tick(NOW_S + at_s))  # type: ignore[misc]
        self._judge_guardian(guardian)
        guardian.close()
        keeper = Housekeeper(self.runtime / ENDED, self.log_dir, lambda: None, metrics)
        for _ in range(2):
            self._try("housekeeping", keeper.keep_logs)
        self._try("agent", lambda: self._agent(hosted, metrics))
        self._judge()
        os.close(cast(int, self.lock))
        shutil.rmtree(self.home, ignore_errors=True)
        return self.broken

    def _try(self, loop: str, work: Callable[[], Any]) -> None:
        try:
            with _in_time():
                work()
        except (Exception, Hangs) as error:
            at = [
                each for each in traceback.extract_tb(error.__traceback__) if "/supervisor/" in each.filename
            ][-1]
            why = f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {str(error)[:80]}"
            self._note(f"{loop} raised", why)

    def _note(self, what: str, why: str) -> None:
        self.broken.append(Broken(what, why, self.seed, self.changed))

    def _killed(self, by: str, seconds: float) -> None:
        self.killers.append((by, seconds))
        if not 0 <= seconds < 1e6:
            self._note("a kill is counted that is none", str(seconds))

    def _agent(self, hosted: HostedAttempts, metrics: Metrics) -> None:
        launches = hosted.launches()
        if not hosted.is_alive(self.calm) or self.calm not in launches:
            self._note("calm is not taken for alive", str(sorted(launches)))
        for key in launches:  # as for each start: what is occupied
            hosted.is_alive(key)
        barrier = StartBarrier("host-a", self.attempts, metrics)
        for key in barrier.waiting(hosted.launches):
            with suppress(OSError):
                run_dir.write_verdict(str(self.attempts / key), run_dir.StartVerdict())
        for key in sorted(hosted.keys()):
            hosted.state_of(key)
        prepared = PreparedDrivers(hosted, HostCapacity("host-a", 3, 1 << 40))
        uid = self.bench.own("odd").uid
        asked = {f"{uid}.1": RequestedDriver(f"{uid}.1", request("odd", uid=uid))}
        for requests in (None, asked, {}):
            prepared.turn(requests, [HostLoad("calm", 1)], ())
            prepared.send()
        prepared.fit_for(launches[self.calm].assignment, None) if self.calm in launches else None
        hosted.tidy(frozenset())

    def _reporter(self, hosted: HostedAttempts, metrics: Metrics) -> None:
        reporter = AttemptReporter(
            "host-a",
            hosted,
            self.bench.layout,
            lambda: cast(ZooClient, self.client),
            metrics,
            lambda _launch: None,
        )
        reporter.round(lambda: None)
        for key in sorted(hosted.keys()):
            report(self.attempts / key, {"event": "idle"})
        if b'spark_supervisor_job_state{job="calm",state="running"} 1.0' not in metrics.exposition():
            self._note("a host shows nothing of calm", "")

    # -- the judge -------------------------------------------------------------------------------------------------------

    def _judge_guardian(self, guardian: Guardian) -> None:
        guarded_attempt = next((each for each in guardian.guarded_attempts() if each.key == self.calm), None)
        if (
            guarded_attempt is None
            or guarded_attempt.stage is not GuardStage.WATCHED
            or guarded_attempt.killer.deadline_at_s != NOW_S + FAR_S
        ):
            self._note(
                "calm is not guarded",
                str(guarded_attempt and (guarded_attempt.stage.value, guarded_attempt.killer)),
            )
        if (self.attempts / self.spent).exists():
            self._note("the directory of spent is not removed", "")
        if ("twin", 0.125) not in self.killers:
            self._note("the kill of spent is not counted", "")

    def _judge(self) -> None:
        for who in self.sleepers.dead():
            self._note(f"{who} was killed", "")
        after = (_contents(self.attempts / self.calm), _contents(self.outside), self._records())
        for what, one, other in zip(
            ("directory", "surroundings", "records"), self.before, after, strict=True
        ):
            if one != other:
                paths = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
                self._note(f"the {what} of calm were touched", str(paths)[:120])
        if not (self.runtime / "work" / self.calm).is_dir():
            self._note("the working directory of calm is gone", "")
        if not (self.log_dir / "spent" / f"{self.spent}.shim.log").is_file():
            self._note("the log of spent's shim is not kept", "")
        logs = len([*self.log_dir.glob("supervisor.log.*")])
        if logs != ATTEMPTS_KEPT + 5:
            self._note("logs of others were removed", str(logs))

    def _records(self) -> dict[str, bytes | None]:
        layout = self.bench.layout
        return {
            path: self.bench.zoo.tree().get(path)
            for path in (layout.job("calm"), layout.own("calm"), layout.lease("calm"))
        }


class _Said:
    """A number that is written as somebody else would."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __format__(self, _how: str) -> str:
        return self._text


def _socket(path: Path) -> None:
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
    except (OSError, UnicodeError):
        pass
    finally:
        os.close(folder)


def _contents(directory: Path) -> dict[str, bytes | None]:
    """Also what is no file: None."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in directory.rglob("*")}


@contextmanager
def _in_time() -> Iterator[None]:
    """Raises Hangs. In the main thread."""

    def over(_number: int, _frame: Any) -> None:
        raise Hangs("it waits for ever")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(HANGS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_many(
    seeds: range, directory: Path, print_line: Callable[[Broken], None] = lambda _broken: None
) -> list[Broken]:
    """Everything that was broken in any of ``seeds``."""
    found: list[Broken] = []
    sleepers = Sleepers()
    with sleepers:
        for seed in seeds:
            for each in OddHost(seed, directory, sleepers).run():
                print_line(each)
                found.append(each)
            if sleepers.dead():
                sleepers.__exit__(None, None, None)
                sleepers.__enter__()
    return found
