"""``show NAME``: one job with its history and its spec; the live uid, else the newest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from supervisor.cli.options import Chosen, Name, command, known_name
from supervisor.cli.output import age, clean, notice, say, say_json, say_table
from supervisor.errors import Corrupt, NotFound, SupervisorError

if TYPE_CHECKING:
    from supervisor.model.records import BlobRef
    from supervisor.observe.listing import JobRow, OneJob
    from supervisor.wiring import Office


@command
def show(chosen: Chosen, name: Name) -> int:
    """Show a job: its state and why, where it runs, what happened to it, and its spec."""
    known_name(name)
    settings = chosen.settings()
    from supervisor.observe.listing import read_job
    from supervisor.wiring import open_commands

    with open_commands(settings) as office:
        job = read_job(office.zoo(), office.layout, name) if office.check() is not None else None
        if job is None:
            raise NotFound(f"no job is named {name}: see spark-supervisor list --all")
        document = _document(office, job)
    if chosen.json:
        say_json(document)
    else:
        _print(document)
    return 0


def _document(office: Office, job: OneJob) -> dict[str, Any]:
    from supervisor.model.seen import Found
    from supervisor.model.state import history_of

    result = job.result.record if isinstance(job.result, Found) else None
    history = history_of(job.ref, job.own, result, job.uid)
    ref = job.ref.spec if job.ref is not None else result.spec if result is not None else None
    spec, why_not = _spec(office, ref)
    return {
        **_row(office, job).document(),
        "history": [
            {"at": entry.at, "event": entry.event, "attempt": entry.attempt or None, "detail": entry.detail}
            for entry in history
        ],
        "spec": spec,
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
    from supervisor.observe.observer import Observer

    zoo = office.zoo()
    view = Observer(zoo, office.layout, boottime_s, epoch=0).take_view(None)
    reasons = reasons_of(view, has_leader=zoo.read(office.layout.leader) is not None)
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


def _print(document: dict[str, Any]) -> None:
    import yaml

    history, spec, why_not = (document.pop(key) for key in ("history", "spec", "spec_error"))
    progress = document.pop("progress")
    for key, value in document.items():
        if value is not None:
            ago = f"  ({age(value)} ago)" if key in ("since", "started_at") else ""
            say(f"{key + ':':<16} {value}{ago}")
    for key, value in (progress or {}).items():
        if value is not None:
            say(f"{'progress ' + key + ':':<31} {value}")
    print()
    say_table(("AT", "EVENT", "ATTEMPT", "DETAIL"), [list(entry.values()) for entry in history])
    print()
    if spec is None:
        notice(f"the spec can't be shown: {why_not}")
        return
    print("spec:")
    for line in yaml.safe_dump(spec, sort_keys=False, allow_unicode=True).splitlines():
        print(f"  {clean(line)}")
