"""Load balancers written out: a pool becomes a virtual address and a server that balances.

Of the pool `web` are made `web.vip` (the port with the virtual address), `web.access` (its security
group), `web.server` (a server with HAProxy) and `web.balancing` (HAProxy's configuration,
carried out by the server's agent). Monitors, members and load balancers have nothing of their own:
what they say is put into `web.balancing`, one configuration, so that a change of several of them is
one change. They are done when it is.

So what belongs together is known from the template: a pool's monitors and members are resources of the
same template.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from vetro.stacks.errors import InvalidProperty, TemplateError
from vetro.stacks.model import Json
from vetro.stacks.template.families import family_of_subnet, parameter_value
from vetro.stacks.template.functions import function_of
from vetro.stacks.template.scopes import entries, listed

MONITOR = "OS::Neutron::HealthMonitor"
POOL = "OS::Neutron::Pool"
MEMBER = "OS::Neutron::PoolMember"
BALANCER = "OS::Neutron::LoadBalancer"
BALANCING = "Vetro::LoadBalancer::Balancing"
"""The type of `web.balancing`: templates do not name it."""
IMAGE, FLAVOR = "vetro-balancer", "m1.micro"
"""What balancers run on, unless settings name others."""
SERVER_PROPERTIES = frozenset({"image", "flavor", "networks", "user_data_format"})
"""All that `web.server` is given."""
_ADDRESSES = {
    "OS::Nova::Server": "first_address",
    "AWS::EC2::Instance": "PrivateIp",
}
_TAKEN_OVER = ("lb_method", "admin_state_up")


def written_out(
    document: dict[str, Json], parameters: Mapping[str, Json], image: str, flavor: str
) -> dict[str, Json]:
    """The document with what its pools stand for; their servers have this image and flavor.

    Raises `InvalidProperty` or `TemplateError` naming the resource that is wrong.
    """
    resources = entries(document["resources"])
    kinds = {name: entries(body).get("type") for name, body in resources.items()}
    for name, kind in kinds.items():
        if kind == BALANCING:
            raise TemplateError(f"{BALANCING} is made for each {POOL}: name a pool", resource=name)
    pools = [name for name, kind in kinds.items() if kind == POOL]
    if not pools and not {MEMBER, BALANCER}.intersection(str(one) for one in kinds.values()):
        return document
    made = dict(resources)
    members: dict[str, list[Json]] = {name: [] for name in pools}
    for name, kind in kinds.items():
        if kind not in (MEMBER, BALANCER):
            continue
        body = entries(resources[name])
        given = _properties(name, body)
        pool = _named(name, "pool_id", given.get("pool_id"), resources, (POOL,))
        read = _own if kind == MEMBER else _of_balancer
        members[pool].extend(read(name, given, resources))
        made[name] = {**body, "depends_on": [*listed(body.get("depends_on")), f"{pool}.balancing"]}
    for name in pools:
        family = _family(name, resources, parameters)
        _check_members(name, family, members[name], parameters)
        for part, body in _of_pool(name, resources, members[name], family, image, flavor):
            if part != name and part in resources:
                raise TemplateError("a part of a load balancer has this name", resource=part)
            made[part] = body
    return {**document, "resources": made}


def _family(name: str, resources: Mapping[str, Json], parameters: Mapping[str, Json]) -> int | None:
    """The family of a pool's virtual address; `None` where the template does not say it."""

    def properties_of(one: str) -> Mapping[str, Json]:
        given = _properties(one, entries(resources.get(one) or {}))
        return {key: parameter_value(value, parameters) for key, value in given.items()}

    given = properties_of(name)
    vip: Json = given.get("vip")
    vip = entries(vip) if isinstance(vip, dict) else {}
    address = parameter_value(vip.get("address"), parameters)
    if isinstance(address, str):
        return 6 if ":" in address else 4
    subnet = vip.get("subnet", given.get("subnet", given.get("subnet_id")))
    return family_of_subnet(subnet, properties_of)


def _check_members(
    name: str, family: int | None, members: list[Json], parameters: Mapping[str, Json]
) -> None:
    """Raises `InvalidProperty` when a member has an address of the family that the balancer has not."""
    for member in members:
        address = parameter_value(member.get("address"), parameters)
        try:
            version = ipaddress.ip_address(address if isinstance(address, str) else "").version
        except ValueError:
            continue  # not known yet, or refused where it stands
        if family is not None and version != family:
            raise InvalidProperty(
                f"the member {address} is not reached from an IPv{family} address, which is the pool's only"
                " one: give it members of its own family",
                resource=name,
            )


