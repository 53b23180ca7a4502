"""The OpenAPI document of the task API, for clients that are generated (compute-node-agent.md §4).

It is made from the table of endpoints; what the calls answer with is declared here, away from what every
node loads. The tests compare every answer that they get from a node with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from vetro.json_values import JsonObject
from vetro.node.work.endpoints import ENDPOINTS, NodeEndpoint

_STAMP = {"type": "string", "description": "ISO 8601, UTC."}


def _object(
    required: Mapping[str, JsonObject], optional: Mapping[str, JsonObject] | None = None
) -> JsonObject:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }


_SCHEMAS: JsonObject = {
    "Error": _object(
        {"code": {"type": "string"}, "message": {"type": "string"}},
        {"error": {"type": "string"}, "details": {"type": "object"}},
    ),
    "TaskError": _object(
        {"error": {"type": "string", "description": "What went wrong, in one line."}},
        {
            "details": {
                "type": "object",
                "description": "`restCode` says which kind of error it is, for programs.",
            }
        },
    ),
    "Ready": _object(
        {"ready": {"type": "boolean"}, "paused": {"type": "boolean"}, "version": {"type": "string"}}
    ),
    "Task": _object(
        {
            "task": {
                "type": "string",
                "description": "The kind of task, for example `machine_create`.",
            },
            "params": {"type": "object"},
        },
        {
            "fence": {
                "oneOf": [
                    _object(
                        {
                            "scope": {"type": "string"},
                            "id": {"type": "string"},
                            "number": {"type": "integer"},
                        }
                    ),
                    {"type": "null"},
                ],
                "description": "The turn in which the task is done; an overtaken turn is refused.",
            }
        },
    ),
    "HistoryEntry": _object(
        {
            "started_at": _STAMP,
            "task": {"type": "string"},
            "pid": {"type": "integer"},
            "params": {"type": "object"},
            "status": {"type": "string", "enum": ["active", "finished", "failed"]},
            "errorCount": {"type": "integer"},
            "messages": {"type": "array", "items": {"type": "object"}},
            "log": {"type": "array", "items": {}},
        },
        {"finished_at": _STAMP},
    ),
}


def _json(schema: JsonObject, description: str) -> JsonObject:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _named(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{name}"}


_REFUSED: JsonObject = {
    "401": _json(_named("Error"), "The node's key is missing or wrong."),
    "404": _json(_named("Error"), "The request is for another server, or names what is not here."),
    "503": _json(_named("Error"), "The node is paused, ends, or has too many connections."),
}


_FILE: JsonObject = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}

#: What the calls answer with, by the names of their endpoints.
_REPLIES: Mapping[str, JsonObject] = {
    "ping": {"200": _json(_named("Ready"), "The node answers.")},
    "describe": {"200": _json({"type": "object"}, "OpenAPI 3.1.")},
    "run_task": {
        "200": _json({}, "The task's result."),
        "400": _json(_named("Error"), "The body is not JSON, or was not sent whole."),
        **_REFUSED,
        "409": _json(_named("Error"), "An invalid parameter, or an overtaken turn."),
        "413": _json(_named("Error"), "The body is larger than a node reads."),
        "500": _json(_named("TaskError"), "The task failed."),
    },
    "history": {
        "200": _json({"type": "array", "items": _named("HistoryEntry")}, "Oldest first."),
        **_REFUSED,
    },
    "pause": {"204": {"description": "Done."}, **_REFUSED},
    "resume": {"204": {"description": "Done."}, **_REFUSED},
    "image_file": {"200": {"description": "The image's file.", "content": _FILE}, **_REFUSED},
}


def _operation(endpoint: NodeEndpoint) -> JsonObject:
    parameters: list[JsonObject] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in endpoint.path_names
    ]
    for param in endpoint.params:
        described = {"description": param.description} if param.description else {}
        place = {"name": param.name, "in": param.where, "required": param.required}
        parameters.append({**place, "schema": dict(param.rule.schema), **described})
    operation: JsonObject = {
        "operationId": endpoint.name,
        "summary": str(endpoint.run.__doc__).rstrip("."),
        "responses": _REPLIES[endpoint.name],
    }
    if parameters:
        operation["parameters"] = parameters
    if endpoint.takes is not None:
        media = {endpoint.takes.content_type: {"schema": endpoint.takes.schema}}
        operation["requestBody"] = {"required": endpoint.takes.required, "content": media}
    if "401" not in _REPLIES[endpoint.name]:
        operation["security"] = []
    return operation


def document(version: str) -> JsonObject:
    """The whole document (OpenAPI 3.1) of a node with this version of Vetro."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Vetro compute node: tasks", "version": version},
        "security": [{"key": []}],
        "paths": {one.path: {one.verbs.lower(): _operation(one)} for one in ENDPOINTS},
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "The node's key."}
            },
        },
    }
