"""What goes wrong around a command while it runs: ZooKeeper or the store down before, during and after the write, two at once,
directories that cannot be used, a daemon that cannot start. Whatever it is: the exit code of REFERENCE.md, one sentence, and either
exactly one job or none. What is wrong in a file or on the command line itself is in tests/unit/cli/test_bad_input.py."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.clients.sessions import KeptSession
from supervisor.clients.zookeeper import Session, ZooClient, close_session
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.errors import Unreachable
from supervisor.operations import context as operations_context
from tests.faults.checker import Acknowledged
from tests.testbed import requirements
from tests.testbed.fleet_commands import CommandResult, FleetCommands
from tests.testbed.moto import MotoServer
from tests.testbed.proxy import Action, Proxies, Proxy, http_request, zookeeper_request
from tests.waiting import wait_until

CALL = [sys.executable, "-c", "from supervisor.cli.main import main; main()"]


class CommandLine(FleetCommands):
    """What a user has: a configuration, specs, and the command line in this process (``cli``) or as one of its own (``call``)."""

    def __init__(self, directory: Path, hosts: str, root: str) -> None:
        self.directory = directory
        self.acknowledged: list[Acknowledged] = []
        self.settings: dict[str, Any] = {
            "cluster": "test",
            "zookeeper": {"hosts": hosts, "root": root, "session_timeout": "6s"},
            "store": {"url": f"file://{directory}/store"},
            "supervisor": {
                "id": "host-a",
                "http": "127.0.0.1:0",
                "log_dir": f"{directory}/log",
                "runtime_dir": f"{directory}/run",
            },
        }

    def user_config(self) -> Path:
        path = self.directory / "supervisor.yaml"
        path.write_text(yaml.safe_dump(self.settings))
        return path

    @contextmanager
    def through(self, hosts: str) -> Iterator[None]:
        """What is done inside goes by ``hosts``."""
        before = self.settings["zookeeper"]["hosts"]
        self.settings["zookeeper"]["hosts"] = hosts
        try:
            yield
        finally:
            self.settings["zookeeper"]["hosts"] = before

    def call(self, *words: str, timeout_s: float = 90.0) -> CommandResult:
        environ = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_SUPERVISOR")}
        ran = subprocess.run(
            [*CALL, "--config", str(self.user_config()), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            env=environ,
        )
        return CommandResult(ran.returncode, ran.stdout, ran.stderr)

    def put(self, name: str, **spec: Any) -> CommandResult:
        return self.cli("submit", str(self.spec_file(name, **spec)))

    def register(self, name: str) -> None:
        """Submits a job, which nothing hinders. A command that got no answer in time, on a busy machine, is given again."""

        def answered() -> CommandResult | None:
            result = self.put(name)
            return (
                None if result.code == Unreachable.exit_code and "no answer in time" in result.err else result
            )

        result = wait_until(answered, 120, f"an answer to the submit of {name}")
        assert result.code == 0, result

    def jobs(self) -> list[str]:
        return [row["name"] for row in self.rows()]


def refused(result: CommandResult, code: int, *says: str) -> None:
    assert result.code == code and result.out == "", result
    (line,) = result.err.strip().splitlines()
    assert line.startswith("error: ") and "Traceback" not in line
    for what in says:
        assert what in line


@pytest.fixture
def context(tmp_path: Path, embedded_ensemble: EmbeddedEnsemble, zk_root: str) -> CommandLine:
    return CommandLine(tmp_path, embedded_ensemble.hosts, zk_root)


@pytest.fixture
def proxies(embedded_ensemble: EmbeddedEnsemble) -> Iterator[Proxies]:
    with Proxies(embedded_ensemble.hosts) as made:
        yield made


@pytest.fixture
def s3(context: CommandLine, moto_server: MotoServer, s3_bucket: str) -> Iterator[Proxy]:
    """The user's store is behind this."""
    with Proxy(f"127.0.0.1:{moto_server.port}") as proxy:
        context.settings["store"] = {"url": f"s3://{s3_bucket}/p", "endpoint_url": f"http://{proxy.address}"}
        yield proxy


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that give up sooner; how long they wait in truth is tested in test_commands.py."""

    def keep(hosts: str, session_timeout_s: float, *_: float, **__: object) -> KeptSession[ZooClient]:
        def end(old: Session) -> None:
            close_session(hosts, old.id, old.password, 2.0)

        return KeptSession(
            lambda: ZooClient(hosts, session_timeout_s, request_timeout_s=2.0),
            end,
            connect_s=3.0,
            resolve_s=3.0,
        )

    monkeypatch.setattr(operations_context, "keep_session", keep)
    monkeypatch.setattr(operations_context, "COMMAND_STORE_DEADLINE_S", 3.0)


@contextmanager
def meanwhile(do: Callable[[], None]) -> Iterator[None]:
    """``do`` on a thread of its own, beside a command that runs in this one."""
    thread = threading.Thread(target=do)
    thread.start()
    yield
    thread.join(60)
    assert not thread.is_alive()


# -- two at once --------------------------------------------------------------------------------------------------


def test_two_different_specs_of_one_name_at_once(context: CommandLine) -> None:
    """One is registered, the other is told so; what is registered is whole."""
    one = context.spec_file("a", args=["one"]).rename(context.directory / "one.yaml")
    (context.directory / "a.py").write_bytes((context.directory / "specs" / "a.py").read_bytes())
    two = context.directory / "two.yaml"
    two.write_text(yaml.safe_dump({**yaml.safe_load(one.read_text()), "args": ["two"]}))
    context.user_config()
    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(lambda spec: context.call("submit", str(spec)), (one, two)))
    assert sorted(result.code for result in ran) == [0, 4], ran
    winner = next(word for word, result in zip(("one", "two"), ran, strict=True) if result.code == 0)
    assert context.jobs() == ["a"] and context.show("a")["spec"]["args"] == [winner]


# -- during the write: ZooKeeper ----------------------------------------------------------------------------------


def test_an_unknown_outcome_is_6_and_says_how_to_find_out(
    context: CommandLine, proxies: Proxies, impatient: None
) -> None:
    """The multi is on its way when all connections break for good: it may have been applied, and nobody can ask."""
    context.register("other")
    traps = proxies.each(
        lambda p: p.on_request(
            zookeeper_request(f"{context.settings['zookeeper']['root']}/doorbell"), Action.HOLD
        )
    )

    def break_off() -> None:
        wait_until(lambda: any(trap.sprung for trap in traps), 60, "the multi on its way")
        proxies.refuse()

    with context.through(proxies.hosts), meanwhile(break_off):
        result = context.put("a")
    refused(result, 6, "unknown", "show a")
    context.register("a")
    assert sorted(context.jobs()) == ["a", "other"]


# -- during the write: the store ----------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [Action.CUT_BEFORE, Action.CUT_AFTER])
def test_a_put_whose_connection_breaks_is_one_blob_and_one_job(
    context: CommandLine, s3: Proxy, moto_server: MotoServer, action: Action
) -> None:
    """botocore's own retry would take its own object for somebody else's."""
    context.register("other")
    trap = s3.on_request(http_request("PUT", "/specs/a/"), action)
    assert context.put("a").code == 0
    assert trap.sprung and sorted(context.jobs()) == ["a", "other"]
    bucket = context.settings["store"]["url"].split("/")[2]
    blobs = moto_server.client().list_objects_v2(Bucket=bucket, Prefix="p/specs/a/")["Contents"]
    assert len(blobs) == 1


def test_a_store_that_goes_away_at_the_put_leaves_no_job(
    context: CommandLine, s3: Proxy, impatient: None
) -> None:
    context.register("other")
    trap = s3.on_request(http_request("PUT", "/specs/a/"), Action.CUT_BEFORE)

    def go_away() -> None:
        wait_until(lambda: trap.sprung, 60, "the put")
        s3.refuse()

    with meanwhile(go_away):
        result = context.put("a")
    if result.code == 5:  # else the second attempt was quicker than we are, and it is a job like any other
        refused(result, 5, "store")
        assert context.jobs() == ["other"]
    s3.heal()
    context.register("a")
    assert sorted(context.jobs()) == ["a", "other"]


# -- between store and ZooKeeper ----------------------------------------------------------------------------------


def test_zookeeper_goes_away_after_the_blobs_were_stored(
    context: CommandLine,
    s3: Proxy,
    proxies: Proxies,
    impatient: None,
) -> None:
    """Blob before reference: what is left is an orphan that the sweeper takes, never a job without a spec."""
    context.register("other")
    trap = s3.on_request(http_request("PUT", "/specs/a/"), Action.HOLD)

    def go_away() -> None:
        wait_until(lambda: trap.sprung, 60, "the put on its way")
        proxies.refuse()
        s3.heal()

    with context.through(proxies.hosts), meanwhile(go_away):
        result = context.put("a")
    refused(result, 5)
    assert context.jobs() == ["other"]
    context.register("a")
    assert sorted(context.jobs()) == ["a", "other"]


# -- directories and files that cannot be used --------------------------------------------------------------------


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Root may write anywhere but here."""
    place.mkdir(exist_ok=True)
    requirements.need("mount")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=1m", "none", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.netns
