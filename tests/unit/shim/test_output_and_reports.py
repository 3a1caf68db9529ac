"""The driver's output never stops anything, and its reports are never trusted."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from supervisor.shim.output import OutputPump, RotatedFile
from supervisor.shim.reports import ReportSocket, parse
from supervisor.shim.starter import outcome


def test_output_is_rotated_and_bounded(tmp_path: Path) -> None:
    file = RotatedFile(str(tmp_path / "a" / "driver.log"), 100, 3)
    for number in range(60):
        file.write(b"%09d\n" % number)
    file.close()
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["driver.log", "driver.log.1", "driver.log.2"]
    assert (tmp_path / "a" / "driver.log.1").read_bytes().endswith(b"000000059\n")
    assert all(path.stat().st_size <= 110 for path in (tmp_path / "a").iterdir())


def test_one_file_is_truncated(tmp_path: Path) -> None:
    file = RotatedFile(str(tmp_path / "driver.log"), 100, 1)
    for _ in range(100):
        file.write(b"x" * 30)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 130


def test_output_that_cannot_be_written_is_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way of a directory")
    file = RotatedFile(str(tmp_path / "file" / "driver.log"), 100, 3)
    file.write(b"12345")
    assert file.dropped_bytes == 5


def test_a_disk_that_fails_costs_output_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pump that ended would let the driver wait for its pipe for ever."""
    file = RotatedFile(str(tmp_path / "driver.log"), 10**6, 2)
    file.write(b"one ")

    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        file.write(b"12345")
    assert file.dropped_bytes == 5
    file.write(b"two")
    file.close()
    assert b"[5 bytes of output were dropped" in (tmp_path / "driver.log").read_bytes()


def test_the_pump_copies_to_the_end_and_keeps_the_tail(tmp_path: Path) -> None:
    read, write = os.pipe()
    pump = OutputPump(read, RotatedFile(str(tmp_path / "log"), 10**6, 2))
    pump.start()
    for _ in range(40):
        os.write(write, b"y" * 1000)
    os.write(write, "the end \N{SNOWMAN}".encode())
    os.close(write)
    pump.join(10)
    assert not pump.is_alive()
    assert (tmp_path / "log").stat().st_size == 40_000 + len("the end \N{SNOWMAN}".encode())
    assert pump.tail().endswith("the end \N{SNOWMAN}") and len(pump.tail()) <= 16 * 1024


def cover(text: str) -> str:
    return text.replace("hunter2", "(secret)")


def test_of_the_tail_the_secrets_of_the_driver_are_covered_and_not_of_its_log(tmp_path: Path) -> None:
    read, write = os.pipe()
    pump = OutputPump(read, RotatedFile(str(tmp_path / "log"), 10**6, 2), cover)
    pump.start()
    os.write(write, b"no login with hunter2")
    os.close(write)
    pump.join(10)
    assert pump.tail() == "no login with (secret)"
    assert (tmp_path / "log").read_bytes() == b"no login with hunter2"


@pytest.mark.parametrize(
    "body",
    [
        {"event": "error", "kind": "E", "message": "x" * 1015 + "hunter2"},
        {"event": "unready", "why": "x" * 1018 + "hunter2"},
        {"event": "terminated", "error": "x" * 1018 + "hunter2"},
    ],
)
def test_what_is_reported_is_covered_before_it_is_cut(body: dict[str, str]) -> None:
    report = parse(json.dumps(body).encode(), cover)
    assert report is not None and len(report.error) > 500 and "hunter" not in report.error
    plain = parse(json.dumps(body).encode())
    assert plain is not None and plain.error.endswith("hun…"), "half a secret, which nobody would know"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"3", b'{"event": 3}', b"\xff\xfe", b"[" * 8000])
def test_what_is_no_report_is_dropped(data: bytes) -> None:
    assert parse(data) is None


def test_a_progress_report_of_wrong_types_is_harmless() -> None:
    report = parse(
        json.dumps({"event": "progress", "query": 7, "batch_id": "x", "lag": [], "batch_ms": True}).encode()
    )
    assert report is not None and report.progress is not None
    assert (
        report.progress.query,
        report.progress.batch_id,
        report.progress.lag,
        report.progress.batch_ms,
    ) == (None,) * 4


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-Infinity"])
def test_numbers_that_json_does_not_know_are_dropped(number: str) -> None:
    report = parse(b'{"event": "progress", "lag": %s}' % number.encode())
    assert report is not None and report.progress is not None and report.progress.lag is None


@pytest.mark.parametrize(
    ("batch_id", "kept"), [("9223372036854775807", 2**63 - 1), ("9" * 4000, None), ("-" + "9" * 20, None)]
)
def test_a_batch_number_that_is_no_long_is_dropped(batch_id: str, kept: int | None) -> None:
    """It would not fit into the lease record, and what can't be encoded ends the shim."""
    report = parse(b'{"event": "progress", "batch_id": %s}' % batch_id.encode())
    assert report is not None and report.progress is not None and report.progress.batch_id == kept


def test_long_texts_are_cut() -> None:
    report = parse(json.dumps({"event": "error", "kind": "E", "message": "x" * 7000}).encode())
    assert report is not None and len(report.error.encode()) <= 1024


def test_an_error_names_its_class_once() -> None:
    told = [
        parse(json.dumps({"event": "error", "kind": "E", "message": said}).encode())
        for said in ("E: x", "F: x")
    ]
    assert [report.error for report in told if report] == ["E: x", "E: F: x"]


def test_a_run_directory_with_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    reports = ReportSocket(str(deep))
    directory = os.open(deep, os.O_PATH)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for _ in range(3):
            sender.sendto(b'{"event": "begun"}', f"/proc/self/fd/{directory}/report")
    os.close(directory)
    assert [report.event for report in reports.take()] == ["begun"] * 3
    assert reports.take() == []


@pytest.mark.parametrize(
    ("said", "late", "permanent"),
    [
        (b"late\n", True, False),
        (b"2 x could not be executed: No such file", False, True),
        (b"11 x could not be executed: again", False, False),
        (b"0 strange", False, False),
    ],
)
def test_what_the_starter_says(said: bytes, late: bool, permanent: bool) -> None:
    refusal = outcome(said)
    assert refusal is not None and (refusal.late, refusal.permanent) == (late, permanent)


def test_silence_means_executed() -> None:
    assert outcome(b"") is None
