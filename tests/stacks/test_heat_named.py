"""What templates at Heat name: in other words it is the same, and what is not there costs no machine."""

from __future__ import annotations

from typing import Any

import pytest

from vetro.stacks import TemplateError

from .paper_heat import PaperHeat
from .test_heat_kept import P, benched, hot, of, server

IMAGE, OTHER, NET, SUB, GROUP = (f"0d2c2ae8-7ba5-4b2d-9d3f-00000000000{n}" for n in range(5))


def cloud(heat: PaperHeat) -> None:
    """One with an image, a flavor, a key pair and a network."""
    heat.stub.keystone("orchestration", "compute", "image", "network")
    heat.says("GET /compute/flavors", (200, {"flavors": [{"id": "7", "name": "small"}]}))
    heat.says("GET /compute/os-keypairs", (200, {"keypairs": [{"keypair": {"name": "mine"}}]}))
    images = [{"id": IMAGE, "name": "linux"}, {"id": OTHER, "name": "other"}]
    heat.says("GET /image/v2/images", (200, {"images": images}))
    heat.says(f"GET /image/v2/images/{IMAGE}", (200, images[0]))
    heat.says(f"GET /image/v2/images/{OTHER}", (200, images[1]))
    for path, id_ in (("networks", NET), ("subnets", SUB), ("security-groups", GROUP)):
        rows = [{"id": id_, "name": "shop"}]
        heat.says(f"GET /network/v2.0/{path}", (200, {path.replace("-", "_"): rows}))


SAME: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "image": (server(name="web"), server(name="web", image=IMAGE)),
    "image and policy": (
        server(image_update_policy="REPLACE"),
        server(image=IMAGE, image_update_policy="REPLACE"),
    ),
    "flavor": (
        server(flavor_update_policy="REPLACE"),
        server(flavor="7", flavor_update_policy="REPLACE"),
    ),
    "networks": (
        server(networks=[{"network": "shop", "subnet": "shop"}]),
        server(networks=[{"uuid": NET, "subnet": SUB}]),
    ),
    "port": (
        of("OS::Neutron::Port", network="shop", security_groups=["shop"]),
        of("OS::Neutron::Port", network_id=NET, security_groups=[GROUP]),
    ),
    "an address that is not asked for any more": (
        of("OS::Neutron::Port", network=NET, fixed_ips=[{"subnet": SUB, "ip_address": "10.0.0.7"}]),
        of("OS::Neutron::Port", network=NET, fixed_ips=[{"subnet_id": SUB}]),
    ),
    "floating address": (
        of("OS::Neutron::FloatingIP", floating_network="shop"),
        of("OS::Neutron::FloatingIP", floating_network_id=NET),
    ),
    "volume": (
        of("OS::Cinder::Volume", size=1, image="linux"),
        of("OS::Cinder::Volume", size=1, image=IMAGE),
    ),
    "instance": (
        of("AWS::EC2::Instance", ImageId="linux", InstanceType="small", SubnetId="shop"),
        of("AWS::EC2::Instance", ImageId=IMAGE, InstanceType="7", SubnetId=SUB),
    ),
}


async def test_what_is_named_by_its_id_instead_of_its_name_is_not_asked_for() -> None:
    """Nor the other way round; to ask for an address of a port is another matter."""
    async with benched() as bench:
        cloud(bench.heat)
        for case, pair in SAME.items():
            for before, after in (pair, pair[:: -1 if "address that" not in case else 1]):
                bench.heat.stacks.clear()
                await bench.stacks.create(P, "s", hot({"it": before}))
                assert await bench.refused(hot({"it": after})) == [], case


async def test_where_the_services_cannot_say_it_is_asked() -> None:
    """A cloud without an image service, or one that fails: the words count, as they did."""
    async with benched() as bench:
        before, after = SAME["image"]
        await bench.stacks.create(P, "s", hot({"it": before}))
        assert await bench.refused(hot({"it": after}))
        await bench.stacks.update(P, "s", hot({"it": after}), may_lose=["machine web"])


async def test_another_image_is_asked_for_by_its_name_and_by_its_id() -> None:
    """What differs is written over, whatever the words."""
    async with benched() as bench:
        cloud(bench.heat)
        await bench.stacks.create(P, "s", hot({"web": server(name="web")}))
        for image in ("other", OTHER):
            (said,) = await bench.refused(hot({"web": server(name="web", image=image)}))
            assert said == f"replaces machine web, its data is lost: image linux → {image}"


