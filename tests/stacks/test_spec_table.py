"""The table of core-library.md §9, row by row: what packages emit is served, or refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from vetro.stacks import MemoryStacks, TemplateError
from vetro.stacks.resources import resource_type
from vetro.stacks.resources.networks import Subnet

SERVED: list[tuple[str, str, str]] = [
    ("OS::Nova::Server",
     "name flavor image block_device_mapping_v2 availability_zone user_data user_data_format key_name"
     " metadata networks security_groups scheduler_hints", "addresses networks"),
    ("OS::Nova::ServerGroup", "name policies", ""),
    ("OS::Nova::FloatingIP", "", "ip"),
    ("OS::Nova::FloatingIPAssociation", "floating_ip server_id", ""),
    ("OS::Neutron::Net", "name", ""),
    ("OS::Neutron::Subnet", "network network_id ip_version dns_nameservers cidr enable_dhcp", "cidr"),
    ("OS::Neutron::RouterInterface", "router_id subnet subnet_id", ""),
    ("OS::Neutron::Port",
     "network network_id fixed_ips security_groups replacement_policy port_security_enabled"
     " allowed_address_pairs", "fixed_ips"),
    ("OS::Neutron::FloatingIP", "floating_network floating_network_id port_id", "floating_ip_address"),
    ("OS::Neutron::FloatingIPAssociation", "floatingip_id port_id", ""),
    ("OS::Neutron::SecurityGroup", "name description rules", ""),
    ("OS::Cinder::Volume", "size name image snapshot_id backup_id read_only", "attachments_list"),
    ("OS::Cinder::VolumeAttachment", "instance_uuid volume_id mountpoint", ""),
    ("OS::Heat::CloudConfig", "cloud_config", ""),
    ("OS::Heat::SoftwareConfig", "group config", ""),
    ("OS::Heat::MultipartMime", "parts", ""),
    ("OS::Heat::StructuredConfig", "group config", ""),
    ("OS::Heat::SoftwareDeployment", "config server signal_transport input_values",
     "deploy_stdout deploy_stderr"),
    ("OS::Heat::StructuredDeployment", "config server signal_transport input_values",
     "deploy_stdout deploy_stderr"),
    ("OS::Heat::WaitCondition", "handle count timeout", ""),
    ("OS::Heat::WaitConditionHandle", "", "curl_cli"),
    ("AWS::EC2::SecurityGroup", "GroupDescription SecurityGroupIngress SecurityGroupEgress", ""),
    ("AWS::EC2::Instance",
     "InstanceType ImageId UserData KeyName AvailabilityZone SecurityGroups NetworkInterfaces",
     "PublicIp PrivateIp"),
    ("OS::Neutron::HealthMonitor",
     "type delay max_retries timeout http_method expected_codes url_path", ""),
    ("OS::Neutron::Pool", "protocol subnet_id lb_method name vip monitors", "vip"),
    ("OS::Neutron::LoadBalancer", "pool_id protocol_port members", ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "properties", "attributes"), SERVED)
def test_a_row_is_served(name: str, properties: str, attributes: str) -> None:
    """Every property and attribute of the row is one of the type's, and none of them is refused."""
    kind = resource_type(name, "it")
    assert set(properties.split()) <= set(kind.properties)
    assert not [one for one in properties.split() if kind.properties[one].refused]
    for attribute in attributes.split():
        kind.check_attribute("it", attribute)


async def test_a_row_is_refused_with_its_reason() -> None:
    """When the template is validated, naming the resource and what to do instead."""
    name = "AWS::ElasticLoadBalancing::LoadBalancer"
    stacks = MemoryStacks()
    with pytest.raises(TemplateError, match=r"'it'.*has Neutron's load balancers"):
        await stacks.create("p", "s", {"resources": {"it": {"type": name}}})
    assert stacks.compute.calls == []


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"cidr": "10.0.0.0/24", "ip_version": 6}, "'ip_version' is 6, and 10.0.0.0/24"),
        ({"cidr": "fd00::/64", "ip_version": 4}, "'ip_version' is 4, and fd00::/64"),
        ({"cidr": "::ffff:a00:0/120", "ip_version": 6}, "choose a range of fd00::/8"),
        ({"cidr": "fd00::/64", "ipv6_ra_mode": "slaac"}, "with their configuration; leave it out"),
    ],
)
def test_subnets_that_nodes_cannot_have_are_refused_with_the_reason(
    properties: dict[str, Any], reason: str
) -> None:
    """When the template is validated."""
    with pytest.raises(TemplateError, match=reason):
        Subnet().check("it", {"network": "n", **properties})


