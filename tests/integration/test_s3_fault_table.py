"""Each kind of S3 request meets each kind of trouble (faults F26, F27, F28, F31): what comes of it, what the user reads,
and that nothing is half there. ``test_store_faults`` has the store's operations; here are those of a checkpoint's location
and of savepoints, which have all the kinds of requests: LIST, GET, HEAD, PUT, COPY, DELETE, and copies in parts."""

from __future__ import annotations

import hashlib
import random
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from supervisor.clients.store import s3_objects, s3_pacing
from supervisor.clients.store.area import Area, Item, open_area
from supervisor.errors import AccessDenied, Conflict, NotFound, Unreachable
from supervisor.growing_pause import GrowingPause
from supervisor.spec.s3a import S3Access
from tests.fakes import faulty_s3
from tests.fakes.faulty_s3 import Fault, FaultyS3, Handler, refuse
from tests.testbed.moto import MotoServer, use_only
from tests.waiting import wait_until

CONTENT = {
    "small": random.Random(3).randbytes(2_000),
    "old": b"old",
    "large": random.Random(4).randbytes(5 * 2**20 + 1),
}
TAGS = {key: hashlib.md5(content).hexdigest() for key, content in CONTENT.items()}

KINDS = {
    "LIST": r"GET /[^/?]+\?list",
    "GET": "GET /.*/small",
    "HEAD": "HEAD /.*/small",
    "PUT": "PUT /.*/new",
    "WRITE": "PUT /.*/new",
    "DELETE": "DELETE /.*/old",
    "COPY": "COPY /.*/new$",
    "BEGIN": r"POST .*\?uploads",
    "PART": "COPY .*partNumber=2",
    "END": r"POST .*\?uploadId",
}
"""Requests, as ``FaultyS3.aim`` takes them. PUT is conditional, WRITE is not."""

MADE = dict.fromkeys(("HEAD", "PUT", "WRITE", "COPY"), "small") | dict.fromkeys(
    ("BEGIN", "PART", "END"), "large"
)
"""What the operation that sends such a request puts at ``new``."""


