"""What the ZooKeeper client is made of: what it imports, what it logs, how it reads hosts and answers."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from supervisor.clients import kazoo_parts as kazoo
from supervisor.clients.zookeeper import parse_hosts
from supervisor.clients.zookeeper_answers import outcome_of, read_of
from supervisor.clients.zookeeper_session import Reply, Unanswered
from supervisor.errors import (
    AccessDenied,
    Conflict,
    GuardFailed,
    InvalidInput,
    NotSent,
    OutcomeUnknown,
    Unreachable,
)
from supervisor.model.transaction import Check, Create, Delete, SetData, Transaction

HEAVY = {
    "ssl",
    "_ssl",
    "hashlib",
    "_hashlib",
    "kazoo.client",
    "kazoo.recipe",
    "asyncio",
    "subprocess",
    "urllib.parse",
}
TX = Transaction("test", "1", (Check("/a", 0), SetData("/b", b"", 1), Create("/c", b""), Delete("/d", 2)))
ERRORS = kazoo.errors


def python(code: str) -> Any:
    return json.loads(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    )


def test_import_stays_small() -> None:
    """It is in every shim: 5 MB per job."""
    # an editable install loads some
    before = python("import json, sys; print(json.dumps(sorted(sys.modules)))")
    loaded = python("import json, sys, supervisor.clients.zookeeper; print(json.dumps(sorted(sys.modules)))")
    assert not HEAVY & (set(loaded) - set(before))


@pytest.mark.parametrize(
    "first", ["ssl, hashlib, supervisor.clients.zookeeper", "supervisor.clients.zookeeper, ssl, hashlib"]
)
def test_the_modules_left_out_are_whole_for_everybody_else(first: str) -> None:
    code = "print(json.dumps([hashlib.sha256(b'').hexdigest()[:4], ssl.create_default_context().check_hostname]))"
    assert python(f"import json, {first}; {code}") == ["e3b0", True]


def test_a_module_left_out_is_there_when_used() -> None:
    code = "from kazoo.security import make_digest_acl_credential as made; print(json.dumps(made('u', 'p')))"
    assert python(f"import json, supervisor.clients.zookeeper; {code}").startswith("u:")


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("zk1:2181", [("zk1", 2181)]),
        ("zk1, zk2:99 ,10.0.0.1:1", [("zk1", 2181), ("zk2", 99), ("10.0.0.1", 1)]),
        ("[::1]:2182,[fe80::2]", [("::1", 2182), ("fe80::2", 2181)]),
    ],
)
def test_hosts(hosts: str, expected: list[tuple[str, int]]) -> None:
    assert parse_hosts(hosts) == expected


def test_log_is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    """kazoo's DEBUG lines print credentials and data; its warnings come once per outage, not every second."""
    logging.getLogger("kazoo").setLevel(logging.DEBUG)
    logger, once = kazoo.quiet_logger("test")
    assert logging.getLogger("kazoo").getEffectiveLevel() == logging.WARNING
    with caplog.at_level(logging.DEBUG):
        logger.debug("Sending request: %s", "secret")
        for i in range(5):
            logger.warning("Connection dropped: %s", i)
        once.reset()
        logger.warning("Connection dropped: %s", 9)
        logger.error("Unhandled exception")
        logger.error("Unhandled exception")
    assert [r.getMessage() for r in caplog.records] == [
        "Connection dropped: 0",
        "Connection dropped: 9",
        "Unhandled exception",
        "Unhandled exception",
    ]


def reply(value: Any = None, error: Exception | None = None) -> Reply:
    made = Reply(lambda _reply: None)
    if error is None:
        made.set(value)
    else:
        made.set_exception(error)
    return made


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Unanswered("", sent=False), NotSent),
        (Unanswered("", sent=True), OutcomeUnknown),
        (ERRORS.ThrottledOpError(), NotSent),
        (ERRORS.ConnectionLoss(), OutcomeUnknown),
        (ERRORS.SessionExpiredError(), OutcomeUnknown),
        (ERRORS.SessionMovedError(), OutcomeUnknown),
        (ERRORS.OperationTimeoutError(), OutcomeUnknown),
        (ERRORS.RequestTimeoutError(), OutcomeUnknown),
        (ERRORS.SystemZookeeperError(), OutcomeUnknown),
        (RuntimeError("xids do not match"), OutcomeUnknown),
        (ERRORS.AuthFailedError(), AccessDenied),
        (ERRORS.NoAuthError(), AccessDenied),
        (ERRORS.BadArgumentsError(), InvalidInput),
    ],
)
def test_what_an_error_says_of_a_write(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind) as raised:
        outcome_of(TX, reply(error=error))
    assert type(raised.value) is kind


@pytest.mark.parametrize(
    ("results", "kind"),
    [
        (
            [ERRORS.RolledBackError(), ERRORS.NoAuthError(), *[ERRORS.RuntimeInconsistency()] * 2],
            AccessDenied,
        ),
        (
            [ERRORS.RolledBackError(), ERRORS.BadArgumentsError(), *[ERRORS.RuntimeInconsistency()] * 2],
            InvalidInput,
        ),
        ([ERRORS.RolledBackError()] * 4, Conflict),
        ([True, True], OutcomeUnknown),
    ],
)
def test_results_of_a_multi(results: list[Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        outcome_of(TX, reply(results))


def test_the_first_real_error_of_a_multi_counts() -> None:
    rolled_back, inconsistent = ERRORS.RolledBackError(), ERRORS.RuntimeInconsistency()
    with pytest.raises(GuardFailed) as failed:
        outcome_of(TX, reply([rolled_back, rolled_back, ERRORS.NodeExistsError(), inconsistent]))
    assert (failed.value.path, failed.value.kind, failed.value.index) == ("/c", "node_exists", 2)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Unanswered("", sent=False), NotSent),
        (Unanswered("", sent=True), Unreachable),
        (ERRORS.SessionExpiredError(), Unreachable),
        (ERRORS.NoAuthError(), AccessDenied),
        (ERRORS.BadArgumentsError(), InvalidInput),
    ],
)
def test_what_an_error_says_of_a_read(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind) as raised:
        read_of("/a", lambda _reply: None, reply(error=error))
    assert type(raised.value) is kind


def test_a_reply_is_set_once() -> None:
    calls: list[Reply] = []
    made = Reply(calls.append)
    made.set(1)
    made.set(2)
    made.set_exception(ERRORS.ConnectionLoss())
    assert (len(calls), made.value, made.error) == (1, 1, None)


def test_a_callback_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It must not end the connection thread."""

    def defect(_reply: Reply) -> None:
        raise ValueError("defect")

    Reply(defect).set(1)
    assert "defect" in caplog.text
