"""Virtual machines for tests: a small image, and a driver with names of its own."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import subprocess
import tarfile
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.node.conftest import OTHER_IMAGE, Wired, busybox_tar, new_uuid

from vetro.node.drivers import Driver, Hypervisors
from vetro.node.drivers.qemu.daemon import QEMU_UID
from vetro.node.drivers.qemu.hypervisor import QemuHypervisor
from vetro.node.images import vm_images
from vetro.node.images.store import ImageStore
from vetro.node.network import NetworkApplier
from vetro.node.storage.volumes import VolumeStore
from vetro.node.vm_objects import MachineStore


@pytest.fixture(scope="session")
def vm_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a VM image: the distribution's kernel, busybox and a web page."""
    return image_file(tmp_path_factory)


def image_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image of ``vm_image``, made once in a run."""
    directory = tmp_path_factory.getbasetemp() / "vm-image"
    if not (directory / "image.tar").exists():
        directory.mkdir()
        # In a thread: a loop may be running here.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(_make_image, directory).result()
    return directory / "image.tar"


def _make_image(directory: Path) -> None:
    # mmdebstrap's tools and QEMU pass through as other users.
    directory.chmod(0o755)
    for parent in directory.parents:
        if parent.name.startswith("pytest-"):
            parent.chmod(0o711)
    sources = vm_images.host_sources("bookworm", Path("/etc/apt"))
    kernel = asyncio.run(vm_images.unpack_kernel("bookworm", sources, directory, AGENT_PACKAGES))
    root = busybox_tar(directory / "root.tar")
    with tarfile.open(root, "a") as tar:
        # QEMU's agent, with the libraries it needs and nothing else.
        unpacked = directory / "tree/wanted"
        for name in ("lib", "lib64", "usr/lib", "usr/lib64", "usr/sbin"):
            if (unpacked / name).exists():
                tar.add(unpacked / name, f"./{name}", filter=_of_the_agent)
        # The console of a test is a shell: root has no password there.
        entry = tarfile.TarInfo("./etc/passwd")
        line = b"root::0:0:root:/root:/bin/sh\n"
        entry.size = len(line)
        tar.addfile(entry, BytesIO(line))
    asyncio.run(vm_images.assemble(root, kernel, directory / "image.tar"))


_PR_SET_CHILD_SUBREAPER = 36

# The agent and its libraries: unpacked, not installed.
AGENT_PACKAGES = (
    "qemu-guest-agent", "libglib2.0-0", "libpcre2-8-0", "libudev1", "liburing2", "libc6", "libcap2",
    "libgcc-s1", "libnuma1",
)  # fmt: skip


def _of_the_agent(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    skipped = ("modules", "gconv", "locale", "systemd", "udev")
    return None if any(f"/{name}" in entry.name for name in skipped) else entry


@pytest.fixture(scope="session")
def vm_host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A driver's directory that knows what this machine can: found out once, copied for each test."""
    return host_directory(tmp_path_factory)


def host_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of ``vm_host``, made once in a run."""
    directory = tmp_path_factory.getbasetemp() / "vm-host"
    if not directory.exists():
        directory.mkdir()
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _find_out(directory)).result()
    return directory / "qemu"


async def _find_out(directory: Path) -> None:
    store = MachineStore(directory / "vms")
    store.open()
    (directory / "images").mkdir()
    images = ImageStore(directory / "images", describe=_nothing, fetch=_nothing, id_base=None)
    hypervisor = QemuHypervisor(directory / "qemu", store, images, prefix="vmhost")
    await hypervisor.open([], lambda _uuid: None, lambda _uuid: None)
    await hypervisor.connection()
    await hypervisor.close()


async def _nothing(*_arguments: object) -> Any:
    raise AssertionError("no image is asked for")


def know_the_host(vm_host: Path, directory: Path) -> None:
    """Copy what is known of the machine into a new driver's directory."""
    (directory / "qemu").mkdir(mode=0o711)
    shutil.copytree(vm_host / "cache", directory / "qemu/cache")
    shutil.copy(vm_host / "accelerator.json", directory / "qemu")


