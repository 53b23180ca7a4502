"""Services, endpoints and regions of the service catalog, for administrators. Read only.

The catalog comes from the settings of this installation, not from the database.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from vetro.http import NotFound, listed
from vetro.http.parameters import STRING, query
from vetro.identity.answers import GROUPS, SHOWN, inside, page
from vetro.identity.endpoint import Call, Endpoint

Rows = list[dict[str, Any]]


def _services(call: Call) -> Rows:
    return [
        {
            "id": one["id"],
            "type": one["type"],
            "name": one["name"],
            "enabled": True,
            "links": {"self": f"{call.base}/services/{one['id']}"},
        }
        for one in call.login.catalog()
    ]


def _endpoints(call: Call) -> Rows:
    return [
        {
            **endpoint,
            "service_id": one["id"],
            "enabled": True,
            "links": {"self": f"{call.base}/endpoints/{endpoint['id']}"},
        }
        for one in call.login.catalog()
        for endpoint in one["endpoints"]
    ]


def _regions(call: Call) -> Rows:
    region = call.login.region
    return [
        {
            "id": region,
            "description": "",
            "parent_region_id": None,
            "links": {"self": f"{call.base}/regions/{region}"},
        }
    ]


KINDS: dict[str, tuple[Callable[[Call], Rows], tuple[str, ...]]] = {
    "services": (_services, ("type", "name")),
    "endpoints": (_endpoints, ("interface", "service_id", "region_id")),
    "regions": (_regions, ()),
}
"""What each list shows, and its filters."""


async def listing(plural: str, call: Call) -> dict[str, Any]:
    """All, filtered."""
    await call.caller()
    make, filters = KINDS[plural]
    given = call.request.query_params
    rows = [
        row
        for row in make(call)
        if all(row[name] == given[name] for name in filters if name in given)
    ]
    return {plural: rows, "links": call.links}


async def show(plural: str, call: Call) -> dict[str, Any]:
    """One of them."""
    await call.caller()
    kind, id_ = plural[:-1], call.path["id_"]
    for row in KINDS[plural][0](call):
        if row["id"] == id_:
            return {kind: row}
    raise NotFound(f"Could not find {kind}: {id_}.")


async def groups(call: Call) -> dict[str, Any]:
    """Groups of users: always empty, because roles are assigned to users."""
    await call.admin()
    return {"groups": [], "links": call.links}


ENDPOINTS = [
    *(
        Endpoint(f"list_{one}", "GET", f"/v3/{one}", partial(listing, one), query(STRING, *filters),
                 reply=page(one, listed(SHOWN[one])))
        for one, (_, filters) in KINDS.items()
    ),
    *(
        Endpoint(f"show_{one[:-1]}", "GET", f"/v3/{one}/{{id_}}", partial(show, one),
                 reply=inside(one[:-1], SHOWN[one]))
        for one in KINDS
    ),
    Endpoint("list_groups", "GET", "/v3/groups", groups, reply=GROUPS),
]  # fmt: skip
