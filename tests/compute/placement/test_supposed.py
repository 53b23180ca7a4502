"""Questions to the allocator that suppose other VMs to be gone, or to be there, and reserve nothing."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert
from tests.compute.conftest import NODE, OTHER, PROJECT
from tests.compute.placement.test_neighbours import asked as in_network
from tests.compute.placement.test_neighbours import network, places, ready
from tests.compute.placement.test_quotas import asked, limit, room, used

from vetro.compute.allocation.capacity import CapacityRule, unreserved
from vetro.compute.allocation.record import Record
from vetro.compute.allocation.reservations import relieved
from vetro.compute.tables import tickets
from vetro.storage import ManualClock

GIB = 2**30
LARGE = 40_000
"""MiB: a node has room for one of this size, not for two."""
NOBODY = ["0d2c2ae8-7ba5-4b2d-9d3f-000000000001"]
"""A VM that is not there."""


@pytest.fixture
def clock() -> ManualClock:
    """Time that stands still: however slow a machine is, nodes stay alive."""
    return ManualClock()


def question(memory: int = LARGE, **more: Any) -> dict[str, Any]:
    """A request that holds nothing."""
    return {**asked(memory), "reserve": False, **more}


def on_node(memory: int = LARGE) -> dict[str, Any]:
    """A VM that is supposed to be on the node."""
    return {"server": NODE, "vm": asked(memory)["vm"]}


async def test_the_room_of_a_vm_that_is_supposed_to_be_gone_is_free(any_world: Any) -> None:
    """Only in this answer: the next question, and the next reservation, count it again."""
    world = any_world
    await room(world)
    held = asked(LARGE)
    await world.ok("POST", "/allocate", held)
    gone = [held["vm"]["vm_uuid"]]
    before = await world.ok("POST", "/capacity", {})
    placed = await world.ok("POST", "/allocate", question(without=gone))
    assert placed["server"]["uuid"] == NODE
    assert placed["steps"]
    assert (await world.call("POST", "/allocate", question(60_000, without=gone))).status == 409
    assert (await world.call("POST", "/allocate", question(without=NOBODY))).status == 409
    assert (await world.call("POST", "/allocate", asked(LARGE))).status == 409
    assert await world.ok("POST", "/capacity", {}) == before
    assert (await used(world))["instances"] == 1


async def test_a_vm_that_is_supposed_to_be_there_takes_its_room(any_world: Any) -> None:
    """Two that would go to the place of one are not both told that they may."""
    world = any_world
    await room(world)
    held = asked(LARGE)
    await world.ok("POST", "/allocate", held)
    gone = [held["vm"]["vm_uuid"]]
    status, _, message = await world.refused(
        "POST", "/allocate", question(without=gone, beside=[on_node()])
    )
    assert status == 409
    assert "resources" in message
    await world.ok("POST", "/allocate", question(10_000, without=gone, beside=[on_node()]))
    await world.ok("POST", "/allocate", question(without=gone))


async def test_the_ticket_of_a_vm_that_is_supposed_to_be_gone_holds_no_room(any_world: Any) -> None:
    """A VM that is about to be made is announced by a ticket, which goes with it."""
    world = any_world
    await room(world)
    vm, now = str(uuid.uuid4()), world.database.clock.now()
    extra = {"owner_uuid": PROJECT, "max_physical_memory": LARGE, "cpu_cap": 100, "brand": "lx"}
    async with world.database.transaction() as tx:
        await tx.execute(
            insert(tickets).values(
                uuid=str(uuid.uuid4()), server_uuid=NODE, scope="vm", id=vm, action="provision",
                status="active", extra={**extra, "quota": 1}, fence=1, created=now, updated=now,
                expires_at=now + timedelta(hours=1),
            )
        )  # fmt: skip
    assert (await world.call("POST", "/allocate", question(without=NOBODY))).status == 409
    await world.ok("POST", "/allocate", question(without=[vm]))
    assert (await world.call("POST", "/allocate", question(without=NOBODY))).status == 409


async def test_quotas_suppose_the_same(any_world: Any) -> None:
    """What is gone is given back, what would be there is counted; VMs of others give nothing."""
    world = any_world
    await room(world)
    await limit(world, instances=2, memory=1024)
    mine, other = asked(800), asked(800)
    other["vm"]["owner_uuid"] = PROJECT[::-1]
    for one in (mine, other):
        await world.ok("POST", "/allocate", one)
    gone, foreign = [mine["vm"]["vm_uuid"]], [other["vm"]["vm_uuid"]]
    for body, said in (
        (question(1000), "800 of 1024 MiB used, 1000 more requested"),
        (question(1000, without=foreign), "800 of 1024 MiB used, 1000 more requested"),
        (question(1100, without=gone), "0 of 1024 MiB used, 1100 more requested"),
        (question(600, without=gone, beside=[on_node(600)]), "600 of 1024 MiB used, 600 more"),
    ):
        status, code, message = await world.refused("POST", "/allocate", body)
        assert (status, code) == (403, "QuotaExceeded")
        assert said in message
    await world.ok("POST", "/allocate", question(1000, without=gone))
    await world.ok("POST", "/allocate", question(500, without=gone, beside=[on_node(500)]))


async def test_a_network_is_not_where_a_vm_is_that_is_supposed_to_be_gone(any_world: Any) -> None:
    """The only VM of a network on a server that no other one reaches keeps its successor nowhere."""
    world = any_world
    await ready(world, NODE, "192.0.2.1")
    await ready(world, OTHER, "127.0.0.1")
    net = await network(world)
    held = await in_network(world, net, servers=[OTHER])
    assert await places(world, [held]) == [OTHER]
    ask = await in_network(world, net, servers=[NODE], reserve=False)
    assert (await world.call("POST", "/allocate", ask)).status == 409
    assert await places(world, [{**ask, "without": [held["vm"]["vm_uuid"]]}]) == [NODE]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"without": "all"}, "without"),
        ({"without": ["x"]}, "without"),
        ({"beside": {}}, "beside"),
        ({"beside": [{"server": NODE}]}, "beside"),
        ({"beside": [{"server": "x", "vm": {}}]}, "beside"),
        ({"beside": [{"server": NODE, "vm": {"ram": 1}}]}, "vm"),
        ({"without": [NODE], "reserve": True}, "reserve"),
        ({"beside": [on_node()], "reserve_seconds": 5}, "reserve"),
    ],
)
async def test_what_cannot_be_supposed_is_refused(world: Any, more: Any, field: str) -> None:
    """Also together with a reservation: room is held for what is, not for what might be."""
    await room(world)
    answer = await world.call("POST", "/allocate", question(100, **more))
    assert answer.status == 500
    body = answer.json()
    assert body["code"] == "InvalidParameters"
    assert any(field in one["field"] for one in body["errors"]), body
    assert (await used(world))["instances"] == 0


@pytest.mark.parametrize("brand", ["lx", "kvm"])
def test_the_disk_of_a_vm_that_is_supposed_to_be_gone_is_free(brand: str) -> None:
    """Its quota counts no more; what others have written does."""
    vm = {"brand": brand, "quota": 60, "max_physical_memory": 512, "cpu_cap": 100}
    disk = {
        "disk_pool_size_bytes": 100 * GIB,
        "disk_pool_alloc_bytes": 70 * GIB,
        "disk_zone_quota_bytes": (80 if brand == "lx" else 20) * GIB,
        "disk_zone_quota_used_bytes": (70 if brand == "lx" else 20) * GIB,
        "disk_kvm_zvol_volsize_bytes": (0 if brand == "lx" else 60) * GIB,
        "disk_kvm_zvol_used_bytes": (0 if brand == "lx" else 50) * GIB,
    }
    record = Record({"uuid": NODE, "sysinfo": {}, "vms": {"a": vm, "b": vm}, **disk})
    left = Record(relieved(record, {"a"}))
    rule = CapacityRule((1.0, 1.0, 1.0), 0, "in_order")
    assert [*left.vms] == ["b"]
    assert unreserved(left, rule)[2] - unreserved(record, rule)[2] >= 50 * 1024
    assert unreserved(left, rule)[2] <= 94 * 1024 - 20 * 1024
