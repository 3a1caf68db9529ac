"""What the embedded ensemble says when it cannot start. Its real life is tested in tests/integration/test_testbed.py."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from supervisor.demo.ensemble import EmbeddedEnsemble, find_class_path, find_java
from supervisor.errors import NotFound, SupervisorError


def fake_java(home: Path, script: str) -> Path:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return home


def test_java_home_counts_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "exit 0")))
    assert find_java() == tmp_path / "bin" / "java"


def test_missing_java_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NotFound, match=f"{re.escape(str(tmp_path))}.*install Java 17"):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match="install Java 17"):
        find_java()


def test_missing_pyspark_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NotFound, match="pip install pyspark"):
        find_class_path()


def test_the_class_path_is_short_and_holds_the_server() -> None:
    names = [Path(jar).name for jar in find_class_path().split(":")]
    assert any(name.startswith("zookeeper-3") for name in names)
    assert len(names) < 30


def test_a_server_that_exits_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", "echo last words; exit 3")))
    ensemble = EmbeddedEnsemble(tmp_path / "data")
    with pytest.raises(SupervisorError, match=r"node \d exited with 3 \(last words\); see .*zookeeper\.log"):
        ensemble.start()
    assert [ensemble.node(i).pid for i in range(3)] == [None] * 3


def test_taken_ports_are_tried_again_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"echo x >>{tmp_path}/starts; echo java.net.BindException: Address already in use; exit 1"
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", script)))
    with pytest.raises(SupervisorError, match="taken by another process"):
        EmbeddedEnsemble(tmp_path / "data", nodes=1).start()
    assert len((tmp_path / "starts").read_text().split()) == 3
