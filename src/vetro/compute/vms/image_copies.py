"""Which nodes have which images, and prefetching of images (ours).

Nodes report their images' progress (``/events/images``). An image that a node should have and lacks
becomes a node task, ``image_prefetch``: it is stored like any other, so the work survives a service
that dies, and the node joins it with a creation that waits for the same image. The policy selects
the newest image of each name of each owner, for every server that is set up and runs
(docs/decisions/0158).
"""

from __future__ import annotations

import uuid as uuids
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog
from sqlalchemy import delete, select, update

from vetro.compute.servers.store import ServerStore
from vetro.compute.tables import image_copies, images, servers, tasks
from vetro.compute.values.records import Record, mapping, struct_of, text_of, whole
from vetro.compute.values.silence import UNKNOWN, is_silent
from vetro.compute.wire import ImageCopies as Shown
from vetro.compute.wire import ImageCopy, ImageNodes
from vetro.compute.work.node_tasks import NodeTasks, TaskEnd
from vetro.http import Fault
from vetro.storage import (
    Database,
    LookAgain,
    StoredRow,
    Transaction,
    await_until,
    insert_if_new,
    watch,
)

log = structlog.get_logger(__name__)

#: The loop's own channel, and the one for news of copies.
CHANNEL, NEWS = "compute/prefetch", "compute/image-copies"
TASK = "image_prefetch"
#: The number of nodes that fetch at once: later ones get the file from these.
AT_ONCE = 4
#: How many nodes that may have an image are named to a node, and of how many images that is remembered.
PEERS = 3
REMEMBERED_IMAGES = 1000
#: States that a node reports; the other states are ours.
_COMING = ("fetching", "unpacking")
_NODES_STATES = (*_COMING, "present")
_INTERRUPTED = ("AgentRestarted", "Withdrawn", "GivenUp", "")
_RETRY = {"interrupted": timedelta(seconds=10), "failed": timedelta(minutes=10),
          "skipped": timedelta(minutes=10)}  # fmt: skip
_LOOK_SECONDS = 5.0


@dataclass(frozen=True)
class _Pair:
    server: StoredRow
    image: StoredRow


