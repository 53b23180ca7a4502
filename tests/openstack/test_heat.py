"""Stacks at a real Heat. Its services are real; the servers exist only on paper: no guest runs in them."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from vetro.stacks import (
    DependencyCycle,
    InvalidProperty,
    StackBusy,
    StackError,
    StackStatus,
    UnresolvedReference,
    UnsupportedResource,
)
from vetro.stacks.heat.back_end import HeatStacks
from vetro.stacks.heat.directory import NeutronDirectory

from .cloud import Cloud
from .conftest import P

pytestmark = pytest.mark.openstack


def hot(resources: dict[str, Any], outputs: dict[str, Any] | None = None) -> dict[str, Any]:
    """A template of these resources and output values."""
    found = {name: {"value": value} for name, value in (outputs or {}).items()}
    return {"heat_template_version": "2013-05-23", "resources": resources, "outputs": found}


def network(cidr: str = "10.71.0.0/24") -> dict[str, Any]:
    """A network with a subnet."""
    return {
        "net": {"type": "OS::Neutron::Net", "properties": {"name": "n", "shared": None}},
        "sub": {
            "type": "OS::Neutron::Subnet",
            "properties": {"network": {"get_resource": "net"}, "cidr": cidr},
        },
    }


TEXT = {"type": "OS::Heat::RandomString"}


@pytest.fixture
async def name(heat: HeatStacks) -> AsyncIterator[str]:
    """A name for a stack, which is removed after the test."""
    chosen = f"t{secrets.token_hex(4)}"
    yield chosen
    await heat.delete(P, chosen)


async def test_a_stack_is_made_changed_and_removed(heat: HeatStacks, name: str) -> None:
    """Create, update and delete settle with statuses, outputs and times; progress names resources."""
    said: list[str] = []
    assert await heat.get(P, name) is None
    template = hot(network(), {"cidr": {"get_attr": ["sub", "cidr"]}})
    made = await heat.create(P, name, template, tags=["murano"], timeout=600, progress=said.append)
    assert (made.status, made.outputs) == (StackStatus.CREATE_COMPLETE, {"cidr": "10.71.0.0/24"})
    assert any("create" in one for one in said)
    found = await heat.get(P, name)
    assert found is not None
    assert found.tags == ["murano"]
    assert found.template["resources"]["sub"] == template["resources"]["sub"]
    assert {one.status for one in found.resources.values()} == {StackStatus.CREATE_COMPLETE}
    # As it is already: nothing reaches Heat.
    same = await heat.update(P, name, template, tags=["murano"])
    again = await heat.head(P, name)
    assert again is not None
    assert (same.status, again.updated) == (StackStatus.UPDATE_COMPLETE, None)
    changed = await heat.update(P, name, hot({"net": template["resources"]["net"]}, {"x": "y"}))
    assert (changed.status, changed.outputs) == (StackStatus.UPDATE_COMPLETE, {"x": "y"})
    assert changed.updated is not None
    assert await heat.delete(P, name) is None
    assert await heat.head(P, name) is None
    assert await heat.delete(P, name) is None


async def test_a_failure_names_the_resource_and_the_reason(heat: HeatStacks, name: str) -> None:
    """A port outside its subnet fails the stack with its name and Neutron's words; then it is mended."""
    port = {
        "type": "OS::Neutron::Port",
        "depends_on": ["sub"],
        "properties": {
            "network": {"get_resource": "net"},
            "fixed_ips": [{"ip_address": "192.0.2.9"}],
        },
    }
    failed = await heat.create(P, name, hot(network() | {"port": port}))
    assert failed.status is StackStatus.CREATE_FAILED
    assert failed.failure is not None
    assert failed.failure.resource == "port"
    assert "192.0.2.9" in failed.failure.text
    assert failed.reason.startswith("Resource 'port' failed: ")
    assert (await heat.update(P, name, hot(network()))).status is StackStatus.UPDATE_COMPLETE


@pytest.mark.parametrize(
    ("resources", "kind"),
    [
        ({"a": {"type": "OS::No::Thing"}}, UnsupportedResource),
        ({"a": {"type": "OS::Neutron::Net", "properties": {"nam": 1}}}, InvalidProperty),
        ({"a": {**TEXT, "depends_on": "b"}}, UnresolvedReference),
        ({"a": {**TEXT, "depends_on": "b"}, "b": {**TEXT, "depends_on": "a"}}, DependencyCycle),
    ],
)
async def test_a_template_that_heat_refuses(
    heat: HeatStacks, name: str, resources: dict[str, Any], kind: type[StackError]
) -> None:
    """What is wrong with a template is said with the error of the native back end; nothing is made."""
    with pytest.raises(kind):
        await heat.create(P, name, hot(resources))
    assert await heat.head(P, name) is None


async def test_operations_side_by_side(heat: HeatStacks, name: str) -> None:
    """A name that is taken is busy, to be looked at again."""
    await heat.create(P, name, hot({"a": TEXT}))
    with pytest.raises(StackBusy):
        await heat.create(P, name, hot({"a": TEXT}))


async def test_a_stack_that_is_deleted_behind_our_back(heat: HeatStacks, name: str) -> None:
    """An operation on it ends with what happened and what to do; then it can be created again."""
    never = {"type": "OS::Heat::WaitConditionHandle"}
    waits = {
        "type": "OS::Heat::WaitCondition",
        "properties": {"handle": {"get_resource": "h"}, "timeout": 600},
    }
    async with asyncio.TaskGroup() as group:
        seen = asyncio.Event()

        def told(text: str) -> None:
            if "create w" in text:
                seen.set()

        making = group.create_task(
            _outcome(heat.create(P, name, hot({"h": never, "w": waits}), progress=told))
        )
        await seen.wait()
        await heat.delete(P, name)
    outcome = making.result()
    assert isinstance(outcome, StackError), outcome
    assert "deleted at Heat by somebody else" in str(outcome)
    assert (await heat.create(P, name, hot({"a": TEXT}))).status is StackStatus.CREATE_COMPLETE


async def _outcome(work: Any) -> Any:
    try:
        return await work
    except StackError as error:
        return error


async def test_the_networks_that_there_are(cloud: Cloud) -> None:
    """Routers, gateways, ranges and extensions are Neutron's (core-library.md §4.8)."""
    async with cloud.session("demo") as session:
        project = await session.project_id()
        directory = NeutronDirectory(session)
        router = await directory.default_router(
            project, name="router", create=False, external_network="public"
        )
        nets = {one["name"]: one for one in await directory.list_networks(project)}
        public, private = nets["public"]["id"], nets["private"]["id"]
        assert await directory.router_cidrs(project, router) == ["10.0.0.0/24"]
        assert await directory.external_network_for_router(project, router) == public
        assert await directory.external_network_for_network(project, private) == public
        assert await directory.external_network_for_network(project, public) == public
        assert {"id", "network_id", "fixed_ips"} <= (await directory.list_ports(project))[0].keys()
        assert (await directory.list_subnetworks(project))[0]["cidr"] == "10.0.0.0/24"
        known = {one["alias"] for one in await directory.list_neutron_extensions(project)}
        assert {"router", "security-group"} <= known
        with pytest.raises(KeyError, match="Router none was not found"):
            await directory.default_router(
                project, name="none", create=False, external_network="public"
            )
