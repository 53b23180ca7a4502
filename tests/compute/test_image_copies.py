"""Images come to nodes before they are needed, and everybody can see how far they are; their tags."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update
from tests.compute.conftest import IMAGE, NODE, OTHER, TIME_PASSES, MakeWorld, World

from vetro.compute import MIGRATIONS
from vetro.compute.tables import images, instances
from vetro.compute.vms.image_store import file_name
from vetro.compute.work.agents import NodeTaskError
from vetro.storage import Database, migrate

SECOND = "11111111-2222-4333-8444-666666666666"


async def activate(world: World, uuid: str = IMAGE, **more: Any) -> None:
    """An image with a file."""
    await world.ok("POST", "/images", {"uuid": uuid, "name": "debian", **more})
    answer = await world.call("PUT", f"/images/{uuid}/file", content=b"a root file system")
    assert answer.status == 200, answer.text


async def until(world: World, uuid: str = IMAGE, **states: str) -> dict[str, dict[str, Any]]:
    """The copies of an image, by host name, once they are in these states."""
    version = ""
    while True:
        found = await world.ok(
            "GET", f"/images/{uuid}/copies", params={"version": version, "timeout": 60}
        )
        version = found["version"]
        copies = {one["hostname"]: one for one in found["copies"]}
        if {name: one["state"] for name, one in copies.items()} == {
            name.replace("_", "-"): state for name, state in states.items()
        }:
            return copies


def prefetches(world: World) -> list[tuple[str, str]]:
    """Who was asked to fetch what."""
    return [
        (agent.server_uuid, call.params["image_uuid"])
        for agent, call in zip(world.nodes.agents, world.nodes.calls, strict=True)
        if call.task == "image_prefetch"
    ]


async def test_every_node_fetches_a_new_image_also_one_that_comes_later(
    make_world: MakeWorld,
) -> None:
    """Each node fetches it once; a later node gets the list of nodes that have the file."""
    world = await make_world(prefetch_images="all")
    await world.server()
    await activate(world)
    await until(world, node_1="present")
    await world.server(OTHER)
    await until(world, node_1="present", node_2="present")
    await world.server()  # registers again: it has it
    assert prefetches(world) == [(NODE, IMAGE), (OTHER, IMAGE)]
    assert world.nodes.last("image_prefetch").params["imgapiPeers"]
    (row,) = await world.ok("GET", "/images")
    assert row["nodes"] == {"present": 2, "coming": 0, "percent": None}


@pytest.mark.parametrize(
    ("policy", "expected"), [("all", {IMAGE, SECOND}), ("public", {IMAGE}), ("none", set[str]())]
)
async def test_the_policy_says_which_images(
    make_world: MakeWorld, policy: str, expected: set[str]
) -> None:
    """All, those that everybody may use, or none; private ones are fetched like others with "all"."""
    world = await make_world(prefetch_images=policy)
    await activate(world)
    await activate(world, SECOND, name="private", public=False)
    await world.server()
    for uuid in expected:
        await until(world, uuid, node_1="present")
    assert not await world.service.copies.look()
    assert {image for _, image in prefetches(world)} == expected
    if policy == "none":
        assert (await world.ok("GET", f"/images/{IMAGE}/copies"))["policy"] == "none"


@TIME_PASSES
async def test_only_the_newest_image_of_a_name_is_fetched(make_world: MakeWorld) -> None:
    """A node that comes later does not fetch what newer ones have replaced."""
    world = await make_world(prefetch_images="all")
    await activate(world)
    await activate(world, SECOND)
    await world.server()
    await until(world, SECOND, node_1="present")
    assert prefetches(world) == [(NODE, SECOND)]


async def test_a_wait_that_a_closing_service_ends_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is 503 with a body, as documented, whatever was waited for."""
    await world.image()

    async def closing(_request: object, waiting: Coroutine[Any, Any, Any]) -> None:
        waiting.close()

    monkeypatch.setattr(world.service, "until_closing", closing)
    for path in (f"/images/{IMAGE}/copies", f"/tickets/{SECOND}/wait"):
        status, code, message = await world.refused("GET", path)
        assert (status, code) == (503, "ServiceUnavailable")
        assert message == "The service is closing: ask again"


