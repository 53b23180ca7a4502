"""POST /allocate over HTTP: the answer with its explanation, the answer without, and what is wrong."""

import asyncio
import uuid
from typing import Any

import pytest
from sqlalchemy import insert
from tests.compute.conftest import NODE

from vetro.compute.allocation.wording import UUID_ANY
from vetro.compute.http import placement
from vetro.compute.tables import volume_copies, volumes
from vetro.compute.values.records import DISK_KEYS
from vetro.storage import ManualClock

OWNER = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def clock() -> ManualClock:
    """Time that stands still: however slow a machine is, nodes stay alive."""
    return ManualClock()


def asked(**more: Any) -> dict[str, Any]:
    """A request for a small VM."""
    vm = {
        "vm_uuid": str(uuid.uuid4()),
        "owner_uuid": OWNER,
        "ram": 512,
        "cpu_cap": 100,
        "brand": "lx",
    }
    return {"vm": vm, "image": {}, "nic_tags": [], **more}


async def ready(world: Any, node: str = NODE) -> None:
    """Let a node have room for Linux VMs."""
    await world.server(node, **{"VM Brands": ["lx"]})
    await tell(world, node)


async def tell(world: Any, node: str = NODE) -> None:
    """Let a node report that it has room."""
    gib = 2**30
    sample = {
        "vms": {},
        "meminfo": {"total_bytes": 8 * gib, "availrmem_bytes": 8 * gib},
        "diskinfo": {**dict.fromkeys(DISK_KEYS, 0), "pool_size_bytes": 1000 * gib},
    }
    path = f"/servers/{node}/events/status"
    await world.ok("POST", path, sample, token="", headers=world.key_of(node))


async def volume_on(world: Any, node: str, owner: str = OWNER, *, snapshot: bool = False) -> str:
    """A volume that a node keeps, perhaps with a snapshot."""
    uuid_ = str(uuid.uuid4())
    common = {
        "owner_uuid": owner,
        "name": "data",
        "size_gib": 1,
        "format": "ext4",
        "state": "available",
        "reason": "",
        "server_uuid": node,
        "created": world.service.database.clock.now(),
    }
    async with world.service.database.transaction() as tx:
        await tx.execute(
            insert(volumes).values(uuid=uuid_, device="", read_only=False, metadata={}, **common)
        )
        if snapshot:
            copy = {"uuid": str(uuid.uuid4()), "kind": "snapshot", "volume_uuid": uuid_, "bytes": 0}
            await tx.execute(insert(volume_copies).values(**copy, **common))
    return uuid_


async def test_an_explanation_in_pieces_is_the_same_answer(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the answer is cut for its way, its length is told and its JSON is one."""
    await ready(world)
    answers: list[Any] = []
    for size in (1, 64, 10**6):
        monkeypatch.setattr(placement, "PIECE", size)
        answer = await world.call("POST", "/allocate", asked(seed=1))
        assert answer.status == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        assert int(answer.headers["content-length"]) == len(answer.content)
        found = answer.json()
        assert found["server"]["uuid"] == NODE
        assert UUID_ANY.match(found.pop("vm_uuid"))
        answers.append(found)
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["steps"][0] == {"step": "Received by DAPI", "remaining": [NODE]}
    assert list(answers[0]) == ["server", "steps", "imgapiPeers"]


@pytest.mark.parametrize("no", [False, "false"])
async def test_an_answer_without_explanation(world: Any, no: Any) -> None:
    """``explain`` false leaves the steps out and nothing else."""
    await ready(world)
    found = await world.ok("POST", "/allocate", asked(explain=no, reserve=True))
    assert (found["server"]["uuid"], found["steps"], found["imgapiPeers"]) == (NODE, [], [])


async def test_a_status_counts_once_it_is_written(world: Any) -> None:
    """A status whose write takes long is answered before it: until then the server has no room."""
    samples, database = world.service.samples, world.service.database
    await world.server(NODE, **{"VM Brands": ["lx"]})
    patience = samples.patience_seconds
    async with database.transaction():  # nobody else writes meanwhile
        samples.patience_seconds = 0.0
        await tell(world)
        assert len(samples) == 1
        answer = await world.call("POST", "/allocate", asked())
        assert answer.status == 409
        assert "memory_available_bytes" in answer.text
    samples.patience_seconds = patience
    async with database.transaction():
        telling = asyncio.create_task(tell(world))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not telling.done()
    await telling
    assert len(samples) == 0
    assert (await world.ok("POST", "/allocate", asked()))["server"]["uuid"] == NODE


async def test_a_reservation_of_an_odd_name_is_refused(world: Any) -> None:
    """A VM's uuid becomes a row's key: text that is not a uuid is refused before anything is chosen."""
    await ready(world)
    body = asked(reserve=True)
    body["vm"]["uuid"] = "x" * 200
    del body["vm"]["vm_uuid"]
    assert (await world.refused("POST", "/allocate", body))[:2] == (500, "InvalidParameters")
    forever = await world.refused("POST", "/allocate", asked(reserve_seconds=1e300))
    assert forever[:2] == (500, "InvalidParameters")


@pytest.mark.parametrize("named", [{}, {"uuid": str(uuid.uuid4())}, {"vm_uuid": None}])
@pytest.mark.parametrize("reserve", [False, True])
async def test_a_vm_without_its_uuid_is_refused(world: Any, named: Any, reserve: bool) -> None:
    """The service needs it: 500 with the documented words, whatever else names the VM."""
    await ready(world)
    body = asked(reserve=reserve)
    del body["vm"]["vm_uuid"]
    body["vm"].update(named)
    answer = await world.call("POST", "/allocate", body)
    assert answer.status == 500
    assert answer.json() == {
        "code": "InvalidParameters",
        "message": "Request parameters failed validation",
        "errors": [
            {"field": "vm", "code": "Invalid", "message": '"vm.vm_uuid" is an invalid UUID'}
        ],
    }


async def test_a_vm_is_placed_where_its_volumes_are(any_world: Any) -> None:
    """Most of them, its owner's only; elsewhere when there is no room, unless a snapshot binds one."""
    world, other = any_world, NODE[:-1] + "2"
    await ready(world)
    await ready(world, other)
    ours = [await volume_on(world, other), await volume_on(world, other)]
    here, foreign = await volume_on(world, NODE), await volume_on(world, NODE, NODE)

    async def chosen(wanted: list[str], **more: Any) -> list[str]:
        bodies = [asked(volumes=wanted, seed=seed, explain=False, **more) for seed in range(8)]
        found = [await world.ok("POST", "/allocate", body) for body in bodies]
        return sorted({one["server"]["uuid"] for one in found})

    assert await chosen([foreign, str(uuid.uuid4())]) == [NODE, other]
    assert await chosen([foreign, *ours]) == [other]
    assert await chosen(ours, reserve=True) == [other]
    assert await chosen([here], servers=[other]) == [other]
    bound = await volume_on(world, NODE, snapshot=True)
    assert await chosen([bound, *ours]) == [NODE]
    refused = await world.refused(
        "POST", "/allocate", asked(volumes=[bound], servers=[other], nic_tags=[])
    )
    assert refused[:2] == (409, "NoAllocatableServersError")
    assert f"volume {bound} has snapshots on server {NODE}" in refused[2]
    for wrong in ("x", ["x"], [1]):
        odd = await world.refused("POST", "/allocate", asked(volumes=wrong))
        assert odd[:2] == (500, "InvalidParameters")
