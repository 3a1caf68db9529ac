"""``clients.store.deadline``: the caller leaves when the time is up, and what it left does nothing more."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from supervisor.clients.store import deadline as module
from supervisor.clients.store.deadline import PARALLEL_MAX, Bounded, Budget, mount_of, slots_on
from supervisor.clients.store.files import FileStore
from supervisor.errors import NotFound, Unreachable
from tests.waiting import wait_until


def test_results_and_errors_come_back() -> None:
    bounded = Bounded(10.0)
    assert bounded.run("it", lambda budget: budget.remaining_s() > 5) is True

    def fail(_: Budget) -> None:
        raise NotFound("not there")

    with pytest.raises(NotFound):
        bounded.run("it", fail)


def test_a_worker_that_hangs_is_left_and_told() -> None:
    released, raised = threading.Event(), threading.Event()

    def hang(budget: Budget) -> None:
        budget.trouble = "503 before"
        released.wait(60)
        try:
            budget.check()
        except Unreachable:
            raised.set()

    with pytest.raises(Unreachable, match=r"s3://b/k: no answer in time \(last: 503 before\)"):
        Bounded(0.1).run("s3://b/k", hang)
    released.set()
    assert raised.wait(30)


def test_only_progress_earns_time_and_never_beyond_the_maximum() -> None:
    budget = Budget("it", 5.0, 60.0)
    before_s = budget.remaining_s()
    budget.moved("read", 0)
    assert budget.remaining_s() <= before_s
    budget.moved("read", 10)
    renewed_s = budget.remaining_s()
    assert renewed_s > before_s - 1
    budget.moved("read", 10)
    assert budget.remaining_s() <= renewed_s
    short = Budget("it", 5.0, 5.0)
    short_s = short.remaining_s()
    short.moved("read", 10)
    assert short.remaining_s() <= short_s
    budget.abandon()
    with pytest.raises(Unreachable):
        budget.moved("read", 20)


def test_a_file_server_that_hangs_is_left_and_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, released, fsync = (
        FileStore(tmp_path, deadline_s=0.2),
        threading.Event(),
        "supervisor.clients.store.local.os.fsync",
    )
    store.check()
    monkeypatch.setattr(fsync, lambda _: released.wait(60))
    with pytest.raises(Unreachable, match="no answer in time"):
        store.create("dir/k", b"x")
    released.set()
    wait_until(lambda: [*(tmp_path / ".tmp").iterdir()] == [], what="the worker to clean up")
    assert [path.name for path in tmp_path.iterdir()] == [".tmp"]


MOUNTS = "36 35 98:0 / / rw - ext4 /dev/a rw\n37 36 0:1 / /mnt/nfs rw - nfs x rw\n38 36 0:2 / /mnt/n\\040s rw - nfs y rw\nodd\n"


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/mnt/nfs", "/mnt/nfs"),
        ("/mnt/nfs/ck/1", "/mnt/nfs"),
        ("/mnt/nfs2/ck", "/"),
        ("/mnt/n s/ck", "/mnt/n s"),
        ("/home", "/"),
    ],
)
def test_the_file_system_of_a_path_is_found_without_asking_it(
    path: str,
    mount: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    monkeypatch.setattr(module, "MOUNTS", table)
    assert mount_of(path) == mount
    monkeypatch.setattr(module, "MOUNTS", tmp_path / "none")
    assert mount_of(path) == "/"


def test_a_file_system_that_hangs_is_left_a_bounded_number_of_threads_and_refused_at_once_until_it_answers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many look, each with a bound of its own; and another file system is not held up."""
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    monkeypatch.setattr(module, "MOUNTS", table)
    monkeypatch.setattr(module, "_SHARED", {})
    block, begun = threading.Event(), []

    def hang(_budget: Budget) -> None:
        begun.append("")
        block.wait(60)

    for _ in range(PARALLEL_MAX):
        with pytest.raises(Unreachable, match="no answer in time"):
            Bounded(0.02, slots_on("/mnt/nfs/ck")).run("ck", hang)
    for _ in range(20):
        with pytest.raises(Unreachable, match="looks at its file system or store hang"):
            Bounded(600.0, slots_on("/mnt/nfs/other")).run("other", hang)
    assert len(begun) <= PARALLEL_MAX
    assert Bounded(60.0, slots_on("/home/ck")).run("home", lambda _budget: "fine") == "fine"
    block.set()
    wait_until(lambda: slots_on("/mnt/nfs").left == 0, 60)
    assert Bounded(60.0, slots_on("/mnt/nfs/ck")).run("ck", lambda _budget: "fine") == "fine"
