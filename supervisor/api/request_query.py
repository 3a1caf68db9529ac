"""Turns a request that reads into the address at which the API answers it, and back.

The client writes the address (``api.client``), the server reads it (``api.service``), and the description has the same
parameters (``api.routes``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints

from supervisor.api.paths import NAME
from supervisor.api.responses import RequestQuery
from supervisor.operations.requests import QueryParameter, ReadRequest

TRUE: Final = "true"

Reading = TypeVar("Reading", bound=ReadRequest[Any])


class _QueryField(NamedTuple):
    field: str
    is_flag: bool
    parameter: QueryParameter


def parameters_of(request: type[ReadRequest[Any]]) -> tuple[QueryParameter, ...]:
    """Returns the parameters of the query of a request."""
    return tuple(each.parameter for each in _in_query(request))


def address_of(request: ReadRequest[Any]) -> tuple[str, list[tuple[str, str]]]:
    """Returns the path of ``request`` below the prefix, and what its query says besides the defaults."""
    given = [(each, getattr(request, each.field)) for each in _in_query(type(request))]
    query = [(each.parameter.name, TRUE if value is True else str(value)) for each, value in given if value]
    return request.path.replace(NAME, getattr(request, "name", "")), query


def request_of(kind: type[Reading], name: str, query: RequestQuery) -> Reading:
    """Returns the request for which a checked ``query`` asks, about ``name`` if its path has one. Raises InvalidInput."""
    given: dict[str, Any] = {"name": name} if NAME in kind.path else {}
    for each in _in_query(kind):
        key = each.parameter.name
        given[each.field] = query.flag(key) if each.is_flag else query.text(key)
    return kind(**given)


def _in_query(request: type[ReadRequest[Any]]) -> Iterator[_QueryField]:
    typed: Any = request
    hints = get_type_hints(request, include_extras=True)
    for each in fields(typed):
        if each.name != "name":
            hint = hints[each.name]
            yield _QueryField(each.name, hint.__origin__ is bool, hint.__metadata__[0])
