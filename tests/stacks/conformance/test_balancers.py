"""Load balancers on every cloud: what is made, what HAProxy is told, and what changes in place."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from vetro.stacks import ChangeKind, Doors, MemoryStacks, NativeSettings, StackStatus, TemplateError
from vetro.stacks.native import StackEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")
Json = Any


def ref(name: str) -> Json:
    """``get_resource``."""
    return {"get_resource": name}


def made(type_: str, /, **properties: Any) -> Json:
    """A resource."""
    return {"type": type_, "properties": properties}


def template(subnet: str, count: int = 1) -> dict[str, Json]:
    """A pool with a monitor, in front of a group of servers and an address of elsewhere."""
    network = {"network": ref("net"), "cidr": f"{subnet}.8.0/24"}
    vm = made(
        "OS::Nova::Server", flavor="m1.nano", image="debian", networks=[{"subnet": ref("sub")}]
    )
    return {
        "heat_template_version": "2016-10-14",
        "resources": {
            "net": made("OS::Neutron::Net"),
            "sub": made("OS::Neutron::Subnet", **network),
            "vms": made("OS::Heat::ResourceGroup", count=count, resource_def=vm),
            "asking": made(
                "OS::Neutron::HealthMonitor", type="HTTP", delay=3, max_retries=2, timeout=10,
                http_method="GET", url_path="/up", expected_codes="200,204",
            ),
            "pool": made(
                "OS::Neutron::Pool", protocol="HTTP", subnet_id=ref("sub"),
                lb_method="LEAST_CONNECTIONS", monitors=[ref("asking")],
                vip={"protocol_port": "8080", "address": f"{subnet}.8.200"},
            ),
            "lb": made(
                "OS::Neutron::LoadBalancer", pool_id=ref("pool"), protocol_port=80,
                members={"get_attr": ["vms", "refs"]},
            ),
            "other": made(
                "OS::Neutron::PoolMember", pool_id=ref("pool"), address="192.0.2.7",
                protocol_port=81, weight=3,
            ),
        },
        "outputs": {
            "address": {"value": {"Fn::Select": ["address", {"get_attr": ["pool", "vip"]}]}},
            "port": {"value": {"get_attr": ["pool", "vip", "port_id"]}},
            "members": {"value": {"get_attr": ["vms", "first_address"]}},
        },
    }  # fmt: skip


class Told:
    """The agents of balancers: they note what they are told, and say that it went well."""

    def __init__(self, cloud: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scripts: list[str] = []
        guests = cloud.stacks._doors.guests

        async def run(_server: str, plan: dict[str, Json], _seconds: float) -> Json:
            self.scripts.append(json.loads(plan["Parameters"]["deployment"])["config"])
            return {"deploy_status_code": 0, "outputs": {}}

        monkeypatch.setattr(guests, "run", run)

    def members(self) -> set[str]:
        """The addresses that the last configuration sends to."""
        lines = self.scripts[-1].splitlines()
        return {line.split()[2] for line in lines if line.startswith("  server ")}


async def test_members_come_and_go(cloud: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One configuration a change, before a server that leaves is removed; the balancer itself stays."""
    told, project, subnet = Told(cloud, monkeypatch), cloud.new_project(), cloud.subnet
    stack = await cloud.stacks.create(project, "s", template(subnet))
    assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
    assert stack.outputs["address"] == f"{subnet}.8.200"
    first = {name: one.physical_id for name, one in stack.resources.items()}
    assert stack.outputs["port"] == first["pool.vip"]
    assert len(told.scripts) == 1
    script = told.scripts[0]
    for line in (
        "bind *:8080", "balance leastconn", "option httpchk GET /up", "timeout check 10s",
        "http-check expect rstatus ^(200|204)$",
        "server 192.0.2.7-81 192.0.2.7:81 weight 3 check inter 3s fall 2 rise 1",
    ):  # fmt: skip
        assert f"  {line}\n" in script
    assert told.members() == {"192.0.2.7:81", f"{stack.outputs['members'][0]}:80"}
    assert (await cloud.stacks.plan(project, "s", template(subnet))).empty

    stack = await cloud.stacks.update(project, "s", template(subnet, 2))
    both = {f"{one}:80" for one in stack.outputs["members"]}
    assert told.members() == {"192.0.2.7:81", *both}
    assert (len(both), len(told.scripts)) == (2, 2)

    fewer = template(subnet)
    del fewer["resources"]["other"]
    fewer["resources"]["asking"]["properties"]["url_path"] = "/new"
    plan = await cloud.stacks.plan(project, "s", fewer)
    assert {one.resource for one in plan.changes if one.kind.value == "update"} == {
        "asking", "lb", "pool.balancing",
    }  # fmt: skip
    stack = await cloud.stacks.update(project, "s", fewer)
    assert told.members() == {f"{one}:80" for one in stack.outputs["members"]}
    assert "option httpchk GET /new" in told.scripts[-1]
    assert len(told.scripts) == 3
    kept = {name: one.physical_id for name, one in stack.resources.items()}
    assert {name: one for name, one in first.items() if name != "other"} == kept
    assert await cloud.stacks.delete(project, "s") is None