class ImageCopies:
    """The copies of all images. ``policy``: which images nodes fetch before they are needed."""

    def __init__(
        self, database: Database, store: ServerStore, work: NodeTasks, policy: str
    ) -> None:
        self.database = database
        self.servers = store
        self.work = work
        self.policy = policy
        work.after(TASK, self._ended)

    async def watch(self) -> None:
        """Fetch missing images, until cancelled."""
        if self.policy == "none":
            return

        async def look(_named: set[str] | None) -> LookAgain | None:
            return LookAgain(_LOOK_SECONDS) if await self.look() else None

        await watch(self.database, CHANNEL, look)

    async def look(self) -> bool:
        """Start missing fetches; returns whether something must be tried again later."""
        started: list[str] = []
        async with self.database.transaction() as tx:
            await tx.exclude("image prefetch")
            missing, waits = await self._missing(tx)
            query = select(tasks).where(tasks.c.task == TASK, tasks.c.status == "active")
            under_way = {
                (row.server_uuid, row.image_uuid)
                for row in await tx.execute(
                    select(image_copies).where(image_copies.c.state.in_(_COMING))
                )
            }
            # A task whose copy has ended is about to be recorded as ended.
            busy = {
                row.server_uuid
                for row in await tx.execute(query)
                if (row.server_uuid, mapping(row.params).get("image_uuid")) in under_way
            }
            for pair in missing:
                if len(busy) >= AT_ONCE:
                    break  # the end of one of them wakes the loop
                if pair.server.uuid in busy:
                    continue
                busy.add(pair.server.uuid)
                started.append(await self._store(tx, pair))
        for id_ in started:
            await self.work.launch(id_)
        return waits or len(started) < len(missing)

    async def _missing(self, tx: Transaction) -> tuple[list[_Pair], bool]:
        wanted = await self._wanted(tx)
        query = select(servers).where(servers.c.status == "running", servers.c.setup)
        nodes = list(await tx.execute(query.order_by(servers.c.uuid)))
        known = {
            (row.server_uuid, row.image_uuid): row for row in await tx.execute(select(image_copies))
        }
        now = self.database.clock.now()
        missing: list[_Pair] = []
        waits = False
        for image in wanted:
            for node in nodes:
                row = known.get((node.uuid, image.uuid))
                after = _RETRY.get(row.state) if row is not None else None
                if row is not None and after is None:
                    continue
                if row is not None and after is not None and now - row.changed < after:
                    waits = True
                    continue
                agent = self.servers.agent_of(node)
                if agent.url or agent.pull:
                    missing.append(_Pair(node, image))
        return missing, waits

    async def _wanted(self, tx: Transaction) -> list[StoredRow]:
        """The newest of each name, newest first: it is the likeliest to be used."""
        if self.policy == "none":
            return []
        query = select(images).where(images.c.state == "active").order_by(images.c.created.desc())
        if self.policy == "public":
            query = query.where(images.c.public)
        newest: dict[tuple[str, str], StoredRow] = {}
        for row in await tx.execute(query):
            newest.setdefault((row.owner_uuid, row.name), row)
        return list(newest.values())

    async def _store(self, tx: Transaction, pair: _Pair) -> str:
        holders = (
            select(servers.c.agent_url)
            .join(image_copies, image_copies.c.server_uuid == servers.c.uuid)
            .where(
                image_copies.c.image_uuid == pair.image.uuid,
                image_copies.c.state == "present",
                servers.c.status == "running",
                servers.c.uuid != pair.server.uuid,
            )
            .limit(PEERS)
        )
        peers = [row.agent_url for row in await tx.execute(holders) if row.agent_url]
        params: Record = {"image_uuid": pair.image.uuid, "image_sha256": pair.image.sha256}
        id_ = str(uuids.uuid4())
        await self.work.store(
            tx, id_, self.servers.agent_of(pair.server), TASK,
            params | ({"imgapiPeers": peers} if peers else {}),
        )  # fmt: skip
        await self._put(tx, pair.server.uuid, pair.image.uuid, "fetching", 0, "")
        return id_

    async def _put(
        self, tx: Transaction, server: str, image: str, state: str, percent: int, reason: str
    ) -> None:
        values = {
            "state": state,
            "percent": percent,
            "reason": reason,
            "changed": self.database.clock.now(),
        }
        here = (image_copies.c.server_uuid == server) & (image_copies.c.image_uuid == image)
        row = {"server_uuid": server, "image_uuid": image, **values}
        # A prefetch and a report of the node may be the first to record a copy at one time.
        if not await insert_if_new(tx, image_copies, row):
            await tx.execute(update(image_copies).where(here).values(**values))
        tx.notify(NEWS, image)

    async def _ended(self, end: TaskEnd) -> None:
        """Record that a node has an image, or why not."""
        image = str(end.params.get("image_uuid"))
        details = mapping(end.result.get("details"))
        code = str(details.get("restCode") or "")
        reason = "" if end.good else text_of(end.result.get("error"), 1000)
        if end.good:
            state = "present"
        elif code == "NoRoomForImage" or code == "ResourceExhausted":
            state = "skipped"
        else:
            state = "interrupted" if code in _INTERRUPTED else "failed"
        async with self.database.transaction() as tx:
            await tx.exclude(f"image copies of {end.server_uuid}")
            there = (await tx.execute(select(images.c.uuid).where(images.c.uuid == image))).first()
            if there is not None:
                await self._put(tx, end.server_uuid, image, state, 100 if end.good else 0, reason)
            tx.notify(CHANNEL)
        if there is None and end.good:
            await self._drop(end.server_uuid, image)  # it was deleted meanwhile

    async def registered(self, server_uuid: str) -> None:
        """Retry earlier failures on a node that registers (again)."""
        async with self.database.transaction() as tx:
            await tx.exclude(f"image copies of {server_uuid}")
            await tx.execute(
                delete(image_copies).where(
                    image_copies.c.server_uuid == server_uuid,
                    image_copies.c.state.in_(tuple(_RETRY)),
                )
            )
            tx.notify(CHANNEL)

    async def take(self, server_uuid: str, reported: Record) -> None:
        """Store a node's report of all its images: ``{uuid: {state, percent}}``."""
        async with self.database.transaction() as tx:
            await tx.exclude(f"image copies of {server_uuid}")
            known = {row.uuid for row in await tx.execute(select(images.c.uuid))}
            query = select(image_copies).where(image_copies.c.server_uuid == server_uuid)
            rows = {row.image_uuid: row for row in await tx.execute(query)}
            for uuid, value in reported.items():
                copy = mapping(value)
                state, percent = text_of(copy.get("state"), 20), whole(copy.get("percent"))
                if uuid not in known or state not in _NODES_STATES:
                    continue
                percent = max(0, min(100, percent))
                row = rows.get(uuid)
                if row is None or (row.state, row.percent) != (state, percent):
                    await self._put(tx, server_uuid, uuid, state, percent, "")
            for uuid, row in rows.items():
                if row.state == "present" and uuid not in reported:
                    # The node removed it as unused: it is not fetched again.
                    reason = "the node removed it when nobody had used it for long"
                    await self._put(tx, server_uuid, uuid, "removed", 0, reason)
                elif row.state in _NODES_STATES and uuid not in reported:
                    # The task that fetched it ended without it; the next prefetch records a new one.
                    here = image_copies.c.image_uuid == uuid
                    await tx.execute(
                        delete(image_copies).where(image_copies.c.server_uuid == server_uuid, here)
                    )
                    tx.notify(NEWS, uuid)
                    tx.notify(CHANNEL)

    async def deleted(self, image_uuid: str) -> None:
        """Let nodes remove the copies of a deleted image, unless instances use them."""
        here = image_copies.c.image_uuid == image_uuid
        async with self.database.transaction() as tx:
            rows = list(await tx.execute(select(image_copies).where(here)))
            await tx.execute(delete(image_copies).where(here))
            tx.notify(NEWS, image_uuid)
            # With the end of the records: a service that dies now leaves tasks to be taken up.
            having = [row.server_uuid for row in rows if row.state == "present"]
            stored = [await self._store_removal(tx, one, image_uuid) for one in having]
        await self._launch(stored)

    async def _drop(self, server_uuid: str, image_uuid: str) -> None:
        async with self.database.transaction() as tx:
            stored = [await self._store_removal(tx, server_uuid, image_uuid)]
        await self._launch(stored)

    async def _store_removal(
        self, tx: Transaction, server_uuid: str, image_uuid: str
    ) -> str | None:
        """Store a task that removes an image from a node; its id."""
        try:
            agent = await self.servers.agent(tx, server_uuid)
        except Fault as error:
            # An unreachable node removes it after it was unused for long.
            log.info("deleted_image_stays_on_node", server=server_uuid, error=error.message)
            return None
        id_ = str(uuids.uuid4())
        await self.work.store(tx, id_, agent, "image_delete", {"image_uuid": image_uuid})
        return id_

    async def _launch(self, stored: Sequence[str | None]) -> None:
        for id_ in stored:
            if id_ is not None:
                await self.work.launch(id_)

    async def of(self, uuids: Sequence[str]) -> dict[str, list[ImageCopy]]:
        """The copies of images, by image, of the servers that are there."""
        query = (
            select(image_copies, servers.c.hostname, servers.c.status)
            .join(servers, servers.c.uuid == image_copies.c.server_uuid)
            .where(image_copies.c.image_uuid.in_(list(uuids)))
            .order_by(servers.c.hostname, image_copies.c.server_uuid)
        )
        found: dict[str, list[ImageCopy]] = {uuid: [] for uuid in uuids}
        async with self.database.read() as tx:
            for row in await tx.execute(query):
                state = UNKNOWN if is_silent(row) and row.state in _NODES_STATES else row.state
                found[row.image_uuid].append(struct_of(ImageCopy, row, state=state))
        return found

    async def wait(self, image_uuid: str, known: str, timeout_seconds: float) -> Shown:
        """The copies once their version is not ``known``, or after the time."""

        async def shown() -> Shown:
            copies = (await self.of([image_uuid]))[image_uuid]
            return Shown(policy=self.policy, version=_version(copies), copies=copies)

        async def look() -> Shown | None:
            now = await shown()
            return now if now.version != known else None

        return await await_until(self.database, NEWS, look, timeout_seconds) or await shown()


