"""The command line as a process of its own, on a real ensemble and a real file store, without any supervisor."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients.zookeeper import ZooClient
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.records import EpochRecord, Outcome, Result
from supervisor.model.transaction import ANY_VERSION, Delete, Transaction
from supervisor.operations.cluster_status import status_of
from supervisor.operations.context import open_commands
from supervisor.records.codec import decode
from supervisor.records.layout import Layout
from supervisor.settings.file import load_settings
from tests.testbed.moto import MotoServer
from tests.testbed.proxy import Action, Proxies, Proxy, zookeeper_request
from tests.testbed.secured_ensemble import settings_in_use
from tests.waiting import wait_until

UNREACHABLE_MAX_S = 120.0
"""Users are promised 15 s, on a host with time for the command: ``test_sessions.py`` counts them. This one may be busy."""
CALL = [sys.executable, "-c", "from supervisor.cli.main import main; main()"]


@dataclass
class Site:
    """A configuration of its own below ``home``."""

    home: Path
    hosts: str
    root: str
    store: str = ""
    endpoint_url: str | None = None
    cluster: str = "test"

    @property
    def config(self) -> Path:
        path = self.home / "supervisor.yaml"
        path.write_text(
            json.dumps(
                {
                    "cluster": self.cluster,
                    "zookeeper": {
                        "hosts": self.hosts,
                        "root": self.root,
                        "session_timeout": "6s",
                        **settings_in_use(),
                    },
                    "store": {
                        "url": self.store or f"file://{self.home}/store",
                        "endpoint_url": self.endpoint_url,
                    },
                    "supervisor": {
                        "id": "host-a",
                        "log_dir": str(self.home / "log"),
                        "runtime_dir": str(self.home / "run"),
                    },
                }
            )
        )
        return path

    def run(self, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        environ = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_SUPERVISOR")}
        return subprocess.run(
            [*CALL, "--config", str(self.config), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            env=environ,
        )

    def json(self, *arguments: str) -> Any:
        ran = self.run(*arguments, "-o", "json")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def spec(self, name: str, checkpoint: str = "", **more: Any) -> str:
        (self.home / "app.py").write_text("print('hello')\n")
        body = {
            "name": name,
            "application": "app.py",
            "checkpoint": checkpoint or f"s3://bucket/{name}",
            **more,
        }
        path = self.home / f"{name}.yaml"
        path.write_text(json.dumps(body))
        return str(path)


@pytest.fixture
def site(tmp_path: Path, embedded_ensemble: EmbeddedEnsemble, zk_root: str) -> Site:
    return Site(tmp_path, embedded_ensemble.hosts, zk_root)


@pytest.fixture
def zoo(embedded_ensemble: EmbeddedEnsemble) -> Iterator[ZooClient]:
    client = ZooClient(embedded_ensemble.hosts, 10.0)
    client.start()
    client.wait_connected(20)
    yield client
    client.close()


def codes(site: Site, *commands: str) -> list[int]:
    return [site.run(*command.split()).returncode for command in commands]


def test_the_life_of_a_job_without_any_supervisor(site: Site, zoo: ZooClient) -> None:
    spec = site.spec("a")
    (line,) = site.json("submit", spec)
    uid = line["uid"]
    assert line["did"] == "submitted"
    (again,) = site.json("submit", spec)
    assert (again["did"], again["uid"]) == ("unchanged", uid)
    refused = site.run("submit", site.spec("a", args=["other"]))
    assert refused.returncode == 4 and "apply changes the job" in refused.stderr and refused.stdout == ""

    assert [(row["name"], row["state"]) for row in site.json("list")] == [("a", "pending")]
    shown = site.json("show", "a")
    assert shown["uid"] == uid and shown["spec"]["name"] == "a" and shown["reason"] == "no supervisor is up"
    assert codes(site, "suspend a", "suspend a", "restart a", "resume a", "resume a", "restart a") == [
        0,
        0,
        4,
        0,
        0,
        0,
    ]

    assert site.json("cancel", "a", "--wait")["did"] == "cancelled"
    assert site.json("cancel", "a")["did"] == "already cancelled"
    assert codes(site, "suspend a", "resume a", "restart a") == [4, 4, 4]
    assert site.json("list") == []
    assert [(row["uid"], row["state"]) for row in site.json("list", "--all")] == [(uid, "cancelled")]
    layout = Layout(site.root)
    zoo.sync()
    assert zoo.read(layout.job("a")) is None
    node = zoo.read(layout.result(uid))
    assert node is not None and decode(Result, node.data, "result").outcome is Outcome.CANCELLED

    (anew,) = site.json("submit", site.spec("a"))
    assert anew["did"] == "submitted" and anew["uid"] != uid
    assert codes(site, "cancel nobody", "show nobody", "logs nobody", "logs a") == [3, 3, 3, 1]


@pytest.mark.parametrize(
    "other",
    [
        "s3a://Bucket/data/jobs/",
        "s3://bucket/data/./jobs/x/..",
        "s3a://bucket/data/jobs/inner",
        "s3n://bucket/data",
    ],
)
def test_overlapping_checkpoints_under_any_spelling(site: Site, other: str) -> None:
    assert site.run("submit", site.spec("a", "s3://bucket/data/jobs")).returncode == 0
    refused = site.run("submit", site.spec("b", other))
    assert refused.returncode == 4 and "belongs to job a" in refused.stderr
    assert site.run("submit", site.spec("c", "s3://bucket/data-jobs")).returncode == 0


def test_many_submits_of_one_name_at_once_are_one_job(site: Site) -> None:
    spec = site.spec("a")
    with ThreadPoolExecutor(4) as pool:
        ran = list(pool.map(lambda _: site.json("submit", spec)[0], range(4)))
    assert sorted(line["did"] for line in ran) == ["submitted", "unchanged", "unchanged", "unchanged"]
    assert len({line["uid"] for line in ran}) == 1
    assert site.json("show", "a")["uid"] == ran[0]["uid"]


def test_nested_submits_at_once_leave_one_of_them(site: Site) -> None:
    places = ["s3://bucket/x", "s3://bucket/x/y", "s3a://bucket/x/y/z", "s3://bucket/x/"]
    specs = [site.spec(f"job-{number}", place) for number, place in enumerate(places)]
    with ThreadPoolExecutor(4) as pool:
        ran = list(pool.map(lambda spec: site.run("submit", spec).returncode, specs))
    assert sorted(ran) == [0, 4, 4, 4]
    assert len(site.json("list")) == 1


def test_many_files_in_one_call(site: Site) -> None:
    lines = site.json("submit", *[site.spec(f"job-{number}") for number in range(60)])
    assert {line["did"] for line in lines} == {"submitted"}
    assert len(site.json("list")) == 60
    assert site.json("status")["jobs"] == {"pending": 60}


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_another_cluster_on_the_root_or_on_the_store(site: Site) -> None:
    assert site.run("submit", site.spec("a")).returncode == 0
    for changes in (
        {"store": f"file://{site.home}/other"},
        {"cluster": "other"},
        {"root": f"{site.root}-other"},
    ):
        other = Site(**{**site.__dict__, **changes})
        refused = other.run("submit", other.spec("b"))
        assert refused.returncode == 4 and "belongs to" in refused.stderr, refused


def test_an_empty_zookeeper_with_a_marked_store(site: Site, zoo: ZooClient) -> None:
    assert site.run("submit", site.spec("a")).returncode == 0
    _delete_tree(zoo, site.root)
    refused = site.run("submit", site.spec("a"))
    assert refused.returncode == 4 and "has lost its data" in refused.stderr
    zoo.sync()
    assert zoo.read(site.root) is None


def _delete_tree(zoo: ZooClient, path: str) -> None:
    for child in zoo.children(path) or ():
        _delete_tree(zoo, f"{path}/{child}")
    zoo.commit(Transaction("test", "x", (Delete(path, ANY_VERSION),)))


# -- ZooKeeper or the store does not answer ---------------------------------------------------------------------------


@pytest.fixture
def black_hole() -> Iterator[str]:
    """Accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("closed_port", "submit"),
        ("black_hole", "cancel a"),
        ("closed_port", "list"),
        ("black_hole", "status"),
    ],
)
def test_an_unreachable_zookeeper_is_5_in_time(
    tmp_path: Path,
    kind: str,
    command: str,
    request: pytest.FixtureRequest,
) -> None:
    site = Site(tmp_path, request.getfixturevalue(kind), "/r")
    arguments = ["submit", site.spec("a")] if command == "submit" else command.split()
    ran = site.run(*arguments, timeout_s=UNREACHABLE_MAX_S)
    (line,) = ran.stderr.strip().splitlines()
    assert ran.returncode == 5 and site.hosts in line
    assert not (tmp_path / "store" / "specs").exists()


