"""Makes the documents of ``explain -o json``, of one job and of all. The command line and the API call it.

Ages count from the wall clock at the instant of the reading: they are for display.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from supervisor.clock import wall_iso, wall_s
from supervisor.operations.context import CommandContext, require_submitted
from supervisor.operations.history import diagnostics_document, exit_document
from supervisor.operations.requests import DocumentRequest
from supervisor.operations.scene import Scene, explain_all, explain_name, take_scene
from supervisor.plan.explain import Explanation


@dataclass(frozen=True)
class ExplainJobRequest(DocumentRequest):
    """Asks for the document of ``explain NAME``."""

    operation = "explainJob"
    path = "/jobs/{name}/explain"
    summary = "What becomes of a job, and why, as explain prints it."

    name: str

    def carry_out(self, context: CommandContext) -> dict[str, Any]:
        require_submitted(context, self.name)
        scene, now_at_s = take_scene(context), wall_s()
        explained = explain_name(context, scene, self.name)
        return {**document_of(explained, now_at_s), **_cluster(scene)}


@dataclass(frozen=True)
class ExplainAllRequest(DocumentRequest):
    """Asks for the document of ``explain``."""

    operation = "explain"
    path = "/explain"
    summary = "What becomes of all jobs that do not simply run, most urgent first."

    def carry_out(self, context: CommandContext) -> dict[str, Any]:
        if context.check() is None:
            context.warn(f"nothing was ever submitted at {context.settings.zookeeper.root}")
        scene, now_at_s = take_scene(context), wall_s()
        return _all_explained(scene, explain_all(context, scene), now_at_s)


def _all_explained(scene: Scene, everything: Sequence[Explanation], wall_now_s: float) -> dict[str, Any]:
    """Returns the document of ``explain``: every job that does not simply run, and how many do."""
    notable = [explained for explained in everything if not explained.is_fine]
    jobs = [document_of(explained, wall_now_s) for explained in notable]
    return {**_cluster(scene), "running": len(everything) - len(notable), "jobs": jobs}


def _cluster(scene: Scene) -> dict[str, Any]:
    return {
        "leader": scene.leader,
        "epoch": scene.epoch,
        "paused": scene.view.paused,
        "distrust": scene.view.distrust,
        "alarms": [str(alarm) for alarm in scene.explainer.alarms],
        "absent": [asdict(absent) for absent in scene.explainer.absent],
        "store_error": scene.store_error,
    }


def _text(sentence: object | None) -> str | None:
    return None if sentence is None else str(sentence)


def document_of(explained: Explanation, wall_now_s: float) -> dict[str, Any]:
    """Returns the document of one job. Times are ISO 8601 in UTC, memory is in bytes."""
    progress = explained.record.progress if explained.record else None
    lease = explained.lease
    return {
        "name": explained.name,
        "uid": explained.uid or None,
        "state": explained.state.value,
        "reason": explained.reason,
        "fine": explained.is_fine,
        "attempt": explained.attempt or None,
        "host": explained.host or None,
        "failures": explained.failures,
        "last_batch_at": progress.at if progress else None,
        "lease": None
        if lease is None
        else {
            "lease_s": lease.lease_s,
            "renewed_at": wall_iso(wall_now_s - lease.silent_s),
            "silent": lease.is_silent,
            "full_wait_s": lease.full_wait_s,
            **({"executors_outlive_s": lease.executors_outlive_s} if lease.executors_outlive_s else {}),
        },
        "owned": explained.cell[0].value if explained.cell else None,
        "wanted": explained.cell[1].value if explained.cell else None,
        "rule": explained.rule.value if explained.rule else None,
        "action": explained.action,
        "why": explained.why or None,
        "held_by": _text(explained.held_by),
        "waits_for": _text(explained.waits_for),
        "until": None if explained.wait_s is None else wall_iso(wall_now_s + explained.wait_s),
        "then": explained.then,
        "standby": explained.standby or None,
        "failed_update": explained.failed_update or None,
        "move": explained.move or None,
        "absent_supervisor": explained.absent or None,
        "sinks": list(explained.sinks),
        "hosts": [asdict(host) for host in explained.hosts],
        "alarm": _text(explained.alarm),
        "last_exit": exit_document(explained.last_exit),
        "diagnostics": diagnostics_document(explained.diagnostics),
        "remedies": [asdict(remedy) for remedy in explained.remedies],
    }
