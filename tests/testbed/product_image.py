"""The project's own Dockerfile, really built: once per machine and change, whoever asks first."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PRODUCT = "spark-supervisor-test/product"
STAND_IN = "spark-supervisor-test/debian:bookworm-slim"
BUILD_MAX_S = 1500


@lru_cache(maxsize=1)
def product_image() -> str:
    """Name of the image, built from the checkout as it is now. Raises AssertionError with the end of the build's output."""
    build_image(PRODUCT, ROOT, base_image())
    return PRODUCT


def build_image(
    name: str, context: Path, base: str, dockerfile: Path | None = None, **arguments: str
) -> None:
    """``docker build`` with the classic builder; one at a time, so that two test processes share its layer cache.

    ``arguments``: of the Dockerfile, beside BASE.
    """
    command = ["docker", "build", "--network", "host", "-t", name]
    for key, value in {"BASE": base, **arguments}.items():
        command += ["--build-arg", f"{key}={value}"]
    if dockerfile is not None:
        command += ["-f", str(dockerfile)]
    with _alone():
        built = subprocess.run(
            [*command, str(context)],
            env={**os.environ, "DOCKER_BUILDKIT": "0"},
            capture_output=True,
            text=True,
            timeout=BUILD_MAX_S,
            check=False,
        )
    assert built.returncode == 0, built.stdout[-4000:] + built.stderr[-2000:]


def base_image() -> str:
    """BASE_IMAGE if set; else the stand-in, built here where its tools are; else the public one."""
    named = os.environ.get("BASE_IMAGE")
    if named:
        return named
    known = subprocess.run(
        ["docker", "image", "inspect", STAND_IN], capture_output=True, timeout=60, check=False
    )
    if known.returncode and shutil.which("mmdebstrap"):
        subprocess.run(
            [ROOT / "tests" / "testbed" / "build_base_image.sh", STAND_IN], check=True, timeout=300
        )
        return STAND_IN
    return "debian:bookworm-slim" if known.returncode else STAND_IN


@contextmanager
def _alone() -> Iterator[None]:
    path = Path(tempfile.gettempdir()) / f"spark-supervisor-test-build-{os.getuid()}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
