"""What is said of a machine, and what is done with its stack, after its node has fallen silent or lost it."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import update
from tests.stacks.conftest import PROJECT
from tests.stacks.test_on_compute_service import (
    NODE,
    WEB,
    Node,
    World,
    ask,
    node_face,
    register,
    report,
    served,
    template_of,
    world,
)

from vetro.compute.client import ComputeError
from vetro.compute.tables import servers
from vetro.stacks import StackStatus

__all__ = ["world"]
OTHER = NODE[:-1] + "2"


@dataclass
class Site:
    """A stack with one machine, made on a node that something happens to then."""

    world: World
    stack: AsyncExitStack
    template: dict[str, Any]
    vm: str
    spare: Node | None = None

    @property
    def node(self) -> Node:
        """The node that the machine is made on."""
        return self.world.node

    async def disks_gone(self) -> None:
        """The same node begins again with another data directory."""
        self.node.vms.clear()
        await self.register()
        await self.report()

    async def register(self) -> None:
        """The agent of the node is started (again)."""
        async with self.world.database.read() as tx:
            row = await self.world.service.servers.row(tx, NODE)
        body = {"sysinfo": row.sysinfo}
        await ask(self.world.client, "POST", f"/servers/{NODE}/sysinfo", body)

    async def report(self) -> None:
        """The node says what it has."""
        there = {uuid: {"uuid": uuid, "state": vm["state"]} for uuid, vm in self.node.vms.items()}
        await report(self.world.client, NODE, there)

    async def silent(self) -> None:
        """The node is not heard, long enough."""
        self.world.service.heartbeats.forget(NODE)
        async with self.world.database.transaction() as tx:
            mine = servers.c.uuid == NODE
            await tx.execute(update(servers).where(mine).values(status="unknown"))

    async def other_identity(self) -> None:
        """The node is gone; another one has come in its place."""
        await self.silent()
        self.spare = Node()
        port = await self.stack.enter_async_context(served(node_face(self.spare)))
        await register(self.world.client, OTHER, port)

    async def evacuated(self) -> None:
        """An operator has made sure that the node is off, and another one has room."""
        await self.other_identity()
        assert (await self.evacuate())["execution"] == "succeeded"

    async def fenced(self) -> None:
        """The same, but there was no room anywhere; there is now."""
        await self.silent()
        assert (await self.evacuate())["execution"] == "failed"
        await self.other_identity()

    async def evacuate(self) -> dict[str, Any]:
        """The job when it has ended."""
        made = await ask(self.world.client, "POST", f"/servers/{NODE}/evacuate", {"fenced": True})
        ended: dict[str, Any] = await ask(
            self.world.client, "GET", f"/jobs/{made['job_uuid']}/wait?timeout=240"
        )
        return ended

    async def deleted(self) -> None:
        """An operator has deleted the record of the node with what it had."""
        await self.other_identity()
        with pytest.raises(ComputeError, match="were not made again elsewhere"):
            await ask(self.world.client, "DELETE", f"/servers/{NODE}?force=false")
        await ask(self.world.client, "DELETE", f"/servers/{NODE}?force=true")

    async def forgotten(self) -> None:
        """As the document has it: the record of the node goes alone."""
        await self.other_identity()
        await ask(self.world.client, "DELETE", f"/servers/{NODE}")

    async def back_with(self) -> None:
        """The node was cut off for a while; its machines ran on."""
        await self.silent()
        await self.register()
        await self.report()

    async def back_without(self) -> None:
        """The node comes back and has lost its disks."""
        await self.silent()
        await self.disks_gone()

    async def destroyed_by_hand(self) -> None:
        """Somebody has destroyed the machine."""
        made = await ask(self.world.client, "DELETE", f"/servers/default/vms/{self.vm}")
        await self.world.client.ended(made["id"])

    # What is said

    async def listed(self) -> str | None:
        """The machine's state in the list of all machines."""
        for one in await ask(self.world.client, "GET", "/servers?extras=vms"):
            if self.vm in one["vms"]:
                return str(one["vms"][self.vm]["state"])
        return None

    async def shown(self) -> str | None:
        """The machine's state when it is looked at."""
        try:
            found = await ask(self.world.client, "GET", f"/servers/default/vms/{self.vm}")
        except ComputeError as error:
            assert error.status == 404
            return None
        return str(found["state"])

    def runs_on(self) -> list[str]:
        """The nodes that have the machine."""
        there = {"node": self.node, "spare": self.spare or Node()}
        return [name for name, node in there.items() if self.vm in node.vms]


