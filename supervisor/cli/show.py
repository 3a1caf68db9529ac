"""``show NAME``: one job with its history and its spec; the live uid, else the newest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from supervisor.cli.history import HEAD, documents_of, entries_of
from supervisor.cli.options import Chosen, Name, command, known_name
from supervisor.cli.output import Columns, age, clean, notice, say, say_table
from supervisor.errors import Corrupt, NotFound, SupervisorError

if TYPE_CHECKING:
    from supervisor.model.records import BlobRef, Lease
    from supervisor.observe.listing import JobRow, OneJob
    from supervisor.wiring import Office

QUERIES = Columns(
    ("QUERY", "STATE", "BATCH", "IN/S", "DONE/S", "BATCH MS", "LAG", "LAST SIGN", "ERROR"),
    spare=("LAG", "BATCH MS", "DONE/S"),
)


@command
def show(chosen: Chosen, name: Name) -> int:
    """Show a job: its state and why, where it runs, what happened to it, and its spec.

    Of the live submission of the name, else of the newest. Values in the spec that look like secrets are covered;
    references to secrets are not. What it waits for, and what to do about it, says explain.

    \b
    Examples:
      spark-supervisor show clicks
      spark-supervisor show clicks -o json | jq .progress
    """
    known_name(name)
    settings = chosen.settings()
    from supervisor.observe.listing import read_job
    from supervisor.wiring import open_commands

    with open_commands(settings) as office:
        job = read_job(office.zoo(), office.layout, name) if office.check() is not None else None
        if job is None:
            raise NotFound(f"no job is named {name}: see spark-supervisor list --all")
        document = _document(office, job)
    if chosen.document:
        chosen.say(document)
    else:
        _print(document)
    return 0


def _document(office: Office, job: OneJob) -> dict[str, Any]:
    from supervisor.clock import wall_s
    from supervisor.model import driver_memory
    from supervisor.model.secret import redacted
    from supervisor.model.seen import Found
    from supervisor.model.state import last_exit_of
    from supervisor.observe.queries import queries_of
    from supervisor.observe.start import start_of

    result = job.result.record if isinstance(job.result, Found) else None
    queries, more = queries_of(job, wall_s())
    history = entries_of(job)
    ref = job.ref.spec if job.ref is not None else result.spec if result is not None else None
    spec, why_not = _spec(office, ref)
    ended = last_exit_of(history)
    raised = driver_memory.told(job.ref, job.own) if job.ref is not None and job.own is not None else None
    return {
        **_row(office, job).document(),
        "driver_memory": raised,
        "queries": queries,
        "more_queries": more,
        "stop_mode": job.own.stop_mode if job.own is not None and job.own.uid == job.uid else None,
        "last_exit": None if ended is None else {
            "cause": ended.event, "attempt": ended.attempt, "at": ended.at, "why": ended.detail,
        },
        "start": start_of(job.row),
        "checkpoint_fence": _fence(spec, job.row.lease_of_owner),
        "savepoints": _savepoints(office, job) if spec is not None else None,
        "history": documents_of(history),
        "spec": None if spec is None else redacted(spec),
        "spec_error": why_not,
    }


def _row(office: Office, job: OneJob) -> JobRow:
    """A pending job needs a look at the whole cluster to say why."""
    from supervisor.clock import boottime_s, wall_s
    from supervisor.observe.listing import job_row

    row = job_row(job, wall_s())
    if row.state != "pending":
        return row
    from supervisor.cli.reasons import reasons_of
    from supervisor.model.records import LeaderHint
    from supervisor.observe.observer import Observer
    from supervisor.registry.reading import seen

    zoo = office.zoo()
    view = Observer(zoo, office.layout, boottime_s, epoch=0).take_view(None)
    reasons = reasons_of(view, seen(LeaderHint, zoo.read(office.layout.leader), office.layout.leader))
    return job_row(job, wall_s(), reasons.get(job.row.name))


def _spec(office: Office, ref: BlobRef | None) -> tuple[dict[str, Any] | None, str | None]:
    """The stored spec, or None and why it can't be shown: that must not hide the rest."""
    if ref is None:
        return None, "its records do not say where the spec is"
    try:
        spec = json.loads(office.blobs().read_spec(ref))
        if not isinstance(spec, dict):
            raise Corrupt(f"{ref.key} is no spec")
        return spec, None
    except ValueError:
        return None, f"{ref.key} is not JSON"
    except SupervisorError as error:
        return None, str(error)


