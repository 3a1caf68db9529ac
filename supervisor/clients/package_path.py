"""Says where a child process finds this package, which need not be installed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PACKAGE_PARENT = str(Path(__file__).resolve().parents[2])


def python_path(environment: Mapping[str, str]) -> str:
    """Returns the ``PYTHONPATH`` for a child that gets ``environment``: this package comes first."""
    return os.pathsep.join(filter(None, (PACKAGE_PARENT, environment.get("PYTHONPATH", ""))))
