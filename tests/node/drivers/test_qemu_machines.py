"""Real virtual machines: addresses, life cycle, snapshots, screen, and what is left of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.root


async def page(address: str, seconds: float = 40) -> bytes:
    """The first line an HTTP server answers, as soon as there is one."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                reader, writer = await asyncio.open_connection(address, 80)
                writer.write(b"GET / HTTP/1.0\r\n\r\n")
                line = await reader.readline()
                writer.close()
                return line
            except OSError:
                await asyncio.sleep(0.05)


async def test_a_vm_serves_on_its_static_address(machines: Any) -> None:
    """Created means started; the guest comes up with the address, name and page it shall have."""
    nic = await machines.nic(5)
    vm = await machines.create([nic], hostname="web-1")
    assert vm["state"] == "running"
    assert await page(nic["ip"]) == b"HTTP/1.1 200 OK\r\n"
