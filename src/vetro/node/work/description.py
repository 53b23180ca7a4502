"""The OpenAPI document of the task API, for clients that are generated (compute-node-agent.md §4).

It is written by hand, because the node runs no HTTP framework that could write it. The tests compare
every answer that they get from a node with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

_STAMP = {"type": "string", "description": "ISO 8601, UTC."}


def _object(required: Mapping[str, Json], optional: Mapping[str, Json] | None = None) -> Json:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }


_SCHEMAS: Json = {
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


def _json(schema: Json, description: str) -> Json:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _named(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


_REFUSED: Json = {
    "401": _json(_named("Error"), "The node's key is missing or wrong."),
    "404": _json(_named("Error"), "The request is for another server, or names what is not here."),
    "503": _json(_named("Error"), "The node is paused, ends, or has too many connections."),
}


def _paths() -> Json:
    nothing: Json = {"description": "Done."}
    file: Json = {
        "description": "The image's file.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
    open_to_all: Json = {"security": []}
    return {
        "/ping": {
            "get": {
                "operationId": "ping",
                "summary": "Whether the node accepts tasks",
                "responses": {"200": _json(_named("Ready"), "The node answers.")},
                **open_to_all,
            }
        },
        "/openapi.json": {
            "get": {
                "operationId": "describe",
                "summary": "This document",
                "responses": {"200": _json({"type": "object"}, "OpenAPI 3.1.")},
                **open_to_all,
            }
        },
        "/tasks": {
            "post": {
                "operationId": "run_task",
                "summary": "Run a task to its end",
                "parameters": [
                    {
                        "name": "task",
                        "in": "query",
                        "required": False,
                        "schema": {"type": "string"},
                        "description": "The kind of task, where the body has none.",
                    },
                    *(
                        {
                            "name": name,
                            "in": "header",
                            "required": False,
                            "schema": {"type": "string"},
                        }
                        for name in ("Idempotency-Key", "X-Request-Id", "X-Server-UUID")
                    ),
                ],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": _named("Task")}},
                },
                "responses": {
                    "200": _json({}, "The task's result."),
                    "400": _json(_named("Error"), "The body is not JSON, or was not sent whole."),
                    **_REFUSED,
                    "409": _json(_named("Error"), "An invalid parameter, or an overtaken turn."),
                    "413": _json(_named("Error"), "The body is larger than a node reads."),
                    "500": _json(_named("TaskError"), "The task failed."),
                },
            }
        },
        "/history": {
            "get": {
                "operationId": "history",
                "summary": "The active tasks and the last ended ones",
                "responses": {
                    "200": _json(
                        {"type": "array", "items": _named("HistoryEntry")}, "Oldest first."
                    ),
                    **_REFUSED,
                },
            }
        },
        **{
            path: {
                "post": {
                    "operationId": path.removeprefix("/"),
                    "summary": summary,
                    "responses": {"204": nothing, **_REFUSED},
                }
            }
            for path, summary in (
                ("/pause", "Accept no more tasks"),
                ("/resume", "Accept tasks again"),
            )
        },
        "/images/{uuid}/file": {
            "get": {
                "operationId": "image_file",
                "summary": "An image's file, for another node that knows its digest",
                "parameters": [
                    {
                        "name": "uuid",
                        "in": "path",
                        "required": True,
                        "schema": {"type": "string", "format": "uuid"},
                    },
                    {
                        "name": "X-Image-Sha256",
                        "in": "header",
                        "required": False,
                        "schema": {"type": "string"},
                        "description": "Admits the caller in place of the node's key.",
                    },
                ],
                "responses": {"200": file, **_REFUSED},
            }
        },
    }


def document(version: str) -> Json:
    """The whole document (OpenAPI 3.1) of a node with this version of Vetro."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Vetro compute node: tasks", "version": version},
        "security": [{"key": []}],
        "paths": _paths(),
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "The node's key."}
            },
        },
    }
