"""An engine with its database and its requests, and the applications that it deploys."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func, select

from vetro import log_context
from vetro.engine import EnginePool, EngineSettings
from vetro.engine.tables import journal
from vetro.environments import Environments, tables, task_channel
from vetro.http import Principal
from vetro.storage import Database

ANN = Principal("id-ann", "ann", "p", roles=frozenset({"member"}))
MANIFEST = """
Format: '1.4'
Type: Application
FullName: test.apps
Classes:
  test.Greeter: all.yaml
  test.Sleeper: all.yaml
  test.Napper: all.yaml
  test.Thrower: all.yaml
  test.Curious: all.yaml
  test.Hoarder: all.yaml
  test.Chatterer: all.yaml
  test.Keeper: all.yaml
  test.Tenant: all.yaml
"""
CLASSES = """
Namespaces: {=: test, std: io.murano, sys: io.murano.system}
Name: Greeter
Extends: std:Application
Properties:
  said: {Contract: $.string(), Usage: Out}
Methods:
  deploy:
    Body:
      - $reporter: $this.find(std:Environment).reporter
      - $reporter.report($this, one)
      - $reporter.report($this, two)
      - $.said: hello
---
Name: Keeper
Extends: std:Application
Properties:
  key: {Contract: $.string()}
  size: {Contract: $.int(), Usage: Out}
Methods:
  deploy:
    Body:
      - $text: decryptData($.key)
      - $this.find(std:Environment).reporter.report($this, 'got ' + $text)
      - $.size: len($text)
---
Name: Sleeper
Extends: std:Application
Methods:
  deploy:
    Body:
      - new(sys:Installation, of => $this).isDue()
      - $this.find(std:Environment).reporter.report($this, asleep)
      - sleep(3600)
---
Name: Napper
Extends: std:Application
Methods:
  deploy:
    Body:
      - $this.find(std:Environment).reporter.report($this, asleep)
      - sleep(1)
---
Name: Hoarder
Extends: std:Application
Properties:
  kept: {Contract: [$.string()], Usage: Out}
  times: {Contract: $.int(), Default: 0}
Methods:
  deploy:
    Body:
      - $unit: x
      - $text: $unit * 60000
      - $.kept: range(20).select($text)
      - $left: $.times
      - $all: []
      - While: $left > 0
        Do:
          - $all: $all + list($text + str($left))
          - $left: $left - 1
---
Name: Chatterer
Extends: std:Application
Methods:
  deploy:
    Body:
      - $unit: x
      - $text: begin + $unit * 100000 + end
      - $this.find(std:Environment).reporter.report($this, $text)
---
Name: Thrower
Extends: std:Application
Methods:
  deploy:
    Body:
      - Throw: Trouble
        Message: it broke
---
Name: Tenant
Extends: std:Application
Properties:
  password: {Contract: $.string()}
Methods:
  .destroy:
    Body:
      - Throw: Refused
        Message: format('the account of {0} stays', $.password)
---
Name: Curious
Extends: std:Application
Methods:
  deploy:
    Body:
      - $text: format('{0} of {1}', std:User.getCurrent().name, std:Project.getCurrent().name)
      - $this.find(std:Environment).reporter.report($this, $text)
"""


@dataclass
class Yard:
    """An engine's surroundings: a database, users' requests, the pool."""

    database: Database
    rooms: Environments
    settings: EngineSettings
    pool: EnginePool
    running: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    made: int = 0

    def start(self, pool: EnginePool | None = None) -> asyncio.Task[None]:
        """Run the pool."""
        task = asyncio.create_task((pool or self.pool).run(self.database))
        self.running.append(task)
        return task

    async def stop(self, task: asyncio.Task[None]) -> None:
        """Cancel a running pool, as a service that stops does."""
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def submit(
        self,
        class_name: str,
        request_id: str = "req-1",
        version: str = "0",
        user: Principal = ANN,
        **properties: Any,
    ) -> str:
        """Deploy an environment with one application; the task's id."""
        self.made += 1
        header = {"id": f"app-{self.made}", "type": f"test.{class_name}", "classVersion": version}
        body = {
            "name": f"e{self.made}",
            "defaultNetworks": {"environment": None, "flat": None},
            "services": [{"?": header, **properties}],
        }
        made = await self.rooms.store.create(user, body)
        session = await self.rooms.sessions.configure(user, made["id"])
        with log_context.saying(request_id=request_id):
            task = await self.rooms.tasks.deploy(user, made["id"], session["id"])
        assert task is not None
        return task

    async def reports(self, task: str) -> list[tuple[str, str, str | None]]:
        """Level, text and details of a task's reports."""
        async with self.database.read() as tx:
            rows = await self.rooms.tasks.history.reports(tx, task)
        return [(row.level, row.text, row.details) for row in rows]

    async def reported(self, task: str, text: str) -> None:
        """Wait for a report that begins like this."""
        async with self.database.listen(task_channel(task)) as subscription:
            while not any(one[1].startswith(text) for one in await self.reports(task)):
                await subscription.wait(60)

    async def ended(self, task: str) -> dict[str, Any]:
        """Wait for the end of a task; the stored result."""
        await self.reported(task, "Deployment finished")
        async with self.database.read() as tx:
            row = (await tx.execute(select(tables.tasks).where(tables.tasks.c.id == task))).one()
        return row.result

    async def gone(self, task: str) -> None:
        """Wait until the environment of a deletion is gone."""
        async with self.database.listen(task_channel(task)) as subscription:
            while True:
                async with self.database.read() as tx:
                    found = await tx.execute(select(tables.tasks).where(tables.tasks.c.id == task))
                    if found.one().environment_gone is not None:
                        return
                await subscription.wait(60)

    async def errors(self, task: str) -> list[str]:
        """The texts of error reports, of a task that has ended."""
        assert (await self.ended(task))["isException"]
        return [text for level, text, _ in await self.reports(task) if level == "error"]

    async def model(self, task: str) -> dict[str, Any]:
        """The objects of the task's environment now."""
        return (await self.stored(task))["Objects"]

    async def stored(self, task: str) -> dict[str, Any]:
        """The whole model of the task's environment now."""
        rows = tables.environments
        async with self.database.read() as tx:
            row = (await tx.execute(select(tables.tasks).where(tables.tasks.c.id == task))).one()
            found = await tx.execute(select(rows).where(rows.c.id == row.environment_id))
            return found.one().model

    async def journal_is_empty(self) -> bool:
        """Whether no task has left a journal."""
        return not await self.journal_rows()

    async def journal_rows(self) -> int:
        """How many rows the journal has."""
        async with self.database.read() as tx:
            return (await tx.execute(select(func.count()).select_from(journal))).scalar_one()


def zygote_of(pool: EnginePool) -> int:
    """The zygote's process id."""
    zygote = pool._zygote  # pyright: ignore[reportPrivateUsage]
    assert zygote is not None
    return zygote.pid
