"""What the calls of environments take, for the OpenAPI document (catalog-api.md §5)."""

from __future__ import annotations

from vetro.environments import states
from vetro.http import an_object
from vetro.http.endpoint import Body
from vetro.http.parameters import STRING, Param, Rule, pattern, query

_TEXT = {"type": "string"}


def _one_of(values: tuple[str, ...]) -> Rule:
    return pattern("|".join(values), schema={"type": "string", "enum": list(values)})


_NAME = {"type": "string", "minLength": 1, "maxLength": 255}
SESSION = (Param("X-Configuration-Session", STRING, where="header"),)
_MAYBE_TEXT = {"type": ["string", "null"]}
# Client generators derive names from titles; "?" does not make a name.
_HEADER = {**an_object({"type": _TEXT, "id": _TEXT}, ["type"]), "title": "ObjectHeader"}
_SERVICE = an_object({"?": _HEADER}, ["?"])

_LIMIT = {"type": "integer", "minimum": 1}
#: A page of a list, and rows of one name (``vetro.environments.paging``).
PAGE = (
    *query(pattern(r"[1-9]\d{0,8}", schema=_LIMIT), "limit"),
    *query(STRING, "marker", "name"),
)
OF_PROJECTS = (
    *query(STRING, "all_tenants", "tenant"),
    *PAGE,
    *query(_one_of(states.ENVIRONMENT), "status"),
)
DEPLOYMENTS = (*PAGE, *query(_one_of(states.DEPLOYMENT), "status"))
CREATE = Body(
    an_object(
        {
            "name": _NAME,
            "description_text": _TEXT,
            "region": _MAYBE_TEXT,
            "defaultNetworks": {"type": ["object", "null"]},
        },
        ["name"],
    )
)
RENAME = Body(an_object({"name": _NAME}, ["name"]))
CHANGE = Body(an_object({"name": _NAME, "description_text": _TEXT}))
REMOVE = query(STRING, "abandon")
ADD_SERVICES = Body({"oneOf": [_SERVICE, {"type": "array", "items": _SERVICE}]})
PUBLIC = (*query(STRING, "is_public"), *PAGE)
_TEMPLATE = {"name": _NAME, "description_text": _TEXT, "is_public": {"type": "boolean"}}
CREATE_TEMPLATE = Body(
    an_object({**_TEMPLATE, "services": {"type": ["array", "null"], "items": _SERVICE}}, ["name"])
)
CHANGE_TEMPLATE = Body(an_object(_TEMPLATE, ["name"]))
CLONE_TEMPLATE = Body(an_object({"name": _NAME, "is_public": {"type": "boolean"}}, ["name"]))
PUT_SERVICES = Body({})
PATCH_MODEL = Body(
    {
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
)
FIX_PACKAGES = Body(
    an_object(
        {"packages": {"type": "object", "additionalProperties": {"type": "array", "items": _TEXT}}},
        ["packages"],
    )
)
UPGRADE = Body(
    {
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
)
REPORTS = query(STRING, "service_id")
CANCELLATION = Body(
    {
        "type": ["object", "null"],
        "properties": {"reason": {"type": "string", "maxLength": 500}},
    },
    required=False,
)
_QUOTA = {"type": ["integer", "null"], "minimum": -1}
QUOTAS = Body(
    an_object(
        dict.fromkeys(
            ("environments", "instances", "cores", "memory", "addresses", "volumes", "disk"), _QUOTA
        )
    )
)
REGION = query(STRING, "region")
FOLLOW = query(pattern(r"\d{1,9}"), "seconds")
EVENTS = (Param("Last-Event-ID", STRING, where="header"),)
PENDING = query(
    pattern("overtake|refuse", schema={"type": "string", "enum": ["overtake", "refuse"]}), "pending"
)
_KEYS = Rule("texts", STRING.check, {"type": "array", "items": {"type": "string"}})
MAY_LOSE = query(_KEYS, "mayLose")
DEPLOY = (*PENDING, *MAY_LOSE)
#: What becomes of components that refer to what a change takes out (`component_users`).
USES = query(
    pattern("ignore|refuse", schema={"type": "string", "enum": ["ignore", "refuse"]}), "uses"
)
ACTION = Body({"type": ["object", "null"]}, required=False)
STATIC_ACTION = Body(
    an_object(
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
SCHEMAS = query(STRING, "classVersion", "packageName")
_VALUES = {"type": "object", "additionalProperties": True}
LANGUAGE = query(STRING, "language")
SHOW_WIZARD = (
    *LANGUAGE,
    *query(pattern("true|false", schema={"type": "string", "enum": ["true", "false"]}), "refresh"),
)
START_WIZARD = Body(
    an_object(
        {
            "package": {"type": "string", "minLength": 1},
            "service": _MAYBE_TEXT,
            "environment_id": _MAYBE_TEXT,
            "session_id": _MAYBE_TEXT,
            "template_id": _MAYBE_TEXT,
            "quick": {"type": "boolean"},
            "component_id": _MAYBE_TEXT,
        },
    )
)
PAGE_VALUES = Body(an_object({"values": _VALUES}, ["values"]))
CHECKED_VALUES = Body(an_object({"values": _VALUES, "field": _MAYBE_TEXT}, ["values"]))
FINISH = Body(an_object({"environment_id": _MAYBE_TEXT, "session_id": _MAYBE_TEXT}))
