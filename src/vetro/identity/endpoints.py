"""Services, endpoints and regions of the service catalog, for administrators. Read only.

The catalog comes from the settings of this installation, not from the database.
"""

from __future__ import annotations

from typing import Any

from litestar import get
from litestar.params import FromPath

from vetro.http import NotFound, describes
from vetro.identity.callers import AnyRequest, Callers, base_of, links

_TEXT = {"type": "string"}


def endpoint_handlers(callers: Callers) -> list[Any]:
    """The handlers of services, endpoints, regions and (always empty) groups."""
    login = callers.login

    def services(request: AnyRequest) -> list[dict[str, Any]]:
        return [
            {
                "id": one["id"],
                "type": one["type"],
                "name": one["name"],
                "enabled": True,
                "links": {"self": f"{base_of(request)}/services/{one['id']}"},
            }
            for one in login.catalog()
        ]

    def endpoints(request: AnyRequest) -> list[dict[str, Any]]:
        return [
            {
                **endpoint,
                "service_id": one["id"],
                "enabled": True,
                "links": {"self": f"{base_of(request)}/endpoints/{endpoint['id']}"},
            }
            for one in login.catalog()
            for endpoint in one["endpoints"]
        ]

    def regions(request: AnyRequest) -> list[dict[str, Any]]:
        return [
            {
                "id": login.region,
                "description": "",
                "parent_region_id": None,
                "links": {"self": f"{base_of(request)}/regions/{login.region}"},
            }
        ]

    handlers: list[Any] = []
    for plural, make, filters in (
        ("services", services, ("type", "name")),
        ("endpoints", endpoints, ("interface", "service_id", "region_id")),
        ("regions", regions, ()),
    ):
        handlers += _read_only(callers, plural, make, filters)

    @get("/v3/groups")
    async def groups(request: AnyRequest) -> dict[str, Any]:
        """Groups of users: always empty, because roles are assigned to users."""
        await callers.admin(request)
        return {"groups": [], "links": links(request)}

    return [*handlers, groups]


def _read_only(callers: Callers, plural: str, make: Any, filters: tuple[str, ...]) -> list[Any]:
    kind = plural[:-1]

    @get(
        f"/v3/{plural}",
        name=f"list {plural}",
        operation_class=describes(query=dict.fromkeys(filters, _TEXT)),
    )
    async def listing(request: AnyRequest) -> dict[str, Any]:
        await callers.caller(request)
        rows = [
            row
            for row in make(request)
            if all(
                row[name] == request.query_params[name]
                for name in filters
                if name in request.query_params
            )
        ]
        return {plural: rows, "links": links(request)}

    @get(f"/v3/{plural}/{{id_:str}}", name=f"show {kind}")
    async def show(request: AnyRequest, id_: FromPath[str]) -> dict[str, Any]:
        await callers.caller(request)
        for row in make(request):
            if row["id"] == id_:
                return {kind: row}
        raise NotFound(f"Could not find {kind}: {id_}.")

    return [listing, show]
