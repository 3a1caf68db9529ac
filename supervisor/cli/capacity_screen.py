"""Prints what a driver takes and what it could bear, for ``explain --capacity`` and a line of ``show``.

It is given the document that ``-o json`` prints; nothing is read or decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from supervisor.cli.output import readable_size, span
from supervisor.model.capacity import FACTOR_ASKED, OBSERVED_LEAST_S, times_text
from supervisor.model.query_name import query_name

MEASURED = {
    "cgroup": "by its cgroup, without the cache that the kernel gives back",
    "pss": "a page that its processes share counts once",
    "rss": "a page that its processes share may count for each of them",
}


def usage_line(usage: dict[str, Any] | None) -> str | None:
    """Returns in one line what the attempt takes, or took."""
    if usage is None:
        return None
    parts, memory = [], usage["memory"]
    if memory is not None:
        parts.append(f"{_of(memory['peak'], memory['reserved'])} of memory at its peak")
        if usage["alive"]:
            parts.append(f"{readable_size(memory['now'])} now")
    if usage["cores"] is not None and usage["alive"]:
        parts.append(f"{usage['cores']:.2f} processors busy")
    parts += [_share(query) for query in usage["queries"][:1]]
    return ", ".join(parts) or None


def directory_line(usage: dict[str, Any] | None) -> str | None:
    """Returns in one line what the job has in its working directory, where that is on its host alone."""
    use = None if usage is None else usage.get("directory")  # a server of the version before has none
    return None if use is None else f"{use['says']}; in {use['path']}, on its host alone"


def capacity_lines(usage: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yields (label, text) of the judgement, with its arithmetic."""
    if usage is None:
        yield "capacity", "nothing was measured of it yet: its host measures a driver from its start on"
        return
    if not usage["alive"]:
        yield "attempt", f"{usage['attempt']}, which has ended: this is what it took"
    if usage["memory"] is not None:
        yield from _memory(usage["memory"])
    if usage["cores"] is not None:
        often = (
            ""
            if usage["cores_p95"] is None
            else f", no more than {usage['cores_p95']:.2f} for 95 % of the time"
        )
        yield "processors", f"{usage['cores']:.2f} busy{often}"
    for query in usage["queries"]:
        yield from _query(query)


def _memory(memory: dict[str, Any]) -> Iterator[tuple[str, str]]:
    share = "" if memory["share"] is None else f", {memory['share']:.0%}"
    yield (
        "memory",
        f"uses {_of(memory['peak'], memory['reserved'])} at its peak{share}; {readable_size(memory['now'])} now",
    )
    half, most, nearly = (readable_size(memory[key]) for key in ("p50", "p95", "p99"))
    how = MEASURED.get(memory["source"], memory["source"])
    yield "", f"below {half} for half of the time, {most} for 95 %, {nearly} for 99 %; {how}"
    yield "could run", f"with {readable_size(memory['could_run_with'])}: {memory['arithmetic']}"
    if memory["heap_fitting"] is not None:
        heap, fitting = readable_size(memory["heap"]), readable_size(memory["heap_fitting"])
        yield (
            "",
            f"its heap of {heap} lets the JVM take more than that: lower spark.driver.memory to {fitting} with it",
        )
    if memory["is_early"]:
        seen, least = span(memory["observed_s"]), span(OBSERVED_LEAST_S)
        yield (
            "",
            f"measured for {seen} only: wait for {least} at least, and for its busiest hour, before going by it",
        )


def _query(query: dict[str, Any]) -> Iterator[tuple[str, str]]:
    times = (
        f"{query['batch_ms_p50'] / 1000:.3g} s at the median, {query['batch_ms_p95'] / 1000:.3g} s at 95 %"
    )
    arriving = "" if query["input_rows_per_s"] is None else f"; {query['input_rows_per_s']:.5g} rows/s arrive"
    yield "query", f"{query_name(query['query'])}: a batch takes {times}{_beside(query)}{arriving}"
    if query["falls_behind_at"] is not None:
        yield "", f"at {FACTOR_ASKED:g} times the input {_at_twice(query)}"
        yield "could bear", _could_bear(query)
    for sentence in query["arithmetic"]:
        yield "", sentence


def _could_bear(query: dict[str, Any]) -> str:
    at_least = " at least" if query["at_least"] else ""
    behind = f"falls behind for good above {times_text(query['falls_behind_at'])} the input{at_least}"
    if query["misses_trigger_at"] is None:
        return behind
    return (
        f"keeps to its trigger up to {times_text(query['misses_trigger_at'])} the input{at_least}; {behind}"
    )


def _at_twice(query: dict[str, Any]) -> str:
    took_s, trigger_s = query["batch_s_at_twice"], query["trigger_s"]
    if took_s is None:
        return "it might fall behind" if query["at_least"] else "it would fall behind"
    if trigger_s is None:
        return "it would keep up"
    at_most = "at most " if query["at_least"] else ""
    late = (
        ", and keep to its trigger"
        if took_s <= trigger_s
        else ": later than its trigger, but it would keep up"
    )
    return f"a batch would take {at_most}{took_s:.3g} s of {trigger_s:g} s{late}"


def _beside(query: dict[str, Any]) -> str:
    if query["share_of_trigger"] is None:
        return "; its trigger is not known, or has no interval"
    return f", {query['share_of_trigger']:.0%} of its trigger of {query['trigger_s']:g} s"


def _share(query: dict[str, Any]) -> str:
    if query["share_of_trigger"] is None:
        return f"half of the batches below {query['batch_ms_p50'] / 1000:.3g} s"
    below = f"95 % of the batches below {query['batch_ms_p95'] / 1000:.3g} s"
    return f"{below}, {query['share_of_trigger']:.0%} of their trigger"


def _of(size: int, reserved: int) -> str:
    """Returns ``1.4 GiB of 4.0 GiB``."""
    return f"{readable_size(size)} of {readable_size(reserved)}" if reserved else readable_size(size)
