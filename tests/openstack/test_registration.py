"""Vetro's services in a real Keystone's catalog."""

import pytest
from tests.openstack.cloud import Cloud

from vetro.server.registration import register

pytestmark = pytest.mark.openstack


async def test_registered_services_are_found_by_every_user(cloud: Cloud) -> None:
    """A member's token names Vetro's services after the registration, and not after its removal."""
    async with cloud.session() as admin:
        added = [one async for one in register(admin, "http://127.0.0.1:8082", "RegionOne")]
        assert len(added) == 12
        async with cloud.session("demo") as member:
            assert await member.endpoint("application-catalog") == "http://127.0.0.1:8082"
        assert [one async for one in register(admin, "http://127.0.0.1:8082", "RegionOne")] == []
        async for _line in register(admin, "http://127.0.0.1:8082", "RegionOne", remove=True):
            pass
        async with cloud.session("demo") as member:
            assert await member.regions("application-catalog") == []