def test_an_unreachable_store_is_5_in_time_and_cancel_needs_none(site: Site, black_hole: str) -> None:
    assert site.run("submit", site.spec("a")).returncode == 0
    away = Site(site.home, site.hosts, f"{site.root}-s3", "s3://bucket/prefix", f"http://{black_hole}")
    environ = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for key, value in environ.items():
            patch.setenv(key, value)
        ran = away.run("submit", away.spec("b"), timeout_s=UNREACHABLE_MAX_S)
        assert ran.returncode == 5, ran.stderr
        status = away.run("status", "-o", "json", timeout_s=UNREACHABLE_MAX_S)
        assert status.returncode == 0 and json.loads(status.stdout)["store"]["ok"] is False
    (site.home / "store").rename(site.home / "unmounted")
    assert site.run("cancel", "a").returncode == 0


def test_a_missing_bucket_is_5(site: Site, moto_server: MotoServer, aws_env: dict[str, str]) -> None:
    site.store, site.endpoint_url = "s3://no-such-bucket/prefix", moto_server.endpoint_url
    ran = site.run("submit", site.spec("a"), timeout_s=UNREACHABLE_MAX_S)
    assert ran.returncode == 5 and "no-such-bucket" in ran.stderr


def test_a_job_on_an_s3_store(site: Site, moto_server: MotoServer, s3_bucket: str) -> None:
    site.store, site.endpoint_url = f"s3://{s3_bucket}/prefix", moto_server.endpoint_url
    assert site.json("submit", site.spec("a"))[0]["did"] == "submitted"
    assert site.json("submit", site.spec("a"))[0]["did"] == "unchanged"
    assert site.json("show", "a")["spec"]["checkpoint"] == "s3://bucket/a"
    assert site.json("status")["store"] == {"url": site.store, "ok": True}


