"""Asks the API for what one host of the cluster has, such as the processes or the files of a driver.

A server that does not have it names the one that does, which is asked once in its place: if that one does not have it
either, it is an error. So nobody is sent in circles.
"""

from __future__ import annotations

from supervisor.api.client import ApiClient, AskElsewhere
from supervisor.clients.web import WebAnswer
from supervisor.errors import AccessDenied, SupervisorError, Unreachable


class HostClient:
    """Asks ``api``, and the servers that it names."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._asked = api

    def answer(self, target: str) -> WebAnswer:
        """Returns the text at ``target``. It asks the server that answered last, then the first one, then the one that
        that names. Raises SupervisorError."""
        if self._asked is not self._api:
            try:
                return self._asked.get_text(target)
            except AskElsewhere:
                self._asked = self._api
        try:
            return self._api.get_text(target)
        except AskElsewhere as elsewhere:
            other = self._api.of(elsewhere.server) if elsewhere.server else None
            if other is None:
                return self._without_host(target, elsewhere)
            try:
                answer = other.get_text(target)
            except (Unreachable, AccessDenied) as error:
                return self._without_host(target, error)
            self._asked = other
            return answer

    def _without_host(self, _target: str, error: SupervisorError) -> WebAnswer:
        """Returns an answer in place of that of a host which could not be asked, for ``error``. Raises SupervisorError."""
        raise error
