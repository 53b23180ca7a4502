"""The answers of the identity face, for its OpenAPI document (Keystone v3)."""

from __future__ import annotations

from vetro.http import TOKEN, Reply, Security, listed, maybe, shape

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_LINKS = shape("Links", {"self": _TEXT}, ["self"])
_LIST_LINKS = shape(
    "ListLinks", {"self": _TEXT, "next": maybe(_TEXT), "previous": maybe(_TEXT)}, ["previous"]
)
_NAMED = shape("NameAndId", {"id": _TEXT, "name": _TEXT})
_COMMON: dict[str, object] = {
    "id": _TEXT,
    "name": _TEXT,
    "links": _LINKS,
    "options": {"type": "object"},
    "description": maybe(_TEXT),
    "enabled": _FLAG,
    "domain_id": maybe(_TEXT),
}
_OPTIONAL = ("description",)
USER = shape(
    "User",
    {
        **{name: one for name, one in _COMMON.items() if name != "description"},
        "email": _TEXT,
        "default_project_id": _TEXT,
        "password_expires_at": maybe(_TEXT),
    },
    ["email", "default_project_id"],
)
PROJECT = shape(
    "Project",
    {**_COMMON, "is_domain": _FLAG, "parent_id": maybe(_TEXT), "tags": listed(_TEXT)},
    _OPTIONAL,
)
ROLE = shape("Role", {name: one for name, one in _COMMON.items() if name != "enabled"}, ())
DOMAIN = shape(
    "Domain",
    {
        **{name: one for name, one in _COMMON.items() if name != "domain_id"},
        "tags": listed(_TEXT),
    },
    _OPTIONAL,
)
_ENDPOINT_FIELDS = {
    "id": _TEXT, "interface": _TEXT, "region": _TEXT, "region_id": _TEXT, "url": _TEXT,
}  # fmt: skip
CATALOG = listed(
    shape(
        "CatalogEntry",
        {
            "id": _TEXT,
            "type": _TEXT,
            "name": _TEXT,
            "endpoints": listed(shape("CatalogEndpoint", _ENDPOINT_FIELDS)),
        },
    )
)
_SCOPE = shape("Scope", {"id": _TEXT, "name": _TEXT, "domain": _NAMED}, ["domain"])
TOKEN_BODY = shape(
    "Token",
    {
        "methods": listed(_TEXT),
        "user": shape(
            "TokenUser",
            {"id": _TEXT, "name": _TEXT, "domain": _NAMED, "password_expires_at": maybe(_TEXT)},
        ),
        "audit_ids": listed(_TEXT),
        "issued_at": _TEXT,
        "expires_at": _TEXT,
        "project": _SCOPE,
        "domain": _SCOPE,
        "is_domain": _FLAG,
        "roles": listed(_NAMED),
        "catalog": CATALOG,
        "application_credential": shape("TokenCredential", {"id": _TEXT, "restricted": _FLAG}),
    },
    ["project", "domain", "is_domain", "roles", "catalog", "application_credential"],
)
CREDENTIAL = shape(
    "ApplicationCredential",
    {
        "id": _TEXT,
        "name": _TEXT,
        "description": maybe(_TEXT),
        "project_id": _TEXT,
        "roles": listed(_NAMED),
        "expires_at": maybe(_TEXT),
        "unrestricted": _FLAG,
        "secret": _TEXT,
    },
    ["secret"],
)
SERVICE = shape(
    "Service",
    {"id": _TEXT, "type": _TEXT, "name": _TEXT, "enabled": _FLAG, "links": _LINKS},
)
ENDPOINT = shape(
    "Endpoint", {**_ENDPOINT_FIELDS, "service_id": _TEXT, "enabled": _FLAG, "links": _LINKS}
)
REGION = shape(
    "Region",
    {"id": _TEXT, "description": _TEXT, "parent_region_id": maybe(_TEXT), "links": _LINKS},
)
ASSIGNMENT = shape(
    "RoleAssignment",
    {
        "user": shape("AssignedUser", {"id": _TEXT, "name": _TEXT, "domain": _NAMED}, ["name", "domain"]),
        "scope": {"type": "object"},
        "role": shape("AssignedRole", {"id": _TEXT, "name": _TEXT}, ["name"]),
        "links": {"type": "object"},
    },
)  # fmt: skip
VERSION = shape(
    "ApiVersion",
    {
        "id": _TEXT,
        "status": _TEXT,
        "updated": _TEXT,
        "links": listed(shape("Link", {"rel": _TEXT, "href": _TEXT})),
        "media-types": listed({"type": "object"}),
    },
)
SHOWN = {
    "users": USER,
    "projects": PROJECT,
    "roles": ROLE,
    "domains": DOMAIN,
    "services": SERVICE,
    "endpoints": ENDPOINT,
    "regions": REGION,
}
"""By the plurals of the kinds."""


def inside(key: str, shown: object) -> dict[str, object]:
    """An object with one member."""
    return {"type": "object", "properties": {key: shown}, "required": [key]}


def page(key: str, shown: object) -> dict[str, object]:
    """A list and its links."""
    return {
        "type": "object",
        "properties": {key: shown, "links": _LIST_LINKS},
        "required": [key, "links"],
    }


VERSIONS = inside("versions", inside("values", listed(VERSION)))
HOLDINGS = inside("holdings", {"type": "object", "additionalProperties": listed(_TEXT)})
LEAVING = Reply(status=204, others={202: inside("project", PROJECT)})
ONE_CREDENTIAL = inside("application_credential", CREDENTIAL)
CREDENTIALS = page("application_credentials", listed(CREDENTIAL))
NAMED_ROLES, GROUPS = page("roles", listed(_NAMED)), page("groups", listed(_NAMED))


def _public(method: str, path: str) -> bool:
    return path in ("/", "/v3") or (method, path) == ("POST", "/v3/auth/tokens")


SECURITY = Security({"token": TOKEN}, _public)
