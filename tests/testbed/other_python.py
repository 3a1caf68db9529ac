"""A Python that is not the supervisor's own: of another minor version, where this machine has one that PySpark runs on."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.testbed.maven import CACHE, cached

MINORS = (12, 13)
MADE_MAX_S = 600


def base_python() -> Path:
    """The interpreter of the newest minor version at hand, its real path; the supervisor's own base if there is no other."""
    for candidate in _candidates():
        probe = [candidate, "-c", "import sys, venv, ensurepip; print(sys._base_executable)"]
        found = subprocess.run(probe, capture_output=True, text=True, timeout=60, check=False)
        if found.returncode == 0:
            return Path(found.stdout.strip()).resolve()
    return Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}").resolve()


def _candidates() -> Iterator[str]:
    for minor in MINORS:
        name = f"python3.{minor}"
        if (found := shutil.which(name)) is not None:
            yield found
        for place in sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}")):
            yield str(place)


def other_venv() -> Path:
    """A virtual environment of that interpreter, with nothing in it."""
    base = base_python()
    place = CACHE / f"venv-{base.name}"
    with cached(place) as missing:
        if missing:
            subprocess.run([base, "-m", "venv", "--without-pip", place], check=True, timeout=MADE_MAX_S)
    return place


def packed_venv(target: Path) -> Path:
    """The same as a tar.gz, as venv-pack makes one: its ``bin/python`` leads to the interpreter of the host."""
    with tarfile.open(target, "w:gz") as tar:
        for path in sorted(other_venv().iterdir()):
            if path.name != ".complete":
                tar.add(path, path.name)
    return target
