"""What an update at Heat may take from its user (core-library.md §4.4): nothing that was not named.

The Heat is one on paper (`paper_heat`); tests/openstack/test_kept.py asks a real one.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.openstack.stub import serving

from vetro.openstack import PasswordCredential, Session
from vetro.stacks import StackBusy, StackNotFound, TemplateError
from vetro.stacks.heat import HeatSettings, HeatStacks, Patience
from vetro.stacks.heat.ownership import StackOfSomebodyElse
from vetro.stacks.losses import LossRefused

from .paper_heat import IN_PLACE, ROOT, Made, PaperHeat, servers

P = "p"
SERVER = "OS::Nova::Server"


class Bench:
    """Stacks at a Heat on paper."""

    def __init__(self, heat: PaperHeat, stacks: HeatStacks) -> None:
        self.heat = heat
        self.stacks = stacks

    async def refused(
        self, template: Any, may_lose: Collection[str] = (), **more: Any
    ) -> list[str]:
        """What an update is refused for, in texts; it has changed nothing. Empty: it was not refused."""
        before = list(self.heat.changes)
        try:
            await self.stacks.update(P, "s", template, may_lose=may_lose, **more)
        except LossRefused as error:
            assert self.heat.changes == before
            return [one.text for one in error.losses]
        return []

    def ids(self) -> dict[str, str]:
        """The ids of resources by path."""
        return {path: one.id for path, one in self.heat.stacks["s"].made.items()}


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A Heat without stacks."""
    async with benched() as one:
        yield one


class benched:
    """A Heat without stacks, for a test that needs many."""

    async def __aenter__(self) -> Bench:
        self._serving = serving()
        stub = await self._serving.__aenter__()
        self._session = Session(stub.url, PasswordCredential("ann", "pw", "demo"))
        settings = HeatSettings(
            patience=Patience(1.0, first_pause=0.01), first_pause=0.001, former_tags=("murano",)
        )
        return Bench(PaperHeat(stub), HeatStacks(self._session, settings))

    async def __aexit__(self, *error: object) -> None:
        await self._session.close()
        await self._serving.__aexit__(None, None, None)


