"""Defines the section ``placement`` of a job spec. It has only keys and their bounds; ``plan.placement`` says what
they mean.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from supervisor.settings.labels import LabelKey, Labels
from supervisor.settings.sections import Section


class PlacementSettings(Section):
    """Says on which hosts a job may run, and from which other jobs it is kept apart where that is possible. If
    ``spread`` is null, from none."""

    require: Labels = Field(default_factory=dict)
    spread: LabelKey | None = None
    group: LabelKey | None = None

    @model_validator(mode="after")
    def _consistent(self) -> PlacementSettings:
        if self.group is not None and self.spread is None:
            raise ValueError("spread is missing, without which no group is kept apart; add spread: host")
        return self
