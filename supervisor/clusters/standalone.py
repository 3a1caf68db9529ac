"""Reads what the masters of a Spark standalone cluster say of themselves, their workers and applications: the page
``/json/`` of their web port.

Whatever they answer is harmless: what has another form than expected counts as not said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from supervisor.clients.web import fetch
from supervisor.clusters.answers import count, mappings, shares, text
from supervisor.clusters.application import ClusterSilent
from supervisor.errors import Unreachable
from supervisor.model.phrases import counted, first_few

ANSWER_MAX_BYTES: Final = 4 * 1024 * 1024
LEADS: Final = "ALIVE"
NAME_MAX_BYTES: Final = 80
_VERSION: Final = re.compile(r'class="version"[^>]*>\s*(\d[\w.-]{0,40})')


@dataclass(frozen=True, slots=True)
class StandaloneWorker:
    """Is a worker that a master takes for alive. Memory is in MiB."""

    cores: int = 0
    cores_free: int = 0
    memory: int = 0
    memory_free: int = 0


@dataclass(frozen=True, slots=True)
class StandaloneApplication:
    """Is an application that a master takes for waiting or running. ``memory`` is that of one executor, in MiB."""

    id: str
    name: str = ""
    cores: int = 0
    memory: int = 0
    state: str = ""


@dataclass(frozen=True, slots=True)
class StandaloneMaster:
    """Is what one master says. ``status`` is ALIVE (it leads), STANDBY, RECOVERING, or empty if it says none. ``lost`` is
    how many workers it takes for dead."""

    address: str
    status: str = ""
    workers: tuple[StandaloneWorker, ...] = ()
    lost: int = 0
    applications: tuple[StandaloneApplication, ...] = ()


@dataclass(frozen=True, slots=True)
class StandaloneState:
    """Holds what the masters that answered say; ``silent`` is why each other one did not."""

    masters: tuple[StandaloneMaster, ...]
    silent: tuple[str, ...] = ()

    @property
    def leading(self) -> StandaloneMaster | None:
        return next((master for master in self.masters if master.status == LEADS), None)

    def why_waiting(self, application: str) -> str:
        """Returns why the application with this id has no executor, as half a sentence."""
        leading = self.leading
        if leading is None:
            statuses = [f"{master.address} is {master.status or 'none'}" for master in self.masters]
            return f"no master leads ({first_few([*statuses, *self.silent])})"
        known = next((each for each in leading.applications if each.id == application), None)
        if application and known is None:
            return f"the master {leading.address} does not know {application}"
        return why_no_room(leading, known.memory if known is not None else 0)


def why_no_room(master: StandaloneMaster, memory: int) -> str:
    """Returns what ``master`` has free for executors of ``memory`` MiB, so that one sees why it gives none."""
    if not master.workers:
        return "no worker is alive" + (f" ({master.lost} are dead)" if master.lost else "")
    free, cores = (
        sum(worker.cores_free for worker in master.workers),
        sum(worker.cores for worker in master.workers),
    )
    if not free:
        return f"0 of {counted(cores, 'core')} free"
    most = max(worker.memory_free for worker in master.workers if worker.cores_free)
    if most < memory:
        return f"an executor needs {memory} MiB, and no worker with a free core has more than {most} MiB free"
    return f"{free} of {counted(cores, 'core')} free on {counted(len(master.workers), 'worker')}"


class StandaloneMasters:
    """Asks the masters, at the addresses ``web`` of their web ports (``http://host:port``)."""

    def __init__(self, web: Sequence[str]) -> None:
        self._web = tuple(web)

    def state(self, timeout_s: float) -> StandaloneState:
        """Returns what they say; each gets its share of ``timeout_s``. Raises ClusterSilent if none answers."""
        masters: list[StandaloneMaster] = []
        silent: list[str] = []
        for url, share_s in shares(self._web, timeout_s):
            try:
                masters.append(parsed(url, fetch(f"{url}/json/", share_s, ANSWER_MAX_BYTES)))
            except Unreachable as error:
                silent.append(str(error))
        if not masters:
            raise ClusterSilent(f"no master answers: {first_few(silent)}")
        return StandaloneState(tuple(masters), tuple(silent))

    def version(self, timeout_s: float) -> str:
        """Returns the version of Spark that the first master which answers shows on its page, or nothing if it shows
        none. Raises ClusterSilent."""
        silent = []
        for url, share_s in shares(self._web, timeout_s):
            try:
                page = fetch(f"{url}/", share_s, ANSWER_MAX_BYTES)
            except Unreachable as error:
                silent.append(str(error))
                continue
            found = _VERSION.search(page.decode("utf-8", "replace"))
            return found[1] if found is not None else ""
        raise ClusterSilent(f"no master answers: {first_few(silent)}")


def parsed(url: str, answer: bytes) -> StandaloneMaster:
    """Returns what is in the answer of the master at ``url``. Raises Unreachable if it is no answer of a master."""
    try:
        body = json.loads(answer)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise Unreachable(f"{url} does not answer as a Spark master")
    workers = list(mappings(body.get("workers")))
    alive = [worker for worker in workers if worker.get("state") == "ALIVE"]
    return StandaloneMaster(
        address=url.partition("://")[2],
        status=text(body.get("status"), NAME_MAX_BYTES),
        workers=tuple(
            StandaloneWorker(
                count(each.get("cores")),
                count(each.get("coresfree")),
                count(each.get("memory")),
                count(each.get("memoryfree")),
            )
            for each in alive
        ),
        lost=len(workers) - len(alive),
        applications=tuple(
            StandaloneApplication(
                text(each.get("id"), NAME_MAX_BYTES),
                text(each.get("name"), NAME_MAX_BYTES),
                count(each.get("cores")),
                count(each.get("memoryperexecutor", each.get("memoryperslave"))),
                text(each.get("state"), NAME_MAX_BYTES),
            )
            for each in mappings(body.get("activeapps"))
        ),
    )
