"""Three clouds for one suite of stacks: in memory, simulated nodes, and real containers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import shutil
import socket
import subprocess
import tarfile
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.networks import unused_number

from vetro.compute import MIGRATIONS as COMPUTE_MIGRATIONS
from vetro.compute import ComputeService, ComputeSettings, ExternalNetwork, compute_face
from vetro.compute.client import ComputeClient
from vetro.compute.client.vm_calls import image_copies, vm
from vetro.compute.http.keys import NodeAware
from vetro.engine.signing import PlanSigner
from vetro.engine.worker.back_ends import StackGuests
from vetro.http import Principal, assemble, serve
from vetro.http.client import HttpClient
from vetro.messaging import MIGRATIONS as MESSAGING_MIGRATIONS
from vetro.messaging import Mailboxes
from vetro.node import NodeAgent, NodeSection, NodeSettings
from vetro.stacks import MIGRATIONS, Doors, MemoryStacks, NativeSettings, NativeStacks, StackEngine
from vetro.stacks.memory import MemorySignal
from vetro.stacks.memory.guests import DOOR
from vetro.storage import Database, migrate

KEY = "the key of nodes"


@dataclass
class Cloud:
    """Stacks, the offers of what is below them, and names that no other run has."""

    kind: str
    stacks: StackEngine
    offers: frozenset[str]
    subnet: str
    """The first two numbers of addresses of this run."""
    door: str = ""
    """Where guests find the door, and ``served``, where this process finds it."""
    served: str = ""
    mailboxes: Mailboxes | None = None
    agent: NodeAgent | None = None
    client: ComputeClient | None = None
    prefix: str = ""
    """The prefix of the node's containers."""

    def new_project(self) -> str:
        """A project of its own for every case."""
        return uuid.uuid4().hex

    async def signal(self, address: str, **signal: Any) -> None:
        """Report to an address as a guest does."""
        if isinstance(self.stacks, MemoryStacks):
            self.stacks.signals.send(address, MemorySignal(**signal))
            return
        async with HttpClient() as client:
            there = address.replace(self.door, self.served)
            answer = await client.request("POST", there, content=json.dumps(signal).encode())
        assert answer.status == 204, answer.text

    async def user_data(self, server: str) -> str:
        """The user data that a server was given."""
        if isinstance(self.stacks, MemoryStacks):
            return self.stacks.compute.server_list[server].spec.customer_metadata["user-data"]
        assert self.client is not None
        call: Any = replace(vm(server), answer=dict)
        return str((await self.client.send(call))["customer_metadata"]["user-data"])

    async def inside(self, server: str, *command: str) -> bool:
        """Run a command in a server's container: whether it went well."""
        [path] = Path("/run/vetro").glob(f"{self.prefix}-*")
        enter = ("lxc-attach", "-P", str(path), "-n", server, "--")
        return await (await asyncio.create_subprocess_exec(*enter, *command)).wait() == 0


class _Operator:
    async def authenticate(self, token: str) -> Principal | None:
        if token != "service":
            return None
        return Principal("service", "service", "", roles=frozenset({"admin"}))


def _root_file_system(target: Path) -> None:
    """A root of one static program, whose init serves nothing and stays."""
    busybox = shutil.which("busybox")
    assert busybox, "busybox-static is not installed (tools/system-packages.sh test)"
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    with tarfile.open(target, "w") as tar:

        def add(
            name: str, kind: bytes, data: bytes = b"", link: str = "", mode: int = 0o755
        ) -> None:
            info = tarfile.TarInfo(f"./{name}")
            info.type, info.linkname, info.mode, info.size = kind, link, mode, len(data)
            tar.addfile(info, BytesIO(data) if data else None)

        for name in ("bin", "sbin", "etc", "etc/init.d", "proc", "sys", "dev", "run", "tmp", "root",
                     "var", "usr", "usr/bin", "mnt"):  # fmt: skip
            add(name, tarfile.DIRTYPE)
        add("bin/busybox", tarfile.REGTYPE, Path(busybox).read_bytes())
        for applet in listed.stdout.split():
            if applet not in ("busybox", "init"):
                add(f"bin/{applet}", tarfile.SYMTYPE, link="busybox")
        add("sbin/init", tarfile.SYMTYPE, link="../bin/busybox")
        add("etc/passwd", tarfile.REGTYPE, b"root:x:0:0:root:/root:/bin/sh\n", mode=0o644)
        add("etc/init.d/rcS", tarfile.REGTYPE, b"#!/bin/sh\n/bin/true\n")