@pytest.mark.parametrize("renamed", [False, True])
async def test_an_agreed_replacement_by_what_is_not_there_is_not_sent(renamed: bool) -> None:
    """The text names the resource and what is missing; nothing was asked of Heat that changes anything."""
    absent = "0d2c2ae8-7ba5-4b2d-9d3f-00000000000f"
    cases: dict[str, dict[str, Any]] = {
        "image 'absent'": {"image": "absent"},
        f"image '{absent}'": {"image": absent},
        "flavor 'absent'": {"flavor": "absent", "flavor_update_policy": "REPLACE"},
        "key pair 'absent'": {"key_name": "absent"},
        "network 'absent'": {"networks": [{"network": "absent"}], "image": "other"},
        "subnet 'absent'": {"networks": [{"subnet": "absent"}], "image": "other"},
    }
    async with benched() as bench:
        cloud(bench.heat)
        await bench.stacks.create(P, "s", hot({"web": server(name="web")}))
        before = list(bench.heat.changes)
        for what, given in cases.items():
            wanted = hot({"web2" if renamed else "web": server(**{"name": "web", **given})})
            with pytest.raises(TemplateError, match=f"there is no {what}") as caught:
                await bench.stacks.update(P, "s", wanted, may_lose=["machine web"])
            assert caught.value.resource == ("web2" if renamed else "web")
        assert bench.heat.changes == before
        fine = hot({"web": server(name="web", key_name="mine", image="other")})
        await bench.stacks.update(P, "s", fine, may_lose=["machine web"])
        assert len(bench.heat.changes) == len(before) + 1


FREE: dict[str, Any] = {
    "metadata": {"image": "blue", "network": ["prod"], "deep": {"flavor": "sweet"}},
    "scheduler_hints": {"image": "blue", "subnet": "left"},
    "personality": {"image": "blue"},
    "value_specs": {"network": "prod", "security_groups": ["prod"]},
    "tags": [{"router": "prod"}, "network"],
}


async def test_words_in_free_maps_name_nothing() -> None:
    """A machine is replaced, and other resources come, with any words in maps that people fill.

    Quotas have numbers under the names of kinds."""
    async with benched() as bench:
        cloud(bench.heat)
        for what, free in FREE.items():
            for kind in ("OS::Nova::Server", "OS::Neutron::Port", "OS::Cinder::Volume"):
                bench.heat.stacks.clear()
                await bench.stacks.create(P, "s", hot({"web": server(name="web")}))
                wanted = {
                    "web": server(name="web", image="other", metadata={"network": "prod"}),
                    "new": of(kind, **{what: free}),
                    "limits": of("OS::Neutron::Quota", network="10", router="2"),
                }
                await bench.stacks.update(P, "s", hot(wanted), may_lose=["machine web"])


async def test_other_words_in_a_free_map_are_a_change() -> None:
    """Hints are compared as they are written, also where they are called as what names an image."""
    async with benched() as bench:
        cloud(bench.heat)
        hints = {"image": "linux"}
        await bench.stacks.create(P, "s", hot({"web": server(name="web", scheduler_hints=hints)}))
        hints = {"image": IMAGE}
        wanted = hot({"web": server(name="web", scheduler_hints=hints)})
        assert await bench.refused(wanted)


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ({"block_device_mapping_v2": [{"image": "absent"}]}, "image"),
        ({"networks": [{"uuid": "absent"}]}, "network"),
        ({"networks": [{"network": "shop", "subnet": "absent"}]}, "subnet"),
        ({"security_groups": ["shop", "absent"]}, "security group"),
    ],
)
async def test_entries_that_name_something_are_looked_at(
    entries: dict[str, Any], what: str
) -> None:
    """Disks and networks of a machine are named in maps as well."""
    async with benched() as bench:
        cloud(bench.heat)
        await bench.stacks.create(P, "s", hot({"web": server(name="web")}))
        wanted = hot({"web": server(name="web", image="other", **entries)})
        with pytest.raises(TemplateError, match=f"there is no {what} 'absent'"):
            await bench.stacks.update(P, "s", wanted, may_lose=["machine web"])


MADE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "key pair": (of("OS::Nova::KeyPair", name="made"), {"key_name": "made"}),
    "network": (of("OS::Neutron::Net", name="made"), {"networks": [{"network": "made"}]}),
    "subnet": (
        of("OS::Neutron::Subnet", name="made", network="shop", cidr="10.0.0.0/24"),
        {"networks": [{"subnet": "made"}]},
    ),
    "security group": (
        of("OS::Neutron::SecurityGroup", name="made"),
        {"security_groups": ["shop", "made"]},
    ),
    "image": (of("OS::Glance::WebImage", name="made"), {"image": "made"}),
    "flavor": (of("OS::Nova::Flavor", flavorid="made", ram=1, vcpus=1), {"flavor": "made"}),
}


@pytest.mark.parametrize("what", MADE)
async def test_what_a_template_makes_itself_is_not_looked_for(what: str) -> None:
    """A machine may name by its name what the same template makes; what nobody makes is still missed."""
    made, uses = MADE[what]
    async with benched() as bench:
        cloud(bench.heat)
        await bench.stacks.create(P, "s", hot({"web": server(name="web")}))
        web = server(**{"name": "web", "image": "other", **uses})
        with pytest.raises(TemplateError, match=f"there is no {what} 'made'"):
            await bench.stacks.update(P, "s", hot({"web": web}), may_lose=["machine web"])
        port = of("OS::Neutron::Port", network="made" if what == "network" else "shop")
        wanted = hot({"it": made, "port": port, "web": {**web, "depends_on": ["it"]}})
        await bench.stacks.update(P, "s", wanted, may_lose=["machine web"])
