"""``python -m tests.explore [--scenario NAME] [--wide] [--write-results] [--list]``: explore, and print states, transitions, depth, seconds.

Exits 1 when a scenario shows a violation, and tells it as a story. ``--wide``: with up to three
faults in each scenario, and up to 20,000 states of it (``--max-states``).
"""

from __future__ import annotations

import argparse
import sys

from tests.explore.scenarios import BY_NAME, SCENARIOS
from tests.explore.search import Explored, explore
from tests.explore.setting import abstracted
from tests.results import Measured, add_option

WIDE_MAX_STATES = 20_000


COLUMNS = ("scenario", "states", "transitions", "depth", "CPU s", "bounds", "violation")


def row(found: Explored) -> tuple[str, ...]:
    """What RESULTS.md has of one exploration."""
    return (
        found.scenario,
        f"{found.states:,}",
        f"{found.transitions:,}",
        str(found.depth),
        f"{found.seconds:.1f}",
        "complete" if found.complete else "cut off",
        found.broken or "none",
    )


def title(asked: argparse.Namespace) -> str:
    """The section of RESULTS.md that a run belongs to."""
    kind = "Wide exploration" if asked.wide else "Exploration"
    return kind if asked.scenario is None else f"{kind} of chosen scenarios"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.explore", description=__doc__)
    parser.add_argument("--scenario", action="append", choices=sorted(BY_NAME))
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--max-states", type=int)
    parser.add_argument("--list", action="store_true")
    parser.add_argument(
        "--rest-every", type=int, default=1, help="ask from each n-th state only whether all comes to rest"
    )
    add_option(parser)
    asked = parser.parse_args()
    if asked.list:
        for one in SCENARIOS:
            print(f"{one.name:34} {one.about}")
        return 0
    measured, rows = Measured("explore"), []
    failed = False
    for one in SCENARIOS if asked.scenario is None else [BY_NAME[name] for name in asked.scenario]:
        with abstracted():
            most = asked.max_states or (WIDE_MAX_STATES if asked.wide else one.max_states)
            found = explore(one, most, asked.rest_every, wide=asked.wide)
        print(found.line, flush=True)
        rows.append(row(found))
        if found.broken is not None:
            failed = True
            print("\n".join(["", *found.trace, "", f"VIOLATION: {found.broken}", ""]))
    if asked.write_results:
        measured.write(title(asked), COLUMNS, rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
