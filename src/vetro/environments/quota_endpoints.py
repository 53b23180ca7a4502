"""The calls of quotas: how much projects have and may have (docs/quotas.md)."""

from __future__ import annotations

from vetro.environments import bodies, shapes
from vetro.environments.endpoint import Call, Endpoint
from vetro.environments.model import Json
from vetro.http.endpoint import EMPTY
from vetro.quotas import UNITS


async def show_own(call: Call) -> Json:
    """What the caller's project has of each resource, and may have (-1: any amount).

    What is made by an OpenStack is what that one counts and lets the project have, in the region.
    """
    found = await call.service.quotas.show(call.principal.project_id)
    if call.service.cloud_quotas is not None:
        region = call.query("region") or None
        theirs, warnings = await call.service.cloud_quotas.usage(call.principal, region)
        for name, one in theirs.items():
            found["quotas"][name] = {
                "used": one.used,
                "limit": one.limit,
                "default": one.limit,
                "unit": UNITS.get(name, ""),
                "enforced_by": "openstack",
            }
        found["warnings"] = list(warnings)
    return found


async def show(call: Call) -> Json:
    """What a project has of each resource, and may have (-1: any amount)."""
    return await call.service.quotas.show_any(call.path["project_id"])


async def change(call: Call) -> Json:
    """Give a project limits of its own on the resources that are named; null: the default again."""
    return await call.service.quotas.change(call.path["project_id"], await call.json())


async def reset(call: Call) -> Json:
    """Let a project have the default limits again."""
    await call.service.quotas.reset(call.path["project_id"])
    return EMPTY


_OF = "/v1/quotas/{project_id}"
ENDPOINTS = [
    Endpoint("show_quotas", "GET", "/v1/quotas", show_own, bodies.REGION, reply=shapes.QUOTAS),
    Endpoint("show_project_quotas", "GET", _OF, show, reply=shapes.QUOTAS),
    Endpoint("change_project_quotas", "PUT", _OF, change, takes=bodies.QUOTAS, reply=shapes.QUOTAS),
    Endpoint("reset_project_quotas", "DELETE", _OF, reset),
]  # fmt: skip
