"""Why a connection fails before it can be used: who is told, and when; and that no session pays for it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from supervisor.clients import kazoo_parts as kazoo
from supervisor.clients.connect_failure import ConnectFailure, SaslRefused
from supervisor.clients.zookeeper import ZooClient
from supervisor.clients.zookeeper_sasl import authenticate
from supervisor.clients.zookeeper_session import Link, SessionLink
from supervisor.errors import AccessDenied, Unreachable
from supervisor.model.zookeeper_access import Mechanism, ZooKeeperAccess

PASSING = ConnectFailure("it is going down", "wait", needs_correction=False)
LASTING = ConnectFailure("the password is wrong", "correct it")


ACCESS = ZooKeeperAccess(mechanism=Mechanism.DIGEST_MD5, username="me", password_file="/nowhere")


def with_password(directory: Path) -> ZooKeeperAccess:
    file = directory / "password"
    file.write_text("secret\n")
    file.chmod(0o600)
    return replace(ACCESS, password_file=str(file))


def link_of(links: list[Link], access: ZooKeeperAccess = ACCESS) -> SessionLink:
    return SessionLink([("localhost", 1)], 6.0, 5.0, links.append, None, access)


def test_a_connection_is_announced_after_sasl_and_counts_once() -> None:
    links: list[Link] = []
    link = link_of(links)
    for number in (1, 2):
        link._session_callback(kazoo.KeeperState.CONNECTED)  # kazoo, before SASL
        assert (links.count(Link.CONNECTED), link.connections) == (number - 1, number - 1)
        link.announce_authenticated()
        assert (links.count(Link.CONNECTED), link.connections) == (number, number)
        link._session_callback(kazoo.KeeperState.CONNECTING)


@pytest.mark.parametrize("order", [(PASSING, LASTING), (LASTING, PASSING)])
def test_what_a_person_must_correct_counts_more_than_what_may_pass(order: tuple[ConnectFailure, ...]) -> None:
    link = link_of([])
    for failure in order:
        link.note_failure(failure)
    assert link.failure is None, "the round is not over"
    assert link.end_round() and link.failure is LASTING


def test_a_round_without_an_explanation_takes_the_last_one_away() -> None:
    link = link_of([])
    link.note_failure(LASTING)
    assert link.end_round()
    assert not link.end_round() and link.failure is None


def test_a_connection_takes_every_explanation_away() -> None:
    link = link_of([])
    link.note_failure(LASTING)
    link.end_round()
    link.note_failure(PASSING)
    link.announce_authenticated()
    assert link.failure is None and not link.end_round()


def test_rounds_that_need_a_correction_come_later_and_later() -> None:
    link, waited = link_of([]), list[float]()
    link._stopped = SimpleNamespace(wait=waited.append, is_set=lambda: False)  # type: ignore[assignment]
    for _ in range(6):
        link.note_failure(LASTING)
        link._connection._pause_for_correction()
    assert waited == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    link._connection._pause_for_correction()
    link.note_failure(PASSING)
    link._connection._pause_for_correction()
    assert len(waited) == 6, "what may pass waits for nothing"
    link.note_failure(LASTING)
    link._connection._pause_for_correction()
    assert waited[-1] == 0.5


def test_whoever_waits_is_told_at_once_what_to_correct() -> None:
    client = ZooClient("localhost:1", 6.0, access=ACCESS)
    timer = threading.Timer(
        0.05, lambda: (client._session.note_failure(LASTING), client._session.end_round())
    )
    timer.start()
    with pytest.raises(AccessDenied, match="no connection to ZooKeeper: the password is wrong; correct it"):
        client.wait_connected(60)
    timer.join()


def test_whoever_waits_is_told_in_the_end_what_may_pass() -> None:
    client = ZooClient("localhost:1", 6.0, access=ACCESS)
    client._session.note_failure(PASSING)
    client._session.end_round()
    with pytest.raises(Unreachable, match="it is going down; wait"):
        client.wait_connected(0.05)


def test_what_the_server_answers_is_a_refusal_and_what_it_does_not_is_none(tmp_path: Path) -> None:
    access = with_password(tmp_path)

    def refuse(_response: bytes) -> bytes:
        raise SaslRefused("AuthFailedError")

    def drop(_response: bytes) -> bytes:
        raise kazoo.ConnectionDropped("broken")

    with pytest.raises(ConnectFailure, match="ZooKeeper refused the user name me or its password") as refused:
        authenticate(access, "zk1", refuse)
    assert refused.value.needs_correction and "secret" not in str(refused.value)
    with pytest.raises(kazoo.ConnectionDropped, match="broken"):
        authenticate(access, "zk1", drop)
    with pytest.raises(ConnectFailure, match="none of DIGEST-MD5"):
        authenticate(access, "zk1", lambda _response: b"nonce=1")


def test_a_dropped_connection_in_sasl_is_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For kazoo it would be AUTH_FAILED, and the client dead (kazoo #806, #810)."""
    links: list[Link] = []
    link = link_of(links, with_password(tmp_path))

    def drop(_response: bytes) -> bytes:
        raise kazoo.ConnectionDropped("broken")

    monkeypatch.setattr(link._connection, "_exchange", drop)
    with pytest.raises(
        ConnectFailure, match="ended the connection while it checked our credentials"
    ) as failed:
        link._connection._authenticate("zk1")
    assert not failed.value.needs_correction
    assert isinstance(failed.value, kazoo.ConnectionDropped) and link.link is Link.SUSPENDED and links == []
