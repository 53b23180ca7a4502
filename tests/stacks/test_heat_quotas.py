"""What a cloud lets a project have, from services that answer, refuse or are not there."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.openstack.stub import Answer, Stub, serving

from vetro.http import Principal
from vetro.openstack import KeystonePlace, OpenstackSection
from vetro.stacks.heat import CloudQuota, QuotasByRegion

CALLER = Principal("u1", "ann", "p1", token="t")
COMPUTE = {
    "totalInstancesUsed": 3, "maxTotalInstances": 10, "totalCoresUsed": 5, "maxTotalCores": 20,
    "totalRAMUsed": 2048, "maxTotalRAMSize": -1, "maxServerMeta": 128,
}  # fmt: skip
VOLUMES = {
    "totalVolumesUsed": 1, "maxTotalVolumes": 4, "totalGigabytesUsed": 7,
    "maxTotalVolumeGigabytes": 1000,
}  # fmt: skip


def answering(answer: Answer) -> Callable[[dict[str, str], Any], Answer]:
    """A service that always answers the same."""

    def given(_headers: dict[str, str], _body: object) -> Answer:
        return answer

    return given


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    """A cloud with all services, which answers as the real ones do."""
    async with serving() as found:
        found.keystone("compute", "volumev3", "network")
        answers: dict[str, Any] = {
            "GET /compute/limits": {"limits": {"rate": [], "absolute": COMPUTE}},
            "GET /volumev3/limits": {"limits": {"rate": [], "absolute": VOLUMES}},
            "GET /network/v2.0/quotas/p1/details.json": {
                "quota": {"floatingip": {"used": 2, "limit": 50, "reserved": 0}}
            },
        }
        for call, body in answers.items():
            found.answers[call] = answering((200, body))
        yield found


def quotas_at(stub: Stub, **section: object) -> QuotasByRegion:
    """The quotas of a service whose regions are made by Heat, unless it says otherwise."""
    given: dict[str, Any] = {"stacks": "heat", **section}
    return QuotasByRegion(OpenstackSection(**given), KeystonePlace(stub.url))


async def test_the_numbers_of_a_cloud_have_the_names_of_our_resources(stub: Stub) -> None:
    """Used and limit of each, as the services of that region count them; native regions have none."""
    found, warnings = await quotas_at(stub, regions={"home": "native"}).usage(CALLER, None)
    assert found == {
        "instances": CloudQuota(3, 10), "cores": CloudQuota(5, 20), "memory": CloudQuota(2048, -1),
        "volumes": CloudQuota(1, 4), "disk": CloudQuota(7, 1000), "addresses": CloudQuota(2, 50),
    }  # fmt: skip
    assert not warnings
    asked = len(stub.asked)
    assert await quotas_at(stub, regions={"home": "native"}).usage(CALLER, "home") == ({}, ())
    assert len(stub.asked) == asked


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (403, {"forbidden": {"message": "not for you"}}, "not for you"),
        (200, {"limits": {"absolute": {"maxTotalCores": None}}}, "an odd answer"),
        (200, {"limits": "none"}, "an odd answer"),
    ],
)
async def test_a_service_that_refuses_is_a_warning(
    stub: Stub, status: int, body: object, words: str
) -> None:
    """It says whose quotas are missing and why; those of the other services are there."""
    stub.answers["GET /compute/limits"] = answering((status, body))
    found, (warning,) = await quotas_at(stub).usage(CALLER, None)
    assert sorted(found) == ["addresses", "disk", "volumes"]
    assert warning.startswith("The quotas of instances could not be read: ")
    assert words in warning


async def test_a_service_that_the_cloud_has_not_limits_nothing(stub: Stub) -> None:
    """A cloud without volumes: no numbers, and nothing to warn of."""
    stub.keystone("compute", "network")
    found, warnings = await quotas_at(stub).usage(CALLER, None)
    assert sorted(found) == ["addresses", "cores", "instances", "memory"]
    assert not warnings
