"""Tasks of flat services on the engine: shipped definitions, stacks in memory, mailboxes in a database."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from vetro import engine, messaging, repository
from vetro.engine.journal import JournalEffects
from vetro.engine.services import EngineServices
from vetro.engine.settings import EngineSettings
from vetro.engine.worker.deployment import is_flat
from vetro.engine.worker.workflow_port import first_free_range
from vetro.engine.worker.workflow_run import run_workflows
from vetro.environments import EngineTask, TaskResult
from vetro.messaging import Guest, Mailboxes
from vetro.stacks import ComputeNetworkDirectory, MemoryStacks, ResourceFailure
from vetro.storage import Database, migrate

GOOD = {"FormatVersion": "2.0.0", "ErrorCode": 0, "Body": "done", "Action": "Execution:Result"}


class Reports:
    """Keeps the reports of a task."""

    def __init__(self) -> None:
        self.said: list[tuple[str | None, str, str, str | None]] = []

    async def report(
        self, entity_id: str | None, level: str, text: str, details: str | None = None
    ) -> None:
        """One report."""
        self.said.append((entity_id, level, text, details))


class Place:
    """An engine's back ends, and guests that answer every plan."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        self.stacks = MemoryStacks()
        self.mailboxes = Mailboxes(database)
        self.reports = Reports()
        self.fence = 0
        self.plans: list[dict[str, Any]] = []
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
        """Answer the plans of one mailbox, for ever."""
        guest = Guest(queue)
        await self.mailboxes.declare(queue)
        while True:
            message = await self.mailboxes.next_plan(guest, None, 5.0)
            if message is not None:
                plan = json.loads(message.body)
                self.plans.append(plan)
                await self.mailboxes.acknowledge(guest, message.message_id)
                body = json.dumps(self.answer(plan)).encode()
                await self.mailboxes.accept_result(guest, body, message.message_id)

    async def run(
        self, objects: Any, before: Any = None, guests: tuple[str, ...] = ()
    ) -> TaskResult:
        """Run one task beside its guests."""
        task = EngineTask(
            "t", "e1", "s", "p", "u", None, {"Objects": objects, "ObjectsCopy": before}
        )
        assert is_flat(task.model)
        self.fence += 1
        effects = JournalEffects(self.database, task.id, self.fence)
        answering = [asyncio.create_task(self.guest(queue)) for queue in guests]
        try:
            return await run_workflows(self.services, self.database, task, effects)
        finally:
            for one in answering:
                one.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await one


@pytest.fixture
async def place(database_url: str, tmp_path: Path) -> AsyncIterator[Place]:
    """A database with what the engine uses."""
    opened = await Database.open(database_url, data_dir=tmp_path)
    try:
        await migrate(opened, [engine.MIGRATIONS, messaging.MIGRATIONS, repository.MIGRATIONS])
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


async def test_a_service_is_deployed_and_deleted(place: Place) -> None:
    """Router, range, stack and plan follow each other; what was done stands in the model; a second
    task sends no plan; a deletion leaves nothing.
    """
    result = await place.run(telnet(), guests=("ee1-s1-u1",))
    assert (result.is_exception, result.result) == (False, None), result.result
    unit = result.model["Objects"]["services"][0]["units"][0]
    assert unit["state"] == {"hostname": "linu1", "TelnetInstalled": True}
    assert "token" not in result.model["Objects"]
    (plan,) = place.plans
    assert {one["Name"] for one in plan["Files"].values()} == {
        "Linux/runTelnetDeploy.sh", "Linux/installer.sh", "Linux/common.sh",
    }  # fmt: skip
    stack = await place.stacks.get("p", "ee1")
    assert stack is not None
    assert {"linu1", "network", "port-linu1"} <= set(stack.resources)
    (server,) = place.stacks.compute.server_list.values()
    assert server is not None
    again = await place.run(result.model["Objects"], result.model["ObjectsCopy"])
    assert not again.is_exception
    assert len(place.plans) == 1
    gone = await place.run(None, again.model["Objects"])
    assert (gone.is_exception, gone.model["ObjectsCopy"]) == (False, None)
    assert await place.stacks.get("p", "ee1") is None


async def test_a_guest_that_fails_stops_the_task(place: Place) -> None:
    """The error of the plan is in a report on the unit, and the flag is not set."""
    place.answer = lambda plan: {
        **GOOD, "SourceID": plan["ID"], "ErrorCode": 100, "Body": {"Message": "boom"},
    }  # fmt: skip
    result = await place.run(telnet(), guests=("ee1-s1-u1",))
    assert "TelnetInstalled" not in result.model["Objects"]["services"][0]["units"][0]["state"]
    (failed,) = [one for one in place.reports.said if one[1] == "error"]
    assert failed[0] == "u1"
    assert "boom" in (failed[3] or "")


async def test_a_stack_that_fails_is_reported(place: Place) -> None:
    """A resource that cannot be made is an error on the unit; no plan is sent."""
    place.stacks.compute.fail["create_server"] = ResourceFailure("no room")
    result = await place.run(telnet())
    errors = [one for one in place.reports.said if one[1] == "error"]
    assert errors
    assert all("no room" in (one[3] or "") for one in errors)
    assert place.plans == []
    assert not result.is_exception


@pytest.mark.parametrize(
    ("environments", "hosts", "used", "expected"),
    [
        (20, 250, [], "10.0.0.0/24"),
        (20, 250, ["10.0.0.0/24", "10.0.1.128/25"], "10.0.2.0/24"),
        (20, 250, ["10.0.0.0/19"], None),
        (20, 250, ["fd00::/64"], "10.0.0.0/24"),
        (1, 2, [], "10.0.0.0/31"),
    ],
)
def test_the_first_free_range(
    environments: int, hosts: int, used: list[str], expected: str | None
) -> None:
    """The first block that meets no range in use (§11)."""
    assert first_free_range("10.0.0.0", environments, hosts, used) == expected
