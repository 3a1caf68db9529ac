"""Defines the sections ``update`` and ``standby`` of a job spec. They have only keys and their bounds;
``plan.prepare`` says what they mean.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from supervisor.model.records import RollbackRule, UpdateMode, UpdatePolicy
from supervisor.settings.restart import DAY_S
from supervisor.settings.sections import Section, Since, between
from supervisor.settings.units import DurationS

REFRESH_S: Final = 3600.0
OBSERVE_S: Final = 600.0


class UpdateSettings(Section):
    """Says how a running job is changed. ``prepare`` is how far a driver is prepared before the present one is
    stopped, and ``mode`` when it is stopped. After its first batch the new revision is observed for ``observe``; when
    ``failures`` of its attempts have failed by then, the leader goes back as ``rollback`` says (protocol §9.2)."""

    prepare: Literal["session", "application", "off"] = "session"
    mode: Annotated[Literal["handover", "restart", "manual"], Since("0.2")] = "handover"
    observe_s: Annotated[DurationS, between(1.0, DAY_S), Since("0.2")] = Field(
        default=OBSERVE_S, alias="observe"
    )
    failures: Annotated[int, Since("0.2")] = Field(default=1, ge=1, le=100)
    rollback: Annotated[Literal["clean", "continue", "savepoint", "never"], Since("0.2")] = "clean"

    def policy(self) -> UpdatePolicy:
        """Returns what the leader must know of it beside the update."""
        return UpdatePolicy(
            mode=UpdateMode(self.mode),
            observe_s=self.observe_s,
            failures=self.failures,
            rollback=RollbackRule(self.rollback),
        )


class StandbySettings(Section):
    """Says whether a prepared driver is kept while the job runs. If ``level`` is null, none is."""

    level: Literal["session", "application"] | None = None
    where: Literal["other", "any"] = "other"
    refresh_s: Annotated[DurationS, between(60.0, 30 * DAY_S)] = Field(default=REFRESH_S, alias="refresh")

    @model_validator(mode="after")
    def _consistent(self) -> StandbySettings:
        if self.level is None and (self.where != "other" or self.refresh_s != REFRESH_S):
            raise ValueError("level is missing, without which there is no standby; add level: session")
        return self
