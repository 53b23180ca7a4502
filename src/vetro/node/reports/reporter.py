"""Messages to the compute service, each kind in a lane of its own (compute-node-agent.md §2).

A registration that cannot be delivered never holds up a heartbeat.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import structlog

from vetro.http.client import TransportError
from vetro.node.service_client import ServiceClient

log = structlog.get_logger(__name__)

_FIRST_DELAY, _LAST_DELAY, _FACTOR, _JITTER = 0.5, 120.0, 1.6, 0.2
STATUS_SPACING_SECONDS = 5.0
CHANGES_SECONDS = 0.2
STATUS_EVERY_SECONDS = 60.0
SYSINFO_EVERY_SECONDS = 300.0


@dataclass(eq=False, repr=False)
class Reporter:
    """Registration, heartbeats and status of one agent.

    ``registered`` is set when the service knows the node and has its first status: before that, it places
    nothing there. ``on_lost`` is called when it no longer knows the node.
    """

    client: ServiceClient
    _: KW_ONLY
    sysinfo: Callable[[], Awaitable[dict[str, object]]]
    significant: Callable[[Mapping[str, object]], dict[str, Any]]
    status: Callable[[], Awaitable[dict[str, object]]]
    changes: Callable[[Collection[str]], Awaitable[dict[str, object]]]
    agents: Callable[[], list[dict[str, Any]]]
    heartbeat_seconds: float
    on_lost: Callable[[], None]
    registered: asyncio.Event

    def __post_init__(self) -> None:
        self._known = asyncio.Event()
        self._changed: set[str] = set()
        self._vms_changed = asyncio.Event()
        self._sent: dict[str, object] | None = None
        self._check_sysinfo = asyncio.Event()
        self._status_dirty = asyncio.Event()
        self._status_dirty.set()

    def mark_dirty(self, uuid: str = "") -> None:
        """Report a changed VM at once, and make a whole status sample due."""
        self._status_dirty.set()
        if uuid:
            self._changed.add(uuid)
            self._vms_changed.set()

    def machine_changed(self) -> None:
        """The machine may have changed: check, and report if it did."""
        self._check_sysinfo.set()

    async def send_agents(self) -> None:
        """Report to the service which agents this node has."""
        try:
            await self.client.post("", {"agents": self.agents()})
        except TransportError as error:
            log.warning("agents_not_reported", error=str(error))

    async def run(self) -> None:
        """Run all lanes until cancelled."""
        async with asyncio.TaskGroup() as lanes:
            lanes.create_task(self._sysinfo_lane(), name="sysinfo")
            lanes.create_task(self._heartbeat_lane(), name="heartbeat")
            lanes.create_task(self._status_lane(), name="status")
            lanes.create_task(self._changes_lane(), name="changes")

    async def _sysinfo_lane(self) -> None:
        while True:
            self._check_sysinfo.clear()
            info = await self.sysinfo()
            if self.significant(info) != self._sent:
                await self._register()
            try:
                async with asyncio.timeout(SYSINFO_EVERY_SECONDS):
                    await self._check_sysinfo.wait()
            except TimeoutError:
                continue

    async def _register(self) -> None:
        delay = _FIRST_DELAY
        while True:
            # Read before each attempt, so that outdated information is never sent.
            info = await self.sysinfo()
            try:
                status = await self.client.post("/sysinfo", {"sysinfo": info})
            except TransportError as error:
                status = 0
                log.info("not_registered_yet", error=str(error), retry_seconds=round(delay, 1))
            # 404: an old service, which learns of nodes in another way.
            if 200 <= status < 300 or status == 404:
                self._sent = self.significant(info)
                break
            await asyncio.sleep(delay * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311
            delay = min(delay * _FACTOR, _LAST_DELAY)
        if not self._known.is_set():
            await self.send_agents()
            self._known.set()

    async def _heartbeat_lane(self) -> None:
        await self._known.wait()
        while True:
            try:
                await self.client.post("/events/heartbeat", {})
            except TransportError as error:
                log.warning("heartbeat_not_delivered", error=str(error))
            await asyncio.sleep(self.heartbeat_seconds)

    async def _changes_lane(self) -> None:
        """Report single VMs' changes between the whole samples, which repair lost reports."""
        await self._known.wait()
        while True:
            await self._vms_changed.wait()
            await asyncio.sleep(CHANGES_SECONDS)
            self._vms_changed.clear()
            changed, self._changed = self._changed, set()
            try:
                sample = await self.changes(changed)
                if sample["vms"]:
                    await self.client.post("/events/vm", sample)
            except TransportError as error:
                log.info("vm_changes_not_delivered", error=str(error))
            except Exception:
                log.exception("vm_changes_not_read")

    async def _status_lane(self) -> None:
        await self._known.wait()
        began = -STATUS_SPACING_SECONDS
        while True:
            try:
                async with asyncio.timeout(STATUS_EVERY_SECONDS):
                    await self._status_dirty.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(max(0.0, began + STATUS_SPACING_SECONDS - time.monotonic()))
            began = time.monotonic()
            # Cleared before sampling: a change meanwhile causes another sample.
            self._status_dirty.clear()
            try:
                sample = await self.status()
            except Exception:
                log.exception("status_not_read")
                self._status_dirty.set()
                continue
            try:
                status = await self.client.post("/events/status", sample)
            except TransportError as error:
                log.warning("status_not_delivered", error=str(error))
                self._status_dirty.set()
                continue
            if status < 300:
                self.registered.set()
                continue
            self._status_dirty.set()
            if status == 404:
                # The service does not know this node (any more): register again.
                self.on_lost()
                self._sent = None
                self._check_sysinfo.set()
