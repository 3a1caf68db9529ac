"""``python -m tests.crash_points``: every point on real processes. See README.md.

Records which points there are, then makes a run per point, moment and mode on fleets side by side, and says what it found.
Exit code 1: something was wrong; 0: nothing was, in the runs that were made.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from supervisor.demo.ensemble import EmbeddedEnsemble
from tests.crash_points import memory_runs
from tests.crash_points.crash_fleet import CrashFleet
from tests.crash_points.points import MODES, Point, moments
from tests.crash_points.record import Passed, record, where
from tests.crash_points.run import OF_ONE_JOB, Task
from tests.crash_points.scenarios import ALONE, SCENARIOS
from tests.crash_points.unreached import unreached
from tests.crash_points.workers import run_all
from tests.results import Measured, add_option


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash_points", description=__doc__)
    parser.add_argument(
        "--role", help="points of this role only (leader, agent, guardian, shim, twin, starter, cli, …)"
    )
    parser.add_argument(
        "--mode", choices=(*MODES, *MIXED), default="kill", help="kill+pause: one of each, for --pairs"
    )
    parser.add_argument("--only", metavar="TEXT", help="points whose name has this in it")
    parser.add_argument(
        "--scenario", action="append", choices=list(SCENARIOS), help="points of these scenarios only"
    )
    parser.add_argument("--every", action="store_true", help="both moments of calls that only read, too")
    parser.add_argument(
        "--pairs", type=int, default=0, metavar="N", help="N random pairs of points instead of single ones"
    )
    parser.add_argument("--seed", type=int, default=1, help="for --pairs, and for --sample")
    parser.add_argument(
        "--memory", action="store_true", help="--pairs in memory: kill and pause in all four combinations"
    )
    parser.add_argument(
        "--missed",
        type=Path,
        metavar="FILE",
        help="what never struck by these results: at its first pass, in `tend`",
    )
    parser.add_argument(
        "--replay", metavar="TEXT", help="one run, as the line of one that went wrong names it"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="at most N runs, drawn by --seed")
    parser.add_argument(
        "--shuffle", action="store_true", help="in random order (--seed), for what is not run to its end"
    )
    parser.add_argument("--batch", type=int, default=8, help="so many runs of one job each share a fleet")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no run after so long")
    parser.add_argument("--fleets", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="record, print the points, and end")
    parser.add_argument(
        "--unreached",
        action="store_true",
        help="print the functions with I/O that no scenario passes, and end",
    )
    parser.add_argument(
        "--points", type=Path, metavar="FILE", help="where the recording is kept: used if it is there"
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FILE",
        help="a line per run; what went well in there is not run again",
    )
    add_option(parser)
    return parser.parse_args()


MIXED = ("kill+pause",)

# -- what to run --------------------------------------------------------------------------------------------------------


def singles(passed: Passed, mode: str, *, every: bool) -> Iterator[Task]:
    """Writes first: there a crash leaves something behind."""
    chosen = where(passed)
    for point in sorted(chosen, key=lambda point: point.reads_only):
        scenario, nth = chosen[point]
        for moment in moments(point, mode, every=every):
            yield Task(scenario, mode, ((str(point), moment, nth),))


def pairs(passed: Passed, mode: str, count: int, seed: int) -> Iterator[Task]:
    """Two points of one scenario, both writes, at any moments."""
    drawn = random.Random(seed)
    scenarios = [scenario for scenario in SCENARIOS if scenario in passed]
    for _ in range(count):
        scenario = drawn.choice(scenarios)
        writes = sorted(point for point in passed[scenario] if not point.reads_only)
        modes = mode.split("+") if mode in MIXED else [mode, mode]
        both = zip(drawn.sample(writes, 2), modes, strict=True)
        yield Task(scenario, mode, tuple((str(p), drawn.choice(moments(p, each)), 1) for p, each in both))


def missed(results: Path) -> Iterator[Task]:
    """What is done once at a start, or now and then: no pass of it came in the run that it was to strike in."""
    hits: dict[tuple[str, str, str], bool] = {}
    for line in map(json.loads, results.read_text().splitlines()):
        what = (line["task"]["mode"], *line["task"]["points"][0][:2])
        hits[what] = hits.get(what, False) or bool(line["hit"])
    for (mode, point, moment), struck in hits.items():
        if not struck:
            yield Task("tend", mode, ((point, moment, 1),))


def asked_for(options: argparse.Namespace, passed: Passed) -> Iterable[Task]:
    if options.replay is not None:
        return [Task.parse(options.replay)]
    if options.missed is not None:
        return missed(options.missed)
    if options.pairs:
        return pairs(passed, options.mode, options.pairs, options.seed)
    return singles(passed, options.mode, every=options.every)


def wanted(options: argparse.Namespace, tasks: Iterable[Task]) -> list[Task]:
    found = [
        task
        for task in tasks
        if (options.role is None or options.role in task.roles)
        and (options.only is None or options.only in task.title)
        and (options.scenario is None or task.scenario in options.scenario)
    ]
    if options.sample is not None and options.sample < len(found):
        found = random.Random(options.seed).sample(found, options.sample)
    return found


def batches(tasks: list[Task], options: argparse.Namespace) -> list[list[Task]]:
    """What may share a fleet at one time goes together."""
    shared: dict[str, list[Task]] = {}
    alone = []
    for task in tasks:
        if task.roles <= OF_ONE_JOB and task.scenario not in ALONE:
            shared.setdefault(task.scenario, []).append(task)
        else:
            alone.append([task])
    size = options.batch
    found = [*(tasks[i : i + size] for tasks in shared.values() for i in range(0, len(tasks), size)), *alone]
    if options.shuffle:
        random.Random(options.seed).shuffle(found)
    return found


# -- saying it ------------------------------------------------------------------------------------------------------------


def load(passed: Path) -> Passed:
    body = json.loads(passed.read_text())
    return {
        scenario: Counter({Point.parse(p): n for p, n in points.items()}) for scenario, points in body.items()
    }


def record_or_load(hosts: str, directory: Path, options: argparse.Namespace) -> Passed:
    if options.points is not None and options.points.exists():
        return load(options.points)
    names = (f"record-{i}" for i in itertools.count())
    with CrashFleet(hosts, f"/crash-{os.getpid()}-record", directory / "record") as fleet:
        passed = record(fleet, options.scenario or SCENARIOS, lambda: next(names))
    if options.points is not None:
        options.points.write_text(
            json.dumps(
                {s: {str(p): n for p, n in sorted(found.items())} for s, found in passed.items()}, indent=1
            )
        )
    return passed


def already(results: Path | None) -> set[str]:
    if results is None or not results.exists():
        return set()
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return {_title(line) for line in lines if line["hit"] and not line["wrong"]}


def _title(line: dict[str, Any]) -> str:
    return Task(
        line["task"]["scenario"], line["task"]["mode"], tuple(map(tuple, line["task"]["points"]))
    ).title  # type: ignore[arg-type]


COLUMNS = ("what", "count")


def rows(counts: Mapping[str, int]) -> list[tuple[str, ...]]:
    """What RESULTS.md has of a run."""
    return [(what, f"{count:,}") for what, count in counts.items()]


def title(options: argparse.Namespace) -> str:
    """The section of RESULTS.md that a run on real processes belongs to: a part of the points has one of its own."""
    parts = ("role", "only", "scenario", "sample", "replay", "missed")
    values = {part: getattr(options, part) for part in parts}
    of = [
        f"{part} {' '.join(value) if isinstance(value, list) else value}"
        for part, value in values.items()
        if value is not None
    ]
    kind = f"pairs, seed {options.seed}" if options.pairs else "points"
    return ", ".join([f"Real processes: {options.mode}, {kind}", *of])


def in_memory(options: argparse.Namespace) -> int:
    """Random pairs in memory, or one of them again."""
    began_at_s, measured = time.process_time(), Measured("crash_points")
    with memory_runs.quiet():
        if options.replay is not None:
            todo: Iterable[memory_runs.Pair] = [memory_runs.parse_pair(options.replay)]
        else:
            todo = memory_runs.pairs(memory_runs.record(), options.pairs, options.seed)
        struck, wrong = memory_runs.run_pairs(todo)
    for pair, sentences in wrong.items():
        print(f"WRONG, again by: python -m tests.crash_points --memory --replay '{pair}'")
        print("\n".join(f"    {sentence}" for sentence in sentences))
    print(
        f"{struck.total()} pairs, seed {options.seed}: both struck in {struck[2]}, one in {struck[1]}, none in {struck[0]}; "
        f"{len(wrong)} wrong; {time.process_time() - began_at_s:.0f} CPU seconds"
    )
    if options.write_results:
        counts = {
            "pairs": struck.total(),
            "both struck": struck[2],
            "one struck": struck[1],
            "wrong": len(wrong),
        }
        measured.write(f"Pairs in memory, seed {options.seed}", COLUMNS, rows(counts))
    return 1 if wrong else 0


def main() -> int:
    options = arguments()
    if options.memory:
        return in_memory(options)
    began_at_s, measured = time.monotonic(), Measured("crash_points")
    with (
        tempfile.TemporaryDirectory(prefix="crash-points-", ignore_cleanup_errors=True) as temporary,
        EmbeddedEnsemble(Path(temporary) / "zookeeper") as ensemble,
    ):
        directory = Path(temporary)
        known = options.replay is not None or options.missed is not None
        passed = {} if known else record_or_load(ensemble.hosts, directory, options)
        chosen = where(passed)
        print(
            f"{len(chosen)} points:",
            dict(sorted(Counter(point.role for point in chosen).items())),
            flush=True,
        )
        if options.list:
            for point, (scenario, nth) in chosen.items():
                print(f"{point}  ({scenario}, pass {nth})")
            return 0
        if options.unreached:
            print("\n".join(unreached(chosen)))
            return 0
        done = already(options.results)
        todo = [task for task in wanted(options, asked_for(options, passed)) if task.title not in done]
        print(f"{len(todo)} runs to make ({options.mode})", flush=True)
        counts: Counter[str] = Counter()
        for outcome in run_all(
            ensemble.hosts, directory, batches(todo, options), options.fleets, options.seconds
        ):
            counts["runs"] += 1
            counts["struck"] += outcome.hit > 0
            counts["wrong"] += bool(outcome.wrong)
            counts[f"runs of {'/'.join(sorted(outcome.task.roles))}"] += outcome.hit > 0
            if options.results is not None:
                with options.results.open("a") as file:
                    file.write(json.dumps(asdict(outcome)) + "\n")
            if outcome.wrong:
                print(
                    f"WRONG {outcome.name} (struck {outcome.hit}), again by: python -m tests.crash_points --replay "
                    f"'{outcome.task.scenario} {outcome.task.title}'",
                    flush=True,
                )
                for sentence in outcome.wrong:
                    print(f"    {sentence}", flush=True)
            elif counts["runs"] % 25 == 0:
                print(f"  {counts['runs']} runs after {time.monotonic() - began_at_s:.0f} s", flush=True)
    print(f"{dict(counts)} in {time.monotonic() - began_at_s:.0f} s")
    if options.write_results:
        totals = {what: counts[what] for what in ("runs", "struck", "wrong")}
        measured.write(title(options), COLUMNS, rows({"points": len(chosen), **totals, **counts}))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
