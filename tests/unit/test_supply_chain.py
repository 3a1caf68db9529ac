"""``deploy/sbom`` and ``deploy/audit``: what is installed, and what is known of it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).parents[2]


def sbom(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "deploy" / "sbom"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    """One jar that says what it is, one that does not, and one that is none."""
    directory = tmp_path / "jars"
    directory.mkdir()
    with zipfile.ZipFile(directory / "renamed.jar", "w") as archive:
        properties = "#made\nversion=3.4.2\ngroupId=org.apache.hadoop\nartifactId=hadoop-aws\n"
        archive.writestr("META-INF/maven/org.apache.hadoop/hadoop-aws/pom.properties", properties)
    with zipfile.ZipFile(directory / "netty-all-4.1.100.Final.jar", "w"):
        pass
    (directory / "broken.jar").write_text("no jar")
    return directory


def test_it_is_a_document_of_the_standard_and_always_the_same(jars: Path) -> None:
    first, second = sbom(sys.prefix, jars), sbom(sys.prefix, jars)
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(first.stdout) is None
    listed = {each["purl"]: each for each in json.loads(first.stdout)["components"]}
    assert (
        f"pkg:pypi/pyyaml@{importlib.metadata.version('PyYAML')}" in listed or sys.prefix != sys.base_prefix
    )
    hadoop = listed["pkg:maven/org.apache.hadoop/hadoop-aws@3.4.2"]
    digest = hashlib.sha256((jars / "renamed.jar").read_bytes()).hexdigest()
    assert hadoop["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert listed["pkg:generic/netty-all-4.1.100.Final.jar"]["version"] == "4.1.100.Final"
    assert listed["pkg:generic/broken.jar"]["name"] == "broken"


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    assert "name a virtual environment" in sbom(tmp_path).stderr
    assert "is no directory" in sbom(sys.prefix, tmp_path / "nowhere").stderr
    assert "usage:" in sbom().stderr


PACKAGES = {
    "clean": ('{"name": "a", "version": "1", "vulns": []}', 0, "knows nothing of any of the 1 packages"),
    "hurt": (
        '{"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}',
        1,
        "a 1: PYSEC-1, mended in 2",
    ),
    "unknown": ('{"name": "a", "skip_reason": "not found"}', 3, "NOT DONE"),
    "silent": ("", 3, "does not answer"),
}


@pytest.mark.parametrize("case", PACKAGES)
def test_the_audit_tells_clean_from_not_done(case: str, tmp_path: Path) -> None:
    answer, code, said = PACKAGES[case]
    body = f'{{"dependencies": [{answer}]}}' if answer else ""
    double = tmp_path / "pip-audit"
    double.write_text(
        "#!/bin/sh\n"
        'while [ "$#" -gt 0 ]; do [ "$1" = --output ] && out=$2; shift; done\n'
        f"cat >\"$out\" <<'END'\n{body}\nEND\n"
    )
    double.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [ROOT / "deploy" / "audit"], capture_output=True, text=True, timeout=60, env=environ, check=False
    )
    assert (done.returncode, said in done.stdout) == (code, True), done.stdout + done.stderr


def test_an_audit_without_its_tool_is_not_done(tmp_path: Path) -> None:
    environ = {**os.environ, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [ROOT / "deploy" / "audit"], capture_output=True, text=True, timeout=60, env=environ, check=False
    )
    assert done.returncode == 3
    assert "pip install pip-audit" in done.stdout
