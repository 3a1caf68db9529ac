"""Defines the ``restart`` section, as it stands in ``supervisor.yaml`` (``defaults.restart``) and in a job
spec.

It has only keys and their bounds; ``model.restart`` says what they mean, into whose policy a spec turns this.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from supervisor.model.restart import RECENT_KEPT
from supervisor.settings.sections import Section, Since, between
from supervisor.settings.units import DurationS, SizeBytes

RESTART_INITIAL_MIN_S = 0.1
"""A crash loop without any pause would break I11 (bounded)."""

DAY_S = 86_400.0
MIB = 1024**2


class RestartSettings(Section):
    """Says how a job is restarted. ``attempts`` is the number of restarts after the first attempt since the
    last reset; null means no limit.

    ``memory_step`` is the factor by which driver memory is raised after an exit with ``out_of_memory``, up to
    ``memory_max``.
    """

    strategy: Literal["fixed", "exponential", "failure-rate", "none"] = "exponential"
    initial_s: Annotated[DurationS, between(RESTART_INITIAL_MIN_S, DAY_S)] = Field(
        default=1.0, alias="initial"
    )
    max_s: Annotated[DurationS, between(RESTART_INITIAL_MIN_S, DAY_S)] = Field(default=300.0, alias="max")
    jitter: float = Field(default=0.2, ge=0, le=1, allow_inf_nan=False)
    reset_after_s: Annotated[DurationS, between(1.0, 365 * DAY_S)] = Field(default=600.0, alias="reset_after")
    attempts: int | None = Field(default=None, ge=0, le=1_000_000)
    on_exhausted: Literal["fail", "suspend"] = "fail"
    memory_step: Annotated[float | None, Since("0.2")] = Field(default=None, gt=1, le=10, allow_inf_nan=False)
    memory_max_bytes: Annotated[Annotated[SizeBytes, Field(ge=MIB, le=1024**5)] | None, Since("0.2")] = Field(
        default=None, alias="memory_max"
    )

    @model_validator(mode="after")
    def _consistent(self) -> RestartSettings:
        if self.strategy == "exponential" and self.max_s < self.initial_s:
            raise ValueError("max is shorter than initial; raise max")
        if self.strategy == "failure-rate":
            if self.attempts is None:
                raise ValueError(
                    "strategy failure-rate needs attempts, the failures allowed within reset_after"
                )
            if self.attempts > RECENT_KEPT:
                raise ValueError(f"strategy failure-rate allows at most {RECENT_KEPT} attempts")
        if self.memory_step is None and self.memory_max_bytes is not None:
            raise ValueError(
                "memory_max is the bound of memory_step, which is missing; add it, e.g. memory_step: 1.5"
            )
        if self.memory_step is not None and self.memory_max_bytes is None:
            raise ValueError(
                "memory_step needs memory_max, the most driver memory that the job may get; add it, e.g. 8g"
            )
        return self
