"""deploy/compose.yaml, brought up with the images that this machine can have; ``docker-compose`` or the plugin."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.testbed import docker_engine
from tests.testbed.product_image import ROOT, base_image, build_image, product_image

FILE = ROOT / "deploy" / "compose.yaml"
S3_IMAGE = "spark-supervisor-test/s3"


def command() -> list[str] | None:
    """What runs Compose here, or None."""
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, timeout=30, check=False)
    return ["docker", "compose"] if plugin.returncode == 0 else None


class ComposeStack:
    """A project of its own name. ``ports`` of the file are taken away: several runs share a machine."""

    def __init__(self, directory: Path) -> None:
        self._project = f"sst-{uuid.uuid4().hex[:8]}"
        tool = command()
        assert tool is not None
        published = directory / "compose.yaml"
        text = FILE.read_text().replace("127.0.0.1:8781:8780", "8780").replace("127.0.0.1:8782:8780", "8780")
        published.write_text(text)
        self._base = [
            *tool,
            "-p",
            self._project,
            "-f",
            str(published),
            "--project-directory",
            str(FILE.parent),
        ]
        self._env = {
            **os.environ,
            "BASE_IMAGE": base_image(),
            "SUPERVISOR_IMAGE": product_image(),
            "ZOOKEEPER_IMAGE": docker_engine.zookeeper_image(),
            "S3_IMAGE": os.environ.get("S3_IMAGE", S3_IMAGE),
        }

    def __call__(self, *arguments: str, check: bool = True, timeout_s: float = 240.0) -> str:
        """stdout of ``docker compose ARGUMENTS``."""
        done = subprocess.run(
            [*self._base, *arguments],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def supervisor(self, service: str, *arguments: str, check: bool = True) -> str:
        """stdout of ``spark-supervisor ARGUMENTS`` in the container of ``service``."""
        return self("exec", "-T", service, "spark-supervisor", *arguments, check=check)

    def document(self, service: str, *arguments: str) -> Any:
        return json.loads(self.supervisor(service, *arguments, "-o", "json"))


@contextmanager
def stack(directory: Path) -> Iterator[ComposeStack]:
    """Everything is up when this is entered (not yet ready), and removed with its volumes at the end."""
    if "S3_IMAGE" not in os.environ:
        build_image(S3_IMAGE, ROOT / "tests" / "testbed" / "s3", base_image())
    made = ComposeStack(directory)
    try:
        made("up", "-d", "--no-build")
        yield made
    except BaseException:
        print(made("logs", "--no-color", "--tail", "60", check=False))
        raise
    finally:
        made("down", "--volumes", "--timeout", "1", check=False)
