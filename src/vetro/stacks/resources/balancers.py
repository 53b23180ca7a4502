"""Load balancers in Neutron's words (core-library.md §9).

What serves is written out of the pool (`vetro.stacks.template.balancers`): a port, a security group, a
server with HAProxy, and `Balancing`, its configuration. The other types only keep what they say.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from vetro.digits import is_number
from vetro.stacks.compute_service.port import LOAD_BALANCERS
from vetro.stacks.errors import InvalidProperty
from vetro.stacks.resources.base import (
    Json,
    Property,
    ResourceContext,
    ResourceType,
    Shown,
    StackOnly,
    as_static,
    entries,
    items,
    text,
)
from vetro.stacks.resources.deployments import SoftwareDeployment
from vetro.stacks.resources.haproxy import script_of
from vetro.stacks.template import balancers as template

_VIP = (
    "name",
    "description",
    "subnet",
    "address",
    "connection_limit",
    "protocol_port",
    "session_persistence",
    "admin_state_up",
    "port_id",
)
_PERSISTENCE = ("SOURCE_IP", "HTTP_COOKIE", "APP_COOKIE")
_METHODS = ("ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP")
_PROTOCOLS = ("TCP", "HTTP", "HTTPS")
_LONGEST_SECONDS = 86_400


class _Said(StackOnly):
    """A resource that is nothing but what the template says of it."""

    needs = LOAD_BALANCERS

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        return

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        return {"id": context.physical_id, "tenant_id": context.project_id, **properties}


class HealthMonitor(_Said):
    """`OS::Neutron::HealthMonitor`: how a pool finds out which of its members serve."""

    name = template.MONITOR
    properties = {
        "type": Property(allowed=("TCP", "HTTP", "HTTPS", "PING"), update=True),
        "delay": Property("integer", update=True),
        "timeout": Property("integer", update=True),
        "max_retries": Property("integer", update=True),
        "http_method": Property(update=True),
        "url_path": Property(update=True),
        "expected_codes": Property(update=True),
        "admin_state_up": Property("boolean", update=True),
        "tenant_id": Property(ignored="what a stack makes belongs to its project"),
    }
    required = (("type",), ("delay",), ("timeout",), ("max_retries",))
    attributes = frozenset(properties)

    def check(self, resource: str, properties: Mapping[str, Json]) -> None:
        super().check(resource, properties)
        if properties.get("type") == "PING":
            raise InvalidProperty(
                "monitors of the type PING are not supported: HAProxy opens connections, it sends"
                " no pings; use TCP",
                resource=resource,
            )
        for key, most in (("delay", _LONGEST_SECONDS), ("timeout", _LONGEST_SECONDS)):
            _number(resource, key, properties.get(key), 1, most)
        _number(resource, "max_retries", properties.get("max_retries"), 1, 10)
        _matches(resource, properties, "http_method", r"[A-Z]{1,16}", "an HTTP method")
        # Nothing that ends a word of HAProxy's configuration.
        _matches(resource, properties, "url_path", r"/[!$-\[\]-~]{0,2000}", "a path")
        _matches(
            resource,
            properties,
            "expected_codes",
            r"[1-5]\d\d([,-][1-5]\d\d){0,50}",
            "a status, a list of them (200,204) or a range (200-204)",
        )


class Pool(_Said):
    """`OS::Neutron::Pool`: servers that answer at one virtual address."""

    name = template.POOL
    properties = {
        "protocol": Property(allowed=_PROTOCOLS, update=True),
        "subnet": Property(update=True),
        "subnet_id": Property(update=True),
        "lb_method": Property(allowed=_METHODS, update=True),
        "vip": Property("map", update=True),
        "monitors": Property("list", update=True),
        "name": Property(update=True),
        "description": Property(update=True),
        "admin_state_up": Property("boolean", update=True),
        "provider": Property(ignored="it is HAProxy"),
    }
    required = (("protocol",), ("subnet", "subnet_id"), ("lb_method",), ("vip",))
    attributes = frozenset(properties) | {"tenant_id"}

    def check(self, resource: str, properties: Mapping[str, Json]) -> None:
        super().check(resource, properties)
        vip = entries(as_static(properties.get("vip")))
        _check_vip(resource, vip, properties.get("protocol"))
        if len(items(as_static(properties.get("monitors")))) > 1:
            raise InvalidProperty(
                "a pool with more than one monitor is not supported: HAProxy makes one check of each"
                " member",
                resource=resource,
            )

    async def attribute(
        self, context: ResourceContext, properties: Mapping[str, Json], name: str
    ) -> Json:
        if name == "subnet_id":
            return properties.get("subnet_id", properties.get("subnet"))
        return await super().attribute(context, properties, name)


class PoolMember(_Said):
    """`OS::Neutron::PoolMember`: an address that a pool sends requests to."""

    name = template.MEMBER
    properties = {
        "pool_id": Property(),
        "address": Property(update=True),
        "protocol_port": Property("integer", update=True),
        "weight": Property("integer", update=True),
        "admin_state_up": Property("boolean", update=True),
    }
    required = (("pool_id",), ("address",), ("protocol_port",))
    attributes = frozenset(properties) | {"tenant_id"}

    def check(self, resource: str, properties: Mapping[str, Json]) -> None:
        super().check(resource, properties)
        _check_member(resource, properties)


class LoadBalancer(_Said):
    """`OS::Neutron::LoadBalancer`: servers that a pool sends requests to."""

    name = template.BALANCER
    properties = {
        "pool_id": Property(),
        "protocol_port": Property("integer", update=True),
        "members": Property("list", update=True),
    }
    required = (("pool_id",), ("protocol_port",))
    attributes = frozenset(properties)

    def check(self, resource: str, properties: Mapping[str, Json]) -> None:
        super().check(resource, properties)
        _number(resource, "protocol_port", properties.get("protocol_port"), 1, 65_535)


class Balancing(SoftwareDeployment):
    """HAProxy's configuration, carried out by the agent of the pool's server."""

    name = template.BALANCING
    needs = LOAD_BALANCERS
    properties = {
        "server": Property(),
        "address": Property(update=True),
        "vip": Property("map", update=True),
        "protocol": Property(allowed=_PROTOCOLS, update=True),
        "lb_method": Property(allowed=_METHODS, update=True),
        "admin_state_up": Property("boolean", update=True),
        "monitors": Property("list", update=True),
        "members": Property("list", update=True),
    }
    required = (("server",),)

    def check(self, resource: str, properties: Mapping[str, Json]) -> None:
        ResourceType.check(self, resource, properties)
        monitor, member = HealthMonitor(), PoolMember()
        for one in items(properties.get("monitors")):
            monitor.check(resource, entries(one))
        for one in items(properties.get("members")):
            member.check(resource, {"pool_id": "", **entries(one)})
        _check_vip(resource, entries(properties.get("vip")), properties.get("protocol"))

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await super().create(context, _deployment(properties))

    async def update(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await super().update(context, _deployment(properties))

    async def restore(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await super().restore(context, _deployment(properties))


def _deployment(properties: Mapping[str, Json]) -> dict[str, Json]:
    return {"server": properties["server"], "config": script_of(properties)}


def _check_vip(resource: str, vip: Mapping[str, Json], protocol: Json) -> None:
    strange = sorted(set(vip) - set(_VIP))
    if strange:
        raise InvalidProperty(
            f"the property 'vip' has no key {strange[0]!r}; it has: {', '.join(_VIP[:-1])}",
            resource=resource,
        )
    if vip.get("protocol_port") is None:
        raise InvalidProperty("the property 'vip' needs a protocol_port", resource=resource)
    _number(resource, "vip.protocol_port", vip["protocol_port"], 1, 65_535)
    _number(resource, "vip.connection_limit", vip.get("connection_limit"), -1, 2**20)
    given = as_static(vip.get("session_persistence"))
    if given is None:
        return
    kind = entries(given).get("type") if isinstance(given, dict) else None
    if kind not in _PERSISTENCE:
        raise InvalidProperty(
            f"the session persistence needs a type, one of {', '.join(_PERSISTENCE)}",
            resource=resource,
        )
    if kind != "SOURCE_IP" and as_static(protocol) not in (None, "HTTP"):
        raise InvalidProperty(
            f"session persistence by {kind} needs the protocol HTTP: HAProxy does not see the"
            f" cookies of {protocol}",
            resource=resource,
        )
    cookie = entries(given).get("cookie_name")
    if kind == "APP_COOKIE" and cookie is None:
        raise InvalidProperty(
            "session persistence by APP_COOKIE needs a cookie_name", resource=resource
        )
    _matches(resource, entries(given), "cookie_name", r"[A-Za-z0-9_-]{1,64}", "a cookie's name")


def _check_member(resource: str, given: Mapping[str, Json]) -> None:
    _number(resource, "protocol_port", given.get("protocol_port"), 1, 65_535)
    _number(resource, "weight", given.get("weight"), 0, 256)
    address = as_static(given.get("address"))
    if address is None:
        return
    try:
        ipaddress.ip_address(text(address))
    except ValueError:
        raise InvalidProperty(
            f"the property 'address' is an IP address, not {text(address)[:60]!r}",
            resource=resource,
        ) from None


def _number(resource: str, key: str, value: Json, least: int, most: int) -> None:
    if as_static(value) is None:
        return
    written = str(value)
    whole = not isinstance(value, bool) and is_number(written.removeprefix("-"))
    if not whole or len(written) > 9 or not least <= int(written) <= most:
        raise InvalidProperty(
            f"the property {key!r} is from {least} to {most}, not {written[:60]}",
            resource=resource,
        )


def _matches(
    resource: str, given: Mapping[str, Json], key: str, pattern: str, meaning: str
) -> None:
    value = as_static(given.get(key))
    if value is not None and re.fullmatch(pattern, text(value), re.ASCII) is None:
        raise InvalidProperty(
            f"the property {key!r} is {meaning}, not {text(value)[:60]!r}", resource=resource
        )
