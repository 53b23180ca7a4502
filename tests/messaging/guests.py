"""The real guest agent as a process."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from vetro.guest.build import build_archive
from vetro.messaging import BrokerDoor


@asynccontextmanager
async def agent_process(archive: Path, folder: Path, config: str) -> AsyncGenerator[Process]:
    """An agent with a configuration; it is killed at the end."""
    file = folder / "agent.conf"
    file.write_text(config)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(archive), "--config-file", str(file)
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def running_agent(
    folder: Path, queue: str, door: BrokerDoor, key: str = ""
) -> AsyncGenerator[Process]:
    """An agent that is configured as the core library configures it; ``key``: checks signatures."""
    archive = build_archive(folder / "vetro-guest.pyz")
    broker, user = door.settings, door.broker_user(queue)
    password = await door.issue_credential(queue) if user else broker.password
    config = (
        f"[DEFAULT]\nstorage = {folder}/storage\nengine_key = {key}\n[mailbox]\nurl =\n"
        f"[rabbitmq]\nhost = {broker.host}\nport = {broker.port}\nlogin = {user or broker.login}\n"
        f"password = {password}\nssl = {broker.ssl}\nca_certs = {broker.ca_certs}\n"
        f"input_queue = {queue}\nresult_routing_key = {door.results}\nresult_exchange = {user}\n"
    )
    async with agent_process(archive, folder, config) as process:
        yield process
