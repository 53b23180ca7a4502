"""The real OpenStack that ``make openstack`` starts, and stubs for what it cannot be made to do."""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Installation

from vetro.openstack import Session
from vetro.stacks.heat import HeatStacks

from .cloud import Cloud
from .proxy import Proxy, proxied
from .stub import Stub, serving

OTHER_REGION = "RegionTwo"
#: The project, which Heat takes from the session.
P = "p"
NETWORK = """
heat_template_version: 2013-05-23
parameters:
  cidr: {type: string, default: 10.72.0.0/24}
resources:
  net: {type: OS::Neutron::Net}
  sub:
    type: OS::Neutron::Subnet
    properties: {network: {get_resource: net}, cidr: {get_param: cidr}}
outputs:
  range: {value: {get_attr: [sub, cidr]}}
"""
WAITING_RESOURCES = {
    "handle": {"type": "OS::Heat::WaitConditionHandle"},
    "wait": {
        "type": "OS::Heat::WaitCondition",
        "properties": {"handle": {"get_resource": "handle"}, "timeout": 600},
    },
}
WAITING = json.dumps(
    {
        "heat_template_version": "2013-05-23",
        "resources": {
            **WAITING_RESOURCES,
            "after": {"type": "OS::Neutron::Net", "depends_on": "wait"},
        },
    }
)


@pytest.fixture(scope="session")
def cloud() -> Cloud:
    """The cloud of ``VETRO_TEST_OPENSTACK``."""
    given = os.environ.get("VETRO_TEST_OPENSTACK")
    if not given:
        pytest.skip("VETRO_TEST_OPENSTACK is not set; tools/with-openstack.sh sets it")
    return Cloud(Path(given))


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    """A server that answers as the test says."""
    async with serving() as one:
        yield one


@pytest.fixture
async def session(cloud: Cloud) -> AsyncIterator[Session]:
    """The member of the project demo."""
    async with cloud.session("demo") as one:
        yield one


@pytest.fixture
def heat(session: Session) -> HeatStacks:
    """Heat for that member."""
    return HeatStacks(session)


@pytest.fixture
async def name(heat: HeatStacks) -> AsyncIterator[str]:
    """A name for a stack, which is removed after the test."""
    chosen = f"t{secrets.token_hex(4)}"
    yield chosen
    assert await heat.delete(P, chosen) is None


@pytest.fixture(scope="session")
def heat_proxy(cloud: Cloud) -> Iterator[Proxy]:
    """The cloud's second region: its Heat is the first one's behind a proxy, its Neutron the same."""
    place = asyncio.run(_places(cloud, "orchestration", "network"))
    heat = place["orchestration"].partition("/v1")
    with proxied(heat[0]) as proxy:
        path = "/v1/%(tenant_id)s"
        second = {"orchestration": proxy.url + path, "network": place["network"]}
        asyncio.run(_second_region(cloud, second))
        yield proxy
        asyncio.run(_second_region(cloud, {}))


async def _places(cloud: Cloud, *types: str) -> dict[str, str]:
    async with cloud.session() as session:
        return {one: await session.endpoint(one) for one in types}


async def _second_region(cloud: Cloud, urls: Mapping[str, str]) -> None:
    async with cloud.session() as admin:
        found = await admin.request("identity", "GET", f"/regions/{OTHER_REGION}", absent=(404,))
        if found is None:
            region = {"region": {"id": OTHER_REGION}}
            await admin.request("identity", "POST", "/regions", json=region)
        old = await listed(admin, "identity", "/endpoints", region_id=OTHER_REGION)
        for one in old["endpoints"]:
            await admin.request("identity", "DELETE", f"/endpoints/{one['id']}")
        for type_, url in urls.items():
            services = await listed(admin, "identity", "/services", type=type_)
            body = {
                "service_id": services["services"][0]["id"],
                "interface": "public",
                "region_id": OTHER_REGION,
                "url": url,
            }
            await admin.request("identity", "POST", "/endpoints", json={"endpoint": body})


def of(kind: str, **properties: Any) -> dict[str, Any]:
    """A resource of a type."""
    return {"type": kind, "properties": properties}


async def listed(session: Session, service: str, path: str, **params: str) -> Any:
    """What a service answers to a GET."""
    answer = await session.request(service, "GET", path, params=params or None)
    assert answer is not None
    return answer.json()


async def stacks_of(session: Session, environment: str) -> list[dict[str, Any]]:
    """The stacks of an environment."""
    # Heat lists a stack for a moment after its deletion.
    return [
        one
        for one in (await listed(session, "orchestration", "/stacks"))["stacks"]
        if one["stack_name"].endswith(environment) and one["stack_status"] != "DELETE_COMPLETE"
    ]


def package(directory: Path, name: str, template: str) -> str:
    """A folder with a Heat package."""
    folder = directory / name
    folder.mkdir()
    (folder / "manifest.yaml").write_text(
        f"Format: Heat.HOT/1.0\nType: Application\nFullName: test.{name}\nName: {name}\n"
        "Version: 1.0.0\nDescription: of tests\nAuthor: nobody\nTags: [net]\n"
    )
    (folder / "template.yaml").write_text(template)
    return str(folder)


def on_openstack(cloud: Cloud, **more: str) -> dict[str, str]:
    """The environment of an installation whose users are the cloud's, used by its member demo."""
    return {
        **cloud.openrc("demo"),
        "VETRO_IDENTITY_URL": cloud.url,
        "VETRO_IDENTITY_SERVICE_USER": "service",
        "VETRO_IDENTITY_SERVICE_PASSWORD": cloud.openrc()["OS_PASSWORD"],
        "VETRO_IDENTITY_REGION": "RegionOne",
        "VETRO_IDENTITY_CACHE_SECONDS": "2",
        "VETRO_OPENSTACK_STACKS": "heat",
        "VETRO_NETWORK_EXTERNAL_NETWORK": "public",
        "VETRO_NETWORK_ROUTER_NAME": "router",
        **more,
    }


@pytest.fixture(scope="session")
def vetro(
    cloud: Cloud, heat_proxy: Proxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """A Vetro whose users are the cloud's and whose stacks are Heat's, with packages of tests."""
    directory = tmp_path_factory.mktemp("openstack")
    installation = Installation(directory, driver="simulated", **on_openstack(cloud))
    installation.start()
    for name, template in (("Network", NETWORK), ("Waiting", WAITING)):
        installation.run("package", "import", package(directory, name, template))
    yield installation
    installation.stop()
