"""Which family of addresses a port will have, as far as the template says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vetro.stacks.errors import InvalidProperty
from vetro.stacks.model import Json
from vetro.stacks.template.functions import function_of
from vetro.stacks.template.scopes import entries, listed

PropertiesOf = Callable[[str], Mapping[str, Json]]
"""The properties of a resource by its name; none for a name that the template does not have."""
_NO_FLOATING = (
    "floating addresses are IPv4, as Neutron's are, and the port {port!r} is in an IPv6 subnet: with a"
    " router its instance gets out without one; to be reached from outside it needs a second port, in an"
    " IPv4 subnet, for the floating address"
)


def family_of_subnet(value: Json, properties_of: PropertiesOf) -> int | None:
    """4 or 6, of a subnet that is named with ``get_resource`` and says its range; else `None`."""
    cidr = properties_of(_resource(value)).get("cidr")
    return None if not isinstance(cidr, str) else 6 if ":" in cidr else 4


def check_floating(resource: str, port: Json, properties_of: PropertiesOf) -> None:
    """Raises `InvalidProperty` when a floating address would lead to a port with an IPv6 one."""
    name = _resource(port)
    for one in listed(properties_of(name).get("fixed_ips")):
        wish = entries(one) if isinstance(one, dict) and function_of(one) is None else {}
        subnet = wish.get("subnet", wish.get("subnet_id"))
        if family_of_subnet(subnet, properties_of) == 6 or ":" in str(wish.get("ip_address", "")):
            raise InvalidProperty(_NO_FLOATING.format(port=name), resource=resource)


def parameter_value(value: Json, parameters: Mapping[str, Json]) -> Json:
    """A parameter's value in place of the call that gives it; any other value as it is."""
    call = function_of(value)
    if call is not None and call[0] in ("get_param", "Ref") and isinstance(call[1], str):
        return parameters.get(call[1], value)
    return value


def _resource(value: Json) -> str:
    call = function_of(value)
    return str(call[1]) if call is not None and call[0] in ("get_resource", "Ref") else ""
