"""Lists the paths of the API that write. Path and body are made of the requests of ``operations``: the ``name`` of a job
stands in the path, and the other fields in the body, as pydantic judges them.

Requests are matched by the list (``daemon.process.api_server``), the description is made of it (``api.openapi``), and the
command line asks by it (``api.write_client``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields
from functools import cached_property
from typing import Any, Final, get_type_hints

from pydantic import create_model

from supervisor.api import documents
from supervisor.api.paths import NAME
from supervisor.api.routes import name_at
from supervisor.clients.web import parsed_json
from supervisor.errors import InvalidInput
from supervisor.operations.bundle import ApplyRequest
from supervisor.operations.job_requests import JOB_REQUESTS
from supervisor.operations.names import known_name
from supervisor.operations.requests import JobRequest, WriteRequest
from supervisor.settings.sections import Section, validated

BODY_MAX_BYTES: Final = 64 * 1024
BODY_S: Final = 5.0
BUNDLE_MAX_BYTES: Final = 32 * 2**20
"""The body of an apply may have this many bytes, with its files in Base64."""
BUNDLE_S: Final = 60.0
JOB_ANSWER_S: Final = 60.0
"""A command reports within so long that ZooKeeper does not answer; a write that takes longer goes on by itself."""
APPLY_ANSWER_S: Final = 300.0


@dataclass(frozen=True)
class WriteRoute:
    """Describes a path below the prefix to which a ``request`` is posted. ``document`` is the type of its answer. The body
    has at most ``body_max_bytes``, and comes within ``body_s``; it is answered within ``answer_s``."""

    request: type[WriteRequest[Any]]
    document: Any = documents.DoneDocument
    body_max_bytes: int = BODY_MAX_BYTES
    body_s: float = BODY_S
    answer_s: float = JOB_ANSWER_S

    @property
    def operation(self) -> str:
        return self.request.verb

    @property
    def summary(self) -> str:
        return self.request.summary

    @property
    def takes_name(self) -> bool:
        return issubclass(self.request, JobRequest)

    @property
    def path(self) -> str:
        return f"/jobs/{NAME}/{self.operation}" if self.takes_name else f"/{self.operation}"

    @cached_property
    def body(self) -> type[Section]:
        """Returns what pydantic judges a body by."""
        request, hints = self.request, get_type_hints(self.request, include_extras=True)
        defined: Any = {each.name: (hints[each.name], _default(each)) for each in _in_body(request)}
        return create_model(request.__name__, __base__=Section, __doc__=request.__doc__, **defined)

    def request_of(self, name: str, body: bytes | bytearray) -> WriteRequest[Any]:
        """Returns the request whose path has ``name``; an empty ``body`` says nothing. Raises NotFound for what can be no
        name, and InvalidInput."""
        if self.takes_name:
            known_name(name)
        document = parsed_json(bytes(body)) if body else {}
        if not isinstance(document, dict):
            raise InvalidInput("the body is not a JSON object", 'send {"KEY": VALUE}, or {}')
        said = dict(validated(self.body, document, "the body"))
        try:
            return self.request(**({"name": name} if self.takes_name else {}), **said)
        except ValueError as error:
            raise InvalidInput(f"the body: {error}") from None


def body_of(request: WriteRequest[Any]) -> dict[str, Any]:
    """Returns the body by which ``request`` is posted. It says nothing of what is as by default: a server of the version
    before refuses what it does not know."""
    given = ((each, getattr(request, each.name)) for each in _in_body(type(request)))
    return {each.name: _plain(value) for each, value in given if value != _default(each)}


def _in_body(request: type[WriteRequest[Any]]) -> Iterator[Field[Any]]:
    typed: Any = request
    return (each for each in fields(typed) if each.name != "name")


def _default(field: Field[Any]) -> Any:
    """Returns the default of a field, or ``...`` if it must be given."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    return ... if field.default is MISSING else field.default


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.model_dump(exclude_none=True) if isinstance(value, Section) else value


WRITE_ROUTES: Final = (
    *(WriteRoute(request) for request in JOB_REQUESTS),
    WriteRoute(ApplyRequest, documents.ApplyDocument, BUNDLE_MAX_BYTES, BUNDLE_S, APPLY_ANSWER_S),
)
ROUTE_OF: Final = {route.request: route for route in WRITE_ROUTES}


def write_route_of(path: str) -> tuple[WriteRoute, str] | None:
    """Returns the route of a path, and the name in it as it was sent, or an empty one; None if nothing is written there."""
    for route in WRITE_ROUTES:
        name = name_at(route.path, path)
        if name is not None:
            return route, name
    return None
