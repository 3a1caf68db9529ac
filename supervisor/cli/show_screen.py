"""Prints ``show NAME`` for a person: state and reason first, then what differs from the usual; with ``--all``
everything.

Called by ``cli.show`` with the document that ``-o json`` prints; nothing is read or decided here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import yaml

from supervisor.cli.capacity_screen import directory_line, usage_line
from supervisor.cli.columns import Columns
from supervisor.cli.history import HEAD, brief, line_of
from supervisor.cli.output import (
    age,
    clean,
    local_time,
    notice,
    print_labelled,
    print_line,
    print_table,
    with_local_times,
)
from supervisor.clock import wall_s
from supervisor.model.headline import headline
from supervisor.model.history import FAILURES
from supervisor.model.phrases import counted
from supervisor.model.query_name import query_name
from supervisor.settings.units import format_duration
from supervisor.spec.job import without_defaults

LABEL = 17
QUERIES = Columns(
    ("QUERY", "STATE", "BATCH", "ROWS/S IN", "ROWS/S DONE", "BATCH MS", "LAG", "LAST SIGN", "ERROR"),
    spare=("ROWS/S DONE", "BATCH MS", "LAG"),
    whole=True,
)


@dataclass(frozen=True)
class LogTail:
    """Holds how the output of the last attempt that failed ends.

    ``command`` prints all of it, where it is.
    """

    attempt: int
    lines: tuple[str, ...]
    command: str


def print_job(document: dict[str, Any], log_tail: LogTail | None, *, every: bool) -> None:
    """Prints the job; with ``every``, also what is unknown or as usual."""
    for label, text in _heading(document):
        _line(label, text)
    for label, value in _everything(document) if every else _telling(document):
        if value or every:
            _line(label, value or "-")
    _print_queries(document["queries"], document["more_queries"], every=every)
    _print_log_tail(log_tail)
    _print_history(document, every=every)
    print()
    sys.stdout.flush()
    _print_spec(document, every=every)


def _line(label: str, text: str) -> None:
    print_labelled(f"{label + ':':<{LABEL}}", with_local_times(text))


def _heading(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "name", str(document["name"])
    yield "state", document["state"] + (f" for {age(document['since'])}" if document["since"] else "")
    yield "reason", document["reason"]


# -- what is worth a line -----------------------------------------------------------------------------------------


def _telling(document: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    yield "wanted", document["desired"] if document["desired"] not in ("running", None) else None
    yield "labels", ", ".join(f"{key}={value}" for key, value in document["labels"].items())
    yield "attempt", _attempt(document)
    yield "host", _host(document)
    yield (
        "next attempt",
        _moment(document["next_attempt_at"]) if is_to_come(document["next_attempt_at"]) else None,
    )
    yield _last_exit_label(document), _last_exit(document, headline)
    yield from _diagnostics(document["diagnostics"])
    yield "last batch", _batch(document["progress"])
    yield "sinks", _sinks(document)
    yield "checkpoint", document["checkpoint"]
    yield "env", document["env_ignored"]
    fence = document["checkpoint_fence"]
    yield "fence", fence if fence != "auto" else None
    yield "class archive", document["class_archive"]
    yield "Spark UI", document.get("spark_ui")  # a server of the version before has none
    yield "user", document["user"]
    yield "limits", document["limits"]
    yield "savepoints", _savepoints(document["savepoints"])
    yield "start", _start(document["start"])
    yield "cluster", _cluster_wait(document["cluster_wait"])
    yield "prepared", _prepared(document["prepared"])
    yield "update", _update(document["update"])
    yield "fork", _fork(document["fork"])
    yield "promotion", _promotion(document["promotion"])
    yield "usage", usage_line(document.get("usage"))
    yield "directory", directory_line(document.get("usage"))
    yield "driver memory", document["driver_memory"]
    yield "stop mode", document["stop_mode"]
    revision = document["revision"]
    yield (
        "uid",
        document["uid"] and document["uid"] + (f", revision {revision}" if revision and revision > 1 else ""),
    )


def _attempt(document: dict[str, Any]) -> str | None:
    if document["attempt"] is None:
        return None
    counts = (("restarts", "restart"), ("failures", "failure"))
    parts = [counted(document[key], word) for key, word in counts if document[key]]
    if document["failures"] > 1:
        parts[-1] += " in a row"
    return ", ".join([str(document["attempt"]), *parts])


def _host(document: dict[str, Any]) -> str | None:
    host, supervisor = document["host"], document["supervisor"]
    if host is None and supervisor is None:
        return None
    where = host or supervisor
    if host and supervisor and host.partition(".")[0] != supervisor and host != supervisor:
        where += f" (supervisor {supervisor})"
    pids = f", driver pid {document['driver_pid']}" if document["driver_pid"] is not None else ""
    began = f", started {age(document['started_at'])} ago" if document["started_at"] else ""
    return f"{where}{pids}{began}"


def _last_exit_label(document: dict[str, Any]) -> str:
    """Returns what the end of the attempt before is called: one that was asked for is no failure."""
    ended = document["last_exit"]
    return "last exit" if ended is not None and ended["cause"] not in FAILURES else "last failure"


def _last_exit(document: dict[str, Any], form: Callable[[str], str]) -> str | None:
    """Returns the end of the attempt before, with its text only if the reason does not say it."""
    ended = document["last_exit"]
    if ended is None:
        return None
    ended_why = "" if is_part_of(ended["why"], document["reason"]) else f": {form(ended['why'])}"
    return f"{ended['cause']}, attempt {ended['attempt']}, {age(ended['at'])} ago{ended_why}"


def _diagnostics(known: dict[str, Any] | None) -> Iterator[tuple[str, str | None]]:
    """Yields where the diagnostics of a silent driver are, and what its memory was before an out-of-memory."""
    path = known and known["path"] and f"attempt {known['attempt']}, {known['host']}:{known['path']}"
    yield "diagnostics", path or None
    memory = known and known["memory"] and f"attempt {known['attempt']}, {known['memory']}"
    yield "memory before", memory or None


def is_part_of(detail: str, reason: str) -> bool:
    """Returns whether ``reason`` holds ``detail``, which may have been cut."""
    return detail.removesuffix("…") in reason


def _batch(progress: dict[str, Any] | None) -> str | None:
    if progress is None or progress["batch_id"] is None:
        return None
    parts = f"{progress['batch_id']}" + (f" of {query_name(progress['query'])}" if progress["query"] else "")
    parts += f", {age(progress['at'])} ago"
    figures = [
        f"{progress[key]:g} {unit}"
        for key, unit in (
            ("input_rows_per_s", "rows/s in"),
            ("processed_rows_per_s", "rows/s done"),
            ("batch_ms", "ms"),
        )
        if progress[key] is not None
    ]
    trigger_interval_s = progress.get("trigger_interval_s")
    figures += [f"a trigger each {format_duration(trigger_interval_s)}"] if trigger_interval_s else []
    figures += [f"lag {progress['lag']:g}"] if progress["lag"] is not None else []
    return parts + (": " + ", ".join(figures) if figures else "")


def _sinks(document: dict[str, Any]) -> str | None:
    """Returns where the driver writes, each sink once."""
    sinks = document.get("sinks") or ()  # a server of the version before has none
    return "; ".join(dict.fromkeys(sink["says"] for sink in sinks)) or None


def _start(phases: dict[str, float] | None) -> str | None:
    parts = [
        f"{phase.removesuffix('_s').replace('_', ' ')} {took_s:.1f} s"
        for phase, took_s in (phases or {}).items()
    ]
    return ", ".join(parts) or None


def _cluster_wait(wait: dict[str, Any] | None) -> str | None:
    if wait is None:
        return None
    of = f"cluster {wait['cluster']}" if wait["cluster"] else "its cluster"
    who = f" as {wait['application']}" if wait["application"] else ""
    says = f": {wait['says']}" if wait["says"] else ""
    return f"waiting for executors of {of} for {age(wait['since'])}{who}{says}"


def _prepared(drivers: list[dict[str, Any]]) -> str | None:
    def how(driver: dict[str, Any]) -> str:
        if driver["why"]:
            return f"none on {driver['host']}: {driver['why']}"
        if not driver["ready"]:
            return f"is being prepared on {driver['host']}"
        since = f" for {age(driver['ready_at'])}" if driver["ready_at"] else ""
        lacks = f"; {driver['lacks']}" if driver.get("lacks") else ""
        return f"ready on {driver['host']}{since} ({driver['level']}{lacks})"

    return "; ".join(map(how, drivers)) or None


def _fork(fork: dict[str, Any] | None) -> str | None:
    if fork is None:
        return None
    copied = ", which is being copied: it is not started before" if fork["copying"] else ""
    return f"of {fork['of']}, from its savepoint {fork['savepoint']}{copied}"


def _promotion(promotion: dict[str, Any] | None) -> str | None:
    if promotion is None:
        return None
    who = f"{age(promotion['at'])} ago by {promotion['by']}"
    if promotion["state"] == "done":
        return f"it has the place of {promotion['over']} ({who})"
    return f"it is to take the place of {promotion['over']}, which runs on until then ({who})"


def _update(update: dict[str, Any] | None) -> str | None:
    if update is None:
        return None
    who = f"{age(update['at'])} ago by {update['by']}"
    if update["state"] == "failed":
        return (
            f"to revision {update['target']}, given up: {update['why']}; {update['stable']} goes on ({who})"
        )
    if update["state"] == "broken":
        return f"from revision {update['stable']} to {update['target']}: {update['why']} ({who})"
    if update["state"] == "rolled_back":
        return f"to revision {update['target']}, rolled back: {update['why']}; {update['stable']} runs again ({who})"
    return f"from revision {update['stable']} to {update['target']}: {update['state']} ({who})"


def _savepoints(ended_why: dict[str, Any] | None) -> str | None:
    if ended_why is None:
        return None
    limit = "" if ended_why["max_age"] is None else f", none older than {ended_why['max_age']}"
    what = f"every {ended_why['every']}, the newest {ended_why['keep']} are kept{limit}"
    if ended_why["problem"] is not None:
        return f"{what}; {ended_why['problem']}"
    due = local_time(ended_why["next_due_at"]) if ended_why["next_due_at"] else "now"
    return f"{what}; newest {ended_why['newest'] or 'none yet'}; next due {due}, while it runs"


def _moment(iso: str | None) -> str | None:
    if iso is None:
        return None
    return f"{local_time(iso)} ({f'in {age(iso)}' if is_to_come(iso) else f'{age(iso)} ago'})"


def is_to_come(iso: str | None) -> bool:
    return iso is not None and datetime.fromisoformat(iso).timestamp() > wall_s()


# -- everything ---------------------------------------------------------------------------------------------------


def _everything(document: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yields each key of the document, in its order, that is not above or below."""
    for key in ("uid", "revision", "desired", "attempt", "supervisor", "host", "driver_pid", "shim_pid"):
        yield key.replace("_", " "), _text(document[key])
    for key in ("started_at", "since"):
        at = document[key]
        yield key.replace("_", " "), f"{local_time(at)} ({age(at)} ago)" if at else None
    for key in ("restarts", "failures"):
        yield key, _text(document[key])
    yield "next attempt", _moment(document["next_attempt_at"])
    yield "checkpoint", document["checkpoint"]
    progress = document["progress"] or {}
    yield "last batch", _batch(progress or None)
    yield "sinks", _sinks(document)
    yield _last_exit_label(document), _last_exit(document, str)
    yield from _diagnostics(document["diagnostics"])
    yield "start", _start(document["start"])
    yield "cluster wait", _cluster_wait(document["cluster_wait"])
    yield "prepared", _prepared(document["prepared"])
    yield "update", _update(document["update"])
    yield "fork", _fork(document["fork"])
    yield "promotion", _promotion(document["promotion"])
    yield "starts cold", document["starts_cold"]
    yield "prepare", document["prepare_lowered"]
    yield "env", document["env_ignored"]
    yield "fence", document["checkpoint_fence"]
    yield "class archive", document["class_archive"]
    yield "Spark UI", document.get("spark_ui")  # a server of the version before has none
    yield "user", document["user"]
    yield "limits", document["limits"]
    yield "savepoints", _savepoints(document["savepoints"])
    yield "usage", usage_line(document.get("usage"))
    yield "directory", directory_line(document.get("usage"))
    yield "driver memory", document["driver_memory"]
    yield "stop mode", document["stop_mode"]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


