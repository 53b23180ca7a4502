"""What people take by hand from a stack's network at a real Heat and Neutron comes back (decision 0798)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Installation

from vetro.openstack import Session
from vetro.stacks import StackStatus
from vetro.stacks.heat import HeatStacks

from .conftest import P, listed, of, package, stacks_of
from .user import User, application

pytestmark = pytest.mark.openstack


def ref(name: str) -> dict[str, Any]:
    """The id of a resource."""
    return {"get_resource": name}


RULES = [
    {"protocol": "tcp", "port_range_min": 80, "port_range_max": 80},
    {"protocol": "17", "port_range_min": "53", "port_range_max": 53, "remote_ip_prefix": "0.0.0.0/0"},
    {"protocol": "icmp", "ethertype": "IPv6", "remote_ip_prefix": "::/0"},
    {"protocol": "tcp", "remote_ip_prefix": "192.0.2.7/32"},
    {"protocol": "tcp", "remote_ip_prefix": {"get_attr": ["sub", "cidr"]}},
    {"protocol": "tcp", "remote_mode": "remote_group_id"},
    {"protocol": "icmp", "remote_mode": "remote_group_id", "remote_group_id": ref("aws")},
    {"protocol": "udp", "remote_group_id": ref("aws")},
    {"protocol": "sctp", "port_range_min": 1, "port_range_max": 65535},
    {"protocol": "icmp", "port_range_min": 8, "port_range_max": 0},
]  # fmt: skip
AWS = [
    {"IpProtocol": "tcp", "FromPort": "1", "ToPort": "65535", "CidrIp": "0.0.0.0/0"},
    {"IpProtocol": "udp", "CidrIp": "192.0.2.0/24"},
]
ONE_RULE = [{"protocol": "tcp", "port_range_min": 22, "port_range_max": 22}]
NESTED = """
heat_template_version: 2018-08-31
parameters: {port: {type: number}}
resources:
  group:
    type: OS::Neutron::SecurityGroup
    properties:
      rules: [{protocol: tcp, port_range_min: {get_param: port}, port_range_max: {get_param: port}}]
