"""Everybody around the stores: service processes, nodes and clients, all after one seed."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import uuid as uuids
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import delete

from simulation.loop import VirtualClock, VirtualLoop, run
from simulation.model import Model, Node, Violation
from simulation.store import Files, Site, TwinDatabase
from vetro.compute.placement.placement import Placement
from vetro.compute.servers.heartbeats import INSTANCE_LIFETIME, LIFETIME, Heartbeats
from vetro.compute.servers.store import ServerStore
from vetro.compute.tables import vms
from vetro.compute.waitlist.tickets import TicketStore
from vetro.compute.work.node_tasks import NodeTasks
from vetro.compute.work.takeover import INSTANCE_BEAT_SECONDS, TaskTakeover
from vetro.http import Fault

OWNER = "11111111-1111-4111-8111-111111111111"
GIB = 2**30
SECONDS = 24.0
PROCESSES = 3
TICKET_CLIENTS = 3
PLACE_CLIENTS = 3
NODES = 3
QUEUES = 2
#: Until others have found a killed process gone and taken over the servers it heard.
HEIR_SECONDS = (INSTANCE_LIFETIME + LIFETIME).total_seconds() + 5
DISK_KEYS = (
    "pool_alloc_bytes",
    "system_used_bytes",
    "installed_images_used_bytes",
    "cores_quota_used_bytes",
    "zone_quota_bytes",
    "zone_quota_used_bytes",
    "kvm_quota_bytes",
    "kvm_zvol_volsize_bytes",
)


class Gone(Exception):
    """The service process was killed while it worked on a request, or the database was away."""


@dataclass(frozen=True)
class Report:
    """What happened in one history."""

    seed: int
    commits: int
    turns: int
    placed: int
    refused: int
    kills: int
    silences: int


class Process:
    """A service process: the real stores on its own way to the database."""

    def __init__(self, site: Site, name: str) -> None:
        self.name = name
        database: Any = TwinDatabase(site)
        self.database = database
        self.heartbeats = Heartbeats(database, name)
        self.servers = ServerStore(database, self.heartbeats)
        self.tickets = TicketStore(database)
        self.placement = Placement(database, self.servers)
        agents: Any = object()
        self.takeover = TaskTakeover(
            NodeTasks(database, self.servers, instance=name, agents=agents)
        )
        self.tasks: set[asyncio.Task[Any]] = set()
        self.alive = True

    async def start(self) -> None:
        """Load what a starting service loads, then watch."""
        while True:
            try:
                await self.takeover.show_alive()
                await self.heartbeats.load()
                break
            except OSError:
                await asyncio.sleep(0.5)
        self.spawn(self.heartbeats.watch())
        self.spawn(self.tickets.watch())
        self.spawn(self.live())

    async def live(self) -> None:
        """Say that it lives, like the watch of a service's node tasks."""
        while True:
            await asyncio.sleep(INSTANCE_BEAT_SECONDS)
            with contextlib.suppress(OSError):
                await self.takeover.show_alive()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something that dies with the process."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def kill(self, site: Site) -> None:
        """Everything in it ends at once."""
        self.alive = False
        site.databases.remove(self.database)
        for task in list(self.tasks):
            task.cancel()