# -- tables and blocks --------------------------------------------------------------------------------------------


def _print_queries(queries: list[dict[str, Any]], more: int, *, every: bool) -> None:
    """Prints the queries.

    A single one is left out unless something is wrong with it: the last batch has said it all.
    """
    if not queries:
        return
    if (
        not every
        and len(queries) + more < 2
        and all(query["state"] in ("active", "idle") for query in queries)
    ):
        return
    print()
    sys.stdout.flush()
    print_table(
        QUERIES,
        [
            (
                query_name(query["query"], query["id"]),
                query["state"],
                query["batch_id"],
                _rounded(query["input_rows_per_s"]),
                _rounded(query["processed_rows_per_s"]),
                _whole(query["batch_ms"]),
                _whole(query["lag"]),
                age(query["at"]) if query["at"] else None,
                query["error"],
            )
            for query in queries
        ],
    )
    if more:
        print_line(f"and {more} more, for which its lease has no room")


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)


def _whole(number: float | None) -> int | float | None:
    """Returns ``320`` for ``320.0``: milliseconds and records are counted."""
    return int(number) if number is not None and number.is_integer() else number


def _print_log_tail(log_tail: LogTail | None) -> None:
    if log_tail is None:
        return
    print()
    if not log_tail.lines:
        print_labelled(f"{'output:':<{LABEL}}", log_tail.command)
        return
    print_line(f"output of attempt {log_tail.attempt}, the end ({log_tail.command}):")
    for line in log_tail.lines:
        print(f"  {clean(line)}")


def _print_history(document: dict[str, Any], *, every: bool) -> None:
    history = document["history"]
    parts = history if every else brief(history)
    if not parts:
        return
    print()
    sys.stdout.flush()
    print_table(HEAD, [_row(entry, document) for entry in parts])
    if len(parts) < len(history):
        print_line(
            f"{len(history) - len(parts)} older entries are left out: spark-supervisor history {document['name']}"
        )


def _row(entry: dict[str, Any], document: dict[str, Any]) -> list[Any]:
    """Returns the row of an entry; it does not repeat the failure that the lines above tell."""
    ended = document["last_exit"]
    last = ended is not None and (ended["at"], ended["cause"]) == (entry["at"], entry["event"])
    return line_of({**entry, "detail": "(above)"} if last and entry["detail"] else entry)


def _print_spec(document: dict[str, Any], *, every: bool) -> None:
    spec = document["spec"]
    if spec is None:
        notice(f"the spec can't be shown: {document['spec_error']}")
        return
    if not every:
        spec = without_defaults(spec)
    print("spec:" if every else "spec, without defaults (--all has them):")
    for line in yaml.safe_dump(spec, sort_keys=False, allow_unicode=True).splitlines():
        print(f"  {clean(line)}")
