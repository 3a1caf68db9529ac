"""Adapts kazoo's connection handler to the product's time-outs: connecting, pinging, sending and waiting
happen within one thread.

Only ``zookeeper_session`` calls it, and decides what is sent and how replies are handled. It overrides
private methods of kazoo (2.11); ``test_zookeeper_client.py`` checks that a newer kazoo behaves in the same
way. It never sees a record, and never decides what an answer means. TLS and SASL are done here, between TCP and
the first request (``zookeeper_tls``, ``zookeeper_sasl``): a connection is announced when it may be used, not before.
"""

from __future__ import annotations

import contextlib
import logging
import random
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from supervisor.clients.connect_failure import ConnectFailure, SaslRefused
from supervisor.clients.kazoo_parts import (
    CLOSE_RESPONSE,
    SASL,
    AuthFailedError,
    Connect,
    ConnectionDropped,
    ConnectionHandler,
    ForceRetryError,
    KazooException,
    KazooRetry,
    KeeperState,
    SessionClosedRequireSaslError,
    errors,
    int_struct,
    quiet_logger,
)
from supervisor.clock import boottime_s
from supervisor.growing_pause import GrowingPause
from supervisor.model.zookeeper_access import ZooKeeperAccess

if TYPE_CHECKING:
    from supervisor.clients.zookeeper_session import SessionLink

log = logging.getLogger(__name__)

_BATCH_MAX, _BATCH_MAX_BYTES = 64, 64 * 1024
_TCP_SHARE, _REPLY_SHARE = 0.1, 0.125  # of the session time, for one TCP connect and one Connect reply
_PATIENCE_MAX_SHARE = 0.5
_PATIENCE_MIN_S = 0.3
# from one silence of a server to its next: three servers that are all slow must fit into a session
_PATIENCE_GROWTH = 4.0
_SLOWER = 3.0  # than answers were of late: a Connect costs the ensemble a write
_RECENT = 0.25  # of a new answer in what answers took of late
_SILENT_SHARE = 0.2  # of the time, at most, goes to servers that say nothing while others say something
_PAUSE_FIRST_S, _PAUSE_MAX_S = 0.1, 0.5  # between two rounds: a lease may be running out
_PING_SHARE = 0.15  # of the session time, without a request (kazoo: 1/3)
# of the session time: a node that says nothing for so long is left (kazoo: 2/3, pings included)
_SILENCE_SHARE = 0.6
_HANDSHAKE_FACTOR = 2.0  # TLS takes two more round trips than TCP, and some computing
# between two rounds in which something was found that a person must correct: each makes work for every server
_CORRECTION_PAUSE = GrowingPause(first_s=0.5, longest_s=5.0)
_XID_MAX = 2**31 - 1
_REFUSALS = (AuthFailedError.code, SessionClosedRequireSaslError.code)


def run_callback(callback: Callable[..., object], *arguments: object) -> None:
    """Calls ``callback`` and logs its defect: an exception must not end the thread, for that would cost the
    session."""
    try:
        callback(*arguments)
    except Exception:
        log.exception("zookeeper_callback_failed")


def load_for(access: ZooKeeperAccess) -> None:
    """Loads what a connection by ``access`` needs: for a process that must not take the time for that later."""
    if access.tls is not None:
        from supervisor.clients import zookeeper_tls  # noqa: F401 - OpenSSL: only where it is used
    if access.uses_sasl:
        from supervisor.clients import zookeeper_sasl  # noqa: F401 - with hashlib: as above


