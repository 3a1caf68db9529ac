"""Many runs: their figures, the replay of one, and the shrinking of one that fails to the shortest story."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.simulation.timed.scenario import Fault, RunPlan, Step, Trouble, plan_of, without
from tests.simulation.timed.world import TimedWorld

SHRINK_MAX = 300
SHOWN_LINES = 120


@dataclass
class Figures:
    """Sums over runs. ``failed``: by seed, the violations."""

    seeds: int = 0
    events: int = 0
    simulated_s: float = 0.0
    began_at_s: float = field(default_factory=time.monotonic)
    cpu_s: float = field(default_factory=time.process_time)
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    failed: dict[int, list[str]] = field(default_factory=dict)
    slowest: tuple[float, int] = (0.0, 0)

    def add(self, plan: RunPlan, world: TimedWorld, took_s: float) -> None:
        self.seeds += 1
        self.events += world.loop.events
        self.simulated_s += world.loop.now_s
        self.counts.update(world.judge.summary())
        self.counts["jobs"] += len(plan.jobs)
        self.faults.update(world.judge.faults)
        self.steps.update(step.act.value for step in plan.steps)
        self.slowest = max(self.slowest, (took_s, plan.seed))
        if world.judge.broken:
            self.failed[plan.seed] = world.judge.broken

    def report(self) -> str:
        took_s, cpu_s = time.monotonic() - self.began_at_s, time.process_time() - self.cpu_s
        counts = self.counts
        lines = [
            f"{self.seeds} seeds in {took_s:.0f} s ({cpu_s:.0f} s of CPU): {self.seeds / took_s:.1f} seeds/s, "
            f"{self.seeds / max(cpu_s, 0.01):.1f} per CPU second; {self.events} events, "
            f"{self.simulated_s / 3600:.1f} simulated hours; slowest seed {self.slowest[1]}: {self.slowest[0]:.1f} s",
            f"{counts['jobs']} jobs, {counts['drivers']} drivers executed, {counts['drivers prepared']} prepared, of these "
            f"{counts['attempts handed over']} handed an attempt, {counts['terms']} terms of leadership, "
            f"{counts['passes']} passes, {counts['renew']} renewals, {sum(self.steps.values())} commands of users",
            "writes: "
            + ", ".join(
                f"{what} {counts[what]}"
                for what in (
                    "submit",
                    "assign",
                    "unassign",
                    "claim",
                    "exit",
                    "refuse",
                    "drain",
                    "revoke",
                    "bury",
                    "cancel",
                    "suspend",
                    "conclude",
                    "clean_up",
                    "accept_registry",
                )
            ),
            f"{sum(self.faults.values())} faults: "
            + ", ".join(f"{what} {count}" for what, count in self.faults.most_common()),
            f"violations: {len(self.failed)}",
        ]
        lines += [f"  seed {seed}: {broken[0]}" for seed, broken in sorted(self.failed.items())]
        return "\n".join(lines)


def run_one(plan: RunPlan, story: list[str] | None = None) -> TimedWorld:
    return TimedWorld(plan, story).run()


def run_many(
    seeds: Iterable[int],
    seconds: float | None,
    print_line: Callable[[str], None] = lambda _text: None,
    also: Fault | None = None,
    small: bool = False,
) -> Figures:
    """``seconds``: begin no new seed after so long. ``also``: as for ``plan_of``. ``small``: skip the others. A collection in the middle of a run would only cost time."""
    figures = Figures()
    reported_at_s = figures.began_at_s
    for seed in seeds:
        if seconds is not None and time.monotonic() - figures.began_at_s >= seconds:
            break
        plan, began_at_s = plan_of(seed, also), time.monotonic()
        if small and not plan.is_small:
            continue
        world = run_one(plan)
        figures.add(plan, world, time.monotonic() - began_at_s)
        if figures.seeds % 20 == 0:
            gc.collect()
        if world.judge.broken:
            print_line(f"seed {seed}: {world.judge.broken[0]}")
        if time.monotonic() - reported_at_s >= 60.0:
            reported_at_s = time.monotonic()
            print_line(figures.report())
    return figures


def kind_of(broken: list[str]) -> str:
    """The invariant that was broken first, to tell one failure from another."""
    return broken[0].split(": ")[1] if broken else ""


def shrink(plan: RunPlan, print_line: Callable[[str], None] = lambda _text: None) -> RunPlan:
    """Drop what happens while the same invariant stays broken: halves first, then one by one; then jobs nobody names."""
    kind = kind_of(run_one(plan).judge.broken)
    if not kind:
        return plan
    runs = 0
    size = max(1, (len(plan.steps) + len(plan.troubles)) // 2)
    while size >= 1 and runs < SHRINK_MAX:
        items: list[Step | Trouble] = [*plan.troubles, *plan.steps]
        shorter = False
        for first in range(0, len(items), size):
            candidate = without(plan, tuple(items[first : first + size]))
            runs += 1
            if kind_of(run_one(candidate).judge.broken) == kind:
                plan, shorter = candidate, True
                print_line(f"{len(plan.steps)} commands, {len(plan.troubles)} faults after {runs} runs")
                break
        if not shorter:
            size //= 2
    return plan


def story_of(plan: RunPlan) -> str:
    """What the plan says, what happened, and what was broken."""
    story: list[str] = []
    world = run_one(plan, story)
    shown = story if len(story) <= SHOWN_LINES else ["...", *story[-SHOWN_LINES:]]
    return "\n".join(
        [
            plan.summary(),
            "",
            *shown,
            "",
            f"hash {world.loop.hash:08x}",
            *(world.judge.broken or ["nothing was broken"]),
        ]
    )


def prepare() -> None:
    """Switching threads is all that the loop does: small stacks."""
    threading.stack_size(512 * 1024)
    gc.disable()
    sys.setswitchinterval(10.0)
