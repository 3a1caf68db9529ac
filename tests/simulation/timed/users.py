"""Users: each command is a process of its own on some host, and runs the product's command line below ``cli``.

What it was told goes to the judge: an acknowledged cancel, an acknowledged submit. An outcome that stays unknown is told to
nobody, as in life.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from supervisor.clients import zookeeper
from supervisor.clients.sessions import REQUEST_S, KeptSession
from supervisor.errors import SupervisorError
from supervisor.model.records import Cluster, Desired
from supervisor.operations.accept_registry import accept_registry, examine_registry
from supervisor.operations.auditing import NO_AUDIT
from supervisor.operations.cluster import ClusterOperations
from supervisor.operations.jobs import Did, JobOperations, Submission
from supervisor.records.ids import new_uid
from supervisor.registry.blobs import Blobs
from supervisor.registry.bootstrap_cluster import check_known
from supervisor.spec.job import JobSpec, canonical_json
from tests.simulation.timed.client import SimClient
from tests.simulation.timed.scenario import Job, PlannedAct, Step

if TYPE_CHECKING:
    from supervisor.operations.context import CommandContext
    from tests.simulation.timed.world import TimedWorld

POLL_EVERY_S = 5.0
QUIET_POLLS = 12


@cache
def spec_of(job: Job) -> tuple[JobSpec, bytes]:
    """The spec that this job is submitted with, and its canonical form."""
    restart: dict[str, Any] = {
        "strategy": "exponential",
        "initial": "1s",
        "max": "8s",
        "on_exhausted": job.on_exhausted,
    }
    if job.attempts is not None:
        restart["attempts"] = job.attempts
    spec = JobSpec.model_validate(
        {
            "name": job.name,
            "application": "s3://bucket/app.py",
            "checkpoint": job.place,
            "unbounded": job.unbounded,
            "lease": f"{job.lease_s:g}s",
            "stop_grace": f"{job.grace_s:g}s",
            "restart": restart,
            "health": {"start_timeout": f"{job.start_timeout_s:g}s"},
            "update": {"prepare": "session" if job.update else "off"},
            "standby": {"level": "session", "where": "any"} if job.update == "standby" else {},
        }
    )
    return spec, canonical_json(spec)


class Users:
    def __init__(self, world: TimedWorld) -> None:
        self._world = world
        self._number = 0

    def do(self, step: Step) -> None:
        """Begin the command now."""
        self._command(str(step.act), lambda sessions: self._carry_out(step, sessions))

    def _command(self, what: str, run: Callable[[KeptSession[SimClient]], str]) -> None:
        world = self._world
        self._number += 1
        up = [host for host in world.hosts if host.up] or world.hosts
        host = up[self._number % len(up)]
        process = world.process(f"user {self._number} {what}", host)

        def main() -> None:
            sessions = self._sessions()
            try:
                outcome = run(sessions)
            except SupervisorError as error:
                outcome = type(error).__name__
            world.judge.answers[f"{what}: {outcome}"] += 1
            world.loop.note(f"{process.name}: {outcome}")
            sessions.close()
            world.loop.kill(process)

        world.loop.spawn(main, process, what)

    def _sessions(self) -> KeptSession[SimClient]:
        world = self._world
        return KeptSession(
            lambda: SimClient(world.net, "sim", world.plan.session_s, request_timeout_s=REQUEST_S),
            lambda old: zookeeper.close_session("sim", old.id, old.password, REQUEST_S),
        )

    def _carry_out(self, step: Step, sessions: KeptSession[SimClient]) -> str:
        world, name = self._world, step.name
        operator = ClusterOperations(cast(Any, sessions), world.layout, "user")
        if step.act is PlannedAct.PAUSE:
            operator.pause("simulated")
        elif step.act is PlannedAct.UNPAUSE:
            operator.unpause()
        elif step.act is PlannedAct.SWITCHOVER:
            operator.switchover(None)
        else:
            return self._about_job(step, JobOperations(cast(Any, sessions), world.layout), name)
        return "done"

    def _about_job(self, step: Step, commands: JobOperations, name: str) -> str:
        world = self._world
        world.judge.touched[name] = world.loop.now_s
        restores = world.judge.restores
        if step.act is PlannedAct.SUBMIT:
            done = self._submit(commands, name)
        else:
            done = {
                PlannedAct.CANCEL: commands.cancel,
                PlannedAct.SUSPEND: commands.suspend,
                PlannedAct.RESUME: commands.resume,
                PlannedAct.RESTART: commands.restart,
            }[step.act](name)
        world.judge.touched[name] = world.loop.now_s
        if restores == world.judge.restores:
            if done.did in (Did.CANCELLED, Did.ALREADY_CANCELLED):
                world.judge.cancel_acknowledged(done.uid, name)
            elif done.did in (Did.SUBMITTED, Did.REGISTERED_AGAIN):
                world.judge.submitted[done.uid] = name
        return str(done.did)

    def _submit(self, commands: JobOperations, name: str) -> Any:
        world = self._world
        spec, data = spec_of(world.job_of(name))
        began_at_s = world.boottime_s()
        uid = new_uid(name)
        ref = Blobs(world.store).put_spec(name, uid, 1, data)
        return commands.submit(Submission(name, uid, ref, spec.scheduling(), Desired.RUNNING, began_at_s))

    def unpause(self) -> None:
        """Whenever there is a pause: an earlier command may take its time."""
        if self._world.ensemble.tree.read(self._world.layout.pause) is not None:
            self.do(Step(PlannedAct.UNPAUSE, 0.0, ""))
        self._world.loop.after(POLL_EVERY_S, self.unpause)

    # -- the operator ----------------------------------------------------------------------------------------------

    def handle_alarms(self) -> None:
        """After a restore: ``accept-registry`` whenever somebody distrusts the registry, until nobody does any more."""
        world = self._world
        quiet = [0]

        def run(sessions: KeptSession[SimClient]) -> str:
            context = cast("CommandContext", self._context(sessions))
            finding = examine_registry(context)
            if not finding.distrust:
                quiet[0] += 1
                return "nothing to accept"
            quiet[0] = 0
            accept_registry(context, finding.wait_s, no_driver_runs=False)
            world.judge.restored_at_s = None
            return "accepted"

        def again() -> None:
            if quiet[0] < QUIET_POLLS and not world.over:
                self._command("accept-registry", run)
                world.loop.after(POLL_EVERY_S, again)

        again()

    def _context(self, sessions: KeptSession[SimClient]) -> Any:
        world = self._world

        def check() -> Cluster | None:
            return check_known(cast(Any, sessions.zoo()), world.layout, world.identity)

        settings = SimpleNamespace(
            zookeeper=SimpleNamespace(root=world.layout.root),
            store=SimpleNamespace(url=world.store.url),
            supervisor=SimpleNamespace(id="operator", runtime_dir=Path("/nonexistent")),
        )
        return SimpleNamespace(
            settings=settings,
            sessions=sessions,
            author="operator",
            auditor=NO_AUDIT,
            layout=world.layout,
            zoo=sessions.zoo,
            check=check,
            blobs=lambda: Blobs(world.store),
            store=lambda: world.store,
        )
