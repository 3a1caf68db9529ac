"""Implements the ``checkpoint show|verify NAME|LOCATION`` command: prints what is in a checkpoint, and whether
Spark can go on from it.

It changes nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supervisor.checkpoint.layout import in_words
from supervisor.cli.columns import Columns
from supervisor.cli.completion import job_names
from supervisor.cli.options import Chosen, command
from supervisor.cli.output import age, local_time, print_labelled, print_line, print_table, readable_size
from supervisor.cli.progress import counting
from supervisor.clock import wall_iso
from supervisor.errors import InvalidInput
from supervisor.operations.checkpoints import (
    Located,
    inspect_checkpoint,
    is_location,
    located,
    verify_checkpoint,
)
from supervisor.operations.context import open_commands
from supervisor.operations.names import known_name
from supervisor.settings.file import PATH_VARIABLE, Settings

if TYPE_CHECKING:
    from supervisor.checkpoint.findings import CheckpointFinding
    from supervisor.checkpoint.picture import Amount, Checkpoint, Log, Query, StateOperator
Where = Annotated[
    str,
    typer.Argument(
        metavar="NAME|LOCATION", help="A job, or a location like s3a://bucket/path.", autocompletion=job_names
    ),
]
OPERATORS = Columns(("OPERATOR", "NAME", "STORES", "PARTITIONS", "FORMAT", "FILES", "OBJECTS", "SIZE"))

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look at a checkpoint: what is in it, and can Spark go on from it?",
)


@command
def show(chosen: Chosen, where: Where) -> int:
    """Show what is in a checkpoint: its queries, how far they are, their state. May be done while the job runs.

    \b
    Examples:
      spark-supervisor checkpoint show clicks
      spark-supervisor checkpoint show s3a://bucket/checkpoints/clicks -o json
    """
    settings, checkpoint = _located(chosen, where)
    with counting() as report_progress:
        seen = inspect_checkpoint(settings, checkpoint, report_progress)
    if chosen.document:
        chosen.print_document(document_of(seen))
        return 0
    _print(seen)
    return 0


@command
def verify(chosen: Chosen, where: Where) -> int:
    """Check whether Spark can go on from a checkpoint, and say what is wrong and what can be done about it.

    The logs must be whole at their end, the query id known, and each partition's state there in the version that a start
    would load; checksums are compared where there are any. Of a job, the queries and batches that it is known to have
    committed must be there. Exit code 0: good; 1: problems. May be done while the job runs.

    \b
    Examples:
      spark-supervisor checkpoint verify clicks
      spark-supervisor checkpoint verify file:///data/checkpoints/clicks -o json | jq '.findings[].code'
    """
    settings, checkpoint = _located(chosen, where)
    with counting() as report_progress:
        seen, findings = verify_checkpoint(settings, checkpoint, report_progress)
    problems = sum(not finding.is_notice for finding in findings)
    if chosen.document:
        chosen.print_document(_verdict(seen, findings))
    else:
        _print_findings(seen, findings, problems)
    return 1 if problems else 0


app.command("show", short_help="Show what is in a checkpoint.")(show)
app.command("verify", short_help="Say whether Spark can go on from it.")(verify)


# -- where it is ------------------------------------------------------------------------------------------------------


def _located(chosen: Chosen, where: str) -> tuple[Settings | None, Located]:
    if is_location(where):
        return _settings_if_any(chosen), Located(where, {})
    settings = chosen.settings()
    with open_commands(settings) as context:
        return settings, located(context, known_name(where))


def _settings_if_any(chosen: Chosen) -> Settings | None:
    """Returns the settings, or None without a configuration: a location can be inspected without one.

    A configuration that was named must be right.
    """
    try:
        return chosen.settings()
    except InvalidInput:
        if chosen.config is not None or PATH_VARIABLE in os.environ:
            raise
        return None


# -- showing ------------------------------------------------------------------------------------------------------


def document_of(seen: Checkpoint) -> dict[str, Any]:
    """Returns the document of ``checkpoint show -o json``."""
    return {
        "location": seen.location,
        **_amount(seen.amount),
        "requests": seen.requests,
        "queries": [_query(query) for query in seen.queries],
    }


def _query(query: Query) -> dict[str, Any]:
    offset = query.newest_offset.value if query.newest_offset is not None else None
    return {
        "path": query.path,
        "id": query.id,
        "offsets": _log(query.offsets),
        "commits": _log(query.commits),
        "lag": query.lag,
        "watermark": wall_iso(offset.watermark_ms / 1000)
        if offset is not None and offset.watermark_ms
        else None,
        "planned_at": wall_iso(offset.planned_ms / 1000)
        if offset is not None and offset.planned_ms
        else None,
        "sources": [
            {"offset": source, "words": in_words(source)}
            for source in (offset.sources if offset is not None else ())
        ],
        "state_version": query.wanted if query.has_state else None,
        "operators": [_operator(operator) for operator in query.operators],
        **_amount(query.amount),
    }


def _log(log: Log) -> dict[str, Any]:
    return {"oldest": log.oldest, "newest": log.newest, "holes": max(0, len(log.runs) - 1)}


def _operator(operator: StateOperator) -> dict[str, Any]:
    return {
        "operator": operator.number,
        "name": operator.name or None,
        "stores": sorted({store.name for store in operator.stores}),
        "partitions": operator.partitions,
        "format": operator.format,
        "kinds": list(operator.kinds),
        "objects": operator.amount.objects,
        "bytes": operator.amount.bytes,
    }


def _amount(amount: Amount) -> dict[str, Any]:
    newest = wall_iso(amount.newest_at_s) if amount.newest_at_s else None
    return {"objects": amount.objects, "bytes": amount.bytes, "newest_at": newest}


def _print(seen: Checkpoint) -> None:
    document = document_of(seen)
    print_line(f"{'location:':<16} {seen.location}")
    amount = f"{seen.amount.objects}, {readable_size(seen.amount.bytes)}"
    print_line(f"{'objects:':<16} {amount}, newest {age(document['newest_at'])} ago")
    for query in document["queries"]:
        print()
        _print_query(query)


def _print_query(query: dict[str, Any]) -> None:
    lines: list[tuple[str, Any]] = [
        ("query", query["id"] or "unknown: its metadata can't be read"),
        ("directory", query["path"] or None),
        ("offsets", _range(query["offsets"])),
        ("commits", _range(query["commits"])),
        ("lag", _lag(query["lag"])),
        ("watermark", query["watermark"]),
        (
            "planned",
            f"{local_time(query['planned_at'])}  ({age(query['planned_at'])} ago)"
            if query["planned_at"]
            else None,
        ),
    ]
    lines += [(f"source {number}", source["words"]) for number, source in enumerate(query["sources"])]
    lines.append(
        (
            "objects",
            f"{query['objects']}, {readable_size(query['bytes'])}, newest {age(query['newest_at'])} ago",
        )
    )
    for label, value in lines:
        if value is not None:
            print_labelled(f"{label + ':':<16} ", str(value))
    if query["operators"]:
        print()
        print_table(
            OPERATORS,
            [
                (
                    each["operator"],
                    each["name"],
                    len(each["stores"]),
                    each["partitions"],
                    each["format"],
                    " ".join(each["kinds"]),
                    each["objects"],
                    readable_size(each["bytes"]),
                )
                for each in query["operators"]
            ],
        )


def _range(log: dict[str, Any]) -> str:
    if log["newest"] is None:
        return "none"
    holes = f", {log['holes']} holes" if log["holes"] else ""
    return f"{log['newest']} is the newest, {log['oldest']} the oldest{holes}"


def _lag(lag: int | None) -> str | None:
    if lag is None:
        return None
    return {0: "none: every batch is committed", 1: "1: the newest batch is not committed yet"}.get(
        lag, str(lag)
    )


# -- verifying ----------------------------------------------------------------------------------------------------


def _verdict(seen: Checkpoint, findings: tuple[CheckpointFinding, ...]) -> dict[str, Any]:
    return {
        "location": seen.location,
        "ok": all(finding.is_notice for finding in findings),
        "objects": seen.amount.objects,
        "requests": seen.requests,
        "checksums": sum(query.checksums_read for query in seen.queries),
        "checksums_left": sum(query.checksums_left for query in seen.queries),
        "findings": [
            {
                "code": finding.code.value,
                "problem": not finding.is_notice,
                "query": finding.query,
                "sentence": finding.sentence,
                "object": finding.object,
                "remedy": finding.remedy,
            }
            for finding in findings
        ],
    }


def _print_findings(seen: Checkpoint, findings: tuple[CheckpointFinding, ...], problems: int) -> None:
    for finding in findings:
        print_labelled(
            "notice:   " if finding.is_notice else "problem:  ", f"{finding.sentence} [{finding.code.value}]"
        )
        print_labelled("  object: ", finding.object)
        print_labelled("  remedy: ", finding.remedy)
    left = sum(query.checksums_left for query in seen.queries)
    more = f"; {left} checksums of state files were not compared" if left else ""
    what = f"{len(seen.queries)} {'query' if len(seen.queries) == 1 else 'queries'}, {seen.amount.objects} objects"
    if problems:
        print_line(f"{seen.location}: {problems} {'problem' if problems == 1 else 'problems'}; {what}{more}")
    else:
        print_line(f"{seen.location}: good; {what}{more}")
