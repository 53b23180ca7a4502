"""An engine whose programs run here, on stacks of a compute service in memory; all else is real."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from vetro.engine.journal import forget
from vetro.engine.settings import EngineSettings
from vetro.engine.worker.deployment import run_task
from vetro.environments import Environments, tables
from vetro.http import Principal
from vetro.muranopl import Runtime
from vetro.stacks.memory import MemoryCompute
from vetro.storage import Database

ANN = Principal("id-ann", "ann", "p", roles=frozenset({"member"}))
MANIFEST = """
Format: '1.4'
Type: Application
FullName: test.guarded
Classes:
  test.Blog: all.yaml
  test.Quiet: all.yaml
  test.Deaf: all.yaml
  test.Own: all.yaml
  test.Box: all.yaml
  test.Boxed: all.yaml
  test.Busy: all.yaml
  test.Installed: all.yaml
"""
CLASSES = """
Namespaces: {=: test, std: io.murano, res: io.murano.resources, sys: io.murano.system}
Name: Blog
Extends: std:Application
Properties:
  instance: {Contract: $.class(res:Instance).notNull()}
Methods:
  deploy:
    Body:
      - $.instance.deploy()
  shut:
    Scope: Public
    Body:
      - $.instance.releaseResources()
      - Return: closed
  # As the framework does: the machine's guest is told to end first.
  retire:
    Scope: Public
    Body:
      - $plan: {FormatVersion: 2.0.0, Name: quit, Body: 'return true', Scripts: {}}
      - $.instance.agent.sendRaw($plan)
      - $.instance.releaseResources()
---
# It waits for nothing: what it pushes is put off to the end.
Name: Quiet
Extends: Blog
Methods:
  deploy:
    Body:
      - $.instance.beginDeploy()
      - $region: $.instance.getRegion()
      - $region.stack.push(async => true)
---
Name: Deaf
Extends: Blog
Methods:
  deploy:
    Body:
      - Try:
          - $.instance.deploy()
        Catch:
          - As: e
            Do:
              - $.find(std:Environment).reporter.report($this, 'whatever')
---
# With a stack of its own, as packages of templates have.
Name: Own
Extends: std:Application
Properties:
  image: {Contract: $.string().notNull(), Default: debian}
  password: {Contract: $.string()}
  flavor: {Contract: $.string().notNull()}
  range: {Contract: $.string().notNull()}
  stack: {Contract: $.class(sys:HeatStack), Usage: Runtime}
Methods:
  .init:
    Body:
      - $.stack: new(sys:HeatStack, $this, name => own)
  deploy:
    Body:
      - $template:
          heat_template_version: '2013-05-23'
          resources:
            net: {type: 'OS::Neutron::Net'}
            subnet:
              type: 'OS::Neutron::Subnet'
              properties: {network: {get_resource: net}, cidr: $.range}
            shop:
              type: 'OS::Nova::Server'
              depends_on: subnet
              properties:
                name: shop
                image: $.image
                flavor: $.flavor
                networks: [{network: {get_resource: net}}]
      - $.stack.setTemplate($template)
      - $.stack.push()
  .destroy:
    Body:
      - $.stack.delete()
---
# It makes a network before it comes to its machine.
Name: Boxed
Extends: Blog
Properties:
  network: {Contract: $.class(res:Network)}
Methods:
  deploy:
    Body:
      - If: $.network != null
        Then: [$.network.deploy()]
      - $.instance.deploy()
---
# What it is made of the class alone knows.
Name: Box
Extends: res:Instance
Properties:
  base: {Contract: $.string().notNull(), Default: debian}
Methods:
  prepareStackTemplate:
    Arguments:
      - template: {Contract: {}}
    Body:
      - $server: $.name
      - $made: {resources: {$server: {properties: {image: $.base}}}}
      - Return: $template.mergeWith($made)
---
# It installs something before it comes to its machine.
Name: Installed
Extends: Blog
Properties:
  setting: {Contract: $.string().notNull()}
Methods:
  deploy:
    Body:
      - $installation: new(sys:Installation, of => $this, values => $.setting)
      - If: $installation.isDue()
        Then: [$installation.done()]
      - $.instance.deploy()
---
Name: Busy
Extends: Own
Properties:
  size: {Contract: $.int(), Default: 0}
