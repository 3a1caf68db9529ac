"""A hostile application against a real supervisor that is no root, with real users (README.md has the table).

Once as a user of its own, where every attack fails, and once as the supervisor's user, where they succeed: a test of
permissions that cannot fail shows nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients import run_dir
from supervisor.clients.containment import find_own_cgroup
from supervisor.clients.emptying import remove
from supervisor.clients.package_path import PACKAGE_PARENT
from supervisor.daemon.host.leftovers import LEFTOVERS
from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed import requirements, shared_python
from tests.testbed.fleet import FAKE_SPARK, Fleet
from tests.testbed.fleet_member import remove_groups
from tests.unit.checkpoint.golden import unpack
from tests.waiting import wait_until

SERVICE, HOSTILE, NEIGHBOUR = 20000, 20001, 20002
HERE = Path(__file__).parent
SECRET = "a-secret-of-the-supervisor"
DEPTH = 1500

NOT_EVEN_AS_SUPERVISOR = {
    # these need a capability, or CAP_SYS_PTRACE over processes that have some
    *(f"traces the {who}" for who in ("supervisor", "shim", "twin", "victim_shim")),
    *(f"reads the environment of the {who}" for who in ("supervisor", "shim", "twin", "victim_shim")),
    *(f"reads the memory of the {who}" for who in ("supervisor", "shim", "twin", "victim_shim")),
    "has a capability",
    "becomes root",
    "joins a group",
}


class Site:
    """A fleet of one supervisor, which runs as ``SERVICE``, and what its drivers of other users may write to."""

    def __init__(
        self, ensemble: EmbeddedEnsemble, directory: Path, group: Path, spark: dict[str, Any]
    ) -> None:
        self.directory, self.group = directory, group
        for made in (directory, directory / "s0", directory / "open"):
            made.mkdir(exist_ok=True)
        (directory / "open").chmod(0o777)
        os.chown(directory / "s0", SERVICE, SERVICE)
        os.chown(directory, SERVICE, SERVICE)
        directory.chmod(0o755)
        (directory / "witness.jsonl").touch()
        (directory / "witness.jsonl").chmod(0o666)
        python = shared_python.find()
        assert python is not None
        wrapper = (sys.executable, str(HERE / "as_service.py"), str(SERVICE), str(group), python)
        self.fleet = Fleet(
            ensemble,
            f"/attacks-{uuid.uuid4().hex[:8]}",
            directory,
            supervisors=1,
            behind={0: lambda member: setattr(member, "wrapper", wrapper)},
            spark={"home": None, **spark},
            policy={"run_as": {"default": None, "allowed": [str(HOSTILE), str(NEIGHBOUR), "nobody"]}},
        )
        self.results, self.targets = directory / "open" / "results", directory / "open" / "targets.json"
        self.results.touch()
        self.results.chmod(0o666)
        self.precious = directory / "open" / "precious"
        self.precious.mkdir()
        (self.precious / "file").write_text("of somebody else")

    @property
    def run(self) -> Path:
        return self.fleet.members[0].directory / "run"

    def submit(self, name: str, user: int | None, **env: str) -> str:
        told = {
            "WITNESS": str(self.fleet.witness_file),
            "LIGHT_DRIVER": str(FAKE_SPARK / "bin" / "spark-submit"),
            **env,
        }
        run_as = {} if user is None else {"run_as": str(user)}
        return self.fleet.submit(
            name, env=told, checkpoint=f"file://{self.directory}/open/checkpoint-{name}", **run_as
        )

    def submit_hostile(self, user: int | None, victim: str) -> str:
        uid = self.submit(
            "hostile",
            user,
            HOSTILE=str(HERE / "hostile.py"),
            HOSTILE_RESULTS=str(self.results),
            HOSTILE_TARGETS=str(self.targets),
        )
        own, other = self.launch(f"{uid}.1"), self.launch(f"{victim}.1")
        pid = {
            file: run_dir.read_process(f"{self.attempt(uid)}/{file}") for file in (run_dir.SHIM, run_dir.TWIN)
        }
        other_pid = {
            file: run_dir.read_process(f"{self.attempt(victim)}/{file}")
            for file in (run_dir.SHIM, run_dir.DRIVER)
        }
        targets: dict[str, Any] = {
            "runtime_dir": str(self.run),
            "victim": f"{victim}.1",
            "victim_channel": other.get("channel") or str(self.attempt(victim)),
            "own_application": next(str(path) for path in (self.run / "artifacts" / uid).rglob("*.py")),
            "victim_log": other["log_path"],
            "victim_directories": [other["cwd"], other["env"]["TMPDIR"]],
            "directories_of_all": [str(self.run / "state" / name) for name in ("jobs", "tmp")],
            "own_log": own["log_path"],
            "supervisor": self.fleet.members[0].pid,
            "shim": pid[run_dir.SHIM].process.pid,
            "twin": pid[run_dir.TWIN].process.pid,
            "victim_shim": other_pid[run_dir.SHIM].process.pid,
            "victim_driver": other_pid[run_dir.DRIVER].process.pid,
            "groups": str(Path(own["cgroup"]).parent),
            "cgroup": own["cgroup"],
            "victim_cgroup": other["cgroup"],
            "secret": SECRET,
            "precious": str(self.precious),
            "depth": DEPTH,
            "pause_s": 0.2,
        }
        draft = self.targets.with_suffix(".new")
        draft.write_text(json.dumps(targets))
        draft.chmod(0o644)
        draft.rename(self.targets)
        return uid

    def attempt(self, uid: str) -> Path:
        return self.run / "attempts" / f"{uid}.1"

    def launch(self, key: str) -> dict[str, Any]:
        """The launch file, once its shim and twin are there."""
        directory = self.run / "attempts" / key
        wait_until(lambda: run_dir.read_process(f"{directory}/{run_dir.DRIVER}"), 30, f"the start of {key}")
        launch: dict[str, Any] = json.loads((directory / run_dir.LAUNCH).read_bytes())
        return launch

    def left_of(self, uid: str) -> list[str]:
        """Working directories of the job, those included that are put aside."""
        work = self.run / "work"
        names = [*os.listdir(work), *(os.listdir(work / LEFTOVERS) if (work / LEFTOVERS).exists() else ())]
        return [name for name in names if name.startswith(f"{uid}.")]

    def outcomes(self) -> dict[str, dict[str, Any]]:
        """What came of each attack, by its name, when all were tried."""

        def over() -> list[dict[str, Any]]:
            lines = [json.loads(line) for line in self.results.read_text().splitlines()]
            return lines if any(line["how"] == "over" for line in lines) else []

        return {line["attack"]: line for line in wait_until(over, 60, "the attacks") if line["attack"]}


@pytest.fixture(params=[HOSTILE, None], ids=["as another user", "as the supervisor's user"])
def hostile_user(request: pytest.FixtureRequest) -> int | None:
    user: int | None = request.param
    return user


@contextmanager
def site_of(
    ensemble: EmbeddedEnsemble, monkeypatch: pytest.MonkeyPatch, spark: dict[str, Any]
) -> Iterator[Site]:
    requirements.need("users")
    own = find_own_cgroup()
    assert own is not None
    group = Path(own) / f"attacks-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("PYTHONPATH", PACKAGE_PARENT)
    directory = Path(tempfile.mkdtemp(prefix="attacks-"))  # where other users get to, unlike tmp_path
    try:
        made = Site(ensemble, directory, group, spark)
        with made.fleet:
            yield made
    finally:
        if group.exists():
            remove_groups(group)  # with what has left its session, and bears no mark
        assert remove(str(directory), 60.0)


@pytest.fixture
def site(embedded_ensemble: EmbeddedEnsemble, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with site_of(embedded_ensemble, monkeypatch, {"home": str(HERE / "spark")}) as made:
        yield made


def alive_of(user: int) -> list[int]:
    """Pids of the processes of a user."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.stat(f"/proc/{entry}").st_uid == user:
                found.append(int(entry))
        except OSError:
            continue
    return found


