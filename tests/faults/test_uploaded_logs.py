"""Real hosts upload what their drivers wrote: after an exit, and after a host that was lost has come back."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from tests.faults.conftest import on_embedded
from tests.testbed.fleet import DRIVER, Fleet
from tests.testbed.fleet_member import FleetMember
from tests.waiting import wait_until

UPLOADS: dict[str, Any] = {"logs": {"upload": "on_exit", "keep": 3}, "update": {"prepare": "off"}}
LAST_WORDS = "the last words\n"
PATIENCE_S = 60.0
PERIODS_S = 180.0


OFTEN: dict[str, Any] = {**UPLOADS, "logs": {**UPLOADS["logs"], "every": "1m"}}


def output_of(member: FleetMember, name: str, uid: str) -> Path:
    return member.directory / "log" / name / f"{uid}.1.log"


def says_more(fleet: Fleet, name: str, uid: str) -> FleetMember:
    """The first attempt runs, and writes something."""
    fleet.wait_state(name, "running")
    member = fleet.host_of(name)
    with output_of(member, name, uid).open("a") as file:
        file.write(LAST_WORDS)
    return member


def stored(fleet: Fleet, name: str) -> list[str]:
    return sorted(path.name for path in (fleet.directory / "store" / "logs" / name).glob("*/*"))


def stored_pieces(fleet: Fleet, name: str) -> bytes:
    """What the pieces of the first attempt hold together."""
    newest: dict[int, Path] = {}
    for path in (fleet.directory / "store" / "logs" / name).glob("*/1-3.*.piece.gz"):
        number, size = map(int, path.name.split(".")[1].split("-")[:2])
        if number not in newest or size > int(newest[number].name.split("-")[2]):
            newest[number] = path
    return b"".join(gzip.decompress(newest[number].read_bytes()) for number in sorted(newest))


def assert_from_the_store(fleet: Fleet, name: str) -> None:
    found = fleet.ok("logs", name, "--attempt", "1", "-o", "json").document
    assert found["source"] == "store" and found["output"].endswith(LAST_WORDS)


@on_embedded
def test_what_an_attempt_wrote_is_in_the_store_when_it_has_ended(fleet: Fleet, job: str) -> None:
    uid = fleet.submit(job, **UPLOADS)
    member = says_more(fleet, job, uid)
    fleet.signal(fleet.process(job, DRIVER), 9)
    fleet.wait_attempt(job, 2)
    wait_until(lambda: stored(fleet, job) == ["1-3.log.gz"], PATIENCE_S, "the upload")
    output_of(member, job, uid).unlink()
    assert_from_the_store(fleet, job)
    fleet.wait_state(job, "running")
    assert stored(fleet, job) == ["1-3.log.gz"], "what runs is not uploaded"
    fleet.cancel(job)
    wait_until(
        lambda: stored(fleet, job) == ["1-3.log.gz", "2-3.log.gz"], PATIENCE_S, "the upload of the last"
    )
    fleet.judge()


@on_embedded
def test_a_host_that_was_lost_uploads_when_it_is_back(fleet: Fleet, job: str) -> None:
    uid = fleet.submit(job, **UPLOADS)
    member = says_more(fleet, job, uid)
    number = fleet.number(member)
    waiting = member.directory / "log" / ".uploads"
    wait_until(lambda: any(waiting.glob(f"{job}.*")), PATIENCE_S, "its name on the disk")
    fleet.kill_host(member)
    fleet.wait_attempt(job, 2)
    ran = fleet.cli("logs", job, "--attempt", "1")
    assert ran.code == 1 and "the store has no output of it" in ran.err
    fleet.start_member(number)
    wait_until(lambda: "1-3.log.gz" in stored(fleet, job), PATIENCE_S, "the upload")
    output_of(member, job, uid).unlink()
    assert_from_the_store(fleet, job)
    assert not any(waiting.glob(f"{job}.{uid}.1.*"))
    fleet.judge()


@on_embedded
def test_of_a_host_that_was_lost_there_is_what_it_had_uploaded(fleet: Fleet, job: str) -> None:
    uid = fleet.submit(job, **OFTEN)
    member = says_more(fleet, job, uid)
    number = fleet.number(member)

    def copied() -> bool:
        return output_of(member, job, uid).read_bytes().startswith(stored_pieces(fleet, job)) and (
            LAST_WORDS.encode() in stored_pieces(fleet, job)
        )

    wait_until(copied, PERIODS_S, "the upload of what runs")
    fleet.kill_host(member)
    with output_of(member, job, uid).open("a") as file:
        file.write("too late\n")
    fleet.wait_attempt(job, 2)
    found = fleet.ok("logs", job, "--attempt", "1", "-o", "json").document
    assert found["source"] == "store" and found["uploaded_until"] is not None
    assert LAST_WORDS in found["output"] and "too late" not in found["output"]
    fleet.start_member(number)
    wait_until(lambda: "1-3.log.gz" in stored(fleet, job), PATIENCE_S, "the upload of all")
    found = fleet.ok("logs", job, "--attempt", "1", "-o", "json").document
    assert found["output"].endswith("too late\n") and found["uploaded_until"] is None
    fleet.judge()
