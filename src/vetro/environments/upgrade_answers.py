"""The answers of the calls about versions of packages, for the OpenAPI document (docs/api-guide.md)."""

from __future__ import annotations

from collections.abc import Mapping

from vetro.http import Reply, listed, maybe, shape

_TEXT = {"type": "string"}
_OBJECT = {"type": "object"}
_E = "/v1/environments/{environment_id}"
UPGRADABLE = shape(
    "ApplicationVersions",
    {
        "id": _TEXT,
        "name": maybe(_TEXT),
        "class": _TEXT,
        "package": maybe(_TEXT),
        "version": maybe(_TEXT),
        "newest": maybe(_TEXT),
        "newer": listed(_TEXT),
    },
)
PROPERTY_CHANGE = shape(
    "PropertyChange",
    {
        "property": _TEXT,
        "change": {"type": "string", "enum": ["added", "removed", "changed"]},
        "aspects": listed({"type": "string", "enum": ["contract", "default", "usage"]}),
        "from": maybe(_OBJECT),
        "to": maybe(_OBJECT),
    },
)
UPGRADE = shape(
    "Upgrade",
    {
        "applications": listed(
            shape(
                "ApplicationUpgrade",
                {
                    "id": _TEXT,
                    "name": maybe(_TEXT),
                    "class": _TEXT,
                    "package": maybe(_TEXT),
                    "from": maybe(_TEXT),
                    "to": maybe(_TEXT),
                    "direction": {"type": "string", "enum": ["upgrade", "downgrade", "none"]},
                    "objects": listed(
                        shape(
                            "ObjectUpgrade",
                            {
                                "id": _TEXT,
                                "class": _TEXT,
                                "package": _TEXT,
                                "from": maybe(_TEXT),
                                "to": _TEXT,
                                "changes": listed(PROPERTY_CHANGE),
                            },
                        )
                    ),
                    "shared": listed(
                        shape(
                            "SharedObject",
                            {"id": _TEXT, "class": _TEXT, "used_by": listed(_OBJECT)},
                        )
                    ),
                    "problems": listed(_TEXT),
                    "notes": listed(_TEXT),
                },
            )
        ),
        "problems": listed(_TEXT),
    },
)


def _object(member: str, schema: Mapping[str, object]) -> dict[str, object]:
    return {"type": "object", "required": [member], "properties": {member: schema}}


FIXED = _object("packages", {"type": "object", "additionalProperties": listed(_TEXT)})
REPLIES: Mapping[str, Reply] = {
    "GET /v1/upgrades": Reply(
        _object("environments", {"type": "object", "additionalProperties": listed(UPGRADABLE)}),
        name="list_project_upgrades",
    ),
    f"GET {_E}/upgrades": Reply(_object("applications", listed(UPGRADABLE)), name="list_upgrades"),
    f"GET {_E}/packages": Reply(FIXED, name="list_fixed_packages"),
    f"PUT {_E}/packages": Reply(FIXED, name="fix_packages", errors=(409,)),
    f"POST {_E}/upgrades": Reply(UPGRADE, name="upgrade_applications", errors=(409, 504)),
    f"POST {_E}/upgrades/preview": Reply(UPGRADE, name="preview_upgrade", errors=(504,)),
}
