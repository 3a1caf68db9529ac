"""Makes the description of the API, as OpenAPI 3.1, from its paths and from the types of its documents. It is pure."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from msgspec.json import schema_components

import supervisor
from supervisor.api.documents import ApplyDocument, ErrorDocument
from supervisor.api.paths import EVENT_STREAM, LOG_HEADERS, PREFIX
from supervisor.api.routes import ROUTES, Route
from supervisor.api.write_head import KEY_HEADER, KEY_PATTERN
from supervisor.api.write_routes import WRITE_ROUTES, WriteRoute
from supervisor.operations.names import NAME_PATTERN
from supervisor.operations.requests import QueryParameter

_ERRORS: Final = {
    "400": "The request is wrong.",
    "401": "No token that counts was shown.",
    "404": "There is no such job.",
    "405": "The method is not allowed.",
    "421": "Another host has it: server is where to ask.",
    "503": "ZooKeeper or the store does not answer, or too many requests are being answered: try again.",
}


_OF_WRITES: Final = {
    "403": "The token may only read.",
    "408": "The body did not come in time; nothing was done.",
    "409": "What is there does not allow it, or the key was sent with another request: nothing was done. With Retry-After "
    "the same request is still being received, or two wait for its answer already: send it again, with the same key.",
    "411": "The length of the body is not known.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "429": "Nothing was begun, because too much is asked at once: send it again, with the same key.",
    "504": "The outcome is unknown: the same request with the same key, to the same supervisor, gets its answer.",
}
_TEXT: Final = {"type": "string"}
_REF: Final = "#/components/schemas/{model}"


@cache
def openapi_document() -> dict[str, Any]:
    """Returns the document."""
    every: tuple[Route | WriteRoute, ...] = (*ROUTES, *WRITE_ROUTES)
    described = [route for route in every if route.document is not None]
    events = {name: document for route in ROUTES for name, document in route.events}
    types = [*(route.document for route in described), *events.values(), ErrorDocument]
    schemas, components = schema_components(types, ref_template=_REF.format(model="{name}"))
    answers, error = schemas[: len(described)], schemas[-1]
    of_events = dict(zip(events, schemas[len(described) : -1], strict=True))
    by_operation = dict(zip((route.operation for route in described), answers, strict=True))
    requests: dict[str, Any] = {}
    writes = {
        f"{PREFIX}{route.path}": {"post": _write(route, by_operation[route.operation], error, requests)}
        for route in WRITE_ROUTES
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "spark-supervisor",
            "version": supervisor.__version__,
            "description": "What spark-supervisor prints with -o json, and what it does. A later version may add keys.",
        },
        "security": [{"token": []}],
        "paths": {
            f"{PREFIX}{route.path}": {
                "get": _operation(route, by_operation.get(route.operation), error)
                if not route.events
                else _stream(route, of_events, error)
            }
            for route in ROUTES
        }
        | writes,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": dict(sorted({**components, **requests}.items())),
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
    parameters = [*_name(route), *(_parameter(each) for each in route.parameters)]
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


def _write(
    route: WriteRoute, answer: dict[str, Any], error: dict[str, Any], requests: dict[str, Any]
) -> dict[str, Any]:
    """Describes a write, and puts the schemas of its body into ``requests``."""
    schema = route.body.model_json_schema(ref_template=_REF)
    requests.update(schema.pop("$defs", {}))
    requests[route.body.__name__] = schema
    errors = {code: why for code, why in _ERRORS.items() if code != "421"} | _OF_WRITES
    refused = answer if route.document is ApplyDocument else error
    key = {
        "name": KEY_HEADER,
        "in": "header",
        "required": True,
        "description": "New for each request. One that is sent again with the same key is carried out once.",
        "schema": {"type": "string", "pattern": f"^{KEY_PATTERN}$"},
    }
    return {
        "operationId": route.operation,
        "summary": route.summary,
        "parameters": [*_name(route), key],
        "requestBody": {
            "required": True,
            "content": _json({"$ref": _REF.format(model=route.body.__name__)}),
        },
        "responses": {
            "200": {"description": "It is done, and durable.", "content": _json(answer)},
            **{
                code: {
                    "description": why,
                    "content": _json({"anyOf": [error, refused]} if refused is not error else error),
                }
                for code, why in sorted(errors.items())
            },
        },
    }


def _name(route: Route | WriteRoute) -> list[dict[str, Any]]:
    """Returns the description of the name in a path, if there is one."""
    schema = {"type": "string", "pattern": f"^{NAME_PATTERN}$"}
    return [{"name": "name", "in": "path", "required": True, "schema": schema}] if route.takes_name else []


def _parameter(parameter: QueryParameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if parameter.pattern is not None:
        schema["pattern"] = f"^({parameter.pattern})$"
    if parameter.repeats:
        schema = {"type": "array", "items": schema}
    return {"name": parameter.name, "in": "query", "description": parameter.description, "schema": schema}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
