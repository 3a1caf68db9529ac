"""The mutation gate: ``python -m tests.explore.gate [--only NAME] [--own | --redundant] [--trace] [--states N] [--write-results]``.

Every defect of ``defects.py`` is planted into production code, and the scenarios are explored until one shows a
violation; code that raises is one. A defect that survives all of them fails the build, unless it is named redundant, with
the guard that covers it; and one that is named redundant and is caught all the same fails it too, for then the docs are
wrong. Nothing that a defect leads to ends the gate: neither an exception, nor a loop (``bounded``).

A scenario that never comes to the code that a defect changes is left out: with the defect it is, to the letter, the
same exploration (``reached``).
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.explore.defect import Defect
from tests.explore.planting import around, edited, plain
from tests.explore.scenario import Scenario
from tests.explore.scenarios import BY_NAME, SCENARIOS
from tests.explore.search import Explored, Kept, explore
from tests.explore.setting import abstracted
from tests.results import Measured, add_option

OWN_MAX = (1_000, 20_000)
"""States of the scenarios that a defect names: all of them within the first bound, before any within the next."""

OTHERS_MAX = 200
"""States of each other scenario: far and scattered ones, with its wide faults."""

REST_EVERY = 3

PATIENCE_S = 60
"""CPU seconds for one exploration: whatever a defect makes turn in circles is caught by that."""


@dataclass(frozen=True)
class Verdict:
    """``caught``: the exploration that showed it, or None. ``failed``: why it could not be planted."""

    defect: Defect
    caught: Explored | None
    states: int
    seconds: float
    failed: str | None = None

    @property
    def is_right(self) -> bool:
        return self.failed is None and (self.caught is None) == (self.defect.redundant_because is not None)

    @property
    def line(self) -> str:
        effort = f"{self.states:9,} states {self.seconds:7.1f} s"
        if self.failed is not None:
            return f"{self.defect.name:44} NOT PLANTED {effort}  {self.failed}"
        if self.caught is not None:
            word = "caught" if self.is_right else "CAUGHT, BUT NAMED REDUNDANT"
            return (
                f"{self.defect.name:44} {word:9} {effort}  in '{self.caught.scenario}': {self.caught.broken}"
            )
        why = self.defect.redundant_because
        return f"{self.defect.name:44} {f'redundant {effort}  {why}' if why is not None else f'SURVIVED  {effort}'}"


def judge(defect: Defect, others: Iterable[str] = (), max_states: int = OTHERS_MAX) -> Verdict:
    """Explore with the defect planted: its own scenarios, then ``others``, up to the first violation."""
    begun_at_s, states, kept = time.process_time(), 0, Kept()
    plan = [partial(explore, BY_NAME[name], most) for most in OWN_MAX for name in defect.scenarios]
    plan += [scattered(name, max_states) for name in others if name not in defect.scenarios]
    try:
        with abstracted(), defect.patch():
            for run in plan:
                with bounded(PATIENCE_S):
                    found = run(kept=kept)
                states += found.states
                if found.broken is not None:
                    return Verdict(defect, found, states, time.process_time() - begun_at_s)
    except Exception as error:  # one defect that can't be planted is no reason not to try the others
        return Verdict(
            defect, None, states, time.process_time() - begun_at_s, f"{type(error).__name__}: {error}"
        )
    return Verdict(defect, None, states, time.process_time() - begun_at_s)


def scattered(name: str, max_states: int) -> Callable[..., Explored]:
    """How a scenario is explored that a defect does not name: with all its faults, far and wide. From some states only it
    is brought to rest: that is slow where few states were seen before."""
    return partial(explore, BY_NAME[name], max_states, REST_EVERY, wide=True, deep=1)


class Endless(Exception):
    """An exploration that does not end."""


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raises Endless within what takes longer than so many CPU seconds. In the main thread only."""

    def stop(_signal: int, _frame: object) -> None:
        raise Endless(f"it has not come to an end in {seconds:g} CPU seconds")

    before = signal.signal(signal.SIGPROF, stop)
    # again and again: what it stops may take it for an error of its own
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def changed_by(defect: Defect) -> list[Any]:
    """The functions whose text it edits, or the one that it stands around."""
    assert isinstance(defect.patch, partial)
    planting, arguments = defect.patch.func, defect.patch.args
    return [plain(edit.function) for edit in arguments] if planting is edited else [plain(arguments[0])]


