"""Makes many specs those of the registered jobs: creates what is not registered, updates what differs, leaves the rest.

Called by ``cli.apply``. Everything is read and judged first: if anything is wrong with any file, nothing is done at
all. What is done then is done job by job, and each is durable when it is told. An update stops nothing by itself
(protocol §9.2).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from supervisor.clients.threads import Pool
from supervisor.errors import Conflict, InvalidInput, OutcomeUnknown, SupervisorError, Unreachable
from supervisor.model.records import Desired, SpecRevision, UpdateMode, UpdatePolicy
from supervisor.model.secret import redacted
from supervisor.operations.context import CommandContext
from supervisor.operations.going_back import require_known_place
from supervisor.operations.submit import (
    WORKERS,
    Batch,
    Prepared,
    Submitted,
    store_and_register,
    store_prepared,
)
from supervisor.operations.updating import Change, Judged, MovedPlace, Target, is_same_checkpoint
from supervisor.registry.blobs import Blobs
from supervisor.registry.user_writes import AskedRevision
from supervisor.settings.small_files import shortened
from supervisor.spec.job import JobSpec, canonical_json, spec_sha256
from supervisor.spec.moved import moved_spec

NOTHING_DIFFERS: Final = "nothing differs"
SUFFIXES: Final = (".yaml", ".yml", ".json")


class AppliedAction(StrEnum):
    """Says what became of a spec."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    PRUNED = "pruned"
    REFUSED = "refused"


ACTIONS: Final[Mapping[Change, AppliedAction]] = {
    Change.CREATE: AppliedAction.CREATED,
    Change.UPDATE: AppliedAction.UPDATED,
    Change.WITHDRAW: AppliedAction.UPDATED,
    Change.NONE: AppliedAction.UNCHANGED,
}


@dataclass(slots=True)
class Applied:
    """Holds what became of the spec in ``source``, or with a dry run, what would. ``revision`` is the number that the job
    has from now on. Until all is judged, ``judged`` and ``action`` are None. ``reported_name`` is set where another process
    has judged it, which told the name of the job (``api.write_client``). ``note_differences`` sets ``differences``."""

    source: Path
    prepared: Prepared | None = None
    judged: Judged | None = None
    action: AppliedAction | None = None
    uid: str = ""
    revision: int = 0
    why: str = ""
    error: SupervisorError | None = None
    reported_name: str | None = None
    differences: Sequence[Difference] | None = None

    @property
    def name(self) -> str | None:
        return self.prepared.name if self.prepared is not None else self.reported_name

    @property
    def judged_why(self) -> str:
        """Returns what there is to say of it besides its action."""
        if self.judged is not None:
            return self.judged.why
        return "" if self.why == NOTHING_DIFFERS else self.why

    def refuse(self, error: SupervisorError) -> None:
        self.error, self.action, self.why = error, AppliedAction.REFUSED, str(error)

    def fail(self, error: SupervisorError) -> None:
        """Notes that what was written has not come about; it stays written."""
        self.error, self.why = error, str(error)

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "file": str(self.source),
            "name": self.name,
            "action": self.action.value if self.action is not None else None,
            "revision": self.revision or None,
            "why": self.why,
            "exit_code": self.error.exit_code if self.error is not None else 0,
        }
        if self.differences is not None:
            document["differences"] = [asdict(each) for each in self.differences]
        return document


def spec_files(paths: Iterable[Path], *, may_be_empty: bool = False) -> list[Path]:
    """Returns the specs that ``paths`` name, each once: files as they are, and of a folder those files in it that end
    like a spec. A name that begins with ``_`` or ``.`` is no spec but what others extend. Raises InvalidInput, also for a
    folder without a spec, unless it ``may_be_empty``."""
    found: dict[Path, None] = {}
    for path in paths:
        try:
            inside = _inside(path) if path.is_dir() else [path]
        except OSError as error:
            raise InvalidInput(f"{shortened(path)} can't be read ({error.strerror or error})") from None
        if not inside and not may_be_empty:
            raise InvalidInput(
                f"{path} has no spec in it",
                f"specs end in {', '.join(SUFFIXES)}; folders below it are not entered",
            )
        found.update(dict.fromkeys(inside))
    return list({each.resolve(): each for each in reversed(found)}.values())[::-1]


def _inside(folder: Path) -> list[Path]:
    return sorted(
        each
        for each in folder.iterdir()
        if each.suffix.lower() in SUFFIXES and not each.name.startswith(("_", ".")) and not each.is_dir()
    )


