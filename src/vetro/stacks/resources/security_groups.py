"""Security groups in Neutron's and in EC2's words."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from vetro.compute.client.calls import SECURITY_GROUPS
from vetro.compute.wire import NewSecurityGroup, Rule, SecurityGroupChange, SecurityRule
from vetro.stacks.errors import InvalidProperty
from vetro.stacks.resources.base import (
    ComputeObject,
    Json,
    Property,
    ResourceContext,
    Shown,
    entries,
    items,
    not_served,
    text,
)
from vetro.stacks.template.functions import function_of

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

_EVERYTHING_OUT = (
    SecurityRule(direction="egress", remote_ip_prefix="0.0.0.0/0"),
    SecurityRule(direction="egress", ethertype="IPv6", remote_ip_prefix="::/0"),
)


class _Group(ComputeObject):
    """What both have in common."""

    kind = SECURITY_GROUPS
    restores = True

    async def update(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        """Rules that were added by hand stay; those of the template leave with it."""
        new = await self.new(context, properties)
        group = await context.compute.find(self.kind, context.physical_id)
        if group is not None and context.former is not None:
            former = await self.new(context, context.former)
            ours = [_said(rule) for rule in (*(former.rules or []), *(new.rules or []))]
            new.rules = [
                *(new.rules or []),
                *(one for one in group.rules if _said(one) not in ours),
            ]
        change = msgspec.convert(new, self.kind.changed, from_attributes=True)
        await context.compute.change(self.kind, context.physical_id, change)

    async def lacks(self, context: ResourceContext, properties: Mapping[str, Json]) -> bool:
        return bool((await self._missing(context, properties))[1])

    async def restore(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        there, missing = await self._missing(context, properties)
        if missing:
            change = SecurityGroupChange(rules=[*there, *missing])
            await context.compute.change(self.kind, context.physical_id, change)

    async def _missing(
        self, context: ResourceContext, properties: Mapping[str, Json]
    ) -> tuple[list[Rule], list[Rule]]:
        """The rules that the group has, and those that it was made with and has no more."""
        group = await context.compute.find(self.kind, context.physical_id)
        if group is None:
            return [], []
        new = await self.new(context, properties)
        there = [_said(rule) for rule in group.rules]
        return group.rules, [rule for rule in new.rules or [] if _said(rule) not in there]

    async def new(
        self, context: ResourceContext, properties: Mapping[str, Json]
    ) -> NewSecurityGroup:
        raise NotImplementedError


class SecurityGroup(_Group):
    """`OS::Neutron::SecurityGroup`. Everything goes out; in goes what the rules say."""

    name = "OS::Neutron::SecurityGroup"
    properties = {
        "name": Property(update=True),
        "description": Property(update=True),
        "rules": Property("list", update=True),
        **not_served("stateful"),
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

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        group = await self.new(context, properties)
        return {
            "id": context.physical_id,
            "name": group.name,
            "description": group.description,
            "tenant_id": context.project_id,
        }

    async def new(
        self, context: ResourceContext, properties: Mapping[str, Json]
    ) -> NewSecurityGroup:
        rules = [self._rule(context, entries(rule)) for rule in items(properties.get("rules"))]
        if not any(rule.direction == "egress" for rule in rules):
            # Without a rule of its own a group lets everything out, as Neutron's do.
            rules += _EVERYTHING_OUT
        return NewSecurityGroup(
            uuid=context.physical_id,
            project_id=context.project_id,
            name=text(properties.get("name"), f"{context.stack_name}-{context.name}"),
            description=text(properties.get("description")),
            rules=[rule.body() for rule in rules],
        )

    def _rule(self, context: ResourceContext, rule: dict[str, Json]) -> SecurityRule:
        group = rule.get("remote_group_id")
        if rule.get("remote_mode") == "remote_group_id" and group is None:
            group = context.physical_id  # the members of this very group
        return SecurityRule(
            direction=text(rule.get("direction"), "ingress"),
            ethertype=text(rule.get("ethertype"), _family(rule.get("remote_ip_prefix"))),
            protocol=_protocol(rule.get("protocol")),
            port_range_min=_port(rule.get("port_range_min")),
            port_range_max=_port(rule.get("port_range_max")),
            remote_ip_prefix=None if group else rule.get("remote_ip_prefix"),
            remote_group_id=group,
        )


class AwsSecurityGroup(_Group):
    """`AWS::EC2::SecurityGroup`."""

    name = "AWS::EC2::SecurityGroup"
    properties = {
        "GroupDescription": Property(update=True),
        "SecurityGroupIngress": Property("list", update=True),
        "SecurityGroupEgress": Property("list", update=True),
        "VpcId": Property(ignored="groups are of the project"),
    }

    async def new(
        self, context: ResourceContext, properties: Mapping[str, Json]
    ) -> NewSecurityGroup:
        rules: list[SecurityRule] = []
        for key, direction in (
            ("SecurityGroupIngress", "ingress"),
            ("SecurityGroupEgress", "egress"),
        ):
            for one in items(properties.get(key)):
                rule = entries(one)
                group = rule.get("SourceSecurityGroupId", rule.get("SourceSecurityGroupName"))
                protocol = _protocol(rule.get("IpProtocol"))
                # EC2 ignores the ports of a rule for every protocol; the compute service refuses them.
                ports = ("FromPort", "ToPort") if protocol is not None else ("", "")
                rules.append(
                    SecurityRule(
                        direction=direction,
                        protocol=protocol,
                        port_range_min=_port(rule.get(ports[0])),
                        port_range_max=_port(rule.get(ports[1])),
                        remote_ip_prefix=None if group else text(rule.get("CidrIp"), "0.0.0.0/0"),
                        remote_group_id=group,
                    )
                )
        if not items(properties.get("SecurityGroupEgress")):
            rules += _EVERYTHING_OUT
        return NewSecurityGroup(
            uuid=context.physical_id,
            project_id=context.project_id,
            name=f"{context.stack_name}-{context.name}",
            description=text(properties.get("GroupDescription")),
            rules=[rule.body() for rule in rules],
        )


_KNOWN = tuple(one.name for one in msgspec.structs.fields(SecurityRule))


def _said(rule: Rule) -> list[Json]:
    """What a rule says, without what the service keeps beside it."""
    return [rule.get(key) for key in _KNOWN]


def _family(prefix: Json) -> str:
    """The family of a rule that names none: that of its range."""
    return "IPv6" if ":" in text(prefix) else "IPv4"


def _protocol(value: Json) -> str | None:
    written = text(value).lower()
    return None if written in ("", "-1", "any", "all") else written


def _port(value: Json) -> int | None:
    """A port number; -1 (any, in EC2's words) is none."""
    if value is None or int(value) < 0:
        return None
    return int(value)
