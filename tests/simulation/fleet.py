"""``python -m tests.simulation.fleet [--jobs 1000] [--hosts 10]``: a large fleet in simulated time, see timed/fleet.py."""

from __future__ import annotations

import argparse
import sys

from tests.results import Measured, add_option
from tests.simulation.timed import runs
from tests.simulation.timed.fleet import FleetRun


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.fleet", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="default %(default)s")
    parser.add_argument("--hosts", type=int, default=10, help="default %(default)s")
    add_option(parser)
    given = parser.parse_args()
    measured = Measured("simulation", "tests.simulation.fleet")
    runs.prepare()
    ran = FleetRun(given.jobs, given.hosts).run()
    for broken in ran.broken:
        print(broken)
    for what, figure in ran.rows():
        print(f"{what:<72} {figure}", flush=True)
    if given.write_results:
        measured.write(
            f"A fleet of {given.hosts} hosts and {given.jobs:,} jobs", ("what", "figure"), ran.rows()
        )
    return 1 if ran.broken else 0


if __name__ == "__main__":
    sys.exit(main())
