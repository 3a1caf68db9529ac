"""``doctor`` as a person sees it: what is not ok, and how many checks were; and how long it is ready to wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.doctor import command as doctor_command
from supervisor.cli.doctor import job, zookeeper
from supervisor.cli.doctor.examine import ReportLine
from supervisor.cli.doctor.findings import ok, problem, skipped, warning
from supervisor.cli.doctor.phrases import NO_SPEC
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.zookeeper_probe import ServerProbe
from supervisor.errors import Unreachable
from supervisor.settings.file import load_settings
from supervisor.spec.files import read_spec_file
from tests.unit.cli.conftest import Terminal

FINE = [ReportLine("java", "java", ok("it is Java 17"), 5), ReportLine("host", "clock", ok("it runs"), 5)]
JOB = [
    ReportLine("job", "job-files", skipped(NO_SPEC), 1),
    ReportLine("job", "job-master", skipped(NO_SPEC), 1),
]
BAD = [
    ReportLine("store", "store", problem("it is full", "empty it"), 9),
    ReportLine("store", "store-clock", skipped("see store"), 9),
]
HURTS = [ReportLine("host", "host-memory", warning("there is little", "buy more"), 2)]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[ReportLine]:
    lines: list[ReportLine] = []
    monkeypatch.setattr(doctor_command, "examine", lambda _subject, _areas: lines)
    return lines


def test_only_what_is_not_ok_is_told(terminal: Terminal, found: list[ReportLine]) -> None:
    found += [*FINE, *BAD, *HURTS, *JOB]
    ran = terminal.run("doctor")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "problem   store        it is full",
        "              remedy:  empty it",
        "warning   host-memory  there is little",
        "              remedy:  buy more",
        "",
        "2 checks ok, 1 warning, 1 problem, 3 skipped (2 of them need a spec: doctor SPEC.yaml); -v shows all",
    ]


def test_where_all_is_well_there_is_one_line(terminal: Terminal, found: list[ReportLine]) -> None:
    found += FINE
    ran = terminal.run("doctor")
    assert (ran.code, ran.out) == (0, "2 checks ok; -v shows all\n")


@pytest.mark.parametrize("option", ["-v", "--verbose"])
def test_all_is_told_if_asked_for(terminal: Terminal, found: list[ReportLine], option: str) -> None:
    found += [*FINE, *BAD, *JOB]
    ran = terminal.run("doctor", option)
    assert ran.code == 1
    assert [line.split()[:2] for line in ran.out.splitlines() if line and "remedy" not in line][:-1] == [
        ["ok", "java"],
        ["ok", "clock"],
        ["problem", "store"],
        ["skipped", "store-clock"],
        ["skipped", "2"],
    ]
    assert ran.out.splitlines()[-1].startswith("2 checks ok, 1 problem, 3 skipped")
    assert len(terminal.run("doctor", "-o", "json").json["checks"]) == 6


def test_a_busy_host_has_three_times_what_a_quiet_one_needs(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined: list[Any] = []
    monkeypatch.setattr(doctor_command, "examine", lambda subject, _areas: examined.append(subject) or FINE)  # type: ignore[func-returns-value]
    terminal.run("doctor")
    terminal.run("doctor", "--timeout", "90s")
    assert [subject.patience for subject in examined] == [3.0, 6.0]


@pytest.mark.parametrize(("serving", "connect_s"), [(True, 18.0), (False, 6.0)])
def test_a_server_that_is_slow_is_given_its_share_and_one_that_is_down_is_not_waited_for_longer(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    serving: bool,
    connect_s: float,
) -> None:
    asked: dict[str, float] = {}

    class Client:
        def __init__(self, *_: object, request_timeout_s: float, access: object) -> None:
            asked["request"] = request_timeout_s

        def start(self) -> None: ...

        def wait_connected(self, within_s: float) -> None:
            asked["connect"] = within_s
            raise Unreachable("nobody answers")

        def close(self, _within_s: float) -> None: ...

    def probed(_hosts: str, within_s: float, _access: object) -> tuple[ServerProbe, ...]:
        asked["server"] = within_s
        return (ServerProbe("zk:2181", serving, error="" if serving else "connection refused"),)

    monkeypatch.setattr(zookeeper, "ZooClient", Client)
    monkeypatch.setattr(zookeeper, "probe_servers", probed)
    settings = load_settings(terminal.config, {})
    assert zookeeper.collect(Subject(settings, {}, patience=3.0)).error.what == "nobody answers"
    assert asked == {"server": 9.0, "request": 9.0, "connect": connect_s}


def test_a_repository_of_packages_is_given_its_share(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(
        job, "missing_from", lambda _repositories, _name, within_s: asked.append(within_s) or ""
    )  # type: ignore[func-returns-value]
    monkeypatch.setattr(job, "_cached", lambda _name: False)
    spec = read_spec_file(
        Path(terminal.spec("a", "packages: [g:a:1]")), load_settings(terminal.config, {}).defaults
    )
    job.collect_packages(Subject(load_settings(terminal.config, {}), {}, spec, patience=3.0))
    assert asked == [15.0]


def test_a_pom_without_its_jar_in_the_home_is_told_and_not_blamed_on_a_repository(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(job, "missing_from", lambda *_: "")
    settings = load_settings(terminal.config, {})
    spec = read_spec_file(Path(terminal.spec("a", "packages: [org.g:a:1]")), settings.defaults)
    place = tmp_path / ".m2/repository/org/g/a/1"
    place.mkdir(parents=True)
    (place / "a-1.pom").touch()
    ((name, why),) = job.collect_packages(Subject(settings, {}, spec)).missing
    assert name == "org.g:a:1" and why.startswith(f"{place}/a-1.jar is missing beside its pom")
    (place / "a-1.jar").touch()
    assert job.collect_packages(Subject(settings, {}, spec)).missing == ()
