"""Carries out one operation on S3, with a budget, a client and attempts. Only ``s3_objects`` calls it.

botocore's own retries are off, because they know nothing of a conditional PUT, nor of the operation's
deadline; those of ``s3_pacing`` are jittered and end with the budget of the operation.

Credentials that expire are renewed by botocore (roles, container and instance metadata). Those that were read
from a file or the output of a program never are: when the server refuses the keys, the chain is asked anew,
once, and other keys are tried.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import boto3.session

from supervisor.clients.store.deadline import Bounded, Budget, WorkerSlots
from supervisor.clients.store.s3_client import S3Service, keys_of, make_client
from supervisor.clients.store.s3_errors import THEIRS, StoreLocation, meaning, wants_new_client
from supervisor.clients.store.s3_pacing import RequestPace, attempts
from supervisor.clients.store.s3_upload import arm
from supervisor.errors import SupervisorError

T = TypeVar("T")
Client = Any  # boto3 makes its clients at run time
MAKING_DEADLINES: Final = 3
"""That many deadlines of an operation bound the making of a client. It asks no server: it loads boto3's models, which is CPU
time, and on a host where many processes start at once that took longer than one deadline."""


class S3Session:
    """Carries out operations. ``deadline_s`` bounds each operation whatever the server does, and three of it
    the making of a client before the first one. ``prepare`` is called with each client that is made. The constructor
    does no I/O."""

    def __init__(
        self, url: str, service: S3Service, deadline_s: float, prepare: Callable[[Client], None]
    ) -> None:
        self.place = StoreLocation(url, service.endpoint_url or "AWS S3")
        self._service = service
        self._deadline_s = deadline_s
        self._prepare = prepare
        slots = WorkerSlots()
        self._bounded = Bounded(deadline_s, slots)
        self._making_bounded = Bounded(MAKING_DEADLINES * deadline_s, slots)
        self._pace = RequestPace()
        self._making = threading.Lock()
        self._session: boto3.session.Session | None = None
        self._has_keys = False
        self._clients: dict[bool, Client] = {}

    def ask(self, key: str, work: Callable[[Budget, Client], T], max_s: float | None = None) -> T:
        """Returns the result of ``work``. ``key`` is only for messages, and empty where the question is about
        the whole location. ``max_s`` bounds a transfer that goes on moving."""
        what = f"{self.place.url}/{key}"

        def run(budget: Budget) -> T:
            with self._pace.of(budget):
                for attempt in attempts(budget):
                    with attempt:
                        budget.check()
                        return self._attempt(budget, key, work, patient=max_s is not None)
            raise AssertionError("tenacity either returns or raises")

        self._make_ready(what, patient=max_s is not None)
        return self._bounded.run(what, run, max_s)

    def _make_ready(self, what: str, patient: bool) -> None:
        """Makes the client before the first operation is timed, because making it takes seconds of CPU time on a
        busy host. It is bounded all the same, because the chain of credentials may run a program. An error that
        comes at once is met again, and raised, by the operation."""

        def make(budget: Budget) -> None:
            with suppress(SupervisorError, *THEIRS):
                self._client(budget, patient)

        if patient not in self._clients:
            self._making_bounded.run(what, make)

    def _attempt(self, budget: Budget, key: str, work: Callable[[Budget, Client], T], patient: bool) -> T:
        try:
            client = self._client(budget, patient)
            try:
                return work(budget, client)
            except THEIRS as error:
                if not wants_new_client(error) or not self._has_other_keys(budget, client):
                    raise
            budget.check()
            return work(budget, self._client(budget, patient))
        except THEIRS as error:
            raise meaning(error, self.place, key) from None

    def _client(self, budget: Budget, patient: bool) -> Client:
        """Returns the client for this kind of operation, made on first use: that looks for credentials, which
        may take time."""
        with self._while_making(budget):
            if patient not in self._clients:
                self._clients[patient] = self._make(patient)
            return self._clients[patient]

    def _has_other_keys(self, budget: Budget, refused: Client) -> bool:
        """Returns whether the chain of credentials gives other keys than the refused ones. The next client is
        made with them."""
        with self._while_making(budget):
            if refused not in self._clients.values():  # another thread was here before
                return True
            session = self._service.session()
            keys = keys_of(session)
            if keys is None or (
                self._has_keys and self._session is not None and keys == keys_of(self._session)
            ):
                return False
            self._session, self._clients = session, {}
            return True

    @contextmanager
    def _while_making(self, budget: Budget) -> Iterator[None]:
        if not self._making.acquire(timeout=budget.remaining_s()):
            raise budget.over()
        try:
            yield
        finally:
            self._making.release()

    def _make(self, patient: bool) -> Client:
        # A session of our own: boto3's default one may be used by other threads while we make a client of it.
        session = self._session = self._session or self._service.session()
        # without, a session looks again when asked; its clients don't
        self._has_keys = keys_of(session) is not None
        # Half the deadline, so that a second attempt fits in when one connection hangs. Not for transfers: the end of an
        # upload may sit in the socket's buffer for long, and a second attempt would begin at its beginning.
        quiet_s = self._deadline_s if patient else self._deadline_s / 2
        client = make_client(session, self._service, quiet_s)
        self._pace.arm(client)
        arm(client)
        self._prepare(client)
        return client
