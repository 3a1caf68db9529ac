"""Makes the description of the API, as OpenAPI 3.1, from its paths and from the types of its documents. It is pure."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from msgspec.json import schema_components

import supervisor
from supervisor.api.documents import ErrorDocument
from supervisor.api.routes import EVENT_STREAM, LOG_HEADERS, PREFIX, ROUTES, QueryParameter, Route
from supervisor.operations.names import NAME_PATTERN

_ERRORS: Final = {
    "400": "The request is wrong.",
    "401": "No token that counts was shown.",
    "404": "There is no such job.",
    "405": "The method is not allowed.",
    "421": "Another host has it: server is where to ask.",
    "503": "ZooKeeper or the store does not answer, or too many requests are being answered: try again.",
}


_TEXT: Final = {"type": "string"}


@cache
def openapi_document() -> dict[str, Any]:
    """Returns the document."""
    types = [route.document for route in ROUTES if route.document is not None]
    events = {name: document for route in ROUTES for name, document in route.events}
    schemas, components = schema_components(
        [*types, *events.values(), ErrorDocument], ref_template="#/components/schemas/{name}"
    )
    answers, error = schemas[: len(types)], schemas[-1]
    of_events = dict(zip(events, schemas[len(types) : -1], strict=True))
    by_operation = dict(
        zip((route.operation for route in ROUTES if route.document is not None), answers, strict=True)
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "spark-supervisor",
            "version": supervisor.__version__,
            "description": "What spark-supervisor prints with -o json. It only reads. A later version may add keys.",
        },
        "security": [{"token": []}],
        "paths": {
            f"{PREFIX}{route.path}": {
                "get": _operation(route, by_operation.get(route.operation), error)
                if not route.events
                else _stream(route, of_events, error)
            }
            for route in ROUTES
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": dict(sorted(components.items())),
        },
    }


def _operation(route: Route, schema: dict[str, Any] | None, error: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": "The document.",
        "headers": {"ETag": {"schema": {"type": "string"}}},
        "content": _json(schema or {"type": "object"}),
    }
    if route.is_text:
        headers = {name: {"schema": {"type": "string"}} for name in LOG_HEADERS}
        found = {"description": "A piece.", "headers": headers, "content": {"text/plain": {"schema": _TEXT}}}
    parameters = [_parameter(each) for each in route.parameters]
    if route.takes_name:
        schema_of_name = {"type": "string", "pattern": f"^{NAME_PATTERN}$"}
        parameters.insert(0, {"name": "name", "in": "path", "required": True, "schema": schema_of_name})
    same = {} if route.is_text else {"304": {"description": "It is as in If-None-Match."}}
    return {
        "operationId": route.operation,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {"200": found, **same, **_errors(error, has_elsewhere=route.is_text)},
    }


def _stream(route: Route, of_events: dict[str, Any], error: dict[str, Any]) -> dict[str, Any]:
    """Returns the operation that answers with events. OpenAPI 3.1 has no words for what is in a stream: ``x-events`` has the
    schema of the data of each event."""
    parameter = {"name": "Last-Event-ID", "in": "header", "required": False, "schema": _TEXT}
    parameter["description"] = "The id of the event after which to go on."
    return {
        "operationId": route.operation,
        "summary": route.summary,
        "parameters": [parameter],
        "responses": {
            "200": {
                "description": "The stream.",
                "content": {EVENT_STREAM: {"schema": _TEXT, "x-events": of_events}},
            },
            **_errors(error),
        },
    }


def _errors(error: dict[str, Any], *, has_elsewhere: bool = False) -> dict[str, Any]:
    return {
        code: {"description": why, "content": _json(error)}
        for code, why in _ERRORS.items()
        if code != "421" or has_elsewhere
    }


def _parameter(parameter: QueryParameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if parameter.pattern is not None:
        schema["pattern"] = f"^({parameter.pattern})$"
    if parameter.repeats:
        schema = {"type": "array", "items": schema}
    return {"name": parameter.name, "in": "query", "description": parameter.description, "schema": schema}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
