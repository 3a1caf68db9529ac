"""What YARN says is believed only as far as it makes sense, and no answer of it is worse than none."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.clusters.application import Application, ApplicationStage, ClusterSilent
from supervisor.clusters.examined import of_yarn
from supervisor.clusters.yarn import YarnClient
from supervisor.model.application_tag import tags_of
from supervisor.settings.clusters import ClusterSettings
from tests.unit.clusters.resource_manager import FakeResourceManager, Reply, conf_dir, reply

UID = "0an3kfz9q2xw-0123abcd"
ID = "application_1795704860345_0001"
Start = Callable[..., FakeResourceManager]


def app(**changed: Any) -> dict[str, Any]:
    tags = ",".join(("ours", *tags_of("f00", UID, 2)))
    said = {"id": ID, "user": "spark", "state": "RUNNING", "applicationTags": tags, "diagnostics": " a\nb "}
    return {**said, **changed}


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[FakeResourceManager] = []

    def start(answers: Reply, **options: Any) -> FakeResourceManager:
        made.append(FakeResourceManager(answers, **options))
        return made[-1]

    yield start
    for each in made:
        each.close()


def client(tmp_path: Path, *managers: FakeResourceManager, **more: str) -> YarnClient:
    ids = [f"rm{number}" for number in range(len(managers))]
    properties = {"yarn.resourcemanager.ha.enabled": "true", "yarn.resourcemanager.ha.rm-ids": ",".join(ids)}
    for name, manager in zip(ids, managers, strict=True):
        properties[f"yarn.resourcemanager.webapp.address.{name}"] = f"127.0.0.1:{manager.port}"
    return YarnClient("prod", conf_dir(tmp_path / "conf", {**properties, **more}), "f00")


def listing(*apps: Any) -> Reply:
    return lambda _method, _target: reply({"apps": {"app": list(apps)}})


@pytest.mark.parametrize(
    ("said", "room", "no_room"),
    [
        ((2, 3, 8, 512), "2 nodes, 3 of 8 cores and 512 MiB free", ""),
        ((2, 0, 8, 512), "2 nodes, 0 of 8 cores and 512 MiB free", "no memory or no core is free"),
        ((0, 0, 0, 0), "0 nodes, 0 of 0 cores and 0 MiB free", "no NodeManager is active"),
        (("x", None, [], {}), "0 nodes, 0 of 0 cores and 0 MiB free", "no NodeManager is active"),
    ],
)
def test_what_is_examined(
    start: Start, tmp_path: Path, said: tuple[Any, ...], room: str, no_room: str
) -> None:
    keys = ("activeNodes", "availableVirtualCores", "totalVirtualCores", "availableMB")
    manager = start(lambda _method, _target: reply({"clusterMetrics": dict(zip(keys, said, strict=True))}))
    address = {"yarn.resourcemanager.webapp.address": f"127.0.0.1:{manager.port}"}
    cluster = ClusterSettings(master="yarn", conf_dir=conf_dir(tmp_path / "conf", address))
    found = of_yarn("prod", cluster, 10.0)
    assert (found.room, found.no_room, found.version) == (room, no_room, None)


def test_odd_metrics_are_none(start: Start, tmp_path: Path) -> None:
    with pytest.raises(ClusterSilent, match="is no metrics"):
        client(tmp_path, start(lambda _method, _target: reply([1]))).metrics(10.0)


def test_applications_of_a_job_are_asked_for_by_its_tag(start: Start, tmp_path: Path) -> None:
    manager = start(listing(app(), app(id="application_1_2", state="FINISHED")))
    found = client(tmp_path, manager).applications(UID, 10.0)
    assert found == [
        Application(ID, UID, 2, ApplicationStage.RUNNING, "a b"),
        Application("application_1_2", UID, 2, ApplicationStage.ENDED, "a b"),
    ]
    ((_, target),) = manager.asked
    assert target.startswith(f"/ws/v1/cluster/apps?applicationTags=spark-supervisor-job-{UID}&states=NEW")


def test_what_lives_of_a_registry_is_asked_for_by_its_tag(start: Start, tmp_path: Path) -> None:
    manager = start(listing(app(state="ACCEPTED")))
    (found,) = client(tmp_path, manager).living(10.0)
    assert found.stage is ApplicationStage.WAITING
    ((_, target),) = manager.asked
    assert "applicationTags=spark-supervisor-registry-f00&states=NEW" in target


def test_one_that_does_not_lead_is_passed_over(start: Start, tmp_path: Path) -> None:
    standby = start(lambda *_: reply(b"This is standby RM", 307, "Location: http://127.0.0.1:1/evil\r\n"))
    leading = start(listing(app()))
    assert len(client(tmp_path, standby, leading).living(10.0)) == 1
    leading.answers = standby.answers
    with pytest.raises(ClusterSilent, match="does not lead"):
        client(tmp_path, standby, leading).living(10.0)


def test_none_of_no_job_is_an_answer(start: Start, tmp_path: Path) -> None:
    for empty in ({"apps": None}, {"apps": {}}):
        assert list(client(tmp_path, start(lambda *_, said=empty: reply(said))).living(10.0)) == []


ODD_APPS = (
    None,
    7,
    [],
    {},
    app(applicationTags=None),
    app(applicationTags="ours"),
    app(applicationTags=",".join(tags_of("other", UID, 2))),
    app(state="MELTED"),
    app(state=["RUNNING"]),
    app(id="../../kill"),
    app(id=7),
)


def test_what_makes_no_sense_is_none_of_ours(start: Start, tmp_path: Path) -> None:
    assert list(client(tmp_path, start(listing(*ODD_APPS))).living(10.0)) == []


ODD_ANSWERS = (
    b"",
    b"SSH-2.0-OpenSSH\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 999999 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n{}",
    reply(b"[" * 100_000),
    reply(b"\xff\xfe"),
    reply([]),
    reply(7),
    reply({}),
    reply({"apps": 7}),
    reply({"apps": {"app": 7}}),
    reply({"apps": {"app": {"id": ID}}}),
    reply({"RemoteException": {"message": "no such\nqueue"}}, 400),
    reply({"RemoteException": 7}, 500),
    reply(b"who are you", 401),
)


@pytest.mark.parametrize("answer", ODD_ANSWERS)
def test_an_odd_answer_is_silence(start: Start, tmp_path: Path, answer: bytes) -> None:
    odd = client(tmp_path, start(lambda *_: answer))
    for call in (
        lambda: odd.living(10.0),
        lambda: odd.applications(UID, 10.0),
        lambda: odd.end(Application(ID, UID, 2, ApplicationStage.RUNNING), 10.0),
    ):
        with pytest.raises(ClusterSilent, match="YARN prod"):
            call()


def test_one_that_is_down_or_sends_a_byte_now_and_then_is_silent_in_time(
    start: Start, tmp_path: Path
) -> None:
    gone = start(listing())
    gone.close()
    slow = start(listing(app()), drip_s=0.2)
    began_at_s = time.monotonic()
    with pytest.raises(ClusterSilent, match="does not answer"):
        client(tmp_path, gone, slow).living(1.0)
    assert time.monotonic() - began_at_s < 30.0, "the whole answer would have taken minutes"
    assert len(client(tmp_path, slow, start(listing(app()))).living(4.0)) == 1, "time is left for the other"


def ending(said: dict[str, Any]) -> Reply:
    return lambda method, _target: (
        reply({"app": said}) if method == "GET" else reply({"state": "KILLED"}, 202)
    )


def test_an_application_is_ended_as_its_own_user(start: Start, tmp_path: Path) -> None:
    manager = start(ending(app()))
    client(tmp_path, manager).end(Application(ID, UID, 2, ApplicationStage.RUNNING), 10.0)
    assert manager.asked == [
        ("GET", f"/ws/v1/cluster/apps/{ID}"),
        ("PUT", f"/ws/v1/cluster/apps/{ID}/state?user.name=spark"),
    ]
    assert json.loads(manager.bodies[1]) == {"state": "KILLED"}


@pytest.mark.parametrize(
    "said", [app(applicationTags=",".join(tags_of("f00", UID, 3))), app(applicationTags="")]
)
def test_one_that_is_anothers_is_not_ended(start: Start, tmp_path: Path, said: dict[str, Any]) -> None:
    manager = start(ending(said))
    with pytest.raises(ClusterSilent, match="another's"):
        client(tmp_path, manager).end(Application(ID, UID, 2, ApplicationStage.RUNNING), 10.0)
    assert [method for method, _ in manager.asked] == ["GET"]


def test_one_that_has_ended_is_left_alone_and_a_name_that_is_none_is_never_asked_for(
    start: Start, tmp_path: Path
) -> None:
    manager = start(ending(app(state="KILLED")))
    client(tmp_path, manager).end(Application(ID, UID, 2, ApplicationStage.RUNNING), 10.0)
    assert [method for method, _ in manager.asked] == ["GET"]
    with pytest.raises(ClusterSilent):
        client(tmp_path, manager).end(Application("x/../y", UID, 2, ApplicationStage.RUNNING), 10.0)
    assert len(manager.asked) == 1


def test_a_configuration_that_is_gone_or_an_authority_that_is_none_is_silence(tmp_path: Path) -> None:
    with pytest.raises(ClusterSilent, match="yarn-site.xml"):
        YarnClient("prod", tmp_path / "nowhere", "f00").living(1.0)
    https = {"yarn.http.policy": "HTTPS_ONLY", "yarn.resourcemanager.hostname": "127.0.0.1"}
    there = conf_dir(tmp_path / "conf", https)
    with pytest.raises(ClusterSilent, match="no file of certificates"):
        YarnClient("prod", there, "f00", tmp_path / "no-ca.pem").living(1.0)
