"""Says which revisions a job has had, and makes the spec of one of them its spec again.

Called by ``cli.revisions`` and ``cli.rollback``. A roll back is an update to a spec that is stored already (protocol §9.2).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from supervisor.errors import Conflict, Corrupt, NotFound, SupervisorError
from supervisor.model.records import (
    BlobRef,
    JobRef,
    KeptRevision,
    Ownership,
    Result,
    RevisionFate,
    SpecRevision,
)
from supervisor.model.state import is_pending, update_state, why_of_update
from supervisor.operations.apply import flat_keys
from supervisor.operations.context import CommandContext
from supervisor.operations.jobs import Did, Done
from supervisor.operations.signing import require_signature
from supervisor.operations.updating import Target, is_same_checkpoint
from supervisor.registry.revisions import WITHDRAWN, spec_of
from supervisor.registry.user_writes import AskedRevision
from supervisor.spec.job import JobSpec, from_canonical


class RevisionState(StrEnum):
    """Says what a revision is to its job."""

    RUNNING = "running"  # what the job shall run, and what runs until an update has begun
    PENDING = "pending"  # what the job shall run, while a driver of the one before goes on
    SUPERSEDED = "superseded"
    FAILED = "failed"
    ROLLED_BACK = "rolled_back"


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """Describes one revision for people. ``changed`` names the keys of its spec that differ from the revision before; it is
    None if one of both can't be read."""

    entry: KeptRevision
    state: RevisionState
    why: str
    changed: tuple[str, ...] | None = None

    def document(self) -> dict[str, Any]:
        return {
            "revision": self.entry.revision,
            "at": self.entry.at or None,
            "by": self.entry.by or None,
            "state": self.state.value,
            "why": self.why or None,
            "spec_sha256": self.entry.sha256,
            "changed": None if self.changed is None else list(self.changed),
        }


def revisions_of(context: CommandContext, name: str) -> list[RevisionRow]:
    """Returns the revisions of ``name``, newest first. A store that does not answer costs only what differed. Raises
    NotFound and Unreachable."""
    record, own, entries = context.commands.revisions(name)
    specs = _specs(context, record, entries)
    rows = []
    for number, entry in enumerate(entries):
        changed = _changed(specs[number - 1], specs[number]) if number else ()
        rows.append(RevisionRow(entry, _state(record, own, entry), _why(record, own, entry), changed))
    return rows[::-1]


def _state(record: JobRef | Result, own: Ownership | None, entry: KeptRevision) -> RevisionState:
    waits = isinstance(record, JobRef) and own is not None and is_pending(record, own)
    if waits and own is not None and entry.revision == own.revision:
        return RevisionState.RUNNING
    if entry.revision == record.revision:
        return RevisionState.PENDING if waits else RevisionState.RUNNING
    if entry.fate in (RevisionFate.FAILED, RevisionFate.ROLLED_BACK):
        return RevisionState(entry.fate.value)
    return RevisionState.SUPERSEDED


def _why(record: JobRef | Result, own: Ownership | None, entry: KeptRevision) -> str:
    update = record.update
    if not isinstance(record, JobRef) or update is None or update.target != entry.revision:
        return entry.why
    state = update_state(record, own)
    why = why_of_update(record, own)
    return why or (f"its update is {state.value}" if state is not None and not update.done else entry.why)


def _changed(before: dict[str, Any] | None, after: dict[str, Any] | None) -> tuple[str, ...] | None:
    if before is None or after is None:
        return None
    old, new = flat_keys(before), flat_keys(after)
    return tuple(key for key in sorted({*old, *new}) if old.get(key) != new.get(key))


def _specs(
    context: CommandContext, record: JobRef | Result, entries: Sequence[KeptRevision]
) -> list[dict[str, Any] | None]:
    found: dict[str, dict[str, Any] | None] = {}
    answers = True
    for entry in entries:
        if entry.sha256 in found or not entry.bytes or not answers:
            found.setdefault(entry.sha256, None)
            continue
        try:
            document = json.loads(context.blobs().read_spec(spec_of(record.name, record.uid, entry)))
            found[entry.sha256] = document if isinstance(document, dict) else None
        except (NotFound, Corrupt, ValueError):
            found[entry.sha256] = None
        except SupervisorError:
            found[entry.sha256], answers = None, False  # the next one would be waited for as long
    return [found[entry.sha256] for entry in entries]