def hot(resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A template."""
    return {"heat_template_version": "2018-08-31", "resources": resources, **more}


def server(**properties: Any) -> dict[str, Any]:
    """A server."""
    return {"type": SERVER, "properties": {"image": "linux", "flavor": "small", **properties}}


def of(kind: str, **properties: Any) -> dict[str, Any]:
    """A resource of a type."""
    return {"type": kind, "properties": properties}


WHOLE = {
    "net": of("OS::Neutron::Net"),
    "sub": of("OS::Neutron::Subnet", network={"get_resource": "net"}, cidr="10.0.0.0/24"),
    "group": of("OS::Neutron::SecurityGroup"),
    "key": of("OS::Nova::KeyPair", name="mine"),
    "port": of(
        "OS::Neutron::Port",
        network={"get_resource": "net"},
        security_groups=[{"get_resource": "group"}],
        fixed_ips=[{"subnet": {"get_resource": "sub"}}],
    ),
    "web": server(
        name="web-1",
        key_name={"get_resource": "key"},
        networks=[{"port": {"get_resource": "port"}}],
        user_data={"str_replace": {"template": "$a", "params": {"$a": {"get_attr": ["sub", "x"]}}}},
    ),
    "disk": of("OS::Cinder::Volume", size=1, name="data"),
    "attached": of(
        "OS::Cinder::VolumeAttachment",
        instance_uuid={"get_resource": "web"},
        volume_id={"get_resource": "disk"},
    ),
    "outside": of(
        "OS::Neutron::FloatingIP", floating_network="public", port_id={"get_resource": "port"}
    ),
    "many": of(
        "OS::Heat::ResourceGroup",
        count=2,
        resource_def=server(name="m-%index%", key_name={"get_resource": "key"}),
    ),
    "db": of("db.yaml", key={"get_resource": "key"}),
}
FILES = {
    "db.yaml": json.dumps(
        {
            "heat_template_version": "2018-08-31",
            "parameters": {"key": {"type": "string"}},
            "resources": {
                "vm": server(name="db-1", key_name={"get_param": "key"}, user_data="first"),
                "disk": of("OS::Cinder::Volume", size=1),
            },
        }
    )
}
MORE = {"another": of("OS::Neutron::Net")}


async def test_an_update_that_keeps_everything_names_nothing(bench: Bench) -> None:
    """Although Heat's preview calls a port, a server, a subnet and a floating address replaced."""
    await bench.stacks.create(P, "s", hot(WHOLE), files=FILES)
    before = bench.ids()
    stack = bench.heat.stacks["s"]
    preview = bench.heat.preview(stack, {**stack.body, "template": hot({**WHOLE, **MORE})})
    noise = {one["resource_name"] for one in preview["replaced"]}
    assert {"sub", "port", "web"} <= noise
    assert await bench.refused(hot({**WHOLE, **MORE}), files=FILES) == []
    assert before.items() <= bench.ids().items()
    assert (
        await bench.stacks.update(P, "s", hot(WHOLE), files=FILES)
    ).status.value == "UPDATE_COMPLETE"


#: What Heat changes in place, and writes over what the resource has.
WRITTEN_OVER = {(SERVER, "image"), ("OS::Cinder::Volume", "backup_id")}
#: Beside ports and interfaces, whose addresses have tests of their own.
TABLE = [
    (kind, key)
    for kind in (SERVER, "OS::Cinder::Volume", "OS::Neutron::FloatingIP", "AWS::EC2::Instance")
    for key in (*IN_PLACE[kind]["in_place"], *IN_PLACE[kind]["fixed"])
    if key not in ("networks", "replacement_policy", "no_fixed_ips") and not key.endswith("_policy")
]


@pytest.mark.parametrize(("kind", "key"), TABLE)
async def test_a_changed_property_is_named_when_heat_makes_the_resource_anew(
    bench: Bench, kind: str, key: str
) -> None:
    """Each property of each type: named with both values, or nothing is lost; named, it goes through."""
    base = {} if kind == "OS::Neutron::FloatingIP" else {"name": "it-1"}
    await bench.stacks.create(P, "s", hot({"it": of(kind, **{**base, key: "former"})}))
    old = bench.ids()["it"]
    new = hot({"it": of(kind, **{**base, key: "later"})})
    texts = await bench.refused(new)
    anew = key in IN_PLACE[kind]["fixed"]
    assert bool(texts) is (anew or (kind, key) in WRITTEN_OVER), texts
    if texts:
        secret = key in ("UserData", "personality")
        assert "another" in texts[0] if secret else texts[0].endswith("former → later")
        assert texts[0].startswith("replaces ")
        with pytest.raises(LossRefused) as refused:
            await bench.stacks.update(P, "s", new, may_lose=["machine other"])
        keys = [one.key for one in refused.value.losses]
        assert await bench.refused(new, keys) == []
    assert (bench.ids()["it"] != old) is anew


async def test_user_data_are_read_once(bench: Bench) -> None:
    """Changed user data keep every machine, also of groups and nested templates, with and without a guard."""
    await bench.stacks.create(P, "s", hot(WHOLE), files=FILES)
    before = bench.ids()
    other = hot(
        {
            **WHOLE,
            "web": server(**{**WHOLE["web"]["properties"], "user_data": "other"}),
            "many": of(
                "OS::Heat::ResourceGroup",
                count=2,
                resource_def=server(
                    name="m-%index%", key_name={"get_resource": "key"}, user_data="x"
                ),
            ),
        }
    )
    files = {"db.yaml": FILES["db.yaml"].replace("first", "second")}
    assert await bench.refused(other, files=files) == []
    assert bench.ids() == before
    await bench.stacks.update(P, "s", hot(WHOLE), files=FILES)
    assert bench.ids() == before


async def test_user_data_of_parts_are_read_once(bench: Bench) -> None:
    """As the classes of machines write them: configurations that are made anew keep the server with them."""

    def template(script: str, **more: Any) -> dict[str, Any]:
        part = {"config": {"get_resource": "boot"}}
        return hot(
            {
                "boot": of("OS::Heat::SoftwareConfig", group="ungrouped", config=script),
                "data": of("OS::Heat::MultipartMime", parts=[part]),
                "web": server(name="w", user_data={"get_resource": "data"}, **more),
            }
        )

    await bench.stacks.create(P, "s", template("one"))
    before = bench.ids()
    assert await bench.refused(template("two")) == []
    assert bench.ids()["boot"] != before["boot"]
    assert bench.ids()["web"] == before["web"]
    anew = {"user_data_update_policy": "REPLACE"}
    assert await bench.refused(template("two", **anew)) == []
    texts = await bench.refused(template("three", **anew))
    assert texts == ["replaces machine w, its data is lost: user data *** → depends on data"]


async def test_a_server_of_an_earlier_release_keeps_its_machine(bench: Bench) -> None:
    """Its stack at Heat has no policy for user data, and the tag of the settings only."""
    body = {"template": hot({"a": server(user_data="then")}), "stack_name": "s", "tags": "murano"}
    async with Session(bench.heat.stub.url, PasswordCredential("ann", "pw", "demo")) as by_hand:
        await by_hand.request("orchestration", "POST", "/stacks", json=body)
    before = bench.ids()
    await bench.stacks.update(P, "s", hot({"a": server(user_data="now")}))
    assert bench.ids() == before
    assert bench.heat.changes == ["POST", f"PUT {ROOT}/s/{bench.heat.stacks['s'].id}"]


async def test_a_policy_that_a_template_gives_itself_is_its_own(bench: Bench) -> None:
    """Who asks Heat to replace a machine for its user data is asked; the data are not shown."""
    policy = {"user_data_update_policy": "REPLACE", "name": "w"}
    await bench.stacks.create(P, "s", hot({"a": server(user_data="secret one", **policy)}))
    new = hot({"a": server(user_data="secret two", **policy)})
    assert await bench.refused(new) == [
        "replaces machine w, its data is lost: user data as it was → another"
    ]


async def test_a_template_is_read_as_it_was_given(bench: Bench) -> None:
    """What Vetro adds for Heat is not seen, neither in templates nor in tags; unchanged, nothing is asked."""
    await bench.stacks.create(P, "s", hot({"a": server(user_data="x")}), tags=["murano"])
    found = await bench.stacks.get(P, "s")
    assert found is not None
    assert (found.template, found.tags) == (hot({"a": server(user_data="x")}), ["murano"])
    again = await bench.stacks.update(P, "s", found.template, tags=["murano"])
    assert again.template == found.template
    assert bench.heat.changes == ["POST"]


async def test_what_depends_on_something_that_is_replaced_is_named(bench: Bench) -> None:
    """A key pair is made anew, and each machine that has it: also in groups and nested templates."""
    await bench.stacks.create(P, "s", hot(WHOLE), files=FILES)
    new = hot({**WHOLE, "key": of("OS::Nova::KeyPair", name="other")})
    texts = await bench.refused(new, files=FILES)
    why = ", its data is lost: key pair key → depends on key"
    assert texts == [f"replaces machine {name}{why}" for name in ("db-1", "m-0", "m-1", "web-1")]
    before = bench.ids()
    keys = [f"machine {name}" for name in ("db-1", "m-0", "m-1", "web-1")]
    assert await bench.refused(new, keys, files=FILES) == []
    changed = {path for path, id_ in bench.ids().items() if id_ != before[path]}
    assert changed == {"key", "web", "many.0", "many.1", "db.vm"}


async def test_a_preview_that_takes_a_name_for_the_id_of_before_is_not_believed(
    bench: Bench,
) -> None:
    """A key pair is called as its resource is; Heat's preview does not see that its machines go with it."""
    web = server(name="w", key_name={"get_resource": "key"})
    await bench.stacks.create(P, "s", hot({"key": of("OS::Nova::KeyPair", name="key"), "web": web}))
    stack, new = bench.heat.stacks["s"], hot({"key": of("OS::Nova::KeyPair", name="x"), "web": web})
    preview = bench.heat.preview(stack, {**stack.body, "template": new})
    assert "web" not in {one["resource_name"] for one in preview["replaced"]}
    assert await bench.refused(new) == [
        "replaces machine w, its data is lost: key pair key → depends on key"
    ]


async def test_a_host_name_that_changes_is_named_with_both(bench: Bench) -> None:
    """Vetro's classes call the resource by its host name: one goes, another one like it comes."""
    await bench.stacks.create(P, "s", hot({"a": server(name="a")}))
    assert await bench.refused(hot({"b": server(name="b")})) == [
        "replaces machine a, its data is lost: host name a → b"
    ]


async def test_what_leaves_the_template_is_named(bench: Bench) -> None:
    """Machines, volumes and addresses as people know them; a port's address goes with its machine."""
    await bench.stacks.create(P, "s", hot(WHOLE), files=FILES)
    made = bench.heat.stacks["s"].made
    made["port"].attributes["device_id"] = made["web"].id
    number = made["outside"].attributes["floating_ip_address"]
    left = {name: WHOLE[name] for name in ("net", "sub", "group", "key")}
    assert await bench.refused(hot(left)) == [
        "removes machine db-1, its data is lost",
        "removes machine m-0, its data is lost",
        "removes machine m-1, its data is lost",
        "removes machine web-1, its data is lost",
        "removes volume data, its data is lost",
        f"removes volume {made['db.disk'].attributes['name']}, its data is lost",
        f"removes address {number}",
    ]
    small = {**WHOLE, "many": of("OS::Heat::ResourceGroup", **{
        **WHOLE["many"]["properties"], "count": 1,
    })}  # fmt: skip
    assert await bench.refused(hot(small), files=FILES) == ["removes machine m-1, its data is lost"]


async def test_what_a_removal_would_lose_is_what_the_update_is_refused_for(bench: Bench) -> None:
    """Asked before, for each part of a template: also members of groups and of nested templates."""
    whole = {**WHOLE, **MORE, "alone": of("OS::Neutron::Port", network={"get_resource": "net"})}
    await bench.stacks.create(P, "s", hot(whole), files=FILES)
    made = bench.heat.stacks["s"].made
    made["port"].attributes["device_id"] = made["web"].id
    for names in (
        ["many"],
        ["db"],
        ["outside", "alone"],
        ["web", "attached", "port", "outside"],
        [*whole],
    ):
        left = {one: body for one, body in whole.items() if one not in names}
        asked = [one.text for one in await bench.stacks.would_lose(P, "s", names)]
        assert asked
        wanted = hot(left or MORE)
        assert asked == await bench.refused(wanted, files=FILES)
        assert asked == [one.text for one in await bench.stacks.would_lose_with(P, "s", wanted)]
    assert await bench.stacks.would_lose(P, "s", ["net", "absent"]) == []
    assert await bench.stacks.would_lose(P, "absent", ["web"]) == []
    assert await bench.stacks.would_lose_with(P, "absent", hot(whole)) == []


async def test_the_address_of_a_port_that_no_machine_was_made_for_is_named(bench: Bench) -> None:
    """Others answer on it. That of a port for a machine is nobody's without the machine."""
    port = of("OS::Neutron::Port", network={"get_resource": "net"})
    other = of(
        "OS::Neutron::Port",
        network={"get_resource": "net"},
        allowed_address_pairs=[
            {"ip_address": {"get_attr": ["shared", "fixed_ips", 0, "ip_address"]}}
        ],
    )
    whole = {
        "net": of("OS::Neutron::Net"),
        "shared": port,
        "other": other,
        "web": server(name="w", networks=[{"port": {"get_resource": "other"}}]),
    }
    await bench.stacks.create(P, "s", hot(whole))
    made = bench.heat.stacks["s"].made
    (address,) = made["shared"].attributes["fixed_ips"]
    lost = f"removes address {address['ip_address']}"
    assert await bench.refused(hot({"net": whole["net"]})) == [
        "removes machine w, its data is lost",
        lost,
    ]
    made["web"].state = ""
    assert await bench.refused(hot({"net": whole["net"]})) == [lost]


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("OS::Neutron::Pool", {"vip": {"address": "10.0.0.9"}}),
        ("OS::Neutron::LBaaS::LoadBalancer", {"vip_address": "10.0.0.9"}),
        ("OS::Octavia::LoadBalancer", {"vip_address": "10.0.0.9", "name": "lb"}),
        ("AWS::ElasticLoadBalancing::LoadBalancer", {}),
    ],
)
async def test_a_load_balancer_is_called_one(
    bench: Bench, kind: str, attributes: dict[str, Any]
) -> None:
    """Its virtual address is named beside it; what it consists of is not."""
    await bench.stacks.create(P, "s", hot({"lb": of(kind, name="lb"), **MORE}))
    made = bench.heat.stacks["s"].made
    made["lb"].attributes = attributes
    if kind.startswith("AWS"):
        made["lb"].nested = "s-lb/id"
        made["lb.LB_instance"] = Made("AWS::EC2::Instance", "id", "s-lb/id")
    removed = ["removes load balancer lb", "removes address 10.0.0.9"][: 1 + bool(attributes)]
    assert await bench.refused(hot(MORE)) == removed
    said = await bench.refused(hot({"lb": of(kind, name="lb", subnet_id="other"), **MORE}))
    assert [one.partition(":")[0] for one in said] == [
        one.replace("removes", "replaces") for one in removed
    ]