def test_every_attack(site: Site, hostile_user: int | None) -> None:
    victim = site.submit("victim", NEIGHBOUR if hostile_user else None)
    site.fleet.wait_state("victim", "running")
    site.fleet.wait_batches("victim")
    uid = site.submit_hostile(hostile_user, victim)
    outcomes = site.outcomes()
    assert len(outcomes) > 40
    done = {name for name, outcome in outcomes.items() if outcome["done"]}
    if hostile_user is None:
        assert outcomes.keys() - done == NOT_EVEN_AS_SUPERVISOR, "what fails is nobody else's"
        return
    assert done == set()
    wait_until(lambda: site.fleet.show("hostile")["state"] == "running", 30, "its own reports to be heard")
    document = site.fleet.show("hostile")
    assert (document["user"], document["attempt"]) == (str(HOSTILE), 1)
    pids = alive_of(HOSTILE)
    assert len(pids) >= 2, "the driver and what has left its session"
    site.fleet.cancel("hostile")
    wait_until(lambda: not alive_of(HOSTILE), 60, "the end of every process of the hostile user")
    wait_until(lambda: not site.attempt(uid).exists(), 60, "the end of its attempt")
    wait_until(lambda: not site.left_of(uid), 60, "what it has left to be removed")
    assert (site.precious / "file").read_text() == "of somebody else"
    assert site.fleet.show("victim")["attempt"] == 1 and site.fleet.show("victim")["state"] == "running"


