"""The facts of doctor about clusters: what is asked, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.doctor import clusters
from supervisor.cli.doctor.subject import Subject
from supervisor.clients.binding import why_not_bound
from supervisor.clients.tools import Ran
from supervisor.clusters.application import ClusterSilent
from supervisor.clusters.examined import ClusterAnswer
from supervisor.model.master import ClusterKind
from supervisor.settings.clusters import ClusterSettings
from supervisor.settings.file import Settings

ANSWER = ClusterAnswer("m1:8080 is ALIVE", version="4.3.0", room="1 worker, 2 of 2 cores free")


def subject(**named: ClusterSettings) -> Subject:
    settings = Settings.model_validate(
        {"cluster": "c", "zookeeper": {"hosts": "zk:2181"}, "store": {"url": "file:///s"}}
    )
    return Subject(settings.model_copy(update={"clusters": named}), {})


def test_what_is_collected_of_each_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def ask(_name: str, cluster: ClusterSettings, timeout_s: float) -> ClusterAnswer:
        assert 0 < timeout_s < 13.0
        if "m2" in cluster.master:
            raise ClusterSilent("no master answers: down")
        return ANSWER

    monkeypatch.setattr(clusters, "EXAMINERS", {ClusterKind.STANDALONE: ask})
    found = clusters.collect(
        subject(
            prod=ClusterSettings(master="spark://m1:7077", driver_host="127.0.0.1"),
            test=ClusterSettings(master="spark://m2:7077", driver_host="192.0.2.7"),
            behind=ClusterSettings(
                master="spark://m1:7077", driver_host="192.0.2.7", conf={clusters.BIND_ADDRESS: "0.0.0.0"}
            ),
            yarn=ClusterSettings(master="yarn", conf_dir=tmp_path),
        )
    )
    by_name = {each.name: each for each in found.clusters}
    assert (by_name["prod"].answer, by_name["prod"].unbound) == (ANSWER, "")
    assert by_name["test"].silent == "no master answers: down"
    assert "192.0.2.7 is no address of this host" in by_name["test"].unbound
    assert by_name["behind"].unbound == ""
    assert (by_name["yarn"].answer, by_name["yarn"].silent) == (None, "")


def test_the_tiny_application_is_run_only_if_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []

    def run(argv: list[str], env: dict[str, str], timeout_s: float) -> Ran:
        ran.append((argv, env, timeout_s))
        return Ran(0, "an executor of this cluster says 42\n", "")

    monkeypatch.setattr(clusters, "run_tool", run)
    one = subject(
        prod=ClusterSettings(master="spark://m1:7077", conf={"spark.cores.max": "8", "spark.x": "y"})
    )
    assert clusters.collect_deep(one).why_not == clusters.NOT_DEEP
    assert clusters.collect_deep(subject()).why_not == clusters.NO_CLUSTER
    assert ran == []
    found = clusters.collect_deep(replace(one, deep=True))
    (argv, env, timeout_s) = ran[0]
    assert [name for name, _ in found.ran] == ["prod"]
    assert argv[0] == "timeout" and argv[4:6] == ["--master", "spark://m1:7077"]
    assert "spark.cores.max=1" in argv and "spark.x=y" in argv
    assert "SPARK_HOME" in env and 0 < timeout_s <= clusters.DEEP_S
    assert not found.ran[0][1].late
    compile(clusters.APPLICATION, "tiny.py", "exec")


@pytest.mark.parametrize("code", clusters.TIMED_OUT)
def test_an_application_that_gets_no_executor_is_ended_in_order_and_late(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(clusters, "run_tool", lambda argv, env, timeout_s: Ran(code, "", ""))
    one = replace(subject(prod=ClusterSettings(master="spark://m1:7077")), deep=True)
    ((_, ran),) = clusters.collect_deep(one).ran
    assert ran.late and "did not end within" in ran.error


def test_what_can_not_be_bound() -> None:
    assert why_not_bound("127.0.0.1", 20.0) == ""
    assert "is not resolved" in why_not_bound("no-such-host.invalid", 20.0)
