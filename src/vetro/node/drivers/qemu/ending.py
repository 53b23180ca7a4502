"""How virtual machines end: by their power button, and when libvirt has noticed it."""

from __future__ import annotations

import asyncio

import structlog

from vetro.node.drivers.qemu.libvirt import Libvirt
from vetro.node.errors import DriverError
from vetro.node.processes import FollowedProcess

log = structlog.get_logger(__name__)

# A guest that is still starting ignores its power button, so it is pressed again.
_PRESS_SECONDS = 3.0
_NOTICE_POLL_SECONDS = 0.01


async def ask_to_stop(
    connection: Libvirt, uuid: str, process: FollowedProcess, timeout: float
) -> None:
    """Press the power button until the VM ends or ``timeout`` seconds have passed."""
    deadline = asyncio.get_running_loop().time() + timeout
    while (left := deadline - asyncio.get_running_loop().time()) > 0:
        try:
            await connection.press_power_button(uuid)
        except DriverError as error:
            if process.running:
                log.info("power_button_failed", uuid=uuid, error=str(error))
        if await process.wait(min(_PRESS_SECONDS, left)):
            return


async def name_free(connection: Libvirt, uuid: str) -> None:
    """Wait until libvirt has noticed the end of a VM: until then the name is in use."""
    async with asyncio.timeout(20):
        # libvirt has an event for it, but that needs a thread of its own for a few
        # milliseconds.
        while await connection.exists(uuid):  # noqa: ASYNC110
            await asyncio.sleep(_NOTICE_POLL_SECONDS)
