"""``api.service``: the documents are those of ``-o json``; pages, tags, errors, and what a URL may hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from supervisor.errors import Unreachable
from supervisor.operations import cluster_status
from tests.unit.api.conftest import Fleet

JOB = "clicks"

SAME = {
    "list": "/jobs",
    "list --all": "/jobs?all=true",
    "list clicks over": "/jobs?name=clicks&name=over",
    f"show {JOB}": f"/jobs/{JOB}",
    "show fails": "/jobs/fails",
    "show backs-off": "/jobs/backs-off",
    f"history {JOB}": f"/jobs/{JOB}/history",
    "history fails --all": "/jobs/fails/history?all=true",
    "explain": "/explain",
    f"explain {JOB}": f"/jobs/{JOB}/explain",
    "explain late": "/jobs/late/explain",
    "explain fails": "/jobs/fails/explain",
    "status": "/status",
}
"""By command: the path that gives the same."""


@pytest.mark.parametrize("words", SAME)
def test_a_document_is_that_of_the_command_line(fleet: Fleet, words: str) -> None:
    ran = fleet.terminal.run(*words.split(), "-o", "json")
    assert ran.code == 0, ran.err
    assert without_renewals(fleet.document(SAME[words])) == without_renewals(ran.json)


def without_renewals(document: Any) -> Any:
    """When a lease was renewed, both compute from how long ago they find that it was: it is the same but for milliseconds."""
    if isinstance(document, list):
        return [without_renewals(each) for each in document]
    if isinstance(document, dict):
        return {key: without_renewals(value) for key, value in document.items() if key != "renewed_at"}
    return document


def test_hosts_are_the_supervisors_of_status(fleet: Fleet) -> None:
    hosts = fleet.document("/hosts")
    assert [host["id"] for host in hosts] == ["host-a", "host-b"]
    assert hosts == fleet.terminal.run("status", "-o", "json").json["supervisors"]


def test_nothing_was_ever_submitted(empty: Fleet) -> None:
    assert empty.document("/jobs") == []
    code, error = empty.error("/jobs/clicks/explain")
    assert (code, error["exit_code"]) == (404, 3)
    assert "nothing was ever submitted" in error["error"]


def test_jobs_by_their_labels(empty: Fleet) -> None:
    for name, labels in (("a", "labels: {team: web}"), ("b", "labels: {team: data}"), ("c", "")):
        assert empty.terminal.run("submit", empty.terminal.spec(name, labels)).code == 0
    assert [job["name"] for job in empty.document("/jobs?selector=team%3Dweb")] == ["a"]
    assert [job["name"] for job in empty.document("/jobs?selector=team!=web&selector=team")] == ["b"]
    assert empty.error("/jobs?selector=%2C")[1]["exit_code"] == 2


# -- pages ----------------------------------------------------------------------------------------------------------------


def names(document: list[dict[str, Any]]) -> list[str]:
    return [job["name"] for job in document]


def test_pages_together_are_the_list(fleet: Fleet) -> None:
    whole, path, found, pages = fleet.document("/jobs"), "/jobs?limit=2", [], 0
    while path:
        response = fleet.ask(path)
        page = json.loads(response.body)
        assert 0 < len(page) <= 2
        found, pages = [*found, *page], pages + 1
        link = response.headers.get("Link", "")
        path = link.partition(">")[0].removeprefix("</api/v1") if link else ""
    assert found == whole and pages == -(-len(whole) // 2)


def test_the_link_to_the_next_page_keeps_what_was_asked(empty: Fleet) -> None:
    for name in ("a", "b", "c"):
        empty.terminal.run("submit", empty.terminal.spec(name, "labels: {team: web}"))
    link = empty.ask("/jobs?selector=team%3Dweb&limit=1&all=true").headers["Link"]
    target = urlsplit(link.partition(">")[0].removeprefix("<"))
    assert set(target.query.split("&")) == {"selector=team%3Dweb", "limit=1", "all=true", "after=a"}
    assert link.endswith('; rel="next"')


def test_submissions_of_one_name_are_not_divided(empty: Fleet) -> None:
    for name in ("a", "a", "b"):
        empty.terminal.submit(name)
        assert empty.terminal.run("cancel", name).code == 0
    response = empty.ask("/jobs?all=true&limit=1")
    assert names(json.loads(response.body)) == ["a", "a"]
    assert "after=a" in response.headers["Link"]
    last = empty.ask("/jobs?all=true&limit=1&after=a")
    assert names(json.loads(last.body)) == ["b"] and "Link" not in last.headers


# -- tags -----------------------------------------------------------------------------------------------------------------


def test_what_the_client_has_is_not_sent_again(fleet: Fleet) -> None:
    first = fleet.ask("/jobs")
    tag = first.headers["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = fleet.ask("/jobs", if_none_match=known)
        assert (again.code, again.body, again.headers["ETag"]) == (304, b"", tag)
    assert fleet.ask("/jobs", if_none_match='"other"').code == 200
    assert fleet.ask("/jobs?limit=1").headers["ETag"] != tag


def test_head_is_as_get(fleet: Fleet) -> None:
    got, head = fleet.ask("/status"), fleet.ask("/status", "HEAD")
    assert (head.code, head.headers) == (got.code, got.headers)


# -- errors ---------------------------------------------------------------------------------------------------------------

WRONG = {
    "": 404,
    "/": 404,
    "/jobs/": 404,
    "/jobs/clicks/": 404,
    "/jobs/clicks/spec": 404,
    "/jobs/nobody": 404,
    "/jobs/nobody/history": 404,
    "/jobs/nobody/explain": 404,
    "/jobs/clicks/history?uid=nothing": 404,
    "/jobs?limit=0": 400,
    "/jobs?limit=1e3": 400,
    "/jobs?limit=-1": 400,
    "/jobs?limit=1&limit=2": 400,
    "/jobs?all=yes": 400,
    "/jobs?colour=red": 400,
    "/jobs?name=a&selector=b": 400,
    "/jobs?after": 400,
    "/jobs?" + "&".join(["name=a"] * 100): 400,
    "/jobs?name=" + "a" * 1000: 400,
    "/jobs?name=%ff": 400,
    "/status?all=true": 400,
    "/jobs/clicks/history?uid=a&all=true": 400,
}


def test_what_is_wrong_is_answered_with_a_document(fleet: Fleet) -> None:
    for path, wanted in WRONG.items():
        code, error = fleet.error(path)
        assert code == wanted, path
        assert set(error) == {"error", "remedy", "exit_code"}
        assert error["exit_code"] == {404: 3, 400: 2}[code]


HOSTILE = (
    "..",
    ".",
    "%2e%2e",
    "..%2f..%2fzookeeper",
    "a%00b",
    "a/../b",
    "Clicks",
    "clicks%0a",
    "-",
    "a" * 64,
    "clicks;x",
    "clicks#x",
    "\u00e9",
    "clicks\n",
)


def test_a_hostile_name_leads_to_nothing(empty: Fleet) -> None:
    for name in HOSTILE:
        for below in ("", "/history", "/explain"):
            assert empty.error(f"/jobs/{name}{below}")[0] == 404, name
    assert empty.terminal.bench.clients == [], "nothing was asked"


def test_other_methods_are_not_allowed(empty: Fleet) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", ""):
        response = empty.ask("/jobs/clicks", method)
        assert (response.code, response.headers["Allow"]) == (405, "GET, HEAD")
        assert json.loads(response.body)["exit_code"] == 2


def test_an_error_is_the_one_of_the_command_line(fleet: Fleet) -> None:
    ran = fleet.terminal.run("show", "clickz")
    _, error = fleet.error("/jobs/clickz")
    assert ran.err == f"error: {error['error']}\n" and error["exit_code"] == ran.code
    assert "did you mean clicks?" in error["error"]


def test_zookeeper_does_not_answer(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    down(fleet, monkeypatch)
    for path in ("/jobs", "/jobs/clicks", "/jobs/clicks/history", "/explain", "/hosts"):
        response = fleet.ask(path)
        assert (response.code, response.headers["Retry-After"]) == (503, "1"), path
        assert json.loads(response.body)["exit_code"] == 5
    assert fleet.document("/status")["zookeeper"]["session"] is None


def down(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object) -> Any:
        raise Unreachable("ZooKeeper does not answer")

    monkeypatch.setattr("supervisor.operations.context.CommandContext.zoo", unreachable)


def test_a_defect_is_not_shown(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(cluster_status, "take_status", broken)
    code, error = fleet.error("/status")
    assert (code, error["exit_code"]) == (500, 1) and "secret" not in json.dumps(error)


def test_a_secret_of_a_spec_is_covered(empty: Fleet, tmp_path: Path) -> None:
    spec = empty.terminal.spec("clicks", "env: {DB_PASSWORD: hunter2}")
    assert empty.terminal.run("submit", spec).code == 0
    assert b"hunter2" not in empty.ask("/jobs/clicks").body