async def test_users_see_how_many_and_operators_where(make_world: MakeWorld) -> None:
    """What the node says is shown; which machines there are is for operators."""
    world = await make_world()
    await world.server()
    await activate(world)
    told = {"images": {IMAGE: {"state": "unpacking", "percent": 42}, SECOND: {"state": "present"}}}
    path = f"/servers/{NODE}/events/images"
    assert (
        await world.call("POST", path, told, token="", headers=world.key_of(NODE))
    ).status == 204
    shown = await world.ok("GET", f"/images/{IMAGE}", token="user")
    assert shown["nodes"] == {"present": 0, "coming": 1, "percent": 42}
    assert (await world.refused("GET", f"/images/{IMAGE}/copies", token="user"))[0] == 403
    assert (await until(world, node_1="unpacking"))["node-1"]["percent"] == 42
    stranger = await world.call("POST", path, told, token="", headers=world.key_of(OTHER))
    assert stranger.status in (401, 403)
    # The fetch was interrupted: the record no longer says that it is under way.
    await world.ok("POST", path, {"images": {}}, token="", headers=world.key_of(NODE))
    assert (await world.ok("GET", f"/images/{IMAGE}"))["nodes"]["coming"] == 0


async def test_a_node_without_room_says_so_and_is_not_asked_again_at_once(
    make_world: MakeWorld,
) -> None:
    """The image is skipped there with the node's reason; others get it."""
    world = await make_world(prefetch_images="all")
    full = NodeTaskError("4000 MiB are needed", {"restCode": "NoRoomForImage"})

    def fetch(call: Any) -> Any:
        return full if call.params["server_uuid"] == NODE else {}

    world.nodes.answers["image_prefetch"] = fetch
    await world.server()
    await world.server(OTHER)
    await activate(world)
    copies = await until(world, node_1="skipped", node_2="present")
    assert copies["node-1"]["reason"] == "4000 MiB are needed"
    assert await world.service.copies.look()  # later
    assert len(prefetches(world)) == 2


async def test_a_node_that_was_killed_meanwhile_fetches_again(make_world: MakeWorld) -> None:
    """The connection was lost; when the node registers again, it is asked again."""
    world = await make_world(prefetch_images="all")
    world.nodes.answers["image_prefetch"] = NodeTaskError("the agent broke off")
    await world.server()
    await activate(world)
    await until(world, node_1="interrupted")
    del world.nodes.answers["image_prefetch"]
    await world.server()
    await until(world, node_1="present")


async def test_an_image_deleted_meanwhile_does_not_stay_on_nodes(make_world: MakeWorld) -> None:
    """One node has it, another is about to: both give it up."""
    world = await make_world(prefetch_images="all")
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow() -> dict[str, Any]:
        begun.set()
        await go.wait()
        return {}

    def fetch(call: Any) -> Any:
        return slow() if call.params["server_uuid"] == OTHER else {}

    world.nodes.answers["image_prefetch"] = fetch
    deleted = asyncio.Queue[str]()

    def delete(call: Any) -> dict[str, Any]:
        deleted.put_nowait(str(call.params["server_uuid"]))
        return {}

    world.nodes.answers["image_delete"] = delete
    await world.server()
    await world.server(OTHER)
    await activate(world)
    await until(world, node_1="present", node_2="fetching")
    await begun.wait()
    await world.call("DELETE", f"/images/{IMAGE}")
    assert await deleted.get() == NODE
    go.set()
    assert await deleted.get() == OTHER


async def test_an_image_that_a_node_collected_is_not_fetched_for_nothing(
    make_world: MakeWorld,
) -> None:
    """An image unused for long is fetched only when it is needed."""
    world = await make_world(prefetch_images="all")
    await world.server()
    await activate(world)
    await until(world, node_1="present")
    await world.service.copies.take(NODE, {})
    await until(world, node_1="removed")
    await world.server()
    assert not await world.service.copies.look()
    assert prefetches(world) == [(NODE, IMAGE)]