async def test_what_is_retained_is_not_lost(bench: Bench) -> None:
    """A volume that outlives its stack may leave the template, and the stack may be removed."""
    disk = {**of("OS::Cinder::Volume", size=1, name="data"), "deletion_policy": "Retain"}
    await bench.stacks.create(P, "s", hot({"disk": disk, **MORE}))
    assert await bench.refused(hot(MORE)) == []
    await bench.stacks.update(P, "s", hot({"disk": disk, **MORE}))
    assert await bench.stacks.delete(P, "s", may_lose=[]) is None


async def test_removing_a_stack_names_all_that_it_has(bench: Bench) -> None:
    """A guarded removal is refused before it begins; what is named may go, and without a guard all may."""
    await bench.stacks.create(
        P, "s", hot({"a": server(name="w"), "d": of("OS::Cinder::Volume", name="v")})
    )
    with pytest.raises(LossRefused, match="removes machine w, its data is lost; removes volume v"):
        await bench.stacks.delete(P, "s", may_lose=["machine other"])
    assert "s" in bench.heat.stacks
    assert await bench.stacks.delete(P, "s", may_lose=["machine w", "volume v"]) is None
    await bench.stacks.create(P, "s", hot({"a": server(name="w")}))
    assert await bench.stacks.delete(P, "s") is None
    assert bench.heat.stacks == {}


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ([{"ip_address": "10.0.0.200"}], [{"ip_address": "10.0.0.201"}], ["10.0.0.200"]),
        ([{"ip_address": "10.0.0.200"}], [{"ip_address": "10.0.0.200"}, {"subnet": "b"}], []),
        ([{"ip_address": "10.0.0.200"}], [], []),
    ],
)
async def test_a_port_that_changes_its_address_in_place(
    bench: Bench, old: list[Any], new: list[Any], lost: list[str]
) -> None:
    """An address that is given up is named; Heat leaves those of a port whose list becomes empty."""
    await bench.stacks.create(
        P, "s", hot({"p": of("OS::Neutron::Port", network="n", fixed_ips=old)})
    )
    bench.heat.stacks["s"].made["p"].attributes["device_id"] = "somebody's"
    texts = await bench.refused(hot({"p": of("OS::Neutron::Port", network="n", fixed_ips=new)}))
    assert [one.split(":")[0] for one in texts] == [f"replaces address {one}" for one in lost]


