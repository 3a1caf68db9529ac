"""A Python with this project and its libraries that every user of the host may execute.

The one that runs the tests may lie in root's home. Then it is a virtual environment of the system's Python of the same
version, in a directory of its own, which finds the libraries where they are.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

ANYBODY = 65533


@lru_cache(maxsize=1)
def find() -> str | None:
    """Its path, or None if there is none."""
    if _may_execute(sys.executable):
        return sys.executable
    system = shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin:/bin")
    if system is None or not _may_execute(system):
        return None
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    made = Path(tempfile.gettempdir()) / _name(libraries)
    if not (made / "bin" / "python").exists():
        draft = Path(tempfile.mkdtemp(prefix="shared-python-"))
        draft.chmod(0o755)
        try:
            subprocess.run(
                [system, "-m", "venv", "--without-pip", str(draft)], check=True, capture_output=True
            )
            (site,) = draft.glob("lib/python3*/site-packages")
            (site / "shared.pth").write_text("\n".join(libraries) + "\n")
            draft.rename(made)
        except (subprocess.CalledProcessError, ValueError, OSError):
            shutil.rmtree(draft, ignore_errors=True)
    python = str(made / "bin" / "python")
    return python if _may_execute(python, "import kazoo, pydantic") else None


def _name(libraries: list[str]) -> str:
    """The directory's name: another checkout, whose libraries lie elsewhere or are gone, has one of its own."""
    places = hashlib.sha256("\n".join(libraries).encode()).hexdigest()[:12]
    return f"shared-python-{os.getuid()}-{sys.version_info.minor}-{places}"


def _may_execute(python: str, what: str = "") -> bool:
    try:
        ran = subprocess.run(
            [python, "-c", what], user=ANYBODY, group=ANYBODY, extra_groups=[], capture_output=True, cwd="/"
        )
    except OSError:
        return False
    return ran.returncode == 0
