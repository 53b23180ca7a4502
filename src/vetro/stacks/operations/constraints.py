"""Custom constraints that name something of the cloud: a flavor, an image, a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vetro.compute.client.calls import (
    NETWORKS,
    PORTS,
    ROUTERS,
    SECURITY_GROUPS,
    SUBNETS,
    VOLUMES,
    Kind,
)
from vetro.stacks.compute_service.port import ComputePort
from vetro.stacks.errors import ResourceFailure, TemplateError
from vetro.stacks.flavors import Flavor, find_flavor
from vetro.stacks.template.custom_constraints import VALUE_KINDS, CustomConstraint
from vetro.stacks.template.templates import Template

_KINDS: Mapping[str, Kind[Any, Any, Any]] = {
    "neutron.network": NETWORKS,
    "neutron.subnet": SUBNETS,
    "neutron.router": ROUTERS,
    "neutron.port": PORTS,
    "neutron.security_group": SECURITY_GROUPS,
    "cinder.volume": VOLUMES,
}
_LATER = ("cinder.snapshot", "cinder.backup")
"""The volume that is made of one says that it is not there."""
KNOWN = frozenset({*_KINDS, *_LATER, "nova.flavor", "nova.keypair", "nova.server", "glance.image"})


async def check_constraints(
    template: Template, project_id: str, compute: ComputePort, flavors: Mapping[str, Flavor]
) -> None:
    """Look up what parameters name. Raises `TemplateError` with the parameter for what is not there."""
    for wanted in dict.fromkeys(template.constraints):
        if wanted.kind not in KNOWN:
            known = ", ".join(sorted(KNOWN | VALUE_KINDS))
            raise TemplateError(
                f"The parameter {wanted.parameter!r} is {wanted.value!r}: there is no custom constraint"
                f" {wanted.kind!r} here; those that are checked: {known}"
            )
        reason = await _missing(wanted, project_id, compute, flavors)
        if reason is not None:
            raise wanted.refusal(reason)


async def _missing(
    wanted: CustomConstraint, project_id: str, compute: ComputePort, flavors: Mapping[str, Flavor]
) -> str | None:
    """Why a value does not hold, in words."""
    value, found = wanted.value, True
    try:
        if wanted.kind == "nova.flavor":
            find_flavor(flavors, value)
        elif wanted.kind == "glance.image":
            await compute.image(project_id, value)
        elif wanted.kind == "nova.keypair":
            found = await compute.public_key(value, project_id=project_id) is not None
        elif wanted.kind == "nova.server":
            server = await compute.server(value)
            found = server is not None and server.owner_uuid == project_id
        elif wanted.kind in _KINDS:
            rows = await compute.all(_KINDS[wanted.kind], project_id)
            found = any(value in (one.uuid, one.name) for one in rows)
    except ResourceFailure as error:
        return str(error)
    return None if found else f"there is no {wanted.kind.rpartition('.')[2]} of this name or id"
