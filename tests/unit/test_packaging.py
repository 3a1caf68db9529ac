"""What the package declares is what it uses: its dependencies, and its version. What is installed from elsewhere is pinned."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import supervisor
from supervisor.cli.main import run_command

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
LOCKED = {
    "requirements.lock": PROJECT["dependencies"],
    "build-requirements.lock": PYPROJECT["build-system"]["requires"],
}
"""Lock files of deploy, with what each of them must answer."""

MODULES = {
    "PyYAML": {"yaml"},
    "boto3": {"boto3"},
    "botocore": {"botocore", "urllib3"},
    "cyclonedx-python-lib": {"cyclonedx"},
    "kafka-python": {"kafka"},
    "prometheus-client": {"prometheus_client"},
    "pyspark": {"pyspark", "py4j"},
    "pydantic": {"pydantic", "pydantic_core", "annotated_types"},
    "typer": {"typer", "click"},
}
"""Of a distribution: what it is imported as, where that is not its name, with what it can't do without."""

TOOLS = {
    "import-linter": "lint-imports",
    "mypy": "mypy --strict",
    "pip-audit": "deploy/audit",
    "pytest-timeout": "\ntimeout = ",
    "pytest-xdist": "--dist loadfile",
    "ruff": "ruff check",
    "types-PyYAML": "mypy --strict",
}
"""Of a distribution that is imported nowhere: what stands in the configuration, or in CI, because of it."""

OWN = {"supervisor", "tests", "failpoints", "counts"}
"""``failpoints``: of tests/crash_points/inject, which is put on the path; ``counts``: an application of tests/e2e, beside another."""


def imported(*roots: str) -> set[str]:
    """Top-level modules of others that the files below ``roots`` import, anywhere in their text."""
    found = set()
    for file in (file for root in roots for file in (ROOT / root).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - OWN


def declared(lines: list[str]) -> dict[str, set[str]]:
    """What each distribution is imported as."""
    names = [Requirement(line).name for line in lines]
    return {name: MODULES.get(name, {name.replace("-", "_")}) for name in names}


PACKAGE, TEST = declared(PROJECT["dependencies"]), declared(PROJECT["optional-dependencies"]["test"])


def test_what_is_imported_is_declared() -> None:
    ours = set().union(*PACKAGE.values())
    assert imported("supervisor") - ours == set()
    examples = {path.stem for path in (ROOT / "conf" / "applications").glob("*.py")}
    assert imported("tests", "conf") - ours.union(examples, *TEST.values()) == set()


def test_what_is_declared_is_used() -> None:
    ours, theirs = imported("supervisor"), imported("tests")
    configuration = (ROOT / "pyproject.toml").read_text() + (ROOT / ".ci" / "run").read_text()
    assert [name for name, modules in PACKAGE.items() if not modules & ours] == []
    unused = {name for name, modules in TEST.items() if not modules & theirs}
    assert unused == {name for name, text in TOOLS.items() if text in configuration}


def test_an_index_of_packages_shows_where_to_read_on() -> None:
    """The pages that are linked are there."""
    urls = PROJECT["urls"]
    assert list(urls) == ["Documentation", "Source", "Changelog", "Issues"]
    assert all(url.startswith(urls["Source"]) for url in urls.values())
    for name in ("Documentation", "Changelog"):
        _, _, path = urls[name].partition("/main/")
        assert path and (ROOT / path).exists()


def test_there_is_one_version(capsys: pytest.CaptureFixture[str]) -> None:
    """It stands in ``supervisor/__init__.py``. The newest entry of the changelog is about it."""
    assert PROJECT["dynamic"] == ["version"]
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "supervisor.__version__"}
    assert importlib.metadata.version("spark-supervisor") == supervisor.__version__
    changelog = (ROOT / "supervisor" / "docs" / "changelog.md").read_text()
    assert re.findall(r"^## (.*)$", changelog, re.MULTILINE)[0] == supervisor.__version__
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out == f"spark-supervisor {supervisor.__version__}\n"


# -- what is installed is pinned ----------------------------------------------------------------------------------