@dataclass(kw_only=True)
class Machines(Wired):
    """A driver over real virtual machines."""

    hypervisor: QemuHypervisor
    image: str
    # Image files by uuid that are not the usual one.
    files: dict[str, Path]
    nics: list[dict[str, Any]] = field(default_factory=list)

    async def nic(self, host: int, **more: Any) -> dict[str, Any]:
        """An interface that the node's rules know."""
        nic = self.new_nic(host, **more)
        self.nics.append(nic)
        await self.apply()
        return nic

    async def apply(self) -> None:
        """Bring the node's network to the interfaces given out so far."""
        await self.apply_state(self.nics)

    async def create(self, nics: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """A running VM with these interfaces."""
        payload = {
            "uuid": new_uuid(),
            "brand": "kvm",
            "image_uuid": self.image,
            "ram": 128,
            "nics": nics,
            **more,
        }
        return await self.driver.create(payload, lambda _step, _percent: None)


async def open_machines(
    directory: Path, image: Path, prefix: str, subnet: str, network_uuid: str, uuid: str
) -> Machines:
    """A VM driver on ``directory``, as an agent would open it."""

    async def describe(wanted: str) -> dict[str, Any] | None:
        return {"uuid": wanted, "type": "vm"} if wanted in (uuid, OTHER_IMAGE) else None

    files: dict[str, Path] = {}

    async def fetch(wanted: str, path: Path) -> None:
        os.link(files.get(wanted, image), path)

    images = ImageStore(
        directory / "images", describe=describe, fetch=fetch, id_base=None, vm_group=QEMU_UID
    )
    await images.open()
    store = MachineStore(directory / "vms")
    store.open()
    network = NetworkApplier(prefix, directory / "network.json")
    volumes = VolumeStore(directory / "volumes")
    hypervisor = QemuHypervisor(directory / "qemu", store, images, prefix=prefix, volumes=volumes)
    driver = Driver(Hypervisors(store, hypervisor), store, images, dict, volumes)
    await driver.open()
    return Machines(
        driver=driver, hypervisor=hypervisor, store=store, images=images, network=network, files=files,
        prefix=prefix, subnet=subnet, network_uuid=network_uuid, image=uuid,
    )  # fmt: skip


@contextlib.contextmanager
def ended_at_once() -> Iterator[None]:
    """Be the parent of orphans meanwhile, and take the ends of QEMU and libvirtd.

    libvirt waits until an ended QEMU is gone from the process table. That is the first process's
    work, and in some containers it comes to it once in two seconds: a minute over all tests.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    stop = threading.Event()

    def take() -> None:
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
        while not stop.wait(0.02):
            for pid in children.read_text().split():
                with contextlib.suppress(OSError):
                    fields = Path(f"/proc/{pid}/stat").read_text()
                    name, state = fields.partition("(")[2].rpartition(") ")[::2]
                    # Other children are somebody's who waits for them.
                    if state.startswith("Z") and name in ("qemu-system-x86", "libvirtd"):
                        os.waitpid(int(pid), os.WNOHANG)

    thread = threading.Thread(target=take)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    thread.start()
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        stop.set()
        thread.join()


def vm_traces(prefix: str, directory: Path) -> list[str]:
    """Everything of a VM driver that is left on this machine outside of its data directory."""
    links = [path.name for path in Path("/sys/class/net").iterdir()]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    processes = subprocess.run(
        ["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True
    )
    uuids = {path.name for path in (directory / "qemu/run/qemu").glob("*.pid")}
    return [
        *(f"link {name}" for name in links if name.startswith(prefix)),
        *(line for line in mounts if str(directory) in line),
        # Not the whole tree: groups of others come and go while we look.
        *(str(group) for group in Path("/sys/fs/cgroup").glob(f"vetro.{prefix}-*/*-*")),
        *(str(group) for group in Path("/sys/fs/cgroup").glob(f"*/vetro.{prefix}-*/*-*")),
        *(
            line
            for line in processes.stdout.splitlines()
            if str(directory) in line or any(uuid in line for uuid in uuids)
        ),
    ]


@pytest.fixture
async def machines(
    tmp_path: Path, vm_image: Path, vm_host: Path, node_names: tuple[str, str], kit: SimpleNamespace
) -> AsyncIterator[Machines]:
    """A VM driver; afterwards nothing of it may be left on the machine."""
    prefix, subnet = node_names
    know_the_host(vm_host, tmp_path)
    with ended_at_once():
        opened = await open_machines(tmp_path, vm_image, prefix, subnet, kit.new_uuid(), kit.image)
        yield opened
        for vm in opened.store:
            await opened.driver.delete(vm["uuid"])
        await opened.network.apply({"version": 10**9})
        await opened.driver.close()
    assert vm_traces(prefix, tmp_path) == []


@pytest.fixture
def vm_kit() -> SimpleNamespace:
    """The functions above: test modules cannot import this one."""
    return SimpleNamespace(
        open_machines=open_machines,
        traces=vm_traces,
        know_the_host=know_the_host,
        ended_at_once=ended_at_once,
        other_image=OTHER_IMAGE,
    )
