"""Every resource type of core-library.md §9 that this cloud can make, at Heat and at the native back end."""

import asyncio
import copy
import ipaddress
import secrets
from typing import Any

import pytest
from tests.waiting import eventually

from vetro.openstack import Session
from vetro.stacks import MemoryStacks, Stack
from vetro.stacks.heat import HeatStacks

from .cloud import Cloud
from .conftest import listed

pytestmark = pytest.mark.openstack
P = "p"
HEAT = {"external": "public", "image": "linux", "flavor": "m1.small"}
NATIVE = {"external": "ext-net", "image": "debian", "flavor": "m1.small"}
CIDR = "10.92.0.0/24"
BOOT = "#!/bin/sh\necho booted\n"


def ref(name: str) -> dict[str, str]:
    """A resource."""
    return {"get_resource": name}


def param(name: str) -> dict[str, str]:
    """A parameter."""
    return {"get_param": name}


def port(number: int, **more: Any) -> dict[str, Any]:
    """A port with an address of its own."""
    address = {"subnet": ref("sub"), "ip_address": f"10.92.0.{number}"}
    properties = {"network": ref("net"), "fixed_ips": [address], **more}
    return {"type": "OS::Neutron::Port", "depends_on": "interface", "properties": properties}


def server(at: str, **more: Any) -> dict[str, Any]:
    """A server at a port."""
    own = {"image": param("image"), "flavor": param("flavor"), "networks": [{"port": ref(at)}]}
    return {"type": "OS::Nova::Server", "properties": {**own, **more}}


def deployment(kind: str, config: str) -> dict[str, Any]:
    """A deployment on the server that is configured by software."""
    return {
        "type": f"OS::Heat::{kind}",
        "properties": {
            "name": config,
            "config": ref(config),
            "server": ref("configured"),
            "signal_transport": "HEAT_SIGNAL",
            "input_values": {"who": "guest"},
        },
    }


INGRESS = {"protocol": "tcp", "port_range_min": 22, "port_range_max": 22}
RESOURCES: dict[str, dict[str, Any]] = {
    "net": {"type": "OS::Neutron::Net", "properties": {"name": "all-types"}},
    "sub": {
        "type": "OS::Neutron::Subnet",
        "properties": {
            "network": ref("net"),
            "ip_version": 4,
            "dns_nameservers": ["198.51.100.1"],
            "cidr": CIDR,
            "enable_dhcp": True,
        },
    },
    "router": {
        "type": "OS::Neutron::Router",
        "properties": {"external_gateway_info": {"network": param("external")}},
    },
    "interface": {
        "type": "OS::Neutron::RouterInterface",
        "properties": {"router_id": ref("router"), "subnet_id": ref("sub")},
    },
    "group": {
        "type": "OS::Neutron::SecurityGroup",
        "properties": {"description": "of tests", "rules": [INGRESS]},
    },
    "first port": port(
        10,
        security_groups=[ref("group")],
        replacement_policy="AUTO",
        allowed_address_pairs=[{"ip_address": "10.92.0.99"}],
    ),
    "second-port": port(11, security_groups=[], port_security_enabled=False),
    "third.port": port(12),
    "floating": {
        "type": "OS::Neutron::FloatingIP",
        "properties": {"floating_network": param("external"), "port_id": ref("second-port")},
    },
    "other-floating": {
        "type": "OS::Neutron::FloatingIP",
        "depends_on": "interface",
        "properties": {"floating_network": param("external")},
    },
    "association": {
        "type": "OS::Neutron::FloatingIPAssociation",
        "properties": {"floatingip_id": ref("other-floating"), "port_id": ref("third.port")},
    },
    "near": {
        "type": "OS::Nova::ServerGroup",
        "properties": {"name": "near", "policies": ["affinity"]},
    },
    "cloud-config": {
        "type": "OS::Heat::CloudConfig",
        "properties": {"cloud_config": {"hostname": "machine"}},
    },
    "script": {
        "type": "OS::Heat::SoftwareConfig",
        "properties": {"group": "ungrouped", "config": BOOT},
    },
    "user-data": {
        "type": "OS::Heat::MultipartMime",
        "properties": {"parts": [{"config": ref("cloud-config")}, {"config": ref("script")}]},
    },
    "machine": server(
        "first port",
        name="machine",
        user_data=ref("user-data"),
        user_data_format="RAW",
        metadata={"purpose": "tests"},
        scheduler_hints={"group": ref("near")},
    ),
    "configured": server("second-port", user_data_format="SOFTWARE_CONFIG"),
    "amazon-group": {
        "type": "AWS::EC2::SecurityGroup",
        "properties": {
            "GroupDescription": "of tests",
            "SecurityGroupIngress": [
                {"IpProtocol": "tcp", "FromPort": "80", "ToPort": "80", "CidrIp": "0.0.0.0/0"}
            ],
        },
    },
    "amazon": {
        "type": "AWS::EC2::Instance",
        "properties": {
            "ImageId": param("image"),
            "InstanceType": param("flavor"),
            "UserData": BOOT,
            "NetworkInterfaces": [ref("third.port")],
        },
    },
    "volume": {"type": "OS::Cinder::Volume", "properties": {"name": "data", "size": 1}},
    "attachment": {
        "type": "OS::Cinder::VolumeAttachment",
        "properties": {
            "instance_uuid": ref("machine"),
            "volume_id": ref("volume"),
            "mountpoint": "/dev/vdb",
        },
    },
    "install": {
        "type": "OS::Heat::SoftwareConfig",
        "properties": {"group": "script", "config": BOOT, "inputs": [{"name": "who"}]},
    },
    "settings": {
        "type": "OS::Heat::StructuredConfig",
        "properties": {
            "group": "script",
            "config": {"for": {"get_input": "who"}},
            "inputs": [{"name": "who"}],
        },
    },
    "installed": deployment("SoftwareDeployment", "install"),
    "set": {**deployment("StructuredDeployment", "settings"), "depends_on": "installed"},
    "handle": {"type": "OS::Heat::WaitConditionHandle"},
}
OUTPUTS: dict[str, list[Any]] = {
    "range": ["sub", "cidr"],
    "address": ["first port", "fixed_ips", 0, "ip_address"],
    "networks": ["machine", "networks", "all-types"],
    "addresses": ["machine", "addresses", "all-types", 0, "addr"],
    "private": ["amazon", "PrivateIp"],
    "installed": ["installed", "deploy_stdout"],
    "set": ["set", "deploy_stdout"],
    "errors": ["set", "deploy_stderr"],
    "floating": ["floating", "floating_ip_address"],
    "attachments": ["volume", "attachments_list"],
    "curl": ["handle", "curl_cli"],
}
OF_THE_CLOUD = ("floating", "attachments", "curl")
"""Outputs that differ from cloud to cloud."""


