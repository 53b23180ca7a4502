"""Reporting to the compute service which images this node has, and the progress of others.

A message names all of them, so the next one repairs a lost one. An older service does not know this
message: it answers 404, and only the progress is lost.
"""

from __future__ import annotations

import asyncio

import structlog

from vetro.http.client import TransportError
from vetro.node.images.store import ImageStore
from vetro.node.service_client import ServiceClient

log = structlog.get_logger(__name__)

#: The pause between two messages: an image that is being unpacked changes several times a second.
_SPACING_SECONDS = 0.3
_AGAIN_SECONDS = 5.0
#: A message is also sent at this interval, for a service that lost its database.
_EVERY_SECONDS = 300.0


class ImageReports:
    """The lane of these messages. ``registered`` is set when the service knows the node."""

    def __init__(
        self, client: ServiceClient, images: ImageStore, registered: asyncio.Event
    ) -> None:
        self._client = client
        self._images = images
        self._registered = registered
        self._changed = asyncio.Event()
        self._changed.set()
        images.watch(self._changed.set)

    async def run(self) -> None:
        """Report every change, until cancelled."""
        await self._registered.wait()
        while True:
            try:
                async with asyncio.timeout(_EVERY_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            try:
                await self._client.post("/events/images", {"images": self._images.copies()})
            except TransportError as error:
                log.info("images_not_reported", error=str(error))
                self._changed.set()
                await asyncio.sleep(_AGAIN_SECONDS)
            await asyncio.sleep(_SPACING_SECONDS)