async def test_an_ipv6_virtual_address(cloud: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """HAProxy listens there and sends to IPv6 addresses of members; one of IPv4 is refused."""
    told, project = Told(cloud, monkeypatch), cloud.new_project()
    start = f"fd7e:a:{int(cloud.subnet.split('.')[1]):x}:"
    wanted = template(cloud.subnet)
    resources = wanted["resources"]
    resources["sub"]["properties"] |= {"cidr": f"{start}:/64", "ip_version": 6}
    resources["pool"]["properties"]["vip"] = {"protocol_port": 8080, "address": f"{start}:80"}
    with pytest.raises(
        TemplateError, match=r"'pool'.*member 192.0.2.7 is not reached from an IPv6"
    ):
        await cloud.stacks.create(project, "s", wanted)
    resources["other"]["properties"]["address"] = f"{start}:77"
    stack = await cloud.stacks.create(project, "s", wanted)
    assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
    assert stack.outputs["address"] == f"{start}:80"
    assert "  bind [::]:8080\n" in told.scripts[0]
    [member] = stack.outputs["members"]
    assert member.startswith(start)
    assert told.members() == {f"[{start}:77]:81", f"[{member}]:80"}
    assert (await cloud.stacks.plan(project, "s", wanted)).empty
    assert await cloud.stacks.delete(project, "s") is None


def sticky(how: Json) -> Json:
    """A virtual address with session persistence."""
    return {"protocol_port": 80, "session_persistence": how}


REFUSED: list[tuple[str, dict[str, Json], str]] = [
    ("asking", {"type": "PING"}, "HAProxy opens connections, it sends no pings; use TCP"),
    ("asking", {"delay": 0}, "'delay' is from 1 to"),
    ("asking", {"url_path": "/ x\n  bind *:1"}, "'url_path' is a path"),
    ("asking", {"expected_codes": "all"}, "'expected_codes' is a status"),
    ("asking", {"http_method": "GET /\n"}, "'http_method' is an HTTP method"),
    ("pool", {"vip": {}}, "'vip' needs a protocol_port"),
    ("pool", {"vip": "x"}, "'vip' is a map"),
    ("pool", {"vip": {"protocol_port": 70000}}, "from 1 to 65535"),
    ("pool", {"vip": {"protocol_port": 80, "colour": "red"}}, "no key 'colour'"),
    ("pool", {"protocol": "TCP", "vip": sticky({"type": "HTTP_COOKIE"})}, "does not see the cookies of TCP"),
    ("pool", {"vip": sticky({"type": "APP_COOKIE"})}, "needs a cookie_name"),
    ("pool", {"vip": sticky(["x"])}, "needs a type"),
    ("pool", {"monitors": [{"get_resource": "asking"}] * 2}, "one check of each member"),
    ("pool", {"monitors": ["3f2a"]}, "of the same template"),
    ("pool", {"monitors": [{"get_resource": "net"}]}, "not 'net', which is OS::Neutron::Net"),
    ("lb", {"members": [{"get_resource": "sub"}]}, "not 'sub'"),
    ("lb", {"members": ["some server"]}, "of the same template"),
    ("lb", {"pool_id": "some pool"}, "of the same template"),
    ("lb", {"protocol_port": "http"}, "not an integer"),
    ("other", {"weight": 999}, "'weight' is from 0 to 256"),
    ("other", {"address": "example.com"}, "is an IP address"),
    ("other", {"address": "1.2.3.4\n  bind *:1"}, "is an IP address"),
]  # fmt: skip


@pytest.mark.parametrize("cloud", ["memory"], indirect=True, scope="module")
@pytest.mark.parametrize(("name", "properties", "words"), REFUSED)
async def test_what_no_balancer_does(
    cloud: Any, name: str, properties: dict[str, Json], words: str
) -> None:
    """It is refused when the template is validated, and nothing is made."""
    wanted = copy.deepcopy(template("10.1"))
    wanted["resources"][name]["properties"].update(properties)
    with pytest.raises(TemplateError) as error:
        await cloud.stacks.create(cloud.new_project(), "s", wanted)
    assert words in str(error.value)
    assert error.value.resource == name


async def test_a_balancer_without_an_image() -> None:
    """Neither the image of balancers nor nodes that can run them: said before anything is made."""
    stacks = MemoryStacks()
    del stacks.compute.images["vetro-balancer"]
    with pytest.raises(TemplateError, match=r"no image 'vetro-balancer'.*engine\.balancer_image"):
        await stacks.create("p", "s", template("10.1"))
    stacks.compute.offers = frozenset()
    with pytest.raises(TemplateError, match="this back end has no load balancers"):
        await stacks.create("p", "s", template("10.1"))
    assert stacks.compute.calls == []


async def test_parts_have_names_of_their_own() -> None:
    """A resource with the name of a balancer's part is refused."""
    wanted = template("10.1")
    wanted["resources"]["pool.vip"] = made("OS::Neutron::Net")
    with pytest.raises(TemplateError, match=r"'pool.vip'.*part of a load balancer"):
        await MemoryStacks().create("p", "s", wanted)


async def test_a_balancer_keeps_its_image_when_the_setting_names_another() -> None:
    """It is the same machine after an update of the service; a rollback keeps it as well, and a new balancer
    gets the new image."""
    first = MemoryStacks()
    await first.create("p", "s", template("10.1"))
    servers = {one.spec.uuid for one in first.compute.server_list.values()}
    settings = NativeSettings(balancer_image="debian")
    later = StackEngine(
        first.store,
        first.compute,
        settings=settings,
        doors=Doors(signals=first.signals, guests=first.guests, url="http://mailbox.example"),
    )
    plan = await later.plan("p", "s", template("10.1"))
    assert plan.empty, [one for one in plan.changes if one.kind is not ChangeKind.KEEP]
    changed = template("10.1")
    changed["resources"]["pool"]["properties"]["lb_method"] = "ROUND_ROBIN"
    assert (await later.update("p", "s", changed)).status is StackStatus.UPDATE_COMPLETE
    assert {one.spec.uuid for one in first.compute.server_list.values()} == servers
    broken = copy.deepcopy(changed)
    broken["resources"]["more"] = made(
        "OS::Nova::Server", flavor="m1.nano", image="nothing", networks=[{"subnet": ref("sub")}]
    )
    stack = await later.update("p", "s", broken, rollback=True)
    assert stack.status is StackStatus.ROLLBACK_COMPLETE
    assert {one.spec.uuid for one in first.compute.server_list.values()} == servers
    await later.create("q", "s", template("10.1"))
    images = [one.spec.image.name for one in first.compute.server_list.values()]
    assert images.count("vetro-balancer") == 1
