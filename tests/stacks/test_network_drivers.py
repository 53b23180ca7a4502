"""Which networks new environments get, by what the service catalog of their cloud has."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.openstack.stub import Stub, serving

from vetro.http import Principal
from vetro.openstack import KeystonePlace, OpenstackSection
from vetro.stacks.heat import NetworkDrivers

CALLER = Principal("u1", "ann", "p1", token="t")


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    """A Keystone."""
    async with serving() as found:
        yield found


def drivers_at(stub: Stub, **section: object) -> NetworkDrivers:
    """The drivers of a service whose regions are made by Heat, unless it says otherwise."""
    given: dict[str, Any] = {"stacks": "heat", **section}
    return NetworkDrivers(OpenstackSection(**given), KeystonePlace(stub.url))


async def test_a_cloud_with_a_network_service_has_neutron_and_any_other_nova(stub: Stub) -> None:
    """Keystone is asked once for each region, as the caller; a region without the service has nova."""
    stub.keystone("compute", "network")
    drivers = drivers_at(stub)
    assert await drivers(CALLER, None) == "neutron"
    assert await drivers(CALLER, "RegionTwo") == "nova"
    asked = len(stub.asked)
    assert await drivers(CALLER, None) == "neutron"
    assert await drivers(CALLER, "RegionTwo") == "nova"
    assert len(stub.asked) == asked
    stub.keystone("compute")
    assert await drivers_at(stub)(CALLER, None) == "nova"


async def test_regions_whose_stacks_are_native_have_neutron(stub: Stub) -> None:
    """Nobody is asked."""
    assert await drivers_at(stub, regions={"home": "native"})(CALLER, "home") == "neutron"
    assert stub.asked == []


async def test_a_keystone_that_fails_keeps_nobody_from_composing(stub: Stub) -> None:
    """Then it is neutron, and the next environment asks again."""
    drivers = drivers_at(stub)
    assert await drivers(CALLER, None) == "neutron"
    stub.keystone("compute")
    assert await drivers(CALLER, None) == "nova"