SIX = {
    "net": {"type": "OS::Neutron::Net"},
    "sub": {
        "type": "OS::Neutron::Subnet",
        "properties": {"network": {"get_resource": "net"}, "cidr": "fd7e::/64", "ip_version": 6},
    },
}


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("OS::Neutron::FloatingIP", {"floating_network": "ext-net"}),
        (
            "OS::Neutron::FloatingIPAssociation",
            {"floatingip_id": "5c1c0a6e-1d58-4f2c-9d6c-0e5a1b7d3f10"},
        ),
    ],
)
@pytest.mark.parametrize("wish", [{"subnet": {"get_resource": "sub"}}, {"ip_address": "fd7e::9"}])
async def test_floating_addresses_lead_to_no_ipv6_port(
    kind: str, more: dict[str, Any], wish: dict[str, Any]
) -> None:
    """Refused when the template is validated, with what to do instead: nothing is made."""
    stacks = MemoryStacks()
    template = {
        "resources": {
            **SIX,
            "port": {
                "type": "OS::Neutron::Port",
                "properties": {"network": "n", "fixed_ips": [wish]},
            },
            "it": {"type": kind, "properties": {**more, "port_id": {"get_resource": "port"}}},
        }
    }
    with pytest.raises(TemplateError, match=r"'it'.*'port' is in an IPv6 subnet.*a second port"):
        await stacks.create("p", "s", template)
    assert stacks.compute.calls == []


def _parameter(name: str) -> dict[str, Any]:
    return {"get_param": name}


def _made(kind: str, **properties: Any) -> dict[str, Any]:
    return {"type": kind, "properties": properties}


PORT_OF_SUB = _made(
    "OS::Neutron::Port",
    network={"get_resource": "net"},
    fixed_ips=[{"subnet": {"get_resource": "sub"}}],
)
LED_ASTRAY: list[tuple[str, Any, dict[str, Any], str]] = [
    ("sub", "none", {}, "the property 'cidr' is 'none'"),
    ("sub", "10.0.0.0/24", {}, "'ip_version' is 6, and 10.0.0.0/24"),
    (
        "fip",
        "fd7e::/64",
        {
            "port": PORT_OF_SUB,
            "fip": _made(
                "OS::Neutron::FloatingIP", floating_network="ext-net", port_id={"get_resource": "port"}
            ),
        },
        "'port' is in an IPv6 subnet",
    ),
    (
        "pool",
        "fd7e::/64",
        {
            "pool": _made(
                "OS::Neutron::Pool",
                protocol="HTTP",
                lb_method="ROUND_ROBIN",
                subnet={"get_resource": "sub"},
                vip={"protocol_port": 80},
            ),
            "member": _made(
                "OS::Neutron::PoolMember",
                pool_id={"get_resource": "pool"},
                address=_parameter("member"),
                protocol_port=80,
            ),
        },
        "member 192.0.2.7 is not reached from an IPv6",
    ),
    (
        "vol",
        "fd7e::/64",
        {"vol": _made("OS::Cinder::Volume", size=_parameter("member"))},
        "'size' is not an integer: '192.0.2.7'",
    ),
    (
        "vol",
        "fd7e::/64",
        {"vol": _made("OS::Cinder::Volume", size={"list_join": ["", [_parameter("member"), "x"]]})},
        "'size' is not an integer: '192.0.2.7x'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "cidr", "more", "reason"), LED_ASTRAY)
async def test_values_of_parameters_are_judged_when_the_template_is_validated(
    name: str, cidr: str, more: dict[str, Any], reason: str
) -> None:
    """As the same values would be in the template itself: nothing is made."""
    stacks = MemoryStacks()
    template = {
        "parameters": {"cidr": {"type": "string"}, "member": {"type": "string"}},
        "resources": {
            "net": _made("OS::Neutron::Net", name={"get_param": "OS::stack_name"}),
            "sub": _made(
                "OS::Neutron::Subnet",
                network={"get_resource": "net"},
                cidr=_parameter("cidr"),
                ip_version=6,
            ),
            **more,
        },
    }
    with pytest.raises(TemplateError) as error:
        await stacks.create("p", "s", template, parameters={"cidr": cidr, "member": "192.0.2.7"})
    assert reason in str(error.value)
    assert error.value.resource == name
    assert stacks.compute.calls == []


async def test_a_parameter_says_the_family_of_a_balancer() -> None:
    """Servers of both families are reached at the one of the virtual address."""
    stacks = MemoryStacks()
    four = _made("OS::Neutron::Subnet", network={"get_resource": "net"}, cidr="10.9.0.0/24")
    six = _made(
        "OS::Neutron::Subnet",
        network={"get_resource": "net"},
        cidr=_parameter("cidr"),
        ip_version=6,
    )
    networks = [{"subnet": {"get_resource": one}} for one in ("four", "six")]
    template = {
        "parameters": {"cidr": {"type": "string"}},
        "resources": {
            "net": _made("OS::Neutron::Net"),
            "four": four,
            "six": six,
            "vm": _made("OS::Nova::Server", image="debian", flavor="m1.nano", networks=networks),
            "pool": _made(
                "OS::Neutron::Pool",
                protocol="HTTP",
                lb_method="ROUND_ROBIN",
                subnet={"get_resource": "six"},
                vip={"protocol_port": 80},
            ),
            "lb": _made(
                "OS::Neutron::LoadBalancer",
                pool_id={"get_resource": "pool"},
                protocol_port=80,
                members=[{"get_resource": "vm"}],
            ),
        },
    }
    assert (await stacks.create("p", "s", template, parameters={"cidr": "fd7e::/64"})).reason == ""
    (ran,) = stacks.guests.ran.values()
    (line,) = [one for one in ran["config"].splitlines() if one.startswith("  server ")]
    assert line.split()[2].startswith("[fd7e::")