def _of_pool(
    name: str,
    resources: Mapping[str, Json],
    members: list[Json],
    family: int | None,
    image: str,
    flavor: str,
) -> Iterator[tuple[str, dict[str, Json]]]:
    body = entries(resources[name])
    given = _properties(name, body)
    vip = given.get("vip")
    if not isinstance(vip, dict):
        raise InvalidProperty("the property 'vip' is a map with a protocol_port", resource=name)
    vip = entries(vip)
    monitors = [
        _properties(one, entries(resources[one]))
        for value in listed(given.get("monitors"))
        for one in [_named(name, "monitors", value, resources, (MONITOR,))]
    ]
    around = {key: body[key] for key in ("depends_on", "deletion_policy") if key in body}
    if family == 6:
        # Servers with addresses of both families are reached at the one of the virtual address.
        members = [_over_ipv6(one) for one in members]
    wish = {"subnet": vip.get("subnet", given.get("subnet", given.get("subnet_id")))}
    if vip.get("address") is not None:
        wish["ip_address"] = vip["address"]

    def part(which: str, kind: str, properties: dict[str, Json]) -> tuple[str, dict[str, Json]]:
        return f"{name}.{which}", {**around, "type": kind, "properties": properties}

    def ref(which: str) -> dict[str, Json]:
        return {"get_resource": f"{name}.{which}"}

    port = vip.get("protocol_port")
    address = {"get_attr": [f"{name}.vip", "fixed_ips", 0, "ip_address"]}
    rules = [
        rule
        for ethertype, everybody in (("IPv4", "0.0.0.0/0"), ("IPv6", "::/0"))
        if family is None or ethertype == f"IPv{family}"
        for rule in (
            {
                "ethertype": ethertype,
                "protocol": "tcp",
                "port_range_min": port,
                "port_range_max": port,
                "remote_ip_prefix": everybody,
            },
            {"ethertype": ethertype, "protocol": "icmp", "remote_ip_prefix": everybody},
        )
    ]
    yield part("access", "OS::Neutron::SecurityGroup", {"rules": rules})
    yield part(
        "vip", "OS::Neutron::Port", {"fixed_ips": [wish], "security_groups": [ref("access")]}
    )
    yield part(
        "server",
        "OS::Nova::Server",
        {
            "image": image,
            "flavor": flavor,
            "networks": [{"port": ref("vip")}],
            "user_data_format": "SOFTWARE_CONFIG",
        },
    )
    balancing: dict[str, Json] = {
        "server": ref("server"),
        "address": address,
        "vip": {key: one for key, one in vip.items() if key not in ("subnet", "address")},
        "protocol": given.get("protocol"),
        "monitors": monitors,
        "members": members,
        **{key: given[key] for key in _TAKEN_OVER if key in given},
    }
    yield part("balancing", BALANCING, balancing)
    shown = {**vip, "address": address, "port_id": ref("vip")}
    yield name, {**body, "properties": {**given, "vip": shown}}


def _over_ipv6(member: dict[str, Json]) -> dict[str, Json]:
    call = function_of(member.get("address"))
    if call is not None and call[0] == "get_attr" and call[1][1:] == ["first_address"]:
        return {**member, "address": {"get_attr": [call[1][0], "accessIPv6"]}}
    return member


def _own(
    _name: str, given: Mapping[str, Json], _resources: Mapping[str, Json]
) -> Iterator[dict[str, Json]]:
    yield {key: one for key, one in given.items() if key != "pool_id"}


def _of_balancer(
    name: str, given: Mapping[str, Json], resources: Mapping[str, Json]
) -> Iterator[dict[str, Json]]:
    """A load balancer's members are servers."""
    wanted: Json = given.get("members")
    if function_of(wanted) is not None:
        wanted = [wanted]
    for value in listed(wanted):
        server = _named(name, "members", value, resources, tuple(_ADDRESSES))
        attribute = _ADDRESSES[entries(resources[server])["type"]]
        yield {
            "address": {"get_attr": [server, attribute]},
            "protocol_port": given.get("protocol_port"),
        }


def _named(
    name: str, key: str, value: Json, resources: Mapping[str, Json], kinds: tuple[str, ...]
) -> str:
    """The resource of the template that a property names."""
    call = function_of(value)
    target = call[1] if call is not None and call[0] in ("get_resource", "Ref") else None
    if not isinstance(target, str) or target not in resources:
        raise InvalidProperty(
            f"the property {key!r} names {' or '.join(kinds)} of the same template with"
            " get_resource: the parts of a load balancer must be known when the template is validated",
            resource=name,
        )
    kind = entries(resources[target]).get("type")
    if kind not in kinds:
        raise InvalidProperty(
            f"the property {key!r} names {' or '.join(kinds)}, not {target!r}, which is {kind}",
            resource=name,
        )
    return target


def _properties(name: str, body: Mapping[str, Json]) -> dict[str, Json]:
    given: Json = body.get("properties") or {}
    if not isinstance(given, dict):
        raise TemplateError("its properties are not a map", resource=name)
    return entries(given)
