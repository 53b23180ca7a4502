"""Which servers last created a VM of an image: they are asked for its file first. Only a hint."""

from __future__ import annotations

from sqlalchemy import select

from vetro.compute.tables import servers
from vetro.storage import Transaction

#: How many nodes that may have an image are named to a node, and of how many images that is remembered.
PEERS = 3
REMEMBERED_IMAGES = 1000


class ImageHolders:
    """The holders of images that this process knows of, the latest first."""

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
