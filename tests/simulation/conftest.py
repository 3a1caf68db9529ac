from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from tests.simulation.timed import runs


@pytest.fixture
def collector() -> Iterator[None]:
    """``runs.prepare`` changes settings of the interpreter."""
    interval_s = sys.getswitchinterval()
    runs.prepare()
    yield
    gc.enable()
    sys.setswitchinterval(interval_s)
