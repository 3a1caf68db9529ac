"""``api.encoded_answer``: encoded and compressed once for all, with a tag for each; over the real service."""

from __future__ import annotations

import gzip
import json
import threading

import pytest

from supervisor.api import encoded_answer
from supervisor.api.encoded_answer import EncodedAnswer, takes_gzip
from supervisor.api.responses import ApiResponse, with_tag
from tests.unit.api.conftest import Fleet

BODY = json.dumps([{"name": f"job-{number}"} for number in range(200)]).encode()
PLAIN = with_tag(ApiResponse(200, BODY, {"Link": "x"}))


@pytest.mark.parametrize(
    ("header", "takes"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=0.5", True),
        ("gzip, deflate, br", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip; q=0.00", False),
        ("identity", False),
        ("br", False),
        ("gzipped", False),
        ("," * 5000 + "gzip", False),
    ],
)
def test_who_takes_gzip(header: str | None, takes: bool) -> None:
    assert takes_gzip(header) is takes


def test_each_client_gets_what_it_takes_with_a_tag_of_its_bytes() -> None:
    answer = EncodedAnswer(PLAIN)
    plain, packed = answer.for_client(None, None), answer.for_client("gzip", None)
    assert plain.body == gzip.decompress(packed.body) == BODY and len(packed.body) * 5 < len(BODY)
    assert (packed.headers["Content-Encoding"], "Content-Encoding" in plain.headers) == ("gzip", False)
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    assert plain.headers["Link"] == packed.headers["Link"] and plain.headers["ETag"] != packed.headers["ETag"]
    for accepts, known in ((None, plain), ("gzip", packed)):
        again = answer.for_client(accepts, known.headers["ETag"])
        assert (again.code, again.body) == (304, b"")
    assert answer.for_client("gzip", plain.headers["ETag"]).code == 200, "its bytes are others"


def test_what_is_small_is_sent_as_it_is() -> None:
    small = EncodedAnswer(with_tag(ApiResponse(200, b"{}")))
    assert small.for_client("gzip", None).body == b"{}"


def test_it_is_compressed_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    real = gzip.compress

    def counted(*arguments: object, **more: object) -> bytes:
        times.append(1)
        return real(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(encoded_answer.gzip, "compress", counted)
    answer = EncodedAnswer(PLAIN)
    threads = [threading.Thread(target=answer.for_client, args=("gzip", None)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert times == [1]


def test_the_service_encodes_a_list_once_for_all_that_ask_for_the_same(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.api.shared_reads.boottime_s", lambda: 5.0)
    from supervisor.api import service

    times: list[int] = []
    real = service.encoded

    def counted(document: object) -> bytes:
        times.append(1)
        return real(document)

    monkeypatch.setattr(service, "encoded", counted)
    answers = [fleet.service.answer("GET", "/api/v1/jobs", None, "gzip").body for _ in range(5)]
    answers += [gzip.compress(fleet.ask("/jobs").body, encoded_answer.LEVEL, mtime=0)]
    assert len(set(answers)) == 1 and times == [1]
    fleet.ask("/jobs?limit=1")
    fleet.ask("/jobs?limit=2")
    assert len(times) == 3, "each page is another document"
    assert fleet.document("/jobs?limit=1") != fleet.document("/jobs?limit=2")


def test_an_error_and_a_log_are_not_compressed(fleet: Fleet) -> None:
    assert (
        fleet.service.answer("GET", "/api/v1/jobs/nobody", None, "gzip").headers.get("Content-Encoding")
        is None
    )
