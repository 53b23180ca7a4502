"""The real OpenStack that ``make openstack`` starts, and stubs for what it cannot be made to do."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Installation

from vetro.openstack import Session

from .cloud import Cloud
from .stub import Stub, serving

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
def vetro(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A Vetro whose users are the cloud's and whose stacks are Heat's, with a package of tests."""
    directory = tmp_path_factory.mktemp("openstack")
    installation = Installation(directory, driver="simulated", **on_openstack(cloud))
    installation.start()
    installation.run("package", "import", package(directory, "Network", NETWORK))
    yield installation
    installation.stop()
