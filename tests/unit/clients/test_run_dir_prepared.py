"""The run directory of a prepared driver: handed over once, opened once, and its links go with it."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from supervisor.clients import run_dir
from supervisor.clients.run_dir import Opening, Readiness
from supervisor.records.layout import is_prepared

KEY = "u1.pa1"
OPENED = Opening("c1", 12.5, {"SPARK_SUPERVISOR_ATTEMPT": "3"}, {"supervisor.fence.owner": "x"})


def launch(attempt: int, uid: str = "u1", **more: object) -> bytes:
    return json.dumps({"assignment": {"uid": uid, "attempt": attempt}, **more}).encode()


@pytest.fixture
def attempts(tmp_path: Path) -> str:
    assert run_dir.create(str(tmp_path), KEY, b"{}") is not None
    return str(tmp_path)


def links(attempts: str) -> dict[str, str]:
    return {each.name: os.readlink(each) for each in Path(attempts).iterdir() if each.is_symlink()}


def test_an_attempt_is_handed_over_whole(attempts: str) -> None:
    assert run_dir.hand_over(attempts, KEY, "u1.3", launch(3))
    assert run_dir.read_handed(f"{attempts}/{KEY}") == launch(3)
    assert links(attempts) == {"u1.3": KEY}
    assert os.stat(f"{attempts}/{KEY}/{run_dir.HANDED}").st_mode & 0o777 == 0o600
    assert run_dir.directories(attempts) == {KEY}
    assert sorted(os.listdir(f"{attempts}/{KEY}")) == [run_dir.HANDED, run_dir.LAUNCH]


def test_an_agent_that_died_in_between_goes_on(attempts: str) -> None:
    os.symlink(KEY, f"{attempts}/u1.3")
    assert run_dir.hand_over(attempts, KEY, "u1.3", launch(3))
    assert run_dir.hand_over(attempts, KEY, "u1.3", launch(3, looked_s=9)), "again"
    assert run_dir.read_handed(f"{attempts}/{KEY}") == launch(3), "the first one counts"


def test_a_driver_is_taken_once(attempts: str) -> None:
    assert run_dir.hand_over(attempts, KEY, "u1.3", launch(3))
    assert not run_dir.hand_over(attempts, KEY, "u1.4", launch(4))
    assert run_dir.read_handed(f"{attempts}/{KEY}") == launch(3)
    assert links(attempts) == {"u1.3": KEY}


def test_a_link_that_lost_its_driver_to_another_attempt_is_taken_back(attempts: str) -> None:
    os.symlink(KEY, f"{attempts}/u1.4")
    assert run_dir.hand_over(attempts, KEY, "u1.3", launch(3))
    assert not run_dir.hand_over(attempts, KEY, "u1.4", launch(4))
    assert links(attempts) == {"u1.3": KEY}


def test_an_attempt_has_one_driver(attempts: str) -> None:
    run_dir.create(attempts, "u1.pb2", b"{}")
    assert run_dir.hand_over(attempts, KEY, "u1.3", launch(3))
    assert not run_dir.hand_over(attempts, "u1.pb2", "u1.3", launch(3))
    assert run_dir.read_handed(f"{attempts}/u1.pb2") is None
    assert run_dir.create(attempts, "u1.3", b"{}") is None, "nor is it started cold"


def test_an_attempt_that_was_started_cold_is_handed_to_nobody(attempts: str) -> None:
    assert run_dir.create(attempts, "u1.3", b"{}") is not None
    assert not run_dir.hand_over(attempts, KEY, "u1.3", launch(3))
    assert run_dir.read_handed(f"{attempts}/{KEY}") is None


def test_a_driver_that_is_gone_gets_nothing(attempts: str) -> None:
    assert not run_dir.hand_over(attempts, "u1.pgone", "u1.3", launch(3))
    os.symlink("u1.pgone", f"{attempts}/u1.4")
    assert not run_dir.hand_over(attempts, "u1.pgone", "u1.4", launch(4))
    assert links(attempts) == {}


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"assignment": {}}', b"[" * 100_000])
def test_what_is_no_launch_takes_the_driver_for_nobody(attempts: str, content: bytes) -> None:
    Path(attempts, KEY, run_dir.HANDED).write_bytes(content)
    assert not run_dir.hand_over(attempts, KEY, "u1.3", launch(3))
    assert links(attempts) == {}


def test_only_a_regular_file_of_some_size_is_read(attempts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = f"{attempts}/{KEY}"
    os.mkfifo(f"{directory}/{run_dir.HANDED}")
    assert run_dir.read_handed(directory) is None
    os.unlink(f"{directory}/{run_dir.HANDED}")
    os.symlink("launch.json", f"{directory}/{run_dir.HANDED}")
    assert run_dir.read_handed(directory) is None
    os.unlink(f"{directory}/{run_dir.HANDED}")
    monkeypatch.setattr(run_dir, "HANDED_MAX_BYTES", 10)
    Path(directory, run_dir.HANDED).write_bytes(b"x" * 11)
    assert run_dir.read_handed(directory) is None


def test_only_our_dangling_links_are_removed(attempts: str, tmp_path: Path) -> None:
    for name, target in {
        "u1.3": KEY,
        "u1.4": "u1.pgone",
        "u1.5": "/nowhere/u1.pgone",
        "u1.6": "../u1.pgone",
        "u1.7": "u1.8",
        "other": "nothing",
    }.items():
        os.symlink(target, f"{attempts}/{name}")
    run_dir.remove_dangling_links(attempts)
    assert set(links(attempts)) == {"u1.3", "u1.5", "u1.6", "u1.7", "other"}
    run_dir.remove_dangling_links(f"{attempts}/none")


def test_the_opening_is_written_once(attempts: str) -> None:
    directory = f"{attempts}/{KEY}"
    assert run_dir.read_opening(directory) is None
    assert run_dir.write_opening(directory, OPENED)
    assert not run_dir.write_opening(directory, OPENED._replace(claim="c2"))
    assert run_dir.read_opening(directory) == OPENED
    assert sorted(os.listdir(directory)) == [run_dir.LAUNCH, run_dir.OPENING]
    assert not run_dir.write_opening(f"{attempts}/none", OPENED)


@pytest.mark.parametrize("there", ["file", "link"])
def test_nothing_takes_the_place_of_an_opening(attempts: str, there: str) -> None:
    """What has its name may have been read as one."""
    path = Path(attempts, KEY, run_dir.OPENING)
    if there == "file":
        path.write_text("{")
    else:
        path.symlink_to("nowhere")
    assert not run_dir.write_opening(f"{attempts}/{KEY}", OPENED)
    assert run_dir.read_opening(f"{attempts}/{KEY}") is None


def test_readiness_is_said_once(attempts: str) -> None:
    directory = f"{attempts}/{KEY}"
    assert run_dir.read_readiness(directory) is None
    assert run_dir.write_readiness(directory, Readiness(False, "no session", 3.5))
    assert not run_dir.write_readiness(directory, Readiness(True, "", 4.5))
    assert run_dir.read_readiness(directory) == Readiness(False, "no session", 3.5)


def test_the_twin_knows_the_names_of_prepared_drivers() -> None:
    """The two spellings agree, but for names that no directory has."""
    choose = random.Random(1)
    for _ in range(20_000):
        key = "".join(choose.choice("up1.-Ä") for _ in range(choose.randrange(7)))
        assert run_dir._is_prepared(key) == is_prepared(key), key


def test_what_is_no_directory_is_no_draft(attempts: str) -> None:
    """To open a pipe waits for ever."""
    os.mkfifo(f"{attempts}/.1")
    os.symlink("/nowhere", f"{attempts}/.u1.1.7")
    os.mkdir(f"{attempts}/.u1.2.7")
    run_dir.remove_drafts(attempts, frozenset())
    assert sorted(name for name in os.listdir(attempts) if name.startswith(".")) == [".1", ".u1.1.7"]


def test_a_name_that_is_kept_stays_though_its_driver_is_gone(attempts: str) -> None:
    os.symlink("u1.pgone", f"{attempts}/u1.4")
    run_dir.remove_dangling_links(attempts, frozenset({"u1.4"}))
    assert links(attempts) == {"u1.4": "u1.pgone"}
