"""What is kept at a real Heat: user data, machines, volumes and addresses that a request did not let go."""

from typing import Any

import pytest
from tests.waiting import eventually

from vetro.openstack import Session
from vetro.stacks import StackStatus
from vetro.stacks.heat import HeatSettings, HeatStacks
from vetro.stacks.heat.ownership import StackOfSomebodyElse
from vetro.stacks.losses import LossRefused

from .conftest import P, listed, of

pytestmark = pytest.mark.openstack


def server(**properties: Any) -> dict[str, Any]:
    """A server without an address of its own, unless its properties say more."""
    given = {"image": "linux", "flavor": "m1.small", **properties}
    return of("OS::Nova::Server", **given)


def hot(resources: dict[str, Any]) -> dict[str, Any]:
    """A template."""
    return {"heat_template_version": "2018-08-31", "resources": resources}


DB = """
heat_template_version: 2018-08-31
parameters:
  key: {type: string}
  net: {type: string}
  data: {type: string}
resources:
  vm:
    type: OS::Nova::Server
    properties:
      name: db-1
      image: linux
      flavor: m1.small
      key_name: {get_param: key}
      networks: [{network: {get_param: net}}]
      user_data: {get_param: data}
"""
FILES = {"db.yaml": DB}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINDfWXrDw5YJ7RyZyLYk6/3fp849TEC0mi5pHHsjeXAk"


def whole(name: str, data: str, **web: Any) -> dict[str, Any]:
    """A template of all that uses something else, with user data."""
    return {
        "net": of("OS::Neutron::Net"),
        "sub": of("OS::Neutron::Subnet", network={"get_resource": "net"}, cidr="10.74.0.0/24"),
        "router": of("OS::Neutron::Router", external_gateway_info={"network": "public"}),
        "joined": of(
            "OS::Neutron::RouterInterface",
            router={"get_resource": "router"},
            subnet={"get_resource": "sub"},
        ),
        "group": of("OS::Neutron::SecurityGroup", rules=[{"protocol": "tcp"}]),
        "key": of("OS::Nova::KeyPair", name=f"{name}-key", public_key=KEY),
        "port": of(
            "OS::Neutron::Port",
            network={"get_resource": "net"},
            security_groups=[{"get_resource": "group"}],
            fixed_ips=[{"subnet": {"get_resource": "sub"}}],
        ),
        "web": server(
            **{
                "name": "web-1",
                "key_name": {"get_resource": "key"},
                "networks": [{"port": {"get_resource": "port"}}],
                "user_data": {
                    "str_replace": {
                        "template": f"{data} $mac",
                        "params": {"$mac": {"get_attr": ["port", "mac_address"]}},
                    }
                },
                "user_data_format": "RAW",
                **web,
            }
        ),
        "disk": of("OS::Cinder::Volume", size=1, name=f"{name}-data"),
        "attached": of(
            "OS::Cinder::VolumeAttachment",
            instance_uuid={"get_resource": "web"},
            volume_id={"get_resource": "disk"},
        ),
        "outside": {
            **of(
                "OS::Neutron::FloatingIP",
                floating_network="public",
                port_id={"get_resource": "port"},
            ),
            "depends_on": "joined",
        },
        "many": {
            **of(
                "OS::Heat::ResourceGroup",
                count=2,
                resource_def=server(
                    name="m-%index%",
                    key_name={"get_resource": "key"},
                    networks=[{"network": {"get_resource": "net"}}],
                    user_data=data,
                ),
            ),
            "depends_on": "sub",
        },
        "db": {
            **of("db.yaml", key={"get_resource": "key"}, net={"get_resource": "net"}, data=data),
            "depends_on": "sub",
        },
    }


async def machines(session: Session) -> dict[str, str]:
    """The ids of the project's servers by name."""
    found = await listed(session, "compute", "/servers")
    return {one["name"]: one["id"] for one in found["servers"]}


async def refused(heat: HeatStacks, name: str, template: Any, **options: Any) -> LossRefused:
    """The refusal of a guarded update."""
    with pytest.raises(LossRefused) as found:
        await heat.update(P, name, template, may_lose=[], **options)
    return found.value