@dataclass
class Scene:
    """``place`` has ``CONTENT``; ``new`` is there too if an operation has made it."""

    server: FaultyS3
    backend: Any
    bucket: str
    patient: Area
    hasty: Area

    def call(self, kind: str, area: Area) -> object:
        """The operation that sends requests of this ``kind``."""
        if kind == "HEAD":  # only sent when a copy has another tag
            self.server.aim("COPY", faulty_s3.another_tag)
        calls: dict[str, Callable[[], object]] = {
            "LIST": lambda: sorted(item.key for item in area.items()),
            "GET": lambda: area.read("small", 2_000),
            "PUT": lambda: area.create("new", CONTENT["small"]),
            "WRITE": lambda: area.write("new", CONTENT["small"]),
            "DELETE": lambda: area.remove("old"),
        }
        return calls.get(kind, lambda: area.copy_from(area, self.item(MADE[kind]), "new"))()

    def item(self, key: str) -> Item:
        head = self.backend.head_object(Bucket=self.bucket, Key=f"ck/{key}")
        return Item(key, head["ContentLength"], head["ETag"].strip('"'))

    def content(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for each in self.backend.list_objects_v2(Bucket=self.bucket)["Contents"]:
            key, tag = each["Key"].removeprefix("ck/"), each["ETag"].strip('"')
            same = key in CONTENT and tag == TAGS[key]
            found[key] = (
                CONTENT[key]
                if same
                else self.backend.get_object(Bucket=self.bucket, Key=each["Key"])["Body"].read()
            )
        return found

    def uploads(self) -> list[str]:
        return [
            each["Key"] for each in self.backend.list_multipart_uploads(Bucket=self.bucket).get("Uploads", ())
        ]

    def sent(self, kind: str) -> int:
        return sum(re.match(KINDS[kind], request) is not None for request in self.server.requests)


def done(kind: str) -> dict[str, bytes]:
    """What is there when an operation of this kind has been done, whole."""
    there = CONTENT | ({"new": CONTENT[MADE[kind]]} if kind in MADE else {})
    return {key: value for key, value in there.items() if (kind, key) != ("DELETE", "old")}


@pytest.fixture(scope="module")
def stage(moto_server: MotoServer) -> Iterator[Scene]:
    server, bucket, backend = FaultyS3(moto_server.port), moto_server.new_bucket(), moto_server.client()
    for key, content in CONTENT.items():
        backend.put_object(Bucket=bucket, Key=f"ck/{key}", Body=content)
    with pytest.MonkeyPatch.context() as patch:
        use_only(patch, moto_server.env)
        patch.setattr(s3_pacing, "BACKOFF", GrowingPause(0.004, 2.0))
        patch.setattr(s3_objects, "PARTS_ABOVE_BYTES", 5 * 2**20)
        patch.setattr(s3_objects, "PART_BYTES", 5 * 2**20)
        patch.setattr(s3_objects, "COPY_DEADLINE_S", 0.0)
        access = S3Access(server.endpoint_url)
        patient, hasty = (open_area(f"s3://{bucket}/ck", access, deadline_s) for deadline_s in (30.0, 0.5))
        scene = Scene(server, backend, bucket, patient, hasty)
        yield scene
    server.stop()


@pytest.fixture
def scene(stage: Scene) -> Iterator[Scene]:
    stage.server.reset()
    for area in (stage.patient, stage.hasty):
        area.requests = 0
    yield stage
    stage.server.released.set()
    wait_until(
        lambda: not [each for each in threading.enumerate() if each.name == "store"],
        30,
        "the store's threads to end",
    )
    stage.server.reset()
    stage.backend.delete_object(Bucket=stage.bucket, Key="ck/new")
    stage.backend.put_object(Bucket=stage.bucket, Key="ck/old", Body=b"old")
    for each in stage.backend.list_multipart_uploads(Bucket=stage.bucket).get("Uploads", ()):
        stage.backend.abort_multipart_upload(Bucket=stage.bucket, Key=each["Key"], UploadId=each["UploadId"])


ONCE: dict[str, tuple[Fault, tuple[str, ...]]] = {
    "500": (refuse(500, "InternalError"), tuple(KINDS)),
    "409": (refuse(409, "OperationAborted"), ("PUT", "COPY", "END")),
    "307": (refuse(307, "TemporaryRedirect"), ("LIST", "PUT")),
    "400 RequestTimeout": (refuse(400, "RequestTimeout"), ("PUT",)),
    "bad gateway": (faulty_s3.web_page(502), ("LIST", "HEAD")),
    "cut before": (faulty_s3.reset_before, tuple(KINDS)),
    "cut after": (faulty_s3.lose_reply, tuple(KINDS)),
    "reset in the answer": (faulty_s3.reset_in_body, ("LIST", "GET")),
    "truncated": (faulty_s3.truncate_body, ("LIST", "GET", "COPY", "BEGIN", "PART", "END")),
    "chunks cut": (faulty_s3.chunks_cut, ("LIST", "GET", "COPY")),
    "200, and an error": (refuse(200, "InternalError"), ("COPY", "PART", "END")),
}
"""What may pass, and the requests that it is tried with."""

HALF_BEGUN = ("cut after", "truncated")
"""An upload that was begun unheard stays, without parts: it might be somebody else's."""


@pytest.mark.parametrize(
    ("fault", "kind"), [(fault, kind) for fault, (_, kinds) in ONCE.items() for kind in kinds]
)
def test_what_passes_is_tried_again_and_done_once(scene: Scene, fault: str, kind: str) -> None:
    scene.server.aim(KINDS[kind], [ONCE[fault][0]])
    result = scene.call(kind, scene.patient)
    assert {"LIST": result == sorted(CONTENT), "GET": result == CONTENT["small"]}.get(kind, True)
    assert scene.content() == done(kind)
    assert scene.uploads() == (["ck/new"] if kind == "BEGIN" and fault in HALF_BEGUN else [])
    assert scene.sent(kind) == 2


STAYS: dict[str, tuple[Fault, tuple[str, ...]]] = {
    "hang": (faulty_s3.hang, tuple(KINDS)),
    "trickle": (faulty_s3.trickle, ("LIST", "COPY")),
    "cut": (faulty_s3.reset_before, ("PART", "END")),
    "truncated": (faulty_s3.truncate_body, ("GET",)),
}


@pytest.mark.parametrize(
    ("fault", "kind"), [(fault, kind) for fault, (_, kinds) in STAYS.items() for kind in kinds]
)
def test_what_stays_ends_with_the_deadline_and_nothing_is_half_there(
    scene: Scene, fault: str, kind: str
) -> None:
    scene.server.aim(KINDS[kind], STAYS[fault][0])
    with pytest.raises(Unreachable, match=r"^s3://\S+/ck/.*is the store up|127\.0\.0\.1"):
        scene.call(kind, scene.hasty)
    there = scene.content()
    # it comes after the copy, which is whole
    assert there == CONTENT or (kind == "HEAD" and there == done(kind))
    wait_until(lambda: not scene.uploads(), what="the parts of a copy that was given up to be dropped")


REFUSED = {
    "no such bucket": (404, "NoSuchBucket", r"the bucket does not exist; create it or correct store\.url"),
    "denied": (403, "AccessDenied", "grant s3:GetObject"),
    "skewed clock": (403, "RequestTimeTooSkewed", r"the clock of this host .*; synchronise it"),
    "expired token": (400, "ExpiredToken", "the token has expired; renew the credentials"),
    "wrong region for the key": (
        400,
        "AuthorizationHeaderMalformed",
        r"another region; correct store\.region",
    ),
    "no such KMS key": (400, "KMS.NotFoundException", "KMS.NotFoundException"),
}


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [(kind, "denied") for kind in KINDS if kind != "HEAD"]
    + [("COPY", refusal) for refusal in REFUSED if refusal != "denied"],
)
def test_a_refusal_is_final_and_says_what_to_do(scene: Scene, kind: str, refusal: str) -> None:
    status, code, remedy = REFUSED[refusal]
    scene.server.aim(KINDS[kind], refuse(status, code))
    with pytest.raises(AccessDenied, match=remedy):
        scene.call(kind, scene.patient)
    assert scene.content() == CONTENT
    assert scene.uploads() == []
    assert scene.sent(kind) == 1


