"""Says which names a job can have, and answers for a name that no job has: makes the one sentence, with the name that was
most likely meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from supervisor.errors import NotFound, SupervisorError
from supervisor.records.ids import name_suffix
from supervisor.records.layout import Layout
from supervisor.records.ports import ZkReader
from supervisor.settings.nearest import nearest

SHOWN_MAX: Final = 100
NAME_PATTERN: Final = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"


def is_name(name: str) -> bool:
    """Returns whether a job can have this name."""
    return re.fullmatch(NAME_PATTERN, name) is not None


def known_name(name: str) -> str:
    """Returns ``name`` itself if a job can have it.

    Raises NotFound: it must not lead to any other znode or file.
    """
    if not is_name(name):
        raise NotFound(
            f"no job is named {name[:SHOWN_MAX]!r}: names have lower-case letters, digits and dashes only"
        )
    return name


def no_job(zoo: ZkReader, layout: Layout, name: str) -> NotFound:
    """Returns the error to raise for ``name``, of which nothing is kept. Never raises: without an answer
    there is no suggestion."""
    best = None
    with suppress(SupervisorError):
        best = nearest(name, (each for each in known_names(zoo, layout) if each != name))
    hint = f"did you mean {best}?" if best else "see spark-supervisor list --all"
    return NotFound(f"no job is named {name}: {hint}")


def known_names(zoo: ZkReader, layout: Layout) -> Iterator[str]:
    """Yields the names of all registered jobs, and of all others of which a result may be kept: an ownership
    outlives them all."""
    registered = frozenset(zoo.children(layout.jobs) or ())
    yield from registered
    ended = {uid.rpartition("-")[2] for uid in zoo.children(layout.results) or ()}
    yield from (
        name
        for name in zoo.children(layout.owns) or ()
        if name not in registered and name_suffix(name) in ended
    )


def check_host(zoo: ZkReader, layout: Layout, host: str) -> None:
    """Raises NotFound if no supervisor with the id ``host`` was ever up in this cluster. One that is down right now is
    known: what it is given stays when it ends (/assigned)."""
    known = {*(zoo.children(layout.supervisors) or ()), *(zoo.children(layout.assigned) or ())}
    if host not in known:
        best = nearest(host, sorted(known))
        listed = ", ".join(sorted(known)) or "none"
        raise NotFound(
            f"no supervisor is named {host}" + (f": did you mean {best}?" if best else ""),
            f"these are known: {listed}",
        )
