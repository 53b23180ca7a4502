"""The stacks that every cloud has to make alike: templates, what they change to, and what they give."""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Check = Callable[[Any], bool]
Json = Any


def ref(name: str) -> Json:
    """``get_resource``."""
    return {"get_resource": name}


def attr(*path: Any) -> Json:
    """``get_attr``."""
    return {"get_attr": list(path)}


def is_uuid(value: Any) -> bool:
    """The text form of a uuid."""
    return str(uuid.UUID(value)) == value


def is_address(value: Any) -> bool:
    """An IPv4 address."""
    return ipaddress.ip_address(value).version == 4


def is_public_key(value: Any) -> bool:
    """A line for `authorized_keys`."""
    return str(value).startswith("ssh-ed25519 ")


@dataclass(frozen=True)
class Case:
    """A template in steps: resources and outputs of each, and what the outputs are then.

    ``SUBNET`` in a text stands for the first two numbers of the run's addresses.
    """

    says: str
    resources: Mapping[str, Json]
    outputs: Mapping[str, Json] = field(default_factory=dict[str, Json])
    expected: Mapping[str, Any] = field(default_factory=dict[str, Any])
    then: tuple[Mapping[str, Json], ...] = ()
    """Resources of updates that follow; the outputs stay the same."""
    kept: tuple[str, ...] = ()
    """Resources whose physical ids no update changes."""
    replaced: tuple[str, ...] = ()
    parameters: Mapping[str, Json] = field(default_factory=dict[str, Json])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    version: str = "2013-05-23"


def made(type_: str, /, **properties: Any) -> Json:
    """A resource."""
    return {"type": type_, "properties": properties}


NETWORK: dict[str, Json] = {
    "net": made("OS::Neutron::Net", name="net"),
    "sub": made("OS::Neutron::Subnet", network=ref("net"), cidr="SUBNET.7.0/24"),
}
PORT = made("OS::Neutron::Port", network=ref("net"), fixed_ips=[{"subnet": ref("sub")}])
SERVER: dict[str, Json] = {
    **NETWORK,
    "port": PORT,
    "vm": made(
        "OS::Nova::Server",
        name="vm",
        flavor="m1.nano",
        image="debian",
        networks=[{"port": ref("port")}],
        user_data_format="RAW",
    ),
}


def changed(resources: Mapping[str, Json], name: str, **properties: Any) -> dict[str, Json]:
    """Resources of which one has other properties, too."""
    one = resources[name]
    return {**resources, name: {**one, "properties": {**one["properties"], **properties}}}


def anew(user_data: str) -> dict[str, Json]:
    """A server that is made anew for other user data, because its template says so."""
    policy = "REPLACE"
    return changed(SERVER, "vm", user_data=user_data, user_data_update_policy=policy)


def group_of(count: int, definition: Json) -> Json:
    """A group of resources."""
    return made("OS::Heat::ResourceGroup", count=count, resource_def=definition)


NETWORK6: dict[str, Json] = {
    **changed(
        changed(SERVER, "sub", cidr="SUBNET6::/64", ip_version=6, dns_nameservers=["2001:db8::1"]),
        "port",
        security_groups=[ref("group")],
    ),
}
VOLUME = made("OS::Cinder::Volume", size=1)
ATTACHMENT = made(
    "OS::Cinder::VolumeAttachment",
    instance_uuid=ref("vm"),
    volume_id=ref("vol"),
    mountpoint="/dev/vdb",
)


TWO: dict[str, Json] = {
    **SERVER,
    "other": made(
        "OS::Nova::Server",
        name="other",
        flavor="m1.nano",
        image="debian",
        networks=[{"subnet": ref("sub")}],
    ),
}


def changed_to_other(attachment: Json) -> Json:
    """The attachment, at the other server."""
    return {**attachment, "properties": {**attachment["properties"], "instance_uuid": ref("other")}}


ROUTED: dict[str, Json] = {
    **SERVER,
    "router": made("OS::Neutron::Router", external_gateway_info={"network": "ext-net"}),
    "ri": made("OS::Neutron::RouterInterface", router_id=ref("router"), subnet=ref("sub")),
}
NESTED = """\
heat_template_version: '2013-05-23'
parameters: {cidr: {type: string}}
resources:
  net: {type: 'OS::Neutron::Net'}
  sub:
    type: OS::Neutron::Subnet
    properties: {network: {get_resource: net}, cidr: {get_param: cidr}}
outputs:
  net: {value: {get_resource: net}}
  cidr: {value: {get_attr: [sub, cidr]}}
"""
NESTED_CFN = """\
HeatTemplateFormatVersion: '2012-12-12'
Parameters: {Length: {Type: Number}}
Resources:
  Random: {Type: 'OS::Heat::RandomString', Properties: {length: {Ref: Length}}}
Outputs:
  Password: {Value: {'Fn::GetAtt': [Random, value]}}
"""