@pytest.mark.parametrize(
    ("status", "said"), [(403, "may not be read, or the credentials"), (400, "region is wrong")]
)
def test_a_refused_head_has_no_reason_and_the_message_names_the_likely_ones(
    scene: Scene, status: int, said: str
) -> None:
    scene.server.aim("HEAD", refuse(status, "Nobody reads this"))
    with pytest.raises(AccessDenied, match=said):
        scene.call("HEAD", scene.patient)


@pytest.mark.parametrize(
    ("kind", "status", "code"), [("LIST", 301, "PermanentRedirect"), ("HEAD", 301, ""), ("PUT", 302, "Found")]
)
def test_a_bucket_in_another_region_is_named_as_such(scene: Scene, kind: str, status: int, code: str) -> None:
    """It is followed once, if the bucket tells its region when asked: here it names the one that we have come to."""
    scene.server.aim(KINDS[kind], refuse(status, code))
    with pytest.raises(AccessDenied, match=r"another region.*correct store\.region or store\.endpoint_url"):
        scene.call(kind, scene.patient)
    assert scene.sent(kind) <= 2
    assert scene.content() == (done(kind) if kind == "HEAD" else CONTENT)


def test_a_bucket_in_another_region_is_followed_when_the_answer_names_it(scene: Scene) -> None:
    scene.server.aim(KINDS["LIST"], [refuse(301, "PermanentRedirect", x_amz_bucket_region="eu-west-1")])
    assert scene.call("LIST", scene.patient) == sorted(CONTENT)
    scopes = [headers["authorization"].split("/")[2] for headers in scene.server.headers]
    assert (scopes[0], scopes[-1]) == ("us-east-1", "eu-west-1")


