"""What a run found, in words and numbers. Says nothing about what should have been: that is ``verdict``'s."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.chaos.users import RUNNING, Job, User
from tests.chaos.verdict import Verdict
from tests.chaos.world import ChaosWorld
from tests.faults import checker
from tests.faults.checker import Span

UNKNOWN_CAUSE = "nothing known"


def render(world: ChaosWorld, users: Sequence[User], verdict: Verdict, lasted_s: float) -> str:
    return "\n".join(
        [
            *_head(world, lasted_s),
            *_faults(world, lasted_s),
            *_commands(users),
            *_attempts(verdict),
            *_prepared(world, verdict),
            *_seen_by_attempts(world, verdict),
            *_unavailability(users, verdict),
            *_judgement(verdict),
        ]
    )


def changes_of_leader(world: ChaosWorld) -> int:
    """Terms that began after the first one. Each term has one epoch, so terms too short to be seen are counted, too; an
    accepted restore takes one epoch without being a term."""
    found = world.terms.found
    return (
        max(0, found[-1].epoch - found[0].epoch - world.diary.faults["old ZooKeeper data restored"])
        if found
        else 0
    )


def _head(world: ChaosWorld, lasted_s: float) -> Iterator[str]:
    options = world.options
    changes = changes_of_leader(world)
    yield (
        f"chaos: {lasted_s:.0f} s, seed {options.seed}, {options.kind} ensemble, {options.supervisors} supervisors, "
        f"{options.jobs} jobs"
    )
    yield f"leader changes: {changes} ({changes / lasted_s * 60:.1f} per minute); seen: {len(world.terms.found)} terms"


def _faults(world: ChaosWorld, lasted_s: float) -> Iterator[str]:
    diary = world.diary
    total = sum(diary.faults.values())
    yield f"faults: {total} ({total / lasted_s * 60:.1f} per minute)"
    yield from (
        f"  {count:6}  {kind}" for kind, count in sorted(diary.faults.items(), key=lambda item: -item[1])
    )
    if diary.failed:
        yield f"faults that could not be done (not counted, or in part): {dict(diary.failed)}"
    if world.ended_servers:
        yield f"ZooKeeper servers that ended by themselves, and were started again: {world.ended_servers}"
    yield f"longest time this machine let nobody run: {world.stalls.longest_s:.2f} s"


def _seen_by_attempts(world: ChaosWorld, verdict: Verdict) -> Iterator[str]:
    """How much the rule I6 had to look at: attempts that lived through a change of leader, and those of them at a moment at
    which nothing else could have excused their end."""
    spans = checker.spans(verdict.notes)
    through = clean = 0
    for term in world.terms.found[1:]:
        for span in spans:
            if span.first_at_s < term.seen_at_s < span.last_at_s:
                through += 1
                here = replace(span, last_at_s=term.seen_at_s)
                clean += not any(harm.kind and harm.meets(here, term.seen_at_s) for harm in verdict.harms)
    yield (
        f"attempts that ran through a change of leader (each change counts): {through}; of these with nothing else around that "
        f"could excuse an end: {clean}"
    )


def _commands(users: Sequence[User]) -> Iterator[str]:
    answers = sum((user.answers for user in users), Counter())
    yield f"commands: {sum(answers.values()) - answers['by the command line']}, of these {answers['by the command line']} by the command line"
    yield from (
        f"  {count:6}  {what}" for what, count in sorted(answers.items()) if what != "by the command line"
    )


def _attempts(verdict: Verdict) -> Iterator[str]:
    spans = checker.spans(verdict.notes)
    ended = [span for span in spans if span.last_at_s < verdict.until_at_s]
    causes = Counter(cause_of(span, verdict) for span in ended)
    yield f"attempts: {len(spans)} of {len({span.uid for span in spans})} uids; ended before the end, by the likeliest cause:"
    yield from (f"  {count:6}  {cause}" for cause, count in causes.most_common())


def _prepared(world: ChaosWorld, verdict: Verdict) -> Iterator[str]:
    trees = {(note.uid, note.tree) for note in verdict.notes if note.tree}
    ready = {(note.uid, note.tree) for note in verdict.notes if note.event == "ready"}
    opened = {(note.uid, note.tree) for note in verdict.notes if note.event == "opened"}
    yield (
        f"prepared drivers: {len(trees)}, of these {len(ready)} were ready, and {len(opened)} were handed an attempt and began; "
        f"their shims that were killed while they waited: {len(world.dead_shims)}"
    )


def cause_of(span: Span, verdict: Verdict) -> str:
    """Of several: what is closest to this very attempt, then what came last."""
    found = checker.causes(span, verdict.harms)
    if not found:
        return UNKNOWN_CAUSE
    return max(found, key=lambda harm: (harm.jobs is not None and len(harm.jobs) == 1, harm.begun_at_s)).kind


def _unavailability(users: Sequence[User], verdict: Verdict) -> Iterator[str]:
    spans: dict[str, list[Span]] = defaultdict(list)
    for span in checker.spans(verdict.notes):
        spans[span.uid].append(span)
    starts, gaps, by_cause, wanted_s, away_s = [], [], defaultdict(list), 0.0, 0.0
    for job in (job for user in users for job in user.jobs):
        for begun_at_s, ended_at_s, uid in wanted_times(job, verdict.until_at_s):
            wanted_s += ended_at_s - begun_at_s
            mine = [
                span for span in spans[uid] if span.first_at_s < ended_at_s and span.last_at_s > begun_at_s
            ]
            away_s += (
                ended_at_s
                - begun_at_s
                - sum(min(span.last_at_s, ended_at_s) - max(span.first_at_s, begun_at_s) for span in mine)
            )
            if mine and mine[0].first_at_s > begun_at_s:
                starts.append(mine[0].first_at_s - begun_at_s)
            for old, new in zip(mine, mine[1:], strict=False):
                gap_s = new.first_at_s - old.last_at_s
                gaps.append(gap_s)
                by_cause[cause_of(old, verdict)].append(gap_s)
    yield (
        f"time in which a job was acknowledged as to run: {wanted_s:.0f} job-seconds; of these without a driver: {away_s:.0f} "
        f"({_percent(away_s, wanted_s)})"
    )
    yield f"  acknowledged -> its driver runs:      {distribution(starts)}"
    yield f"  interrupted -> the next driver runs:  {distribution(gaps)}"
    for cause, values in sorted(by_cause.items(), key=lambda item: -len(item[1])):
        yield f"    after {cause + ':':48} {distribution(values)}"


def wanted_times(job: Job, until_at_s: float) -> Iterator[tuple[float, float, str]]:
    """(from, to, uid): when it was acknowledged as to run, with no command under way."""
    begun: tuple[float, str] | None = None
    for stage in job.stages:
        if stage.state == RUNNING and stage.uid is not None:
            begun = begun or (stage.at_s, stage.uid)
        elif begun is not None:
            yield begun[0], stage.at_s, begun[1]
            begun = None
    if begun is not None:
        yield begun[0], until_at_s, begun[1]


def distribution(values: Sequence[float]) -> str:
    if not values:
        return "n=0"
    found = sorted(values)

    def at(share: float) -> float:
        return found[min(len(found) - 1, int(share * len(found)))]

    return f"n={len(found)} p50 {at(0.5):.2f} p90 {at(0.9):.2f} p99 {at(0.99):.2f} max {found[-1]:.2f} s"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"


def _judgement(verdict: Verdict) -> Iterator[str]:
    settled = (
        "never"
        if verdict.settled_s is None
        else f"{verdict.settled_s:.1f} s after the last fault was repaired"
    )
    yield f"all jobs ran again: {settled}"
    yield f"VIOLATIONS: {len(verdict.violations)}"
    yield from (f"  {each}" for each in verdict.violations[:50])
