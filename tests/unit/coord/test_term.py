"""What a term says of itself when nobody has told it anything yet."""

from __future__ import annotations

import pytest

from supervisor.clients.zookeeper import Link
from supervisor.clock import boottime_s
from supervisor.coord.term import Term
from supervisor.errors import NotLeader, NotSent
from tests.fakes.zookeeper import MemoryClient, MemoryZoo


@pytest.fixture
def deposed() -> list[str]:
    return []


@pytest.fixture
def term(deposed: list[str]) -> Term[MemoryClient]:
    return Term(3, 9, MemoryZoo().client(), 10.0, depose=deposed.append)


def test_it_is_active_while_answers_come(term: Term[MemoryClient]) -> None:
    term.check()
    assert term.active
    assert not term.recorded


def test_f60_its_own_deadline_needs_no_thread_to_be_awake(
    term: Term[MemoryClient], deposed: list[str]
) -> None:
    """After a SIGCONT a task may be the first to run."""
    term.client.last_success_at_s = boottime_s() - 10.0
    with pytest.raises(NotLeader, match="no answer"):
        term.check()
    assert len(deposed) == 1
    term.client.last_success_at_s = boottime_s()
    with pytest.raises(NotLeader):  # what is heard later does not bring it back
        term.check()


@pytest.mark.parametrize("link", [Link.LOST, Link.CLOSED])
def test_it_is_over_when_its_session_is(term: Term[MemoryClient], deposed: list[str], link: Link) -> None:
    term.client.link = link
    assert not term.active
    assert term.over.is_set()
    assert deposed


def test_it_waits_while_the_connection_is_down(term: Term[MemoryClient], deposed: list[str]) -> None:
    term.client.link = Link.SUSPENDED
    with pytest.raises(NotSent):
        term.check()
    term.pause()
    # connected again, but nobody has looked yet whether the session is the same
    term.client.link = Link.CONNECTED
    with pytest.raises(NotSent):
        term.check()
    term.resume()
    term.check()
    assert deposed == []


def test_the_first_reason_stays(term: Term[MemoryClient]) -> None:
    term.end("stopping")
    term.fence_failed()
    with pytest.raises(NotLeader, match="stopping"):
        term.check()
