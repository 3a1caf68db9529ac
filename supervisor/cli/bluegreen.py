"""Implements ``fork``, ``compare`` and ``promote``: a second job beside the first, which takes its place if it proves
good. ``bluegreen`` carries them out."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from supervisor.bluegreen.compare import Comparison, JobProgress, QueryOrder, compare_jobs
from supervisor.bluegreen.fork import Forked, ForkWish, PlannedFork
from supervisor.bluegreen.fork import fork as fork_job
from supervisor.bluegreen.promote import PromoteWish, undo
from supervisor.bluegreen.promote import promote as promote_job
from supervisor.checkpoint.offset_order import OffsetOrder
from supervisor.cli.apply import SetKey
from supervisor.cli.completion import job_names
from supervisor.cli.narrator import Narrator
from supervisor.cli.options import Chosen, Name, SignWith, command, seconds
from supervisor.cli.output import notice, print_line, print_table
from supervisor.cli.progress import progress
from supervisor.cli.sink_options import RolledBack, SinkOption, said_by
from supervisor.errors import InvalidInput
from supervisor.model.query_name import query_name
from supervisor.operations.context import CommandContext, open_commands, require_submitted
from supervisor.operations.jobs import Did, Done
from supervisor.operations.names import known_name

NewName = Annotated[str, typer.Argument(metavar="NEW", help="Name of the fork.")]
OtherName = Annotated[
    str, typer.Argument(metavar="NEW", help="The job that is looked at.", autocompletion=job_names)
]
FromSavepoint = Annotated[
    str | None,
    typer.Option(
        "--from-savepoint", metavar="ID", help="Begin with this savepoint of NAME, not with a new one."
    ),
]
SharedSink = Annotated[
    bool, typer.Option("--shared-sink", help="Also if both write to the same sink, which takes that.")
]
Suspended = Annotated[bool, typer.Option("--suspended", help="Do not start it; resume does.")]
Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NEW", help="The fork; with --undo: the other job, then the fork.", autocompletion=job_names
    ),
]
Over = Annotated[
    str | None,
    typer.Option("--over", metavar="NAME", help="The job whose place it takes.", autocompletion=job_names),
]
Undo = Annotated[
    bool,
    typer.Option("--undo", help="Run NAME again and suspend NEW; or withdraw what has not come about yet."),
]
WaitTime = Annotated[
    str,
    typer.Option(
        "--timeout", metavar="TIME", help="Longest wait, and longest hook (10m at most); then exit code 7."
    ),
]
Hook = Annotated[
    str | None,
    typer.Option(
        "--hook", metavar="COMMAND", help="Run here right before, by sh; it may run more than once."
    ),
]
PARTS_SHOWN = 20


class When(StrEnum):
    """Says when a job may take the place of another."""

    CAUGHT_UP = "caught-up"
    NOW = "now"


WhenOption = Annotated[
    When, typer.Option("--when", help="Once it has read all that NAME has read by now, or at once.")
]


@command
def fork(
    chosen: Chosen,
    name: Name,
    new: NewName,
    set_key: SetKey = None,
    from_savepoint: FromSavepoint = None,
    shared_sink: SharedSink = False,
    suspended: Suspended = False,
    sink: SinkOption = None,
    sink_rolled_back: RolledBack = False,
    sign_with: SignWith = None,
) -> int:
    """Run a second job beside a running one, from a copy of its checkpoint.

    NEW has the spec of NAME, with the changes of --set, and a checkpoint of its own: a savepoint of NAME is made now
    and copied beside it (--set checkpoint=LOCATION: there). It must write elsewhere: {job} in args is the name of the
    job, so it may name the sink's place; else give another one with --set. Interrupted, the same command goes on.

    \b
    Examples:
      spark-supervisor fork clicks clicks-2
      spark-supervisor fork clicks clicks-2 --set application=clicks2.py --set conf.spark.sql.shuffle.partitions=8
    """
    wish = ForkWish(
        name=known_name(name),
        new=known_name(new),
        changes=tuple(set_key or ()),
        savepoint=from_savepoint,
        shared_sink=shared_sink,
        suspended=suspended,
        sign_with=sign_with,
        said=said_by(sink, sink_rolled_back),
    )
    begun: list[PlannedFork] = []

    def begins(planned: PlannedFork) -> None:
        begun.append(planned)
        notice(f"{new}: copying savepoint {planned.savepoint} of {name} to {planned.location}")

    with open_commands(chosen.settings(), warn=notice) as context:
        try:
            with progress("copying") as report_progress:
                forked = fork_job(context, wish, begins, report_progress)
        except BaseException:
            if begun:
                notice(
                    f"{new} is registered, and is not started before its copy is complete: the same command goes on; "
                    f"cancel {new} gives it up, and what is at {begun[0].location} can be removed then"
                )
            raise
    _print_forked(chosen, wish, forked)
    return 0


def _print_forked(chosen: Chosen, wish: ForkWish, forked: Forked) -> None:
    done, planned = forked.done, forked.planned
    if chosen.document:
        chosen.print_document(
            {
                "name": done.name,
                "uid": done.uid,
                "did": done.did.value,
                "of": wish.name,
                "savepoint": planned.savepoint,
                "checkpoint": planned.location,
            }
        )
        return
    print_line(
        f"{done.name}: {done.did.value} ({done.uid}), from savepoint {planned.savepoint} of {wish.name}"
    )
    if forked.manifest is not None:
        notice(
            f"compare {wish.name} {wish.new} says how far it is; promote {wish.new} --over {wish.name} gives it the place"
        )


# -- compare --------------------------------------------------------------------------------------------------------


@command
def compare(chosen: Chosen, name: Name, new: OtherName) -> int:
    """Say how far a fork is, beside the job that it is of: committed offsets, lag, speed, rows of state.

    Offsets are compared by source, of Kafka by partition, of files one by one. behind: NEW has yet to commit
    something that NAME has; ahead: it has all of it, and more.

    \b
    Examples:
      spark-supervisor compare clicks clicks-2
      spark-supervisor compare clicks clicks-2 -o json | jq -r .order
    """
    with open_commands(chosen.settings(), warn=notice) as context:
        found = compare_jobs(context, known_name(name), known_name(new))
    if chosen.document:
        chosen.print_document(_document(found, name, new))
        return 0
    print_table(("", name, new), _side_by_side(found))
    print_line("")
    if found.problem:
        print_line(f"offsets: not compared: {found.problem}")
        return 0
    for query in found.queries:
        _print_query(query, name, new)
    print_line(f"{new} is {_verdict(found.order, name)}")
    return 0


def _verdict(order: OffsetOrder, name: str) -> str:
    return {
        OffsetOrder.BEHIND: f"behind {name}",
        OffsetOrder.EQUAL: f"as far as {name}",
        OffsetOrder.AHEAD: f"ahead of {name}",
        OffsetOrder.UNORDERED: f"not to be compared with {name} by its offsets",
    }[order]


def _side_by_side(found: Comparison) -> list[tuple[Any, ...]]:
    pair = (found.old, found.new)
    rows: list[tuple[Any, ...]] = [
        ("state", *(each.row.state for each in pair)),
        ("checkpoint", *(each.row.checkpoint for each in pair)),
    ]
    for identity in dict.fromkeys(query["id"] for each in pair for query in each.queries):
        queries = [next((q for q in each.queries if q["id"] == identity), None) for each in pair]
        label = next((q["query"] for q in queries if q is not None and q["query"]), identity)
        rows.append(
            (f"query {query_name(label, identity)}", *(None if q is None else q["state"] for q in queries))
        )
        for key, text in (
            ("batch_id", "batch"),
            ("lag", "lag"),
            ("batch_ms", "batch ms"),
            ("input_rows_per_s", "rows/s in"),
            ("processed_rows_per_s", "rows/s done"),
            ("state_rows", "state rows"),
        ):
            values = [None if q is None or q[key] is None else round(q[key], 1) for q in queries]
            if values != [None, None]:
                rows.append((f"  {text}", *(int(v) if v is not None and v == int(v) else v for v in values)))
    return rows


def _print_query(query: QueryOrder, name: str, new: str) -> None:
    if query.new_batch is None:
        print_line(f"query {query.id}: {new} has none of this id, so it does not go on from {name}")
        return
    rows = [
        (source.source, source.kind.value, part.part or "-", part.old, part.new, part.order.value)
        for source in query.sources
        for part in source.parts
    ]
    behind = [row for row in rows if row[-1] in (OffsetOrder.BEHIND.value, OffsetOrder.UNORDERED.value)]
    shown = rows if len(rows) <= PARTS_SHOWN else behind[:PARTS_SHOWN]
    print_line(
        f"query {query.id}: committed batch {query.old_batch} and {query.new_batch}, {query.order.value}"
    )
    if shown:
        print_table(("SOURCE", "KIND", "PART", name, new, "ORDER"), shown)
    if len(shown) < len(rows):
        print_line(f"and {len(rows) - len(shown)} more parts ({len(behind)} in all are behind)")


def _document(found: Comparison, name: str, new: str) -> dict[str, Any]:
    return {
        "name": name,
        "new": new,
        "order": None if found.problem else found.order.value,
        "problem": found.problem or None,
        "offsets": [
            {
                "query": query.id,
                "order": query.order.value,
                "batch": query.old_batch,
                "new_batch": query.new_batch,
                "sources": [
                    {
                        "source": source.source,
                        "kind": source.kind.value,
                        "order": source.order.value,
                        "parts": [
                            {
                                "part": part.part,
                                "offset": part.old,
                                "new_offset": part.new,
                                "order": part.order.value,
                            }
                            for part in source.parts
                        ],
                    }
                    for source in query.sources
                ],
            }
            for query in found.queries
        ],
        "jobs": {each_name: _job(each) for each_name, each in ((name, found.old), (new, found.new))},
    }


def _job(each: JobProgress) -> dict[str, Any]:
    row = each.row
    return {"state": row.state, "reason": row.reason, "checkpoint": row.checkpoint, "queries": each.queries}


# -- promote --------------------------------------------------------------------------------------------------------


@command
def promote(
    chosen: Chosen,
    names: Names,
    over: Over = None,
    undo_it: Undo = False,
    when: WhenOption = When.CAUGHT_UP,
    hook: Hook = None,
    timeout: WaitTime = "1h",
    sink: SinkOption = None,
    sink_rolled_back: RolledBack = False,
) -> int:
    """Let a fork take the place of a job, which is suspended: in one write, once the fork has caught up.

    It waits until NEW has committed all that NAME had committed when the command was given, runs the hook (an alias,
    a view), and then suspends NAME, unless NEW has failed meanwhile. Until then nothing happens to NAME, whatever
    fails. Interrupted, the same command goes on. --undo runs NAME again and suspends NEW; it is refused where a sink to
    which both write would skip batches of NAME. --sink and --sink-rolled-back say what only the sink's owner knows.

    The hook finds SPARK_SUPERVISOR_HOOK (promote or undo), _HOOK_NEW, _HOOK_NEW_UID, _HOOK_OVER and _HOOK_OVER_UID in
    its environment. If it fails, no job is changed.

    \b
    Examples:
      spark-supervisor promote clicks-2 --over clicks --hook ./point-view-to-clicks-2.sh
      spark-supervisor promote clicks-2 --over clicks --when now
      spark-supervisor promote --undo clicks clicks-2 --hook ./point-view-to-clicks.sh
    """
    new, other = _pair(names, over, undo_it=undo_it)
    wish = PromoteWish(
        new=new,
        over=other,
        caught_up=when is When.CAUGHT_UP,
        timeout_s=seconds("--timeout", timeout),
        hook=hook or "",
        said=said_by(sink, sink_rolled_back, goes_back=undo_it),
    )
    with open_commands(chosen.settings(), warn=notice) as context:
        require_submitted(context, new)
        if undo_it:
            _print_done(chosen, undo(context, wish, notice), other)
        else:
            _promote(chosen, context, wish)
    return 0


def _pair(names: list[str], over: str | None, *, undo_it: bool) -> tuple[str, str]:
    """Returns the new and the other job."""
    if undo_it:
        if over is not None or len(names) != 2:
            raise InvalidInput("--undo takes both names: promote --undo NAME NEW")
        return known_name(names[1]), known_name(names[0])
    if over is None or len(names) != 1:
        raise InvalidInput("say whose place is taken: promote NEW --over NAME")
    return known_name(names[0]), known_name(over)


def _promote(chosen: Chosen, context: CommandContext, wish: PromoteWish) -> None:
    said: list[str] = []

    def publish(sentence: str) -> None:
        said.append(sentence)
        notice(sentence)

    try:
        with Narrator(1, "promoted") as narrator:
            done = promote_job(context, wish, narrator, publish)
    except BaseException:
        if said:
            notice(
                f"{wish.new} is still to be promoted over {wish.over}: the same command goes on; promote --undo {wish.over} "
                f"{wish.new} withdraws that"
            )
        raise
    _print_done(chosen, done, wish.over)


def _print_done(chosen: Chosen, done: Done, over: str) -> None:
    if chosen.document:
        chosen.print_document({"name": done.name, "uid": done.uid, "did": done.did.value, "over": over})
        return
    then = {
        Did.PROMOTED: f"; {over} is suspended, and promote --undo {over} {done.name} runs it again",
        Did.UNDONE: f"; {over} runs again, and {done.name} is suspended",
    }.get(done.did, "")
    where = f" over {over}" if done.did in (Did.PROMOTED, Did.ALREADY_PROMOTED) else ""
    print_line(f"{done.name}: {done.did.value}{where} ({done.uid}){then}")
