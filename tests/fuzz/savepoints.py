"""The savepoints of ``odd`` are odd, in the store, beside those of ``calm``: the leader's loop, its sweeper, the commands, and the
judge.

Each has two of the schedule, one that a user asked for, and one that was never completed.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from supervisor.cli.main import run_command
from supervisor.errors import SupervisorError
from supervisor.model.going_back import GOES_ON
from supervisor.savepoints import operations as savepoint_operations
from supervisor.savepoints.create import Creation
from supervisor.savepoints.restore import restore
from supervisor.savepoints.shelf import Shelf
from supervisor.savepoints.sweep import EVERY_S, GRACE_S, SavepointSweeper
from supervisor.settings.file import Settings
from tests.fuzz.odd import odd_record
from tests.fuzz.registry import Broken
from tests.unit.checkpoint.savepoints import AT, area, begun, contents, place, shelf
from tests.unit.daemon.leader.test_scheduled_savepoints import HOUR, Rig

USERS, LEFT = "mine", "left"
NAMES = (
    "scheduled-20261340-999999",
    "scheduled-99991231-235959",
    "x" * 63,
    "UPPER",
    "..x",
    "a b",
    "scheduled-20261122-000000-2",
    "\u2028",
)
SHAPES = (
    "missing",
    "empty",
    "torn",
    "junk",
    "odd",
    "odd",
    "odd",
    "odd",
    "special",
    "huge",
    "fifo",
    "directory",
    "link",
    "loop",
)
SPECIALS = (
    b"[" * 5000,
    b"null",
    b'{"v":1}',
    b'{"v":true}',
    b'{"v":99999999}',
    b'{"v":Infinity}',
    b'{"v":1,"objects":[["../../x",1,"t"]]}',
    b"NaN",
)
INSIDE = {
    "attempt": (b"Infinity", b"1e999", b"-1"),
    "objects": (b"Infinity", b"-5"),
    "bytes": (b"1e999", b"1" + b"0" * 400),
    "every_s": (b"Infinity", b"NaN", b"-1.0", b"1e300", b"1e999"),
    "left_out": (b"-Infinity", b"[]"),
    "id": (b'"\\ud800"', b'"../x"'),
    "objects_sha256": (b'"../../../calm"', b'"\\u0000"', b'""'),
    "source": (b'"\\ud800"', b'""'),
    "software": (b'"\\ud800"', b'"\\u001b[2J"'),
    "at": (b'"\\ud800"', b'"0001-01-01T00:00:00"', b'"9999-12-31T23:59:59+23:59"'),
    "created_at": (b'"9999"', b'"\\ud800"'),
    "location": (b'"file:///"', b'"file:relative"', b'"hdfs://x/y"', b'"s3://odd"', b'""', b'"\\ud800"'),
}


class Shelves:
    """Made once for all runs: a store of which each run has a copy."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rig = Rig(directory)
        for name in ("calm", "odd"):
            self.rig.job(name)
            self._user_made(name)
        for _ in range(2):
            self.rig.run_once()
            self.rig.pass_(HOUR)
        self.kept = directory / "kept"
        self.times = (self.rig.now_s, self.rig.store_s)
        shutil.copytree(self.rig.store, self.kept)
        self.config = directory / "supervisor.yaml"
        self.config.write_text(
            "cluster: test\nzookeeper: {hosts: 'zk:2181'}\n"
            f"store: {{url: 'file://{self.rig.store}'}}\nsupervisor: {{id: host-a, log_dir: {directory}/log, runtime_dir: {directory}/run}}\n"
        )

    def _user_made(self, name: str) -> None:
        for savepoint in (USERS, LEFT):
            what = begun(self.checkpoint(name), place(self.rig.store, savepoint, name), savepoint, name)
            on = shelf(self.rig.store)
            on.begin(what)
            Creation(area(self.checkpoint(name)), on.area_of(what), what, lambda: AT).run()
        area(place(self.rig.store, LEFT, name)).remove("manifest.json")

    def checkpoint(self, name: str) -> Path:
        return self.rig.directory / name / "files"

    def renew(self) -> Rig:
        shutil.rmtree(self.rig.store)
        shutil.copytree(self.kept, self.rig.store)
        self.rig.now_s, self.rig.store_s = self.times
        self.rig.elect()
        return self.rig


