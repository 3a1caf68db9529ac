"""Defines the ``savepoints`` section of a job spec. It has only keys and their bounds;
``savepoints.schedule`` says what they mean.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from supervisor.model.sinks import SinkMemory
from supervisor.settings.restart import DAY_S
from supervisor.settings.sections import Section, Since, between
from supervisor.settings.units import DurationS

EVERY_MIN_S: Final = 60.0
KEEP: Final = 8


class SavepointSettings(Section):
    """Says when savepoints are made on a schedule. If ``every`` is null, none are. ``keep`` and ``max_age``
    (null: no limit) apply to those made on a schedule only. ``sink`` says what the job's sinks remember of batches
    (``model.sinks.SinkMemory``); null: what the supervisor sees.
    """

    every_s: Annotated[DurationS, between(EVERY_MIN_S, 365 * DAY_S)] | None = Field(
        default=None, alias="every"
    )
    keep: int = Field(default=KEEP, ge=1, le=1000)
    max_age_s: Annotated[DurationS, between(EVERY_MIN_S, 3650 * DAY_S)] | None = Field(
        default=None, alias="max_age"
    )
    sink: Annotated[Literal["repeats", "transactional", "remembers"] | None, Since("0.2")] = None

    @property
    def memory(self) -> SinkMemory | None:
        """Returns what ``sink`` says, or None."""
        return SinkMemory(self.sink) if self.sink is not None else None

    @model_validator(mode="after")
    def _consistent(self) -> SavepointSettings:
        if self.every_s is None:
            if self.max_age_s is not None or self.keep != KEEP:
                raise ValueError(
                    "every is missing, without which there are none that keep and max_age are about; add it"
                )
        elif self.max_age_s is not None and self.max_age_s < self.every_s:
            raise ValueError(
                "max_age is shorter than every: each would be too old before the next is made; raise it"
            )
        return self