@pytest.fixture
async def site(world: World, application_template: Any) -> AsyncIterator[Site]:
    """A stack with one machine that its node has reported."""
    async with AsyncExitStack() as stack:
        template = template_of(application_template)
        made = await world.stacks.create(PROJECT, "env", template)
        assert made.status is StackStatus.CREATE_COMPLETE
        [vm] = world.node.vms
        one = Site(world, stack, template, vm)
        await one.report()
        assert (await one.listed(), await one.shown()) == ("running", "running")
        yield one


@dataclass(frozen=True)
class Row:
    """What is said of the machine, what the next deployment does, and where it runs then."""

    happens: Callable[[Site], Awaitable[None]]
    listed: str | None
    shown: str | None
    altered: bool
    deploys: bool
    again: bool
    """Whether a report says that it was made again."""
    runs_on: str


TABLE = [
    Row(Site.disks_gone, "missing", "missing", True, True, True, "node"),
    Row(Site.back_without, "missing", "missing", True, True, True, "node"),
    Row(Site.back_with, "running", "running", False, True, False, "node"),
    Row(Site.silent, "unknown", "unknown", True, False, False, "node"),
    Row(Site.other_identity, "unknown", "unknown", True, False, False, "node"),
    Row(Site.evacuated, "running", "running", False, True, False, "spare"),
    Row(Site.fenced, "missing", "missing", True, True, True, "spare"),
    Row(Site.deleted, None, None, True, True, True, "spare"),
    Row(Site.forgotten, None, "missing", True, True, True, "spare"),
    Row(Site.destroyed_by_hand, None, None, True, True, True, "node"),
]


def rows(test: Any) -> Any:
    """The test with every row."""
    return pytest.mark.parametrize("row", TABLE, ids=lambda one: one.happens.__name__)(test)


@rows
async def test_a_machine_that_is_missing_is_made_again_and_a_silent_ones_is_not(
    site: Site, row: Row
) -> None:
    """Never "running" of a silent node; never success over a machine that is not there or not known."""
    before = copy.deepcopy(site.node.vms[site.vm])
    await row.happens(site)
    assert (await site.listed(), await site.shown()) == (row.listed, row.shown)
    stacks = site.world.stacks
    assert (await stacks.altered(PROJECT, "env") == [WEB]) is row.altered
    assert ("unknown" in (row.listed or "")) is not row.deploys
    done = await stacks.update(PROJECT, "env", site.template)
    assert (done.status is StackStatus.UPDATE_COMPLETE) is row.deploys, done.reason
    assert ("was made again" in str(done.warnings)) is row.again
    if not row.deploys:
        assert "is silent" in done.reason
        assert "server evacuate" in done.reason
        return
    assert row.runs_on in site.runs_on()
    made = (site.node if row.runs_on == "node" else site.spare or Node()).vms[site.vm]
    assert [nic["ip"] for nic in made["nics"]] == [nic["ip"] for nic in before["nics"]]
    assert made["customer_metadata"] == before["customer_metadata"]
    assert await stacks.altered(PROJECT, "env") == []
    assert await site.shown() == "running"
    again = await stacks.update(PROJECT, "env", site.template)
    assert (again.status, again.warnings) == (StackStatus.UPDATE_COMPLETE, [])
    assert await stacks.delete(PROJECT, "env") is None
    assert row.runs_on not in site.runs_on()


@rows
async def test_a_stack_is_removed_unless_its_node_is_only_silent(site: Site, row: Row) -> None:
    """What was given up is not waited for; a node that may live is asked first, and says so."""
    await row.happens(site)
    left = await site.world.stacks.delete(PROJECT, "env")
    assert (left is None) is row.deploys
    if left is not None:
        assert "is silent" in left.reason
        await site.back_with()
        assert await site.world.stacks.delete(PROJECT, "env") is None
    for path in ("/subnets", "/ports", "/floating-ips"):
        assert await site.world.count(path) == 0, path


async def test_what_a_returned_node_still_has_is_destroyed_there_once(site: Site) -> None:
    """A node that was given up and lives all the same: the machine runs once, where it was made again."""
    await site.fenced()
    done = await site.world.stacks.update(PROJECT, "env", site.template)
    assert done.status is StackStatus.UPDATE_COMPLETE
    assert site.runs_on() == ["node", "spare"]
    await site.register()
    await site.report()
    jobs = await ask(site.world.client, "GET", "/jobs")
    while not [one for one in jobs if one["name"] == "server-clean-up"]:
        await site.world.database.notify("compute/servers", NODE)
        jobs = await ask(site.world.client, "GET", "/jobs")
    [job] = [one for one in jobs if one["name"] == "server-clean-up"]
    await ask(site.world.client, "GET", f"/jobs/{job['uuid']}/wait?timeout=240")
    assert site.runs_on() == ["spare"]
    # It was given up for this time only: silent again, nothing of it is.
    await site.silent()
    assert (await ask(site.world.client, "GET", f"/servers/{NODE}")).get("fenced_at") is None
