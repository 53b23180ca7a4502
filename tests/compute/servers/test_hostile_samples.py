"""What a node reports of its VMs, when a known field is of another type than it has."""

from tests.compute.conftest import NODE, World

VM = "6e0b1e0a-7f3c-4a39-9d4e-2a5b8f6c7d01"
HOSTILE = {
    "uuid": 5,
    "server_uuid": [],
    "alias": {},
    "brand": True,
    "owner_uuid": 1.5,
    "state": 7,
    "zone_state": [None],
    "last_modified": 0,
    "max_physical_memory": "much",
    "quota": True,
    "cpu_cap": {},
    "nics": [3],
    "unknown": [1],
}


async def test_fields_of_another_type_are_left_out(world: World) -> None:
    """The VM stays with its uuid, its right fields, and those that nobody here knows."""
    await world.server()
    told = {VM: HOSTILE, "whole": {"uuid": "whole", "state": "running", "nics": [{}], "quota": 1}}
    await world.ok("POST", f"/servers/{NODE}/events/status", {"vms": told})
    shown = (await world.ok("GET", f"/servers/{NODE}"))["vms"]
    assert shown[VM] == {"uuid": VM, "unknown": [1]}
    assert shown["whole"] == told["whole"]
    assert [one["uuid"] for one in await world.ok("GET", f"/servers/{NODE}/vms")]
