"""The wall clock of every process of a fleet is set back and forth by hours and years (F57): nothing happens to any driver, nobody
loses leadership, and what is asked for meanwhile happens as ever."""

from __future__ import annotations

import mmap
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.testbed import requirements
from tests.testbed.fleet import DRIVER, Fleet, FleetMember
from tests.testbed.secured_ensemble import chosen_kind

SOURCE = Path(__file__).resolve().parents[1] / "testbed" / "wall_clock.c"
HOUR_S = 3600
YEAR_S = 365 * 24 * HOUR_S
LONG_S = 10 * YEAR_S if chosen_kind() == "plain" else 24 * HOUR_S
"""Over TLS within the time of the certificates: outside of that nobody is let in, and a new shim starts nothing."""
JUMPS_S = (HOUR_S, -LONG_S, LONG_S, 0)


@pytest.fixture
def set_wall_clock(tmp_path: Path) -> Iterator[tuple[Callable[[int], None], tuple[str, ...]]]:
    """A way to set it (seconds from the truth), and what a command line is put behind so that it obeys."""
    requirements.need("cc")
    library, file = tmp_path / "wall_clock.so", tmp_path / "offset"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    file.write_bytes(bytes(8))
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 8) as page:

        def set_to(offset_s: int) -> None:
            page[:] = struct.pack("q", offset_s)

        wrapper = ("env", f"LD_PRELOAD={library}", f"WALL_OFFSET_FILE={file}")
        set_to(-HOUR_S)
        shown = subprocess.run(
            [*wrapper, "python3", "-c", "import time; print(time.time())"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert -HOUR_S - 60 < float(shown.stdout) - time.time() < -HOUR_S + 60, "the library has no effect"
        set_to(0)
        yield set_to, wrapper


def test_the_wall_clock_goes_back_and_forth(
    embedded_ensemble: EmbeddedEnsemble,
    zk_root: str,
    tmp_path: Path,
    set_wall_clock: tuple[Callable[[int], None], tuple[str, ...]],
) -> None:
    set_to, wrapper = set_wall_clock

    def wrap(member: FleetMember) -> None:
        member.wrapper = wrapper

    with Fleet(embedded_ensemble, zk_root, tmp_path / "fleet", behind={0: wrap, 1: wrap}) as fleet:
        fleet.submit("steady")
        fleet.wait_state("steady", "running")
        driver, epoch = fleet.process("steady", DRIVER), fleet.epoch()
        for number, offset_s in enumerate(JUMPS_S):
            set_to(offset_s)
            # started, cancelled and restarted at such a time
            fleet.submit(f"new-{number}")
            fleet.wait_batches("steady")
            fleet.wait_attempt(f"new-{number}", 1)
            fleet.cancel(f"new-{number}")
        fleet.submit("crashing", knobs={"fail_attempts": 2})
        set_to(-LONG_S)
        # after its back-off, which no clock of the wall measures
        fleet.wait_attempt("crashing", 3)
        fleet.assert_undisturbed("steady")
        assert fleet.process("steady", DRIVER) == driver and fleet.epoch() == epoch
