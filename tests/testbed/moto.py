"""A real S3 API on loopback: moto's server as a process of its own, so that drivers (S3A) and the product share it.

Used through the fixtures ``moto_server`` and ``s3_bucket``. Its keys are invented; no real credentials are ever read.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest

from supervisor.demo.death_guard import DeathGuard
from tests.waiting import wait_until

REGION = "us-east-1"
# The full set, so that no configuration, credential or metadata service of the machine is ever looked at.
AWS_ENV = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing-testing",  # MinIO takes none of less than eight characters
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def use_only(patch: pytest.MonkeyPatch, env: Mapping[str, str]) -> None:
    """Of AWS's variables this process has those in ``env``, and no others; and what else is in it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        patch.delenv(name)
    for name, value in env.items():
        patch.setenv(name, value)


class S3Server:
    """What tests want of any server that takes the keys of ``AWS_ENV``."""

    endpoint_url: str
    s3a: Mapping[str, str] = {}
    """What a driver's S3A needs besides: Spark properties."""

    def client(self) -> Any:
        """A boto3 S3 client for tests that look behind the product's back."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name=REGION,
            aws_access_key_id=AWS_ENV["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=AWS_ENV["AWS_SECRET_ACCESS_KEY"],
        )

    def new_bucket(self) -> str:
        """Create a bucket of its own for a test; returns its name."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        return name


class MotoServer(S3Server):
    """``endpoint_url`` and ``env`` (what a process needs in its environment to be let in)."""

    def __init__(self, directory: Path, script: str = "moto_server.py") -> None:
        self._log = directory / "moto.log"
        self._guard = DeathGuard()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    str(Path(__file__).with_name(script)),
                    "-H",
                    "127.0.0.1",
                    "-p",
                    "0",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._guard.watch(self._process.pid)
        self.endpoint_url = wait_until(self._announced, 30, "moto to name its port")
        self.port = int(self.endpoint_url.rsplit(":", 1)[1])
        self.env = dict(AWS_ENV)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._guard.dismiss()

    def _announced(self) -> str | None:
        if self._process.poll() is not None:
            raise AssertionError(f"moto exited: {self._log.read_text()}")
        found = re.search(r"Running on (http://127\.0\.0\.1:\d+)", self._log.read_text(errors="replace"))
        return found.group(1) if found else None
