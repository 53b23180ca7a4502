"""What forms choose from on a real OpenStack."""

from typing import Any

import pytest

from vetro.http import Principal
from vetro.openstack import KeystonePlace, OpenstackSection
from vetro.stacks.heat import CloudQuota, OffersByRegion, QuotasByRegion

from .cloud import Cloud

pytestmark = pytest.mark.openstack
KINDS = [
    *("flavors", "images", "keypairs", "azones", "networks", "security_groups", "volumes"),
    "dns_zones",
]


class Native:
    """The offers of regions that are Vetro's own."""

    async def offers(self, kinds: Any, principal: Principal, region: str | None) -> Any:
        """One image."""
        return {"images": [{"value": "own", "label": "own"}]}, []


async def test_forms_choose_from_the_cloud_as_their_user(cloud: Cloud) -> None:
    """Flavors, images that are marked, keys, zones, networks, groups and volumes are the user's at the
    cloud; a service that it does not have is not known; other regions offer what is Vetro's own."""
    async with cloud.session("demo") as session:
        token, project = (await session.login()).token, await session.project_id()
        key = {"keypair": {"name": "form-key"}}
        # A run before this one at the same cloud has left it.
        await session.request("compute", "POST", "/os-keypairs", json=key, absent=(409,))
        listed = await session.request("image", "GET", "/v2/images")
    assert listed is not None
    image = listed.json()["images"][0]["id"]
    async with cloud.session() as admin:
        mark = [
            {"op": "add", "path": "/murano_image_info", "value": '{"title": "A", "type": "linux"}'}
        ]
        await admin.request(
            "image",
            "PATCH",
            f"/v2/images/{image}",
            json=mark,
            headers={"Content-Type": "application/openstack-images-v2.1-json-patch"},
        )
    section = OpenstackSection(stacks="native", regions={"RegionOne": "heat"})
    offers = OffersByRegion(section, KeystonePlace(cloud.url), Native())
    caller = Principal("u", "demo", project, token=token)
    found, warnings = await offers.offers(KINDS, caller, "RegionOne")
    assert warnings == []
    shown = {kind: [one.get("label") for one in rows or []] for kind, rows in found.items()}
    assert {"m1.small", "m1.medium"} <= set(shown["flavors"])
    assert (shown["images"], (found["images"] or [{}])[0]["type"]) == (["A"], "linux")
    assert "form-key" in shown["keypairs"]
    assert shown["azones"]
    assert "default" in shown["security_groups"]
    own = [one for one in found["networks"] or [] if one["name"] == "private"]
    assert [one["cidr"] for one in own[0]["subnets"]] == ["10.0.0.0/24"]
    assert (shown["volumes"], found["dns_zones"]) == ([], None)
    elsewhere, _ = await offers.offers(["images"], caller, "home")
    assert elsewhere == {"images": [{"value": "own", "label": "own"}]}


async def test_quotas_are_those_of_the_cloud(cloud: Cloud) -> None:
    """What Nova, Cinder and Neutron count and let the user's project have, by our names."""
    async with cloud.session("demo") as session:
        token, project = (await session.login()).token, await session.project_id()
        answer = await session.request("compute", "GET", "/limits")
    assert answer is not None
    nova = answer.json()["limits"]["absolute"]
    quotas = QuotasByRegion(OpenstackSection(stacks="heat"), KeystonePlace(cloud.url))
    found, warnings = await quotas.usage(Principal("u", "demo", project, token=token), "RegionOne")
    assert (warnings, len(found)) == ([], 6)
    assert found["cores"] == CloudQuota(nova["totalCoresUsed"], nova["maxTotalCores"])
    assert found["addresses"].limit > 0
    assert found["disk"].limit > 0


async def test_a_token_that_is_not_valid_any_more_is_a_warning(cloud: Cloud) -> None:
    """A form opens without choices and says why, whatever is refused."""
    section = OpenstackSection(stacks="heat")
    offers = OffersByRegion(section, KeystonePlace(cloud.url), Native())
    caller = Principal("u", "demo", "p", token="none")
    found, warnings = await offers.offers(["images", "flavors"], caller, None)
    assert found == {"images": [], "flavors": []}
    assert "images could not be listed" in warnings[0]
