"""A job's conf names an S3 endpoint of somebody else: nothing signed with the supervisor's credentials arrives there.

The listener is on loopback and writes down the headers of whatever comes. Each way by which daemon and command line get at
what a job names is tried with credentials in the environment, a session token among them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from supervisor.cli.doctor import stores
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.store.tree import Tree
from supervisor.daemon.host.preflight import KnownCheckpoint, check_of
from supervisor.daemon.process.assemble import Assembly
from supervisor.errors import InvalidInput, SupervisorError
from supervisor.model.checkpoint_expectation import CheckpointExpectation, place_of
from supervisor.model.going_back import GOES_ON
from supervisor.model.records import Assignment, BlobRef, PendingDeletion
from supervisor.operations.checkpoints import Located, tree_of
from supervisor.savepoints.manifest import Begun
from supervisor.savepoints.operations import (
    access_for,
    create_savepoint,
    find_savepoint,
    home_of,
    restore_to,
    shelf_of,
)
from supervisor.settings.file import Settings
from supervisor.settings.sections import validated
from supervisor.spec.job import JobSpec, canonical_json
from supervisor.spec.s3a import S3Access, access_of_store, why_no_access

PLACE = "s3a://streams/a"
S3A = "spark.hadoop.fs.s3a."


class Listener:
    def __init__(self) -> None:
        heard: list[str] = []
        self.heard = heard

        class Handler(BaseHTTPRequestHandler):
            def parse_request(self) -> bool:
                parsed = super().parse_request()
                heard.append(f"{self.command} {self.path} {dict(self.headers.items())}")
                self.close_connection = True
                self.wfile.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return parsed and False

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ASIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    found = Listener()
    yield found
    found.close()


def settings(tmp_path: Path, **policy: Any) -> Settings:
    body = {
        "cluster": "test",
        "zookeeper": {"hosts": "zk:2181"},
        "store": {"url": f"file://{tmp_path}/store"},
        "policy": policy,
    }
    return validated(Settings, body, "supervisor.yaml")


def spec_of(conf: dict[str, str]) -> JobSpec:
    return validated(
        JobSpec,
        {"name": "a", "application": "s3a://streams/app.py", "checkpoint": PLACE, "conf": conf},
        "a.yaml",
    )


def preflight(given: Settings, conf: dict[str, str]) -> None:
    known = KnownCheckpoint(PLACE, CheckpointExpectation(place=place_of(PLACE), queries=("q 7",)))
    assignment = Assignment(
        name="a",
        uid="uid-a",
        attempt=1,
        revision=1,
        job_version=0,
        own_version=0,
        spec=BlobRef(key="specs/x.json", sha256="0" * 64, bytes=1),
        memory=1,
    )
    check_of(assignment, known, access_of_store(given.store, given.policy.endpoints), lambda: conf).wait()


def listed_once(tree: Tree) -> None:
    tree.level("")


def remover(given: Settings, conf: dict[str, str]) -> None:
    blobs = SimpleNamespace(read_spec=lambda _ref: canonical_json(spec_of(conf)))
    assembly = cast(Assembly, SimpleNamespace(_settings=given, _blobs=blobs))
    Assembly._access_to(
        assembly,
        PLACE.replace("s3a", "s3"),
        PendingDeletion(
            name="a", uid="uid-a", at="now", spec=BlobRef(key="specs/x.json", sha256="0" * 64, bytes=1)
        ),
    )


def recorded(given: Settings, conf: dict[str, str]) -> None:
    """The record of a savepoint in the store names the endpoint."""
    endpoint = next(value for key, value in conf.items() if key.endswith("endpoint"))
    begun = Begun(
        id="one",
        name="a",
        uid="uid-a",
        attempt=1,
        source="s3://streams/a",
        location="s3://streams/saved",
        access=S3Access(endpoint, "us-east-1"),
        at="now",
        software="1",
    )
    list(shelf_of(given).area_of(begun).items())


def doctored(given: Settings, conf: dict[str, str]) -> None:
    found = stores.judge_checkpoint(stores.collect_checkpoint(Subject(given, {}, spec_of(conf))))
    if "policy.endpoints" in found.found:
        raise InvalidInput(found.found)


WAYS: dict[str, Callable[[Settings, dict[str, str]], object]] = {
    "preflight": preflight,
    "checkpoint show": lambda given, conf: listed_once(tree_of(given, Located(PLACE, conf, "a"))),
    "savepoint create": lambda given, conf: create_savepoint(
        given, Located(PLACE, conf, "a"), "a", "uid-a", 1, None, lambda _begun: None, lambda _done, _of: None
    ),
    "savepoint home": lambda given, conf: home_of(given, Located(PLACE, conf, "a"), "a", "one"),
    "savepoint found by its place": lambda given, conf: list(
        find_savepoint(given, "a", "s3a://streams/saved", conf).items()
    ),
    "savepoint restore": lambda given, conf: restore_to(
        given,
        find_savepoint(given, "a", f"file://{given.store.url[7:]}/x", {}),
        PLACE,
        conf,
        GOES_ON,
        lambda _done, _of: None,
    ),
    "savepoint recorded": recorded,
    "access": lambda given, conf: access_for(given, PLACE, conf),
    "remover": remover,
    "doctor": doctored,
}


@pytest.mark.parametrize("key", ["endpoint", "bucket.streams.endpoint"])
@pytest.mark.parametrize("way", WAYS)
def test_no_credentials_arrive_at_the_endpoint_of_a_job(
    way: str, key: str, listener: Listener, tmp_path: Path
) -> None:
    conf = {
        f"{S3A}{key}": listener.url,
        f"{S3A}path.style.access": "true",
        f"{S3A}endpoint.region": "us-east-1",
    }
    given = settings(tmp_path)
    try:
        WAYS[way](given, conf)
    except InvalidInput as error:
        assert "policy.endpoints" in str(error)
    else:
        assert way == "preflight", "says nothing of it"
    assert listener.heard == []


def test_the_listener_hears_what_is_allowed(listener: Listener, tmp_path: Path) -> None:
    """Else the tests above would show nothing."""
    conf = {
        f"{S3A}endpoint": listener.url,
        f"{S3A}path.style.access": "true",
        f"{S3A}endpoint.region": "us-east-1",
    }
    with pytest.raises(SupervisorError):
        WAYS["savepoint create"](settings(tmp_path, endpoints=[listener.url]), conf)
    assert any("Authorization" in each and "token" in each for each in listener.heard)


def test_a_start_is_refused_for_good_and_says_why(listener: Listener, tmp_path: Path) -> None:
    given = settings(tmp_path)
    why = why_no_access(
        {f"{S3A}endpoint": listener.url}, (PLACE,), access_of_store(given.store, given.policy.endpoints)
    )
    assert why is not None and listener.url in why and "policy.endpoints" in why
