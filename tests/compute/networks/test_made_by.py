"""What has no uuid of its own bears the mark of who made it: others neither make it again nor remove it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.compute.conftest import IMAGE, PROJECT, World


@dataclass
class Relation:
    """How a kind of relation is made, removed and seen. ``mark``: a body's members."""

    make: Callable[[dict[str, str]], Awaitable[int]]
    remove: Callable[[dict[str, str]], Awaitable[Any]]
    is_there: Callable[[], Awaitable[bool]]


def _query(mark: dict[str, str]) -> str:
    return "".join(f"&{key}={value}" for key, value in mark.items())


async def key_pair(world: World) -> Relation:
    path, body = "/keypairs/k", {"public_key": "ssh-ed25519 A", "project_id": PROJECT}
    there = f"{path}?project_id={PROJECT}"

    async def make(mark: dict[str, str]) -> int:
        return (await world.call("PUT", path, {**body, **mark})).status

    async def is_there() -> bool:
        return (await world.call("GET", there)).status == 200

    return Relation(make, lambda mark: world.call("DELETE", there + _query(mark)), is_there)


async def _network(world: World) -> tuple[str, str]:
    network = await world.ok("POST", "/networks", {"name": "n", "project_id": PROJECT})
    body = {"network_uuid": network["uuid"], "cidr": "10.9.0.0/24", "project_id": PROJECT}
    return network["uuid"], (await world.ok("POST", "/subnets", body))["uuid"]


async def interface(world: World) -> Relation:
    _, subnet = await _network(world)
    router = (await world.ok("POST", "/routers", {"project_id": PROJECT}))["uuid"]
    path = f"/routers/{router}/interfaces/{subnet}"

    async def make(mark: dict[str, str]) -> int:
        return (await world.call("PUT", path, mark)).status

    async def is_there() -> bool:
        return subnet in (await world.ok("GET", f"/routers/{router}"))["subnets"]

    return Relation(make, lambda mark: world.call("DELETE", f"{path}?{_query(mark)}"), is_there)


async def way_of_address(world: World) -> Relation:
    network, _ = await _network(world)
    port = await world.ok("POST", "/ports", {"network_uuid": network, "project_id": PROJECT})
    path = f"/floating-ips/{(await world.ok('POST', '/floating-ips', {}))['uuid']}"

    async def make(mark: dict[str, str]) -> int:
        return (await world.call("PUT", path, {"port_uuid": port["uuid"], **mark})).status

    async def is_there() -> bool:
        return (await world.ok("GET", path))["port_uuid"] == port["uuid"]

    return Relation(
        make, lambda mark: world.call("PUT", path, {"port_uuid": None, **mark}), is_there
    )


async def attachment(world: World) -> Relation:
    vm = await world.vm()
    body = {"size": 1, "source": {"kind": "image", "uuid": IMAGE}, "project_id": PROJECT}
    path = f"/volumes/{(await world.ok('POST', '/volumes', body))['uuid']}"

    async def make(mark: dict[str, str]) -> int:
        return (await world.call("POST", f"{path}/attach", {"vm_uuid": vm, **mark})).status

    async def is_there() -> bool:
        return (await world.ok("GET", path))["vm_uuid"] == vm

    return Relation(make, lambda mark: world.call("POST", f"{path}/detach", mark), is_there)


@pytest.mark.parametrize("kind", [key_pair, interface, way_of_address, attachment])
@pytest.mark.parametrize("first", [{}, {"made_by": "one"}], ids=["by-hand", "marked"])
async def test_a_mark_is_whose_it_is(
    any_world: World, kind: Callable[[World], Awaitable[Relation]], first: dict[str, str]
) -> None:
    """With the same mark a call may be repeated, with another it is refused, without one it acts."""
    relation = await kind(any_world)
    other = {"made_by": "other"}
    assert await relation.make(first) < 300
    assert await relation.make(first) < 300
    assert await relation.make(other) == 409
    await relation.remove(other)
    assert await relation.is_there()
    assert await relation.make({}) < 300  # by hand: it stays whose it is
    await relation.remove(other)
    assert await relation.is_there()
    await relation.remove({"made_by": first.get("made_by", "")})
    assert not await relation.is_there()
    assert await relation.make(other) < 300
    await relation.remove(first if first else {"made_by": ""})
    assert await relation.is_there()
    await relation.remove({})
    assert not await relation.is_there()