def judge_all(context: CommandContext, read: Sequence[Submitted], *, again: bool) -> list[Applied]:
    """Returns what it takes to apply each of ``read``; nothing is written. Raises Unreachable."""
    applied = [Applied(one.source, one.prepared) for one in read]
    batch = Batch(context.layout)
    first: dict[tuple[str, str], Path] = {}
    for one, submitted in zip(applied, read, strict=True):
        if submitted.error is not None:
            one.refuse(submitted.error)
            continue
        assert one.prepared is not None
        other = first.setdefault((one.prepared.name, one.prepared.sha256), one.source)
        if other is not one.source:
            one.action, one.why = AppliedAction.UNCHANGED, f"{other} says the same"
            continue
        try:
            batch.add(one.prepared)
        except SupervisorError as error:
            one.refuse(error)
    good = [one for one in applied if one.action is None and one.prepared is not None]
    is_known = bool(good) and context.check() is not None
    if is_known:
        _move(context, good)
        good = [one for one in good if one.action is None]
    wanted = [(p.name, p.sha256, p.spec.checkpoint) for p in (one.prepared for one in good) if p is not None]
    signatures = {one.prepared.name: one.prepared.signature for one in good if one.prepared is not None}
    judged: list[Judged | SupervisorError] = (
        context.commands.judge_changes(wanted, again=again, signatures=signatures)
        if is_known
        else [Judged(Change.CREATE) for _ in wanted]
    )
    for one, answer in zip(good, judged, strict=True):
        if isinstance(answer, SupervisorError):
            one.refuse(answer)
            continue
        one.judged, one.action, one.why = answer, ACTIONS[answer.change], answer.why
        one.uid, one.revision = answer.uid, answer.revision or 1
        if is_known and answer.change is Change.CREATE and one.prepared is not None:
            _require_sink(context, one, one.prepared.spec)
    return applied


def _require_sink(context: CommandContext, one: Applied, spec: JobSpec) -> None:
    """Refuses a job that is registered anew if its sink would lose rows, as ``submit`` does. Raises Unreachable."""
    try:
        require_known_place(context, spec.name, spec)
    except Unreachable:
        raise
    except SupervisorError as error:
        one.refuse(error)


def _move(context: CommandContext, applied: Sequence[Applied]) -> None:
    """Gives each spec of a job that the leader has moved from the checkpoint which the spec names the one where the job
    is."""
    places = context.commands.moved_places([one.name for one in applied if one.name is not None])
    for one in applied:
        place = places.get(one.name or "")
        if place is not None and one.prepared is not None:
            try:
                one.prepared = at_its_place(one.prepared, place)
            except SupervisorError as error:
                one.refuse(error)


def at_its_place(prepared: Prepared, place: MovedPlace) -> Prepared:
    """Returns ``prepared`` with the checkpoint ``place.now``, if it names ``place.declared``. Raises Conflict if it is
    signed, and InvalidInput if it can't have another checkpoint."""
    if not is_same_checkpoint(prepared.spec.checkpoint, place.declared):
        return prepared
    if prepared.signature:
        raise Conflict(
            f"{prepared.name} was rolled back to a savepoint, and has its checkpoint at {place.now} since: its spec is "
            f"signed, and names {place.declared}",
            f"write checkpoint: {place.now} into it, and sign that",
        )
    moved = moved_spec(prepared.spec, place.now)
    return replace(prepared, spec=moved, sha256=spec_sha256(moved))


def refuse_all(applied: Sequence[Applied]) -> bool:
    """Returns whether anything is wrong with any file. Then nothing is done of any, and each says so."""
    if all(one.error is None for one in applied):
        return False
    for one in applied:
        if one.error is None:
            one.action, one.why, one.revision = AppliedAction.REFUSED, "another file is refused", 0
    return True


def changed_of(applied: Iterable[Applied]) -> list[Prepared]:
    """Returns the specs of those that are created or updated."""
    return [
        one.prepared
        for one in applied
        if one.prepared is not None and one.action is not AppliedAction.UNCHANGED
    ]


def exit_code_of(applied: Sequence[Applied]) -> int:
    """Returns the worst of their exit codes."""
    return max((one.error.exit_code if one.error is not None else 0 for one in applied), default=0)


def carry_out(context: CommandContext, applied: Iterable[Applied], by: str) -> Iterator[Applied]:
    """Does what was judged, of jobs that differ only, and yields each when it is durable. ``by`` is who asked for it.

    Once ZooKeeper or the store does not answer, the rest is refused: nothing of it was done.
    """
    todo = [one for one in applied if one.judged is not None and one.judged.change is not Change.NONE]
    if not todo:
        return
    blobs = context.blobs()
    context.bootstrap_or_check(blobs)
    created = {id(one.prepared): one for one in todo if one.judged and one.judged.change is Change.CREATE}
    begins = [(one.prepared, ()) for one in created.values() if one.prepared is not None]
    for prepared, answer in store_and_register(context, blobs, begins, Desired.RUNNING, fresh_start=False):
        one = created[id(prepared)]
        if isinstance(answer, SupervisorError):
            one.refuse(answer)
        else:
            one.uid = answer.uid
        yield one
    yield from _updates(context, blobs, [one for one in todo if id(one.prepared) not in created], by)