def _fence(spec: dict[str, Any] | None, lease: Lease | None) -> str | None:
    """Why the driver that runs has none; else, as far as the spec says, ``auto`` or why not. None: no checkpoint on S3."""
    if lease is not None and lease.not_fenced:
        return f"off: {lease.not_fenced}"
    from supervisor.spark.fence.choice import why_not_wanted

    conf, place = (spec.get(key) for key in ("conf", "checkpoint")) if spec is not None else (None, None)
    if spec is None or not isinstance(conf, dict) or not isinstance(place, str):
        return None
    why = why_not_wanted(place, str(spec.get("checkpoint_fence", "auto")), conf)
    return f"off: {why}" if why else None if why is None else "auto"


def _savepoints(office: Office, job: OneJob) -> dict[str, Any] | None:
    """What the leader makes by itself (spec key ``savepoints``), the newest of them, and when the next is due."""
    from supervisor.settings.units import format_duration
    from supervisor.wiring.savepoints import schedule_of

    terms = job.ref.terms if job.ref is not None else None
    if job.ref is None or terms is None or terms.savepoints is None or terms.checkpoint is None:
        return None
    policy = terms.savepoints
    said: dict[str, Any] = {
        "every": format_duration(policy.every_s), "keep": policy.keep,
        "max_age": None if policy.max_age_s is None else format_duration(policy.max_age_s),
        "newest": None, "next_due_at": None, "problem": None,
    }
    try:
        newest, due_at = schedule_of(office.settings, job.row.name, terms.checkpoint, policy)
    except SupervisorError as error:
        return {**said, "problem": str(error)}
    return {**said, "newest": newest, "next_due_at": due_at}


def _told_savepoints(said: dict[str, Any] | None) -> str | None:
    if said is None:
        return None
    limit = "" if said["max_age"] is None else f", none older than {said['max_age']}"
    what = f"every {said['every']}, the newest {said['keep']} are kept{limit}"
    if said["problem"] is not None:
        return f"{what}; {said['problem']}"
    return f"{what}; newest {said['newest'] or 'none yet'}; next due {said['next_due_at'] or 'now'}, while it runs"


def _print_queries(queries: list[dict[str, Any]], more: int) -> None:
    """Where there is one query only, the progress has said it all, unless there is something wrong with it."""
    if len(queries) + more < 2 and all(query["state"] in ("active", "idle") for query in queries):
        return
    print()
    say_table(QUERIES, [
        (query["query"] or query["id"], query["state"], query["batch_id"], _rounded(query["input_rows_per_s"]),
         _rounded(query["processed_rows_per_s"]), query["batch_ms"], query["lag"], age(query["at"]), query["error"])
        for query in queries
    ])
    if more:
        say(f"and {more} more")


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)


def _print(document: dict[str, Any]) -> None:
    import yaml

    history, spec, why_not = (document.pop(key) for key in ("history", "spec", "spec_error"))
    progress, ended = document.pop("progress"), document.pop("last_exit")
    if ended is not None:
        document["last exit"] = f"{ended['cause']}, attempt {ended['attempt']}, {age(ended['at'])} ago: {ended['why']}"
    phases = document.pop("start") or {}
    document["start"] = ", ".join(f"{phase.removesuffix('_s')} {seconds:.1f} s" for phase, seconds in phases.items()) or None
    document["driver memory"] = document.pop("driver_memory")
    document["stop mode"] = document.pop("stop_mode")
    document["fence"] = document.pop("checkpoint_fence")
    document["savepoints"] = _told_savepoints(document.pop("savepoints"))
    queries, more = document.pop("queries"), document.pop("more_queries")
    for key, value in document.items():
        if value is not None:
            ago = f"  ({age(value)} ago)" if key in ("since", "started_at") else ""
            say(f"{key + ':':<16} {value}{ago}")
    for key, value in (progress or {}).items():
        if value is not None:
            say(f"{'progress ' + key + ':':<31} {value}")
    _print_queries(queries, more)
    print()
    say_table(HEAD, [list(entry.values()) for entry in history])
    print()
    if spec is None:
        notice(f"the spec can't be shown: {why_not}")
        return
    print("spec:")
    for line in yaml.safe_dump(spec, sort_keys=False, allow_unicode=True).splitlines():
        print(f"  {clean(line)}")
