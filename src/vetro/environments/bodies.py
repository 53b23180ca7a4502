"""The request bodies of the environment calls, for the OpenAPI document (catalog-api.md §5)."""

from __future__ import annotations

from vetro.http import an_object, describes

_TEXT = {"type": "string"}
_NAME = {"type": "string", "minLength": 1, "maxLength": 255}
_SESSION = {"X-Configuration-Session": _TEXT}
_MAYBE_TEXT = {"type": ["string", "null"]}
# Client generators derive names from titles; "?" does not make a name.
_HEADER = {**an_object({"type": _TEXT, "id": _TEXT}, ["type"]), "title": "ObjectHeader"}
_SERVICE = an_object({"?": _HEADER}, ["?"])

LIST = describes(query={"all_tenants": _TEXT, "tenant": _TEXT})
CREATE = describes(
    body=an_object(
        {
            "name": _NAME,
            "description_text": _TEXT,
            "region": _MAYBE_TEXT,
            "defaultNetworks": {"type": ["object", "null"]},
        },
        ["name"],
    )
)
RENAME = describes(body=an_object({"name": _NAME}, ["name"]))
REMOVE = describes(query={"abandon": _TEXT})
READ = describes(headers=_SESSION)
ADD_SERVICES = describes(
    body={"oneOf": [_SERVICE, {"type": "array", "items": _SERVICE}]}, headers=_SESSION
)
PUT_SERVICES = describes(body={}, headers=_SESSION)
PATCH_MODEL = describes(
    body={
        "type": "array",
        "items": an_object(
            {
                "op": {"type": "string", "enum": ["add", "replace", "remove"]},
                "path": _TEXT,
                "value": {},
            },
            ["op", "path"],
        ),
    },
    content_type="application/env-model-json-patch",
    headers=_SESSION,
)
UPGRADE = describes(
    body={
        "type": ["object", "null"],
        "properties": {
            "applications": {
                "type": ["array", "null"],
                "items": an_object(
                    {
                        "id": _TEXT,
                        "version": _MAYBE_TEXT,
                        "properties": {"type": ["object", "null"]},
                    },
                    ["id"],
                ),
            }
        },
    },
    required=False,
    headers=_SESSION,
)
REPORTS = describes(query={"service_id": _TEXT})
CANCELLATION = describes(
    body={
        "type": ["object", "null"],
        "properties": {"reason": {"type": "string", "maxLength": 500}},
    },
    required=False,
)
EVENTS = describes(headers={"Last-Event-ID": _TEXT})
_PENDING = {"type": "string", "enum": ["overtake", "refuse"]}
DEPLOY = describes(query={"pending": _PENDING})
ACTION = describes(body={"type": ["object", "null"]}, required=False, query={"pending": _PENDING})
STATIC_ACTION = describes(
    body=an_object(
        {
            "className": {"type": "string", "minLength": 1},
            "methodName": {"type": "string", "minLength": 1},
            "parameters": {"type": ["object", "null"]},
            "packageName": _MAYBE_TEXT,
            "classVersion": _MAYBE_TEXT,
        },
        ["className", "methodName"],
    )
)
SCHEMAS = describes(query={"classVersion": _TEXT, "packageName": _TEXT})
