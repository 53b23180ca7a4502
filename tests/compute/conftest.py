"""A compute service over HTTP without sockets; the nodes behind it are stand-ins that remember."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_SECONDS

from vetro.compute import MIGRATIONS, ComputeSection, ComputeService, ComputeSettings, compute_face
from vetro.compute.http.keys import NodeAware
from vetro.compute.servers.store import Agent
from vetro.compute.wire import node_key
from vetro.compute.work.agents import NodeTaskError, TaskCall
from vetro.http import Principal, assemble, serve
from vetro.http.client import HttpClient, Response
from vetro.storage import Clock, Database, ManualClock, SystemClock, migrate

MASTER = "the installation's secret"
PROJECT = "9f7c1b3a4a0e4c0d8a3cf4f4b7c1f111"
NODE = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a001"
OTHER = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a002"
IMAGE = "11111111-2222-4333-8444-555555555555"
VM = "22222222-2222-4333-8444-555555555555"
#: What is asked for `VM`.
PAYLOAD = {
    "uuid": VM,
    "image_uuid": IMAGE,
    "brand": "lx",
    "owner_uuid": PROJECT,
    "max_physical_memory": 512,
    "quota": 10,
    "cpu_cap": 100,
}


@dataclass
class Nodes:
    """Stand-ins for agents: they keep VMs, remember tasks, and fail as they are told to.

    ``answers``: by task, a result, an exception or a function of the task's call.
    """

    vms: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[TaskCall] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    agents: list[Agent] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    history: Any = field(default_factory=list)

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks that were sent, networks left out."""
        return [call.task for call in self.calls if call.task != "network_apply"]

    def last(self, task: str) -> TaskCall:
        """The newest call of a task."""
        return next(call for call in reversed(self.calls) if call.task == task)

    async def close(self) -> None:
        """Nothing is open."""

    async def run(self, agent: Agent, call: TaskCall) -> dict[str, Any]:
        """Run a task."""
        self.calls.append(call)
        self.agents.append(agent)
        answer = self.answers.get(call.task)
        if callable(answer):
            answer = answer(call)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        if answer is not None:
            return answer
        return self._do(call)

    def _do(self, call: TaskCall) -> dict[str, Any]:
        uuid = str(call.params.get("uuid", ""))
        if call.task == "machine_create":
            if uuid in self.vms:
                raise NodeTaskError(f"Machine {uuid} exists.", {"restCode": "VmAlreadyExists"})
            self.vms[uuid] = {**call.params, "state": "running", "zone_state": "running"}
        elif call.task == "machine_destroy":
            self.vms.pop(uuid, None)
            return {}
        elif not call.task.startswith("machine_"):
            return {}
        if uuid not in self.vms:
            raise NodeTaskError("VM.load error: not found", {"restCode": "VmNotFound"})
        vm = self.vms[uuid]
        states = {"machine_boot": "running", "machine_shutdown": "stopped"}
        vm["state"] = states.get(call.task, vm["state"])
        return dict(vm) if call.task == "machine_load" else {"vm": dict(vm)}

    async def call(
        self, agent: Agent, method: str, path: str, *, timeout_seconds: float = 250.0
    ) -> Any:
        """Another call of the agent's API."""
        self.requests.append((method, path))
        if isinstance(self.history, BaseException):
            raise self.history
        return self.history if path == "/history" else None


class Tokens:
    """An identity service of two tokens."""

    async def authenticate(self, token: str) -> Principal | None:
        """The operator and a user."""
        if token == "operator":
            return Principal("root", "root", "admin", roles=frozenset({"admin"}))
        if token == "user":
            return Principal("u", "u", PROJECT, roles=frozenset({"member"}))
        return None


#: For a test that waits for the service to do something at its time.
TIME_PASSES = pytest.mark.parametrize("clock", [SystemClock()], ids=["time passes"])


