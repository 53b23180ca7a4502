"""The answers of the identity face, for its OpenAPI document (Keystone v3)."""

from __future__ import annotations

from vetro.http import TOKEN, Named, Reply, Security, listed, maybe, shape

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
_U = "/v3/users/{user_id}"


def _in(key: str, shown: object) -> dict[str, object]:
    return {"type": "object", "properties": {key: shown}, "required": [key]}


def _page(key: str, shown: Named) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {key: listed(shown), "links": _LIST_LINKS},
        "required": [key, "links"],
    }


def _kind(plural: str, shown: Named) -> dict[str, Reply]:
    one = plural[:-1]
    return {
        f"POST /v3/{plural}": Reply(
            _in(one, shown), status=201, name=f"create_{one}", errors=(404, 409)
        ),
        f"GET /v3/{plural}": Reply(_page(plural, shown), name=f"list_{plural}"),
        f"GET /v3/{plural}/{{id_}}": Reply(_in(one, shown), name=f"show_{one}"),
        f"PATCH /v3/{plural}/{{id_}}": Reply(_in(one, shown), name=f"change_{one}", errors=(409,)),
        f"DELETE /v3/{plural}/{{id_}}": Reply(status=204, name=f"delete_{one}", errors=(409,)),
    }


def _seen(plural: str, shown: Named) -> dict[str, Reply]:
    one = plural[:-1]
    return {
        f"GET /v3/{plural}": Reply(_page(plural, shown), name=f"list_{plural}"),
        f"GET /v3/{plural}/{{id_}}": Reply(_in(one, shown), name=f"show_{one}"),
    }


def _grants(scope: str) -> dict[str, Reply]:
    base = f"/v3/{scope}s/{{scope_id}}/users/{{user_id}}/roles"
    return {
        f"GET {base}": Reply(_page("roles", _NAMED), name=f"list_{scope}_grants"),
        f"PUT {base}/{{role_id}}": Reply(status=204, name=f"grant_{scope}_role"),
        f"GET {base}/{{role_id}}": Reply(status=204, name=f"check_{scope}_grant"),
        f"DELETE {base}/{{role_id}}": Reply(status=204, name=f"revoke_{scope}_role"),
    }


REPLIES = {
    "GET /": Reply(
        _in("versions", _in("values", listed(VERSION))), status=300, name="list_versions"
    ),
    "GET /v3": Reply(_in("version", VERSION), name="show_version"),
    "POST /v3/auth/tokens": Reply(
        _in("token", TOKEN_BODY), status=201, name="log_in", errors=(401, 403, 404, 429)
    ),
    "GET /v3/auth/tokens": Reply(_in("token", TOKEN_BODY), name="show_token", errors=(404,)),
    "DELETE /v3/auth/tokens": Reply(status=204, name="revoke_token", errors=(404,)),
    "GET /v3/auth/catalog": Reply(
        {
            "type": "object",
            "properties": {"catalog": CATALOG, "links": _LIST_LINKS},
            "required": ["catalog", "links"],
        },
        name="show_catalog",
    ),
    "GET /v3/auth/projects": Reply(_page("projects", PROJECT), name="list_own_projects"),
    "GET /v3/auth/domains": Reply(_page("domains", DOMAIN), name="list_own_domains"),
    f"GET {_U}/projects": Reply(_page("projects", PROJECT), name="list_projects_of_user"),
    f"POST {_U}/password": Reply(status=204, name="change_password", errors=(409,)),
    **_kind("users", USER),
    **_kind("projects", PROJECT),
    "DELETE /v3/projects/{id_}": Reply(
        status=204, name="delete_project", errors=(409,), others={202: _in("project", PROJECT)}
    ),
    "GET /v3/projects/{id_}/holdings": Reply(
        _in("holdings", {"type": "object", "additionalProperties": listed(_TEXT)}),
        name="list_project_holdings",
    ),
    **_kind("roles", ROLE),
    **_kind("domains", DOMAIN),
    **_grants("project"),
    **_grants("domain"),
    "GET /v3/role_assignments": Reply(
        _page("role_assignments", ASSIGNMENT), name="list_role_assignments"
    ),
    f"POST {_U}/application_credentials": Reply(
        _in("application_credential", CREDENTIAL), status=201, name="create_credential",
        errors=(409,),
    ),
    f"GET {_U}/application_credentials": Reply(
        _page("application_credentials", CREDENTIAL), name="list_credentials"
    ),
    f"GET {_U}/application_credentials/{{id_}}": Reply(
        _in("application_credential", CREDENTIAL), name="show_credential"
    ),
    f"DELETE {_U}/application_credentials/{{id_}}": Reply(status=204, name="delete_credential"),
    **_seen("services", SERVICE),
    **_seen("endpoints", ENDPOINT),
    **_seen("regions", REGION),
    "GET /v3/groups": Reply(_page("groups", _NAMED), name="list_groups"),
}  # fmt: skip


def _public(method: str, path: str) -> bool:
    return path in ("/", "/v3") or (method, path) == ("POST", "/v3/auth/tokens")


SECURITY = Security({"token": TOKEN}, _public)