async def test_a_port_that_is_made_anew_with_its_address_loses_none(bench: Bench) -> None:
    """It has another network, and asks for the address that it had; without asking, the address is named."""
    for wish, lost in (([{"ip_address": "10.0.0.9"}], 0), ([{"subnet": "x"}], 1)):
        port = {"fixed_ips": wish}
        await bench.stacks.create(P, "s", hot({"p": of("OS::Neutron::Port", network="a", **port)}))
        bench.heat.stacks["s"].made["p"].attributes["device_id"] = "somebody's"
        assert (
            len(await bench.refused(hot({"p": of("OS::Neutron::Port", network="b", **port)})))
            == lost
        )
        await bench.stacks.delete(P, "s")


async def test_a_machine_that_leaves_a_network_names_its_address(bench: Bench) -> None:
    """An interface without a port of the template comes and goes with the list of networks."""
    networks = [{"network": "x", "fixed_ip": "10.1.1.1"}, {"network": "y"}]
    await bench.stacks.create(P, "s", hot({"a": server(name="w", networks=networks)}))
    texts = await bench.refused(hot({"a": server(name="w", networks=[{"network": "z"}])}))
    assert [one.split(":")[0] for one in texts] == [
        "removes address 10.1.1.1",
        "removes address of w in y",
    ]