async def test_what_nobody_let_go_is_kept(heat: HeatStacks, name: str, session: Session) -> None:
    """Another mailbox in the user data changes no machine, and an unchanged template names no loss; what
    would be lost is refused with names and both values, and goes when it is named."""
    made = await heat.create(P, name, hot(whole(name, "mailbox: a")), files=FILES)
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason
    before = await machines(session)
    assert {"web-1", "db-1", "m-0", "m-1"} <= before.keys()
    settled = StackStatus.UPDATE_COMPLETE

    # Everything is asked of Heat again, because something is added.
    more = {"another": of("OS::Neutron::Net")}
    same = {**whole(name, "mailbox: a"), **more}
    done = await heat.update(P, name, hot(same), files=FILES, may_lose=[])
    assert (done.status, await machines(session)) == (settled, before), done.reason

    moved = {**whole(name, "mailbox: b", metadata={"a": "b"}), **more}
    done = await heat.update(P, name, hot(moved), files=FILES, may_lose=[])
    assert (done.status, await machines(session)) == (settled, before), done.reason

    # A key pair that is made anew, and what was made with it.
    other = {**moved, "key": of("OS::Nova::KeyPair", name=f"{name}-other", public_key=KEY)}
    error = await refused(heat, name, hot(other), files=FILES)
    why = ", its data is lost: key pair key → depends on key"
    assert [one.text for one in error.losses] == [
        f"replaces machine {one}{why}" for one in ("db-1", "m-0", "m-1", "web-1")
    ]
    assert await machines(session) == before

    # A host name is the name of the resource, too: one goes, another one comes.
    renamed = {key: one for key, one in moved.items() if key not in ("web", "attached")}
    renamed["www"] = server(**{**moved["web"]["properties"], "name": "www"})
    error = await refused(heat, name, hot(renamed), files=FILES)
    assert "replaces machine web-1, its data is lost: host name web-1 → www" in str(error)
    assert await machines(session) == before

    # Addresses and volumes, and members of groups.
    small = {key: one for key, one in moved.items() if key not in ("outside", "disk", "attached")}
    small["many"] = {
        **moved["many"],
        "properties": {**moved["many"]["properties"], "count": 1},
    }
    error = await refused(heat, name, hot(small), files=FILES)
    texts = [one.text for one in error.losses]
    assert texts[:2] == [
        "removes machine m-1, its data is lost",
        f"removes volume {name}-data, its data is lost",
    ]
    assert texts[2].startswith("removes address 203.0.113.")
    keys = [one.key for one in error.losses]
    done = await heat.update(P, name, hot(small), files=FILES, may_lose=keys)
    assert done.status is settled, done.reason
    after = {key: one for key, one in before.items() if key != "m-1"}
    assert await machines(session) == after

    # A property that Heat cannot change in place; what is named goes, and nothing else.
    zone = {"availability_zone": "nova"}
    moved_on = {**small, "web": server(**{**moved["web"]["properties"], **zone})}
    error = await refused(heat, name, hot(moved_on), files=FILES)
    assert [one.text for one in error.losses] == [
        "replaces machine web-1, its data is lost: availability zone none → nova"
    ]
    done = await heat.update(P, name, hot(moved_on), files=FILES, may_lose=["machine web-1"])
    assert done.status is settled, done.reason
    now = await machines(session)
    assert now["web-1"] != before["web-1"]
    assert now["db-1"] == before["db-1"]

    with pytest.raises(LossRefused) as removal:
        await heat.delete(P, name, may_lose=["machine web-1"])
    assert {one.name for one in removal.value.losses} == {"db-1", "m-0"}
    assert await machines(session) == now


async def test_a_server_of_an_earlier_release_keeps_its_machine(
    heat: HeatStacks, name: str, session: Session
) -> None:
    """One that was made without a policy for its user data, as Vetro did before."""
    net = of("OS::Neutron::Net")
    sub = of("OS::Neutron::Subnet", network={"get_resource": "net"}, cidr="10.75.0.0/24")

    def template(script: str) -> dict[str, Any]:
        # As the classes of machines write user data.
        part = {"config": {"get_resource": "boot"}}
        data = {
            "boot": of("OS::Heat::SoftwareConfig", group="ungrouped", config=script),
            "data": of("OS::Heat::MultipartMime", parts=[part]),
        }
        nics = [{"network": {"get_resource": "net"}}]
        used = {"user_data": {"get_resource": "data"}, "user_data_format": "RAW"}
        one = server(name=f"{name}-old", networks=nics, **used)
        return hot({"net": net, "sub": sub, **data, "old": {**one, "depends_on": "sub"}})

    body = {"stack_name": name, "template": template("then"), "tags": "murano"}
    await session.request("orchestration", "POST", "/stacks", json=body)
    assert await heat.get(P, name) is None
    with pytest.raises(StackOfSomebodyElse):
        await heat.create(P, name, template("now"))
    assert await heat.delete(P, name) is None

    settings_say = HeatStacks(session, HeatSettings(former_tags=("murano",)))

    async def made() -> bool:
        found = await settings_say.head(P, name)
        return found is not None and found.status is StackStatus.CREATE_COMPLETE

    await eventually(made, "the stack that was made by hand")
    before = (await machines(session))[f"{name}-old"]
    done = await settings_say.update(P, name, template("now"), may_lose=[], tags=["murano"])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
    assert (await machines(session))[f"{name}-old"] == before
    found = await heat.get(P, name)
    assert found is not None
    assert (found.tags, found.template) == (["murano"], template("now"))
