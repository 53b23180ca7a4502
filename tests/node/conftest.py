"""Stand-ins for the compute service, and what containers need: a tiny image and names of our own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import subprocess
import tarfile
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from vetro.http.client import HttpClient
from vetro.node.drivers import Driver, Hypervisors
from vetro.node.drivers.lxc.host import inspect
from vetro.node.drivers.lxc.hypervisor import LxcHypervisor
from vetro.node.drivers.simulated import SimulatedHypervisor
from vetro.node.images.store import ImageStore
from vetro.node.migration import Migrations
from vetro.node.network import NetworkApplier
from vetro.node.network.nic_tags import NicTags
from vetro.node.storage import open_pool
from vetro.node.storage.volumes import VolumeStore
from vetro.node.streams.servers import Streams
from vetro.node.tasks import NodeParts, register_all
from vetro.node.tasks.host import Host
from vetro.node.vm_objects import MachineStore
from vetro.node.work.api import TaskApi
from vetro.node.work.fences import Fences
from vetro.node.work.history import History
from vetro.node.work.queues import TaskRunner

IMAGE = "11111111-1111-4111-8111-111111111111"
OTHER_IMAGE = "22222222-2222-4222-8222-222222222222"


def new_uuid() -> str:
    """A fresh uuid."""
    return str(uuid.uuid4())


@dataclass
class Simulation:
    """A driver over pretended VMs, with its parts."""

    driver: Driver
    hypervisor: SimulatedHypervisor
    store: MachineStore
    images: ImageStore


async def simulate(directory: Path, images: ImageStore | None = None) -> Simulation:
    """A simulated driver on ``directory``, opened; with an image store of its own by default."""

    async def describe(uuid: str) -> dict[str, Any] | None:
        return {"uuid": uuid, "name": "tiny"} if uuid == IMAGE else None

    async def fetch(_uuid: str, _path: Path) -> None:
        raise AssertionError("a driver without root file systems fetches no file")

    if images is None:
        images = ImageStore(directory / "images", describe=describe, fetch=fetch, id_base=None)
    await images.open()
    store = MachineStore(directory / "vms")
    hypervisor = SimulatedHypervisor(store)
    driver = Driver(Hypervisors(store, hypervisor), store, images, lambda: {"server_uuid": "here"})
    await driver.open()
    return Simulation(driver, hypervisor, store, images)


@pytest.fixture
async def simulation(tmp_path: Path) -> AsyncIterator[Simulation]:
    """A simulated driver."""
    made = await simulate(tmp_path)
    yield made
    await made.driver.close()


@dataclass
class FakeService:
    """A compute service that answers 200 and remembers; ``answers``: path ending → (status, body)."""

    url: str = ""
    requests: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    connections: set[asyncio.Task[Any]] = field(default_factory=set)

    def find(self, ending: str) -> list[Any]:
        """The bodies of requests whose path ends like this."""
        return [body for _, path, _, body in self.requests if path.endswith(ending)]

    async def wait_for(self, ending: str, count: int = 1) -> list[Any]:
        """Wait until that many requests came; their bodies."""
        async with asyncio.timeout(240), self.arrived:
            await self.arrived.wait_for(lambda: len(self.find(ending)) >= count)
        return self.find(ending)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        work = asyncio.current_task()
        assert work is not None
        self.connections.add(work)
        work.add_done_callback(self.connections.discard)
        try:
            while line := await reader.readline():
                method, path, _ = line.decode().split(" ", 2)
                headers: dict[str, str] = {}
                while (header := await reader.readline()).strip():
                    name, _, value = header.decode().partition(":")
                    headers[name.lower()] = value.strip()
                raw = await reader.readexactly(int(headers.get("content-length", "0")))
                body = msgspec.json.decode(raw) if raw else None
                status, answer = next(
                    (a for ending, a in self.answers.items() if path.endswith(ending)), (200, b"{}")
                )
                writer.write(
                    b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                    % (status, len(answer))
                    + answer
                )
                await writer.drain()
                async with self.arrived:
                    self.requests.append((method, path, headers, body))
                    self.arrived.notify_all()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.transport.abort()

    async def close(self) -> None:
        """End all connections."""
        for work in list(self.connections):
            work.cancel()
        await asyncio.gather(*self.connections, return_exceptions=True)


@pytest.fixture
async def service() -> AsyncIterator[FakeService]:
    """A compute service on a free port."""
    fake = FakeService()
    server = await asyncio.start_server(fake.handle, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/compute"
    fake.answers[f"/images/{IMAGE}"] = (200, msgspec.json.encode({"uuid": IMAGE, "name": "tiny"}))
    yield fake
    server.close()
    await fake.close()


def busybox_tar(target: Path) -> Path:
    """A root file system of one static program, as a tar with the owners of an ordinary image."""
    busybox = shutil.which("busybox")
    assert busybox, "busybox-static is not installed (tools/system-packages.sh test)"
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    with tarfile.open(target, "w") as tar:

        def add(name: str, *, mode: int = 0o755, data: bytes | None = None, link: str = "") -> None:
            info = tarfile.TarInfo(f"./{name}")
            info.mode = mode
            if link:
                info.type, info.linkname = tarfile.SYMTYPE, link
            elif data is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(data)
            tar.addfile(info, BytesIO(data) if data is not None and not link else None)

        for name in ("bin", "sbin", "etc", "proc", "sys", "dev", "run", "tmp", "root", "var",
                     "usr", "usr/bin", "www", "etc/init.d"):  # fmt: skip
            add(name, mode=0o1777 if name == "tmp" else 0o755)
        add("bin/busybox", data=Path(busybox).read_bytes())
        for applet in applets.stdout.split():
            if applet not in ("busybox", "init"):
                add(f"bin/{applet}", link="busybox", mode=0o777)
        add("sbin/init", link="../bin/busybox", mode=0o777)
        add("etc/passwd", mode=0o644, data=b"root:x:0:0:root:/root:/bin/sh\n")
        add("www/index.html", mode=0o644, data=b"a page\n")
        add("etc/init.d/rcS", data=b"#!/bin/sh\n/bin/httpd -h /www\n")
    return target


@dataclass(kw_only=True)
class Wired:
    """A driver over real VMs, with its parts, names of its own, and the network of its VMs."""

    driver: Driver
    store: MachineStore
    images: ImageStore
    network: NetworkApplier
    prefix: str
    subnet: str
    network_uuid: str = field(default_factory=new_uuid)
    versions: int = 0

    def new_nic(self, host: int, **more: Any) -> dict[str, Any]:
        """An interface with the address ``<subnet>.<host>``."""
        return {
            "mac": f"02:00:{secrets.token_hex(1)}:00:00:{host:02x}",
            "ip": f"{self.subnet}.{host}",
            "netmask": "255.255.255.0",
            "gateway": f"{self.subnet}.1",
            "network_uuid": self.network_uuid,
            **more,
        }

    async def apply_state(self, nics: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Apply a state with one network and these interfaces."""
        self.versions += 1
        return await self.network.apply(
            {
                "version": self.versions,
                "nics": nics,
                "networks": [
                    {
                        "uuid": self.network_uuid,
                        "name": "net",
                        "cidr": f"{self.subnet}.0/24",
                        "gateway": f"{self.subnet}.1",
                        "mtu": 1400,
                        "masquerade": True,
                    }
                ],
                **more,
            }
        )