GROUP = "OS::Heat::AutoScalingGroup"


async def scaling(bench: Bench, **more: Any) -> dict[str, Any]:
    """A stack with a group that only Heat writes out, of one machine: its template."""
    template = hot({"g": of(GROUP, min_size=1, resource=server(name="x")), **more})
    await bench.stacks.create(P, "s", template)
    made = bench.heat.stacks["s"].made
    made["g"].nested = "s-g/nested"
    made["g.abc"] = Made(SERVER, "vm-abc", "s-g/nested", attributes={"name": "s-g-abc"})
    return template


async def test_a_group_that_cannot_be_seen_into_is_refused_with_that(bench: Bench) -> None:
    """Its machines are named when the group changes, and not when something else does."""
    await scaling(bench)
    same = of(GROUP, min_size=1, resource=server(name="x"))
    assert await bench.refused(hot({"g": same, **MORE})) == []
    await bench.stacks.delete(P, "s")
    await scaling(bench)
    other = of(GROUP, min_size=1, resource=server(name="x", flavor="large"))
    assert await bench.refused(hot({"g": other})) == [
        "replaces machine s-g-abc, its data is lost: definition of g the present one →"
        " another one (Heat does not show what becomes of its members)"
    ]
    assert await bench.refused(hot(MORE)) == ["removes machine s-g-abc, its data is lost"]


