"""The shim on a real ZooKeeper with light drivers: what it, its twin and the guardian do when things break.

Everything is run with a cgroup and without one. What counts is the witness that the driver's processes write, and what
the kernel says about their pids; order and outcome are asserted, never a duration (but for "by the deadline").
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.clients import run_dir
from supervisor.clients.containment import find_cgroup_parent, find_own_cgroup
from supervisor.clients.processes import ProcessId
from supervisor.clock import boottime_s
from supervisor.daemon.host.guardian import Guardian
from supervisor.demo.ensemble import EmbeddedEnsemble
from supervisor.model.lease_terms import KILL_TIME_S
from supervisor.model.records import Cause, OwnState, Phase
from supervisor.model.transaction import SetData
from supervisor.records.codec import encode
from tests.testbed import requirements
from tests.testbed.attempts import SUPERVISOR, Attempt, Attempts, eventually_closed, pss_kb
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def cgroup_parent() -> Iterator[str]:
    requirements.need("cgroup")
    parent = find_cgroup_parent(find_own_cgroup(), f"shims-{os.getpid()}")
    assert parent is not None
    yield parent
    os.rmdir(parent)


@pytest.fixture(params=["cgroup", "scan"])
def parent(request: pytest.FixtureRequest) -> str | None:
    found: str | None = request.getfixturevalue("cgroup_parent") if request.param == "cgroup" else None
    return found


@pytest.fixture
def attempts(
    embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path, parent: str | None
) -> Iterator[Attempts]:
    with eventually_closed(Attempts(embedded_ensemble.hosts, zk_root, tmp_path, parent)) as made:
        yield made


@pytest.fixture
def own_attempts(
    fresh_embedded_ensemble: EmbeddedEnsemble, zk_root: str, tmp_path: Path, parent: str | None
) -> Iterator[tuple[Attempts, EmbeddedEnsemble]]:
    with eventually_closed(Attempts(fresh_embedded_ensemble.hosts, zk_root, tmp_path, parent)) as made:
        yield made, fresh_embedded_ensemble


class GuardianLoop:
    """The loop of the daemon, in a thread."""

    def __init__(self, attempts: Attempts, directory: str) -> None:
        self.guardian = Guardian(directory, SUPERVISOR, attempts.layout, lambda: attempts.client)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def _loop(self) -> None:
        while not self._stop.is_set():
            pause_s = self.guardian.tick(boottime_s())
            select.select(self.guardian.fds(), [], [], min(pause_s, 0.2))

    def __enter__(self) -> GuardianLoop:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()
        self.guardian.close()


def guardian_of(attempts: Attempts, attempt: Attempt) -> GuardianLoop:
    return GuardianLoop(attempts, os.path.dirname(attempt.directory))


def wait_dead(attempt: Attempt, timeout_s: float = 20) -> None:
    wait_until(lambda: not attempt.living(), timeout_s, "the end of the driver tree")


# -- the ordinary life -------------------------------------------------------------------------------------------------


def test_claims_runs_renews_stops_on_draining_and_records_it(attempts: Attempts) -> None:
    attempt = attempts.assign(knobs={"setsid_child": True}, lease_s=6.0)
    attempts.wait_running(attempt)
    own, _ = attempts.own(attempt)
    assert (own.state, own.claims) == (OwnState.CLAIMED, 1)
    assert attempts.client.read(attempts.layout.live(attempt.entry.uid, 1)) is not None
    assert attempts.client.read(attempts.layout.assignment(SUPERVISOR, attempt.entry.uid, 1)) is None

    def settled() -> bool:
        found = attempts.lease(attempt)
        return found is not None and found[1] >= 3 and found[0].phase is Phase.RUNNING

    wait_until(settled, 20, "renewals in phase running")
    lease, _ = attempts.lease(attempt) or pytest.fail("no lease")
    assert lease.driver.pid in attempt.driver_pids()
    assert lease.progress is not None and lease.progress.query == "light"

    attempts.move(attempt, OwnState.DRAINING)
    ended = attempts.wait_state(attempt, OwnState.EXITED)
    assert (ended.cause, ended.exit_code) == (Cause.STOPPED, 143)
    assert ended.ran_s > 0
    assert not attempt.living()
    attempts.wait_shim_gone(attempt)
    wait_until(lambda: not attempt.alive(run_dir.TWIN), 10, "the end of the twin")
    wait_until(
        lambda: attempts.client.read(attempts.layout.live(attempt.entry.uid, 1)) is None, 15, "/live gone"
    )
    group = attempt.launch.cgroup
    assert group is None or not os.path.exists(group)


def test_the_drivers_own_end_is_recorded_with_its_cause(attempts: Attempts) -> None:
    attempt = attempts.assign(
        knobs={"exit_after_batches": 2, "exit_code": 7, "child": True, "error": "ValueError: no"}
    )
    ended = attempts.wait_state(attempt, OwnState.EXITED)
    assert (ended.cause, ended.exit_code) == (Cause.USER_ERROR, 7)
    assert "ValueError" in ended.reason
    assert not attempt.living()


def test_an_application_that_daemonises_is_told_what_it_left(attempts: Attempts) -> None:
    attempt = attempts.assign(argv=("sh", "-c", "setsid sleep 100 & sleep 0.2"), reports=False)
    ended = attempts.wait_state(attempt, OwnState.EXITED)
    assert ended.cause is Cause.EXITED_ZERO and not attempt.living()
    assert "it left a process behind, now killed: an application must not daemonise" in ended.reason


def test_a_bounded_job_finishes(attempts: Attempts) -> None:
    attempt = attempts.assign(knobs={"exit_after_batches": 2}, unbounded=False)
    assert attempts.wait_state(attempt, OwnState.EXITED).cause is Cause.FINISHED


def test_a_driver_that_ignores_sigterm_is_killed_after_its_grace(attempts: Attempts) -> None:
    attempt = attempts.assign(
        knobs={"ignore_term": True, "setsid_child": True, "child_ignores_term": True},
        stop_grace_s=8.0,
        lease_s=6.0,
    )
    attempts.wait_running(attempt)
    attempts.move(attempt, OwnState.DRAINING)
    _, before = attempts.lease(attempt) or pytest.fail("no lease")
    ended = attempts.wait_state(attempt, OwnState.EXITED, 30)
    _, after = attempts.lease(attempt) or pytest.fail("no lease")
    assert ended.cause is Cause.STOPPED
    assert after - before >= 3, "it renewed while the driver was stopping"
    assert not attempt.living()


def test_sigterm_to_the_shim_is_an_orderly_stop(attempts: Attempts) -> None:
    attempt = attempts.assign()
    attempts.wait_running(attempt)
    attempt.send(signal.SIGTERM)
    assert attempts.wait_state(attempt, OwnState.EXITED).cause is Cause.STOPPED
    assert not attempt.living()


def test_a_missing_executable_is_a_permanent_failure(attempts: Attempts) -> None:
    attempt = attempts.assign(argv=("/does/not/exist",))
    ended = attempts.wait_state(attempt, OwnState.EXITED)
    assert (ended.cause, ended.permanent) == (Cause.NOT_STARTED, True)
    assert "/does/not/exist" in ended.reason
    assert not attempt.notes()


def test_a_hanging_submit_is_ended(attempts: Attempts) -> None:
    attempt = attempts.assign(knobs={"hang_before_begin": True}, start_timeout_s=2.0)
    assert attempts.wait_state(attempt, OwnState.EXITED).cause is Cause.START_TIMED_OUT
    assert attempt.events("start") and not attempt.living()


def test_a_silent_query_is_ended(attempts: Attempts) -> None:
    attempt = attempts.assign(knobs={"stall_after": 3}, stall_timeout_s=2.0)
    own = attempts.wait_state(attempt, OwnState.EXITED)
    assert own.cause is Cause.STALLED
    assert not attempt.living()
    assert own.diagnostics is not None and own.diagnostics.attempt == attempt.entry.attempt
    text = Path(own.diagnostics.path).read_text()
    assert "why: " in text and "== processes ==" in text and "== thread dump 3 of 3 of python" in text


def test_idle_is_life(attempts: Attempts) -> None:
    attempt = attempts.assign(knobs={"idle_after": 2, "exit_after_s": 5}, stall_timeout_s=2.0)
    assert attempts.wait_state(attempt, OwnState.EXITED).cause is Cause.EXITED_ZERO


# -- who may run -------------------------------------------------------------------------------------------------------


def test_of_two_shims_for_one_entry_the_loser_does_nothing(attempts: Attempts) -> None:
    first = attempts.assign()
    attempts.wait_running(first)
    second = attempts.prepare(first.entry, {}, (), True, {})
    second.witness.write_text("")
    attempts.start(second)
    attempts.wait_shim_gone(second)
    assert attempts.state(first) is OwnState.CLAIMED
    assert len({note["pid"] for note in first.notes()}) == 1
    beats = len(first.events("beat"))
    wait_until(lambda: len(first.events("beat")) > beats + 3, 10, "the winner to go on")


def test_a_second_shim_in_the_same_run_directory_leaves_at_once(attempts: Attempts) -> None:
    attempt = attempts.assign()
    attempts.wait_running(attempt)
    first = attempt.shim
    attempts.start(attempt)
    attempts.wait_shim_gone(attempt)
    attempt.shim = first
    assert attempt.shim_alive()
    assert len(attempt.driver_pids()) == 1


def test_nothing_runs_when_the_assignment_was_taken_back(attempts: Attempts) -> None:
    attempt = attempts.assign(start=False)
    attempts.move(attempt, OwnState.VACANT)
    attempts.start(attempt)
    attempts.wait_shim_gone(attempt)
    assert not attempt.notes()
    assert attempts.state(attempt) is OwnState.VACANT


def test_nothing_runs_when_the_job_changed_since_the_assignment(attempts: Attempts) -> None:
    attempt = attempts.assign(start=False)
    attempts.commit(SetData(attempts.layout.job(attempt.entry.name), b"{}", 0))
    attempts.start(attempt)
    attempts.wait_shim_gone(attempt)
    assert not attempt.notes()
    assert attempts.state(attempt) is OwnState.ASSIGNED


@pytest.mark.parametrize("state", [OwnState.REVOKED, OwnState.VACANT])
def test_a_lost_ownership_kills_at_once(attempts: Attempts, state: OwnState) -> None:
    attempt = attempts.assign(knobs={"ignore_term": True})
    attempts.wait_running(attempt)
    attempts.move(attempt, state)
    wait_dead(attempt)
    attempts.wait_shim_gone(attempt)
    assert attempts.state(attempt) is (OwnState.EXITED if state is OwnState.REVOKED else OwnState.VACANT)


def test_an_unreadable_ownership_ends_the_driver_at_its_deadline_only(attempts: Attempts) -> None:
    attempt = attempts.assign(lease_s=6.0)
    attempts.wait_running(attempt)
    good, _ = attempts.own(attempt)
    attempts.spoil(attempt, b"{nonsense")
    spoilt_at_s = boottime_s()
    wait_dead(attempt)
    assert attempt.last_sign_at_s() > spoilt_at_s + 1.0, "it was not killed at once"
    assert attempt.shim_alive(), "it waits for a record that it can believe"
    attempts.spoil(attempt, encode(good))
    assert attempts.wait_state(attempt, OwnState.EXITED).cause is Cause.LEASE_EXPIRED


def test_an_unreadable_ownership_that_is_repaired_in_time_costs_nothing(attempts: Attempts) -> None:
    attempt = attempts.assign(lease_s=12.0)
    attempts.wait_running(attempt)
    good, _ = attempts.own(attempt)
    attempts.spoil(attempt, b"{nonsense")
    wait_until(lambda: "renewals stop" in attempt.shim_log(), 10, "the shim to notice")
    attempts.spoil(attempt, encode(good))
    _, version = attempts.lease(attempt) or pytest.fail("no lease")
    wait_until(lambda: (attempts.lease(attempt) or (None, 0))[1] > version, 10, "renewals")
    assert len(attempt.driver_pids()) == 1


def test_a_lost_session_costs_no_driver(attempts: Attempts) -> None:
    attempt = attempts.assign()
    attempts.wait_running(attempt)
    path = attempts.layout.live(attempt.entry.uid, 1)
    node = attempts.client.read(path)
    assert node is not None
    # A session can only be closed with its password; expire it by stopping the shim for longer than that instead.
    attempt.send(signal.SIGSTOP)
    wait_until(lambda: attempts.client.read(path) is None, 30, "the session to expire")
    attempt.send(signal.SIGCONT)

    def back() -> bool:
        again = attempts.client.read(path)
        return again is not None and again.stat.ephemeral_owner != node.stat.ephemeral_owner

    wait_until(back, 20, "/live of a new session")
    assert len(attempt.driver_pids()) == 1 and attempts.state(attempt) is OwnState.CLAIMED


# -- the second and the third killer -----------------------------------------------------------------------------------


def test_shim_killed_the_twin_kills_the_tree(attempts: Attempts) -> None:
    attempt = attempts.assign(knobs={"setsid_child": True, "child": True})
    attempts.wait_running(attempt)
    attempt.send(signal.SIGKILL)
    wait_dead(attempt)
    wait_until(lambda: not attempt.alive(run_dir.TWIN), 10, "the end of the twin")
    assert attempts.state(attempt) is OwnState.CLAIMED, "nobody is left who could bury it"


def test_shim_killed_the_guardian_buries_what_is_proven_dead(attempts: Attempts) -> None:
    attempt = attempts.assign(knobs={"setsid_child": True})
    attempts.wait_running(attempt)
    with guardian_of(attempts, attempt) as loop:
        wait_until(lambda: loop.guardian.keys(), 10, "the guardian to see it")
        attempt.send(signal.SIGKILL)
        wait_dead(attempt)
        wait_until(lambda: not os.path.exists(attempt.directory), 20, "the run directory to go")
    own, _ = attempts.own(attempt)
    if attempt.launch.cgroup is None:
        assert own.state is OwnState.CLAIMED, "without a cgroup nothing is proven"
    else:
        assert (own.state, own.cause) == (OwnState.EXITED, Cause.SHIM_DIED)
        assert not os.path.exists(attempt.launch.cgroup)


def test_an_empty_cgroup_that_somebody_removes_keeps_no_shim_and_no_tombstone(attempts: Attempts) -> None:
    """While the shim stands still its driver ends, and a tidy person removes the empty group."""
    if attempts.cgroup_parent is None:
        return  # there is none to be removed
    attempt = attempts.assign(lease_s=20.0)
    attempts.wait_running(attempt)
    attempt.send(signal.SIGSTOP)
    for pid in attempt.driver_pids():
        os.kill(pid, signal.SIGKILL)
    wait_dead(attempt)
    assert attempt.launch.cgroup is not None
    os.rmdir(attempt.launch.cgroup)
    attempt.send(signal.SIGCONT)
    attempts.wait_state(attempt, OwnState.EXITED)
    attempts.wait_shim_gone(attempt)


def test_shim_and_twin_killed_the_guardian_kills(attempts: Attempts) -> None:
    attempt = attempts.assign(knobs={"setsid_child": True})
    attempts.wait_running(attempt)
    attempt.send(signal.SIGSTOP, run_dir.TWIN)
    attempt.send(signal.SIGKILL)
    with guardian_of(attempts, attempt):
        wait_dead(attempt)
        attempt.send(signal.SIGKILL, run_dir.TWIN)
        wait_until(lambda: not os.path.exists(attempt.directory), 20, "the run directory to go")


def test_a_stopped_shim_is_killed_by_its_twin_before_the_lease_is_over(attempts: Attempts) -> None:
    attempt = attempts.assign(lease_s=6.0)
    attempts.wait_running(attempt)
    lease_known_at_s = boottime_s()
    attempt.send(signal.SIGSTOP)
    wait_dead(attempt)
    assert attempt.last_sign_at_s() <= lease_known_at_s + attempt.launch.lease_s
    attempt.send(signal.SIGCONT)  # nobody there any more
    assert not attempt.shim_alive()
    assert not attempt.living()


def test_shim_and_twin_stopped_the_guardian_acts_before_the_lease_is_over(attempts: Attempts) -> None:
    attempt = attempts.assign(lease_s=6.0)
    attempts.wait_running(attempt)
    stopped_at_s = boottime_s()
    attempt.send(signal.SIGSTOP, run_dir.TWIN)
    attempt.send(signal.SIGSTOP)
    with guardian_of(attempts, attempt):
        wait_dead(attempt)
        assert attempt.last_sign_at_s() <= stopped_at_s + attempt.launch.lease_s
        attempt.send(signal.SIGKILL, run_dir.TWIN)
        wait_until(lambda: not os.path.exists(attempt.directory), 20, "the run directory to go")
    own, _ = attempts.own(attempt)
    assert attempt.launch.cgroup is None or own.cause is Cause.LEASE_EXPIRED


def test_a_shim_stopped_between_claim_and_exec_executes_nothing_afterwards(attempts: Attempts) -> None:
    attempt = attempts.assign(start=False, lease_s=6.0)
    attempts.start(attempt)
    attempt.process(run_dir.DRIVER)  # the starter waits
    attempt.send(signal.SIGSTOP, run_dir.DRIVER)
    wait_until(lambda: attempts.state(attempt) is OwnState.CLAIMED or attempt.notes(), 20, "the claim")
    if attempt.notes():
        pytest.skip("it was executed before it could be stopped")
    # Stopped before it has heard of its claim it has nothing to execute, now or later, and the twin nobody to kill.
    wait_until(
        lambda: run_dir.read_deadline(attempt.directory) is not None,
        20,
        "the shim to have heard of its claim",
    )
    attempt.send(signal.SIGSTOP)
    claimed_at_s = boottime_s()
    wait_until(lambda: not attempt.shim_alive(), 20, "the twin to kill the shim")
    assert boottime_s() <= claimed_at_s + attempt.launch.lease_s + KILL_TIME_S
    attempt.send(signal.SIGCONT, run_dir.DRIVER)
    wait_until(lambda: not attempt.alive(run_dir.DRIVER), 10, "the end of the starter")
    assert not attempt.notes()


def test_a_guardian_that_comes_later_adopts(attempts: Attempts) -> None:
    attempt = attempts.assign()
    attempts.wait_running(attempt)
    with guardian_of(attempts, attempt) as loop:
        wait_until(lambda: loop.guardian.keys(), 10, "the guardian to see it")
        beats = len(attempt.events("beat"))
        wait_until(lambda: len(attempt.events("beat")) > beats + 10, 20, "the driver to go on")
        assert attempt.shim_alive() and len(attempt.driver_pids()) == 1
        attempts.move(attempt, OwnState.DRAINING)
        wait_until(lambda: not os.path.exists(attempt.directory), 20, "the run directory to go")
    assert attempts.own(attempt)[0].cause is Cause.STOPPED


# -- ZooKeeper away ----------------------------------------------------------------------------------------------------


def test_cut_from_zookeeper_the_driver_is_dead_when_the_lease_is_over(
    own_attempts: tuple[Attempts, EmbeddedEnsemble],
) -> None:
    attempts, ensemble = own_attempts
    attempt = attempts.assign(lease_s=6.0, knobs={"ignore_term": True, "setsid_child": True})
    attempts.wait_running(attempt)
    for node in range(3):
        ensemble.pause(node)
    paused_at_s = boottime_s()
    wait_dead(attempt)
    assert attempt.last_sign_at_s() <= paused_at_s + attempt.launch.lease_s
    for node in range(3):
        ensemble.resume(node)
    assert attempts_again(attempts).wait_state(attempt, OwnState.EXITED, 40).cause is Cause.LEASE_EXPIRED


def test_a_short_outage_costs_nothing(own_attempts: tuple[Attempts, EmbeddedEnsemble]) -> None:
    attempts, ensemble = own_attempts
    attempt = attempts.assign(lease_s=30.0)
    attempts.wait_running(attempt)
    for node in range(3):
        ensemble.kill(node)
    time.sleep(2.0)  # the length of the outage
    for node in range(3):
        ensemble.restart(node)
    again = attempts_again(attempts)
    _, version = again.lease(attempt) or pytest.fail("no lease")
    wait_until(lambda: (again.lease(attempt) or (None, 0))[1] > version, 30, "renewals")
    assert len(attempt.driver_pids()) == 1 and attempt.shim_alive()


def attempts_again(attempts: Attempts) -> Attempts:
    """The reader's session may have been lost in the outage."""
    attempts.reconnect()
    return attempts


