"""Implements the ``savepoint create|list|show|verify|delete|restore`` command: named copies of a checkpoint.

A job can begin again from them.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supervisor.cli.columns import Columns
from supervisor.cli.completion import job_names
from supervisor.cli.options import Chosen, Name, command
from supervisor.cli.output import (
    age,
    local_time,
    notice,
    print_labelled,
    print_line,
    print_table,
    readable_size,
)
from supervisor.cli.progress import progress
from supervisor.cli.sink_options import RolledBack, SinkOption, said_by
from supervisor.clock import wall_iso
from supervisor.errors import InvalidInput, NotFound
from supervisor.model.location import normalise
from supervisor.model.seen import Found
from supervisor.operations.auditing import AskedWrite
from supervisor.operations.checkpoints import Located, is_location, located
from supervisor.operations.context import CommandContext, open_commands
from supervisor.operations.names import known_name
from supervisor.savepoints.begin import back_of_copy
from supervisor.savepoints.deep_verify import open_saved_state, why_bad
from supervisor.savepoints.manifest import Begun, Manifest, checked_id
from supervisor.savepoints.operations import (
    create_savepoint,
    find_savepoint,
    newest,
    require_free,
    restore_to,
    shelf_of,
)
from supervisor.savepoints.restore import verify as verify_savepoint
from supervisor.savepoints.shelf import Shelf, ShelfEntry, next_due_at_s
from supervisor.settings.units import format_duration
from supervisor.spec.s3a import bucket_of

if TYPE_CHECKING:
    from supervisor.settings.file import Settings
    from supervisor.spark.state_reading import OpenedStore

Which = Annotated[
    str | None, typer.Argument(metavar="ID", help="Of the savepoint; else the newest complete one.")
]
MustId = Annotated[str, typer.Argument(metavar="ID", help="Of the savepoint: see savepoint list.")]
NewId = Annotated[
    str | None,
    typer.Argument(metavar="ID", help="Its id; one that is incomplete goes on. Else made from the time."),
]
IdOption = Annotated[str | None, typer.Option("--id", metavar="ID", hidden=True)]
Where = Annotated[
    str,
    typer.Argument(
        metavar="NAME|LOCATION", help="A job, or the location of a savepoint.", autocompletion=job_names
    ),
]
MaybeName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="Of the job; else all savepoints.", autocompletion=job_names),
]
To = Annotated[
    str, typer.Option("--to", metavar="LOCATION", help="Where nothing is yet, like s3a://bucket/path.")
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Also where a restore of it began and never ended, or its records are damaged."
    ),
]
Deep = Annotated[
    bool,
    typer.Option("--deep", help="Also open the state with Spark (of this host) and read every row of it."),
]
JobCode = Annotated[
    bool,
    typer.Option(
        "--job-code", help="With --deep: load the job's jars and packages, and so run its code, as you."
    ),
]
STORES = Columns(("OPERATOR", "NAME", "STORE", "PARTITIONS", "ROWS"))
TABLE = Columns(
    ("NAME", "ID", "STATE", "MADE BY", "AGE", "BATCH", "OBJECTS", "SIZE", "LOCATION"),
    spare=("OBJECTS", "SIZE", "BATCH"),
)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Named, verified copies of a job's checkpoint, from which it can begin again.",
)


@command
def create(
    chosen: Chosen,
    name: Name,
    new: NewId = None,
    deep: Deep = False,
    job_code: JobCode = False,
    old_style: IdOption = None,
) -> int:
    """Copy the checkpoint of a job, at a batch boundary, while it runs on. Returns when the copy is complete and verified.

    On S3 the server copies; nothing passes through this host. Interrupted, it leaves an incomplete savepoint that nobody can
    take for a complete one: the same command with its id goes on, savepoint delete removes it.

    \b
    Examples:
      spark-supervisor savepoint create clicks
      spark-supervisor savepoint create clicks before-upgrade
    """
    _only_deep(deep, job_code)
    settings = chosen.settings()
    wanted = new or old_style
    with open_commands(settings, warn=notice) as context:
        located_checkpoint, uid, attempt = _job(context, known_name(name))
        _write_down(context, "savepoint_create", name, checked_id(wanted) if wanted else "", uid)
    begun_here: list[Begun] = []
    try:
        with progress("copying") as report_progress:
            manifest = create_savepoint(
                settings,
                located_checkpoint,
                name,
                uid,
                attempt,
                wanted,
                begun_here.append,
                report_progress,
            )
    except BaseException:
        if begun_here:
            notice(
                f"savepoint {begun_here[0].id} is incomplete: savepoint create {name} {begun_here[0].id} goes on"
            )
        raise
    document = _document(settings, name, manifest.id)
    stores = _opened(settings, _area(settings, name, manifest.id), manifest, name, job_code) if deep else None
    bad = _bad(stores)
    if chosen.document:
        chosen.print_document({**document, "state_stores": _stores(stores), "problems": bad})
        return 1 if bad else 0
    batches = ", ".join(str(query.batch) for query in manifest.queries)
    print_line(
        f"{name}: savepoint {manifest.id} after batch {batches}: {manifest.objects} objects, {readable_size(manifest.bytes)}"
    )
    _print_stores(stores)
    for problem in bad:
        print_line(f"problem: {problem}")
    return 1 if bad else 0


@command
def show_list(chosen: Chosen, name: MaybeName = None) -> int:
    """List savepoints, oldest first; incomplete ones as such. Those that the leader made by itself are made by schedule.

    \b
    Examples:
      spark-supervisor savepoint list
      spark-supervisor savepoint list clicks -o json | jq '.[] | select(.state == "complete").id'
    """
    shelf = shelf_of(chosen.settings())
    names = shelf.names() if name is None else (known_name(name),)
    found = [document for each in names for document in _of_one(shelf, each)]
    if chosen.document:
        chosen.print_document(found)
        return 0
    if not found:
        notice("no savepoints")
        return 0
    print_table(
        TABLE,
        [
            (
                each["name"],
                each["id"],
                each["state"],
                "schedule" if each["scheduled"] else "user",
                age(each["created_at"] or each["begun_at"]),
                _batches(each),
                each["objects"],
                None if each["bytes"] is None else readable_size(each["bytes"]),
                each["problem"] or each["location"],
            )
            for each in found
        ],
    )
    for each in found:
        if each["next_due_at"] is not None:
            print_line(
                f"{each['name']}: every {each['every']} while it runs; the next is due at {local_time(each['next_due_at'])}"
            )
    return 0


def _of_one(shelf: Shelf, name: str) -> list[dict[str, Any]]:
    """Returns the documents of a job's savepoints. The schedule's newest says when the next one is due."""
    found = sorted(
        shelf.entries(name), key=lambda entry: (entry.begun.at if entry.begun is not None else "", entry.id)
    )
    documents = [_entry(entry) for entry in found]
    last = next((n for n, entry in reversed([*enumerate(found)]) if entry.scheduled and entry.manifest), None)
    if last is not None:
        due_at_s = next_due_at_s(found[last])
        documents[last]["next_due_at"] = None if due_at_s is None else wall_iso(due_at_s)
    return documents


@command
def show(chosen: Chosen, name: Name, which: Which = None) -> int:
    """Show a savepoint: of what, when, how much, where."""
    settings = chosen.settings()
    document = _entry(newest(shelf_of(settings), known_name(name), which))
    if chosen.document:
        chosen.print_document(document)
        return 0
    for label, value in (
        ("savepoint", document["id"]),
        ("job", f"{document['name']} ({document['uid']}, attempt {document['attempt']})"),
        ("state", document["state"]),
        ("made by", f"schedule, every {document['every']}" if document["scheduled"] else "user"),
        ("location", document["location"]),
        ("checkpoint", document["source"]),
        ("begun", document["begun_at"]),
        ("complete", document["created_at"]),
        (
            "objects",
            None
            if document["objects"] is None
            else f"{document['objects']}, {readable_size(document['bytes'])}",
        ),
        ("problem", document["problem"] or None),
    ):
        if value is not None:
            print_labelled(f"{label + ':':<16} ", str(value))
    for query in document["queries"]:
        where = f", in {query['path']}" if query["path"] else ""
        print_line(f"{'query:':<16} {query['id']}, after batch {query['batch']}{where}")
    return 0


@command
def verify(
    chosen: Chosen,
    where: Where,
    which: Which = None,
    deep: Deep = False,
    job_code: JobCode = False,
) -> int:
    """Check that a savepoint is all there, as it was written, and that Spark could go on from it. Exit code 1: it is not.

    With --deep this host's Spark, in a process of its own, opens the state of every operator after the saved batch and reads
    all of it; nothing is written there. That takes as long as Spark takes to start, and to read the state. Nothing of the
    job's code is loaded: state that only its jars or packages can read says so, and --job-code loads them. It needs Spark
    4.0 or newer.

    \b
    Examples:
      spark-supervisor savepoint verify clicks before-upgrade
      spark-supervisor savepoint verify s3a://bucket/store/savepoints/clicks/before-upgrade
    """
    _only_deep(deep, job_code)
    settings = chosen.settings()
    area = _area(settings, where, which)
    verdict = verify_savepoint(area)
    manifest = verdict.manifest
    stores = (
        _opened(settings, area, manifest, manifest.name, job_code) if deep and not verdict.problems else None
    )
    problems = [*verdict.problems, *_bad(stores)]
    if chosen.document:
        chosen.print_document(
            {
                "name": manifest.name,
                "id": manifest.id,
                "location": manifest.location,
                "ok": not problems,
                "problems": problems,
                "state_stores": _stores(stores),
            }
        )
        return 1 if problems else 0
    _print_stores(stores)
    for problem in problems:
        print_line(f"problem: {problem}")
    good = f"whole: {manifest.objects} objects, {readable_size(manifest.bytes)}"
    print_line(f"{manifest.name}: savepoint {manifest.id} is {'damaged' if problems else good}")
    return 1 if problems else 0


@command
def delete(chosen: Chosen, name: Name, savepoint: MustId, force: Force = False) -> int:
    """Delete a savepoint, or what is left of one. Refused while it is being restored, or a job has its checkpoint there.

    Interrupted, it leaves an incomplete savepoint, which can be deleted again.
    """
    settings = chosen.settings()
    shelf, name, savepoint = shelf_of(settings), known_name(name), checked_id(savepoint)
    entry = None if force else shelf.find(name, savepoint)
    with open_commands(settings, warn=notice) as context:
        if entry is not None and entry.begun is not None:
            require_free(context, None, entry.begun.location)
        _write_down(context, "savepoint_delete", name, savepoint)
    with progress("deleting") as report_progress:
        shelf.delete(name, savepoint, force=force, report_progress=report_progress)
    if chosen.document:
        chosen.print_document({"name": name, "id": savepoint, "did": "deleted"})
    else:
        print_line(f"{name}: savepoint {savepoint} deleted")
    return 0


@command
def restore(
    chosen: Chosen,
    where: Where,
    to: To,
    which: Which = None,
    sink: SinkOption = None,
    sink_rolled_back: RolledBack = False,
) -> int:
    """Copy a savepoint to a location where nothing is yet, as a checkpoint. No job is started, and the savepoint stays.

    To begin a job with it, use submit --from-savepoint; for one that is stopped, resume --from-savepoint. Interrupted, the
    same command goes on. It is refused where the sink would skip batches that it has seen; --sink and --sink-rolled-back say
    what only the sink's owner knows.

    \b
    Examples:
      spark-supervisor savepoint restore clicks --to s3a://bucket/checkpoints/clicks-2
      spark-supervisor savepoint restore clicks before-upgrade --to file:///data/checkpoints/clicks-2
    """
    settings = chosen.settings()
    job = None if is_location(where) else known_name(where)
    saved = _area(settings, where, which)
    with open_commands(settings, warn=notice) as context:
        require_free(context, job, to)
        conf = _conf(context, job, to)
        back = back_of_copy(context, job, saved, said_by(sink, sink_rolled_back))
        _write_down(context, "savepoint_restore", job or "", f"{which or where} to {to}")
    with progress("restoring") as report_progress:
        done = restore_to(settings, saved, to, conf, back, report_progress)
    if back.why:
        notice(back.why)
    if job is not None and done.manifest.source == normalise(to):
        notice(f"it is behind what {job} had there: resume {job} --accept-fresh-start starts it")
    did = "restored" if done.did else "was there already"
    if chosen.document:
        manifest = done.manifest
        chosen.print_document(
            {"name": manifest.name, "id": manifest.id, "to": to, "did": did, "objects": manifest.objects}
        )
    else:
        print_line(f"{done.manifest.name}: savepoint {done.manifest.id} {did} at {to}")
    return 0


app.command("create", short_help="Copy the checkpoint of a job while it runs on.")(create)
app.command("list", short_help="List savepoints.")(show_list)
app.command("show", short_help="Show one savepoint.")(show)
app.command("verify", short_help="Say whether a savepoint is whole.")(verify)
app.command("delete", short_help="Delete a savepoint.")(delete)
app.command("restore", short_help="Copy a savepoint to a new location.")(restore)


# -- looking ------------------------------------------------------------------------------------------------------


def _write_down(context: CommandContext, what: str, name: str, detail: str, uid: str = "") -> None:
    """Writes the line of the audit. Raises Unreachable if that is required and impossible."""
    context.auditor.before(AskedWrite(what, name=name, uid=uid, detail=detail))


def _job(context: CommandContext, name: str) -> tuple[Located, str, int]:
    """Returns the checkpoint of a job, its uid and attempt."""
    located_checkpoint, job_records = located(context, name), context.commands.job_records(name)
    own = job_records.own.record if isinstance(job_records.own, Found) else None
    return located_checkpoint, (own.newest_uid or own.uid) if own else "", own.attempt if own else 0


def _conf(context: CommandContext, name: str | None, location: str) -> dict[str, str]:
    """Returns the properties of the job, where they may say where the S3 of ``location`` is."""
    if name is None or bucket_of(normalise(location)) is None:
        return {}
    try:
        return dict(_job(context, name)[0].conf)
    except NotFound:
        return {}


def _area(settings: Settings, where: str, which: str | None) -> Any:
    if not is_location(where):
        return find_savepoint(settings, known_name(where), which, {})
    if which is not None:
        raise InvalidInput("a location names one savepoint: leave out the id")
    return find_savepoint(settings, None, where, {})


def _only_deep(deep: bool, job_code: bool) -> None:
    if job_code and not deep:
        raise InvalidInput("--job-code is for --deep: add that, or leave it out")


def _opened(
    settings: Settings, area: Any, manifest: Manifest, name: str, job_code: bool
) -> tuple[OpenedStore, ...]:
    if sys.stderr.isatty():
        notice("opening the state with Spark ...")
    return open_saved_state(settings, area, manifest, name, job_code=job_code)


def _bad(stores: tuple[OpenedStore, ...] | None) -> list[str]:
    if stores is None:
        return []
    return [why for store in stores if (why := why_bad(store)) is not None]


def _stores(stores: tuple[OpenedStore, ...] | None) -> list[dict[str, Any]] | None:
    return None if stores is None else [asdict(store) for store in stores]


def _print_stores(stores: tuple[OpenedStore, ...] | None) -> None:
    if stores:
        print_table(
            STORES, [(each.operator, each.name, each.store, each.partitions, each.rows) for each in stores]
        )
    elif stores is not None:
        print_line("the queries have no state")


def _document(settings: Settings, name: str, savepoint: str) -> dict[str, Any]:
    return _entry(shelf_of(settings).find(name, savepoint))


def _entry(entry: ShelfEntry) -> dict[str, Any]:
    """Returns the document of one savepoint. A null means: not known, or not yet."""
    begun, manifest = entry.begun, entry.manifest
    return {
        "name": entry.name,
        "id": entry.id,
        "state": entry.stage.value,
        "location": begun.location if begun else None,
        "source": begun.source if begun else None,
        "uid": begun.uid if begun else None,
        "attempt": begun.attempt if begun else None,
        "begun_at": begun.at if begun else None,
        "created_at": manifest.created_at if manifest else None,
        "queries": [
            {"path": query.path, "id": query.id, "batch": query.batch}
            for query in (manifest.queries if manifest else ())
        ],
        "objects": manifest.objects if manifest else None,
        "bytes": manifest.bytes if manifest else None,
        "left_out": manifest.left_out if manifest else None,
        "software": begun.software if begun else None,
        "problem": entry.unknown or None,
        "scheduled": bool(begun and begun.every_s),
        "every": format_duration(begun.every_s) if begun and begun.every_s else None,
        "next_due_at": None,
    }


def _batches(document: dict[str, Any]) -> str:
    return " ".join(str(query["batch"]) for query in document["queries"])