Methods:
  .init:
    Body:
      - $.stack: new(sys:HeatStack, $this, name => format('busy-{0}', $.size))
"""


@dataclass
class Guarded:
    """Requests of a user, and the engine that serves them one after another."""

    database: Database
    rooms: Environments
    settings: EngineSettings
    runtime: Callable[[], Runtime]
    compute: MemoryCompute
    environment: str = ""

    async def create(self, *services: dict[str, Any]) -> None:
        """An environment with applications, deployed."""
        body = {"name": "e", "services": list(services)}
        made = await self.rooms.store.create(ANN, body)
        self.environment = made["id"]
        result = await self.deploy()
        assert not result["isException"], result
        self.compute.calls.clear()

    async def edit(self, change: Callable[[Any], None]) -> str:
        """Change the objects in a session; its id."""
        session = await self.rooms.sessions.configure(ANN, self.environment)
        await self.rooms.sessions.change_objects(ANN, self.environment, session["id"], change)
        return session["id"]

    async def deploy(
        self, session: str | None = None, may_lose: list[str] | None = None
    ) -> dict[str, Any]:
        """Deploy a session (a new one without changes); the stored result."""
        if session is None:
            session = (await self.rooms.sessions.configure(ANN, self.environment))["id"]
        task = await self.rooms.tasks.deploy(ANN, self.environment, session, may_lose=may_lose)
        return await self.serve(task)

    async def act(self, name: str, may_lose: list[str] | None = None) -> dict[str, Any]:
        """Call an action; the stored result."""
        model = await self.model()
        actions = model["services"][0]["?"]["_actions"]
        action = next(key for key, one in actions.items() if one["name"] == name)
        task = await self.rooms.tasks.call_action(
            ANN, self.environment, action, {}, may_lose=may_lose
        )
        return await self.serve(task)

    async def destroy(self) -> None:
        """Destroy the environment."""
        task = await self.rooms.tasks.delete_environment(ANN, self.environment, abandon=False)
        await self.serve(task)

    async def serve(self, task: str | None) -> dict[str, Any]:
        """Run a task as an engine does; the stored result."""
        claimed = await self.rooms.tasks.claim("engine", 600, task_id=task)
        assert claimed is not None
        lease, given = claimed
        result = await run_task(self.settings, self.runtime(), given, lease.fence)
        await self.rooms.tasks.finish_task(lease, result)
        await forget(self.database, given.id)
        async with self.database.read() as tx:
            row = (await tx.execute(select(tables.tasks).where(tables.tasks.c.id == task))).one()
        return {**row.result, "outcome": row.outcome}

    async def model(self) -> Any:
        """The objects of the environment as users see them."""
        async with self.database.read() as tx:
            row = await self.rooms.store.environment(tx, ANN, self.environment)
        return row.model["Objects"]

    async def whole(self) -> Any:
        """The environment's row: the model with its attributes, and the version."""
        async with self.database.read() as tx:
            row = await self.rooms.store.environment(tx, ANN, self.environment)
        return row.version, row.model

    async def status(self) -> str:
        """The environment's status."""
        async with self.database.read() as tx:
            return await self.rooms.store.status(tx, self.environment)

    @property
    def servers(self) -> dict[str, str]:
        """The machines by their names, with their ids."""
        return {one.spec.name: id_ for id_, one in self.compute.server_list.items()}


def blog(name: str, kind: str = "Blog", id_: str = "blog", **instance: Any) -> dict[str, Any]:
    """An application with one machine."""
    return {
        "?": {"id": id_, "type": f"test.{kind}"},
        "name": id_,
        "instance": {
            "?": {"id": f"{id_}-machine", "type": "io.murano.resources.Instance"},
            "name": name,
            "image": "debian",
            "flavor": "m1.tiny",
            "assignFloatingIp": True,
            **instance,
        },
    }


def disk(of: str) -> dict[str, Any]:
    """A volume for an application's machine."""
    header = {"id": f"{of}-disk", "type": "io.murano.resources.CinderVolume"}
    return {"?": header, "name": f"disk of {of}", "size": 1}


def own(kind: str = "Own", **properties: Any) -> dict[str, Any]:
    """An application with a stack of its own, which has the machine `shop`."""
    header = {"id": "own", "type": f"test.{kind}"}
    return {"?": header, "flavor": "m1.tiny", "range": "10.9.0.0/24", **properties}
