"""Defines the sections ``update`` and ``standby`` of a job spec. They have only keys and their bounds;
``plan.prepare`` says what they mean.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from supervisor.settings.restart import DAY_S
from supervisor.settings.sections import Section, between
from supervisor.settings.units import DurationS

REFRESH_S: Final = 3600.0


class UpdateSettings(Section):
    """Says how a running job is changed. ``prepare`` is how far a driver is prepared before the present one is
    stopped."""

    prepare: Literal["session", "application", "off"] = "session"


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
