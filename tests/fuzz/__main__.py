"""``python -m tests.fuzz [--runs N] [--from S]``: odd records beside good ones; see README.md beside it."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections import Counter
from pathlib import Path

import structlog

from tests.fuzz import host, registry, savepoints
from tests.fuzz.registry import Broken

KINDS = {"registry": registry.run_many, "host": host.run_many, "savepoints": savepoints.run_many}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, metavar="N", help="how many (2000)")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="S", help="the first seed (0)")
    parser.add_argument(
        "--of", choices=[*KINDS], action="append", help="what is odd; may be repeated (all, with N runs each)"
    )
    given = parser.parse_args()
    chosen = given.of or [*KINDS]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    kinds: Counter[str] = Counter()

    def print_line(broken: Broken) -> None:
        kind = f"{broken.what}: {broken.why}"
        kinds[kind] += 1
        if kinds[kind] == 1:
            print(f"seed {broken.seed}: {kind}", *broken.odd, sep="\n    ", flush=True)

    with tempfile.TemporaryDirectory() as directory:
        seeds = range(given.first, given.first + given.runs)
        found = [each for kind in chosen for each in KINDS[kind](seeds, Path(directory), print_line)]
    print(
        f"{given.runs} runs of {', '.join(chosen)}: {len(found)} times something was broken, in {len(kinds)} ways"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
