"""OpenAPI 3.1, made from the operations that are served."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, Final

from headrace.gateway.api.operations import Operation
from headrace.gateway.api.shapes import schema_of

_IN_PATH: Final = re.compile(r"{(\w+)(?::[^}]*)?}")
NUMBERS_IN_PATHS: Final = frozenset({"partition", "broker", "offset"})
PROBLEM: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "Why there is no answer (RFC 9457), and what to do.",
    "required": ["type", "title", "status", "code", "detail", "advice"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "For programs."},
        "detail": {"type": "string", "description": "The reason."},
        "advice": {"type": "string", "description": "What to do."},
    },
}


def openapi(operations: Iterable[Operation]) -> dict[str, Any]:
    """The description of all that is listed."""
    listed = [operation for operation in operations if operation.listed]
    shown_at = {operation.path for operation in listed if operation.method == "GET" and operation.answer is not None}
    components: dict[str, Any] = {"Problem": dict(PROBLEM)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in listed:
        described = _operation(operation, components, shown_at)
        paths.setdefault(_IN_PATH.sub(r"{\1}", operation.path), {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace gateway",
            "version": version("headrace"),
            "description": "Topics, records, groups and webhooks over HTTP. Every act is the caller's own: Basic credentials "
            "sign in by SASL, a bearer token by OAUTHBEARER.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{}, {"basic": []}, {"bearer": []}],
    }


def _operation(operation: Operation, components: dict[str, Any], shown_at: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": _identifier(operation),
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [*_path_parameters(operation), *_query_parameters(operation), *_headers(operation, shown_at)],
        "responses": _responses(operation, components),
    }
    if operation.description:
        found["description"] = operation.description
    if operation.body is not None or operation.streams_in:
        schema = {} if operation.body is None else schema_of(operation.body, components)
        found["requestBody"] = {
            "required": operation.body_required,
            "content": {media: {"schema": schema if media.endswith("json") else {}} for media in operation.body_media},
        }
    if not operation.needs_caller:
        found["security"] = [{}]
    return found


def _identifier(operation: Operation) -> str:
    words = re.findall(r"[A-Za-z0-9]+", operation.path)
    return "_".join([operation.method.lower(), *(word.lower() for word in words)])


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer", "minimum": 0} if name in NUMBERS_IN_PATHS else {"type": "string", "minLength": 1},
        }
        for name in _IN_PATH.findall(operation.path)
    ]


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {
            "name": parameter.name,
            "in": "query",
            "required": parameter.required,
            "description": parameter.description,
            "schema": parameter.schema(),
        }
        for parameter in operation.query
    ]


def _headers(operation: Operation, shown_at: set[str]) -> list[dict[str, Any]]:
    if not operation.is_change or operation.streams_in:
        return []
    found = [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "Sent again with the same key, a change is done once.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        }
    ]
    if operation.path in shown_at:
        found.append(
            {
                "name": "If-Match",
                "in": "header",
                "required": False,
                "description": "The ETag of what is changed, as GET gave it.",
                "schema": {"type": "string"},
            }
        )
    return found


def _responses(operation: Operation, components: dict[str, Any]) -> dict[str, Any]:
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    ok: dict[str, Any] = {"description": operation.summary}
    status = operation.status
    if operation.answer is not None:
        ok["content"] = {operation.answer_media: {"schema": schema_of(operation.answer, components)}}
    elif operation.answer_media != "application/json":
        ok["content"] = {operation.answer_media: {}}
    elif status == 200:
        status = 204
    return {str(status): ok, "default": {"description": "Why there is no answer, and what to do.", "content": problem}}