async def test_two_services_ask_a_node_once(make_world: MakeWorld) -> None:
    """Both look at once; and one file that two images have is kept once."""
    first = await make_world(prefetch_images="all")
    second = await make_world(prefetch_images="all")
    await first.server()
    await activate(first)
    await asyncio.gather(*(one.service.copies.look() for one in (first, second) for _ in range(3)))
    await until(first, node_1="present")
    assert len(prefetches(first)) + len(prefetches(second)) == 1
    await activate(first, SECOND)
    kept = (first.service.images.blobs.directory / file_name(uuid) for uuid in (IMAGE, SECOND))
    assert len({path.stat().st_ino for path in kept}) == 1
    await first.call("DELETE", f"/images/{IMAGE}")
    assert (await first.call("GET", f"/images/{SECOND}/file")).content == b"a root file system"


async def test_the_removal_of_an_image_survives_the_service(
    database_url: str, tmp_path: Path, world_on: Any
) -> None:
    """A service that stops before the node has answered leaves the task to another, under its key."""
    database = await Database.open(database_url, data_dir=tmp_path)
    await migrate(database, [MIGRATIONS])
    sent = asyncio.Event()

    async def never(_call: Any) -> None:
        sent.set()
        await asyncio.Event().wait()

    async with world_on(database, tmp_path, prefetch_images="all") as first:
        first.nodes.answers["image_delete"] = never
        await first.server()
        await activate(first)
        await until(first, node_1="present")
        await first.call("DELETE", f"/images/{IMAGE}")
        await sent.wait()
        key = first.nodes.last("image_delete").key
    async with world_on(database, tmp_path, prefetch_images="all") as second:
        await second.server()
        async with database.transaction() as tx:
            await tx.execute(delete(instances).where(instances.c.name == first.service.instance))
        await second.service.takeover.take_over()
        assert (await second.ended(key))["status"] == "complete"
        (call,) = [one for one in second.nodes.calls if one.task == "image_delete"]
        assert (call.key, call.params["image_uuid"]) == (key, IMAGE)
    await database.close()


async def test_tags_are_added_to_an_image_of_the_own_project(make_world: MakeWorld) -> None:
    """Those that it has stay; another project's image, users and values that are no text are refused."""
    world = await make_world()
    await activate(world, tags={"kept": "a"})
    path, body = f"/images/{IMAGE}/tags", {"tags": {"kept": "b", "new": "c"}}
    assert (await world.ok("POST", path, body))["tags"] == {"kept": "a", "new": "c"}
    assert (await world.ok("GET", f"/images/{IMAGE}"))["state"] == "active"
    for wrong in ({"tags": {"new": 1}}, {"tags": "x"}, {}):
        status, code, _ = await world.refused("POST", path, wrong)
        assert (status, code) == (500, "InvalidParameters")
    assert (await world.refused("POST", f"/images/{SECOND}/tags", body))[0] == 404
    assert (await world.refused("POST", path, body, token="user"))[0] == 403
    async with world.database.transaction() as tx:
        await tx.execute(update(images).values(owner_uuid="another"))
    status, _, said = await world.refused("POST", path, {"tags": {"more": "d"}})
    assert status == 403
    assert "another project" in said
    assert "more" not in (await world.ok("GET", f"/images/{IMAGE}"))["tags"]


async def test_tags_of_an_image_are_replaced_and_removed_on_request(make_world: MakeWorld) -> None:
    """With ``replace`` a tag gets the new text, and one whose value is null is gone; others stay."""
    world = await make_world()
    await activate(world, tags={"kept": "a", "changed": "b", "gone": "c"})
    body = {"tags": {"changed": "d", "gone": None}, "replace": True}
    changed = await world.ok("POST", f"/images/{IMAGE}/tags", body)
    assert changed["tags"] == {"kept": "a", "changed": "d"}
    refused = {"tags": {"gone": None}}
    assert (await world.refused("POST", f"/images/{IMAGE}/tags", refused))[0] == 500
