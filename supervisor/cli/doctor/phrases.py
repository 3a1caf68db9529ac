"""Defines the phrases that several parts of ``doctor`` share."""

from __future__ import annotations

from typing import Final

NO_SPEC: Final = "no spec was given"
MORE_TIME: Final = "if the host is busy, give it more time: doctor --timeout 2m; else see what hangs"