def template(resources: dict[str, Any]) -> dict[str, Any]:
    """A template of resources, with the outputs that they have."""
    return {
        "heat_template_version": "2018-08-31",
        "parameters": {name: {"type": "string"} for name in HEAT},
        "resources": resources,
        "outputs": {
            name: {"value": {"get_attr": path}}
            for name, path in OUTPUTS.items()
            if path[0] in resources
        },
    }


def changed() -> dict[str, Any]:
    """A second version: some resources change in place, some are new, some are gone."""
    after = copy.deepcopy(RESOURCES)
    for gone in ("amazon", "amazon-group", "attachment", "set", "settings"):
        del after[gone]
    after["group"]["properties"]["rules"].append({**INGRESS, "port_range_max": 23})
    after["machine"]["properties"]["metadata"] = {"purpose": "more tests"}
    after["another"] = port(13)
    return after


async def play_the_guest(session: Session, stack: str, done: asyncio.Event) -> None:
    """Report success for each deployment that Heat waits for, as a guest would."""
    told: set[str] = set()

    async def look() -> bool:
        shown = await session.request("orchestration", "GET", f"/stacks/{stack}", absent=(404,))
        if shown is None:
            return done.is_set()
        place = f"/stacks/{stack}/{shown.json()['stack']['id']}/resources"
        for one in (await listed(session, "orchestration", place))["resources"]:
            waits = "Deployment" in one["resource_type"] and one["physical_resource_id"]
            if not waits or not one["resource_status"].endswith("_IN_PROGRESS"):
                continue
            if one["physical_resource_id"] not in told:
                deployed = await listed(
                    session, "orchestration", f"/software_deployments/{one['physical_resource_id']}"
                )
                # Before that, a signal is lost.
                if deployed["software_deployment"]["status"] != "IN_PROGRESS":
                    continue
                told.add(one["physical_resource_id"])
                config = {"installed": "install", "set": "settings"}[one["resource_name"]]
                said = {"deploy_stdout": f"ran {config}", "deploy_stderr": ""}
                await session.request(
                    "orchestration",
                    "POST",
                    f"{place}/{one['resource_name']}/signal",
                    json={**said, "deploy_status_code": 0},
                )
        return done.is_set()

    await eventually(look)


async def walk(stacks: Any, name: str, parameters: dict[str, str]) -> list[Stack]:
    """Make a stack of everything, change it, read it."""
    made = await stacks.create(P, name, template(RESOURCES), parameters=parameters)
    assert made.status.value == "CREATE_COMPLETE", made.reason
    second = await stacks.update(P, name, template(changed()), parameters=parameters)
    assert second.status.value == "UPDATE_COMPLETE", second.reason
    assert set((await stacks.get(P, name)).resources) == set(changed())
    return [made, second]


async def test_every_type_is_made_changed_and_removed_alike(cloud: Cloud) -> None:
    """One stack of all of them has the same statuses and outputs at Heat and at the native back end; the
    guest's reports are played. Load balancers are left out: this Neutron has none of their generation."""
    name = f"a{secrets.token_hex(4)}"
    async with cloud.session("demo") as session:
        heat = HeatStacks(session)
        done = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(play_the_guest(session, name, done))
                real = await walk(heat, name, HEAT)
                done.set()
        finally:
            assert await heat.delete(P, name) is None
    memory = MemoryStacks()
    own = await walk(memory, name, NATIVE)
    assert await memory.delete(P, name) is None
    for at_heat, native in zip(real, own, strict=True):
        outputs = [dict(one.outputs) for one in (at_heat, native)]
        for found in outputs:
            assert ipaddress.ip_address(found["floating"]).version == 4
            assert found["curl"].startswith("curl -i -X POST ")
            for one in OF_THE_CLOUD:
                del found[one]
        assert outputs[0] == outputs[1]
        assert at_heat.status == native.status
    assert len(real[0].outputs["attachments"]) == len(own[0].outputs["attachments"]) == 1
