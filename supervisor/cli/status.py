"""``status``: who leads, who is there, and whether ZooKeeper and the store answer."""

from __future__ import annotations

from typing import Any

from supervisor.cli.options import Chosen, command
from supervisor.cli.output import age, notice, say, say_json, say_table


@command
def status(chosen: Chosen) -> int:
    """Show the cluster: leader, epoch, supervisors, ZooKeeper, store, and how many jobs are in which state."""
    settings = chosen.settings()
    from supervisor.wiring import open_commands, status_of

    with open_commands(settings) as office:
        document, error = status_of(office)
    if chosen.json:
        say_json(document)
    else:
        _print(document)
    if error is not None:
        notice(f"error: {error}")
        return error.exit_code
    return 0


def _print(document: dict[str, Any]) -> None:
    zookeeper, store = document["zookeeper"], document["store"]
    say(f"cluster:    {document['cluster']}")
    say(f"leader:     {document['leader'] or 'nobody'} (epoch {document['epoch']})")
    say(f"zookeeper:  {zookeeper['state']}, {zookeeper['hosts']}, session {zookeeper['session']}")
    say(f"store:      {'ok' if store['ok'] else 'unreachable'}, {store['url']}")
    say(f"jobs:       {', '.join(f'{n} {state}' for state, n in document['jobs'].items()) or 'none'}")
    if document["paused"]:
        say("paused:     yes, nothing is started")
    if document["supervisors"]:
        print()
        head = ("SUPERVISOR", "HOST", "LEADER", "DRIVERS", "UP", "SOFTWARE", "ADDRESS")
        say_table(head, [_row(member) for member in document["supervisors"]])


def _row(member: dict[str, Any]) -> list[Any]:
    drivers = f"{member['drivers']} of {member['capacity']['drivers']}"
    return [
        member["id"], member["host"], "yes" if member["leader"] else None, drivers, age(member["since"]),
        member["software"], member["address"],
    ]