@contextlib.asynccontextmanager
async def _nodes(directory: Path, driver: str) -> AsyncGenerator[Cloud, None]:
    """The compute service with one node of ``driver``, and stacks on them."""
    token = secrets.token_hex(2)
    subnet = f"10.{100 + int(token[:2], 16) % 100}"
    database = await Database.open(f"sqlite:///{directory}/test.db")
    await migrate(database, [MIGRATIONS, COMPUTE_MIGRATIONS, MESSAGING_MIGRATIONS])
    external = ExternalNetwork(cidr=f"172.29.{unused_number()}.0/24")
    service = ComputeService(
        database,
        ComputeSettings(
            image_dir=directory / "images",
            node_key=KEY,
            external=external,
        ),
    )
    face = compute_face(
        service, NodeAware(_Operator(), node_key=KEY, service_key="the service's own"),
        prefix="/compute",
    )  # fmt: skip
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    port = listener.getsockname()[1]
    served, door = f"http://127.0.0.1:{port}", f"http://{external.gateway}:{port}"
    url = f"{served}/compute"
    mailboxes = Mailboxes(database)
    stop, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(
        serve(
            assemble([face, mailboxes.face()]),
            [listener],
            stop,
            drain_seconds=1,
            on_ready=ready.set,
        )
    )
    await ready.wait()
    agent = NodeAgent(
        NodeSettings(
            directory / "node",
            NodeSection(compute_url=url, key=KEY, driver=driver, prefix=f"q{token}"),
            heartbeat_seconds=0.2,
            # As on a machine where the service does not run.
            relay_guests=True,
        )
    )
    running = asyncio.create_task(agent.run())
    registered = asyncio.create_task(agent.registered.wait())
    await asyncio.wait({running, registered}, return_when=asyncio.FIRST_COMPLETED)
    registered.cancel()
    if running.done():
        running.result()
    image = await service.images.create(
        "", {"name": "debian", "type": "lxc-rootfs", "public": True}
    )
    await asyncio.to_thread(_root_file_system, directory / "upload")
    await service.images.add_file(image["uuid"], directory / "upload", None)
    try:
        async with ComputeClient(url, "service") as client:
            await client.send(image_copies(image["uuid"]))
            signer = PlanSigner.load_or_create(directory / "signing.pem")
            doors = Doors(
                signals=mailboxes.signals.at(door),
                guests=StackGuests(mailboxes, door, signer),
                url=door,
            )
            stacks = NativeStacks(
                database, client, doors=doors, settings=NativeSettings(balancer_image="debian")
            )
            offers = await stacks.offers()
            yield Cloud(
                driver, stacks, offers, subnet, door, served, mailboxes, agent, client, f"q{token}"
            )
    finally:
        agent.stop()
        await asyncio.wait({running})
        stop.set()
        await serving
        listener.close()
        await database.close()
        running.result()


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[
        "memory",
        # The image is made of busybox.
        pytest.param("simulated", marks=pytest.mark.programs),
        pytest.param("lxc", marks=[pytest.mark.root, pytest.mark.programs]),
    ],
)
async def cloud(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Any]:
    """A cloud, shared by the cases of a module: each has a project of its own."""
    if request.param == "memory":
        stacks = MemoryStacks()
        stacks.signals.obedient = False
        yield Cloud("memory", stacks, await stacks.offers(), "10.99", DOOR, DOOR)
        return
    directory = tmp_path_factory.mktemp(request.param)
    directory.chmod(0o755)
    async with _nodes(directory, request.param) as made:
        yield made