def summary(copies: Sequence[ImageCopy]) -> ImageNodes:
    """For users: how many nodes have it, and the progress of those that fetch it."""
    coming = [one.percent for one in copies if one.is_coming]
    return ImageNodes(
        present=sum(one.state == "present" for one in copies),
        coming=len(coming),
        percent=min(coming) if coming else None,
    )


def _version(copies: Sequence[ImageCopy]) -> str:
    parts = (f"{one.server_uuid}:{one.state}:{one.percent}" for one in copies)
    return f"{zlib.crc32(' '.join(parts).encode()):08x}"


class ImageHolders:
    """Which servers last created a VM of an image, the latest first: they are asked for its file first.

    Only a hint, of what this process knows.
    """

    def __init__(self) -> None:
        self._holders: dict[str, list[str]] = {}

    async def peers(self, tx: Transaction, image: str, server_uuid: str) -> list[str]:
        """Where nodes other than this one serve the file of an image."""
        holders = [one for one in self._holders.get(image, []) if one != server_uuid]
        if not holders:
            return []
        found = await tx.execute(
            select(servers.c.agent_url).where(
                servers.c.uuid.in_(holders), servers.c.status == "running"
            )
        )
        return [row.agent_url for row in found if row.agent_url]

    def add(self, image: str, server_uuid: str) -> None:
        """A server has an image; '' is none."""
        if not image:
            return
        others = [one for one in self._holders.pop(image, []) if one != server_uuid]
        self._holders[image] = [server_uuid, *others][:PEERS]
        if len(self._holders) > REMEMBERED_IMAGES:
            del self._holders[next(iter(self._holders))]
