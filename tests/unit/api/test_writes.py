"""``api.writes``: the API does what the command line does, with its refusals, its exit codes and its audit, and says who asked."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from supervisor.api.paths import PREFIX
from supervisor.api.responses import ApiResponse
from supervisor.api.write_routes import WRITE_ROUTES, write_route_of
from supervisor.api.writes import ApiWrites, AskedOverApi
from supervisor.operations.context import open_commands
from supervisor.operations.job_requests import RestartRequest
from supervisor.operations.jobs import JobOperations
from supervisor.settings.file import load_settings
from tests.unit.api.conftest import Fleet, empty
from tests.unit.api.test_openapi import problems
from tests.unit.api.test_service import down

__all__ = ["empty"]

ADDRESS = "10.0.0.7"
BY = f"token:ann@{ADDRESS}"


@dataclass
class OperatorSeat:
    """Posts as the operator ann; each request has a key of its own if none is given."""

    fleet: Fleet
    writes: ApiWrites
    keys: Iterator[int]

    def post(self, path: str, body: Any = None, key: str = "") -> ApiResponse:
        found = write_route_of(f"{PREFIX}{path}")
        assert found is not None, path
        route, name = found
        data = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
        key = key or f"key-{next(self.keys):016}"
        return self.writes.answer(AskedOverApi(route, name, data, key, "ann", ADDRESS))

    def document(self, path: str, body: Any = None, key: str = "") -> Any:
        response = self.post(path, body, key)
        template = path.replace("/clicks/", "/{name}/").replace("/fails/", "/{name}/")
        assert problems_of(template, str(response.code), json.loads(response.body)) == []
        assert response.code == 200, response.body
        return json.loads(response.body)

    def refused(self, path: str, body: Any = None, key: str = "") -> tuple[int, int, str]:
        response = self.post(path, body, key)
        document = json.loads(response.body)
        return response.code, document["exit_code"], document["error"]

    def apply(self, text: str, **more: Any) -> ApiResponse:
        files = [{"path": "clicks.yaml", "text": text}, {"path": "app.py", "text": "print('hello')\n"}]
        return self.post("/apply", {"specs": ["clicks.yaml"], "files": files, **more})


def problems_of(path: str, code: str, answer: Any) -> list[str]:
    return problems(path, code, answer, "post")


def seat_of(fleet: Fleet) -> Iterator[OperatorSeat]:
    writes = ApiWrites(partial(open_commands, load_settings(None, os.environ)))
    yield OperatorSeat(fleet, writes, count())
    writes.close()


@pytest.fixture
def seat(empty: Fleet) -> Iterator[OperatorSeat]:
    """One job is registered, and one has failed."""
    empty.terminal.submit("clicks")
    empty.terminal.submit("fails")
    empty.terminal.bench.fail("fails")
    yield from seat_of(empty)


SPEC = "name: clicks\napplication: app.py\ncheckpoint: s3://bucket/clicks\n"


def test_each_command_does_what_it_does_on_a_host_and_says_who_asked(seat: OperatorSeat) -> None:
    bench = seat.fleet.terminal.bench
    uid = bench.own("clicks").newest_uid
    for verb, body, did in (
        ("suspend", {}, "suspended"),
        ("suspend", {"uid": uid}, "already suspended"),
        ("resume", {"accept_fresh_start": True}, "resumed"),
        ("restart", {"cold": True}, "restarted"),
        ("restart", {}, "restarted"),
        ("cancel", {"uid": uid}, "cancelled"),
        ("cancel", {}, "already cancelled"),
    ):
        document = seat.document(f"/jobs/clicks/{verb}", body)
        assert document == {"name": "clicks", "uid": uid, "did": did, "notices": []}, verb
        if verb != "cancel":
            assert bench.ref("clicks").record.changed.by == BY
    history = seat.fleet.document("/jobs/clicks/history")["uids"][-1]["history"]
    assert {entry["event"]: entry["by"] for entry in history}["cancelled"] == BY
    resumed = seat.document("/jobs/fails/resume")
    assert resumed["did"] == "registered again"


def test_options_reach_the_operation(seat: OperatorSeat, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    for verb in ("cancel", "suspend", "resume", "restart"):
        real = getattr(JobOperations, verb)

        def wrapped(self: JobOperations, name: str, *, real: Any = real, **options: Any) -> Any:
            given.append((real.__name__, options))
            return real(self, name, **options)

        monkeypatch.setattr(JobOperations, verb, wrapped)
    seat.post("/jobs/clicks/restart", {"cold": True})
    seat.post("/jobs/clicks/resume", {"accept_fresh_start": True, "uid": "x"})
    assert given == [
        ("restart", {"cold": True, "only_uid": None}),
        ("resume", {"fresh_start": True, "only_uid": "x"}),
    ]


@pytest.mark.parametrize("verb", ["cancel", "suspend", "resume", "restart"])
def test_another_submission_than_the_one_that_was_meant_is_left_alone(seat: OperatorSeat, verb: str) -> None:
    before = seat.fleet.terminal.bench.zoo.tree()
    code, exit_code, error = seat.refused(f"/jobs/clicks/{verb}", {"uid": "clicks-another"})
    assert (code, exit_code) == (409, 4) and "another submission now: nothing was done" in error
    assert seat.fleet.terminal.bench.zoo.tree() == before


def test_refusals_are_those_of_the_command_line(seat: OperatorSeat) -> None:
    terminal = seat.fleet.terminal
    terminal.run("suspend", "clicks")
    for words, path, code in (
        ("restart clicks", "/jobs/clicks/restart", 409),
        ("cancel nobody", "/jobs/nobody/cancel", 404),
        ("suspend fails", "/jobs/fails/suspend", 409),
    ):
        here = terminal.run(*words.split())
        document = json.loads(seat.post(path).body)
        there = "; ".join(filter(None, (document["error"], document["remedy"])))
        assert (document["exit_code"], seat.post(path).code) == (here.code, code)
        assert here.err.strip() == f"error: {there}"


@pytest.mark.parametrize("name", ["..", "Clicks", "%2e%2e", "a" * 64, "jobs", "\x1b[31m", "-x"])
def test_a_hostile_name_leads_to_nothing_that_is_written(seat: OperatorSeat, name: str) -> None:
    before = seat.fleet.terminal.bench.zoo.tree()
    code, exit_code, _ = seat.refused(f"/jobs/{name}/cancel")
    assert (code, exit_code) == (404, 3)
    assert seat.fleet.terminal.bench.zoo.tree() == before


@pytest.mark.parametrize(
    "body",
    [
        b"nonsense",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b"[" * 100_000,
        {"by": "root"},
        {"uid": 5},
        {"uid": "../x"},
        {"cold": "yes"},
        {"cold": True, "reason": "x"},
        {"uid": "a\0b"},
    ],
)
def test_a_body_that_says_anything_else_is_refused(seat: OperatorSeat, body: Any) -> None:
    before = seat.fleet.terminal.bench.zoo.tree()
    code, exit_code, error = seat.refused("/jobs/clicks/restart", body)
    assert (code, exit_code) == (400, 2) and "the body" in error
    assert seat.fleet.terminal.bench.zoo.tree() == before


def test_who_asked_can_be_named_by_nothing_that_is_sent(seat: OperatorSeat) -> None:
    """``by``, LOGNAME and the like of a client count for nothing: there is no key for them, and no header is read."""
    for key in ("by", "operator", "author", "user"):
        assert seat.refused("/jobs/clicks/cancel", {key: "sasl:admin"})[0] == 400
    seat.document("/jobs/clicks/suspend")
    assert seat.fleet.terminal.bench.ref("clicks").record.changed.by == BY


def test_the_audit_has_a_line_of_each_write_with_its_operator(seat: OperatorSeat) -> None:
    def lines_now() -> list[Any]:
        ran = seat.fleet.terminal.run("audit", "-n", "1000", "-o", "json")
        assert ran.code == 0, ran.err
        return list(ran.json["lines"])

    before = lines_now()
    seat.document("/jobs/clicks/restart")
    seat.document("/jobs/clicks/cancel")
    assert seat.apply(SPEC).code == 200
    lines = lines_now()[len(before) :]
    assert [(line["what"], line["by"]) for line in lines] == [
        ("restart", BY),
        ("cancel", BY),
        ("submit", BY),
    ], lines
    assert {line["origin"] for line in lines} == {"uid:1000@desk"}


def test_the_same_key_restarts_once(seat: OperatorSeat) -> None:
    def nonce() -> str:
        return str(seat.fleet.terminal.bench.ref("clicks").record.restart_nonce)

    first = seat.post("/jobs/clicks/restart", {}, "k" * 16)
    after = nonce()
    assert seat.post("/jobs/clicks/restart", {}, "k" * 16) == first and nonce() == after
    assert seat.refused("/jobs/clicks/cancel", {}, "k" * 16)[:2] == (409, 4)
    assert seat.refused("/jobs/clicks/restart", {"cold": True}, "k" * 16)[:2] == (409, 4)
    assert seat.post("/jobs/clicks/restart", {}, "l" * 16).code == 200 and nonce() != after


def test_zookeeper_does_not_answer(seat: OperatorSeat, monkeypatch: pytest.MonkeyPatch) -> None:
    down(seat.fleet, monkeypatch)
    code, exit_code, _ = seat.refused("/jobs/clicks/restart")
    assert (code, exit_code) == (503, 5)


def test_a_defect_is_an_answer(seat: OperatorSeat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RestartRequest, "carry_out", lambda *_: 1 / 0)
    assert seat.refused("/jobs/clicks/restart") == (500, 1, "internal error")


# -- apply --------------------------------------------------------------------------------------------------------


def applied(response: ApiResponse) -> Any:
    document = json.loads(response.body)
    assert problems_of("/apply", str(response.code), document) == []
    return document


def test_apply_creates_updates_and_leaves(seat: OperatorSeat) -> None:
    spec = SPEC.replace("clicks", "fresh")
    files = [
        {"path": "jobs/_base.yaml", "text": "application: ../lib/app.py\n"},
        {"path": "lib/app.py", "base64": base64.b64encode(b"print(1)\n").decode()},
        {"path": "jobs/fresh.yaml", "text": spec.replace("application: app.py", "extends: _base.yaml")},
    ]
    request = {"specs": ["jobs/fresh.yaml"], "files": files}
    for more, action, revision in (
        ({"dry_run": True}, "created", 1),
        ({}, "created", 1),
        ({}, "unchanged", 1),
        ({"set": ["resources.memory=2g"], "dry_run": True}, "updated", 2),
        ({"set": ["resources.memory=2g"]}, "updated", 2),
    ):
        document = applied(seat.post("/apply", {**request, **more}))
        [one] = document["applied"]
        assert (one["file"], one["name"], one["action"], one["revision"]) == (
            "jobs/fresh.yaml",
            "fresh",
            action,
            revision,
        ), more
        assert (document["exit_code"], document["error"], one["complaints"]) == (0, None, [])
    ref = seat.fleet.terminal.bench.ref("fresh").record
    assert (ref.revision, ref.submitted_by, ref.changed.by) == (2, BY, BY)


def test_a_dry_run_writes_nothing(seat: OperatorSeat) -> None:
    before = seat.fleet.terminal.bench.zoo.tree()
    assert seat.apply(SPEC.replace("clicks", "fresh"), dry_run=True).code == 200
    assert seat.fleet.terminal.bench.zoo.tree() == before


def test_differences_need_a_dry_run(seat: OperatorSeat) -> None:
    before = seat.fleet.terminal.bench.zoo.tree()
    refused = seat.apply(SPEC, differences=True)
    assert refused.code == 400 and "differences, which need dry_run" in refused.body.decode()
    (one,) = applied(seat.apply(SPEC.replace("clicks", "fresh"), dry_run=True, differences=True))["applied"]
    assert (one["action"], one["differences"]) == ("created", [])
    assert seat.fleet.terminal.bench.zoo.tree() == before


def test_if_anything_is_wrong_nothing_is_done_and_all_is_said(seat: OperatorSeat) -> None:
    before = seat.fleet.terminal.bench.zoo.tree()
    files = [
        {"path": "a.yaml", "text": SPEC.replace("clicks", "fresh")},
        {"path": "b.yaml", "text": "name: b\nnonsense: 1\nmore: 2\n"},
        {"path": "app.py", "text": ""},
    ]
    response = seat.post("/apply", {"specs": ["a.yaml", "b.yaml"], "files": files})
    document = applied(response)
    assert (response.code, document["exit_code"]) == (400, 2)
    good, bad = document["applied"]
    assert (good["action"], good["why"], good["exit_code"]) == ("refused", "another file is refused", 0)
    assert bad["action"] == "refused" and len(bad["complaints"]) > 1 and "b.yaml:2" in bad["why"]
    assert seat.fleet.terminal.bench.zoo.tree() == before


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the supervisor's user."""
    path = tmp_path / "zookeeper-password"
    path.write_text("hunter2: hunter3\n")
    return path


