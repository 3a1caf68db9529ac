"""The mutation gate: ``python -m tests.explore.gate [--only NAME] [--own] [--trace] [--wide] [--redundant]``.

Every defect of ``defects.py`` is planted into production code, and the scenarios are explored until one shows a
violation. A defect that survives all of them fails the build, unless it is named redundant, with the guard that covers
it; and one that is named redundant and is caught all the same fails it too, for then the docs are wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

from tests.explore.defect import Defect
from tests.explore.scenarios import BY_NAME, SCENARIOS
from tests.explore.search import Found, explore
from tests.explore.setting import abstracted

ROUNDS = (1_000, 20_000)
"""States per scenario: all scenarios within the first bound, before any within the next. Most defects die in the first."""

WIDE_ROUNDS = (*ROUNDS, 1_000_000)
REST_EVERY = 25


@dataclass(frozen=True)
class Verdict:
    """``caught``: the exploration that showed it, or None. ``tried``: all of them."""

    defect: Defect
    caught: Found | None
    tried: tuple[Found, ...]
    seconds: float

    @property
    def is_right(self) -> bool:
        return (self.caught is None) == (self.defect.redundant_because is not None)

    @property
    def line(self) -> str:
        states = sum(found.states for found in self.tried)
        effort = f"{states:9,} states {self.seconds:7.1f} s"
        if self.caught is not None:
            word = "caught" if self.is_right else "CAUGHT, BUT NAMED REDUNDANT"
            return f"{self.defect.name:44} {word:9} {effort}  in '{self.caught.scenario}': {self.caught.broken}"
        why = self.defect.redundant_because
        return f"{self.defect.name:44} {f'redundant {effort}  {why}' if why is not None else f'SURVIVED  {effort}'}"


def judge(defect: Defect, *, wide: bool = False, others: bool = True) -> Verdict:
    """Explore with the defect planted: its own scenarios first, then (``others``) the rest, up to the first violation."""
    names = [*defect.scenarios, *((one.name for one in SCENARIOS if one.name not in defect.scenarios) if others else ())]
    tried: list[Found] = []
    begun_s = time.process_time()
    for most in WIDE_ROUNDS if wide else ROUNDS:
        for name in names:
            with abstracted(), defect.patch():
                found = explore(BY_NAME[name], most, REST_EVERY, wide=wide or name in defect.scenarios)
            tried.append(found)
            if found.broken is not None:
                return Verdict(defect, found, tuple(tried), time.process_time() - begun_s)
    return Verdict(defect, None, tuple(tried), time.process_time() - begun_s)


def main() -> int:
    from tests.explore.defects import DEFECTS

    parser = argparse.ArgumentParser(prog="python -m tests.explore.gate", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", choices=[one.name for one in DEFECTS])
    parser.add_argument("--wide", action="store_true", help="up to a million states per scenario, and more faults")
    parser.add_argument("--redundant", action="store_true", help="explore those as well that are named redundant (hours)")
    parser.add_argument("--own", action="store_true", help="only the scenarios that a defect names, for a quick answer")
    parser.add_argument("--trace", action="store_true", help="tell the story of each violation")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    chosen = [one for one in DEFECTS if asked.only is None or one.name in asked.only]
    if asked.list:
        for one in chosen:
            print(f"{one.name:44} {one.of}")
        return 0
    wrong = 0
    left_out = [one for one in chosen if one.redundant_because is not None and not (asked.redundant or asked.only)]
    for one in [one for one in chosen if one not in left_out]:
        verdict = judge(one, wide=asked.wide, others=not asked.own)
        print(verdict.line, flush=True)
        if asked.trace and verdict.caught is not None:
            print("\n".join(["", *verdict.caught.trace, "", f"VIOLATION: {verdict.caught.broken}", ""]), flush=True)
        wrong += not verdict.is_right
    print(f"{len(chosen)} defects: {len(left_out)} named redundant and not explored, {wrong} of the others not as named")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