class OddShelf:
    """One run. ``broken``: what should not have been."""

    def __init__(self, seed: int, shelves: Shelves) -> None:
        self.seed, self.rng, self.shelves = seed, random.Random(seed), shelves
        self.broken: list[Broken] = []
        self.changed: list[str] = []
        self.rig = shelves.renew()
        self.odd = self.rig.store / "savepoints" / "odd"
        self.ids = sorted(path.name for path in self.odd.iterdir())
        self.calm = self.rig.there("calm")
        self.outside = shelves.directory / "outside"
        shutil.rmtree(self.outside, ignore_errors=True)
        (self.outside / "savepoints").mkdir(parents=True)
        (self.outside / "file").write_text("{}")
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            self.rng.choice(
                (self._odd_file, self._odd_file, self._odd_file, self._elsewhere, self._strange)
            )()
        self.before = self._of_others()

    # -- what is odd ---------------------------------------------------------------------------------------------------

    def _odd_file(self) -> None:
        rng, home = self.rng, self.odd / self.rng.choice(self.ids)
        files = [path for path in home.iterdir() if path.is_file()] + [home / "restores" / "x.json"]
        path, shape = rng.choice(files), rng.choice(SHAPES)
        path.parent.mkdir(exist_ok=True)
        data = path.read_bytes() if path.is_file() else b'{"target": "s3://b/x", "at": "now"}'
        path.unlink(missing_ok=True)
        if shape == "odd":
            data = self._odd_content(data)
        elif shape in ("empty", "torn", "junk", "special", "huge"):
            data = {
                "empty": b"",
                "torn": data[: rng.randrange(len(data) + 1)],
                "junk": rng.randbytes(64),
                "special": rng.choice(SPECIALS),
                "huge": data + b" " * (1 << 20),
            }[shape]
        self.changed.append(f"{home.name}/{path.name} is {shape}: {data.decode(errors='replace')[:900]}")
        if shape == "fifo":
            os.mkfifo(path)
        elif shape == "directory":
            (path / "in").mkdir(parents=True)
            (path / "in" / "file").write_text("x")
        elif shape in ("link", "loop"):
            path.symlink_to(self.outside / "file" if shape == "link" else path.name)
        elif shape != "missing":
            path.write_bytes(data)

    def _odd_content(self, data: bytes) -> bytes:
        names = (*self._places(), "calm", *self.calm)
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):  # odd already
            return self.rng.choice(SPECIALS)
        if not isinstance(body, dict) or not body:
            return self.rng.choice(SPECIALS)
        keys = sorted(INSIDE.keys() & body.keys())
        if not keys or self.rng.random() < 0.5:
            return odd_record(self.rng, data, names)
        key = self.rng.choice(keys)
        return json.dumps({**body, key: "@@"}).encode().replace(b'"@@"', self.rng.choice(INSIDE[key]))

    def _places(self) -> tuple[str, ...]:
        calm = self.rig.store / "savepoints" / "calm"
        paths = (
            calm,
            calm / self.calm[0],
            calm / USERS,
            self.shelves.checkpoint("calm"),
            self.outside,
            self.rig.store,
            self.odd,
            self.odd / ".." / "calm" / USERS,
            Path(f"{self.shelves.checkpoint('calm')}.savepoints/calm/{USERS}"),
        )
        return tuple(f"file://{path}" for path in paths)

    def _elsewhere(self) -> None:
        """An entry whose copies are said to lie where those of somebody else do."""
        path = (
            self.odd
            / self.rng.choice(self.ids)
            / self.rng.choice(("begun.json", "begun.json", "manifest.json"))
        )
        if not path.is_file():
            return
        with suppress(OSError, ValueError, TypeError, RecursionError):
            body = dict(json.loads(path.read_bytes()))
            body["location"] = self.rng.choice(self._places())
            path.write_bytes(json.dumps(body).encode())
            self.changed.append(f"{path.parent.name}/{path.name} is at {body['location']}")

    def _strange(self) -> None:
        shape, path = (
            self.rng.choice(("directory", "file", "link", "loop", "fifo", "copy")),
            self.odd / self.rng.choice(NAMES),
        )
        if path.is_symlink() or path.exists():
            return
        self.changed.append(f"odd/{path.name!a} is {shape}")
        if shape == "directory":
            (path / "in").mkdir(parents=True)
        elif shape == "file":
            path.write_text("x")
        elif shape == "fifo":
            os.mkfifo(path)
        elif shape == "copy":
            shutil.copytree(self.shelves.kept / "savepoints" / "odd" / self.ids[0], path)
        else:
            path.symlink_to(self.outside if shape == "link" else path.name)

    # -- the loops -------------------------------------------------------------------------------------------------------

    def run(self) -> list[Broken]:
        with self._environment():
            self._commands()
        shelves = shelf(self.rig.store)
        self._judge("the commands")
        self._leader()
        self._sweep(shelves)
        self._judge("leader and sweeper")
        self._delete(shelves)
        self._judge("a user's delete")
        return self.broken

    def _commands(self) -> None:
        ids = sorted(name for name in os.listdir(self.odd) if name.isprintable())
        some = self.rng.sample(ids, k=min(2, len(ids)))
        for arguments in (
            ["list"],
            ["list", "odd", "-o", "json"],
            ["show", "odd"],
            *(["show", "odd", each] for each in some),
            *(["verify", "odd", each] for each in some),
            ["verify", f"file://{self.odd}/{some[0]}"],
        ):
            out, err = io.StringIO(), io.StringIO()
            with redirect_stdout(out), redirect_stderr(err):
                run_command(["savepoint", *arguments])
            if "unexpected " in err.getvalue() or "Traceback" in err.getvalue():
                self._note(f"savepoint {arguments[0]} raised", _without_paths(err.getvalue().strip()[-300:]))
            for line in out.getvalue(), err.getvalue():
                self._try("what is printed", lambda line=line: line.encode())  # type: ignore[misc]
            if arguments == ["list"] and not all(each in out.getvalue() for each in self.calm):
                self._note("list does not show what calm has", "")
        settings = Settings.model_validate(
            {
                "cluster": "test",
                "zookeeper": {"hosts": "zk:2181"},
                "store": {"url": f"file://{self.rig.store}"},
                "supervisor": {"id": "host-a"},
            }
        )
        policy = self.rig.bench.ref("odd").record.terms.savepoints
        assert policy is not None
        checkpoint = f"file://{self.shelves.checkpoint('odd')}"
        self._try("status", lambda: savepoint_operations.schedule_of(settings, "odd", checkpoint, policy))
        target = self.outside / "target"
        self._try("restore", lambda: restore(area(self.odd / some[0]), area(target), AT, GOES_ON))
        shutil.rmtree(target, ignore_errors=True)

    def _leader(self) -> None:
        wanted = self.rig.leader.due()
        if "calm" not in {each.name for each in wanted}:
            self._note("a savepoint is not due", "of calm")
        for each in wanted:
            self._try("the leader", lambda each=each: self.rig.leader._see_to(each))  # type: ignore[misc]
        after = set(self.rig.there("calm"))
        if self.rig.slot("calm") not in after:
            self._note("a savepoint is not made", "of calm")
        if after != {USERS, self.rig.slot("calm"), max(each for each in self.calm if each != USERS)}:
            self._note("calm has not what it is to have", str(sorted(after)))

    def _sweep(self, shelves: Shelf) -> None:
        now = [0.0]
        sweeper = SavepointSweeper(shelves, lambda: now[0])
        for _ in range(2):
            self._try("the sweeper", sweeper.scan)
            now[0] += GRACE_S + EVERY_S
        if (self.rig.store / "savepoints" / "calm" / LEFT).exists():
            self._note("what was left of calm is not swept", "")

    def _delete(self, shelves: Shelf) -> None:
        """Not what a link leads to: that a user says."""
        for force in (False, True):
            self.odd.mkdir(parents=True, exist_ok=True)
            for savepoint in sorted(
                path.name for path in self.odd.iterdir() if path.is_dir() and not path.is_symlink()
            ):
                self._try(
                    "delete",
                    lambda savepoint=savepoint, force=force: shelves.delete("odd", savepoint, force=force),
                )  # type: ignore[misc]

    def _try(self, loop: str, work: Callable[[], Any]) -> None:
        try:
            work()
        except SupervisorError:
            pass
        except Exception as error:
            at = [
                each
                for each in traceback.extract_tb(error.__traceback__)
                if "/supervisor/" in each.filename or "/fuzz/" in each.filename
            ][-1]
            self._note(
                f"{loop} raised",
                f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {_without_paths(str(error))[:100]}",
            )

    def _note(self, what: str, why: str) -> None:
        self.broken.append(Broken(what, why, self.seed, self.changed))

    @contextmanager
    def _environment(self) -> Iterator[None]:
        before = dict(os.environ)
        os.environ["SPARK_SUPERVISOR_CONFIG"] = str(self.shelves.config)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    # -- the judge -------------------------------------------------------------------------------------------------------

    def _of_others(self) -> dict[str, dict[str, bytes]]:
        """What of others must be there whatever happens: of calm's savepoints the newest of the schedule, and the user's."""
        newest = max(each for each in self.calm if each != USERS)
        places = {
            "the checkpoint of calm": self.shelves.checkpoint("calm"),
            "the checkpoint of odd": self.shelves.checkpoint("odd"),
            "what is outside": self.outside,
            "a user's savepoint": place(self.rig.store, USERS, "calm"),
            "a savepoint of the schedule": place(self.rig.store, newest, "calm"),
        }
        return {what: contents(path) for what, path in places.items()}

    def _judge(self, by: str) -> None:
        for what, after in self._of_others().items():
            if after != self.before[what]:
                self._note(f"{what} was touched", f"by {by}")
                self.before[what] = after


def _without_paths(text: str) -> str:
    return " ".join("…" if "/" in word else word for word in text.split())


def run_many(
    seeds: range, directory: Path, print_line: Callable[[Broken], None] = lambda _broken: None
) -> list[Broken]:
    """Everything that was broken in any of ``seeds``."""
    found: list[Broken] = []
    home = directory / "savepoints"
    shutil.rmtree(home, ignore_errors=True)
    shelves = Shelves(home)
    for seed in seeds:
        odd = OddShelf(seed, shelves)
        for each in odd.run():
            print_line(each)
            found.append(each)
        if any(each.what.startswith("the checkpoint") for each in odd.broken):
            shutil.rmtree(home)
            shelves = Shelves(home)
    return found
