"""Security groups in Neutron's and in EC2's words."""

from __future__ import annotations

from collections.abc import Mapping

from vetro.stacks.errors import InvalidProperty
from vetro.stacks.functions import function_of
from vetro.stacks.resources.base import (
    Json,
    Property,
    ResourceContext,
    ResourceType,
    entries,
    items,
    text,
)

_RULE_KEYS = frozenset(
    {
        "direction",
        "ethertype",
        "protocol",
        "port_range_min",
        "port_range_max",
        "remote_ip_prefix",
        "remote_group_id",
        "remote_mode",
        "description",
    }
)


class SecurityGroup(ResourceType):
    """`OS::Neutron::SecurityGroup`. Everything goes out; in goes what the rules say."""

    name = "OS::Neutron::SecurityGroup"
    properties = {
        "name": Property(update=True),
        "description": Property(update=True),
        "rules": Property("list", update=True),
    }
    attributes = frozenset({"name", "description", "tenant_id"})

    def check(self, resource: str, properties: Mapping[str, Json]) -> None:
        super().check(resource, properties)
        rules = properties.get("rules")
        if function_of(rules) is not None:
            return
        for number, rule in enumerate(items(rules)):
            if not isinstance(rule, dict):
                raise InvalidProperty(f"rule {number} is not a map", resource=resource)
            strange = sorted(set(entries(rule)) - _RULE_KEYS)
            if strange and function_of(rule) is None:
                raise InvalidProperty(f"rule {number} has no key {strange[0]!r}", resource=resource)

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await context.compute.create_security_group(
            context.physical_id, project_id=context.project_id, **self._body(context, properties)
        )

    async def update(
        self, context: ResourceContext, properties: Mapping[str, Json], changed: frozenset[str]
    ) -> None:
        await context.compute.update_security_group(
            context.physical_id, **self._body(context, properties)
        )

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await context.compute.delete_security_group(context.physical_id)

    async def attribute(
        self, context: ResourceContext, properties: Mapping[str, Json], name: str
    ) -> Json:
        body = self._body(context, properties)
        shown: dict[str, Json] = {
            "id": context.physical_id,
            "name": body["name"],
            "description": body["description"],
            "tenant_id": context.project_id,
        }
        return shown if name == "show" else shown.get(name)

    def _body(self, context: ResourceContext, properties: Mapping[str, Json]) -> dict[str, Json]:
        rules = [self._rule(context, entries(rule)) for rule in items(properties.get("rules"))]
        if not any(rule["direction"] == "egress" for rule in rules):
            # Without a rule of its own a group lets everything out, as Neutron's do.
            rules.append(_rule(direction="egress", remote_ip_prefix="0.0.0.0/0"))
        return {
            "name": text(properties.get("name"), f"{context.stack_name}-{context.name}"),
            "description": text(properties.get("description")),
            "rules": rules,
        }

    def _rule(self, context: ResourceContext, rule: dict[str, Json]) -> dict[str, Json]:
        group = rule.get("remote_group_id")
        if rule.get("remote_mode") == "remote_group_id" and group is None:
            group = context.physical_id  # the members of this very group
        return _rule(
            direction=text(rule.get("direction"), "ingress"),
            ethertype=text(rule.get("ethertype"), "IPv4"),
            protocol=_protocol(rule.get("protocol")),
            port_range_min=_port(rule.get("port_range_min")),
            port_range_max=_port(rule.get("port_range_max")),
            remote_ip_prefix=None if group else rule.get("remote_ip_prefix"),
            remote_group_id=group,
        )


class AwsSecurityGroup(ResourceType):
    """`AWS::EC2::SecurityGroup`."""

    name = "AWS::EC2::SecurityGroup"
    properties = {
        "GroupDescription": Property(update=True),
        "SecurityGroupIngress": Property("list", update=True),
        "SecurityGroupEgress": Property("list", update=True),
        "VpcId": Property(ignored=True),
    }

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await context.compute.create_security_group(
            context.physical_id, project_id=context.project_id, **_aws_body(context, properties)
        )

    async def update(
        self, context: ResourceContext, properties: Mapping[str, Json], changed: frozenset[str]
    ) -> None:
        await context.compute.update_security_group(
            context.physical_id, **_aws_body(context, properties)
        )

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await context.compute.delete_security_group(context.physical_id)


def _aws_body(context: ResourceContext, properties: Mapping[str, Json]) -> dict[str, Json]:
    rules: list[dict[str, Json]] = []
    for key, direction in (("SecurityGroupIngress", "ingress"), ("SecurityGroupEgress", "egress")):
        for one in items(properties.get(key)):
            rule = entries(one)
            group = rule.get("SourceSecurityGroupId", rule.get("SourceSecurityGroupName"))
            rules.append(
                _rule(
                    direction=direction,
                    protocol=_protocol(rule.get("IpProtocol")),
                    port_range_min=_port(rule.get("FromPort")),
                    port_range_max=_port(rule.get("ToPort")),
                    remote_ip_prefix=None if group else text(rule.get("CidrIp"), "0.0.0.0/0"),
                    remote_group_id=group,
                )
            )
    if not items(properties.get("SecurityGroupEgress")):
        rules.append(_rule(direction="egress", remote_ip_prefix="0.0.0.0/0"))
    return {
        "name": f"{context.stack_name}-{context.name}",
        "description": text(properties.get("GroupDescription")),
        "rules": rules,
    }


def _rule(
    *,
    direction: str,
    ethertype: str = "IPv4",
    protocol: str | None = None,
    port_range_min: int | None = None,
    port_range_max: int | None = None,
    remote_ip_prefix: Json = None,
    remote_group_id: Json = None,
) -> dict[str, Json]:
    return {
        "direction": direction,
        "ethertype": ethertype,
        "protocol": protocol,
        "port_range_min": port_range_min,
        "port_range_max": port_range_max,
        "remote_ip_prefix": remote_ip_prefix,
        "remote_group_id": remote_group_id,
    }


def _protocol(value: Json) -> str | None:
    written = text(value).lower()
    return None if written in ("", "-1", "any", "all") else written


def _port(value: Json) -> int | None:
    """A port number; -1 (any, in EC2's words) is none."""
    if value is None or int(value) < 0:
        return None
    return int(value)
