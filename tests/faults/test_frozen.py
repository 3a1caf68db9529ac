"""A host that stands still, as a paused virtual machine does, and goes on after others have taken its jobs over (F35)."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor.clients.processes import ProcessId
from supervisor.clock import boottime_s
from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.faults.checker import WitnessNote
from tests.faults.conftest import MakeFleet
from tests.testbed import requirements
from tests.testbed.fleet import DRIVER, SHIM, TWIN, Fleet
from tests.testbed.fleet_member import remove_group
from tests.waiting import wait_until


@contextmanager
def freezable(group: Path, *processes: ProcessId) -> Iterator[Path]:
    """``processes`` in a cgroup of their own beside ``group``."""
    made = group.with_name(f"{group.name}-killers-{uuid.uuid4().hex[:6]}")
    made.mkdir()
    try:
        for process in processes:
            (made / "cgroup.procs").write_text(str(process.pid))
        yield made
    finally:
        (made / "cgroup.kill").write_text("1")
        remove_group(made)


def freeze(*groups: Path) -> None:
    for group in groups:
        (group / "cgroup.freeze").write_text("1")
    wait_until(
        lambda: all("frozen 1" in (g / "cgroup.events").read_text() for g in groups),
        10,
        "everything to stand still",
    )


def thaw(group: Path) -> None:
    (group / "cgroup.freeze").write_text("0")


def cgroup_of(fleet: Fleet, job: str) -> Path:
    return Path(json.loads((fleet.run_dir(job) / "launch.json").read_text())["cgroup"])


def of_attempt(fleet: Fleet, job: str, attempt: int) -> list[WitnessNote]:
    return [note for note in fleet.notes(job) if note.attempt == attempt]


@pytest.mark.netns
def test_f35_shim_and_driver_frozen_beyond_the_full_wait(
    embedded_ensemble: EmbeddedEnsemble,
    make_fleet: MakeFleet,
    job: str,
    record_property: pytest.FixtureRequest,
) -> None:
    """The next attempts run elsewhere when the old ones wake up, and those are killed and bury nobody.

    Of the first job the killers wake first: the driver never goes on. Of the second the driver wakes first, the worst
    order there is: nothing on its host can prevent the overlap, which is measured (the storage fence rejects its effect).
    """
    requirements.need("cgroup")
    fleet = make_fleet(embedded_ensemble, supervisors=1, judged=False)
    names = {"killers": f"{job}-1", "driver": f"{job}-2"}
    fleet.submit_many(list(names.values()), knobs={"child": True, "beat_s": 0.01}, lease="6s")
    for name in names.values():
        fleet.wait_state(name, "running")
    fleet.add_member()
    fleet.wait_complete()
    host = fleet.members[0]
    groups = {name: cgroup_of(fleet, name) for name in names.values()}
    trees = {name: [fleet.process(name, file) for file in (SHIM, TWIN, DRIVER)] for name in names.values()}
    with (
        freezable(groups[names["killers"]], *trees[names["killers"]][:2]) as first,
        freezable(groups[names["driver"]], *trees[names["driver"]][:2]) as second,
    ):
        fleet.signal_member(host, signal.SIGSTOP)
        freeze(*groups.values(), first, second)
        frozen_at_s = boottime_s()
        for name in names.values():
            assert fleet.wait_attempt(name, 2).at_s > frozen_at_s
        assert all(note.at_s < frozen_at_s for name in names.values() for note in of_attempt(fleet, name, 1))

        thaw(first)
        fleet.wait_gone(*trees[names["killers"]])
        assert all(note.at_s < frozen_at_s for note in of_attempt(fleet, names["killers"], 1)), (
            "it went on before it died"
        )

        thawed_at_s = boottime_s()
        thaw(groups[names["driver"]])
        thaw(second)
        fleet.wait_gone(*trees[names["driver"]])
    fleet.signal_member(host, signal.SIGCONT)
    fleet.wait_complete()
    for name in names.values():
        fleet.wait_batches(name)
        assert [note.attempt for note in fleet.starts(name)] == [1, 2]
        assert not {note.pid for note in of_attempt(fleet, name, 1)} & set(fleet.alive_pids(name))
    late = [note.at_s for note in of_attempt(fleet, names["driver"], 1) if note.at_s > thawed_at_s]
    overlap_s = max(late) - thawed_at_s if late else 0.0
    print(
        f"F35: the driver that woke first went on for {overlap_s * 1000:.0f} ms beside the next attempt ({len(late)} notes)"
    )
    record_property("overlap_s", overlap_s)  # type: ignore[operator]