def reached(defects: Iterable[Defect], scenarios: Iterable[Scenario], max_states: int) -> dict[str, set[Any]]:
    """Of the functions that the defects change, those that an exploration without any defect comes to, by scenario."""
    functions = {function for defect in defects for function in changed_by(defect)}
    found: dict[str, set[Any]] = {}
    for scenario in scenarios:
        called: set[Any] = set()
        with abstracted(), ExitStack() as stack:
            for function in functions:
                stack.enter_context(around(function, partial(_calling, called, function)))
            scattered(scenario.name, max_states)()
        found[scenario.name] = called
    return found


def _calling(called: set[Any], function: Any, real: Any, *args: Any, **kwargs: Any) -> Any:
    called.add(function)
    return real(*args, **kwargs)


def title(asked: argparse.Namespace) -> str:
    """The section of RESULTS.md that a run belongs to."""
    if asked.only is not None:
        return "Mutation gate, chosen defects"
    how = [option for option in ("own", "redundant") if getattr(asked, option)]
    return " --".join(["Mutation gate", *how])


def rows(verdicts: list[Verdict], left_out: int) -> list[tuple[str, ...]]:
    """What RESULTS.md has of a run of the gate."""
    seen = sum(verdict.caught is not None for verdict in verdicts)
    return [
        ("explored", str(len(verdicts))),
        ("caught", str(seen)),
        ("not seen", str(len(verdicts) - seen)),
        ("named redundant and not explored", str(left_out)),
        ("not as named", ", ".join(v.defect.name for v in verdicts if not v.is_right) or "0"),
        ("states", f"{sum(verdict.states for verdict in verdicts):,}"),
    ]


def main() -> int:
    from tests.explore.defects import DEFECTS

    parser = argparse.ArgumentParser(prog="python -m tests.explore.gate", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", choices=[one.name for one in DEFECTS])
    parser.add_argument(
        "--redundant",
        action="store_true",
        help="explore those as well that are named redundant (half an hour)",
    )
    parser.add_argument(
        "--own", action="store_true", help="only the scenarios that a defect names, for a quick answer"
    )
    parser.add_argument(
        "--states", type=int, default=OTHERS_MAX, help="of each scenario that a defect does not name"
    )
    parser.add_argument("--trace", action="store_true", help="tell the story of each violation")
    parser.add_argument("--list", action="store_true")
    add_option(parser)
    asked = parser.parse_args()
    chosen = [one for one in DEFECTS if asked.only is None or one.name in asked.only]
    if asked.list:
        for one in chosen:
            print(f"{one.name:44} {one.of}")
        return 0
    measured = Measured("explore", "tests.explore.gate")
    left_out = [
        one for one in chosen if one.redundant_because is not None and not (asked.redundant or asked.only)
    ]
    tried = [one for one in chosen if one not in left_out]
    comes_to = {} if asked.own else reached(tried, SCENARIOS, asked.states)
    verdicts: list[Verdict] = []
    for one in tried:
        others = [name for name, called in comes_to.items() if called.intersection(changed_by(one))]
        verdict = judge(one, others, asked.states)
        print(verdict.line, flush=True)
        if asked.trace and verdict.caught is not None:
            print(
                "\n".join(["", *verdict.caught.trace, "", f"VIOLATION: {verdict.caught.broken}", ""]),
                flush=True,
            )
        verdicts.append(verdict)
    wrong = sum(not verdict.is_right for verdict in verdicts)
    print(
        f"{len(chosen)} defects: {len(left_out)} named redundant and not explored, {wrong} of the others not as named; "
        f"{time.process_time():.0f} CPU seconds"
    )
    if asked.write_results:
        measured.write(title(asked), ("of the defects", "count"), rows(verdicts, len(left_out)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
