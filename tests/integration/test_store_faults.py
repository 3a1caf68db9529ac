"""The S3 store against a server that misbehaves (faults F26, F27, F28, F31). The server hangs until the test is over,
so a call that returns at all was bounded by the store itself."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from supervisor.clients.store.deadline import PARALLEL_MAX
from supervisor.clients.store.s3 import S3Store
from supervisor.errors import AccessDenied, Conflict, NotFound, Unreachable
from tests.fakes import faulty_s3
from tests.fakes.faulty_s3 import Fault, FaultyS3, Handler, refuse
from tests.testbed.moto import MotoServer, use_only
from tests.waiting import wait_until

BLOB = random.Random(2).randbytes(700_000)
SHA256 = hashlib.sha256(BLOB).hexdigest()

pytestmark = pytest.mark.usefixtures("aws_env")


@dataclass
class Scene:
    """A bucket with ``blob`` in it behind a faulty server; a file to upload, a place to download to, a key per test."""

    server: FaultyS3
    backend: Any
    bucket: str
    patient: S3Store
    hasty: S3Store
    directory: Path = Path()
    new: str = ""

    def call(self, name: str, store: S3Store) -> object:
        """One of ``OPERATIONS`` on ``store``."""
        calls: dict[str, Callable[[], object]] = {
            "check": store.check,
            "create": lambda: store.create(self.new, b"x"),
            "create_from": lambda: store.create_from(self.new, self.source),
            "read": lambda: store.read("blob", len(BLOB)),
            "read_to": lambda: store.read_to("blob", self.target),
            "entries": lambda: [entry.key for entry in store.entries("blo")],
            "delete": lambda: store.delete("never-was"),
        }
        return calls[name]()

    @property
    def source(self) -> Path:
        return self.directory / "source"

    @property
    def target(self) -> Path:
        return self.directory / "target"


RESULTS = {
    "check": None,
    "create": None,
    "create_from": None,
    "read": BLOB,
    "read_to": SHA256,
    "entries": ["blob"],
    "delete": None,
}
OPERATIONS = list(RESULTS)
every_operation = pytest.mark.parametrize("name", OPERATIONS)


@pytest.fixture(scope="module")
def stage(moto_server: MotoServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Made once, clients and all: one of boto3 costs a tenth of a second. ``hasty`` is for faults that stay."""
    server, bucket, backend = FaultyS3(moto_server.port), moto_server.new_bucket(), moto_server.client()
    backend.put_object(Bucket=bucket, Key="p/blob", Body=BLOB)
    patient, hasty = (
        S3Store(bucket, "p", server.endpoint_url, deadline_s=deadline_s) for deadline_s in (20.0, 1.0)
    )
    with pytest.MonkeyPatch.context() as environment:
        use_only(environment, moto_server.env)
        for store in (patient, hasty):
            wait_until(
                lambda store=store: warmed(store, tmp_path_factory.mktemp("warm")),
                60,
                "clients to be made in time",
            )
    yield Scene(server, backend, bucket, patient, hasty)
    server.stop()


@pytest.fixture
def scene(stage: Scene, tmp_path: Path) -> Iterator[Scene]:
    stage.directory, stage.new = tmp_path, f"new-{uuid.uuid4().hex}"
    stage.source.write_bytes(BLOB)
    stage.server.reset()
    yield stage
    stage.server.released.set()
    wait_until(lambda: not store_threads(), 30, "the store's threads to end")
    stage.server.reset()


def warmed(store: S3Store, directory: Path) -> bool:
    """On a busy machine, making a client takes longer than the hasty one has."""
    try:
        store.check()
        store.read_to("blob", directory / "blob")
    except Unreachable:
        return False
    return True


def store_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "store"]


PASSING: dict[str, Fault] = {
    "ServiceUnavailable": refuse(503, "ServiceUnavailable"),  # SlowDown: test_s3_pacing
    "InternalError": refuse(500, "InternalError"),
    "429": refuse(429, "TooManyRequests"),
    "RequestTimeout": refuse(400, "RequestTimeout"),
    "bad gateway": faulty_s3.web_page(502),
    "reset": faulty_s3.reset_before,
}


@pytest.mark.parametrize(
    ("name", "fault"),
    [(name, "InternalError") for name in OPERATIONS]
    + [(name, fault) for name in ("create", "read") for fault in PASSING if fault != "InternalError"],
)
def test_what_passes_is_retried(scene: Scene, name: str, fault: str) -> None:
    scene.server.faults = [PASSING[fault]] * 2
    assert scene.call(name, scene.patient) == RESULTS[name]
    assert len(scene.server.requests) == 3