async def test_a_member_whose_stack_nothing_leads_to_is_not_passed_over(bench: Bench) -> None:
    """A Heat whose answers do not link a nested stack: what is below the resource is judged with it."""
    await scaling(bench)
    bench.heat.stacks["s"].made["g"].nested = ""
    same = of(GROUP, min_size=1, resource=server(name="x"))
    assert await bench.refused(hot({"g": same, **MORE})) == []
    assert await bench.refused(hot(MORE)) == ["removes machine s-g-abc, its data is lost"]


async def test_what_a_stack_in_a_stack_of_its_own_has_is_named_by_its_template(
    bench: Bench,
) -> None:
    """Heat does not list the resources of `OS::Heat::Stack`: it may be in another region."""
    inner = hot({"vm": server(name="far", user_data="x"), "disk": of("OS::Cinder::Volume", size=1)})
    await bench.stacks.create(P, "s", hot({"st": of("OS::Heat::Stack", template=inner), **MORE}))
    made = bench.heat.stacks["s"].made
    made["st"].type, made["st"].nested = "OS::Heat::Stack", ""
    del made["st.vm"], made["st.disk"]
    assert await bench.refused(hot(MORE)) == [
        "removes machine far, its data is lost",
        "removes volume st.disk, its data is lost",
    ]
    inner["resources"]["vm"] = server(name="far", user_data="y", key_name="k")
    assert await bench.refused(hot({"st": of("OS::Heat::Stack", template=inner), **MORE})) == [
        "replaces machine far, its data is lost: key pair none → k"
    ]


async def test_a_type_by_another_name_is_what_it_stands_for(bench: Bench) -> None:
    """Heat lists the name that the environment of the stack gives a type."""
    environment = json.dumps({"resource_registry": {"My::Machine": SERVER}})
    mine = {**server(name="w"), "type": "My::Machine"}
    await bench.stacks.create(P, "s", hot({"a": mine, **MORE}), environment=environment)
    bench.heat.stacks["s"].made["a"].type = "My::Machine"
    texts = await bench.refused(hot(MORE), environment=environment)
    assert texts == ["removes machine w, its data is lost"]


async def test_a_type_whose_schema_heat_does_not_give_is_made_anew_by_any_change(
    bench: Bench,
) -> None:
    """A database's machine of another service: Heat says that it is replaced, and nothing says otherwise."""
    kind = "OS::Trove::Instance"
    await bench.stacks.create(P, "s", hot({"a": of(kind, name="db", size=1)}))
    texts = await bench.refused(hot({"a": of(kind, name="db", size=2)}))
    assert texts == ["replaces machine db, its data is lost: size 1 → 2"]


async def test_a_template_that_only_heat_understands_is_compared_as_it_stands(bench: Bench) -> None:
    """With a parameter that a function uses all that uses functions counts as changed, nothing else."""
    strange = {"yaql_of_tomorrow": [{"get_param": "p"}]}
    web, plain = server(name="w", key_name={"get_param": "p"}), server(name="v", key_name="k")

    def template(**more: Any) -> dict[str, Any]:
        outputs = {"o": {"value": {"get_attr": ["nobody", "x"]}}}
        return hot({"w": web, "v": plain, **more}, parameters={"p": {}}, outputs=outputs)

    await bench.stacks.create(P, "s", template(), parameters={"p": "a"})
    assert (
        await bench.refused(template(x=of("OS::Heat::Value", value=strange)), parameters={"p": "a"})
        == []
    )
    said = {"replaced": [{"resource_name": "w"}], "updated": [{"resource_name": "v"}]}
    place = f"PUT {ROOT}/s/{bench.heat.stacks['s'].id}/preview"
    bench.heat.says(place, (200, {"resource_changes": said}))
    texts = await bench.refused(template(), parameters={"p": "b"})
    assert [one.split(",")[0] for one in texts] == ["replaces machine w"]