# -- disks, pids, memory -----------------------------------------------------------------------------------------------


@pytest.mark.netns
@pytest.mark.parametrize("parent", ["cgroup"], indirect=True)
def test_a_full_disk_stops_no_renewal(attempts: Attempts, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(full)], check=True)
    try:
        attempt = attempts.assign(
            knobs={"noise_bytes": 100_000}, lease_s=6.0, log_path=str(full / "driver.log")
        )
        attempts.wait_running(attempt)
        wait_until(lambda: os.statvfs(full).f_bavail == 0, 30, "a full disk")
        _, version = attempts.lease(attempt) or pytest.fail("no lease")
        wait_until(
            lambda: (attempts.lease(attempt) or (None, 0))[1] > version + 6, 30, "renewals for a whole lease"
        )
        assert len(attempt.driver_pids()) == 1
        (full / "driver.log").write_bytes(b"")
        wait_until(
            lambda: b"bytes of output were dropped" in (full / "driver.log").read_bytes(), 20, "the count"
        )
    finally:
        attempts.close()
        subprocess.run(["umount", "-l", str(full)], check=True)


@pytest.mark.netns
@pytest.mark.parametrize("parent", ["cgroup"], indirect=True)
def test_a_full_run_directory_stops_no_renewal(attempts: Attempts, tmp_path: Path) -> None:
    small = tmp_path / "run"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=True)
    try:
        attempts.directory = small
        attempt = attempts.assign(
            lease_s=6.0, log_path=str(tmp_path / "driver.log"), knobs={"witness": str(tmp_path / "w")}
        )
        attempt.witness = tmp_path / "w"
        attempts.wait_running(attempt)
        with open(small / "ballast", "wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            while True:
                file.write(bytes(4096))
        _, version = attempts.lease(attempt) or pytest.fail("no lease")
        wait_until(
            lambda: (attempts.lease(attempt) or (None, 0))[1] > version + 8, 30, "renewals for a whole lease"
        )
        assert len(attempt.driver_pids()) == 1 and attempt.shim_alive()
    finally:
        attempts.close()
        subprocess.run(["umount", "-l", str(small)], check=True)


def leave_no_descriptor(pid: int) -> None:
    """What the process has open it keeps; whatever it opens anew fails, until it closes something."""
    numbers = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    limit = next(number for number in range(1 << 20) if number not in numbers)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))


