"""Prints what ``resume --from-savepoint`` and ``suspend --savepoint`` say, while ``savepoints`` works and
after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from supervisor.cli.output import notice, print_line
from supervisor.cli.progress import progress
from supervisor.model.going_back import NOTHING_SAID, Said
from supervisor.savepoints import resume, suspend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from supervisor.cli.options import Chosen
    from supervisor.model.records import BlobRef
    from supervisor.operations.context import CommandContext
    from supervisor.operations.jobs import Done
    from supervisor.savepoints.manifest import Begun
    from supervisor.savepoints.resume import Planned

NO_NEW_SPEC: Final = (
    "--sign-with signs the spec that --from-savepoint makes: give that, too, or apply the spec signed"
)


def resume_from(
    chosen: Chosen,
    context: CommandContext,
    name: str,
    which: str | None,
    to: str | None,
    by: str,
    spec_of: Callable[[], BlobRef] | None = None,
    sign_with: Path | None = None,
    said: Said = NOTHING_SAID,
) -> Done:
    """Resumes the job and says what it did. ``spec_of``, ``by``, ``sign_with`` and ``said`` are as in ``savepoints.resume``.

    Interrupted, or refused after the copy was begun, it names the copy.
    """
    begun: list[Planned] = []
    try:
        with progress("restoring") as report_progress:
            resumed = resume.resume_from(
                context,
                name,
                which,
                to,
                lambda planned: _begins(begun, planned),
                report_progress,
                spec_of,
                by,
                sign_with,
                said,
            )
    except BaseException:
        if begun:
            notice(
                f"what was copied to {begun[0].new} is no job's, unless show {name} names it: the same command goes on with "
                "it, else it can be removed"
            )
        raise
    _print_resumed(chosen, resumed, copied=bool(begun))
    return resumed.done


def _print_resumed(chosen: Chosen, resumed: resume.Resumed, *, copied: bool) -> None:
    done, planned = resumed.done, resumed.planned
    if chosen.document:
        chosen.print_document({**savepoint_document(done, planned.manifest.id), "checkpoint": planned.new})
        return
    name = planned.name
    if not copied:
        print_line(
            f"{name}: {done.did.value} ({done.uid}); it has begun with savepoint {planned.manifest.id} at {planned.new}"
        )
        return
    batches = ", ".join(str(query.batch) for query in planned.manifest.queries)
    print_line(
        f"{name}: {done.did.value} ({done.uid}), from savepoint {planned.manifest.id} after batch {batches}"
    )
    if planned.back.why:
        notice(planned.back.why)
    notice(
        f"its checkpoint is {planned.new} from now on: write that into its spec file, too; {planned.old} stays as it is"
    )


def save_stopped(chosen: Chosen, context: CommandContext, done: Done, which: str | None) -> None:
    """Makes the savepoint, once the driver of ``done`` has stopped, and says what it did."""
    savepoint = suspend.id_after(context, done.name, which)
    with progress("copying") as report_progress:
        saved = suspend.save(context, done.name, savepoint, _nobody, report_progress)
    manifest = saved.manifest
    if chosen.document:
        chosen.print_document(savepoint_document(done, manifest.id))
        return
    batches = ", ".join(str(query.batch) for query in manifest.queries)
    did = "verified" if saved.did else "was there already"
    print_line(
        f"{done.name}: savepoint {manifest.id} after batch {batches}: {manifest.objects} objects, {did}"
    )


def savepoint_document(done: Done, savepoint: str | None) -> dict[str, Any]:
    """Returns the document. If ``savepoint`` is None, none was made."""
    return {"name": done.name, "uid": done.uid, "did": done.did.value, "savepoint": savepoint}


def _begins(plans: list[Planned], planned: Planned) -> None:
    """Names the copy before anything is copied, so that a user who finds it later knows what it is."""
    plans.append(planned)
    origin = planned.manifest
    whose = "" if origin.name == planned.name else f" of {origin.name}"
    notice(f"copying savepoint {origin.id}{whose} to {planned.new}")


def _nobody(_begun: Begun) -> None:
    """Reports nothing: the savepoint's id is known before."""