@dataclass(kw_only=True)
class Containers(Wired):
    """A driver over real containers."""

    directory: Path
    nic = Wired.new_nic
    apply = Wired.apply_state

    async def plugged(self, host: int, **more: Any) -> dict[str, Any]:
        """An interface on the network, which is applied with it."""
        nic = self.nic(host, **more)
        await self.apply([nic])
        return nic

    async def connected(self, host: int, **more: Any) -> dict[str, Any]:
        """A running container with an interface on the network."""
        return await self.create([await self.plugged(host)], **more)

    async def create(self, nics: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """A running container with these interfaces."""
        payload = {"uuid": new_uuid(), "brand": "lx", "image_uuid": IMAGE, "nics": nics, **more}
        return await self.driver.create(payload, lambda _step, _percent: None)


async def open_containers(
    directory: Path, prefix: str, subnet: str, *, allow_privileged: bool = False
) -> Containers:
    """A container driver on ``directory``, as an agent would open it."""
    host = inspect(prefix, directory, allow_privileged=allow_privileged)
    pool = await open_pool("auto", directory)

    async def describe(uuid: str) -> dict[str, Any] | None:
        return {"uuid": uuid} if uuid in (IMAGE, OTHER_IMAGE) else None

    async def fetch(_uuid: str, path: Path) -> None:
        busybox_tar(path)

    images = ImageStore(
        directory / "images",
        describe=describe,
        fetch=fetch,
        id_base=host.id_base,
        trees=pool.trees,
        layered=pool.layered,
    )
    await images.open()
    store = MachineStore(directory / "vms")
    store.open()
    network = NetworkApplier(prefix, directory / "network.json")
    volumes = VolumeStore(directory / "volumes")
    hypervisor = LxcHypervisor(host, store, images, None, pool, volumes)
    driver = Driver(Hypervisors(store, hypervisor), store, images, dict, volumes)
    await driver.open()
    return Containers(
        driver=driver, store=store, images=images, network=network,
        prefix=prefix, subnet=subnet, directory=directory,
    )  # fmt: skip


@pytest.fixture
def node_names() -> tuple[str, str]:
    """An interface prefix and a subnet that no other run has."""
    token = secrets.token_hex(2)
    given = os.environ.get("VETRO_NODE_PREFIX")
    prefix = given[:2] + token[:4] if given else f"q{token}"
    return prefix, f"10.{100 + int(token[:2], 16) % 100}.{int(token[2:], 16)}"


def traces(prefix: str, directory: Path) -> list[str]:
    """Everything of an agent that is left on this machine outside of its data directory."""
    links = [path.name for path in Path("/sys/class/net").iterdir()]
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    processes = subprocess.run(
        ["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True
    )
    return [
        *(f"link {name}" for name in links if name.startswith(prefix)),
        *(line for line in tables.stdout.splitlines() if prefix in line),
        *(line for line in mounts if f"/run/vetro/{prefix}-" in line),
        *(
            line
            for line in processes.stdout.splitlines()
            if str(directory) in line and "lxc" in line
        ),
        *(str(path) for path in Path("/run/vetro").glob(f"{prefix}-*/*")),
    ]


@contextlib.contextmanager
def loop_mount(directory: Path, kind: str, mebibytes: int = 512) -> Iterator[Path]:
    """A file system of this kind in a file, mounted in ``directory``."""
    image, point = directory / f"{kind}.image", directory / kind
    with image.open("wb") as file:
        file.truncate(mebibytes << 20)
    subprocess.run([f"mkfs.{kind}", "-q", str(image)], check=True, capture_output=True)
    point.mkdir()
    subprocess.run(["mount", "-o", "loop", str(image), str(point)], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", "--lazy", str(point)], check=True)
        image.unlink()


@pytest.fixture
async def containers(tmp_path: Path, node_names: tuple[str, str]) -> AsyncIterator[Containers]:
    """A container driver; afterwards nothing of it may be left on the machine."""
    prefix, subnet = node_names
    opened = await open_containers(tmp_path, prefix, subnet)
    yield opened
    for vm in opened.store:
        await opened.driver.delete(vm["uuid"])
    opened.versions += 1
    await opened.network.apply({"version": 10**9})
    await opened.driver.close()
    assert traces(prefix, tmp_path) == []


SERVER = "99999999-1111-4111-8111-111111111111"


@dataclass
class Node:
    """The tasks of a node over some driver, reached in process through the task API."""

    client: HttpClient
    runner: TaskRunner
    driver: Any
    simulation: Any
    parts: NodeParts
    published: list[tuple[dict[str, Any], bytes]]
    refreshed: list[bool]

    async def task(self, name: str, headers: Mapping[str, str] | None = None, **params: Any) -> Any:
        """``(status, body)`` of a task."""
        answer = await self.client.request(
            "POST", "/tasks", json={"task": name, "params": params}, headers=headers
        )
        return answer.status, answer.json()

    async def good(self, name: str, **params: Any) -> Any:
        """The result of a task that must succeed."""
        status, body = await self.task(name, **params)
        assert status == 200, body
        return body

    async def create(self, kit: SimpleNamespace, **more: Any) -> str:
        """A running VM's uuid."""
        body = await self.good("machine_create", image_uuid=kit.image, brand="lx", **more)
        return str(body["vm"]["uuid"])


@contextlib.asynccontextmanager
async def node_over(
    driver: Any, images: ImageStore, directory: Path, host: Any = None
) -> AsyncIterator[Node]:
    """All tasks over a driver, with the key ``secret``; what is published stays in memory."""
    history = History(directory / "tasks")
    history.open()
    runner = TaskRunner(history, fences=Fences(directory / "fences.json"))
    published: list[tuple[dict[str, Any], bytes]] = []
    refreshed: list[bool] = []
    tags = NicTags(directory / "networking.json", directory / "sys-net")

    async def sysinfo() -> dict[str, Any]:
        return {"UUID": SERVER}

    async def refresh() -> None:
        refreshed.append(True)

    async def publish(manifest: Mapping[str, Any], file: Path, _url: str) -> None:
        published.append((dict(manifest), file.read_bytes()))

    async def fetch_backup(uuid: str, path: Path) -> None:
        shutil.copy(directory / f"backup-{uuid}", path)

    async def publish_backup(uuid: str, path: Path, _told: Mapping[str, Any]) -> None:
        shutil.copy(path, directory / f"backup-{uuid}")

    streams, migrations = Streams("127.0.0.1"), Migrations("127.0.0.1")
    parts = NodeParts(
        driver=driver,
        images=images,
        network=None,
        pool=await open_pool("auto", directory),
        pool_name="zones",
        tags=tags,
        streams=streams,
        migrations=migrations,
        sysinfo=sysinfo,
        changed=lambda: None,
        refresh_agents=refresh,
        describe=images._describe,  # the store's own stand-in for the service
        fetch=images._fetch,
        publish=publish,
        data_dir=directory,
        server_uuid=SERVER,
        host=host or Host(["touch", str(directory / "rebooted")]),
        fetch_backup=fetch_backup,
        publish_backup=publish_backup,
    )
    register_all(runner, parts)
    api = TaskApi(runner, SERVER, "secret", "1.0", images)
    async with HttpClient(
        app=api, base_url="http://node", headers={"Authorization": "Bearer secret"}
    ) as client:
        yield Node(client, runner, driver, None, parts, published, refreshed)
    await streams.close()
    await migrations.close()
    await runner.close(0)


@pytest.fixture
async def node(simulation: Simulation, tmp_path: Path) -> AsyncIterator[Node]:
    """All tasks over the simulated driver."""
    async with node_over(simulation.driver, simulation.images, tmp_path) as made:
        made.simulation = simulation
        yield made


@pytest.fixture
def kit() -> SimpleNamespace:
    """The functions above: test modules cannot import this one."""
    return SimpleNamespace(
        image=IMAGE,
        new_uuid=new_uuid,
        simulate=simulate,
        open_containers=open_containers,
        busybox_tar=busybox_tar,
        traces=traces,
        loop_mount=loop_mount,
        node_over=node_over,
        server=SERVER,
    )


@pytest.fixture
def fake_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is searched first for tools."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    return directory