@pytest.mark.parametrize(
    ("status", "state", "named"),
    [
        ("UPDATE_FAILED", "ERROR", True),
        ("UPDATE_FAILED", "ACTIVE", False),
        ("UPDATE_FAILED", "", False),
        ("CREATE_FAILED", "ERROR", False),
        ("CHECK_FAILED", "ACTIVE", True),
    ],
)
async def test_a_machine_in_trouble(bench: Bench, status: str, state: str, named: bool) -> None:
    """One that Heat makes anew because of its state is named; one that never ran, or is gone, is no loss."""
    template = hot({"a": server(name="w")})
    await bench.stacks.create(P, "s", template)
    stack = bench.heat.stacks["s"]
    stack.status = "UPDATE_FAILED"
    stack.made["a"].status, stack.made["a"].state = status, state
    assert bool(await bench.refused(template)) is named


async def test_two_machines_of_one_name_are_told_apart(bench: Bench) -> None:
    """By their resources: a request that lets one go does not let the other one go."""
    await bench.stacks.create(P, "s", hot({"a": server(name="w"), "b": server(name="w"), **MORE}))
    assert await bench.refused(hot({"b": server(name="w"), **MORE})) == [
        "removes machine w (a), its data is lost"
    ]


async def test_while_another_operation_goes_on_nothing_is_judged(bench: Bench) -> None:
    """What that one leaves is not known yet: the stack is busy."""
    await bench.stacks.create(P, "s", hot({"a": server()}))
    bench.heat.stacks["s"].status = "UPDATE_IN_PROGRESS"
    with pytest.raises(StackBusy):
        await bench.stacks.update(P, "s", hot(MORE), may_lose=[])
    with pytest.raises(StackBusy):
        await bench.stacks.delete(P, "s", may_lose=[])


async def test_a_preview_that_heat_refuses_refuses_the_update(bench: Bench) -> None:
    """With Heat's words, and nothing was changed."""
    await bench.stacks.create(P, "s", hot({"a": server()}))
    place = f"PUT {ROOT}/s/{bench.heat.stacks['s'].id}/preview"
    bench.heat.says(place, (400, {"error": {"message": "Property x"}}))
    with pytest.raises(TemplateError, match="Property x"):
        await bench.stacks.update(P, "s", hot(MORE), may_lose=[])
    assert bench.heat.changes == ["POST"]


async def test_without_a_guard_heat_is_not_asked_what_it_would_do(bench: Bench) -> None:
    """A request without our field behaves as the original API says."""
    await bench.stacks.create(P, "s", hot({"a": server(key_name="a")}))
    await bench.stacks.update(P, "s", hot({"a": server(key_name="b")}))
    assert bench.heat.previews == 0


async def test_a_stack_that_somebody_else_made_is_not_touched(bench: Bench) -> None:
    """One of the same name, made by hand: nothing reads, changes or removes it, and the name is taken."""
    body = {"template": hot({"a": server()}), "stack_name": "s", "tags": "mine"}
    async with Session(bench.heat.stub.url, PasswordCredential("ann", "pw", "demo")) as by_hand:
        await by_hand.request("orchestration", "POST", "/stacks", json=body)
    before = bench.ids()
    assert await bench.stacks.get(P, "s") is None
    assert await bench.stacks.head(P, "s") is None
    assert await bench.stacks.lost(P, "s") == []
    with pytest.raises(StackOfSomebodyElse, match="did not make.*--tags vetro"):
        await bench.stacks.create(P, "s", hot(MORE))
    with pytest.raises(StackOfSomebodyElse):
        await bench.stacks.plan(P, "s", hot(MORE))
    with pytest.raises(StackNotFound):
        await bench.stacks.update(P, "s", hot(MORE))
    assert await bench.stacks.delete(P, "s") is None
    assert await bench.stacks.delete(P, "s", may_lose=[]) is None
    assert bench.ids() == before
    assert bench.heat.changes == ["POST"]