@every_operation
def test_what_stays_is_unreachable_and_says_what_it_was(scene: Scene, name: str) -> None:
    scene.server.always = refuse(503, "ServiceUnavailable")

    def failure() -> str:
        with pytest.raises(Unreachable) as error:
            scene.call(name, scene.hasty)
        return str(error.value)

    # A busy machine may not come to its first answer in a second, and then there is nothing to be told.
    wait_until(lambda: "ServiceUnavailable" in failure(), 60, "what it was")
    assert len(scene.server.requests) > 1


@every_operation
@pytest.mark.parametrize("fault", [faulty_s3.hang, faulty_s3.trickle], ids=["hang", "trickle"])
def test_a_server_that_does_not_answer_is_left(scene: Scene, name: str, fault: Fault) -> None:
    scene.server.always = fault
    with pytest.raises(Unreachable):
        scene.call(name, scene.hasty)
    assert not scene.server.released.is_set()
    assert not scene.target.exists()


def test_one_connection_that_hangs_does_not_cost_the_operation(scene: Scene) -> None:
    store = S3Store(scene.bucket, "p", scene.server.endpoint_url, deadline_s=6.0)
    scene.server.faults = [faulty_s3.hang]
    assert store.read("blob", len(BLOB)) == BLOB


@pytest.mark.parametrize("name", ["read", "read_to"])
@pytest.mark.parametrize(
    "fault", [faulty_s3.reset_in_body, faulty_s3.truncate_body], ids=["reset", "truncated"]
)
def test_a_body_that_breaks_off_is_never_taken_for_the_whole(scene: Scene, name: str, fault: Fault) -> None:
    scene.server.faults = [fault, fault]
    assert scene.call(name, scene.patient) == RESULTS[name]
    scene.target.unlink(missing_ok=True)
    scene.server.always = fault
    with pytest.raises(Unreachable):
        scene.call(name, scene.hasty)
    wait_until(lambda: [*scene.directory.iterdir()] == [scene.source], what="the partial file to be removed")


REFUSALS = [
    (403, "AccessDenied", "grant s3:GetObject"),
    (403, "InvalidAccessKeyId", "renew the credentials"),
    (403, "SignatureDoesNotMatch", "correct the credentials"),
    (400, "ExpiredToken", "renew the credentials"),
    (403, "RequestTimeTooSkewed", "synchronise"),
    (404, "NoSuchBucket", r"correct store\.url"),
    (403, "SomethingNew", "grant s3:GetObject"),
]


@pytest.mark.parametrize(
    ("name", "refusal"),
    [(name, REFUSALS[0]) for name in OPERATIONS] + [("create", refusal) for refusal in REFUSALS[1:]],
)
def test_a_refusal_is_final_and_names_the_remedy(
    scene: Scene, name: str, refusal: tuple[int, str, str]
) -> None:
    status, code, remedy = refusal
    scene.server.always = refuse(status, code)
    with pytest.raises(AccessDenied, match=remedy):
        scene.call(name, scene.patient)
    assert len(scene.server.requests) == 1


@pytest.mark.parametrize(
    ("name", "status"),  # with 200, any body is a blob: its sha256 is verified by the reader
    [("check", 404), ("read", 404), ("read_to", 404), ("entries", 404), ("check", 200), ("entries", 200)],
)
def test_a_server_that_is_no_s3_proves_no_absence(scene: Scene, name: str, status: int) -> None:
    scene.server.always = faulty_s3.web_page(status)
    with pytest.raises(Unreachable, match=r"store\.endpoint_url|answered 500"):
        scene.call(name, scene.hasty)


@pytest.mark.parametrize("name", ["create", "create_from"])
@pytest.mark.parametrize(
    "fault", [faulty_s3.lose_reply, refuse(409, "ConditionalRequestConflict")], ids=["lost", "409"]
)
def test_a_create_whose_reply_is_lost_succeeds(scene: Scene, name: str, fault: Fault) -> None:
    scene.server.faults = [fault]
    scene.call(name, scene.patient)
    assert scene.patient.read(scene.new, len(BLOB)) == {"create": b"x", "create_from": BLOB}[name]
    assert [request.split()[0] for request in scene.server.requests[:2]] == ["PUT", "PUT"]


@pytest.mark.parametrize("name", ["create", "create_from"])
def test_a_create_that_another_writer_won_meanwhile_is_a_conflict(scene: Scene, name: str) -> None:
    def somebody_else(handler: Handler) -> None:
        scene.backend.put_object(Bucket=scene.bucket, Key=f"p/{scene.new}", Body=b"theirs")
        faulty_s3.reset_before(handler)

    scene.server.faults = [somebody_else]
    with pytest.raises(Conflict):
        scene.call(name, scene.patient)
    assert scene.patient.read(scene.new, 10) == b"theirs"


