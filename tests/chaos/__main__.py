"""``python -m tests.chaos --seconds N --seed S``: see README.md beside this file. Exit code 1: something is wrong."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import tempfile
from pathlib import Path

from tests.chaos import spark
from tests.chaos.run import ChaosOutcome, run
from tests.chaos.world import Options
from tests.results import Measured, add_option


def rows(options: Options, outcome: ChaosOutcome) -> list[tuple[str, ...]]:
    """What RESULTS.md has of a run; how long it really lasted is in the line above the table."""
    return [
        ("minutes asked for", f"{options.seconds / 60:.1f}"),
        ("jobs", str(options.jobs)),
        ("restores", str(options.restores)),
        ("leader changes", f"{outcome.leader_changes:,}"),
        ("faults", f"{outcome.faults:,}"),
        ("violations", str(len(outcome.verdict.violations))),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ensemble", choices=["docker", "embedded"], default="docker")
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--supervisors", type=int, default=3)
    parser.add_argument("--restores", type=int, default=0, help="how often old ZooKeeper data is put back")
    parser.add_argument(
        "--spark", action="store_true", help="real Spark on S3: fewer faults (spark.py); --jobs 1 or 2"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        help="where to keep everything; else a temporary one, removed if all is well",
    )
    add_option(parser)
    chosen = parser.parse_args()
    if chosen.spark and chosen.write_results:
        parser.error("--write-results: a run with --spark reports sentences, and no figures that can be kept")
    measured = Measured("chaos")
    logging.getLogger().addHandler(logging.NullHandler())  # lost connections are no news here
    # a shell's background job is started deaf to the first
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    directory = chosen.directory or Path(tempfile.mkdtemp(prefix="chaos-"))
    if chosen.spark:
        print(
            spark.run(
                chosen.seconds,
                chosen.seed,
                min(chosen.jobs, 2),
                directory,
                lambda line: print(line, flush=True),
            )
        )
        return 0
    options = Options(
        chosen.seconds, chosen.seed, chosen.ensemble, chosen.jobs, chosen.supervisors, chosen.restores
    )
    print(f"everything is in {directory}", flush=True)
    outcome = run(options, directory, lambda line: print(line, flush=True))
    print(outcome.text, flush=True)
    (directory / "report.txt").write_text(outcome.text + "\n")
    if chosen.write_results:
        measured.write(f"{chosen.ensemble}, seed {chosen.seed}", ("what", "count"), rows(options, outcome))
    return 1 if outcome.verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