@dataclass
class World:
    """A running service, its nodes, and a way to call it."""

    service: ComputeService
    nodes: Nodes
    http: HttpClient
    database: Database
    url: str = ""

    async def call(
        self, method: str, path: str, body: object = None, *, token: str = "operator", **more: Any
    ) -> Response:
        """A request."""
        headers = {"X-Auth-Token": token} if token else {}
        headers.update(more.pop("headers", {}))
        return await self.http.request(
            method, f"/compute{path}", json=body, headers=headers, **more
        )

    async def ok(self, method: str, path: str, body: object = None, **more: Any) -> Any:
        """The JSON of a request that must succeed."""
        answer = await self.call(method, path, body, **more)
        assert answer.status < 300, (answer.status, answer.text)
        return answer.json()

    async def refused(
        self, method: str, path: str, body: object = None, **more: Any
    ) -> tuple[int, str, str]:
        """Status, code and message of a request that must fail."""
        answer = await self.call(method, path, body, **more)
        assert answer.status >= 400, (answer.status, answer.text)
        given = answer.json()
        return answer.status, given["code"], given["message"]

    @staticmethod
    def key_of(uuid_: str) -> dict[str, str]:
        """The headers of a node with a key of its own."""
        return {"Authorization": f"Bearer {node_key(MASTER, uuid_)}"}

    async def server(self, uuid: str = NODE, **sysinfo: Any) -> None:
        """Register a server that is set up and has a current agent."""
        info = {
            "UUID": uuid,
            "Hostname": f"node-{uuid[-1]}",
            "Setup": "true",
            "MiB of Memory": "8192",
            "System Type": "Linux",
            "SDC Version": "7.0",
            "Live Image": "20260101T000000Z",
            "Admin IP": "127.0.0.1",
            "Boot Time": "1700000000",
            "CPU Total Cores": 8,
            "Network Interfaces": {
                "eth0": {
                    "MAC Address": f"02:00:00:00:00:0{uuid[-1]}",
                    "ip4addr": "127.0.0.1",
                    "Link Status": "up",
                    "NIC Names": ["admin"],
                }
            },
            **sysinfo,
        }
        await self.ok("POST", f"/servers/{uuid}/sysinfo", {"sysinfo": info})
        await self.ok(
            "POST", f"/servers/{uuid}", {"agents": [{"name": "cn-agent", "version": "2.15.0"}]}
        )

    async def image(self, uuid: str = IMAGE) -> str:
        """An image the service knows."""
        await self.ok("POST", "/images", {"uuid": uuid, "name": "debian"})
        return uuid

    async def vm(self, server: str = NODE, **payload: Any) -> str:
        """A VM that runs."""
        uuid_ = str(payload.pop("uuid", uuid.uuid4()))
        await self.image()
        body = {
            "uuid": uuid_,
            "image_uuid": IMAGE,
            "brand": "lx",
            "owner_uuid": PROJECT,
            "max_physical_memory": 256,
            "quota": 5,
            **payload,
        }
        made = await self.ok("POST", f"/servers/{server}/vms", body)
        assert (await self.ended(made["id"]))["status"] == "complete"
        return uuid_

    async def ended(self, task: str) -> dict[str, Any]:
        """A task that ended."""
        view = await self.ok("GET", f"/tasks/{task}/wait?timeout=240")
        assert view["status"] != "active"
        return view

    async def job(self, uuid_: str) -> dict[str, Any]:
        """A job that ended."""
        view = await self.ok("GET", f"/jobs/{uuid_}/wait?timeout=240")
        assert view["execution"] not in ("queued", "running"), view
        return view


@asynccontextmanager
async def world_on(
    database: Database,
    directory: Path,
    nodes: Nodes | None = None,
    *,
    listening: bool = False,
    **settings: Any,
) -> AsyncIterator[World]:
    """A service on a database; several may run on one. ``listening``: on a port, for programs."""
    own = {one.name for one in fields(ComputeSection)}
    section = ComputeSection(
        **{"prefetch_images": "none", **{key: settings.pop(key) for key in own & {*settings}}}
    )
    service = ComputeService(database, ComputeSettings(directory, MASTER, section, **settings))
    # However slow a machine is, what a node has reported is stored when its report is answered.
    service.samples.patience_seconds = PATIENCE_SECONDS
    nodes = nodes or Nodes()
    await service.work.agents.close()
    service.work.agents = nodes  # type: ignore[assignment]
    face = compute_face(
        service, NodeAware(Tokens(), node_key=MASTER, service_key="the service's own")
    )
    assembly = assemble([face])
    if listening:
        with socket.socket(proto=socket.IPPROTO_TCP) as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(64)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            ready, stop = asyncio.Event(), asyncio.Event()
            served = asyncio.create_task(
                serve(assembly, [listener], stop, drain_seconds=1, on_ready=ready.set)
            )
            await ready.wait()
            try:
                async with HttpClient(base_url=url, timeout_seconds=250) as http:
                    yield World(service, nodes, http, database, url)
            finally:
                stop.set()
                await served
        return
    async with (
        assembly.running(),
        HttpClient(app=assembly, base_url="http://compute", timeout_seconds=250) as http,
    ):
        yield World(service, nodes, http, database)


@pytest.fixture
def clock() -> Clock:
    """Time that stands still: however slow a machine is, nodes stay alive (see `TIME_PASSES`)."""
    return ManualClock()


@pytest.fixture
async def world(tmp_path: Path, clock: Clock) -> AsyncIterator[World]:
    """A service with one node, on SQLite."""
    database = await Database.open(f"sqlite:///{tmp_path}/world.db", clock=clock)
    await migrate(database, [MIGRATIONS])
    async with world_on(database, tmp_path) as one:
        await one.server()
        yield one
    await database.close()


@pytest.fixture
async def served(tmp_path: Path, clock: Clock) -> AsyncIterator[World]:
    """A service with one node on a port of this machine."""
    database = await Database.open(f"sqlite:///{tmp_path}/served.db", clock=clock)
    await migrate(database, [MIGRATIONS])
    async with world_on(database, tmp_path, listening=True) as one:
        await one.server()
        yield one
    await database.close()


@pytest.fixture
async def any_world(database_url: str, tmp_path: Path, clock: Clock) -> AsyncIterator[World]:
    """A service with one node, on each database."""
    database = await Database.open(database_url, clock=clock)
    await migrate(database, [MIGRATIONS])
    async with world_on(database, tmp_path) as one:
        await one.server()
        yield one
    await database.close()


MakeWorld = Callable[..., Awaitable[World]]


@pytest.fixture
async def make_world(database_url: str, tmp_path: Path, clock: Clock) -> AsyncIterator[MakeWorld]:
    """Makes services on one database, each with a connection of its own."""
    async with AsyncExitStack() as stack:

        async def make(nodes: Nodes | None = None, clock: Clock = clock, **settings: Any) -> World:
            database = await Database.open(database_url, data_dir=tmp_path, clock=clock)
            stack.push_async_callback(database.close)
            await migrate(database, [MIGRATIONS])
            return await stack.enter_async_context(world_on(database, tmp_path, nodes, **settings))

        yield make


@pytest.fixture(name="world_on")
def fixture_world_on() -> Any:
    """Makes a service on a database that is open."""
    return world_on
