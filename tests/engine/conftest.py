"""An engine for XML workflows: stacks in memory, mailboxes in a database, guests that the test plays."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from vetro import catalog, engine, environments, messaging, repository
from vetro.engine.checkpoints import Checkpoints
from vetro.engine.journal import JournalEffects, forget
from vetro.engine.services import EngineServices
from vetro.engine.settings import EngineSettings
from vetro.engine.worker.deployment import is_flat
from vetro.engine.worker.workflow_run import run_workflows
from vetro.environments import EngineTask, TaskResult
from vetro.messaging import (
    Guest,
    Mailboxes,
)
from vetro.messaging.results import MalformedResult
from vetro.stacks import ComputeNetworkDirectory, MemoryStacks
from vetro.storage import Database, migrate

NETWORK = {
    "heat_template_version": "2016-10-14",
    "resources": {
        "net": {"type": "OS::Neutron::Net"},
        "subnet": {
            "type": "OS::Neutron::Subnet",
            "properties": {"network": {"get_resource": "net"}, "cidr": "10.77.0.0/24"},
        },
    },
}


GOOD = {"FormatVersion": "2.0.0", "ErrorCode": 0, "Body": "done", "Action": "Execution:Result"}


class Reports:
    """Keeps the reports of a task."""

    def __init__(self) -> None:
        self.said: list[tuple[str | None, str, str, str | None]] = []
        self.entities: list[tuple[str | None, str | None]] = []

    async def report(
        self,
        entity_id: str | None,
        level: str,
        text: str,
        details: str | None = None,
        *,
        entity: str | None = None,
    ) -> None:
        """One report."""
        self.said.append((entity_id, level, text, details))
        self.entities.append((entity, entity_id))


class Place:
    """An engine's back ends, and guests that answer every plan."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        self.stacks = MemoryStacks()
        self.mailboxes = Mailboxes(database)
        self.reports = Reports()
        self.fence = 0
        self.plans: list[dict[str, Any]] = []
        self.times = 1
        self.answer: Callable[[dict[str, Any]], Any] = lambda plan: {**GOOD, "SourceID": plan["ID"]}
        reports: Any = self.reports
        self.services = EngineServices(
            settings=EngineSettings(
                database_url="",
                data_dir=directory,
                compute_url="",
                service_key="",
                mailbox_url="http://mail.example.org/agents",
                package_dir=directory,
            ),
            project_id="p",
            user_id="u",
            environment_id="e1",
            stacks=self.stacks,
            directory=ComputeNetworkDirectory(self.stacks.compute),
            transport=self.mailboxes,
            reports=reports,
            signer=None,
        )

    async def guest(self, queue: str) -> None:
        """Answer the plans of one mailbox until cancelled."""
        guest = Guest(queue)
        await self.mailboxes.declare(queue)
        while True:
            message = await self.mailboxes.next_plan(guest, None, 5.0)
            if message is not None:
                plan = json.loads(message.body)
                await self.mailboxes.acknowledge(guest, message.message_id)
                self.plans.append(plan)  # who sees it there knows that it is the guest's
                answer = self.answer(plan)
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                for _ in range(self.times):
                    with contextlib.suppress(MalformedResult):
                        await self.mailboxes.accept_result(guest, body, message.message_id)

    async def run(
        self,
        objects: Any,
        before: Any = None,
        guests: tuple[str, ...] = (),
        orders: socket.socket | None = None,
    ) -> TaskResult:
        """Run one task beside its guests."""
        task = EngineTask(
            "t", "e1", "s", "p", "u", None, {"Objects": objects, "ObjectsCopy": before}
        )
        assert is_flat(task.model)
        self.fence += 1
        effects = JournalEffects(self.database, task.id, self.fence)
        kept = Checkpoints(self.database, task.id, self.fence)
        async with self.answering(guests):
            result = await run_workflows(self.services, self.database, task, effects, kept, orders)
            await forget(self.database, task.id)
            return result

    @contextlib.asynccontextmanager
    async def answering(self, guests: tuple[str, ...]) -> AsyncGenerator[None]:
        """Guests with these mailboxes."""
        running = [asyncio.create_task(self.guest(queue)) for queue in guests]
        try:
            yield
        finally:
            for one in running:
                one.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await one


@pytest.fixture
async def place(database_url: str, tmp_path: Path) -> AsyncIterator[Place]:
    """A database with what the engine uses."""
    opened = await Database.open(database_url, data_dir=tmp_path)
    try:
        await migrate(
            opened,
            [room.MIGRATIONS for room in (catalog, environments, engine, messaging, repository)],
        )
        yield Place(opened, tmp_path)
    finally:
        await opened.close()


def telnet() -> dict[str, Any]:
    """An environment with one Telnet service of one unit."""
    unit = {"id": "u1", "name": "n1"}
    service = {
        "id": "s1", "type": "linuxTelnetService", "name": "tel", "osImage": "debian",
        "unitNamingPattern": "linu#", "units": [unit],
    }  # fmt: skip
    return {"id": "e1", "name": "dev", "services": [service]}