def _updates(context: CommandContext, blobs: Blobs, updates: list[Applied], by: str) -> Iterator[Applied]:
    gone: SupervisorError | None = None
    with Pool(WORKERS, "store") as pool:
        stored = [(one, pool.submit(_revision_of, blobs, one)) for one in updates]
        for one, future in stored:
            assert one.judged is not None and one.name is not None
            try:
                if gone is not None:
                    raise Unreachable(f"{one.name} was not updated: {gone}")
                asked = AskedRevision(future.result(), by, policy=_policy_of(one))
                context.commands.update(Target(one.name, one.uid, one.judged.basis, asked))
            except SupervisorError as error:
                gone = gone or (error if isinstance(error, Unreachable | OutcomeUnknown) else None)
                one.refuse(error)
            yield one


def _policy_of(one: Applied) -> UpdatePolicy | None:
    """Returns how the update is judged; to withdraw one is no update."""
    withdraws = one.judged is None or one.judged.change is Change.WITHDRAW
    return None if withdraws or one.prepared is None else one.prepared.spec.update.policy()


def _revision_of(blobs: Blobs, one: Applied) -> SpecRevision:
    """Stores what an update needs, and returns it. To withdraw one takes nothing new."""
    assert one.judged is not None and one.prepared is not None
    if one.judged.change is Change.WITHDRAW:
        assert one.judged.keeps is not None
        return one.judged.keeps
    stored = store_prepared(blobs, one.prepared, one.uid, Desired.RUNNING, one.revision)
    return SpecRevision(revision=one.revision, spec=stored.spec, terms=stored.scheduling)


# -- what differs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """Holds one key of a spec whose value is to change; None stands for a value that is not there. What looks like a secret
    is covered, so that both may look the same."""

    key: str
    before: Any
    after: Any


def note_differences(context: CommandContext, applied: Iterable[Applied]) -> None:
    """Notes of each, of which none is refused, what it would change, and how that reaches the job. Raises what the store
    raises."""
    for one in applied:
        one.why, one.differences = rollout(one), _differences(context, one)


def _differences(context: CommandContext, one: Applied) -> list[Difference]:
    if one.judged is None or one.prepared is None:
        return []
    if one.judged.change not in (Change.UPDATE, Change.WITHDRAW) or one.judged.now is None:
        return []
    stored = json.loads(context.blobs().read_spec(one.judged.now.spec))
    wanted = json.loads(canonical_json(one.prepared.spec))
    before, after = flat_keys(stored), flat_keys(wanted)
    shown_before, shown_after = flat_keys(redacted(stored)), flat_keys(redacted(wanted))
    return [
        Difference(key, shown_before.get(key), shown_after.get(key))
        for key in sorted({*after, *before})
        if before.get(key) != after.get(key)
    ]


def flat_keys(document: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Returns the values of a spec by their dotted keys."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        path = f"{above}.{key}" if above else key
        if isinstance(value, Mapping):
            found.update(flat_keys(value, path))
        else:
            found[path] = value
    return found


def rollout(one: Applied) -> str:
    """Returns in words how the change would reach the job that runs."""
    if one.judged is None or one.prepared is None:
        return one.why
    if one.judged.change is Change.CREATE:
        return "it is registered and started" + (f"; {one.judged.why}" if one.judged.why else "")
    if one.judged.change is Change.WITHDRAW:
        return one.judged.why
    if one.judged.change is Change.NONE:
        return one.judged.why or NOTHING_DIFFERS
    before = f"; {one.judged.why}" if one.judged.why else ""
    if not one.judged.runs:
        return f"no driver of it runs; the next one is of the new revision{before}"
    mode = UpdateMode(one.prepared.spec.update.mode)
    if mode is UpdateMode.MANUAL:
        return f"the running driver goes on until restart {one.name} is given (update.mode: manual){before}"
    why = one.prepared.spec.why_not_prepared()
    if mode is UpdateMode.RESTART:
        why = "its spec says update.mode: restart"
    if why is not None:
        return f"the running driver is stopped, and the next one starts cold: {why}{before}"
    return (
        f"a driver of the new revision is prepared, and the running one is stopped when it is ready{before}"
    )