@pytest.mark.parametrize("parent", ["cgroup"], indirect=True)
def test_a_shim_without_a_descriptor_left_renews_and_stops(attempts: Attempts) -> None:
    """Neither renewing nor the orderly stop opens anything; nor does the twin, whose shim is killed in the same need."""
    orderly, killed = attempts.assign(lease_s=6.0), attempts.assign(lease_s=6.0)
    for attempt in (orderly, killed):
        attempts.wait_running(attempt)
        for file in (run_dir.SHIM, run_dir.TWIN):
            leave_no_descriptor(attempt.process(file).pid)
    for attempt in (orderly, killed):
        _, version = attempts.lease(attempt) or pytest.fail("no lease")
        wait_until(
            lambda a=attempt, v=version: (attempts.lease(a) or (None, 0))[1] > v + 6,
            30,
            "renewals for a whole lease",
        )  # type: ignore[misc]
        assert len(attempt.driver_pids()) == 1 and attempt.shim_alive()
    attempts.move(orderly, OwnState.DRAINING)
    attempts.wait_state(orderly, OwnState.EXITED)
    assert orderly.living() == []
    killed.send(signal.SIGKILL)
    wait_until(lambda: not killed.living(), 20, "the twin to kill the tree")


@pytest.mark.parametrize("parent", ["cgroup"], indirect=True)
def test_a_shim_that_can_open_nothing_and_loses_its_connection(
    own_attempts: tuple[Attempts, EmbeddedEnsemble],
) -> None:
    """It cannot connect again: its driver is dead at its deadline."""
    attempts, ensemble = own_attempts
    attempt = attempts.assign(lease_s=6.0)
    attempts.wait_running(attempt)
    resource.prlimit(attempt.process(run_dir.SHIM).pid, resource.RLIMIT_NOFILE, (3, 3))
    for node in range(3):
        ensemble.restart(node)
    wait_until(lambda: not attempt.living(), 40, "the driver to be dead")