# -- lost replies on a real wire --------------------------------------------------------------------------------------


@pytest.fixture
def proxies(embedded_ensemble: EmbeddedEnsemble) -> Iterator[Proxies]:
    with Proxies(embedded_ensemble.hosts) as made:
        yield made


@pytest.mark.parametrize("action", [Action.CUT_AFTER, Action.CUT_BEFORE])
@pytest.mark.parametrize(
    ("command", "did"),
    [
        ("submit", "submitted"),
        ("cancel", "cancelled"),
        ("suspend", "suspended"),
        ("restart", "restarted"),
    ],
)
def test_the_outcome_of_a_cut_connection_is_resolved_on_the_same_session(
    site: Site,
    proxies: Proxies,
    command: str,
    did: str,
    action: Action,
) -> None:
    """The answer to the multi is lost, or the multi itself; either way it is done exactly once."""
    spec = site.spec("a")
    if command != "submit":
        assert site.run("submit", spec).returncode == 0
    else:
        assert site.run("submit", site.spec("other")).returncode == 0
    behind = Site(site.home, proxies.hosts, site.root)
    for proxy in proxies.each(lambda proxy: proxy):
        proxy.on_request(zookeeper_request(f"{site.root}/doorbell"), action)
    ran = behind.run(command, spec if command == "submit" else "a", "-o", "json")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert (document[0] if command == "submit" else document)["did"] == did
    proxies.each(Proxy.heal)
    events = [entry["event"] for entry in site.json("show", "a")["history"]]
    assert events.count(did) == 1


def test_an_outcome_that_cannot_be_resolved_is_6_and_says_so(site: Site, proxies: Proxies) -> None:
    assert site.run("submit", site.spec("a")).returncode == 0
    behind = Site(site.home, proxies.hosts, site.root)
    traps = proxies.each(
        lambda proxy: proxy.on_request(zookeeper_request(f"{site.root}/doorbell"), Action.HOLD)
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(behind.run, "cancel", "a")
        wait_until(lambda: any(trap.sprung for trap in traps), what="the cancel on its way")
        proxies.refuse()
        ran = running.result()
    assert ran.returncode == 6 and "unknown" in ran.stderr and ran.stdout == ""
    proxies.each(Proxy.heal)
    assert site.json("cancel", "a")["did"] in ("cancelled", "already cancelled")


# -- status -----------------------------------------------------------------------------------------------------------


def test_two_that_ask_for_the_status_get_the_same(site: Site, zoo: ZooClient) -> None:
    assert site.run("submit", site.spec("a")).returncode == 0
    with open_commands(load_settings(site.config, {})) as context:
        document, error = status_of(context)
    assert error is None
    assert site.json("status") == json.loads(json.dumps(document))
    node = zoo.read(Layout(site.root).epoch)
    assert node is not None and document["epoch"] == decode(EpochRecord, node.data, "epoch").epoch == 0
