"""A TCP proxy that misbehaves on demand, for what lies between kazoo or boto3 and their servers.

Between a client and a server that speak TLS it ends both conversations (``TlsEnds``), so that a trap sees what is said.
It runs in a thread of the test process. Every method has taken effect when it returns. Bytes are passed on as they
come; a trap (``on_request``) looks at each chunk that a client sends, which is one request for both clients unless
they pipeline.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")
# given a chunk from the server: does it hold the answer to the trapped request?
Answered = Callable[[bytes], bool]
# given a chunk from the client: not the one (None), or how its answer looks
Match = Callable[[bytes], Answered | None]


class Way(StrEnum):
    """Of the bytes: what clients say, and what the server says."""

    REQUESTS = "requests"
    RESPONSES = "responses"


BOTH = (Way.REQUESTS, Way.RESPONSES)


class Action(StrEnum):
    """What a trap does to the request that it catches."""

    CUT_BEFORE = "cut_before"  # the server never sees it; the connection is reset
    CUT_AFTER = "cut_after"  # the server carries it out; the answer is thrown away and the connection reset
    HOLD = "hold"  # it, and all that the client says after it, waits until ``release``; the client hears on


@dataclass
class Trap:
    """Catches one request."""

    match: Match
    action: Action
    _sprung: threading.Event = field(default_factory=threading.Event)

    def wait(self, timeout_s: float = 30.0) -> None:
        """Until the trap has caught its request and has done its deed. Raises AssertionError."""
        assert self._sprung.wait(timeout_s), (
            f"no request came into the {self.action} trap within {timeout_s:g} s"
        )

    @property
    def sprung(self) -> bool:
        return self._sprung.is_set()


def any_request(chunk: bytes) -> Answered | None:
    """The next chunk that a client sends; whatever the server says next is its answer."""
    return bool


def http_request(method: str, path_part: str = "") -> Match:
    """An HTTP request, e.g. ``http_request("PUT", "/bucket/specs/")``. ``100 Continue`` is no answer."""
    line = re.compile(rf"^{method} \S*{re.escape(path_part)}".encode())
    return lambda chunk: _http_answer if line.match(chunk) else None


def zookeeper_request(fragment: str | bytes) -> Match:
    """A ZooKeeper request that holds ``fragment`` (a path, a value); its answer is the one with the same xid."""
    wanted = fragment.encode() if isinstance(fragment, str) else fragment

    def match(chunk: bytes) -> Answered | None:
        for frame in _frames(chunk):
            if wanted in frame:
                xid = frame[:4]
                return lambda answer: any(reply[:4] == xid for reply in _frames(answer))
        return None

    return match


@dataclass(frozen=True)
class TlsEnds:
    """How a proxy speaks TLS: as a server to clients, and as a client to the server."""

    to_clients: ssl.SSLContext
    to_server: ssl.SSLContext


class Proxy:
    """Listens on ``listen_host``, on a free port, and passes everything to ``target`` (``host:port``)."""

    def __init__(self, target: str, listen_host: str = "127.0.0.1", tls: TlsEnds | None = None) -> None:
        self._tls = tls
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listen_host = listen_host
        self._gates = {way: asyncio.Event() for way in BOTH}
        self._dropping: set[Way] = set()
        self._delay_s = {way: 0.0 for way in BOTH}
        self._rate: dict[Way, float | None] = {way: None for way in BOTH}
        self._trap: Trap | None = None
        self._links: set[_Link] = set()
        # The task that accepts connections; None while the proxy refuses them.
        self._accepting: asyncio.Task[None] | None = None
        # Bound for as long as the proxy lives, so that nobody gets the port while connections are refused.
        self._port_holder = socket.socket()
        self._port_holder.bind((listen_host, 0))
        self._port_holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.port: int = self._port_holder.getsockname()[1]
        self.accepted = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._run(self._open())

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{self._listen_host}:{self.port}"

    def hold(self, *ways: Way) -> None:
        """Bytes wait, and arrive after ``release``. Both ways unless said. New connections are held, too."""
        self._each(ways, lambda way: self._gates[way].clear())

    def release(self) -> None:
        self._each(BOTH, lambda way: self._gates[way].set())

    def drop(self, *ways: Way) -> None:
        """Bytes vanish and nobody is told: a black hole. ``heal`` resets the connections that lost some."""
        self._each(ways, self._dropping.add)

    def delay(self, seconds: float, *ways: Way) -> None:
        """Each chunk arrives that much later."""
        self._each(ways, lambda way: self._delay_s.update({way: seconds}))

    def throttle(self, bytes_per_s: float, *ways: Way) -> None:
        self._each(ways, lambda way: self._rate.update({way: bytes_per_s}))

    def cut(self) -> None:
        """Reset all connections now; new ones are welcome."""
        self._call(self._reset_all)

    def refuse(self) -> None:
        """Reset all connections, and refuse new ones until ``heal``."""
        self._run(self._shut())

    def accept_no_more(self) -> None:
        """Refuse new connections until ``heal``; those that there are go on."""
        self._run(self._accept_no_more())

    def on_request(self, match: Match, action: Action) -> Trap:
        """Set the (one) trap; it springs once. ``heal`` takes it away, and lets go what it holds.

        If the server goes away before it has answered what ``CUT_AFTER`` caught, the trap waits for the next such request.
        """
        trap = Trap(match, action)
        self._call(lambda: setattr(self, "_trap", trap))
        return trap

    def heal(self) -> None:
        """Behave again: no hold, drop, delay, throttle, refusal or trap."""

        def forget() -> None:
            self._dropping.clear()
            self._delay_s.update(dict.fromkeys(BOTH, 0.0))
            self._rate.update(dict.fromkeys(BOTH))
            self._trap = None
            for link in list(self._links):
                link.awaited = None
                if link.lost_bytes:
                    link.reset()
            for gate in self._gates.values():
                gate.set()

        self._call(forget)
        self._run(self._open())

    def close(self) -> None:
        """Reset everything and end the thread. Idempotent."""
        if not self._thread.is_alive():
            return
        self._run(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
        self._port_holder.close()

    def _call(self, change: Callable[[], T]) -> T:
        async def on_loop() -> T:
            return change()

        return self._run(on_loop())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def _each(self, ways: Sequence[Way], change: Callable[[Way], None]) -> None:
        def on_loop() -> None:
            for way in ways or BOTH:
                change(way)

        self._call(on_loop)

    def _reset_all(self) -> None:
        for link in list(self._links):
            link.reset()

    async def _open(self) -> None:
        if self._accepting is None:
            listening = socket.create_server((self._listen_host, self.port), backlog=100)
            listening.setblocking(False)
            self._accepting = asyncio.create_task(self._accept(listening))
            for gate in self._gates.values():
                gate.set()

    async def _accept_no_more(self) -> None:
        """Nothing is accepted any more once ``_accept`` has ended: an ``asyncio.Server`` that is closed may yet serve what
        it was accepting."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
            self._accepting = None

    async def _shut(self) -> None:
        await self._accept_no_more()
        tasks = [link.task for link in self._links]
        self._reset_all()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        with listening:
            while True:
                try:
                    client, _ = await self._loop.sock_accept(listening)
                except ConnectionAbortedError:  # it was gone before it was accepted
                    continue
                self.accepted += 1
                link = _Link(client)
                self._links.add(link)
                link.task = asyncio.create_task(self._serve(link))
                link.task.add_done_callback(lambda _, link=link: self._links.discard(link))

    async def _serve(self, link: _Link) -> None:
        try:
            client, to_client = await self._streams(link.client)
            link.writers.append(to_client)
            await self._gates[Way.REQUESTS].wait()
            to = self._tls.to_server if self._tls is not None else None
            server, to_server = await asyncio.open_connection(*self._target, ssl=to)
            link.writers.append(to_server)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(link, Way.REQUESTS, client, to_server))
                pumps.create_task(self._pump(link, Way.RESPONSES, server, to_client))
            link.close()
        except* (OSError, asyncio.CancelledError):
            link.reset()  # one of the two has reset it, or was not there, or we did: the other sees a reset
        finally:
            self._rearm(link)

    async def _streams(self, client: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._tls is None:
            return await asyncio.open_connection(sock=client)
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await self._loop.connect_accepted_socket(
            lambda: protocol, client, ssl=self._tls.to_clients
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, self._loop)

    async def _pump(
        self, link: _Link, way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        while chunk := await source.read(65536):
            if not await self._may_pass(link, way, chunk):
                continue
            sink.write(chunk)
            await sink.drain()
        if way is Way.RESPONSES:
            self._rearm(link)
        if way in self._dropping or link.lost_bytes:
            link.lost_bytes = True
            await asyncio.Event().wait()  # nor does the end of the stream get through
        await self._gates[way].wait()
        with contextlib.suppress(OSError):
            sink.write_eof() if sink.can_write_eof() else _close(sink)

    async def _may_pass(self, link: _Link, way: Way, chunk: bytes) -> bool:
        """Whatever is to be done with ``chunk`` before it is passed on. False: it is not."""
        if way is Way.REQUESTS:
            await self._spring(link, chunk)
        elif link.awaited is not None and link.awaited.answered(chunk):
            link.awaited.trap._sprung.set()
            link.reset()
            return False
        rate = self._rate[way]
        if self._delay_s[way] or rate:
            await asyncio.sleep(self._delay_s[way] + (len(chunk) / rate if rate else 0.0))
        await self._gates[way].wait()
        if way in self._dropping:
            link.lost_bytes = True
            return False
        return not link.is_reset

    def _rearm(self, link: _Link) -> None:
        """The answer that a trap waits for will not come any more."""
        awaited, link.awaited = link.awaited, None
        if awaited is not None and not awaited.trap.sprung and self._trap is None:
            self._trap = awaited.trap

    async def _spring(self, link: _Link, chunk: bytes) -> None:
        trap = self._trap
        answered = trap.match(chunk) if trap is not None else None
        if trap is None or answered is None:
            return
        self._trap = None
        if trap.action is Action.CUT_AFTER:
            link.awaited = _Awaited(trap, answered)
            return
        if trap.action is Action.CUT_BEFORE:
            link.reset()
        else:
            self._gates[Way.REQUESTS].clear()
        trap._sprung.set()


@dataclass(frozen=True)
class _Awaited:
    trap: Trap
    answered: Answered


@dataclass(eq=False)
class _Link:
    """One client's connection with its counterpart at the server."""

    client: socket.socket
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    task: asyncio.Task[None] = field(init=False)
    awaited: _Awaited | None = None
    lost_bytes: bool = False
    is_reset: bool = False

    def close(self) -> None:
        for writer in self.writers:
            _close(writer)

    def reset(self) -> None:
        """RST to both ends: no orderly end of stream that could be taken for an answer."""
        if self.is_reset:
            return
        self.is_reset = True
        for writer in self.writers:
            peer = writer.get_extra_info("socket")
            if peer is not None and peer.fileno() >= 0:
                with contextlib.suppress(OSError):
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        if not self.writers:  # not served yet
            self.client.close()
        if self.task is not asyncio.current_task():  # which is ending by itself
            self.task.cancel()


class Proxies:
    """One proxy before each server of ``hosts``; ``hosts`` of this object is for the client."""

    tls: ClassVar[TlsEnds | None] = None
    """Of all that are made; ``secured_ensemble.site`` sets it."""

    def __init__(self, hosts: str, listen_host: str = "127.0.0.1") -> None:
        self._proxies = [Proxy(target, listen_host, self.tls) for target in hosts.split(",")]

    def __enter__(self) -> Proxies:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getitem__(self, i: int) -> Proxy:
        return self._proxies[i]

    def __len__(self) -> int:
        return len(self._proxies)

    @property
    def hosts(self) -> str:
        return ",".join(proxy.address for proxy in self._proxies)

    def each(self, do: Callable[[Proxy], T]) -> list[T]:
        """E.g. ``proxies.each(Proxy.drop)``: the client is cut from all of them."""
        return [do(proxy) for proxy in self._proxies]

    def refuse(self) -> None:
        """Reset all connections, and refuse new ones until ``heal``, as one step: a client that one proxy has reset finds
        no other one that still lets it in."""
        self.each(Proxy.accept_no_more)
        self.each(Proxy.refuse)

    def close(self) -> None:
        self.each(Proxy.close)


def _close(writer: asyncio.StreamWriter) -> None:
    """Closes it once: asyncio's TLS transport, which closes itself when the peer does, can't be asked anything, nor be
    aborted, after ``close`` has come to a closing one."""
    if not writer.is_closing():
        writer.close()


def _http_answer(chunk: bytes) -> bool:
    return re.search(rb"HTTP/1\.[01] [2-5]\d\d", chunk) is not None


def _frames(chunk: bytes) -> list[bytes]:
    """ZooKeeper's frames in ``chunk``, without their lengths; the last one may go on in the next chunk."""
    frames, at = [], 0
    while at + 4 <= len(chunk):
        length = int.from_bytes(chunk[at : at + 4], "big")
        frames.append(chunk[at + 4 : at + 4 + length])
        at += 4 + length
    return frames