"""
FILES = {"nested.yaml": NESTED}
TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "resources": {
        "net": of("OS::Neutron::Net"),
        "sub": of("OS::Neutron::Subnet", network=ref("net"), cidr="10.76.0.0/24"),
        "router": of("OS::Neutron::Router", external_gateway_info={"network": "public"}),
        "joined": of("OS::Neutron::RouterInterface", router=ref("router"), subnet=ref("sub")),
        "group": of("OS::Neutron::SecurityGroup", rules=RULES),
        "aws": of("AWS::EC2::SecurityGroup", GroupDescription="d", SecurityGroupIngress=AWS),
        "single": of(
            "OS::Neutron::SecurityGroupRule",
            security_group=ref("aws"),
            protocol="tcp",
            port_range_min=443,
            port_range_max=443,
        ),
        "many": of(
            "OS::Heat::ResourceGroup",
            count=1,
            resource_def=of("OS::Neutron::SecurityGroup", rules=ONE_RULE),
        ),
        "port": {
            **of(
                "OS::Neutron::Port",
                network=ref("net"),
                security_groups=[ref("group"), ref("aws")],
                fixed_ips=[{"subnet": ref("sub")}],
            )
        },
        "web": of(
            "OS::Nova::Server", image="linux", flavor="m1.small", networks=[{"port": ref("port")}]
        ),
        "outside": {
            **of("OS::Neutron::FloatingIP", floating_network="public", port_id=ref("port")),
            "depends_on": "joined",
        },
        "spare": of("OS::Neutron::FloatingIP", floating_network="public"),
    },
}


class Stack:
    """The stack of a test, as its network service has it."""

    def __init__(
        self, session: Session, heat: HeatStacks, name: str, template: dict[str, Any]
    ) -> None:
        self.session, self.heat, self.name, self.template = session, heat, name, template

    async def ids(self) -> dict[str, str]:
        """The ids of resources, also of nested ones."""
        path = f"/stacks/{self.name}/resources"
        found = await listed(self.session, "orchestration", path, nested_depth="3")
        rows = found["resources"]
        return {
            f"{one.get('parent_resource') or ''}.{one['resource_name']}".strip("."): one[
                "physical_resource_id"
            ]
            for one in rows
        }

    async def network(self, method: str, path: str, body: Any = None) -> Any:
        """A call of Neutron."""
        answer = await self.session.request("network", method, f"/v2.0{path}", json=body)
        assert answer is not None
        return answer.json() if method != "DELETE" else None

    async def rules(self, id_: str) -> dict[str, str]:
        """What the rules of a group say, by id."""
        group = (await self.network("GET", f"/security-groups/{id_}"))["security_group"]
        said = ("direction", "ethertype", "protocol", "port_range_min", "port_range_max",
                "remote_ip_prefix", "remote_group_id")  # fmt: skip
        rows = group["security_group_rules"]
        return {one["id"]: repr([one[key] for key in said]) for one in rows}

    async def again(self, altered: list[str], **more: Any) -> None:
        """Deploy the same; what is missing is seen before, and not after."""
        assert await self.heat.altered(P, self.name) == altered
        done = await self.heat.update(P, self.name, self.template, files=FILES, **more)
        assert (done.status, done.warnings) == (StackStatus.UPDATE_COMPLETE, []), done.reason
        assert await self.heat.altered(P, self.name) == []

    async def loses_rules(self, path: str, id_: str) -> None:
        """All rules of a group are removed, and come back."""
        whole = await self.rules(id_)
        for one in whole:
            await self.network("DELETE", f"/security-group-rules/{one}")
        await self.again([path])
        assert sorted((await self.rules(id_)).values()) == sorted(whole.values())


async def test_what_people_take_by_hand_comes_back(
    session: Session, heat: HeatStacks, name: str
) -> None:
    """Rules, groups, the way of an address, an interface, an address; machine and port stay the same ones."""
    made = await heat.create(P, name, TEMPLATE, files=FILES)
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason
    stack = Stack(session, heat, name, TEMPLATE)
    first = await stack.ids()
    assert await heat.altered(P, name) == []
    before = (await listed(session, "orchestration", f"/stacks/{name}"))["stack"]

    # Rules: each of both groups, and one that was added by hand stays.
    rule = {"direction": "ingress", "protocol": "tcp", "port_range_min": 9, "port_range_max": 9}
    for path in ("group", "aws"):
        body = {"security_group_rule": {**rule, "security_group_id": first[path]}}
        await stack.network("POST", "/security-group-rules", body)
        whole = await stack.rules(first[path])
        ours = [one for one in whole if one != first["single"] and ", 9, 9," not in whole[one]]
        for one in ours:
            await stack.network("DELETE", f"/security-group-rules/{one}")
        await stack.again([path])
        assert sorted((await stack.rules(first[path])).values()) == sorted(whole.values())
    await stack.loses_rules("many.0", first["many.0"])

    # The way of an address, then the interface, which no address may need.
    detached = {"floatingip": {"port_id": None}}
    await stack.network("PUT", f"/floatingips/{first['outside']}", detached)
    await stack.again(["outside"], may_lose=[])
    await stack.network("PUT", f"/floatingips/{first['outside']}", detached)
    gone = {"subnet_id": first["sub"]}
    await stack.network("PUT", f"/routers/{first['router']}/remove_router_interface", gone)
    await stack.again(["joined", "outside"], may_lose=[])
    address = (await stack.network("GET", f"/floatingips/{first['outside']}"))["floatingip"]
    assert address["port_id"] == first["port"]
    after = (await listed(session, "orchestration", f"/stacks/{name}"))["stack"]
    assert after["updated_time"] == before["updated_time"]

    # Whole groups, a rule that is a resource, an address.
    port: dict[str, Any] = {"port": {"security_groups": []}}
    await stack.network("PUT", f"/ports/{first['port']}", port)
    await stack.network("DELETE", f"/security-groups/{first['group']}")
    await stack.again(["group"], may_lose=[])
    await stack.network("DELETE", f"/security-group-rules/{first['single']}")
    await stack.network("DELETE", f"/security-groups/{first['many.0']}")
    await stack.network("DELETE", f"/floatingips/{first['spare']}")
    await stack.again(["many.0", "single", "spare"], may_lose=[])
    last = await stack.ids()
    anew = {"group", "single", "many.0", "spare"}
    assert {one for one in first if last[one] != first[one]} == anew
    shown = (await stack.network("GET", f"/ports/{first['port']}"))["port"]
    assert sorted(shown["security_groups"]) == sorted([last["group"], last["aws"]])
    assert len(await stack.rules(last["group"])) == len(RULES) + 2


async def test_a_group_of_a_nested_template_comes_back(
    session: Session, heat: HeatStacks, name: str
) -> None:
    """Its rules, with the parameters of the nested template, and the group itself."""
    resources = {"file": of("nested.yaml", port=23)}
    template = {"heat_template_version": "2018-08-31", "resources": resources}
    made = await heat.create(P, name, template, files=FILES)
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason
    stack = Stack(session, heat, name, template)
    first = (await stack.ids())["file.group"]
    await stack.loses_rules("file.group", first)
    await stack.network("DELETE", f"/security-groups/{first}")
    await stack.again(["file.group"])
    last = (await stack.ids())["file.group"]
    assert last != first
    assert len(await stack.rules(last)) == 3


GROUP_OF_A_PACKAGE = """
heat_template_version: 2013-05-23
resources:
  group:
    type: OS::Neutron::SecurityGroup
    properties: {rules: [{protocol: tcp, port_range_min: 80, port_range_max: 80}]}
"""


@pytest.mark.e2e
async def test_an_unchanged_deployment_puts_a_rule_back(
    vetro: Installation, session: Session, tmp_path: Path
) -> None:
    """Nothing was edited: the deployment looks at what is there, and the port is open again."""
    vetro.run("package", "import", package(tmp_path, "Opened", GROUP_OF_A_PACKAGE))
    user = User(vetro, (await session.login()).token)
    id_ = user.environment("opened", application("test.Opened/1.0.0"))
    assert (await asyncio.to_thread(user.ended, id_)).startswith("success")
    (found,) = await stacks_of(session, id_)
    stack = Stack(session, HeatStacks(session), found["stack_name"], {})
    group = (await stack.ids())["group"]
    whole = await stack.rules(group)
    for one in whole:
        await stack.network("DELETE", f"/security-group-rules/{one}")
    user.deploy(id_)
    said = await asyncio.to_thread(user.ended, id_)
    assert said.startswith("success"), said
    assert sorted((await stack.rules(group)).values()) == sorted(whole.values())
    await asyncio.to_thread(user.destroy, id_)
