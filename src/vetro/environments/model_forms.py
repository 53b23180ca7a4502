"""The forms of the known parts of a model (catalog-api.md §5.1, §5.4).

A patch looks at what its path names; the check of a whole model looks at its root, whichever way it came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from vetro.environments.model import Json


class Header(msgspec.Struct):
    """A ``?`` block."""

    id: str
    type: str
    name: str | None = None
    actions: dict[str, Any] | msgspec.UnsetType = msgspec.field(
        name="_actions", default=msgspec.UNSET
    )


class EnvironmentNetwork(msgspec.Struct, rename="camel"):
    """The network of an environment; only the members with a known form.

    Engines write null for what is not given. A network that is joined has no name of its own.
    """

    header: Header = msgspec.field(name="?")
    name: str | None = None
    internal_network_name: str | None = None
    auto_uplink: bool | None = None
    external_router_id: str | None = None
    subnet_cidr: str | None = None
    openstack_id: str | None = None
    region_name: str | None = None
    dns_name_servers: list[Any] | None = None
    autogenerate_subnet: bool | None = None

    def __post_init__(self) -> None:
        if self.name is None and self.internal_network_name is None:
            raise ValueError("a network needs a `name`, or the `internalNetworkName` of another")


class FlatNetwork(msgspec.Struct):
    """A second network; programs may have one of any class there (core-library.md)."""

    header: Header = msgspec.field(name="?")


class Networks(msgspec.Struct):
    """``defaultNetworks``, as a patch may write it (§5.4)."""

    environment: EnvironmentNetwork
    flat: bool | FlatNetwork | None


class StoredNetworks(msgspec.Struct):
    """``defaultNetworks``, as programs may have it: objects, ids of objects elsewhere in the model, or none.

    So machines may all be in networks of their own (core-library.md; muranopl.md §13).
    """

    environment: EnvironmentNetwork | str | None
    flat: bool | FlatNetwork | str | None


#: As of a new environment: not blank.
_NAME = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"\S")]
_NETWORK = "/defaultNetworks/environment"
#: The known members of the root object.
_ROOT: Mapping[str, object] = {
    "name": _NAME,
    "region": str | None,
    "regions": dict[str, Any],
    "defaultNetworks": StoredNetworks,
}
#: Known parts of the model and the form of their values; other paths take any value. What may be absent
#: may be null: engines write it so, and what is read can be written back.
FORMS: Mapping[str, object] = {
    **{f"/{key}": form for key, form in _ROOT.items()},
    "/defaultNetworks": Networks,
    "/?": Header,
    "/?/type": str,
    "/?/name": str | None,
    "/?/_actions": dict[str, Any],
    _NETWORK: EnvironmentNetwork,
    f"{_NETWORK}/?": Header,
    f"{_NETWORK}/?/type": str,
    f"{_NETWORK}/?/name": str | None,
    f"{_NETWORK}/name": str | None,
    f"{_NETWORK}/autoUplink": bool | None,
    f"{_NETWORK}/externalRouterId": str | None,
    f"{_NETWORK}/subnetCidr": str | None,
    f"{_NETWORK}/openstackId": str | None,
    f"{_NETWORK}/regionName": str | None,
    f"{_NETWORK}/dnsNameServers": list[Any] | None,
    f"{_NETWORK}/autogenerateSubnet": bool | None,
    "/defaultNetworks/flat": bool | FlatNetwork | None,
    "/services": list[dict[str, Any]],
}
#: Without these the model could not be read.
NEEDED = ("/?", f"{_NETWORK}/?")


def form_problem(path: str, value: Json) -> str:
    """What is wrong with the value at a path of a model; '' if nothing is."""
    return _problem(path, value, FORMS[path]) if path in FORMS else ""


def _problem(path: str, value: Json, form: object) -> str:
    try:
        msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        return f"The value of {path} does not have the shape that this part of the model requires: {error}"
    return ""


def root_problems(root: Mapping[str, Json]) -> Iterator[str]:
    """What is wrong with the known members of a root object."""
    for key, form in _ROOT.items():
        found = _problem(f"/{key}", root[key], form) if key in root else ""
        if found:
            yield found