def test_an_answer_in_chunks_is_whole_when_its_last_chunk_came(scene: Scene) -> None:
    scene.server.aim(KINDS["GET"], faulty_s3.in_chunks)
    assert scene.patient.read("small", 2_000) == CONTENT["small"]


def test_a_conditional_create_finds_its_own_lost_reply(scene: Scene) -> None:
    scene.server.aim(KINDS["PUT"], [faulty_s3.lose_reply])
    scene.patient.create("new", b"mine")
    assert [request.split()[0] for request in scene.server.requests] == ["PUT", "PUT", "GET"]
    with pytest.raises(Conflict):
        scene.patient.create("new", b"yours")
    assert scene.content()["new"] == b"mine"


def test_a_create_is_tried_again_if_what_stood_in_its_way_is_gone_when_it_looks(scene: Scene) -> None:
    scene.server.aim(KINDS["PUT"], [refuse(412, "PreconditionFailed")])
    scene.patient.create("new", b"mine")
    assert scene.content()["new"] == b"mine"


def test_a_copy_in_parts_that_was_completed_unheard_is_known_by_what_it_has_made(scene: Scene) -> None:
    """The upload is no more: the answer to the second request is NoSuchUpload, which alone proves nothing."""
    item = scene.item("large")
    scene.server.aim(KINDS["END"], [faulty_s3.lose_reply])
    tag = scene.patient.copy_from(scene.patient, item, "new")
    assert (tag, CONTENT["large"]) == (scene.item("new").mark, scene.content()["new"])


def test_the_tag_of_a_copy_in_parts_is_asked_for_where_the_answer_has_none(scene: Scene) -> None:
    item = scene.item("large")
    scene.server.aim(KINDS["END"], [faulty_s3.without_tag])
    assert scene.patient.copy_from(scene.patient, item, "new") == scene.item("new").mark


def test_an_upload_that_was_dropped_by_others_is_not_taken_for_a_copy(scene: Scene) -> None:
    """An object of the same size was there before."""
    before = bytes(len(CONTENT["large"]))
    scene.backend.put_object(Bucket=scene.bucket, Key="ck/new", Body=before)
    scene.server.aim(KINDS["END"], refuse(404, "NoSuchUpload"))
    with pytest.raises(Conflict, match="dropped"):
        scene.call("END", scene.patient)
    assert scene.content()["new"] == before
    assert scene.sent("END") == 1


def test_a_copy_whose_source_goes_while_its_reply_is_lost_says_so(scene: Scene) -> None:
    def gone(handler: Handler) -> None:
        scene.backend.delete_object(Bucket=scene.bucket, Key="ck/old")
        faulty_s3.reset_before(handler)

    item = scene.item("old")
    scene.server.aim(KINDS["COPY"], [gone])
    with pytest.raises(NotFound):
        scene.patient.copy_from(scene.patient, item, "new")
    assert "new" not in scene.content()


def test_a_listing_that_breaks_off_between_pages_is_no_shorter_listing(scene: Scene) -> None:
    scene.server.aim(KINDS["LIST"], [faulty_s3.relay, faulty_s3.truncate_body, refuse(500, "InternalError")])
    assert [entry.key for entry in scene.patient.entries("", at_once=1)] == sorted(CONTENT)
    scene.server.aim(KINDS["LIST"] + ".*start-after", faulty_s3.hang)
    seen = []
    with pytest.raises(Unreachable):
        for entry in scene.hasty.entries("", at_once=2):
            seen.append(entry.key)
    assert seen == sorted(CONTENT)[:2]


@pytest.mark.parametrize("kind", ["LIST", "PUT", "COPY"])
def test_the_pauses_of_a_storm_grow_and_are_random_within_their_bounds(
    scene: Scene, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[float, float]] = []
    monkeypatch.setattr(s3_pacing.random, "uniform", lambda low, high: asked.append((low, high)) or 0.0)
    scene.server.aim(KINDS[kind], [refuse(503, "ServiceUnavailable")] * 12)
    scene.call(kind, scene.patient)
    widest = [high for _, high in asked]
    assert widest == [s3_pacing.BACKOFF.after(n) for n in range(1, 13)]
    assert scene.sent(kind) == 13
