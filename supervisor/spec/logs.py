"""Defines the ``logs`` section of a job spec. It has only keys and their bounds; ``daemon.host.log_uploads`` uploads, and
``registry.uploaded_logs`` says which attempts are kept.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from supervisor.settings.policy import LOGS_KEEP_MAX
from supervisor.settings.restart import DAY_S
from supervisor.settings.sections import Section, Since, between
from supervisor.settings.units import DurationS

EVERY_MIN_S: Final = 60.0
KEEP: Final = 20
"""A host keeps the output of as many attempts (``daemon.host.housekeeping``)."""


class LogSettings(Section):
    """Says what becomes of the output of an attempt's driver. With ``upload: on_exit`` its host puts it into the store when
    the attempt has ended; there that of the newest ``keep`` attempts stays. With ``every``, what came since the last time is
    put there while the attempt runs, too: once in each period. Without it (null) nothing is.
    """

    keep: int = Field(default=KEEP, ge=1, le=LOGS_KEEP_MAX)
    upload: Literal["off", "on_exit"] = "off"
    every_s: Annotated[Annotated[DurationS, between(EVERY_MIN_S, DAY_S)] | None, Since("0.2")] = Field(
        default=None, alias="every"
    )

    @model_validator(mode="after")
    def _consistent(self) -> LogSettings:
        if self.upload == "off" and self.keep != KEEP:
            raise ValueError(
                "keep is about what is uploaded, and upload is off; add upload: on_exit, or remove keep"
            )
        if self.upload == "off" and self.every_s is not None:
            raise ValueError(
                "every is how often to upload, and upload is off; add upload: on_exit, or remove every"
            )
        return self

    @property
    def uploads_kept(self) -> int:
        """Returns of how many attempts the output is kept in the store; 0 if none is uploaded."""
        return 0 if self.upload == "off" else self.keep
