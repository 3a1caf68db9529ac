"""Keys that expire and are exchanged under a supervisor that runs for months (F28): each part of AWS's standard chain, with a
server that lets only the newest key in."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3.session
import pytest

from supervisor.clients.store import s3_objects
from supervisor.clients.store.area import open_area
from supervisor.clients.store.s3 import S3Store
from supervisor.errors import AccessDenied, Unreachable
from supervisor.spec.s3a import S3Access
from tests.fakes.faulty_s3 import FaultyS3, refuse, refuse_keys, relay
from tests.testbed.moto import MotoServer


class Door(FaultyS3):
    """Lets in requests with the access key ``valid``."""

    valid = "first"

    def __init__(self, backend_port: int) -> None:
        super().__init__(backend_port)
        self.always = refuse_keys(lambda key: key == self.valid)

    @property
    def keys(self) -> list[str]:
        """Of the requests that came, in order."""
        found = [
            re.search("Credential=([^/]+)/", headers.get("authorization", "")) for headers in self.headers
        ]
        return [each[1] for each in found if each]


@pytest.fixture
def door(moto_server: MotoServer, aws_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    server = Door(moto_server.port)
    yield server
    server.stop()


@pytest.fixture
def write_keys(
    s3_bucket_behind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Puts an access key into the shared file, in place of the last one."""
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "streams")

    def write(key: str) -> None:
        file.write_text(
            f"[default]\naws_access_key_id = other\naws_secret_access_key = s\n"
            f"[streams]\naws_access_key_id = {key}\naws_secret_access_key = s\n"
        )

    write("first")
    return write


def test_keys_that_were_exchanged_in_the_shared_file_are_taken_up_at_the_first_refusal(
    door: Door, write_keys: Callable[[str], None], s3_bucket_behind: str
) -> None:
    store = S3Store(s3_bucket_behind, "p", door.endpoint_url)
    store.create("a", b"1")
    write_keys("second")
    store.create("b", b"2")
    assert set(door.keys) == {"first"}, "keys that are let in are used on"
    door.valid = "second"
    door.headers.clear()
    store.create("c", b"3")
    assert store.read("c", 1) == b"3"
    assert door.keys == ["first", "second", "second"]


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_the_same_keys_are_not_tried_again(
    door: Door, write_keys: Callable[[str], None], s3_bucket_behind: str, code: str
) -> None:
    store = S3Store(s3_bucket_behind, "p", door.endpoint_url)
    door.always = refuse(403, code)
    with pytest.raises(AccessDenied, match="renew the credentials|correct the credentials"):
        store.check()
    assert door.keys == ["first"]
    write_keys("second")
    with pytest.raises(AccessDenied):
        store.check()
    assert door.keys == ["first", "first", "second"]
    door.always = relay
    store.check()
    assert door.keys[3:] == ["second"]


@pytest.mark.parametrize(("deadline_s", "is_made"), [(5.0, True), (0.5, False)])
def test_making_a_client_may_take_longer_than_an_operation_and_not_for_ever(
    door: Door,
    s3_bucket_behind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    deadline_s: float,
    is_made: bool,
) -> None:
    """Where many processes start at once, loading boto3's models takes longer than an operation may; that is no store which does
    not answer. A program of the chain of credentials that takes 7 s stands for it."""
    program, config = tmp_path / "program", tmp_path / "config"
    keys = json.dumps({"Version": 1, "AccessKeyId": "first", "SecretAccessKey": "s"})
    program.write_text(f"#!/bin/sh\nsleep 7\necho '{keys}'\n")
    program.chmod(0o700)
    config.write_text(f"[default]\ncredential_process = {program}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    store = S3Store(s3_bucket_behind, "p", door.endpoint_url, deadline_s=deadline_s)
    if is_made:
        store.check()
    else:
        with pytest.raises(Unreachable, match="no answer in time"):
            store.check()


def test_many_threads_take_up_new_keys_with_one_look_at_the_chain(
    door: Door, write_keys: Callable[[str], None], s3_bucket_behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = S3Store(s3_bucket_behind, "p", door.endpoint_url, deadline_s=60.0)
    store.check()
    write_keys("second")
    door.valid = "second"
    made, whole = [], boto3.session.Session
    monkeypatch.setattr(boto3.session, "Session", lambda: made.append(1) or whole())
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: store.create(f"k{number}", b"x"), range(16)))
    assert len(list(store.entries("k"))) == 16
    assert len(made) == 1


