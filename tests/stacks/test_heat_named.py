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