# -- going back ------------------------------------------------------------------------------------------------------


def roll_back_to(context: CommandContext, name: str, number: int, by: str) -> Done:
    """Makes the spec of revision ``number`` that of the job, as a new revision; a job that has failed is registered again
    with it. Raises Conflict (no such revision, another checkpoint, a spec that is gone), and InvalidInput if
    the policy of this host asks for a signature that it does not have."""
    record, own, entries = context.commands.revisions(name)
    if isinstance(record, JobRef):
        if number == record.revision:
            return Done(name, record.uid, Did.UNCHANGED)
        update = record.update
        withdraws = own is not None and update is not None and is_pending(record, own)
        if withdraws and update is not None and update.before.revision == number:
            return context.commands.roll_back(name, by)
    ref, spec = spec_of_revision(context, record, entries, number)
    is_same = record.spec is not None and ref.sha256 == record.spec.sha256
    if isinstance(record, JobRef) and is_same and ref.signature in ("", record.spec.signature):
        return Done(name, record.uid, Did.UNCHANGED)
    require_signature(context.settings, name, ref)
    place = record.terms.checkpoint if record.terms is not None else None
    if not is_same_checkpoint(spec.checkpoint, place):
        raise Conflict(
            f"revision {number} of {name} has its checkpoint at {spec.checkpoint or 'none'}, and the job has it at "
            f"{place or 'none'} now: a roll back keeps the checkpoint",
            f"suspend {name} --wait, then rollback {name} --to {number} --from-savepoint ID goes on from a copy of that one",
        )
    target = SpecRevision(revision=record.next_revision, spec=ref, terms=spec.scheduling())
    asked = AskedRevision(target, by, rolls_back=True)
    if isinstance(record, Result):
        return context.commands.roll_back_failed(name, context.commands.basis(name), asked)
    basis = (record.revision, record.spec.sha256, record.next_revision)
    return context.commands.update(Target(name, record.uid, basis, asked))


def stable_revision(record: JobRef | Result, entries: Sequence[KeptRevision]) -> int:
    """Returns the number of the revision that a roll back without a number leads to. Raises Conflict if there is none."""
    update = record.update
    if update is not None and (update.given_up or update.rolled_back):
        return record.revision
    if update is not None and update.target == record.revision:
        return update.before.revision
    older = [each.revision for each in entries if each.revision < record.revision and _was_stable(each)]
    if not older:
        raise Conflict(
            f"{record.name} runs revision {record.revision}, and none is known to go back to",
            "apply the spec that it shall run",
        )
    return older[-1]


def spec_to_go_back_to(context: CommandContext, name: str, number: int | None) -> BlobRef:
    """Returns the spec of revision ``number``, or of the last stable one, for a roll back to a savepoint. Raises
    Conflict."""
    record, _, entries = context.commands.revisions(name)
    wanted = number if number is not None else stable_revision(record, entries)
    return spec_of_revision(context, record, entries, wanted)[0]


def _was_stable(entry: KeptRevision) -> bool:
    return entry.fate not in (RevisionFate.FAILED, RevisionFate.ROLLED_BACK) and entry.why != WITHDRAWN


def spec_of_revision(
    context: CommandContext, record: JobRef | Result, entries: Sequence[KeptRevision], number: int
) -> tuple[BlobRef, JobSpec]:
    """Returns the spec of revision ``number``, and where it lies. Raises Conflict if it is not known or gone."""
    name = record.name
    entry = next((each for each in entries if each.revision == number), None)
    if entry is None:
        there = ", ".join(str(each.revision) for each in entries)
        raise Conflict(
            f"{name} has no revision {number} that is kept (there are {there})",
            f"revisions {name} lists them; apply takes any spec",
        )
    ref = spec_of(name, record.uid, entry)
    gone = f"the spec of revision {number} of {name} can't be read back"
    if not entry.bytes:
        raise Conflict(f"{gone}: it was made by an older version", "apply the spec that the job shall run")
    try:
        return ref, from_canonical(context.blobs().read_spec(ref), ref.key)
    except (NotFound, Corrupt) as error:
        raise Conflict(f"{gone}: {error}", "apply the spec that the job shall run") from None