def test_a_compare_that_breaks_off_is_repeated(scene: Scene) -> None:
    scene.server.faults = [faulty_s3.lose_reply, faulty_s3.relay, faulty_s3.truncate_body]
    scene.patient.create_from(scene.new, scene.source, SHA256)
    assert scene.patient.read(scene.new, len(BLOB)) == BLOB


def test_an_operation_that_was_given_up_sends_nothing_more(scene: Scene) -> None:
    scene.server.always = faulty_s3.hang
    with pytest.raises(Unreachable):
        scene.call("create", scene.hasty)
    scene.server.always = None
    arrived = len(scene.server.requests)
    scene.server.released.set()
    wait_until(lambda: not store_threads(), 30, "the worker to end")
    assert len(scene.server.requests) == arrived
    with pytest.raises(NotFound):
        scene.patient.read(scene.new, 1)


def test_a_create_that_took_effect_unheard_may_be_repeated(scene: Scene) -> None:
    scene.server.always = faulty_s3.hang_after_carrying_out
    with pytest.raises(Unreachable):
        scene.call("create", scene.hasty)
    scene.server.always = None
    scene.call("create", scene.patient)
    assert scene.patient.read(scene.new, 1) == b"x"


def test_stuck_operations_do_not_pile_up(scene: Scene) -> None:
    scene.server.always = faulty_s3.trickle

    def attempt(_: int) -> type[Exception] | None:
        try:
            scene.call("read", scene.hasty)
        except Unreachable as error:
            return type(error)
        return None

    def all_stuck() -> bool:
        """One whose time is up before it has asked the server is not stuck: on a busy machine that takes several tries."""
        with ThreadPoolExecutor(PARALLEL_MAX + 8) as pool:
            assert set(pool.map(attempt, range(PARALLEL_MAX + 8))) == {Unreachable}
        assert len(store_threads()) <= PARALLEL_MAX
        return len(store_threads()) == PARALLEL_MAX

    wait_until(all_stuck, 60, "every place to be taken by a stuck operation")
    with pytest.raises(Unreachable, match="nothing more is asked of it"):
        scene.hasty.check()
    scene.server.always = None
    scene.server.released.set()
    wait_until(lambda: not store_threads(), 30, "the stuck workers to end")
    scene.hasty.check()


@pytest.mark.parametrize("name", ["create_from", "read_to"])
def test_a_transfer_may_outlast_the_deadline_while_it_moves(scene: Scene, name: str) -> None:
    store = S3Store(scene.bucket, "p", scene.server.endpoint_url, deadline_s=3.0)
    big, key = BLOB * 16, f"p/{scene.new}-down"
    scene.source.write_bytes(big)
    pause_s = 0.15  # times 43 slices: twice the deadline
    if name == "create_from":
        scene.server.faults = [faulty_s3.slow_upload(pause_s)]
        store.create_from(scene.new, scene.source)
        stored = scene.backend.get_object(Bucket=scene.bucket, Key=f"p/{scene.new}")["Body"].read()
    else:
        scene.backend.put_object(Bucket=scene.bucket, Key=key, Body=big)
        scene.server.faults = [faulty_s3.slow_download(pause_s)]
        store.read_to(f"{scene.new}-down", scene.target)
        stored = scene.target.read_bytes()
    assert stored == big
    assert len(scene.server.requests) == 1


def test_a_transfer_that_breaks_at_the_same_place_again_and_again_ends(scene: Scene) -> None:
    scene.server.always = faulty_s3.truncate_body
    with pytest.raises(Unreachable, match="350000 of 700000|350000 bytes read|no answer in time"):
        scene.call("read_to", scene.hasty)


def test_a_process_exits_although_an_operation_hangs(scene: Scene) -> None:
    scene.server.always = faulty_s3.trickle
    code = (
        "import sys\n"
        "from supervisor.clients.store.s3 import S3Store\n"
        "from supervisor.errors import SupervisorError\n"
        "try:\n"
        "    S3Store(sys.argv[1], 'p', sys.argv[2], deadline_s=1.0).check()\n"
        "except SupervisorError as error:\n"
        "    sys.exit(error.exit_code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, scene.bucket, scene.server.endpoint_url], timeout=60)
    assert done.returncode == 5
    assert not scene.server.released.is_set()


def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="store-host"):
        # one attempt at least ends in it
        S3Store("bucket", "p", "http://store-host.invalid:9", deadline_s=8.0).check()