def test_a_savepoint_goes_on_when_the_keys_are_exchanged_in_its_midst(
    door: Door, write_keys: Callable[[str], None], s3_bucket_behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_objects, "PARTS_ABOVE_BYTES", 5 * 2**20)
    monkeypatch.setattr(s3_objects, "PART_BYTES", 5 * 2**20)
    area = open_area(f"s3://{s3_bucket_behind}/a", S3Access(door.endpoint_url))
    area.write("large", bytes(5 * 2**20 + 1))
    (item,) = area.items()

    def exchange(handler: object) -> None:
        door.valid = "second"
        write_keys("second")
        refuse(400, "ExpiredToken")(handler)

    guarded, parts = door.always, []
    assert guarded is not None
    door.always = lambda h: (
        exchange if "partNumber=2" in h.path and not parts and not parts.append(1) else guarded
    )(h)
    area.copy_from(area, item, "copy")
    assert {each.bytes for each in area.items()} == {item.bytes}
    assert (door.keys[0], door.keys[-1]) == ("first", "second")


def test_credentials_of_a_container_are_renewed_before_they_expire(
    door: Door, s3_bucket_behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ECS, EKS pod identity; the metadata service of instances is renewed in the same way. No request is refused."""

    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.headers["Authorization"] == "a token"
            answers.append(f"temporary{len(answers)}")
            door.valid = answers[-1]
            expiry = datetime.now(UTC) + timedelta(minutes=5)  # within the ten that botocore renews in
            said = {
                "AccessKeyId": answers[-1],
                "SecretAccessKey": "s",
                "Token": "t",
                "Expiration": expiry.isoformat(),
            }
            body = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Silence."""

    answers: list[str] = []
    agent = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
    thread = threading.Thread(target=agent.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{agent.server_port}/role")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "a token")
    try:
        store = S3Store(s3_bucket_behind, "p", door.endpoint_url)
        for number in range(3):
            store.create(f"k{number}", b"x")
    finally:
        agent.shutdown()
        agent.server_close()
        thread.join(10)
    assert len(set(door.keys)) == len(door.keys) == 3
    assert {headers["x-amz-security-token"] for headers in door.headers} == {"t"}


def test_a_web_identity_is_assumed_and_assumed_again_when_its_session_is_refused(
    door: Door,
    s3_bucket_behind: str,
    moto_server: MotoServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """EKS: a role for the service account. Its token file is read anew each time."""
    (tmp_path / "token").write_text("header.payload.signature")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/streams")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", moto_server.endpoint_url)
    door.always = None
    store = S3Store(s3_bucket_behind, "p", door.endpoint_url)
    store.check()
    door.faults = [refuse(400, "ExpiredToken")]
    store.create("k", b"x")
    assert store.read("k", 1) == b"x"
    first, refused, second, third = door.keys
    assert first == refused != second == third
    assert all(headers["x-amz-security-token"] for headers in door.headers)


def test_keys_of_the_environment_are_the_ones_that_count(
    door: Door, write_keys: Callable[[str], None], s3_bucket_behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.delenv("AWS_PROFILE")
    door.valid = "mine"
    S3Store(s3_bucket_behind, "p", door.endpoint_url).check()
    assert door.keys == ["mine"]


@pytest.fixture
def s3_bucket_behind(moto_server: MotoServer) -> str:
    """moto itself lets everybody in."""
    return moto_server.new_bucket()
