"""``tests/run quick [PATH...]``: the loop of an ordinary change, in at most two minutes on two cores.

It runs ruff, mypy, the tests of names and documents, and the unit tests nearest to the changed files: those that git calls
changed or new, or those that are named.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]

ALWAYS = ("tests/unit/test_names.py", "tests/unit/test_docs.py")

MOST_FILES = 30
"""Of the files that only import a changed module, so many are run: a module of ``model`` is imported by nearly all."""


def module_of(path: str) -> str:
    """The dotted name of the module in a file; a package is named by its directory."""
    return ".".join(PurePosixPath(path).with_suffix("").parts).removesuffix(".__init__")


def imported_by(source: str) -> set[str]:
    """Every module, and every name of one, that a source imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def is_named_like(test: str, module: str) -> bool:
    """``tests/unit/a/test_b*.py`` is named like ``supervisor/a/b.py``, and like ``supervisor/a/c/b.py``."""
    room, of = PurePosixPath(test).parts[2:-1], PurePosixPath(module)
    if not room or of.parts[0] != "supervisor" or of.parts[1:-1][: len(room)] != room:
        return False
    return PurePosixPath(test).name.startswith(f"test_{of.stem}")


def choose(changed: Iterable[str], sources: Mapping[str, str], most: int = MOST_FILES) -> list[str]:
    """The test files to run. ``sources``: each unit test file with its text.

    Changed tests come first, then those named like a changed module, then at most ``most`` that import one.
    """
    changed = [path for path in changed if path.endswith(".py")]
    modules = {module_of(path) for path in changed}
    own = {path for path in changed if path in sources}
    named = {path for path in sources if any(is_named_like(path, module) for module in changed)}
    importing = [path for path in sorted(sources) if modules & imported_by(sources[path])]
    far = [path for path in importing if path not in own | named][:most]
    return sorted({*own, *named, *far, *ALWAYS})


def changed_files() -> list[str]:
    """What git calls changed since HEAD, or new."""
    listed = (
        _git("diff", "--name-only", "--diff-filter=d", "HEAD"),
        _git("ls-files", "--others", "--exclude-standard"),
    )
    return sorted({line for text in listed for line in text.splitlines()})


def _git(*words: str) -> str:
    return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main(paths: list[str]) -> int:
    began_at_s = time.monotonic()
    named = [str(Path(path).resolve().relative_to(ROOT)) for path in paths]
    tests = choose(
        named or changed_files(),
        {str(p.relative_to(ROOT)): p.read_text() for p in (ROOT / "tests" / "unit").rglob("test_*.py")},
    )
    commands = (
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("mypy", "--strict", "supervisor"),
        ("pytest", "-q", "-n", "2", *tests),
    )
    failed = []
    for command in commands:
        print(f"-- {' '.join(command[:4])}", flush=True)
        if subprocess.run((sys.executable, "-m", *command), cwd=ROOT).returncode != 0:
            failed.append(command[0])
    print(
        f"{len(tests)} test files, {time.monotonic() - began_at_s:.0f} s; "
        + (f"failed: {', '.join(failed)}" if failed else "all is well")
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
