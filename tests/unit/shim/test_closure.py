"""A shim costs memory once per job: what it loads is part of its contract, and what its twin carries even more so."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "pydantic",
    "msgspec",
    "structlog",
    "boto3",
    "botocore",
    "tenacity",
    "typer",
    "yaml",
    "psutil",
    "prometheus_client",
    "pyspark",
    "asyncio",
    "subprocess",
    "pathlib",
    "shutil",
    "datetime",
    "ssl",
    "hashlib",
    "ctypes",
    "concurrent",
    "multiprocessing",
    "urllib",
    "email",
    "http",
    "xml",
    "unittest",
}


@pytest.mark.parametrize(
    ("module", "more"),
    [
        ("supervisor.shim.runner", {"kazoo.client", "kazoo.recipe"}),
        ("supervisor.shim.__main__", {"kazoo", "dataclasses", "inspect", "threading"}),
    ],
)
def test_what_is_loaded_stays_small(module: str, more: set[str]) -> None:
    code = f"import sys; before = set(sys.modules); import {module}; print(*(set(sys.modules) - before), sep='\\n')"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    really = {name for name in shown if name.partition(".")[0] in HEAVY or name in more}
    assert not really - {"ssl", "hashlib"}, "ssl and hashlib are stand-ins (clients/kazoo_parts.py)"
    assert "_ssl" not in shown and "_hashlib" not in shown
