"""What is asked of a Kubernetes API server, what is made of its answers, and that nothing but ClusterSilent comes of odd ones."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from supervisor.clusters.application import Application, ApplicationStage, ClusterSilent
from supervisor.clusters.kubernetes import KubernetesClient
from supervisor.model.pod_labels import (
    ATTEMPT_LABEL,
    REGISTRY_LABEL,
    UID_LABEL,
    application_id,
)
from supervisor.settings.clusters import ClusterSettings
from tests.testbed.certificates import Authority

TOKEN = "eyJhbGciOi.token-of-a-service-account"
UID = "0abcdefghjkm-0123abcd"
OTHER_UID = "0zzzzzzzzzzz-0123abcd"
REGISTRY = "0123456789abcdef0123456789abcdef"
OTHER_REGISTRY = "fedcba9876543210fedcba9876543210"
BASE = "/api/v1/namespaces/spark"
Answer = tuple[int, Any]


def id_of(attempt: int, uid: str = UID) -> str:
    return application_id(REGISTRY, uid, attempt)


class FakeApi:
    """Answers by ``respond(method, path, query)`` with status and body: bytes as they are, anything else as JSON."""

    def __init__(self, authority: Authority) -> None:
        self.asked: list[tuple[str, str, dict[str, str], str]] = []
        self.objects: dict[str, list[dict[str, Any]]] = {"pods": [], "configmaps": []}
        self.respond: Callable[[str, str, dict[str, str]], Answer] = self.as_kubernetes
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _do(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
                outer.asked.append((self.command, parts.path, query, self.headers.get("Authorization", "")))
                status, body = outer.respond(self.command, parts.path, query)
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                if 300 <= status < 400:
                    self.send_header("Location", "https://127.0.0.1:1/")
                self.end_headers()
                with suppress(OSError):  # who has read enough of it goes
                    self.wfile.write(data)

            do_GET = do_DELETE = _do

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        signed = authority.sign("api")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(signed.cert, signed.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def as_kubernetes(self, method: str, path: str, query: dict[str, str]) -> Answer:
        kind = path.removeprefix(f"{BASE}/")
        if kind not in self.objects:
            return 404, {"kind": "Status", "message": "not found"}
        chosen = [each for each in self.objects[kind] if _matches(each, query["labelSelector"])]
        if method == "DELETE":
            self.objects[kind] = [each for each in self.objects[kind] if each not in chosen]
            return 200, {"kind": "Status", "status": "Success"}
        start, limit = int(query.get("continue", 0)), int(query["limit"])
        more = str(start + limit) if start + limit < len(chosen) else ""
        items = chosen[start : start + limit]
        # An empty list of metadata only (ConfigMaps) is null (Kubernetes 1.34).
        return 200, {"metadata": {"continue": more}, "items": items if items or kind == "pods" else None}

    def add_pod(
        self, name: str, attempt: int, phase: str, uid: str = UID, registry: str = REGISTRY, **status: Any
    ) -> None:
        labels = {
            REGISTRY_LABEL: registry,
            UID_LABEL: uid,
            ATTEMPT_LABEL: str(attempt),
            "spark-app-selector": id_of(attempt, uid),
        }
        self.objects["pods"].append(
            {"metadata": {"name": name, "labels": labels}, "status": {"phase": phase, **status}}
        )

    def add_config_map(self, name: str, application: str) -> None:
        labels = {"spark-app-selector": application, "spark-role": "executor"}
        self.objects["configmaps"].append({"metadata": {"name": name, "labels": labels}})


def _matches(item: dict[str, Any], selector: str) -> bool:
    """Equality and ``in``, as far as the client uses them."""
    labels = item["metadata"]["labels"]
    equal, _, chosen = selector.partition(",spark-app-selector in (")
    wanted = dict(part.split("=") for part in equal.split(","))
    is_same = all(labels.get(name) == value for name, value in wanted.items())
    return is_same and (not chosen or labels["spark-app-selector"] in chosen.rstrip(")").split(","))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def api(authority: Authority) -> Iterator[FakeApi]:
    made = FakeApi(authority)
    yield made
    made.close()


def client_of(api: FakeApi, authority: Authority, tmp_path: Path, **said: Any) -> KubernetesClient:
    (tmp_path / "token").write_text(TOKEN + "\n")
    body: dict[str, Any] = {
        "master": f"k8s://https://127.0.0.1:{api.port}",
        "namespace": "spark",
        "ca": str(authority.ca),
        "token_file": str(tmp_path / "token"),
        **said,
    }
    return KubernetesClient("k8s", ClusterSettings.model_validate(body), REGISTRY)


@pytest.fixture
def client(api: FakeApi, authority: Authority, tmp_path: Path) -> KubernetesClient:
    return client_of(api, authority, tmp_path)


def test_what_is_examined_is_the_version_and_the_right_to_list_pods(
    api: FakeApi, client: KubernetesClient
) -> None:
    may_list = True

    def respond(_method: str, path: str, _query: dict[str, str]) -> Answer:
        if path == "/version":
            return 200, {"gitVersion": "v1.34.4"}
        return (200, {"metadata": {}, "items": []}) if may_list else (403, {"message": "no"})

    api.respond = respond
    assert (
        client.version_where_pods_are_listed(5) == "Kubernetes v1.34.4 answers, and its token may list pods"
    )
    may_list = False
    with pytest.raises(ClusterSilent, match="403"):
        client.version_where_pods_are_listed(5)


def test_pods_and_config_maps_are_those_of_attempts(api: FakeApi, client: KubernetesClient) -> None:
    api.add_pod("a-1", 1, "Succeeded")
    api.add_pod("a-2", 2, "Running")
    api.add_pod("a-3", 2, "Pending")
    api.add_pod("other", 1, "Running", uid=OTHER_UID)
    api.add_config_map("of-2", id_of(2))
    api.add_config_map("alone", id_of(3))
    api.add_config_map("foreign", "spark-0123456789")
    assert list(client.applications(UID, 5)) == [
        Application(id_of(1), UID, 1, ApplicationStage.ENDED, "", ("pod/a-1",)),
        Application(id_of(2), UID, 2, ApplicationStage.RUNNING, "", ("configmap/of-2", "pod/a-2", "pod/a-3")),
        Application(id_of(3), UID, 3, ApplicationStage.ENDED, "", ("configmap/alone",)),
    ]
    assert all(authorization == f"Bearer {TOKEN}" for *_, authorization in api.asked)


def test_all_jobs_of_this_registry_are_found_and_none_of_another(
    api: FakeApi, client: KubernetesClient
) -> None:
    api.add_pod("a", 1, "Running")
    api.add_pod("b", 7, "Failed", uid=OTHER_UID)
    api.add_pod("c", 1, "Running", registry=OTHER_REGISTRY)
    api.add_config_map("d", application_id(OTHER_REGISTRY, UID, 3))
    api.add_config_map("e", id_of(8, OTHER_UID))
    found = [(each.uid, each.attempt, each.stage, each.left) for each in client.living(5)]
    assert found == [
        (UID, 1, ApplicationStage.RUNNING, ("pod/a",)),
        (OTHER_UID, 7, ApplicationStage.ENDED, ("pod/b",)),
        (OTHER_UID, 8, ApplicationStage.ENDED, ("configmap/e",)),
    ]


def test_only_one_attempt_is_ended_with_its_config_maps(api: FakeApi, client: KubernetesClient) -> None:
    for attempt in (5, 6):
        api.add_pod(f"a-{attempt}", attempt, "Running")
        api.add_config_map(f"c-{attempt}", id_of(attempt))
    api.add_config_map("given-id", "users-own-id")
    (fifth, _) = client.applications(UID, 5)
    client.end(fifth, 5)
    assert [each["metadata"]["name"] for each in api.objects["pods"]] == ["a-6"]
    assert [each["metadata"]["name"] for each in api.objects["configmaps"]] == ["c-6", "given-id"]
    client.end(Application("users-own-id", UID, 5, ApplicationStage.ENDED), 5)
    assert [each["metadata"]["name"] for each in api.objects["configmaps"]] == ["c-6", "given-id"], (
        "other attempts may have that id, too"
    )


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes",
                    }
                ]
            },
            "Unschedulable: 0/3 nodes",
        ),
        (
            {
                "containerStatuses": [
                    {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such\nimage"}}}
                ]
            },
            "ErrImagePull: no such image",
        ),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        ({"conditions": [{"type": "PodScheduled", "status": "True"}]}, ""),
        ({"conditions": "odd", "containerStatuses": [None, {"state": []}]}, ""),
    ],
)
def test_why_a_pod_waits_is_told_in_the_clusters_words(
    api: FakeApi, client: KubernetesClient, status: dict[str, Any], says: str
) -> None:
    api.add_pod("a", 1, "Pending", **status)
    (found,) = client.applications(UID, 5)
    assert (found.stage, found.says) == (ApplicationStage.WAITING, says)


def test_a_pod_that_is_being_deleted_or_of_an_unknown_phase_still_runs(
    api: FakeApi, client: KubernetesClient
) -> None:
    api.add_pod("a", 1, "Running")
    api.objects["pods"][0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api.add_pod("b", 2, "Unknown")
    assert [each.stage for each in client.applications(UID, 5)] == [
        ApplicationStage.RUNNING,
        ApplicationStage.RUNNING,
    ]


def test_a_long_list_comes_in_pages(api: FakeApi, client: KubernetesClient) -> None:
    for number in range(601):
        api.add_pod(f"a-{number}", 1, "Running")
    (found,) = client.applications(UID, 30)
    assert len(found.left) == 601
    assert sum(path.endswith("/pods") for _, path, _, _ in api.asked) == 7


DEEP = b"[" * 100_000
ODD: dict[str, Answer] = {
    "no json": (200, b"<html>hello</html>"),
    "a list": (200, b"[]"),
    "deep": (200, DEEP),
    "no items": (200, {"kind": "Status"}),
    "items of no list": (200, {"items": {}, "metadata": {}}),
    "no metadata": (200, {"items": []}),
    "pages without end": (200, {"items": [], "metadata": {"continue": "again"}}),
    "a redirect": (302, {}),
    "forbidden": (403, {"message": f"no, {TOKEN} may not\nlist"}),
    "unauthorized": (401, b"\xff\xfe"),
    "a failure": (500, {"message": ["odd"]}),
    "too much": (200, b" " * (33 * 2**20)),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_answer_is_silence(api: FakeApi, client: KubernetesClient, name: str) -> None:
    api.respond = lambda *_: ODD[name]
    with pytest.raises(ClusterSilent) as caught:
        client.applications(UID, 20)
    assert TOKEN not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_odd_items_are_of_nobody(api: FakeApi, client: KubernetesClient) -> None:
    labels = {REGISTRY_LABEL: REGISTRY, UID_LABEL: UID, ATTEMPT_LABEL: "-1"}
    odd = [None, 7, {}, {"metadata": None}, {"metadata": {"labels": [1]}}, {"metadata": {"labels": labels}}]
    api.respond = lambda *_: (200, {"items": odd, "metadata": {}})
    assert list(client.applications(UID, 5)) == []


def test_what_trickles_or_hangs_ends_with_the_time(api: FakeApi, client: KubernetesClient) -> None:
    held = threading.Event()

    def hang(*_: object) -> Answer:
        held.wait(30)
        return 200, {}

    api.respond = hang
    began_at_s = time.monotonic()
    with pytest.raises(ClusterSilent, match="does not answer .*timed out"):
        client.applications(UID, 0.5)
    held.set()
    assert time.monotonic() - began_at_s < 20


def test_another_authority_is_not_trusted(api: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    with pytest.raises(ClusterSilent, match="certificate verify failed"):
        client_of(api, other, tmp_path).applications(UID, 5)
    assert api.asked == []


def test_what_is_missing_is_named(api: FakeApi, authority: Authority, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    with pytest.raises(ClusterSilent, match="token_file .*nowhere can't be read"):
        client_of(api, authority, tmp_path, token_file=nowhere).applications(UID, 5)
    with pytest.raises(ClusterSilent, match="ca .*nowhere can't be read"):
        client_of(api, authority, tmp_path, ca=nowhere).applications(UID, 5)
    with pytest.raises(ClusterSilent, match="does not answer"):
        client_of(api, authority, tmp_path, master="k8s://https://127.0.0.1:1").applications(UID, 5)


def test_over_plain_http_no_token_is_sent(api: FakeApi, authority: Authority, tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Plain)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    plain = f"k8s://http://127.0.0.1:{server.server_address[1]}"
    assert list(client_of(api, authority, tmp_path, master=plain).applications(UID, 5)) == []
    server.shutdown()
    server.server_close()
    assert _Plain.seen == ["", ""]


class _Plain(BaseHTTPRequestHandler):
    seen: list[str] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization", ""))
        data = b'{"items": [], "metadata": {}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def test_nothing_is_deleted_without_a_job(client: KubernetesClient, api: FakeApi) -> None:
    for uid, attempt in (("", 1), (UID, 0), ("a,b", 1)):
        with pytest.raises(ClusterSilent, match="of no attempt"):
            client.end(Application("x", uid, attempt, ApplicationStage.ENDED), 5)
    assert list(client.applications("not a label!", 5)) == []
    assert api.asked == []
