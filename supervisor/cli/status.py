"""Implements the ``status`` command: shows who leads, who is up, and if ZooKeeper and the store answer."""

from __future__ import annotations

from typing import Any

from supervisor.cli.columns import Columns
from supervisor.cli.options import Chosen, command, over_api
from supervisor.cli.output import age, local_time, notice, print_labelled, print_table, with_local_times
from supervisor.cli.remote import open_gateway
from supervisor.model.load import AbsentSupervisor
from supervisor.model.policies import policies_text
from supervisor.operations.cluster_status import StatusRequest
from supervisor.operations.explain_words import absent_text

SUPERVISORS = Columns(
    ("SUPERVISOR", "HOST", "LEADER", "DRIVERS", "UP", "SOFTWARE", "ADDRESS"),
    spare=("SOFTWARE", "UP", "HOST"),
)


MORE_COLUMNS = {"labels": "LABELS", "sparks": "SPARKS"}
"""Where a host has labels, or more Sparks than its default one, the table has a column more."""


@command
@over_api
def status(chosen: Chosen) -> int:
    """Show the cluster: leader, epoch, supervisors, ZooKeeper, store, and how many jobs are in which state.

    Exit code 5 if ZooKeeper does not answer; what is known is shown all the same.

    \b
    Example:
      spark-supervisor status -o json | jq -r .leader
    """
    with open_gateway(chosen) as gateway:
        document, error = gateway.read(StatusRequest())
    if chosen.document:
        chosen.print_document(document)
    else:
        _print(document)
    if error is not None:
        notice(f"error: {error}")
        return error.exit_code
    return 0


def _print(document: dict[str, Any]) -> None:
    zookeeper, store = document["zookeeper"], document["store"]
    known = zookeeper["session"] is not None
    epoch = "" if document["epoch"] is None else f" (epoch {document['epoch']})"
    session = "" if zookeeper["session"] is None else f", session {zookeeper['session']}"
    lines = [
        ("cluster", document["cluster"]),
        ("leader", f"{document['leader'] or ('nobody' if known else 'unknown')}{epoch}"),
        ("zookeeper", f"{zookeeper['state']}, {zookeeper['hosts']}{session}"),
        ("store", f"{'ok' if store['ok'] else 'unreachable'}, {store['url']}"),
        (
            "jobs",
            ", ".join(f"{n} {state}" for state, n in document["jobs"].items())
            or ("none" if known else "unknown"),
        ),
    ]
    if document["paused"]:
        lines.append(("paused", f"{_paused(document['pause'])}; nothing is started or cleaned"))
    for member in document["supervisors"]:
        if member["cordoned"]:
            lines.append(("cordoned", _cordoned(member)))
    for absent in document.get("absent", ()):
        lines.append(("absent", absent_text(AbsentSupervisor(**absent))))
    if document["distrust"]:
        lines.append(("distrust", document["distrust"]))
    if document["accepted"] and document["accepted"]["waiting"]:
        lines.append(("waiting", with_local_times(document["accepted"]["waiting"])))
    for label, text in lines:
        print_labelled(f"{label + ':':<12}", text)
    if document["supervisors"]:
        print(flush=True)
        supervisors = document["supervisors"]
        more = [key for key in MORE_COLUMNS if any(member[key] for member in supervisors)]
        head = (*SUPERVISORS.head, *(MORE_COLUMNS[key] for key in more))
        columns = Columns(head, spare=SUPERVISORS.spare)
        print_table(columns, [_row(member, more) for member in supervisors])
    _print_versions(document["supervisors"])
    _print_policies(document["supervisors"])


def _paused(pause: dict[str, Any] | None) -> str:
    if pause is None:
        return "yes"
    return f"by {pause['by']} since {local_time(pause['since'])}" + (
        f" ({pause['reason']})" if pause["reason"] else ""
    )


def _cordoned(member: dict[str, Any]) -> str:
    cordon = member["cordon"]
    if cordon is None:
        return f"{member['id']} (what is wanted of it can't be read: uncordon {member['id']} writes it anew)"
    why = f" ({cordon['reason']})" if cordon["reason"] else ""
    what = ", and its jobs are moved away" if cordon["draining"] else ""
    return f"{member['id']} by {cordon['by']} since {local_time(cordon['since'])}{why}; nothing new is placed there{what}"


def _print_versions(supervisors: list[dict[str, Any]]) -> None:
    """Notes that versions differ: during a rolling upgrade, or when one host was forgotten."""
    who: dict[str, list[str]] = {}
    for member in supervisors:
        who.setdefault(member["software"], []).append(member["id"])
    if len(who) > 1:
        versions = "; ".join(f"{version} on {', '.join(ids)}" for version, ids in sorted(who.items()))
        notice(
            f"note: the supervisors run different versions ({versions}): an upgrade is under way, or one was forgotten"
        )


def _print_policies(supervisors: list[dict[str, Any]]) -> None:
    """Notes that the policies of hosts differ: a job that one refuses may run on another."""
    hosts: dict[str, list[str]] = {}
    for member in supervisors:
        if member["policy_sha256"]:
            hosts.setdefault(member["policy_sha256"], []).append(member["id"])
    if len(hosts) > 1:
        notice(
            f"note: the policies of the supervisors differ ({policies_text(hosts)}): a job runs only on hosts that allow it"
        )


def _row(member: dict[str, Any], more: list[str]) -> list[Any]:
    drivers = f"{member['drivers']} of {member['capacity']['drivers']}"
    return [
        member["id"],
        member["host"],
        "yes" if member["leader"] else None,
        drivers,
        age(member["since"]),
        member["software"],
        member["address"],
        *(_more(member[key]) for key in more),
    ]


def _more(said: dict[str, str] | list[str]) -> str:
    listed = [f"{key}={value}" for key, value in said.items()] if isinstance(said, dict) else said
    return ",".join(listed)