def locked(name: str) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes by the name of the distribution. An entry that pins no version has an empty one."""
    text = "".join(
        line
        for line in (ROOT / "deploy" / name).read_text().splitlines(True)
        if not line.lstrip().startswith("#")
    )
    found = {}
    for entry in text.replace("\\\n", " ").splitlines():
        requirement, *hashes = re.split(r"\s+--hash=", entry.strip())
        parsed = Requirement(requirement)
        pinned = [one.version for one in parsed.specifier if one.operator == "==" and "*" not in one.version]
        found[canonicalize_name(parsed.name)] = (pinned[0] if len(pinned) == 1 else "", hashes)
    return found


def texts() -> Iterator[tuple[str, str]]:
    """Name and text of each file of the checkout that is not made, fetched or installed."""
    made = {".git", ".venv", "cache", "build", "dist", "__pycache__"}
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if path.is_file() and not any(
            part in made or part.endswith(("_cache", ".egg-info")) for part in parts[:-1]
        ):
            yield "/".join(parts), path.read_text(errors="replace")


@pytest.mark.parametrize("lock", LOCKED)
def test_each_entry_of_a_lock_has_one_version_and_its_hashes(lock: str) -> None:
    entries = locked(lock)
    assert entries
    assert {name for name, (version, hashes) in entries.items() if not version or not hashes} == set()
    assert {
        one
        for _, hashes in entries.values()
        for one in hashes
        if not re.fullmatch("sha256:[0-9a-f]{64}", one)
    } == set()


@pytest.mark.parametrize(
    ("lock", "wanted"), [(lock, wanted) for lock, all_of_it in LOCKED.items() for wanted in all_of_it]
)
def test_what_is_declared_is_locked_at_a_version_that_satisfies_it(lock: str, wanted: str) -> None:
    declared = Requirement(wanted)
    version, _ = locked(lock)[canonicalize_name(declared.name)]
    assert declared.specifier.contains(version), f"{wanted}, but {version} is locked: deploy/lock renews it"


def test_the_image_installs_nothing_that_has_no_hash() -> None:
    """Isolation of builds would fetch a setuptools of the day, past the hashes."""
    lines = re.findall(r"pip install (.*?)(?: \\)?$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert [line.split(" -r ")[-1] for line in lines] == [
        "build-requirements.lock",
        "requirements.lock",
        "--no-deps --no-build-isolation .",
    ]
    assert [line for line in lines if "--require-hashes" not in line and "--no-deps" not in line] == []
    assert "--no-build-isolation" in lines[1]


def test_the_base_image_can_be_given_by_its_digest() -> None:
    text = (ROOT / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert set(bases) == {"${BASE}${BASE_DIGEST:+@${BASE_DIGEST}}"}
    assert re.findall(r"^ARG (\w+)", text[: text.index("\nFROM")], re.MULTILINE) == ["BASE", "BASE_DIGEST"]


def test_no_image_is_the_newest_of_the_day() -> None:
    newest = ":" + "latest"
    assert [name for name, text in texts() if newest in text] == []


def images() -> dict[str, str]:
    """Of deploy/compose.yaml: the image of each service where nothing else is set."""
    services: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    return {name: re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", service["image"]) for name, service in services.items()}


def test_each_foreign_image_has_a_tag() -> None:
    assert {
        name for name, image in images().items() if ":" not in image and image != PROJECT["name"]
    } == set()


def test_the_s3_server_to_try_it_is_the_one_of_the_tests() -> None:
    """Its image, what stands in for it, and the range that tests ask for."""
    image, _, version = images()["s3"].partition(":")
    assert image == "motoserver/moto"
    assert f"moto[server]=={version}'" in (ROOT / "tests" / "testbed" / "s3" / "Dockerfile").read_text()
    (wanted,) = (
        one for one in map(Requirement, PROJECT["optional-dependencies"]["test"]) if one.name == "moto"
    )
    assert wanted.specifier.contains(version)


def test_maven_takes_no_file_whose_checksum_is_wrong() -> None:
    call = re.compile(r"""(?:(?<![\w./-])mvn\s+|["']mvn["'],\s*["'])(-\S+|[a-z]+:[a-z]\S*)""")
    calls = [(name, found[1]) for name, text in texts() for found in call.finditer(text)]
    assert {name for name, _ in calls} >= {
        "deploy/s3a-jars/fetch",
        "tests/benchmark_s3.py",
        "tests/testbed/hadoop_cloud.py",
    }
    assert [(name, first) for name, first in calls if first.rstrip("\"',)") != "-C"] == []