def led_to(port: str) -> dict[str, Json]:
    """A floating address that leads to the port."""
    return {
        **ROUTED,
        "spare": PORT,
        "fip": {
            **made("OS::Neutron::FloatingIP", floating_network="ext-net"),
            "depends_on": ["ri"],
        },
        "assoc": {
            **made(
                "OS::Neutron::FloatingIPAssociation", floatingip_id=ref("fip"), port_id=ref(port)
            ),
            "depends_on": ["ri"],
        },
    }


def is_nine_long(value: Any) -> bool:
    """A text of nine characters."""
    return len(value) == 9


def is_pair_of_equals(value: Any) -> bool:
    """A list of the same thing twice."""
    return len(value) == 2 and value[0] == value[1] is not None


def is_password(value: Any) -> bool:
    """16 characters, at least four of them digits."""
    return len(value) == 16 and sum(one.isdigit() for one in value) >= 4


RANDOM = made(
    "OS::Heat::RandomString",
    length=16,
    character_classes=[{"class": "lowercase", "min": 1}, {"class": "digits", "min": 4}],
)
CASES = [
    Case(
        "a random string stays, a value changes in place",
        {
            "random": RANDOM,
            "value": made("OS::Heat::Value", value={"a": [attr("random", "value")]}),
        },
        {
            "password": {"value": attr("random", "value")},
            "inside": {"value": attr("value", "value", "a", 0)},
        },
        {"password": is_password, "inside": is_password},
        then=(
            {
                "random": RANDOM,
                "value": made("OS::Heat::Value", value={"a": [attr("random", "value"), 1]}),
            },
        ),
        kept=("random", "value"),
    ),
    Case(
        "a network with a subnet",
        NETWORK,
        {"net": {"value": ref("net")}, "cidr": {"value": attr("sub", "cidr")}},
        {"net": is_uuid, "cidr": "SUBNET.7.0/24"},
        then=(changed(NETWORK, "sub", dns_nameservers=["192.0.2.1"]),),
        kept=("net", "sub"),
    ),
    Case(
        "a port takes an address of its subnet and keeps it when its groups change",
        {**NETWORK, "port": PORT, "group": made("OS::Neutron::SecurityGroup", rules=[])},
        {"ip": {"value": attr("port", "fixed_ips", 0, "ip_address")}},
        {"ip": "SUBNET.7.2"},
        then=(
            {
                **changed({**NETWORK, "port": PORT}, "port", security_groups=[ref("group")]),
                "group": made("OS::Neutron::SecurityGroup", rules=[{"protocol": "icmp"}]),
            },
        ),
        kept=("port", "group"),
    ),
    Case(
        "a server, its addresses by network name and id, and a change in place",
        SERVER,
        {
            "id": {"value": ref("vm")},
            "ip": {"value": attr("vm", "first_address")},
            "by-name": {"value": attr("vm", "addresses", "net", 0, "addr")},
            "by-id": {"value": {"get_attr": ["vm", "networks", ref("net"), 0]}},
        },
        {"id": is_uuid, "ip": "SUBNET.7.2", "by-name": "SUBNET.7.2", "by-id": "SUBNET.7.2"},
        then=(changed(SERVER, "vm", metadata={"role": "web"}),),
        kept=("vm", "port"),
    ),
    Case(
        "a server in an IPv6 subnet, guarded by rules of both families",
        {
            **NETWORK6,
            "group": made(
                "OS::Neutron::SecurityGroup",
                rules=[
                    {
                        "ethertype": "IPv6",
                        "protocol": "tcp",
                        "port_range_min": 22,
                        "port_range_max": 22,
                        "remote_ip_prefix": "::/0",
                    },
                    {"ethertype": "IPv6", "protocol": "icmp"},
                    {"remote_mode": "remote_group_id", "ethertype": "IPv6"},
                    {"protocol": "tcp", "remote_ip_prefix": "0.0.0.0/0"},
                ],
            ),
            "router": made("OS::Neutron::Router", external_gateway_info={"network": "ext-net"}),
            "ri": made("OS::Neutron::RouterInterface", router_id=ref("router"), subnet=ref("sub")),
        },
        {
            "ip": {"value": attr("vm", "first_address")},
            "version": {"value": attr("vm", "addresses", "net", 0, "version")},
            "gateway": {"value": attr("sub", "gateway_ip")},
            "family": {"value": attr("sub", "ip_version")},
        },
        {"ip": "SUBNET6::2", "version": 6, "gateway": "SUBNET6::1", "family": 6},
        kept=("vm", "port"),
    ),
    Case(
        "a server keeps the user data of its first start",
        changed(SERVER, "vm", user_data="#!/bin/true\n"),
        {"ip": {"value": attr("vm", "first_address")}},
        {"ip": "SUBNET.7.2"},
        then=(changed(SERVER, "vm", user_data="#!/bin/false\n"),),
        kept=("vm", "port"),
    ),
    Case(
        "other user data is another server where the template says so, its port stays",
        anew("#!/bin/true\n"),
        {"ip": {"value": attr("vm", "first_address")}},
        {"ip": "SUBNET.7.2"},
        then=(anew("#!/bin/false\n"),),
        kept=("port",),
        replaced=("vm",),
    ),
    Case(
        "a floating address of the external network leads to a port",
        {
            **SERVER,
            "router": made("OS::Neutron::Router", external_gateway_info={"network": "ext-net"}),
            "ri": made("OS::Neutron::RouterInterface", router_id=ref("router"), subnet=ref("sub")),
            "fip": {
                **made("OS::Neutron::FloatingIP", floating_network="ext-net", port_id=ref("port")),
                "depends_on": ["ri"],
            },
        },
        {"ip": {"value": attr("fip", "floating_ip_address")}},
        {"ip": is_address},
    ),
    Case(
        "a floating address is led from one port to another",
        led_to("port"),
        {"ip": {"value": attr("fip", "floating_ip_address")}},
        {"ip": is_address},
        then=(led_to("spare"),),
        kept=("fip", "assoc", "port", "spare"),
    ),
    Case(
        "Nova's floating address leads to a server",
        {
            **ROUTED,
            "fip": made("OS::Nova::FloatingIP"),
            "assoc": {
                **made(
                    "OS::Nova::FloatingIPAssociation", floating_ip=ref("fip"), server_id=ref("vm")
                ),
                "depends_on": ["ri"],
            },
        },
        {"ip": {"value": attr("fip", "ip")}},
        {"ip": is_address},
    ),
    Case(
        "user data of a cloud configuration and a script",
        {
            **changed(SERVER, "vm", user_data=ref("data")),
            "config": made("OS::Heat::CloudConfig", cloud_config={"hostname": "vm"}),
            "script": made("OS::Heat::SoftwareConfig", group="ungrouped", config="#!/bin/true\n"),
            "data": made(
                "OS::Heat::MultipartMime",
                parts=[{"config": ref("config")}, {"config": ref("script")}],
            ),
        },
        {"id": {"value": ref("vm")}},
        {"id": is_uuid},
        kept=("vm", "config", "script", "data"),
    ),
    Case(
        "nested templates, of Heat and of CloudFormation",
        {
            "inner": made("OS::Heat::Stack", template=NESTED, parameters={"cidr": "SUBNET.7.0/24"}),
            "old": made(
                "AWS::CloudFormation::Stack",
                TemplateURL="old.template",
                Parameters={"Length": "9"},
            ),
        },
        {
            "net": {"value": attr("inner", "outputs", "net")},
            "cidr": {"value": attr("inner", "outputs", "cidr")},
            "password": {"value": {"Fn::GetAtt": ["old", "Outputs.Password"]}},
        },
        {"net": is_uuid, "cidr": "SUBNET.7.0/24", "password": is_nine_long},
        files={"old.template": NESTED_CFN},
    ),
    Case(
        "a key pair that is made here",
        {"key": made("OS::Nova::KeyPair", name="k", save_private_key=True)},
        {"public": {"value": attr("key", "public_key")}, "name": {"value": ref("key")}},
        {"public": is_public_key, "name": "k"},
    ),
    Case(
        "CFN's types and spelling",
        {
            **NETWORK,
            "port": PORT,
            "group": made(
                "AWS::EC2::SecurityGroup",
                GroupDescription="d",
                SecurityGroupIngress=[
                    {"FromPort": "22", "ToPort": "22", "IpProtocol": "tcp", "CidrIp": "0.0.0.0/0"}
                ],
            ),
            "vm": made(
                "AWS::EC2::Instance",
                ImageId="debian",
                InstanceType="m1.nano",
                NetworkInterfaces=[{"Ref": "port"}],
            ),
        },
        {"ip": {"value": {"Fn::GetAtt": ["vm", "PrivateIp"]}}},
        {"ip": "SUBNET.7.2"},
    ),
    Case(
        "servers of a group are placed with regard to each other",
        {
            **NETWORK,
            "group": made("OS::Nova::ServerGroup", policies=["affinity"]),
            **{
                name: made(
                    "OS::Nova::Server",
                    name=name,
                    flavor="m1.nano",
                    image="debian",
                    networks=[{"subnet": ref("sub")}],
                    scheduler_hints={"group": ref("group")},
                )
                for name in ("one", "two")
            },
        },
        {"host": {"value": [attr(name, "show", "status") for name in ("one", "two")]}},
        {"host": ["ACTIVE", "ACTIVE"]},
    ),
    Case(
        "a group of ports grows, and those that were there stay",
        {**NETWORK, "ports": group_of(2, PORT)},
        {
            "ips": {"value": attr("ports", "fixed_ips", 0, "ip_address")},
            "first": {"value": attr("ports", "resource.0")},
        },
        {"first": is_uuid},
        then=({**NETWORK, "ports": group_of(3, PORT)},),
        kept=("net", "sub", "ports.0", "ports.1"),
    ),
    Case(
        "a volume at a server grows in place",
        {**SERVER, "vol": VOLUME, "att": ATTACHMENT},
        {
            "size": {"value": attr("vol", "size")},
            "status": {"value": attr("vol", "status")},
            "device": {"value": attr("vol", "attachments_list", 0, "device")},
            "same": {"value": [attr("vol", "attachments_list", 0, "server_id"), ref("vm")]},
        },
        {"device": "/mnt/vdb", "same": is_pair_of_equals},
        then=({**SERVER, "vol": {**VOLUME, "properties": {"size": 2}}, "att": ATTACHMENT},),
        kept=("vm", "vol", "att"),
    ),
    Case(
        "a volume stays when its server is replaced",
        {**anew("#!/bin/true\n"), "vol": VOLUME, "att": ATTACHMENT},
        {"device": {"value": attr("vol", "attachments_list", 0, "device")}},
        {"device": "/mnt/vdb"},
        then=({**anew("#!/bin/false\n"), "vol": VOLUME, "att": ATTACHMENT},),
        kept=("vol",),
        replaced=("vm", "att"),
    ),
    Case(
        "a volume moves from one server to another in one update",
        {**TWO, "vol": VOLUME, "att-vm": ATTACHMENT},
        {"device": {"value": attr("vol", "attachments_list", 0, "device")}},
        {"device": "/mnt/vdb"},
        then=({**TWO, "vol": VOLUME, "att-other": changed_to_other(ATTACHMENT)},),
        kept=("vm", "other", "vol"),
    ),
    Case(
        "a server with volumes from the beginning, one of them the root disk",
        {
            **NETWORK,
            "port": PORT,
            "root": made("OS::Cinder::Volume", size=1, image="debian"),
            "data": VOLUME,
            "vm": made(
                "OS::Nova::Server",
                name="vm",
                flavor="m1.nano",
                networks=[{"port": ref("port")}],
                block_device_mapping_v2=[
                    {"volume_id": ref("root"), "boot_index": 0, "device_name": "/dev/vda"},
                    {"volume_id": ref("data"), "boot_index": -1, "device_name": "/dev/vdb"},
                ],
            ),
        },
        {"device": {"value": attr("data", "attachments", 0, "device")}},
        {"device": "/mnt/vdb"},
    ),
]


def ipv6_of(subnet: str) -> str:
    """A range of this run's own, from the first two numbers of its IPv4 addresses."""
    first, second = map(int, subnet.split("."))
    return f"fd7e:7:{first:x}{second:02x}"


def at(value: Any, subnet: str) -> Any:
    if isinstance(value, str):
        return value.replace("SUBNET6", ipv6_of(subnet)).replace("SUBNET", subnet)
    if isinstance(value, dict):
        entries: dict[str, Any] = {**value}
        return {key: at(item, subnet) for key, item in entries.items()}
    if isinstance(value, list):
        items: list[Any] = [*value]
        return [at(item, subnet) for item in items]
    return value