def test_a_read_only_store_and_read_only_directories_of_a_daemon(context: CommandLine) -> None:
    place = context.directory / "mounted"
    with read_only(place):
        context.settings["store"]["url"] = f"file://{place}/store"
        refused(context.put("a"), 5, str(place), "Read-only")
        context.settings["store"]["url"] = f"file://{context.directory}/store"
        for key in ("runtime_dir", "log_dir"):
            before = context.settings["supervisor"][key]
            context.settings["supervisor"][key] = f"{place}/below"
            refused(context.cli("run"), 2, f"supervisor.{key} {place}/below cannot be used (Read-only")
            context.settings["supervisor"][key] = before
    context.register("a")


@pytest.mark.parametrize("key", ["runtime_dir", "log_dir"])
@pytest.mark.parametrize("below", ["", "/below"])
def test_a_file_where_a_directory_of_the_daemon_should_be(context: CommandLine, key: str, below: str) -> None:
    (context.directory / "file").write_text("x")
    context.settings["supervisor"][key] = f"{context.directory}/file{below}"
    refused(context.cli("run"), 2, f"supervisor.{key} {context.directory}/file{below} cannot be used")


def test_a_session_that_can_not_be_closed_spoils_no_answer(
    context: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is registered is registered: exit code 5 would say that nothing was."""
    closed = KeptSession.close

    def broken(self: KeptSession[ZooClient]) -> None:
        closed(self)
        raise Unreachable("no answer to the closing of a session")

    monkeypatch.setattr(KeptSession, "close", broken)
    context.register("a")
    assert context.jobs() == ["a"]


def test_f61_a_daemon_says_that_zookeeper_grants_another_session_time(context: CommandLine) -> None:
    """The servers grant up to a minute. It goes on with what it got: the port that is taken ends this one."""
    context.settings["zookeeper"]["session_timeout"] = "90s"
    with socket.create_server(("127.0.0.1", 0)) as server:
        context.settings["supervisor"]["http"] = f"127.0.0.1:{server.getsockname()[1]}"
        result = context.call("run")
    logged = [json.loads(line) for line in result.err.splitlines() if line.startswith("{")]
    (warned,) = [line for line in logged if line["event"] == "session_time_differs"]
    assert (warned["asked_s"], warned["granted_s"], warned["level"]) == (90.0, 60.0, "warning")


def test_a_daemon_on_another_clusters_root_or_store_or_port(context: CommandLine) -> None:
    """It ends; it never waits for what will not come about by itself."""
    context.register("a")
    context.settings["cluster"] = "another"
    result = context.call("run")
    assert result.code == 4 and "belongs to cluster test" in result.err.splitlines()[-1]
    context.settings["cluster"] = "test"
    with socket.create_server(("127.0.0.1", 0)) as server:
        context.settings["supervisor"]["http"] = f"127.0.0.1:{server.getsockname()[1]}"
        result = context.call("run")
    assert result.code == 1 and "supervisor.http" in result.err.splitlines()[-1]
    assert json.loads(context.ok("status", "-o", "json").out)["supervisors"] == []
