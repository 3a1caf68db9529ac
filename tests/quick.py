"""``tests/run quick [PATH...]``: the loop of an ordinary change, in at most two minutes on two cores.

It runs ruff, mypy, lint-imports, the tests of names, documents and golden records, and the unit tests nearest to the changed
files: those that git calls changed or new, or those that are named.

``tests/run for ROOM...`` runs the same checks, all tests of these rooms, each test beside them that imports one, and those
that read the whole package. It is for a change that is about to be taken, and needs minutes.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from tests.results import Measured

ROOT = Path(__file__).resolve().parents[1]

ALWAYS = (
    "tests/golden/test_records.py",
    "tests/golden/test_specs.py",
    "tests/unit/test_docs.py",
    "tests/unit/test_names.py",
)

WHOLE = ("tests/unit/test_*.py", "tests/golden/test_*.py", "tests/explore/test_defects.py")
"""The tests that read all sources, or hold what has left the package."""

SUITES = ("unit", "golden", "contract", "property", "incidents", "attacks")
"""Those whose files take seconds each, but for the tests with one of these marks."""
NOT_HERE = "not (slow or spark or docker or kubernetes or systemd_analyze or browser)"

MOST_FILES = 24
"""Of the files that only import a changed module, so many are run: a module of ``model`` is imported by nearly all."""

PAGES = ("tests/unit/cli/test_pages.py", "tests/unit/test_reference.py", "tests/unit/test_runbooks.py")

READERS: dict[str, tuple[str, ...]] = {
    "README.md": PAGES,
    "supervisor/**/*.md": PAGES,
    "supervisor/cli/*.py": ("tests/unit/cli/test_lazy.py",),
    "conf/**": ("tests/unit/test_conf.py", "tests/unit/test_reference.py"),
    "deploy/**": (
        "tests/unit/test_deploy_kubernetes.py",
        "tests/unit/test_deploy_monitoring.py",
        "tests/unit/test_deploy_units.py",
        "tests/unit/test_runbooks.py",
    ),
    "pyproject.toml": ("tests/unit/test_packaging.py",),
}
"""The tests that read a changed file without importing it, by what its path is like; ``**`` is any number of directories."""


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


def reads(pattern: str, path: str) -> bool:
    """Whether a path fits a pattern of ``READERS``."""
    directory, any_depth, name = pattern.partition("/**")
    if any_depth:
        return path.startswith(f"{directory}/") and PurePosixPath(path).match(name.lstrip("/") or "*")
    return len(PurePosixPath(path).parts) == len(PurePosixPath(pattern).parts) and PurePosixPath(path).match(
        pattern
    )


def choose(changed: Iterable[str], sources: Mapping[str, str], most: int = MOST_FILES) -> list[str]:
    """The test files to run. ``sources``: each test file of ``unit_tests`` with its text.

    Changed tests come first, then those that read a changed file, those named like a changed module, and at most ``most``
    that import one: those that import least besides, because they are about the module, and quick.
    """
    changed = list(changed)
    own = {path for path in changed if path in sources}
    readers = {
        test for path in changed for like, tests in READERS.items() if reads(like, path) for test in tests
    }
    code = [path for path in changed if path.endswith(".py")]
    named = {path for path in sources if any(is_named_like(path, module) for module in code)}
    modules = {module_of(path) for path in code}
    imports = {path: imported_by(text) for path, text in sources.items()} if modules else {}
    importing = sorted((len(names), path) for path, names in imports.items() if modules & names)
    far = [path for _, path in importing if path not in own | named][:most]
    return sorted({*own, *readers, *named, *far, *ALWAYS})


def choose_for(rooms: Iterable[str], sources: Mapping[str, str]) -> list[str]:
    """The test files that a change in ``rooms`` (``plan``, ``daemon/host``) needs. ``sources``: each test file of ``SUITES``
    with its text. Raises SystemExit for what is no room."""
    chosen: set[str] = {path for path in sources if any(PurePosixPath(path).match(like) for like in WHOLE)}
    for room in rooms:
        if not (ROOT / "supervisor" / room / "__init__.py").is_file():
            raise SystemExit(f"there is no room supervisor/{room}")
        package = f"supervisor.{room.replace('/', '.')}"
        chosen.update(path for path in sources if path.startswith(f"tests/unit/{room}/"))
        chosen.update(
            path
            for path, text in sources.items()
            if any(name == package or name.startswith(f"{package}.") for name in imported_by(text))
        )
    return sorted({*chosen, *WHOLE[2:]})


def changed_files() -> list[str]:
    """What git calls changed since HEAD, or new."""
    listed = (
        _git("diff", "--name-only", "--diff-filter=d", "HEAD"),
        _git("ls-files", "--others", "--exclude-standard"),
    )
    return sorted({line for text in listed for line in text.splitlines()})


def _git(*words: str) -> str:
    return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=True).stdout


def unit_tests() -> dict[str, str]:
    """Each file of unit tests, and of those that hold golden files, with its text."""
    return files_of(("unit", "golden"))


def files_of(suites: Iterable[str]) -> dict[str, str]:
    """Each test file of these suites with its text."""
    files = (path for suite in suites for path in (ROOT / "tests" / suite).rglob("test_*.py"))
    return {str(path.relative_to(ROOT)): path.read_text() for path in files}


def run(tests: list[str], marks: tuple[str, ...] = ()) -> tuple[int, float, list[str]]:
    """Run the checks and these test files: how many files that were, the seconds, and what failed."""
    began_at_s = time.monotonic()
    python = (sys.executable, "-m")
    commands: tuple[tuple[str, ...], ...] = (
        (*python, "ruff", "check", "."),
        (*python, "ruff", "format", "--check", "."),
        (*python, "mypy", "--strict", "supervisor"),
        (str(Path(sys.executable).parent / "lint-imports"),),
        (*python, "pytest", "-q", "-n", "2", *marks, *tests),
    )
    failed = []
    for command in commands:
        words = command[2:6] if command[: len(python)] == python else ("lint-imports",)
        print(f"-- {' '.join(words)}", flush=True)
        if subprocess.run(command, cwd=ROOT).returncode != 0:
            failed.append(" ".join(words[:2]))
    took_s = time.monotonic() - began_at_s
    said = f"failed: {', '.join(failed)}" if failed else "all is well"
    print(f"{len(tests)} test files, {took_s:.0f} s; {said}", flush=True)
    return len(tests), took_s, failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/run quick", description=__doc__)
    parser.add_argument("path", nargs="*", help="take these files for the changed ones")
    parser.add_argument(
        "--write-results",
        action="store_true",
        help="measure a change of each path by itself, and write the figures to tests/RESULTS.md",
    )
    parser.add_argument(
        "--for", dest="rooms", nargs="+", metavar="ROOM", help="run what a change in these rooms needs"
    )
    asked = parser.parse_args()
    if asked.rooms:
        return 1 if run(choose_for(asked.rooms, files_of(SUITES)), ("-m", NOT_HERE))[2] else 0
    named = [str(Path(path).resolve().relative_to(ROOT)) for path in asked.path]
    if not asked.write_results:
        return 1 if run(choose(named or changed_files(), unit_tests()))[2] else 0
    measured = Measured(".", "tests.quick")
    runs = {path: run(choose([path], unit_tests())) for path in named}
    rows = [
        (path, str(count), f"{took_s:.0f}", ", ".join(failed) or "nothing")
        for path, (count, took_s, failed) in runs.items()
    ]
    measured.write("tests/run quick", ("changed file", "test files", "seconds", "failed"), rows)
    return 1 if any(failed for _, _, failed in runs.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
