"""The core library on a cloud in memory."""

from __future__ import annotations

import copy
import json
import os
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.library.runtimes import Runtimes

from vetro.engine.system.memory import MemoryCloud
from vetro.engine.worker.deployment import keep_what_is_left, stored_model
from vetro.muranopl import (
    DirectEffects,
    MemoryPackage,
    Runtime,
    Session,
    SessionInfo,
    TaskReply,
)

Model = dict[str, Any]
#: Findings about names that nothing has: of a package that works they are wrong.
NAMES = ("W206", "W208", "W209", "W211")
LINUX = "io.murano.resources.LinuxMuranoInstance"
APP = """
Namespaces:
  =: test
  std: io.murano
  res: io.murano.resources
  sys: io.murano.system
  conf: io.murano.configuration
  py: ''
  app: io.murano.applications
"""

PROBE = """
Name: Probe
Extends: std:Application
Properties:
{properties}
Methods:
  go:
    Scope: Public
    Body:
      - $env: $this.find(std:Environment)
      - $region: $env.regions.get('')
      - $stack: $env.stack
{body}
"""


class Laboratory:
    """Runs tasks on a cloud in memory, one session each, as an engine does.

    Its static methods make models.
    """

    def __init__(self, cloud: MemoryCloud, runtimes: Runtimes) -> None:
        self.cloud = cloud
        self.runtimes = runtimes
        self.make: Callable[[], Runtime] = runtimes.new
        """A test may have another core library."""
        self.packages: list[Any] = []
        self.effects: list[DirectEffects] = []
        self.model: Model | None = None
        self.resources: dict[str, str | bytes] = {}
        """Resources of the package that probes are in."""
        self.class_configs: dict[str, Any] = {}
        self.format = "1.4"
        """Of the package that classes are added in."""
        self.extra = ""
        """Classes beside the probe's."""
        self.libraries: list[Any] = []
        """Packages beside it, which it requires."""
        self.deployed: dict[int, list[Any]] = {}
        """Packages of tasks that succeeded, each last in a list of those beside it."""

    def add_class(self, text: str, resources: dict[str, str | bytes] | None = None) -> None:
        """A package `test` with these classes (the namespaces of `APP` come before them)."""
        names = [line.split()[1] for line in text.splitlines() if line.startswith("Name:")]
        files = {"all.yaml": APP + text.strip() + "\n"}
        self.packages.append(
            MemoryPackage(
                "test",
                files,
                {f"test.{name}": "all.yaml" for name in names},
                resources={
                    key: value.encode() if isinstance(value, str) else value
                    for key, value in (resources or self.resources).items()
                },
                format=self.format,
                requirements={one.full_name: None for one in self.libraries},
            )
        )

    def session(self, environment_id: str = "env") -> Session:
        """A session on the cloud."""
        packages = [*self.libraries, *self.packages]
        if self.make == self.runtimes.new:
            runtime = self.runtimes.shared(packages, self.class_configs)
        else:
            runtime = self.make()
            runtime.class_configs = self.class_configs
            for package in packages:
                runtime.add_package(package)
        effects = DirectEffects(seed=len(self.effects))
        self.effects.append(effects)
        return runtime.session(
            effects=effects,
            services=self.cloud.services(environment_id),
            info=SessionInfo(project_id="project", environment_owner_project_id="project"),
        )

    async def run(self, model: Model, action: dict[str, Any] | None) -> TaskReply:
        """One task; the model is not changed."""
        session = self.session()
        reply = await session.run_task_async({"action": action, "model": copy.deepcopy(model)})
        if model.get("Objects") is None:
            keep_what_is_left(reply, session.services.left)
        # As it comes back from the database: nothing in it is shared.
        reply.model = json.loads(json.dumps(stored_model(reply, model)))
        if not reply.is_exception:
            around = [*self.libraries, *self.packages]
            for one in self.packages:
                self.deployed[id(one)] = [*(item for item in around if item is not one), one]
        return reply

    def false_alarms(self) -> list[str]:
        """What the lint has against the classes of packages that work."""
        every = self.deployed.values()
        return [
            alarm for one in every for alarm in self.runtimes.false_alarms(one, NAMES, self.make)
        ]

    async def deploy(self, model: Model, *, fails: bool = False) -> Model:
        """Deploy an environment; the model after it. A failure is an error unless `fails`."""
        reply = await self.run(model, {"object_id": "env", "method": "deploy", "args": {}})
        if not fails:
            assert not reply.is_exception, reply.details
        else:
            assert reply.is_exception
        self.reply = reply
        return reply.model

    async def call(self, model: Model, object_id: str, method: str, **args: Any) -> Any:
        """Run an action of an object; its result. The model after it is `self.reply.model`."""
        self.reply = await self.run(model, {"object_id": object_id, "method": method, "args": args})
        assert not self.reply.is_exception, self.reply.details
        return self.reply.result

    async def probe(
        self, body: str, model: Model | None = None, *, fails: bool = False, **properties: Any
    ) -> Any:
        """Run statements in an environment; what they return, or the message of their failure.

        `$env`, `$stack`, `$region` are there; `properties` are models by name, as `$.name`. The
        model goes on to the next probe unless one is given.
        """
        lines = "\n".join("      " + line for line in textwrap.dedent(body).strip().splitlines())
        declared = "\n".join(f"  {name}: {{Contract: $.class(std:Object)}}" for name in properties)
        self.packages = []
        text = PROBE.format(body=lines, properties=declared or "  unused: {Contract: $}")
        self.add_class(text.strip() + "\n---\n" + self.extra.strip() if self.extra else text)
        if model is None:
            model = self.model or self.environment(networks={})
        root = model["Objects"]
        for one in root["applications"]:
            # `...` is what the last probe had.
            kept = {name: one[name] for name, value in properties.items() if value is ...}
            properties = {**properties, **kept}
        root["applications"] = [
            one for one in root["applications"] if one["?"]["id"] != "probe"
        ] + [self.application("probe", "test.Probe", **properties)]
        reply = await self.run(model, {"object_id": "probe", "method": "go", "args": {}})
        self.reply = reply
        assert reply.is_exception is fails, reply.details
        self.model = reply.model
        return reply.message if fails else reply.result

    async def failure(self, model: Model, object_id: str = "env", method: str = "deploy") -> str:
        """Run an action that fails; the message."""
        self.reply = await self.run(model, {"object_id": object_id, "method": method, "args": {}})
        assert self.reply.is_exception
        return str(self.reply.message)

    async def destroy(self, model: Model) -> Model:
        """Delete the environment."""
        copied = model.get("ObjectsCopy") or model["Objects"]
        reply = await self.run({**model, "Objects": None, "ObjectsCopy": copied}, None)
        assert not reply.is_exception, reply.details
        return reply.model

    def calls(self) -> list[str]:
        """The compute service's changing calls since the last time this was asked."""
        found = list(self.cloud.compute.calls)
        self.cloud.compute.calls.clear()
        return found

    def kinds(self, run: int = -1) -> list[str]:
        """The kinds of effects of one run, in order."""
        return [kind for kind, _ in self.effects[run].performed]

    def texts(self, level: str | None = None) -> list[str]:
        """The texts of reports."""
        return [
            text for _, its, text in self.cloud.reports.reports if level is None or its == level
        ]

    async def template(self) -> dict[str, Any]:
        """The template of the environment's stack."""
        stacks = list(self.cloud.stacks.store.stacks.values())
        assert len(stacks) == 1
        return stacks[0].template

    @staticmethod
    def network(id_: str = "net", **properties: Any) -> Model:
        """A network of the environment's own."""
        return {
            "?": {"id": id_, "type": "io.murano.resources.NeutronNetwork"},
            "name": "env-network",
            **properties,
        }

    @staticmethod
    def instance(
        id_: str = "vm", name: str = "web", type_: str = LINUX, **properties: Any
    ) -> Model:
        """An instance."""
        return {
            "?": {"id": id_, "type": type_},
            "name": name,
            "flavor": "m1.small",
            "image": "debian",
            **properties,
        }

    @staticmethod
    def application(id_: str, type_: str, **properties: Any) -> Model:
        """An application."""
        return {"?": {"id": id_, "type": type_}, **properties}

    @staticmethod
    def environment(
        *applications: Model, networks: Model | None = None, **properties: Any
    ) -> Model:
        """A model with one environment."""
        return {
            "Objects": {
                "?": {"id": "env", "type": "io.murano.Environment"},
                "name": "shop",
                "applications": list(applications),
                "defaultNetworks": {
                    "environment": Laboratory.network() if networks is None else networks or None,
                    "flat": None,
                },
                **properties,
            }
        }


@pytest.fixture(scope="session")
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> Runtimes:
    """The runtimes of all tests; what they compile is there for the other processes of the run."""
    base = tmp_path_factory.getbasetemp()
    return Runtimes((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "code")


@pytest.fixture
def lab(tmp_path: Path, runtimes: Runtimes) -> Iterator[Laboratory]:
    """The core library on an empty cloud. The lint has nothing against what a test has deployed."""
    made = Laboratory(MemoryCloud(tmp_path), runtimes)
    yield made
    assert made.false_alarms() == []
