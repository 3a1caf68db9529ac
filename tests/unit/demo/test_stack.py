"""The stack of demo and dev, as far as it can be looked at without starting it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from supervisor.daemon.process.http import Answers, HttpServer
from supervisor.demo import stack
from supervisor.demo.stack import FLEET, JOB, Stack, check_requirements, forget_configuration
from supervisor.errors import SupervisorError
from supervisor.settings.addresses import split_host_port
from supervisor.settings.file import lease_warnings, load_settings
from supervisor.spec.files import read_spec_file
from tests.unit.cli.conftest import Terminal


@pytest.fixture
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started, and everything lies below tmp_path."""
    monkeypatch.setattr("supervisor.demo.ensemble.EmbeddedEnsemble.start", lambda _self: None)
    monkeypatch.setattr(
        "supervisor.demo.ensemble.EmbeddedEnsemble.hosts", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
    )
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_its_files_are_valid_and_lie_in_its_directory(quiet: None, tmp_path: Path) -> None:
    with Stack("test", FLEET, keep=False) as made:
        made.start_ensemble()
        settings = [load_settings(daemon.config, {}) for daemon in made.daemons.values()]
        assert [one.supervisor.id for one in settings] == list(FLEET)
        assert len({one.supervisor.runtime_dir for one in settings}) == 2
        assert len({(one.store.url, one.zookeeper.hosts, one.supervisor.log_dir) for one in settings}) == 1
        spec = read_spec_file(made.spec, settings[0].defaults)
        assert spec.name == JOB and (made.spec.parent / spec.application).is_file()
        assert lease_warnings(spec.lease_s, settings[0].zookeeper.session_timeout_s) == ()
        assert made.directory.is_relative_to(tmp_path.resolve()) and str(made.directory) in str(
            spec.checkpoint
        )
        assert made.find_ended() is None
    assert not made.directory.exists()


def test_a_supervisor_keeps_its_port_and_gives_it_to_nobody(quiet: None) -> None:
    """Also between its death and its restart, when nobody listens there."""
    with Stack("test", FLEET, keep=False) as made:
        made.start_ensemble()
        addresses = [load_settings(daemon.config, {}).supervisor.http for daemon in made.daemons.values()]
        assert len(set(addresses)) == len(FLEET)
        for _attempt in ("first", "restarted"):
            host, port = split_host_port(addresses[0])
            server = HttpServer(host, port, Answers(lambda: True, lambda: (True, ""), bytes, dict))
            server.start()
            assert server.address == addresses[0]
            server.stop()
            with pytest.raises(OSError), socket.socket() as other:
                other.bind((host, port))


def test_the_directory_stays_if_it_shall(quiet: None) -> None:
    with Stack("test", FLEET, keep=True) as kept:
        pass
    assert kept.directory.is_dir()
    with Stack("test", FLEET, keep=False) as kept:
        kept.keep_directory()
    assert kept.directory.is_dir()


def test_the_users_spark_and_configuration_have_no_say(quiet: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "SPARK_SUPERVISOR__CLUSTER", "JAVA_TOOL_OPTIONS"):
        monkeypatch.setenv(name, "/elsewhere")
    with Stack("test", FLEET, keep=False) as made:
        environment = made._environment()
    assert "/elsewhere" not in environment.values() and environment["PATH"]
    mine = {
        "SPARK_SUPERVISOR_CONFIG": "/elsewhere",
        "SPARK_SUPERVISOR__CLUSTER": "x",
        "SPARK_SUPERVISOR_OTHER": "stays",
    }
    monkeypatch.setattr(stack.os, "environ", mine)
    forget_configuration()
    assert mine == {"SPARK_SUPERVISOR_OTHER": "stays"}


def test_an_old_java_is_told_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SupervisorError, match=r"is Java 11, and Spark 4 needs 17 or newer: install it"):
        check_requirements()


@pytest.mark.parametrize("name", ["demo", "dev"])
def test_a_story_is_no_json_document(terminal: Terminal, name: str) -> None:
    ran = terminal.run(name, "-o", "json")
    assert (ran.code, ran.out) == (2, "") and "leave out -o json" in ran.err