@pytest.mark.parametrize("struck", [run_dir.SHIM, run_dir.TWIN])
def test_each_killer_reaches_another_user(site: Site, struck: str) -> None:
    """The shim's death: the twin kills. A shim that is stopped, and no twin: the guardian kills at the deadline."""
    uid = site.submit("job", HOSTILE)
    site.fleet.wait_batches("job")
    pids = alive_of(HOSTILE)
    shim, twin = (
        run_dir.read_process(f"{site.attempt(uid)}/{file}") for file in (run_dir.SHIM, run_dir.TWIN)
    )
    assert pids and shim is not None and twin is not None
    if struck == run_dir.SHIM:
        os.kill(shim.process.pid, signal.SIGKILL)
    else:
        os.kill(twin.process.pid, signal.SIGKILL)
        os.kill(shim.process.pid, signal.SIGSTOP)
    wait_until(lambda: not set(alive_of(HOSTILE)) & set(pids), 60, "the death of the first driver")
    wait_until(lambda: site.fleet.show("job")["attempt"] == 2, 60, "the next attempt")
    site.fleet.cancel("job")
    wait_until(lambda: not alive_of(HOSTILE), 60, "the end")


def test_a_stop_reaches_another_user_and_lets_it_end(site: Site) -> None:
    site.submit("job", HOSTILE)
    site.fleet.wait_batches("job")
    site.fleet.ok("suspend", "job")
    document = site.fleet.wait_state("job", "suspended")
    assert document["stop_mode"] == "sigterm"
    assert not alive_of(HOSTILE)


def test_a_user_that_is_not_allowed_is_refused_at_submit(site: Site) -> None:
    path = site.fleet.spec_file("job", run_as="20009")
    ran = site.fleet.cli("submit", str(path))
    assert ran.code == 2 and "policy.run_as" in ran.err


def test_a_file_in_place_that_leads_to_one_of_the_supervisor_is_neither_copied_nor_told_of(
    site: Site,
) -> None:
    """First to learn its SHA-256, then, with that, to be given it."""
    victim = site.submit("victim", NEIGHBOUR)
    site.fleet.wait_batches("victim")
    launch, link = site.attempt(victim) / run_dir.LAUNCH, site.directory / "open" / "x.py"
    link.symlink_to(launch)
    os.lchown(link, HOSTILE, HOSTILE)
    sha256, named = hashlib.sha256(launch.read_bytes()).hexdigest(), f"local:{link}"
    for name, pinned in (("asks", "0" * 64), ("takes", sha256)):
        site.fleet.submit(
            name,
            checkpoint=f"file://{site.directory}/open/checkpoint-{name}",
            run_as=str(HOSTILE),
            py_files=[named],
            sha256={named: pinned},
        )
        wait_until(lambda name=name: site.fleet.show(name)["state"] == "quarantined", 60, "the refusal")
        told = site.fleet.ok("history", name, "-o", "json").out
        assert f"cannot be read by user {HOSTILE}" in told and sha256 not in told
        assert not list((site.run / "work").glob("*/files/*/x.py"))


def test_an_operator_who_is_root_copies_nothing_into_a_directory_of_the_job(site: Site) -> None:
    home, store = site.directory / "open" / "of-job", site.directory / "store"
    (home / "sources").mkdir(parents=True)
    unpack("files", home)
    store.mkdir(exist_ok=True)
    for each in (home, *home.rglob("*")):
        os.chown(each, HOSTILE, HOSTILE)
    os.chown(store, SERVICE, SERVICE)
    site.fleet.submit(
        "job",
        env={
            "WITNESS": str(site.fleet.witness_file),
            "LIGHT_DRIVER": str(FAKE_SPARK / "bin" / "spark-submit"),
        },
        checkpoint=f"file://{home}/files",
        run_as=str(HOSTILE),
    )
    site.fleet.wait_state("job", "running")
    site.fleet.ok("savepoint", "create", "job", "one")
    site.fleet.ok("suspend", "job")
    site.fleet.wait_state("job", "suspended")
    before = sorted(home.iterdir())
    ran = site.fleet.cli("resume", "job", "--from-savepoint", "one", "--sink-rolled-back")
    assert ran.code != 0 and f"belongs to user {HOSTILE}" in ran.err and "do it as the user" in ran.err
    assert sorted(home.iterdir()) == before
    assert site.fleet.show("job")["state"] == "suspended"
    (home / "files" / "sources" / "loot").symlink_to("/etc/shadow")
    ran = site.fleet.cli("savepoint", "create", "job", "two")
    assert ran.code != 0 and "sources/loot is a link" in ran.err