class Handler:
    """Provides threads and sockets to kazoo. It has no worker threads of its own: everything runs in the
    connection thread."""

    class timeout_exception(Exception):
        """Is what kazoo raises when a wait times out; the name is kazoo's."""

    sleep_func = staticmethod(time.sleep)
    event_object = staticmethod(threading.Event)

    def __init__(self, owner: SessionLink) -> None:
        self._owner = owner
        self.connect_timeout_s = _PATIENCE_MIN_S

    def spawn(self, function: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=function, name="zookeeper", daemon=True)
        thread.start()
        return thread

    def dispatch_callback(self, callback: Any) -> None:
        run_callback(callback.func)

    def create_socket_pair(self) -> tuple[socket.socket, socket.socket]:
        return socket.socketpair()

    def create_connection(self, address: tuple[str, int], hostname: str = "", **_unused: Any) -> Any:
        # kazoo would wait the whole session time for one node that swallows packets, and so lose the session.
        sock = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        try:
            sock.settimeout(self.connect_timeout_s)
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._secured(sock, hostname)
        except (OSError, ConnectFailure):
            sock.close()
            raise

    def _secured(self, sock: socket.socket, host: str) -> Any:
        """Returns ``sock``, or the TLS socket on it if the configuration asks for that."""
        files = self._owner.access.tls
        if files is None:
            return sock
        # OpenSSL takes two megabytes of each shim: only where it is used
        from supervisor.clients.zookeeper_tls import TlsSocket, secured

        return TlsSocket(secured(sock, host, files, self.connect_timeout_s * _HANDSHAKE_FACTOR), host)

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _errors: Sequence[Any], timeout: float
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Does as select.select, but wakes up for requests that are overdue (then it may raise ConnectionDropped), and
        takes a TLS socket for readable only when it has data."""
        poller = select.poll()
        for sock in readers:
            poller.register(sock, select.POLLIN)
        for sock in writers:
            poller.register(sock, select.POLLOUT)
        end_at_s = boottime_s() + timeout
        # kazoo takes the end of this wait for the end of its patience, which is ours
        if self._owner.ping_is_out():
            end_at_s = max(end_at_s, self._owner.heard_at_s + self._owner.timeout_s() * _SILENCE_SHARE)
        while True:
            self._owner.resolve_overdue()
            now_s = boottime_s()
            wake_at_s = min(end_at_s, self._owner.next_deadline_at_s() or end_at_s)
            held = any(_holds_data(sock) for sock in readers)
            found = poller.poll(0 if held else max(0.0, wake_at_s - now_s) * 1000)
            ready = {fd for fd, _ in found}
            readable = [s for s in readers if _holds_data(s) or (s.fileno() in ready and _has_data(s))]
            writable = any(s.fileno() in ready for s in writers)
            if readable or writable or boottime_s() >= end_at_s:
                return (
                    readable,
                    [s for s in writers if s.fileno() in ready],
                    [],
                )


def _holds_data(sock: Any) -> bool:
    """Returns whether a TLS socket holds what was received already, of which the kernel knows nothing any more."""
    return hasattr(sock, "pending") and sock.pending() > 0


def _has_data(sock: Any) -> bool:
    """Returns whether a socket that the kernel calls readable has data; part of a TLS record is none."""
    return bool(sock.fill()) if hasattr(sock, "fill") else True


class Silence(NamedTuple):
    """Records how often in a row a server has accepted, or swallowed, a connection and sent nothing, and
    until when it is left alone (BOOTTIME)."""

    times: int = 0
    rests_until_at_s: float = 0.0


class Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """Is kazoo's connection, with shorter time-outs and all waiting requests in one write."""

    def __init__(self, owner: SessionLink) -> None:
        logger, self._once = quiet_logger("connection")
        retry = KazooRetry(
            max_tries=-1, delay=_PAUSE_FIRST_S, max_delay=_PAUSE_MAX_S, interrupt=owner._stopped.is_set
        )
        super().__init__(owner, retry, logger=logger)
        self._owner = owner
        self._xid = 0
        self._answer_took_s: float | None = None
        self._last_tried: tuple[str, int] | None = None
        self._silences: dict[tuple[str, int], Silence] = {}
        self._spoken_to = False
        self._rounds_to_correct = 0

    def zk_loop(self) -> None:
        self._owner._thread_id = threading.get_ident()
        try:
            super().zk_loop()
        finally:
            self._owner._thread_id = -1  # another thread may get the number
            with self._owner._changed:
                self.close()

    def _patience_s(self, share: float) -> float:
        """Returns the time for one step of connecting to the server that is being tried: longer after each
        time that it sent nothing.

        It is short at first, because other servers are likely to be well: a few times what answers took of
        late, once that is known, else ``share`` of the session time.
        """
        known_s = self._answer_took_s
        first_s = self._owner.timeout_s() * share if known_s is None else _SLOWER * known_s
        silence = self._silences.get(self._last_tried) if self._last_tried is not None else None
        wanted_s = max(_PATIENCE_MIN_S, first_s) * _PATIENCE_GROWTH ** (
            silence.times if silence is not None else 0
        )
        return min(wanted_s, max(_PATIENCE_MIN_S, self._owner.timeout_s() * _PATIENCE_MAX_SHARE))

    def _expand_client_hosts(self) -> list[tuple[str, str, int]]:
        found = []
        for host, port in self._owner.hosts:
            try:  # bytes, because a str would load the tables of IDNA into every shim
                answers = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                self.logger.warning("Cannot resolve %s: %s", host, error)
                continue
            found += [(host, str(address[0]), int(address[1])) for *_, address in answers]
        random.shuffle(found)
        # Silent servers come last, and the one that we have just left: a stopped process still accepts connections.
        return sorted(found, key=lambda each: (each[1:] in self._silences, each[1:] == self._last_tried))

    def _connect_loop(self, retry: Any) -> Any:
        self._spoken_to = False
        try:
            return super()._connect_loop(retry)
        except ForceRetryError:
            self._pause_for_correction()
            raise
        except KazooException:
            raise
        except (
            Exception
        ) as error:  # kazoo has logged it; a reply that makes no sense ends this connection only
            self._owner._session_callback(KeeperState.CONNECTING)
            raise ForceRetryError(f"unexpected {type(error).__name__} on the connection") from error

    def _pause_for_correction(self) -> None:
        """Ends a round in which no server could be used. If a person must correct something, whoever waits is told, and
        the next round comes later and later: a server that refuses us has granted a session first."""
        if not self._owner.end_round():
            self._rounds_to_correct = 0
            return
        self._rounds_to_correct += 1
        self._owner._stopped.wait(_CORRECTION_PAUSE.after(self._rounds_to_correct))

    def _connect_attempt(self, host: str, hostip: str, port: int, retry: Any) -> Any:
        """Tries one server. Returns None, which makes kazoo go on to the next one, also if this one is passed
        over: it rests after its silence, and the round has found servers that answer.

        While a leader of the ensemble is stopped, the others refuse at once until they have elected another.
        A client that then waits for the stopped one comes seconds late to those that serve again, and a lease
        may end meanwhile.
        """
        silence = self._silences.get((hostip, port))
        if self._spoken_to and silence is not None and boottime_s() < silence.rests_until_at_s:
            return None
        return super()._connect_attempt(host, hostip, port, retry)

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        address = self._last_tried = (hostip, port)
        # it went out on the connection before: nothing here waits for its answer
        self.ping_outstanding.clear()
        self.handler.connect_timeout_s = self._patience_s(_TCP_SHARE)
        allowed_s = min(self.handler.connect_timeout_s, self._patience_s(_REPLY_SHARE))
        begun_at_s = boottime_s()
        try:
            limits = self._connect_once(host, hostip, port)
        except Exception as error:
            took_s = boottime_s() - begun_at_s
            explained = isinstance(error, ConnectFailure)
            if isinstance(error, ConnectFailure):
                self._owner.note_failure(error)
            if explained or took_s < allowed_s:
                self._spoken_to = True
                self._silences.pop(address, None)
            else:
                before = self._silences.get(address, Silence())
                self._silences[address] = Silence(
                    before.times + 1, boottime_s() + took_s * (1 / _SILENT_SHARE - 1)
                )
            raise
        self._silences.clear()
        self._rounds_to_correct = 0
        return limits

    def _connect_once(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        if boottime_s() - self._owner.heard_at_s > self._owner.timeout_s():
            # Servers that know less than we have seen (wiped, or restored) turn us away before they look at the session, all
            # of them, for ever. By now it has ended, most likely; if not, whoever reads after an outage does a sync first.
            self._owner.last_zxid = 0
        read_timeout: float
        connect_timeout: float
        read_timeout, connect_timeout = super()._connect(host, hostip, port)
        if self._owner.access.uses_sasl:
            self._authenticate(host)
            self._owner.announce_authenticated()
        self._once.reset()
        ping_ms = self._owner.timeout_s() * _PING_SHARE * 1000.0
        return min(read_timeout, 2 * ping_ms), connect_timeout  # kazoo pings after half of it

    def _authenticate(self, host: str) -> None:
        """Proves who we are, on a connection whose session is granted. Raises ConnectFailure, ConnectionDropped: either
        way the session is kept, and the next server is tried."""
        from supervisor.clients.zookeeper_sasl import authenticate  # with hashlib: not for every shim

        try:
            authenticate(self._owner.access, host, self._exchange)
        except ConnectFailure:
            raise
        except (ConnectionDropped, self.handler.timeout_exception) as error:
            raise ConnectFailure(
                f"the server {host} ended the connection while it checked our credentials",
                "if it goes on, compare zookeeper.auth with the servers' JAAS file",
                needs_correction=False,  # it may just be going down
            ) from error

    def _exchange(self, response: bytes) -> bytes:
        self._xid += 1
        patience_s = self._patience_s(_REPLY_SHARE) * _HANDSHAKE_FACTOR
        self._submit(SASL(response), patience_s, self._xid)
        header, buffer, offset = self._read_header(patience_s)
        if header.xid != self._xid:
            raise ConnectionDropped("the answer to SASL is to another request")
        if header.zxid > 0:
            self._owner.last_zxid = header.zxid
        if header.err in _REFUSALS:
            raise SaslRefused(errors.EXCEPTIONS[header.err].__name__)
        if header.err:
            raise ConnectionDropped(f"SASL was answered with error {header.err}")
        challenge: bytes | None = SASL.deserialize(buffer, offset)[0]
        return challenge or b""

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        asked_at_s = boottime_s()
        if not isinstance(request, Connect):
            return super()._invoke(timeout, request, xid)
        result = super()._invoke(self._patience_s(_REPLY_SHARE), request, xid)
        self._owner.granted(asked_at_s, request, result[0])
        self._note_answer(boottime_s() - asked_at_s)
        return result

    def _note_answer(self, took_s: float) -> None:
        """Updates the mean of what answers took. The first answer of a server that has just begun to run says
        little: its weight fades."""
        before_s = self._answer_took_s
        self._answer_took_s = took_s if before_s is None else before_s + _RECENT * (took_s - before_s)

    def _read_header(self, timeout: float) -> Any:
        result = super()._read_header(timeout)
        self._owner.heard_at_s = boottime_s()
        return result

    def _read_response(self, header: Any, buffer: bytes, offset: int) -> Any:
        _, reply, xid = self._owner._pending[0]
        if header.zxid > 0:
            self._owner.answered_zxid = header.zxid
        if reply is not None and xid == header.xid:
            self._owner.answered(reply)
            self._note_answer(boottime_s() - reply.sent_at_s)
        try:
            response = super()._read_response(header, buffer, offset)
        except Exception as error:
            if reply is not None:  # kazoo has taken it from the pending ones, and forgets it
                reply.set_exception(error)
            raise
        if response == CLOSE_RESPONSE:
            self._owner.session_closed()
        return response

    def _send_request(self, _read_timeout: float, connect_timeout: float) -> None:
        with contextlib.suppress(BlockingIOError):
            self._read_sock.recv(4096)
        message = bytearray()
        for sent, (frame, request, reply) in enumerate(self._owner.take_waiting(), 1):
            self._xid = self._xid % _XID_MAX + 1
            if reply is not None:
                reply.sent_at_s = boottime_s()
            # Pending before the first byte is written: from here on its outcome may be unknown.
            self._owner._pending.append((request, reply, self._xid))
            message += int_struct.pack(len(frame) + 4) + int_struct.pack(self._xid) + frame
            if sent >= _BATCH_MAX or len(message) >= _BATCH_MAX_BYTES:
                break
        if self._owner.has_waiting():
            with self._owner._changed:
                self._owner._wake()
        if message:
            self._write(bytes(message), connect_timeout)
