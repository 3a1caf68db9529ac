"""``api.shared_reads``: one reading for many, a bound for what waits, and sessions that are kept and closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from supervisor.api import shared_reads
from supervisor.api.shared_reads import READERS, WAITING_MAX, SharedReads
from supervisor.errors import NotFound, Unreachable
from tests.waiting import wait_until


class Reader:
    """Counts what is opened, read and closed; ``clock`` is CLOCK_BOOTTIME."""

    def __init__(self) -> None:
        self.opened = self.closed = self.read = 0
        self.clock = 100.0
        self.gate = threading.Event()
        self.gate.set()

    @contextmanager
    def open(self) -> Iterator[Any]:
        self.opened += 1
        yield self
        self.closed += 1

    def once(self, _context: Any) -> int:
        self.read += 1
        number = self.read
        assert self.gate.wait(60)
        return number


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    reader = Reader()
    monkeypatch.setattr(shared_reads, "boottime_s", lambda: reader.clock)
    return reader


@pytest.fixture
def reads(reader: Reader) -> Iterator[SharedReads]:
    reads = SharedReads(reader.open)
    yield reads
    reader.gate.set()
    reads.close()


def asking(number: int, ask: Callable[[], Any]) -> tuple[list[threading.Thread], list[Any]]:
    """Threads that ask, started, and what they were answered."""
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(ask())
        except Exception as error:
            answers.append(error)

    threads = [threading.Thread(target=run) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads, answers


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_the_same_within_a_moment_is_read_once(reader: Reader, reads: SharedReads) -> None:
    assert [reads.get("a", reader.once) for _ in range(5)] == [1] * 5
    assert reads.get("b", reader.once) == 2
    reader.clock += shared_reads.FRESH_S
    assert reads.get("a", reader.once) == 3
    assert reader.opened == 1, "the session is kept"


def test_who_comes_while_it_is_read_gets_the_same(reader: Reader, reads: SharedReads) -> None:
    reader.gate.clear()
    threads, answers = asking(10, lambda: reads.get("a", reader.once))
    wait_until(lambda: reader.read == 1, what="the reading")
    reader.gate.set()
    joined(threads)
    assert answers == [1] * 10


def test_who_comes_later_does_not_get_what_began_long_before(reader: Reader, reads: SharedReads) -> None:
    reader.gate.clear()
    first, old = asking(1, lambda: reads.get("a", reader.once))
    wait_until(lambda: reader.read == 1, what="the first reading")
    reader.clock += shared_reads.FRESH_S
    second, new = asking(3, lambda: reads.get("a", reader.once))
    wait_until(lambda: reader.read == 2, what="the second reading")
    reader.gate.set()
    joined([*first, *second])
    assert (old, new) == ([1], [2] * 3)


def test_so_many_may_wait_and_no_more(reader: Reader, reads: SharedReads) -> None:
    reader.gate.clear()
    numbers = iter(range(1000))
    threads, answers = asking(WAITING_MAX, lambda: reads.get(next(numbers), reader.once))
    wait_until(lambda: len(reads._readings) == WAITING_MAX, what="readings that wait")
    with pytest.raises(Unreachable, match="too many requests are being answered; try again"):
        reads.get("one more", reader.once)
    wait_until(lambda: reader.read == READERS, what="the readers")
    reader.gate.set()
    joined(threads)
    assert sorted(answers) == list(range(1, WAITING_MAX + 1))
    assert reader.opened <= READERS
    assert reads.get("one more", reader.once) == WAITING_MAX + 1


def test_an_error_is_shared_too(reader: Reader, reads: SharedReads) -> None:
    def missing(_context: Any) -> None:
        reader.read += 1
        raise NotFound("no such thing")

    for _ in range(3):
        with pytest.raises(NotFound, match="no such thing"):
            reads.get("a", missing)
    assert reader.read == 1
    assert reads.get("b", reader.once) == 2 and reader.opened == 1, "the session is used again"


def test_an_answer_that_takes_too_long(
    reader: Reader, reads: SharedReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_reads, "ANSWER_S", 0.01)
    reader.gate.clear()
    with pytest.raises(Unreachable, match="takes too long"):
        reads.get("a", reader.once)


def test_what_is_over_is_let_go(reader: Reader, reads: SharedReads) -> None:
    for number in range(200):
        reads.get(number, reader.once)
        reader.clock += shared_reads.FRESH_S
    assert len(reads._readings) == 1


def test_closing_ends_sessions_and_waits_for_nobody(reader: Reader, reads: SharedReads) -> None:
    reader.gate.clear()
    under_way, answers = asking(READERS, lambda: reads.get(object(), reader.once))
    wait_until(lambda: reader.read == READERS, what="the readers")
    waiting, refused = asking(1, lambda: reads.get("waits", reader.once))
    wait_until(lambda: "waits" in reads._readings, what="one that waits")
    reads.close()
    joined(waiting)
    assert isinstance(refused[0], Unreachable)
    assert reader.closed == 0
    reader.gate.set()
    joined(under_way)
    wait_until(lambda: reader.closed == reader.opened == READERS, what="closed sessions")
    with pytest.raises(Unreachable):
        reads.get("a", reader.once)


def test_what_is_made_of_a_reading_is_made_once_and_goes_with_it(reads: SharedReads, reader: Reader) -> None:
    made: list[int] = []

    def double(number: int) -> int:
        made.append(number)
        return 2 * number

    assert [reads.derive("key", reader.once, "double", double) for _ in range(3)] == [2, 2, 2]
    assert reads.derive("key", reader.once, "another", lambda number: -number) == -1
    assert (made, reader.read) == ([1], 1)
    reader.clock += shared_reads.FRESH_S
    assert reads.derive("key", reader.once, "double", double) == 4 and made == [1, 2]


def test_what_can_not_be_made_is_not_kept(reads: SharedReads, reader: Reader) -> None:
    def refuse(_number: int) -> int:
        raise NotFound("nothing there")

    for _ in range(2):
        with pytest.raises(NotFound):
            reads.derive("key", reader.once, "refused", refuse)
    assert reads.derive("key", reader.once, "refused", lambda number: number) == 1


def test_so_much_is_kept_of_a_reading_and_the_rest_is_made_each_time(
    reads: SharedReads, reader: Reader
) -> None:
    made: list[int] = []
    for _ in range(2):
        for number in range(shared_reads.DERIVED_MAX + 2):
            reads.derive("key", reader.once, number, lambda _result, number=number: made.append(number))
    assert len(made) == shared_reads.DERIVED_MAX + 2 + 2


def test_many_that_ask_at_once_have_it_made_once(reads: SharedReads, reader: Reader) -> None:
    made: list[int] = []

    def ask() -> int:
        return reads.derive("key", reader.once, "it", lambda number: made.append(number) or number)

    threads, answers = asking(12, ask)
    for thread in threads:
        thread.join(60)
    assert answers == [1] * 12 and made == [1]