@pytest.mark.parametrize("parent", ["cgroup"], indirect=True)
@pytest.mark.parametrize("what", ["reused pid", "earlier boot"])
def test_run_files_that_name_somebody_else_harm_nobody(attempts: Attempts, what: str) -> None:
    attempt = attempts.assign(start=False)
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        named = ProcessId(stranger.pid, 1, run_dir_boot_id() if what == "reused pid" else "an-earlier-boot")
        for file in (run_dir.SHIM, run_dir.DRIVER):
            run_dir.write_process(f"{attempt.directory}/{file}", named, "claim")
        own, _ = attempts.own(attempt)
        claimed = replace(own, state=OwnState.CLAIMED, claim="claim")
        attempts.commit(SetData(attempts.layout.own(attempt.entry.name), encode(claimed), 0))
        with guardian_of(attempts, attempt):
            wait_until(lambda: not os.path.exists(attempt.directory), 20, "the run directory to go")
        assert stranger.poll() is None
        assert attempts.state(attempt) is OwnState.CLAIMED, "a missing cgroup proves nothing"
    finally:
        stranger.kill()
        stranger.wait()


def run_dir_boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.parametrize("parent", ["cgroup"], indirect=True)
def test_another_supervisors_run_directories_are_left_alone(attempts: Attempts) -> None:
    attempt = attempts.assign(supervisor="host-b")
    attempts.wait_running(attempt)
    with guardian_of(attempts, attempt) as loop:
        attempt.send(signal.SIGKILL)
        wait_dead(attempt)
        wait_until(lambda: loop.guardian.keys(), 10)
        wait_until(lambda: not attempt.alive(run_dir.TWIN), 10)
        assert all(
            guarded_attempt.stage.value == "unborn" for guarded_attempt in loop.guardian.guarded_attempts()
        )
    assert os.path.exists(attempt.directory)


def test_shim_and_twin_are_small(attempts: Attempts) -> None:
    attempt = attempts.assign()
    attempts.wait_running(attempt)
    used_kb = pss_kb(attempt.process(run_dir.SHIM).pid, attempt.process(run_dir.TWIN).pid)
    assert used_kb <= 22 * 1024