class World:
    """One history."""

    def __init__(self, seed: int, files: Files, loop: VirtualLoop) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.clock = VirtualClock(loop)
        self.site = Site(files, self.chance, self.clock)
        self.nodes = [
            Node(self.uuid(), memory_mib=self.chance.choice((1024, 1536)), cpu=800)
            for _ in range(NODES)
        ]
        self.model = Model(self.clock, {node.uuid: node for node in self.nodes})
        self.processes: list[Process] = []
        self.turns = self.placed = self.refused = self.kills = self.silences = 0
        self.births = 0
        self.ending = False

    def uuid(self) -> str:
        """A uuid after the seed."""
        return str(uuids.UUID(int=self.chance.getrandbits(128), version=4))

    async def play(self) -> Report:
        """Play to the end; raises ``Violation`` at the first thing that must not be."""
        for _ in range(PROCESSES):
            await self.birth()
        for node in self.nodes:
            await self.register(node)
        self.site.on_commit = self.model.look
        parts: list[Coroutine[Any, Any, Any]] = [
            self.checks(),
            self.troubles(),
            *(self.node(node) for node in self.nodes),
        ]
        clients: list[Coroutine[Any, Any, Any]] = [
            *(self.ticket_client() for _ in range(TICKET_CLIENTS)),
            *(self.place_client() for _ in range(PLACE_CLIENTS)),
        ]
        around = [asyncio.ensure_future(part) for part in parts]
        working = [asyncio.ensure_future(client) for client in clients]
        try:
            await self.watch(around, working)
            await self.end_quietly()
        finally:
            for task in (*around, *working):
                task.cancel()
            await asyncio.gather(*around, *working, return_exceptions=True)
        return Report(
            self.seed,
            self.model.commits,
            self.turns,
            self.placed,
            self.refused,
            self.kills,
            self.silences,
        )

    async def watch(
        self, around: list[asyncio.Task[Any]], working: list[asyncio.Task[Any]]
    ) -> None:
        """Until every client is done; raises what any of them raises."""
        watching = {*around, *working}
        while any(not task.done() for task in working):
            done, _ = await asyncio.wait(watching, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            watching -= done
            if self.clock.monotonic() > SECONDS + 150:
                raise Violation("clients are still waiting for something")

    async def birth(self) -> None:
        """Another service process."""
        self.births += 1
        process = Process(self.site, f"service-{self.births}")
        await process.start()
        self.processes.append(process)

    async def register(self, node: Node) -> None:
        """A node says what it is, as agents do."""
        store = self.processes[0].servers
        sysinfo = {
            "UUID": node.uuid,
            "Setup": True,
            "Live Image": "20260101T000000Z",
            "System Type": "Linux",
            "VM Brands": ["lx"],
            "CPU Total Cores": node.cpu // 100,
            "Network Interfaces": {"eth0": {"Link Status": "up", "NIC Names": ["admin"]}},
        }
        size = node.memory_mib * 2**20
        sample = {
            "vms": {},
            "meminfo": {"total_bytes": size, "availrmem_bytes": size},
            "diskinfo": {**dict.fromkeys(DISK_KEYS, 0), "pool_size_bytes": 500 * GIB},
        }
        await store.register(node.uuid, sysinfo)
        await store.status(node.uuid, sample)
        await store.change(node.uuid, {"reservation_ratio": 0})
        node.last_beat = node.steady_since = self.clock.monotonic()

    # --- requests --------------------------------------------------------------------------

    async def call(self, work: Callable[[Process], Awaitable[Any]]) -> Any:
        """A request to any living process. Errors: ``Gone``, ``Fault``."""
        while not self.processes:
            await self.sleep(0.5)
        process = self.chance.choice(self.processes)

        async def serve() -> Any:
            return await work(process)

        task = process.spawn(serve())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and not process.alive:
                raise Gone(process.name) from None
            task.cancel()
            raise
        except OSError as error:
            raise Gone(process.name) from error

    async def insist(self, work: Callable[[Process], Awaitable[Any]]) -> Any:
        """A request that is repeated until it is answered: all of them may be."""
        while True:
            try:
                return await self.call(work)
            except Gone:
                await asyncio.sleep(self.chance.random())

    async def sleep(self, most: float) -> None:
        """Some time."""
        await asyncio.sleep(self.chance.random() * most)

    def over(self) -> bool:
        """Whether no new things are begun."""
        return self.clock.monotonic() > SECONDS

    # --- clients ---------------------------------------------------------------------------

    async def ticket_client(self) -> None:
        """Queues up, waits for its turn, uses it, gives it back, or does not."""
        await self.sleep(5)
        while not self.over():
            uuid = self.uuid()
            queue = self.chance.randrange(QUEUES)
            expires = self.clock.now() + timedelta(seconds=self.chance.uniform(0.5, 25))
            body = {
                "scope": "vm",
                "id": f"queue {queue}",
                "expires_at": expires.isoformat(),
                "action": self.chance.choice(("boot", "update")),
            }
            await self.insist(lambda p, u=uuid, b=body: p.tickets.create(u, self.nodes[0].uuid, b))
            if self.chance.random() < 0.1:
                await self.sleep(3)
                await self.end(uuid, remove=True)
                continue
            if await self.turn(uuid):
                self.turns += 1
                await self.sleep(6)
                if self.chance.random() < 0.8:
                    await self.end(uuid, remove=self.chance.random() < 0.2)
            await self.sleep(6)

    async def turn(self, uuid: str) -> bool:
        """Wait for a ticket; false when it expired."""
        while True:
            began = self.clock.monotonic()
            try:
                await self.call(lambda p: p.tickets.wait(uuid))
            except Gone:
                await self.sleep(1)
                continue
            except Fault as fault:
                self.model.woken(uuid, began)
                if fault.status == 404:
                    raise Violation(f"ticket {uuid} is gone and nobody deleted it") from fault
                return False
            self.model.woken(uuid, began)
            return True

    async def end(self, uuid: str, *, remove: bool) -> None:
        """Release or delete; asked again, a deleted one is not found."""
        try:
            if remove:
                await self.insist(lambda p: p.tickets.remove(uuid))
            else:
                await self.insist(lambda p: p.tickets.release(uuid))
        except Fault as fault:
            if fault.status != 404 or not remove:
                raise

    async def place_client(self) -> None:
        """Wants room for a VM, keeps it for a while, gives it back."""
        await self.sleep(5)
        while not self.over():
            if self.chance.random() < 0.5:
                # Everybody at once: two choose before either has reserved.
                await asyncio.sleep(-self.clock.monotonic() % 2)
            uuid = self.uuid()
            memory = self.chance.choice((256, 512, 1024, 1536))
            vm = {"vm_uuid": uuid, "owner_uuid": OWNER, "ram": memory, "brand": "lx"}
            body: dict[str, Any] = {
                "vm": {**vm, "cpu_cap": 100},
                "image": {},
                "nic_tags": [],
                "reserve": True,
                "seed": self.chance.randrange(10**6),
            }
            if self.chance.random() < 0.2:
                body["reserve_seconds"] = self.chance.uniform(1, 8)
            had_room, places = self.model.had_room(memory), self.model.places
            placed = await self.insist(lambda p, b=body: p.placement.allocate(b))
            if placed.outcome.chosen is None:
                self.refused += 1
                if had_room and places == self.model.places and self.model.calm_for() > 1:
                    raise Violation(f"there was room for {memory} MiB: {placed.outcome.error}")
                await self.sleep(4)
                continue
            self.placed += 1
            await self.sleep(12)
            await self.insist(lambda p, u=uuid: self.destroy(p, u))
            await self.sleep(2)

    async def destroy(self, process: Process, uuid: str) -> None:
        """The VM's record goes."""
        async with process.database.transaction() as tx:
            await tx.execute(delete(vms).where(vms.c.uuid == uuid))

    # --- nodes and troubles ----------------------------------------------------------------

    async def node(self, node: Node) -> None:
        """Beats every five seconds at any process; falls silent now and then."""
        while True:
            if self.chance.random() < 0.1:
                self.silences += 1
                node.steady_since = math.inf
                await asyncio.sleep(self.chance.uniform(12, 30))
                if self.ending:
                    return
                node.steady_since = self.clock.monotonic()
            if self.processes:
                process = self.chance.choice(self.processes)
                process.heartbeats.beat(node.uuid)
                node.last_beat = self.clock.monotonic()
            await asyncio.sleep(5 + self.chance.uniform(-0.2, 0.2))

    async def troubles(self) -> None:
        """Processes are killed and come back; the database is away for moments."""
        while True:
            await asyncio.sleep(self.chance.uniform(8, 30))
            if self.chance.random() < 0.5:
                process = self.processes.pop(self.chance.randrange(len(self.processes)))
                process.kill(self.site)
                self.kills += 1
                self.model.watched_after = self.clock.monotonic() + HEIR_SECONDS
                # Another comes soon, or the rest must do without it for long.
                await self.sleep(3 if self.chance.random() < 0.5 else HEIR_SECONDS)
                await self.birth()
                self.model.watched_after = min(self.model.watched_after, self.clock.monotonic())
            else:
                seconds = self.chance.uniform(0.2, 3)
                self.site.away_until = self.clock.monotonic() + seconds
                await asyncio.sleep(seconds)
            # What was lost is found again within one round of looks.
            self.model.calm_after = self.clock.monotonic() + 2

    async def end_quietly(self) -> None:
        """Whoever is silent at the end is found out: in the end nothing is wrong."""
        self.ending = True
        while any(
            node.steady_since == math.inf and self.model.running.get(node.uuid)
            for node in self.nodes
        ):
            await asyncio.sleep(0.5)
            self.model.tick()

    async def checks(self) -> None:
        """The rules of time, every half second."""
        while True:
            await asyncio.sleep(0.5)
            self.model.tick()


def simulate(seed: int, files: Files) -> Report:
    """Play one history. Raises ``Violation``."""
    files.begin()
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    try:
        world = World(seed, files, loop)
        report: Report = run(world.play(), loop)
        return report
    finally:
        asyncio.set_event_loop(None)
        files.end()