async def test_a_creation_whose_refusal_is_lost_does_not_adopt_the_stack(bench: Bench) -> None:
    """Heat's answer that the name is taken gets lost; the stack that is found then is somebody else's."""
    async with Session(bench.heat.stub.url, PasswordCredential("ann", "pw", "demo")) as by_hand:
        body = {"template": hot({"a": server()}), "stack_name": "s"}
        await by_hand.request("orchestration", "POST", "/stacks", json=body)
    bench.heat.says(f"POST {ROOT}", (503, None))
    with pytest.raises(StackOfSomebodyElse):
        await bench.stacks.create(P, "s", hot(MORE))


CHANGES = st.sampled_from(
    ["name", "image", "flavor", "key_name", "user_data", "metadata", "config_drive", "removed"]
)


@st.composite
def _histories(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A template and what becomes of it: servers, ports, key pairs and volumes that use each other."""
    old: dict[str, Any] = {
        "key": of("OS::Nova::KeyPair", name="key"),
        "net": of("OS::Neutron::Net"),
    }
    for number in range(draw(st.integers(1, 4))):
        uses = draw(st.sampled_from(["key", "net", "value", ""]))
        key = {"get_resource": "key"} if uses == "key" else "k"
        port = of("OS::Neutron::Port", network={"get_resource": "net"})
        one = server(
            name=f"n{number}", key_name=key, networks=[{"port": {"get_resource": f"p{number}"}}]
        )
        if uses == "value":
            one["properties"]["availability_zone"] = {"get_attr": [f"v{number}", "zone"]}
        old |= {
            f"p{number}": port,
            f"s{number}": one,
            f"v{number}": of("OS::Cinder::Volume", size=1),
        }
    new = json.loads(json.dumps(old))
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(sorted(old)))
        how = draw(CHANGES)
        if name not in new:
            continue
        if how == "removed" and name[0] == "s":
            del new[name]
        elif how == "user_data" and name[0] == "s":
            new[name]["properties"]["user_data"] = {"get_resource": "key"}
        elif name[0] in "ks":
            new[name]["properties"][how if name[0] == "s" else "name"] = "other"
        elif name[0] == "v":
            new[name]["properties"]["snapshot_id" if how == "image" else "size"] = 2
    return hot(old), hot(new)


@given(_histories())
def test_what_heat_makes_anew_was_named(history: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Whatever changes: an update that was not refused keeps every machine and volume; what is named goes."""
    old, new = history
    asyncio.run(_names_what_goes(old, new))


async def _names_what_goes(old: dict[str, Any], new: dict[str, Any]) -> None:
    async with benched() as bench:
        await bench.stacks.create(P, "s", old)
        before = dict(servers(bench.heat.stacks["s"]))
        named: set[str] = set()
        try:
            await bench.stacks.update(P, "s", new, may_lose=[])
        except LossRefused as error:
            named = {one.resource for one in error.losses}
            await bench.stacks.update(P, "s", new, may_lose=[one.key for one in error.losses])
        after = bench.ids()
        gone = {name for name, id_ in before.items() if after.get(name) != id_}
        over = {
            name
            for name in before
            if name in new["resources"] and new["resources"][name]["properties"]["image"] != "linux"
        }
        attributes = {
            name for name in before if "availability_zone" in old["resources"][name]["properties"]
        }
        machines = {name for name in named if name[0] == "s"}
        assert gone <= machines, (gone, named)
        assert machines <= gone | over | attributes, (gone, named)


async def test_a_range_of_shared_addresses_is_named(bench: Bench) -> None:
    """A subnet of machines alone is not."""
    shared = of("OS::Neutron::Subnet", network={"get_resource": "net"}, cidr="10.99.0.0/24")
    await bench.stacks.create(P, "s", hot({**WHOLE, "AllowedAddressPairsSubnet-ip": shared}))
    assert await bench.refused(hot(WHOLE)) == ["removes address 10.99.0.0/24"]
    changed = {**shared, "properties": {**shared["properties"], "cidr": "10.98.0.0/24"}}
    assert await bench.refused(hot({**WHOLE, "AllowedAddressPairsSubnet-ip": changed})) == [
        "replaces address 10.99.0.0/24: cidr 10.99.0.0/24 → 10.98.0.0/24"
    ]
