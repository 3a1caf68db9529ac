"""Makes, restores and deletes the savepoints of the leader, each in a child process, and contains what the
child does. ``daemon.process.assemble`` makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from supervisor import errors
from supervisor.clients.task_child import GoOn, run_task, serve
from supervisor.clients.zookeeper import ZooClient
from supervisor.errors import Conflict, Corrupt, NotFound, NotYet, SupervisorError
from supervisor.model.checkpoint_expectation import SeenQuery
from supervisor.model.going_back import ReturnWay, Said
from supervisor.model.location import normalise
from supervisor.model.records import BlobRef
from supervisor.model.savepoint_policy import SavepointPolicy
from supervisor.model.sinks import decode_sinks, encode_sinks
from supervisor.operations.checkpoints import Located
from supervisor.operations.context import store_of
from supervisor.operations.going_back import before_copy, opener
from supervisor.operations.sink_grounds import Grounds
from supervisor.records.layout import Layout
from supervisor.registry.blobs import Blobs
from supervisor.registry.checkpoint_claims import CheckpointClaims
from supervisor.savepoints.manifest import Begun, seen_queries
from supervisor.savepoints.operations import create_savepoint, find_savepoint, restore_to, shelf_of
from supervisor.savepoints.restore import read_savepoint
from supervisor.savepoints.shelf import Shelf
from supervisor.settings.file import Settings
from supervisor.spec.job import JobSpec, from_canonical
from supervisor.spec.s3a import bucket_of


class WantedSavepoint(NamedTuple):
    """Holds a job and its policy. ``source`` is its checkpoint, normalised; ``checkpoint`` is the location as
    the job has it."""

    name: str
    uid: str
    attempt: int
    checkpoint: str
    source: str
    spec: BlobRef
    policy: SavepointPolicy
    running: bool


class Made(NamedTuple):
    """Describes a savepoint that was completed just now."""

    batches: tuple[int, ...]
    objects: int
    bytes: int


class SavepointTasks:
    """Creates, restores and deletes savepoints, each in a child process. ``zoo`` is the client of the term. All methods
    raise SupervisorError; what a child does is ended early when ``go_on`` returns False, which raises TaskEnded."""

    def __init__(self, settings: Settings, zoo: ZooClient, layout: Layout) -> None:
        self._settings = settings
        self._zoo = zoo
        self._layout = layout
        self.shelf: Shelf = shelf_of(settings)

    def create(self, wanted: WantedSavepoint, savepoint: str, timeout_s: float, go_on: GoOn) -> Made:
        """Creates the savepoint. Raises NotYet."""
        answer = self._run(
            {
                "do": "create",
                "name": wanted.name,
                "savepoint": savepoint,
                "uid": wanted.uid,
                "attempt": wanted.attempt,
                "checkpoint": wanted.checkpoint,
                "every_s": wanted.policy.every_s,
                "spec": _blob(wanted.spec),
            },
            timeout_s,
            go_on,
        )
        return Made(tuple(answer["batches"]), answer["objects"], answer["bytes"])

    def restore(
        self,
        name: str,
        savepoint: str,
        to: str,
        spec: BlobRef,
        grounds: Grounds,
        timeout_s: float,
        go_on: GoOn,
    ) -> tuple[SeenQuery, ...]:
        """Copies a savepoint to the location ``to``, which ``spec`` can reach, and returns the queries of the copy.
        ``grounds`` are those of the job. Raises the errors of ``savepoints.restore.restore``, NotFound if there is no
        such savepoint, and Conflict if the sink would lose rows."""
        task = {
            "do": "restore",
            "name": name,
            "savepoint": savepoint,
            "to": to,
            "spec": _blob(spec),
            "checkpoint": grounds.checkpoint,
            "known": [list(each) for each in grounds.known],
            "sinks": encode_sinks(grounds.sinks),
        }
        return tuple(SeenQuery(each[0], each[1]) for each in self._run(task, timeout_s, go_on)["queries"])

    def delete(self, name: str, savepoint: str, timeout_s: float, go_on: GoOn) -> None:
        """Deletes the savepoint. Raises Conflict (it is being restored) and NotFound."""
        self._run({"do": "delete", "name": name, "savepoint": savepoint}, timeout_s, go_on)

    def in_use(self) -> Callable[[str], str | None]:
        """Reads who claims what now. The function that it returns says why a location is in use, or None."""
        claims = CheckpointClaims.load(self._zoo, self._layout)

        def probe(location: str) -> str | None:
            try:
                claims.reserve("", location)
            except Conflict as error:
                return str(error)
            return None

        return probe

    def _run(self, task: dict[str, Any], timeout_s: float, go_on: GoOn) -> dict[str, Any]:
        settings = self._settings.model_dump(mode="json", by_alias=True)
        answer = run_task(__name__, {**task, "settings": settings}, timeout_s, go_on)
        if "error" not in answer:
            return answer
        kind = getattr(errors, str(answer["kind"]), SupervisorError)
        raise (kind if kind is not errors.GuardFailed else Conflict)(answer["error"])


def _blob(spec: BlobRef) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in ("key", "sha256", "bytes")}


def work(task: dict[str, Any]) -> dict[str, Any]:
    """Does one task in the child process. Errors are part of the answer."""
    begun: list[Begun] = []
    try:
        settings = Settings.model_validate(task["settings"])
        if task["do"] == "delete":
            shelf_of(settings).delete(task["name"], task["savepoint"])
            return {}
        if task["do"] == "restore":
            return _restore(settings, task)
        return _create(settings, task, begun.append)
    except SupervisorError as error:
        not_yet = task["do"] == "create" and isinstance(error, Conflict | NotFound) and not begun
        return {"error": str(error), "kind": (NotYet if not_yet else type(error)).__name__}
    except Exception as error:  # noqa: BLE001  # the edge of the process
        return {"error": f"{type(error).__name__}: {error}", "kind": ""}


def _conf(settings: Settings, task: dict[str, Any], location: str) -> dict[str, str]:
    """Returns the properties of the job by which ``location`` is reached."""
    if bucket_of(normalise(location)) is None:  # nothing in the spec could matter
        return {}
    return dict(_spec(settings, task).conf)


def _spec(settings: Settings, task: dict[str, Any]) -> JobSpec:
    """Returns the spec of the job. Raises Corrupt if it is not there."""
    ref = BlobRef(**task["spec"])
    try:
        return from_canonical(Blobs(store_of(settings)).read_spec(ref), ref.key)
    except NotFound as error:  # that is no want of a checkpoint
        raise Corrupt(str(error)) from None


def _restore(settings: Settings, task: dict[str, Any]) -> dict[str, Any]:
    conf = _conf(settings, task, task["to"])
    saved = find_savepoint(settings, task["name"], task["savepoint"], conf)
    manifest = read_savepoint(saved)[0]
    known = tuple(SeenQuery(*each) for each in task["known"])
    grounds = Grounds(decode_sinks(task["sinks"]), known, task["checkpoint"])
    spec, queries = _spec(settings, task), seen_queries(manifest)
    opened = opener(settings, spec)
    back = before_copy(ReturnWay.UPDATE, queries, grounds, manifest.source, spec, Said(), opened).require()
    restored = restore_to(settings, saved, task["to"], conf, back, lambda _done, _of: None)
    return {"queries": [list(query) for query in restored.queries]}


def _create(settings: Settings, task: dict[str, Any], begun: Callable[[Begun], None]) -> dict[str, Any]:
    checkpoint = task["checkpoint"]
    conf = _conf(settings, task, checkpoint)
    manifest = create_savepoint(
        settings,
        Located(checkpoint, conf),
        task["name"],
        task["uid"],
        task["attempt"],
        task["savepoint"],
        begun,
        lambda _done, _of: None,
        task["every_s"],
        by_leader=True,
    )
    return {
        "batches": [query.batch for query in manifest.queries],
        "objects": manifest.objects,
        "bytes": manifest.bytes,
    }


if __name__ == "__main__":
    serve(work)