def test_no_file_of_the_supervisor_is_read_for_a_spec(seat: OperatorSeat, secret: Path) -> None:
    before = seat.fleet.terminal.bench.zoo.tree()
    up = "../" * 30 + str(secret)[1:]
    for named in (str(secret), up, f"x/{up}", f"file/../{up}", "/dev/zero", "/proc/self/environ"):
        for spec in (
            SPEC.replace("app.py", f"{named}.py"),
            f"{SPEC}py_files: [{named}]\n",
            f"{SPEC}jars: [{named}]\n",
            f"{SPEC}python: {{archive: {named}}}\n",
            f"extends: {named}\n{SPEC}",
        ):
            response = seat.apply(spec)
            document = applied(response)
            assert document["exit_code"] == 2, spec
            assert "was not sent with it" in document["error"] or "must name" in document["error"], spec
            assert b"hunter" not in response.body
    assert seat.fleet.terminal.bench.zoo.tree() == before


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/x", "a/../../x", "a//b", "./a", "a/./b", ".", "a/", "a\nb", "\x1b[31m", "a/" + "b" * 256],
)
def test_no_file_is_written_elsewhere(seat: OperatorSeat, tmp_path: Path, path: str) -> None:
    files = [{"path": path, "text": "x"}, {"path": "clicks.yaml", "text": SPEC}]
    code, exit_code, error = seat.refused("/apply", {"specs": ["clicks.yaml"], "files": files})
    assert (code, exit_code) == (400, 2) and "leads elsewhere" in error


