"""Boot parameters given back as shown, what new servers start with, and times of a sysinfo."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import update
from tests.compute.conftest import NODE, OTHER, MakeWorld, World

from vetro.compute.tables import servers


async def test_what_is_shown_of_boot_parameters_can_be_given_back(world: World) -> None:
    """The platform `latest` stands where none is kept, for the default and for a server."""
    for path in ("/boot/default", f"/boot/{NODE}"):
        shown = await world.ok("GET", path)
        assert shown["platform"] == "latest"
        assert (await world.call("POST", path, shown)).status < 300
        assert (await world.ok("GET", path))["platform"] == "latest"
    shown = await world.ok("GET", "/boot/default")
    assert (await world.call("PUT", "/boot/default", shown)).status == 204
    assert await world.ok("GET", "/boot/default") == shown
    # A server without a platform gets the newest with PUT, named or not.
    assert (await world.call("PUT", f"/boot/{NODE}", {"platform": "latest"})).status == 202
    assert (await world.ok("GET", f"/boot/{NODE}"))["platform"] == "20260101T000000Z"
    assert (await world.call("POST", f"/servers/{NODE}", {"boot_platform": "latest"})).status == 204
    assert (await world.ok("GET", f"/boot/{NODE}"))["platform"] == "latest"
    refused = await world.refused("POST", f"/servers/{NODE}", {"boot_platform": "newest"})
    assert refused[2] == "failed to find given platform image, newest"


@pytest.mark.parametrize("configured", [True, False])
async def test_the_default_mode_of_processors_is_used(
    make_world: MakeWorld, configured: bool
) -> None:
    """`SMT_ENABLED_DEFAULT`: shown with the default parameters, and what new servers start with."""
    world = await make_world(smt_enabled_default=configured)

    async def shown(server: str) -> Any:
        await world.server(server)
        return (await world.ok("GET", f"/boot/{server}"))["kernel_args"].get("smt_enabled")

    async def default() -> Any:
        return (await world.ok("GET", "/boot/default"))["kernel_args"]["smt_enabled"]

    (cnapi,) = await world.ok("GET", "/services?name=cnapi")
    assert (await default(), await shown(NODE)) == (configured, configured)
    body = {"metadata": {"SMT_ENABLED_DEFAULT": str(not configured).lower()}}
    await world.ok("PUT", f"/services/{cnapi['uuid']}", body)
    assert (await default(), await shown(OTHER)) == (not configured, not configured)
    assert await shown(NODE) is configured  # it keeps what it has
    await world.ok("PUT", f"/services/{cnapi['uuid']}", {"metadata": {"SMT_ENABLED_DEFAULT": ""}})
    assert await default() is configured
    stored = {"kernel_args": {"smt_enabled": "mine"}}
    assert (await world.call("POST", "/boot/default", stored)).status == 204
    third = NODE[:-1] + "3"
    assert (await default(), await shown(third)) == ("mine", "mine")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("1700000000", "2023-11-14T22:13:20.000Z"),
        (1700000000, "2023-11-14T22:13:20.000Z"),
        ("1700000000.123", "2023-11-14T22:13:20.123Z"),
        (1700000000.999, "2023-11-14T22:13:20.999Z"),
        (0, None),
        ("0", None),
        ("", None),
    ],
)
async def test_times_of_a_sysinfo(world: World, given: Any, read: str | None) -> None:
    """Seconds with their fraction; 0 is what a node sends for a time it does not know."""
    await world.server(OTHER, **{"Boot Time": given, "Zpool Creation": given})
    shown = await world.ok("GET", f"/servers/{OTHER}")
    assert shown["last_boot"] == read
    if read:
        assert shown["created"] == read
    else:
        assert shown["created"] > "2026"


async def test_a_record_made_in_1970_gets_its_time_with_the_next_sysinfo(world: World) -> None:
    """Nodes once sent 0 for it; a time that means something stays."""
    async with world.database.transaction() as tx:
        await tx.execute(update(servers).values(created=datetime(1970, 1, 1, tzinfo=UTC)))
    await world.server(**{"Zpool Creation": "1700000000"})
    await world.server(**{"Zpool Creation": "1800000000"})
    assert (await world.ok("GET", f"/servers/{NODE}"))["created"] == "2023-11-14T22:13:20.000Z"
