"""``python -m tests.simulation [--seeds N] [--from S] [--seconds N] [--also FAULT] [--small] [--write-results] [--replay SEED] [--shrink]``: see README.md beside it."""

from __future__ import annotations

import argparse
import sys

from tests.results import Measured, add_option
from tests.simulation.timed import runs
from tests.simulation.timed.scenario import Fault, plan_of


def print_line(text: str) -> None:
    print(text, flush=True)


def title(given: argparse.Namespace) -> str:
    """The section of RESULTS.md that a run belongs to."""
    how = [*(["small"] if given.small else []), *([f"also {given.also}"] if given.also else [])]
    return ", ".join([f"From seed {given.first}", *how])


def rows(figures: runs.Figures) -> list[tuple[str, ...]]:
    """What RESULTS.md has of a run."""
    counts = figures.counts
    return [
        ("seeds", f"{figures.seeds:,}"),
        ("simulated hours", f"{figures.simulated_s / 3600:.1f}"),
        ("events", f"{figures.events:,}"),
        *(
            (what, f"{counts[what]:,}")
            for what in ("jobs", "drivers", "drivers prepared", "attempts handed over", "terms", "passes")
        ),
        ("faults", f"{figures.faults.total():,}"),
        ("violations", str(len(figures.failed))),
        ("seeds with a violation", ", ".join(map(str, sorted(figures.failed))) or "none"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, metavar="N", help="how many (300)")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="S", help="the first one (0)")
    parser.add_argument("--seconds", type=float, metavar="N", help="begin no new one after N seconds")
    parser.add_argument(
        "--also",
        choices=[fault.name for fault in Fault],
        metavar="FAULT",
        help="with a few more of this fault",
    )
    parser.add_argument("--small", action="store_true", help="leave out the few seeds that are large or long")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run this one and tell its story")
    parser.add_argument("--shrink", action="store_true", help="make a failing story as short as can be")
    add_option(parser)
    given = parser.parse_args()
    measured = Measured("simulation")
    also = Fault[given.also] if given.also else None
    runs.prepare()
    if given.replay is not None:
        plan = plan_of(given.replay, also)
        print_line(runs.story_of(runs.shrink(plan, print_line) if given.shrink else plan))
        return 0
    figures = runs.run_many(
        range(given.first, given.first + given.seeds), given.seconds, print_line, also, given.small
    )
    print_line(figures.report())
    if given.write_results:
        measured.write(title(given), ("what", "count"), rows(figures))
    if figures.failed and given.shrink:
        print_line(runs.story_of(runs.shrink(plan_of(min(figures.failed), also), print_line)))
    return 1 if figures.failed else 0


if __name__ == "__main__":
    sys.exit(main())