def test_what_is_no_bundle(seat: OperatorSeat) -> None:
    spec = {"path": "clicks.yaml", "text": SPEC}
    for files, why in (
        ([spec, spec], "sent twice"),
        ([spec, {"path": "app.py"}], "needs either text or base64"),
        ([spec, {"path": "app.py", "text": "", "base64": ""}], "needs either text or base64"),
        ([spec, {"path": "app.py", "base64": "???"}], "base64"),
        ([spec, {"path": "a", "text": ""}, {"path": "a/b", "text": ""}], "can't be written"),
    ):
        code, _, error = seat.refused("/apply", {"specs": ["clicks.yaml"], "files": files})
        assert code == 400 and why in error
    document = applied(seat.post("/apply", {"specs": ["other.yaml"], "files": [spec]}))
    assert "'other.yaml' was not sent" in document["error"]


def test_the_folder_of_a_bundle_is_told_to_nobody_and_removed(
    seat: OperatorSeat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    files = [{"path": "clicks.yaml", "text": f"{SPEC}python: {{archive: env.tar.gz}}\n"}]
    files += [{"path": "app.py", "text": ""}, {"path": "env.tar.gz", "text": "no archive"}]
    response = seat.post("/apply", {"specs": ["clicks.yaml"], "files": files})
    assert applied(response)["exit_code"] == 2 and str(tmp_path).encode() not in response.body
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_policy_of_the_supervisors_host_judges(empty: Fleet) -> None:
    config = empty.terminal.config
    config.write_text(f"{config.read_text()}policy: {{conf: {{forbidden: [spark.jars.packages]}}}}\n")
    for seat in seat_of(empty):
        document = applied(seat.apply(f"{SPEC}conf: {{spark.jars.packages: x:y:1}}\n"))
        assert document["exit_code"] == 2 and "policy" in document["error"]


def test_each_path_has_an_operation() -> None:
    assert [route.operation for route in WRITE_ROUTES] == ["cancel", "suspend", "resume", "restart", "apply"]
