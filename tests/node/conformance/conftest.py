"""One rig for each driver: a driver on a directory of its own, and what the suite needs beside it.

A driver joins the suite with one more entry in ``RIGS``: ``open`` is an async context manager that takes
the test's directory and the ``kit``. A test marked ``needs("feature", …)`` runs on the drivers that have
these features, one marked ``needs(boots=True)`` on those whose VMs really run something,
``needs(killed=True)`` on those that another process can open on the same directory.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.node.conftest import OTHER_IMAGE
from tests.node.drivers import conftest as support

from vetro.node.drivers import Driver, Hypervisors
from vetro.node.drivers.process import ProcessHypervisor
from vetro.node.images.store import ImageStore
from vetro.node.processes import processes_by_pid
from vetro.node.vm_objects import MachineStore


@dataclass
class Rig:
    """A driver under test.

    ``payload()`` gives a new VM's payload, ready for this driver (its networks are there).
    ``reopen()`` ends this driver and opens another one on the same files, as a restart of the agent
    does. ``leftovers()`` lists what is still on the machine outside of the data directory.
    """

    driver: Any
    payload: Callable[..., dict[str, Any]]
    reopen: Callable[[], Any]
    directory: Path
    image: str
    other_image: str = OTHER_IMAGE
    leftovers: Callable[[], list[str]] = list
    events: list[str] = field(default_factory=list)

    @property
    def features(self) -> set[str]:
        """What the driver says it can."""
        return set(self.driver.capabilities()["features"])

    async def create(self, **changes: Any) -> dict[str, Any]:
        """A new VM."""
        return await self.driver.create(self.payload(**changes), lambda _step, _percent: None)


async def image_store(directory: Path, image: str) -> ImageStore:
    """Images of a driver without root file systems: there are two."""

    async def describe(uuid: str) -> dict[str, Any] | None:
        return {"uuid": uuid, "name": "tiny"} if uuid in (image, OTHER_IMAGE) else None

    async def fetch(_uuid: str, _path: Path) -> None:
        raise AssertionError("a driver without root file systems fetches no file")

    store = ImageStore(directory / "images", describe=describe, fetch=fetch, id_base=None)
    await store.open()
    return store


@contextlib.asynccontextmanager
async def simulated_rig(directory: Path, kit: SimpleNamespace) -> AsyncIterator[Rig]:
    """Records only."""

    async def open_driver() -> Any:
        return (
            await kit.simulate(directory, images=await image_store(directory, kit.image))
        ).driver

    rig = Rig(await open_driver(), payload_of(kit), open_driver, directory, kit.image)
    yield rig
    await rig.driver.close()


@contextlib.asynccontextmanager
async def process_rig(directory: Path, kit: SimpleNamespace) -> AsyncIterator[Rig]:
    """Processes of this user."""

    async def open_driver() -> Any:
        images = await image_store(directory, kit.image)
        store = MachineStore(directory / "vms")
        hypervisors = Hypervisors(store, ProcessHypervisor(store, None, sys.executable))
        driver = Driver(hypervisors, store, images, dict)
        await driver.open()
        return driver

    rig = Rig(
        await open_driver(), payload_of(kit), open_driver, directory, kit.image,
        leftovers=lambda: [
            f"process {pid}"
            for pid, argv in processes_by_pid()
            if any(word.startswith(f"{directory}/vms/") for word in argv)
        ],
    )  # fmt: skip
    yield rig
    for vm in await rig.driver.list(include_dni=True):
        await rig.driver.delete(vm["uuid"])
    await rig.driver.close()
    assert rig.leftovers() == []


def payload_of(kit: SimpleNamespace) -> Callable[..., dict[str, Any]]:
    """Payloads without interfaces."""

    def payload(**changes: Any) -> dict[str, Any]:
        return {"uuid": kit.new_uuid(), "brand": "lx", "image_uuid": kit.image, **changes}

    return payload


@contextlib.asynccontextmanager
async def lxc_rig(directory: Path, kit: SimpleNamespace) -> AsyncIterator[Rig]:
    """Containers with a network of their own."""
    prefix, subnet = kit.node_names
    first = await kit.open_containers(directory, prefix, subnet)
    # Another process that opens the same rig has the same network.
    first.network_uuid = getattr(kit, "network_uuid", first.network_uuid)
    await first.apply([])
    hosts = iter(range(5, 250))

    def payload(**changes: Any) -> dict[str, Any]:
        nic = first.nic(next(hosts))
        return {**payload_of(kit)(), "nics": [nic], **changes}

    async def reopen() -> Any:
        return (await kit.open_containers(directory, prefix, subnet)).driver

    rig = Rig(
        first.driver, payload, reopen, directory, kit.image,
        leftovers=lambda: [
            trace for trace in kit.traces(prefix, directory)
            # The network of the test is no trace of a VM.
            if not trace.startswith(f"link {prefix}b") and not trace.startswith("table")
        ],
    )  # fmt: skip
    yield rig
    for vm in await rig.driver.list(include_dni=True):
        await rig.driver.delete(vm["uuid"])
    await first.network.apply({"version": 10**9})
    await rig.driver.close()
    assert kit.traces(prefix, directory) == []


@contextlib.asynccontextmanager
async def lxc_btrfs_rig(directory: Path, kit: SimpleNamespace) -> AsyncIterator[Rig]:
    """Containers whose data directory is on btrfs."""
    with kit.loop_mount(directory, "btrfs", 8192) as mounted:
        async with lxc_rig(mounted, kit) as rig:
            yield rig


@contextlib.asynccontextmanager
async def qemu_rig(directory: Path, kit: SimpleNamespace) -> AsyncIterator[Rig]:
    """Virtual machines with a network of their own."""
    prefix, subnet = kit.node_names
    factory = kit.request.getfixturevalue("tmp_path_factory")
    image = support.image_file(factory)
    support.know_the_host(support.host_directory(factory), directory)
    network = kit.new_uuid()

    async def open_machines() -> Any:
        return await support.open_machines(directory, image, prefix, subnet, network, kit.image)

    burials = contextlib.ExitStack()
    burials.enter_context(support.ended_at_once())
    first = await open_machines()
    await first.apply()
    hosts = iter(range(5, 250))

    def payload(**changes: Any) -> dict[str, Any]:
        given = payload_of(kit)(brand="kvm", ram=128, nics=[first.new_nic(next(hosts))])
        return {**given, **changes}

    async def reopen() -> Any:
        return (await open_machines()).driver

    rig = Rig(
        first.driver, payload, reopen, directory, kit.image,
        leftovers=lambda: [
            trace for trace in support.vm_traces(prefix, directory)
            # The network of the test and the agent's libvirt are no traces of a VM.
            if not trace.startswith(f"link {prefix}b") and "libvirtd" not in trace
        ],
    )  # fmt: skip
    yield rig
    for vm in await rig.driver.list(include_dni=True):
        await rig.driver.delete(vm["uuid"])
    await first.network.apply({"version": 10**9})
    await rig.driver.close()
    burials.close()
    assert support.vm_traces(prefix, directory) == []


@dataclass(frozen=True)
class Entry:
    """A driver in the suite. ``features`` must be what the driver says of itself."""

    open: Callable[..., AbstractAsyncContextManager[Rig]]
    features: frozenset[str]
    boots: bool = True
    root: bool = False
    killed: bool = False
    thorough: bool = False

    def marks(self) -> list[pytest.MarkDecorator]:
        """What its cases need, and whether `make test` leaves them to `make test-all`."""
        return [pytest.mark.root] * self.root + [pytest.mark.thorough] * self.thorough


LXC_FEATURES = frozenset(
    {
        "container", "isolation", "network", "exec", "reprovision", "snapshots", "files", "stats",
        "hotplug", "cpu-cap", "volumes",
    }
)  # fmt: skip

RIGS = {
    "simulated": Entry(
        simulated_rig,
        frozenset({"network", "reprovision", "snapshots", "hotplug", "volumes"}),
        boots=False,
        killed=True,
    ),
    "process": Entry(
        process_rig,
        frozenset({"exec", "files", "reprovision", "snapshots", "stats"}),
        killed=True,
    ),
    "lxc": Entry(
        lxc_rig,
        LXC_FEATURES,
        root=True,
        killed=True,
    ),
    "lxc-btrfs": Entry(lxc_btrfs_rig, LXC_FEATURES, root=True, thorough=True),
    "qemu": Entry(
        qemu_rig,
        frozenset(
            {
                "isolation",
                "network",
                "exec",
                "reprovision",
                "snapshots",
                "stats",
                "cpu-cap",
                "console",
                "live-migration",
                "volumes",
            }
        ),
        root=True,
        thorough=True,
    ),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on the drivers that have the features it is about."""
    if "rig" not in metafunc.fixturenames:
        return
    marks = list(metafunc.definition.iter_markers("needs"))
    needed = {feature for mark in marks for feature in mark.args}
    boots = any(mark.kwargs.get("boots") for mark in marks)
    killed = any(mark.kwargs.get("killed") for mark in marks)
    metafunc.parametrize(
        "rig",
        [
            pytest.param(name, marks=entry.marks())
            for name, entry in RIGS.items()
            if needed <= entry.features
            and (entry.boots or not boots)
            and (entry.killed or not killed)
        ],
        indirect=True,
    )


@pytest.fixture
async def rig(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    kit: SimpleNamespace,
    node_names: tuple[str, str],
) -> AsyncIterator[Rig]:
    """A driver, one after the other."""
    kit.node_names = node_names
    kit.request = request
    entry = RIGS[request.param]
    async with entry.open(tmp_path, kit) as opened:
        assert opened.features == entry.features
        opened.driver.watch(opened.events.append)
        yield opened
